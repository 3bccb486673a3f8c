//! `git-commit`: commits chosen files of the work tree with libgit2. No hook, no filter program, no signature, no push.
//!
//! The tree of the commit is built in memory from the last commit and the chosen paths, so that what the user has
//! staged otherwise stays staged and out of it. It is built before the user is asked, and exactly this tree is
//! committed after the answer. Where git would do something that cannot be done here (sign, run a filter such as
//! LFS), the answer is a failure, never a commit that differs from git's.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::Arc;

use git2::{
    ErrorCode, FileMode, Index, IndexEntry, IndexTime, Oid, RepositoryState, Signature, Status, StatusOptions, Tree,
};
use rustix::fs::Stat;

use super::consent;
use super::failure::{cancelled, failure, hinted};
use super::git::content::{self, Content, Entry};
use super::git::patch::{self, Side};
use super::git::{Git, Watch, git_failure, watched};
use super::git_read::{normal_paths, not_watched};
use crate::limits;
use crate::repository::{OpenError, Repository};
use crate::skill::bindings::tool::skill::git_commit::Commit;
use crate::skill::bindings::tool::skill::types::Failure;
use crate::skill::policy::Effect;
use crate::skill::{CallContext, Question};

/// Commits the named paths, everything, or the files that this session changed.
pub(crate) fn create(context: &CallContext, message: &str, paths: &[String], all: bool) -> Result<Commit, Failure> {
    consent::not_denied(context, Effect::CommitGit)?;
    let message = tidy(message)?;
    let choice = choose(context, paths, all)?;
    let repository = Arc::clone(&context.repository);
    let prepared = watched(&context.cancel, move |watch| {
        prepare(&repository, &choice, message, watch)
    })?;
    consent::obtain(context, &prepared.question)?;
    let repository = Arc::clone(&context.repository);
    watched(&context.cancel, move |watch| finish(&repository, &prepared, watch))
}

/// The message as git would store it.
fn tidy(message: &str) -> Result<String, Failure> {
    let invalid = |message: &str| failure("invalid-arguments", message);
    if message.len() > limits::GIT_MESSAGE_BYTES_MAX {
        return Err(invalid("The commit message is longer than 64 KiB."));
    }
    if message.contains('\0') {
        return Err(invalid("The commit message contains a NUL character."));
    }
    let tidy = git2::message_prettify(message, None).map_err(|error| git_failure(&error))?;
    if tidy.trim().is_empty() {
        return Err(invalid("The commit message is empty."));
    }
    Ok(tidy)
}

/// What is to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    /// Every change beneath the root.
    All,
    /// These files, and what lies in these directories.
    Named(Vec<String>),
    /// What the session changed.
    Session(Vec<String>),
}

impl Choice {
    /// What to look at; nothing means everything.
    fn paths(&self) -> &[String] {
        match self {
            Self::All => &[],
            Self::Named(paths) | Self::Session(paths) => paths,
        }
    }
}

fn choose(context: &CallContext, paths: &[String], all: bool) -> Result<Choice, Failure> {
    if all {
        return Ok(Choice::All);
    }
    if !paths.is_empty() {
        let paths = normal_paths(paths)?;
        return match paths
            .iter()
            .find_map(|path| Some((path, context.repository.hidden(path, false)?)))
        {
            Some((path, reason)) => Err(failure("denied", format!("`{path}` is not committed: it {reason}."))),
            None => Ok(Choice::Named(paths)),
        };
    }
    let files = context.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if files.changed.is_empty() {
        return Err(hinted(
            "failed",
            "Nothing to commit: this session has changed no files.",
            "name the files in `paths`, or set `all`, to commit what was there before",
        ));
    }
    Ok(Choice::Session(files.changed.keys().cloned().collect()))
}

/// A commit that needs only a yes.
struct Prepared {
    parent: Option<Oid>,
    tree: Oid,
    message: String,
    branch: Option<String>,
    author: String,
    entries: Vec<Chosen>,
    question: Question,
}

/// One file of the commit.
struct Chosen {
    /// Relative to our root.
    path: String,
    /// What is committed; absent where the file is removed.
    new: Option<Stored>,
}

/// A file as it was stored in git's objects.
struct Stored {
    id: Oid,
    mode: u32,
    stat: Stat,
}

