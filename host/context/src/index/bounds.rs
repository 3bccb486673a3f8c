//! Limits of an index: its bytes on disk and in memory, its time, and the share of the work that a request does itself.

use std::time::Duration;

use crate::limits;

/// Bytes of one repository's profiles. Those of a Linux kernel tree take some 95 MB, and 200 MB with
/// syntax trees. Files beyond the bound are read anew for each selection.
const INDEX_BYTES_MAX: u64 = 384 * 1024 * 1024;

/// Bytes of one repository's trigram postings: about a twentieth of its text. Those of a Linux kernel tree take some
/// 65 MB. Files beyond the bound are read by each search.
const POSTINGS_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes of one repository's word postings. Those of a Linux kernel tree take some 40 MB. The profiles of files beyond
/// the bound are read by each selection.
const WORDS_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// In a tree of at most this many files, a selection reads the profiles of all files that a task could be about.
pub const READ_ALL_FILES_MAX: usize = 8_000;

/// In a larger tree, a selection reads this many profiles: those of the files that share most words with the task.
pub const READ_FILES_MAX: usize = 2_000;

/// Bytes of trigrams and words that wait to be written: those of some thousand files.
const POSTINGS_PENDING_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Time for which files of one repository are parsed in the background after a selection. The next selection continues.
/// Twenty thousand files take a minute.
pub const OUTLINE_FILL_SECONDS_MAX: u64 = 300;

/// A selection parses at most this many new or changed files itself: the files that a user edits between two requests,
/// or all files of a small repository. They take a tenth of a second.
const OUTLINE_NOW_FILES_MAX: usize = 40;

/// Bytes of these files together.
const OUTLINE_NOW_BYTES_MAX: u64 = 512 * 1024;

/// Bytes of all indexes on disk; a single one has at most 768 MiB. The least recently used ones are removed.
pub const INDEXES_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Repositories with an index on the disk.
const INDEXES_MAX: usize = 64;

/// Repositories whose indexes are open in the daemon.
const INDEXES_OPEN_MAX: usize = 8;

/// Files of all open indexes together, of some 400 bytes each. The least recently used index is closed above that.
const INDEXES_OPEN_FILES_MAX: usize = 200_000;

/// Bytes of profiles that wait to be written. They are in the daemon's memory.
const INDEX_PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Time, from the start of a selection, after which it no longer reads files that its index does not know, so that it
/// answers within about a second. An update reads the rest in the background.
const INDEX_WAIT_MS: u64 = 500;

/// Time for which the first request for a repository reads the newest commits, beside its other work. Otherwise a home
/// directory that exists for one CI job would never have a history.
pub(super) const FIRST_HISTORY_TIME: Duration = Duration::from_millis(250);

/// Time, from its start, after which the first request answers without them.
pub(super) const FIRST_HISTORY_WAIT: Duration = Duration::from_millis(350);

/// In a tree of at most this many files, every selection lists all files first. A hundred thousand files take 45 ms.
pub const EXACT_CHECK_FILES_MAX: usize = 100_000;

/// Age up to which the list of a larger tree is used, while a thread makes a new one.
const LIST_AGE_SECONDS_MAX: u64 = 60;

/// A selection reads this many files in any case, which takes some tenths of a second. So the answer for a repository
/// of usual size does not depend on the load of the machine.
const INDEX_WAIT_FILES_MIN: usize = 1000;

/// Index updates that run at once in the background.
const INDEX_UPDATES_MAX: usize = 1;

#[derive(Debug, Clone, Copy)]
pub(super) struct IndexBounds {
    pub(super) bytes: u64,
    pub(super) postings_bytes: u64,
    pub(super) words_bytes: u64,
    /// Files up to which each profile is read, and the number of profiles that are read in a larger tree.
    pub(super) read_all: usize,
    pub(super) read: usize,
    pub(super) postings_pending: usize,
    pub(super) indexes: usize,
    pub(super) indexes_bytes: u64,
    pub(super) open: usize,
    pub(super) open_files: usize,
    pub(super) pending_bytes: usize,
    pub(super) updates: usize,
    pub(super) wait: Duration,
    pub(super) wait_files: usize,
    /// A file must be unchanged for this long before it is read; otherwise the next request reads it again.
    pub(super) settling: Duration,
    /// Time for parsing files after a selection.
    pub(super) trees: Duration,
    /// Files, and their bytes, that a selection parses itself.
    pub(super) trees_now: (usize, u64),
    /// Files up to which each request makes a new list, and the age of the list of a larger tree.
    pub(super) exact_files: usize,
    pub(super) list_age: Duration,
}

impl Default for IndexBounds {
    fn default() -> Self {
        Self {
            bytes: INDEX_BYTES_MAX,
            postings_bytes: POSTINGS_BYTES_MAX,
            words_bytes: WORDS_BYTES_MAX,
            read_all: READ_ALL_FILES_MAX,
            read: READ_FILES_MAX,
            postings_pending: POSTINGS_PENDING_BYTES_MAX,
            indexes: INDEXES_MAX,
            indexes_bytes: INDEXES_BYTES_MAX,
            open: INDEXES_OPEN_MAX,
            open_files: INDEXES_OPEN_FILES_MAX,
            pending_bytes: INDEX_PENDING_BYTES_MAX,
            updates: INDEX_UPDATES_MAX,
            wait: limits::milliseconds(INDEX_WAIT_MS),
            wait_files: INDEX_WAIT_FILES_MIN,
            settling: limits::milliseconds(limits::SCAN_SETTLING_MS),
            trees: limits::seconds(OUTLINE_FILL_SECONDS_MAX),
            trees_now: (OUTLINE_NOW_FILES_MAX, OUTLINE_NOW_BYTES_MAX),
            exact_files: EXACT_CHECK_FILES_MAX,
            list_age: limits::seconds(LIST_AGE_SECONDS_MAX),
        }
    }
}
