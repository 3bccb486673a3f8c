//! The repository's git directory, opened without letting anything in it act.
//!
//! libgit2 runs no hook, no external diff, no textconv, no fsmonitor and no `filter.*` driver: it has no code for the
//! first four, and of filters only its own two (line ends, `$Id$`). It is opened without `FROM_ENV`, so `GIT_*` in the
//! daemon's environment means nothing. What is left to check here is that the git directory belongs to the tree it lies
//! in: one that points elsewhere would show the user's other repositories to a model.
//!
//! Every use runs on a thread of its own with a deadline (see [`watched`]), because libgit2 opens some files of the
//! work tree (`.gitignore`, `.gitattributes`) itself, and cannot be interrupted.

pub(super) mod content;
pub(super) mod patch;

use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use git2::{ErrorCode, Repository, RepositoryOpenFlags};
use tokio_util::sync::CancellationToken;

use super::failure::{cancelled, failure, hinted};
use crate::limits;
use crate::skill::bindings::tool::skill::types::Failure;

/// An opened git repository, and where in its work tree our root lies.
pub(super) struct Git {
    /// libgit2's handle.
    pub(super) repository: Repository,
    /// Our root relative to the work tree, with a trailing `/`; empty where they are the same.
    prefix: String,
}

impl Git {
    /// Opens the git repository whose work tree is `root` or holds it.
    pub(super) fn open(root: &Path) -> Result<Self, Failure> {
        let (top, link) = find(root)?;
        check_link(&link)?;
        let flags = RepositoryOpenFlags::NO_SEARCH;
        let repository = Repository::open_ext(&top, flags, std::iter::empty::<&OsStr>())
            .map_err(|error| open_failure(&top, &error))?;
        check_belongs(&repository, &top, link.metadata.is_dir())?;
        let inside = root.strip_prefix(&top).unwrap_or(Path::new(""));
        let mut prefix = inside.to_string_lossy().into_owned();
        if !prefix.is_empty() {
            prefix.push('/');
        }
        Ok(Self { repository, prefix })
    }

    /// The path in the work tree for a path of ours; without a trailing `/` for our root itself.
    pub(super) fn inside(&self, path: &str) -> String {
        let path = format!("{}{path}", self.prefix);
        path.trim_end_matches('/').to_owned()
    }

    /// Our path for one in the work tree, where it lies beneath our root and is UTF-8.
    pub(super) fn ours<'a>(&self, path: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(path).ok()?.strip_prefix(self.prefix.as_str())
    }

    /// What to hand to libgit2 as literal paths: nothing where everything is meant.
    pub(super) fn pathspecs(&self, paths: &[String]) -> Vec<String> {
        if paths.iter().any(String::is_empty) || paths.is_empty() {
            return Some(self.inside(""))
                .filter(|prefix| !prefix.is_empty())
                .into_iter()
                .collect();
        }
        paths.iter().map(|path| self.inside(path)).collect()
    }

    /// The name of the current branch, born or not; absent on a detached head.
    pub(super) fn branch(&self) -> Option<String> {
        let head = self.repository.find_reference("HEAD").ok()?;
        let target = head.symbolic_target_bytes()?;
        let name = target.strip_prefix(b"refs/heads/")?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// The last commit; absent before the first.
    pub(super) fn head(&self) -> Result<Option<git2::Commit<'_>>, Failure> {
        match self.repository.head() {
            Ok(head) => Ok(Some(head.peel_to_commit().map_err(|error| git_failure(&error))?)),
            Err(error) if error.code() == ErrorCode::UnbornBranch => Ok(None),
            Err(error) => Err(git_failure(&error)),
        }
    }
}

/// `.git` as it lies in the work tree.
struct Link {
    path: PathBuf,
    metadata: Metadata,
}

/// The nearest directory from `root` upwards that holds a `.git`.
fn find(root: &Path) -> Result<(PathBuf, Link), Failure> {
    for directory in root.ancestors() {
        let path = directory.join(".git");
        if let Ok(metadata) = path.symlink_metadata() {
            return Ok((directory.to_owned(), Link { path, metadata }));
        }
    }
    Err(not_a_repository())
}

fn not_a_repository() -> Failure {
    hinted(
        "unavailable",
        "This is not a git repository.",
        "run `git init`, or work without git",
    )
}

/// A symbolic link could lead to any repository of the user, and a FIFO would never answer.
fn check_link(link: &Link) -> Result<(), Failure> {
    if !link.metadata.is_dir() && !link.metadata.is_file() {
        return Err(foreign(&link.path, "it is neither a directory nor a file"));
    }
    if link.metadata.is_dir() {
        return check_plain(&link.path);
    }
    Ok(())
}

/// The files by which a git directory says what it is must be files: a link could borrow those of another repository.
fn check_plain(directory: &Path) -> Result<(), Failure> {
    for name in ["HEAD", "config", "commondir", "gitdir", "index", "packed-refs"] {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(foreign(&path, "it is not a regular file"));
        }
    }
    for name in ["objects", "refs"] {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()) {
            return Err(foreign(&path, "it is not a directory"));
        }
    }
    Ok(())
}

