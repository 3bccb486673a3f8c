//! Proposals: what a successful call has left in its stage, checked and committed as a whole.
//!
//! The guest's files are read, never linked or moved, so no inode that a guest has made enters the repository. No file
//! is touched before every path is judged and the change, with the old contents, is durable in the journal.
//! `tool_repository::changes` puts the files in place.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::PoisonError;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::policy::{Decision, WriteScope};
pub use super::proposal::ProposalTerms;
use super::runner;
use super::{CallContext, Limits, Question, Services, SessionFiles, consent, denied_failure};
use crate::Failure;
use crate::limits::{PATH_BYTES_MAX, REPLACED_BYTES_MAX};
use tool_core::api::{ChangeKind, Effect, PolicyRequest};
use tool_core::digest::sha256_hex;
use tool_core::disk::Disk;
use tool_core::lfs::LfsPointer;
use tool_core::text::{reveal_line, visible_name};
use tool_repository::changes::{
    self, ContentsFull, FileChange, FileState, Obstacle, PreparedChange, ReadError, RolledBack,
};
use tool_repository::folded_look;
use tool_repository::lock_wait;
use tool_repository::{self, path};

const STAGED_BYTES_MAX: u64 = Limits::DEFAULT.staged_bytes;
const STAGED_ENTRIES_MAX: u64 = Limits::DEFAULT.staged_entries;

/// Everything that a successful call proposes.
#[derive(Clone, Copy)]
pub struct StageContent<'a> {
    /// Folder with files to create or replace, at their paths in the repository.
    pub stage: &'a Path,
    /// Paths of files to remove.
    pub deletions: &'a [String],
    /// Statements of the guest about existing files.
    pub terms: &'a ProposalTerms,
}

/// A change of files that was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MadeChange {
    /// Changed paths, relative to the root.
    pub paths: Vec<String>,
    /// Changed files that had hard links. Their other names keep the old content, because a change replaces one name.
    pub hard_linked: Vec<String>,
}

/// Commits what a successful call has left, and returns the changed paths, sorted.
///
/// If one path is refused, none is changed. An empty proposal is accepted and changes nothing.
///
/// # Errors
///
/// The reason why a path is refused, or the journal or the disk failed.
pub fn commit_stage(
    context: &CallContext,
    services: &dyn Services,
    StageContent {
        stage,
        deletions,
        terms,
    }: StageContent<'_>,
) -> Result<MadeChange, Failure> {
    let mut proposal = collect_proposal(stage)?;
    for path in deletions {
        proposal.delete(path)?;
    }
    if proposal.files.is_empty() && terms.is_empty() {
        return Ok(MadeChange::default());
    }
    let lock = changes::write_lock(&context.repository);
    let mut guard = lock_wait::lock_unless_cancelled(&lock, &context.cancel).ok_or_else(session_cancelled)?;
    proposal.add_terms(context, terms)?;
    for (path, content) in &proposal.files {
        judge_path(context, path)?;
        if content.is_some() {
            judge_new_name(context, path)?;
        }
        judge_role(context, path)?;
    }
    judge_twins(context, &proposal)?;
    judge_shape(context, &proposal)?;
    let decision = context.decide(Effect::WriteRepository);
    let again = (decision == Decision::Ask).then(|| proposal.clone());
    let change = prepare_change(context, proposal, terms)?;
    if change.files.is_empty() {
        return Ok(MadeChange::default());
    }
    judge_effect(context, decision)?;
    if let Some(again) = again {
        // The answer may take minutes. Without the lock, others can write meanwhile; the proposal is prepared again
        // below.
        drop(guard);
        consent::obtain_consent(context, &build_question(services, &change))?;
        guard = lock_wait::lock_unless_cancelled(&lock, &context.cancel).ok_or_else(session_cancelled)?;
        if prepare_change(context, again, terms)?.files != change.files {
            let message = "A file has changed while the user was asked; nothing was changed";
            return Err(Failure::denied(message).with_hint("read the file again"));
        }
    }
    let _guard = guard;
    if context.cancel.is_cancelled() {
        return Err(session_cancelled());
    }
    services.note_changes(context, &change.files);
    let hard_linked = find_hard_linked(context, &change);
    put_in_place(context, &change)?;
    let unseen = terms.bases.keys().chain(terms.renames.values());
    Ok(MadeChange {
        paths: note_change(context, change, &unseen.map(String::as_str).collect()),
        hard_linked,
    })
}

