//! The sandbox around test runs: attempts to get out by name, test suites that behave badly, and those that do not.

mod escapes;
mod hooks;
mod hostile;
mod limits;
mod starts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tool_model_server::{Round, ScriptedCall};
use tool_skill::Limits;

use crate::providers::scripted;
use crate::support::{Finished, Home, finish, fixture_path, folder, git, holds, say, until};

/// A repository with these files, and a Python with pytest for its tests.
pub(crate) fn repository(files: &[(&str, &str)]) -> TempDir {
    let repository = folder(files);
    let environment = fixture_path("click-8.1.8").join(".venv");
    std::os::unix::fs::symlink(environment, repository.path().join(".venv")).expect("links can be made");
    repository
}

fn run_tests(home: &Home, repository: &Path, arguments: &str) -> Finished {
    let call = [
        "skill",
        "call",
        "run_tests",
        arguments,
        "--allow",
        "run-process",
        "--quiet",
    ];
    home.run(repository, &call)
}

/// Kind and mode, inode, time and content of an entry.
pub(crate) type Entry = (u32, u64, i64, Vec<u8>);

/// Every entry of a tree.
pub(crate) fn everything(root: &Path) -> BTreeMap<PathBuf, Entry> {
    use std::os::unix::fs::MetadataExt;
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            let metadata = std::fs::symlink_metadata(&path).expect("it is there");
            let content = if metadata.is_file() {
                std::fs::read(&path).expect("it can be read")
            } else {
                Vec::new()
            };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, (metadata.mode(), metadata.ino(), metadata.mtime_nsec(), content));
        }
    }
    found
}

/// Fails where anything but reports differs from before, in kind, mode, inode, time or content.
#[track_caller]
pub(crate) fn unchanged(root: &Path, before: &BTreeMap<PathBuf, Entry>) {
    let mut after = everything(root);
    after.retain(|path, _| !path.starts_with(root.join("session-reports")));
    let all: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed: Vec<_> = all
        .into_iter()
        .filter(|path| before.get(*path) != after.get(*path))
        .collect();
    assert!(changed.is_empty(), "{changed:?}");
}

/// Returns the live output of the last session's runs.
pub(crate) fn live(home: &Home) -> Vec<String> {
    let sessions = std::fs::read_dir(home.path().join("sessions")).expect("there is one");
    let newest = sessions
        .flatten()
        .map(|entry| entry.path())
        .max()
        .expect("there is one");
    let journal = std::fs::read_to_string(newest.join("journal.jsonl")).expect("it is written");
    let line = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).ok()?;
        entry["entry"]["event"]["line"].as_str().map(str::to_owned)
    };
    journal.lines().filter_map(line).collect()
}

/// Processes whose command line holds this.
pub(crate) fn processes(mark: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(mark)).collect()
}

#[test]
fn a_suite_that_does_not_end_is_ended_with_everything_it_started() {
    let mark = format!("endless-{}", uuid());
    let (home, repository) = (Home::offline(), repository(&[("test_endless.py", &endless(&mark))]));
    let started = Instant::now();
    let finished = run_tests(&home, repository.path(), r#"{"timeout_seconds": 2}"#).expect(1);
    holds(&finished.stdout, &["sandbox: namespaces"]);
    holds(&finished.stdout.to_lowercase(), &["time"]);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(processes(&mark), Vec::<String>::new());
}

/// A suite that says when it runs and then goes on for a minute, in several processes that have little in common.
fn endless(mark: &str) -> String {
    format!(
        "import os, signal, subprocess, sys, time\n\
         def test_endless():\n    \
             signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    \
             code = 'import os, time; os.setsid(); time.sleep(60) # {mark}'\n    \
             subprocess.Popen([sys.executable, '-c', code], env={{}})\n    \
             time.sleep(60) # {mark}\n"
    )
}

/// A run of an endless suite, and the mark of what it has started inside.
fn start_endless(home: &Home) -> (TempDir, std::process::Child, String) {
    let mark = format!("endless-{}", uuid());
    let repository = repository(&[("test_endless.py", &endless(&mark))]);
    let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process"];
    let mut command = home.tool(repository.path(), &call);
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let child = command.spawn().expect("the binary runs");
    until("the suite runs", || !processes(&mark).is_empty());
    (repository, child, mark)
}

#[test]
fn nothing_outlives_a_daemon_that_is_killed() {
    let home = Home::offline();
    home.serve();
    let (_repository, mut child, mark) = start_endless(&home);
    let pid = home.record()["pid"].as_i64().expect("a process");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process")).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is ours");
    until("everything is gone", || processes(&mark).is_empty());
    child.wait().expect("it ends as well");
}

