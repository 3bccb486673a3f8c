//! Diff and undo of a session's changes.
//!
//! Both use the session's journal, so they work after a restart and show what the session left, whatever happened
//! since. An undo is a session, whose journal begins when there is something to change: it survives a crash like any
//! change, and can itself be undone. `tool_repository::changes` decides which contents may be replaced, and `http`
//! who may ask.

mod choice;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::preview::{check_diff, since_proposed};
use super::run::SessionOutcome;
use super::session_store::{SessionStore, journal_problem, open_again};
use super::{Sessions, run_blocking, unknown_session};
use crate::limits;
use tool_core::api::{self, Action, ChangedFile, ErrorKind, LeftFile, Problem, SessionDiff, Status, UndoResult};
use tool_core::digest::sha256_hex;
use tool_journal::feed::Recorder;
use tool_journal::history::{FileMark, SessionSummary};
use tool_journal::journal::{self, JournalLine, SessionFolder, SessionWork, StartRecord};
use tool_journal::lasting;
use tool_repository::Repository;
use tool_repository::changes::{
    self, ChangeJournal, FileChange, FileState, LaterEdits, LeftAlone, PreparedChange, UndoError, UndoReport,
    WrittenLate,
};
use tool_repository::diff::{FileDiff, first_lines, merge_beside};
use tool_skill::drop_build_caches;

/// Limit for the diff of a session in bytes: more than people read, and still displayable.
const SESSION_DIFF_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Limit for the diff of one merge in bytes, which a person reads before approving.
const MERGE_DIFF_BYTES_MAX: usize = 256 * 1024;

impl Sessions {
    /// Finds the newest session that changed files in a repository and has not been reverted, by an undo or by hand.
    ///
    /// # Errors
    ///
    /// No session of the repository can be undone.
    pub async fn newest_change(&self, repository: &str) -> Result<String, Problem> {
        let (summaries, home, repository) = (self.summaries(), self.home.clone(), repository.to_owned());
        run_blocking(move || {
            let root = std::fs::canonicalize(&repository).unwrap_or_else(|_| repository.into());
            let newest_first: Vec<&SessionSummary> = summaries.values().rev().collect();
            let found = choice::newest_undoable(&newest_first, &root, &home);
            found.map(|summary| summary.id().to_owned()).ok_or_else(|| {
                let message = format!(
                    "No session has changed files in `{}` that are not undone yet",
                    root.display()
                );
                Problem::new(ErrorKind::NothingChanged, message).with_action(Action::ListSessions)
            })
        })
        .await
    }

    /// The diff of a session's changes.
    ///
    /// # Errors
    ///
    /// There is no such session, or its journal cannot be read.
    pub async fn diff(&self, id: &str) -> Result<SessionDiff, Problem> {
        let summary = self.summaries().remove(id).ok_or_else(|| unknown_session(id))?;
        let (folder, home) = (self.store.folder(id), self.home.clone());
        run_blocking(move || session_diff(&summary, &folder, &home)).await
    }

    /// Reverts the changes of a session. Completes even if the caller goes away.
    ///
    /// Also merges with later edits of other lines in the same files, if `merges` has the digest of the result.
    ///
    /// # Errors
    ///
    /// The session runs, or nothing can be reverted.
    pub async fn undo(self: &Arc<Self>, id: &str, merges: Vec<String>) -> Result<UndoResult, Problem> {
        if self.is_under_way(id).await {
            let message = format!("The session `{id}` is still running and cannot be undone");
            return Err(Problem::new(ErrorKind::SessionRunning, message).with_hint("wait for its end, or cancel it"));
        }
        let under_way = self.begin()?;
        let summary = self.store.summary(id).ok_or_else(|| unknown_session(id))?;
        let sessions = Arc::clone(self);
        run_blocking(move || {
            let _under_way = under_way;
            sessions.take_back(&summary, &merges)
        })
        .await
    }

