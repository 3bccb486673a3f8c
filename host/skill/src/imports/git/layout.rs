//! Finds the git directory of a work tree without libgit2. The daemon reads only a few short files.
//!
//! A git directory inside the work tree belongs to it. One elsewhere is read if it proves that it belongs to the work
//! tree: the git directory of a linked worktree or a submodule names the tree in a file that only its owner writes.
//! Any other directory, and object folders elsewhere, are used only after the user has approved exactly these paths.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::format::RepositoryFormat;
use crate::limits;
use tool_boundary::Failure;
use tool_repository::git_file::open_file;

/// A file of a few lines in a git directory: `HEAD`, `commondir`, a branch. Paths are not longer.
pub(crate) const GIT_LINE_FILE_BYTES_MAX: u64 = 16 * 1024;

/// Object directories that a repository may borrow from, directly and through each other.
const GIT_ALTERNATES_MAX: usize = 32;

/// Real paths of the git data of one work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::imports) struct GitDirectories {
    /// Nearest folder with a `.git`, from the session's root upwards.
    pub(in crate::imports) top: PathBuf,
    /// True if `.git` is a directory.
    pub(in crate::imports) is_directory: bool,
    /// Folder of `HEAD` and the index.
    pub(in crate::imports) git: PathBuf,
    /// Folder of objects, branches and configuration.
    pub(in crate::imports) common: PathBuf,
    /// Format of the repository.
    pub(in crate::imports) format: RepositoryFormat,
    /// Object folders of other repositories that this one borrows from.
    pub(in crate::imports) alternates: Vec<PathBuf>,
    /// True if `.git` is a file, and git directory and work tree name each other.
    is_linked: bool,
}

impl GitDirectories {
    /// Finds the git directory whose work tree contains `root`, a real path.
    pub(in crate::imports) fn find(root: &Path) -> Result<Self, Failure> {
        Self::from_link(find_nearest(root)?)
    }

    /// Finds the git directory of the work tree at exactly `place`, which must not be a link.
    pub(in crate::imports) fn exactly_at(place: &Path) -> Result<Self, Failure> {
        let found = find_nearest(place)?;
        if found.0 != place || !is_same(place, place) {
            return Err(not_a_repository());
        }
        Self::from_link(found)
    }

    fn from_link((top, link, metadata): (PathBuf, PathBuf, Metadata)) -> Result<Self, Failure> {
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(foreign_failure(&link, "it is neither a directory nor a file"));
        }
        let (git, common) = if metadata.is_dir() {
            own_directory(&link)?
        } else {
            linked_directory(&top, &link)?
        };
        check_plain(&git)?;
        check_plain(&common)?;
        check_branch(&git, &common)?;
        let alternates = read_alternates(&common.join("objects"))?;
        Ok(Self {
            is_linked: metadata.is_file() && is_linked(&top, &link, &git, &common),
            top,
            is_directory: metadata.is_dir(),
            format: RepositoryFormat::read_config(&common),
            git,
            common,
            alternates,
        })
    }

    /// Path for messages: relative to the work tree if it is inside.
    pub(in crate::imports) fn shown<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.top).unwrap_or(path)
    }

    /// Directories outside the work tree that do not prove that they belong to it.
    pub(in crate::imports) fn elsewhere(&self) -> BTreeSet<PathBuf> {
        let own = [&self.git, &self.common].into_iter().filter(|_| !self.is_linked);
        let places = own.chain(&self.alternates);
        places.filter(|place| !place.starts_with(&self.top)).cloned().collect()
    }

    /// True if the user has to approve directories before they are read.
    pub(in crate::imports) fn is_strange(&self) -> bool {
        !self.elsewhere().is_empty()
    }

    /// The git directory that a commit writes to, if it belongs to the work tree and is outside of it.
    pub(in crate::imports) fn linked(&self) -> Option<&Path> {
        (self.is_linked && !self.common.starts_with(&self.top)).then_some(self.common.as_path())
    }

    /// Directories that a helper may read.
    pub(super) fn readable(&self) -> Vec<PathBuf> {
        let places = [&self.top, &self.git, &self.common].into_iter();
        places.chain(&self.alternates).cloned().collect()
    }
}

