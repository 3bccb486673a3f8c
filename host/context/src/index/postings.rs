//! The two inverted indexes: one from trigrams to the contents that have them, and one from words to contents.
//!
//! A document is one content, whatever files have it. Each inverted index is a set of segments, as in a log-structured
//! merge tree: an update writes its new documents into a new segment, and merges segments when there are too many. A
//! list file names the current segments. It is replaced by a rename, so a reader sees the old set or the new one. A
//! damaged or missing segment counts as absent: requests read its files until an update adds them again. A document
//! that belongs to no listed file is dropped by the next merge. If a file is no longer listed, its segment is rewritten
//! at once, because the file may be hidden now.
//!
//! Read in this order: `gaps` (one list), `segment` (one file).

mod gaps;
mod segment;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, OnceLock};

use super::catalogue::ContentDigest;
use super::pattern::TrigramQuery;
use super::store::{DiskVersion, IndexStore};
use crate::codec;
use tool_repository::{FileIdentity, check_private, open_private};

pub(super) use segment::{PostedDocument, PostingKey, Segment};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum PostingsKind {
    /// Trigrams of every text, for a search.
    #[default]
    Trigrams,
    /// Words of every profile, for a selection.
    Words,
}

impl PostingsKind {
    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Trigrams => "postings",
            Self::Words => "words",
        }
    }

    /// Prefix of the names of its segments.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Trigrams => "postings-",
            Self::Words => "words-",
        }
    }

    fn segment(self, generation: u64) -> String {
        format!("{}{generation:016x}", self.prefix())
    }
}

/// True for the name of a list or a segment.
pub(super) fn is_postings_file(name: &str) -> bool {
    let kinds = [PostingsKind::Trigrams, PostingsKind::Words];
    kinds
        .iter()
        .any(|kind| name == kind.list() || name.starts_with(kind.prefix()))
}

/// First bytes of a list of segments.
const FORMAT: &[u8; 16] = b"tool plist 0003\n";

/// Maximum length of a list of segments.
const LIST_BYTES_MAX: u64 = 64 * 1024;

/// Above this number of segments, some are merged: each segment costs a search some reads.
const SEGMENTS_MAX: usize = 8;

/// Segments that a merge leaves.
const SEGMENTS_LEFT: usize = 4;

/// Fewer dead documents than this do not justify a merge.
const DEAD_DOCUMENTS_MIN: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DocumentPlace {
    pub(super) segment: u32,
    pub(super) document: u32,
}

/// An inverted index: its open segments. It is immutable; an update replaces it by a new one.
#[derive(Debug, Default)]
pub(super) struct Postings {
    kind: PostingsKind,
    segments: Vec<Arc<Segment>>,
    /// Version of the list on disk that names them.
    version: Option<DiskVersion>,
    /// Generations of segments that turned out to be damaged.
    damaged: Vec<u64>,
    /// True if a document did not fit.
    pub(super) is_full: bool,
    by_digest: OnceLock<HashMap<ContentDigest, DocumentPlace>>,
}

impl Postings {
    fn new(kind: PostingsKind, segments: Vec<Arc<Segment>>, version: Option<DiskVersion>, is_full: bool) -> Self {
        Self {
            kind,
            segments,
            version,
            damaged: Vec::new(),
            is_full,
            by_digest: OnceLock::new(),
        }
    }

