//! The wire types of HTTP and SSE, shared by the server and the command line.
//!
//! Field names and their types are the specification's; additions come after them. Nothing here does anything.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

mod action;
mod calls;
mod changes;
mod clock;
mod deserialize;
mod dollars;
mod effect;
mod error_kind;
mod event;
mod graph;
mod provider_name;
mod run_purpose;
mod schema;
mod subject;

pub use action::Action;
pub use calls::{CallEdge, CallGraph, CallGraphRequest, CallNode, CallRole};
pub use changes::{
    ApplyRequest, ApplyResult, BACK, ChangeKind, ChangedFile, DiscardResult, LeftFile, SessionDiff, UndoResult,
};
pub use clock::current_time;
pub use clock::make_wrong;
pub use dollars::Dollars;
pub use effect::{ArgumentError, Effect, Grant, HostName, SecretName};
pub use error_kind::{BACKEND, ErrorKind, FAILED, ForeignCode, USAGE};
pub use event::{
    ApprovalOutcome, ArchitectureEvent, ChangedText, Citation, Event, LeftOut, Media, NoticeKind, Receipt,
    RequestRecord, SelectedFile, TextOmission,
};
pub use graph::{GraphRequest, ModuleEdge, ModuleGraph, ModuleNode};
pub use provider_name::ProviderName;
pub use run_purpose::{RunPurpose, UnknownCheck};
pub use schema::{FORWARDED, PATTERN_CHARS_MAX, TEST_COMMAND, TEST_RESULTS};
pub use skill_details::{TestCounts, TestDetails, TestRun, TestRunner, TestStatus};
pub use subject::{FoundPlace, FoundPlaces, TaskSubject};

/// A point in time, written as ISO 8601 in UTC.
pub type Timestamp = DateTime<Utc>;

/// One of the four things that the service does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
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

/// An operation that other agents may start over the Model Context Protocol where their user grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpOperation {
    /// Selects the files that matter for a task.
    Context,
    /// Explains the repository, or answers a question about it. Spends tokens of the user's model.
    Explain,
}

impl McpOperation {
    /// Both, in the order of a list.
    pub const ALL: [Self; 2] = [Self::Context, Self::Explain];

    /// The name of its tool, in the configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Explain => "explain",
        }
    }
}

impl std::str::FromStr for McpOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|operation| operation.name() == text);
        known.ok_or_else(|| "expected context or explain".to_owned())
    }
}

/// Work of a listed session: one of the four operations, or calls of skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Explains structure and components.
    Explain,
    /// Proposes improvements.
    Architect,
    /// Improves code.
    Refactor,
    /// Writes tests.
    TestGen,
    /// Calls skills for another agent. It has no answer, and so no result.
    Mcp,
    /// One call of a skill by the user. Listed only where these are asked for; it has no result either.
    SkillCall,
    /// Puts the changes of a preview in place. It has no result either.
    Apply,
}

impl Activity {
    /// The name on the wire and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Explain => Operation::Explain.name(),
            Self::Architect => Operation::Architect.name(),
            Self::Refactor => Operation::Refactor.name(),
            Self::TestGen => Operation::TestGen.name(),
            Self::Mcp => "mcp",
            Self::SkillCall => "skill-call",
            Self::Apply => "apply",
        }
    }
}

impl From<Operation> for Activity {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Explain => Self::Explain,
            Operation::Architect => Self::Architect,
            Operation::Refactor => Self::Refactor,
            Operation::TestGen => Self::TestGen,
        }
    }
}

impl std::fmt::Display for Activity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
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

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
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

/// An error, in the one form that HTTP errors, `error` events and the command line share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Stable, kebab-case: what programs decide by.
    #[serde(rename = "code")]
    #[schema(value_type = String, pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", examples("invalid-request"))]
    pub kind: ErrorKind,
    /// The specification's sentence where it has one.
    pub message: String,
    /// Advice on how to fix it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub hint: Option<String>,
    /// The step of `hint` as data. A client can show its own text for it in place of `hint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub action: Option<Action>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            action: None,
        }
    }

    /// Adds the step that mends it.
    #[must_use]
    pub fn with_action(mut self, action: Action) -> Self {
        self.hint = Some(action.sentence());
        self.action = Some(action);
        self
    }

    /// Adds a hint that says how to fix it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self.action = None;
        self
    }
}

