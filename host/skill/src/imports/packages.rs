//! `packages`: installs packages by a named recipe, `pip-install` or `npm-install`, without install scripts.
//!
//! Installed packages run later, so names must follow the grammar of their ecosystem: an installer must not take one
//! for an option, a URL, a path or an archive in the repository. The question also lists what npm installs in
//! addition (`listed`). The installer runs in the sandbox and reaches only the user's registries (`sources`). Its
//! result is kept as a whole or not at all (`contained`, `place`).

mod names;
pub(super) mod package_records;
pub mod replace_folder;
mod sandboxed_install;
mod sources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::recipe::{self, PreparedRun};
use super::test_runs::source_layout::site_packages;
use crate::limits;
use crate::{CallContext, stage};
use package_records::ExtraPackages;
use sandboxed_install::InstallerRun;
use sources::PackageSources;
use test_results::ResultFormat;
use tool_boundary::Failure;
use tool_boundary::bindings::tool::skill::packages::Request;
use tool_boundary::bindings::tool::skill::tests::Report;
use tool_boundary::consent;
use tool_boundary::policy::Decision;
use tool_core::api::Effect;
use tool_sandbox::environment;
use tool_sandbox::program_sandbox::ToolAccess;
use tool_sandbox::program_sandbox::{self, Sandbox};
use tool_sandbox::toolchain::{PackageHome, Python};

/// Longest package name with its constraint. npm allows 214 bytes for the name alone.
const RECIPE_PACKAGE_BYTES_MAX: usize = 300;

/// Installs packages. An installer that fails is a report; a failure means that it did not run.
pub(super) fn install_packages(context: &CallContext, request: &Request) -> Result<Report, Failure> {
    consent::not_denied(context, Effect::Install)?;
    match request.recipe.as_str() {
        "pip-install" => install_with_pip(
            context,
            &names::check_package_names(&request.names, names::Ecosystem::Python)?,
        ),
        "npm-install" => install_with_npm(
            context,
            &names::check_package_names(&request.names, names::Ecosystem::Npm)?,
            request.dev,
        ),
        other => Err(Failure::invalid_arguments(format!(
            "There is no install recipe `{other}`: they are `pip-install` and `npm-install`."
        ))),
    }
}

fn question_title(installer: &str, names: &[String]) -> String {
    format!("Install with {installer}: {}", names.join(", "))
}

/// The failure in the words of the specification.
fn not_permitted(place: &str) -> Failure {
    Failure::failed(format!("Permission denied: {place}")).with_hint(
        "install locally: make a virtual environment with `python3 -m venv .venv`, or a `node_modules` of your own",
    )
}

/// Chooses the sandbox for an installation. On a machine without one, a user who allows installations by name has to
/// allow them without a sandbox as well; a user who is asked sees it in the question.
fn choose_sandbox(context: &CallContext) -> Result<Sandbox, Failure> {
    let (effect, policy) = (Effect::Install, &context.policy);
    let sandbox = policy.sandbox(effect);
    let is_asked = context.decide(effect) == Decision::Ask;
    if sandbox != Sandbox::None || is_asked || policy.is_unsandboxed(effect) || policy.requires_sandbox() {
        return Ok(sandbox);
    }
    let why = program_sandbox::detect_sandbox().refused.join("; ");
    Err(
        Failure::denied(format!("This machine has no sandbox for installations ({why}).")).with_hint(format!(
            "the user can install with their own rights, with {}",
            policy.grant_text(&recipe::unsandboxed_request(effect))
        )),
    )
}

/// An installation before the additional packages are known.
struct InstallPlan {
    recipe: PreparedRun,
    /// Real path of the folder of packages, if it is known.
    folder: Option<PathBuf>,
    manifests: &'static [&'static str],
    /// Packages that the installer adds to the named ones; absent if it reads no files of the repository.
    beside: Option<ExtraPackages>,
}

