//! The boundary between a skill and the host: the component engine and everything that a guest can reach.
//!
//! A call gets a fresh store, the repository read-only at `/repo`, an empty `/stage` where it may propose changes, and
//! the imports that its declared effects and the policy grant. This crate checks each of them: `guard` and `wasi` are
//! the guest's file system and its other system interfaces, `imports` the functions of `wit/skill.wit`, `policy` and
//! `taint` the decisions, and `stage` judges proposals. Only this crate names wasmtime. Work that needs git, a program
//! or a network is behind the trait [`Services`], which the crate of skills implements.

mod answer;
mod arguments;
pub mod audit;
pub mod bindings;
mod budget;
mod cache;
mod call;
mod call_permits;
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
#[path = "../../../tests/fuzz/entries/boundary.rs"]
pub mod fuzz;
mod globs;
mod guard;
mod http;
mod imports;
mod loaded;
mod log;
mod named_files;
pub mod outline;
pub mod policy;
mod proposal;
mod question;
pub mod runner;
pub mod secrets;
mod services;
mod skill_settings;
mod spelling;
pub mod stage;
mod staging;
mod store;
mod streams;
pub mod taint;
pub mod transport;
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
use tool_core::api::{ChangeKind, Citation, Effect, ErrorKind, Grant, Media, Receipt};
use tool_core::redaction::Redactor;
use tool_repository::Repository;
use tool_repository::changes::ChangeJournal;
use tool_sandbox::scratch::{self, ScratchFolder};

pub use arguments::{Schema, check_call, compile_schema, strip_path_marks};
pub use budget::{CallBudget, GuestStop, WritablePlace};
pub use cache::Cache;
pub use call::{PreparedCall, failure_kinds};
pub use call_permits::{CallPermit, CallPermits, HeldTurn, NoRun, hold_permit};
pub use component::{CONTRACT, Interfaces, Surface, accepts_contract, inspect_component, read_interfaces};
pub use contents::{ContentIndex, FileVerdict, PatternKind, SoughtPattern};
pub use describe::{describe_component, is_name};
pub use descriptor::{
    AnswerSources, ComponentMetadata, Descriptor, FunctionDescriptor, FunctionExample, FunctionMetadata,
};
pub use engine::{Compiler, EngineError, NativeComponent, Runtime, precompile_for, precompile_portable};
pub use failure::{Failure, FailureKind, ImportError, call_cancelled};
use imports::DISAGREED;
pub use imports::{consent, denied_failure};
pub use loaded::LoadedComponent;
pub use outline::{EmbeddedOutliner, Outliners, precompile_outliner};
pub use question::{LastingYeses, Question, Refusals, UserAnswer};
pub use secrets::BoundSecret;
pub use services::{KeyValueStore, Services, SymbolLookup};
pub use transport::{HttpTransport, InboundResponse, OutboundRequest, TransportError};
pub use unattended::{NoApprover, NoChangeJournal, NoServices};

