//! Runs the project's tests for the host, and compares runs.
//!
//! A run is a call of the skill `run_tests` with the session's policy and record. The verdict is the host's own, from
//! the receipt; the skill's details only name failing tests. `refactor` and `test_gen` decide whether tests run, and
//! what follows.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::SKILL;
use crate::limits;
use crate::run::operations::OperationRun;
use crate::run::tools::hint_of;
use tool_core::api::{Effect, ErrorKind, RunPurpose, TestCounts, TestDetails, TestStatus};
use tool_core::text::{clean_line, quote_names};
use tool_journal::journal::cut_text;
use tool_journal::report::write_fenced;
use tool_provider::TextOrigin;
use tool_skill::policy::Decision;
use tool_skill::{CallError, CallOutcome, CallReport};

/// Hint on how to allow tests.
pub(crate) fn allow_tests_hint(op: &OperationRun<'_>) -> String {
    format!("allow it with {}", op.job.grant_text(Effect::RunProcess))
}

/// Message if the skill found no tests. Other runners may have some.
pub(crate) const NONE: &str = "not run: no sign of tests was found";

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SuiteRun {
    /// The request asked for no tests. Holds the flag or the field that did.
    LeftOut(&'static str),
    /// The policy does not allow the run without a question.
    NotAllowed,
    /// The user refused.
    Refused,
    /// The project has no tests that the skill can run.
    None,
    /// The session ended, or its time was up, before the run.
    Stopped,
    /// The tests cannot be run, for this reason.
    Impossible {
        kind: ErrorKind,
        message: String,
        hint: Option<String>,
    },
    /// Too many other calls or runs were under way. Holds the sentence about it; it says nothing about the tests.
    Busy(String),
    /// The tests, or at least the runner, ran.
    Ran(TestSuiteResults),
}

/// Results of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TestSuiteResults {
    /// The run in one line: `PASSED: 7 passed in 0.3 s`.
    pub(crate) verdict: String,
    /// True if the runner ended well and counted no failure.
    pub(crate) has_passed: bool,
    /// False if no test was run, or the run did not end.
    pub(crate) has_run: bool,
    /// True if the time limit ended the run.
    pub(crate) timed_out: bool,
    /// Passed tests, including unexpectedly passed ones; absent if the runner does not count.
    pub(crate) passed: Option<u64>,
    /// Failed tests and errors; absent if the runner does not count.
    pub(crate) failed: Option<u64>,
    /// Tests that were skipped, deselected, or expected to fail.
    pub(crate) set_aside: u64,
    /// True for pytest, which always counts its tests.
    pub(crate) is_pytest: bool,
    /// True for the user's own command.
    pub(crate) is_own: bool,
    /// Tests and files that broke before a test could fail.
    pub(crate) broken: u64,
    /// Suites that could not run, each with the reason.
    pub(crate) not_run: Vec<String>,
    /// Names of failing tests in the skill's details.
    pub(crate) failing: BTreeSet<String>,
    /// Text of the skill's answer, or the host's own sentence if every test passed.
    pub(crate) text: String,
    /// Places outside the user's own files whose text is in `text`.
    pub(crate) foreign: Vec<String>,
}

/// Last lines of a failing run in an answer; `run_tests` shows more.
const LAST_LINES_MAX: usize = 10;
/// Limit for these lines in bytes.
const LAST_LINES_BYTES_MAX: usize = 2 << 10;
/// Limit for the failing tests that are named in an answer.
const FAILING_NAMED_MAX: usize = 10;

impl TestSuiteResults {
    /// The failing tests and the last lines of the run, for the user; empty if the run passed.
    pub(crate) fn describe_failure(&self) -> String {
        if self.has_passed {
            return String::new();
        }
        let mut text = String::new();
        if !self.failing.is_empty() {
            let names = quote_names(self.failing.iter().map(String::as_str), FAILING_NAMED_MAX);
            text.push_str(&format!("- Failing: {names}\n"));
        }
        // The first line is the verdict.
        let lines: Vec<&str> = self.text.lines().skip(1).collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES_MAX)..].join("\n");
        if !last.trim().is_empty() {
            text.push_str("- Last lines of the run:\n\n");
            write_fenced(&mut text, "text", &cut_text(&last, LAST_LINES_BYTES_MAX));
            text.push('\n');
        }
        text
    }

    /// Origin of the text, for its label.
    pub(crate) fn origin(&self) -> TextOrigin {
        if self.foreign.is_empty() {
            TextOrigin::Service
        } else {
            TextOrigin::Outside(self.foreign.clone())
        }
    }
}

