//! Limits of the engine, each with its reason.
//!
//! Code that waits for a limit of time asks `seconds` or `milliseconds` of its crate for it, so that a test need not wait
//! as long.

/// Defines `seconds` and `milliseconds` in the calling crate, which turn a limit into a [`Duration`](std::time::Duration).
///
/// In the crate's own tests `pace::hurried` makes all of them shorter on one thread.
#[macro_export]
macro_rules! time_limits {
    () => {
        /// A limit in seconds as a duration.
        pub fn seconds(limit: u64) -> ::std::time::Duration {
            paced(::std::time::Duration::from_secs(limit))
        }

        /// A limit in milliseconds as a duration.
        pub fn milliseconds(limit: u64) -> ::std::time::Duration {
            paced(::std::time::Duration::from_millis(limit))
        }

        #[cfg(not(test))]
        fn paced(span: ::std::time::Duration) -> ::std::time::Duration {
            span
        }

        #[cfg(test)]
        fn paced(span: ::std::time::Duration) -> ::std::time::Duration {
            span / pace::PACE.get()
        }

        /// Shorter time limits for the crate's own tests.
        #[cfg(test)]
        pub mod pace {
            ::std::thread_local! {
                pub(super) static PACE: ::std::cell::Cell<u32> = const { ::std::cell::Cell::new(1) };
            }

            /// Divides all time limits on this thread by `times`, until the returned value is dropped.
            #[must_use]
            pub fn hurried(times: u32) -> Hurried {
                PACE.set(times);
                Hurried
            }

            /// See [`hurried`].
            pub struct Hurried;

            impl Drop for Hurried {
                fn drop(&mut self) {
                    PACE.set(1);
                }
            }
        }
    };
}

/// Largest file that the context engine or a skill of ours reads whole. Source files are far smaller; larger generated
/// files are not useful.
pub const FILE_READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Time-out of a repository scan (specification: 60 seconds).
pub const SCAN_SECONDS_MAX: u64 = 60;

// ---- skill sandbox ----

/// Parts that a sharded call is split into for each thread at work: a thread that is done early takes the next part, so
/// that one slow part or a busy processor does not make the others wait.
pub const CALL_PARTS_PER_THREAD: usize = 4;

/// Size of a component. CPython with its library takes 18 MB.
pub const COMPONENT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest compiled component that is taken; native code is a few times larger than wasm.
pub const COMPILED_BYTES_MAX: u64 = 8 * COMPONENT_BYTES_MAX;

// ---- redaction ----

/// Keys that a session keeps apart. A repository with more is a collection of test vectors; what is found beyond them is
/// replaced all the same, and cannot be put back.
pub const REDACTION_KEYS_MAX: usize = 4_096;

/// Strings in one call's arguments that are looked up as files because what they hold may be shown in parts.
pub const REDACTION_FILES_LEARNED_MAX: usize = 16;

// ---- `.tool.toml` ----

/// Bytes of a repository's `.tool.toml`. A long one has two kilobytes.
pub const ROOT_FILE_BYTES_MAX: u64 = 64 * 1024;

// ---- skills of a team ----

/// Components of a team that are looked at, and that a lock file names. Each costs a look at its file whenever skills are
/// listed, and a model that is offered more tools than that chooses badly.
pub const TEAM_SKILLS_MAX: usize = 128;

/// Bytes of a key, and of what was signed: a key has 250, a text in cosign's form 300.
pub const SIGNATURE_BYTES_MAX: u64 = 16 * 1024;

/// Signatures of one component that are looked at. Each costs a request and some checks, and strangers may add them.
pub const SIGNATURES_MAX: usize = 16;

// ---- daemon ----

/// Open files that a daemon asks the system for: a connection each, and some ten for a session at work, which has its
/// journal, its repository, a provider's connection, and calls with `tool_boundary::Limits::files_open` each.
pub const FILES_OPEN_WANTED: u64 = 8_192;

/// Seconds that a stopping daemon gives its sessions to end: reports are written by then, or never.
pub const STOP_SECONDS_MAX: u64 = 5;

/// Time that an idle daemon still listens before it exits: a client that read its record just before has connected by
/// then.
pub const LEAVE_MS: u64 = 200;

/// Bytes of each of the daemon's logs before it is rotated; one older file is kept. Weeks of use, and no disk is filled.
pub const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;

