//! The tools of a session: they run calls, record them, and list the refused ones.
//!
//! Calls of the model and calls of the host use the same path. `judge` decides what a refusal means for the session.

use std::collections::HashMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use serde_json::Value;
use tokio::time::Instant as Deadline;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::SessionRun;
use super::call_redaction::{CallFiles, learn_shown, redact_report};
use super::judge::retry_hint;
use super::memory::{self, InheritedState, JournalledState};
use super::missed_work::{self, DeniedCall, MissedWork, RefusedPurpose};
use super::tool_list::ToolList;
use crate::limits;
use crate::plan::SessionTask;
use crate::run_blocking;
use tool_context::Packet;
use tool_core::api::Effect;
use tool_core::api::{self, Citation, ErrorKind, Event, Problem, Receipt, TestDetails, Timestamp, VerificationRule};
use tool_core::text::clean_line;
use tool_journal::journal::{JournalEntry, ToolEntry, cut_arguments, cut_text, keep_details};
use tool_provider::turn::{Observer, Tools, TurnStep, wait_until};
use tool_provider::{Message, TextOrigin, ToolCall, ToolResult, ToolSpec};
use tool_skill::taint::{OutsideFiles, Taint, VouchedFiles};
use tool_skill::{
    CALL_SKILL, CallContext, CallError, CallOutcome, CallReport, Conversation, HeldTurn, HostNotes, RawArguments,
    RunAsker, RunScope, SessionFiles,
};

impl SessionRun {
    /// How the client of the session allows an effect, for hints.
    pub(super) fn grant_text(&self, effect: Effect) -> String {
        let grant = api::PolicyRequest::allowing_effect(&effect.to_string());
        self.plan.policy.grant_text(&grant)
    }

    pub(super) fn call_context_with(&self, files: SessionFiles, asker: RunAsker) -> Arc<CallContext> {
        let recorder = Arc::clone(&self.recorder);
        let conversation = Arc::new(Conversation {
            redactor: Arc::clone(&self.plan.redactor),
            taint: Taint::new(self.plan.policy.is_untrusted()),
            vouched: self.vouched_files(),
            ..Conversation::default()
        });
        Arc::new(CallContext {
            repository: Arc::clone(&self.plan.repository),
            policy: self.plan.policy.clone(),
            approver: Arc::clone(&self.approver) as _,
            call_id: None,
            changes: Arc::clone(&self.recorder) as _,
            files: Arc::new(Mutex::new(files)),
            conversation,
            locked: self.plan.locked.clone().map(|lock| lock as _),
            recorder: None,
            cancel: self.cancel.child_token(),
            environment: self.plan.environment.clone(),
            progress: Arc::new(move |line| recorder.event(Event::Live { line: line.to_owned() })),
            turn: HeldTurn::default(),
            runs: RunScope {
                asker,
                changes: Some(Arc::clone(&self.changes)),
                builds: Arc::default(),
            },
        })
    }

    /// Files that git does not track and that still count as the user's: earlier sessions made them, or the user
    /// names them.
    fn vouched_files(&self) -> VouchedFiles {
        let mut vouched = VouchedFiles::new(self.made.clone());
        match &self.plan.task {
            SessionTask::Operation(task) => {
                let directory = task.working_directory.strip_prefix(self.plan.repository.root());
                let directory = directory.ok().and_then(Path::to_str).unwrap_or_default();
                for text in [&task.request.target, &task.request.task, &task.request.focus]
                    .into_iter()
                    .flatten()
                {
                    vouched.add_text(text, directory);
                }
                for turn in task.past.iter().flat_map(|past| &past.turns) {
                    vouched.add_text(&turn.asked, directory);
                }
                for path in task
                    .request
                    .target
                    .as_deref()
                    .into_iter()
                    .chain(task.filter.include_patterns())
                {
                    vouched.add_path(path, directory);
                }
            }
            SessionTask::Skill { arguments, .. } => vouched.add_text(&arguments.to_string(), ""),
            // The request of another agent is not the user's.
            SessionTask::Calls(_) => {}
        }
        vouched
    }

