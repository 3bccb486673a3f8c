//! Renders a changed file for people and `git apply`: a unified diff in git's format.
//!
//! Lines end only at line feeds, so that carriage returns in a file do not split lines of the diff.

use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp};

use tool_core::api::{ChangeKind, ChangedFile};
use tool_core::digest::sha256_hex;

use crate::changes::{FileChange, FileState};

/// Time for comparing the two contents of one file. After it, the diff is still correct, but may be longer than
/// necessary.
const DIFF_TIME_MAX: Duration = Duration::from_millis(500);

/// Unchanged lines around a change, as in git.
const CONTEXT_LINES: usize = 3;

/// One changed file, as text and as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// Relative to the root.
    pub path: String,
    /// `created`, `modified` or `deleted`.
    pub kind: ChangeKind,
    /// Lines added; 0 if the file is not text.
    pub added: usize,
    /// Lines removed; 0 if the file is not text.
    pub removed: usize,
    /// False if a content is binary or not UTF-8. The text then says so instead of showing the content.
    pub is_text: bool,
    /// The diff, header included.
    pub text: String,
}

impl From<FileDiff> for ChangedFile {
    /// Only the numbers, without a later state.
    fn from(diff: FileDiff) -> Self {
        Self {
            path: diff.path,
            kind: diff.kind,
            added: diff.added as u64,
            removed: diff.removed as u64,
            is_text: diff.is_text,
            since: None,
        }
    }
}

impl FileDiff {
    /// The diff of one file.
    pub fn new(file: &FileChange) -> Self {
        let kind = match (&file.before, &file.after) {
            (None, _) => ChangeKind::Created,
            (_, None) => ChangeKind::Deleted,
            _ => ChangeKind::Modified,
        };
        let (old, new) = (
            side_of(&file.path, file.before.as_ref()),
            side_of(&file.path, file.after.as_ref()),
        );
        let mut unified = Unified::new(CONTEXT_LINES, usize::MAX);
        unified.text = format_header(old.as_ref(), new.as_ref());
        let (old_content, new_content) = (content_of(old.as_ref()), content_of(new.as_ref()));
        let (old_name, new_name) = format_names(old.as_ref(), new.as_ref());
        // The patch is a `String`, and one with replaced bytes would not apply.
        let is_utf8 = |content| std::str::from_utf8(content).is_ok();
        let what_differs = if old_content == new_content {
            None
        } else if is_binary(old_content) || is_binary(new_content) {
            Some("Binary files")
        } else if is_utf8(old_content) && is_utf8(new_content) {
            unified.compare((&old_name, old_content), (&new_name, new_content));
            None
        } else {
            Some("Files that are not UTF-8,")
        };
        if let Some(what) = what_differs {
            let _ = writeln!(unified.text, "{what} {old_name} and {new_name} differ");
        }
        Self {
            path: file.path.clone(),
            kind,
            added: unified.added,
            removed: unified.removed,
            is_text: what_differs.is_none(),
            text: unified.text,
        }
    }
}

/// Describes changes for a question. A content that the diff does not show is identified by its digest.
pub fn describe_changes(files: &[FileChange]) -> String {
    let mut text = String::new();
    for file in files {
        let diff = FileDiff::new(file);
        text.push_str(&diff.text);
        if let Some(after) = file.after.as_ref().filter(|_| !diff.is_text) {
            let (size, digest) = (after.content.len(), sha256_hex(&after.content));
            let _ = writeln!(text, "it becomes {size} bytes with the SHA-256 {digest}");
        }
    }
    text
}

/// Compares two texts, each with its name, as a unified diff.
pub fn unified_diff((old_name, old): (&str, &str), (new_name, new): (&str, &str)) -> String {
    let mut unified = Unified::new(CONTEXT_LINES, usize::MAX);
    unified.compare((old_name, old.as_bytes()), (new_name, new.as_bytes()));
    unified.text
}

