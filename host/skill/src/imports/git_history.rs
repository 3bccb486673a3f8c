//! `git-history`: commits, their changes, and the origin of lines. libgit2 finds them in a helper; this module
//! decides what may be shown.
//!
//! A path that is hidden in the work tree is hidden in every commit. It is never part of an answer, and its content
//! is never a side of a patch, even if a rename joins it with a visible path.
//!
//! Commits hold text of strangers, for example a fetched pull request or a contributor's message. Text of authors
//! outside of the user's team, and everything that `HEAD` does not contain, counts as text from outside.

mod blame;

use std::time::{Duration, Instant};

use super::git::messages::{CommitRecord, FileDelta, FileStatus, GitAnswer, GitRequest, ObjectId, WalkedCommits};
use super::git::patches::{self, PatchRoom, status_name, visible_path};
use super::git::{GitHelper, nonsense_failure, submodules};
use super::git_read::normal_paths;
use crate::CallContext;
use crate::imports::git::messages::{GIT_LOG_MESSAGE_BYTES_MAX, GIT_LOG_SKIP_MAX};
use crate::imports::git_read::GIT_CHANGES_MAX;
pub(super) use blame::read_blame as blame;
use tool_boundary::CallBudget;
use tool_boundary::Failure;
use tool_boundary::bindings::tool::skill::git_history::{
    Commit, CommitChange, CommitDiff, LogPage, LogQuery, ShowQuery,
};
use tool_core::authors::Team;
use tool_core::text::{clean_line, clean_text, truncate_text};
use tool_repository::normalise_path;

/// Commits on one page of a log.
const GIT_LOG_COMMITS_MAX: usize = 200;

/// Commits that one page of a log looks at before it ends early with a cursor: a few seconds of work.
const GIT_LOG_STEPS_MAX: usize = 20_000;

/// Length of a revision's name. Git refuses names of branches beyond this on most file systems.
const GIT_REVISION_BYTES_MAX: usize = 256;

/// Time after which a page of a log ends early, so that a long walk yields an answer before the call's time limit.
const LOG_TIME: Duration = Duration::from_secs(8);

/// Commits in one exchange with the helper, so that a cancelled call ends soon.
const STEPS_AT_ONCE: usize = 2_000;

/// Reads the history for one call, and records whose text the answer holds.
pub(super) struct HistoryCall<'a> {
    pub(super) call: &'a CallBudget,
    pub(super) context: &'a CallContext,
    pub(super) team: Team,
}

/// Limit for an author in a label, in bytes.
const AUTHOR_BYTES_MAX: usize = 100;

impl HistoryCall<'_> {
    /// Opens the repository that contains the paths. The repository of a submodule holds text of strangers.
    fn open_for(&self, paths: &[String]) -> Result<GitHelper, Failure> {
        let (git, submodule) = submodules::open_for(self.context, paths)?;
        if let Some(place) = submodule {
            self.call.note_outside(format!("the submodule `{place}`"));
        }
        Ok(git)
    }

    /// Taints the call if `HEAD` does not contain the commit that the answer begins with.
    fn note_standing(&self, git: &mut GitHelper, commit: &ObjectId) -> Result<(), Failure> {
        if !git.is_in_history(commit)? {
            let id = truncate_text(commit.as_str(), 12);
            self.call
                .note_outside(format!("commit `{id}`, which is not in the history of `HEAD`"));
        }
        Ok(())
    }

    /// Taints the call with authors outside of the user's team whose text the answer holds.
    fn note_authors<'c>(
        &self,
        git: &mut GitHelper,
        commits: impl IntoIterator<Item = &'c CommitRecord>,
    ) -> Result<(), Failure> {
        let own = git.user_emails()?;
        for commit in commits {
            if !self.team.includes(&commit.author_email, &own) {
                let author = clean_line(truncate_text(&commit.author, AUTHOR_BYTES_MAX)).replace('`', "'");
                self.call.note_outside(format!("a commit by `{author}`"));
            }
        }
        Ok(())
    }
}

