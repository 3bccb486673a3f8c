//! Test suites that want more than to test, through every way by which suites are run: each attempt fails as itself, the
//! tree is what it was, and nothing is left running.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tool_model_server::{Round, ScriptedCall};

use super::{everything, live, processes, repository, unchanged, uuid};
use crate::providers::scripted;
use crate::support::{Home, finish, folder, holds};

const FILES: [(&str, &str); 4] = [
    ("src/a.py", "x = 1\n"),
    ("kept.txt", "kept\n"),
    (".env", "KEY=hunter2\n"),
    ("secrets/id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n"),
];

/// Each test fails with the error that it names.
const PYTEST: &str = r#"
import json, os, pathlib, signal, socket, subprocess, sys, time

know = json.load(open("know.json"))
HOME = pathlib.Path(os.environ["HOME"])

def test_write_outside():
    pathlib.Path("../escaped.txt").write_text("x")
    (HOME / "escaped.txt").write_text("x")
    pathlib.Path("/usr/escaped.txt").write_text("x")

def test_delete_repository():
    subprocess.run(["rm", "-rf", os.getcwd() + "/src", os.getcwd() + "/kept.txt"], check=True)
    assert not os.path.exists("kept.txt")
    raise RuntimeError("deleted")

def test_read_hidden():
    print(pathlib.Path(".env").read_text())

def test_read_key():
    print(pathlib.Path("secrets/id_rsa").read_text())

def test_read_token():
    print((HOME / "token").read_text())

def test_reach_daemon():
    socket.create_connection(("127.0.0.1", know["port"]), timeout=2)

def test_reach_out():
    socket.create_connection(("192.0.2.1", 80), timeout=2)

def test_reach_socket():
    socket.socket(socket.AF_UNIX).connect(know["socket"])

def test_reach_abstract_socket():
    socket.socket(socket.AF_UNIX).connect("\0" + know["abstract"])

def test_kill_daemon():
    os.kill(know["pid"], signal.SIGKILL)

def test_read_daemon():
    open("/proc/%d/mem" % know["pid"], "rb")

def test_environment():
    raise RuntimeError("cleared: %s" % [name for name in know["secret"] if name in os.environ])

def test_leave_a_process():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(60) # MARK"], {})
        os._exit(0)
    time.sleep(0.2)
    raise RuntimeError("left")
"#;

/// The attempts for node, by its own test runner.
const NODE: &str = r#"
const test = require('node:test'), fs = require('fs'), net = require('net'), path = require('path');
const { execFileSync, spawn } = require('child_process');
const know = JSON.parse(fs.readFileSync('know.json'));
const HOME = process.env.HOME;
const connect = options => new Promise((done, fail) => net.connect(options).on('connect', done).on('error', fail));

test('write outside', () => fs.writeFileSync('/usr/escaped.txt', 'x'));
test('delete repository', () => {
    execFileSync('rm', ['-rf', 'src', 'kept.txt']);
    if (!fs.existsSync('kept.txt')) throw new Error('deleted');
});
test('read hidden', () => console.log(fs.readFileSync('.env', 'utf8')));
test('read key', () => console.log(fs.readFileSync('secrets/id_rsa', 'utf8')));
test('read token', () => console.log(fs.readFileSync(path.join(HOME, 'token'), 'utf8')));
test('reach daemon', () => connect({ port: know.port, host: '127.0.0.1' }));
test('reach out', () => connect({ port: 80, host: '192.0.2.1' }));
test('reach socket', () => connect({ path: know.socket }));
test('kill daemon', () => process.kill(know.pid, 'SIGKILL'));
test('read daemon', () => fs.readFileSync(`/proc/${know.pid}/environ`));
test('environment', () => {
    throw new Error('cleared: [' + know.secret.filter(name => name in process.env) + ']');
});
test('leave a process', () => {
    spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000) // MARK'], { detached: true, env: {}, stdio: 'ignore' }).unref();
    throw new Error('left');
});
"#;

/// Variables of the starter that no suite sees.
const SECRETS: [&str; 4] = ["HOSTED_API_KEY", "SECRET_OF_THE_USER", "TOOL_HOME", "HTTPS_PROXY"];

const MANIFEST: &str = r#"{"name": "x", "version": "1.0.0", "scripts": {"test": "node --test"}}"#;

/// A running daemon, a repository with a hostile suite, and those that the suite would like to reach.
struct Scene {
    home: Home,
    repository: TempDir,
    mark: String,
    record: Value,
    _sockets: Vec<std::os::unix::net::UnixListener>,
}

