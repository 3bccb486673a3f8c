//! Checks of the project besides tests, for example linters. The host runs them before a refactor, and afterwards
//! those that were clean.
//!
//! All checks together have a time limit. A check that did not run, or was not clean before, is named but does not
//! affect the outcome.

use serde_json::json;
use tokio::time::Instant;

use super::SKILL;
use crate::limits;
use crate::run::operations::OperationRun;
use tool_core::api::{Effect, ErrorKind, RunPurpose, TestStatus};
use tool_skill::CallError;
use tool_skill::policy::Decision;

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckState {
    /// The check found nothing.
    Clean,
    /// The check found something. Holds its verdict.
    Failed(String),
    /// The check did not run, or not to its end. Holds the reason.
    NotRun(String),
}

/// A check of the project and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckRun {
    pub(crate) check: RunPurpose,
    pub(crate) state: CheckState,
}

/// Runs every check of the project; none if the policy does not allow it.
pub(crate) async fn run_before(op: &OperationRun<'_>) -> Vec<CheckRun> {
    let mut checks = op.runnable_purposes().await;
    checks.retain(|purpose| *purpose != RunPurpose::Tests);
    run_checks(op, &checks).await
}

/// Runs the checks again that were clean.
pub(crate) async fn run_after(op: &OperationRun<'_>, before: &[CheckRun]) -> Vec<CheckRun> {
    let clean = before.iter().filter(|run| run.state == CheckState::Clean);
    let checks: Vec<RunPurpose> = clean.map(|run| run.check).collect();
    run_checks(op, &checks).await
}

async fn run_checks(op: &OperationRun<'_>, checks: &[RunPurpose]) -> Vec<CheckRun> {
    let ends = Instant::now() + limits::seconds(limits::CHECKS_SECONDS_MAX);
    let mut runs = Vec::new();
    for &check in checks {
        if let Some(state) = run_one(op, check, ends).await {
            runs.push(CheckRun { check, state });
        }
    }
    runs
}

/// Runs one check; `None` if it does not exist.
async fn run_one(op: &OperationRun<'_>, check: RunPurpose, ends: Instant) -> Option<CheckState> {
    // As for tests, the host does not ask the user.
    if op.job.plan.policy.decide(Effect::RunProcess, false) != Decision::Allow {
        return Some(CheckState::NotRun("`run-process` is not allowed here".to_owned()));
    }
    let left = ends.saturating_duration_since(Instant::now()).as_secs();
    let is_late = op.deadline.is_some_and(|deadline| deadline <= Instant::now());
    if left == 0 || is_late || op.tools.is_stopped() {
        return Some(CheckState::NotRun("no time was left for it".to_owned()));
    }
    let arguments = json!({"check": check.name(), "timeout_seconds": left});
    let report = op.call(SKILL, arguments).await;
    match report.result {
        Ok(_) => {}
        Err(CallError::Failure {
            kind: ErrorKind::NotFound,
            ..
        }) => return None,
        Err(error) => return Some(CheckState::NotRun(error.to_string())),
    }
    let Some(run) = report.receipt.and_then(|receipt| receipt.tests) else {
        return Some(CheckState::NotRun(format!("`{SKILL}` answered without a run")));
    };
    Some(match (run.status, run.not_run.first()) {
        (TestStatus::Failed, _) => CheckState::Failed(run.verdict()),
        (TestStatus::NothingRan, _) => CheckState::NotRun("it found nothing to look at".to_owned()),
        (TestStatus::TimedOut, _) => CheckState::NotRun(format!("it takes more than {left} s")),
        (TestStatus::Passed, Some(first)) => CheckState::NotRun(first.clone()),
        (TestStatus::Passed, None) => CheckState::Clean,
    })
}

/// Checks that were clean before and are not any more.
pub(crate) fn broken_checks(before: &[CheckRun], after: &[CheckRun]) -> Vec<RunPurpose> {
    let fails_now = |check| {
        let mut runs = after.iter().filter(|run| run.check == check);
        runs.any(|run| matches!(run.state, CheckState::Failed(_)))
    };
    let clean = before.iter().filter(|run| run.state == CheckState::Clean);
    clean.map(|run| run.check).filter(|check| fails_now(*check)).collect()
}

