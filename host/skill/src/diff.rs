//! A changed file as people and `git apply` read it: a unified diff in git's form.
//!
//! Lines end at line feeds only, whatever else the file uses, so that no carriage return of a file tears the diff.

use std::fmt::Write;
use std::time::Instant;

use similar::{Algorithm, DiffOp};

use crate::limits;
use tool_repository::changes::{FileChange, FileState};

/// Unchanged lines around a change, as git shows.
const CONTEXT_LINES: usize = 3;

/// One changed file, as text and in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// Relative to the root.
    pub path: String,
    /// `created`, `modified` or `deleted`.
    pub kind: &'static str,
    /// Lines added; 0 where the file is no text.
    pub added: usize,
    /// Lines removed; 0 where the file is no text.
    pub removed: usize,
    /// False where one of its contents is binary or not UTF-8, and the text says so instead of showing it.
    pub is_text: bool,
    /// The diff, header included.
    pub text: String,
}

impl FileDiff {
    /// The diff of one file.
    pub fn new(file: &FileChange) -> Self {
        let kind = match (&file.before, &file.after) {
            (None, _) => "created",
            (_, None) => "deleted",
            _ => "modified",
        };
        let mut unified = Unified {
            text: header(file),
            ..Unified::default()
        };
        let (old, new) = (content(file.before.as_ref()), content(file.after.as_ref()));
        let (old_name, new_name) = names(file);
        let what_differs = match (std::str::from_utf8(old), std::str::from_utf8(new)) {
            _ if old == new => None,
            _ if old.contains(&0) || new.contains(&0) => Some("Binary files"),
            (Ok(old), Ok(new)) => {
                unified.compare((&old_name, old), (&new_name, new));
                None
            }
            _ => Some("Files that are not UTF-8,"),
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

/// Two texts, each after its name, as a unified diff.
pub(super) fn unified(old: (&str, &str), new: (&str, &str)) -> String {
    let mut unified = Unified::default();
    unified.compare(old, new);
    unified.text
}

/// A unified diff in the making, and the lines that it adds and removes.
#[derive(Default)]
struct Unified {
    text: String,
    added: usize,
    removed: usize,
}

impl Unified {
    fn compare(&mut self, (old_name, old): (&str, &str), (new_name, new): (&str, &str)) {
        let _ = writeln!(self.text, "--- {old_name}\n+++ {new_name}");
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let deadline = Instant::now() + limits::milliseconds(limits::DIFF_MS_MAX);
        let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
        for hunk in similar::group_diff_ops(ops, CONTEXT_LINES) {
            let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
                continue;
            };
            let old_range = range(first.old_range().start, last.old_range().end);
            let new_range = range(first.new_range().start, last.new_range().end);
            let _ = writeln!(self.text, "@@ -{old_range} +{new_range} @@");
            for op in hunk {
                self.lines(op, &old, &new);
            }
        }
    }

    fn lines(&mut self, op: DiffOp, old: &[&str], new: &[&str]) {
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

    fn line(&mut self, sign: char, line: &str) {
        self.text.push(sign);
        self.text.push_str(line);
        if !line.ends_with('\n') {
            self.text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// The whole lines at the beginning of a text that fit: a diff that ends within a line is none that anything applies.
pub fn first_lines(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = text.floor_char_boundary(bytes_max);
    &text[..text[..end].rfind('\n').map_or(end, |at| at + 1)]
}

/// Lines of a side, from 1, as `first,count`; an empty side names the line before it.
fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    }
}

fn header(file: &FileChange) -> String {
    let mut text = format!("diff --git {} {}\n", name("a", &file.path), name("b", &file.path));
    // git knows two modes of files.
    let mode = |state: &FileState| if state.mode & 0o111 == 0 { "100644" } else { "100755" };
    let _ = match (&file.before, &file.after) {
        (None, Some(after)) => writeln!(text, "new file mode {}", mode(after)),
        (Some(before), None) => writeln!(text, "deleted file mode {}", mode(before)),
        (Some(before), Some(after)) if mode(before) != mode(after) => {
            writeln!(text, "old mode {}\nnew mode {}", mode(before), mode(after))
        }
        _ => Ok(()),
    };
    text
}

fn names(file: &FileChange) -> (String, String) {
    let name = |side, state: &Option<FileState>| match state {
        Some(_) => name(side, &file.path),
        None => "/dev/null".to_owned(),
    };
    (name("a", &file.before), name("b", &file.after))
}

/// A path with its side before it, as git writes it.
fn name(side: &str, path: &str) -> String {
    quoted(&format!("{side}/{path}"))
}

/// A path as git writes it: in double quotes with escapes where it holds anything that would confuse a reader.
pub(crate) fn quoted(path: &str) -> String {
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

fn content(state: Option<&FileState>) -> &[u8] {
    state.map_or(&[], |state| state.content.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((diff.kind, diff.added, diff.removed), ("modified", 2, 2));
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
        assert_eq!(name("a", "two\nlines"), r#""a/two\nlines""#);
        assert_eq!(name("b", "ein Gruß.txt"), "b/ein Gruß.txt");
    }

    #[test]
    fn a_name_that_would_not_stay_on_its_line_is_quoted_as_git_reads_it() {
        assert_eq!(name("a", "src/é.py"), "a/src/é.py");
        assert_eq!(name("b", "é\t\u{7}\".py"), r#""b/é\t\007\".py""#);
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
}
