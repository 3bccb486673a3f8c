//! Fuzz target: hostile contents of a git repository, without a repository.

use crate::fuzz::applied;
use crate::imports::git::patches::{GIT_CONTEXT_LINES_MAX, GIT_PATCH_BYTES_MAX};
use tool_repository::diff::{BoundedDiff, DiffSide, is_binary};

/// Checks that a patch counts its lines correctly, turns one text into the other, and keeps a name on its line.
pub(crate) fn patch(path: &str, old: &[u8], new: &[u8]) {
    let (old_side, new_side) = (DiffSide::new(path, 0o100_644, old), DiffSide::new(path, 0o100_644, new));
    for context_lines in [0, 3, GIT_CONTEXT_LINES_MAX] {
        let diff = BoundedDiff::new(Some(&old_side), Some(&new_side), context_lines, GIT_PATCH_BYTES_MAX);
        assert_eq!(diff.is_binary, is_binary(old) || is_binary(new));
        let is_text = std::str::from_utf8(old).is_ok() && std::str::from_utf8(new).is_ok();
        if is_text && !diff.is_binary {
            assert_eq!(applied(old, diff.patch.as_bytes()), new, "{}", diff.patch);
        }
        let cut = BoundedDiff::new(None, Some(&new_side), context_lines, 200);
        assert!(cut.patch.len() < 400 + 16 * path.len() + 2 * new.len().min(200));
    }
}
