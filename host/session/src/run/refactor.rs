//! Steps of refactor: it runs the tests before and after the model's work, and ends the answer with the diff and both
//! results.

use super::changed::{self, Changed, UNCHANGED};
use super::judge;
use super::project_checks::{self, CheckRun};
use super::review::{Closing, Desk, DraftAnswer, Next};
use super::suite::{self, Results, SuiteRun};
use crate::limits;
use tool_core::api::Effect;
use tool_core::api::{ChangeKind, ErrorKind, Problem, RunPurpose, VerificationRule};
use tool_provider::turn::TurnEnd;
use tool_provider::{LabelMark, ToolResult};
use tool_repository::file_role;
use tool_skill::policy::Decision;
use tool_skill::runner;

/// State from before the turn.
#[derive(Debug, Default)]
pub(super) struct Refactor {
    before: Option<SuiteRun>,
    checks_before: Vec<CheckRun>,
}

impl Refactor {
    /// Runs tests and checks before the change. Returns the text about them for the model.
    pub(super) async fn before(&mut self, desk: &Desk<'_>) -> String {
        let can_ask = tool_skill::Approver::can_ask(&*desk.job.approver);
        if desk.job.policy.decide(Effect::WriteRepository, can_ask) == Decision::Deny {
            return String::new();
        }
        let run = suite::run(desk, &[]).await;
        let facts = told(&run, desk.mark);
        self.before = Some(run);
        self.checks_before = project_checks::run_before(desk).await;
        facts + &project_checks::told(&self.checks_before)
    }

    /// Runs the tests again if anything was changed, and compares the results.
    pub(super) async fn after(&self, desk: &Desk<'_>, answer: &DraftAnswer<'_>) -> Next {
        let changed = Changed::of(desk).await;
        if changed.is_empty() {
            let said = changed.unchanged();
            let text = self.unchanged(&said, answer);
            if !text.is_empty() && said == UNCHANGED {
                desk.job.recorder.notice("Nothing was changed.", None);
            }
            return Next::End(Closing::saying(text));
        }
        let mut text = format!("{}\n\n{}", changed.summary("Changed"), changed.diff());
        text.push_str(&judging_files(&changed));
        let Some(before) = &self.before else {
            return Next::End(Closing::saying(text));
        };
        let after = match before {
            SuiteRun::Ran(results) if results.timed_out => None,
            _ => Some(suite::run(desk, &[]).await),
        };
        let worse = after.as_ref().and_then(|after| suite::worse(before, after));
        let checks_after = project_checks::run_after(desk, &self.checks_before).await;
        let broken = project_checks::broken(&self.checks_before, &checks_after);
        text.push('\n');
        text.push_str(&compared(before, after.as_ref(), worse.as_deref()));
        text.push_str(&project_checks::compared(&self.checks_before, &checks_after));
        let problem = match (worse, after) {
            (Some(worse), _) => Some(Problem::new(
                ErrorKind::TestsWorse,
                format!("refactor made the tests worse: {worse}"),
            )),
            (None, _) if !broken.is_empty() => Some(Problem::new(
                ErrorKind::ChecksWorse,
                format!("refactor broke the checks {}", project_checks::names(&broken)),
            )),
            (None, Some(SuiteRun::Stopped)) => {
                let missing = "the tests after the change did not finish";
                Some(judge::out_of_time(desk.task, missing))
            }
            (None, Some(SuiteRun::Busy(why))) => not_run(before, &why),
            (None, after) => {
                let checks = CheckEvidence {
                    clean: project_checks::verifying(&checks_after),
                    not_run: project_checks::first_not_run(&self.checks_before)
                        .or_else(|| project_checks::first_not_run(&checks_after)),
                };
                let verification = Verification::of(&changed, after.as_ref(), checks);
                text.push_str(&verification.line());
                let problem = verification.problem(desk.task.verification);
                match after {
                    Some(SuiteRun::NotAllowed) => problem.map(|problem| problem.with_hint(suite::remedy(desk))),
                    _ => problem,
                }
            }
        };
        Next::End(Closing { text, problem })
    }

    /// The text for a session without a change. A turn that was interrupted has its own text.
    fn unchanged(&self, said: &str, answer: &DraftAnswer<'_>) -> String {
        match (&answer.turn.end, &self.before) {
            (Err(_) | Ok(TurnEnd::Refused), _) => String::new(),
            (Ok(_), Some(SuiteRun::Ran(before))) => {
                format!("{said}\n\n- Tests as they are: {}", before.verdict)
            }
            (Ok(_), _) => said.to_owned(),
        }
    }
}

