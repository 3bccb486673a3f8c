//! The sandbox, tested from inside: guests that attack, and what came of it.
//!
//! Every attack is refused or stopped as itself, and the next call works. The attacks by name are the engine's table,
//! which `doctor` runs as a user would; the other modules hold the boundary to its words and to what it must allow. The
//! guests lie in `tests/guests` and are built by `scripts/build`; here they are a team's components, added as a user
//! would add them.

mod bounds;
mod components;
mod contract;
mod doctor;
mod reading;
mod writing;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_core::api::{Operation, PolicyRequest, SkillEntry, SkillState};
use tool_repository::{Options, Repository};
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::{CallContext, CallReport, Limits, RawArguments, SkillHost};

/// A component of the tests.
pub(crate) fn guest(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_tool"))
        .ancestors()
        .nth(2)
        .expect("the binary lies in a profile");
    let path = target.join("wasm32-wasip2/skill").join(format!("{name}.wasm"));
    assert!(
        path.is_file(),
        "{} is missing: run scripts/build --tests",
        path.display()
    );
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
            let added = |entry: &SkillEntry| entry.digest == shown.digest && entry.state == SkillState::Ready;
            if !host.entries().iter().any(added) {
                host.add(&shown).expect("the guest is acceptable");
            }
        }
        home
    })
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
        let context = CallContext::unattended(
            Repository::open(&folder.path().join("repo"), &options).expect("the folder is acceptable"),
            Policy::new(EffectCause::Operation(Operation::Refactor), &request).expect("the effects are known"),
        );
        Self {
            folder,
            host: SkillHost::with_limits(&[], home(), limits).expect("the engine starts"),
            context: Arc::new(context),
        }
    }

    fn report(&self, skill: &str, arguments: &Value) -> CallReport {
        self.host.call(&self.context, skill, RawArguments::Value(arguments))
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
