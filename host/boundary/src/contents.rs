//! Knowledge of the contents of files, by which a search leaves out those that cannot match.
//!
//! The boundary knows no index: [`ContentIndex`] is one, and the daemon implements it. The parts of a call share one
//! [`NarrowedSearch`], so that they agree on the files.

use std::sync::Arc;

use tool_repository::bulk::Names;
use tool_repository::{FileList, Repository};

/// Kind of a pattern of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternKind {
    /// Each character stands for itself.
    Literal,
    /// A regular expression.
    Regex,
}

/// A pattern that a guest searches for, line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoughtPattern {
    /// See [`PatternKind`].
    pub kind: PatternKind,
    /// Its text.
    pub text: String,
    /// True where upper and lower case are the same.
    pub ignores_case: bool,
}

/// Verdict on a file of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileVerdict {
    /// It may match, so that it is read.
    Candidate,
    /// It is text, and no line of it matches.
    Text,
    /// It has a NUL in its first 8 KiB.
    Binary,
}

/// Knowledge of the contents of a repository's files. The daemon implements it over its index.
///
/// It knows a file by size, times and inode as the list has them, and takes nothing else for known.
pub trait ContentIndex: Send + Sync {
    /// True where it is worth asking for verdicts: something is known of the files, and the patterns can rule some out.
    fn can_narrow(&self, repository: &Repository, patterns: &[SoughtPattern]) -> bool;

    /// Verdicts on the files of a list, in its order; nothing where the patterns rule out no file.
    fn narrow(
        &self,
        repository: &Repository,
        list: &Arc<FileList>,
        patterns: &[SoughtPattern],
    ) -> Option<Vec<FileVerdict>>;

    /// Takes note that a call has searched a list and has ended, so that the next search can be narrowed.
    fn note_search(&self, repository: &Arc<Repository>, list: &Arc<FileList>);
}

/// The search of a call: the files of now, and which of them cannot match.
pub(crate) struct NarrowedSearch {
    pub(crate) patterns: Vec<SoughtPattern>,
    pub(crate) names: Names,
    /// By the list's order; absent where every file is read.
    pub(crate) verdicts: Option<Vec<FileVerdict>>,
    repository: Arc<Repository>,
    index: Arc<dyn ContentIndex>,
}

impl NarrowedSearch {
    /// `is_exact` says whether the sizes and times of the list are those of now.
    pub(crate) fn new(
        repository: &Arc<Repository>,
        index: Arc<dyn ContentIndex>,
        (names, is_exact): (Names, bool),
        patterns: Vec<SoughtPattern>,
    ) -> Self {
        let narrow = || index.narrow(repository, names.list(), &patterns);
        Self {
            verdicts: is_exact.then(narrow).flatten(),
            patterns,
            names,
            repository: Arc::clone(repository),
            index,
        }
    }

    /// True where it leaves out files that are text.
    pub(crate) fn leaves_out_text(&self) -> bool {
        let mut verdicts = self.verdicts.iter().flatten();
        verdicts.any(|verdict| *verdict == FileVerdict::Text)
    }

    /// The verdict on the file at this place of the list.
    pub(crate) fn verdict(&self, at: usize) -> FileVerdict {
        self.verdicts
            .as_ref()
            .map_or(FileVerdict::Candidate, |verdicts| verdicts[at])
    }
}

impl std::fmt::Debug for NarrowedSearch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NarrowedSearch").finish_non_exhaustive()
    }
}

/// It goes with its call.
impl Drop for NarrowedSearch {
    fn drop(&mut self) {
        self.index.note_search(&self.repository, self.names.list());
    }
}
