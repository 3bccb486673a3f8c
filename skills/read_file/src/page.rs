//! Lines as they are shown, within the bounds of an answer.

use std::fmt::Write;

use skill_sdk::text::clip;

/// A longer line is cut: it is data or generated.
pub(crate) const LINE_BYTES_MAX: usize = 2000;
/// Bytes of a long line that an answer about this line alone shows.
pub(crate) const PART_BYTES_MAX: usize = 32 * 1024;
/// Text of an answer, so that it fits a model's window. It is checked before each line.
const PAGE_BYTES_MAX: usize = 64 * 1024;

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    next: u64,
    left: u64,
    has_controls: bool,
    line_bytes_max: usize,
    /// Bytes of the line before what is pushed of it.
    before: u64,
    /// The first line that was cut, and the column at which it goes on.
    cut: Option<(u64, u64)>,
}

impl Page {
    /// A page that begins at `line` and takes `limit` lines.
    pub(crate) fn new(line: u64, limit: u64) -> Self {
        Self {
            text: String::new(),
            next: line,
            left: limit,
            has_controls: false,
            line_bytes_max: LINE_BYTES_MAX,
            before: 0,
            cut: None,
        }
    }

    /// A page with a part of one line, from a column on.
    pub(crate) fn of_part(line: u64, column: u64) -> Self {
        Self {
            line_bytes_max: PART_BYTES_MAX,
            before: column - 1,
            ..Self::new(line, 1)
        }
    }

    /// The first line that was cut, and the column at which it goes on.
    pub(crate) fn cut(&self) -> Option<(u64, u64)> {
        self.cut
    }

    /// True where no further line has room.
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0 || self.text.len() >= PAGE_BYTES_MAX
    }

    /// The number of the line that the page wants next.
    pub(crate) fn next_line(&self) -> u64 {
        self.next
    }

    /// Adds a line. `bytes` is its length in the file, of which `line` may be the beginning.
    pub(crate) fn push(&mut self, line: &str, bytes: u64) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (shown, cut) = clip(line, self.line_bytes_max);
        let _ = write!(self.text, "\n{:>6}\t", self.next);
        for character in shown.chars() {
            let visible = visible(character);
            self.has_controls |= visible != character;
            self.text.push(visible);
        }
        if cut > 0 {
            let missing = bytes.saturating_sub(shown.len() as u64);
            self.cut
                .get_or_insert((self.next, self.before + shown.len() as u64 + 1));
            let _ = write!(self.text, "… [line cut: {missing} more bytes]");
        }
        self.next += 1;
        self.left -= 1;
    }

    /// The answer, with the header line where there is something to say.
    pub(crate) fn text(self, mut notes: Vec<String>) -> String {
        if let Some((line, column)) = self.cut {
            notes.push(format!(
                "line {line} is cut: read on with offset {line} and column {column}"
            ));
        }
        if self.has_controls {
            notes.push("control characters are shown as symbols such as ␛".to_owned());
        }
        if notes.is_empty() {
            self.text[1..].to_owned()
        } else {
            notes.join("; ") + &self.text
        }
    }
}

/// A control character as the symbol for it, because answers carry none but tabs and line breaks.
fn visible(character: char) -> char {
    match character {
        '\t' => '\t',
        '\0'..='\x1f' => char::from_u32(0x2400 + character as u32).unwrap_or(character),
        '\x7f' => '␡',
        other if other.is_control() => char::REPLACEMENT_CHARACTER,
        other => other,
    }
}
