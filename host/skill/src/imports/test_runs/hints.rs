//! Advice for runs that lack the runner itself, or packages.
//!
//! Names in the advice follow a strict grammar: a suite can print such lines itself, and its text must not become a
//! sentence of the host.

use crate::CallContext;
use crate::imports::recipe::EndedRecipe;
use crate::recipes::{Interpreter, TestRecipe};
use test_results::{ResultFormat, TestResults};
use tool_boundary::Failure;

/// Limit for the missing modules or packages that are named.
const MISSING_MAX: usize = 8;

/// Fails if the runner itself is missing, or the packages without which nothing starts.
pub(super) fn check_available(data: &TestRecipe, ended: &EndedRecipe, read: &TestResults) -> Result<(), Failure> {
    let output = &ended.report.output;
    if data.name == "pytest" && lacks_pytest(ended) {
        let program = ended.report.command.first().map(String::as_str).unwrap_or_default();
        return Err(
            Failure::unavailable("ModuleNotFoundError: No module named pytest").with_hint(format!(
                "install it, with install_package or: {program} -m pip install pytest"
            )),
        );
    }
    if data.format == ResultFormat::Npm
        && read.counts.is_none()
        && let Some(runner) = test_results::absent_runner(output)
    {
        return Err(
            Failure::unavailable(format!("the test runner `{runner}` is not installed")).with_hint(format!(
                "the packages of package.json are not installed here: run `{} install` in the repository",
                data.program
            )),
        );
    }
    let has_failed = ended.report.exit_code != Some(0);
    let has_run = read.counts.is_some_and(|counts| counts.passed + counts.failed > 0);
    match missing_command(data, output).filter(|_| has_failed && !has_run) {
        Some(command) => Err(
            Failure::unavailable(format!("{} lacks packages, and a run has no network.", data.name))
                .with_hint(format!("run this in the repository, outside of the sandbox: {command}")),
        ),
        None => Ok(()),
    }
}

/// Notes about missing things in the output of a run.
pub(super) fn run_notes(
    context: &CallContext,
    data: &TestRecipe,
    ended: &EndedRecipe,
    read: &TestResults,
) -> Vec<String> {
    let output = &ended.report.output;
    let mut notes = Vec::new();
    if data.interpreter == Interpreter::Python {
        for module in test_results::missing_modules(output).iter().take(MISSING_MAX) {
            notes.push(format!("ModuleNotFoundError: No module named {module}"));
            notes.push(format!("hint: {}", module_hint(context, module)));
        }
    }
    if data.format == ResultFormat::Npm {
        for package in test_results::missing_packages(output).iter().take(MISSING_MAX) {
            notes.push(format!(
                "hint: the package `{package}` is not installed; use install_package or `{} install`",
                data.program
            ));
        }
    }
    let is_bad = read.counts.is_none_or(|counts| counts.failures() > 0);
    if let Some(command) = missing_command(data, output).filter(|_| is_bad) {
        notes.push(format!(
            "hint: packages are missing, and a run has no network; outside of it run: {command}"
        ));
    }
    notes
}

/// The command that installs what an output reports as missing.
fn missing_command<'d>(data: &'d TestRecipe, output: &str) -> Option<&'d str> {
    let sign = data.missing.iter().find(|sign| output.contains(sign.text.as_str()));
    sign.map(|sign| sign.command.as_str())
}

/// True if the interpreter itself reported that it has no pytest. A test that prints this does so after pytest's
/// header.
fn lacks_pytest(ended: &EndedRecipe) -> bool {
    let report = &ended.report;
    let said = |line: &str| line.trim_end().ends_with(": No module named pytest");
    report.exit_code == Some(1) && report.output.lines().count() < 20 && report.output.lines().any(said)
}

/// Advice on a module that Python did not find.
fn module_hint(context: &CallContext, module: &str) -> String {
    let top = module.split('.').next().unwrap_or(module);
    let places = [
        top.to_owned(),
        format!("{top}.py"),
        format!("src/{top}"),
        format!("src/{top}.py"),
    ];
    let is_there = |place: &&String| context.repository.open_within(place, &context.cancel).is_ok();
    match places.iter().find(is_there) {
        Some(place) => format!(
            "the repository holds `{place}`, so it is a matter of the import path: set `pythonpath` in pytest's \
             configuration, or install the project itself"
        ),
        None => format!(
            "install it with install_package (the package may have another name than the module `{top}`; \
             analyze_dependencies shows what the project declares), unless `{top}` is the project's own: what is hidden \
             is not there in a run"
        ),
    }
}
