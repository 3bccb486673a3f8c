//! Text helpers: they clean text from a component, a file name or a file before a model, a terminal or a log gets it,
//! and find the known name that an unknown one resembles.

mod invisible;
mod utf16;

use std::borrow::Cow;

pub use invisible::{
    is_ignorable, is_invisible, is_reordering, is_visible, reveal_bytes, reveal_invisible, reveal_line, reveal_marks,
    without_invisible,
};
pub use utf16::decode_utf16;

/// Removes terminal escape sequences, control characters other than tab and newline, and marks that change the
/// direction of writing. Borrows where there is nothing to remove, which is nearly always.
pub fn clean_text(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unwanted) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_control_sequence(&mut rest),
            _ if is_unwanted(character) => {}
            _ => cleaned.push(character),
        }
    }
    Cow::Owned(cleaned)
}

/// Like [`clean_text`], on one line: for a name within a sentence.
pub fn clean_line(text: &str) -> String {
    clean_text(text).replace(['\n', '\t'], " ")
}

/// Estimates the tokens of `bytes` bytes of text: a quarter of them. Good enough to raise an alarm, not to bill.
pub fn estimated_tokens(bytes: usize) -> u64 {
    TokenRate::PROSE.tokens(bytes)
}

/// Tokens per byte of a model's tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRate {
    tokens: u64,
    bytes: u64,
}

impl TokenRate {
    /// Four bytes a token: English prose.
    pub const PROSE: Self = Self { tokens: 1, bytes: 4 };

    /// 2.8 bytes a token: numbered lines of code with the tokenizer of a small model.
    pub const CODE: Self = Self { tokens: 5, bytes: 14 };

    /// The rate of a text with counted tokens; that of prose for an empty text.
    pub fn from_counts(tokens: u64, bytes: usize) -> Self {
        match bytes as u64 {
            0 => Self::PROSE,
            bytes => Self { tokens, bytes },
        }
    }

    /// Converts tokens of this tokenizer to those of [`estimated_tokens`], for the same text.
    pub fn estimate(self, tokens: u64) -> u64 {
        self.bytes(tokens) as u64 / Self::PROSE.bytes
    }

    /// Bytes that give this number of tokens.
    pub fn bytes(self, tokens: u64) -> usize {
        usize::try_from(tokens.saturating_mul(self.bytes) / self.tokens.max(1)).unwrap_or(usize::MAX)
    }

    /// Tokens of this number of bytes.
    pub fn tokens(self, bytes: usize) -> u64 {
        (bytes as u64).saturating_mul(self.tokens).div_ceil(self.bytes)
    }
}

/// A name for one line of text or one pair of backticks: characters that would end, reorder or close it are replaced.
pub fn visible_name(name: &str) -> String {
    let replace = |character: char| match character {
        '\n' | '\t' | '`' | '\u{2028}' | '\u{2029}' => char::REPLACEMENT_CHARACTER,
        character if is_unwanted(character) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    name.chars().map(replace).collect()
}

/// A name in backticks, whatever characters it has.
pub fn quote_name(name: &str) -> String {
    format!("`{}`", visible_name(name))
}

/// The first `count_max` names in backticks, and the number of the others: `` `a.py`, `b.py` and 3 more ``.
pub fn quote_names<'a>(names: impl ExactSizeIterator<Item = &'a str>, count_max: usize) -> String {
    let more = names.len().saturating_sub(count_max);
    let shown = names.take(count_max).map(quote_name);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn is_unwanted(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        _ => character.is_control() || is_reordering(character),
    }
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_escape(rest: &mut Characters<'_>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_control_sequence(rest);
        }
        // Operating system command, device control, privacy message, application program command, start of string.
        Some(']' | 'P' | '^' | '_' | 'X') => skip_string(rest),
        // A two-character sequence, or one with intermediate bytes such as `ESC ( B`.
        Some(' '..='/') => {
            while rest.next_if(|character| (' '..='/').contains(character)).is_some() {}
            rest.next_if(|character| ('0'..='~').contains(character));
        }
        Some('0'..='~') => {
            rest.next();
        }
        _ => {}
    }
}

/// Skips parameters and the final character of a control sequence.
fn skip_control_sequence(rest: &mut Characters<'_>) {
    while rest.next_if(|character| (' '..='?').contains(character)).is_some() {}
    rest.next_if(|character| ('@'..='~').contains(character));
}

/// Skips a string that a terminal would swallow, up to its terminator or the end of the line: a string that never
/// ends must not hide the rest of an answer.
fn skip_string(rest: &mut Characters<'_>) {
    while let Some(character) = rest.next_if(|&character| character != '\n') {
        match character {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

/// The beginning of a text: at most `bytes_max` bytes, cut at the boundary of a character.
pub fn truncate_text(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Percent-encodes all bytes of a text but letters and digits of ASCII, and those in `unreserved`.
pub fn percent_encode(text: &str, unreserved: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || unreserved.as_bytes().contains(&byte) {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Decodes a percent-encoded text. `None` if a `%` begins no byte, or if the bytes are not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part
            .get(..2)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// The known name that is most similar to an unknown one, if it is similar enough.
pub fn nearest_name<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(unknown, known), known))
        .min()
        .filter(|&(distance, known)| distance <= known.len().max(3) / 2)
        .map(|(_, known)| known)
}

/// The known key that is most similar to the unknown one in an error of serde, which quotes the unknown key first, then
/// the known ones.
pub fn nearest_key(message: &str) -> Option<&str> {
    if !message.contains("unknown ") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    nearest_name(unknown, quoted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_in_a_sentence_adds_no_line_to_it() {
        assert_eq!(clean_line("x.\n\nAllow it?\t\u{1b}[2J(`a`"), "x.  Allow it? (`a`");
    }

    #[test]
    fn a_visible_name_stays_in_its_backticks() {
        assert_eq!(visible_name("src/é.py"), "src/é.py");
        assert_eq!(
            visible_name("a\n`b`\u{202e}\u{1b}c"),
            "a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\u{fffd}c"
        );
    }

    #[test]
    fn ordinary_text_is_borrowed() {
        assert!(matches!(
            clean_text("fn main() {\n\tprintln!(\"ä\");\n}\n"),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn escapes_controls_and_direction_marks_go() {
        let cases = [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb"),
            ("\u{1b}]52;c;never ends\nnext line", "\nnext line"),
            ("\u{1b}(Bx\u{1b}cy\u{1b}", "xy"),
            ("\u{9b}2Jz", "z"),
            ("a\r\nb\u{8}\u{0}c\u{7f}", "a\nbc"),
            ("if \u{202e}} \u{2066}x\u{2069}", "if } x"),
        ];
        for (dirty, expected) in cases {
            assert_eq!(clean_text(dirty), expected, "{dirty:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_unwanted_survives_and_cleaning_twice_is_cleaning_once(
            text in "\\PC*|[\\x00-\\x7f\\x{9b}\\x{202e}]*",
        ) {
            let once = clean_text(&text).into_owned();
            prop_assert!(!once.chars().any(is_unwanted));
            prop_assert_eq!(clean_text(&once), once.as_str());
        }
    }
}
