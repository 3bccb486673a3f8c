//! When a history is read: beside the requests, after an answer, and not more often than each few seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{CommitId, History, HistoryReader, WalkedCommit, WalkedHistory};
use tool_repository::Repository;

/// Time between two looks at the work tree's commit. A look starts a process, and a commit that is some seconds old says
/// little about the next task.
const HISTORY_CHECK_SECONDS: u64 = 10;

/// The history of one repository, as far as it has been read.
#[derive(Debug, Default)]
pub(crate) struct HistoryCell {
    state: Mutex<HistoryState>,
    is_reading: AtomicBool,
}

#[derive(Debug, Default)]
struct HistoryState {
    history: Arc<History>,
    /// The commit that the history ends at; absent until one was read.
    head: Option<CommitId>,
    checked: Option<Instant>,
}

/// Outcome of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refreshed {
    Changed,
    Unchanged,
}

impl HistoryCell {
    pub(crate) fn new(history: History) -> Self {
        let head = history.commits.first().map(|commit| commit.id);
        Self {
            state: Mutex::new(HistoryState {
                history: Arc::new(history),
                head,
                checked: None,
            }),
            is_reading: AtomicBool::new(false),
        }
    }

    /// The history that is known now.
    pub(crate) fn current(&self) -> Arc<History> {
        Arc::clone(&self.lock().history)
    }

    /// True where the work tree's commit should be looked at again.
    pub(crate) fn is_due(&self) -> bool {
        let wait = Duration::from_secs(HISTORY_CHECK_SECONDS);
        !self.is_reading.load(Ordering::Acquire) && self.lock().checked.is_none_or(|checked| checked.elapsed() >= wait)
    }

    /// Reads the commits that are new. What cannot be read leaves the history as it is.
    pub(crate) fn refresh(
        &self,
        reader: &dyn HistoryReader,
        repository: &Arc<Repository>,
        cancel: &CancellationToken,
    ) -> Refreshed {
        if self.is_reading.swap(true, Ordering::AcqRel) {
            return Refreshed::Unchanged;
        }
        let refreshed = self.read(reader, repository, cancel);
        self.lock().checked = Some(Instant::now());
        self.is_reading.store(false, Ordering::Release);
        refreshed.unwrap_or(Refreshed::Unchanged)
    }

    fn read(
        &self,
        reader: &dyn HistoryReader,
        repository: &Arc<Repository>,
        cancel: &CancellationToken,
    ) -> Option<Refreshed> {
        let log = |error: &super::HistoryError| tracing::debug!(%error, "the history is not read");
        let head = reader.head(repository, cancel).inspect_err(log).ok()?;
        let (known_head, before) = {
            let state = self.lock();
            (state.head, Arc::clone(&state.history))
        };
        if head == known_head {
            return Some(Refreshed::Unchanged);
        }
        let walked = match head {
            Some(head) => reader
                .walk(repository, head, &before.ids(), cancel)
                .inspect_err(log)
                .ok()?,
            None => WalkedHistory::default(),
        };
        // A walk that ran out of time goes on at the next refresh, as long as that finds new commits.
        let is_new = |commit: &WalkedCommit| matches!(commit, WalkedCommit::Read(_));
        let goes_on = !walked.is_complete && walked.commits.iter().any(is_new);
        let history = Arc::new(History::new(walked.commits, &before));
        let mut state = self.lock();
        state.history = history;
        state.head = head.filter(|_| !goes_on);
        Some(Refreshed::Changed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HistoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
