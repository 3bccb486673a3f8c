//! The wire types of HTTP and SSE, shared by the server and the command line.
//!
//! Field names and their types are the specification's; additions come after them. Nothing here does anything.

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A point in time, written as ISO 8601 in UTC.
pub type Timestamp = DateTime<Utc>;

/// The present, in whole milliseconds: what a journal writes and reads back is the same value.
pub fn now() -> Timestamp {
    Utc::now().trunc_subsecs(3)
}

/// One of the four things that the service does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Explains structure and components.
    Explain,
    /// Proposes improvements.
    Architect,
    /// Improves code.
    Refactor,
    /// Writes tests.
    TestGen,
}

impl Operation {
    /// All four, in the specification's order.
    pub const ALL: [Self; 4] = [Self::Explain, Self::Architect, Self::Refactor, Self::TestGen];

    /// The name on the wire and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Explain => "explain",
            Self::Architect => "architect",
            Self::Refactor => "refactor",
            Self::TestGen => "test-gen",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == text)
            .ok_or_else(|| format!("unknown operation `{text}`: expected explain, architect, refactor or test-gen"))
    }
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Started, not ended.
    Running,
    /// Ended without failure.
    Complete,
    /// Ended by a failure, or by the daemon's death.
    Failed,
    /// Ended by the user.
    Cancelled,
}

/// What went wrong, in the one form that HTTP errors, `error` events and the command line share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Stable, kebab-case; see `operation::codes` for the list.
    pub code: String,
    /// The specification's sentence where it has one.
    pub message: String,
    /// What mends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what mends it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The body of every HTTP error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: Problem,
}

/// Body of POST /scan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanRequest {
    /// Absolute path to the repository.
    pub repo_path: String,
}

/// Answer of POST /scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanResult {
    /// Number of files that the service would consider.
    pub files: u64,
    /// Number of directories that hold them, the root not counted.
    pub directories: u64,
    /// Names of the languages found, most files first.
    pub languages: Vec<String>,
}

/// Body of POST /execute and POST /stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecuteRequest {
    /// What to do.
    pub operation: Operation,
    /// A path, or a task for architect and refactor.
    #[serde(default)]
    pub target: Option<String>,
    /// Absolute path to the repository root.
    pub repo_path: String,
    /// Asserts which provider is enabled; another one answers 409.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// A task description beside the target, or instead of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Narrows the target or the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Where `session-reports/` is made; default: the repository root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Overrides the configured model for this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// True where somebody will answer `approval` events.
    #[serde(default)]
    pub interactive: bool,
    /// Effects to allow or to deny beyond the operation's defaults.
    #[serde(default)]
    pub policy: PolicyRequest,
    /// The starter's environment, kept in memory for this session only.
    #[serde(default)]
    pub overrides: Overrides,
    /// True: the session is cancelled when the last stream of it closes before the end.
    #[serde(default)]
    pub attached: bool,
    /// Files that must be in the selection, and files that must not.
    #[serde(default, skip_serializing_if = "SelectionRequest::is_unset")]
    pub selection: SelectionRequest,
    /// What the session may cost; each bound that is absent has its default.
    #[serde(default, skip_serializing_if = "BudgetRequest::is_unset")]
    pub budget: BudgetRequest,
}

/// What the user says about the selection of files. Patterns are globs from the root; one without a wildcard is a file,
/// or a directory and all below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectionRequest {
    /// Taken first, in this order, as far as there is room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Never considered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl SelectionRequest {
    /// True where nothing is said.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// Body of POST /context.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextRequest {
    /// Whose rule chooses.
    pub operation: Operation,
    /// A path, or a task.
    #[serde(default)]
    pub target: Option<String>,
    /// Absolute path to the repository root.
    pub repo_path: String,
    /// A task description beside the target, or instead of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Narrows the target or the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// What paths are relative to before the root; default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Files that must be in the selection, and files that must not.
    #[serde(default, skip_serializing_if = "SelectionRequest::is_unset")]
    pub selection: SelectionRequest,
}

/// Answer of POST /context: what a session would send to the model, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextResult {
    /// The chosen files, best first.
    pub selected_files: Vec<SelectedFile>,
    /// The text that goes to the model.
    pub context: String,
    /// How many files were loaded.
    pub files_loaded: u64,
    /// Files that were nearly chosen, best first.
    pub near_misses: Vec<SelectedFile>,
    /// Notes of the vault that go along, as paths below it.
    pub notes: Vec<String>,
    /// Estimated tokens of `context`.
    pub tokens: u64,
    /// What the user should know about the selection.
    pub notices: Vec<String>,
}

/// What a session may cost. Reaching a bound ends it with what there is by then, as failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    /// Requests to the model that may ask for tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// Input and output tokens of all requests together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Wall time of the whole session in seconds, tools included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

