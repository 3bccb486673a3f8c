//! `git-commit`: commits chosen files of the work tree. It runs no filter program, does not sign or push, and runs
//! hooks only in a sandbox.
//!
//! A helper makes the objects in a scratch folder. It builds the tree from the last commit and the chosen paths, so
//! that other staged changes stay staged and out of the commit. The tree is built before the user is asked, and
//! exactly this tree is committed after a yes; until then nothing of it reaches the git directory. If git would do
//! something that is not possible here (sign, run a filter such as LFS), the call fails: no commit may differ from
//! git's.

pub(super) mod hooks;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;

use rustix::fs::Stat;
use tokio_util::sync::CancellationToken;

use self::hooks::{CommitHooks, HookFile};
use super::git::content::{self, SideContent, WorkTreeEntry};
use super::git::layout::GitDirectories;
use super::git::lfs;
use super::git::lock::locked_failure;
use super::git::messages::{
    CommitCandidate, CommitStart, CommitTime, GitAnswer, GitRequest, NewFile, ObjectId, Submodule, TreeEntry,
};
use super::git::patches;
use super::git::publish::{HeadMove, Publication, ScratchObjects};
use super::git::submodules::{self, SUBMODULE, SUBMODULES_MAX, SubmoduleTree, is_at_or_below};
use super::git::{GitHelper, nonsense_failure, plain_path};
use super::git_read::normal_paths;
use crate::imports::git::messages::GIT_PAGE;
use crate::{CallContext, Question};
use tool_boundary::CallBudget;
use tool_boundary::Failure;
use tool_boundary::bindings::tool::skill::git_commit::Commit;
use tool_boundary::call_cancelled;
use tool_boundary::consent;
use tool_core::api::Effect;
use tool_core::text::{is_invisible, is_visible};
use tool_repository::changes::{ChangeJournal, CommitInProgress, has_crashed};
use tool_repository::diff::{BoundedDiff, quote_path};
use tool_repository::{OpenError, Repository};

/// A piece of a file on its way into git's objects.
const GIT_CHUNK_BYTES: usize = 1024 * 1024;

/// Largest file that a commit takes up. Hosts refuse files beyond 100 MiB.
const GIT_COMMIT_FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Longest commit message; the longest honest ones are release notes.
const GIT_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Diff that a question holds, shown or not, before it goes on with names and the digests of contents alone.
const GIT_QUESTION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// First words of the messages of [`CommitError::Nothing`].
const NOTHING_TO_COMMIT: &str = "Nothing to commit";

/// Reason why no commit was made.
#[derive(Debug)]
pub(super) enum CommitError {
    /// The commit would have no change.
    Nothing(Failure),
    /// A hook refused the commit, or a later step failed. The message may hold the hook's output.
    AfterHooks(Failure),
    /// Another failure.
    Failed(Failure),
}

/// A commit that was made, with notices about the user's hooks.
pub(super) struct MadeCommit {
    pub(super) commit: Commit,
    pub(super) notices: Vec<String>,
    /// True if a hook ran: the notices may hold names that it chose.
    pub(super) have_hooks_run: bool,
    /// Submodule of the commit; absent for the repository itself.
    pub(super) place: Option<String>,
}

impl CommitError {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Nothing(failure) | Self::AfterHooks(failure) | Self::Failed(failure) => failure,
        }
    }
}

impl From<Failure> for CommitError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Commits the named paths, everything, or the files that this session changed.
pub(super) fn create_commit(
    context: &CallContext,
    message: &str,
    paths: &[String],
    all: bool,
) -> Result<MadeCommit, CommitError> {
    consent::not_denied(context, Effect::CommitGit)?;
    check_message(message)?;
    let dates = find_dates(context)?;
    let choice = choose_selection(context, paths, all)?;
    let mut have_hooks_run = false;
    let made = prepare_commit(context, &choice, message, dates, &mut have_hooks_run).and_then(|prepared| {
        consent::obtain_consent(context, &prepared.question)?;
        Ok(finish_commit(context, prepared)?)
    });
    match made {
        Err(CommitError::Failed(failure)) if have_hooks_run => Err(CommitError::AfterHooks(failure)),
        made => made,
    }
}