/// Files that a change replaces and that have other names in the file system.
fn find_hard_linked(context: &CallContext, change: &PreparedChange) -> Vec<String> {
    let is_linked = |path: &str| {
        let metadata = context.repository.root().join(path).symlink_metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.nlink() > 1)
    };
    let replaced = change
        .files
        .iter()
        .filter(|file| file.after.is_some())
        .map(|file| &file.path);
    let is_layered = context.repository.layer().is_some();
    replaced
        .filter(|path| !is_layered && is_linked(path))
        .cloned()
        .collect()
}

/// Question for a change: its files, and their exact difference.
fn build_question(services: &dyn Services, change: &PreparedChange) -> Question {
    let title = match change.files.as_slice() {
        [file] => format!("Change `{}`", visible_name(&file.path)),
        files => format!("Change {} files", files.len()),
    };
    let detail = services.describe_changes(&change.files);
    Question::new(Effect::WriteRepository, &title, &detail)
}

/// Commits a preview's proposal at the user's request. `before` of each file is the state with which the preview began:
/// if any of them differs by now, nothing is changed, and the error names them all.
///
/// # Errors
///
/// See [`PreviewRefused`].
pub fn commit_previewed(context: &CallContext, files: Vec<FileChange>) -> Result<Vec<String>, PreviewRefused> {
    let lock = changes::write_lock(&context.repository);
    let _guard = lock_wait::lock_unless_cancelled(&lock, &context.cancel).ok_or_else(session_cancelled)?;
    let proposal = StagedProposal {
        files: files
            .iter()
            .map(|file| {
                (
                    file.path.clone(),
                    file.after.as_ref().map(|state| state.content.clone()),
                )
            })
            .collect(),
        ..StagedProposal::default()
    };
    let mut changed = Vec::new();
    for file in &files {
        check_name(&file.path)?;
        judge_path(context, &file.path)?;
        if file.after.is_some() {
            judge_new_name(context, &file.path)?;
        }
        if !is_as_before(context, file, &files)? {
            changed.push(file.path.clone());
        }
    }
    if !changed.is_empty() {
        return Err(PreviewRefused::Changed(changed));
    }
    judge_shape(context, &proposal)?;
    // Deletions first, so that a directory may replace a file.
    let (deleted, written): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.after.is_none());
    let change = change_of(context, [deleted, written].concat());
    if change.files.is_empty() {
        return Ok(Vec::new());
    }
    put_in_place(context, &change)?;
    Ok(note_change(context, change, &BTreeSet::new()))
}

/// True if a file still has the state with which the preview began.
fn is_as_before(context: &CallContext, file: &FileChange, all: &[FileChange]) -> Result<bool, Failure> {
    let is_deleted = |above: &str| all.iter().any(|file| file.path == above && file.after.is_none());
    let current = match context.repository.current(&file.path, REPLACED_BYTES_MAX) {
        Err(Obstacle::NoDirectory { .. }) if path::list_ancestors(&file.path).any(is_deleted) => None,
        Err(Obstacle::Io { path, source }) => {
            return Err(describe_obstacle(context, &file.path, &Obstacle::Io { path, source }));
        }
        Err(_) => return Ok(false),
        Ok(current) => current,
    };
    let marks = |state: &FileState| (sha256_hex(&state.content), state.is_executable());
    Ok(current.as_ref().map(marks) == file.before.as_ref().map(marks))
}

/// Reason why a preview's proposal was not put in place.
#[derive(Debug)]
pub enum PreviewRefused {
    /// These files have changed meanwhile.
    Changed(Vec<String>),
    /// The proposal would be refused from a skill too.
    Failure(Failure),
}

