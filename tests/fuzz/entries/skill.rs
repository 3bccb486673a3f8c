//! Fuzz target: two contents and their diff.

use super::imports;
use input::Input;
use tool_repository::changes::{FileChange, FileState};
use tool_repository::diff;

#[path = "../input.rs"]
mod input;

/// Checks that a diff counts its lines correctly, and turns the old content into the new one.
pub fn patches(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let path = input.text();
    let choice = input.byte();
    let middle = usize::from(input.byte());
    let rest = input.rest();
    let (old, new) = rest.split_at(middle.min(rest.len()));
    let state = |content: &[u8], absent: u8| {
        (choice & absent == 0).then(|| FileState {
            content: content.to_vec(),
            mode: if choice & 4 == 0 { 0o644 } else { 0o755 },
        })
    };
    let change = FileChange {
        path: path.clone(),
        before: state(old, 1),
        after: state(new, 2),
    };
    let diff = diff::FileDiff::new(&change);
    if diff.is_text {
        let content = |state: &Option<FileState>| state.as_ref().map_or(Vec::new(), |state| state.content.clone());
        let applied = applied(&content(&change.before), diff.text.as_bytes());
        assert_eq!(applied, content(&change.after), "{}", diff.text);
        assert_eq!(signs(diff.text.as_bytes()), (diff.added, diff.removed));
    }
    imports::fuzz::patch(&path, old, new);
}

/// Counts added and removed lines in hunks.
fn signs(diff: &[u8]) -> (usize, usize) {
    let hunks = diff
        .split(|&byte| byte == b'\n')
        .skip_while(|line| !line.starts_with(b"@@ "));
    hunks.fold((0, 0), |(added, removed), line| match line.first() {
        Some(b'+') => (added + 1, removed),
        Some(b'-') => (added, removed + 1),
        _ => (added, removed),
    })
}

/// Applies a unified diff of one file.
pub(super) fn applied(old: &[u8], diff: &[u8]) -> Vec<u8> {
    let mut old = old.split_inclusive(|&byte| byte == b'\n');
    let (mut new, mut at, mut in_hunk) = (Vec::new(), 1, false);
    let mut last = b' ';
    for line in diff.split_inclusive(|&byte| byte == b'\n') {
        if let Some(header) = line.strip_prefix(b"@@ -") {
            in_hunk = true;
            let (first, count) = range(header);
            // A hunk with an empty side names the line before it.
            let first = if count == 0 { first + 1 } else { first };
            while at < first {
                new.extend_from_slice(old.next().expect("a line before the hunk"));
                at += 1;
            }
            continue;
        }
        if !in_hunk {
            continue;
        }
        let (sign, text) = line.split_first().expect("a line is not empty");
        match sign {
            b'\\' => {
                // The diff itself adds this line feed.
                if last != b'-' {
                    new.pop();
                }
            }
            b'+' => new.extend_from_slice(text),
            b'-' | b' ' => {
                let was = old.next().expect("a line of the hunk");
                assert_eq!(
                    was.strip_suffix(b"\n"),
                    was.ends_with(b"\n").then(|| &text[..text.len() - 1])
                );
                at += 1;
                if *sign == b' ' {
                    new.extend_from_slice(text);
                }
            }
            other => panic!("a line of a hunk begins with {other}"),
        }
        last = *sign;
    }
    old.for_each(|line| new.extend_from_slice(line));
    new
}

/// Parses `first,count` of the old side.
fn range(header: &[u8]) -> (usize, usize) {
    let text = std::str::from_utf8(header).expect("a header is text");
    let old = text.split(' ').next().expect("there is one");
    let (first, count) = old.split_once(',').unwrap_or((old, "1"));
    let number = |text: &str| text.parse().expect("a number");
    (number(first), number(count))
}

#[cfg(test)]
#[path = "../replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    super::replay::replay_targets!("../..", patches);
}
