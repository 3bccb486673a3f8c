//! A session that is one call of one skill: its outcome is the session's answer.

use std::time::Instant;

use serde_json::Value;

use super::tools::{OwnedArguments, cut_receipt, elapsed_ms, hint_of, summary, verdict};
use super::{Job, Outcome};
use crate::api::{self, Event, Problem, Receipt};
use crate::limits;
use crate::session::journal::{Entry, ToolEntry, cut_text, cut_value};
use crate::skill::{CallError, SessionFiles};

/// One call of one skill: its outcome is the session's answer.
pub(super) async fn call_once(job: &Job, name: &str, arguments: &Value) -> Result<Outcome, Problem> {
    let context = job.call_context_with(SessionFiles::default());
    let (started, clock) = (api::now(), Instant::now());
    job.recorder.event(Event::Skill {
        name: name.to_owned(),
        args: cut_value(arguments, limits::EVENT_ARGUMENT_BYTES_MAX),
    });
    let report = job.call(&context, name, OwnedArguments::Value(arguments.clone())).await;
    let verdict = verdict(&report);
    let receipt = report.receipt.map(cut_receipt);
    let result = match &report.result {
        Ok(outcome) => outcome.text.clone(),
        Err(error) => error.to_string(),
    };
    job.recorder.record(Entry::Tool(ToolEntry {
        call_id: "1".to_owned(),
        name: name.to_owned(),
        arguments: cut_text(&arguments.to_string(), limits::JOURNAL_TOOL_BYTES_MAX),
        result: cut_text(&result, limits::JOURNAL_TOOL_BYTES_MAX),
        verdict: verdict.clone(),
        started,
        duration_ms: elapsed_ms(clock),
        receipt: receipt.clone().map(Box::new),
    }));
    job.recorder.event(Event::SkillResult {
        name: name.to_owned(),
        verdict: verdict.clone(),
        summary: summary(&report.result),
        duration_ms: elapsed_ms(clock),
    });
    match report.result {
        Ok(outcome) => {
            job.recorder.event(Event::Outcome {
                text: outcome.text,
                truncated: outcome.truncated,
                cursor: outcome.cursor,
                files_modified: outcome.files_modified,
                receipt: Box::new(receipt.unwrap_or_else(|| empty_receipt(name, arguments, &verdict))),
            });
            Ok(Outcome::complete())
        }
        Err(CallError::Cancelled { .. }) => Ok(Outcome::cancelled()),
        Err(error) => {
            let problem = Problem::new(&verdict, error.to_string());
            Err(match hint_of(&error) {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            })
        }
    }
}

/// The receipt of a call for which nothing ran.
fn empty_receipt(name: &str, arguments: &Value, verdict: &str) -> Receipt {
    Receipt {
        skill: name.to_owned(),
        digest: String::new(),
        arguments: cut_value(arguments, limits::EVENT_ARGUMENT_BYTES_MAX),
        grants: Vec::new(),
        wall_us: 0,
        peak_memory_bytes: 0,
        bytes_in: 0,
        bytes_out: 0,
        files_proposed: Vec::new(),
        verdict: verdict.to_owned(),
    }
}