impl From<Failure> for PreviewRefused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Commits manifests and lock files that an installation has changed; the user's yes to the installation covers them.
/// `before` of each is the state with which the installation began: a file that has changed since is not replaced.
///
/// # Errors
///
/// A path is protected or has changed, or the journal or the disk failed.
pub fn commit_manifests(context: &CallContext, files: Vec<FileChange>) -> Result<Vec<String>, Failure> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let lock = changes::write_lock(&context.repository);
    let _guard = lock_wait::lock_unless_cancelled(&lock, &context.cancel).ok_or_else(session_cancelled)?;
    for file in &files {
        judge_path(context, &file.path)?;
    }
    let change = change_of(context, files);
    put_in_place(context, &change)?;
    Ok(note_change(context, change, &BTreeSet::new()))
}

/// Records changes of manifests and lock files that an installation without a sandbox has made itself, so that they can
/// be undone.
///
/// # Errors
///
/// The journal failed.
pub fn record_manifests(context: &CallContext, files: Vec<FileChange>) -> std::io::Result<Vec<String>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let change = change_of(context, files);
    context.changes.prepare(&change)?;
    context.changes.committed(&change.id)?;
    Ok(note_change(context, change, &BTreeSet::new()))
}

fn session_cancelled() -> Failure {
    Failure::failed("The session was cancelled; nothing was changed")
}

fn change_of(context: &CallContext, files: Vec<FileChange>) -> PreparedChange {
    PreparedChange {
        id: uuid::Uuid::now_v7().simple().to_string(),
        call_id: context.call_id.as_deref().map(str::to_owned),
        root: context.repository.root().to_owned(),
        directories: changes::missing_directories(context.repository.handle(), &files),
        files,
    }
}

/// Notes a change that is in place, and returns its paths, sorted. The model has not seen the new contents of `unseen`.
fn note_change(context: &CallContext, change: PreparedChange, unseen: &BTreeSet<&str>) -> Vec<String> {
    let mut files = context.files.lock().unwrap_or_else(PoisonError::into_inner);
    for file in &change.files {
        files.note(file);
        if unseen.contains(file.path.as_str()) {
            files.seen.remove(&file.path);
        }
    }
    let mut paths: Vec<String> = change.files.into_iter().map(|file| file.path).collect();
    paths.sort_unstable();
    paths
}

/// Proposal of a call: the new content for each path, or `None` for its deletion.
#[derive(Debug, Clone, Default)]
struct StagedProposal {
    files: BTreeMap<String, Option<Vec<u8>>>,
    bytes: u64,
    /// Modes of files that move, by new path.
    modes: BTreeMap<String, u32>,
}

impl StagedProposal {
    fn delete(&mut self, path: &str) -> Result<(), Failure> {
        let normal = path::normalise_path(path).map_err(|error| {
            let message = format!("`{}` cannot be deleted: {error}", visible_name(path));
            Failure::denied(message)
        })?;
        check_name(&normal)?;
        if self.files.insert(normal, None).is_some_and(|staged| staged.is_some()) {
            let message = format!("`{path}` is both written and deleted by the same proposal");
            return Err(Failure::invalid_arguments(message));
        }
        self.check_count()
    }

    fn write(&mut self, path: String, content: Vec<u8>) -> Result<(), Failure> {
        self.bytes += content.len() as u64;
        self.files.insert(path, Some(content));
        self.check_count()
    }

    /// Adds what the terms change without a file in the stage: files that move, and files that only change their mode.
    fn add_terms(&mut self, context: &CallContext, terms: &ProposalTerms) -> Result<(), Failure> {
        for (path, new_path) in &terms.renames {
            let state = self.existing(context, path)?;
            let taken = context.repository.current(new_path, REPLACED_BYTES_MAX);
            if taken.is_ok_and(|state| state.is_some()) {
                let message = format!("`{path}` cannot be moved to `{new_path}`: this path exists already");
                return Err(Failure::denied(message).with_hint("choose a path that does not exist"));
            }
            self.delete(path)?;
            self.modes.insert(new_path.clone(), state.mode & 0o777);
            if !self.files.contains_key(new_path) {
                check_name(new_path)?;
                self.add_existing(new_path, state.content)?;
            }
        }
        for path in terms.executable.keys() {
            if !self.files.contains_key(path) {
                let state = self.existing(context, path)?;
                self.add_existing(path, state.content)?;
            }
        }
        Ok(())
    }

