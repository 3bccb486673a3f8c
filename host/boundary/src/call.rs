//! Runs a call for which it holds a permit of `turns`, up to its receipt: instances, parts on several cores, cleaning
//! the answer, and the commit.
//!
//! `sandbox` bounds what an instance may do while it runs; `registry` has decided which skill is called with which
//! arguments. The stage of a successful call goes to `stage` only here, after the guest is gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use serde_json::Value;

use super::answer::AnswerParts;
use super::arguments::{self, Schema};
use super::bindings::tool::skill::types as wit;
use super::budget::{CallBudget, format_bytes};
use super::call_permits::{CallPermit, CallPermits};
use super::details::{DETAILS_BYTES_MAX, DETAILS_LEVELS_MAX, DetailsError, parse_details, visit_texts};
use super::engine::Runtime;
use super::loaded::{Leftovers, LoadedComponent};
use super::proposal::ProposalTerms;
use super::spelling::Spelling;
use super::stage::{MadeChange, StageContent, commit_stage, list_staged};
use super::store::{CallGrants, GuestComponent};
use super::taint::OutsideFiles;
use super::{
    AnswerSources, CallContext, CallError, CallOutcome, CallReport, DISAGREED, Failure, FailureKind, HostNotes, Limits,
    RawArguments, Services, log,
};
use crate::budget::CALL_PLACES_MAX;
use crate::limits;
use crate::taint::FOREIGN_PLACES_MAX;
use tool_core::api::{Effect, ErrorKind, Receipt};
use tool_core::digest::sha256_hex;
use tool_core::text::{clean_line, clean_text, truncate_text};
use tool_repository::{Likeness, fold_case, normalise_path};
use tool_sandbox::scratch::{self, ScratchFolder};

/// Bytes of the cursor of an answer, which the model repeats word by word. The longest of ours has a path and a number.
const CURSOR_BYTES_MAX: usize = 8 * 1024;

/// Longest message or hint of a failure.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// One call, ready to run.
pub struct PreparedCall<'a> {
    /// The engine.
    pub runtime: &'a Runtime,
    /// Admission control of calls.
    pub turns: &'a CallPermits,
    /// The component.
    pub loaded: &'a LoadedComponent,
    /// Name of the function.
    pub name: &'a str,
    /// Name of the component; its settings and stored values belong to all of its functions.
    pub component: &'a str,
    /// JSON Schema of the component's settings; absent if it has none.
    pub configuration: Option<&'a Value>,
    /// SHA-256 of the component, hexadecimal.
    pub digest: &'a str,
    /// True for a skill of this program.
    pub is_builtin: bool,
    /// Sources of its answers; `None` for a skill that is not of this program, whatever its descriptor states.
    pub sources: Option<AnswerSources>,
    /// Effects that the function declares.
    pub declared: &'a [Effect],
    /// Declared effects that the user and the repository's lock file grant.
    pub within: Vec<Effect>,
    /// True if its arguments may hold a cursor.
    pub takes_cursor: bool,
    /// Schema of the details of its answers; absent if it gives none.
    pub output: Option<&'a Schema>,
    /// Checked arguments.
    pub arguments: Value,
    /// One sentence for each argument that was corrected.
    pub changes: Vec<String>,
    /// JSON pointers of the paths among the arguments.
    pub paths: Vec<String>,
    /// The session of the call.
    pub context: &'a Arc<CallContext>,
    /// The work behind the imports.
    pub services: &'a Arc<dyn Services>,
    /// The bounds of the call.
    pub limits: Limits,
}

