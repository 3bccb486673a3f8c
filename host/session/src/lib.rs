//! Sessions: a request starts one, one task owns it, a journal records it, and it answers questions afterwards.
//!
//! The journal of a session (`~/.tool/sessions/<id>/journal.jsonl`) is the source of truth: streams, tasks, history,
//! results and the report are views of it. After a daemon has died, the next start finds unfinished sessions,
//! completes or rolls back their changes, and closes them as failed. Commands, the page, other agents and the API
//! build on this crate. This file owns the running sessions, and handles the end of a client, a task or the daemon;
//! `start` checks a request, and `run` does the work.

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as tool_session;

mod answer_proposals;
pub mod approvals;
mod call_queue;
pub mod connection;
mod continuation;
pub mod engine;
#[cfg(test)]
#[path = "../../journal/src/fixtures.rs"]
mod fixtures;
mod inspect;
mod key_command;
mod plan;
mod planned_tests;
pub mod preflight;
pub mod preview;
mod request;
mod run;
mod running;
mod selection;
mod session_store;
mod start;
mod undo;
mod untouched_files;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use answer_proposals::read_proposals;
pub use approvals::is_same_secret;
use approvals::{Approvals, SessionApprover};
use engine::Engine;
pub use key_command::key_command;
use plan::SessionPlan;
pub use planned_tests::plan_tests;
use preview::InheritedLayer;
use run::{SessionOutcome, SessionRun};
use running::{RunningSessions, SessionPermit, TurnPermit};
use session_store::SessionStore;
pub use session_store::{SESSIONS_BYTES_MAX, SESSIONS_KEPT};
use tool_config::PolicySettings;
use tool_context::Indexes;
use tool_core::api::{
    self, Action, ApprovalAnswer, ErrorKind, History, OpenApproval, Problem, SessionResult, SessionStart, SessionUsage,
    SkillEntry, Status, TaskEntry,
};
pub use tool_journal::feed::JOURNAL_BYTES_MAX;
use tool_journal::feed::{EventReader, NumberedEvent, Recorder, texts};
use tool_journal::history::{Filter, SessionSummary};
use tool_journal::ids::IdSource;
pub use tool_journal::report::REPORT_TRANSCRIPT_BYTES_MAX;
use tool_journal::{history, report};
use tool_provider::Usage;
use tool_repository::ScanCache;
use tool_skill::SkillHost;

/// Limit for contexts that are built at the same time in all sessions. Building one uses every core for a moment. Two
/// hundred at once would take all blocking threads, which other requests need for their answers.
const CONTEXTS_BUILDING_MAX: usize = 8;

/// Limit for running skill calls in all sessions. Each holds a blocking thread, even while it waits for an approval.
const SKILL_CALLS_RUNNING_MAX: usize = 128;

/// Milliseconds without a stream after which an attached session is cancelled. A client that reconnects is faster.
const ATTACHED_GRACE_MS: u64 = 2_000;

/// Milliseconds within which the first stream of an attached session must open.
const ATTACHED_FIRST_MS: u64 = 30_000;

/// Milliseconds for a cancelled session to end; then its task is aborted. Skills free their threads within half a
/// second.
const CANCEL_GRACE_MS: u64 = 2_000;

/// Seconds before memory is returned to the system. An index of fifty thousand files is filled within half a minute.
const GIVE_BACK_SECONDS: [u64; 3] = [2, 8, 20];

/// Reason why the sessions of a home cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("the sessions in `{}` cannot be opened", folder.display())]
pub struct OpenSessionsError {
    folder: PathBuf,
    source: io::Error,
}

/// The sessions of one home, running and ended.
pub struct Sessions {
    home: PathBuf,
    store: SessionStore,
    engine: Arc<dyn Engine>,
    approvals: Arc<Approvals>,
    calls: Arc<Semaphore>,
    contexts: Arc<Semaphore>,
    ids: IdSource,
    running: Mutex<RunningSessions>,
    tasks: TaskTracker,
    /// Scans of repositories, kept from one session to the next.
    scans: Arc<ScanCache>,
    indexes: Arc<Indexes>,
    stopping: CancellationToken,
    /// A time limit for scans below that of `limits`.
    scan_time: Option<Duration>,
    /// True while memory is about to be returned.
    is_giving_back: AtomicBool,
}

struct LiveSession {
    id: String,
    recorder: Arc<Recorder>,
    cancel: CancellationToken,
    /// True if the daemon's stop cancelled it.
    stopped: AtomicBool,
    streams: watch::Sender<usize>,
}

