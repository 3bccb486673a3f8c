//! Every bound in the engine, each with its reason.

/// Largest file that the context engine or a skill of ours reads whole. Source files are far smaller; generated ones
/// that are larger help nobody.
pub const FILE_READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Time-out of a repository scan (specification: 60 seconds).
pub const SCAN_SECONDS_MAX: u64 = 60;

// ---- provider ----

/// Largest single event of a provider's stream. A whole `write_file` call may come in one event; nothing honest is
/// larger than what a model can write in one answer.
pub const SSE_FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Largest answer of one request. The wire repeats some 200 bytes of envelope for each token, and 128,000 tokens is
/// the longest answer that any vendor sells.
pub const PROVIDER_ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How much of an error's body is read: the sentence stands at its start, and proxies answer with whole pages.
pub const PROVIDER_ERROR_BYTES_MAX: usize = 64 * 1024;

/// Longest quotation of a provider's own words in a message of ours: one line of a terminal or two.
pub const PROVIDER_QUOTE_CHARS_MAX: usize = 240;

/// Reaching a host takes at most this long; past it the address is wrong or a firewall swallows the packets.
pub const PROVIDER_CONNECT_SECONDS_MAX: u64 = 15;

/// First byte of an answer. A local model that is loaded on demand takes minutes.
pub const PROVIDER_FIRST_BYTE_SECONDS_MAX: u64 = 600;

/// Silence within an answer. Long thinking without a sign of life is usual up to a few minutes.
pub const PROVIDER_IDLE_SECONDS_MAX: u64 = 300;

/// How long an answer that has ended by its own account is read on: the usage report comes after the end, but some
/// servers then leave the connection open for ever.
pub const PROVIDER_CLOSING_SECONDS_MAX: u64 = 2;

/// Reading the model list: it is shown beside something else and must not make the user wait.
pub const PROVIDER_MODELS_SECONDS_MAX: u64 = 2;

/// Longest model list that is kept. The largest router lists some 500.
pub const PROVIDER_MODELS_MAX: usize = 2000;

/// How often one request is tried. With the waits below, a provider that is down for good costs less than 10 s.
pub const PROVIDER_ATTEMPTS_MAX: u32 = 4;

/// First wait of the exponential back-off; doubled each time.
pub const PROVIDER_RETRY_BASE_MS: u64 = 800;

/// Longest wait that a provider may impose by `Retry-After`: what the specification tells users to wait.
pub const PROVIDER_RETRY_SECONDS_MAX: u64 = 60;

/// Longest text that is held back because it may be a tool call printed as text. A longer one is an answer.
pub const TEXT_CALL_BYTES_MAX: usize = 64 * 1024;

/// Levels of objects, and of JSON within strings, that are unfolded in an upstream's error. Routers nest three errors,
/// each some four levels deep.
pub const ERROR_NESTING_MAX: usize = 16;

// ---- turn ----

/// Rounds with tools in one turn, where the user sets no other bound. Long refactorings need some 30.
pub const TURN_STEPS_MAX: u32 = 60;

/// Calls that run at the same time; more would only queue for the two to sixteen cores of a usual machine.
pub const TOOL_CALLS_CONCURRENT_MAX: usize = 8;

/// Calls that one round may ask for. Models ask for up to ten; a hundred is a loop.
pub const TOOL_CALLS_PER_ROUND_MAX: usize = 32;

/// The same call with the same answer, this many times in a turn, ends it: nothing new can come.
pub const TOOL_CALL_REPEATS_MAX: usize = 4;

/// Answers in a row that the output limit cut off within a tool call. A model that does not adapt after one hint and
/// a second one never will.
pub const CUT_OFF_ROUNDS_MAX: u32 = 3;

/// Longest tool result that goes to the model, about 50,000 tokens; skills page theirs far below.
pub const TOOL_RESULT_BYTES_MAX: usize = 200 * 1024;

/// Estimated tokens of a conversation, past which old tool results are dropped: a little below the specification's
/// context of 200,000, because the estimate errs and the answer needs room.
pub const CONVERSATION_TOKENS_MAX: u64 = 160_000;

/// How long running tools are waited for after a cancellation; they see it themselves within milliseconds.
pub const TOOLS_STOP_SECONDS_MAX: u64 = 3;
