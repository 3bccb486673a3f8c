//! The words of a text: for each word the hash of its stem, and its number of occurrences in each block of lines.
//!
//! A selection looks up a few words in each of some thousand files, and most files have none of them. So the words are
//! sorted by hash and divided into groups, and a binary search over the first hashes finds the only group that can have
//! a word. A group has the gaps between its hashes, and then its occurrences: the ascending non-zero cells of a table
//! with a row for each word and a column for each block.

use std::cell::RefCell;

use crate::codec::{RecordReader, put_bytes, put_number, put_value};
use crate::rice::{RiceReader, RiceWriter, RunningMean};
use crate::words::{each_identifier, hash, split_identifier, stem_word};

/// Lines of one block. Hits are counted by block; a window is a run of blocks.
pub(crate) const BLOCK_LINES: u32 = 10;

/// Longer lines are data, such as minified code, and their words do not count.
pub(crate) const LINE_BYTES_MAX: usize = 2000;

const GROUP_WORDS: usize = 32;

/// Number of lowest bits of a gap between hashes that are written without the Rice code, because they are random.
const PLAIN_BITS: u32 = 8;

/// Bytes of a group's head: the hash of its first word, and the position of its end in bits.
const HEAD_BYTES: usize = 8;

/// Collects the words of a text by block.
#[derive(Default)]
pub(super) struct WordCounter {
    /// Each occurrence as one number: the hash in the upper half, the block in the lower half.
    occurrences: Vec<u64>,
    blocks: Vec<u32>,
}

thread_local! {
    /// Reused for all files of a thread, so that its memory is allocated once.
    static WORD_COUNTER: RefCell<WordCounter> = RefCell::default();
}

/// Appends the words of a text, and returns their number.
pub(super) fn write_words(text: &str, into: &mut Vec<u8>) -> u32 {
    WORD_COUNTER.with_borrow_mut(|counter| {
        counter.read(text);
        counter.write(into);
        counter.blocks.iter().sum()
    })
}

impl WordCounter {
    fn read(&mut self, text: &str) {
        self.occurrences.clear();
        self.blocks.clear();
        self.blocks.push(0);
        for (index, line) in split_lines(text.as_bytes()).enumerate() {
            let block = index as u32 / BLOCK_LINES;
            if block as usize == self.blocks.len() {
                self.blocks.push(0);
            }
            if line.len() > LINE_BYTES_MAX {
                continue;
            }
            let (mut words, occurrences) = (0, &mut self.occurrences);
            each_identifier(line, |identifier| {
                split_identifier(identifier, |word, whole| {
                    words += u32::from(!whole);
                    occurrences.push(u64::from(hash(stem_word(word))) << 32 | u64::from(block));
                });
            });
            self.blocks[block as usize] += words;
        }
        self.occurrences.sort_unstable();
    }

    fn write(&self, into: &mut Vec<u8>) {
        let mut blocks = Vec::new();
        self.blocks.iter().for_each(|words| put_number(&mut blocks, *words));
        put_bytes(into, &blocks);

        let words: Vec<&[u64]> = self.occurrences.chunk_by(|a, b| a >> 32 == b >> 32).collect();
        put_value(into, &words.len());
        let mut groups = Vec::new();
        let mut writer = RiceWriter::new(&mut groups);
        for group in words.chunks(GROUP_WORDS) {
            write_hashes(group, words.len(), &mut writer);
            self.write_occurrences(group, &mut writer);
            into.extend_from_slice(&hash_of(group[0]).to_le_bytes());
            into.extend_from_slice(&(writer.bits() as u32).to_le_bytes());
        }
        writer.finish();
        put_bytes(into, &groups);
    }

    fn write_occurrences(&self, words: &[&[u64]], writer: &mut RiceWriter<'_>) {
        let (mut gaps, mut counts) = initial_means(self.blocks.len());
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

fn hash_of(word: &[u64]) -> u32 {
    (word[0] >> 32) as u32
}

/// Writes the gaps between the hashes of a group, of a text with `words_count` words.
fn write_hashes(words: &[&[u64]], words_count: usize, writer: &mut RiceWriter<'_>) {
    let mut gaps = mean_gap(words_count);
    for pair in words.windows(2) {
        let gap = hash_of(pair[1]) - hash_of(pair[0]);
        writer.put(&mut gaps, gap >> PLAIN_BITS);
        writer.put_plain(gap, PLAIN_BITS);
    }
}

/// The expected gap, upper bits only: hashes are spread evenly.
fn mean_gap(words_count: usize) -> RunningMean {
    RunningMean::new((1 << (32 - PLAIN_BITS)) / words_count.max(1))
}

/// The expected gaps and counts of occurrences: each word is in two blocks, once in each.
fn initial_means(blocks: usize) -> (RunningMean, RunningMean) {
    (RunningMean::new(blocks / 2), RunningMean::new(0))
}

/// The stored words of a profile. The bytes may be damaged.
pub(super) struct StoredWords<'a> {
    pub(super) blocks: RecordReader<'a>,
    blocks_count: usize,
    words_count: usize,
    heads: &'a [[u8; HEAD_BYTES]],
    groups: &'a [u8],
}

struct WordGroup<'a> {
    hashes: [u32; GROUP_WORDS],
    words_count: usize,
    /// At the first occurrence.
    reader: RiceReader<'a>,
    /// Bits up to its end.
    end: usize,
}

