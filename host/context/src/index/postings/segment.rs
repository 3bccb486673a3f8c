//! A segment: one file with the digests of its documents, and for each key the list of documents that have it.
//!
//! Keys are numbers below 2^24: trigrams, or words (see `index::words`). The lists are in blocks of some kilobytes,
//! sorted by key. The tables of blocks and of documents come last, so that a writer needs no seek. They include the
//! generation, so that no other segment can take the place of this one. The tables and each block have a checksum. A
//! reader loads both tables when it opens the file, and a block when a query needs it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::gaps;
use crate::codec::{self, RecordReader, compute_checksum, put_bytes, put_value};
use crate::index::catalogue::ContentDigest;
use crate::index::pattern::TrigramQuery;

/// First bytes of a segment. Raise the number when the format changes, or when a content gets other keys.
const FORMAT: &[u8; 16] = b"tool posts 0004\n";

/// Bytes after which a block ends.
const BLOCK_BYTES: usize = 16 * 1024;

/// Documents of one segment.
pub(super) const DOCUMENTS_MAX: usize = crate::rice::NUMBERS_MAX;

/// Bytes at the end of a file: where the tables begin.
const TRAILER_BYTES: usize = 8;

/// Maximum length of both tables together.
const TABLE_BYTES_MAX: u64 = 512 * 1024 * 1024;

pub(in crate::index) type PostingKey = u32;

/// Number of a document that a merge drops.
const DROPPED: u32 = u32::MAX;

/// A document that is to be added.
#[derive(Debug, Clone)]
pub(in crate::index) struct PostedDocument {
    pub(in crate::index) digest: ContentDigest,
    /// A number that is stored with the document: its meaning depends on the kind of the inverted index.
    pub(in crate::index) attribute: u64,
    /// Its ascending keys, encoded as the gaps between them.
    pub(in crate::index) keys: Box<[u8]>,
}

/// The bytes of a segment are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the postings are damaged")]
pub(in crate::index) struct DamagedSegment;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct BlockExtent {
    first: PostingKey,
    offset: u64,
    bytes: u32,
    checksum: u32,
}

#[derive(Debug)]
pub(in crate::index) struct Segment {
    file: File,
    pub(super) generation: u64,
    pub(super) bytes: u64,
    documents: Vec<(ContentDigest, u64)>,
    blocks: Vec<BlockExtent>,
}

impl Segment {
    pub(super) fn open(file: File, generation: u64) -> Option<Self> {
        let bytes = file.metadata().ok()?.len();
        let end = bytes.checked_sub(TRAILER_BYTES as u64)?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, end).ok()?;
        let tables_at = u64::from_le_bytes(trailer);
        let length = end.checked_sub(tables_at).filter(|&length| length <= TABLE_BYTES_MAX)?;
        let mut tables = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut tables, tables_at).ok()?;
        let (its_generation, documents, blocks): (u64, Vec<_>, _) = codec::decode_file(FORMAT, &tables)?;
        (its_generation == generation && documents.len() <= DOCUMENTS_MAX).then_some(Self {
            file,
            generation,
            bytes,
            documents,
            blocks,
        })
    }

    pub(in crate::index) fn documents(&self) -> &[(ContentDigest, u64)] {
        &self.documents
    }

    /// The documents that satisfy a query, ascending.
    pub(in crate::index) fn find(&self, query: &TrigramQuery) -> Result<Vec<u32>, DamagedSegment> {
        SegmentReader::new(self).find(query)
    }

    /// For each key, the documents that have it, ascending.
    pub(in crate::index) fn lists(&self, keys: &[PostingKey]) -> Result<Vec<Vec<u32>>, DamagedSegment> {
        let reader = SegmentReader::new(self);
        let list = |key: &PostingKey| match reader.list(*key)? {
            Some(list) => reader.decode(&list),
            None => Ok(Vec::new()),
        };
        keys.iter().map(list).collect()
    }

    fn read_block(&self, at: usize) -> Result<Vec<u8>, DamagedSegment> {
        let extent = self.blocks[at];
        let mut bytes = vec![0; extent.bytes as usize];
        let read = self.file.read_exact_at(&mut bytes, extent.offset);
        if read.is_err() || compute_checksum(&bytes) != extent.checksum {
            return Err(DamagedSegment);
        }
        Ok(bytes)
    }
}

