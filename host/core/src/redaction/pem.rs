//! Private keys in PEM armour: which lines below `-----BEGIN … PRIVATE KEY-----` belong to the key.
//!
//! Each line is replaced separately, so that a text keeps its lines: answers of skills number them, and diffs mark
//! them.

use std::ops::Range;

use super::randomness;
use crate::redaction::{REDACTION_KEY_BYTES_MAX, REDACTION_KEY_LINES_MAX};

/// Least bytes of the first line of an armoured key. Code below a mention of the armour is shorter.
const FIRST_BYTES_MIN: usize = 32;

/// Bytes of a mark before the words `PRIVATE KEY`, and from there on, at most.
const MARK_BYTES_MAX: usize = 48;

/// Bytes of a key in each of its lines after the first, at least.
const LAST_BYTES_MIN: usize = 4;

/// The lines of the key that begins at the mention of a private key; empty if none begins there.
pub(super) fn find_key_lines(text: &str, mention: usize) -> Vec<Range<usize>> {
    // PuTTY counts the lines of the key.
    if text.as_bytes()[mention..].starts_with(b"Private-Lines:") {
        return find_lines_below(text, end_of_line(text, mention));
    }
    let Some(body) = opening_mark_end(text, mention) else {
        return Vec::new();
    };
    let line_end = end_of_line(text, body);
    match in_one_line(text, body..line_end) {
        Some(key) => vec![key],
        None => find_lines_below(text, line_end),
    }
}

/// End of the mark around the mention: `-----BEGIN EC PRIVATE KEY-----`, `---- BEGIN SSH2 … PRIVATE KEY ----`.
fn opening_mark_end(text: &str, mention: usize) -> Option<usize> {
    let before = &text[text.ceil_char_boundary(mention.saturating_sub(MARK_BYTES_MAX))..mention];
    let before = before.rsplit('\n').next().unwrap_or_default();
    let begin = before.rfind("BEGIN")?;
    before[..begin].contains("----").then_some(())?;
    let after = &text[mention..text.floor_char_boundary(mention + MARK_BYTES_MAX)];
    let after = after.split('\n').next().unwrap_or_default();
    let dashes = after.find("----")?;
    let count = after[dashes..].bytes().take_while(|byte| *byte == b'-').count();
    Some(mention + dashes + count)
}

/// A key with line breaks written as `\n`, up to its end mark or the end of the line.
fn in_one_line(text: &str, rest: Range<usize>) -> Option<Range<usize>> {
    let body = &text[rest.clone()];
    let end = body.find("----").unwrap_or(body.len());
    let body = &body[..end];
    let longest = longest_run(body)?;
    (longest.len() >= FIRST_BYTES_MIN).then(|| {
        let end = body.trim_end_matches(['"', '\'', '`', ',', ';', ')', ' ', '\r']).len();
        let start = body.len() - body.trim_start_matches(['\\', 'n', 'r', ' ']).len();
        rest.start + start.min(longest.start)..rest.start + end
    })
}

pub(super) fn find_lines_below(text: &str, mut at: usize) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    // Text before the key in its first line.
    let mut frame = "";
    // Headers, and blank lines below them.
    let mut others = 0;
    for _ in 0..REDACTION_KEY_LINES_MAX {
        // The end of the text, or of a line that is too long for a key.
        if text.as_bytes().get(at) != Some(&b'\n') {
            break;
        }
        let line = at + 1..end_of_line(text, at + 1);
        at = line.end;
        let body = &text[line.clone()];
        if body.contains("----") {
            break;
        }
        match key_in(body, Some(frame).filter(|_| !found.is_empty())) {
            Some(key) => {
                if found.is_empty() {
                    frame = &body[..key.start];
                }
                found.push(line.start + key.start..line.start + key.end);
            }
            None if found.is_empty() && others < 6 => others += 1,
            None => break,
        }
    }
    found
}

/// Range of the key in a line: its longest piece of base64. A long random-looking piece is the key in any frame. The
/// last, shorter line must have the frame of the first line, or only framing characters around it.
fn key_in(line: &str, first_frame: Option<&str>) -> Option<Range<usize>> {
    let run = longest_run(line)?;
    let body = &line[run.clone()];
    if run.len() >= FIRST_BYTES_MIN && randomness::is_random(body) {
        return Some(run);
    }
    let bytes_min = if first_frame.is_some() {
        LAST_BYTES_MIN
    } else {
        FIRST_BYTES_MIN
    };
    // Allowed around a key: a line number with a tab or a colon, quotes, and operators that join strings.
    let is_frame = |c: char| c.is_ascii_digit() || " \t\r:|\"'`+-\\nr,;#*/>".contains(c);
    // pytest marks lines of a failure with an `E`.
    let before = line[..run.start].strip_prefix("E ").unwrap_or(&line[..run.start]);
    let is_same = first_frame.is_some_and(|first| is_same_frame(first, &line[..run.start]));
    let is_framed = before.chars().chain(line[run.end..].chars()).all(is_frame);
    (run.len() >= bytes_min && (is_framed || is_same)).then_some(run)
}

/// True if the beginnings of two lines differ only in numbers.
fn is_same_frame(first: &str, other: &str) -> bool {
    let letters = |text: &str| -> String { text.chars().filter(|c| !c.is_ascii_digit() && *c != ' ').collect() };
    letters(first) == letters(other)
}

/// The longest piece of base64. Of equal pieces the last, because a line number precedes the key. A `+` that a diff put
/// at the beginning of the line does not belong to it.
fn longest_run(line: &str) -> Option<Range<usize>> {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let bytes = line.as_bytes();
    let mut best: Option<Range<usize>> = None;
    let mut at = usize::from(bytes.first() == Some(&b'+'));
    while at < bytes.len() {
        if !is_base64(bytes[at]) {
            // A backslash and the next character are an escaped line break.
            at += if bytes[at] == b'\\' { 2 } else { 1 };
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| is_base64(**byte)).count();
        if best.as_ref().is_none_or(|best| length >= best.len()) {
            best = Some(at..at + length);
        }
        at += length;
    }
    best
}

/// The end of the line, limited to the length that a key can have.
pub(super) fn end_of_line(text: &str, from: usize) -> usize {
    let end = text.floor_char_boundary(from + REDACTION_KEY_BYTES_MAX);
    text[from..end].find('\n').map_or(end, |at| from + at)
}
