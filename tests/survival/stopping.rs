//! The work for a request stops when its client leaves or its session is cancelled: each route and each skill that can work
//! for long, on the real daemon and its helper processes.
//!
//! The kernel counts the work: inotify reports each folder of the repository that any process opens. The test opens a
//! marker when the client leaves, and only a part of all folders may be opened after the marker.
//! `tests/limits/stops.toml` names these tests.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::conformance::http::{self, Connection};
use crate::support::{Home, git, say};

/// Folders at the top of the repository, and folders in each of them.
const FOLDERS: usize = 80;

/// Openings after the client has left. Noticing that it has left is a task of its own in the daemon, which may have to
/// wait for a processor.
const OPENINGS_MAX: usize = FOLDERS * FOLDERS / 4;

/// Attempts to leave before the answer is there.
const TRIES: usize = 10;

/// Time without an opening after which the work counts as ended.
const QUIET: Duration = Duration::from_millis(400);

/// Counts the folders that are opened in the repository.
struct OpeningCounter {
    queue: OwnedFd,
    root: PathBuf,
}

impl OpeningCounter {
    fn watch(root: &Path) -> Self {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("the system has inotify");
        for number in 0..FOLDERS {
            inotify::add_watch(&queue, root.join(format!("d{number}")), WatchFlags::OPEN).expect("it can be watched");
        }
        let root = root.to_owned();
        Self { queue, root }
    }

    /// The names of the folders that were opened since the last call.
    fn take(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
        let mut reader = inotify::Reader::new(&self.queue, &mut buffer);
        let mut names = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => names.push(event.file_name().unwrap_or_default().to_string_lossy().into_owned()),
                Err(Errno::AGAIN) => return names,
                Err(errno) => panic!("{errno}"),
            }
        }
    }

    /// Waits until something is opened, and returns the number of openings.
    fn wait(&self) -> usize {
        for _ in 0..60_000 {
            match self.take().len() {
                0 => std::thread::sleep(Duration::from_millis(1)),
                count => return count,
            }
        }
        panic!("the work never begins")
    }

    /// Counts the openings since the last call, and the openings from now on until nothing is opened any more.
    fn around_now(&self) -> (usize, usize) {
        let marker = self.root.join("d0/marker");
        fs::File::open(marker).expect("the marker is there");
        let mut names = self.take();
        loop {
            std::thread::sleep(QUIET);
            let more = self.take();
            if more.is_empty() {
                break;
            }
            names.extend(more);
        }
        let at = names.iter().position(|name| name == "marker").expect("it was opened");
        (at, names.len() - at - 1)
    }
}

/// A daemon and a repository that takes long to walk.
struct Scene {
    home: Home,
    repository: TempDir,
    address: String,
}

impl Scene {
    fn new() -> Self {
        let (home, repository) = (Home::offline(), TempDir::new().expect("a temporary folder"));
        let root = repository.path();
        git(root, &["init", "--quiet"]);
        git(root, &["config", "user.name", "Ada"]);
        git(root, &["config", "user.email", "ada@example.org"]);
        for above in 0..FOLDERS {
            for below in 0..FOLDERS {
                let place = root.join(format!("d{above}/e{below}"));
                fs::create_dir_all(&place).expect("folders can be made");
            }
            fs::write(root.join(format!("d{above}/a.py")), "x = 1\n").expect("files can be written");
        }
        fs::write(root.join("d0/marker"), "").expect("files can be written");
        let address = home.serve();
        Self {
            home,
            repository,
            address,
        }
    }

    /// Sends a request, leaves once the work on it has begun, and checks how much is done after that.
    #[track_caller]
    fn stops(&self, what: &str, begin: impl Fn(&Self) -> Connection, leave: impl Fn(&Self, Connection)) {
        let mut counts = Vec::new();
        for number in 0..TRIES {
            // A file list that is still valid would not be made again.
            let place = self.repository.path().join(format!("new{number}"));
            fs::write(&place, "").expect("files can be written");
            let openings = OpeningCounter::watch(self.repository.path());
            let connection = begin(self);
            let first = openings.wait();
            leave(self, connection);
            let (before, after) = openings.around_now();
            let before = first + before;
            fs::remove_file(place).expect("it is there");
            counts.push((before, after));
            // Work that was at its end already proves nothing.
            if after <= OPENINGS_MAX && before + after < FOLDERS * FOLDERS {
                break;
            }
        }
        say(&format!(
            "{what}: openings before and after the end of its client: {counts:?}"
        ));
        let has_stopped =
            |(before, after): &(usize, usize)| *after <= OPENINGS_MAX && before + after < FOLDERS * FOLDERS;
        assert!(counts.iter().any(has_stopped), "{what}: {counts:?}");
        assert_eq!(self.answer_elsewhere(), 200, "{what}: the daemon answers");
    }

