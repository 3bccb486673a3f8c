//! Revalidates a cached list of files, which costs a fraction of a new walk.
//!
//! A list depends on the directories that the walk read, on the ignore files that it applied, and on git's index. If
//! none of them has changed, only sizes and times of files can have changed, and [`refresh_list`] updates those. The result
//! does not depend on the age of the list.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Stat};
use tokio_util::sync::CancellationToken;

use super::fingerprint::{ScanFingerprint, fingerprint_outside};
use super::open::RootHandle;
use super::walk::{FileEntry, FileList, Scan, file_entry};
use super::{path, secrets};

/// Below this many entries, a second thread costs more than it saves.
const ENTRIES_PER_THREAD_MIN: usize = 1000;

/// Files between two checks of cancellation.
const FILES_BETWEEN_CHECKS: usize = 64;

/// The list of an earlier walk with current sizes and times; `None` if a new walk is needed.
///
/// `outside` are the ignore files outside the root that apply now.
pub(super) fn refresh_list(
    scan: &Scan,
    (root, root_path): (&RootHandle, &Path),
    outside: &[PathBuf],
    settling: Duration,
    cancel: &CancellationToken,
) -> Option<Arc<FileList>> {
    if !may_be_valid(scan, root_path, outside, settling) {
        return None;
    }
    let changed = in_parallel(&scan.basis.inside, &scan.list.files, |inside, files| {
        if !are_unchanged(inside, root, cancel) {
            return None;
        }
        let mut changed = Vec::new();
        for files in files.chunks(FILES_BETWEEN_CHECKS) {
            if cancel.is_cancelled() {
                return None;
            }
            for file in files {
                let stat = stat_file(root, file)?;
                if !is_same(file, &stat) {
                    let now = file_entry(file.path.clone(), &stat);
                    // A new hard link may be in a hidden directory, which hides the file under this name too.
                    let has_one_name = stat.st_nlink == 1;
                    changed.push(has_one_name.then_some(now)?);
                }
            }
        }
        Some(changed)
    })?;
    if changed
        .iter()
        .any(|file| secrets::is_suspect(path::split_path(&file.path).1))
    {
        return None;
    }
    if changed.is_empty() {
        return Some(Arc::clone(&scan.list));
    }
    let mut list = (*scan.list).clone();
    for file in changed {
        let at = list.files.binary_search_by(|entry| entry.path.cmp(&file.path)).ok()?;
        list.files[at] = file;
    }
    Some(Arc::new(list))
}

/// True if a new walk would find the same names. Sizes and times of files may have changed.
pub(super) fn has_same_names(
    scan: &Scan,
    (root, root_path): (&RootHandle, &Path),
    outside: &[PathBuf],
    settling: Duration,
    cancel: &CancellationToken,
) -> bool {
    let unchanged = |inside: &[(String, Option<ScanFingerprint>)], _: &[()]| {
        are_unchanged(inside, root, cancel).then(Vec::<()>::new)
    };
    may_be_valid(scan, root_path, outside, settling) && in_parallel(&scan.basis.inside, &[], unchanged).is_some()
}

/// Checks everything outside of the root.
fn may_be_valid(scan: &Scan, root: &Path, outside: &[PathBuf], settling: Duration) -> bool {
    let basis = &scan.basis;
    let same_outside = || {
        let pairs = || basis.outside.iter().zip(outside);
        basis.outside.len() == outside.len()
            && pairs().all(|((was, fingerprint), is)| was == is && *fingerprint == fingerprint_outside(is))
    };
    let same_indexes = || basis.indexes.iter().all(|index| index.is_same(root));
    scan.list.complete && basis.is_settled(settling) && same_outside() && same_indexes()
}

fn are_unchanged(inside: &[(String, Option<ScanFingerprint>)], root: &RootHandle, cancel: &CancellationToken) -> bool {
    let mut inside = inside.iter();
    inside.all(|(path, fingerprint)| {
        !cancel.is_cancelled() && ScanFingerprint::read_at(root.handle(), path) == *fingerprint
    })
}

/// Compares a file with its current state, without copying its path: a large tree would need a hundred thousand copies.
fn is_same(file: &FileEntry, stat: &Stat) -> bool {
    let now = file_entry(String::new(), stat);
    let state = |file: &FileEntry| (file.size, file.modified_ns, file.changed_ns, file.inode);
    state(&now) == state(file)
}

/// The current state of a listed file; `None` if it is not a file any more.
fn stat_file(root: &RootHandle, file: &FileEntry) -> Option<Stat> {
    let stat = rustix::fs::statat(root.handle(), file.path.as_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then_some(stat)
}

/// Runs `work` on all processors, each with a share of both slices, and joins the results. `None` if a share gave
/// `None`.
fn in_parallel<A: Sync, B: Sync, T: Send>(
    first: &[A],
    second: &[B],
    work: impl Fn(&[A], &[B]) -> Option<Vec<T>> + Sync,
) -> Option<Vec<T>> {
    let threads = super::walk::thread_count(std::thread::available_parallelism().map_or(1, usize::from));
    let parts = threads
        .min((first.len() + second.len()) / ENTRIES_PER_THREAD_MIN)
        .max(1);
    let shares: Vec<_> = (0..parts)
        .map(|part| (slice_share(first, part, parts), slice_share(second, part, parts)))
        .collect();
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = shares[1..]
            .iter()
            .map(|(first, second)| scope.spawn(move || work(first, second)))
            .collect();
        let mut found = work(shares[0].0, shares[0].1);
        for other in others {
            let other = other.join().ok().flatten();
            found = found.zip(other).map(|(mut found, other)| {
                found.extend(other);
                found
            });
        }
        found
    })
}

fn slice_share<T>(whole: &[T], part: usize, parts: usize) -> &[T] {
    &whole[whole.len() * part / parts..whole.len() * (part + 1) / parts]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_the_whole() {
        let whole: Vec<usize> = (0..2500).collect();
        let found = in_parallel(&whole, &whole[..7], |a, b| Some([a, b].concat()));
        let mut found = found.expect("nothing failed");
        found.sort_unstable();
        let mut expected = [&whole[..], &whole[..7]].concat();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(
            in_parallel(&whole, &[0; 0], |a, _| (!a.contains(&2499)).then(Vec::<usize>::new)),
            None
        );
        assert_eq!(
            in_parallel::<u8, u8, u8>(&[], &[], |_, _| Some(Vec::new())),
            Some(Vec::new())
        );
    }
}