/// The encoded list of a key, as a part of its block.
#[derive(Debug, Clone)]
struct PostingList {
    block: Rc<Vec<u8>>,
    count: usize,
    start: usize,
    end: usize,
}

/// One key of a block, with its list.
struct BlockEntry<'a> {
    key: PostingKey,
    count: usize,
    list: &'a [u8],
}

/// Iterates over the lists of a block.
struct BlockEntries<'a> {
    reader: RecordReader<'a>,
    key: PostingKey,
}

impl<'a> BlockEntries<'a> {
    fn new(block: &'a [u8], first: PostingKey) -> Self {
        Self {
            reader: RecordReader(block),
            key: first,
        }
    }

    fn next(&mut self) -> Result<Option<BlockEntry<'a>>, DamagedSegment> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let (gap, count, list): (PostingKey, _, _) = self.reader.read().ok_or(DamagedSegment)?;
        self.key = self.key.checked_add(gap).ok_or(DamagedSegment)?;
        let key = self.key;
        Ok(Some(BlockEntry { key, count, list }))
    }
}

/// Evaluates one query, with a cache of the blocks that it has read.
struct SegmentReader<'a> {
    segment: &'a Segment,
    blocks: RefCell<HashMap<usize, Rc<Vec<u8>>>>,
}

impl<'a> SegmentReader<'a> {
    fn new(segment: &'a Segment) -> Self {
        Self {
            segment,
            blocks: RefCell::default(),
        }
    }

    fn find(&self, query: &TrigramQuery) -> Result<Vec<u32>, DamagedSegment> {
        match query {
            TrigramQuery::All => Ok((0..self.segment.documents.len() as u32).collect()),
            TrigramQuery::And(keys, parts) => self.find_all(keys, parts),
            TrigramQuery::Or(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    found.extend(self.find(part)?);
                }
                found.sort_unstable();
                found.dedup();
                Ok(found)
            }
        }
    }

    fn find_all(&self, keys: &[PostingKey], parts: &[TrigramQuery]) -> Result<Vec<u32>, DamagedSegment> {
        let mut lists = Vec::new();
        for &key in keys {
            match self.list(key)? {
                Some(list) => lists.push(list),
                None => return Ok(Vec::new()),
            }
        }
        // The shortest list comes first, so that the intermediate results stay small.
        lists.sort_by_key(|list| list.count);
        let mut found: Option<Vec<u32>> = None;
        for list in &lists {
            if found.as_ref().is_some_and(Vec::is_empty) {
                return Ok(Vec::new());
            }
            let documents = self.decode(list)?;
            found = Some(match found {
                None => documents,
                Some(found) => intersect_sorted(&found, &documents),
            });
        }
        for part in parts {
            if found.as_ref().is_some_and(Vec::is_empty) {
                return Ok(Vec::new());
            }
            let documents = self.find(part)?;
            found = Some(match found {
                None => documents,
                Some(found) => intersect_sorted(&found, &documents),
            });
        }
        Ok(found.unwrap_or_default())
    }

    fn decode(&self, list: &PostingList) -> Result<Vec<u32>, DamagedSegment> {
        let end = self.segment.documents.len();
        let mut documents = Vec::with_capacity(list.count.min(end));
        let bytes = &list.block[list.start..list.end];
        gaps::decode_gaps(bytes, list.count, end, |document| documents.push(document))
            .then_some(documents)
            .ok_or(DamagedSegment)
    }

    fn list(&self, key: PostingKey) -> Result<Option<PostingList>, DamagedSegment> {
        let after = self.segment.blocks.partition_point(|block| block.first <= key);
        let Some(at) = after.checked_sub(1) else {
            return Ok(None);
        };
        let known = self.blocks.borrow().get(&at).cloned();
        let block = match known {
            Some(block) => block,
            None => {
                let block = Rc::new(self.segment.read_block(at)?);
                self.blocks.borrow_mut().insert(at, Rc::clone(&block));
                block
            }
        };
        let mut entries = BlockEntries::new(&block, self.segment.blocks[at].first);
        while let Some(entry) = entries.next()? {
            if entry.key >= key {
                let count = entry.count;
                let end = block.len() - entries.reader.0.len();
                let start = end - entry.list.len();
                let list = PostingList {
                    block: Rc::clone(&block),
                    count,
                    start,
                    end,
                };
                return Ok((entry.key == key).then_some(list));
            }
        }
        Ok(None)
    }
}

