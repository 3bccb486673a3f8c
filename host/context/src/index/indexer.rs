//! Reads files for an index, and collects their profiles, trigrams and words until they are written.
//!
//! A request hands its indexer to the update that follows, so that no file is read twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::catalogue::{ContentDigest, FileFingerprint, FileRecord, RecordExtent};
use super::documents::KnownDocuments;
use super::known_files::KnownFiles;
use super::store::IndexedFile;
use super::trigrams::TrigramCollector;
use super::{Index, Indexes, digest_file, now_ns};
use crate::index::SEARCHED_FILE_BYTES_MAX;
use crate::layout::TreeLayout;
use crate::limits;
use crate::profile::Profile;
use crate::text_of;
use tool_repository::{FileEntry, FileList, Repository};

/// Files that were measured and are not written to the index yet.
#[derive(Debug, Default)]
pub(super) struct PendingFiles {
    pub(super) files: BTreeMap<Box<str>, IndexedFile>,
    pub(super) bytes: usize,
    /// Bytes of trigrams and words.
    pub(super) posted_bytes: usize,
}

pub(super) struct FileIndexer {
    pub(super) indexes: Arc<Indexes>,
    pub(super) index: Arc<Index>,
    pub(super) repository: Arc<Repository>,
    pub(super) files: KnownFiles,
    pub(super) layout: Arc<TreeLayout>,
    /// Cancelled when the request ends.
    pub(super) cancel: CancellationToken,
    /// Until then, the request parses new files itself. `None` if too many files are new for that.
    pub(super) trees_until: Option<Instant>,
    pending: Mutex<PendingFiles>,
    /// Collectors of trigrams that no thread uses.
    pub(super) collectors: Mutex<Vec<TrigramCollector>>,
}

impl FileIndexer {
    pub(super) fn new(
        indexes: &Arc<Indexes>,
        repository: &Arc<Repository>,
        list: &Arc<FileList>,
        cancel: &CancellationToken,
    ) -> Self {
        let index = indexes.index(repository);
        let text = |path: &str| {
            let bytes_max = limits::FILE_READ_BYTES_MAX;
            repository.read_within(path, bytes_max, cancel).ok().and_then(text_of)
        };
        let catalogue = index.catalogue();
        let layout = index.layout(list, &indexes.hasher, text);
        let files = index.documents(&catalogue, list).files;
        let trees_until = Instant::now() + indexes.bounds.wait;
        let indexer = Self {
            indexes: Arc::clone(indexes),
            index,
            repository: Arc::clone(repository),
            files,
            layout,
            cancel: cancel.clone(),
            trees_until: None,
            pending: Mutex::default(),
            collectors: Mutex::default(),
        };
        Self {
            trees_until: indexer.lacks_few_trees().then_some(trees_until),
            ..indexer
        }
    }

    /// The documents of the files in the present postings.
    pub(super) fn documents(&self) -> KnownDocuments {
        self.index.documents(&self.files.catalogue, &self.files.list)
    }

    /// Files whose profiles belong into the index and are not there.
    pub(super) fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let files = self.files.list.files.iter().enumerate();
        let missing =
            files.filter(|(at, file)| self.files.profile_place(*at).is_none() && self.layout.is_kept(*at, file.size));
        missing.map(|(at, _)| at)
    }

    /// Reads a file and collects its profile for the index.
    pub(super) fn measure(&self, at: usize) -> Option<Profile> {
        let file = &self.files.list.files[at];
        let (size_max, began) = (limits::FILE_READ_BYTES_MAX, now_ns());
        let (content, read) = self.repository.read_entry(&file.path, size_max, &self.cancel).ok()?;
        let digest = digest_file(&file.path, &content);
        let trigrams = read.as_ref().and_then(|_| self.trigrams_of(&digest, &content));
        let catalogue = &self.files.catalogue;
        let place = catalogue.place_of(&digest);
        let known = place.and_then(|place| Some((place, catalogue.profile(place)?)));
        let (place, profile) = match known {
            Some((place, profile)) => (Some(place), profile),
            None => (None, text_of(content).and_then(|text| self.make_profile(at, &text))),
        };
        if let Some(read) = read.filter(|read| self.layout.is_kept(at, read.size)) {
            let place_or_size = place.unwrap_or_else(|| RecordExtent::without_place(profile.as_ref()));
            let entry = self.entry_of(&read, began, digest, place_or_size);
            let record = || profile.as_ref().map_or(&[][..], Profile::bytes).into();
            let record = place.is_none().then(record);
            let words = profile.as_ref().and_then(|profile| self.words_of(&digest, profile));
            self.collect(IndexedFile {
                entry,
                record,
                trigrams,
                words,
            });
        }
        profile
    }

    /// Reads a file that has no profile, and collects its trigrams for searches.
    pub(super) fn measure_trigrams(&self, at: usize) {
        let file = &self.files.list.files[at];
        let (size_max, began) = (SEARCHED_FILE_BYTES_MAX, now_ns());
        let read = self.repository.read_entry(&file.path, size_max, &self.cancel);
        let Ok((content, Some(read))) = read else { return };
        let digest = digest_file(&file.path, &content);
        self.collect(IndexedFile {
            entry: self.entry_of(&read, began, digest, RecordExtent::NONE),
            record: None,
            trigrams: self.trigrams_of(&digest, &content),
            words: None,
        });
    }

    /// The entry of a file whose reading began at `began`, in nanoseconds since 1970.
    fn entry_of(&self, read: &FileEntry, began: i128, digest: ContentDigest, place: RecordExtent) -> FileRecord {
        let settling = i128::try_from(self.indexes.bounds.settling.as_nanos()).unwrap_or(0);
        FileRecord {
            path: read.path.as_str().into(),
            fingerprint: FileFingerprint::from_entry(read),
            is_settled: self.repository.has_reliable_times() && read.changed_ns < began - settling,
            digest,
            place,
        }
    }

    /// Collects a file for the next write. If there is no room, a later update reads the file again.
    pub(super) fn collect(&self, measured: IndexedFile) {
        let mut pending = self.pending();
        let bytes = measured.record.as_ref().map_or(0, |record| record.len());
        let postings = [&measured.trigrams, &measured.words].into_iter().flatten();
        let posted_bytes: usize = postings.map(|posted| posted.keys.len()).sum();
        let bounds = &self.indexes.bounds;
        let has_room = pending.bytes + bytes <= 2 * bounds.pending_bytes;
        if has_room && pending.posted_bytes + posted_bytes <= 2 * bounds.postings_pending {
            pending.bytes += bytes;
            pending.posted_bytes += posted_bytes;
            pending.files.insert(measured.entry.path.clone(), measured);
        }
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, PendingFiles> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
