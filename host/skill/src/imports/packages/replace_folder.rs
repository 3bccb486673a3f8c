//! Replaces a folder of packages (`.venv`, `node_modules`) by the result of an installation.
//!
//! The run wrote to a cover of the folder. After it has ended well, both folders are compared. New files are copied
//! beside those that they replace, and only then names are changed; an error restores the names. Entries that the run
//! could not see stay unchanged, and anything but files, folders and links is refused. All work is done on handles of
//! folders, one name at a time, without following a link.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::limits;

/// Reason why the folder was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// An entry is a FIFO, a socket or a device.
    #[error("`{}` is neither a file, a folder nor a link", path.display())]
    Special {
        /// Path of the entry.
        path: PathBuf,
    },
    /// The session ended before anything was changed.
    #[error("the call was cancelled")]
    Cancelled,
    /// The result is larger than an installation should be.
    #[error("the installation left {what}")]
    TooMuch {
        /// What exceeds the limit, as the end of a sentence.
        what: &'static str,
    },
    /// A file operation failed.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// Path of the entry.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
}

fn with_path<T>(path: &Path, answer: rustix::io::Result<T>) -> Result<T, PlaceError> {
    answer.map_err(|errno| PlaceError::Io {
        path: path.to_owned(),
        source: errno.into(),
    })
}

/// The real folder, and the entries in it that the run could not see.
pub struct PackageFolder<'a> {
    /// Directory that contains the folder.
    pub parent: BorrowedFd<'a>,
    /// Name of the folder in its parent.
    pub name: &'a OsStr,
    /// Hidden paths, relative to the folder.
    pub masked: &'a HashSet<PathBuf>,
    /// Cancels the work until the first name is changed; after that the work is completed.
    pub cancel: &'a CancellationToken,
}

/// A change of one name, relative to the folder of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NameChange {
    /// The name did not exist.
    New(PathBuf),
    /// The name existed with another content.
    Other(PathBuf),
    Gone(PathBuf),
    /// The permissions of a folder changed.
    Mode(PathBuf, Mode),
}

/// A replaced folder, which can still be restored.
pub struct PlacedFolder {
    root: OwnedFd,
    stage: PackageStage,
    done: Vec<CompletedChange>,
    /// Parent directory and name of the folder, and whether it was created for this.
    parent: OwnedFd,
    name: OsString,
    is_new: bool,
}

/// A completed change, with the data to undo it.
enum CompletedChange {
    Placed { to: PathBuf, index: usize },
    Removed { from: PathBuf, index: usize },
    Mode { path: PathBuf, before: Mode },
}

/// A folder beside the folder of packages. It holds the new entries before the change, and the old ones after it.
struct PackageStage {
    parent: OwnedFd,
    name: CString,
    handle: OwnedFd,
}

/// Limit for the depth of folders of packages. The deepest known have thirty levels.
const DEPTH_MAX: usize = 128;

/// Prefix of stages' names. No package manager makes such names, and the rules hide them.
const STAGE: &str = ".tool-proposal-packages-";

/// Replaces the real folder by `left`, a folder that no process writes to any more.
pub fn place_folder(folder: &PackageFolder<'_>, left: &OwnedFd) -> Result<PlacedFolder, PlaceError> {
    let name = Path::new(folder.name);
    let is_new = match rustix::fs::mkdirat(folder.parent, folder.name, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return with_path(name, Err(errno)),
    };
    let put = put_into(folder, left);
    if is_new && put.is_err() {
        let _ = rustix::fs::unlinkat(folder.parent, folder.name, AtFlags::REMOVEDIR);
    }
    put.map(|placed| PlacedFolder { is_new, ..placed })
}

