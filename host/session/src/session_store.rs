//! The sessions on disk: found at start, ended, listed, and removed when they are old.
//!
//! Each journal has a `summary.json` beside it, which only saves reading the journal and is recreated if it is
//! missing. A journal without an end belongs to a dead daemon: its open changes are recovered, and it is closed as
//! failed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::run::{self, SessionOutcome};
use crate::limits;
use tool_core::api::{self, ErrorKind, Event, Problem, SelectedFile, Status, Timestamp};
use tool_journal::feed::Recorder;
use tool_journal::history::{self, SessionSummary};
use tool_journal::ids::IdSource;
use tool_journal::journal::{
    EndRecord, JournalChange, JournalEntry, JournalExtent, JournalLine, SessionFolder, StartRecord,
    create_private_folder,
};
use tool_journal::report;
use tool_repository::changes::{self, ChangeJournal};
use tool_repository::diff::FileDiff;
use tool_repository::{Repository, RepositoryError};
use tool_skill::settle_commit;

/// Number of sessions on disk, with operations and calls of single skills counted separately: as many as the history
/// shows.
pub const SESSIONS_KEPT: usize = 100;

/// Seconds for which every ended session is kept. A reader that lost its connection comes back within seconds, and
/// hundreds of sessions may end meanwhile.
const SESSION_SECONDS_KEPT_MIN: i64 = 600;

/// Limit for all kept sessions in bytes, contents of changed files included. Sessions that have just ended and those
/// that can be undone do not count: there are at most `SESSIONS_KEPT`, each with `SESSION_CONTENTS_BYTES_MAX`.
pub const SESSIONS_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Name of the summary in a session's folder.
const SUMMARY_FILE: &str = "summary.json";

/// Result of a call that ran when the daemon died.
const INTERRUPTED_CALL: &str = "It was under way when the backend stopped";

/// Result of a call that ran when its session ended.
const CANCELLED_CALL: &str = "It was under way when the session ended";

/// An entry in the folder of sessions.
enum StoredSession {
    Ended(Box<EndedSession>),
    /// A session of a dead daemon.
    Open(Box<SessionSummary>, JournalExtent),
    /// A folder of a daemon that died before the session began.
    Unborn,
    /// Not a session.
    Foreign,
}

/// The sessions on disk, with their summaries in memory.
pub(super) struct SessionStore {
    folder: PathBuf,
    kept: Mutex<BTreeMap<String, EndedSession>>,
    /// Keys of the configuration that no report may show, in memory only.
    keys: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct EndedSession {
    summary: SessionSummary,
    /// Size of its folder in bytes.
    bytes: u64,
    /// True if it ended under this daemon, whose readers may come back.
    #[serde(skip)]
    is_of_now: bool,
}

impl SessionStore {
    /// Finds the sessions below `folder`, and closes those of a dead daemon. No report shows `keys`. Blocks.
    pub(super) fn open(folder: &Path, home: &Path, keys: BTreeSet<String>) -> io::Result<Self> {
        create_private_folder(folder)?;
        let store = Self {
            folder: folder.to_owned(),
            kept: Mutex::default(),
            keys: Mutex::new(keys),
        };
        let mut open = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let Some(id) = name.to_str().filter(|name| uuid::Uuid::try_parse(name).is_ok()) else {
                continue;
            };
            match store.load(id) {
                Ok(StoredSession::Ended(kept)) => {
                    store.lock().insert(id.to_owned(), *kept);
                }
                Ok(StoredSession::Open(summary, extent)) => open.push((*summary, extent)),
                Ok(StoredSession::Unborn) => {
                    // No client knows it. If it cannot be removed, the next start finds it again.
                    let _ = fs::remove_dir_all(store.folder(id).path());
                }
                Ok(StoredSession::Foreign) => tracing::warn!(session = id, "its journal has no beginning; left alone"),
                Err(error) => tracing::warn!(session = id, %error, "cannot be read; left alone"),
            }
        }
        // Close the oldest first: the last one gets the link to the newest report, and its history contains all
        // others.
        open.sort_by(|(a, _), (b, _)| a.id().cmp(b.id()));
        for (summary, extent) in open {
            let id = summary.id().to_owned();
            if let Err(error) = store.close(summary, extent, home) {
                tracing::warn!(session = id, %error, "cannot be closed; the next start tries again");
            }
        }
        store.forget_old(api::current_time());
        Ok(store)
    }

