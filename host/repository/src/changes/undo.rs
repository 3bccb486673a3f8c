//! Undoes the changes of a session at the user's request.
//!
//! An undo is itself a change: it is prepared, journalled and put in place like any other. So a crash leaves all or
//! nothing of it, and it can be undone too. A file that another program has changed since stays as it is; the report
//! names it with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use super::{
    ChangeJournal, FileChange, FileState, LeftAlone, Obstacle, PreparedChange, PresentFile, Recovery, RolledBack,
    apply_change, content_of, find_present, missing_directories, read_state, recover_locked, remove_directories,
    write_lock,
};
use crate::{Repository, path};
use tool_core::digest::sha256_hex;
use tool_core::disk::Disk;
use tool_core::limits::REPLACED_BYTES_MAX;

/// Result of [`undo_changes`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Paths that have the state from before the changes again, sorted.
    pub restored: Vec<String>,
    /// Paths that had that state already, sorted.
    pub unchanged: Vec<String>,
    /// Paths that were left, because another program has changed them, sorted.
    pub left_alone: Vec<LeftAlone>,
    /// Possible states of left files: without the changes, but with later edits of other lines.
    pub mergeable: Vec<FileChange>,
}

/// Takes a change back and keeps later edits. The arguments are what the change left, what is there now, and what was
/// there before. `None` if both touch the same lines.
pub type MergeEdits<'a> = dyn Fn(&[u8], &[u8], &[u8]) -> Option<Vec<u8>> + 'a;

/// How an undo treats a file that another program has edited since.
pub struct LaterEdits<'a> {
    /// Merges one file.
    pub merge: &'a MergeEdits<'a>,
    /// SHA-256 (hexadecimal) of the merged contents that the user has seen and wants.
    pub agreed: &'a [String],
}

/// Reason why an undo failed.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The journal could not be written.
    #[error("the undo cannot be journalled ({0}); it was taken back")]
    Journal(#[source] std::io::Error),
    /// The journal could not be written, and not every file could be taken back.
    #[error("the undo cannot be journalled ({source}); it was taken back, but not everywhere: {left}")]
    JournalInPart {
        /// The error of the journal.
        source: std::io::Error,
        /// Path that stays as it is, with the reason.
        left: String,
    },
    /// A file could not be put in place, and another one could not be taken back.
    #[error("{obstacle}; the undo was taken back, but not everywhere: {left}")]
    InPart {
        /// Reason for the failure.
        obstacle: String,
        /// Path that stays as it is, with the reason.
        left: String,
        /// Advice if the system names what is missing.
        hint: Option<String>,
    },
    /// Two steps are needed if a file replaces a directory, and only the first was made.
    #[error("{why}; what had been restored before stays: {restored}")]
    Halfway {
        /// Why the second step failed.
        why: String,
        /// The paths of the first step.
        restored: String,
        /// Advice, if there is any.
        hint: Option<String>,
    },
}

impl UndoError {
    /// Advice, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Journal(error) | Self::JournalInPart { source: error, .. } => {
                Some(Disk::Home.hint_for(error).unwrap_or_else(|| {
                    "check that TOOL_HOME (without it ~/.tool) may be written, and try again".to_owned()
                }))
            }
            Self::InPart { hint, .. } | Self::Halfway { hint, .. } => hint.clone(),
        }
    }
}

/// Restores what `changes` (oldest first) replaced, byte for byte. A file whose content is not what the newest change
/// left is not touched. One that another program changed between two of the changes goes back to that state.
///
/// Permissions are restored if the changes had changed them; a user's own `chmod` since stays. Directories that the
/// changes created are removed if they are empty.
///
/// # Errors
///
/// See [`UndoError`].
pub fn undo_changes(
    repository: &Repository,
    changes: &[PreparedChange],
    journal: &dyn ChangeJournal,
) -> Result<UndoReport, UndoError> {
    let later = LaterEdits {
        merge: &|_, _, _| None,
        agreed: &[],
    };
    undo_beside(repository, changes, journal, &later)
}

