//! Private folders for the time of one call: what a guest proposes, objects of a commit, the copy that a run works on.
//!
//! They lie in `tmp` of the program's own directory, so that those of a daemon that was killed are found and removed by
//! the next one, which holds the lock. Whoever uses the engine without a daemon gets them where the system keeps such
//! folders. Nothing in them is ever moved into a repository: what gets there is read and written anew.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;

use crate::room::Disk;

/// Name of the folder in the program's own directory.
const NAME: &str = "tmp";

/// A private folder (0700) that is removed when this is dropped, whatever was made of it.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    fn new(place: &Path, prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(place)?;
        Ok(Self(folder.keep()))
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// A new private folder. `home` is the program's own directory, where one is known.
pub(crate) fn folder(home: Option<&Path>, prefix: &str) -> io::Result<Folder> {
    Folder::new(&place(home).unwrap_or_else(std::env::temp_dir), prefix)
}

/// The same by its real path, for a copy of a repository whose programs have to run. Where none may be run below the
/// program's own directory it lies in `/tmp`, and what a daemon leaves there that is killed, nobody finds.
pub(crate) fn folder_for_programs(home: Option<&Path>, prefix: &str) -> io::Result<Folder> {
    let place = place_for_programs(home).unwrap_or_else(|| "/tmp".into());
    Folder::new(&place.canonicalize()?, prefix)
}

/// The disk that [`folder`] needs room on.
pub(crate) fn disk(home: Option<&Path>) -> Disk {
    match place(home) {
        Some(_) => Disk::Home,
        None => Disk::Temporary,
    }
}

/// Where such folders lie, where a daemon keeps them.
fn place(home: Option<&Path>) -> Option<PathBuf> {
    let place = home?.join(NAME);
    // A link leads to what the next daemon would not look for.
    let is_folder = place.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    is_folder.then_some(place)
}

/// Where such folders lie; absent, too, where no program may be run there.
fn place_for_programs(home: Option<&Path>) -> Option<PathBuf> {
    let runs = |place: &PathBuf| {
        let flags = rustix::fs::statvfs(place).map(|system| system.f_flag);
        flags.is_ok_and(|flags| !flags.contains(StatVfsMountFlags::NOEXEC))
    };
    place(home).filter(runs)
}

/// Makes the place, for a daemon that holds the lock of `home`, and gives what lies there already: it belongs to nobody
/// any more.
pub(crate) fn open(home: &Path) -> io::Result<Leftovers> {
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

/// What a daemon left that was killed.
pub(crate) struct Leftovers(Vec<PathBuf>);

impl Leftovers {
    /// Removes it. The copy of a repository may have many files, so nobody should wait for this.
    pub(crate) fn remove(self) {
        for path in self.0 {
            remove(&path);
        }
    }
}

/// Removes a folder with all that is in it, or a file.
pub(crate) fn remove(path: &Path) {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = match is_folder {
        true => remove_folder(path),
        false => fs::remove_file(path),
    };
    // What is left of it, for whatever reason, holds nothing that the user does not have.
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "a private folder could not be removed");
    }
}

/// Removes a folder that a run may still be changing, and in which it may have nested its directories deeper than a path
/// or a process's handles reach. So nothing is reached by a path, no link is followed, and what lies deep is brought up to
/// a level of its own before it is removed in turn.
fn remove_folder(folder: &Path) -> io::Result<()> {
    let (beside, name) = folder
        .parent()
        .zip(folder.file_name())
        .ok_or(io::ErrorKind::InvalidInput)?;
    let level = tempfile::Builder::new().prefix("tool-end-").tempdir_in(beside)?;
    let open = |path: &Path| rustix::fs::open(path, OFlags::RDONLY | DIRECTORY, Mode::empty());
    let (beside, handle) = (open(beside)?, open(level.path())?);
    let mut removal = Removal {
        level: handle.as_fd(),
        found: 0,
        failed: None,
    };
    removal.remove(beside.as_fd(), name.as_bytes(), HANDLES_MAX);
    let mut done = 0;
    while done < removal.found {
        removal.remove(handle.as_fd(), done.to_string().as_bytes(), HANDLES_MAX);
        done += 1;
    }
    match removal.failed {
        Some(errno) => Err(errno.into()),
        None => level.close(),
    }
}

/// Flags of a directory that is no link.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Directories that are open at a time, each in the one before.
const HANDLES_MAX: usize = 64;

/// How often a directory is emptied in which something appears meanwhile.
const ROUNDS_MAX: usize = 4;

/// A folder being removed.
struct Removal<'a> {
    /// Holds directories that lay too deep, by their numbers. No run may write here.
    level: BorrowedFd<'a>,
    found: u64,
    /// What could not be done first. The rest is done all the same.
    failed: Option<Errno>,
}