/// Without a sandbox nothing of the kernel ties a run to its daemon; the next one ends the rest of the run.
#[test]
fn what_a_killed_daemon_left_without_a_sandbox_ends_with_the_next_start() {
    let (home, other) = (Home::offline(), Home::offline());
    home.serve();
    let suite = "import time\ndef test_endless():\n    open('running', 'w')\n    time.sleep(60)\n";
    let repository = repository(&[("test_endless.py", suite)]);
    let call = [
        "skill",
        "call",
        "run_tests",
        "{}",
        "--allow",
        "run-process",
        "--unsandboxed",
    ];
    let mut command = home.tool(repository.path(), &call);
    let command = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("the binary runs");
    let daemon = home.record()["pid"].clone();
    let runs = || runs_of(&daemon.to_string());
    until("the suite runs", || repository.path().join("running").exists());
    other.serve();
    assert!(!runs().is_empty(), "a run whose daemon lives is let alone");
    rustix::process::kill_process(home.pid(), rustix::process::Signal::KILL).expect("it is ours");
    child.wait().expect("it ends as well");
    // Any backend of the user that starts meanwhile may have done so already.
    home.serve();
    until("it is gone", || runs().is_empty());
}

/// The processes of runs that a daemon has started.
fn runs_of(daemon: &str) -> Vec<String> {
    let mark = format!("TOOL_RUN={daemon}-");
    let entries = std::fs::read_dir("/proc").expect("it can be listed").flatten();
    let is_marked = |place: &Path| {
        let environment = std::fs::read(place.join("environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|variable| variable.starts_with(mark.as_bytes()))
    };
    let marked = entries.filter(|entry| is_marked(&entry.path()));
    marked
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_cancelled_run_is_gone_with_everything_it_started() {
    let home = Home::offline();
    home.serve();
    let (_repository, mut child, mark) = start_endless(&home);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    let time = until("everything is gone", || processes(&mark).is_empty());
    child.wait().expect("it ends as well");
    say(&format!("a cancelled run is gone after {time:.0?}"));
}

/// Calls of `run_tests` in the background, each in a session of its own.
fn start_suites(home: &Home, repository: &Path, count: usize) -> Vec<std::process::Child> {
    let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process", "--quiet"];
    let start = |_| {
        let mut command = home.tool(repository, &call);
        command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped());
        command.spawn().expect("the binary runs")
    };
    (0..count).map(start).collect()
}

#[test]
fn test_runs_keep_no_call_waiting() {
    const LIMITS: Limits = Limits::DEFAULT;
    const {
        assert!(
            LIMITS.runs_concurrent >= LIMITS.calls_concurrent,
            "as many runs as there are turns"
        )
    };
    let mark = format!("endless-{}", uuid());
    let suite = format!(
        "import subprocess, sys\n\
         def test_endless():\n    \
             subprocess.run([sys.executable, '-c', 'import time; time.sleep(600) # {mark}'])\n"
    );
    let repository = repository(&[("test_endless.py", &suite), ("a.md", "hello\n")]);
    let home = Home::offline();
    home.serve();
    let read = || {
        let begun = Instant::now();
        let call = ["skill", "call", "read_file", r#"{"path": "a.md"}"#, "--quiet"];
        holds(&home.run(repository.path(), &call).expect(0).stdout, &["hello"]);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
    };
    let mut running = start_suites(&home, repository.path(), LIMITS.runs_concurrent);
    until("the suites run", || processes(&mark).len() == LIMITS.runs_concurrent);
    read();
    // One call too many waits for one of them to end; it gets an error.
    let mut waiting = start_suites(&home, repository.path(), LIMITS.runs_waiting + 1);
    let mut ended = None;
    let begun = Instant::now();
    while ended.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(30), "all of them wait");
        std::thread::sleep(Duration::from_millis(20));
        let mut one_by_one = waiting.iter_mut();
        ended = one_by_one.position(|child| child.try_wait().expect("it is ours").is_some());
    }
    let ended = waiting.remove(ended.expect("one has"));
    let ended = finish(ended.wait_with_output().expect("it has ended")).expect(1);
    holds(
        &ended.stderr,
        &["The skill `run_tests` ran nothing: too many test runs and installations are under way."],
    );
    read();
    assert_eq!(processes(&mark).len(), LIMITS.runs_concurrent);
    running.append(&mut waiting);
    for child in &running {
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    }
    for mut child in running {
        child.wait().expect("it ends as well");
    }
    until("everything is gone", || processes(&mark).is_empty());
}

#[test]
fn a_suite_that_forks_without_end_is_ended() {
    let suite = "import os, time\n\
                 def test_bomb():\n    \
                     for _ in range(5000):\n        \
                         if os.fork() == 0:\n            time.sleep(30)\n            os._exit(0)\n";
    let (home, repository) = (Home::offline(), repository(&[("test_bomb.py", suite)]));
    let finished = run_tests(&home, repository.path(), "{}");
    // The sandbox itself counts root's processes; for other users the kernel counts, and refuses the fork.
    let text = format!("{}{}", finished.stdout, finished.stderr);
    let is_held = text.contains("more than 2048 processes and threads") || text.contains("BlockingIOError");
    assert!(is_held, "{text}");
}

/// Writes to a place until it is full, and fails as any program does there.
fn fill(place: &str) -> String {
    format!(
        "import os\n\n\ndef test_fill():\n    with open({place:?}, 'wb') as file:\n        \
         os.posix_fallocate(file.fileno(), 0, 1 << 29)\n        while True:\n            file.write(bytes(1 << 20))\n"
    )
}

#[test]
fn a_file_system_that_is_full_is_the_reason_and_no_failing_test() {
    for place in ["/tmp/fill", "/dev/shm/fill", "fill"] {
        let (home, repository) = (Home::offline(), repository(&[("test_fill.py", &fill(place))]));
        let finished = run_tests(&home, repository.path(), "{}").expect(1);
        holds(
            &finished.stderr,
            &["The run was ended: the files that it wrote do not fit"],
        );
    }
}

#[test]
fn an_honest_suite_notices_nothing() {
    let suite = r#"
import http.server, multiprocessing, os, pathlib, shutil, socket, sqlite3, subprocess, sys, tempfile, threading
import urllib.request

def square(x):
    return x * x

def test_workers():
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(square, range(4)) == [0, 1, 4, 9]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(square, [3]) == [9]

def test_shared_memory():
    import mmap
    from multiprocessing import Array, shared_memory
    mmap.mmap(-1, 1 << 20).write(b"x")
    assert Array("i", [1, 2])[1] == 2
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.buf[0] = 7
    block.close()
    block.unlink()

def test_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "http://localhost:%d/data.txt" % server.server_port
    assert urllib.request.urlopen(url).read() == b"data\n"
    server.shutdown()

def test_unix_socket(tmp_path):
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        client.connect(str(tmp_path / "socket"))

def test_files(tmp_path):
    assert os.getcwd() == os.path.dirname(os.path.abspath(__file__))
    shutil.rmtree("build")
    pathlib.Path("build").mkdir()
    assert os.listdir("build") == []
    pathlib.Path("build/out.txt").write_text("out")
    shutil.move("moved", "build/moved")
    assert pathlib.Path("build/moved/in.txt").read_text() == "in\n"
    pathlib.Path("data.txt").write_text("changed")
    (pathlib.Path.home() / ".cache").mkdir()
    tempfile.NamedTemporaryFile().write(b"x")
    (tmp_path / "a").symlink_to("b")
    sqlite3.connect("x.db").execute("create table t(x)")

def test_programs():
    answer = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True)
    assert answer.stdout == "1\n"
    assert subprocess.run("git --version && id -un", shell=True).returncode == 0

def test_machine():
    import getpass, pwd
    assert os.cpu_count() > 0 and pwd.getpwuid(os.getuid()).pw_name
    assert socket.gethostbyname(socket.gethostname()) == "127.0.0.1"
    assert os.environ["HOME"] == str(pathlib.Path.home())
"#;
    let files = [
        ("test_honest.py", suite),
        ("data.txt", "data\n"),
        ("build/old.txt", "old\n"),
        ("moved/in.txt", "in\n"),
    ];
    let (home, repository) = (Home::offline(), repository(&files));
    let before = everything(repository.path());
    let text = run_tests(&home, repository.path(), "{}").expect(0).stdout;
    holds(&text, &["PASSED: 7 passed", "exit status 0; sandbox: namespaces"]);
    assert_eq!(everything(repository.path()), before);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a shell leaves the handle open")]
fn a_run_has_no_handle_that_the_starter_of_the_backend_left_open() {
    let suite = "
import os

def test_handles():
    for handle in os.listdir('/proc/self/fd'):
        try:
            assert 'left-open' not in os.readlink('/proc/self/fd/' + handle)
        except FileNotFoundError:
            pass
";
    let (home, repository) = (Home::offline(), repository(&[("test_handles.py", suite)]));
    let place = home.path().join("left-open");
    std::fs::write(&place, "secret").expect("it can be written");
    let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process", "--quiet"];
    let tool = home.tool(repository.path(), &call);
    // The backend starts with this call, and inherits what the shell has open.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 9<\"$0\"; exec \"$@\""]).arg(&place);
    shell.arg(tool.get_program()).args(tool.get_args());
    shell.env_clear().current_dir(repository.path());
    shell.envs(tool.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let finished = finish(shell.output().expect("there is a shell"));
    holds(&finished.expect(0).stdout, &["PASSED: 1 passed"]);
}

#[test]
fn a_tracked_link_shows_no_environment_and_a_link_of_the_users_does() {
    let repository = repository(&[("test_one.py", "def test_one():\n    pass\n")]);
    let root = repository.path();
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "."],
        &["commit", "--quiet", "-m", "a"],
    ] {
        git(root, arguments);
    }
    let home = Home::offline();
    let text = run_tests(&home, root, "{}");
    assert!(!text.stdout.contains("1 passed"), "{}", text.stdout);
    git(root, &["rm", "--cached", "--quiet", ".venv"]);
    holds(&run_tests(&home, root, "{}").expect(0).stdout, &["PASSED: 1 passed"]);
}

