//! Reads files and finds the lines that match.
//!
//! This is the hot path: one buffer serves every file, the pattern runs over whole buffers, and only a match makes
//! anybody look for lines. How the answer looks is not decided here.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use skill_sdk::Host;
use skill_sdk::pattern::Pattern;

use crate::answer::{FileFound, Found, Line};

/// Larger files are generated or data; the engine reads none of them whole.
pub(crate) const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// A NUL in the first bytes marks a file that is not text.
const SNIFF_BYTES: usize = 8 * 1024;
/// Once so many lines have matched, the pattern is not one to count.
const MATCHES_MAX: u64 = 100_000;
/// Text of the lines that are kept, so that an answer fits a model's window. It is checked before each match.
pub(crate) const KEPT_BYTES_MAX: usize = 64 * 1024;
/// A longer line is shown as the surroundings of its match.
const LINE_BYTES_MAX: usize = 300;
/// Names of files that are told where they were left out.
const NAMED_MAX: usize = 3;

/// One search.
pub(crate) struct Search<'a> {
    pub(crate) pattern: &'a Pattern,
    /// Lines around each match.
    pub(crate) context: usize,
    /// Matching lines to keep.
    pub(crate) limit: usize,
    /// Lines up to this one of this file were shown before.
    pub(crate) after: Option<(&'a str, u64)>,
}

/// Why a file was not searched.
enum Skipped {
    Binary,
    Unreadable,
}

impl Search<'_> {
    /// Searches `files` in their order; sizes are those of the list.
    pub(crate) fn run(&self, host: &dyn Host, files: &[(String, u64)]) -> Found {
        let mut found = Found::default();
        let mut buffer = Vec::new();
        for (path, size) in files {
            if found.stopped {
                break;
            }
            if *size > FILE_BYTES_MAX {
                found.large += 1;
                if found.large_named.len() < NAMED_MAX {
                    found.large_named.push(path.clone());
                }
                continue;
            }
            match read(&host.repo().join(path), *size as usize, &mut buffer) {
                Ok(text) => self.file(path, text, &mut found),
                Err(Skipped::Binary) => found.binary += 1,
                Err(Skipped::Unreadable) => found.unreadable += 1,
            }
        }
        found
    }

    /// Searches one file's text.
    fn file(&self, path: &str, text: &[u8], found: &mut Found) {
        found.searched += 1;
        let shown_before = self.after.filter(|(file, _)| *file == path).map_or(0, |(_, line)| line);
        let mut lines = Lines::new(text);
        let mut kept: Vec<(u64, Range<usize>)> = Vec::new();
        let mut first_dropped = None;
        let mut matches = 0;
        let mut from = 0;
        while let Some(line) = self.pattern.next_line(text, from) {
            from = line.end + 1;
            let keeps = found.kept + kept.len() < self.limit && found.kept_bytes < KEPT_BYTES_MAX;
            // Lines are counted only as far as somebody wants their numbers.
            if keeps || shown_before > 0 || (first_dropped.is_none() && !kept.is_empty()) {
                let number = lines.number(line.start);
                if number <= shown_before {
                    continue;
                }
                if keeps {
                    found.kept_bytes += (line.len().min(LINE_BYTES_MAX) + path.len() + 8) * (1 + 2 * self.context);
                    kept.push((number, line));
                } else {
                    first_dropped.get_or_insert(number);
                }
            }
            matches += 1;
            if found.matches + matches >= MATCHES_MAX {
                found.stopped = true;
                break;
            }
        }
        if matches > 0 {
            found.matches += matches;
            found.files += 1;
        }
        if !kept.is_empty() {
            found.kept += kept.len();
            found.shown.push(FileFound {
                path: path.to_owned(),
                lines: self.with_context(text, &kept, first_dropped),
            });
        }
    }

    /// The kept lines as they are shown, with those around them, each once and before `end`.
    fn with_context(&self, text: &[u8], kept: &[(u64, Range<usize>)], end: Option<u64>) -> Vec<Line> {
        let mut shown: Vec<Line> = Vec::new();
        for (at, (number, line)) in kept.iter().enumerate() {
            let next = kept.get(at + 1).map_or(end.unwrap_or(u64::MAX), |(next, _)| *next);
            let last = shown.last().map_or(0, |line| line.number);
            let before = (self.context as u64).min(number - last - 1) as usize;
            shown.extend(
                lines_before(text, line.start, before)
                    .into_iter()
                    .enumerate()
                    .map(|(back, range)| Line {
                        number: number - (before - back) as u64,
                        matches: false,
                        text: cut(&text[range], None),
                    }),
            );
            shown.push(Line {
                number: *number,
                matches: true,
                text: cut(&text[line.clone()], Some(self.pattern)),
            });
            let mut before = line.end;
            for step in 1..=self.context as u64 {
                if number + step >= next || before + 1 >= text.len() {
                    break;
                }
                let start = before + 1;
                before = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |found| start + found);
                shown.push(Line {
                    number: number + step,
                    matches: false,
                    text: cut(&text[start..before], None),
                });
            }
        }
        shown
    }
}

