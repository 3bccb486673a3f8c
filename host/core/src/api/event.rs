//! Events of a session: the events of a stream in both forms, and their data.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::schema::JsonObject;
use super::{ApprovalScope, ChangedFile, Effect, ErrorKind, TestRun, Timestamp};

/// Cost and end of one skill call. The journal keeps one for every call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// Name of the skill.
    pub skill: String,
    /// SHA-256 of its component.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// The arguments as they were given.
    pub arguments: Value,
    /// Arguments that were read otherwise than they were given, because the schema wants another type there or they are
    /// paths below the root: a sentence each, with the JSON pointer; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(min_items = 1)]
    pub changes: Vec<String>,
    /// Effects that were granted to this call.
    pub grants: Vec<Effect>,
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
    /// The test run of the call, as the host itself read it from the runner; absent where it ran no tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = TestRun)]
    pub tests: Option<TestRun>,
    /// Object ids of the commits that the host made for the call; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(min_items = 1)]
    pub commits: Vec<String>,
    /// Packages that the host installed for the call, as they were asked for; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(min_items = 1)]
    pub packages: Vec<String>,
    /// Requests that the host sent for the call; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(min_items = 1)]
    pub requests: Vec<RequestRecord>,
    /// `ok`, or the failure's code, or `trap`, `timeout`, `memory`, `cancelled`.
    pub verdict: String,
}

/// A request of a skill over HTTP. Paths, queries and header fields may hold secrets and are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestRecord {
    /// The host, with its port where that is not the one of TLS.
    pub host: String,
    /// The method.
    pub method: String,
    /// Status of the response; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u16)]
    pub status: Option<u16>,
    /// Why there is no response; absent where there is one, or where the call ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub failure: Option<String>,
    /// Bytes of the request's body.
    pub bytes_sent: u64,
    /// Bytes of the response's body.
    pub bytes_received: u64,
}

/// One file that the context engine chose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SelectedFile {
    /// Relative to the root.
    pub path: String,
    /// Why, in words.
    pub reasons: Vec<String>,
    /// Comparable within one selection only.
    pub score: f64,
    /// Line ranges that were sent, first and last line inclusive, from 1; empty means the whole file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(min_items = 1, value_type = Vec<[u32; 2]>)]
    pub regions: Vec<(u32, u32)>,
    /// Estimated tokens of what was sent.
    pub tokens: u64,
    /// Strings of the file that look like keys and are placeholders in what was sent; absent where there are none.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub redacted: u64,
}

/// Subject of a notice, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum NoticeKind {
    /// Keys were kept back: no error.
    Redacted,
    /// An error that did not end the session.
    Error(ErrorKind),
}

/// The code of [`NoticeKind::Redacted`].
const REDACTED: &str = "redacted";

impl From<String> for NoticeKind {
    fn from(code: String) -> Self {
        match code.as_str() {
            REDACTED => Self::Redacted,
            code => Self::Error(ErrorKind::from_code(code)),
        }
    }
}

impl From<NoticeKind> for String {
    fn from(kind: NoticeKind) -> Self {
        match kind {
            NoticeKind::Redacted => REDACTED.to_owned(),
            NoticeKind::Error(kind) => kind.code().to_owned(),
        }
    }
}

/// A place in the repository that an answer rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Citation {
    /// Relative to the root.
    pub path: String,
    /// Line, counted from 1; absent for the file as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32)]
    pub line: Option<u32>,
}

impl std::fmt::Display for Citation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}", self.path),
            None => formatter.write_str(&self.path),
        }
    }
}

/// An image or a diagram of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Media {
    /// `image/png`, `image/jpeg`, `image/gif`, `image/webp` or `text/vnd.mermaid`.
    pub media_type: String,
    /// Text in place of it.
    pub alternative: String,
    /// An image in base64; the source of a diagram as it is.
    pub data: String,
}

impl Media {
    /// Media type of the source of a Mermaid diagram.
    pub const MERMAID: &str = "text/vnd.mermaid";

    /// True for the source of a diagram, which is text.
    pub fn is_diagram(&self) -> bool {
        self.media_type == Self::MERMAID
    }
}

