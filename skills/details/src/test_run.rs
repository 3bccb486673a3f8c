//! The result of a test run, from its exit status and the runner's summary: numbers, and our own words.
//!
//! Counts come from the runner's last summary, read with a strict grammar: numbers of a few digits beside known
//! words. A hostile suite can print wrong numbers, but none of its words gets into a [`TestRun`]. If nothing fits the
//! grammar, there are no counts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Limit for the digits of a count. A longer number could encode text.
const DIGITS_MAX: usize = 7;

/// The largest number of [`DIGITS_MAX`] digits, which also limits sums.
const COUNT_MAX: u64 = 9_999_999;

/// A runner whose summary [`TestCounts::read`] understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestRunner {
    /// pytest, run as `python -m pytest`.
    Pytest,
    /// Any runner that `npm test` starts.
    Npm,
}

impl TestRunner {
    /// Name of the recipe.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Npm => "npm",
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TestStatus {
    /// The runner ended with exit status 0, and its summary, if it has one, counts tests and no failure.
    Passed,
    /// A test failed, or the runner did.
    Failed,
    /// The runner ended, and no test ran.
    NothingRan,
    /// The time limit ended the run.
    TimedOut,
}

/// A run of tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TestRun {
    /// Names of the recipes that ran, such as `pytest` or `cargo, npm`.
    pub runner: String,
    /// Result of the run.
    pub status: TestStatus,
    /// Exit status of the runner; absent after a signal or the time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = i32))]
    pub exit_code: Option<i32>,
    /// Milliseconds.
    pub duration_ms: u64,
    /// Numbers of tests; absent where the runner's summary could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = TestCounts))]
    pub counts: Option<TestCounts>,
    /// Suites that were found and could not run, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<String>,
}

/// Numbers of tests by their outcome; zero where the runner does not know the word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct TestCounts {
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

impl TestRun {
    /// Judges a run. `exit_code` is absent if a signal or the time limit ended it.
    pub fn new(
        runner: &str,
        exit_code: Option<i32>,
        timed_out: bool,
        duration_ms: u64,
        counts: Option<TestCounts>,
    ) -> Self {
        let has_failures = counts.is_some_and(|counts| counts.failures() > 0);
        let status = if timed_out {
            TestStatus::TimedOut
        } else if counts.is_some_and(|counts| !counts.any_ran()) {
            TestStatus::NothingRan
        } else if exit_code == Some(0) && !has_failures {
            TestStatus::Passed
        } else {
            TestStatus::Failed
        };
        Self {
            runner: runner.to_owned(),
            status,
            exit_code,
            duration_ms,
            counts,
            not_run: Vec::new(),
        }
    }

