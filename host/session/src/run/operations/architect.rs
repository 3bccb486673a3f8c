//! Checks an architect's answer: each proposal must name an existing place, or the model is asked to correct it once.
//!
//! `operation` defines proposals and places. The correction is streamed below a heading of the host, so that no shown
//! text is taken back.

use super::{Closing, DraftAnswer, FollowUp, Next, OperationRun, OperationSteps, Step};
use crate::run::judge::other_model;
use tool_context::operation::correction_message;
use tool_context::operation::proposals::Proposals;

/// State of the check.
#[derive(Default)]
pub(super) struct Architect {
    proposals: Proposals,
    was_asked: bool,
}

impl OperationSteps for Architect {
    fn after<'a>(&'a mut self, op: &'a OperationRun<'_>, answer: &'a DraftAnswer<'_>) -> Step<'a, Next> {
        Box::pin(self.check_proposals(op, answer))
    }
}

impl Architect {
    /// Checks the answer, or its correction.
    async fn check_proposals(&mut self, op: &OperationRun<'_>, answer: &DraftAnswer<'_>) -> Next {
        let checked = match op.check_citations(answer.text).await {
            Ok(checked) => checked,
            Err(why) => return Next::End(Closing::saying(why)),
        };
        let latest = answer.latest..answer.text.len();
        if self.was_asked {
            self.proposals.correct(answer.text, latest, &checked)
        } else {
            self.proposals.take_in(answer.text, latest, &checked)
        }
        let unplaced = self.proposals.unplaced();
        let is_elsewhere = self.proposals.is_empty() && checked.places() > 0;
        let is_fine = unplaced.is_empty() && (is_elsewhere || !self.proposals.is_empty());
        if !is_fine && answer.may_ask && !self.was_asked {
            self.was_asked = true;
            return Next::Ask(FollowUp {
                heading: "## Addendum".to_owned(),
                message: correction_message(&unplaced),
            });
        }
        // The analyst proposes only what it has counted, and says itself if it has found nothing.
        if op.task.is_analyst() && self.proposals.is_empty() {
            return Next::End(Closing::saying(answer.remark(&checked, true)));
        }
        if !self.proposals.has_placed() && !is_elsewhere {
            let withdrawn = !self.proposals.is_empty() && unplaced.is_empty();
            let why = if withdrawn {
                "No proposal is left: the model withdrew each of them."
            } else {
                "No proposal of this answer names a place that exists in the repository."
            };
            let model = other_model(op.task.request.is_of_program);
            let hint = format!(
                "take it as general advice, name a folder or a file in the task, or choose another model: {model}"
            );
            op.job.recorder.notice(why, Some(hint));
        }
        let lines = [answer.remark(&checked, op.task.is_analyst()), self.proposals.line()];
        Next::End(Closing::saying(lines.join(" ").trim().to_owned()))
    }
}
