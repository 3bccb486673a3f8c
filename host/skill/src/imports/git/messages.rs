//! Messages between the engine and a helper for git. Paths are relative to the session's root; contents travel as
//! bytes beside a message.
//!
//! An attacker may have taken over the helper, so its answers are not trusted: an identifier that does not parse is
//! refused, and the reader limits lists, texts and contents.

use super::submodules::SUBMODULE;
use serde::{Deserialize, Serialize};
use tool_boundary::FailureKind;
use tool_core::authors::Team;
use tool_core::digest::CommitId;

/// Changes on one page of a helper's answer.
pub(crate) const GIT_PAGE: usize = 256;

/// Commits that a log can go back in all its pages. The longest histories have about a million.
pub(crate) const GIT_LOG_SKIP_MAX: usize = 2_000_000;

/// Bytes that are shown of an old commit's message.
pub(crate) const GIT_LOG_MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Lines that one question attributes to their commits.
pub(crate) const GIT_BLAME_LINES_MAX: usize = 2_000;

/// Name of an object: 40 hexadecimal digits, or 64 in a repository with SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(in crate::imports) struct ObjectId(String);

impl ObjectId {
    pub(in crate::imports) fn as_str(&self) -> &str {
        &self.0
    }

    pub(in crate::imports) fn commit(&self) -> CommitId {
        CommitId::of_digits(&self.0).expect("an `Id` is made of 40 or 64 digits only")
    }
}

impl From<CommitId> for ObjectId {
    fn from(commit: CommitId) -> Self {
        Self(commit.to_string())
    }
}

impl TryFrom<String> for ObjectId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_plain = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        if is_plain && CommitId::of_digits(&text).is_some() {
            Ok(Self(text))
        } else {
            Err("no object has such a name")
        }
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> Self {
        id.0
    }
}

impl std::fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Where the new side of a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum ChangeArea {
    Index,
    WorkTree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum FileStatus {
    Added,
    Untracked,
    Deleted,
    Renamed,
    TypeChanged,
    Conflicted,
    Modified,
}

/// A change as libgit2 reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct FileDelta {
    pub(in crate::imports) status: FileStatus,
    /// Absent if the path is outside the session's root or not UTF-8.
    pub(in crate::imports) path: Option<String>,
    pub(in crate::imports) old_path: Option<String>,
    /// Stored content of the old side, if there is one; for a conflict, that of the last commit.
    pub(in crate::imports) old: Option<ObjectId>,
    pub(in crate::imports) new: Option<ObjectId>,
    pub(in crate::imports) old_mode: u32,
    pub(in crate::imports) new_mode: u32,
    /// True for a missing file that the user told git to leave out or to ignore.
    pub(in crate::imports) left_in_place: bool,
}

/// Conversion of line ends when git stores a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum LineEnds {
    AsTheyAre,
    LineFeeds,
    /// Convert to line feeds, unless the stored content has other line ends already.
    LineFeedsUnlessStored,
}

/// Attributes that git gives to a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Attributes {
    /// Filter program of git for this path. The engine never runs it.
    pub(in crate::imports) external_filter: Option<String>,
    /// True if `.gitattributes` says that the content is not text.
    pub(in crate::imports) binary: bool,
    pub(in crate::imports) line_ends: LineEnds,
}

/// The state from which a commit is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct CommitStart {
    /// Message in the form that git stores.
    pub(in crate::imports) message: String,
    /// Name and address as the commit holds them.
    pub(in crate::imports) author: String,
    pub(in crate::imports) committer: String,
    pub(in crate::imports) parent: Option<ObjectId>,
    pub(in crate::imports) branch: Option<String>,
    /// False if the file system does not keep modes.
    pub(in crate::imports) trusts_modes: bool,
    /// False if plain files represent symbolic links.
    pub(in crate::imports) has_links: bool,
    /// True if git keeps logs of branches.
    pub(in crate::imports) keeps_logs: bool,
    /// `core.hooksPath`; absent for the default folder.
    pub(in crate::imports) hooks_path: Option<String>,
}

/// A path that differs from the index or the last commit, with its entry in the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct CommitCandidate {
    pub(in crate::imports) path: String,
    pub(in crate::imports) committed: Option<(ObjectId, u32)>,
}

/// A submodule, and its commits in the index and the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Submodule {
    pub(in crate::imports) path: String,
    pub(in crate::imports) staged: Option<ObjectId>,
    pub(in crate::imports) committed: Option<ObjectId>,
}

