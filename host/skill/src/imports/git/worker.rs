//! The helper's side of git: everything that libgit2 does.
//!
//! It answers requests about one repository until the engine closes the connection. It decides nothing: the engine
//! decides what is hidden, shown and committed. Repositories that libgit2 reads differently from git are refused
//! before they are opened.

mod commit;
mod commit_walk;
mod configuration;
mod history;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{
    AttrCheckFlags, AttrValue, DiffDelta, DiffFindOptions, DiffOptions, ErrorClass, ErrorCode, FileMode,
    IndexEntryExtendedFlag, IndexEntryFlag, Oid, Repository, RepositoryOpenFlags,
};

use self::commit::CommitMaker;
use self::commit_walk::PastWalk;
#[cfg(test)]
pub(super) use self::configuration::allow_extensions;
pub(crate) use self::configuration::prepare_process;
use self::history::CommitWalk;
use super::layout::{foreign_failure, not_a_repository};
use super::messages::{
    Attributes, ChangeArea, FileDelta, FileStatus, GitAnswer, GitRequest, LineEnds, ObjectId, Submodule,
};
use super::stand_in;
use super::submodules::SUBMODULES_MAX;
use crate::helper_task::{GitPerson, GitTask, StandInTask};
use crate::imports::git::messages::GIT_PAGE;
use tool_boundary::Failure;
use tool_sandbox::helper_process::HelperConnection;

/// Answers requests until the connection is closed.
pub(crate) fn serve_requests(mut connection: HelperConnection, task: &GitTask) {
    match OpenedGit::open(task) {
        Ok(git) => GitWorker::new(&git).serve(&mut connection),
        Err(failure) => {
            if let Ok(Some((_, _))) = connection.receive::<GitRequest>() {
                // The receiver may have stopped waiting.
                let _ = connection.send(&failed_answer(failure), &[]);
            }
        }
    }
}

fn failed_answer(failure: Failure) -> GitAnswer {
    GitAnswer::Failed {
        code: failure.kind,
        message: failure.message,
        hint: failure.hint,
    }
}

impl OpenedGit {
    /// Opens the git repository of a work tree.
    fn open(task: &GitTask) -> Result<Self, Failure> {
        let real = open_repository(&task.top, RepositoryOpenFlags::NO_SEARCH)
            .map_err(|error| open_failure(&task.top, &error))?;
        check_belongs(&real, task)?;
        let (repository, configured) = match &task.stand_in {
            Some(stand_in) => (open_stand_in(stand_in, &task.top, &real)?, Some(real)),
            None => (real, None),
        };
        if let Some(scratch) = &task.scratch {
            commit::divert_objects(&repository, scratch).map_err(|error| git_failure(&error))?;
        }
        let inside = task.root.strip_prefix(&task.top).unwrap_or(Path::new(""));
        let mut prefix = inside.to_string_lossy().into_owned();
        if !prefix.is_empty() {
            prefix.push('/');
        }
        Ok(Self {
            repository,
            prefix,
            above: task.above.clone(),
            persons: (task.author.clone(), task.committer.clone()),
            scratch: task.scratch.clone(),
            stand_in: task.stand_in.clone(),
            _configured: configured,
        })
    }

    /// Opens the same repository again, for a second handle of libgit2.
    fn open_again(&self) -> Result<Repository, git2::Error> {
        match (&self.stand_in, self.repository.workdir()) {
            (Some(stand_in), _) => open_with(&stand_in.place, &self.repository),
            (None, Some(top)) => open_repository(top, RepositoryOpenFlags::NO_SEARCH),
            (None, None) => Err(git2::Error::from_str("it has no work tree")),
        }
    }

    /// Reads the references again, if libgit2 does not do so itself.
    fn refresh(&self) -> Result<(), Failure> {
        self.stand_in.as_ref().map_or(Ok(()), stand_in::fill_stand_in)
    }
}

fn open_repository(place: &Path, flags: RepositoryOpenFlags) -> Result<Repository, git2::Error> {
    configuration::allow_extensions();
    Repository::open_ext(place, flags, std::iter::empty::<&OsStr>())
}

/// Opens the stand-in for a git directory, with the work tree and the configuration of the real one.
fn open_stand_in(task: &StandInTask, top: &Path, real: &Repository) -> Result<Repository, Failure> {
    stand_in::fill_stand_in(task)?;
    let repository = open_with(&task.place, real).map_err(|error| open_failure(top, &error))?;
    let opened = repository.set_workdir(top, false);
    opened.map_err(|error| git_failure(&error))?;
    Ok(repository)
}

