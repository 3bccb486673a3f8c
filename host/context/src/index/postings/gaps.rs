//! Encodes a list of ascending numbers as the gaps between them, with the Rice code of `rice`.

use crate::rice::{NUMBERS_MAX, RiceReader, RiceWriter, RunningMean};

/// The expected gap: that of evenly spread numbers.
fn mean_gap(count: usize, end: usize) -> RunningMean {
    RunningMean::new(end / count.max(1))
}

/// Appends a list of ascending numbers below `end`, which is at most `NUMBERS_MAX`.
pub(super) fn encode_gaps(numbers: &[u32], end: usize, into: &mut Vec<u8>) {
    debug_assert!(end <= NUMBERS_MAX);
    let (mut writer, mut mean, mut next) = (RiceWriter::new(into), mean_gap(numbers.len(), end), 0);
    for &number in numbers {
        writer.put(&mut mean, number - next);
        next = number + 1;
    }
    writer.finish();
}

/// Calls `visit` with each of the `count` numbers of a list. Returns false if its bytes are damaged.
pub(super) fn decode_gaps(bytes: &[u8], count: usize, end: usize, mut visit: impl FnMut(u32)) -> bool {
    let (mut reader, mut mean, mut next) = (RiceReader::new(bytes), mean_gap(count, end), 0_u32);
    for _ in 0..count {
        let number = next.saturating_add(reader.next(&mut mean));
        if number as usize >= end {
            return false;
        }
        visit(number);
        next = number + 1;
    }
    reader.is_at_end()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: &[u8], count: usize, end: usize) -> Option<Vec<u32>> {
        let mut numbers = Vec::new();
        decode_gaps(bytes, count, end, |number| numbers.push(number)).then_some(numbers)
    }

    proptest! {
        #[test]
        fn a_list_comes_back(numbers in proptest::collection::btree_set(prop_oneof![0_u32..200, 0_u32..1 << 24], 0..300)) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            for end in [NUMBERS_MAX, numbers.last().map_or(0, |last| *last as usize + 1)] {
                let mut bytes = Vec::new();
                encode_gaps(&numbers, end, &mut bytes);
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
            encode_gaps(numbers, 100_000, &mut bytes);
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
