//! Messages between the engine and a helper for git. Paths are relative to our root; bytes travel beside.
//!
//! A helper's answers are untrusted, because an attacker may have taken it over: identifiers parse or the answer is
//! refused, and the reader bounds lists, texts and contents.

use super::submodules::SUBMODULE;
use serde::{Deserialize, Serialize};
use tool_core::authors::Team;
use tool_core::digest::CommitId;

/// The name of an object: 40 hexadecimal digits, or 64 in a repository whose names are by SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(in crate::imports) struct Id(String);

impl Id {
    pub(in crate::imports) fn as_str(&self) -> &str {
        &self.0
    }

    pub(in crate::imports) fn commit(&self) -> CommitId {
        CommitId::of_digits(&self.0).expect("an `Id` is made of 40 or 64 digits only")
    }
}

impl From<CommitId> for Id {
    fn from(commit: CommitId) -> Self {
        Self(commit.to_string())
    }
}

impl TryFrom<String> for Id {
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

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Place of the new side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum Area {
    Index,
    WorkTree,
}

/// Kind of a file's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum Status {
    Added,
    Untracked,
    Deleted,
    Renamed,
    TypeChanged,
    Conflicted,
    Modified,
}

/// One change, as libgit2 sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Delta {
    pub(in crate::imports) status: Status,
    /// Absent where it lies outside our root or is not UTF-8.
    pub(in crate::imports) path: Option<String>,
    pub(in crate::imports) old_path: Option<String>,
    /// The stored contents, where there are any; of a conflict, what the last commit holds.
    pub(in crate::imports) old: Option<Id>,
    pub(in crate::imports) new: Option<Id>,
    pub(in crate::imports) old_mode: u32,
    pub(in crate::imports) new_mode: u32,
    /// Missing because the user told git not to have it, or not to look.
    pub(in crate::imports) left_in_place: bool,
}

/// Conversion of line ends when git stores a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum LineEnds {
    AsTheyAre,
    LineFeeds,
    /// To line feeds, unless the stored form has others already.
    LineFeedsUnlessStored,
}

/// Attributes that git gives to a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Attributes {
    /// The program that git would put between the work tree and its objects. It is never run here.
    pub(in crate::imports) external_filter: Option<String>,
    /// `.gitattributes` says that the contents are not text.
    pub(in crate::imports) binary: bool,
    pub(in crate::imports) line_ends: LineEnds,
}

/// The state from which a commit is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Start {
    /// The message as git would store it.
    pub(in crate::imports) message: String,
    /// Name and address, as they stand in a commit.
    pub(in crate::imports) author: String,
    pub(in crate::imports) committer: String,
    pub(in crate::imports) parent: Option<Id>,
    pub(in crate::imports) branch: Option<String>,
    /// False where the modes of files mean nothing.
    pub(in crate::imports) trusts_modes: bool,
    /// False where a plain file stands for a symbolic link.
    pub(in crate::imports) has_links: bool,
    /// True where the movements of branches are logged.
    pub(in crate::imports) keeps_logs: bool,
    /// `core.hooksPath`; absent for the usual folder.
    pub(in crate::imports) hooks_path: Option<String>,
}

/// A path that differs from the index or the last commit, and what the last commit holds for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Candidate {
    pub(in crate::imports) path: String,
    pub(in crate::imports) committed: Option<(Id, u32)>,
}

/// A submodule, and the commits of it that index and last commit name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Submodule {
    pub(in crate::imports) path: String,
    pub(in crate::imports) staged: Option<Id>,
    pub(in crate::imports) committed: Option<Id>,
}

/// One file of a commit; without contents where it is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct TreeEntry {
    pub(in crate::imports) path: String,
    pub(in crate::imports) new: Option<NewFile>,
}

/// A stored file, with what the file system said of it when it was read: git's index keeps the lower 32 bits of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct NewFile {
    pub(in crate::imports) id: Id,
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
    /// A submodule at a commit. git stores nothing else about it.
    pub(in crate::imports) fn submodule(id: Id) -> Self {
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

/// When a commit is made: seconds since 1970, and minutes east of Greenwich.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Moment {
    pub(in crate::imports) seconds: i64,
    pub(in crate::imports) offset_minutes: i32,
}

/// A commit of the history. The helper bounds the message and the number of parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct CommitRecord {
    pub(in crate::imports) id: Id,
    pub(in crate::imports) parents: Vec<Id>,
    /// Name and address.
    pub(in crate::imports) author: String,
    /// The address alone.
    pub(in crate::imports) author_email: String,
    pub(in crate::imports) made: Moment,
    pub(in crate::imports) message: String,
}

/// The commit that a work tree is at, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct Lineage {
    /// Absent before the first commit.
    pub(in crate::imports) head: Option<Id>,
    /// The first of the asked commits from which only commits of the user and the team lead here.
    pub(in crate::imports) follows: Option<Id>,
    /// False in the middle of a merge, a rebase and the like.
    pub(in crate::imports) is_settled: bool,
}

/// A part of a walk through the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct WalkedCommits {
    pub(in crate::imports) commits: Vec<CommitRecord>,
    /// Commits that were looked at, those that touch no wanted path included.
    pub(in crate::imports) steps: usize,
    pub(in crate::imports) is_end: bool,
}

