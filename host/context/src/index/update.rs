//! Brings an index up to date after a request: reads missing files, parses them into syntax trees, and writes the
//! results.

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

pub(super) struct IndexUpdate {
    pub(super) indexer: FileIndexer,
    /// False if this update parses no syntax trees.
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

    /// Runs the update on a new thread or, if `Indexes::in_background` is false, on this thread. Does nothing if the
    /// index is up to date and the request lacked no syntax trees.
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
        let Some(permit) = UpdatePermit::try_take(indexes, index) else {
            // A running update stops reading syntax trees, because files that were never read matter more.
            indexes.is_update_waiting.fetch_or(is_behind, Ordering::AcqRel);
            return;
        };
        indexes.is_update_waiting.store(false, Ordering::Release);
        if !indexes.in_background {
            return self.run(&permit);
        }
        let name = "index".to_owned();
        // If no thread can be started, the next request tries again.
        let _ = std::thread::Builder::new().name(name).spawn(move || self.run(&permit));
    }

    pub(super) fn lacks_files(&self) -> bool {
        let is_full = self.indexer.index.lock().is_full;
        !is_full && self.indexer.missing().next().is_some() || self.indexer.documents().lacks_files()
    }

    pub(super) fn run(&self, _permit: &UpdatePermit) {
        let indexer = &self.indexer;
        if indexer.indexes.in_background {
            yield_to_others();
        }
        indexer.documents().mark_tried();
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

    /// The files that the update has to read, as far as the index has room for them.
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

    /// Calls `collect` for each item on all processors, until all are done or `has_to_stop` returns true. Writes the
    /// collected files at the end, and each time that `enough` bytes of them are pending.
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

    /// True if so many bytes are pending that it is time to write them.
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
    /// Writes the pending files. Does nothing while another writer holds the lock.
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
        store::prune_indexes(&indexes.folder, &self.key.name(), bounds.indexes, bounds.indexes_bytes);
        Ok(())
    }
}

/// The files of a catalogue that are no longer listed. None if the list is incomplete: it does not prove that a file is
/// gone.
fn unlisted_paths<'a>(catalogue: &'a Catalogue, list: &FileList) -> HashSet<&'a str> {
    let mut files = list.files.iter().peekable();
    let mut is_unlisted = |path: &&str| {
        while files.next_if(|file| file.path.as_str() < *path).is_some() {}
        files.next_if(|file| file.path == *path).is_none()
    };
    let paths = catalogue.entries.iter().map(|entry| &*entry.path);
    paths.filter(|path| list.complete && is_unlisted(path)).collect()
}

/// Permit for an update: at most one for each index, and `IndexBounds::updates` for all indexes together.
pub(super) struct UpdatePermit {
    indexes: Arc<Indexes>,
    index: Arc<Index>,
}

impl UpdatePermit {
    pub(super) fn try_take(indexes: &Arc<Indexes>, index: &Arc<Index>) -> Option<Self> {
        if index.is_updating.swap(true, Ordering::AcqRel) {
            return None;
        }
        if indexes.updates.fetch_add(1, Ordering::AcqRel) >= indexes.bounds.updates {
            indexes.updates.fetch_sub(1, Ordering::AcqRel);
            index.is_updating.store(false, Ordering::Release);
            return None;
        }
        Some(Self {
            indexes: Arc::clone(indexes),
            index: Arc::clone(index),
        })
    }
}

impl Drop for UpdatePermit {
    fn drop(&mut self) {
        self.index.is_updating.store(false, Ordering::Release);
        self.indexes.updates.fetch_sub(1, Ordering::AcqRel);
    }
}