/// Limits of calls. [`Default`] has the engine's limits; tests use smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of one call, all instances of it together. A component in Python needs about 60 MiB before it does
    /// anything and a syntax tree of the largest source file we read (8 MiB) about 120 MiB; twice that is room to work,
    /// and [`Self::calls_concurrent`] calls at the bound still fit a small machine.
    pub memory_bytes: u64,
    /// Wall time of one call, host calls included. A model waits for it, and the slowest honest call (a search over a
    /// Linux kernel tree) takes a second.
    pub wall: Duration,
    /// Wall time that one call may spend in recipes (tests, installs), which are outside [`Self::wall`]. Test suites
    /// of that length are the longest that a user waits for at a terminal.
    pub recipes: Duration,
    /// Bytes of one answer (the contract's number). More than that fills any model's context several times over.
    pub output_bytes: usize,
    /// Bytes of log messages and of standard output and error that one call may leave in our log.
    pub log_bytes: usize,
    /// Random bytes of one call. Hash seeds take 16; a component in Python takes a few kilobytes.
    pub random_bytes: u64,
    /// Bytes that one host call or answer copies. Larger reads return less, as the interface allows; a larger argument or
    /// answer is a trap. It bounds what the host allocates for a guest, which the guest's own memory bound does not see.
    /// The largest honest one is a batch with one large file: what is searched may be as large as this.
    pub host_call_bytes: usize,
    /// Bytes that one call may read from the repository. Ten times a Linux kernel tree; a guest that reads more goes in
    /// circles.
    pub read_bytes: u64,
    /// Directory entries that one call may walk by itself. A tree of more belongs to the host's list, which is bounded
    /// elsewhere.
    pub entries: u64,
    /// Table elements of one call, all tables together. The largest component known to us (CPython) has 20,000.
    pub table_elements: u64,
    /// Core instances, memories and tables of one call. A component in Python with its dynamic libraries has about 50.
    pub instances: usize,
    /// Live handles (descriptors, streams, pollables) of one call. Honest guests hold a handful.
    pub handles: usize,
    /// Open files and directories of one call: a recursive walk holds one a level. Times [`Self::calls_concurrent`] it stays
    /// below 1,024, the usual number of a process, so that no call takes another's.
    pub files_open: usize,
    /// Bytes of a proposal. Source files are small; a model writes a few kilobytes a call.
    pub staged_bytes: u64,
    /// Files and directories of a proposal. A rename of a package touches a few hundred.
    pub staged_entries: u64,
    /// Calls at work at the same time in the process, parts of a sharded call included. The work is bound by processors
    /// and memory: eight calls at [`Self::memory_bytes`] are 2 GiB.
    pub calls_concurrent: usize,
    /// Calls that wait for a turn. A model asks for at most a few dozen at once; more is a fault somewhere.
    pub calls_waiting: usize,
    /// Calls that wait for a person's answer. They hold no turn, or eight open questions would stop all work; but each
    /// keeps its memory for up to `APPROVAL_SECONDS_MAX`. A person answers only a few at a time, and with those at work
    /// they fit into the pool of instances.
    pub calls_asking: usize,
    /// Of these, calls of one session: its open questions leave room for those of other sessions.
    pub asking_of_session: usize,
    /// Runs of tests and installations under way at the same time. Their calls hold no turn, or as many suites as there are
    /// turns would stop all work for a quarter of an hour; each is bounded by itself (`CONTAIN_MEMORY_BYTES_MAX`), and more
    /// suites at once than a laptop has cores make each other late.
    pub runs_concurrent: usize,
    /// Calls that wait for one of these to end, without a turn. They keep their memory, as those do whose programs run: ours
    /// have less than 2 MiB by then. A call begins only with a turn, so that with those at work and those that ask there are
    /// never more than 40. They have 10 GiB where each is at [`Self::memory_bytes`], which takes components of a team that
    /// are made for it and that their user has granted to run programs. All of them fit into the pool of instances.
    pub runs_waiting: usize,
    /// Of both, calls of one session. An agent that starts one suite after the other leaves runs to the other sessions.
    pub runs_of_session: usize,
    /// Longest wait of a call for its turn: as long as the calls before it may take. The wait for a run is as long.
    pub turn_wait: Duration,
    /// Parts of a sharded call at work at the same time. Beyond the number of cores of a laptop nothing is gained.
    pub parts: usize,
    /// Time for compiling one foreign component. The largest known take 8 s on two cores.
    pub compile: Duration,
    /// Memory of one compilation, all its threads together; on a machine with less than twice this, half of what it has. The
    /// largest known components take about 1 GiB on eight cores.
    pub compile_memory_bytes: u64,
    /// Wall time of `describe`, which only builds a constant. A Python component takes a tenth of a second.
    pub describe: Duration,
}

