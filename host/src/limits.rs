//! Every bound in the engine, each with its reason.

/// Largest file that the context engine or a skill of ours reads whole. Source files are far smaller; generated ones
/// that are larger help nobody.
pub const FILE_READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Time-out of a repository scan (specification: 60 seconds).
pub const SCAN_SECONDS_MAX: u64 = 60;

// ---- session ----

/// Sessions in `session_history.json` and in GET /history (specification: the last 100), and in GET /tasks.
pub const HISTORY_ENTRIES_MAX: usize = 100;

/// Bytes of a history file that are read. A hundred entries are some 40 kB; a larger file was not written by us.
pub const HISTORY_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Time for which a writer of the history file waits for another one, who needs some milliseconds.
pub const HISTORY_LOCK_MS_MAX: u64 = 5_000;

/// Sessions kept on disk, operations and calls of single skills counted apart: as many as the history shows.
pub const SESSIONS_KEPT: usize = 100;

/// Days for which a session is kept: long enough to undo last month's work.
pub const SESSION_DAYS_KEPT: i64 = 30;

/// Bytes of all kept sessions together, contents of changed files included.
pub const SESSIONS_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Sessions under way at once. Each may hold a provider connection and a packet of up to a megabyte; the next one is
/// told that the backend is busy.
pub const SESSIONS_RUNNING_MAX: usize = 256;

/// Skill calls under way at once over all sessions: each holds a blocking thread, also while it waits for an approval.
pub const SKILL_CALLS_RUNNING_MAX: usize = 128;

/// Strings in the arguments that a `skill` event shows (design: 4 KiB). Whole file contents help no watcher.
pub const EVENT_ARGUMENT_BYTES_MAX: usize = 4 * 1024;

/// Nesting of values in events and journal lines. The JSON reader gives up at 128; no schema of ours needs ten.
pub const EVENT_DEPTH_MAX: usize = 32;

/// A tool call's arguments and result as the journal keeps them. Contents of changed files are kept apart and whole.
pub const JOURNAL_TOOL_BYTES_MAX: usize = 64 * 1024;

/// A tool call's result as the report shows it.
pub const REPORT_RESULT_BYTES_MAX: usize = 4 * 1024;

/// Time spent on counting the changed lines of one file for a report; beyond it the counts are approximate.
pub const REPORT_DIFF_MS_MAX: u64 = 500;

/// Time for which written journal lines may wait in memory. Half of the 50 ms that the design allows to be lost: the
/// other half is for the write itself.
pub const JOURNAL_COMMIT_MS: u64 = 25;

/// Unwritten journal bytes that are held while the disk is full. Beyond it new lines are dropped, not the session.
pub const JOURNAL_BACKLOG_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Time for which model output is collected into one event. Nobody sees 5 ms, and fast models send a thousand tokens
/// a second.
pub const TOKEN_COALESCE_MS: u64 = 5;

/// Events of a running session that are kept in memory for streams; older ones are read from the journal.
pub const EVENT_TAIL_BYTES_MAX: usize = 256 * 1024;

/// Journal bytes that a stream reads at once. Bounds what a reader holds that has fallen behind.
pub const REPLAY_BYTES_MAX: usize = 256 * 1024;

/// Time without any stream after which an attached session is cancelled: a client that reconnects is faster.
pub const ATTACHED_GRACE_MS: u64 = 2_000;

/// Time in which the first stream of an attached session must open.
pub const ATTACHED_FIRST_MS: u64 = 30_000;

/// Time in which an approval must be answered; then it is refused.
pub const APPROVAL_SECONDS_MAX: i64 = 300;

/// An approval's detail, a diff or an argument vector. Beyond it nobody reads, and the whole diff is in the journal.
pub const APPROVAL_DETAIL_BYTES_MAX: usize = 256 * 1024;
