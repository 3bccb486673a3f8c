//! How an operation ended, truthfully: a run that could not do what the operation is for has failed, and says which
//! bound or refusal was in the way, what is missing, and what allows more.
//!
//! Pure but for the question which files the session has changed.

use super::tools::Denial;
use super::{Job, OperationTask, Outcome};
use crate::api::{Operation, Problem};
use crate::limits;
use crate::provider::{ProviderError, Usage};
use crate::session::journal::cut_text;
use crate::turn::{Budget, TurnEnd, TurnReport};

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
        Ok(TurnEnd::Refused) => Some(refused(task.operation)),
        Ok(TurnEnd::Exhausted(budget)) => Some(exhausted(task, report, *budget)),
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

fn refused(operation: Operation) -> Problem {
    Problem::new(
        "model-refused",
        format!("{operation} is incomplete: the model declined to answer, or to go on"),
    )
    .with_hint("put the request in other words, or ask another model: `--model MODEL`")
}

/// The session's time was up before there was a turn.
pub(super) fn out_of_time(task: &OperationTask, missing: &str) -> Problem {
    let seconds = task.budget.timeout_seconds.unwrap_or_default();
    incomplete(
        task,
        &format!("its time of {seconds} s (--timeout) is up; {missing}"),
        format!("give it more time: `--timeout {}`", seconds.saturating_mul(2).max(1)),
    )
}

/// Names the bound, its value, and what is missing for it.
fn exhausted(task: &OperationTask, report: &TurnReport, budget: Budget) -> Problem {
    let calls = list(&report.undone);
    let open = match report.undone.is_empty() {
        true => "the model had not finished its answer".to_owned(),
        false => format!("not done: {calls}"),
    };
    match budget {
        Budget::Steps => {
            let steps = task.budget.max_steps.unwrap_or(limits::TURN_STEPS_MAX);
            let hint = format!(
                "allow more requests: `--max-steps {}`, or ask for less",
                steps.saturating_mul(2)
            );
            incomplete(
                task,
                &format!("its bound of {} (--max-steps) is reached; {open}", requests(steps)),
                hint,
            )
        }
        Budget::Tokens { needed } => {
            let max = task.budget.max_tokens.unwrap_or_default();
            let used = report.usage.input_tokens.saturating_add(report.usage.output_tokens);
            let missing = match needed {
                0 => open,
                needed => format!("the next request would need about {needed} more"),
            };
            let enough = used.saturating_add(needed).max(max).saturating_mul(2);
            let hint = format!("allow more tokens: `--max-tokens {enough}`, or ask for less");
            let bound = format!("its bound of {max} tokens (--max-tokens) is reached: {used} are used; {missing}");
            incomplete(task, &bound, hint)
        }
        Budget::Time => out_of_time(task, &open),
        Budget::Output => {
            let what = match report.undone.is_empty() {
                true => "its answer; the rest of it is missing".to_owned(),
                false => format!("a call of {calls} again and again; it was not run"),
            };
            let hint = "ask for less at once, or choose a model that may write more: `--model MODEL`";
            incomplete(
                task,
                &format!("the model's output limit cut off {what}"),
                hint.to_owned(),
            )
        }
        Budget::Repetition => {
            let times = limits::TOOL_CALL_REPEATS_MAX;
            let what = format!("the model made the same call of {calls} {times} times with the same result");
            let hint = "run it again, put the request in other words, or choose another model: `--model MODEL`";
            incomplete(
                task,
                &format!("{what}; what it was looking for is missing"),
                hint.to_owned(),
            )
        }
    }
}

fn incomplete(task: &OperationTask, why: &str, hint: String) -> Problem {
    Problem::new("budget-exhausted", format!("{} is incomplete: {why}", task.operation)).with_hint(hint)
}

fn requests(count: u32) -> String {
    match count {
        1 => "1 request".to_owned(),
        count => format!("{count} requests"),
    }
}

fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .map(|name| format!("`{}`", cut_text(name, limits::SUMMARY_BYTES_MAX)))
        .collect();
    quoted.join(", ")
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
    // A write that was refused first and made later, or made elsewhere, was not missed. Tests may stand in any file: a
    // model that wanted to extend an existing one, and was sent to a new one, has done what it was for.
    let missed = denials.iter().find(|denial| match &denial.path {
        Some(path) if operation == Operation::Refactor => denial.writes && !modified.contains(path),
        _ => denial.writes && modified.is_empty(),
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
        let existing = denial(Some("tests/test_a.py"), true);
        assert_eq!(undone(Operation::TestGen, &[existing], false, &modified), None);
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
