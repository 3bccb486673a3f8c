//! Publishes a commit: writes new objects, the branch, its log and the index as git does.
//!
//! A helper has made the objects and the new index in a scratch folder. Only the engine writes to the git directory.
//! Every replacement is complete beside the original before anything is renamed, so that a process that dies leaves
//! the old state, or one that the next start completes (`recover`). New files get names that did not exist, and
//! existing files are replaced only by renaming.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use tokio_util::sync::CancellationToken;

use super::layout::{GitDirectories, open_regular_file};
use super::lock::{HeldLock, OpenedFolder};
use super::messages::{CommitTime, ObjectId};
use super::recover::{LockedPart, lock_names, table_mark};
use crate::imports::git::GIT_FILE_BYTES_MAX;
use crate::imports::git::layout::GIT_LINE_FILE_BYTES_MAX;
use tool_boundary::Failure;
use tool_boundary::call_cancelled;
use tool_core::digest::CommitId;
use tool_core::text::clean_line;
use tool_repository::changes::{CommitInProgress, crash_point, has_crashed};
use tool_repository::reftable::{self, LogLine, Reference, References};
use tool_sandbox::scratch;

/// Objects of one commit, and their bytes: half a million files, and a disk's worth of room.
const GIT_OBJECTS_MAX: usize = 1_000_000;

/// Bytes of all new objects of one commit.
const GIT_OBJECT_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Folder in which a helper makes objects and changes a copy of the index.
pub(in crate::imports) struct ScratchObjects(scratch::ScratchFolder);

impl ScratchObjects {
    /// Creates an object folder that borrows from the real one. `home` is the program's own directory.
    pub(in crate::imports) fn new(layout: &GitDirectories, home: Option<&Path>) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("A commit could not be prepared: {error}."));
        let objects = layout.common.join("objects").to_string_lossy().into_owned();
        if objects.contains(['\n', '\u{fffd}']) {
            return Err(Failure::unavailable(
                "The path of the git directory holds characters that git cannot note.",
            ));
        }
        let folder = scratch::create_folder(home, "tool-git-").map_err(failed)?;
        let scratch = Self(folder);
        scratch.fill(&objects, layout.format.is_sha256()).map_err(failed)?;
        Ok(scratch)
    }

    fn fill(&self, objects: &str, is_sha256: bool) -> io::Result<()> {
        let store = self.store();
        fs::create_dir_all(store.join("objects/info"))?;
        fs::create_dir(store.join("refs"))?;
        fs::write(store.join("HEAD"), "ref: refs/heads/none\n")?;
        let format = if is_sha256 { "sha256" } else { "sha1" };
        fs::write(
            store.join("config"),
            format!("[core]\n\tbare = true\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = {format}\n"),
        )?;
        fs::write(store.join("objects/info/alternates"), format!("{objects}\n"))
    }

    pub(in crate::imports) fn path(&self) -> &Path {
        self.0.path()
    }

    fn store(&self) -> PathBuf {
        self.path().join("store")
    }

    fn index(&self) -> PathBuf {
        self.path().join("index")
    }
}

/// A move of `HEAD` to a new commit, with the fields of the log line.
#[derive(Debug, Clone, Copy)]
pub(in crate::imports) struct HeadMove<'a> {
    pub(in crate::imports) from: Option<&'a ObjectId>,
    pub(in crate::imports) to: &'a ObjectId,
    /// `Name <address>`, as git writes it to the log.
    pub(in crate::imports) author: &'a str,
    pub(in crate::imports) subject: &'a str,
    pub(in crate::imports) moment: CommitTime,
}

impl HeadMove<'_> {
    fn log_message(&self) -> String {
        let initial = if self.from.is_none() { " (initial)" } else { "" };
        format!("commit{initial}: {}", clean_line(self.subject))
    }
}

/// Folder of the tables that hold the branch, or the `HEAD` of the work tree.
fn tables_of(layout: &GitDirectories, branch: Option<&str>) -> PathBuf {
    branch.map_or(&layout.git, |_| &layout.common).join(reftable::FOLDER)
}

/// Locked branch and index, with their replacements. Drop removes replacements that were not used.
pub(in crate::imports) struct Publication<'a> {
    layout: &'a GitDirectories,
    scratch: &'a ScratchObjects,
    branch: Option<&'a str>,
    reference: HeldLock,
    index: HeldLock,
    /// For reftable: the new table, which the list does not name yet.
    table: Option<NewTable>,
    notes: &'a CommitInProgress,
}

/// A new table that the list does not name yet. Drop removes it unless it is in use.
struct NewTable {
    folder: OpenedFolder,
    name: String,
    is_used: bool,
}

