//! Hostile contents of a git repository, as far as they can be had without one.

use super::git::patch::{Rendered, Side, is_binary, render_with};
use super::git::talk::Request;
use super::git::worker::compare;
use crate::fuzz::applied;
use crate::limits::{GIT_CONTEXT_LINES_MAX, GIT_PATCH_BYTES_MAX};

/// A patch of two texts holds what it counts and turns the one into the other; a name stays on its line.
pub(crate) fn patch(path: &str, old: &[u8], new: &[u8]) {
    let side = |content| Side {
        path,
        mode: 0o100_644,
        content,
    };
    for context_lines in [0, 3, GIT_CONTEXT_LINES_MAX] {
        let (old_side, new_side) = (side(old), side(new));
        let rendered = render(Some(&old_side), &new_side, context_lines, GIT_PATCH_BYTES_MAX);
        assert_eq!(rendered.binary, is_binary(old) || is_binary(new));
        let is_text = std::str::from_utf8(old).is_ok() && std::str::from_utf8(new).is_ok();
        if is_text && !rendered.binary {
            assert_eq!(applied(old, rendered.patch.as_bytes()), new, "{}", rendered.patch);
        }
        let cut = render(None, &new_side, context_lines, 200);
        assert!(cut.patch.len() < 400 + 16 * path.len() + 2 * new.len().min(200));
    }
}

/// As the host and the helper do it together.
fn render(old: Option<&Side<'_>>, new: &Side<'_>, context_lines: u32, bytes_max: usize) -> Rendered {
    let answer = |request: &Request, both: &[u8], _| match request {
        Request::Compare {
            old_bytes,
            context_lines,
            bytes_max,
        } => compare(both, *old_bytes, *context_lines, *bytes_max),
        other => unreachable!("{other:?} compares nothing"),
    };
    render_with(answer, old, Some(new), context_lines, bytes_max).expect("two buffers can be compared")
}