impl BudgetRequest {
    /// True where no bound is set.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// Effects by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// Effects to allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Effects to deny; wins over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Protected paths that this session may propose, each exact and relative to the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_paths: Vec<String>,
    /// Nothing runs outside of a full sandbox: where this machine does not allow one, that is an error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub require_sandbox: bool,
    /// What `allow` grants to run tests runs them without a sandbox.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unsandboxed: bool,
}

/// True for what need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The environment variables of the session's starter that matter (`HOSTED_API_KEY`, `PATH`, `VIRTUAL_ENV`, …).
/// Never journalled, never shown: the debug form holds names only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Overrides(pub std::collections::BTreeMap<String, String>);

impl std::fmt::Debug for Overrides {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Answer of POST /execute.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionStart {
    /// Identifier of the session.
    pub session_id: String,
    /// `running`.
    pub status: Status,
    /// One-time secret that answers this session's approvals; only its starter ever gets it.
    pub approval_secret: String,
}

/// Answer of GET /models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    /// All three, in the order hosted, local, router.
    pub providers: Vec<ProviderEntry>,
}

/// One provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderEntry {
    /// `hosted`, `local` or `router`.
    pub name: String,
    /// True for exactly one.
    pub enabled: bool,
    /// Model identifiers.
    pub models: Vec<String>,
}

/// Answer of GET /tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// Running first, then newest first.
    pub tasks: Vec<TaskEntry>,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEntry {
    /// Identifier of the session.
    pub session_id: String,
    /// What it does.
    pub operation: Operation,
    /// What it was pointed at.
    pub target: String,
    /// When it started.
    pub timestamp: Timestamp,
    /// Where it stands.
    pub status: Status,
}

/// Answer of GET /history, and the content of `session_history.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Newest first, at most 100.
    pub sessions: Vec<HistoryEntry>,
}

/// One ended session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Identifier of the session.
    pub id: String,
    /// What it did.
    pub operation: Operation,
    /// When it started.
    pub started: Timestamp,
    /// When it ended.
    pub completed: Timestamp,
    /// How many files it changed.
    pub files_modified: u64,
    /// Identifier of the model used.
    pub provider: String,
    /// How it ended.
    pub status: Status,
    /// Absolute path of the repository.
    pub repository: String,
}

/// Answer of GET /results/{session_id}.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionResult {
    /// Identifier of the session.
    pub session_id: String,
    /// What it did.
    pub operation: Operation,
    /// Where it stands.
    pub status: Status,
    /// Everything it wrote; so far, while it runs.
    pub output: String,
    /// Paths of the changed files, relative to the root.
    pub files_modified: Vec<String>,
    /// The session log: relative to the root, absolute where it lies outside; empty until it is written.
    pub report_path: String,
    /// What failed, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Answer of GET /sessions/{session_id}/diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDiff {
    /// Identifier of the session.
    pub session_id: String,
    /// Absolute path of the repository.
    pub repository: String,
    /// What the session changed, as it left it: a unified diff of all files in git's form.
    pub diff: String,
    /// True where the diff was too long and ends early.
    #[serde(default)]
    pub truncated: bool,
    /// Every changed file, by path.
    pub files: Vec<ChangedFile>,
}

/// One file that a session changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Relative to the root.
    pub path: String,
    /// `created`, `modified` or `deleted`.
    pub kind: String,
    /// Lines added; 0 where the file is no text.
    pub added: u64,
    /// Lines removed; 0 where the file is no text.
    pub removed: u64,
    /// False where a content is binary or not UTF-8: the diff says so and does not show it.
    pub is_text: bool,
    /// What became of it since, where it is not what the session left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// Answer of POST /sessions/{session_id}/undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoResult {
    /// Identifier of the session whose changes were taken back.
    pub session_id: String,
    /// Absolute path of the repository.
    pub repository: String,
    /// The undo as a session of its own, which can be undone; absent where no file was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_session_id: Option<String>,
    /// Paths that are now as they were before the session.
    pub restored: Vec<String>,
    /// Paths that already were.
    pub unchanged: Vec<String>,
    /// Paths that are not, because somebody else has changed them since.
    pub left: Vec<LeftFile>,
}

/// A file that an undo did not take back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftFile {
    /// Relative to the root.
    pub path: String,
    /// A sentence without its full stop.
    pub reason: String,
}

/// Answer of GET /api/status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendStatus {
    /// `running`.
    pub status: String,
    /// Version of the binary.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Port it listens on.
    pub port: u16,
    /// When it started.
    pub started: Timestamp,
    /// Sessions under way.
    pub sessions_running: u64,
    /// The enabled provider, where the configuration names one.
    pub provider: Option<String>,
    /// The model it uses.
    pub model: Option<String>,
}