#[test]
fn node_tests_run_inside() {
    let script = r#"
const test = require('node:test'), assert = require('assert'), fs = require('fs'), http = require('http');
test('server', async () => {
    const server = http.createServer((_, answer) => answer.end('ok')).listen(0, '127.0.0.1');
    await new Promise(done => server.on('listening', done));
    const answer = await fetch('http://127.0.0.1:' + server.address().port);
    assert.equal(await answer.text(), 'ok');
    server.close();
});
test('pools', async () => {
    const { Worker } = require('worker_threads'), { fork } = require('child_process');
    const code = 'const { workerData, parentPort } = require("worker_threads");'
        + 'Atomics.add(new Int32Array(workerData), 0, 1); parentPort.postMessage(1)';
    const shared = new SharedArrayBuffer(4);
    const workers = [1, 2, 3].map(() => new Worker(code, { eval: true, workerData: shared }));
    await Promise.all(workers.map(worker => new Promise(done => worker.on('exit', done))));
    assert.equal(new Int32Array(shared)[0], 3);
    fs.writeFileSync('/tmp/child.js', 'process.on("message", text => { process.send(text); process.disconnect(); })');
    const child = fork('/tmp/child.js');
    child.send('ok');
    assert.equal(await new Promise(done => child.on('message', done)), 'ok');
});
test('hidden', () => assert.throws(() => fs.readFileSync('.env'), { code: 'ENOENT' }));
test('outside', () => assert.throws(() => fs.writeFileSync('/usr/escaped', ''), { code: 'EROFS' }));
test('devices', () => assert.ok(require('os').networkInterfaces().lo));
test('write', () => { fs.mkdirSync('out'); fs.writeFileSync('out/x', '1'); fs.rmSync('out', { recursive: true }); });
"#;
    let files = [
        (
            "package.json",
            r#"{"name": "x", "version": "1.0.0", "scripts": {"test": "node --test"}}"#,
        ),
        ("a.test.js", script),
        (".env", "KEY=hunter2\n"),
    ];
    let (home, repository) = (Home::offline(), folder(&files));
    let before = everything(repository.path());
    let text = run_tests(&home, repository.path(), "{}").expect(0).stdout;
    holds(&text, &["PASSED: 6 passed", "sandbox: namespaces"]);
    assert_eq!(everything(repository.path()), before);
}

