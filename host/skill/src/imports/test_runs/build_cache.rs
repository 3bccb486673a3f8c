//! The build cache: folders of build output that a run takes over from an earlier one.
//!
//! A folder belongs to one commit of one repository, and to one suite folder, recipe, toolchain, sandbox and set of
//! hidden names. Only a run over the user's own state writes to it, and only in its build step. Tests run on a layer
//! that is dropped, and a run that decides a verdict drops everything: code of a session, another branch or a pull
//! request must not leave anything that a later verdict depends on. Runs that a model requests over files of its
//! session share a layer above the kept cache, which ends with the session and which no other run reads.
//!
//! The host measures and deletes the folders. Beside them, where runs cannot reach it, it records the content of each
//! file at the last build. Build tools compare time stamps, and an undo can restore old ones, so inside a run every
//! file whose content differs from the last build gets the present time.

mod usage;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::tree_state::TreeState;
use crate::CallContext;
use crate::{RunAsker, SeenSessions};
use tool_core::digest::to_hexadecimal;
use tool_repository::{FileEntry, FileList, REPORTS_FOLDER};
use tool_sandbox::program_sandbox::{BuildFolder, BuildWrites, LAYER_FILES};
use tool_sandbox::scratch;
use usage::{Usage, clamp_times, is_disk_full, measure_usage};

/// Limit for all caches together, which limits each of them as well, and for the layers of a session together. The files
/// are those of ten large projects; each takes an inode, however small it is.
const BUILD_CACHE_MAX: Usage = Usage {
    bytes: 10 << 30,
    entries: 1 << 20,
};
/// Limit for the files of a repository whose contents are compared. A larger repository is built without a cache.
const FILES_MAX: usize = 200_000;
/// Limit for a file whose content is compared, in bytes. A larger file is compared by size and time.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Minimum time between two measurements of a cache that a run writes to.
const MEASURE_SECONDS: u64 = 2;
/// Name of the file that records contents.
const RECORD: &str = "files.json";
/// Name of the mark of a cache that must not be used any more, but is still held by a run.
const DROPPED: &str = "dropped";

/// Folder in the home with the caches of all repositories.
fn caches_of(home: &Path) -> PathBuf {
    home.join("cache/builds")
}

/// What a run may read from the build cache, and keep in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunKind {
    /// Over the user's own state. It reads the kept cache, and its build step writes to it.
    Own,
    /// Requested by a model over another state. It reads the kept cache, and writes to the layer of its session.
    Session,
    /// Over another state. It reads the kept cache, and its writes are dropped.
    Dropped,
    /// It reads no build output, and its writes are dropped.
    FromNothing,
}

/// The build output of one suite, held by one run.
#[derive(Debug)]
pub(super) struct BuildCache {
    kind: RunKind,
    places: Vec<PathBuf>,
    /// The kept cache; absent if there is none to read.
    kept: Option<KeptCache>,
    /// The layer of the session, if the run writes to it.
    layer: Option<SessionLayer>,
    record: CacheRecord,
    /// Files that differ from the last build.
    changed: Vec<String>,
    /// Commit of the work tree.
    commit: Option<String>,
    limit: Usage,
}

/// A kept cache that no other run writes to.
#[derive(Debug)]
struct KeptCache {
    folder: PathBuf,
    /// Held until the run has ended: shared for reading, exclusive for writing.
    _lock: File,
}

/// Build output of a session above a kept cache, or above nothing. No other run writes to it.
#[derive(Debug)]
struct SessionLayer {
    folder: PathBuf,
    /// Held until the run has ended.
    _lock: File,
}

/// The host's record of the build output in a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheRecord {
    /// The sessions before the last build, all of whose changes were the user's own.
    #[serde(default)]
    sessions: SeenSessions,
    /// The cache below a session's layer; absent for a kept cache.
    #[serde(default)]
    base: Option<String>,
    /// Files of the repository at the last build.
    files: BTreeMap<String, BuiltFile>,
}

/// A file at the last build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BuiltFile {
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
    inode: u64,
    content: String,
}

/// Parts of a cache's name.
pub(super) struct CacheKey<'a> {
    pub(super) recipe: &'a str,
    pub(super) directory: &'a str,
    pub(super) program: &'a Path,
    pub(super) sandbox: &'a str,
}