impl PreparedCall<'_> {
    /// Runs the call. The caller holds a permit.
    pub fn run(mut self) -> CallReport {
        let call = CallBudget::new(self.name, self.limits, &self.context.cancel);
        self.runtime.watch(&call);
        call.judge_files(OutsideFiles::from_context(self.context));
        if let Some(recorder) = &self.context.recorder {
            call.record(recorder);
        }
        // The host's work for the guest ends with the call, also at the call's deadline.
        let context = Arc::new(CallContext {
            cancel: call.token.clone(),
            ..CallContext::clone(self.context)
        });
        let component = GuestComponent {
            name: self.component.to_owned(),
            configuration: self.configuration.cloned(),
        };
        let grants = CallGrants::new(&context, self.services, self.declared, &self.within).of(component);
        if grants.has(Effect::WriteRepository) {
            call.keep_served();
        }
        let spelling = self.respell(&grants);
        let mut result = self.outcome(&call, &grants);
        match &mut result {
            Ok(outcome) => {
                self.note_shown(&call, &outcome.text);
                let notices = [call.ignores_notice(), spelling.notice()];
                for notice in notices.into_iter().flatten().chain(call.deeds().notices) {
                    outcome.text.push_str(&format!("\n\n[tool] {notice}"));
                }
            }
            Err(CallError::Failure { kind, hint, .. }) if *kind == ErrorKind::NotFound => {
                *hint = spelling.hint().or_else(|| hint.take());
            }
            Err(_) => {}
        }
        log::report_dropped(&call);
        // Ends every wait in the host for this call.
        call.token.cancel();
        let receipt = self.receipt(&call, &grants, &result);
        // The text of a foreign skill may claim anything about a run.
        let is_ours = self.is_builtin && result.is_ok();
        let deeds = call.deeds();
        let notes = HostNotes {
            passed_tests: is_ours.then(|| deeds.passed_sentence()).flatten(),
            has_user_refused: self.context.approver.has_refused() || self.context.conversation.refusals.has_final(),
            had_nothing_to_commit: deeds.had_nothing_to_commit,
            log: call.take_messages(),
        };
        CallReport {
            foreign: self.foreign(&call, &result),
            notes,
            result,
            receipt: Some(receipt),
        }
    }

    /// Replaces a path that does not exist by the one name that looks the same. For a skill that writes, a name in
    /// another case does not count. For a skill that asks git nothing is replaced, because it may ask for a deleted
    /// file.
    fn respell(&mut self, grants: &CallGrants) -> Spelling {
        let asks_git = [Effect::ReadGit, Effect::CommitGit]
            .iter()
            .any(|&effect| grants.declares(effect));
        if asks_git || !grants.has(Effect::ReadRepository) {
            return Spelling::default();
        }
        let likeness = if grants.declares(Effect::WriteRepository) {
            Likeness::Look
        } else {
            Likeness::Case
        };
        let spelling = Spelling::apply(&mut self.arguments, &self.paths, &self.context.repository, likeness);
        self.changes.extend(spelling.replaced.iter().cloned());
        spelling
    }

    /// Notes the files that the answer shows, so that a later proposal may replace them. Built-in skills are believed;
    /// for any other skill, only content that really is in its answer counts.
    fn note_shown(&self, call: &CallBudget, text: &str) {
        let mut shown = call.claims();
        shown.retain(|path, sha256| self.is_builtin || self.is_in(call, text, path, sha256));
        if !shown.is_empty() {
            let mut files = self.context.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.seen.extend(shown);
        }
    }

    /// True if the part of an answer that reaches the model holds the whole content of a file.
    fn is_in(&self, call: &CallBudget, text: &str, path: &str, sha256: &str) -> bool {
        let told = truncate_text(text, limits::TOOL_RESULT_BYTES_MAX);
        let Ok(content) = self
            .context
            .repository
            .read_within(path, told.len() as u64, &call.token)
        else {
            return false;
        };
        let is_same = sha256_hex(&content) == sha256;
        let redactor = &self.context.conversation.redactor;
        let shown = redactor.searchable(&content, call.may_write()).unwrap_or(content);
        is_same && std::str::from_utf8(&shown).is_ok_and(|content| told.contains(&*clean_text(content)))
    }

    /// Places outside the user's own files whose text may be in the result. The programs that the call ran and the
    /// files that it read decide this, and not what the result says.
    fn foreign(&self, call: &CallBudget, result: &Result<CallOutcome, CallError>) -> Vec<String> {
        let mut foreign = Vec::new();
        if self.context.turn.has_run_program() {
            foreign.push(format!("the output of `{}`", self.name));
        }
        if self.sources == Some(AnswerSources::Foreign) && call.read.get() > 0 {
            foreign.push(format!("what `{}` read", self.name));
        }
        foreign.extend(call.outside());
        if call.has_more_places() {
            foreign.push(format!("more than {CALL_PLACES_MAX} places"));
        }
        let text = said_text(result);
        let mut arguments = Vec::new();
        paths_in(&self.arguments, &mut arguments);
        // A skill that names its sources opens a file that no list holds only where an argument names it. For any other
        // skill, every opened file counts.
        let names_sources = self.sources.is_some();
        let is_said = |path: &str| {
            let is_in = |argument: &String| fold_case(argument).contains(&*fold_case(path));
            !names_sources || !is_shown_as_it_is(path) || text.contains(path) || arguments.iter().any(is_in)
        };
        for (path, place) in call.places() {
            let is_foreign = if place.is_named {
                !place.is_listed || is_said(&path)
            } else {
                !self.is_own(&path)
            };
            if is_foreign && foreign.len() < FOREIGN_PLACES_MAX {
                foreign.push(format!("`{}`", clean_line(&path)));
            }
        }
        foreign
    }

    /// True for a file that is neither ignored nor in a skipped directory, and for one that the session made.
    fn is_own(&self, path: &str) -> bool {
        let files = self.context.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.changed.contains_key(path) {
            return true;
        }
        // Released before the repository is asked, which may walk the tree.
        drop(files);
        self.context.repository.lists(path, &self.context.cancel)
    }

    fn outcome(&self, call: &Arc<CallBudget>, grants: &CallGrants) -> Result<CallOutcome, CallError> {
        let reads = Effect::ReadRepository;
        if grants.declares(reads) && !grants.has(reads) {
            return Err(grants.denied(self.name, reads));
        }
        let (mut outcome, left) = self.guest(call, grants)?;
        let details = self.checked_details(outcome.details.take())?;
        let mut outcome = self.checked(outcome)?;
        let deletions = std::mem::take(&mut outcome.deletions);
        let made = self.commit(grants, left.stage, deletions, left.terms)?;
        for path in &made.hard_linked {
            call.note_notice(format!(
                "`{path}` had other names (hard links): they keep its old content."
            ));
        }
        Ok(CallOutcome {
            files_modified: made.paths,
            text: outcome.text,
            truncated: outcome.truncated,
            cursor: outcome.cursor,
            details,
            citations: left.answer.citations,
            media: left.answer.media,
        })
    }

    fn guest(&self, call: &Arc<CallBudget>, grants: &CallGrants) -> Result<(wit::Outcome, Leftovers), CallError> {
        let arguments = self.arguments.to_string();
        let parts = if self.loaded.is_sharded() && may_be_split(grants) {
            self.split(call, grants, &arguments)?
        } else {
            None
        };
        match parts {
            Some((parts, turns)) => {
                let parts = self.parts(call, grants, &parts, turns.len())?;
                // The merge runs on this thread alone.
                drop(turns);
                let (outcomes, answers): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
                let (outcome, mut left) = self.merge(call, grants, &arguments, &outcomes)?;
                left.answer.prepend(answers);
                Ok((outcome, left))
            }
            None => self.plain(call, grants, &arguments),
        }
    }

    fn plain(
        &self,
        call: &Arc<CallBudget>,
        grants: &CallGrants,
        arguments: &str,
    ) -> Result<(wit::Outcome, Leftovers), CallError> {
        let (answer, left) = self.loaded.call(call, grants.clone(), self.name, arguments)?;
        match answer {
            Err(_) if call.stage_full.load(Ordering::Relaxed) => Err(self.no_room()),
            Err(failure) => Err(self.failure(failure)),
            Ok(outcome) => Ok(with_pieces(outcome, left)),
        }
    }

    /// Asks the guest to split the call into as many parts as there are cores and permits. `None` if one instance does
    /// all the work.
    #[expect(clippy::type_complexity, reason = "two values with one use each")]
    fn split(
        &self,
        call: &Arc<CallBudget>,
        grants: &CallGrants,
        arguments: &str,
    ) -> Result<Option<(Vec<String>, Vec<CallPermit<'_>>)>, CallError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // One part runs on this thread, for which the caller already holds a permit.
        let mut turns = self.turns.more(cores.min(self.limits.parts).saturating_sub(1));
        if turns.is_empty() {
            return Ok(None);
        }
        let asked = (turns.len() + 1) * limits::CALL_PARTS_PER_THREAD;
        let asked = u32::try_from(asked).unwrap_or(u32::MAX);
        let parts = self.loaded.split(call, grants.clone(), self.name, arguments, asked)?;
        let parts = parts.map_err(|failure| self.failure(failure))?;
        // The number comes from the guest, and each part costs an instance.
        if parts.len() > asked as usize {
            return Err(CallError::Trap {
                skill: self.name.to_owned(),
                reason: format!(
                    "it split a call into {} parts where {asked} were asked for",
                    parts.len()
                ),
            });
        }
        // Permits that no part needs are free for other calls at once.
        turns.truncate(parts.len().saturating_sub(1));
        Ok((parts.len() > 1).then_some((parts, turns)))
    }

    /// Runs the parts in instances of their own, on this thread and as many others as there are permits. The first
    /// failure ends all of them.
    fn parts(
        &self,
        call: &Arc<CallBudget>,
        grants: &CallGrants,
        parts: &[String],
        others: usize,
    ) -> Result<Vec<(wit::Outcome, AnswerParts)>, CallError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((at, part)) = take_part(&next, parts) {
                let result = self
                    .plain(call, grants, part)
                    .map(|(outcome, left)| (outcome, left.answer));
                if result.is_err() {
                    call.token.cancel();
                }
                done.push((at, result));
            }
            done
        };
        let mut results = std::thread::scope(|scope| {
            let others: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
            let mut results = work();
            for thread in others {
                results.extend(thread.join().unwrap_or_else(|_| vec![(0, Err(self.host_failed()))]));
            }
            results
        });
        // Threads end in any order, on which the answer must not depend.
        results.sort_by_key(|(at, _)| *at);
        first_failure(results.into_iter().map(|(_, result)| result).collect())
    }

    fn host_failed(&self) -> CallError {
        CallError::Trap {
            skill: self.name.to_owned(),
            reason: "the host failed in one of its parts".to_owned(),
        }
    }

    fn merge(
        &self,
        call: &Arc<CallBudget>,
        grants: &CallGrants,
        arguments: &str,
        outcomes: &[wit::Outcome],
    ) -> Result<(wit::Outcome, Leftovers), CallError> {
        let merged = self
            .loaded
            .merge(call, grants.clone(), self.name, arguments, outcomes)?;
        let (merged, left) = merged;
        let outcome = merged.map_err(|failure| self.failure(failure))?;
        Ok(with_pieces(outcome, left))
    }

    /// Failure for a full disk. The host names it, because the guest only gets an error number and no path of the host.
    fn no_room(&self) -> CallError {
        let disk = scratch::choose_disk(self.context.repository.state_directory());
        let message = format!("The change could not be prepared: no space is left on {disk}; nothing was changed");
        self.failure(Failure::failed(message).with_hint(disk.hint()))
    }

    fn failure(&self, failure: impl Into<Failure>) -> CallError {
        let failure = failure.into();
        let text = |text: &str| clean_text(truncate_text(text, MESSAGE_BYTES_MAX)).into_owned();
        let mut message = text(&failure.message);
        // Only the host may say what the user answered.
        if message.starts_with(DISAGREED) && !self.context.approver.has_refused() {
            message.insert_str(0, "it says: ");
        }
        CallError::Failure {
            skill: self.name.to_owned(),
            kind: failure.kind.into(),
            message,
            hint: failure.hint.as_deref().map(text),
        }
    }

    /// Bounds and cleans an answer.
    fn checked(&self, outcome: wit::Outcome) -> Result<wit::Outcome, CallError> {
        let exceeded = |limit: String, kind: ErrorKind| CallError::Limit {
            skill: self.name.to_owned(),
            limit,
            kind,
        };
        if outcome.text.len() > self.limits.output_bytes {
            return Err(exceeded(
                format!("{} of text", format_bytes(self.limits.output_bytes as u64)),
                ErrorKind::Output,
            ));
        }
        let cursor_bytes = outcome.cursor.as_ref().map_or(0, String::len);
        if cursor_bytes > CURSOR_BYTES_MAX {
            let size = CURSOR_BYTES_MAX / 1024;
            return Err(exceeded(format!("{size} KiB of cursor"), ErrorKind::Output));
        }
        if outcome.deletions.len() as u64 > self.limits.staged_entries {
            return Err(exceeded(
                format!("{} deletions", self.limits.staged_entries),
                ErrorKind::StageLimit,
            ));
        }
        // A cursor that had to be cleaned would come back changed, and the schema could refuse it.
        let cursor = outcome.cursor.filter(|cursor| self.takes_cursor && is_plain(cursor));
        Ok(wit::Outcome {
            text: clean_text(&outcome.text).into_owned(),
            truncated: outcome.truncated || cursor_bytes > 0,
            cursor,
            deletions: outcome.deletions,
            details: None,
        })
    }

    /// Bounds and cleans the details of an answer, and checks them against their schema.
    fn checked_details(&self, details: Option<String>) -> Result<Option<Value>, CallError> {
        let parsed = details.as_deref().map(parse_details).transpose();
        let details = parsed.map_err(|error| match error {
            DetailsError::TooLong => CallError::Limit {
                skill: self.name.to_owned(),
                limit: format!("{} of details", format_bytes(DETAILS_BYTES_MAX as u64)),
                kind: ErrorKind::Output,
            },
            DetailsError::NotAnObject => CallError::Trap {
                skill: self.name.to_owned(),
                reason: format!("its details are not a JSON object of at most {DETAILS_LEVELS_MAX} levels"),
            },
        })?;
        if let (Some(details), Some(schema)) = (&details, self.output) {
            arguments::check_arguments(self.name, schema, &RawArguments::Value(details)).map_err(|error| {
                CallError::Trap {
                    skill: self.name.to_owned(),
                    reason: match error {
                        CallError::Arguments { pointer, expected, .. } => {
                            format!(
                                "its details do not fit the schema of its output at `{pointer}`: expected {expected}"
                            )
                        }
                        _ => "its details are larger than the schema of its output can be tried on".to_owned(),
                    },
                }
            })?;
        }
        Ok(details)
    }

    /// Commits what the call proposes.
    fn commit(
        &self,
        grants: &CallGrants,
        stage: Option<ScratchFolder>,
        deletions: Vec<String>,
        terms: ProposalTerms,
    ) -> Result<MadeChange, CallError> {
        if stage.is_none() && deletions.is_empty() && terms.is_empty() {
            return Ok(MadeChange::default());
        }
        let writes = Effect::WriteRepository;
        if let Some(recorder) = &self.context.recorder {
            let staged = stage.map(|stage| list_staged(stage.path())).transpose();
            let mut paths = staged.map_err(|failure| self.failure(failure))?.unwrap_or_default();
            paths.extend(deletions);
            paths.extend(terms.paths());
            recorder.staged(&paths);
            return Ok(MadeChange {
                paths,
                ..MadeChange::default()
            });
        }
        if !grants.has(writes) {
            return Err(grants.denied(self.name, writes));
        }
        let stage = match stage {
            Some(stage) => stage,
            None => {
                let home = self.context.repository.state_directory();
                scratch::create_folder(home, "tool-stage-").map_err(|error| CallError::Failure {
                    skill: self.name.to_owned(),
                    kind: ErrorKind::Failed,
                    message: format!("the proposal could not be made: {error}"),
                    hint: scratch::choose_disk(home).hint_for(&error),
                })?
            }
        };
        let left = StageContent {
            stage: stage.path(),
            deletions: &deletions,
            terms: &terms,
        };
        commit_stage(self.context, self.services.as_ref(), left).map_err(|failure| self.failure(failure))
    }

    fn receipt(&self, call: &CallBudget, grants: &CallGrants, result: &Result<CallOutcome, CallError>) -> Receipt {
        let deeds = call.deeds();
        Receipt {
            tests: deeds.tests,
            commits: deeds.commits,
            packages: deeds.packages,
            requests: deeds.requests,
            skill: self.name.to_owned(),
            digest: self.digest.to_owned(),
            arguments: self.arguments.clone(),
            changes: self.changes.clone(),
            grants: grants.granted().to_vec(),
            wall_us: u64::try_from(call.started.elapsed().as_micros()).unwrap_or(u64::MAX),
            peak_memory_bytes: call.memory_peak(),
            bytes_in: call.read.get(),
            bytes_out: match result {
                Ok(outcome) => outcome.text.len() as u64,
                Err(error) => error.to_string().len() as u64,
            },
            files_proposed: result
                .as_ref()
                .map_or_else(|_| Vec::new(), |outcome| outcome.files_modified.clone()),
            verdict: result.as_ref().map_or_else(CallError::verdict, |_| "ok").to_owned(),
        }
    }
}

