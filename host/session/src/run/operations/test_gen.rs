//! Steps of test-gen: it runs the new tests, returns failures to the model for a limited number of rounds, and ends
//! the answer with what was written and what passes.
//!
//! `skill::stage` enforces that only new files are written.

use std::collections::BTreeMap;

use super::{Closing, DraftAnswer, FollowUp, Next, OperationRun, OperationSteps, Step};
use crate::limits;
use crate::run::checks;
use crate::run::checks::suite::{self, SuiteRun, TestSuiteResults};
use crate::run::judge;
use crate::run::session_diffs::SessionDiffs;
use tool_core::api::{ErrorKind, Problem};
use tool_core::text::quote_name;
use tool_journal::journal::cut_text;
use tool_provider::turn::TurnEnd;
use tool_provider::{LabelMark, ToolResult};
use tool_repository::file_role;

/// Limit for rounds in which the model mends its own failing tests. After three rounds, the cause is rarely a slip.
const TEST_MEND_ROUNDS_MAX: u32 = 3;

/// State between the rounds.
#[derive(Debug, Default)]
pub(super) struct TestGen {
    rounds: u32,
    last: Option<CheckedTests>,
}

/// A run of the new tests, and the files at that time.
#[derive(Debug)]
struct CheckedTests {
    /// The session's files with their digests.
    files: BTreeMap<String, Option<String>>,
    run: NewTests,
}

/// Result of the new tests.
#[derive(Debug, Clone)]
struct NewTests {
    run: SuiteRun,
    /// True if they cannot be selected, and all tests were run.
    with_all: bool,
}

impl OperationSteps for TestGen {
    fn after<'a>(&'a mut self, op: &'a OperationRun<'_>, answer: &'a DraftAnswer<'_>) -> Step<'a, Next> {
        Box::pin(self.run_new_tests(op, answer))
    }
}

impl TestGen {
    async fn run_new_tests(&mut self, op: &OperationRun<'_>, answer: &DraftAnswer<'_>) -> Next {
        let changed = SessionDiffs::read_async(op).await;
        let created = changed.created();
        if runnable(&created).is_empty() {
            return Next::End(nothing_written(op, answer, &changed));
        }
        let files = digests(op);
        let tests = match self.last.take() {
            // The model has changed no file, so the result is the same.
            Some(checked) if checked.files == files => checked.run,
            _ => {
                let tests = NewTests::run(op, &created).await;
                let failing = tests.failing(&created).cloned();
                if let Some(results) = failing.filter(|_| answer.may_ask && self.rounds < TEST_MEND_ROUNDS_MAX) {
                    self.rounds += 1;
                    self.last = Some(CheckedTests { files, run: tests });
                    return Next::Ask(self.mend(&results, &created, op.task.mark));
                }
                tests
            }
        };
        Next::End(self.closing(op, &changed, &created, &tests))
    }

    fn mend(&self, results: &TestSuiteResults, created: &[String], mark: LabelMark) -> FollowUp {
        let result = ToolResult {
            call_id: String::new(),
            name: checks::SKILL.to_owned(),
            text: cut_text(&results.text, limits::SUITE_TOLD_BYTES_MAX),
            is_error: false,
            origin: results.origin(),
        };
        let (round, rounds) = (self.rounds, TEST_MEND_ROUNDS_MAX);
        let files: Vec<String> = created.iter().map(|path| quote_name(path)).collect();
        FollowUp {
            heading: format!(
                "The new tests were run: {}. The model is asked to mend them (round {round} of {rounds}).",
                results.verdict
            ),
            message: format!(
                "The service has run the tests that you wrote:\n\n{}\n\nMend your own mistakes in {}, and change \
                 nothing else. Where a test is right and the source is wrong, keep the expectation and mark the test \
                 as an expected failure in the framework's way. Then say in a few sentences what you changed, and \
                 which defects of the source you found, with citations.",
                result.labelled(mark),
                files.join(", ")
            ),
        }
    }