/// Description of a tool for a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name that calls it.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

impl ToolSpec {
    /// Approximate bytes of the tool in a request.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.parameters.to_string().len()
    }
}

/// The body of every HTTP error.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: Problem,
}

/// Body of POST /scan.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanRequest {
    /// Absolute path to the repository. What lies there and is ignored by git, hidden or skipped is not counted.
    #[schema(pattern = "^/", examples("/home/me/project"))]
    pub repo_path: String,
}

/// Answer of POST /scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScanResult {
    /// Number of files that the service would consider.
    pub files: u64,
    /// Number of directories that hold them, the root not counted.
    pub directories: u64,
    /// Names of the languages found, most files first.
    pub languages: Vec<String>,
    /// Files and directories that are not counted because their names are not UTF-8; absent where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_utf8: u64,
    /// Sentences about parts of the repository that were not read as they are written, such as ignore files over the
    /// limits; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Header in requests of the command line. For these, hints name flags.
pub const TERMINAL_HEADER: &str = "x-tool-terminal";

/// Body of POST /execute and POST /stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteRequest {
    /// Operation to run.
    pub operation: Operation,
    /// A path relative to the repository root, or a task for architect and refactor. explain: a file or a directory, by
    /// default the whole repository; also `path:10-40`, several paths (one a line), the name of a definition, or a question
    /// in words. test-gen: a source file. The stream reports a path that does not exist; an unknown name answers 404.
    #[serde(default)]
    pub target: Option<String>,
    /// Absolute path to the repository root. Paths in requests and answers are relative to it.
    #[schema(pattern = "^/", examples("/home/me/project"))]
    pub repo_path: String,
    /// Asserts which provider is enabled; another one answers 409.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProviderName>)]
    pub provider: Option<String>,
    /// A task description, or a question for explain, beside the target or instead of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Narrows the target or the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Directory for `session-reports/`: an existing directory of the user, absolute; default: the repository root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub working_directory: Option<String>,
    /// Overrides the configured model for this session; an empty one does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// True where the client answers `approval` events with POST /approvals/{id}; else what would be asked is denied.
    /// Taken from the holder of the token alone.
    #[serde(default)]
    #[schema(default = false)]
    pub interactive: bool,
    /// Effects that change something and about which the client is asked, by `approval` events, in place of a denial.
    /// What is allowed is not asked about, and what is denied by name stays denied. Taken from the holder of the token
    /// alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<effect::AskedEffect>)]
    pub ask: Vec<String>,
    /// Effects to allow or to deny beyond the operation's defaults. Without the token a request can only narrow.
    #[serde(default, deserialize_with = "deserialize::read_object")]
    pub policy: PolicyRequest,
    /// The starter's environment, kept in memory for this session only. Taken from the holder of the token alone.
    #[serde(default)]
    pub overrides: Overrides,
    /// True: the session is cancelled when the last stream of it closes before the end.
    #[serde(default)]
    #[schema(default = false)]
    pub attached: bool,
    /// Files that must be in the selection, and files that must not.
    #[serde(
        default,
        deserialize_with = "deserialize::read_object",
        skip_serializing_if = "SelectionRequest::is_unset"
    )]
    pub selection: SelectionRequest,
    /// Limits of the session; each limit that is absent has its default.
    #[serde(
        default,
        deserialize_with = "deserialize::read_object",
        skip_serializing_if = "BudgetRequest::is_unset"
    )]
    pub budget: BudgetRequest,
    /// refactor: rule for a change that no test has verified.
    #[serde(default, skip_serializing_if = "VerificationRule::is_default")]
    pub verification: VerificationRule,
    /// refactor, test-gen: the service itself runs no tests. With `"verification": "required"` the session ends as not verified.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub no_tests: bool,
    /// refactor: the service itself runs no checks, such as linters.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub no_checks: bool,
    /// True works on a private layer. The repository does not change; skills and test runs see the edits, and POST /sessions/{session_id}/apply puts them in place.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub preview: bool,
    /// explain without a model: true writes all sections of an overview, with all their rows, false a page of it.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub full: bool,
    /// True where a program other than the command line sent it: its hints name fields of requests in place of flags. The
    /// server sets it.
    #[serde(skip)]
    pub is_of_program: bool,
}

