//! The build cache: folders of build output that a run finds as the one before has left them.
//!
//! A folder belongs to one repository, folder, recipe, toolchain, sandbox and set of hidden names, and to trusted sessions
//! alone. Runs write to it; the host only measures and deletes it, and keeps beside it, out of their reach, what each file
//! held at the last build. Build tools compare time stamps, and an undo can bring back old ones: so inside a run every
//! file whose content differs from the last build gets the present time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::CallContext;
use tool_core::digest::hexadecimal;
use tool_repository::{FileEntry, FileList, REPORTS_FOLDER};
use tool_sandbox::contain::BuildFolder;

/// Bytes of all caches together, and so of each of them.
const BUILD_CACHE_BYTES_MAX: u64 = 10 << 30;
/// Files of a repository whose content is compared. A larger one is built without a cache.
const FILES_MAX: usize = 200_000;
/// Largest file whose content is compared; a larger one is compared by size and time.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Shortest time between two measurements of a cache that a run writes to.
const MEASURE_SECONDS: u64 = 2;
/// Name of the record of contents.
const RECORD: &str = "files.json";

/// Folder of a home in which the caches of all repositories lie.
fn caches_of(home: &Path) -> PathBuf {
    home.join("cache/builds")
}

/// The cache of one suite, held by one run.
#[derive(Debug)]
pub(super) struct BuildCache {
    folder: PathBuf,
    folders: Vec<BuildFolder>,
    record: BTreeMap<String, BuiltFile>,
    /// Files that differ from the last build.
    changed: Vec<String>,
    bytes_max: u64,
    /// True for the run of a preview: the cache stays as it is.
    is_dropped: bool,
    /// Held until the run has ended.
    _lock: File,
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

/// Parts of the name of a cache.
pub(super) struct CacheKey<'a> {
    pub(super) recipe: &'a str,
    pub(super) directory: &'a str,
    pub(super) program: &'a Path,
    pub(super) sandbox: &'a str,
}

