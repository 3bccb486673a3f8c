//! Real repositories for tests, made with libgit2 in temporary folders, and a session's context on them.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};

use git2::{IndexAddOption, Signature};
use tokio_util::sync::CancellationToken;

use crate::{Approver, CallContext, Question, UserAnswer};
use tool_boundary::policy::{EffectCause, Policy};
use tool_core::api::{ChangeKind, Operation, PolicyRequest};
use tool_core::digest::to_hexadecimal;
use tool_repository::reftable::{self, Reference, References};
use tool_repository::{Options, Repository};
use tool_sandbox::program_sandbox;

/// Answers every question the same way, after doing something, and remembers what it was asked.
pub(in crate::imports) struct ScriptedApproval {
    pub(in crate::imports) yes: bool,
    pub(in crate::imports) before: Box<dyn Fn() + Send + Sync>,
    pub(in crate::imports) asked: Mutex<Vec<Question>>,
}

impl ScriptedApproval {
    pub(in crate::imports) fn new(yes: bool) -> Arc<Self> {
        Self::after(yes, || {})
    }

    pub(in crate::imports) fn after(yes: bool, before: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            yes,
            before: Box::new(before),
            asked: Mutex::default(),
        })
    }

    pub(in crate::imports) fn questions(&self) -> Vec<Question> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

impl Approver for ScriptedApproval {
    fn can_ask(&self) -> bool {
        true
    }

    fn ask(&self, question: &Question, _cancel: &CancellationToken) -> UserAnswer {
        self.asked.lock().expect("not poisoned").push(question.clone());
        (self.before)();
        if self.yes { UserAnswer::Yes } else { UserAnswer::No }
    }
}

/// A session on `root` in which `allowed` effects are allowed and the others of a refactoring are asked.
pub(in crate::imports) fn context(root: &Path, allowed: &[&str], approver: Arc<dyn Approver>) -> CallContext {
    let request = PolicyRequest {
        allow: allowed.iter().map(|effect| (*effect).to_owned()).collect(),
        // A test process is no helper, so there is no sandbox.
        unsandboxed: allowed
            .iter()
            .any(|effect| matches!(*effect, "run-process" | "install")),
        ..PolicyRequest::default()
    };
    let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &request);
    let policy = policy.and_then(|policy| {
        policy
            .unsandboxed_by(&request)?
            .contained(program_sandbox::detect_sandbox)
    });
    let policy = policy.expect("the effects are known");
    CallContext {
        approver,
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        ..CallContext::unattended(
            Repository::open(root, &Options::default()).expect("the folder is there"),
            policy,
        )
    }
}

/// An empty repository of each format, and whether its references are to be in tables.
pub(in crate::imports) fn formats() -> [(Fixture, bool); 4] {
    [
        (Fixture::new(), false),
        (Fixture::sha256(), false),
        (Fixture::new(), true),
        (Fixture::sha256(), true),
    ]
}

/// A folder with a git repository in it.
pub(in crate::imports) struct Fixture {
    folder: tempfile::TempDir,
    pub(in crate::imports) git: git2::Repository,
}

impl Fixture {
    /// An empty repository with an author.
    pub(in crate::imports) fn new() -> Self {
        Self::within(tempfile::tempdir(), false)
    }

    /// As [`Self::new`], with names by SHA-256.
    pub(in crate::imports) fn sha256() -> Self {
        Self::within(tempfile::tempdir(), true)
    }

