//! `tool doctor`: what works, what does not, and the command that fixes it. Starts no backend.
//!
//! Checks run in the order of their dependencies; a check is left out if one that it depends on has failed.

mod program;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use host::daemon;
use serde::Serialize;
use tool_config::{ProviderApi, ProviderSettings};
use tool_core::api::{BackendStatus, ErrorKind, Problem, RunPurpose, SkillState};
use tool_core::disk::{self, Disk};
use tool_core::text::clean_line;
use tool_provider::{ProbeReport, ProbeVerdict, ServerReport};
use tool_repository::RepositoryRules;
use tool_sandbox::disk_space::{self, FreeSpace};
use tool_sandbox::helper_process;
use tool_sandbox::program_sandbox::{self, Sandbox};
use tool_sandbox::toolchain;
use tool_session::plan_tests;
use tool_session::preflight::run_preflight;
use tool_skill::{PlannedRun, SkillHost};

use super::skill::agreements::AgreementFinding;
use super::{CommandContext, format_size, print_json, provider_options, skill, wait_for_answer};
use crate::builtins::BUILTINS;
use crate::error::{Error, FAILED, USAGE};
use crate::output::CommandOutput;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

impl CheckStatus {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct CheckResult {
    name: &'static str,
    status: CheckStatus,
    detail: String,
    /// The command or the step that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl CheckResult {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Ok,
            detail: detail.into(),
            fix: None,
        }
    }

    fn warn(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            status: CheckStatus::Warn,
            fix: Some(fix.into()),
            ..Self::ok(name, detail)
        }
    }

    fn of_problem(name: &'static str, status: CheckStatus, problem: Problem) -> Self {
        Self {
            name,
            status,
            detail: problem.message,
            fix: problem.hint,
        }
    }

    fn failed(name: &'static str, problem: Problem) -> Self {
        Self::of_problem(name, CheckStatus::Fail, problem)
    }
}

#[derive(Debug, Serialize)]
struct DoctorReport {
    checks: Vec<CheckResult>,
    /// Capabilities of the provider, with `--probe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<ProbeReport>,
}

/// Name of the check of the home folder.
const HOME: &str = "home";

