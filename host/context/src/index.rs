//! The index: what a selection asks of files, kept by content digest from one request to the next.
//!
//! An index answers for a file where size, times and inode are those of the reading, and nothing had changed so shortly
//! before it that a later change could hide. Everything else is read again, through the repository like any other file,
//! so that nothing hidden is ever in it. It stands in for reading: the profile of a file is the same from both, but that
//! the index gives it a syntax tree in its own time. A damaged or deleted index costs time and nothing else.
//!
//! Beside the profiles it keeps which trigrams a content has, so that a search reads only the files that can match, and
//! which words, so that a selection in a large tree reads only the profiles of the files that a task can be about.
//!
//! Read in this order: `bounds`, `listing` (the files of now), `catalogue` (profiles by file), `store` (on the disk), `trees`
//! (syntax trees, which come later), `postings` (contents by key), `documents` (the content of each file), `trigrams`,
//! `pattern` and `narrow` (a search), `words` (a selection).

mod bounds;
mod catalogue;
mod documents;
mod listing;
mod narrow;
mod pattern;
mod postings;
mod store;
#[cfg(test)]
mod tests;
mod trees;
mod trigrams;
mod words;

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::history::{HISTORY_WALK_TIME, History, HistoryCell, HistoryReader, NoHistory, ReadingPermit, Refreshed};
use super::layout::Layout;
use super::profile::Profile;
use super::query::Query;
use super::symbols::{NoParser, SyntaxParser};
use super::word_hits::WordHits;
use super::{Looked, Source, share, text_of};
use crate::limits;
use bounds::{FIRST_HISTORY_TIME, FIRST_HISTORY_WAIT, IndexBounds};
use catalogue::{Catalogue, ContentDigest, FileFingerprint, FileRecord, RecordExtent};
use documents::KnownDocuments;
use listing::CheckedList;
use postings::{Postings, PostingsKind};
use store::{Mark, Measured, Store};
use tool_repository::{FileEntry, FileList, Key, Repository};
use trigrams::TrigramCollector;

pub use bounds::{
    EXACT_CHECK_FILES_MAX, INDEXES_BYTES_MAX, OUTLINE_FILL_SECONDS_MAX, READ_ALL_FILES_MAX, READ_FILES_MAX,
};
pub use narrow::FileVerdict;
pub use pattern::{PatternKind, SearchPattern};

/// The indexes of a home directory, as far as they were asked for lately.
#[derive(Debug)]
pub struct Indexes {
    folder: PathBuf,
    bounds: IndexBounds,
    /// False where whoever asks waits for everything, so that its process may end.
    beside: bool,
    /// The one that was used last comes last.
    open: Mutex<Vec<Arc<Index>>>,
    filling: AtomicUsize,
    /// True where somebody wants to fill an index while another one gets its trees.
    is_wanted: AtomicBool,
    /// True while a thread looks, after a search, whether an index lacks files.
    is_looking: AtomicBool,
    /// Reads files by syntax tree.
    parser: Arc<dyn SyntaxParser>,
    /// Reads the commits before a work tree.
    history: Arc<dyn HistoryReader>,
    /// For lists of paths. Seeded, so that no repository can make two lists look the same.
    hasher: RandomState,
}

/// The index of one repository.
#[derive(Debug)]
struct Index {
    key: Key,
    store: Store,
    state: Mutex<IndexState>,
    is_filling: AtomicBool,
    /// True while a thread looks at the whole tree.
    is_checking: AtomicBool,
    history: HistoryCell,
    /// True while the history is not on the disk as it is here.
    has_unwritten_history: AtomicBool,
}

#[derive(Debug, Default)]
struct IndexState {
    catalogue: Arc<Catalogue>,
    /// Fingerprint of the index on the disk that `catalogue` was read from.
    mark: Option<Mark>,
    layout: Option<KnownLayout>,
    /// Of a tree that is too large to be looked at for each request.
    checked: Option<CheckedList>,
    /// True once a file did not fit.
    is_full: bool,
    trigrams: Arc<Postings>,
    words: Arc<Postings>,
    /// The documents of the list that was asked for last.
    documents: Option<KnownDocuments>,
}

