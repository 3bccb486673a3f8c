//! Prepared changes: putting one in place as a whole, taking it back, and finishing what a crash interrupted.
//!
//! Everything happens on directory handles that were opened beneath the root without links. A file is replaced by
//! exchanging names with a complete temporary beside it, so that it is before or after at every moment, and what was
//! exchanged out is looked at: a file that somebody changed at the last moment gets its name back. Which paths may be
//! changed at all is not decided here but in `skill::stage`.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RawMode, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use super::{FileChange, FileState, PreparedChange};
use crate::repository::{Identity, Repository, Root, mode, path};

/// Why a file cannot be read or replaced as what it was taken for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Obstacle {
    /// A symbolic link, at the path or on the way to it.
    #[error("`{path}` leads through a symbolic link")]
    Link { path: String },
    /// A file where a directory is needed.
    #[error("`{path}` lies beneath something that is not a directory")]
    NoDirectory { path: String },
    /// A directory, a FIFO, a device.
    #[error("`{path}` is not a regular file")]
    NotRegular { path: String },
    /// Larger than what is left of the bound.
    #[error("`{path}` has {size} bytes, more than a change can hold")]
    TooLarge { path: String, size: u64 },
    /// Not what it was when the change was prepared.
    #[error("`{path}` was changed by somebody else in the meantime")]
    Changed { path: String },
    /// The system's answer.
    #[error("`{path}`: {source}")]
    Io { path: String, source: std::io::Error },
}

impl Obstacle {
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

/// Files that were left as they are, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    /// Relative to the root.
    pub path: String,
    /// A whole sentence without its full stop.
    pub reason: String,
}

/// What `undo` did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Paths that are now as they were before the changes.
    pub restored: Vec<String>,
    /// Paths that are not, because somebody else changed them.
    pub left_alone: Vec<LeftAlone>,
}

/// What `recover` did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Paths that were rolled back.
    pub restored: Vec<String>,
    /// Paths whose content is neither the old nor the new one; shown to the user, not touched.
    pub left_alone: Vec<LeftAlone>,
}

impl Recovery {
    /// True where the change is wholly undone and may be noted as abandoned.
    pub fn is_whole(&self) -> bool {
        self.left_alone.is_empty()
    }
}

/// Serialises everything that writes in one repository, over all sessions of this process.
pub(crate) fn write_lock(repository: &Repository) -> Arc<Mutex<()>> {
    static LOCKS: LazyLock<Mutex<HashMap<Identity, Arc<Mutex<()>>>>> = LazyLock::new(Mutex::default);
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    locks.retain(|_, lock| Arc::strong_count(lock) > 1);
    Arc::clone(locks.entry(repository.identity()).or_default())
}

/// Restores what `changes` (oldest first) replaced, byte for byte, newest first. A file whose content is not what the
/// newest change left is not touched; one that somebody changed between two of the changes goes back to that state.
pub fn undo(repository: &Repository, changes: &[PreparedChange]) -> UndoReport {
    let lock = write_lock(repository);
    let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let id = uuid::Uuid::now_v7().simple().to_string();
    let mut report = UndoReport::default();
    for (index, (path, history)) in histories(changes).into_iter().enumerate() {
        let kept = |reason: String| LeftAlone {
            path: path.to_owned(),
            reason,
        };
        match restore(repository, &history, &temporary(&id, index)) {
            Ok(Plan::Nothing) => report.restored.push(path.to_owned()),
            Ok(Plan::Restore { broken: false, .. }) => report.restored.push(path.to_owned()),
            Ok(Plan::Restore { broken: true, .. }) => report.left_alone.push(kept(format!(
                "`{path}` is back to what somebody else made of it during the session"
            ))),
            Ok(Plan::LeaveAlone) => report.left_alone.push(kept(format!("`{path}` has been changed since"))),
            Err(obstacle) => report.left_alone.push(kept(obstacle.to_string())),
        }
    }
    report.restored.sort_unstable();
    report.left_alone.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    report
}

/// The changes of each file, oldest first. Files that are to vanish come first, because a directory of theirs may have
/// the name of a file that is to come back.
fn histories(changes: &[PreparedChange]) -> Vec<(&str, Vec<&FileChange>)> {
    let mut by_path: BTreeMap<&str, Vec<&FileChange>> = BTreeMap::new();
    for file in changes.iter().flat_map(|change| &change.files) {
        by_path.entry(&file.path).or_default().push(file);
    }
    let mut histories: Vec<_> = by_path.into_iter().collect();
    histories.sort_by_key(|(_, history)| history.first().is_some_and(|oldest| oldest.before.is_some()));
    histories
}

