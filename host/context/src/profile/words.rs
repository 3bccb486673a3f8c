//! The words of a text: a hash of each word's stem, and in which blocks of lines it occurs how often.
//!
//! A selection asks each of some thousand files for a few words, and most files have none of them. So the hashes are an
//! array that can be searched, and the occurrences lie in groups of words, of which only those with a word that was found
//! are read. In a group they are ascending cells of a table with a row for each word and a column for each block.

use std::cell::RefCell;

use crate::codec::{RecordReader, put, put_bytes};
use crate::rice::{RiceReader, RiceWriter, RunningMean};
use crate::words::{each_identifier, hash, split, stem};

/// Lines of one block. Hits are counted by block; a window is a run of blocks.
pub(crate) const BLOCK_LINES: u32 = 10;

/// Longer lines are data.
pub(crate) const LINE_BYTES_MAX: usize = 2000;

/// Words whose occurrences lie together.
const GROUP_WORDS: usize = 32;

/// Words of a text by block, while it is measured.
#[derive(Default)]
pub(super) struct Tally {
    /// Hash and block of each occurrence, as one number that sorts by hash and then by block.
    occurrences: Vec<u64>,
    blocks: Vec<u32>,
}

thread_local! {
    /// Kept from file to file: its memory is that of the largest.
    static TALLY: RefCell<Tally> = RefCell::default();
}

/// Appends the words of a text, and returns their number.
pub(super) fn write(text: &str, into: &mut Vec<u8>) -> u32 {
    TALLY.with_borrow_mut(|tally| {
        tally.read(text);
        tally.write(into);
        tally.blocks.iter().sum()
    })
}

impl Tally {
    fn read(&mut self, text: &str) {
        self.occurrences.clear();
        self.blocks.clear();
        self.blocks.push(0);
        for (index, line) in lines(text.as_bytes()).enumerate() {
            let block = index as u32 / BLOCK_LINES;
            if block as usize == self.blocks.len() {
                self.blocks.push(0);
            }
            if line.len() > LINE_BYTES_MAX {
                continue;
            }
            let (mut words, occurrences) = (0, &mut self.occurrences);
            each_identifier(line, |identifier| {
                split(identifier, |word, whole| {
                    words += u32::from(!whole);
                    occurrences.push(u64::from(hash(stem(word))) << 32 | u64::from(block));
                });
            });
            self.blocks[block as usize] += words;
        }
        self.occurrences.sort_unstable();
    }

    fn write(&self, into: &mut Vec<u8>) {
        let mut blocks = Vec::new();
        self.blocks.iter().for_each(|words| put(&mut blocks, u64::from(*words)));
        put_bytes(into, &blocks);

        let words: Vec<&[u64]> = self.occurrences.chunk_by(|a, b| a >> 32 == b >> 32).collect();
        put(into, words.len() as u64);
        for word in &words {
            into.extend_from_slice(&((word[0] >> 32) as u32).to_le_bytes());
        }
        let mut occurrences = Vec::new();
        let mut writer = RiceWriter::new(&mut occurrences);
        for group in words.chunks(GROUP_WORDS) {
            self.write_group(group, &mut writer);
            into.extend_from_slice(&(writer.bits() as u32).to_le_bytes());
        }
        writer.finish();
        put_bytes(into, &occurrences);
    }

    fn write_group(&self, words: &[&[u64]], writer: &mut RiceWriter<'_>) {
        let (mut gaps, mut counts) = means(self.blocks.len());
        let mut next = 0;
        for (row, word) in (0_u32..).zip(words) {
            for block in word.chunk_by(|a, b| a == b) {
                let cell = row * self.blocks.len() as u32 + block[0] as u32;
                writer.put(&mut gaps, cell - next);
                writer.put(&mut counts, block.len() as u32 - 1);
                next = cell + 1;
            }
        }
    }
}

/// Before the first occurrence of a group: gaps between them as if each word were in two blocks, and once in each.
fn means(blocks: usize) -> (RunningMean, RunningMean) {
    (RunningMean::new(blocks / 2), RunningMean::new(0))
}

/// The words as they were written. They can be damaged in any way.
pub(super) struct Words<'a> {
    /// Words of each block.
    pub(super) blocks: RecordReader<'a>,
    blocks_count: usize,
    hashes: &'a [[u8; 4]],
    /// By group: bits of occurrences up to its end.
    ends: &'a [[u8; 4]],
    occurrences: &'a [u8],
}

impl<'a> Words<'a> {
    pub(super) fn read(from: &mut RecordReader<'a>) -> Option<Self> {
        let blocks = from.sized()?;
        let words = usize::try_from(from.number()?).ok()?;
        let hashes = from.bytes(words.checked_mul(4)?)?;
        let ends = from.bytes(words.div_ceil(GROUP_WORDS) * 4)?;
        Some(Self {
            // The last byte of a number is below 128.
            blocks_count: blocks.iter().filter(|byte| **byte < 0x80).count(),
            blocks: RecordReader(blocks),
            hashes: hashes.as_chunks().0,
            ends: ends.as_chunks().0,
            occurrences: from.sized()?,
        })
    }

