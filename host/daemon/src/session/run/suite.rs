//! Runs of the project's tests by the host itself: what a run came to, and whether it is worse than another one.
//!
//! A run goes the way of every call, by the skill `run_tests` under the session's policy and on its record. What the
//! skill says is read by its documented form: the verdict on the first line, then numbered failures. Whether tests are
//! run at all, and what follows, is decided by `refactor` and `test_gen`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::review::Desk;
use super::tools::hint_of;
use crate::api::{Effect, ErrorKind};
use crate::limits;
use crate::provider::Origin;
use crate::skill::policy::Decision;
use crate::skill::{CallError, CallReport};

/// The skill that runs tests.
pub(super) const SKILL: &str = "run_tests";

/// How tests are allowed that the policy does not allow.
pub(super) const ALLOW_HINT: &str = "allow it with `--allow run-process`";

/// Said where the skill found no tests: those of other runners may be there all the same.
pub(super) const NONE: &str = "not run: `run_tests` knows those of pytest and npm, and found none of either";

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Run {
    /// The policy does not allow it without asking.
    NotAllowed,
    /// The user was asked and said no.
    Refused,
    /// The project has no tests that the skill knows how to run.
    None,
    /// The session ended, or its time was up, before the run.
    Stopped,
    /// The tests cannot be run: the code and the sentence that say why.
    Impossible {
        kind: ErrorKind,
        message: String,
        hint: Option<String>,
    },
    /// Too many other calls, or runs, were under way: the sentence that says so. It says nothing of the tests.
    Busy(String),
    /// They were run, or at least the runner was.
    Ran(Results),
}

/// What a run said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Results {
    /// The first line: `PASSED: 7 passed in 0.3 s`.
    pub(super) verdict: String,
    /// True where the verdict is so.
    pub(super) has_passed: bool,
    /// False where no test was run, or the run had no end.
    pub(super) has_run: bool,
    /// True where the time limit of the run ended it.
    pub(super) timed_out: bool,
    /// Passed tests, unexpectedly passed ones included; absent where the runner does not count.
    pub(super) passed: Option<u64>,
    /// Failed tests and errors; absent where the runner does not count.
    pub(super) failed: Option<u64>,
    /// Tests that say nothing, because they were skipped, left out, or expected to fail.
    pub(super) set_aside: u64,
    /// True where pytest ran, which always counts what it ran.
    pub(super) is_pytest: bool,
    /// Names of failing tests, as far as they are named.
    pub(super) failing: BTreeSet<String>,
    /// The whole text of the skill's answer, or the host's own sentence where every test passed.
    pub(super) text: String,
    /// Places outside the user's own files whose text is in `text`.
    pub(super) foreign: Vec<String>,
}

impl Results {
    /// The origin of the text, for its label.
    pub(super) fn origin(&self) -> Origin {
        if self.foreign.is_empty() {
            Origin::Service
        } else {
            Origin::Outside(self.foreign.clone())
        }
    }
}

/// Runs all tests, or those at `paths`.
pub(super) async fn run(desk: &Desk<'_>, paths: &[String]) -> Run {
    // Nobody is asked on behalf of the host: what needs a yes is run when the model asks for it.
    if desk.job.policy.decide(Effect::RunProcess, false) != Decision::Allow {
        return Run::NotAllowed;
    }
    let is_late = desk.deadline.is_some_and(|deadline| deadline <= Instant::now());
    if desk.job.cancel.is_cancelled() || is_late {
        return Run::Stopped;
    }
    let mut arguments = json!({"timeout_seconds": limits::SUITE_SECONDS_MAX});
    if !paths.is_empty() {
        arguments["paths"] = Value::from(paths);
    }
    judge(desk.call(SKILL, arguments).await)
}

/// A run that said this, for the tests of those who judge runs.
#[cfg(test)]
pub(super) fn ran(text: &str) -> Run {
    Run::Ran(read(text.to_owned()))
}

fn judge(report: CallReport) -> Run {
    match report.result {
        Ok(outcome) => Run::Ran(Results {
            foreign: report.foreign,
            ..read(outcome.text)
        }),
        Err(CallError::Cancelled { .. }) => Run::Stopped,
        Err(error) if error.is_a_users_no() => Run::Refused,
        Err(error @ CallError::Busy { .. }) => Run::Busy(error.to_string()),
        Err(CallError::Failure {
            kind: ErrorKind::NotFound,
            ..
        }) => Run::None,
        Err(CallError::Failure {
            kind: ErrorKind::Denied,
            ..
        }) => Run::NotAllowed,
        Err(error) => Run::Impossible {
            kind: error.kind().clone(),
            message: error.to_string(),
            hint: hint_of(&error),
        },
    }
}