/// Everything that a result says to a model or to a program.
fn said_text(result: &Result<CallOutcome, CallError>) -> String {
    match result {
        Ok(outcome) => {
            let mut text = outcome.text.clone();
            if let Some(details) = &outcome.details {
                visit_texts(details, &mut |detail| {
                    text.push('\n');
                    text.push_str(detail);
                });
            }
            let cited = outcome.citations.iter().map(|citation| citation.path.as_str());
            let seen = outcome.media.iter().map(|media| media.alternative.as_str());
            for part in cited.chain(seen) {
                text.push('\n');
                text.push_str(part);
            }
            text
        }
        Err(CallError::Failure {
            message,
            hint: Some(hint),
            ..
        }) => format!("{message}\n{hint}"),
        Err(error) => error.to_string(),
    }
}

/// Puts the pieces that an instance gave while it ran before the text of its outcome.
fn with_pieces(mut outcome: wit::Outcome, mut left: Leftovers) -> (wit::Outcome, Leftovers) {
    let mut text = std::mem::take(&mut left.answer.text);
    text.push_str(&outcome.text);
    outcome.text = text;
    (outcome, left)
}

/// True for a cursor of one line that cleaning does not change.
fn is_plain(cursor: &str) -> bool {
    !cursor.contains(['\n', '\t']) && clean_text(cursor) == cursor
}

