//! Encodings of text files other than UTF-8: found by byte order mark, declaration or guess, and kept when text is
//! written.
//!
//! An encoding counts only if decoding and encoding yields the same bytes, so that a change leaves all other bytes as
//! they were.

mod declared;

use std::borrow::Cow;
use std::fmt;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use skill_sdk::Host;

pub use declared::{in_text, of_new_file};

const UTF16LE_MARK: &[u8] = b"\xff\xfe";
const UTF16BE_MARK: &[u8] = b"\xfe\xff";
const UTF32LE_MARK: &[u8] = b"\xff\xfe\0\0";

/// How characters are stored as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark.
    Utf8,
    /// UTF-16. The decoded text does not contain the byte order mark.
    Utf16 {
        /// True if the first byte of a unit is the more significant one.
        is_big_endian: bool,
        /// The file begins with a byte order mark.
        has_mark: bool,
    },
    /// ISO-8859-1: each byte is the number of its character.
    Latin1,
    /// An older encoding that browsers support.
    Legacy(&'static encoding_rs::Encoding),
}

/// Evidence for the encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodingEvidence {
    /// The bytes themselves: valid UTF-8, or a byte order mark.
    Bytes,
    /// A declaration in the file or the repository.
    Declared,
    /// A guess from the frequencies of characters.
    Guessed,
}

/// Text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText<'a> {
    /// The decoded bytes; a UTF-8 byte order mark is the first character.
    pub text: Cow<'a, str>,
    /// Encoding that restores the same bytes.
    pub encoding: Encoding,
    /// Evidence for the encoding.
    pub evidence: EncodingEvidence,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 {
                is_big_endian: false, ..
            } => "UTF-16LE",
            Self::Utf16 {
                is_big_endian: true, ..
            } => "UTF-16BE",
            Self::Latin1 => "Latin-1",
            Self::Legacy(encoding) => encoding.name(),
        })
    }
}

impl Encoding {
    /// Finds an encoding by name, in the spellings of people and programs.
    fn from_name(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase().replace('_', "-");
        let name = ["-unix", "-dos", "-mac"]
            .iter()
            .fold(name.as_str(), |name, end| name.strip_suffix(end).unwrap_or(name));
        Some(match name {
            "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" | "l1" | "iso-latin-1" => Self::Latin1,
            "utf-16le" | "utf-16le-bom" | "utf-16" => Self::Utf16 {
                is_big_endian: false,
                has_mark: false,
            },
            "utf-16be" | "utf-16be-bom" => Self::Utf16 {
                is_big_endian: true,
                has_mark: false,
            },
            "cp932" | "ms-kanji" | "shift-jis" => Self::Legacy(encoding_rs::SHIFT_JIS),
            "cp936" => Self::Legacy(encoding_rs::GBK),
            "cp949" => Self::Legacy(encoding_rs::EUC_KR),
            "cp950" => Self::Legacy(encoding_rs::BIG5),
            // Browsers take these names for larger sets, whose characters a strict program does not know.
            "ascii" | "us-ascii" => return None,
            _ => {
                let known = encoding_rs::Encoding::for_label_no_replacement(name.as_bytes())?;
                match known {
                    _ if known == encoding_rs::UTF_8 => Self::Utf8,
                    _ if known == encoding_rs::X_USER_DEFINED || known == encoding_rs::ISO_2022_JP => return None,
                    _ => Self::Legacy(known),
                }
            }
        })
    }

