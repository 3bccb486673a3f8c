//! The sandbox, tested from inside: guests that attack, and what came of it.
//!
//! Every attack is refused or stopped as itself, and the next call works. The guests lie in `tests/guests` and are
//! built by `scripts/build`; here they are a team's components, added as a user would add them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use host::api::{Operation, PolicyRequest, SkillEntry};
use host::repository::{Options, Repository};
use host::skill::policy::{Cause, Policy};
use host::skill::{
    Approver, Arguments, CallContext, CallReport, ChangeJournal, Limits, PreparedChange, Question, SessionFiles,
    SkillHost, SkillHostError,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A component of the tests.
pub(crate) fn guest(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_tool"))
        .ancestors()
        .nth(2)
        .expect("the binary lies in a profile");
    let path = target.join("wasm32-wasip2/skill").join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is missing: run scripts/build", path.display());
    path
}

/// A home in which the guests are added. Kept between runs, so that each is compiled once.
fn home() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
        fs::create_dir_all(&home).expect("the folder is writable");
        // Tests of another process may be at the same.
        let lock = fs::File::create(home.join("lock")).expect("the folder is writable");
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locks work");
        let host = SkillHost::new(&[], &home).expect("the engine starts");
        for name in ["echo", "hostile", "summing"] {
            let shown = host.inspect(&guest(name)).expect("the guest describes itself");
            let added = |entry: &SkillEntry| entry.digest == shown.digest && entry.state == "ready";
            if !host.entries().iter().any(added) {
                host.add(&shown).expect("the guest is acceptable");
            }
        }
        home
    })
}

/// Nobody to ask.
pub(crate) struct Nobody;

impl Approver for Nobody {
    fn can_ask(&self) -> bool {
        false
    }

    fn ask(&self, _: &Question, _: &CancellationToken) -> bool {
        false
    }
}

/// A journal in memory.
#[derive(Default)]
pub(crate) struct Journal(Mutex<Vec<PreparedChange>>);

impl ChangeJournal for Journal {
    fn prepare(&self, change: &PreparedChange) -> std::io::Result<()> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(change.clone());
        Ok(())
    }

    fn committed(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn abandoned(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }
}

/// A repository with traps in it, and a host with the guests.
struct Arena {
    folder: TempDir,
    host: Arc<SkillHost>,
    context: Arc<CallContext>,
}

impl Arena {
    fn new() -> Self {
        Self::with(Limits::default(), &[])
    }

    fn with(limits: Limits, deny: &[&str]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        lay_traps(folder.path());
        let options = Options::default();
        let request = PolicyRequest {
            deny: deny.iter().map(|&effect| effect.to_owned()).collect(),
            ..PolicyRequest::default()
        };
        let context = CallContext {
            repository: Repository::open(&folder.path().join("repo"), &options).expect("the folder is acceptable"),
            policy: Policy::new(Cause::Operation(Operation::Refactor), &request).expect("the effects are known"),
            approver: Arc::new(Nobody),
            changes: Arc::new(Journal::default()),
            files: Mutex::new(SessionFiles::default()),
            cancel: CancellationToken::new(),
            environment: BTreeMap::new(),
            progress: Arc::new(|_| ()),
        };
        Self {
            folder,
            host: SkillHost::with_limits(&[], home(), limits).expect("the engine starts"),
            context: Arc::new(context),
        }
    }

    fn report(&self, skill: &str, arguments: &Value) -> CallReport {
        self.host.call(&self.context, skill, Arguments::Value(arguments))
    }

    fn call(&self, skill: &str, arguments: &Value) -> String {
        match self.report(skill, arguments).result {
            Ok(outcome) => outcome.text,
            Err(error) => format!("{} {error}", error.verdict()),
        }
    }

    /// One attack, after which the next call must work.
    #[track_caller]
    fn attack(&self, arguments: &Value) -> String {
        let answer = self.call("hostile", arguments);
        assert_eq!(
            self.call("hostile", &json!({"attack": "nothing"})),
            "nothing",
            "after {arguments}"
        );
        answer
    }

    #[track_caller]
    fn on(&self, attack: &str, path: &str) -> String {
        self.attack(&json!({"attack": attack, "path": path}))
    }

    #[track_caller]
    fn count(&self, attack: &str, count: u64) -> String {
        self.attack(&json!({"attack": attack, "count": count}))
    }

