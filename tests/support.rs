//! A user with a home of their own: the real binary, a daemon on a free port, and both gone when the test ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tempfile::TempDir;

/// A temporary `TOOL_HOME` whose daemon, where one was started, is stopped when this is dropped.
pub(crate) struct Home {
    folder: TempDir,
}

/// A process that is told of homes, and stops their daemons and deletes them when the pipe closes: a test run that is
/// killed drops nothing, and the kernel closes its pipes all the same.
#[expect(clippy::disallowed_methods, reason = "it outlives the tests")]
pub(crate) fn stopper() -> (Child, ChildStdin) {
    let script = "homes=; while read -r home; do homes=\"$homes $home\"; done
        for home in $homes; do
            [ ! -e \"$home/backend.json\" ] || TOOL_HOME=$home \"$0\" service stop
            rm -rf \"$home\"
        done";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tool")]);
    command.env_remove("TOOL_BACKEND_PORT").current_dir("/");
    // A key or a signal that ends the process group of the tests does not end it.
    command.process_group(0);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("there is a shell");
    let pipe = child.stdin.take().expect("it is piped");
    (child, pipe)
}

/// Result of a finished command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Fails the test with everything the command said, unless it ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

impl Home {
    /// A home without a configuration.
    pub(crate) fn empty() -> Self {
        static STOPPER: OnceLock<Mutex<ChildStdin>> = OnceLock::new();
        let folder = TempDir::new().expect("a temporary folder");
        let stopper = STOPPER.get_or_init(|| Mutex::new(stopper().1));
        let mut stopper = stopper.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(stopper, "{}", folder.path().display()).expect("it reads until this process ends");
        Self { folder }
    }

    /// A home that uses the embedded analyst.
    pub(crate) fn offline() -> Self {
        let home = Self::empty();
        home.run(Path::new("/"), &["init", "--offline"]).expect(0);
        home
    }

    /// A home with this configuration.
    pub(crate) fn configured(config: &str) -> Self {
        let home = Self::empty();
        std::fs::write(home.path().join("config.toml"), config).expect("the folder is writable");
        home
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The binary, with this home, a free port and nothing else of the environment that could matter. It runs as the
    /// user whose home this is: root may have given it away, perhaps with a copy of the binary that they can run.
    #[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
    pub(crate) fn tool(&self, directory: &Path, arguments: &[&str]) -> Command {
        let copy = self.path().join("tool");
        let program = if copy.exists() {
            copy
        } else {
            PathBuf::from(env!("CARGO_BIN_EXE_tool"))
        };
        let mut command = Command::new(program);
        let owner = std::fs::metadata(self.path()).map_or(0, |home| home.uid());
        if rustix::process::geteuid().is_root() && owner != 0 {
            command.uid(owner).gid(owner);
        }
        command
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("TOOL_HOME", self.path())
            .env("TOOL_BACKEND_PORT", "0")
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, directory: &Path, arguments: &[&str]) -> Finished {
        finish(self.tool(directory, arguments).output().expect("the binary runs"))
    }

    /// Starts the daemon and gives its address, `http://127.0.0.1:PORT`.
    pub(crate) fn serve(&self) -> String {
        self.run(Path::new("/"), &["service", "start"]).expect(0);
        format!("http://127.0.0.1:{}", self.record()["port"])
    }

    /// Starts the daemon with more in its environment than a client gives it, and gives its address.
    pub(crate) fn serve_with(&self, variables: &[(&str, &str)]) -> String {
        let mut command = self.tool(Path::new("/"), &["__daemon", "--port", "0"]);
        let command = command.envs(variables.iter().copied()).stdout(Stdio::piped());
        let mut daemon = command.stderr(Stdio::null()).spawn().expect("the binary runs");
        let stdout = BufReader::new(daemon.stdout.take().expect("it is piped"));
        let said: Vec<String> = stdout
            .lines()
            .take(2)
            .map(|line| line.expect("it says how it is"))
            .collect();
        assert!(said[0] == "\"recovering\"" && said[1].contains("\"ready\""), "{said:?}");
        // The home stops it when the test ends; a thread has to wait for it then.
        std::thread::spawn(move || daemon.wait());
        format!("http://127.0.0.1:{}", self.record()["port"])
    }

    /// The process id of the daemon.
    pub(crate) fn pid(&self) -> Pid {
        let pid = self.record()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).expect("a process id")
    }

    /// The content of `backend.json`.
    pub(crate) fn record(&self) -> serde_json::Value {
        let text = std::fs::read(self.path().join("backend.json")).expect("the daemon has said where it is");
        serde_json::from_slice(&text).expect("the record is JSON")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A test that has failed should say its own failure, not this one's.
        let _ = self.tool(Path::new("/"), &["service", "stop"]).output();
    }
}

/// True where the long forms run: `TOOL_TEST_FULL=1`, as `scripts/test --full` sets it.
#[expect(clippy::disallowed_methods, reason = "the one switch of the tests")]
pub(crate) fn full() -> bool {
    std::env::var_os("TOOL_TEST_FULL").is_some_and(|value| value == "1")
}

/// Prints a measured figure for a user who runs the tests with `--nocapture`.
#[expect(clippy::print_stderr, reason = "figures are for people")]
pub(crate) fn say(figure: &str) {
    eprintln!("{figure}");
}