impl NewTable {
    /// Writes a table with the new value and the log lines, and the replacement for the locked list, which also names
    /// this table. `before` are the references of `place`; the lock guarantees that they do not change.
    fn lay_out(
        lock: &mut HeldLock,
        place: &Path,
        before: &References,
        notes: &CommitInProgress,
        (value, logged): (Option<(&str, Reference)>, &[&str]),
        movement: HeadMove<'_>,
    ) -> io::Result<Self> {
        let (old, new) = (movement.from.map(ObjectId::commit), movement.to.commit());
        let (person, address) = movement.author.rsplit_once(" <").unwrap_or((movement.author, ""));
        let message = movement.log_message();
        let line = |&reference| LogLine {
            reference,
            old: old.as_ref().map(CommitId::as_bytes),
            new: new.as_bytes(),
            person: (person, address.trim_end_matches('>')),
            moment: (movement.moment.seconds.unsigned_abs(), movement.moment.offset_minutes),
            message: &message,
        };
        let logs: Vec<LogLine<'_>> = logged.iter().map(line).collect();
        // The reader refuses tables that have used the last number.
        let update = before.newest_update + 1;
        let bytes = reftable::encode_table(update, new.as_bytes().len() == 32, value.as_slice(), &logs);
        let name = format!("0x{update:012x}-0x{update:012x}-{}.ref", table_mark(notes));
        let list = before.tables.iter().chain([&name]);
        let list: String = list.map(|name| format!("{name}\n")).collect();
        let table = Self {
            folder: OpenedFolder::open_path(place)?,
            name,
            is_used: false,
        };
        let mut file = table.folder.make(&table.name, 0o666)?;
        crash_point();
        file.write_all(&bytes)?;
        file.sync_all()?;
        lock.lay_out(|file| file.write_all(list.as_bytes()))?;
        Ok(table)
    }
}

impl Drop for NewTable {
    fn drop(&mut self) {
        if !self.is_used && !has_crashed() {
            self.folder.remove(&self.name);
        }
    }
}

impl<'a> Publication<'a> {
    /// Takes both locks, and copies the index for the helper. `notes` is the publication's entry in the journal.
    pub(in crate::imports) fn begin(
        layout: &'a GitDirectories,
        scratch: &'a ScratchObjects,
        branch: Option<&'a str>,
        notes: &'a CommitInProgress,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("The git directory cannot be written to: {error}."));
        let index = HeldLock::take(
            OpenedFolder::open_path(&layout.git).map_err(failed)?,
            "index",
            lock_names(notes, LockedPart::Index),
            layout.shown(&layout.git.join("index")),
        )?;
        branch.map_or(Ok(()), check_branch)?;
        let (folder, name, place) = match branch {
            _ if layout.format.has_tables() => {
                let tables = tables_of(layout, branch);
                let folder = OpenedFolder::open_path(&tables).map_err(failed)?;
                (folder, reftable::LIST, tables.join(reftable::LIST))
            }
            None => {
                let folder = OpenedFolder::open_path(&layout.git).map_err(failed)?;
                (folder, "HEAD", layout.git.join("HEAD"))
            }
            Some(branch) => {
                let heads = || {
                    OpenedFolder::open_path(&layout.common)?
                        .enter("refs")?
                        .enter("heads")?
                        .enter_for(branch)
                };
                let (folder, name) = heads().map_err(failed)?;
                (folder, name, layout.common.join("refs/heads").join(branch))
            }
        };
        let reference = HeldLock::take(
            folder,
            name,
            lock_names(notes, LockedPart::Reference),
            layout.shown(&place),
        )?;
        let publication = Self {
            layout,
            scratch,
            branch,
            reference,
            index,
            table: None,
            notes,
        };
        publication.copy_index().map_err(failed)?;
        Ok(publication)
    }

    /// Copies the index with its modification time: git compares entries with it to notice changes that happened at
    /// the same time.
    fn copy_index(&self) -> io::Result<()> {
        let Some(mut real) = open_regular_file(&self.layout.git.join("index")) else {
            return Ok(());
        };
        let metadata = real.metadata()?;
        if metadata.len() > GIT_FILE_BYTES_MAX {
            return Err(io::Error::other("its index is too large"));
        }
        let mut copy = File::create(self.scratch.index())?;
        io::copy(&mut Read::by_ref(&mut real).take(GIT_FILE_BYTES_MAX), &mut copy)?;
        copy.set_modified(metadata.modified()?)
    }

