//! Adds symbols from syntax trees to profiles: for a few new files during a request, for all others after it.
//!
//! Parsing a file takes ten times as long as counting its words, and a request must not wait for it. So profiles get
//! symbols from lines first, and threads of low priority parse the files later, for a bounded time. A profile keeps the
//! symbols from lines if its file has no syntax tree, if the new profile is too large, or if the index is full. Test
//! files are never parsed here: they are half of many repositories, most count for a fifth in a ranking, and their
//! lines are enough to find their imports. The parser is a [`SyntaxParser`](crate::SyntaxParser).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::catalogue::{Catalogue, FileFingerprint, FileRecord, RecordExtent};
use super::digest_file;
use super::indexer::FileIndexer;
use super::store::IndexedFile;
use super::update::IndexUpdate;
use crate::limits;
use crate::profile::{Profile, SymbolSource};
use crate::text_of;
use tool_repository::file_role::Role;

/// Number of writes in which the results are saved. With one write at the end, a busy machine would show a request none
/// of them for long.
const WRITES: usize = 8;

impl FileIndexer {
    /// True if so few files are missing from the index that the request parses them itself.
    pub(super) fn lacks_few_trees(&self) -> bool {
        let (files_max, bytes_max) = self.indexes.bounds.trees_now;
        let mut unparsed = self.missing().filter(|at| self.takes_tree(*at));
        // One too many is enough to know.
        let (mut files, mut bytes) = (0, 0);
        unparsed.all(|at| {
            (files, bytes) = (files + 1, bytes + self.files.list.files[at].size);
            files <= files_max && bytes <= bytes_max
        })
    }

    /// The profile of a text that was just read.
    pub(super) fn make_profile(&self, at: usize, text: &str) -> Option<Profile> {
        let path = &self.files.list.files[at].path;
        let profile = Profile::of_file(path, text)?;
        let left = self
            .trees_until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        // The file may have grown since it was listed.
        let fits = text.len() as u64 <= limits::RANKED_FILE_BYTES_MAX;
        if left.is_zero() || !fits || !self.takes_tree(at) {
            return Some(profile);
        }
        // If the time is too short for this file, the next update parses it.
        Some(match self.indexes.parser.outline_within(path, text, left) {
            Some(tree) => profile.with_tree(text, &tree),
            None => profile,
        })
    }

    /// True if the symbols of a file come from lines and an update will parse the file.
    pub(super) fn waits_for_tree(&self, at: usize, profile: Option<&Profile>) -> bool {
        !self.index.lock().is_full
            && profile.is_some_and(|profile| profile.symbol_source() == SymbolSource::Lines)
            && self.layout.is_kept(at, self.files.list.files[at].size)
            && self.takes_tree(at)
    }

    fn takes_tree(&self, at: usize) -> bool {
        let file = &self.files.list.files[at];
        file.size <= limits::RANKED_FILE_BYTES_MAX
            && self.layout.roles[at] != Role::Test
            && self.indexes.parser.reads(&file.path)
    }

    /// Parses a file and returns its entry with the new profile; `None` if the file has changed.
    fn measure_tree(&self, catalogue: &Catalogue, entry: &FileRecord) -> Option<IndexedFile> {
        let (content, read) = self
            .repository
            .read_entry(&entry.path, limits::FILE_READ_BYTES_MAX, &self.cancel)
            .ok()?;
        if FileFingerprint::from_entry(&read?) != entry.fingerprint
            || digest_file(&entry.path, &content) != entry.digest
        {
            return None;
        }
        let (profile, text) = (catalogue.profile(entry.place)??, text_of(content)?);
        let tree = self.indexes.parser.outline(&entry.path, &text);
        let with_tree = tree.map(|tree| profile.with_tree(&text, &tree));
        // A profile above the limit cannot be written. It is marked as one without a tree, or every update would parse
        // the file again.
        let fits = |profile: &Profile| profile.bytes().len() <= self.indexes.bounds.pending_bytes;
        let profile = with_tree.filter(fits).unwrap_or_else(|| profile.without_tree());
        let entry = FileRecord {
            place: RecordExtent::without_place(Some(&profile)),
            ..entry.clone()
        };
        let record = Some(profile.bytes().into());
        Some(IndexedFile {
            entry,
            record,
            trigrams: None,
            words: None,
        })
    }
}

impl IndexUpdate {
    /// Parses every file whose symbols come from lines, until the time is over.
    pub(super) fn add_trees(&self) {
        let until = Instant::now() + self.indexer.indexes.bounds.trees;
        let catalogue = self.indexer.index.catalogue();
        let waiting: Vec<&FileRecord> = catalogue
            .entries
            .iter()
            .filter(|entry| self.lacks_tree(&catalogue, entry))
            .collect();
        if waiting.is_empty() {
            return;
        }
        let enough = self.indexer.indexes.bounds.pending_bytes / WRITES;
        self.write_while(
            &waiting,
            enough,
            || self.has_to_stop(until),
            |entry| {
                if let Some(measured) = self.indexer.measure_tree(&catalogue, entry) {
                    self.indexer.collect(measured);
                }
            },
        );
    }

    fn lacks_tree(&self, catalogue: &Catalogue, entry: &FileRecord) -> bool {
        let list = &self.indexer.files.list;
        let takes_tree = |path| list.index_of(path).is_some_and(|at| self.indexer.takes_tree(at));
        if entry.place.bytes == 0 || !takes_tree(&entry.path) {
            return false;
        }
        let profile = catalogue.profile(entry.place).flatten();
        profile.is_some_and(|profile| profile.symbol_source() == SymbolSource::Lines)
    }

    fn has_to_stop(&self, until: Instant) -> bool {
        let FileIndexer { indexes, index, .. } = &self.indexer;
        let is_full = index.lock().is_full;
        is_full || Instant::now() >= until || indexes.is_update_waiting.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