fn find_nearest(root: &Path) -> Result<(PathBuf, PathBuf, Metadata), Failure> {
    for directory in root.ancestors() {
        let path = directory.join(".git");
        if let Ok(metadata) = path.symlink_metadata() {
            return Ok((directory.to_owned(), path, metadata));
        }
    }
    Err(not_a_repository())
}

pub(super) fn not_a_repository() -> Failure {
    Failure::unavailable("This is not a git repository.").with_hint("run `git init`, or work without git")
}

pub(super) fn foreign_failure(path: &Path, why: &str) -> Failure {
    Failure::unavailable(format!("The git directory is not used: `{}`: {why}.", path.display()))
        .with_hint("a git directory is used only where it belongs to the repository's own work tree")
}

/// A directory must not name another common directory.
fn own_directory(link: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    if link.join("commondir").symlink_metadata().is_ok() {
        return Err(foreign_failure(link, "it borrows from another repository"));
    }
    Ok((link.to_owned(), link.to_owned()))
}

/// A file must name a git directory that names the work tree in turn.
fn linked_directory(top: &Path, link: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let line = first_line(link).unwrap_or_default();
    let target = line.strip_prefix("gitdir:").map(str::trim).unwrap_or_default();
    if target.is_empty() {
        return Err(foreign_failure(link, "it does not say where the git directory is"));
    }
    let absent = |_| foreign_failure(link, "it leads to nothing");
    let git = top.join(target).canonicalize().map_err(absent)?;
    let common = match first_line(&git.join("commondir")) {
        Some(line) => git.join(line.trim()).canonicalize().map_err(absent)?,
        None => git.clone(),
    };
    if !leads_back(top, &git) {
        return Err(foreign_failure(&git, "`.git` leads to it, but it does not lead back"));
    }
    Ok((git, common))
}

/// True if a worktree's record or a submodule's configuration names the work tree. The helper compares this with
/// libgit2's result.
fn leads_back(top: &Path, git: &Path) -> bool {
    if let Some(line) = first_line(&git.join("gitdir")) {
        let link = git.join(line.trim());
        return link.parent().is_some_and(|folder| is_same(folder, top));
    }
    let text = read_regular_file(&git.join("config"), limits::GIT_CONFIG_BYTES_MAX).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().any(|line| {
        let value = line
            .split_once('=')
            .filter(|(key, _)| key.trim().eq_ignore_ascii_case("worktree"));
        value.is_some_and(|(_, value)| is_same(&git.join(value.trim().trim_matches('"')), top))
    })
}

/// True if the work tree and the git directory really belong together. An unpacked archive can contain a record that
/// claims another repository. So the record of a linked worktree must be in that repository, a submodule's git
/// directory must be complete, and all of them must belong to this user.
fn is_linked(top: &Path, link: &Path, git: &Path, common: &Path) -> bool {
    let is_recorded = match first_line(&git.join("gitdir")) {
        Some(line) => {
            git.parent() == Some(&common.join("worktrees"))
                && Path::new(line.trim()).file_name().is_some_and(|name| name == ".git")
        }
        None => git == common,
    };
    let user = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.uid() == user);
    is_recorded && [top, link, git, common].into_iter().all(is_own)
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|real| real == other)
}

/// The files that define a git directory must be regular files: a link could borrow those of another repository.
fn check_plain(directory: &Path) -> Result<(), Failure> {
    const FILES: [&str; 12] = [
        "HEAD",
        "config",
        "config.worktree",
        "commondir",
        "gitdir",
        "index",
        "packed-refs",
        "shallow",
        "info/exclude",
        "info/attributes",
        "objects/info/alternates",
        "reftable/tables.list",
    ];
    for name in FILES {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(foreign_failure(&path, "it is not a regular file"));
        }
    }
    for name in ["objects", "refs", "reftable", "logs", "info"] {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()) {
            return Err(foreign_failure(&path, "it is not a directory"));
        }
    }
    Ok(())
}

