//! How components are stored inside the program: compressed, most of them with a similar one as the dictionary, because
//! all contain the same libraries. So they take a fifth of the bytes of compiled code, and half of what they would take
//! without a dictionary. A component is unpacked at its first call.

use std::io;

/// Largest component, unpacked.
const UNPACKED_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Compression level: the highest that needs no more memory to unpack.
const LEVEL: i32 = 19;

/// Skill that is the dictionary of the others: it uses most of the libraries.
const SKILL_BASE: &str = "search_code";

/// Dictionary of the components that read source files: the small one of them.
const OUTLINER_BASE: &str = "outline_python";

/// A component or its compiled code as it is stored inside the program.
#[derive(Debug, Clone, Copy)]
pub struct Packed {
    /// Made by [`pack_component`].
    pub bytes: &'static [u8],
    /// The dictionary: a component or code of the same kind, packed without one. Empty for none.
    pub base: &'static [u8],
}

impl Packed {
    /// Packed without a dictionary.
    pub const fn without_base(bytes: &'static [u8]) -> Self {
        Self { bytes, base: &[] }
    }

    /// Unpacks the component or its code.
    ///
    /// # Errors
    ///
    /// The bytes are damaged.
    pub fn unpack(self) -> io::Result<Vec<u8>> {
        if self.base.is_empty() {
            return unpack_component(self.bytes, &[]);
        }
        unpack_component(self.bytes, &unpack_component(self.base, &[])?)
    }
}

/// Name of the component that is the dictionary of this one. The dictionaries themselves have none.
pub fn base_of(name: &str) -> Option<&'static str> {
    let base = if name.starts_with("outline_") {
        OUTLINER_BASE
    } else {
        SKILL_BASE
    };
    (name != base).then_some(base)
}

/// Packs a component or its compiled code with `base`, which is not packed, as the dictionary; empty for none. For the
/// build of the product.
///
/// # Errors
///
/// The compressor's error.
pub fn pack_component(bytes: &[u8], base: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::Compressor::with_dictionary(LEVEL, base)?.compress(bytes)
}

fn unpack_component(packed: &[u8], base: &[u8]) -> io::Result<Vec<u8>> {
    // `decompress` allocates its capacity at once, so the size that the frame declares is bounded first.
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
        let alone = pack_component(&bytes, &[]).expect("memory is there");
        let packed = pack_component(&bytes, &base).expect("memory is there");
        assert!(packed.len() < alone.len() / 10, "{} and {}", packed.len(), alone.len());
        let base: &[u8] = pack_component(&base, &[]).expect("memory is there").leak();
        let (alone, packed): (&[u8], &[u8]) = (alone.leak(), packed.leak());
        assert!(Packed::without_base(alone).unpack().expect("it was packed") == bytes);
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
