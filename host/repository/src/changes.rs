//! Makes prepared changes completely or not at all, undoes them, and finishes changes that a crash interrupted.
//!
//! All steps use directory handles that were opened beneath the root without following links. `file` brings one file
//! from one state to another; `undo` takes back the changes of a session. The boundary of skills decides which paths
//! may be changed.

mod crash_point;
mod file;
mod journal;
mod undo;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustix::io::Errno;

#[cfg(debug_assertions)]
pub use crash_point::crash::{crash_at, interfere_at};
pub use crash_point::{crash_point, has_crashed};
#[cfg(debug_assertions)]
pub use file::{FAILING, FailingStep, WITHOUT_RENAME_FLAGS};
use file::{
    PlacedBy, discard_if, exchange_names, is_at, make_parents, open_parent, place_file, put_aside, remove_leftover,
    remove_made, replace_back,
};
pub use file::{ReadError, new_file_mode, read_bounded, read_state, rename_new};
pub use journal::{ChangeJournal, CommitInProgress, ContentsFull, FileChange, FileState, JournalGuard, PreparedChange};
pub use undo::{LaterEdits, MergeEdits, UndoError, UndoReport, undo_beside, undo_changes};
use undo::{UndoPlan, plan_undo};

use crate::{FileIdentity, Repository, RootHandle, path};
use tool_core::disk::Disk;

/// Reason why a file cannot be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// A symbolic link at the path or on the way to it.
    #[error("`{path}` leads through a symbolic link")]
    Link {
        /// Path in the repository.
        path: String,
    },
    /// A file where a directory is required.
    #[error("`{path}` lies beneath something that is not a directory")]
    NoDirectory {
        /// Path in the repository.
        path: String,
    },
    /// A directory, a FIFO, a device.
    #[error("`{path}` is not a regular file")]
    NotRegular {
        /// Path in the repository.
        path: String,
    },
    /// Larger than a change may hold.
    #[error("`{path}` has {size} bytes, more than a change can hold")]
    TooLarge {
        /// Path in the repository.
        path: String,
        /// Bytes of the file.
        size: u64,
    },
    /// Not in the state in which it was when the change was prepared.
    #[error("`{path}` was changed by another program in the meantime")]
    Changed {
        /// Path in the repository.
        path: String,
    },
    /// The error of the system.
    #[error("`{path}`: {source}")]
    Io {
        /// Path in the repository.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl Obstacle {
    pub(crate) fn from_read(path: &str, error: ReadError) -> Self {
        let path = path.to_owned();
        match error {
            ReadError::TooLarge { size } => Self::TooLarge { path, size },
            ReadError::Io(source) => Self::Io { path, source },
        }
    }

    /// Advice if the system names what is missing.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } => Disk::Repository.hint_for(source),
            _ => None,
        }
    }

    /// The file that the obstacle is about.
    fn path(&self) -> &str {
        match self {
            Self::Link { path }
            | Self::NoDirectory { path }
            | Self::NotRegular { path }
            | Self::TooLarge { path, .. }
            | Self::Changed { path }
            | Self::Io { path, .. } => path,
        }
    }

    fn from_errno(path: &str, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::LOOP => Self::Link { path },
            Errno::NOTDIR => Self::NoDirectory { path },
            Errno::ISDIR => Self::NotRegular { path },
            errno => Self::Io {
                path,
                source: errno.into(),
            },
        }
    }
}

/// A file that was left as it is, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    /// Relative to the root.
    pub path: String,
    /// A sentence without its full stop.
    pub reason: String,
    /// Advice if the system names what is missing.
    pub hint: Option<String>,
}

/// An old file that another program had open and wrote into after it was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenLate {
    /// Path of the replaced file.
    pub path: String,
    /// Path at which the old file with the other program's text is kept.
    pub kept: String,
}

impl WrittenLate {
    /// Message and advice for the user.
    pub fn told(&self) -> (String, String) {
        let Self { path, kept } = self;
        let message =
            format!("`{path}` was still written to while it was replaced; that state of it is kept in `{kept}`");
        (
            message,
            format!("compare it with `{path}`, take over what is missing and remove it"),
        )
    }
}

