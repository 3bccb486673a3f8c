//! Opens, lists and reads files of a repository through its private layer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::{Layer, LayerEntry};
use crate::changes::{self, FileState, Obstacle};
use crate::walk::{FileEntry, FileList, ListedEntry, file_entry};
use crate::{DirectoryList, EntryKind, OpenError, OpenedEntry, Repository, build_opened, io_error, path};

/// The list of tree and layer, with what it was made from.
#[derive(Debug, Default)]
pub(crate) struct LayeredList(Mutex<Option<MergedList>>);

#[derive(Debug)]
struct MergedList {
    tree: Arc<FileList>,
    version: u64,
    merged: Arc<FileList>,
}

impl Repository {
    /// The private layer over the tree, for a preview.
    pub fn layer(&self) -> Option<&Layer> {
        self.layer.as_deref()
    }

    /// Returns the state of a path that is to be changed; `None` if there is nothing. Hidden files are read too.
    ///
    /// # Errors
    ///
    /// The path is not a regular file, is too large, or cannot be read.
    pub fn current(&self, path: &str, bytes_max: u64) -> Result<Option<FileState>, Obstacle> {
        let Some(layer) = self.layer() else {
            return changes::read_state(&self.root, path, bytes_max);
        };
        match layer.find(path) {
            Some(LayerEntry::File(number)) => layer.read(number, path, bytes_max).map(Some),
            Some(LayerEntry::Directory) => Err(Obstacle::NotRegular { path: path.to_owned() }),
            Some(LayerEntry::Removed) => Ok(None),
            None if layer.is_beneath_removed(path) => Ok(None),
            None => changes::read_state(&self.root, path, bytes_max),
        }
    }

    /// Metadata of an entry that the layer decides about; `None` if the tree decides. Links are not followed.
    pub fn stat_layered(&self, path: &str) -> Option<Result<Stat, Errno>> {
        let layer = self.layer()?;
        let handle = match layer.find(path)? {
            LayerEntry::File(number) => layer.open(number),
            LayerEntry::Directory if self.has_directory(path) => return None,
            LayerEntry::Directory => layer.open_directory(),
            LayerEntry::Removed => Err(Errno::NOENT),
        };
        Some(handle.and_then(|handle| rustix::fs::fstat(&handle)))
    }

    /// Names in a directory that the layer decides about, sorted; without a kind for removed files.
    pub fn layered_names(&self, directory: &str) -> Vec<(String, Option<EntryKind>)> {
        let Some(layer) = self.layer() else {
            return Vec::new();
        };
        let mut names: BTreeMap<String, Option<EntryKind>> = BTreeMap::new();
        let start = if directory.is_empty() { 0 } else { directory.len() + 1 };
        for (path, number) in layer.contents().beneath(directory) {
            let rest = &path[start..];
            match rest.split_once('/') {
                Some((name, _)) if number.is_some() => {
                    names.insert(name.to_owned(), Some(EntryKind::Directory));
                }
                // A directory of the tree stays if its last file is removed.
                Some(_) => {}
                None => {
                    let kind = number.map(|_| EntryKind::File);
                    // A directory may replace a removed file.
                    names.entry(rest.to_owned()).or_insert(kind);
                }
            }
        }
        names.into_iter().collect()
    }

    /// Opens a path that the layer decides about, by its real name; `None` if the tree decides.
    pub(crate) fn open_layered(
        &self,
        path: &str,
        real: &str,
        cancel: &CancellationToken,
    ) -> Option<Result<OpenedEntry, OpenError>> {
        let layer = self.layer()?;
        let (handle, kind) = match layer.find(real)? {
            LayerEntry::File(number) => (layer.open(number), EntryKind::File),
            LayerEntry::Directory if self.has_directory(real) => return None,
            LayerEntry::Directory => (layer.open_directory(), EntryKind::Directory),
            LayerEntry::Removed => (Err(Errno::NOENT), EntryKind::File),
        };
        Some(self.judge_layered(path, real, handle, kind, cancel))
    }

    fn judge_layered(
        &self,
        path: &str,
        real: &str,
        handle: Result<std::os::fd::OwnedFd, Errno>,
        kind: EntryKind,
        cancel: &CancellationToken,
    ) -> Result<OpenedEntry, OpenError> {
        let denied = |reason| OpenError::Denied {
            path: path.to_owned(),
            reason,
        };
        // The caller must not learn whether a hidden file was removed.
        if let Some(reason) = self.rules.hidden(real, kind == EntryKind::Directory) {
            return Err(denied(reason));
        }
        let handle = handle.map_err(|errno| io_error(path, errno))?;
        let stat = rustix::fs::fstat(&handle).map_err(|errno| io_error(path, errno))?;
        match self.judge(&handle, real, kind, &stat, cancel) {
            Some(reason) => Err(denied(reason)),
            None => {
                let listed = kind == EntryKind::File && self.layered_list.holds(real);
                Ok(build_opened(handle, real.to_owned(), kind, &stat, listed))
            }
        }
    }

