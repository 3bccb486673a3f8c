//! The helper's side of reading many commits: messages, times and changed paths, without patches.
//!
//! This module compares trees itself, so that it can stop at a commit of a hundred thousand paths as soon as the
//! limit is reached; libgit2 would compare all of them. Objects that are missing, damaged or very large are skipped:
//! the rest is still a history.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use git2::{Commit, ObjectType, Oid, Tree, TreeEntry};

use super::history::CommitWalk;
use super::{OpenedGit, convert_id, convert_oid, git_failure};
use crate::imports::git::messages::{ObjectId, PastBounds, PastPage, PastRecord, PastStep};
use tool_boundary::Failure;
use tool_core::text::truncate_text;

/// Time after which a page ends early.
const PAGE_TIME: Duration = Duration::from_secs(2);

/// Bytes of messages and paths after which a page ends early.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Limit for a commit with its message, in bytes. libgit2 unpacks objects whole.
const COMMIT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Limit for a tree in bytes: some 400,000 entries.
const TREE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Limit for tree entries that are compared for one commit: several versions of a very large directory.
const ENTRIES_MAX: usize = 400_000;

/// Limit for the depth of folders. Deeper paths are skipped, because the comparison is recursive.
const DEPTH_MAX: usize = 64;

/// A walk through the ancestors of a commit that skips known commits.
pub(super) struct PastWalk<'a> {
    git: &'a OpenedGit,
    walk: CommitWalk<'a>,
    known: HashSet<Oid>,
    bounds: PastBounds,
}

impl<'a> PastWalk<'a> {
    /// `known` are ids of commits, each as long as that of `from`.
    pub(super) fn begin_walk(
        git: &'a OpenedGit,
        from: &ObjectId,
        known: &[u8],
        bounds: PastBounds,
    ) -> Result<Self, Failure> {
        let known = known
            .chunks_exact(from.commit().as_bytes().len())
            .map(Oid::from_bytes)
            .collect::<Result<_, _>>();
        if !git.has_size_within(convert_id(from)?, COMMIT_BYTES_MAX) {
            return Err(Failure::limit("The newest commit is missing or too large."));
        }
        Ok(Self {
            git,
            walk: CommitWalk::begin_walk(git, from, 0, &[])?,
            known: known.map_err(|error| git_failure(&error))?,
            bounds,
        })
    }

    /// Reads the next commits.
    pub(super) fn read(&mut self, commits_max: usize) -> Result<PastPage, Failure> {
        let began = Instant::now();
        let mut page = PastPage {
            steps: Vec::new(),
            is_end: false,
        };
        let mut bytes = 0;
        while page.steps.len() < commits_max && bytes < PAGE_BYTES_MAX && began.elapsed() < PAGE_TIME {
            let Some(commit) = self.walk.step_over_gaps(COMMIT_BYTES_MAX) else {
                page.is_end = true;
                break;
            };
            if self.known.contains(&commit.id()) {
                page.steps.push(PastStep::Known(convert_oid(commit.id())?));
                continue;
            }
            let step = PastStep::Read(self.record(&commit)?);
            bytes += step.bytes();
            page.steps.push(step);
        }
        Ok(page)
    }

    fn record(&self, commit: &Commit<'_>) -> Result<PastRecord, Failure> {
        let message = commit.message_bytes();
        let message = String::from_utf8_lossy(&message[..message.len().min(self.bounds.message_bytes_max)]);
        // Without its parent, as at the border of a shallow clone, a commit seems to add every file.
        let parent = commit.parent_ids().next().filter(|_| commit.parent_count() == 1);
        let parent = parent.filter(|parent| self.git.has_size_within(*parent, COMMIT_BYTES_MAX));
        let parent = parent.and_then(|parent| self.git.repository.find_commit(parent).ok());
        let changes = parent.and_then(|parent| self.changes(&parent, commit));
        let changes = changes.unwrap_or_default();
        let (changed, renamed) = changes.finish(&self.bounds);
        Ok(PastRecord {
            id: convert_oid(commit.id())?,
            seconds: commit.time().seconds(),
            message: truncate_text(&message, self.bounds.message_bytes_max).to_owned(),
            changed,
            renamed,
        })
    }