/// One skill, in GET /skills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillEntry {
    /// Name that calls it.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// What it does.
    pub description: String,
    /// Names of the effects it asks for.
    pub effects: Vec<String>,
    /// SHA-256 of the component, hexadecimal.
    pub digest: String,
    /// `builtin` or `team`.
    pub origin: String,
    /// `ready`, `untrusted` (not added yet), `changed` (digest differs from the pinned one) or `refused`.
    pub state: String,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// JSON Schema of its arguments; null where it is not known.
    pub parameters: Value,
}

/// Answer of GET /skills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skills {
    /// Built-in first, then by name.
    pub skills: Vec<SkillEntry>,
}

/// Body of POST /skills/{name}/call. The answer is an event stream whose last event but one is `outcome`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillCallRequest {
    /// JSON object.
    pub arguments: Value,
    /// Absolute path to the repository root.
    pub repo_path: String,
    /// True where somebody will answer `approval` events.
    #[serde(default)]
    pub interactive: bool,
    /// Effects to allow or to deny.
    #[serde(default)]
    pub policy: PolicyRequest,
    /// The starter's environment.
    #[serde(default)]
    pub overrides: Overrides,
}

/// Body of POST /approvals/{id}.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    /// The session's one-time secret.
    pub secret: String,
    /// True grants it.
    pub approve: bool,
}

/// What one skill call cost and how it ended. Kept in the journal for every call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Name of the skill.
    pub skill: String,
    /// SHA-256 of its component.
    pub digest: String,
    /// The arguments as they were given.
    pub arguments: Value,
    /// Effects that were granted to this call.
    pub grants: Vec<String>,
    /// Wall time, time inside host calls included, in microseconds.
    pub wall_us: u64,
    /// Highest sum of the call's linear memories, in bytes.
    pub peak_memory_bytes: u64,
    /// Bytes that the call read through the boundary.
    pub bytes_in: u64,
    /// Bytes that it gave back.
    pub bytes_out: u64,
    /// Paths of its proposal.
    pub files_proposed: Vec<String>,
    /// `ok`, or the failure's code, or `trap`, `timeout`, `memory`, `cancelled`.
    pub verdict: String,
}

/// One file that the context engine chose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectedFile {
    /// Relative to the root.
    pub path: String,
    /// Why, in words.
    pub reasons: Vec<String>,
    /// Comparable within one selection only.
    pub score: f64,
    /// Line ranges that were sent, first and last line inclusive, from 1; empty means the whole file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<(u32, u32)>,
    /// Estimated tokens of what was sent.
    pub tokens: u64,
}

/// What happened, as clients of a stream see it in the reference form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// Which files were chosen.
    Selection {
        /// Best first.
        files: Vec<SelectedFile>,
    },
    /// Model output.
    Token {
        /// A piece of text.
        content: String,
    },
    /// A skill is executed.
    Skill {
        /// Its name.
        name: String,
        /// Its arguments; values cut at 4 KiB.
        args: Value,
    },
    /// A skill call ended.
    SkillResult {
        /// Its name.
        name: String,
        /// `ok` or the failure's code.
        verdict: String,
        /// One line for people.
        summary: String,
        /// Milliseconds.
        duration_ms: u64,
    },
    /// Tokens used so far.
    Usage {
        /// Input tokens of all rounds.
        input_tokens: u64,
        /// Output tokens of all rounds.
        output_tokens: u64,
        /// True where the provider did not report them and these are our own estimate.
        estimated: bool,
        /// What the provider says that they cost so far, in US dollars; absent where it says nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// Something that the user should know and that is not the answer.
    Notice {
        /// Stable, where it is an error that did not end the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// A sentence.
        message: String,
        /// What to do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// A line that a run under way has printed. The skill's answer holds it again, with what came before and after.
    Live {
        /// The line, without control characters.
        line: String,
    },
    /// Somebody must say yes or no.
    Approval {
        /// For POST /approvals/{id}.
        id: String,
        /// Name of the effect.
        effect: String,
        /// One line: what will happen.
        title: String,
        /// The exact diff or argument vector.
        detail: String,
        /// Unanswered by then means no.
        expires: Timestamp,
    },
    /// The outcome of POST /skills/{name}/call.
    Outcome {
        /// What the model would read.
        text: String,
        /// True where there is more.
        truncated: bool,
        /// Asks for the rest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        /// Paths that were changed.
        files_modified: Vec<String>,
        /// What it cost.
        receipt: Box<Receipt>,
    },
    /// The session ended without failure. Terminal.
    Complete {
        /// Identifier of the session.
        session_id: String,
    },
    /// The session failed. Terminal.
    Error {
        /// Stable code.
        code: String,
        /// What went wrong.
        message: String,
        /// What mends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
}

impl Event {
    /// True for the one event that ends a session's stream.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Complete { .. } | Self::Error { .. })
    }
}