    /// Combines two runs: sums of counts and times, and the worse status. Counts are known only if both runs have
    /// them.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        let severity = |run: &Self| match run.status {
            // A package without tests does not make a run beside it worse.
            TestStatus::NothingRan if run.is_empty() => 0,
            TestStatus::Passed => 1,
            TestStatus::NothingRan => 2,
            TestStatus::Failed => 3,
            TestStatus::TimedOut => 4,
        };
        let is_worse = severity(other) > severity(&self);
        let counts = self.counts.zip(other.counts).map(|(one, two)| one.plus(&two));
        Self {
            runner: format!("{}, {}", self.runner, other.runner),
            status: if is_worse { other.status } else { self.status },
            exit_code: if is_worse { other.exit_code } else { self.exit_code },
            duration_ms: self.duration_ms.saturating_add(other.duration_ms),
            counts,
            not_run: self.not_run,
        }
    }

    /// True if tests ran, and the run reached its end.
    pub fn has_run(&self) -> bool {
        self.status != TestStatus::TimedOut && self.counts.is_none_or(|counts| counts.any_ran())
    }

    /// True if the runner found no test and exited with 0.
    pub fn is_empty(&self) -> bool {
        self.status == TestStatus::NothingRan && self.exit_code == Some(0)
    }

    /// True if a test, or the run itself, failed.
    pub fn has_failed(&self) -> bool {
        self.status != TestStatus::Passed && !self.is_empty()
    }

    /// Formats the run in one line: `PASSED: 7 passed in 0.3 s`.
    pub fn verdict(&self) -> String {
        let words = self.counts.map(|counts| counts.words()).unwrap_or_default();
        let ran = self.counts.is_none_or(|counts| counts.any_ran());
        let timed_out = self.status == TestStatus::TimedOut;
        let passed = self.status == TestStatus::Passed;
        if self.is_empty() {
            // A runner may report success without any test.
            let which = if words.is_empty() { words } else { format!(": {words}") };
            return format!("NO TESTS RAN{which} in {}", seconds(self.duration_ms));
        }
        let what = match (timed_out, ran, words.is_empty()) {
            (true, _, true) => "timed out".to_owned(),
            (true, _, false) => format!("timed out; so far {words}"),
            (false, false, true) => "no tests ran".to_owned(),
            (false, false, false) => format!("no tests ran, {words}"),
            (false, true, true) => self.ending(),
            (false, true, false) => words,
        };
        let word = if passed { "PASSED" } else { "FAILED" };
        let although = match self.counts {
            Some(counts) if !passed && !timed_out && counts.any_ran() && counts.failures() == 0 => {
                format!(" ({}, although no test failed)", self.ending())
            }
            _ => String::new(),
        };
        format!("{word}: {what} in {}{although}", seconds(self.duration_ms))
    }

    /// Describes how the runner ended: `exit status 1`.
    pub fn ending(&self) -> String {
        match self.exit_code {
            _ if self.status == TestStatus::TimedOut => "stopped by the time limit".to_owned(),
            Some(status) => format!("exit status {status}"),
            None => "ended by a signal".to_owned(),
        }
    }
}

impl TestCounts {
    /// Reads the counts from a runner's output; `None` without a summary.
    pub fn read(runner: TestRunner, output: &str) -> Option<Self> {
        let lines: Vec<String> = output.lines().map(without_colours).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        match runner {
            TestRunner::Pytest => pytest(&lines),
            TestRunner::Npm => npm(&lines),
        }
    }

    /// Adds counts, each up to the largest count of one run.
    fn plus(&self, other: &Self) -> Self {
        let sum = |one: u64, two: u64| one.saturating_add(two).min(COUNT_MAX);
        Self {
            failed: sum(self.failed, other.failed),
            errors: sum(self.errors, other.errors),
            passed: sum(self.passed, other.passed),
            skipped: sum(self.skipped, other.skipped),
            todo: sum(self.todo, other.todo),
            xfailed: sum(self.xfailed, other.xfailed),
            xpassed: sum(self.xpassed, other.xpassed),
            deselected: sum(self.deselected, other.deselected),
            warnings: sum(self.warnings, other.warnings),
        }
    }

    /// Number of tests and test files that failed or broke.
    pub fn failures(&self) -> u64 {
        self.failed + self.errors
    }

    /// True if a test ran, or broke before it could.
    pub fn any_ran(&self) -> bool {
        self.failures() + self.passed + self.xfailed + self.xpassed > 0
    }

    /// Adds a count for a runner's word. Returns false for an unknown word, and if the sum is too large.
    fn add(&mut self, count: u64, word: &str) -> bool {
        let slot = match word {
            "failed" | "failing" | "fail" | "cancelled" | "subtests failed" => &mut self.failed,
            "error" | "errors" => &mut self.errors,
            "passed" | "passing" | "pass" => &mut self.passed,
            "skipped" | "pending" => &mut self.skipped,
            "todo" => &mut self.todo,
            "xfailed" => &mut self.xfailed,
            "xpassed" => &mut self.xpassed,
            "deselected" => &mut self.deselected,
            "warning" | "warnings" => &mut self.warnings,
            // These are sums, or parts of tests that are counted already.
            "total" | "rerun" | "subtests passed" | "subtests skipped" => return true,
            _ => return false,
        };
        *slot += count;
        *slot <= COUNT_MAX
    }