    /// A file of the repository as it is now.
    fn file(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join("repo").join(path)).ok()
    }
}

/// `repo` with everything that could lead out of it, and `outside` with what must not be read.
fn lay_traps(folder: &Path) {
    let (repo, outside) = (folder.join("repo"), folder.join("outside"));
    for directory in [&repo, &repo.join("src"), &outside] {
        fs::create_dir(directory).expect("the folder is new");
    }
    for (path, content) in [
        ("repo/README.md", "hello"),
        ("repo/src/main.rs", "fn main() {}"),
        ("repo/.env", "SECRET=1"),
        ("repo/.gitignore", "*.log\n"),
        ("repo/app.log", "line"),
        ("outside/secret", "SECRET=2"),
    ] {
        fs::write(folder.join(path), content).expect("the folder is new");
    }
    for (target, link) in [
        ("README.md", "inside"),
        ("src", "inside-directory"),
        ("../outside/secret", "out"),
        ("../outside", "out-directory"),
        ("/etc/passwd", "absolute"),
        ("/proc/self/environ", "proc"),
        (".env", "to-hidden"),
        ("inside", "twice"),
        ("loop", "loop"),
        ("pipe", "to-pipe"),
    ] {
        symlink(target, repo.join(link)).expect("the folder is new");
    }
    fs::hard_link(repo.join(".env"), repo.join("hard")).expect("the folder is new");
    let mode = rustix::fs::Mode::from(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, repo.join("pipe"), mode).expect("the folder is new");
    // The socket's file stays when the listener goes.
    drop(std::os::unix::net::UnixListener::bind(repo.join("socket")).expect("the path is short"));
}

const DENIED: &str = "refused: PermissionDenied";

// ---- reading ----

#[test]
fn what_is_granted_works() {
    let arena = Arena::new();
    assert_eq!(arena.on("read", "/repo/README.md"), "got hello");
    assert_eq!(arena.on("read", "/repo/src/main.rs"), "got fn main() {}");
    assert_eq!(arena.on("read", "/repo/./src//main.rs"), "got fn main() {}");
    assert_eq!(arena.on("read", "/repo/app.log"), "got line");
    assert_eq!(arena.on("list", "/repo/src"), "got main.rs");
    assert_eq!(arena.on("list", "/repo/src/"), "got main.rs");
    assert_eq!(
        arena.on("stat", "/repo/README.md"),
        "got FileType { is_file: true, is_dir: false, is_symlink: false, .. } of 5"
    );
}

#[test]
fn links_within_the_repository_are_followed() {
    let arena = Arena::new();
    assert_eq!(arena.on("read", "/repo/inside"), "got hello");
    assert_eq!(arena.on("read", "/repo/twice"), "got hello");
    assert_eq!(arena.on("read", "/repo/inside-directory/main.rs"), "got fn main() {}");
    assert_eq!(arena.on("lstat", "/repo/inside"), "got link: true");
    assert_eq!(arena.on("lstat", "/repo/README.md"), "got link: false");
    assert_eq!(arena.on("readlink", "/repo/inside"), "got README.md");
}

#[test]
fn nothing_outside_the_repository_can_be_read() {
    let arena = Arena::new();
    for path in [
        "/repo/../outside/secret",
        "/repo/src/../../outside/secret",
        "/repo/src/../README.md",
        "/repo/out",
        "/repo/out/",
        "/repo/out-directory/secret",
        "/repo/absolute",
        "/repo/proc",
    ] {
        for attack in ["read", "stat"] {
            assert_eq!(arena.on(attack, path), DENIED, "{attack} {path}");
        }
    }
    for path in ["/repo/out-directory", "/repo/out-directory/", "/repo/.."] {
        assert_eq!(arena.on("list", path), DENIED, "{path}");
    }
    for path in [
        "/etc/passwd",
        "/",
        "../outside/secret",
        "/outside/secret",
        "/proc/self/environ",
    ] {
        let answer = arena.on("read", path);
        assert!(answer.starts_with("refused: "), "{path}: {answer}");
    }
    assert_eq!(arena.on("readlink", "/repo/out"), DENIED);
    assert_eq!(arena.on("readlink", "/repo/absolute"), DENIED);
}

