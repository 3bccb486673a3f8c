//! Proposals against a real temporary repository, a scripted journal and nobody to ask.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::*;
use crate::api::{Operation, PolicyRequest};
use crate::repository::{Options, Repository};
use crate::skill::ChangeJournal;
use crate::skill::changes::{LeftAlone, UndoReport, WrittenLate, recover, undo};
use crate::skill::policy::{Cause, Policy};

/// Records what it is told, fails where a test says so, and may do something between `prepare` and the change.
#[derive(Default)]
struct Journal {
    prepared: Mutex<Vec<PreparedChange>>,
    notes: Mutex<Vec<&'static str>>,
    written_late: Mutex<Vec<WrittenLate>>,
    fail: Mutex<Option<&'static str>>,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Journal {
    fn note(&self, word: &'static str) -> io::Result<()> {
        if *self.fail.lock().expect("not poisoned") == Some(word) {
            return Err(io::Error::other("the disk is full"));
        }
        self.notes.lock().expect("not poisoned").push(word);
        Ok(())
    }

    fn notes(&self) -> Vec<&'static str> {
        self.notes.lock().expect("not poisoned").clone()
    }

    fn changes(&self) -> Vec<PreparedChange> {
        self.prepared.lock().expect("not poisoned").clone()
    }
}

impl ChangeJournal for Journal {
    fn prepare(&self, change: &PreparedChange) -> io::Result<()> {
        self.note("prepare")?;
        self.prepared.lock().expect("not poisoned").push(change.clone());
        if let Some(meanwhile) = self.meanwhile.lock().expect("not poisoned").take() {
            meanwhile();
        }
        Ok(())
    }

    fn committed(&self, _id: &str) -> io::Result<()> {
        self.note("committed")
    }

    fn abandoned(&self, _id: &str) -> io::Result<()> {
        self.note("abandoned")
    }

    fn written_late(&self, late: &WrittenLate) {
        self.written_late.lock().expect("not poisoned").push(late.clone());
    }
}