/// Options for opening repositories under this policy. `state_directory` is the program's own directory.
pub fn repository_options(policy: &PolicySettings, state_directory: &Path) -> tool_repository::Options {
    tool_repository::Options {
        state_directory: Some(state_directory.to_owned()),
        hide: policy.hide.clone(),
        reveal: policy.reveal.clone(),
        protect: policy.protect.clone(),
        home_confirmed: policy.home,
        ..tool_repository::Options::default()
    }
}

impl Sessions {
    /// Opens the sessions below `home`, and recovers those of a dead daemon first. Blocks. `scan_time` lowers the
    /// time limit of scans; `keys` are those of the configuration, which no report shows.
    ///
    /// # Errors
    ///
    /// The folder of the sessions cannot be opened.
    pub fn open(
        home: &Path,
        skills: Arc<SkillHost>,
        indexes: Arc<Indexes>,
        scan_time: Option<Duration>,
        keys: BTreeSet<String>,
    ) -> Result<Arc<Self>, OpenSessionsError> {
        let host = engine::Host {
            skills,
            learned: home.join("cache").join("models.json"),
        };
        Self::open_with(home, Arc::new(host), indexes, scan_time, keys)
    }

    /// Opens sessions with another engine, as [`Sessions::open`] does with the production engine.
    ///
    /// # Errors
    ///
    /// The folder of the sessions cannot be opened.
    pub fn open_with(
        home: &Path,
        engine: Arc<dyn Engine>,
        indexes: Arc<Indexes>,
        scan_time: Option<Duration>,
        keys: BTreeSet<String>,
    ) -> Result<Arc<Self>, OpenSessionsError> {
        let folder = home.join("sessions");
        let store = SessionStore::open(&folder, home, keys).map_err(|source| OpenSessionsError { folder, source })?;
        preview::remove_layers(home);
        Ok(Arc::new(Self {
            home: home.to_owned(),
            ids: store.ids(),
            store,
            engine,
            approvals: Arc::default(),
            calls: Arc::new(Semaphore::new(SKILL_CALLS_RUNNING_MAX)),
            contexts: Arc::new(Semaphore::new(CONTEXTS_BUILDING_MAX)),
            running: Mutex::default(),
            tasks: TaskTracker::new(),
            scans: Arc::default(),
            indexes,
            stopping: CancellationToken::new(),
            scan_time,
            is_giving_back: AtomicBool::new(false),
        }))
    }

    /// Begins the journal and the session. If the caller goes away meanwhile, an attached session ends and another
    /// one continues; neither is left without an owner.
    async fn launch_session(
        self: &Arc<Self>,
        permit: SessionPermit,
        plan: SessionPlan,
        inherited: InheritedLayer,
    ) -> Result<SessionStart, Problem> {
        let sessions = Arc::clone(self);
        run_blocking(move || {
            let recorder = sessions.store.begin(plan.start.clone()).map_err(|error| {
                Problem::new(
                    ErrorKind::JournalFailed,
                    format!("The session cannot be recorded: {error}"),
                )
                .with_hint("make room, and check that TOOL_HOME (without it ~/.tool) may be written")
            })?;
            if let Err(error) = recorder.inherit(plan.repository.root(), &inherited.files) {
                sessions.store.forget(&recorder);
                return Err(preview::not_kept(&error));
            }
            if let Some((message, hint)) = inherited.notice(&plan.repository) {
                recorder.notice(message, Some(hint));
            }
            Ok(sessions.register_session(recorder, permit, plan))
        })
        .await
    }

    /// Registers the session and spawns its owner.
    fn register_session(
        self: &Arc<Self>,
        recorder: Arc<Recorder>,
        mut permit: SessionPermit,
        plan: SessionPlan,
    ) -> SessionStart {
        let turn = permit.take_turn(&recorder);
        let id = plan.start.session_id.clone();
        let secret = approvals::new_secret();
        let approver = SessionApprover::new(
            Arc::clone(&self.approvals),
            Arc::clone(&recorder),
            Arc::clone(&secret),
            plan.start.interactive || !plan.start.ask.is_empty(),
        );
        let live = Arc::new(LiveSession {
            id: id.clone(),
            recorder: Arc::clone(&recorder),
            cancel: CancellationToken::new(),
            stopped: AtomicBool::new(false),
            streams: watch::Sender::new(0),
        });
        let job = SessionRun {
            engine: Arc::clone(&self.engine),
            recorder,
            approver: Arc::new(approver),
            indexes: Arc::clone(&self.indexes),
            made: self.store.files_made_in(&plan.start.repository),
            calls: Arc::clone(&self.calls),
            contexts: Arc::clone(&self.contexts),
            cancel: live.cancel.clone(),
            changes: Arc::new(untouched_files::JournalChanges(Arc::clone(self))),
            plan,
        };
        {
            let mut running = self.lock();
            // A stop during the start of the journal has not seen this session.
            if self.stopping.is_cancelled() {
                live.stop();
            }
            running.live.insert(live.id.clone(), Arc::clone(&live));
            self.tasks.spawn(Arc::clone(self).run_to_end(live, job, turn));
        }
        drop(permit);
        SessionStart {
            session_id: id,
            status: Status::Running,
            approval_secret: secret.to_string(),
        }
    }

