//! The context engine's history: commits that libgit2 reads in a confined helper.
//!
//! This adapter converts the results of `skill` to the types of `context`. It keeps `context` free of git, and
//! `skill` free of the context engine.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use tool_context::HistoryReader;
use tool_context::history::{
    CommitId, HISTORY_COMMIT_FILES_MAX, HISTORY_COMMIT_RENAMES_MAX, HISTORY_COMMITS_MAX, HISTORY_MESSAGE_BYTES_MAX,
    HISTORY_WALK_BYTES_MAX, HistoryError, HistoryGap, PastCommit, WalkedCommit, WalkedHistory,
};
use tool_repository::Repository;
use tool_skill::{PastBounds, PastCommitStep, PastGap, find_past_gap, head_commit, walk_commits};

/// Reads the commits of the git repository around a work tree.
#[derive(Debug, Clone, Copy)]
pub struct GitHistory;

const BOUNDS: PastBounds = PastBounds {
    commits_max: HISTORY_COMMITS_MAX,
    files_max: HISTORY_COMMIT_FILES_MAX,
    renames_max: HISTORY_COMMIT_RENAMES_MAX,
    message_bytes_max: HISTORY_MESSAGE_BYTES_MAX,
    bytes_max: HISTORY_WALK_BYTES_MAX,
};

impl HistoryReader for GitHistory {
    fn head(&self, repository: &Arc<Repository>, cancel: &CancellationToken) -> Result<Option<CommitId>, HistoryError> {
        head_commit(repository, cancel).map_err(HistoryError)
    }

    fn walk(
        &self,
        repository: &Arc<Repository>,
        from: CommitId,
        known: &HashSet<CommitId>,
        time: Duration,
        cancel: &CancellationToken,
    ) -> Result<WalkedHistory, HistoryError> {
        let past = walk_commits(repository, from, known, &BOUNDS, time, cancel).map_err(HistoryError)?;
        let step = |step| match step {
            PastCommitStep::Known(id) => WalkedCommit::Known(id),
            PastCommitStep::Read(read) => WalkedCommit::Read(PastCommit {
                id: read.id,
                seconds: read.seconds,
                message: read.message,
                changed: read.changed,
                renamed: read.renamed,
            }),
        };
        Ok(WalkedHistory {
            commits: past.commits.into_iter().map(step).collect(),
            is_complete: past.is_complete,
        })
    }

    fn gap(&self, repository: &Repository) -> Option<HistoryGap> {
        find_past_gap(repository).map(|gap| match gap {
            PastGap::Outside => HistoryGap::Outside,
            PastGap::Borrowed => HistoryGap::Borrowed,
            PastGap::Format => HistoryGap::Format,
        })
    }
}