fn prepare(repository: &Repository, choice: &Choice, message: String, watch: &Watch) -> Result<Prepared, Failure> {
    let git = Git::open(repository.root())?;
    refuse_special_states(&git)?;
    let author = author(&git)?;
    let author = format!(
        "{} <{}>",
        String::from_utf8_lossy(author.name_bytes()),
        String::from_utf8_lossy(author.email_bytes())
    );
    let parent = git.head()?;
    let before = parent
        .as_ref()
        .map(git2::Commit::tree)
        .transpose()
        .map_err(|error| git_failure(&error))?;
    let candidates = candidates(&git, repository, choice)?;
    let preparation = Preparation {
        git: &git,
        repository,
        before: before.as_ref(),
        watch,
        named: matches!(choice, Choice::Named(_)),
    };
    let entries = preparation.store(&candidates)?;
    if entries.is_empty() {
        return Err(nothing(choice));
    }
    let tree = preparation.tree(&entries)?;
    let branch = git.branch();
    let question = preparation.question(&entries, tree, &message, branch.as_deref(), &author)?;
    Ok(Prepared {
        parent: parent.map(|commit| commit.id()),
        tree,
        message,
        branch,
        author,
        entries,
        question,
    })
}

fn nothing(choice: &Choice) -> Failure {
    let what = match choice {
        Choice::All => "the files are as in the last commit",
        Choice::Named(_) => "the named files are as in the last commit",
        Choice::Session(_) => "the files that this session changed are as in the last commit",
    };
    failure("failed", format!("Nothing to commit: {what}."))
}

/// A commit in the middle of a merge or a rebase means something else than this one would.
fn refuse_special_states(git: &Git) -> Result<(), Failure> {
    let what = match git.repository.state() {
        RepositoryState::Clean => None,
        RepositoryState::Merge => Some("A merge"),
        RepositoryState::Revert | RepositoryState::RevertSequence => Some("A revert"),
        RepositoryState::CherryPick | RepositoryState::CherryPickSequence => Some("A cherry-pick"),
        RepositoryState::Bisect => Some("A bisection"),
        RepositoryState::Rebase | RepositoryState::RebaseInteractive | RepositoryState::RebaseMerge => Some("A rebase"),
        RepositoryState::ApplyMailbox | RepositoryState::ApplyMailboxOrRebase => Some("The application of a mailbox"),
    };
    let hint = "the user has to finish or abort it with git";
    if let Some(what) = what {
        return Err(hinted(
            "failed",
            format!("{what} is under way in this repository."),
            hint,
        ));
    }
    let index = git.repository.index().map_err(|error| git_failure(&error))?;
    if index.has_conflicts() {
        return Err(hinted(
            "failed",
            "There are unresolved conflicts in this repository.",
            hint,
        ));
    }
    if git.repository.path().join("index.lock").symlink_metadata().is_ok() {
        return Err(git_failure(&git2::Error::new(
            ErrorCode::Locked,
            git2::ErrorClass::Index,
            "locked",
        )));
    }
    let config = git.repository.config().map_err(|error| git_failure(&error))?;
    match config.get_bool("commit.gpgsign") {
        Ok(true) => Err(hinted(
            "failed",
            "The git configuration wants every commit signed (`commit.gpgsign`), which cannot be done here.",
            "the user has to commit with git",
        )),
        Ok(false) => Ok(()),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
        Err(error) => Err(git_failure(&error)),
    }
}

fn author(git: &Git) -> Result<Signature<'static>, Failure> {
    git.repository.signature().map_err(|error| match error.code() {
        ErrorCode::NotFound => hinted(
            "unavailable",
            "git knows no author: `user.name` or `user.email` is not set.",
            "the user has to set them: git config user.name \"…\" and git config user.email \"…\"",
        ),
        _ => git_failure(&error),
    })
}