impl BuildCache {
    /// Opens the cache for these folders of build output. `None` if nothing is kept for this suite.
    pub(super) fn open(
        context: &CallContext,
        key: &CacheKey<'_>,
        places: &[PathBuf],
        files: &FileList,
    ) -> Option<Self> {
        let home = context.repository.state_directory()?;
        if places.is_empty() || files.files.len() > FILES_MAX || !files.complete {
            return None;
        }
        let caches = caches_of(home);
        let mut cache = Self {
            kind: RunKind::FromNothing,
            places: places.to_vec(),
            kept: None,
            layer: None,
            record: CacheRecord::default(),
            changed: Vec::new(),
            commit: None,
            limit: BUILD_CACHE_MAX,
        };
        if context.runs.asker == (RunAsker::Verdict { is_from_nothing: true }) {
            return Some(cache);
        }
        let suite = key.digest(context, places)?;
        cache.find(context, &caches, &suite);
        if cache.kind == RunKind::Dropped && context.runs.asker == RunAsker::Model {
            let folder = context.runs.builds.folder(home).map(|folder| folder.join(suite));
            cache.take_layer(folder);
        }
        let last = std::mem::take(&mut cache.record.files);
        cache.record.files = files
            .files
            .iter()
            .map(|file| (file.path.clone(), BuiltFile::read(context, file, last.get(&file.path))))
            .collect();
        let is_changed =
            |(path, file): &(&String, &BuiltFile)| last.get(*path).is_none_or(|last| last.content != file.content);
        // Nothing is older than an empty cache.
        if !last.is_empty() {
            let changed = cache.record.files.iter().filter(is_changed);
            cache.changed = changed.map(|(path, _)| path.clone()).collect();
        }
        Some(cache)
    }

    /// Finds the kept cache of the commit, or of a commit that it follows, and decides how the run may use it.
    fn find(&mut self, context: &CallContext, caches: &Path, suite: &str) {
        let prefix = format!("{suite}-");
        self.kind = RunKind::Dropped;
        let Some(state) = TreeState::read(context, &kept_commits(caches, &prefix)) else {
            return;
        };
        let own = caches.join(format!("{prefix}{}", state.commit));
        let followed = state
            .follows
            .as_ref()
            .map(|commit| caches.join(format!("{prefix}{commit}")));
        let found = [Some(own.clone()), followed]
            .into_iter()
            .flatten()
            .find(|folder| folder.is_dir());
        let record = found.as_ref().and_then(|folder| CacheRecord::read(folder));
        let seen = record.map(|record| record.sessions).unwrap_or_default();
        let (is_own, seen) = state.is_own(context, &seen);
        self.commit = Some(state.commit);
        if is_own && !is_disk_full(context.repository.state_directory().unwrap_or(caches)) {
            self.kept = KeptCache::for_writing(found.as_deref(), &own);
        }
        self.kind = match (&self.kept, &found) {
            (Some(_), _) => RunKind::Own,
            (None, Some(found)) => {
                self.kept = KeptCache::for_reading(found);
                RunKind::Dropped
            }
            (None, None) => RunKind::Dropped,
        };
        if let Some(kept) = &self.kept {
            // The cache may have been deleted since it was found; a new one has no record.
            self.record = CacheRecord::read(&kept.folder).unwrap_or_default();
        }
        if let Some(kept) = self.kept.as_ref().filter(|_| self.kind == RunKind::Own) {
            // The cache has no record until the run has ended well, so that the next run deletes a cache of an
            // interrupted run.
            let _ = fs::remove_file(kept.folder.join(RECORD));
        }
        self.record.sessions = seen;
    }

    /// Takes the layer of the session, unless another run of the session holds it. A layer above another build of the
    /// kept cache starts empty.
    fn take_layer(&mut self, folder: Option<PathBuf>) {
        let Some(layer) = folder
            .and_then(SessionLayer::open)
            .filter(|layer| !is_disk_full(&layer.folder))
        else {
            return;
        };
        let base = self.kept.as_ref().map_or_else(String::new, KeptCache::version);
        match CacheRecord::read(&layer.folder) {
            Some(record) if record.base.as_ref() == Some(&base) => self.record = record,
            _ => layer.empty(self.places.len()),
        }
        self.record.base = Some(base);
        // As for a kept cache: a layer without a record is not used.
        let _ = fs::remove_file(layer.folder.join(RECORD));
        self.kind = RunKind::Session;
        self.layer = Some(layer);
    }

