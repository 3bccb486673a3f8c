//! A private layer over a repository: files that a preview proposes, while the real tree stays as it is.
//!
//! The contents are numbered files in a folder of their own. Their paths, and the paths of removed files, are in
//! memory: the session's journal is the source of truth, from which a layer can be made again. Everything that opens,
//! lists or changes a file through a [`Repository`](crate::Repository) sees the layer before the tree; `view`
//! implements this.
//!
//! Ignore rules are those of the real tree: an ignore file in the layer counts only after the change is applied.

mod view;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::changes::{FileChange, FileState, Obstacle, read_bounded};
use crate::{open, path};
pub(super) use view::LayeredList;

/// Name of the folder that replaces a directory which only the layer has.
const EMPTY: &str = "empty";

/// A private layer over a repository.
#[derive(Debug)]
pub struct Layer {
    folder: PathBuf,
    handle: OwnedFd,
    contents: RwLock<LayerContents>,
}

#[derive(Debug, Default)]
struct LayerContents {
    /// Number of the content, by path; absent for a removed file.
    files: BTreeMap<String, Option<u64>>,
    /// Number of the last content.
    used: u64,
    /// Number of changes so far.
    version: u64,
}

/// State of a path in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerEntry {
    /// A file with the content of this number.
    File(u64),
    /// A directory that has files of the layer.
    Directory,
    /// Nothing, because the layer removes the file of the tree.
    Removed,
}

/// One path that a layer changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayeredPath {
    /// Relative to the root.
    pub path: String,
    /// File with the content and the mode of the path; absent for a removed file.
    pub content: Option<PathBuf>,
}

impl Layer {
    /// Makes an empty layer in `folder`. What a dead daemon has left there is removed first.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn create(folder: &Path) -> io::Result<Arc<Self>> {
        remove_layer(folder)?;
        let private = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path);
        private(folder)?;
        private(&folder.join(EMPTY))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Arc::new(Self {
            folder: folder.to_owned(),
            handle,
            contents: RwLock::default(),
        }))
    }

    /// The changed paths, sorted.
    pub fn paths(&self) -> Vec<LayeredPath> {
        let contents = self.contents();
        let files = contents.files.iter();
        files
            .map(|(path, number)| LayeredPath {
                path: path.clone(),
                content: number.map(|number| self.folder.join(number.to_string())),
            })
            .collect()
    }

    /// Puts a whole change into the layer, or nothing of it.
    ///
    /// # Errors
    ///
    /// A content could not be written.
    pub fn put(&self, files: &[FileChange]) -> Result<(), Obstacle> {
        let states = files.iter().map(|file| (file.path.as_str(), file.after.as_ref()));
        self.set(states)
    }

    /// Takes back a change that is in the layer.
    pub(crate) fn take_back(&self, files: &[FileChange]) -> Result<(), Obstacle> {
        let states = files.iter().map(|file| (file.path.as_str(), file.before.as_ref()));
        self.set(states)
    }

    fn set<'a>(&self, states: impl Iterator<Item = (&'a str, Option<&'a FileState>)>) -> Result<(), Obstacle> {
        let mut contents = self.contents.write().unwrap_or_else(PoisonError::into_inner);
        let mut written: Vec<(&str, Option<u64>)> = Vec::new();
        for (path, state) in states {
            let number = state.map(|_| {
                contents.used += 1;
                contents.used
            });
            written.push((path, number));
            if let (Some(state), Some(number)) = (state, number)
                && let Err(source) = self.write(number, state)
            {
                written.iter().for_each(|(_, number)| self.remove(*number));
                let path = path.to_owned();
                return Err(Obstacle::Io { path, source });
            }
        }
        for (path, number) in written {
            let old = contents.files.insert(path.to_owned(), number);
            self.remove(old.flatten());
        }
        contents.version += 1;
        Ok(())
    }

    fn write(&self, number: u64, state: &FileState) -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let place = self.folder.join(number.to_string());
        let mut file = options.write(true).create_new(true).mode(0o600).open(place)?;
        file.write_all(&state.content)?;
        // This process is the owner and must be able to read the file.
        file.set_permissions(PermissionsExt::from_mode(state.mode & 0o777 | 0o400))
    }

    /// Removes a content that no path uses any more. One that stays is removed with the folder.
    fn remove(&self, number: Option<u64>) {
        if let Some(number) = number {
            let _ = fs::remove_file(self.folder.join(number.to_string()));
        }
    }

    /// The state of a normal path; `None` if the layer does not change it.
    pub(crate) fn find(&self, path: &str) -> Option<LayerEntry> {
        let contents = self.contents();
        let exact = contents.files.get(path).copied();
        match exact {
            Some(Some(number)) => Some(LayerEntry::File(number)),
            _ if contents.has_files_beneath(path) => Some(LayerEntry::Directory),
            Some(None) => Some(LayerEntry::Removed),
            None => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.contents().files.is_empty()
    }

    /// True if a directory above this path is a file of the tree that the layer removes.
    fn is_beneath_removed(&self, path: &str) -> bool {
        let contents = self.contents();
        path::list_ancestors(path).any(|above| contents.files.get(above) == Some(&None))
    }

    fn open(&self, number: u64) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.handle, number.to_string(), flags, Mode::empty())
    }

    /// Opens a directory that the tree does not have. The handle lists nothing, because the names come from the layer.
    fn open_directory(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.handle, EMPTY, flags, Mode::empty())
    }

    fn read(&self, number: u64, path: &str, bytes_max: u64) -> Result<FileState, Obstacle> {
        let failed = |source| Obstacle::Io {
            path: path.to_owned(),
            source,
        };
        let handle = self.open(number).map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&handle).map_err(|errno| failed(errno.into()))?;
        let content = read_bounded(handle, bytes_max).map_err(|error| Obstacle::from_read(path, error))?;
        Ok(FileState {
            content,
            mode: open::permission_bits(&stat),
        })
    }

    fn contents(&self) -> RwLockReadGuard<'_, LayerContents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LayerContents {
    fn has_files_beneath(&self, directory: &str) -> bool {
        self.beneath(directory).any(|(_, number)| number.is_some())
    }

    /// The paths beneath a directory; the empty string is the root.
    fn beneath<'a>(&'a self, directory: &str) -> impl Iterator<Item = (&'a String, Option<u64>)> + use<'a> {
        let prefix = if directory.is_empty() {
            String::new()
        } else {
            format!("{directory}/")
        };
        let from = self.files.range(prefix.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&prefix))
            .map(|(path, number)| (path, *number))
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        // A folder that stays is removed with its session, or by the session's next layer.
        let _ = remove_layer(&self.folder);
    }
}

/// Removes the folder of a layer, if there is one.
///
/// # Errors
///
/// The system's error.
pub fn remove_layer(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests;
