//! `git-read`: the uncommitted changes, read with libgit2 and written as unified diffs by ourselves.
//!
//! libgit2 says which files differ; their contents come from git's objects and, for the work tree, through the
//! repository's guarded opening. What is hidden is left out altogether: a name that cannot be listed is not listed
//! here either. Nothing is written, not even the index's cache.

use std::sync::Arc;

use git2::{Delta, DiffDelta, DiffFindOptions, DiffOptions, FileMode, IndexEntryExtendedFlag, IndexEntryFlag, Oid};

use super::failure::{cancelled, hinted};
use super::git::content::{self, Content};
use super::git::patch::{self, Rendered, Side};
use super::git::{Git, Watch, git_failure, watched};
use crate::limits;
use crate::repository::{Repository, normalise};
use crate::skill::CallContext;
use crate::skill::bindings::tool::skill::git_read::{Diff, DiffQuery, FileChange};
use crate::skill::bindings::tool::skill::types::Failure;

/// The uncommitted changes that `query` asks for.
pub(crate) fn changes(context: &CallContext, query: &DiffQuery) -> Result<Diff, Failure> {
    let repository = Arc::clone(&context.repository);
    let query = DiffQuery {
        paths: normal_paths(&query.paths)?,
        context_lines: query.context_lines.min(limits::GIT_CONTEXT_LINES_MAX),
        ..query.clone()
    };
    watched(&context.cancel, move |watch| read(&repository, &query, watch))
}

/// Paths as they were asked for, in their one form. They are literal: `*` means a file of that name.
pub(super) fn normal_paths(paths: &[String]) -> Result<Vec<String>, Failure> {
    if paths.len() > limits::GIT_PATHS_MAX {
        let message = format!(
            "{} paths are more than the limit of {}.",
            paths.len(),
            limits::GIT_PATHS_MAX
        );
        return Err(hinted("limit", message, "name a directory instead"));
    }
    let normal = |path: &String| {
        normalise(path).map_err(|error| {
            let message = format!("`{path}` is no path in this repository: {error}.");
            hinted(
                "invalid-arguments",
                message,
                "paths are relative to the repository root",
            )
        })
    };
    paths.iter().map(normal).collect()
}

fn read(repository: &Repository, query: &DiffQuery, watch: &Watch) -> Result<Diff, Failure> {
    let git = Git::open(repository.root())?;
    let mut reader = Reader {
        git: &git,
        repository,
        query,
        watch,
        patch_bytes: 0,
        diff: Diff {
            branch: git.branch(),
            changes: Vec::new(),
            truncated: false,
        },
    };
    reader.read()?;
    Ok(reader.diff)
}

/// Where the new side of a change lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Area {
    Index,
    WorkTree,
}

/// One diff under way.
struct Reader<'a> {
    git: &'a Git,
    repository: &'a Repository,
    query: &'a DiffQuery,
    watch: &'a Watch,
    patch_bytes: usize,
    diff: Diff,
}

/// Where one side of a change is to be found.
enum Place {
    Blob(Oid),
    WorkTree,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Failure> {
        let head = self
            .git
            .head()?
            .map(|commit| commit.tree())
            .transpose()
            .map_err(|error| git_failure(&error))?;
        let index = self.git.repository.index().map_err(|error| git_failure(&error))?;
        if self.query.staged {
            let mut options = self.options();
            let diff = self
                .git
                .repository
                .diff_tree_to_index(head.as_ref(), Some(&index), Some(&mut options));
            let mut diff = diff.map_err(|error| git_failure(&error))?;
            self.find_renames(&mut diff)?;
            for delta in diff.deltas() {
                let conflict = delta.status() == Delta::Conflicted;
                // A conflict is one change, not two; it shows best beside the work tree.
                if !(conflict && self.query.unstaged) {
                    self.add(&delta, Area::Index, head.as_ref())?;
                }
            }
        }
        if self.query.unstaged || self.query.untracked {
            let mut options = self.options();
            options
                .include_untracked(self.query.untracked)
                .recurse_untracked_dirs(true);
            let diff = self
                .git
                .repository
                .diff_index_to_workdir(Some(&index), Some(&mut options));
            let diff = diff.map_err(|error| git_failure(&error))?;
            for delta in diff.deltas() {
                let wanted = delta.status() == Delta::Untracked || self.query.unstaged;
                if wanted && !left_in_place(&index, &delta) {
                    self.add(&delta, Area::WorkTree, head.as_ref())?;
                }
            }
        }
        Ok(())
    }

