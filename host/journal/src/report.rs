//! The report of one session: a markdown file for people, made from the journal alone.
//!
//! Rendering is a pure function of the journal's lines. Writing is careful, because an attacker may control the
//! working directory: `session-reports` is never entered through a symlink, and no file in it is written through one.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use chrono::SecondsFormat;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::history::{self, SessionSummary};
use crate::journal::{JournalEntry, JournalLine, SessionWork, ToolEntry, cut_text};
use tool_core::api::{ApprovalScope, ErrorKind, Event, HistoryEntry, Problem, SelectedFile, Status, Timestamp};
use tool_core::redaction;
use tool_core::text;
use tool_repository::REPORTS_FOLDER;
use tool_repository::diff::{FileDiff, first_lines};

/// Limit for the transcript of a report, in bytes. Sessions of many hours stay below it, and editors still open it.
pub const REPORT_TRANSCRIPT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Limit for the result of a call in a report, in bytes.
const REPORT_RESULT_BYTES_MAX: usize = 4 * 1024;

/// Limit for the diff in a report, in bytes. People read reports, and CI stores them by the hundred.
const REPORT_DIFF_BYTES_MAX: usize = 256 * 1024;

/// Name of the link to the newest report, from the specification.
const LATEST: &str = "session_latest.md";

/// First characters of every report.
const TITLE: &str = "# Session report: ";

/// Renders a report as markdown. Control characters in text of a model, a skill or a file are removed. So are `keys`,
/// the keys of the configuration, which need not look like keys.
///
/// `lines` and `diffs` are taken one at a time, and the report shows a bounded part of them.
pub fn render_report<L: Borrow<JournalLine>>(
    summary: &SessionSummary,
    selection: &[SelectedFile],
    diffs: impl IntoIterator<Item = FileDiff>,
    lines: impl IntoIterator<Item = L>,
    keys: &BTreeSet<String>,
) -> String {
    let mut text = String::new();
    write_header(&mut text, summary);
    if let Some(problem) = &summary.problem {
        write_error(&mut text, problem);
    }
    if !selection.is_empty() {
        write_selected(&mut text, selection);
    }
    write_modified(&mut text, summary, diffs);
    text.push_str("\n## Transcript\n");
    write_transcript(&mut text, summary, lines);
    // Redact the whole text once more, so that no field of the journal is forgotten.
    shareable_text(&text, keys)
}

/// Makes a text shareable: removes `keys`, everything that looks like a key, and control characters.
pub fn shareable_text(text: &str, keys: &BTreeSet<String>) -> String {
    without_keys(clean_lines(text), keys)
}

/// Replaces everything that looks like a key, and says so in the report: reports are stored and passed on.
fn without_keys(text: String, keys: &BTreeSet<String>) -> String {
    let mut text = match redaction::mask_known(&text, keys) {
        Cow::Borrowed(_) => text,
        Cow::Owned(masked) => masked,
    };
    if text.contains(redaction::START) {
        text.push_str(
            "\n---\n\nStrings that look like keys are replaced in this report; the files hold them as they were.\n",
        );
    }
    text
}