    /// True if a session runs. Waits until a session that has sent its last event leaves the list.
    async fn is_under_way(&self, id: &str) -> bool {
        let deadline = Instant::now() + limits::milliseconds(limits::OPEN_CHANGE_MS_MAX);
        while let Some(live) = self.live(id) {
            if live.recorder.summary().status == Status::Running || Instant::now() > deadline {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        false
    }

    pub(super) fn take_back(&self, summary: &SessionSummary, merges: &[String]) -> Result<UndoResult, Problem> {
        let folder = self.store.folder(summary.id());
        let lines = folder.changes().map_err(|error| journal_problem(&error))?;
        let (notices, _) = folder
            .view(|lines| lasting::list_notices(lines))
            .map_err(|error| journal_problem(&error))?;
        if summary.files_modified().is_empty() {
            let problem = if summary.files_proposed().is_empty() {
                nothing_to_undo(summary, "changed no files")
            } else {
                nothing_to_undo(summary, "is a preview, and changed nothing in the repository").with_action(
                    Action::DiscardPreview {
                        session_id: summary.id().to_owned(),
                    },
                )
            };
            return Err(if notices.is_empty() {
                problem
            } else {
                problem.with_hint(notices.join("; "))
            });
        }
        let changes = load_changes(&folder, &lines, summary)?;
        let repository = open_again(summary, &self.home)?;
        let journal = UndoJournal {
            store: &self.store,
            start: undo_start(summary, self.ids.next(api::current_time())),
            recorder: OnceLock::new(),
        };
        let later = LaterEdits {
            merge: &merge_beside,
            agreed: merges,
        };
        let undone = changes::undo_beside(&repository, &changes, &journal, &later);
        let undo_session_id = journal.end(undone.as_ref());
        // A run of the session may have left build output that seems to belong to these files.
        drop_build_caches(&self.home, repository.root());
        let report = undone.map_err(|error| problem_of(&error))?;
        if report.restored.is_empty() && report.left_alone.is_empty() {
            return Err(nothing_to_undo(
                summary,
                "is undone already: its files are as they were before it",
            ));
        }
        let summaries = self.summaries();
        let newest_first: Vec<&SessionSummary> = summaries.values().rev().collect();
        // If the disk was full, an earlier change would fail as well.
        let next = if report.left_alone.iter().all(|left| left.hint.is_some()) {
            None
        } else {
            choice::newest_before(&newest_first, summary, &self.home)
        };
        let left = report.left_alone.into_iter();
        Ok(UndoResult {
            notices,
            next_session_id: next.map(|next| next.id().to_owned()),
            session_id: summary.id().to_owned(),
            repository: summary.start.repository.clone(),
            undo_session_id,
            restored: report.restored,
            unchanged: report.unchanged,
            left: left
                .map(|left| {
                    let merged = report.mergeable.iter().find(|change| change.path == left.path);
                    LeftFile {
                        merge: merged.map(merge_diff),
                        merge_digest: merged.map(merge_digest),
                        ..explain_left(left, summary, &summaries, &repository)
                    }
                })
                .collect(),
        })
    }
}

/// A file that was left as it is, with the later session that is the reason.
fn explain_left(
    left: LeftAlone,
    undone: &SessionSummary,
    summaries: &BTreeMap<String, SessionSummary>,
    repository: &Repository,
) -> LeftFile {
    let LeftAlone { path, mut reason, hint } = left;
    if let Ok(current) = changes::read_state(repository.handle(), &path, limits::REPLACED_BYTES_MAX) {
        let current = current.as_ref().map(FileMark::from);
        let is_its = |later: &&SessionSummary| {
            let is_here =
                later.id() > undone.id() && later.start.repository == undone.start.repository && !later.start.preview;
            is_here && later.files.get(&path).is_some_and(|file| file.after == current)
        };
        if let Some(later) = summaries.values().rev().find(is_its) {
            reason.push_str(&match &later.start.work {
                // Do not suggest to undo an undo: that would restore changes that the user reverted.
                SessionWork::Undo(of) => format!(", by the undo of the session {of}"),
                _ => format!(", by the session {}: undo that one first", later.id()),
            });
        }
    }
    LeftFile {
        path,
        reason,
        hint,
        merge: None,
        merge_digest: None,
    }
}

/// The diff of a possible merge. A cut diff has the digest of the whole.
fn merge_diff(change: &FileChange) -> String {
    let whole = FileDiff::new(change).text;
    let mut shown = first_lines(&whole, MERGE_DIFF_BYTES_MAX).to_owned();
    if shown.len() < whole.len() {
        let digest = merge_digest(change);
        shown.push_str(&format!(
            "[the rest is not shown; the merged file has the SHA-256 {digest}]\n"
        ));
    }
    shown
}

fn merge_digest(change: &FileChange) -> String {
    let content = change.after.as_ref().map_or(&[][..], |after| after.content.as_slice());
    sha256_hex(content)
}

fn nothing_to_undo(summary: &SessionSummary, why: &str) -> Problem {
    let message = format!("Nothing to undo: the session `{}` {why}", summary.id());
    Problem::new(ErrorKind::NothingToUndo, message).with_action(Action::ListSessions)
}

fn problem_of(error: &UndoError) -> Problem {
    Problem {
        hint: error.hint(),
        ..Problem::new(ErrorKind::UndoFailed, capitalise_first(&error.to_string()))
    }
}

fn capitalise_first(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// The committed changes of a session with their contents, oldest first.
fn load_changes(
    folder: &SessionFolder,
    lines: &[JournalLine],
    summary: &SessionSummary,
) -> Result<Vec<PreparedChange>, Problem> {
    let changes =
        journal::committed_changes(lines).filter(|change| change.root == Path::new(&summary.start.repository));
    let loaded: io::Result<Vec<_>> = changes.map(|change| folder.load(change)).collect();
    loaded.map_err(|error| journal_problem(&error))
}

fn session_diff(summary: &SessionSummary, folder: &SessionFolder, home: &Path) -> Result<SessionDiff, Problem> {
    check_diff(summary)?;
    let lines = folder.changes().map_err(|error| journal_problem(&error))?;
    let repository = open_again(summary, home).ok();
    let (mut files, mut whole) = (Vec::new(), String::new());
    for change in folder.net(&lines) {
        let change = change.map_err(|error| journal_problem(&error))?;
        let diff = FileDiff::new(&change);
        // Keep no more in memory than is shown.
        if whole.len() <= SESSION_DIFF_BYTES_MAX {
            whole.push_str(&diff.text);
        }
        files.push(ChangedFile {
            since: match repository.as_deref() {
                Some(repository) if summary.start.preview => since_proposed(&change, repository),
                repository => changed_since(&change, repository),
            },
            ..ChangedFile::from(diff)
        });
    }
    Ok(SessionDiff {
        session_id: summary.id().to_owned(),
        repository: summary.start.repository.clone(),
        truncated: whole.len() > SESSION_DIFF_BYTES_MAX,
        preview: summary.start.preview,
        diff: first_lines(&whole, SESSION_DIFF_BYTES_MAX).to_owned(),
        files,
    })
}

/// Describes a file's change since the session left it; `None` if it is unchanged.
fn changed_since(change: &FileChange, repository: Option<&Repository>) -> Option<String> {
    let Some(repository) = repository else {
        return Some("the repository is gone".to_owned());
    };
    let size_max = [&change.before, &change.after]
        .into_iter()
        .flatten()
        .map(|state| state.content.len() as u64)
        .max();
    let current = changes::read_state(repository.handle(), &change.path, size_max.unwrap_or(0));
    let is = |state: &Option<FileState>| {
        let mark = |state: &Option<FileState>| state.as_ref().map(FileMark::from);
        current.as_ref().is_ok_and(|current| mark(current) == mark(state))
    };
    if is(&change.after) {
        return None;
    }
    Some(if is(&change.before) {
        api::BACK.to_owned()
    } else if matches!(current, Ok(None)) {
        "it is gone".to_owned()
    } else {
        "it has been changed since".to_owned()
    })
}

fn undo_start(undone: &SessionSummary, session_id: String) -> StartRecord {
    let (id, repository) = (undone.id().to_owned(), undone.start.repository.clone());
    StartRecord {
        working_directory: undone.start.working_directory.clone(),
        ..StartRecord::new(session_id, SessionWork::Undo(id.clone()), id, repository)
    }
}

/// The journal of an undo, which begins with its first change: an undo that changes nothing leaves no session.
struct UndoJournal<'a> {
    store: &'a SessionStore,
    start: StartRecord,
    recorder: OnceLock<Arc<Recorder>>,
}

impl UndoJournal<'_> {
    fn begun(&self) -> io::Result<&Arc<Recorder>> {
        if let Some(recorder) = self.recorder.get() {
            return Ok(recorder);
        }
        let folder = self.store.folder(&self.start.session_id);
        let recorder = Recorder::create(folder, self.start.clone())?;
        Ok(self.recorder.get_or_init(|| recorder))
    }

    /// Ends the undo's session, if it began. Returns its identifier if it changed anything.
    fn end(&self, undone: Result<&UndoReport, &UndoError>) -> Option<String> {
        let recorder = self.recorder.get()?;
        let problem = match undone {
            Ok(report) if report.left_alone.is_empty() => None,
            Ok(report) => {
                for left in &report.left_alone {
                    recorder.notice(left.reason.clone(), None);
                }
                let message = format!("{} files were left as they are", report.left_alone.len());
                Some(Problem::new(ErrorKind::UndoIncomplete, message))
            }
            Err(error) => Some(problem_of(error)),
        };
        let outcome = problem.map_or_else(SessionOutcome::complete, SessionOutcome::failed);
        self.store.end(recorder, outcome);
        let changed = !recorder.summary().files_modified().is_empty();
        changed.then(|| self.start.session_id.clone())
    }
}

impl ChangeJournal for UndoJournal<'_> {
    fn prepare(&self, change: &PreparedChange) -> io::Result<()> {
        self.begun()?.prepare(change)
    }

    fn committed(&self, id: &str) -> io::Result<()> {
        self.begun()?.committed(id)
    }

    fn abandoned(&self, id: &str) -> io::Result<()> {
        self.begun()?.abandoned(id)
    }

    fn written_late(&self, late: &WrittenLate) {
        if let Some(recorder) = self.recorder.get() {
            recorder.written_late(late);
        }
    }
}

#[cfg(test)]
mod tests;
