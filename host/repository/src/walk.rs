//! Walks the whole tree and lists its files, after ignore rules, skipped directories and hidden names. Files that git
//! tracks are listed despite ignore rules of git and skipped directories.
//!
//! Threads share a stack of directories. One thread lists each directory, on a handle that was opened beneath the root
//! without following links. The walk opens only the few files whose names suggest a key. It also finds what names do
//! not say: which directories are git directories, and the inodes of hidden files.

use std::collections::HashSet;
use std::ffi::CString;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use tokio_util::sync::CancellationToken;

use super::fingerprint::{self, ScanBasis, ScanFingerprint, changed_ns, modified_ns};
use super::ignore_files::{IgnoreReader, SkippedIgnores};
use super::ignores::{IgnoredBy, Ignores};
use super::open::{self, FileIdentity, RootHandle};
use super::rules::{self, Rules};
use super::tracked::{TrackedPaths, TrackedTree, TrackedWithin, count_below};
use super::{EntryKind, path, secrets};
use tool_core::limits::{SCAN_ENTRIES_MAX, SCAN_SECONDS_MAX, SCAN_SETTLING_MS, SCAN_THREADS_MAX};

/// Entries of hidden directories whose identity is remembered, so that hard links to them are refused. Folders of keys
/// and credentials hold a handful.
pub(crate) const HIDDEN_ENTRIES_MAX: u64 = 10_000;

/// The files of a repository as the user sees them.
#[derive(Debug, Clone, Default)]
pub struct FileList {
    /// Regular files, sorted by path bytewise.
    pub files: Vec<FileEntry>,
    /// Directories that were walked, without the root, sorted by path bytewise.
    pub directories: Vec<String>,
    /// Hidden entries; a directory counts as one.
    pub hidden: u64,
    /// Entries whose names are not UTF-8, which no list can hold.
    pub not_utf8: u64,
    /// Directories with such entries, and their numbers.
    pub not_utf8_in: Vec<(String, u64)>,
    /// Directories that were not entered because of their names, or as virtual environments of Python, sorted by path
    /// bytewise.
    pub skipped: Vec<String>,
    /// Entries that an ignore rule leaves out, or that git does not track where only tracked files count, sorted by
    /// path bytewise. A directory is one entry. At most 10,000.
    pub ignored: Vec<String>,
    /// What git tracks, for a sparse checkout.
    pub sparse: Option<Arc<TrackedPaths>>,
    /// Directories and files that could not be read.
    pub unreadable: u64,
    /// Ignore files over a budget, whose rules are not applied.
    pub skipped_ignores: SkippedIgnores,
    /// False if the limit on time or entries ended the walk early.
    pub complete: bool,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Relative to the root, separated by `/`.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Time of the last change of content or attributes, which no program can set, in nanoseconds since 1970.
    pub changed_ns: i128,
    /// The inode.
    pub inode: u64,
}

impl FileList {
    /// The entry of a normal path.
    pub fn find(&self, path: &str) -> Option<&FileEntry> {
        self.files.get(self.index_of(path)?)
    }

    /// Index of a normal path in the list.
    pub fn index_of(&self, path: &str) -> Option<usize> {
        self.files.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok()
    }

    /// The files beneath a directory, given as a normal path; the empty string is the root.
    pub fn beneath(&self, directory: &str) -> &[FileEntry] {
        &self.files[self.range_beneath(directory)]
    }

    /// Range of [`Self::beneath`] in the list.
    pub fn range_beneath(&self, directory: &str) -> Range<usize> {
        if directory.is_empty() {
            return 0..self.files.len();
        }
        // `0` is the character after `/`: everything that starts with `directory/` is between the two.
        self.at(&format!("{directory}/"))..self.at(&format!("{directory}0"))
    }

    /// Joins this list with others.
    #[must_use]
    pub fn joined(&self, others: &[Arc<Self>]) -> Self {
        let mut joined = self.clone();
        for other in others {
            joined.files.extend(other.files.iter().cloned());
            joined.directories.extend(other.directories.iter().cloned());
        }
        joined.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        joined.files.dedup_by(|a, b| a.path == b.path);
        joined.directories.sort_unstable();
        joined.directories.dedup();
        joined
    }