/// Takes a change back and keeps a later edit. `left` is what the change left, `now` what is there now, and `before`
/// what was there before the change. `None` if both touch the same or adjacent lines, and for contents that are not
/// text.
pub fn merge_beside(left: &[u8], now: &[u8], before: &[u8]) -> Option<Vec<u8>> {
    if [left, now, before].into_iter().any(is_binary) {
        return None;
    }
    let (left, now, before) = (split_lines(left), split_lines(now), split_lines(before));
    let deadline = Instant::now() + DIFF_TIME_MAX;
    let changes = |new: &[&[u8]]| {
        let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &left, new, Some(deadline));
        let changed = ops.into_iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
        changed.map(|op| (op.old_range(), op.new_range())).collect::<Vec<_>>()
    };
    let (later, back) = (changes(&now), changes(&before));
    // Adjacent changes count too, because the order of their new lines would be a guess.
    let touches = |one: &Range<usize>, other: &Range<usize>| one.start <= other.end && other.start <= one.end;
    if later
        .iter()
        .any(|(one, _)| back.iter().any(|(other, _)| touches(one, other)))
    {
        return None;
    }
    let later = later.into_iter().map(|(old, new)| (old, &now[new]));
    let back = back.into_iter().map(|(old, new)| (old, &before[new]));
    let mut hunks: Vec<(Range<usize>, &[&[u8]])> = later.chain(back).collect();
    hunks.sort_by_key(|(old, _)| old.start);
    let (mut merged, mut at) = (Vec::new(), 0);
    for (old, new) in hunks {
        merged.extend_from_slice(&left[at..old.start].concat());
        merged.extend_from_slice(&new.concat());
        at = old.end;
    }
    merged.extend_from_slice(&left[at..].concat());
    Some(merged)
}

fn split_lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|&byte| byte == b'\n').collect()
}

/// One side of a change: an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffSide<'a> {
    /// Relative to the root.
    path: &'a str,
    /// git's mode, such as 0o100644.
    mode: u32,
    /// Content, with line ends as git stores them.
    content: &'a [u8],
}

impl<'a> DiffSide<'a> {
    /// A side with git's mode, such as 0o100644.
    pub fn new(path: &'a str, mode: u32, content: &'a [u8]) -> Self {
        Self { path, mode, content }
    }
}

/// Diff of two sides, with a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundedDiff {
    /// The patch; empty for contents that are not text.
    pub patch: String,
    /// Lines added by the whole change.
    pub added: u32,
    /// Lines removed by the whole change.
    pub removed: u32,
    /// True if the contents are not text.
    pub is_binary: bool,
    /// True if the limit cut the patch.
    pub is_cut: bool,
}

impl BoundedDiff {
    /// Compares `old` and `new`; an absent side is a file that does not exist. Bytes that are not UTF-8 are replaced.
    pub fn new(old: Option<&DiffSide<'_>>, new: Option<&DiffSide<'_>>, context_lines: u32, bytes_max: usize) -> Self {
        let (old_content, new_content) = (content_of(old), content_of(new));
        if is_binary(old_content) || is_binary(new_content) {
            return Self {
                is_binary: true,
                ..Self::default()
            };
        }
        let mut unified = Unified::new(context_lines as usize, bytes_max);
        unified.text = format_header(old, new);
        if old_content != new_content {
            let (old_name, new_name) = format_names(old, new);
            unified.compare((&old_name, old_content), (&new_name, new_content));
        }
        if unified.left_out > 0 {
            let _ = writeln!(
                unified.text,
                "[... {} lines of this patch left out ...]",
                unified.left_out
            );
        }
        let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            patch: unified.text,
            added: count(unified.added),
            removed: count(unified.removed),
            is_binary: false,
            is_cut: unified.left_out > 0,
        }
    }
}

/// True for a content that is not text.
pub fn is_binary(content: &[u8]) -> bool {
    content.contains(&0)
}

/// A unified diff being written, and the lines that it adds and removes.
struct Unified {
    context_lines: usize,
    /// Limit of the text; lines above it are counted and left out.
    bytes_max: usize,
    text: String,
    added: usize,
    removed: usize,
    left_out: usize,
}