/// Body of POST /sessions/{session_id}/turns.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnRequest {
    /// Question or task. For test-gen after another operation: the source file.
    #[schema(pattern = "\\S")]
    pub message: String,
    /// Operation of this turn; default: the one of the session that it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Asserts which provider is enabled; another one answers 409. Needed where the conversation has been on `local` alone
    /// and another provider is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProviderName>)]
    pub provider: Option<String>,
    /// Directory for `session-reports/`: an existing directory of the user, absolute; default: that of the session before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub working_directory: Option<String>,
    /// Overrides the configured model for this turn; an empty one does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// True where the client answers `approval` events with POST /approvals/{id}; else what would be asked is denied.
    /// Taken from the holder of the token alone.
    #[serde(default)]
    #[schema(default = false)]
    pub interactive: bool,
    /// Effects that change something and about which the client is asked, by `approval` events, in place of a denial.
    /// What is allowed is not asked about, and what is denied by name stays denied. Taken from the holder of the token
    /// alone. A turn does not take it over from the turn before, nor any yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<effect::AskedEffect>)]
    pub ask: Vec<String>,
    /// Effects to allow or to deny beyond the operation's defaults. What earlier turns denied stays denied unless it is
    /// allowed here; what they allowed is not allowed any more. Without the token a request can only narrow.
    #[serde(default, deserialize_with = "deserialize::read_object")]
    pub policy: PolicyRequest,
    /// The starter's environment, kept in memory for this turn only. Taken from the holder of the token alone.
    #[serde(default)]
    pub overrides: Overrides,
    /// True: the turn is cancelled when the last stream of it closes before the end.
    #[serde(default)]
    #[schema(default = false)]
    pub attached: bool,
    /// Files that must be in the selection, and files that must not.
    #[serde(
        default,
        deserialize_with = "deserialize::read_object",
        skip_serializing_if = "SelectionRequest::is_unset"
    )]
    pub selection: SelectionRequest,
    /// Limits of the turn; each limit that is absent has its default.
    #[serde(
        default,
        deserialize_with = "deserialize::read_object",
        skip_serializing_if = "BudgetRequest::is_unset"
    )]
    pub budget: BudgetRequest,
    /// refactor: rule for a change that no test has verified.
    #[serde(default, skip_serializing_if = "VerificationRule::is_default")]
    pub verification: VerificationRule,
    /// refactor, test-gen: the service itself runs no tests. With `"verification": "required"` the session ends as not verified.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub no_tests: bool,
    /// refactor: the service itself runs no checks, such as linters.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub no_checks: bool,
    /// True works on a private layer. A turn after a preview is a preview in any case, with the
    /// proposals so far, until they are applied or discarded.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub preview: bool,
    /// True where a program other than the command line sent it: its hints name fields of requests in place of flags. The
    /// server sets it.
    #[serde(skip)]
    pub is_of_program: bool,
}

/// Rule for a change of refactor that no test has verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerificationRule {
    /// An error if there was something to run.
    #[default]
    WherePossible,
    /// Never an error.
    Optional,
    /// Always an error.
    Required,
}

impl VerificationRule {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The user's corrections of the file selection. Patterns are globs from the root; one without a wildcard is a file, or
/// a directory and all below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectionRequest {
    /// Taken first, in this order, as far as there is room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::PathPattern>)]
    pub include: Vec<String>,
    /// Never considered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::PathPattern>)]
    pub exclude: Vec<String>,
    /// True leaves out the instruction files of the project, such as `AGENTS.md`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub no_instructions: bool,
}