    /// True if the walk has entered the directory.
    pub fn has_walked(&self, directory: &str) -> bool {
        directory.is_empty()
            || self
                .directories
                .binary_search_by(|one| one.as_str().cmp(directory))
                .is_ok()
    }

    /// What the list leaves out below a directory; the empty string is the root.
    pub fn not_listed(&self, directory: &str) -> NotListed {
        let below =
            |path: &str| directory.is_empty() || path == directory || path.starts_with(&format!("{directory}/"));
        let skipped = self.skipped.iter().filter(|path| below(path));
        let not_utf8 = self.not_utf8_in.iter().filter(|(path, _)| below(path));
        NotListed {
            skipped: count_below(&self.skipped, directory),
            skipped_named: skipped.take(SKIPPED_NAMED_MAX).cloned().collect(),
            ignored: count_below(&self.ignored, directory),
            not_utf8: not_utf8.map(|(_, count)| count).sum(),
            not_on_disk: self.sparse.as_ref().map_or(0, |sparse| sparse.not_on_disk(directory)),
        }
    }

    /// Index of the first file whose path is not before this one.
    pub fn at(&self, bound: &str) -> usize {
        self.files.partition_point(|entry| entry.path.as_str() < bound)
    }
}

/// Skipped directories that are named; all are counted.
const SKIPPED_NAMED_MAX: usize = 3;

/// Numbers of entries that a list leaves out, without hidden ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotListed {
    /// Directories that were not entered because of their names, or as virtual environments of Python.
    pub skipped: usize,
    /// The first of them.
    pub skipped_named: Vec<String>,
    /// Entries that an ignore rule covers; a directory is one entry. At most 10,000 are known.
    pub ignored: usize,
    /// Entries whose names are not UTF-8.
    pub not_utf8: u64,
    /// Files that git tracks and that a sparse checkout keeps out of the work tree.
    pub not_on_disk: usize,
}

/// Reason why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The session ended.
    #[error("the scan was cancelled")]
    Cancelled,
    /// The root or a directory cannot be read.
    #[error("`{path}` cannot be listed")]
    Unreadable {
        /// Relative to the root; `.` is the root.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Ignored entries that a list names, so that a search can count those below a directory.
const IGNORED_KEPT_MAX: usize = 10_000;

/// Threads of a walk on a machine with this number of cores.
pub(super) fn thread_count(cores: usize) -> usize {
    cores.min(SCAN_THREADS_MAX)
}

/// Limits of a walk, and the condition for using it again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalkBounds {
    pub time: Duration,
    pub entries: u64,
    /// Time before a walk in which nothing may have changed, for its list to be used again.
    pub settling: Duration,
}

impl Default for WalkBounds {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(SCAN_SECONDS_MAX),
            entries: SCAN_ENTRIES_MAX,
            settling: Duration::from_millis(SCAN_SETTLING_MS),
        }
    }
}

/// Result of a walk: the list, and the data to revalidate it.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) list: Arc<FileList>,
    /// Identities of hidden files, independent of their names.
    pub(super) hidden: HashSet<FileIdentity>,
    /// Directories that were entered: neither they nor directories above them are hidden or git directories.
    pub(super) walked: HashSet<String>,
    /// Fingerprints by which the list is revalidated.
    pub(super) basis: ScanBasis,
}

impl Scan {
    /// Number of entries to keep.
    pub(super) fn entries(&self) -> usize {
        self.list.files.len() + self.basis.inside.len() + self.hidden.len()
    }
}

/// Root of a walk and its rules.
pub(super) struct WalkedTree<'a> {
    pub(super) root: &'a RootHandle,
    pub(super) rules: &'a Rules,
    /// Rules from outside of the root.
    pub(super) ignores: Arc<Ignores>,
    pub(super) reader: IgnoreReader<'a>,
    /// What git tracks in the root's work tree.
    pub(super) tracked: Arc<TrackedTree>,
    /// The state directory, if it exists.
    pub(super) state: Option<FileIdentity>,
}

