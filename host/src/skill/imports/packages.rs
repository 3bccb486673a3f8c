//! `packages`: adds packages by a named recipe, `pip-install` or `npm-install`, without install scripts.
//!
//! Installing is running somebody else's code later, so names are held to the ecosystem's grammar: no option, no URL,
//! no path, no archive of the repository that an installer would take for one.

mod names;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::consent;
use super::failure::{failure, hinted};
use super::recipe::python::{self, Home, Python};
use super::recipe::{self, Recipe};
use crate::limits;
use crate::process::environment;
use crate::skill::CallContext;
use crate::skill::bindings::tool::skill::packages::Request;
use crate::skill::bindings::tool::skill::tests::Report;
use crate::skill::bindings::tool::skill::types::Failure;
use crate::skill::policy::Effect;

/// Installs. An installer that says no is a report; a failure means that nothing could be tried.
pub(crate) fn install(context: &CallContext, request: &Request) -> Result<Report, Failure> {
    consent::not_denied(context, Effect::Install)?;
    match request.recipe.as_str() {
        "pip-install" => pip(context, &names::check(&request.names, names::Ecosystem::Python)?),
        "npm-install" => npm(
            context,
            &names::check(&request.names, names::Ecosystem::Npm)?,
            request.dev,
        ),
        other => Err(failure(
            "invalid-arguments",
            format!("There is no install recipe `{other}`: they are `pip-install` and `npm-install`."),
        )),
    }
}

fn title(installer: &str, names: &[String]) -> String {
    format!("Install with {installer}: {}", names.join(", "))
}

/// The specification's sentence.
fn not_permitted(place: &str) -> Failure {
    hinted(
        "failed",
        format!("Permission denied: {place}"),
        "install locally: make a virtual environment with `python3 -m venv .venv`, or a `node_modules` of your own",
    )
}

fn pip(context: &CallContext, names: &[String]) -> Result<Report, Failure> {
    let python = python::choose(context)?;
    let place = packages_of(&python)?;
    if let Some(place) = place.as_deref().filter(|place| !writable(place)) {
        return Err(not_permitted(&place.to_string_lossy()));
    }
    let (program, arguments) = pip_command(context, &python, place.as_deref(), names)?;
    let mut environment = environment::for_install(&context.environment);
    python.enter(&mut environment);
    let note = match &python.home {
        Home::Environment(folder) => format!("into the virtual environment {}", folder.display()),
        Home::Managed(tool) => format!("into the environment that {tool} keeps for the project"),
        Home::Machine(folder) => format!("into the Python of this machine, in {}", folder.display()),
    };
    let report = Recipe {
        effect: Effect::Install,
        title: title("pip", names),
        notes: vec![
            note,
            "only built packages: nothing of them runs while they are installed".to_owned(),
        ],
        command: recipe::command(context.repository.root(), program, arguments, environment),
        time: Duration::from_secs(limits::INSTALL_SECONDS_MAX),
    }
    .execute(context)?;
    match pip_problem(&report) {
        Some(problem) => Err(problem),
        None => Ok(report),
    }
}

/// Where packages go, where it is known. What uv keeps is uv's to change.
fn packages_of(python: &Python) -> Result<Option<PathBuf>, Failure> {
    match &python.home {
        Home::Managed("uv") => Err(hinted(
            "unavailable",
            "This project is uv's and has no virtual environment yet.",
            "the user has to make it, with `uv sync`",
        )),
        Home::Managed(_) => Ok(None),
        Home::Machine(folder) => Ok(Some(folder.clone())),
        Home::Environment(folder) => Ok(Some(site_packages(folder))),
    }
}

/// `lib/python3.12/site-packages` of a virtual environment.
fn site_packages(folder: &Path) -> PathBuf {
    let libraries = folder.join("lib");
    let found = std::fs::read_dir(&libraries)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("site-packages"))
        .find(|place| place.is_dir());
    found.unwrap_or(libraries)
}

