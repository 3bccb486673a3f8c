//! The runs that a call without arguments would make, and why. Nothing runs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::OWN;
use super::detect::{self, FoundSuite, SuiteSearch};
use super::own_command::OwnCommand;
use super::tools;
use crate::CallContext;
use crate::recipes::Interpreter;
use tool_boundary::{Failure, FailureKind};
use tool_core::api::{Problem, RunPurpose};
use tool_repository::Repository;
use tool_sandbox::environment;

/// Name in place of a recipe's for a command that the project's files show and no recipe runs.
const NO_RECIPE: &str = "none";

/// A run of tests or of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedRun {
    /// Purpose of the run.
    pub purpose: RunPurpose,
    /// Name of the recipe; `own` for the user's own command, `none` for a command that no recipe runs.
    pub recipe: String,
    /// Folder of the run, relative to the root; empty for the root.
    pub directory: String,
    /// Why the host chose this recipe.
    pub reason: String,
    /// Words of the user's own command, or a command that the project's files show; empty for a recipe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// True if the run happens only for paths in its folder. Without a path, the suite of a folder above runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paths_only: bool,
    /// What the run lacks. In JSON it is one text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingPart>,
}

/// What a run lacks, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub struct MissingPart {
    /// The lack, in words.
    pub what: String,
    /// What mends it.
    pub fix: String,
}

impl fmt::Display for MissingPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.fix)
    }
}

impl From<MissingPart> for String {
    fn from(missing: MissingPart) -> Self {
        missing.to_string()
    }
}

/// Plans the runs of tests and of all checks: those for a path of the repository, or all, including the packages of a
/// monorepo whose tests run only for paths in them. Blocks.
///
/// # Errors
///
/// The path is not valid, or the files cannot be listed.
pub fn plan_runs(
    repository: &Repository,
    environment: &BTreeMap<String, String>,
    path: Option<&str>,
    cancel: &CancellationToken,
) -> Result<Vec<PlannedRun>, Problem> {
    let mut planned = Vec::new();
    for purpose in [RunPurpose::Tests].into_iter().chain(RunPurpose::CHECKS) {
        let find = |finder: &SuiteSearch<'_>| match (path, purpose) {
            (Some(path), _) => finder.find(&[path.to_owned()]),
            (None, RunPurpose::Tests) => Ok(finder.find_each()),
            (None, _) => finder.find(&[]),
        };
        planned.extend(plan(repository, environment, cancel, purpose, find)?);
    }
    if path.is_none() && !planned.iter().any(|run| run.purpose == RunPurpose::Tests) {
        planned.extend(shown_run(repository, cancel)?);
    }
    Ok(planned)
}

/// The command that the files of the project show for its tests, where no recipe runs them.
fn shown_run(repository: &Repository, cancel: &CancellationToken) -> Result<Option<PlannedRun>, Failure> {
    let files = detect::list_repository(repository, cancel)?;
    let purpose = RunPurpose::Tests;
    let search = SuiteSearch {
        repository,
        cancel,
        files: &files,
        purpose,
        wanted: None,
    };
    Ok(search.shown_command().map(|shown| PlannedRun {
        purpose,
        recipe: NO_RECIPE.to_owned(),
        directory: String::new(),
        reason: shown.place.path,
        missing: Some(MissingPart {
            what: "no recipe runs it by itself".to_owned(),
            fix: detect::keep_hint(&shown.command),
        }),
        command: shown.command.split_whitespace().map(str::to_owned).collect(),
        paths_only: false,
    }))
}

/// Purposes with something to run. A purpose with an invalid command is included, because its run explains the
/// mistake. Blocks.
pub fn runnable_purposes(context: &CallContext) -> Vec<RunPurpose> {
    let has_any = |purpose: &RunPurpose| {
        let (environment, cancel) = (&context.environment, &context.cancel);
        let runs = plan(&context.repository, environment, cancel, *purpose, |finder| {
            finder.find(&[])
        });
        runs.map_or(true, |runs| !runs.is_empty())
    };
    let purposes = [RunPurpose::Tests].into_iter().chain(RunPurpose::CHECKS);
    purposes.filter(has_any).collect()
}

fn plan(
    repository: &Repository,
    environment: &BTreeMap<String, String>,
    cancel: &CancellationToken,
    purpose: RunPurpose,
    find: impl FnOnce(&SuiteSearch<'_>) -> Result<Vec<FoundSuite>, Failure>,
) -> Result<Vec<PlannedRun>, Failure> {
    let own = OwnCommand::find_command(environment, repository.state_directory(), repository.root(), purpose)?;
    if let Some(own) = own {
        return Ok(vec![PlannedRun {
            purpose,
            recipe: OWN.to_owned(),
            directory: String::new(),
            reason: own.reason.to_owned(),
            command: own.argv,
            paths_only: false,
            missing: None,
        }]);
    }
    let files = detect::list_repository(repository, cancel)?;
    let finder = SuiteSearch {
        repository,
        cancel,
        files: &files,
        purpose,
        wanted: None,
    };
    match find(&finder) {
        Ok(suites) => Ok(suites
            .into_iter()
            .map(|suite| planned_run(repository, environment, suite))
            .collect()),
        Err(failure) if failure.kind == FailureKind::NotFound => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

fn planned_run(repository: &Repository, environment: &BTreeMap<String, String>, suite: FoundSuite) -> PlannedRun {
    let data = suite.recipe;
    let folder = repository.root().join(&suite.found.directory);
    let own = data.own_program.iter().chain(&data.wrapper);
    let has_own = own
        .into_iter()
        .any(|name| environment::is_executable(&folder.join(name)));
    let is_chosen_later = matches!(data.interpreter, Interpreter::Python | Interpreter::PythonTool);
    let is_there = || {
        !environment::find_programs_outside(environment, &data.program, repository.root()).is_empty()
            || tools::find_stand_in(environment, repository.root(), &folder, data).is_some()
    };
    let is_missing = !has_own && !is_chosen_later && !is_there();
    PlannedRun {
        purpose: data.purpose,
        recipe: data.name.clone(),
        directory: suite.found.directory,
        reason: suite.found.reason,
        command: Vec::new(),
        paths_only: suite.found.is_part,
        missing: is_missing.then(|| MissingPart {
            what: format!("{} was not found on the PATH", data.program),
            fix: data.install.clone(),
        }),
    }
}
