//! Brings an index up to date after an answer: reads the files that it lacks, gives them syntax trees, and writes them.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::catalogue::{Catalogue, ContentDigest};
use super::indexer::{FileIndexer, PendingFiles};
use super::postings::PostingsKind;
use super::store::{self, IndexedFile};
use super::{Index, Indexes, yield_to_others};
use crate::each_in_parallel;
use tool_repository::FileList;

/// See the module.
pub(super) struct IndexUpdate {
    pub(super) indexer: FileIndexer,
    /// False where the files are not read by syntax tree.
    takes_trees: bool,
}

impl IndexUpdate {
    pub(super) fn after_selection(indexer: FileIndexer) -> Self {
        Self {
            indexer,
            takes_trees: true,
        }
    }

    /// A search asks for no symbols, so it leaves syntax trees to a selection.
    pub(super) fn after_search(indexer: FileIndexer) -> Self {
        Self {
            indexer,
            takes_trees: false,
        }
    }

    /// Does the work in the background or, where there is no background, now. Does nothing where nothing is new and the
    /// request lacked no syntax trees.
    pub(super) fn start(self, lacks_trees: bool) {
        let FileIndexer {
            indexes, index, files, ..
        } = &self.indexer;
        if !self.indexer.repository.has_reliable_times() {
            return;
        }
        let has_pending = !self.indexer.pending().files.is_empty();
        let is_behind = files.list.complete && files.has_unlisted || has_pending || self.lacks_files();
        if !is_behind && !lacks_trees {
            return;
        }
        let Some(permit) = IndexingPermit::take(indexes, index) else {
            // Trees make way for what has not been read at all.
            indexes.is_wanted.fetch_or(is_behind, Ordering::AcqRel);
            return;
        };
        indexes.is_wanted.store(false, Ordering::Release);
        if !indexes.in_background {
            return self.fill(&permit);
        }
        let name = "index".to_owned();
        // If no thread can be started, the next request tries again.
        let _ = std::thread::Builder::new().name(name).spawn(move || self.fill(&permit));
    }

    pub(super) fn lacks_files(&self) -> bool {
        let is_full = self.indexer.index.lock().is_full;
        !is_full && self.indexer.missing().next().is_some() || self.indexer.documents().lacks_files()
    }

    pub(super) fn fill(&self, _permit: &IndexingPermit) {
        let indexer = &self.indexer;
        if indexer.indexes.in_background {
            yield_to_others();
        }
        indexer.documents().note_try();
        let measure = |at: &usize| {
            if indexer.layout.is_kept(*at, indexer.files.list.files[*at].size) {
                indexer.measure(*at);
            } else {
                indexer.measure_trigrams(*at);
            }
        };
        let enough = indexer.indexes.bounds.pending_bytes;
        self.write_while(&self.unmeasured(), enough, || false, measure);
        if self.takes_trees {
            self.add_trees();
        }
    }

    /// The files that are still to be measured, as far as the index has room.
    fn unmeasured(&self) -> Vec<usize> {
        let is_full = self.indexer.index.lock().is_full;
        let missing = self.indexer.missing().filter(|_| !is_full);
        let documents = self.indexer.documents();
        let mut unmeasured: Vec<usize> = missing.chain(documents.missing()).collect();
        unmeasured.sort_unstable();
        unmeasured.dedup();
        let (pending, files) = (self.indexer.pending(), &self.indexer.files.list.files);
        unmeasured.retain(|at| !pending.files.contains_key(files[*at].path.as_str()));
        unmeasured
    }

