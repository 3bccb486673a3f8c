//! `tool skill audit`: repeats the calls of a skill under a recorder, to find out which effects it needs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tool_core::api::Effect;
use tool_core::api::{ErrorKind, PolicyRequest, Problem};
use tool_journal::replay::recent_calls;
use tool_repository::Repository;
use tool_skill::audit::{Audit, Recorder};
use tool_skill::cases;
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::{CallContext, RawArguments};

use super::{print_json, registry_with_symbols};
use crate::commands::{CommandContext, shorten_line};
use crate::error::{Error, FAILED};
use crate::output::CommandOutput;

/// Calls to repeat, and their root.
struct RecordedCalls {
    root: PathBuf,
    /// Label and arguments of each call.
    made: Vec<(String, Value)>,
}

#[derive(Debug, Serialize)]
struct FailedCall {
    call: String,
    verdict: String,
    message: String,
}

/// Output of the audit, also as JSON.
#[derive(Debug, Serialize)]
struct AuditReport {
    #[serde(flatten)]
    audit: Audit,
    failures: Vec<FailedCall>,
}

/// Repeats the calls and compares the needed effects with the granted ones.
pub(super) fn audit_skill(
    name: &str,
    cases: Option<&Path>,
    json: bool,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    let registry = registry_with_symbols(context)?;
    let Some(granted) = registry.effects(name, None) else {
        return Err(
            Problem::new(ErrorKind::NotFound, format!("There is no skill named `{name}`"))
                .with_hint("`tool skill list` shows the skills")
                .into(),
        );
    };
    let calls = match cases {
        Some(folder) => of_cases(folder, name)?,
        None => of_repository(name, context)?,
    };
    let recorder = Arc::new(Recorder::default());
    let context_of_calls = Arc::new(CallContext {
        recorder: Some(Arc::clone(&recorder)),
        ..CallContext::unattended(open_repository(&calls.root, context)?, audit_policy()?)
    });
    let mut failures = Vec::new();
    for (call, arguments) in calls.made {
        let report = registry.call(&context_of_calls, name, RawArguments::Value(&arguments));
        recorder.ended(&report);
        failures.extend(report.result.err().map(|error| FailedCall {
            call,
            verdict: error.verdict().to_owned(),
            message: error.to_string(),
        }));
    }
    let audit = recorder.audit(name, &granted);
    let shown = AuditReport { audit, failures };
    if json {
        print_json(&shown, context.output)?;
    } else {
        print_report(&shown, context.output)?;
    }
    // If all calls fail, the audit proves nothing.
    Ok(if shown.audit.calls == shown.audit.failed {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn of_repository(name: &str, context: &CommandContext) -> Result<RecordedCalls, Error> {
    let (root, _) = context.places()?;
    let recent = recent_calls(&context.backend.home, &root, name);
    if recent.left_out > 0 {
        let message = format!(
            "{} calls are left out: their arguments were too long to be kept.",
            recent.left_out
        );
        context.output.notice(&message, None);
    }
    if recent.calls.is_empty() {
        return Err(Problem::new(
            ErrorKind::NothingFound,
            format!("No call of `{name}` in this repository is known"),
        )
        .with_hint("call it first, or name a folder with cases: --cases DIR")
        .into());
    }
    Ok(RecordedCalls {
        root,
        made: recent.calls.into_iter().map(label_call).collect(),
    })
}

/// Labels a call without a name by its arguments.
fn label_call(arguments: Value) -> (String, Value) {
    (shorten_line(&arguments.to_string(), CALL_CHARACTERS), arguments)
}

/// Characters of the arguments in a label.
const CALL_CHARACTERS: usize = 60;

/// The test cases of the skill's author, on the folder `fixture` next to them.
fn of_cases(folder: &Path, function: &str) -> Result<RecordedCalls, Error> {
    let unreadable = |error| super::test::unreadable(folder, error);
    let cases = cases::read_cases(folder).map_err(unreadable)?;
    let Some(fixture) = cases::fixture_in(folder).map_err(unreadable)? else {
        let message = format!("There is no folder `{}` in `{}`", cases::FIXTURE, folder.display());
        return Err(Problem::new(ErrorKind::Usage, message)
            .with_hint("the calls are made on it; make it, if it is to be empty")
            .into());
    };
    Ok(RecordedCalls {
        root: std::path::absolute(&fixture).map_err(|error| Error::on_file("Fixture", &fixture, &error))?,
        made: cases
            .into_iter()
            .filter(|case| case.function.as_deref().is_none_or(|called| called == function))
            .map(|case| (case.name, case.arguments))
            .collect(),
    })
}

/// The repository, with the same rules as in a session.
fn open_repository(root: &Path, context: &CommandContext) -> Result<Arc<Repository>, Error> {
    let (home, environment) = (&context.backend.home, &context.backend.environment);
    let policy = tool_config::load_common(home, environment)?.policy;
    Repository::open(root, &tool_session::repository_options(&policy, home))
        .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))
}

/// Proposals are allowed, because they are dropped. Effects that run or commit something are not.
fn audit_policy() -> Result<Policy, Error> {
    let names = |effects: &[Effect]| effects.iter().map(Effect::to_string).collect();
    let request = PolicyRequest {
        allow: names(&[Effect::WriteRepository]),
        deny: names(&[Effect::CommitGit, Effect::RunProcess, Effect::Install]),
        ..PolicyRequest::default()
    };
    Policy::new(EffectCause::SkillCall, &request).map_err(Error::Problem)
}

fn print_report(shown: &AuditReport, output: CommandOutput) -> Result<(), Error> {
    let audit = &shown.audit;
    let effects = |effects: &[Effect]| join_names(&effects.iter().map(Effect::to_string).collect::<Vec<_>>());
    let calls = if audit.calls == 1 { "call" } else { "calls" };
    let failed = match audit.failed {
        0 => String::new(),
        failed => format!(", {failed} of them failed"),
    };
    let peak = audit.peak;
    let lines = [
        format!("{}: {} {calls}{failed}", audit.skill, audit.calls),
        format!("  used         {}", effects(&audit.used)),
        format!("  superfluous  {}", effects(&audit.superfluous)),
        format!("  read         {}", join_names(&audit.read)),
        format!("  listed       {}", join_names(&audit.listed)),
        format!("  proposed     {}", join_names(&audit.staged)),
        format!(
            "  at most      {} ms of {} ms, {} of {} KiB memory, {} KiB read, {} of {} KiB answered",
            peak.wall_us.div_ceil(1000),
            peak.wall_us_max / 1000,
            peak.memory_bytes.div_ceil(1024),
            peak.memory_bytes_max / 1024,
            peak.read_bytes.div_ceil(1024),
            peak.answer_bytes.div_ceil(1024),
            peak.answer_bytes_max / 1024,
        ),
    ];
    output.line(&lines.join("\n"))?;
    for failed in &shown.failures {
        let message = shorten_line(&failed.message, MESSAGE_CHARACTERS);
        output.line(&format!(
            "  failed       {} ({}): {message}",
            failed.call, failed.verdict
        ))?;
    }
    if audit.is_cut {
        output.notice("It touched more paths than are kept: the globs do not cover all.", None);
    }
    if !audit.superfluous.is_empty() {
        let hint = "its author can leave them out of `effects`; a lock file can grant less than it asks for";
        output.notice("None of these calls needed the superfluous effects.", Some(hint));
    }
    Ok(())
}

/// Characters of a failure's message that are shown.
const MESSAGE_CHARACTERS: usize = 200;

fn join_names(names: &[String]) -> String {
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(", ")
    }
}
