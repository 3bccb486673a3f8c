//! `--output FILE`: the file holds the whole answer or stays unchanged.
//!
//! The answer is collected in memory, and the file is replaced in one step at the end: an operation must not find half
//! of its own answer in the repository that it reads. A file with hard links or of another owner is written in place,
//! since a replacement would be a different file. A file that has changed since the operation began is left alone.
//! Special files (`/dev/null`, a pipe) are written to directly.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tool_core::api::{ErrorKind, Problem};

use crate::error::Error;

/// Maximum links followed to a file that does not exist yet; as many as the system follows.
const LINKS_MAX: usize = 40;

/// An answer that will be written to a file.
#[derive(Debug)]
pub(crate) struct AnswerFile {
    /// As the user wrote it.
    named: PathBuf,
    /// Path that is replaced: a link's target, not the link.
    place: PathBuf,
    /// The regular file that stood there when the operation began.
    seen: Option<OutputFingerprint>,
    /// Written in place, because a replacement would be a different file.
    in_place: bool,
    content: String,
}

/// Metadata that differs between two files, and after a change of one.
#[derive(Debug, PartialEq, Eq)]
struct OutputFingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl OutputFingerprint {
    fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The fingerprint of a regular file; `None` if there is none.
    fn read_file(place: &Path) -> Option<Self> {
        let metadata = fs::metadata(place).ok()?;
        metadata.is_file().then(|| Self::from_metadata(&metadata))
    }
}

impl AnswerFile {
    /// Makes sure, before anything starts, that the file can be written.
    pub(crate) fn check_writable(named: &Path) -> Result<Self, Error> {
        let cannot = |error: io::Error| {
            Error::new(
                ErrorKind::Usage,
                format!("`{}` cannot be written: {error}", named.display()),
            )
        };
        let refused = |message: String, hint: &str| Err(Problem::new(ErrorKind::Usage, message).with_hint(hint).into());
        let place = resolve_links(named).map_err(cannot)?;
        if place.is_dir() {
            let message = format!("`{}` is a directory", named.display());
            return refused(message, "name a file in it");
        }
        let folder = folder_of(&place);
        if !folder.is_dir() {
            let message = format!("The folder of `{}` does not exist", named.display());
            return refused(message, &format!("make it with `mkdir -p '{}'`", folder.display()));
        }
        let mut file = Self {
            named: named.to_owned(),
            seen: OutputFingerprint::read_file(&place),
            place,
            in_place: false,
            content: String::new(),
        };
        // The system lets its administrator write to such a file; the mode is still meant.
        if let Ok(metadata) = fs::metadata(&file.place)
            && metadata.is_file()
            && metadata.mode() & 0o200 == 0
        {
            let message = format!("`{}` is read-only", named.display());
            let hint = format!("name another file, or allow it with `chmod u+w '{}'`", named.display());
            return refused(message, &hint);
        }
        file.in_place = file.try_out().map_err(cannot)?;
        Ok(file)
    }

    /// Refuses to write over the file that the operation is about.
    pub(crate) fn check_is_not(&self, target: &Path) -> Result<(), Error> {
        let same = |target: OutputFingerprint| {
            let seen = self.seen.as_ref();
            seen.is_some_and(|seen| (seen.device, seen.inode) == (target.device, target.inode))
        };
        if !OutputFingerprint::read_file(target).is_some_and(same) {
            return Ok(());
        }
        let message = format!(
            "`{}` is what the operation is about; the answer would replace it",
            self.named.display()
        );
        Err(Problem::new(ErrorKind::Usage, message)
            .with_hint("name another file for the answer, for example `-o ANSWER.md`")
            .into())
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.content.push_str(&super::clean_output(text));
    }

    /// The file as the user named it.
    pub(crate) fn path(&self) -> &Path {
        &self.named
    }

    pub(crate) fn write(mut self) -> Result<(), Error> {
        if !self.content.is_empty() && !self.content.ends_with('\n') {
            self.content.push('\n');
        }
        let special = self.is_special();
        if !special && OutputFingerprint::read_file(&self.place) != self.seen {
            // The operation itself may have written the file.
            let message = format!(
                "`{}` was changed while the operation ran, and is left as it is",
                self.named.display()
            );
            return Err(Error::new(ErrorKind::Output, message));
        }
        let written = if special || self.in_place {
            self.write_in_place(special)
        } else {
            self.replace()
        };
        written.map_err(|error| {
            Error::new(
                ErrorKind::Output,
                format!("`{}` could not be written: {error}", self.named.display()),
            )
        })
    }

    /// True for something that must not be replaced by a file.
    fn is_special(&self) -> bool {
        fs::metadata(&self.place).is_ok_and(|metadata| !metadata.is_file())
    }

