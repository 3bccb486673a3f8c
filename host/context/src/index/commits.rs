//! The history of an index: reads commits beside a request or after its answer, and writes them to the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::bounds::FIRST_HISTORY_TIME;
use super::{Index, Indexes, yield_to_others};
use crate::history::{HISTORY_WALK_TIME, ReadingPermit, RefreshOutcome};
use tool_repository::Repository;

impl Index {
    pub(super) fn refresh_history(
        &self,
        permit: ReadingPermit,
        indexes: &Indexes,
        repository: &Arc<Repository>,
        time: Duration,
        cancel: &CancellationToken,
    ) {
        let refreshed = self
            .history
            .refresh(permit, &*indexes.history, repository, time, cancel);
        if refreshed == RefreshOutcome::Changed {
            self.has_unwritten_history.store(true, Ordering::Release);
        }
        if !self.has_unwritten_history.load(Ordering::Acquire) {
            return;
        }
        match self.store.write_history(&self.history.current()) {
            Ok(is_written) => self.has_unwritten_history.store(!is_written, Ordering::Release),
            Err(error) => tracing::debug!(%error, "the history is not kept"),
        }
    }

    /// Reads the newest commits beside a request, so that its answer knows them, and the others after that. Does nothing
    /// where some were read before.
    pub(super) fn begin_history(self: &Arc<Self>, indexes: &Arc<Indexes>, repository: &Arc<Repository>) {
        let Some(permit) = self.history.is_unread().then(|| self.history.permit()).flatten() else {
            return;
        };
        self.spawn_reader(indexes, repository, permit, |index, indexes, repository, permit| {
            let cancel = CancellationToken::new();
            index.refresh_history(permit, indexes, repository, FIRST_HISTORY_TIME, &cancel);
            if index.history.is_due()
                && let Some(permit) = index.history.permit()
            {
                yield_to_others();
                index.refresh_history(permit, indexes, repository, HISTORY_WALK_TIME, &cancel);
            }
        });
    }

    /// Reads new commits after an answer.
    pub(super) fn continue_history(self: &Arc<Self>, indexes: &Arc<Indexes>, repository: &Arc<Repository>) {
        let Some(permit) = self.history.is_due().then(|| self.history.permit()).flatten() else {
            return;
        };
        self.spawn_reader(indexes, repository, permit, |index, indexes, repository, permit| {
            yield_to_others();
            let cancel = CancellationToken::new();
            index.refresh_history(permit, indexes, repository, HISTORY_WALK_TIME, &cancel);
        });
    }

    /// Calls `read` on a new thread.
    fn spawn_reader(
        self: &Arc<Self>,
        indexes: &Arc<Indexes>,
        repository: &Arc<Repository>,
        permit: ReadingPermit,
        read: fn(&Self, &Indexes, &Arc<Repository>, ReadingPermit),
    ) {
        let (index, indexes, repository) = (Arc::clone(self), Arc::clone(indexes), Arc::clone(repository));
        let work = move || read(&index, &indexes, &repository, permit);
        let started = std::thread::Builder::new().name("history".to_owned()).spawn(work);
        if started.is_err() {
            // The next request tries again.
            self.history.give_back();
        }
    }
}