    pub(super) fn kind(&self) -> RunKind {
        self.kind
    }

    /// The folders to mount for the build step.
    pub(super) fn folders(&self) -> Vec<BuildFolder> {
        match self.kind {
            RunKind::Own => self.mounted(|_| BuildWrites::Kept),
            RunKind::Session => self.mounted(|number| match &self.layer {
                Some(layer) => BuildWrites::Layer(layer.place(number)),
                None => BuildWrites::Dropped,
            }),
            RunKind::Dropped | RunKind::FromNothing => self.dropped_folders(),
        }
    }

    /// The folders to mount for a step whose writes are dropped.
    pub(super) fn dropped_folders(&self) -> Vec<BuildFolder> {
        self.mounted(|_| BuildWrites::Dropped)
    }

    fn mounted(&self, writes: impl Fn(usize) -> BuildWrites) -> Vec<BuildFolder> {
        let numbered = self.places.iter().enumerate();
        let folders = numbered.map(|(number, place)| {
            let source = self.kept.as_ref().and_then(|kept| kept.source(number));
            BuildFolder {
                place: place.clone(),
                writes: match writes(number) {
                    BuildWrites::Kept if source.is_none() => BuildWrites::Dropped,
                    writes => writes,
                },
                source,
            }
        });
        folders.collect()
    }

    /// Files that build tools must see as changed.
    pub(super) fn changed(&self) -> Vec<String> {
        self.changed.clone()
    }

    /// Measures the cache while the build of `run` writes to it, and cancels the run if the cache exceeds the limit.
    /// Returns true in that case.
    pub(super) fn watch<R>(&self, cancel: &CancellationToken, run: impl FnOnce() -> R) -> (R, bool) {
        let counted = self.counted();
        let Some(disk) = counted.first() else {
            return (run(), false);
        };
        let (is_over, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    let started = std::time::Instant::now();
                    let mut is_exceeded = is_over_bound(&counted, self.limit);
                    // Measuring takes at most a tenth of the time. A program writes gigabytes meanwhile, and files
                    // that it has deleted are in no folder, so the disk is looked at more often.
                    let pause = Duration::from_secs(MEASURE_SECONDS).max(started.elapsed() * 9);
                    let wakes = std::time::Instant::now() + pause;
                    while !is_exceeded && std::time::Instant::now() < wakes && !has_ended.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(20));
                        is_exceeded = is_disk_full(disk);
                    }
                    if is_exceeded {
                        is_over.store(true, Ordering::Relaxed);
                        cancel.cancel();
                        return;
                    }
                }
            });
            let result = run();
            has_ended.store(true, Ordering::Relaxed);
            result
        });
        (result, is_over.load(Ordering::Relaxed))
    }

    /// The folders that count against the limit of the run: those that it writes to and that outlive it, and the other
    /// layers of its session.
    fn counted(&self) -> Vec<PathBuf> {
        match (self.kind, &self.kept, &self.layer) {
            (RunKind::Own, Some(kept), _) => vec![kept.folder.clone()],
            (RunKind::Session, _, Some(layer)) => layer.all_uppers(),
            _ => Vec::new(),
        }
    }

    /// Keeps what the build of the user's own state has written. If the build failed or was partial, some changed
    /// files may not have been built: they count as changed in the next run as well.
    pub(super) fn keep(&mut self, context: &CallContext, has_built_all: bool) {
        if !has_built_all {
            for path in &self.changed {
                self.record.files.remove(path);
            }
        }
        if self.kind == RunKind::Session {
            return self.keep_layer();
        }
        if self.kind != RunKind::Own {
            return;
        }
        // A session may have changed files meanwhile, or the user may have checked out another commit.
        let now = TreeState::read(context, &[]).filter(|now| self.commit.as_ref() == Some(&now.commit));
        let is_own = now.is_some_and(|now| now.is_own(context, &self.record.sessions).0);
        let Some(kept) = &self.kept else { return };
        let is_kept = is_own
            && !is_over_bound(&self.counted(), self.limit)
            && clamp_times(&kept.folder).is_ok()
            && self.record.write(&kept.folder);
        if !is_kept {
            return self.delete();
        }
        if let Some(caches) = kept.folder.parent() {
            delete_oldest(caches, &kept.folder);
        }
    }

    /// Keeps the run's writes for later runs of its session. On systems without such layers there are none.
    fn keep_layer(&self) {
        let Some(layer) = &self.layer else { return };
        let written: Vec<PathBuf> = (0..self.places.len()).map(|number| layer.upper(number)).collect();
        let is_used = written
            .iter()
            .any(|folder| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()));
        if is_used
            && !is_over_bound(&self.counted(), self.limit)
            && written.iter().all(|folder| clamp_times(folder).is_ok())
        {
            self.record.write(&layer.folder);
        }
    }

    /// Deletes the cache, because it is too large or its state is unknown.
    pub(super) fn delete(&mut self) {
        if let Some(kept) = self.kept.take().filter(|_| self.kind == RunKind::Own) {
            scratch::remove_path(&kept.folder);
        }
        if let Some(layer) = self.layer.take() {
            layer.empty(0);
            // Their files count as well, and would end the next run.
            for other in layer.siblings() {
                delete_free(&other);
            }
        }
        self.kind = RunKind::Dropped;
    }
}

