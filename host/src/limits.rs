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
// ---- process, git and recipes ----

/// Longest run of a test recipe. Suites that need longer belong to CI, not to a conversation.
pub const TESTS_SECONDS_MAX: u64 = 15 * 60;

/// Longest installation: a few wheels over a slow line.
pub const INSTALL_SECONDS_MAX: u64 = 10 * 60;

/// Longest question to an interpreter about itself. A cold start from a slow disk takes a second or two.
pub const PROBE_SECONDS_MAX: u64 = 10;

/// Output of a run that is kept, half from the beginning and half from the end (`wit/skill.wit`: at most 1 MiB).
pub const PROCESS_OUTPUT_KEPT_BYTES: usize = 1024 * 1024;

/// Output after which a run is ended. The most talkative suites write some tens of MiB.
pub const PROCESS_OUTPUT_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Output that is shown live. What comes after is in the report; a stream of more than this nobody reads.
pub const PROCESS_LIVE_BYTES_MAX: usize = 1024 * 1024;

/// Longest line that is shown live; the rest of it is not.
pub const PROCESS_LIVE_LINE_BYTES_MAX: usize = 2048;

/// Time between asking a run to end and ending it. With everything else a cancelled run is gone within 500 ms.
pub const PROCESS_GRACE_MS: u64 = 200;

/// Time to wait for a killed child before a thread of its own does. KILL takes a few milliseconds.
pub const PROCESS_REAP_MS: u64 = 200;

/// Output taken after the leader's end. A pipe holds 64 KiB by default and at most 1 MiB.
pub const PROCESS_DRAIN_BYTES_MAX: u64 = 1024 * 1024;

/// Largest file that a run may write: more than any build product, less than a disk.
pub const PROCESS_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// How often the processes that left a run's group are looked for. Each round ends what the round before missed.
pub const PROCESS_STRAY_ROUNDS_MAX: u32 = 5;

/// How much of a process's environment is looked at: what the kernel allows for one by default.
pub const PROCESS_ENVIRONMENT_BYTES_MAX: u64 = 2 * 1024 * 1024;
