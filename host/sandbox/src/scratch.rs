//! Private folders for one call: what a guest proposes, objects of a commit, the copy of a tree that a run works on.
//!
//! They are in `tmp` of the program's own directory, so that the next daemon, which holds the lock, finds and removes
//! those of a killed one. Without a daemon they are in the system's folder for temporary files. They are never moved
//! into a repository: their content is read and written anew.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use tool_core::disk::Disk;

/// Name of the folder in the program's own directory.
const NAME: &str = "tmp";

/// A private folder (mode 0700) that is removed when this is dropped, with everything in it.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new(place: &Path, prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(place)?;
        Ok(Self(folder.keep()))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        remove_path(&self.0);
    }
}

/// Makes a private folder. `home` is the program's own directory, if known.
///
/// # Errors
///
/// The system's error.
pub fn create_folder(home: Option<&Path>, prefix: &str) -> io::Result<ScratchFolder> {
    ScratchFolder::new(&find_parent_folder(home).unwrap_or_else(std::env::temp_dir), prefix)
}

/// Makes a private folder at its real path, for a copy of a repository whose programs have to run. If the file system
/// of the program's own directory forbids that, the folder is in `/tmp`, where it stays after a daemon was
/// killed.
///
/// # Errors
///
/// The system's error.
pub fn folder_for_programs(home: Option<&Path>, prefix: &str) -> io::Result<ScratchFolder> {
    let place = place_for_programs(home).unwrap_or_else(|| "/tmp".into());
    ScratchFolder::new(&place.canonicalize()?, prefix)
}

/// The disk on which [`create_folder`] makes its folders.
pub fn choose_disk(home: Option<&Path>) -> Disk {
    match find_parent_folder(home) {
        Some(_) => Disk::Home,
        None => Disk::Temporary,
    }
}

/// The parent of private folders, if a daemon maintains one.
fn find_parent_folder(home: Option<&Path>) -> Option<PathBuf> {
    let place = home?.join(NAME);
    // Behind a link the next daemon would not look.
    let is_folder = place.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    is_folder.then_some(place)
}

/// The parent of private folders, if programs may run there.
fn place_for_programs(home: Option<&Path>) -> Option<PathBuf> {
    find_parent_folder(home).filter(|place| runs_programs(place))
}