    /// Submodules are other repositories; and a path is a path, not a pattern.
    fn options(&self) -> DiffOptions {
        let mut options = DiffOptions::new();
        options
            .ignore_submodules(true)
            .disable_pathspec_match(true)
            .include_typechange(true);
        for path in self.git.pathspecs(&self.query.paths) {
            options.pathspec(path);
        }
        options
    }

    /// Pairs deletions and additions, unless one of them is hidden: its content would be the other's old side.
    fn find_renames(&self, diff: &mut git2::Diff<'_>) -> Result<(), Failure> {
        let is_hidden = |delta: DiffDelta<'_>| {
            let path = delta.new_file().path_bytes().and_then(|path| self.git.ours(path));
            path.is_none_or(|path| self.repository.hidden(path, false).is_some())
        };
        if diff.deltas().any(is_hidden) {
            return Ok(());
        }
        let mut options = DiffFindOptions::new();
        options.renames(true);
        diff.find_similar(Some(&mut options))
            .map_err(|error| git_failure(&error))
    }

    /// Adds one change, unless it is hidden or none after all.
    fn add(&mut self, delta: &DiffDelta<'_>, area: Area, head: Option<&git2::Tree<'_>>) -> Result<(), Failure> {
        if self.watch.given_up() {
            return Err(cancelled());
        }
        if [delta.old_file().mode(), delta.new_file().mode()].contains(&FileMode::Commit) {
            return Ok(());
        }
        let Some(path) = delta.new_file().path_bytes().and_then(|path| self.git.ours(path)) else {
            return Ok(());
        };
        // A path that ends with `/` is another repository inside this one.
        if path.ends_with('/') || self.repository.hidden(path, false).is_some() {
            return Ok(());
        }
        if self.diff.changes.len() >= limits::GIT_CHANGES_MAX {
            self.diff.truncated = true;
            return Ok(());
        }
        let old_path = match delta.status() {
            Delta::Renamed => delta.old_file().path_bytes().and_then(|path| self.git.ours(path)),
            _ => None,
        };
        let Some(rendered) = self.render(delta, area, head, path, old_path)? else {
            return Ok(());
        };
        self.diff.changes.push(FileChange {
            path: path.to_owned(),
            old_path: old_path.map(str::to_owned),
            area: area_name(delta.status(), area).to_owned(),
            status: status_name(delta.status()).to_owned(),
            patch: rendered.patch,
            added_lines: rendered.added,
            removed_lines: rendered.removed,
            binary: rendered.binary,
        });
        Ok(())
    }

    /// The patch of a change; nothing where its contents are hidden.
    fn render(
        &mut self,
        delta: &DiffDelta<'_>,
        area: Area,
        head: Option<&git2::Tree<'_>>,
        path: &str,
        old_path: Option<&str>,
    ) -> Result<Option<Rendered>, Failure> {
        let (old_place, new_place) = self.places(delta, area, head, path);
        if area == Area::WorkTree && self.git.external_filter(path).is_some() {
            return Ok(Some(binary()));
        }
        let old_path = old_path.unwrap_or(path);
        let old = self.load(old_path, old_place, &[])?;
        let stored = if let Content::Bytes(bytes) = &old {
            bytes.as_slice()
        } else {
            &[]
        };
        let new = self.load(path, new_place, stored)?;
        if old == Content::Hidden || new == Content::Hidden {
            return Ok(None);
        }
        if old == Content::TooLarge || new == Content::TooLarge {
            self.diff.truncated = true;
            return Ok(Some(Rendered::default()));
        }
        if self.git.declared_binary(path) {
            return Ok(Some(binary()));
        }
        let old_side = side(old_path, delta.old_file().mode(), &old);
        let new_side = side(path, delta.new_file().mode(), &new);
        let room = limits::GIT_DIFF_BYTES_MAX.saturating_sub(self.patch_bytes);
        if room == 0 {
            self.diff.truncated = true;
            return Ok(Some(Rendered::default()));
        }
        let bytes_max = room.min(limits::GIT_PATCH_BYTES_MAX);
        let rendered = patch::render(
            old_side.as_ref(),
            new_side.as_ref(),
            self.query.context_lines,
            bytes_max,
        )
        .map_err(|error| git_failure(&error))?;
        self.patch_bytes += rendered.patch.len();
        self.diff.truncated |= rendered.cut;
        Ok(Some(rendered))
    }

    /// Where the two sides of a change are. A conflict is shown as what the work tree makes of the last commit.
    fn places(
        &self,
        delta: &DiffDelta<'_>,
        area: Area,
        head: Option<&git2::Tree<'_>>,
        path: &str,
    ) -> (Option<Place>, Option<Place>) {
        if delta.status() == Delta::Conflicted {
            let inside = self.git.inside(path);
            let entry = head.and_then(|tree| tree.get_path(std::path::Path::new(&inside)).ok());
            return (entry.map(|entry| Place::Blob(entry.id())), Some(Place::WorkTree));
        }
        let blob = |file: git2::DiffFile<'_>| Some(Place::Blob(file.id())).filter(|_| !file.id().is_zero());
        let gone = matches!(delta.status(), Delta::Deleted);
        let old = match delta.status() {
            Delta::Added | Delta::Untracked => None,
            _ => blob(delta.old_file()),
        };
        let new = match area {
            _ if gone => None,
            Area::Index => blob(delta.new_file()),
            Area::WorkTree => Some(Place::WorkTree),
        };
        (old, new)
    }

    fn load(&self, path: &str, place: Option<Place>, stored: &[u8]) -> Result<Content, Failure> {
        match place {
            None => Ok(Content::Absent),
            Some(Place::WorkTree) => Ok(content::of_work_tree(self.git, self.repository, path, stored)),
            Some(Place::Blob(id)) => {
                content::of_blob(self.git, self.repository, path, id).map_err(|error| git_failure(&error))
            }
        }
    }
}

