//! Entries of a log: a line with the lines that belong to it, such as a stack trace or the rest of a message.
//!
//! A log has no grammar, so this is a heuristic, line by line. A line with a time or a level starts an entry. A line
//! that is indented or part of a trace belongs to the previous entry, and in a log whose entries have times, so does
//! every other line.

use std::borrow::Cow;
use std::ops::Range;

use crate::parse::{self, EntryHeader, Level};
use crate::time::LogTime;

/// Lines that are examined to find out whether a log's entries have times.
const SAMPLE_LINES: usize = 500;
/// One line with a time in this many makes a log one with times: the others are traces and messages of several lines.
const SAMPLE_SHARE: usize = 50;
/// Limit for the part of a line that is parsed, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// One entry of a log.
#[derive(Debug)]
pub(crate) struct LogEntry {
    /// Range in the window, with line feeds.
    pub(crate) range: Range<usize>,
    /// Number of its first line in the window, counted from 0.
    pub(crate) line: u64,
    /// Its own time, or that of the previous entry.
    pub(crate) time: Option<LogTime>,
    /// True if the time is its own.
    pub(crate) has_time: bool,
    pub(crate) level: Option<Level>,
    /// First line without time and level; for a trace also the line with the exception.
    pub(crate) message: String,
}

/// An iterator over the entries of a window.
pub(crate) struct EntryReader<'a> {
    text: &'a [u8],
    now_ms: i64,
    /// True if lines without a header belong to the previous entry.
    joins: bool,
    at: usize,
    line: u64,
    time: Option<LogTime>,
    /// The line at `at`, if it was put back.
    peeked: Option<LogLine<'a>>,
}

/// A line with its header.
#[derive(Debug)]
struct LogLine<'a> {
    text: Cow<'a, str>,
    end: usize,
    header: Option<EntryHeader>,
}

impl<'a> EntryReader<'a> {
    /// Creates an iterator. `is_start` is false if the window begins in the middle of a file: lines that belong to an
    /// entry before it are skipped.
    pub(crate) fn new(text: &'a [u8], is_start: bool, now_ms: i64) -> Self {
        let mut entries = Self {
            text,
            now_ms,
            joins: false,
            at: 0,
            line: 0,
            time: None,
            peeked: None,
        };
        entries.joins = entries.has_times();
        if !is_start {
            while let Some(line) = entries.line_here() {
                if line.header.is_some() || !(entries.joins || is_continuation(&line.text)) {
                    entries.peeked = Some(line);
                    break;
                }
                entries.advance(line.end);
            }
        }
        entries
    }

    fn has_times(&self) -> bool {
        let lines = self.text.split(|&byte| byte == b'\n').take(SAMPLE_LINES);
        let (mut all, mut timed) = (0, 0);
        for line in lines {
            all += 1;
            let header = parse::parse_header(&line_text(line), self.now_ms);
            timed += usize::from(header.is_some_and(|header| header.time.is_some()));
        }
        timed > 0 && timed * SAMPLE_SHARE >= all
    }

    /// The line at the current position. The caller consumes it or puts it back.
    fn line_here(&mut self) -> Option<LogLine<'a>> {
        if let Some(line) = self.peeked.take() {
            return Some(line);
        }
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let text = line_text(&rest[..length]);
        Some(LogLine {
            header: parse::parse_header(&text, self.now_ms),
            text,
            end: (self.at + length + 1).min(self.text.len()),
        })
    }

    fn advance(&mut self, end: usize) {
        self.at = end;
        self.line += 1;
    }
}

impl Iterator for EntryReader<'_> {
    type Item = LogEntry;

    fn next(&mut self) -> Option<LogEntry> {
        let first = self.line_here()?;
        let (start, line) = (self.at, self.line);
        self.advance(first.end);
        let has_header = first.header.is_some();
        let own = first.header.as_ref().and_then(|header| header.time);
        self.time = own.or(self.time);
        let mut level = first.header.as_ref().and_then(|header| header.level);
        if !has_header {
            level = crash_level(&first.text);
        }
        let mut trace = TraceState::from_line(&first.text);
        let mut exception = None;
        while let Some(next) = self.line_here() {
            if !self.continues(level, has_header, trace, &next) {
                self.peeked = Some(next);
                break;
            }
            if trace == TraceState::Python && !is_indented(&next.text) && !next.text.trim().is_empty() {
                exception = Some(next.text.trim().to_owned());
            } else if level.is_none_or(|level| level >= Level::Warning) && is_exception(next.text.trim_start()) {
                exception = exception.or_else(|| Some(next.text.trim().to_owned()));
            }
            trace = trace.step(&next.text);
            level = level.or_else(|| crash_level(&next.text));
            self.advance(next.end);
        }
        let mut message = first
            .header
            .map_or_else(|| first.text.trim().to_owned(), |header| header.message);
        if let Some(exception) = exception {
            message = if message.starts_with("Traceback (") {
                exception
            } else {
                format!("{message}: {exception}")
            };
        }
        Some(LogEntry {
            range: start..self.at,
            line,
            time: self.time,
            has_time: own.is_some(),
            level,
            message,
        })
    }
}

