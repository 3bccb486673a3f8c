//! The files that changed in most of the newest commits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::History;
use crate::{ContextError, Indexes, SelectionFilter};
use tool_repository::{FileList, Repository};

/// Newest commits that are counted. The first reading finds so many in a short time, so all answers about one commit
/// are equal.
pub(crate) const RECENT_COMMITS: usize = 200;

/// Fewest commits of a file that the result names. Fewer are chance.
const COMMITS_MIN: u64 = 3;

const FILES_MAX: usize = 8;

/// Result of [`recent_changes`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentChanges {
    /// Commits that were looked at, merges included.
    pub commits: u64,
    /// Paths of sources that are still there, with the number of these commits that changed them, most first.
    pub files: Vec<(String, u64)>,
}

/// Counts the newest commits for each source below a directory that they changed; the empty path is the root. `None` if
/// no history is known, or the filter excludes it. Blocks.
///
/// # Errors
///
/// If the repository cannot be listed, or `cancel` fires.
pub fn recent_changes(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    directory: &str,
    filter: &SelectionFilter,
    cancel: &CancellationToken,
) -> Result<Option<RecentChanges>, ContextError> {
    let list = repository.list(cancel)?;
    let view = indexes.open_view(repository, &list, Instant::now(), cancel);
    let view = view.with_history(filter.takes_history());
    let history = view.newest_commits(RECENT_COMMITS);
    let is_reported = |at: usize| view.layout().written[at] && filter.keeps(&list.files[at]);
    let changes = history.map(|history| count_changes(&history, &list, directory, is_reported));
    view.finish();
    Ok(changes.filter(|changes| !changes.files.is_empty()))
}

fn count_changes(
    history: &History,
    list: &FileList,
    directory: &str,
    is_reported: impl Fn(usize) -> bool,
) -> RecentChanges {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    let present = history.present_names();
    let newest = &present[..present.len().min(RECENT_COMMITS)];
    for path in newest.iter().flatten() {
        *counts.entry(*path).or_default() += 1;
    }
    let below = list.range_beneath(directory);
    let counted = counts.into_iter().filter(|(_, count)| *count >= COMMITS_MIN);
    let mut files: Vec<(String, u64)> = counted
        .filter_map(|(path, count)| {
            let at = list.index_of(&history.paths[path as usize])?;
            (below.contains(&at) && is_reported(at)).then(|| (list.files[at].path.clone(), count))
        })
        .collect();
    files.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    files.truncate(FILES_MAX);
    RecentChanges {
        commits: newest.len() as u64,
        files,
    }
}

/// The newest commits, and how many of them changed a file that is meant.
pub(crate) fn count_commits_of(history: &History, is_meant: impl Fn(&str) -> bool) -> (u64, u64) {
    let present = history.present_names();
    let newest = &present[..present.len().min(RECENT_COMMITS)];
    let changing = newest.iter().filter(|files| {
        let mut files = files.iter();
        files.any(|path| is_meant(&history.paths[*path as usize]))
    });
    (newest.len() as u64, changing.count() as u64)
}