fn binary() -> Rendered {
    Rendered {
        binary: true,
        ..Rendered::default()
    }
}

fn side<'a>(path: &'a str, mode: FileMode, content: &'a Content) -> Option<Side<'a>> {
    let Content::Bytes(content) = content else { return None };
    let mode = u32::from(mode);
    Some(Side { path, mode, content })
}

/// True for a file that is missing because the user told git not to have it (a sparse checkout) or not to look.
fn left_in_place(index: &git2::Index, delta: &DiffDelta<'_>) -> bool {
    let Some(path) = delta.old_file().path().filter(|_| delta.status() == Delta::Deleted) else {
        return false;
    };
    index.get_path(path, 0).is_some_and(|entry| not_watched(&entry))
}

/// True where the index says that the work tree's file does not count.
pub(super) fn not_watched(entry: &git2::IndexEntry) -> bool {
    IndexEntryFlag::from_bits_truncate(entry.flags).is_valid()
        || IndexEntryExtendedFlag::from_bits_truncate(entry.flags_extended).is_skip_worktree()
}

fn area_name(status: Delta, area: Area) -> &'static str {
    match (status, area) {
        (Delta::Untracked, _) => "untracked",
        (_, Area::Index) => "staged",
        (_, Area::WorkTree) => "unstaged",
    }
}

fn status_name(status: Delta) -> &'static str {
    match status {
        Delta::Added | Delta::Untracked | Delta::Copied => "added",
        Delta::Deleted => "deleted",
        Delta::Renamed => "renamed",
        Delta::Typechange => "type-changed",
        Delta::Conflicted => "conflicted",
        Delta::Modified | Delta::Unmodified | Delta::Ignored | Delta::Unreadable => "modified",
    }
}

#[cfg(test)]
mod tests;
