//! What the tests and checks after a change prove of it.

use super::project_checks;
use super::suite::{SuiteRun, TestSuiteResults};
use crate::limits;
use crate::run::session_diffs::SessionDiffs;
use tool_core::api::{ErrorKind, Problem, RunPurpose, VerificationRule};
use tool_repository::file_role;

/// Evidence that a change keeps the program working.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    /// Tests were counted and passed, and did not get worse. These checks are clean as well.
    Tests(Vec<RunPurpose>),
    /// The runner exited with 0 and did not count its tests. These checks are clean.
    Uncounted { is_own: bool, checks: Vec<RunPurpose> },
    /// There are no tests, and these checks are as clean as before.
    Checks(Vec<RunPurpose>),
    /// The request asked for no tests. Holds the flag or the field that did.
    LeftOut(&'static str),
    /// There was nothing to run.
    Nothing(&'static str),
    /// Something could have been run, and did not run completely.
    Missing(String),
}

/// The part of the evidence from checks.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckEvidence {
    pub(crate) clean: Vec<RunPurpose>,
    pub(crate) not_run: Option<String>,
}

impl Verification {
    pub(crate) fn of(changed: &SessionDiffs, after: Option<&SuiteRun>, checks: CheckEvidence) -> Self {
        let has_no_run = matches!(after, Some(SuiteRun::None | SuiteRun::NotAllowed));
        if has_no_run && !changed.files.iter().any(|file| file_role::is_code(&file.path)) {
            return Self::Nothing("no program was changed");
        }
        match after {
            None => Self::Missing(format!("the tests take more than {} s", limits::SUITE_SECONDS_MAX)),
            Some(SuiteRun::None | SuiteRun::LeftOut(_)) if !checks.clean.is_empty() => Self::Checks(checks.clean),
            Some(&SuiteRun::LeftOut(option)) => Self::LeftOut(option),
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

    fn of_results(results: &TestSuiteResults, checks: CheckEvidence) -> Self {
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
            let who = if results.is_own { "your test command" } else { "the run" };
            return Self::Missing(format!("{who} named no failing test ({})", results.verdict));
        }
        match results.passed {
            Some(0) => Self::Missing(format!("no test passed ({})", results.verdict)),
            Some(_) => Self::Tests(checks.clean),
            None => Self::Uncounted {
                is_own: results.is_own,
                checks: checks.clean,
            },
        }
    }

    pub(crate) fn line(&self) -> String {
        match self {
            Self::Tests(checks) if checks.is_empty() => "- Verified by tests\n".to_owned(),
            Self::Tests(checks) => format!(
                "- Verified by tests and by the checks {}\n",
                project_checks::check_names(checks)
            ),
            Self::Uncounted { is_own, checks } => {
                let who = if *is_own {
                    "your test command"
                } else {
                    "the test runner"
                };
                let said = format!("{who} exited with 0, and no test was counted");
                match checks.as_slice() {
                    [] => format!("- Not verified by tests: {said}\n"),
                    _ => format!(
                        "- Verified by the checks {}; {said}\n",
                        project_checks::check_names(checks)
                    ),
                }
            }
            Self::Checks(checks) => format!(
                "- Verified by the checks {}; no tests ran\n",
                project_checks::check_names(checks)
            ),
            Self::LeftOut(option) => format!("- Not verified: the tests were left out by {option}\n"),
            Self::Nothing(why) => format!("- Not verified: nothing to run ({why})\n"),
            Self::Missing(why) => format!("- Not verified: {why}\n"),
        }
    }

    pub(crate) fn problem(&self, rule: VerificationRule) -> Option<Problem> {
        let why = match (self, rule) {
            (Self::Tests(_) | Self::Checks(_), _) | (_, VerificationRule::Optional) => return None,
            (Self::Nothing(_) | Self::Uncounted { .. } | Self::LeftOut(_), VerificationRule::WherePossible) => {
                return None;
            }
            (Self::Uncounted { is_own, checks }, VerificationRule::Required) if *is_own || !checks.is_empty() => {
                return None;
            }
            (Self::Uncounted { .. }, VerificationRule::Required) => "the test runner counted no test".to_owned(),
            (Self::Nothing(why), VerificationRule::Required) => (*why).to_owned(),
            (Self::LeftOut(option), VerificationRule::Required) => format!("the tests were left out by {option}"),
            (Self::Missing(why), _) => why.clone(),
        };
        let hint = "run the tests yourself";
        Some(Problem::new(ErrorKind::NotVerified, format!("refactor is not verified: {why}")).with_hint(hint))
    }
}

/// Limit for the named files that do not load.
const NAMED_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::checks::suite::ran;
    use tool_core::api::TestRunner;

    fn pytest(exit_code: i32, output: &str, failing: &[&str]) -> SuiteRun {
        ran(TestRunner::Pytest, exit_code, output, failing)
    }

    #[test]
    fn only_tests_that_ran_to_their_end_verify() {
        let mut changed = SessionDiffs::default();
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
        let uncounted = |is_own| {
            let mut run = ran(TestRunner::Npm, 0, "all is well", &[]);
            if let SuiteRun::Ran(results) = &mut run {
                results.is_own = is_own;
            }
            let is_required = problem(&run, VerificationRule::Required).is_some();
            (line(&run), problem(&run, VerificationRule::WherePossible), is_required)
        };
        let said = |who| format!("- Not verified by tests: {who} exited with 0, and no test was counted\n");
        assert_eq!(uncounted(false), (said("the test runner"), None, true));
        assert_eq!(uncounted(true), (said("your test command"), None, false));
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
}
