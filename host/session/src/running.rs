//! Running sessions, and admission control for new ones. One lock decides whether a session may start, whether none
//! runs, and whether a stop has seen a session. The owner of a session handles the rest.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{LiveSession, Sessions};
use crate::limits;
use tool_core::api::{Action, ErrorKind, Problem};
use tool_journal::feed::Recorder;

/// Running sessions. One lock of it decides whether a session may start, and whether none runs.
#[derive(Default)]
pub(super) struct RunningSessions {
    pub(super) live: HashMap<String, Arc<LiveSession>>,
    /// Number of permits for sessions that have not started yet.
    starting: usize,
    /// Conversations with a later turn that starts or runs.
    conversations: HashMap<String, Arc<ClaimedTurn>>,
}

/// A turn that has claimed its conversation: the recorder of its session, once there is one.
#[derive(Default)]
struct ClaimedTurn(OnceLock<Arc<Recorder>>);

impl ClaimedTurn {
    /// True once the end of its session is on the disk. Clients learn this a moment before its owner's task ends.
    fn has_ended(&self) -> bool {
        let is_over = |recorder: &Arc<Recorder>| recorder.has_ended() && !recorder.has_unwritten_lines();
        self.0.get().is_some_and(is_over)
    }
}

/// Permit for a session, taken before anything of the session exists. A stop waits for it.
pub(super) struct SessionPermit {
    sessions: Arc<Sessions>,
    turn: Option<TurnPermit>,
    _under_way: TaskTrackerToken,
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        self.sessions.lock().starting -= 1;
    }
}

impl SessionPermit {
    /// Claims a conversation: no other turn of it may start or run.
    pub(super) fn claim(&mut self, conversation: &str) -> Result<(), Problem> {
        let mut running = self.sessions.lock();
        if running
            .conversations
            .get(conversation)
            .is_some_and(|turn| !turn.has_ended())
        {
            let message = format!("A turn of the conversation `{conversation}` is running");
            return Err(Problem::new(ErrorKind::SessionRunning, message)
                .with_hint("wait for its end, or cancel it: one turn of a conversation runs at a time"));
        }
        let turn = Arc::<ClaimedTurn>::default();
        running.conversations.insert(conversation.to_owned(), Arc::clone(&turn));
        drop(running);
        self.turn = Some(TurnPermit {
            sessions: Arc::clone(&self.sessions),
            conversation: conversation.to_owned(),
            turn,
        });
        Ok(())
    }

    /// Takes the claim on a conversation, which outlives the start and ends with the session of `recorder`.
    pub(super) fn take_turn(&mut self, recorder: &Arc<Recorder>) -> Option<TurnPermit> {
        let permit = self.turn.take()?;
        let is_new = permit.turn.0.set(Arc::clone(recorder)).is_ok();
        debug_assert!(is_new, "a turn has one session");
        Some(permit)
    }
}

/// A turn's claim on its conversation. Drop releases it.
pub(super) struct TurnPermit {
    sessions: Arc<Sessions>,
    conversation: String,
    turn: Arc<ClaimedTurn>,
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        let mut running = self.sessions.lock();
        let claimed = running.conversations.get(&self.conversation);
        // The next turn may have claimed the conversation since this one ended.
        if claimed.is_some_and(|turn| Arc::ptr_eq(turn, &self.turn)) {
            running.conversations.remove(&self.conversation);
        }
    }
}

impl Sessions {
    /// Takes a permit for a session, unless all are in use or the daemon stops.
    pub(super) fn take_place(self: &Arc<Self>) -> Result<SessionPermit, Problem> {
        let mut running = self.lock();
        self.check_accepting()?;
        if running.live.len() + running.starting >= limits::SESSIONS_RUNNING_MAX {
            let message = format!("{} sessions are under way", limits::SESSIONS_RUNNING_MAX);
            return Err(Problem::new(ErrorKind::Busy, message).with_action(Action::EndSession));
        }
        running.starting += 1;
        Ok(SessionPermit {
            sessions: Arc::clone(self),
            turn: None,
            _under_way: self.tasks.token(),
        })
    }

    /// Registers other work until the token is dropped: a stop waits for it.
    pub(super) fn begin(&self) -> Result<TaskTrackerToken, Problem> {
        // Hold the lock, because stopping an idle daemon checks and closes in one step.
        let _running = self.lock();
        self.check_accepting()?;
        Ok(self.tasks.token())
    }

    fn check_accepting(&self) -> Result<(), Problem> {
        if self.stopping.is_cancelled() {
            Err(Problem::new(ErrorKind::Stopping, "The backend is stopping").with_hint("start it again and repeat"))
        } else {
            Ok(())
        }
    }

    /// Number of sessions that run, or that have ended and wait for the disk.
    pub fn running(&self) -> u64 {
        let running = self.lock();
        (running.live.len() + running.starting) as u64
    }

    /// True while a session runs or waits for the disk. A session that has just ended does not count.
    pub fn is_busy(&self) -> bool {
        let running = self.lock();
        let is_under_way = |live: &Arc<LiveSession>| !live.recorder.has_ended() || live.recorder.has_unwritten_lines();
        running.starting > 0 || running.live.values().any(is_under_way)
    }

    /// True if nothing runs, and stopping would lose nothing.
    pub fn is_idle(&self) -> bool {
        self.is_idle_with(&self.lock())
    }

    /// Refuses new work from now on if nothing is under way. Returns true in that case; the daemon then has to end.
    pub fn close_if_idle(&self) -> bool {
        let running = self.lock();
        let is_idle = self.is_idle_with(&running);
        if is_idle {
            self.stopping.cancel();
        }
        is_idle
    }

    /// Waits until no new work is accepted any more.
    pub async fn closed(&self) {
        self.stopping.cancelled().await;
    }

    fn is_idle_with(&self, running: &RunningSessions) -> bool {
        // Sessions that wait for the disk, and permits, count as tasks as well.
        running.live.is_empty() && self.tasks.is_empty()
    }

    /// Cancels all sessions, and waits for a bounded time until they have ended. Nothing starts afterwards.
    pub async fn drain(&self) {
        {
            let running = self.lock();
            self.stopping.cancel();
            running.live.values().for_each(|live| live.stop());
        }
        self.tasks.close();
        let patience = limits::seconds(limits::STOP_SECONDS_MAX);
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!("sessions are left unended; the next start closes them");
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RunningSessions> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
