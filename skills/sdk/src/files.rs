//! Lists of files, and reading many of them: the interfaces `repository` and `bulk` of the contract.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

/// Entries to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// A directory or a file, relative to the root; empty for the root.
    pub under: String,
    /// True: all files beneath. False: the directory's own entries.
    pub recursive: bool,
    /// Globs over the path; empty for all. A glob without `/` matches the file name, and a leading `!` excludes.
    pub globs: Vec<String>,
    /// [`Page::next`] of the previous page; absent for the first page.
    pub after: Option<String>,
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the root.
    pub path: String,
    /// File, directory or link.
    pub kind: EntryKind,
    /// Size in bytes; 0 for a directory.
    pub size: u64,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which the list does not follow.
    Symlink,
}

/// A bounded part of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Sorted by path, bytewise.
    pub entries: Vec<Entry>,
    /// Present if there is another page.
    pub next: Option<String>,
    /// Number of entries that rules left out; only for a query that is not recursive.
    pub left_out: u32,
}

/// Counts of entries that no list holds. Hidden files are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotListed {
    /// Directories skipped because of their names, or as environments of Python.
    pub skipped: u32,
    /// The first skipped directories, at most three.
    pub skipped_named: Vec<String>,
    /// Entries that an ignore rule covers; a directory counts as one.
    pub ignored: u32,
    /// Entries whose names are not UTF-8.
    pub not_utf8: u32,
    /// Files that git tracks and that a sparse checkout keeps out of the work tree.
    pub not_on_disk: u32,
}

/// Function that [`Host::read_files`](crate::Host::read_files) calls with each path and its content.
///
/// It may return `ControlFlow::Break` to end the reading.
pub type Visit<'a> = dyn FnMut(&str, Content<'_>) -> ControlFlow<()> + 'a;

/// Files to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// A directory or a file, relative to the root; empty for the root.
    pub under: String,
    /// Globs over the path; empty for all.
    pub globs: Vec<String>,
    /// The first path to read; absent for the first file. Paths compare bytewise.
    pub start: Option<String>,
    /// The path before which to stop; absent to read to the last file.
    pub end: Option<String>,
    /// Limit for the size of a file in bytes, at most 16 MiB. Larger files are reported as [`Content::Large`].
    pub file_bytes_max: u64,
    /// True to leave out files with a NUL character in their first 8 KiB.
    pub text_only: bool,
}

impl Selection {
    /// True if `path` is in the range from `start` to `end`.
    pub fn holds(&self, path: &str) -> bool {
        self.start.as_deref().is_none_or(|start| path >= start) && self.end.as_deref().is_none_or(|end| path < end)
    }
}

/// A range of files in the order of their paths: the files that one part of a divided call reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Run {
    /// As [`Selection::start`].
    pub start: Option<String>,
    /// As [`Selection::end`].
    pub end: Option<String>,
}

impl Run {
    /// The ranges that begin at these paths, which [`Host::divide`](crate::Host::divide) returned, and the range
    /// before the first of them.
    ///
    /// ```
    /// use skill_sdk::Run;
    ///
    /// let runs: Vec<Run> = Run::all(vec!["m".to_owned()]).collect();
    /// assert_eq!(runs.len(), 2);
    /// assert_eq!(runs[0].end, runs[1].start);
    /// ```
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

/// Content of a file of a [`Selection`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// The whole content.
    Whole(&'a [u8]),
    /// The file is larger than the limit of the selection.
    Large,
    /// The file is not text, and the selection wants only text.
    Binary,
    /// The file is gone, or may not be read.
    Unreadable,
}
