//! Formats a change as a unified diff that fits an answer.
//!
//! Lines are compared as numbers, and hunks are written here, because all of `similar` would make the component four
//! times as large.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag, group_diff_ops};
use skill_sdk::text::{clip, counted};

/// Limit for the diff in an answer in bytes. The model wrote the change, and needs the diff only as a check.
const DIFF_BYTES_MAX: usize = 24 * 1024;
/// Limit for a line of the diff in bytes.
const LINE_BYTES_MAX: usize = 500;
/// Time after which the diff becomes coarser instead of minimal.
const DIFF_TIME: Duration = Duration::from_secs(2);
/// Unchanged lines around each change.
const CONTEXT: usize = 3;

/// A change of one text, by lines.
#[derive(Debug)]
pub(crate) struct TextChange<'a> {
    pub(crate) old: Vec<&'a str>,
    pub(crate) new: Vec<&'a str>,
    ops: Vec<DiffOp>,
}

impl<'a> TextChange<'a> {
    pub(crate) fn new(old: &'a str, new: &'a str) -> Self {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut number = |lines: &[&'a str]| -> Vec<u32> {
            let mut of = |line: &&'a str| {
                let next = numbers.len() as u32;
                *numbers.entry(line).or_insert(next)
            };
            lines.iter().map(&mut of).collect()
        };
        let ops = compare_lines(&number(&old), &number(&new));
        Self { old, new, ops }
    }

    pub(crate) fn added(&self) -> impl Iterator<Item = &'a str> {
        let changed = self.ops.iter().filter(|op| op.tag() != DiffTag::Equal);
        changed.flat_map(|op| &self.new[op.new_range()]).copied()
    }

    pub(crate) fn removed(&self) -> usize {
        let changed = self.ops.iter().filter(|op| op.tag() != DiffTag::Equal);
        changed.map(|op| op.old_range().len()).sum()
    }

    /// The unified diff without file names, cut to the limit.
    pub(crate) fn unified(&self) -> String {
        let mut text = String::new();
        let mut left_out = 0;
        for hunk in group_diff_ops(self.ops.clone(), CONTEXT) {
            let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
                continue;
            };
            let old = hunk_span(first.old_range().start..last.old_range().end);
            let new = hunk_span(first.new_range().start..last.new_range().end);
            if text.len() <= DIFF_BYTES_MAX {
                let _ = write!(text, "\n@@ -{old} +{new} @@");
            }
            for (mark, line) in hunk.iter().flat_map(|op| self.marked(op)) {
                if text.len() > DIFF_BYTES_MAX {
                    left_out += 1
                } else {
                    write_line(&mut text, mark, line)
                }
            }
        }
        if left_out > 0 {
            let left_out = counted(left_out, "more line", "more lines");
            let _ = write!(text, "\n… [{left_out} of the diff]");
        }
        text
    }

    /// Lines of a part, each with its mark.
    fn marked(&self, op: &DiffOp) -> impl Iterator<Item = (char, &'a str)> {
        let is_equal = op.tag() == DiffTag::Equal;
        let (old_mark, new_range) = if is_equal { (' ', 0..0) } else { ('-', op.new_range()) };
        let old = self.old[op.old_range()].iter().map(move |line| (old_mark, *line));
        old.chain(self.new[new_range].iter().map(|line| ('+', *line)))
    }
}

fn compare_lines(old: &[u32], new: &[u32]) -> Vec<DiffOp> {
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    let deadline = Instant::now().checked_add(DIFF_TIME);
    let Ok(()) = myers::diff_deadline(&mut hook, old, 0..old.len(), new, 0..new.len(), deadline);
    hook.into_inner().into_inner().into_ops()
}

/// Range of a hunk in the format of `diff`: for one line its number, for none the number of the line before.
fn hunk_span(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        length => format!("{},{length}", lines.start + 1),
    }
}

fn write_line(text: &mut String, mark: char, line: &str) {
    let (body, has_end) = match line.strip_suffix('\n') {
        Some(body) => (body.strip_suffix('\r').unwrap_or(body), true),
        None => (line, false),
    };
    let (shown, cut) = clip(body, LINE_BYTES_MAX);
    let _ = write!(text, "\n{mark}{shown}");
    if cut > 0 {
        let _ = write!(text, "… [{cut} more bytes]");
    }
    if !has_end {
        text.push_str("\n\\ No newline at end of file");
    }
}
