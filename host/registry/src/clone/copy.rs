//! Copies the files that git wrote in the sandbox to the disk. They are counted before anything is written, and only
//! data is taken from git's own folder. No program writes to the source any more, and no link in it is followed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{CLONE_BYTES_MAX, CLONE_FILES_MAX, CloneError};

/// Entries of `.git` that hold neither settings nor programs.
const DATA: [&str; 5] = ["HEAD", "packed-refs", "shallow", "objects", "refs"];

const DEPTH_MAX: usize = 512;

/// A tree to copy. Every folder comes before its entries.
pub(super) struct CopyPlan {
    from: PathBuf,
    entries: Vec<(PathBuf, CopiedKind)>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
enum CopiedKind {
    Folder,
    File { is_executable: bool },
    Link,
}

impl CopyPlan {
    fn new(left: &OwnedFd) -> Self {
        Self {
            from: PathBuf::from(format!("/proc/self/fd/{}", left.as_raw_fd())),
            entries: Vec::new(),
            bytes: 0,
        }
    }

    /// Plans the copy of a fetched repository: its objects and references.
    pub(super) fn of_repository(left: &OwnedFd) -> Result<Self, CloneError> {
        let mut plan = Self::new(left);
        plan.add(Path::new(".git"), 0, &|path| {
            let inner = path.strip_prefix(".git").unwrap_or(path);
            let is_data = inner
                .iter()
                .next()
                .is_none_or(|first| DATA.iter().any(|name| first == *name));
            // `objects/info` can name the object folders of other repositories.
            is_data && !inner.starts_with("objects/info")
        })?;
        Ok(plan)
    }

    /// Plans the copy of a work tree with git's index.
    pub(super) fn of_work_tree(left: &OwnedFd) -> Result<Self, CloneError> {
        let mut plan = Self::new(left);
        plan.add_all(Path::new(""), 0, &|path| !path.ends_with(".git"))?;
        let git = plan.from.join(".git");
        match fs::symlink_metadata(&git) {
            Ok(metadata) if metadata.is_dir() => plan.add(Path::new(".git/index"), 1, &|_| true)?,
            _ => return Err(folder_error(&git, io::Error::other("it is no folder"))),
        }
        Ok(plan)
    }

    fn add_all(&mut self, folder: &Path, depth: usize, is_wanted: &dyn Fn(&Path) -> bool) -> Result<(), CloneError> {
        let place = self.from.join(folder);
        for entry in fs::read_dir(&place).map_err(|source| folder_error(&place, source))? {
            let entry = entry.map_err(|source| folder_error(&place, source))?;
            self.add(&folder.join(entry.file_name()), depth, is_wanted)?;
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, depth: usize, is_wanted: &dyn Fn(&Path) -> bool) -> Result<(), CloneError> {
        if !is_wanted(path) {
            return Ok(());
        }
        let place = self.from.join(path);
        let metadata = fs::symlink_metadata(&place).map_err(|source| folder_error(&place, source))?;
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => CopiedKind::Folder,
            kind if kind.is_symlink() && !path.starts_with(".git") => CopiedKind::Link,
            kind if kind.is_file() => CopiedKind::File {
                is_executable: metadata.permissions().mode() & 0o100 != 0,
            },
            _ => return Err(folder_error(path, io::Error::other("it may not be in a repository"))),
        };
        self.entries.push((path.to_owned(), kind));
        self.bytes = self.bytes.saturating_add(metadata.len());
        if self.entries.len() > CLONE_FILES_MAX || self.bytes > CLONE_BYTES_MAX || depth > DEPTH_MAX {
            return Err(CloneError::too_large());
        }
        match kind {
            CopiedKind::Folder => self.add_all(path, depth + 1, is_wanted),
            CopiedKind::File { .. } | CopiedKind::Link => Ok(()),
        }
    }

