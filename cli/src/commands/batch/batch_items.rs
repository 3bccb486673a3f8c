//! The work on one repository of a batch: clones it if it is a URL, runs the session, and collects the result.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use tool_core::api::{
    self, Dollars, ErrorKind, ExecuteRequest, PolicyRequest, Problem, SessionDiff, SessionResult, Status, Timestamp,
};
use tool_registry::clone::{CloneError, CloneWalls, clone_repository};
use tool_sandbox::program_sandbox::{self, Sandbox};

use super::list::{BatchItem, RepositorySource};
use super::results::BatchResult;
use crate::args::SessionFlags;
use crate::client::{Backend, Client, ServerEvents};
use crate::commands::{budget_request, cancel_on_error, path_text, policy_request, selection_request};
use crate::error::Error;
use crate::output::CommandOutput;

/// Everything that the sessions of a batch share.
#[derive(Debug)]
pub(super) struct BatchSettings {
    pub(super) backend: Backend,
    pub(super) output: CommandOutput,
    pub(super) session: SessionFlags,
    /// Working directory of the sessions.
    pub(super) reports: PathBuf,
    pub(super) cancel: CancellationToken,
}

/// An item with the part of the budget that is reserved for it.
#[derive(Debug)]
pub(super) struct StartedItem {
    pub(super) item: BatchItem,
    pub(super) bound: Option<Dollars>,
    pub(super) clone: PathBuf,
}

/// Why an item has no result.
#[derive(Debug)]
pub(super) enum ItemError {
    Cancelled,
    /// This item has failed; the next one may succeed.
    Item(Problem),
    /// Every further item would fail likewise.
    Batch(Error),
}

impl From<Error> for ItemError {
    fn from(error: Error) -> Self {
        match error {
            Error::Problem(problem) if !stops_batch(&problem.kind) => Self::Item(problem),
            error => Self::Batch(error),
        }
    }
}

/// True for an error that would also stop all other repositories. A temporary error, such as a rate limit, does not
/// count.
pub(super) fn stops_batch(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::AuthenticationFailed
            | ErrorKind::ProviderCredits
            | ErrorKind::ModelNotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ProviderUnreachable
            | ErrorKind::ProviderOtherUser
            | ErrorKind::NotAModelServer
            | ErrorKind::ToolsUnsupported
            | ErrorKind::InvalidProvider
            | ErrorKind::ConfigMissing
            | ErrorKind::ConfigInvalid
            | ErrorKind::ConfigExposed
            | ErrorKind::ConfigLock
            | ErrorKind::ConfigDrift
            | ErrorKind::ConfigKeyMissing
            | ErrorKind::ConfigModelMissing
            | ErrorKind::ConfigPriceMissing
            | ErrorKind::ConfigNeedsModel
            | ErrorKind::InvalidPolicy
            | ErrorKind::SandboxUnavailable
            | ErrorKind::BackendDown
            | ErrorKind::StartFailed
            | ErrorKind::Stopping
            | ErrorKind::Stranger
            | ErrorKind::OtherVersion
            | ErrorKind::AlreadyRunning
            | ErrorKind::ForeignHome
            | ErrorKind::OpenHome
            | ErrorKind::Home
            | ErrorKind::Interrupted
            | ErrorKind::JournalFailed
            | ErrorKind::Disk
            | ErrorKind::TemporaryFolder
    )
}

pub(super) async fn run_item(
    settings: Arc<BatchSettings>,
    started: StartedItem,
) -> (StartedItem, Result<BatchResult, ItemError>) {
    let (time, begun) = (api::current_time(), Instant::now());
    let ended = settings.run_session(&started).await;
    let result = match ended {
        Ok((result, diff)) => Ok(started.result(result, diff, time, begun)),
        Err(ItemError::Item(problem)) => Ok(started.failure(problem, time, begun)),
        Err(error) => Err(error),
    };
    if !result.as_ref().is_ok_and(|result| result.clone.is_some()) {
        remove_clone(started.clone.clone()).await;
    }
    (started, result)
}