fn put_into(folder: &PackageFolder<'_>, left: &OwnedFd) -> Result<PlacedFolder, PlaceError> {
    let name = Path::new(folder.name);
    let root = with_path(name, open_folder(folder.parent, folder.name))?;
    let mut comparison = FolderComparison {
        masked: folder.masked,
        changes: Vec::new(),
        entries: 0,
    };
    comparison.folders(&root, Some(left), Path::new(""), 0)?;
    let mut placed = PlacedFolder {
        stage: PackageStage::make_stage(&root)?,
        root,
        parent: with_path(name, folder.parent.try_clone_to_owned().map_err(io_errno))?,
        name: folder.name.to_owned(),
        is_new: false,
        done: Vec::new(),
    };
    match placed.make(left, &comparison.changes, comparison.entries, folder.cancel) {
        Ok(()) => Ok(placed),
        Err(error) => {
            placed.take_back();
            Err(error)
        }
    }
}

fn io_errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn open_folder(parent: impl AsFd, name: impl AsRef<OsStr>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name.as_ref(), flags, Mode::empty())
}

/// Opens the parent folder of an entry, and returns it with the entry's name.
fn parent_of<'p>(root: &OwnedFd, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), PlaceError> {
    let mut here = with_path(path, root.try_clone().map_err(io_errno))?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        here = with_path(path, open_folder(&here, part.as_os_str()))?;
    }
    Ok((here, path.file_name().unwrap_or_default()))
}

/// Removes stages of killed processes, which hold no lock any more. Such a stage may hold the only packages that
/// exist, so this happens only after new ones are in place.
fn sweep_stages(root: &OwnedFd) {
    for name in entry_names(root)
        .unwrap_or_default()
        .iter()
        .filter(|name| is_stage(name))
    {
        let held = open_folder(root, name).and_then(|stage| {
            rustix::fs::flock(&stage, FlockOperation::NonBlockingLockExclusive)?;
            Ok(stage)
        });
        if held.is_ok() {
            let _ = remove_entry(root.as_fd(), name, 0);
        }
    }
}

fn is_stage(name: &OsStr) -> bool {
    name.as_bytes().starts_with(STAGE.as_bytes())
}

fn entry_names(folder: &OwnedFd) -> rustix::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn stat_entry(folder: impl AsFd, name: impl AsRef<OsStr>) -> rustix::io::Result<Stat> {
    rustix::fs::statat(folder, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)
}

fn file_kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Permissions without the set-user-ID, set-group-ID and sticky bits.
fn permission_mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o777)
}

/// Collects the changes between the two folders.
struct FolderComparison<'a> {
    masked: &'a HashSet<PathBuf>,
    changes: Vec<NameChange>,
    entries: u64,
}

