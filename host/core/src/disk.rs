//! Full disks: whether an error means that a disk is full, and the advice for it.
//!
//! The caller knows which disk an error is about. The texts go to models and to other agents, so they contain no path
//! of the machine.

use std::fmt;
use std::io;

/// True for an error that means that a disk is full or the user's quota is used up.
pub fn is_full(error: &io::Error) -> bool {
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
    /// Advice for when this disk is full.
    pub fn hint(self) -> String {
        format!("make room on {self} and try again; `tool doctor` says how much is left")
    }

    /// The hint if the error means that this disk is full; `None` for any other error.
    pub fn hint_for(self, error: &io::Error) -> Option<String> {
        is_full(error).then(|| self.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_what_else_goes_wrong() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(is_full(&full) && is_full(&io::ErrorKind::QuotaExceeded.into()));
        assert_eq!(
            Disk::Repository.hint_for(&full).as_deref(),
            Some("make room on the disk of the repository and try again; `tool doctor` says how much is left")
        );
        assert_eq!(Disk::Home.hint_for(&io::ErrorKind::ReadOnlyFilesystem.into()), None);
    }
}