impl InstallPlan {
    /// Asks the user, and installs.
    fn execute(mut self, context: &CallContext, sources: Option<PackageSources>) -> Result<Report, Failure> {
        let sandbox = self.recipe.sandbox(context)?;
        if let Some(sources) = &sources {
            self.recipe.notes.push(sources.note());
        }
        if let Some(beside) = &self.beside {
            self.recipe.notes.extend(beside.notes());
            self.recipe.title.push_str(&beside.title());
        }
        let question = self.recipe.question(sandbox);
        match &self.beside {
            Some(beside) if beside.is_unseen() => consent::obtain_afresh(context, &question, || beside.refusal())?,
            _ => consent::obtain_consent(context, &question)?,
        }
        let listed = self.beside.as_ref().map(|beside| &beside.listed);
        listed.map_or(Ok(()), |listed| listed.is_still(context))?;
        match (sources, &self.folder) {
            (Some(sources), Some(folder)) => InstallerRun {
                recipe: &self.recipe,
                folder,
                manifests: self.manifests,
                listed,
                sources,
            }
            .run(context),
            _ => self.run_bare(context, sandbox),
        }
    }

    /// Installs without a sandbox. The installer changes the files itself; changes of manifests are recorded.
    fn run_bare(&self, context: &CallContext, sandbox: Sandbox) -> Result<Report, Failure> {
        let before = sandboxed_install::read_states(context, self.manifests)?;
        let report = self.recipe.report(self.recipe.run(context, sandbox)?, sandbox)?;
        let report = recipe::with_notes(report, &[]);
        let after = sandboxed_install::read_states(context, self.manifests)?;
        let state = |name: &str| after.iter().find(|(other, _)| *other == name)?.1.clone();
        let changes = sandboxed_install::changed_manifests(before, state);
        if let Some(beside) = self.beside.as_ref().filter(|_| report.exit_code == Some(0)) {
            beside.listed.settle(context, &changes);
        }
        if let Err(error) = stage::record_manifests(context, changes) {
            tracing::warn!(%error, "what an installation did to manifests is not in the journal");
        }
        Ok(report)
    }
}

fn install_with_pip(context: &CallContext, names: &[String]) -> Result<Report, Failure> {
    let python = recipe::find_python(context)?;
    let place = packages_of(&python)?;
    if let Some(place) = place.as_deref().filter(|place| !is_writable(place)) {
        return Err(not_permitted(&place.to_string_lossy()));
    }
    let sandbox = choose_sandbox(context)?;
    let contained = match sandbox {
        Sandbox::None => None,
        _ => Some((
            environment_folder(context, &python)?,
            sources::find_pip_sources(context)?,
        )),
    };
    let (program, arguments) = pip_command(context, &python, place.as_deref(), names)?;
    let (folder, sources) = contained.unzip();
    let mut environment = installer_environment(context, sandbox);
    python.enter(&mut environment);
    let note = match &python.home {
        PackageHome::Environment(folder) => format!("into the virtual environment {}", folder.display()),
        PackageHome::Managed(tool) => format!("into the environment that {tool} keeps for the project"),
        PackageHome::Machine(folder) => format!("into the Python of this machine, in {}", folder.display()),
    };
    let recipe = PreparedRun {
        effect: Effect::Install,
        title: question_title("pip", names),
        notes: vec![
            note,
            "only built packages: nothing of them runs while they are installed".to_owned(),
        ],
        command: recipe::repository_command(context.repository.root(), program, arguments, environment),
        time: Duration::from_secs(limits::INSTALL_SECONDS_MAX),
        tools: ToolAccess::default(),
        format: ResultFormat::Exit,
    };
    let plan = InstallPlan {
        recipe,
        folder,
        manifests: &[],
        beside: None,
    };
    let report = plan.execute(context, sources)?;
    match pip_problem(&report) {
        Some(problem) => Err(problem),
        None => Ok(report),
    }
}

/// Environment of the installer. In the sandbox, the sandbox sets the proxy to the registries.
fn installer_environment(context: &CallContext, sandbox: Sandbox) -> BTreeMap<String, String> {
    if sandbox == Sandbox::None {
        return environment::for_install(&context.environment);
    }
    let mut environment = environment::for_run(&context.environment);
    environment.extend(environment::pick_variables(
        &context.environment,
        &environment::CERTIFICATES,
    ));
    environment
}

