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

/// Longest that a question to git may take. Hashing a large tree whose index is stale takes seconds, not minutes; the
/// call's own limit ends it earlier.
pub const GIT_SECONDS_MAX: u64 = 60;

/// Git operations that were given up and still hang (a FIFO in place of an ignore file): no more are started then.
pub const GIT_THREADS_MAX: usize = 16;

/// Files of one diff. A change that touches more is no change to read but a move or a reformatting.
pub const GIT_CHANGES_MAX: usize = 5_000;

/// Patch of one file: some thousand lines, more than fits any conversation.
pub const GIT_PATCH_BYTES_MAX: usize = 256 * 1024;

/// Patches of one diff together; a skill's answer holds at most a quarter of this.
pub const GIT_DIFF_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Lines of context around a change. With more than this the reader wants the file, not the diff.
pub const GIT_CONTEXT_LINES_MAX: u32 = 100;

/// Paths that one request may name; whoever means more means a directory.
pub const GIT_PATHS_MAX: usize = 1_000;

/// Largest file that a commit takes up. Hosts refuse files beyond 100 MiB.
pub const GIT_COMMIT_FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Longest commit message; the longest honest ones are release notes.
pub const GIT_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Diff that a question shows before it goes on with names and counts alone.
pub const GIT_QUESTION_BYTES_MAX: usize = 256 * 1024;

/// Paths of one test run; more do not fit one command line with certainty.
pub const RECIPE_PATHS_MAX: usize = 200;
