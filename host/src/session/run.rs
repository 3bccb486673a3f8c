//! The work of one session, from its request to its end: build the context, ask the model, run its tools, judge.
//!
//! Everything that happens is recorded on the way. How the session is kept, listed and cancelled is not decided here.

mod architect;
mod changed;
mod judge;
mod missed;
mod operate;
mod refactor;
mod review;
mod skill_call;
mod suite;
mod test_gen;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::approvals::SessionApprover;
use super::engine::Engine;
use super::feed::Recorder;
use super::journal::Work;
use crate::api::{self, BudgetRequest, Operation, Problem, Status};
use crate::config::{PolicySettings, Settings};
use crate::context::{Indexes, Steer};
use crate::provider::Usage;
use crate::repository::Repository;
use crate::skill::policy::Policy;

/// A session that is about to run.
pub(super) struct Job {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) approver: Arc<SessionApprover>,
    pub(super) repository: Arc<Repository>,
    pub(super) indexes: Arc<Indexes>,
    pub(super) policy: Policy,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) calls: Arc<Semaphore>,
    pub(super) cancel: CancellationToken,
    pub(super) task: Task,
}

/// What it is to do.
pub(super) enum Task {
    /// One of the four operations.
    Operation(Box<OperationTask>),
    /// One call of one skill.
    Skill { name: String, arguments: Value },
}

/// An operation's request, as it came, and its settings.
pub(super) struct OperationTask {
    pub(super) operation: Operation,
    pub(super) target: Option<String>,
    pub(super) task: Option<String>,
    pub(super) focus: Option<String>,
    pub(super) working_directory: PathBuf,
    pub(super) settings: Settings,
    pub(super) steer: Arc<Steer>,
    pub(super) budget: BudgetRequest,
}

/// How the work ended.
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
            problem: Some(Problem::new("cancelled", "The session was cancelled")),
            usage: None,
        }
    }

    /// The same with the cause in words, where the session was cancelled because the daemon stops.
    pub(super) fn by_stop(mut self) -> Self {
        if self.status == Status::Cancelled {
            self.problem = Some(
                Problem::new("cancelled", "The session was cancelled: the backend is stopping")
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

/// The specification's sentence for an operation that failed in a way that has no sentence of its own.
pub(super) fn operation_failed(work: &Work) -> Problem {
    let name = match work {
        Work::Operation(operation) => operation.name().to_owned(),
        Work::Skill(name) => name.clone(),
        Work::Undo(_) => "undo".to_owned(),
    };
    Problem::new(
        "operation-failed",
        format!("Operation failed: {name} encountered an error"),
    )
    .with_hint("read the session log in session-reports/")
}

/// Does the work. Ends soon after `cancel`.
pub(super) async fn run(job: &Job) -> Outcome {
    let outcome = match &job.task {
        Task::Operation(task) => operate::operate(job, task).await,
        Task::Skill { name, arguments } => skill_call::call_once(job, name, arguments).await,
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(_) if job.cancel.is_cancelled() => Outcome::cancelled(),
        Err(problem) => Outcome::failed(problem),
    }
}

/// The user's configuration and a request, as one request to the policy: the request's `allow` overrides the
/// configuration's `deny`, its `deny` overrides everything.
pub(super) fn merged(settings: &PolicySettings, request: &api::PolicyRequest) -> api::PolicyRequest {
    let configured = settings.deny.iter().filter(|effect| !request.allow.contains(effect));
    api::PolicyRequest {
        allow: settings.allow.iter().chain(&request.allow).cloned().collect(),
        deny: configured.chain(&request.deny).cloned().collect(),
        allow_paths: request.allow_paths.clone(),
        require_sandbox: settings.require_sandbox || request.require_sandbox,
        unsandboxed: request.unsandboxed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PolicyRequest;

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
        let merged = merged(&settings, &request);
        assert_eq!(merged.allow, ["commit-git", "run-process"]);
        assert_eq!(merged.deny, ["install", "commit-git"]);
    }
}