    fn answer_elsewhere(&self) -> u16 {
        http::get(&self.address, "/status").status
    }

    fn post(&self, path: &str, body: &Value) -> Connection {
        let headers = [("content-type", "application/json")];
        Connection::send(&self.address, "POST", path, &headers, Some(&body.to_string()))
    }

    fn root(&self) -> &str {
        self.repository.path().to_str().expect("UTF-8")
    }

    fn skill_stops(&self, skill: &str, arguments: &Value, allow: &[&str]) {
        let body = json!({"arguments": arguments, "repo_path": self.root(), "policy": {"allow": allow}});
        let token = fs::read_to_string(self.home.path().join("token")).expect("it is there");
        let authorization = format!("Bearer {}", token.trim());
        let headers = [("content-type", "application/json"), ("authorization", &authorization)];
        let path = format!("/skills/{skill}/call");
        let begin = |scene: &Self| Connection::send(&scene.address, "POST", &path, &headers, Some(&body.to_string()));
        self.stops(skill, begin, Self::cancel);
    }

    /// Cancels the session of a request.
    fn cancel(&self, mut connection: Connection) {
        let mark = "\r\nx-session-id: ";
        connection.until(mark);
        connection.until("\r\n\r\n");
        let received = connection.received();
        let (_, id) = received.split_once(mark).expect("it was received");
        let id = id.lines().next().expect("it ends");
        http::ask(&self.address, "DELETE", &format!("/sessions/{id}"), &[]).expect(202);
    }
}

#[test]
fn a_scan_stops_when_its_client_leaves() {
    let scene = Scene::new();
    let begin = |scene: &Scene| scene.post("/scan", &json!({"repo_path": scene.root()}));
    scene.stops("POST /scan", begin, |_, connection| drop(connection));
}

#[test]
fn a_selection_stops_when_its_client_leaves() {
    let scene = Scene::new();
    let body = json!({"operation": "explain", "repo_path": scene.root()});
    scene.stops(
        "POST /context",
        |scene| scene.post("/context", &body),
        |_, connection| drop(connection),
    );
}

#[test]
fn a_graph_stops_when_its_client_leaves() {
    let scene = Scene::new();
    let begin = |scene: &Scene| scene.post("/graph", &json!({"repo_path": scene.root()}));
    scene.stops("POST /graph", begin, |_, connection| drop(connection));
    let body = json!({"repo_path": scene.root(), "symbol": "x"});
    let begin = |scene: &Scene| scene.post("/graph/calls", &body);
    scene.stops("POST /graph/calls", begin, |_, connection| drop(connection));
}

#[test]
fn a_session_stops_when_it_is_cancelled() {
    let scene = Scene::new();
    let body = json!({"operation": "explain", "target": ".", "repo_path": scene.root()});
    let cancel = |scene: &Scene, connection: Connection| {
        let start = connection.finish().json();
        let id = start["session_id"].as_str().expect("an identifier");
        http::ask(&scene.address, "DELETE", &format!("/sessions/{id}"), &[]).expect(202);
    };
    scene.stops("POST /execute", |scene| scene.post("/execute", &body), cancel);
    scene.stops("POST /stream", |scene| scene.post("/stream", &body), Scene::cancel);
}

#[test]
fn skills_stop_when_their_session_is_cancelled() {
    let scene = Scene::new();
    scene.skill_stops("list_files", &json!({"recursive": true}), &[]);
    scene.skill_stops("search_code", &json!({"pattern": "y"}), &[]);
    scene.skill_stops("git_diff", &json!({"untracked": true}), &["read-git"]);
    scene.skill_stops("git_commit", &json!({"message": "Add", "all": true}), &["commit-git"]);
}
