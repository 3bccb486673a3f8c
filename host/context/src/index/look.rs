//! An index as one request sees it: answers from profiles that are there, reads the missing ones, and brings the index
//! up to date afterwards.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::catalogue::{Catalogue, ContentDigest, FileFingerprint, FileRecord, RecordExtent};
use super::store::Measured;
use super::trigrams::TrigramCollector;
use super::{FIRST_HISTORY_TIME, FIRST_HISTORY_WAIT, Index, Indexes, IndexingPermit, digest, now_ns, yield_to_others};
use crate::history::{HISTORY_WALK_TIME, History, ReadingPermit};
use crate::layout::Layout;
use crate::limits;
use crate::profile::Profile;
use crate::query::Query;
use crate::word_hits::WordHits;
use crate::{ProfileLookup, Source, share, text_of};
use tool_repository::{FileEntry, FileList, Repository};

/// Files that were measured since.
#[derive(Debug, Default)]
pub(super) struct Added {
    pub(super) files: BTreeMap<Box<str>, Measured>,
    pub(super) bytes: usize,
    /// Bytes of trigrams and words.
    pub(super) posted_bytes: usize,
}

/// An index as one request sees it.
pub(crate) struct Look {
    pub(super) indexes: Arc<Indexes>,
    pub(super) index: Arc<Index>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) layout: Arc<Layout>,
    pub(super) repository: Arc<Repository>,
    /// Cancelled when the request ends.
    pub(super) cancel: CancellationToken,
    pub(super) list: Arc<FileList>,
    pub(super) known: Arc<[Option<u32>]>,
    /// True where the index has files that are not listed any more.
    pub(super) has_gone: bool,
    pub(super) added: Mutex<Added>,
    /// Files that this request had to read.
    pub(super) measured: AtomicUsize,
    /// When the caller began to wait for the answer: the list was made after that.
    pub(super) asked: Instant,
    /// When the files began to be looked at.
    pub(super) since: Instant,
    /// True where so little is new that it is read by syntax tree at once.
    pub(super) grows_now: bool,
    /// False where earlier commits may not count: then they are not read either.
    pub(super) takes_history: bool,
    /// False where the files are not read by syntax tree after the answer.
    pub(super) takes_trees: bool,
    /// Collectors of trigrams that no thread uses.
    pub(super) collectors: Mutex<Vec<TrigramCollector>>,
    /// By the list's order: files whose symbols were wanted and that no thread has tried to read by syntax tree.
    pub(super) treeless: Vec<AtomicBool>,
}

impl Source for Look {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let bytes_max = limits::FILE_READ_BYTES_MAX;
        self.repository.read_within(path, bytes_max, &self.cancel).ok()
    }

    fn profile(&self, path: &str) -> ProfileLookup {
        self.place(path).map_or(ProfileLookup::Absent, |at| self.profile_at(at))
    }

    fn profile_near(&self, path: &str, at: usize) -> ProfileLookup {
        match self.list.files.get(at) {
            Some(file) if file.path == path => self.profile_at(at),
            _ => self.profile(path),
        }
    }

    fn word_hits(&self, query: &Query, paths: &[&str], files: &[usize]) -> Option<WordHits> {
        self.find_words(query, paths, files)
    }

    fn history(&self) -> Option<Arc<History>> {
        if !self.takes_history {
            return None;
        }
        if self.indexes.beside {
            self.index.history.wait_for_first(self.asked + FIRST_HISTORY_WAIT);
        } else if let Some(permit) = self.index.history.permit() {
            let (indexes, repository) = (&self.indexes, &self.repository);
            self.index
                .refresh_history(permit, indexes, repository, HISTORY_WALK_TIME, &self.cancel);
        }
        Some(self.index.history.current()).filter(|history| !history.is_empty())
    }

    fn treeless(&self) -> usize {
        self.treeless.iter().filter(|one| one.load(Ordering::Relaxed)).count()
    }
}

impl Look {
    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The history, if it has this number of commits or all that there are.
    pub(crate) fn newest_commits(&self, number: usize) -> Option<Arc<History>> {
        let history = self.history()?;
        (history.has(number) || self.index.history.is_complete()).then_some(history)
    }

    /// Leaves earlier commits alone, where they do not count. Else begins to read them, where none were ever read.
    pub(crate) fn without_history_if(self, is_so: bool) -> Self {
        let look = Self {
            takes_history: self.takes_history && !is_so,
            ..self
        };
        if look.indexes.beside && look.takes_history {
            look.begin_history();
        }
        look
    }

