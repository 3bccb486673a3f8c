//! Changes of a session, and results of undoing them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of GET /sessions/{session_id}/diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionDiff {
    /// Identifier of the session.
    #[schema(format = "uuid")]
    pub session_id: String,
    /// Absolute path of the repository.
    pub repository: String,
    /// Changes of the session, as it left them: a unified diff of all files in git's form.
    pub diff: String,
    /// True where the diff was too long and ends early.
    #[serde(default)]
    pub truncated: bool,
    /// True for a preview: the changes are proposed, and the repository does not have them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub preview: bool,
    /// Every changed file, by path.
    pub files: Vec<ChangedFile>,
}

/// One file that a session changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFile {
    /// Relative to the root.
    pub path: String,
    /// `created`, `modified` or `deleted`.
    #[schema(value_type = String, pattern = "^(created|modified|deleted)$")]
    pub kind: ChangeKind,
    /// Lines added; 0 where the file is no text.
    pub added: u64,
    /// Lines removed; 0 where the file is no text.
    pub removed: u64,
    /// False where a content is binary or not UTF-8: the diff says so and does not show it.
    pub is_text: bool,
    /// Later state of the file, if it is no longer as the session left it; for a preview, if it is no longer as it was
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub since: Option<String>,
}

/// Change that a session made to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It was not there before.
    Created,
    /// Its content or mode is another.
    Modified,
    /// It is not there any more.
    Deleted,
}

impl std::fmt::Display for ChangeKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        })
    }
}

/// Answer of POST /sessions/{session_id}/undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UndoResult {
    /// Identifier of the session whose changes were taken back.
    #[schema(format = "uuid")]
    pub session_id: String,
    /// Absolute path of the repository.
    pub repository: String,
    /// The undo as a session of its own, which can be undone; absent where no file was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid")]
    pub undo_session_id: Option<String>,
    /// Paths that are now as they were before the session.
    pub restored: Vec<String>,
    /// Paths that already were.
    pub unchanged: Vec<String>,
    /// Paths that are not, because another program has changed them since.
    pub left: Vec<LeftFile>,
    /// Actions of the session that no undo takes back, such as a commit or an installation: sentences without their
    /// full stops.
    #[serde(default)]
    pub notices: Vec<String>,
    /// If files were left: the newest session before it with changes in this repository that can be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid")]
    pub next_session_id: Option<String>,
}

/// What [`ChangedFile`] says of a file whose changes were taken back.
pub const BACK: &str = "it is back to what it was before the session";

/// A file that an undo did not take back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftFile {
    /// Relative to the root.
    pub path: String,
    /// A sentence without its full stop.
    pub reason: String,
    /// Advice, if the system names the missing thing: room on a disk, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// A unified diff of what `merge` would do: later edits touch other lines, so the session's can be taken back beside
    /// them. Its beginning, where it is very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<String>,
    /// SHA-256 (hexadecimal) of the merged content, which agrees to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_digest: Option<String>,
}

/// Body of POST /sessions/{session_id}/apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// Files to apply, relative to the root, and directories with all below them; without any, all files. A part of the
    /// files counts as not verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// True applies what a preview has left that failed, was cancelled, or ended with the backend.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub partial: bool,
}

/// Answer of POST /sessions/{session_id}/apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApplyResult {
    /// Identifier of the preview.
    #[schema(format = "uuid")]
    pub session_id: String,
    /// Absolute path of the repository.
    pub repository: String,
    /// The session that applied the changes, which can be undone.
    #[schema(format = "uuid")]
    pub apply_session_id: String,
    /// Paths that are now as the preview proposes.
    pub applied: Vec<String>,
    /// Paths that already were.
    pub unchanged: Vec<String>,
    /// Proposed paths that were not asked for.
    pub left: Vec<String>,
    /// Reason why the result counts as not verified, whatever the tests of the preview said; absent where they hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub not_verified: Option<String>,
}

/// Answer of POST /sessions/{session_id}/discard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscardResult {
    /// Identifier of the preview.
    #[schema(format = "uuid")]
    pub session_id: String,
    /// Paths whose proposed changes are gone.
    pub discarded: Vec<String>,
    /// The previews of the conversation whose proposals are gone.
    pub sessions: Vec<String>,
}
