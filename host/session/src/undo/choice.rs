//! Chooses the session for an undo that names none: the newest one with something to revert.

use std::path::Path;

use crate::limits;
use crate::session_store::open_again;
use tool_journal::history::{FileMark, SessionSummary, can_be_undone, find_undone};
use tool_repository::Repository;
use tool_repository::changes;

/// The newest session that changed files of the repository `root`, and whose changes have not been reverted, by an
/// undo or by hand. Undos are skipped, but a user can name one. `newest_first` holds all sessions.
pub(super) fn newest_undoable<'a>(
    newest_first: &[&'a SessionSummary],
    root: &Path,
    home: &Path,
) -> Option<&'a SessionSummary> {
    newest_where(
        newest_first,
        root,
        home,
        |_| true,
        |summary, place| !is_back(summary, place),
    )
}

/// The newest session before `session` of which an undo would revert something, because a hint must not suggest an
/// undo that is refused.
pub(super) fn newest_before<'a>(
    newest_first: &[&'a SessionSummary],
    session: &SessionSummary,
    home: &Path,
) -> Option<&'a SessionSummary> {
    let root = Path::new(&session.start.repository);
    let is_before = |summary: &SessionSummary| summary.id() < session.id();
    newest_where(newest_first, root, home, is_before, |summary, place| {
        !is_back(summary, place) && is_in_place(summary, place)
    })
}

fn newest_where<'a>(
    newest_first: &[&'a SessionSummary],
    root: &Path,
    home: &Path,
    is_wanted: impl Fn(&SessionSummary) -> bool,
    is_left: impl Fn(&SessionSummary, &Repository) -> bool,
) -> Option<&'a SessionSummary> {
    let undone = find_undone(newest_first);
    let changed_files =
        |summary: &&&SessionSummary| Path::new(&summary.start.repository) == root && can_be_undone(summary, &undone);
    let mut candidates = newest_first
        .iter()
        .filter(changed_files)
        .filter(|summary| is_wanted(summary))
        .peekable();
    let repository = candidates.peek().and_then(|summary| open_again(summary, home).ok());
    let is_left = |summary: &&&SessionSummary| repository.as_deref().is_none_or(|place| is_left(summary, place));
    candidates.find(is_left).copied()
}

/// True if every file is as before the session: the changes were reverted by hand.
fn is_back(summary: &SessionSummary, repository: &Repository) -> bool {
    summary.files_modified().iter().all(|path| {
        let current = current_mark(path, repository);
        current.is_some_and(|current| summary.files.get(path).is_some_and(|file| file.before == current))
    })
}

/// True if some file is as the session left it.
fn is_in_place(summary: &SessionSummary, repository: &Repository) -> bool {
    summary.files_modified().iter().any(|path| {
        let current = current_mark(path, repository);
        current.is_some_and(|current| summary.files.get(path).is_some_and(|file| file.after == current))
    })
}

/// The present state of a file, if it exists; `None` if it cannot be read.
fn current_mark(path: &str, repository: &Repository) -> Option<Option<FileMark>> {
    let current = changes::read_state(repository.handle(), path, limits::REPLACED_BYTES_MAX).ok()?;
    Some(current.as_ref().map(FileMark::from))
}