fn check_message(message: &str) -> Result<(), Failure> {
    let invalid = |message: &str| Err(Failure::invalid_arguments(message));
    if message.len() > GIT_MESSAGE_BYTES_MAX {
        return invalid("The commit message is longer than 64 KiB.");
    }
    if message.contains('\0') {
        return invalid("The commit message contains a NUL character.");
    }
    if !is_visible(message) || message.contains('\r') {
        return invalid(
            "The commit message contains control characters, or characters that nobody sees or that reorder text: a \
             reader would not see its real text.",
        );
    }
    if message.trim().is_empty() {
        invalid("The commit message is empty.")
    } else {
        Ok(())
    }
}

/// Taints the call with the places of other authors whose files the commit lists. git tracks all of them now.
pub(super) fn note_places(call: &CallBudget, commit: &Commit) {
    let directories = commit.files.iter().filter_map(|path| path.rsplit_once('/'));
    directories.for_each(|(directory, _)| call.note_listed(directory, std::iter::empty()));
}

/// Limit for an author or a branch in a question, in characters. A longer name could move the rest out of sight.
const SHOWN_NAME_MAX: usize = 200;

/// Refuses an author or a branch that the question cannot show exactly.
fn check_shown(what: &str, text: &str, remedy: &str) -> Result<(), Failure> {
    let fault = match () {
        () if text.chars().any(is_unshown) => "contains characters that a question would not show".to_owned(),
        () if text.chars().count() > SHOWN_NAME_MAX => format!("is longer than {SHOWN_NAME_MAX} characters"),
        () => return Ok(()),
    };
    let message = format!("The {what} of the commit {fault}.");
    Err(Failure::failed(message).with_hint(format!("the user has to correct {remedy}")))
}

