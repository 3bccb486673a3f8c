//! The helper's side of the history: revisions, walks, changes of a commit, and the origin of lines.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::path::Path;

use git2::{BlameOptions, Commit, DiffOptions, ErrorCode, Oid};

use super::{OpenedGit, convert_id, convert_oid, error_message, git_failure};
use crate::imports::git::messages::{CommitRecord, CommitTime, LineOrigin, Lineage, ObjectId, WalkedCommits};
use crate::imports::git::messages::{GIT_BLAME_LINES_MAX, GIT_LOG_MESSAGE_BYTES_MAX, GIT_LOG_SKIP_MAX};
use tool_boundary::Failure;
use tool_core::authors::Team;
use tool_core::text::truncate_text;

/// Limit for the parents of a commit. An octopus merge has a handful.
const PARENTS_MAX: usize = 64;

/// Limit for commits between stored build output and the work tree. Beyond it, the build starts from nothing.
const LINEAGE_COMMITS_MAX: usize = 1000;

/// Limit for commits that are examined in a history with gaps, to find one of them.
const GAPPED_STEPS_MAX: usize = 10_000;

/// Limit for the user's e-mail addresses. People have a handful.
const USER_EMAILS_MAX: usize = 16;

impl OpenedGit {
    /// Resolves a revision. Without a name, the last commit; `None` before the first commit.
    pub(super) fn revision(&self, name: Option<&str>) -> Result<Option<CommitRecord>, Failure> {
        let Some(name) = name else {
            return self.head()?.as_ref().map(commit_record).transpose();
        };
        let unknown = |error: &git2::Error| {
            let message = format!("No commit is called `{name}`: {}.", error_message(error));
            Failure::not_found(message).with_hint("name a branch, a tag, or at least four digits of a commit's id")
        };
        let found = self
            .repository
            .revparse_single(name)
            .and_then(|object| object.peel_to_commit());
        match found {
            Ok(commit) => commit_record(&commit).map(Some),
            Err(error) if is_about_the_name(&error) => Err(unknown(&error)),
            Err(error) => Err(git_failure(&error)),
        }
    }

    /// The last commit, and the first of the `kept` commits from which only commits of the user and the team lead to
    /// it.
    pub(super) fn lineage(&self, kept: &[ObjectId], team: &Team) -> Result<Lineage, Failure> {
        let head = self.head()?;
        let follows = match &head {
            Some(head) => kept.iter().find(|kept| self.leads_by_own(kept, head.id(), team)),
            None => None,
        };
        Ok(Lineage {
            head: head.map(|head| convert_oid(head.id())).transpose()?,
            follows: follows.cloned(),
            is_settled: self.repository.state() == git2::RepositoryState::Clean,
        })
    }

