//! `/stage` of one call: a private directory with quotas, made when the guest first writes.
//!
//! A guest can make regular files and directories there and nothing else, so no path leads out. The quotas count what
//! was ever written in the call, not what is left: a file that is deleted while it is open still takes space. `stage`
//! checks and commits the result.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::OpenFlags;

use crate::Limits;
use crate::budget::{GuestStop, format_bytes};
use crate::files::{HandlePermit, read_at};
use tool_core::api::ErrorKind;
use tool_core::disk;
use tool_repository::path::split_path;
use tool_sandbox::scratch::{self, ScratchFolder};

/// Flags of every open in a stage.
const COMMON: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// Reason why a write failed.
pub(crate) enum StageError {
    /// An error that the guest gets.
    Io(std::io::Error),
    /// An error that ends the guest.
    Stop(wasmtime::Error),
}

impl From<Errno> for StageError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl From<GuestStop> for StageError {
    fn from(stop: GuestStop) -> Self {
        Self::Stop(stop.into())
    }
}

/// The stage of one call.
#[derive(Default)]
pub(crate) struct CallStage {
    /// The program's own directory, if known.
    home: Option<PathBuf>,
    root: Option<StageRoot>,
    bytes: u64,
    entries: u64,
    is_full: bool,
}

struct StageRoot {
    directory: ScratchFolder,
    handle: OwnedFd,
}

/// An open file of the stage. Clones share the handle.
#[derive(Clone)]
pub(crate) struct StageFile {
    open: Arc<OpenStageFile>,
}

struct OpenStageFile {
    handle: OwnedFd,
    _slot: HandlePermit,
}

impl StageFile {
    pub(crate) fn read_at(&self, bytes: usize, offset: u64) -> std::io::Result<Vec<u8>> {
        read_at(&self.open.handle, bytes, offset, self.size()?)
    }

    pub(crate) fn stat(&self) -> Result<Stat, StageError> {
        Ok(rustix::fs::fstat(&self.open.handle)?)
    }

    fn size(&self) -> Result<u64, Errno> {
        let stat = rustix::fs::fstat(&self.open.handle)?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }
}

impl CallStage {
    /// A stage that is made below the program's own directory, if that is known.
    pub(crate) fn below_home(home: Option<&Path>) -> Self {
        Self {
            home: home.map(Path::to_owned),
            ..Self::default()
        }
    }