impl KeptCache {
    /// Takes a cache for writing, under the name of the commit: `found`, if it can be used, or an empty one. `None`
    /// if another run holds it.
    fn for_writing(found: Option<&Path>, own: &Path) -> Option<Self> {
        if let Some(found) = found {
            let lock = lock_cache(found, FlockOperation::NonBlockingLockExclusive)?;
            if found.join(DROPPED).exists() || CacheRecord::read(found).is_none() {
                scratch::remove_path(found);
            } else {
                // The cache follows the work tree to its new commit.
                fs::rename(found, own).ok()?;
                return Some(Self {
                    folder: own.to_owned(),
                    _lock: lock,
                });
            }
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(own).ok()?;
        let lock = lock_cache(own, FlockOperation::NonBlockingLockExclusive)?;
        Some(Self {
            folder: own.to_owned(),
            _lock: lock,
        })
    }

    /// Takes a cache for reading. `None` if a run writes to it, or if it must not be used.
    fn for_reading(found: &Path) -> Option<Self> {
        let lock = lock_cache(found, FlockOperation::NonBlockingLockShared)?;
        let is_usable = !found.join(DROPPED).exists() && CacheRecord::read(found).is_some();
        is_usable.then(|| Self {
            folder: found.to_owned(),
            _lock: lock,
        })
    }

    /// A text that changes with every build.
    fn version(&self) -> String {
        let built = fs::metadata(self.folder.join(RECORD)).map(|record| (record.mtime(), record.mtime_nsec()));
        format!("{} {built:?}", self.folder.display())
    }

    /// The folder for a place; `None` if it does not exist and cannot be made.
    fn source(&self, number: usize) -> Option<PathBuf> {
        let source = self.folder.join(format!("build-{number}"));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&source).ok()?;
        Some(source)
    }
}

impl SessionLayer {
    /// Takes a layer. `None` if another run of the session holds it.
    fn open(folder: PathBuf) -> Option<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
        let lock = lock_cache(&folder, FlockOperation::NonBlockingLockExclusive)?;
        Some(Self { folder, _lock: lock })
    }

    /// Folder of the layer for a place.
    fn place(&self, number: usize) -> PathBuf {
        self.folder.join(format!("build-{number}"))
    }

    /// Folder that receives the writes of runs. The folders beside it belong to the kernel's overlay.
    fn upper(&self, number: usize) -> PathBuf {
        self.place(number).join(LAYER_FILES)
    }

    /// The layers of the session, with this one.
    fn siblings(&self) -> Vec<PathBuf> {
        self.folder.parent().map(list_entries).unwrap_or_default()
    }

    /// The folders of all layers of the session that receive writes.
    fn all_uppers(&self) -> Vec<PathBuf> {
        let places = self.siblings().into_iter().flat_map(|layer| list_entries(&layer));
        places
            .map(|place| place.join(LAYER_FILES))
            .filter(|upper| upper.is_dir())
            .collect()
    }

    /// Empties the layer, and creates folders for this many places.
    fn empty(&self, places: usize) {
        for entry in list_entries(&self.folder) {
            if !entry.ends_with("lock") {
                scratch::remove_path(&entry);
            }
        }
        for number in 0..places {
            // If this fails, the writes of the run are dropped.
            let _ = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(self.upper(number));
        }
    }
}