impl FolderComparison<'_> {
    fn count(&mut self, depth: usize) -> Result<(), PlaceError> {
        self.entries += 1;
        if self.entries > limits::CONTAIN_ENTRIES_MAX {
            return Err(PlaceError::TooMuch { what: "too many files" });
        }
        if depth > DEPTH_MAX {
            return Err(PlaceError::TooMuch {
                what: "folders within folders without end",
            });
        }
        Ok(())
    }

    /// Compares two folders. If the new one does not exist, only hidden entries stay.
    fn folders(&mut self, real: &OwnedFd, new: Option<&OwnedFd>, path: &Path, depth: usize) -> Result<(), PlaceError> {
        // Stages belong to this module, on both sides.
        let packages = |folder: &OwnedFd| {
            let mut names = entry_names(folder)?;
            names.retain(|name| depth > 0 || !is_stage(name));
            Ok(names)
        };
        let new_names = match new {
            Some(new) => with_path(path, packages(new))?,
            None => Vec::new(),
        };
        let fresh: HashSet<&OsString> = new_names.iter().collect();
        for name in with_path(path, packages(real))? {
            let inner = path.join(&name);
            self.count(depth)?;
            if self.is_masked(&inner) {
                continue;
            }
            match new.filter(|_| fresh.contains(&name)) {
                Some(new) => self.entry(real, new, &inner, &name, depth)?,
                None if self.holds_masked(&inner) => {
                    let real = with_path(&inner, open_folder(real, &name))?;
                    self.folders(&real, None, &inner, depth + 1)?;
                }
                None => self.changes.push(NameChange::Gone(inner)),
            }
        }
        for name in &new_names {
            let inner = path.join(name);
            self.count(depth)?;
            let is_there = !matches!(stat_entry(real, name), Err(Errno::NOENT));
            if !is_there && !self.is_masked(&inner) {
                self.changes.push(NameChange::New(inner));
            }
        }
        Ok(())
    }

    fn is_masked(&self, path: &Path) -> bool {
        self.masked.contains(path)
    }

    fn holds_masked(&self, path: &Path) -> bool {
        self.masked.iter().any(|masked| masked.starts_with(path))
    }

    /// Compares an entry that both folders have.
    fn entry(
        &mut self,
        real: &OwnedFd,
        new: &OwnedFd,
        path: &Path,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), PlaceError> {
        let (before, after) = (
            with_path(path, stat_entry(real, name))?,
            with_path(path, stat_entry(new, name))?,
        );
        match (file_kind(&before), file_kind(&after)) {
            (FileType::Directory, FileType::Directory) => {
                let (real, new) = (
                    with_path(path, open_folder(real, name))?,
                    with_path(path, open_folder(new, name))?,
                );
                self.folders(&real, Some(&new), path, depth + 1)?;
                if permission_mode(&before) != permission_mode(&after) {
                    self.changes
                        .push(NameChange::Mode(path.to_owned(), permission_mode(&after)));
                }
            }
            (FileType::RegularFile, FileType::RegularFile) if is_untouched(&before, &after) => {}
            (FileType::Symlink, FileType::Symlink) if link_target(real, name) == link_target(new, name) => {}
            _ if self.holds_masked(path) => {}
            _ => self.changes.push(NameChange::Other(path.to_owned())),
        }
        Ok(())
    }
}

/// True if time, size and permissions are the same: the file below the cover. A run that forges all three only keeps
/// the old file.
fn is_untouched(before: &Stat, after: &Stat) -> bool {
    let time = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec);
    before.st_size == after.st_size && time(before) == time(after) && permission_mode(before) == permission_mode(after)
}

fn link_target(folder: &OwnedFd, name: &OsStr) -> Option<CString> {
    rustix::fs::readlinkat(folder, name, Vec::new()).ok()
}

impl PlacedFolder {
    /// Copies the new files, then changes names.
    fn make(
        &mut self,
        source: &OwnedFd,
        changes: &[NameChange],
        entries: u64,
        cancel: &CancellationToken,
    ) -> Result<(), PlaceError> {
        let mut copy = FolderCopyBudget {
            entries,
            bytes: limits::CONTAIN_TREE_BYTES_MAX,
            cancel,
        };
        for (index, change) in changes.iter().enumerate() {
            if let NameChange::New(path) | NameChange::Other(path) = change {
                let (folder, name) = parent_of(source, path)?;
                copy.entry(&folder, name, &self.stage.handle, &new_name(index), path, 0)?;
            }
        }
        // The changes below are quick; cancellation does not interrupt them.
        go_on(cancel)?;
        for (index, change) in changes.iter().enumerate() {
            self.change(index, change)?;
        }
        Ok(())
    }

    fn change(&mut self, index: usize, change: &NameChange) -> Result<(), PlaceError> {
        match change {
            NameChange::New(path) => self.place(index, path),
            NameChange::Gone(path) => self.remove(index, path),
            NameChange::Other(path) => {
                self.remove(index, path)?;
                self.place(index, path)
            }
            NameChange::Mode(path, mode) => {
                let (folder, name) = parent_of(&self.root, path)?;
                let folder = with_path(path, open_folder(&folder, name))?;
                let before = Mode::from_raw_mode(with_path(path, rustix::fs::fstat(&folder))?.st_mode & 0o7777);
                with_path(path, rustix::fs::fchmod(&folder, *mode))?;
                let path = path.clone();
                self.done.push(CompletedChange::Mode { path, before });
                Ok(())
            }
        }
    }

