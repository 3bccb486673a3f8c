//! Finds the document of each listed file in the inverted indexes.
//!
//! The result is cached until the list, the catalogue or the postings change.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::catalogue::{Catalogue, ContentDigest};
use super::known_files::KnownFiles;
use super::postings::{DocumentPlace, PostedDocument, Postings, PostingsKind};
use super::{Index, IndexState};
use crate::index::SEARCHED_FILE_BYTES_MAX;
use tool_repository::FileList;

#[derive(Debug, Clone)]
pub(super) struct KnownDocuments {
    pub(super) files: KnownFiles,
    pub(super) trigrams: PostedList,
    pub(super) words: PostedList,
    /// True once an update has tried to read the unknown files: a file that cannot be read is not tried again.
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
    fn new(postings: Arc<Postings>, files: &KnownFiles) -> Self {
        let place = |at| postings.place_of(&files.entry(at)?.digest);
        let places = (0..files.list.files.len()).map(place).collect();
        Self { postings, places }
    }
}

impl KnownDocuments {
    fn is_of(&self, list: &Arc<FileList>, catalogue: &Arc<Catalogue>, state: &IndexState) -> bool {
        self.files.is_of(list, catalogue)
            && Arc::ptr_eq(&self.trigrams.postings, &state.trigrams)
            && Arc::ptr_eq(&self.words.postings, &state.words)
    }

    /// True if the postings lack files that no update has tried to read.
    pub(super) fn lacks_files(&self) -> bool {
        !self.is_tried.load(Ordering::Relaxed) && self.missing().next().is_some()
    }

    /// Marks the missing files as tried.
    pub(super) fn mark_tried(&self) {
        self.is_tried.store(true, Ordering::Relaxed);
    }

    /// Files that belong into the postings and are not there.
    pub(super) fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let (trigrams, words, list) = (&self.trigrams, &self.words, &self.files.list);
        let is_missing = move |at: &usize| {
            let lacks_trigrams = trigrams.places[*at].is_none()
                && !trigrams.postings.is_full
                && list.files[*at].size <= SEARCHED_FILE_BYTES_MAX;
            let lacks_words = words.places[*at].is_none() && !words.postings.is_full && self.has_profile(*at);
            lacks_trigrams || lacks_words
        };
        (0..list.files.len()).filter(is_missing)
    }

    fn has_profile(&self, at: usize) -> bool {
        self.files.profile_place(at).is_some_and(|place| place.bytes > 0)
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
    pub(super) fn documents(&self, catalogue: &Arc<Catalogue>, list: &Arc<FileList>) -> KnownDocuments {
        let (trigrams, words) = {
            let state = self.lock();
            let known = state.documents.as_ref();
            if let Some(known) = known.filter(|known| known.is_of(list, catalogue, &state)) {
                return known.clone();
            }
            (Arc::clone(&state.trigrams), Arc::clone(&state.words))
        };
        let files = KnownFiles::new(list, catalogue);
        let documents = KnownDocuments {
            trigrams: PostedList::new(trigrams, &files),
            words: PostedList::new(words, &files),
            files,
            is_tried: Arc::default(),
        };
        self.lock().documents = Some(documents.clone());
        documents
    }

    /// Drops the segments for which `found` has `None`, because they are damaged.
    pub(super) fn drop_damaged<T>(&self, postings: &Arc<Postings>, found: &[Option<T>]) {
        let mut state = self.lock();
        let current = state.postings(postings.kind());
        if Arc::ptr_eq(current, postings) {
            *current = Arc::new(postings.without_damaged(found));
        }
    }

    /// Writes new documents. The caller holds the lock of the store.
    pub(super) fn write_postings(
        &self,
        kind: PostingsKind,
        live: &HashSet<ContentDigest>,
        added: &[PostedDocument],
        has_unlisted: bool,
        bytes_max: u64,
    ) -> io::Result<()> {
        let mut base = Arc::clone(self.lock().postings(kind));
        // Another process may have written.
        if base.version() != self.store.postings_version(kind) {
            base = Arc::new(base.reloaded(&self.store));
        }
        let written = self.store.write_postings(&base, added, live, has_unlisted, bytes_max)?;
        *self.lock().postings(kind) = Arc::new(written);
        Ok(())
    }
}
