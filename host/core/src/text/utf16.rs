//! Text in UTF-16 with a byte order mark.

/// Byte order of a text that begins with a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// The mark is `ff fe`.
    Little,
    /// The mark is `fe ff`.
    Big,
}

/// Decodes UTF-16 with a byte order mark, without the mark. `None` for any other content: encoding the text must give the
/// same bytes.
pub fn decode_utf16(bytes: &[u8]) -> Option<(ByteOrder, String)> {
    let (order, unit): (_, fn([u8; 2]) -> u16) = match bytes {
        // A longer mark is that of UTF-32.
        [0xff, 0xfe, 0, 0, ..] => return None,
        [0xff, 0xfe, ..] => (ByteOrder::Little, u16::from_le_bytes),
        [0xfe, 0xff, ..] => (ByteOrder::Big, u16::from_be_bytes),
        _ => return None,
    };
    let (units, rest) = bytes[2..].as_chunks::<2>();
    let text = char::decode_utf16(units.iter().map(|&pair| unit(pair))).collect::<Result<String, _>>();
    text.ok().filter(|_| rest.is_empty()).map(|text| (order, text))
}

/// Encodes a text as UTF-16 with a byte order mark.
pub fn encode_utf16(order: ByteOrder, text: &str) -> Vec<u8> {
    let bytes = match order {
        ByteOrder::Little => u16::to_le_bytes,
        ByteOrder::Big => u16::to_be_bytes,
    };
    std::iter::once(0xfeff)
        .chain(text.encode_utf16())
        .flat_map(bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decoded_gives_the_same_bytes() {
        for (bytes, text) in [
            (&b"\xff\xfea\0=\xd8\0\xde"[..], Some("a😀")),
            (b"\xfe\xff\0a", Some("a")),
            (b"\xff\xfe", Some("")),
            (b"\xff\xfea", None),
            (b"\xff\xfe=\xd8", None),
            (b"\xff\xfe\0\0a\0\0\0", None),
            (b"a\0", None),
        ] {
            let decoded = decode_utf16(bytes);
            assert_eq!(decoded.as_ref().map(|(_, text)| text.as_str()), text, "{bytes:?}");
            if let Some((order, text)) = decoded {
                assert_eq!(encode_utf16(order, &text), bytes);
            }
        }
    }
}