/// Like [`undo_changes`], but keeps later edits of other lines in a file if the user agrees.
///
/// # Errors
///
/// See [`UndoError`].
pub fn undo_beside(
    repository: &Repository,
    changes: &[PreparedChange],
    journal: &dyn ChangeJournal,
    later: &LaterEdits<'_>,
) -> Result<UndoReport, UndoError> {
    let lock = write_lock(repository);
    let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let mut work = UndoRun {
        repository,
        journal,
        later,
        made: made_by(changes).collect(),
        report: UndoReport::default(),
    };
    let (vanishing, returning) = work.inverse(changes);
    // A directory of the vanishing files may have the name of a file that comes back; then it has to be removed first.
    let is_in_the_way = |file: &FileChange| path::list_ancestors(&file.path).any(|above| names_path(&returning, above));
    let parts = if vanishing.iter().any(is_in_the_way) {
        vec![vanishing, returning]
    } else {
        vec![vanishing.into_iter().chain(returning).collect()]
    };
    for part in parts {
        work.put_in_place(part).map_err(|error| work.halfway(error))?;
        work.remove_directories();
    }
    let mut report = work.report;
    report.restored.sort_unstable();
    report.unchanged.sort_unstable();
    report.left_alone.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(report)
}

fn names_path(files: &[FileChange], path: &str) -> bool {
    files.iter().any(|file| file.path == path)
}

struct UndoRun<'a> {
    repository: &'a Repository,
    journal: &'a dyn ChangeJournal,
    later: &'a LaterEdits<'a>,
    /// Directories that the changes created.
    made: BTreeSet<&'a str>,
    report: UndoReport,
}