/// Makes a change all or nothing that was prepared, but neither committed nor abandoned, because the process died.
///
/// It is rolled back, even where every file is in place: nobody was told that the change happened, the old contents
/// are complete in the journal, and the old state is one that the user has seen. A file that is neither old nor new
/// was changed by somebody else and is left alone.
pub fn recover(repository: &Repository, change: &PreparedChange) -> Recovery {
    let lock = write_lock(repository);
    let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    recover_locked(repository, change)
}

/// [`recover`] for a caller that holds the [`write_lock`].
pub(crate) fn recover_locked(repository: &Repository, change: &PreparedChange) -> Recovery {
    let mut recovery = Recovery::default();
    // Backwards, as at any rollback: a file may stand where a directory has to go first.
    for (index, file) in change.files.iter().enumerate().rev() {
        let temporary = temporary(&change.id, index);
        remove_leftover(repository.handle(), file, &temporary);
        let kept = |reason: String| LeftAlone {
            path: file.path.clone(),
            reason,
        };
        match restore(repository, &[file], &temporary) {
            Ok(Plan::Nothing) => {}
            Ok(Plan::Restore { .. }) => recovery.restored.push(file.path.clone()),
            Ok(Plan::LeaveAlone) => recovery.left_alone.push(kept(format!(
                "`{}` is neither what it was before the interrupted change nor what it was to become",
                file.path
            ))),
            Err(obstacle) => recovery.left_alone.push(kept(obstacle.to_string())),
        }
    }
    recovery.restored.sort_unstable();
    recovery.left_alone.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    recovery
}

/// What becomes of one file when the changes of its history are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan<'a> {
    /// It is what it was before the oldest change.
    Nothing,
    /// It becomes `to`. `broken` is true where a change of somebody else between two of ours ends the way back.
    Restore { to: Option<&'a FileState>, broken: bool },
    /// It is not what the newest change left.
    LeaveAlone,
}

/// Goes back through the changes of one file (oldest first) as far as each left what the next one found.
fn plan<'a>(history: &[&'a FileChange], current: Option<&[u8]>) -> Plan<'a> {
    let mut reached = current;
    let mut to = None;
    let mut undone = 0;
    for change in history.iter().rev() {
        if content(change.after.as_ref()) != reached {
            break;
        }
        reached = content(change.before.as_ref());
        to = change.before.as_ref();
        undone += 1;
    }
    let oldest = history.first().and_then(|change| change.before.as_ref());
    if undone == 0 && content(oldest) != current {
        return Plan::LeaveAlone;
    }
    if reached == current && (undone == 0 || undone == history.len()) {
        return Plan::Nothing;
    }
    Plan::Restore {
        to,
        broken: undone < history.len(),
    }
}

fn content(state: Option<&FileState>) -> Option<&[u8]> {
    state.map(|state| state.content.as_slice())
}

/// Carries out the plan for one file.
fn restore<'a>(repository: &Repository, history: &[&'a FileChange], temporary: &str) -> Result<Plan<'a>, Obstacle> {
    let root = repository.handle();
    let Some(path) = history.first().map(|change| change.path.as_str()) else {
        return Ok(Plan::Nothing);
    };
    // What cannot be compared is not ours: no content of a change is larger than the largest one.
    let largest = history
        .iter()
        .flat_map(|change| [&change.before, &change.after])
        .flatten()
        .map(|state| state.content.len() as u64)
        .max();
    let current = match current(root, path, largest.unwrap_or(0)) {
        Err(Obstacle::TooLarge { .. }) => return Ok(Plan::LeaveAlone),
        // The directory is gone, or a file has its name: to us the file is not there.
        Err(Obstacle::NoDirectory { .. }) => None,
        current => current?,
    };
    let plan = plan(history, content(current.as_ref()));
    if let Plan::Restore { to, .. } = plan {
        let inverse = FileChange {
            path: path.to_owned(),
            before: current,
            after: to.cloned(),
        };
        let step = Step::take(root, &inverse, temporary.to_owned())?;
        finish(root, &[step]);
        if to.is_none() {
            remove_empty_parents(root, path);
        }
    }
    Ok(plan)
}

