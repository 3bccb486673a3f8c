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
            before: 0,
            cut: None,
        }
    }

    /// A page with a part of one line, from a column on.
    pub(crate) fn of_part(line: u64, column: u64) -> Self {
        Self {
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
        let (shown, cut) = clip(line, LINE_BYTES_MAX);
        let shown_bytes = shown.len() as u64;
        self.push_shown(shown, shown_bytes, (cut > 0).then(|| bytes.saturating_sub(shown_bytes)));
    }

    /// Adds what is shown of a line, which are so many bytes of the file, and how many more the line has where it is cut.
    pub(crate) fn push_shown(&mut self, shown: &str, bytes: u64, missing: Option<u64>) {
        let _ = write!(self.text, "\n{:>6}\t", self.next);
        for character in shown.chars() {
            let visible = visible(character);
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

/// The beginning of a line as text of at most `bytes_max` bytes, and how many bytes of the line that is: a character that is
/// no UTF-8 is shown by another one of three bytes.
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
