//! Every bound in the engine, each with its reason.

/// Largest file that the context engine or a skill of ours reads whole. Source files are far smaller; generated ones
/// that are larger help nobody.
pub const FILE_READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Time-out of a repository scan (specification: 60 seconds).
pub const SCAN_SECONDS_MAX: u64 = 60;

// ---- repository ----

/// Entries that one walk of a repository looks at. The largest public trees have a few hundred thousand; a million
/// entries cost some 150 MB, which is what a daemon can bear.
pub const SCAN_ENTRIES_MAX: u64 = 1_000_000;

/// Threads of one walk. Directory reading stops gaining beyond this on the machines that were measured.
pub const SCAN_THREADS_MAX: usize = 8;

/// Entries of hidden directories whose identity is remembered, so that hard links to them are refused. Folders of keys
/// and credentials hold a handful.
pub const HIDDEN_ENTRIES_MAX: u64 = 10_000;

/// Largest ignore file that counts. Real ones have a few kilobytes; compiling a larger one would stall the walk.
pub const IGNORE_FILE_BYTES_MAX: u64 = 1024 * 1024;

// ---- stage ----

/// Files of one proposal, deletions included. A rename across a large code base touches hundreds.
pub const PROPOSAL_FILES_MAX: usize = 1000;

/// Bytes of one proposal, and of the files that it replaces. Both are held in memory and written to the journal.
pub const PROPOSAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Longest path of a proposal, in bytes: what Linux takes in one call.
pub const PROPOSAL_PATH_BYTES_MAX: usize = 4095;