/// True for an invisible character, and for a blank other than the plain space.
fn is_unshown(character: char) -> bool {
    is_invisible(character) || character.is_whitespace() && character != ' '
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CommitSelection {
    /// Every change beneath the root.
    All,
    /// These files, and all files in these directories.
    Named(Vec<String>),
    /// Files that the session changed.
    Session(Vec<String>),
}

impl CommitSelection {
    /// Paths to examine; empty for all.
    fn paths(&self) -> &[String] {
        match self {
            Self::All => &[],
            Self::Named(paths) | Self::Session(paths) => paths,
        }
    }
}

fn choose_selection(context: &CallContext, paths: &[String], all: bool) -> Result<CommitSelection, CommitError> {
    if all {
        return Ok(CommitSelection::All);
    }
    if !paths.is_empty() {
        let paths = normal_paths(paths)?;
        return match paths
            .iter()
            .find_map(|path| Some((path, context.repository.hidden(path, false)?)))
        {
            Some((path, reason)) => Err(Failure::denied(format!("`{path}` is not committed: it {reason}.")).into()),
            None => Ok(CommitSelection::Named(paths)),
        };
    }
    let files = context.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if files.changed.is_empty() {
        return Err(CommitError::Nothing(
            Failure::failed(format!("{NOTHING_TO_COMMIT}: this session has changed no files."))
                .with_hint("name the files in `paths`, or set `all`, to commit what was there before"),
        ));
    }
    Ok(CommitSelection::Session(files.changed.keys().cloned().collect()))
}

/// A commit that needs only the user's yes.
struct PreparedCommit {
    /// Submodule of the commit; absent for the repository itself.
    place: Option<String>,
    scratch: ScratchObjects,
    start: CommitStart,
    hooks: CommitHooks,
    hook_files: Vec<HookFile>,
    /// Dates of author and committer, if the caller's environment gives them.
    dates: [Option<CommitTime>; 2],
    tree: ObjectId,
    entries: Vec<TreeEntry>,
    question: Question,
}

fn prepare_commit(
    context: &CallContext,
    choice: &CommitSelection,
    message: &str,
    dates: [Option<CommitTime>; 2],
    have_hooks_run: &mut bool,
) -> Result<PreparedCommit, CommitError> {
    let (place, submodules) = find_repository(context, choice)?;
    let place = place.as_deref();
    let layout = super::git::layout_at(context, place)?;
    super::git::admit_commit(context, &layout)?;
    if layout.git.join("index.lock").symlink_metadata().is_ok() {
        return Err(locked_failure(layout.shown(&layout.git.join("index"))).into());
    }
    let scratch = ScratchObjects::new(&layout, context.repository.state_directory())?;
    let mut git = GitHelper::open_at(context, place, Some(scratch.path()))?;
    let mut start = begin_commit(&mut git, message)?;
    check_shown(
        "author",
        &start.author,
        "`user.name` and `user.email` in git's configuration, or the variables `GIT_AUTHOR_…`",
    )?;
    check_shown(
        "committer",
        &start.committer,
        "`user.name` and `user.email` in git's configuration, or the variables `GIT_COMMITTER_…`",
    )?;
    check_shown(
        "branch",
        start.branch.as_deref().unwrap_or_default(),
        "the branch, with `git branch -m`",
    )?;
    let mut preparation = CommitPreparation {
        git,
        place,
        repository: &context.repository,
        cancel: &context.cancel,
        trusts_modes: start.trusts_modes,
        has_links: start.has_links,
        named: matches!(choice, CommitSelection::Named(_)),
    };
    let candidates = preparation.candidates(choice)?;
    let mut chosen = preparation.store(candidates)?;
    chosen.extend(find_moved(context, (choice, place), &submodules)?);
    if chosen.is_empty() {
        return Err(nothing_to_commit(choice, &submodules));
    }
    let entries = chosen.iter().map(|chosen| chosen.entry.clone()).collect::<Vec<_>>();
    send_entries(&mut preparation.git, &entries)?;
    let tree = stored_id(preparation.git.ask(&GitRequest::Tree)?)?;
    let mut hooks = CommitHooks::find_hooks(context, &layout, &start)?;
    let mut hook_files = Vec::new();
    if hooks.run_here() {
        hook_files = preparation.hook_files(&chosen)?;
        let passed = hooks.run_before(context, &start, &hook_files);
        *have_hooks_run = hooks.have_run();
        let message = passed?;
        // Hooks can run for minutes, longer than a helper may live. A new helper starts from the same state: the tree
        // was built before the hooks ran.
        preparation.git = GitHelper::open_at(context, place, Some(scratch.path()))?;
        let now = begin_commit(&mut preparation.git, &message)?;
        check_same(&start, &now)?;
        start = now;
    }
    let question = preparation.question(&chosen, &tree, &start, (&hooks, dates))?;
    Ok(PreparedCommit {
        hooks,
        hook_files,
        dates,
        place: place.map(str::to_owned),
        scratch,
        start,
        tree,
        entries,
        question,
    })
}

/// The submodule that contains the chosen files, absent for the repository itself, and all submodules.
fn find_repository(
    context: &CallContext,
    choice: &CommitSelection,
) -> Result<(Option<String>, Vec<Submodule>), Failure> {
    let submodules = submodules::list_submodules(&mut GitHelper::open(context, None)?, context, choice.paths())?;
    let place = submodules::shared_repository(&submodules, choice.paths())?.map(str::to_owned);
    Ok((place, submodules))
}

/// Finds submodules of the repository at `place`, among the chosen paths, that are at another commit than its last commit
/// names.
fn find_moved(
    context: &CallContext,
    (choice, place): (&CommitSelection, Option<&str>),
    submodules: &[Submodule],
) -> Result<Vec<ChosenFile>, Failure> {
    let is_chosen = |submodule: &&Submodule| match choice {
        CommitSelection::All => true,
        CommitSelection::Session(_) => false,
        CommitSelection::Named(paths) => paths.iter().any(|path| is_at_or_below(&submodule.path, path)),
    };
    if *choice == CommitSelection::All && submodules.len() > SUBMODULES_MAX {
        return Err(Failure::limit(format!(
            "This repository has more than {SUBMODULES_MAX} submodules, so not all of them can be looked at."
        ))
        .with_hint("name the files and submodules of the commit in `paths`"));
    }
    let mut chosen = Vec::new();
    let is_ours = |submodule: &&Submodule| submodules::holding_submodule(submodules, &submodule.path) == place;
    for submodule in submodules.iter().filter(is_chosen).filter(is_ours) {
        let head = match &submodule.staged {
            None => None,
            Some(staged) => match submodules::read_submodule(context, &submodule.path)? {
                SubmoduleTree::Absent => None,
                SubmoduleTree::Present(present) => Some(present.head.unwrap_or_else(|| staged.clone())),
                SubmoduleTree::Unread(reason) if choice.paths().contains(&submodule.path) => {
                    let message = format!("The submodule `{}` cannot be committed: {reason}.", submodule.path);
                    return Err(Failure::failed(message));
                }
                SubmoduleTree::Empty | SubmoduleTree::Unread(_) => Some(staged.clone()),
            },
        };
        if head != submodule.committed {
            let path = submodule.path.clone();
            let new = head.map(NewFile::submodule_at);
            let committed = submodule.committed.clone().map(|id| (id, SUBMODULE));
            let entry = TreeEntry { path, new };
            chosen.push(ChosenFile { entry, committed });
        }
    }
    Ok(chosen)
}

fn begin_commit(git: &mut GitHelper, message: &str) -> Result<CommitStart, Failure> {
    let message = message.to_owned();
    match git.ask(&GitRequest::Begin { message })? {
        // Show the message of the answer, because that one is committed even if the helper was taken over.
        GitAnswer::Started(start) if start.message.len() <= 2 * GIT_MESSAGE_BYTES_MAX && is_visible(&start.message) => {
            Ok(start)
        }
        _ => Err(nonsense_failure()),
    }
}

/// Refuses a commit that was prepared on another commit or branch, or for another person.
fn check_same(prepared: &CommitStart, now: &CommitStart) -> Result<(), Failure> {
    if now.parent != prepared.parent || now.branch != prepared.branch {
        return Err(Failure::failed("The branch has moved since the commit was prepared.")
            .with_hint("try again, so that the commit is prepared on the new state"));
    }
    if (&now.author, &now.committer) != (&prepared.author, &prepared.committer) {
        return Err(Failure::failed(
            "The author that git's configuration names has changed since the commit was prepared.",
        )
        .with_hint("try again, so that the commit is prepared for the new one"));
    }
    Ok(())
}

fn send_entries(git: &mut GitHelper, entries: &[TreeEntry]) -> Result<(), Failure> {
    entries
        .chunks(GIT_PAGE)
        .try_for_each(|page| git.tell(&GitRequest::Entries { entries: page.to_vec() }))
}

fn stored_id(answer: GitAnswer) -> Result<ObjectId, Failure> {
    match answer {
        GitAnswer::Stored(id) => Ok(id),
        _ => Err(nonsense_failure()),
    }
}

fn nothing_to_commit(choice: &CommitSelection, submodules: &[Submodule]) -> CommitError {
    let is_submodule = |path: &String| submodules.iter().any(|submodule| submodule.path == *path);
    let submodule = choice.paths().iter().find(|path| is_submodule(path));
    if let Some(path) = submodule {
        return CommitError::Nothing(
            Failure::failed(format!(
                "{NOTHING_TO_COMMIT}: the submodule `{path}` is at the commit that the last one names."
            ))
            .with_hint(format!(
                "changes inside of it are committed where `paths` names files in `{path}`"
            )),
        );
    }
    let what = match choice {
        CommitSelection::All => "the files are as in the last commit",
        CommitSelection::Named(_) => "the named files are as in the last commit",
        CommitSelection::Session(_) => "the files that this session changed are as in the last commit",
    };
    CommitError::Nothing(Failure::failed(format!("{NOTHING_TO_COMMIT}: {what}.")))
}

/// A file of the commit, with its entry in the last commit.
struct ChosenFile {
    entry: TreeEntry,
    committed: Option<(ObjectId, u32)>,
}

/// State of the preparation of a commit.
struct CommitPreparation<'a> {
    git: GitHelper,
    place: Option<&'a str>,
    repository: &'a Repository,
    cancel: &'a CancellationToken,
    trusts_modes: bool,
    has_links: bool,
    /// True if the paths were named one by one: leaving one out must be reported.
    named: bool,
}

