//! Judges the end of an operation. An operation that could not do its work has failed; the problem names the limit or
//! refusal, what is missing, and how to allow more.
//!
//! The functions are pure, apart from reading which files the session has changed.

use std::fmt::Display;

use super::missed_work::{CutOff, DeniedCall, MissedWork, RefusedPurpose};
use super::{SessionOutcome, SessionRun};
use crate::limits;
use crate::plan::OperationTask;
use tool_core::api::{Dollars, ErrorKind, Operation, Problem};
use tool_core::text::quote_name;
use tool_journal::journal::cut_text;
use tool_provider::turn::{Budget, TurnEnd, TurnReport};
use tool_provider::{ProviderError, Usage};

/// A limit of a session, by its flag and by its field in a request.
struct BoundName {
    flag: &'static str,
    field: &'static str,
}

const STEPS: BoundName = BoundName {
    flag: "--max-steps",
    field: "max_steps",
};
const TOKENS: BoundName = BoundName {
    flag: "--max-tokens",
    field: "max_tokens",
};
const COST: BoundName = BoundName {
    flag: "--max-cost",
    field: "max_cost",
};
const TIME: BoundName = BoundName {
    flag: "--timeout",
    field: "timeout_seconds",
};

impl BoundName {
    /// Name of the limit for the client of a session.
    fn name(&self, is_of_program: bool) -> &'static str {
        if is_of_program { self.field } else { self.flag }
    }

    /// How the client of a session sets the limit.
    fn set_to(&self, value: impl Display, is_of_program: bool) -> String {
        if is_of_program {
            format!("`\"budget\": {{\"{}\":{value}}}` in the request", self.field)
        } else {
            format!("`{} {value}`", self.flag)
        }
    }
}

/// How the client of a session chooses another model.
pub(super) fn other_model(is_of_program: bool) -> &'static str {
    if is_of_program {
        "`\"model\": \"MODEL\"` in the request"
    } else {
        "`--model MODEL`"
    }
}

/// Hint after a mistake of the model.
pub(super) fn retry_hint(is_of_program: bool) -> String {
    let model = other_model(is_of_program);
    format!("run it again, put the request in other words, or choose another model: {model}")
}

/// Hint after the model's output was cut off.
fn shorten_hint(is_of_program: bool) -> String {
    let model = other_model(is_of_program);
    format!("ask for less at once, or choose a model that may write more: {model}")
}

/// Judges the last turn of an operation, its refusals, and the result of its steps, in this order.
pub(super) fn judge_turn(
    job: &SessionRun,
    task: &OperationTask,
    report: &TurnReport,
    missed: &MissedWork,
    found: Option<Problem>,
) -> SessionOutcome {
    let problem = match &report.end {
        // The model's answer was complete, but the host's work after it was cancelled.
        Ok(TurnEnd::Complete) if job.cancel.is_cancelled() => return cancelled_outcome(report),
        Ok(TurnEnd::Complete) => {
            let summary = job.recorder.summary();
            let session = ChangingSession {
                operation: task.request.operation,
                has_expired: job.approver.has_expired(),
                is_preview: summary.start.preview,
                is_of_program: task.request.is_of_program,
                changed: &summary.files_changed(),
            };
            session.undone(missed, found)
        }
        Ok(TurnEnd::Refused) => Some(refusal_problem(task)),
        Ok(TurnEnd::Exhausted(budget)) => Some(budget_problem(task, report, *budget)),
        Err(ProviderError::Failed(problem)) => Some(problem.clone()),
        Err(ProviderError::Cancelled) => return cancelled_outcome(report),
    };
    let outcome = problem.map_or_else(SessionOutcome::complete, SessionOutcome::failed);
    SessionOutcome {
        usage: reported_usage(report),
        ..outcome
    }
}

fn cancelled_outcome(report: &TurnReport) -> SessionOutcome {
    SessionOutcome {
        usage: reported_usage(report),
        ..SessionOutcome::cancelled()
    }
}

