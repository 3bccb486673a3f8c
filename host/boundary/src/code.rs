//! Compiled code in a file without a name, which each engine maps.
//!
//! Copies of a component share the pages of such a file, and a page that no call has used takes no memory of a mapping. In
//! memory of its own, each copy would hold all of its code.

use std::fs::File;
use std::path::PathBuf;

/// See the module. Nobody can change it any more.
#[derive(Debug)]
pub(crate) struct CodeFile(File);

#[cfg(target_os = "linux")]
impl CodeFile {
    /// A file of this code; nothing where the system has no such files, or none that code may be mapped from.
    pub(crate) fn new(code: &[u8]) -> Option<Self> {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        use std::io::Write;

        let handle = memfd_create("tool-code", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()?;
        let mut file = File::from(handle);
        file.write_all(code).ok()?;
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        fcntl_add_seals(&file, seals).ok()?;
        Some(Self(file))
    }

    /// The path by which this process opens it.
    pub(crate) fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd;

        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

#[cfg(not(target_os = "linux"))]
impl CodeFile {
    pub(crate) fn new(_code: &[u8]) -> Option<Self> {
        None
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::new()
    }
}