/// Puts a whole change in place, or nothing of it.
///
/// On an error everything is as before; where even that failed, because somebody else changed a file in between, the
/// second value says so, and the change stays open for [`recover`].
pub(crate) fn apply(root: &Root, change: &PreparedChange) -> Result<(), (Obstacle, RolledBack)> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (index, file) in change.files.iter().enumerate() {
        match Step::take(root, file, temporary(&change.id, index)) {
            Ok(step) => steps.push(step),
            Err(obstacle) => {
                // Every step is taken back, also where another one could not be.
                let failed = steps.iter().rev().filter_map(|step| step.take_back(root).err()).count();
                let rolled_back = if failed == 0 {
                    RolledBack::Wholly
                } else {
                    RolledBack::InPart
                };
                return Err((obstacle, rolled_back));
            }
        }
    }
    finish(root, &steps);
    Ok(())
}

/// How a rollback went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RolledBack {
    Wholly,
    InPart,
}

/// Lets go of the old files and makes the names durable. Everything is in place already, so nothing that fails here
/// is worth more than a leftover, which recovery removes.
fn finish(root: &Root, steps: &[Step<'_>]) {
    let mut by_directory: BTreeMap<&str, Vec<&Step<'_>>> = BTreeMap::new();
    for step in steps {
        let (directory, _) = path::split(&step.file.path);
        by_directory.entry(directory).or_default().push(step);
    }
    for (directory, steps) in by_directory {
        let Ok(handle) = root.open_directory(directory) else {
            continue;
        };
        for step in steps {
            if matches!(step.done, Done::Exchanged | Done::Removed) {
                let _ = rustix::fs::unlinkat(&handle, &step.temporary, AtFlags::empty());
            }
        }
        let _ = rustix::fs::fsync(&handle);
    }
}

/// The name of the temporary of a change's file; derived, so that recovery finds it, and hidden by the rules.
fn temporary(id: &str, index: usize) -> String {
    format!(".tool-proposal-{id}-{index}")
}

/// What is at a path now: `None` where nothing is.
///
/// Hidden files are read, too: whoever calls this has decided that the path may be changed.
pub(crate) fn current(root: &Root, path: &str, bytes_max: u64) -> Result<Option<FileState>, Obstacle> {
    let (parent, name) = path::split(path);
    let failed = |errno| Obstacle::from_errno(path, errno);
    let parent = match root.open_directory(parent) {
        Ok(parent) => parent,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    match stat_at(&parent, name) {
        Ok(stat) => check_regular(path, &stat)?,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    }
    state_at(&parent, name, path, bytes_max).map(Some)
}

fn check_regular(path: &str, stat: &Stat) -> Result<(), Obstacle> {
    let path = path.to_owned();
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(Obstacle::Link { path }),
        _ => Err(Obstacle::NotRegular { path }),
    }
}

/// Content and mode of a regular file.
fn state_at(parent: &OwnedFd, name: &str, path: &str, bytes_max: u64) -> Result<FileState, Obstacle> {
    let failed = |errno| Obstacle::from_errno(path, errno);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let handle = rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&handle).map_err(failed)?;
    check_regular(path, &stat)?;
    let content = read_bounded(handle, bytes_max).map_err(|error| match error {
        ReadError::TooLarge { size } => Obstacle::TooLarge {
            path: path.to_owned(),
            size,
        },
        ReadError::Io(source) => Obstacle::Io {
            path: path.to_owned(),
            source,
        },
    })?;
    Ok(FileState {
        content,
        mode: mode(&stat),
    })
}

/// Why a file was not read whole.
#[derive(Debug)]
pub(crate) enum ReadError {
    TooLarge { size: u64 },
    Io(std::io::Error),
}

/// The whole content of an opened file, which may grow or shrink meanwhile.
pub(crate) fn read_bounded(handle: OwnedFd, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    use std::io::Read;
    let file = std::fs::File::from(handle);
    let size = file.metadata().map_err(ReadError::Io)?.len();
    if size > bytes_max {
        return Err(ReadError::TooLarge { size });
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(ReadError::Io)?;
    let size = content.len() as u64;
    if size > bytes_max {
        return Err(ReadError::TooLarge { size });
    }
    Ok(content)
}

/// One file that is in place, and what it takes to take it back. It holds no handle: a large proposal would need more
/// than a process has.
struct Step<'a> {
    file: &'a FileChange,
    temporary: String,
    /// Directories that did not exist before, outermost first.
    made: Vec<String>,
    done: Done,
}

