//! The boundary between a skill and the host: the component engine and everything that a guest can reach.
//!
//! A call gets one fresh store, the repository read-only at `/repo`, an empty `/stage` where it may propose changes, and
//! the imports that its declared effects and the policy grant. This crate checks each of them: `guard` and `wasi` are the
//! guest's file system and its other system interfaces, `imports` the functions of `wit/skill.wit`, `policy` and `taint` the
//! decisions, `stage` the judgement of a proposal. Only this crate names wasmtime. Work that needs git, a program or a
//! network is behind the trait [`Services`], which the crate of skills implements.

mod answer;
mod arguments;
pub mod audit;
pub mod bindings;
mod budget;
mod cache;
mod call;
mod code;
mod component;
mod contents;
mod describe;
mod descriptor;
pub mod details;
pub mod embedded;
mod engine;
mod exchange;
mod failure;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod globs;
mod guard;
mod http;
mod imports;
mod loaded;
mod log;
mod named;
pub mod outline;
mod outside;
pub mod policy;
mod proposal;
mod question;
pub mod runner;
pub mod secrets;
mod services;
mod spelling;
pub mod stage;
mod staging;
mod store;
mod streams;
pub mod taint;
pub mod transport;
mod turns;
mod unattended;
mod wasi;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use policy::{Decision, Policy};
use taint::{Taint, VouchedFiles};
use tool_core::api::{Citation, Effect, ErrorKind, Grant, Media, Receipt};
use tool_core::redaction::Redactor;
use tool_repository::Repository;
use tool_repository::changes::ChangeJournal;
use tool_sandbox::scratch::{self, ScratchFolder};

pub use arguments::{Schema, check_call, compile as compile_schema, unmarked};
pub use budget::{CallBudget, Stop, WritablePlace};
pub use cache::Cache;
pub use call::{PreparedCall, failures, kind_told};
pub use component::{CONTRACT, Interfaces, Surface, accepts_contract, inspect, read_interfaces};
pub use contents::{ContentIndex, FileVerdict, PatternKind, SoughtPattern};
pub use describe::{describe, is_name};
pub use descriptor::{ComponentMetadata, Descriptor, FunctionDescriptor, FunctionExample, FunctionMetadata};
pub use engine::{Compiler, EngineError, NativeComponent, Runtime, precompile, precompile_for};
pub use failure::{cancelled, failure, hinted};
use imports::DISAGREED;
pub use imports::{consent, denied};
pub use loaded::Loaded;
pub use outline::{EmbeddedOutliner, Outliners, precompile_outliner};
pub use question::{LastingYeses, Question, Refusals, UserAnswer};
pub use secrets::BoundSecret;
pub use services::{KeyValueStore, Services, SymbolLookup};
pub use transport::{HttpTransport, InboundResponse, OutboundRequest, TransportError};
pub use turns::{CallPermit, HeldTurn, NoRun, Turns, holding};
pub use unattended::{NoServices, Nobody, Unrecorded};