impl Unified {
    fn new(context_lines: usize, bytes_max: usize) -> Self {
        Self {
            context_lines,
            bytes_max,
            text: String::new(),
            added: 0,
            removed: 0,
            left_out: 0,
        }
    }

    fn compare(&mut self, (old_name, old): (&str, &[u8]), (new_name, new): (&str, &[u8])) {
        let _ = writeln!(self.text, "--- {old_name}\n+++ {new_name}");
        let (old, new) = (split_lines(old), split_lines(new));
        let deadline = Instant::now() + DIFF_TIME_MAX;
        let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
        for hunk in similar::group_diff_ops(ops, self.context_lines) {
            let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
                continue;
            };
            let old_range = format_range(first.old_range().start, last.old_range().end);
            let new_range = format_range(first.new_range().start, last.new_range().end);
            self.push(&format!("@@ -{old_range} +{new_range} @@\n"));
            for op in hunk {
                self.lines(op, &old, &new);
            }
        }
    }

    fn lines(&mut self, op: DiffOp, old: &[&[u8]], new: &[&[u8]]) {
        let (removed, added) = (&old[op.old_range()], &new[op.new_range()]);
        if matches!(op, DiffOp::Equal { .. }) {
            removed.iter().for_each(|line| self.line(' ', line));
            return;
        }
        removed.iter().for_each(|line| self.line('-', line));
        added.iter().for_each(|line| self.line('+', line));
        self.removed += removed.len();
        self.added += added.len();
    }

    fn line(&mut self, sign: char, line: &[u8]) {
        let mut text = format!("{sign}{}", String::from_utf8_lossy(line));
        if !text.ends_with('\n') {
            // Without this marker `git apply` would add a line feed to the end of the file.
            text.push_str("\n\\ No newline at end of file\n");
        }
        self.push(&text);
    }

    fn push(&mut self, line: &str) {
        // After a line was left out no shorter one may follow, because the patch would have a gap.
        if self.left_out > 0 || self.text.len() + line.len() > self.bytes_max {
            self.left_out += 1;
        } else {
            self.text.push_str(line);
        }
    }
}

/// Returns the complete lines at the beginning of a text that fit. A diff that ends within a line cannot be applied.
pub fn first_lines(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = text.floor_char_boundary(bytes_max);
    &text[..text[..end].rfind('\n').map_or(end, |at| at + 1)]
}

/// Formats lines of a side, counted from 1, as `first,count`. An empty side names the line before it.
fn format_range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    }
}

/// The lines that git writes before the names, without the `index` line, whose object ids help no reader.
fn format_header(old: Option<&DiffSide<'_>>, new: Option<&DiffSide<'_>>) -> String {
    let Some(either) = old.or(new) else {
        return String::new();
    };
    let (before, after) = (old.unwrap_or(either), new.unwrap_or(either));
    let mut header = format!(
        "diff --git {} {}\n",
        format_name("a", before.path),
        format_name("b", after.path)
    );
    if old.is_none() {
        let _ = writeln!(header, "new file mode {:06o}", after.mode);
    } else if new.is_none() {
        let _ = writeln!(header, "deleted file mode {:06o}", before.mode);
    } else if before.mode != after.mode {
        let _ = writeln!(header, "old mode {:06o}\nnew mode {:06o}", before.mode, after.mode);
    }
    if before.path != after.path {
        let (from, to) = (quote_path(before.path), quote_path(after.path));
        let _ = writeln!(header, "rename from {from}\nrename to {to}");
    }
    header
}

/// The names of both sides for the lines `---` and `+++`.
fn format_names(old: Option<&DiffSide<'_>>, new: Option<&DiffSide<'_>>) -> (String, String) {
    let shown = |side: Option<&DiffSide<'_>>, prefix| {
        side.map_or_else(|| "/dev/null".to_owned(), |side| format_name(prefix, side.path))
    };
    (shown(old, "a"), shown(new, "b"))
}

/// A path with the prefix of its side, as git writes it.
fn format_name(side: &str, path: &str) -> String {
    quote_path(&format!("{side}/{path}"))
}