    /// Writes the objects, and the replacements of branch and index. Nothing is moved yet, and cancellation is
    /// possible.
    pub(in crate::imports) fn lay_out(
        &mut self,
        movement: HeadMove<'_>,
        keeps_logs: bool,
        cancel: &CancellationToken,
    ) -> Result<(), Failure> {
        let mut work = || -> io::Result<()> {
            publish_objects(
                &self.scratch.store().join("objects"),
                &self.layout.common,
                movement.to,
                cancel,
            )?;
            if self.layout.format.has_tables() {
                self.lay_out_table(movement, keeps_logs)?;
            } else {
                self.reference.lay_out(|file| writeln!(file, "{}", movement.to))?;
            }
            let made = open_regular_file(&self.scratch.index()).ok_or(io::ErrorKind::NotFound)?;
            let mut made = made.take(GIT_FILE_BYTES_MAX);
            self.index.lay_out(|file| io::copy(&mut made, file).map(drop))
        };
        work().map_err(|error| {
            if cancel.is_cancelled() {
                call_cancelled()
            } else {
                Failure::failed(format!("The commit could not be put in place: {error}."))
            }
        })
    }

    /// Writes the table with the move, and a new list that ends with it.
    fn lay_out_table(&mut self, movement: HeadMove<'_>, keeps_logs: bool) -> io::Result<()> {
        let place = tables_of(self.layout, self.branch);
        let before = References::read(&place)?;
        let name = self
            .branch
            .map_or_else(|| "HEAD".to_owned(), |branch| format!("refs/heads/{branch}"));
        let from = movement.from.map(ObjectId::commit);
        if before.resolve(&name) != from.as_ref().map(CommitId::as_bytes) {
            return Err(io::Error::other("the branch has moved"));
        }
        let is_below = |one: &str, two: &str| one.strip_prefix(two).is_some_and(|rest| rest.starts_with('/'));
        let mut others = before.by_name.keys();
        if others.any(|other| is_below(other, &name) || is_below(&name, other)) {
            return Err(io::Error::other("the name of another branch stands in its way"));
        }
        let value = Reference::Object {
            id: movement.to.commit().as_bytes().to_vec(),
            peeled: None,
        };
        let has_head = self.branch.is_some() && self.layout.git == self.layout.common;
        let logged = [has_head.then_some("HEAD"), Some(name.as_str())];
        let logged: Vec<&str> = logged.into_iter().flatten().filter(|_| keeps_logs).collect();
        let content = (Some((name.as_str(), value)), logged.as_slice());
        let table = NewTable::lay_out(&mut self.reference, &place, &before, self.notes, content, movement)?;
        self.table = Some(table);
        Ok(())
    }

    /// A linked worktree has tables of its own, with the log of its `HEAD`.
    fn log_in_own_tables(&self, movement: HeadMove<'_>) -> io::Result<()> {
        let place = tables_of(self.layout, None);
        let folder = OpenedFolder::open_path(&place)?;
        let list = place.join(reftable::LIST);
        let names = lock_names(self.notes, LockedPart::Log);
        let lock = HeldLock::take(folder, reftable::LIST, names, self.layout.shown(&list));
        let mut lock = lock.map_err(|failure| io::Error::other(failure.message))?;
        let before = References::read(&place)?;
        let mut table = NewTable::lay_out(&mut lock, &place, &before, self.notes, (None, &["HEAD"]), movement)?;
        lock.place()?;
        table.is_used = true;
        Ok(())
    }

    /// Moves the branch. From then on the commit exists.
    pub(in crate::imports) fn move_branch(&mut self, movement: HeadMove<'_>, keeps_logs: bool) -> Result<(), Failure> {
        let moved = self.reference.place();
        moved.map_err(|error| Failure::failed(format!("The commit could not be put in place: {error}.")))?;
        let logged = match &mut self.table {
            None if keeps_logs => self.log(movement),
            None => Ok(()),
            Some(table) => {
                table.is_used = true;
                let is_elsewhere = keeps_logs && self.branch.is_some() && self.layout.git != self.layout.common;
                if is_elsewhere {
                    self.log_in_own_tables(movement)
                } else {
                    Ok(())
                }
            }
        };
        if let Err(error) = logged {
            tracing::warn!(%error, "a commit is not in git's log of the branch");
        }
        Ok(())
    }

    /// Replaces the index by the one that the helper made.
    pub(in crate::imports) fn replace_index(&mut self) -> io::Result<()> {
        self.index.place()
    }

