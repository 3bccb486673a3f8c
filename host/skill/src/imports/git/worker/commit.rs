//! The helper's part of a commit: finds changes, and makes objects in its own folder.
//!
//! It writes nothing to the repository. Objects go to a scratch folder that borrows from the real one, and the index
//! is a copy. The engine publishes both once the user has agreed, and moves the branch.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use git2::{
    ErrorCode, FileMode, Index, IndexEntry, IndexTime, Oid, Repository, RepositoryOpenFlags, RepositoryState,
    Signature, Status, StatusOptions, Time,
};

use super::super::messages::{
    CommitCandidate, CommitStart, CommitTime, GitAnswer, GitRequest, NewFile, ObjectId, TreeEntry,
};
use super::{OpenedGit, convert_id, convert_oid, find_index_entry, git_failure, not_watched, open_repository};
use crate::helper_task::GitPerson;
use crate::imports::git::messages::GIT_PAGE;
use tool_boundary::Failure;

/// Makes libgit2 write new objects to the scratch folder, which the engine has prepared.
pub(super) fn divert_objects(repository: &Repository, scratch: &Path) -> Result<(), git2::Error> {
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::BARE;
    let store = open_repository(&scratch.join("store"), flags)?;
    repository.set_odb(&store.odb()?)
}

/// A commit in preparation.
pub(super) struct CommitMaker<'a> {
    git: &'a OpenedGit,
    candidates: Vec<CommitCandidate>,
    storing: Option<FilterStore>,
    /// The file that is being stored.
    file: Option<File>,
    entries: Vec<TreeEntry>,
}

impl<'a> CommitMaker<'a> {
    pub(super) fn new(git: &'a OpenedGit) -> Self {
        Self {
            git,
            candidates: Vec::new(),
            storing: None,
            file: None,
            entries: Vec::new(),
        }
    }

    pub(super) fn answer(&mut self, request: GitRequest, body: &[u8]) -> Result<GitAnswer, Failure> {
        match request {
            GitRequest::Begin { message } => Ok(GitAnswer::Started(self.begin(&message)?)),
            GitRequest::Find { paths } => {
                self.candidates = self.find(&paths)?;
                Ok(GitAnswer::Counted(self.candidates.len()))
            }
            GitRequest::Candidates { from } => {
                let page = self.candidates.iter().skip(from).take(GIT_PAGE);
                Ok(GitAnswer::Candidates(page.cloned().collect()))
            }
            GitRequest::Explain { path } => self.explain(&path).map(|()| GitAnswer::Done),
            GitRequest::Store { path, is_last } => self.store(&path, is_last, body),
            GitRequest::StoreLink => {
                let stored = self.git.repository.blob(body).map_err(|error| git_failure(&error))?;
                Ok(GitAnswer::Stored(convert_oid(stored)?))
            }
            GitRequest::Entries { entries } => {
                self.entries.extend(entries);
                Ok(GitAnswer::Done)
            }
            GitRequest::Tree => {
                let tree = self.tree().map_err(|error| git_failure(&error))?;
                Ok(GitAnswer::Stored(convert_oid(tree)?))
            }
            GitRequest::Commit {
                tree,
                parent,
                message,
                moments,
            } => Ok(GitAnswer::Stored(self.commit(
                &tree,
                parent.as_ref(),
                &message,
                moments,
            )?)),
            GitRequest::Index => {
                self.update_index().map_err(|error| git_failure(&error))?;
                Ok(GitAnswer::Done)
            }
            _ => Err(Failure::failed("This is not a question about a commit.")),
        }
    }