    fn existing(&self, context: &CallContext, path: &str) -> Result<FileState, Failure> {
        check_name(path)?;
        judge_path(context, path)?;
        let left = STAGED_BYTES_MAX - self.bytes;
        let current = context.repository.current(path, left);
        let missing = || Failure::not_found(format!("`{path}` cannot be changed: it does not exist"));
        current
            .map_err(|obstacle| describe_obstacle(context, path, &obstacle))?
            .ok_or_else(missing)
    }

    /// Adds a file with content of the repository, within the limits of a stage.
    fn add_existing(&mut self, path: &str, content: Vec<u8>) -> Result<(), Failure> {
        if self.bytes + content.len() as u64 > STAGED_BYTES_MAX {
            let megabytes = STAGED_BYTES_MAX / (1024 * 1024);
            let message = format!("The proposal has more than {megabytes} MiB");
            return Err(Failure::limit(message));
        }
        self.write(path.to_owned(), content)
    }

    fn check_count(&self) -> Result<(), Failure> {
        if self.files.len() as u64 > STAGED_ENTRIES_MAX {
            let message = format!("The proposal has more than {STAGED_ENTRIES_MAX} files");
            return Err(Failure::limit(message).with_hint("propose fewer files in one call"));
        }
        Ok(())
    }
}

/// Returns the paths in a stage, sorted; refuses what could not be proposed.
pub(super) fn list_staged(stage: &Path) -> Result<Vec<String>, Failure> {
    Ok(collect_proposal(stage)?.files.into_keys().collect())
}

/// Reads the stage: regular files with exactly one name, and their directories.
fn collect_proposal(stage: &Path) -> Result<StagedProposal, Failure> {
    let failed = |errno: Errno| Failure::failed(format!("The stage cannot be read: {errno}"));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(stage, flags, Mode::empty()).map_err(failed)?;
    let mut proposal = StagedProposal::default();
    let mut todo = vec![String::new()];
    while let Some(directory) = todo.pop() {
        let relative = if directory.is_empty() { "." } else { &directory };
        let handle = rustix::fs::openat(&root, relative, flags, Mode::empty()).map_err(failed)?;
        for name in list_entries(&handle).map_err(failed)? {
            let name = name.map_err(|name| {
                let message = format!(
                    "The proposal has a file name that is not UTF-8: `{}`",
                    visible_name(&name)
                );
                Failure::denied(message)
            })?;
            let path = path::join_path(&directory, &name);
            check_name(&path)?;
            let stat = rustix::fs::statat(&handle, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => todo.push(path),
                FileType::RegularFile => {
                    let left = STAGED_BYTES_MAX - proposal.bytes;
                    let content = read_staged(&handle, &name, &path, left)?;
                    proposal.write(path, content)?;
                }
                _ => return Err(not_regular(&path)),
            }
        }
    }
    Ok(proposal)
}

/// Names in a directory; `Err` holds a readable form of a name that is not UTF-8.
fn list_entries(handle: &OwnedFd) -> Result<Vec<Result<String, String>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(handle)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            let text = name.to_str().map(str::to_owned);
            names.push(text.map_err(|_| name.to_string_lossy().into_owned()));
        }
    }
    Ok(names)
}

fn read_staged(directory: &OwnedFd, name: &str, path: &str, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let failed = |errno: Errno| Failure::failed(format!("The proposed `{path}` cannot be read: {errno}"));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&handle).map_err(failed)?;
    // Through a second name, another program could change the file while it is read.
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
        return Err(not_regular(path));
    }
    changes::read_bounded(handle, bytes_max).map_err(|error| match error {
        ReadError::TooLarge { .. } => {
            let megabytes = STAGED_BYTES_MAX / (1024 * 1024);
            Failure::limit(format!("The proposal has more than {megabytes} MiB"))
        }
        ReadError::Io(error) => Failure::failed(format!("The proposed `{path}` cannot be read: {error}")),
    })
}

fn not_regular(path: &str) -> Failure {
    let message = format!("`{path}` is proposed as something else than a regular file with one name");
    Failure::denied(message).with_hint("write plain files into `/stage`")
}