impl Limits {
    /// The limits of calls in use.
    pub const DEFAULT: Self = Self {
        memory_bytes: 256 * 1024 * 1024,
        wall: Duration::from_millis(30_000),
        recipes: Duration::from_millis(15 * 60_000),
        output_bytes: 1024 * 1024,
        log_bytes: 64 * 1024,
        random_bytes: 1024 * 1024,
        host_call_bytes: 16 * 1024 * 1024,
        read_bytes: 16 * 1024 * 1024 * 1024,
        entries: 2_000_000,
        table_elements: 200_000,
        instances: 200,
        handles: 1_024,
        files_open: 64,
        staged_bytes: 32 * 1024 * 1024,
        staged_entries: 2_000,
        calls_concurrent: 8,
        calls_waiting: 128,
        calls_asking: 16,
        asking_of_session: 4,
        runs_concurrent: 8,
        runs_waiting: 8,
        runs_of_session: 4,
        turn_wait: Duration::from_millis(60_000),
        parts: 8,
        compile: Duration::from_millis(120_000),
        compile_memory_bytes: 4 * 1024 * 1024 * 1024,
        describe: Duration::from_millis(5_000),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Repository, rights and state that the calls of one session share.
#[derive(Clone)]
pub struct CallContext {
    /// The repository.
    pub repository: Arc<Repository>,
    /// Decisions about effects.
    pub policy: Policy,
    /// Answers questions that the policy requires.
    pub approver: Arc<dyn Approver>,
    /// Identifier of the call in the session's events.
    pub call_id: Option<Arc<str>>,
    /// Journal that records changes before they happen.
    pub changes: Arc<dyn ChangeJournal>,
    /// Files that the model has seen, and changes of the session.
    pub files: Arc<Mutex<SessionFiles>>,
    /// Redactor, taint and counters of the conversation.
    pub conversation: Arc<Conversation>,
    /// Ends the session and every call of it.
    pub cancel: CancellationToken,
    /// Effects that the lock file of the repository grants to the skills of a team. `None`: the repository has no lock file.
    pub locked: Option<Arc<dyn LockedSkills>>,
    /// Records what calls do. Recorded calls change nothing.
    pub recorder: Option<Arc<audit::Recorder>>,
    /// Variables of the starter's environment that recipes may see, such as `PATH`, `VIRTUAL_ENV`, `HOME` and proxies.
    pub environment: BTreeMap<String, String>,
    /// Live output of a recipe, line by line, for the user.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
    /// Permit that a call gives up while a program runs for it. Set for each call once it has its permit.
    pub turn: HeldTurn,
    /// Decides whether runs of the call find build output of earlier runs.
    pub runs: RunScope,
}

/// Who asks for the runs of a call, and what sessions have changed in the repository.
#[derive(Clone, Default)]
pub struct RunScope {
    /// Who asks.
    pub asker: RunAsker,
    /// Changes of sessions. Without them, no state counts as the user's own.
    pub changes: Option<Arc<dyn SessionChanges>>,
    /// Build output that the runs for a model share.
    pub builds: Arc<SessionBuilds>,
}

/// Build output of the runs that a session's model asks for, as a layer over the kept output. It is deleted with the
/// session.
#[derive(Debug, Default)]
pub struct SessionBuilds(Mutex<Option<ScratchFolder>>);

impl SessionBuilds {
    /// Returns the folder of the session's build output; the first call creates it. `None` if it cannot be created.
    /// `home` is `tool`'s own directory.
    pub fn folder(&self, home: &Path) -> Option<PathBuf> {
        let mut folder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if folder.is_none() {
            *folder = scratch::create_folder(Some(home), "tool-session-").ok();
        }
        folder.as_ref().map(|folder| folder.path().to_owned())
    }
}

impl Drop for SessionBuilds {
    fn drop(&mut self) {
        let folder = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // It may hold many files, and no session should wait for their removal. If no thread can start, they are
        // removed here.
        if folder.is_some() {
            let _ = std::thread::Builder::new().spawn(move || drop(folder));
        }
    }
}

/// Who asks for a run of tests or of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunAsker {
    /// A model, or another agent.
    #[default]
    Model,
    /// The user.
    User,
    /// The host, which judges a change by the result.
    Verdict {
        /// True: no output of an earlier run may be used.
        is_from_nothing: bool,
    },
}

/// Finds the files that are as sessions have left them.
pub trait SessionChanges: Send + Sync {
    /// Finds the files that still hold a session's change. It looks at those that sessions after `seen` have changed
    /// and those in `seen.put_back`, and returns the ones that differ from their state before the first change. Blocks.
    fn left_by_sessions(&self, repository: &Repository, seen: &SeenSessions) -> LeftFiles;
}

/// For a repository in which no session has changed anything.
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

/// Sessions whose changes have been examined. The default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenSessions {
    /// Identifier of the newest of them.
    pub newest: Option<String>,
    /// Changed files that had their old content when they were examined. A session's content can come back, for example
    /// by `git stash pop`.
    pub put_back: BTreeSet<String>,
}

