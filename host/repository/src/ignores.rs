//! Applies ignore files: finds those in force in a directory, and matches entries with their rules.
//!
//! The rules are git's (`.gitignore`, `.git/info/exclude`, the user's global file) and those of `.ignore`, which search
//! programs share. Ignore files come from the repository: they are opened without blocking and without following links,
//! and can only leave entries out. `ignore_files` reads them within a budget. If an ignore file below the root is over
//! a budget, its whole folder is left out, so that no budget reveals an ignored file.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::Gitignore;
use rustix::fs::{Mode, OFlags};

use super::fingerprint::IGNORE_FILES;
use super::foreign;
use super::ignore_files::{IgnoreOwner, IgnoreReader, ReadIgnores};
use super::path;
use super::root::is_work_tree;
use super::user_excludes::UserExcludes;

/// The directories above the root that belong to its work tree, from the inside outwards.
fn directories_above(root: &Path) -> Vec<&Path> {
    let above = || root.ancestors().skip(1);
    match above()
        .find(|directory| is_work_tree(directory))
        .filter(|_| !is_work_tree(root))
    {
        Some(top) => above().take_while(|directory| directory.starts_with(top)).collect(),
        None => Vec::new(),
    }
}

/// Which rules leave an entry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoredBy {
    /// `.ignore`, whose rules also apply to tracked files; or a folder whose rules could not be applied.
    Search,
    /// Git's rules, which do not apply to a file that git tracks.
    Git,
}

/// The ignore files in force in one directory, as a list from this directory outwards.
#[derive(Debug)]
pub(super) struct Ignores {
    outer: Option<Arc<Ignores>>,
    /// Number of directories with rules, from here outwards.
    levels: usize,
    /// Bytes of the directory's path with the separator after it: they are cut off for a relative path.
    prefix: usize,
    /// For a directory above the root: the path from it to the root, ending in `/`.
    above: String,
    search: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    /// True for the top directory of a work tree: git rules from further out do not apply beneath it.
    is_work_tree: bool,
    /// Owner of the ignore files of this directory.
    owner: IgnoreOwner,
    /// True if an ignore file of this directory could not be applied: everything beneath it is left out.
    is_left_out: bool,
}

impl Ignores {
    /// The rules for the root: the user's global file and, inside a git work tree, the files of the directories above
    /// the root.
    pub(super) fn at_root(root: &Path, reader: &IgnoreReader<'_>) -> Arc<Self> {
        let mut ignores = Arc::new(Self::read_global(root, reader));
        for directory in directories_above(root).into_iter().rev() {
            ignores = Arc::new(Self::read_above(ignores, directory, root, reader));
        }
        ignores
    }

    /// Files outside the root on which [`Self::at_root`] depends.
    pub(super) fn files_outside(root: &Path) -> Vec<PathBuf> {
        let above = directories_above(root).into_iter();
        let above = above.flat_map(|directory| IGNORE_FILES.map(|name| directory.join(name)));
        let users = UserExcludes::find(root).into_iter().flat_map(UserExcludes::files);
        users.chain(above).collect()
    }

    fn empty() -> Self {
        Self {
            outer: None,
            levels: 0,
            prefix: 0,
            above: String::new(),
            search: Gitignore::empty(),
            git: Gitignore::empty(),
            exclude: Gitignore::empty(),
            is_work_tree: false,
            owner: IgnoreOwner::Root,
            is_left_out: false,
        }
    }

    /// The user's global excludes, which apply everywhere and are the outermost of the excludes.
    fn read_global(root: &Path, reader: &IgnoreReader<'_>) -> Self {
        let opened = UserExcludes::find(root).and_then(|excludes| excludes.open());
        let read = opened.map(|(file, name)| reader.read(file, 0, IgnoreOwner::Root, || name.clone()));
        Self {
            exclude: read.unwrap_or_else(ReadIgnores::none).rules,
            ..Self::empty()
        }
    }

    /// The rules of a directory above the root, in the root's work tree.
    fn read_above(outer: Arc<Self>, directory: &Path, root: &Path, reader: &IgnoreReader<'_>) -> Self {
        let rest = root
            .strip_prefix(directory)
            .ok()
            .and_then(Path::to_str)
            .unwrap_or_default();
        let opened = rustix::fs::open(directory, READ | OFlags::DIRECTORY, Mode::empty());
        let place = vec![".."; rest.split('/').count()].join("/");
        let files = opened.map_or_else(
            |_| Self::empty(),
            |handle| {
                let owner = IgnoreOwner::Root;
                Self::read_directory(handle, is_work_tree(directory), owner, outer.levels, &place, reader)
            },
        );
        Self {
            levels: outer.levels + usize::from(files.has_rules()),
            outer: Some(outer),
            above: format!("{rest}/"),
            ..files
        }
    }

    /// The rules in the directory `path`, given those of the directory above. `has` says whether the directory has an
    /// entry, so that only existing files are opened.
    pub(super) fn enter(
        outer: &Arc<Self>,
        handle: impl AsFd,
        path: &str,
        has: impl Fn(&str) -> bool,
        reader: &IgnoreReader<'_>,
    ) -> Arc<Self> {
        let is_work_tree = has(".git");
        if outer.is_left_out || (!is_work_tree && !has(".gitignore") && !has(".ignore")) {
            return Arc::clone(outer);
        }
        let owner = outer.owner_of(path, is_work_tree);
        let files = Self::read_directory(handle, is_work_tree, owner, outer.levels, path, reader);
        if !is_work_tree && !files.is_left_out && !files.has_rules() {
            return Arc::clone(outer);
        }
        Arc::new(Self {
            levels: outer.levels + usize::from(files.has_rules()),
            outer: Some(Arc::clone(outer)),
            prefix: if path.is_empty() { 0 } else { path.len() + 1 },
            ..files
        })
    }

