//! The journal that changes are recorded in before they are made, and its records. Sessions implement it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::WrittenLate;

/// Durable record of changes. It is written before the changes are made, so that they can be finished or undone.
pub trait ChangeJournal: Send + Sync {
    /// Makes a change durable before anything is touched. Old contents are stored whole; where that is more than a
    /// session keeps, the error holds a [`ContentsFull`].
    fn prepare(&self, change: &PreparedChange) -> std::io::Result<()>;

    /// Notes that the change `id` is wholly in place.
    fn committed(&self, id: &str) -> std::io::Result<()>;

    /// Notes that the change `id` was wholly rolled back.
    fn abandoned(&self, id: &str) -> std::io::Result<()>;

    /// Tells the user of an old file that is kept beside the new one. A journal without a user does nothing.
    fn written_late(&self, _late: &WrittenLate) {}

    /// Begins something that the session's end waits for as for an open change. Refused once the session is ending; where
    /// there is no session that ends, there is nothing to do.
    fn enter(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Ends what [`Self::enter`] began.
    fn leave(&self) {}

    /// Makes durable what a commit is about to put into the git directory, before anything of it is there. The session's
    /// end waits for it. Refused once the session is ending; what does not survive its process notes nothing.
    fn publishing(&self, _publication: &Publishing) -> std::io::Result<()> {
        Ok(())
    }

    /// Notes that of the publication `id` nothing is left to be finished or removed.
    fn published(&self, _id: &str) {}
}

/// Something that the session's end waits for, while this value lives.
pub struct Entered<'a>(&'a dyn ChangeJournal);

impl<'a> Entered<'a> {
    /// Tells the journal that this work has begun. Fails where the session has ended.
    pub fn new(journal: &'a dyn ChangeJournal) -> std::io::Result<Self> {
        journal.enter()?;
        Ok(Self(journal))
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A session keeps no more contents of changed files than it has.
#[derive(Debug, thiserror::Error)]
#[error(
    "the session would keep more than {} MiB of old and new contents for `tool undo`",
    tool_core::limits::SESSION_CONTENTS_BYTES_MAX / (1024 * 1024)
)]
pub struct ContentsFull;

/// One proposal, about to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedChange {
    /// Unique.
    pub id: String,
    /// The skill call that proposes it.
    pub call_id: Option<String>,
    /// Absolute path of the repository root.
    pub root: PathBuf,
    /// Every file of it.
    pub files: Vec<FileChange>,
    /// Directories that it makes, relative to the root, outermost first.
    pub directories: Vec<String>,
}

/// One file of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the root.
    pub path: String,
    /// Before; absent where the file did not exist.
    pub before: Option<FileState>,
    /// After; absent where the file is removed.
    pub after: Option<FileState>,
}

/// A file's content and mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// Whole content.
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl FileState {
    /// True for a mode with which the owner may run the file.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// A commit that is being put in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publishing {
    /// Unique.
    pub id: String,
    /// The git directory of the work tree: `HEAD` and the index.
    pub git: PathBuf,
    /// The one that holds the branches.
    pub common: PathBuf,
    /// The branch that moves; absent on a detached head.
    pub branch: Option<String>,
    /// The commit that it moves to.
    pub commit: String,
}
