//! The repository for all other crates: one root, one set of rules, one way to open a file.
//!
//! Hidden and protected names, the list of files under ignore rules, and opening files without blocking or following
//! links are here, so that skills, context engine, git diff and search follow the same rules. Only [`changes`] writes:
//! it puts prepared changes in place and takes them back. The boundary of skills judges which changes may be made.

#![forbid(unsafe_code)]

pub mod attributes;
pub mod bulk;
pub mod changes;
pub mod diff;
pub mod file_role;
mod fingerprint;
pub mod foreign;
#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/repository.rs"]
pub mod fuzz;
pub mod git_file;
pub mod git_settings;
mod hidden_entries;
mod hidden_links;
mod ignore_files;
mod ignores;
pub mod layer;
pub mod lock_wait;
mod lookalikes;
mod open;
pub mod origins;
pub mod path;
mod private;
pub mod reftable;
mod revalidate;
mod root;
mod root_file;
mod rules;
mod scan_cache;
mod secrets;
#[cfg(test)]
mod tests;
pub mod tracked;
mod user_excludes;
mod walk;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use fingerprint::ScanBasis;
pub use hidden_entries::HiddenEntriesError;
use hidden_links::HiddenLinks;
pub use ignore_files::SkippedIgnores;
use ignore_files::{IgnoreCache, IgnoreReader};
use ignores::Ignores;
use layer::{Layer, LayerEntry, LayeredList};
pub use lookalikes::{Likeness, RespelledPath, folded_look};
pub use open::FileIdentity;
use open::PathObstacle;
pub use open::{RootHandle, permission_bits};
pub use path::{PathError, normalise_path};
pub use private::{check_private, open_private};
pub use root::find_root;
pub use root::system_directory;
pub use root_file::{HINT as ROOT_FILE_HINT, NAME as ROOT_FILE};
pub use root_file::{RepositoryRules, RootFileError};
pub use rules::{HIDDEN, PROTECTED, PatternError, REPORTS_FOLDER, Rule, RuleScope, Rules, SKIPPED};
pub use rules::{fold_case, is_beyond_scan};
pub use scan_cache::RepositoryKey;
pub use scan_cache::ScanCache;
use tracked::{TrackedCache, TrackedPaths, TrackedTree, TrackedWithin};
pub use walk::{DirectoryList, FileEntry, FileList, ListedEntry, NotListed, ScanError};
use walk::{Scan, WalkBounds, WalkedTree};

/// The user's settings for repositories.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `~/.tool`: hidden in every repository, and refused as a root.
    pub state_directory: Option<PathBuf>,
    /// Globs that are hidden in addition to the table.
    pub hide: Vec<String>,
    /// Globs that the table does not hide.
    pub reveal: Vec<String>,
    /// Globs that no proposal may touch, in addition to the table.
    pub protect: Vec<String>,
    /// True: ignores the repository's own `.tool.toml`, to take back changes that were made in it.
    pub ignore_root_file: bool,
    /// True: the user has agreed to a root that holds the home directory.
    pub home_confirmed: bool,
    /// The home directory; `None` asks the system.
    pub home: Option<PathBuf>,
    /// Time limit of a scan; `None` means that of `limits`.
    pub scan_time: Option<Duration>,
    /// Cache of walks for the next opening of the same repository.
    pub scans: Option<Arc<ScanCache>>,
    /// Cancels the opening, which reads the repository's own settings file.
    pub cancel: CancellationToken,
    /// True: never trusts the times of files, whatever the file system.
    pub distrust_times: bool,
    /// Private layer over the tree. The repository's settings file is always that of the tree.
    pub layer: Option<Arc<Layer>>,
}