// ---- repository ----

/// Entries that one walk of a repository looks at. The largest public trees have a few hundred thousand; a tree of a million
/// files with its directories fits, and costs some 250 MB, which is what a daemon can bear.
pub const SCAN_ENTRIES_MAX: u64 = 2_000_000;

/// Threads of one walk. Directory reading stops gaining beyond this on the machines that were measured.
pub const SCAN_THREADS_MAX: usize = 8;

/// Time that everything must be unchanged before a walk for its list to be used again. Within one tick of a file
/// system's clock two changes look the same; ticks are below this on everything in use.
pub const SCAN_SETTLING_MS: u64 = 1_000;

/// Largest ignore file that counts. Real ones have a few kilobytes.
pub const IGNORE_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Patterns of one ignore file that counts. Compiling one takes up to 70 µs and 4 KB; real files have some dozens.
pub const IGNORE_FILE_PATTERNS_MAX: usize = 4_000;

/// Longest pattern of an ignore file that counts. The longest path that Linux opens has as many bytes.
pub const IGNORE_PATTERN_BYTES_MAX: usize = 4 * 1024;

/// Bytes of the user's own ignore files that count in one walk. The ignore files of the Linux kernel's tree have 30 KB together.
pub const IGNORE_WALK_BYTES_MAX: u64 = 1024 * 1024;

/// Patterns of the user's own ignore files that count in one walk. A short pattern costs as much as a long one, so
/// [`IGNORE_WALK_BYTES_MAX`] alone would allow half a million.
pub const IGNORE_WALK_PATTERNS_MAX: usize = 8_000;

/// The budget of a walk for ignore files of other people: in directories of packages and in nested work trees. It is
/// separate, so that these files cannot use up the budget of the user's own.
pub const IGNORE_FOREIGN_BYTES_MAX: u64 = 512 * 1024;

/// See [`IGNORE_FOREIGN_BYTES_MAX`].
pub const IGNORE_FOREIGN_PATTERNS_MAX: usize = 4_000;

/// Nested directories whose ignore files count. Each entry is matched against the rules of all directories above it.
pub const IGNORE_LEVELS_MAX: usize = 64;

// ---- stage ----

/// Bytes of the files that one proposal replaces or deletes, beside `tool_boundary::Limits::staged_bytes` for what it
/// writes. They are held in memory and written to the journal; a deletion may concern a larger file than a model writes.
pub const REPLACED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Longest path of a proposal, and of any name that a call gives, in bytes: what Linux takes in one call.
pub const PATH_BYTES_MAX: usize = 4095;

// ---- process, git and recipes ----

/// Longest run of a test recipe. Suites that need longer belong to CI, not to a conversation.
pub const TESTS_SECONDS_MAX: u64 = 15 * 60;

/// Longest installation: a few wheels over a slow line.
pub const INSTALL_SECONDS_MAX: u64 = 10 * 60;

/// Longest question to an interpreter about itself. A cold start from a slow disk takes a second or two.
pub const PROBE_SECONDS_MAX: u64 = 10;

/// Output after which a run is ended. The most talkative suites write some tens of MiB.
pub const PROCESS_OUTPUT_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Output that is shown live. The report holds the rest; a longer stream is too much to read.
pub const PROCESS_LIVE_BYTES_MAX: usize = 1024 * 1024;

// ---- session ----

/// Sessions in `session_history.json` and in GET /history (specification: the last 100), and in GET /tasks.
pub const HISTORY_ENTRIES_MAX: usize = 100;

/// Old and new contents of the files that one session changes. Two proposals as large as one can be, and a hundred times
/// what an honest session writes.
pub const SESSION_CONTENTS_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Sessions under way at once. Each may hold a provider connection and a packet of up to a megabyte; the next one gets
/// the error that the backend is busy.
pub const SESSIONS_RUNNING_MAX: usize = 256;

/// Longest time that a request may give its session: a day. A longer one is refused.
pub const SESSION_SECONDS_MAX: u64 = 86_400;

/// Most tokens that a request may give its session: a billion, which no day of any model reaches.
pub const SESSION_TOKENS_MAX: u64 = 1_000_000_000;

/// Strings in the arguments that a `skill` event shows (design: 4 KiB). Whole file contents help no watcher.
pub const EVENT_ARGUMENT_BYTES_MAX: usize = 4 * 1024;

