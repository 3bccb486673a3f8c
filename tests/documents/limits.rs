//! The table of limits in the book. A row takes its value from the constant that enforces it, and `scripts/reference`
//! writes the table into `docs/src/limits.md`.

use std::fmt;

use tool_core::limits;
use tool_provider::turn;
use tool_skill::Limits;

use super::compare_generated;

/// A limit of the engine that a user can notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UserLimit {
    /// Part of the product, a heading of the table.
    area: &'static str,
    /// Name in plain words.
    name: &'static str,
    /// Value that is enforced.
    value: LimitValue,
    /// One or two sentences: what happens at the limit, or how to change it. May be empty.
    note: &'static str,
}

/// Value of a limit with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitValue {
    /// A number of things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Seconds.
    Seconds(u64),
    /// Milliseconds.
    Milliseconds(u64),
}

impl fmt::Display for LimitValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count(count) => write_grouped(formatter, count),
            Self::Bytes(bytes) => write_in_units(
                formatter,
                bytes,
                &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)],
                "bytes",
            ),
            Self::Seconds(seconds) => write_in_units(formatter, seconds, &[("h", 3600), ("min", 60)], "s"),
            Self::Milliseconds(ms) if ms % 1000 == 0 => Self::Seconds(ms / 1000).fmt(formatter),
            Self::Milliseconds(ms) => write!(formatter, "{ms} ms"),
        }
    }
}

/// A number with a comma between groups of three digits.
fn write_grouped(formatter: &mut fmt::Formatter<'_>, number: u64) -> fmt::Result {
    let digits = number.to_string();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            formatter.write_str(",")?;
        }
        write!(formatter, "{digit}")?;
    }
    Ok(())
}

/// An amount in the largest unit that divides it.
fn write_in_units(
    formatter: &mut fmt::Formatter<'_>,
    amount: u64,
    units: &[(&str, u64)],
    smallest: &str,
) -> fmt::Result {
    let unit = units
        .iter()
        .find(|(_, size)| amount > 0 && amount.is_multiple_of(*size));
    let (name, size) = unit.copied().unwrap_or((smallest, 1));
    write_grouped(formatter, amount / size)?;
    write!(formatter, " {name}")
}

const fn limit(area: &'static str, name: &'static str, value: LimitValue, note: &'static str) -> UserLimit {
    UserLimit {
        area,
        name,
        value,
        note,
    }
}

const REPOSITORY: &str = "Repository";
const MODEL: &str = "Model";
const SKILLS: &str = "Skills";
const SESSIONS: &str = "Sessions";
const HTTP: &str = "Backend and HTTP";

