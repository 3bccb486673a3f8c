//! The inverted index of words, by which a selection in a large tree chooses the profiles that it reads.
//!
//! A key is a part of a word's hash, and one bit that says whether the document has the word often. So two words can
//! share a key, and counts are approximate. The profiles that are read have the exact counts. For the other files, the
//! approximate counts go into the statistics of the ranking.

use std::sync::Arc;

use super::catalogue::ContentDigest;
use super::index_view::IndexView;
use super::indexer::FileIndexer;
use super::postings::{DocumentPlace, PostedDocument, PostingKey, Segment};
use crate::codec::put_number;
use crate::profile::Profile;
use crate::query::Query;
use crate::word_hits::{FileSize, WordHits};

/// Bits of a hash that a key drops. With one bit for the count, a key has 24 bits.
const HASH_BITS_LEFT_OUT: u32 = 9;

/// 2^32 divided by the golden ratio. Multiplying by it spreads hashes over their upper bits, which are equal for
/// similar words.
const SPREAD: u32 = 0x9e37_79b9;

/// Occurrences from which a document counts as one that has the word often.
const OFTEN_MIN: u32 = 3;

/// The keys of a word: one for documents that have it rarely, one for those that have it often.
fn keys_of(hash: u32) -> [PostingKey; 2] {
    let key = hash.wrapping_mul(SPREAD) >> HASH_BITS_LEFT_OUT << 1;
    [key, key | 1]
}

/// The keys of a profile's words, encoded as the gaps between them.
fn encode_words(profile: &Profile) -> Box<[u8]> {
    let mut keys: Vec<PostingKey> = Vec::new();
    profile.each_word(|hash, count| keys.push(keys_of(hash)[usize::from(count >= OFTEN_MIN)]));
    keys.sort_unstable();
    let (mut gaps, mut last) = (Vec::new(), 0);
    // If two words share a key, the one that occurs often counts.
    for sharing in keys.chunk_by(|a, b| a | 1 == b | 1) {
        let key = sharing[sharing.len() - 1];
        put_number(&mut gaps, key - last);
        last = key;
    }
    gaps.into()
}

/// The attribute of a document: words and blocks of its profile.
fn attribute_of_size(size: FileSize) -> u64 {
    u64::from(size.words) << 32 | u64::from(size.blocks)
}

fn size_of_attribute(attribute: u64) -> FileSize {
    FileSize {
        words: (attribute >> 32) as u32,
        blocks: attribute as u32,
    }
}

impl FileIndexer {
    /// The words of a profile, unless the postings have them already.
    pub(super) fn words_of(&self, digest: &ContentDigest, profile: &Profile) -> Option<PostedDocument> {
        let words = Arc::clone(&self.index.lock().words);
        if words.is_full || words.place_of(digest).is_some() {
            return None;
        }
        let (words, blocks) = (profile.words(), profile.blocks().len() as u32);
        Some(PostedDocument {
            digest: *digest,
            attribute: attribute_of_size(FileSize { words, blocks }),
            keys: encode_words(profile),
        })
    }
}

impl IndexView {
    /// The files that have the words of a task. `None` if there are so few files that reading every profile is faster.
    pub(super) fn find_words(&self, query: &Query, paths: &[&str], files: &[usize]) -> Option<WordHits> {
        let bounds = &self.indexer.indexes.bounds;
        if files.len() <= bounds.read_all {
            return None;
        }
        let words = self.indexer.documents().words;
        let mut found = WordHits {
            files_max: bounds.read,
            sizes: vec![None; files.len()],
            rare: vec![Vec::new(); query.terms.len()],
            often: vec![Vec::new(); query.terms.len()],
        };
        let segments = words.postings.segments();
        let lists: Vec<Option<Vec<Vec<u32>>>> = segments.iter().map(|segment| read_lists(segment, query)).collect();
        if lists.contains(&None) {
            self.indexer.index.drop_damaged(&words.postings, &lists);
        }
        let mut holders: Vec<DocumentFiles> = segments
            .iter()
            .map(|one| DocumentFiles::new(one.documents().len()))
            .collect();
        let mut next = vec![NONE; files.len()];
        for (at, file) in (0_u32..).zip(files) {
            let listed = self.indexer.files.find_near(paths[*file], *file);
            let place = listed.and_then(|listed| words.places[listed]);
            let known = place.filter(|place| lists[place.segment as usize].is_some());
            if let Some(DocumentPlace { segment, document }) = known {
                found.sizes[at as usize] = Some(size_of_attribute(
                    words.postings.attribute(DocumentPlace { segment, document }),
                ));
                let holder = &mut holders[segment as usize].0[document as usize];
                next[at as usize] = std::mem::replace(holder, at);
            }
        }
        for (holders, lists) in holders.iter().zip(lists) {
            let lists = lists.unwrap_or_default();
            for ((_, term), lists) in query.index.iter().zip(lists.chunks(2)) {
                let term = usize::from(*term);
                for (list, into) in lists.iter().zip([&mut found.rare[term], &mut found.often[term]]) {
                    list.iter()
                        .for_each(|document| holders.each(*document, &next, |at| into.push(at)));
                }
            }
        }
        Some(found)
    }
}

/// Two lists for each term of a query, in the order of `Query::index`. `None` if the segment is damaged.
fn read_lists(segment: &Segment, query: &Query) -> Option<Vec<Vec<u32>>> {
    let keys: Vec<PostingKey> = query.index.iter().flat_map(|(hash, _)| keys_of(*hash)).collect();
    segment.lists(&keys).ok()
}

const NONE: u32 = u32::MAX;

/// For each document of a segment: the last file with its content. Each file links to the next one in `next`.
struct DocumentFiles(Vec<u32>);

impl DocumentFiles {
    fn new(documents: usize) -> Self {
        Self(vec![NONE; documents])
    }

    fn each(&self, document: u32, next: &[u32], mut found: impl FnMut(u32)) {
        let mut at = self.0[document as usize];
        while at != NONE {
            found(at);
            at = next[at as usize];
        }
    }
}

#[cfg(test)]
mod tests;