/// Walks the whole tree, or what is below the directory `start`, which is entered whatever its name is.
pub(super) fn scan_tree(
    tree: &WalkedTree<'_>,
    start: &str,
    bounds: WalkBounds,
    basis: ScanBasis,
    cancel: &CancellationToken,
) -> Result<Scan, ScanError> {
    drop(
        tree.root
            .open_directory(start)
            .map_err(|errno| unreadable_error(start, errno))?,
    );
    let scope = tree.scope_around(start, bounds.entries)?;
    let walk = TreeWalk {
        tree,
        start,
        cancel,
        entries_max: bounds.entries,
        deadline: Instant::now() + bounds.time,
        entries: AtomicU64::new(0),
        hidden_entries: AtomicU64::new(0),
        cut: AtomicBool::new(false),
        queue: Mutex::new(DirectoryQueue::starting_at(start, scope)),
        changed: Condvar::new(),
    };
    let threads = thread_count(std::thread::available_parallelism().map_or(1, usize::from));
    let parts: Vec<WalkResult> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| walk.work())).collect();
        let own = walk.work();
        let others = others.into_iter().filter_map(|thread| {
            // The results of a thread that panicked are missing.
            thread
                .join()
                .inspect_err(|_| walk.cut.store(true, Ordering::Relaxed))
                .ok()
        });
        std::iter::once(own).chain(others).collect()
    });
    if cancel.is_cancelled() {
        return Err(ScanError::Cancelled);
    }
    let complete = !walk.cut.load(Ordering::Relaxed);
    let mut scan = merge_parts(parts, basis, complete, tree.reader.skipped());
    if let Some(sparse) = tree.tracked.sparse() {
        Arc::make_mut(&mut scan.list).sparse = Some(sparse);
    }
    scan.basis.indexes.extend(tree.tracked.asked());
    Ok(scan)
}

fn unreadable_error(path: &str, errno: rustix::io::Errno) -> ScanError {
    ScanError::Unreadable {
        path: if path.is_empty() {
            ".".to_owned()
        } else {
            path.to_owned()
        },
        source: errno.into(),
    }
}

fn merge_parts(parts: Vec<WalkResult>, mut basis: ScanBasis, complete: bool, skipped_ignores: SkippedIgnores) -> Scan {
    let mut whole = WalkResult::default();
    for part in parts {
        whole.list.files.extend(part.list.files);
        whole.list.directories.extend(part.list.directories);
        whole.list.hidden += part.list.hidden;
        whole.list.not_utf8 += part.list.not_utf8;
        whole.list.not_utf8_in.extend(part.list.not_utf8_in);
        whole.list.unreadable += part.list.unreadable;
        whole.list.skipped.extend(part.list.skipped);
        whole.list.ignored.extend(part.list.ignored);
        whole.hidden.extend(part.hidden);
        basis.inside.extend(part.basis);
        basis.indexes.extend(part.trees.iter().filter_map(|tree| tree.asked()));
    }
    whole.list.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let walked = whole.list.directories.iter().cloned().collect();
    whole.list.directories.retain(|path| !path.is_empty());
    whole.list.directories.sort_unstable();
    whole.list.skipped.sort_unstable();
    whole.list.ignored.sort_unstable();
    whole.list.complete = complete;
    whole.list.skipped_ignores = skipped_ignores;
    Scan {
        list: Arc::new(whole.list),
        hidden: whole.hidden.into_iter().collect(),
        walked,
        basis,
    }
}

/// Results of one thread.
#[derive(Default)]
struct WalkResult {
    list: FileList,
    hidden: Vec<FileIdentity>,
    /// Directories that were read, and ignore files in them, with their fingerprints.
    basis: Vec<(String, Option<ScanFingerprint>)>,
    /// Work trees below that of the root.
    trees: Vec<Arc<TrackedTree>>,
}

/// The rules that hold in one directory.
#[derive(Debug, Clone)]
pub(super) struct WalkScope {
    ignores: Arc<Ignores>,
    tracked: Arc<TrackedTree>,
    /// True if only files that git tracks count.
    tracked_only: bool,
}

/// A directory to list.
enum WalkJob {
    /// A directory for the list.
    Visible { path: String, scope: WalkScope },
    /// A hidden directory: only the identities of its files are recorded.
    Hidden { path: String, depth: usize },
}

struct DirectoryQueue {
    jobs: Vec<WalkJob>,
    /// True once a thread has taken the root. A walk without time then has at least the root's files.
    begun: bool,
    /// Threads that work on a directory, each of which may add jobs.
    busy: usize,
}

impl DirectoryQueue {
    fn starting_at(start: &str, scope: WalkScope) -> Self {
        Self {
            jobs: vec![WalkJob::Visible {
                path: start.to_owned(),
                scope,
            }],
            begun: false,
            busy: 0,
        }
    }
}

