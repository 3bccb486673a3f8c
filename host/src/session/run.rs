//! The work of one session, from its request to its end: build the context, ask the model, run its tools, judge.
//!
//! Everything that happens is recorded on the way. How the session is kept, listed and cancelled is not decided here.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::approvals::SessionApprover;
use super::engine::Engine;
use super::feed::Recorder;
use super::journal::{Entry, ToolEntry, Work, cut_text, cut_value};
use crate::api::{self, BudgetRequest, Event, Operation, Problem, Receipt, Status, Timestamp};
use crate::config::{Api, PolicySettings, Settings};
use crate::context::{self, BuildRequest, Packet};
use crate::limits;
use crate::operation;
use crate::provider::{Message, ProviderError, ToolCall, ToolResult, ToolSpec, Usage};
use crate::repository::Repository;
use crate::skill::policy::Policy;
use crate::skill::{Arguments, CallContext, CallError, CallOutcome, CallReport, SessionFiles};
use crate::turn::{self, Observer, Step, Tools, Turn, TurnEnd, TurnReport};

/// A session that is about to run.
pub(super) struct Job {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) approver: Arc<SessionApprover>,
    pub(super) repository: Arc<Repository>,
    pub(super) policy: Policy,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) calls: Arc<Semaphore>,
    pub(super) cancel: CancellationToken,
    pub(super) task: Task,
}

/// What it is to do.
pub(super) enum Task {
    /// One of the four operations.
    Operation(Box<OperationTask>),
    /// One call of one skill.
    Skill { name: String, arguments: Value },
}

/// An operation's request, as it came, and its settings.
pub(super) struct OperationTask {
    pub(super) operation: Operation,
    pub(super) target: Option<String>,
    pub(super) task: Option<String>,
    pub(super) focus: Option<String>,
    pub(super) working_directory: PathBuf,
    pub(super) settings: Settings,
    pub(super) budget: BudgetRequest,
}

/// How the work ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) status: Status,
    pub(super) problem: Option<Problem>,
    pub(super) usage: Option<Usage>,
}

impl Outcome {
    pub(super) fn failed(problem: Problem) -> Self {
        Self {
            status: Status::Failed,
            problem: Some(problem),
            usage: None,
        }
    }

    pub(super) fn cancelled() -> Self {
        Self {
            status: Status::Cancelled,
            problem: Some(Problem::new("cancelled", "The session was cancelled")),
            usage: None,
        }
    }

    fn complete() -> Self {
        Self {
            status: Status::Complete,
            problem: None,
            usage: None,
        }
    }
}

/// The specification's sentence for an operation that failed in a way that has no sentence of its own.
pub(super) fn operation_failed(work: &Work) -> Problem {
    let name = match work {
        Work::Operation(operation) => operation.name().to_owned(),
        Work::Skill(name) => name.clone(),
    };
    Problem::new(
        "operation-failed",
        format!("Operation failed: {name} encountered an error"),
    )
    .with_hint("read the session log in session-reports/")
}

/// Does the work. Ends soon after `cancel`.
pub(super) async fn run(job: &Job) -> Outcome {
    let outcome = match &job.task {
        Task::Operation(task) => operate(job, task).await,
        Task::Skill { name, arguments } => call_once(job, name, arguments).await,
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(_) if job.cancel.is_cancelled() => Outcome::cancelled(),
        Err(problem) => Outcome::failed(problem),
    }
}

async fn operate(job: &Job, task: &OperationTask) -> Result<Outcome, Problem> {
    let prepared = prepare(job, task).await?;
    let provider = job.engine.connect(&task.settings.provider, &job.environment)?;
    let context = job.call_context(&prepared.packet);
    let tools = SessionTools {
        job,
        cancel: context.cancel.clone(),
        context,
        notes: Mutex::default(),
        denials: Mutex::default(),
    };
    let message = Message::User { text: prepared.message };
    let mut turn = Turn::new(
        &*provider,
        &tools,
        &tools,
        operation::system_prompt(task.operation),
        vec![message],
    );
    turn.cancel = job.cancel.clone();
    turn.steps_max = task.budget.max_steps.unwrap_or(turn.steps_max);
    turn.tokens_max = task.budget.max_tokens;
    turn.timeout = task.budget.timeout_seconds.map(Duration::from_secs);
    if task.settings.provider.api == Api::Analyst {
        // It has no context that could overflow, and writes from results that a model would have forgotten.
        turn.context_tokens_max = u64::MAX;
    }
    // Boxed because the compiler cannot see through the loop's own futures that all of this may change threads.
    let running: Pin<Box<dyn Future<Output = TurnReport> + Send + '_>> = Box::pin(turn::run(turn));
    let report = running.await;
    let denials = std::mem::take(&mut *lock(&tools.denials));
    for denial in &denials {
        job.recorder.notice(denial.sentence(), denial.hint.clone());
    }
    Ok(judge(job, task.operation, &report, &denials))
}

