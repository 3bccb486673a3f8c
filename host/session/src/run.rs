//! The work of one session, from its request to its end: build the context, ask the model, run its tools, judge the
//! result.
//!
//! Everything is recorded on the way. Other modules store, list and cancel sessions.

mod architect;
mod calls;
mod changed;
mod compaction;
mod judge;
mod keys;
mod memory;
mod missed;
mod operate;
mod project_checks;
mod refactor;
mod request_form;
mod review;
mod skill_call;
mod suite;
mod test_gen;
mod tool_list;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::approvals::SessionApprover;
use super::engine::{Engine, KeyObserver};
pub use calls::{CallAnswer, ConnectionCall};
pub(super) use calls::{Calls, Incoming};
use changed::Changed;
use tool_config::{PolicySettings, Settings};
use tool_context::{Indexes, SelectionFilter};
use tool_core::api::{self, BudgetRequest, ErrorKind, Event, Grant, Operation, Problem, Status, VerificationRule};
use tool_core::redaction::Redactor;
use tool_journal::conversation::PastConversation;
use tool_journal::feed::Recorder;
use tool_journal::journal::Work;
use tool_provider::{LabelMark, Usage};
use tool_repository::{Narrowing, Repository};
use tool_skill::SessionChanges;
use tool_skill::lock::Lock;
use tool_skill::policy::Policy;

/// Adds the session's changes to the answer of an operation whose daemon died, as its end would have done.
pub(super) fn say_changed(recorder: &Recorder) {
    let changed = Changed::read(recorder);
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
    pub(super) engine: Arc<dyn Engine>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) approver: Arc<SessionApprover>,
    pub(super) repository: Arc<Repository>,
    pub(super) indexes: Arc<Indexes>,
    pub(super) policy: Policy,
    /// Lock file of the repository, with its grants for the skills of a team.
    pub(super) locked: Option<Arc<Lock>>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) redactor: Arc<Redactor>,
    /// Files that earlier sessions created in the repository.
    pub(super) made: BTreeSet<String>,
    pub(super) calls: Arc<Semaphore>,
    pub(super) contexts: Arc<Semaphore>,
    pub(super) cancel: CancellationToken,
    pub(super) task: Task,
    /// Changes of sessions in the repository.
    pub(super) changes: Arc<dyn SessionChanges>,
}

/// Task of a session.
pub(super) enum Task {
    /// One of the four operations.
    Operation(Box<OperationTask>),
    /// A call of one skill.
    Skill { name: String, arguments: Value },
    /// The calls of another agent.
    Calls(Calls),
}

/// The request and the settings of an operation.
pub(super) struct OperationTask {
    pub(super) operation: Operation,
    pub(super) target: Option<String>,
    pub(super) task: Option<String>,
    pub(super) focus: Option<String>,
    pub(super) working_directory: PathBuf,
    pub(super) settings: Settings,
    pub(super) filter: Arc<SelectionFilter>,
    pub(super) budget: BudgetRequest,
    /// True if hints name fields of requests instead of flags.
    pub(super) is_of_program: bool,
    pub(super) verification: VerificationRule,
    /// Mark that labels the results of tools in the conversation.
    pub(super) mark: LabelMark,
    /// Earlier turns; absent for a session that begins a conversation.
    pub(super) past: Option<Arc<PastConversation>>,
    /// Receives the keys that a program prints for the provider.
    pub(super) on_key: KeyObserver,
}

/// Outcome of a session's work.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) status: Status,
    pub(super) problem: Option<Problem>,
    pub(super) usage: Option<Usage>,
}

impl Outcome {
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
pub(super) fn operation_failed(work: &Work) -> Problem {
    let name = match work {
        Work::Operation(operation) => operation.name().to_owned(),
        Work::Skill(name) => name.clone(),
        Work::Undo(_) => "undo".to_owned(),
        Work::Apply(_) => "apply".to_owned(),
        Work::Mcp => "mcp".to_owned(),
    };
    Problem::new(
        ErrorKind::OperationFailed,
        format!("Operation failed: {name} encountered an error"),
    )
    .with_hint("read the session log in session-reports/")
}

/// Runs the session. Ends soon after `cancel`.
pub(super) async fn run(job: &SessionRun) -> Outcome {
    let outcome = match &job.task {
        Task::Operation(task) => operate::operate(job, task).await,
        Task::Skill { name, arguments } => skill_call::call_once(job, name, arguments).await,
        Task::Calls(calls) => calls::serve(job, calls).await,
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(_) if job.cancel.is_cancelled() => Outcome::cancelled(),
        Err(problem) => Outcome::failed(problem),
    }
}

/// Merges the user's configuration, a request and the repository's restrictions for the policy. `allow` of the
/// request overrides `deny` of the configuration; `deny` of the request and of the repository overrides everything.
pub(super) fn merged(
    settings: &PolicySettings,
    request: &api::PolicyRequest,
    repository: &Narrowing,
) -> api::PolicyRequest {
    let is_allowed = |denied: &String| request.allow.iter().any(|allowed| covers(allowed, denied));
    let configured = settings.deny.iter().filter(|denied| !is_allowed(denied));
    api::PolicyRequest {
        allow: settings.allow.iter().chain(&request.allow).cloned().collect(),
        deny: configured
            .chain(&request.deny)
            .chain(&repository.deny)
            .cloned()
            .collect(),
        allow_paths: request.allow_paths.clone(),
        require_sandbox: settings.require_sandbox || request.require_sandbox || repository.require_sandbox,
        unsandboxed: request.unsandboxed,
        untrusted: settings.untrusted || request.untrusted || repository.untrusted,
        untrusted_task: request.untrusted_task,
        ask_before_write: request.ask_before_write,
        frozen: request.frozen,
    }
}

/// True if granting `allowed` lifts the denial of `denied`: `commit-git:tainted` grants what `commit-git` grants, and
/// more.
fn covers(allowed: &str, denied: &str) -> bool {
    match (allowed.parse::<Grant>(), denied.parse::<Grant>()) {
        (Ok(allowed), Ok(denied)) => {
            allowed.effect() == denied.effect() && (allowed.is_tainted() || !denied.is_tainted())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_core::api::PolicyRequest;

    #[test]
    fn a_request_overrides_the_configuration() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let settings = PolicySettings {
            allow: list(&["commit-git"]),
            deny: list(&["run-process", "install"]),
            ..PolicySettings::default()
        };
        let request = PolicyRequest {
            allow: list(&["run-process"]),
            deny: list(&["commit-git"]),
            ..PolicyRequest::default()
        };
        let repository = Narrowing::default();
        let merged = merged(&settings, &request, &repository);
        assert_eq!(merged.allow, ["commit-git", "run-process"]);
        assert_eq!(merged.deny, ["install", "commit-git"]);
    }

    #[test]
    fn a_repository_denies_whatever_the_user_allows_and_allows_nothing() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let request = PolicyRequest {
            allow: list(&["commit-git", "install:tainted"]),
            ..PolicyRequest::default()
        };
        let settings = PolicySettings {
            deny: list(&["install", "install:tainted", "commit-git:tainted"]),
            ..PolicySettings::default()
        };
        let repository = Narrowing {
            deny: list(&["commit-git"]),
            untrusted: true,
            ..Narrowing::default()
        };
        let merged = merged(&settings, &request, &repository);
        assert_eq!(merged.allow, ["commit-git", "install:tainted"]);
        assert_eq!(merged.deny, ["commit-git:tainted", "commit-git"]);
        assert!(merged.untrusted && !merged.require_sandbox);
    }
}
