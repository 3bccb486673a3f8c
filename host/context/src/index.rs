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
//! Read in this order: `bounds`, `look` (one request), `listing` (the files of now), `catalogue` (profiles by file), `store`
//! (on the disk), `trees` (syntax trees, which come later), `postings` (contents by key), `documents` (the content of each
//! file), `trigrams`, `pattern` and `narrow` (a search), `words` (a selection).

mod bounds;
mod catalogue;
mod documents;
mod listing;
mod look;
mod narrow;
mod pattern;
mod postings;
mod store;
#[cfg(test)]
mod tests;
mod trees;
mod trigrams;
mod words;

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::history::{HistoryCell, HistoryGap, HistoryReader, NoHistory, ReadingPermit, Refreshed};
use super::layout::Layout;
use super::symbols::{NoParser, SyntaxParser};
use super::text_of;
use crate::limits;
use bounds::{FIRST_HISTORY_TIME, FIRST_HISTORY_WAIT, IndexBounds};
use catalogue::{Catalogue, ContentDigest, FileFingerprint};
use documents::KnownDocuments;
use listing::CheckedList;
pub(crate) use look::Look;
use look::{Added, unplaced};
use postings::{Postings, PostingsKind};
use store::{Mark, Measured, Store};
use tool_repository::{FileEntry, FileList, Key, Repository};

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
    /// False where a request waits until the index is up to date, so that its process may end.
    beside: bool,
    /// The one that was used last comes last.
    open: Mutex<Vec<Arc<Index>>>,
    filling: AtomicUsize,
    /// True where a request wants to fill an index while another index gets its trees.
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

    /// Why no commit of a repository is read, where that is known.
    pub(crate) fn history_gap(&self, repository: &Repository) -> Option<HistoryGap> {
        self.history.gap(repository)
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

    /// Writes what was measured. Does nothing while another writer holds the lock.
    fn write(&self, list: &FileList, added: Added, indexes: &Indexes) {
        let written = self.try_write(list, added, indexes);
        if let Err(error) = written {
            tracing::warn!(%error, "the index cannot be kept; each request reads the files anew");
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