    /// Begins the journal of a session. Fails if the disk does not accept it. Blocks.
    pub(super) fn begin(&self, start: StartRecord) -> io::Result<Arc<Recorder>> {
        let folder = self.folder(&start.session_id);
        let begun = Recorder::create(folder.clone(), start);
        if begun.is_err() {
            // Remove the folder: the next start would close half a first line as a failed session.
            let _ = fs::remove_dir_all(folder.path());
        }
        begun
    }

    /// Removes a session that was begun and cannot continue; no client knows it.
    pub(super) fn forget(&self, recorder: &Recorder) {
        let _ = fs::remove_dir_all(recorder.folder().path());
    }

    fn load(&self, id: &str) -> io::Result<StoredSession> {
        let folder = self.folder(id);
        let summary = fs::read(folder.path().join(SUMMARY_FILE)).ok();
        if let Some(kept) = summary.and_then(|bytes| serde_json::from_slice::<EndedSession>(&bytes).ok())
            && kept.summary.status != Status::Running
            && kept.summary.is_settled()
        {
            return Ok(StoredSession::Ended(Box::new(kept)));
        }
        if folder.is_unborn() {
            return Ok(StoredSession::Unborn);
        }
        let (summary, extent) = folder.view(|lines| SessionSummary::from_lines(lines))?;
        Ok(match summary {
            None => StoredSession::Foreign,
            Some(summary) if summary.status != Status::Running && summary.is_settled() => {
                StoredSession::Ended(Box::new(keep_summary(&folder, summary)))
            }
            Some(summary) => StoredSession::Open(Box::new(summary), extent),
        })
    }

    /// Closes a session of a dead daemon: its open changes, then its calls, then the session.
    fn close(&self, summary: SessionSummary, extent: JournalExtent, home: &Path) -> io::Result<()> {
        let ended = summary.status != Status::Running;
        let folder = self.folder(summary.id());
        let recorder = Recorder::resume(folder.clone(), summary, extent)?;
        recover_changes(&recorder, home, |open| {
            self.changed_later(recorder.summary().id(), open)
        });
        if ended {
            recorder.sync()?;
            let kept = keep_summary(&folder, recorder.summary());
            self.lock().insert(kept.summary.id().to_owned(), kept);
        } else {
            recorder.close_open("interrupted", INTERRUPTED_CALL);
            run::say_changed(&recorder);
            // No change is being put in place now, so open changes stay open.
            self.finish(
                &recorder,
                SessionOutcome::failed(interrupted_problem(&recorder.summary())),
            );
        }
        Ok(())
    }

    /// A file of an open change that a later session has changed as well.
    fn changed_later(&self, id: &str, open: &JournalChange) -> Option<String> {
        let kept = self.lock();
        let later = kept.iter().filter(|(other, kept)| {
            let start = &kept.summary.start;
            other.as_str() > id && Path::new(&start.repository) == open.root && !start.preview
        });
        let files: BTreeSet<&String> = later.flat_map(|(_, kept)| kept.summary.files.keys()).collect();
        let changed = open.files.iter().find(|file| files.contains(&file.path));
        changed.map(|file| file.path.clone())
    }

    /// Folder of a session.
    pub(super) fn folder(&self, id: &str) -> SessionFolder {
        SessionFolder::new(self.folder.join(id))
    }

    /// Ends a session: report and history first, so that clients find them when they see the end; then the journal,
    /// then the streams. Returns true if everything is on the disk. Blocks.
    pub(super) fn end(&self, recorder: &Recorder, outcome: SessionOutcome) -> bool {
        recorder.seal();
        self.finish(recorder, outcome)
    }