struct Prepared {
    packet: Packet,
    message: String,
}

/// Finds the target and builds the context, on a blocking thread.
async fn prepare(job: &Job, task: &OperationTask) -> Result<Prepared, Problem> {
    let repository = Arc::clone(&job.repository);
    let cancel = job.cancel.clone();
    let operation = task.operation;
    let (target, text, focus) = (task.target.clone(), task.task.clone(), task.focus.clone());
    let (working_directory, vault) = (task.working_directory.clone(), task.settings.vault.clone());
    let build = move || {
        let target = operation::resolve_target(
            operation,
            target.as_deref(),
            text.as_deref(),
            &repository,
            &working_directory,
        )?;
        let request = BuildRequest {
            repository: &repository,
            operation,
            target: &target,
            focus: focus.as_deref(),
            vault: vault.as_deref(),
            budget_tokens: limits::PACKET_TOKENS,
            cancel: &cancel,
        };
        let packet = context::build(&request).map_err(Problem::from)?;
        let message = operation::user_message(operation, &target, focus.as_deref(), &packet);
        Ok::<_, Problem>(Prepared { packet, message })
    };
    let prepared = tokio::task::spawn_blocking(build).await;
    let mut prepared = prepared.map_err(|_| operation_failed(&Work::Operation(operation)))??;
    for file in &mut prepared.packet.selected {
        // What is no number has no place in JSON.
        file.score = if file.score.is_finite() { file.score } else { 0.0 };
    }
    job.recorder.event(Event::Selection {
        files: prepared.packet.selected.clone(),
    });
    for notice in &prepared.packet.notices {
        job.recorder.notice(notice.clone(), None);
    }
    Ok(prepared)
}

impl Job {
    fn call_context(&self, packet: &Packet) -> Arc<CallContext> {
        let seen = packet.digests.iter().cloned().collect();
        self.call_context_with(SessionFiles {
            seen,
            ..SessionFiles::default()
        })
    }

    fn call_context_with(&self, files: SessionFiles) -> Arc<CallContext> {
        let recorder = Arc::clone(&self.recorder);
        Arc::new(CallContext {
            repository: Arc::clone(&self.repository),
            policy: self.policy.clone(),
            approver: Arc::clone(&self.approver) as _,
            changes: Arc::clone(&self.recorder) as _,
            files: Mutex::new(files),
            cancel: self.cancel.child_token(),
            environment: self.environment.clone(),
            progress: Arc::new(move |line| recorder.notice(line, None)),
        })
    }

    /// Runs a skill on a blocking thread. A panic in the host costs that call alone.
    async fn call(&self, context: &Arc<CallContext>, name: &str, arguments: OwnedArguments) -> CallReport {
        let _permit = self.calls.acquire().await;
        let (engine, context) = (Arc::clone(&self.engine), Arc::clone(context));
        let skill = name.to_owned();
        let called = tokio::task::spawn_blocking(move || match &arguments {
            OwnedArguments::Text(text) => engine.call(&context, &skill, Arguments::Text(text)),
            OwnedArguments::Value(value) => engine.call(&context, &skill, Arguments::Value(value)),
        });
        called.await.unwrap_or_else(|error| {
            tracing::error!(skill = name, %error, "a skill call panicked in the host");
            CallReport {
                result: Err(CallError::Trap {
                    skill: name.to_owned(),
                    reason: "the host failed; this is a bug".to_owned(),
                }),
                receipt: None,
            }
        })
    }
}

enum OwnedArguments {
    Text(String),
    Value(Value),
}

/// What the model may call, on behalf of one session, and who is told what happens.
struct SessionTools<'a> {
    job: &'a Job,
    context: Arc<CallContext>,
    cancel: CancellationToken,
    notes: Mutex<HashMap<String, Note>>,
    denials: Mutex<Vec<Denial>>,
}