fn refusal_problem(task: &OperationTask) -> Problem {
    Problem::new(
        ErrorKind::ModelRefused,
        format!(
            "{} is incomplete: the model declined to answer, or to go on",
            name_subject(task)
        ),
    )
    .with_hint(format!(
        "put the request in other words, or ask another model: {}",
        other_model(task.request.is_of_program)
    ))
}

/// The problem of a session whose time was up before its first turn.
pub(super) fn out_of_time(task: &OperationTask, missing: &str) -> Problem {
    let seconds = task.request.budget.timeout_seconds.unwrap_or_default();
    let name = TIME.name(task.request.is_of_program);
    let more = TIME.set_to(seconds.saturating_mul(2).max(1), task.request.is_of_program);
    incomplete_problem(
        task,
        &format!("its time of {seconds} s ({name}) is up; {missing}"),
        format!("give it more time: {more}"),
    )
}

/// Names the limit, its value, and what is missing.
pub(super) fn budget_problem(task: &OperationTask, report: &TurnReport, budget: Budget) -> Problem {
    let calls = quote_calls(&report.undone);
    let is_of_program = task.request.is_of_program;
    let open = if report.undone.is_empty() {
        "the model had not finished its answer".to_owned()
    } else {
        format!("not done: {calls}")
    };
    match budget {
        Budget::Steps => {
            let steps = task.request.budget.max_steps.unwrap_or(limits::TURN_STEPS_MAX);
            let more = STEPS.set_to(steps.saturating_mul(2), is_of_program);
            let (count, name) = (format_request_count(steps), STEPS.name(is_of_program));
            incomplete_problem(
                task,
                &format!("its bound of {count} ({name}) is reached; {open}"),
                format!("allow more requests: {more}, or ask for less"),
            )
        }
        Budget::Tokens { needed } => {
            let max = task.request.budget.max_tokens.unwrap_or_default();
            let used = report.usage.input_tokens.saturating_add(report.usage.output_tokens);
            let missing = match needed {
                0 => open,
                needed => format!("the next request would need about {needed} more"),
            };
            let enough = used.saturating_add(needed).max(max).saturating_mul(2);
            let (name, more) = (TOKENS.name(is_of_program), TOKENS.set_to(enough, is_of_program));
            let hint = format!("allow more tokens: {more}, or ask for less");
            let bound = format!("its bound of {max} tokens ({name}) is reached: {used} are used; {missing}");
            incomplete_problem(task, &bound, hint)
        }
        Budget::Cost { needed } => {
            let max = task.request.budget.max_cost.unwrap_or_default();
            let spent = report.usage.cost().unwrap_or_default();
            let missing = match needed.nanos() {
                0 => open,
                _ => format!("the next request could cost {needed}"),
            };
            let enough = spent.nanos().saturating_add(needed.nanos()).max(max.nanos());
            let enough = f64::from(Dollars::from_nanos(enough.saturating_mul(2)));
            let more = COST.set_to((enough * 100.0).ceil() / 100.0, is_of_program);
            let name = COST.name(is_of_program);
            let hint = format!("allow a higher cost: {more}, or ask for less");
            let bound = format!("its bound of {max} ({name}) is reached: {spent} are spent; {missing}");
            incomplete_problem(task, &bound, hint)
        }
        Budget::Time => out_of_time(task, &open),
        Budget::Output => {
            let what = if report.undone.is_empty() {
                "its answer; the rest of it is missing".to_owned()
            } else {
                format!("a call of {calls} again and again; it was not run")
            };
            incomplete_problem(
                task,
                &format!("the model's output limit cut off {what}"),
                shorten_hint(is_of_program),
            )
        }
        Budget::Repetition => {
            let times = limits::TOOL_CALL_REPEATS_MAX;
            let what = format!("the model made the same call of {calls} {times} times with the same result");
            incomplete_problem(
                task,
                &format!("{what}; what it was looking for is missing"),
                retry_hint(is_of_program),
            )
        }
    }
}

fn incomplete_problem(task: &OperationTask, why: &str, hint: String) -> Problem {
    let message = format!("{} is incomplete: {why}", name_subject(task));
    Problem::new(ErrorKind::BudgetExhausted, message).with_hint(hint)
}