fn intersect_sorted(a: &[u32], b: &[u32]) -> Vec<u32> {
    let (mut at, mut both) = (0, Vec::new());
    for &one in a {
        while b.get(at).is_some_and(|&other| other < one) {
            at += 1;
        }
        if b.get(at) == Some(&one) {
            both.push(one);
        }
    }
    both
}

/// Writes a segment in ascending order of keys.
struct SegmentWriter {
    file: BufWriter<File>,
    generation: u64,
    offset: u64,
    documents: Vec<(ContentDigest, u64)>,
    blocks: Vec<BlockExtent>,
    block: Vec<u8>,
    first: PostingKey,
    last: PostingKey,
    list: Vec<u8>,
}

impl SegmentWriter {
    fn new(file: File, generation: u64, documents: Vec<(ContentDigest, u64)>) -> Self {
        Self {
            file: BufWriter::with_capacity(256 * 1024, file),
            generation,
            offset: 0,
            documents,
            blocks: Vec::new(),
            block: Vec::new(),
            first: 0,
            last: 0,
            list: Vec::new(),
        }
    }

    /// Adds the next key with its documents.
    fn add(&mut self, key: PostingKey, documents: &[u32]) -> io::Result<()> {
        if self.block.is_empty() {
            (self.first, self.last) = (key, key);
        }
        self.list.clear();
        gaps::encode_gaps(documents, self.documents.len(), &mut self.list);
        put_value(&mut self.block, &(key - self.last, documents.len()));
        put_bytes(&mut self.block, &self.list);
        self.last = key;
        if self.block.len() >= BLOCK_BYTES {
            self.end_block()
        } else {
            Ok(())
        }
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.file.write_all(&self.block)?;
        self.blocks.push(BlockExtent {
            first: self.first,
            offset: self.offset,
            bytes: u32::try_from(self.block.len()).map_err(io::Error::other)?,
            checksum: compute_checksum(&self.block),
        });
        self.offset += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let tables = codec::encode_file(FORMAT, &(self.generation, &self.documents, &self.blocks));
        self.file.write_all(&tables)?;
        self.file.write_all(&self.offset.to_le_bytes())?;
        self.file.flush()
    }
}