    /// Formats the counts: `2 failed, 1 error, 5 passed`; empty if all are zero.
    pub fn words(&self) -> String {
        let plural = |word: &str, count: u64| format!("{word}{}", if count == 1 { "" } else { "s" });
        let all = [
            (self.failed, "failed".to_owned()),
            (self.errors, plural("error", self.errors)),
            (self.passed, "passed".to_owned()),
            (self.skipped, "skipped".to_owned()),
            (self.todo, "todo".to_owned()),
            (self.xfailed, "xfailed".to_owned()),
            (self.xpassed, "xpassed".to_owned()),
            (self.deselected, "deselected".to_owned()),
            (self.warnings, plural("warning", self.warnings)),
        ];
        let shown = all.iter().filter(|(count, _)| *count > 0);
        let shown: Vec<String> = shown.map(|(count, word)| format!("{count} {word}")).collect();
        shown.join(", ")
    }
}

/// Formats a duration: `0.3 s`, `75 s`.
pub fn seconds(duration_ms: u64) -> String {
    let seconds = duration_ms as f64 / 1000.0;
    match duration_ms {
        ..10_000 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

/// Parses `2 passed, 1 skipped`; `None` if a part is anything else.
fn list(text: &str, separator: &str) -> Option<TestCounts> {
    let mut counts = TestCounts::default();
    for part in text.split(separator) {
        let (number, word) = part.trim().split_once(' ')?;
        counts.add(count(number)?, word.trim()).then_some(())?;
    }
    Some(counts)
}

fn count(digits: &str) -> Option<u64> {
    let is_number = digits.len() <= DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Parses `== 5 passed, 1 warning in 0.06s ==`, which `-q` prints without the bars. A `pytest` that did not start
/// counts as an error.
fn pytest(lines: &[&str]) -> Option<TestCounts> {
    let summary = |line: &&str| {
        let (counted, time) = line.trim().trim_matches('=').trim().rsplit_once(" in ")?;
        let time = time.split(' ').next()?.strip_suffix('s')?;
        time.parse::<f64>().ok()?;
        match counted {
            "no tests ran" => Some(TestCounts::default()),
            counted => list(counted, ", "),
        }
    };
    let broke = |line: &&str| line.starts_with("ImportError while loading conftest");
    let counted = lines.iter().rev().find_map(summary);
    counted.map(|counts| with_subtests_once(counts, lines)).or_else(|| {
        lines.iter().any(broke).then(|| TestCounts {
            errors: 1,
            ..TestCounts::default()
        })
    })
}

/// Corrects counts with subtests: pytest counts each failed subtest as a failed test, and the test around it once
/// more, as failed or for unittest as passed.
fn with_subtests_once(mut counts: TestCounts, lines: &[&str]) -> TestCounts {
    let at = lines
        .iter()
        .rposition(|line| line.contains(" short test summary info "));
    let listed = &lines[at.map_or(lines.len(), |at| at + 1)..];
    let failed = |line: &&&str| line.starts_with("FAILED ");
    let failed: BTreeSet<&str> = listed.iter().filter(failed).map(|line| test_id(&line[7..])).collect();
    let mut subtests: BTreeMap<&str, u64> = BTreeMap::new();
    for id in listed.iter().filter_map(|line| subtest(line)) {
        *subtests.entry(id).or_default() += 1;
    }
    for (id, count) in subtests {
        let passed = u64::from(!failed.contains(id));
        counts.passed = counts.passed.saturating_sub(passed);
        counts.failed = counts.failed.saturating_sub(count - passed);
    }
    counts
}

/// The test in a line `SUBFAILED[message] (i=1) path::name - what failed`.
fn subtest(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("SUBFAIL")?;
    let mut rest = rest.strip_prefix("ED").unwrap_or(rest).trim_start();
    for (open, close) in [('[', "] "), ('(', ") ")] {
        if rest.starts_with(open) {
            rest = rest.split_once(close)?.1.trim_start();
        }
    }
    Some(test_id(rest))
}

/// `path::name` in `path::name - what failed`. Parameters may be cut, in the same way for all lines of a test.
fn test_id(rest: &str) -> &str {
    rest.split(" - ").next().unwrap_or(rest)
}

/// Counts of an npm test run, from the summaries of jest, vitest, node's own runner, other TAP, and mocha.
fn npm(lines: &[&str]) -> Option<TestCounts> {
    if let Some(tests) = last(lines, "Tests: ") {
        let files = list(last(lines, "Test Suites: ")?, ", ")?;
        // With many files, jest prints all failures once more at the end.
        let once = lines
            .iter()
            .take_while(|line| !line.starts_with("Summary of all failing tests"));
        let broken = once
            .filter(|line| line.trim_end() == "  ● Test suite failed to run")
            .count();
        return Some(with_files(list(tests, ", ")?, files, broken));
    }
    if let Some(files) = last(lines, "Test Files  ") {
        let without_sum = |text: &str| list(text.split('(').next().unwrap_or(text).trim_end(), " | ");
        // A file that does not load is listed as a whole: ` FAIL  a.test.js [ a.test.js ]`.
        let is_whole = |line: &&&str| line.trim_start().starts_with("FAIL  ") && !line.contains(" > ");
        let broken = lines.iter().filter(is_whole).count();
        return Some(with_files(
            without_sum(last(lines, "Tests  ")?)?,
            without_sum(files)?,
            broken,
        ));
    }
    node(lines, "ℹ ")
        .or_else(|| node(lines, "# "))
        .or_else(|| tap(lines))
        .or_else(|| mocha(lines))
}

/// Adds broken files to the counts of tests. A file that does not load has no tests, but is an error: the number of
/// listed files is `broken`. If no test failed, each failed file counts as one.
fn with_files(tests: TestCounts, files: TestCounts, broken: usize) -> TestCounts {
    let failed = if tests.failures() == 0 { files.failures() } else { 0 };
    TestCounts {
        errors: (tests.errors + failed.max(broken as u64)).min(COUNT_MAX),
        ..tests
    }
}

/// The rest of the last line that begins with `start`.
fn last<'a>(lines: &[&'a str], start: &str) -> Option<&'a str> {
    lines
        .iter()
        .rev()
        .find_map(|line| line.trim_start().strip_prefix(start))
}