    /// True if the user or the team wrote and committed every commit between the two. False if this cannot be
    /// decided.
    fn leads_by_own(&self, from: &ObjectId, to: Oid, team: &Team) -> bool {
        // In a shallow clone, the commits in between may be missing.
        let Ok(from) = convert_id(from) else { return false };
        if self.repository.is_shallow() || !self.repository.graph_descendant_of(to, from).unwrap_or(false) {
            return false;
        }
        let own = self.user_emails();
        let is_own =
            |signature: &git2::Signature<'_>| team.includes(&String::from_utf8_lossy(signature.email_bytes()), &own);
        let all_own = || -> Result<bool, git2::Error> {
            let mut walk = self.repository.revwalk()?;
            walk.push(to)?;
            walk.hide(from)?;
            for (number, commit) in walk.enumerate() {
                let commit = self.repository.find_commit(commit?)?;
                if number == LINEAGE_COMMITS_MAX || !is_own(&commit.author()) || !is_own(&commit.committer()) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        all_own().unwrap_or(false)
    }

    /// Compares a commit with its first parent.
    pub(super) fn diff_commit(&self, commit: &ObjectId, paths: &[String]) -> Result<git2::Diff<'_>, Failure> {
        let mut options = DiffOptions::new();
        options.disable_pathspec_match(true).include_typechange(true);
        for path in self.pathspecs(paths) {
            options.pathspec(path);
        }
        let mut compare = |id: Oid| -> Result<_, git2::Error> {
            let commit = self.repository.find_commit(id)?;
            let before = commit.parents().next().map(|parent| parent.tree()).transpose()?;
            let after = commit.tree()?;
            self.repository
                .diff_tree_to_tree(before.as_ref(), Some(&after), Some(&mut options))
        };
        compare(convert_id(commit)?).map_err(|error| git_failure(&error))
    }

    /// Stored content of a regular file or a link in a commit.
    pub(super) fn file_of(&self, commit: &ObjectId, path: &str) -> Result<Option<ObjectId>, Failure> {
        let tree = self
            .repository
            .find_commit(convert_id(commit)?)
            .and_then(|commit| commit.tree());
        let tree = tree.map_err(|error| git_failure(&error))?;
        let Some((found, _)) = entry_at(&tree, &self.inside(path))? else {
            return Ok(None);
        };
        match self.repository.find_blob(found) {
            Ok(blob) => convert_oid(blob.id()).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Finds the commits that last changed a range of lines.
    pub(super) fn blame(
        &self,
        commit: &ObjectId,
        path: &str,
        first_line: usize,
        last_line: usize,
    ) -> Result<Vec<LineOrigin>, Failure> {
        let mut options = BlameOptions::new();
        options
            .newest_commit(convert_id(commit)?)
            .min_line(first_line)
            .max_line(last_line);
        let inside = self.inside(path);
        let blame = self
            .repository
            .blame_file(Path::new(&inside), Some(&mut options))
            .map_err(|error| git_failure(&error))?;
        let mut origins = Vec::new();
        for hunk in blame.iter().take(GIT_BLAME_LINES_MAX) {
            let path = hunk.path().and_then(Path::to_str);
            origins.push(LineOrigin {
                first_line: hunk.final_start_line(),
                line_count: hunk.lines_in_hunk(),
                commit: convert_oid(hunk.final_commit_id())?,
                path: path.and_then(|path| self.ours(path.as_bytes())),
            });
        }
        Ok(origins)
    }

    /// The user's addresses on every level of git's configuration: a history has those of all the user's machines.
    pub(super) fn user_emails(&self) -> Vec<String> {
        let mut emails = Vec::new();
        let Ok(config) = self.repository.config() else {
            return emails;
        };
        let Ok(mut entries) = config.entries(Some("^(user|author)\\.email$")) else {
            return emails;
        };
        while let Some(Ok(entry)) = entries.next() {
            if let Ok(email) = entry.value()
                && emails.len() < USER_EMAILS_MAX
            {
                emails.push(truncate_text(email, GIT_LOG_MESSAGE_BYTES_MAX).to_owned());
            }
        }
        emails
    }

    /// True for `HEAD` and its ancestors. False if missing commits leave it open.
    pub(super) fn is_in_history(&self, commit: &ObjectId) -> Result<bool, Failure> {
        let wanted = convert_id(commit)?;
        let Some(head) = self.head()?.map(|head| head.id()) else {
            return Ok(false);
        };
        if head == wanted {
            return Ok(true);
        }
        match self.repository.graph_descendant_of(head, wanted) {
            Ok(is_descendant) => Ok(is_descendant),
            // In a shallow clone, the commits that exist decide.
            Err(_) => self.is_reached(head, wanted),
        }
    }

    fn is_reached(&self, head: Oid, wanted: Oid) -> Result<bool, Failure> {
        let mut walk = CommitWalk::begin_walk(self, &convert_oid(head)?, 0, &[])?;
        for _ in 0..GAPPED_STEPS_MAX {
            match walk.step_over_gaps(GIT_LOG_MESSAGE_BYTES_MAX) {
                Some(commit) if commit.id() == wanted => return Ok(true),
                Some(_) => {}
                None => break,
            }
        }
        Ok(false)
    }
}

/// True for an error about a revision that does not exist, or is ambiguous.
fn is_about_the_name(error: &git2::Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::NotFound | ErrorCode::Ambiguous | ErrorCode::InvalidSpec | ErrorCode::Peel
    )
}

/// A walk through the ancestors of a commit, newest first. Commits with the same time come in the order in which they
/// were reached, so that a child comes before its parents. libgit2's own walk orders them at random.
pub(super) struct CommitWalk<'a> {
    git: &'a OpenedGit,
    waiting: BinaryHeap<WaitingCommit>,
    seen: HashSet<Oid>,
    /// Paths in the work tree; empty if every commit is wanted.
    paths: Vec<String>,
}

/// A commit that the walk has reached: its time, the number of commits reached before it, and its id.
type WaitingCommit = (i64, Reverse<usize>, Oid);

impl<'a> CommitWalk<'a> {
    pub(super) fn begin_walk(
        git: &'a OpenedGit,
        from: &ObjectId,
        skip: usize,
        paths: &[String],
    ) -> Result<Self, Failure> {
        let mut walk = Self {
            git,
            waiting: BinaryHeap::new(),
            seen: HashSet::new(),
            paths: git.pathspecs(paths),
        };
        walk.reach(convert_id(from)?)?;
        for _ in 0..skip.min(GIT_LOG_SKIP_MAX) {
            if walk.step()?.is_none() {
                break;
            }
        }
        Ok(walk)
    }