    /// Owns a session to its end. Only blocking work that ignores its cancellation can outlive this task, and it
    /// cannot change anything after the journal has ended.
    async fn run_to_end(self: Arc<Self>, live: Arc<LiveSession>, job: SessionRun, turn: Option<TurnPermit>) {
        let summary = live.recorder.summary();
        let work = AssertUnwindSafe(run::run_session(&job)).catch_unwind();
        let outcome = tokio::select! {
            outcome = work => outcome.unwrap_or_else(|_| SessionOutcome::failed(run::operation_failed(&summary.start.work))),
            () = live.overdue() => SessionOutcome::cancelled(),
            () = live.recorder.keep_up() => unreachable!("it never returns"),
            () = live.watch(job.plan.is_attached) => unreachable!("it never returns"),
        };
        let outcome = if live.stopped.load(Ordering::SeqCst) {
            outcome.by_stop()
        } else {
            outcome
        };
        // Cancel remaining work, for example after a panic: it has no reader.
        live.cancel.cancel();
        drop(job);
        let (sessions, ending) = (Arc::clone(&self), Arc::clone(&live));
        let ended = run_blocking(move || Ok(sessions.store.end(&ending.recorder, outcome)));
        let is_written = ended.await.unwrap_or_else(|_| {
            tracing::error!(session = live.id, "a session could not be ended");
            true
        });
        if !is_written {
            self.write_until_durable(&live).await;
        }
        self.lock().live.remove(&live.id);
        drop(turn);
        self.give_back_memory();
    }

    /// Returns the memory of ended sessions to the system after a while, and again once their indexes are filled. A
    /// stop does not wait for it.
    fn give_back_memory(self: &Arc<Self>) {
        if self.is_giving_back.swap(true, Ordering::SeqCst) {
            return;
        }
        let sessions = Arc::clone(self);
        tokio::spawn(async move {
            for seconds in GIVE_BACK_SECONDS {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                // It cannot panic, and a runtime that ends does not need it.
                let _ = tokio::task::spawn_blocking(tool_sandbox::heap::give_back).await;
            }
            sessions.is_giving_back.store(false, Ordering::SeqCst);
        });
    }

