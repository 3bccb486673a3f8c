//! Recovers after a process died while it published a commit.
//!
//! The journal names the publication before anything of it is in the git directory. Every file of it has a name or a
//! line that only this publication has, so the file is ours; nothing else is touched. If the branch has moved, the
//! commit is completed. Otherwise it is withdrawn.

use std::fs;
use std::io;
use std::path::Path;

use super::format::RepositoryFormat;
use super::lock::{LockNames, OpenedFolder, lock_of};
use tool_core::digest::to_hexadecimal;
use tool_repository::changes::{CommitInProgress, crash_point};
use tool_repository::reftable::{self, References};

/// Locked part of a publication.
#[derive(Debug, Clone, Copy)]
pub(super) enum LockedPart {
    Index,
    Reference,
    /// The tables with the log of a linked worktree.
    Log,
}

/// Names for the lock of one part. Only this publication uses them.
pub(super) fn lock_names(publication: &CommitInProgress, part: LockedPart) -> LockNames {
    let part = match part {
        LockedPart::Index => "index",
        LockedPart::Reference => "branch",
        LockedPart::Log => "log",
    };
    let own = format!("tool-{}-{part}", publication.id);
    LockNames {
        early: format!("{own}.lock"),
        new: format!("{own}.new.lock"),
        mark: format!("{own}\n"),
    }
}

/// End of the name of a publication's table, where git has eight random digits.
pub(super) fn table_mark(publication: &CommitInProgress) -> &str {
    let id = publication.id.as_str();
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

/// Removes what a publication left beside its reference. True if the reference has moved to the commit.
fn settle_reference(left: &CommitInProgress) -> io::Result<bool> {
    let names = lock_names(left, LockedPart::Reference);
    if RepositoryFormat::read_config(&left.common).has_tables() {
        if left.branch.is_some() && left.git != left.common {
            // The log does not decide about the branch. If it cannot be read, the tables of the branch are settled
            // all the same.
            let _ = settle_tables(left, &left.git, &lock_names(left, LockedPart::Log));
        }
        let (git, name) = match &left.branch {
            None => (&left.git, "HEAD".to_owned()),
            Some(branch) => (&left.common, format!("refs/heads/{branch}")),
        };
        let found = settle_tables(left, git, &names)?;
        return Ok(found.resolve(&name).map(to_hexadecimal).as_ref() == Some(&left.commit));
    }
    let (folder, name) = match &left.branch {
        None => (OpenedFolder::open_path(&left.git)?, "HEAD"),
        Some(branch) => OpenedFolder::open_path(&left.common)?
            .find("refs")?
            .find("heads")?
            .find_for(branch)?,
    };
    let has_moved = folder.line(name).is_some_and(|line| line.trim_end() == left.commit);
    clear_leftovers(&folder, name, &names);
    Ok(has_moved)
}

/// Removes our lock on the tables of a git directory, and our table unless the list names it. Returns the references
/// in the tables.
fn settle_tables(left: &CommitInProgress, git: &Path, names: &LockNames) -> io::Result<References> {
    let place = git.join(reftable::FOLDER);
    let folder = OpenedFolder::open_path(&place)?;
    clear_leftovers(&folder, reftable::LIST, names);
    let found = References::read(&place)?;
    let end = format!("-{}.ref", table_mark(left));
    for table in fs::read_dir(&place)?.flatten() {
        let name = table.file_name().to_string_lossy().into_owned();
        if name.ends_with(&end) && !found.tables.contains(&name) {
            folder.remove(&name);
            crash_point();
        }
    }
    Ok(found)
}

/// Completes or withdraws a publication that was interrupted. Returns a notice for the user, a sentence and a hint;
/// `None` if there was nothing to do.
///
/// # Errors
///
/// The git directory cannot be reached.
pub fn settle_commit(left: &CommitInProgress) -> io::Result<Option<(String, Option<String>)>> {
    let git = OpenedFolder::open_path(&left.git)?;
    let names = lock_names(left, LockedPart::Index);
    let is_ours = git.line(&lock_of("index")).is_some_and(|line| line == names.mark);
    let was_ready = git.has(&names.new);
    // An error means that the branch never existed, or does not exist any more.
    let has_moved = settle_reference(left).unwrap_or(false);
    let is_finished = was_ready && has_moved && is_ours && git.rename(&names.new, "index").is_ok();
    crash_point();
    let had_lock = clear_leftovers(&git, "index", &names);
    git.keep();
    let commit = &left.commit;
    Ok(match (has_moved, was_ready) {
        (true, true) if is_finished => Some((format!("The interrupted commit {commit} was finished."), None)),
        (true, true) => Some((
            format!(
                "The commit {commit} was made, but git's index could not be updated: another program was at work there."
            ),
            Some("`git reset` brings the index in line with it".to_owned()),
        )),
        (false, _) if had_lock => Some((
            "An interrupted commit was not made, and its locks were removed.".to_owned(),
            None,
        )),
        _ => None,
    })
}

/// Removes our files beside one name. True if its lock was ours.
fn clear_leftovers(folder: &OpenedFolder, name: &str, names: &LockNames) -> bool {
    for own in [&names.early, &names.new] {
        folder.remove(own);
        crash_point();
    }
    let lock = lock_of(name);
    let is_ours = folder.line(&lock).is_some_and(|line| line == names.mark);
    let is_removed = is_ours && folder.remove(&lock);
    crash_point();
    is_removed
}