    fn finish(&self, recorder: &Recorder, outcome: SessionOutcome) -> bool {
        recorder.close_open("cancelled", CANCELLED_CALL);
        if let Err(error) = recorder.flush() {
            recorder.problem(not_recorded(&error));
        }
        if let lost @ 1.. = recorder.lost() {
            recorder.problem(not_all_recorded(lost));
        }
        let at = api::current_time();
        let mut end = EndRecord {
            status: outcome.status,
            problem: outcome.problem,
            report_path: String::new(),
            usage: outcome.usage,
        };
        let operation = recorder.summary().start.work.operation();
        if operation.is_some() && report::is_wanted(&recorder.summary()) {
            match self.write_report(recorder, &end, at) {
                Ok(path) => end.report_path = path,
                Err(error) => recorder.problem(report::problem_of(&error)),
            }
        }
        let ended = recorder.end(end, at);
        if let Err(error) = &ended {
            tracing::error!(session = recorder.summary().id(), %error, "the end of a session could not be written");
        }
        let summary = recorder.summary();
        let mut kept = keep_summary(recorder.folder(), summary);
        kept.is_of_now = true;
        self.lock().insert(kept.summary.id().to_owned(), kept);
        self.forget_old(at);
        ended.is_ok()
    }

    /// Discards the proposals of an ended preview, with their contents. Blocks.
    pub(super) fn discard(&self, id: &str) -> io::Result<()> {
        let folder = self.folder(id);
        let (summary, extent) = folder.view(|lines| SessionSummary::from_lines(lines))?;
        let summary = summary.ok_or(io::ErrorKind::InvalidData)?;
        let recorder = Recorder::resume(folder.clone(), summary, extent)?;
        recorder.record(JournalEntry::Discarded);
        recorder.sync()?;
        folder.remove_contents()?;
        let kept = keep_summary(&folder, recorder.summary());
        self.lock().insert(id.to_owned(), kept);
        Ok(())
    }

    /// Writes what could not be written at the end of a session. Returns true if it is on the disk now. Blocks.
    pub(super) fn write_waiting(&self, recorder: &Recorder) -> bool {
        let is_written = recorder.sync().is_ok();
        if is_written {
            keep_summary(recorder.folder(), recorder.summary());
        }
        is_written
    }

    /// Writes report and history of a session that is about to end. Returns the report's path as results name it.
    fn write_report(&self, recorder: &Recorder, end: &EndRecord, at: Timestamp) -> io::Result<String> {
        // Lines that cannot be written are missing from the report; the end of the session reports the failure.
        let _ = recorder.flush();
        let last = JournalLine {
            // The line has no number yet, and a view needs none.
            seq: 0,
            at,
            entry: JournalEntry::Ended(end.clone()),
        };
        let mut summary = recorder.summary();
        summary.apply(&last);
        let markdown = self.report_of(&summary, recorder.folder(), Some(last))?;
        report::write_report(&summary, &markdown, self.known_in(&summary.start.working_directory))?;
        Ok(report::path_in_results(&summary))
    }

    /// The path of an ended session's report as results name it. A missing report is written again; `None` if that
    /// fails. Blocks.
    pub(super) fn report(&self, summary: &SessionSummary) -> Option<String> {
        if report::is_wanted(summary) && !report::is_there(summary) {
            let markdown = self.report_of(summary, &self.folder(summary.id()), None).ok()?;
            report::restore_report(summary, &markdown).ok()?;
        }
        Some(report::path_in_results(summary))
    }

    /// Renders the report of a journal, with a last line that is not in it yet. The journal is read twice, so that
    /// memory holds no more than the report shows.
    pub(super) fn report_of(
        &self,
        summary: &SessionSummary,
        folder: &SessionFolder,
        last: Option<JournalLine>,
    ) -> io::Result<String> {
        let (outline, _) = folder.view(|lines| JournalOutline::from_lines(lines))?;
        // If contents cannot be read any more, the report has no diff of them.
        let changed = folder.net(&outline.changes).filter_map(Result::ok);
        let diffs = changed.map(|file| FileDiff::new(&file));
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let render = |lines: &mut _| {
            report::render_report(summary, &outline.selected, diffs, Iterator::chain(lines, last), &keys)
        };
        Ok(folder.view(render)?.0)
    }

    /// Makes a text of a session shareable: without keys and control characters.
    pub(super) fn share(&self, text: &str) -> String {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        report::shareable_text(text, &keys)
    }

