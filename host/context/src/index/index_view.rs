//! The view that one request has of an index: it returns stored profiles, and reads the files whose profiles are
//! missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::Indexes;
use super::bounds::FIRST_HISTORY_WAIT;
use super::indexer::FileIndexer;
use super::update::IndexUpdate;
use crate::history::{HISTORY_WALK_TIME, History};
use crate::layout::TreeLayout;
use crate::limits;
use crate::query::Query;
use crate::word_hits::WordHits;
use crate::{FileSource, ProfileLookup};
use tool_repository::{FileList, Repository};

pub(crate) struct IndexView {
    pub(super) indexer: FileIndexer,
    /// Start of the request, before the files were listed.
    pub(super) started: Instant,
    /// Number of files that this request had to read.
    pub(super) files_read: AtomicUsize,
    /// False if the request ignores earlier commits; then they are not read either.
    takes_history: bool,
    /// For each listed file: true if the request used its profile, and its syntax tree has not been parsed yet.
    unparsed: Vec<AtomicBool>,
}

impl Indexes {
    /// Returns the view of a repository whose files are `list`, for a request that began at `started`.
    pub(crate) fn open_view(
        self: &Arc<Self>,
        repository: &Arc<Repository>,
        list: &Arc<FileList>,
        started: Instant,
        cancel: &CancellationToken,
    ) -> IndexView {
        IndexView {
            indexer: FileIndexer::new(self, repository, list, cancel),
            started,
            files_read: AtomicUsize::new(0),
            takes_history: true,
            unparsed: list.files.iter().map(|_| AtomicBool::new(false)).collect(),
        }
    }
}

impl FileSource for IndexView {
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
            index.history.wait_for_first(self.started + FIRST_HISTORY_WAIT);
        } else if let Some(permit) = index.history.permit() {
            index.refresh_history(permit, indexes, repository, HISTORY_WALK_TIME, cancel);
        }
        Some(index.history.current()).filter(|history| !history.is_empty())
    }

    fn unparsed_count(&self) -> usize {
        self.unparsed.iter().filter(|one| one.load(Ordering::Relaxed)).count()
    }
}

impl IndexView {
    pub(crate) fn layout(&self) -> &Arc<TreeLayout> {
        &self.indexer.layout
    }

    /// The history, if it has at least this number of commits or is complete.
    pub(crate) fn newest_commits(&self, number: usize) -> Option<Arc<History>> {
        let history = self.history()?;
        (history.has(number) || self.indexer.index.history.is_complete()).then_some(history)
    }

    /// Says whether the request uses earlier commits. If so, and none were ever read, begins to read them.
    pub(crate) fn with_history(self, takes_history: bool) -> Self {
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

    /// Ends the request, and starts an update of the index.
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
        let lacks_trees = self.unparsed_count() > 0;
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
        self.unparsed[at].store(waits_for_tree, Ordering::Relaxed);
        ProfileLookup::from(profile)
    }

    /// True if the request has waited so long that it answers without the missing profiles.
    fn is_late(&self) -> bool {
        let FileIndexer {
            indexes, repository, ..
        } = &self.indexer;
        indexes.in_background
            && repository.has_reliable_times()
            && self.files_read.load(Ordering::Relaxed) >= indexes.bounds.wait_files
            && self.started.elapsed() > indexes.bounds.wait
    }
}