impl SelectionRequest {
    /// True if the request sets nothing.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// Body of POST /context.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextRequest {
    /// Operation whose rule chooses the files.
    pub operation: Operation,
    /// A path, or a task.
    #[serde(default)]
    pub target: Option<String>,
    /// Absolute path to the repository root.
    #[schema(pattern = "^/", examples("/home/me/project"))]
    pub repo_path: String,
    /// A task description beside the target, or instead of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Narrows the target or the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Directory that paths are relative to before the root; default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub working_directory: Option<String>,
    /// Files that must be in the selection, and files that must not.
    #[serde(
        default,
        deserialize_with = "deserialize::read_object",
        skip_serializing_if = "SelectionRequest::is_unset"
    )]
    pub selection: SelectionRequest,
}

/// Answer of POST /context: what a session would send to the model, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContextResult {
    /// The chosen files, best first.
    pub selected_files: Vec<SelectedFile>,
    /// The text that goes to the model.
    pub context: String,
    /// Number of files that were loaded.
    pub files_loaded: u64,
    /// Files that were nearly chosen, best first.
    pub near_misses: Vec<SelectedFile>,
    /// Notes of the vault that go along, as paths below it.
    pub notes: Vec<String>,
    /// Instruction files of the project that go along, the nearest to the target first.
    #[serde(default)]
    pub instructions: Vec<String>,
    /// Estimated tokens of `context`.
    pub tokens: u64,
    /// Notices for the user about the selection.
    pub notices: Vec<String>,
}

/// Limits of a session. Reaching one ends the session as failed, with the results so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    /// Requests to the model that may ask for tools.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize::read_whole_number"
    )]
    #[schema(minimum = 1, maximum = 4294967295_u32)]
    pub max_steps: Option<u32>,
    /// Input and output tokens of all requests together.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize::read_whole_number"
    )]
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    pub max_tokens: Option<u64>,
    /// Cost of all requests together, in US dollars. No request is sent that could exceed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0.000001, maximum = 1_000_000.0)]
    pub max_cost: Option<Dollars>,
    /// Wall time of the whole session in seconds, tools included.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize::read_whole_number"
    )]
    #[schema(minimum = 1, maximum = 86400)]
    pub timeout_seconds: Option<u64>,
}

impl BudgetRequest {
    /// True if no limit is set.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// Effects by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// Effects to allow. `commit-git:tainted` and `install:tainted` also allow them once text from outside the user's own
    /// files has entered the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Grant>)]
    pub allow: Vec<String>,
    /// Effects to deny; wins over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Grant>)]
    pub deny: Vec<String>,
    /// Protected paths that this session may propose, each exact and relative to the root, and new dot folders by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_paths: Vec<String>,
    /// Nothing runs outside of a full sandbox: where this machine does not allow one, that is an error.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub require_sandbox: bool,
    /// Test runs that `allow` grants run without a sandbox: needs `run-process` in `allow`, and excludes
    /// `require_sandbox`.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub unsandboxed: bool,
    /// The repository is not trusted: all that is read of it counts as text from outside the user's own files.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub untrusted: bool,
    /// The task may hold words of strangers, such as the title of an issue: it counts as text from outside the user's own
    /// files, too.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub untrusted_task: bool,
    /// Each change of files is shown and asked about before it is made. Where no client can be asked, none is made.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub ask_before_write: bool,
    /// The team's skills must be exactly those that the repository's `skills.lock` names; any difference is an error
    /// that lists them.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(default = false)]
    pub frozen: bool,
}

impl PolicyRequest {
    /// Allows only this effect.
    pub fn allowing_effect(effect: &str) -> Self {
        Self {
            allow: vec![effect.to_owned()],
            ..Self::default()
        }
    }

