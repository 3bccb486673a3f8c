//! Commits and uncommitted changes: the interfaces `git-read`, `git-history` and `git-commit` of the contract.

/// Commits to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// The commit to begin with; absent for the last commit.
    pub revision: Option<String>,
    /// Only commits that change one of these paths; empty for all.
    pub paths: Vec<String>,
    /// Number of commits on the page.
    pub count: u32,
    /// [`LogPage::next`] of the previous page; absent for the first page.
    pub after: Option<String>,
}

/// A commit of the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedCommit {
    /// Full object id, hexadecimal.
    pub id: String,
    /// Ids of the parents.
    pub parents: Vec<String>,
    /// `Name <mail>`.
    pub author: String,
    /// Seconds since 1970, in UTC.
    pub time: i64,
    /// Minutes east of Greenwich of the author's clock.
    pub offset_minutes: i32,
    /// The message; only the beginning of a very long one.
    pub message: String,
}

/// A bounded part of a list of commits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPage {
    /// The commits, newest first.
    pub commits: Vec<LoggedCommit>,
    /// Present if there may be another page.
    pub next: Option<String>,
}

/// The commit to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShowQuery {
    /// Revision; absent for the last commit.
    pub revision: Option<String>,
    /// Only changes of these paths; empty for all.
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
    /// Number of added lines.
    pub added_lines: u32,
    /// Number of removed lines.
    pub removed_lines: u32,
    /// True if the contents are not text.
    pub binary: bool,
}

/// A commit and its changes against its first parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitDiff {
    /// The commit itself.
    pub commit: LoggedCommit,
    /// The changes, one for each file.
    pub changes: Vec<CommitChange>,
    /// True if the changes were cut.
    pub truncated: bool,
}

/// The lines to attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlameQuery {
    /// Path of the file, relative to the root.
    pub path: String,
    /// Revision; absent for the file in the working tree.
    pub revision: Option<String>,
    /// First line, counted from 1.
    pub first_line: u32,
    /// Number of lines.
    pub line_count: u32,
}

/// Consecutive lines that the same commit last changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlameHunk {
    /// First line, counted from 1.
    pub first_line: u32,
    /// Number of lines.
    pub line_count: u32,
    /// Id of the commit; absent for lines that are not committed.
    pub commit: Option<String>,
    /// Path in that commit, if it differs.
    pub old_path: Option<String>,
}

/// Lines of a file and their commits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlamePage {
    /// Text of the lines.
    pub content: String,
    /// Number of lines in the whole file.
    pub lines_total: u32,
    /// The hunks, in the order of the lines.
    pub hunks: Vec<BlameHunk>,
    /// The commits of the hunks, each once, in the order of the hunks.
    pub commits: Vec<LoggedCommit>,
}

/// Comparisons for [`Host::git_changes`](crate::Host::git_changes).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffQuery {
    /// Paths of files or directories; empty for all.
    pub paths: Vec<String>,
    /// Compare the last commit with the index.
    pub staged: bool,
    /// Compare the index with the working tree.
    pub unstaged: bool,
    /// Include untracked files.
    pub untracked: bool,
    /// Lines of context around each change.
    pub context_lines: u32,
}

/// The change of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileChange {
    /// Path after the change.
    pub path: String,
    /// The path before a rename.
    pub old_path: Option<String>,
    /// `staged`, `unstaged` or `untracked`.
    pub area: String,
    /// `added`, `modified`, `deleted`, `renamed`, `type-changed` or `conflicted`.
    pub status: String,
    /// Unified diff; empty for binary or hidden contents.
    pub patch: String,
    /// Number of added lines.
    pub added_lines: u32,
    /// Number of removed lines.
    pub removed_lines: u32,
    /// True if the contents are not text.
    pub binary: bool,
}

/// Uncommitted changes, from [`Host::git_changes`](crate::Host::git_changes).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// The current branch; absent on a detached head.
    pub branch: Option<String>,
    /// The changes, one for each file and area.
    pub changes: Vec<FileChange>,
    /// True if the list was cut.
    pub truncated: bool,
}

/// A commit that [`Host::git_commit`](crate::Host::git_commit) made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// Full object id, hexadecimal.
    pub id: String,
    /// The branch; absent on a detached head.
    pub branch: Option<String>,
    /// `Name <mail>`.
    pub author: String,
    /// Paths in the commit.
    pub files: Vec<String>,
}