/// A layout with the list that it was made for.
#[derive(Debug, Clone)]
struct KnownLayout {
    list: Arc<FileList>,
    /// The number and the hash of the paths: another list can have the same.
    paths: (usize, u64),
    layout: Arc<Layout>,
}

impl Indexes {
    /// The indexes below `home`, which are brought up to date beside the requests.
    pub fn new(home: &Path, parser: Arc<dyn SyntaxParser>, history: Arc<dyn HistoryReader>) -> Arc<Self> {
        let indexes = Self::bounded(home, IndexBounds::default(), true).growing(parser);
        Arc::new(Self { history, ..indexes })
    }

    /// An index by text alone, with a history; each request waits until both are up to date.
    pub fn waiting_for_history(home: &Path, history: Arc<dyn HistoryReader>) -> Arc<Self> {
        let indexes = Self::bounded(home, IndexBounds::default(), false);
        Arc::new(Self { history, ..indexes })
    }

    /// An index by text alone; each request waits until the index is up to date.
    pub fn waiting(home: &Path) -> Arc<Self> {
        Arc::new(Self::bounded(home, IndexBounds::default(), false))
    }

    /// An index with syntax trees; each request waits until the index is up to date.
    pub fn waiting_for_trees(home: &Path, parser: Arc<dyn SyntaxParser>) -> Arc<Self> {
        Arc::new(Self::bounded(home, IndexBounds::default(), false).growing(parser))
    }

    /// Reads files by syntax tree.
    pub(crate) fn parser(&self) -> &dyn SyntaxParser {
        self.parser.as_ref()
    }

    fn growing(self, parser: Arc<dyn SyntaxParser>) -> Self {
        Self { parser, ..self }
    }

    fn bounded(home: &Path, bounds: IndexBounds, beside: bool) -> Self {
        Self {
            parser: Arc::new(NoParser),
            history: Arc::new(NoHistory),
            folder: home.join("index"),
            bounds,
            beside,
            open: Mutex::default(),
            filling: AtomicUsize::new(0),
            is_wanted: AtomicBool::new(false),
            is_looking: AtomicBool::new(false),
            hasher: RandomState::new(),
        }
    }

    /// Returns the profiles of a repository whose files are `list`, for a request that has waited since `asked`.
    pub(super) fn look(
        self: &Arc<Self>,
        repository: &Arc<Repository>,
        list: &Arc<FileList>,
        asked: Instant,
        cancel: &CancellationToken,
    ) -> Look {
        let index = self.index(repository);
        let text = |path: &str| {
            let bytes_max = limits::FILE_READ_BYTES_MAX;
            repository.read_within(path, bytes_max, cancel).ok().and_then(text_of)
        };
        let (catalogue, layout) = index.current(list, &self.hasher, text);
        let documents = index.documents(&catalogue, list);
        let mut look = Look {
            indexes: Arc::clone(self),
            index,
            catalogue,
            layout,
            repository: Arc::clone(repository),
            cancel: cancel.clone(),
            list: Arc::clone(list),
            known: documents.entries,
            has_gone: documents.has_gone,
            takes_trees: true,
            collectors: Mutex::default(),
            added: Mutex::default(),
            measured: AtomicUsize::new(0),
            asked,
            since: Instant::now(),
            grows_now: false,
            takes_history: true,
            treeless: list.files.iter().map(|_| AtomicBool::new(false)).collect(),
        };
        look.grows_now = look.has_few_to_grow();
        look
    }

    fn index(&self, repository: &Repository) -> Arc<Index> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = repository.key();
        let at = open.iter().position(|index| index.key == *key);
        let index = at.map_or_else(|| Arc::new(Index::open(&self.folder, key)), |at| open.remove(at));
        open.push(Arc::clone(&index));
        let files = |open: &[Arc<Index>]| {
            open.iter()
                .map(|index| index.lock().catalogue.entries.len())
                .sum::<usize>()
        };
        while open.len() > 1 && (open.len() > self.bounds.open || files(&open) > self.bounds.open_files) {
            open.remove(0);
        }
        index
    }
}