/// Names what is incomplete. Users of `tool ask` need not know which operation answers their question.
fn name_subject(task: &OperationTask) -> &'static str {
    let has_question = task.request.task.as_deref().is_some_and(|text| !text.trim().is_empty());
    match task.request.operation {
        Operation::Explain if has_question => "the answer to the question",
        operation => operation.name(),
    }
}

fn format_request_count(count: u32) -> String {
    match count {
        1 => "1 request".to_owned(),
        count => format!("{count} requests"),
    }
}

fn quote_calls(names: &[String]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .map(|name| quote_name(&cut_text(name, limits::SUMMARY_BYTES_MAX)))
        .collect();
    quoted.join(", ")
}

fn reported_usage(report: &TurnReport) -> Option<Usage> {
    (report.usage != Usage::default()).then_some(report.usage)
}

/// Facts about a session that decide whether its changes are complete.
struct ChangingSession<'a> {
    operation: Operation,
    /// True if an approval was not answered in time.
    has_expired: bool,
    /// True for a private layer: effects outside of it are refused, and left to the user.
    is_preview: bool,
    /// True if hints name fields of requests instead of flags.
    is_of_program: bool,
    /// Paths of the changed files.
    changed: &'a [String],
}

impl ChangingSession<'_> {
    /// Returns the most important failure of an operation that changes files: a missing change, then a finding of its
    /// steps, then another refusal. `None` if everything was done in the end.
    fn undone(&self, missed: &MissedWork, found: Option<Problem>) -> Option<Problem> {
        let operation = self.operation;
        if !matches!(operation, Operation::Refactor | Operation::TestGen) {
            return found;
        }
        if self.has_expired {
            return Some(
                Problem::new(
                    ErrorKind::ApprovalExpired,
                    format!("{operation} is incomplete: an approval was not answered in time"),
                )
                .with_hint("answer it next time, or allow its effect beforehand"),
            );
        }
        // Tests may be in any file. A model that was refused to extend a file and wrote a new one has done its work.
        let is_elsewhere = operation == Operation::TestGen && !self.changed.is_empty();
        let change = |denial: &DeniedCall| {
            denial_problem(
                operation,
                &format!("a change{}", path_suffix(denial.path.as_ref())),
                denial,
            )
        };
        let mut writes = missed.open(RefusedPurpose::Writes).filter(|denial| !denial.is_mistake);
        let write = writes.next().filter(|_| !is_elsewhere).map(change);
        // After a mistake, the model may have made the change in another way. If no file changed, it has not.
        let mistake = || {
            let mistakes = missed.open(RefusedPurpose::Writes).filter(|denial| denial.is_mistake);
            mistakes.last().filter(|_| self.changed.is_empty()).map(change)
        };
        let cut_off = || missed.cut_offs.first().map(|cut_off| self.lost(cut_off));
        let act = || {
            // A user who refuses has decided, and the operation is complete all the same.
            let mut acts = missed.open(RefusedPurpose::Acts);
            let denial = acts.find(|denial| !denial.by_user && !self.is_preview)?;
            Some(denial_problem(operation, &format!("`{}`", denial.skill), denial))
        };
        write.or_else(cut_off).or_else(mistake).or(found).or_else(act)
    }

    fn lost(&self, cut_off: &CutOff) -> Problem {
        let message = format!(
            "{} is incomplete: a change{} was cut off and never made; a call of `{}` was not whole",
            self.operation,
            path_suffix(cut_off.path.as_ref()),
            cut_off.skill
        );
        Problem::new(ErrorKind::BudgetExhausted, message).with_hint(shorten_hint(self.is_of_program))
    }
}

fn path_suffix(path: Option<&String>) -> String {
    path.map(|path| format!(" of {}", quote_name(path))).unwrap_or_default()
}