impl BatchSettings {
    async fn run_session(&self, started: &StartedItem) -> Result<(SessionResult, Option<String>), ItemError> {
        let root = self.repository(started).await?;
        let request = self.request(started, &root).await?;
        let (client, mut events) = self
            .backend
            .connect_and_stream("/api/stream?form=reference", &request)
            .await?;
        let id = events.session().unwrap_or_default().to_owned();
        let problem = tokio::select! {
            problem = follow_session(&mut events) => problem?,
            () = self.cancel.cancelled() => {
                cancel_on_error(&client, &id, &Error::OutputClosed, self.output).await;
                return Err(ItemError::Cancelled);
            }
        };
        if let Some(problem) = problem.filter(|problem| stops_batch(&problem.kind)) {
            return Err(ItemError::Batch(problem.into()));
        }
        Ok(collect_result(&client, &id).await?)
    }

    /// The folder of the repository, or of the clone of a URL.
    async fn repository(&self, started: &StartedItem) -> Result<PathBuf, ItemError> {
        let url = match &started.item.source {
            RepositorySource::Folder(folder) if folder.is_dir() => return Ok(folder.clone()),
            RepositorySource::Folder(folder) => {
                let message = format!("Not a directory: {}", folder.display());
                return Err(ItemError::Item(Problem::new(ErrorKind::InvalidRepository, message)));
            }
            RepositorySource::Url(url) => url.clone(),
        };
        let (folder, cancel) = (started.clone.clone(), self.cancel.clone());
        let environment = self.backend.environment.variables().clone();
        let home = self.backend.home.clone();
        let walls = if self.session.policy.unsandboxed {
            CloneWalls::None
        } else {
            CloneWalls::Sandbox
        };
        // An interrupted run may have left a part of a clone.
        remove_clone(folder.clone()).await;
        let cloning = tokio::task::spawn_blocking(move || {
            let above = folder.parent().unwrap_or(&folder);
            std::fs::create_dir_all(above).map_err(|source| CloneError::Folder {
                path: above.to_owned(),
                source,
            })?;
            clone_repository(&url, &folder, walls, &home, &environment, &cancel).map(|()| folder)
        });
        match cloning.await {
            Ok(Ok(folder)) => Ok(folder),
            Ok(Err(CloneError::Cancelled)) => Err(ItemError::Cancelled),
            Ok(Err(error @ CloneError::NoGit)) => {
                Err(ItemError::Batch(Error::new(ErrorKind::Unavailable, error.to_string())))
            }
            Ok(Err(error @ CloneError::NoSandbox { .. })) => Err(ItemError::Batch(
                Problem::new(ErrorKind::SandboxUnavailable, capitalize_error(&error))
                    .with_hint(format!("{NAMESPACES}, or {UNSANDBOXED}"))
                    .into(),
            )),
            Ok(Err(error @ CloneError::Ssh { .. })) => {
                let problem = Problem::new(ErrorKind::InvalidRepository, error.to_string());
                Err(ItemError::Item(
                    problem.with_hint(format!("name its https address, or {UNSANDBOXED}")),
                ))
            }
            Ok(Err(error)) => {
                let problem = Problem::new(ErrorKind::InvalidRepository, error.to_string());
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                Err(ItemError::Item(match cause {
                    Some(cause) => problem.with_hint(cause),
                    None => problem,
                }))
            }
            Err(_) => Err(ItemError::Batch(Error::new(
                ErrorKind::Runtime,
                "A clone ended unexpectedly",
            ))),
        }
    }

    async fn request(&self, started: &StartedItem, root: &Path) -> Result<ExecuteRequest, ItemError> {
        let root = root
            .canonicalize()
            .map_err(|error| Error::on_file("Repository", root, &error))?;
        let run = self.session.run_arguments(started.bound);
        let mut policy = policy_request(&run.session.policy);
        if matches!(started.item.source, RepositorySource::Url(_)) {
            narrow_for_clone(&mut policy).await;
        } else {
            // Without one of these effects in the policy, the flag concerns only clones.
            policy.unsandboxed &= policy
                .allow
                .iter()
                .any(|effect| effect == "run-process" || effect == "install");
        }
        Ok(ExecuteRequest {
            operation: started.item.operation,
            // An absent target means the whole repository. `.` would mean the folder of the reports.
            target: started.item.task.clone().filter(|task| task.trim() != "."),
            repo_path: path_text(&root)?,
            provider: None,
            task: None,
            focus: None,
            working_directory: Some(path_text(&self.reports)?),
            model: run.session.model.clone(),
            interactive: false,
            ask: Vec::new(),
            is_of_program: false,
            policy,
            overrides: run.session.tests.overrides(self.backend.forwarded()),
            // If the batch is killed, its sessions are cancelled and spend nothing more.
            attached: true,
            selection: selection_request(&run.session.steer),
            budget: budget_request(&run),
            verification: run.session.tests.verification(),
            no_tests: run.session.tests.no_tests,
            no_checks: run.session.tests.no_checks,
            preview: false,
            full: true,
        })
    }
}