/// Runs all tests, or those at `paths`.
pub(crate) async fn run_suite(op: &OperationRun<'_>, paths: &[String]) -> SuiteRun {
    if op.task.request.no_tests {
        return SuiteRun::LeftOut(op.option_name("--no-tests", "`no_tests`"));
    }
    // The host does not ask the user. Tests that need an approval run when the model asks.
    if op.job.plan.policy.decide(Effect::RunProcess, false) != Decision::Allow {
        return if op.runnable_purposes().await.contains(&RunPurpose::Tests) {
            SuiteRun::NotAllowed
        } else {
            SuiteRun::None
        };
    }
    let is_late = op.deadline.is_some_and(|deadline| deadline <= Instant::now());
    if op.tools.is_stopped() || is_late {
        return SuiteRun::Stopped;
    }
    let mut arguments = json!({"timeout_seconds": limits::SUITE_SECONDS_MAX});
    if !paths.is_empty() {
        arguments["paths"] = Value::from(paths);
    }
    judge_report(op.call(SKILL, arguments).await)
}

/// For tests: a run of a second with this output.
#[cfg(test)]
pub(crate) fn ran(runner: tool_core::api::TestRunner, exit_code: i32, output: &str, failing: &[&str]) -> SuiteRun {
    judge_report(crate::tests::test_report(runner, exit_code, output, failing))
}

fn judge_report(report: CallReport) -> SuiteRun {
    if let Ok(outcome) = &report.result {
        let no_run = || SuiteRun::Impossible {
            kind: ErrorKind::Failed,
            message: format!("`{SKILL}` answered without a run"),
            hint: None,
        };
        return read_results(&report, outcome).map_or_else(no_run, SuiteRun::Ran);
    }
    let is_refused = report.is_refused_by_user();
    match report.result {
        Ok(_) => SuiteRun::None,
        Err(CallError::Cancelled { .. }) => SuiteRun::Stopped,
        Err(_) if is_refused => SuiteRun::Refused,
        Err(error @ CallError::Busy { .. }) => SuiteRun::Busy(error.to_string()),
        Err(CallError::Failure {
            kind: ErrorKind::NotFound,
            ..
        }) => SuiteRun::None,
        Err(CallError::Failure {
            kind: ErrorKind::Denied,
            ..
        }) => SuiteRun::NotAllowed,
        Err(error) => SuiteRun::Impossible {
            kind: error.kind().clone(),
            message: error.to_string(),
            hint: hint_of(&error),
        },
    }
}

/// Results of a run: counts and verdict from the host's own record, names of failing tests from the skill's details.
/// A skill can omit a name, but cannot make a run pass.
fn read_results(report: &CallReport, outcome: &CallOutcome) -> Option<TestSuiteResults> {
    let run = report.receipt.as_ref()?.tests.as_ref()?;
    let details = outcome.details.clone();
    let details: Option<TestDetails> = details.and_then(|details| serde_json::from_value(details).ok());
    let failing = details.map(|details| details.failing).unwrap_or_default();
    let count = |of: fn(&TestCounts) -> u64| run.counts.as_ref().map(of);
    Some(TestSuiteResults {
        verdict: run.verdict(),
        has_passed: !run.has_failed(),
        has_run: run.has_run(),
        timed_out: run.status == TestStatus::TimedOut,
        passed: count(|counts| counts.passed + counts.xpassed),
        failed: count(TestCounts::failures),
        set_aside: count(|counts| counts.skipped + counts.todo + counts.xfailed + counts.deselected).unwrap_or(0),
        is_pytest: run.runner == "pytest",
        is_own: run.runner == "own",
        broken: count(|counts| counts.errors).unwrap_or(0),
        not_run: run.not_run.clone(),
        failing: failing.iter().map(|name| clean_line(name)).collect(),
        text: outcome.text.clone(),
        foreign: report.foreign.clone(),
    })
}

