//! Lists of the repository's files, and reading many of them: `repository` and `bulk` of the contract.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

/// Query of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// A directory or a file relative to the root; empty is the root.
    pub under: String,
    /// True: every file beneath. False: the directory's own entries.
    pub recursive: bool,
    /// Globs over the path; empty means all.
    pub globs: Vec<String>,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// One file or directory of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the root.
    pub path: String,
    /// File, directory or link.
    pub kind: EntryKind,
    /// Bytes; 0 for directories.
    pub size: u64,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, not followed.
    Symlink,
}

/// A bounded part of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Sorted by path bytewise.
    pub entries: Vec<Entry>,
    /// Set where there is more.
    pub next: Option<String>,
    /// Entries left out by rules; only for a query that is not recursive.
    pub left_out: u32,
}

/// Numbers of what no list from a path holds, without what is hidden.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotListed {
    /// Directories that are skipped because of their names, or as environments of Python.
    pub skipped: u32,
    /// The first of them.
    pub skipped_named: Vec<String>,
    /// Entries that an ignore rule covers; a directory is one.
    pub ignored: u32,
    /// Entries whose names are not UTF-8.
    pub not_utf8: u32,
    /// Files that git tracks and that a sparse checkout keeps out of the work tree.
    pub not_on_disk: u32,
}

/// Function that [`Host::read_files`](crate::Host::read_files) calls with each path and its content.
pub type Visit<'a> = dyn FnMut(&str, Content<'_>) -> ControlFlow<()> + 'a;

/// Files to read, and the bytes of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// A directory or a file relative to the root; empty is the root.
    pub under: String,
    /// Globs over the path; empty means all.
    pub globs: Vec<String>,
    /// The first path.
    pub start: Option<String>,
    /// The path before which to stop.
    pub end: Option<String>,
    /// Larger files are not read.
    pub file_bytes_max: u64,
    /// A file with a NUL in its first 8 KiB is not read.
    pub text_only: bool,
}

impl Selection {
    /// True where a path lies between the two bounds.
    pub fn holds(&self, path: &str) -> bool {
        self.start.as_deref().is_none_or(|start| path >= start) && self.end.as_deref().is_none_or(|end| path < end)
    }
}

/// The files from one path on, up to before another: what a part of a call reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Run {
    /// [`Selection::start`].
    pub start: Option<String>,
    /// [`Selection::end`].
    pub end: Option<String>,
}

impl Run {
    /// The runs of files that begin at these paths, which [`Host::divide`](crate::Host::divide) returned, and the one
    /// before them.
    pub fn all(starts: Vec<String>) -> impl Iterator<Item = Self> {
        let bounds: Vec<Option<String>> = std::iter::once(None)
            .chain(starts.into_iter().map(Some))
            .chain(std::iter::once(None))
            .collect();
        (1..bounds.len()).map(move |at| Self {
            start: bounds[at - 1].clone(),
            end: bounds[at].clone(),
        })
    }
}

/// A file of a [`Selection`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It is larger than was asked for.
    Large,
    /// It is no text, where text was asked for.
    Binary,
    /// It is gone, or may not be read.
    Unreadable,
}
