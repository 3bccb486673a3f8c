//! Uses earlier commits to rank files for a task: files that changed in similar commits, files that change together,
//! and files that changed recently.
//!
//! This crate knows nothing of git: a [`HistoryReader`] returns messages, paths and times. Messages are untrusted text,
//! and only hashes of their words are stored. Read in this order: this module (the data), `store` (the file on disk),
//! `refresh` (reading new commits), `signals` (signals for a task), `recent` (the files that changed most).

mod recent;
mod refresh;
mod signals;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::words::{each_identifier, hash, is_function_word, split_identifier, stem_word};
pub use tool_core::digest::CommitId;
use tool_repository::Repository;

pub(crate) use recent::{RECENT_COMMITS, count_commits_of};
pub use recent::{RecentChanges, recent_changes};
pub(super) use refresh::{HISTORY_WALK_TIME, HistoryCell, ReadingPermit, RefreshOutcome};
pub(super) use signals::{FileHistory, HistorySignals};
pub(super) use store::HISTORY_BYTES_MAX;

/// Newest commits that are stored of one repository.
pub const HISTORY_COMMITS_MAX: usize = 10_000;

/// A commit with more changed files does not count: it moves, reformats or imports files, and tells nothing about a
/// task.
pub const HISTORY_COMMIT_FILES_MAX: usize = 50;

/// Exact renames of one commit that are followed: enough for a large directory that moves.
pub const HISTORY_COMMIT_RENAMES_MAX: usize = 2_000;

/// Bytes of a message that count: the title and the first paragraphs.
pub const HISTORY_MESSAGE_BYTES_MAX: usize = 2 * 1024;

/// Bytes of messages and paths after which a walk ends: three times what ten thousand long messages have.
pub const HISTORY_WALK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Different words of a message that count.
const MESSAGE_WORDS_MAX: usize = 64;

/// Paths of all commits together. The 10,000 newest commits of the Linux kernel name some 25,000.
const HISTORY_PATHS_MAX: usize = 200_000;

/// Bytes of these paths: four times what so many usual ones have. A tree of git can have names that no file system takes.
const HISTORY_PATH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A commit as a reader gives it. A merge, and a commit of too many files, has no changed files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCommit {
    /// Its name.
    pub id: CommitId,
    /// When it was made, in seconds since 1970.
    pub seconds: i64,
    /// The beginning of its message.
    pub message: String,
    /// Changed files by their names after the commit, relative to the root.
    pub changed: Vec<String>,
    /// Files that got another name and kept their content: before and after.
    pub renamed: Vec<(String, String)>,
}

/// One commit of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalkedCommit {
    /// The caller has it already.
    Known(CommitId),
    /// It was read now.
    Read(PastCommit),
}

/// The commits that a walk found, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WalkedHistory {
    /// At most [`HISTORY_COMMITS_MAX`].
    pub commits: Vec<WalkedCommit>,
    /// False where the time was up before the end.
    pub is_complete: bool,
}

/// Why a history cannot be read, in words for a log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HistoryError(pub String);

/// Known reason for which earlier commits are not read although there may be some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryGap {
    /// Git's data lies outside of the work tree, as in a linked worktree or a submodule.
    Outside,
    /// Git's data borrows from outside of the work tree.
    Borrowed,
    /// Git's data has a format that is not read.
    Format,
}

impl HistoryGap {
    /// Notice for the user, without its full stop.
    pub(super) fn notice(self) -> String {
        let reason = match self {
            Self::Outside => "the git directory of this worktree lies outside of the repository",
            Self::Borrowed => "this clone borrows objects from another repository",
            Self::Format => "this repository has a format that is not read",
        };
        format!("Earlier commits are not used: {reason}")
    }
}

/// Reads commits. Git lies behind it: the context engine knows neither its format nor its library.
pub trait HistoryReader: fmt::Debug + Send + Sync {
    /// The commit that the work tree is at; absent before the first.
    fn head(&self, repository: &Arc<Repository>, cancel: &CancellationToken) -> Result<Option<CommitId>, HistoryError>;

