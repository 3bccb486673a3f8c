//! The index: a cache on disk of the profiles of a repository's files, with content digests as keys.
//!
//! An index entry answers for a file only if size, times and inode are those of the last read, and if the last change
//! was long enough before that read that a later change cannot have the same times. All other files are read again,
//! through the repository, so the index never holds a hidden file. The index only saves time: a selection without it
//! reads the files and gets profiles with the same words. A damaged or deleted index costs nothing but time.
//!
//! Beside the profiles, the index holds an inverted index of trigrams and one of words. With trigrams, a search reads
//! only the files that can match. With words, a selection in a large tree reads only the profiles that can be relevant.
//!
//! Read in this order: `bounds` (limits), `index_view` (one request), `update` (the work after it), `indexer` (reads files
//! for both), `listing` (the list of files), `catalogue` (the entry of each file), `known_files` (files whose entries
//! are up to date), `store` (files on disk), `trees` (syntax trees in the background), `commits` (the history),
//! `postings` (the inverted indexes), `documents` (the document of each file), `trigrams`, `pattern` and `text_search` (for
//! searches), `words` (for selections).

mod bounds;
mod catalogue;
mod commits;
mod documents;
mod index_view;
mod indexer;
mod known_files;
mod listing;
mod pattern;
mod postings;
mod store;
#[cfg(test)]
mod tests;
mod text_search;
mod trees;
mod trigrams;
mod update;
mod words;

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::history::{HistoryCell, HistoryGap, HistoryReader, NoHistory};
use super::layout::TreeLayout;
use super::symbols::{NoParser, SyntaxParser};
use bounds::IndexBounds;
use catalogue::{Catalogue, ContentDigest};
use documents::KnownDocuments;
pub(crate) use index_view::IndexView;
use listing::CheckedList;
use postings::{Postings, PostingsKind};
use store::{DiskVersion, IndexStore};
use tool_repository::file_role::{detect_language, file_name, is_nameless};
use tool_repository::{FileList, Repository, RepositoryKey};

pub use bounds::{
    EXACT_CHECK_FILES_MAX, INDEXES_BYTES_MAX, OUTLINE_FILL_SECONDS_MAX, READ_ALL_FILES_MAX, READ_FILES_MAX,
};
pub use pattern::{PatternKind, SearchPattern};
pub use text_search::FileVerdict;

/// Largest file in which a name is looked for. The index knows the trigrams of files up to this size.
pub(crate) const SEARCHED_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The indexes below a home directory. It keeps those open that were used last.
#[derive(Debug)]
pub struct Indexes {
    folder: PathBuf,
    bounds: IndexBounds,
    /// False if each request waits until the index is up to date, because its process ends after it.
    in_background: bool,
    /// Sorted by last use; the most recent one is last.
    open: Mutex<Vec<Arc<Index>>>,
    updates: AtomicUsize,
    /// True if an update waits. A running update then stops reading syntax trees.
    is_update_waiting: AtomicBool,
    /// True while a thread checks, after a search, whether an index lacks files.
    is_checking_after_search: AtomicBool,
    parser: Arc<dyn SyntaxParser>,
    /// Reads the commits before a work tree.
    history: Arc<dyn HistoryReader>,
    /// Hashes lists of paths. Seeded, so that a repository cannot construct two lists with equal hashes.
    hasher: RandomState,
}

#[derive(Debug)]
struct Index {
    key: RepositoryKey,
    store: IndexStore,
    state: Mutex<IndexState>,
    is_updating: AtomicBool,
    /// True while a thread lists the whole tree.
    is_checking: AtomicBool,
    history: HistoryCell,
    /// True while the history in memory is newer than the one on disk.
    has_unwritten_history: AtomicBool,
}

#[derive(Debug, Default)]
struct IndexState {
    catalogue: Arc<Catalogue>,
    /// Version of the file on disk that `catalogue` was read from.
    version: Option<DiskVersion>,
    layout: Option<KnownLayout>,
    /// Last list of a tree that is too large to be listed for each request.
    checked: Option<CheckedList>,
    /// True once a file did not fit.
    is_full: bool,
    trigrams: Arc<Postings>,
    words: Arc<Postings>,
    /// The documents of the last list.
    documents: Option<KnownDocuments>,
}

/// A layout with the list that it was made for.
#[derive(Debug, Clone)]
struct KnownLayout {
    list: Arc<FileList>,
    /// Number and hash of the paths. A later list with the same paths can use this layout.
    paths: (usize, u64),
    /// Places in the list of the manifests and package roots that the layout was made of.
    read: Arc<[usize]>,
    layout: Arc<TreeLayout>,
}

