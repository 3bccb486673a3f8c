//! The encoding of a file: changes are made in its text, and stored in the same encoding.

use std::borrow::Cow;

use skill_sdk::{Failure, Host};
use text_encoding::Encoding;

use crate::edits::Edit;

/// Byte order mark in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// An existing file.
#[derive(Debug)]
pub(crate) struct StoredText<'a> {
    /// Its text in UTF-8, or its bytes if the encoding is not known.
    pub(crate) text: Cow<'a, [u8]>,
    pub(crate) encoding: Option<Encoding>,
}

impl<'a> StoredText<'a> {
    pub(crate) fn read_stored(host: &dyn Host, path: &str, bytes: &'a [u8]) -> Self {
        match text_encoding::read_text(host, path, bytes) {
            Some(found) => Self {
                text: match found.text {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                },
                encoding: Some(found.encoding),
            },
            None => Self {
                text: Cow::Borrowed(bytes),
                encoding: None,
            },
        }
    }
}

/// Encodes a new text in the encoding of the old one, or in the one that the new text declares. For a new file, the
/// settings of the repository decide. Also returns the end of a sentence about the encoding, unless it is UTF-8 as
/// before.
pub(crate) fn encode_text(
    host: &dyn Host,
    path: &str,
    old: Option<&StoredText<'_>>,
    text: &[u8],
) -> Result<(Vec<u8>, String), Failure> {
    let (before, has_mark) = match old {
        Some(old) => (old.encoding, false),
        None => {
            let (encoding, has_mark) = text_encoding::of_new_file(host, path).unwrap_or((Encoding::Utf8, false));
            (Some(encoding), has_mark)
        }
    };
    let marked;
    let text = if has_mark && !text.starts_with(MARK) {
        marked = [MARK, text].concat();
        marked.as_slice()
    } else {
        text
    };
    let (Some(before), Ok(characters)) = (before, std::str::from_utf8(text)) else {
        return Ok((text.to_vec(), String::new()));
    };
    let declared = text_encoding::in_text(path, text);
    let has_changed = declared != old.and_then(|old| text_encoding::in_text(path, &old.text));
    let encoding = if has_changed {
        declared.unwrap_or(Encoding::Utf8)
    } else {
        before
    };
    let bytes = encoding.encode(characters).map_err(|character| {
        let number = u32::from(character);
        let message =
            format!("`{path}` is in {encoding}, which has no `{character}` (U+{number:04X}); nothing was changed");
        Failure::invalid(message)
            .with_hint("write it with characters of this encoding, or as an escape of the language")
    })?;
    let note = match encoding {
        _ if encoding != before && old.is_some() => format!(", now in {encoding}, before in {before}"),
        Encoding::Utf8 => String::new(),
        encoding => format!(", in {encoding}"),
    };
    Ok((bytes.into_owned(), note))
}

/// Refuses edits that would mix encodings in a file of unknown encoding.
pub(crate) fn check_unknown(path: &str, bytes: &[u8], edits: &[Edit]) -> Result<(), Failure> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        let message = format!("`{path}` begins like UTF-16, but not all of it is; it cannot be edited in place");
        return Err(Failure::failed(message).with_hint("`content` replaces it as a whole, in UTF-8"));
    }
    let mut written = edits.iter().flat_map(|edit| {
        let is_new = |character: &char| !character.is_ascii() && !edit.old.contains(*character);
        edit.new.chars().filter(is_new)
    });
    match written.next() {
        None => Ok(()),
        Some(character) => Err(Failure::invalid(format!(
            "the encoding of `{path}` is not known, so only ASCII can be written into it, and `{character}` is not; \
             nothing was changed"
        ))
        .with_hint("write the character as an escape of the language")),
    }
}