fn denial_problem(operation: Operation, what: &str, denial: &DeniedCall) -> Problem {
    let message = format!("{operation} is incomplete: {}", denial.about(what));
    let kind = if denial.has_failed {
        ErrorKind::ChangeFailed
    } else {
        ErrorKind::Denied
    };
    let problem = Problem::new(kind, message);
    match &denial.hint {
        Some(hint) => problem.with_hint(hint.clone()),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_told_as_the_client_of_the_session_can_set_it() {
        assert_eq!((STEPS.name(false), STEPS.name(true)), ("--max-steps", "max_steps"));
        assert_eq!(COST.set_to(0.5, false), "`--max-cost 0.5`");
        assert_eq!(
            COST.set_to(0.5, true),
            "`\"budget\": {\"max_cost\":0.5}` in the request"
        );
        let fields = [&STEPS, &TOKENS, &COST, &TIME].map(|bound| format!("\"{}\":1", bound.field));
        let budget = format!("{{{}}}", fields.join(","));
        serde_json::from_str::<tool_core::api::BudgetRequest>(&budget).expect("each is a field of a budget");
        assert!(!other_model(true).contains("--"));
    }

    fn denial(skill: &str, path: Option<&str>, kind: RefusedPurpose) -> DeniedCall {
        DeniedCall {
            skill: skill.into(),
            path: path.map(str::to_owned),
            message: "it is protected".into(),
            hint: Some("--allow-path".into()),
            kind,
            has_failed: false,
            is_mistake: false,
            by_user: false,
            is_made_good: false,
        }
    }

    fn missed(denials: &[DeniedCall]) -> MissedWork {
        let mut missed = MissedWork::default();
        missed.denials.extend_from_slice(denials);
        missed
    }

    fn said(operation: Operation, missed: &MissedWork, modified: &[&str], found: Option<Problem>) -> String {
        let modified: Vec<String> = modified.iter().map(|&path| path.to_owned()).collect();
        let session = ChangingSession {
            operation,
            has_expired: false,
            is_preview: false,
            is_of_program: false,
            changed: &modified,
        };
        let problem = session.undone(missed, found);
        problem
            .map(|problem| {
                let hint = problem.hint.unwrap_or_default();
                format!("{}: {} ({hint})", problem.kind, problem.message)
            })
            .unwrap_or_default()
    }

    fn expired(operation: Operation, changed: &[String]) -> ChangingSession<'_> {
        ChangingSession {
            operation,
            has_expired: true,
            is_preview: false,
            is_of_program: false,
            changed,
        }
    }

    #[test]
    fn a_commit_that_a_preview_refuses_fails_no_preview() {
        let session = ChangingSession {
            operation: Operation::Refactor,
            has_expired: false,
            is_preview: true,
            is_of_program: false,
            changed: &["a.py".to_owned()],
        };
        let commit = missed(&[denial("git_commit", None, RefusedPurpose::Acts)]);
        assert_eq!(session.undone(&commit, None), None);
        let write = missed(&[denial("write_file", Some("b.py"), RefusedPurpose::Writes)]);
        assert!(session.undone(&write, None).is_some());
    }

    #[test]
    fn a_refactor_whose_write_was_refused_has_failed() {
        let refused = missed(&[denial("write_file", Some(".github/ci.yml"), RefusedPurpose::Writes)]);
        assert_eq!(
            said(Operation::Refactor, &refused, &["a.py"], None),
            "denied: refactor is incomplete: a change of `.github/ci.yml` was refused: it is protected (--allow-path)"
        );
    }

    #[test]
    fn a_refactor_whose_write_the_disk_did_not_take_has_failed() {
        let mut full = denial("write_file", Some("a.py"), RefusedPurpose::Writes);
        full.message = "No space left on device".into();
        full.hint = None;
        full.has_failed = true;
        assert_eq!(full.sentence(), "`write_file` failed: No space left on device");
        assert_eq!(
            said(Operation::Refactor, &missed(&[full]), &["b.py"], None),
            "change-failed: refactor is incomplete: a change of `a.py` failed: No space left on device ()"
        );
    }

    #[test]
    fn a_change_that_the_model_asked_for_wrongly_fails_a_session_that_changed_nothing_else() {
        let mut wrong = denial("write_file", Some("a.py"), RefusedPurpose::Writes);
        (wrong.has_failed, wrong.is_mistake, wrong.hint) = (true, true, None);
        let wrong = missed(&[wrong]);
        for operation in [Operation::Refactor, Operation::TestGen] {
            assert_eq!(
                said(operation, &wrong, &[], None),
                format!("change-failed: {operation} is incomplete: a change of `a.py` failed: it is protected ()")
            );
            assert_eq!(said(operation, &wrong, &["b.py"], None), "");
        }
        assert_eq!(said(Operation::Explain, &wrong, &[], None), "");
    }

    #[test]
    fn a_no_of_the_user_to_a_commit_fails_no_finished_refactor_and_one_to_a_change_does() {
        let refused_by_user = |skill, kind| {
            let mut refused = denial(skill, None, kind);
            (refused.by_user, refused.hint) = (true, None);
            said(Operation::Refactor, &missed(&[refused]), &["a.py"], None)
        };
        assert_eq!(refused_by_user("git_commit", RefusedPurpose::Acts), "");
        assert_eq!(
            refused_by_user("write_file", RefusedPurpose::Writes),
            "denied: refactor is incomplete: you refused a change ()"
        );
    }

    #[test]
    fn what_else_was_refused_and_never_made_good_fails_the_run_too() {
        for operation in [Operation::Refactor, Operation::TestGen] {
            let mut commit = denial("git_commit", None, RefusedPurpose::Acts);
            let words =
                format!("denied: {operation} is incomplete: `git_commit` was refused: it is protected (--allow-path)");
            let open = missed(&[commit.clone()]);
            assert_eq!(said(operation, &open, &["a.py"], None), words);
            let worse = Problem::new(ErrorKind::TestsWorse, "worse");
            assert_eq!(said(operation, &open, &["a.py"], Some(worse)), "tests-worse: worse ()");
            commit.is_made_good = true;
            let read = denial("read_file", Some(".env"), RefusedPurpose::Reads);
            assert_eq!(said(operation, &missed(&[commit, read]), &["a.py"], None), "");
        }
    }

    #[test]
    fn tests_may_stand_elsewhere_than_where_they_were_refused() {
        let existing = missed(&[denial("write_file", Some("tests/test_a.py"), RefusedPurpose::Writes)]);
        assert_eq!(said(Operation::TestGen, &existing, &["tests/test_b.py"], None), "");
        assert!(said(Operation::TestGen, &existing, &[], None).starts_with("denied: test-gen"));
        let mut later = existing;
        later.denials[0].is_made_good = true;
        assert_eq!(said(Operation::Refactor, &later, &["tests/test_a.py"], None), "");
    }

    #[test]
    fn a_change_that_was_cut_off_and_never_made_is_missing() {
        let mut lost = MissedWork::default();
        lost.cut_off("write_file", Some("b.py".into()));
        assert_eq!(
            said(Operation::Refactor, &lost, &["a.py"], None),
            "budget-exhausted: refactor is incomplete: a change of `b.py` was cut off and never made; a call of \
             `write_file` was not whole (ask for less at once, or choose a model that may write more: `--model MODEL`)"
        );
        let session = ChangingSession {
            has_expired: false,
            is_of_program: true,
            ..expired(Operation::Refactor, &[])
        };
        let problem = session.undone(&lost, None).expect("a change is missing");
        insta::assert_snapshot!(problem.hint.unwrap_or_default(), @r#"ask for less at once, or choose a model that may write more: `"model": "MODEL"` in the request"#);
    }

    #[test]
    fn an_explain_whose_model_tried_to_write_still_succeeded() {
        let refused = missed(&[denial("write_file", Some("a"), RefusedPurpose::Writes)]);
        assert_eq!(expired(Operation::Explain, &[]).undone(&refused, None), None);
    }

    #[test]
    fn an_approval_that_nobody_answered_fails_the_run() {
        let changed = ["a.py".to_owned()];
        let problem = expired(Operation::Refactor, &changed).undone(&MissedWork::default(), None);
        assert_eq!(problem.expect("it is incomplete").kind, ErrorKind::ApprovalExpired);
    }
}