/// Reads what the skill said.
fn read(text: String) -> Results {
    let verdict = text.lines().next().unwrap_or_default().to_owned();
    let (word, rest) = verdict.split_once(": ").unwrap_or((verdict.as_str(), ""));
    let timed_out = rest.starts_with("timed out");
    let count = |words: &[&str]| {
        let counts: Vec<u64> = counted(rest)
            .filter(|(_, word)| words.contains(word))
            .map(|(count, _)| count)
            .collect();
        counts.into_iter().sum::<u64>()
    };
    let counts = counted(rest).next().is_some();
    Results {
        has_passed: word == "PASSED",
        has_run: !timed_out && !rest.starts_with("no tests ran"),
        timed_out,
        passed: counts.then(|| count(&["passed", "xpassed"])),
        failed: counts.then(|| count(&["failed", "error", "errors"])),
        set_aside: count(&["skipped", "todo", "xfailed", "deselected"]),
        is_pytest: text
            .lines()
            .any(|line| line.starts_with("command: ") && line.contains("pytest")),
        failing: failing(&text),
        verdict,
        text,
        foreign: Vec::new(),
    }
}

/// The pairs of `2 failed, 5 passed in 0.3 s`.
fn counted(words: &str) -> impl Iterator<Item = (u64, &str)> {
    let words = words.rsplit_once(" in ").map_or(words, |(words, _)| words);
    let words = words.rsplit("so far ").next().unwrap_or(words);
    words.split(", ").filter_map(|part| {
        let (count, word) = part.split_once(' ')?;
        Some((count.parse().ok()?, word))
    })
}

/// `3. tests/test_a.py::test_b`, and after `also failed:` the lines `  tests/test_c.py::test_d - message`.
fn failing(text: &str) -> BTreeSet<String> {
    let numbered = |line: &str| {
        let (number, name) = line.split_once(". ")?;
        number.parse::<u32>().ok()?;
        Some(name.to_owned())
    };
    let mut names: BTreeSet<String> = text.lines().filter_map(numbered).collect();
    let also = text.lines().skip_while(|line| *line != "also failed:").skip(1);
    for line in also.take_while(|line| line.starts_with("  ")) {
        let name = line.split_once(" - ").map_or(line, |(name, _)| name).trim();
        if !name.starts_with('…') {
            names.insert(name.to_owned());
        }
    }
    names
}