/// Reads a page of the commits that a revision reaches.
pub(super) fn read_log(reading: &HistoryCall<'_>, query: &LogQuery) -> Result<LogPage, Failure> {
    let context = reading.context;
    let paths = shown_paths(context, &query.paths)?;
    let start = query.after.as_deref().map(LogCursor::parse).transpose()?;
    check_revision(query.revision.as_deref())?;
    let mut git = reading.open_for(&paths)?;
    let LogCursor { from, skip } = match start {
        Some(start) => start,
        None => match find_commit(&mut git, query.revision.as_deref())? {
            Some(commit) => LogCursor {
                from: commit.id,
                skip: 0,
            },
            None => {
                return Ok(LogPage {
                    commits: Vec::new(),
                    next: None,
                });
            }
        },
    };
    reading.note_standing(&mut git, &from)?;
    git.tell(&GitRequest::BeginWalk {
        from: from.clone(),
        skip,
        paths,
    })?;
    let wanted = usize::try_from(query.count)
        .unwrap_or(usize::MAX)
        .clamp(1, GIT_LOG_COMMITS_MAX);
    let (mut commits, mut steps) = (Vec::new(), 0);
    let started = Instant::now();
    loop {
        let commits_max = wanted - commits.len();
        let walked = walk_part(&mut git, commits_max)?;
        steps += walked.steps;
        reading.note_authors(&mut git, &walked.commits)?;
        commits.extend(walked.commits.into_iter().map(commit_out));
        let is_over = commits.len() >= wanted || steps >= GIT_LOG_STEPS_MAX || started.elapsed() > LOG_TIME;
        if walked.is_end || is_over {
            let skip = skip.saturating_add(steps);
            let next = (!walked.is_end).then(|| LogCursor { from, skip }.to_string());
            return Ok(LogPage { commits, next });
        }
    }
}

/// Reads a part of the walk.
fn walk_part(git: &mut GitHelper, commits_max: usize) -> Result<WalkedCommits, Failure> {
    let request = GitRequest::Walk {
        commits_max,
        steps_max: STEPS_AT_ONCE,
    };
    match git.ask(&request)? {
        GitAnswer::Walked(walked)
            if walked.commits.len() <= commits_max
                && walked.steps <= STEPS_AT_ONCE
                && (walked.is_end || walked.steps > 0) =>
        {
            Ok(walked)
        }
        _ => Err(nonsense_failure()),
    }
}

/// Reads one commit with its changes.
pub(super) fn show_commit(reading: &HistoryCall<'_>, query: &ShowQuery) -> Result<CommitDiff, Failure> {
    let context = reading.context;
    let paths = shown_paths(context, &query.paths)?;
    check_revision(query.revision.as_deref())?;
    let mut git = reading.open_for(&paths)?;
    let Some(commit) = find_commit(&mut git, query.revision.as_deref())? else {
        return Err(no_commits());
    };
    reading.note_standing(&mut git, &commit.id)?;
    reading.note_authors(&mut git, [&commit])?;
    let count = git.count(&GitRequest::DiffCommit {
        id: commit.id.clone(),
        paths,
    })?;
    let count = patches::find_renames(&mut git, &context.repository, count)?;
    let mut reader = CommitReader {
        context,
        git,
        room: PatchRoom::new(query.context_lines),
        changes: Vec::new(),
        is_cut: false,
    };
    reader.read(count)?;
    Ok(CommitDiff {
        commit: commit_out(commit),
        changes: reader.changes,
        truncated: reader.is_cut || reader.room.is_cut,
    })
}

/// Taints the call if a commit shows files that other people wrote. A deleted file is judged by its path alone.
pub(super) fn note_places(call: &CallBudget, context: &CallContext, diff: &CommitDiff) {
    for change in &diff.changes {
        note_place(call, context, &change.path);
        if let Some(old) = &change.old_path {
            call.note_stored_place(old, true);
        }
    }
}

/// Taints the call if the file is in a place of other people.
pub(super) fn note_place(call: &CallBudget, context: &CallContext, path: &str) {
    let Ok(path) = &normalise_path(path) else { return };
    let repository = &context.repository;
    let is_listed = || repository.list(&call.token).is_ok_and(|list| list.find(path).is_some());
    call.note_stored_place(path, !repository.is_there(path) || is_listed());
}

/// Collects the changes of one commit.
struct CommitReader<'a> {
    context: &'a CallContext,
    git: GitHelper,
    room: PatchRoom,
    changes: Vec<CommitChange>,
    is_cut: bool,
}

