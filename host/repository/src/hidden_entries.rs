//! Finds all hidden entries of the tree, which the sandbox hides from the programs that run in it.
//!
//! A program in the sandbox sees the tree directly, not through the guard. So this search also covers ignored and
//! skipped directories and names that are not UTF-8. Sockets, FIFOs and devices count as hidden, because their other
//! end is a process outside of the sandbox.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{DirEntry, FileType};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::walk::secret_at;
use super::{FileIdentity, Repository, rules, secrets};
use crate::walk::HIDDEN_ENTRIES_MAX;
use tool_core::limits::CONTAIN_ENTRIES_MAX;

/// Reason why the hidden entries cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum HiddenEntriesError {
    /// The session ended.
    #[error("the call was cancelled")]
    Cancelled,
    /// There are too many entries.
    #[error("the repository has more than {CONTAIN_ENTRIES_MAX} files")]
    TooMany,
    /// A directory cannot be read, for a reason other than its permissions.
    #[error("`{}` cannot be listed: {source}", path.display())]
    Unreadable {
        /// Its real path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl Repository {
    /// Returns the hidden entries, relative to the root, without entries inside of hidden directories.
    ///
    /// # Errors
    ///
    /// See [`HiddenEntriesError`].
    pub fn hidden_entries(&self, cancel: &CancellationToken) -> Result<Vec<OsString>, HiddenEntriesError> {
        let mut search = self.search(cancel);
        search.walk(HiddenSearch::find_hidden)?;
        if !search.linked_inodes.is_empty() {
            // A hidden file has another hard link, which may have a visible name.
            search.entries = 0;
            search.walk(HiddenSearch::find_links)?;
        }
        Ok(search.hidden.into_iter().map(PathBuf::into_os_string).collect())
    }

    /// Inodes of hidden files with more than one hard link, in the whole tree.
    pub(super) fn linked_hidden(
        &self,
        entries_max: u64,
        cancel: &CancellationToken,
    ) -> Result<HashSet<u64>, HiddenEntriesError> {
        let mut search = self.search(cancel);
        search.entries_max = entries_max;
        search.walk(HiddenSearch::find_hidden)?;
        Ok(search.linked_inodes)
    }

    fn search<'a>(&'a self, cancel: &'a CancellationToken) -> HiddenSearch<'a> {
        HiddenSearch {
            repository: self,
            cancel,
            state: self.state(),
            entries: 0,
            entries_max: CONTAIN_ENTRIES_MAX,
            hidden: Vec::new(),
            linked_inodes: HashSet::new(),
        }
    }
}

type Entries = [(DirEntry, FileType)];

struct HiddenSearch<'a> {
    repository: &'a Repository,
    cancel: &'a CancellationToken,
    state: Option<FileIdentity>,
    entries: u64,
    entries_max: u64,
    hidden: Vec<PathBuf>,
    /// Inodes of hidden files with more than one hard link.
    linked_inodes: HashSet<u64>,
}