    /// The next commit for a caller that accepts gaps: a commit that is missing, damaged or larger than
    /// `commit_bytes_max` is skipped, with the commits that only it leads to.
    pub(super) fn step_over_gaps(&mut self, commit_bytes_max: usize) -> Option<Commit<'a>> {
        let (_, _, id) = self.waiting.pop()?;
        let commit = self.find(id).ok()?;
        for parent in commit.parent_ids().take(PARENTS_MAX) {
            if self.git.has_size_within(parent, commit_bytes_max) {
                // Skip the parent on an error.
                let _ = self.reach(parent);
            }
        }
        Some(commit)
    }

    pub(super) fn step(&mut self) -> Result<Option<Commit<'a>>, Failure> {
        let Some((_, _, id)) = self.waiting.pop() else {
            return Ok(None);
        };
        let commit = self.find(id)?;
        for parent in commit.parent_ids().take(PARENTS_MAX) {
            self.reach(parent)?;
        }
        Ok(Some(commit))
    }

    fn reach(&mut self, id: Oid) -> Result<(), Failure> {
        if self.seen.len() < GIT_LOG_SKIP_MAX && self.seen.insert(id) {
            let time = self.find(id)?.time().seconds();
            self.waiting.push((time, Reverse(self.seen.len()), id));
        }
        Ok(())
    }

    fn find(&self, id: Oid) -> Result<Commit<'a>, Failure> {
        self.git.repository.find_commit(id).map_err(|error| git_failure(&error))
    }

    pub(super) fn read(&mut self, commits_max: usize, steps_max: usize) -> Result<WalkedCommits, Failure> {
        let mut walked = WalkedCommits {
            commits: Vec::new(),
            steps: 0,
            is_end: false,
        };
        while walked.steps < steps_max && walked.commits.len() < commits_max {
            let Some(commit) = self.step()? else {
                walked.is_end = true;
                break;
            };
            walked.steps += 1;
            if self.touches(&commit)? {
                walked.commits.push(commit_record(&commit)?);
            }
        }
        Ok(walked)
    }

    /// True if one of the wanted paths differs from every parent.
    fn touches(&self, commit: &Commit<'_>) -> Result<bool, Failure> {
        if self.paths.is_empty() {
            return Ok(true);
        }
        let entries = |commit: &Commit<'_>| -> Result<Vec<Option<(Oid, i32)>>, Failure> {
            let tree = commit.tree().map_err(|error| git_failure(&error))?;
            self.paths.iter().map(|path| entry_at(&tree, path)).collect()
        };
        let own = entries(commit)?;
        if commit.parent_count() == 0 {
            return Ok(own.iter().any(Option::is_some));
        }
        for parent in commit.parents().take(PARENTS_MAX) {
            if entries(&parent)? == own {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Object and mode at a path of a tree. The binding panics on a path that leaves the tree.
fn entry_at(tree: &git2::Tree<'_>, path: &str) -> Result<Option<(Oid, i32)>, Failure> {
    let path = Path::new(path);
    let is_plain = |part| matches!(part, std::path::Component::Normal(_));
    if path.as_os_str().is_empty() || !path.components().all(is_plain) {
        return Ok(None);
    }
    match tree.get_path(path) {
        Ok(entry) => Ok(Some((entry.id(), entry.filemode()))),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(git_failure(&error)),
    }
}

fn commit_record(commit: &Commit<'_>) -> Result<CommitRecord, Failure> {
    let author = commit.author();
    let when = author.when();
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        truncate_text(&text, GIT_LOG_MESSAGE_BYTES_MAX).to_owned()
    };
    let made = CommitTime {
        seconds: when.seconds(),
        offset_minutes: when.offset_minutes(),
    };
    Ok(CommitRecord {
        id: convert_oid(commit.id())?,
        parents: commit
            .parent_ids()
            .take(PARENTS_MAX)
            .map(convert_oid)
            .collect::<Result<Vec<_>, _>>()?,
        author: format!("{} <{}>", text(author.name_bytes()), text(author.email_bytes())),
        author_email: text(author.email_bytes()),
        made,
        message: text(commit.message_bytes()),
    })
}
