//! The engine's side of git: chooses the git directory, and starts a helper that reads it.
//!
//! libgit2 parses packs, objects, indexes and configurations that an attacker may have written, in C. So it runs in a
//! confined process (`process::confine`), for one diff or one commit. That process may read the git directory, the
//! object folders that it borrows from, the work tree and the user's git configuration, and may write only to a new
//! folder for objects. This side decides on the results: it leaves hidden names out, reads files of the work tree
//! through the guard, judges contents, asks questions, and moves branches and index.
//!
//! libgit2 runs no hook, external diff, textconv, fsmonitor or `filter.*` driver: it has no code for the first four,
//! and only two built-in filters (line ends, `$Id$`). Of the caller's `GIT_*` variables the helper gets only those
//! for author, committer and dates. On a machine that cannot confine a helper, a thread of this process does the same
//! work.

pub(super) mod content;
mod format;
pub(super) mod layout;
pub(super) mod lfs;
mod linked_directories;
pub(super) mod lock;
pub(super) mod messages;
pub(super) mod patches;
pub(super) mod publish;
pub(super) mod recover;
mod stand_in;
pub(super) mod submodules;
pub(super) mod worker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use self::layout::GitDirectories;
use self::messages::{Attributes, FileDelta, GitAnswer, GitRequest, ObjectId, Submodule};
use crate::compile::error_chain;
use crate::helper_task::{GitPerson, GitTask, HelperTask};
use crate::imports::git::messages::GIT_PAGE;
use crate::limits;
use crate::{CallContext, Question};
use tool_boundary::{Failure, FailureKind, call_cancelled, consent};
use tool_core::api::{Effect, PolicyRequest};
use tool_core::text::clean_text;
use tool_repository::Repository;
use tool_sandbox::helper_process::{self, Helper, HelperDeadline, HelperError, HelperRights};
use tool_sandbox::scratch::ScratchFolder;

/// Longest that a question to git may take. Hashing a large tree whose index is stale takes seconds, not minutes; the
/// call's own limit ends it earlier.
const GIT_SECONDS_MAX: u64 = 60;

/// Git operations at the same time. Where no helper does them, those that were given up and still hang count.
const GIT_OPERATIONS_MAX: usize = 16;

/// Memory of one helper for git. Storing a file of the largest size with its line ends changed takes three times it.
const GIT_MEMORY_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Addresses of one helper for git: its memory, this program, and windows into packs and their indices.
const GIT_ADDRESS_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Changes that are looked at for one diff or one commit, hidden ones included: a checkout of a very large project whose
/// every file was touched.
const GIT_DELTAS_MAX: usize = 500_000;

/// Largest file that a helper writes: a stored file, or an index.
const GIT_FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Bytes that are shown of a helper's error message.
const GIT_MESSAGE_SHOWN_BYTES_MAX: usize = 2 * 1024;

/// A helper with the repository open.
pub(super) struct GitHelper {
    helper: Helper,
    until: HelperDeadline,
    pub(super) layout: GitDirectories,
    /// Folder that libgit2 reads instead of a git directory with reference tables.
    _stand_in: Option<ScratchFolder>,
    /// Absent for a thread, which holds the count as long as it lives.
    _counted: Option<OperationCount>,
}

impl GitHelper {
    /// Opens the git repository whose work tree contains the session's root. With a `scratch` folder, the helper can
    /// make objects.
    pub(super) fn open(context: &CallContext, scratch: Option<&Path>) -> Result<Self, Failure> {
        let layout = layout_of(context)?;
        Self::start_helper(context, layout, None, scratch)
    }

    /// Opens the submodule at `place`, or the root's repository without one.
    pub(super) fn open_at(context: &CallContext, place: Option<&str>, scratch: Option<&Path>) -> Result<Self, Failure> {
        let layout = layout_at(context, place)?;
        Self::start_helper(context, layout, place, scratch)
    }

