//! Free space on a disk.

use std::io;
use std::path::Path;

/// Free space of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that this user may still write.
    pub bytes: u64,
    /// Files that may still be made; absent if the file system does not count them.
    pub files: Option<u64>,
}

/// Returns the free space on the disk of `path`.
///
/// # Errors
///
/// The system's error, for example for a path that does not exist.
pub fn read_free_space(path: &Path) -> io::Result<FreeSpace> {
    let system = rustix::fs::statvfs(path)?;
    Ok(FreeSpace {
        bytes: system.f_bavail.saturating_mul(system.f_frsize),
        files: (system.f_files > 0).then_some(system.f_favail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_where_a_path_lies() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(read_free_space(folder.path()).expect("it is there").bytes > 0);
        assert!(read_free_space(&folder.path().join("missing")).is_err());
    }
}
