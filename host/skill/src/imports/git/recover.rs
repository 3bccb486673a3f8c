//! Finishing what a process left that died while it put a commit in place.
//!
//! The journal names the publication before anything of it is in the git directory, and everything of it there has a
//! name or a line that only this publication has: a file with such a name or line is ours, and nothing else is touched.
//! A commit whose branch has moved is finished, one whose branch has not is not made.

use std::io;

use super::lock::{Names, OpenedFolder, lock_of};
use tool_repository::changes::{Publishing, crash_point};

/// Locked part of a publication.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Index,
    Reference,
}

/// The names of the lock of one part. Only this publication uses them.
pub(super) fn lock_names(publication: &Publishing, part: Part) -> Names {
    let part = match part {
        Part::Index => "index",
        Part::Reference => "branch",
    };
    let own = format!("tool-{}-{part}", publication.id);
    Names {
        early: format!("{own}.lock"),
        new: format!("{own}.new.lock"),
        mark: format!("{own}\n"),
    }
}

/// The folder of the reference that moves, and its name there.
fn find_reference(publication: &Publishing) -> io::Result<(OpenedFolder, &str)> {
    match &publication.branch {
        None => Ok((OpenedFolder::at(&publication.git)?, "HEAD")),
        Some(branch) => OpenedFolder::at(&publication.common)?
            .find("refs")?
            .find("heads")?
            .find_for(branch),
    }
}

/// Finishes or clears away the rest of a publication. Answers with a notice for the user, as a sentence and a hint;
/// nothing where nothing was left. An error where the git directory is out of reach.
pub fn settle_commit(left: &Publishing) -> io::Result<Option<(String, Option<String>)>> {
    let git = OpenedFolder::at(&left.git)?;
    let names = lock_names(left, Part::Index);
    let is_ours = git.line(&lock_of("index")).is_some_and(|line| line == names.mark);
    let was_ready = git.has(&names.new);
    let has_moved = match find_reference(left) {
        Ok((folder, name)) => {
            let has_moved = folder.line(name).is_some_and(|line| line.trim_end() == left.commit);
            clear(&folder, name, &lock_names(left, Part::Reference));
            has_moved
        }
        // The branch was never there, or is no more.
        Err(_) => false,
    };
    let is_finished = was_ready && has_moved && is_ours && git.rename(&names.new, "index").is_ok();
    crash_point();
    let had_lock = clear(&git, "index", &names);
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

/// Removes our files beside one name. True where its lock was.
fn clear(folder: &OpenedFolder, name: &str, names: &Names) -> bool {
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
