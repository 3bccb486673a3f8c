//! The characters of a content that is searched for keys: single bytes, or 16-bit units.
//!
//! Keys, and the words that identify them, are nearly all ASCII. So UTF-16 is reduced to its ASCII characters, one byte
//! for each unit. Each offset in that text then belongs to one offset in the content, and nothing has to be encoded
//! again.

use std::borrow::Cow;
use std::ops::Range;

/// Replaces a unit that is not text. No key contains this byte.
const NO_TEXT: char = '\u{1}';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextUnits {
    /// UTF-8, or any other superset of ASCII.
    Bytes,
    /// UTF-16, low byte first.
    LittleEndian,
    /// UTF-16, high byte first.
    BigEndian,
}

impl TextUnits {
    /// The possible encodings of a content. UTF-16 has a NUL byte in each ASCII character.
    pub(super) fn detect_units(content: &[u8]) -> &'static [Self] {
        match memchr::memchr(0, content) {
            None => &[Self::Bytes],
            Some(_) => &[Self::Bytes, Self::LittleEndian, Self::BigEndian],
        }
    }

    /// The content as text with one byte for each unit.
    pub(super) fn text(self, content: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Bytes => same_length_text(content),
            Self::LittleEndian => Cow::Owned(ascii_of(content, u16::from_le_bytes)),
            Self::BigEndian => Cow::Owned(ascii_of(content, u16::from_be_bytes)),
        }
    }

    /// True if a part of the text is in the content literally, and is not a replacement for other bytes.
    pub(super) fn is_in(self, content: &[u8], text: &str, range: &Range<usize>) -> bool {
        match self {
            Self::Bytes => content[range.clone()] == text.as_bytes()[range.clone()],
            Self::LittleEndian | Self::BigEndian => !text[range.clone()].contains(NO_TEXT),
        }
    }

    /// The bytes of the content that belong to a part of the text.
    pub(super) fn range(self, range: &Range<usize>) -> Range<usize> {
        match self {
            Self::Bytes => range.clone(),
            Self::LittleEndian | Self::BigEndian => 2 * range.start..2 * range.end,
        }
    }

    /// Encodes a text like the content.
    pub(super) fn bytes(self, text: &str) -> Vec<u8> {
        match self {
            Self::Bytes => text.as_bytes().to_vec(),
            Self::LittleEndian => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::BigEndian => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        }
    }

    /// Replaces parts of the content, which must be in order, by other texts.
    pub(super) fn splice(self, content: &[u8], parts: impl IntoIterator<Item = (Range<usize>, String)>) -> Vec<u8> {
        let mut spliced = Vec::with_capacity(content.len());
        let mut at = 0;
        for (range, text) in parts {
            let range = self.range(&range);
            spliced.extend_from_slice(&content[at..range.start]);
            spliced.extend(self.bytes(&text));
            at = range.end;
        }
        spliced.extend_from_slice(&content[at..]);
        spliced
    }
}

/// The ASCII of 16-bit units, with [`NO_TEXT`] for each other unit.
fn ascii_of(content: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let letter = |&pair: &[u8; 2]| {
        let ascii = u8::try_from(unit(pair)).ok().filter(u8::is_ascii);
        ascii.map_or(NO_TEXT, char::from)
    };
    content.as_chunks::<2>().0.iter().map(letter).collect()
}

/// The content as text, with [`NO_TEXT`] for each byte that is not UTF-8.
fn same_length_text(content: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(content) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(content.len());
    for chunk in content.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| NO_TEXT));
    }
    Cow::Owned(text)
}