    fn closing(&self, op: &OperationRun<'_>, changed: &SessionDiffs, created: &[String], tests: &NewTests) -> Closing {
        let (task, remedy) = (op.task, &suite::allow_tests_hint(op));
        let mended = match self.rounds {
            0 => String::new(),
            1 => " (after 1 round of mending)".to_owned(),
            rounds => format!(" (after {rounds} rounds of mending)"),
        };
        let text = format!("{}\n\n- New tests: {}{mended}", changed.summary("Wrote"), tests.line());
        let problem = match (&tests.run, tests.failing(created)) {
            (SuiteRun::Stopped, _) => Some(judge::out_of_time(task, "the new tests did not finish")),
            (_, Some(results)) => {
                let message = format!("test-gen is incomplete: the new tests do not pass: {}", results.verdict);
                Some(Problem::new(ErrorKind::TestsFailing, message).with_hint("mend or remove the failing tests"))
            }
            (run, None) => not_run(run, remedy),
        };
        Closing { text, problem }
    }
}

/// Reports new tests that were never run. `remedy` says how to allow the run.
fn not_run(run: &SuiteRun, remedy: &str) -> Option<Problem> {
    let hint = || "run them yourself".to_owned();
    let (kind, why, hint) = match run {
        SuiteRun::NotAllowed => (
            ErrorKind::Denied,
            "`run-process` is not allowed here",
            remedy.to_owned(),
        ),
        SuiteRun::Refused => (ErrorKind::Denied, "you did not agree to it", hint()),
        SuiteRun::None => (ErrorKind::TestsNotRun, "the project's tests are not found", hint()),
        SuiteRun::Impossible {
            message,
            hint: Some(hint),
            ..
        } => (ErrorKind::TestsNotRun, message.as_str(), hint.clone()),
        SuiteRun::Impossible { message, .. } | SuiteRun::Busy(message) => {
            (ErrorKind::TestsNotRun, message.as_str(), hint())
        }
        SuiteRun::Ran(results) if results.is_pytest && results.passed.is_none() => (
            ErrorKind::TestsNotRun,
            "the runner does not say that it ran any",
            hint(),
        ),
        SuiteRun::Ran(_) | SuiteRun::Stopped | SuiteRun::LeftOut(_) => return None,
    };
    let message = format!("test-gen is incomplete: the new tests were not run: {why}");
    Some(Problem::new(kind, message).with_hint(hint))
}

impl NewTests {
    /// Runs only the created tests, if the project's runner can select them.
    async fn run(op: &OperationRun<'_>, created: &[String]) -> Self {
        let paths = runnable(created);
        let run = suite::run_suite(op, &paths).await;
        match &run {
            SuiteRun::Impossible {
                kind: ErrorKind::InvalidArguments,
                ..
            } => Self {
                run: suite::run_suite(op, &[]).await,
                with_all: true,
            },
            _ => Self { run, with_all: false },
        }
    }

    /// The results, if a new test fails or none of them runs.
    fn failing(&self, created: &[String]) -> Option<&TestSuiteResults> {
        let SuiteRun::Ran(results) = &self.run else { return None };
        let is_new = |name: &String| created.iter().any(|path| name.starts_with(path.as_str()));
        let fails = if self.with_all {
            // Other tests may have failed before.
            !results.has_run || results.failing.iter().any(is_new)
        } else {
            !results.has_passed || !results.has_run
        };
        fails.then_some(results)
    }

    fn line(&self) -> String {
        let SuiteRun::Ran(results) = &self.run else {
            return self.run.line();
        };
        let counts = match (results.passed, results.failed) {
            (Some(passed), Some(failed)) => format!("{passed} passed, {failed} failed; {}", results.verdict),
            _ => results.verdict.clone(),
        };
        let unknown = results.passed.is_none();
        match (self.with_all, unknown) {
            (true, _) => format!("{counts}; all tests were run, because the project's runner takes no single files"),
            (false, true) => format!("{counts}; the project's runner does not say which tests it ran"),
            (false, false) => counts,
        }
    }
}

/// Files for the runner: tests, without supporting files.
fn runnable(created: &[String]) -> Vec<String> {
    let supports = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        matches!(name, "conftest.py" | "__init__.py")
    };
    let sources = created
        .iter()
        .filter(|path| tool_context::is_source(path) && !supports(path));
    let (tests, others): (Vec<String>, Vec<String>) = sources.cloned().partition(|path| file_role::is_test(path));
    if tests.is_empty() { others } else { tests }
}

/// Present digests of the files.
fn digests(op: &OperationRun<'_>) -> BTreeMap<String, Option<String>> {
    let files = op.job.recorder.summary().files;
    files
        .into_iter()
        .map(|(path, file)| (path, file.after.map(|mark| mark.digest)))
        .collect()
}

