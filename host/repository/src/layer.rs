//! A private layer over a repository: the files that a preview proposes, while the real tree stays as it is.
//!
//! The contents lie in a folder of their own, each under a number. Their paths, and the paths that are removed, are in
//! memory: the session's journal is the truth, and a layer is made anew from it. Everything that opens, lists or
//! changes a file through a [`Repository`](crate::Repository) sees the layer before the tree; `view` has these parts.
//!
//! Ignore rules are those of the real tree: an ignore file that the layer changes counts once it is applied.

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

/// Name of the folder that stands for a directory that only the layer has.
const EMPTY: &str = "empty";

/// See the module.
#[derive(Debug)]
pub struct Layer {
    folder: PathBuf,
    handle: OwnedFd,
    contents: RwLock<LayerContents>,
}

#[derive(Debug, Default)]
struct LayerContents {
    /// Number of the content by path; absent for a path that is removed.
    files: BTreeMap<String, Option<u64>>,
    /// Numbers that were used.
    used: u64,
    /// Changes so far.
    version: u64,
}

/// State of a path in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerEntry {
    /// A file with the content of this number.
    File(u64),
    /// A directory with files of the layer in it.
    Directory,
    /// Nothing: the file of the tree is removed.
    Removed,
}

/// One path that a layer changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayeredPath {
    /// Relative to the root.
    pub path: String,
    /// File with the content, which has the mode of the path; absent for a path that is removed.
    pub content: Option<PathBuf>,
}

impl Layer {
    /// Makes an empty layer in `folder`. What a daemon that died has left there is removed first.
    pub fn create(folder: &Path) -> io::Result<Arc<Self>> {
        remove(folder)?;
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

    /// The changed paths, in order.
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
    pub fn put(&self, files: &[FileChange]) -> Result<(), Obstacle> {
        let states = files.iter().map(|file| (file.path.as_str(), file.after.as_ref()));
        self.set(states)
    }

    /// Takes a change back that was put there.
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
        // The owner is this process, which must be able to read it.
        file.set_permissions(PermissionsExt::from_mode(state.mode & 0o777 | 0o400))
    }

    /// Removes a content that no path has any more. One that stays goes with the folder.
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

    /// True where a directory above this path is a file of the tree that the layer removes.
    fn is_beneath_removed(&self, path: &str) -> bool {
        let contents = self.contents();
        path::ancestors(path).any(|above| contents.files.get(above) == Some(&None))
    }

    fn open(&self, number: u64) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.handle, number.to_string(), flags, Mode::empty())
    }

    /// A handle for a directory that the tree does not have. It lists nothing: the names come from the layer.
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
            mode: open::mode(&stat),
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
        // One that stays is removed with its session, or by the next layer of the session.
        let _ = remove(&self.folder);
    }
}

/// Removes the folder of a layer, where it is there.
pub fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests;