/// Refuses names that a terminal, a log or the system cannot handle.
fn check_name(path: &str) -> Result<(), Failure> {
    if path.is_empty() {
        return Err(Failure::invalid_arguments("The repository root is no file"));
    }
    if path.len() > PATH_BYTES_MAX {
        let message = format!("A path of the proposal has more than {PATH_BYTES_MAX} bytes");
        return Err(Failure::limit(message));
    }
    if reveal_line(path) != path {
        let message = format!("`{}` contains characters that cannot be seen", reveal_line(path));
        return Err(Failure::denied(message).with_hint("use a name of visible characters"));
    }
    Ok(())
}

/// Refuses a change that the policy does not grant.
///
/// A skill without `write-repository` has no stage, but may still answer with deletions.
fn judge_effect(context: &CallContext, decision: Decision) -> Result<(), Failure> {
    match decision {
        Decision::Allow | Decision::Ask => Ok(()),
        Decision::Deny if context.conversation.refusals.is_final(Effect::WriteRepository) => {
            Err(denied_failure(context.denial(Effect::WriteRepository)))
        }
        Decision::Deny => Err(Failure::denied("Changing files is not allowed in this operation")),
    }
}

/// Refuses protected and hidden paths, unless the user has allowed exactly this path.
fn judge_path(context: &CallContext, path: &str) -> Result<(), Failure> {
    let (word, reason) = match context.repository.hidden(path, false) {
        Some(reason) => ("hidden", reason),
        None => match context.repository.protected(path) {
            Some(reason) => ("protected", reason),
            None => return Ok(()),
        },
    };
    if reason != tool_repository::STATE && is_allowed(context, path) {
        return Ok(());
    }
    let hint = only_by(context, path);
    Err(Failure::denied(format!("`{path}` is {word}: it {reason}")).with_hint(hint))
}

/// Refuses a path that would create a dot file or a dot folder at the top level, unless the user has allowed the path
/// or the name, or the name is known to be harmless. Refuses a name that begins with `-`, unless the user has allowed
/// the path.
fn judge_new_name(context: &CallContext, path: &str) -> Result<(), Failure> {
    if path.split('/').any(|part| part.starts_with('-')) && !is_allowed(context, path) {
        let message =
            format!("`{path}` is protected: `tar *` and other commands take a name that begins with `-` for an option");
        let hint = only_by(context, path);
        return Err(Failure::denied(message).with_hint(hint));
    }
    let Some(name) = context.repository.find_new_dot_name(path) else {
        return Ok(());
    };
    if is_allowed(context, path) || is_allowed(context, name) {
        return Ok(());
    }
    let message = format!(
        "`{path}` is protected: it would create `{name}`, and tools run code from new dot files and dot folders at the \
         top level of a repository"
    );
    let hint = only_by(context, name);
    Err(Failure::denied(message).with_hint(hint))
}

/// Refuses a new path that looks like an existing one that the proposal does not delete, or like another path that it
/// creates.
fn judge_twins(context: &CallContext, proposal: &StagedProposal) -> Result<(), Failure> {
    let mut made: BTreeMap<String, &str> = BTreeMap::new();
    for (path, _) in proposal.files.iter().filter(|(_, content)| content.is_some()) {
        if is_allowed(context, path) {
            continue;
        }
        let is_kept = |twin: &String| proposal.files.get(twin).is_none_or(Option::is_some);
        let refuse = |twin: &str, whose: &str| {
            let both = context.policy.grant_text(&PolicyRequest::allowing_path(path));
            let (path, twin) = (visible_name(path), visible_name(twin));
            let message = format!("`{path}` would be a twin of `{twin}`, which {whose}: two such names look equal");
            let hint = format!(
                "change `{twin}` by `edits`, or choose another name; only the user can allow both, with {both}"
            );
            Err(Failure::denied(message).with_hint(hint))
        };
        if let Some(twin) = context.repository.find_twin(path).filter(is_kept) {
            return refuse(&twin, "exists");
        }
        let parts = path::list_ancestors(path).chain(std::iter::once(path.as_str()));
        for part in parts.filter(|part| !context.repository.is_there(part)) {
            let other = *made.entry(folded_look(part)).or_insert(part);
            if other != part {
                return refuse(other, "is proposed with it");
            }
        }
    }
    Ok(())
}

