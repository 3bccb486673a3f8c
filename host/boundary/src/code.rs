//! Compiled code in a file without a name, which each engine maps.
//!
//! Copies of a component share the pages of such a file, and a page that no call has used takes no memory. If each copy
//! had memory of its own, it would hold all of its code.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use tool_repository::FileIdentity;

/// Compiled code in a sealed file: no process can change it any more.
#[derive(Debug)]
pub(crate) struct CodeFile {
    path: PathBuf,
    /// Keeps the path valid.
    _file: File,
}

impl CodeFile {
    /// Puts code into such a file; `None` if the system has none, or if the path of its handle leads elsewhere.
    pub(crate) fn new(code: &[u8]) -> Option<Self> {
        let file = seal_code(code)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // Code is opened through this path, and `/proc` may not be the kernel's own.
        let opened = rustix::fs::stat(&path).ok()?;
        let own = rustix::fs::fstat(&file).ok()?;
        let is_own = FileIdentity::from_stat(&opened) == FileIdentity::from_stat(&own);
        is_own.then_some(Self { path, _file: file })
    }

    /// The path by which this process can open the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
fn seal_code(code: &[u8]) -> Option<File> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use std::io::Write;

    let handle = memfd_create("tool-code", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()?;
    let mut file = File::from(handle);
    file.write_all(code).ok()?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals).ok()?;
    Some(file)
}

#[cfg(not(target_os = "linux"))]
fn sealed(_code: &[u8]) -> Option<File> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn code_is_read_by_its_path_and_changed_by_nobody() {
        let code = CodeFile::new(b"native").expect("the system has such files");
        assert_eq!(std::fs::read(code.path()).expect("it can be read"), b"native");
        let mut opened = OpenOptions::new()
            .write(true)
            .open(code.path())
            .expect("the seal stops the writing");
        assert!(opened.write_all(b"N").is_err(), "its bytes can be changed");
        assert!(
            opened.set_len(0).is_err() && opened.set_len(9).is_err(),
            "its size can be changed"
        );
    }
}
