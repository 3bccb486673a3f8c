//! The text of one file's change: a unified diff in git's form.

use std::fmt::Write as _;

use super::talk::{Answer, Request};
use super::{Git, nonsense};
use crate::bindings::tool::skill::types::Failure;
use crate::diff::quoted;

/// One side of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::imports) struct Side<'a> {
    /// Relative to our root.
    pub(in crate::imports) path: &'a str,
    /// git's mode, such as 0o100644.
    pub(in crate::imports) mode: u32,
    /// The content, with line ends as git stores them.
    pub(in crate::imports) content: &'a [u8],
}

/// What a change looks like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::imports) struct Rendered {
    /// The patch; empty for contents that are not text.
    pub(in crate::imports) patch: String,
    /// Lines added, of the whole change.
    pub(in crate::imports) added: u32,
    /// Lines removed, of the whole change.
    pub(in crate::imports) removed: u32,
    /// True where the contents are not text.
    pub(in crate::imports) binary: bool,
    /// True where the bound cut the patch.
    pub(in crate::imports) cut: bool,
}

/// How far git looks for a NUL byte.
const BINARY_LOOK_BYTES: usize = 8000;

/// True where git would take the content for binary.
pub(in crate::imports) fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_LOOK_BYTES)].contains(&0)
}

/// Renders the change from `old` to `new`; an absent side is a file that is not there. The lines in which they differ
/// come from the helper, the rest does not.
pub(in crate::imports) fn render(
    git: &mut Git,
    old: Option<&Side<'_>>,
    new: Option<&Side<'_>>,
    context_lines: u32,
    bytes_max: usize,
) -> Result<Rendered, Failure> {
    let compare = |request: &Request, both: &[u8], room| git.exchange(request, both, room);
    render_with(compare, old, new, context_lines, bytes_max)
}

/// The same with whatever answers [`Request::Compare`].
pub(in crate::imports) fn render_with(
    compare: impl FnOnce(&Request, &[u8], usize) -> Result<(Answer, Vec<u8>), Failure>,
    old: Option<&Side<'_>>,
    new: Option<&Side<'_>>,
    context_lines: u32,
    bytes_max: usize,
) -> Result<Rendered, Failure> {
    let content = |side: Option<&Side<'_>>| side.map_or(&[][..], |side| side.content).to_vec();
    let (before, after) = (content(old), content(new));
    if is_binary(&before) || is_binary(&after) {
        return Ok(Rendered {
            binary: true,
            ..Rendered::default()
        });
    }
    let mut text = header(old, new, before != after).into_bytes();
    let room = bytes_max.saturating_sub(text.len());
    let request = Request::Compare {
        old_bytes: before.len(),
        context_lines,
        bytes_max: room,
    };
    let both = [before, after].concat();
    let (
        Answer::Compared {
            added,
            removed,
            left_out,
        },
        hunks,
    ) = compare(&request, &both, room)?
    else {
        return Err(nonsense());
    };
    text.extend(hunks);
    let mut patch = String::from_utf8_lossy(&text).into_owned();
    if left_out > 0 {
        if !patch.ends_with('\n') {
            patch.push('\n');
        }
        let _ = writeln!(patch, "[... {left_out} lines of this patch left out ...]");
    }
    Ok(Rendered {
        patch,
        added,
        removed,
        binary: false,
        cut: left_out > 0,
    })
}