#[test]
fn a_trailing_slash_makes_no_file_a_directory() {
    let arena = Arena::new();
    for path in ["/repo/README.md/", "/repo/README.md/.", "/repo/inside/"] {
        for attack in ["read", "stat", "lstat", "list"] {
            assert_eq!(arena.on(attack, path), "refused: NotADirectory", "{attack} {path}");
        }
    }
}

#[test]
fn hidden_files_are_not_there_by_any_name() {
    let arena = Arena::new();
    for path in [
        "/repo/.env",
        "/repo/.ENV",
        "/repo/.env/",
        "/repo/to-hidden",
        "/repo/hard",
        "/repo/src/.env",
        "/repo/.git",
    ] {
        for attack in ["read", "stat"] {
            assert_eq!(arena.on(attack, path), DENIED, "{attack} {path}");
        }
    }
    assert_eq!(arena.on("readlink", "/repo/to-hidden"), DENIED);
    let listed = arena.on("list", "/repo");
    assert!(!listed.contains(".env") && listed.contains("README.md"), "{listed}");
    for path in ["", "."] {
        let listed = arena.on("list-all", path);
        assert_eq!(listed.split(' ').find(|path| path.contains("env")), None, "{listed}");
    }
}

#[test]
fn special_files_are_refused_without_waiting() {
    let arena = Arena::new();
    let started = Instant::now();
    for path in ["/repo/pipe", "/repo/to-pipe", "/repo/socket"] {
        for attack in ["read", "stat", "open-files"] {
            let answer = arena.attack(&json!({"attack": attack, "path": path, "count": 1}));
            assert_eq!(answer, DENIED, "{attack} {path}");
        }
    }
    assert_eq!(arena.on("read", "/repo/loop"), "refused: FilesystemLoop");
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "a FIFO must not be waited for"
    );
}

// ---- writing ----

#[test]
fn the_repository_cannot_be_written() {
    let arena = Arena::new();
    let read_only = "refused: ReadOnlyFilesystem";
    for (attack, path) in [
        ("write", "/repo/README.md"),
        ("write", "/repo/new"),
        ("append", "/repo/README.md"),
        ("truncate", "/repo/README.md"),
        ("create", "/repo/new"),
        ("mkdir", "/repo/new"),
        ("remove", "/repo/README.md"),
        ("rmdir", "/repo/src"),
    ] {
        assert_eq!(arena.on(attack, path), read_only, "{attack} {path}");
    }
    for (attack, path, to) in [
        ("rename", "/repo/README.md", "/repo/new"),
        ("rename", "/repo/README.md", "/stage/new"),
        ("hard-link", "/repo/README.md", "/repo/new"),
        ("hard-link", "/repo/README.md", "/stage/new"),
        ("symlink", "README.md", "/repo/new"),
    ] {
        let answer = arena.attack(&json!({"attack": attack, "path": path, "to": to}));
        assert_eq!(answer, read_only, "{attack} {path} {to}");
    }
    assert_eq!(arena.file("README.md").as_deref(), Some("hello"));
    assert_eq!(arena.file("new"), None);
}

#[test]
fn what_lies_in_the_stage_is_committed_after_the_call() {
    let arena = Arena::new();
    let report = arena.report("hostile", &json!({"attack": "write", "path": "/stage/deep.txt"}));
    let outcome = report.result.expect("a new file may be proposed");
    assert_eq!(
        (outcome.text.as_str(), outcome.files_modified),
        ("got written", vec!["deep.txt".to_owned()])
    );
    assert_eq!(arena.file("deep.txt").as_deref(), Some("owned"));
    assert_eq!(report.receipt.expect("it ran").files_proposed, ["deep.txt"]);
}

#[test]
fn a_file_is_replaced_only_after_it_was_shown() {
    let arena = Arena::new();
    let answer = arena.on("write", "/stage/README.md");
    assert_eq!(
        answer,
        "denied `README.md` has not been read in this session: read it first"
    );
    assert_eq!(arena.file("README.md").as_deref(), Some("hello"));
    assert_eq!(arena.on("shown", "README.md"), "shown");
    assert_eq!(arena.on("write", "/stage/README.md"), "got written");
    assert_eq!(arena.file("README.md").as_deref(), Some("owned"));
}