    /// Hides this key in all reports from now on.
    pub(super) fn conceal(&self, key: &str) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() < limits::REDACTION_KEYS_MAX {
            keys.insert(key.to_owned());
        }
    }

    /// The sessions for the history file of a working directory.
    fn known_in(&self, working_directory: &str) -> Vec<SessionSummary> {
        let kept = self.lock();
        // The history file has only operations.
        let here = kept.values().filter(|kept| {
            let start = &kept.summary.start;
            start.working_directory == working_directory && start.work.operation().is_some()
        });
        here.map(|kept| kept.summary.clone()).collect()
    }

    pub(super) fn summary(&self, id: &str) -> Option<SessionSummary> {
        self.lock().get(id).map(|kept| kept.summary.clone())
    }

    /// Files that kept sessions have created in a repository, by its real path.
    pub(super) fn files_made_in(&self, repository: &str) -> BTreeSet<String> {
        let kept = self.lock();
        let summaries = kept.values().map(|kept| &kept.summary);
        let here = summaries.filter(|summary| summary.start.repository == repository && !summary.start.preview);
        let files = here.flat_map(|summary| &summary.files);
        let made = files.filter(|(_, file)| file.before.is_none() && file.after.is_some());
        made.map(|(path, _)| path.clone()).collect()
    }

    /// A source of identifiers that sort after those of all kept sessions.
    pub(super) fn ids(&self) -> IdSource {
        IdSource::sorting_after(self.lock().keys())
    }

    /// All kept sessions by id.
    pub(super) fn summaries(&self) -> BTreeMap<String, SessionSummary> {
        let kept = self.lock();
        kept.iter()
            .map(|(id, kept)| (id.clone(), kept.summary.clone()))
            .collect()
    }

    /// Removes the sessions that retention does not keep.
    fn forget_old(&self, now: Timestamp) {
        let old = to_forget(&self.lock(), now);
        for id in old {
            if let Err(error) = fs::remove_dir_all(self.folder(&id).path()) {
                tracing::warn!(session = id, %error, "an old session could not be removed");
            }
            self.lock().remove(&id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, EndedSession>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Chooses the sessions to remove: those beyond the newest hundred of their kind that have not just ended, and those
/// beyond the limit for bytes. A conversation counts once, and is kept or removed as a whole. A session with an
/// unsettled change is kept. Age does not count, because a wrong clock would remove every session.
///
/// The limit for bytes keeps every undo possible: a conversation with a session that has just ended, or can still be
/// undone, is not removed for its size and does not count.
fn to_forget(kept: &BTreeMap<String, EndedSession>, now: Timestamp) -> Vec<String> {
    let (mut operations, mut calls, mut bytes) = (0, 0, 0);
    let mut is_gone: HashMap<&str, bool> = HashMap::new();
    let conversations = kept_conversations(kept, now);
    let newest_first = kept.iter().rev();
    let old = newest_first.filter(|(_, session)| {
        let start = &session.summary.start;
        *is_gone.entry(start.conversation()).or_insert_with(|| {
            let conversation = &conversations[start.conversation()];
            let count = match start.work.operation() {
                Some(_) => &mut operations,
                None => &mut calls,
            };
            *count += 1;
            let is_beyond = *count > SESSIONS_KEPT && !conversation.is_fresh;
            let is_too_much = if conversation.is_fresh || conversation.can_be_undone {
                false
            } else {
                !reserve_bytes(&mut bytes, conversation.bytes)
            };
            (is_beyond || is_too_much) && conversation.is_settled
        })
    });
    old.map(|(id, _)| id.clone()).collect()
}

/// Reasons to keep a conversation. A session outside of one counts as a conversation.
struct KeptConversation {
    bytes: u64,
    is_fresh: bool,
    can_be_undone: bool,
    is_settled: bool,
}

fn kept_conversations(kept: &BTreeMap<String, EndedSession>, now: Timestamp) -> HashMap<&str, KeptConversation> {
    let summaries: Vec<&SessionSummary> = kept.values().rev().map(|kept| &kept.summary).collect();
    let undone = history::find_undone(&summaries);
    let mut conversations: HashMap<&str, KeptConversation> = HashMap::new();
    for session in kept.values() {
        let summary = &session.summary;
        // Use the end, because the clock may have been corrected while the session ran.
        let end = summary.completed.unwrap_or(summary.started);
        let conversation = conversations
            .entry(summary.start.conversation())
            .or_insert(KeptConversation {
                bytes: 0,
                is_fresh: false,
                can_be_undone: false,
                is_settled: true,
            });
        conversation.bytes = conversation.bytes.saturating_add(session.bytes);
        conversation.is_fresh |= session.is_of_now && (now - end).num_seconds().abs() < SESSION_SECONDS_KEPT_MIN;
        conversation.can_be_undone |= history::can_be_undone(summary, &undone) || !summary.files_proposed().is_empty();
        conversation.is_settled &= summary.is_settled();
    }
    conversations
}

/// Reserves room for one more session, if there is enough.
fn reserve_bytes(taken: &mut u64, bytes: u64) -> bool {
    let fits = taken.saturating_add(bytes) <= SESSIONS_BYTES_MAX;
    if fits {
        *taken += bytes;
    }
    fits
}

/// Stores the summary in memory and on disk. If that fails, the next start reads the journal.
fn keep_summary(folder: &SessionFolder, summary: SessionSummary) -> EndedSession {
    let kept = EndedSession {
        summary,
        bytes: folder.size_bytes(),
        is_of_now: false,
    };
    let write = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder.path())?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        file.persist(folder.path().join(SUMMARY_FILE))?;
        Ok(())
    };
    if let Err(error) = write() {
        tracing::warn!(session = kept.summary.id(), %error, "its summary could not be written");
    }
    kept
}

/// Parts of a journal for the head of a report.
#[derive(Default)]
struct JournalOutline {
    /// Files of the last selection.
    selected: Vec<SelectedFile>,
    changes: Vec<JournalLine>,
}

impl JournalOutline {
    fn from_lines(lines: impl Iterator<Item = JournalLine>) -> Self {
        let mut outline = Self::default();
        for line in lines {
            match line.entry {
                JournalEntry::Event {
                    event: Event::Selection { files },
                } => outline.selected = files,
                ref entry if entry.is_of_change() => outline.changes.push(line),
                _ => {}
            }
        }
        outline
    }
}

/// Opens the repository at a session's root again.
pub(super) fn reopen_repository(root: &Path, home: &Path) -> Result<Arc<Repository>, RepositoryError> {
    let options = tool_repository::Options {
        state_directory: Some(home.to_owned()),
        home_confirmed: true,
        ignore_root_file: true,
        ..tool_repository::Options::default()
    };
    Repository::open(root, &options)
}

/// Opens the repository of a session again, for an undo or a diff.
pub(super) fn open_again(summary: &SessionSummary, home: &Path) -> Result<Arc<Repository>, Problem> {
    reopen_repository(Path::new(&summary.start.repository), home).map_err(|error| {
        Problem::new(ErrorKind::InvalidRepository, error.to_string())
            .with_hint("the session worked there; put the directory back and try again")
    })
}

/// The problem with a journal that cannot be read.
pub(super) fn journal_problem(error: &io::Error) -> Problem {
    let message = format!("The journal of the session cannot be read: {error}");
    Problem::new(ErrorKind::JournalFailed, message).with_hint("see logs/backend.log in TOOL_HOME (without it ~/.tool)")
}

/// Settles the open changes of a dead daemon: each is completed or rolled back. If the repository or the disk cannot
/// be reached, the change stays open, and the next start tries again.
///
/// A later session may have changed the same files. Its work is not rolled back.
fn recover_changes(recorder: &Arc<Recorder>, home: &Path, changed_later: impl Fn(&JournalChange) -> Option<String>) {
    if recorder.summary().start.preview {
        // The layer is gone, and the change never reached the repository.
        for open in recorder.summary().open_changes {
            recorder.record(JournalEntry::Abandoned { id: open.id });
        }
        return;
    }
    let has_ended = recorder.summary().status != Status::Running;
    for open in recorder.summary().open_changes {
        if has_ended && let Some(path) = changed_later(&open) {
            let message = format!("An interrupted change is left as it is: a later session has changed `{path}`");
            report_notice(recorder, message, Some("look at its files".to_owned()));
            recorder.record(JournalEntry::Abandoned { id: open.id });
            continue;
        }
        match settle_change(recorder, &open, home) {
            Ok(told) => {
                if has_ended {
                    let files = open.files.len();
                    tracing::warn!(
                        session = recorder.summary().id(),
                        files,
                        "an interrupted change was rolled back"
                    );
                }
                if let Some((message, hint)) = told {
                    report_notice(recorder, message, hint);
                }
                recorder.record(JournalEntry::Abandoned { id: open.id });
            }
            Err(why) => stays_open(
                recorder,
                format!("An interrupted change cannot be rolled back yet: {why}"),
            ),
        }
    }
    for open in recorder.summary().open_commits {
        match settle_commit(&open) {
            Ok(Some((message, hint))) => report_notice(recorder, message, hint),
            Ok(None) => {}
            // The next start tries again, as above.
            Err(error) => {
                let place = open.git.display();
                stays_open(
                    recorder,
                    format!("An interrupted commit in `{place}` cannot be settled yet: {error}"),
                );
                continue;
            }
        }
        recorder.record(JournalEntry::Published { id: open.id });
    }
}

/// Reports an open change, only once: each start examines an ended session again.
fn stays_open(recorder: &Recorder, message: String) {
    report_notice(
        recorder,
        message,
        Some("the next start of the backend tries again".to_owned()),
    );
}

/// Writes a message to the log, and to the stream of a session that has not ended.
fn report_notice(recorder: &Recorder, message: String, hint: Option<String>) {
    let summary = recorder.summary();
    tracing::warn!(session = summary.id(), message);
    if summary.status == Status::Running {
        recorder.notice(message, hint);
    }
}

/// Rolls one change back. Returns a notice if that was not possible for all files. An error means that another
/// attempt is needed.
fn settle_change(
    recorder: &Recorder,
    open: &JournalChange,
    home: &Path,
) -> Result<Option<(String, Option<String>)>, String> {
    let change = match recorder.folder().load(open) {
        Ok(change) => change,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
            let message = format!("An interrupted change cannot be rolled back: {error}");
            return Ok(Some((message, None)));
        }
        Err(error) => return Err(error.to_string()),
    };
    let repository = reopen_repository(&open.root, home).map_err(|error| error.to_string())?;
    let recovery = changes::recover_change(&repository, &change);
    let late = recovery.written_late.iter();
    late.for_each(|late| recorder.written_late(late));
    match (recovery.is_settled(), recovery.is_whole()) {
        (false, _) => Err(recovery.reasons()),
        (true, true) => Ok(None),
        (true, false) => Ok(Some((
            format!(
                "An interrupted change was rolled back, but not everywhere: {}",
                recovery.reasons()
            ),
            Some("look at these files: another program has changed them since".to_owned()),
        ))),
    }
}