/// The changed paths that the choice means, relative to our root.
fn candidates(git: &Git, repository: &Repository, choice: &Choice) -> Result<Vec<String>, Failure> {
    let mut options = StatusOptions::new();
    options
        .include_untracked(true)
        .recurse_untracked_dirs(true)
        .include_ignored(false)
        .exclude_submodules(true)
        .disable_pathspec_match(true);
    for path in git.pathspecs(choice.paths()) {
        options.pathspec(path);
    }
    let statuses = git
        .repository
        .statuses(Some(&mut options))
        .map_err(|error| git_failure(&error))?;
    let index = git.repository.index().map_err(|error| git_failure(&error))?;
    let mut candidates = Vec::new();
    for entry in statuses.iter() {
        let Some(path) = git.ours(entry.path_bytes()) else {
            continue;
        };
        let missing_on_purpose = || {
            let entry = index.get_path(Path::new(&git.inside(path)), 0);
            entry.is_some_and(|entry| not_watched(&entry))
        };
        let unchanged = entry.status().is_empty() || entry.status().contains(Status::IGNORED);
        // A path that ends with `/` is another repository inside this one.
        let foreign = path.ends_with('/') || repository.hidden(path, false).is_some();
        if unchanged || foreign || (entry.status().contains(Status::WT_DELETED) && missing_on_purpose()) {
            continue;
        }
        candidates.push(path.to_owned());
    }
    if let Choice::Named(paths) = choice {
        paths
            .iter()
            .try_for_each(|path| explain(git, &index, path, &candidates))?;
    }
    Ok(candidates)
}

/// Says of a named path that stands for no change whether it is there at all. Being unchanged is no mistake.
fn explain(git: &Git, index: &Index, path: &str, candidates: &[String]) -> Result<(), Failure> {
    let beneath = format!("{path}/");
    let is_meant = |candidate: &String| path.is_empty() || candidate == path || candidate.starts_with(&beneath);
    if candidates.iter().any(is_meant) {
        return Ok(());
    }
    let inside = git.inside(path);
    let tracked = index.get_path(Path::new(&inside), 0).is_some() || index.find_prefix(format!("{inside}/")).is_ok();
    if tracked {
        return Ok(());
    }
    let exists = git
        .repository
        .workdir()
        .is_some_and(|top| top.join(&inside).symlink_metadata().is_ok());
    if !exists {
        return Err(failure(
            "not-found",
            format!("`{path}` does not exist, and git does not know it."),
        ));
    }
    if git.repository.is_path_ignored(Path::new(&inside)).unwrap_or(false) {
        return Err(failure(
            "invalid-arguments",
            format!("`{path}` is ignored by git, so it is not committed."),
        ));
    }
    Ok(())
}

/// What preparing a commit works with.
struct Preparation<'a> {
    git: &'a Git,
    repository: &'a Repository,
    before: Option<&'a Tree<'a>>,
    watch: &'a Watch,
    /// The paths were named one by one, so that leaving one out needs a word.
    named: bool,
}