/// Refuses files that decide how tests run, in an operation that only writes tests: the tests could pass by never
/// running.
fn judge_role(context: &CallContext, path: &str) -> Result<(), Failure> {
    if context.policy.writes() != WriteScope::OnlyCreated || !runner::is_configuration(path) {
        return Ok(());
    }
    let message = format!("`{path}` decides how tests run, and this operation only writes tests");
    let hint = "use the runner as it is configured; fixtures go into a `conftest.py` in a folder of tests";
    Err(Failure::denied(message).with_hint(hint))
}

fn only_by(context: &CallContext, path: &str) -> String {
    let grant = PolicyRequest::allowing_path(path);
    format!("only the user can allow it, with {}", context.policy.grant_text(&grant))
}

fn is_allowed(context: &CallContext, path: &str) -> bool {
    let allowed = context.policy.allow_paths().iter();
    allowed
        .filter_map(|allowed| path::normalise_path(allowed).ok())
        .any(|allowed| allowed == path)
}

/// Refuses a proposal that would turn a directory into a git directory. git reads its configuration, which can run
/// commands, from any directory with these entries.
fn judge_shape(context: &CallContext, proposal: &StagedProposal) -> Result<(), Failure> {
    // The second is that of a linked work tree, whose configuration may be elsewhere.
    const SHAPES: [&[&str]; 2] = [&["head", "objects", "refs"], &["head", "commondir"]];
    let written: BTreeSet<String> = proposal
        .files
        .iter()
        .filter(|(_, content)| content.is_some())
        .flat_map(|(path, _)| path::list_ancestors(path).chain(std::iter::once(path.as_str())))
        .map(|path| path.to_lowercase())
        .collect();
    for (path, _) in proposal.files.iter().filter(|(_, content)| content.is_some()) {
        for part in path::list_ancestors(path).chain(std::iter::once(path.as_str())) {
            let (directory, name) = path::split_path(part);
            let folded = name.to_lowercase();
            if SHAPES.iter().all(|shape| !shape.contains(&folded.as_str())) || is_allowed(context, path) {
                continue;
            }
            // Compared without case: on some file systems `head` is `HEAD`.
            let exists = |name: &&str| {
                let folded = path::join_path(&directory.to_lowercase(), name);
                let real = if *name == "head" { "HEAD" } else { name };
                let real = path::join_path(directory, real);
                written.contains(&folded) || context.repository.is_there(&real)
            };
            if SHAPES.iter().any(|shape| shape.iter().all(exists)) {
                let place = if directory.is_empty() {
                    "the repository root"
                } else {
                    directory
                };
                let message = format!("`{path}` would turn `{place}` into a git directory");
                return Err(Failure::denied(message));
            }
        }
    }
    Ok(())
}

/// Reads each present file and judges whether it may be replaced. Deletions come first, so that a directory may replace
/// a file.
fn prepare_change(
    context: &CallContext,
    proposal: StagedProposal,
    terms: &ProposalTerms,
) -> Result<PreparedChange, Failure> {
    let modes = proposal.modes;
    let (deleted, written): (Vec<_>, Vec<_>) = proposal.files.into_iter().partition(|(_, content)| content.is_none());
    let deleted_paths: BTreeSet<String> = deleted.iter().map(|(path, _)| path.clone()).collect();
    let mut files = Vec::new();
    let mut left = REPLACED_BYTES_MAX;
    for (path, content) in deleted.into_iter().chain(written) {
        let before = match context.repository.current(&path, left) {
            // The proposal deletes the file that has the directory's name.
            Err(Obstacle::NoDirectory { .. })
                if path::list_ancestors(&path).any(|above| deleted_paths.contains(above)) =>
            {
                None
            }
            before => before.map_err(|obstacle| describe_obstacle(context, &path, &obstacle))?,
        };
        left -= before.as_ref().map_or(0, |state| state.content.len() as u64);
        judge_content(context, terms, &path, before.as_ref())?;
        if content.is_some() {
            judge_pointer(&path, before.as_ref())?;
        }
        let content = match content {
            Some(content) => Some(restore_secrets(context, &path, content, before.as_ref())?),
            None => None,
        };
        let after = content.map(|content| FileState {
            content,
            mode: {
                let kept = before.as_ref().map(|before| before.mode & 0o777);
                let mode = modes.get(&path).copied().or(kept);
                let mode = mode.unwrap_or_else(changes::new_file_mode);
                let executable = terms.executable.get(&path);
                executable.map_or(mode, |&executable| with_executable(mode, executable))
            },
        });
        if before.is_none() && after.is_none() {
            let message = format!("`{path}` cannot be deleted: it does not exist");
            return Err(Failure::not_found(message));
        }
        let is_same = |before: &FileState, after: &FileState| {
            before.content == after.content && before.mode & 0o777 == after.mode
        };
        if !before
            .as_ref()
            .zip(after.as_ref())
            .is_some_and(|(before, after)| is_same(before, after))
        {
            files.push(FileChange { path, before, after });
        }
    }
    Ok(change_of(context, files))
}

