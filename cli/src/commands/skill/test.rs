//! `tool skill test`: runs a skill's test cases, each as a call in the real sandbox on a new copy of the fixture.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use serde::Serialize;
use tool_core::api::Effect;
use tool_core::api::{ErrorKind, Problem, Receipt};
use tool_skill::Inspection;
use tool_skill::cases::{self, CaseResult};

use super::{CommandContext, explain_refusal, print_json, registry_with_symbols};
use crate::error::{Error, FAILED};

/// Results of all cases, as JSON.
#[derive(Debug, Serialize)]
struct CaseReport<'a> {
    skill: &'a Inspection,
    passed: usize,
    failed: usize,
    cases: &'a [CaseResult],
}

/// Runs the cases. Installs nothing, and needs no backend.
pub(super) fn run(folder: &Path, allow: &[String], json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    if !folder.is_dir() {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("Not a directory: {}", folder.display()),
        ));
    }
    let granted: Vec<Effect> = allow.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let cases = cases::read_cases(folder).map_err(|error| unreadable(folder, error))?;
    // All cases are checked before the first runs: half of a suite proves little.
    for case in &cases {
        case.check_granted(&granted)
            .map_err(|error| unreadable(folder, error))?;
    }
    let fixture = cases::fixture_in(folder).map_err(|error| unreadable(folder, error))?;
    if fixture.is_none() {
        let message = format!(
            "There is no folder `{}`: each case begins with an empty one",
            cases::FIXTURE
        );
        context.output.notice(&message, None);
    }
    let component = component(folder)?;
    if is_older(&component, folder) {
        let message = format!("{} is older than its sources", component.display());
        context
            .output
            .notice(&message, Some("`tool skill build` makes it anew"));
    }
    let registry = registry_with_symbols(context)?;
    let trial = registry.trial(&component).map_err(explain_refusal)?;
    for case in &cases {
        case.function_of(trial.inspection())
            .map_err(|error| unreadable(folder, error))?;
    }
    let width = cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
    let mut results = Vec::new();
    for case in cases {
        let result = case.run(&registry, &trial, folder, &granted).map_err(explain_refusal)?;
        if !json {
            show(&result, width, context)?;
        }
        results.push(result);
    }
    let failed = results.iter().filter(|result| !result.passed).count();
    let passed = results.len() - failed;
    if json {
        let skill = trial.inspection();
        let tested = CaseReport {
            skill,
            passed,
            failed,
            cases: &results,
        };
        print_json(&tested, context.output)?;
    } else {
        context
            .output
            .line(&format!("{passed} of {} cases passed", results.len()))?;
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    })
}

/// A missing file of cases is not a syntax error in it.
pub(super) fn unreadable(folder: &Path, error: cases::CasesError) -> Error {
    match &error {
        cases::CasesError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Problem::new(
            ErrorKind::Usage,
            format!("There is no {} in `{}`", cases::FILE, folder.display()),
        )
        .with_hint("`tool skill new` makes a skill with one; `skills/README.md` describes it")
        .into(),
        cases::CasesError::Io { source, .. } => Problem::new(ErrorKind::Usage, error.to_string())
            .with_hint(source.to_string())
            .into(),
        cases::CasesError::Ungranted { effect, .. } => Problem::new(ErrorKind::Denied, error.to_string())
            .with_hint(format!("look at what would run, then `--allow {effect}`"))
            .into(),
        error => Error::new(ErrorKind::Usage, error.to_string()),
    }
}

fn component(folder: &Path) -> Result<PathBuf, Error> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::on_file("Skill", folder, &error))?;
    // A component whose name begins with a dot is still being built.
    let is_component = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".wasm") && !name.starts_with('.')
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_component)
        .collect();
    found.sort_unstable();
    match (found.pop(), found.pop()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Problem::new(
            ErrorKind::Usage,
            format!("There is no component in `{}`", folder.display()),
        )
        .with_hint("`tool skill build` makes it")
        .into()),
        (Some(one), Some(other)) => {
            let message = format!(
                "There are several components: `{}` and `{}`",
                other.display(),
                one.display()
            );
            Err(Problem::new(ErrorKind::Usage, message)
                .with_hint("remove one of them")
                .into())
        }
    }
}

/// True if a source is newer than the component.
fn is_older(component: &Path, folder: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(built) = modified(component) else { return false };
    let is_source = |path: &PathBuf| {
        let extension = path
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default();
        ["rs", "py", "js", "wit"].contains(&extension)
    };
    let sources = ["", "src", "wit"].map(|place| std::fs::read_dir(folder.join(place)));
    let sources = sources
        .into_iter()
        .flatten()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let newest: Option<SystemTime> = sources.filter(is_source).filter_map(|path| modified(&path)).max();
    newest.is_some_and(|newest| newest > built)
}

/// One line, and below it the differences and the skill's messages.
fn show(result: &CaseResult, width: usize, context: &CommandContext) -> Result<(), Error> {
    let mark = if result.passed { "ok  " } else { "FAIL" };
    let cost = result.receipt.as_ref().map_or_else(|| "nothing ran".to_owned(), cost);
    context
        .output
        .line(&format!("{mark}  {:width$}  {cost}", result.name))?;
    for difference in &result.differences {
        context
            .output
            .line(&format!("      {}", difference.replace('\n', "\n      ")))?;
    }
    // A case that passes needs no explanation.
    let messages = result.log.iter().filter(|_| !result.passed);
    for message in messages {
        context
            .output
            .line(&format!("      log: {}", message.replace('\n', "\n           ")))?;
    }
    Ok(())
}

fn cost(receipt: &Receipt) -> String {
    let time = match receipt.wall_us {
        short if short < 1_000 => format!("{short} µs"),
        wall => format!("{}.{} ms", wall / 1_000, wall % 1_000 / 100),
    };
    let memory = receipt.peak_memory_bytes.div_ceil(1024);
    format!("{time}, {memory} KiB of memory, {} bytes read", receipt.bytes_in)
}
