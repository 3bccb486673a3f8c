//! Encoding of the index: values by `postcard`, and a format and a checksum around a whole file.
//!
//! Stored bytes may be damaged. A reader returns `None` for a value that is cut off or not valid.

use serde::{Deserialize, Serialize};

/// Appends a value.
pub(super) fn put_value<T: Serialize + ?Sized>(into: &mut Vec<u8>, value: &T) {
    *into = postcard::to_extend(value, std::mem::take(into)).expect("a vector takes each value");
}

/// Appends a number. `put_value` writes the same in seven times the time, and an index has millions of numbers.
pub(super) fn put_number(into: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends bytes with their length. `put_value` writes the same, but one byte at a time.
pub(super) fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put_value(into, &bytes.len());
    into.extend_from_slice(bytes);
}

/// Reads values in the order in which they were written.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordReader<'a>(pub(super) &'a [u8]);

impl<'a> RecordReader<'a> {
    /// The next value.
    #[inline]
    pub(super) fn read<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let (value, rest) = postcard::take_from_bytes(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// True where nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Encodes a file: its format, a value, and a checksum of both.
pub(super) fn encode_file<T: Serialize>(format: &[u8; 16], value: &T) -> Vec<u8> {
    let mut bytes = format.to_vec();
    put_value(&mut bytes, value);
    let sum = compute_checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Decodes a file; `None` if it is damaged or has another format.
pub(super) fn decode_file<'a, T: Deserialize<'a>>(format: &[u8; 16], bytes: &'a [u8]) -> Option<T> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if compute_checksum(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let mut reader = RecordReader(body.strip_prefix(format)?);
    let value = reader.read()?;
    reader.is_empty().then_some(value)
}

/// A checksum that detects torn, cut or overwritten files. It does not protect against deliberate changes: only the
/// user can write these files.
pub(super) fn compute_checksum(bytes: &[u8]) -> u32 {
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
            numbers.iter().for_each(|number| put_value(&mut bytes, number));
            let (mut by_hand, mut derived) = (Vec::new(), Vec::new());
            numbers.iter().for_each(|number| put_number(&mut by_hand, *number as u32 >> (number % 32)));
            numbers.iter().for_each(|number| put_value(&mut derived, &(*number as u32 >> (number % 32))));
            prop_assert_eq!(by_hand, derived);
            put_value(&mut bytes, &text);
            let mut reader = RecordReader(&bytes);
            for number in &numbers {
                prop_assert_eq!(reader.read(), Some(*number));
            }
            prop_assert_eq!(reader.read(), Some(text.as_str()));
            prop_assert!(reader.is_empty());
            let mut cut = RecordReader(&bytes[..bytes.len() - 1]);
            let read = numbers.iter().all(|number| cut.read() == Some(*number)) && cut.read::<&str>().is_some();
            prop_assert!(!read);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = RecordReader(&bytes);
            while reader.read::<u64>().is_some() {}
            let _ = RecordReader(&bytes).read::<&str>();
        }

        #[test]
        fn a_changed_byte_changes_the_sum(mut bytes in proptest::collection::vec(any::<u8>(), 1..200), at in any::<prop::sample::Index>(), by in 1_u8..) {
            let before = compute_checksum(&bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            prop_assert_ne!(compute_checksum(&bytes), before);
        }
    }

    #[test]
    fn a_number_of_more_bits_than_there_are_is_none() {
        assert_eq!(RecordReader(&[0xff; 10]).read::<u64>(), None);
        assert_eq!(RecordReader(&[0xff, 0xff, 0xff, 0xff, 0x7f]).read::<u32>(), None);
        assert_eq!(RecordReader(&[0x80]).read::<u64>(), None);
    }
}
