//! Reads files of a git directory, which a repository may have prepared to mislead a reader.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file without following a link or waiting for a FIFO.
pub fn open_file(path: &Path) -> Option<(File, Metadata)> {
    // Without `NONBLOCK`, opening a FIFO waits for a writer. A regular file ignores the flag.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .ok()?;
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    Some((file, metadata))
}

/// Reads a whole file; `None` if it has more than `bytes_max` bytes.
pub(crate) fn read_bounded(file: File, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than the limit tells a larger file from one of exactly this size.
    file.take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= bytes_max).then_some(bytes)
}