/// A number that is another one in every run, or the one of `TOOL_TEST_SEED`: a test can draw the same numbers again.
#[expect(clippy::disallowed_methods, reason = "how a random failure is seen again")]
pub(crate) fn seed() -> u64 {
    let given = std::env::var("TOOL_TEST_SEED").ok();
    let drawn = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    given
        .map(|seed| seed.parse().expect("TOOL_TEST_SEED is a number"))
        .unwrap_or_else(|| drawn().map_or(1, |time| time.as_nanos() as u64))
}

/// Numbers that follow from a seed (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}

/// Path of a guest's component, as `scripts/build` made it.
pub(crate) fn guest(name: &str) -> PathBuf {
    let path = target().join("wasm32-wasip2/skill").join(format!("{name}.wasm"));
    assert!(
        path.exists(),
        "{} is missing: run scripts/build --tests",
        path.display()
    );
    path
}

/// Waits until something is so, longer than it can take on a busy machine. Gives how long it took.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

/// True while a process is there and has not ended.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

/// The output of a command as text.
pub(crate) fn finish(output: Output) -> Finished {
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (path, content) in files {
        let place = folder.path().join(path);
        std::fs::create_dir_all(place.parent().expect("a file has a parent")).expect("the folder is writable");
        std::fs::write(place, content).expect("the folder is writable");
    }
    folder
}

/// A pinned package that `scripts/fixtures` has unpacked, as a copy that a test may change. A missing fixture fails.
pub(crate) fn fixture(name: &str) -> TempDir {
    let source = fixture_path(name);
    let copy = TempDir::new().expect("a temporary folder");
    copy_tree(&source, copy.path());
    copy
}

/// The target folder: the binary lies in `target/PROFILE/tool`.
fn target() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_tool"));
    binary
        .ancestors()
        .nth(2)
        .expect("the binary lies in a profile's folder")
        .to_owned()
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("the fixture is readable") {
        let entry = entry.expect("the fixture is readable");
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("the fixture is readable");
        if kind.is_dir() {
            std::fs::create_dir(&target).expect("the folder is writable");
            copy_tree(&source, &target);
        } else if kind.is_symlink() {
            let link = std::fs::read_link(&source).expect("it is a link");
            std::os::unix::fs::symlink(link, target).expect("the folder is writable");
        } else {
            std::fs::copy(&source, target).expect("the folder is writable");
        }
    }
}

/// All citations `path:line` of a text.
pub(crate) fn citations(text: &str) -> Vec<(String, usize)> {
    let citation = regex::Regex::new(r"([A-Za-z0-9_][A-Za-z0-9_./-]*\.[A-Za-z0-9]+|Makefile|README|LICENSE):(\d+)")
        .expect("a constant");
    citation
        .captures_iter(text)
        .map(|found| (found[1].to_owned(), found[2].parse().expect("digits")))
        .collect()
}

/// Path of a package that `scripts/fixtures` has unpacked, to be read and not changed. A missing fixture fails.
pub(crate) fn fixture_path(name: &str) -> PathBuf {
    let source = target().join("fixtures").join(name);
    assert!(source.exists(), "{} is missing: run scripts/fixtures", source.display());
    source
}

/// Packages of the pinned Node.
pub(crate) fn node_packages() -> PathBuf {
    let packages = fixture_path("mcp-node").join("node_modules");
    let ready = packages.join("ready");
    assert!(ready.exists(), "{} is missing: run scripts/fixtures", ready.display());
    packages
}

/// The pinned Node, which is newer than a machine's may be.
pub(crate) fn node_program() -> PathBuf {
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    };
    node_packages().join(format!("node-linux-{architecture}/bin/node"))
}

/// Everything below a folder but reports: its mode, and its content or where it leads.
pub(crate) fn tree(root: &Path) -> std::collections::BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt;
    let mut tree = std::collections::BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            let metadata = std::fs::symlink_metadata(&path).expect("it is there");
            let relative = path.strip_prefix(root).expect("it lies below").to_owned();
            if relative == Path::new("session-reports") {
                continue;
            }
            let content = if metadata.is_dir() {
                todo.push(path);
                Vec::new()
            } else if metadata.is_symlink() {
                let link = std::fs::read_link(&path).expect("it is a link");
                link.as_os_str().as_bytes().to_vec()
            } else {
                std::fs::read(&path).expect("it is readable")
            };
            tree.insert(relative, (metadata.mode(), content));
        }
    }
    tree
}

/// Runs a program to its good end: what a user would have done before.
#[expect(clippy::disallowed_methods, reason = "the tests do what a user does")]
#[track_caller]
pub(crate) fn run(directory: &Path, program: &Path, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(directory).output();
    let said = finish(output.unwrap_or_else(|error| panic!("{}: {error}", program.display())));
    assert_eq!(said.code, 0, "{arguments:?}: {}{}", said.stdout, said.stderr);
}

/// The paths in which two trees differ.
pub(crate) fn differences(root: &Path, before: &std::collections::BTreeMap<PathBuf, (u32, Vec<u8>)>) -> Vec<PathBuf> {
    let now = tree(root);
    let paths: std::collections::BTreeSet<&PathBuf> = before.keys().chain(now.keys()).collect();
    paths
        .into_iter()
        .filter(|path| before.get(*path) != now.get(*path))
        .cloned()
        .collect()
}

/// Fails unless the text holds all parts.
#[track_caller]
pub(crate) fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
}

/// Runs git as Ada and gives what it prints; a failure fails the test.
#[expect(clippy::disallowed_methods, reason = "git makes the repositories of tests")]
pub(crate) fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(arguments)
        .current_dir(root)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
