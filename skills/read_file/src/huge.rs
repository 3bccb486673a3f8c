//! Files that are too large for memory: the requested lines are found by reading through the file with one small
//! buffer.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use skill_sdk::text::human_size;
use skill_sdk::{Failure, Outcome, code};

use crate::page::{LINE_BYTES_MAX, PART_BYTES_MAX, PageWriter, clip_bytes};
use crate::{LinePart, ReadStart, decode};

/// Bytes of one read: enough that the cost of a host call does not matter.
const BUFFER_BYTES: usize = 256 * 1024;
/// Limit for the bytes that a call reads to find a line: a second or two for a cached file, far below the call's time
/// limit.
const SCAN_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Answers about a file of `size` bytes that begins with `sniffed`.
pub(crate) fn read_huge_file(
    path: &str,
    file: &mut File,
    size: u64,
    sniffed: &[u8],
    start: ReadStart,
    limit: u64,
) -> Result<Outcome, Failure> {
    if let Some(kind) = decode::binary_kind(sniffed) {
        return Ok(crate::binary_outcome(path, kind, size));
    }
    check_text(path, size, sniffed)?;
    // A position is valid only for a file of the same size.
    let (line, at) = match start.at {
        Some((at, known)) if known == size => (start.line, at),
        _ => (1, 0),
    };
    file.seek(SeekFrom::Start(at))
        .map_err(|error| Failure::io(path, &error))?;
    let mut scan = FileScan {
        at,
        line,
        pending: Vec::new(),
        pending_bytes: 0,
        page: PageWriter::new(start.line, limit),
        lossy: false,
    };
    let ended = scan.run(file).map_err(|error| Failure::io(path, &error))?;
    scan.answer(path, size, start, ended)
}

/// Answers about a part of one line, from a column on.
pub(crate) fn read_part(
    path: &str,
    file: &mut File,
    size: u64,
    sniffed: &[u8],
    line: u64,
    column: u64,
) -> Result<Outcome, Failure> {
    check_text(path, size, sniffed)?;
    let failed = |error| Failure::io(path, &error);
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file.take(SCAN_BYTES_MAX));
    for passed in 1..line {
        if reader.skip_until(b'\n').map_err(failed)? == 0 {
            return Err(crate::past_end(path, line, passed - 1));
        }
    }
    let mut left = column - 1;
    while left > 0 {
        let buffer = reader.fill_buf().map_err(failed)?;
        let passed = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if passed == 0 || memchr::memchr(b'\n', &buffer[..passed]).is_some() {
            return crate::answer_line_part(path, line, (column, column), &LinePart::default());
        }
        reader.consume(passed);
        left -= passed as u64;
    }
    let mut rest = Vec::new();
    // Read one byte more than is shown, to find out whether the line goes on.
    let mut reader = reader.take(PART_BYTES_MAX as u64 + 1);
    reader.read_until(b'\n', &mut rest).map_err(failed)?;
    let is_whole = rest.len() <= PART_BYTES_MAX || rest.ends_with(b"\n");
    if is_whole {
        rest.truncate(rest.strip_suffix(b"\n").unwrap_or(&rest).len());
        rest.truncate(rest.strip_suffix(b"\r").unwrap_or(&rest).len());
    } else {
        // A character that the cut may split belongs to the next part.
        let is_start = |byte: &u8| byte & 0xc0 != 0x80;
        let last = rest.iter().rev().take(4).position(is_start);
        rest.truncate(rest.len() - last.map_or(1, |back| back + 1));
    }
    let (shown, bytes) = clip_bytes(&rest, PART_BYTES_MAX);
    let is_cut = !is_whole || bytes < rest.len();
    let part = LinePart {
        shown: &shown,
        bytes: bytes as u64,
        missing: is_cut.then_some((rest.len() - bytes) as u64 * u64::from(is_whole)),
        total: None,
    };
    crate::answer_line_part(path, line, (column, column), &part)
}

/// Refuses files whose lines cannot be found without decoding all of it.
fn check_text(path: &str, size: u64, sniffed: &[u8]) -> Result<(), Failure> {
    if let Some(kind) = decode::binary_kind(sniffed) {
        let message = format!("`{path}` is a binary file ({kind}, {})", human_size(size));
        return Err(Failure::invalid(message));
    }
    if sniffed.starts_with(b"\xff\xfe") || sniffed.starts_with(b"\xfe\xff") {
        let message = format!("`{path}` is UTF-16 and too large ({}) to be decoded", human_size(size));
        return Err(Failure::new(code::LIMIT, message));
    }
    Ok(())
}