/// What is known of a call between its start and its end.
struct Note {
    started: Timestamp,
    clock: Instant,
    end: Option<NoteEnd>,
}

struct NoteEnd {
    verdict: String,
    summary: String,
    receipt: Option<Receipt>,
}

/// A call that the policy or a person refused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Denial {
    skill: String,
    /// The path that the call was about, where it named one.
    path: Option<String>,
    message: String,
    hint: Option<String>,
    /// True where the skill changes files, which is what refactor and test-gen are for.
    writes: bool,
}

impl Denial {
    fn sentence(&self) -> String {
        format!("`{}` was refused: {}", self.skill, self.message)
    }
}

impl Tools for SessionTools<'_> {
    fn specs(&self) -> Vec<ToolSpec> {
        self.job.engine.specs()
    }

    fn run<'a>(&'a self, call: &'a ToolCall) -> Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>> {
        Box::pin(async move {
            let arguments = OwnedArguments::Text(call.arguments.clone());
            let report = self.job.call(&self.context, &call.name, arguments).await;
            if let Err(error) = &report.result {
                self.note_denial(call, error);
            }
            let end = NoteEnd {
                verdict: verdict(&report),
                summary: summary(&report.result),
                receipt: report.receipt,
            };
            if let Some(note) = lock(&self.notes).get_mut(&call.id) {
                note.end = Some(end);
            }
            ToolResult {
                call_id: call.id.clone(),
                name: call.name.clone(),
                is_error: report.result.is_err(),
                text: text_for_model(report.result),
            }
        })
    }

    fn stop(&self) {
        self.cancel.cancel();
    }
}

impl SessionTools<'_> {
    fn note_denial(&self, call: &ToolCall, error: &CallError) {
        let CallError::Failure {
            skill,
            code,
            message,
            hint,
        } = error
        else {
            return;
        };
        if code != "denied" {
            return;
        }
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let entries = self.job.engine.entries();
        let entry = entries.iter().find(|entry| entry.name == *skill);
        let writes = entry.is_some_and(|entry| entry.effects.iter().any(|effect| effect == "write-repository"));
        lock(&self.denials).push(Denial {
            skill: skill.clone(),
            path: arguments.get("path").and_then(Value::as_str).map(str::to_owned),
            message: message.clone(),
            hint: hint.clone(),
            writes,
        });
    }

    fn started(&self, call: &ToolCall) {
        let note = Note {
            started: api::now(),
            clock: Instant::now(),
            end: None,
        };
        lock(&self.notes).insert(call.id.clone(), note);
        let args = serde_json::from_str(&call.arguments).unwrap_or_else(|_| match call.arguments.trim() {
            "" => Value::Object(serde_json::Map::new()),
            text => Value::String(text.to_owned()),
        });
        self.job.recorder.event(Event::Skill {
            name: call.name.clone(),
            args: cut_value(&args, limits::EVENT_ARGUMENT_BYTES_MAX),
        });
    }

    fn finished(&self, call: &ToolCall, result: &ToolResult) {
        let note = lock(&self.notes).remove(&call.id);
        let (started, duration_ms, end) = match note {
            Some(note) => (note.started, elapsed_ms(note.clock), note.end),
            None => (api::now(), 0, None),
        };
        // A call that never reached a skill has no note of its end: the loop answered it itself.
        let end = end.unwrap_or_else(|| NoteEnd {
            verdict: if result.is_error { "failed" } else { "ok" }.to_owned(),
            summary: first_line(&result.text),
            receipt: None,
        });
        self.job.recorder.record(Entry::Tool(ToolEntry {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: cut_text(&call.arguments, limits::JOURNAL_TOOL_BYTES_MAX),
            result: cut_text(&result.text, limits::JOURNAL_TOOL_BYTES_MAX),
            verdict: end.verdict.clone(),
            started,
            duration_ms,
            receipt: end.receipt.map(|receipt| Box::new(cut_receipt(receipt))),
        }));
        self.job.recorder.event(Event::SkillResult {
            name: call.name.clone(),
            verdict: end.verdict,
            summary: end.summary,
            duration_ms,
        });
    }
}