impl Index {
    fn open(folder: &Path, key: &Key) -> Self {
        let store = Store::new(folder, &key.name(), key.identity());
        let state = store
            .load()
            .map_or_else(IndexState::default, |(catalogue, mark)| IndexState {
                catalogue: Arc::new(catalogue),
                mark: Some(mark),
                ..IndexState::default()
            });
        let state = IndexState {
            trigrams: Arc::new(store.load_postings(PostingsKind::Trigrams)),
            words: Arc::new(store.load_postings(PostingsKind::Words)),
            ..state
        };
        let history = store.load_history().unwrap_or_default();
        Self {
            key: key.clone(),
            store,
            state: Mutex::new(state),
            is_filling: AtomicBool::new(false),
            is_checking: AtomicBool::new(false),
            history: HistoryCell::new(history),
            has_unwritten_history: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(
        &self,
        list: &Arc<FileList>,
        hasher: &RandomState,
        text: impl Fn(&str) -> Option<String>,
    ) -> (Arc<Catalogue>, Arc<Layout>) {
        let (catalogue, known) = {
            let state = self.lock();
            (Arc::clone(&state.catalogue), state.layout.clone())
        };
        if let Some(known) = known.as_ref().filter(|known| Arc::ptr_eq(&known.list, list)) {
            return (catalogue, Arc::clone(&known.layout));
        }
        let paths: Vec<&str> = list.files.iter().map(|file| file.path.as_str()).collect();
        let (count, hash) = (paths.len(), hasher.hash_one(&paths));
        let known = known.filter(|known| known.paths == (count, hash));
        let layout = known.map_or_else(|| Arc::new(Layout::new(&paths, text)), |known| known.layout);
        self.lock().layout = Some(KnownLayout {
            list: Arc::clone(list),
            paths: (count, hash),
            layout: Arc::clone(&layout),
        });
        (catalogue, layout)
    }

    fn refresh_history(
        &self,
        permit: ReadingPermit,
        indexes: &Indexes,
        repository: &Arc<Repository>,
        time: Duration,
        cancel: &CancellationToken,
    ) {
        let refreshed = self
            .history
            .refresh(permit, &*indexes.history, repository, time, cancel);
        if refreshed == Refreshed::Changed {
            self.has_unwritten_history.store(true, Ordering::Release);
        }
        if !self.has_unwritten_history.load(Ordering::Acquire) {
            return;
        }
        match self.store.write_history(&self.history.current()) {
            Ok(is_written) => self.has_unwritten_history.store(!is_written, Ordering::Release),
            Err(error) => tracing::debug!(%error, "the history is not kept"),
        }
    }

    /// Writes what was measured. Where somebody else writes, it is left to them.
    fn write(&self, list: &FileList, added: Added, indexes: &Indexes) {
        let written = self.try_write(list, added, indexes);
        if let Err(error) = written {
            tracing::debug!(%error, "the index is not kept");
        }
    }

    fn try_write(&self, list: &FileList, added: Added, indexes: &Indexes) -> std::io::Result<()> {
        let bounds = &indexes.bounds;
        let Some(_lock) = self.store.lock()? else {
            return Ok(());
        };
        let (mut base, mut mark) = {
            let state = self.lock();
            (Arc::clone(&state.catalogue), state.mark)
        };
        if mark.is_none() || mark != self.store.mark() {
            match self.store.load() {
                Some((theirs, now)) => (base, mark) = (Arc::new(theirs), Some(now)),
                None => mark = None,
            }
        }
        let gone = gone(&base, list);
        if added.files.is_empty() && mark.is_some() && gone.is_empty() {
            return Ok(());
        }
        let has_gone = !gone.is_empty();
        let keeps = |path: &str| !gone.contains(path);
        let mut files: Vec<Measured> = added.files.into_values().collect();
        let trigrams: Vec<_> = files.iter_mut().filter_map(|one| one.trigrams.take()).collect();
        let words: Vec<_> = files.iter_mut().filter_map(|one| one.words.take()).collect();
        let written = self.store.write(&base, mark.is_some(), keeps, files, bounds.bytes)?;
        let catalogue = Arc::new(written.catalogue);
        let mut state = self.lock();
        state.is_full = written.is_full;
        state.catalogue = Arc::clone(&catalogue);
        state.mark = Some(written.mark);
        drop(state);
        let live: HashSet<ContentDigest> = catalogue.entries.iter().map(|entry| entry.digest).collect();
        for (kind, added, bytes_max) in [
            (PostingsKind::Trigrams, trigrams, bounds.postings_bytes),
            (PostingsKind::Words, words, bounds.words_bytes),
        ] {
            self.write_postings(kind, &live, &added, has_gone, bytes_max)?;
        }
        store::prune(&indexes.folder, &self.key.name(), bounds.indexes, bounds.indexes_bytes);
        Ok(())
    }
}

/// By the list's order: the place of each file's entry in the catalogue, where it answers for the file. And whether the
/// catalogue has entries of files that are not listed.
fn valid(catalogue: &Catalogue, list: &FileList) -> (Vec<Option<u32>>, bool) {
    let mut entries = (0_u32..).zip(&catalogue.entries).peekable();
    let mut found = 0;
    let mut of = |file: &FileEntry| {
        while entries.next_if(|(_, entry)| *entry.path < *file.path).is_some() {}
        let (at, entry) = entries.next_if(|(_, entry)| *entry.path == *file.path)?;
        found += 1;
        (entry.is_settled && entry.stamp == FileFingerprint::of(file)).then_some(at)
    };
    let known = list.files.iter().map(&mut of).collect();
    (known, found < catalogue.entries.len())
}

/// The files of a catalogue that are not listed any more. A list that was cut short does not prove it of any.
fn gone<'a>(catalogue: &'a Catalogue, list: &FileList) -> HashSet<&'a str> {
    let mut files = list.files.iter().peekable();
    let mut is_gone = |path: &&str| {
        while files.next_if(|file| file.path.as_str() < *path).is_some() {}
        files.next_if(|file| file.path == *path).is_none()
    };
    let paths = catalogue.entries.iter().map(|entry| &*entry.path);
    paths.filter(|path| list.complete && is_gone(path)).collect()
}