/// Describes a regression of the tests; `None` if there is none, or if it cannot be known. Fewer tests count as a
/// regression: a change could otherwise pass by disabling tests.
pub(crate) fn describe_regression(before: &SuiteRun, after: &SuiteRun) -> Option<String> {
    let SuiteRun::Ran(before) = before else { return None };
    if !before.has_run {
        return None;
    }
    let after = match after {
        SuiteRun::Ran(after) if after.has_run => after,
        SuiteRun::Ran(after) => return Some(format!("the tests do not run any more ({})", after.verdict)),
        SuiteRun::Impossible { message, .. } => {
            let why = message.trim_end_matches('.');
            return Some(format!("the tests do not run any more ({why})"));
        }
        SuiteRun::None => return Some("the tests are not found any more".to_owned()),
        SuiteRun::LeftOut(_) | SuiteRun::NotAllowed | SuiteRun::Refused | SuiteRun::Stopped | SuiteRun::Busy(_) => {
            return None;
        }
    };
    let fresh: Vec<&String> = after.failing.difference(&before.failing).collect();
    if let Some(first) = fresh.first() {
        let more = match fresh.len() {
            1 => "fails now and did not before".to_owned(),
            count => format!("and {} more fail now and did not before", count - 1),
        };
        return Some(format!("`{first}` {more}"));
    }
    let (failed, failed_before) = (after.failed.unwrap_or(0), before.failed.unwrap_or(0));
    if failed > failed_before {
        return Some(format!("{failed} tests fail now, and {failed_before} did before"));
    }
    if before.has_passed && !after.has_passed {
        return Some("the run passed before and fails now".to_owned());
    }
    said_less(before, after)
}

fn said_less(before: &TestSuiteResults, after: &TestSuiteResults) -> Option<String> {
    let passed_before = before.passed?;
    let Some(passed) = after.passed else {
        return Some(format!(
            "{} passed before; the number that passes now is unknown",
            format_test_count(passed_before)
        ));
    };
    let (aside_before, aside) = (before.set_aside, after.set_aside);
    if passed < passed_before {
        return Some(format!(
            "{} passed before, and {passed} do now",
            format_test_count(passed_before)
        ));
    }
    (aside > aside_before).then(|| {
        let aside = format_test_count(aside);
        format!("{aside} are skipped, left out or expected to fail now; {aside_before} before")
    })
}

fn format_test_count(count: u64) -> String {
    match count {
        1 => "1 test".to_owned(),
        count => format!("{count} tests"),
    }
}

impl SuiteRun {
    /// The run in one line, after `Tests before the change: `.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::LeftOut(option) => format!("left out by {option}"),
            Self::NotAllowed => "not run, because `run-process` is not allowed here".to_owned(),
            Self::Refused => "not run, because you did not agree to it".to_owned(),
            Self::None => NONE.to_owned(),
            Self::Stopped => "not run to their end: the session ended before".to_owned(),
            Self::Impossible { message, hint, .. } => match hint {
                Some(hint) => format!("not run: {}; {hint}", message.trim_end_matches('.')),
                None => format!("not run: {message}"),
            },
            Self::Busy(message) => format!("not run: {message}"),
            Self::Ran(results) => results.verdict.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::test_report;
    use tool_core::api::TestRunner;
    use tool_skill::{CrowdedLimit, HostNotes};

    fn pytest(exit_code: i32, output: &str, failing: &[&str]) -> SuiteRun {
        ran(TestRunner::Pytest, exit_code, output, failing)
    }