/// The bounds of calls. [`Default`] is what `limits` argues for; tests make them smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of a call in bytes.
    pub memory_bytes: u64,
    /// Wall time of a call without recipes.
    pub wall: Duration,
    /// Wall time of a call in recipes.
    pub recipes: Duration,
    /// Bytes of an answer.
    pub output_bytes: usize,
    /// Bytes that a call leaves in the log.
    pub log_bytes: usize,
    /// Random bytes of a call.
    pub random_bytes: u64,
    /// Bytes that one host call copies.
    pub host_call_bytes: usize,
    /// Bytes that a call reads from files.
    pub read_bytes: u64,
    /// Directory entries that a call walks by itself.
    pub entries: u64,
    /// Table elements of a call.
    pub table_elements: u64,
    /// Core instances, memories and tables of a call, each.
    pub instances: usize,
    /// Live handles of a call.
    pub handles: usize,
    /// Open files and directories of a call.
    pub files_open: usize,
    /// Bytes of a proposal.
    pub staged_bytes: u64,
    /// Files and directories of a proposal.
    pub staged_entries: u64,
    /// Calls at work at the same time.
    pub calls_concurrent: usize,
    /// Calls that wait for their turn.
    pub calls_waiting: usize,
    /// Calls that wait for a person's answer, without a turn.
    pub calls_asking: usize,
    /// Of these, calls of one session.
    pub asking_of_session: usize,
    /// Runs of programs under way at the same time, whose calls have no turn meanwhile.
    pub runs_concurrent: usize,
    /// Calls that wait for one of these to end, without a turn.
    pub runs_waiting: usize,
    /// Of both, those of one session.
    pub runs_of_session: usize,
    /// Longest wait of a call for its turn, or for its run.
    pub turn_wait: Duration,
    /// Parts of a sharded call.
    pub parts: usize,
    /// Time for compiling a foreign component.
    pub compile: Duration,
    /// Memory for compiling a foreign component.
    pub compile_memory_bytes: u64,
    /// Wall time of `describe`.
    pub describe: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: limits::CALL_MEMORY_BYTES_MAX,
            wall: Duration::from_millis(limits::CALL_WALL_MS_MAX),
            recipes: Duration::from_millis(limits::CALL_RECIPE_MS_MAX),
            output_bytes: limits::OUTPUT_BYTES_MAX,
            log_bytes: limits::CALL_LOG_BYTES_MAX,
            random_bytes: limits::CALL_RANDOM_BYTES_MAX,
            host_call_bytes: limits::HOST_CALL_BYTES_MAX,
            read_bytes: limits::CALL_READ_BYTES_MAX,
            entries: limits::CALL_ENTRIES_MAX,
            table_elements: limits::CALL_TABLE_ELEMENTS_MAX,
            instances: limits::CALL_INSTANCES_MAX,
            handles: limits::CALL_HANDLES_MAX,
            files_open: limits::CALL_FILES_OPEN_MAX,
            staged_bytes: limits::STAGED_BYTES_MAX,
            staged_entries: limits::STAGED_ENTRIES_MAX,
            calls_concurrent: limits::CALLS_CONCURRENT_MAX,
            calls_waiting: limits::CALLS_WAITING_MAX,
            calls_asking: limits::CALLS_ASKING_MAX,
            asking_of_session: limits::SESSION_CALLS_ASKING_MAX,
            runs_concurrent: limits::CALLS_RUNNING_MAX,
            runs_waiting: limits::CALLS_RUN_WAITING_MAX,
            runs_of_session: limits::SESSION_CALLS_RUNNING_MAX,
            turn_wait: Duration::from_millis(limits::CALL_TURN_WAIT_MS_MAX),
            parts: limits::CALL_PARTS_MAX,
            compile: Duration::from_millis(limits::COMPILE_MS_MAX),
            compile_memory_bytes: limits::COMPILE_MEMORY_BYTES_MAX,
            describe: Duration::from_millis(limits::DESCRIBE_WALL_MS_MAX),
        }
    }
}

/// Repository, rights and state of calls: one for a session, shared by its calls.
#[derive(Clone)]
pub struct CallContext {
    /// The repository.
    pub repository: Arc<Repository>,
    /// Decisions about effects.
    pub policy: Policy,
    /// Answers questions, where the policy says `ask`.
    pub approver: Arc<dyn Approver>,
    /// Identifier of the call in the session's events.
    pub call_id: Option<Arc<str>>,
    /// Journal that records changes before they happen.
    pub changes: Arc<dyn ChangeJournal>,
    /// Files that the model has seen, and changes of the session.
    pub files: Arc<Mutex<SessionFiles>>,
    /// Redactor, taint and counters of the conversation.
    pub conversation: Arc<Conversation>,
    /// Ends the session, and with it every call.
    pub cancel: CancellationToken,
    /// Effects that the repository's lock file grants the skills of a team, where it has one.
    pub locked: Option<Arc<dyn LockedSkills>>,
    /// Takes note of what calls do. They propose nothing then.
    pub recorder: Option<Arc<audit::Recorder>>,
    /// `PATH`, `VIRTUAL_ENV`, `HOME`, proxies: what recipes may see of the starter's environment.
    pub environment: BTreeMap<String, String>,
    /// Live output of a recipe, line by line, for the user.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
    /// Turn that a call gives up while a program runs for it. Set for each call once it has its turn.
    pub turn: HeldTurn,
    /// Facts that decide whether its runs find build output of earlier ones.
    pub runs: RunScope,
}

/// The one that asks for the runs of a call, and the changes of sessions in the repository.
#[derive(Clone, Default)]
pub struct RunScope {
    /// The one that asks.
    pub asker: RunAsker,
    /// Changes of sessions. Without it no state counts as the user's own.
    pub changes: Option<Arc<dyn SessionChanges>>,
    /// Build output that the runs of a model share.
    pub builds: Arc<SessionBuilds>,
}

