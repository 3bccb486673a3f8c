//! The paths that git tracks below a root, read from git's index.
//!
//! A repository's owner may have forged the index, so it is parsed within limits. It decides whose text a file is, and
//! which files a walk lists despite their names or an ignore rule. It adds no file that the walk has not found.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tool_core::limits::GIT_CONFIG_BYTES_MAX;

use crate::git_file::{open_file, read_bounded};
use crate::git_settings;
use crate::reftable::{self, Reader, Reference, References};
use crate::root;
use tool_core::digest::to_hexadecimal;

/// Bytes of the largest index. The Linux kernel's has 10 MB.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes of the longest path, which is the longest that the kernel opens.
const PATH_BYTES_MAX: usize = 4096;

/// Bytes of all paths in memory. Version 4 stores only the difference to the path before, so 4 MB in a file could stand
/// for 2 GB. A tree of a million files has 60 MB.
const PATHS_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Bytes of a file of one line: `HEAD`, `.git`, `commondir`.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Name of the list of packed references in a git directory.
const PACKED_REFS: &str = "packed-refs";

/// Bytes of the largest list of packed references that is searched.
const PACKED_REFS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of an entry before its object id: times, device and inode, mode, owner, size. Flags follow the id.
const STAT_BYTES: usize = 40;
const MODE_AT: usize = 24;

/// Bytes of an object id.
const SHA1_BYTES: usize = 20;
const SHA256_BYTES: usize = 32;

/// Flag of an entry: two further bytes of flags follow.
const IS_EXTENDED: u16 = 0x4000;

/// Flag in these two bytes: git keeps the entry out of the work tree (sparse checkout).
const IS_NOT_ON_DISK: u16 = 0x4000;

const GITLINK: u32 = 0o160_000;
const LINK: u32 = 0o120_000;

/// The paths below a root that git tracks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TrackedPaths {
    /// Files, sorted bytewise, relative to the root.
    files: Vec<String>,
    /// Directories that the index records as other repositories, sorted.
    gitlinks: Vec<String>,
    /// The tracked files that are symbolic links.
    links: Vec<String>,
    /// Tracked files that a sparse checkout keeps out of the work tree. A directory of a sparse index is one entry.
    not_on_disk: Vec<String>,
    /// True if there is an index that cannot be parsed: any file may be tracked.
    is_unknown: bool,
}

impl TrackedPaths {
    /// True for a tracked file.
    pub fn holds(&self, path: &str) -> bool {
        self.files.binary_search_by(|file| file.as_str().cmp(path)).is_ok()
    }

    /// The tracked files that are symbolic links.
    pub fn links(&self) -> &[String] {
        &self.links
    }

    /// True if a file below `directory`, which ends with `/`, is tracked.
    pub fn holds_below(&self, directory: &str) -> bool {
        has_below(&self.files, directory)
    }

    /// True if the index records another repository below `directory`, which ends with `/`.
    fn links_below(&self, directory: &str) -> bool {
        has_below(&self.gitlinks, directory)
    }

    /// Number of files below a directory that a sparse checkout keeps out of the work tree.
    pub(crate) fn not_on_disk(&self, directory: &str) -> usize {
        count_below(&self.not_on_disk, directory)
    }