impl Preparation<'_> {
    /// Stores the contents of every candidate that differs from the last commit.
    fn store(&self, candidates: &[String]) -> Result<Vec<Chosen>, Failure> {
        let mut entries = Vec::new();
        for path in candidates {
            if self.watch.given_up() {
                return Err(cancelled());
            }
            let old = self.committed(path);
            let new = match content::entry(self.repository, path) {
                Ok(Entry::Absent) => None,
                Ok(Entry::Link(target, stat)) => Some(self.store_link(&target, stat)?),
                Ok(Entry::File(file, stat)) => Some(self.store_file(path, file, stat, old)?),
                Err(OpenError::Denied { .. }) if !self.named => continue,
                Err(error) => return Err(failure("denied", format!("{error}, so it is not committed."))),
            };
            let is_same = match (&new, old) {
                (None, None) => true,
                (Some(new), Some((id, mode))) => new.id == id && new.mode == mode,
                _ => false,
            };
            if !is_same {
                entries.push(Chosen {
                    path: path.clone(),
                    new,
                });
            }
        }
        Ok(entries)
    }

    /// What the last commit holds for a path.
    fn committed(&self, path: &str) -> Option<(Oid, u32)> {
        let entry = self.before?.get_path(Path::new(&self.git.inside(path))).ok()?;
        let mode = u32::try_from(entry.filemode()).ok()?;
        (mode != u32::from(FileMode::Tree)).then(|| (entry.id(), mode))
    }

    fn store_link(&self, target: &[u8], stat: Stat) -> Result<Stored, Failure> {
        let id = self.git.repository.blob(target).map_err(|error| git_failure(&error))?;
        let mode = u32::from(FileMode::Link);
        Ok(Stored { id, mode, stat })
    }

    /// Copies a file into git's objects. libgit2 applies its own filters (line ends, `$Id$`) on the way, as git does.
    fn store_file(&self, path: &str, file: File, stat: Stat, old: Option<(Oid, u32)>) -> Result<Stored, Failure> {
        if let Some(filter) = self.git.external_filter(path) {
            return Err(hinted(
                "failed",
                format!("`{path}` has the attribute `{filter}`: git would put a program in between."),
                "no such program runs here; the user has to commit this file with git",
            ));
        }
        let too_large = || {
            let size = limits::GIT_COMMIT_FILE_BYTES_MAX / (1024 * 1024);
            failure(
                "limit",
                format!("`{path}` is larger than {size} MiB, so it is not committed."),
            )
        };
        if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > limits::GIT_COMMIT_FILE_BYTES_MAX {
            return Err(too_large());
        }
        let inside = self.git.inside(path);
        let mut writer = self
            .git
            .repository
            .blob_writer(Some(Path::new(&inside)))
            .map_err(|error| git_failure(&error))?;
        let copied = io::copy(&mut file.take(limits::GIT_COMMIT_FILE_BYTES_MAX + 1), &mut writer)
            .and_then(|copied| writer.flush().map(|()| copied))
            .map_err(|error| failure("failed", format!("`{path}` could not be stored: {error}.")))?;
        if copied > limits::GIT_COMMIT_FILE_BYTES_MAX {
            return Err(too_large());
        }
        let id = writer.commit().map_err(|error| git_failure(&error))?;
        let mode = self.mode(stat.st_mode, old);
        Ok(Stored { id, mode, stat })
    }

    /// git knows two modes of a file; with `core.fileMode` off it keeps the one it has.
    fn mode(&self, raw: u32, old: Option<(Oid, u32)>) -> u32 {
        let config = self
            .git
            .repository
            .config()
            .and_then(|config| config.get_bool("core.filemode"));
        let files = [FileMode::Blob, FileMode::BlobExecutable].map(u32::from);
        match old {
            Some((_, mode)) if config.is_ok_and(|trusted| !trusted) && files.contains(&mode) => mode,
            _ if raw & 0o100 != 0 => files[1],
            _ => files[0],
        }
    }

    /// The tree of the commit: the last one with the chosen entries changed. Nothing but objects is written.
    fn tree(&self, entries: &[Chosen]) -> Result<Oid, Failure> {
        let build = || {
            let mut index = Index::new()?;
            if let Some(before) = self.before {
                index.read_tree(before)?;
            }
            // Removals first: a directory may take the place of a file.
            for entry in entries.iter().filter(|entry| entry.new.is_none()) {
                index.remove_path(Path::new(&self.git.inside(&entry.path)))?;
            }
            for entry in entries {
                if let Some(new) = &entry.new {
                    index.add(&index_entry(self.git.inside(&entry.path), new))?;
                }
            }
            index.write_tree_to(&self.git.repository)
        };
        build().map_err(|error: git2::Error| git_failure(&error))
    }

    /// What the user is asked: message, author, branch and the exact diff.
    fn question(
        &self,
        entries: &[Chosen],
        tree: Oid,
        message: &str,
        branch: Option<&str>,
        author: &str,
    ) -> Result<Question, Failure> {
        let subject = message.lines().next().unwrap_or_default();
        let files = match entries.len() {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        let branch = branch.map_or_else(|| "a detached head".to_owned(), |branch| format!("branch {branch}"));
        let mut detail = format!("Commit {files} on {branch} as {author}\n\n");
        for line in message.lines() {
            let indent = if line.is_empty() { "" } else { "    " };
            let _ = writeln!(detail, "{indent}{line}");
        }
        let _ = writeln!(detail, "\ntree {tree}\n");
        for entry in entries {
            let text = self.change(entry)?;
            if detail.len() + text.len() > limits::GIT_QUESTION_BYTES_MAX {
                let verb = if entry.new.is_some() { "changed" } else { "removed" };
                let _ = writeln!(detail, "{verb}: {} (its diff is too long to show)", entry.path);
            } else {
                detail.push_str(&text);
            }
        }
        Ok(Question {
            effect: Effect::CommitGit,
            title: format!("Commit {files}: {subject}"),
            detail,
        })
    }

    fn change(&self, entry: &Chosen) -> Result<String, Failure> {
        let old = self.committed(&entry.path);
        let before = self.content(&entry.path, old.map(|(id, _)| id))?;
        let after = self.content(&entry.path, entry.new.as_ref().map(|new| new.id))?;
        let large = [&before, &after].contains(&&Content::TooLarge);
        let path = entry.path.as_str();
        let old = side(path, old.map(|(_, mode)| mode), &before);
        let new = side(path, entry.new.as_ref().map(|new| new.mode), &after);
        let rendered = patch::render(old.as_ref(), new.as_ref(), 3, limits::GIT_PATCH_BYTES_MAX)
            .map_err(|error| git_failure(&error))?;
        if large || rendered.binary {
            return Ok(format!("changed: {path} (not text, or too large to show)\n"));
        }
        Ok(rendered.patch)
    }

    fn content(&self, path: &str, id: Option<Oid>) -> Result<Content, Failure> {
        match id {
            None => Ok(Content::Absent),
            Some(id) => content::of_blob(self.git, self.repository, path, id).map_err(|error| git_failure(&error)),
        }
    }
}

