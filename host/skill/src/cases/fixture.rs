//! A fixture's copy for one case.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{CasesError, fixture_in};
use tool_sandbox::scratch::{self, ScratchFolder};

/// Files, folders and links that are copied for each case: a small repository, not a whole one.
pub(crate) const CASE_FIXTURE_ENTRIES_MAX: usize = 10_000;

/// Bytes that are copied for each case.
pub(crate) const CASE_FIXTURE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A temporary copy; dropping it removes the folder.
pub(super) struct FixtureCopy {
    root: PathBuf,
    _folder: ScratchFolder,
}

impl FixtureCopy {
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

/// Limits for entries and bytes of a copy.
struct FixtureBudget<'a> {
    source: &'a Path,
    entries: usize,
    bytes: u64,
}

/// Copies the fixture of a folder; without one, the copy is empty.
pub(super) fn copy_fixture(of: &Path) -> Result<FixtureCopy, CasesError> {
    let fixture = fixture_in(of)?;
    let made = |source_of| CasesError::Io {
        path: fixture.clone().unwrap_or_else(|| of.to_owned()),
        action: "copied",
        source: source_of,
    };
    let folder = scratch::create_folder(None, "tool-case-").map_err(made)?;
    // The system's temporary folder itself is not a place for a project, so use a folder in it.
    let root = folder.path().canonicalize().map_err(made)?.join("repository");
    fs::create_dir(&root).map_err(made)?;
    let copy = FixtureCopy { root, _folder: folder };
    if let Some(source) = &fixture {
        let mut room = FixtureBudget {
            source,
            entries: CASE_FIXTURE_ENTRIES_MAX,
            bytes: CASE_FIXTURE_BYTES_MAX,
        };
        room.copy(source, &copy.root)?;
    }
    Ok(copy)
}

impl FixtureBudget<'_> {
    fn copy(&mut self, from: &Path, to: &Path) -> Result<(), CasesError> {
        let failed = |path: &Path, source| CasesError::Io {
            path: path.to_owned(),
            action: "copied",
            source,
        };
        for entry in fs::read_dir(from).map_err(|error| failed(from, error))? {
            let entry = entry.map_err(|error| failed(from, error))?;
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            let metadata = entry.metadata().map_err(|error| failed(&path, error))?;
            self.take(&metadata)?;
            let done = match metadata.file_type() {
                kind if kind.is_dir() => match fs::create_dir(&target) {
                    Ok(()) => {
                        self.copy(&path, &target)?;
                        Ok(())
                    }
                    failed => failed,
                },
                kind if kind.is_symlink() => {
                    fs::read_link(&path).and_then(|link| std::os::unix::fs::symlink(link, &target))
                }
                kind if kind.is_file() => fs::copy(&path, &target).map(|_| ()),
                _ => Err(io::Error::other("it is neither a file nor a folder nor a link")),
            };
            done.map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }

    fn take(&mut self, metadata: &fs::Metadata) -> Result<(), CasesError> {
        let too_large = |max: String| CasesError::TooLarge {
            path: self.source.to_owned(),
            max,
        };
        let entries = self.entries.checked_sub(1);
        let bytes = if metadata.is_file() {
            self.bytes.checked_sub(metadata.len())
        } else {
            Some(self.bytes)
        };
        let (max_entries, max_bytes) = (CASE_FIXTURE_ENTRIES_MAX, CASE_FIXTURE_BYTES_MAX);
        self.entries = entries.ok_or_else(|| too_large(format!("{max_entries} files and folders")))?;
        self.bytes = bytes.ok_or_else(|| too_large(format!("{} MiB", max_bytes >> 20)))?;
        Ok(())
    }
}