/// Takes the next part that no thread works on.
fn take_part<'a>(next: &AtomicUsize, parts: &'a [String]) -> Option<(usize, &'a String)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, parts.get(at)?))
}

/// Returns all outcomes, or the error because of which the others were cancelled.
fn first_failure<T>(results: Vec<Result<T, CallError>>) -> Result<Vec<T>, CallError> {
    let (mut outcomes, mut cancelled) = (Vec::new(), None);
    for result in results {
        match result {
            Ok(outcome) => outcomes.push(outcome),
            Err(error @ CallError::Cancelled { .. }) => cancelled = Some(error),
            Err(error) => return Err(error),
        }
    }
    cancelled.map_or(Ok(outcomes), Err)
}

/// Collects the texts among arguments, normalised if they are paths.
fn paths_in(arguments: &Value, paths: &mut Vec<String>) {
    match arguments {
        Value::String(text) => paths.push(normalise_path(text).unwrap_or_else(|_| text.clone())),
        Value::Array(items) => items.iter().for_each(|item| paths_in(item, paths)),
        Value::Object(fields) => fields.values().for_each(|field| paths_in(field, paths)),
        _ => {}
    }
}

/// False for a name that answers quote, escape or clean.
fn is_shown_as_it_is(path: &str) -> bool {
    path.chars()
        .all(|character| !character.is_control() && !matches!(character, '"' | '\\'))
        && clean_text(path) == path
}