impl BuildCache {
    /// Opens the cache for these places of build output. None where there is no home, another run holds it, or it cannot
    /// be made: then the run builds everything.
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
        let folder = caches.join(key.digest(context)?);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
        let lock = File::create(folder.join("lock")).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        delete_oldest(&caches, &folder);
        let folders = places.iter().enumerate().map(|(number, place)| {
            let source = folder.join(format!("build-{number}"));
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&source).ok()?;
            Some(BuildFolder {
                place: place.clone(),
                source,
                is_dropped: context.repository.layer().is_some(),
            })
        });
        let folders: Vec<BuildFolder> = folders.collect::<Option<_>>()?;
        let is_dropped = folders.iter().any(|folder| folder.is_dropped);
        let text = fs::read(folder.join(RECORD)).ok();
        let last: Option<BTreeMap<String, BuiltFile>> = text.and_then(|text| serde_json::from_slice(&text).ok());
        let record: BTreeMap<String, BuiltFile> = files
            .files
            .iter()
            .map(|file| {
                let known = last.as_ref().and_then(|last| last.get(&file.path));
                (file.path.clone(), BuiltFile::read(context, file, known))
            })
            .collect();
        let differs = |(path, file): (&String, &BuiltFile)| {
            let known = last.as_ref()?.get(path);
            known
                .is_none_or(|known| known.content != file.content)
                .then(|| path.clone())
        };
        let changed = record.iter().filter_map(differs).collect();
        Some(Self {
            folder,
            folders,
            record,
            changed,
            bytes_max: BUILD_CACHE_BYTES_MAX,
            is_dropped,
            _lock: lock,
        })
    }

    /// The folders to mount.
    pub(super) fn folders(&self) -> Vec<BuildFolder> {
        self.folders.clone()
    }

    /// Files that build tools must see as changed.
    pub(super) fn changed(&self) -> Vec<String> {
        self.changed.clone()
    }

    /// Measures the cache while `run` writes to it, and cancels the run where it grows beyond the bound. True where it
    /// did.
    pub(super) fn watch<R>(&self, cancel: &CancellationToken, run: impl FnOnce() -> R) -> (R, bool) {
        let (is_over, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    let started = std::time::Instant::now();
                    if size_of(&self.folder) > self.bytes_max {
                        is_over.store(true, Ordering::Relaxed);
                        cancel.cancel();
                        return;
                    }
                    // A walk takes at most a tenth of the time.
                    let pause = Duration::from_secs(MEASURE_SECONDS).max(started.elapsed() * 9);
                    let wakes = std::time::Instant::now() + pause;
                    while std::time::Instant::now() < wakes && !has_ended.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            });
            let result = run();
            has_ended.store(true, Ordering::Relaxed);
            result
        });
        (result, is_over.load(Ordering::Relaxed))
    }

    /// Keeps note of what was built. Of a run that came to no test, some changed files may not have been built: they
    /// count as changed again.
    pub(super) fn keep(mut self, has_built: bool) {
        if self.is_dropped {
            return;
        }
        if !has_built {
            for path in &self.changed {
                self.record.remove(path);
            }
        }
        // Without a record the next run refreshes nothing, which is right only for an empty cache.
        let written = serde_json::to_vec(&self.record).map(|text| fs::write(self.folder.join(RECORD), text));
        if !matches!(written, Ok(Ok(()))) {
            self.delete();
        }
    }

    /// Deletes it, because it is too large or nothing is known about it any more.
    pub(super) fn delete(self) {
        // A rest is found and deleted by a later run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl CacheKey<'_> {
    fn digest(&self, context: &CallContext) -> Option<String> {
        let program = self.program.canonicalize().ok()?;
        let metadata = fs::metadata(&program).ok()?;
        let mut hidden = context.repository.hidden_entries(&context.cancel).ok()?;
        // The first session makes the folder of its report. No run has seen that folder, so the build stays valid.
        hidden.retain(|name| name != REPORTS_FOLDER);
        hidden.sort_unstable();
        let mut digest = Sha256::new();
        let parts = [
            context.repository.root().to_string_lossy().into_owned(),
            format!("{:?}", context.repository.identity()),
            self.recipe.to_owned(),
            self.directory.to_owned(),
            program.to_string_lossy().into_owned(),
            format!("{} {} {}", metadata.size(), metadata.mtime(), metadata.ino()),
            self.sandbox.to_owned(),
            format!("{hidden:?}"),
        ];
        for part in parts {
            digest.update(part.len().to_le_bytes());
            digest.update(part.as_bytes());
        }
        Some(hexadecimal(&digest.finalize()))
    }
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
            Ok(content) => hexadecimal(&Sha256::digest(&content)),
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

/// Deletes caches, the oldest first, until all of them fit the bound. One that a run holds stays.
fn delete_oldest(caches: &Path, own: &Path) {
    let entries = fs::read_dir(caches).into_iter().flatten().flatten();
    let mut found: Vec<(SystemTime, u64, PathBuf)> = entries
        .map(|entry| entry.path())
        .map(|folder| {
            let used = fs::metadata(folder.join(RECORD)).and_then(|metadata| metadata.modified());
            (used.unwrap_or(SystemTime::UNIX_EPOCH), size_of(&folder), folder)
        })
        .collect();
    found.sort();
    let mut sum: u64 = found.iter().map(|(_, size, _)| size).sum();
    for (_, size, folder) in found {
        if sum <= BUILD_CACHE_BYTES_MAX {
            return;
        }
        let lock = File::open(folder.join("lock"));
        let is_free = lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        if folder != own && is_free && fs::remove_dir_all(&folder).is_ok() {
            sum -= size;
        }
    }
}

/// Build output that was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CleanedCaches {
    /// Bytes that are free again.
    pub bytes: u64,
    /// Caches that were deleted.
    pub deleted: usize,
    /// Caches that stay because a run holds them.
    pub in_use: usize,
}

/// Deletes the caches of all repositories below a home, but those that a run holds. Blocks.
pub fn clean_build_caches(home: &Path) -> std::io::Result<CleanedCaches> {
    let mut cleaned = CleanedCaches::default();
    let entries = match fs::read_dir(caches_of(home)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(cleaned),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let folder = entry?.path();
        // The lock is held while the folder goes, so that no run begins to use it.
        let lock = File::open(folder.join("lock")).ok();
        let is_held = |lock: &File| flock(lock, FlockOperation::NonBlockingLockExclusive).is_err();
        if lock.as_ref().is_some_and(is_held) {
            cleaned.in_use += 1;
            continue;
        }
        let size = size_of(&folder);
        make_deletable(&folder);
        fs::remove_dir_all(&folder)?;
        cleaned.bytes += size;
        cleaned.deleted += 1;
    }
    Ok(cleaned)
}

/// Lets the owner write to every folder: a build may have left read-only ones, as Go does in its module cache.
fn make_deletable(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // A folder whose mode cannot be set is named by the deletion that fails.
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        folders.extend(entries.filter(is_folder).map(|entry| entry.path()));
    }
}

/// Bytes that a folder takes on the disk. Links are not followed.
fn size_of(folder: &Path) -> u64 {
    let (mut bytes, mut folders) = (0_u64, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(metadata.blocks() * 512);
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_run_that_fills_the_build_cache_is_ended_and_leaves_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = caches_of(home.path()).join("one");
        fs::create_dir_all(&folder).expect("folders can be made");
        let cache = BuildCache {
            is_dropped: false,
            folders: Vec::new(),
            record: BTreeMap::new(),
            changed: Vec::new(),
            bytes_max: 1 << 20,
            _lock: File::create(folder.join("lock")).expect("a file can be made"),
            folder: folder.clone(),
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