    /// True if there is an index that cannot be parsed.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.gitlinks.is_empty() && !self.is_unknown
    }

    /// True for a directory that the index records as another repository.
    pub fn is_gitlink(&self, directory: &str) -> bool {
        let find = self.gitlinks.binary_search_by(|link| link.as_str().cmp(directory));
        find.is_ok()
    }

    /// Parses an index with SHA-1 object ids. `prefix` is the path of the root in the work tree, empty or with a `/` at
    /// its end. `None` for a damaged index, and for one whose names are in another file (split).
    pub fn parse(index: &[u8], prefix: &str) -> Option<Self> {
        Self::parse_named(index, prefix, SHA1_BYTES, |_| None)
    }

    /// Like [`Self::parse`], with object ids of `name_bytes` bytes. `shared` reads the shared file of a split index by
    /// its object id.
    fn parse_named(
        index: &[u8],
        prefix: &str,
        name_bytes: usize,
        shared: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let (mut entries, end) = parse_entries(index, name_bytes)?;
        if let Some(link) = index.get(end..)?.strip_prefix(b"link") {
            let link = link.get(4..4 + parse_word(link, 0)? as usize)?;
            entries = join_split(entries, link, name_bytes, shared)?;
        }
        let mut tracked = Self::default();
        for IndexEntry { path, mode, is_on_disk } in entries {
            let Ok(mut path) = String::from_utf8(path) else {
                continue;
            };
            if !path.starts_with(prefix) {
                continue;
            }
            path.drain(..prefix.len());
            if mode == LINK {
                tracked.links.push(path.clone());
            }
            if !is_on_disk {
                tracked.not_on_disk.push(path.clone());
            }
            let paths = if mode == GITLINK {
                &mut tracked.gitlinks
            } else {
                &mut tracked.files
            };
            paths.push(path);
        }
        for paths in [
            &mut tracked.files,
            &mut tracked.gitlinks,
            &mut tracked.links,
            &mut tracked.not_on_disk,
        ] {
            paths.sort_unstable();
            // A conflict has an entry for each side.
            paths.dedup();
        }
        Some(tracked)
    }
}

struct IndexEntry {
    /// Empty in a split index for an entry that replaces one of the shared file.
    path: Vec<u8>,
    mode: u32,
    is_on_disk: bool,
}

/// Parses the entries of an index. Also returns the position after them.
fn parse_entries(index: &[u8], name_bytes: usize) -> Option<(Vec<IndexEntry>, usize)> {
    let (flags_at, entry_bytes) = (STAT_BYTES + name_bytes, STAT_BYTES + name_bytes + 2);
    let version = parse_word(index, 4).filter(|version| (2..=4).contains(version))?;
    if !index.starts_with(b"DIRC") {
        return None;
    }
    let (mut entries, mut path, mut at) = (Vec::new(), Vec::new(), 12);
    let mut paths_bytes = 0;
    for _ in 0..parse_word(index, 8)? {
        let start = at;
        let mode = parse_word(index, at + MODE_AT)?;
        let flags = u16::from_be_bytes(index.get(at + flags_at..at + entry_bytes)?.try_into().ok()?);
        at += entry_bytes;
        let mut is_on_disk = true;
        if version > 2 && flags & IS_EXTENDED != 0 {
            let more = u16::from_be_bytes(index.get(at..at + 2)?.try_into().ok()?);
            is_on_disk = more & IS_NOT_ON_DISK == 0;
            at += 2;
        }
        let kept = if version == 4 {
            let (cut, end) = parse_varint(index, at)?;
            at = end;
            path.len().checked_sub(cut)?
        } else {
            0
        };
        path.truncate(kept);
        let length = index.get(at..)?.iter().position(|&byte| byte == 0)?;
        path.extend_from_slice(&index[at..at + length]);
        paths_bytes += path.len();
        if path.len() > PATH_BYTES_MAX || paths_bytes > PATHS_BYTES_MAX {
            return None;
        }
        at += length + 1;
        if version < 4 {
            // One to eight zeros end an entry, whose length is a multiple of eight.
            at = start + (at - start).next_multiple_of(8);
        }
        entries.push(IndexEntry {
            path: path.clone(),
            mode,
            is_on_disk,
        });
    }
    Some((entries, at))
}