/// Build output of the runs that a session's model asks for: a layer above the kept output. It is deleted with the
/// session.
#[derive(Debug, Default)]
pub struct SessionBuilds(Mutex<Option<ScratchFolder>>);

impl SessionBuilds {
    /// Returns the folder of the session's build output, and creates it in the first call; `None` if it cannot be created.
    /// `home` is `tool`'s own directory.
    pub fn folder(&self, home: &Path) -> Option<PathBuf> {
        let mut folder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if folder.is_none() {
            *folder = scratch::folder(Some(home), "tool-session-").ok();
        }
        folder.as_ref().map(|folder| folder.path().to_owned())
    }
}

impl Drop for SessionBuilds {
    fn drop(&mut self) {
        let folder = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // It may hold many files, and no session waits for their end. If no thread can start, they are removed here.
        if folder.is_some() {
            let _ = std::thread::Builder::new().spawn(move || drop(folder));
        }
    }
}

/// The one that asks for a run of tests or of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunAsker {
    /// A model, or another agent.
    #[default]
    Model,
    /// The user.
    User,
    /// The host, which judges a change by the result.
    Verdict {
        /// True: nothing that an earlier run has built may be used.
        is_from_nothing: bool,
    },
}

/// Tells which files are as sessions have left them.
pub trait SessionChanges: Send + Sync {
    /// Finds the files that still hold a session's change: of those that sessions after `seen` have changed and those in
    /// `seen.put_back`, the ones that differ from their state before the first change. Blocks.
    fn left_by_sessions(&self, repository: &Repository, seen: &SeenSessions) -> LeftFiles;
}

/// No session has changed anything.
pub struct NoChanges;

impl SessionChanges for NoChanges {
    fn left_by_sessions(&self, _: &Repository, _: &SeenSessions) -> LeftFiles {
        LeftFiles::default()
    }
}

/// Files that sessions have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftFiles {
    /// The sessions that this list covers.
    pub seen: SeenSessions,
    /// Paths relative to the root.
    pub paths: BTreeSet<String>,
}

/// Sessions whose changes have been looked at. The default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenSessions {
    /// Identifier of the newest one.
    pub newest: Option<String>,
    /// Changed files that had their old content again. A session's content can come back, for example by `git stash pop`.
    pub put_back: BTreeSet<String>,
}

/// State of the conversation that calls belong to. The default has just begun, in a trusted repository.
#[derive(Debug, Default)]
pub struct Conversation {
    /// The keys that the model knows as placeholders.
    pub redactor: Arc<Redactor>,
    /// Foreign text that has entered it.
    pub taint: Taint,
    /// What the user said no to.
    pub refusals: Refusals,
    /// What the user said yes to for the rest of the session.
    pub yeses: LastingYeses,
    /// Files that git does not track and that are the user's all the same.
    pub vouched: VouchedFiles,
    /// Calls of it that wait for a person's answer.
    pub asking: AtomicUsize,
    /// Calls of it that wait for a program.
    pub running: AtomicUsize,
}

impl CallContext {
    /// Decides on `effect`, given the current taint and the user's answers so far.
    pub fn decide(&self, effect: Effect) -> Decision {
        let can_ask = self.approver.can_ask() && !self.conversation.refusals.is_final(effect);
        let taint = &self.conversation.taint;
        let decision = if taint.is_tainted() {
            self.policy.decide_tainted(effect, can_ask)
        } else {
            self.policy.decide(effect, can_ask)
        };
        match decision {
            Decision::Ask if self.may_last(effect) && self.conversation.yeses.covers(effect, taint.texts()) => {
                Decision::Allow
            }
            decision => decision,
        }
    }

    /// True where the user of this session answers a question about `effect`.
    pub fn can_ask(&self, effect: Effect) -> bool {
        self.approver.can_ask() && self.policy.may_ask(effect)
    }

    /// True if a yes to `effect` may count for the session. It may not in a repository that is not trusted, where all text
    /// comes from outside, nor in a tainted conversation if the effect reaches further than the repository's files.
    fn may_last(&self, effect: Effect) -> bool {
        let taint = &self.conversation.taint;
        !(taint.is_untrusted() || taint.is_tainted() && effect.reaches_further())
    }

