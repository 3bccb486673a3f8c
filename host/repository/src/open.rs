//! Opens files beneath the root: never outside of it, never blocking, and never through a link to an unknown target.
//!
//! The fast path is one `openat2` that refuses every symbolic link, so the requested name is the real name. If there is
//! a link, or the kernel has no `openat2`, the path is resolved part by part on directory handles, which also gives the
//! real name. Both return a handle and its real path, and the caller decides whether that path may be opened.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::path;

/// Symbolic links in one path: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Directories in a path through links: each needs a handle while the path is followed. Real trees are less than 30
/// deep.
const LEVELS_MAX: usize = 256;

/// Device and inode: identifies a file independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

impl FileIdentity {
    /// Device and inode of a file.
    pub fn from_stat(stat: &Stat) -> Self {
        #[allow(
            clippy::useless_conversion,
            clippy::unnecessary_cast,
            reason = "the types differ between platforms"
        )]
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
        }
    }
}

/// Reason why a path leads to no place beneath the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathObstacle {
    /// A link or `..` leads out of the root.
    Outside,
    Errno(Errno),
}

impl From<Errno> for PathObstacle {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Target of a path: a directory handle and a name in it, without links.
pub(super) struct ResolvedPath {
    /// Absent if the path is the root itself.
    parent: Option<OwnedFd>,
    name: String,
    /// Normal path from the root.
    pub(super) path: String,
}

/// The root's handle.
#[derive(Debug)]
pub struct RootHandle {
    handle: OwnedFd,
    /// False once the kernel has reported that it has no `openat2`.
    has_openat2: AtomicBool,
}

/// Flags of every opening. Non-blocking, because opening a FIFO would wait for a writer. Without a controlling
/// terminal, because a terminal device would become one.
const COMMON: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Flags of a directory on the way.
#[cfg(target_os = "linux")]
const THROUGH: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const THROUGH: OFlags = OFlags::DIRECTORY.union(COMMON);

impl RootHandle {
    pub(super) fn new(handle: OwnedFd) -> Self {
        Self {
            handle,
            has_openat2: AtomicBool::new(cfg!(target_os = "linux")),
        }
    }

    /// Handle of the root directory.
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// True for file systems that find files under names which they do not list: those of Windows, and those that may
    /// be based on one.
    pub(super) fn has_aliases(&self) -> bool {
        const MSDOS: i64 = 0x4d44;
        const EXFAT: i64 = 0x2011_bab0;
        const NTFS: i64 = 0x5346_544e;
        const NTFS3: i64 = 0x7366_746e;
        const FUSE: i64 = 0x6573_5546;
        const V9FS: i64 = 0x0102_1997;
        const SMB: i64 = 0x517b;
        const CIFS: i64 = 0xff53_4d42;
        const SMB2: i64 = 0xfe53_4d42;
        const VBOX: i64 = 0x786f_4256;
        const PARALLELS: i64 = 0x7c7c_6673;
        self.file_system().is_some_and(|kind| {
            [MSDOS, EXFAT, NTFS, NTFS3, FUSE, V9FS, SMB, CIFS, SMB2, VBOX, PARALLELS].contains(&kind)
        })
    }

    /// True for file systems whose kernel records the time of every change. Others get times from a server or a
    /// program, or record none: a file can then change without a new time.
    pub(super) fn has_reliable_times(&self) -> bool {
        const EXT: i64 = 0xef53;
        const XFS: i64 = 0x5846_5342;
        const BTRFS: i64 = 0x9123_683e;
        const ZFS: i64 = 0x2fc1_2fc1;
        const F2FS: i64 = 0xf2f5_2010;
        const BCACHEFS: i64 = 0xca45_1a4e;
        const TMPFS: i64 = 0x0102_1994;
        const RAMFS: i64 = 0x8584_58f6;
        const OVERLAYFS: i64 = 0x794c_7630;
        const SQUASHFS: i64 = 0x7371_7368;
        const EROFS: i64 = 0xe0f5_e1e2;
        cfg!(not(target_os = "linux"))
            || self.file_system().is_some_and(|kind| {
                [
                    EXT, XFS, BTRFS, ZFS, F2FS, BCACHEFS, TMPFS, RAMFS, OVERLAYFS, SQUASHFS, EROFS,
                ]
                .contains(&kind)
            })
    }

