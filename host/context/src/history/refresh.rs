//! Reads new commits in the background, at most every few seconds. Only the first request for a repository waits a
//! short time for them, because many home directories (of CI jobs) serve one request.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{CommitId, History, HistoryReader, WalkedCommit, WalkedHistory};
use tool_repository::Repository;

/// Time between two checks of the work tree's commit. A check starts a process, and a commit that is some seconds old
/// tells little about the next task.
const HISTORY_CHECK_SECONDS: u64 = 10;

/// Time of one walk. The next one reads the rest.
pub(crate) const HISTORY_WALK_TIME: Duration = Duration::from_secs(30);

/// The history of one repository, as far as it has been read.
#[derive(Debug, Default)]
pub(crate) struct HistoryCell {
    state: Mutex<HistoryState>,
    /// Notified at the end of each reading.
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct HistoryState {
    history: Arc<History>,
    /// The newest commit of a complete history.
    head: Option<CommitId>,
    /// Time of the last check. `None` before the first one, and while a walk has to continue.
    checked: Option<Instant>,
    is_reading: bool,
    /// True while the first reading goes on.
    is_first_reading: bool,
}

impl HistoryState {
    fn is_unread(&self) -> bool {
        self.head.is_none() && self.checked.is_none() && self.history.is_empty()
    }
}

/// Permit to read a history. Only one thread at a time holds it.
#[derive(Debug)]
pub(crate) struct ReadingPermit(());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefreshOutcome {
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
                ..HistoryState::default()
            }),
            has_ended: Condvar::new(),
        }
    }

    pub(crate) fn current(&self) -> Arc<History> {
        Arc::clone(&self.lock().history)
    }

    /// True if the work tree's commit should be checked again.
    pub(crate) fn is_due(&self) -> bool {
        let wait = Duration::from_secs(HISTORY_CHECK_SECONDS);
        let state = self.lock();
        !state.is_reading && state.checked.is_none_or(|checked| checked.elapsed() >= wait)
    }

    /// True where all commits of the work tree are known.
    pub(crate) fn is_complete(&self) -> bool {
        self.lock().head.is_some()
    }

    /// True if no commit was read and no check was made yet.
    pub(crate) fn is_unread(&self) -> bool {
        self.lock().is_unread()
    }

    /// Takes the permit unless another thread holds it. `refresh` or `give_back` returns it.
    pub(crate) fn permit(&self) -> Option<ReadingPermit> {
        let mut state = self.lock();
        if state.is_reading {
            return None;
        }
        state.is_first_reading = state.is_unread();
        state.is_reading = true;
        Some(ReadingPermit(()))
    }

    /// Ends a reading.
    pub(crate) fn give_back(&self) {
        let mut state = self.lock();
        (state.is_reading, state.is_first_reading) = (false, false);
        drop(state);
        self.has_ended.notify_all();
    }

    /// Waits for the end of the first reading, at most until `deadline`. Later requests do not wait.
    pub(crate) fn wait_for_first(&self, deadline: Instant) {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let is_first = |state: &mut HistoryState| state.is_first_reading;
        let waited = self.has_ended.wait_timeout_while(self.lock(), timeout, is_first);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_first_reading = false;
    }

    /// Reads new commits for at most `time`. If they cannot be read, the history stays as it is.
    pub(crate) fn refresh(
        &self,
        _permit: ReadingPermit,
        reader: &dyn HistoryReader,
        repository: &Arc<Repository>,
        time: Duration,
        cancel: &CancellationToken,
    ) -> RefreshOutcome {
        self.lock().checked = Some(Instant::now());
        let refreshed = self.read(reader, repository, time, cancel);
        self.give_back();
        refreshed.unwrap_or(RefreshOutcome::Unchanged)
    }

    fn read(
        &self,
        reader: &dyn HistoryReader,
        repository: &Arc<Repository>,
        time: Duration,
        cancel: &CancellationToken,
    ) -> Option<RefreshOutcome> {
        let log = |error: &super::HistoryError| tracing::debug!(%error, "the history is not read");
        let head = reader.head(repository, cancel).inspect_err(log).ok()?;
        let (known_head, before) = {
            let state = self.lock();
            (state.head, Arc::clone(&state.history))
        };
        if head == known_head {
            return Some(RefreshOutcome::Unchanged);
        }
        let walked = match head {
            Some(head) => reader
                .walk(repository, head, &before.ids(), time, cancel)
                .inspect_err(log)
                .ok()?,
            None => WalkedHistory::default(),
        };
        // The next refresh continues a walk that ran out of time, unless that walk found no new commit. A short walk
        // may find none on a busy machine.
        let is_new = |commit: &WalkedCommit| matches!(commit, WalkedCommit::Read(_));
        let has_new = walked.commits.iter().any(is_new);
        let goes_on = !walked.is_complete && (has_new || time < HISTORY_WALK_TIME);
        let history = Arc::new(History::new(walked.commits, &before));
        let mut state = self.lock();
        state.history = history;
        state.head = head.filter(|_| !goes_on);
        state.checked = state.checked.filter(|_| !goes_on);
        Some(RefreshOutcome::Changed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HistoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