    /// Tries to write an ended session until the disk accepts it or the daemon stops. Until then, it is answered from
    /// memory.
    async fn write_until_durable(self: &Arc<Self>, live: &Arc<LiveSession>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(limits::JOURNAL_RETRY_MS)) => {}
                () = self.stopping.cancelled() => {}
            }
            let (sessions, waiting) = (Arc::clone(self), Arc::clone(live));
            let written = run_blocking(move || Ok(sessions.store.write_waiting(&waiting.recorder))).await;
            if written == Ok(true) || self.stopping.is_cancelled() {
                return;
            }
        }
    }

    /// Streams the events of a session after number `after`.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn events(&self, id: &str, after: u64) -> Result<SessionStream, Problem> {
        if let Some(live) = self.live(id) {
            let summary = live.recorder.summary();
            let (model, has_ended) = (summary.start.model, summary.status != Status::Running);
            let events = EventReader::follow(Arc::clone(&live.recorder), id, after);
            live.streams.send_modify(|count| *count += 1);
            let _attached = Some(AttachedStream(live));
            return Ok(SessionStream {
                events,
                first: None,
                has_ended,
                model,
                _attached,
            });
        }
        let summary = self.store.summary(id).ok_or_else(|| unknown_session(id))?;
        Ok(SessionStream {
            events: EventReader::replay(self.store.folder(id), id, after),
            first: None,
            has_ended: true,
            model: summary.start.model,
            _attached: None,
        })
    }

    /// Cancels a running session.
    ///
    /// # Errors
    ///
    /// There is no such session, or it has ended.
    pub fn cancel(&self, id: &str) -> Result<(), Problem> {
        // Between its last event and the end of its task, a session is still live, although its clients have seen the
        // end.
        let live = self
            .live(id)
            .filter(|live| live.recorder.summary().status == Status::Running);
        if let Some(live) = live {
            live.cancel.cancel();
            return Ok(());
        }
        if self.live(id).is_none() {
            self.store.summary(id).ok_or_else(|| unknown_session(id))?;
        }
        Err(Problem::new(
            ErrorKind::SessionEnded,
            format!("The session `{id}` has ended"),
        ))
    }

    /// Answers an open approval.
    ///
    /// # Errors
    ///
    /// As [`Approvals::answer`].
    pub fn answer(&self, id: &str, answer: &ApprovalAnswer) -> Result<(), Problem> {
        self.approvals.answer(id, answer)
    }

    /// Returns a whole open approval.
    ///
    /// # Errors
    ///
    /// It is not open.
    pub fn approval(&self, id: &str) -> Result<OpenApproval, Problem> {
        self.approvals.whole(id)
    }

    /// Lists the newest tasks, running ones first.
    pub fn tasks(&self, filter: &Filter) -> Vec<TaskEntry> {
        history::list_tasks(self.summaries().values().rev(), filter)
    }

    /// Lists the newest ended sessions in all directories.
    pub fn history(&self, filter: &Filter) -> History {
        history::list_history(self.summaries().values().rev(), filter)
    }

    /// All sessions by id, which is the order of their start.
    fn summaries(&self) -> BTreeMap<String, SessionSummary> {
        // Collect the live ones first: a session that ends meanwhile is in both, and the ended one is right.
        let live: Vec<Arc<LiveSession>> = self.lock().live.values().cloned().collect();
        let mut summaries: BTreeMap<String, SessionSummary> = live
            .iter()
            .map(|live| (live.id.clone(), live.recorder.summary()))
            .collect();
        summaries.extend(self.store.summaries());
        summaries
    }

    /// The result of a session; while it runs, with the output so far. A missing report is written again.
    ///
    /// # Errors
    ///
    /// There is no such session, or its journal cannot be read.
    pub async fn read_result(self: &Arc<Self>, id: &str) -> Result<SessionResult, Problem> {
        if let Some(live) = self.live(id) {
            let missing = unknown_session(id);
            let read = run_blocking(move || {
                // Take the summary before the output, so that a complete session has all its output.
                let summary = live.recorder.summary();
                result_of(summary, live.recorder.output()).ok_or(missing)
            });
            return read.await;
        }
        let summary = self.store.summary(id).ok_or_else(|| unknown_session(id))?;
        let (sessions, missing) = (Arc::clone(self), unknown_session(id));
        let read = run_blocking(move || {
            let folder = sessions.store.folder(summary.id());
            let Ok((output, _)) = folder.view(|lines| history::session_output(lines)) else {
                return Err(missing);
            };
            let mut result = result_of(summary.clone(), output).ok_or(missing)?;
            result.report_path = sessions.store.report(&summary).unwrap_or_default();
            Ok(result)
        });
        read.await
    }

    /// The result without the output. For most ended sessions, the journal is not read.
    ///
    /// # Errors
    ///
    /// As [`Self::read_result`].
    pub async fn result_in_short(self: &Arc<Self>, id: &str) -> Result<SessionResult, Problem> {
        if let Some(live) = self.live(id) {
            return result_of(live.recorder.summary(), String::new()).ok_or_else(|| unknown_session(id));
        }
        if let Some(summary) = self.store.summary(id) {
            let look = move || Ok((!report::is_wanted(&summary) || report::is_there(&summary)).then_some(summary));
            let known = run_blocking(look).await?;
            let result = known.and_then(|summary| {
                let report_path = report::path_in_results(&summary);
                let result = result_of(summary, String::new())?;
                Some(SessionResult { report_path, ..result })
            });
            if let Some(result) = result {
                return Ok(result);
            }
        }
        let result = self.read_result(id).await?;
        Ok(SessionResult {
            output: String::new(),
            ..result
        })
    }

    /// Lists all skills.
    pub fn skills(&self) -> Vec<SkillEntry> {
        self.engine.entries(None)
    }

    /// Options for opening the repository of a request; `cancel` cancels the opening.
    fn repository_options(&self, settings: &PolicySettings, cancel: &CancellationToken) -> tool_repository::Options {
        tool_repository::Options {
            scan_time: self.scan_time,
            scans: Some(Arc::clone(&self.scans)),
            cancel: cancel.clone(),
            ..repository_options(settings, &self.home)
        }
    }

    /// A session in memory: one that runs, or that the disk has not accepted yet.
    fn live(&self, id: &str) -> Option<Arc<LiveSession>> {
        self.lock().live.get(id).cloned()
    }
}

