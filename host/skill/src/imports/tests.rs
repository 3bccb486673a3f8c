//! `tests`: runs the repository's tests by a named recipe, `pytest` or `npm-test`.
//!
//! This module chooses the interpreter and the arguments; the skill `run_tests` interprets the output. Failing tests
//! are a report; a failure means that nothing could run.

mod layout;
mod npm;

use std::path::PathBuf;

use super::recipe::{self, Recipe};
use crate::CallContext;
use crate::limits;
use tool_boundary::bindings::tool::skill::tests::{Report, Request};
use tool_boundary::bindings::tool::skill::types::Failure;
use tool_boundary::consent;
use tool_boundary::{failure, hinted};
use tool_core::api::{Effect, TestCounts, TestRun, TestRunner};
use tool_repository::{OpenError, normalise};
use tool_sandbox::environment;
use tool_sandbox::toolchain::Python;

/// Result of a test run, by its exit status and the runner's own summary. The guest has no part in this.
pub(super) fn judge(recipe: &str, report: &Report) -> Option<TestRun> {
    let runner = match recipe {
        "pytest" => TestRunner::Pytest,
        "npm-test" => TestRunner::Npm,
        _ => return None,
    };
    let counts = TestCounts::read(runner, &report.output);
    Some(TestRun::new(
        runner,
        report.exit_code,
        report.timed_out,
        report.duration_ms,
        counts,
    ))
}

/// Runs the tests.
pub(super) fn run(context: &CallContext, request: &Request) -> Result<Report, Failure> {
    consent::not_denied(context, Effect::RunProcess)?;
    if request.paths.len() > limits::RECIPE_PATHS_MAX {
        let message = format!("More than {} paths do not fit one run.", limits::RECIPE_PATHS_MAX);
        return Err(hinted("limit", message, "name directories instead"));
    }
    let filter = request.filter.as_deref().map(filter).transpose()?;
    match request.recipe.as_str() {
        "pytest" => pytest(context, request, filter),
        "npm-test" => npm::run(context, request, filter),
        other => Err(failure(
            "invalid-arguments",
            format!("There is no test recipe `{other}`: they are `pytest` and `npm-test`."),
        )),
    }
}

/// A filter that no runner can mistake for an option or for the name of a file with options.
fn filter(filter: &str) -> Result<&str, Failure> {
    let wrong = if filter.trim().is_empty() {
        "is empty"
    } else if filter.len() > limits::RECIPE_FILTER_BYTES_MAX {
        "is too long"
    } else if filter.starts_with(['-', '@']) {
        "begins like an option"
    } else if filter.chars().any(char::is_control) {
        "contains a control character"
    } else {
        return Ok(filter);
    };
    Err(failure("invalid-arguments", format!("The filter {wrong}.")))
}

/// A path as it may stand on a command line: in its one form, in the repository, visible, and no option.
fn path(context: &CallContext, path: &str) -> Result<String, Failure> {
    let invalid = |why: &str| failure("invalid-arguments", format!("`{}` {why}.", path.escape_debug()));
    if path.chars().any(char::is_control) {
        return Err(invalid("contains a control character"));
    }
    let clean = normalise(path).map_err(|error| invalid(&format!("is no path in this repository: {error}")))?;
    if clean.starts_with('-') {
        return Err(invalid("begins like an option"));
    }
    match context.repository.open_within(&clean, &context.cancel) {
        Ok(_) if clean.is_empty() => Ok(".".to_owned()),
        // pytest takes `@file` for a file with more arguments.
        Ok(_) if clean.starts_with('@') => Ok(format!("./{clean}")),
        Ok(_) => Ok(clean),
        Err(error @ OpenError::NotFound { .. }) => Err(failure("not-found", format!("{error}."))),
        Err(error @ OpenError::Denied { .. }) => Err(failure("denied", format!("{error}."))),
        Err(error) => Err(failure("invalid-arguments", format!("{error}."))),
    }
}

/// A path, or a path with the name of a test: `tests/test_a.py::TestB::test_c[x]`.
fn node_id(context: &CallContext, id: &str) -> Result<String, Failure> {
    let Some((file, name)) = id.split_once("::") else {
        return path(context, id);
    };
    if name.is_empty() || name.chars().any(char::is_control) {
        let message = format!("`{}` is no node id: `path::name` is.", id.escape_debug());
        return Err(failure("invalid-arguments", message));
    }
    Ok(format!("{}::{name}", path(context, file)?))
}

fn pytest(context: &CallContext, request: &Request, filter: Option<&str>) -> Result<Report, Failure> {
    let paths = request
        .paths
        .iter()
        .map(|id| node_id(context, id))
        .collect::<Result<Vec<_>, _>>()?;
    let python = recipe::python(context)?;
    let mut environment = environment::for_run(&context.environment);
    python.enter(&mut environment);
    // No `__pycache__` in the user's tree; lines as they are printed; a summary that is not cut at 80 columns.
    for (name, value) in [
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONUNBUFFERED", "1"),
        ("COLUMNS", "200"),
    ] {
        environment.insert(name.to_owned(), value.to_owned());
    }
    let told = layout::sources(context.repository.root(), &python.home).map(|copy| {
        environment.insert("PYTHONPATH".to_owned(), copy.sources.to_string_lossy().into_owned());
        copy.note()
    });
    let program: PathBuf = python.program.clone();
    let recipe = Recipe {
        told: told.into_iter().collect(),
        effect: Effect::RunProcess,
        title: "Run the tests with pytest".to_owned(),
        notes: Vec::new(),
        command: recipe::command(
            context.repository.root(),
            program,
            pytest_arguments(&python, filter, &paths),
            environment,
        ),
        time: recipe::time(request.timeout_seconds, limits::TESTS_SECONDS_MAX),
    };
    let report = recipe.execute(context)?;
    if lacks_pytest(&report) {
        return Err(hinted(
            "unavailable",
            "ModuleNotFoundError: No module named pytest",
            format!(
                "install it, with install_package or: {} -m pip install pytest",
                python.program.display()
            ),
        ));
    }
    Ok(report)
}

/// A short traceback and a line for each failure and error; no cache in the user's tree.
fn pytest_arguments(python: &Python, filter: Option<&str>, paths: &[String]) -> Vec<String> {
    let mut arguments = python.arguments(&[
        "-m",
        "pytest",
        "-rfE",
        "--tb=short",
        "--color=no",
        "-p",
        "no:cacheprovider",
    ]);
    if let Some(filter) = filter {
        arguments.extend(["-k".to_owned(), filter.to_owned()]);
    }
    arguments.extend_from_slice(paths);
    arguments
}

/// True where the interpreter itself said that it has no pytest; a test that says so comes after pytest's own header.
fn lacks_pytest(report: &Report) -> bool {
    let said = |line: &str| line.trim_end().ends_with(": No module named pytest");
    report.exit_code == Some(1) && report.output.lines().count() < 20 && report.output.lines().any(said)
}

#[cfg(test)]
mod unit;
