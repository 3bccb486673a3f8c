//! `git-read`: uncommitted changes. libgit2 finds them in a helper, and this module writes them as unified diffs.
//!
//! The helper reports which files differ. Contents come from git's objects and, for the work tree, through the
//! repository's guard. Hidden files are left out completely: a name that lists do not show does not appear here
//! either. Nothing is written, not even the cache in the index.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use super::git::GitHelper;
use super::git::content::{self, SideContent, WorkTreeEntry};
use super::git::lfs;
use super::git::messages::{ChangeArea, FileDelta, FileStatus, GitRequest, LineEnds, ObjectId, Submodule};
use super::git::patches::{self, PatchRoom, status_name, visible_path};
use super::git::submodules::{self, SUBMODULE, SubmoduleTree, is_at_or_below};
use crate::CallContext;
use tool_boundary::CallBudget;
use tool_boundary::Failure;
use tool_boundary::bindings::tool::skill::git_read::{Diff, DiffQuery, FileChange};
use tool_repository::diff::BoundedDiff;
use tool_repository::layer::LayeredPath;
use tool_repository::{Repository, normalise_path};

/// Files of one diff. A change that touches more is no change to read but a move or a reformatting.
pub(crate) const GIT_CHANGES_MAX: usize = 5_000;

/// Paths that one request may name; a request for more should name a directory.
const GIT_PATHS_MAX: usize = 1_000;

/// Reads the uncommitted changes that `query` asks for.
pub(super) fn read_changes(context: &CallContext, query: &DiffQuery) -> Result<Diff, Failure> {
    let query = DiffQuery {
        paths: normal_paths(&query.paths)?,
        ..query.clone()
    };
    let mut git = GitHelper::open(context, None)?;
    let submodules = submodules::list_submodules(&mut git, context, &query.paths)?;
    let mut reader = DiffReader {
        git,
        context,
        place: None,
        repository: &context.repository,
        cancel: &context.cancel,
        query: &query,
        room: PatchRoom::new(query.context_lines),
        compared_max: submodules::COMPARED_MAX,
        left_out: BTreeSet::new(),
        diff: Diff {
            branch: None,
            changes: Vec::new(),
            truncated: false,
        },
    };
    let only = submodules::shared_repository(&submodules, &query.paths).ok().flatten();
    if only.is_none() {
        reader.diff.branch = reader.git.branch()?;
        reader.read(&submodules)?;
    }
    for submodule in &submodules {
        let is_in_only = only.is_none_or(|only| is_at_or_below(&submodule.path, only));
        if submodule.staged.is_some() && is_in_only && reader.names(&submodule.path) {
            reader.git = GitHelper::open_at(context, Some(&submodule.path), None)?;
            reader.place = Some(submodule.path.clone());
            if only == Some(&submodule.path) {
                reader.diff.branch = reader.git.branch()?;
            }
            reader.read(&submodules)?;
        }
    }
    reader.diff.truncated |= reader.room.is_cut;
    Ok(reader.diff)
}

/// Taints the call if a diff shows files that other people wrote. A tracked file below a folder of packages or an
/// ignore rule counts as foreign, like its neighbours. A deleted file is judged by its path alone.
pub(super) fn note_places(call: &CallBudget, context: &CallContext, diff: &Diff) {
    if diff.changes.is_empty() {
        return;
    }
    let list = context.repository.list(&call.token);
    let is_listed = |path: &str| list.as_ref().is_ok_and(|list| list.find(path).is_some());
    // For a directory whose files are left out, and for a submodule, the diff shows only the name.
    let is_directory = |path: &str| path.ends_with('/') || context.repository.handle().open_directory(path).is_ok();
    for change in diff.changes.iter().filter(|change| !is_directory(&change.path)) {
        if change.status == "deleted" {
            call.note_stored_place(&change.path, true);
        } else {
            call.note_place(&change.path, is_listed(&change.path));
        }
        if let Some(old) = &change.old_path {
            call.note_stored_place(old, true);
        }
    }
}

/// Paths in normal form. They are literal: `*` means a file of that name.
pub(super) fn normal_paths(paths: &[String]) -> Result<Vec<String>, Failure> {
    if paths.len() > GIT_PATHS_MAX {
        let message = format!("{} paths are more than the limit of {}.", paths.len(), GIT_PATHS_MAX);
        return Err(Failure::limit(message).with_hint("name a directory instead"));
    }
    let normal = |path: &String| {
        normalise_path(path).map_err(|error| {
            let message = format!("`{path}` is no path in this repository: {error}.");
            Failure::invalid_arguments(message).with_hint("paths are relative to the repository root")
        })
    };
    paths.iter().map(normal).collect()
}