#[test]
fn a_call_that_does_not_end_well_changes_nothing() {
    let arena = Arena::new();
    assert_eq!(arena.on("fail-after-write", "/stage/new"), "failed failed on purpose");
    let answer = arena.on("trap-after-write", "/stage/new");
    assert!(answer.starts_with("trap "), "{answer}");
    assert_eq!(arena.file("new"), None);
}

#[test]
fn writing_that_is_not_granted_is_denied() {
    let arena = Arena::with(Limits::default(), &["write-repository"]);
    let denied = "denied `hostile` needs the effect `write-repository`, which is not granted here.";
    assert_eq!(arena.on("write", "/stage/new"), denied);
    assert_eq!(arena.on("mkdir", "/stage/new"), denied);
    assert_eq!(arena.on("delete", "README.md"), denied);
    assert_eq!(arena.file("README.md").as_deref(), Some("hello"));
}

#[test]
fn the_stage_holds_files_and_directories_only_and_leads_nowhere() {
    let arena = Arena::new();
    for (attack, path, to) in [
        ("symlink", "/etc/passwd", "/stage/link"),
        ("symlink", "../../repo", "/stage/link"),
        ("write", "/stage/../repo/new", ""),
        ("write", "/stage/..", ""),
        ("mkdir", "/stage/../new", ""),
        ("read", "/stage/../README.md", ""),
        ("list", "/stage/..", ""),
    ] {
        let answer = arena.attack(&json!({"attack": attack, "path": path, "to": to}));
        assert_eq!(answer, DENIED, "{attack} {path}");
    }
    assert_eq!(arena.on("write", "/stage/new/"), "refused: IsADirectory");
    assert_eq!(arena.on("read", "/stage/new"), "refused: NotFound");
    for path in [
        "/stage/.git/hooks/pre-commit",
        "/stage/.env",
        "/stage/.github/workflows/ci.yml",
    ] {
        let parent = Path::new(path).parent().and_then(Path::to_str).expect("it has one");
        let answer = arena.attack(&json!({"attack": "mkdir", "path": parent}));
        assert_eq!(answer, "got made", "an empty directory proposes nothing");
    }
    assert_eq!(arena.on("write", "/stage/.env").split(' ').next(), Some("denied"));
    assert_eq!(arena.file("new"), None);
    assert_eq!(arena.file(".env").as_deref(), Some("SECRET=1"));
}

// ---- time ----

fn hasty() -> Limits {
    Limits {
        wall: Duration::from_millis(300),
        ..Limits::default()
    }
}

#[test]
fn a_guest_that_never_ends_is_stopped_at_its_deadline() {
    let arena = Arena::with(hasty(), &[]);
    for attack in ["spin", "spin-in-host-calls", "sleep", "sleep-for-ever"] {
        let started = Instant::now();
        let answer = arena.on(attack, "/repo/README.md");
        assert_eq!(
            answer, "timeout The skill `hostile` was stopped: it exceeded its limit of 300 ms.",
            "{attack}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{attack} took {:?}",
            started.elapsed()
        );
    }
    assert_eq!(arena.count("nap", 50), "slept true");
}

#[test]
fn a_cancelled_call_frees_its_thread() {
    for attack in ["spin", "spin-in-host-calls", "sleep-for-ever"] {
        let arena = Arena::new();
        // The next call of a cancelled session ends as well, so the sandbox's own health is tested elsewhere.
        let cancel = arena.context.cancel.clone();
        let watcher = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
            Instant::now()
        });
        let answer = arena.call("hostile", &json!({"attack": attack}));
        let ended = Instant::now();
        let cancelled = watcher.join().expect("it only sleeps");
        assert_eq!(answer, "cancelled The skill `hostile` was cancelled.", "{attack}");
        let bound = Duration::from_secs(1);
        assert!(
            ended.saturating_duration_since(cancelled) < bound,
            "{attack}: {:?}",
            ended - cancelled
        );
    }
}

// ---- floods ----

#[test]
fn memory_is_bounded() {
    let arena = Arena::new();
    let exceeded = "memory The skill `hostile` was stopped: it exceeded its limit of 256 MiB of memory.";
    assert_eq!(arena.count("memory", 4096), exceeded);
    assert_eq!(arena.count("output", 1 << 30), exceeded);
    assert_eq!(arena.count("memory", 16), "got 16 MiB");
}