/// Quotes a path as git does: in double quotes with escapes if it holds characters that would confuse a reader.
pub fn quote_path(path: &str) -> String {
    if !path
        .chars()
        .any(|character| character.is_control() || matches!(character, '"' | '\\'))
    {
        return path.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in path.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                let mut buffer = [0; 4];
                for byte in control.encode_utf8(&mut buffer).bytes() {
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn content_of<'a>(side: Option<&DiffSide<'a>>) -> &'a [u8] {
    side.map_or(&[], |side| side.content)
}

fn side_of<'a>(path: &'a str, state: Option<&'a FileState>) -> Option<DiffSide<'a>> {
    state.map(|state| DiffSide::new(path, git_mode(state), &state.content))
}

/// git has only two modes of files.
fn git_mode(state: &FileState) -> u32 {
    if state.mode & 0o111 == 0 { 0o100_644 } else { 0o100_755 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_taken_back_beside_an_edit_of_other_lines_alone() {
        let merge = |now: &str| {
            let merged = merge_beside(b"1\nTWO\n3\n4\n5\n", now.as_bytes(), b"1\n2\n3\n4\n5\n");
            merged.map(|merged| String::from_utf8(merged).expect("it is text"))
        };
        assert_eq!(merge("1\nTWO\n3\n4\nfive\n").as_deref(), Some("1\n2\n3\n4\nfive\n"));
        assert_eq!(merge("1\nTWO\n3\n4\n5\n6").as_deref(), Some("1\n2\n3\n4\n5\n6"));
        for touching in [
            "1\nTwo\n3\n4\n5\n",
            "1\nTWO\nthree\n4\n5\n",
            "one\nTWO\n3\n4\n5\n",
            "",
            "1\n\0",
        ] {
            assert_eq!(merge(touching), None, "{touching}");
        }
    }

    fn state(content: &[u8]) -> FileState {
        FileState {
            content: content.to_vec(),
            mode: 0o644,
        }
    }

    fn diff(before: Option<&[u8]>, after: Option<&[u8]>) -> FileDiff {
        FileDiff::new(&FileChange {
            path: "src/a.py".into(),
            before: before.map(state),
            after: after.map(state),
        })
    }

    #[test]
    fn a_modified_file_is_shown_with_three_lines_around_each_change() {
        let before = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13";
        let after = b"1\n2\nthree\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n";
        let diff = diff(Some(before), Some(after));
        assert_eq!((diff.kind, diff.added, diff.removed), (ChangeKind::Modified, 2, 2));
        insta::assert_snapshot!(diff.text, @r"
        diff --git a/src/a.py b/src/a.py
        --- a/src/a.py
        +++ b/src/a.py
        @@ -1,6 +1,6 @@
         1
         2
        -3
        +three
         4
         5
         6
        @@ -10,4 +10,4 @@
         10
         11
         12
        -13
        \ No newline at end of file
        +13
        ");
    }

    #[test]
    fn new_and_deleted_files_are_marked() {
        insta::assert_snapshot!(diff(None, Some(b"a\n")).text, @r"
        diff --git a/src/a.py b/src/a.py
        new file mode 100644
        --- /dev/null
        +++ b/src/a.py
        @@ -0,0 +1 @@
        +a
        ");
        insta::assert_snapshot!(diff(Some(b"a\n"), None).text, @r"
        diff --git a/src/a.py b/src/a.py
        deleted file mode 100644
        --- a/src/a.py
        +++ /dev/null
        @@ -1 +0,0 @@
        -a
        ");
    }

    #[test]
    fn what_is_no_text_is_said_and_not_shown() {
        let binary = diff(Some(b"a\0b"), Some(b"c"));
        assert!(!binary.is_text);
        assert!(binary.text.ends_with("Binary files a/src/a.py and b/src/a.py differ\n"));
        let latin = diff(None, Some(b"gr\xfc\xdfe\n"));
        assert!(
            latin
                .text
                .ends_with("Files that are not UTF-8, /dev/null and b/src/a.py differ\n")
        );
    }

    #[test]
    fn a_change_of_mode_alone_and_an_empty_file_have_no_hunks() {
        let mut change = FileChange {
            path: "run".into(),
            before: Some(state(b"x")),
            after: Some(state(b"x")),
        };
        change.after.as_mut().expect("there is one").mode = 0o755;
        let text = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n";
        assert_eq!(FileDiff::new(&change).text, text);
        assert_eq!(
            diff(None, Some(b"")).text,
            "diff --git a/src/a.py b/src/a.py\nnew file mode 100644\n"
        );
    }

    #[test]
    fn a_carriage_return_tears_no_line_and_a_name_stays_on_its_line() {
        let text = diff(Some(b"a\rb\r\n"), Some(b"a\rc\r\n")).text;
        assert!(text.ends_with("@@ -1 +1 @@\n-a\rb\r\n+a\rc\r\n"), "{text:?}");
        assert_eq!(format_name("a", "two\nlines"), r#""a/two\nlines""#);
        assert_eq!(format_name("b", "ein Gruß.txt"), "b/ein Gruß.txt");
    }

    #[test]
    fn a_name_that_would_not_stay_on_its_line_is_quoted_as_git_reads_it() {
        assert_eq!(format_name("a", "src/é.py"), "a/src/é.py");
        assert_eq!(format_name("b", "é\t\u{7}\".py"), r#""b/é\t\007\".py""#);
    }

    #[test]
    fn two_contents_are_compared_for_a_bounded_time() {
        let lines = |salt: u32| -> Vec<u8> {
            let line = |number: u32| format!("{}\n", number.wrapping_mul(2_654_435_761).wrapping_add(salt));
            (0..60_000).map(line).collect::<String>().into_bytes()
        };
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(diff(Some(&lines(1)), Some(&lines(2))).added));
        let added = ended
            .recv_timeout(std::time::Duration::from_secs(15))
            .expect("it ends in time");
        assert!(added > 50_000, "{added}");
    }

    fn text<'a>(path: &'a str, content: &'a str) -> DiffSide<'a> {
        DiffSide::new(path, 0o100_644, content.as_bytes())
    }

    fn patch(old: Option<&DiffSide<'_>>, new: Option<&DiffSide<'_>>) -> BoundedDiff {
        BoundedDiff::new(old, new, 1, usize::MAX)
    }

    #[test]
    fn a_modification_is_a_unified_diff() {
        let rendered = patch(
            Some(&text("a.txt", "1\n2\n3\n4\n")),
            Some(&text("a.txt", "1\n2\nthree\n4")),
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
        insta::assert_snapshot!(patch(None, Some(&text("new.txt", "text\n"))).patch, @r"
        diff --git a/new.txt b/new.txt
        new file mode 100644
        --- /dev/null
        +++ b/new.txt
        @@ -0,0 +1 @@
        +text
        ");
        insta::assert_snapshot!(patch(Some(&text("old.txt", "text\n")), None).patch, @r"
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
        let new = DiffSide::new("to \"b\".sh", 0o100_755, b"text\n");
        insta::assert_snapshot!(patch(Some(&text("from.sh", "text\n")), Some(&new)).patch, @r#"
        diff --git a/from.sh "b/to \"b\".sh"
        old mode 100644
        new mode 100755
        rename from from.sh
        rename to "to \"b\".sh"
        "#);
    }

    #[test]
    fn contents_that_are_not_text_have_no_patch() {
        let rendered = patch(Some(&text("a", "text")), Some(&text("a", "\0binary")));
        assert!(rendered.is_binary && rendered.patch.is_empty());
    }

    #[test]
    fn a_long_patch_is_cut_after_a_whole_line_and_says_so() {
        let long = (0..1000).map(|number| format!("line {number}\n")).collect::<String>();
        let rendered = BoundedDiff::new(None, Some(&text("a", &long)), 3, 120);
        assert!(rendered.is_cut);
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
        let patch = patch(None, Some(&text(path, ""))).patch;
        assert_eq!(patch.lines().count(), 2, "{patch}");
        assert!(patch.contains("\"a/a\\n+++ b/evil\\033\""), "{patch}");
    }
}
