//! The folder of a job's reports. A change may contain links in its place, so no link below the root is followed.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tool_core::api::{ErrorKind, Problem};

use crate::error::Error;

/// An open folder, to which files are written by their names.
#[derive(Debug)]
pub(super) struct ReportFolder {
    handle: OwnedFd,
    path: PathBuf,
    /// True if the folder is below the root and was created.
    pub(super) is_new: bool,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl ReportFolder {
    /// Opens the folder, or creates it. Each part of a relative path must be a real folder below `root`, because the
    /// repository may contain links. An absolute path belongs to the user.
    pub(super) fn open(root: &Path, folder: &Path) -> Result<Self, Error> {
        let path = root.join(folder);
        let opened = if folder.is_absolute() {
            std::fs::create_dir_all(folder).and_then(|()| Ok((rustix::fs::open(folder, FOLDER, Mode::empty())?, false)))
        } else {
            open_below(root, folder)
        };
        match opened {
            Ok((handle, is_new)) => Ok(Self { handle, path, is_new }),
            Err(error) => {
                let message = format!("The folder of the reports cannot be used: {error}");
                let hint = format!(
                    "`{}` must be a folder, and no link: choose another with --reports",
                    path.display()
                );
                Err(Problem::new(ErrorKind::ReportDenied, message).with_hint(hint).into())
            }
        }
    }

    /// Writes a whole file: a reader sees the old content or the new. A link of that name is replaced, not followed.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, Error> {
        let written = self.replace(name, content);
        let path = self.path(name);
        written.map_err(|error| {
            let message = format!("`{}` could not be written: {error}", path.display());
            let hint = "choose another folder with --reports";
            Problem::new(ErrorKind::ReportFailed, message).with_hint(hint)
        })?;
        Ok(path)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = format!(".{}.tmp", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let mut file = File::from(rustix::fs::openat(&self.handle, &temporary, flags, mode)?);
        let put = file
            .write_all(content)
            .and_then(|()| Ok(rustix::fs::renameat(&self.handle, &temporary, &self.handle, name)?));
        if put.is_err() {
            // The error of the write matters, not that of the removal.
            let _ = rustix::fs::unlinkat(&self.handle, &temporary, AtFlags::empty());
        }
        put
    }
}

/// The folder below the root, and true if it was created.
fn open_below(root: &Path, folder: &Path) -> io::Result<(OwnedFd, bool)> {
    let mut handle = rustix::fs::openat(CWD, root, FOLDER, Mode::empty())?;
    let mut is_new = None;
    for part in folder.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            _ => return Err(io::Error::other("it leads out of the repository")),
        };
        is_new = match rustix::fs::mkdirat(&handle, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => Some(true),
            Err(rustix::io::Errno::EXIST) => Some(false),
            Err(error) => return Err(error.into()),
        };
        handle = rustix::fs::openat(&handle, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    }
    match is_new {
        Some(is_new) => Ok((handle, is_new)),
        None => Err(io::Error::other("it is the repository itself")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_in_the_place_of_reports_lead_nowhere() {
        let (root, outside) = (
            tempfile::tempdir().expect("a temporary folder"),
            tempfile::tempdir().expect("a temporary folder"),
        );
        symlink(outside.path(), root.path().join("tool-ci")).expect("it can be linked");
        assert!(ReportFolder::open(root.path(), Path::new("tool-ci")).is_err());
        assert!(ReportFolder::open(root.path(), Path::new("tool-ci/deep")).is_err());
        assert!(ReportFolder::open(root.path(), Path::new("../beside")).is_err());
        assert!(ReportFolder::open(root.path(), Path::new("./.")).is_err());
        let folder = ReportFolder::open(root.path(), Path::new("a/b")).expect("it can be made");
        let victim = outside.path().join("victim");
        std::fs::write(&victim, "old").expect("the folder is writable");
        symlink(&victim, root.path().join("a/b/summary.md")).expect("it can be linked");
        let written = folder.write("summary.md", b"new").expect("it can be written");
        assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "old");
        assert_eq!(std::fs::read_to_string(written).expect("it is there"), "new");
        let names = std::fs::read_dir(root.path().join("a/b")).expect("it is there").count();
        assert_eq!(names, 1, "no temporary file stays");
    }
}
