//! Steps of refactor: it runs the tests beside the model's first requests and after its work, and ends the answer with
//! the diff and both results. Nothing changes until the first run has ended.

use super::{Baseline, Closing, DraftAnswer, Next, OperationRun, OperationSteps, Step};
use crate::limits;
use crate::run::checks;
use crate::run::checks::project_checks;
use crate::run::checks::remembered;
use crate::run::checks::suite::{self, SuiteRun};
use crate::run::checks::verification::{CheckEvidence, Verification};
use crate::run::judge;
use crate::run::session_diffs::{SessionDiffs, UNCHANGED};
use tool_core::api::Effect;
use tool_core::api::{ChangeKind, ErrorKind, Problem};
use tool_provider::turn::{Tools as _, TurnEnd};
use tool_provider::{LabelMark, ToolResult};
use tool_repository::file_role;
use tool_skill::policy::Decision;
use tool_skill::runner;

/// Compares the tests and checks after the change with those before it.
#[derive(Debug)]
pub(super) struct RefactorReview;

impl OperationSteps for RefactorReview {
    fn beside<'a>(&self, op: &'a OperationRun<'_>) -> Step<'a, ()> {
        Box::pin(run_baseline(op))
    }

    fn after<'a>(&'a mut self, op: &'a OperationRun<'_>, answer: &'a DraftAnswer<'_>) -> Step<'a, Next> {
        Box::pin(compare(op, answer))
    }
}

/// Runs tests and checks while nothing changes, and tells the model what they said.
async fn run_baseline(op: &OperationRun<'_>) {
    let _tree = op.tools.keep_tree().await;
    let can_ask = tool_skill::Approver::can_ask(&*op.job.approver);
    if op.job.plan.policy.decide(Effect::WriteRepository, can_ask) == Decision::Deny {
        return;
    }
    let tests = remembered::run_suite_once(op).await;
    let checks = if op.task.request.no_checks || op.tools.is_stopped() {
        Vec::new()
    } else {
        project_checks::run_before(op).await
    };
    op.tools
        .tell_model(&(describe_first_run(&tests, op.task.mark) + &project_checks::describe_checks(&checks)));
    // Runs once.
    let _ = op.baseline.set(Baseline { tests, checks });
}

/// Runs the tests again if anything was changed, and compares the results.
async fn compare(op: &OperationRun<'_>, answer: &DraftAnswer<'_>) -> Next {
    let changed = SessionDiffs::read_async(op).await;
    if changed.is_empty() {
        // Nothing is compared with the first run.
        op.tools.stop();
        drop(op.tools.keep_tree().await);
        let said = changed.unchanged();
        let text = describe_unchanged(&said, answer, op.baseline.get());
        if !text.is_empty() && said == UNCHANGED {
            op.job.recorder.notice("Nothing was changed.", None);
        }
        return Next::End(Closing::saying(text));
    }
    let mut text = format!("{}\n\n{}", changed.summary("Changed"), changed.diff());
    text.push_str(&judging_files(&changed));
    let Some(Baseline {
        tests: before,
        checks: checks_before,
    }) = op.baseline.get()
    else {
        // An installation changes files even where nothing may be written, and then there was no first run.
        let verification = Verification::Missing("the tests did not run before the change".to_owned());
        text.push_str(&format!("\n{}", verification.line()));
        let problem = verification.problem(op.task.request.verification);
        return Next::End(Closing { text, problem });
    };
    let after = match before {
        SuiteRun::Ran(results) if results.timed_out => None,
        _ => Some(suite::run_suite(op, &[]).await),
    };
    let worse = after
        .as_ref()
        .and_then(|after| suite::describe_regression(before, after));
    let checks_after = project_checks::run_after(op, checks_before).await;
    let broken = project_checks::broken_checks(checks_before, &checks_after);
    text.push('\n');
    text.push_str(&compare_runs(before, after.as_ref(), worse.as_deref()));
    if let SuiteRun::Ran(last) = after.as_ref().unwrap_or(before) {
        text.push_str(&last.describe_failure());
    }
    if op.task.request.no_checks {
        let option = op.option_name("--no-checks", "`no_checks`");
        text.push_str(&format!("- Checks: left out by {option}\n"));
    }
    text.push_str(&project_checks::compare_checks(checks_before, &checks_after));
    let problem = match (worse, after) {
        (Some(worse), _) => Some(Problem::new(
            ErrorKind::TestsWorse,
            format!("refactor made the tests worse: {worse}"),
        )),
        (None, _) if !broken.is_empty() => Some(Problem::new(
            ErrorKind::ChecksWorse,
            format!("refactor broke the checks {}", project_checks::check_names(&broken)),
        )),
        (None, Some(SuiteRun::Stopped)) => {
            let missing = "the tests after the change did not finish";
            Some(judge::out_of_time(op.task, missing))
        }
        (None, Some(SuiteRun::Busy(why))) => not_run(before, &why),
        (None, after) => {
            let checks = CheckEvidence {
                clean: project_checks::verifying_checks(&checks_after),
                not_run: project_checks::first_not_run(checks_before)
                    .or_else(|| project_checks::first_not_run(&checks_after)),
            };
            let verification = Verification::of(&changed, after.as_ref(), checks);
            text.push_str(&verification.line());
            let problem = verification.problem(op.task.request.verification);
            match after {
                Some(SuiteRun::NotAllowed) => problem.map(|problem| problem.with_hint(suite::allow_tests_hint(op))),
                _ => problem,
            }
        }
    };
    Next::End(Closing { text, problem })
}

