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
use tempfile::TempDir;

/// Name of the folder in the program's own directory.
const NAME: &str = "tmp";

/// A new private folder (0700) that is removed when it is dropped. `home` is the program's own directory, where one is
/// known.
pub(crate) fn folder(home: Option<&Path>, prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    match place(home) {
        Some(place) => builder.tempdir_in(place),
        None => builder.tempdir(),
    }
}

/// Where such folders lie, where a daemon keeps them.
fn place(home: Option<&Path>) -> Option<PathBuf> {
    let place = home?.join(NAME);
    // A link leads to what the next daemon would not look for.
    let is_folder = place.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    is_folder.then_some(place)
}

/// Where a copy of a repository lies whose programs have to run; absent where those of the usual place must not, and
/// where there is none.
pub(crate) fn place_for_programs(home: Option<&Path>) -> Option<PathBuf> {
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
        true => {
            open_up(path);
            fs::remove_dir_all(path)
        }
        false => fs::remove_file(path),
    };
    // What is left of it, for whatever reason, holds nothing that the user does not have.
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "a private folder could not be removed");
    }
}

/// A run may take the rights to its own directories away, which would keep them from being removed.
fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, PermissionsExt::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
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
        let left = folder(Some(home.path()), "tool-x-").expect("there is room").keep();
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
