//! Every bound in the engine, each with its reason.

/// Largest file that the context engine or a skill of ours reads whole. Source files are far smaller; generated ones
/// that are larger help nobody.
pub const FILE_READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

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
/// of that length are the longest that anybody waits for at a terminal.
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

/// Bytes that one host call copies, in either direction. Larger reads return less, as the interface allows; a larger
/// argument is a trap. It bounds what the host allocates for a guest, which its own memory bound does not see, and is
/// above [`OUTPUT_BYTES_MAX`] with its list of deletions.
pub const HOST_CALL_BYTES_MAX: usize = 4 * 1024 * 1024;

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

/// Globs of one list query, and bytes of each: compiling them is work done in the host.
pub const LIST_GLOBS_MAX: usize = 64;
/// See [`LIST_GLOBS_MAX`].
pub const LIST_GLOB_BYTES_MAX: usize = 1_024;

/// Calls at work at the same time in the process, parts of a sharded call included. The work is bound by processors
/// and memory: eight calls at [`CALL_MEMORY_BYTES_MAX`] are 2 GiB.
pub const CALLS_CONCURRENT_MAX: usize = 8;

/// Calls that wait for a turn. A model asks for at most a few dozen at once; more is a fault somewhere.
pub const CALLS_WAITING_MAX: usize = 128;

/// How long a call waits for its turn: as long as the calls before it may take.
pub const CALL_TURN_WAIT_MS_MAX: u64 = 60_000;

/// Parts of a sharded call. Beyond the number of cores of a laptop nothing is gained.
pub const CALL_PARTS_MAX: usize = 8;

/// Size of a component. CPython with its library takes 18 MB.
pub const COMPONENT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Size of one function body of a foreign component. Memory and time of the compiler grow faster than the function;
/// the interpreter loops of CPython and SpiderMonkey are below 300 kB.
pub const COMPONENT_FUNCTION_BYTES_MAX: usize = 1024 * 1024;

/// Time for compiling one foreign component. The largest known take 8 s on two cores.
pub const COMPILE_MS_MAX: u64 = 120_000;

/// Bytes of a descriptor's texts (description and schema), each. Both are sent to the model with every request.
pub const DESCRIPTOR_TEXT_BYTES_MAX: usize = 64 * 1024;