    /// The ancestors of a commit, itself included, those in `known` by their names alone. A walk that breaks off, at
    /// the latest soon after `time`, gives what it has. No hidden path is among the paths.
    fn walk(
        &self,
        repository: &Arc<Repository>,
        from: CommitId,
        known: &HashSet<CommitId>,
        time: Duration,
        cancel: &CancellationToken,
    ) -> Result<WalkedHistory, HistoryError>;

    /// Why no commit is read, where that is known. Cheap: it is asked for each selection.
    fn gap(&self, _: &Repository) -> Option<HistoryGap> {
        None
    }
}

/// A reader that knows no history.
#[derive(Debug, Clone, Copy)]
pub struct NoHistory;

impl HistoryReader for NoHistory {
    fn head(&self, _: &Arc<Repository>, _: &CancellationToken) -> Result<Option<CommitId>, HistoryError> {
        Ok(None)
    }

    fn walk(
        &self,
        _: &Arc<Repository>,
        _: CommitId,
        _: &HashSet<CommitId>,
        _: Duration,
        _: &CancellationToken,
    ) -> Result<WalkedHistory, HistoryError> {
        Ok(WalkedHistory::default())
    }
}

/// One commit as it is kept. Paths are places in the table of their history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptCommit {
    id: CommitId,
    seconds: i64,
    /// Hashes of the stems of its message: those of the title, sorted, then the others, sorted.
    words: Box<[u32]>,
    title_words: u8,
    /// As it has them: older names are translated when the history is used.
    changed: Box<[u32]>,
    renamed: Box<[(u32, u32)]>,
}

impl KeptCommit {
    fn title(&self) -> &[u32] {
        &self.words[..usize::from(self.title_words)]
    }
}

/// The commits before a work tree, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History {
    commits: Vec<KeptCommit>,
    /// Sorted bytewise, without repetition.
    paths: Vec<Box<str>>,
    statistics: OnceLock<signals::CommitStatistics>,
}

impl History {
    /// Makes a history from a walk. `before` has the commits of which the walk returns only the names.
    fn new(walked: Vec<WalkedCommit>, before: &Self) -> Self {
        let places: HashMap<CommitId, usize> = before
            .commits
            .iter()
            .enumerate()
            .map(|(at, commit)| (commit.id, at))
            .collect();
        let mut table = PathTable::default();
        let mut commits = Vec::with_capacity(walked.len().min(HISTORY_COMMITS_MAX));
        for one in walked.into_iter().take(HISTORY_COMMITS_MAX) {
            let kept = match one {
                WalkedCommit::Known(id) => places.get(&id).map(|at| table.take_over(&before.commits[*at], before)),
                WalkedCommit::Read(commit) => Some(table.take_in(&commit)),
            };
            commits.extend(kept);
        }
        table.finish(commits)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commits.iter().all(|commit| commit.changed.is_empty())
    }

    /// True if it has at least `number` commits.
    pub(super) fn has(&self, commits: usize) -> bool {
        self.commits.len() >= commits
    }

    /// The changed files of each commit by the names that they have now, as far as exact renames lead.
    fn present_names(&self) -> Vec<Box<[u32]>> {
        let mut names: Vec<u32> = (0..self.paths.len() as u32).collect();
        let mut files = Vec::with_capacity(self.commits.len());
        for commit in &self.commits {
            files.push(commit.changed.iter().map(|path| names[*path as usize]).collect());
            // Older commits know the file by its old name.
            let renamed: Vec<(u32, u32)> = commit
                .renamed
                .iter()
                .map(|(from, to)| (*from, names[*to as usize]))
                .collect();
            for (from, now) in renamed {
                names[from as usize] = now;
            }
        }
        files
    }

    fn ids(&self) -> HashSet<CommitId> {
        self.commits.iter().map(|commit| commit.id).collect()
    }
}

/// Paths in the order in which they come, while a history is made.
#[derive(Default)]
struct PathTable {
    places: HashMap<Box<str>, u32>,
    bytes: usize,
}

