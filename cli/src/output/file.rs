//! `--output FILE`: the file holds a whole answer or is as it was before.
//!
//! The answer is collected in memory, and the file is replaced in one step at the end: an operation must not find half
//! of its own answer in the repository that it reads. What is no regular file (`/dev/null`, a pipe) is written to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use host::api::Problem;

use crate::error::Error;

/// An answer on its way into a file.
#[derive(Debug)]
pub(crate) struct AnswerFile {
    /// As the user wrote it.
    named: PathBuf,
    /// What is replaced: a link's target, not the link.
    place: PathBuf,
    content: String,
}

impl AnswerFile {
    /// Makes sure, before anything starts, that the file can be written.
    pub(crate) fn prepare(named: &Path) -> Result<Self, Error> {
        let place = named.canonicalize().unwrap_or_else(|_| named.to_owned());
        let refused = |message: String, hint: &str| Err(Problem::new("usage", message).with_hint(hint).into());
        if place.is_dir() {
            let message = format!("`{}` is a directory", named.display());
            return refused(message, "name a file in it");
        }
        let folder = folder_of(&place);
        if !folder.is_dir() {
            let message = format!("The folder of `{}` does not exist", named.display());
            return refused(message, &format!("make it with `mkdir -p '{}'`", folder.display()));
        }
        let file = Self {
            named: named.to_owned(),
            place,
            content: String::new(),
        };
        file.try_out()
            .map_err(|error| Error::new("usage", format!("`{}` cannot be written: {error}", named.display())))?;
        Ok(file)
    }

    /// Another piece of the answer.
    pub(crate) fn push(&mut self, text: &str) {
        self.content.push_str(&super::clean(text));
    }

    /// The file as the user named it.
    pub(crate) fn path(&self) -> &Path {
        &self.named
    }

    /// Puts the answer in place.
    pub(crate) fn write(mut self) -> Result<(), Error> {
        if !self.content.is_empty() && !self.content.ends_with('\n') {
            self.content.push('\n');
        }
        let written = match self.is_special() {
            true => OpenOptions::new()
                .write(true)
                .open(&self.place)
                .and_then(|mut file| file.write_all(self.content.as_bytes())),
            false => self.replace(),
        };
        written.map_err(|error| {
            Error::new(
                "output",
                format!("`{}` could not be written: {error}", self.named.display()),
            )
        })
    }

    /// True where something stands there that must not be replaced by a file.
    fn is_special(&self) -> bool {
        fs::metadata(&self.place).is_ok_and(|metadata| !metadata.is_file())
    }

    fn try_out(&self) -> io::Result<()> {
        if self.is_special() {
            return Ok(());
        }
        let temporary = self.temporary();
        new_file(&temporary)?;
        fs::remove_file(&temporary)
    }

    fn replace(&self) -> io::Result<()> {
        let temporary = self.temporary();
        let write = || {
            let mut file = new_file(&temporary)?;
            file.write_all(self.content.as_bytes())?;
            if let Ok(old) = fs::metadata(&self.place) {
                file.set_permissions(old.permissions())?;
            }
            file.sync_all()?;
            fs::rename(&temporary, &self.place)
        };
        let written = write();
        if written.is_err() {
            // What matters is the error itself.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn temporary(&self) -> PathBuf {
        let name = uuid::Uuid::new_v4().simple().to_string();
        folder_of(&self.place).join(format!(".{name}.tmp"))
    }
}

fn folder_of(place: &Path) -> &Path {
    match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn new_file(place: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it can be listed");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("A.md");
        fs::write(&place, "old").expect("writable");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o640)).expect("it is ours");
        let mut file = AnswerFile::prepare(&place).expect("it can be written");
        file.push("new\x1b[2J");
        assert_eq!(fs::read_to_string(&place).expect("it is there"), "old");
        assert_eq!(names(folder.path()), ["A.md"], "nothing lies about meanwhile");
        file.write().expect("it can be written");
        assert_eq!(fs::read_to_string(&place).expect("it is there"), "new[2J\n");
        let mode = fs::metadata(&place).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode, names(folder.path())), (0o640, vec!["A.md".to_owned()]));
    }

    #[test]
    fn a_link_stays_and_a_device_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").expect("writable");
        std::os::unix::fs::symlink(&target, &link).expect("it can be linked");
        let mut file = AnswerFile::prepare(&link).expect("it can be written");
        file.push("new\n");
        file.write().expect("it can be written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).expect("it is there"), "new\n");
        let mut null = AnswerFile::prepare(Path::new("/dev/null")).expect("it can be written");
        null.push("x");
        null.write().expect("it can be written");
        assert!(!fs::metadata("/dev/null").expect("it is there").is_file());
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let message = |place: &Path| match AnswerFile::prepare(place) {
            Err(Error::Problem(problem)) => problem.message.replace(&folder.path().display().to_string(), "F"),
            other => panic!("{other:?}"),
        };
        assert_eq!(message(folder.path()), "`F` is a directory");
        assert_eq!(
            message(&folder.path().join("no/such/A.md")),
            "The folder of `F/no/such/A.md` does not exist"
        );
    }
}