/// Reason why a directory cannot be a repository root.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The root does not exist, is not a directory, or cannot be read.
    #[error("`{}` cannot be opened as a repository", root.display())]
    Open {
        /// As it was given.
        root: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The root is `/`.
    #[error("`/` is the whole machine and is refused as a repository")]
    WholeMachine,
    /// A directory of the system, such as `/etc`, `/usr` or `/tmp` itself.
    #[error("`{}` {} and is refused as a repository: no project lives there", root.display(), describe_system(root, system))]
    System {
        /// The real path.
        root: PathBuf,
        /// Name of the system directory.
        system: &'static str,
    },
    /// The state directory, or a directory in it.
    #[error("`{}` holds the state of this program and is refused as a repository", root.display())]
    StateDirectory {
        /// The real path.
        root: PathBuf,
    },
    /// The home directory or one above it, without the user's consent.
    #[error("`{}` holds your whole home directory, which is no repository without your yes", root.display())]
    Home {
        /// The real path.
        root: PathBuf,
    },
    /// A directory in one that is hidden in every repository.
    #[error("`{}` is refused as a repository: it {reason}", root.display())]
    Hidden {
        /// The real path.
        root: PathBuf,
        /// Completes "it …".
        reason: &'static str,
    },
    /// The path is not UTF-8, so no answer could name it.
    #[error("`{}` is refused as a repository: its path is not UTF-8", root.display())]
    NotUtf8 {
        /// The real path.
        root: PathBuf,
    },
    /// A pattern in `[policy] hide`, `reveal` or `protect` is invalid.
    #[error(transparent)]
    Pattern(PatternError),
    /// `.tool.toml` at the root is invalid.
    #[error(transparent)]
    RootFile(RootFileError),
}

fn describe_system(root: &Path, system: &str) -> String {
    if root == Path::new(system) {
        "is a directory of the system".to_owned()
    } else {
        format!("lies in `{system}`")
    }
}

