//! How an operation ended, truthfully: a run that could not do what the operation is for has failed.
//!
//! Pure but for the question which files the session has changed.

use super::tools::Denial;
use super::{Job, OperationTask, Outcome};
use crate::api::{Operation, Problem};
use crate::provider::{ProviderError, Usage};
use crate::turn::{TurnEnd, TurnReport};

/// Judges the last turn of an operation, its refusals, and what its review had to say, in this order.
pub(super) fn judge(
    job: &Job,
    task: &OperationTask,
    report: &TurnReport,
    denials: &[Denial],
    found: Option<Problem>,
) -> Outcome {
    let problem = match &report.end {
        Ok(TurnEnd::Complete) => {
            let modified = job.recorder.summary().files_modified();
            undone(task.operation, denials, job.approver.has_expired(), &modified).or(found)
        }
        Ok(TurnEnd::Refused) => Some(Problem::new("model-refused", "The model declined to answer")),
        Ok(TurnEnd::Exhausted(budget)) => Some(Problem::new(
            "budget-exhausted",
            format!("The answer is partial: {budget}"),
        )),
        Err(ProviderError::Failed(problem)) => Some(problem.clone()),
        Err(ProviderError::Cancelled) => {
            return Outcome {
                usage: used(report),
                ..Outcome::cancelled()
            };
        }
    };
    let outcome = problem.map_or_else(Outcome::complete, Outcome::failed);
    Outcome {
        usage: used(report),
        ..outcome
    }
}

/// The session's time was up before `missing`.
pub(super) fn out_of_time(task: &OperationTask, missing: &str) -> Problem {
    let seconds = task.budget.timeout_seconds.unwrap_or_default();
    Problem::new(
        "budget-exhausted",
        format!(
            "{} is incomplete: its time of {seconds} s (--timeout) is up; {missing}",
            task.operation
        ),
    )
    .with_hint("give it more time: `--timeout SECONDS`")
}

fn used(report: &TurnReport) -> Option<Usage> {
    (report.usage != Usage::default()).then_some(report.usage)
}

/// What an operation that changes files was refused of what it is for; nothing where it could do its work.
fn undone(operation: Operation, denials: &[Denial], expired: bool, modified: &[String]) -> Option<Problem> {
    if !matches!(operation, Operation::Refactor | Operation::TestGen) {
        return None;
    }
    if expired {
        return Some(
            Problem::new(
                "approval-expired",
                format!("{operation} is incomplete: an approval was not answered in time"),
            )
            .with_hint("answer it next time, or allow its effect with --allow EFFECT"),
        );
    }
    // A write that was refused first and made later, or made elsewhere, was not missed.
    let missed = denials.iter().find(|denial| match &denial.path {
        Some(path) => denial.writes && !modified.contains(path),
        None => denial.writes && modified.is_empty(),
    })?;
    let about = missed
        .path
        .as_ref()
        .map(|path| format!(" of `{path}`"))
        .unwrap_or_default();
    let problem = Problem::new(
        "denied",
        format!(
            "{operation} is incomplete: a change{about} was refused: {}",
            missed.message
        ),
    );
    Some(match &missed.hint {
        Some(hint) => problem.with_hint(hint.clone()),
        None => problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(path: Option<&str>, writes: bool) -> Denial {
        Denial {
            skill: "write_file".into(),
            path: path.map(str::to_owned),
            message: "it is protected".into(),
            hint: Some("--allow-path".into()),
            writes,
        }
    }

    #[test]
    fn a_refactor_whose_write_was_refused_has_failed() {
        let refused = [denial(Some(".github/ci.yml"), true)];
        let problem = undone(Operation::Refactor, &refused, false, &["a.py".into()]).expect("it is incomplete");
        assert_eq!(
            problem.message,
            "refactor is incomplete: a change of `.github/ci.yml` was refused: it is protected"
        );
        assert_eq!(problem.hint.as_deref(), Some("--allow-path"));
    }

    #[test]
    fn what_was_made_up_for_was_not_missed() {
        let modified = ["a.py".to_owned()];
        assert_eq!(
            undone(Operation::Refactor, &[denial(Some("a.py"), true)], false, &modified),
            None
        );
        assert_eq!(
            undone(Operation::TestGen, &[denial(None, true)], false, &modified),
            None
        );
        assert!(undone(Operation::TestGen, &[denial(None, true)], false, &[]).is_some());
        assert_eq!(undone(Operation::TestGen, &[denial(None, false)], false, &[]), None);
    }

    #[test]
    fn an_explain_whose_model_tried_to_write_still_succeeded() {
        assert_eq!(undone(Operation::Explain, &[denial(Some("a"), true)], true, &[]), None);
    }

    #[test]
    fn an_approval_that_nobody_answered_fails_the_run() {
        let problem = undone(Operation::Refactor, &[], true, &["a.py".into()]).expect("it is incomplete");
        assert_eq!(problem.code, "approval-expired");
    }
}
