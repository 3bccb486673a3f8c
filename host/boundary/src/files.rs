//! Open files of the repository that a guest reads, and the permits that bound how many a call holds open.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::budget::{CallBudget, Stop};
use tool_core::api::ErrorKind;

/// An open file of the repository. Clones share the handle.
#[derive(Clone)]
pub(crate) struct RepositoryFile {
    open: Arc<OpenFile>,
}

struct OpenFile {
    handle: OwnedFd,
    size: u64,
    _slot: HandlePermit,
}

impl RepositoryFile {
    /// An open handle with the size that the file had when it was opened.
    pub(crate) fn new(handle: OwnedFd, size: u64, permit: HandlePermit) -> Self {
        let open = Arc::new(OpenFile {
            handle,
            size,
            _slot: permit,
        });
        Self { open }
    }

    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::fstat(&self.open.handle)
    }

    /// Reads once, at most `bytes`; nothing at the end of the file.
    pub(crate) fn read_at(&self, bytes: usize, offset: u64) -> std::io::Result<Vec<u8>> {
        read_at(&self.open.handle, bytes, offset, self.open.size)
    }
}

/// One `pread`. `size` is what the file was when it was opened: a hint that saves a large buffer for a small file, and
/// no more, because a file may grow.
pub(crate) fn read_at(handle: &OwnedFd, bytes: usize, offset: u64, size: u64) -> std::io::Result<Vec<u8>> {
    let expected = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut data = Vec::with_capacity(bytes.min(expected.max(READ_BYTES_MIN)));
    loop {
        match rustix::io::pread(handle, rustix::buffer::spare_capacity(&mut data), offset) {
            Ok(_) => return Ok(data),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Smallest buffer of a read where the guest asked for more.
const READ_BYTES_MIN: usize = 4096;

/// One of a call's open files and directories.
pub(crate) struct HandlePermit(Arc<CallBudget>);

impl HandlePermit {
    pub(crate) fn take(call: &Arc<CallBudget>) -> Result<Self, Stop> {
        let slot = Self(Arc::clone(call));
        let max = call.limits.files_open;
        if call.files_open.fetch_add(1, Ordering::Relaxed) < max {
            Ok(slot)
        } else {
            Err(Stop::limit(format!("{max} open files"), ErrorKind::HandlesLimit))
        }
    }
}

impl Drop for HandlePermit {
    fn drop(&mut self) {
        self.0.files_open.fetch_sub(1, Ordering::Relaxed);
    }
}