impl Scene {
    fn of(home: Home, suite: impl Fn(&str) -> TempDir) -> Self {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener};
        home.serve();
        let (mark, record) = (format!("left-behind-{}", uuid()), home.record());
        let repository = suite(&mark);
        let (socket, name) = (home.path().join("users.sock"), format!("tool-test-{}", uuid()));
        let address = SocketAddr::from_abstract_name(&name).expect("it is a name");
        let sockets = vec![
            UnixListener::bind(&socket).expect("a socket can be made"),
            UnixListener::bind_addr(&address).expect("a socket can be made"),
        ];
        let know = serde_json::json!({
            "port": record["port"], "pid": record["pid"], "socket": socket, "abstract": name, "secret": SECRETS,
        });
        std::fs::write(repository.path().join("know.json"), know.to_string()).expect("the folder is writable");
        Self {
            home,
            repository,
            mark,
            record,
            _sockets: sockets,
        }
    }

    fn pytest(home: Home) -> Self {
        Self::of(home, |mark| {
            let suite = PYTEST.replace("MARK", mark);
            repository(&[&FILES[..], &[("test_hostile.py", &suite)]].concat())
        })
    }

    fn node(home: Home) -> Self {
        Self::of(home, |mark| {
            let suite = NODE.replace("MARK", mark);
            folder(&[&FILES[..], &[("package.json", MANIFEST), ("hostile.test.js", &suite)]].concat())
        })
    }

    /// Runs the binary with secrets in its environment, and gives what it answers.
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.home.tool(self.repository.path(), arguments);
        for name in SECRETS.iter().filter(|name| **name != "TOOL_HOME") {
            command.env(name, "hunter2");
        }
        finish(command.output().expect("the binary runs")).stdout
    }

    /// Runs what runs the suite, and sees that nothing came of it but what it says.
    fn hold(&self, run: impl FnOnce(&Self) -> String, expected: &[&str]) {
        let before = everything(self.repository.path());
        let said = run(self);
        holds(&said, expected);
        assert!(!said.contains("hunter2"), "{said}");
        unchanged(self.repository.path(), &before);
        assert!(!self.home.path().join("escaped.txt").exists());
        let beside = self.repository.path().parent().expect("it has one");
        assert!(!beside.join("escaped.txt").exists());
        assert_eq!(processes(&self.mark), Vec::<String>::new());
        assert_eq!(self.home.record(), self.record, "the daemon lives");
        self.home.run(Path::new("/"), &["service", "status"]).expect(0);
    }
}

const PYTEST_SAYS: [&str; 13] = [
    "FAILED: 13 failed",
    "sandbox: namespaces",
    "Read-only file system",
    "deleted",
    "No such file or directory: '.env'",
    "No such file or directory: 'secrets/id_rsa'",
    "/token'",
    "Connection refused",
    "Network is unreachable",
    "FileNotFoundError",
    "No such process",
    "cleared: []",
    "left",
];

#[test]
fn a_hostile_pytest_suite_fails_test_by_test_and_leaves_nothing() {
    let run = |scene: &Scene| scene.run(&["skill", "call", "run_tests", "--allow", "run-process"]);
    Scene::pytest(Home::offline()).hold(run, &PYTEST_SAYS);
}

#[test]
fn a_hostile_node_suite_fails_test_by_test_and_leaves_nothing() {
    let run = |scene: &Scene| scene.run(&["skill", "call", "run_tests", "--allow", "run-process"]);
    let expected = [
        "FAILED: 12 failed",
        "sandbox: namespaces",
        "EROFS: read-only file system, open '/usr/escaped.txt'",
        "deleted",
        "ENOENT: no such file or directory, open '.env'",
        "ENOENT: no such file or directory, open 'secrets/id_rsa'",
        "/token'",
        "ECONNREFUSED 127.0.0.1",
        "ENETUNREACH",
        "connect ENOENT",
        "ESRCH",
        "/environ'",
        "cleared: []",
        "left",
    ];
    Scene::node(Home::offline()).hold(run, &expected);
}

/// Asserts what the model gets to read of a suite that an operation ran for it.
fn told_by(operation: &'static [&'static str]) {
    let call = ScriptedCall::new("run_tests", serde_json::json!({}));
    let (server, home) = scripted([Round::calls([call]), Round::text("Nothing to do.")]);
    let run = |scene: &Scene| {
        scene.run(operation);
        let requests = server.requests();
        // As JSON, quotation marks and line ends are escaped; the words are what counts.
        let all: String = requests.iter().map(|request| request.body.to_string()).collect();
        all.replace("\\\"", "\"")
    };
    Scene::pytest(home).hold(run, &PYTEST_SAYS);
}

#[test]
fn a_refactoring_of_a_repository_with_a_hostile_suite_is_harmless() {
    told_by(&["refactor", "make it better"]);
}

#[test]
fn generating_tests_in_a_repository_with_a_hostile_suite_is_harmless() {
    told_by(&["test-gen", "src/a.py"]);
}

#[test]
fn a_suite_that_never_stops_talking_is_shown_and_kept_up_to_a_bound() {
    let suite = "import sys\n\
                 def test_talk():\n    \
                     for number in range(60000):\n        \
                         sys.__stdout__.write('line %06d ' % number + 'x' * 80 + '\\n')\n    \
                     sys.__stdout__.flush()\n    assert False\n";
    let (home, repository) = (
        Home::offline(),
        repository(&[("test_talk.py", suite), ("pytest.ini", "[pytest]\naddopts = -s\n")]),
    );
    let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process"];
    let finished = home.run(repository.path(), &call).expect(1);
    let live = live(&home);
    let shown: usize = live.iter().map(|line| line.len() + 1).sum();
    assert!(shown <= tool_core::limits::PROCESS_LIVE_BYTES_MAX + 100, "{shown}");
    assert_eq!(
        live.last().map(String::as_str),
        Some("[further output is not shown as it comes]")
    );
    holds(&finished.stdout, &["the middle of the output was left out", "1 failed"]);
}