fn write_header(text: &mut String, summary: &SessionSummary) {
    let start = &summary.start;
    let (title, name) = match &start.work {
        SessionWork::Operation(operation) => ("Operation", operation.name().to_owned()),
        SessionWork::Skill(name) => ("Skill", name.clone()),
        SessionWork::Undo(_) => ("Undo", "undo".to_owned()),
        SessionWork::Apply(_) => ("Apply", "apply".to_owned()),
        SessionWork::Mcp => ("Connection", "mcp".to_owned()),
    };
    let status = match summary.status {
        Status::Running => "running",
        Status::Complete => "complete",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    };
    let completed = summary.completed.map(format_time).unwrap_or_default();
    let usage = summary.usage.map(|usage| {
        let estimated = if usage.estimated { " (estimated)" } else { "" };
        let cost = usage.cost().map(|cost| format!(", {cost}"));
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        let cached = match usage.cached_tokens {
            0 => String::new(),
            cached => format!(" ({cached} from the cache)"),
        };
        format!(
            "{input} in{cached}, {output} out{estimated}{}",
            cost.unwrap_or_default()
        )
    });
    let rows = [
        ("Session", start.session_id.clone()),
        (title, name.clone()),
        ("Target", start.target.clone()),
        ("Focus", start.focus.clone().unwrap_or_default()),
        ("Repository", start.repository.clone()),
        ("Provider", start.provider.clone()),
        ("Model", start.model.clone()),
        ("Status", status.to_owned()),
        (
            "Preview",
            if start.preview {
                "the repository was not changed".to_owned()
            } else {
                String::new()
            },
        ),
        ("Conversation", place_in_conversation(summary)),
        ("Started", format_time(summary.started)),
        ("Completed", completed),
        ("Tokens", usage.unwrap_or_default()),
    ];
    let _ = write!(text, "{TITLE}{}\n\n| | |\n|---|---|\n", table_cell(&name));
    for (label, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "| {label} | {} |", table_cell(value));
    }
}

/// Turn number and previous session; empty for a session that begins a conversation.
fn place_in_conversation(summary: &SessionSummary) -> String {
    let Some(continued) = &summary.start.continues else {
        return String::new();
    };
    format!(
        "turn {} of {}, continues {}",
        continued.turn, continued.conversation, continued.session
    )
}

fn write_error(text: &mut String, problem: &Problem) {
    let _ = write!(
        text,
        "\n## Error\n\n{} (`{}`)\n",
        clean_lines(&problem.message),
        problem.kind
    );
    if let Some(hint) = &problem.hint {
        let _ = write!(text, "\nHint: {}\n", clean_lines(hint));
    }
}

fn write_selected(text: &mut String, files: &[SelectedFile]) {
    text.push_str("\n## Selected files\n\n| File | Lines | Tokens | Why |\n|---|---|---:|---|\n");
    for file in files {
        let regions: Vec<String> = file.regions.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        let regions = if regions.is_empty() {
            "all".to_owned()
        } else {
            regions.join(", ")
        };
        let reasons = table_cell(&file.reasons.join("; "));
        let _ = writeln!(
            text,
            "| {} | {regions} | {} | {reasons} |",
            table_cell(&file.path),
            file.tokens
        );
    }
}

fn write_modified(text: &mut String, summary: &SessionSummary, diffs: impl IntoIterator<Item = FileDiff>) {
    let verb = if summary.start.preview { "proposed" } else { "modified" };
    let _ = write!(text, "\n## Files {verb}\n\n");
    let (mut rows, mut shown, mut left) = (String::new(), String::new(), 0);
    for diff in diffs {
        let (path, kind) = (table_cell(&diff.path), diff.kind);
        let _ = writeln!(rows, "| {path} | {kind} | {} | {} |", diff.added, diff.removed);
        let fitting = match left {
            0 => first_lines(&diff.text, REPORT_DIFF_BYTES_MAX - shown.len()),
            _ => "",
        };
        shown.push_str(fitting);
        left += diff.text[fitting.len()..].lines().count();
    }
    if rows.is_empty() {
        text.push_str("None.\n");
        return;
    }
    let _ = write!(
        text,
        "| File | | Added | Removed |\n|---|---|---:|---:|\n{rows}\n## Diff\n\n"
    );
    write_fenced(text, "diff", &clean_lines(&shown));
    if left > 0 {
        let _ = writeln!(text, "\n{left} more lines: `tool diff {}`", summary.id());
    }
}