/// Locks a cache. `None` if a run holds it, or if it was deleted meanwhile.
fn lock_cache(folder: &Path, operation: FlockOperation) -> Option<File> {
    let place = folder.join("lock");
    let lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&place)
        .ok()?;
    flock(&lock, operation).ok()?;
    let is_same = lock.metadata().ok()?.ino() == fs::metadata(&place).ok()?.ino();
    is_same.then_some(lock)
}

/// Paths of the entries of a folder of the host.
fn list_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Commits whose kept caches have a name with this prefix.
fn kept_commits(caches: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(caches).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| Some(name.strip_prefix(prefix)?.to_owned()))
        .collect()
}

/// True if the folders together exceed the limit, leave too little of the disk, or cannot be counted.
fn is_over_bound(folders: &[PathBuf], limit: Usage) -> bool {
    folders.iter().any(|folder| is_disk_full(folder)) || measure_usage(folders, limit).is_err()
}

impl CacheRecord {
    fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()
    }

    fn write(&self, folder: &Path) -> bool {
        let text = serde_json::to_vec(self);
        text.is_ok_and(|text| fs::write(folder.join(RECORD), text).is_ok())
    }
}

impl CacheKey<'_> {
    /// Name of the suite: the repository, and a digest of everything else that matters. The folders of a cache are
    /// numbered by place, so another set of places has another cache.
    fn digest(&self, context: &CallContext, places: &[PathBuf]) -> Option<String> {
        let program = self.program.canonicalize().ok()?;
        let metadata = fs::metadata(&program).ok()?;
        let mut hidden = context.repository.hidden_entries(&context.cancel).ok()?;
        // The first session creates the folder of its report. No run has seen that folder, so the build stays valid.
        hidden.retain(|name| name != REPORTS_FOLDER);
        hidden.sort_unstable();
        let parts = [
            format!("{:?}", context.repository.identity()),
            self.recipe.to_owned(),
            self.directory.to_owned(),
            program.to_string_lossy().into_owned(),
            format!("{} {} {}", metadata.size(), metadata.mtime(), metadata.ino()),
            self.sandbox.to_owned(),
            format!("{hidden:?}"),
            format!("{places:?}"),
        ];
        let suite = digest_of(&parts);
        Some(format!("{}-{suite}", repository_name(context.repository.root())))
    }
}

/// Prefix of the names of all caches of a repository.
fn repository_name(root: &Path) -> String {
    digest_of(&[root.to_string_lossy().into_owned()])
}

/// Half of the digest of these texts, so that names fit the limit for path components.
fn digest_of(parts: &[String]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_le_bytes());
        digest.update(part.as_bytes());
    }
    to_hexadecimal(&digest.finalize()[..16])
}

impl BuiltFile {
    fn read(context: &CallContext, file: &FileEntry, known: Option<&Self>) -> Self {
        let is_same = |known: &&Self| {
            known.size == file.size
                && known.modified_ns == file.modified_ns
                && known.changed_ns == file.changed_ns
                && known.inode == file.inode
        };
        if let Some(known) = known.filter(is_same) {
            return known.clone();
        }
        let content = context
            .repository
            .read_within(&file.path, FILE_BYTES_MAX, &context.cancel);
        let content = match content {
            Ok(content) => to_hexadecimal(&Sha256::digest(&content)),
            Err(_) => format!("{} bytes at {}", file.size, file.changed_ns),
        };
        Self {
            size: file.size,
            modified_ns: file.modified_ns,
            changed_ns: file.changed_ns,
            inode: file.inode,
            content,
        }
    }
}