/// True where something can be made in the folder, or in the nearest one above it that is there.
fn writable(place: &Path) -> bool {
    let nearest = place.ancestors().find(|folder| folder.exists());
    nearest.is_some_and(|folder| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok())
}

/// pip of the interpreter, or uv for a virtual environment that uv made and that has no pip.
///
/// `-I` keeps a `pip.py` of the repository from being taken for pip, and `--no-config` a `pyproject.toml` from naming
/// the index for uv.
fn pip_command(
    context: &CallContext,
    python: &Python,
    place: Option<&Path>,
    names: &[String],
) -> Result<(PathBuf, Vec<String>), Failure> {
    let has_pip = place.is_none_or(|place| !matches!(python.home, Home::Environment(_)) || place.join("pip").is_dir());
    let only_built = ["--only-binary", ":all:"];
    let (program, start) = if has_pip {
        let start = [
            &["-I", "-m", "pip", "install"][..],
            &only_built,
            &["--no-input", "--disable-pip-version-check"],
        ];
        (python.program.clone(), python.arguments(&start.concat()))
    } else {
        let uv = recipe::program(context, "uv").ok_or_else(no_pip)?;
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
    hinted(
        "unavailable",
        "ModuleNotFoundError: No module named pip",
        "the user has to add it to the virtual environment, with `python -m ensurepip`",
    )
}

/// What pip's words mean, where the specification or common sense has a better sentence.
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
        return Some(hinted(
            "unavailable",
            "The machine's Python is managed by its own package manager and takes no other packages.",
            "install locally: make a virtual environment with `python3 -m venv .venv`",
        ));
    }
    denied_place(output, "[Errno 13] Permission denied: '").map(not_permitted)
}

/// The place that an installer was not allowed to write, in quotes after `mark`.
fn denied_place<'a>(output: &'a str, mark: &str) -> Option<&'a str> {
    let (_, rest) = output.split_once(mark)?;
    rest.split_once('\'').map(|(place, _)| place)
}

fn npm(context: &CallContext, names: &[String], dev: bool) -> Result<Report, Failure> {
    recipe::manifest(context)?;
    let root = context.repository.root();
    let place = root.join("node_modules");
    if !writable(&place) {
        return Err(not_permitted(&place.to_string_lossy()));
    }
    let program = recipe::npm(context)?;
    let mut environment = environment::for_install(&context.environment);
    // The environment comes before the repository's `.npmrc`, which could name a program for npm to run as git.
    for (name, value) in [
        ("npm_config_git", "git"),
        ("npm_config_ignore_scripts", "true"),
        ("npm_config_update_notifier", "false"),
        ("npm_config_fund", "false"),
        ("npm_config_audit", "false"),
    ] {
        environment.insert(name.to_owned(), value.to_owned());
    }
    let mut notes = vec!["no install script runs; what package.json lists already is installed as well".to_owned()];
    if root.join(".npmrc").exists() {
        notes.push("the repository has an `.npmrc`, which may name another registry".to_owned());
    }
    let report = Recipe {
        effect: Effect::Install,
        title: title("npm", names),
        notes,
        command: recipe::command(root, program, npm_arguments(root, names, dev), environment),
        time: Duration::from_secs(limits::INSTALL_SECONDS_MAX),
    }
    .execute(context)?;
    let failed = report.exit_code != Some(0) && report.output.contains("EACCES");
    match failed.then(|| denied_npm_place(&report.output)).flatten() {
        Some(place) => Err(not_permitted(place)),
        None => Ok(report),
    }
}

/// `npm error Error: EACCES: permission denied, mkdir '/usr/lib/node_modules/x'`.
fn denied_npm_place(output: &str) -> Option<&str> {
    let (_, rest) = output.split_once("EACCES: permission denied")?;
    denied_place(rest.lines().next()?, "'")
}

/// `--prefix` keeps npm from working on a project above the root.
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