/// State of the conversation that calls belong to. The default is a conversation that has just begun, in a trusted
/// repository.
#[derive(Debug, Default)]
pub struct Conversation {
    /// Replaces keys by placeholders, and knows which of them the model has seen.
    pub redactor: Arc<Redactor>,
    /// Text from outside that has entered the conversation.
    pub taint: Taint,
    /// Effects to which the user said no.
    pub refusals: Refusals,
    /// Effects to which the user said yes for the rest of the session.
    pub yeses: LastingYeses,
    /// Files that git does not track and that are the user's own nevertheless.
    pub vouched: VouchedFiles,
    /// Calls of the conversation that wait for a person's answer.
    pub asking: AtomicUsize,
    /// Calls of the conversation that wait for a program.
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

    /// True if the user of this session answers questions about `effect`.
    pub fn can_ask(&self, effect: Effect) -> bool {
        self.approver.can_ask() && self.policy.may_ask(effect)
    }

    /// True if a yes to `effect` may count for the rest of the session. It may not in a repository that is not trusted,
    /// where all text comes from outside, nor in a tainted conversation if the effect reaches further than the
    /// repository's files.
    fn may_last(&self, effect: Effect) -> bool {
        let taint = &self.conversation.taint;
        !(taint.is_untrusted() || taint.is_tainted() && effect.reaches_further())
    }

    /// Returns why `effect` is denied, and what the user can do about it.
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

/// Effects that a repository's lock file grants the skills of a team.
pub trait LockedSkills: Send + Sync {
    /// The effects that the lock file grants a skill; `None` if it does not name the skill.
    fn effects(&self, skill: &str) -> Option<&BTreeSet<Effect>>;

    /// SHA-256 (hexadecimal) of the component that the lock file names for a skill.
    fn digest(&self, skill: &str) -> Option<&str>;

    /// True if only those skills of a team may be used that the lock file names.
    fn is_closed(&self) -> bool;
}

/// Files that the model has seen and changes of the session, by path relative to the root.
#[derive(Debug, Default)]
pub struct SessionFiles {
    /// SHA-256 (hexadecimal) of the content that the model has been shown, or that it wrote, by path.
    pub seen: BTreeMap<String, String>,
    /// Paths that the session created, replaced or deleted, compared with its start.
    pub changed: BTreeMap<String, ChangeKind>,
    /// Folders outside the root that the user lets git read: the repository of a worktree, and those from which it
    /// borrows objects.
    pub git_elsewhere: BTreeSet<PathBuf>,
    /// Records of packages that the session has written, by path: the digest of the old content, or `None` if there was
    /// none. [`Services::note_changes`] maintains them.
    pub package_records: BTreeMap<String, Option<String>>,
}

/// Answers questions of the policy. It is called on a thread that may block.
pub trait Approver: Send + Sync {
    /// True if a user will answer.
    fn can_ask(&self) -> bool;

    /// Asks, and waits for the answer. The answer is a no after a time and on cancellation.
    fn ask(&self, question: &Question, cancel: &CancellationToken) -> UserAnswer;

    /// True if the last question was not asked because too many others wait for their answers.
    fn is_crowded(&self) -> bool {
        false
    }

    /// True once the user has said no. This keeps a skill from claiming a no that was never said.
    fn has_refused(&self) -> bool {
        false
    }
}

/// Answer of a call that worked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallOutcome {
    /// Text for the model.
    pub text: String,
    /// True if there is more.
    pub truncated: bool,
    /// Argument that asks for the rest.
    pub cursor: Option<String>,
    /// Paths of the committed proposal.
    pub files_modified: Vec<String>,
    /// The answer for programs as the skill gave it: a JSON object, only for display.
    pub details: Option<Value>,
    /// Places in the repository on which the answer is based.
    pub citations: Vec<Citation>,
    /// Images and diagrams. A model gets their alternative texts.
    pub media: Vec<Media>,
}

