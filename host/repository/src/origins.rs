//! Decides whose text a file is, the user's own or that of others, by its name, its repository, and what git tracks.
//!
//! [`foreign`] decides by names. The rest is decided here. A file below another `.git` than the root's, or in a gitlink
//! of the index, belongs to another repository. In a repository with commits, a file that git does not track may come
//! from anywhere, and so may any file if the index cannot be parsed. Outside of git, only names decide.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::tracked::{GitLayout, TrackedPaths};
use crate::{Repository, foreign, path};

/// Whose text a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOrigin {
    /// The user's own, as far as names and git say.
    Own,
    /// Belongs to this place of others: a directory with its `/`, or the whole path.
    Foreign(String),
    /// Not tracked by git. The place is the outermost directory without a tracked file, or the whole path.
    Untracked(String),
}

/// Judges the files of one repository by what git tracks at one moment.
#[derive(Debug)]
pub struct FileOrigins {
    repository: Arc<Repository>,
    tracked: Option<Arc<TrackedPaths>>,
    /// True if there is an index that cannot be parsed.
    is_unknown: bool,
    /// The directories that were judged.
    directories: Mutex<HashMap<String, DirectoryOrigin>>,
}

#[derive(Debug, Clone, Default)]
struct DirectoryOrigin {
    /// The place of others that contains the directory.
    place: Option<Arc<str>>,
    /// The outermost directory without a tracked file: this one or one above it.
    untracked: Option<Arc<str>>,
    /// True if it is in a linked work tree of the same repository, which has an index of its own.
    is_linked: bool,
}

impl FileOrigins {
    /// Reads what git tracks at present.
    pub fn read_tracked(repository: &Arc<Repository>) -> Self {
        let tracked = repository.tracked();
        Self {
            is_unknown: tracked.is_none() && repository.tracks_unknown(),
            tracked,
            repository: Arc::clone(repository),
            directories: Mutex::default(),
        }
    }

    /// Whose text the file at `path` is, or would be.
    pub fn of_file(&self, path: &str) -> FileOrigin {
        let (directory, _) = path::split_path(path);
        let around = self.directory(directory);
        if let Some(place) = &around.place {
            return FileOrigin::Foreign(place.as_ref().to_owned());
        }
        if foreign::find_place(path).is_some() {
            return FileOrigin::Foreign(path.to_owned());
        }
        match (&self.tracked, &around.untracked) {
            _ if around.is_linked => FileOrigin::Own,
            (None, _) if self.is_unknown => FileOrigin::Untracked(path.to_owned()),
            (None, _) => FileOrigin::Own,
            (Some(_), Some(directory)) => FileOrigin::Untracked(directory.as_ref().to_owned()),
            (Some(tracked), None) if tracked.holds(path) => FileOrigin::Own,
            (Some(_), None) => FileOrigin::Untracked(path.to_owned()),
        }
    }

    /// Whose text the names in `directory` are.
    pub fn of_directory(&self, directory: &str) -> FileOrigin {
        match self.directory(directory) {
            DirectoryOrigin { place: Some(place), .. } => FileOrigin::Foreign(place.as_ref().to_owned()),
            DirectoryOrigin {
                untracked: Some(place),
                is_linked: false,
                ..
            } => FileOrigin::Untracked(place.as_ref().to_owned()),
            _ => FileOrigin::Own,
        }
    }

    fn directory(&self, directory: &str) -> DirectoryOrigin {
        let mut known = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let mut origin = DirectoryOrigin::default();
        for end in directory_ends(directory) {
            let directory = &directory[..end];
            if let Some(found) = known.get(directory) {
                origin = found.clone();
                continue;
            }
            if origin.place.is_none() {
                self.enter(directory, &mut origin);
            }
            known.insert(directory.to_owned(), origin.clone());
        }
        origin
    }

    /// Updates the origin of a directory to that of `directory`, which is in it.
    fn enter(&self, directory: &str, origin: &mut DirectoryOrigin) {
        let place = format!("{directory}/");
        let is_gitlink = || {
            self.tracked
                .as_ref()
                .is_some_and(|tracked| tracked.is_gitlink(directory))
        };
        if foreign::find_directory(&place).is_some() || is_gitlink() {
            origin.place = Some(place.into());
        } else if self.repository.is_there(&path::join_path(directory, ".git")) {
            origin.is_linked = self.is_linked(directory);
            origin.place = (!origin.is_linked).then(|| place.into());
        } else if let Some(tracked) = &self.tracked
            && origin.untracked.is_none()
            && !tracked.holds_below(&place)
        {
            origin.untracked = Some(place.into());
        }
    }

    fn is_linked(&self, directory: &str) -> bool {
        let root: &Path = self.repository.root();
        GitLayout::find(root).is_some_and(|layout| layout.has_linked(&root.join(directory)))
    }
}

/// Ends of a directory's path and of those above it, from the outermost on.
fn directory_ends(directory: &str) -> impl Iterator<Item = usize> {
    let inner = directory.match_indices('/').map(|(end, _)| end);
    inner.chain((!directory.is_empty()).then_some(directory.len()))
}