    /// Runs a skill on a blocking thread. A panic in the host fails only that call.
    pub(super) async fn call(&self, context: &Arc<CallContext>, name: &str, arguments: OwnedArguments) -> CallReport {
        self.call_with(context, name, move || arguments, |_| {}).await
    }

    /// Runs a skill, and prepares its arguments and finishes its report on the same blocking thread: one thread less
    /// to wake for each call.
    async fn call_with(
        &self,
        context: &Arc<CallContext>,
        name: &str,
        arguments: impl FnOnce() -> OwnedArguments + Send + 'static,
        finish: impl FnOnce(&mut CallReport) + Send + 'static,
    ) -> CallReport {
        // The semaphore is never closed: no permit means cancellation.
        let permit = context.cancel.run_until_cancelled(self.calls.acquire()).await;
        let Some(_permit) = permit else {
            return never_ended(name);
        };
        let (engine, context) = (Arc::clone(&self.engine), Arc::clone(context));
        let skill = name.to_owned();
        let called = tokio::task::spawn_blocking(move || {
            let mut report = match &arguments() {
                OwnedArguments::Text(text) => engine.call(&context, &skill, RawArguments::Text(text)),
                OwnedArguments::Value(value) => engine.call(&context, &skill, RawArguments::Value(value)),
            };
            finish(&mut report);
            report
        });
        called.await.unwrap_or_else(|error| {
            tracing::error!(skill = name, %error, "a skill call panicked in the host");
            CallReport {
                result: Err(CallError::Trap {
                    skill: name.to_owned(),
                    reason: "the host failed; this is a bug".to_owned(),
                }),
                receipt: None,
                foreign: Vec::new(),
                notes: HostNotes::default(),
            }
        })
    }
}

pub(super) enum OwnedArguments {
    Text(String),
    Value(Value),
}

/// The tools of one session, with the records of its calls.
pub(super) struct SessionTools<'a> {
    job: &'a SessionRun,
    context: Arc<CallContext>,
    list: ToolList,
    cancel: CancellationToken,
    notes: Mutex<HashMap<String, CallNote>>,
    missed: Mutex<MissedWork>,
    /// Number of calls by the host, for their identifiers.
    own_calls: AtomicUsize,
    /// Held by a call that changes something, and while the tree must not change.
    tree: tokio::sync::Mutex<()>,
    /// Text for the model that follows its next results.
    message: Mutex<Option<String>>,
    memory: JournalledState,
}

/// Record of a call between its start and its end.
struct CallNote {
    started: Timestamp,
    clock: Instant,
    end: Option<NoteEnd>,
}

struct NoteEnd {
    verdict: String,
    summary: String,
    receipt: Option<Receipt>,
    details: Option<Value>,
}

impl Tools for SessionTools<'_> {
    fn specs(&self) -> Vec<ToolSpec> {
        self.list.specs()
    }

    fn resolve(&self, call: &ToolCall) -> Result<Option<ToolCall>, String> {
        self.list.resolve(call)
    }

    fn run<'a>(&'a self, call: &'a ToolCall) -> Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>> {
        Box::pin(async move {
            if let Some(answer) = self.list.answer(call) {
                return answer;
            }
            let _tree = self.wait_to_change(call).await;
            let report = self.perform(&self.context, call).await;
            if let Err(error) = &report.result {
                self.note_denial(call, error, &report);
            }
            ToolResult {
                origin: self.origin(&report),
                ..result_of(call, &report)
            }
        })
    }

    fn is_ordered(&self, name: &str) -> bool {
        RefusedPurpose::from_effects(&self.effects(name)) != RefusedPurpose::Reads
    }

    fn take_message(&self) -> Option<String> {
        lock_unpoisoned(&self.message).take()
    }

    fn stop(&self) {
        self.cancel.cancel();
    }
}