/// A file of a commit; without content if the commit removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct TreeEntry {
    pub(in crate::imports) path: String,
    pub(in crate::imports) new: Option<NewFile>,
}

/// A stored file, with the file system's data at the time of reading. git's index holds the lower 32 bits of each
/// number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct NewFile {
    pub(in crate::imports) id: ObjectId,
    pub(in crate::imports) mode: u32,
    pub(in crate::imports) changed: (i32, u32),
    pub(in crate::imports) modified: (i32, u32),
    pub(in crate::imports) device: u32,
    pub(in crate::imports) inode: u32,
    pub(in crate::imports) user: u32,
    pub(in crate::imports) group: u32,
    pub(in crate::imports) bytes: u32,
}

impl NewFile {
    /// A submodule at a commit. git stores only the commit.
    pub(in crate::imports) fn submodule_at(id: ObjectId) -> Self {
        Self {
            id,
            mode: SUBMODULE,
            changed: (0, 0),
            modified: (0, 0),
            device: 0,
            inode: 0,
            user: 0,
            group: 0,
            bytes: 0,
        }
    }
}

/// Time of a commit: seconds since 1970, and minutes east of Greenwich.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct CommitTime {
    pub(in crate::imports) seconds: i64,
    pub(in crate::imports) offset_minutes: i32,
}

/// A commit of the history. The helper bounds the message and the number of parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct CommitRecord {
    pub(in crate::imports) id: ObjectId,
    pub(in crate::imports) parents: Vec<ObjectId>,
    pub(in crate::imports) author: String,
    pub(in crate::imports) author_email: String,
    pub(in crate::imports) made: CommitTime,
    pub(in crate::imports) message: String,
}

/// The commit of a work tree, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Lineage {
    /// Absent before the first commit.
    pub(in crate::imports) head: Option<ObjectId>,
    /// First of the asked commits from which only commits of the user and the team lead here.
    pub(in crate::imports) follows: Option<ObjectId>,
    /// False during a merge, a rebase or a similar action.
    pub(in crate::imports) is_settled: bool,
}

/// A part of a walk through the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct WalkedCommits {
    pub(in crate::imports) commits: Vec<CommitRecord>,
    /// Number of commits examined, including those that touch no wanted path.
    pub(in crate::imports) steps: usize,
    pub(in crate::imports) is_end: bool,
}

/// Limits for reading many commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastBounds {
    /// Commits of one walk.
    pub commits_max: usize,
    /// Changed files of a commit; a commit with more has none.
    pub files_max: usize,
    /// Exact renames of one commit.
    pub renames_max: usize,
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// Bytes of all messages and paths. The walk ends at this limit.
    pub bytes_max: usize,
}

/// A commit with its changed paths, without patches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct PastRecord {
    pub(in crate::imports) id: ObjectId,
    pub(in crate::imports) seconds: i64,
    pub(in crate::imports) message: String,
    pub(in crate::imports) changed: Vec<String>,
    /// Old and new path of files with unchanged content.
    pub(in crate::imports) renamed: Vec<(String, String)>,
}

/// A commit of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum PastStep {
    Known(ObjectId),
    Read(PastRecord),
}

impl PastStep {
    /// Bytes of the message and the paths.
    pub(in crate::imports) fn bytes(&self) -> usize {
        let Self::Read(record) = self else { return 0 };
        let renamed = record.renamed.iter().flat_map(|(from, to)| [from, to]);
        let paths = record.changed.iter().chain(renamed);
        record.message.len() + paths.map(String::len).sum::<usize>()
    }
}

/// A part of a walk through the past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct PastPage {
    pub(in crate::imports) steps: Vec<PastStep>,
    pub(in crate::imports) is_end: bool,
}

/// Consecutive lines that one commit last changed; `first_line` counts from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct LineOrigin {
    pub(in crate::imports) first_line: usize,
    pub(in crate::imports) line_count: usize,
    pub(in crate::imports) commit: ObjectId,
    /// Absent if the path is outside the session's root or not UTF-8.
    pub(in crate::imports) path: Option<String>,
}

