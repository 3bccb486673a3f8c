//! An index as one request sees it: answers from the profiles that are kept, and reads the missing ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::Indexes;
use super::bounds::FIRST_HISTORY_WAIT;
use super::indexer::FileIndexer;
use super::update::IndexUpdate;
use crate::history::{HISTORY_WALK_TIME, History};
use crate::layout::Layout;
use crate::limits;
use crate::query::Query;
use crate::word_hits::WordHits;
use crate::{ProfileLookup, Source};
use tool_repository::{FileList, Repository};

/// See the module.
pub(crate) struct IndexView {
    pub(super) indexer: FileIndexer,
    /// When the caller began to wait for the answer: the list was made after that.
    pub(super) asked: Instant,
    /// Number of files that this request had to read.
    pub(super) files_read: AtomicUsize,
    /// False where earlier commits may not count: then they are not read either.
    takes_history: bool,
    /// By the list's order: files whose symbols were wanted and that no thread has tried to read by syntax tree.
    treeless: Vec<AtomicBool>,
}

impl Indexes {
    /// Returns the profiles of a repository whose files are `list`, for a request that has waited since `asked`.
    pub(crate) fn view(
        self: &Arc<Self>,
        repository: &Arc<Repository>,
        list: &Arc<FileList>,
        asked: Instant,
        cancel: &CancellationToken,
    ) -> IndexView {
        IndexView {
            indexer: FileIndexer::new(self, repository, list, cancel),
            asked,
            files_read: AtomicUsize::new(0),
            takes_history: true,
            treeless: list.files.iter().map(|_| AtomicBool::new(false)).collect(),
        }
    }
}

impl Source for IndexView {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let bytes_max = limits::FILE_READ_BYTES_MAX;
        let FileIndexer { repository, cancel, .. } = &self.indexer;
        repository.read_within(path, bytes_max, cancel).ok()
    }

    fn profile(&self, path: &str) -> ProfileLookup {
        let at = self.indexer.files.list.index_of(path);
        at.map_or(ProfileLookup::Absent, |at| self.profile_at(at))
    }

    fn profile_near(&self, path: &str, at: usize) -> ProfileLookup {
        let at = self.indexer.files.find_near(path, at);
        at.map_or(ProfileLookup::Absent, |at| self.profile_at(at))
    }

    fn word_hits(&self, query: &Query, paths: &[&str], files: &[usize]) -> Option<WordHits> {
        self.find_words(query, paths, files)
    }

    fn history(&self) -> Option<Arc<History>> {
        if !self.takes_history {
            return None;
        }
        let FileIndexer {
            indexes,
            index,
            repository,
            cancel,
            ..
        } = &self.indexer;
        if indexes.in_background {
            index.history.wait_for_first(self.asked + FIRST_HISTORY_WAIT);
        } else if let Some(permit) = index.history.permit() {
            index.refresh_history(permit, indexes, repository, HISTORY_WALK_TIME, cancel);
        }
        Some(index.history.current()).filter(|history| !history.is_empty())
    }

    fn treeless(&self) -> usize {
        self.treeless.iter().filter(|one| one.load(Ordering::Relaxed)).count()
    }
}

impl IndexView {
    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.indexer.layout
    }

    /// The history, if it has this number of commits or all that there are.
    pub(crate) fn newest_commits(&self, number: usize) -> Option<Arc<History>> {
        let history = self.history()?;
        (history.has(number) || self.indexer.index.history.is_complete()).then_some(history)
    }

    /// Leaves earlier commits alone, where they do not count. Else begins to read them, where none were ever read.
    pub(crate) fn without_history_if(self, is_so: bool) -> Self {
        let takes_history = self.takes_history && !is_so;
        let FileIndexer {
            indexes,
            index,
            repository,
            ..
        } = &self.indexer;
        if indexes.in_background && takes_history {
            index.begin_history(indexes, repository);
        }
        Self { takes_history, ..self }
    }

    /// Ends the request, and starts the work that brings the index up to date with what was seen.
    pub(crate) fn finish(self) {
        let FileIndexer {
            indexes,
            index,
            repository,
            ..
        } = &self.indexer;
        if indexes.in_background && self.takes_history {
            index.continue_history(indexes, repository);
        }
        let lacks_trees = self.treeless() > 0;
        IndexUpdate::after_selection(self.indexer).start(lacks_trees);
    }

    fn profile_at(&self, at: usize) -> ProfileLookup {
        let files = &self.indexer.files;
        let kept = files.profile_place(at).and_then(|place| files.catalogue.profile(place));
        let profile = match kept {
            Some(profile) => profile,
            None if self.indexer.layout.written[at] && self.is_late() => return ProfileLookup::Later,
            None => {
                self.files_read.fetch_add(1, Ordering::Relaxed);
                self.indexer.measure(at)
            }
        };
        let waits_for_tree = self.indexer.waits_for_tree(at, profile.as_ref());
        self.treeless[at].store(waits_for_tree, Ordering::Relaxed);
        ProfileLookup::from(profile)
    }

    /// True where the request should rather answer from the present profiles.
    fn is_late(&self) -> bool {
        let FileIndexer {
            indexes, repository, ..
        } = &self.indexer;
        indexes.in_background
            && repository.has_reliable_times()
            && self.files_read.load(Ordering::Relaxed) >= indexes.bounds.wait_files
            && self.asked.elapsed() > indexes.bounds.wait
    }
}
