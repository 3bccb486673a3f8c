//! The journal in which changes are recorded before they are made, and its records. Sessions implement it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::WrittenLate;

/// Durable record of changes, written before they are made, so that they can be finished or undone.
pub trait ChangeJournal: Send + Sync {
    /// Makes a change durable before any file is touched. Old contents are stored completely.
    ///
    /// # Errors
    ///
    /// The disk failed, or the error holds a [`ContentsFull`].
    fn prepare(&self, change: &PreparedChange) -> std::io::Result<()>;

    /// Records that the change `id` is completely in place.
    fn committed(&self, id: &str) -> std::io::Result<()>;

    /// Records that the change `id` was completely rolled back.
    fn abandoned(&self, id: &str) -> std::io::Result<()>;

    /// Tells the user about an old file that is kept beside the new one. A journal without a user does nothing.
    fn written_late(&self, _late: &WrittenLate) {}

    /// Begins work for which the session's end waits, as for an open change. Without a session there is nothing to do.
    ///
    /// # Errors
    ///
    /// The session is ending.
    fn enter(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Ends work that [`Self::enter`] began.
    fn leave(&self) {}

    /// Makes durable what a commit is about to put into the git directory, before it does. The session's end waits for
    /// it. A journal that does not outlive its process records nothing.
    ///
    /// # Errors
    ///
    /// The session is ending, or the disk failed.
    fn publishing(&self, _publication: &CommitInProgress) -> std::io::Result<()> {
        Ok(())
    }

    /// Records that nothing of the publication `id` has to be finished or removed.
    fn published(&self, _id: &str) {}
}

/// Work for which the session's end waits while this value lives.
pub struct JournalGuard<'a>(&'a dyn ChangeJournal);

impl<'a> JournalGuard<'a> {
    /// Begins the work.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub fn new(journal: &'a dyn ChangeJournal) -> std::io::Result<Self> {
        journal.enter()?;
        Ok(Self(journal))
    }
}

impl Drop for JournalGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The session would keep more contents of changed files than it may.
#[derive(Debug, thiserror::Error)]
#[error(
    "the session would keep more than {} MiB of old and new contents for `tool undo`",
    tool_core::limits::SESSION_CONTENTS_BYTES_MAX / (1024 * 1024)
)]
pub struct ContentsFull;

/// One proposal that is about to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedChange {
    /// Unique identifier.
    pub id: String,
    /// The skill call that proposes it.
    pub call_id: Option<String>,
    /// Absolute path of the repository root.
    pub root: PathBuf,
    /// All files of the change.
    pub files: Vec<FileChange>,
    /// Directories that the change creates, relative to the root, outermost first.
    pub directories: Vec<String>,
}

/// One file of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the root.
    pub path: String,
    /// State before; absent if the file did not exist.
    pub before: Option<FileState>,
    /// State after; absent if the file is removed.
    pub after: Option<FileState>,
}

/// Content and mode of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// Whole content.
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl FileState {
    /// True if the owner may execute the file.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// A commit that is being put in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitInProgress {
    /// Unique identifier.
    pub id: String,
    /// The git directory of the work tree, with `HEAD` and the index.
    pub git: PathBuf,
    /// The git directory that holds the branches.
    pub common: PathBuf,
    /// The branch that moves; absent on a detached head.
    pub branch: Option<String>,
    /// The commit to which it moves.
    pub commit: String,
}