/// Files that were measured since.
#[derive(Debug, Default)]
struct Added {
    files: BTreeMap<Box<str>, Measured>,
    bytes: usize,
    /// Bytes of trigrams and words.
    posted_bytes: usize,
}

/// An index as one request sees it.
pub(super) struct Look {
    indexes: Arc<Indexes>,
    index: Arc<Index>,
    catalogue: Arc<Catalogue>,
    layout: Arc<Layout>,
    repository: Arc<Repository>,
    /// Cancelled when the request ends.
    cancel: CancellationToken,
    list: Arc<FileList>,
    known: Arc<[Option<u32>]>,
    /// True where the index has files that are not listed any more.
    has_gone: bool,
    added: Mutex<Added>,
    /// Files that this request had to read.
    measured: AtomicUsize,
    /// When somebody began to wait for the answer: the list was made after that.
    asked: Instant,
    /// When the files began to be looked at.
    since: Instant,
    /// True where so little is new that it is read by syntax tree at once.
    grows_now: bool,
    /// False where earlier commits may not count: then they are not read either.
    takes_history: bool,
    /// False where the files are not read by syntax tree after the answer.
    takes_trees: bool,
    /// For trigrams, while nobody uses them.
    collectors: Mutex<Vec<TrigramCollector>>,
    /// By the list's order: files whose symbols were wanted and that nobody has tried to read by syntax tree.
    treeless: Vec<AtomicBool>,
}