    /// True once its disk was full. The guest only gets an error number for that.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    fn noted<T>(&mut self, result: Result<T, StageError>) -> Result<T, StageError> {
        self.is_full |= matches!(&result, Err(StageError::Io(error)) if disk::is_full(error));
        result
    }

    /// Takes the directory out, so that it outlives the store.
    pub(crate) fn take(&mut self) -> Option<ScratchFolder> {
        self.root.take().map(|root| root.directory)
    }

    fn root(&mut self) -> Result<&StageRoot, StageError> {
        if self.root.is_none() {
            let directory = scratch::create_folder(self.home.as_deref(), "tool-stage-").map_err(StageError::Io)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | COMMON;
            let handle = rustix::fs::openat(CWD, directory.path(), flags, Mode::empty())?;
            self.root = Some(StageRoot { directory, handle });
        }
        self.root.as_ref().ok_or(StageError::Io(Errno::NOENT.into()))
    }

    fn existing(&self) -> Result<&StageRoot, StageError> {
        self.root.as_ref().ok_or(StageError::Io(Errno::NOENT.into()))
    }

    /// Writes all of `contents`, within the quota.
    pub(crate) fn write(
        &mut self,
        file: &StageFile,
        contents: &[u8],
        offset: u64,
        limits: &Limits,
    ) -> Result<(), StageError> {
        let written = self.write_all(file, contents, offset, limits);
        self.noted(written)
    }

    fn write_all(&mut self, file: &StageFile, contents: &[u8], offset: u64, limits: &Limits) -> Result<(), StageError> {
        let end = offset.saturating_add(contents.len() as u64);
        self.grow(end.saturating_sub(file.size()?), limits)?;
        let mut written = 0;
        // `pwrite` may write less than it was given, for example on a nearly full disk, and a signal may interrupt it.
        while written < contents.len() {
            let at = offset + written as u64;
            match rustix::io::pwrite(&file.open.handle, &contents[written..], at) {
                // Without this arm a disk that takes no bytes and reports no error would keep the loop running.
                Ok(0) => return Err(Errno::NOSPC.into()),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Writes at the end of the file.
    pub(crate) fn append(&mut self, file: &StageFile, contents: &[u8], limits: &Limits) -> Result<(), StageError> {
        let end = file.size()?;
        self.write(file, contents, end, limits)
    }

    pub(crate) fn set_size(&mut self, file: &StageFile, size: u64, limits: &Limits) -> Result<(), StageError> {
        self.grow(size.saturating_sub(file.size()?), limits)?;
        Ok(rustix::fs::ftruncate(&file.open.handle, size)?)
    }

    fn grow(&mut self, bytes: u64, limits: &Limits) -> Result<(), StageError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > limits.staged_bytes {
            let limit = format!("{} of proposed files", format_bytes(limits.staged_bytes));
            return Err(GuestStop::limit(limit, ErrorKind::StageLimit).into());
        }
        Ok(())
    }

    fn count_entry(&mut self, limits: &Limits) -> Result<(), StageError> {
        self.entries += 1;
        if self.entries > limits.staged_entries {
            let limit = format!("{} proposed files and directories", limits.staged_entries);
            return Err(GuestStop::limit(limit, ErrorKind::StageLimit).into());
        }
        Ok(())
    }

    /// Opens a file; `path` is normal and not the root.
    pub(crate) fn open(
        &mut self,
        path: &str,
        open_flags: OpenFlags,
        writes: bool,
        slot: HandlePermit,
        limits: &Limits,
    ) -> Result<StageFile, StageError> {
        let opened = self.open_file(path, open_flags, writes, slot, limits);
        self.noted(opened)
    }

    fn open_file(
        &mut self,
        path: &str,
        open_flags: OpenFlags,
        writes: bool,
        slot: HandlePermit,
        limits: &Limits,
    ) -> Result<StageFile, StageError> {
        if path.is_empty() {
            return Err(Errno::ISDIR.into());
        }
        if open_flags.contains(OpenFlags::CREATE) {
            self.root()?;
        }
        let (parent, name) = self.existing()?.parent(path)?;
        let mut flags = COMMON | if writes { OFlags::RDWR } else { OFlags::RDONLY };
        flags.set(OFlags::TRUNC, open_flags.contains(OpenFlags::TRUNCATE));
        // An exclusive open goes straight to the creation below, which fails if the file exists.
        let existing = if open_flags.contains(OpenFlags::EXCLUSIVE) {
            Err(Errno::NOENT)
        } else {
            rustix::fs::openat(&parent, name, flags, Mode::empty())
        };
        let handle = match existing {
            Err(Errno::NOENT) if open_flags.contains(OpenFlags::CREATE) => {
                self.count_entry(limits)?;
                // `EXCL` also refuses to follow a link, should one exist.
                let flags = flags | OFlags::CREATE | OFlags::EXCL;
                rustix::fs::openat(&parent, name, flags, Mode::RUSR | Mode::WUSR)?
            }
            existing => existing?,
        };
        let open = Arc::new(OpenStageFile { handle, _slot: slot });
        Ok(StageFile { open })
    }

    pub(crate) fn create_directory(&mut self, path: &str, limits: &Limits) -> Result<(), StageError> {
        if path.is_empty() {
            return Err(Errno::EXIST.into());
        }
        let made = self.make_directory(path);
        self.noted(made)?;
        self.count_entry(limits)
    }

    fn make_directory(&mut self, path: &str) -> Result<(), StageError> {
        self.root()?;
        let (parent, name) = self.existing()?.parent(path)?;
        Ok(rustix::fs::mkdirat(&parent, name, Mode::RWXU)?)
    }

    pub(crate) fn is_directory(&mut self, path: &str) -> bool {
        self.stat(path)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    pub(crate) fn check_directory(&mut self, path: &str) -> Result<(), StageError> {
        let stat = self.stat(path)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Ok(()),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    pub(crate) fn stat(&mut self, path: &str) -> Result<Stat, StageError> {
        if path.is_empty() {
            return Ok(rustix::fs::fstat(&self.root()?.handle)?);
        }
        let (parent, name) = self.existing()?.parent(path)?;
        Ok(rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub(crate) fn entries(&mut self, path: &str) -> Result<rustix::fs::Dir, StageError> {
        let directory = self.root()?.directory(path)?;
        Ok(rustix::fs::Dir::new(directory)?)
    }

    pub(crate) fn remove(&self, path: &str, flags: AtFlags) -> Result<(), StageError> {
        let (parent, name) = self.existing()?.parent(path)?;
        Ok(rustix::fs::unlinkat(&parent, name, flags)?)
    }

    pub(crate) fn rename(&self, old: &str, new: &str) -> Result<(), StageError> {
        let root = self.existing()?;
        let ((from, old), (to, new)) = (root.parent(old)?, root.parent(new)?);
        Ok(rustix::fs::renameat(&from, old, &to, new)?)
    }
}

impl StageRoot {
    /// Opens the directory above a path, and returns it with the last name.
    fn parent<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), Errno> {
        let (parent, name) = split_path(path);
        if name.is_empty() {
            return Err(Errno::INVAL);
        }
        Ok((self.directory(parent)?, name))
    }

    /// Opens a directory, one name after the other. `NOFOLLOW` only covers the last name of an open, so each is opened
    /// separately.
    fn directory(&self, path: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | COMMON;
        let mut handle = rustix::fs::openat(&self.handle, ".", flags, Mode::empty())?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            handle = rustix::fs::openat(handle.as_fd(), name, flags, Mode::empty())?;
        }
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_noted() {
        let mut stage = CallStage::default();
        assert!(stage.noted::<()>(Err(Errno::NOENT.into())).is_err() && !stage.is_full());
        assert!(stage.noted::<()>(Err(Errno::NOSPC.into())).is_err() && stage.is_full());
    }
}