/// Deletes the oldest caches until the rest fits the limits. A cache that a run holds stays.
fn delete_oldest(caches: &Path, own: &Path) {
    let mut found: Vec<(SystemTime, Usage, PathBuf)> = list_entries(caches)
        .into_iter()
        .map(|folder| {
            let used = fs::metadata(folder.join(RECORD)).and_then(|metadata| metadata.modified());
            let usage = measure_usage([&folder], BUILD_CACHE_MAX).unwrap_or(BUILD_CACHE_MAX);
            (used.unwrap_or(SystemTime::UNIX_EPOCH), usage, folder)
        })
        .collect();
    found.sort_by_key(|(used, _, _)| *used);
    let mut bytes: u64 = found.iter().map(|(_, usage, _)| usage.bytes).sum();
    let mut files: u64 = found.iter().map(|(_, usage, _)| usage.entries).sum();
    for (_, usage, folder) in found {
        if bytes <= BUILD_CACHE_MAX.bytes && files <= BUILD_CACHE_MAX.entries && !is_disk_full(caches) {
            return;
        }
        if folder != own && delete_free(&folder) {
            bytes -= usage.bytes;
            files -= usage.entries;
        }
    }
}

/// Deletes a cache, unless a run holds it. Returns false in that case.
fn delete_free(folder: &Path) -> bool {
    // Hold the lock while the folder is removed, so that no run begins to use it.
    let lock = File::open(folder.join("lock")).ok();
    let is_held = |lock: &File| flock(lock, FlockOperation::NonBlockingLockExclusive).is_err();
    if lock.as_ref().is_some_and(is_held) {
        return false;
    }
    scratch::remove_path(folder);
    !folder.exists()
}

/// Deletes the caches of one repository. A cache that a run holds is marked, and no later run uses it. Blocks.
pub fn drop_build_caches(home: &Path, root: &Path) {
    let prefix = format!("{}-", repository_name(root));
    for entry in fs::read_dir(caches_of(home)).into_iter().flatten().flatten() {
        let is_its = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
        if is_its && !delete_free(&entry.path()) {
            // If the disk has no room for the mark, remove the record: no run uses a cache without one.
            let marked = File::create(entry.path().join(DROPPED));
            if marked.is_err() {
                let _ = fs::remove_file(entry.path().join(RECORD));
            }
        }
    }
}

/// Result of deleting build output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CleanedCaches {
    /// Bytes that were freed.
    pub bytes: u64,
    /// Number of deleted caches.
    pub deleted: usize,
    /// Number of caches that stay because a run holds them.
    pub in_use: usize,
}

/// Deletes the caches of all repositories below a home, except those that a run holds. Blocks.
///
/// # Errors
///
/// The folder of the caches cannot be listed, or a cache cannot be deleted.
pub fn clean_build_caches(home: &Path) -> std::io::Result<CleanedCaches> {
    let mut cleaned = CleanedCaches::default();
    let entries = match fs::read_dir(caches_of(home)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(cleaned),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let folder = entry?.path();
        let before = measure_usage([&folder], Usage::UNBOUNDED).unwrap_or_default().bytes;
        if delete_free(&folder) {
            cleaned.bytes += before;
            cleaned.deleted += 1;
        } else if lock_cache(&folder, FlockOperation::NonBlockingLockExclusive).is_none() {
            cleaned.in_use += 1;
        } else {
            return Err(std::io::Error::other(format!("`{}` stays", folder.display())));
        }
    }
    Ok(cleaned)
}

#[cfg(test)]
mod unit {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LIMIT: Usage = Usage {
        bytes: 1 << 20,
        entries: 1 << 10,
    };

