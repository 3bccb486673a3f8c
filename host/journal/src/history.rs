//! Views of sessions that need no whole journal: summaries, and the lists made of them.
//!
//! A [`SessionSummary`] is a fold over journal lines; tasks, history and results are pure functions of it. The last part of
//! the file is `session_history.json` in a working directory. Several processes may write it at once, so it is
//! changed under a lock and replaced in one step.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::ids;
use crate::journal::{JournalChange, JournalEntry, JournalLine, SessionWork, StartRecord, StoredState};
use crate::limits;
use tool_core::api::{Event, History, HistoryEntry, Problem, Status, TaskEntry, Timestamp};
use tool_core::dialogue::Usage;
use tool_core::digest::sha256_hex;
use tool_repository::changes::{CommitInProgress, FileState};

/// Limit for reading a history file, in bytes. A hundred entries take some 40 kB; a larger file is not ours.
const HISTORY_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Time in milliseconds for which a writer of the history file waits for another writer, which needs a few of them.
const HISTORY_LOCK_MS_MAX: u64 = 5_000;

/// Name of the history file in `session-reports/`.
const HISTORY_FILE: &str = "session_history.json";

/// Name of the lock file beside the history file.
const LOCK_FILE: &str = ".session_history.lock";

/// Summary of a session. It is also stored beside the journal, so that a start does not have to read every journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// First entry of the journal.
    pub start: StartRecord,
    /// Time of the first entry.
    pub started: Timestamp,
    /// Time of the last entry; absent while the session runs.
    pub completed: Option<Timestamp>,
    /// Status of the session.
    pub status: Status,
    /// Failure of the session, if it failed.
    pub problem: Option<Problem>,
    /// Path of the report as results name it.
    pub report_path: String,
    /// Token counts of all requests.
    pub usage: Option<Usage>,
    /// Changes that are prepared and neither committed nor abandoned.
    pub open_changes: Vec<JournalChange>,
    /// Commits that are being published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_commits: Vec<CommitInProgress>,
    /// State of each changed file before the first and after the last change. Changes of a preview exist in its layer
    /// only.
    pub files: BTreeMap<String, FileHistory>,
    /// True for a preview whose proposals the user has discarded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_discarded: bool,
    /// State that is needed only until the end.
    #[serde(skip)]
    pub under_way: UnderWay,
}

/// Unfinished work of a running session. If the daemon dies, the next start closes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnderWay {
    /// Calls of skills that have not ended, in the order of their start.
    pub calls: Vec<OpenCall>,
    /// Identifiers of open approvals.
    pub questions: Vec<String>,
    /// Changes that are completely in place.
    committed: Vec<JournalChange>,
}

/// A call of a skill that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    /// Sequence number of the line that records the start.
    pub seq: u64,
    /// Time of the start.
    pub started: Timestamp,
    /// Identifier of the call.
    pub call_id: Option<String>,
    /// Name of the skill.
    pub name: String,
    /// Arguments, cut to a limit.
    pub arguments: Value,
}

/// Combined effect of the committed changes on one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHistory {
    /// State before the session; absent if the file did not exist.
    pub before: Option<FileMark>,
    /// State now; absent if the file was removed.
    pub after: Option<FileMark>,
}

/// The parts of a file's state that a session changes: the content, and the executable bit. Other permissions belong
/// to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// SHA-256 of the content, hexadecimal.
    pub digest: String,
    /// True if the owner may execute the file.
    pub is_executable: bool,
}

impl From<&StoredState> for FileMark {
    fn from(state: &StoredState) -> Self {
        Self {
            digest: state.digest.clone(),
            is_executable: state.mode & 0o100 != 0,
        }
    }
}

impl From<&FileState> for FileMark {
    fn from(state: &FileState) -> Self {
        Self {
            digest: sha256_hex(&state.content),
            is_executable: state.is_executable(),
        }
    }
}

impl SessionSummary {
    /// Creates the summary of a journal; `None` if the first line does not start a session.
    pub fn from_lines(lines: impl IntoIterator<Item = impl Borrow<JournalLine>>) -> Option<Self> {
        let mut lines = lines.into_iter();
        let first = lines.next()?;
        let first: &JournalLine = first.borrow();
        let JournalEntry::Started(start) = &first.entry else {
            return None;
        };
        let mut summary = Self::begin(StartRecord::clone(start), first.at);
        for line in lines {
            summary.apply(line.borrow());
        }
        Some(summary)
    }

