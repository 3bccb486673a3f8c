//! Bytes that become lines: one at a time, so that a view of a journal holds no more than it shows, or all at once.
//!
//! A torn last line is dropped, damaged ones are counted, and so is every line whose sequence number does not rise.

use std::io::{self, BufRead};

use super::JournalLine;

/// Result of parsing a journal.
#[derive(Debug, Default, PartialEq)]
pub struct Parsed {
    /// The lines, in order.
    pub lines: Vec<JournalLine>,
    /// Length of the part that ends with a whole line; what follows is torn.
    pub whole_bytes: u64,
    /// Whole lines that are none of ours. They are skipped: one bad sector must not cost the session.
    pub damaged: u64,
}

/// Reads a journal that is in memory. Never fails.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut lines = Lines::new(bytes);
    let mut parsed = Parsed {
        lines: lines.by_ref().collect(),
        ..Parsed::default()
    };
    (parsed.whole_bytes, parsed.damaged) = (lines.extent.whole_bytes, lines.extent.damaged);
    parsed
}

/// Last number and length of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Number of the last line; 0 where there is none.
    pub last: u64,
    /// As in [`Parsed`].
    pub whole_bytes: u64,
    /// As in [`Parsed`].
    pub damaged: u64,
}

/// The lines of a journal. It ends early where it cannot be read on; [`Lines::end`] tells that.
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    extent: Extent,
    error: Option<io::Error>,
}

impl<R: BufRead> Lines<R> {
    /// The lines that `reader` gives.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            extent: Extent::default(),
            error: None,
        }
    }

    /// Returns the extent that was read, all of it after the last line; or the read error.
    pub fn end(self) -> io::Result<Extent> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.extent),
        }
    }

    /// Whether there is one more whole line in the buffer.
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

impl<R: BufRead> Iterator for Lines<R> {
    type Item = JournalLine;

    fn next(&mut self) -> Option<JournalLine> {
        while self.fill() {
            self.extent.whole_bytes += self.buffer.len() as u64;
            match serde_json::from_slice::<JournalLine>(&self.buffer) {
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