/// Evidence that a change keeps the program working.
#[derive(Debug, PartialEq, Eq)]
enum Verification {
    /// The tests ran to their end and did not get worse. These checks are clean as well.
    Tests(Vec<RunPurpose>),
    /// There are no tests, and these checks are as clean as before.
    Checks(Vec<RunPurpose>),
    /// There was nothing to run.
    Nothing(&'static str),
    /// Something could have been run, and did not run completely.
    Missing(String),
}

/// The part of the evidence from checks.
#[derive(Debug, Clone, Default)]
struct CheckEvidence {
    clean: Vec<RunPurpose>,
    not_run: Option<String>,
}

impl Verification {
    fn of(changed: &Changed, after: Option<&SuiteRun>, checks: CheckEvidence) -> Self {
        let has_no_run = matches!(after, Some(SuiteRun::None | SuiteRun::NotAllowed));
        if has_no_run && !changed.files.iter().any(|file| file_role::is_code(&file.path)) {
            return Self::Nothing("no program was changed");
        }
        match after {
            None => Self::Missing(format!("the tests take more than {} s", limits::SUITE_SECONDS_MAX)),
            Some(SuiteRun::None) if !checks.clean.is_empty() => Self::Checks(checks.clean),
            Some(SuiteRun::None) => match checks.not_run {
                Some(why) => Self::Missing(why),
                None => Self::Nothing("no sign of tests was found"),
            },
            Some(SuiteRun::NotAllowed) => Self::Missing("`run-process` is not allowed here".to_owned()),
            Some(SuiteRun::Refused) => Self::Missing("you did not agree to it".to_owned()),
            Some(SuiteRun::Stopped) => Self::Missing("the session ended before".to_owned()),
            Some(SuiteRun::Busy(message) | SuiteRun::Impossible { message, .. }) => Self::Missing(message.clone()),
            Some(SuiteRun::Ran(results)) => Self::of_results(results, checks),
        }
    }

    fn of_results(results: &Results, checks: CheckEvidence) -> Self {
        if let Some(first) = results.not_run.first() {
            return Self::Missing(format!("not all suites could run: {first}"));
        }
        if !results.has_run && results.has_passed {
            // A runner that finds no test and reports success has searched everywhere.
            return if checks.clean.is_empty() {
                Self::Nothing("the runner found no test")
            } else {
                Self::Checks(checks.clean)
            };
        }
        if !results.has_run {
            return Self::Missing(format!("no test ran ({})", results.verdict));
        }
        if results.broken > 0 {
            // A file that does not load tests nothing, and its tests may be the important ones.
            let names: Vec<&str> = results.failing.iter().take(NAMED_MAX).map(String::as_str).collect();
            return Self::Missing(format!("the same errors before and after: {}", names.join(", ")));
        }
        if !results.has_passed && results.failing.is_empty() {
            // Without names, the failures cannot be compared with those from before.
            return Self::Missing(format!("the run named no failing test ({})", results.verdict));
        }
        Self::Tests(checks.clean)
    }

    fn line(&self) -> String {
        match self {
            Self::Tests(checks) if checks.is_empty() => "- Verified by tests\n".to_owned(),
            Self::Tests(checks) => format!(
                "- Verified by tests and by the checks {}\n",
                project_checks::names(checks)
            ),
            Self::Checks(checks) => format!(
                "- Verified by the checks {}; no tests ran\n",
                project_checks::names(checks)
            ),
            Self::Nothing(why) => format!("- Not verified: nothing to run ({why})\n"),
            Self::Missing(why) => format!("- Not verified: {why}\n"),
        }
    }