    /// Calls `collect` for each item on all processors, until all are done or it has to stop. Writes the files that were
    /// collected at the end, and each time that `enough` bytes of them wait.
    pub(super) fn write_while<T: Sync>(
        &self,
        items: &[T],
        enough: usize,
        has_to_stop: impl Fn() -> bool + Sync,
        collect: impl Fn(&T) + Sync,
    ) {
        let mut left = items;
        while !left.is_empty() && !has_to_stop() {
            if self.has_enough(enough) {
                self.write_pending();
            }
            let done = each_in_parallel(left, |item| {
                collect(item);
                if has_to_stop() || self.has_enough(enough) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            left = &left[done..];
        }
        self.write_pending();
    }

    /// True where so much waits that it is better written.
    fn has_enough(&self, enough: usize) -> bool {
        let pending = self.indexer.pending();
        pending.bytes >= enough || pending.posted_bytes >= self.indexer.indexes.bounds.postings_pending
    }

    fn write_pending(&self) {
        let FileIndexer {
            indexes, index, files, ..
        } = &self.indexer;
        let pending = std::mem::take(&mut *self.indexer.pending());
        if let Err(error) = index.write(&files.list, pending, indexes) {
            tracing::warn!(%error, "the index cannot be kept; each request reads the files anew");
        }
    }
}

impl Index {
    /// Writes what was measured. Does nothing while another writer holds the lock.
    fn write(&self, list: &FileList, pending: PendingFiles, indexes: &Indexes) -> io::Result<()> {
        let bounds = &indexes.bounds;
        let Some(_lock) = self.store.lock()? else {
            return Ok(());
        };
        let (mut base, mut version) = {
            let state = self.lock();
            (Arc::clone(&state.catalogue), state.version)
        };
        if version.is_none() || version != self.store.version() {
            match self.store.load() {
                Some((theirs, now)) => (base, version) = (Arc::new(theirs), Some(now)),
                None => version = None,
            }
        }
        let unlisted = unlisted_paths(&base, list);
        if pending.files.is_empty() && version.is_some() && unlisted.is_empty() {
            return Ok(());
        }
        let has_unlisted = !unlisted.is_empty();
        let keeps = |path: &str| !unlisted.contains(path);
        let mut files: Vec<IndexedFile> = pending.files.into_values().collect();
        let trigrams: Vec<_> = files.iter_mut().filter_map(|one| one.trigrams.take()).collect();
        let words: Vec<_> = files.iter_mut().filter_map(|one| one.words.take()).collect();
        let written = self.store.write(&base, version.is_some(), keeps, files, bounds.bytes)?;
        let catalogue = Arc::new(written.catalogue);
        let mut state = self.lock();
        state.is_full = written.is_full;
        state.catalogue = Arc::clone(&catalogue);
        state.version = Some(written.version);
        drop(state);
        let live: HashSet<ContentDigest> = catalogue.entries.iter().map(|entry| entry.digest).collect();
        for (kind, added, bytes_max) in [
            (PostingsKind::Trigrams, trigrams, bounds.postings_bytes),
            (PostingsKind::Words, words, bounds.words_bytes),
        ] {
            self.write_postings(kind, &live, &added, has_unlisted, bytes_max)?;
        }
        store::prune(&indexes.folder, &self.key.name(), bounds.indexes, bounds.indexes_bytes);
        Ok(())
    }
}

/// The files of a catalogue that are not listed any more. A list that was cut short does not prove it of any.
fn unlisted_paths<'a>(catalogue: &'a Catalogue, list: &FileList) -> HashSet<&'a str> {
    let mut files = list.files.iter().peekable();
    let mut is_unlisted = |path: &&str| {
        while files.next_if(|file| file.path.as_str() < *path).is_some() {}
        files.next_if(|file| file.path == *path).is_none()
    };
    let paths = catalogue.entries.iter().map(|entry| &*entry.path);
    paths.filter(|path| list.complete && is_unlisted(path)).collect()
}

/// The right to fill an index. One at a time has it for each index, and not more than a few for all of them.
pub(super) struct IndexingPermit {
    indexes: Arc<Indexes>,
    index: Arc<Index>,
}

impl IndexingPermit {
    pub(super) fn take(indexes: &Arc<Indexes>, index: &Arc<Index>) -> Option<Self> {
        if index.is_filling.swap(true, Ordering::AcqRel) {
            return None;
        }
        if indexes.filling.fetch_add(1, Ordering::AcqRel) >= indexes.bounds.filling {
            indexes.filling.fetch_sub(1, Ordering::AcqRel);
            index.is_filling.store(false, Ordering::Release);
            return None;
        }
        Some(Self {
            indexes: Arc::clone(indexes),
            index: Arc::clone(index),
        })
    }
}

impl Drop for IndexingPermit {
    fn drop(&mut self) {
        self.index.is_filling.store(false, Ordering::Release);
        self.indexes.filling.fetch_sub(1, Ordering::AcqRel);
    }
}