impl<'a> SessionTools<'a> {
    /// Tools of a session whose model has seen this packet, and the files of earlier turns.
    pub(super) fn new(job: &'a SessionRun, packet: &Packet, list: ToolList, inherited: InheritedState) -> Self {
        let mut seen = inherited.seen;
        let memory = JournalledState::new(inherited.known, &inherited.places, inherited.keys);
        seen.extend(packet.digests.iter().cloned());
        let files = SessionFiles {
            seen,
            changed: inherited.created,
            ..SessionFiles::default()
        };
        let mut tools = Self::of_context(job, job.call_context_with(files, RunAsker::Model), list);
        tools.memory = memory;
        tools.context.conversation.taint.note(&inherited.places);
        if packet.may_reveal_ignored {
            let ignored = "files that an ignore file over the limits may name".to_owned();
            tools.context.conversation.taint.note(&[ignored]);
        }
        if job.plan.policy.is_task_untrusted() {
            tools.context.conversation.taint.note(&["the task".to_owned()]);
        }
        tools
    }

    /// Taints the conversation if the packet shows files of others, as a call that reads them does.
    pub(super) async fn note_packet(&self, packet: &Packet) -> Result<(), Problem> {
        let shown = packet
            .selected
            .iter()
            .map(|file| &file.path)
            .chain(&packet.instructions);
        let (context, shown) = (Arc::clone(&self.context), shown.cloned().collect::<Vec<_>>());
        run_blocking(move || {
            let outside = OutsideFiles::from_context(&context);
            let places = shown.iter().filter_map(|path| outside.find_place(path));
            let places: Vec<String> = places.map(|place| format!("`{}`", clean_line(&place))).collect();
            context.conversation.taint.note(&places);
            Ok(())
        })
        .await
    }

    /// Tools of a connection, whose model has seen nothing yet.
    pub(super) fn of_connection(job: &'a SessionRun) -> Self {
        let context = job.call_context_with(SessionFiles::default(), RunAsker::Model);
        // The client lists the skills itself, and no model of ours is asked.
        Self::of_context(job, context, ToolList::default())
    }

    fn of_context(job: &'a SessionRun, context: Arc<CallContext>, list: ToolList) -> Self {
        Self {
            job,
            list,
            cancel: context.cancel.clone(),
            context,
            notes: Mutex::default(),
            missed: Mutex::default(),
            own_calls: AtomicUsize::new(0),
            tree: tokio::sync::Mutex::default(),
            message: Mutex::default(),
            memory: JournalledState::default(),
        }
    }

    /// Takes the refusals and lost changes so far.
    pub(super) fn take_missed(&self) -> MissedWork {
        std::mem::take(&mut *lock_unpoisoned(&self.missed))
    }

    pub(super) fn effects(&self, skill: &str) -> Vec<Effect> {
        self.job
            .engine
            .effects(skill, self.job.plan.locked.as_deref())
            .unwrap_or_default()
    }

    /// Keeps calls of the model from changing anything until the guard is dropped.
    pub(super) async fn keep_tree(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.tree.lock().await
    }