    /// Owner of the ignore files in the directory `path`, which is inside the directory of these rules.
    fn owner_of(&self, path: &str, is_work_tree: bool) -> IgnoreOwner {
        let is_foreign = || {
            let is_in_packages = foreign::find_directory(&format!("{path}/")).is_some();
            self.owner == IgnoreOwner::Foreign || is_work_tree || is_in_packages
        };
        if path.is_empty() {
            IgnoreOwner::Root
        } else if is_foreign() {
            IgnoreOwner::Foreign
        } else {
            IgnoreOwner::User
        }
    }

    /// Reads the ignore files of the directory `path`. `levels` is the number of directories with rules above it.
    fn read_directory(
        handle: impl AsFd,
        is_work_tree: bool,
        owner: IgnoreOwner,
        levels: usize,
        path: &str,
        reader: &IgnoreReader<'_>,
    ) -> Self {
        let read = |name: &str| {
            let file = rustix::fs::openat(handle.as_fd(), name, READ | OFlags::NOFOLLOW, Mode::empty());
            let read = file.map(|file| reader.read(file, levels, owner, || path::join_path(path, name)));
            read.unwrap_or_else(|_| ReadIgnores::none())
        };
        let (search, git) = (read(".ignore"), read(".gitignore"));
        let exclude = if is_work_tree {
            read(".git/info/exclude")
        } else {
            ReadIgnores::none()
        };
        let is_whole = search.is_whole && git.is_whole && exclude.is_whole;
        Self {
            search: search.rules,
            git: git.rules,
            exclude: exclude.rules,
            is_work_tree,
            owner,
            is_left_out: !is_whole && owner != IgnoreOwner::Root,
            ..Self::empty()
        }
    }

    fn has_rules(&self) -> bool {
        [&self.search, &self.git, &self.exclude]
            .iter()
            .any(|rules| !rules.is_empty())
    }

    /// Returns the rules for the root, without a `.gitignore` that was meant for another root.
    ///
    /// Outside a work tree, a `.gitignore` may ignore everything in the root except names that do not exist. Packagers
    /// write such a file for a repository of their own files, and ship it with the sources. `entries` are those of the
    /// root.
    pub(super) fn meant_for<'a>(
        self: Arc<Self>,
        entries: impl Iterator<Item = (&'a str, bool)>,
        reader: &IgnoreReader<'_>,
    ) -> Arc<Self> {
        let is_odd = !self.is_work_tree && self.git.num_ignores() > 0 && self.git.num_whitelists() > 0;
        let mut entries = entries;
        if !is_odd || self.outer.as_ref().is_some_and(|outer| outer.is_in_work_tree()) {
            return self;
        }
        let is_kept = |name, is_directory| self.ask(&self.git, name, is_directory) != Some(true);
        if entries.any(|(name, is_directory)| reader.is_over() || is_kept(name, is_directory)) {
            return self;
        }
        Arc::new(Self {
            outer: self.outer.clone(),
            levels: self.levels,
            prefix: 0,
            search: self.search.clone(),
            ..Self::empty()
        })
    }

    /// True if this directory, or one outwards, is the top of a work tree.
    fn is_in_work_tree(&self) -> bool {
        self.is_work_tree || self.outer.as_ref().is_some_and(|outer| outer.is_in_work_tree())
    }

    /// Which rules leave an entry out, if any. `path` is normal, and no directory above it is left out.
    pub(super) fn ignored_by(&self, path: &str, is_directory: bool) -> Option<IgnoredBy> {
        if self.is_left_out {
            return Some(IgnoredBy::Search);
        }
        let mut git = None;
        let mut exclude = None;
        let mut beyond_work_tree = false;
        let mut level = Some(self);
        while let Some(here) = level {
            if let Some(answer) = here.ask(&here.search, path, is_directory) {
                return answer.then_some(IgnoredBy::Search);
            }
            // The outermost level holds the user's global file, which applies in every work tree.
            if !beyond_work_tree {
                git = git.or_else(|| here.ask(&here.git, path, is_directory));
            }
            if !beyond_work_tree || here.outer.is_none() {
                exclude = exclude.or_else(|| here.ask(&here.exclude, path, is_directory));
            }
            beyond_work_tree |= here.is_work_tree;
            level = here.outer.as_deref();
        }
        git.or(exclude).unwrap_or(false).then_some(IgnoredBy::Git)
    }

    fn ask(&self, rules: &Gitignore, path: &str, is_directory: bool) -> Option<bool> {
        if rules.is_empty() {
            return None;
        }
        let answer = if self.above.is_empty() {
            rules.matched(&path[self.prefix..], is_directory)
        } else {
            rules.matched(path::join_path(self.above.trim_end_matches('/'), path), is_directory)
        };
        match answer {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

/// Links are not followed: git does not follow them either, and one could lead to `/dev/zero`, which has no end.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);