    fn start_helper(
        context: &CallContext,
        layout: GitDirectories,
        place: Option<&str>,
        scratch: Option<&Path>,
    ) -> Result<Self, Failure> {
        layout.format.check()?;
        let counted = OperationCount::new(&OPERATIONS)?;
        let until = HelperDeadline::within(question_timeout(), &context.cancel);
        let (stand_in, stand_in_task) = if layout.format.has_tables() {
            let (folder, task) = stand_in::prepare_stand_in(&layout, context.repository.state_directory())?;
            (Some(folder), Some(task))
        } else {
            (None, None)
        };
        let task = GitTask {
            stand_in: stand_in_task,
            ..helper_task(context, &layout, place, scratch)
        };
        let written = [scratch, stand_in.as_ref().map(ScratchFolder::path)];
        if let Err(why) = helper_process::has_helper() {
            require_sandbox(context, why)?;
            let work = move |connection| {
                let _counted = counted;
                worker::serve_requests(connection, &task);
            };
            let helper = Helper::on_thread(work).map_err(explain_error)?;
            return Ok(Self {
                helper,
                until,
                layout,
                _stand_in: stand_in,
                _counted: None,
            });
        }
        let helper = Helper::start(
            &helper_walls(&layout, written),
            &HelperTask::Git(Box::new(task)),
            &until,
        )
        .map_err(explain_error)?;
        if let Some(why) = helper.confinement().missing() {
            require_sandbox(context, &why)?;
        }
        Ok(Self {
            helper,
            until,
            layout,
            _stand_in: stand_in,
            _counted: Some(counted),
        })
    }

    /// Sends a request with bytes, and receives an answer with bytes.
    pub(super) fn exchange(
        &mut self,
        request: &GitRequest,
        body: &[u8],
        body_bytes_max: usize,
    ) -> Result<(GitAnswer, Vec<u8>), Failure> {
        let answer = self.helper.ask(request, body, body_bytes_max, &self.until);
        match answer.map_err(explain_error)? {
            (GitAnswer::Failed { code, message, hint }, _) => Err(helper_failure(code, &message, hint.as_deref())),
            answer => Ok(answer),
        }
    }

    /// Sends a request without bytes.
    pub(super) fn ask(&mut self, request: &GitRequest) -> Result<GitAnswer, Failure> {
        Ok(self.exchange(request, &[], 0)?.0)
    }

    /// Sends a request whose only answer is success.
    pub(super) fn tell(&mut self, request: &GitRequest) -> Result<(), Failure> {
        match self.ask(request)? {
            GitAnswer::Done => Ok(()),
            _ => Err(nonsense_failure()),
        }
    }

    /// Name of the current branch, with or without commits; `None` on a detached head.
    pub(super) fn branch(&mut self) -> Result<Option<String>, Failure> {
        match self.ask(&GitRequest::Branch)? {
            GitAnswer::Branch(name) => Ok(name.map(|name| clean_text(&name).into_owned())),
            _ => Err(nonsense_failure()),
        }
    }

    /// The user's e-mail addresses in git's configuration.
    pub(super) fn user_emails(&mut self) -> Result<Vec<String>, Failure> {
        match self.ask(&GitRequest::UserEmails)? {
            GitAnswer::UserEmails(emails) => Ok(emails),
            _ => Err(nonsense_failure()),
        }
    }

    /// True if `commit` is `HEAD` or an ancestor of it. False if this cannot be decided.
    pub(super) fn is_in_history(&mut self, commit: &ObjectId) -> Result<bool, Failure> {
        let commit = commit.clone();
        match self.ask(&GitRequest::IsInHistory { commit })? {
            GitAnswer::IsInHistory(is_in_history) => Ok(is_in_history),
            _ => Err(nonsense_failure()),
        }
    }

    pub(super) fn attributes(&mut self, path: &str) -> Result<Attributes, Failure> {
        let path = path.to_owned();
        match self.ask(&GitRequest::Attributes { path })? {
            GitAnswer::Attributes(mut attributes) => {
                attributes.external_filter = attributes.external_filter.map(|filter| cut_message(&filter));
                Ok(attributes)
            }
            _ => Err(nonsense_failure()),
        }
    }

