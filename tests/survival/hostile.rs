//! Hostile repositories: each of the twelve skills and `tool context` ends within its limit on each of them, and a call in
//! another repository is answered meanwhile.
//!
//! The tests assert an order and not a time: the small call is answered before the calls in the hostile repository end, or
//! within a generous bound where they end at once. They report the times on standard error.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::kibibytes;
use crate::support::{Finished, Home, folder, full, git, say};

/// The longest time of a call: its own limit with a margin for a machine that does other things, too. Calls that run a
/// program have a longer limit, which no repository of this set needs.
const CALL_MAX: Duration = Duration::from_secs(60);

/// The longest time in which a call in another repository is answered. It takes some ten milliseconds on a free machine.
const OTHER_MAX: Duration = Duration::from_secs(15);

/// Memory that a daemon may have had after all repositories.
const MEMORY_KIB_MAX: u64 = 1024 * 1024;

fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().expect("it has a parent")).expect("folders can be made");
    fs::write(place, content).expect("files can be written");
}

/// Forty nested folders, each with an ignore file of 1 MiB, and a file above them.
fn nested_ignore_files(root: &Path) {
    let rules: String = (0..26_000).map(|number| format!("a*{number}b?c[de]*.py\n")).collect();
    write(root, "a.py", "def find():\n    return 1\n");
    let mut path = String::new();
    for _ in 0..40 {
        path.push_str("d/");
        write(root, &format!("{path}.gitignore"), &rules);
        write(root, &format!("{path}a.py"), "def find():\n    return 1\n");
    }
}

/// Ignore files of some kilobytes with nested braces.
fn nested_braces(root: &Path) {
    let nested = |depth: usize| format!("{}a{}\nb.py\n", "{".repeat(depth), "}".repeat(depth));
    write(root, ".gitignore", nested(2_000));
    write(root, ".git/info/exclude", nested(30_000));
    write(root, ".git/HEAD", "ref: refs/heads/main\n");
    for (place, depth) in [("d", 2_000), ("e", 8_500), ("f", 30_000)] {
        write(root, &format!("{place}/.gitignore"), nested(depth));
        write(root, &format!("{place}/.ignore"), nested(depth));
        write(root, &format!("{place}/a.py"), "def find():\n    return 1\n");
    }
    write(root, "a.py", "def find():\n    return 1\n");
}

/// Ignore files at the limit of each bound, and files that are matched against them.
fn costly_ignore_files(root: &Path) {
    let rules: String = (0..1_000).map(|number| format!("*a*b*{number}?*c*.py\n")).collect();
    for number in 0..16 {
        write(root, &format!("{}.gitignore", "d/".repeat(number)), &rules);
    }
    for number in 0..if full() { 500 } else { 50 } {
        write(
            root,
            &format!("{}{}{number}.py", "d/".repeat(15), "ab".repeat(60)),
            "x = 1\n",
        );
    }
}

fn many_entries(root: &Path) {
    let count = if full() { 200_000 } else { 20_000 };
    for number in 0..count {
        fs::File::create(root.join(format!("f{number}.py"))).expect("files can be made");
    }
}