    /// Occurrences of some terms: block, term and count. `terms` are hashes of stems.
    pub(super) fn hits(&self, terms: &[(u32, u16)]) -> Option<Vec<(u32, u16, u16)>> {
        let mut hits = Vec::new();
        for (hash, term) in terms {
            let Ok(at) = self.hashes.binary_search_by_key(hash, |one| u32::from_le_bytes(*one)) else {
                continue;
            };
            let row = at % GROUP_WORDS;
            self.each_of_group(at / GROUP_WORDS, |other, block, count| {
                if other == row {
                    hits.push((block, *term, count.min(u32::from(u16::MAX)) as u16));
                }
                other <= row
            })?;
        }
        Some(hits)
    }

    /// Calls `found` for each word with its hash, ascending, and how often it occurs. Ends early where it is damaged.
    pub(super) fn each(&self, mut found: impl FnMut(u32, u32)) -> Option<()> {
        for (group, hashes) in self.hashes.chunks(GROUP_WORDS).enumerate() {
            let mut sums = [0_u32; GROUP_WORDS];
            self.each_of_group(group, |row, _, count| {
                sums[row] = sums[row].saturating_add(count);
                true
            })?;
            for (hash, sum) in hashes.iter().zip(sums) {
                found(u32::from_le_bytes(*hash), sum);
            }
        }
        Some(())
    }

    /// Calls `found` with row, block and count of each occurrence of a group, as long as it returns true.
    fn each_of_group(&self, group: usize, mut found: impl FnMut(usize, u32, u32) -> bool) -> Option<()> {
        let end_of = |group: usize| Some(u32::from_le_bytes(*self.ends.get(group)?) as usize);
        let start = group.checked_sub(1).map_or(Some(0), end_of)?;
        let end = end_of(group)?;
        let mut reader = RiceReader::from_bit(self.occurrences, start);
        let rows = (self.hashes.len() - group * GROUP_WORDS).min(GROUP_WORDS);
        let blocks = u32::try_from(self.blocks_count).ok().filter(|blocks| *blocks > 0)?;
        let (mut gaps, mut counts) = means(self.blocks_count);
        let (mut row, mut next) = (0_usize, 0_u32);
        while reader.at() < end {
            let mut block = next.checked_add(reader.next(&mut gaps))?;
            let count = reader.next(&mut counts) + 1;
            if block >= blocks {
                row += (block / blocks) as usize;
                block %= blocks;
            }
            if row >= rows || reader.at() > end {
                return None;
            }
            if !found(row, block, count) {
                break;
            }
            next = block + 1;
        }
        Some(())
    }
}

/// The lines of a text as `str::lines` has them, found faster.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest);
        let line = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[], |end| &rest[end + 1..]);
        Some(line.strip_suffix(b"\r").filter(|_| end.is_some()).unwrap_or(line))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Occurrences by hash and block, counted one by one.
    fn counted(text: &str) -> BTreeMap<u32, BTreeMap<u32, u32>> {
        let mut counted: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
        for (at, line) in (0_u32..).zip(text.lines()) {
            each_identifier(line.as_bytes(), |identifier| {
                split(identifier, |word, _| {
                    *counted
                        .entry(hash(stem(word)))
                        .or_default()
                        .entry(at / BLOCK_LINES)
                        .or_default() += 1;
                });
            });
        }
        counted
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_library(text in "[a\\r\\n]{0,12}") {
            let found: Vec<&[u8]> = lines(text.as_bytes()).collect();
            prop_assert_eq!(found, text.lines().map(str::as_bytes).collect::<Vec<_>>());
        }

        #[test]
        fn each_word_is_found_where_it_is(lines in proptest::collection::vec("([a-f]{2,3} ?){0,6}|\n{9}", 0..120)) {
            let text = lines.join("\n");
            let mut bytes = Vec::new();
            write(&text, &mut bytes);
            let words = Words::read(&mut RecordReader(&bytes)).expect("it was written just now");
            let expected = counted(&text);
            let terms: Vec<(u32, u16)> = expected.keys().map(|hash| (*hash, 0)).collect();
            for (term, blocks) in terms.iter().zip(expected.values()) {
                let hits = words.hits(&[*term]).expect("it was written just now");
                let hits: BTreeMap<u32, u32> = hits.iter().map(|(block, _, count)| (*block, u32::from(*count))).collect();
                prop_assert_eq!(&hits, blocks);
            }
            let mut each = Vec::new();
            words.each(|hash, sum| each.push((hash, sum))).expect("it was written just now");
            let sums: Vec<(u32, u32)> = expected.iter().map(|(hash, blocks)| (*hash, blocks.values().sum())).collect();
            prop_assert_eq!(each, sums);
        }
    }
}
