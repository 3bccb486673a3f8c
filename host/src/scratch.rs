//! Private folders for the time of one call: what a guest proposes, objects of a commit, the copy that a run works on.
//!
//! They lie in `tmp` of the program's own directory, so that those of a daemon that was killed are found and removed by
//! the next one, which holds the lock. Whoever uses the engine without a daemon gets them where the system keeps such
//! folders. Nothing in them is ever moved into a repository: what gets there is read and written anew.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

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

/// A run may have nested its directories deeper than a path or a process's handles reach, and may have taken its own
/// rights to them away. So each is brought up to one level before it is emptied in turn.
fn remove_folder(folder: &Path) -> io::Result<()> {
    let beside = folder.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let level = tempfile::Builder::new().prefix("tool-end-").tempdir_in(beside)?;
    let mut number = 0u64;
    let mut found = vec![folder.to_owned()];
    while let Some(folder) = found.pop() {
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                // To move a directory is to write to it.
                fs::set_permissions(entry.path(), PermissionsExt::from_mode(0o700))?;
                let place = level.path().join(number.to_string());
                fs::rename(entry.path(), &place)?;
                number += 1;
                found.push(place);
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        fs::remove_dir(&folder)?;
    }
    level.close()
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
        use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
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