/// The problem with a session whose journal could not be written.
fn not_recorded(error: &io::Error) -> Problem {
    let message = format!("The session cannot be recorded: {error}");
    Problem::new(ErrorKind::JournalFailed, message).with_hint(
        "make room below TOOL_HOME (without it ~/.tool); what is not written by the time the backend stops is lost",
    )
}

/// The problem with a session that lost events because the disk was full for too long.
fn not_all_recorded(lost: u64) -> Problem {
    let message = format!("{lost} events of the session are not recorded: the disk was full for too long");
    Problem::new(ErrorKind::JournalFailed, message)
        .with_hint("its changes are recorded, and `tool undo` takes them back")
}

/// The problem with a session whose daemon died.
fn interrupted_problem(summary: &SessionSummary) -> Problem {
    Problem {
        kind: ErrorKind::Interrupted,
        hint: Some("the backend stopped while the session ran; run it again".to_owned()),
        ..run::operation_failed(&summary.start.work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, start};
    use tool_core::api::Operation;
    use tool_journal::history::{FileHistory, FileMark};
    use tool_journal::journal::{ContinuedSession, SessionWork};

    fn kept(n: i64, work: SessionWork, bytes: u64) -> (String, EndedSession) {
        let id = format!("{n:04}");
        let mut summary = SessionSummary::begin(start(&id, work), at(n));
        summary.status = Status::Complete;
        let kept = EndedSession {
            summary,
            bytes,
            is_of_now: true,
        };
        (id, kept)
    }

    fn explain() -> SessionWork {
        SessionWork::Operation(Operation::Explain)
    }

    #[test]
    fn a_hundred_of_each_kind_are_kept() {
        let operations = (0..105).map(|n| kept(n, explain(), 1));
        let calls = (200..303).map(|n| kept(n, SessionWork::Skill("x".into()), 1));
        let mut all: BTreeMap<String, EndedSession> = operations.chain(calls).collect();
        let readers_come_back = at(400);
        assert!(to_forget(&all, readers_come_back).is_empty());
        all.get_mut("0001").expect("it is there").is_of_now = false;
        assert_eq!(to_forget(&all, readers_come_back), ["0001"]);
        let mut forgotten = to_forget(&all, at(400 + SESSION_SECONDS_KEPT_MIN));
        forgotten.sort();
        assert_eq!(
            forgotten,
            ["0000", "0001", "0002", "0003", "0004", "0200", "0201", "0202"]
        );
    }

    #[test]
    fn a_conversation_counts_once_and_goes_as_a_whole() {
        let turn = |n: i64, conversation: i64, turn: u32| {
            let (id, mut kept) = kept(n, explain(), 1);
            kept.is_of_now = false;
            kept.summary.start.continues = (turn > 1).then(|| ContinuedSession {
                conversation: format!("{conversation:04}"),
                session: format!("{:04}", n - 1),
                turn,
            });
            (id, kept)
        };
        let alone = |from: i64, to: i64| (from..to).map(move |n| turn(n, n, 1));
        let long = (0..50_u32).map(|number| turn(1_000 + i64::from(number), 1_000, number + 1));
        let all: BTreeMap<_, _> = alone(0, 99).chain(long.clone()).collect();
        assert!(to_forget(&all, at(9_000)).is_empty());
        let all: BTreeMap<_, _> = alone(0, 100).chain(long.clone()).collect();
        assert_eq!(to_forget(&all, at(9_000)), ["0000"]);
        let all: BTreeMap<_, _> = alone(2_000, 2_100).chain(long).collect();
        assert_eq!(to_forget(&all, at(9_000)).len(), 50);
    }

    #[test]
    fn large_ones_go_but_never_one_with_an_open_change() {
        let mut all: BTreeMap<String, EndedSession> = [
            kept(1, explain(), 1),
            kept(2, explain(), 1),
            kept(3, explain(), SESSIONS_BYTES_MAX),
            kept(4, explain(), 1),
        ]
        .into();
        let later = at(10 + SESSION_SECONDS_KEPT_MIN);
        assert!(to_forget(&all, at(10)).is_empty(), "they have just ended");
        assert_eq!(to_forget(&all, later), ["0003"], "the others fit");
        all.get_mut("0002").expect("it is there").bytes = SESSIONS_BYTES_MAX;
        let open = JournalChange {
            id: "c".into(),
            root: "/r".into(),
            files: Vec::new(),
            directories: Vec::new(),
        };
        all.get_mut("0002")
            .expect("it is there")
            .summary
            .open_changes
            .push(open);
        assert_eq!(to_forget(&all, later), ["0003"]);
    }

    #[test]
    fn bytes_alone_take_no_session_whose_changes_can_still_be_undone() {
        let refactor = |n| {
            let (id, mut kept) = kept(n, SessionWork::Operation(Operation::Refactor), 2 * SESSIONS_BYTES_MAX);
            let file = FileHistory {
                before: None,
                after: Some(FileMark {
                    digest: "digest".into(),
                    is_executable: false,
                }),
            };
            kept.summary.files.insert("a.py".into(), file);
            kept.is_of_now = false;
            (id, kept)
        };
        let mut all: BTreeMap<String, EndedSession> = [kept(1, explain(), 1), refactor(2), refactor(3)].into();
        let later = at(10 + SESSION_SECONDS_KEPT_MIN);
        assert!(to_forget(&all, later).is_empty());
        all.extend([kept(4, SessionWork::Undo("0003".into()), 1)]);
        assert_eq!(
            to_forget(&all, later),
            ["0003"],
            "it is taken back, and the older ones fit"
        );
    }
}