/// Reason why a call has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No installed skill has this name.
    #[error("There is no skill named `{name}`.{}", did_you_mean(nearest.as_deref()))]
    Unknown {
        /// The name as given.
        name: String,
        /// The known name that is most similar.
        nearest: Option<String>,
    },
    /// The arguments do not satisfy the schema. The message is for the model.
    #[error(
        "Invalid arguments for `{skill}`{}: expected {expected}{}.",
        format_pointer(pointer),
        but_got(got, *is_surplus)
    )]
    Arguments {
        /// The skill.
        skill: String,
        /// JSON pointer of the value that does not fit; empty means the whole.
        pointer: String,
        /// Expected value, in words.
        expected: String,
        /// Given value, in words.
        got: String,
        /// True for a field that the schema does not have: `expected` names it already.
        is_surplus: bool,
    },
    /// The skill answered with a failure.
    #[error("{message}")]
    Failure {
        /// The skill.
        skill: String,
        /// Kind for the code that the skill gave.
        kind: ErrorKind,
        /// Text for the model.
        message: String,
        /// Next step to try.
        hint: Option<String>,
    },
    /// The component trapped.
    #[error("The skill `{skill}` crashed: {reason}")]
    Trap {
        /// The skill.
        skill: String,
        /// The reason that wasmtime gives, without addresses.
        reason: String,
    },
    /// A limit ended the call.
    #[error("The skill `{skill}` was stopped: it exceeded its limit of {limit}.")]
    Limit {
        /// The skill.
        skill: String,
        /// The limit as text, such as `30 s` or `256 MiB of memory`.
        limit: String,
        /// [`ErrorKind::Timeout`], [`ErrorKind::Memory`], [`ErrorKind::Output`], …
        kind: ErrorKind,
    },
    /// Too many calls, or programs for calls, run or wait.
    #[error("The skill `{skill}` {crowd}. Try again.")]
    Busy {
        /// The skill.
        skill: String,
        /// The limit that was reached.
        crowd: CrowdedLimit,
    },
    /// The session ended while the call ran.
    #[error("The skill `{skill}` was cancelled.")]
    Cancelled {
        /// The skill.
        skill: String,
    },
    /// The component cannot be used, for example because it is not trusted or has changed.
    #[error("The skill `{skill}` cannot be used: {reason}.")]
    NotReady {
        /// The skill.
        skill: String,
        /// The reason, as the end of a sentence.
        reason: String,
    },
}

/// Limit that leaves no room for one more call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CrowdedLimit {
    /// Too many calls: nothing of this one ran.
    #[error("was not called: too many calls are at work")]
    Calls,
    /// Too many programs: the call ended before its own program ran.
    #[error("ran nothing: too many test runs and installations are under way")]
    Runs,
}

fn format_pointer(pointer: &str) -> String {
    match pointer {
        "" => String::new(),
        pointer => format!(" at `{pointer}`"),
    }
}

/// Describes the given value. Empty for a field that the schema does not have, because `expected` names it already.
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

/// Result of a call, with its cost. The receipt is absent only if nothing ran.
#[derive(Debug)]
pub struct CallReport {
    /// Answer or error.
    pub result: Result<CallOutcome, CallError>,
    /// Cost of the call.
    pub receipt: Option<Receipt>,
    /// Places outside of the user's own files whose text is in the result, described in words.
    pub foreign: Vec<String>,
    /// What the host itself knows about the call.
    pub notes: HostNotes,
}

/// Facts about a call that the host knows itself, independent of the skill's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNotes {
    /// Sentence about a test run in which every test passed. It has numbers, and no text of the run. A tainted model
    /// gets it instead of the skill's text.
    pub passed_tests: Option<String>,
    /// True if the user said no to a question of the call.
    pub has_user_refused: bool,
    /// True if a commit would have held no change.
    pub had_nothing_to_commit: bool,
    /// Messages of the skill to its log, its standard output and its standard error: for people, never for a model.
    pub log: Vec<String>,
}

impl CallReport {
    /// True if the call was denied and the user said no to a question of it.
    pub fn is_refused_by_user(&self) -> bool {
        let is_denied = matches!(&self.result, Err(CallError::Failure { kind, .. }) if *kind == ErrorKind::Denied);
        is_denied && self.notes.has_user_refused
    }
}

/// The arguments of a call as given: JSON text of a model, or a value of the user.
#[derive(Debug, Clone, PartialEq)]
pub enum RawArguments<'a> {
    /// Text that is not parsed yet; empty means `{}`.
    Text(&'a str),
    /// Parsed.
    Value(&'a Value),
}

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