impl Observer for SessionTools<'_> {
    fn step(&self, step: Step<'_>) {
        let recorder = &self.job.recorder;
        match step {
            Step::Text(text) => recorder.text(text),
            Step::Reasoning(text) => recorder.reasoning(text),
            Step::ToolStarted(call) => self.started(call),
            Step::ToolFinished(call, result) => self.finished(call, result),
            Step::Usage(usage) => recorder.event(Event::Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                estimated: usage.estimated,
            }),
            Step::Notice(message) => recorder.notice(message, None),
        }
    }
}

/// A receipt fit for the journal, which keeps contents elsewhere.
fn cut_receipt(mut receipt: Receipt) -> Receipt {
    receipt.arguments = cut_value(&receipt.arguments, limits::EVENT_ARGUMENT_BYTES_MAX);
    receipt
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn elapsed_ms(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn first_line(text: &str) -> String {
    cut_text(text.lines().next().unwrap_or_default(), limits::SUMMARY_BYTES_MAX)
}

/// `ok`, or why not, in one word.
fn verdict(report: &CallReport) -> String {
    let verdict = report.result.as_ref().map_or_else(CallError::verdict, |_| "ok");
    verdict.to_owned()
}

/// One line for people.
fn summary(result: &Result<CallOutcome, CallError>) -> String {
    match result {
        Ok(outcome) if !outcome.files_modified.is_empty() => cut_text(
            &format!("changed {}", outcome.files_modified.join(", ")),
            limits::SUMMARY_BYTES_MAX,
        ),
        Ok(outcome) => {
            let lines = outcome.text.lines().count();
            let more = if outcome.truncated { ", more is left" } else { "" };
            format!("{lines} {}{more}", if lines == 1 { "line" } else { "lines" })
        }
        Err(error) => first_line(&error.to_string()),
    }
}

/// What the model reads of a call's end.
fn text_for_model(result: Result<CallOutcome, CallError>) -> String {
    match result {
        Ok(CallOutcome {
            text,
            cursor: Some(cursor),
            ..
        }) => format!("{text}\n\n(There is more. Call again with the same arguments and \"cursor\": \"{cursor}\".)"),
        Ok(CallOutcome {
            text, truncated: true, ..
        }) => format!("{text}\n\n(There is more. Narrow the call.)"),
        Ok(outcome) => outcome.text,
        Err(error) => match hint_of(&error) {
            Some(hint) => format!("{error}\n{hint}"),
            None => error.to_string(),
        },
    }
}

fn hint_of(error: &CallError) -> Option<String> {
    match error {
        CallError::Failure { hint, .. } => hint.clone(),
        CallError::Unknown {
            nearest: Some(nearest), ..
        } => Some(format!("Did you mean `{nearest}`?")),
        _ => None,
    }
}

/// How an operation ended, truthfully: a run that could not do what the operation is for has failed.
fn judge(job: &Job, operation: Operation, report: &TurnReport, denials: &[Denial]) -> Outcome {
    let problem = match &report.end {
        Ok(TurnEnd::Complete) => {
            let modified = job.recorder.summary().files_modified();
            undone(operation, denials, job.approver.has_expired(), &modified)
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

/// One call of one skill: its outcome is the session's answer.
async fn call_once(job: &Job, name: &str, arguments: &Value) -> Result<Outcome, Problem> {
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

/// The user's configuration and a request, as one request to the policy: the request's `allow` overrides the
/// configuration's `deny`, its `deny` overrides everything.
pub(super) fn merged(settings: &PolicySettings, request: &api::PolicyRequest) -> api::PolicyRequest {
    let configured = settings.deny.iter().filter(|effect| !request.allow.contains(effect));
    api::PolicyRequest {
        allow: settings.allow.iter().chain(&request.allow).cloned().collect(),
        deny: configured.chain(&request.deny).cloned().collect(),
        allow_paths: request.allow_paths.clone(),
        require_sandbox: settings.require_sandbox || request.require_sandbox,
        unsandboxed: request.unsandboxed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PolicyRequest;

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

    #[test]
    fn a_request_overrides_the_configuration() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let settings = PolicySettings {
            allow: list(&["commit-git"]),
            deny: list(&["run-process", "install"]),
            ..PolicySettings::default()
        };
        let request = PolicyRequest {
            allow: list(&["run-process"]),
            deny: list(&["commit-git"]),
            ..PolicyRequest::default()
        };
        let merged = merged(&settings, &request);
        assert_eq!(merged.allow, ["commit-git", "run-process"]);
        assert_eq!(merged.deny, ["install", "commit-git"]);
    }
}
