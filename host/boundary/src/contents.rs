//! Knowledge about the contents of files, by which a search leaves out files that cannot match.
//!
//! The boundary has no index: the daemon implements [`ContentIndex`]. The parts of a call share one [`NarrowedSearch`],
//! so that they agree on the files.

use std::sync::Arc;

use tool_repository::bulk::ListedNames;
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
    /// How to read `text`.
    pub kind: PatternKind,
    /// Text of the pattern.
    pub text: String,
    /// True if upper and lower case are equal.
    pub ignores_case: bool,
}

/// Verdict on a file of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileVerdict {
    /// The file may match, so it has to be read.
    Candidate,
    /// The file is text, and no line of it matches.
    Text,
    /// The file has a NUL in its first 8 KiB.
    Binary,
}

/// Knowledge about the contents of a repository's files. The daemon implements it with its index.
///
/// It recognises a file by size, times and inode of the list, and treats every other file as unknown.
pub trait ContentIndex: Send + Sync {
    /// True if verdicts are worth asking for: something is known about the files, and the patterns can rule some out.
    fn can_narrow(&self, repository: &Repository, patterns: &[SoughtPattern]) -> bool;

    /// Verdicts on the files of a list, in its order; `None` if the patterns rule out no file.
    fn narrow(
        &self,
        repository: &Repository,
        list: &Arc<FileList>,
        patterns: &[SoughtPattern],
    ) -> Option<Vec<FileVerdict>>;

    /// Notes that a call has searched a list and has ended, so that the next search can be narrowed.
    fn note_search(&self, repository: &Arc<Repository>, list: &Arc<FileList>);
}

/// The search of a call: the current files, and which of them cannot match.
pub(crate) struct NarrowedSearch {
    pub(crate) patterns: Vec<SoughtPattern>,
    pub(crate) names: ListedNames,
    /// In the order of the list; absent if every file has to be read.
    pub(crate) verdicts: Option<Vec<FileVerdict>>,
    repository: Arc<Repository>,
    index: Arc<dyn ContentIndex>,
}

impl NarrowedSearch {
    /// `is_exact` says whether the sizes and times of the list are current.
    pub(crate) fn new(
        repository: &Arc<Repository>,
        index: Arc<dyn ContentIndex>,
        (names, is_exact): (ListedNames, bool),
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

    /// True if it leaves out files that are text.
    pub(crate) fn leaves_out_text(&self) -> bool {
        let mut verdicts = self.verdicts.iter().flatten();
        verdicts.any(|verdict| *verdict == FileVerdict::Text)
    }

    /// Verdict on the file with this index in the list.
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

/// The search ends with its call.
impl Drop for NarrowedSearch {
    fn drop(&mut self) {
        self.index.note_search(&self.repository, self.names.list());
    }
}