#[cfg(target_os = "linux")]
fn runs_programs(place: &Path) -> bool {
    let flags = rustix::fs::statvfs(place).map(|system| system.f_flag);
    flags.is_ok_and(|flags| !flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// The system does not say.
#[cfg(not(target_os = "linux"))]
fn runs_programs(_place: &Path) -> bool {
    true
}

/// Makes the parent of private folders, for a daemon that holds the lock of `home`. Returns what is there already: the
/// daemon that made it has ended.
///
/// # Errors
///
/// The system's error, also if something else has that name.
pub fn open_scratch(home: &Path) -> io::Result<Leftovers> {
    let place = home.join(NAME);
    match fs::DirBuilder::new().mode(0o700).create(&place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if !place.symlink_metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    fs::set_permissions(&place, PermissionsExt::from_mode(0o700))?;
    let entries = fs::read_dir(&place)?.flatten();
    Ok(Leftovers(entries.map(|entry| entry.path()).collect()))
}

/// Private folders that a killed daemon left.
pub struct Leftovers(Vec<PathBuf>);

impl Leftovers {
    /// Removes them. The copy of a repository may have many files, so no caller should wait for this.
    pub fn remove(self) {
        for path in self.0 {
            remove_path(&path);
        }
    }
}

/// Removes a folder with its content, or a file.
pub fn remove_path(path: &Path) {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder {
        remove_folder(path)
    } else {
        fs::remove_file(path)
    };
    // The remains hold nothing that the user does not have elsewhere.
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "a private folder could not be removed");
    }
}

/// Removes a folder that a run may still be changing. The run may have nested directories deeper than a path or a
/// process's handles reach. So no path is used and no link is followed; directories that are too deep are moved up to a
/// folder beside it, the level, and removed from there.
///
/// Entries that cannot be removed stay. A full disk may have no room for the level until something is removed, so the
/// pass is repeated as long as the last one has removed anything.
fn remove_folder(folder: &Path) -> io::Result<()> {
    remove_beside(folder, folder.parent().ok_or(io::ErrorKind::InvalidInput)?)
}

/// Removes a folder; the level is made in `place`.
fn remove_beside(folder: &Path, place: &Path) -> io::Result<()> {
    let (above, name) = folder
        .parent()
        .zip(folder.file_name())
        .ok_or(io::ErrorKind::InvalidInput)?;
    let handle = open_directory(above)?;
    let mut removal = Removal {
        place,
        level: None,
        found: 0,
        removed: 0,
        failed: None,
    };
    for _ in 0..PASSES_MAX {
        (removal.removed, removal.failed) = (0, None);
        removal.remove(handle.as_fd(), name.as_bytes(), HANDLES_MAX);
        removal.remove_found()?;
        if removal.failed.is_none() || removal.removed == 0 {
            break;
        }
    }
    match (removal.failed, removal.level) {
        (Some(errno), _) => Err(errno.into()),
        (None, Some((level, _))) => fs::remove_dir(level),
        (None, None) => Ok(()),
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | DIRECTORY, Mode::empty())
}

/// Opens a directory, and no link.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Directories that are open at a time, nested in each other.
const HANDLES_MAX: usize = 16;

/// Most passes over the whole folder. Each goes deeper on a full disk, and sees what has appeared meanwhile.
const PASSES_MAX: usize = 4;

/// A folder being removed.
struct Removal<'a> {
    /// Directory in which the level is made.
    place: &'a Path,
    /// Holds directories that were too deep, by their numbers; made when it is first needed. No run can write here.
    level: Option<(PathBuf, OwnedFd)>,
    found: u64,
    /// Files and directories removed in this pass.
    removed: u64,
    /// First error in the folder. The rest is removed nevertheless.
    failed: Option<Errno>,
}

impl Removal<'_> {
    /// Removes a directory with its content. If something else has the name by then, that is removed.
    fn remove(&mut self, at: BorrowedFd<'_>, name: &[u8], handles: usize) {
        let emptied = open_up(at, name).and_then(|folder| self.empty(folder, handles - 1));
        let flags = match emptied {
            Ok(()) => AtFlags::REMOVEDIR,
            Err(Errno::NOTDIR | Errno::LOOP) => AtFlags::empty(),
            Err(errno) => return self.gone(Err(errno)),
        };
        self.gone(rustix::fs::unlinkat(at, name, flags));
    }

    fn empty(&mut self, folder: OwnedFd, handles: usize) -> Result<(), Errno> {
        let mut entries = Dir::new(folder)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let folder = entries.fd()?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
                // Linux reports a directory with the first error, other systems with the second.
                Err(Errno::ISDIR | Errno::PERM) if handles > 0 => self.remove(folder, name, handles),
                Err(Errno::ISDIR | Errno::PERM) => self.bring_up(folder, name),
                unlinked => self.gone(unlinked),
            }
        }
        Ok(())
    }

    /// Moves the entry of this name to the level.
    fn bring_up(&mut self, from: BorrowedFd<'_>, name: &[u8]) {
        // Moving a directory changes its `..` entry, so it must be writable.
        let moved = open_up(from, name).and_then(|_| {
            let place = self.found.to_string();
            rustix::fs::renameat(from, name, self.level()?, place.as_str())
        });
        match moved {
            Ok(()) => self.found += 1,
            // It is not a directory any more; the next pass handles it.
            Err(errno) => self.gone(Err(errno)),
        }
    }

    fn level(&mut self) -> Result<BorrowedFd<'_>, Errno> {
        if self.level.is_none() {
            let made = tempfile::Builder::new().prefix("tool-end-").tempdir_in(self.place);
            let made = made
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?
                .keep();
            let handle = open_directory(&made)?;
            self.level = Some((made, handle));
        }
        self.level
            .as_ref()
            .map(|(_, handle)| handle.as_fd())
            .ok_or(Errno::NOENT)
    }

    /// Removes what was moved up, which may move up more.
    fn remove_found(&mut self) -> io::Result<()> {
        let Some((_, level)) = &self.level else { return Ok(()) };
        let level = level.try_clone()?;
        let mut next = 0;
        while next < self.found {
            self.remove(level.as_fd(), next.to_string().as_bytes(), HANDLES_MAX);
            next += 1;
        }
        Ok(())
    }

    fn gone(&mut self, removed: Result<(), Errno>) {
        match removed {
            Ok(()) => self.removed += 1,
            Err(Errno::NOENT) => {}
            Err(errno) => {
                self.failed.get_or_insert(errno);
            }
        }
    }
}

