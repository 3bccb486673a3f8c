//! Files of a cache that only this user may have written.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file that only this user can write.
///
/// # Errors
///
/// There is no such file, it is not a regular file, or another user may have written it.
pub fn open_private(path: &Path) -> io::Result<File> {
    // A link could lead to a file of another user, and opening a pipe would block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    check_private(&metadata)?;
    if metadata.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a file"))
    }
}

/// Fails unless this user owns a file or folder and no other user can write it.
///
/// # Errors
///
/// Another user can write it, or it is a link.
pub fn check_private(metadata: &Metadata) -> io::Result<()> {
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if is_ours && metadata.mode() & 0o022 == 0 && !metadata.is_symlink() {
        Ok(())
    } else {
        Err(io::Error::other("others than this user can write it"))
    }
}