struct TreeWalk<'a> {
    tree: &'a WalkedTree<'a>,
    /// The directory where the walk begins.
    start: &'a str,
    cancel: &'a CancellationToken,
    entries_max: u64,
    deadline: Instant,
    entries: AtomicU64,
    hidden_entries: AtomicU64,
    cut: AtomicBool,
    queue: Mutex<DirectoryQueue>,
    changed: Condvar,
}

/// A thread that works on one directory. It is dropped even if the thread panics, so that the others do not wait for
/// it.
struct BusyThread<'a>(&'a TreeWalk<'a>);

impl BusyThread<'_> {
    fn give(self, jobs: &mut Vec<WalkJob>) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.jobs.append(jobs);
    }
}

impl Drop for BusyThread<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.busy -= 1;
        drop(queue);
        self.0.changed.notify_all();
    }
}

impl TreeWalk<'_> {
    /// Runs one thread: takes directories until none is left and no other thread can add one.
    fn work(&self) -> WalkResult {
        let mut found = WalkResult::default();
        let mut more = Vec::new();
        while let Some((job, busy)) = self.take() {
            match job {
                WalkJob::Visible { path, scope } => self.visible(path, scope, &mut found, &mut more),
                WalkJob::Hidden { path, depth } => self.hidden(&path, depth, &mut found, &mut more),
            }
            busy.give(&mut more);
        }
        found
    }

    fn take(&self) -> Option<(WalkJob, BusyThread<'_>)> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if queue.begun && self.is_over() {
                queue.jobs.clear();
            }
            if let Some(job) = queue.jobs.pop() {
                queue.begun = true;
                queue.busy += 1;
                return Some((job, BusyThread(self)));
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// True if the walk has to end: it was cancelled, or its limit on time or entries is reached.
    fn is_over(&self) -> bool {
        if self.cancel.is_cancelled() {
            return true;
        }
        if Instant::now() >= self.deadline || self.entries.load(Ordering::Relaxed) >= self.entries_max {
            self.cut.store(true, Ordering::Relaxed);
        }
        self.cut.load(Ordering::Relaxed)
    }

    fn visible(&self, path: String, mut scope: WalkScope, found: &mut WalkResult, more: &mut Vec<WalkJob>) {
        let Some(listing) = self.list(&path) else {
            found.list.unreadable += 1;
            return;
        };
        if listing.not_utf8 > 0 {
            found.list.not_utf8 += listing.not_utf8;
            found.list.not_utf8_in.push((path.clone(), listing.not_utf8));
        }
        found.basis.push((path.clone(), Some(listing.stamp)));
        if listing.is_git_directory() || self.tree.state == Some(listing.stamp.identity) {
            found.list.hidden += 1;
            more.push(WalkJob::Hidden { path, depth: 0 });
            return;
        }
        if listing.has("pyvenv.cfg") && path != self.start {
            if scope.tracked.within(&path) != TrackedWithin::Files {
                found.list.skipped.push(path);
                return;
            }
            scope.tracked_only = true;
        }
        let Ok(handle) = listing.directory.fd() else { return };
        // Recorded before they are read, so that a change meanwhile is noticed.
        fingerprint::fingerprint_ignore_files(handle, &path, |name| listing.has(name), &mut found.basis);
        if listing.has(".git") && !path.is_empty() {
            scope = scope.enter_tree(&path);
            found.trees.push(Arc::clone(&scope.tracked));
        }
        scope.ignores = listing.ignores(&scope.ignores, handle, &path, &self.tree.reader);
        for (count, entry) in listing.entries.iter().enumerate() {
            let is_cancelled = count % ENTRIES_BETWEEN_CHECKS == 0 && self.cancel.is_cancelled();
            // The files of the root are found even without any time.
            if is_cancelled || (count % 256 == 255 && self.is_over()) {
                break;
            }
            self.entry(handle, &path, entry, &scope, found, more);
        }
        self.entries.fetch_add(listing.entries.len() as u64, Ordering::Relaxed);
        found.list.directories.push(path);
    }

    fn entry(
        &self,
        directory: BorrowedFd<'_>,
        parent: &str,
        entry: &DirectoryEntry,
        scope: &WalkScope,
        found: &mut WalkResult,
        more: &mut Vec<WalkJob>,
    ) {
        let path = path::join_path(parent, &entry.name);
        let kind = entry.kind(directory);
        // Recorded before the content is judged: if the content changes, the list may change.
        if kind == FileType::RegularFile && secrets::is_suspect(&entry.name) {
            let stat = stat_at(directory, &entry.name);
            found
                .basis
                .push((path.clone(), stat.ok().map(|stat| ScanFingerprint::from_stat(&stat))));
        }
        match self.tree.judge(directory, &path, entry, kind, scope) {
            EntryVerdict::Hidden => {
                found.list.hidden += 1;
                if kind == FileType::Directory {
                    more.push(WalkJob::Hidden { path, depth: 0 });
                } else if let Ok(stat) = stat_at(directory, &entry.name) {
                    found.hidden.push(FileIdentity::from_stat(&stat));
                }
            }
            EntryVerdict::Skipped => found.list.skipped.push(path),
            EntryVerdict::Ignored if found.list.ignored.len() < IGNORED_KEPT_MAX => found.list.ignored.push(path),
            EntryVerdict::Ignored => {}
            verdict @ (EntryVerdict::Listed | EntryVerdict::TrackedOnly) if kind == FileType::Directory => {
                let scope = scope.enter(verdict);
                more.push(WalkJob::Visible { path, scope });
            }
            EntryVerdict::Listed if kind == FileType::RegularFile => match stat_at(directory, &entry.name) {
                Ok(stat) => found.list.files.push(file_entry(path, &stat)),
                Err(_) => found.list.unreadable += 1,
            },
            EntryVerdict::Listed | EntryVerdict::TrackedOnly => {}
        }
    }

    /// Records the files of a hidden directory, so that hard links to them are refused elsewhere. git's object store is
    /// left out: its thousands of files are not more secret than the tree.
    fn hidden(&self, path: &str, depth: usize, found: &mut WalkResult, more: &mut Vec<WalkJob>) {
        let Some(listing) = self.list(path) else { return };
        let Ok(handle) = listing.directory.fd() else { return };
        let is_git = listing.is_git_directory();
        for (count, entry) in listing.entries.iter().enumerate() {
            let is_full = self.hidden_entries.fetch_add(1, Ordering::Relaxed) >= HIDDEN_ENTRIES_MAX;
            if is_full || (count % ENTRIES_BETWEEN_CHECKS == 0 && self.is_over()) {
                return;
            }
            match entry.kind(handle) {
                FileType::RegularFile => {
                    found.hidden.extend(
                        stat_at(handle, &entry.name)
                            .ok()
                            .map(|stat| FileIdentity::from_stat(&stat)),
                    );
                }
                FileType::Directory if !is_git && depth < 8 => more.push(WalkJob::Hidden {
                    path: path::join_path(path, &entry.name),
                    depth: depth + 1,
                }),
                _ => {}
            }
        }
    }

    fn list(&self, path: &str) -> Option<DirectoryListing> {
        let handle = self.tree.root.open_directory(path).ok()?;
        let listing = DirectoryListing::read(handle, self.entries_max, || self.is_over()).ok()?;
        if listing.is_cut {
            self.cut.store(true, Ordering::Relaxed);
        }
        Some(listing)
    }
}