    /// An empty repository with an author, in memory where possible: for tests of ordering, which a disk makes slow.
    pub(in crate::imports) fn in_memory() -> Self {
        Self::within(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()), false)
    }

    fn within(folder: std::io::Result<tempfile::TempDir>, is_sha256: bool) -> Self {
        without_the_machines_configuration();
        let folder = folder.expect("there is room for a folder");
        let mut options = git2::RepositoryInitOptions::new();
        options.initial_head("main").external_template(false);
        if is_sha256 {
            options.object_format(git2::ObjectFormat::Sha256);
        }
        let git = git2::Repository::init_opts(folder.path().join("work"), &options).expect("git can be initialised");
        let fixture = Self { folder, git };
        fixture.configure("user.name", "Ada Example");
        fixture.configure("user.email", "ada@example.org");
        fixture
    }

    /// Moves the references into tables, as `git refs migrate` does. libgit2 does not find them there.
    pub(in crate::imports) fn use_tables(&self) {
        let git = self.git.path();
        let head = std::fs::read_to_string(git.join("HEAD")).expect("it is there");
        let head = head.trim().strip_prefix("ref: ").expect("it names a branch");
        let object = |reference: git2::Reference<'_>| {
            let id = reference.target().expect("an object").as_bytes().to_vec();
            (
                reference.name().expect("UTF-8").to_owned(),
                Reference::Object { id, peeled: None },
            )
        };
        let references = self.git.references().expect("they can be read");
        let mut all: Vec<_> = references
            .map(|reference| object(reference.expect("it is one")))
            .collect();
        all.push(("HEAD".to_owned(), Reference::Symbolic(head.to_owned())));
        all.sort_by(|one, other| one.0.cmp(&other.0));
        let all: Vec<_> = all.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let is_sha256 = self.git.object_format() == git2::ObjectFormat::Sha256;
        std::fs::remove_dir_all(git.join("refs")).expect("it is there");
        for folder in ["refs", reftable::FOLDER] {
            std::fs::create_dir(git.join(folder)).expect("folders can be made");
        }
        for (name, content) in [
            ("HEAD", b"ref: refs/heads/.invalid\n".to_vec()),
            ("refs/heads", b"this repository uses the reftable format\n".to_vec()),
            ("reftable/1.ref", reftable::encode_table(1, is_sha256, &all, &[])),
            ("reftable/tables.list", b"1.ref\n".to_vec()),
        ] {
            std::fs::write(git.join(name), content).expect("files can be written");
        }
        self.configure("core.repositoryformatversion", "1");
        self.configure("extensions.refstorage", "reftable");
    }

    /// Moves the references back into files. Nothing else may be among the tables.
    pub(in crate::imports) fn use_files(&self) {
        let git = self.git.path();
        let tables = git.join(reftable::FOLDER);
        let found = References::read(&tables).expect("the tables are whole");
        let names = std::fs::read_dir(&tables).expect("it is there").flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let is_known = |name: &String| name == reftable::LIST || found.tables.contains(name);
        assert_eq!(names.filter(|name| !is_known(name)).collect::<Vec<_>>(), [""; 0]);
        std::fs::remove_dir_all(tables).expect("it is there");
        std::fs::remove_file(git.join("refs/heads")).expect("it is there");
        for (name, value) in &found.by_name {
            let text = match value {
                Reference::Object { id, .. } => to_hexadecimal(id),
                Reference::Symbolic(target) => format!("ref: {target}"),
            };
            let place = git.join(name);
            std::fs::create_dir_all(place.parent().expect("it has one")).expect("folders can be made");
            std::fs::write(place, text + "\n").expect("files can be written");
        }
        std::fs::create_dir_all(git.join("refs/heads")).expect("folders can be made");
        let mut config = self.git.config().expect("there is a configuration");
        config.remove("extensions.refstorage").expect("it is set");
    }

    /// The work tree.
    pub(in crate::imports) fn root(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A place outside the work tree.
    pub(in crate::imports) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(in crate::imports) fn configure(&self, key: &str, value: &str) {
        let mut config = self.git.config().expect("there is a configuration");
        config.set_str(key, value).expect("the key is valid");
    }

    pub(in crate::imports) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
        std::fs::write(path, content).expect("files can be written");
    }

    pub(in crate::imports) fn remove(&self, path: &str) {
        std::fs::remove_file(self.root().join(path)).expect("it was there");
    }

    pub(in crate::imports) fn link(&self, target: &str, path: &str) {
        symlink(target, self.root().join(path)).expect("links can be made");
    }

    pub(in crate::imports) fn executable(&self, path: &str, content: &str) {
        self.write(path, content);
        let path = self.root().join(path);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("modes can be set");
    }

    /// Stages one path as it is in the work tree.
    pub(in crate::imports) fn stage(&self, path: &str) {
        let mut index = self.git.index().expect("there is an index");
        if self.root().join(path).symlink_metadata().is_ok() {
            index.add_path(Path::new(path)).expect("it can be staged");
        } else {
            index.remove_path(Path::new(path)).expect("it can be staged");
        }
        index.write().expect("the index can be written");
    }

    /// Commits everything, hidden names included.
    pub(in crate::imports) fn commit(&self, message: &str) -> git2::Oid {
        let mut index = self.git.index().expect("there is an index");
        index
            .add_all(["*"], IndexAddOption::FORCE, None)
            .expect("all can be staged");
        index.update_all(["*"], None).expect("all can be staged");
        index.write().expect("the index can be written");
        let tree = index.write_tree().expect("the index is a tree");
        let tree = self.git.find_tree(tree).expect("it was just written");
        let author = Signature::now("Somebody", "somebody@example.org").expect("a valid name");
        let parent = self
            .git
            .head()
            .ok()
            .map(|head| head.peel_to_commit().expect("a commit"));
        let parents = parent.iter().collect::<Vec<_>>();
        self.git
            .commit(Some("HEAD"), &author, &author, message, &tree, &parents)
            .expect("it can be committed")
    }

    /// `git status --short` as libgit2 sees it.
    pub(in crate::imports) fn status(&self) -> String {
        let mut options = git2::StatusOptions::new();
        options.include_untracked(true).recurse_untracked_dirs(true);
        let git = git2::Repository::open(self.root()).expect("it is one");
        let statuses = git.statuses(Some(&mut options)).expect("the status can be read");
        let line = |entry: git2::StatusEntry<'_>| {
            format!("{} {:?}", String::from_utf8_lossy(entry.path_bytes()), entry.status())
        };
        statuses.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// A file's content and mode in the last commit.
    pub(in crate::imports) fn committed(&self, path: &str) -> Option<(String, i32)> {
        let tree = self.git.head().ok()?.peel_to_tree().ok()?;
        let entry = tree.get_path(Path::new(path)).ok()?;
        let blob = self.git.find_blob(entry.id()).ok()?;
        Some((String::from_utf8_lossy(blob.content()).into_owned(), entry.filemode()))
    }

    /// A session on the work tree in which `allowed` effects are allowed, with a user who says no.
    pub(in crate::imports) fn session(&self, allowed: &[&str]) -> CallContext {
        context(&self.root(), allowed, ScriptedApproval::new(false))
    }

    /// Plants everything by which git can be made to run a program. Whatever runs leaves the marker.
    pub(in crate::imports) fn booby_trap(&self) -> PathBuf {
        let marker = self.outside("marker");
        let trap = self.outside("trap");
        let text = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\n", marker.display());
        std::fs::write(&trap, &text).expect("files can be written");
        std::fs::set_permissions(&trap, PermissionsExt::from_mode(0o755)).expect("modes can be set");
        let program = trap.to_string_lossy().into_owned();
        for key in [
            "core.fsmonitor",
            "core.sshCommand",
            "core.pager",
            "core.editor",
            "core.askPass",
            "sequence.editor",
            "diff.external",
            "diff.evil.command",
            "diff.evil.textconv",
            "filter.evil.clean",
            "filter.evil.smudge",
            "filter.evil.process",
            "merge.evil.driver",
            "gpg.program",
            "credential.helper",
            "alias.diff",
        ] {
            self.configure(key, &program);
        }
        self.configure("filter.evil.required", "true");
        let hooks = self.git.path().join("hooks");
        std::fs::create_dir_all(&hooks).expect("folders can be made");
        for hook in [
            "pre-commit",
            "prepare-commit-msg",
            "commit-msg",
            "post-commit",
            "post-index-change",
            "reference-transaction",
            "fsmonitor-watchman",
            "post-checkout",
            "pre-auto-gc",
        ] {
            std::fs::write(hooks.join(hook), &text).expect("files can be written");
            std::fs::set_permissions(hooks.join(hook), PermissionsExt::from_mode(0o755)).expect("modes can be set");
        }
        marker
    }
}

/// Notes that the session changed a file.
pub(in crate::imports) fn changed(context: &CallContext, paths: &[&str]) {
    let mut files = context.files.lock().expect("not poisoned");
    for path in paths {
        files.changed.insert((*path).to_owned(), ChangeKind::Modified);
    }
}

/// Makes libgit2 find no configuration but the repository's own, for the whole test process.
fn without_the_machines_configuration() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        super::worker::allow_extensions();
        use git2::ConfigLevel::{Global, ProgramData, System, XDG};
        for level in [Global, ProgramData, System, XDG] {
            #[expect(
                unsafe_code,
                reason = "libgit2's search path is global state; every test sets it here, once"
            )]
            // SAFETY: no code in this process has opened a repository before this `Once` ran.
            unsafe { git2::opts::set_search_path(level, "/nowhere") }.expect("libgit2 takes any path");
        }
    });
}
