//! Decodes bytes to text, and recognises files that are not text.

use std::borrow::Cow;

use skill_sdk::Host;
use text_encoding::{Encoding, EncodingEvidence};

/// Bytes of a file that decide whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

/// Content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodedContent<'a> {
    /// Not text. The kind is for people.
    Binary(&'static str),
    /// Text, and a note about its encoding unless it is plain UTF-8.
    Text {
        text: Cow<'a, str>,
        /// Note for the header line.
        note: Option<String>,
    },
}

/// Beginnings of files that are not text. The first match names the kind.
const KINDS: &[(usize, &[u8], &str)] = &[
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF8", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (8, b"WAVE", "WAV audio"),
    (8, b"AVI ", "AVI video"),
    (0, b"BM", "BMP image"),
    (0, b"\0\0\x01\0", "icon"),
    (0, b"II*\0", "TIFF image"),
    (0, b"MM\0*", "TIFF image"),
    (0, b"%PDF-", "PDF document"),
    (0, b"PK\x03\x04", "ZIP archive"),
    (0, b"PK\x05\x06", "ZIP archive"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"\xfd7zXZ\0", "xz data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (0, b"Rar!\x1a\x07", "RAR archive"),
    (257, b"ustar", "tar archive"),
    (0, b"!<arch>\n", "static library"),
    (0, b"\x7fELF", "ELF binary"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O binary"),
    (0, b"\xfe\xed\xfa\xcf", "Mach-O binary"),
    (0, b"\xca\xfe\xba\xbe", "Java class or Mach-O binary"),
    (0, b"MZ", "Windows executable"),
    (0, b"\0asm", "WebAssembly"),
    (0, b"SQLite format 3\0", "SQLite database"),
    (0, b"wOFF", "web font"),
    (0, b"wOF2", "web font"),
    (0, b"\0\x01\0\0\0", "TrueType font"),
    (0, b"OTTO", "OpenType font"),
    (4, b"ftyp", "MP4 video"),
    (0, b"OggS", "Ogg audio"),
    (0, b"fLaC", "FLAC audio"),
    (0, b"ID3", "MP3 audio"),
    (0, b"\x93NUMPY", "NumPy array"),
    (0, b"\x89HDF", "HDF5 data"),
    (0, b"PAR1", "Parquet data"),
    (0, b"\xff\xfe\0\0", "UTF-32 text"),
    (0, b"\0\0\xfe\xff", "UTF-32 text"),
];

/// The kind of a binary file from its beginning; `None` for text, including UTF-16 with a byte order mark.
pub(crate) fn binary_kind(start: &[u8]) -> Option<&'static str> {
    let start = &start[..start.len().min(SNIFF_BYTES)];
    let fits = |&&(at, magic, _): &&(usize, &[u8], &str)| start.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let known = KINDS.iter().find(fits);
    let has_nul = memchr::memchr(0, start).is_some();
    if utf16_units(start).is_some() && known.is_none_or(|(.., kind)| !kind.starts_with("UTF-32")) {
        return None;
    }
    match known {
        Some((.., kind)) if has_nul => Some(kind),
        // Without a NUL, only a beginning that no text has is accepted.
        Some((_, magic, kind)) if magic.starts_with(b"%PDF-") || magic.iter().any(|&byte| !is_textual(byte)) => {
            Some(kind)
        }
        _ if has_nul => Some("unknown kind"),
        _ => None,
    }
}

fn is_textual(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)
}

/// Name of an encoding with 16-bit units, and the function that reads a unit.
type UnitReader = (&'static str, fn([u8; 2]) -> u16);

/// The encoding of a UTF-16 byte order mark.
fn utf16_units(content: &[u8]) -> Option<UnitReader> {
    match content {
        [0xff, 0xfe, ..] => Some(("UTF-16LE", u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Some(("UTF-16BE", u16::from_be_bytes)),
        _ => None,
    }
}

pub(crate) fn decode_content<'a>(host: &dyn Host, path: &str, content: &'a [u8]) -> DecodedContent<'a> {
    let binary = binary_kind(content);
    // ASCII is the same in every encoding but UTF-16, which would contain a NUL.
    let is_plain = content.is_ascii() && binary.is_none();
    let found = (!is_plain)
        .then(|| text_encoding::read_text(host, path, content))
        .flatten()
        .filter(|found| match found.encoding {
            Encoding::Utf8 => false,
            Encoding::Utf16 { .. } => true,
            _ => binary.is_none(),
        });
    if let Some(found) = found {
        let encoding = found.encoding;
        return DecodedContent::Text {
            text: found.text,
            note: match found.evidence {
                EncodingEvidence::Declared => Some(format!("{encoding} (declared), shown as UTF-8")),
                EncodingEvidence::Guessed => Some(format!("perhaps {encoding}, shown as UTF-8")),
                EncodingEvidence::Bytes => Some(format!("{encoding}, shown as UTF-8")),
            },
        };
    }
    if let Some(kind) = binary {
        return DecodedContent::Binary(kind);
    }
    if let Some((name, unit)) = utf16_units(content) {
        let units = content[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let text: String = char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        return DecodedContent::Text {
            text: Cow::Owned(text),
            note: Some(format!("{name}, shown as UTF-8")),
        };
    }
    let (body, mark) = match content.strip_prefix(b"\xef\xbb\xbf") {
        Some(body) => (body, Some("UTF-8 with a byte order mark".to_owned())),
        None => (content, None),
    };
    match std::str::from_utf8(body) {
        Ok(text) => DecodedContent::Text {
            text: Cow::Borrowed(text),
            note: mark,
        },
        Err(_) => DecodedContent::Text {
            text: String::from_utf8_lossy(body),
            note: Some(invalid_note(body)),
        },
    }
}

/// Note that invalid bytes are replaced.
fn invalid_note(body: &[u8]) -> String {
    let places = body.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    format!(
        "not valid UTF-8: {places} invalid {} shown as \u{fffd}",
        if places == 1 { "place is" } else { "places are" }
    )
}

/// Note about unusual line ends.
pub(crate) fn line_endings(text: &str) -> Option<String> {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let pairs = memchr::memmem::find_iter(text.as_bytes(), b"\r\n").count();
    match pairs {
        0 => None,
        _ if pairs == ends => Some("CRLF line endings".to_owned()),
        _ => Some(format!("mixed line endings ({pairs} of {ends} are CRLF)")),
    }
}