/// Opens a git directory alone. Conditions and relative paths in the configuration refer to the location of
/// `configured`.
fn open_with(place: &Path, configured: &Repository) -> Result<Repository, git2::Error> {
    let repository = open_repository(place, RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::BARE)?;
    repository.set_config(&configured.config()?)?;
    Ok(repository)
}

/// Checks that libgit2 uses the same directory for the work tree, and that a directory is its own common directory.
fn check_belongs(repository: &Repository, task: &GitTask) -> Result<(), Failure> {
    let Some(work_tree) = repository.workdir() else {
        return Err(not_a_repository());
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let git = real(repository.path());
    let common = real(repository.commondir());
    if real(work_tree) != real(&task.top) {
        return Err(foreign_failure(&git, "its work tree is another directory"));
    }
    if task.is_directory && (git != real(&task.top.join(".git")) || common != git) {
        return Err(foreign_failure(&git, "it borrows from another repository"));
    }
    if !task.is_directory && !repository.is_worktree() && !local_work_tree(repository) {
        return Err(foreign_failure(&git, "`.git` leads to it, but it does not lead back"));
    }
    Ok(())
}

/// True if the repository's own configuration names its work tree, as that of a submodule does.
fn local_work_tree(repository: &Repository) -> bool {
    let Ok(config) = repository.config() else { return false };
    let Ok(local) = config.open_level(git2::ConfigLevel::Local) else {
        return false;
    };
    local.get_path("core.worktree").is_ok()
}

/// An opened git repository, and the position of the session's root in its work tree.
struct OpenedGit {
    repository: Repository,
    /// Session's root relative to the work tree, with a trailing `/`; empty if they are the same.
    prefix: String,
    /// Prefix of paths in requests, with a trailing `/`; empty except for a submodule.
    above: String,
    /// Author and committer from the caller's environment.
    persons: (GitPerson, GitPerson),
    scratch: Option<std::path::PathBuf>,
    stand_in: Option<StandInTask>,
    /// The real repository of a stand-in, which must live as long as its configuration is in use.
    _configured: Option<Repository>,
}

impl OpenedGit {
    /// Converts a path of a request to one in the work tree; for the root itself, without a trailing `/`.
    fn inside(&self, path: &str) -> String {
        // The path of the submodule itself has no `/` at its end.
        let is_itself = self.above.strip_suffix('/') == Some(path);
        let below = if is_itself {
            ""
        } else {
            path.strip_prefix(self.above.as_str()).unwrap_or(path)
        };
        let path = format!("{}{below}", self.prefix);
        path.trim_end_matches('/').to_owned()
    }

    /// Converts a path in the work tree to one for answers; `None` outside the session's root, or if it is not UTF-8.
    fn ours(&self, path: &[u8]) -> Option<String> {
        let below = std::str::from_utf8(path).ok()?.strip_prefix(self.prefix.as_str())?;
        Some(format!("{}{below}", self.above))
    }

    /// Literal paths for libgit2; an empty list means all paths.
    fn pathspecs(&self, paths: &[String]) -> Vec<String> {
        let inside: Vec<String> = paths.iter().map(|path| self.inside(path)).collect();
        if inside.iter().any(String::is_empty) || paths.is_empty() || paths.iter().any(String::is_empty) {
            return Some(self.inside(""))
                .filter(|prefix| !prefix.is_empty())
                .into_iter()
                .collect();
        }
        inside
    }

    /// Object and mode of a file in the index.
    fn staged(&self, path: &str) -> Result<Option<(ObjectId, u32)>, Failure> {
        let index = self.repository.index().map_err(|error| git_failure(&error))?;
        let Some(entry) = index.get_path(Path::new(&self.inside(path)), 0) else {
            return Ok(None);
        };
        Ok(Some((convert_oid(entry.id)?, entry.mode)))
    }

    /// Submodules of the index and the last commit, without those that a sparse checkout leaves out; at most
    /// `SUBMODULES_MAX` + 1.
    fn submodules(&self) -> Result<Vec<Submodule>, Failure> {
        let is_module = |mode: u32| mode == u32::from(FileMode::Commit);
        let index = self.repository.index().map_err(|error| git_failure(&error))?;
        let head = self.head_tree()?;
        let mut found: Vec<Submodule> = Vec::new();
        for entry in index
            .iter()
            .filter(|entry| is_module(entry.mode) && !not_watched(entry))
        {
            // The binding panics on a path that leaves the tree, as in `entry`.
            let committed = std::str::from_utf8(&entry.path)
                .ok()
                .filter(|path| is_plain(Path::new(path)))
                .and_then(|path| head.as_ref()?.get_path(Path::new(path)).ok())
                .filter(|entry| entry.filemode() == i32::from(FileMode::Commit));
            if let Some(path) = self.ours(&entry.path)
                && found.len() <= SUBMODULES_MAX
            {
                found.push(Submodule {
                    path,
                    staged: Some(convert_oid(entry.id)?),
                    committed: committed.map(|entry| convert_oid(entry.id())).transpose()?,
                });
            }
        }
        // The last commit may have submodules that the index lacks.
        if head.as_ref().is_none_or(|tree| tree.get_name(".gitmodules").is_none()) {
            return Ok(found);
        }
        let diff = self.repository.diff_tree_to_index(head.as_ref(), Some(&index), None);
        let diff = diff.map_err(|error| git_failure(&error))?;
        for delta in diff.deltas() {
            let (old, new) = (delta.old_file(), delta.new_file());
            if old.mode() == FileMode::Commit
                && new.mode() != FileMode::Commit
                && found.len() <= SUBMODULES_MAX
                && let Some(path) = old.path_bytes().and_then(|path| self.ours(path))
            {
                let committed = Some(convert_oid(old.id())?);
                found.push(Submodule {
                    path,
                    staged: None,
                    committed,
                });
            }
        }
        Ok(found)
    }

    /// Name of the current branch, with or without commits; `None` on a detached head.
    fn branch(&self) -> Option<String> {
        let head = self.repository.find_reference("HEAD").ok()?;
        let target = head.symbolic_target_bytes()?;
        let name = target.strip_prefix(b"refs/heads/")?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn head(&self) -> Result<Option<git2::Commit<'_>>, Failure> {
        match self.repository.head() {
            Ok(head) => Ok(Some(head.peel_to_commit().map_err(|error| git_failure(&error))?)),
            Err(error) if error.code() == ErrorCode::UnbornBranch => Ok(None),
            Err(error) => Err(git_failure(&error)),
        }
    }

    fn head_tree(&self) -> Result<Option<git2::Tree<'_>>, Failure> {
        let tree = self.head()?.map(|commit| commit.tree()).transpose();
        tree.map_err(|error| git_failure(&error))
    }
}