impl CommitPreparation<'_> {
    /// Finds the changed paths of the selection, without hidden ones.
    fn candidates(&mut self, choice: &CommitSelection) -> Result<Vec<CommitCandidate>, Failure> {
        let paths = choice.paths().to_vec();
        let count = self.git.count(&GitRequest::Find { paths })?;
        let (mut from, mut candidates) = (0, Vec::new());
        while from < count {
            let page = match self.git.ask(&GitRequest::Candidates { from })? {
                GitAnswer::Candidates(page) if !page.is_empty() && page.len() <= GIT_PAGE => page,
                _ => return Err(nonsense_failure()),
            };
            from += page.len();
            let repository = self.repository;
            let is_shown = |path: &str| plain_path(path).is_some() && repository.hidden(path, false).is_none();
            candidates.extend(page.into_iter().filter(|candidate| is_shown(&candidate.path)));
        }
        if let CommitSelection::Named(paths) = choice {
            paths.iter().try_for_each(|path| self.explain(path, &candidates))?;
        }
        Ok(candidates)
    }

    /// Explains why a named path has no change. An unchanged file is not a mistake.
    fn explain(&mut self, path: &str, candidates: &[CommitCandidate]) -> Result<(), Failure> {
        let beneath = format!("{path}/");
        let is_meant = |CommitCandidate { path: candidate, .. }: &CommitCandidate| {
            path.is_empty() || candidate == path || candidate.starts_with(&beneath)
        };
        if candidates.iter().any(is_meant) {
            Ok(())
        } else {
            self.git.tell(&GitRequest::Explain { path: path.to_owned() })
        }
    }

    /// Stores the contents of all candidates that differ from the last commit.
    fn store(&mut self, candidates: Vec<CommitCandidate>) -> Result<Vec<ChosenFile>, Failure> {
        let mut chosen = Vec::new();
        for CommitCandidate { path, committed } in candidates {
            let new = match content::stat_entry(self.repository, &path, self.cancel) {
                Ok(WorkTreeEntry::Absent) => None,
                Ok(WorkTreeEntry::Link(target, stat)) => Some(self.store_link(&target, &stat)?),
                Ok(WorkTreeEntry::File(file, stat)) => Some(self.store_file(&path, file, &stat, committed.as_ref())?),
                Err(OpenError::Denied { .. }) if !self.named => continue,
                Err(error) => return Err(Failure::denied(format!("{error}, so it is not committed."))),
            };
            let is_same = match (&new, &committed) {
                (None, None) => true,
                (Some(new), Some((id, mode))) => new.id == *id && new.mode == *mode,
                _ => false,
            };
            if !is_same {
                let entry = TreeEntry { path, new };
                chosen.push(ChosenFile { entry, committed });
            }
        }
        Ok(chosen)
    }

    fn store_link(&mut self, target: &[u8], stat: &Stat) -> Result<NewFile, Failure> {
        let (answer, _) = self.git.exchange(&GitRequest::StoreLink, target, 0)?;
        Ok(new_file(stored_id(answer)?, LINK, stat))
    }

    /// Sends a file to the helper in pieces. libgit2 applies its own filters (line ends, `$Id$`), as git does.
    fn store_file(
        &mut self,
        path: &str,
        mut file: File,
        stat: &Stat,
        committed: Option<&(ObjectId, u32)>,
    ) -> Result<NewFile, Failure> {
        let attributes = self.git.attributes(path)?;
        if let Some((id, _)) = committed
            && lfs::is_unchanged(&mut self.git, &attributes, id, &mut file, self.cancel)?
        {
            return Ok(new_file(id.clone(), self.mode(stat, committed), stat));
        }
        if let Some(filter) = attributes.external_filter {
            return Err(Failure::failed(format!(
                "`{path}` has the attribute `{filter}`: git would put a program in between."
            ))
            .with_hint("no such program runs here; the user has to commit this file with git"));
        }
        if !self.has_links && committed.is_some_and(|(_, mode)| *mode == LINK) {
            return Err(Failure::failed(format!(
                "`{path}` is a symbolic link, for which `core.symlinks = false` lets a plain file stand."
            ))
            .with_hint("such a link is not committed here; the user has to do so with git"));
        }
        let too_large = || {
            let size = GIT_COMMIT_FILE_BYTES_MAX / (1024 * 1024);
            Failure::limit(format!("`{path}` is larger than {size} MiB, so it is not committed."))
        };
        if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > GIT_COMMIT_FILE_BYTES_MAX {
            return Err(too_large());
        }
        let mut reader = file.take(GIT_COMMIT_FILE_BYTES_MAX + 1);
        let mut sent = 0;
        loop {
            let mut piece = Vec::new();
            Read::by_ref(&mut reader)
                .take(GIT_CHUNK_BYTES as u64)
                .read_to_end(&mut piece)
                .map_err(|error| Failure::failed(format!("`{path}` could not be read: {error}.")))?;
            sent += piece.len() as u64;
            if sent > GIT_COMMIT_FILE_BYTES_MAX {
                return Err(too_large());
            }
            let is_last = piece.len() < GIT_CHUNK_BYTES;
            let request = GitRequest::Store {
                path: path.to_owned(),
                is_last,
            };
            let (answer, _) = self.git.exchange(&request, &piece, 0)?;
            if is_last {
                return Ok(new_file(stored_id(answer)?, self.mode(stat, committed), stat));
            }
        }
    }

    /// git knows two modes for a file. With `core.fileMode` off, a file keeps its mode, and a new one is not
    /// executable.
    fn mode(&self, stat: &Stat, committed: Option<&(ObjectId, u32)>) -> u32 {
        match committed {
            Some((_, mode)) if !self.trusts_modes && [FILE, PROGRAM].contains(mode) => *mode,
            _ if !self.trusts_modes => FILE,
            _ if tool_repository::permission_bits(stat) & 0o100 != 0 => PROGRAM,
            _ => FILE,
        }
    }

    /// Builds the user's question: message, author, branch and the exact diff.
    fn question(
        &mut self,
        chosen: &[ChosenFile],
        tree: &ObjectId,
        start: &CommitStart,
        (hooks, dates): (&CommitHooks, [Option<CommitTime>; 2]),
    ) -> Result<Question, Failure> {
        let message = &start.message;
        let subject = message.lines().next().unwrap_or_default();
        let files = match chosen.len() {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        let branch = start.branch.as_deref();
        let branch = branch.map_or_else(|| "a detached head".to_owned(), |branch| format!("branch {branch}"));
        let place = self
            .place
            .map(|place| format!(" of the submodule {}", quote_path(place)))
            .unwrap_or_default();
        let mut persons = start.author.clone();
        if start.committer != start.author {
            let _ = write!(persons, ", committed by {}", start.committer);
        }
        let mut detail = format!("Commit {files} on {branch}{place} as {persons}\n");
        for (what, date) in ["Written", "Committed"].into_iter().zip(dates) {
            if let Some(date) = date.and_then(shown_date) {
                let _ = writeln!(detail, "{what} at {date}");
            }
        }
        detail.push('\n');
        for line in message.lines() {
            let indent = if line.is_empty() { "" } else { "    " };
            let _ = writeln!(detail, "{indent}{line}");
        }
        let _ = writeln!(detail, "\ntree {tree}\n\n{}\n", hooks.describe());
        for chosen in chosen {
            let room = GIT_QUESTION_BYTES_MAX.saturating_sub(detail.len());
            detail.push_str(&self.change(chosen, room)?);
        }
        let title = format!("Commit {files}: {subject}");
        Ok(Question::new(Effect::CommitGit, &title, &detail))
    }

    /// The diff of one file. If it is too long, the digest of the new content.
    fn change(&mut self, chosen: &ChosenFile, room: usize) -> Result<String, Failure> {
        if room == 0 {
            return Ok(unshown_line(chosen, "its diff is too long to show"));
        }
        let path = chosen.entry.path.as_str();
        let new = chosen.entry.new.as_ref();
        let before = self.content(path, chosen.committed.as_ref().map(|(id, mode)| (id, *mode)))?;
        let after = self.content(path, new.map(|new| (&new.id, new.mode)))?;
        let large = [&before, &after].contains(&&SideContent::TooLarge);
        let committed = chosen.committed.as_ref();
        let old = committed.and_then(|(_, mode)| patches::diff_side((path, *mode, &before)));
        let new = new.and_then(|new| patches::diff_side((path, new.mode, &after)));
        let rendered = BoundedDiff::new(old.as_ref(), new.as_ref(), 3, room);
        let is_text = |content: &SideContent| match content {
            SideContent::Bytes(bytes) => std::str::from_utf8(bytes).is_ok(),
            _ => true,
        };
        let is_exact = is_text(&before) && is_text(&after);
        Ok(match (large || rendered.is_binary, rendered.is_cut) {
            (true, _) => unshown_line(chosen, "not text, or too large to show"),
            (false, true) => unshown_line(chosen, "its diff is too long to show"),
            (false, false) if is_exact => rendered.patch,
            (false, false) => rendered.patch + &unshown_line(chosen, "bytes that are no UTF-8 are shown as \u{fffd}"),
        })
    }

    /// The files of the commit as hooks see them.
    fn hook_files(&mut self, chosen: &[ChosenFile]) -> Result<Vec<HookFile>, Failure> {
        let mut room = hooks::SHOWN_BYTES_MAX;
        let is_submodule = |chosen: &&ChosenFile| chosen.entry.new.as_ref().is_some_and(|new| new.mode == SUBMODULE);
        let mut files = Vec::new();
        for chosen in chosen.iter().filter(|chosen| !is_submodule(chosen)) {
            let path = chosen.entry.path.clone();
            let before = match &chosen.committed {
                None => None,
                Some((id, mode)) => Some(match self.content(&path, Some((id, *mode)))? {
                    SideContent::Bytes(content) => hooks::shown_text(Some(&content), &mut room),
                    _ => hooks::shown_text(None, &mut room),
                }),
            };
            files.push(HookFile {
                path,
                before,
                is_removed: chosen.entry.new.is_none(),
            });
        }
        Ok(files)
    }

    fn content(&mut self, path: &str, stored: Option<(&ObjectId, u32)>) -> Result<SideContent, Failure> {
        patches::load_stored(&mut self.git, self.repository, path, stored)
    }
}