    /// Waits until the tree may change, if a call changes something. Without a guard the session ends, and so does the
    /// call.
    async fn wait_to_change(&self, call: &ToolCall) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        if !self.is_ordered(&call.name) {
            return None;
        }
        if let Ok(tree) = self.tree.try_lock() {
            return Some(tree);
        }
        let line = format!("`{}` waits for the tests and checks before any change", call.name);
        (self.context.progress)(&line);
        self.cancel.run_until_cancelled(self.tree.lock()).await
    }

    /// True once the calls were stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Stops all calls when the guard is dropped.
    pub(super) fn stop_on_drop(&self) -> DropGuard {
        self.cancel.clone().drop_guard()
    }

    /// Tells the model something behind its next results.
    pub(super) fn tell_model(&self, text: &str) {
        let text = self.job.plan.redactor.text(text, None).trim().to_owned();
        *lock_unpoisoned(&self.message) = Some(text).filter(|text| !text.is_empty());
    }

    /// The context that all calls of the session share.
    pub(super) fn context(&self) -> Arc<CallContext> {
        Arc::clone(&self.context)
    }

    /// Calls a skill for the host, which judges the change by the result. Stops at the deadline.
    pub(super) async fn call_for_host(&self, skill: &str, arguments: Value, deadline: Option<Deadline>) -> CallReport {
        let number = self.own_calls.fetch_add(1, Ordering::Relaxed) + 1;
        let call = ToolCall {
            id: format!("host-{number}"),
            name: skill.to_owned(),
            arguments: arguments.to_string(),
        };
        self.started(&call);
        let report = {
            let context = self.judging_context();
            let mut performed = std::pin::pin!(self.perform(&context, &call));
            tokio::select! {
                report = &mut performed => report,
                () = wait_until(deadline) => {
                    self.stop();
                    let patience = limits::seconds(limits::TOOLS_STOP_SECONDS_MAX);
                    let stopped = tokio::time::timeout(patience, performed).await;
                    stopped.unwrap_or_else(|_| never_ended(skill))
                }
            }
        };
        self.finished(&call, &result_of(&call, &report));
        report
    }

    fn judging_context(&self) -> Arc<CallContext> {
        let is_from_nothing = matches!(
            &self.job.plan.task,
            SessionTask::Operation(task) if task.request.verification == VerificationRule::Required
        );
        Arc::new(CallContext {
            runs: RunScope {
                asker: RunAsker::Verdict { is_from_nothing },
                ..self.context.runs.clone()
            },
            ..(*self.context).clone()
        })
    }

    /// Calls a skill for another agent, with the agent's approver and progress.
    pub(super) async fn call_for_client(&self, context: &Arc<CallContext>, call: &ToolCall) -> CallReport {
        self.started(call);
        let report = self.perform(context, call).await;
        self.finished(call, &result_of(call, &report));
        report
    }

    /// The context of one call: the session's files and conversation, and the rest of `own`.
    pub(super) fn context_of_call(&self, own: CallContext) -> Arc<CallContext> {
        Arc::new(CallContext {
            files: Arc::clone(&self.context.files),
            conversation: Arc::clone(&self.context.conversation),
            runs: self.context.runs.clone(),
            ..own
        })
    }

    /// Returns a report's origin.
    fn origin(&self, report: &CallReport) -> TextOrigin {
        match (report.receipt.is_some(), report.foreign.is_empty()) {
            (false, _) => TextOrigin::Service,
            (true, false) => TextOrigin::Outside(report.foreign.clone()),
            (true, true) if self.context.conversation.taint.is_untrusted() => TextOrigin::Untrusted,
            (true, true) => TextOrigin::Repository,
        }
    }

    /// Runs a call, and taints the conversation with its result.
    ///
    /// Model and skill see placeholders instead of keys. In a proposal, the keys of the replaced file are restored.
    async fn perform(&self, context: &Arc<CallContext>, call: &ToolCall) -> CallReport {
        let context = &Arc::new(CallContext {
            call_id: Some(cut_text(&call.id, limits::SUMMARY_BYTES_MAX).into()),
            ..CallContext::clone(context)
        });
        let writes = RefusedPurpose::from_effects(&self.effects(&call.name)) == RefusedPurpose::Writes;
        let (arguments, redactor) = (call.arguments.clone(), Arc::clone(&self.job.plan.redactor));
        let (repository, cancel) = (Arc::clone(&self.job.plan.repository), context.cancel.clone());
        let about = Arc::new(OnceLock::new());
        let (prepared, redacts) = (Arc::clone(&about), Arc::clone(&redactor));
        let (shown, ends) = (Arc::clone(&repository), cancel.clone());
        let restored = move || {
            let (arguments, file) =
                CallFiles::find_files(&arguments, &repository, &redactor, &cancel).arguments(writes);
            // This is the only place that sets it.
            let _ = prepared.set(file);
            OwnedArguments::Text(arguments)
        };
        let redacted = move |report: &mut CallReport| {
            let file: Option<&String> = about.get().and_then(Option::as_ref);
            learn_shown(report, &shown, &redacts, &ends);
            redact_report(report, &redacts, file.map(String::as_str));
        };
        let mut report = self.job.call_with(context, &call.name, restored, redacted).await;
        show_passed_tests(&mut report);
        context.conversation.taint.note(&report.foreign);
        if let Some(receipt) = &mut report.receipt {
            receipt.arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
        }
        if let Ok(outcome) = &report.result {
            let kind = RefusedPurpose::from_effects(&self.effects(&call.name));
            let named = self.path_of(&call.arguments);
            lock_unpoisoned(&self.missed).done(&call.name, kind, named.as_deref(), &outcome.files_modified);
        }
        let end = NoteEnd {
            verdict: report_verdict(&report),
            summary: summarise_result(&report.result),
            receipt: report.receipt.clone(),
            details: details_of(&report),
        };
        if let Some(note) = lock_unpoisoned(&self.notes).get_mut(&call.id) {
            note.end = Some(end);
        }
        report
    }

    fn note_denial(&self, call: &ToolCall, error: &CallError, report: &CallReport) {
        let (kind, hint) = match error {
            CallError::Unknown { .. } | CallError::Cancelled { .. } => return,
            CallError::Failure { kind, hint, .. } => (kind.clone(), hint.clone()),
            CallError::Trap { .. } | CallError::Limit { .. } | CallError::Busy { .. } => (ErrorKind::Failed, None),
            CallError::Arguments { .. } | CallError::NotReady { .. } => (error.kind().clone(), None),
        };
        let effects = self.effects(&call.name);
        let purpose = RefusedPurpose::from_effects(&effects);
        let is_lost = match purpose {
            RefusedPurpose::Writes => true,
            RefusedPurpose::Acts => effects.contains(&Effect::CommitGit) && !report.notes.had_nothing_to_commit,
            RefusedPurpose::Reads => false,
        };
        // A model cannot foresee a limit, or that a call is impossible here.
        let has_failed = matches!(kind, ErrorKind::Failed | ErrorKind::Limit | ErrorKind::Unavailable) && is_lost;
        let is_refused = kind == ErrorKind::Denied;
        if !is_refused && !has_failed {
            self.note_mistake(call, &error.to_string());
            return;
        }
        let denial = DeniedCall {
            skill: call.name.clone(),
            path: self.path_of(&call.arguments),
            message: error.to_string(),
            hint,
            kind: purpose,
            has_failed,
            is_mistake: false,
            // A question without an answer in time is not a refusal.
            by_user: report.is_refused_by_user() && !self.job.approver.has_expired(),
            is_made_good: false,
        };
        lock_unpoisoned(&self.missed).deny(denial, &effects, |effect| self.job.grant_text(effect));
    }

    /// Records a change that failed through the model's mistake. Mistakes in calls that change nothing are ignored.
    fn note_mistake(&self, call: &ToolCall, message: &str) {
        let effects = self.effects(&call.name);
        if RefusedPurpose::from_effects(&effects) != RefusedPurpose::Writes {
            return;
        }
        let is_of_program = matches!(&self.job.plan.task, SessionTask::Operation(task) if task.request.is_of_program);
        let denial = DeniedCall {
            skill: call.name.clone(),
            path: self.path_of(&call.arguments),
            message: first_line(message),
            hint: Some(retry_hint(is_of_program)),
            kind: RefusedPurpose::Writes,
            has_failed: true,
            is_mistake: true,
            by_user: false,
            is_made_good: false,
        };
        lock_unpoisoned(&self.missed).deny(denial, &effects, |effect| self.job.grant_text(effect));
    }

    /// The path in the arguments of a call.
    pub(super) fn path_of(&self, arguments: &str) -> Option<String> {
        missed_work::path_of(self.job.plan.repository.root(), arguments)
    }

    fn note_cut_off(&self, skill: &str, arguments: &str) {
        let meant = (skill == CALL_SKILL).then(|| missed_work::text_field(arguments, "name"));
        let skill = meant.as_ref().and_then(Option::as_deref).unwrap_or(skill);
        if RefusedPurpose::from_effects(&self.effects(skill)) == RefusedPurpose::Writes {
            lock_unpoisoned(&self.missed).cut_off(skill, self.path_of(arguments));
        }
    }

    fn started(&self, call: &ToolCall) {
        let note = CallNote {
            started: api::current_time(),
            clock: Instant::now(),
            end: None,
        };
        lock_unpoisoned(&self.notes).insert(call.id.clone(), note);
        let args = serde_json::from_str(&call.arguments).unwrap_or_else(|_| match call.arguments.trim() {
            "" => Value::Object(serde_json::Map::new()),
            text => Value::String(text.to_owned()),
        });
        self.job.recorder.event(Event::Skill {
            name: call.name.clone(),
            args: cut_arguments(&args),
            call_id: Some(cut_text(&call.id, limits::SUMMARY_BYTES_MAX)),
        });
    }

    fn finished(&self, call: &ToolCall, result: &ToolResult) {
        let note = lock_unpoisoned(&self.notes).remove(&call.id);
        let (started, duration_ms, end) = match note {
            Some(note) => (note.started, elapsed_ms(note.clock), note.end),
            None => (api::current_time(), 0, None),
        };
        // The loop itself answered a call that never reached a skill, so there is no note of its end.
        let end = end.unwrap_or_else(|| {
            if result.is_error {
                self.note_mistake(call, &result.text);
            }
            NoteEnd {
                verdict: if result.is_error { "failed" } else { "ok" }.to_owned(),
                summary: first_line(&result.text),
                receipt: None,
                details: None,
            }
        });
        self.job.recorder.record(JournalEntry::Tool(ToolEntry {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: cut_text(&call.arguments, limits::JOURNAL_TOOL_BYTES_MAX),
            result: cut_text(&result.text, limits::JOURNAL_TOOL_BYTES_MAX),
            verdict: end.verdict.clone(),
            started,
            duration_ms,
            receipt: end.receipt.map(|receipt| Box::new(cut_receipt(receipt))),
            details: end.details.clone(),
        }));
        self.job.recorder.event(Event::SkillResult {
            name: call.name.clone(),
            verdict: end.verdict,
            summary: end.summary,
            duration_ms,
            details: end.details,
            call_id: Some(cut_text(&call.id, limits::SUMMARY_BYTES_MAX)),
        });
    }
}