/// Collects the changes of one diff.
struct DiffReader<'a> {
    git: GitHelper,
    context: &'a CallContext,
    /// Submodule that is read; absent for the repository itself.
    place: Option<String>,
    repository: &'a Repository,
    cancel: &'a CancellationToken,
    query: &'a DiffQuery,
    room: PatchRoom,
    /// Submodules that may still be compared.
    compared_max: usize,
    /// Directories of packages or build output whose untracked files are left out.
    left_out: BTreeSet<String>,
    diff: Diff,
}

/// Source of one side of a change.
enum DiffSource<'a> {
    Blob(&'a ObjectId),
    WorkTree,
}

impl DiffReader<'_> {
    fn read(&mut self, submodules: &[Submodule]) -> Result<(), Failure> {
        if self.query.staged {
            let count = self.compare(ChangeArea::Index, false)?;
            let count = patches::find_renames(&mut self.git, self.repository, count)?;
            self.add_all(ChangeArea::Index, count)?;
        }
        if self.query.unstaged || self.query.untracked {
            let count = self.compare(ChangeArea::WorkTree, self.query.untracked)?;
            self.add_all(ChangeArea::WorkTree, count)?;
            self.add_layered(submodules)?;
        }
        if self.query.unstaged {
            self.add_submodules(submodules)?;
        }
        self.add_left_out();
        Ok(())
    }

    /// True if the query names the submodule or a path in it.
    fn names(&self, submodule: &str) -> bool {
        self.query.paths.iter().any(|asked| is_at_or_below(asked, submodule))
    }

    /// Adds submodules whose work trees differ from the commit in the index.
    fn add_submodules(&mut self, submodules: &[Submodule]) -> Result<(), Failure> {
        for Submodule { path, staged, .. } in submodules {
            let is_ours = submodules::holding_submodule(submodules, path) == self.place.as_deref();
            let Some(staged) = staged.as_ref().filter(|_| is_ours && self.asks_about(path)) else {
                continue;
            };
            if self.compared_max == 0 {
                self.diff.truncated = true;
                break;
            }
            self.compared_max -= 1;
            self.add_submodule(path, staged)?;
        }
        Ok(())
    }

    fn add_submodule(&mut self, path: &str, staged: &ObjectId) -> Result<(), Failure> {
        let is_inside = |layered: &LayeredPath| is_at_or_below(&layered.path, path);
        let layer = self.repository.layer().map(|layer| layer.paths()).unwrap_or_default();
        let unread = |reason: &str| {
            (
                Some(submodules::submodule_content(staged, false)),
                format!("not looked at ({reason})"),
            )
        };
        let (new, words) = match submodules::read_submodule(self.context, path)? {
            SubmoduleTree::Empty => return Ok(()),
            SubmoduleTree::Absent => (None, String::new()),
            SubmoduleTree::Unread(reason) => unread(&reason),
            SubmoduleTree::Present(mut submodule) => match submodule.find_changes(self.context, &mut self.compared_max)
            {
                Err(failure) if self.cancel.is_cancelled() => return Err(failure),
                Err(failure) => unread(failure.message.trim_end_matches('.')),
                Ok(changes) => {
                    let is_modified = changes.is_modified || layer.iter().any(is_inside);
                    let head = submodule.head.unwrap_or_else(|| staged.clone());
                    let words = [
                        (head != *staged, "new commits"),
                        (is_modified, "modified content"),
                        (changes.has_untracked && self.query.untracked, "untracked content"),
                    ];
                    let words: Vec<&str> = words.into_iter().filter(|word| word.0).map(|word| word.1).collect();
                    if words.is_empty() {
                        return Ok(());
                    }
                    (
                        Some(submodules::submodule_content(&head, is_modified)),
                        words.join(", "),
                    )
                }
            },
        };
        let old = SideContent::Bytes(submodules::submodule_content(staged, false));
        let (mode, status) = match new {
            Some(_) => (SUBMODULE, FileStatus::Modified),
            None => (0, FileStatus::Deleted),
        };
        let new = new.map_or(SideContent::Absent, SideContent::Bytes);
        let Some(mut rendered) = self.room.render((path, SUBMODULE, &old), (path, mode, &new), false) else {
            return Ok(());
        };
        if !words.is_empty() {
            rendered.patch +=
                &format!("Submodule {path}: {words}; its own changes are shown where `paths` names it.\n");
        }
        self.diff.changes.push(FileChange {
            path: path.to_owned(),
            old_path: None,
            area: area_name(status, ChangeArea::WorkTree).to_owned(),
            status: status_name(status).to_owned(),
            patch: rendered.patch,
            added_lines: rendered.added,
            removed_lines: rendered.removed,
            binary: false,
        });
        Ok(())
    }

    fn compare(&mut self, area: ChangeArea, untracked: bool) -> Result<usize, Failure> {
        // Without the filter, a path beside the submodule could match a path inside of it.
        let is_here = |path: &&String| self.place.as_ref().is_none_or(|place| is_at_or_below(path, place));
        let paths = self.query.paths.iter().filter(is_here).cloned().collect();
        self.git.count(&GitRequest::Diff { area, untracked, paths })
    }

    fn add_all(&mut self, area: ChangeArea, count: usize) -> Result<(), Failure> {
        let mut from = 0;
        while from < count && self.diff.changes.len() <= GIT_CHANGES_MAX {
            let page = self.git.deltas(from)?;
            from += page.len();
            for delta in page {
                if self.wants(&delta, area) {
                    self.add(&delta, area)?;
                }
            }
        }
        Ok(())
    }

    fn wants(&self, delta: &FileDelta, area: ChangeArea) -> bool {
        match area {
            // A conflict appears in both comparisons, but is one change. The comparison with the work tree shows it
            // better.
            ChangeArea::Index => !(delta.status == FileStatus::Conflicted && self.query.unstaged),
            ChangeArea::WorkTree => {
                let path = delta.path.as_deref().unwrap_or_default();
                let is_layered = || self.repository.stat_layered(path).is_some();
                let is_submodule = [delta.old_mode, delta.new_mode].contains(&SUBMODULE);
                (delta.status == FileStatus::Untracked || self.query.unstaged)
                    && !delta.left_in_place
                    && !is_submodule
                    && !is_layered()
            }
        }
    }

    /// Adds the files that a private layer changes. git sees only the work tree.
    fn add_layered(&mut self, submodules: &[Submodule]) -> Result<(), Failure> {
        let paths = self.repository.layer().map(|layer| layer.paths()).unwrap_or_default();
        for layered in &paths {
            let is_ours = submodules::holding_submodule(submodules, &layered.path) == self.place.as_deref();
            if !is_ours || !self.asks_about(&layered.path) {
                continue;
            }
            let staged = self.git.staged(&layered.path)?;
            let status = match (&staged, &layered.content) {
                (None, None) => continue,
                (None, Some(_)) if !self.query.untracked => continue,
                (Some(_), _) if !self.query.unstaged => continue,
                (None, Some(_)) => FileStatus::Untracked,
                (Some(_), None) => FileStatus::Deleted,
                (Some(_), Some(_)) => FileStatus::Modified,
            };
            let old_mode = staged.as_ref().map_or(0, |(_, mode)| *mode);
            let delta = FileDelta {
                status,
                path: Some(layered.path.clone()),
                old_path: None,
                old: staged.map(|(id, _)| id),
                new: None,
                old_mode,
                new_mode: self.mode_of(&layered.path),
                left_in_place: false,
            };
            self.add(&delta, ChangeArea::WorkTree)?;
        }
        Ok(())
    }

    /// Mode of a layered file as git would store it; 0 if it is removed.
    fn mode_of(&self, path: &str) -> u32 {
        match self.repository.stat_layered(path) {
            Some(Ok(stat)) if tool_repository::permission_bits(&stat) & 0o100 != 0 => 0o100_755,
            Some(Ok(_)) => 0o100_644,
            _ => 0,
        }
    }

    /// True if the query names no paths, this path, or a folder above it.
    fn asks_about(&self, path: &str) -> bool {
        let is_in = |asked: &String| is_at_or_below(path, asked);
        self.query.paths.is_empty() || self.query.paths.iter().any(is_in)
    }

    /// Adds one change, unless it is hidden or has no difference.
    fn add(&mut self, delta: &FileDelta, area: ChangeArea) -> Result<(), Failure> {
        let Some(path) = delta
            .path
            .as_deref()
            .and_then(|path| visible_path(self.repository, path))
        else {
            return Ok(());
        };
        if delta.status == FileStatus::Untracked
            && let Some(directory) = self.find_made_directory(path)
        {
            let directory = format!("{directory}/");
            if self.left_out.len() < GIT_CHANGES_MAX {
                self.left_out.insert(directory);
            }
            return Ok(());
        }
        if self.diff.changes.len() >= GIT_CHANGES_MAX {
            self.diff.truncated = true;
            return Ok(());
        }
        let old_path = match delta.status {
            FileStatus::Renamed => delta
                .old_path
                .as_deref()
                .and_then(|path| visible_path(self.repository, path)),
            _ => None,
        };
        let Some(rendered) = self.render(delta, area, path, old_path)? else {
            return Ok(());
        };
        self.diff.changes.push(FileChange {
            path: path.to_owned(),
            old_path: old_path.map(str::to_owned),
            area: area_name(delta.status, area).to_owned(),
            status: status_name(delta.status).to_owned(),
            patch: rendered.patch,
            added_lines: rendered.added,
            removed_lines: rendered.removed,
            binary: rendered.is_binary,
        });
        Ok(())
    }

    /// The directory of packages or build output that contains an untracked file, unless the query names it.
    fn find_made_directory<'a>(&self, path: &'a str) -> Option<&'a str> {
        let directory = self.repository.find_made_directory(path)?;
        let is_inside = |asked: &String| is_at_or_below(asked, directory);
        (!self.query.paths.iter().any(is_inside)).then_some(directory)
    }

    /// Adds one change for each directory whose files are left out.
    fn add_left_out(&mut self) {
        for path in std::mem::take(&mut self.left_out) {
            self.diff.changes.push(FileChange {
                path,
                old_path: None,
                area: area_name(FileStatus::Untracked, ChangeArea::WorkTree).to_owned(),
                status: status_name(FileStatus::Untracked).to_owned(),
                patch: String::new(),
                added_lines: 0,
                removed_lines: 0,
                binary: false,
            });
        }
    }

    /// Renders the patch of a change; `None` if its contents are hidden.
    fn render(
        &mut self,
        delta: &FileDelta,
        area: ChangeArea,
        path: &str,
        old_path: Option<&str>,
    ) -> Result<Option<BoundedDiff>, Failure> {
        let attributes = self.git.attributes(path)?;
        if area == ChangeArea::WorkTree && attributes.external_filter.is_some() {
            if let Ok(WorkTreeEntry::File(mut file, _)) = content::stat_entry(self.repository, path, self.cancel)
                && let Some(stored) = delta.old.as_ref().filter(|_| delta.old_mode == delta.new_mode)
                && lfs::is_unchanged(&mut self.git, &attributes, stored, &mut file, self.cancel)?
            {
                return Ok(None);
            }
            return Ok(Some(patches::binary_diff()));
        }
        let (old_place, new_place) = diff_sources(delta, area);
        let old_path = old_path.unwrap_or(path);
        let old = self.load((old_path, delta.old_mode), old_place, attributes.line_ends, &[])?;
        let stored = if let SideContent::Bytes(bytes) = &old {
            bytes.as_slice()
        } else {
            &[]
        };
        let new = self.load((path, delta.new_mode), new_place, attributes.line_ends, stored)?;
        let is_same = old == new && delta.old_mode == delta.new_mode;
        if is_same && self.repository.stat_layered(path).is_some() {
            return Ok(None);
        }
        let old = (old_path, delta.old_mode, &old);
        let new = (path, delta.new_mode, &new);
        Ok(self.room.render(old, new, attributes.binary))
    }

    fn load(
        &mut self,
        (path, mode): (&str, u32),
        place: Option<DiffSource<'_>>,
        line_ends: LineEnds,
        stored: &[u8],
    ) -> Result<SideContent, Failure> {
        match place {
            None => Ok(SideContent::Absent),
            Some(DiffSource::WorkTree) => Ok(content::of_work_tree(
                self.repository,
                path,
                line_ends,
                stored,
                self.cancel,
            )),
            Some(DiffSource::Blob(id)) => patches::load_stored(&mut self.git, self.repository, path, Some((id, mode))),
        }
    }
}

/// Sources of the two sides of a change. For a conflict, the last commit and the work tree.
fn diff_sources(delta: &FileDelta, area: ChangeArea) -> (Option<DiffSource<'_>>, Option<DiffSource<'_>>) {
    let old = match delta.status {
        FileStatus::Added | FileStatus::Untracked => None,
        _ => delta.old.as_ref().map(DiffSource::Blob),
    };
    let new = match (delta.status, area) {
        (FileStatus::Deleted, _) => None,
        (FileStatus::Conflicted, _) | (_, ChangeArea::WorkTree) => Some(DiffSource::WorkTree),
        (_, ChangeArea::Index) => delta.new.as_ref().map(DiffSource::Blob),
    };
    (old, new)
}

fn area_name(status: FileStatus, area: ChangeArea) -> &'static str {
    match (status, area) {
        (FileStatus::Untracked, _) => "untracked",
        (_, ChangeArea::Index) => "staged",
        (_, ChangeArea::WorkTree) => "unstaged",
    }
}

#[cfg(test)]
mod tests;