/// Result of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Paths that were rolled back.
    pub restored: Vec<String>,
    /// Paths whose content is neither the old nor the new one. They are reported and not touched.
    pub left_alone: Vec<LeftAlone>,
    /// Files that were taken back while another program wrote to them.
    pub written_late: Vec<WrittenLate>,
    /// Paths that the system did not allow to read or change, because of a full disk or one that is read-only for now.
    /// Their state is unknown, and the change stays open for another attempt.
    pub out_of_reach: Vec<LeftAlone>,
}

impl Recovery {
    /// True if the change is completely undone and may be recorded as abandoned.
    pub fn is_whole(&self) -> bool {
        self.left_alone.is_empty() && self.is_settled()
    }

    /// True if another attempt would find nothing to do.
    pub fn is_settled(&self) -> bool {
        self.out_of_reach.is_empty()
    }

    /// Reasons why files were left as they are, as the end of a sentence.
    pub fn reasons(&self) -> String {
        let left = self.left_alone.iter().chain(&self.out_of_reach);
        let reasons: Vec<&str> = left.map(|left| left.reason.as_str()).collect();
        reasons.join("; ")
    }
}

/// Lock for everything that writes in one repository, for all sessions of this process.
pub fn write_lock(repository: &Repository) -> Arc<Mutex<()>> {
    static LOCKS: LazyLock<Mutex<HashMap<FileIdentity, Arc<Mutex<()>>>>> = LazyLock::new(Mutex::default);
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    locks.retain(|_, lock| Arc::strong_count(lock) > 1);
    Arc::clone(locks.entry(repository.identity()).or_default())
}

/// Finishes a change that was prepared, but neither committed nor abandoned, because the process died.
///
/// It is rolled back even if every file is in place: no caller has learned that the change happened, the old contents
/// are complete in the journal, and the user has seen the old state. A file that is neither old nor new was changed by
/// another program and is left alone.
pub fn recover_change(repository: &Repository, change: &PreparedChange) -> Recovery {
    let lock = write_lock(repository);
    let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    recover_locked(repository, change)
}

/// [`recover_change`] for a caller that holds the [`write_lock`].
pub fn recover_locked(repository: &Repository, change: &PreparedChange) -> Recovery {
    let mut recovery = Recovery::default();
    if let Some(layer) = repository.layer() {
        match layer.take_back(&change.files) {
            Ok(()) => recovery
                .restored
                .extend(change.files.iter().map(|file| file.path.clone())),
            Err(obstacle) => recovery.out_of_reach.push(LeftAlone {
                path: obstacle.path().to_owned(),
                reason: obstacle.to_string(),
                hint: None,
            }),
        }
        return recovery;
    }
    // In reverse order, as in every rollback: a file may have the name of a directory that has to be removed first.
    for (index, file) in change.files.iter().enumerate().rev() {
        crash_point();
        let (taken, back) = (temporary_name(&change.id, index), returning_name(&change.id, index));
        for temporary in [&taken, &back] {
            remove_leftover(repository.handle(), file, temporary);
        }
        let kept = |reason: String| LeftAlone {
            path: file.path.clone(),
            reason,
            hint: None,
        };
        match restore_file(repository, file, &back) {
            Ok((UndoPlan::Nothing, _)) => {}
            Ok((UndoPlan::Restore { .. }, late)) => {
                recovery.restored.push(file.path.clone());
                recovery.written_late.extend(late);
            }
            Ok((UndoPlan::LeaveAlone, _)) => recovery.left_alone.push(kept(format!(
                "`{}` is neither what it was before the interrupted change nor what it was to become",
                file.path
            ))),
            Err(obstacle @ Obstacle::Io { .. }) => recovery.out_of_reach.push(kept(obstacle.to_string())),
            Err(obstacle) => recovery.left_alone.push(kept(obstacle.to_string())),
        }
        // Immediately, because a file that is still to be restored may have the name of a directory.
        let made = change.directories.iter().map(String::as_str);
        remove_directories(
            repository.handle(),
            made.filter(|made| path::list_ancestors(&file.path).any(|above| above == *made)),
        );
    }
    recovery.restored.sort_unstable();
    for left in [&mut recovery.left_alone, &mut recovery.out_of_reach] {
        left.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    }
    recovery
}

