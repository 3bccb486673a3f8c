//! Patches of changed files within the limits of one call, for diffs of the work tree and of commits.

use super::content::{self, SideContent};
use super::messages::{FileDelta, FileStatus, GitRequest, ObjectId};
use super::submodules::{self, SUBMODULE};
use super::{GitHelper, plain_path};
use tool_boundary::Failure;
use tool_repository::Repository;
use tool_repository::diff::{BoundedDiff, DiffSide};

/// Patch of one file: some thousand lines, more than fits any conversation.
pub(crate) const GIT_PATCH_BYTES_MAX: usize = 256 * 1024;

/// Patches of one diff together; a skill's answer holds at most a quarter of this.
pub(crate) const GIT_DIFF_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Lines of context around a change. With more than this the reader wants the file, not the diff.
pub(crate) const GIT_CONTEXT_LINES_MAX: u32 = 100;

/// Remaining room for the patches of one call.
#[derive(Debug)]
pub(in crate::imports) struct PatchRoom {
    context_lines: u32,
    used_bytes: usize,
    /// True if a patch or a whole file was left out.
    pub(in crate::imports) is_cut: bool,
}

impl PatchRoom {
    pub(in crate::imports) fn new(context_lines: u32) -> Self {
        Self {
            context_lines: context_lines.min(GIT_CONTEXT_LINES_MAX),
            used_bytes: 0,
            is_cut: false,
        }
    }

    /// Renders the patch between two sides, each with its path and mode; `None` if a side is hidden.
    pub(in crate::imports) fn render(
        &mut self,
        old: (&str, u32, &SideContent),
        new: (&str, u32, &SideContent),
        is_binary: bool,
    ) -> Option<BoundedDiff> {
        let is_either = |content: &SideContent| old.2 == content || new.2 == content;
        if is_either(&SideContent::Hidden) {
            return None;
        }
        let bytes_max = GIT_DIFF_BYTES_MAX.saturating_sub(self.used_bytes);
        if is_either(&SideContent::TooLarge) {
            self.is_cut = true;
            return Some(BoundedDiff::default());
        }
        if is_binary {
            return Some(binary_diff());
        }
        if bytes_max == 0 {
            self.is_cut = true;
            return Some(BoundedDiff::default());
        }
        let bytes_max = bytes_max.min(GIT_PATCH_BYTES_MAX);
        let rendered = BoundedDiff::new(
            diff_side(old).as_ref(),
            diff_side(new).as_ref(),
            self.context_lines,
            bytes_max,
        );
        self.used_bytes += rendered.patch.len();
        self.is_cut |= rendered.is_cut;
        Some(rendered)
    }
}

/// The patch of a binary file.
pub(in crate::imports) fn binary_diff() -> BoundedDiff {
    BoundedDiff {
        is_binary: true,
        ..BoundedDiff::default()
    }
}

pub(in crate::imports) fn diff_side<'a>(
    (path, mode, content): (&'a str, u32, &'a SideContent),
) -> Option<DiffSide<'a>> {
    let SideContent::Bytes(content) = content else {
        return None;
    };
    Some(DiffSide::new(path, mode, content))
}

/// A path in normal form that is not hidden. A path that ends in `/` is a nested repository.
pub(in crate::imports) fn visible_path<'a>(repository: &Repository, path: &'a str) -> Option<&'a str> {
    plain_path(path).filter(|path| repository.hidden(path, false).is_none())
}

/// Pairs deletions and additions of the last comparison. If one side is hidden, the pair is skipped: the diff would
/// show the hidden content as the old side. Returns the number of changes.
pub(in crate::imports) fn find_renames(
    git: &mut GitHelper,
    repository: &Repository,
    count: usize,
) -> Result<usize, Failure> {
    let is_shown = |delta: &FileDelta| {
        let paths = [delta.path.as_deref(), delta.old_path.as_deref()];
        paths
            .iter()
            .all(|path| path.and_then(|path| visible_path(repository, path)).is_some())
    };
    let mut from = 0;
    while from < count {
        let page = git.deltas(from)?;
        if !page.iter().all(is_shown) {
            return Ok(count);
        }
        from += page.len();
    }
    match count {
        0 => Ok(0),
        _ => git.count(&GitRequest::Renames),
    }
}

/// Loads a stored side of a change, with its mode; absent without an id.
pub(in crate::imports) fn load_stored(
    git: &mut GitHelper,
    repository: &Repository,
    path: &str,
    stored: Option<(&ObjectId, u32)>,
) -> Result<SideContent, Failure> {
    match stored {
        None => Ok(SideContent::Absent),
        Some((id, SUBMODULE)) => Ok(SideContent::Bytes(submodules::submodule_content(id, false))),
        Some((id, _)) => content::of_blob(git, repository, path, id),
    }
}

pub(in crate::imports) fn status_name(status: FileStatus) -> &'static str {
    match status {
        FileStatus::Added | FileStatus::Untracked => "added",
        FileStatus::Deleted => "deleted",
        FileStatus::Renamed => "renamed",
        FileStatus::TypeChanged => "type-changed",
        FileStatus::Conflicted => "conflicted",
        FileStatus::Modified => "modified",
    }
}