/// Writes the events up to the limit, and the end in any case.
fn write_transcript<L: Borrow<JournalLine>>(
    text: &mut String,
    summary: &SessionSummary,
    lines: impl IntoIterator<Item = L>,
) {
    let bytes_max = text.len() + REPORT_TRANSCRIPT_BYTES_MAX;
    let (mut speaking, mut left) = ("", 0);
    for line in lines {
        let line = line.borrow();
        let is_end = matches!(line.entry, JournalEntry::Ended(_));
        if text.len() >= bytes_max && !is_end {
            left += 1;
            continue;
        }
        if left > 0 && is_end {
            write_heading(text, line.at, "Left out");
            let id = summary.id();
            let _ = writeln!(text, "{left} more entries: `tool results {id}` shows the answer");
        }
        let speaker = match &line.entry {
            JournalEntry::Event {
                event: Event::Token { .. },
            } => "Answer",
            JournalEntry::Reasoning { .. } => "Reasoning",
            _ => "",
        };
        if !speaker.is_empty() && speaker != speaking {
            write_heading(text, line.at, speaker);
        }
        let room = bytes_max.saturating_sub(text.len());
        speaking = if write_line(text, line, room) {
            speaker
        } else {
            speaking
        };
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Writes one line of the journal to the transcript, a long text only up to `room` bytes. Returns false if the line
/// adds nothing.
fn write_line(text: &mut String, line: &JournalLine, room: usize) -> bool {
    match &line.entry {
        JournalEntry::Started(start) => {
            write_heading(text, line.at, "Request");
            let focus = start.focus.as_deref().map(|focus| format!(", focus: {focus}"));
            let asked = format!("{}{}", start.target, focus.unwrap_or_default());
            let _ = writeln!(text, "{}", clean_lines(&asked));
        }
        JournalEntry::Event { event } => return event_said(text, line.at, event, room),
        JournalEntry::Reasoning { text: piece } => text.push_str(&clean_lines(&cut_text(piece, room))),
        JournalEntry::Tool(tool) => tool_said(text, tool),
        JournalEntry::Answered { id, answer, scope } => {
            write_heading(text, line.at, "Approval answered");
            let lasts = match scope {
                ApprovalScope::Call => "",
                ApprovalScope::Session => " for the session",
            };
            let _ = writeln!(text, "`{id}`: {}{lasts}", format!("{answer:?}").to_lowercase());
        }
        JournalEntry::Committed { id } => {
            write_heading(text, line.at, "Change committed");
            let _ = writeln!(text, "`{id}`");
        }
        JournalEntry::Reopened { id } => {
            write_heading(text, line.at, "Change to be rolled back");
            let _ = writeln!(text, "`{id}`");
        }
        JournalEntry::Abandoned { id } => {
            write_heading(text, line.at, "Change rolled back");
            let _ = writeln!(text, "`{id}`");
        }
        JournalEntry::Ended(end) => {
            write_heading(text, line.at, "End");
            let message = end.problem.as_ref().map(|problem| clean_lines(&problem.message));
            let _ = writeln!(text, "{}", message.unwrap_or_else(|| "Complete.".to_owned()));
        }
        JournalEntry::Prepared(_)
        | JournalEntry::Publishing(_)
        | JournalEntry::Published { .. }
        | JournalEntry::Conversation(_)
        | JournalEntry::Discarded => return false,
    }
    true
}

fn event_said(text: &mut String, at: Timestamp, event: &Event, room: usize) -> bool {
    match event {
        Event::Token { content } => text.push_str(&clean_lines(&cut_text(content, room))),
        Event::Notice { message, hint, .. } => {
            write_heading(text, at, "Notice");
            let hint = hint.as_ref().map(|hint| format!(" ({hint})"));
            let _ = writeln!(
                text,
                "{}{}",
                clean_lines(message),
                clean_lines(&hint.unwrap_or_default())
            );
        }
        Event::Approval {
            id,
            effect,
            title,
            detail,
            ..
        } => {
            write_heading(text, at, &format!("Approval asked: {effect}"));
            let _ = write!(text, "`{id}`: {}\n\n", clean_lines(title));
            write_fenced(text, "", &clean_lines(detail));
        }
        Event::Outcome { text: outcome, .. } => {
            write_heading(text, at, "Outcome");
            write_fenced(text, "", &clean_lines(&cut_text(outcome, REPORT_RESULT_BYTES_MAX)));
        }
        // The journal's entry of the call says more, and the report has tables for the other events.
        Event::Skill { .. } | Event::SkillResult { .. } | Event::Live { .. } => return false,
        Event::Selection { .. } | Event::Usage { .. } | Event::Change { .. } => return false,
        Event::Turn { .. } | Event::Reasoning { .. } | Event::Answered { .. } => return false,
        Event::Complete { .. } | Event::Error { .. } => return false,
    }
    true
}

fn tool_said(text: &mut String, tool: &ToolEntry) {
    write_heading(text, tool.started, &format!("Skill `{}`", table_cell(&tool.name)));
    let _ = write!(text, "{}, {} ms\n\nArguments:\n\n", tool.verdict, tool.duration_ms);
    write_fenced(
        text,
        "json",
        &clean_lines(&cut_text(&tool.arguments, REPORT_RESULT_BYTES_MAX)),
    );
    text.push_str("\nResult:\n\n");
    write_fenced(text, "", &clean_lines(&cut_text(&tool.result, REPORT_RESULT_BYTES_MAX)));
}

fn write_heading(text: &mut String, at: Timestamp, title: &str) {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = write!(text, "\n### {} · {title}\n\n", format_time(at));
}

/// Writes a fenced block. The fence is longer than every run of backticks in the content.
pub fn write_fenced(text: &mut String, language: &str, content: &str) {
    let longest = content.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let line_end = if content.ends_with('\n') || content.is_empty() {
        ""
    } else {
        "\n"
    };
    let _ = writeln!(text, "{fence}{language}\n{content}{line_end}{fence}");
}

/// Formats text for a table cell or a heading: one line, without delimiters.
fn table_cell(text: &str) -> String {
    clean_lines(text).replace(['\n', '\t'], " ").replace('|', "\\|")
}

fn format_time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Removes terminal control from a text. Characters that reorder lines or are invisible are replaced by their names,
/// and every line end becomes a line feed.
pub fn clean_lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text::clean_text(&text::reveal_marks(&text)).into_owned()
}

/// File name of a report, from the specification: `session_<YYYYMMDD_HHMMSS>_<session_id>.md`, in UTC.
pub fn file_name(summary: &SessionSummary) -> String {
    format!(
        "session_{}_{}.md",
        summary.started.format("%Y%m%d_%H%M%S"),
        summary.id()
    )
}

/// Path of a report as results name it: relative to the repository's root, absolute if it is outside.
pub fn path_in_results(summary: &SessionSummary) -> String {
    if !is_wanted(summary) {
        return String::new();
    }
    let path = report_path(summary);
    let relative = path.strip_prefix(&summary.start.repository).unwrap_or(&path);
    relative.to_string_lossy().into_owned()
}

/// False if the configuration wants no reports.
pub fn is_wanted(summary: &SessionSummary) -> bool {
    !summary.start.working_directory.is_empty()
}

fn report_path(summary: &SessionSummary) -> PathBuf {
    let folder = Path::new(&summary.start.working_directory).join(REPORTS_FOLDER);
    folder.join(file_name(summary))
}

/// Writes the report, the history and the link to the newest report into the working directory. The history is
/// written even if the report cannot be written.
///
/// `known` are the other sessions of this working directory: they restore a history file that is gone or damaged, and
/// add entries that could not be written before. Entries that people have removed stay removed.
///
/// # Errors
///
/// The first failure. The other files are written all the same.
pub fn write_report(summary: &SessionSummary, markdown: &str, known: Vec<SessionSummary>) -> io::Result<()> {
    let folder = open_folder(Path::new(&summary.start.working_directory))?;
    let name = file_name(summary);
    let report = history::replace_atomically(folder.as_fd(), &name, markdown.as_bytes());
    let latest = report.and_then(|()| point_at(&folder, &name, markdown));
    let is_whole = history::is_whole(folder.as_fd());
    let missed = known.iter().filter(|known| !is_whole || known.report_path.is_empty());
    let listed = missed
        .chain([summary])
        .filter(|session| session.start.work.is_listed_unasked());
    let entries = listed.filter_map(SessionSummary::history_entry);
    let entries: Vec<HistoryEntry> = entries.collect();
    let listed = if entries.is_empty() {
        Ok(())
    } else {
        history::add_to_file(folder.as_fd(), entries)
    };
    latest.and(listed)
}

/// Writes the report of an ended session again. History and link stay as they are.
///
/// # Errors
///
/// The folder cannot be used, or the file cannot be written.
pub fn restore_report(summary: &SessionSummary, markdown: &str) -> io::Result<()> {
    let folder = open_folder(Path::new(&summary.start.working_directory))?;
    history::replace_atomically(folder.as_fd(), &file_name(summary), markdown.as_bytes())
}

/// True if the report of a session exists and begins like a report. A user may have removed it, and a power failure
/// may leave an empty file. Text that people have added does not matter.
pub fn is_there(summary: &SessionSummary) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(report_path(summary), flags, Mode::empty());
    let mut beginning = [0; TITLE.len()];
    let read = file.map(|file| io::Read::read_exact(&mut File::from(file), &mut beginning));
    matches!(read, Ok(Ok(()))) && beginning == *TITLE.as_bytes()
}