/// The binary where the kernel gives no more namespaces, as in some containers.
pub(crate) fn without_namespaces(home: &Home, repository: &Path, arguments: &[&str]) -> Finished {
    let command = home.tool(repository, arguments);
    #[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
    let mut outer = Command::new("unshare");
    outer
        .args(["--user", "--map-root-user", "sh", "-c"])
        .arg("echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"")
        .arg("sh")
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(repository)
        .env_clear();
    for (name, value) in command.get_envs() {
        outer.env(name, value.unwrap_or_default());
    }
    finish(outer.output().expect("unshare is there"))
}

#[test]
fn without_namespaces_a_copy_of_the_tree_is_tested_and_everybody_is_told() {
    let suite = "import os, pathlib, pytest, socket\n\
                 def test_copy():\n    \
                     pathlib.Path('new.txt').write_text('x')\n    \
                     os.remove('kept.txt')\n\
                 def test_hidden():\n    \
                     assert not os.path.exists('.env')\n\
                 def test_outside():\n    \
                     with pytest.raises(PermissionError):\n        \
                         os.listdir('/home')\n    \
                     with pytest.raises(PermissionError):\n        \
                         os.listdir('venv/home')\n\
                 def test_network():\n    \
                     with pytest.raises(OSError):\n        \
                         socket.socket()\n";
    let files = [
        ("test_copy.py", suite),
        ("kept.txt", "kept\n"),
        (".env", "KEY=hunter2\n"),
    ];
    let (home, repository) = (Home::offline(), repository(&files));
    std::os::unix::fs::symlink("/", repository.path().join("venv")).expect("links can be made");
    let before = everything(repository.path());
    let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process"];
    let finished = without_namespaces(&home, repository.path(), &call).expect(0);
    let line = "sandbox: landlock (a copy of the repository, and no network at all)";
    holds(&finished.stdout, &["PASSED: 4 passed", line]);
    assert_eq!(everything(repository.path()), before);

    let required = [&call[..], &["--require-sandbox"]].concat();
    let refused = without_namespaces(&home, repository.path(), &required).expect(1);
    holds(
        &refused.stderr,
        &[
            "[error] A full sandbox is required",
            "namespaces: ",
            "hint: `--deny run-process`",
        ],
    );
    without_namespaces(&home, repository.path(), &["service", "stop"]).expect(0);
}

/// Its copy of the repository may be large, and it may have made it hard to remove.
#[test]
fn in_the_fallback_a_suite_that_is_stopped_leaves_nothing_behind() {
    let mark = format!("endless-{}", uuid());
    let suite = "import os, subprocess, time\n\
                 def test_endless():\n    \
                     spin = ['/usr/bin/nice', '-n', '19', '/bin/sh', '-c', 'while :; do :; done # MARK']\n    \
                     for _ in range(100):\n        \
                         subprocess.Popen(spin, env={}, start_new_session=True)\n    \
                     for _ in range(5000):\n        \
                         os.mkdir('d')\n        \
                         os.chdir('d')\n    \
                     open('f', 'w').close()\n    \
                     os.chmod('.', 0)\n    \
                     time.sleep(60)\n";
    let suite = suite.replace("MARK", &mark);
    let (home, repository) = (Home::offline(), repository(&[("test_endless.py", &suite)]));
    let arguments = r#"{"timeout_seconds": 3}"#;
    let call = ["skill", "call", "run_tests", arguments, "--allow", "run-process"];
    let finished = without_namespaces(&home, repository.path(), &call).expect(1);
    holds(&finished.stdout, &["sandbox: landlock"]);
    holds(&finished.stdout.to_lowercase(), &["time"]);
    assert_eq!(processes(&mark), Vec::<String>::new());
    let left = || std::fs::read_dir(home.path().join("tmp")).expect("it is there").count();
    until("its copy is removed", || left() == 0);
    without_namespaces(&home, repository.path(), &["service", "stop"]).expect(0);
}

/// Landlock does not see these calls, and a filter does not see whose file they name.
#[test]
fn in_the_fallback_no_mode_and_no_time_is_changed_and_tools_that_copy_work() {
    let suite = r##"
import os, pathlib, shutil, stat, subprocess

def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)

def test_modes_and_times():
    before = os.stat("kept.txt")
    os.chmod("kept.txt", 0o600)
    os.utime("kept.txt", (1, 2))
    with open("kept.txt") as file:
        os.fchmod(file.fileno(), 0o600)
    after = os.stat("kept.txt")
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    os.chown("kept.txt", os.getuid(), -1)

def test_tools(tmp_path):
    shutil.copytree("sub", tmp_path / "copied")
    assert (tmp_path / "copied/inner.txt").read_text() == "inner\n"
    pathlib.Path("fresh.txt").touch()
    line = "touch a && cp -a a b && install -m 700 a c && git init --quiet . && mkdir -m 700 d"
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)

