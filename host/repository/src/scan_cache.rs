//! A cache of walks, so that the next opening of a repository does not have to walk the tree again.
//!
//! A cached walk is used only after `revalidate` has checked it. Two openings share walks if the root and the rules for
//! hidden names are the same.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::ignore_files::IgnoreCache;
use super::open::FileIdentity;
use super::tracked::TrackedCache;
use super::walk::Scan;
use tool_core::digest::to_hexadecimal;

/// Walks in the cache: as many as the repositories on which one person works at a time.
const SCANS_KEPT_MAX: usize = 8;

/// Entries of all walks in the cache, of some 200 bytes each: enough for two trees as large as the Linux kernel. A
/// larger tree is alone in the cache; without it, every request would walk again.
const SCANS_KEPT_ENTRIES_MAX: usize = 200_000;

/// Cache key of a repository: two openings with equal keys share their walks and their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryKey {
    pub(super) root: PathBuf,
    pub(super) identity: FileIdentity,
    pub(super) state_directory: Option<PathBuf>,
    pub(super) hide: Vec<String>,
    pub(super) reveal: Vec<String>,
    /// Names that the repository's own file hides.
    pub(super) narrowed: Vec<String>,
}

impl RepositoryKey {
    /// Device and inode of the root.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Name of its folder in the index: a hash of its path and of the rules for hidden files.
    pub fn name(&self) -> String {
        let mut digest = Sha256::new();
        let mut add = |bytes: &[u8]| {
            // The length keeps parts separate: otherwise `x`, `y` and `xy` would have the same hash.
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        add(self.root.as_os_str().as_encoded_bytes());
        for patterns in [&self.hide, &self.reveal, &self.narrowed] {
            add(&(patterns.len() as u64).to_le_bytes());
            patterns.iter().for_each(|pattern| add(pattern.as_bytes()));
        }
        to_hexadecimal(&digest.finalize()[..16])
    }
}

/// The most recent walks of some repositories, and one cache of ignore files for all of them.
#[derive(Debug, Default)]
pub struct ScanCache {
    ignore_files: Arc<IgnoreCache>,
    /// Sorted by the last write; the most recent one is last.
    kept: Mutex<Vec<(RepositoryKey, Arc<Scan>)>>,
    /// What git tracks, by root; the most recent one is last.
    tracked: Mutex<Vec<(PathBuf, Arc<TrackedCache>)>>,
}

impl ScanCache {
    pub(super) fn ignore_files(&self) -> Arc<IgnoreCache> {
        Arc::clone(&self.ignore_files)
    }

    pub(super) fn tracked(&self, root: &Path) -> Arc<TrackedCache> {
        let mut kept = self.tracked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|(known, _)| known == root);
        let one = known.map_or_else(|| (root.to_owned(), Arc::default()), |at| kept.remove(at));
        let cache = Arc::clone(&one.1);
        kept.push(one);
        if kept.len() > SCANS_KEPT_MAX {
            kept.remove(0);
        }
        cache
    }

    pub(super) fn get(&self, key: &RepositoryKey) -> Option<Arc<Scan>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .find(|(known, _)| known == key)
            .map(|(_, scan)| Arc::clone(scan))
    }

    /// Adds a walk, and removes the oldest ones above the limits.
    pub(super) fn put(&self, key: &RepositoryKey, scan: &Arc<Scan>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| known != key);
        kept.push((key.clone(), Arc::clone(scan)));
        let entries = |kept: &[(RepositoryKey, Arc<Scan>)]| kept.iter().map(|(_, scan)| scan.entries()).sum::<usize>();
        while kept.len() > SCANS_KEPT_MAX || kept.len() > 1 && entries(&kept) > SCANS_KEPT_ENTRIES_MAX {
            kept.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileEntry;
    use crate::walk::FileList;

    fn key(root: &str, hide: &[&str]) -> RepositoryKey {
        RepositoryKey {
            root: PathBuf::from(root),
            identity: FileIdentity { device: 1, inode: 2 },
            state_directory: None,
            hide: hide.iter().map(|pattern| (*pattern).to_owned()).collect(),
            reveal: Vec::new(),
            narrowed: Vec::new(),
        }
    }

    fn scan(files: usize) -> Arc<Scan> {
        let file = |at: usize| FileEntry {
            path: at.to_string(),
            size: 0,
            modified_ns: 0,
            changed_ns: 0,
            inode: 0,
        };
        Arc::new(Scan {
            list: Arc::new(FileList {
                files: (0..files).map(file).collect(),
                ..FileList::default()
            }),
            ..Scan::default()
        })
    }

    #[test]
    fn names_tell_roots_and_rules_apart() {
        let names = [
            key("/a", &[]).name(),
            key("/b", &[]).name(),
            key("/a", &["x"]).name(),
            key("/a", &["x", "y"]).name(),
            key("/a", &["xy"]).name(),
        ];
        assert_eq!(
            names.iter().collect::<std::collections::BTreeSet<_>>().len(),
            names.len()
        );
        assert!(names.iter().all(|name| name.len() == 32), "{names:?}");
    }

    #[test]
    fn the_walk_that_was_not_used_longest_makes_way() {
        let scans = ScanCache::default();
        for at in 0..=SCANS_KEPT_MAX {
            scans.put(&key(&format!("/{at}"), &[]), &scan(1));
        }
        assert!(scans.get(&key("/0", &[])).is_none());
        assert!(scans.get(&key("/1", &[])).is_some());
        assert!(scans.get(&key("/1", &["x"])).is_none());
    }

    #[test]
    fn walks_of_large_trees_are_kept_as_long_as_there_is_room() {
        let scans = ScanCache::default();
        scans.put(&key("/a", &[]), &scan(SCANS_KEPT_ENTRIES_MAX / 2));
        scans.put(&key("/b", &[]), &scan(SCANS_KEPT_ENTRIES_MAX / 2));
        assert!(scans.get(&key("/a", &[])).is_some());
        scans.put(&key("/c", &[]), &scan(1));
        assert!(scans.get(&key("/a", &[])).is_none() && scans.get(&key("/c", &[])).is_some());
        scans.put(&key("/d", &[]), &scan(SCANS_KEPT_ENTRIES_MAX + 1));
        assert!(scans.get(&key("/c", &[])).is_none() && scans.get(&key("/d", &[])).is_some());
        scans.put(&key("/e", &[]), &scan(1));
        assert!(scans.get(&key("/d", &[])).is_none() && scans.get(&key("/e", &[])).is_some());
    }
}
