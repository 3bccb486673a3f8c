//! Text in UTF-16 with a byte order mark.

/// Decodes UTF-16 with a byte order mark. `None` if the bytes are not valid UTF-16.
pub fn decode_utf16(bytes: &[u8]) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        // This longer mark means UTF-32.
        [0xff, 0xfe, 0, 0, ..] => return None,
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let (units, rest) = bytes[2..].as_chunks::<2>();
    let text = char::decode_utf16(units.iter().map(|&pair| unit(pair))).collect::<Result<String, _>>();
    text.ok().filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_text_with_a_mark_is_decoded() {
        for (bytes, text) in [
            (&b"\xff\xfea\0=\xd8\0\xde"[..], Some("a😀")),
            (b"\xfe\xff\0a", Some("a")),
            (b"\xff\xfe", Some("")),
            (b"\xff\xfea", None),
            (b"\xff\xfe=\xd8", None),
            (b"\xff\xfe\0\0a\0\0\0", None),
            (b"a\0", None),
        ] {
            assert_eq!(decode_utf16(bytes).as_deref(), text, "{bytes:?}");
        }
    }
}
