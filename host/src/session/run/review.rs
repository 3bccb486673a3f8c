//! What surrounds the turn of each operation: work before it, the check of the answer after it, and what follows.
//!
//! The seam between the one way in which sessions run and the four things that they are for. `before` runs once, when
//! the context is built and nobody has asked the model yet; what it gives goes to the model below the packet. `after`
//! runs when a turn has ended, however it ended, and decides: the session ends, with words of the host and perhaps a
//! problem, or the model is asked once more, with the whole conversation, within what is left of the budget.

use serde_json::Value;
use tokio::time::Instant;

use super::tools::SessionTools;
use super::{Job, OperationTask};
use crate::api::{Operation, Problem};
use crate::operation::Target;
use crate::skill::CallReport;
use crate::turn::TurnReport;

/// The operation's own part of a session, with what it must remember from before the turn.
pub(super) enum Review {
    Explain,
    Architect,
    Refactor,
    TestGen,
}

/// What a review may look at and use.
pub(super) struct Desk<'a> {
    pub(super) job: &'a Job,
    pub(super) task: &'a OperationTask,
    pub(super) target: &'a Target,
    pub(super) tools: &'a SessionTools<'a>,
    /// The end of the session's time.
    pub(super) deadline: Option<Instant>,
}

/// What the model has answered so far.
pub(super) struct Answer<'a> {
    /// The last turn: how it ended, and its own text.
    pub(super) turn: &'a TurnReport,
    /// All answer text of the session, earlier turns included, without the host's words.
    pub(super) text: &'a str,
    /// False where the model cannot be asked again: it did not end properly, or the budget is spent.
    pub(super) may_ask: bool,
}

/// What follows a turn.
pub(super) enum Next {
    /// The session ends.
    End(Closing),
    /// The model is asked once more. Only where the answer says `may_ask`.
    Ask(FollowUp),
}

/// The end of a session, as its review sees it.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Words of the host below the answer; may be empty.
    pub(super) text: String,
    /// What is wrong or missing; fails the session. How the turn ended and what was denied counts first.
    pub(super) problem: Option<Problem>,
}

/// One more question to the model.
pub(super) struct FollowUp {
    /// Words of the host above what the model will say; may be empty.
    pub(super) heading: String,
    /// What the model is told.
    pub(super) message: String,
}

impl Review {
    pub(super) fn new(operation: Operation) -> Self {
        match operation {
            Operation::Explain => Self::Explain,
            Operation::Architect => Self::Architect,
            Operation::Refactor => Self::Refactor,
            Operation::TestGen => Self::TestGen,
        }
    }

    /// Work before the model is asked. What it gives is appended to the first message; it may be empty.
    pub(super) async fn before(&mut self, _desk: &Desk<'_>) -> Result<String, Problem> {
        match self {
            Self::Explain | Self::Architect | Self::Refactor | Self::TestGen => Ok(String::new()),
        }
    }

    /// Looks at the answer after each turn.
    pub(super) async fn after(&mut self, _desk: &Desk<'_>, _answer: &Answer<'_>) -> Next {
        match self {
            Self::Explain | Self::Architect | Self::Refactor | Self::TestGen => Next::End(Closing::default()),
        }
    }
}

impl Desk<'_> {
    /// Adds words of the host to the answer, below a line `---`, so that they never pass for the model's.
    pub(super) fn say(&self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let before = match self.job.recorder.output() {
            output if output.trim().is_empty() => "",
            output if output.ends_with("\n\n") => "",
            output if output.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        self.job.recorder.text(&format!("{before}---\n\n{text}\n"));
    }

    /// Calls a skill for the host itself: under the same policy and on the same record as a call of the model's.
    /// Ends with the session's time.
    pub(super) async fn call(&self, skill: &str, arguments: Value) -> CallReport {
        self.tools.call_for_host(skill, arguments, self.deadline).await
    }
}
