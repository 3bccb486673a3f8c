//! Locks of git: a file `NAME.lock` locks the file `NAME`. All folders are opened without following links.
//!
//! Each lock of ours holds one line that no other program writes, and the journal knows that line before the lock
//! exists, so that the next start can identify it. The replacement for the locked file is written beside it, under a
//! unique name.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use tool_boundary::Failure;
use tool_repository::changes::{crash_point, has_crashed, rename_new};

/// A folder that was opened without following links.
pub(super) struct OpenedFolder(pub(super) OwnedFd);

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Limit for a file that is read whole, in bytes: a lock of ours, or a branch.
const LINE_BYTES_MAX: u64 = 4096;

impl OpenedFolder {
    pub(super) fn open_path(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, DIRECTORY, Mode::empty())?))
    }

    /// Opens a subfolder, and creates it if it does not exist.
    pub(super) fn enter(&self, name: &str) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.find(name)
    }

    /// Opens an existing subfolder.
    pub(super) fn find(&self, name: &str) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(&self.0, name, DIRECTORY, Mode::empty())?))
    }

    /// Opens the parent folder of a path, creating folders, and returns it with the last name.
    pub(super) fn enter_for(self, path: &str) -> io::Result<(Self, &str)> {
        self.go_for(path, Self::enter)
    }

    /// Opens the existing parent folder of a path, and returns it with the last name.
    pub(super) fn find_for(self, path: &str) -> io::Result<(Self, &str)> {
        self.go_for(path, Self::find)
    }

    fn go_for(self, path: &str, step: fn(&Self, &str) -> io::Result<Self>) -> io::Result<(Self, &str)> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut here = self;
        for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
            here = step(&here, folder)?;
        }
        Ok((here, name))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    pub(super) fn make(&self, name: &str, mode: rustix::fs::RawMode) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, mode)?))
    }

    pub(super) fn append(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, mode)?))
    }

    /// Reads a short file as text; `None` if it is not.
    pub(super) fn line(&self, name: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty()).ok()?);
        let mut text = String::new();
        let is_file = file.metadata().ok()?.is_file();
        (is_file && file.take(LINE_BYTES_MAX).read_to_string(&mut text).is_ok()).then_some(text)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    pub(super) fn remove(&self, name: &str) -> bool {
        rustix::fs::unlinkat(&self.0, name, AtFlags::empty()).is_ok()
    }

    /// Syncs the folder, so that its names survive a power failure. Where this is not possible, the system syncs it
    /// soon.
    pub(super) fn keep(&self) {
        let _ = rustix::fs::fsync(self.0.as_fd());
    }
}

/// Names of the files beside a locked file, and the line in the lock. git takes no file that ends in `.lock` for a
/// branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LockNames {
    /// Name of the lock file before it is renamed.
    pub(super) early: String,
    /// Name of the replacement for the locked file.
    pub(super) new: String,
    /// The line that identifies the lock.
    pub(super) mark: String,
}

pub(super) fn lock_of(name: &str) -> String {
    format!("{name}.lock")
}

/// A held lock. Drop releases it.
pub(super) struct HeldLock {
    folder: OpenedFolder,
    name: String,
    names: LockNames,
}

impl HeldLock {
    /// Locks the file `name` of a folder. `shown` is the path for messages.
    pub(super) fn take(folder: OpenedFolder, name: &str, names: LockNames, shown: &Path) -> Result<Self, Failure> {
        let make = || -> io::Result<()> {
            let mut file = folder.make(&names.early, 0o666)?;
            crash_point();
            file.write_all(names.mark.as_bytes())?;
            crash_point();
            Ok(rename_new(&folder.0, &names.early, &lock_of(name))?)
        };
        let made = make();
        crash_point();
        match made {
            Ok(()) => Ok(Self {
                folder,
                name: name.to_owned(),
                names,
            }),
            Err(error) => {
                folder.remove(&names.early);
                Err(match error.kind() {
                    io::ErrorKind::AlreadyExists => locked_failure(shown),
                    _ => Failure::failed(format!("git's `{name}` cannot be locked: {error}.")),
                })
            }
        }
    }

    /// Writes the replacement for the locked file.
    pub(super) fn lay_out(&mut self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let mut file = self.folder.make(&self.names.new, 0o666)?;
        crash_point();
        write(&mut file)?;
        file.sync_all()?;
        self.folder.keep();
        crash_point();
        Ok(())
    }

    /// Moves the replacement into place.
    pub(super) fn place(&mut self) -> io::Result<()> {
        self.folder.rename(&self.names.new, &self.name)?;
        self.folder.keep();
        crash_point();
        Ok(())
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if !has_crashed() {
            self.folder.remove(&self.names.new);
            // The next start identifies a lock that could not be removed by its line.
            self.folder.remove(&lock_of(&self.name));
        }
    }
}

/// The failure for a file that another program has locked.
pub(in crate::imports) fn locked_failure(shown: &Path) -> Failure {
    Failure::failed("Another git process holds the repository's lock.")
        .with_hint(format!("try again; if no git runs, remove `{}.lock`", shown.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_not_used_is_taken_away_and_one_that_is_there_is_respected() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let here = || OpenedFolder::open_path(folder.path()).expect("it is there");
        let names = |id: &str| LockNames {
            early: format!("{id}.lock"),
            new: format!("{id}.new.lock"),
            mark: format!("{id}\n"),
        };
        let shown = Path::new("here/index");
        let lock = HeldLock::take(here(), "index", names("a"), shown).expect("nobody has it");
        let failure = HeldLock::take(here(), "index", names("b"), shown)
            .err()
            .expect("somebody has it");
        assert_eq!(
            failure.hint.as_deref(),
            Some("try again; if no git runs, remove `here/index.lock`")
        );
        assert_eq!(failure.message, "Another git process holds the repository's lock.");
        assert_eq!(here().line("index.lock").as_deref(), Some("a\n"));
        drop(lock);
        let mut lock = HeldLock::take(here(), "index", names("c"), shown).expect("nobody has it");
        lock.lay_out(|file| file.write_all(b"new")).expect("it is a file");
        lock.place().expect("it can be renamed");
        drop(lock);
        let names = std::fs::read_dir(folder.path()).expect("it is there").flatten();
        assert_eq!(names.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["index"]);
        assert_eq!(here().line("index").as_deref(), Some("new"));
    }
}