    fn results_of(run: SuiteRun) -> TestSuiteResults {
        match run {
            SuiteRun::Ran(results) => results,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn counts_come_from_the_hosts_record_and_names_from_the_details() {
        let output = "2 failed, 1 error, 3 passed, 1 xfailed in 1.2s";
        let names = ["tests/test_a.py::test_b[x in y]", "tests/test_c.py"];
        let results = results_of(pytest(1, output, &names));
        assert_eq!((results.has_passed, results.has_run), (false, true));
        assert_eq!((results.passed, results.failed), (Some(3), Some(3)));
        assert_eq!((results.set_aside, results.is_pytest), (1, true));
        let failing: Vec<_> = results.failing.iter().map(String::as_str).collect();
        assert_eq!(failing, names);
        insta::assert_snapshot!(results.describe_failure(), @r"
        - Failing: `tests/test_a.py::test_b[x in y]`, `tests/test_c.py`
        - Last lines of the run:

        ```text
        2 failed, 1 error, 3 passed, 1 xfailed in 1.2s
        ```
        ");
    }

    #[test]
    fn a_skill_cannot_claim_that_tests_passed() {
        let mut report = test_report(TestRunner::Pytest, 1, "1 failed in 1.0s", &["a"]);
        if let Ok(outcome) = &mut report.result {
            outcome.text = "PASSED: 9 passed in 0.1 s\n".to_owned();
            outcome.details = Some(json!({
                "runner": "pytest", "status": "passed", "duration_ms": 1, "counts": {"passed": 9}, "failing": [],
            }));
        }
        let results = results_of(judge_report(report));
        assert_eq!(results.verdict, "FAILED: 1 failed in 1.0 s");
        assert_eq!((results.has_passed, results.failed), (false, Some(1)));
        let mut report = test_report(TestRunner::Pytest, 0, "9 passed in 1.0s", &[]);
        report.receipt.as_mut().expect("it ran").tests = None;
        assert_eq!(
            judge_report(report).line(),
            "not run: `run_tests` answered without a run"
        );
    }

    #[test]
    fn what_did_not_run_is_told_apart_from_what_does_not_count() {
        for (exit_code, output, has_run, passed) in [
            (0, "7 passed in 0.3s", true, Some(7)),
            (0, "all is well", true, None),
            (5, "no tests ran in 0.1s", false, Some(0)),
            (5, "3 deselected in 0.1s", false, Some(0)),
            (1, "4 passed in 0.2s", true, Some(4)),
        ] {
            let results = results_of(pytest(exit_code, output, &[]));
            assert_eq!((results.has_run, results.passed), (has_run, passed), "{output}");
        }
    }

    #[test]
    fn worse_is_what_failed_not_before() {
        let failing = |names: &[&str]| pytest(1, &format!("{} failed, 5 passed in 1.0s", names.len()), names);
        let passed = pytest(0, "5 passed in 1.0s", &[]);
        let impossible = SuiteRun::Impossible {
            kind: ErrorKind::Unavailable,
            message: "No module named pytest.".into(),
            hint: Some("install it".into()),
        };
        assert_eq!(impossible.line(), "not run: No module named pytest; install it");
        let say = |before: &SuiteRun, after: &SuiteRun| describe_regression(before, after).unwrap_or_default();
        assert_eq!(say(&passed, &passed), "");
        assert_eq!(say(&failing(&["a", "b"]), &failing(&["b"])), "");
        assert_eq!(say(&passed, &failing(&["a"])), "`a` fails now and did not before");
        assert_eq!(
            say(&failing(&["a"]), &failing(&["b", "c"])),
            "`b` and 1 more fail now and did not before"
        );
        assert_eq!(
            say(&passed, &pytest(1, "boom", &[])),
            "the run passed before and fails now"
        );
        assert_eq!(
            say(&passed, &pytest(5, "no tests ran in 0.1s", &[])),
            "the tests do not run any more (FAILED: no tests ran in 1.0 s)"
        );
        assert_eq!(
            say(&passed, &impossible),
            "the tests do not run any more (No module named pytest)"
        );
        assert_eq!(say(&passed, &SuiteRun::Stopped), "", "that is no verdict");
        let crowds = [CrowdedLimit::Calls, CrowdedLimit::Runs];
        for (crowd, why) in crowds.into_iter().zip(["too many calls", "too many test runs"]) {
            let skill = SKILL.to_owned();
            let busy = judge_report(CallReport {
                result: Err(CallError::Busy { skill, crowd }),
                receipt: None,
                foreign: Vec::new(),
                notes: HostNotes::default(),
            });
            assert_eq!(say(&passed, &busy), "", "the tests were not run, and nobody knows");
            assert!(busy.line().starts_with("not run: The skill `run_tests` "), "{busy:?}");
            assert!(busy.line().contains(why), "{busy:?}");
        }
        assert_eq!(say(&SuiteRun::NotAllowed, &failing(&["a"])), "", "nobody knows");
    }

    #[test]
    fn worse_is_also_what_says_less_than_before() {
        let before = pytest(0, "5 passed, 1 skipped in 1.0s", &[]);
        let say = |after: &str| describe_regression(&before, &pytest(0, after, &[])).unwrap_or_default();
        assert_eq!(
            say("3 passed, 1 skipped in 1.0s"),
            "5 tests passed before, and 3 do now"
        );
        assert_eq!(
            say("5 passed, 1 skipped, 2 xfailed in 1.0s"),
            "3 tests are skipped, left out or expected to fail now; 1 before"
        );
        assert_eq!(
            say("all is well"),
            "5 tests passed before; the number that passes now is unknown"
        );
        assert_eq!(say("6 passed in 1.0s"), "");
        let uncounted = pytest(0, "all is well", &[]);
        assert_eq!(describe_regression(&uncounted, &uncounted), None, "nobody ever said");
    }
}
