//! Runs of tests and of package managers: `tests` and `packages` of the contract.

use crate::Failure;

/// Request for [`Host::run_tests`](crate::Host::run_tests).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestRequest {
    /// Name of a recipe; absent: the host chooses by the files of the repository.
    pub recipe: Option<String>,
    /// A check in place of the tests: `format`, `lint`, `types` or `build`.
    pub check: Option<String>,
    /// Files, directories or node ids; empty means all.
    pub paths: Vec<String>,
    /// Selects tests by name.
    pub filter: Option<String>,
    /// Seconds.
    pub timeout_seconds: Option<u32>,
}

/// A suite of tests that the host found: answer of [`Host::run_tests`](crate::Host::run_tests).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestSuite {
    /// Name of the recipe.
    pub recipe: String,
    /// The folder in which it runs, relative to the root.
    pub directory: String,
    /// The sign by which it was found.
    pub reason: String,
    /// The run, or why there was none.
    pub outcome: Result<SuiteResults, Failure>,
}

/// A run of one recipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteResults {
    /// The run itself.
    pub report: RunReport,
    /// Absent where the runner's results could not be read.
    pub counts: Option<SuiteCounts>,
    /// Tests that failed.
    pub failed: Vec<SuiteFailure>,
    /// Failed tests that are not in `failed`.
    pub failed_left_out: u64,
    /// Remarks of the host on the run.
    pub notes: Vec<String>,
}

/// Numbers of tests by their outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SuiteCounts {
    /// Tests that failed.
    pub failed: u64,
    /// Tests and files that broke before they could fail.
    pub errors: u64,
    /// Tests that passed.
    pub passed: u64,
    /// Skipped tests.
    pub skipped: u64,
    /// Tests that are still to be written.
    pub todo: u64,
    /// Tests that failed as expected.
    pub xfailed: u64,
    /// Tests that were expected to fail and passed.
    pub xpassed: u64,
    /// Tests that a filter left out.
    pub deselected: u64,
    /// Warnings of the runner.
    pub warnings: u64,
}

/// A test that failed, in the program's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteFailure {
    /// Its name.
    pub name: String,
    /// The failure, in a line.
    pub message: String,
    /// More lines.
    pub details: Vec<String>,
}

/// Request for [`Host::install`](crate::Host::install).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallRequest {
    /// `pip-install` or `npm-install`.
    pub recipe: String,
    /// Names with an optional constraint.
    pub names: Vec<String>,
    /// For npm: a development dependency.
    pub dev: bool,
}

/// Report of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunReport {
    /// The argument vector that ran.
    pub command: Vec<String>,
    /// Exit status; absent after a signal or the time limit.
    pub exit_code: Option<i32>,
    /// Standard output and error as they came.
    pub output: String,
    /// True where the middle of the output was left out.
    pub output_cut: bool,
    /// Milliseconds.
    pub duration_ms: u64,
    /// True where the time limit ended the run.
    pub timed_out: bool,
    /// `namespaces`, `landlock` or `none`.
    pub sandbox: String,
    /// The host's own remarks on the run; not in `output`.
    pub notes: Vec<String>,
}

impl RunReport {
    /// Takes the lines of the host's own off the beginning of the output.
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
