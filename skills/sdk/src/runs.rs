//! Runs of tests and of package managers: the interfaces `tests` and `packages` of the contract.

use crate::Failure;

/// Tests to run with [`Host::run_tests`](crate::Host::run_tests).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestRequest {
    /// Name of a recipe. If it is absent, the host chooses by the files of the repository.
    pub recipe: Option<String>,
    /// A check to run instead of the tests: `format`, `lint`, `types` or `build`.
    pub check: Option<String>,
    /// Files, directories or node ids; empty for all.
    pub paths: Vec<String>,
    /// Selects tests by name.
    pub filter: Option<String>,
    /// Time limit in seconds.
    pub timeout_seconds: Option<u32>,
}

/// A test suite that the host found, from [`Host::run_tests`](crate::Host::run_tests).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestSuite {
    /// Name of the recipe.
    pub recipe: String,
    /// Folder of the run, relative to the root.
    pub directory: String,
    /// Why the host chose this recipe.
    pub reason: String,
    /// The results, or the reason why the suite did not run.
    pub outcome: Result<SuiteResults, Failure>,
}

/// A run of one recipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteResults {
    /// Report of the process.
    pub report: RunReport,
    /// Absent if the runner's results could not be read.
    pub counts: Option<SuiteCounts>,
    /// Failed tests, as far as they fit.
    pub failed: Vec<SuiteFailure>,
    /// Number of failed tests that are not in `failed`.
    pub failed_left_out: u64,
    /// The host's remarks on the run.
    pub notes: Vec<String>,
}

/// Numbers of tests by their outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SuiteCounts {
    /// Failed tests.
    pub failed: u64,
    /// Tests and files that broke before a test could fail.
    pub errors: u64,
    /// Passed tests.
    pub passed: u64,
    /// Skipped tests.
    pub skipped: u64,
    /// Tests marked as still to be written.
    pub todo: u64,
    /// Tests that failed as expected.
    pub xfailed: u64,
    /// Tests that were expected to fail and passed.
    pub xpassed: u64,
    /// Tests that a filter deselected.
    pub deselected: u64,
    /// Warnings of the runner.
    pub warnings: u64,
}

/// A failed test, in the words of its runner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteFailure {
    /// Name of the test.
    pub name: String,
    /// The failure, in one line.
    pub message: String,
    /// Further lines about the failure.
    pub details: Vec<String>,
}

/// Packages to install with [`Host::install`](crate::Host::install).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallRequest {
    /// Recipe: `pip-install` or `npm-install`.
    pub recipe: String,
    /// Names of packages, each with an optional version constraint.
    pub names: Vec<String>,
    /// For npm: install as development dependencies.
    pub dev: bool,
}

/// Report of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Argument vector of the process.
    pub command: Vec<String>,
    /// Exit status; absent if a signal or the time limit ended the run.
    pub exit_code: Option<i32>,
    /// Standard output and standard error, interleaved as they came.
    pub output: String,
    /// True if the middle of the output was left out.
    pub output_cut: bool,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// True if the time limit ended the run.
    pub timed_out: bool,
    /// Sandbox of the run: `namespaces`, `landlock` or `none`.
    pub sandbox: String,
    /// The host's remarks on the run, which are not in `output`.
    pub notes: Vec<String>,
}

impl RunReport {
    /// Moves the host's own lines from the beginning of the output to `notes`.
    #[must_use]
    pub fn with_notes_apart(mut self) -> Self {
        while let Some(rest) = self.output.strip_prefix("[tool] ") {
            let (note, output) = rest.split_once('\n').unwrap_or((rest, ""));
            self.notes.push(note.to_owned());
            self.output = output.to_owned();
        }
        self
    }
}