/// Opens the reports folder of a working directory. Creates the folder and its `.gitignore` if they are missing. In
/// another user's directory, the folder must exist and belong to us.
fn open_folder(working_directory: &Path) -> io::Result<OwnedFd> {
    let parent = File::open(working_directory)?;
    let is_ours = may_use(&parent)?;
    match is_ours.then(|| rustix::fs::mkdirat(&parent, REPORTS_FOLDER, Mode::from_raw_mode(0o755))) {
        None | Some(Ok(()) | Err(Errno::EXIST)) => {}
        Some(Err(error)) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::openat(&parent, REPORTS_FOLDER, flags, Mode::empty()) {
        Err(Errno::NOENT) if !is_ours => return Err(io::ErrorKind::PermissionDenied.into()),
        opened => opened?,
    };
    if !may_use(&folder)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // A full disk leaves an empty file behind, which would show the reports to git.
    let is_whole = rustix::fs::statat(&folder, GITIGNORE, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_size > 0);
    if !is_whole {
        history::replace_atomically(folder.as_fd(), GITIGNORE, b"*\n")?;
    }
    Ok(folder)
}

/// True for a folder of our user. In a volume that another user mounted, root may write as well.
fn may_use(folder: impl AsFd) -> io::Result<bool> {
    let us = rustix::process::geteuid();
    let owner = rustix::fs::fstat(folder)?.st_uid;
    Ok(us.is_root() || owner == us.as_raw())
}

/// Keeps the folder out of git.
const GITIGNORE: &str = ".gitignore";

/// Links `session_latest.md` to `name`. If the file system has no symlinks, it becomes a copy.
fn point_at(folder: &OwnedFd, name: &str, markdown: &str) -> io::Result<()> {
    let temporary = format!(".{LATEST}.{}", uuid::Uuid::new_v4().simple());
    if rustix::fs::symlinkat(name, folder, &temporary).is_err() {
        return history::replace_atomically(folder.as_fd(), LATEST, markdown.as_bytes());
    }
    rustix::fs::renameat(folder, &temporary, folder, LATEST).map_err(|error| {
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
        error.into()
    })
}

/// Creates the problem of a report that could not be written.
pub fn problem_of(error: &io::Error) -> Problem {
    let denied = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    if denied.contains(&error.kind()) {
        let hint = match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => {
                "create the folder `session-reports` with write rights for you; here the file system is read-only, and \
                 `tool results SESSION` shows the report"
            }
            _ => "create the folder `session-reports` with write rights for you",
        };
        return Problem::new(ErrorKind::ReportDenied, "Permission denied: session-reports/").with_hint(hint);
    }
    Problem::new(
        ErrorKind::ReportFailed,
        format!("The session report could not be written: {error}"),
    )
    .with_hint("the session itself is kept; `tool results SESSION` shows it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, start};
    use crate::history::tests::lines;
    use crate::journal::{EndRecord, SessionWork};
    use std::fs;
    use tool_core::api::{ChangeKind, Operation};
    use tool_core::dialogue::Usage;

    fn session(working_directory: &Path) -> (SessionSummary, Vec<JournalLine>) {
        let mut start = start("0195-id", SessionWork::Operation(Operation::Explain));
        start.working_directory = working_directory.to_string_lossy().into_owned();
        let event = |event| JournalEntry::Event { event };
        let token = |content: &str| {
            event(Event::Token {
                content: content.into(),
            })
        };
        let all = lines(vec![
            JournalEntry::Started(start.into()),
            event(Event::Selection {
                files: vec![SelectedFile {
                    path: "src/a|b.py".into(),
                    reasons: vec!["key file".into(), "entry point".into()],
                    score: 1.0,
                    regions: vec![(1, 20)],
                    tokens: 120,
                    redacted: 0,
                }],
            }),
            token("It is "),
            token("a \u{1b}[31mlibrary\u{1b}[0m.\u{202e}"),
            JournalEntry::Tool(ToolEntry {
                call_id: "c1".into(),
                name: "read_file".into(),
                arguments: r#"{"path":"a.py"}"#.into(),
                result: "1  ```\n".into(),
                verdict: "ok".into(),
                started: at(4),
                duration_ms: 12,
                receipt: None,
                details: None,
            }),
            token("Done."),
            JournalEntry::Ended(EndRecord {
                status: Status::Failed,
                problem: Some(Problem::new(ErrorKind::OperationFailed, "It broke").with_hint("try again")),
                report_path: String::new(),
                usage: Some(Usage {
                    input_tokens: 10,
                    cached_tokens: 0,
                    output_tokens: 5,
                    cache_write_tokens: 0,
                    estimated: true,
                    cost_nanos: Some(1_250_000),
                }),
            }),
        ]);
        (SessionSummary::from_lines(&all).expect("it begins as a session"), all)
    }

    fn selection(lines: &[JournalLine]) -> Vec<SelectedFile> {
        let mut selections = lines.iter().filter_map(|line| match &line.entry {
            JournalEntry::Event {
                event: Event::Selection { files },
            } => Some(files.clone()),
            _ => None,
        });
        selections.next_back().expect("there is one")
    }

    #[test]
    fn a_report_tells_the_whole_session() {
        let (summary, lines) = session(Path::new("/r"));
        let diffs = [FileDiff {
            path: "a.py".into(),
            kind: ChangeKind::Modified,
            added: 3,
            removed: 1,
            is_text: true,
            text: "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\u{1b}[31m\n+y\n".into(),
        }];
        insta::assert_snapshot!(render_report(&summary, &selection(&lines), diffs, &lines, &BTreeSet::new()), @r##"
        # Session report: explain

        | | |
        |---|---|
        | Session | 0195-id |
        | Operation | explain |
        | Target | src |
        | Repository | /r |
        | Provider | local |
        | Model | some-model |
        | Status | failed |
        | Started | 2025-03-01T12:00:01.000Z |
        | Completed | 2025-03-01T12:00:07.000Z |
        | Tokens | 10 in, 5 out (estimated), $0.001250 |

        ## Error

        It broke (`operation-failed`)

        Hint: try again

        ## Selected files

        | File | Lines | Tokens | Why |
        |---|---|---:|---|
        | src/a\|b.py | 1-20 | 120 | key file; entry point |

        ## Files modified

        | File | | Added | Removed |
        |---|---|---:|---:|
        | a.py | modified | 3 | 1 |

        ## Diff

        ```diff
        --- a/a.py
        +++ b/a.py
        @@ -1 +1 @@
        -x
        +y
        ```

        ## Transcript

        ### 2025-03-01T12:00:01.000Z · Request

        src

        ### 2025-03-01T12:00:03.000Z · Answer

        It is a library.<U+202E>

        ### 2025-03-01T12:00:04.000Z · Skill `read_file`

        ok, 12 ms

        Arguments:

        ```json
        {"path":"a.py"}
        ```

        Result:

        ````
        1  ```
        ````

        ### 2025-03-01T12:00:06.000Z · Answer

        Done.

        ### 2025-03-01T12:00:07.000Z · End

        It broke
        "##);
    }

    #[test]
    fn a_long_diff_in_a_report_ends_at_a_line_and_says_how_much_is_left() {
        let (summary, lines) = session(Path::new("/r"));
        let line = "+1234567\n";
        let fits = REPORT_DIFF_BYTES_MAX / line.len();
        let diff = FileDiff {
            path: "a.py".into(),
            kind: ChangeKind::Modified,
            added: 3,
            removed: 1,
            is_text: true,
            text: line.repeat(fits + 7),
        };
        let report = render_report(&summary, &[], [diff], &lines, &BTreeSet::new());
        assert!(
            report.contains("+1234567\n```\n\n7 more lines: `tool diff 0195-id`\n"),
            "{report}"
        );
        assert_eq!(report.matches(line).count(), fits);
    }

    #[test]
    fn keys_of_the_configuration_are_in_no_report_whatever_they_look_like() {
        let (summary, lines) = session(Path::new("/r"));
        let key = "an-ordinary-looking-phrase";
        let diff = FileDiff {
            path: "a.py".into(),
            kind: ChangeKind::Modified,
            added: 1,
            removed: 0,
            is_text: true,
            text: format!("+KEY = '{key}'\n"),
        };
        let known = BTreeSet::from([key.to_owned(), "short".to_owned()]);
        let report = render_report(&summary, &[], [diff], &lines, &known);
        assert!(!report.contains(key), "{report}");
        assert!(report.contains("+KEY = '[redacted:model-api-key]'"), "{report}");
        assert!(report.contains("Strings that look like keys are replaced"), "{report}");
    }

    #[test]
    fn a_report_that_is_gone_or_empty_is_missed_and_one_that_people_wrote_into_is_not() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let (summary, lines) = session(place.path());
        assert!(!is_there(&summary));
        let report = render_report(&summary, &[], [], &lines, &BTreeSet::new());
        restore_report(&summary, &report).expect("it can be written");
        assert!(is_there(&summary));
        let file = report_path(&summary);
        fs::write(&file, format!("{report}My notes.\n")).expect("it can be written");
        assert!(is_there(&summary));
        fs::write(&file, "").expect("it can be written");
        assert!(!is_there(&summary));
    }

    #[test]
    fn line_ends_become_line_feeds() {
        assert_eq!(clean_lines("a\u{1b}[1;31mb\r\nc\rd\te\u{0}"), "ab\nc\nd\te");
    }

    #[test]
    fn a_report_lies_where_the_specification_says() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let (mut summary, _) = session(place.path());
        summary.start.repository = place.path().to_string_lossy().into_owned();
        write_report(&summary, "# one\n", Vec::new()).expect("it can be written");
        let name = "session-reports/session_20250301_120001_0195-id.md";
        assert_eq!(path_in_results(&summary), name);
        let read = |name: &str| fs::read_to_string(place.path().join(name)).expect("it is there");
        assert_eq!(read(name), "# one\n");
        assert_eq!(read("session-reports/session_latest.md"), "# one\n");
        assert_eq!(read("session-reports/.gitignore"), "*\n");
        assert!(read("session-reports/session_history.json").contains("0195-id"));
        let link = fs::read_link(place.path().join("session-reports/session_latest.md")).expect("it is a link");
        assert!(link.is_relative(), "a moved folder keeps its pointer");
        summary.start.repository = "/elsewhere".into();
        assert!(Path::new(&path_in_results(&summary)).is_absolute());
    }

    #[test]
    fn what_keeps_reports_out_of_git_is_whole_or_the_users() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let (summary, _) = session(place.path());
        let ignore = place.path().join("session-reports/.gitignore");
        for (there, after) in [(None, "*\n"), (Some(""), "*\n"), (Some("!*.md\n"), "!*.md\n")] {
            if let Some(there) = there {
                fs::write(&ignore, there).expect("the folder is ours");
            }
            write_report(&summary, "# one\n", Vec::new()).expect("it can be written");
            assert_eq!(fs::read_to_string(&ignore).expect("it is there"), after, "{there:?}");
        }
    }

    #[test]
    fn a_planted_symlink_is_not_entered() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let victim = place.path().join("victim");
        let work = place.path().join("work");
        fs::create_dir(&victim).expect("it can be made");
        fs::create_dir(&work).expect("it can be made");
        std::os::unix::fs::symlink(&victim, work.join(REPORTS_FOLDER)).expect("it can be linked");
        let (summary, _) = session(&work);
        assert!(write_report(&summary, "x", Vec::new()).is_err());
        assert_eq!(fs::read_dir(&victim).expect("it can be listed").count(), 0);
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_said_in_the_specifications_words() {
        let error = io::Error::from(Errno::ACCESS);
        assert_eq!(problem_of(&error).message, "Permission denied: session-reports/");
        let error = io::Error::from(Errno::ROFS);
        assert_eq!(problem_of(&error).message, "Permission denied: session-reports/");
    }

    #[test]
    fn of_a_session_that_said_very_much_the_beginning_and_the_end_are_told() {
        let (summary, mut lines) = session(Path::new("/r"));
        let last = lines.pop().expect("there is an end");
        let piece = "thought ".repeat(128 * 1024);
        let thoughts = (0..2 * REPORT_TRANSCRIPT_BYTES_MAX / piece.len()).map(|_| JournalLine {
            entry: JournalEntry::Reasoning { text: piece.clone() },
            ..last.clone()
        });
        lines.extend(thoughts);
        lines.push(last.clone());
        let report = render_report(&summary, &[], [], &lines, &BTreeSet::new());
        assert!(report.len() < REPORT_TRANSCRIPT_BYTES_MAX + 4096, "{}", report.len());
        let end = &report[report.rfind("· Left out").expect("it says so")..];
        assert!(
            end.contains(" more entries: `tool results 0195-id` shows the answer\n"),
            "{end}"
        );
        assert!(end.contains("· End\n\nIt broke"), "{end}");
    }

    #[test]
    fn a_report_of_much_is_bounded() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let (summary, mut lines) = session(place.path());
        let long = "x".repeat(4 * REPORT_RESULT_BYTES_MAX);
        for line in &mut lines {
            if let JournalEntry::Tool(tool) = &mut line.entry {
                tool.result.clone_from(&long);
            }
        }
        let diff = FileDiff {
            path: "a.py".into(),
            kind: ChangeKind::Modified,
            added: 1,
            removed: 1,
            is_text: true,
            text: "+y\n".repeat(REPORT_DIFF_BYTES_MAX),
        };
        let report = render_report(&summary, &[], [], &lines, &BTreeSet::new());
        assert!(report.matches('x').count() < REPORT_RESULT_BYTES_MAX + 100);
        let report = render_report(&summary, &[], [diff], &lines, &BTreeSet::new());
        assert!(report.matches("+y").count() * 3 <= REPORT_DIFF_BYTES_MAX + 3);
    }
}