/// Opens a directory after giving its owner all rights, which a run may have taken away.
fn open_up(at: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | DIRECTORY;
    let folder = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        #[cfg(target_os = "linux")]
        Err(Errno::ACCESS) => {
            use std::os::fd::AsRawFd;
            let folder = rustix::fs::openat(at, name, OFlags::PATH | DIRECTORY, Mode::empty())?;
            // Through the handle, because the name could mean another file by now.
            rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU)?;
            rustix::fs::openat(&folder, ".", flags, Mode::empty())
        }
        opened => opened,
    }?;
    rustix::fs::fchmod(&folder, Mode::RWXU)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_daemon_left_is_removed_and_nothing_that_it_points_at() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let made = create_folder(Some(home.path()), "tool-x-").expect("there is room");
        assert!(!made.path().starts_with(home.path()), "there is no daemon");
        open_scratch(home.path()).expect("it can be made");
        let left = create_folder(Some(home.path()), "tool-x-").expect("there is room");
        let left = std::mem::ManuallyDrop::new(left).path().to_owned();
        assert_eq!(left.parent(), Some(home.path().join("tmp").as_path()));
        let outside = home.path().join("outside");
        fs::create_dir_all(left.join("locked/deep")).expect("folders can be made");
        fs::create_dir(&outside).expect("folders can be made");
        fs::write(outside.join("kept"), "").expect("files can be written");
        std::os::unix::fs::symlink(&outside, left.join("link")).expect("links can be made");
        std::os::unix::fs::symlink(&outside, home.path().join("tmp/link")).expect("links can be made");
        fs::set_permissions(left.join("locked"), PermissionsExt::from_mode(0o000)).expect("modes can be set");
        let leftovers = open_scratch(home.path()).expect("it is there");
        let new = create_folder(Some(home.path()), "tool-x-").expect("there is room");
        leftovers.remove();
        let names = fs::read_dir(home.path().join("tmp")).expect("it is there").flatten();
        assert_eq!(names.map(|entry| entry.path()).collect::<Vec<_>>(), [new.path()]);
        assert!(outside.join("kept").exists());
    }

    #[test]
    fn a_folder_is_removed_however_deep_it_is_and_whatever_rights_are_left() {
        use rustix::fs::{mkdirat, openat, unlinkat};
        let home = tempfile::tempdir().expect("a temporary folder");
        open_scratch(home.path()).expect("it can be made");
        let made = create_folder(Some(home.path()), "tool-x-").expect("there is room");
        // Deeper than the longest path, and than handles that a process has by default.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut deep = rustix::fs::open(made.path(), flags, Mode::empty()).expect("it is there");
        for _ in 0..5_000 {
            mkdirat(&deep, "d", Mode::RWXU).expect("folders can be made");
            deep = openat(&deep, "d", flags, Mode::empty()).expect("it is there");
        }
        drop(openat(&deep, "f", OFlags::CREATE | OFlags::WRONLY, Mode::empty()).expect("files can be made"));
        rustix::fs::fchmod(&deep, Mode::empty()).expect("modes can be set");
        let path = made.path().to_owned();
        drop(made);
        assert!(!path.exists());
        let left = fs::read_dir(home.path().join(NAME)).expect("it is there").count();
        assert_eq!(left, 0);
        unlinkat(&deep, "f", AtFlags::empty()).expect_err("it is gone");
    }

    /// In the fallback a run's copy lies on the user's disk, which the run may fill.
    #[test]
    fn a_folder_is_removed_where_there_is_no_room_for_anything_beside_it() {
        let home = tempfile::tempdir().expect("a temporary folder");
        open_scratch(home.path()).expect("it can be made");
        let made = create_folder(Some(home.path()), "tool-x-").expect("there is room");
        fs::create_dir_all(made.path().join("a/b/c")).expect("folders can be made");
        fs::write(made.path().join("a/b/c/file"), "").expect("files can be written");
        fs::create_dir_all(made.path().join("deep/".repeat(HANDLES_MAX + 1))).expect("folders can be made");
        remove_beside(made.path(), &home.path().join("full")).expect_err("what lies too deep has no place to go to");
        let left = fs::read_dir(made.path()).expect("it is there").flatten();
        assert_eq!(left.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["deep"]);
    }

    /// A directory that cannot be removed keeps all above it, and each of them was tried again for each below it.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_cannot_be_removed_deep_inside_costs_no_more_than_a_few_passes() {
        let home = tempfile::tempdir().expect("a temporary folder");
        open_scratch(home.path()).expect("it can be made");
        let made = create_folder(Some(home.path()), "tool-x-").expect("there is room");
        let deep = made.path().join("d/".repeat(HANDLES_MAX - 2));
        fs::create_dir_all(&deep).expect("folders can be made");
        let begun = std::time::Instant::now();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Something always appears in the deepest one.
            scope.spawn(|| {
                let mut number = 0_u64;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = fs::write(deep.join(number.to_string()), "");
                    number += 1;
                }
            });
            let _ = remove_folder(made.path());
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
    }

    /// A process that still runs there exchanges directories for links to a folder of the user's.
    #[test]
    #[cfg(target_os = "linux")]
    fn removing_a_folder_that_is_changed_meanwhile_touches_nothing_outside() {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use std::sync::atomic::{AtomicBool, Ordering};
        let home = tempfile::tempdir().expect("a temporary folder");
        open_scratch(home.path()).expect("it can be made");
        let outside = home.path().join("outside");
        fs::create_dir_all(outside.join("kept")).expect("folders can be made");
        fs::write(outside.join("kept/file"), "").expect("files can be written");
        fs::set_permissions(&outside, PermissionsExt::from_mode(0o755)).expect("modes can be set");
        for _ in 0..20 {
            let made = create_folder(Some(home.path()), "tool-x-").expect("there is room");
            let place = |number: usize, kind: &str| made.path().join(format!("{kind}-{number}"));
            for number in 0..300 {
                fs::create_dir(place(number, "folder")).expect("folders can be made");
                std::os::unix::fs::symlink(&outside, place(number, "link")).expect("links can be made");
            }
            let (path, is_over) = (made.path().to_owned(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        for number in 0..300 {
                            let (folder, link) = (
                                path.join(format!("folder-{number}")),
                                path.join(format!("link-{number}")),
                            );
                            let _ = renameat_with(CWD, folder, CWD, link, RenameFlags::EXCHANGE);
                        }
                    }
                });
                remove_path(&path);
                is_over.store(true, Ordering::Relaxed);
            });
            std::mem::forget(made);
        }
        assert!(outside.join("kept/file").exists());
        let mode = fs::metadata(&outside).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn the_place_is_the_users_alone_and_no_link() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let place = home.path().join("tmp");
        fs::create_dir(&place).expect("folders can be made");
        fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).expect("modes can be set");
        open_scratch(home.path()).expect("it is there");
        let mode = fs::metadata(&place).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::remove_dir(&place).expect("it is empty");
        std::os::unix::fs::symlink("/", &place).expect("links can be made");
        assert!(open_scratch(home.path()).is_err());
        assert_eq!(place_for_programs(Some(home.path())), None);
    }
}
