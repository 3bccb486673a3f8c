//! Parses lines: one at a time, so that a view of a journal holds no more than it shows, or all at once.
//!
//! A torn last line is dropped. Damaged lines are counted, as are lines whose sequence number does not rise.

use std::io::{self, BufRead};

use super::JournalLine;

/// Result of parsing a journal.
#[derive(Debug, Default, PartialEq)]
pub struct ParsedJournal {
    /// The lines, in order.
    pub lines: Vec<JournalLine>,
    /// Bytes up to the end of the last whole line. The rest is a torn line.
    pub whole_bytes: u64,
    /// Whole lines that cannot be parsed. They are skipped: one bad sector must not cost the session.
    pub damaged: u64,
}

/// Parses a journal in memory. Never fails.
pub fn parse(bytes: &[u8]) -> ParsedJournal {
    let mut lines = JournalLines::new(bytes);
    let mut parsed = ParsedJournal {
        lines: lines.by_ref().collect(),
        ..ParsedJournal::default()
    };
    (parsed.whole_bytes, parsed.damaged) = (lines.extent.whole_bytes, lines.extent.damaged);
    parsed
}

/// Last sequence number and length of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalExtent {
    /// Number of the last line; 0 if there is none.
    pub last: u64,
    /// Bytes up to the end of the last whole line.
    pub whole_bytes: u64,
    /// Whole lines that cannot be parsed.
    pub damaged: u64,
}

/// An iterator over the lines of a journal. It stops early at a read error, which [`JournalLines::end`] returns.
pub struct JournalLines<R> {
    reader: R,
    buffer: Vec<u8>,
    extent: JournalExtent,
    error: Option<io::Error>,
}

impl<R: BufRead> JournalLines<R> {
    /// Creates an iterator over the lines of `reader`.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            extent: JournalExtent::default(),
            error: None,
        }
    }

    /// Returns the extent of what was read, to be called after the last line.
    ///
    /// # Errors
    ///
    /// The error at which the iterator stopped.
    pub fn end(self) -> io::Result<JournalExtent> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.extent),
        }
    }

    /// Fills the buffer with the next line. Returns false if there is no whole line.
    fn fill(&mut self) -> bool {
        self.buffer.clear();
        if self.error.is_some() {
            return false;
        }
        if let Err(error) = self.reader.read_until(b'\n', &mut self.buffer) {
            self.error = Some(error);
            return false;
        }
        self.buffer.ends_with(b"\n")
    }
}

impl<R: BufRead> Iterator for JournalLines<R> {
    type Item = JournalLine;

    fn next(&mut self) -> Option<JournalLine> {
        while self.fill() {
            self.extent.whole_bytes += self.buffer.len() as u64;
            match serde_json::from_slice::<JournalLine>(&self.buffer) {
                // Numbers of a daemon always rise. A number that does not is a damaged line, and readers would see it
                // out of order.
                Ok(line) if line.seq > self.extent.last => {
                    self.extent.last = line.seq;
                    return Some(line);
                }
                _ => self.extent.damaged += 1,
            }
        }
        None
    }
}
