//! Room on disks: whether an error means that there is none, what to say of it, and how much is left.
//!
//! Which disk an error is about is known where it happens, and not here. What is said goes to models and to other
//! agents, too: it names no path of the machine.

use std::fmt;
use std::io;
use std::path::Path;

/// True for an error that means that a disk takes no more, or none of this user.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The disks that the product writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// That of the program's own directory.
    Home,
    /// That of the repository.
    Repository,
    /// That of the system's temporary folders.
    Temporary,
}

impl fmt::Display for Disk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Home => "the disk of TOOL_HOME (without it ~/.tool)",
            Self::Repository => "the disk of the repository",
            Self::Temporary => "the disk of temporary folders (TMPDIR, without it /tmp)",
        })
    }
}

impl Disk {
    /// What helps where it takes no more.
    pub fn hint(self) -> String {
        format!("make room on {self} and try again; `tool doctor` says how much is left")
    }

    /// The same where an error on it means that, and nothing for any other.
    pub fn hint_for(self, error: &io::Error) -> Option<String> {
        is_gone(error).then(|| self.hint())
    }
}

/// What a disk still takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that this user may still write.
    pub bytes: u64,
    /// Files that may still be made; absent where the file system does not count them.
    pub files: Option<u64>,
}

/// How much room is left where `path` lies, which has to be there.
pub fn left(path: &Path) -> io::Result<Room> {
    let system = rustix::fs::statvfs(path)?;
    Ok(Room {
        bytes: system.f_bavail.saturating_mul(system.f_frsize),
        files: (system.f_files > 0).then_some(system.f_favail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_what_else_goes_wrong() {
        let full = io::Error::from(rustix::io::Errno::NOSPC);
        assert!(is_gone(&full) && is_gone(&rustix::io::Errno::DQUOT.into()));
        assert_eq!(
            Disk::Repository.hint_for(&full).as_deref(),
            Some("make room on the disk of the repository and try again; `tool doctor` says how much is left")
        );
        assert_eq!(Disk::Home.hint_for(&rustix::io::Errno::ROFS.into()), None);
    }

    #[test]
    fn room_is_counted_where_a_path_lies() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(left(folder.path()).expect("it is there").bytes > 0);
        assert!(left(&folder.path().join("missing")).is_err());
    }
}