/// Text in libgit2's message when the sandbox denies a file.
const KEPT_OUT: &str = "Permission denied";

fn open_failure(top: &Path, error: &git2::Error) -> Failure {
    match error.code() {
        ErrorCode::NotFound => not_a_repository(),
        ErrorCode::Owner => Failure::unavailable("The git repository belongs to another user of this machine.")
            .with_hint(format!(
                "if you trust it: git config --global --add safe.directory {}",
                top.display()
            )),
        _ if error.message().contains(KEPT_OUT) => Failure::unavailable(format!(
            "The git repository refers to something outside of it: {}.",
            error_message(error)
        ))
        .with_hint("git data is read only where it belongs to the repository"),
        _ => Failure::unavailable(format!(
            "The git repository cannot be opened: {}.",
            error_message(error)
        )),
    }
}

/// Converts an error of libgit2 that no rule expects.
fn git_failure(error: &git2::Error) -> Failure {
    match (error.code(), error.class()) {
        (ErrorCode::NotFound, ErrorClass::Odb) => Failure::failed(format!(
            "git lacks an object that this needs: {}.",
            error_message(error)
        ))
        .with_hint("in a partial clone the user can fetch it with git; else `git fsck` says what is damaged"),
        (_, ErrorClass::NoMemory) => Failure::limit("git took more memory than it may."),
        _ => Failure::failed(format!("git: {}.", error_message(error))),
    }
}

fn error_message(error: &git2::Error) -> &str {
    error.message().trim_end_matches('.')
}

fn convert_oid(oid: Oid) -> Result<ObjectId, Failure> {
    ObjectId::try_from(oid.to_string()).map_err(Failure::failed)
}

