//! Line ends. Models write `\n`; a file with `\r\n` keeps it.

use std::borrow::Cow;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// True if most lines of `text` end in CRLF.
pub(crate) fn is_crlf(text: &[u8]) -> bool {
    let ends = text.iter().filter(|&&byte| byte == b'\n').count();
    ends > 0 && 2 * text.windows(2).filter(|pair| pair == b"\r\n").count() > ends
}

/// Converts every line end to CRLF.
pub(crate) fn to_crlf(text: &str) -> Cow<'_, str> {
    if text.contains('\n') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Gives new content the line ends and the byte order mark of the old file, which a model does not see.
pub(crate) fn in_style_of(old: &[u8], content: &str) -> Vec<u8> {
    let text = if is_crlf(old) {
        to_crlf(content)
    } else {
        Cow::Borrowed(content)
    };
    let mark: &[u8] = if old.starts_with(BYTE_ORDER_MARK) && !text.starts_with('\u{feff}') {
        BYTE_ORDER_MARK
    } else {
        b""
    };
    [mark, text.as_bytes()].concat()
}