/// Counts from the last `# pass 2`, `# fail 0` and so on, of node's own runner and of TAP.
fn node(lines: &[&str], mark: &str) -> Option<TestCounts> {
    let value = |word: &str| {
        let mut values = lines
            .iter()
            .rev()
            .filter_map(|line| line.strip_prefix(mark)?.strip_prefix(word));
        values.find_map(|rest| count(rest.strip_prefix(' ')?.trim()))
    };
    let mut counts = TestCounts::default();
    value("pass")?;
    for word in ["pass", "fail", "cancelled", "skipped", "todo"] {
        counts.add(value(word).unwrap_or(0), word).then_some(())?;
    }
    Some(counts)
}

/// Counts the lines of TAP without a summary.
fn tap(lines: &[&str]) -> Option<TestCounts> {
    lines.iter().find(|line| line.starts_with("TAP version"))?;
    let mut counts = TestCounts::default();
    for line in lines {
        let directive = |word: &str| line.to_ascii_uppercase().contains(&format!("# {word}"));
        match (line.starts_with("ok "), line.starts_with("not ok ")) {
            (true, _) | (_, true) if directive("SKIP") => counts.skipped += 1,
            (true, _) | (_, true) if directive("TODO") => counts.todo += 1,
            (true, _) => counts.passed += 1,
            (_, true) => counts.failed += 1,
            _ => {}
        }
    }
    Some(counts)
}

/// Counts from mocha's `  2 passing (3ms)`, `  1 pending` and `  1 failing`.
fn mocha(lines: &[&str]) -> Option<TestCounts> {
    let counted = |line: &&str| {
        let mut words = line.strip_prefix("  ")?.split(' ');
        Some((count(words.next()?)?, words.next()?.to_owned()))
    };
    let at = lines
        .iter()
        .rposition(|line| counted(line).is_some_and(|(_, word)| word == "passing"))?;
    let mut counts = TestCounts::default();
    for (number, word) in lines[at..].iter().map_while(counted) {
        counts.add(number, &word).then_some(())?;
    }
    Some(counts)
}

/// Removes sequences such as `ESC [ 32 m`.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|character: char| character.is_ascii_digit() || character == ';');
        plain.push_str(rest.strip_prefix('m').unwrap_or(rest));
    }
    plain
}

#[cfg(test)]
mod tests;
