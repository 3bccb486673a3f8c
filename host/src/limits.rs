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

/// Time in which a cancelled session must end; then it is ended from outside. Skills free their threads within half a
/// second.
pub const CANCEL_GRACE_MS: u64 = 2_000;

/// Time that the end of a session waits for a change that is being put in place. It is milliseconds; where it is not,
/// the next start finishes it.
pub const OPEN_CHANGE_MS_MAX: u64 = 2_000;

/// The one line that tells people how a skill call went.
pub const SUMMARY_BYTES_MAX: usize = 200;

// ---- http ----

/// Largest body of a request. A task of a megabyte is no task; contents of files are never sent.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Time in which a body must arrive.
pub const BODY_SECONDS_MAX: u64 = 30;

/// Connections at once; the next one waits in the kernel's queue. Five hundred stream readers fit twice.
pub const CONNECTIONS_MAX: usize = 1_024;

/// Time without a byte in either direction after which a connection is closed, unless a stream is under way on it:
/// twice what the slowest plain answer, a scan, may take.
pub const IDLE_SECONDS_MAX: u64 = 120;

/// Time for which a peer may leave waiting bytes untaken. A reader that was only suspended comes back with
/// `Last-Event-ID`.
pub const WRITE_STALL_SECONDS_MAX: u64 = 30;

/// Seconds between two comments on a quiet stream. Proxies commonly give up after 30 or 60.
pub const HEARTBEAT_SECONDS: u64 = 15;

/// Time that open connections get to end after the sessions have ended.
pub const CONNECTIONS_DRAIN_MS: u64 = 500;