    /// Writes nothing, and tells whether the file must be written in place.
    fn try_out(&self) -> io::Result<bool> {
        if self.is_special() {
            return Ok(false);
        }
        let temporary = self.temporary();
        let new = new_file(&temporary).and_then(|file| file.metadata());
        if new.is_ok() {
            fs::remove_file(&temporary)?;
        }
        if self.seen.is_none() {
            return new.map(|_| false);
        }
        let old = OpenOptions::new().write(true).open(&self.place)?.metadata()?;
        let same_owner = |new: Metadata| (new.uid(), new.gid()) == (old.uid(), old.gid());
        Ok(old.nlink() > 1 || !new.is_ok_and(same_owner))
    }

    fn write_in_place(&self, special: bool) -> io::Result<()> {
        // A file that is shorter now must not keep its old end.
        let mut file = OpenOptions::new().write(true).truncate(!special).open(&self.place)?;
        file.write_all(self.content.as_bytes())?;
        if special { Ok(()) } else { file.sync_all() }
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
            // The write error matters, not that of the removal.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn temporary(&self) -> PathBuf {
        let name = uuid::Uuid::new_v4().simple().to_string();
        folder_of(&self.place).join(format!(".{name}.tmp"))
    }
}

/// Resolves a path, also through links to a file that does not exist yet.
fn resolve_links(named: &Path) -> io::Result<PathBuf> {
    if let Ok(place) = named.canonicalize() {
        return Ok(place);
    }
    let mut place = named.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&place) {
            Ok(target) => place = folder_of(&place).join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::other("it is a link that leads nowhere"))
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
        let mut file = AnswerFile::check_writable(&place).expect("it can be written");
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
        let mut file = AnswerFile::check_writable(&link).expect("it can be written");
        file.push("new\n");
        file.write().expect("it can be written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).expect("it is there"), "new\n");
        let mut null = AnswerFile::check_writable(Path::new("/dev/null")).expect("it can be written");
        null.push("x");
        null.write().expect("it can be written");
        assert!(!fs::metadata("/dev/null").expect("it is there").is_file());
    }

    #[test]
    fn a_file_that_was_changed_meanwhile_is_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("a.py");
        let write = |meanwhile: &dyn Fn(&Path)| {
            let mut file = AnswerFile::check_writable(&place).expect("it can be written");
            file.push("answer");
            meanwhile(&place);
            match file.write() {
                Err(Error::Problem(problem)) => problem.to_string().replace(&folder.path().display().to_string(), "F"),
                other => panic!("{other:?}"),
            }
        };
        let said = write(&|place| fs::write(place, "appeared").expect("writable"));
        assert!(
            said.contains("`F/a.py` was changed while the operation ran, and is left as it is"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&place).expect("it is there"), "appeared");
        write(&|place| {
            let other = place.with_file_name("other");
            fs::write(&other, "replaced").expect("writable");
            fs::rename(&other, place).expect("it can be renamed");
        });
        assert_eq!(fs::read_to_string(&place).expect("it is there"), "replaced");
        write(&|place| fs::remove_file(place).expect("it is ours"));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_read_only_file_and_a_target_are_refused_before_anything_starts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("A.md");
        fs::write(&place, "old").expect("writable");
        let file = AnswerFile::check_writable(&place).expect("it can be written");
        let other = folder.path().join("other");
        fs::write(&other, "x").expect("writable");
        file.check_is_not(&other).expect("it is another file");
        file.check_is_not(&folder.path().join("none")).expect("it is no file");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&place, &link).expect("it can be linked");
        for same in [&place, &link] {
            assert!(
                matches!(file.check_is_not(same), Err(Error::Problem(problem)) if problem.kind == ErrorKind::Usage)
            );
        }
        fs::set_permissions(&place, fs::Permissions::from_mode(0o444)).expect("it is ours");
        let Err(Error::Problem(problem)) = AnswerFile::check_writable(&place) else {
            panic!("it is read-only");
        };
        assert!(problem.message.ends_with("A.md` is read-only"), "{problem}");
    }

    #[test]
    fn a_link_to_nothing_gets_its_target_and_other_names_of_a_file_stay() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, content: &str| {
            let mut file = AnswerFile::check_writable(&at(name)).expect("it can be written");
            file.push(content);
            file.write().expect("it can be written");
        };
        std::os::unix::fs::symlink("second", at("first")).expect("it can be linked");
        std::os::unix::fs::symlink("target", at("second")).expect("it can be linked");
        write("first", "new\n");
        assert!(at("first").is_symlink() && at("second").is_symlink() && !at("target").is_symlink());
        assert_eq!(fs::read_to_string(at("target")).expect("it is there"), "new\n");
        fs::hard_link(at("target"), at("other")).expect("it can be linked");
        write("other", "n\n");
        assert_eq!(fs::read_to_string(at("target")).expect("it is there"), "n\n");
        std::os::unix::fs::symlink("circle", at("circle")).expect("it can be linked");
        assert!(AnswerFile::check_writable(&at("circle")).is_err());
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let message = |place: &Path| match AnswerFile::check_writable(place) {
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