pub(super) async fn run_checks(probe: bool, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let mut checks = CheckList {
        list: Vec::new(),
        json,
        output: context.output,
    };
    let (root, _) = context.places()?;
    let found = run_preflight(&context.backend.home, &context.backend.environment, &root);
    let home = daemon::check_home(&context.backend.home);
    // If another user may have written the configuration, its commands are not run.
    let settings = home
        .clone()
        .and_then(|()| tool_config::load_settings(&context.backend.home, &context.backend.environment));
    let settings = settings.and_then(|settings| found.configuration.clone().map_or(Ok(settings), Err));
    if home.is_ok() {
        checks.add(check_configuration(&settings, context))?;
    }
    for warning in found.warnings {
        checks.add(CheckResult::of_problem("configuration", CheckStatus::Warn, warning))?;
    }
    let root_file = found.root_file.map(|(place, narrowing)| root_file(&place, narrowing));
    let agreed = skill::agreements::check_agreements(&root, context);
    let is_understood = !agreed
        .iter()
        .any(|(_, finding)| matches!(finding, AgreementFinding::Wrong(_)));
    let is_configured = is_understood
        && settings.is_ok()
        && !root_file
            .as_ref()
            .is_some_and(|check| check.status == CheckStatus::Fail);
    if let Some(check) = root_file {
        checks.add(check)?;
    }
    checks.add(home.map_or_else(
        |problem| CheckResult::failed(HOME, problem),
        |()| check_home_folder(&context.backend.home),
    ))?;
    let disks = [
        ("home disk", &*context.backend.home, Disk::Home),
        ("repository disk", &root, Disk::Repository),
    ];
    for (name, path, disk) in disks {
        if let Some(check) = disk_space::read_free_space(existing_ancestor(path))
            .ok()
            .map(|left| disk_check(name, disk, left))
        {
            checks.add(check)?;
        }
    }
    checks.add(check_backend(context).await)?;
    if let Ok(settings) = &settings {
        checks.add(check_key(&settings.provider))?;
        for check in check_models(&settings.provider, context).await {
            checks.add(check)?;
        }
    }
    checks.add(check_skills(&context.backend.home))?;
    for (name, finding) in agreed {
        checks.add(match finding {
            AgreementFinding::Fine(detail) => CheckResult::ok(name, detail),
            AgreementFinding::Odd(problem) => CheckResult::of_problem(name, CheckStatus::Warn, problem),
            AgreementFinding::Wrong(problem) => CheckResult::failed(name, problem),
        })?;
    }
    for check in check_surroundings(context, found.refused)? {
        checks.add(check)?;
    }
    checks.add(program::check_program())?;
    let report = match &settings {
        Ok(settings) if probe => Some(checks.probe(&settings.provider, context).await?),
        _ => None,
    };
    let failed = checks.list.iter().any(|check| check.status == CheckStatus::Fail)
        || report
            .as_ref()
            .is_some_and(|report| report.checks.iter().any(|check| check.verdict == ProbeVerdict::Fails));
    if json {
        let examination = DoctorReport {
            checks: checks.list,
            probe: report,
        };
        print_json(&examination, context.output)?;
    }
    Ok(match (is_configured, failed) {
        (false, _) => ExitCode::from(USAGE),
        (true, true) => ExitCode::from(FAILED),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// The results so far: printed one by one, or collected for JSON.
struct CheckList {
    list: Vec<CheckResult>,
    json: bool,
    output: CommandOutput,
}

impl CheckList {
    fn add(&mut self, check: CheckResult) -> Result<(), Error> {
        if !self.json {
            self.output.verdict(check.status.name(), check.name, &check.detail)?;
            if let Some(fix) = &check.fix {
                self.output.line(&format!("      {:15} hint: {fix}", ""))?;
            }
        }
        self.list.push(check);
        Ok(())
    }

    /// Probes the capabilities of the provider. Takes seconds, or minutes if a model must be loaded first.
    async fn probe(&self, settings: &ProviderSettings, context: &CommandContext) -> Result<ProbeReport, Error> {
        let what = format!("trying what {} can do", settings.model);
        let report = wait_for_answer(
            what,
            tool_provider::probe_provider(settings, &provider_options(context)),
            self.output,
        )
        .await;
        if self.json {
            return Ok(report);
        }
        for check in &report.checks {
            let (verdict, detail) = match check.verdict {
                ProbeVerdict::Works => (CheckStatus::Ok, check.detail.clone()),
                ProbeVerdict::WorkedAround => (CheckStatus::Ok, format!("worked around: {}", check.detail)),
                ProbeVerdict::Fails => (CheckStatus::Fail, check.detail.clone()),
            };
            self.output.verdict(verdict.name(), check.name, &detail)?;
        }
        Ok(report)
    }
}

fn check_configuration(settings: &Result<tool_config::Settings, Problem>, context: &CommandContext) -> CheckResult {
    const NAME: &str = "configuration";
    match settings {
        Err(problem) => CheckResult::failed(NAME, problem.clone()),
        Ok(settings) => match tool_config::check_exposure(&context.backend.home) {
            Some(problem) => CheckResult::of_problem(NAME, CheckStatus::Warn, problem),
            None => {
                let (name, model) = (settings.provider.name, &settings.provider.model);
                let file = tool_config::config_path(&context.backend.home);
                CheckResult::ok(NAME, format!("provider {name}, model {model}, {}", file.display()))
            }
        },
    }
}

/// Checks the repository's own file and lists what it forbids.
fn root_file(place: &Path, narrowing: Result<RepositoryRules, Problem>) -> CheckResult {
    const NAME: &str = "repository file";
    let narrowing = match narrowing {
        Ok(narrowing) => narrowing,
        Err(problem) => return CheckResult::failed(NAME, problem),
    };
    let said = |(key, list): (&str, &[String])| {
        let verb = match key {
            "deny" => "denies",
            "hide" => "hides",
            _ => "protects",
        };
        format!("{verb} {}", list.join(", "))
    };
    let mut words: Vec<String> = narrowing.lists().map(said).collect();
    if narrowing.require_sandbox {
        words.push("requires the full sandbox".to_owned());
    }
    if narrowing.untrusted {
        words.push("calls itself untrusted".to_owned());
    }
    if words.is_empty() {
        CheckResult::ok(NAME, format!("{} forbids nothing", place.display()))
    } else {
        CheckResult::ok(NAME, format!("{} {}", place.display(), words.join("; ")))
    }
}

/// Checks that the home folder is writable. Its owner was checked before.
fn check_home_folder(home: &Path) -> CheckResult {
    let shown = home.display();
    let Ok(metadata) = std::fs::metadata(home) else {
        return CheckResult::warn(HOME, format!("`{shown}` does not exist yet"), "tool init");
    };
    let mode = metadata.permissions().mode() & 0o777;
    if !metadata.is_dir() {
        let problem =
            Problem::new(ErrorKind::Home, format!("`{shown}` is not a folder")).with_hint("set TOOL_HOME to one");
        return CheckResult::failed(HOME, problem);
    }
    // `disk_check` reports a full disk.
    if try_write(home).is_err_and(|error| !disk::is_full(&error)) {
        let problem = Problem::new(ErrorKind::Home, format!("`{shown}` cannot be written (mode {mode:o})"))
            .with_hint(format!("chmod u+rwx '{shown}', or set TOOL_HOME to a folder of yours"));
        return CheckResult::failed(HOME, problem);
    }
    CheckResult::ok(HOME, format!("{shown} (mode {mode:o})"))
}

/// Tries to create a file in a folder: the mode does not tell everything, for example on a read-only file system.
fn try_write(folder: &Path) -> std::io::Result<()> {
    let place = folder.join(format!(".doctor-{}", uuid::Uuid::new_v4().simple()));
    std::fs::OpenOptions::new().write(true).create_new(true).open(&place)?;
    // A file that could be created can be removed.
    std::fs::remove_file(&place)
}

/// With fewer free bytes a disk counts as full: a report and the beginning of a journal take a few hundred kilobytes.
const ROOM_BYTES_MIN: u64 = 1024 * 1024;
/// With fewer free bytes a disk counts as nearly full: one journal may take this much.
const ROOM_BYTES_GOOD: u64 = 64 * 1024 * 1024;
/// With fewer free inodes a disk counts as nearly full: a session creates some ten files.
const ROOM_FILES_GOOD: u64 = 1000;

/// Checks that a disk has room for the program's files.
fn disk_check(name: &'static str, disk: Disk, left: FreeSpace) -> CheckResult {
    let files = left.files.unwrap_or(u64::MAX);
    let what = match left.files {
        Some(files) if files < ROOM_FILES_GOOD => format!("room for {files} more files"),
        _ => format!("{} free", format_size(left.bytes)),
    };
    let fix = format!("make room on {disk}");
    if left.bytes < ROOM_BYTES_MIN || files == 0 {
        let missed = match disk {
            Disk::Repository => "no change and no report can be written",
            Disk::Home | Disk::Temporary => "no session can begin, and no change can be made",
        };
        let problem = Problem::new(ErrorKind::Disk, format!("full: {what}; {missed}")).with_hint(fix);
        return CheckResult::failed(name, problem);
    }
    if left.bytes < ROOM_BYTES_GOOD || files < ROOM_FILES_GOOD {
        CheckResult::warn(name, format!("nearly full: {what}"), fix)
    } else {
        CheckResult::ok(name, what)
    }
}

fn existing_ancestor(path: &Path) -> &Path {
    path.ancestors().find(|above| above.exists()).unwrap_or(path)
}

async fn check_backend(context: &CommandContext) -> CheckResult {
    const NAME: &str = "backend";
    let (backend, own) = (&context.backend, env!("CARGO_PKG_VERSION"));
    let wanted = match tool_config::backend_port(&backend.home, &backend.environment) {
        Ok(port) => port,
        Err(problem) => return CheckResult::failed(NAME, problem),
    };
    if let Some(problem) = daemon::find_lost_daemon(&backend.home) {
        return CheckResult::failed(NAME, problem);
    }
    let Some(record) = daemon::find_daemon(&backend.home) else {
        let common = tool_config::load_common(&backend.home, &backend.environment);
        let server = common.map(|common| common.server).unwrap_or_default();
        return not_running(NAME, SocketAddr::new(server.address, wanted));
    };
    let status = async {
        backend
            .connect_running()
            .await?
            .get::<BackendStatus>("/api/status")
            .await
    };
    match status.await {
        Err(Error::Problem(problem)) => CheckResult::failed(NAME, problem),
        Err(_) => CheckResult::warn(NAME, "it did not answer", "tool service restart"),
        Ok(status) if status.version != own => CheckResult::warn(
            NAME,
            format!("version {} runs on port {}, this is {own}", status.version, status.port),
            "tool service restart",
        ),
        Ok(status) if wanted != 0 && status.port != 0 && wanted != status.port => CheckResult::warn(
            NAME,
            format!(
                "it runs on port {}, and {wanted} is configured (`tool config` says where)",
                status.port
            ),
            "tool service restart",
        ),
        Ok(status) if super::service::is_exposed(&status) => CheckResult::warn(
            NAME,
            format!(
                "running on port {} of {}, where other machines may reach it; nothing is encrypted",
                status.port, status.address
            ),
            "leave out `address` of [server] in config.toml, then `tool service restart`",
        ),
        Ok(status) => {
            let place = super::service::port_in_words(&status);
            CheckResult::ok(NAME, format!("running on {place}, process {}", record.pid))
        }
    }
}

/// Checks that the daemon can bind its address when an operation starts it.
fn not_running(name: &'static str, address: SocketAddr) -> CheckResult {
    let port = address.port();
    match TcpListener::bind(address) {
        Ok(_) => CheckResult::ok(name, "not running; it starts with the first operation"),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => CheckResult::failed(
            name,
            Problem::new(
                ErrorKind::PortInUse,
                format!("not running, and port {port} is taken by another program"),
            )
            .with_hint(daemon::taken_hint(port)),
        ),
        Err(error) => CheckResult::failed(
            name,
            Problem::new(
                ErrorKind::StartFailed,
                format!("not running, and port {port} cannot be bound: {error}"),
            )
            .with_hint("choose another: `tool init --port N`, or TOOL_BACKEND_PORT (0 takes any free one)"),
        ),
    }
}

fn check_key(provider: &ProviderSettings) -> CheckResult {
    let detail = match &provider.api_key {
        Some(key) => format!(
            "set, {} characters; `tool config` says from where",
            key.expose().chars().count()
        ),
        // Without the key that it needs, a provider's configuration does not load.
        None => format!("the provider `{}` needs none", provider.name),
    };
    CheckResult::ok("key", detail)
}

/// Checks that the provider answers, and that it knows the model.
async fn check_models(settings: &ProviderSettings, context: &CommandContext) -> Vec<CheckResult> {
    if settings.api == ProviderApi::Analyst {
        return vec![CheckResult::ok(
            "provider",
            "the embedded analyst: no network, no model",
        )];
    }
    if !settings.quirks.has_model_list {
        let name = settings.display_name();
        let detail = format!("{name} has no list of models, so nothing was asked");
        return vec![CheckResult::warn("provider", detail, "tool doctor --probe")];
    }
    let (what, options) = (
        format!("asking {} for its models", settings.display_name()),
        provider_options(context),
    );
    let look = wait_for_answer(what, tool_provider::inspect_server(settings, &options), context.output).await;
    match look {
        Ok(look) => match &look.models {
            Some(models) => vec![
                check_reached(settings, &look),
                check_model_known(&settings.model, models, settings),
            ],
            None => vec![check_reached(settings, &look), without_list(settings)],
        },
        Err(problem) => vec![CheckResult::failed("provider", problem)],
    }
}

fn check_reached(settings: &ProviderSettings, look: &ServerReport) -> CheckResult {
    let answers = format!("{} answers", settings.url);
    CheckResult::ok(
        "provider",
        if look.receiver_is_unknown {
            format!(
                "{answers}; this system does not tell which user runs it (a container's port, for example), so that is not \
                 checked"
            )
        } else {
            answers
        },
    )
}

/// A server without a model list may still serve requests. A wrong `url` looks the same.
fn without_list(settings: &ProviderSettings) -> CheckResult {
    CheckResult::warn(
        "model",
        format!(
            "{} has no model list, so neither `url` nor the model `{}` could be checked",
            settings.url, settings.model
        ),
        "tool doctor --probe",
    )
}

fn check_model_known(model: &str, models: &[String], settings: &ProviderSettings) -> CheckResult {
    const NAME: &str = "model";
    if models.iter().any(|other| other == model) {
        return CheckResult::ok(NAME, model);
    }
    if models.is_empty() {
        return CheckResult::warn(
            NAME,
            format!("the provider lists no models, so `{model}` could not be checked"),
            "tool doctor --probe",
        );
    }
    let some: Vec<&str> = models.iter().take(3).map(String::as_str).collect();
    CheckResult::warn(
        NAME,
        format!(
            "`{model}` is not among the {} models of the provider, for example {}",
            models.len(),
            some.join(", ")
        ),
        format!("tool init --provider {} --model MODEL", settings.name),
    )
}

fn check_skills(home: &Path) -> CheckResult {
    const NAME: &str = "skills";
    let entries = match SkillHost::new(BUILTINS, home) {
        Ok(skills) => skills.entries(),
        Err(error) => return CheckResult::failed(NAME, Problem::new(ErrorKind::Skill, error.to_string())),
    };
    let ready = entries.iter().filter(|entry| entry.state == SkillState::Ready).count();
    match entries.iter().find(|entry| entry.state != SkillState::Ready) {
        None => CheckResult::ok(NAME, format!("{ready} ready")),
        Some(waiting) => CheckResult::warn(
            NAME,
            match &waiting.reason {
                Some(reason) => format!("{ready} ready; `{}` is {}: {reason}", waiting.name, waiting.state),
                None => format!("{ready} ready; `{}` is {}", waiting.name, waiting.state),
            },
            match waiting.state {
                SkillState::Unsigned => format!("tool skill sign {} --key FILE", waiting.name),
                SkillState::Refused => format!("tool skill remove {}", waiting.name),
                SkillState::Disabled => format!("tool skill enable {}", waiting.name),
                SkillState::Ready | SkillState::Untrusted | SkillState::Changed => {
                    format!("tool skill trust {}", waiting.name)
                }
            },
        ),
    }
}

/// The repository here, unless it is `refused`, and the programs that would run its tests.
fn check_surroundings(context: &CommandContext, refused: Option<Problem>) -> Result<Vec<CheckResult>, Error> {
    let (root, _) = context.places()?;
    let environment = context.backend.environment.forwarded();
    let repository = match (refused, root.join(".git").exists()) {
        (Some(refused), _) => CheckResult::failed("repository", refused),
        (None, true) => CheckResult::ok("repository", format!("{}, a git work tree", root.display())),
        (None, false) => CheckResult::warn(
            "repository",
            format!(
                "{} is not in a git work tree: `git_diff` and `git_commit` do not work",
                root.display()
            ),
            "git init",
        ),
    };
    let python = match toolchain::find_python(&root, &environment) {
        Ok(python) => {
            let version = python
                .version
                .unwrap_or_else(|| "chosen by the project's tool".to_owned());
            CheckResult::ok("python", format!("{version} ({})", python.program.display()))
        }
        Err(missing) => CheckResult::warn(
            "python",
            format!("{missing}: tests of Python projects cannot run"),
            missing.hint,
        ),
    };
    let node = match toolchain::find_program("node", &root, &environment) {
        Some(node) => CheckResult::ok("node", format!("{} ({})", node.version, node.path.display())),
        None => CheckResult::warn(
            "node",
            "not found: tests of npm projects cannot run",
            "install Node.js, with npm",
        ),
    };
    let tests = check_tests(context, &root);
    Ok(vec![repository, python, node, tests, check_sandbox(), check_helpers()])
}

/// What runs the tests here, as `tool tests` lists it, and what is missing for it.
fn check_tests(context: &CommandContext, root: &Path) -> CheckResult {
    const NAME: &str = "tests";
    let planned = plan_tests(&context.backend.home, &context.backend.environment, root, None);
    let mut tests = match planned {
        Ok(planned) => planned,
        Err(problem) => return CheckResult::of_problem(NAME, CheckStatus::Warn, problem),
    };
    tests.retain(|run| run.purpose == RunPurpose::Tests && !run.paths_only);
    let named = |run: &PlannedRun| match (run.command.join(" "), run.directory.as_str()) {
        (command, _) if !command.is_empty() => command,
        (_, "") => run.recipe.clone(),
        (_, directory) => format!("{} in {directory}", run.recipe),
    };
    for run in &tests {
        if let Some(missing) = &run.missing {
            let what = format!("{}: {}", named(run), missing.what);
            return CheckResult::warn(NAME, clean_line(&what), clean_line(&missing.fix));
        }
    }
    match tests.iter().map(named).collect::<Vec<_>>().as_slice() {
        [] => CheckResult::ok(NAME, "no sign of them here"),
        named => CheckResult::ok(NAME, clean_line(&named.join(", "))),
    }
}

/// Checks the sandbox for test runs.
fn check_sandbox() -> CheckResult {
    const NAME: &str = "sandbox";
    let available = program_sandbox::detect_sandbox();
    let refused = available.refused.join("; ");
    match available.sandbox {
        Sandbox::Namespaces => CheckResult::ok(NAME, "namespaces: tests run contained"),
        Sandbox::Landlock => CheckResult::warn(
            NAME,
            format!("landlock only, on a copy of the tree ({refused})"),
            "allow user namespaces on this machine, or in this container",
        ),
        Sandbox::None => CheckResult::warn(
            NAME,
            format!("none: tests would run with your own rights, and are asked for first ({refused})"),
            "use Linux 6.12 or newer, or allow user namespaces",
        ),
    }
}

/// Checks the confinement of the processes that read git repositories and compile components.
fn check_helpers() -> CheckResult {
    const NAME: &str = "helpers";
    match helper_process::detect_confinement().missing() {
        None => CheckResult::ok(
            NAME,
            "confined: git is read and components are compiled in processes of their own",
        ),
        Some(missing) => CheckResult::warn(
            NAME,
            format!("reading git and compiling components is less confined than it could be: {missing}"),
            "use Linux 5.19 or newer with Landlock switched on",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_core::api::ProviderName;

    fn settings() -> ProviderSettings {
        ProviderSettings::new(ProviderName::Local, ProviderApi::Chat, "http://127.0.0.1:1234/v1", "m")
    }

    #[test]
    fn a_model_that_the_provider_does_not_list_is_a_warning() {
        let check = check_model_known("m", &["a".into(), "b".into()], &settings());
        assert_eq!(check.status, CheckStatus::Warn);
        assert_eq!(check.fix.as_deref(), Some("tool init --provider local --model MODEL"));
        assert_eq!(
            check_model_known("m", &["m".into()], &settings()).status,
            CheckStatus::Ok
        );
        assert_eq!(check_model_known("m", &[], &settings()).status, CheckStatus::Warn);
    }

    #[test]
    fn a_server_whose_user_is_unknown_is_reported_as_unchecked() {
        let detail = |receiver_is_unknown| {
            let look = ServerReport {
                models: Some(Vec::new()),
                receiver_is_unknown,
            };
            check_reached(&settings(), &look).detail
        };
        assert_eq!(detail(false), "http://127.0.0.1:1234/v1 answers");
        assert_eq!(
            detail(true),
            "http://127.0.0.1:1234/v1 answers; this system does not tell which user runs it (a container's port, for \
             example), so that is not checked"
        );
    }

    #[test]
    fn a_disk_that_is_full_or_nearly_so_is_told_with_what_helps() {
        let look = |bytes, files| {
            let check = disk_check("home disk", Disk::Home, FreeSpace { bytes, files });
            let fix = check.fix.unwrap_or_default();
            format!("{}: {} ({fix})", check.status.name(), check.detail)
        };
        assert_eq!(look(5_000_000_000, Some(900_000)), "ok: 5.0 GB free ()");
        assert_eq!(look(5_000_000_000, None), "ok: 5.0 GB free ()");
        let fix = "make room on the disk of TOOL_HOME (without it ~/.tool)";
        assert_eq!(
            look(20_000_000, Some(900_000)),
            format!("warn: nearly full: 20.0 MB free ({fix})")
        );
        assert_eq!(
            look(5_000_000_000, Some(9)),
            format!("warn: nearly full: room for 9 more files ({fix})")
        );
        let missed = "no session can begin, and no change can be made";
        assert_eq!(look(0, None), format!("fail: full: 0.0 MB free; {missed} ({fix})"));
        assert_eq!(
            look(5_000_000_000, Some(0)),
            format!("fail: full: room for 0 more files; {missed} ({fix})")
        );
    }

    #[test]
    fn a_home_that_is_missing_is_a_warning() {
        let home = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(check_home_folder(home.path()).status, CheckStatus::Ok);
        let missing = home.path().join("missing");
        assert_eq!(check_home_folder(&missing).fix.as_deref(), Some("tool init"));
    }
}
