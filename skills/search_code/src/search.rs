//! Finds matching lines.
//!
//! This is the hot path. The host passes many files at a time, without those that cannot match. The pattern runs over
//! whole files, and lines are found only around a match. `answer` decides on the text.

use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};

use skill_sdk::pattern::Pattern;
use skill_sdk::{Content, Failure, Host, Narrowed, Narrowing, Selection};

use crate::answer::{FileFound, MatchLine, SearchResult};
use crate::{AnswerPart, SearchCursor};

/// Limit for a file in bytes. Larger files are generated or data, and the engine reads none of them whole.
pub(crate) const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Limit for counting matching lines.
pub(crate) const MATCHES_MAX: u64 = 100_000;
/// Limit for the kept lines in bytes, so that an answer fits a model's window. Checked before each match.
pub(crate) const KEPT_BYTES_MAX: usize = 64 * 1024;
/// Limit for a line in bytes. Of a longer line, the part around the match is shown.
const LINE_BYTES_MAX: usize = 300;
/// Limit for the names of skipped files in an answer.
const NAMED_MAX: usize = 3;

pub(crate) struct LineSearch<'a> {
    pub(crate) pattern: &'a Pattern,
    /// Lines of context around each match.
    pub(crate) context: usize,
    /// Limit for the matching lines to keep.
    pub(crate) limit: usize,
    /// Position up to which lines were shown before.
    pub(crate) after: Option<SearchCursor<'a>>,
}