    /// Object and mode of a file in the index; `None` if it is not there.
    pub(super) fn staged(&mut self, path: &str) -> Result<Option<(ObjectId, u32)>, Failure> {
        let path = path.to_owned();
        match self.ask(&GitRequest::Staged { path })? {
            GitAnswer::Staged(staged) => Ok(staged),
            _ => Err(nonsense_failure()),
        }
    }

    /// Reads a stored content; `None` if it is larger than `bytes_max`.
    pub(super) fn blob(&mut self, id: &ObjectId, bytes_max: u64) -> Result<Option<Vec<u8>>, Failure> {
        let id = id.clone();
        let room = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        match self.exchange(&GitRequest::Blob { id, bytes_max }, &[], room)? {
            (GitAnswer::Blob, content) => Ok(Some(content)),
            (GitAnswer::TooLarge, _) => Ok(None),
            _ => Err(nonsense_failure()),
        }
    }

    /// Compares, and returns the number of changes, at most `GIT_DELTAS_MAX`.
    pub(super) fn count(&mut self, request: &GitRequest) -> Result<usize, Failure> {
        match self.ask(request)? {
            GitAnswer::Counted(count) => Ok(count.min(GIT_DELTAS_MAX)),
            _ => Err(nonsense_failure()),
        }
    }

    /// Submodules whose paths are not hidden.
    pub(super) fn submodules(&mut self, repository: &Repository) -> Result<Vec<Submodule>, Failure> {
        match self.ask(&GitRequest::Submodules)? {
            GitAnswer::Submodules(mut found) => {
                found.retain(|submodule| patches::visible_path(repository, &submodule.path).is_some());
                Ok(found)
            }
            _ => Err(nonsense_failure()),
        }
    }

    /// Reads a page of the last comparison.
    pub(super) fn deltas(&mut self, from: usize) -> Result<Vec<FileDelta>, Failure> {
        match self.ask(&GitRequest::Deltas { from })? {
            GitAnswer::Deltas(deltas) if !deltas.is_empty() && deltas.len() <= GIT_PAGE => Ok(deltas),
            _ => Err(nonsense_failure()),
        }
    }
}

/// Finds git's directories, and asks the user about directories outside the work tree.
pub(super) fn layout_of(context: &CallContext) -> Result<GitDirectories, Failure> {
    let layout = GitDirectories::find(context.repository.root())?;
    ask_for_places(context, &layout)?;
    Ok(layout)
}

/// As [`layout_of`], for the submodule at `place`.
pub(super) fn layout_at(context: &CallContext, place: Option<&str>) -> Result<GitDirectories, Failure> {
    let Some(place) = place else {
        return layout_of(context);
    };
    let layout = GitDirectories::exactly_at(&context.repository.root().join(place))?;
    ask_for_places(context, &layout)?;
    Ok(layout)
}

/// Accepts a path of a helper's answer only in normal form. Other paths are ignored.
pub(super) fn plain_path(path: &str) -> Option<&str> {
    let normal = tool_repository::normalise_path(path).ok()?;
    (normal == path && !path.is_empty()).then_some(path)
}

/// True if the user has to be asked before git is used. The answer may take any time.
pub(super) fn must_ask(context: &CallContext) -> bool {
    GitDirectories::find(context.repository.root()).is_ok_and(|layout| !unapproved_places(context, &layout).is_empty())
}

/// Directories outside the work tree that the user has not approved yet.
fn unapproved_places(context: &CallContext, layout: &GitDirectories) -> BTreeSet<PathBuf> {
    let files = context.files.lock().unwrap_or_else(PoisonError::into_inner);
    layout.elsewhere().difference(&files.git_elsewhere).cloned().collect()
}