/// A repository, a stage and a session.
struct Bench {
    folder: TempDir,
    journal: Arc<Journal>,
    context: CallContext,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, Operation::Refactor, &PolicyRequest::default())
    }

    fn with(files: &[(&str, &str)], operation: Operation, request: &PolicyRequest) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        fs::create_dir(folder.path().join("stage")).expect("a directory is made");
        fs::create_dir(folder.path().join("root")).expect("a directory is made");
        for (path, content) in files {
            write(&folder.path().join("root").join(path), content);
        }
        let options = Options {
            state_directory: Some(folder.path().join("root/state")),
            ..Options::default()
        };
        let journal = Arc::new(Journal::default());
        let context = CallContext {
            changes: Arc::clone(&journal) as Arc<dyn ChangeJournal>,
            ..CallContext::unattended(
                Repository::open(&folder.path().join("root"), &options).expect("the root is accepted"),
                Policy::new(Cause::Operation(operation), request).expect("the request is valid"),
            )
        };
        Self {
            folder,
            journal,
            context,
        }
    }

    fn root(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    fn stage(&self, path: &str) -> PathBuf {
        self.folder.path().join("stage").join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root(path)).expect("the file is read")
    }

    /// The model sees a file as it is.
    fn see(&self, path: &str) {
        let digest = digest(&fs::read(self.root(path)).expect("the file is read"));
        let mut files = self.context.files.lock().expect("not poisoned");
        files.seen.insert(path.to_owned(), digest);
    }

    /// Stages files in a fresh stage and commits.
    fn propose(&self, files: &[(&str, &str)], deletions: &[&str]) -> Result<Vec<String>, Failure> {
        fs::remove_dir_all(self.stage("")).expect("the stage is removed");
        fs::create_dir(self.stage("")).expect("a directory is made");
        for (path, content) in files {
            write(&self.stage(path), content);
        }
        self.commit(deletions)
    }

    /// Takes changes back, journalled apart from them. Gives that journal, too.
    fn undo(&self, changes: &[PreparedChange]) -> (UndoReport, Journal) {
        let journal = Journal::default();
        let report = undo(&self.context.repository, changes, &journal).expect("it is journalled");
        (report, journal)
    }

    fn commit(&self, deletions: &[&str]) -> Result<Vec<String>, Failure> {
        let deletions: Vec<String> = deletions.iter().map(|path| (*path).to_owned()).collect();
        commit(&self.context, &self.stage(""), &deletions)
    }

    /// Every file of the root with its content, temporaries included.
    fn tree(&self) -> Vec<(String, String)> {
        fn walk(directory: &Path, root: &Path, found: &mut Vec<(String, String)>) {
            for entry in fs::read_dir(directory).expect("a directory is read") {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(root).expect("beneath the root").display().to_string();
                let is_link = path.is_symlink();
                if path.is_dir() && !is_link {
                    found.push((format!("{name}/"), String::new()));
                    walk(&path, root, found);
                } else {
                    found.push((name, fs::read_to_string(&path).unwrap_or_default()));
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.root(""), &self.root(""), &mut found);
        found.sort();
        found
    }

    /// Asserts that a proposal is refused with this code and message, and that nothing of it happened.
    fn refused(&self, files: &[(&str, &str)], deletions: &[&str], code: &str, message: &str) {
        let before = self.tree();
        let failure = self.propose(files, deletions).expect_err("the proposal is refused");
        assert_eq!((failure.code.as_str(), failure.message.as_str()), (code, message));
        assert_eq!(self.tree(), before);
    }
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a path with a parent")).expect("directories are made");
    fs::write(path, content).expect("a file is written");
}

fn allowing(paths: &[&str]) -> PolicyRequest {
    PolicyRequest {
        allow_paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        ..PolicyRequest::default()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file is there").permissions().mode() & 0o7777
}

// ---- what is committed ----

#[test]
fn an_empty_proposal_changes_nothing() {
    let bench = Bench::new(&[("a.txt", "a")]);
    fs::create_dir_all(bench.stage("only/directories")).expect("directories are made");
    assert_eq!(bench.commit(&[]).expect("it is fine"), Vec::<String>::new());
    assert!(bench.journal.notes().is_empty());
}

#[test]
fn files_are_created_replaced_and_deleted_as_one() {
    let bench = Bench::new(&[("src/a.py", "old"), ("src/b.py", "gone"), ("run.sh", "#!")]);
    fs::set_permissions(bench.root("run.sh"), fs::Permissions::from_mode(0o750)).expect("the mode is set");
    for path in ["src/a.py", "src/b.py", "run.sh"] {
        bench.see(path);
    }
    let changed = bench
        .propose(
            &[("src/a.py", "new"), ("new/deep/c.py", "c"), ("run.sh", "#!/bin/sh")],
            &["./src/b.py"],
        )
        .expect("the proposal is committed");
    assert_eq!(changed, ["new/deep/c.py", "run.sh", "src/a.py", "src/b.py"]);
    let tree = bench.tree();
    let expected = [
        ("new/", ""),
        ("new/deep/", ""),
        ("new/deep/c.py", "c"),
        ("run.sh", "#!/bin/sh"),
        ("src/", ""),
        ("src/a.py", "new"),
    ];
    let tree: Vec<_> = tree.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_eq!(tree, expected, "nothing else is there, no temporary either");
    assert_eq!(mode(&bench.root("run.sh")), 0o750);
    assert_eq!(mode(&bench.root("new/deep/c.py")), changes::new_file_mode());
    assert_eq!(bench.journal.notes(), ["prepare", "committed"]);
    let files = bench.context.files.lock().expect("not poisoned");
    assert_eq!(files.seen["src/a.py"], digest(b"new"));
    assert!(!files.seen.contains_key("src/b.py"));
    let kinds: Vec<_> = files
        .changed
        .iter()
        .map(|(path, kind)| (path.as_str(), *kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("new/deep/c.py", ChangeKind::Created),
            ("run.sh", ChangeKind::Modified),
            ("src/a.py", ChangeKind::Modified),
            ("src/b.py", ChangeKind::Deleted),
        ]
    );
}

#[test]
fn what_the_session_wrote_counts_as_seen() {
    let bench = Bench::new(&[]);
    for content in ["1", "2", "3"] {
        assert_eq!(bench.propose(&[("a.txt", content)], &[]).expect("committed"), ["a.txt"]);
    }
    assert_eq!(bench.propose(&[], &["a.txt"]).expect("committed"), ["a.txt"]);
    let files = bench.context.files.lock().expect("not poisoned");
    assert!(files.changed.is_empty(), "created and deleted is nothing");
}

#[test]
fn the_same_content_is_no_change() {
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    assert_eq!(
        bench.propose(&[("a.txt", "a")], &[]).expect("fine"),
        Vec::<String>::new()
    );
    assert!(bench.journal.notes().is_empty());
}

#[test]
fn a_module_becomes_a_package_and_back() {
    let bench = Bench::new(&[("thing", "file")]);
    bench.see("thing");
    bench
        .propose(&[("thing/inner", "moved")], &["thing"])
        .expect("committed");
    assert_eq!(bench.text("thing/inner"), "moved");
    let (report, _) = bench.undo(&bench.journal.changes());
    assert_eq!(report.restored, ["thing", "thing/inner"]);
    assert_eq!(bench.tree(), [("thing".to_owned(), "file".to_owned())]);
}

#[test]
fn no_inode_of_the_stage_enters_the_repository() {
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    bench
        .propose(&[("a.txt", "b"), ("c.txt", "c")], &[])
        .expect("committed");
    for path in ["a.txt", "c.txt"] {
        let inode = |path: &Path| fs::metadata(path).expect("the file is there").ino();
        assert_ne!(inode(&bench.root(path)), inode(&bench.stage(path)));
    }
    write(&bench.stage("c.txt"), "written later");
    assert_eq!(bench.text("c.txt"), "c");
}

// ---- what is refused ----

#[test]
fn a_file_that_was_not_read_is_not_replaced_or_deleted() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
    bench.see("b.txt");
    let unseen = "`a.txt` has not been read in this session: read it first";
    bench.refused(&[("a.txt", "x"), ("b.txt", "x")], &[], "denied", unseen);
    bench.refused(&[("b.txt", "x")], &["a.txt"], "denied", unseen);
    fs::write(bench.root("b.txt"), "changed by the user").expect("a file is written");
    let changed = "`b.txt` has changed since it was read in this session: read it again";
    bench.refused(&[("b.txt", "x"), ("new.txt", "x")], &[], "denied", changed);
    assert!(bench.journal.notes().is_empty());
}

#[test]
fn protected_and_hidden_names_are_refused_in_every_spelling() {
    let bench = Bench::new(&[("state/token", "t"), ("vendor/lib/x.py", "x")]);
    for (path, message) in [
        (
            ".git/hooks/pre-commit",
            "`.git/hooks/pre-commit` is hidden: it is a git directory",
        ),
        (".GIT/config", "`.GIT/config` is hidden: it is a git directory"),
        ("sub/.git", "`sub/.git` is hidden: it is a git directory"),
        (
            ".Env",
            "`.Env` is hidden: it holds environment variables, which are often secrets",
        ),
        (
            ".github/workflows/x.yml",
            "`.github/workflows/x.yml` is protected: it defines what continuous integration runs",
        ),
        (
            ".gitattributes",
            "`.gitattributes` is protected: it changes how git acts",
        ),
        (
            ".vscode/tasks.json",
            "`.vscode/tasks.json` is protected: it configures an editor or an agent, which can make it run code",
        ),
        (
            "state/token",
            "`state/token` is hidden: it is the state directory of this program",
        ),
    ] {
        bench.refused(&[("fine.txt", "f"), (path, "x")], &[], "denied", message);
        bench.refused(&[("fine.txt", "f")], &[path], "denied", message);
    }
}

#[test]
fn an_allowed_path_is_exact() {
    let request = allowing(&["./.github/workflows/ci.yml", ".env", "state/token"]);
    let bench = Bench::with(&[("state/token", "t")], Operation::Refactor, &request);
    let allowed = [(".github/workflows/ci.yml", "ci"), (".env", "KEY=1")];
    assert_eq!(
        bench.propose(&allowed, &[]).expect("committed"),
        [".env", ".github/workflows/ci.yml"]
    );
    let message = "`.github/workflows/other.yml` is protected: it defines what continuous integration runs";
    bench.refused(&[(".github/workflows/other.yml", "x")], &[], "denied", message);
    let message = "`state/token` is hidden: it is the state directory of this program";
    bench.refused(&[("state/token", "x")], &[], "denied", message);
}

#[test]
fn a_directory_is_not_made_a_git_directory() {
    let bench = Bench::new(&[("x/objects/a", ""), ("x/refs/a", ""), ("y/HEAD", "ref")]);
    let message = "`x/HEAD` would turn `x` into a git directory";
    bench.refused(&[("x/HEAD", "ref: refs/heads/main")], &[], "denied", message);
    let message = "`y/objects/a` would turn `y` into a git directory";
    bench.refused(&[("y/objects/a", ""), ("y/refs/b", "")], &[], "denied", message);
    let message = "`z/HEAD` would turn `z` into a git directory";
    bench.refused(
        &[("z/HEAD", ""), ("z/objects/a", ""), ("z/refs/b", "")],
        &[],
        "denied",
        message,
    );
    bench
        .propose(&[("w/HEAD", ""), ("w/refs/b", "")], &[])
        .expect("two of three are none");
    let message = "`w/objects/a` would turn `w` into a git directory";
    bench.refused(&[("w/objects/a", "")], &[], "denied", message);
}

#[test]
fn only_plain_files_with_one_name_are_taken_from_the_stage() {
    let message = "`x` is proposed as something else than a regular file with one name";
    let check = |make: &dyn Fn(&Bench)| {
        let bench = Bench::new(&[("a.txt", "a")]);
        write(&bench.stage("fine.txt"), "f");
        make(&bench);
        let failure = bench.commit(&[]).expect_err("the proposal is refused");
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("denied", message));
        assert_eq!(bench.tree().len(), 1);
    };
    check(&|bench| symlink("/etc/passwd", bench.stage("x")).expect("a link is made"));
    check(&|bench| symlink("fine.txt", bench.stage("x")).expect("a link is made"));
    check(&|bench| fs::hard_link(bench.root("a.txt"), bench.stage("x")).expect("a hard link is made"));
    check(&|bench| {
        rustix::fs::mknodat(rustix::fs::CWD, bench.stage("x"), FileType::Fifo, 0o600.into(), 0)
            .expect("a FIFO is made");
    });
}