impl Indexes {
    /// The indexes below `home`, which are brought up to date in the background.
    pub fn new(home: &Path, parser: Arc<dyn SyntaxParser>, history: Arc<dyn HistoryReader>) -> Arc<Self> {
        let indexes = Self::with_bounds(home, IndexBounds::default(), true).with_parser(parser);
        Arc::new(Self { history, ..indexes })
    }

    /// An index by text alone, with a history; each request waits until both are up to date.
    pub fn waiting_for_history(home: &Path, history: Arc<dyn HistoryReader>) -> Arc<Self> {
        let indexes = Self::with_bounds(home, IndexBounds::default(), false);
        Arc::new(Self { history, ..indexes })
    }

    /// An index by text alone; each request waits until the index is up to date.
    pub fn open_waiting(home: &Path) -> Arc<Self> {
        Arc::new(Self::with_bounds(home, IndexBounds::default(), false))
    }

    /// An index with syntax trees; each request waits until the index is up to date.
    pub fn waiting_for_trees(home: &Path, parser: Arc<dyn SyntaxParser>) -> Arc<Self> {
        Arc::new(Self::with_bounds(home, IndexBounds::default(), false).with_parser(parser))
    }

    /// Why no commit of a repository is read, where that is known.
    pub(crate) fn history_gap(&self, repository: &Repository) -> Option<HistoryGap> {
        self.history.gap(repository)
    }

    pub(crate) fn parser(&self) -> &dyn SyntaxParser {
        self.parser.as_ref()
    }

    fn with_parser(self, parser: Arc<dyn SyntaxParser>) -> Self {
        Self { parser, ..self }
    }

    fn with_bounds(home: &Path, bounds: IndexBounds, in_background: bool) -> Self {
        Self {
            parser: Arc::new(NoParser),
            history: Arc::new(NoHistory),
            folder: home.join("index"),
            bounds,
            in_background,
            open: Mutex::default(),
            updates: AtomicUsize::new(0),
            is_update_waiting: AtomicBool::new(false),
            is_checking_after_search: AtomicBool::new(false),
            hasher: RandomState::new(),
        }
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
    fn open(folder: &Path, key: &RepositoryKey) -> Self {
        let store = IndexStore::new(folder, &key.name(), key.identity());
        let state = store
            .load()
            .map_or_else(IndexState::default, |(catalogue, version)| IndexState {
                catalogue: Arc::new(catalogue),
                version: Some(version),
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
            is_updating: AtomicBool::new(false),
            is_checking: AtomicBool::new(false),
            history: HistoryCell::new(history),
            has_unwritten_history: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.lock().catalogue)
    }

    /// The layout of a list. It is computed again only if the paths differ from those of the last list, or a file that it
    /// was made of.
    fn layout(
        &self,
        list: &Arc<FileList>,
        hasher: &RandomState,
        text: impl Fn(&str) -> Option<String>,
    ) -> Arc<TreeLayout> {
        let known = self.lock().layout.clone();
        if let Some(known) = known.as_ref().filter(|known| Arc::ptr_eq(&known.list, list)) {
            return Arc::clone(&known.layout);
        }
        let paths: Vec<&str> = list.files.iter().map(|file| file.path.as_str()).collect();
        let (count, hash) = (paths.len(), hasher.hash_one(&paths));
        let is_unchanged = |at: &usize, before: &FileList| before.files[*at] == list.files[*at];
        let known = known
            .filter(|known| known.paths == (count, hash))
            .filter(|known| known.read.iter().all(|at| is_unchanged(at, &known.list)));
        let (layout, read) = match known {
            Some(known) => (known.layout, known.read),
            None => {
                let read = RefCell::new(Vec::new());
                let text = |path: &str| {
                    read.borrow_mut().extend(list.index_of(path));
                    text(path)
                };
                let layout = Arc::new(TreeLayout::new(&paths, text));
                (layout, read.into_inner().into())
            }
        };
        self.lock().layout = Some(KnownLayout {
            list: Arc::clone(list),
            paths: (count, hash),
            read,
            layout: Arc::clone(&layout),
        });
        layout
    }
}

/// Gives the calling thread the lowest priority. Threads that it starts inherit the priority on Linux.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    // If lowering the priority is not permitted, the thread goes on at the normal priority.
    let _ = rustix::process::setpriority_process(None, 19);
}

/// The digest of a file. It covers the extension too, because a profile depends on the language.
fn digest_file(path: &str, content: &[u8]) -> ContentDigest {
    let extension = match file_name(path).rsplit_once('.') {
        Some((_, extension)) => extension,
        // The same text is read where the name is known, and may say nothing where it is not.
        None if is_nameless(path) => "?",
        None => detect_language(path).unwrap_or(""),
    };
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