    /// Creates the summary of a session that has just begun.
    pub fn begin(start: StartRecord, at: Timestamp) -> Self {
        Self {
            start,
            started: at,
            completed: None,
            status: Status::Running,
            problem: None,
            report_path: String::new(),
            usage: None,
            open_changes: Vec::new(),
            open_commits: Vec::new(),
            files: BTreeMap::new(),
            is_discarded: false,
            under_way: UnderWay::default(),
        }
    }

    /// True if nothing is open that the next start would have to settle.
    pub fn is_settled(&self) -> bool {
        self.open_changes.is_empty() && self.open_commits.is_empty()
    }

    /// Applies one more line.
    pub fn apply(&mut self, line: &JournalLine) {
        match &line.entry {
            JournalEntry::Prepared(change) => self.open_changes.push(change.clone()),
            JournalEntry::Abandoned { id } => self.abandon(id),
            JournalEntry::Committed { id } => self.commit(id),
            JournalEntry::Reopened { id } => {
                let change = self.take_out(id);
                self.open_changes.extend(change);
            }
            JournalEntry::Publishing(commit) => self.open_commits.push(commit.clone()),
            JournalEntry::Published { id } => self.open_commits.retain(|open| open.id != *id),
            JournalEntry::Ended(end) => {
                // The clock may have been set back; a session must not end before it began.
                self.completed = Some(line.at.max(self.started));
                self.status = end.status;
                self.problem.clone_from(&end.problem);
                self.report_path.clone_from(&end.report_path);
                self.usage = end.usage;
                self.under_way = UnderWay::default();
            }
            JournalEntry::Event { event } => self.under_way.apply(line, event),
            JournalEntry::Discarded => self.is_discarded = true,
            JournalEntry::Answered { id, .. } => self.under_way.questions.retain(|open| open != id),
            JournalEntry::Started(_)
            | JournalEntry::Reasoning { .. }
            | JournalEntry::Tool(_)
            | JournalEntry::Conversation(_) => {}
        }
    }

    fn commit(&mut self, id: &str) {
        let Some(index) = self.open_changes.iter().position(|change| change.id == id) else {
            return;
        };
        let change = self.open_changes.remove(index);
        note_change(&mut self.files, &change);
        self.under_way.committed.push(change);
    }

    fn abandon(&mut self, id: &str) {
        self.open_changes.retain(|change| change.id != id);
        self.take_out(id);
    }

    /// Removes a change from those that count as in place.
    fn take_out(&mut self, id: &str) -> Option<JournalChange> {
        let committed = &mut self.under_way.committed;
        let index = committed.iter().position(|change| change.id == id)?;
        let change = committed.remove(index);
        self.files.clear();
        for change in committed {
            note_change(&mut self.files, change);
        }
        Some(change)
    }

    /// Identifier of the session.
    pub fn id(&self) -> &str {
        &self.start.session_id
    }

    /// Paths of files in the repository whose content or executable bit the session changed, sorted.
    pub fn files_modified(&self) -> Vec<String> {
        if self.start.preview {
            return Vec::new();
        }
        self.files_changed()
    }

    /// Paths of files that a preview proposes to change, sorted. Empty for a discarded preview.
    pub fn files_proposed(&self) -> Vec<String> {
        if !self.start.preview || self.is_discarded {
            return Vec::new();
        }
        self.files_changed()
    }

    /// Paths of files that the session changed, in the repository or in its private layer, sorted.
    pub fn files_changed(&self) -> Vec<String> {
        let changed = self.files.iter().filter(|(_, file)| file.before != file.after);
        changed.map(|(path, _)| path.clone()).collect()
    }

    /// The entry in the list of tasks; `None` for an undo.
    pub fn task(&self) -> Option<TaskEntry> {
        Some(TaskEntry {
            session_id: self.id().to_owned(),
            operation: self.start.work.activity()?,
            target: self.start.target.clone(),
            timestamp: self.started,
            status: self.status,
            repository: self.start.repository.clone(),
            conversation: self.start.conversation().to_owned(),
            turn: self.start.turn(),
        })
    }