#[test]
fn names_that_nothing_can_show_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new(&[]);
    let message = "`a\u{fffd}[2J` contains control characters";
    bench.refused(&[("a\u{1b}[2J", "x")], &[], "denied", message);
    let message = "`\u{fffd}txt.exe` contains control characters";
    bench.refused(&[("\u{202e}txt.exe", "x")], &[], "denied", message);
    fs::remove_dir_all(bench.stage("")).expect("the stage is removed");
    fs::create_dir(bench.stage("")).expect("a directory is made");
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(bench.stage("").join(name), "x").expect("a file is written");
    let failure = bench.commit(&[]).expect_err("the proposal is refused");
    assert!(failure.message.contains("not UTF-8"), "{}", failure.message);
}

#[test]
fn deletions_that_lead_nowhere_are_refused() {
    let bench = Bench::new(&[("d/a.txt", "a")]);
    bench.see("d/a.txt");
    for (path, code, message) in [
        (
            "../x",
            "denied",
            "`../x` cannot be deleted: it lies outside the repository",
        ),
        (
            "/etc/passwd",
            "denied",
            "`/etc/passwd` cannot be deleted: it is absolute, and paths are relative to the repository root",
        ),
        ("none", "not-found", "`none` cannot be deleted: it does not exist"),
        ("d", "denied", "`d` is not a regular file"),
        (".", "invalid-arguments", "The repository root is no file"),
        (
            "d/a.txt/b",
            "denied",
            "`d/a.txt/b` lies beneath something that is not a directory",
        ),
    ] {
        bench.refused(&[("fine.txt", "f")], &[path], code, message);
    }
    let message = "`d/a.txt` is both written and deleted by the same proposal";
    bench.refused(&[("d/a.txt", "x")], &["d/a.txt"], "invalid-arguments", message);
}

#[test]
fn links_in_the_repository_are_not_written_through() {
    let bench = Bench::new(&[("docs/a.md", "a"), ("outside-target", "")]);
    symlink("docs", bench.root("link")).expect("a link is made");
    symlink("docs/a.md", bench.root("readme")).expect("a link is made");
    symlink("..", bench.root("up")).expect("a link is made");
    bench.see("docs/a.md");
    bench.refused(
        &[("link/new.md", "x")],
        &[],
        "denied",
        "`link/new.md` leads through a symbolic link",
    );
    bench.refused(
        &[("readme", "x")],
        &[],
        "denied",
        "`readme` leads through a symbolic link",
    );
    bench.refused(
        &[("up/escaped", "x")],
        &[],
        "denied",
        "`up/escaped` leads through a symbolic link",
    );
    assert!(!bench.folder.path().join("escaped").exists());
    let failure = bench.propose(&[("readme", "x")], &[]).expect_err("refused");
    assert_eq!(failure.hint.as_deref(), Some("propose the real path `docs/a.md`"));
}

