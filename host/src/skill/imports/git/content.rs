//! The contents that a change is made of, from git's objects and from the work tree.
//!
//! Files of the work tree are read through the repository's own guarded opening, never by libgit2: it would follow
//! whatever lies there at that moment, and map it into memory, where a truncation kills the daemon.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use git2::{AttrCheckFlags, AttrValue, Oid};
use rustix::fs::{AtFlags, FileType, Stat};

use super::Git;
use crate::limits;
use crate::repository::{OpenError, Repository, path};

/// What a side of a change turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::skill::imports) enum Content {
    /// Nothing is there.
    Absent,
    /// Its bytes, with line ends as git stores them.
    Bytes(Vec<u8>),
    /// Not to be shown.
    Hidden,
    /// More than anybody reads.
    TooLarge,
}

/// A file of the work tree, looked at without following links.
#[derive(Debug)]
pub(in crate::skill::imports) enum Entry {
    /// Nothing, or a directory, or something that git does not track.
    Absent,
    /// A regular file, opened and judged.
    File(std::fs::File, Stat),
    /// A symbolic link with its target.
    Link(Vec<u8>, Stat),
}

/// Looks at a path of the work tree. Links on the way to it make it absent: git does not look behind them.
pub(in crate::skill::imports) fn entry(repository: &Repository, path: &str) -> Result<Entry, OpenError> {
    let (parent, name) = path::split(path);
    let Ok(directory) = repository.handle().open_directory(parent) else {
        return Ok(Entry::Absent);
    };
    let Ok(stat) = rustix::fs::statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(Entry::Absent);
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => match rustix::fs::readlinkat(directory.as_fd(), name, Vec::new()) {
            Ok(target) => Ok(Entry::Link(target.into_bytes(), stat)),
            Err(_) => Ok(Entry::Absent),
        },
        FileType::RegularFile => {
            let opened = repository.open_at(path)?;
            if opened.path != path {
                return Ok(Entry::Absent);
            }
            let stat = rustix::fs::fstat(&opened.handle).map_err(|errno| OpenError::Io {
                path: path.to_owned(),
                source: errno.into(),
            })?;
            Ok(Entry::File(opened.handle.into(), stat))
        }
        _ => Ok(Entry::Absent),
    }
}

/// The content of a file of the work tree as git would store it beside `stored`.
pub(in crate::skill::imports) fn of_work_tree(
    git: &Git,
    repository: &Repository,
    path: &str,
    stored: &[u8],
) -> Content {
    let file = match entry(repository, path) {
        Ok(Entry::Absent) => return Content::Absent,
        Ok(Entry::Link(target, _)) => return Content::Bytes(target),
        Ok(Entry::File(file, _)) => file,
        Err(_) => return Content::Hidden,
    };
    let mut bytes = Vec::new();
    match file.take(limits::FILE_READ_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Err(_) => Content::Hidden,
        Ok(_) if bytes.len() as u64 > limits::FILE_READ_BYTES_MAX => Content::TooLarge,
        Ok(_) if git.stores_line_feeds(path, stored) => Content::Bytes(without_carriage_returns(&bytes)),
        Ok(_) => Content::Bytes(bytes),
    }
}

/// The content of a blob, judged as a file of that path would be.
pub(in crate::skill::imports) fn of_blob(
    git: &Git,
    repository: &Repository,
    path: &str,
    id: Oid,
) -> Result<Content, git2::Error> {
    let (size, _) = git.repository.odb()?.read_header(id)?;
    if size as u64 > limits::FILE_READ_BYTES_MAX {
        return Ok(Content::TooLarge);
    }
    let blob = git.repository.find_blob(id)?;
    Ok(match repository.hidden_content(path, blob.content()) {
        Some(_) => Content::Hidden,
        None => Content::Bytes(blob.content().to_vec()),
    })
}

impl Git {
    /// The external program that git would put between the work tree and its objects, where the attributes name one.
    ///
    /// It is never run here. What such a path holds in the work tree is not what git stores, so it can be neither
    /// compared nor committed.
    pub(in crate::skill::imports) fn external_filter(&self, path: &str) -> Option<String> {
        ["filter", "working-tree-encoding"].into_iter().find_map(|name| {
            let value = self.attribute(path, name)?;
            Some(format!("{name}={value}"))
        })
    }

    /// True where the attributes say that the path's contents are not text.
    pub(in crate::skill::imports) fn declared_binary(&self, path: &str) -> bool {
        let path = self.inside(path);
        let value = self
            .repository
            .get_attr_bytes(Path::new(&path), "diff", AttrCheckFlags::FILE_THEN_INDEX);
        value.is_ok_and(|value| AttrValue::always_bytes(value) == AttrValue::False)
    }

    /// The value of an attribute, where it is set to one.
    fn attribute(&self, path: &str, name: &str) -> Option<String> {
        let path = self.inside(path);
        let flags = AttrCheckFlags::FILE_THEN_INDEX;
        let value = self.repository.get_attr_bytes(Path::new(&path), name, flags).ok()?;
        match AttrValue::from_bytes(value) {
            AttrValue::String(value) => Some(value.to_owned()),
            AttrValue::Bytes(value) => Some(String::from_utf8_lossy(value).into_owned()),
            AttrValue::True => Some("true".to_owned()),
            AttrValue::False | AttrValue::Unspecified => None,
        }
    }

    /// True where git turns CRLF into LF when it stores the file, so that the difference is none.
    ///
    /// git leaves a file alone whose stored form has CRLF already, unless `text` or `eol` is set for it.
    fn stores_line_feeds(&self, path: &str, stored: &[u8]) -> bool {
        let inside = self.inside(path);
        let flags = AttrCheckFlags::FILE_THEN_INDEX;
        let text = self
            .repository
            .get_attr_bytes(Path::new(&inside), "text", flags)
            .ok()
            .flatten();
        let has_returns = || stored.windows(2).any(|pair| pair == b"\r\n");
        match AttrValue::from_bytes(text) {
            AttrValue::False => false,
            AttrValue::True => true,
            AttrValue::String("auto") => !has_returns(),
            _ if self.attribute(path, "eol").is_some() => true,
            _ => self.converts_by_default() && !has_returns(),
        }
    }

    fn converts_by_default(&self) -> bool {
        let value = self
            .repository
            .config()
            .and_then(|config| config.get_string("core.autocrlf"));
        value.is_ok_and(|value| ["true", "input", "yes", "on", "1"].contains(&value.to_lowercase().as_str()))
    }
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