    /// The entry in the history; `None` while the session runs, and for an undo.
    pub fn history_entry(&self) -> Option<HistoryEntry> {
        Some(HistoryEntry {
            id: self.id().to_owned(),
            operation: self.start.work.activity()?,
            started: self.started,
            completed: self.completed?,
            files_modified: self.files_modified().len() as u64,
            files_proposed: self.files_proposed().len() as u64,
            provider: match &self.start.work {
                // No model takes part; the name of the skill tells the calls apart.
                SessionWork::Skill(name) => name.clone(),
                _ => self.start.model.clone(),
            },
            status: self.status,
            repository: self.start.repository.clone(),
            undone_by: None,
            target: self.start.target.clone(),
            conversation: self.start.conversation().to_owned(),
            turn: self.start.turn(),
            continues: self.start.continues.as_ref().map(|continued| continued.session.clone()),
            cost: self.usage.and_then(|usage| usage.cost()),
        })
    }
}

impl UnderWay {
    fn apply(&mut self, line: &JournalLine, event: &Event) {
        match event {
            Event::Skill { name, args, call_id } => self.calls.push(OpenCall {
                seq: line.seq,
                started: line.at,
                call_id: call_id.clone(),
                name: name.clone(),
                arguments: args.clone(),
            }),
            Event::SkillResult { name, call_id, .. } => {
                let is_it = |call: &OpenCall| call.name == *name && call.call_id == *call_id;
                if let Some(ended) = self.calls.iter().position(is_it) {
                    self.calls.remove(ended);
                }
            }
            Event::Approval { id, .. } => self.questions.push(id.clone()),
            _ => {}
        }
    }
}

/// Adds a committed change to the history of its files.
fn note_change(files: &mut BTreeMap<String, FileHistory>, change: &JournalChange) {
    for file in &change.files {
        let mark = |state: &Option<StoredState>| state.as_ref().map(FileMark::from);
        let (before, after) = (mark(&file.before), mark(&file.after));
        files
            .entry(file.path.clone())
            .and_modify(|history| history.after.clone_from(&after))
            .or_insert(FileHistory { before, after });
    }
}

/// Filter of sessions; an absent field matches all, and every field given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// The whole identifier of the model, as `provider` of a history entry has it; letters of both cases are different.
    #[serde(default)]
    #[param(nullable = false)]
    pub model: Option<String>,
    /// Name of the operation.
    #[serde(default)]
    #[param(inline, nullable = false)]
    pub operation: Option<tool_core::api::Activity>,
    /// State of the session.
    #[serde(default)]
    #[param(inline, nullable = false)]
    pub status: Option<Status>,
    /// The repository's root, as `repository` of a history entry has it.
    #[serde(default)]
    #[param(nullable = false)]
    pub repo_path: Option<String>,
    /// The most entries that are wanted: the first ones of the list.
    #[serde(default, deserialize_with = "deserialize_entries")]
    #[param(nullable = false, minimum = 1, maximum = 100)]
    pub limit: Option<usize>,
}

/// A number of entries, from 1 to as many as there can be.
fn deserialize_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = text
        .parse()
        .ok()
        .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    match number {
        Some(limit @ 1..=limits::HISTORY_ENTRIES_MAX) => Ok(Some(limit)),
        _ => Err(serde::de::Error::custom(format!(
            "`limit` must be a number from 1 to {}, not `{text}`",
            limits::HISTORY_ENTRIES_MAX
        ))),
    }
}

impl Filter {
    fn wants(&self, summary: &SessionSummary) -> bool {
        self.model.as_ref().is_none_or(|model| *model == summary.start.model)
            && self.status.is_none_or(|status| status == summary.status)
            && self
                .repo_path
                .as_ref()
                .is_none_or(|root| *root == summary.start.repository)
            && match self.operation {
                None => summary.start.work.is_listed_unasked(),
                wanted => wanted == summary.start.work.activity(),
            }
    }

    fn entries_max(&self) -> usize {
        self.limit
            .unwrap_or(limits::HISTORY_ENTRIES_MAX)
            .min(limits::HISTORY_ENTRIES_MAX)
    }
}

