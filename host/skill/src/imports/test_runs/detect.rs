//! The test suites of a repository, each with the recipe that runs it: all suites, or those that contain given paths.
//!
//! `tool-project` finds them by the signs of runners; nothing runs.

use std::sync::Arc;

use crate::imports::recipe;
use crate::recipes::{self, TestRecipe};
use tokio_util::sync::CancellationToken;
use tool_boundary::Failure;
use tool_boundary::call_cancelled;
use tool_core::api::RunPurpose;
use tool_project::{
    EvidencePlace, ProjectCommand, ProjectFile, ProjectTree, Purpose, SuiteFinder, TestRunner, TestSuite,
    detect_project, plan_reads,
};
use tool_repository::file_role::{Role, detect_role};
use tool_repository::{FileList, Repository, ScanError};

/// Limit for the suites of one run. A repository with more is tested in parts.
pub(super) const SUITES_MAX: usize = 12;

/// A suite that was found, with its recipe.
#[derive(Debug, Clone)]
pub(super) struct FoundSuite {
    pub(super) recipe: &'static TestRecipe,
    pub(super) found: TestSuite,
}

impl FoundSuite {
    fn of_suite(found: TestSuite) -> Self {
        let recipe = recipes::find_recipe(&found.runner.name).expect("a test compares runners and recipes");
        Self { recipe, found }
    }
}

pub(super) struct SuiteSearch<'a> {
    pub(super) repository: &'a Repository,
    pub(super) cancel: &'a CancellationToken,
    pub(super) files: &'a FileList,
    pub(super) purpose: RunPurpose,
    /// Recipe that was requested by name.
    pub(super) wanted: Option<&'static TestRecipe>,
}

impl SuiteSearch<'_> {
    /// Finds the suites that contain `paths`; all suites if there are no paths.
    pub(super) fn find(&self, paths: &[String]) -> Result<Vec<FoundSuite>, Failure> {
        let is_all = |path: &String| path == ".";
        let found = self.with_finder(|finder| {
            if paths.is_empty() || paths.iter().any(is_all) {
                let mut suites = finder.find_each();
                suites.retain(|suite| !suite.is_part);
                suites
            } else {
                finder.find_of_paths(paths)
            }
        });
        if found.is_empty() {
            return self.find_wanted(paths).map(|suite| vec![suite]);
        }
        Ok(found.into_iter().map(FoundSuite::of_suite).collect())
    }

    /// Finds the suites of all folders.
    pub(super) fn find_each(&self) -> Vec<FoundSuite> {
        let found = self.with_finder(|finder| finder.find_each());
        found.into_iter().map(FoundSuite::of_suite).collect()
    }

    fn with_finder<R>(&self, find: impl FnOnce(&SuiteFinder<'_>) -> R) -> R {
        let paths: Vec<&str> = self.files.files.iter().map(|file| file.path.as_str()).collect();
        let is_eligible = |recipe: &&TestRecipe| match self.wanted {
            Some(wanted) => wanted.name == recipe.name,
            None => recipe.purpose == self.purpose && !recipe.runner().on_request,
        };
        let eligible = recipes::all_recipes().iter().filter(is_eligible);
        let runners: Vec<&'static TestRunner> = eligible.map(TestRecipe::runner).collect();
        find(&SuiteFinder {
            target: "",
            paths: &paths,
            read: &|path| recipe::small_file(self.repository, self.cancel, path),
            runners: &runners,
        })
    }

    /// A recipe that is requested by name runs in the root without any sign.
    fn find_wanted(&self, paths: &[String]) -> Result<FoundSuite, Failure> {
        let Some(recipe) = self.wanted else {
            return Err(self.nothing_found());
        };
        if recipe.interpreter == recipes::Interpreter::Script {
            recipe::read_package_json(self.repository, self.cancel)?;
            return Err(
                Failure::unavailable("package.json has no `test` script that runs a test.")
                    .with_hint("add `\"test\"` to `scripts` in package.json"),
            );
        }
        let place = EvidencePlace {
            path: String::new(),
            line: None,
        };
        let found = TestSuite {
            runner: recipe.runner(),
            directory: String::new(),
            reason: "it was asked for by name".to_owned(),
            place,
            value: None,
            paths: paths.iter().filter(|path| *path != ".").cloned().collect(),
            is_guess: false,
            is_part: false,
        };
        Ok(FoundSuite { recipe, found })
    }

    fn tests_hint(&self) -> String {
        self.shown_command().map_or_else(
            || {
                "the user can name the command that runs them: `--test-command COMMAND`, or `tool tests set -- COMMAND`"
                    .to_owned()
            },
            |shown| {
                format!(
                    "{} shows `{}`; {}",
                    shown.place.path,
                    shown.command,
                    keep_hint(&shown.command)
                )
            },
        )
    }

    /// The test command that the project's files show, also for runners without a recipe.
    pub(super) fn shown_command(&self) -> Option<ProjectCommand> {
        let paths: Vec<&str> = self.files.files.iter().map(|file| file.path.as_str()).collect();
        let is_aside = |path: &str| matches!(detect_role(path), Role::Test | Role::Example | Role::Vendored);
        let tree = ProjectTree::from_paths("", &paths, is_aside);
        let read = |path: String| {
            let text = recipe::small_file(self.repository, self.cancel, &path)?;
            Some(ProjectFile { path, text })
        };
        let files: Vec<ProjectFile> = plan_reads(&tree).into_iter().filter_map(read).collect();
        let commands = detect_project(&tree, &files).commands;
        commands.into_iter().find(|command| command.purpose == Purpose::Test)
    }

    fn nothing_found(&self) -> Failure {
        let names: Vec<&str> = recipes::recipes_for(self.purpose)
            .map(|recipe| recipe.name.as_str())
            .collect();
        let (what, hint) = match self.purpose {
            RunPurpose::Tests => ("no test suite found".to_owned(), self.tests_hint()),
            check => (
                format!("no check `{check}` found"),
                format!("the user can name a command: `tool tests set --check {check} -- COMMAND`"),
            ),
        };
        Failure::not_found(format!("{what}: no sign of {}", names.join(", "))).with_hint(hint)
    }
}

/// How the user keeps a command that no recipe runs.
pub(super) fn keep_hint(command: &str) -> String {
    let command = if command.contains("&&") {
        format!("sh -c '{command}'")
    } else {
        command.to_owned()
    };
    format!("`tool tests set -- {command}` keeps it as the command for the tests")
}

pub(super) fn list_repository(repository: &Repository, cancel: &CancellationToken) -> Result<Arc<FileList>, Failure> {
    repository.list(cancel).map_err(|error| match error {
        ScanError::Cancelled => call_cancelled(),
        error @ ScanError::Unreadable { .. } => Failure::failed(format!("{error}.")),
    })
}
