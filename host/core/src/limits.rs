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

/// Largest file in which a name is looked for. The index knows the trigrams of files up to this size.
pub const SEARCHED_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Time-out of a repository scan (specification: 60 seconds).
pub const SCAN_SECONDS_MAX: u64 = 60;

// ---- skill sandbox ----

/// Linear memory of one call, all instances of it together. A component in Python needs about 60 MiB before it does
/// anything and a syntax tree of the largest source file we read (8 MiB) about 120 MiB; twice that is room to work,
/// and [`CALLS_CONCURRENT_MAX`] calls at the bound still fit a small machine.
pub const CALL_MEMORY_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Wall time of one call, host calls included. A model waits for it, and the slowest honest call (a search over a
/// Linux kernel tree) takes a second.
pub const CALL_WALL_MS_MAX: u64 = 30_000;

/// Wall time that one call may spend in recipes (tests, installs), which are outside [`CALL_WALL_MS_MAX`]. Test suites
/// of that length are the longest that a user waits for at a terminal.
pub const CALL_RECIPE_MS_MAX: u64 = 15 * 60_000;

/// Wall time of `describe`, which only builds a constant. A Python component takes a tenth of a second.
pub const DESCRIBE_WALL_MS_MAX: u64 = 5_000;

/// Interval of the epoch. A spinning guest ends this much after its deadline; at 100 Hz the ticking itself costs
/// nothing that can be measured, and it rests while no call runs.
pub const EPOCH_TICK_MS: u64 = 10;

/// Bytes of one answer (the contract's number). More than that fills any model's context several times over.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of log messages and of standard output and error that one call may leave in our log.
pub const CALL_LOG_BYTES_MAX: usize = 64 * 1024;

/// Bytes at the end of standard error that are kept to explain a crash. A panic's message is one or two lines.
pub const STDERR_TAIL_BYTES: usize = 2 * 1024;

/// Random bytes of one call. Hash seeds take 16; a component in Python takes a few kilobytes.
pub const CALL_RANDOM_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes that one host call or answer copies. Larger reads return less, as the interface allows; a larger argument or
/// answer is a trap. It bounds what the host allocates for a guest, which the guest's own memory bound does not see.
/// The largest honest one is a batch with one large file: what is searched may be as large as this.
pub const HOST_CALL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that one call may read from the repository. Ten times a Linux kernel tree; a guest that reads more goes in
/// circles.
pub const CALL_READ_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// Directory entries that one call may walk by itself. A tree of more belongs to the host's list, which is bounded
/// elsewhere.
pub const CALL_ENTRIES_MAX: u64 = 2_000_000;

/// Table elements of one call, all tables together. The largest component known to us (CPython) has 20,000.
pub const CALL_TABLE_ELEMENTS_MAX: u64 = 200_000;

/// Core instances, memories and tables of one call. A component in Python with its dynamic libraries has about 50.
pub const CALL_INSTANCES_MAX: usize = 200;

/// Live handles (descriptors, streams, pollables) of one call. Honest guests hold a handful.
pub const CALL_HANDLES_MAX: usize = 1_024;

/// Different lists of globs that the readers of one call hold at a time. Each is compiled in the memory of the host, where
/// globs that are made for it take megabytes; the parts of an honest call share one.
pub const CALL_GLOBS_MAX: usize = 8;

/// Open files and directories of one call: a recursive walk holds one a level. Times [`CALLS_CONCURRENT_MAX`] it stays
/// below 1,024, the usual number of a process, so that no call takes another's.
pub const CALL_FILES_OPEN_MAX: usize = 64;

/// Bytes of a proposal. Source files are small; a model writes a few kilobytes a call.
pub const STAGED_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Files and directories of a proposal. A rename of a package touches a few hundred.
pub const STAGED_ENTRIES_MAX: u64 = 2_000;

/// Entries of one page of the file list. A page of typical paths is half a megabyte, and a Linux kernel tree ten pages.
pub const LIST_PAGE_ENTRIES_MAX: usize = 8_192;

/// Bytes of paths in one page of the file list, for trees whose paths are long.
pub const LIST_PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes after which a batch of files is handed over. It is written, copied and searched while it is in the cache of a
/// processor; smaller ones make more calls, and larger ones were measured to be slower.
pub const BULK_BATCH_BYTES: usize = 256 * 1024;

/// Files of a batch. Empty files do not count against the bytes of a batch, so their number needs a bound too.
pub const BULK_BATCH_FILES_MAX: usize = 512;

/// Less than this, files counted with what opening them costs, is not worth a part of its own: an instance costs as much
/// as reading some tens of kilobytes.
pub const BULK_RUN_BYTES_MIN: u64 = 1024 * 1024;

/// Globs of one list query, and bytes of each: compiling them is work done in the host.
pub const LIST_GLOBS_MAX: usize = 64;
/// See [`LIST_GLOBS_MAX`].
pub const LIST_GLOB_BYTES_MAX: usize = 1_024;

/// Calls at work at the same time in the process, parts of a sharded call included. The work is bound by processors
/// and memory: eight calls at [`CALL_MEMORY_BYTES_MAX`] are 2 GiB.
pub const CALLS_CONCURRENT_MAX: usize = 8;

/// Calls that wait for a turn. A model asks for at most a few dozen at once; more is a fault somewhere.
pub const CALLS_WAITING_MAX: usize = 128;

/// Calls that wait for a person's answer. They hold no turn, or eight open questions would stop all work; but each
/// keeps its memory for up to [`APPROVAL_SECONDS_MAX`]. A person answers only a few at a time, and with those at work
/// they fit into the pool of instances.
pub const CALLS_ASKING_MAX: usize = 16;

/// Of these, calls of one session: its open questions leave room for those of other sessions.
pub const SESSION_CALLS_ASKING_MAX: usize = 4;

/// Runs of tests and installations under way at the same time. Their calls hold no turn, or as many suites as there are
/// turns would stop all work for a quarter of an hour; each is bounded by itself (`CONTAIN_MEMORY_BYTES_MAX`), and more
/// suites at once than a laptop has cores make each other late.
pub const CALLS_RUNNING_MAX: usize = 8;

/// Calls that wait for one of these to end, without a turn. They keep their memory, as those do whose programs run: ours
/// have less than 2 MiB by then. A call begins only with a turn, so that with those at work and those that ask there are
/// never more than 40. They have 10 GiB where each is at [`CALL_MEMORY_BYTES_MAX`], which takes components of a team that
/// are made for it and that their user has granted to run programs. All of them fit into the pool of instances.
pub const CALLS_RUN_WAITING_MAX: usize = 8;

/// Of both, calls of one session. An agent that starts one suite after the other leaves runs to the other sessions.
pub const SESSION_CALLS_RUNNING_MAX: usize = 4;

/// Longest wait of a call for its turn: as long as the calls before it may take. The wait for a run is as long.
pub const CALL_TURN_WAIT_MS_MAX: u64 = 60_000;

/// Parts of a sharded call at work at the same time. Beyond the number of cores of a laptop nothing is gained.
pub const CALL_PARTS_MAX: usize = 8;

/// Parts that a sharded call is split into for each thread at work: a thread that is done early takes the next part, so
/// that one slow part or a busy processor does not make the others wait.
pub const CALL_PARTS_PER_THREAD: usize = 4;

/// Size of a component. CPython with its library takes 18 MB.
pub const COMPONENT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Size of one function body of a foreign component. Memory and time of the compiler grow faster than the function;
/// the interpreter loops of CPython and SpiderMonkey are below 300 kB.
pub const COMPONENT_FUNCTION_BYTES_MAX: usize = 1024 * 1024;

/// Time for compiling one foreign component. The largest known take 8 s on two cores.
pub const COMPILE_MS_MAX: u64 = 120_000;

/// Memory of one compilation, all its threads together; on a machine with less than twice this, half of what it has. The
/// largest known components take about 1 GiB on eight cores.
pub const COMPILE_MEMORY_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Largest compiled component that is taken; native code is a few times larger than wasm.
pub const COMPILED_BYTES_MAX: u64 = 8 * COMPONENT_BYTES_MAX;

/// Bytes of a skill's file of cases. Texts of answers are in it; what is longer belongs into the fixture.
pub const CASES_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Cases of a skill. Each copies the fixture and runs a call, some milliseconds.
pub const CASES_MAX: usize = 1000;

/// Files, folders and links that are copied for each case: a small repository, not a whole one.
pub const CASE_FIXTURE_ENTRIES_MAX: usize = 10_000;

/// Bytes that are copied for each case.
pub const CASE_FIXTURE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes of a text that are shown where a case fails: enough to see what differs.
pub const CASE_SHOWN_BYTES_MAX: usize = 4 * 1024;

/// Bytes of a descriptor's texts (description and schema), each. Both are sent to the model with every request.
pub const DESCRIPTOR_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Parts of a schema with every reference put in place of itself. The largest of ours has 150; a schema as long as it may
/// be and without references has 15,000.
pub const SCHEMA_PARTS_MAX: u64 = 20_000;

/// Levels of a schema, references included. Validating takes stack for each, and a thread has 2 MiB.
pub const SCHEMA_DEPTH_MAX: usize = 64;

/// Size of one compiled pattern of a schema. Those of names and versions take a few kilobytes.
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 256 * 1024;

/// Parts of a schema times values in the arguments: what validating looks at, in the daemon and before the call has a
/// deadline. It takes half a second.
pub const SCHEMA_WORK_MAX: u64 = 8_000_000;

/// Beyond this much of [`SCHEMA_WORK_MAX`] the host does not look for the place that does not fit: every branch that
/// was tried leaves an error of some 300 bytes.
pub const SCHEMA_ERROR_WORK_MAX: u64 = 200_000;

/// Bytes of one call's arguments. A model writes at most 128,000 tokens in one answer, half a megabyte.
pub const ARGUMENT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of the cursor of an answer, which the model repeats word by word. The longest of ours has a path and a number.
pub const CURSOR_BYTES_MAX: usize = 8 * 1024;

// ---- redaction ----

/// Keys that a session keeps apart. A repository with more is a collection of test vectors; what is found beyond them is
/// replaced all the same, and cannot be put back.
pub const REDACTION_KEYS_MAX: usize = 4_096;

/// Bytes of one key that is kept. A private key in one line has 3,300; together with [`REDACTION_KEYS_MAX`] it bounds
/// what a session remembers to 64 MiB.
pub const REDACTION_KEY_BYTES_MAX: usize = 16 * 1024;

/// Lines of one private key. The largest in use, RSA of 16,384 bits, has 200.
pub const REDACTION_KEY_LINES_MAX: usize = 256;

/// Files that a session names as places of redacted keys. A notice with more is not read.
pub const REDACTION_FILES_NAMED_MAX: usize = 32;

/// Strings in one call's arguments that are looked up as files because what they hold may be shown in parts.
pub const REDACTION_FILES_LEARNED_MAX: usize = 16;

// ---- taint ----

/// Places outside the user's own files that one call records. A directory of packages counts once. A call with more
/// places taints, so the bound is above the number of logs and lock files in a usual repository.
pub const CALL_PLACES_MAX: usize = 1_024;

/// Places outside of the user's own files that one call, and a session, remember by name. One is enough to taint.
pub const FOREIGN_PLACES_MAX: usize = 16;

// ---- `.tool.toml` ----

/// Bytes of a repository's `.tool.toml`. A long one has two kilobytes.
pub const ROOT_FILE_BYTES_MAX: u64 = 64 * 1024;

// ---- skills of a team ----

/// Components of a team that are looked at, and that a lock file names. Each costs a look at its file whenever skills are
/// listed, and a model that is offered more tools than that chooses badly.
pub const TEAM_SKILLS_MAX: usize = 128;

/// Bytes of a lock file: [`TEAM_SKILLS_MAX`] rows have some 50 kilobytes.
pub const LOCK_BYTES_MAX: u64 = 256 * 1024;

/// Bytes of a key, and of what was signed: a key has 250, a text in cosign's form 300.
pub const SIGNATURE_BYTES_MAX: u64 = 16 * 1024;

/// Signatures of one component that are looked at. Each costs a request and some checks, and strangers may add them.
pub const SIGNATURES_MAX: usize = 16;

/// Redirects that one blob is followed through. Registries send once, to their storage.
pub const REGISTRY_REDIRECTS_MAX: usize = 5;

/// Bytes of the answer to a question for a token. Tokens that name many rights have some kilobytes.
pub const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Paths of each kind that an audit keeps. A skill that touches more touches everything.
pub const AUDIT_PATHS_MAX: usize = 10_000;

// ---- daemon ----

/// Open files that a daemon asks the system for: a connection each, and some ten for a session at work, which has its
/// journal, its repository, a provider's connection, and calls with [`CALL_FILES_OPEN_MAX`] each.
pub const FILES_OPEN_WANTED: u64 = 8_192;

/// Seconds that a stopping daemon gives its sessions to end: reports are written by then, or never.
pub const STOP_SECONDS_MAX: u64 = 5;

/// Longest time that a starting daemon tries to get the lock while no holder publishes its address, and that a client
/// waits for that address: a look at the lock lasts microseconds, a start some ten milliseconds.
pub const LOCK_PATIENCE_MS: u64 = 2_000;

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

/// Entries of hidden directories whose identity is remembered, so that hard links to them are refused. Folders of keys
/// and credentials hold a handful.
pub const HIDDEN_ENTRIES_MAX: u64 = 10_000;

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

/// Compiled ignore files that are kept for the next walk. Repositories of one team have a handful, the largest some
/// hundreds.
pub const IGNORE_FILES_KEPT_MAX: usize = 1_024;

/// Ignore files over a budget that one answer names.
pub const IGNORE_NAMED_MAX: usize = 8;

// ---- stage ----

/// Bytes of the files that one proposal replaces or deletes, beside [`STAGED_BYTES_MAX`] for what it writes. They are
/// held in memory and written to the journal; a deletion may concern a larger file than a model writes.
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

/// Largest file that a run may write: more than any build product, less than a disk.
pub const PROCESS_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Rounds that look for the processes that left a run's group. Each round ends those that the round before missed.
pub const PROCESS_STRAY_ROUNDS_MAX: u32 = 5;

/// Bytes that are read of a process's environment: what the kernel allows for one by default.
pub const PROCESS_ENVIRONMENT_BYTES_MAX: u64 = 2 * 1024 * 1024;

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

/// Journal bytes that a stream reads at once. Bounds what a reader holds that has fallen behind.
pub const REPLAY_BYTES_MAX: usize = 256 * 1024;

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
/// Longest that a question to git may take. Hashing a large tree whose index is stale takes seconds, not minutes; the
/// call's own limit ends it earlier.
pub const GIT_SECONDS_MAX: u64 = 60;

/// Git operations at the same time. Where no helper does them, those that were given up and still hang count.
pub const GIT_OPERATIONS_MAX: usize = 16;

/// Memory of one helper for git. Storing a file of the largest size with its line ends changed takes three times it.
pub const GIT_MEMORY_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Addresses of one helper for git: its memory, this program, and windows into packs and their indices.
pub const GIT_ADDRESS_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Size of one mapped window of a pack.
pub const GIT_PACK_WINDOW_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of all packs that are mapped together.
pub const GIT_PACK_MAPPED_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Objects that a helper keeps unpacked.
pub const GIT_CACHE_BYTES_MAX: isize = 64 * 1024 * 1024;

/// Changes that are looked at for one diff or one commit, hidden ones included: a checkout of a very large project whose
/// every file was touched.
pub const GIT_DELTAS_MAX: usize = 500_000;

/// Changes on one page of a helper's answer.
pub const GIT_PAGE: usize = 256;

/// Largest file that a helper writes: a stored file, or an index.
pub const GIT_FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Objects of one commit, and their bytes: half a million files, and a disk's worth of room.
pub const GIT_OBJECTS_MAX: usize = 1_000_000;

/// Bytes of all new objects of one commit.
pub const GIT_OBJECT_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// A file of a few lines in a git directory: `HEAD`, `commondir`, a branch. Paths are not longer.
pub const GIT_LINE_FILE_BYTES_MAX: u64 = 16 * 1024;

/// Configuration and lists of alternates that are looked at by the engine itself.
pub const GIT_CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// Object directories that a repository may borrow from, directly and through each other.
pub const GIT_ALTERNATES_MAX: usize = 32;

/// Files of the user's own git configuration, with what they include.
pub const GIT_CONFIG_FILES_MAX: usize = 64;

/// Bytes that are shown of a helper's error message.
pub const GIT_MESSAGE_SHOWN_BYTES_MAX: usize = 2 * 1024;

/// A piece of a file on its way into git's objects.
pub const GIT_CHUNK_BYTES: usize = 1024 * 1024;

/// Files of one diff. A change that touches more is no change to read but a move or a reformatting.
pub const GIT_CHANGES_MAX: usize = 5_000;

/// Patch of one file: some thousand lines, more than fits any conversation.
pub const GIT_PATCH_BYTES_MAX: usize = 256 * 1024;

/// Patches of one diff together; a skill's answer holds at most a quarter of this.
pub const GIT_DIFF_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Lines of context around a change. With more than this the reader wants the file, not the diff.
pub const GIT_CONTEXT_LINES_MAX: u32 = 100;

/// Paths that one request may name; a request for more should name a directory.
pub const GIT_PATHS_MAX: usize = 1_000;

/// Commits on one page of a log.
pub const GIT_LOG_COMMITS_MAX: usize = 200;

/// Commits that one page of a log looks at before it ends early with a cursor: a few seconds of work.
pub const GIT_LOG_STEPS_MAX: usize = 20_000;

/// Commits that a log can go back in all its pages. The longest histories have about a million.
pub const GIT_LOG_SKIP_MAX: usize = 2_000_000;

/// Bytes that are shown of an old commit's message.
pub const GIT_LOG_MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Lines that one question attributes to their commits.
pub const GIT_BLAME_LINES_MAX: usize = 2_000;

/// Length of a revision's name. Git refuses names of branches beyond this on most file systems.
pub const GIT_REVISION_BYTES_MAX: usize = 256;

/// Largest file that a commit takes up. Hosts refuse files beyond 100 MiB.
pub const GIT_COMMIT_FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Longest commit message; the longest honest ones are release notes.
pub const GIT_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Diff that a question holds, shown or not, before it goes on with names and the digests of contents alone.
pub const GIT_QUESTION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Manifests and interpreter configurations that a recipe reads. The largest package.json are some 100 KiB.
pub const RECIPE_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Packages of one installation; more is a list that belongs into a manifest.
pub const RECIPE_PACKAGES_MAX: usize = 50;

/// Longest package name with its constraint. npm allows 214 bytes for the name alone.
pub const RECIPE_PACKAGE_BYTES_MAX: usize = 300;

/// Manifests, lock files and other records of npm that a session has written to and that are compared with what they
/// held; more count as changed. No session of an honest model writes to as many.
pub const INSTALL_RECORDS_MAX: usize = 1000;

/// Largest record that is compared; a larger one counts as changed. Lock files of thousands of packages have a few MiB.
pub const INSTALL_RECORD_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Largest `package.json` whose fields are looked at; a larger one counts as a whole. They have a few KiB, and what is
/// parsed takes ten times as much memory for a moment.
pub const INSTALL_MANIFEST_BYTES_MAX: usize = 1024 * 1024;

/// Packages that a question about an installation names beside those that were asked for. A longer list is too much to
/// read.
pub const INSTALL_LISTED_MAX: usize = 100;

/// Longest name with its specifier in such a question: an address with a commit, and room.
pub const INSTALL_LISTED_CHARS_MAX: usize = 400;

/// Longest filter expression of a test run.
pub const RECIPE_FILTER_BYTES_MAX: usize = 2048;

/// Paths of one test run; more do not fit one command line with certainty.
pub const RECIPE_PATHS_MAX: usize = 200;

// ---- provider ----

/// Largest single event of a provider's stream. A whole `write_file` call may come in one event; nothing honest is
/// larger than what a model can write in one answer.
pub const SSE_FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that are read of an error's body: the sentence stands at its start, and proxies answer with whole pages.
pub const PROVIDER_ERROR_BYTES_MAX: usize = 64 * 1024;

/// Longest quotation of a provider's own words in a message of ours: one line of a terminal or two.
pub const PROVIDER_QUOTE_CHARS_MAX: usize = 240;

/// Reaching a host takes at most this long; past it the address is wrong or a firewall swallows the packets.
pub const PROVIDER_CONNECT_SECONDS_MAX: u64 = 15;

/// First byte of an answer. A local model that is loaded on demand takes minutes.
pub const PROVIDER_FIRST_BYTE_SECONDS_MAX: u64 = 600;

/// Silence within an answer. Long thinking without a sign of life is usual up to a few minutes.
pub const PROVIDER_IDLE_SECONDS_MAX: u64 = 300;

/// Time that an answer is read on after it has ended by its own account: the usage report comes after the end, but some
/// servers then never close the connection.
pub const PROVIDER_CLOSING_SECONDS_MAX: u64 = 2;

/// Tool calls of one answer. A model asks for some dozens at most, and each piece of a stream is compared with all calls so
/// far.
pub const PROVIDER_CALLS_MAX: usize = 256;

/// Attempts of one request. With the waits below, a provider that is down for good costs less than 10 s.
pub const PROVIDER_ATTEMPTS_MAX: u32 = 4;

/// Longest wait that a provider may impose by `Retry-After`: what the specification tells users to wait.
pub const PROVIDER_RETRY_SECONDS_MAX: u64 = 60;

// ---- turn ----

/// Rounds with tools in one turn, where the user sets no other bound. Long refactorings need some 30.
pub const TURN_STEPS_MAX: u32 = 60;

/// Calls of one session that run at the same time. Fewer than [`CALLS_CONCURRENT_MAX`], so that a session whose calls all
/// take their whole time leaves room for others.
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

/// Files read to find the central ones where there is no task. Enough for what two or three steps of imports reach from
/// an entry point, few enough to be read in some ten milliseconds.
pub const CENTRAL_FILES_READ_MAX: usize = 400;

// ---- provider: context size, model lists, probe ----

/// Asking a server for the size of its context, all places where it may stand together: a session waits for it.
pub const PROVIDER_CONTEXT_SECONDS_MAX: u64 = 2;

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

/// Room that must be free for temporary files before attempts to get out are made: some write as much as they are let,
/// and one that ends for want of room shows nothing.
pub const PROBE_ROOM_BYTES: u64 = 64 * 1024 * 1024;

/// Entries of a repository that are looked at for hidden ones before a run, installed packages included.
pub const CONTAIN_ENTRIES_MAX: u64 = 4_000_000;

// ---- process: confine ----

/// Interval at which the engine checks the clock and the session's token while a helper works: a cancellation's delay.
pub const CONFINE_TICK_MS: u64 = 5;

/// Memory of a helper that tries to get out: little, so that an attempt to take more does no harm.
pub const CONFINE_PROBE_BYTES_MAX: u64 = 256 * 1024 * 1024;

// ---- answers ----

/// Citations of one answer that are checked. The longest honest answers have some hundred.
pub const CITATIONS_MAX: usize = 2_000;

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

/// Bytes of one message of another agent. The largest honest one writes a file: [`ARGUMENT_BYTES_MAX`], which the escapes
/// of JSON may double.
pub const MCP_MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Other agents that are connected at a time, a quarter of the sessions that may be under way: a user has a handful.
pub const MCP_CONNECTIONS_MAX: usize = 64;

/// Calls of one connection at a time. A model asks for some dozens at once at most, and eight of them work.
pub const MCP_CALLS_MAX: usize = 32;

/// Longest wait for a client to list its roots: it knows them, and a call waits.
pub const MCP_ROOTS_SECONDS_MAX: u64 = 10;
