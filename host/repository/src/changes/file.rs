//! Reads one file, and brings it from one state to another, beneath the root and without following links.
//!
//! A file is replaced by exchanging names with a complete temporary file beside it, so a reader sees the old or the new
//! content at any time. The file that was exchanged out is then compared with the expected one: if another program
//! changed it at the last moment, it gets its name back.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RawMode, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use super::{FileChange, FileState, Obstacle, crash_point};
use crate::{RootHandle, path, permission_bits};

/// Returns the state of a path; `None` if there is nothing.
///
/// Hidden files are read too: the caller has decided that the path may be changed.
///
/// # Errors
///
/// The path is not a regular file, is too large, or cannot be read.
pub fn read_state(root: &RootHandle, path: &str, bytes_max: u64) -> Result<Option<FileState>, Obstacle> {
    let (parent, name) = path::split_path(path);
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
    #[cfg(debug_assertions)]
    if let Some((FailingStep::Reading, errno)) = FAILING.get() {
        return Err(failed(errno));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let handle = rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&handle).map_err(failed)?;
    check_regular(path, &stat)?;
    let content = read_bounded(handle, bytes_max).map_err(|error| Obstacle::from_read(path, error))?;
    Ok(FileState {
        content,
        mode: permission_bits(&stat),
    })
}

/// Reason why a file was not read.
#[derive(Debug)]
pub enum ReadError {
    /// The file is larger than the caller allows.
    TooLarge {
        /// Bytes of the file.
        size: u64,
    },
    /// The error of the system.
    Io(std::io::Error),
}

/// Reads the whole content of an open file, which may grow or shrink meanwhile.
///
/// # Errors
///
/// The file has more than `bytes_max` bytes, or cannot be read.
pub fn read_bounded(handle: OwnedFd, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
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

/// How a file got its new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlacedBy {
    Created,
    /// The old file has the temporary's name now.
    Exchanged,
    /// The old file is gone: the file system cannot exchange names.
    Replaced,
    /// The removed file has the temporary's name now.
    Removed,
    /// Nothing was to be done.
    Nothing,
}

/// Moves names in a directory: that of the temporary and that of the file, in this order.
pub(super) type SwapNames = fn(&OwnedFd, &str, &str) -> Result<(), Errno>;

