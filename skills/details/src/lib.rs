//! The details of the built-in skills: the JSON for programs that accompanies the text for the model.
//!
//! Skills write these types; the host, the command line and other programs read them. To the host they are untrusted
//! input: it shows them, and decides by its own records. [`test_run`] is the exception: the skill uses it for its
//! answer, and the host for its own record of the run.
//!
//! Skills limit the lists, and fields may be added. [`is_generated`] and [`lfs`] are here because both sides use
//! them.

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
    /// Current branch; absent on a detached head.
    pub branch: Option<String>,
    /// Paths in the commit.
    pub files: Vec<String>,
    /// Number of committed paths that are not listed.
    #[serde(default)]
    pub files_left_out: u64,
}

/// Details of `git_diff`. They describe all changes, even if the text is a page of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffDetails {
    /// Current branch; absent on a detached head.
    pub branch: Option<String>,
    /// Changed files, up to a limit.
    pub files: Vec<DiffFile>,
    /// Number of changed files that are not listed.
    #[serde(default)]
    pub files_left_out: u64,
    /// Number of added lines in all files.
    pub added: u64,
    /// Number of removed lines in all files.
    pub removed: u64,
}

/// A file of [`DiffDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffFile {
    /// Path relative to the repository root.
    pub path: String,
    /// The path before a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// `staged`, `unstaged` or `untracked`; `committed` for a change of a commit.
    pub area: String,
    /// `added`, `modified`, `deleted`, `renamed`, `type-changed` or `conflicted`.
    pub status: String,
    /// Number of added lines.
    pub added: u32,
    /// Number of removed lines.
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
    /// Name and e-mail address.
    pub author: String,
    /// The author's time, ISO 8601 with the offset of the author's clock.
    pub date: String,
    /// First line of the message.
    pub summary: String,
}

/// Details of `git_diff` with mode `show`. They describe all changes, even if the text is a page of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowDetails {
    /// The commit itself.
    pub commit: CommitSummary,
    /// Changed files, up to a limit.
    pub files: Vec<DiffFile>,
    /// Number of changed files that are not listed.
    #[serde(default)]
    pub files_left_out: u64,
    /// Number of added lines in all files.
    pub added: u64,
    /// Number of removed lines in all files.
    pub removed: u64,
}

/// Details of `git_diff` with mode `blame`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlameDetails {
    /// Path relative to the repository root.
    pub path: String,
    /// The lines of this page.
    pub lines: Vec<BlamedLines>,
    /// The commits of the lines, each once.
    pub commits: Vec<CommitSummary>,
}

/// Consecutive lines that one commit last changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlamedLines {
    /// First line, counted from 1.
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
    /// Number of matching lines; a lower bound if the search was stopped.
    pub total: u64,
    /// Number of files with a match.
    pub files: u64,
    /// Files that were not searched; absent if all were.
    #[serde(default, skip_serializing_if = "NotSearched::is_nothing")]
    pub not_searched: NotSearched,
}

/// A matching line of [`SearchDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineMatch {
    /// Path relative to the repository root.
    pub path: String,
    /// Line, counted from 1.
    pub line: u64,
}

/// Details of `find_references`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceDetails {
    /// The references of this page.
    pub references: Vec<Reference>,
    /// Number of references.
    pub total: u64,
    /// Number of files with a reference.
    pub files: u64,
    /// Files that were not searched; absent if all were.
    #[serde(default, skip_serializing_if = "NotSearched::is_nothing")]
    pub not_searched: NotSearched,
}

/// A reference of [`ReferenceDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Path relative to the repository root.
    pub path: String,
    /// Line, counted from 1.
    pub line: u64,
    /// `definition`, `call`, `import`, `attribute`, `name`, `possible` or `text`.
    pub kind: String,
}

/// Details of `list_files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDetails {
    /// The entries of this page.
    pub entries: Vec<ListedEntry>,
    /// Number of entries.
    pub total: u64,
    /// Number of entries that are ignored, skipped or hidden, or whose names are not UTF-8.
    pub left_out: u32,
    /// Entries that a recursive list leaves out; absent if there are none, and for a list of one directory.
    #[serde(default, skip_serializing_if = "NotSearched::is_nothing")]
    pub not_listed: NotSearched,
}

/// An entry of [`ListDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedEntry {
    /// Path relative to the repository root.
    pub path: String,
    /// Kind of the entry.
    pub kind: ListedKind,
    /// Size in bytes; absent for a directory and a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The kind of a [`ListedEntry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListedKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which is not followed.
    Symlink,
}

/// Details of `write_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteDetails {
    /// Path relative to the repository root.
    pub path: String,
    /// Kind of the change.
    pub change: WriteChange,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
}

/// Change of a file by `write_file`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteChange {
    /// The file is new.
    Created,
    /// The content is replaced or edited.
    Modified,
    /// The file has this content already.
    Unchanged,
}

/// Details of `install_package`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallDetails {
    /// Package manager: `pip` or `npm`.
    pub manager: String,
    /// Requested packages, each with its constraint.
    pub requested: Vec<String>,
    /// Packages that pip reports as installed. npm prints no list.
    pub installed: Vec<InstalledPackage>,
    /// Files of the repository that the installation changed, relative to its root.
    pub files: Vec<String>,
}

/// A package of [`InstallDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledPackage {
    /// Name of the package.
    pub name: String,
    /// Installed version; absent if the installer does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
