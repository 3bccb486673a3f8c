//! The refactor's own part of a session: the tests before the model works and after, and the closing words with the
//! diff and both results.

use super::changed::Changed;
use super::review::{Answer, Closing, Desk, Next};
use super::suite::{self, Run};
use crate::api::Problem;
use crate::limits;
use crate::provider::ToolResult;
use crate::skill::policy::{Decision, Effect};
use crate::turn::TurnEnd;

/// What is remembered from before the turn.
#[derive(Debug, Default)]
pub(super) struct Refactor {
    before: Option<Run>,
}

impl Refactor {
    /// Runs the tests as the repository is. Gives what the model is told of it.
    pub(super) async fn before(&mut self, desk: &Desk<'_>) -> String {
        let can_ask = crate::skill::Approver::can_ask(&*desk.job.approver);
        if desk.job.policy.decide(Effect::WriteRepository, can_ask) == Decision::Deny {
            return String::new();
        }
        let run = suite::run(desk, &[]).await;
        let facts = told(&run);
        self.before = Some(run);
        facts
    }

    /// Runs the tests again where anything was changed, and compares.
    pub(super) async fn after(&self, desk: &Desk<'_>, answer: &Answer<'_>) -> Next {
        let changed = Changed::of(desk).await;
        if changed.is_empty() {
            return Next::End(Closing::saying(self.unchanged(answer)));
        }
        let mut text = format!("{}\n\n{}", changed.summary("Changed"), changed.diff());
        let Some(before) = &self.before else {
            return Next::End(Closing::saying(text));
        };
        let after = match before {
            Run::Ran(results) if results.timed_out => Run::Stopped,
            _ => suite::run(desk, &[]).await,
        };
        let worse = suite::worse(before, &after);
        text.push('\n');
        text.push_str(&compared(before, &after, worse.as_deref()));
        let problem = worse.map(|worse| {
            Problem::new("tests-worse", format!("refactor made the tests worse: {worse}"))
                .with_hint(changed.undo_hint())
        });
        Next::End(Closing { text, problem })
    }

    /// What is said where nothing was changed. A turn that broke off has its own words for it.
    fn unchanged(&self, answer: &Answer<'_>) -> String {
        match (&answer.turn.end, &self.before) {
            (Err(_) | Ok(TurnEnd::Refused), _) => String::new(),
            (Ok(_), Some(Run::Ran(before))) => {
                format!("Nothing was changed.\n\n- Tests as they are: {}", before.verdict)
            }
            (Ok(_), _) => "Nothing was changed.".to_owned(),
        }
    }
}

/// What the model is told of the run before it works.
fn told(run: &Run) -> String {
    let Run::Ran(results) = run else {
        return String::new();
    };
    let text = crate::session::journal::cut_text(&results.text, limits::SUITE_TOLD_BYTES_MAX);
    let result = ToolResult {
        call_id: String::new(),
        name: suite::SKILL.to_owned(),
        text,
        is_error: false,
    };
    format!(
        "\n# Tests before any change\n\nThe service has run the tests as the repository is now, and will run them again \
         after your answer:\n\n{}\n",
        result.labelled()
    )
}

/// Both runs, line by line.
fn compared(before: &Run, after: &Run, worse: Option<&str>) -> String {
    if before == after && !matches!(before, Run::Ran(_)) {
        return format!("- Tests: {}\n", before.line());
    }
    let after_line = match before {
        Run::Ran(before) if before.timed_out => {
            format!(
                "not run again, because they take more than {} s",
                limits::SUITE_SECONDS_MAX
            )
        }
        _ => after.line(),
    };
    let mut text = format!(
        "- Tests before the change: {}\n- Tests after the change: {after_line}\n",
        before.line()
    );
    match (worse, before, after) {
        (Some(worse), ..) => text.push_str(&format!("- The tests got worse: {worse}\n")),
        (None, Run::Ran(before), Run::Ran(after)) => {
            let (passed_before, passed) = (before.passed.unwrap_or(0), after.passed.unwrap_or(0));
            if passed < passed_before {
                text.push_str(&format!("- {} fewer tests pass than before\n", passed_before - passed));
            }
        }
        _ => {}
    }
    text
}
