//! Writes lines within the limits of an answer.

use std::fmt::Write;

use skill_sdk::text::clip;

/// Limit for a line in bytes. Longer lines are data or generated, and are cut.
pub(crate) const LINE_BYTES_MAX: usize = 2000;
/// Limit for a part of a long line, in bytes, if the answer shows only this line.
pub(crate) const PART_BYTES_MAX: usize = 32 * 1024;
/// Limit for the text of an answer in bytes, so that it fits a model's window. Checked before each line.
const PAGE_BYTES_MAX: usize = 64 * 1024;

/// A page in preparation.
#[derive(Debug)]
pub(crate) struct PageWriter {
    text: String,
    next: u64,
    left: u64,
    has_controls: bool,
    /// Number of bytes of the line before the part that is added.
    before: u64,
    /// The first line that was cut, and the column of the rest.
    cut: Option<(u64, u64)>,
}

impl PageWriter {
    /// Creates a page that begins at `line` and takes `limit` lines.
    pub(crate) fn new(line: u64, limit: u64) -> Self {
        Self {
            text: String::new(),
            next: line,
            left: limit,
            has_controls: false,
            before: 0,
            cut: None,
        }
    }

    /// Creates a page with a part of one line.
    pub(crate) fn of_part(line: u64, column: u64) -> Self {
        Self {
            before: column - 1,
            ..Self::new(line, 1)
        }
    }

    /// The first line that was cut, and the column of the rest.
    pub(crate) fn cut(&self) -> Option<(u64, u64)> {
        self.cut
    }

    /// True if no further line fits.
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0 || self.text.len() >= PAGE_BYTES_MAX
    }

    /// Number of the next line.
    pub(crate) fn next_line(&self) -> u64 {
        self.next
    }

    /// Adds a line. `bytes` is its length in the file; `line` may be only its beginning.
    pub(crate) fn push(&mut self, line: &str, bytes: u64) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (shown, cut) = clip(line, LINE_BYTES_MAX);
        let shown_bytes = shown.len() as u64;
        self.push_shown(shown, shown_bytes, (cut > 0).then(|| bytes.saturating_sub(shown_bytes)));
    }

    /// Adds the shown part of a line: its length in the file is `bytes`, and `missing` the number of bytes that are
    /// cut off.
    pub(crate) fn push_shown(&mut self, shown: &str, bytes: u64, missing: Option<u64>) {
        let _ = write!(self.text, "\n{:>6}\t", self.next);
        for character in shown.chars() {
            let visible = visible_character(character);
            self.has_controls |= visible != character;
            self.text.push(visible);
        }
        if let Some(missing) = missing {
            self.cut.get_or_insert((self.next, self.before + bytes + 1));
            let _ = match missing {
                0 => write!(self.text, "… [line cut]"),
                _ => write!(self.text, "… [line cut: {missing} more bytes]"),
            };
        }
        self.next += 1;
        self.left -= 1;
    }

    /// The answer, with a header line if there is something to note.
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

/// Decodes the beginning of a line to at most `bytes_max` bytes of text. Returns it with the number of bytes in the
/// line: an invalid byte becomes a character of three bytes.
pub(crate) fn clip_bytes(line: &[u8], bytes_max: usize) -> (String, usize) {
    let (mut shown, mut bytes) = (String::new(), 0);
    for chunk in line.utf8_chunks() {
        let (valid, cut) = clip(chunk.valid(), bytes_max - shown.len());
        shown.push_str(valid);
        bytes += valid.len();
        let invalid = chunk.invalid().len();
        if cut > 0 || invalid > 0 && shown.len() + char::REPLACEMENT_CHARACTER.len_utf8() > bytes_max {
            break;
        }
        if invalid > 0 {
            shown.push(char::REPLACEMENT_CHARACTER);
            bytes += invalid;
        }
    }
    (shown, bytes)
}

/// Replaces a control character by its symbol, because answers contain only tabs and line feeds.
fn visible_character(character: char) -> char {
    match character {
        '\t' => '\t',
        '\0'..='\x1f' => char::from_u32(0x2400 + character as u32).unwrap_or(character),
        '\x7f' => '␡',
        other if other.is_control() => char::REPLACEMENT_CHARACTER,
        other => other,
    }
}