    /// Changed paths below the session's root; `None` if there are too many, or if an object is missing.
    fn changes(&self, parent: &Commit<'_>, commit: &Commit<'_>) -> Option<PathChanges> {
        let (before, after) = (self.tree(parent)?, self.tree(commit)?);
        let mut comparison = TreeComparison {
            git: self.git,
            changes: PathChanges::default(),
            entries_left: ENTRIES_MAX,
            paths_max: 2 * self.bounds.renames_max,
        };
        comparison.compare(before.as_ref(), after.as_ref(), "", 0)?;
        Some(comparison.changes)
    }

    /// The tree at the session's root in a commit; the inner `Option` is `None` if the commit has no such folder.
    fn tree<'c>(&'c self, commit: &Commit<'c>) -> Option<Option<Tree<'c>>> {
        let mut tree = self.git.small_tree(commit.tree_id())?;
        for part in self.git.prefix.split('/').filter(|part| !part.is_empty()) {
            let found = tree.get_name(part).map(|entry| entry.id());
            tree = match found {
                Some(id) => self.git.small_tree(id)?,
                None => return Some(None),
            };
        }
        Some(Some(tree))
    }
}

/// Changed paths between two trees.
#[derive(Default)]
struct PathChanges {
    modified: Vec<String>,
    added: Vec<(String, Oid)>,
    removed: Vec<(String, Oid)>,
}

impl PathChanges {
    fn len(&self) -> usize {
        self.modified.len() + self.added.len() + self.removed.len()
    }

    /// The changed paths, unless there are too many, and pairs of removed and added files with the same content.
    fn finish(self, bounds: &PastBounds) -> (Vec<String>, Vec<(String, String)>) {
        let mut by_content: HashMap<Oid, Vec<&str>> = HashMap::new();
        for (path, content) in &self.removed {
            by_content.entry(*content).or_default().push(path);
        }
        let mut renamed = Vec::new();
        for (path, content) in &self.added {
            let old = by_content.get_mut(content).filter(|old| !old.is_empty());
            let Some(old) = old.filter(|_| !is_empty_file(*content)) else {
                continue;
            };
            // Of several files with the same content, the one of the same name is the rename.
            let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
            let at = old.iter().position(|old| name(old) == name(path)).unwrap_or(0);
            if renamed.len() < bounds.renames_max {
                renamed.push((old.remove(at).to_owned(), path.clone()));
            }
        }
        let gone: HashSet<&str> = renamed.iter().map(|(from, _)| from.as_str()).collect();
        let left = self.removed.iter().filter(|(path, _)| !gone.contains(path.as_str()));
        let named = self.added.iter().chain(left).map(|(path, _)| path.clone());
        let changed: Vec<String> = self.modified.iter().cloned().chain(named).collect();
        let counts = changed.len() <= bounds.files_max;
        (if counts { changed } else { Vec::new() }, renamed)
    }
}

/// True for the content of an empty file. A removed and an added empty file are not a rename.
fn is_empty_file(content: Oid) -> bool {
    Oid::hash_object_ext(ObjectType::Blob, &[], content.object_format()).is_ok_and(|empty| empty == content)
}

impl OpenedGit {
    /// True for an object whose header is readable and whose size is within the limit.
    pub(super) fn has_size_within(&self, id: Oid, bytes_max: usize) -> bool {
        let header = self.repository.odb().and_then(|objects| objects.read_header(id));
        header.is_ok_and(|(bytes, _)| bytes <= bytes_max)
    }

    fn small_tree(&self, id: Oid) -> Option<Tree<'_>> {
        let is_small = self.has_size_within(id, TREE_BYTES_MAX);
        self.repository.find_tree(id).ok().filter(|_| is_small)
    }
}

/// A comparison of two trees.
struct TreeComparison<'a> {
    git: &'a OpenedGit,
    changes: PathChanges,
    entries_left: usize,
    paths_max: usize,
}