/// The text for a session without a change. A turn that was interrupted has its own text.
fn describe_unchanged(said: &str, answer: &DraftAnswer<'_>, baseline: Option<&Baseline>) -> String {
    match (&answer.turn.end, baseline.map(|baseline| &baseline.tests)) {
        (Err(_) | Ok(TurnEnd::Refused), _) => String::new(),
        (Ok(_), Some(tests @ (SuiteRun::Ran(_) | SuiteRun::Stopped))) => {
            format!("{said}\n\n- Tests as they are: {}", tests.line())
        }
        (Ok(_), _) => said.to_owned(),
    }
}

/// Reports a change as untested if the tests could be run before it, and not after it.
fn not_run(before: &SuiteRun, why: &str) -> Option<Problem> {
    matches!(before, SuiteRun::Ran(_)).then(|| {
        let message = format!("refactor is incomplete: the tests were not run after the change: {why}");
        Problem::new(ErrorKind::TestsNotRun, message).with_hint("run them yourself")
    })
}

/// The text about the first run for the model.
fn describe_first_run(run: &SuiteRun, mark: LabelMark) -> String {
    let SuiteRun::Ran(results) = run else {
        return String::new();
    };
    let text = tool_journal::journal::cut_text(&results.text, limits::SUITE_TOLD_BYTES_MAX);
    let result = ToolResult {
        call_id: String::new(),
        name: checks::SKILL.to_owned(),
        text,
        is_error: false,
        origin: results.origin(),
    };
    format!(
        "\n# Tests before any change\n\nThe service has run the tests as the repository was before any change, and will \
         run them again after your answer:\n\n{}\n",
        result.labelled(mark)
    )
}

/// Names edited files that affect the tests themselves: a user who trusts a passing run must know about them.
fn judging_files(changed: &SessionDiffs) -> String {
    let judges = |path: &str| runner::is_configuration(path) || file_role::is_test(path);
    let edited = changed.files.iter().filter(|file| match file.kind {
        ChangeKind::Created => runner::is_configuration(&file.path),
        ChangeKind::Modified | ChangeKind::Deleted => judges(&file.path),
    });
    let names: Vec<String> = edited.map(|file| tool_core::text::quote_name(&file.path)).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(
            "\n- Edited among them, tests or configuration of their runner: {}",
            names.join(", ")
        )
    }
}