/// What git writes before the first hunk, without the `index` line: object ids help no reader.
fn header(old: Option<&Side<'_>>, new: Option<&Side<'_>>, has_hunks: bool) -> String {
    let Some(either) = old.or(new) else {
        return String::new();
    };
    let (before, after) = (old.unwrap_or(either), new.unwrap_or(either));
    let name = |prefix: &str, side: &Side<'_>| quoted(&format!("{prefix}/{}", side.path));
    let mut header = format!("diff --git {} {}\n", name("a", before), name("b", after));
    match (old, new) {
        (None, Some(new)) => {
            let _ = writeln!(header, "new file mode {:06o}", new.mode);
        }
        (Some(old), None) => {
            let _ = writeln!(header, "deleted file mode {:06o}", old.mode);
        }
        (Some(old), Some(new)) => {
            if old.mode != new.mode {
                let _ = writeln!(header, "old mode {:06o}\nnew mode {:06o}", old.mode, new.mode);
            }
            if old.path != new.path {
                let _ = writeln!(
                    header,
                    "rename from {}\nrename to {}",
                    quoted(old.path),
                    quoted(new.path)
                );
            }
        }
        (None, None) => {}
    }
    if has_hunks {
        let absent = || "/dev/null".to_owned();
        let _ = writeln!(header, "--- {}", old.map_or_else(absent, |old| name("a", old)));
        let _ = writeln!(header, "+++ {}", new.map_or_else(absent, |new| name("b", new)));
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imports::git::testing::Fixture;
    use crate::limits;

    fn side<'a>(path: &'a str, content: &'a str) -> Side<'a> {
        Side {
            path,
            mode: 0o100_644,
            content: content.as_bytes(),
        }
    }

    fn patch(old: Option<&Side<'_>>, new: Option<&Side<'_>>) -> Rendered {
        rendered(old, new, 1, limits::GIT_PATCH_BYTES_MAX)
    }

    fn rendered(old: Option<&Side<'_>>, new: Option<&Side<'_>>, context_lines: u32, bytes_max: usize) -> Rendered {
        let fixture = Fixture::new();
        let mut git = Git::open(&fixture.session(&[]), None).expect("it is a repository");
        render(&mut git, old, new, context_lines, bytes_max).expect("two buffers can be compared")
    }

    #[test]
    fn a_modification_is_a_unified_diff() {
        let rendered = patch(
            Some(&side("a.txt", "1\n2\n3\n4\n")),
            Some(&side("a.txt", "1\n2\nthree\n4")),
        );
        assert_eq!((rendered.added, rendered.removed), (2, 2));
        insta::assert_snapshot!(rendered.patch, @r"
        diff --git a/a.txt b/a.txt
        --- a/a.txt
        +++ b/a.txt
        @@ -2,3 +2,3 @@
         2
        -3
        -4
        +three
        +4
        \ No newline at end of file
        ");
    }

    #[test]
    fn additions_and_deletions_have_one_side() {
        insta::assert_snapshot!(patch(None, Some(&side("new.txt", "text\n"))).patch, @r"
        diff --git a/new.txt b/new.txt
        new file mode 100644
        --- /dev/null
        +++ b/new.txt
        @@ -0,0 +1 @@
        +text
        ");
        insta::assert_snapshot!(patch(Some(&side("old.txt", "text\n")), None).patch, @r"
        diff --git a/old.txt b/old.txt
        deleted file mode 100644
        --- a/old.txt
        +++ /dev/null
        @@ -1 +0,0 @@
        -text
        ");
    }

    #[test]
    fn a_pure_rename_and_a_new_mode_have_a_header_only() {
        let new = Side {
            mode: 0o100_755,
            ..side("to \"b\".sh", "text\n")
        };
        insta::assert_snapshot!(patch(Some(&side("from.sh", "text\n")), Some(&new)).patch, @r#"
        diff --git a/from.sh "b/to \"b\".sh"
        old mode 100644
        new mode 100755
        rename from from.sh
        rename to "to \"b\".sh"
        "#);
    }

    #[test]
    fn contents_that_are_not_text_have_no_patch() {
        let rendered = patch(Some(&side("a", "text")), Some(&side("a", "\0binary")));
        assert!(rendered.binary && rendered.patch.is_empty());
    }

    #[test]
    fn a_long_patch_is_cut_after_a_whole_line_and_says_so() {
        let long = (0..1000).map(|number| format!("line {number}\n")).collect::<String>();
        let rendered = rendered(None, Some(&side("a", &long)), 3, 120);
        assert!(rendered.cut);
        assert_eq!(rendered.added, 1000);
        insta::assert_snapshot!(rendered.patch, @r"
        diff --git a/a b/a
        new file mode 100644
        --- /dev/null
        +++ b/a
        @@ -0,0 +1,1000 @@
        +line 0
        +line 1
        +line 2
        +line 3
        [... 996 lines of this patch left out ...]
        ");
    }

    #[test]
    fn a_name_cannot_forge_a_line_of_the_patch() {
        let path = "a\n+++ b/evil\u{1b}";
        let patch = patch(None, Some(&side(path, ""))).patch;
        assert_eq!(patch.lines().count(), 2, "{patch}");
        assert!(patch.contains("\"a/a\\n+++ b/evil\\033\""), "{patch}");
    }
}