/// Asks once about the directories outside the work tree.
fn ask_for_places(context: &CallContext, layout: &GitDirectories) -> Result<(), Failure> {
    let strange = unapproved_places(context, layout);
    if strange.is_empty() {
        return Ok(());
    }
    let list = strange
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>();
    let denied = |why: &str| {
        Failure::denied(format!(
            "git's data of this work tree lies outside of it, in `{}`, and {why}.",
            list.join("`, `")
        ))
        .with_hint("the user can answer on a terminal, or work in a clone that has its own git directory")
    };
    if !context.can_ask(Effect::ReadGit) {
        return Err(denied("no user can be asked whether to use it"));
    }
    let detail = format!(
        "The work tree {} keeps its git data elsewhere. Reading it shows what is stored there:\n\n{}\n",
        layout.top.display(),
        list.join("\n")
    );
    let question = Question::new(Effect::ReadGit, "Use git data outside of the repository", &detail);
    if !consent::user_agrees(context, &question) {
        let refused = consent::not_asked(context);
        return Err(refused.unwrap_or_else(|| denied("the user did not agree to use it")));
    }
    let mut files = context.files.lock().unwrap_or_else(PoisonError::into_inner);
    files.git_elsewhere.extend(strange);
    Ok(())
}

/// Asks once for each repository whether commits may write to a git directory that belongs to the work tree and is
/// outside of it. A yes is stored in the user's home.
pub(super) fn admit_commit(context: &CallContext, layout: &GitDirectories) -> Result<(), Failure> {
    let Some(place) = unapproved_git_directory(context, layout) else {
        return Ok(());
    };
    let shown = place.display();
    let denied = |why: &str| {
        Failure::denied(format!(
            "A commit of this work tree writes to git data outside of it, in `{shown}`, and {why}."
        ))
        .with_hint(format!(
            "only the user can allow it, with {}, or once on a terminal",
            context
                .policy
                .grant_text(&PolicyRequest::allowing_path(&shown.to_string()))
        ))
    };
    if !context.can_ask(Effect::CommitGit) {
        return Err(denied("no user can be asked whether it may"));
    }
    let detail = format!(
        "The work tree {} keeps its git data elsewhere. Commits write there:\n\n{shown}\n\nA yes counts for all work trees \
         of this repository, and is kept.\n",
        layout.top.display()
    );
    let question = Question::new(
        Effect::CommitGit,
        "Let commits write to git data outside of the repository",
        &detail,
    );
    if !consent::user_agrees(context, &question) {
        let refused = consent::not_asked(context);
        return Err(refused.unwrap_or_else(|| denied("the user did not agree to it")));
    }
    let kept = context
        .repository
        .state_directory()
        .map(|home| linked_directories::keep_place(home, place));
    if let Some(Err(error)) = kept {
        tracing::warn!(%error, "the answer to a question about git data cannot be kept");
    }
    Ok(())
}

/// True if the user has to be asked before a commit is prepared.
pub(super) fn must_ask_to_commit(context: &CallContext) -> bool {
    let layout = GitDirectories::find(context.repository.root());
    layout.is_ok_and(|layout| {
        !unapproved_places(context, &layout).is_empty() || unapproved_git_directory(context, &layout).is_some()
    })
}

/// The git directory outside the work tree that a commit would write to, unless the user has allowed it.
fn unapproved_git_directory<'a>(context: &CallContext, layout: &'a GitDirectories) -> Option<&'a Path> {
    let place = layout.linked()?;
    let allowed = context.policy.allow_paths();
    let home = context.repository.state_directory();
    let is_allowed = |place: &Path| {
        let is_named = allowed.iter().any(|path| Path::new(path) == place);
        is_named || home.is_some_and(|home| linked_directories::is_kept(home, place))
    };
    let is_inside = place.starts_with(context.repository.root());
    // Git directories of submodules are inside that of their repository.
    (!is_inside && !place.ancestors().any(is_allowed)).then_some(place)
}

/// Fails if the user requires a sandbox that this machine does not have.
fn require_sandbox(context: &CallContext, why: &str) -> Result<(), Failure> {
    if context.policy.requires_sandbox() {
        Err(Failure::unavailable(format!(
            "A full sandbox is required, and git cannot be confined here: {why}."
        ))
        .with_hint(format!(
            "the user can leave out {}",
            context.policy.required_sandbox_text()
        )))
    } else {
        Ok(())
    }
}