impl WordGroup<'_> {
    fn hashes(&self) -> &[u32] {
        &self.hashes[..self.words_count]
    }
}

impl<'a> StoredWords<'a> {
    pub(super) fn read(from: &mut RecordReader<'a>) -> Option<Self> {
        let (blocks, words_count): (&[u8], usize) = from.read()?;
        let heads_bytes = words_count.div_ceil(GROUP_WORDS).checked_mul(HEAD_BYTES)?;
        let (heads, rest) = from.0.split_at_checked(heads_bytes)?;
        from.0 = rest;
        Some(Self {
            // Counts the numbers: only the last byte of each is below 128.
            blocks_count: blocks.iter().filter(|byte| **byte < 0x80).count(),
            blocks: RecordReader(blocks),
            words_count,
            heads: heads.as_chunks().0,
            groups: from.read()?,
        })
    }

    /// Occurrences of some terms: block, term and count. `terms` are hashes of stems.
    pub(super) fn hits(&self, terms: &[(u32, u16)]) -> Option<Vec<(u32, u16, u16)>> {
        let mut hits = Vec::new();
        for (hash, term) in terms {
            let after = self.heads.partition_point(|head| first_hash(head) <= *hash);
            let Some(at) = after.checked_sub(1) else {
                continue;
            };
            let group = self.group(at)?;
            let Ok(row) = group.hashes().binary_search(hash) else {
                continue;
            };
            self.each_occurrence(group, |other, block, count| {
                if other == row {
                    hits.push((block, *term, count.min(u32::from(u16::MAX)) as u16));
                }
                other <= row
            })?;
        }
        Some(hits)
    }

    /// Calls `found` with the hash and the count of each word, in ascending order of hashes. `None` if it is damaged.
    pub(super) fn each(&self, mut found: impl FnMut(u32, u32)) -> Option<()> {
        for at in 0..self.heads.len() {
            let group = self.group(at)?;
            let (hashes, words_count) = (group.hashes, group.words_count);
            let mut sums = [0_u32; GROUP_WORDS];
            self.each_occurrence(group, |row, _, count| {
                sums[row] = sums[row].saturating_add(count);
                true
            })?;
            for (hash, sum) in hashes.iter().zip(sums).take(words_count) {
                found(*hash, sum);
            }
        }
        Some(())
    }

    fn group(&self, at: usize) -> Option<WordGroup<'a>> {
        let start = at
            .checked_sub(1)
            .map_or(Some(0), |before| Some(read_end(self.heads.get(before)?)))?;
        let head = self.heads.get(at)?;
        let words_count = (self.words_count - at * GROUP_WORDS).min(GROUP_WORDS);
        let mut reader = RiceReader::from_bit(self.groups, start);
        let (mut hashes, mut gaps) = ([first_hash(head); GROUP_WORDS], mean_gap(self.words_count));
        for row in 1..words_count {
            let gap = reader.next(&mut gaps) << PLAIN_BITS | reader.plain(PLAIN_BITS);
            hashes[row] = hashes[row - 1].checked_add(gap)?;
        }
        Some(WordGroup {
            hashes,
            words_count,
            reader,
            end: read_end(head),
        })
    }

    /// Calls `found` with row, block and count of each occurrence of a group, as long as it returns true.
    fn each_occurrence(&self, group: WordGroup<'_>, mut found: impl FnMut(usize, u32, u32) -> bool) -> Option<()> {
        let mut reader = group.reader;
        let blocks = u32::try_from(self.blocks_count).ok().filter(|blocks| *blocks > 0)?;
        let (mut gaps, mut counts) = initial_means(self.blocks_count);
        let (mut row, mut next) = (0_usize, 0_u32);
        while reader.at() < group.end {
            let mut block = next.checked_add(reader.next(&mut gaps))?;
            let count = reader.next(&mut counts) + 1;
            if block >= blocks {
                row += (block / blocks) as usize;
                block %= blocks;
            }
            if row >= group.words_count || reader.at() > group.end {
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

fn first_hash(head: &[u8; HEAD_BYTES]) -> u32 {
    let [a, b, c, d, ..] = *head;
    u32::from_le_bytes([a, b, c, d])
}

fn read_end(head: &[u8; HEAD_BYTES]) -> usize {
    let [.., a, b, c, d] = *head;
    u32::from_le_bytes([a, b, c, d]) as usize
}

/// The lines of a text, as `str::lines` divides them, but faster.
fn split_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
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
                split_identifier(identifier, |word, _| {
                    *counted
                        .entry(hash(stem_word(word)))
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
            let found: Vec<&[u8]> = split_lines(text.as_bytes()).collect();
            prop_assert_eq!(found, text.lines().map(str::as_bytes).collect::<Vec<_>>());
        }

        #[test]
        fn each_word_is_found_where_it_is(lines in proptest::collection::vec("([a-f]{2,3} ?){0,6}|\n{9}", 0..120)) {
            let text = lines.join("\n");
            let mut bytes = Vec::new();
            write_words(&text, &mut bytes);
            let words = StoredWords::read(&mut RecordReader(&bytes)).expect("it was written just now");
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