/// A line for a change without a diff. It names the new content by its digest.
fn unshown_line(chosen: &ChosenFile, why: &str) -> String {
    let path = quote_path(&chosen.entry.path);
    match &chosen.entry.new {
        Some(new) => format!("changed: {path} ({why}; it becomes the blob {})\n", new.id),
        None => format!("removed: {path} ({why})\n"),
    }
}

const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_000;

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "git's index keeps the lower 32 bits of each, and the types differ between platforms"
)]
fn new_file(id: ObjectId, mode: u32, stat: &Stat) -> NewFile {
    NewFile {
        id,
        mode,
        changed: (stat.st_ctime as i32, stat.st_ctime_nsec as u32),
        modified: (stat.st_mtime as i32, stat.st_mtime_nsec as u32),
        device: stat.st_dev as u32,
        inode: stat.st_ino as u32,
        user: stat.st_uid,
        group: stat.st_gid,
        bytes: stat.st_size as u32,
    }
}

/// Commits what was prepared, if the branch has not moved meanwhile. Everything slow happens before the first rename,
/// and cancellation is possible until then; the rest is two renames.
fn finish_commit(context: &CallContext, prepared: PreparedCommit) -> Result<MadeCommit, Failure> {
    let PreparedCommit {
        place,
        scratch,
        start,
        mut hooks,
        hook_files,
        dates,
        tree,
        entries,
        ..
    } = prepared;
    let mut git = GitHelper::open_at(context, place.as_deref(), Some(scratch.path()))?;
    let layout = git.layout.clone();
    let now = now_here();
    let moments = dates.map(|date| date.unwrap_or(now));
    let id = stored_id(git.ask(&GitRequest::Commit {
        tree,
        parent: start.parent.clone(),
        message: start.message.clone(),
        moments,
    })?)?;
    let noted = NotedPublication::new(context, &layout, start.branch.as_deref(), &id)?;
    let mut publication = Publication::begin(&layout, &scratch, start.branch.as_deref(), &noted.publishing)?;
    let now = begin_commit(&mut git, &start.message)?;
    check_same(&start, &now)?;
    send_entries(&mut git, &entries)?;
    git.tell(&GitRequest::Index)?;
    let movement = HeadMove {
        from: start.parent.as_ref(),
        to: &id,
        author: &now.committer,
        subject: start.message.lines().next().unwrap_or_default(),
        moment: moments[1],
    };
    publication.lay_out(movement, now.keeps_logs, &context.cancel)?;
    // From here on the publication is completed, and cancellation has no effect.
    if context.cancel.is_cancelled() {
        return Err(call_cancelled());
    }
    publication.move_branch(movement, now.keeps_logs)?;
    publication.replace_index().map_err(|reason| {
        Failure::failed(format!(
            "The commit {id} was made, but git's index could not be updated: {reason}."
        ))
        .with_hint("the user can mend it with: git reset")
    })?;
    drop(publication);
    drop(noted);
    hooks.run_after(context, &start, &hook_files);
    let commit = Commit {
        id: id.to_string(),
        branch: start.branch,
        author: start.author,
        files: entries.into_iter().map(|entry| entry.path).collect(),
    };
    Ok(MadeCommit {
        commit,
        notices: hooks.notices(),
        have_hooks_run: hooks.have_run(),
        place,
    })
}

