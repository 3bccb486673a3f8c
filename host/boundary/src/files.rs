//! Open files of the repository that a guest reads, and the permits that bound how many a call holds open.
//!
//! A guest sees placeholders in place of keys, so that it cannot find out a key by searching or comparing. Of a file of
//! at most `COPY_BYTES_MAX` bytes it reads a copy with placeholders. In a larger file, keys are replaced by text of the
//! same length, so that no offset changes.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::budget::{CallBudget, GuestStop};
use tool_core::api::ErrorKind;
use tool_core::redaction::Redactor;

/// Largest file of which a guest sees a copy with placeholders: the largest file that the skills search and change.
const COPY_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Bytes of a larger file in which keys are covered in one step.
const BLOCK_BYTES: usize = 1024 * 1024;

/// Bytes before and after a block in which a key, or the text that identifies it, may begin or end.
const MARGIN_BYTES: usize = 16 * 1024;

/// An open file of the repository. Clones share the handle.
#[derive(Clone)]
pub(crate) struct RepositoryFile {
    open: Arc<OpenFile>,
}

struct OpenFile {
    handle: OwnedFd,
    size: u64,
    shown: ShownContent,
    _slot: HandlePermit,
}

/// Content of a file as the guest sees it.
enum ShownContent {
    AsItIs,
    /// With placeholders.
    Copy(Vec<u8>),
    /// With keys covered: the block that was read last, with its offset in the file.
    Covered(Arc<Redactor>, Mutex<(u64, Vec<u8>)>),
}

impl RepositoryFile {
    /// Wraps an open handle. `size` is what the file had when it was opened. A file up to `COPY_BYTES_MAX` is read at
    /// once.
    pub(crate) fn new(
        handle: OwnedFd,
        (path, size): (&str, u64),
        redactor: &Arc<Redactor>,
        permit: HandlePermit,
    ) -> std::io::Result<Self> {
        let call = &permit.0;
        let shown = if size > COPY_BYTES_MAX {
            ShownContent::Covered(Arc::clone(redactor), Mutex::default())
        } else {
            let content = read_whole(&handle, size)?;
            match redactor.searchable(&content, call.may_write()) {
                None => ShownContent::AsItIs,
                Some(copy) if call.keep_copy(path, &content, &copy) => ShownContent::Copy(copy),
                Some(_) => ShownContent::Covered(Arc::clone(redactor), Mutex::default()),
            }
        };
        let open = Arc::new(OpenFile {
            handle,
            size,
            shown,
            _slot: permit,
        });
        Ok(Self { open })
    }

    /// Metadata, with the size that the guest sees.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        let mut stat = rustix::fs::fstat(&self.open.handle)?;
        if let ShownContent::Copy(copy) = &self.open.shown {
            stat.st_size = i64::try_from(copy.len()).unwrap_or(i64::MAX);
        }
        Ok(stat)
    }

    /// Reads at most `bytes` once; empty at the end of the file.
    pub(crate) fn read_at(&self, bytes: usize, offset: u64) -> std::io::Result<Vec<u8>> {
        let OpenFile {
            handle, size, shown, ..
        } = &*self.open;
        match shown {
            ShownContent::AsItIs => read_at(handle, bytes, offset, *size),
            ShownContent::Copy(copy) => Ok(cut_part(copy, bytes, offset)),
            ShownContent::Covered(redactor, block) => {
                let mut block = block.lock().unwrap_or_else(PoisonError::into_inner);
                let start = offset - offset % BLOCK_BYTES as u64;
                // A log may have grown since the block was read.
                if block.0 != start || cut_part(&block.1, 1, offset - start).is_empty() {
                    *block = (start, covered_block(handle, start, redactor)?);
                }
                Ok(cut_part(&block.1, bytes, offset - start))
            }
        }
    }
}

/// The block of a file that begins at `start`, with keys covered.
fn covered_block(handle: &OwnedFd, start: u64, redactor: &Redactor) -> std::io::Result<Vec<u8>> {
    let from = start.saturating_sub(MARGIN_BYTES as u64);
    let before = (start - from) as usize;
    let mut content = vec![0; before + BLOCK_BYTES + MARGIN_BYTES];
    let mut length = 0;
    // One `pread` may return less than asked, and a key that is cut off there would not be recognised.
    while length < content.len() {
        match rustix::io::pread(handle, &mut content[length..], from + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    content.truncate(length);
    redactor.cover(&mut content);
    content.truncate(before + BLOCK_BYTES);
    Ok(content.split_off(before.min(length)))
}

fn read_whole(handle: &OwnedFd, size: u64) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    while content.len() as u64 <= COPY_BYTES_MAX {
        let read = read_at(handle, COPY_BYTES_MAX as usize, content.len() as u64, size)?;
        if read.is_empty() {
            break;
        }
        content.extend(read);
    }
    Ok(content)
}

fn cut_part(content: &[u8], bytes: usize, offset: u64) -> Vec<u8> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
    content[start..content.len().min(start.saturating_add(bytes))].to_vec()
}

/// Reads once with `pread`. `size` is what the file had when it was opened. It only avoids a large buffer for a small
/// file: the file may have grown.
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

/// Smallest buffer of a read for which the guest asked for more.
const READ_BYTES_MIN: usize = 4096;

/// Holds one of the open files and directories that a call may have.
pub(crate) struct HandlePermit(Arc<CallBudget>);

impl HandlePermit {
    pub(crate) fn take(call: &Arc<CallBudget>) -> Result<Self, GuestStop> {
        // Made before the count is compared, so that `drop` also takes a refused one back.
        let slot = Self(Arc::clone(call));
        let max = call.limits.files_open;
        if call.files_open.fetch_add(1, Ordering::Relaxed) < max {
            Ok(slot)
        } else {
            Err(GuestStop::limit(format!("{max} open files"), ErrorKind::HandlesLimit))
        }
    }
}

impl Drop for HandlePermit {
    fn drop(&mut self) {
        self.0.files_open.fetch_sub(1, Ordering::Relaxed);
    }
}