/// Limits of a reading of many commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastBounds {
    /// Commits of a walk.
    pub commits_max: usize,
    /// Files of a commit that counts.
    pub files_max: usize,
    /// Exact renames of a commit.
    pub renames_max: usize,
    /// Bytes of a message.
    pub message_bytes_max: usize,
    /// Bytes of messages and paths after which a walk ends.
    pub bytes_max: usize,
}

/// A commit with its changed paths, without patches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct PastRecord {
    pub(in crate::imports) id: Id,
    pub(in crate::imports) seconds: i64,
    pub(in crate::imports) message: String,
    pub(in crate::imports) changed: Vec<String>,
    /// Before and after, for files whose content stayed the same.
    pub(in crate::imports) renamed: Vec<(String, String)>,
}

/// One commit of a walk through the past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum PastStep {
    Known(Id),
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

/// Lines in a row of a file that one commit brought; `first_line` counts from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::imports) struct LineOrigin {
    pub(in crate::imports) first_line: usize,
    pub(in crate::imports) line_count: usize,
    pub(in crate::imports) commit: Id,
    /// Absent where it lies outside our root or is not UTF-8.
    pub(in crate::imports) path: Option<String>,
}

/// Request to a helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum GitRequest {
    /// The name of the branch.
    Branch,
    /// Compares; `Deltas` then reads what was found.
    Diff {
        area: Area,
        untracked: bool,
        paths: Vec<String>,
    },
    /// Pairs deletions and additions of what was compared last.
    Renames,
    Deltas {
        from: usize,
    },
    Attributes {
        path: String,
    },
    /// The content of a file in the index, and its mode.
    Staged {
        path: String,
    },
    /// The submodules of index and last commit.
    Submodules,
    /// A stored content.
    Blob {
        id: Id,
        bytes_max: u64,
    },
    /// The commit that a revision stands for; absent means the last one.
    Revision {
        name: Option<String>,
    },
    /// The last commit, and which of the kept ones it follows by commits of the user and the team alone.
    Lineage {
        kept: Vec<Id>,
        team: Team,
    },
    /// The user's addresses, as the configuration has them.
    UserEmails,
    /// Asks if a commit is `HEAD` or one of its ancestors. False where that cannot be decided.
    IsInHistory {
        commit: Id,
    },
    /// Begins a walk from a commit through its ancestors, newest first; `Walk` then reads it.
    BeginWalk {
        from: Id,
        skip: usize,
        paths: Vec<String>,
    },
    /// The next commits that touch a wanted path, after looking at no more than so many.
    Walk {
        commits_max: usize,
        steps_max: usize,
    },
    /// Begins a walk that reads changed paths; the names of known commits come beside it. `Past` then reads it.
    BeginPast {
        from: Id,
        bounds: PastBounds,
    },
    /// The next commits of that walk.
    Past {
        commits_max: usize,
    },
    /// Compares a commit with its first parent; `Deltas` then reads what was found.
    DiffCommit {
        id: Id,
        paths: Vec<String>,
    },
    /// The stored content of a file in a commit.
    FileOf {
        commit: Id,
        path: String,
    },
    /// Finds the commits that brought lines of a file, from 1, the last one included.
    Blame {
        commit: Id,
        path: String,
        first_line: usize,
        last_line: usize,
    },
    /// The state from which a commit would be made.
    Begin {
        message: String,
    },
    /// Finds what could be committed; `Candidates` then reads it.
    Find {
        paths: Vec<String>,
    },
    Candidates {
        from: usize,
    },
    /// Says of a named path that stands for no change whether it is there at all.
    Explain {
        path: String,
    },
    /// Stores a piece of a file, which comes beside it.
    Store {
        path: String,
        is_last: bool,
    },
    /// Stores a link's target.
    StoreLink,
    /// Files of the commit; more may follow.
    Entries {
        entries: Vec<TreeEntry>,
    },
    /// The tree of the last commit with those files changed.
    Tree,
    Commit {
        tree: Id,
        parent: Option<Id>,
        message: String,
        /// When the author made the change, and when it was committed.
        moments: [Moment; 2],
    },
    /// Makes the copy of the index agree with the commit for those files.
    Index,
}

/// Answer of a helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::imports) enum GitAnswer {
    Done,
    Branch(Option<String>),
    Counted(usize),
    Deltas(Vec<Delta>),
    Attributes(Attributes),
    /// Absent where the index does not have the file, or has a conflict in its place.
    Staged(Option<(Id, u32)>),
    Submodules(Vec<Submodule>),
    /// The content is beside it.
    Blob,
    TooLarge,
    /// Absent before the first commit.
    Revision(Option<CommitRecord>),
    Lineage(Lineage),
    UserEmails(Vec<String>),
    IsInHistory(bool),
    Walked(WalkedCommits),
    Past(PastPage),
    FileOf(Option<Id>),
    Origins(Vec<LineOrigin>),
    Started(Start),
    Candidates(Vec<Candidate>),
    Stored(Id),
    Failed {
        code: String,
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
            let id = Id::try_from(digits.clone()).expect("it is one");
            assert_eq!(id.as_str(), digits);
            assert_eq!(Id::from(id.commit()), id);
        }
        for text in [
            "",
            "../../../etc/passwd",
            &digits[1..],
            &digits.to_uppercase(),
            &format!("{digits}0"),
            &format!("{digits}00"),
        ] {
            Id::try_from(text.to_owned()).expect_err(text);
        }
    }
}