/// Dates of author and committer from the caller's environment.
fn find_dates(context: &CallContext) -> Result<[Option<CommitTime>; 2], Failure> {
    let date = |name: &str| match context.environment.get(name).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => parse_date(value).map(Some).ok_or_else(|| {
            Failure::invalid_arguments(format!("`{name}` is no date that is understood here.")).with_hint(
                "the user has to write it as `2026-03-01T12:30:00+01:00`, or as seconds since 1970 and an offset: \
                 `1772364600 +0100`",
            )
        }),
    };
    Ok([date("GIT_AUTHOR_DATE")?, date("GIT_COMMITTER_DATE")?])
}

/// Formats a date in its own time zone; `None` for a year out of range.
fn shown_date(moment: CommitTime) -> Option<String> {
    let zone = chrono::FixedOffset::east_opt(moment.offset_minutes * 60)?;
    let date = chrono::DateTime::from_timestamp(moment.seconds, 0)?;
    Some(date.with_timezone(&zone).to_rfc3339())
}

/// Parses a date in git's internal format, ISO 8601 or RFC 2822.
fn parse_date(text: &str) -> Option<CommitTime> {
    let internal = || {
        let (seconds, offset) = text.trim_start_matches('@').split_once(' ')?;
        let digits = offset.strip_prefix(['+', '-'])?;
        let number = |digits: &str| digits.parse::<i32>().ok();
        if digits.len() != 4 || !digits.is_ascii() {
            return None;
        }
        let minutes = number(&digits[..2])? * 60 + number(&digits[2..])?;
        Some(CommitTime {
            seconds: seconds.parse().ok()?,
            offset_minutes: if offset.starts_with('-') { -minutes } else { minutes },
        })
    };
    let of = |date: chrono::DateTime<chrono::FixedOffset>| CommitTime {
        seconds: date.timestamp(),
        offset_minutes: date.offset().local_minus_utc() / 60,
    };
    let parsed = internal()
        .or_else(|| chrono::DateTime::parse_from_rfc3339(text).ok().map(of))
        .or_else(|| {
            chrono::DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S %z")
                .ok()
                .map(of)
        })
        .or_else(|| chrono::DateTime::parse_from_rfc2822(text).ok().map(of));
    // git accepts no date before 1970 from the environment.
    parsed.filter(|&moment| moment.seconds >= 0 && shown_date(moment).is_some())
}