/// Reason why a path was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path does not exist.
    #[error("`{path}` does not exist")]
    NotFound {
        /// The path as given.
        path: String,
    },
    /// The path is hidden, or outside of the repository.
    #[error("`{path}` is not accessible: it {reason}")]
    Denied {
        /// As it was asked for.
        path: String,
        /// Completes "it …".
        reason: &'static str,
    },
    /// The path is a FIFO, a socket or a device.
    #[error("`{path}` is neither a file nor a directory")]
    NotRegular {
        /// As it was asked for.
        path: String,
    },
    /// The path is a directory, and a file was expected.
    #[error("`{path}` is a directory")]
    IsDirectory {
        /// As it was asked for.
        path: String,
    },
    /// The file is larger than the caller allows.
    #[error("`{path}` has {size} bytes, more than the limit of {bytes_max}")]
    TooLarge {
        /// As it was asked for.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// The system's error.
    #[error("`{path}` cannot be opened")]
    Io {
        /// As it was asked for.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; it occurs only in lists and is never opened itself.
    Symlink,
}

/// A file or directory that was opened, after its real path was judged.
#[derive(Debug)]
pub struct OpenedEntry {
    /// Handle for reading; non-blocking.
    pub handle: OwnedFd,
    /// Real path from the root, after following links.
    pub path: String,
    /// A file or a directory.
    pub kind: EntryKind,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Device and inode.
    pub identity: FileIdentity,
    /// Permission bits.
    pub mode: u32,
    /// True if the last walk listed it as one of the user's files: neither ignored nor in a skipped directory.
    pub listed: bool,
}

/// An opened repository root.
#[derive(Debug)]
pub struct Repository {
    path: PathBuf,
    root: RootHandle,
    identity: FileIdentity,
    rules: Rules,
    narrowing: RepositoryRules,
    state_directory: Option<PathBuf>,
    bounds: WalkBounds,
    key: RepositoryKey,
    /// Cache of walks of earlier openings.
    scans: Option<Arc<ScanCache>>,
    ignore_files: Arc<IgnoreCache>,
    /// Result of the last walk.
    scanned: Mutex<Option<Arc<Scan>>>,
    /// Held by the thread that walks.
    scanning: Mutex<()>,
    hidden_links: HiddenLinks,
    layer: Option<Arc<Layer>>,
    layered_list: LayeredList,
    tracked: Arc<TrackedCache>,
}

const OUTSIDE: &str = "lies outside the repository";
/// Reason for refusing this program's own directory.
pub const STATE: &str = "is the state directory of this program";
const HARD_LINK: &str = "is another name of a hidden file";
const GIT: &str = "is a git directory";

impl Repository {
    /// Opens `root`.
    ///
    /// # Errors
    ///
    /// The root cannot be opened, or no operation should run on it.
    pub fn open(root: &Path, options: &Options) -> Result<Arc<Self>, RepositoryError> {
        let mut bounds = WalkBounds::default();
        bounds.time = options.scan_time.unwrap_or(bounds.time);
        Ok(Arc::new(Self::open_bounded(root, options, bounds)?))
    }

    fn open_bounded(root: &Path, options: &Options, mut bounds: WalkBounds) -> Result<Self, RepositoryError> {
        let mut rules = Rules::new(&options.hide, &options.reveal, &options.protect)?;
        let (path, handle) = root::open_root(root, options)?;
        let stat = rustix::fs::fstat(&handle).map_err(|errno| RepositoryError::Open {
            root: path.clone(),
            source: errno.into(),
        })?;
        let identity = FileIdentity::from_stat(&stat);
        let root = RootHandle::new(handle);
        rules.on_file_system(root.has_aliases());
        if options.distrust_times || !root.has_reliable_times() {
            bounds.settling = Duration::MAX;
        }
        let state_directory = options.state_directory.as_deref().map(root::canonical_path);
        let key = RepositoryKey {
            root: path.clone(),
            identity,
            state_directory: state_directory.clone(),
            hide: options.hide.clone(),
            reveal: options.reveal.clone(),
            narrowed: Vec::new(),
        };
        let scans = options.scans.as_ref();
        let tracked = scans.map(|scans| scans.tracked(&path)).unwrap_or_default();
        let mut repository = Self {
            path,
            root,
            identity,
            rules,
            narrowing: RepositoryRules::default(),
            state_directory,
            bounds,
            key,
            ignore_files: options
                .scans
                .as_ref()
                .map(|scans| scans.ignore_files())
                .unwrap_or_default(),
            scans: options.scans.clone(),
            scanned: Mutex::new(None),
            scanning: Mutex::new(()),
            hidden_links: HiddenLinks::default(),
            layer: None,
            layered_list: LayeredList::default(),
            tracked,
        };
        if !options.ignore_root_file {
            repository.narrowing =
                root_file::read_root_file(&repository, &options.cancel).map_err(RepositoryError::RootFile)?;
            repository.rules.narrow(&repository.narrowing, "")?;
            repository.key.narrowed.clone_from(&repository.narrowing.hide);
            repository.narrow_as_around(&options.cancel)?;
            // A walk for reading that file had fewer rules for hidden names.
            repository.scanned = Mutex::new(None);
        }
        repository.layer.clone_from(&options.layer);
        Ok(repository)
    }

    /// Applies the `.tool.toml` of the work tree around the root: a user who names a folder in it does not ask for
    /// fewer restrictions.
    fn narrow_as_around(&mut self, cancel: &CancellationToken) -> Result<(), RepositoryError> {
        let around = find_root(&self.path);
        if around == self.path || around.join(ROOT_FILE).symlink_metadata().is_err() {
            return Ok(());
        }
        let below = self.path.strip_prefix(&around).ok().and_then(Path::to_str);
        let below = below.unwrap_or_default().to_owned();
        let options = Options {
            ignore_root_file: true,
            home_confirmed: true,
            ..Options::default()
        };
        let around = Self::open_bounded(&around, &options, self.bounds)?;
        let narrowing = root_file::read_root_file(&around, cancel).map_err(RepositoryError::RootFile)?;
        if self.rules.narrow(&narrowing, &below)? {
            return Err(RepositoryError::Hidden {
                root: self.path.clone(),
                reason: rules::REPOSITORY_HIDES,
            });
        }
        let hidden = narrowing.hide.iter().map(|pattern| format!("{below}:{pattern}"));
        self.key.narrowed.extend(hidden);
        self.narrowing.join(narrowing);
        Ok(())
    }

    /// Restrictions of the repository's `.tool.toml` and of the one in the work tree around it, without names. Hidden
    /// and protected names are applied already.
    pub fn narrowing(&self) -> &RepositoryRules {
        &self.narrowing
    }

    /// True for a file of the user: neither ignored, nor in a skipped directory, nor hidden. Before the first list of a
    /// repository, every file counts as one.
    pub fn lists(&self, path: &str, cancel: &CancellationToken) -> bool {
        self.scanned().is_none() || self.list(cancel).is_ok_and(|list| list.find(path).is_some())
    }

    /// The paths below the root that git tracks, as of its current index. `None` outside of git, before the first
    /// commit, if nothing is tracked, and if the index cannot be parsed. References that cannot be read count as a
    /// commit.
    pub fn tracked(&self) -> Option<Arc<TrackedPaths>> {
        self.tracked.read_committed(&self.path)
    }

    /// True if git has an index that cannot be parsed: any file may be tracked.
    pub fn tracks_unknown(&self) -> bool {
        let tracked = self.tracked.read(&self.path);
        tracked.is_some_and(|tracked| tracked.is_unknown())
    }

    /// The symbolic links that git tracks, also before the first commit. If the index cannot be parsed, an empty path
    /// stands for every link.
    pub fn tracked_links(&self) -> Vec<String> {
        match self.tracked.read(&self.path) {
            Some(tracked) if tracked.is_unknown() => vec![String::new()],
            Some(tracked) => tracked.links().to_vec(),
            None => Vec::new(),
        }
    }

    /// The real path of the root.
    pub fn root(&self) -> &Path {
        &self.path
    }

    /// The handle of the root.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.root.handle()
    }

    /// Device and inode of the root.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// False if files on this file system can change without a new time: then only reading tells.
    pub fn has_reliable_times(&self) -> bool {
        self.bounds.settling < Duration::MAX
    }

    /// Key by which another opening of the same repository is recognised.
    pub fn key(&self) -> &RepositoryKey {
        &self.key
    }

    /// `~/.tool`, if known.
    pub fn state_directory(&self) -> Option<&Path> {
        self.state_directory.as_deref()
    }

    /// The rules for hidden and protected names.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Reason why `path` may not be proposed: its name, or a virtual environment around it. `None` if it may. The
    /// reason completes "it …".
    pub fn protected(&self, path: &str) -> Option<&'static str> {
        let is_installed = || self.find_environment(path).is_some();
        let by_name = self.rules.protected(path);
        by_name.or_else(|| is_installed().then_some(rules::INSTALLED))
    }

    /// The outermost virtual environment of Python or conda that contains `path`. The root does not count: nothing in
    /// such a repository could be changed.
    fn find_environment<'a>(&self, path: &'a str) -> Option<&'a str> {
        path::list_ancestors(path)
            .filter(|directory| !directory.is_empty())
            .find(|directory| self.is_environment(directory))
    }

    fn is_environment(&self, directory: &str) -> bool {
        const MARKS: [&str; 2] = ["pyvenv.cfg", "conda-meta"];
        MARKS.iter().any(|mark| self.holds(directory, mark))
    }

    fn holds(&self, directory: &str, name: &str) -> bool {
        self.is_there(&path::join_path(directory, name))
    }

    /// True if anything exists at `path`, of any kind.
    pub fn is_there(&self, path: &str) -> bool {
        if let Some(entry) = self.layer().and_then(|layer| layer.find(path)) {
            return entry != LayerEntry::Removed;
        }
        rustix::fs::statat(self.directory(), path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The outermost directory above `path` whose files were made by a program: one that lists skip unless git tracks
    /// sources in it, a virtual environment of Python or conda, or one that its program has marked with a
    /// `CACHEDIR.TAG`, as cargo marks `target`.
    pub fn find_made_directory<'a>(&self, path: &'a str) -> Option<&'a str> {
        let tracked = TrackedTree::at_root(&self.path, &self.tracked);
        let is_skipped = |directory: &str| {
            let name = path::split_path(directory).1;
            let is_source = || rules::may_hold_sources(name) && tracked.within(directory) == TrackedWithin::Files;
            rules::is_skipped(name) && !is_source()
        };
        path::list_ancestors(path)
            .filter(|directory| !directory.is_empty())
            .find(|directory| {
                is_skipped(directory) || self.is_environment(directory) || self.holds(directory, "CACHEDIR.TAG")
            })
    }

    /// The dot name at the top level that writing to `path` would create, unless it is known to be harmless.
    ///
    /// Tools read settings from such names, often without asking, and no table can list all of them. A folder that
    /// replaces a file counts as new, and so does a name that cannot be looked up.
    pub fn find_new_dot_name<'a>(&self, path: &'a str) -> Option<&'a str> {
        let name = rules::find_unlisted_dot_name(path)?;
        let needs_directory = name.len() < path.len();
        let layered = self.layer().and_then(|layer| layer.find(name));
        if let Some(entry) = layered {
            let is_fit = entry == LayerEntry::Directory || matches!(entry, LayerEntry::File(_)) && !needs_directory;
            return (!is_fit).then_some(name);
        }
        let found = rustix::fs::statat(self.directory(), name, AtFlags::SYMLINK_NOFOLLOW);
        let is_there = found.is_ok_and(|stat| {
            // No proposal goes through a link, so a link stays as it is.
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            !(is_file && needs_directory)
        });
        (!is_there).then_some(name)
    }

    /// The root's handle, with the functions that open beneath it.
    pub fn handle(&self) -> &RootHandle {
        &self.root
    }

    /// Opens a file or directory beneath the root, unless its real name, its kind or its first bytes make it hidden.
    /// Never blocks and never leaves the root.
    ///
    /// A file with several hard links may have a hidden one, which only a walk through the whole tree finds. A
    /// cancellation ends that walk, and the file is then not opened.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_within(&self, path: &str, cancel: &CancellationToken) -> Result<OpenedEntry, OpenError> {
        let denied = |reason| OpenError::Denied {
            path: path.to_owned(),
            reason,
        };
        let asked = match path::normalise_path(path) {
            Ok(asked) => asked,
            Err(PathError::Nul | PathError::TooLong) => return Err(OpenError::NotFound { path: path.to_owned() }),
            Err(_) => return Err(denied(OUTSIDE)),
        };
        if self.layer.is_some()
            && let Some(opened) = self.open_layered(path, &self.real_name(&asked), cancel)
        {
            return opened;
        }
        if let Some(opened) = self.open_listed(path, &asked, cancel)? {
            return Ok(opened);
        }
        // Rules that also cover directories are applied before the file system is touched, the others once the kind of
        // the path is known. A name that is hidden as a file is refused even if nothing is there, so that the caller
        // does not learn whether it exists.
        if let Some(reason) = self.rules.hidden(&asked, true) {
            return Err(denied(reason));
        }
        let absent = |errno| match self.rules.hidden(&asked, false) {
            Some(reason) => denied(reason),
            None => io_error(path, errno),
        };
        let (handle, real) = match self.open_directly(&asked) {
            Ok(handle) => (handle, asked.clone()),
            Err(Errno::LOOP) => self.open_through_links(path, &asked)?,
            Err(Errno::NXIO | Errno::OPNOTSUPP) => return Err(OpenError::NotRegular { path: path.to_owned() }),
            Err(errno) => return Err(absent(errno)),
        };
        if real != asked
            && let Some(opened) = self.open_layered(path, &real, cancel)
        {
            return opened;
        }
        let stat = rustix::fs::fstat(&handle).map_err(|errno| io_error(path, errno))?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            _ => return Err(OpenError::NotRegular { path: path.to_owned() }),
        };
        match self.judge(&handle, &real, kind, &stat, cancel) {
            Some(reason) => Err(denied(reason)),
            None => Ok(build_opened(handle, real, kind, &stat, false)),
        }
    }

    /// Opens a regular file for reading, like [`Self::open_within`].
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_file_within(&self, path: &str, cancel: &CancellationToken) -> Result<File, OpenError> {
        let opened = self.open_within(path, cancel)?;
        match opened.kind {
            EntryKind::File => Ok(File::from(opened.handle)),
            EntryKind::Directory | EntryKind::Symlink => Err(OpenError::IsDirectory { path: path.to_owned() }),
        }
    }

    /// Reads a whole file of at most `bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn read_within(&self, path: &str, bytes_max: u64, cancel: &CancellationToken) -> Result<Vec<u8>, OpenError> {
        Ok(self.read_entry(path, bytes_max, cancel)?.0)
    }

    /// Reads a whole file of at most `bytes_max` bytes, with its entry; without an entry if the file has changed
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn read_entry(
        &self,
        path: &str,
        bytes_max: u64,
        cancel: &CancellationToken,
    ) -> Result<(Vec<u8>, Option<FileEntry>), OpenError> {
        let too_large = |size| OpenError::TooLarge {
            path: path.to_owned(),
            size,
            bytes_max,
        };
        let file = self.open_file_within(path, cancel)?;
        let failed = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        let stat = || rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()));
        let before = walk::file_entry(path.to_owned(), &stat()?);
        if before.size > bytes_max {
            return Err(too_large(before.size));
        }
        let mut content = Vec::with_capacity(usize::try_from(before.size).unwrap_or(0));
        (&file)
            .take(bytes_max.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(failed)?;
        // Also the end for a file that grows while it is read.
        let size = content.len() as u64;
        if size > bytes_max {
            return Err(too_large(size));
        }
        let after = walk::file_entry(path.to_owned(), &stat()?);
        let is_same = before == after && after.size == size;
        Ok((content, is_same.then_some(after)))
    }

    /// The files of the repository as the user sees them, after ignore rules, skipped directories and hidden names.
    ///
    /// The list is always current: an earlier walk is used again if everything on which it depends is unchanged, which
    /// costs a fraction of a walk. Concurrent callers share one walk.
    ///
    /// # Errors
    ///
    /// A directory cannot be read, or the caller is cancelled.
    pub fn list(&self, cancel: &CancellationToken) -> Result<Arc<FileList>, ScanError> {
        let _turn = self.turn_to_scan(cancel)?;
        let outside = Ignores::files_outside(&self.path);
        if let Some(scan) = self.last_scan()
            && let Some(list) =
                revalidate::refresh_list(&scan, (&self.root, &self.path), &outside, self.bounds.settling, cancel)
        {
            self.keep(scan);
            return Ok(self.merge_list(list, cancel));
        }
        let walked = self.walk(outside, cancel)?;
        Ok(self.merge_list(Arc::clone(&walked.list), cancel))
    }

    /// The files below a directory that the list leaves out, or the file itself, for a caller who names it. Ignore
    /// rules and hidden names apply to what is in it.
    ///
    /// # Errors
    ///
    /// As of [`Self::list`].
    pub fn list_named(&self, path: &str, cancel: &CancellationToken) -> Result<Arc<FileList>, ScanError> {
        Ok(Arc::clone(self.names_beneath(path, cancel)?.list()))
    }

    /// The last walk of this opening, or of an earlier one.
    fn last_scan(&self) -> Option<Arc<Scan>> {
        let kept = || self.scans.as_ref().and_then(|scans| scans.get(&self.key));
        self.scanned().or_else(kept)
    }

    /// Walks the tree. The caller holds the lock.
    fn walk(&self, outside: Vec<PathBuf>, cancel: &CancellationToken) -> Result<Arc<Scan>, ScanError> {
        let scan = walk::scan_tree(&self.tree(cancel), "", self.bounds, ScanBasis::begin(outside), cancel)?;
        let scan = Arc::new(scan);
        self.keep(Arc::clone(&scan));
        Ok(scan)
    }

    fn keep(&self, scan: Arc<Scan>) {
        if let Some(scans) = &self.scans {
            scans.put(&self.key, &scan);
        }
        *self.scanned.lock().unwrap_or_else(PoisonError::into_inner) = Some(scan);
    }

    /// Waits until no other thread walks.
    fn turn_to_scan(&self, cancel: &CancellationToken) -> Result<MutexGuard<'_, ()>, ScanError> {
        let turn = lock_wait::lock_unless_cancelled(&self.scanning, cancel).ok_or(ScanError::Cancelled)?;
        if cancel.is_cancelled() {
            Err(ScanError::Cancelled)
        } else {
            Ok(turn)
        }
    }

    /// The entries of one directory.
    ///
    /// # Errors
    ///
    /// The directory is hidden, does not exist, or cannot be read.
    pub fn entries(&self, directory: &str, cancel: &CancellationToken) -> Result<DirectoryList, OpenError> {
        let opened = self.open_within(directory, cancel)?;
        if opened.kind != EntryKind::Directory {
            return Err(io_error(directory, Errno::NOTDIR));
        }
        let listed = match self.layer() {
            Some(_) if !self.has_directory(&opened.path) => Ok(DirectoryList::default()),
            _ => self.tree(cancel).entries(&opened.path, self.bounds.entries),
        };
        let listed = listed.map(|listed| self.merge_entries(&opened.path, listed, cancel));
        listed.map_err(|error| match error {
            ScanError::Unreadable { source, .. } => OpenError::Io {
                path: directory.to_owned(),
                source,
            },
            ScanError::Cancelled => io_error(directory, Errno::CANCELED),
        })
    }

    /// Reason why a path is hidden that is known without opening it: its name, the state directory, and git directories
    /// above it. `is_directory` says what it is or would be.
    pub fn hidden(&self, path: &str, is_directory: bool) -> Option<&'static str> {
        let named = self.rules.hidden(path, is_directory);
        named.or_else(|| self.hidden_place(&path::normalise_path(path).ok()?, is_directory))
    }

    /// Reason why content without a file, such as a blob of git, is hidden under this path.
    pub fn hidden_content(&self, path: &str, content: &[u8]) -> Option<&'static str> {
        let head = &content[..content.len().min(secrets::bytes_wanted(path))];
        let reason = secrets::find_reason(path, head)?;
        (!self.rules.revealed(&rules::fold_case(path))).then_some(reason)
    }

    fn tree<'a>(&'a self, cancel: &'a CancellationToken) -> WalkedTree<'a> {
        let reader = IgnoreReader::new(&self.ignore_files, cancel, Instant::now() + self.bounds.time);
        WalkedTree {
            root: &self.root,
            rules: &self.rules,
            ignores: Ignores::at_root(&self.path, &reader),
            reader,
            tracked: TrackedTree::at_root(&self.path, &self.tracked),
            state: self.state(),
        }
    }

    /// Identity of the state directory, if it exists.
    fn state(&self) -> Option<FileIdentity> {
        let directory = self.state_directory.as_deref();
        let stat = rustix::fs::stat(directory?).ok()?;
        Some(FileIdentity::from_stat(&stat))
    }

    /// Opens a path that the last walk listed as a file and judged by its name; `None` if it is not a file any more.
    fn open_listed(
        &self,
        path: &str,
        asked: &str,
        cancel: &CancellationToken,
    ) -> Result<Option<OpenedEntry>, OpenError> {
        let is_listed = |scan: Arc<Scan>| scan.list.find(asked).is_some();
        if !self.scanned().is_some_and(is_listed) {
            return Ok(None);
        }
        let Ok(handle) = self.root.open_plainly(asked) else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&handle).map_err(|errno| io_error(path, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        match self.hidden_file(&handle, asked, &stat, cancel) {
            Some(reason) => Err(OpenError::Denied {
                path: path.to_owned(),
                reason,
            }),
            None => Ok(Some(build_opened(
                handle,
                asked.to_owned(),
                EntryKind::File,
                &stat,
                true,
            ))),
        }
    }

    /// Opens a path that leads through no link.
    ///
    /// The kind is checked first, because opening alone has effects on a device (a tape rewinds, a watchdog starts) and
    /// wakes a FIFO's writer. Who exchanges the file between the check and the opening gains only such an effect,
    /// because the open handle is judged. `O_PATH` and re-opening through `/proc` would close this gap at three times
    /// the cost. A file that the last walk listed is not checked, so that reading a whole tree costs one opening for
    /// each file.
    fn open_directly(&self, path: &str) -> Result<OwnedFd, Errno> {
        if !path.is_empty() {
            // This check may follow a link and leave the root. So it only decides that the slow way, which does not,
            // has to be taken.
            let stat = rustix::fs::statat(self.root.handle(), path, AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| !open::is_ordinary(&stat)) {
                return Err(Errno::LOOP);
            }
        }
        self.root.open_plainly(path)
    }

    /// Follows links first, and judges their target before anything is opened.
    fn open_through_links(&self, path: &str, asked: &str) -> Result<(OwnedFd, String), OpenError> {
        let denied = |reason| OpenError::Denied {
            path: path.to_owned(),
            reason,
        };
        let place = match self.root.resolve(asked) {
            Ok(place) => place,
            Err(PathObstacle::Errno(errno)) => return Err(io_error(path, errno)),
            Err(PathObstacle::Outside) => return Err(denied(OUTSIDE)),
        };
        // The name at the end of the links decides.
        let real = &place.path;
        if let Some(reason) = self.rules.hidden(real, true) {
            return Err(denied(reason));
        }
        let stat = self
            .root
            .stat_place(&place)
            .map_err(|errno| match self.rules.hidden(real, false) {
                Some(reason) => denied(reason),
                None => io_error(path, errno),
            })?;
        if !open::is_ordinary(&stat) {
            return Err(OpenError::NotRegular { path: path.to_owned() });
        }
        let handle = self.root.open_place(&place).map_err(|errno| io_error(path, errno))?;
        Ok((handle, real.to_owned()))
    }

    /// Reason why an open file or directory is hidden. `path` is its real name.
    fn judge(
        &self,
        handle: &OwnedFd,
        path: &str,
        kind: EntryKind,
        stat: &Stat,
        cancel: &CancellationToken,
    ) -> Option<&'static str> {
        let is_directory = kind == EntryKind::Directory;
        self.rules
            .hidden(path, is_directory)
            .or_else(|| self.hidden_place(path, is_directory))
            .or_else(|| match kind {
                EntryKind::File => self.hidden_file(handle, path, stat, cancel),
                EntryKind::Directory | EntryKind::Symlink => None,
            })
    }

    /// Reason why a path is hidden independent of its name: git directories and the state directory.
    fn hidden_place(&self, path: &str, is_directory: bool) -> Option<&'static str> {
        let scan = self.scanned();
        let is_walked = |directory: &str| scan.as_ref().is_some_and(|scan| scan.walked.contains(directory));
        let (parent, _) = path::split_path(path);
        let itself = Some(path).filter(|path| is_directory && !path.is_empty());
        if is_walked(itself.unwrap_or(parent)) {
            return None;
        }
        let state = self.state();
        path::list_ancestors(path)
            .chain(itself)
            .filter(|directory| !is_walked(directory))
            .find_map(|directory| self.hidden_directory(directory, state))
    }

    fn hidden_directory(&self, directory: &str, state: Option<FileIdentity>) -> Option<&'static str> {
        if open::is_git_directory(self.root.handle(), directory) {
            return Some(GIT);
        }
        let stat = rustix::fs::statat(self.root.handle(), directory, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (state == Some(FileIdentity::from_stat(&stat))).then_some(STATE)
    }

    /// Reason why a file is hidden by its kind, its links or its content.
    fn hidden_file(
        &self,
        handle: &OwnedFd,
        path: &str,
        stat: &Stat,
        cancel: &CancellationToken,
    ) -> Option<&'static str> {
        let is_linked = stat.st_nlink > 1;
        if is_linked && self.is_hidden_identity(FileIdentity::from_stat(stat), cancel) {
            return Some(HARD_LINK);
        }
        if let Some(reason) = self.hidden_link_reason(stat, cancel) {
            return Some(reason);
        }
        let wanted = secrets::bytes_wanted(path);
        let mut small = [0; secrets::HEAD_BYTES];
        let mut large = Vec::new();
        let buffer = if wanted <= small.len() {
            &mut small[..]
        } else {
            large.resize(wanted, 0);
            &mut large[..]
        };
        let reason = secrets::find_reason(path, open::read_head(handle, buffer))?;
        (!self.rules.revealed(&rules::fold_case(path))).then_some(reason)
    }

    /// True if a file is known to have a hidden name elsewhere. Files with several names are so rare that the first of
    /// them may cost a walk.
    fn is_hidden_identity(&self, identity: FileIdentity, cancel: &CancellationToken) -> bool {
        if self.scanned().is_none() {
            // A walk that fails or is cut short knows less; what it knows still counts.
            drop(self.list(cancel));
        }
        self.scanned().is_some_and(|scan| scan.hidden.contains(&identity))
    }

    fn scanned(&self) -> Option<Arc<Scan>> {
        self.scanned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn build_opened(handle: OwnedFd, path: String, kind: EntryKind, stat: &Stat, listed: bool) -> OpenedEntry {
    OpenedEntry {
        handle,
        path,
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: fingerprint::modified_ns(stat),
        identity: FileIdentity::from_stat(stat),
        mode: open::permission_bits(stat),
        listed,
    }
}

fn io_error(path: &str, errno: Errno) -> OpenError {
    let path = path.to_owned();
    match errno {
        Errno::NOENT | Errno::NOTDIR => OpenError::NotFound { path },
        errno => OpenError::Io {
            path,
            source: errno.into(),
        },
    }
}

/// Shorthands without cancellation, for tests.
#[cfg(any(test, fuzzing))]
impl Repository {
    /// Opens a path without cancellation.
    pub fn open_at(&self, path: &str) -> Result<OpenedEntry, OpenError> {
        self.open_within(path, &CancellationToken::new())
    }

    /// Reads a file without cancellation.
    pub fn read(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, OpenError> {
        self.read_within(path, bytes_max, &CancellationToken::new())
    }
}

impl AsFd for Repository {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory()
    }
}