    fn profile_at(&self, at: usize) -> ProfileLookup {
        let known = self.known_profile(at);
        if let Some(profile) = known.and_then(|place| self.catalogue.profile(place)) {
            self.note_treeless(at, profile.as_ref());
            return ProfileLookup::from(profile);
        }
        if self.layout.written[at] && self.is_late() {
            return ProfileLookup::Later;
        }
        self.measured.fetch_add(1, Ordering::Relaxed);
        let profile = self.measure(at);
        self.note_treeless(at, profile.as_ref());
        ProfileLookup::from(profile)
    }

    pub(super) fn place(&self, path: &str) -> Option<usize> {
        self.list
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()
    }

    /// True where the request should rather answer from the present profiles.
    fn is_late(&self) -> bool {
        self.indexes.beside
            && self.repository.has_reliable_times()
            && self.measured.load(Ordering::Relaxed) >= self.indexes.bounds.wait_files
            && self.asked.elapsed() > self.indexes.bounds.wait
    }

    /// Place of the profile that the index has of a file as it is.
    fn known_profile(&self, at: usize) -> Option<RecordExtent> {
        let entry = &self.catalogue.entries[self.known[at]? as usize];
        Some(entry.place).filter(|place| *place != RecordExtent::NONE)
    }

    /// Reads a file and notes its profile for the index.
    fn measure(&self, at: usize) -> Option<Profile> {
        let file = &self.list.files[at];
        let (size_max, began) = (limits::FILE_READ_BYTES_MAX, now_ns());
        let (content, read) = self.repository.read_entry(&file.path, size_max, &self.cancel).ok()?;
        let digest = digest(&file.path, &content);
        let trigrams = read.as_ref().and_then(|_| self.trigrams_of(&digest, &content));
        let place = self.catalogue.place_of(&digest);
        let known = place.and_then(|place| Some((place, self.catalogue.profile(place)?)));
        let (place, profile) = match known {
            Some((place, profile)) => (Some(place), profile),
            None => (None, text_of(content).map(|text| self.profiled(at, &text))),
        };
        if let Some(read) = read.filter(|read| self.layout.is_kept(at, read.size)) {
            let place_or_size = place.unwrap_or_else(|| unplaced(profile.as_ref()));
            let entry = self.entry_of(&read, began, digest, place_or_size);
            let record = || profile.as_ref().map_or(&[][..], Profile::bytes).into();
            let record = place.is_none().then(record);
            let words = profile.as_ref().and_then(|profile| self.words_of(&digest, profile));
            self.note(Measured {
                entry,
                record,
                trigrams,
                words,
            });
        }
        profile
    }

    /// The entry of a file whose reading began at `began`, in nanoseconds since 1970.
    pub(super) fn entry_of(
        &self,
        read: &FileEntry,
        began: i128,
        digest: ContentDigest,
        place: RecordExtent,
    ) -> FileRecord {
        let settling = i128::try_from(self.indexes.bounds.settling.as_nanos()).unwrap_or(0);
        FileRecord {
            path: read.path.as_str().into(),
            stamp: FileFingerprint::of(read),
            is_settled: self.repository.has_reliable_times() && read.changed_ns < began - settling,
            digest,
            place,
        }
    }

    /// A file that does not fit is measured again when the index is filled.
    pub(super) fn note(&self, measured: Measured) {
        let mut added = self.lock();
        let bytes = measured.record.as_ref().map_or(0, |record| record.len());
        let postings = [&measured.trigrams, &measured.words].into_iter().flatten();
        let posted_bytes: usize = postings.map(|posted| posted.keys.len()).sum();
        let bounds = &self.indexes.bounds;
        let has_room = added.bytes + bytes <= 2 * bounds.pending_bytes;
        if has_room && added.posted_bytes + posted_bytes <= 2 * bounds.postings_pending {
            added.bytes += bytes;
            added.posted_bytes += posted_bytes;
            added.files.insert(measured.entry.path.clone(), measured);
        }
    }

    /// Brings the index up to date with what was seen, beside the requests or, where there is nothing beside them, now.
    pub(crate) fn finish(self) {
        if self.indexes.beside && self.takes_history {
            self.refresh_history_beside();
        }
        if !self.repository.has_reliable_times() {
            return;
        }
        let is_behind = self.list.complete && self.has_gone || self.has_added() || self.lacks_files();
        if !is_behind && self.treeless() == 0 {
            return;
        }
        let Some(turn) = IndexingPermit::take(&self.indexes, &self.index) else {
            // Trees make way for what has not been read at all.
            self.indexes.is_wanted.fetch_or(is_behind, Ordering::AcqRel);
            return;
        };
        self.indexes.is_wanted.store(false, Ordering::Release);
        if !self.indexes.beside {
            return self.fill(&turn);
        }
        let name = "index".to_owned();
        // If no thread can be started, the next request tries again.
        let _ = std::thread::Builder::new().name(name).spawn(move || self.fill(&turn));
    }