/// Clean checks that say something about the program. A check of the formatting does not.
pub(crate) fn verifying_checks(after: &[CheckRun]) -> Vec<RunPurpose> {
    let clean = after.iter().filter(|run| run.state == CheckState::Clean);
    clean
        .map(|run| run.check)
        .filter(|check| *check != RunPurpose::Format)
        .collect()
}

/// The first check that could not be run, with the reason.
pub(crate) fn first_not_run(runs: &[CheckRun]) -> Option<String> {
    runs.iter().find_map(|run| match &run.state {
        CheckState::NotRun(why) => Some(format!("the check `{}` did not run: {why}", run.check)),
        CheckState::Clean | CheckState::Failed(_) => None,
    })
}

/// One line for each check.
pub(crate) fn compare_checks(before: &[CheckRun], after: &[CheckRun]) -> String {
    let mut text = String::new();
    for run in before {
        let now = after
            .iter()
            .find(|later| later.check == run.check)
            .map(|later| &later.state);
        let said = match (&run.state, now) {
            (CheckState::Clean, Some(CheckState::Clean)) => "passes, before the change and after it".to_owned(),
            (CheckState::Clean, Some(CheckState::Failed(verdict))) => {
                format!("passed before the change and fails now ({verdict})")
            }
            (CheckState::Clean, Some(CheckState::NotRun(why))) => {
                format!("passed before the change; not run after it: {why}")
            }
            (CheckState::Clean, None) => "passed before the change; not found after it".to_owned(),
            (CheckState::Failed(verdict), _) => {
                format!("failed before the change, so it was not run again ({verdict})")
            }
            (CheckState::NotRun(why), _) => format!("not run: {why}"),
        };
        text.push_str(&format!("- Check `{}`: {said}\n", run.check));
    }
    text
}

/// Names of checks as part of a sentence.
pub(crate) fn check_names(checks: &[RunPurpose]) -> String {
    let names: Vec<String> = checks.iter().map(|check| format!("`{check}`")).collect();
    names.join(", ")
}

/// Text for the model about the checks that have to stay clean.
pub(crate) fn describe_checks(before: &[CheckRun]) -> String {
    let clean = before.iter().filter(|run| run.state == CheckState::Clean);
    let checks: Vec<RunPurpose> = clean.map(|run| run.check).collect();
    if checks.is_empty() {
        return String::new();
    }
    format!(
        "\n# Checks before any change\n\nThese checks passed before any change, and the service will run them again after your answer: \
         {}. `run_tests` runs one with the argument `check`.\n",
        check_names(&checks)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_checks(check: RunPurpose, state: CheckState) -> CheckRun {
        CheckRun { check, state }
    }

    #[test]
    fn only_a_check_that_was_clean_can_break() {
        let failed = || CheckState::Failed("FAILED: exit status 1 in 1.0 s".to_owned());
        let before = [
            run_checks(RunPurpose::Format, CheckState::Clean),
            run_checks(RunPurpose::Lint, failed()),
            run_checks(RunPurpose::Types, CheckState::Clean),
            run_checks(
                RunPurpose::Build,
                CheckState::NotRun("no time was left for it".to_owned()),
            ),
        ];
        let after = [
            run_checks(RunPurpose::Format, CheckState::Clean),
            run_checks(RunPurpose::Types, failed()),
        ];
        assert_eq!(broken_checks(&before, &after), [RunPurpose::Types]);
        insta::assert_snapshot!(compare_checks(&before, &after), @r"
        - Check `format`: passes, before the change and after it
        - Check `lint`: failed before the change, so it was not run again (FAILED: exit status 1 in 1.0 s)
        - Check `types`: passed before the change and fails now (FAILED: exit status 1 in 1.0 s)
        - Check `build`: not run: no time was left for it
        ");
        assert!(
            verifying_checks(&after).is_empty(),
            "a format says nothing of what the code does"
        );
        assert!(describe_checks(&before).contains("`format`, `types`."));
        assert_eq!(describe_checks(&after[1..]), "");
    }
}
