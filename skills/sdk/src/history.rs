//! The repository's commits and its uncommitted changes: `git-read`, `git-history` and `git-commit` of the contract.

/// Commits to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// The commit to begin with; absent means the last one.
    pub revision: Option<String>,
    /// Only commits that change one of these; empty means all.
    pub paths: Vec<String>,
    /// Commits on the page.
    pub count: u32,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// A commit of the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedCommit {
    /// The full object id, hexadecimal.
    pub id: String,
    /// Ids of the parents.
    pub parents: Vec<String>,
    /// `Name <mail>`.
    pub author: String,
    /// Seconds since 1970, in UTC.
    pub time: i64,
    /// Minutes east of Greenwich of the author's clock.
    pub offset_minutes: i32,
    /// The message; its beginning, where it is very long.
    pub message: String,
}

/// A bounded part of a list of commits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPage {
    /// Newest first.
    pub commits: Vec<LoggedCommit>,
    /// Set where there may be more.
    pub next: Option<String>,
}

/// The commit to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShowQuery {
    /// Absent means the last commit.
    pub revision: Option<String>,
    /// Only changes of these; empty means all.
    pub paths: Vec<String>,
    /// Lines of context around each change.
    pub context_lines: u32,
}

/// The change of one file by a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitChange {
    /// The path after the commit.
    pub path: String,
    /// The path before a rename.
    pub old_path: Option<String>,
    /// `added`, `modified`, `deleted`, `renamed` or `type-changed`.
    pub status: String,
    /// Unified diff; empty for binary contents.
    pub patch: String,
    /// Lines added.
    pub added_lines: u32,
    /// Lines removed.
    pub removed_lines: u32,
    /// True where the contents are not text.
    pub binary: bool,
}

/// A commit and its changes against its first parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitDiff {
    /// The commit.
    pub commit: LoggedCommit,
    /// One element a file.
    pub changes: Vec<CommitChange>,
    /// True where the changes were cut.
    pub truncated: bool,
}

/// The lines to attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlameQuery {
    /// A file.
    pub path: String,
    /// Absent means the file as it lies in the working tree.
    pub revision: Option<String>,
    /// From 1.
    pub first_line: u32,
    /// Number of lines.
    pub line_count: u32,
}

/// Lines in a row that one commit brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlameHunk {
    /// From 1.
    pub first_line: u32,
    /// Number of lines.
    pub line_count: u32,
    /// Absent for lines that are not committed.
    pub commit: Option<String>,
    /// The path in that commit, where it was another one.
    pub old_path: Option<String>,
}

/// Lines of a file and their commits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlamePage {
    /// The lines.
    pub content: String,
    /// Lines of the whole file.
    pub lines_total: u32,
    /// In the order of the lines.
    pub hunks: Vec<BlameHunk>,
    /// Each commit of the hunks once, in the order of the hunks.
    pub commits: Vec<LoggedCommit>,
}

/// Comparison that [`Host::git_changes`](crate::Host::git_changes) makes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffQuery {
    /// Paths or directories; empty means all.
    pub paths: Vec<String>,
    /// Last commit against the index.
    pub staged: bool,
    /// Index against the working tree.
    pub unstaged: bool,
    /// Untracked files.
    pub untracked: bool,
    /// Lines of context.
    pub context_lines: u32,
}

/// The change of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileChange {
    /// The path now.
    pub path: String,
    /// The path before a rename.
    pub old_path: Option<String>,
    /// `staged`, `unstaged` or `untracked`.
    pub area: String,
    /// `added`, `modified`, `deleted`, `renamed`, `type-changed` or `conflicted`.
    pub status: String,
    /// Unified diff; empty for binary or hidden contents.
    pub patch: String,
    /// Lines added.
    pub added_lines: u32,
    /// Lines removed.
    pub removed_lines: u32,
    /// True where the contents are not text.
    pub binary: bool,
}

/// The answer of [`Host::git_changes`](crate::Host::git_changes).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// The current branch; absent on a detached head.
    pub branch: Option<String>,
    /// One element a file and area.
    pub changes: Vec<FileChange>,
    /// True where the list was cut.
    pub truncated: bool,
}

/// A commit that was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// The object id, hexadecimal.
    pub id: String,
    /// The branch.
    pub branch: Option<String>,
    /// `Name <mail>`.
    pub author: String,
    /// Paths in the commit.
    pub files: Vec<String>,
}