/// Advice for a machine without namespaces.
const NAMESPACES: &str = "allow user namespaces (on Ubuntu by `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, in a \
                          container by `--privileged`)";

/// Advice if a clone cannot be made in the sandbox.
const UNSANDBOXED: &str = "add `--unsandboxed` so that your own git fetches, with your rights; or clone it yourself and \
    name its folder";

fn capitalize_error(error: &CloneError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A URL may serve another repository today than when it was listed. So the clone is not trusted, and its tests run in
/// the full sandbox or not at all, whatever else was allowed.
async fn narrow_for_clone(policy: &mut PolicyRequest) {
    let available = tokio::task::spawn_blocking(program_sandbox::detect_sandbox).await;
    let has_sandbox = available.is_ok_and(|available| available.sandbox == Sandbox::Namespaces);
    policy.untrusted = true;
    policy.unsandboxed = false;
    policy.require_sandbox |= has_sandbox;
    if !has_sandbox {
        policy.deny.extend(["run-process", "install"].map(str::to_owned));
    }
}

/// Waits for the last event; an error event is the session's problem.
async fn follow_session(events: &mut ServerEvents) -> Result<Option<Problem>, Error> {
    while let Some(event) = events.next().await? {
        match event {
            api::Event::Complete { .. } => return Ok(None),
            api::Event::Error { code, message, hint } => {
                return Ok(Some(Problem {
                    hint,
                    ..Problem::new(code, message)
                }));
            }
            _ => {}
        }
    }
    Err(events.ended_early().await)
}

/// The result, and the diff of the changes.
async fn collect_result(client: &Client, id: &str) -> Result<(SessionResult, Option<String>), Error> {
    let mut client = client.another().await?;
    let result: SessionResult = client.get(&format!("/api/results/{id}")).await?;
    if result.files_modified.is_empty() {
        return Ok((result, None));
    }
    let diff: SessionDiff = client.get(&format!("/api/sessions/{id}/diff")).await?;
    Ok((result, Some(diff.diff)))
}

impl StartedItem {
    fn result(&self, session: SessionResult, diff: Option<String>, started: Timestamp, begun: Instant) -> BatchResult {
        let is_clone = matches!(self.item.source, RepositorySource::Url(_));
        BatchResult {
            status: session.status,
            error: session.error,
            session_id: Some(session.session_id),
            output: session.output,
            clone: (is_clone && !session.files_modified.is_empty()).then(|| self.clone.clone()),
            files_modified: session.files_modified,
            diff,
            usage: session.usage,
            ..self.empty_result(started, begun)
        }
    }

    fn failure(&self, problem: Problem, started: Timestamp, begun: Instant) -> BatchResult {
        BatchResult {
            error: Some(problem),
            ..self.empty_result(started, begun)
        }
    }

    fn empty_result(&self, started: Timestamp, begun: Instant) -> BatchResult {
        BatchResult {
            id: self.item.id.clone(),
            repository: self.item.repository.clone(),
            operation: self.item.operation,
            task: self.item.task.clone(),
            status: Status::Failed,
            error: None,
            session_id: None,
            output: String::new(),
            files_modified: Vec::new(),
            diff: None,
            usage: None,
            clone: None,
            started,
            seconds: begun.elapsed().as_secs_f64(),
        }
    }
}

/// Removes a clone. An error is ignored: the next run of the item would report it.
async fn remove_clone(folder: PathBuf) {
    let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit test has no helper, and so no sandbox.
    #[tokio::test]
    async fn tests_of_a_clone_do_not_run_where_there_is_no_full_sandbox() {
        let mut policy = PolicyRequest {
            allow: vec!["run-process".to_owned()],
            unsandboxed: true,
            ..PolicyRequest::default()
        };
        narrow_for_clone(&mut policy).await;
        assert_eq!(policy.deny, ["run-process", "install"]);
        assert!(policy.untrusted && !policy.unsandboxed && !policy.require_sandbox);
    }
}