/// A file or a folder in a tree.
struct TreeItem<'t> {
    entry: TreeEntry<'t>,
    is_folder: bool,
}

impl<'t> TreeItem<'t> {
    fn from_entry(entry: TreeEntry<'t>) -> Option<Self> {
        let is_folder = match entry.kind()? {
            ObjectType::Tree => true,
            ObjectType::Blob => false,
            _ => return None,
        };
        Some(Self { entry, is_folder })
    }

    /// Sort key in git's order: the name, with a `/` at the end for a folder.
    fn order(&self) -> impl Iterator<Item = u8> {
        let end = self.is_folder.then_some(b'/');
        self.entry.name_bytes().iter().copied().chain(end)
    }

    /// Path of the entry in its folder; `None` if the name is not UTF-8.
    fn path(&self, folder: &str) -> Option<String> {
        let name = std::str::from_utf8(self.entry.name_bytes()).ok()?;
        Some(if folder.is_empty() {
            name.to_owned()
        } else {
            format!("{folder}/{name}")
        })
    }
}

impl<'a> TreeComparison<'a> {
    /// Adds the differences below a folder; `None` if there are too many. Both trees are in git's order, so that the
    /// equal entries of a large folder are skipped in one pass. In a forged tree without that order, equal entries
    /// may count as changed.
    fn compare(
        &mut self,
        before: Option<&Tree<'_>>,
        after: Option<&Tree<'_>>,
        folder: &str,
        depth: usize,
    ) -> Option<()> {
        if depth > DEPTH_MAX || before.map(Tree::id) == after.map(Tree::id) {
            return Some(());
        }
        let entries = before.map_or(0, Tree::len) + after.map_or(0, Tree::len);
        self.entries_left = self.entries_left.checked_sub(entries)?;
        let (mut old, mut new) = (tree_items(before).peekable(), tree_items(after).peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some(old), Some(new)) => old.order().cmp(new.order()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Some(()),
            };
            let removed = old.next_if(|_| order.is_le());
            let added = new.next_if(|_| order.is_ge());
            match (removed, added) {
                (Some(one), Some(other)) if one.entry.id() == other.entry.id() => {}
                (Some(one), Some(other)) => self.differ(&one, &other, folder, depth)?,
                (Some(one), None) => self.add(&one, folder, depth, false)?,
                (None, Some(other)) => self.add(&other, folder, depth, true)?,
                (None, None) => return Some(()),
            }
            if self.changes.len() > self.paths_max {
                return None;
            }
        }
    }

    /// Adds the differences between two entries of the same name and kind.
    fn differ(&mut self, one: &TreeItem<'_>, other: &TreeItem<'_>, folder: &str, depth: usize) -> Option<()> {
        let Some(path) = one.path(folder) else { return Some(()) };
        if one.is_folder {
            let (before, after) = (
                self.git.small_tree(one.entry.id())?,
                self.git.small_tree(other.entry.id())?,
            );
            return self.compare(Some(&before), Some(&after), &path, depth + 1);
        }
        self.changes.modified.push(path);
        Some(())
    }

    /// Adds an entry that exists on one side only.
    fn add(&mut self, item: &TreeItem<'_>, folder: &str, depth: usize, is_new: bool) -> Option<()> {
        let Some(path) = item.path(folder) else { return Some(()) };
        if item.is_folder {
            let tree = self.git.small_tree(item.entry.id())?;
            return if is_new {
                self.compare(None, Some(&tree), &path, depth + 1)
            } else {
                self.compare(Some(&tree), None, &path, depth + 1)
            };
        }
        let list = if is_new {
            &mut self.changes.added
        } else {
            &mut self.changes.removed
        };
        list.push((path, item.entry.id()));
        Some(())
    }
}

/// Files and folders of a tree, in its order, without nested repositories.
fn tree_items<'t>(tree: Option<&'t Tree<'_>>) -> impl Iterator<Item = TreeItem<'t>> {
    let count = tree.map_or(0, Tree::len);
    let entries = (0..count).filter_map(move |at| tree?.get(at));
    entries.filter_map(TreeItem::from_entry)
}