/// Joins the entries of a split index with those of the shared file that its extension `link` names, without deleted
/// entries and with the new state of replaced ones.
fn join_split(
    own: Vec<IndexEntry>,
    link: &[u8],
    name_bytes: usize,
    shared: impl Fn(&str) -> Option<Vec<u8>>,
) -> Option<Vec<IndexEntry>> {
    let name = to_hexadecimal(link.get(..name_bytes)?);
    if name.bytes().all(|digit| digit == b'0') {
        return Some(own);
    }
    let shared = shared(&name)?;
    let (mut entries, end) = parse_entries(&shared, name_bytes)?;
    if shared.get(end..)?.starts_with(b"link") {
        return None;
    }
    if link.len() == name_bytes {
        entries.extend(own);
        return Some(entries);
    }
    let (deleted, bytes) = parse_bitmap(&link[name_bytes..], entries.len())?;
    let (replaced, _) = parse_bitmap(link.get(name_bytes + bytes..)?, entries.len())?;
    let (replacing, added): (Vec<_>, Vec<_>) = own.into_iter().partition(|entry| entry.path.is_empty());
    if replaced.len() != replacing.len() {
        return None;
    }
    for (at, new) in replaced.into_iter().zip(replacing) {
        (entries[at].mode, entries[at].is_on_disk) = (new.mode, new.is_on_disk);
    }
    let mut deleted = deleted.into_iter().peekable();
    let mut at = 0;
    entries.retain(|_| {
        at += 1;
        deleted.next_if_eq(&(at - 1)).is_none()
    });
    entries.extend(added);
    Some(entries)
}

/// Parses a compressed bitmap (EWAH). Returns its set bits, which must be below `end`, and its length in bytes.
fn parse_bitmap(bytes: &[u8], end: usize) -> Option<(Vec<usize>, usize)> {
    let words = parse_word(bytes, 4)? as usize;
    // Each run word but the first stands for at least one word that is not stored.
    if words > end / 64 + 2 {
        return None;
    }
    let length = words.checked_mul(8)?.checked_add(12)?;
    let mut words = bytes
        .get(8..length - 4)?
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_be_bytes(*word));
    let (mut bits, mut at) = (Vec::new(), 0_usize);
    while let Some(run) = words.next() {
        // A run word holds a bit, the number of words filled with it (32 bits), and the number of literal words that
        // follow (31).
        let filled = usize::try_from((run >> 1 & 0xffff_ffff) * 64).ok()?;
        if run & 1 == 1 {
            bits.extend(at..at.checked_add(filled).filter(|filled| *filled <= end)?);
        }
        at = at.checked_add(filled)?;
        for _ in 0..run >> 33 {
            let word = words.next()?;
            for bit in (0..64_usize).filter(|bit| word >> bit & 1 == 1) {
                bits.push(at.checked_add(bit).filter(|bit| *bit < end)?);
            }
            at = at.checked_add(64)?;
        }
    }
    Some((bits, length))
}

fn parse_word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Number of sorted paths that are `directory` or below it; the empty string is the root.
pub(crate) fn count_below(sorted: &[String], directory: &str) -> usize {
    if directory.is_empty() {
        return sorted.len();
    }
    let at = |bound: String| sorted.partition_point(|path| *path < bound);
    let itself = usize::from(sorted.binary_search_by(|path| path.as_str().cmp(directory)).is_ok());
    itself + at(format!("{directory}0")) - at(format!("{directory}/"))
}

fn has_below(sorted: &[String], directory: &str) -> bool {
    let at = sorted.partition_point(|path| path.as_str() < directory);
    sorted.get(at).is_some_and(|path| path.starts_with(directory))
}

/// Parses a number of variable length at a position. Also returns the position after it.
fn parse_varint(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut reader = Reader(bytes.get(at..)?);
    let number = reader.length()?;
    Some((number, bytes.len() - reader.0.len()))
}

/// Caches what was read from an index, and from packed references or tables, while these files are unchanged.
#[derive(Debug, Default)]
pub(crate) struct TrackedCache {
    index: Mutex<Option<(FileStamp, Option<Arc<TrackedPaths>>)>>,
    commit: Mutex<Option<KnownCommit>>,
}

/// Identity, size and times of a file. git replaces an index, packed references or a list of tables for each change.
type FileStamp = (u64, u64, u64, i64, i64, i64, i64);

/// Whether a branch has a commit, with the stamps of the files that said so: the packed references, or two lists of
/// tables.
#[derive(Debug)]
struct KnownCommit {
    branch: String,
    stamps: Vec<FileStamp>,
    has_commit: bool,
}

