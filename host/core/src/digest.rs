//! Digests as names: SHA-256 in hexadecimal digits for contents, components and stored files, and the names of commits.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The SHA-256 of a content, in lower-case hexadecimal.
pub fn sha256_hex(content: &[u8]) -> String {
    to_hexadecimal(&Sha256::digest(content))
}

/// Bytes in lower-case hexadecimal.
pub fn to_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Name of a commit: 20 bytes by SHA-1, or 32 bytes by SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CommitId {
    /// By SHA-1.
    Sha1([u8; 20]),
    /// By SHA-256.
    Sha256([u8; 32]),
}

impl CommitId {
    /// A name from its 20 or 32 bytes.
    pub fn of_bytes(name: &[u8]) -> Option<Self> {
        let by_sha1 = name.try_into().map(Self::Sha1);
        by_sha1.or_else(|_| name.try_into().map(Self::Sha256)).ok()
    }

    /// A name from its 40 or 64 hexadecimal digits.
    pub fn of_digits(digits: &str) -> Option<Self> {
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |&[high, low]: &[u8; 2]| u8::try_from(digit(high)? << 4 | digit(low)?).ok();
        let bytes: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
        Self::of_bytes(&bytes).filter(|_| rest.is_empty())
    }

    /// The name as 20 or 32 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha1(name) => name,
            Self::Sha256(name) => name,
        }
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&to_hexadecimal(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_sixty_four_digits() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256_hex(b""), empty);
        assert_eq!(to_hexadecimal(&[0, 10, 255]), "000aff");
    }

    #[test]
    fn a_commit_is_named_by_forty_or_sixty_four_digits() {
        for digits in ["0a".repeat(20), "f0".repeat(32)] {
            let id = CommitId::of_digits(&digits).expect("it is one");
            assert_eq!(id.to_string(), digits);
            assert_eq!(CommitId::of_bytes(id.as_bytes()), Some(id));
        }
        for other in ["", &"0".repeat(41), &"0".repeat(42), &"+1".repeat(20)] {
            assert_eq!(CommitId::of_digits(other), None, "{other}");
        }
    }
}