#[test]
fn quotas_are_enforced() {
    let bench = Bench::new(&[]);
    let many: Vec<String> = (0..=STAGED_ENTRIES_MAX).map(|n| format!("f{n}")).collect();
    let files: Vec<_> = many.iter().map(|path| (path.as_str(), "")).collect();
    bench.refused(&files, &[], "limit", "The proposal has more than 2000 files");
    let deletions: Vec<_> = many.iter().map(String::as_str).collect();
    bench.refused(&[], &deletions, "limit", "The proposal has more than 2000 files");
    fs::remove_dir_all(bench.stage("")).expect("the stage is removed");
    write(&bench.stage("half"), "12345");
    let large = fs::File::create(bench.stage("large")).expect("a file is made");
    large.set_len(STAGED_BYTES_MAX - 4).expect("a sparse file");
    let failure = bench.commit(&[]).expect_err("the proposal is refused");
    assert_eq!(failure.message, "The proposal has more than 32 MiB");
}

#[test]
fn generating_tests_changes_only_what_it_created() {
    let bench = Bench::with(&[("test_old.py", "old")], Operation::TestGen, &PolicyRequest::default());
    bench.see("test_old.py");
    let message = "`test_old.py` existed before this session, and this operation changes only what it created";
    bench.refused(&[("test_old.py", "new")], &[], "denied", message);
    bench.refused(&[("test_new.py", "x")], &["test_old.py"], "denied", message);
    bench.propose(&[("test_new.py", "1")], &[]).expect("committed");
    bench.propose(&[("test_new.py", "2")], &[]).expect("committed");
    bench.propose(&[], &["test_new.py"]).expect("committed");
}

#[test]
fn generating_tests_never_configures_what_runs_them() {
    let bench = Bench::with(&[], Operation::TestGen, &PolicyRequest::default());
    for path in ["pytest.ini", "conftest.py", "web/package.json", "vitest.config.ts"] {
        let message = format!("`{path}` decides how tests run, and this operation only writes tests");
        bench.refused(&[("tests/test_new.py", "x"), (path, "")], &[], "denied", &message);
    }
    let files = [("tests/conftest.py", ""), ("tests/test_new.py", "x")];
    assert_eq!(bench.propose(&files, &[]).expect("committed").len(), 2);
    let bench = Bench::with(&[], Operation::Refactor, &PolicyRequest::default());
    bench.propose(&[("pytest.ini", "")], &[]).expect("a refactor may");
}

#[test]
fn what_the_policy_denies_is_refused_deletions_included() {
    let bench = Bench::with(&[("a.txt", "a")], Operation::Explain, &PolicyRequest::default());
    bench.see("a.txt");
    let message = "Changing files is not allowed in this operation";
    bench.refused(&[], &["a.txt"], "denied", message);
    bench.refused(&[("b.txt", "b")], &[], "denied", message);
}

#[test]
fn a_cancelled_session_changes_nothing() {
    let bench = Bench::new(&[]);
    bench.context.cancel.cancel();
    bench.refused(
        &[("a", "a")],
        &[],
        "failed",
        "The session was cancelled; nothing was changed",
    );
}

// ---- faults and races ----

#[test]
fn without_a_journal_nothing_changes() {
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    *bench.journal.fail.lock().expect("not poisoned") = Some("prepare");
    let message = "The change cannot be journalled: the disk is full; nothing was changed";
    bench.refused(&[("a.txt", "b"), ("d/c.txt", "c")], &[], "failed", message);
    *bench.journal.fail.lock().expect("not poisoned") = Some("committed");
    let message = "The change cannot be journalled: the disk is full; it was taken back";
    bench.refused(&[("a.txt", "b"), ("d/c.txt", "c")], &[], "failed", message);
    assert_eq!(bench.journal.notes(), ["prepare", "abandoned"]);
}

/// Something happens after the checks; the whole proposal is taken back, and what happened stays.
fn interrupted(meanwhile: impl FnOnce(PathBuf) + Send + 'static) -> (Bench, Failure) {
    let bench = Bench::new(&[("a.txt", "a"), ("m.txt", "m"), ("z.txt", "z")]);
    for path in ["a.txt", "m.txt", "z.txt"] {
        bench.see(path);
    }
    let root = bench.root("");
    *bench.journal.meanwhile.lock().expect("not poisoned") = Some(Box::new(move || meanwhile(root)));
    let files = [("a.txt", "A"), ("d/new.txt", "N"), ("z.txt", "Z"), ("zz.txt", "ZZ")];
    let failure = bench.propose(&files, &["m.txt"]).expect_err("the proposal is refused");
    assert_eq!(bench.journal.notes(), ["prepare", "abandoned"]);
    assert!(bench.context.files.lock().expect("not poisoned").changed.is_empty());
    (bench, failure)
}

