//! Every bound in the engine, each with its reason.

/// Largest file that the context engine or a skill of ours reads whole. Source files are far smaller; generated ones
/// that are larger help nobody.
pub const FILE_READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Time-out of a repository scan (specification: 60 seconds).
pub const SCAN_SECONDS_MAX: u64 = 60;
