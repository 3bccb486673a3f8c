//! The files of a list with their catalogue entries, as far as those are up to date.

use std::sync::Arc;

use super::catalogue::{Catalogue, FileFingerprint, FileRecord, RecordExtent};
use tool_repository::{FileEntry, FileList};

#[derive(Debug, Clone)]
pub(super) struct KnownFiles {
    pub(super) list: Arc<FileList>,
    pub(super) catalogue: Arc<Catalogue>,
    /// For each listed file: the index of its catalogue entry; `None` if it has no entry, or has changed since.
    entries: Arc<[Option<u32>]>,
    /// True if the catalogue has files that are no longer listed.
    pub(super) has_unlisted: bool,
}

impl KnownFiles {
    pub(super) fn new(list: &Arc<FileList>, catalogue: &Arc<Catalogue>) -> Self {
        let mut entries = (0_u32..).zip(&catalogue.entries).peekable();
        let mut listed = 0;
        let entry_of = |file: &FileEntry| {
            while entries.next_if(|(_, entry)| *entry.path < *file.path).is_some() {}
            let (at, entry) = entries.next_if(|(_, entry)| *entry.path == *file.path)?;
            listed += 1;
            (entry.is_settled && entry.fingerprint == FileFingerprint::from_entry(file)).then_some(at)
        };
        let entries = list.files.iter().map(entry_of).collect();
        Self {
            list: Arc::clone(list),
            catalogue: Arc::clone(catalogue),
            entries,
            has_unlisted: listed < catalogue.entries.len(),
        }
    }

    pub(super) fn is_of(&self, list: &Arc<FileList>, catalogue: &Arc<Catalogue>) -> bool {
        Arc::ptr_eq(&self.list, list) && Arc::ptr_eq(&self.catalogue, catalogue)
    }

    /// The catalogue entry of a file; `None` if there is none that is up to date.
    pub(super) fn entry(&self, at: usize) -> Option<&FileRecord> {
        Some(&self.catalogue.entries[self.entries[at]? as usize])
    }

    /// Place of a file's profile; `None` if the index has none that is up to date.
    pub(super) fn profile_place(&self, at: usize) -> Option<RecordExtent> {
        Some(self.entry(at)?.place).filter(|place| *place != RecordExtent::NONE)
    }

    /// The place of a path in the list, which is probably `at`.
    pub(super) fn find_near(&self, path: &str, at: usize) -> Option<usize> {
        match self.list.files.get(at) {
            Some(file) if file.path == path => Some(at),
            _ => self.list.index_of(path),
        }
    }
}
