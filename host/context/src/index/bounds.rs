//! Limits of an index: its bytes, its time, and how much of it one request does itself.

use std::time::Duration;

use crate::limits;

/// Bytes of the profiles that the index keeps of one repository. Those of a Linux kernel tree take 145 MB, and at most 110
/// more with syntax trees. Files beyond the bound are read anew for each selection.
const INDEX_BYTES_MAX: u64 = 384 * 1024 * 1024;

/// Bytes of the postings of one repository: a tenth of its text. Those of a Linux kernel tree take some 150 MB. Files beyond
/// the bound are read by each search.
const POSTINGS_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes of the words of one repository. Those of a Linux kernel tree take some 40 MB. The profiles of files beyond the bound
/// are read by each selection.
const WORDS_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Files up to which a selection reads the profile of each that a task could be about.
pub const READ_ALL_FILES_MAX: usize = 8_000;

/// Files of a larger tree whose profiles a selection reads: those that share most words with the task.
pub const READ_FILES_MAX: usize = 2_000;

/// Bytes of trigrams and words that were collected and are not written yet: those of some thousand files.
const POSTINGS_PENDING_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Time in which the files of one repository are read by syntax tree after a selection, beside everything else and
/// after it; the next selection goes on where it ended. Twenty thousand files take a minute.
pub const OUTLINE_FILL_SECONDS_MAX: u64 = 300;

/// New or changed files that are read by syntax tree at once, before the selection answers: the files that a user edits
/// in a while, and a small repository as a whole. They cost a tenth of a second.
const OUTLINE_NOW_FILES_MAX: usize = 40;

/// Bytes of these files together.
const OUTLINE_NOW_BYTES_MAX: u64 = 512 * 1024;

/// Bytes of all indexes on the disk, of which a large one has 768 MiB. The ones that were not used longest are removed.
pub const INDEXES_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Repositories with an index on the disk.
const INDEXES_MAX: usize = 64;

/// Repositories whose index is open in the daemon, and the files of all of them together, some 400 bytes each.
const INDEXES_OPEN_MAX: usize = 8;

/// See `INDEXES_OPEN_MAX`.
const INDEXES_OPEN_FILES_MAX: usize = 200_000;

/// Bytes that an index has measured but not written yet. More at once would be felt in the daemon's memory.
const INDEX_PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Time, from when a selection was asked for, after which it no longer waits for files that its index does not know yet,
/// so that there is an answer within about a second; the index goes on without it.
const INDEX_WAIT_MS: u64 = 500;

/// Time in which the first request for a repository reads the newest commits beside its other work. A home that lives for
/// one job would else never know a history.
pub(super) const FIRST_HISTORY_TIME: Duration = Duration::from_millis(250);

/// Time, from when it was asked for, after which such a request answers without them.
pub(super) const FIRST_HISTORY_WAIT: Duration = Duration::from_millis(350);

/// Files up to which every selection looks at the whole tree before it answers. A hundred thousand cost 45 ms.
pub const EXACT_CHECK_FILES_MAX: usize = 100_000;

/// Age up to which the list of a larger tree is used, while the tree is looked at beside the answer.
const LIST_AGE_SECONDS_MAX: u64 = 60;

/// Files that a selection waits for in any case: they take some tenths of a second, and a busy machine should not make
/// the answer for a repository of usual size depend on how busy it is.
const INDEX_WAIT_FILES_MIN: usize = 1000;

/// Indexes that are brought up to date at a time beside the sessions. One uses one processor.
const INDEXES_FILLING_MAX: usize = 1;

/// Limits of an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexBounds {
    pub(super) bytes: u64,
    pub(super) postings_bytes: u64,
    pub(super) words_bytes: u64,
    /// Files up to which each profile is read, and how many are of a larger tree.
    pub(super) read_all: usize,
    pub(super) read: usize,
    pub(super) postings_pending: usize,
    pub(super) indexes: usize,
    pub(super) indexes_bytes: u64,
    pub(super) open: usize,
    pub(super) open_files: usize,
    pub(super) pending_bytes: usize,
    pub(super) filling: usize,
    pub(super) wait: Duration,
    pub(super) wait_files: usize,
    /// Time for which a file must have been left alone before it was read.
    pub(super) settling: Duration,
    /// Time for reading files by syntax tree after a selection.
    pub(super) trees: Duration,
    /// Files, and their bytes, that a selection reads by syntax tree itself.
    pub(super) trees_now: (usize, u64),
    /// Files up to which a list is that of now, and how old one of more files may be.
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
            filling: INDEXES_FILLING_MAX,
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