/// The end of a session that wrote no test. A turn that was interrupted has its own text.
fn nothing_written(op: &OperationRun<'_>, answer: &DraftAnswer<'_>, changed: &SessionDiffs) -> Closing {
    let text = match &answer.turn.end {
        Err(_) | Ok(TurnEnd::Refused) => String::new(),
        Ok(_) if changed.is_empty() => "No test file was written.".to_owned(),
        Ok(_) => format!("No test file was written. {}", changed.summary("Wrote")),
    };
    let source = op.task.request.target.as_deref().unwrap_or("the source file");
    let message = format!("test-gen is incomplete: no test file was written for `{source}`");
    let problem = Problem::new(ErrorKind::NothingWritten, message)
        .with_hint("the answer may say why; run it again, or choose another model");
    Closing {
        text,
        problem: Some(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::checks::suite::ran;
    use tool_core::api::TestRunner;

    fn pytest(exit_code: i32, output: &str, failing: &[&str]) -> SuiteRun {
        ran(TestRunner::Pytest, exit_code, output, failing)
    }

    fn tests(run: SuiteRun, with_all: bool) -> NewTests {
        NewTests { run, with_all }
    }

    #[test]
    fn a_runner_that_says_little_is_not_believed_to_say_more() {
        let unknown = || ran(TestRunner::Npm, 0, "all is well", &[]);
        assert_eq!(
            tests(unknown(), false).line(),
            "PASSED: exit status 0 in 1.0 s; the project's runner does not say which tests it ran"
        );
        assert_eq!(
            tests(unknown(), true).line(),
            "PASSED: exit status 0 in 1.0 s; all tests were run, because the project's runner takes no single files"
        );
        assert_eq!(
            tests(pytest(1, "1 failed, 2 passed in 1.0s", &[]), false).line(),
            "2 passed, 1 failed; FAILED: 1 failed, 2 passed in 1.0 s"
        );
        assert_eq!(tests(SuiteRun::None, false).line(), suite::NONE);
    }

    #[test]
    fn among_all_tests_only_the_new_ones_count_and_by_themselves_they_must_run() {
        let created = ["tests/test_new.py".to_owned()];
        let fails = |run, with_all| tests(run, with_all).failing(&created).is_some();
        let failing = |name: &str| pytest(1, "1 failed, 2 passed in 1.0s", &[name]);
        assert!(fails(failing("tests/test_new.py::test_a"), true));
        assert!(!fails(failing("tests/test_old.py::test_a"), true));
        assert!(fails(failing("anything"), false));
        assert!(fails(pytest(5, "no tests ran in 0.1s", &[]), false));
        assert!(!fails(pytest(0, "2 passed in 1.0s", &[]), false));
        assert!(fails(pytest(5, "no tests ran in 0.1s", &[]), true));
        assert!(!fails(SuiteRun::NotAllowed, false));
    }

    #[test]
    fn tests_that_nobody_has_seen_run_are_incomplete() {
        let said = |run: SuiteRun| {
            not_run(&run, "allow it")
                .map(|problem| format!("{}: {}", problem.kind, problem.message))
                .unwrap_or_default()
        };
        let prefix = "test-gen is incomplete: the new tests were not run:";
        assert_eq!(
            said(SuiteRun::NotAllowed),
            format!("denied: {prefix} `run-process` is not allowed here")
        );
        assert_eq!(
            said(SuiteRun::Refused),
            format!("denied: {prefix} you did not agree to it")
        );
        assert_eq!(
            said(pytest(0, "all is well", &[])),
            format!("tests-not-run: {prefix} the runner does not say that it ran any")
        );
        assert_eq!(
            said(SuiteRun::None),
            format!("tests-not-run: {prefix} the project's tests are not found")
        );
        assert_eq!(said(ran(TestRunner::Npm, 0, "all is well", &[])), "");
        assert_eq!(said(pytest(0, "2 passed in 1.0s", &[])), "");
    }

    #[test]
    fn a_runner_is_given_tests_and_not_what_supports_them() {
        let paths = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>();
        let created = paths(&[
            "tests/conftest.py",
            "tests/test_a.py",
            "tests/data.json",
            "tests/__init__.py",
        ]);
        assert_eq!(runnable(&created), ["tests/test_a.py"]);
        assert_eq!(runnable(&paths(&["check.js"])), ["check.js"], "better than none");
        assert!(
            runnable(&paths(&["notes.md", "tests/conftest.py"])).is_empty(),
            "all would be run"
        );
    }
}