impl LiveSession {
    /// Cancels the session because the daemon stops.
    fn stop(&self) {
        if !self.cancel.is_cancelled() {
            self.stopped.store(true, Ordering::SeqCst);
        }
        self.cancel.cancel();
    }

    /// Cancels an attached session once its last client is gone. Never returns.
    async fn watch(&self, attached: bool) {
        if attached {
            self.abandoned().await;
            tracing::info!(session = self.id, "cancelled: its client is gone");
            self.cancel.cancel();
        }
        std::future::pending().await
    }

    /// Waits until no stream has been open for a while.
    async fn abandoned(&self) {
        let mut streams = self.streams.subscribe();
        let mut patience = limits::milliseconds(ATTACHED_FIRST_MS);
        while tokio::time::timeout(patience, streams.wait_for(|count| *count > 0))
            .await
            .is_ok()
        {
            patience = limits::milliseconds(ATTACHED_GRACE_MS);
            // The sender is a part of `self`, so it exists.
            let _ = streams.wait_for(|count| *count == 0).await;
        }
    }

    /// Waits until a cancelled session is overdue.
    async fn overdue(&self) {
        self.cancel.cancelled().await;
        tokio::time::sleep(limits::milliseconds(CANCEL_GRACE_MS)).await;
    }
}

/// A stream of a session's events.
pub struct SessionStream {
    events: EventReader,
    /// Events that were read ahead.
    first: Option<Vec<NumberedEvent>>,
    /// True if the session had ended when the stream was opened.
    has_ended: bool,
    model: String,
    _attached: Option<AttachedStream>,
}

impl SessionStream {
    /// Returns the next events, at least one; `None` after the terminal event.
    pub async fn next(&mut self) -> Option<Vec<NumberedEvent>> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.events.next().await,
        }
    }

    /// Takes the next events out of a batch, and adds the texts of changed files, which the journal stores
    /// separately. At most one of the events has texts.
    pub async fn take_with_texts(&self, batch: &mut VecDeque<NumberedEvent>) -> Vec<NumberedEvent> {
        let piece = texts::take_piece(batch);
        if !texts::has_texts(&piece) {
            return piece;
        }
        let (folder, kept) = (self.events.folder().clone(), piece.clone());
        let added = tokio::task::spawn_blocking(move || texts::add_texts(piece, &folder));
        added.await.unwrap_or(kept)
    }

    /// True if the session has ended and the reader has its last event. Does not wait for a running session.
    pub async fn is_spent(&mut self) -> bool {
        if !self.has_ended || self.first.is_some() {
            return false;
        }
        self.first = self.events.next().await;
        self.first.is_none()
    }

    /// Identifier of the model, for the form that has it in events.
    pub fn model(&self) -> &str {
        &self.model
    }
}

/// Counts an open stream.
struct AttachedStream(Arc<LiveSession>);

impl Drop for AttachedStream {
    fn drop(&mut self) {
        self.0.streams.send_modify(|count| *count -= 1);
    }
}

/// Runs blocking work. A panic is a bug, and becomes an error.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(Problem::new(
            ErrorKind::Internal,
            "The backend failed; its log says more",
        ))
    })
}

fn unknown_session(id: &str) -> Problem {
    Problem::new(ErrorKind::NotFound, format!("There is no session `{id}`")).with_action(Action::ListSessions)
}

/// Counts of a session for its result.
fn shown_usage(usage: Usage) -> SessionUsage {
    SessionUsage {
        input_tokens: usage.input_tokens,
        cached_tokens: usage.cached_tokens,
        output_tokens: usage.output_tokens,
        estimated: usage.estimated,
        cost: usage.cost(),
    }
}

/// The result of an operation; `None` for a call of a skill, whose result is in its stream.
fn result_of(summary: SessionSummary, output: String) -> Option<SessionResult> {
    Some(SessionResult {
        session_id: summary.id().to_owned(),
        operation: summary.start.work.operation()?,
        status: summary.status,
        output,
        files_modified: summary.files_modified(),
        files_proposed: summary.files_proposed(),
        report_path: summary.report_path.clone(),
        usage: summary.usage.map(shown_usage),
        error: summary.problem,
    })
}

/// True if the policy denies git. Then a selection ignores earlier commits.
fn denies_history(deny: &[String]) -> bool {
    deny.iter().any(|effect| effect == api::Effect::ReadGit.name())
}

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}

#[cfg(test)]
mod tests;