/// Checks that the git directory names this work tree as its own.
///
/// A directory must be its own common directory. A file (of a worktree or a submodule) must lead to a git directory
/// that leads back: libgit2 has taken the work tree from there, so it is enough that it took it from there at all.
fn check_belongs(repository: &Repository, top: &Path, is_directory: bool) -> Result<(), Failure> {
    let Some(work_tree) = repository.workdir() else {
        return Err(not_a_repository());
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let git = real(repository.path());
    let common = real(repository.commondir());
    if real(work_tree) != real(top) {
        return Err(foreign(&git, "its work tree is another directory"));
    }
    if is_directory && (git != real(&top.join(".git")) || common != git) {
        return Err(foreign(&git, "it borrows from another repository"));
    }
    if !is_directory {
        let leads_back = repository.is_worktree() || local_work_tree(repository);
        if !leads_back {
            return Err(foreign(&git, "`.git` leads to it, but it does not lead back"));
        }
        check_plain(&git)?;
        check_plain(&common)?;
    }
    check_head(repository, &common)
}

/// True where the repository's own configuration names its work tree, as a submodule's does.
fn local_work_tree(repository: &Repository) -> bool {
    let Ok(config) = repository.config() else { return false };
    let Ok(local) = config.open_level(git2::ConfigLevel::Local) else {
        return false;
    };
    local.get_path("core.worktree").is_ok()
}

/// The branch's file must not be a link into another repository, either.
fn check_head(repository: &Repository, common: &Path) -> Result<(), Failure> {
    let Ok(head) = repository.head() else { return Ok(()) };
    let Ok(name) = head.name() else { return Ok(()) };
    let file = common.join(name);
    match file.canonicalize() {
        Ok(real) if !real.starts_with(common) => Err(foreign(&file, "it leads to another repository")),
        _ => Ok(()),
    }
}

fn foreign(path: &Path, why: &str) -> Failure {
    hinted(
        "unavailable",
        format!("The git directory is not used: `{}`: {why}.", path.display()),
        "a git directory is used only where it belongs to the repository's own work tree",
    )
}

fn open_failure(top: &Path, error: &git2::Error) -> Failure {
    match error.code() {
        ErrorCode::NotFound => not_a_repository(),
        ErrorCode::Owner => hinted(
            "unavailable",
            "The git repository belongs to another user of this machine.",
            format!(
                "if you trust it: git config --global --add safe.directory {}",
                top.display()
            ),
        ),
        _ => failure(
            "unavailable",
            format!("The git repository cannot be opened: {}.", said(error)),
        ),
    }
}

/// An error of libgit2 that no rule of ours foresaw.
pub(super) fn git_failure(error: &git2::Error) -> Failure {
    match error.code() {
        ErrorCode::Locked => hinted(
            "failed",
            "Another git process holds the repository's lock.",
            "try again; if no git runs, remove `.git/index.lock`",
        ),
        _ => failure("failed", format!("git: {}.", said(error))),
    }
}

fn said(error: &git2::Error) -> &str {
    error.message().trim_end_matches('.')
}

const WORKING: u8 = 0;
const GIVEN_UP: u8 = 1;
const COMMITTING: u8 = 2;

/// What a piece of work and its watcher agree on: either it is given up, or it has begun what must not be left half done.
#[derive(Debug, Default)]
pub(super) struct Watch(AtomicU8);

impl Watch {
    /// True where nobody waits for the answer any more.
    pub(super) fn given_up(&self) -> bool {
        self.0.load(Ordering::Acquire) == GIVEN_UP
    }

    /// Begins what must be finished; false where it is too late for that.
    pub(super) fn begin_commit(&self) -> bool {
        self.0
            .compare_exchange(WORKING, COMMITTING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn give_up(&self) -> bool {
        self.0
            .compare_exchange(WORKING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// Threads at work, given up or not.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Counts a thread for as long as it lives.
struct Counted(&'static AtomicUsize);

impl Counted {
    fn new(threads: &'static AtomicUsize) -> Result<Self, Failure> {
        if threads.fetch_add(1, Ordering::AcqRel) >= limits::GIT_THREADS_MAX {
            threads.fetch_sub(1, Ordering::AcqRel);
            return Err(failure("unavailable", "Too many git operations are under way or hang."));
        }
        Ok(Self(threads))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Does `work` on a thread of its own and waits for it, at most until the session is cancelled or the time is over.
///
/// Work that is given up may go on until it next looks at its [`Watch`]; it has begun no change by then and will begin
/// none.
pub(super) fn watched<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce(&Watch) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let counted = Counted::new(&THREADS)?;
    let watch = Arc::new(Watch::default());
    let (answer, answered) = mpsc::sync_channel(1);
    let theirs = Arc::clone(&watch);
    let body = move || {
        let _counted = counted;
        // Nobody may be waiting any more.
        let _ = answer.send(work(&theirs));
    };
    std::thread::Builder::new()
        .name("git".to_owned())
        .spawn(body)
        .map_err(|error| failure("unavailable", format!("No thread for git could be started: {error}.")))?;
    let deadline = Instant::now() + limits::seconds(limits::GIT_SECONDS_MAX);
    loop {
        match answered.recv_timeout(Duration::from_millis(20)) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => return Err(failure("failed", "git ended without an answer.")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let too_late = Instant::now() >= deadline;
        if (too_late || cancel.is_cancelled()) && watch.give_up() {
            return Err(if too_late { took_too_long() } else { cancelled() });
        }
    }
}

fn took_too_long() -> Failure {
    let seconds = limits::GIT_SECONDS_MAX;
    failure(
        "limit",
        format!("git took longer than {seconds} seconds and was given up."),
    )
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
