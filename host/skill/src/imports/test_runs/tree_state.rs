//! State of the work tree before a run: its commit, and whether all files are the user's own.

use std::collections::BTreeSet;

use crate::imports::git::messages::{GitAnswer, GitRequest, Lineage, ObjectId};
use crate::imports::git::{GitHelper, nonsense_failure};
use crate::imports::{commit_history, read_team};
use crate::{CallContext, SeenSessions};
use tool_boundary::Failure;
use tool_repository::changes;

/// Used in place of a commit outside of git, and before the first commit.
const NO_COMMIT: &str = "none";

/// Limit for files that sessions have changed and that are compared with the last commit. With more files, the state
/// does not count as the user's own.
const COMPARED_MAX: usize = 200;

/// Limit for a file that is compared, in bytes.
const COMPARED_BYTES_MAX: u64 = 16 << 20;

/// The commit of a work tree.
#[derive(Debug)]
pub(super) struct TreeState {
    /// Hexadecimal id, or [`NO_COMMIT`].
    pub(super) commit: String,
    /// First of the asked commits from which only commits of the user and the team lead here.
    pub(super) follows: Option<String>,
    /// False during a merge, a rebase or a similar action.
    is_settled: bool,
    head: Option<ObjectId>,
}

impl TreeState {
    /// Reads the state, and which of the `kept` commits it follows. `None` if git's data cannot be read. The user is
    /// not asked.
    pub(super) fn read(context: &CallContext, kept: &[String]) -> Option<Self> {
        let root = context.repository.root();
        if !root
            .ancestors()
            .any(|folder| folder.join(".git").symlink_metadata().is_ok())
        {
            return Some(Self {
                commit: NO_COMMIT.to_owned(),
                follows: None,
                is_settled: true,
                head: None,
            });
        }
        let read = || -> Result<Lineage, Failure> {
            let kept = kept.iter().filter_map(|commit| ObjectId::try_from(commit.clone()).ok());
            let request = GitRequest::Lineage {
                kept: kept.collect(),
                team: context.repository.state_directory().map(read_team).unwrap_or_default(),
            };
            match open_git(context)?.ask(&request)? {
                GitAnswer::Lineage(lineage) => Ok(lineage),
                _ => Err(nonsense_failure()),
            }
        };
        let lineage = read().ok()?;
        Some(Self {
            commit: lineage.head.as_ref().map_or(NO_COMMIT, ObjectId::as_str).to_owned(),
            follows: lineage
                .follows
                .map(String::from)
                .filter(|follows| kept.contains(follows)),
            is_settled: lineage.is_settled,
            head: lineage.head,
        })
    }

    /// True if no file is in a state that only a session made, apart from sessions that were `seen` before. A file is
    /// the user's own if it is as it was before the sessions, or as in the last commit. Also returns the sessions
    /// that were examined.
    pub(super) fn is_own(&self, context: &CallContext, seen: &SeenSessions) -> (bool, SeenSessions) {
        let Some(sessions) = &context.runs.changes else {
            return (false, SeenSessions::default());
        };
        if !self.is_settled || context.repository.layer().is_some() {
            return (false, SeenSessions::default());
        }
        let left = sessions.left_by_sessions(&context.repository, seen);
        (self.are_committed(context, &left.paths), left.seen)
    }

    fn are_committed(&self, context: &CallContext, paths: &BTreeSet<String>) -> bool {
        if paths.is_empty() {
            return true;
        }
        let Some(head) = self.head.as_ref().filter(|_| paths.len() <= COMPARED_MAX) else {
            return false;
        };
        let Ok(mut git) = open_git(context) else { return false };
        paths
            .iter()
            .all(|path| is_committed(&mut git, head, context, path).unwrap_or(false))
    }
}

/// Opens the repository without asking the user.
fn open_git(context: &CallContext) -> Result<GitHelper, Failure> {
    GitHelper::open(
        &commit_history::reading_context(&context.repository, &context.cancel)?,
        None,
    )
}

/// True if a file is as in the commit; `None` if that cannot be read.
fn is_committed(git: &mut GitHelper, head: &ObjectId, context: &CallContext, path: &str) -> Option<bool> {
    let current = changes::read_state(context.repository.handle(), path, COMPARED_BYTES_MAX).ok()?;
    let request = GitRequest::FileOf {
        commit: head.clone(),
        path: path.to_owned(),
    };
    let GitAnswer::FileOf(stored) = git.ask(&request).ok()? else {
        return None;
    };
    match (current, stored) {
        (None, None) => Some(true),
        (Some(current), Some(stored)) => {
            let stored = git.blob(&stored, COMPARED_BYTES_MAX).ok()?;
            Some(stored.is_some_and(|stored| stored == current.content))
        }
        _ => Some(false),
    }
}
