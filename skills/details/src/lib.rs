//! The details of the built-in skills: the JSON that each gives to programs, beside the text that a model reads.
//!
//! Skills write these types and the host, the command line and other programs read them. To the host they are untrusted
//! input: it shows them, and takes what it decides by from its own records. [`test_run`] is the exception, because both
//! sides read the output of test runners by it: the skill for its answer, the host for its own record.
//!
//! Lists are bounded by the skills; fields may be added. [`is_generated`] and [`lfs`] are here because both sides judge by them.

mod generated;
pub mod lfs;
mod not_searched;
pub mod test_run;

use serde::{Deserialize, Serialize};

pub use generated::is_generated;
pub use not_searched::NotSearched;
pub use test_run::{TestCounts, TestRun, TestRunner, TestStatus};

/// Details of `run_tests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestDetails {
    /// Result of the run.
    #[serde(flatten)]
    pub run: TestRun,
    /// Names of failing tests.
    pub failing: Vec<String>,
    /// Failing tests that are not named, because there are too many.
    #[serde(default)]
    pub failing_left_out: u64,
}

/// Details of `git_commit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitDetails {
    /// Full object id, hexadecimal.
    pub commit: String,
    /// Absent on a detached head.
    pub branch: Option<String>,
    /// Committed paths.
    pub files: Vec<String>,
    /// Committed paths that are not listed, because there are too many.
    #[serde(default)]
    pub files_left_out: u64,
}

/// Details of `git_diff`. They describe all changes, also where the text is a page of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffDetails {
    /// Absent on a detached head.
    pub branch: Option<String>,
    /// The changed files.
    pub files: Vec<ChangedFile>,
    /// Changed files that are not listed, because there are too many.
    #[serde(default)]
    pub files_left_out: u64,
    /// Added lines in all files.
    pub added: u64,
    /// Removed lines in all files.
    pub removed: u64,
}

/// A file of [`DiffDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Relative to the repository root.
    pub path: String,
    /// The path before a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// `staged`, `unstaged` or `untracked`; `committed` for a change of a commit.
    pub area: String,
    /// `added`, `modified`, `deleted`, `renamed`, `type-changed` or `conflicted`.
    pub status: String,
    /// Added lines.
    pub added: u32,
    /// Removed lines.
    pub removed: u32,
    /// True for a file that is not text.
    pub is_binary: bool,
}

/// Details of `git_diff` with mode `log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogDetails {
    /// The commits of this page, newest first.
    pub commits: Vec<CommitSummary>,
}

/// A commit of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitSummary {
    /// Full object id, hexadecimal.
    pub commit: String,
    /// Name and address.
    pub author: String,
    /// The author's time, ISO 8601 with the offset of the author's clock.
    pub date: String,
    /// First line of the message.
    pub summary: String,
}

/// Details of `git_diff` with mode `show`. They describe all changes, also where the text is a page of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowDetails {
    /// The commit.
    pub commit: CommitSummary,
    /// The files that it changes.
    pub files: Vec<ChangedFile>,
    /// Changed files that are not listed, because there are too many.
    #[serde(default)]
    pub files_left_out: u64,
    /// Added lines in all files.
    pub added: u64,
    /// Removed lines in all files.
    pub removed: u64,
}

/// Details of `git_diff` with mode `blame`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlameDetails {
    /// Relative to the repository root.
    pub path: String,
    /// The lines of this page.
    pub lines: Vec<BlamedLines>,
    /// Each commit of the lines once.
    pub commits: Vec<CommitSummary>,
}

/// Lines in a row of [`BlameDetails`] that one commit brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlamedLines {
    /// From 1.
    pub first: u32,
    /// Number of lines.
    pub count: u32,
    /// Full object id; absent for lines that are not committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// Details of `search_code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchDetails {
    /// The matching lines of this page.
    pub matches: Vec<LineMatch>,
    /// Matching lines in all; at least so many where the search was stopped.
    pub total: u64,
    /// Files with a match.
    pub files: u64,
    /// What was not looked at; absent where everything was.
    #[serde(default, skip_serializing_if = "NotSearched::is_nothing")]
    pub not_searched: NotSearched,
}

/// A matching line of [`SearchDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineMatch {
    /// Relative to the repository root.
    pub path: String,
    /// From 1.
    pub line: u64,
}

/// Details of `find_references`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceDetails {
    /// The references of this page.
    pub references: Vec<Reference>,
    /// References in all.
    pub total: u64,
    /// Files with a reference.
    pub files: u64,
    /// What was not looked at; absent where everything was.
    #[serde(default, skip_serializing_if = "NotSearched::is_nothing")]
    pub not_searched: NotSearched,
}

/// A reference of [`ReferenceDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Relative to the repository root.
    pub path: String,
    /// From 1.
    pub line: u64,
    /// `definition`, `call`, `import`, `attribute`, `name`, `possible` or `text`.
    pub kind: String,
}

/// Details of `list_files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDetails {
    /// The entries of this page.
    pub entries: Vec<ListedEntry>,
    /// Entries in all.
    pub total: u64,
    /// Entries that are ignored, skipped, hidden, or whose names are not UTF-8.
    pub left_out: u32,
    /// What a recursive list leaves out; absent where it is everything, and for a list of one directory.
    #[serde(default, skip_serializing_if = "NotSearched::is_nothing")]
    pub not_listed: NotSearched,
}

/// An entry of [`ListDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedEntry {
    /// Relative to the repository root.
    pub path: String,
    /// Kind of the entry.
    pub kind: ListedKind,
    /// Bytes; absent for a directory and a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The kind of a [`ListedEntry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListedKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// Details of `write_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteDetails {
    /// Relative to the repository root.
    pub path: String,
    /// Kind of the change.
    pub change: WriteChange,
    /// Added lines.
    pub added: u64,
    /// Removed lines.
    pub removed: u64,
}

/// Change of a file by `write_file`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteChange {
    /// It is new.
    Created,
    /// Its content is replaced or edited.
    Modified,
    /// It has this content already.
    Unchanged,
}

/// Details of `install_package`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallDetails {
    /// `pip` or `npm`.
    pub manager: String,
    /// The packages that were asked for, each with its constraint.
    pub requested: Vec<String>,
    /// The packages that pip says it installed. npm prints no list.
    pub installed: Vec<InstalledPackage>,
    /// Files of the repository that the installation changes, relative to its root.
    pub files: Vec<String>,
}

/// A package of [`InstallDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledPackage {
    /// Its name.
    pub name: String,
    /// Absent where the installer does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