/// Writes a segment of new documents.
///
/// It inverts the keys in 256 passes, one for each first byte of a key, and sorts each pass by counting. So it needs
/// little memory beside the keys.
pub(super) fn write_documents(file: File, generation: u64, documents: &[PostedDocument]) -> io::Result<()> {
    let table = documents.iter().map(|one| (one.digest, one.attribute)).collect();
    let mut writer = SegmentWriter::new(file, generation, table);
    let mut cursors: Vec<KeyCursor<'_>> = documents.iter().map(|one| KeyCursor::new(&one.keys)).collect();
    let (mut pairs, mut sorted) = (Vec::new(), Vec::new());
    let mut starts = vec![0_usize; (1 << 16) + 1];
    for pass in 0..=u8::MAX {
        pairs.clear();
        for (document, cursor) in (0_u32..).zip(&mut cursors) {
            while let Some(next) = cursor.next.filter(|&next| next >> 16 == PostingKey::from(pass)) {
                pairs.push((next as u16, document));
                cursor.advance();
            }
        }
        if pairs.is_empty() {
            continue;
        }
        starts.fill(0);
        for (low, _) in &pairs {
            starts[usize::from(*low) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        sorted.resize(pairs.len(), 0);
        for (low, document) in &pairs {
            let place = &mut starts[usize::from(*low)];
            sorted[*place] = *document;
            *place += 1;
        }
        // Filling has moved each start to the end of its list.
        let mut from = 0;
        for (low, &end) in (0..1 << 16).zip(&starts) {
            if end > from {
                writer.add(PostingKey::from(pass) << 16 | low, &sorted[from..end])?;
                from = end;
            }
        }
    }
    writer.finish()
}

/// Iterates over the keys of a document.
struct KeyCursor<'a> {
    reader: RecordReader<'a>,
    next: Option<PostingKey>,
}

impl<'a> KeyCursor<'a> {
    fn new(keys: &'a [u8]) -> Self {
        let mut reader = RecordReader(keys);
        Self {
            next: reader.read(),
            reader,
        }
    }

    fn advance(&mut self) {
        let gap: Option<PostingKey> = self.reader.read();
        self.next = self.next.zip(gap).map(|(last, gap)| last + gap);
    }
}

/// Merges segments into one file, with the documents that `keeps` accepts.
pub(super) fn merge_segments(
    segments: &[&Segment],
    keeps: impl Fn(&ContentDigest) -> bool,
    file: File,
    generation: u64,
) -> Result<io::Result<()>, DamagedSegment> {
    let mut table = Vec::new();
    let mut numbers = Vec::new();
    for segment in segments {
        let mut number = |document: &(ContentDigest, u64)| {
            if !keeps(&document.0) {
                return DROPPED;
            }
            table.push(*document);
            table.len() as u32 - 1
        };
        numbers.push(segment.documents.iter().map(&mut number).collect::<Vec<u32>>());
    }
    let mut writer = SegmentWriter::new(file, generation, table);
    let mut cursors = Vec::new();
    for segment in segments {
        cursors.push(ListCursor::new(segment)?);
    }
    let mut merged = Vec::new();
    while let Some(key) = cursors.iter().filter_map(|cursor| cursor.key).min() {
        merged.clear();
        for (cursor, numbers) in cursors.iter_mut().zip(&numbers) {
            if cursor.key == Some(key) {
                cursor.take(|document| {
                    let number = numbers[document as usize];
                    if number != DROPPED {
                        merged.push(number);
                    }
                })?;
            }
        }
        if !merged.is_empty()
            && let Err(error) = writer.add(key, &merged)
        {
            return Ok(Err(error));
        }
    }
    Ok(writer.finish())
}

/// Iterates over all lists of a segment.
struct ListCursor<'a> {
    segment: &'a Segment,
    next_block: usize,
    block: Vec<u8>,
    /// Bytes of the block that were read.
    at: usize,
    last: PostingKey,
    key: Option<PostingKey>,
    count: usize,
    list: std::ops::Range<usize>,
}

impl<'a> ListCursor<'a> {
    fn new(segment: &'a Segment) -> Result<Self, DamagedSegment> {
        let mut cursor = Self {
            segment,
            next_block: 0,
            block: Vec::new(),
            at: 0,
            last: 0,
            key: None,
            count: 0,
            list: 0..0,
        };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<(), DamagedSegment> {
        if self.at == self.block.len() {
            let Some(extent) = self.segment.blocks.get(self.next_block) else {
                self.key = None;
                return Ok(());
            };
            self.block = self.segment.read_block(self.next_block)?;
            (self.at, self.last) = (0, extent.first);
            self.next_block += 1;
        }
        let mut entries = BlockEntries::new(&self.block[self.at..], self.last);
        let BlockEntry { key, count, list } = entries.next()?.ok_or(DamagedSegment)?;
        self.at = self.block.len() - entries.reader.0.len();
        self.list = self.at - list.len()..self.at;
        // Order is what the merge rests on.
        if self.key.is_some_and(|before| before >= key) {
            return Err(DamagedSegment);
        }
        (self.key, self.last, self.count) = (Some(key), key, count);
        Ok(())
    }

    /// Calls `visit` with the documents of the list and goes to the next one.
    fn take(&mut self, visit: impl FnMut(u32)) -> Result<(), DamagedSegment> {
        let bytes = &self.block[self.list.clone()];
        if !gaps::decode_gaps(bytes, self.count, self.segment.documents.len(), visit) {
            return Err(DamagedSegment);
        }
        self.advance()
    }
}