/// The branch must be a regular file, not a link into another repository.
fn check_branch(git: &Path, common: &Path) -> Result<(), Failure> {
    let line = first_line(&git.join("HEAD")).unwrap_or_default();
    let Some(name) = line.strip_prefix("ref:").map(str::trim) else {
        return Ok(());
    };
    let file = common.join(name);
    match file.canonicalize() {
        Ok(real) if !real.starts_with(common) => return Err(foreign_failure(&file, "it leads to another repository")),
        Ok(real) if !real.is_file() => return Err(foreign_failure(&file, "it is not a regular file")),
        _ => {}
    }
    Ok(())
}

/// Collects the object folders that `objects` borrows from, directly and indirectly.
fn read_alternates(objects: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut todo = vec![objects.to_owned()];
    while let Some(folder) = todo.pop() {
        let list = read_regular_file(&folder.join("info/alternates"), limits::GIT_CONFIG_BYTES_MAX).unwrap_or_default();
        for line in String::from_utf8_lossy(&list).lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // A missing folder provides no objects.
            let Ok(real) = folder.join(line).canonicalize() else {
                continue;
            };
            if found.contains(&real) || real == objects {
                continue;
            }
            if found.len() >= GIT_ALTERNATES_MAX {
                return Err(foreign_failure(objects, "it borrows objects from too many places"));
            }
            found.push(real.clone());
            todo.push(real);
        }
    }
    Ok(found)
}

fn first_line(path: &Path) -> Option<String> {
    let text = read_regular_file(path, GIT_LINE_FILE_BYTES_MAX)?;
    Some(
        String::from_utf8_lossy(&text)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
    )
}

/// Reads a short regular file. Does not follow a link, or wait for a FIFO.
pub(super) fn read_regular_file(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open_regular_file(path)?.take(bytes_max).read_to_end(&mut bytes);
    read.ok().map(|_| bytes)
}

/// Opens a regular file. Does not follow a link, or wait for a FIFO.
pub(super) fn open_regular_file(path: &Path) -> Option<File> {
    open_file(path).map(|(file, _)| file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn list(lines: &str) -> (tempfile::TempDir, Result<Vec<PathBuf>, Failure>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for number in 0..GIT_ALTERNATES_MAX + 1 {
            fs::create_dir(folder.path().join(number.to_string())).expect("the folder is writable");
        }
        let objects = folder.path().join("objects");
        fs::create_dir_all(objects.join("info")).expect("the folder is writable");
        fs::write(objects.join("info/alternates"), lines).expect("the folder is writable");
        let found = read_alternates(&objects);
        (folder, found)
    }

    #[test]
    fn places_that_objects_are_borrowed_from_are_few() {
        let lines = |count: usize| (0..count).map(|number| format!("../{number}\n")).collect::<String>();
        assert_eq!(
            list(&lines(GIT_ALTERNATES_MAX)).1.map(|found| found.len()).ok(),
            Some(GIT_ALTERNATES_MAX)
        );
        let refused = list(&lines(GIT_ALTERNATES_MAX + 1)).1.expect_err("they are too many");
        assert!(refused.message.contains("too many places"), "{}", refused.message);
    }

    #[test]
    fn of_short_files_a_bounded_part_is_read() {
        let bound = usize::try_from(limits::GIT_CONFIG_BYTES_MAX).expect("it is small");
        let late = format!("#{}\n../0\n", "x".repeat(bound));
        assert_eq!(
            list(&late).1.map(|found| found.len()).ok(),
            Some(0),
            "it stands beyond what is read"
        );
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("HEAD");
        let bound = usize::try_from(GIT_LINE_FILE_BYTES_MAX).expect("it is small");
        fs::write(&place, "x".repeat(2 * bound)).expect("the folder is writable");
        assert_eq!(first_line(&place).map(|line| line.len()), Some(bound));
    }
}