impl HiddenSearch<'_> {
    /// Visits all directories, from the root on. `visit` returns the directories to enter next.
    fn walk(&mut self, visit: fn(&mut Self, &Path, &Entries) -> Vec<PathBuf>) -> Result<(), HiddenEntriesError> {
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            if self.cancel.is_cancelled() {
                return Err(HiddenEntriesError::Cancelled);
            }
            let entries = self.list(&folder)?;
            self.entries += entries.len() as u64;
            if self.entries > self.entries_max {
                return Err(HiddenEntriesError::TooMany);
            }
            folders.extend(visit(self, &folder, &entries));
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> Result<Vec<(DirEntry, FileType)>, HiddenEntriesError> {
        let place = self.repository.root().join(folder);
        let read = || -> io::Result<Vec<_>> {
            let mut entries = Vec::new();
            for entry in std::fs::read_dir(&place)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                entries.push((entry, kind));
            }
            Ok(entries)
        };
        match read() {
            // A directory that the user cannot read cannot be read by the run either; one that is gone has no entries.
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound) => {
                Ok(Vec::new())
            }
            other => other.map_err(|source| HiddenEntriesError::Unreadable { path: place, source }),
        }
    }

    /// Records the hidden entries of a directory, and returns its other directories.
    fn find_hidden(&mut self, folder: &Path, entries: &Entries) -> Vec<PathBuf> {
        if !folder.as_os_str().is_empty() && self.is_hidden_folder(folder, entries) {
            self.hidden.push(folder.to_owned());
            return Vec::new();
        }
        let mut inside = Vec::new();
        for (entry, kind) in entries {
            let path = folder.join(entry.file_name());
            if self.is_hidden(&path, entry, *kind) {
                self.note_links(&path, *kind);
                self.hidden.push(path);
            } else if kind.is_dir() {
                inside.push(path);
            }
        }
        inside
    }

    /// True for a git directory, recognised by its entries, and for the state directory.
    fn is_hidden_folder(&self, folder: &Path, entries: &Entries) -> bool {
        let has = |name: &str| entries.iter().any(|(entry, _)| entry.file_name() == name);
        if has("HEAD") && (has("commondir") || has("objects") && has("refs")) {
            return true;
        }
        let is_state = |state: FileIdentity| {
            let stat = rustix::fs::stat(self.repository.root().join(folder));
            stat.is_ok_and(|stat| FileIdentity::from_stat(&stat) == state)
        };
        self.state.is_some_and(is_state)
    }

    fn is_hidden(&self, path: &Path, entry: &DirEntry, kind: FileType) -> bool {
        if !(kind.is_dir() || kind.is_file() || kind.is_symlink()) {
            return true;
        }
        let shown = path.to_string_lossy();
        let folded = rules::fold_case(&shown);
        let rules = self.repository.rules();
        if rules.hidden_entry(&folded, kind.is_dir()).is_some() {
            return true;
        }
        let name = entry.file_name();
        let is_suspect = kind.is_file() && secrets::is_suspect(&name.to_string_lossy());
        is_suspect
            && !rules.revealed(&folded)
            && path
                .to_str()
                .is_some_and(|path| secret_at(self.repository.directory(), path))
    }

    /// Records the inodes of hidden files with several hard links. Git directories are left out, because their files
    /// have many.
    fn note_links(&mut self, path: &Path, kind: FileType) {
        let place = self.repository.root().join(path);
        if kind.is_file() {
            let metadata = std::fs::symlink_metadata(&place).ok();
            self.linked_inodes
                .extend(metadata.filter(|file| file.nlink() > 1).map(|file| file.ino()));
            return;
        }
        if !kind.is_dir() || place.join("objects").is_dir() {
            return;
        }
        let (mut folders, mut left) = (vec![place], HIDDEN_ENTRIES_MAX);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                left = left.saturating_sub(1);
                match entry.metadata() {
                    _ if left == 0 => return,
                    Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                    Ok(metadata) if metadata.nlink() > 1 => {
                        self.linked_inodes.insert(metadata.ino());
                    }
                    _ => {}
                }
            }
        }
    }

    /// Records visible hard links of hidden files.
    fn find_links(&mut self, folder: &Path, entries: &Entries) -> Vec<PathBuf> {
        // Everything in a hidden directory is hidden already; its own entry is found in the directory above.
        let here = self.hidden.iter().filter(|path| path.parent() == Some(folder));
        let known = here.cloned().collect::<HashSet<_>>();
        let mut inside = Vec::new();
        for (entry, kind) in entries {
            let path = folder.join(entry.file_name());
            if known.contains(&path) {
                continue;
            }
            if kind.is_dir() {
                inside.push(path);
            } else if kind.is_file() && self.linked_inodes.contains(&entry.ino()) {
                self.hidden.push(path);
            }
        }
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn hidden_entries_are_found_wherever_they_lie() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let root = folder.path().canonicalize().expect("it is there");
        let file = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
            std::fs::write(path, text).expect("files can be written");
        };
        for (path, text) in [
            (".gitignore", "ignored/\n"),
            (".env", "KEY=1"),
            (".env.example", "KEY="),
            ("ignored/.ENV", "KEY=2"),
            ("node_modules/x/.npmrc", "token"),
            (".git/HEAD", "ref: x"),
            ("bare/HEAD", ""),
            ("bare/objects/x", ""),
            ("bare/refs/x", ""),
            ("deploy-key.txt", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"),
            ("notes-on-keys.txt", "keys are secret\n"),
            ("state/token", "secret"),
        ] {
            file(path, text);
        }
        std::fs::hard_link(root.join(".env"), root.join("ignored/copy.txt")).expect("links can be made");
        let _listener = std::os::unix::net::UnixListener::bind(root.join("server.sock")).expect("a socket can be made");
        let options = Options {
            state_directory: Some(root.join("state")),
            ..Options::default()
        };
        let repository = Repository::open(&root, &options).expect("the folder is there");
        let mut hidden = repository
            .hidden_entries(&CancellationToken::new())
            .expect("it is small");
        hidden.sort();
        let expected = [
            ".env",
            ".git",
            "bare",
            "deploy-key.txt",
            "ignored/.ENV",
            "ignored/copy.txt",
            "node_modules/x/.npmrc",
            "server.sock",
            "state",
        ];
        assert_eq!(hidden, expected);
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert!(matches!(
            repository.hidden_entries(&cancel),
            Err(HiddenEntriesError::Cancelled)
        ));
    }

    #[test]
    fn a_repository_of_too_many_entries_is_not_searched() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["a", "b", "c"] {
            std::fs::write(folder.path().join(name), "").expect("the folder is writable");
        }
        let repository = Repository::open(folder.path(), &Options::default()).expect("the folder is there");
        let cancel = CancellationToken::new();
        let mut search = repository.search(&cancel);
        assert_eq!(search.entries_max, CONTAIN_ENTRIES_MAX);
        search.entries_max = 2;
        assert!(matches!(
            search.walk(HiddenSearch::find_hidden),
            Err(HiddenEntriesError::TooMany)
        ));
    }
}