/// Both runs, line by line. There is no second one where the first took too long.
fn compare_runs(before: &SuiteRun, after: Option<&SuiteRun>, worse: Option<&str>) -> String {
    if after == Some(before) && !matches!(before, SuiteRun::Ran(_)) {
        return format!("- Tests: {}\n", before.line());
    }
    let after_line = after.map_or_else(
        || {
            let seconds = limits::SUITE_SECONDS_MAX;
            format!("not run again, because they take more than {seconds} s")
        },
        SuiteRun::line,
    );
    let mut text = format!(
        "- Tests before the change: {}\n- Tests after the change: {after_line}\n",
        before.line()
    );
    if let Some(worse) = worse {
        text.push_str(&format!("- The tests got worse: {worse}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::checks::suite::ran;
    use tool_core::api::TestRunner;

    fn pytest(exit_code: i32, output: &str, failing: &[&str]) -> SuiteRun {
        ran(TestRunner::Pytest, exit_code, output, failing)
    }

    fn said(before: &SuiteRun, after: &SuiteRun) -> String {
        compare_runs(
            before,
            Some(after),
            suite::describe_regression(before, after).as_deref(),
        )
    }

    #[test]
    fn both_runs_are_said_and_what_became_of_them() {
        let good = pytest(0, "5 passed in 1.0s", &[]);
        insta::assert_snapshot!(said(&good, &pytest(1, "1 failed, 4 passed in 1.0s", &["t.py::test_a"])), @r"
        - Tests before the change: PASSED: 5 passed in 1.0 s
        - Tests after the change: FAILED: 1 failed, 4 passed in 1.0 s
        - The tests got worse: `t.py::test_a` fails now and did not before
        ");
        insta::assert_snapshot!(said(&good, &pytest(0, "3 passed in 1.0s", &[])), @r"
        - Tests before the change: PASSED: 5 passed in 1.0 s
        - Tests after the change: PASSED: 3 passed in 1.0 s
        - The tests got worse: 5 tests passed before, and 3 do now
        ");
        let mut slow = pytest(1, "boom", &[]);
        if let SuiteRun::Ran(results) = &mut slow {
            (results.verdict, results.timed_out) = ("FAILED: timed out in 300 s".to_owned(), true);
        }
        insta::assert_snapshot!(compare_runs(&slow, None, None), @r"
        - Tests before the change: FAILED: timed out in 300 s
        - Tests after the change: not run again, because they take more than 300 s
        ");
    }

    #[test]
    fn a_change_whose_tests_a_busy_host_did_not_run_is_incomplete_and_not_worse() {
        let good = pytest(0, "5 passed in 1.0s", &[]);
        let why = "The skill `run_tests` was not called: too many calls are at work. Try again.";
        let busy = SuiteRun::Busy(why.to_owned());
        insta::assert_snapshot!(said(&good, &busy), @r"
        - Tests before the change: PASSED: 5 passed in 1.0 s
        - Tests after the change: not run: The skill `run_tests` was not called: too many calls are at work. Try again.
        ");
        let problem = not_run(&good, why).expect("nobody has judged it");
        assert_eq!(problem.kind, ErrorKind::TestsNotRun);
        assert_eq!(
            problem.message,
            format!("refactor is incomplete: the tests were not run after the change: {why}")
        );
        assert_eq!(not_run(&busy, why), None, "nor was what was there before");
        assert_eq!(said(&busy, &busy), format!("- Tests: not run: {why}\n"));
    }

    #[test]
    fn what_was_not_run_is_said_once() {
        assert_eq!(
            said(&SuiteRun::None, &SuiteRun::None),
            format!("- Tests: {}\n", suite::NONE)
        );
        assert_eq!(
            said(&SuiteRun::NotAllowed, &SuiteRun::NotAllowed),
            "- Tests: not run, because `run-process` is not allowed here\n"
        );
    }

    #[test]
    fn what_a_model_is_told_of_tests_is_bounded() {
        let long = format!(
            "FAILED: 1 failed in 1.0 s\n{}",
            "x\n".repeat(limits::SUITE_TOLD_BYTES_MAX)
        );
        assert!(describe_first_run(&pytest(1, &long, &[]), LabelMark(7)).len() < limits::SUITE_TOLD_BYTES_MAX + 500);
    }
}