    fn place(&mut self, index: usize, path: &Path) -> Result<(), PlaceError> {
        let (folder, name) = parent_of(&self.root, path)?;
        with_path(
            path,
            rustix::fs::renameat(&self.stage.handle, new_name(index), &folder, name),
        )?;
        let to = path.to_owned();
        self.done.push(CompletedChange::Placed { to, index });
        Ok(())
    }

    fn remove(&mut self, index: usize, path: &Path) -> Result<(), PlaceError> {
        let (folder, name) = parent_of(&self.root, path)?;
        with_path(
            path,
            rustix::fs::renameat(&folder, name, &self.stage.handle, old_name(index)),
        )?;
        let from = path.to_owned();
        self.done.push(CompletedChange::Removed { from, index });
        Ok(())
    }

    /// Number of changed entries; a new folder counts as one.
    pub(super) fn changed(&self) -> usize {
        self.done.len()
    }

    /// Keeps the new folder, and removes the replaced entries and the stages of killed processes.
    pub fn keep(self) {
        self.stage.clear();
        sweep_stages(&self.root);
    }

    /// Restores everything. Returns false if a part failed because another process changed the folder.
    pub(super) fn take_back(self) -> bool {
        let mut is_whole = true;
        for done in self.done.iter().rev() {
            is_whole &= self.undo(done).is_ok();
        }
        // Old files that could not be restored stay in the stage.
        if is_whole {
            self.stage.clear();
        }
        if self.is_new {
            let _ = rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
        }
        is_whole
    }

    fn undo(&self, done: &CompletedChange) -> Result<(), PlaceError> {
        let stage = &self.stage.handle;
        match done {
            CompletedChange::Placed { to, index } => {
                let (folder, name) = parent_of(&self.root, to)?;
                with_path(to, rustix::fs::renameat(&folder, name, stage, new_name(*index)))
            }
            CompletedChange::Removed { from, index } => {
                let (folder, name) = parent_of(&self.root, from)?;
                with_path(from, rustix::fs::renameat(stage, old_name(*index), &folder, name))
            }
            CompletedChange::Mode { path, before } => {
                let (folder, name) = parent_of(&self.root, path)?;
                let folder = with_path(path, open_folder(&folder, name))?;
                with_path(path, rustix::fs::fchmod(&folder, *before))
            }
        }
    }
}

fn go_on(cancel: &CancellationToken) -> Result<(), PlaceError> {
    if cancel.is_cancelled() {
        Err(PlaceError::Cancelled)
    } else {
        Ok(())
    }
}

fn new_name(index: usize) -> OsString {
    format!("new-{index}").into()
}

fn old_name(index: usize) -> OsString {
    format!("old-{index}").into()
}

impl PackageStage {
    fn make_stage(root: &OwnedFd) -> Result<Self, PlaceError> {
        let text = format!("{STAGE}{}", uuid::Uuid::now_v7().simple());
        let path = Path::new(&text);
        with_path(path, rustix::fs::mkdirat(root, path, Mode::RWXU))?;
        let handle = with_path(path, open_folder(root, path))?;
        // `sweep_stages` spares the stage while this process lives. Without locks, nothing is swept.
        let _ = rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive);
        Ok(Self {
            parent: with_path(path, root.try_clone().map_err(io_errno))?,
            name: CString::new(text).unwrap_or_default(),
            handle,
        })
    }

    fn clear(self) {
        let name = OsStr::from_bytes(CStr::to_bytes(&self.name));
        // Remains of the stage are hidden, and the next installation removes them.
        let _ = remove_entry(self.parent.as_fd(), name, 0);
    }
}