/// Entries of a directory between two checks of deadline and cancellation. Matching an entry takes long if there are
/// many rules.
const ENTRIES_BETWEEN_CHECKS: usize = 16;

/// Verdict on one entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryVerdict {
    Hidden,
    /// Left out by the name of a directory.
    Skipped,
    /// Left out by an ignore rule, or not tracked where only tracked files count.
    Ignored,
    Listed,
    /// A directory of which only the files count that git tracks.
    TrackedOnly,
}

impl WalkScope {
    /// The rules inside of a directory, before its own ignore files, for the verdict on it.
    fn enter(&self, verdict: EntryVerdict) -> Self {
        Self {
            tracked_only: verdict == EntryVerdict::TrackedOnly,
            ..self.clone()
        }
    }

    /// The rules in the top directory of another work tree.
    fn enter_tree(&self, top: &str) -> Self {
        Self {
            tracked: self.tracked.below(top),
            tracked_only: false,
            ..self.clone()
        }
    }

    /// Judges an entry by its name, ignore rules, and what git tracks. The index is asked only about entries that would
    /// be left out.
    fn judge(&self, path: &str, is_directory: bool) -> EntryVerdict {
        let name = path::split_path(path).1;
        let is_skipped = is_directory && rules::is_skipped(name);
        let ignored_by = self.ignores.ignored_by(path, is_directory);
        if !is_skipped && ignored_by.is_none() && !self.tracked_only {
            return EntryVerdict::Listed;
        }
        let dropped = if is_skipped {
            EntryVerdict::Skipped
        } else {
            EntryVerdict::Ignored
        };
        if ignored_by == Some(IgnoredBy::Search) {
            return dropped;
        }
        if !is_directory {
            return if self.tracked.holds(path) {
                EntryVerdict::Listed
            } else {
                dropped
            };
        }
        let is_plain = ignored_by.is_none() && !self.tracked_only && rules::may_hold_sources(name);
        match self.tracked.within(path) {
            TrackedWithin::Nothing => dropped,
            TrackedWithin::OtherTree => EntryVerdict::Listed,
            TrackedWithin::Files if is_plain => EntryVerdict::Listed,
            TrackedWithin::Files => EntryVerdict::TrackedOnly,
        }
    }
}

