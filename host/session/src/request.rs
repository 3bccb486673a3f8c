//! Checks of a request before anything starts, so that a caller's mistake is reported at once, with a hint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::engine::Engine;
use super::plan::{SessionPlan, SessionTask};
use super::run_blocking;
use crate::limits;
use tool_config::{PolicySettings, ReportsPlace, Settings};
use tool_core::api::Grant;
use tool_core::api::ProviderName;
use tool_core::api::{Action, BudgetRequest, ErrorKind, ExecuteRequest, Operation, PolicyRequest, Problem};
use tool_journal::journal::StartRecord;
use tool_repository::{Repository, RepositoryError, RepositoryRules};
use tool_sandbox::program_sandbox;
use tool_skill::lock::{self, LockDifference, SkillLock};
use tool_skill::policy::{EffectCause, GrantPlace, Policy};

pub(super) fn check_provider(asserted: Option<&str>, enabled: ProviderName) -> Result<(), Problem> {
    let Some(asserted) = asserted else { return Ok(()) };
    if !ProviderName::ALL.iter().any(|name| name.name() == asserted) {
        let message = format!("Unknown provider `{asserted}`: expected hosted, local or router");
        return Err(Problem::new(ErrorKind::InvalidRequest, message));
    }
    if asserted == enabled.name() {
        return Ok(());
    }
    Err(Problem::new(
        ErrorKind::ProviderMismatch,
        format!("The provider `{asserted}` is not enabled: `{enabled}` is"),
    )
    .with_action(Action::EnableProvider {
        name: asserted.to_owned(),
    }))
}

/// Checks that a request names a target or a task. The session finds out whether it exists.
pub(super) fn check_target(request: &ExecuteRequest) -> Result<(), Problem> {
    let given = |field: &Option<String>| field.as_deref().is_some_and(|text| !text.trim().is_empty());
    let (missing, sort) = match request.operation {
        Operation::Explain => (false, ""),
        Operation::Architect | Operation::Refactor => {
            (!given(&request.target) && !given(&request.task), "a task or a path")
        }
        Operation::TestGen => (!given(&request.target), "a source file"),
    };
    if missing {
        Err(Problem::new(
            ErrorKind::InvalidRequest,
            format!("{} needs a `target`: {sort}", request.operation),
        ))
    } else {
        Ok(())
    }
}

/// Minimum for a cost limit in billionths of a dollar: no request is cheaper.
const COST_NANOS_MIN: u64 = 1000;

/// Refuses limits of zero, and limits that no session can reach.
pub(super) fn check_budget(budget: &BudgetRequest) -> Result<(), Problem> {
    let bounds = [
        ("max_steps", budget.max_steps.map(u64::from), u64::from(u32::MAX)),
        ("max_tokens", budget.max_tokens, limits::SESSION_TOKENS_MAX),
        ("timeout_seconds", budget.timeout_seconds, limits::SESSION_SECONDS_MAX),
    ];
    let is_wrong = |bound: &(&str, Option<u64>, u64)| bound.1.is_some_and(|value| !(1..=bound.2).contains(&value));
    if budget.max_cost.is_some_and(|cost| cost.nanos() < COST_NANOS_MIN) {
        let message = "`budget.max_cost` must be at least 0.000001 US dollars";
        return Err(Problem::new(ErrorKind::InvalidRequest, message).with_hint("leave it out for no bound"));
    }
    match bounds.into_iter().find(is_wrong) {
        Some((field, Some(0), _)) => Err(Problem::new(
            ErrorKind::InvalidRequest,
            format!("`budget.{field}` must be at least 1"),
        )
        .with_hint("leave it out for the usual bound")),
        Some((field, _, max)) => Err(Problem::new(
            ErrorKind::InvalidRequest,
            format!("`budget.{field}` must be at most {max}"),
        )
        .with_hint("leave it out for the usual bound")),
        None => Ok(()),
    }
}

/// The target as tasks and reports show it.
pub(super) fn shown_target(request: &ExecuteRequest) -> String {
    let given = |field: &Option<String>| field.clone().filter(|text| !text.trim().is_empty());
    match (given(&request.target), given(&request.task)) {
        (Some(target), Some(task)) if target != task => format!("{target}: {task}"),
        // Several targets of explain are separate lines.
        (Some(target), _) if request.operation == Operation::Explain => {
            target.lines().map(str::trim).collect::<Vec<_>>().join(" ")
        }
        (Some(target), _) => target,
        (None, Some(task)) => task,
        (None, None) => ".".to_owned(),
    }
}

/// What every session settles first: the repository, its lock file, and what may be done there.
pub(super) struct Prepared {
    pub(super) repository: Arc<Repository>,
    /// The repository's lock file: its grants for the skills of a team.
    pub(super) locked: Option<Arc<SkillLock>>,
    pub(super) policy: Policy,
    /// The configuration, the request and the repository's own file, merged.
    pub(super) policy_request: PolicyRequest,
}

