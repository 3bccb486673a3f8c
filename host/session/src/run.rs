//! The work of one session, from its request to its end: build the context, ask the model, run its tools, judge the
//! result.
//!
//! Everything is recorded on the way. Other modules store, list and cancel sessions.

mod call_redaction;
mod calls;
mod checks;
mod compaction;
mod judge;
mod memory;
mod missed_work;
mod operate;
mod operations;
mod request_form;
mod session_diffs;
mod skill_call;
mod tool_list;
mod tools;

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::approvals::SessionApprover;
use super::engine::Engine;
use super::plan::{SessionPlan, SessionTask};
use session_diffs::SessionDiffs;
use tool_context::Indexes;
use tool_core::api::{ErrorKind, Event, Problem, Status};
use tool_core::redaction::Redactor;
use tool_journal::feed::Recorder;
use tool_journal::journal::SessionWork;
use tool_provider::Usage;
use tool_skill::SessionChanges;

/// Adds the session's changes to the answer of an operation whose daemon died, as its end would have done.
pub(super) fn say_changed(recorder: &Recorder) {
    let changed = SessionDiffs::read(recorder);
    if changed.is_empty() || recorder.summary().start.work.operation().is_none() {
        return;
    }
    // The daemon died after the last paragraph, or an earlier start has already added the changes.
    if recorder.output().contains(&changed.names()) {
        return;
    }
    let text = format!("{}\n\n{}", changed.summary("Changed"), changed.diff());
    // The name of a file may look like a key.
    let text = Redactor::default().text(&text, None).into_owned();
    let content = format!("{}---\n\n{text}\n", recorder.paragraph());
    recorder.event(Event::Token { content });
}

/// A session that is about to run.
pub(super) struct SessionRun {
    pub(super) plan: SessionPlan,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) approver: Arc<SessionApprover>,
    pub(super) indexes: Arc<Indexes>,
    /// Files that earlier sessions made in the repository.
    pub(super) made: BTreeSet<String>,
    pub(super) calls: Arc<Semaphore>,
    pub(super) contexts: Arc<Semaphore>,
    pub(super) cancel: CancellationToken,
    /// Changes of sessions in the repository.
    pub(super) changes: Arc<dyn SessionChanges>,
}

/// Outcome of a session's work.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SessionOutcome {
    pub(super) status: Status,
    pub(super) problem: Option<Problem>,
    pub(super) usage: Option<Usage>,
}

impl SessionOutcome {
    pub(super) fn failed(problem: Problem) -> Self {
        Self {
            status: Status::Failed,
            problem: Some(problem),
            usage: None,
        }
    }

    pub(super) fn cancelled() -> Self {
        Self {
            status: Status::Cancelled,
            problem: Some(Problem::new(ErrorKind::Cancelled, "The session was cancelled")),
            usage: None,
        }
    }

    /// Adds the cause as a problem, if the session was cancelled because the daemon stops.
    pub(super) fn by_stop(mut self) -> Self {
        if self.status == Status::Cancelled {
            self.problem = Some(
                Problem::new(
                    ErrorKind::Cancelled,
                    "The session was cancelled: the backend is stopping",
                )
                .with_hint("run the operation again; that starts the backend"),
            );
        }
        self
    }

    pub(super) fn complete() -> Self {
        Self {
            status: Status::Complete,
            problem: None,
            usage: None,
        }
    }
}

/// The sentence of the specification for a failed operation without a sentence of its own.
pub(super) fn operation_failed(work: &SessionWork) -> Problem {
    let name = match work {
        SessionWork::Operation(operation) => operation.name().to_owned(),
        SessionWork::Skill(name) => name.clone(),
        SessionWork::Undo(_) => "undo".to_owned(),
        SessionWork::Apply(_) => "apply".to_owned(),
        SessionWork::Mcp => "mcp".to_owned(),
    };
    Problem::new(
        ErrorKind::OperationFailed,
        format!("Operation failed: {name} encountered an error"),
    )
    .with_hint("read the session log in session-reports/")
}

/// Runs the session. Ends soon after `cancel`.
pub(super) async fn run_session(job: &SessionRun) -> SessionOutcome {
    let outcome = match &job.plan.task {
        SessionTask::Operation(task) => operate::run_operation(job, task).await,
        SessionTask::Skill { name, arguments } => skill_call::call_once(job, name, arguments).await,
        SessionTask::Calls(calls) => calls::serve_calls(job, calls).await,
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(_) if job.cancel.is_cancelled() => SessionOutcome::cancelled(),
        Err(problem) => SessionOutcome::failed(problem),
    }
}