impl TrackedCache {
    /// The tracked paths below `root`. `None` outside of git, and if nothing below the root is tracked.
    pub(crate) fn read(&self, root: &Path) -> Option<Arc<TrackedPaths>> {
        self.read_index(&GitLayout::find(root)?)
    }

    /// Like [`Self::read`]; also `None` before the first commit.
    pub(crate) fn read_committed(&self, root: &Path) -> Option<Arc<TrackedPaths>> {
        let layout = GitLayout::find(root)?;
        let tracked = self.read_index(&layout)?;
        (!tracked.files.is_empty() && layout.has_commit(&self.commit)).then_some(tracked)
    }

    fn read_index(&self, layout: &GitLayout) -> Option<Arc<TrackedPaths>> {
        let (index, metadata) = open_file(&layout.git.join("index"))?;
        let stamp = file_stamp(&metadata);
        let mut kept = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, tracked)) = kept.as_ref()
            && *known == stamp
        {
            return tracked.clone();
        }
        let shared = |name: &str| {
            let (file, _) = open_file(&layout.git.join(format!("sharedindex.{name}")))?;
            read_bounded(file, INDEX_BYTES_MAX)
        };
        let parse = |index: Vec<u8>| TrackedPaths::parse_named(&index, &layout.prefix, layout.name_bytes(), shared);
        let unknown = || TrackedPaths {
            is_unknown: true,
            ..TrackedPaths::default()
        };
        let tracked = read_bounded(index, INDEX_BYTES_MAX)
            .and_then(parse)
            .unwrap_or_else(unknown);
        let tracked = Some(tracked).filter(|tracked| !tracked.is_empty());
        // git may have refreshed the index without changing paths: the same value then keeps caches valid.
        let before = kept.take().and_then(|(_, before)| before);
        let tracked = match (tracked, before) {
            (Some(now), Some(before)) if *before == now => Some(before),
            (now, _) => now.map(Arc::new),
        };
        *kept = Some((stamp, tracked.clone()));
        tracked
    }
}

/// A work tree in a walk: the root's, or one below it. Its index is read when the walk first asks.
#[derive(Debug)]
pub(crate) struct TrackedTree {
    /// Top directory, relative to the root of the walk; empty for the root's work tree.
    top: String,
    root: PathBuf,
    cache: Arc<TrackedCache>,
    paths: OnceLock<Option<Arc<TrackedPaths>>>,
}

/// What a work tree tracks in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrackedWithin {
    Nothing,
    Files,
    /// The directory is another repository's work tree.
    OtherTree,
}

impl TrackedTree {
    pub(crate) fn at_root(root: &Path, cache: &Arc<TrackedCache>) -> Arc<Self> {
        Arc::new(Self {
            top: String::new(),
            root: root.to_owned(),
            cache: Arc::clone(cache),
            paths: OnceLock::new(),
        })
    }

    /// The work tree whose top is the directory `top`.
    pub(crate) fn below(&self, top: &str) -> Arc<Self> {
        Arc::new(Self {
            top: format!("{top}/"),
            root: self.root.clone(),
            cache: Arc::default(),
            paths: OnceLock::new(),
        })
    }

    /// The tracked paths. A walk asks only about what it would leave out.
    fn paths(&self) -> Option<&TrackedPaths> {
        let read = || self.cache.read(&self.root.join(&self.top));
        self.paths.get_or_init(read).as_deref()
    }

    /// True for a tracked file.
    pub(crate) fn holds(&self, path: &str) -> bool {
        self.paths().is_some_and(|paths| paths.holds(self.own(path)))
    }

    pub(crate) fn within(&self, directory: &str) -> TrackedWithin {
        let Some(paths) = self.paths() else {
            return TrackedWithin::Nothing;
        };
        let directory = self.own(directory);
        let below = format!("{directory}/");
        if paths.is_gitlink(directory) {
            TrackedWithin::OtherTree
        } else if paths.holds_below(&below) || paths.links_below(&below) {
            TrackedWithin::Files
        } else {
            TrackedWithin::Nothing
        }
    }