impl EntryReader<'_> {
    /// True if `next` belongs to an entry of this level.
    fn continues(&self, level: Option<Level>, has_header: bool, trace: TraceState, next: &LogLine<'_>) -> bool {
        if let Some(header) = &next.header {
            // The last line of a Python trace may look like a level: `Error: …`.
            return trace == TraceState::Python && header.time.is_none() && !next.text.starts_with('{');
        }
        if trace == TraceState::Python || is_continuation(&next.text) {
            return true;
        }
        if crash_level(&next.text).is_some() {
            // A trace belongs to an error before it; after a less severe entry it is an entry by itself.
            return has_header && level.is_none_or(|level| level >= Level::Warning);
        }
        self.joins
    }
}

/// Whether the lines of a Python trace are being read. They end with the first line that is not indented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraceState {
    No,
    Python,
}

impl TraceState {
    fn from_line(line: &str) -> Self {
        if line.contains("Traceback (most recent call last):") {
            Self::Python
        } else {
            Self::No
        }
    }

    fn step(self, line: &str) -> Self {
        match self {
            Self::Python if is_indented(line) || line.trim().is_empty() => self,
            _ => Self::from_line(line),
        }
    }
}

/// Decodes the beginning of a line.
fn line_text(line: &[u8]) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)])
}

fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// True if a line cannot be the first of an entry.
fn is_continuation(line: &str) -> bool {
    const STARTS: [&str; 9] = [
        "Caused by:",
        "Suppressed:",
        "During handling of the above exception",
        "The above exception was the direct cause",
        "stack backtrace:",
        "note: run with `RUST_BACKTRACE",
        "}",
        ")",
        "]",
    ];
    line.trim().is_empty() || is_indented(line) || STARTS.iter().any(|start| line.starts_with(start))
}

/// The level of a line without a header that reports a crash.
fn crash_level(line: &str) -> Option<Level> {
    const CRASHES: [&str; 5] = [
        "panic:",
        "fatal error:",
        "Segmentation fault",
        "Unhandled exception",
        "thread '",
    ];
    if CRASHES.iter().any(|crash| line.starts_with(crash))
        && (!line.starts_with("thread '") || line.contains("panicked"))
    {
        return Some(Level::Critical);
    }
    let is_error = line.starts_with("Traceback (most recent call last):")
        || line.starts_with("Exception in thread")
        || line.starts_with("Uncaught ")
        || is_exception(line);
    is_error.then_some(Level::Error)
}

/// True for `java.lang.IllegalStateException: text`, `ValueError: text`, `TypeError`.
fn is_exception(line: &str) -> bool {
    let line = line.strip_prefix("Caused by: ").unwrap_or(line);
    let name = line.split([':', ' ']).next().unwrap_or_default();
    let is_name = name.len() < 120 && name.chars().all(|c| c.is_alphanumeric() || "._$".contains(c));
    let (rest, ends) = (
        &line[name.len()..],
        ["Error", "Exception"].iter().any(|end| name.ends_with(end)),
    );
    is_name && ends && (rest.is_empty() || rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, is_start: bool) -> String {
        let mut shown = String::new();
        for entry in EntryReader::new(text.as_bytes(), is_start, 1_718_409_600_000) {
            let level = entry.level.map_or("-", Level::name);
            let lines = text[entry.range].lines().count();
            let time = entry.time.map_or("-".to_owned(), |time| time.to_string());
            shown += &format!("{}+{lines} {level} {time} {}\n", entry.line, entry.message);
        }
        shown
    }

    #[test]
    fn traces_belong_to_their_entry() {
        let text = "\
2024-05-01 12:00:00 INFO app: start
2024-05-01 12:00:01 ERROR app: failed
Traceback (most recent call last):
  File \"a.py\", line 1, in <module>
    main()
ValueError: bad value

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File \"a.py\", line 2, in <module>
KeyError: 'x'
2024-05-01 12:00:02 INFO app: last words
Traceback (most recent call last):
  File \"b.py\", line 9, in <module>
Error: end
2024-05-01 12:00:03 ERROR c.e.App - down
java.lang.IllegalStateException: closed
\tat c.e.App.run(App.java:1)
Caused by: java.io.IOException: reset
\t... 12 more
2024-05-01 12:00:04 INFO a message
of two lines
";
        insta::assert_snapshot!(shown(text, true), @r"
        0+1 info 2024-05-01 12:00:00 app: start
        1+11 error 2024-05-01 12:00:01 app: failed: KeyError: 'x'
        12+1 info 2024-05-01 12:00:02 app: last words
        13+3 error 2024-05-01 12:00:02 Error: end
        16+5 error 2024-05-01 12:00:03 c.e.App - down: java.lang.IllegalStateException: closed
        21+2 info 2024-05-01 12:00:04 a message
        ");
    }

    #[test]
    fn a_log_without_times_is_its_lines() {
        let text = "starting\nlistening on 80\nTypeError: x is undefined\n    at run (a.js:1:2)\nError: other\n    at b\ndone\n";
        insta::assert_snapshot!(shown(text, true), @r"
        0+1 - - starting
        1+1 - - listening on 80
        2+2 error - TypeError: x is undefined
        4+2 error - other
        6+1 - - done
        ");
    }

    #[test]
    fn what_belongs_to_an_entry_before_the_window_is_passed_over() {
        let text = "rest of a message\n    at x\n2024-05-01 12:00:00 INFO next\n";
        insta::assert_snapshot!(shown(text, false), @"2+1 info 2024-05-01 12:00:00 next");
        insta::assert_snapshot!(shown("    at x\nplain\n", false), @"1+1 - - plain");
    }
}