/// Lists the newest 100 tasks: running ones first, then newest first. `summaries` must be sorted newest first.
pub fn list_tasks<'a>(summaries: impl Iterator<Item = &'a SessionSummary>, filter: &Filter) -> Vec<TaskEntry> {
    let wanted = summaries.filter(|summary| filter.wants(summary));
    let mut tasks: Vec<TaskEntry> = wanted.filter_map(SessionSummary::task).collect();
    tasks.sort_by_key(|task| task.status != Status::Running);
    tasks.truncate(filter.entries_max());
    tasks
}

/// Lists the newest 100 ended sessions, newest first. `summaries` must be sorted newest first.
pub fn list_history<'a>(summaries: impl Iterator<Item = &'a SessionSummary> + Clone, filter: &Filter) -> History {
    let undone = map_undone(summaries.clone());
    let wanted = summaries.filter(|summary| filter.wants(summary));
    let marked = wanted
        .filter_map(SessionSummary::history_entry)
        .map(|entry| HistoryEntry {
            undone_by: undone.get(entry.id.as_str()).map(|by| (*by).to_owned()),
            ..entry
        });
    History {
        sessions: marked.take(filter.entries_max()).collect(),
    }
}

/// Maps each undone session to the last undo of it. `summaries` are sorted newest first, so that an undo comes before
/// the session that it reverts.
fn map_undone<'a>(summaries: impl Iterator<Item = &'a SessionSummary>) -> BTreeMap<&'a str, &'a str> {
    let mut undone = BTreeMap::new();
    for summary in summaries {
        let SessionWork::Undo(of) = &summary.start.work else {
            continue;
        };
        let is_whole = summary.status == Status::Complete && !undone.contains_key(summary.id());
        if is_whole {
            undone.entry(of.as_str()).or_insert(summary.id());
        }
    }
    undone
}

/// True if `tool undo` without a name may choose this session: it changed files and is not undone.
pub fn can_be_undone(summary: &SessionSummary, undone: &BTreeSet<&str>) -> bool {
    let is_undo = matches!(summary.start.work, SessionWork::Undo(_));
    !is_undo && !undone.contains(summary.id()) && !summary.files_modified().is_empty()
}

/// Sessions that were completely undone, by undos that were not undone themselves.
pub fn find_undone<'a>(newest_first: &[&'a SessionSummary]) -> BTreeSet<&'a str> {
    map_undone(newest_first.iter().copied()).into_keys().collect()
}

/// The answer of a session so far: the model output, or the output of the skill for a call.
pub fn session_output(lines: impl IntoIterator<Item = impl Borrow<JournalLine>>) -> String {
    let mut output = String::new();
    for line in lines {
        if let JournalEntry::Event { event } = &line.borrow().entry {
            output.push_str(output_of(event));
        }
    }
    output
}

/// The output text of one event.
pub fn output_of(event: &Event) -> &str {
    match event {
        Event::Token { content } => content,
        Event::Outcome { text, .. } => text,
        _ => "",
    }
}

/// Adds sessions to `history` and returns the newest 100, in the order of their starts. An entry with a known
/// identifier is replaced.
///
/// Identifiers decide the order. Times decide only for identifiers that are not ours: the clock may have been set
/// back.
pub fn with_entries(mut history: History, entries: Vec<HistoryEntry>) -> History {
    let is_new = |other: &HistoryEntry| entries.iter().all(|entry| entry.id != other.id);
    history.sessions.retain(is_new);
    history.sessions.extend(entries);
    history.sessions.sort_by_cached_key(|entry| {
        let started = u64::try_from(entry.started.timestamp_millis()).unwrap_or(0);
        Reverse((ids::time_ms(&entry.id).unwrap_or(started), entry.id.clone()))
    });
    history.sessions.truncate(limits::HISTORY_ENTRIES_MAX);
    history
}

/// Adds sessions to the history file in the folder `reports`. Blocks for a bounded time while another process does
/// the same.
///
/// # Errors
///
/// The lock is not free in time, or the file cannot be written.
pub fn add_to_file(reports: BorrowedFd<'_>, entries: Vec<HistoryEntry>) -> io::Result<()> {
    // An attacker may control the folder: NOFOLLOW refuses a planted symlink, and NONBLOCK keeps a planted FIFO from
    // blocking.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = File::from(rustix::fs::openat(reports, LOCK_FILE, flags, private_mode())?);
    // The lock is released when the file is dropped.
    lock_history(&lock)?;
    let history = with_entries(read_file(reports)?, entries);
    let text = serde_json::to_vec_pretty(&history)?;
    replace_atomically(reports, HISTORY_FILE, &text)
}