fn many_manifests(root: &Path) {
    for number in 0..if full() { 10_000 } else { 2_000 } {
        let package = format!(r#"{{"name": "p{number}", "dependencies": {{"left-pad": "^1.{number}.0"}}}}"#);
        write(root, &format!("p{number}/package.json"), package);
    }
}

fn long_line(root: &Path) {
    write(root, "a.py", format!("x = '{}'\n", "a b".repeat(16 * 1024 * 1024 / 3)));
    write(
        root,
        "find.py",
        format!("def find():\n    return '{}'\n", "()".repeat(1024 * 1024)),
    );
    write(root, "app.log", "2024-01-01 ERROR x ".repeat(16 * 1024 * 1024 / 19));
}

fn deep_json(root: &Path) {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    write(root, "package.json", format!(r#"{{"dependencies": {deep}}}"#));
    write(root, "package-lock.json", &deep);
    write(root, "deep/package.json", "{\"a\":".repeat(200_000));
    write(root, "pyproject.toml", format!("x = {deep}\n"));
    write(root, "find.py", format!("def find():\n    return {deep}\n"));
}

fn cyclic_links(root: &Path) {
    write(root, "a.py", "def find():\n    return 1\n");
    for (target, name) in [
        ("b", "a"),
        ("a", "b"),
        (".", "here"),
        ("..", "up"),
        ("/", "top"),
        ("/dev/zero", "zero"),
    ] {
        symlink(target, root.join(name)).expect("links can be made");
    }
    for number in 0..100 {
        let place = root.join(format!("d{number}"));
        fs::create_dir(&place).expect("folders can be made");
        symlink("..", place.join("up")).expect("links can be made");
        symlink(format!("../d{}", (number + 1) % 100), place.join("next")).expect("links can be made");
    }
    // A file with two names makes the host look for a hidden one.
    fs::hard_link(root.join("a.py"), root.join("c.py")).expect("links can be made");
}

/// A call of each skill, with the effects that it must be granted.
fn calls() -> [(&'static str, Value, &'static [&'static str]); 12] {
    [
        ("list_files", json!({"recursive": true}), &[]),
        ("read_file", json!({"path": "a.py"}), &[]),
        ("search_code", json!({"pattern": "(a|b)+c.*find"}), &[]),
        ("find_references", json!({"symbol": "find"}), &[]),
        ("explain_function", json!({"name": "find"}), &[]),
        ("analyze_dependencies", json!({}), &[]),
        ("read_logs", json!({"path": "app.log"}), &[]),
        ("git_diff", json!({"untracked": true}), &["--allow", "read-git"]),
        (
            "write_file",
            json!({"path": "new.txt", "content": "x\n"}),
            &["--allow", "write-repository"],
        ),
        (
            "git_commit",
            json!({"message": "Add", "all": true}),
            &["--allow", "commit-git"],
        ),
        ("run_tests", json!({"timeout_seconds": 5}), &["--allow", "run-process"]),
        (
            "install_package",
            json!({"names": ["../x"], "manager": "pip"}),
            &["--allow", "install"],
        ),
    ]
}

/// A daemon that works in a hostile repository, and a small one beside it.
struct Scene {
    home: Home,
    hostile: TempDir,
    small: TempDir,
}

impl Scene {
    fn new(make: fn(&Path)) -> Self {
        let (home, hostile) = (Home::offline(), TempDir::new().expect("a temporary folder"));
        git(hostile.path(), &["init", "--quiet"]);
        git(hostile.path(), &["config", "user.name", "Ada"]);
        git(hostile.path(), &["config", "user.email", "ada@example.org"]);
        make(hostile.path());
        let small = folder(&[("a.py", "x = 1\n")]);
        let scene = Self { home, hostile, small };
        scene.home.serve();
        scene.ask_elsewhere();
        scene
    }

    /// Calls a skill in the small repository, and returns the time that it takes.
    fn ask_elsewhere(&self) -> Duration {
        let since = Instant::now();
        let arguments = ["skill", "call", "read_file", r#"{"path": "a.py"}"#];
        self.home.run(self.small.path(), &arguments).expect(0);
        since.elapsed()
    }

    /// Runs a command in the hostile repository while calls elsewhere are answered.
    fn run(&self, arguments: &[&str]) -> (Finished, Duration, Vec<Duration>) {
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let others = scope.spawn(|| {
                let mut times = vec![self.ask_elsewhere()];
                while !has_ended.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(100));
                    times.push(self.ask_elsewhere());
                }
                times
            });
            let since = Instant::now();
            let finished = self.home.run(self.hostile.path(), arguments);
            let took = since.elapsed();
            has_ended.store(true, Ordering::Relaxed);
            (finished, took, others.join().expect("the small repository is answered"))
        })
    }
}

#[track_caller]
fn survives(name: &str, make: fn(&Path)) {
    let scene = Scene::new(make);
    let context = ["context", "explain", "--json"].map(str::to_owned).to_vec();
    let calls = calls().map(|(skill, arguments, flags)| {
        let mut line = vec![
            "skill".to_owned(),
            "call".to_owned(),
            skill.to_owned(),
            arguments.to_string(),
        ];
        line.extend(flags.iter().map(|&flag| flag.to_owned()));
        line
    });
    let mut report = Vec::new();
    for line in std::iter::once(context).chain(calls) {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let (finished, took, others) = scene.run(&line);
        let what = if line[0] == "context" { line[0] } else { line[2] };
        // The call worked, or its error has a clear reason: no crash, no panic and no internal error.
        let is_clear = finished.code == 0 || (matches!(finished.code, 1 | 2) && finished.stderr.contains("[error] "));
        let is_ours = ["crashed", "panicked", "internal"]
            .iter()
            .any(|word| finished.stderr.contains(word));
        assert!(is_clear && !is_ours, "{name}, {what}: {finished:?}");
        assert!(took < CALL_MAX, "{name}, {what} took {took:.1?}");
        let slowest = others.into_iter().max().expect("there was one");
        assert!(
            slowest < OTHER_MAX,
            "{name}, {what}: another repository waited {slowest:.1?}"
        );
        report.push(format!("{what} {took:.1?} ({slowest:.1?})"));
    }
    let memory = kibibytes(scene.home.pid(), "VmHWM:");
    assert!(memory < MEMORY_KIB_MAX, "{name}: {memory} KiB");
    say(&format!("{name}: {}; {} MiB at most", report.join(", "), memory / 1024));
}

#[test]
fn nested_ignore_files_stop_no_call() {
    survives("nested ignore files", nested_ignore_files);
}

#[test]
fn costly_ignore_files_stop_no_call() {
    survives("costly ignore files", costly_ignore_files);
}

#[test]
fn nested_braces_stop_no_call() {
    survives("nested braces", nested_braces);
}

#[test]
fn a_folder_of_many_entries_stops_no_call() {
    survives("many entries", many_entries);
}

#[test]
fn many_manifests_stop_no_call() {
    survives("many manifests", many_manifests);
}

#[test]
fn a_long_line_stops_no_call() {
    survives("a long line", long_line);
}

#[test]
fn deep_json_stops_no_call() {
    survives("deep JSON", deep_json);
}

#[test]
fn cyclic_links_stop_no_call() {
    survives("cyclic links", cyclic_links);
}

/// Eight calls whose clients leave keep no turn from others.
#[test]
fn calls_that_were_cancelled_in_a_hostile_repository_keep_no_turn() {
    let scene = Scene::new(nested_ignore_files);
    let path = "d/".repeat(40);
    let arguments = json!({"path": path.trim_end_matches('/')}).to_string();
    let mut clients: Vec<_> = (0..8)
        .map(|_| {
            let mut command = scene
                .home
                .tool(scene.hostile.path(), &["skill", "call", "list_files", &arguments]);
            let command = command
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null());
            command.spawn().expect("the binary runs")
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    for client in &mut clients {
        // A call that has ended already holds no turn either.
        let _ = client.kill();
        client.wait().expect("it ends");
    }
    let took = scene.ask_elsewhere();
    say(&format!(
        "after eight cancelled calls: another repository is answered in {took:.1?}"
    ));
    assert!(took < OTHER_MAX, "{took:?}");
}

#[test]
fn an_answer_names_the_ignore_files_that_are_over_the_limits() {
    let scene = Scene::new(nested_ignore_files);
    let run = |line: &[&str]| scene.home.run(scene.hostile.path(), line).expect(0);
    let why = "The folders of these ignore files were left out, because the files could not be applied: ";
    let listed = run(&["skill", "call", "list_files", r#"{"path": "d/d"}"#]).stdout;
    assert!(listed.contains(&format!("[tool] {why}`d/.gitignore`. ")), "{listed}");
    for line in [
        &["skill", "call", "list_files", r#"{"recursive": true}"#][..],
        &["skill", "call", "search_code", r#"{"pattern": "find"}"#],
        &["context", "explain", "--json"],
    ] {
        let told = run(line).stdout;
        assert!(told.contains(&format!("{why}`d/.gitignore`. ")), "{line:?}: {told}");
    }
}