fn convert_id(id: &ObjectId) -> Result<Oid, Failure> {
    Oid::from_bytes(id.commit().as_bytes()).map_err(|error| git_failure(&error))
}

/// The repository, and the results of the last search.
struct GitWorker<'a> {
    git: &'a OpenedGit,
    diff: Option<git2::Diff<'a>>,
    walk: Option<CommitWalk<'a>>,
    past: Option<PastWalk<'a>>,
    making: CommitMaker<'a>,
}

impl<'a> GitWorker<'a> {
    fn new(git: &'a OpenedGit) -> Self {
        Self {
            git,
            diff: None,
            walk: None,
            past: None,
            making: CommitMaker::new(git),
        }
    }

    fn serve(&mut self, connection: &mut HelperConnection) {
        while let Ok(Some((request, body))) = connection.receive() {
            let (answer, body) = self
                .answer(request, &body)
                .unwrap_or_else(|failure| (failed_answer(failure), Vec::new()));
            if connection.send(&answer, &body).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, request: GitRequest, body: &[u8]) -> Result<(GitAnswer, Vec<u8>), Failure> {
        let answer = match request {
            GitRequest::Branch => GitAnswer::Branch(self.git.branch()),
            GitRequest::Diff { area, untracked, paths } => GitAnswer::Counted(self.compare(area, untracked, &paths)?),
            GitRequest::Renames => GitAnswer::Counted(self.find_renames()?),
            GitRequest::Deltas { from } => GitAnswer::Deltas(self.deltas(from)?),
            GitRequest::Attributes { path } => GitAnswer::Attributes(self.git.attributes(&path)),
            GitRequest::Staged { path } => GitAnswer::Staged(self.git.staged(&path)?),
            GitRequest::Submodules => GitAnswer::Submodules(self.git.submodules()?),
            GitRequest::Blob { id, bytes_max } => return self.blob(&id, bytes_max),
            GitRequest::Revision { name } => GitAnswer::Revision(self.git.revision(name.as_deref())?),
            GitRequest::Lineage { kept, team } => GitAnswer::Lineage(self.git.lineage(&kept, &team)?),
            GitRequest::UserEmails => GitAnswer::UserEmails(self.git.user_emails()),
            GitRequest::IsInHistory { commit } => GitAnswer::IsInHistory(self.git.is_in_history(&commit)?),
            GitRequest::BeginWalk { from, skip, paths } => {
                self.walk = Some(CommitWalk::begin_walk(self.git, &from, skip, &paths)?);
                GitAnswer::Done
            }
            GitRequest::Walk { commits_max, steps_max } => match &mut self.walk {
                Some(walk) => GitAnswer::Walked(walk.read(commits_max, steps_max)?),
                None => return Err(Failure::failed("No walk was begun.")),
            },
            GitRequest::BeginPast { from, bounds } => {
                self.past = Some(PastWalk::begin_walk(self.git, &from, body, bounds)?);
                GitAnswer::Done
            }
            GitRequest::Past { commits_max } => match &mut self.past {
                Some(past) => GitAnswer::Past(past.read(commits_max)?),
                None => return Err(Failure::failed("No walk was begun.")),
            },
            GitRequest::DiffCommit { id, paths } => {
                let diff = self.git.diff_commit(&id, &paths)?;
                GitAnswer::Counted(self.diff.insert(diff).deltas().len())
            }
            GitRequest::FileOf { commit, path } => GitAnswer::FileOf(self.git.file_of(&commit, &path)?),
            GitRequest::Blame {
                commit,
                path,
                first_line,
                last_line,
            } => GitAnswer::Origins(self.git.blame(&commit, &path, first_line, last_line)?),
            other => self.making.answer(other, body)?,
        };
        Ok((answer, Vec::new()))
    }

    fn compare(&mut self, area: ChangeArea, untracked: bool, paths: &[String]) -> Result<usize, Failure> {
        // Work trees of submodules are other repositories. Paths are literal, not patterns.
        let mut options = DiffOptions::new();
        options
            .ignore_submodules(area == ChangeArea::WorkTree)
            .disable_pathspec_match(true)
            .include_typechange(true);
        for path in self.git.pathspecs(paths) {
            options.pathspec(path);
        }
        let repository = &self.git.repository;
        let index = repository.index().map_err(|error| git_failure(&error))?;
        let diff = match area {
            ChangeArea::Index => {
                let head = self.git.head_tree()?;
                let staged = without_intended(&index, repository.object_format());
                repository.diff_tree_to_index(
                    head.as_ref(),
                    Some(staged.as_ref().unwrap_or(&index)),
                    Some(&mut options),
                )
            }
            ChangeArea::WorkTree => {
                options.include_untracked(untracked).recurse_untracked_dirs(true);
                repository.diff_index_to_workdir(Some(&index), Some(&mut options))
            }
        };
        let diff = diff.map_err(|error| git_failure(&error))?;
        Ok(self.diff.insert(diff).deltas().len())
    }

    fn find_renames(&mut self) -> Result<usize, Failure> {
        let Some(diff) = &mut self.diff else {
            return Err(Failure::failed("Nothing was compared."));
        };
        let mut options = DiffFindOptions::new();
        options.renames(true);
        diff.find_similar(Some(&mut options))
            .map_err(|error| git_failure(&error))?;
        Ok(diff.deltas().len())
    }

    fn deltas(&self, from: usize) -> Result<Vec<FileDelta>, Failure> {
        let Some(diff) = &self.diff else {
            return Err(Failure::failed("Nothing was compared."));
        };
        let index = self.git.repository.index().map_err(|error| git_failure(&error))?;
        let head = self.git.head_tree()?;
        let page = (from..from.saturating_add(GIT_PAGE)).map_while(|at| diff.get_delta(at));
        page.map(|delta| self.git.delta(&delta, &index, head.as_ref()))
            .collect()
    }

    fn blob(&self, id: &ObjectId, bytes_max: u64) -> Result<(GitAnswer, Vec<u8>), Failure> {
        let read = |id: Oid| -> Result<Option<Vec<u8>>, git2::Error> {
            let (size, _) = self.git.repository.odb()?.read_header(id)?;
            if size as u64 > bytes_max {
                return Ok(None);
            }
            Ok(Some(self.git.repository.find_blob(id)?.content().to_vec()))
        };
        match read(convert_id(id)?).map_err(|error| git_failure(&error))? {
            Some(content) if content.len() as u64 <= bytes_max => Ok((GitAnswer::Blob, content)),
            _ => Ok((GitAnswer::TooLarge, Vec::new())),
        }
    }
}

impl OpenedGit {
    fn delta(
        &self,
        delta: &DiffDelta<'_>,
        index: &git2::Index,
        head: Option<&git2::Tree<'_>>,
    ) -> Result<FileDelta, Failure> {
        let stored = |file: git2::DiffFile<'_>| {
            if file.id().is_zero() {
                Ok(None)
            } else {
                convert_oid(file.id()).map(Some)
            }
        };
        let ours = |file: git2::DiffFile<'_>| file.path_bytes().and_then(|path| self.ours(path));
        let path = ours(delta.new_file());
        let new = delta
            .new_file()
            .path()
            .filter(|_| delta.status() == git2::Delta::Modified);
        let is_new = new
            .and_then(|path| find_index_entry(index, path))
            .is_some_and(|entry| is_intended(&entry));
        let status = if is_new {
            FileStatus::Added
        } else {
            convert_status(delta.status())
        };
        let old = match (status, &path) {
            (FileStatus::Conflicted, Some(path)) => {
                let entry = head.and_then(|tree| tree.get_path(Path::new(&self.inside(path))).ok());
                entry.map(|entry| convert_oid(entry.id())).transpose()?
            }
            _ if is_new => None,
            _ => stored(delta.old_file())?,
        };
        Ok(FileDelta {
            status,
            path,
            old_path: ours(delta.old_file()),
            old,
            new: stored(delta.new_file())?,
            old_mode: u32::from(delta.old_file().mode()),
            new_mode: u32::from(delta.new_file().mode()),
            left_in_place: left_in_place(index, delta),
        })
    }