def test_programs_that_are_made_executable_as_they_are_created(tmp_path):
    handle = os.open(tmp_path / "run.sh", os.O_WRONLY | os.O_CREAT, 0o700)
    os.write(handle, b"#!/bin/sh\necho ran\n")
    os.close(handle)
    assert subprocess.run([tmp_path / "run.sh"], capture_output=True).stdout == b"ran\n"

def test_others():
    paths = ["/usr", os.path.realpath(".venv"), os.path.dirname(os.path.dirname(os.getcwd())), "/proc/version"]
    for path in paths:
        before = os.stat(path)
        os.chmod(path, 0o755)
        os.utime(path)
        after = os.stat(path)
        assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
"##;
    let files = [
        ("test_files.py", suite),
        ("kept.txt", "kept\n"),
        ("sub/inner.txt", "inner\n"),
    ];
    let (home, repository) = (Home::offline(), repository(&files));
    let before = everything(repository.path());
    let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process"];
    let finished = without_namespaces(&home, repository.path(), &call).expect(0);
    holds(&finished.stdout, &["PASSED: 4 passed", "sandbox: landlock"]);
    assert_eq!(everything(repository.path()), before);
    without_namespaces(&home, repository.path(), &["service", "stop"]).expect(0);
}

#[test]
fn to_go_without_a_sandbox_takes_two_words() {
    let (home, repository) = (
        Home::offline(),
        repository(&[("test_a.py", "def test_a():\n    pass\n")]),
    );
    let call = ["skill", "call", "run_tests"];
    let refused = home
        .run(repository.path(), &[&call[..], &["--unsandboxed"]].concat())
        .expect(2);
    holds(
        &refused.stderr,
        &["`--unsandboxed` alone grants nothing", "--allow run-process"],
    );
    let both = ["--allow", "run-process", "--unsandboxed"];
    let text = home
        .run(repository.path(), &[&call[..], &both].concat())
        .expect(0)
        .stdout;
    holds(&text, &["PASSED: 1 passed", "sandbox: none"]);
    let contradiction = ["--allow", "run-process", "--unsandboxed", "--require-sandbox"];
    home.run(repository.path(), &[&call[..], &contradiction].concat())
        .expect(2);
}

