//! Lists of ascending numbers in few bits: the gaps between them by a Rice code that follows their size.
//!
//! Files that lie together share their words, so that the gaps of a list are small for a while and then large. The code
//! takes its parameter from the gaps before, which costs a bit or two less for each number than one parameter for all.

/// Zeros before the one that ends a quotient; with more of them a gap is written out.
const QUOTIENT_MAX: u32 = 18;

/// Bits of a gap that is written out.
const WHOLE_BITS: u32 = 24;

/// Numbers of a list are below this.
pub(super) const NUMBERS_MAX: usize = 1 << WHOLE_BITS;

/// The running mean of the gaps, in sixteenths of a sixteenth.
#[derive(Debug, Clone, Copy)]
struct GapMean(u32);

impl GapMean {
    /// Before the first gap: as if the numbers were spread evenly.
    fn new(count: usize, end: usize) -> Self {
        let gap = (end / count.max(1)).min(NUMBERS_MAX);
        Self((gap as u32) << 4)
    }

    /// Bits of the remainder. It is the logarithm of two thirds of the mean.
    fn parameter(self) -> u32 {
        ((self.0 >> 4) * 11 / 16).checked_ilog2().unwrap_or(0)
    }

    fn follow(&mut self, gap: u32) {
        self.0 = self.0 - (self.0 >> 3) + (gap << 1);
    }
}

/// Appends a list of ascending numbers below `end`.
pub(super) fn encode(numbers: &[u32], end: usize, into: &mut Vec<u8>) {
    let mut bits = BitWriter {
        into,
        held: 0,
        count: 0,
    };
    let (mut mean, mut next) = (GapMean::new(numbers.len(), end), 0);
    for &number in numbers {
        let (gap, parameter) = (number - next, mean.parameter());
        let quotient = gap >> parameter;
        if quotient < QUOTIENT_MAX {
            bits.put(1_u64 << quotient, quotient + 1);
            bits.put(u64::from(gap & ((1 << parameter) - 1)), parameter);
        } else {
            bits.put(0, QUOTIENT_MAX);
            bits.put(u64::from(gap), WHOLE_BITS);
        }
        mean.follow(gap);
        next = number + 1;
    }
    bits.finish();
}

/// Calls `visit` with the numbers of a list of `count`; false where its bytes are none.
pub(super) fn decode(bytes: &[u8], count: usize, end: usize, mut visit: impl FnMut(u32)) -> bool {
    let (mut mean, mut next, mut at) = (GapMean::new(count, end), 0_u32, 0_usize);
    for _ in 0..count {
        let parameter = mean.parameter();
        let held = bits_at(bytes, at);
        let zeros = held.trailing_zeros();
        let gap = if zeros < QUOTIENT_MAX {
            at += (zeros + 1 + parameter) as usize;
            let rest = (held >> (zeros + 1)) as u32 & ((1 << parameter) - 1);
            zeros << parameter | rest
        } else {
            at += (QUOTIENT_MAX + WHOLE_BITS) as usize;
            (held >> QUOTIENT_MAX) as u32 & ((1 << WHOLE_BITS) - 1)
        };
        let number = next.saturating_add(gap);
        if number as usize >= end {
            return false;
        }
        visit(number);
        mean.follow(gap);
        next = number + 1;
    }
    at.div_ceil(8) == bytes.len()
}

/// At least 56 bits from a place on; zeros behind the end.
#[inline]
fn bits_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at / 8..).unwrap_or(&[]);
    let word = if let Some(word) = rest.first_chunk::<8>() {
        u64::from_le_bytes(*word)
    } else {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(word)
    };
    word >> (at % 8)
}

struct BitWriter<'a> {
    into: &'a mut Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter<'_> {
    /// At most 32 bits.
    #[inline]
    fn put(&mut self, bits: u64, count: u32) {
        self.held |= bits << self.count;
        self.count += count;
        if self.count >= 32 {
            self.into.extend_from_slice(&(self.held as u32).to_le_bytes());
            self.held >>= 32;
            self.count -= 32;
        }
    }

    fn finish(self) {
        let bytes = self.held.to_le_bytes();
        self.into.extend_from_slice(&bytes[..self.count.div_ceil(8) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: &[u8], count: usize, end: usize) -> Option<Vec<u32>> {
        let mut numbers = Vec::new();
        decode(bytes, count, end, |number| numbers.push(number)).then_some(numbers)
    }

    proptest! {
        #[test]
        fn a_list_comes_back(numbers in proptest::collection::btree_set(prop_oneof![0_u32..200, 0_u32..1 << 24], 0..300)) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            for end in [NUMBERS_MAX, numbers.last().map_or(0, |last| *last as usize + 1)] {
                let mut bytes = Vec::new();
                encode(&numbers, end, &mut bytes);
                prop_assert_eq!(decoded(&bytes, numbers.len(), end), Some(numbers.clone()));
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), count in 0_usize..300, end in 1_usize..5000) {
            let numbers = decoded(&bytes, count, end);
            prop_assert!(numbers.is_none_or(|numbers| numbers.iter().collect::<BTreeSet<_>>().len() == count));
        }
    }

    #[test]
    fn lists_take_few_bits() {
        let bytes = |numbers: &[u32]| {
            let mut bytes = Vec::new();
            encode(numbers, 100_000, &mut bytes);
            bytes.len()
        };
        let all: Vec<u32> = (0..100_000).collect();
        let together: Vec<u32> = (0..50)
            .flat_map(|group| (0..100).map(move |one| group * 2000 + one))
            .collect();
        let spread: Vec<u32> = (0..1000)
            .map(|one| one * 97 % 100_000)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        assert_eq!(
            [bytes(&all), bytes(&together), bytes(&spread), bytes(&[99_999])],
            [12_500, 1646, 1002, 3]
        );
    }
}