fn side<'a>(path: &'a str, mode: Option<u32>, content: &'a Content) -> Option<Side<'a>> {
    let Content::Bytes(content) = content else { return None };
    Some(Side {
        path,
        mode: mode?,
        content,
    })
}

/// Commits what was prepared, provided that the branch has not moved meanwhile.
fn finish(repository: &Repository, prepared: &Prepared, watch: &Watch) -> Result<Commit, Failure> {
    let git = Git::open(repository.root())?;
    refuse_special_states(&git)?;
    let author = author(&git)?;
    let parent = git.head()?;
    if parent.as_ref().map(git2::Commit::id) != prepared.parent || git.branch() != prepared.branch {
        return Err(hinted(
            "failed",
            "The branch has moved since the commit was prepared.",
            "try again, so that the commit is prepared on the new state",
        ));
    }
    let tree = git
        .repository
        .find_tree(prepared.tree)
        .map_err(|error| git_failure(&error))?;
    if !watch.begin_commit() {
        return Err(cancelled());
    }
    let parents = parent.iter().collect::<Vec<_>>();
    // Updates the branch only if it still is at the parent, and writes the reflogs.
    let id = git
        .repository
        .commit(Some("HEAD"), &author, &author, &prepared.message, &tree, &parents)
        .map_err(|error| git_failure(&error))?;
    update_index(&git, &prepared.entries).map_err(|error| {
        hinted(
            "failed",
            format!(
                "The commit {id} was made, but git's index could not be updated: {}.",
                error.message()
            ),
            "the user can mend it with: git reset",
        )
    })?;
    Ok(Commit {
        id: id.to_string(),
        branch: prepared.branch.clone(),
        author: prepared.author.clone(),
        files: prepared.entries.iter().map(|entry| entry.path.clone()).collect(),
    })
}

/// Makes the index agree with the commit for its paths; all other entries stay as they are.
fn update_index(git: &Git, entries: &[Chosen]) -> Result<(), git2::Error> {
    let mut index = git.repository.index()?;
    index.read(true)?;
    for entry in entries.iter().filter(|entry| entry.new.is_none()) {
        index.remove_path(Path::new(&git.inside(&entry.path)))?;
    }
    for entry in entries {
        if let Some(new) = &entry.new {
            index.add(&index_entry(git.inside(&entry.path), new))?;
        }
    }
    index.write()
}

/// An entry with what the file system said when the content was read: a file that was changed since differs in it, and
/// git looks again.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "git's index keeps the lower 32 bits of each, and the types differ between platforms"
)]
fn index_entry(path: String, stored: &Stored) -> IndexEntry {
    let stat = &stored.stat;
    IndexEntry {
        ctime: IndexTime::new(stat.st_ctime as i32, stat.st_ctime_nsec as u32),
        mtime: IndexTime::new(stat.st_mtime as i32, stat.st_mtime_nsec as u32),
        dev: stat.st_dev as u32,
        ino: stat.st_ino as u32,
        mode: stored.mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        file_size: stat.st_size as u32,
        id: stored.id,
        flags: 0,
        flags_extended: 0,
        path: path.into_bytes(),
    }
}

#[cfg(test)]
mod tests;
