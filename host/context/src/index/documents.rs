//! The documents of a list of files: the content that the postings know of each file as it is.
//!
//! They are looked up once for as long as the list, the catalogue and the postings stay.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::catalogue::{Catalogue, ContentDigest, RecordExtent};
use super::postings::{DocumentPlace, PostedDocument, Postings, PostingsKind};
use super::{Index, IndexState, Look, valid};
use crate::limits;
use tool_repository::FileList;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct KnownDocuments {
    list: Arc<FileList>,
    catalogue: Arc<Catalogue>,
    /// By the list's order: the place of each file's entry in the catalogue, where it answers for the file.
    pub(super) entries: Arc<[Option<u32>]>,
    /// True where the catalogue has files that are not listed any more.
    pub(super) has_gone: bool,
    pub(super) trigrams: PostedList,
    pub(super) words: PostedList,
    /// True once a thread has tried to read those that are not known: a file that cannot be read is not tried again.
    is_tried: Arc<AtomicBool>,
}

/// Postings with the documents of a list.
#[derive(Debug, Clone)]
pub(super) struct PostedList {
    pub(super) postings: Arc<Postings>,
    /// By the list's order.
    pub(super) places: Arc<[Option<DocumentPlace>]>,
}

impl PostedList {
    fn new(postings: Arc<Postings>, catalogue: &Catalogue, entries: &[Option<u32>]) -> Self {
        let place = |entry: &Option<u32>| postings.place_of(&catalogue.entries[(*entry)? as usize].digest);
        let places = entries.iter().map(place).collect();
        Self { postings, places }
    }
}

impl KnownDocuments {
    fn is_of(&self, list: &Arc<FileList>, catalogue: &Arc<Catalogue>, state: &IndexState) -> bool {
        Arc::ptr_eq(&self.list, list)
            && Arc::ptr_eq(&self.catalogue, catalogue)
            && Arc::ptr_eq(&self.trigrams.postings, &state.trigrams)
            && Arc::ptr_eq(&self.words.postings, &state.words)
    }

    /// True where the postings lack files that no thread has tried to read.
    pub(super) fn lacks(&self) -> bool {
        !self.is_tried.load(Ordering::Relaxed) && self.unknown().next().is_some()
    }

    /// Files that the postings should know and do not.
    fn unknown(&self) -> impl Iterator<Item = usize> + '_ {
        let (trigrams, words) = (&self.trigrams, &self.words);
        let lacks = move |at: &usize| {
            let lacks_trigrams = trigrams.places[*at].is_none()
                && !trigrams.postings.is_full
                && self.list.files[*at].size <= limits::SEARCHED_FILE_BYTES_MAX;
            let lacks_words = words.places[*at].is_none() && !words.postings.is_full && self.has_profile(*at);
            lacks_trigrams || lacks_words
        };
        (0..self.list.files.len()).filter(lacks)
    }

    fn has_profile(&self, at: usize) -> bool {
        let place = self.entries[at].map(|entry| self.catalogue.entries[entry as usize].place);
        place.is_some_and(|place| place != RecordExtent::NONE && place.bytes > 0)
    }
}

impl IndexState {
    fn postings(&mut self, kind: PostingsKind) -> &mut Arc<Postings> {
        match kind {
            PostingsKind::Trigrams => &mut self.trigrams,
            PostingsKind::Words => &mut self.words,
        }
    }
}

impl Index {
    /// The documents of a list.
    pub(super) fn documents(&self, catalogue: &Arc<Catalogue>, list: &Arc<FileList>) -> KnownDocuments {
        let (trigrams, words) = {
            let state = self.lock();
            let known = state.documents.as_ref();
            if let Some(known) = known.filter(|known| known.is_of(list, catalogue, &state)) {
                return known.clone();
            }
            (Arc::clone(&state.trigrams), Arc::clone(&state.words))
        };
        let (entries, has_gone) = valid(catalogue, list);
        let documents = KnownDocuments {
            list: Arc::clone(list),
            catalogue: Arc::clone(catalogue),
            trigrams: PostedList::new(trigrams, catalogue, &entries),
            words: PostedList::new(words, catalogue, &entries),
            entries: entries.into(),
            has_gone,
            is_tried: Arc::default(),
        };
        self.lock().documents = Some(documents.clone());
        documents
    }

    /// Forgets the segments that an answer of some postings has nothing for.
    pub(super) fn drop_damaged<T>(&self, postings: &Arc<Postings>, found: &[Option<T>]) {
        let mut state = self.lock();
        let current = state.postings(postings.kind());
        if Arc::ptr_eq(current, postings) {
            *current = Arc::new(postings.without_damaged(found));
        }
    }

    /// Writes the keys of contents that are new. The caller holds the lock of the store.
    pub(super) fn write_postings(
        &self,
        kind: PostingsKind,
        live: &HashSet<ContentDigest>,
        added: &[PostedDocument],
        has_gone: bool,
        bytes_max: u64,
    ) -> io::Result<()> {
        let mut base = Arc::clone(self.lock().postings(kind));
        // Another process may have written.
        if base.mark() != self.store.postings_mark(kind) {
            base = Arc::new(base.reloaded(&self.store));
        }
        let written = self.store.write_postings(&base, added, live, has_gone, bytes_max)?;
        *self.lock().postings(kind) = Arc::new(written);
        Ok(())
    }
}

impl Look {
    fn documents(&self) -> KnownDocuments {
        self.index.documents(&self.catalogue, &self.list)
    }

    /// Files that are to be read for the postings.
    pub(super) fn unposted(&self) -> Vec<usize> {
        self.documents().unknown().collect()
    }

    pub(super) fn lacks_postings(&self) -> bool {
        self.documents().lacks()
    }

    /// Notes that the files are read that the postings do not know.
    pub(super) fn note_fill(&self) {
        self.documents().is_tried.store(true, Ordering::Relaxed);
    }
}
