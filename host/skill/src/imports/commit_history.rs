//! Commits that a work tree follows, for ranking: messages, times and paths. libgit2 reads them in a helper; this
//! module decides what may be used.
//!
//! The user is never asked: if git's data is outside the work tree, there is no history. Hidden paths are left out.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::git::layout::GitDirectories;
use super::git::messages::{GitAnswer, GitRequest, ObjectId, PastStep};
use super::git::patches::visible_path;
use super::git::{GitHelper, nonsense_failure};
use crate::CallContext;
use tool_boundary::Failure;
use tool_boundary::policy::{EffectCause, Policy};
use tool_core::api::{Operation, PolicyRequest};
use tool_core::digest::CommitId;
use tool_repository::Repository;

pub use super::git::messages::PastBounds;

/// Commits in one exchange with the helper, so that a walk ends soon after it is cancelled or its time is up.
const STEPS_AT_ONCE: usize = 100;

/// A commit with its changed paths, relative to the root and without hidden ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastChanges {
    /// Id of the commit.
    pub id: CommitId,
    /// Time of the commit in seconds since 1970.
    pub seconds: i64,
    /// Beginning of the message: untrusted text.
    pub message: String,
    /// Changed files; empty for merges, and for commits of too many files.
    pub changed: Vec<String>,
    /// Old and new path of files that were renamed without a change.
    pub renamed: Vec<(String, String)>,
}

/// A commit of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PastCommitStep {
    /// A commit that the caller knows.
    Known(CommitId),
    /// A commit that was read.
    Read(PastChanges),
}

/// Result of a walk, newest commit first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PastCommits {
    /// The commits, newest first.
    pub commits: Vec<PastCommitStep>,
    /// False if the time was up before the end.
    pub is_complete: bool,
}

/// Reason why commits are not read although there may be some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastGap {
    /// The git directory is outside of the work tree.
    Outside,
    /// The git directory borrows objects from outside of the work tree.
    Borrowed,
    /// The format of the repository is not supported.
    Format,
}

/// Finds a known reason why the commits of a work tree cannot be read. Reads some short files.
pub fn find_past_gap(repository: &Repository) -> Option<PastGap> {
    let layout = GitDirectories::find(repository.root()).ok()?;
    let elsewhere = layout.elsewhere();
    if elsewhere.contains(&layout.git) || elsewhere.contains(&layout.common) {
        Some(PastGap::Outside)
    } else if !elsewhere.is_empty() {
        Some(PastGap::Borrowed)
    } else {
        layout.format.check().is_err().then_some(PastGap::Format)
    }
}

/// The commit that the work tree is at; `None` before the first commit. Blocks.
///
/// # Errors
///
/// git's data cannot be read.
pub fn head_commit(repository: &Arc<Repository>, cancel: &CancellationToken) -> Result<Option<CommitId>, String> {
    let read = || {
        let mut git = GitHelper::open(&reading_context(repository, cancel)?, None)?;
        match git.ask(&GitRequest::Revision { name: None })? {
            GitAnswer::Revision(commit) => Ok(commit.map(|commit| commit.id.commit())),
            _ => Err(nonsense_failure()),
        }
    };
    read().map_err(|failure: Failure| failure.message)
}

/// Reads a commit and its ancestors, those in `known` only by id. Stops after `time`. Blocks.
///
/// # Errors
///
/// git's data cannot be read.
pub fn walk_commits(
    repository: &Arc<Repository>,
    from: CommitId,
    known: &HashSet<CommitId>,
    bounds: &PastBounds,
    time: Duration,
    cancel: &CancellationToken,
) -> Result<PastCommits, String> {
    let read = || {
        let began = Instant::now();
        let mut git = GitHelper::open(&reading_context(repository, cancel)?, None)?;
        let is_alike = |id: &&CommitId| id.as_bytes().len() == from.as_bytes().len();
        let names = known.iter().filter(is_alike).map(CommitId::as_bytes);
        let body = names.collect::<Vec<_>>().concat();
        let begin = GitRequest::BeginPast {
            from: ObjectId::from(from),
            bounds: *bounds,
        };
        git.exchange(&begin, &body, 0)?;
        let (mut past, mut bytes) = (PastCommits::default(), 0);
        while past.commits.len() < bounds.commits_max && bytes < bounds.bytes_max && began.elapsed() < time {
            let commits_max = STEPS_AT_ONCE.min(bounds.commits_max - past.commits.len());
            let page = match git.ask(&GitRequest::Past { commits_max }) {
                Ok(GitAnswer::Past(page)) if page.steps.len() <= commits_max => page,
                // A damaged repository yields the commits before the damage.
                Err(_) if !past.commits.is_empty() => {
                    past.is_complete = true;
                    break;
                }
                Err(failure) => return Err(failure),
                Ok(_) => return Err(nonsense_failure()),
            };
            bytes += page.steps.iter().map(PastStep::bytes).sum::<usize>();
            past.commits
                .extend(page.steps.into_iter().map(|step| step_out(repository, bounds, step)));
            if page.is_end {
                past.is_complete = true;
                break;
            }
        }
        past.is_complete |= past.commits.len() >= bounds.commits_max || bytes >= bounds.bytes_max;
        Ok(past)
    };
    read().map_err(|failure: Failure| failure.message)
}

/// A context for reading git that never asks the user.
pub(super) fn reading_context(
    repository: &Arc<Repository>,
    cancel: &CancellationToken,
) -> Result<CallContext, Failure> {
    let policy = Policy::new(EffectCause::Operation(Operation::Explain), &PolicyRequest::default());
    let policy = policy.map_err(|problem| Failure::failed(problem.message))?;
    Ok(CallContext {
        cancel: cancel.clone(),
        ..CallContext::unattended(Arc::clone(repository), policy)
    })
}

/// Removes hidden paths from a commit, and applies the limits to a helper's answer.
fn step_out(repository: &Repository, bounds: &PastBounds, step: PastStep) -> PastCommitStep {
    let record = match step {
        PastStep::Known(id) => return PastCommitStep::Known(id.commit()),
        PastStep::Read(record) => record,
    };
    let is_shown = |path: &str| visible_path(repository, path).is_some();
    let changed = record.changed.into_iter().take(bounds.files_max);
    let renamed = record.renamed.into_iter().take(bounds.renames_max);
    PastCommitStep::Read(PastChanges {
        id: record.id.commit(),
        seconds: record.seconds,
        message: tool_core::text::truncate_text(&record.message, bounds.message_bytes_max).to_owned(),
        changed: changed.filter(|path| is_shown(path)).collect(),
        renamed: renamed.filter(|(from, to)| is_shown(from) && is_shown(to)).collect(),
    })
}

#[cfg(test)]
mod tests;