impl Observer for SessionTools<'_> {
    fn step(&self, step: TurnStep<'_>) {
        let recorder = &self.job.recorder;
        match step {
            TurnStep::Text(text) => recorder.text(text),
            TurnStep::Reasoning(text) => recorder.reasoning(text),
            TurnStep::ToolStarted(call) => self.started(call),
            TurnStep::ToolFinished(call, result) => self.finished(call, result),
            TurnStep::Usage(usage) => recorder.event(Event::Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cached_tokens: Some(usage.cached_tokens).filter(|cached| *cached > 0),
                estimated: usage.estimated,
                cost: usage.cost().map(f64::from),
            }),
            TurnStep::CallCutOff { name, arguments } => self.note_cut_off(name, arguments),
            TurnStep::Notice(message) => recorder.notice(message, None),
        }
    }

    fn message(&self, at: usize, message: &Message) {
        self.memory.note(&self.job.recorder, &self.context);
        memory::record_message(&self.job.recorder, at, message);
    }
}

/// Cuts a receipt for the journal, which stores contents separately.
pub(super) fn cut_receipt(mut receipt: Receipt) -> Receipt {
    receipt.arguments = cut_arguments(&receipt.arguments);
    receipt
}

fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn elapsed_ms(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn first_line(text: &str) -> String {
    cut_text(text.lines().next().unwrap_or_default(), limits::SUMMARY_BYTES_MAX)
}

/// Details of a call that succeeded, unless they are too long for journal and stream.
pub(super) fn details_of(report: &CallReport) -> Option<Value> {
    let outcome = report.result.as_ref().ok()?;
    keep_details(outcome.details.as_ref())
}

/// `ok`, or the code of the failure.
pub(super) fn report_verdict(report: &CallReport) -> String {
    let verdict = report.result.as_ref().map_or_else(CallError::verdict, |_| "ok");
    verdict.to_owned()
}

/// The result in one line, for people.
pub(super) fn summarise_result(result: &Result<CallOutcome, CallError>) -> String {
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

/// Replaces a result by the host's own sentence about the test run, if there is one. No text of the run remains.
fn show_passed_tests(report: &mut CallReport) {
    let sentence = report.notes.passed_tests.take();
    let run = report.receipt.as_ref().and_then(|receipt| receipt.tests.clone());
    if let (Some(sentence), Ok(outcome)) = (sentence, &mut report.result) {
        report.foreign.clear();
        *outcome = CallOutcome {
            text: sentence,
            truncated: false,
            cursor: None,
            files_modified: std::mem::take(&mut outcome.files_modified),
            details: run.and_then(|run| {
                serde_json::to_value(TestDetails {
                    run,
                    failing: Vec::new(),
                    failing_left_out: 0,
                })
                .ok()
            }),
            ..CallOutcome::default()
        };
    }
}

/// The report of a call that did not end after its cancellation.
fn never_ended(skill: &str) -> CallReport {
    CallReport {
        result: Err(CallError::Cancelled {
            skill: skill.to_owned(),
        }),
        receipt: None,
        foreign: Vec::new(),
        notes: HostNotes::default(),
    }
}

pub(super) fn result_of(call: &ToolCall, report: &CallReport) -> ToolResult {
    ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        is_error: report.result.is_err(),
        text: text_for_model(&report.result),
        origin: TextOrigin::Service,
    }
}

/// The text about a call's end for the model.
fn text_for_model(result: &Result<CallOutcome, CallError>) -> String {
    match result {
        Ok(outcome) => {
            let mut text = outcome.text.clone();
            // The model gets the alternative text of an image or a diagram, and never its content.
            for media in &outcome.media {
                text.push_str(&format!("\n\n({}: {})", media.media_type, media.alternative));
            }
            if !outcome.citations.is_empty() {
                let cited: Vec<String> = outcome.citations.iter().map(Citation::to_string).collect();
                text.push_str(&format!("\n\n(Rests on {}.)", cited.join(", ")));
            }
            match &outcome.cursor {
                Some(cursor) => {
                    let cursor = Value::String(cursor.clone());
                    format!("{text}\n\n(There is more. Call again with the same arguments and \"cursor\": {cursor}.)")
                }
                None if outcome.truncated => format!("{text}\n\n(There is more. Narrow the call.)"),
                None => text,
            }
        }
        Err(error) => match hint_of(error) {
            Some(hint) => format!("{error}\n{hint}"),
            None => error.to_string(),
        },
    }
}

pub(super) fn hint_of(error: &CallError) -> Option<String> {
    match error {
        CallError::Failure { hint, .. } => hint.clone(),
        CallError::Unknown {
            nearest: Some(nearest), ..
        } => Some(format!("Did you mean `{nearest}`?")),
        _ => None,
    }
}