    /// Allows only these paths.
    pub fn allowing_path(path: &str) -> Self {
        Self {
            allow_paths: vec![path.to_owned()],
            ..Self::default()
        }
    }

    /// Denies every effect except reading. `deny` of a request takes precedence over the configuration.
    pub fn deny_changes(&mut self) {
        let is_change = |effect: &Effect| effect.changes_something() || *effect == Effect::Store;
        let plain = Effect::PLAIN.into_iter().filter(is_change);
        self.deny.extend(plain.map(|effect| effect.name().to_owned()));
        self.deny.push("http-write:*".to_owned());
    }

    /// True if it asks for more than the defaults. For that, the same user is not enough: the caller needs the token.
    pub fn widens(&self) -> bool {
        !self.allow.is_empty() || !self.allow_paths.is_empty() || self.unsandboxed
    }
}

/// True for a default value, which is not serialised.
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
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionStart {
    /// Identifier of the session.
    #[schema(format = "uuid")]
    pub session_id: String,
    /// `running`: everything that can be wrong with a request alone has been checked.
    pub status: Status,
    /// One-time secret that answers this session's approvals; only its starter ever gets it.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub approval_secret: String,
}

/// Answer of GET /models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Models {
    /// All three, in the order hosted, local, router.
    #[schema(min_items = 3, max_items = 3)]
    pub providers: Vec<ProviderEntry>,
}

/// One provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderEntry {
    /// Name of the provider, one of three.
    #[schema(value_type = ProviderName)]
    pub name: String,
    /// True for exactly one.
    pub enabled: bool,
    /// Model identifiers: the configured one first, then what the enabled provider offers by its own list, where it could
    /// be reached. Empty where none is configured.
    pub models: Vec<String>,
}

/// Answer of GET /tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tasks {
    /// Running first, then newest first; the last 100.
    #[schema(max_items = 100)]
    pub tasks: Vec<TaskEntry>,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskEntry {
    /// Identifier of the session.
    #[schema(format = "uuid")]
    pub session_id: String,
    /// Operation of the session.
    pub operation: Activity,
    /// Target of the operation.
    pub target: String,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// State of the session.
    pub status: Status,
    /// Absolute path of the repository.
    #[serde(default)]
    pub repository: String,
    /// Identifier of the session that began its conversation: its own, unless it continues one.
    #[serde(default)]
    #[schema(format = "uuid")]
    pub conversation: String,
    /// Number of the turn in the conversation, from 1.
    #[serde(default)]
    pub turn: u32,
}

/// Answer of GET /history, and the content of `session_history.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Newest first, at most 100.
    #[schema(max_items = 100)]
    pub sessions: Vec<HistoryEntry>,
}

/// One ended session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryEntry {
    /// Identifier of the session.
    #[schema(format = "uuid")]
    pub id: String,
    /// Operation of the session.
    pub operation: Activity,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    pub started: Timestamp,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    pub completed: Timestamp,
    /// Number of changed files: a count here, an array of paths in a result.
    pub files_modified: u64,
    /// Number of files that a preview proposes to change; absent for other sessions, and where it is discarded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_proposed: u64,
    /// Identifier of the model used.
    pub provider: String,
    /// End of the session: `complete`, `failed` or `cancelled`.
    pub status: Status,
    /// Absolute path of the repository.
    pub repository: String,
    /// The session that took back its changes, where that was not taken back itself; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub undone_by: Option<String>,
    /// Target or task, in the user's words.
    #[serde(default)]
    pub target: String,
    /// Identifier of the session that began its conversation: its own, unless it continues one.
    #[serde(default)]
    #[schema(format = "uuid")]
    pub conversation: String,
    /// Number of the turn in the conversation, from 1.
    #[serde(default)]
    pub turn: u32,
    /// The session that this one continues; absent for the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub continues: Option<String>,
    /// Cost of its requests in US dollars; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = f64)]
    pub cost: Option<Dollars>,
}

