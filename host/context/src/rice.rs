//! An adaptive Rice code: it stores small numbers in few bits, and its parameter follows the numbers before.
//!
//! Neighbouring files share words, and a word recurs soon after it was used. So gaps are small for a while and then
//! large. An adaptive parameter saves a bit or two for each number, compared with one parameter for all.

/// A quotient is written in unary, as zeros before a one. A number with a larger quotient is written in full.
const QUOTIENT_MAX: u32 = 18;

/// Bits of a number that is written in full.
const WHOLE_BITS: u32 = 24;

/// Numbers are below this.
pub(crate) const NUMBERS_MAX: usize = 1 << WHOLE_BITS;

/// Running mean of one kind of numbers, in sixteenths. Writer and reader update it in the same way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningMean(u32);

impl RunningMean {
    /// Begins with the mean that the caller expects.
    pub(crate) fn new(expected: usize) -> Self {
        Self((expected.min(NUMBERS_MAX) as u32) << 4)
    }

    /// Bits of the remainder: the binary logarithm of about two thirds of the mean.
    fn parameter(self) -> u32 {
        ((self.0 >> 4) * 11 / 16).checked_ilog2().unwrap_or(0)
    }

    /// Adds a number. Damaged bytes can contain a number above the limit, which counts as the limit.
    fn update(&mut self, number: u32) {
        self.0 = self.0 - (self.0 >> 3) + (number.min(NUMBERS_MAX as u32) << 1);
    }
}

#[derive(Debug)]
pub(crate) struct RiceWriter<'a> {
    into: &'a mut Vec<u8>,
    /// The last bits, which do not fill four bytes yet, and their number.
    pending: u64,
    count: u32,
}

impl<'a> RiceWriter<'a> {
    pub(crate) fn new(into: &'a mut Vec<u8>) -> Self {
        Self {
            into,
            pending: 0,
            count: 0,
        }
    }

    pub(crate) fn put(&mut self, mean: &mut RunningMean, number: u32) {
        let parameter = mean.parameter();
        let quotient = number >> parameter;
        if quotient < QUOTIENT_MAX {
            self.put_bits(1_u64 << quotient, quotient + 1);
            self.put_bits(u64::from(number & ((1 << parameter) - 1)), parameter);
        } else {
            self.put_bits(0, QUOTIENT_MAX);
            self.put_bits(u64::from(number), WHOLE_BITS);
        }
        mean.update(number);
    }

    /// Writes the lowest `count` bits of a number, at most 32.
    pub(crate) fn put_plain(&mut self, number: u32, count: u32) {
        self.put_bits(u64::from(number) & ((1 << count) - 1), count);
    }

    /// Number of written bits, if the bytes were empty before.
    pub(crate) fn bits(&self) -> usize {
        self.into.len() * 8 + self.count as usize
    }

    /// At most 32 bits.
    #[inline]
    fn put_bits(&mut self, bits: u64, count: u32) {
        self.pending |= bits << self.count;
        self.count += count;
        if self.count >= 32 {
            self.into.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.count -= 32;
        }
    }

    /// Writes the last bits, and fills their byte with zeros.
    pub(crate) fn finish(self) {
        let bytes = self.pending.to_le_bytes();
        self.into.extend_from_slice(&bytes[..self.count.div_ceil(8) as usize]);
    }
}

/// Reads numbers that a writer wrote. After the end of the bytes it reads zeros; the caller checks `is_at_end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RiceReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> RiceReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self::from_bit(bytes, 0)
    }

    pub(crate) fn from_bit(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Position of the next number in bits.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// True if the reader has used all bytes and no more.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len()
    }

    /// Reads the next number. Damaged bytes give any number below 2^28.
    #[inline]
    pub(crate) fn next(&mut self, mean: &mut RunningMean) -> u32 {
        let parameter = mean.parameter();
        let bits = self.bits();
        let zeros = bits.trailing_zeros();
        let number = if zeros < QUOTIENT_MAX {
            self.at += (zeros + 1 + parameter) as usize;
            zeros << parameter | (bits >> (zeros + 1)) as u32 & ((1 << parameter) - 1)
        } else {
            self.at += (QUOTIENT_MAX + WHOLE_BITS) as usize;
            (bits >> QUOTIENT_MAX) as u32 & ((1 << WHOLE_BITS) - 1)
        };
        mean.update(number);
        number
    }

    /// Reads a number of `count` bits, at most 32.
    #[inline]
    pub(crate) fn plain(&mut self, count: u32) -> u32 {
        let number = self.bits() & ((1 << count) - 1);
        self.at += count as usize;
        number as u32
    }

    /// At least 56 bits from the current position; zeros after the end.
    #[inline]
    fn bits(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or(&[]);
        let word = if let Some(word) = rest.first_chunk::<8>() {
            u64::from_le_bytes(*word)
        } else {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(word)
        };
        word >> (self.at % 8)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_of_two_kinds_come_back(numbers in proptest::collection::vec((prop_oneof![0_u32..9, 0_u32..1 << 24], 0_u32..40), 0..200), expected in 0_usize..1 << 25) {
            let start = || [RunningMean::new(expected), RunningMean::new(0)];
            let mut bytes = Vec::new();
            let (mut writer, [mut one, mut other]) = (RiceWriter::new(&mut bytes), start());
            for &(a, b) in &numbers {
                writer.put(&mut one, a);
                writer.put_plain(a, 24);
                writer.put(&mut other, b);
            }
            writer.finish();
            let (mut reader, [mut one, mut other]) = (RiceReader::new(&bytes), start());
            for number in numbers {
                let a = reader.next(&mut one);
                prop_assert_eq!(reader.plain(24), a);
                prop_assert_eq!((a, reader.next(&mut other)), number);
            }
            prop_assert!(reader.is_at_end());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), expected in 0_usize..1 << 25) {
            let (mut reader, mut mean) = (RiceReader::new(&bytes), RunningMean::new(expected));
            for _ in 0..600 {
                prop_assert!(reader.next(&mut mean) < 1 << 28);
            }
            prop_assert!(!reader.is_at_end());
        }
    }
}