#[test]
fn a_configuration_may_require_the_sandbox() {
    let home = Home::configured(
        "[providers.local]\nenabled = true\nurl = \"builtin:analyst\"\n\n[policy]\nrequire_sandbox = true\n",
    );
    let repository = repository(&[("test_a.py", "def test_a():\n    pass\n")]);
    let text = run_tests(&home, repository.path(), "{}").expect(0).stdout;
    holds(&text, &["sandbox: namespaces"]);
    let call = [
        "skill",
        "call",
        "run_tests",
        "{}",
        "--allow",
        "run-process",
        "--unsandboxed",
    ];
    let refused = home.run(repository.path(), &call).expect(2);
    holds(&refused.stderr, &["A sandbox is required and refused at the same time"]);
}

#[test]
fn a_refactoring_runs_the_tests_without_asking() {
    let call = ScriptedCall::new("run_tests", serde_json::json!({}));
    let (server, home) = scripted([Round::calls([call]), Round::text("Nothing to do: the tests pass.")]);
    let repository = repository(&[("a.py", "x = 1\n"), ("test_a.py", "def test_a():\n    pass\n")]);
    home.run(repository.path(), &["refactor", "make it better"]);
    let requests = server.requests();
    let answer = requests.last().expect("the model was told").body.to_string();
    holds(&answer, &["PASSED: 1 passed", "sandbox: namespaces"]);
}

pub(crate) fn uuid() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!(
        "{}-{}",
        std::process::id(),
        since.expect("the clock is right").as_nanos()
    )
}