/// Sets the executable bit for every user who may read the file, or for none.
fn with_executable(mode: u32, executable: bool) -> u32 {
    if executable {
        mode | (mode & 0o444) >> 2
    } else {
        mode & !0o111
    }
}

/// Refuses to replace or delete a file whose current content neither the model nor the skill has read, and one that the
/// operation may not change.
fn judge_content(
    context: &CallContext,
    terms: &ProposalTerms,
    path: &str,
    before: Option<&FileState>,
) -> Result<(), Failure> {
    let Some(before) = before else { return Ok(()) };
    let files = context.files.lock().unwrap_or_else(PoisonError::into_inner);
    let is_ours = files.changed.get(path) == Some(&ChangeKind::Created);
    if context.policy.writes() == WriteScope::OnlyCreated && !is_ours {
        let message = format!("`{path}` existed before this session, and this operation changes only what it created");
        return Err(Failure::denied(message).with_hint("write to a new file"));
    }
    if let Some(base) = terms.bases.get(path) {
        return if *base == sha256_hex(&before.content) {
            Ok(())
        } else {
            let message = format!("`{path}` has changed since the skill read it; nothing was changed");
            Err(Failure::denied(message).with_hint("call the skill again"))
        };
    }
    match files.seen.get(path) {
        Some(seen) if *seen == sha256_hex(&before.content) => Ok(()),
        Some(_) => Err(Failure::denied(format!(
            "`{path}` has changed since it was read in this session: read it again"
        ))
        .with_hint("read the file and base the change on what it holds now")),
        None => Err(
            Failure::denied(format!("`{path}` has not been read in this session: read it first"))
                .with_hint("read the whole file, then propose the change again"),
        ),
    }
}

/// Refuses to edit a Git LFS pointer.
fn judge_pointer(path: &str, before: Option<&FileState>) -> Result<(), Failure> {
    match before.and_then(|before| LfsPointer::parse(&before.content)) {
        None => Ok(()),
        Some(pointer) => Err(Failure::denied(format!(
            "`{path}` is a Git LFS pointer: its content ({} bytes) is not here, and the pointer is not edited",
            pointer.bytes
        ))
        .with_hint("the user can fetch the content with `git lfs pull`")),
    }
}

/// Returns the proposed content with keys in place of the placeholders that the model knows. The old content of the
/// file must have held these keys.
fn restore_secrets(
    context: &CallContext,
    path: &str,
    content: Vec<u8>,
    before: Option<&FileState>,
) -> Result<Vec<u8>, Failure> {
    let redactor = &context.conversation.redactor;
    let old = before.map(|before| before.content.as_slice());
    redactor.restore(content, old).map_err(|placeholder| {
        Failure::denied(format!(
            "`{path}` cannot get `{placeholder}`: it stands for a secret that this file does not hold"
        ))
        .with_hint(
            "a placeholder can be written back only into the file that it was read from, exactly as it was shown; \
                 anywhere else, refer to the secret by name, for example by an environment variable",
        )
    })
}

/// Explains why a path cannot be replaced, and what to propose instead.
fn describe_obstacle(context: &CallContext, path: &str, obstacle: &Obstacle) -> Failure {
    let real = || {
        let real = context.repository.open_within(path, &context.cancel).ok()?.path;
        Some(format!("propose the real path `{real}`"))
    };
    match obstacle {
        Obstacle::Link { .. } => Failure {
            hint: real(),
            ..Failure::denied(obstacle.to_string())
        },
        Obstacle::TooLarge { .. } => Failure::limit(obstacle.to_string()),
        Obstacle::Io { .. } => Failure::failed(obstacle.to_string()),
        _ => Failure::denied(obstacle.to_string()),
    }
}