/// The part of a request that decides about its policy.
pub(super) struct PolicyCase<'a> {
    pub(super) cause: EffectCause,
    pub(super) settings: &'a PolicySettings,
    pub(super) request: &'a PolicyRequest,
    /// Effects to ask about where the policy would deny them.
    pub(super) asked: &'a [String],
    /// True where the client answers other questions, too.
    pub(super) is_interactive: bool,
    /// What denials name.
    pub(super) grants: GrantPlace,
}

impl Prepared {
    /// Settles the policy in a repository. The first call tries out which sandbox the machine allows, which takes a
    /// moment.
    pub(super) async fn resolve(
        case: PolicyCase<'_>,
        repository: Arc<Repository>,
        locked: Option<Arc<SkillLock>>,
    ) -> Result<Self, Problem> {
        let policy_request = merge_policies(case.settings, case.request, repository.narrowing());
        let policy = Policy::new(case.cause, &policy_request)?
            .unsandboxed_by(case.request)?
            .asking(case.asked, case.is_interactive)?
            .granted_in(case.grants);
        let policy = run_blocking(move || policy.contained(program_sandbox::detect_sandbox)).await?;
        Ok(Self {
            repository,
            locked,
            policy,
            policy_request,
        })
    }

    /// The plan of a session that begins like this, without keys to redact.
    pub(super) fn plan(
        self,
        start: StartRecord,
        task: SessionTask,
        environment: BTreeMap<String, String>,
    ) -> SessionPlan {
        SessionPlan {
            start: StartRecord {
                policy: self.policy_request,
                ..start
            },
            repository: self.repository,
            locked: self.locked,
            policy: self.policy,
            environment,
            redactor: Arc::default(),
            task,
            is_attached: false,
        }
    }
}

/// Reads the lock file of a repository. A frozen request is refused if the skills differ from it.
pub(super) async fn read_lock(
    repository: &Arc<Repository>,
    engine: &Arc<dyn Engine>,
    is_frozen: bool,
) -> Result<Option<Arc<SkillLock>>, Problem> {
    let (repository, engine) = (Arc::clone(repository), Arc::clone(engine));
    let cancel = CancellationToken::new();
    let _guard = cancel.clone().drop_guard();
    run_blocking(move || {
        let lock = lock(&repository, &cancel)?;
        if is_frozen {
            let lock = frozen(lock, |lock| engine.differences(lock, repository.root()))?;
            return Ok(Some(Arc::new(lock.closed())));
        }
        Ok(lock.map(Arc::new))
    })
    .await
}

