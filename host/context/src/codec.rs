//! Encoding of the index: numbers of variable length (LEB128), byte strings with their length, and a checksum.
//!
//! Stored bytes may be damaged. A reader returns `None` for a value that is cut off or too long.

/// Appends a number as LEB128: seven bits a byte, the lowest first.
pub(super) fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends a length and as many bytes.
pub(super) fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// Reads values in the order in which they were written.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordReader<'a>(pub(super) &'a [u8]);

impl<'a> RecordReader<'a> {
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        if *first < 0x80 {
            self.0 = rest;
            return Some(u64::from(*first));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f).checked_shl(at as u32 * 7)?;
            if *byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Some(number);
            }
        }
        None
    }

    /// The next number, if it fits into 32 bits.
    #[inline]
    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Bytes with their length before them.
    pub(super) fn sized(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.bytes(count)
    }

    /// Text with its length before it.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.sized()?).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A checksum that detects torn, cut or overwritten files. It does not protect against deliberate changes: only the
/// user can write these files.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = (bytes.len() as u64).wrapping_mul(PRIME);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        sum = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME);
        sum ^= sum >> 32;
    }
    for byte in rest {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(PRIME);
        sum ^= sum >> 32;
    }
    (sum ^ (sum >> 29)) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_put_is_read_and_what_is_cut_is_nothing(numbers in proptest::collection::vec(any::<u64>(), 0..20), text in "\\PC{0,40}") {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put(&mut bytes, *number));
            put_bytes(&mut bytes, text.as_bytes());
            let mut reader = RecordReader(&bytes);
            for number in &numbers {
                prop_assert_eq!(reader.number(), Some(*number));
            }
            prop_assert_eq!(reader.text(), Some(text.as_str()));
            prop_assert!(reader.is_empty());
            let mut cut = RecordReader(&bytes[..bytes.len() - 1]);
            let read = numbers.iter().all(|number| cut.number() == Some(*number)) && cut.text().is_some();
            prop_assert!(!read);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = RecordReader(&bytes);
            while reader.number().is_some() {}
            let _ = RecordReader(&bytes).text();
        }

        #[test]
        fn a_changed_byte_changes_the_sum(mut bytes in proptest::collection::vec(any::<u8>(), 1..200), at in any::<prop::sample::Index>(), by in 1_u8..) {
            let before = checksum(&bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            prop_assert_ne!(checksum(&bytes), before);
        }
    }

    #[test]
    fn a_number_of_more_bits_than_there_are_is_none() {
        assert_eq!(RecordReader(&[0xff; 10]).number(), None);
        assert_eq!(RecordReader(&[0xff, 0xff, 0xff, 0xff, 0x7f]).small(), None);
        assert_eq!(RecordReader(&[0x80]).number(), None);
    }
}