/// Brings one file from `before` to `after` in an open directory. After an error it is as it was.
pub(super) fn place_file(parent: &OwnedFd, file: &FileChange, temporary: &str) -> Result<PlacedBy, Obstacle> {
    let (_, name) = path::split_path(&file.path);
    let failed = |errno| Obstacle::from_errno(&file.path, errno);
    let given_up = |obstacle| {
        discard_temporary(parent, temporary);
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
    match looks_like(parent, name, &file.path, file.before.as_ref()) {
        Ok(true) => {}
        Ok(false) => return given_up(changed()),
        Err(obstacle) => return given_up(obstacle),
    }
    crash_point();
    let (swap, done): (SwapNames, _) = match (&file.before, &file.after) {
        (None, None) => return Ok(PlacedBy::Nothing),
        (None, Some(_)) => (rename_new, PlacedBy::Created),
        (Some(_), Some(_)) => (exchange_names, PlacedBy::Exchanged),
        (Some(_), None) => (put_aside, PlacedBy::Removed),
    };
    // The system call is atomic; the check above only avoids an exchange that would have to be reversed.
    match swap(parent, temporary, name) {
        Ok(()) => {}
        Err(Errno::EXIST | Errno::NOENT) => return given_up(changed()),
        Err(errno) if done == PlacedBy::Exchanged && is_unsupported(errno) => {
            return match rustix::fs::renameat(parent, temporary, parent, name) {
                Ok(()) => Ok(PlacedBy::Replaced),
                Err(errno) => given_up(failed(errno)),
            };
        }
        Err(errno) => return given_up(failed(errno)),
    }
    // The file that was taken out may be newer than the check above. It then gets its name back; if even that fails, it
    // keeps the temporary name, because it is a user's work.
    let back: SwapNames = match done {
        PlacedBy::Exchanged => exchange_names,
        PlacedBy::Removed => rename_new,
        PlacedBy::Created | PlacedBy::Replaced | PlacedBy::Nothing => return Ok(done),
    };
    crash_point();
    let obstacle = match looks_like(parent, temporary, &file.path, file.before.as_ref()) {
        Ok(true) => return Ok(done),
        Ok(false) => changed(),
        Err(obstacle) => obstacle,
    };
    back(parent, temporary, name).map_err(failed)?;
    if done == PlacedBy::Exchanged {
        discard_if(parent, temporary, file.after.as_ref());
    }
    Err(obstacle)
}

/// Takes back a step: moves out what the step put there, and restores the old file with `back`. What was moved out is
/// compared before it is removed: a file that another program changed at the last moment gets its name back.
pub(super) fn replace_back(
    parent: &OwnedFd,
    file: &FileChange,
    temporary: &str,
    (out, back): (SwapNames, SwapNames),
) -> Result<(), Obstacle> {
    let (_, name) = path::split_path(&file.path);
    let failed = |errno| Obstacle::from_errno(&file.path, errno);
    out(parent, temporary, name).map_err(failed)?;
    crash_point();
    if discard_if(parent, temporary, file.after.as_ref()) {
        return Ok(());
    }
    back(parent, temporary, name).map_err(failed)?;
    Err(Obstacle::Changed {
        path: file.path.clone(),
    })
}

/// Removes our temporary if it has the expected content. False if it holds a user's work.
pub(super) fn discard_if(parent: &OwnedFd, temporary: &str, expected: Option<&FileState>) -> bool {
    let is_expected = expected.is_some() && is_at(parent, temporary, expected);
    if is_expected {
        discard_temporary(parent, temporary);
    }
    is_expected
}

/// Removes our temporary, if there is one.
pub(super) fn discard_temporary(parent: &OwnedFd, temporary: &str) {
    let _ = rustix::fs::unlinkat(parent, temporary, AtFlags::empty());
}

/// Errors by which file systems report that they do not support a flag of `renameat2`.
fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// True if a name holds exactly this content; for `None`, if the name does not exist.
pub(super) fn is_at(parent: &OwnedFd, name: &str, expected: Option<&FileState>) -> bool {
    looks_like(parent, name, name, expected).unwrap_or(false)
}

/// Compares a file with its expected state. If the system refuses to read it, that is an error, because it says nothing
/// about the file. `path` is its name in errors.
fn looks_like(parent: &OwnedFd, name: &str, path: &str, expected: Option<&FileState>) -> Result<bool, Obstacle> {
    match (stat_at(parent, name), expected) {
        (Err(Errno::NOENT), expected) => Ok(expected.is_none()),
        (Err(errno), _) => Err(Obstacle::from_errno(path, errno)),
        (Ok(_), None) => Ok(false),
        (Ok(stat), Some(_)) if check_regular(path, &stat).is_err() => Ok(false),
        (Ok(_), Some(expected)) => match state_at(parent, name, path, expected.content.len() as u64) {
            Ok(state) => Ok(state.content == expected.content),
            Err(obstacle @ Obstacle::Io { .. }) => Err(obstacle),
            Err(_) => Ok(false),
        },
    }
}

/// Writes a complete, durable temporary file, with its final mode and, if this process may set it, the owner of the
/// file that it replaces or of the directory.
fn write_temporary(parent: &OwnedFd, temporary: &str, state: &FileState, name: &str) -> Result<(), Errno> {
    #[cfg(debug_assertions)]
    if let Some((FailingStep::Writing, errno)) = FAILING.get() {
        return Err(errno);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(parent, temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = std::fs::File::from(handle);
    crash_point();
    file.write_all(&state.content)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let model = stat_at(parent, name).or_else(|_| rustix::fs::fstat(parent))?;
    adopt_owner(&file, &model)?;
    // After the owner, because changing the owner clears the set-user-id bits.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(state.mode as RawMode))?;
    rustix::fs::fsync(&file)
}

/// Gives a new file or directory the owner of `model`. Only root may do that; for other users the process's own user is
/// right.
fn adopt_owner(handle: impl AsFd, model: &Stat) -> Result<(), Errno> {
    let own = rustix::fs::fstat(handle.as_fd())?;
    if !rustix::process::geteuid().is_root() || (own.st_uid, own.st_gid) == (model.st_uid, model.st_gid) {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(model.st_uid), Gid::from_raw(model.st_gid));
    match rustix::fs::fchown(handle, Some(user), Some(group)) {
        // In a user namespace, or on a file system without owners.
        Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        answer => answer,
    }
}

pub(super) fn exchange_names(parent: &OwnedFd, a: &str, b: &str) -> Result<(), Errno> {
    rename_with(parent, a, b, RenameFlags::EXCHANGE)
}

/// Renames the file to the temporary's name.
pub(super) fn put_aside(parent: &OwnedFd, temporary: &str, name: &str) -> Result<(), Errno> {
    rename_new(parent, name, temporary)
}

/// Renames to a name that does not exist.
///
/// # Errors
///
/// `EXIST` if it does.
pub fn rename_new(parent: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    match rename_with(parent, from, to, RenameFlags::NOREPLACE) {
        Err(errno) if is_unsupported(errno) => {}
        answer => return answer,
    }
    // The file system knows no flag for this, so another program could still take the name after this check.
    match stat_at(parent, to) {
        Err(Errno::NOENT) => rustix::fs::renameat(parent, from, parent, to),
        Err(errno) => Err(errno),
        Ok(_) => Err(Errno::EXIST),
    }
}

fn rename_with(parent: &OwnedFd, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
    #[cfg(debug_assertions)]
    if WITHOUT_RENAME_FLAGS.get() {
        return Err(Errno::INVAL);
    }
    rustix::fs::renameat_with(parent, from, parent, to, flags)
}

/// The step of a change that a test lets fail.
#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailingStep {
    /// Reading a file.
    Reading,
    /// Writing a temporary file.
    Writing,
}

#[cfg(debug_assertions)]
thread_local! {
    /// The step that fails on this thread, and its error.
    pub static FAILING: std::cell::Cell<Option<(FailingStep, Errno)>> = const { std::cell::Cell::new(None) };

    /// True if renames on this thread support no flags, as on some network file systems.
    pub static WITHOUT_RENAME_FLAGS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

pub(super) fn open_parent(root: &RootHandle, path: &str) -> Result<OwnedFd, Obstacle> {
    let (parent, _) = path::split_path(path);
    root.open_directory(parent)
        .map_err(|errno| Obstacle::from_errno(path, errno))
}

/// Opens the directory of a path, and creates missing parts of it.
pub(super) fn make_parents(root: &RootHandle, path: &str, made: &mut Vec<String>) -> Result<OwnedFd, Obstacle> {
    let failed = |errno| Obstacle::from_errno(path, errno);
    match open_parent(root, path) {
        Err(Obstacle::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
        answer => return answer,
    }
    let mut here = root.open_directory("").map_err(failed)?;
    for directory in path::list_ancestors(path) {
        let (_, name) = path::split_path(directory);
        match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {
                made.push(directory.to_owned());
                crash_point();
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let next = root.open_directory(directory).map_err(failed)?;
        if made.last().is_some_and(|last| last == directory) {
            let model = rustix::fs::fstat(&here).map_err(failed)?;
            adopt_owner(&next, &model).map_err(failed)?;
            let _ = rustix::fs::fsync(&here);
        }
        here = next;
    }
    Ok(here)
}

/// Removes directories that a step created, if they are empty.
pub(super) fn remove_made(root: &RootHandle, made: &[String]) {
    for directory in made.iter().rev() {
        remove_directory(root, directory);
    }
}

pub(super) fn remove_directory(root: &RootHandle, directory: &str) -> bool {
    let (parent, name) = path::split_path(directory);
    let removed = root
        .open_directory(parent)
        .and_then(|parent| rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR));
    removed.is_ok()
}

/// Removes what an interrupted change or recovery left beside a file: the old or the new content, or a beginning of it.
/// Anything else under that name is a user's work.
pub(super) fn remove_leftover(root: &RootHandle, file: &FileChange, temporary: &str) {
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
    let states = [&file.before, &file.after].into_iter().flatten();
    if states.into_iter().any(|state| state.content.starts_with(&left.content)) {
        discard_temporary(&parent, temporary);
    }
}

fn stat_at(parent: &OwnedFd, name: &str) -> Result<Stat, Errno> {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Mode of a new file, as any other program would create it.
pub fn new_file_mode() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    // The system call that reads the mask also sets it, for all threads. `/proc` shows it without that.
    let umask = UMASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
            .unwrap_or(0o022)
    });
    0o644 & !umask
}