/// Merges the user's configuration, a request and the repository's restrictions for the policy. `allow` of the
/// request overrides `deny` of the configuration; `deny` of the request and of the repository overrides everything.
pub(super) fn merge_policies(
    settings: &PolicySettings,
    request: &PolicyRequest,
    repository: &RepositoryRules,
) -> PolicyRequest {
    let is_allowed = |denied: &String| request.allow.iter().any(|allowed| covers(allowed, denied));
    let configured = settings.deny.iter().filter(|denied| !is_allowed(denied));
    PolicyRequest {
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

const HOME_HINT: &str = "go to a project in it, or name one with `--repo DIR`; or say yes for every time with \
    `home = true` below `[policy]` in config.toml";

pub(super) fn open_repository(path: &str, options: &tool_repository::Options) -> Result<Arc<Repository>, Problem> {
    let root = Path::new(path);
    if !root.is_absolute() {
        let message = format!("`repo_path` must be an absolute path: `{path}`");
        return Err(Problem::new(ErrorKind::InvalidRequest, message));
    }
    let repository = Repository::open(root, options).map_err(|error| describe_refusal(&error))?;
    check_denied(&repository, &options.cancel)?;
    Ok(repository)
}

/// Reads the lock file of a repository. A file that cannot be parsed is an error, because its restrictions are
/// unknown.
fn lock(repository: &Repository, cancel: &CancellationToken) -> Result<Option<SkillLock>, Problem> {
    SkillLock::read_repository(repository, cancel)
        .map_err(|error| Problem::new(ErrorKind::ConfigLock, error.to_string()).with_action(Action::LockSkills))
}

/// Refuses any difference between a lock file and the installed skills.
fn frozen(
    lock: Option<SkillLock>,
    differences: impl FnOnce(&SkillLock) -> Vec<LockDifference>,
) -> Result<SkillLock, Problem> {
    let Some(lock) = lock else {
        let message = format!("Nothing may differ from `{}`, and the repository has none", lock::NAME);
        return Err(Problem::new(ErrorKind::ConfigLock, message).with_hint("`tool skill lock NAME…` writes one"));
    };
    let differences = differences(&lock);
    if differences.is_empty() {
        return Ok(lock);
    }
    Err(lock::drift_problem(&differences))
}

/// Converts the refusal of a root to a problem for the user.
pub(super) fn describe_refusal(error: &RepositoryError) -> Problem {
    let of_root_file = matches!(error, RepositoryError::Pattern(pattern) if pattern.of_repository);
    let hint = match error {
        _ if of_root_file => Some(tool_repository::ROOT_FILE_HINT.to_owned()),
        RepositoryError::RootFile(_) => Some(tool_repository::ROOT_FILE_HINT.to_owned()),
        RepositoryError::Home { .. } => Some(HOME_HINT.to_owned()),
        error => std::error::Error::source(error).map(ToString::to_string),
    };
    let kind = match error {
        _ if of_root_file => ErrorKind::ConfigRepository,
        RepositoryError::Open { .. } => ErrorKind::InvalidRepository,
        RepositoryError::Pattern(_) => ErrorKind::ConfigInvalid,
        RepositoryError::RootFile(_) => ErrorKind::ConfigRepository,
        _ => ErrorKind::RefusedRepository,
    };
    let problem = Problem::new(kind, error.to_string());
    match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

/// Refuses a denial in the repository's own file that names no effect, because it would deny nothing.
fn check_denied(repository: &Repository, cancel: &CancellationToken) -> Result<(), Problem> {
    for name in &repository.narrowing().deny {
        name.parse::<Grant>().map_err(|problem| Problem {
            kind: ErrorKind::ConfigRepository,
            message: format!("{}: {}", denied_place(repository, name, cancel), problem.message),
            ..problem
        })?;
    }
    Ok(())
}

/// Finds an unknown effect in the repository's file.
fn denied_place(repository: &Repository, name: &str, cancel: &CancellationToken) -> String {
    let text = repository
        .read_within(tool_repository::ROOT_FILE, limits::ROOT_FILE_BYTES_MAX, cancel)
        .unwrap_or_default();
    match tool_config::place_of(&String::from_utf8_lossy(&text), "policy", "deny", Some(name)) {
        Some(place) => format!("`.tool.toml`, `deny`, {place}"),
        None => "`.tool.toml`, `deny`".to_owned(),
    }
}

/// Keys in the user's configuration, which are replaced wherever they occur.
pub(super) fn own_keys(settings: &Settings) -> impl Iterator<Item = &str> {
    settings.provider.secrets()
}

/// Folder for `session-reports/`, from the configuration; empty if no report is written.
pub(super) fn reports_directory(
    place: &ReportsPlace,
    repository: &Repository,
    working_directory: &Path,
) -> Result<String, Problem> {
    let folder = match place {
        ReportsPlace::WorkingDirectory => working_directory,
        ReportsPlace::Root => repository.root(),
        ReportsPlace::None => return Ok(String::new()),
        ReportsPlace::Folder(folder) if folder.is_dir() => folder,
        ReportsPlace::Folder(folder) => {
            let message = format!("`directory` of [reports] is no folder: `{}`", folder.display());
            return Err(Problem::new(ErrorKind::ConfigInvalid, message).with_hint("make it, or name another one"));
        }
    };
    Ok(folder.to_string_lossy().into_owned())
}

/// Working directory of a request: the one that it names, if that is a directory outside of the system's, else the
/// root of the repository.
pub(super) fn working_directory(asked: Option<&str>, repository: &Repository) -> Result<PathBuf, Problem> {
    let Some(asked) = asked else {
        return Ok(repository.root().to_owned());
    };
    let invalid = |why: &str| {
        let message = format!("`working_directory` {why}: `{asked}`");
        Err(Problem::new(ErrorKind::InvalidRequest, message))
    };
    if !Path::new(asked).is_absolute() {
        return invalid("must be an absolute path");
    }
    let Ok(real) = std::fs::canonicalize(asked) else {
        return invalid("does not exist");
    };
    // The user may be allowed to write there, but reports do not belong there.
    if tool_repository::system_directory(&real).is_some_and(|system| !matches!(system, "/tmp" | "/var/tmp")) {
        return invalid("is a directory of the system");
    }
    match std::fs::metadata(&real) {
        Ok(metadata) if metadata.is_dir() => Ok(real),
        Ok(_) => invalid("is no directory"),
        Err(_) => invalid("cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let repository = RepositoryRules::default();
        let merged = merge_policies(&settings, &request, &repository);
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
        let repository = RepositoryRules {
            deny: list(&["commit-git"]),
            untrusted: true,
            ..RepositoryRules::default()
        };
        let merged = merge_policies(&settings, &request, &repository);
        assert_eq!(merged.allow, ["commit-git", "install:tainted"]);
        assert_eq!(merged.deny, ["commit-git:tainted", "commit-git"]);
        assert!(merged.untrusted && !merged.require_sandbox);
    }
}
