//! A session that is one call of one skill. Its outcome is the session's answer.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::tools::{OwnedArguments, cut_receipt, details_of, elapsed_ms, hint_of, report_verdict, summarise_result};
use super::{SessionOutcome, SessionRun};
use crate::limits;
use tool_core::api::Effect;
use tool_core::api::{self, ErrorKind, Event, Problem, Receipt};
use tool_journal::journal::{JournalEntry, ToolEntry, cut_arguments, cut_text};
use tool_repository::{OpenError, Repository};
use tool_skill::policy::Decision;
use tool_skill::{Approver, CallError, RunAsker, SessionFiles};

/// Identifier of the only call of the session.
const ONLY_CALL: &str = "1";

/// Calls the skill. Its outcome is the session's answer.
pub(super) async fn call_once(job: &SessionRun, name: &str, arguments: &Value) -> Result<SessionOutcome, Problem> {
    let context = job.call_context_with(seen_by_the_user(job, arguments).await, RunAsker::User);
    let (started, clock) = (api::current_time(), Instant::now());
    job.recorder.event(Event::Skill {
        name: name.to_owned(),
        args: cut_arguments(arguments),
        call_id: Some(ONLY_CALL.to_owned()),
    });
    let report = job.call(&context, name, OwnedArguments::Value(arguments.clone())).await;
    // For the caller only: neither journal nor report stores them.
    for message in &report.notes.log {
        job.recorder.event(Event::Live { line: message.clone() });
    }
    let (verdict, details) = (report_verdict(&report), details_of(&report));
    let is_refused = report.is_refused_by_user() && !job.approver.has_expired();
    let receipt = report.receipt.map(|receipt| {
        let arguments = arguments.clone();
        cut_receipt(Receipt { arguments, ..receipt })
    });
    let result = match &report.result {
        Ok(outcome) => outcome.text.clone(),
        Err(error) => error.to_string(),
    };
    job.recorder.record(JournalEntry::Tool(ToolEntry {
        call_id: ONLY_CALL.to_owned(),
        name: name.to_owned(),
        arguments: cut_text(&arguments.to_string(), limits::JOURNAL_TOOL_BYTES_MAX),
        result: cut_text(&result, limits::JOURNAL_TOOL_BYTES_MAX),
        verdict: verdict.clone(),
        started,
        duration_ms: elapsed_ms(clock),
        receipt: receipt.clone().map(Box::new),
        details: details.clone(),
    }));
    job.recorder.event(Event::SkillResult {
        name: name.to_owned(),
        verdict: verdict.clone(),
        summary: summarise_result(&report.result),
        duration_ms: elapsed_ms(clock),
        details,
        call_id: Some(ONLY_CALL.to_owned()),
    });
    match report.result {
        Ok(outcome) => {
            job.recorder.event(Event::Outcome {
                text: outcome.text,
                truncated: outcome.truncated,
                cursor: outcome.cursor,
                files_modified: outcome.files_modified,
                details: outcome.details,
                citations: outcome.citations,
                media: outcome.media,
                receipt: Box::new(receipt.unwrap_or_else(|| empty_receipt(name, arguments, &verdict))),
            });
            Ok(SessionOutcome::complete())
        }
        Err(CallError::Cancelled { .. }) => Ok(SessionOutcome::cancelled()),
        Err(error) if is_refused => Err(Problem::new(error.kind().clone(), format!("You refused `{name}`"))),
        Err(error) => {
            let problem = Problem::new(error.kind().clone(), error.to_string());
            let hint = match hint_of(&error) {
                None => {
                    let path = arguments.get("path").and_then(Value::as_str).map(str::to_owned);
                    why_denied(&job.plan.repository, &error, path, &job.cancel).await
                }
                hint => hint,
            };
            Err(match hint {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            })
        }
    }
}

/// Counts the files that a user's call names as seen when it begins: no model has to read them first. Changes after
/// that are refused as usual.
async fn seen_by_the_user(job: &SessionRun, arguments: &Value) -> SessionFiles {
    if job.plan.policy.decide(Effect::WriteRepository, job.approver.can_ask()) == Decision::Deny {
        return SessionFiles::default();
    }
    let (repository, arguments, cancel) = (Arc::clone(&job.plan.repository), arguments.clone(), job.cancel.clone());
    let read = move || SessionFiles::named_in(&arguments, &repository, &cancel);
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// Explains which rule for names denies a path; a skill learns only that it is denied.
pub(super) async fn why_denied(
    repository: &Arc<Repository>,
    error: &CallError,
    path: Option<String>,
    cancel: &CancellationToken,
) -> Option<String> {
    let CallError::Failure {
        kind: ErrorKind::Denied,
        hint: None,
        ..
    } = error
    else {
        return None;
    };
    let path = path?;
    let (repository, cancel) = (Arc::clone(repository), cancel.clone());
    // Opening a hard link may walk through the whole tree.
    let opened = tokio::task::spawn_blocking(move || repository.open_within(&path, &cancel));
    match opened.await.ok()? {
        Err(OpenError::Denied { reason, .. }) => Some(format!("it {reason}")),
        Err(OpenError::NotRegular { .. }) => Some("it is neither a file nor a directory".to_owned()),
        _ => None,
    }
}

/// The receipt of a call that ran nothing.
fn empty_receipt(name: &str, arguments: &Value, verdict: &str) -> Receipt {
    Receipt {
        skill: name.to_owned(),
        digest: String::new(),
        arguments: cut_arguments(arguments),
        changes: Vec::new(),
        grants: Vec::new(),
        wall_us: 0,
        peak_memory_bytes: 0,
        bytes_in: 0,
        bytes_out: 0,
        files_proposed: Vec::new(),
        tests: None,
        commits: Vec::new(),
        packages: Vec::new(),
        requests: Vec::new(),
        verdict: verdict.to_owned(),
    }
}