#[test]
fn a_file_changed_at_the_last_moment_is_not_lost() {
    let (bench, failure) = interrupted(|root| write(&root.join("z.txt"), "theirs"));
    assert_eq!(
        failure.message,
        "`z.txt` has changed since it was read in this session: read it again"
    );
    let expected = [("a.txt", "a"), ("m.txt", "m"), ("z.txt", "theirs")];
    assert_eq!(
        bench.tree(),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
}

#[test]
fn a_file_created_at_the_last_moment_is_not_lost() {
    let (bench, _) = interrupted(|root| write(&root.join("zz.txt"), "theirs"));
    assert_eq!(bench.text("zz.txt"), "theirs");
    assert_eq!(bench.text("a.txt"), "a");
    assert!(!bench.root("d").exists());
}

/// The placeholder of one file's key, in that file, in another one, and where the file is moved to.
#[test]
fn a_key_is_written_back_only_into_the_file_at_its_path() {
    let key = format!("ghp_{}", "q7Vd0LxN3sKb9TzR5mHc1YwF8gJp2UeA6oXi");
    let text = format!("token = \"{key}\"\n");
    let bench = Bench::new(&[("a.py", &text), ("b.py", "x = 1\n"), ("d/a.py", "y = 2\n")]);
    for path in ["a.py", "b.py", "d/a.py"] {
        bench.see(path);
    }
    let shown = bench
        .context
        .conversation
        .redactor
        .text(&text, Some("a.py"))
        .into_owned();
    assert!(!shown.contains(&key), "{shown}");
    for (path, deleted) in [
        ("b.py", &[][..]),
        ("d/a.py", &[]),
        ("moved.py", &["a.py"]),
        ("A.py", &[]),
    ] {
        let message = format!(
            "`{path}` cannot get `[redacted:github-token:1]`: it stands for a secret that this file does not hold"
        );
        bench.refused(&[(path, &shown)], deleted, "denied", &message);
    }
    let longer = format!("{shown}more = True\n");
    bench.propose(&[("a.py", &longer)], &[]).expect("the file held it");
    assert_eq!(bench.text("a.py"), format!("{text}more = True\n"));
    assert_eq!(bench.text("b.py"), "x = 1\n");
}

/// A change whose last file is in the way is taken back, and somebody saves one of the others meanwhile.
#[test]
fn what_somebody_saves_at_any_moment_of_a_change_that_is_taken_back_is_not_lost() {
    for path in ["a.txt", "d/n.txt", "m.txt"] {
        for moment in 0.. {
            let bench = Bench::new(&[("a.txt", "a"), ("m.txt", "m"), ("d/old.txt", "o"), ("z.txt", "z")]);
            for seen in ["a.txt", "m.txt", "z.txt"] {
                bench.see(seen);
            }
            let (root, place) = (bench.root(""), bench.root(path));
            *bench.journal.meanwhile.lock().expect("not poisoned") =
                Some(Box::new(move || write(&root.join("z.txt"), "theirs")));
            let save = move || {
                let fresh = place.with_extension("saved");
                write(&fresh, "newer");
                fs::rename(fresh, place).expect("the file is replaced");
            };
            let files = [("a.txt", "A"), ("d/n.txt", "N"), ("z.txt", "Z")];
            let (refused, came) = changes::doing_at(moment, save, || bench.propose(&files, &["m.txt"]));
            refused.expect_err("a file is in the way");
            if !came {
                assert!(moment > 10, "{moment}");
                break;
            }
            let left = bench.tree();
            let is_there = left.iter().any(|(found, text)| found == path && text == "newer");
            assert!(is_there, "{path} at moment {moment}: {left:?}");
            assert_eq!(left.iter().filter(|(_, text)| text == "theirs").count(), 1);
        }
    }
}

/// An editor that has the old file open writes into it, not into what has its name now.
#[test]
fn what_is_written_into_the_old_file_is_kept_beside_the_new_one() {
    use std::io::Write;
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    let open = fs::OpenOptions::new().append(true).open(bench.root("a.txt"));
    let mut editor = open.expect("the file is there");
    // The last moment of a change is the one before the old file is thrown away.
    let moments = (0..).find(|moment| {
        let count = Bench::new(&[("a.txt", "a")]);
        count.see("a.txt");
        !changes::doing_at(*moment, || (), || count.propose(&[("a.txt", "A")], &[])).1
    });
    let last = moments.expect("a change ends") - 1;
    let late = move || editor.write_all(b" and more").expect("it is open");
    let (done, came) = changes::doing_at(last, late, || bench.propose(&[("a.txt", "A")], &[]));
    done.expect("it is in place");
    assert!(came);
    let tree = bench.tree();
    assert!(tree.contains(&("a.txt".to_owned(), "A".to_owned())), "{tree:?}");
    let kept = tree.iter().find(|(_, text)| text == "a and more");
    let (kept, _) = kept.unwrap_or_else(|| panic!("{tree:?}"));
    let late = bench.journal.written_late.lock().expect("not poisoned").clone();
    let expected = WrittenLate {
        path: "a.txt".to_owned(),
        kept: kept.clone(),
    };
    assert_eq!(late, [expected]);
    let (message, _) = late[0].told();
    assert!(
        message.contains("`a.txt`") && message.contains(&format!("`{kept}`")),
        "{message}"
    );
}

#[test]
fn a_link_made_at_the_last_moment_leads_nowhere() {
    let (bench, _) = interrupted(|root| {
        fs::remove_file(root.join("z.txt")).expect("the file is removed");
        symlink("a.txt", root.join("z.txt")).expect("a link is made");
    });
    assert_eq!(bench.text("a.txt"), "a");
    let (bench, failure) = interrupted(|root| symlink("..", root.join("d")).expect("a link is made"));
    assert_eq!(
        failure.message,
        "`d/new.txt` leads through a symbolic link; nothing was changed"
    );
    assert!(!bench.folder.path().join("new.txt").exists());
    assert_eq!(bench.text("a.txt"), "a");
}

#[test]
fn a_directory_in_the_way_takes_everything_back() {
    let (bench, _) = interrupted(|root| fs::create_dir(root.join("zz.txt")).expect("a directory is made"));
    let tree: Vec<_> = bench.tree().into_iter().map(|(path, _)| path).collect();
    assert_eq!(tree, ["a.txt", "m.txt", "z.txt", "zz.txt/"]);
}

#[test]
fn a_file_system_that_cannot_exchange_names_will_do() {
    changes::WITHOUT_RENAME_FLAGS.set(true);
    let (bench, failure) = interrupted(|root| write(&root.join("zz.txt"), "theirs"));
    assert_eq!(failure.code, "denied");
    let expected = [("a.txt", "a"), ("m.txt", "m"), ("z.txt", "z"), ("zz.txt", "theirs")];
    assert_eq!(
        bench.tree(),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
    bench
        .propose(&[("a.txt", "A"), ("new.txt", "N")], &["m.txt"])
        .expect("committed");
    let expected = [("a.txt", "A"), ("new.txt", "N"), ("z.txt", "z"), ("zz.txt", "theirs")];
    assert_eq!(
        bench.tree(),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
    let last = bench.journal.changes().pop().expect("a change");
    assert_eq!(bench.undo(&[last]).0.left_alone, []);
    let expected = [("a.txt", "a"), ("m.txt", "m"), ("z.txt", "z"), ("zz.txt", "theirs")];
    assert_eq!(
        bench.tree(),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
}

/// A reader never sees anything but one of the whole contents, and a writer's work is never lost without notice.
#[test]
fn every_file_is_before_or_after_at_every_moment() {
    let old = "o".repeat(200_000);
    let new = "n".repeat(300_000);
    let bench = Bench::new(&[("a.txt", &old)]);
    bench.see("a.txt");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let text = bench.text("a.txt");
                assert!(text == old || text == new, "{} bytes", text.len());
            }
        });
        for round in 0..20 {
            let content = if round % 2 == 0 { &new } else { &old };
            bench.propose(&[("a.txt", content)], &[]).expect("committed");
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn proposals_on_one_repository_wait_for_each_other() {
    let bench = Bench::new(&[("counter", "0")]);
    let second = Repository::open(&bench.root(""), &Options::default()).expect("the root is accepted");
    let lock = changes::write_lock(&bench.context.repository);
    assert!(Arc::ptr_eq(&lock, &changes::write_lock(&second)));
    let guard = lock.lock().expect("not poisoned");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.propose(&[("a.txt", "a")], &[]));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!bench.root("a.txt").exists());
        drop(guard);
        waiting.join().expect("no panic").expect("committed");
    });
    assert_eq!(bench.text("a.txt"), "a");
}