impl PathTable {
    /// The place of a path; `None` if the table is full.
    fn place(&mut self, path: &str) -> Option<u32> {
        if let Some(place) = self.places.get(path) {
            return Some(*place);
        }
        let place = u32::try_from(self.places.len()).ok()?;
        let has_room = self.places.len() < HISTORY_PATHS_MAX && self.bytes + path.len() <= HISTORY_PATH_BYTES_MAX;
        has_room.then(|| {
            self.bytes += path.len();
            self.places.insert(path.into(), place);
            place
        })
    }

    fn take_in(&mut self, commit: &PastCommit) -> KeptCommit {
        let counts = commit.changed.len() <= HISTORY_COMMIT_FILES_MAX;
        let changed = commit.changed.iter().filter(|_| counts);
        let mut changed: Vec<u32> = changed.filter_map(|path| self.place(path)).collect();
        changed.sort_unstable();
        changed.dedup();
        let renamed = commit.renamed.iter().take(HISTORY_COMMIT_RENAMES_MAX);
        let renamed = renamed.filter_map(|(from, to)| Some((self.place(from)?, self.place(to)?)));
        let (words, title_words) = message_words(&commit.message);
        KeptCommit {
            id: commit.id,
            seconds: commit.seconds,
            words: words.into(),
            title_words,
            renamed: renamed.collect(),
            changed: changed.into(),
        }
    }

    fn take_over(&mut self, commit: &KeptCommit, from: &History) -> KeptCommit {
        let mut place = |at: &u32| self.place(from.paths.get(*at as usize)?);
        KeptCommit {
            changed: commit.changed.iter().filter_map(&mut place).collect(),
            renamed: commit
                .renamed
                .iter()
                .filter_map(|(from, to)| Some((place(from)?, place(to)?)))
                .collect(),
            ..commit.clone()
        }
    }

    /// Sorts the paths and gives each commit their new places.
    fn finish(self, mut commits: Vec<KeptCommit>) -> History {
        let mut paths: Vec<(Box<str>, u32)> = self.places.into_iter().collect();
        paths.sort_unstable();
        let mut new_places = vec![0_u32; paths.len()];
        for (new, (_, old)) in (0_u32..).zip(&paths) {
            new_places[*old as usize] = new;
        }
        let translate = |place: &mut u32| *place = new_places[*place as usize];
        for commit in &mut commits {
            commit.changed.iter_mut().for_each(translate);
            commit.changed.sort_unstable();
            for (from, to) in &mut commit.renamed {
                translate(from);
                translate(to);
            }
        }
        History {
            commits,
            paths: paths.into_iter().map(|(path, _)| path).collect(),
            statistics: OnceLock::new(),
        }
    }
}

/// Hashes of the stems of a message without words that say nothing, in the order of [`KeptCommit::words`], and how many
/// of them are in the title. Lines such as `Signed-off-by:` are left out.
fn message_words(message: &str) -> (Vec<u32>, u8) {
    let message = &message[..message.floor_char_boundary(HISTORY_MESSAGE_BYTES_MAX)];
    let mut lines = message.lines().filter(|line| !super::query::is_trailer(line));
    let mut words = Vec::new();
    let add_line = |words: &mut Vec<u32>, line: &str| {
        each_identifier(line.as_bytes(), |identifier| {
            split_identifier(identifier, |word, _| {
                if words.len() < MESSAGE_WORDS_MAX && !is_function_word(word) {
                    words.push(hash(stem_word(word)));
                }
            });
        });
    };
    add_line(&mut words, lines.next().unwrap_or(""));
    words.sort_unstable();
    words.dedup();
    let title_words = words.len();
    for line in lines {
        add_line(&mut words, line);
    }
    let mut others = words.split_off(title_words);
    others.sort_unstable();
    others.dedup();
    others.retain(|word| words.binary_search(word).is_err());
    words.append(&mut others);
    (words, title_words as u8)
}