    fn begin(&self, message: &str) -> Result<CommitStart, Failure> {
        self.git.refresh()?;
        self.refuse_special_states()?;
        let [author, committer] = self.persons(None)?;
        let shown = |person: &Signature<'_>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("{} <{}>", text(person.name_bytes()), text(person.email_bytes()))
        };
        let parent = self.git.head()?.map(|commit| convert_oid(commit.id())).transpose()?;
        let config = self.git.repository.config().map_err(|error| git_failure(&error))?;
        Ok(CommitStart {
            message: git2::message_prettify(message, None).map_err(|error| git_failure(&error))?,
            author: shown(&author),
            committer: shown(&committer),
            parent,
            branch: self.git.branch(),
            trusts_modes: config.get_bool("core.filemode").unwrap_or(true),
            has_links: config.get_bool("core.symlinks").unwrap_or(true),
            // The value may also be `always`, which includes this.
            keeps_logs: config.get_bool("core.logallrefupdates").unwrap_or(true),
            hooks_path: config
                .get_path("core.hookspath")
                .ok()
                .map(|path| path.to_string_lossy().into_owned()),
        })
    }

    /// git's index refers to the replacement of a replaced last commit (`git replace`), and libgit2 to the commit
    /// itself.
    fn refuse_replaced_head(&self) -> Result<(), Failure> {
        let Some(head) = self.git.head()? else { return Ok(()) };
        let is_replaced = |id: Oid| {
            let name = format!("refs/replace/{id}");
            self.git.repository.find_reference(&name).is_ok()
        };
        if is_replaced(head.id()) || is_replaced(head.tree_id()) {
            Err(Failure::unavailable(
                "The last commit is replaced by another one (`refs/replace`), which is not understood here.",
            )
            .with_hint("the user has to commit with git"))
        } else {
            Ok(())
        }
    }

    /// Refuses to commit during a merge or a rebase, where a commit has another meaning.
    fn refuse_special_states(&self) -> Result<(), Failure> {
        let what = match self.git.repository.state() {
            RepositoryState::Clean => None,
            RepositoryState::Merge => Some("A merge"),
            RepositoryState::Revert | RepositoryState::RevertSequence => Some("A revert"),
            RepositoryState::CherryPick | RepositoryState::CherryPickSequence => Some("A cherry-pick"),
            RepositoryState::Bisect => Some("A bisection"),
            RepositoryState::Rebase | RepositoryState::RebaseInteractive | RepositoryState::RebaseMerge => {
                Some("A rebase")
            }
            RepositoryState::ApplyMailbox | RepositoryState::ApplyMailboxOrRebase => {
                Some("The application of a mailbox")
            }
        };
        let hint = "the user has to finish or abort it with git";
        if let Some(what) = what {
            let message = format!("{what} is under way in this repository.");
            return Err(Failure::failed(message).with_hint(hint));
        }
        let repository = &self.git.repository;
        let index = repository.index().map_err(|error| git_failure(&error))?;
        if index.has_conflicts() {
            let message = "There are unresolved conflicts in this repository.";
            return Err(Failure::failed(message).with_hint(hint));
        }
        self.refuse_chained_branch()?;
        self.refuse_replaced_head()?;
        let config = repository.config().map_err(|error| git_failure(&error))?;
        self.refuse_unread_settings(&config)?;
        match config.get_bool("commit.gpgsign") {
            Ok(true) => Err(Failure::failed(
                "The git configuration wants every commit signed (`commit.gpgsign`), which cannot be done here.",
            )
            .with_hint("the user has to commit with git")),
            Ok(false) => Ok(()),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
            Err(error) => Err(git_failure(&error)),
        }
    }

    /// Refuses a branch that is a symbolic reference: the move would have to follow it.
    fn refuse_chained_branch(&self) -> Result<(), Failure> {
        let Some(branch) = self.git.branch() else {
            return self.refuse_other_head();
        };
        let reference = self.git.repository.find_reference(&format!("refs/heads/{branch}"));
        match reference.ok().and_then(|reference| reference.kind()) {
            Some(git2::ReferenceType::Symbolic) => Err(Failure::failed(format!(
                "The branch `{branch}` stands for another one (a symbolic reference)."
            ))
            .with_hint("the user has to commit with git")),
            _ => Ok(()),
        }
    }

    /// Refuses a `HEAD` that does not point to a branch: a commit would detach it from its target.
    fn refuse_other_head(&self) -> Result<(), Failure> {
        let head = self.git.repository.find_reference("HEAD").ok();
        match head.as_ref().and_then(git2::Reference::symbolic_target_bytes) {
            None => Ok(()),
            Some(target) => Err(Failure::failed(format!(
                "`HEAD` stands for `{}`, which is no branch.",
                String::from_utf8_lossy(target)
            ))
            .with_hint("the user has to commit with git")),
        }
    }

    /// Refuses settings that git applies and libgit2 does not read: conditional includes, and separate authors.
    fn refuse_unread_settings(&self, config: &git2::Config) -> Result<(), Failure> {
        let refuse = |what: String| {
            let message = format!("The git configuration {what}, which is not read here.");
            Err(Failure::failed(message).with_hint("the user has to commit with git"))
        };
        let mut inclusions = config
            .entries(Some("^includeif\\."))
            .map_err(|error| git_failure(&error))?;
        while let Some(inclusion) = inclusions.next() {
            let inclusion = inclusion.map_err(|error| git_failure(&error))?;
            let name = String::from_utf8_lossy(inclusion.name_bytes()).into_owned();
            let condition = name.get("includeif.".len()..).unwrap_or_default();
            let is_known = |known: &&str| condition.starts_with(known);
            // With reference tables, libgit2 reads the configuration from the stand-in, where no file names the
            // branch.
            let is_by_branch = condition.starts_with("onbranch:") && self.git.stand_in.is_none();
            if !is_by_branch && !["gitdir:", "gitdir/i:"].iter().any(is_known) {
                return refuse(format!("includes a file on the condition `{condition}`"));
            }
        }
        for name in ["author.name", "author.email", "committer.name", "committer.email"] {
            if config.get_entry(name).is_ok() {
                return refuse(format!("sets `{name}`"));
            }
        }
        Ok(())
    }

    /// Author and committer, at these times or now.
    fn persons(&self, moments: Option<[CommitTime; 2]>) -> Result<[Signature<'static>; 2], Failure> {
        let (author, committer) = &self.git.persons;
        Ok([
            self.person(author, moments.map(|moments| moments[0]))?,
            self.person(committer, moments.map(|moments| moments[1]))?,
        ])
    }

    /// Author or committer: name and address from the caller's environment, and the rest from git's configuration.
    fn person(&self, given: &GitPerson, moment: Option<CommitTime>) -> Result<Signature<'static>, Failure> {
        let config = self.git.repository.config().map_err(|error| git_failure(&error))?;
        let find = |given: Option<&String>, key: &str| match given {
            Some(given) => Ok(given.clone()),
            None => match config.get_string(key) {
                Ok(configured) if !configured.trim().is_empty() => Ok(configured),
                Ok(_) => Err(no_author()),
                Err(error) if error.code() == ErrorCode::NotFound => Err(no_author()),
                Err(error) => Err(git_failure(&error)),
            },
        };
        let (name, email) = (
            find(given.name.as_ref(), "user.name")?,
            find(given.email.as_ref(), "user.email")?,
        );
        let made = match moment {
            Some(moment) => Signature::new(&name, &email, &Time::new(moment.seconds, moment.offset_minutes)),
            None => Signature::now(&name, &email),
        };
        made.map_err(|error| git_failure(&error))
    }

    /// Finds the changed paths among `paths`.
    fn find(&self, paths: &[String]) -> Result<Vec<CommitCandidate>, Failure> {
        let mut options = StatusOptions::new();
        options
            .include_untracked(true)
            .recurse_untracked_dirs(true)
            .include_ignored(false)
            .exclude_submodules(true)
            .disable_pathspec_match(true);
        for path in self.git.pathspecs(paths) {
            options.pathspec(path);
        }
        let repository = &self.git.repository;
        let statuses = repository
            .statuses(Some(&mut options))
            .map_err(|error| git_failure(&error))?;
        let index = repository.index().map_err(|error| git_failure(&error))?;
        let before = self.git.head_tree()?;
        let mut candidates = Vec::new();
        for status in statuses.iter() {
            let Some(path) = self.git.ours(status.path_bytes()) else {
                continue;
            };
            let missing_on_purpose = || {
                let entry = find_index_entry(&index, Path::new(&self.git.inside(&path)));
                entry.is_some_and(|entry| not_watched(&entry))
            };
            let unchanged = status.status().is_empty() || status.status().contains(Status::IGNORED);
            // A path that ends in `/` is a nested repository.
            let is_other = path.ends_with('/');
            if unchanged || is_other || (status.status().contains(Status::WT_DELETED) && missing_on_purpose()) {
                continue;
            }
            let committed = self.committed(before.as_ref(), &path)?;
            candidates.push(CommitCandidate { path, committed });
        }
        Ok(candidates)
    }

    /// Object and mode of a path in the last commit.
    fn committed(&self, before: Option<&git2::Tree<'_>>, path: &str) -> Result<Option<(ObjectId, u32)>, Failure> {
        let inside = self.git.inside(path);
        let Some(entry) = before.and_then(|tree| tree.get_path(Path::new(&inside)).ok()) else {
            return Ok(None);
        };
        match u32::try_from(entry.filemode()) {
            Ok(mode) if mode != u32::from(FileMode::Tree) => Ok(Some((convert_oid(entry.id())?, mode))),
            _ => Ok(None),
        }
    }

    /// An unchanged file is not a mistake; a missing or ignored file is.
    fn explain(&self, path: &str) -> Result<(), Failure> {
        let repository = &self.git.repository;
        let index = repository.index().map_err(|error| git_failure(&error))?;
        let inside = self.git.inside(path);
        let tracked =
            find_index_entry(&index, Path::new(&inside)).is_some() || index.find_prefix(format!("{inside}/")).is_ok();
        if tracked {
            return Ok(());
        }
        let exists = repository
            .workdir()
            .is_some_and(|top| top.join(&inside).symlink_metadata().is_ok());
        if !exists {
            let message = format!("`{path}` does not exist, and git does not know it.");
            return Err(Failure::not_found(message));
        }
        if repository.is_path_ignored(Path::new(&inside)).unwrap_or(false) {
            let message = format!("`{path}` is ignored by git, so it is not committed.");
            return Err(Failure::invalid_arguments(message));
        }
        Ok(())
    }

    /// Appends a piece to the file, and stores the file after the last piece.
    fn store(&mut self, path: &str, is_last: bool, piece: &[u8]) -> Result<GitAnswer, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("`{path}` could not be stored: {error}."));
        let inside = self.git.inside(path);
        if self.storing.is_none() {
            self.storing = Some(FilterStore::new(self.git).map_err(|error| git_failure(&error))?);
        }
        let Some(storing) = &self.storing else {
            return Err(Failure::failed("Nothing can be stored."));
        };
        let mut file = match self.file.take() {
            Some(file) => file,
            None => storing.begin(&inside).map_err(failed)?,
        };
        file.write_all(piece).map_err(failed)?;
        if is_last {
            drop(file);
            return Ok(GitAnswer::Stored(convert_oid(
                storing.finish(&inside).map_err(|error| git_failure(&error))?,
            )?));
        }
        self.file = Some(file);
        Ok(GitAnswer::Done)
    }

    /// Builds the tree of the commit: the last one with the chosen entries changed. Only objects are written.
    fn tree(&self) -> Result<Oid, git2::Error> {
        let mut index = Index::new_ext(self.git.repository.object_format())?;
        if let Ok(Some(before)) = self.git.head_tree() {
            index.read_tree(&before)?;
        }
        self.apply(&mut index)?;
        index.write_tree_to(&self.git.repository)
    }

    fn apply(&self, index: &mut Index) -> Result<(), git2::Error> {
        // Removals come first: a directory may replace a file.
        for entry in self.entries.iter().filter(|entry| entry.new.is_none()) {
            index.remove_path(Path::new(&self.git.inside(&entry.path)))?;
        }
        for entry in &self.entries {
            if let Some(new) = &entry.new {
                index.add(&index_entry(self.git.inside(&entry.path), new)?)?;
            }
        }
        Ok(())
    }

    fn commit(
        &self,
        tree: &ObjectId,
        parent: Option<&ObjectId>,
        message: &str,
        moments: [CommitTime; 2],
    ) -> Result<ObjectId, Failure> {
        let repository = &self.git.repository;
        let [author, committer] = self.persons(Some(moments))?;
        let tree = repository
            .find_tree(convert_id(tree)?)
            .map_err(|error| git_failure(&error))?;
        let parent = match parent {
            Some(parent) => Some(
                repository
                    .find_commit(convert_id(parent)?)
                    .map_err(|error| git_failure(&error))?,
            ),
            None => None,
        };
        let parents = parent.iter().collect::<Vec<_>>();
        let made = repository.commit(None, &author, &committer, message, &tree, &parents);
        convert_oid(made.map_err(|error| git_failure(&error))?)
    }

    /// The repository uses the copy of the index for this step, so that entries which may have changed since are read
    /// again, as in git.
    fn update_index(&self) -> Result<(), git2::Error> {
        let Some(scratch) = &self.git.scratch else {
            return Err(git2::Error::from_str("there is no copy of the index"));
        };
        let mut index = Index::open_ext(&scratch.join("index"), self.git.repository.object_format())?;
        self.git.repository.set_index(&mut index)?;
        self.apply(&mut index)?;
        index.write()
    }
}