fn lock_history(lock: &File) -> io::Result<()> {
    let deadline = Instant::now() + limits::milliseconds(HISTORY_LOCK_MS_MAX);
    loop {
        // flock has no time limit, and a suspended process never releases the lock, so poll.
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(io::ErrorKind::TimedOut.into()),
            answer => return Ok(answer?),
        }
    }
}

/// Reads the history file in the folder `reports`. Returns an empty history if there is no file, or if it is not
/// ours.
///
/// # Errors
///
/// The file cannot be read.
pub fn read_file(reports: BorrowedFd<'_>) -> io::Result<History> {
    Ok(whole_file(reports)?.unwrap_or_default())
}

/// True if the history file in the folder `reports` exists and is complete.
pub fn is_whole(reports: BorrowedFd<'_>) -> bool {
    whole_file(reports).is_ok_and(|file| file.is_some())
}

fn whole_file(reports: BorrowedFd<'_>) -> io::Result<Option<History>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(reports, HISTORY_FILE, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // LOOP: the file is a symlink, which NOFOLLOW refuses. It is not ours, and is replaced.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata().is_ok_and(|metadata: fs::Metadata| metadata.is_file()) {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(HISTORY_FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

/// Replaces the file `name` in `folder` in one step. If `name` is a symlink, the link is replaced and not followed.
pub(crate) fn replace_atomically(folder: BorrowedFd<'_>, name: &str, content: &[u8]) -> io::Result<()> {
    let temporary = format!(".{name}.{}", uuid::Uuid::new_v4().simple());
    let result = write_new(folder, &temporary, content)
        .and_then(|()| Ok(rustix::fs::renameat(folder, &temporary, folder, name)?));
    if result.is_err() {
        // Best effort: the caller gets the first error.
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    }
    result
}

/// Writes a file that must not exist.
pub(crate) fn write_new(folder: BorrowedFd<'_>, name: &str, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder.as_fd(), name, flags, private_mode())?);
    file.write_all(content)
}

/// Only the owner may read the files in `session-reports/`: an answer may quote private code.
fn private_mode() -> Mode {
    Mode::RUSR | Mode::WUSR
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fixtures::{at, start};
    use crate::journal::{EndRecord, JournalFile, StoredState};
    use tool_core::api::Operation;

    pub(crate) fn lines(entries: Vec<JournalEntry>) -> Vec<JournalLine> {
        let numbered = entries.into_iter().zip(1..);
        numbered
            .map(|(entry, seq)| JournalLine {
                seq,
                at: at(seq as i64),
                entry,
            })
            .collect()
    }

    fn ended(status: Status) -> JournalEntry {
        JournalEntry::Ended(EndRecord {
            status,
            problem: None,
            report_path: "session-reports/x.md".into(),
            usage: None,
        })
    }

    /// The mark of a file that is not executable.
    fn plain(digest: &str) -> FileMark {
        FileMark {
            digest: digest.into(),
            is_executable: false,
        }
    }

    fn change(id: &str, path: &str, before: Option<&str>, after: Option<&str>) -> JournalEntry {
        let state = |digest: &str| StoredState {
            digest: digest.into(),
            mode: 0o644,
        };
        JournalEntry::Prepared(JournalChange {
            id: id.into(),
            root: "/r".into(),
            files: vec![JournalFile {
                path: path.into(),
                before: before.map(state),
                after: after.map(state),
            }],
            directories: Vec::new(),
        })
    }

    fn session(id: &str, status: Status, started: i64) -> SessionSummary {
        let mut summary = SessionSummary::begin(start(id, SessionWork::Operation(Operation::Explain)), at(started));
        summary.status = status;
        summary.completed = (status != Status::Running).then(|| at(started + 1));
        summary
    }

    #[test]
    fn only_committed_changes_count_and_only_where_something_is_different_in_the_end() {
        let committed = |id: &str| JournalEntry::Committed { id: id.into() };
        let summary = SessionSummary::from_lines(lines(vec![
            JournalEntry::Started(start("s", SessionWork::Operation(Operation::Refactor)).into()),
            change("1", "a.py", Some("x"), Some("y")),
            committed("1"),
            change("2", "b.py", Some("x"), Some("y")),
            JournalEntry::Abandoned { id: "2".into() },
            change("3", "a.py", Some("y"), Some("z")),
            committed("3"),
            change("4", "back.py", None, Some("y")),
            committed("4"),
            change("5", "back.py", Some("y"), None),
            committed("5"),
            change("6", "open.py", None, Some("y")),
        ]))
        .expect("it begins as a session");
        assert_eq!(summary.files_modified(), ["a.py"]);
        assert_eq!(summary.files["a.py"].before, Some(plain("x")));
        assert_eq!(summary.open_changes.len(), 1);
    }

    #[test]
    fn a_clock_set_back_does_not_end_a_session_before_it_began() {
        let mut all = lines(vec![
            JournalEntry::Started(start("s", SessionWork::Operation(Operation::Explain)).into()),
            ended(Status::Complete),
        ]);
        all[1].at = at(-3600);
        let summary = SessionSummary::from_lines(&all).expect("it begins as a session");
        assert_eq!(summary.completed, Some(summary.started));
    }

    #[test]
    fn tasks_show_running_ones_first_then_the_newest() {
        let all = [
            session("4", Status::Failed, 4),
            session("3", Status::Running, 3),
            session("2", Status::Complete, 2),
            session("1", Status::Running, 1),
        ];
        let ids = |filter: &Filter| -> Vec<String> {
            let tasks = list_tasks(all.iter(), filter);
            tasks.into_iter().map(|task| task.session_id).collect()
        };
        assert_eq!(ids(&Filter::default()), ["3", "1", "4", "2"]);
        let failed = Filter {
            status: Some(Status::Failed),
            ..Filter::default()
        };
        assert_eq!(ids(&failed), ["4"]);
        let other_model = Filter {
            model: Some("other".into()),
            ..Filter::default()
        };
        assert!(ids(&other_model).is_empty());
    }

    #[test]
    fn history_holds_ended_operations_and_calls_where_they_are_asked_for() {
        let mut call = session("5", Status::Complete, 5);
        call.start.work = SessionWork::Skill("read_file".into());
        let all = [
            call,
            session("2", Status::Running, 2),
            session("1", Status::Cancelled, 1),
        ];
        let history = list_history(all.iter(), &Filter::default());
        assert_eq!(history.sessions.len(), 1);
        insta::assert_json_snapshot!(history.sessions[0], @r#"
        {
          "id": "1",
          "operation": "explain",
          "started": "2025-03-01T12:00:01Z",
          "completed": "2025-03-01T12:00:02Z",
          "files_modified": 0,
          "provider": "some-model",
          "status": "cancelled",
          "repository": "/r",
          "target": "src",
          "conversation": "1",
          "turn": 1
        }
        "#);
        assert_eq!(list_tasks(all.iter(), &Filter::default()).len(), 2);
        let calls = Filter {
            operation: Some(tool_core::api::Activity::SkillCall),
            ..Filter::default()
        };
        let found = super::list_history(all.iter(), &calls).sessions;
        assert_eq!(
            found
                .iter()
                .map(|call| (&*call.id, &*call.provider))
                .collect::<Vec<_>>(),
            [("5", "read_file")]
        );
        assert_eq!(list_tasks(all.iter(), &calls).len(), 1);
    }

    #[test]
    fn the_history_file_keeps_the_last_hundred_and_no_session_twice() {
        let entry = |n: i64| {
            session(&format!("{n:03}"), Status::Complete, n)
                .history_entry()
                .expect("it ended")
        };
        let mut history = History::default();
        for n in (0..130).chain(100..110) {
            history = with_entries(history, vec![entry(n)]);
        }
        assert_eq!(history.sessions.len(), 100);
        assert_eq!(history.sessions[0].id, "129");
        assert_eq!(history.sessions[99].id, "030");
    }

    #[test]
    fn a_session_after_the_clock_was_set_back_is_still_the_newest() {
        let ids = ids::IdSource::sorting_after([].into_iter());
        let entry = |started| {
            let entry = session(&ids.next(at(started)), Status::Complete, started).history_entry();
            entry.expect("it ended")
        };
        let before = (0..100).map(|n| entry(10_000 + n)).collect();
        let newest = entry(5);
        let id = newest.id.clone();
        let history = with_entries(with_entries(History::default(), before), vec![newest]);
        assert_eq!(history.sessions.len(), 100);
        assert_eq!(history.sessions[0].id, id);
    }

    #[test]
    fn a_commit_that_could_not_be_noted_and_was_taken_back_changed_nothing() {
        let committed = |id: &str| JournalEntry::Committed { id: id.into() };
        let lines = lines(vec![
            JournalEntry::Started(start("s", SessionWork::Operation(Operation::Refactor)).into()),
            change("1", "a.py", Some("x"), Some("y")),
            committed("1"),
            change("2", "a.py", Some("y"), Some("z")),
            committed("2"),
            JournalEntry::Abandoned { id: "2".into() },
        ]);
        let summary = SessionSummary::from_lines(&lines).expect("it begins as a session");
        assert_eq!(summary.files["a.py"].after, Some(plain("y")));
        assert!(summary.open_changes.is_empty());
        let ids: Vec<&str> = crate::journal::committed_changes(&lines)
            .map(|change| change.id.as_str())
            .collect();
        assert_eq!(ids, ["1"]);
    }

    #[test]
    fn many_writers_lose_no_entry() {
        let place = tempfile::tempdir().expect("a temporary folder");
        std::thread::scope(|scope| {
            for n in 0..16 {
                let place = place.path();
                scope.spawn(move || {
                    let folder = File::open(place).expect("it can be opened");
                    let entry = session(&n.to_string(), Status::Complete, n).history_entry();
                    add_to_file(folder.as_fd(), vec![entry.expect("it ended")]).expect("it can be added");
                });
            }
        });
        let folder = File::open(place.path()).expect("it can be opened");
        let history = read_file(folder.as_fd()).expect("it can be read");
        assert_eq!(history.sessions.len(), 16);
        let names = fs::read_dir(place.path()).expect("it can be listed").count();
        assert_eq!(names, 2, "no temporary file is left");
    }

    #[test]
    fn a_history_file_that_is_a_planted_symlink_is_replaced_and_not_followed() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let victim = place.path().join("victim");
        fs::write(&victim, "precious").expect("it can be written");
        let reports = place.path().join("reports");
        fs::create_dir(&reports).expect("it can be made");
        std::os::unix::fs::symlink(&victim, reports.join(HISTORY_FILE)).expect("it can be linked");
        let folder = File::open(&reports).expect("it can be opened");
        let entry = session("1", Status::Complete, 1).history_entry().expect("it ended");
        add_to_file(folder.as_fd(), vec![entry]).expect("it can be added");
        assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious");
        assert_eq!(read_file(folder.as_fd()).expect("it can be read").sessions.len(), 1);
    }

    #[test]
    fn a_history_file_beyond_its_bound_is_none_of_ours() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = File::open(place.path()).expect("it is there");
        let entry = session("s", Status::Complete, 0).history_entry().expect("it has ended");
        let mut text = serde_json::to_vec(&with_entries(History::default(), vec![entry])).expect("it is JSON");
        fs::write(place.path().join(HISTORY_FILE), &text).expect("the folder is writable");
        assert_eq!(read_file(folder.as_fd()).expect("it can be read").sessions.len(), 1);
        // The end of the text lies beyond the bound for reading.
        text.splice(
            0..0,
            vec![b' '; usize::try_from(HISTORY_FILE_BYTES_MAX).expect("it is small")],
        );
        fs::write(place.path().join(HISTORY_FILE), &text).expect("the folder is writable");
        assert_eq!(read_file(folder.as_fd()).expect("it can be read").sessions.len(), 0);
    }

    #[test]
    fn a_lock_that_nobody_lets_go_is_given_up() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = File::open(place.path()).expect("it is there");
        let held = File::create(place.path().join(LOCK_FILE)).expect("the folder is writable");
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).expect("nobody holds it");
        let entry = session("s", Status::Complete, 0).history_entry().expect("it has ended");
        let _hurried = limits::pace::hurried(50);
        let started = Instant::now();
        let refused = add_to_file(folder.as_fd(), vec![entry]).expect_err("somebody else writes");
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_millis(HISTORY_LOCK_MS_MAX));
    }
}