impl WalkedTree<'_> {
    /// The rules at the root, before its own ignore files.
    fn scope(&self) -> WalkScope {
        WalkScope {
            ignores: Arc::clone(&self.ignores),
            tracked: Arc::clone(&self.tracked),
            tracked_only: false,
        }
    }

    /// Judges an entry of a directory that is neither hidden nor a git directory.
    fn judge(
        &self,
        directory: BorrowedFd<'_>,
        path: &str,
        entry: &DirectoryEntry,
        kind: FileType,
        scope: &WalkScope,
    ) -> EntryVerdict {
        let is_directory = kind == FileType::Directory;
        let folded = rules::fold_case(path);
        let is_hidden = self.rules.hidden_entry(&folded, is_directory).is_some();
        if is_hidden {
            return EntryVerdict::Hidden;
        }
        let verdict = scope.judge(path, is_directory);
        if !matches!(verdict, EntryVerdict::Listed | EntryVerdict::TrackedOnly) {
            return verdict;
        }
        let is_suspect = kind == FileType::RegularFile && secrets::is_suspect(&entry.name);
        if is_suspect && !self.rules.revealed(&folded) && secret_at(directory, &entry.name) {
            return EntryVerdict::Hidden;
        }
        verdict
    }

    /// Judges a directory by its entries, which [`Self::judge`] leaves to the walk that will read it.
    fn judge_directory(&self, directory: BorrowedFd<'_>, path: &str, scope: &WalkScope) -> EntryVerdict {
        let name = path::split_path(path).1;
        let identity = stat_at(directory, name).map(|stat| FileIdentity::from_stat(&stat)).ok();
        if open::is_git_directory(directory, name) || (self.state.is_some() && self.state == identity) {
            return EntryVerdict::Hidden;
        }
        let environment = stat_at(directory, &format!("{name}/pyvenv.cfg"));
        if environment.is_ok() && scope.tracked.within(path) != TrackedWithin::Files {
            EntryVerdict::Skipped
        } else {
            EntryVerdict::Listed
        }
    }

    /// True for a file that a walk would leave out if it existed: by a hidden or skipped name, or by an ignore rule.
    pub(super) fn leaves_out(&self, path: &str) -> bool {
        let judge = |scope: &WalkScope, path: &str, is_directory: bool| {
            let is_hidden = self.rules.hidden_entry(&rules::fold_case(path), is_directory).is_some();
            let verdict = scope.judge(path, is_directory);
            let is_in = !is_hidden && matches!(verdict, EntryVerdict::Listed | EntryVerdict::TrackedOnly);
            is_in.then(|| scope.enter(verdict))
        };
        let mut scope = self.scope();
        for directory in std::iter::once("").chain(path::list_ancestors(path)) {
            if self.reader.is_over() {
                return true;
            }
            if !directory.is_empty() {
                match judge(&scope, directory, true) {
                    Some(within) => scope = within,
                    None => return true,
                }
            }
            // A directory that does not exist has no ignore file.
            let Ok(handle) = self.root.open_directory(directory) else {
                continue;
            };
            if self.enter(&mut scope, directory, handle, SCAN_ENTRIES_MAX).is_err() {
                return true;
            }
        }
        judge(&scope, path, false).is_none()
    }

    /// Applies the rules of a directory to everything in it.
    fn enter(
        &self,
        scope: &mut WalkScope,
        directory: &str,
        handle: OwnedFd,
        entries_max: u64,
    ) -> Result<(), ScanError> {
        if directory.is_empty() {
            let listing = self.listing(directory, handle, entries_max)?;
            let handle = listing.directory.fd().map_err(|errno| unreadable_error("", errno))?;
            scope.ignores = listing.ignores(&scope.ignores, handle, "", &self.reader);
            return Ok(());
        }
        let has = |name: &str| stat_at(handle.as_fd(), name).is_ok();
        if has(".git") {
            *scope = scope.enter_tree(directory);
        }
        scope.ignores = Ignores::enter(&scope.ignores, &handle, directory, has, &self.reader);
        Ok(())
    }

    fn listing(&self, path: &str, handle: OwnedFd, entries_max: u64) -> Result<DirectoryListing, ScanError> {
        let listing = DirectoryListing::read(handle, entries_max, || self.reader.is_over());
        let listing = listing.map_err(|errno| unreadable_error(path, errno))?;
        match listing.is_cut {
            true if self.reader.is_over() => Err(ScanError::Cancelled),
            true => Err(unreadable_error(path, rustix::io::Errno::FBIG)),
            false => Ok(listing),
        }
    }

    /// The rules in the directory that contains `path`, which the caller has judged.
    fn scope_around(&self, path: &str, entries_max: u64) -> Result<WalkScope, ScanError> {
        let mut scope = self.scope();
        for directory in std::iter::once("").chain(path::list_ancestors(path)) {
            if directory == path {
                break;
            }
            if self.reader.is_over() {
                return Err(ScanError::Cancelled);
            }
            let handle = self.root.open_directory(directory);
            let handle = handle.map_err(|errno| unreadable_error(directory, errno))?;
            self.enter(&mut scope, directory, handle, entries_max)?;
        }
        Ok(scope)
    }

    /// The entries of one directory, which the caller has judged.
    pub(super) fn entries(&self, path: &str, entries_max: u64) -> Result<DirectoryList, ScanError> {
        let mut scope = self.scope_around(path, entries_max)?;
        let handle = self.root.open_directory(path);
        let listing = self.listing(
            path,
            handle.map_err(|errno| unreadable_error(path, errno))?,
            entries_max,
        )?;
        let handle = listing.directory.fd().map_err(|errno| unreadable_error(path, errno))?;
        if listing.has(".git") && !path.is_empty() {
            scope = scope.enter_tree(path);
        }
        scope.ignores = listing.ignores(&scope.ignores, handle, path, &self.reader);
        let mut left_out = listing.not_utf8;
        let mut listed = Vec::new();
        for (count, entry) in listing.entries.iter().enumerate() {
            if count % ENTRIES_BETWEEN_CHECKS == 0 && self.reader.is_over() {
                return Err(ScanError::Cancelled);
            }
            match self.listed_entry(handle, path, entry, &scope) {
                Some(entry) => listed.push(entry),
                None => left_out += 1,
            }
        }
        listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(DirectoryList {
            entries: listed,
            left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
            skipped_ignores: self.reader.skipped(),
        })
    }

    /// An entry of a directory for a list, unless it is left out.
    fn listed_entry(
        &self,
        directory: BorrowedFd<'_>,
        parent: &str,
        entry: &DirectoryEntry,
        scope: &WalkScope,
    ) -> Option<ListedEntry> {
        let kind = entry.kind(directory);
        let listed_kind = match kind {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Symlink,
            _ => return None,
        };
        let path = path::join_path(parent, &entry.name);
        let mut verdict = self.judge(directory, &path, entry, kind, scope);
        if matches!(verdict, EntryVerdict::Listed | EntryVerdict::TrackedOnly) && kind == FileType::Directory {
            verdict = self.judge_directory(directory, &path, scope);
        }
        matches!(verdict, EntryVerdict::Listed | EntryVerdict::TrackedOnly).then(|| ListedEntry {
            size: size_of(directory, &entry.name, listed_kind),
            path,
            kind: listed_kind,
        })
    }
}