impl CommitReader<'_> {
    fn read(&mut self, count: usize) -> Result<(), Failure> {
        let mut from = 0;
        while from < count && !self.is_cut {
            let page = self.git.deltas(from)?;
            from += page.len();
            for delta in &page {
                self.add(delta)?;
            }
        }
        Ok(())
    }

    /// Adds one change, unless it is hidden.
    fn add(&mut self, delta: &FileDelta) -> Result<(), Failure> {
        let repository = &self.context.repository;
        let shown = |path: &Option<String>| {
            path.as_deref()
                .and_then(|path| visible_path(repository, path))
                .map(str::to_owned)
        };
        let Some(path) = shown(&delta.path) else {
            return Ok(());
        };
        let old_path = match delta.status {
            FileStatus::Renamed => match shown(&delta.old_path) {
                Some(old_path) => Some(old_path),
                None => return Err(nonsense_failure()),
            },
            _ => None,
        };
        if self.changes.len() >= GIT_CHANGES_MAX {
            self.is_cut = true;
            return Ok(());
        }
        let old_id = delta.old.as_ref().filter(|_| delta.status != FileStatus::Added);
        let new_id = delta.new.as_ref().filter(|_| delta.status != FileStatus::Deleted);
        let before = old_path.as_deref().unwrap_or(&path);
        let old_side = old_id.map(|id| (id, delta.old_mode));
        let new_side = new_id.map(|id| (id, delta.new_mode));
        let old = patches::load_stored(&mut self.git, repository, before, old_side)?;
        let new = patches::load_stored(&mut self.git, repository, &path, new_side)?;
        let is_binary = self.git.attributes(&path)?.binary;
        let (old, new) = ((before, delta.old_mode, &old), (path.as_str(), delta.new_mode, &new));
        let Some(rendered) = self.room.render(old, new, is_binary) else {
            return Ok(());
        };
        self.changes.push(CommitChange {
            path,
            old_path,
            status: status_name(delta.status).to_owned(),
            patch: rendered.patch,
            added_lines: rendered.added,
            removed_lines: rendered.removed,
            binary: rendered.is_binary,
        });
        Ok(())
    }
}

/// Cursor of a log: the commit that it began with, and the number of commits examined.
#[derive(Debug, PartialEq, Eq)]
struct LogCursor {
    from: ObjectId,
    skip: usize,
}

impl LogCursor {
    fn parse(text: &str) -> Result<Self, Failure> {
        let parse = || {
            let (from, skip) = text.split_once(':')?;
            let skip = skip.parse().ok().filter(|&skip| skip <= GIT_LOG_SKIP_MAX)?;
            let from = ObjectId::try_from(from.to_owned()).ok()?;
            Some(Self { from, skip })
        };
        parse().ok_or_else(|| {
            Failure::invalid_arguments("This is not the `next` of a page of a log.")
                .with_hint("ask without `after` for the first page")
        })
    }
}

impl std::fmt::Display for LogCursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.from, self.skip)
    }
}

/// Paths in normal form. A hidden path is refused, because the commits that touch it would reveal it.
fn shown_paths(context: &CallContext, paths: &[String]) -> Result<Vec<String>, Failure> {
    let paths = normal_paths(paths)?;
    for path in &paths {
        check_shown(context, path)?;
    }
    Ok(paths)
}

fn check_shown(context: &CallContext, path: &str) -> Result<(), Failure> {
    let repository = &context.repository;
    match repository.hidden(path, false).or_else(|| repository.hidden(path, true)) {
        Some(reason) if !path.is_empty() => Err(Failure::denied(format!(
            "`{}` is hidden in every commit, because it {reason}.",
            clean_line(path)
        ))),
        _ => Ok(()),
    }
}

/// Refuses everything but a plain revision name: ranges, searches, paths and entries of reference logs.
fn check_revision(name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else { return Ok(()) };
    let is_letter = |letter: char| letter.is_alphanumeric() || "_-./~^+@#=".contains(letter);
    let is_name = !name.is_empty()
        && name.len() <= GIT_REVISION_BYTES_MAX
        && name.chars().all(is_letter)
        && !name.starts_with(['-', '~', '^'])
        && !name.contains("..")
        && !name.contains("@{");
    if is_name {
        return Ok(());
    }
    Err(Failure::invalid_arguments(format!(
        "`{}` does not name one commit.",
        clean_line(truncate_text(name, 80))
    ))
    .with_hint("name a branch, a tag or a commit's id, with `~N` for an ancestor: `main`, `v1.2`, `1a2b3c4`, `main~3`"))
}

/// Finds the commit of a revision; `None` before the first commit.
fn find_commit(git: &mut GitHelper, name: Option<&str>) -> Result<Option<CommitRecord>, Failure> {
    let name = name.map(str::to_owned);
    match git.ask(&GitRequest::Revision { name })? {
        GitAnswer::Revision(commit) => Ok(commit),
        _ => Err(nonsense_failure()),
    }
}

fn no_commits() -> Failure {
    Failure::not_found("This repository has no commit yet.")
}

/// Removes control characters from the texts of a commit.
fn commit_out(commit: CommitRecord) -> Commit {
    let text = |text: &str| clean_text(truncate_text(text, GIT_LOG_MESSAGE_BYTES_MAX)).into_owned();
    Commit {
        id: commit.id.into(),
        parents: commit.parents.into_iter().map(String::from).collect(),
        author: clean_line(&text(&commit.author)),
        time: commit.made.seconds,
        offset_minutes: commit.made.offset_minutes,
        message: text(&commit.message),
    }
}

#[cfg(test)]
mod tests;