/// Real path of the virtual environment that an installation in the sandbox fills: one in the repository, or the
/// active one of the user who started the session. Nothing else on this machine is changed from inside.
fn environment_folder(context: &CallContext, python: &Python) -> Result<PathBuf, Failure> {
    let folder = match &python.home {
        PackageHome::Environment(folder) => folder,
        PackageHome::Machine(folder) => return Err(not_permitted(&folder.to_string_lossy())),
        PackageHome::Managed(tool) => return Err(unmanaged_failure(tool)),
    };
    let real = |path: &Path| path.canonicalize().ok();
    let starters = context
        .environment
        .get("VIRTUAL_ENV")
        .and_then(|folder| real(Path::new(folder)));
    let root = context.repository.root();
    // The author of the repository chooses a link's target, which may be a folder that no installation should touch.
    let is_ours = |real: &PathBuf| real.starts_with(root) && real != root && real == folder;
    let is_known = |real: &PathBuf| is_ours(real) || Some(real) == starters.as_ref();
    let holds_more = |real: &PathBuf| {
        let state = context.repository.state_directory();
        root.starts_with(real) || state.is_some_and(|state| state.starts_with(real) || real.starts_with(state))
    };
    match real(folder) {
        Some(real) if is_known(&real) && !holds_more(&real) => Ok(real),
        _ => Err(Failure::denied(format!(
            "`{}` is a link, or leads out of the repository.",
            folder.display()
        ))
        .with_hint("make a virtual environment in the repository: `python3 -m venv .venv`")),
    }
}

fn unmanaged_failure(tool: &str) -> Failure {
    let command = match tool {
        "uv" => "`uv sync`",
        _ => "`poetry config virtualenvs.in-project true` and `poetry install`",
    };
    Failure::unavailable(format!(
        "This project is {tool}'s and has no virtual environment of its own yet."
    ))
    .with_hint(format!("the user has to make it, with {command}"))
}

/// Real path of the folder of packages, if it is known. Only uv changes an environment that uv manages.
fn packages_of(python: &Python) -> Result<Option<PathBuf>, Failure> {
    match &python.home {
        PackageHome::Managed("uv") => Err(unmanaged_failure("uv")),
        PackageHome::Managed(_) => Ok(None),
        PackageHome::Machine(folder) => Ok(Some(folder.clone())),
        PackageHome::Environment(folder) => Ok(Some(site_packages(folder).unwrap_or_else(|| folder.join("lib")))),
    }
}

/// True if the folder, or else its nearest existing ancestor, is writable.
fn is_writable(place: &Path) -> bool {
    let nearest = place.ancestors().find(|folder| folder.exists());
    nearest.is_some_and(|folder| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok())
}

/// The command for pip of the interpreter, or for uv in a virtual environment that uv made and that has no pip.
///
/// `-I` prevents a `pip.py` of the repository from replacing pip, and `--no-config` a `pyproject.toml` from choosing
/// uv's index.
fn pip_command(
    context: &CallContext,
    python: &Python,
    place: Option<&Path>,
    names: &[String],
) -> Result<(PathBuf, Vec<String>), Failure> {
    let has_pip =
        place.is_none_or(|place| !matches!(python.home, PackageHome::Environment(_)) || place.join("pip").is_dir());
    let only_built = ["--only-binary", ":all:"];
    let (program, start) = if has_pip {
        let start = [
            &["-I", "-m", "pip", "install"][..],
            &only_built,
            &["--no-input", "--disable-pip-version-check"],
        ];
        (python.program.clone(), python.arguments(&start.concat()))
    } else {
        let uv = recipe::find_program(context, "uv").ok_or_else(no_pip)?;
        let interpreter = python.program.to_string_lossy();
        let start = [
            &["pip", "install", "--no-config", "--python", interpreter.as_ref()][..],
            &only_built,
        ];
        (uv, start.concat().into_iter().map(str::to_owned).collect())
    };
    let arguments = start.into_iter().chain(["--".to_owned()]).chain(names.iter().cloned());
    Ok((program, arguments.collect()))
}

fn no_pip() -> Failure {
    Failure::unavailable("ModuleNotFoundError: No module named pip")
        .with_hint("the user has to add it to the virtual environment, with `python -m ensurepip`")
}

/// Converts pip's message, if the specification has a sentence for it or a better one exists.
fn pip_problem(report: &Report) -> Option<Failure> {
    if report.exit_code == Some(0) {
        return None;
    }
    let output = report.output.as_str();
    if output
        .lines()
        .any(|line| line.trim_end().ends_with(": No module named pip"))
    {
        return Some(no_pip());
    }
    if output.contains("externally-managed-environment") {
        return Some(
            Failure::unavailable(
                "The machine's Python is managed by its own package manager and takes no other packages.",
            )
            .with_hint("install locally: make a virtual environment with `python3 -m venv .venv`"),
        );
    }
    denied_place(output, "[Errno 13] Permission denied: '").map(not_permitted)
}