/// The entries of one directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectoryList {
    /// Sorted by path bytewise.
    pub entries: Vec<ListedEntry>,
    /// Entries that were left out: by an ignore rule, as a skipped directory, by a hidden name, or because the name is
    /// not UTF-8.
    pub left_out: u32,
    /// Ignore files over a budget, whose rules are not applied.
    pub skipped_ignores: SkippedIgnores,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    /// Relative to the root.
    pub path: String,
    /// Kind of the entry; links are not followed.
    pub kind: EntryKind,
    /// Bytes of a file; 0 for everything else.
    pub size: u64,
}

/// Names of a directory between two checks of deadline and cancellation. Reading a name takes less than a microsecond.
const NAMES_BETWEEN_CHECKS: u64 = 1_024;

/// The content of a directory as the system lists it.
struct DirectoryListing {
    directory: Dir,
    entries: Vec<DirectoryEntry>,
    not_utf8: u64,
    /// True if there are more entries than wanted, or the caller did not wait for all of them.
    is_cut: bool,
    /// The directory's fingerprint before it was read.
    stamp: ScanFingerprint,
}

struct DirectoryEntry {
    name: String,
    kind: FileType,
}

impl DirectoryEntry {
    /// Kind of the entry. The system is asked only if the listing did not contain it.
    fn kind(&self, directory: BorrowedFd<'_>) -> FileType {
        if self.kind != FileType::Unknown {
            return self.kind;
        }
        stat_at(directory, &self.name).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
    }
}

