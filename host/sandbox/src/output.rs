//! Output of a run: keeps its beginning and its end, and reports its lines as they come.

use std::collections::VecDeque;

use crate::limits;

/// Bytes of a line that are reported live; the rest is left out.
const PROCESS_LIVE_LINE_BYTES_MAX: usize = 2048;

/// Keeps the first and the last half of a bounded number of bytes.
#[derive(Debug)]
pub(super) struct CapturedOutput {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl CapturedOutput {
    pub(super) fn new(kept_bytes: usize) -> Self {
        Self {
            half: kept_bytes / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    /// Bytes received, whether kept or not.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Returns the text, at most twice `half` bytes, and whether its middle was left out. Bytes that are not UTF-8
    /// become U+FFFD.
    // Replacing a byte with U+FFFD takes three, so the text may be longer than the bytes that were kept.
    pub(super) fn finish(self) -> (String, bool) {
        let tail = Vec::from(self.tail);
        let kept = self.head.len() + tail.len();
        let left_out = self.total - kept as u64;
        if left_out == 0 {
            let whole = [self.head, tail].concat();
            let text = String::from_utf8_lossy(&whole);
            if text.len() <= 2 * self.half {
                return (text.into_owned(), false);
            }
            return (beginning_and_end(&text, &text, 0, self.half), true);
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        (beginning_and_end(&head, &tail, left_out, self.half), true)
    }
}

/// Shortens a text for a report to 1 MiB, its beginning and its end. True if the middle was left out.
pub fn keep_ends(text: &str) -> (String, bool) {
    if text.len() <= crate::PROCESS_OUTPUT_KEPT_BYTES {
        return (text.to_owned(), false);
    }
    (
        beginning_and_end(text, text, 0, crate::PROCESS_OUTPUT_KEPT_BYTES / 2),
        true,
    )
}

/// Joins whole lines of the beginning and of the end, with a line between them that says how much is missing.
fn beginning_and_end(beginning: &str, end: &str, left_out: u64, half: usize) -> String {
    const ROOM_FOR_NOTE: usize = 64;
    let room = half.saturating_sub(ROOM_FOR_NOTE);
    let head = &beginning[..beginning.floor_char_boundary(room)];
    let head = head.rfind('\n').map_or(head, |last| &head[..=last]);
    let tail = &end[end.ceil_char_boundary(end.len().saturating_sub(room))..];
    let tail = tail.find('\n').map_or(tail, |first| &tail[first + 1..]);
    let cut_here = (beginning.len() - head.len()) as u64 + (end.len() - tail.len()) as u64;
    // If both are the same text, one side may hold bytes that the other leaves out.
    let bytes = if left_out == 0 {
        beginning.len().saturating_sub(head.len() + tail.len()) as u64
    } else {
        left_out + cut_here
    };
    let line_end = if head.is_empty() || head.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{head}{line_end}[... {bytes} bytes left out ...]\n{tail}")
}

/// Passes lines on as they come, without control characters, up to a limit.
pub(super) struct LiveLines<'a> {
    progress: &'a dyn Fn(&str),
    partial: Vec<u8>,
    shown_bytes: usize,
    ended: bool,
}

impl<'a> LiveLines<'a> {
    pub(super) fn new(progress: &'a dyn Fn(&str)) -> Self {
        Self {
            progress,
            partial: Vec::new(),
            shown_bytes: 0,
            ended: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.ended {
                return;
            }
            let room = PROCESS_LIVE_LINE_BYTES_MAX.saturating_sub(self.partial.len());
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            self.partial.extend_from_slice(&text[..text.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.show();
            }
        }
    }

    /// Reports a line of the host's own between those of the run.
    pub(super) fn say(&self, line: &str) {
        (self.progress)(line);
    }

    /// Reports a last line that has no line end.
    pub(super) fn finish(&mut self) {
        if !self.ended && !self.partial.is_empty() {
            self.show();
        }
    }

    fn show(&mut self) {
        let line = strip_controls(&String::from_utf8_lossy(&self.partial));
        self.partial.clear();
        self.shown_bytes += line.len() + 1;
        if self.shown_bytes > limits::PROCESS_LIVE_BYTES_MAX {
            self.ended = true;
            (self.progress)("[further output is not shown as it comes]");
        } else {
            (self.progress)(&line);
        }
    }
}

/// Removes terminal control sequences and other control characters from a line; tabs stay.
fn strip_controls(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            skip_escape(&mut characters);
        } else if character == '\t' || !character.is_control() {
            plain.push(character);
        }
    }
    plain
}

/// Skips the rest of a control sequence (`ESC [ … letter`), of an operating system command (`ESC ] … BEL`), or of any
/// other escape (one character).
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => while characters.next().is_some_and(|next| !('@'..='~').contains(&next)) {},
        Some(']') => {
            while characters
                .next()
                .is_some_and(|next| next != '\u{7}' && next != '\u{1b}')
            {}
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(pieces: &[&[u8]], bytes: usize) -> (String, bool) {
        let mut output = CapturedOutput::new(bytes);
        pieces.iter().for_each(|piece| output.push(piece));
        output.finish()
    }

    #[test]
    fn output_within_the_bound_is_whole() {
        assert_eq!(kept(&[b"one\n", b"two\n"], 64), ("one\ntwo\n".to_owned(), false));
        assert_eq!(kept(&[], 64), (String::new(), false));
    }

    #[test]
    fn the_middle_of_long_output_is_left_out_and_counted() {
        let lines = (0..100).map(|number| format!("line {number:02}\n")).collect::<String>();
        let (text, cut) = kept(&[lines.as_bytes()], 200);
        assert!(cut);
        insta::assert_snapshot!(text, @r"
        line 00
        line 01
        line 02
        line 03
        [... 736 bytes left out ...]
        line 96
        line 97
        line 98
        line 99
        ");
    }

    #[test]
    fn live_lines_lose_their_control_sequences_and_end_at_the_bound() {
        let shown = std::cell::RefCell::new(Vec::new());
        let progress = |line: &str| shown.borrow_mut().push(line.to_owned());
        let mut live = LiveLines::new(&progress);
        live.push(b"\x1b[31mred\x1b[0m\tand \x1b]0;title\x07plain\r\nha");
        live.push(b"lf");
        live.finish();
        assert_eq!(*shown.borrow(), ["red\tand plain", "half"]);
        for _ in 0..2 * limits::PROCESS_LIVE_BYTES_MAX / 100 {
            live.push(&[b"x".repeat(99).as_slice(), b"\n"].concat());
        }
        let total: usize = shown.borrow().iter().map(|line| line.len() + 1).sum();
        assert!(total <= limits::PROCESS_LIVE_BYTES_MAX + 100, "{total}");
        assert_eq!(
            shown.borrow().last().map(String::as_str),
            Some("[further output is not shown as it comes]")
        );
    }

    /// `PROCESS_LIVE_LINE_BYTES_MAX`.
    #[test]
    fn a_line_without_end_is_shown_up_to_a_bound_and_held_no_further() {
        let shown = std::cell::RefCell::new(Vec::new());
        let progress = |line: &str| shown.borrow_mut().push(line.len());
        let mut live = LiveLines::new(&progress);
        for _ in 0..1000 {
            live.push(&b"x".repeat(1000));
            assert!(live.partial.len() <= PROCESS_LIVE_LINE_BYTES_MAX);
        }
        live.push(b"\nnext\n");
        assert_eq!(*shown.borrow(), [PROCESS_LIVE_LINE_BYTES_MAX, 4]);
    }

    proptest! {
        #[test]
        fn any_output_stays_within_the_bound_and_keeps_both_ends(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..20),
            bound in 200usize..2000,
        ) {
            let mut output = CapturedOutput::new(bound);
            pieces.iter().for_each(|piece| output.push(piece));
            let whole = pieces.concat();
            let lossy = String::from_utf8_lossy(&whole).into_owned();
            let (text, cut) = output.finish();
            prop_assert!(text.len() <= bound);
            if !cut {
                prop_assert_eq!(text, lossy);
            } else {
                prop_assert!(lossy.len() > bound - 1);
            }
        }
    }

    #[test]
    fn a_live_line_is_cut() {
        let shown = std::sync::Mutex::new(Vec::new());
        let progress = |line: &str| shown.lock().expect("no panic").push(line.to_owned());
        let mut live = LiveLines::new(&progress);
        for _ in 0..10 {
            live.push(&vec![b'x'; PROCESS_LIVE_LINE_BYTES_MAX / 2]);
        }
        live.push(b"\nnext\n");
        let lines: Vec<usize> = shown.lock().expect("no panic").iter().map(String::len).collect();
        assert_eq!(lines, [PROCESS_LIVE_LINE_BYTES_MAX, 4]);
    }
}