/// The path that an installer could not write, in quotes after `mark`. It must be an absolute path of a strict
/// grammar, so that it cannot be a sentence.
fn denied_place<'a>(output: &'a str, mark: &str) -> Option<&'a str> {
    let (_, rest) = output.split_once(mark)?;
    let (place, _) = rest.split_once('\'')?;
    let is_place = place.starts_with('/')
        && place.len() <= RECIPE_PACKAGE_BYTES_MAX
        && place.bytes().all(|byte| byte.is_ascii_graphic());
    is_place.then_some(place)
}

/// Files of npm's records.
const NPM_MANIFESTS: &[&str] = &["package.json", "package-lock.json", "npm-shrinkwrap.json"];

fn install_with_npm(context: &CallContext, names: &[String], dev: bool) -> Result<Report, Failure> {
    recipe::read_package_json(&context.repository, &context.cancel)?;
    let root = context.repository.root();
    let folder = root.join("node_modules");
    if !is_writable(&folder) {
        return Err(not_permitted(&folder.to_string_lossy()));
    }
    let sandbox = choose_sandbox(context)?;
    let program = recipe::find_npm(context)?;
    let sources = match sandbox {
        Sandbox::None => None,
        _ if folder.is_symlink() => {
            return Err(Failure::denied("`node_modules` leads out of the repository.")
                .with_hint("the user has to replace the link by a folder"));
        }
        _ => Some(sources::find_npm_sources(context, &program)?),
    };
    let mut environment = installer_environment(context, sandbox);
    // Environment variables take precedence over the repository's `.npmrc`, which could name a program that npm runs
    // as git.
    for (name, value) in [
        ("npm_config_git", "git"),
        ("npm_config_ignore_scripts", "true"),
        ("npm_config_update_notifier", "false"),
        ("npm_config_fund", "false"),
        ("npm_config_audit", "false"),
    ] {
        environment.insert(name.to_owned(), value.to_owned());
    }
    let mut notes = vec![
        "no install script runs".to_owned(),
        "recorded in package.json and package-lock.json".to_owned(),
    ];
    if root.join(".npmrc").exists() {
        notes.push(match sandbox {
            Sandbox::None => "the repository has an `.npmrc`, which may name another registry".to_owned(),
            _ => "the repository's `.npmrc` does not count".to_owned(),
        });
    }
    let beside = ExtraPackages::read(context, names)?;
    let recipe = PreparedRun {
        effect: Effect::Install,
        title: question_title("npm", names),
        notes,
        command: recipe::repository_command(root, program, npm_arguments(root, names, dev), environment),
        time: Duration::from_secs(limits::INSTALL_SECONDS_MAX),
        tools: ToolAccess::default(),
        format: ResultFormat::Exit,
    };
    let plan = InstallPlan {
        recipe,
        folder: sources.is_some().then_some(folder),
        manifests: NPM_MANIFESTS,
        beside: Some(beside),
    };
    let report = plan.execute(context, sources)?;
    let failed = report.exit_code != Some(0) && report.output.contains("EACCES");
    match failed.then(|| denied_npm_place(&report.output)).flatten() {
        Some(place) => Err(not_permitted(place)),
        None => Ok(report),
    }
}

/// Parses `npm error Error: EACCES: permission denied, mkdir '/usr/lib/node_modules/x'`.
fn denied_npm_place(output: &str) -> Option<&str> {
    let (_, rest) = output.split_once("EACCES: permission denied")?;
    denied_place(rest.lines().next()?, "'")
}

/// `--prefix` keeps npm from choosing a project above the root.
fn npm_arguments(root: &Path, names: &[String], dev: bool) -> Vec<String> {
    let prefix = root.to_string_lossy();
    let mut arguments = ["install", "--ignore-scripts", "--prefix", prefix.as_ref()]
        .map(str::to_owned)
        .to_vec();
    if dev {
        arguments.push("--save-dev".to_owned());
    }
    arguments.push("--".to_owned());
    arguments.extend_from_slice(names);
    arguments
}

#[cfg(test)]
mod unit;
