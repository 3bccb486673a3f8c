//! Reads the results of test runners: JUnit XML, JSON, TAP, and the text of those that offer none of these.
//!
//! Pure functions over bounded text. A test suite is untrusted and can write whatever it likes, so its text decides
//! about nothing but numbers, which are read by a strict grammar, and names, which are shown as program output. Where a
//! text does not fit the grammar there are no counts. The host reads results by this, so a skill cannot make a run pass.

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
pub use text::plain;

/// Failing tests that are kept: more than a user reads, and few enough for one answer.
pub const FAILED_TESTS_MAX: usize = 330;
/// Lines of details that one failing test keeps.
pub const DETAIL_LINES_MAX: usize = 24;
/// Longest name, message or line of details.
pub const LINE_BYTES_MAX: usize = 400;

/// A test that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedTest {
    /// Its name, with the file where the runner says it.
    pub name: String,
    /// The failure, in a line.
    pub message: String,
    /// More lines: where, and what was compared.
    pub details: Vec<String>,
}

/// Results read from what a runner left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestResults {
    /// The runner's own counts; absent where it did not come to them.
    pub counts: Option<TestCounts>,
    /// Failing tests, at most [`FAILED_TESTS_MAX`].
    pub failed: Vec<FailedTest>,
    /// Failing tests beyond these.
    pub left_out: usize,
}

/// Reads the results of a run. `output` is what it printed, `files` the result files that it left.
pub fn read(format: ResultFormat, output: &str, files: &[String]) -> TestResults {
    let output = plain(output);
    let mut results = read_all(format, &output, files);
    results.left_out = results.failed.len().saturating_sub(FAILED_TESTS_MAX);
    results.failed.truncate(FAILED_TESTS_MAX);
    for test in &mut results.failed {
        test.details.truncate(DETAIL_LINES_MAX);
        let lines = test.details.iter_mut();
        lines
            .chain([&mut test.name, &mut test.message])
            .for_each(|line| text::cut(line, LINE_BYTES_MAX));
    }
    results
}

fn read_all(format: ResultFormat, output: &str, files: &[String]) -> TestResults {
    match format {
        ResultFormat::Exit => TestResults::default(),
        ResultFormat::Lines => text::read_lines(output),
        ResultFormat::Junit => junit::read(files),
        ResultFormat::Tap => npm::read_tap(output),
        ResultFormat::Pytest => pytest::read(output),
        ResultFormat::Npm => npm::read(output),
        ResultFormat::Cargo => cargo::read(output),
        ResultFormat::Go => go::read(output),
        ResultFormat::Jest => json::read_first(output, files, json::jest),
        ResultFormat::Mocha => json::read_first(output, files, json::mocha),
        ResultFormat::Rspec => json::read_first(output, files, json::rspec),
        ResultFormat::Unittest => summaries::unittest(output),
        ResultFormat::Minitest => summaries::minitest(output),
        ResultFormat::Phpunit => summaries::phpunit(output),
        ResultFormat::Exunit => summaries::exunit(output),
        ResultFormat::Dotnet => summaries::dotnet(output),
        ResultFormat::Ctest => summaries::ctest(output),
    }
}

/// The output as a person reads it: of a format that wraps lines in JSON, the lines.
pub fn readable(format: ResultFormat, output: &str) -> String {
    match format {
        ResultFormat::Go => go::readable(output),
        _ => plain(output),
    }
}

/// One line of the output as a person reads it; absent where it says nothing to a person.
pub fn readable_line(format: ResultFormat, line: &str) -> Option<String> {
    match format {
        ResultFormat::Go => go::readable_line(line),
        _ => Some(line.to_owned()),
    }
}

#[cfg(test)]
mod tests;