    /// Magic number of the root's file system, as in `linux/magic.h` and the sources of file systems.
    #[cfg(target_os = "linux")]
    fn file_system(&self) -> Option<i64> {
        #[allow(clippy::useless_conversion, reason = "the types differ between platforms")]
        let kind = rustix::fs::fstatfs(&self.handle).map(|system| i64::from(system.f_type));
        Some(kind.ok()? & 0xffff_ffff)
    }

    #[cfg(not(target_os = "linux"))]
    fn file_system(&self) -> Option<i64> {
        None
    }

    /// Always resolves part by part from now on, as on a kernel without `openat2`.
    #[cfg(test)]
    pub(super) fn forget_openat2(&self) {
        self.has_openat2.store(false, Ordering::Relaxed);
    }

    /// Opens a normal path for reading; `ELOOP` for a symbolic link on the way or at the end.
    pub(super) fn open_plainly(&self, path: &str) -> Result<OwnedFd, Errno> {
        self.open_with(path, OFlags::RDONLY | COMMON)
    }

    /// Opens a directory; `ELOOP` for a symbolic link on the way or at the end.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn open_directory(&self, path: &str) -> Result<OwnedFd, Errno> {
        self.open_with(path, OFlags::RDONLY | OFlags::DIRECTORY | COMMON)
    }

    fn open_with(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.has_openat2.load(Ordering::Relaxed) {
            match self.openat2(path, flags) {
                // Filters of some containers answer EPERM to a call that they do not know. Resolving part by part then
                // tells a missing permission from a missing call.
                Err(Errno::NOSYS | Errno::PERM) => {}
                answer => return answer,
            }
        }
        let mut directory: Option<OwnedFd> = None;
        let (parents, name) = path::split_path(path);
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            let next = rustix::fs::openat(self.at(directory.as_ref()), part, THROUGH, Mode::empty());
            directory = Some(next.map_err(|errno| link_or(errno, self.at(directory.as_ref()), part))?);
        }
        let name = if name.is_empty() { "." } else { name };
        let here = self.at(directory.as_ref());
        rustix::fs::openat(here, name, flags, Mode::empty()).map_err(|errno| link_or(errno, here, name))
    }

    #[cfg(target_os = "linux")]
    fn openat2(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { "." } else { path };
        // `NO_SYMLINKS` refuses a link at the end with `ELOOP`. With `NOFOLLOW` it would fail as not a directory.
        let flags = flags.difference(OFlags::NOFOLLOW);
        let answer = rustix::fs::openat2(&self.handle, path, flags, Mode::empty(), resolve);
        if answer.as_ref().is_err_and(|&errno| errno == Errno::NOSYS) {
            self.has_openat2.store(false, Ordering::Relaxed);
        }
        answer
    }

    #[cfg(not(target_os = "linux"))]
    fn openat2(&self, _path: &str, _flags: OFlags) -> Result<OwnedFd, Errno> {
        Err(Errno::NOSYS)
    }

    fn at<'a>(&'a self, directory: Option<&'a OwnedFd>) -> BorrowedFd<'a> {
        directory.map_or_else(|| self.handle(), |directory| directory.as_fd())
    }

    /// Follows links to the real place of a normal path. The entry at the end is not opened.
    pub(super) fn resolve(&self, path: &str) -> Result<ResolvedPath, PathObstacle> {
        let mut todo: VecDeque<String> = path.split('/').map(str::to_owned).collect();
        let mut done: Vec<(String, OwnedFd)> = Vec::new();
        let mut links = 0;
        while let Some(part) = todo.pop_front() {
            if matches!(part.as_str(), "" | ".") {
                continue;
            }
            if part == ".." {
                done.pop().ok_or(PathObstacle::Outside)?;
                continue;
            }
            let here = self.at(done.last().map(|(_, handle)| handle));
            match rustix::fs::openat(here, part.as_str(), THROUGH, Mode::empty()) {
                Ok(_) if done.len() >= LEVELS_MAX => return Err(Errno::NAMETOOLONG.into()),
                Ok(handle) => {
                    done.push((part, handle));
                    continue;
                }
                Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => {}
                Err(errno) => return Err(errno.into()),
            }
            let target = match rustix::fs::readlinkat(here, part.as_str(), Vec::new()) {
                Ok(target) => target.into_string().map_err(|_| Errno::ILSEQ)?,
                // Neither a link nor a directory: it has to be the end of the path.
                Err(Errno::INVAL) if todo.iter().all(String::is_empty) => return Ok(ResolvedPath::in_last(done, part)),
                Err(Errno::INVAL) => return Err(Errno::NOTDIR.into()),
                Err(errno) => return Err(errno.into()),
            };
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            if target.starts_with('/') {
                return Err(PathObstacle::Outside);
            }
            for part in target.rsplit('/') {
                todo.push_front(part.to_owned());
            }
        }
        Ok(match done.pop() {
            Some((name, _)) => ResolvedPath::in_last(done, name),
            None => ResolvedPath {
                parent: None,
                name: ".".to_owned(),
                path: String::new(),
            },
        })
    }

    /// Opens the file or directory at a place; `ELOOP` if it has become a link since.
    pub(super) fn open_place(&self, place: &ResolvedPath) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(
            self.at(place.parent.as_ref()),
            place.name.as_str(),
            OFlags::RDONLY | COMMON,
            Mode::empty(),
        )
    }

    /// Returns the state of the entry at a place.
    pub(super) fn stat_place(&self, place: &ResolvedPath) -> Result<Stat, Errno> {
        rustix::fs::statat(
            self.at(place.parent.as_ref()),
            place.name.as_str(),
            AtFlags::SYMLINK_NOFOLLOW,
        )
    }
}