/// Tokens and cost of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionUsage {
    /// Input tokens of all requests.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cached_tokens: u64,
    /// Output tokens of all requests.
    pub output_tokens: u64,
    /// True where the provider did not report them and these are our own estimate.
    pub estimated: bool,
    /// Cost in US dollars; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = f64)]
    pub cost: Option<Dollars>,
}

/// Answer of GET /results/{session_id}.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionResult {
    /// Identifier of the session.
    #[schema(format = "uuid")]
    pub session_id: String,
    /// Operation of the session.
    pub operation: Operation,
    /// State of the session.
    pub status: Status,
    /// Everything it wrote; so far, while it runs.
    pub output: String,
    /// Paths of the changed files, relative to the root.
    pub files_modified: Vec<String>,
    /// Paths of the files that a preview proposes to change. The repository does not have these changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_proposed: Vec<String>,
    /// The session log: relative to the root, absolute where it lies outside; empty until it is written.
    pub report_path: String,
    /// Tokens and cost of an ended session; absent where no model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = SessionUsage)]
    pub usage: Option<SessionUsage>,
    /// The error of a failed session; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Problem)]
    pub error: Option<Problem>,
}

/// Answer of GET /api/status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackendStatus {
    /// Always `running`: who does not run does not answer.
    #[schema(pattern = "^running$")]
    pub status: String,
    /// Version of the binary.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Address it listens on.
    #[serde(default)]
    pub address: String,
    /// Port it listens on; 0 where it serves the command line alone.
    #[schema(minimum = 0, maximum = 65535)]
    pub port: u16,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    pub started: Timestamp,
    /// Sessions under way, or still to be written to a full disk.
    pub sessions_running: u64,
    /// The enabled provider; null where no valid configuration names one.
    #[schema(value_type = Option<ProviderName>, required)]
    pub provider: Option<String>,
    /// The model it uses; null where no valid configuration names one.
    #[schema(required)]
    pub model: Option<String>,
}

/// Answer of POST /stop-if-idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopping {
    /// True where nothing was under way: nothing new is taken any more, and the backend is about to end. False where it
    /// goes on as before.
    pub stopping: bool,
    /// Sessions under way, or still to be written to a full disk.
    pub sessions_running: u64,
}

/// One skill, in GET /skills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillEntry {
    /// Name of the component: the commands that add, lock, sign and remove it take this name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Purpose of the component.
    pub description: String,
    /// The effects that at least one of its functions is granted.
    pub effects: Vec<Effect>,
    /// Its functions, each a tool of its own; empty where they are not known.
    pub functions: Vec<SkillFunction>,
    /// SHA-256 of the component, hexadecimal; empty where it could not be read.
    #[schema(pattern = "^([0-9a-f]{64})?$")]
    pub digest: String,
    /// `builtin` or `team`.
    #[schema(value_type = String, pattern = "^(builtin|team)$")]
    pub origin: SkillOrigin,
    /// `ready`, `untrusted` (not added yet), `changed` (digest differs from the pinned one), `disabled`,
    /// `unsigned` (a signature that counts is required) or `refused`.
    #[schema(value_type = String, pattern = "^(ready|untrusted|changed|disabled|unsigned|refused)$")]
    pub state: SkillState,
    /// Why it is not ready; absent where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub reason: Option<String>,
    /// The signature that lies beside it; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Signed)]
    pub signature: Option<Signed>,
}

/// One function of a skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillFunction {
    /// Name that calls it.
    pub name: String,
    /// Name for people; absent where the skill gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub title: Option<String>,
    /// Its work and when to use it.
    pub description: String,
    /// The effects that it is granted.
    pub effects: Vec<Effect>,
    /// JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// JSON Schema of the `details` of its answers; absent where the skill gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub output: Option<Value>,
    /// Words by which it is found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Operations in which it is offered; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<Operation>)]
    pub operations: Option<Vec<Operation>>,
}

/// Origin of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillOrigin {
    /// It is part of this program.
    Builtin,
    /// It is a component that the user has added.
    Team,
}

