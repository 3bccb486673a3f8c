//! The form of components inside the program: compressed, most of them against one that they resemble, because all
//! contain the same libraries. So they take a fifth of the bytes of compiled code, and half of what they take each on
//! its own. A component is unpacked at its first call.

use std::io;

/// Largest component, unpacked.
const UNPACKED_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Level of compression: the highest that takes no more memory to unpack.
const LEVEL: i32 = 19;

/// The skill that the others are packed against: it uses most of the libraries.
const SKILL_BASE: &str = "search_code";

/// The small one of the components that read source files.
const OUTLINER_BASE: &str = "outline_python";

/// A component or its compiled code as it is inside the program.
#[derive(Debug, Clone, Copy)]
pub struct Packed {
    /// Made by [`pack`].
    pub bytes: &'static [u8],
    /// Of the same kind and packed on its own; the bytes above are packed against it. Empty for none.
    pub base: &'static [u8],
}

impl Packed {
    /// Packed against no other.
    pub const fn alone(bytes: &'static [u8]) -> Self {
        Self { bytes, base: &[] }
    }

    /// The component, or its code.
    pub fn unpack(self) -> io::Result<Vec<u8>> {
        if self.base.is_empty() {
            return unpack(self.bytes, &[]);
        }
        unpack(self.bytes, &unpack(self.base, &[])?)
    }
}

/// Name of the component that this one is packed against. The bases themselves are packed alone.
pub fn base_of(name: &str) -> Option<&'static str> {
    let base = if name.starts_with("outline_") {
        OUTLINER_BASE
    } else {
        SKILL_BASE
    };
    (name != base).then_some(base)
}

/// Packs a component or its compiled code against `base`, which is unpacked, or against nothing where that is empty. For
/// the build of the product.
pub fn pack(bytes: &[u8], base: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::Compressor::with_dictionary(LEVEL, base)?.compress(bytes)
}

fn unpack(packed: &[u8], base: &[u8]) -> io::Result<Vec<u8>> {
    let bytes = zstd::zstd_safe::get_frame_content_size(packed)
        .ok()
        .flatten()
        .filter(|bytes| *bytes <= UNPACKED_BYTES_MAX)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not packed"))?;
    zstd::bulk::Decompressor::with_dictionary(base)?.decompress(packed, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked() {
        let base: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut bytes = base.clone();
        bytes.extend_from_slice(b"and its own");
        let alone = pack(&bytes, &[]).expect("memory is there");
        let packed = pack(&bytes, &base).expect("memory is there");
        assert!(packed.len() < alone.len() / 10, "{} and {}", packed.len(), alone.len());
        let base: &[u8] = pack(&base, &[]).expect("memory is there").leak();
        let (alone, packed): (&[u8], &[u8]) = (alone.leak(), packed.leak());
        assert!(Packed::alone(alone).unpack().expect("it was packed") == bytes);
        let packed = Packed { bytes: packed, base };
        assert!(packed.unpack().expect("it was packed") == bytes);
        for bytes in [&b""[..], b"not packed", &packed.bytes[..20]] {
            Packed { bytes, base }.unpack().expect_err("it is damaged");
        }
    }

    #[test]
    fn bases_are_packed_alone() {
        for base in [SKILL_BASE, OUTLINER_BASE] {
            assert_eq!(base_of(base), None);
        }
        assert_eq!(base_of("outline_c"), Some(OUTLINER_BASE));
        assert_eq!(base_of("hostile"), Some(SKILL_BASE));
    }
}