impl UndoRun<'_> {
    /// Returns the changes that lead back: of files that vanish, and of those that come back or change. Reports files
    /// that cannot go back.
    fn inverse(&mut self, changes: &[PreparedChange]) -> (Vec<FileChange>, Vec<FileChange>) {
        let mut inverse = Vec::new();
        for (path, history) in group_by_path(changes) {
            let current = match find_present(self.repository.handle(), &history) {
                // A directory that the session created, which is removed first.
                Err(Obstacle::NotRegular { path }) if self.made.contains(path.as_str()) => {
                    Ok(PresentFile::Comparable(None))
                }
                found => found,
            };
            match current.map(|current| inverse_of(path, &history, current)) {
                Ok(InverseChange::Nothing) => self.report.unchanged.push(path.to_owned()),
                Ok(InverseChange::Whole(change)) => inverse.push(change),
                Ok(InverseChange::Broken(change)) => {
                    let reason =
                        format!("`{path}` has again the content that another program gave it during the session");
                    self.leave(path, reason, None);
                    inverse.push(change);
                }
                Ok(InverseChange::LeaveAlone) => match self.merged(path, &history) {
                    Some(change) if self.is_agreed(&change) => inverse.push(change),
                    merged => {
                        self.report.mergeable.extend(merged);
                        self.leave(path, format!("`{path}` has been changed since"), None);
                    }
                },
                Err(obstacle) => self.leave(path, obstacle.to_string(), obstacle.hint()),
            }
        }
        inverse.into_iter().partition(|file| file.after.is_none())
    }

    fn is_agreed(&self, change: &FileChange) -> bool {
        let digest = change.after.as_ref().map(|after| sha256_hex(&after.content));
        digest.is_some_and(|digest| self.later.agreed.contains(&digest))
    }

    /// The change that takes a file's history back and keeps what another program has edited since.
    fn merged(&self, path: &str, history: &[&FileChange]) -> Option<FileChange> {
        let is_chain = |pair: &[&FileChange]| content_of(pair[0].after.as_ref()) == content_of(pair[1].before.as_ref());
        if !history.windows(2).all(is_chain) {
            return None;
        }
        let before = history.first()?.before.as_ref()?;
        let after = history.last()?.after.as_ref()?;
        let current = read_state(self.repository.handle(), path, REPLACED_BYTES_MAX).ok()??;
        let content = (self.later.merge)(&after.content, &current.content, &before.content)?;
        let mode = current.mode;
        let merged = FileChange {
            path: path.to_owned(),
            before: Some(current),
            after: Some(FileState { content, mode }),
        };
        (merged.before != merged.after).then_some(merged)
    }

    /// Puts files in place, except those that another program is changing now or that the system refuses.
    fn put_in_place(&mut self, mut files: Vec<FileChange>) -> Result<(), UndoError> {
        while !files.is_empty() {
            let change = PreparedChange {
                id: uuid::Uuid::now_v7().simple().to_string(),
                call_id: None,
                root: self.repository.root().to_owned(),
                directories: missing_directories(self.repository.handle(), &files),
                files,
            };
            self.journal.prepare(&change).map_err(UndoError::Journal)?;
            let (obstacle, rolled_back) = match apply_change(self.repository.handle(), &change) {
                Ok(late) => {
                    late.iter().for_each(|late| self.journal.written_late(late));
                    // Before the change is recorded as committed: after that, no recovery removes them.
                    self.remove_directories();
                    return self.keep(change);
                }
                Err(failed) => failed,
            };
            if rolled_back == RolledBack::InPart {
                self.take_back(&change, &obstacle)?;
            }
            self.journal.abandoned(&change.id).map_err(UndoError::Journal)?;
            files = change.files;
            let count = files.len();
            files.retain(|file| file.path != obstacle.path());
            self.leave(obstacle.path(), obstacle.to_string(), obstacle.hint());
            if files.len() == count {
                // The obstacle named none of the files: the loop would repeat without end.
                return Err(UndoError::InPart {
                    obstacle: obstacle.to_string(),
                    left: "nothing was restored".to_owned(),
                    hint: obstacle.hint(),
                });
            }
        }
        Ok(())
    }

    /// Removes directories that the changes created, if they are empty.
    fn remove_directories(&self) {
        remove_directories(self.repository.handle(), self.made.iter().copied());
    }

    fn recover(&self, change: &PreparedChange) -> Recovery {
        let recovery = recover_locked(self.repository, change);
        let late = recovery.written_late.iter();
        late.for_each(|late| self.journal.written_late(late));
        recovery
    }

    /// Takes back what the rollback of a change has left. Files that another program has changed meanwhile stay.
    fn take_back(&self, change: &PreparedChange, obstacle: &Obstacle) -> Result<(), UndoError> {
        let recovery = self.recover(change);
        if recovery.is_whole() {
            return Ok(());
        }
        if recovery.is_settled() {
            self.journal.abandoned(&change.id).map_err(UndoError::Journal)?;
        }
        Err(UndoError::InPart {
            obstacle: obstacle.to_string(),
            left: recovery.reasons(),
            hint: obstacle.hint(),
        })
    }

    /// Records a change that is completely in place.
    fn keep(&mut self, change: PreparedChange) -> Result<(), UndoError> {
        if let Err(error) = self.journal.committed(&change.id) {
            // Without this record the change would be rolled back at the next start. It is rolled back now, and the
            // user is told.
            let recovery = self.recover(&change);
            // If this cannot be recorded either, the next start finds the change open, and finishes what cannot be
            // reached now.
            if recovery.is_settled() {
                let _ = self.journal.abandoned(&change.id);
            }
            return Err(if recovery.is_whole() {
                UndoError::Journal(error)
            } else {
                UndoError::JournalInPart {
                    source: error,
                    left: recovery.reasons(),
                }
            });
        }
        let left: Vec<&str> = self.report.left_alone.iter().map(|left| left.path.as_str()).collect();
        let restored: Vec<String> = change
            .files
            .into_iter()
            .map(|file| file.path)
            .filter(|path| !left.contains(&path.as_str()))
            .collect();
        self.report.restored.extend(restored);
        Ok(())
    }

    /// The error of a second step, after a first one that stays.
    fn halfway(&self, error: UndoError) -> UndoError {
        match self.report.restored.as_slice() {
            [] => error,
            paths => UndoError::Halfway {
                why: error.to_string(),
                restored: paths.join(", "),
                hint: error.hint(),
            },
        }
    }

    fn leave(&mut self, path: &str, reason: String, hint: Option<String>) {
        let path = path.to_owned();
        if !self.report.left_alone.iter().any(|left| left.path == path) {
            self.report.left_alone.push(LeftAlone { path, reason, hint });
        }
    }
}

