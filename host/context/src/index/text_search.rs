//! Narrows a search: finds the files that cannot match, by their trigrams.
//!
//! A search skips a file only if its index entry is up to date and its trigrams do not satisfy the query of the search.
//! It reads all other files: new and changed ones, those of a damaged segment, and all files while there is no index.
//! After the search, an update adds the files that the index did not know.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use super::catalogue::ContentDigest;
use super::indexer::FileIndexer;
use super::pattern::{SearchPattern, TrigramQuery};
use super::postings::{DocumentPlace, PostedDocument};
use super::trigrams::TrigramCollector;
use super::update::IndexUpdate;
use super::{Indexes, yield_to_others};
use crate::codec::put_number;
use tool_core::text::decode_utf16;
use tool_repository::{FileList, Repository, bulk};

/// Attributes of documents. A content with a NUL near its beginning is binary, and its trigrams are not stored.
const TEXT: u64 = 0;
const BINARY: u64 = 1;

/// Verdict on a file of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileVerdict {
    /// It may match.
    Candidate,
    /// It is text and does not match.
    Text,
    /// The file is not text.
    Binary,
}

impl Indexes {
    /// True if the index has trigrams, and the patterns can rule files out.
    pub fn can_narrow(&self, repository: &Repository, patterns: &[SearchPattern]) -> bool {
        repository.layer().is_none()
            && TrigramQuery::new(patterns) != TrigramQuery::All
            && !self.index(repository).lock().trigrams.is_empty()
    }

    /// Verdicts on the files of a list, in its order. `None` if the patterns require no trigram, so that they rule out
    /// no file.
    pub fn narrow(
        &self,
        repository: &Repository,
        list: &Arc<FileList>,
        patterns: &[SearchPattern],
    ) -> Option<Vec<FileVerdict>> {
        let query = TrigramQuery::new(patterns);
        // The index knows nothing of the files in a layer.
        if query == TrigramQuery::All || repository.layer().is_some() {
            return None;
        }
        let index = self.index(repository);
        let catalogue = index.catalogue();
        let documents = index.documents(&catalogue, list).trigrams;
        let postings = &documents.postings;
        let found = postings.find(&query);
        if found.contains(&None) {
            index.drop_damaged(postings, &found);
        }
        let verdict = |place: &Option<DocumentPlace>| {
            let known = place.and_then(|place| Some((place, found[place.segment as usize].as_ref()?)));
            match known {
                None => FileVerdict::Candidate,
                Some((place, _)) if postings.attribute(place) == BINARY => FileVerdict::Binary,
                Some((place, matching)) if matching[place.document as usize] => FileVerdict::Candidate,
                Some(_) => FileVerdict::Text,
            }
        };
        Some(documents.places.iter().map(verdict).collect())
    }

    /// Brings the index up to date in the background after a search of a list.
    pub fn update_after_search(self: &Arc<Self>, repository: &Arc<Repository>, list: &Arc<FileList>) {
        if repository.layer().is_some() || !list.complete || !repository.has_reliable_times() {
            return;
        }
        let Some(permit) = SearchUpdatePermit::try_take(self) else {
            return;
        };
        let (indexes, repository, list) = (Arc::clone(self), Arc::clone(repository), Arc::clone(list));
        let update = move || {
            let _permit = permit;
            yield_to_others();
            let index = indexes.index(&repository);
            let catalogue = index.catalogue();
            let lacks_files = index.documents(&catalogue, &list).lacks_files();
            if !lacks_files && catalogue.entries.len() <= list.files.len() {
                return;
            }
            let indexer = FileIndexer::new(&indexes, &repository, &list, &CancellationToken::new());
            IndexUpdate::after_search(indexer).start(false);
        };
        if !self.in_background {
            return update();
        }
        // If no thread can be started, the next request tries again.
        let _ = std::thread::Builder::new().name("index".to_owned()).spawn(update);
    }
}

/// Permit to check after a search whether the index lacks files. One thread at a time has it, however many searches
/// end.
struct SearchUpdatePermit(Arc<Indexes>);

impl SearchUpdatePermit {
    fn try_take(indexes: &Arc<Indexes>) -> Option<Self> {
        let is_taken = indexes.is_checking_after_search.swap(true, Ordering::AcqRel);
        (!is_taken).then(|| Self(Arc::clone(indexes)))
    }
}

impl Drop for SearchUpdatePermit {
    fn drop(&mut self) {
        self.0.is_checking_after_search.store(false, Ordering::Release);
    }
}

impl FileIndexer {
    /// The trigrams of a content, unless the postings have them already.
    pub(super) fn trigrams_of(&self, digest: &ContentDigest, content: &[u8]) -> Option<PostedDocument> {
        let postings = Arc::clone(&self.index.lock().trigrams);
        if postings.is_full || postings.place_of(digest).is_some() {
            return None;
        }
        // As a full search reads it.
        let (attribute, keys) = match decode_utf16(content) {
            Some(text) => (TEXT, self.collect_trigrams(text.as_bytes())),
            None if bulk::is_binary(content) => (BINARY, Box::default()),
            None => (TEXT, self.collect_trigrams(content)),
        };
        Some(PostedDocument {
            digest: *digest,
            attribute,
            keys,
        })
    }

    fn collect_trigrams(&self, content: &[u8]) -> Box<[u8]> {
        let collectors = || {
            self.collectors
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        let known = collectors().pop();
        let mut collector = known.unwrap_or_else(TrigramCollector::new);
        let (mut bytes, mut last) = (Vec::new(), 0);
        collector.collect(content, |trigram| {
            put_number(&mut bytes, trigram - last);
            last = trigram;
        });
        collectors().push(collector);
        bytes.into()
    }
}

#[cfg(test)]
mod tests;