impl SkillOrigin {
    /// The name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Team => "team",
        }
    }
}

impl std::fmt::Display for SkillOrigin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// Whether a skill can be called, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillState {
    /// It can be called.
    Ready,
    /// It has not been added yet.
    Untrusted,
    /// Its digest differs from the pinned one.
    Changed,
    /// The user has turned it off.
    Disabled,
    /// A signature that counts is required and missing.
    Unsigned,
    /// The host refuses the component.
    Refused,
}

impl SkillState {
    /// The name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Untrusted => "untrusted",
            Self::Changed => "changed",
            Self::Disabled => "disabled",
            Self::Unsigned => "unsigned",
            Self::Refused => "refused",
        }
    }
}

impl std::fmt::Display for SkillState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// A signature of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Signed {
    /// Signer, by its name in `[skills.identities]` at the time of the check; absent if no identity matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub by: Option<String>,
}

/// Answer of GET /skills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Skills {
    /// Built-in first, then by name.
    pub skills: Vec<SkillEntry>,
}

/// Body of POST /skills/{name}/call. The answer is an event stream whose last event but one is `outcome`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillCallRequest {
    /// The arguments, as the schema in `parameters` of the skill says. The stream names arguments that do not fit it.
    #[schema(value_type = Object)]
    pub arguments: Value,
    /// Absolute path to the repository root.
    #[schema(pattern = "^/", examples("/home/me/project"))]
    pub repo_path: String,
    /// True where the client answers `approval` events. Taken from the holder of the token alone.
    #[serde(default)]
    #[schema(default = false)]
    pub interactive: bool,
    /// Effects to allow or to deny.
    #[serde(default, deserialize_with = "deserialize::read_object")]
    pub policy: PolicyRequest,
    /// The starter's environment. Taken from the holder of the token alone.
    #[serde(default)]
    pub overrides: Overrides,
    /// True where a program other than the command line sent it: its hints name fields of requests in place of flags. The
    /// server sets it.
    #[serde(skip)]
    pub is_of_program: bool,
}

/// Body of POST /mcp/connect, whose connection then carries the messages of another agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectRequest {
    /// Absolute path to the repository root.
    pub repo_path: String,
    /// Effects to allow or to deny.
    #[serde(default, deserialize_with = "deserialize::read_object")]
    pub policy: PolicyRequest,
    /// The starter's environment. Taken from the holder of the token alone.
    #[serde(default)]
    pub overrides: Overrides,
    /// Tools have a schema of their results, and results a structured form beside the text.
    #[serde(default)]
    pub structured: bool,
    /// Operations that the agent may start. Taken from the holder of the token alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<McpOperation>,
}

/// Body of POST /approvals/{id}.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    /// The one-time secret that the session's starter was given: `approval_secret`, or the header `X-Approval-Secret`.
    pub secret: String,
    /// True grants it, false refuses it.
    pub approve: bool,
    /// SHA-256 of the whole detail, as the event or GET /approvals/{id} tells it. A yes needs it where the event has left
    /// something out, and counts for nothing else in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub digest: Option<String>,
    /// How long a yes lasts: one of the `scopes` of the approval.
    #[serde(default, skip_serializing_if = "ApprovalScope::is_default")]
    pub scope: ApprovalScope,
}

/// How long a yes lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalScope {
    /// For exactly what is shown.
    #[default]
    Call,
    /// For the effect, until the session ends or text from outside the user's own files enters the conversation.
    Session,
}

impl ApprovalScope {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Answer of GET /approvals/{id}.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenApproval {
    /// For POST /approvals/{id}.
    pub id: String,
    /// Name of the effect.
    #[schema(value_type = Effect)]
    pub effect: String,
    /// One line: what will happen.
    pub title: String,
    /// The exact diff or argument vector, whole.
    pub detail: String,
    /// SHA-256 of the detail, hexadecimal.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// How long a yes may last.
    pub scopes: Vec<ApprovalScope>,
}