    fn attributes(&self, path: &str) -> Attributes {
        let filters = ["filter", "working-tree-encoding"];
        let external_filter = filters.into_iter().find_map(|name| {
            let value = self.attribute(path, name)?;
            Some(format!("{name}={value}"))
        });
        let inside = self.inside(path);
        let flags = AttrCheckFlags::FILE_THEN_INDEX;
        let diff = self.repository.get_attr_bytes(Path::new(&inside), "diff", flags);
        Attributes {
            external_filter,
            binary: diff.is_ok_and(|value| AttrValue::always_bytes(value) == AttrValue::False),
            line_ends: self.line_ends(path),
        }
    }

    /// Value of an attribute, if it has one.
    fn attribute(&self, path: &str, name: &str) -> Option<String> {
        let path = self.inside(path);
        let flags = AttrCheckFlags::FILE_THEN_INDEX;
        let value = self.repository.get_attr_bytes(Path::new(&path), name, flags).ok()?;
        match AttrValue::from_bytes(value) {
            AttrValue::String(value) => Some(value.to_owned()),
            AttrValue::Bytes(value) => Some(String::from_utf8_lossy(value).into_owned()),
            AttrValue::True => Some("true".to_owned()),
            AttrValue::False | AttrValue::Unspecified => None,
        }
    }