    /// The real name of a path whose directory may be behind a link of the tree; otherwise the path itself.
    pub(crate) fn real_name(&self, path: &str) -> String {
        let (parent, name) = path::split_path(path);
        let is_layered = self.layer().is_some_and(|layer| !layer.is_empty());
        let is_behind_link = || matches!(self.root.open_directory(parent), Err(Errno::LOOP));
        if !is_layered || parent.is_empty() || !is_behind_link() {
            return path.to_owned();
        }
        let resolved = self.root.resolve(parent);
        resolved.map_or_else(|_| path.to_owned(), |parent| path::join_path(&parent.path, name))
    }

    /// The list of the tree, with the files of the layer.
    pub(crate) fn merge_list(&self, tree: Arc<FileList>, cancel: &CancellationToken) -> Arc<FileList> {
        let Some(layer) = self.layer().filter(|layer| !layer.is_empty()) else {
            return tree;
        };
        let mut known = self.layered_list.0.lock().unwrap_or_else(PoisonError::into_inner);
        let version = layer.contents().version;
        if let Some(known) = &*known
            && Arc::ptr_eq(&known.tree, &tree)
            && known.version == version
        {
            return Arc::clone(&known.merged);
        }
        let merged = Arc::new(self.merged(layer, &tree, cancel));
        *known = Some(MergedList {
            tree,
            version,
            merged: Arc::clone(&merged),
        });
        merged
    }

    fn merged(&self, layer: &Layer, tree: &FileList, cancel: &CancellationToken) -> FileList {
        let files = layer.contents().files.clone();
        let entry = |path: &String, number: u64| -> Option<FileEntry> {
            let handle = layer.open(number).ok()?;
            Some(file_entry(path.clone(), &rustix::fs::fstat(&handle).ok()?))
        };
        let walked = self.tree(cancel);
        let is_listed = |path: &str| tree.find(path).is_some() || !walked.leaves_out(path);
        let added = files
            .iter()
            .filter_map(|(path, number)| entry(path, (*number)?))
            .filter(|entry| is_listed(&entry.path));
        let mut merged = FileList {
            files: added.collect(),
            ..FileList::clone(tree)
        };
        let mut directories: BTreeSet<&str> = tree.directories.iter().map(String::as_str).collect();
        for file in &merged.files {
            directories.extend(path::list_ancestors(&file.path));
        }
        let directories = directories.into_iter().map(str::to_owned).collect();
        let kept = tree.files.iter().filter(|file| !files.contains_key(&file.path));
        merged.files.extend(kept.cloned());
        merged.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        merged.directories = directories;
        merged
    }

    /// The entries of a directory, with those of the layer.
    pub(crate) fn merge_entries(
        &self,
        directory: &str,
        mut tree: DirectoryList,
        cancel: &CancellationToken,
    ) -> DirectoryList {
        let names = self.layered_names(directory);
        if names.is_empty() {
            return tree;
        }
        let walked = self.tree(cancel);
        for (name, kind) in names {
            let path = path::join_path(directory, &name);
            let known = tree.entries.iter().position(|entry| entry.path == path);
            let known = known.map(|at| tree.entries.remove(at));
            let Some(kind) = kind else { continue };
            if known.is_none() && walked.leaves_out(&path) {
                tree.left_out = tree.left_out.saturating_add(1);
                continue;
            }
            let size = match (kind, self.stat_layered(&path)) {
                (EntryKind::File, Some(Ok(stat))) => u64::try_from(stat.st_size).unwrap_or(0),
                _ => 0,
            };
            tree.entries.push(ListedEntry { path, kind, size });
        }
        tree.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        tree
    }

    /// True if the tree itself has a directory with this path.
    pub(crate) fn has_directory(&self, path: &str) -> bool {
        let stat = rustix::fs::statat(self.directory(), or_root(path), AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory)
    }
}

impl LayeredList {
    /// True if the last merged list holds a file.
    fn holds(&self, path: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|known| known.merged.find(path).is_some())
    }
}

fn or_root(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}
