//! Symbols by syntax tree for what the index holds: a few new files at once, all others after the answer.
//!
//! A tree takes ten times as long as the words of a file, and must never be in the way. So profiles are made of text
//! first, and threads of low priority give them their trees later, for a bounded time. A file that no tree is to be had
//! of, or one too large to keep, stays with its text and is not tried again; so do all others once the index is full. Tests
//! stay with it, too: they are half of many a repository, mostly count for a fifth in a ranking, and lines tell what they
//! import. The reading itself is a [`SyntaxParser`](crate::SyntaxParser)'s.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::catalogue::{Catalogue, FileFingerprint, FileRecord, RecordExtent};
use super::digest;
use super::indexer::FileIndexer;
use super::store::IndexedFile;
use super::update::IndexUpdate;
use crate::limits;
use crate::profile::{Made, Profile};
use crate::text_of;
use tool_repository::file_role::Role;

/// Results that can wait are written in this many parts: on a busy machine trees take long, and a request may wait for
/// them.
const WRITES: usize = 8;

impl FileIndexer {
    /// True where the files that the index lacks are so few that they are read by syntax tree at once.
    pub(super) fn lacks_few_trees(&self) -> bool {
        let (files_max, bytes_max) = self.indexes.bounds.trees_now;
        let mut treeless = self.missing().filter(|at| self.takes_tree(*at));
        // One too many is enough to know.
        let (mut files, mut bytes) = (0, 0);
        treeless.all(|at| {
            (files, bytes) = (files + 1, bytes + self.files.list.files[at].size);
            files <= files_max && bytes <= bytes_max
        })
    }

    /// The profile of a text that was just read.
    pub(super) fn make_profile(&self, at: usize, text: &str) -> Profile {
        let path = &self.files.list.files[at].path;
        let profile = Profile::of(path, text);
        let left = self
            .trees_until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        // It may be larger by now than in the list.
        let fits = text.len() as u64 <= limits::RANKED_FILE_BYTES_MAX;
        if left.is_zero() || !fits || !self.takes_tree(at) {
            return profile;
        }
        // A file without time now is read by the next fill.
        match self.indexes.parser.outline_within(path, text, left) {
            Some(tree) => profile.with_tree(text, &tree),
            None => profile,
        }
    }

    /// True where a file has no tree and will get one.
    pub(super) fn waits_for_tree(&self, at: usize, profile: Option<&Profile>) -> bool {
        !self.index.lock().is_full
            && profile.is_some_and(|profile| profile.made() == Made::Text)
            && self.layout.is_kept(at, self.files.list.files[at].size)
            && self.takes_tree(at)
    }

    fn takes_tree(&self, at: usize) -> bool {
        let file = &self.files.list.files[at];
        file.size <= limits::RANKED_FILE_BYTES_MAX
            && self.layout.roles[at] != Role::Test
            && self.indexes.parser.reads(&file.path)
    }

    /// A file's entry with the profile that its tree makes. Nothing where the file is another one by now.
    fn measure_tree(&self, catalogue: &Catalogue, entry: &FileRecord) -> Option<IndexedFile> {
        let (content, read) = self
            .repository
            .read_entry(&entry.path, limits::FILE_READ_BYTES_MAX, &self.cancel)
            .ok()?;
        if FileFingerprint::of(&read?) != entry.stamp || digest(&entry.path, &content) != entry.digest {
            return None;
        }
        let (profile, text) = (catalogue.profile(entry.place)??, text_of(content)?);
        let tree = self.indexes.parser.outline(&entry.path, &text);
        let with_tree = tree.map(|tree| profile.with_tree(&text, &tree));
        // A profile that does not fit is dropped: kept unwritten, it would be parsed again by every selection, for
        // nothing.
        let fits = |profile: &Profile| profile.bytes().len() <= self.indexes.bounds.pending_bytes;
        let profile = with_tree.filter(fits).unwrap_or_else(|| profile.without_tree());
        let entry = FileRecord {
            place: RecordExtent::unplaced(Some(&profile)),
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
    /// Gives a tree to every profile that has none, as far as the time goes.
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
        profile.is_some_and(|profile| profile.made() == Made::Text)
    }

    fn has_to_stop(&self, until: Instant) -> bool {
        let FileIndexer { indexes, index, .. } = &self.indexer;
        let is_full = index.lock().is_full;
        is_full || Instant::now() >= until || indexes.is_wanted.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