/// Answer of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalOutcome {
    /// Yes.
    Approved,
    /// No.
    Refused,
    /// The time for an answer ran out.
    Expired,
    /// The session or the call ended first.
    Cancelled,
}

/// A changed file before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedText {
    /// Relative to the root.
    pub path: String,
    /// SHA-256 of the content before, hexadecimal; absent for a new file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub old_digest: Option<String>,
    /// SHA-256 of the content after, hexadecimal; absent for a deleted file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub new_digest: Option<String>,
    /// The text before, with keys masked; absent for a new file, and where `left_out` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub old_text: Option<String>,
    /// The text after, with keys masked; absent for a deleted file, and where `left_out` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub new_text: Option<String>,
    /// Why there are no texts; absent where there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = TextOmission)]
    pub left_out: Option<TextOmission>,
}

/// Why an event has no texts of a changed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TextOmission {
    /// One of them is longer than 256 KiB, or the texts of the event together are longer than 4 MiB.
    TooLong,
    /// One of the contents is binary or not UTF-8.
    NotText,
    /// The session does not keep the contents any more.
    Gone,
}

/// An event, as clients of a stream see it in the reference form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The files that were chosen.
    #[schema(title = "SelectionEvent")]
    Selection {
        /// Best first.
        files: Vec<SelectedFile>,
    },
    /// Model output.
    #[schema(title = "TokenEvent")]
    Token {
        /// A piece of text.
        content: String,
    },
    /// A skill is executed.
    #[schema(title = "SkillEvent")]
    Skill {
        /// Its name.
        name: String,
        /// Its arguments; values cut at 4 KiB.
        #[schema(value_type = JsonObject)]
        args: Value,
        /// Identifier of the call, which its `skill_result` has, too. A later answer of the model may use it again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        call_id: Option<String>,
    },
    /// A skill call ended.
    #[schema(title = "SkillResultEvent")]
    SkillResult {
        /// Its name.
        name: String,
        /// `ok` or the failure's code.
        verdict: String,
        /// One line for people.
        summary: String,
        /// Milliseconds.
        duration_ms: u64,
        /// The answer for programs, in a form of the skill's own; absent where it has none, and where it has more than 64
        /// KiB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = JsonObject)]
        details: Option<Value>,
        /// Identifier of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        call_id: Option<String>,
    },
    /// The model's thinking, where the provider shows it. It is no part of the answer.
    #[schema(title = "ReasoningEvent")]
    Reasoning {
        /// A piece of text.
        content: String,
    },
    /// Files were changed; `tool undo` can take it back.
    #[schema(title = "ChangeEvent")]
    Change {
        /// The files.
        files: Vec<ChangedFile>,
        /// Unified diff in git's form, with keys masked.
        diff: String,
        /// True where the diff is longer and only its beginning is here.
        truncated: bool,
        /// True in a preview: the repository does not have the change.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[schema(default = false)]
        proposed: bool,
        /// Identifier of the skill call that made the change; absent for a change of no call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        call_id: Option<String>,
        /// The files before and after, in the order of `files`.
        #[serde(default)]
        texts: Vec<ChangedText>,
    },
    /// The place of the session in its conversation. Sent once, before the selection.
    #[schema(title = "TurnEvent")]
    Turn {
        /// 1 for the session that began the conversation.
        number: u32,
        /// Identifier of the session that began the conversation.
        #[schema(format = "uuid")]
        conversation: String,
        /// Identifier of the session that this one continues; absent for the first turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String, format = "uuid")]
        continues: Option<String>,
    },
    /// Tokens used so far.
    #[schema(title = "UsageEvent")]
    Usage {
        /// Input tokens of all rounds.
        input_tokens: u64,
        /// Output tokens of all rounds.
        output_tokens: u64,
        /// Of the input tokens, those that the provider had in its cache; absent where there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = u64)]
        cached_tokens: Option<u64>,
        /// True where the provider did not report them and these are our own estimate.
        estimated: bool,
        /// Cost of the tokens so far in US dollars, as the provider reports it or by its price; absent where neither is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = f64)]
        cost: Option<f64>,
    },
    /// Something that the user should know and that is not the answer.
    #[schema(title = "NoticeEvent")]
    Notice {
        /// Stable, where it is an error that did not end the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String, pattern = "^[a-z0-9]+(-[a-z0-9]+)*$")]
        code: Option<NoticeKind>,
        /// A sentence.
        message: String,
        /// Advice on what to do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        hint: Option<String>,
    },
    /// A line that a run under way has printed. The skill's answer holds it again, with what came before and after.
    #[schema(title = "LiveEvent")]
    Live {
        /// The line, without control characters.
        line: String,
    },
    /// The user must say yes or no.
    #[schema(title = "ApprovalEvent")]
    Approval {
        /// For POST /approvals/{id}.
        id: String,
        /// Name of the effect.
        #[schema(value_type = super::Effect)]
        effect: String,
        /// Identifier of the skill call that waits for the answer; absent for a question of no call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        call_id: Option<String>,
        /// One line: what will happen.
        title: String,
        /// The exact diff or argument vector; of a long one the beginning, and what is left out.
        detail: String,
        /// Parts that the detail omits; absent if it is whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = LeftOut)]
        left_out: Option<LeftOut>,
        /// Unanswered by then means no.
        #[schema(value_type = String, format = DateTime)]
        expires: Timestamp,
        /// How long a yes may last.
        #[serde(default)]
        scopes: Vec<ApprovalScope>,
    },
    /// An approval is not open any more. From then on streams leave out its `approval` event.
    #[schema(title = "AnsweredEvent")]
    Answered {
        /// Identifier of the approval.
        id: String,
        /// What became of it.
        answer: ApprovalOutcome,
        /// How long a yes lasts.
        #[serde(default)]
        scope: ApprovalScope,
    },
    /// The outcome of POST /skills/{name}/call.
    #[schema(title = "OutcomeEvent")]
    Outcome {
        /// Text that the model would read.
        text: String,
        /// True where there is more.
        truncated: bool,
        /// Asks for the rest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        cursor: Option<String>,
        /// Paths that were changed.
        files_modified: Vec<String>,
        /// The answer for programs, in a form of the skill's own; absent where it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = JsonObject)]
        details: Option<Value>,
        /// Places in the repository that the answer rests on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        citations: Vec<Citation>,
        /// Images and diagrams.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<Media>,
        /// Cost of the call.
        receipt: Box<Receipt>,
    },
    /// The session ended without failure. Terminal.
    #[schema(title = "CompleteEvent")]
    Complete {
        /// Identifier of the session.
        #[schema(format = "uuid")]
        session_id: String,
    },
    /// The session failed. Terminal.
    #[schema(title = "ErrorEvent")]
    Error {
        /// Stable code; the same as in the body of an HTTP error.
        #[schema(value_type = String, pattern = "^[a-z0-9]+(-[a-z0-9]+)*$")]
        code: ErrorKind,
        /// The error.
        message: String,
        /// Advice on how to fix it; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        hint: Option<String>,
    },
}

/// The architecture form of `token` and `complete`; every other event is the same in both forms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ArchitectureEvent {
    /// Model output.
    #[schema(title = "OutputEvent")]
    Output {
        /// A piece of text.
        content: String,
        /// Identifier of the model.
        model: String,
    },
    /// The session ended without failure. Terminal.
    #[schema(title = "DoneEvent")]
    Done {
        /// `completed`.
        #[schema(pattern = "^completed$")]
        status: String,
        /// Identifier of the model.
        model: String,
    },
}

/// Parts that an `approval` event omits from a long detail. GET /approvals/{id} has all of it while the approval is
/// open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOut {
    /// Lines of the detail that are not shown.
    pub lines: u64,
    /// Files of a diff of which not a line is shown.
    pub files: u64,
    /// Bytes of the detail that are not shown.
    #[serde(default)]
    #[schema(required = true)]
    pub bytes: u64,
    /// SHA-256 of the whole detail, hexadecimal: a yes has to carry it.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// A file with the whole detail; absent where it could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub path: Option<String>,
}

impl Event {
    /// True for the one event that ends a session's stream.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Complete { .. } | Self::Error { .. })
    }
}