/// Every limit that the book lists, in its order.
const USER_LIMITS: &[UserLimit] = {
    use LimitValue::{Bytes, Count, Milliseconds, Seconds};
    &[
        limit(
            REPOSITORY,
            "files selected, at least",
            Count(limits::SELECTED_FILES_MIN as u64),
            "Fewer only if the repository has fewer.",
        ),
        limit(
            REPOSITORY,
            "files selected, at most",
            Count(limits::SELECTED_FILES_MAX as u64),
            "Every operation has this maximum.",
        ),
        limit(
            REPOSITORY,
            "tokens of the selected files",
            Count(limits::PACKET_TOKENS),
            "Long files are shortened to the lines that matter. A model with a small context gets less.",
        ),
        limit(
            REPOSITORY,
            "tokens of a context with prompt and skills in full",
            Count(limits::SHORT_CONTEXT_TOKENS),
            "Below, both are short.",
        ),
        limit(
            REPOSITORY,
            "tokens of a context with all skills",
            Count(limits::FEW_TOOLS_CONTEXT_TOKENS),
            "Below, four are offered, and the model finds the others.",
        ),
        limit(
            REPOSITORY,
            "tokens of a context with skills",
            Count(limits::TOOLS_CONTEXT_TOKENS_MIN),
            "Below, `ask` and `explain` send one packet, and the other operations are refused.",
        ),
        limit(
            REPOSITORY,
            "scan of a repository",
            Seconds(limits::SCAN_SECONDS_MAX),
            "Then POST /scan answers 504. An operation goes on with the files found so far, and tells you.",
        ),
        limit(
            REPOSITORY,
            "entries in a scan",
            Count(limits::SCAN_ENTRIES_MAX),
            "The list is cut, and the answer says so.",
        ),
        limit(
            REPOSITORY,
            "size of a ranked file",
            Bytes(limits::RANKED_FILE_BYTES_MAX),
            "Larger files are not ranked.",
        ),
        limit(
            REPOSITORY,
            "size of an ignore file",
            Bytes(limits::IGNORE_FILE_BYTES_MAX),
            "Above it, see below.",
        ),
        limit(
            REPOSITORY,
            "patterns of an ignore file",
            Count(limits::IGNORE_FILE_PATTERNS_MAX as u64),
            "Above it, see below.",
        ),
        limit(
            REPOSITORY,
            "length of an ignore pattern",
            Bytes(limits::IGNORE_PATTERN_BYTES_MAX as u64),
            "Above it, see below.",
        ),
        limit(
            REPOSITORY,
            "size of all ignore files",
            Bytes(limits::IGNORE_WALK_BYTES_MAX),
            "Above it, see below.",
        ),
        limit(
            REPOSITORY,
            "patterns of all ignore files",
            Count(limits::IGNORE_WALK_PATTERNS_MAX as u64),
            "Above it, see below.",
        ),
        limit(
            REPOSITORY,
            "nested folders with ignore files",
            Count(limits::IGNORE_LEVELS_MAX as u64),
            "Above it, see below.",
        ),
        limit(
            REPOSITORY,
            "size of ignore files in packages and nested work trees",
            Bytes(limits::IGNORE_FOREIGN_BYTES_MAX),
            "Counted apart from your own ignore files.",
        ),
        limit(
            REPOSITORY,
            "patterns of ignore files in packages and nested work trees",
            Count(limits::IGNORE_FOREIGN_PATTERNS_MAX as u64),
            "Counted apart from your own ignore files.",
        ),
        limit(
            REPOSITORY,
            "syntax tree of a source file, time",
            Milliseconds(limits::OUTLINE_WALL_MS_MAX),
            "Then the file is read line by line.",
        ),
        limit(
            REPOSITORY,
            "syntax tree of a source file, memory",
            Bytes(limits::OUTLINE_MEMORY_BYTES_MAX),
            "Then the file is read line by line.",
        ),
        limit(
            REPOSITORY,
            "files that each selection checks before it answers",
            Count(tool_context::EXACT_CHECK_FILES_MAX as u64),
            "A larger tree is checked while the answer is made, and the answer says from when on changes may be missing.",
        ),
        limit(
            REPOSITORY,
            "source files that a selection reads in any case",
            Count(tool_context::READ_ALL_FILES_MAX as u64),
            "In a larger tree the index tells which files to read.",
        ),
        limit(
            REPOSITORY,
            "files of a larger tree that a selection reads",
            Count(tool_context::READ_FILES_MAX as u64),
            "Those that share most with the task; the others are counted.",
        ),
        limit(
            REPOSITORY,
            "indexing after a selection",
            Seconds(tool_context::OUTLINE_FILL_SECONDS_MAX),
            "The next selection goes on with the rest.",
        ),
        limit(
            REPOSITORY,
            "commits of the history that count for a selection",
            Count(tool_context::history::HISTORY_COMMITS_MAX as u64),
            "The newest ones. Merges and commits of more than 50 files do not count.",
        ),
        limit(
            REPOSITORY,
            "size of all indexes on the disk",
            Bytes(tool_context::INDEXES_BYTES_MAX),
            "The index that was not used for the longest time is removed first.",
        ),
        limit(
            REPOSITORY,
            "size of `.tool.toml`",
            Bytes(limits::ROOT_FILE_BYTES_MAX),
            "A larger file is an error.",
        ),
        limit(
            MODEL,
            "requests to the model in a session",
            Count(limits::TURN_STEPS_MAX as u64),
            "Change it with `--max-steps`.",
        ),
        limit(
            MODEL,
            "the same call with the same result",
            Count(limits::TOOL_CALL_REPEATS_MAX as u64),
            "The session ends at this repetition.",
        ),
        limit(
            MODEL,
            "attempts of a request after 429 or 5xx",
            Count(limits::PROVIDER_ATTEMPTS_MAX as u64),
            "The pauses grow.",
        ),
        limit(
            MODEL,
            "pause between two attempts",
            Seconds(limits::PROVIDER_RETRY_SECONDS_MAX),
            "`Retry-After` of the server counts up to this time.",
        ),
        limit(
            MODEL,
            "wait for the start of an answer",
            Seconds(limits::PROVIDER_FIRST_BYTE_SECONDS_MAX),
            "Change it with `first_byte_seconds`.",
        ),
        limit(
            MODEL,
            "pause during an answer",
            Seconds(limits::PROVIDER_IDLE_SECONDS_MAX),
            "Change it with `idle_seconds`.",
        ),
        limit(
            MODEL,
            "text and thinking of an answer",
            Bytes(turn::ROUND_SAID_BYTES_MAX as u64),
            "The session ends.",
        ),
        limit(
            MODEL,
            "text and thinking of a session",
            Bytes(turn::TURN_SAID_BYTES_MAX as u64),
            "The session ends.",
        ),
        limit(
            SKILLS,
            "time of a call",
            Seconds(Limits::DEFAULT.wall.as_secs()),
            "Test runs and installations do not count.",
        ),
        limit(SKILLS, "memory of a call", Bytes(Limits::DEFAULT.memory_bytes), ""),
        limit(
            SKILLS,
            "size of the files that a call writes",
            Bytes(Limits::DEFAULT.staged_bytes),
            "The change is refused.",
        ),
        limit(
            SKILLS,
            "files that a call writes",
            Count(Limits::DEFAULT.staged_entries),
            "The change is refused.",
        ),
        limit(
            SKILLS,
            "test run",
            Seconds(limits::TESTS_SECONDS_MAX),
            "A call can ask for less with `timeout_seconds`.",
        ),
        limit(
            SKILLS,
            "test run before and after `refactor`",
            Seconds(limits::SUITE_SECONDS_MAX),
            "A slower suite is not run, and the answer says so.",
        ),
        limit(
            SKILLS,
            "all checks before `refactor`, and again after it",
            Seconds(limits::CHECKS_SECONDS_MAX),
            "The rest are not run, and the answer names them.",
        ),
        limit(
            SKILLS,
            "installation",
            Seconds(limits::INSTALL_SECONDS_MAX),
            "Then it is ended, and nothing is installed.",
        ),
        limit(
            SKILLS,
            "calls that compute at once",
            Count(Limits::DEFAULT.calls_concurrent as u64),
            "Other calls wait.",
        ),
        limit(
            SKILLS,
            "calls that wait for your answer",
            Count(Limits::DEFAULT.calls_asking as u64),
            "Other calls wait.",
        ),
        limit(
            SKILLS,
            "calls that run a program at once",
            Count(Limits::DEFAULT.runs_concurrent as u64),
            "Other calls wait.",
        ),
        limit(
            SKILLS,
            "wait of a call for its turn",
            Seconds(Limits::DEFAULT.turn_wait.as_secs()),
            "Then the call fails.",
        ),
        limit(
            SKILLS,
            "wait for your answer to a question",
            Seconds(limits::APPROVAL_SECONDS_MAX.unsigned_abs()),
            "Then it counts as a no.",
        ),
        limit(
            SKILLS,
            "skills in a `skills.lock`",
            Count(limits::TEAM_SKILLS_MAX as u64),
            "A longer file is refused.",
        ),
        limit(
            SKILLS,
            "size of a skill",
            Bytes(limits::COMPONENT_BYTES_MAX),
            "A larger component is refused.",
        ),
        limit(
            SESSIONS,
            "sessions at once",
            Count(limits::SESSIONS_RUNNING_MAX as u64),
            "The next one is refused.",
        ),
        limit(
            SESSIONS,
            "operations kept",
            Count(tool_session::SESSIONS_KEPT as u64),
            "The oldest is removed first.",
        ),
        limit(
            SESSIONS,
            "skill calls kept",
            Count(tool_session::SESSIONS_KEPT as u64),
            "The oldest is removed first.",
        ),
        limit(
            SESSIONS,
            "size of all sessions kept",
            Bytes(tool_session::SESSIONS_BYTES_MAX),
            "A session that you can still undo is never removed only for its size.",
        ),
        limit(
            SESSIONS,
            "old contents kept for `tool undo`, for a session",
            Bytes(limits::SESSION_CONTENTS_BYTES_MAX),
            "A change above it is refused.",
        ),
        limit(
            SESSIONS,
            "entries of history and task list",
            Count(limits::HISTORY_ENTRIES_MAX as u64),
            "Over all directories.",
        ),
        limit(
            SESSIONS,
            "size of a journal's text",
            Bytes(tool_session::JOURNAL_BYTES_MAX),
            "The rest of the text is not recorded. Changes always are.",
        ),
        limit(
            SESSIONS,
            "size of a report's transcript",
            Bytes(tool_session::REPORT_TRANSCRIPT_BYTES_MAX as u64),
            "The report says that it is cut.",
        ),
        limit(
            HTTP,
            "body of a request",
            Bytes(limits::BODY_BYTES_MAX as u64),
            "A larger body gets 413.",
        ),
        limit(
            HTTP,
            "`budget.timeout_seconds` of a request",
            Seconds(limits::SESSION_SECONDS_MAX),
            "A larger value is refused.",
        ),
        limit(
            HTTP,
            "agents connected with MCP",
            Count(limits::MCP_CONNECTIONS_MAX as u64),
            "The next one replaces an idle one, or is refused.",
        ),
        limit(
            HTTP,
            "size of each log file",
            Bytes(limits::LOG_BYTES_MAX),
            "One older file is kept.",
        ),
    ]
};