// ---- undo and recovery ----

#[test]
fn undo_restores_byte_for_byte() {
    let bench = Bench::new(&[("a.txt", "one\r\n\u{0}"), ("keep/b.txt", "b"), ("c.txt", "c")]);
    fs::set_permissions(bench.root("c.txt"), fs::Permissions::from_mode(0o600)).expect("the mode is set");
    let before = bench.tree();
    for path in ["a.txt", "keep/b.txt", "c.txt"] {
        bench.see(path);
    }
    bench
        .propose(&[("a.txt", "2"), ("x/y/z.txt", "z")], &["keep/b.txt"])
        .expect("committed");
    bench
        .propose(&[("a.txt", "3"), ("x/y/w.txt", "w")], &["c.txt"])
        .expect("committed");
    let changes = bench.journal.changes();
    let after = bench.tree();
    let (report, undone) = bench.undo(&changes);
    assert_eq!(
        report.restored,
        ["a.txt", "c.txt", "keep/b.txt", "x/y/w.txt", "x/y/z.txt"]
    );
    assert_eq!(report.left_alone, []);
    assert_eq!(bench.tree(), before);
    assert_eq!(mode(&bench.root("c.txt")), 0o600);
    let (again, nothing) = bench.undo(&changes);
    assert_eq!(
        (again.restored.len(), again.unchanged.len(), again.left_alone.len()),
        (0, 5, 0),
        "a second undo finds it done"
    );
    assert!(nothing.notes().is_empty(), "what changes nothing is not journalled");
    assert_eq!(bench.tree(), before);

    // An undo is a change like any other.
    assert_eq!(undone.notes(), ["prepare", "committed"]);
    let (again, redone) = bench.undo(&undone.changes());
    assert_eq!(again.restored.len(), 5);
    assert_eq!(bench.tree(), after);
    assert_eq!(bench.undo(&redone.changes()).0.restored.len(), 5);
    assert_eq!(bench.tree(), before);
}

#[test]
fn undo_keeps_an_empty_directory_that_was_there_and_removes_those_that_were_made() {
    let bench = Bench::new(&[("a.txt", "a")]);
    fs::create_dir(bench.root("there")).expect("a directory is made");
    let before = bench.tree();
    bench
        .propose(&[("there/new/b.txt", "b"), ("there/c.txt", "c"), ("d/e.txt", "e")], &[])
        .expect("committed");
    write(&bench.root("d/theirs.txt"), "theirs");
    let (report, _) = bench.undo(&bench.journal.changes());
    assert_eq!(report.restored, ["d/e.txt", "there/c.txt", "there/new/b.txt"]);
    assert_eq!(bench.text("d/theirs.txt"), "theirs");
    fs::remove_dir_all(bench.root("d")).expect("removed");
    assert_eq!(bench.tree(), before);
    assert!(bench.root("there").is_dir());
}

#[test]
fn undo_keeps_the_permissions_that_the_user_has_given_since() {
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    bench.propose(&[("a.txt", "b")], &[]).expect("committed");
    fs::set_permissions(bench.root("a.txt"), fs::Permissions::from_mode(0o700)).expect("the mode is set");
    assert_eq!(bench.undo(&bench.journal.changes()).0.restored, ["a.txt"]);
    assert_eq!((bench.text("a.txt").as_str(), mode(&bench.root("a.txt"))), ("a", 0o700));
}

