//! The catalogue of an index: for each file its fingerprint at the last read, and the place of its profile.
//!
//! A catalogue is immutable; an update replaces it by a new one. A checksum detects torn and foreign files. This module
//! encodes and decodes the bytes; `store` reads and writes the file.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::codec::{self, compute_checksum};
use crate::profile::Profile;
use tool_repository::{FileEntry, FileIdentity};

/// First bytes of a catalogue. Raise the number when the format changes, or when a text gets another profile than
/// before: stored profiles are not computed again.
pub(super) const FORMAT: &[u8; 16] = b"tool index 0013\n";

/// State of a file when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileFingerprint {
    pub(super) size: u64,
    pub(super) modified_ns: i64,
    pub(super) changed_ns: i64,
    pub(super) inode: u64,
}

impl FileFingerprint {
    pub(super) fn from_entry(entry: &FileEntry) -> Self {
        let nanoseconds = |ns: i128| i64::try_from(ns).unwrap_or(i64::MAX);
        Self {
            size: entry.size,
            modified_ns: nanoseconds(entry.modified_ns),
            changed_ns: nanoseconds(entry.changed_ns),
            inode: entry.inode,
        }
    }
}

/// SHA-256 of a file's language and content, cut to 128 bits.
pub(super) type ContentDigest = [u8; 16];

/// Place of a profile among the records. A place of no bytes stands for a file that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordExtent {
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) checksum: u32,
}

impl RecordExtent {
    /// The place of a file that has no profile, because selections do not use the file.
    pub(super) const NONE: Self = Self {
        offset: u64::MAX,
        bytes: 0,
        checksum: 0,
    };

    /// The place of a profile that is not written yet: only its size is known.
    pub(super) fn without_place(profile: Option<&Profile>) -> Self {
        Self {
            offset: 0,
            bytes: profile.map_or(0, |profile| profile.bytes().len() as u32),
            checksum: 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) path: Box<str>,
    pub(super) fingerprint: FileFingerprint,
    /// False if the file changed so shortly before it was read that a later change could have the same fingerprint.
    /// Then the file has to be read again.
    pub(super) is_settled: bool,
    pub(super) digest: ContentDigest,
    pub(super) place: RecordExtent,
}

#[derive(Debug, Default)]
pub(super) struct Catalogue {
    /// Sorted by path bytewise.
    pub(super) entries: Vec<FileRecord>,
    /// Part of the name of the records file.
    pub(super) generation: u64,
    /// Length of the valid records. Bytes after that are left from an interrupted write.
    pub(super) records_bytes: u64,
    /// The open records file, if there is one.
    pub(super) records: Option<Arc<File>>,
    by_digest: OnceLock<HashMap<ContentDigest, RecordExtent>>,
}

impl Catalogue {
    pub(super) fn new(
        entries: Vec<FileRecord>,
        generation: u64,
        records_bytes: u64,
        records: Option<Arc<File>>,
    ) -> Self {
        Self {
            entries,
            generation,
            records_bytes,
            records,
            by_digest: OnceLock::new(),
        }
    }

    /// Returns the place of the profile for this content, under any path.
    pub(super) fn place_of(&self, digest: &ContentDigest) -> Option<RecordExtent> {
        let by_digest = self.by_digest.get_or_init(|| {
            let profiled = self.entries.iter().filter(|entry| entry.place != RecordExtent::NONE);
            profiled.map(|entry| (entry.digest, entry.place)).collect()
        });
        by_digest.get(digest).copied()
    }

    /// The bytes of a record; `None` if they are damaged.
    pub(super) fn record(&self, place: RecordExtent) -> Option<Vec<u8>> {
        let end = place.offset.checked_add(u64::from(place.bytes))?;
        if end > self.records_bytes {
            return None;
        }
        let mut bytes = vec![0; place.bytes as usize];
        self.records.as_ref()?.read_exact_at(&mut bytes, place.offset).ok()?;
        (compute_checksum(&bytes) == place.checksum).then_some(bytes)
    }

    /// The profile at a place: `None` if it is damaged, `Some(None)` if the file is not text.
    pub(super) fn profile(&self, place: RecordExtent) -> Option<Option<Profile>> {
        match place.bytes {
            0 => Some(None),
            _ => Profile::from_bytes(self.record(place)?).map(Some),
        }
    }

    pub(super) fn encode(&self, root: FileIdentity) -> Vec<u8> {
        let numbers = [root.device, root.inode, self.generation, self.records_bytes];
        codec::encode_file(FORMAT, &(numbers, &self.entries))
    }

    /// Reads a catalogue, without its records; `None` if it is damaged, foreign, or belongs to another directory.
    pub(super) fn decode(bytes: &[u8], root: FileIdentity) -> Option<Self> {
        let (numbers, entries): ([u64; 4], Vec<FileRecord>) = codec::decode_file(FORMAT, bytes)?;
        let [device, inode, generation, records_bytes] = numbers;
        let is_sorted = entries.is_sorted_by(|a, b| a.path < b.path);
        (is_sorted && (device, inode) == (root.device, root.inode))
            .then(|| Self::new(entries, generation, records_bytes, None))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOT: FileIdentity = FileIdentity { device: 3, inode: 4 };

    fn entry(path: &str) -> FileRecord {
        FileRecord {
            path: path.into(),
            fingerprint: FileFingerprint {
                size: 70_000,
                modified_ns: -5,
                changed_ns: i64::MAX,
                inode: 9,
            },
            is_settled: path.len() > 1,
            digest: [7; 16],
            place: RecordExtent {
                offset: 300,
                bytes: 12,
                checksum: 0xdead_beef,
            },
        }
    }

    fn encoded() -> Vec<u8> {
        Catalogue::new(vec![entry("a"), entry("b/c.py")], 77, 1234, None).encode(ROOT)
    }

    #[test]
    fn what_is_encoded_comes_back() {
        let back = Catalogue::decode(&encoded(), ROOT).expect("it is whole");
        assert_eq!(back.entries, [entry("a"), entry("b/c.py")]);
        assert_eq!((back.generation, back.records_bytes), (77, 1234));
        assert_eq!(back.place_of(&[7; 16]), Some(entry("a").place));
        assert_eq!(back.record(entry("a").place), None);
    }

    #[test]
    fn a_catalogue_of_another_directory_or_out_of_order_is_none() {
        assert!(Catalogue::decode(&encoded(), FileIdentity { device: 3, inode: 5 }).is_none());
        let unsorted = Catalogue::new(vec![entry("b"), entry("a")], 1, 1, None).encode(ROOT);
        assert!(Catalogue::decode(&unsorted, ROOT).is_none());
        assert!(Catalogue::decode(b"", ROOT).is_none());
    }

    proptest! {
        #[test]
        fn a_damaged_or_cut_catalogue_is_none(at in any::<prop::sample::Index>(), by in 1_u8.., cut in any::<prop::sample::Index>()) {
            let mut bytes = encoded();
            prop_assert!(Catalogue::decode(&bytes[..cut.index(bytes.len())], ROOT).is_none());
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            prop_assert!(Catalogue::decode(&bytes, ROOT).is_none());
        }
    }
}