    /// Why `effect` is denied, and what the user can do about it.
    pub fn denial(&self, effect: Effect) -> (String, String) {
        let because = self.conversation.taint.because();
        let is_tainted = because.is_some();
        let names_it = |denied: &String| {
            denied
                .parse()
                .is_ok_and(|grant: Grant| grant.covers(effect, is_tainted))
        };
        if self.repository.narrowing().deny.iter().any(names_it) {
            return (
                format!("The effect `{effect}` is denied by the repository's `.tool.toml`."),
                "only who may change the repository's `.tool.toml` can grant it".to_owned(),
            );
        }
        if self.conversation.refusals.is_final(effect) && self.policy.decide(effect, true) != Decision::Deny {
            return (
                format!("The effect `{effect}` is denied for the rest of this session."),
                format!("the user said no to `{effect}` twice: go on without it, and say what is left to do"),
            );
        }
        let is_granted = self.policy.decide(effect, self.approver.can_ask()) != Decision::Deny;
        let message = match because.filter(|_| is_granted) {
            Some(because) => format!("The effect `{effect}` is not granted any more: {because}."),
            None => format!("The effect `{effect}` is not granted here."),
        };
        let mut hint = self.policy.remedy(effect, is_tainted);
        let would_ask = is_tainted && self.policy.decide_tainted(effect, true) == Decision::Ask;
        if would_ask && self.policy.is_of_another_agent() && !self.approver.can_ask() {
            hint.push_str("; an agent that can ask its user (elicitation) needs no grant");
        }
        (message, hint)
    }
}

/// Effects that a repository's lock file leaves to a team's skills.
pub trait LockedSkills: Send + Sync {
    /// The effects that the lock file grants a skill; nothing where it does not name the skill.
    fn effects(&self, skill: &str) -> Option<&BTreeSet<Effect>>;

    /// SHA-256 (hexadecimal) of the component that the lock file names for a skill.
    fn digest(&self, skill: &str) -> Option<&str>;

    /// True where no skill of a team may be used but those that the lock file names.
    fn is_closed(&self) -> bool;
}

/// Files that the model has seen and changes of the session, by path relative to the root.
#[derive(Debug, Default)]
pub struct SessionFiles {
    /// SHA-256 (hexadecimal) of the content that went to the model, or that it wrote.
    pub seen: BTreeMap<String, String>,
    /// Paths that the session created, replaced or deleted.
    pub changed: BTreeMap<String, ChangeKind>,
    /// Places outside the root that the user lets git read: a worktree's repository, and what it borrows objects from.
    pub git_elsewhere: BTreeSet<PathBuf>,
    /// Records of packages that the session has written to, by path: the digest of what each held before, or nothing where it
    /// was not there. [`Services::note_changes`] keeps them.
    pub package_records: BTreeMap<String, Option<String>>,
}

/// Change of a file by a session, compared with its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Created,
    /// Its content is another one.
    Modified,
    /// It is gone.
    Deleted,
}

/// Answers questions of the policy. Called on a blocking thread.
pub trait Approver: Send + Sync {
    /// True if a user will answer.
    fn can_ask(&self) -> bool;

    /// Asks and waits for the answer, a refusal after a time, or cancellation.
    fn ask(&self, question: &Question, cancel: &CancellationToken) -> UserAnswer;

    /// True where the last question was not asked, because too many others wait for their answers.
    fn is_crowded(&self) -> bool {
        false
    }

    /// True once the user has said no. Until then, only a skill can claim so.
    fn has_refused(&self) -> bool {
        false
    }
}

/// Answer of a call that worked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallOutcome {
    /// Text for the model.
    pub text: String,
    /// True where there is more.
    pub truncated: bool,
    /// Asks for the rest.
    pub cursor: Option<String>,
    /// Paths of the committed proposal.
    pub files_modified: Vec<String>,
    /// The answer for programs, as the skill gave it: a JSON object, for showing only.
    pub details: Option<Value>,
    /// Places in the repository that the answer rests on.
    pub citations: Vec<Citation>,
    /// Images and diagrams. A model gets their alternative texts.
    pub media: Vec<Media>,
}

