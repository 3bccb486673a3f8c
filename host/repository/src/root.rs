//! Chooses a root: the directory that the user means, without directories that are refused.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::rules::{PatternError, Rules};
use super::{Options, RepositoryError};

/// The nearest git work tree at `start` or above it, otherwise `start` itself.
///
/// A work tree is a directory with a `.git` directory that has a `HEAD`, or with a `.git` file (a linked work tree or a
/// submodule). One above `start` counts only if its `.git` belongs to the user, to root, or to the owner of `start`:
/// another user who can write there could otherwise put everything below it into a repository of their own.
pub fn find_root(start: &Path) -> PathBuf {
    let start = std::path::absolute(start).unwrap_or_else(|_| start.to_owned());
    let start = start.canonicalize().unwrap_or(start);
    let user = rustix::process::geteuid().as_raw();
    let of_start = read_owner(&start);
    let is_trusted = |directory: &Path| {
        // The user named this folder, so its `.git` counts, even if another user owns it.
        directory == start
            || read_owner(&directory.join(".git")).is_some_and(|owner| is_trusted_owner(owner, of_start, user))
    };
    start
        .ancestors()
        .find(|directory| is_work_tree(directory) && is_trusted(directory))
        .map_or_else(|| start.clone(), Path::to_path_buf)
}

/// True if a `.git` of this owner may contain a folder of that owner, for this user.
pub(super) fn is_trusted_owner(owner: u32, of_start: Option<u32>, user: u32) -> bool {
    owner == user || owner == 0 || Some(owner) == of_start
}

/// Owner of a path; of a link, the link's own.
pub(super) fn read_owner(path: &Path) -> Option<u32> {
    path.symlink_metadata().ok().map(|metadata| metadata.uid())
}

/// True if `directory` has a `.git` that git would use.
pub(super) fn is_work_tree(directory: &Path) -> bool {
    let git = directory.join(".git");
    git.join("HEAD").symlink_metadata().is_ok() || git.is_file()
}

/// Opens `root`, or refuses it.
///
/// # Errors
///
/// The root cannot be opened, or no operation should run on it.
pub(super) fn open_root(root: &Path, options: &Options) -> Result<(PathBuf, OwnedFd), RepositoryError> {
    let failed = |source| RepositoryError::Open {
        root: root.to_owned(),
        source,
    };
    let canonical = root.canonicalize().map_err(failed)?;
    if canonical.to_str().is_none() {
        return Err(RepositoryError::NotUtf8 { root: canonical });
    }
    refuse_root(&canonical, options)?;
    // A canonical path does not end in a link; if it does now, it was replaced after the checks above.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(&canonical, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    if super::open::is_git_directory(&handle, ".") {
        return Err(RepositoryError::Hidden {
            root: canonical,
            reason: "is a git directory",
        });
    }
    Ok((canonical, handle))
}

/// Refuses roots by their names.
fn refuse_root(root: &Path, options: &Options) -> Result<(), RepositoryError> {
    let root_buf = || root.to_owned();
    if root.parent().is_none() {
        return Err(RepositoryError::WholeMachine);
    }
    if let Some(system) = system_directory(root) {
        let root = root_buf();
        return Err(RepositoryError::System { root, system });
    }
    let state = options.state_directory.as_deref().map(canonical_path);
    if state.as_deref().is_some_and(|state| root.starts_with(state)) {
        return Err(RepositoryError::StateDirectory { root: root_buf() });
    }
    let home = options
        .home
        .clone()
        .or_else(std::env::home_dir)
        .map(|home| canonical_path(&home));
    if !options.home_confirmed && home.is_some_and(|home| home.starts_with(root)) {
        return Err(RepositoryError::Home { root: root_buf() });
    }
    match hidden_component(root) {
        Some(reason) => Err(RepositoryError::Hidden {
            root: root_buf(),
            reason,
        }),
        None => Ok(()),
    }
}

/// Directories of the system that hold no project, at any depth.
const SYSTEM_TREES: [&str; 10] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/boot",
    "/run",
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
];

/// Directories of the system that are not projects themselves, but may contain one: `/usr/src/app`, `/var/www/site`,
/// `/tmp/checkout`.
const SYSTEM_DIRECTORIES: [&str; 13] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/libexec",
    "/var",
    "/var/tmp",
    "/tmp",
];

/// Exceptions below these trees: shared memory, in which CI runners put checkouts, and disks that a user has mounted.
const PLACES_OF_PROJECTS: [&str; 2] = ["/dev/shm", "/run/media"];

/// The directory of the system that the root is or is in.
pub fn system_directory(root: &Path) -> Option<&'static str> {
    if PLACES_OF_PROJECTS
        .iter()
        .any(|place| root.starts_with(place) && root != Path::new(place))
    {
        return None;
    }
    let tree = SYSTEM_TREES.into_iter().find(|tree| root.starts_with(tree));
    tree.or_else(|| SYSTEM_DIRECTORIES.into_iter().find(|itself| root == Path::new(itself)))
}

/// Reason why the root itself is in a hidden directory: files in `~/.ssh` stay hidden if `~/.ssh` is the root.
fn hidden_component(root: &Path) -> Option<&'static str> {
    let path: PathBuf = root
        .components()
        .skip_while(|part| *part == Component::RootDir)
        .collect();
    Rules::default().hidden(path.to_str()?, true)
}

/// The real path; for a path that does not exist, its absolute form.
pub(super) fn canonical_path(path: &Path) -> PathBuf {
    path.canonicalize()
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

impl From<PatternError> for RepositoryError {
    fn from(error: PatternError) -> Self {
        Self::Pattern(error)
    }
}