    pub(super) fn kind(&self) -> PostingsKind {
        self.kind
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn version(&self) -> Option<DiskVersion> {
        self.version
    }

    pub(super) fn place_of(&self, digest: &ContentDigest) -> Option<DocumentPlace> {
        let by_digest = self.by_digest.get_or_init(|| {
            let documents = (0..).zip(&self.segments).flat_map(|(segment, one)| {
                let documents = (0..).zip(one.documents());
                documents.map(move |(document, (digest, _))| (*digest, DocumentPlace { segment, document }))
            });
            documents.collect()
        });
        by_digest.get(digest).copied()
    }

    pub(super) fn attribute(&self, place: DocumentPlace) -> u64 {
        self.segments[place.segment as usize].documents()[place.document as usize].1
    }

    pub(super) fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// For each segment and document: true if the document satisfies the query. `None` for a damaged segment.
    pub(super) fn find(&self, query: &TrigramQuery) -> Vec<Option<Vec<bool>>> {
        let segments = self.segments.iter().map(|segment| {
            let found = segment.find(query).ok()?;
            let mut marks = vec![false; segment.documents().len()];
            found.into_iter().for_each(|document| marks[document as usize] = true);
            Some(marks)
        });
        segments.collect()
    }

    /// A copy without the segments for which `found` has `None`.
    pub(super) fn without_damaged<T>(&self, found: &[Option<T>]) -> Self {
        let damaged = self.segments.iter().zip(found).filter(|(_, found)| found.is_none());
        let damaged = damaged.map(|(segment, _)| segment.generation);
        self.without(damaged.chain(self.damaged.iter().copied()).collect())
    }

    /// Loads the list that another process has written, without segments that are known to be damaged.
    pub(super) fn reloaded(&self, store: &IndexStore) -> Self {
        store.load_postings(self.kind).without(self.damaged.clone())
    }

    fn without(&self, damaged: Vec<u64>) -> Self {
        let whole = self
            .segments
            .iter()
            .filter(|segment| !damaged.contains(&segment.generation));
        let segments: Vec<Arc<Segment>> = whole.cloned().collect();
        // Without a version, the next update writes a new list.
        let version = self.version.filter(|_| segments.len() == self.segments.len());
        Self {
            damaged,
            ..Self::new(self.kind, segments, version, self.is_full)
        }
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

impl IndexStore {
    /// Loads the segments that are on disk and undamaged.
    pub(super) fn load_postings(&self, kind: PostingsKind) -> Postings {
        let none = || Postings::new(kind, Vec::new(), None, false);
        self.try_load_postings(kind).unwrap_or_else(none)
    }

    /// Version of the list on disk.
    pub(super) fn postings_version(&self, kind: PostingsKind) -> Option<DiskVersion> {
        let metadata = fs::symlink_metadata(self.folder().join(kind.list())).ok()?;
        Some(DiskVersion::from_metadata(&metadata))
    }

    fn try_load_postings(&self, kind: PostingsKind) -> Option<Postings> {
        check_private(&fs::symlink_metadata(self.folder()).ok()?).ok()?;
        let file = open_private(&self.folder().join(kind.list())).ok()?;
        let version = DiskVersion::from_metadata(&file.metadata().ok()?);
        let mut bytes = Vec::new();
        file.take(LIST_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let generations = self.decode_list(&bytes)?;
        let segment = |generation: u64| {
            let file = open_private(&self.folder().join(kind.segment(generation))).ok()?;
            Segment::open(file, generation).map(Arc::new)
        };
        let segments = generations.into_iter().filter_map(segment).collect();
        Some(Postings::new(kind, segments, Some(version), false))
    }

    fn decode_list(&self, bytes: &[u8]) -> Option<Vec<u64>> {
        let ([device, inode], generations) = codec::decode_file::<([u64; 2], _)>(FORMAT, bytes)?;
        (self.root() == FileIdentity { device, inode }).then_some(generations)
    }

    fn write_list(&self, kind: PostingsKind, segments: &[Arc<Segment>]) -> io::Result<DiskVersion> {
        let FileIdentity { device, inode } = self.root();
        let generations: Vec<u64> = segments.iter().map(|segment| segment.generation).collect();
        let bytes = codec::encode_file(FORMAT, &([device, inode], generations));
        let mut file = tempfile::NamedTempFile::new_in(self.folder())?;
        file.write_all(&bytes)?;
        let file = file.persist(self.folder().join(kind.list()))?;
        Ok(DiskVersion::from_metadata(&file.metadata()?))
    }

    /// Adds documents to `base`, and drops those that are not `live`: at once if `has_unlisted`, otherwise with the
    /// next merge. The caller holds the lock, and `base` is the version on disk.
    pub(super) fn write_postings(
        &self,
        base: &Postings,
        added: &[PostedDocument],
        live: &HashSet<ContentDigest>,
        has_unlisted: bool,
        bytes_max: u64,
    ) -> io::Result<Postings> {
        let mut writer = PostingsWriter {
            store: self,
            kind: base.kind,
            live,
            segments: base.segments.clone(),
        };
        let result = writer.add(base, added, bytes_max);
        writer.drop_dead_documents(has_unlisted);
        writer.merge_smallest();
        let is_same = writer.segments.len() == base.segments.len()
            && writer
                .segments
                .iter()
                .zip(&base.segments)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        let segments = writer.segments;
        let version = match base.version.filter(|_| is_same) {
            Some(version) => Ok(version),
            None => self.write_list(base.kind, &segments),
        };
        // This happens even if the list cannot be written: a missing segment counts as absent.
        self.remove_old_segments(
            base.kind,
            if version.is_ok() { &segments } else { &base.segments },
            &segments,
        );
        Ok(Postings::new(base.kind, segments, Some(version?), result?))
    }

    /// Removes all segments but those that are both listed and wanted.
    fn remove_old_segments(&self, kind: PostingsKind, listed: &[Arc<Segment>], wanted: &[Arc<Segment>]) {
        let names = |segments: &[Arc<Segment>]| -> HashSet<String> {
            segments
                .iter()
                .map(|segment| kind.segment(segment.generation))
                .collect()
        };
        let (listed, wanted) = (names(listed), names(wanted));
        for entry in fs::read_dir(self.folder()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(kind.prefix()) && !(listed.contains(&name) && wanted.contains(&name)) {
                // Another process may have removed it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

struct PostingsWriter<'a> {
    store: &'a IndexStore,
    kind: PostingsKind,
    live: &'a HashSet<ContentDigest>,
    segments: Vec<Arc<Segment>>,
}

impl PostingsWriter<'_> {
    /// Writes a segment of new documents. Returns true if there was no room for it.
    fn add(&mut self, base: &Postings, added: &[PostedDocument], bytes_max: u64) -> io::Result<bool> {
        let mut known = HashSet::new();
        let is_new = |one: &&PostedDocument| {
            self.live.contains(&one.digest) && base.place_of(&one.digest).is_none() && known.insert(one.digest)
        };
        let new: Vec<PostedDocument> = added
            .iter()
            .filter(is_new)
            .take(segment::DOCUMENTS_MAX)
            .cloned()
            .collect();
        if new.is_empty() {
            return Ok(base.is_full);
        }
        if base.bytes() >= bytes_max {
            return Ok(true);
        }
        let segment = self.create_segment(|file, generation| segment::write_documents(file, generation, &new))?;
        self.segments.push(segment);
        Ok(false)
    }

    /// Drops dead documents if there are many of them, or if `has_unlisted`.
    fn drop_dead_documents(&mut self, has_unlisted: bool) {
        let dead = |segment: &Arc<Segment>| {
            let documents = segment.documents().iter();
            documents.filter(|(digest, _)| !self.live.contains(digest)).count()
        };
        let counts: Vec<usize> = self.segments.iter().map(dead).collect();
        let documents: usize = self.segments.iter().map(|segment| segment.documents().len()).sum();
        let all: usize = counts.iter().sum();
        if all > documents / 2 + DEAD_DOCUMENTS_MIN {
            let segments = std::mem::take(&mut self.segments);
            // If the merge fails, there is no segment left. An update reads the files again.
            self.segments.extend(self.merge(&segments).ok().flatten());
        } else if has_unlisted {
            let segments = std::mem::take(&mut self.segments);
            for (segment, dead) in segments.into_iter().zip(counts) {
                if dead == 0 {
                    self.segments.push(segment);
                } else {
                    self.segments.extend(self.merge(&[segment]).ok().flatten());
                }
            }
        }
    }

    /// Merges the smallest segments if there are too many.
    fn merge_smallest(&mut self) {
        if self.segments.len() <= SEGMENTS_MAX {
            return;
        }
        let mut by_size: Vec<usize> = (0..self.segments.len()).collect();
        by_size.sort_by_key(|&at| std::cmp::Reverse(self.segments[at].bytes));
        let smallest: HashSet<usize> = by_size[SEGMENTS_LEFT..].iter().copied().collect();
        let segments = std::mem::take(&mut self.segments);
        let (merged, left): (Vec<_>, Vec<_>) = (0..).zip(segments).partition(|(at, _)| smallest.contains(at));
        let merging: Vec<Arc<Segment>> = merged.into_iter().map(|(_, segment)| segment).collect();
        self.segments = left.into_iter().map(|(_, segment)| segment).collect();
        match self.merge(&merging) {
            Ok(segment) => self.segments.extend(segment),
            // A later update tries again, for example when the disk has room.
            Err(_) => self.segments.extend(merging),
        }
    }

    /// Merges the live documents of segments into one. `None` if there are no such documents, or a segment is damaged.
    fn merge(&self, segments: &[Arc<Segment>]) -> io::Result<Option<Arc<Segment>>> {
        let segments: Vec<&Segment> = segments.iter().map(Arc::as_ref).collect();
        let is_live = |digest: &ContentDigest| self.live.contains(digest);
        if !segments
            .iter()
            .any(|segment| segment.documents().iter().any(|(digest, _)| is_live(digest)))
        {
            return Ok(None);
        }
        let mut is_damaged = false;
        let made = self.create_segment(|file, generation| {
            match segment::merge_segments(&segments, is_live, file, generation) {
                Ok(written) => written,
                Err(damaged) => {
                    is_damaged = true;
                    Err(io::Error::other(damaged))
                }
            }
        });
        match made {
            Err(_) if is_damaged => Ok(None),
            made => made.map(Some),
        }
    }

    /// Writes a segment into a new file, which is removed if that fails.
    fn create_segment(&self, write: impl FnOnce(File, u64) -> io::Result<()>) -> io::Result<Arc<Segment>> {
        let (generation, _) = uuid::Uuid::new_v4().as_u64_pair();
        let path = self.store.folder().join(self.kind.segment(generation));
        let file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        let made = write(file, generation).and_then(|()| {
            let segment = Segment::open(open_private(&path)?, generation);
            segment.ok_or_else(|| io::Error::other("the segment cannot be read after it was written"))
        });
        if made.is_err() {
            let _ = fs::remove_file(&path);
        }
        made.map(Arc::new)
    }
}

#[cfg(test)]
mod tests;