/// A tool call's arguments and result as the journal keeps them. Contents of changed files are kept apart and whole.
pub const JOURNAL_TOOL_BYTES_MAX: usize = 64 * 1024;

/// Time between two tries to write down a session that has ended while the disk was full.
pub const JOURNAL_RETRY_MS: u64 = 1_000;

/// Time in which an approval must be answered; then it is refused.
pub const APPROVAL_SECONDS_MAX: i64 = 300;

/// Time that the end of a session waits for a change that is being put in place. It is milliseconds; where it is not,
/// the next start finishes it.
pub const OPEN_CHANGE_MS_MAX: u64 = 2_000;

/// The one line that tells people how a skill call went.
pub const SUMMARY_BYTES_MAX: usize = 200;

// ---- http ----

/// Largest body of a request. A task of a megabyte is no task; contents of files are never sent.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Time that open connections get to end after the sessions have ended.
pub const CONNECTIONS_DRAIN_MS: u64 = 500;
/// Configuration and lists of alternates that are looked at by the engine itself.
pub const GIT_CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// Manifests and interpreter configurations that a recipe reads. The largest package.json are some 100 KiB.
pub const RECIPE_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

// ---- provider ----

/// Largest single event of a provider's stream. A whole `write_file` call may come in one event; nothing honest is
/// larger than what a model can write in one answer.
pub const SSE_FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// First byte of an answer. A local model that is loaded on demand takes minutes.
pub const PROVIDER_FIRST_BYTE_SECONDS_MAX: u64 = 600;

/// Silence within an answer. Long thinking without a sign of life is usual up to a few minutes.
pub const PROVIDER_IDLE_SECONDS_MAX: u64 = 300;

/// Attempts of one request. With the waits below, a provider that is down for good costs less than 10 s.
pub const PROVIDER_ATTEMPTS_MAX: u32 = 4;

/// Longest wait that a provider may impose by `Retry-After`: what the specification tells users to wait.
pub const PROVIDER_RETRY_SECONDS_MAX: u64 = 60;

// ---- turn ----

/// Rounds with tools in one turn, where the user sets no other bound. Long refactorings need some 30.
pub const TURN_STEPS_MAX: u32 = 60;

/// Calls of one session that run at the same time. Fewer than `tool_boundary::Limits::calls_concurrent`, so that a session
/// whose calls all take their whole time leaves room for others.
pub const TOOL_CALLS_CONCURRENT_MAX: usize = 6;

/// Calls that one round may ask for. Models ask for up to ten; a hundred is a loop.
pub const TOOL_CALLS_PER_ROUND_MAX: usize = 32;

/// Occurrences of one call with one answer that end a turn: nothing new can come.
pub const TOOL_CALL_REPEATS_MAX: usize = 4;

/// Answers in a row that the output limit cut off within a tool call. A model that does not adapt after one hint and
/// a second one never will.
pub const CUT_OFF_ROUNDS_MAX: u32 = 3;

/// Longest tool result that goes to the model, about 50,000 tokens; skills page theirs far below.
pub const TOOL_RESULT_BYTES_MAX: usize = 200 * 1024;

/// Context of a model that does not tell its own (the specification's 200,000 tokens).
pub const CONTEXT_TOKENS: u64 = 200_000;

/// Context below which prompt and tools are short, and tokens are counted: in full, the twelve skills and the prompt take
/// 5,000 tokens.
pub const SHORT_CONTEXT_TOKENS: u64 = 16 * 1024;

/// Context below which the model is offered four skills, and finds the others with `find_skill`.
pub const FEW_TOOLS_CONTEXT_TOKENS: u64 = 8 * 1024;

/// Context below which no skill is offered: four of them and the results of some calls do not fit.
pub const TOOLS_CONTEXT_TOKENS_MIN: u64 = 6 * 1024;

/// Estimated tokens of a conversation in a context: a fifth is left for the answer, and for the error of the estimate.
pub const fn conversation_tokens(context_tokens: u64) -> u64 {
    context_tokens / 5 * 4
}

/// Longest wait for running tools after a cancellation; they see it themselves within milliseconds.
pub const TOOLS_STOP_SECONDS_MAX: u64 = 3;

// ---- context ----

/// Files of a selection, at the least (specification: 4 to 6).
pub const SELECTED_FILES_MIN: usize = 4;