    /// Decodes bytes; `None` if encoding the text does not yield the same bytes.
    fn decode<'a>(self, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
        let text = match self {
            Self::Utf8 => return std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Self::Utf16 {
                is_big_endian,
                has_mark,
            } => {
                let (units, rest) = bytes.as_chunks::<2>();
                let unit = if is_big_endian {
                    u16::from_be_bytes
                } else {
                    u16::from_le_bytes
                };
                let units = units.iter().skip(usize::from(has_mark)).map(|&pair| unit(pair));
                let text = char::decode_utf16(units).collect::<Result<String, _>>().ok()?;
                return rest.is_empty().then_some(Cow::Owned(text));
            }
            Self::Latin1 => return Some(encoding_rs::mem::decode_latin1(bytes)),
            Self::Legacy(encoding) => encoding.decode_without_bom_handling_and_without_replacement(bytes)?,
        };
        (self.encode(&text).as_deref() == Ok(bytes)).then_some(text)
    }

    /// Encodes a text.
    ///
    /// # Errors
    ///
    /// The first character that the encoding does not have.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, char> {
        match self {
            Self::Utf8 => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Utf16 {
                is_big_endian,
                has_mark,
            } => {
                let unit = if is_big_endian {
                    u16::to_be_bytes
                } else {
                    u16::to_le_bytes
                };
                let mark = has_mark.then_some(0xfeff);
                Ok(mark.into_iter().chain(text.encode_utf16()).flat_map(unit).collect())
            }
            Self::Latin1 => {
                let byte = |character| u8::try_from(u32::from(character)).map_err(|_| character);
                text.chars()
                    .map(byte)
                    .collect::<Result<Vec<u8>, char>>()
                    .map(Cow::Owned)
            }
            Self::Legacy(encoding) => {
                let (bytes, _, has_unknown) = encoding.encode(text);
                if !has_unknown {
                    return Ok(bytes);
                }
                let is_unknown = |character: &char| encoding.encode(character.encode_utf8(&mut [0; 4])).2;
                Err(text.chars().find(is_unknown).unwrap_or(char::REPLACEMENT_CHARACTER))
            }
        }
    }
}

/// Finds the encoding of a file and decodes its text. `None` if no encoding restores the same bytes; then only ASCII
/// may be written.
pub fn read_text<'a>(host: &dyn Host, path: &str, bytes: &'a [u8]) -> Option<FileText<'a>> {
    let marked = |is_big_endian| Encoding::Utf16 {
        is_big_endian,
        has_mark: true,
    };
    if bytes.starts_with(UTF32LE_MARK) {
        return None;
    }
    if bytes.starts_with(UTF16LE_MARK) || bytes.starts_with(UTF16BE_MARK) {
        return decode_found(marked(bytes.starts_with(UTF16BE_MARK)), EncodingEvidence::Bytes, bytes);
    }
    let is_utf8 = std::str::from_utf8(bytes).is_ok();
    if is_utf8 && !bytes.is_ascii() {
        return decode_found(Encoding::Utf8, EncodingEvidence::Bytes, bytes);
    }
    let has_nul = bytes.contains(&0);
    // Text without a NUL is not UTF-16, whatever is declared.
    let declared = declared::of_file(host, path, bytes)
        .filter(|encoding| matches!(encoding, Encoding::Utf16 { .. }) == has_nul)
        .and_then(|encoding| decode_found(encoding, EncodingEvidence::Declared, bytes));
    declared.or_else(|| match is_utf8 {
        true => decode_found(Encoding::Utf8, EncodingEvidence::Bytes, bytes),
        false if has_nul || is_broken_utf8(bytes) => None,
        false => decode_found(guess_encoding(bytes), EncodingEvidence::Guessed, bytes),
    })
}

fn decode_found(encoding: Encoding, evidence: EncodingEvidence, bytes: &[u8]) -> Option<FileText<'_>> {
    let text = encoding.decode(bytes)?;
    Some(FileText {
        text,
        encoding,
        evidence,
    })
}

/// True for UTF-8 text with some invalid places: most of its characters outside of ASCII are valid.
fn is_broken_utf8(bytes: &[u8]) -> bool {
    let (mut valid, mut invalid) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        valid += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        invalid += usize::from(!chunk.invalid().is_empty());
    }
    valid > invalid
}

fn guess_encoding(bytes: &[u8]) -> Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    let has_controls = bytes.iter().any(|byte| (0x80..0xa0).contains(byte));
    // There is no evidence that the characters which only Windows-1252 has are meant.
    if encoding == encoding_rs::WINDOWS_1252 && !has_controls {
        Encoding::Latin1
    } else {
        Encoding::Legacy(encoding)
    }
}

#[cfg(test)]
mod tests;