    fn problem(&self, rule: VerificationRule) -> Option<Problem> {
        let why = match (self, rule) {
            (Self::Tests(_) | Self::Checks(_), _) | (_, VerificationRule::Optional) => return None,
            (Self::Nothing(_), VerificationRule::WherePossible) => return None,
            (Self::Nothing(why), VerificationRule::Required) => (*why).to_owned(),
            (Self::Missing(why), _) => why.clone(),
        };
        let hint = "run the tests yourself";
        Some(Problem::new(ErrorKind::NotVerified, format!("refactor is not verified: {why}")).with_hint(hint))
    }
}

/// Limit for the named files that do not load.
const NAMED_MAX: usize = 5;

/// Reports a change as untested if the tests could be run before it, and not after it.
fn not_run(before: &SuiteRun, why: &str) -> Option<Problem> {
    matches!(before, SuiteRun::Ran(_)).then(|| {
        let message = format!("refactor is incomplete: the tests were not run after the change: {why}");
        Problem::new(ErrorKind::TestsNotRun, message).with_hint("run them yourself")
    })
}

/// The text about the first run for the model.
fn told(run: &SuiteRun, mark: LabelMark) -> String {
    let SuiteRun::Ran(results) = run else {
        return String::new();
    };
    let text = tool_journal::journal::cut_text(&results.text, limits::SUITE_TOLD_BYTES_MAX);
    let result = ToolResult {
        call_id: String::new(),
        name: suite::SKILL.to_owned(),
        text,
        is_error: false,
        origin: results.origin(),
    };
    format!(
        "\n# Tests before any change\n\nThe service has run the tests as the repository is now, and will run them again \
         after your answer:\n\n{}\n",
        result.labelled(mark)
    )
}

/// Names edited files that affect the tests themselves: a user who trusts a passing run must know about them.
fn judging_files(changed: &Changed) -> String {
    let judges = |path: &str| runner::is_configuration(path) || file_role::is_test(path);
    let edited = changed.files.iter().filter(|file| match file.kind {
        ChangeKind::Created => runner::is_configuration(&file.path),
        ChangeKind::Modified | ChangeKind::Deleted => judges(&file.path),
    });
    let names: Vec<String> = edited.map(|file| changed::quoted(&file.path)).collect();
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
fn compared(before: &SuiteRun, after: Option<&SuiteRun>, worse: Option<&str>) -> String {
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
    use super::super::suite::ran;
    use super::*;
    use tool_core::api::TestRunner;

    fn pytest(exit_code: i32, output: &str, failing: &[&str]) -> SuiteRun {
        ran(TestRunner::Pytest, exit_code, output, failing)
    }

    fn said(before: &SuiteRun, after: &SuiteRun) -> String {
        compared(before, Some(after), suite::worse(before, after).as_deref())
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
        insta::assert_snapshot!(compared(&slow, None, None), @r"
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
    fn only_tests_that_ran_to_their_end_verify() {
        let mut changed = Changed::default();
        changed.files.push(tool_repository::diff::FileDiff {
            path: "a.py".to_owned(),
            kind: tool_core::api::ChangeKind::Modified,
            added: 1,
            removed: 1,
            is_text: true,
            text: String::new(),
        });
        let line = |run: &SuiteRun| Verification::of(&changed, Some(run), CheckEvidence::default()).line();
        let problem = |run: &SuiteRun, rule| {
            let verification = Verification::of(&changed, Some(run), CheckEvidence::default());
            verification.problem(rule).map(|problem| problem.kind)
        };
        let good = pytest(0, "5 passed in 1.0s", &[]);
        assert_eq!(line(&good), "- Verified by tests\n");
        assert_eq!(problem(&good, VerificationRule::Required), None);
        let broken = pytest(2, "1 error in 1.0s", &["tests/test_a.py"]);
        assert_eq!(
            line(&broken),
            "- Not verified: the same errors before and after: tests/test_a.py\n"
        );
        let named = pytest(1, "1 failed, 4 passed in 1.0s", &["t.py::test_a"]);
        assert_eq!(line(&named), "- Verified by tests\n", "it failed before, too");
        let nameless = pytest(1, "1 failed, 4 passed in 1.0s", &[]);
        assert_eq!(
            line(&nameless),
            "- Not verified: the run named no failing test (FAILED: 1 failed, 4 passed in 1.0 s)\n"
        );
        let none = pytest(5, "no tests ran in 0.1s", &[]);
        let mut partly = pytest(0, "5 passed in 1.0s", &[]);
        if let SuiteRun::Ran(results) = &mut partly {
            results.not_run = vec!["go: go was not found on the PATH.".to_owned()];
        }
        for run in [
            &broken,
            &nameless,
            &none,
            &partly,
            &SuiteRun::NotAllowed,
            &SuiteRun::Refused,
        ] {
            assert_eq!(
                problem(run, VerificationRule::WherePossible),
                Some(ErrorKind::NotVerified),
                "{run:?}"
            );
            assert_eq!(problem(run, VerificationRule::Optional), None);
        }
        assert_eq!(problem(&SuiteRun::None, VerificationRule::WherePossible), None);
        let empty = ran(TestRunner::Npm, 0, "ℹ tests 0\nℹ pass 0\nℹ fail 0\n", &[]);
        assert_eq!(
            line(&empty),
            "- Not verified: nothing to run (the runner found no test)\n"
        );
        assert_eq!(
            problem(&SuiteRun::None, VerificationRule::Required),
            Some(ErrorKind::NotVerified)
        );
        let with = |run: &SuiteRun, clean: &[RunPurpose], not_run: Option<&str>| {
            let checks = CheckEvidence {
                clean: clean.to_vec(),
                not_run: not_run.map(str::to_owned),
            };
            let verification = Verification::of(&changed, Some(run), checks);
            let is_enough = verification.problem(VerificationRule::WherePossible).is_none();
            (verification.line(), is_enough)
        };
        let lint = [RunPurpose::Lint, RunPurpose::Types];
        assert_eq!(
            with(&good, &lint, None),
            (
                "- Verified by tests and by the checks `lint`, `types`\n".to_owned(),
                true
            )
        );
        assert_eq!(
            with(&SuiteRun::None, &lint, None),
            (
                "- Verified by the checks `lint`, `types`; no tests ran\n".to_owned(),
                true
            )
        );
        let why = "the check `types` did not run: mypy is not installed";
        assert_eq!(
            with(&SuiteRun::None, &[], Some(why)),
            (format!("- Not verified: {why}\n"), false)
        );
        assert!(
            !with(&broken, &lint, None).1,
            "checks do not stand for tests that did not load"
        );
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
        assert!(told(&pytest(1, &long, &[]), LabelMark(7)).len() < limits::SUITE_TOLD_BYTES_MAX + 500);
    }
}