    /// Reads the newest commits beside this request, so that its answer knows them, and the others after that.
    fn begin_history(&self) {
        let history = &self.index.history;
        let Some(permit) = history.is_unread().then(|| history.permit()).flatten() else {
            return;
        };
        self.read_history_beside(permit, |indexes, index, repository, permit| {
            let cancel = CancellationToken::new();
            index.refresh_history(permit, indexes, repository, FIRST_HISTORY_TIME, &cancel);
            if index.history.is_due()
                && let Some(permit) = index.history.permit()
            {
                yield_to_others();
                index.refresh_history(permit, indexes, repository, HISTORY_WALK_TIME, &cancel);
            }
        });
    }

    /// Reads new commits after an answer.
    fn refresh_history_beside(&self) {
        let history = &self.index.history;
        let Some(permit) = history.is_due().then(|| history.permit()).flatten() else {
            return;
        };
        self.read_history_beside(permit, |indexes, index, repository, permit| {
            yield_to_others();
            let cancel = CancellationToken::new();
            index.refresh_history(permit, indexes, repository, HISTORY_WALK_TIME, &cancel);
        });
    }

    /// Does the work on a thread of its own.
    fn read_history_beside(&self, permit: ReadingPermit, read: fn(&Indexes, &Index, &Arc<Repository>, ReadingPermit)) {
        let (indexes, index) = (Arc::clone(&self.indexes), Arc::clone(&self.index));
        let repository = Arc::clone(&self.repository);
        let work = move || read(&indexes, &index, &repository, permit);
        let started = std::thread::Builder::new().name("history".to_owned()).spawn(work);
        if started.is_err() {
            // The next request tries again.
            self.index.history.give_back();
        }
    }

    fn has_added(&self) -> bool {
        !self.lock().files.is_empty()
    }

    pub(super) fn lacks_files(&self) -> bool {
        let is_full = self.index.lock().is_full;
        !is_full && self.missing().next().is_some() || self.lacks_postings()
    }

    /// Files that the index should know and does not.
    pub(super) fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let files = self.list.files.iter().enumerate();
        let missing =
            files.filter(|(at, file)| self.known_profile(*at).is_none() && self.layout.is_kept(*at, file.size));
        missing.map(|(at, _)| at)
    }

    pub(super) fn fill(&self, _turn: &IndexingPermit) {
        if self.indexes.beside {
            yield_to_others();
        }
        self.note_fill();
        let enough = self.indexes.bounds.pending_bytes;
        self.work_off(
            &self.unmeasured(),
            enough,
            || false,
            |at| {
                if self.layout.is_kept(*at, self.list.files[*at].size) {
                    self.measure(*at);
                } else {
                    self.post(*at);
                }
            },
        );
        if self.takes_trees {
            self.grow();
        }
    }

    /// Does the remaining work on all processors, until it is done or has to stop. What is found is written when it is
    /// done, and each time that `enough` bytes of it wait.
    pub(super) fn work_off<T: Sync>(
        &self,
        waiting: &[T],
        enough: usize,
        has_to_stop: impl Fn() -> bool + Sync,
        work: impl Fn(&T) + Sync,
    ) {
        let mut left = waiting;
        while !left.is_empty() && !has_to_stop() {
            if self.has_enough(enough) {
                self.write_added();
            }
            let done = share(left, |item| {
                work(item);
                if has_to_stop() || self.has_enough(enough) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            left = &left[done..];
        }
        self.write_added();
    }

    /// True where so much waits that it is better written.
    fn has_enough(&self, enough: usize) -> bool {
        let added = self.lock();
        added.bytes >= enough || added.posted_bytes >= self.indexes.bounds.postings_pending
    }

    fn write_added(&self) {
        let added = std::mem::take(&mut *self.lock());
        self.index.write(&self.list, added, &self.indexes);
    }

    /// The files that are still to be measured, as far as the index has room.
    fn unmeasured(&self) -> Vec<usize> {
        let is_full = self.index.lock().is_full;
        let missing = self.missing().filter(|_| !is_full);
        let mut unmeasured: Vec<usize> = missing.chain(self.unposted()).collect();
        unmeasured.sort_unstable();
        unmeasured.dedup();
        let added = self.lock();
        unmeasured.retain(|at| !added.files.contains_key(self.list.files[*at].path.as_str()));
        unmeasured
    }

    fn lock(&self) -> MutexGuard<'_, Added> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place without a position: only the size of the profile is known so far.
pub(super) fn unplaced(profile: Option<&Profile>) -> RecordExtent {
    RecordExtent {
        offset: 0,
        bytes: profile.map_or(0, |profile| profile.bytes().len() as u32),
        sum: 0,
    }
}