/// Stores files with libgit2's filters (line ends, `$Id$`), as git does. libgit2 reads a file at its path in a work
/// tree, and writes temporary files beside the real objects. So it gets a work tree in the scratch folder, which
/// holds one file at a time and its attributes.
struct FilterStore {
    repository: Repository,
    top: PathBuf,
    work: PathBuf,
}

const ATTRIBUTES: &str = ".gitattributes";

impl FilterStore {
    fn new(git: &OpenedGit) -> Result<Self, git2::Error> {
        let absent = || git2::Error::from_str("there is nowhere to store it");
        let scratch = git.scratch.as_ref().ok_or_else(absent)?;
        let top = git.repository.workdir().ok_or_else(absent)?.to_owned();
        let repository = git.open_again()?;
        divert_objects(&repository, scratch)?;
        let work = scratch.join("work");
        fs::create_dir_all(&work).map_err(|error| git2::Error::from_str(&error.to_string()))?;
        repository.set_workdir(&work, false)?;
        Ok(Self { repository, top, work })
    }

    fn begin(&self, inside: &str) -> io::Result<File> {
        let folders = Path::new(inside).ancestors().skip(1);
        for folder in folders.collect::<Vec<_>>().into_iter().rev() {
            fs::create_dir_all(self.work.join(folder))?;
            self.copy_attributes(folder)?;
        }
        let path = self.work.join(inside);
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Copies the attributes of a folder. An unreadable file counts as absent, as in libgit2. A link is an error: git
    /// does not follow it, but libgit2 does.
    fn copy_attributes(&self, folder: &Path) -> io::Result<()> {
        let copy = self.work.join(folder).join(ATTRIBUTES);
        let real = self.top.join(folder).join(ATTRIBUTES);
        if real.is_symlink() {
            let name = folder.join(ATTRIBUTES);
            let message = format!("`{}` is a symbolic link, which git does not follow", name.display());
            return Err(io::Error::other(message));
        }
        if copy.exists() || !real.is_file() {
            return Ok(());
        }
        match fs::read(real) {
            Ok(text) => fs::write(copy, text),
            Err(_) => Ok(()),
        }
    }

    fn finish(&self, inside: &str) -> Result<Oid, git2::Error> {
        let path = self.work.join(inside);
        let stored = self.repository.blob_path(&path);
        if !path.ends_with(ATTRIBUTES) {
            // A file that cannot be removed goes with the scratch folder.
            let _ = fs::remove_file(path);
        }
        stored
    }
}

fn no_author() -> Failure {
    Failure::unavailable("git's configuration names no author: `user.name` or `user.email` is not set.").with_hint(
        "the user has to set them: git config user.name \"…\" and git config user.email \"…\"; GIT_AUTHOR_NAME, \
         GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and GIT_COMMITTER_EMAIL of the caller count, too",
    )
}

/// An index entry with the file system's data at the time of reading. If the file has changed since, the data
/// differs, and git reads the file again.
fn index_entry(path: String, new: &NewFile) -> Result<IndexEntry, git2::Error> {
    let time = |(seconds, nanoseconds)| IndexTime::new(seconds, nanoseconds);
    Ok(IndexEntry {
        ctime: time(new.changed),
        mtime: time(new.modified),
        dev: new.device,
        ino: new.inode,
        mode: new.mode,
        uid: new.user,
        gid: new.group,
        file_size: new.bytes,
        id: Oid::from_bytes(new.id.commit().as_bytes())?,
        flags: 0,
        flags_extended: 0,
        path: path.into_bytes(),
    })
}