    fn own<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.top.as_str()).unwrap_or(path)
    }

    /// The tracked paths of a sparse checkout; other checkouts do not need the index here.
    pub(crate) fn sparse(&self) -> Option<Arc<TrackedPaths>> {
        let layout = GitLayout::find(&self.root);
        let is_sparse = layout.is_some_and(|layout| layout.git.join("info/sparse-checkout").exists());
        is_sparse.then(|| self.paths()).flatten()?;
        self.paths.get()?.clone()
    }

    /// The answer of the index, if it was asked.
    pub(crate) fn asked(&self) -> Option<AskedIndex> {
        let paths = self.paths.get()?.clone();
        Some(AskedIndex {
            top: self.top.clone(),
            cache: Arc::clone(&self.cache),
            paths,
        })
    }
}

/// The answer of an index on which the result of a walk depends.
#[derive(Debug)]
pub(crate) struct AskedIndex {
    top: String,
    cache: Arc<TrackedCache>,
    paths: Option<Arc<TrackedPaths>>,
}

impl AskedIndex {
    /// True if the index still gives this answer. It is parsed again only if the file was replaced.
    pub(crate) fn is_same(&self, root: &Path) -> bool {
        self.cache.read(&root.join(&self.top)) == self.paths
    }
}

fn file_stamp(metadata: &Metadata) -> FileStamp {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    )
}

/// The git directories of the work tree that holds a root.
pub(crate) struct GitLayout {
    /// Holds `HEAD` and the index.
    pub(crate) git: PathBuf,
    /// Holds the branches, and the records of linked work trees.
    common: PathBuf,
    /// Path of the root in the work tree, empty or with a `/` at its end.
    prefix: String,
}

impl GitLayout {
    pub(crate) fn find(root: &Path) -> Option<Self> {
        let top = root::find_root(root);
        let below = root.strip_prefix(&top).ok()?.to_str()?;
        let prefix = if below.is_empty() {
            String::new()
        } else {
            format!("{below}/")
        };
        let link = top.join(".git");
        let git = if link.symlink_metadata().ok()?.is_dir() {
            link
        } else {
            top.join(first_line(&link)?.strip_prefix("gitdir:")?.trim())
        };
        let common = first_line(&git.join("commondir")).map_or_else(|| git.clone(), |line| git.join(line.trim()));
        Some(Self { git, common, prefix })
    }

    /// True if the branch has a commit, or a file that would say so cannot be read. Before the first commit, all files
    /// could be the user's except those in the index. `kept` is the last answer from packed references or tables, which
    /// are read again only if git has replaced them.
    fn has_commit(&self, kept: &Mutex<Option<KnownCommit>>) -> bool {
        let head = self.git.join("HEAD");
        let Some(head) = first_line(&head) else {
            return may_exist(&head);
        };
        let Some(branch) = head.strip_prefix("ref:").map(str::trim) else {
            return true;
        };
        // With reftable, git writes this name instead of a branch.
        let has_tables = branch == "refs/heads/.invalid";
        if !has_tables && self.common.join(branch).is_file() {
            return true;
        }
        let asked = if has_tables {
            let list = |git: &Path| git.join(reftable::FOLDER).join(reftable::LIST);
            vec![list(&self.git), list(&self.common)]
        } else {
            vec![self.common.join(PACKED_REFS)]
        };
        // Taken before the files are read: if git replaces one meanwhile, the next call reads it again.
        let stamp_of = |path: &PathBuf| path.symlink_metadata().ok().map(|metadata| file_stamp(&metadata));
        let stamps: Option<Vec<FileStamp>> = asked.iter().map(stamp_of).collect();
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.as_ref()
            && known.branch == branch
            && stamps.as_ref() == Some(&known.stamps)
        {
            return known.has_commit;
        }
        let has_commit = if has_tables {
            self.read_tables().unwrap_or(true)
        } else {
            self.is_packed(branch)
        };
        *kept = stamps.map(|stamps| KnownCommit {
            branch: branch.to_owned(),
            stamps,
            has_commit,
        });
        has_commit
    }