    /// Writes the copy into the folder `into`.
    pub(super) fn write(&self, into: &Path) -> Result<(), CloneError> {
        for (path, kind) in &self.entries {
            let (from, to) = (self.from.join(path), into.join(path));
            let made = match kind {
                CopiedKind::Folder => make_folder(&to),
                CopiedKind::File { is_executable } => copy_file(&from, &to, *is_executable),
                CopiedKind::Link => fs::read_link(&from).and_then(|target| symlink(target, &to)),
            };
            made.map_err(|source| folder_error(&to, source))?;
        }
        Ok(())
    }
}

fn make_folder(place: &Path) -> io::Result<()> {
    match DirBuilder::new().create(place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn copy_file(from: &Path, to: &Path, is_executable: bool) -> io::Result<()> {
    let mode = if is_executable { 0o777 } else { 0o666 };
    let mut new = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
    io::copy(&mut File::open(from)?.take(CLONE_BYTES_MAX), &mut new).map(drop)
}

fn folder_error(path: &Path, source: io::Error) -> CloneError {
    CloneError::Folder {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree that git might have left, and one that only a git that was taken over leaves.
    #[test]
    fn only_data_of_gits_folder_is_copied_and_no_link_of_it_is_followed() {
        let (left, into) = (
            tempfile::tempdir().expect("a temporary folder"),
            tempfile::tempdir().expect("a temporary folder"),
        );
        let at = |path: &str| left.path().join(path);
        for (path, text) in [
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".git/objects/pack/x.pack", "pack"),
            (".git/objects/info/alternates", "/home/ada/secret/.git/objects\n"),
            (".git/config", "[core]\n\tfsmonitor = /bin/evil\n"),
            (".git/hooks/post-checkout", "evil"),
            (".git/index", "index"),
            ("src/a.py", "x = 1\n"),
            ("src/.git/config", "evil"),
        ] {
            fs::create_dir_all(at(path).parent().expect("a folder")).expect("it can be made");
            fs::write(at(path), text).expect("it can be written");
        }
        symlink("/etc/passwd", at("link")).expect("it can be made");
        let handle = || OwnedFd::from(File::open(left.path()).expect("it is there"));
        CopyPlan::of_repository(&handle())
            .and_then(|plan| plan.write(into.path()))
            .expect("it is copied");
        CopyPlan::of_work_tree(&handle())
            .and_then(|plan| plan.write(into.path()))
            .expect("it is copied");
        for (path, is_there) in [
            (".git/HEAD", true),
            (".git/objects/pack/x.pack", true),
            (".git/index", true),
            ("src/a.py", true),
            (".git/objects/info", false),
            (".git/config", false),
            (".git/hooks", false),
            ("src/.git", false),
        ] {
            assert_eq!(into.path().join(path).exists(), is_there, "{path}");
        }
        assert_eq!(
            fs::read_link(into.path().join("link")).expect("it is a link"),
            Path::new("/etc/passwd")
        );
        fs::remove_dir_all(at(".git/objects")).expect("it is ours");
        symlink("/home/ada/secret/.git/objects", at(".git/objects")).expect("it can be made");
        assert!(CopyPlan::of_repository(&handle()).is_err());
        fs::rename(at(".git"), at("git")).expect("it is ours");
        symlink("git", at(".git")).expect("it can be made");
        assert!(CopyPlan::of_repository(&handle()).is_err() && CopyPlan::of_work_tree(&handle()).is_err());
    }

    #[test]
    fn a_file_that_takes_no_room_counts_with_its_size() {
        let left = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(left.path().join(".git")).expect("it can be made");
        let sparse = File::create(left.path().join("sparse")).expect("it can be made");
        sparse.set_len(CLONE_BYTES_MAX + 1).expect("it takes no room");
        let handle = OwnedFd::from(File::open(left.path()).expect("it is there"));
        assert!(matches!(
            CopyPlan::of_work_tree(&handle),
            Err(CloneError::TooLarge { .. })
        ));
    }
}