/// A publication in the journal, until it is complete or withdrawn.
struct NotedPublication<'a> {
    journal: &'a dyn ChangeJournal,
    publishing: CommitInProgress,
}

impl<'a> NotedPublication<'a> {
    fn new(
        context: &'a CallContext,
        layout: &GitDirectories,
        branch: Option<&str>,
        commit: &ObjectId,
    ) -> Result<Self, Failure> {
        let publishing = CommitInProgress {
            id: uuid::Uuid::now_v7().simple().to_string(),
            git: layout.git.clone(),
            common: layout.common.clone(),
            branch: branch.map(str::to_owned),
            commit: commit.to_string(),
        };
        let journal = &*context.changes;
        let noted = journal.publishing(&publishing);
        noted
            .map_err(|error| Failure::failed(format!("The commit cannot be journalled: {error}; it was not made.")))?;
        Ok(Self { journal, publishing })
    }
}

impl Drop for NotedPublication<'_> {
    fn drop(&mut self) {
        if !has_crashed() {
            self.journal.published(&self.publishing.id);
        }
    }
}

/// The present time in the local time zone.
fn now_here() -> CommitTime {
    let now = chrono::Local::now();
    CommitTime {
        seconds: now.timestamp(),
        offset_minutes: now.offset().local_minus_utc() / 60,
    }
}

#[cfg(test)]
mod tests;