/// Why a call did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No such skill.
    #[error("There is no skill named `{name}`.{}", did_you_mean(nearest.as_deref()))]
    Unknown {
        /// As it was asked for.
        name: String,
        /// The nearest known one.
        nearest: Option<String>,
    },
    /// The arguments do not satisfy the schema. For the model.
    #[error(
        "Invalid arguments for `{skill}`{}: expected {expected}{}.",
        at(pointer),
        but_got(got, *is_surplus)
    )]
    Arguments {
        /// The skill.
        skill: String,
        /// JSON pointer of the offending value; empty is the whole.
        pointer: String,
        /// Expected value, in words.
        expected: String,
        /// Given value, in words.
        got: String,
        /// True for a field that the schema does not know: `expected` names it already.
        is_surplus: bool,
    },
    /// The skill answered with a failure.
    #[error("{message}")]
    Failure {
        /// The skill.
        skill: String,
        /// One of the contract's codes.
        kind: ErrorKind,
        /// For the model.
        message: String,
        /// Next step to try.
        hint: Option<String>,
    },
    /// The component trapped.
    #[error("The skill `{skill}` crashed: {reason}")]
    Trap {
        /// The skill.
        skill: String,
        /// wasmtime's words, without addresses.
        reason: String,
    },
    /// A bound ended it.
    #[error("The skill `{skill}` was stopped: it exceeded its limit of {limit}.")]
    Limit {
        /// The skill.
        skill: String,
        /// `30 s`, `256 MiB of memory`, …
        limit: String,
        /// [`ErrorKind::Timeout`], [`ErrorKind::Memory`], [`ErrorKind::Output`], …
        kind: ErrorKind,
    },
    /// Too many calls, or runs, are at work or waiting.
    #[error("The skill `{skill}` {crowd}. Try again.")]
    Busy {
        /// The skill.
        skill: String,
        /// Limit that was reached.
        crowd: Crowd,
    },
    /// The session ended while it ran.
    #[error("The skill `{skill}` was cancelled.")]
    Cancelled {
        /// The skill.
        skill: String,
    },
    /// The component cannot be used: untrusted, changed, refused.
    #[error("The skill `{skill}` cannot be used: {reason}.")]
    NotReady {
        /// The skill.
        skill: String,
        /// Why.
        reason: String,
    },
}

/// Limit that leaves no room for one more call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Crowd {
    /// Calls: nothing of this one ran.
    #[error("was not called: too many calls are at work")]
    Calls,
    /// Runs of programs: the call ended before its own.
    #[error("ran nothing: too many test runs and installations are under way")]
    Runs,
}

fn at(pointer: &str) -> String {
    match pointer {
        "" => String::new(),
        pointer => format!(" at `{pointer}`"),
    }
}

/// Words for the given value. Empty for a surplus field, because `expected` names it already.
fn but_got(got: &str, is_surplus: bool) -> String {
    if is_surplus {
        String::new()
    } else {
        format!(", got {got}")
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(" Did you mean `{nearest}`?"))
}

/// A call's end, with what it cost. The receipt is absent only where nothing ran.
#[derive(Debug)]
pub struct CallReport {
    /// Answer or error.
    pub result: Result<CallOutcome, CallError>,
    /// Cost of the call.
    pub receipt: Option<Receipt>,
    /// Places outside of the user's own files whose text is in the result, in words.
    pub foreign: Vec<String>,
    /// The host's own knowledge of the call.
    pub notes: HostNotes,
}

/// Facts about a call that the host knows itself, whatever the skill's answer claims.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNotes {
    /// Sentence about a test run in which every test passed: numbers, and no text of the run. A model gets it instead of
    /// the skill's text.
    pub passed_tests: Option<String>,
    /// True if the user answered no to a question of the call.
    pub has_user_refused: bool,
    /// True if a commit would have held no change.
    pub had_nothing_to_commit: bool,
    /// Messages of the skill to its log, its standard output and its standard error: for people, never for a model.
    pub log: Vec<String>,
}

impl CallReport {
    /// True if the call was denied and the user answered no to a question of it.
    pub fn is_refused_by_user(&self) -> bool {
        let is_denied = matches!(&self.result, Err(CallError::Failure { kind, .. }) if *kind == ErrorKind::Denied);
        is_denied && self.notes.has_user_refused
    }
}

/// The arguments of a call as they came: JSON text of a model, or a value of the user.
#[derive(Debug, Clone, PartialEq)]
pub enum RawArguments<'a> {
    /// Not yet parsed; empty means `{}`.
    Text(&'a str),
    /// Parsed.
    Value(&'a Value),
}

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