impl LineSearch<'_> {
    /// Searches the selected files in their order.
    pub(crate) fn run(&self, host: &dyn Host, selection: &Selection) -> Result<SearchResult, Failure> {
        let mut found = SearchResult::default();
        let narrowing = Narrowing {
            patterns: vec![self.pattern.source().clone()],
            apart: Vec::new(),
        };
        host.read_matching(selection, &narrowing, &mut |part| {
            match part {
                Narrowed::File(path, content) => self.take(host, path, content, &mut found),
                Narrowed::LeftOut(counts) => {
                    found.searched += u64::from(counts.text);
                    found.not_searched.binary += u64::from(counts.binary);
                }
            }
            if found.stopped {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(found)
    }

    fn take(&self, host: &dyn Host, path: &str, content: Content<'_>, found: &mut SearchResult) {
        match content {
            Content::Whole(text) => self.file(host, path, text, found),
            Content::Binary => found.not_searched.binary += 1,
            Content::Unreadable => found.not_searched.unreadable += 1,
            Content::Large => {
                found.not_searched.large += 1;
                if found.large_named.len() < NAMED_MAX {
                    found.large_named.push(path.to_owned());
                }
            }
        }
    }

    /// Searches the text of one file.
    fn file(&self, host: &dyn Host, path: &str, text: &[u8], found: &mut SearchResult) {
        found.searched += 1;
        // A byte order mark is not part of the first line.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let Some(first) = self.pattern.next_line(text, 0) else {
            return;
        };
        let is_generated = skill_details::is_generated(text) || host.is_generated(path) == Ok(true);
        let Some(shown_before) = self.shown_before(path, is_generated) else {
            return;
        };
        let before = found.matches();
        let part = if is_generated {
            &mut found.generated
        } else {
            &mut found.written
        };
        let mut lines = LineCounter::new(text);
        let mut kept: Vec<(u64, Range<usize>)> = Vec::new();
        let mut first_dropped = None;
        let mut matches = 0;
        let mut next = Some(first);
        while let Some(line) = next {
            next = self.pattern.next_line(text, line.end + 1);
            let keeps = part.kept + kept.len() < self.limit && part.kept_bytes < KEPT_BYTES_MAX;
            // Count lines only as far as the answer needs their numbers.
            if keeps || shown_before > 0 || (first_dropped.is_none() && !kept.is_empty()) {
                let number = lines.number(line.start);
                if number <= shown_before {
                    continue;
                }
                if keeps {
                    part.kept_bytes += self.cost(path, &line);
                    kept.push((number, line));
                } else {
                    first_dropped.get_or_insert(number);
                }
            }
            matches += 1;
            if before + matches >= MATCHES_MAX {
                found.stopped = true;
                break;
            }
        }
        if matches > 0 {
            part.lines += matches;
            part.files += 1;
        }
        if !kept.is_empty() {
            part.kept += kept.len();
            part.shown.push(FileFound {
                path: path.to_owned(),
                lines: self.with_context(path, text, &kept, first_dropped),
            });
        }
    }

    /// The last line of a file that an earlier page has shown; `None` if it has shown all.
    fn shown_before(&self, path: &str, is_generated: bool) -> Option<u64> {
        let Some(after) = &self.after else { return Some(0) };
        match (is_generated, after.phase == AnswerPart::Generated) {
            (true, false) => return Some(0),
            (false, true) => return None,
            _ => {}
        }
        match path.cmp(after.path) {
            Ordering::Less => None,
            Ordering::Equal => Some(after.line),
            Ordering::Greater => Some(0),
        }
    }

    /// Approximate size of a matching line with its context in an answer, in bytes.
    fn cost(&self, path: &str, line: &Range<usize>) -> usize {
        (line.len().min(LINE_BYTES_MAX) + path.len() + 8) * (1 + 2 * self.context)
    }

    /// The kept lines with their context, each line once and before `end`.
    fn with_context(&self, path: &str, text: &[u8], kept: &[(u64, Range<usize>)], end: Option<u64>) -> Vec<MatchLine> {
        let mut shown: Vec<MatchLine> = Vec::new();
        for (at, (number, line)) in kept.iter().enumerate() {
            let next = kept.get(at + 1).map_or(end.unwrap_or(u64::MAX), |(next, _)| *next);
            let last = shown.last().map_or(0, |line| line.number);
            let before = (self.context as u64).min(number - last - 1) as usize;
            shown.extend(
                lines_before(text, line.start, before)
                    .into_iter()
                    .enumerate()
                    .map(|(back, range)| MatchLine {
                        number: number - (before - back) as u64,
                        cost: 0,
                        text: cut_line(&text[range], None),
                    }),
            );
            shown.push(MatchLine {
                number: *number,
                cost: self.cost(path, line),
                text: cut_line(&text[line.clone()], Some(self.pattern)),
            });
            let mut before = line.end;
            for step in 1..=self.context as u64 {
                if number + step >= next || before + 1 >= text.len() {
                    break;
                }
                let start = before + 1;
                before = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |found| start + found);
                shown.push(MatchLine {
                    number: number + step,
                    cost: 0,
                    text: cut_line(&text[start..before], None),
                });
            }
        }
        shown
    }
}

/// Counts lines up to increasing offsets.
struct LineCounter<'a> {
    text: &'a [u8],
    counted: usize,
    number: u64,
}

impl<'a> LineCounter<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            counted: 0,
            number: 1,
        }
    }

    /// Number of the line that starts at `at`, counted from 1.
    fn number(&mut self, at: usize) -> u64 {
        self.number += memchr::memchr_iter(b'\n', &self.text[self.counted..at]).count() as u64;
        self.counted = at;
        self.number
    }
}

/// The last `count` lines before the line that starts at `start`, in order.
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

/// A line for the answer: without its carriage return, with invalid bytes replaced, and cut around the match if it is
/// long.
fn cut_line(line: &[u8], pattern: Option<&Pattern>) -> String {
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
    let start = character_border(line, start);
    let end = character_border(line, start + LINE_BYTES_MAX);
    let mark = |cut: bool| if cut { "…" } else { "" };
    let text = String::from_utf8_lossy(&line[start..end]);
    format!("{}{text}{}", mark(start > 0), mark(end < line.len()))
}

/// The nearest border of a UTF-8 character at or before `at`.
fn character_border(line: &[u8], at: usize) -> usize {
    let at = at.min(line.len());
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&place| line.get(place).is_none_or(|byte| byte & 0xC0 != 0x80))
        .unwrap_or(at)
}