/// True if a call may run in parts: one that causes no effect but reading. Two proposals could contradict each other,
/// and a question would be asked twice.
fn may_be_split(grants: &CallGrants) -> bool {
    grants
        .declared()
        .iter()
        .all(|effect| matches!(effect, Effect::ReadRepository | Effect::ReadGit))
}

/// Kinds of errors that the host reports: limits and obstacles.
const ENDS: [ErrorKind; 15] = [
    ErrorKind::Timeout,
    ErrorKind::Memory,
    ErrorKind::Output,
    ErrorKind::ReadLimit,
    ErrorKind::StageLimit,
    ErrorKind::EntriesLimit,
    ErrorKind::HandlesLimit,
    ErrorKind::InstancesLimit,
    ErrorKind::TablesLimit,
    ErrorKind::RandomLimit,
    ErrorKind::ArgumentsLimit,
    ErrorKind::Trap,
    ErrorKind::Busy,
    ErrorKind::Cancelled,
    ErrorKind::NotReady,
];

/// All kinds with which a call can end without an answer.
pub fn failure_kinds() -> impl Iterator<Item = ErrorKind> + Clone {
    FailureKind::ALL.into_iter().map(ErrorKind::from).chain(ENDS)
}

impl CallError {
    /// Kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        match self {
            Self::Unknown { .. } => &ErrorKind::UnknownSkill,
            Self::Arguments { .. } => &ErrorKind::InvalidArguments,
            Self::Failure { kind, .. } => kind,
            Self::Trap { .. } => &ErrorKind::Trap,
            Self::Limit { kind, .. } => {
                debug_assert!(ENDS.contains(kind), "no case could be told to expect `{kind}`");
                kind
            }
            Self::Busy { .. } => &ErrorKind::Busy,
            Self::Cancelled { .. } => &ErrorKind::Cancelled,
            Self::NotReady { .. } => &ErrorKind::NotReady,
        }
    }

    /// Verdict of the receipt: the code of the kind.
    pub fn verdict(&self) -> &str {
        self.kind().code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_core::api::Citation;

    #[test]
    fn a_place_that_only_the_details_name_is_said() {
        let outcome = CallOutcome {
            text: "1 file".to_owned(),
            truncated: false,
            cursor: None,
            files_modified: Vec::new(),
            details: Some(serde_json::json!({"files": [{"path": "vendor/a.md"}]})),
            citations: vec![Citation {
                path: "vendor/b.md".to_owned(),
                line: None,
            }],
            media: Vec::new(),
        };
        assert_eq!(said_text(&Ok(outcome)), "1 file\nfiles\npath\nvendor/a.md\nvendor/b.md");
    }

    #[test]
    fn a_path_among_arguments_is_known_however_it_is_written() {
        let mut paths = Vec::new();
        let arguments = serde_json::json!({
            "path": "docs//vendor/./a.md",
            "paths": [{"x": "b/../no\"tes.log"}, 3],
            "glob": "/vendor/**",
        });
        paths_in(&arguments, &mut paths);
        paths.sort();
        assert_eq!(paths, ["/vendor/**", "docs/vendor/a.md", "no\"tes.log"]);
        assert!(is_shown_as_it_is("docs/vendor/ä b.md"));
        for odd in ["do\"cs/vendor/", "a\\b.log", "a\nb.log", "a\u{202e}b.log"] {
            assert!(!is_shown_as_it_is(odd), "{odd:?}");
        }
    }
}
