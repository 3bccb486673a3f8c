//! Base64 as keys, signatures and registries write it: the usual alphabet, with padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as text.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes(word);
        for at in 0..4 {
            match at <= chunk.len() {
                true => text.push(ALPHABET[(word >> (18 - 6 * at) & 63) as usize] as char),
                false => text.push('='),
            }
        }
    }
    text
}

/// Text as bytes; absent where it is no base64. White space around it does not count.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim().as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let digits = &text[..text.len() - padding];
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.chunks(4) {
        let mut word = 0_u32;
        for byte in chunk {
            let digit = ALPHABET.iter().position(|known| known == byte)?;
            word = word << 6 | u32::try_from(digit).ok()?;
        }
        word <<= 6 * (4 - chunk.len());
        // What is left of the last digit must be nothing, or several texts would mean the same bytes.
        let [_, word @ ..] = word.to_be_bytes();
        let (kept, rest) = word.split_at_checked(chunk.len() - 1)?;
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in vectors {
            assert_eq!(encode(plain.as_bytes()), encoded);
            assert_eq!(decode(encoded).as_deref(), Some(plain.as_bytes()), "{encoded}");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
    }

    #[test]
    fn what_is_no_base64_is_nothing() {
        for text in ["Z", "Zg=", "Zg", "Z===", "====", "Zg==Zg==", "Zm9v!A==", "Zh==", "Zm9="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