impl ResolvedPath {
    fn in_last(mut done: Vec<(String, OwnedFd)>, name: String) -> Self {
        let mut path = String::new();
        for (part, _) in &done {
            path.push_str(part);
            path.push('/');
        }
        path.push_str(&name);
        Self {
            parent: done.pop().map(|(_, handle)| handle),
            name,
            path,
        }
    }
}

/// `O_DIRECTORY` fails on a link with `ENOTDIR`; callers have to know that it was a link.
fn link_or(errno: Errno, directory: BorrowedFd<'_>, name: &str) -> Errno {
    if errno == Errno::NOTDIR && rustix::fs::readlinkat(directory, name, Vec::new()).is_ok() {
        return Errno::LOOP;
    }
    errno
}

/// The permission bits.
pub fn permission_bits(stat: &Stat) -> u32 {
    #[allow(clippy::useless_conversion, reason = "the types differ between platforms")]
    let mode = u32::from(stat.st_mode);
    mode & 0o7777
}

/// True for files and directories, and false for FIFOs, sockets and devices.
pub(super) fn is_ordinary(stat: &Stat) -> bool {
    matches!(
        FileType::from_raw_mode(stat.st_mode),
        FileType::RegularFile | FileType::Directory
    )
}

/// True if the directory `path` beneath `at` has the entries of a git directory.
pub(super) fn is_git_directory(at: impl AsFd, path: &str) -> bool {
    let has = |name: &str| {
        let name = format!("{path}/{name}");
        rustix::fs::statat(at.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    };
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

/// Fills `buffer` from the beginning of a file, as far as the file goes, without moving its position.
pub(super) fn read_head(file: impl AsFd, buffer: &mut [u8]) -> &[u8] {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file.as_fd(), &mut buffer[filled..], filled as u64) {
            Ok(0) | Err(_) => break,
            Ok(count) => filled += count,
        }
    }
    &buffer[..filled]
}