#[test]
fn answers_are_bounded() {
    let arena = Arena::new();
    let text = "output The skill `hostile` was stopped: it exceeded its limit of 1 MiB of text.";
    assert_eq!(arena.count("output", 1024 * 1024 + 1), text);
    assert_eq!(arena.count("output", 1024 * 1024).len(), 1024 * 1024);
    let whole = "output The skill `hostile` was stopped: it exceeded its limit of 16 MiB in one answer or host call.";
    assert_eq!(arena.count("output", 64 << 20), whole);
    assert_eq!(arena.count("many-deletions", 50_000), whole);
    let deletions = "stage The skill `hostile` was stopped: it exceeded its limit of 2000 deletions.";
    assert_eq!(arena.count("many-deletions", 2_001), deletions);
}

#[test]
fn other_floods_end_that_call_alone() {
    let arena = Arena::new();
    assert_eq!(arena.count("log", 100_000), "nothing");
    assert_eq!(arena.count("stdout", 10_000), "nothing");
    let exceeded = |verdict: &str, limit: &str| {
        format!("{verdict} The skill `hostile` was stopped: it exceeded its limit of {limit}.")
    };
    assert_eq!(arena.count("random", 2_000), exceeded("random", "1048576 random bytes"));
    assert_eq!(arena.count("handles", 2_000), exceeded("handles", "1024 handles"));
    let files = json!({"attack": "open-files", "path": "/repo/README.md", "count": 100});
    assert_eq!(arena.attack(&files), exceeded("handles", "64 open files"));
    let few = json!({"attack": "open-files", "path": "/repo/README.md", "count": 50});
    assert_eq!(arena.attack(&few), "got 50 files");
}

#[test]
fn reading_is_bounded() {
    let arena = Arena::with(
        Limits {
            entries: 100,
            read_bytes: 100,
            ..Limits::default()
        },
        &[],
    );
    let exceeded = |verdict: &str, limit: &str| {
        format!("{verdict} The skill `hostile` was stopped: it exceeded its limit of {limit}.")
    };
    let walk = json!({"attack": "walk", "path": "/repo", "count": 10});
    assert_eq!(arena.attack(&walk), exceeded("entries", "100 directory entries"));
    let read = json!({"attack": "reread", "path": "/repo/README.md", "count": 21});
    assert_eq!(arena.attack(&read), exceeded("read", "100 bytes read"));
}

#[test]
fn tables_and_instances_are_bounded() {
    let tables = Limits {
        table_elements: 1,
        ..Limits::default()
    };
    let instances = Limits {
        instances: 1,
        ..Limits::default()
    };
    let answer = |limits| Arena::with(limits, &[]).call("echo", &json!({}));
    assert_eq!(
        answer(tables),
        "tables The skill `echo` was stopped: it exceeded its limit of 1 table elements."
    );
    assert_eq!(
        answer(instances),
        "instances The skill `echo` was stopped: it exceeded its limit of 1 instances, memories or tables."
    );
}

#[test]
fn proposals_are_bounded() {
    let arena = Arena::new();
    let bytes = "stage The skill `hostile` was stopped: it exceeded its limit of 32 MiB of proposed files.";
    for (attack, count) in [
        ("stage-bytes", 1_000),
        ("stage-again", 1_000),
        ("stage-hole", 1_u64 << 40),
        ("stage-size", 1_u64 << 40),
    ] {
        let answer = arena.attack(&json!({"attack": attack, "path": "/stage/big", "count": count}));
        assert_eq!(answer, bytes, "{attack}");
    }
    let files = json!({"attack": "stage-files", "path": "/stage/file", "count": 3_000});
    assert_eq!(
        arena.attack(&files),
        "stage The skill `hostile` was stopped: it exceeded its limit of 2000 proposed files and directories."
    );
    assert_eq!(arena.file("big"), None);
    assert_eq!(arena.file("file0"), None);
}

#[test]
fn calls_wait_for_their_turn_and_too_many_are_turned_away() {
    let limits = Limits {
        calls_concurrent: 1,
        calls_waiting: 1,
        ..Limits::default()
    };
    let arena = Arena::with(limits, &[]);
    let nap = json!({"attack": "nap", "count": 500});
    let answers: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let thread = scope.spawn(|| arena.call("hostile", &nap));
                std::thread::sleep(Duration::from_millis(100));
                thread
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it answers"))
            .collect()
    });
    let busy = "busy The skill `hostile` was not called: too many calls are at work. Try again.";
    assert_eq!(answers, ["slept true", "slept true", busy]);
    assert_eq!(arena.count("nap", 1), "slept true");
}

