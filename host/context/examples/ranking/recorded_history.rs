//! The history of a clone, recorded from `git log`, as it was before each case.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tool_context::HistoryReader;
use tool_context::history::{CommitId, HISTORY_COMMITS_MAX, HistoryError, PastCommit, WalkedCommit, WalkedHistory};
use tool_repository::Repository;

#[derive(Debug)]
pub(crate) struct RecordedHistory {
    commits: HashMap<CommitId, (PastCommit, Vec<CommitId>)>,
    head: Mutex<Option<CommitId>>,
}

impl RecordedHistory {
    /// Reads the output of `git log` in the form that `scripts/fit-ranking` asks for.
    pub(crate) fn read(log: &Path) -> Result<Self, super::Failed> {
        let bytes = std::fs::read(log)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut commits = HashMap::new();
        let mut parts = text.split('\0').skip(1);
        while let Some(id) = parts.next() {
            let mut part = || parts.next().ok_or("a commit without a part");
            let id = commit_id(id)?;
            let parents: Result<Vec<CommitId>, _> = part()?.split_whitespace().map(commit_id).collect();
            let seconds = part()?.parse()?;
            let (message, changes) = (part()?.to_owned(), part()?);
            let (mut changed, mut renamed) = (Vec::new(), Vec::new());
            for line in changes.lines().filter(|line| !line.is_empty()) {
                match line.split('\t').collect::<Vec<_>>()[..] {
                    [_, path] => changed.push(path.to_owned()),
                    [_, from, to] => {
                        changed.push(to.to_owned());
                        renamed.push((from.to_owned(), to.to_owned()));
                    }
                    _ => {}
                }
            }
            let commit = PastCommit {
                id,
                seconds,
                message,
                changed,
                renamed,
            };
            commits.insert(id, (commit, parents?));
        }
        Ok(Self {
            commits,
            head: Mutex::new(None),
        })
    }

    /// Sets the commit that is checked out.
    pub(crate) fn stand_at(&self, id: &str) -> Result<(), super::Failed> {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = Some(commit_id(id)?);
        Ok(())
    }
}

fn commit_id(text: &str) -> Result<CommitId, super::Failed> {
    Ok(CommitId::of_digits(text).ok_or("this is not the name of a commit")?)
}

impl HistoryReader for RecordedHistory {
    fn head(&self, _: &Arc<Repository>, _: &CancellationToken) -> Result<Option<CommitId>, HistoryError> {
        Ok(*self.head.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn walk(
        &self,
        _: &Arc<Repository>,
        from: CommitId,
        known: &HashSet<CommitId>,
        _: Duration,
        _: &CancellationToken,
    ) -> Result<WalkedHistory, HistoryError> {
        let (mut waiting, mut seen) = (BinaryHeap::new(), HashSet::new());
        let mut reach = |id: CommitId, waiting: &mut BinaryHeap<(i64, Reverse<usize>, CommitId)>| {
            if let Some((commit, _)) = self.commits.get(&id)
                && seen.insert(id)
            {
                waiting.push((commit.seconds, Reverse(seen.len()), id));
            }
        };
        reach(from, &mut waiting);
        let mut commits = Vec::new();
        while let Some((_, _, id)) = waiting.pop()
            && commits.len() < HISTORY_COMMITS_MAX
        {
            let (commit, parents) = &self.commits[&id];
            parents.iter().for_each(|parent| reach(*parent, &mut waiting));
            commits.push(if known.contains(&id) {
                WalkedCommit::Known(id)
            } else {
                WalkedCommit::Read(commit.clone())
            });
        }
        Ok(WalkedHistory {
            commits,
            is_complete: true,
        })
    }
}
