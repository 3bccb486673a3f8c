//! Fingerprints of directories and files: their state when they were read, to detect later changes.
//!
//! A walk records the fingerprints of everything on which its result depends. `revalidate` compares them with the
//! current state, and the cache of ignore files uses them as keys.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Stat};

use super::open::FileIdentity;
use super::path;
use super::tracked::AskedIndex;

/// State of a directory or a file when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScanFingerprint {
    pub(super) identity: FileIdentity,
    size: i64,
    /// Time of the last change of content or attributes, in nanoseconds since 1970. No program can set it back.
    changed_ns: i128,
}

impl ScanFingerprint {
    pub(super) fn from_stat(stat: &Stat) -> Self {
        #[allow(clippy::unnecessary_cast, reason = "the types differ between platforms")]
        let size = stat.st_size as i64;
        Self {
            identity: FileIdentity::from_stat(stat),
            size,
            changed_ns: changed_ns(stat),
        }
    }

    /// True if the last change was before this time, in nanoseconds since 1970.
    pub(super) fn is_before(&self, time_ns: i128) -> bool {
        self.changed_ns < time_ns
    }

    /// True if both are fingerprints of the same file, possibly at different times.
    pub(super) fn is_of_file(&self, other: &Self) -> bool {
        self.identity == other.identity
    }

    /// The fingerprint of a path; `None` if nothing exists there.
    pub(super) fn read_at(directory: BorrowedFd<'_>, path: &str) -> Option<Self> {
        // The kernel refuses an empty path.
        let path = if path.is_empty() { "." } else { path };
        let stat = rustix::fs::statat(directory, path, AtFlags::SYMLINK_NOFOLLOW);
        stat.ok().map(|stat| Self::from_stat(&stat))
    }
}

/// Names of the ignore files of a directory.
pub(super) const IGNORE_FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// Fingerprints of everything on which the result of a walk depends.
#[derive(Debug, Default)]
pub(super) struct ScanBasis {
    /// Directories that were read, and their ignore files.
    pub(super) inside: Vec<(String, Option<ScanFingerprint>)>,
    /// Ignore files outside the root.
    pub(super) outside: Vec<(PathBuf, Option<ScanFingerprint>)>,
    /// Git indexes that the walk asked about files which it would have left out.
    pub(super) indexes: Vec<AskedIndex>,
    /// Start of the walk, in nanoseconds since 1970.
    began_ns: i128,
}

impl ScanBasis {
    /// Begins the fingerprints of a walk. `outside` are the ignore files outside the root.
    pub(super) fn begin(outside: Vec<PathBuf>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            inside: Vec::new(),
            outside: outside.into_iter().map(with_fingerprint).collect(),
            indexes: Vec::new(),
            began_ns: i128::try_from(since.as_nanos()).unwrap_or(0),
        }
    }

    /// True if the last change was so long before the walk that every later change gets another time.
    pub(super) fn is_settled(&self, settling: Duration) -> bool {
        // File systems store times in steps of some milliseconds or more, and two changes within a step have the same
        // time.
        let settled_ns = self.began_ns - i128::try_from(settling.as_nanos()).unwrap_or(0);
        let inside = self.inside.iter().filter_map(|(_, fingerprint)| *fingerprint);
        let outside = self.outside.iter().filter_map(|(_, fingerprint)| *fingerprint);
        inside
            .chain(outside)
            .all(|fingerprint| fingerprint.changed_ns < settled_ns)
    }
}

/// Records the fingerprints of a directory's ignore files. `has` says whether the directory has an entry.
pub(super) fn fingerprint_ignore_files(
    directory: BorrowedFd<'_>,
    path: &str,
    has: impl Fn(&str) -> bool,
    into: &mut Vec<(String, Option<ScanFingerprint>)>,
) {
    for name in IGNORE_FILES {
        let first = name.split('/').next().unwrap_or(name);
        if has(first) {
            into.push((path::join_path(path, name), ScanFingerprint::read_at(directory, name)));
        }
    }
}

fn with_fingerprint(path: PathBuf) -> (PathBuf, Option<ScanFingerprint>) {
    let fingerprint = fingerprint_outside(&path);
    (path, fingerprint)
}

/// The fingerprint of a file outside the root; links are followed.
pub(super) fn fingerprint_outside(path: &Path) -> Option<ScanFingerprint> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::empty());
    stat.ok().map(|stat| ScanFingerprint::from_stat(&stat))
}

/// Time of the last modification in nanoseconds since 1970.
pub(super) fn modified_ns(stat: &Stat) -> i128 {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between platforms")]
    let (seconds, nanoseconds) = (stat.st_mtime as i128, stat.st_mtime_nsec as i128);
    seconds * 1_000_000_000 + nanoseconds
}

/// Time of the last change of content or attributes, in nanoseconds since 1970.
pub(super) fn changed_ns(stat: &Stat) -> i128 {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between platforms")]
    let (seconds, nanoseconds) = (stat.st_ctime as i128, stat.st_ctime_nsec as i128);
    seconds * 1_000_000_000 + nanoseconds
}