/// One table for each area, in the order of the code.
fn make_tables() -> String {
    let mut text = String::new();
    let mut area = "";
    for limit in USER_LIMITS {
        if limit.area != area {
            area = limit.area;
            text.push_str(&format!(
                "\n### {area}\n\n| limit | value | at the limit |\n|---|---|---|\n"
            ));
        }
        text.push_str(&format!("| {} | {} | {} |\n", limit.name, limit.value, limit.note));
    }
    text
}

#[test]
fn the_limits_in_the_book_are_those_of_the_code() {
    compare_generated("docs/src/limits.md", "limits", &make_tables());
}

#[test]
fn values_are_written_in_the_largest_unit_that_divides_them() {
    use LimitValue::{Bytes, Count, Milliseconds, Seconds};
    let written = [
        Count(4),
        Count(28_000),
        Count(1_000_000),
        Bytes(64 * 1024),
        Bytes(1 << 30),
        Bytes(1000),
        Seconds(30),
        Seconds(60),
        Seconds(86_400),
        Milliseconds(5_000),
        Milliseconds(500),
    ]
    .map(|value| value.to_string());
    insta::assert_snapshot!(
        written.join(" | "),
        @"4 | 28,000 | 1,000,000 | 64 KiB | 1 GiB | 1,000 bytes | 30 s | 1 min | 24 h | 5 s | 500 ms"
    );
}