    /// Writes one log line for `HEAD` and one for the branch.
    fn log(&self, movement: HeadMove<'_>) -> io::Result<()> {
        let none = "0".repeat(movement.to.as_str().len());
        let CommitTime {
            seconds,
            offset_minutes,
        } = movement.moment;
        let sign = if offset_minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset_minutes.unsigned_abs() / 60, offset_minutes.unsigned_abs() % 60);
        let line = format!(
            "{} {} {} {seconds} {sign}{hours:02}{minutes:02}\t{}\n",
            movement.from.map_or(none.as_str(), ObjectId::as_str),
            movement.to,
            clean_line(movement.author),
            movement.log_message(),
        );
        let own = OpenedFolder::open_path(&self.layout.git)?.enter("logs")?;
        own.append("HEAD")?.write_all(line.as_bytes())?;
        if let Some(branch) = self.branch {
            let heads = OpenedFolder::open_path(&self.layout.common)?
                .enter("logs")?
                .enter("refs")?
                .enter("heads")?;
            let (folder, name) = heads.enter_for(branch)?;
            folder.append(name)?.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

/// Accepts a name that git takes for a branch and that leads nowhere else.
fn check_branch(branch: &str) -> Result<(), Failure> {
    let is_part = |part: &str| {
        let odd = |character: char| character.is_control() || " ~^:?*[\\".contains(character);
        !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock") && !part.contains(odd)
    };
    if branch.len() as u64 <= GIT_LINE_FILE_BYTES_MAX && branch.split('/').all(is_part) {
        Ok(())
    } else {
        Err(Failure::failed("The name of the branch is none that git would use."))
    }
}

/// Copies new objects to git's object folder. Existing objects are not touched.
fn publish_objects(from: &Path, common: &Path, head: &ObjectId, cancel: &CancellationToken) -> io::Result<()> {
    let to = OpenedFolder::open_path(&common.join("objects"))?;
    let (mut count, mut bytes) = (0, 0);
    let mut has_head = false;
    for folder in fs::read_dir(from)? {
        let folder = folder?;
        let Some(two) = folder
            .file_name()
            .to_str()
            .filter(|name| is_hex(name, 2))
            .map(str::to_owned)
        else {
            continue;
        };
        let target = to.enter(&two)?;
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            let Some(rest) = file
                .file_name()
                .to_str()
                .filter(|name| is_hex(name, head.as_str().len() - 2))
                .map(str::to_owned)
            else {
                continue;
            };
            if cancel.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            count += 1;
            bytes += file.metadata()?.len();
            if is_too_much(count, bytes) {
                return Err(io::Error::other("it has too many new objects"));
            }
            has_head |= head.as_str() == format!("{two}{rest}");
            if !target.has(&rest) {
                copy_object(&file.path(), &target, &rest)?;
            }
        }
    }
    if has_head {
        Ok(())
    } else {
        Err(io::Error::other("the commit itself is missing"))
    }
}

/// True for more objects, or more bytes, than one commit makes.
fn is_too_much(count: usize, bytes: u64) -> bool {
    count > GIT_OBJECTS_MAX || bytes > GIT_OBJECT_BYTES_MAX
}

fn is_hex(name: &str, length: usize) -> bool {
    name.len() == length
        && name
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn copy_object(from: &Path, folder: &OpenedFolder, name: &str) -> io::Result<()> {
    let made = open_regular_file(from).ok_or_else(|| io::Error::other("an object is no file"))?;
    let temporary = format!("tmp_obj_{}", uuid::Uuid::new_v4().simple());
    let write = || -> io::Result<()> {
        let mut file = folder.make(&temporary, 0o444)?;
        io::copy(&mut made.take(GIT_FILE_BYTES_MAX), &mut file)?;
        file.sync_all()?;
        folder.rename(&temporary, name)
    };
    let written = write();
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&folder.0, &temporary, AtFlags::empty());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_named_as_git_would() {
        for name in ["main", "feature/a-b", "über"] {
            check_branch(name).expect(name);
        }
        for name in ["", "a//b", "../x", "a/../b", ".a", "a.lock", "a b", "a\nb", "/a", "a/"] {
            check_branch(name).expect_err(name);
        }
    }

    #[test]
    fn new_objects_are_bounded_in_number_and_bytes() {
        assert!(!is_too_much(GIT_OBJECTS_MAX, GIT_OBJECT_BYTES_MAX));
        assert!(is_too_much(GIT_OBJECTS_MAX + 1, 0));
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let (from, name) = (folder.path().join("made"), "a".repeat(38));
        for place in [from.join("aa"), folder.path().join("common/objects")] {
            fs::create_dir_all(place).expect("folders can be made");
        }
        let file = File::create(from.join("aa").join(name)).expect("files can be made");
        file.set_len(GIT_OBJECT_BYTES_MAX + 1).expect("a hole takes no space");
        let head = ObjectId::try_from("a".repeat(40)).expect("it is one");
        let common = folder.path().join("common");
        let refused = publish_objects(&from, &common, &head, &CancellationToken::new()).expect_err("it is too large");
        assert_eq!(refused.to_string(), "it has too many new objects");
    }
}