    #[test]
    fn a_run_that_fills_the_build_cache_is_ended_and_leaves_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = caches_of(home.path()).join("one");
        let kept = KeptCache::for_writing(None, &folder).expect("it is free");
        let mut cache = BuildCache {
            kind: RunKind::Own,
            places: Vec::new(),
            kept: Some(kept),
            layer: None,
            record: CacheRecord::default(),
            changed: Vec::new(),
            commit: None,
            limit: LIMIT,
        };
        let cancel = CancellationToken::new();
        let write_until_cancelled = || {
            let started = std::time::Instant::now();
            let block = vec![7; 256 << 10];
            for number in 0.. {
                assert!(started.elapsed() < Duration::from_secs(60), "nothing has ended it");
                if cancel.is_cancelled() {
                    return;
                }
                if number < 16 {
                    fs::write(folder.join(format!("{number}")), &block).expect("there is room");
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let ((), is_over) = cache.watch(&cancel, write_until_cancelled);
        assert!(is_over);
        cache.delete();
        assert!(!folder.exists());
    }

    /// A run of a session that has no kept cache.
    fn session_run(folder: &Path) -> BuildCache {
        let mut cache = BuildCache {
            kind: RunKind::Dropped,
            places: vec![PathBuf::from("/repository/target")],
            kept: None,
            layer: None,
            record: CacheRecord::default(),
            changed: Vec::new(),
            commit: None,
            limit: LIMIT,
        };
        cache.take_layer(Some(folder.to_owned()));
        cache
    }

    #[test]
    fn a_layer_that_is_too_large_or_cannot_be_counted_is_not_read_again() {
        let session = tempfile::tempdir().expect("a folder");
        let folder = session.path().join("suite");
        let nest = |upper: &Path| {
            let place = upper.join(["d"; 100].join("/"));
            fs::create_dir_all(place).expect("folders can be made");
        };
        let write = |upper: &Path, bytes| fs::write(upper.join("file"), vec![7; bytes]).expect("there is room");
        for (what, is_kept) in [
            ("a little", true),
            ("nothing", false),
            ("too much", false),
            ("too deep", false),
        ] {
            let run = session_run(&folder);
            assert_eq!(run.kind(), RunKind::Session, "{what}");
            assert_eq!(session_run(&folder).kind(), RunKind::Dropped, "another run holds it");
            let [upper] = run.counted().try_into().expect("one place");
            match what {
                "a little" => write(&upper, 1),
                "too much" => write(&upper, 2 << 20),
                "too deep" => nest(&upper),
                _ => run.layer.as_ref().expect("it has one").empty(1),
            }
            run.keep_layer();
            drop(run);
            let _next = session_run(&folder);
            let left = fs::read_dir(&upper).expect("it is there").count();
            assert_eq!(left > 0, is_kept, "{what}");
        }
    }

    #[test]
    fn the_layers_of_a_session_count_together() {
        let session = tempfile::tempdir().expect("a folder");
        let folders = ["one", "two"].map(|name| session.path().join(name));
        let [first, mut second] = folders.each_ref().map(|folder| {
            let run = session_run(folder);
            let upper = run.layer.as_ref().expect("it has one").upper(0);
            fs::write(upper.join("file"), vec![7; 700 << 10]).expect("there is room");
            run
        });
        assert!(is_over_bound(&second.counted(), LIMIT));
        drop(first);
        second.delete();
        assert_eq!(folders.map(|folder| folder.join("build-0").exists()), [false; 2]);
    }

    #[test]
    fn cleaning_says_how_much_it_freed_and_leaves_what_a_run_holds() {
        let home = tempfile::tempdir().expect("a folder");
        assert_eq!(
            clean_build_caches(home.path()).expect("nothing is there"),
            CleanedCaches::default()
        );
        let folders = ["free", "held"].map(|name| caches_of(home.path()).join(name));
        for folder in &folders {
            fs::create_dir_all(folder.join("build-0/locked")).expect("folders can be made");
            fs::write(folder.join("build-0/locked/file"), vec![7; 64 << 10]).expect("there is room");
            let locked = fs::Permissions::from_mode(0o500);
            fs::set_permissions(folder.join("build-0/locked"), locked).expect("modes can be set");
        }
        let lock = File::create(folders[1].join("lock")).expect("a file can be made");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("it is free");
        let cleaned = clean_build_caches(home.path()).expect("it can be deleted");
        assert_eq!((cleaned.deleted, cleaned.in_use), (1, 1));
        assert!(cleaned.bytes >= 64 << 10, "{cleaned:?}");
        assert_eq!(folders.map(|folder| folder.exists()), [false, true]);
    }
}