    /// True if the packed references name the branch, or cannot be read.
    fn is_packed(&self, branch: &str) -> bool {
        let place = self.common.join(PACKED_REFS);
        let packed = open_file(&place).and_then(|(file, _)| read_bounded(file, PACKED_REFS_BYTES_MAX));
        let Some(packed) = packed else {
            return may_exist(&place);
        };
        let name = format!(" {branch}");
        let packed = String::from_utf8_lossy(&packed);
        packed.lines().any(|line| line.ends_with(&name))
    }

    /// True if `HEAD` names a commit or an existing branch. The branches of a linked work tree are in the repository.
    fn read_tables(&self) -> io::Result<bool> {
        let read = |git: &Path| References::read(&git.join(reftable::FOLDER));
        let own = read(&self.git)?;
        match own.by_name.get("HEAD") {
            Some(Reference::Symbolic(branch)) if self.git == self.common => Ok(own.by_name.contains_key(branch)),
            Some(Reference::Symbolic(branch)) => Ok(read(&self.common)?.by_name.contains_key(branch)),
            // `HEAD` is the first reference that git writes.
            Some(Reference::Object { .. }) | None => Ok(true),
        }
    }

    /// Bytes of an object id, by the repository's settings.
    fn name_bytes(&self) -> usize {
        let config = open_file(&self.common.join("config"));
        let config = config.and_then(|(file, _)| read_bounded(file, GIT_CONFIG_BYTES_MAX));
        let mut is_sha256 = false;
        git_settings::visit_settings(
            &String::from_utf8_lossy(&config.unwrap_or_default()),
            |section, key, value| {
                // The last setting counts.
                if (section, key) == ("extensions", "objectformat") {
                    is_sha256 = value.eq_ignore_ascii_case("sha256");
                }
            },
        );
        if is_sha256 { SHA256_BYTES } else { SHA1_BYTES }
    }

    /// True if `work_tree`, a directory with a `.git`, is a linked work tree of this repository: its `.git` leads to a
    /// record of this repository, and the record leads back. Files of a stranger cannot create such a record.
    pub(crate) fn has_linked(&self, work_tree: &Path) -> bool {
        let link = work_tree.join(".git");
        let leads = || {
            let target = first_line(&link)?;
            let record = work_tree
                .join(target.strip_prefix("gitdir:")?.trim())
                .canonicalize()
                .ok()?;
            let back = record
                .join(first_line(&record.join("gitdir"))?.trim())
                .canonicalize()
                .ok()?;
            let records = self.common.join("worktrees").canonicalize().ok()?;
            Some(record.parent()? == records && back == link.canonicalize().ok()?)
        };
        leads() == Some(true)
    }
}

/// True if the file exists, or the system does not say whether it does.
fn may_exist(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true)
}