    /// git keeps CRLF in a file whose stored content has CRLF already, unless `text` or `eol` is set.
    fn line_ends(&self, path: &str) -> LineEnds {
        let inside = self.inside(path);
        let flags = AttrCheckFlags::FILE_THEN_INDEX;
        let text = self.repository.get_attr_bytes(Path::new(&inside), "text", flags);
        match AttrValue::from_bytes(text.ok().flatten()) {
            AttrValue::False => LineEnds::AsTheyAre,
            AttrValue::True => LineEnds::LineFeeds,
            AttrValue::String("auto") => LineEnds::LineFeedsUnlessStored,
            _ if self.attribute(path, "eol").is_some() => LineEnds::LineFeeds,
            _ if self.converts_by_default() => LineEnds::LineFeedsUnlessStored,
            _ => LineEnds::AsTheyAre,
        }
    }

    fn converts_by_default(&self) -> bool {
        let value = self
            .repository
            .config()
            .and_then(|config| config.get_string("core.autocrlf"));
        value.is_ok_and(|value| ["true", "input", "yes", "on", "1"].contains(&value.to_lowercase().as_str()))
    }
}

/// True for a missing file that the user told git to leave out (sparse checkout) or to ignore.
fn left_in_place(index: &git2::Index, delta: &DiffDelta<'_>) -> bool {
    let Some(path) = delta
        .old_file()
        .path()
        .filter(|_| delta.status() == git2::Delta::Deleted)
    else {
        return false;
    };
    find_index_entry(index, path).is_some_and(|entry| not_watched(&entry))
}

/// Finds the index entry of a path. The binding panics on a path that leaves the tree, which a tree may well contain.
fn find_index_entry(index: &git2::Index, path: &Path) -> Option<git2::IndexEntry> {
    is_plain(path).then(|| index.get_path(path, 0))?
}

fn is_plain(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// True if the index says to ignore changes of this file.
fn not_watched(entry: &git2::IndexEntry) -> bool {
    IndexEntryFlag::from_bits_truncate(entry.flags).is_valid()
        || IndexEntryExtendedFlag::from_bits_truncate(entry.flags_extended).is_skip_worktree()
}

/// True for a file that was announced with `git add -N`: git has no content of it yet.
fn is_intended(entry: &git2::IndexEntry) -> bool {
    IndexEntryExtendedFlag::from_bits_truncate(entry.flags_extended).is_intent_to_add()
}

/// Copies the index without announced files, which git does not count as staged; `None` if there are no such files.
fn without_intended(index: &git2::Index, format: git2::ObjectFormat) -> Option<git2::Index> {
    let intended: Vec<Vec<u8>> = index.iter().filter(is_intended).map(|entry| entry.path).collect();
    let mut copy = git2::Index::open_ext(index.path().filter(|_| !intended.is_empty())?, format).ok()?;
    for path in intended {
        let path = Path::new(OsStr::from_bytes(&path));
        if is_plain(path) {
            copy.remove(path, 0).ok()?;
        }
    }
    Some(copy)
}

fn convert_status(status: git2::Delta) -> FileStatus {
    match status {
        git2::Delta::Added | git2::Delta::Copied => FileStatus::Added,
        git2::Delta::Untracked => FileStatus::Untracked,
        git2::Delta::Deleted => FileStatus::Deleted,
        git2::Delta::Renamed => FileStatus::Renamed,
        git2::Delta::Typechange => FileStatus::TypeChanged,
        git2::Delta::Conflicted => FileStatus::Conflicted,
        _ => FileStatus::Modified,
    }
}
