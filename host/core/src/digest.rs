//! SHA-256 and hexadecimal digits, as contents, components and stored files are named.

use sha2::{Digest, Sha256};

/// The SHA-256 of a content, in lower-case hexadecimal.
pub fn sha256_hex(content: &[u8]) -> String {
    hexadecimal(&Sha256::digest(content))
}

/// Bytes in lower-case hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_sixty_four_digits() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256_hex(b""), empty);
        assert_eq!(hexadecimal(&[0, 10, 255]), "000aff");
    }
}