/// Missing directories that the files of a change need, outermost first.
pub fn missing_directories(root: &RootHandle, files: &[FileChange]) -> Vec<String> {
    let needed: BTreeSet<&str> = files
        .iter()
        .filter(|file| file.after.is_some())
        .flat_map(|file| path::list_ancestors(&file.path))
        .collect();
    let is_missing = |directory: &&str| matches!(root.open_directory(directory), Err(Errno::NOENT | Errno::NOTDIR));
    let missing = needed.into_iter().filter(is_missing);
    missing.map(str::to_owned).collect()
}

/// Removes directories that changes made, innermost first, if they are empty.
fn remove_directories<'a>(root: &RootHandle, directories: impl Iterator<Item = &'a str>) {
    let directories: BTreeSet<&str> = directories.collect();
    // A directory sorts before everything beneath it.
    for directory in directories.into_iter().rev() {
        crash_point();
        file::remove_directory(root, directory);
    }
}

/// Takes back one file of a change.
fn restore_file<'a>(
    repository: &Repository,
    file: &'a FileChange,
    temporary: &str,
) -> Result<(UndoPlan<'a>, Vec<WrittenLate>), Obstacle> {
    let root = repository.handle();
    let PresentFile::Comparable(current) = find_present(root, &[file])? else {
        return Ok((UndoPlan::LeaveAlone, Vec::new()));
    };
    let mut late = Vec::new();
    let plan = plan_undo(&[file], content_of(current.as_ref()));
    if let UndoPlan::Restore { to, .. } = plan {
        let inverse = FileChange {
            path: file.path.clone(),
            before: current,
            after: to.cloned(),
        };
        let step = AppliedChange::take(root, &inverse, temporary.to_owned())?;
        late = finish_steps(root, &[step]);
    }
    Ok((plan, late))
}

/// State of a changed file's path.
enum PresentFile {
    /// A file that may be in one of the states of its history, or no file.
    Comparable(Option<FileState>),
    /// A file that is larger than all of these states, so another program wrote it.
    Larger,
}

/// Reads the file of a history.
fn find_present(root: &RootHandle, history: &[&FileChange]) -> Result<PresentFile, Obstacle> {
    let states = history.iter().flat_map(|change| [&change.before, &change.after]);
    let largest = states.flatten().map(|state| state.content.len() as u64).max();
    let path = history.first().map_or("", |change| change.path.as_str());
    match read_state(root, path, largest.unwrap_or(0)) {
        Err(Obstacle::TooLarge { .. }) => Ok(PresentFile::Larger),
        // The directory is gone, or a file has its name: the file does not exist.
        Err(Obstacle::NoDirectory { .. }) => Ok(PresentFile::Comparable(None)),
        current => current.map(PresentFile::Comparable),
    }
}

fn content_of(state: Option<&FileState>) -> Option<&[u8]> {
    state.map(|state| state.content.as_slice())
}

/// Puts a whole change into the tree, or into the private layer if there is one, or nothing of it. Returns the old
/// files that are kept, as [`apply_change`] does.
///
/// # Errors
///
/// As of [`apply_change`].
pub fn put_in_place(
    repository: &Repository,
    change: &PreparedChange,
) -> Result<Vec<WrittenLate>, (Obstacle, RolledBack)> {
    match repository.layer() {
        Some(layer) => layer
            .put(&change.files)
            .map(|()| Vec::new())
            .map_err(|obstacle| (obstacle, RolledBack::Wholly)),
        None => apply_change(repository.handle(), change),
    }
}

/// Puts a whole change in place, or nothing of it. Returns the old files that are kept.
///
/// # Errors
///
/// The obstacle, after everything was rolled back. If another program changed a file meanwhile and the rollback failed,
/// the second value says so; the change then stays open for [`recover_change`].
pub fn apply_change(root: &RootHandle, change: &PreparedChange) -> Result<Vec<WrittenLate>, (Obstacle, RolledBack)> {
    let mut steps: Vec<AppliedChange<'_>> = Vec::new();
    for (index, file) in change.files.iter().enumerate() {
        crash_point();
        match AppliedChange::take(root, file, temporary_name(&change.id, index)) {
            Ok(step) => steps.push(step),
            Err(obstacle) => {
                // Every step is taken back, even if another one could not be.
                let failed = steps.iter().rev().filter_map(|step| step.take_back(root).err()).count();
                crash_point();
                let rolled_back = if failed == 0 {
                    RolledBack::Wholly
                } else {
                    RolledBack::InPart
                };
                return Err((obstacle, rolled_back));
            }
        }
    }
    crash_point();
    Ok(finish_steps(root, &steps))
}