/// Journals the change, puts it in place, and records the result in the journal.
fn put_in_place(context: &CallContext, change: &PreparedChange) -> Result<(), Failure> {
    let unchanged = |error: &dyn std::fmt::Display, hint: Option<String>| Failure {
        hint,
        ..Failure::failed(format!("{error}; nothing was changed"))
    };
    let journal = &context.changes;
    journal.prepare(change).map_err(|error| {
        if is_full(&error) {
            Failure::limit(format!("The change is too large: {error}; nothing was changed"))
                .with_hint("end this session; a new one has room of its own")
        } else {
            let why = format!("The change cannot be journalled: {error}");
            unchanged(&why, Disk::Home.hint_for(&error))
        }
    })?;
    let (obstacle, rolled_back) = match changes::put_in_place(&context.repository, change) {
        Ok(late) => {
            late.iter().for_each(|late| journal.written_late(late));
            return journal.committed(&change.id).map_err(|error| {
                let what = format!("The change cannot be journalled: {error}");
                take_back(context, change, &what, Disk::Home.hint_for(&error))
            });
        }
        Err(failed) => failed,
    };
    if rolled_back == RolledBack::InPart {
        return Err(take_back(context, change, &obstacle.to_string(), obstacle.hint()));
    }
    abandon_change(context, change);
    Err(match obstacle {
        Obstacle::Changed { path } => {
            let message = format!("`{path}` has changed since it was read in this session: read it again");
            Failure::denied(message)
        }
        obstacle => unchanged(&obstacle, obstacle.hint()),
    })
}

fn is_full(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ContentsFull>())
}

/// Rolls back a change that the journal does not record as committed, and reports it, instead of leaving it to the next
/// start. Later changes by others stay and are named.
fn take_back(context: &CallContext, change: &PreparedChange, why: &str, hint: Option<String>) -> Failure {
    let recovery = changes::recover_locked(&context.repository, change);
    let late = recovery.written_late.iter();
    late.for_each(|late| context.changes.written_late(late));
    let left = recovery.reasons();
    if !recovery.is_settled() {
        // The change stays open in the journal.
        let message = format!("{why}; it could not be taken back everywhere: {left}");
        return Failure::failed(message).with_hint("the next start of the backend tries again");
    }
    abandon_change(context, change);
    let message = if left.is_empty() {
        format!("{why}; it was taken back")
    } else {
        format!("{why}; it was taken back, but not everywhere: {left}")
    };
    Failure {
        hint,
        ..Failure::failed(message)
    }
}

/// Records that a change was taken back. If that fails, the next start finds the change open and has nothing to do for
/// it.
fn abandon_change(context: &CallContext, change: &PreparedChange) {
    if let Err(error) = context.changes.abandoned(&change.id) {
        tracing::warn!(change = %change.id, %error, "a change that was taken back cannot be noted as such");
    }
}

impl SessionFiles {
    /// Notes a file that is in place. The model knows what it wrote.
    fn note(&mut self, file: &FileChange) {
        match &file.after {
            Some(after) => self.seen.insert(file.path.clone(), sha256_hex(&after.content)),
            None => self.seen.remove(&file.path),
        };
        let previous = self.changed.remove(&file.path);
        if let Some(kind) = combine_kinds(previous, file.before.is_some(), file.after.is_some()) {
            self.changed.insert(file.path.clone(), kind);
        }
    }
}

/// Combines the changes of a session to a file: the change since the session's start, and whether the file existed
/// before and after the newest change.
fn combine_kinds(previous: Option<ChangeKind>, before: bool, after: bool) -> Option<ChangeKind> {
    let existed_at_start = match previous {
        Some(ChangeKind::Created) => false,
        Some(ChangeKind::Modified | ChangeKind::Deleted) => true,
        None => before,
    };
    match (existed_at_start, after) {
        (false, true) => Some(ChangeKind::Created),
        (true, true) => Some(ChangeKind::Modified),
        (true, false) => Some(ChangeKind::Deleted),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests;