/// What somebody changes between the look and the change stays, and the rest is taken back all the same.
#[test]
fn undo_leaves_alone_what_is_changed_at_the_last_moment() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
    for path in ["a.txt", "b.txt"] {
        bench.see(path);
    }
    bench
        .propose(&[("a.txt", "A"), ("b.txt", "B")], &[])
        .expect("committed");
    let journal = Journal::default();
    let late = bench.root("b.txt");
    *journal.meanwhile.lock().expect("not poisoned") = Some(Box::new(move || write(&late, "late")));
    let report = undo(&bench.context.repository, &bench.journal.changes(), &journal).expect("it is journalled");
    assert_eq!(report.restored, ["a.txt"]);
    assert_eq!(report.left_alone.len(), 1);
    assert_eq!(
        report.left_alone[0].reason,
        "`b.txt` was changed by somebody else in the meantime"
    );
    assert_eq!(journal.notes(), ["prepare", "abandoned", "prepare", "committed"]);
    assert_eq!((bench.text("a.txt"), bench.text("b.txt")), ("a".into(), "late".into()));
}

#[test]
fn an_undo_that_cannot_be_journalled_changes_nothing() {
    for word in ["prepare", "committed"] {
        let bench = Bench::new(&[("a.txt", "a")]);
        bench.see("a.txt");
        bench
            .propose(&[("a.txt", "A"), ("d/n.txt", "N")], &[])
            .expect("committed");
        let journal = Journal::default();
        *journal.fail.lock().expect("not poisoned") = Some(word);
        undo(&bench.context.repository, &bench.journal.changes(), &journal).expect_err("the disk is full");
        assert_eq!(
            (bench.text("a.txt"), bench.text("d/n.txt")),
            ("A".into(), "N".into()),
            "{word}"
        );
    }
}

#[test]
fn an_undo_that_cannot_be_journalled_says_what_it_could_not_take_back() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
    for path in ["a.txt", "b.txt"] {
        bench.see(path);
    }
    let files = [("a.txt", "A"), ("b.txt", "B")];
    bench.propose(&files, &[]).expect("committed");
    // Somebody saves a file between the undo and the look at whether it could be journalled.
    struct Full(Journal, PathBuf);
    impl ChangeJournal for Full {
        fn prepare(&self, change: &PreparedChange) -> io::Result<()> {
            self.0.prepare(change)
        }

        fn committed(&self, _: &str) -> io::Result<()> {
            write(&self.1, "newer");
            Err(io::Error::other("the disk is full"))
        }

        fn abandoned(&self, id: &str) -> io::Result<()> {
            self.0.abandoned(id)
        }
    }
    let journal = Full(Journal::default(), bench.root("a.txt"));
    let error = undo(&bench.context.repository, &bench.journal.changes(), &journal).expect_err("the disk is full");
    assert_eq!(
        error.to_string(),
        "the undo cannot be journalled (the disk is full); it was taken back, but not everywhere: `a.txt` is neither \
         what it was before the interrupted change nor what it was to become"
    );
    assert_eq!((bench.text("a.txt"), bench.text("b.txt")), ("newer".into(), "B".into()));
}

#[test]
fn undo_leaves_alone_what_the_user_changed() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")]);
    for path in ["a.txt", "b.txt", "c.txt"] {
        bench.see(path);
    }
    bench
        .propose(&[("a.txt", "A"), ("b.txt", "B"), ("new.txt", "N")], &["c.txt"])
        .expect("committed");
    write(&bench.root("a.txt"), "the user's");
    write(&bench.root("c.txt"), "the user's");
    fs::remove_file(bench.root("new.txt")).expect("the file is removed");
    fs::create_dir(bench.root("new.txt")).expect("a directory is made");
    let (report, _) = bench.undo(&bench.journal.changes());
    assert_eq!(report.restored, ["b.txt"]);
    let left = |path: &str, reason: &str| LeftAlone {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    assert_eq!(
        report.left_alone,
        [
            left("a.txt", "`a.txt` has been changed since"),
            left("c.txt", "`c.txt` has been changed since"),
            left("new.txt", "`new.txt` is not a regular file"),
        ]
    );
    assert_eq!(bench.text("a.txt"), "the user's");
    assert_eq!(bench.text("b.txt"), "b");
}

/// The files of a change at every point at which a process can die.
#[test]
fn recovery_makes_an_interrupted_change_nothing() {
    let names = ["a.txt", "b.txt", "new/c.txt"];
    for done in 0..=names.len() {
        let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
        let before = bench.tree();
        let state = |content: &str| FileState {
            content: content.into(),
            mode: 0o644,
        };
        let change = PreparedChange {
            id: "id".into(),
            root: bench.context.repository.root().to_owned(),
            files: vec![
                FileChange {
                    path: "a.txt".into(),
                    before: Some(state("a")),
                    after: None,
                },
                FileChange {
                    path: "b.txt".into(),
                    before: Some(state("b")),
                    after: Some(state("B")),
                },
                FileChange {
                    path: "new/c.txt".into(),
                    before: None,
                    after: Some(state("C")),
                },
            ],
            directories: vec!["new".into()],
        };
        if done > 0 {
            fs::rename(bench.root("a.txt"), bench.root(".tool-proposal-id-0")).expect("renamed");
        }
        if done > 1 {
            write(&bench.root("b.txt"), "B");
            write(&bench.root(".tool-proposal-id-1"), "b");
        } else {
            write(&bench.root(".tool-proposal-id-1"), "");
        }
        if done > 2 {
            write(&bench.root("new/c.txt"), "C");
        }
        let recovery = recover(&bench.context.repository, &change);
        assert!(recovery.is_whole());
        assert_eq!(recovery.restored, names[..done]);
        assert_eq!(bench.tree(), before);
        assert!(recover(&bench.context.repository, &change).restored.is_empty());
    }
}