impl Removal<'_> {
    /// Removes a directory with all that is in it. What has its name by then and is none is removed as well.
    fn remove(&mut self, at: BorrowedFd<'_>, name: &[u8], handles: usize) {
        for _ in 0..ROUNDS_MAX {
            let emptied = open_up(at, name).and_then(|folder| self.empty(&folder, handles - 1));
            let flags = match emptied {
                Ok(()) => AtFlags::REMOVEDIR,
                Err(Errno::NOTDIR | Errno::LOOP) => AtFlags::empty(),
                Err(Errno::NOENT) => return,
                Err(errno) => return self.fail(errno),
            };
            match rustix::fs::unlinkat(at, name, flags) {
                // It is not empty any more, or was exchanged.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR | Errno::PERM) => {}
                Ok(()) | Err(Errno::NOENT) => return,
                Err(errno) => return self.fail(errno),
            }
        }
        self.fail(Errno::NOTEMPTY);
    }

    fn empty(&mut self, folder: &OwnedFd, handles: usize) -> Result<(), Errno> {
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                // How systems say that it is a directory.
                Err(Errno::ISDIR | Errno::PERM) if handles > 0 => self.remove(folder.as_fd(), name, handles),
                Err(Errno::ISDIR | Errno::PERM) => self.bring_up(folder.as_fd(), name),
                Err(errno) => self.fail(errno),
            }
        }
        Ok(())
    }

    /// Moves what has this name to the level.
    fn bring_up(&mut self, from: BorrowedFd<'_>, name: &[u8]) {
        let place = self.found.to_string();
        // To move a directory is to write to it.
        let moved = open_up(from, name).and_then(|_| rustix::fs::renameat(from, name, self.level, place.as_str()));
        match moved {
            Ok(()) => self.found += 1,
            // It is gone, or no directory any more, and looked at once more where its folder is not empty.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => self.fail(errno),
        }
    }

    fn fail(&mut self, errno: Errno) {
        self.failed.get_or_insert(errno);
    }
}

/// Opens a directory, with all rights of its owner, which a run may have taken away.
fn open_up(at: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | DIRECTORY;
    let folder = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        #[cfg(target_os = "linux")]
        Err(Errno::ACCESS) => {
            use std::os::fd::AsRawFd;
            let folder = rustix::fs::openat(at, name, OFlags::PATH | DIRECTORY, Mode::empty())?;
            // The handle itself: it cannot be made to mean anything else.
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
        let made = folder(Some(home.path()), "tool-x-").expect("there is room");
        assert!(!made.path().starts_with(home.path()), "there is no daemon");
        open(home.path()).expect("it can be made");
        let left = folder(Some(home.path()), "tool-x-").expect("there is room");
        let left = std::mem::ManuallyDrop::new(left).path().to_owned();
        assert_eq!(left.parent(), Some(home.path().join("tmp").as_path()));
        let outside = home.path().join("outside");
        fs::create_dir_all(left.join("locked/deep")).expect("folders can be made");
        fs::create_dir(&outside).expect("folders can be made");
        fs::write(outside.join("kept"), "").expect("files can be written");
        std::os::unix::fs::symlink(&outside, left.join("link")).expect("links can be made");
        std::os::unix::fs::symlink(&outside, home.path().join("tmp/link")).expect("links can be made");
        fs::set_permissions(left.join("locked"), PermissionsExt::from_mode(0o000)).expect("modes can be set");
        let leftovers = open(home.path()).expect("it is there");
        let new = folder(Some(home.path()), "tool-x-").expect("there is room");
        leftovers.remove();
        let names = fs::read_dir(home.path().join("tmp")).expect("it is there").flatten();
        assert_eq!(names.map(|entry| entry.path()).collect::<Vec<_>>(), [new.path()]);
        assert!(outside.join("kept").exists());
    }

    #[test]
    fn a_folder_is_removed_however_deep_it_is_and_whatever_rights_are_left() {
        use rustix::fs::{mkdirat, openat, unlinkat};
        let home = tempfile::tempdir().expect("a temporary folder");
        open(home.path()).expect("it can be made");
        let made = folder(Some(home.path()), "tool-x-").expect("there is room");
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

    /// Who still runs there exchanges directories for links to a folder of the user's.
    #[test]
    #[cfg(target_os = "linux")]
    fn removing_a_folder_that_is_changed_meanwhile_touches_nothing_outside() {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use std::sync::atomic::{AtomicBool, Ordering};
        let home = tempfile::tempdir().expect("a temporary folder");
        open(home.path()).expect("it can be made");
        let outside = home.path().join("outside");
        fs::create_dir_all(outside.join("kept")).expect("folders can be made");
        fs::write(outside.join("kept/file"), "").expect("files can be written");
        fs::set_permissions(&outside, PermissionsExt::from_mode(0o755)).expect("modes can be set");
        for _ in 0..20 {
            let made = folder(Some(home.path()), "tool-x-").expect("there is room");
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
                remove(&path);
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
        open(home.path()).expect("it is there");
        let mode = fs::metadata(&place).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::remove_dir(&place).expect("it is empty");
        std::os::unix::fs::symlink("/", &place).expect("links can be made");
        assert!(open(home.path()).is_err());
        assert_eq!(place_for_programs(Some(home.path())), None);
    }
}