/// Steps that take the changes of one file back.
enum InverseChange {
    Nothing,
    Whole(FileChange),
    /// The change leads back only in part: another program changed the file in between.
    Broken(FileChange),
    LeaveAlone,
}

fn inverse_of(path: &str, history: &[&FileChange], found: PresentFile) -> InverseChange {
    let PresentFile::Comparable(current) = found else {
        return InverseChange::LeaveAlone;
    };
    let (to, broken) = match plan_undo(history, content_of(current.as_ref())) {
        UndoPlan::Nothing => return InverseChange::Nothing,
        UndoPlan::LeaveAlone => return InverseChange::LeaveAlone,
        UndoPlan::Restore { to, broken } => (to, broken),
    };
    let newest = history.last().and_then(|change| change.after.as_ref());
    let after = to.map(|to| FileState {
        content: to.content.clone(),
        mode: match (&current, newest) {
            (Some(current), Some(newest)) if current.mode != newest.mode => current.mode,
            _ => to.mode,
        },
    });
    let change = FileChange {
        path: path.to_owned(),
        before: current,
        after,
    };
    if change.before == change.after {
        // The changes were only of the mode, and the user has set another one since.
        InverseChange::Nothing
    } else if broken {
        InverseChange::Broken(change)
    } else {
        InverseChange::Whole(change)
    }
}

/// Directories that changes created.
fn made_by(changes: &[PreparedChange]) -> impl Iterator<Item = &str> {
    changes
        .iter()
        .flat_map(|change| &change.directories)
        .map(String::as_str)
}

/// The changes of each file, oldest first.
fn group_by_path(changes: &[PreparedChange]) -> BTreeMap<&str, Vec<&FileChange>> {
    let mut by_path: BTreeMap<&str, Vec<&FileChange>> = BTreeMap::new();
    for file in changes.iter().flat_map(|change| &change.files) {
        by_path.entry(&file.path).or_default().push(file);
    }
    by_path
}

/// Result of taking back the history of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UndoPlan<'a> {
    /// The file has the state from before the oldest change.
    Nothing,
    /// The file becomes `to`. `broken` is true if another program's change between two of ours ends the way back.
    Restore { to: Option<&'a FileState>, broken: bool },
    /// The file does not have the state that the newest change left.
    LeaveAlone,
}

