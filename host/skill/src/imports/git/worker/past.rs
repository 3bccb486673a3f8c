//! The helper's side of reading many commits: messages, times and changed paths, without patches.
//!
//! Trees are compared here and not by libgit2, so that a commit of a hundred thousand paths ends as soon as it is known
//! that it does not count.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use git2::{Commit, ObjectType, Oid, Tree};

use super::history::CommitWalk;
use super::{Git, git_failure, id};
use crate::imports::git::talk::{Id, PastBounds, PastPage, PastRecord, PastStep};
use tool_boundary::bindings::tool::skill::types::Failure;
use tool_core::text::beginning;

/// Time after which a page ends early.
const PAGE_TIME: Duration = Duration::from_secs(2);

/// Bytes of messages and paths after which a page ends early.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Entries of trees that are compared for one commit: several versions of a very large directory.
const ENTRIES_MAX: usize = 400_000;

/// Folders within folders that are looked into.
const DEPTH_MAX: usize = 64;

/// A walk through the ancestors of a commit that leaves out what the caller knows.
pub(super) struct PastWalk<'a> {
    git: &'a Git,
    walk: CommitWalk<'a>,
    known: HashSet<Oid>,
    bounds: PastBounds,
}

impl<'a> PastWalk<'a> {
    /// `known` are names of commits, 20 bytes each.
    pub(super) fn begin(git: &'a Git, from: &Id, known: &[u8], bounds: PastBounds) -> Result<Self, Failure> {
        let known = known.chunks_exact(20).map(Oid::from_bytes).collect::<Result<_, _>>();
        Ok(Self {
            git,
            walk: CommitWalk::begin(git, from, 0, &[])?,
            known: known.map_err(|error| git_failure(&error))?,
            bounds,
        })
    }

    /// The next commits. Where an object is missing, as in a partial clone, the walk ends.
    pub(super) fn read(&mut self, commits_max: usize) -> Result<PastPage, Failure> {
        let began = Instant::now();
        let mut page = PastPage {
            steps: Vec::new(),
            is_end: false,
        };
        let mut bytes = 0;
        while page.steps.len() < commits_max && bytes < PAGE_BYTES_MAX && began.elapsed() < PAGE_TIME {
            let Ok(Some(commit)) = self.walk.step() else {
                page.is_end = true;
                break;
            };
            if self.known.contains(&commit.id()) {
                page.steps.push(PastStep::Known(id(commit.id())?));
                continue;
            }
            let record = self.record(&commit)?;
            let paths = record
                .changed
                .iter()
                .chain(record.renamed.iter().flat_map(|(from, to)| [from, to]));
            bytes += record.message.len() + paths.map(String::len).sum::<usize>();
            page.steps.push(PastStep::Read(record));
        }
        Ok(page)
    }

    fn record(&self, commit: &Commit<'_>) -> Result<PastRecord, Failure> {
        let message = commit.message_bytes();
        let message = String::from_utf8_lossy(&message[..message.len().min(self.bounds.message_bytes_max)]);
        // A commit without its parent, as at the border of a shallow clone, only seems to bring every file.
        let changes = match commit.parents().next().filter(|_| commit.parent_count() == 1) {
            Some(parent) => self.changes(&parent, commit).unwrap_or_default(),
            None => PathChanges::default(),
        };
        let (changed, renamed) = changes.finish(&self.bounds);
        Ok(PastRecord {
            id: id(commit.id())?,
            seconds: commit.time().seconds(),
            message: beginning(&message, self.bounds.message_bytes_max).to_owned(),
            changed,
            renamed,
        })
    }

    /// The changed paths below our root; nothing where there are too many, or where an object is missing.
    fn changes(&self, parent: &Commit<'_>, commit: &Commit<'_>) -> Option<PathChanges> {
        let (before, after) = (self.tree(parent)?, self.tree(commit)?);
        let mut comparison = Comparison {
            git: self.git,
            changes: PathChanges::default(),
            entries_left: ENTRIES_MAX,
            paths_max: 2 * self.bounds.renames_max,
        };
        comparison.compare(before.as_ref(), after.as_ref(), "", 0)?;
        Some(comparison.changes)
    }

