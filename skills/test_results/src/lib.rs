//! Reads the results of test runners: JUnit XML, JSON, TAP, and the text of runners with none of these.
//!
//! Pure functions over bounded text. A test suite is untrusted and can print anything. Only numbers, read with a
//! strict grammar, affect the result; names are shown as program output. If a text does not fit the grammar, there
//! are no counts. The host uses these functions as well, so a skill cannot make a run pass.

mod cargo;
mod format;
mod go;
mod json;
mod junit;
mod npm;
mod pytest;
mod summaries;
mod text;

use skill_details::TestCounts;

pub use format::{ResultFormat, UnknownFormat};
pub use npm::{absent_runner, missing_packages};
pub use pytest::missing_modules;
pub use text::plain_text;

/// Limit for failed tests: more than people read, and few enough for one answer.
pub const FAILED_TESTS_MAX: usize = 330;
/// Limit for the lines of details of a failed test.
pub const DETAIL_LINES_MAX: usize = 24;
/// Limit for a name, a message or a line of details in bytes.
pub const LINE_BYTES_MAX: usize = 400;

/// A test that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedTest {
    /// Name of the test, with its file if the runner prints it.
    pub name: String,
    /// The failure, in one line.
    pub message: String,
    /// Further lines: the place, and the compared values.
    pub details: Vec<String>,
}

/// Results from the output and the files of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestResults {
    /// Counts of the runner; absent if it did not print them.
    pub counts: Option<TestCounts>,
    /// Failing tests, at most [`FAILED_TESTS_MAX`].
    pub failed: Vec<FailedTest>,
    /// Number of further failed tests.
    pub left_out: usize,
}

/// Reads the results of a run. `output` is what it printed, `files` are the result files that it left.
pub fn read_results(format: ResultFormat, output: &str, files: &[String]) -> TestResults {
    let output = plain_text(output);
    let mut results = read_all(format, &output, files);
    results.left_out = results.failed.len().saturating_sub(FAILED_TESTS_MAX);
    results.failed.truncate(FAILED_TESTS_MAX);
    for test in &mut results.failed {
        test.details.truncate(DETAIL_LINES_MAX);
        let lines = test.details.iter_mut();
        lines
            .chain([&mut test.name, &mut test.message])
            .for_each(|line| text::cut_line(line, LINE_BYTES_MAX));
    }
    results
}

fn read_all(format: ResultFormat, output: &str, files: &[String]) -> TestResults {
    match format {
        ResultFormat::Exit => TestResults::default(),
        ResultFormat::Lines => text::read_lines(output),
        ResultFormat::Junit => junit::read_junit(files),
        ResultFormat::Tap => npm::read_tap(output),
        ResultFormat::Pytest => pytest::read_pytest(output),
        ResultFormat::Npm => npm::read_npm(output),
        ResultFormat::Cargo => cargo::read_cargo(output),
        ResultFormat::Go => go::read_go(output),
        ResultFormat::Jest => json::read_first(output, files, json::read_jest),
        ResultFormat::Mocha => json::read_first(output, files, json::read_mocha),
        ResultFormat::Rspec => json::read_first(output, files, json::read_rspec),
        ResultFormat::Unittest => summaries::read_unittest(output),
        ResultFormat::Minitest => summaries::read_minitest(output),
        ResultFormat::Phpunit => summaries::read_phpunit(output),
        ResultFormat::Exunit => summaries::read_exunit(output),
        ResultFormat::Dotnet => summaries::read_dotnet(output),
        ResultFormat::Ctest => summaries::read_ctest(output),
    }
}

/// The output for people: for a format with lines in JSON, these lines.
pub fn readable_output(format: ResultFormat, output: &str) -> String {
    match format {
        ResultFormat::Go => go::readable_output(output),
        _ => plain_text(output),
    }
}

/// A line of the output for people; `None` if it has nothing for them.
pub fn readable_line(format: ResultFormat, line: &str) -> Option<String> {
    match format {
        ResultFormat::Go => go::readable_line(line),
        _ => Some(line.to_owned()),
    }
}

#[cfg(test)]
mod tests;