impl DirectoryListing {
    /// Reads at most `entries_max` entries, and fewer once `is_over` is true.
    fn read(handle: OwnedFd, entries_max: u64, is_over: impl Fn() -> bool) -> Result<Self, rustix::io::Errno> {
        let stamp = ScanFingerprint::from_stat(&rustix::fs::fstat(&handle)?);
        let mut listing = Self {
            directory: Dir::new(handle)?,
            entries: Vec::new(),
            not_utf8: 0,
            is_cut: false,
            stamp,
        };
        let mut count = 0;
        while let Some(entry) = listing.directory.read() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            count += 1;
            if count > entries_max || (count % NAMES_BETWEEN_CHECKS == 0 && is_over()) {
                listing.is_cut = true;
                break;
            }
            match CString::from(name).into_string() {
                Ok(name) => listing.entries.push(DirectoryEntry {
                    name,
                    kind: entry.file_type(),
                }),
                Err(_) => listing.not_utf8 += 1,
            }
        }
        Ok(listing)
    }

    /// The rules in this directory, given those of the directory above.
    fn ignores(
        &self,
        outer: &Arc<Ignores>,
        handle: BorrowedFd<'_>,
        path: &str,
        reader: &IgnoreReader<'_>,
    ) -> Arc<Ignores> {
        let ignores = Ignores::enter(outer, handle, path, |name| self.has(name), reader);
        if !path.is_empty() || Arc::ptr_eq(outer, &ignores) {
            return ignores;
        }
        let entries = self.entries.iter();
        let entries = entries.map(|entry| (entry.name.as_str(), entry.kind(handle) == FileType::Directory));
        ignores.meant_for(entries, reader)
    }

    fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    fn is_git_directory(&self) -> bool {
        self.has("HEAD") && (self.has("commondir") || self.has("objects") && self.has("refs"))
    }
}

fn stat_at(directory: BorrowedFd<'_>, name: &str) -> Result<Stat, rustix::io::Errno> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn size_of(directory: BorrowedFd<'_>, name: &str, kind: EntryKind) -> u64 {
    match kind {
        EntryKind::File => stat_at(directory, name).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)),
        EntryKind::Directory | EntryKind::Symlink => 0,
    }
}

/// True if a file with a suspicious name begins like a secret.
pub(super) fn secret_at(directory: BorrowedFd<'_>, name: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Ok(file) = rustix::fs::openat(directory, name, flags, Mode::empty()) else {
        return false;
    };
    let mut buffer = vec![0; secrets::bytes_wanted(name)];
    secrets::find_reason(name, open::read_head(file.as_fd(), &mut buffer)).is_some()
}

pub(super) fn file_entry(path: String, stat: &Stat) -> FileEntry {
    FileEntry {
        path,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: modified_ns(stat),
        changed_ns: changed_ns(stat),
        inode: FileIdentity::from_stat(stat).inode,
    }
}