// ---- what a guest has none of ----

#[test]
fn a_guest_sees_nothing_of_the_host() {
    let arena = Arena::new();
    for (attack, expected) in [
        ("environment", "0 variables"),
        ("arguments", "0 arguments"),
        ("stdin", "got 0 bytes"),
        ("connect", DENIED),
        ("bind", DENIED),
        ("udp", DENIED),
        ("clock", "finest step at least 1 ms: true"),
        ("thread", "refused: Unsupported"),
        ("process", "refused: Unsupported"),
    ] {
        assert_eq!(arena.on(attack, ""), expected, "{attack}");
    }
    let resolved = arena.on("resolve", "");
    assert!(resolved.starts_with("refused: "), "{resolved}");
}

// ---- crashes ----

#[test]
fn crashes_are_told_in_words() {
    let arena = Arena::new();
    let panic = arena.on("panic", "");
    let place =
        "trap The skill `hostile` crashed: thread '<unnamed>' (1) panicked at tests/guests/hostile/src/attacks.rs";
    assert!(panic.starts_with(place), "{panic}");
    assert!(
        panic.ends_with(": a red reason (wasm `unreachable` instruction executed)"),
        "{panic}"
    );
    let told: Vec<String> = ["abort", "exit", "overflow"].map(|attack| arena.on(attack, "")).into();
    insta::assert_snapshot!(told.join("\n"), @r"
    trap The skill `hostile` crashed: wasm `unreachable` instruction executed
    trap The skill `hostile` crashed: it exited with status 1
    trap The skill `hostile` crashed: out of bounds memory access
    ");
}

#[test]
fn answers_and_failures_are_cleaned() {
    let arena = Arena::new();
    assert_eq!(arena.on("colours", ""), "red\ttab\n");
    assert_eq!(arena.on("odd-code", ""), "failed an odd failure");
}

// ---- the contract ----

#[test]
fn effects_that_are_not_granted_answer_denied() {
    let arena = Arena::with(Limits::default(), &["read-git"]);
    assert_eq!(arena.on("git", ""), "denied The effect `read-git` is not granted here.");
    let arena = Arena::with(Limits::default(), &["read-repository"]);
    assert_eq!(
        arena.call("hostile", &json!({"attack": "list-all"})),
        "denied `hostile` needs the effect `read-repository`, which is not granted here."
    );
}

#[test]
fn the_list_is_the_repository_as_the_user_sees_it() {
    let arena = Arena::new();
    assert_eq!(arena.on("list-all", "src"), "src/main.rs");
    assert_eq!(arena.on("list-all", "README.md"), "README.md");
    assert!(
        arena.on("list-own", "").ends_with(" and 4 left out"),
        "{}",
        arena.on("list-own", "")
    );
    assert_eq!(arena.on("list-all", "nowhere"), "not-found `nowhere` does not exist");
    assert!(arena.on("list-all", "../outside").starts_with("invalid-arguments "));
    assert!(arena.on("list-all", "out-directory").starts_with("denied "));
}

#[test]
fn arguments_are_checked_before_anything_runs() {
    let arena = Arena::new();
    let report = arena
        .host
        .call(&arena.context, "hostile", Arguments::Text(r#"{"attack": 1}"#));
    let error = report.result.expect_err("a number is no name");
    assert_eq!(
        error.to_string(),
        "Invalid arguments for `hostile` at `/attack`: expected a string, got the number 1."
    );
    assert!(report.receipt.is_none());
    let report = arena.host.call(&arena.context, "hostil", Arguments::Text(""));
    let error = report.result.expect_err("there is no such skill");
    assert_eq!(
        error.to_string(),
        "There is no skill named `hostil`. Did you mean `hostile`?"
    );
}

#[test]
fn a_receipt_says_what_a_call_cost() {
    let arena = Arena::with(Limits::default(), &["write-repository"]);
    let receipt = arena
        .report("hostile", &json!({"attack": "read", "path": "/repo/README.md"}))
        .receipt
        .expect("it ran");
    assert_eq!(receipt.skill, "hostile");
    assert_eq!(receipt.grants, ["read-repository", "read-git"]);
    assert_eq!((receipt.bytes_in, receipt.bytes_out), (5, 9));
    assert_eq!(receipt.verdict, "ok");
    assert!(receipt.peak_memory_bytes > 64 * 1024 && receipt.wall_us > 0);
    let receipt = arena
        .report("hostile", &json!({"attack": "panic"}))
        .receipt
        .expect("it ran");
    assert_eq!(receipt.verdict, "trap");
}

// ---- parts ----

#[test]
fn a_call_runs_in_parts() {
    let limits = Limits { parts: 2, ..hasty() };
    let arena = Arena::with(limits, &[]);
    let sum = |mischief: &str| arena.call("summing", &json!({"numbers": [1, 2, 0, 4], "mischief": mischief}));
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        assert_eq!(sum(""), "whole:7");
        return;
    }
    assert_eq!(sum(""), "part:3 part:4");
    assert_eq!(sum("list"), "part:3 part:4");
    assert_eq!(sum("fail"), "failed a part failed");
    assert_eq!(
        sum("spin"),
        "timeout The skill `summing` was stopped: it exceeded its limit of 300 ms."
    );
    assert_eq!(
        sum("many"),
        "trap The skill `summing` crashed: it split a call into 4 parts where 2 were asked for"
    );
    assert_eq!(arena.call("summing", &json!({"numbers": [5]})), "whole:5");
    let alone = Arena::with(Limits { parts: 1, ..limits }, &[]);
    assert_eq!(alone.call("summing", &json!({"numbers": [1, 2]})), "whole:3");
}

// ---- which components are accepted ----

/// A home of its own for what changes the list of skills.
fn empty_home() -> (TempDir, Arc<SkillHost>) {
    let home = TempDir::new().expect("a temporary folder");
    let host = SkillHost::new(&[], home.path()).expect("the engine starts");
    (home, host)
}

/// A component with one text in it replaced by another of the same length.
fn forged(folder: &Path, from: &str, to: &str) -> PathBuf {
    assert_eq!(from.len(), to.len());
    let wasm = fs::read(guest("echo")).expect("the guest is built");
    let mut forged = wasm.clone();
    let found: Vec<usize> = (0..wasm.len() - from.len())
        .filter(|&at| wasm[at..].starts_with(from.as_bytes()))
        .collect();
    assert!(!found.is_empty(), "{from} is not in the guest");
    for at in found {
        forged[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    let path = folder.join("forged.wasm");
    fs::write(&path, forged).expect("the folder is writable");
    path
}

#[test]
fn components_that_ask_for_the_unknown_are_refused_by_name() {
    let (home, host) = empty_home();
    let refused = |path: PathBuf| match host.inspect(&path) {
        Err(SkillHostError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let forge = |from, to| refused(forged(home.path(), from, to));
    assert_eq!(
        forge("tool:skill/handler@1.0.0", "tool:skill/handler@2.0.0"),
        "it was built for tool:skill@2.0.0, and this host accepts tool:skill@1.0.0"
    );
    assert_eq!(
        forge("wasi:random/insecure-seed@0.2.6", "wasi:random/insecure-feed@0.2.6"),
        "it imports `wasi:random/insecure-feed@0.2.6`, which this host does not provide"
    );
    assert_eq!(
        forge("wasi:cli/stdin@0.2.6", "wasi:cli/stdin@0.3.0"),
        "it imports `wasi:cli/stdin@0.3.0`, which this host does not provide"
    );
    assert_eq!(
        refused(guest("sneaky")),
        "it imports `tool:skill/git-read` without declaring the effect `read-git`"
    );
    let other = home.path().join("other.wasm");
    for (bytes, reason) in [
        (&b"# A page\n"[..], "it is no WebAssembly component"),
        (&b"\0asm\x01\0\0\0"[..], "it is a WebAssembly module, not a component"),
        (
            b"\0asm\x0d\0\x01\0",
            "it exports no `tool:skill/handler@1.0.0`, so it is no skill",
        ),
    ] {
        fs::write(&other, bytes).expect("the folder is writable");
        assert_eq!(refused(other.clone()), reason);
    }
    fs::write(&other, b"\0asm\x0d\0\x01\0\xff").expect("the folder is writable");
    assert!(refused(other).starts_with("it is no valid component: "));
}

#[test]
fn looking_at_a_component_is_bounded() {
    let home = TempDir::new().expect("a temporary folder");
    let look = |limits, path: &Path| {
        let host = SkillHost::with_limits(&[], home.path(), limits).expect("the engine starts");
        host.inspect(path).expect_err("it is beyond the bounds")
    };
    let hurried = Limits {
        describe: Duration::from_millis(200),
        ..Limits::default()
    };
    let refused = look(hurried, &guest("endless")).to_string();
    assert!(
        refused.ends_with("is refused: it does not describe itself within the limit of 200 ms"),
        "{refused}"
    );
    let impatient = Limits {
        compile: Duration::ZERO,
        ..Limits::default()
    };
    let refused = look(impatient, &guest("hostile")).to_string();
    let in_turn = "another skill is still being compiled";
    assert!(
        refused.ends_with("compiling it took longer than 0 s") || refused.ends_with(in_turn),
        "{refused}"
    );
    let large = home.path().join("large.wasm");
    let file = fs::File::create(&large).expect("the folder is writable");
    file.set_len(host::limits::COMPONENT_BYTES_MAX + 1)
        .expect("a hole takes no space");
    let refused = look(Limits::default(), &large);
    assert!(matches!(refused, SkillHostError::Io { .. }), "{refused}");
}

#[test]
fn a_component_gets_nothing_before_it_is_trusted_and_nothing_after_it_changed() {
    let (home, host) = empty_home();
    let arena = Arena::new();
    let folder = home.path().join("skills");
    let state = || {
        let entries = host.entries();
        let entry = entries.first().expect("it is listed");
        (entry.state.clone(), entry.effects.clone())
    };
    let call = || match host
        .call(&arena.context, "summing", Arguments::Text(r#"{"numbers": [1]}"#))
        .result
    {
        Ok(outcome) => outcome.text,
        Err(error) => error.to_string(),
    };
    fs::create_dir_all(&folder).expect("the home is writable");
    fs::copy(guest("summing"), folder.join("summing.wasm")).expect("the home is writable");
    assert_eq!(state(), ("untrusted".to_owned(), vec![]));
    assert_eq!(host.specs().len(), 0);
    assert_eq!(
        call(),
        "The skill `summing` cannot be used: nobody has added it; `tool skill trust summing` shows what it asks for."
    );

    let shown = host.inspect_installed("summing").expect("it describes itself");
    assert_eq!(shown.effects, ["read-repository"]);
    host.trust(&shown).expect("it is what was shown");
    assert_eq!(state(), ("ready".to_owned(), vec!["read-repository".to_owned()]));
    assert_eq!(call(), "whole:1");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder.join("pins.json")), 0o600);
    assert_eq!(mode(&home.path().join("cache/skills")), 0o700);

    fs::copy(guest("echo"), folder.join("summing.wasm")).expect("the home is writable");
    assert_eq!(state().0, "changed");
    assert!(call().contains("its file has changed since it was added"), "{}", call());
    assert!(matches!(host.trust(&shown), Err(SkillHostError::Changed { .. })));
    assert!(matches!(
        host.inspect_installed("summing"),
        Err(SkillHostError::Refused { .. })
    ));

    host.remove("summing").expect("it is there");
    assert_eq!(host.entries().len(), 0);
    assert!(matches!(host.remove("summing"), Err(SkillHostError::Unknown { .. })));
    assert!(matches!(host.remove("../summing"), Err(SkillHostError::Unknown { .. })));
}

#[test]
fn wasmtime_is_one_without_the_trailing_slash_escape() {
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock")).expect("it is there");
    let lock: toml::Table = lock.parse().expect("cargo writes TOML");
    let packages = lock["package"].as_array().expect("a list of packages");
    let mut found = 0;
    for package in packages
        .iter()
        .filter(|package| package["name"].as_str() == Some("wasmtime-wasi"))
    {
        let version = package["version"].as_str().expect("a version");
        let major: u32 = version
            .split('.')
            .next()
            .and_then(|major| major.parse().ok())
            .expect("a number");
        assert!(major >= 48, "wasmtime-wasi {version} lets a trailing slash escape");
        found += 1;
    }
    assert!(
        found > 0,
        "wasmtime-wasi is gone: is the guest with the trailing slash still run?"
    );
}