/// In which way the tests are worse than they were; nothing where they are not, or where nobody knows. Tests that say
/// less than before are worse, too: a change could otherwise pass by switching them off.
pub(super) fn worse(before: &Run, after: &Run) -> Option<String> {
    let Run::Ran(before) = before else { return None };
    if !before.has_run {
        return None;
    }
    let after = match after {
        Run::Ran(after) if after.has_run => after,
        Run::Ran(after) => return Some(format!("the tests do not run any more ({})", after.verdict)),
        Run::Impossible { message, .. } => return Some(format!("the tests do not run any more ({message})")),
        Run::None => return Some("the tests are not found any more".to_owned()),
        Run::NotAllowed | Run::Refused | Run::Stopped | Run::Busy(_) => return None,
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

fn said_less(before: &Results, after: &Results) -> Option<String> {
    let passed_before = before.passed?;
    let Some(passed) = after.passed else {
        return Some(format!(
            "{} passed before, and now nobody says how many do",
            tests(passed_before)
        ));
    };
    let (aside_before, aside) = (before.set_aside, after.set_aside);
    if passed < passed_before {
        return Some(format!("{} passed before, and {passed} do now", tests(passed_before)));
    }
    (aside > aside_before).then(|| {
        let aside = tests(aside);
        format!("{aside} are skipped, left out or expected to fail now; {aside_before} before")
    })
}

fn tests(count: u64) -> String {
    match count {
        1 => "1 test".to_owned(),
        count => format!("{count} tests"),
    }
}

impl Run {
    /// The run in a line, as the end of `Tests before the change: `.
    pub(super) fn line(&self) -> String {
        match self {
            Self::NotAllowed => format!("not run, because `run-process` is not allowed here: {ALLOW_HINT}"),
            Self::Refused => "not run, because you did not agree to it".to_owned(),
            Self::None => NONE.to_owned(),
            Self::Stopped => "not run to their end: the session ended before".to_owned(),
            Self::Impossible { message, hint, .. } => match hint {
                Some(hint) => format!("not run: {message}; {hint}"),
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
    use crate::skill::Crowd;

    #[test]
    fn a_report_is_read_by_its_form() {
        let results = read(
            "FAILED: 2 failed, 1 error, 3 passed, 1 xfailed in 1.2 s\ncommand: python -m pytest\nexit status 1; \
             sandbox: none\n\n1. tests/test_a.py::test_b[x in y]\n   assert 1 == 2\n     9. no name\n\n2. tests/test_c.py\n\
             \nalso failed:\n  tests/test_d.py::test_e - boom - bang\n  … and 3 more\nDetails of these are left out.\n"
                .to_owned(),
        );
        assert_eq!((results.has_passed, results.has_run), (false, true));
        assert_eq!((results.passed, results.failed), (Some(3), Some(3)));
        assert_eq!((results.set_aside, results.is_pytest), (1, true));
        let failing: Vec<_> = results.failing.iter().map(String::as_str).collect();
        assert_eq!(
            failing,
            [
                "tests/test_a.py::test_b[x in y]",
                "tests/test_c.py",
                "tests/test_d.py::test_e"
            ]
        );
    }

    #[test]
    fn what_did_not_run_is_told_apart_from_what_does_not_count() {
        for (text, has_run, passed) in [
            ("PASSED: 7 passed in 0.3 s\n", true, Some(7)),
            ("PASSED: exit status 0 in 0.1 s\n", true, None),
            ("FAILED: no tests ran in 0.1 s\n", false, None),
            ("FAILED: no tests ran, 3 deselected in 0.1 s\n", false, Some(0)),
            ("FAILED: timed out; so far 2 passed in 300 s\n", false, Some(2)),
            (
                "FAILED: 4 passed in 0.2 s (exit status 1, although no test failed)\n",
                true,
                Some(4),
            ),
        ] {
            let results = read(text.to_owned());
            assert_eq!((results.has_run, results.passed), (has_run, passed), "{text}");
        }
    }

    #[test]
    fn worse_is_what_failed_not_before() {
        let failing = |names: &[&str]| {
            let mut text = format!("FAILED: {} failed, 5 passed in 1.0 s\n", names.len());
            for (at, name) in names.iter().enumerate() {
                text.push_str(&format!("\n{}. {name}\n", at + 1));
            }
            ran(&text)
        };
        let passed = ran("PASSED: 5 passed in 1.0 s\n");
        let impossible = Run::Impossible {
            kind: ErrorKind::Unavailable,
            message: "No module named pytest".into(),
            hint: Some("install it".into()),
        };
        assert_eq!(impossible.line(), "not run: No module named pytest; install it");
        let say = |before: &Run, after: &Run| worse(before, after).unwrap_or_default();
        assert_eq!(say(&passed, &passed), "");
        assert_eq!(say(&failing(&["a", "b"]), &failing(&["b"])), "");
        assert_eq!(say(&passed, &failing(&["a"])), "`a` fails now and did not before");
        assert_eq!(
            say(&failing(&["a"]), &failing(&["b", "c"])),
            "`b` and 1 more fail now and did not before"
        );
        assert_eq!(
            say(&passed, &ran("FAILED: exit status 1 in 0.1 s\n")),
            "the run passed before and fails now"
        );
        assert_eq!(
            say(&passed, &ran("FAILED: no tests ran in 0.1 s\n")),
            "the tests do not run any more (FAILED: no tests ran in 0.1 s)"
        );
        assert_eq!(
            say(&passed, &impossible),
            "the tests do not run any more (No module named pytest)"
        );
        assert_eq!(say(&passed, &Run::Stopped), "", "that is no verdict");
        let crowds = [Crowd::Calls, Crowd::Runs];
        for (crowd, why) in crowds.into_iter().zip(["too many calls", "too many test runs"]) {
            let skill = SKILL.to_owned();
            let busy = judge(CallReport {
                result: Err(CallError::Busy { skill, crowd }),
                receipt: None,
                foreign: Vec::new(),
                passed_tests: None,
            });
            assert_eq!(say(&passed, &busy), "", "the tests were not run, and nobody knows");
            assert!(busy.line().starts_with("not run: The skill `run_tests` "), "{busy:?}");
            assert!(busy.line().contains(why), "{busy:?}");
        }
        assert_eq!(say(&Run::NotAllowed, &failing(&["a"])), "", "nobody knows");
    }

    #[test]
    fn worse_is_also_what_says_less_than_before() {
        let before = ran("PASSED: 5 passed, 1 skipped in 1.0 s\n");
        let say = |after: &str| worse(&before, &ran(after)).unwrap_or_default();
        assert_eq!(
            say("PASSED: 3 passed, 1 skipped in 1.0 s\n"),
            "5 tests passed before, and 3 do now"
        );
        assert_eq!(
            say("PASSED: 5 passed, 1 skipped, 2 xfailed in 1.0 s\n"),
            "3 tests are skipped, left out or expected to fail now; 1 before"
        );
        assert_eq!(
            say("PASSED: exit status 0 in 1.0 s\n"),
            "5 tests passed before, and now nobody says how many do"
        );
        assert_eq!(say("PASSED: 6 passed in 1.0 s\n"), "");
        let uncounted = ran("PASSED: exit status 0 in 1.0 s\n");
        assert_eq!(worse(&uncounted, &uncounted), None, "nobody ever said");
    }
}