/// A walk through a file.
struct FileScan {
    /// Offset of the current line.
    at: u64,
    line: u64,
    /// Bytes of the line so far, as far as they can be shown.
    pending: Vec<u8>,
    /// Number of bytes of the line so far.
    pending_bytes: u64,
    page: PageWriter,
    lossy: bool,
}

/// Reason why a walk ended.
#[derive(Debug, PartialEq, Eq)]
enum WalkEnd {
    Full,
    AtEnd,
    TooFar,
}

impl FileScan {
    fn run(&mut self, file: &mut impl Read) -> std::io::Result<WalkEnd> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut scanned = 0;
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                if self.pending_bytes > 0 {
                    self.finish_line();
                }
                return Ok(WalkEnd::AtEnd);
            }
            if self.take(&buffer[..read]) {
                return Ok(WalkEnd::Full);
            }
            scanned += read as u64;
            if scanned > SCAN_BYTES_MAX {
                return Ok(WalkEnd::TooFar);
            }
        }
    }

    /// Processes one buffer. Returns true if the page is full.
    fn take(&mut self, mut rest: &[u8]) -> bool {
        while !rest.is_empty() {
            let (part, ends) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..end], true),
                None => (rest, false),
            };
            if self.line >= self.page.next_line() {
                // Keep a few bytes more than are shown, so that the cut does not split a character.
                let room = (LINE_BYTES_MAX + 8).saturating_sub(self.pending.len());
                self.pending.extend_from_slice(&part[..part.len().min(room)]);
            }
            self.pending_bytes += part.len() as u64;
            rest = &rest[part.len()..];
            if ends {
                rest = &rest[1..];
                self.pending_bytes += 1;
                self.finish_line();
                if self.page.is_full() {
                    return true;
                }
            }
        }
        false
    }

    fn finish_line(&mut self) {
        if self.line >= self.page.next_line() {
            let complete = self.pending.len() as u64 + 1 >= self.pending_bytes;
            self.lossy |= match std::str::from_utf8(&self.pending) {
                Ok(_) => false,
                // A character that the cut split is not an error in the file.
                Err(error) => complete || error.error_len().is_some(),
            };
            let (shown, bytes) = clip_bytes(&self.pending, LINE_BYTES_MAX);
            let is_cut = !complete || bytes < self.pending.len();
            let missing = self.pending_bytes.saturating_sub(1 + bytes as u64);
            let shown = shown.strip_suffix('\r').filter(|_| !is_cut).unwrap_or(&shown);
            self.page.push_shown(shown, bytes as u64, is_cut.then_some(missing));
        }
        self.at += self.pending_bytes;
        self.line += 1;
        self.pending.clear();
        self.pending_bytes = 0;
    }

    fn answer(self, path: &str, size: u64, start: ReadStart, ended: WalkEnd) -> Result<Outcome, Failure> {
        let last = self.page.next_line() - 1;
        if last < start.line {
            return Err(match ended {
                WalkEnd::AtEnd => crate::past_end(path, start.line, self.line - 1),
                _ => Failure::new(
                    code::LIMIT,
                    format!(
                        "line {} lies beyond the first {} of `{path}`",
                        start.line,
                        human_size(SCAN_BYTES_MAX)
                    ),
                )
                .with_hint("for the end of a log use read_logs"),
            });
        }
        let more = ended != WalkEnd::AtEnd && self.at < size;
        let mut notes = vec![format!("lines {}-{last} of a file of {}", start.line, human_size(size))];
        if self.lossy {
            notes.push("not valid UTF-8: invalid bytes are shown as \u{fffd}".to_owned());
        }
        let cursor = more.then(|| format!("{}@{}/{size}", self.line, self.at));
        let cursor = cursor.or_else(|| crate::rest_of_line(&self.page));
        Ok(Outcome {
            truncated: cursor.is_some() || self.page.cut().is_some(),
            ..Outcome::page(self.page.text(notes), cursor)
        })
    }
}
