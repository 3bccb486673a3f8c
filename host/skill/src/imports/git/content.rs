//! Contents of a change, from git's objects and from the work tree.
//!
//! Files of the work tree are opened through the repository's guard, never by libgit2. libgit2 would follow links,
//! and map files into memory, where a truncation kills the process.

use std::io::Read;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::GitHelper;
use super::messages::{LineEnds, ObjectId};
use crate::limits;
use tool_boundary::Failure;
use tool_repository::{OpenError, Repository, path};

/// Content of one side of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::imports) enum SideContent {
    /// The side does not exist.
    Absent,
    /// The content, with line ends as git stores them.
    Bytes(Vec<u8>),
    /// The path or the content is hidden.
    Hidden,
    /// The content is larger than a user reads.
    TooLarge,
}

/// An entry of the work tree, found without following links.
#[derive(Debug)]
pub(in crate::imports) enum WorkTreeEntry {
    /// There is no entry that git tracks.
    Absent,
    /// An opened regular file that may be read.
    File(std::fs::File, Stat),
    /// A symbolic link and its target.
    Link(Vec<u8>, Stat),
}

/// Looks at a path of the work tree. A path behind a link counts as absent, because git does not follow links either.
pub(in crate::imports) fn stat_entry(
    repository: &Repository,
    path: &str,
    cancel: &CancellationToken,
) -> Result<WorkTreeEntry, OpenError> {
    if let Some(stat) = repository.stat_layered(path) {
        return match stat {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                let file = repository.open_file_within(path, cancel)?;
                Ok(WorkTreeEntry::File(file, stat))
            }
            _ => Ok(WorkTreeEntry::Absent),
        };
    }
    let (parent, name) = path::split_path(path);
    let directory = match repository.handle().open_directory(parent) {
        Ok(directory) => directory,
        Err(errno) => return absent_entry(path, errno),
    };
    let stat = match rustix::fs::statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(errno) => return absent_entry(path, errno),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => match rustix::fs::readlinkat(directory.as_fd(), name, Vec::new()) {
            Ok(target) => Ok(WorkTreeEntry::Link(target.into_bytes(), stat)),
            Err(_) => Ok(WorkTreeEntry::Absent),
        },
        FileType::RegularFile => {
            let opened = repository.open_within(path, cancel)?;
            if opened.path != path {
                return Ok(WorkTreeEntry::Absent);
            }
            let stat = rustix::fs::fstat(&opened.handle).map_err(|errno| OpenError::Io {
                path: path.to_owned(),
                source: errno.into(),
            })?;
            Ok(WorkTreeEntry::File(opened.handle.into(), stat))
        }
        _ => Ok(WorkTreeEntry::Absent),
    }
}

/// The entry does not exist, or is behind a link. Any other error is returned, so that an unreadable file does not
/// count as deleted.
fn absent_entry(path: &str, errno: Errno) -> Result<WorkTreeEntry, OpenError> {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV => Ok(WorkTreeEntry::Absent),
        errno => Err(OpenError::Io {
            path: path.to_owned(),
            source: errno.into(),
        }),
    }
}

/// Reads a file of the work tree as git would store it. `stored` is the content that git has.
pub(in crate::imports) fn of_work_tree(
    repository: &Repository,
    path: &str,
    line_ends: LineEnds,
    stored: &[u8],
    cancel: &CancellationToken,
) -> SideContent {
    let file = match stat_entry(repository, path, cancel) {
        Ok(WorkTreeEntry::Absent) => return SideContent::Absent,
        Ok(WorkTreeEntry::Link(target, _)) => return SideContent::Bytes(target),
        Ok(WorkTreeEntry::File(file, _)) => file,
        Err(_) => return SideContent::Hidden,
    };
    let has_returns = || stored.windows(2).any(|pair| pair == b"\r\n");
    let mut bytes = Vec::new();
    match file.take(limits::FILE_READ_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Err(_) => SideContent::Hidden,
        Ok(_) if bytes.len() as u64 > limits::FILE_READ_BYTES_MAX => SideContent::TooLarge,
        Ok(_) => match line_ends {
            LineEnds::LineFeedsUnlessStored if has_returns() => SideContent::Bytes(bytes),
            LineEnds::AsTheyAre => SideContent::Bytes(bytes),
            LineEnds::LineFeeds | LineEnds::LineFeedsUnlessStored => {
                SideContent::Bytes(without_carriage_returns(&bytes))
            }
        },
    }
}

/// Reads a stored content, under the rules for a file of that path.
pub(in crate::imports) fn of_blob(
    git: &mut GitHelper,
    repository: &Repository,
    path: &str,
    id: &ObjectId,
) -> Result<SideContent, Failure> {
    Ok(match git.blob(id, limits::FILE_READ_BYTES_MAX)? {
        None => SideContent::TooLarge,
        Some(content) if repository.hidden_content(path, &content).is_some() => SideContent::Hidden,
        Some(content) => SideContent::Bytes(content),
    })
}

fn without_carriage_returns(bytes: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        if byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            result.push(byte);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that another user owns now, or a daemon without a free handle.
    #[test]
    fn what_cannot_be_looked_at_is_not_taken_for_deleted() {
        for errno in [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV] {
            assert!(matches!(absent_entry("a", errno), Ok(WorkTreeEntry::Absent)), "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO] {
            assert!(matches!(absent_entry("a", errno), Err(OpenError::Io { .. })), "{errno}");
        }
    }
}
