//! Pointers of Git LFS, which git stores instead of large files.

/// First line of every pointer.
const VERSION: &str = "version https://git-lfs.github.com/spec/v1";

/// Limit for a pointer in bytes, from its specification.
pub const POINTER_BYTES_MAX: usize = 1024;

/// Digest and size in a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LfsPointer {
    /// SHA-256 of the content, lower-case hexadecimal.
    pub digest: String,
    /// Size of the content in bytes.
    pub bytes: u64,
}

impl LfsPointer {
    /// Parses a pointer; `None` for any other content.
    pub fn parse(content: &[u8]) -> Option<Self> {
        if content.len() >= POINTER_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(content).ok()?;
        let lines = text.strip_prefix(VERSION)?.strip_prefix('\n')?;
        let value = |key: &str| {
            let values = lines.lines().filter_map(|line| line.split_once(' '));
            values.clone().find(|(found, _)| *found == key).map(|(_, value)| value)
        };
        let digest = value("oid")?.strip_prefix("sha256:")?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        Some(Self {
            digest: Some(digest)
                .filter(|digest| digest.len() == 64 && digest.bytes().all(is_digit))?
                .to_owned(),
            bytes: value("size")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_known_by_its_version_digest_and_size() {
        let digest = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let pointer = |size: &str| format!("{VERSION}\noid sha256:{digest}\nsize {size}\n");
        let expected = LfsPointer {
            digest: digest.to_owned(),
            bytes: 12_345,
        };
        assert_eq!(LfsPointer::parse(pointer("12345").as_bytes()), Some(expected));
        for other in [
            String::new(),
            pointer("many"),
            format!(" {}", pointer("1")),
            format!("{VERSION}\nsize 1\n"),
            format!("{VERSION}\noid sha256:{}\nsize 1\n", digest.to_uppercase()),
            pointer("1") + &"x".repeat(POINTER_BYTES_MAX),
        ] {
            assert_eq!(LfsPointer::parse(other.as_bytes()), None, "{other}");
        }
    }
}
