//! Proposals against a real temporary repository, a scripted journal and no user to ask.

mod committed;
mod keys;
mod previewed;
mod races;
mod refused;
mod undone;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::*;
use crate::NoServices;
use crate::policy::{EffectCause, Policy};
use tool_core::api::{Operation, PolicyRequest};
use tool_repository::changes::{ChangeJournal, LeftAlone, UndoReport, WrittenLate, recover_change, undo_changes};
use tool_repository::{Options, Repository};

/// Records its calls, fails where a test says so, and may do something between `prepare` and the change.
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
    terms: ProposalTerms,
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
                Policy::new(EffectCause::Operation(operation), request).expect("the request is valid"),
            )
        };
        Self {
            folder,
            journal,
            context,
            terms: ProposalTerms::default(),
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
        let digest = sha256_hex(&fs::read(self.root(path)).expect("the file is read"));
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
        let report = undo_changes(&self.context.repository, changes, &journal).expect("it is journalled");
        (report, journal)
    }

    fn commit(&self, deletions: &[&str]) -> Result<Vec<String>, Failure> {
        let deletions: Vec<String> = deletions.iter().map(|path| (*path).to_owned()).collect();
        let left = StageContent {
            stage: &self.stage(""),
            deletions: &deletions,
            terms: &self.terms,
        };
        commit_stage(&self.context, &NoServices, left).map(|made| made.paths)
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
        assert_eq!((failure.kind.code(), failure.message.as_str()), (code, message));
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

#[test]
fn a_twin_of_an_existing_name_is_refused_unless_it_takes_its_place() {
    let files = [("README.md", "a"), ("cafe\u{301}.py", "b")];
    let mut bench = Bench::new(&files);
    for (twin, message) in [
        (
            "readme.md",
            "`readme.md` would be a twin of `README.md`, which exists: two such names look equal",
        ),
        (
            "caf\u{e9}.py",
            "`caf\u{e9}.py` would be a twin of `cafe\u{301}.py`, which exists: two such names look equal",
        ),
        (
            "Readme.MD/a.txt",
            "`Readme.MD/a.txt` would be a twin of `README.md`, which exists: two such names look equal",
        ),
    ] {
        bench.refused(&[(twin, "c")], &[], "denied", message);
    }
    let message = "`src/a.py` would be a twin of `src/A.py`, which is proposed with it: two such names look equal";
    bench.refused(&[("src/A.py", "c"), ("src/a.py", "d")], &[], "denied", message);
    let message = "`src/b.py` would be a twin of `Src`, which is proposed with it: two such names look equal";
    bench.refused(&[("Src/a.py", "c"), ("src/b.py", "d")], &[], "denied", message);
    bench.see("README.md");
    let changed = bench.propose(&[("readme.md", "c")], &["README.md"]);
    assert_eq!(changed.expect("only its case changes"), ["README.md", "readme.md"]);
    bench = Bench::with(&files, Operation::Refactor, &allowing(&["readme.md"]));
    let changed = bench.propose(&[("readme.md", "c")], &[]);
    assert_eq!(changed.expect("the user allows it"), ["readme.md"]);
}