/// How a file got in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    /// It is new.
    Created,
    /// The old file has the temporary's name.
    Exchanged,
    /// The old file is gone, on a file system that cannot exchange names.
    Replaced,
    /// The removed file has the temporary's name.
    Removed,
    /// There was nothing to do.
    Nothing,
}

impl<'a> Step<'a> {
    /// Makes one file what the change says, if it is still what the change found.
    fn take(root: &Root, file: &'a FileChange, temporary: String) -> Result<Self, Obstacle> {
        let mut made = Vec::new();
        let parent = match file.after {
            Some(_) => make_parents(root, &file.path, &mut made),
            None => open_parent(root, &file.path),
        };
        match parent.and_then(|parent| place(&parent, file, &temporary)) {
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

    /// Undoes the step, if the file is still what the step made of it.
    fn take_back(&self, root: &Root) -> Result<(), Obstacle> {
        let parent = &open_parent(root, &self.file.path)?;
        let (_, name) = path::split(&self.file.path);
        let failed = |errno| Obstacle::from_errno(&self.file.path, errno);
        if !is_at(parent, name, self.file.after.as_ref()) {
            return Err(Obstacle::Changed {
                path: self.file.path.clone(),
            });
        }
        match self.done {
            Done::Created => rustix::fs::unlinkat(parent, name, AtFlags::empty()).map_err(failed)?,
            Done::Exchanged => {
                exchange(parent, &self.temporary, name).map_err(failed)?;
                discard(parent, &self.temporary);
            }
            Done::Replaced => {
                let inverse = FileChange {
                    path: self.file.path.clone(),
                    before: self.file.after.clone(),
                    after: self.file.before.clone(),
                };
                place(parent, &inverse, &self.temporary)?;
            }
            Done::Removed => rename_new(parent, &self.temporary, name).map_err(failed)?,
            Done::Nothing => {}
        }
        // Once it is noted as taken back, nobody looks at it again.
        rustix::fs::fsync(parent).map_err(failed)?;
        remove_made(root, &self.made);
        Ok(())
    }
}

/// Moves names in a directory: of the temporary and of the file, in this order.
type Swap = fn(&OwnedFd, &str, &str) -> Result<(), Errno>;

/// Brings one file from `before` to `after` in an opened directory. On an error it is as it was.
fn place(parent: &OwnedFd, file: &FileChange, temporary: &str) -> Result<Done, Obstacle> {
    let (_, name) = path::split(&file.path);
    let failed = |errno| Obstacle::from_errno(&file.path, errno);
    let given_up = |obstacle| {
        discard(parent, temporary);
        Err(obstacle)
    };
    let changed = || Obstacle::Changed {
        path: file.path.clone(),
    };
    if let Some(after) = &file.after
        && let Err(errno) = write_temporary(parent, temporary, after, name)
    {
        return given_up(failed(errno));
    }
    if !is_at(parent, name, file.before.as_ref()) {
        return given_up(changed());
    }
    let (swap, done): (Swap, _) = match (&file.before, &file.after) {
        (None, None) => return Ok(Done::Nothing),
        (None, Some(_)) => (rename_new, Done::Created),
        (Some(_), Some(_)) => (exchange, Done::Exchanged),
        (Some(_), None) => (
            |parent, temporary, name| rename_new(parent, name, temporary),
            Done::Removed,
        ),
    };
    match swap(parent, temporary, name) {
        Ok(()) => {}
        Err(Errno::EXIST | Errno::NOENT) => return given_up(changed()),
        Err(errno) if done == Done::Exchanged && is_unsupported(errno) => {
            return match rustix::fs::renameat(parent, temporary, parent, name) {
                Ok(()) => Ok(Done::Replaced),
                Err(errno) => given_up(failed(errno)),
            };
        }
        Err(errno) => return given_up(failed(errno)),
    }
    // What was taken out may be newer than the look at it. It gets its name back, and where even that fails it keeps
    // the temporary's: it is somebody's work.
    let back: Swap = match done {
        Done::Exchanged => exchange,
        Done::Removed => rename_new,
        Done::Created | Done::Replaced | Done::Nothing => return Ok(done),
    };
    if is_at(parent, temporary, file.before.as_ref()) {
        return Ok(done);
    }
    back(parent, temporary, name).map_err(failed)?;
    if done == Done::Exchanged {
        discard(parent, temporary);
    }
    Err(changed())
}

/// Removes a temporary of ours, where there is one.
fn discard(parent: &OwnedFd, temporary: &str) {
    let _ = rustix::fs::unlinkat(parent, temporary, AtFlags::empty());
}

/// How file systems say that they do not know a flag of `renameat2`.
fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// True where a name holds exactly this content, or nothing where `expected` is `None`.
fn is_at(parent: &OwnedFd, name: &str, expected: Option<&FileState>) -> bool {
    match (stat_at(parent, name), expected) {
        (Err(Errno::NOENT), None) => true,
        (Ok(stat), Some(expected)) => {
            check_regular(name, &stat).is_ok()
                && state_at(parent, name, name, expected.content.len() as u64)
                    .is_ok_and(|state| state.content == expected.content)
        }
        _ => false,
    }
}

/// A complete, durable file under a name of ours, with the mode it is to have and, as far as this process may, the
/// owner of what it replaces or of the directory.
fn write_temporary(parent: &OwnedFd, temporary: &str, state: &FileState, name: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(parent, temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = std::fs::File::from(handle);
    file.write_all(&state.content)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let model = stat_at(parent, name).or_else(|_| rustix::fs::fstat(parent))?;
    adopt(&file, &model)?;
    // After the owner, because changing it clears bits.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(state.mode as RawMode))?;
    rustix::fs::fsync(&file)
}

/// Gives a new file or directory the owner of its model where they differ. Only root may; for everybody else the
/// process's own user is the right one.
fn adopt(handle: impl AsFd, model: &Stat) -> Result<(), Errno> {
    let own = rustix::fs::fstat(handle.as_fd())?;
    if !rustix::process::geteuid().is_root() || (own.st_uid, own.st_gid) == (model.st_uid, model.st_gid) {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(model.st_uid), Gid::from_raw(model.st_gid));
    match rustix::fs::fchown(handle, Some(user), Some(group)) {
        // In a user namespace, or on a file system that has no owners.
        Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        answer => answer,
    }
}

fn exchange(parent: &OwnedFd, a: &str, b: &str) -> Result<(), Errno> {
    rename_with(parent, a, b, RenameFlags::EXCHANGE)
}

/// Renames to a name that nothing has.
fn rename_new(parent: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    match rename_with(parent, from, to, RenameFlags::NOREPLACE) {
        Err(errno) if is_unsupported(errno) => {}
        answer => return answer,
    }
    // A look first has to do.
    match stat_at(parent, to) {
        Err(Errno::NOENT) => rustix::fs::renameat(parent, from, parent, to),
        Err(errno) => Err(errno),
        Ok(_) => Err(Errno::EXIST),
    }
}

fn rename_with(parent: &OwnedFd, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
    #[cfg(test)]
    if WITHOUT_RENAME_FLAGS.get() {
        return Err(Errno::INVAL);
    }
    rustix::fs::renameat_with(parent, from, parent, to, flags)
}

#[cfg(test)]
thread_local! {
    /// True: this thread's file system knows no flags of `renameat2`, like some network file systems.
    pub(super) static WITHOUT_RENAME_FLAGS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn open_parent(root: &Root, path: &str) -> Result<OwnedFd, Obstacle> {
    let (parent, _) = path::split(path);
    root.open_directory(parent)
        .map_err(|errno| Obstacle::from_errno(path, errno))
}

/// Opens the directory of a path, making what is missing of it.
fn make_parents(root: &Root, path: &str, made: &mut Vec<String>) -> Result<OwnedFd, Obstacle> {
    let failed = |errno| Obstacle::from_errno(path, errno);
    match open_parent(root, path) {
        Err(Obstacle::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
        answer => return answer,
    }
    let mut here = root.open_directory("").map_err(failed)?;
    for directory in path::ancestors(path) {
        let (_, name) = path::split(directory);
        match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => made.push(directory.to_owned()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let next = root.open_directory(directory).map_err(failed)?;
        if made.last().is_some_and(|last| last == directory) {
            let model = rustix::fs::fstat(&here).map_err(failed)?;
            adopt(&next, &model).map_err(failed)?;
            let _ = rustix::fs::fsync(&here);
        }
        here = next;
    }
    Ok(here)
}

/// Removes directories that a step made, as far as they are empty.
fn remove_made(root: &Root, made: &[String]) {
    for directory in made.iter().rev() {
        remove_directory(root, directory);
    }
}

/// Removes directories that a restored state leaves empty, as git does: what was created with a file goes with it.
fn remove_empty_parents(root: &Root, path: &str) {
    let parents: Vec<&str> = path::ancestors(path).collect();
    for directory in parents.into_iter().rev() {
        if !remove_directory(root, directory) {
            return;
        }
    }
}

fn remove_directory(root: &Root, directory: &str) -> bool {
    let (parent, name) = path::split(directory);
    let removed = root
        .open_directory(parent)
        .and_then(|parent| rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR));
    removed.is_ok()
}

/// Removes what an interrupted change left beside a file: the old content, or the new one as far as it was written.
/// Anything else under that name is somebody's work.
fn remove_leftover(root: &Root, file: &FileChange, temporary: &str) {
    let Ok(parent) = open_parent(root, &file.path) else {
        return;
    };
    let largest = [&file.before, &file.after]
        .into_iter()
        .flatten()
        .map(|state| state.content.len())
        .max();
    let Ok(left) = state_at(&parent, temporary, temporary, largest.unwrap_or(0) as u64) else {
        return;
    };
    let is_old = content(file.before.as_ref()) == Some(&left.content);
    let is_new = content(file.after.as_ref()).is_some_and(|after| after.starts_with(&left.content));
    if is_old || is_new {
        discard(&parent, temporary);
    }
}

fn stat_at(parent: &OwnedFd, name: &str) -> Result<Stat, Errno> {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// The mode of a new file: what everybody else's new files get.
pub(crate) fn new_file_mode() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    // The only call that asks for the mask also sets it, for all threads; the kernel tells it here as well.
    let umask = UMASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
            .unwrap_or(0o022)
    });
    0o644 & !umask
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
        assert_eq!(plan(&[&change], Some(b"new")), Plan::Restore { to: Some(&old), broken });
        assert_eq!(plan(&[&change], Some(b"old")), Plan::Nothing);
        assert_eq!(plan(&[&change], Some(b"other")), Plan::LeaveAlone);
        assert_eq!(plan(&[&change], None), Plan::LeaveAlone);
    }

    #[test]
    fn creation_and_deletion_are_taken_back() {
        let (created, deleted) = (change(None, Some("x")), change(Some("x"), None));
        let broken = false;
        assert_eq!(plan(&[&created], Some(b"x")), Plan::Restore { to: None, broken });
        assert_eq!(plan(&[&created], None), Plan::Nothing);
        assert_eq!(
            plan(&[&deleted], None),
            Plan::Restore {
                to: Some(&state("x")),
                broken
            }
        );
        assert_eq!(plan(&[&created, &deleted], None), Plan::Nothing);
    }

    #[test]
    fn several_changes_are_taken_back_to_the_oldest_state() {
        let history = [change(Some("1"), Some("2")), change(Some("2"), Some("3"))];
        let history: Vec<_> = history.iter().collect();
        let (oldest, broken) = (state("1"), false);
        assert_eq!(
            plan(&history, Some(b"3")),
            Plan::Restore {
                to: Some(&oldest),
                broken
            }
        );
        assert_eq!(
            plan(&history, Some(b"2")),
            Plan::LeaveAlone,
            "the newest change is not what is there"
        );
    }

    #[test]
    fn a_change_of_somebody_else_in_between_ends_the_way_back() {
        let history = [change(Some("1"), Some("2")), change(Some("theirs"), Some("3"))];
        let history: Vec<_> = history.iter().collect();
        let theirs = state("theirs");
        assert_eq!(
            plan(&history, Some(b"3")),
            Plan::Restore {
                to: Some(&theirs),
                broken: true
            }
        );
    }

    proptest! {
        /// A whole history of ours always leads back, and what is there is never lost unless we put it there.
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
            match plan(&history, current.map(str::as_bytes)) {
                Plan::Restore { to, broken } => {
                    prop_assert!(!broken);
                    prop_assert_eq!(current, last);
                    prop_assert_eq!(content(to), first.map(str::as_bytes));
                }
                Plan::Nothing => prop_assert_eq!(current, first),
                Plan::LeaveAlone => prop_assert!(current != last && current != first),
            }
        }
    }
}