/// Result of a rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolledBack {
    /// Every file has its old state.
    Wholly,
    /// Some files could not be restored.
    InPart,
}

/// Removes the old files and makes the names durable. Everything is in place already, so an error leaves at most a file
/// behind, which recovery removes. Returns the old files that another program still wrote to.
fn finish_steps(root: &RootHandle, steps: &[AppliedChange<'_>]) -> Vec<WrittenLate> {
    let mut late = Vec::new();
    let mut by_directory: BTreeMap<&str, Vec<&AppliedChange<'_>>> = BTreeMap::new();
    for step in steps {
        let (directory, _) = path::split_path(&step.file.path);
        by_directory.entry(directory).or_default().push(step);
    }
    for (directory, steps) in by_directory {
        let Ok(handle) = root.open_directory(directory) else {
            continue;
        };
        for step in steps {
            if matches!(step.done, PlacedBy::Exchanged | PlacedBy::Removed) {
                crash_point();
                // A program that has the old file open may have written to it since.
                if !discard_if(&handle, &step.temporary, step.file.before.as_ref()) {
                    late.push(WrittenLate {
                        path: step.file.path.clone(),
                        kept: path::join_path(directory, &step.temporary),
                    });
                }
            }
        }
        // Makes the new names durable: without this, they may be lost in a power failure.
        let _ = rustix::fs::fsync(&handle);
    }
    late
}

/// Name of the temporary of a change's file. It is derived from the change, so that recovery finds it, and the rules
/// hide it.
fn temporary_name(id: &str, index: usize) -> String {
    format!(".tool-proposal-{id}-{index}")
}

/// Name of the temporary of a recovery. A recovery may be interrupted too, and the file under the first name may be a
/// user's work.
fn returning_name(id: &str, index: usize) -> String {
    format!("{}-back", temporary_name(id, index))
}

/// One file that is in place, and what is needed to take it back. It holds no handle: a large proposal would need more
/// handles than a process may have.
struct AppliedChange<'a> {
    file: &'a FileChange,
    temporary: String,
    /// Directories that did not exist before, outermost first.
    made: Vec<String>,
    done: PlacedBy,
}

impl<'a> AppliedChange<'a> {
    /// Changes one file, if it still has the state in which it was when the change was prepared.
    fn take(root: &RootHandle, file: &'a FileChange, temporary: String) -> Result<Self, Obstacle> {
        let mut made = Vec::new();
        let parent = match file.after {
            Some(_) => make_parents(root, &file.path, &mut made),
            None => open_parent(root, &file.path),
        };
        match parent.and_then(|parent| place_file(&parent, file, &temporary)) {
            Ok(done) => Ok(Self {
                file,
                temporary,
                made,
                done,
            }),
            Err(obstacle) => {
                remove_made(root, &made);
                Err(obstacle)
            }
        }
    }

    /// Takes the step back, if the file still has the state that the step gave it.
    fn take_back(&self, root: &RootHandle) -> Result<(), Obstacle> {
        let parent = &open_parent(root, &self.file.path)?;
        let (_, name) = path::split_path(&self.file.path);
        let failed = |errno| Obstacle::from_errno(&self.file.path, errno);
        if !is_at(parent, name, self.file.after.as_ref()) {
            return Err(Obstacle::Changed {
                path: self.file.path.clone(),
            });
        }
        crash_point();
        match self.done {
            PlacedBy::Created => replace_back(parent, self.file, &self.temporary, (put_aside, rename_new))?,
            PlacedBy::Exchanged => replace_back(parent, self.file, &self.temporary, (exchange_names, exchange_names))?,
            PlacedBy::Replaced => {
                let inverse = FileChange {
                    path: self.file.path.clone(),
                    before: self.file.after.clone(),
                    after: self.file.before.clone(),
                };
                place_file(parent, &inverse, &self.temporary)?;
            }
            PlacedBy::Removed => rename_new(parent, &self.temporary, name).map_err(failed)?,
            PlacedBy::Nothing => {}
        }
        // After the change is recorded as abandoned, no recovery looks at it again, so the rollback must be durable
        // first.
        rustix::fs::fsync(parent).map_err(failed)?;
        remove_made(root, &self.made);
        Ok(())
    }
}
