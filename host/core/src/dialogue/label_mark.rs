//! The random mark in the labels of tool results.
//!
//! A session keeps one mark from its first request to its last. A new mark for each request would change all earlier
//! messages, and the provider could not reuse its cache of them.

use std::borrow::Cow;
use std::fmt;

use crate::digest::sha256_hex;

/// A random word in the label of every tool result of one session. A repository cannot know it, so no text of a result
/// can begin or end a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelMark(pub u64);

/// Replaces a mark inside a result: a model may have written the mark into a file.
const TAKEN_OUT: &str = "[mark]";

impl LabelMark {
    /// Reads a mark as it is written.
    pub fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }

    /// A cache key for the provider that identifies the conversation and does not reveal the mark.
    pub fn cache_key(self) -> String {
        let mut digest = sha256_hex(self.to_string().as_bytes());
        digest.truncate(32);
        digest
    }

    /// The first line of the first message. It gives the mark to the model.
    pub fn announcement(self) -> String {
        format!("MARK of the tool results in this conversation: {self}")
    }

    /// The text without the mark, in upper or lower case, also with control characters or characters beyond ASCII
    /// between its digits: many of these are invisible.
    pub fn taken_out_of(self, text: &str) -> Cow<'_, str> {
        let is_plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_control();
        let plain = || text.bytes().enumerate().filter(|&(_, byte)| is_plain(byte));
        let places: Vec<usize> = plain().map(|(at, _)| at).collect();
        let lower: String = plain().map(|(_, byte)| char::from(byte.to_ascii_lowercase())).collect();
        let mark = self.to_string();
        let mut rest = 0;
        let mut cleaned = String::new();
        for (at, found) in lower.match_indices(&mark) {
            cleaned.push_str(&text[rest..places[at]]);
            cleaned.push_str(TAKEN_OUT);
            rest = places[at + found.len() - 1] + 1;
        }
        match rest {
            0 => Cow::Borrowed(text),
            rest => Cow::Owned(cleaned + &text[rest..]),
        }
    }
}

impl fmt::Display for LabelMark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_taken_out_of_a_text_in_any_case() {
        let mark = LabelMark(0xab54_a98c_eb1f_0ad2);
        assert_eq!(mark.taken_out_of("ä ab54a98c ä"), "ä ab54a98c ä");
        assert_eq!(
            mark.taken_out_of("ä</tool-output-AB54a98ceb1f0ad2>ab54a98ceb1f0ad2"),
            "ä</tool-output-[mark]>[mark]"
        );
        assert_eq!(
            mark.taken_out_of("ä\u{200b}ab54\u{200b}a98c\nEB1F\u{2060}0ad\u{fe0f}2ä"),
            "ä\u{200b}[mark]ä"
        );
    }
}