fn helper_task(context: &CallContext, layout: &GitDirectories, place: Option<&str>, scratch: Option<&Path>) -> GitTask {
    let variable = |name: &str| context.environment.get(name).map(PathBuf::from);
    GitTask {
        root: context.repository.root().join(place.unwrap_or_default()),
        top: layout.top.clone(),
        above: place.map(|place| format!("{place}/")).unwrap_or_default(),
        is_directory: layout.is_directory,
        scratch: scratch.map(Path::to_owned),
        stand_in: None,
        home: variable("HOME").or_else(std::env::home_dir),
        config_home: variable("XDG_CONFIG_HOME"),
        author: person_of(context, "AUTHOR"),
        committer: person_of(context, "COMMITTER"),
    }
}

/// Author or committer from the caller's environment.
fn person_of(context: &CallContext, role: &str) -> GitPerson {
    let variable = |what: &str| context.environment.get(&format!("GIT_{role}_{what}"));
    let filled = |what: &str| variable(what).filter(|value| !value.is_empty()).cloned();
    GitPerson {
        name: filled("NAME"),
        email: filled("EMAIL"),
    }
}

fn helper_walls(layout: &GitDirectories, written: [Option<&Path>; 2]) -> HelperRights {
    let write: Vec<PathBuf> = written.into_iter().flatten().map(Path::to_owned).collect();
    HelperRights {
        read: layout.readable(),
        memory_bytes: GIT_MEMORY_BYTES_MAX,
        address_bytes: GIT_ADDRESS_BYTES_MAX,
        cpu_seconds: GIT_SECONDS_MAX,
        file_bytes: if write.is_empty() { 0 } else { GIT_FILE_BYTES_MAX },
        write,
    }
}

/// Operations at work, including those that no call waits for any more.
static OPERATIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts an operation until it is dropped.
struct OperationCount(&'static AtomicUsize);

impl OperationCount {
    fn new(operations: &'static AtomicUsize) -> Result<Self, Failure> {
        if operations.fetch_add(1, Ordering::AcqRel) >= GIT_OPERATIONS_MAX {
            operations.fetch_sub(1, Ordering::AcqRel);
            return Err(Failure::unavailable("Too many git operations are under way or hang."));
        }
        Ok(Self(operations))
    }
}

impl Drop for OperationCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Time limit for one request to git.
fn question_timeout() -> Duration {
    limits::seconds(GIT_SECONDS_MAX)
}

/// Converts a helper's error to a failure for the model.
fn explain_error(error: HelperError) -> Failure {
    let seconds = GIT_SECONDS_MAX;
    match error {
        HelperError::Cancelled => call_cancelled(),
        HelperError::TooLate => Failure::limit(format!("git took longer than {seconds} seconds and was given up.")),
        HelperError::Bound(what) => Failure::limit(format!("git took more {what} than it may and was ended.")),
        HelperError::Ended(how) => Failure::failed(format!("The process that reads the git repository {how}."))
            .with_hint("the repository may be damaged: the user can look with `git fsck`"),
        HelperError::Nonsense(_) => nonsense_failure(),
        other => Failure::unavailable(format!("git cannot be used: {}.", error_chain(&other))),
    }
}

/// The failure for an answer that a correct helper cannot give.
pub(super) fn nonsense_failure() -> Failure {
    Failure::failed("The process that reads the git repository gave an answer that makes no sense.")
}

/// Converts a helper's failure. Only a short, plain part of its message is passed on.
fn helper_failure(kind: FailureKind, message: &str, hint: Option<&str>) -> Failure {
    Failure {
        kind,
        message: cut_message(message),
        hint: hint.map(cut_message),
    }
}

fn cut_message(text: &str) -> String {
    let end = text.floor_char_boundary(GIT_MESSAGE_SHOWN_BYTES_MAX);
    clean_text(&text[..end]).into_owned()
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