/// Goes back through the changes of one file (oldest first), as long as each left what the next one found.
pub(super) fn plan_undo<'a>(history: &[&'a FileChange], current: Option<&[u8]>) -> UndoPlan<'a> {
    let mut reached = current;
    let mut to = None;
    let mut undone = 0;
    for change in history.iter().rev() {
        if content_of(change.after.as_ref()) != reached {
            break;
        }
        reached = content_of(change.before.as_ref());
        to = change.before.as_ref();
        undone += 1;
    }
    let oldest = history.first().and_then(|change| change.before.as_ref());
    if undone == 0 && content_of(oldest) != current {
        return UndoPlan::LeaveAlone;
    }
    // A change may be only of the mode.
    let newest = history.last().and_then(|change| change.after.as_ref());
    let is_same_mode = to.zip(newest).is_none_or(|(to, newest)| to.mode == newest.mode);
    if reached == current && (undone == 0 || undone == history.len() && is_same_mode) {
        return UndoPlan::Nothing;
    }
    UndoPlan::Restore {
        to,
        broken: undone < history.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(content: &str) -> FileState {
        FileState {
            content: content.into(),
            mode: 0o644,
        }
    }

    fn change(before: Option<&str>, after: Option<&str>) -> FileChange {
        FileChange {
            path: "a.txt".into(),
            before: before.map(state),
            after: after.map(state),
        }
    }

    #[test]
    fn one_change_is_taken_back() {
        let change = change(Some("old"), Some("new"));
        let (old, broken) = (state("old"), false);
        assert_eq!(
            plan_undo(&[&change], Some(b"new")),
            UndoPlan::Restore { to: Some(&old), broken }
        );
        assert_eq!(plan_undo(&[&change], Some(b"old")), UndoPlan::Nothing);
        assert_eq!(plan_undo(&[&change], Some(b"other")), UndoPlan::LeaveAlone);
        assert_eq!(plan_undo(&[&change], None), UndoPlan::LeaveAlone);
    }

    #[test]
    fn creation_and_deletion_are_taken_back() {
        let (created, deleted) = (change(None, Some("x")), change(Some("x"), None));
        let broken = false;
        assert_eq!(
            plan_undo(&[&created], Some(b"x")),
            UndoPlan::Restore { to: None, broken }
        );
        assert_eq!(plan_undo(&[&created], None), UndoPlan::Nothing);
        assert_eq!(
            plan_undo(&[&deleted], None),
            UndoPlan::Restore {
                to: Some(&state("x")),
                broken
            }
        );
        assert_eq!(plan_undo(&[&created, &deleted], None), UndoPlan::Nothing);
    }

    #[test]
    fn several_changes_are_taken_back_to_the_oldest_state() {
        let history = [change(Some("1"), Some("2")), change(Some("2"), Some("3"))];
        let history: Vec<_> = history.iter().collect();
        let (oldest, broken) = (state("1"), false);
        assert_eq!(
            plan_undo(&history, Some(b"3")),
            UndoPlan::Restore {
                to: Some(&oldest),
                broken
            }
        );
        assert_eq!(
            plan_undo(&history, Some(b"2")),
            UndoPlan::LeaveAlone,
            "the newest change is not what is there"
        );
    }

    #[test]
    fn a_change_of_somebody_else_in_between_ends_the_way_back() {
        let history = [change(Some("1"), Some("2")), change(Some("theirs"), Some("3"))];
        let history: Vec<_> = history.iter().collect();
        let theirs = state("theirs");
        assert_eq!(
            plan_undo(&history, Some(b"3")),
            UndoPlan::Restore {
                to: Some(&theirs),
                broken: true
            }
        );
    }

    proptest! {
        /// A whole history of ours always leads back, and a file is never lost unless we put it there.
        #[test]
        fn a_plan_replaces_only_what_the_newest_change_left(
            states in prop::collection::vec(prop::option::of("[ab]{0,1}"), 2..6),
            current in prop::option::of("[abc]{0,1}"),
        ) {
            let changes: Vec<_> = states
                .windows(2)
                .map(|pair| change(pair[0].as_deref(), pair[1].as_deref()))
                .collect();
            let history: Vec<_> = changes.iter().collect();
            let (first, last) = (states[0].as_deref(), states[states.len() - 1].as_deref());
            let current = current.as_deref();
            match plan_undo(&history, current.map(str::as_bytes)) {
                UndoPlan::Restore { to, broken } => {
                    prop_assert!(!broken);
                    prop_assert_eq!(current, last);
                    prop_assert_eq!(content_of(to), first.map(str::as_bytes));
                }
                UndoPlan::Nothing => prop_assert_eq!(current, first),
                UndoPlan::LeaveAlone => prop_assert!(current != last && current != first),
            }
        }
    }
}