/// Files of a selection, at the most (specification: 4 to 6).
pub const SELECTED_FILES_MAX: usize = 6;

/// Tokens of a packet: six files of 4,000 tokens, about 400 lines each, with room for notes. Less than a fifth of a
/// context of 200,000, so that a conversation of many tool calls still fits.
pub const PACKET_TOKENS: u64 = 28_000;

/// Wall time of reading one file by its syntax tree. A tree costs a second per 4 MB, so that the largest file that is
/// ranked takes a third of one; the rest is for a machine whose processors have better things to do.
pub const OUTLINE_WALL_MS_MAX: u64 = 5_000;

/// Linear memory of the same. A tree takes about twenty times its source, which is 1 MiB at the most.
pub const OUTLINE_MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of what such a reading gives and gets: a file of 1 MiB, and all the places that it may name.
pub const OUTLINE_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Largest file that takes part in ranking and in the graph of imports. Written code stays far below it.
pub const RANKED_FILE_BYTES_MAX: u64 = 1024 * 1024;

// ---- process: contain ----

/// The root file system of a run: mount points and some files of `/etc`.
pub const CONTAIN_ROOT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Files and directories of it.
pub const CONTAIN_ROOT_INODES_MAX: u64 = 16 * 1024;

/// Bytes that a run may write into its repository, in memory. Build products of a large project fit, a disk does not.
pub const CONTAIN_TREE_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Files and directories that a run may make there: more than the largest `node_modules`.
pub const CONTAIN_TREE_INODES_MAX: u64 = 512 * 1024;

/// Home, temporary files and shared memory of a run together; they lie in memory.
pub const CONTAIN_SCRATCH_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Files and directories of these.
pub const CONTAIN_SCRATCH_INODES_MAX: u64 = 256 * 1024;

/// Processes and threads of a run. Suites with a worker for each of 64 cores stay below it.
pub const CONTAIN_TASKS_MAX: u64 = 2048;

/// Addresses of one process. Browsers and node reserve up to a tebibyte that they never use.
pub const CONTAIN_ADDRESSES_MAX: u64 = 2 * 1024 * 1024 * 1024 * 1024;

/// Open files of one process: what programs assume where they ask for many.
pub const CONTAIN_FILES_OPEN_MAX: u64 = 64 * 1024;

/// Memory that one process may keep from being swapped out: what kernels allow by default.
pub const CONTAIN_LOCKED_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Time for trying out whether a sandbox works; it takes some ten milliseconds.
pub const CONTAIN_PROBE_SECONDS_MAX: u64 = 10;

/// Entries of a repository that are looked at for hidden ones before a run, installed packages included.
pub const CONTAIN_ENTRIES_MAX: u64 = 4_000_000;

// ---- process: confine ----

/// Interval at which the engine checks the clock and the session's token while a helper works: a cancellation's delay.
pub const CONFINE_TICK_MS: u64 = 5;

/// Memory of a helper that tries to get out: little, so that an attempt to take more does no harm.
pub const CONFINE_PROBE_BYTES_MAX: u64 = 256 * 1024 * 1024;

// ---- changes ----

/// Time of one run of the tests that the host makes by itself. Suites of most projects need seconds; a suite that needs
/// more than five minutes is not run again after a refactor, and the user reads why.
pub const SUITE_SECONDS_MAX: u64 = 300;

/// Seconds for all checks together that `refactor` runs before a change, and again after it. A linter takes some seconds;
/// a compiler without a cache takes longer, and its check is then named as not run.
pub const CHECKS_SECONDS_MAX: u64 = 120;

/// Bytes of such a run's results that the model reads: the first failures, with their details.
pub const SUITE_TOLD_BYTES_MAX: usize = 16 * 1024;

// ---- other agents ----

/// Bytes of one message of another agent. The largest honest one writes a file: `ARGUMENT_BYTES_MAX`, which the escapes
/// of JSON may double.
pub const MCP_MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Other agents that are connected at a time, a quarter of the sessions that may be under way: a user has a handful.
pub const MCP_CONNECTIONS_MAX: usize = 64;

/// Calls of one connection at a time. A model asks for some dozens at once at most, and eight of them work.
pub const MCP_CALLS_MAX: usize = 32;

/// Longest wait for a client to list its roots: it knows them, and a call waits.
pub const MCP_ROOTS_SECONDS_MAX: u64 = 10;