fn first_line(path: &Path) -> Option<String> {
    let text = read_bounded(open_file(path)?.0, LINE_BYTES_MAX)?;
    let text = String::from_utf8_lossy(&text);
    Some(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of these modes and paths, which are whole paths in every version.
    fn index(version: u32, entries: &[(u32, &str)]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(entries.len()).expect("a few").to_be_bytes());
        let mut before = 0;
        for (mode, path) in entries {
            let start = bytes.len();
            let mut entry = [0; STAT_BYTES + SHA1_BYTES + 2];
            entry[MODE_AT..MODE_AT + 4].copy_from_slice(&mode.to_be_bytes());
            let is_extended = version > 2;
            if is_extended {
                entry[STAT_BYTES + SHA1_BYTES..].copy_from_slice(&IS_EXTENDED.to_be_bytes());
            }
            bytes.extend(entry);
            bytes.extend(if is_extended { &[0, 0][..] } else { &[] });
            if version == 4 {
                bytes.push(before);
                before = u8::try_from(path.len()).expect("a short path");
            }
            bytes.extend(path.as_bytes());
            bytes.push(0);
            if version < 4 {
                bytes.resize(start + (bytes.len() - start).next_multiple_of(8), 0);
            }
        }
        bytes.extend([0; 20]);
        bytes
    }

    const ENTRIES: [(u32, &str); 6] = [
        (0o100_644, ".gitmodules"),
        (0o100_644, "a.py"),
        (0o100_644, "a.py"),
        (GITLINK, "lib"),
        (0o100_755, "src/deep/b.py"),
        (0o120_000, "src/link"),
    ];

    #[test]
    fn paths_that_grow_from_entry_to_entry_take_a_bounded_memory() {
        let grown = |letters: usize, others: usize| {
            let mut bytes = b"DIRC\0\0\0\x04".to_vec();
            bytes.extend(u32::try_from(letters + others).expect("a few").to_be_bytes());
            for at in 0..letters + others {
                bytes.extend([0; STAT_BYTES + SHA1_BYTES + 2]);
                // Each takes nothing off and adds a letter; the others replace the last one.
                bytes.extend(if at < letters {
                    &b"\0a\0"[..]
                } else {
                    [&b"\x01b\0"[..], b"\x01c\0"][at % 2]
                });
            }
            bytes.extend([0; 20]);
            TrackedPaths::parse(&bytes, "").map(|tracked| tracked.files.len())
        };
        assert_eq!(grown(4_000, 10), Some(4_002), "the others are two paths");
        assert_eq!(grown(PATH_BYTES_MAX + 1, 0), None);
        assert_eq!(grown(4_000, PATHS_BYTES_MAX / 4_000), None);
    }

    #[test]
    fn every_version_of_an_index_gives_the_same_paths() {
        for version in 2..=4 {
            let tracked = TrackedPaths::parse(&index(version, &ENTRIES), "").expect("it is an index");
            assert_eq!(
                tracked.files,
                [".gitmodules", "a.py", "src/deep/b.py", "src/link"],
                "{version}"
            );
            assert_eq!(tracked.gitlinks, ["lib"], "{version}");
            assert_eq!(tracked.links(), ["src/link"], "{version}");
            assert!(tracked.holds("a.py") && !tracked.holds("b.py") && !tracked.holds("src"));
            assert!(tracked.holds_below("src/") && tracked.holds_below("src/deep/"));
            assert!(!tracked.holds_below("sr/") && !tracked.holds_below("lib/"));
            assert!(tracked.is_gitlink("lib") && !tracked.is_gitlink("src"));
            let below = TrackedPaths::parse(&index(version, &ENTRIES), "src/").expect("it is an index");
            assert_eq!(below.files, ["deep/b.py", "link"], "{version}");
        }
    }

    #[test]
    fn a_bitmap_that_claims_too_much_is_not_read() {
        let bitmap = |words: &[u64]| {
            let count = u32::try_from(words.len()).expect("a few");
            let words = words.iter().flat_map(|word| word.to_be_bytes());
            let bytes: Vec<u8> = [0, 0, 0, 0]
                .into_iter()
                .chain(count.to_be_bytes())
                .chain(words)
                .chain([0; 4])
                .collect();
            parse_bitmap(&bytes, 200)
        };
        assert_eq!(bitmap(&[1 << 33 | 1 << 1, 0b101]), Some((vec![64, 66], 28)));
        assert_eq!(bitmap(&[1 << 1 | 1]).map(|(bits, _)| bits.len()), Some(64));
        assert_eq!(bitmap(&[1 << 33 | 3 << 1, 1 << 7]), Some((vec![199], 28)));
        assert_eq!(bitmap(&[4 << 33, 1, 0, 0, 1]), Some((vec![0, 192], 52)));
        for words in [
            &[u64::MAX][..],
            &[0xffff_ffff << 1 | 1],
            &[1 << 33],
            &[1 << 33 | 4 << 1, 1],
            // Bit 200 itself, and more words than 200 bits take, also where they set none.
            &[1 << 33 | 3 << 1, 1 << 8],
            &[5 << 33, 0, 0, 0, 0, 0],
            &[999 << 33; 1000],
        ] {
            assert_eq!(bitmap(words), None, "{words:x?}");
        }
        assert_eq!(parse_bitmap(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], 200), None);
    }

    #[test]
    fn the_length_of_names_is_read_as_git_reads_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let layout = GitLayout {
            git: folder.path().to_owned(),
            common: folder.path().to_owned(),
            prefix: String::new(),
        };
        assert_eq!(layout.name_bytes(), SHA1_BYTES);
        for (config, expected) in [
            ("[extensions]\n\tobjectFormat = sha256\n", SHA256_BYTES),
            ("[Extensions] objectformat = \"sha256\"\n", SHA256_BYTES),
            ("[extensions]\nobjectformat = sha256 # note\n", SHA256_BYTES),
            ("[extensions]\nobjectformat = sha256\nobjectformat = sha1\n", SHA1_BYTES),
            ("[other]\nobjectformat = sha256\n", SHA1_BYTES),
            ("[extensions]\n# objectformat = sha256\n", SHA1_BYTES),
        ] {
            std::fs::write(folder.path().join("config"), config).expect("the folder is writable");
            assert_eq!(layout.name_bytes(), expected, "{config}");
        }
    }

    #[test]
    fn packed_references_are_read_again_for_another_branch_or_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| {
            let new = folder.path().join("new");
            std::fs::write(&new, text).expect("the folder is writable");
            std::fs::rename(new, folder.path().join(name)).expect("the folder is writable");
        };
        let layout = GitLayout {
            git: folder.path().to_owned(),
            common: folder.path().to_owned(),
            prefix: String::new(),
        };
        let kept = Mutex::default();
        write("HEAD", "ref: refs/heads/main\n");
        assert!(!layout.has_commit(&kept), "there is no list");
        write(PACKED_REFS, "1111 refs/heads/other\n");
        assert!(!layout.has_commit(&kept));
        write("HEAD", "ref: refs/heads/other\n");
        assert!(layout.has_commit(&kept));
        // The same list is not read for the same branch.
        let known = |has_commit| kept.lock().expect("no panic").as_mut().expect("it is kept").has_commit = has_commit;
        known(false);
        assert!(!layout.has_commit(&kept));
        known(true);
        write(PACKED_REFS, "1111 refs/heads/main and another line\n");
        assert!(!layout.has_commit(&kept));
        std::fs::remove_file(folder.path().join(PACKED_REFS)).expect("it is there");
        assert!(!layout.has_commit(&kept));
        assert!(kept.lock().expect("no panic").is_none(), "an absent list is not kept");
    }

    #[test]
    fn numbers_of_variable_length_are_gits() {
        assert_eq!(parse_varint(&[0x05], 0), Some((5, 1)));
        assert_eq!(parse_varint(&[0x80, 0x00], 0), Some((128, 2)));
        assert_eq!(parse_varint(&[0xff, 0x7f], 0), Some((16_511, 2)));
        assert_eq!(parse_varint(&[0x80], 0), None);
        assert_eq!(parse_varint(&[0xff; 30], 0), None);
    }

    #[test]
    fn what_is_no_index_or_lacks_its_other_part_is_not_read() {
        for version in 2..=4 {
            let whole = index(version, &ENTRIES);
            for length in 0..whole.len() - 20 {
                assert_eq!(TrackedPaths::parse(&whole[..length], ""), None, "{version} {length}");
            }
        }
        assert_eq!(TrackedPaths::parse(&index(5, &ENTRIES), ""), None);
        for link in [
            &b"link\0\0\0\0"[..],
            b"link\0\0\0\x14bbbbbbbbbbbbbbbbbbbb",
            b"link\xff\xff\xff\xff",
        ] {
            let mut split = index(2, &[]);
            split.truncate(12);
            split.extend(link);
            assert_eq!(TrackedPaths::parse(&split, ""), None);
        }
        let mut count = index(2, &[]);
        count[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(TrackedPaths::parse(&count, ""), None);
    }
}