    /// The tree at our root in a commit; the inner one is absent where the commit has no such folder.
    fn tree<'c>(&'c self, commit: &Commit<'c>) -> Option<Option<Tree<'c>>> {
        let mut tree = commit.tree().ok()?;
        for part in self.git.prefix.split('/').filter(|part| !part.is_empty()) {
            let found = tree.get_name(part).map(|entry| entry.id());
            tree = match found {
                Some(id) => self.git.repository.find_tree(id).ok()?,
                None => return Some(None),
            };
        }
        Some(Some(tree))
    }
}

/// Paths that differ between two trees.
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

    /// The changed paths, unless there are too many, and the pairs of a removed and an added file with one content.
    fn finish(self, bounds: &PastBounds) -> (Vec<String>, Vec<(String, String)>) {
        let mut by_content: HashMap<Oid, Vec<&str>> = HashMap::new();
        for (path, content) in &self.removed {
            by_content.entry(*content).or_default().push(path);
        }
        let mut renamed = Vec::new();
        for (path, content) in &self.added {
            let Some(old) = by_content.get_mut(content).filter(|old| !old.is_empty()) else {
                continue;
            };
            // Of several files with one content, the one of the same name.
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

/// A comparison of two trees under way.
struct Comparison<'a> {
    git: &'a Git,
    changes: PathChanges,
    entries_left: usize,
    paths_max: usize,
}

/// An entry of a tree that counts: a file or a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TreeItem {
    content: Oid,
    is_folder: bool,
}

impl<'a> Comparison<'a> {
    /// Adds what differs below a folder; nothing where a bound is reached.
    fn compare(
        &mut self,
        before: Option<&Tree<'_>>,
        after: Option<&Tree<'_>>,
        folder: &str,
        depth: usize,
    ) -> Option<()> {
        if depth > DEPTH_MAX || before.map(Tree::id) == after.map(Tree::id) {
            return (depth <= DEPTH_MAX).then_some(());
        }
        let (mut old, new) = (self.items(before)?, self.items(after)?);
        for (name, item) in new {
            let path = join(folder, &name);
            match old.remove(&name) {
                Some(same) if same == item => {}
                Some(other) if other.is_folder && item.is_folder => {
                    let (before, after) = (self.folder(other)?, self.folder(item)?);
                    self.compare(Some(&before), Some(&after), &path, depth + 1)?;
                }
                Some(other) if !other.is_folder && !item.is_folder => self.changes.modified.push(path),
                other => {
                    if let Some(other) = other {
                        self.add(other, &path, depth, false)?;
                    }
                    self.add(item, &path, depth, true)?;
                }
            }
            self.check()?;
        }
        for (name, item) in old {
            self.add(item, &join(folder, &name), depth, false)?;
            self.check()?;
        }
        Some(())
    }

    /// Adds an entry that only one side has.
    fn add(&mut self, item: TreeItem, path: &str, depth: usize, is_new: bool) -> Option<()> {
        if item.is_folder {
            let tree = self.folder(item)?;
            return if is_new {
                self.compare(None, Some(&tree), path, depth + 1)
            } else {
                self.compare(Some(&tree), None, path, depth + 1)
            };
        }
        let list = if is_new {
            &mut self.changes.added
        } else {
            &mut self.changes.removed
        };
        list.push((path.to_owned(), item.content));
        Some(())
    }

    fn check(&self) -> Option<()> {
        (self.changes.len() <= self.paths_max).then_some(())
    }

    fn folder(&self, item: TreeItem) -> Option<Tree<'a>> {
        let git: &'a Git = self.git;
        git.repository.find_tree(item.content).ok()
    }

    /// Files and folders of a tree by their names. Other repositories and names that are not UTF-8 are left out.
    fn items(&mut self, tree: Option<&Tree<'_>>) -> Option<HashMap<String, TreeItem>> {
        let Some(tree) = tree else { return Some(HashMap::new()) };
        self.entries_left = self.entries_left.checked_sub(tree.len())?;
        let item = |entry: git2::TreeEntry<'_>| {
            let is_folder = match entry.kind()? {
                ObjectType::Tree => true,
                ObjectType::Blob => false,
                _ => return None,
            };
            let name = std::str::from_utf8(entry.name_bytes()).ok()?.to_owned();
            let content = entry.id();
            Some((name, TreeItem { content, is_folder }))
        };
        Some(tree.iter().filter_map(item).collect())
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