/// Reads a whole file into the buffer, which only grows. A file of exactly the listed size costs one read.
fn read<'a>(place: &Path, size: usize, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Skipped> {
    let mut file = File::open(place).map_err(|_| Skipped::Unreadable)?;
    // One more than expected, so that the end of the file is seen in the same read.
    let mut length = 0;
    loop {
        let wanted = size.max(length) + 1;
        if buffer.len() < wanted {
            // Doubling, so that a long run of growing files does not clear the buffer anew each time.
            buffer.resize(wanted.next_power_of_two().max(64 * 1024), 0);
        }
        let read = file
            .read(&mut buffer[length..wanted])
            .map_err(|_| Skipped::Unreadable)?;
        length += read;
        if read == 0 || length == size || length as u64 > FILE_BYTES_MAX {
            break;
        }
    }
    let text = &buffer[..length];
    match memchr::memchr(0, &text[..length.min(SNIFF_BYTES)]) {
        Some(_) => Err(Skipped::Binary),
        None => Ok(text),
    }
}

/// Counts lines up to places that only move forward.
struct Lines<'a> {
    text: &'a [u8],
    counted: usize,
    number: u64,
}

impl<'a> Lines<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            counted: 0,
            number: 1,
        }
    }

    /// The number, from 1, of the line that starts at `at`.
    fn number(&mut self, at: usize) -> u64 {
        self.number += memchr::memchr_iter(b'\n', &self.text[self.counted..at]).count() as u64;
        self.counted = at;
        self.number
    }
}

/// The last `count` lines before the one that starts at `start`, in order.
fn lines_before(text: &[u8], start: usize, count: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::with_capacity(count);
    let mut start = start;
    while lines.len() < count && start > 0 {
        let end = start - 1;
        start = memchr::memrchr(b'\n', &text[..end]).map_or(0, |at| at + 1);
        lines.push(start..end);
    }
    lines.reverse();
    lines
}

/// A line as it is shown: without its carriage return, lossy, and where it is long the part around the match.
fn cut(line: &[u8], pattern: Option<&Pattern>) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= LINE_BYTES_MAX {
        return String::from_utf8_lossy(line).into_owned();
    }
    let hit = pattern.and_then(|pattern| pattern.find(line)).unwrap_or(0..0);
    let width = hit.len().min(LINE_BYTES_MAX);
    let start = hit
        .start
        .saturating_sub((LINE_BYTES_MAX - width) / 2)
        .min(line.len() - LINE_BYTES_MAX);
    let start = border(line, start);
    let end = border(line, start + LINE_BYTES_MAX);
    let mark = |cut: bool| if cut { "…" } else { "" };
    let text = String::from_utf8_lossy(&line[start..end]);
    format!("{}{text}{}", mark(start > 0), mark(end < line.len()))
}

/// The nearest place at or before `at` where a UTF-8 character starts.
fn border(line: &[u8], at: usize) -> usize {
    let at = at.min(line.len());
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&place| line.get(place).is_none_or(|byte| byte & 0xC0 != 0x80))
        .unwrap_or(at)
}
