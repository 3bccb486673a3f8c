//! Every bound in the engine, each with its reason.

/// Largest file that the context engine or a skill of ours reads whole. Source files are far smaller; generated ones
/// that are larger help nobody.
pub const FILE_READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Time-out of a repository scan (specification: 60 seconds).
pub const SCAN_SECONDS_MAX: u64 = 60;

// ---- daemon ----

/// Seconds until a started daemon must answer: a cold disk and a busy machine included, a hang not.
pub const START_SECONDS_MAX: u64 = 20;

/// Seconds that a stopping daemon gives its sessions to end: reports are written by then, or never.
pub const STOP_SECONDS_MAX: u64 = 5;

/// Bytes of the daemon's log before it is rotated; one older file is kept. Weeks of use, and no disk is filled.
pub const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
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