#[test]
fn recovery_shows_what_is_neither_old_nor_new() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
    bench.see("a.txt");
    bench.see("b.txt");
    bench
        .propose(&[("a.txt", "A"), ("b.txt", "B")], &[])
        .expect("committed");
    write(&bench.root("b.txt"), "third");
    write(&bench.root("a.txt.tmp"), "somebody's");
    let change = &bench.journal.changes()[0];
    write(&bench.root(&format!(".tool-proposal-{}-1", change.id)), "somebody's");
    let recovery = recover(&bench.context.repository, change);
    assert_eq!(recovery.restored, ["a.txt"]);
    assert!(!recovery.is_whole());
    assert_eq!(
        recovery.left_alone[0].reason,
        "`b.txt` is neither what it was before the interrupted change nor what it was to become"
    );
    assert_eq!(
        (bench.text("a.txt").as_str(), bench.text("b.txt").as_str()),
        ("a", "third")
    );
    assert_eq!(bench.text(&format!(".tool-proposal-{}-1", change.id)), "somebody's");
}

#[test]
fn what_a_session_did_to_a_file_is_seen_from_its_start() {
    use ChangeKind::{Created, Deleted, Modified};
    for (previous, before, after, expected) in [
        (None, false, true, Some(Created)),
        (None, true, true, Some(Modified)),
        (None, true, false, Some(Deleted)),
        (Some(Created), true, true, Some(Created)),
        (Some(Created), true, false, None),
        (Some(Modified), true, false, Some(Deleted)),
        (Some(Deleted), false, true, Some(Modified)),
    ] {
        assert_eq!(
            combined(previous, before, after),
            expected,
            "{previous:?} {before} {after}"
        );
    }
}

#[test]
fn what_a_proposal_replaces_is_bounded() {
    use crate::limits::REPLACED_BYTES_MAX;
    let bench = Bench::new(&[("small.txt", "x")]);
    let place = bench.root("large.bin");
    let file = fs::File::create(&place).expect("a file is made");
    file.set_len(REPLACED_BYTES_MAX + 1).expect("a hole takes no space");
    let failure = bench
        .propose(&[], &["large.bin"])
        .expect_err("it is too large to be kept");
    assert_eq!(
        failure.message,
        "`large.bin` has 67108865 bytes, more than a change can hold"
    );
    assert!(place.exists());
}

#[test]
fn a_path_of_a_proposal_is_of_bounded_length() {
    use crate::limits::PROPOSAL_PATH_BYTES_MAX;
    assert!(check_name(&"x".repeat(PROPOSAL_PATH_BYTES_MAX)).is_ok());
    let refused = check_name(&"x".repeat(PROPOSAL_PATH_BYTES_MAX + 1)).expect_err("it is longer");
    assert_eq!(refused.message, "A path of the proposal has more than 4095 bytes");
}

// ---- keys ----

#[test]
fn a_key_that_the_model_knows_as_a_placeholder_is_put_back() {
    let key = format!("gh{}_{}", 'p', "Zk3qW9xR2mT7vB4nL6cY8dF1gH5jK0sA2eU4");
    let held = format!("key = \"{key}\"\n");
    let bench = Bench::new(&[("a.py", &held), ("b.py", "x = 1\n")]);
    bench.see("a.py");
    bench.see("b.py");
    let shown = bench
        .context
        .conversation
        .redactor
        .text(&held, Some("a.py"))
        .into_owned();
    assert_eq!(shown, "key = \"[redacted:github-token:1]\"\n");
    // Written back as it was shown, nothing changes.
    let propose = |content: &str| bench.propose(&[("a.py", content)], &[]).expect("it is accepted");
    assert!(propose(&shown).is_empty());
    let longer = format!("{shown}y = 2\n");
    assert_eq!(propose(&longer), ["a.py"]);
    let expected = format!("{held}y = 2\n");
    assert_eq!(fs::read_to_string(bench.root("a.py")).expect("it is read"), expected);
    // The journal holds what is there, and what the session has written it has seen.
    let change = bench.journal.changes();
    let after = change.last().expect("a change").files[0]
        .after
        .clone()
        .expect("a content");
    assert_eq!(after.content, expected.as_bytes());
    assert_eq!(propose(&shown), ["a.py"]);

    let message = |path: &str, placeholder: &str| {
        format!("`{path}` cannot get `{placeholder}`: it stands for a secret that this file does not hold")
    };
    let placeholder = "[redacted:github-token:1]";
    bench.refused(&[("b.py", &shown)], &[], "denied", &message("b.py", placeholder));
    bench.refused(&[("new.py", &shown)], &[], "denied", &message("new.py", placeholder));
    // All or nothing, and a key may not move with its file's name.
    bench.refused(
        &[("a.py", "y = 3\n"), ("c.py", &shown)],
        &[],
        "denied",
        &message("c.py", placeholder),
    );
    bench.refused(
        &[("moved.py", &shown)],
        &["a.py"],
        "denied",
        &message("moved.py", placeholder),
    );
    let made_up = "[redacted:github-token:7]";
    bench.refused(&[("a.py", made_up)], &[], "denied", &message("a.py", made_up));
}

#[test]
fn a_proposal_that_waits_for_another_one_ends_with_its_session() {
    let bench = Bench::new(&[]);
    let lock = changes::write_lock(&bench.context.repository);
    let guard = lock.lock().expect("not poisoned");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.propose(&[("a.txt", "a")], &[]));
        std::thread::sleep(std::time::Duration::from_millis(20));
        let since = std::time::Instant::now();
        bench.context.cancel.cancel();
        let failure = waiting.join().expect("no panic").expect_err("its session has ended");
        assert_eq!(failure.message, "The session was cancelled; nothing was changed");
        // The promise; a busy machine takes some of it.
        assert!(
            since.elapsed() < std::time::Duration::from_millis(500),
            "{:?}",
            since.elapsed()
        );
    });
    drop(guard);
    assert!(!bench.root("a.txt").exists());
}