impl Source for Look {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let bytes_max = limits::FILE_READ_BYTES_MAX;
        self.repository.read_within(path, bytes_max, &self.cancel).ok()
    }

    fn profile(&self, path: &str) -> Looked {
        self.place(path).map_or(Looked::Nothing, |at| self.profile_at(at))
    }

    fn profile_near(&self, path: &str, at: usize) -> Looked {
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
    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The history, if it has this number of commits or all that there are.
    pub(super) fn newest_commits(&self, number: usize) -> Option<Arc<History>> {
        let history = self.history()?;
        (history.has(number) || self.index.history.is_complete()).then_some(history)
    }

    /// Leaves earlier commits alone, where they do not count. Else begins to read them, where none were ever read.
    pub(super) fn without_history_if(self, is_so: bool) -> Self {
        let look = Self {
            takes_history: self.takes_history && !is_so,
            ..self
        };
        if look.indexes.beside && look.takes_history {
            look.begin_history();
        }
        look
    }

    fn profile_at(&self, at: usize) -> Looked {
        let known = self.known_profile(at);
        if let Some(profile) = known.and_then(|place| self.catalogue.profile(place)) {
            self.note_treeless(at, profile.as_ref());
            return Looked::from(profile);
        }
        if self.layout.written[at] && self.is_late() {
            return Looked::Later;
        }
        self.measured.fetch_add(1, Ordering::Relaxed);
        let profile = self.measure(at);
        self.note_treeless(at, profile.as_ref());
        Looked::from(profile)
    }

    fn place(&self, path: &str) -> Option<usize> {
        self.list
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()
    }

    /// True where the request should rather answer from what is there.
    fn is_late(&self) -> bool {
        self.indexes.beside
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
            let settling = i128::try_from(self.indexes.bounds.settling.as_nanos()).unwrap_or(0);
            let entry = FileRecord {
                path: file.path.as_str().into(),
                stamp: FileFingerprint::of(&read),
                is_settled: read.changed_ns < began - settling,
                digest,
                place: place.unwrap_or_else(|| unplaced(profile.as_ref())),
            };
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

    /// A file that does not fit is measured again when the index is filled.
    fn note(&self, measured: Measured) {
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
    pub(super) fn finish(self) {
        if self.indexes.beside && self.takes_history {
            self.refresh_history_beside();
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

    fn lacks_files(&self) -> bool {
        let is_full = self.index.lock().is_full;
        !is_full && self.missing().next().is_some() || self.lacks_postings()
    }

    /// Files that the index should know and does not.
    fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let files = self.list.files.iter().enumerate();
        let missing =
            files.filter(|(at, file)| self.known_profile(*at).is_none() && self.layout.is_kept(*at, file.size));
        missing.map(|(at, _)| at)
    }

    fn fill(&self, _turn: &IndexingPermit) {
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

    /// Does what is left on all processors, until it is done or has to stop. What is found is written when it is done,
    /// and each time that `enough` bytes of it wait.
    fn work_off<T: Sync>(
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
fn unplaced(profile: Option<&Profile>) -> RecordExtent {
    RecordExtent {
        offset: 0,
        bytes: profile.map_or(0, |profile| profile.bytes().len() as u32),
        sum: 0,
    }
}

/// The right to fill an index. One at a time has it for each index, and not more than a few for all of them.
struct IndexingPermit {
    indexes: Arc<Indexes>,
    index: Arc<Index>,
}

impl IndexingPermit {
    fn take(indexes: &Arc<Indexes>, index: &Arc<Index>) -> Option<Self> {
        if index.is_filling.swap(true, Ordering::AcqRel) {
            return None;
        }
        if indexes.filling.fetch_add(1, Ordering::AcqRel) >= indexes.bounds.filling {
            indexes.filling.fetch_sub(1, Ordering::AcqRel);
            index.is_filling.store(false, Ordering::Release);
            return None;
        }
        Some(Self {
            indexes: Arc::clone(indexes),
            index: Arc::clone(index),
        })
    }
}

impl Drop for IndexingPermit {
    fn drop(&mut self) {
        self.index.is_filling.store(false, Ordering::Release);
        self.indexes.filling.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Lets everything else on the machine go first. On Linux this is the calling thread's, and that of those it starts.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    // If lowering the priority is not permitted, the thread goes on at the normal priority.
    let _ = rustix::process::setpriority_process(None, 19);
}

/// A profile depends on the language too, which the extension tells.
fn digest(path: &str, content: &[u8]) -> ContentDigest {
    let extension = tool_repository::file_role::file_name(path)
        .rsplit_once('.')
        .map_or("", |(_, extension)| extension);
    let mut digest = Sha256::new();
    digest.update(extension.as_bytes());
    digest.update([0]);
    digest.update(content);
    let mut cut = ContentDigest::default();
    cut.copy_from_slice(&digest.finalize()[..16]);
    cut
}

fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(0)
}