/// Request to a helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum GitRequest {
    Branch,
    /// Compares; `Deltas` then reads the changes.
    Diff {
        area: ChangeArea,
        untracked: bool,
        paths: Vec<String>,
    },
    /// Pairs deletions and additions of the last comparison.
    Renames,
    Deltas {
        from: usize,
    },
    Attributes {
        path: String,
    },
    /// Object and mode of a file in the index.
    Staged {
        path: String,
    },
    /// Submodules of the index and the last commit.
    Submodules,
    /// Reads a stored content.
    Blob {
        id: ObjectId,
        bytes_max: u64,
    },
    /// Resolves a revision to a commit; absent for the last commit.
    Revision {
        name: Option<String>,
    },
    /// The last commit, and which of the `kept` commits it follows through commits of the user and the team alone.
    Lineage {
        kept: Vec<ObjectId>,
        team: Team,
    },
    /// The user's e-mail addresses in git's configuration.
    UserEmails,
    /// True if a commit is `HEAD` or an ancestor of it. False if this cannot be decided.
    IsInHistory {
        commit: ObjectId,
    },
    /// Begins a walk from a commit through its ancestors, newest first; `Walk` then reads commits.
    BeginWalk {
        from: ObjectId,
        skip: usize,
        paths: Vec<String>,
    },
    /// Reads the next commits that touch a wanted path, and examines at most this many.
    Walk {
        commits_max: usize,
        steps_max: usize,
    },
    /// Begins a walk that reads changed paths. The names of known commits follow as bytes; `Past` then reads commits.
    BeginPast {
        from: ObjectId,
        bounds: PastBounds,
    },
    /// Reads the next commits of that walk.
    Past {
        commits_max: usize,
    },
    /// Compares a commit with its first parent; `Deltas` then reads the changes.
    DiffCommit {
        id: ObjectId,
        paths: Vec<String>,
    },
    /// Finds the stored content of a file in a commit.
    FileOf {
        commit: ObjectId,
        path: String,
    },
    /// Finds the commits that last changed a range of lines. Lines count from 1; the last line is included.
    Blame {
        commit: ObjectId,
        path: String,
        first_line: usize,
        last_line: usize,
    },
    /// Reads the state from which a commit would be made.
    Begin {
        message: String,
    },
    /// Finds files that can be committed; `Candidates` then reads them.
    Find {
        paths: Vec<String>,
    },
    Candidates {
        from: usize,
    },
    /// Explains why a named path has no change: it may not exist, or be ignored.
    Explain {
        path: String,
    },
    /// Stores a piece of a file; the bytes follow.
    Store {
        path: String,
        is_last: bool,
    },
    /// Stores the target of a link.
    StoreLink,
    /// Adds files to the commit.
    Entries {
        entries: Vec<TreeEntry>,
    },
    /// Builds the tree: the last commit with these files changed.
    Tree,
    Commit {
        tree: ObjectId,
        parent: Option<ObjectId>,
        message: String,
        /// Time of the author and of the committer.
        moments: [CommitTime; 2],
    },
    /// Updates the copy of the index for the committed files.
    Index,
}

/// Answer of a helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum GitAnswer {
    Done,
    Branch(Option<String>),
    Counted(usize),
    Deltas(Vec<FileDelta>),
    Attributes(Attributes),
    /// Absent if the index does not have the file, or has a conflict for it.
    Staged(Option<(ObjectId, u32)>),
    Submodules(Vec<Submodule>),
    /// The content follows as bytes.
    Blob,
    TooLarge,
    /// Absent before the first commit.
    Revision(Option<CommitRecord>),
    Lineage(Lineage),
    UserEmails(Vec<String>),
    IsInHistory(bool),
    Walked(WalkedCommits),
    Past(PastPage),
    FileOf(Option<ObjectId>),
    Origins(Vec<LineOrigin>),
    Started(CommitStart),
    Candidates(Vec<CommitCandidate>),
    Stored(ObjectId),
    Failed {
        code: FailureKind,
        message: String,
        hint: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_by_forty_or_sixty_four_digits_and_nothing_else() {
        let digits = "0123456789abcdef0123456789abcdef01234567";
        for digits in [digits.to_owned(), format!("{digits}{}", &digits[16..])] {
            let id = ObjectId::try_from(digits.clone()).expect("it is one");
            assert_eq!(id.as_str(), digits);
            assert_eq!(ObjectId::from(id.commit()), id);
        }
        for text in [
            "",
            "../../../etc/passwd",
            &digits[1..],
            &digits.to_uppercase(),
            &format!("{digits}0"),
            &format!("{digits}00"),
        ] {
            ObjectId::try_from(text.to_owned()).expect_err(text);
        }
    }
}