/// Removes an entry with everything in it.
fn remove_entry(folder: BorrowedFd<'_>, name: &OsStr, depth: usize) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        // An aborted copy may be deeper than the limit, and has to be removed as well.
        Err(Errno::ISDIR | Errno::PERM) if depth <= 2 * DEPTH_MAX => {}
        other => return other,
    }
    let inner = open_folder(folder, name).or_else(|_| {
        // A package may contain a folder without read permission.
        rustix::fs::chmodat(folder, name, Mode::RWXU, AtFlags::empty())?;
        open_folder(folder, name)
    })?;
    let _ = rustix::fs::fchmod(&inner, Mode::RWXU);
    for name in entry_names(&inner)? {
        remove_entry(inner.as_fd(), &name, depth + 1)?;
    }
    rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)
}

/// Limits for a copy: entries so far, and bytes left.
struct FolderCopyBudget<'a> {
    entries: u64,
    bytes: u64,
    cancel: &'a CancellationToken,
}

impl FolderCopyBudget<'_> {
    /// Copies an entry with everything in it.
    fn entry(
        &mut self,
        from: &OwnedFd,
        name: &OsStr,
        to: &OwnedFd,
        new_name: &OsStr,
        path: &Path,
        depth: usize,
    ) -> Result<(), PlaceError> {
        go_on(self.cancel)?;
        self.entries += 1;
        if self.entries > limits::CONTAIN_ENTRIES_MAX || depth > DEPTH_MAX {
            return Err(PlaceError::TooMuch { what: "too many files" });
        }
        let found = with_path(path, stat_entry(from, name))?;
        match file_kind(&found) {
            FileType::Directory => self.folder(from, name, to, new_name, path, depth, &found),
            FileType::Symlink => {
                let target = with_path(path, rustix::fs::readlinkat(from, name, Vec::new()))?;
                with_path(path, rustix::fs::symlinkat(target, to, new_name))
            }
            FileType::RegularFile => self.file(from, name, to, new_name, path),
            _ => Err(PlaceError::Special { path: path.to_owned() }),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "two places of one entry, as for every other kind"
    )]
    fn folder(
        &mut self,
        from: &OwnedFd,
        name: &OsStr,
        to: &OwnedFd,
        new_name: &OsStr,
        path: &Path,
        depth: usize,
        found: &Stat,
    ) -> Result<(), PlaceError> {
        with_path(path, rustix::fs::mkdirat(to, new_name, Mode::RWXU))?;
        let (source, target) = (
            with_path(path, open_folder(from, name))?,
            with_path(path, open_folder(to, new_name))?,
        );
        for inner in with_path(path, entry_names(&source))? {
            self.entry(&source, &inner, &target, &inner, &path.join(&inner), depth + 1)?;
        }
        with_path(path, rustix::fs::fchmod(&target, permission_mode(found)))
    }

    fn file(
        &mut self,
        from: &OwnedFd,
        name: &OsStr,
        to: &OwnedFd,
        new_name: &OsStr,
        path: &Path,
    ) -> Result<(), PlaceError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut source = File::from(with_path(path, rustix::fs::openat(from, name, flags, Mode::empty()))?);
        let found = with_path(path, rustix::fs::fstat(&source))?;
        let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
        self.bytes = self
            .bytes
            .checked_sub(size)
            .ok_or(PlaceError::TooMuch { what: "too many bytes" })?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut target = File::from(with_path(
            path,
            rustix::fs::openat(to, new_name, flags, Mode::RUSR | Mode::WUSR),
        )?);
        let failed = |source| PlaceError::Io {
            path: path.to_owned(),
            source,
        };
        io::copy(&mut source, &mut target).map_err(failed)?;
        with_path(path, rustix::fs::fchmod(&target, permission_mode(&found)))?;
        // Compiled Python files hold the time of their source.
        with_path(path, rustix::fs::futimens(&target, &modification_times(&found)))
    }
}

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "their types differ between systems"
)]
fn modification_times(stat: &Stat) -> Timestamps {
    let modified = Timespec {
        tv_sec: stat.st_mtime as _,
        tv_nsec: stat.st_mtime_nsec as _,
    };
    Timestamps {
        last_access: modified,
        last_modification: modified,
    }
}

#[cfg(test)]
mod unit;
