//! The end of an explanation: its citations are looked up.

use super::{Closing, DraftAnswer, Next, OperationRun, OperationSteps, Step};

/// The steps of `explain`, which keep nothing from turn to turn.
pub(super) struct Explain;

impl OperationSteps for Explain {
    fn after<'a>(&'a mut self, op: &'a OperationRun<'_>, answer: &'a DraftAnswer<'_>) -> Step<'a, Next> {
        Box::pin(async move {
            let checked = op.check_citations(answer.text).await;
            let line = checked.map_or_else(|why| why, |checked| answer.remark(&checked, op.task.is_analyst()));
            Next::End(Closing::saying(line))
        })
    }
}
