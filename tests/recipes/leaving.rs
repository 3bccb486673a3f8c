//! Test code that wants to decide the results of later runs: none of what it leaves is read by one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;
use tool_model_server::{Round, ScriptedCall};

use super::{run_tests, states, with_toolchains};
use crate::providers::scripted;
use crate::support::{Finished, Home, finish, folder, git, holds, until};

const MANIFEST: &str =
    "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\ndoctest = false\n";
const SOURCE: &str = "pub fn price(cents: u32) -> u32 {\n    cents\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    \
    fn price_is_kept() {\n        assert_eq!(super::price(3), 3);\n    }\n}\n";

/// Ways to leave something behind, each the body of a test. `target` is the folder of build output.
const WAYS: [(&str, &str); 20] = [
    (
        "replaces_the_test_binaries",
        r#"for file in binaries() { replace(&file, FORGED.as_bytes()); }"#,
    ),
    (
        "dates_fingerprints_to_the_future",
        r#"all(&target().join("debug/.fingerprint"), &|file| date(file, 4_000_000_000));"#,
    ),
    (
        "dates_artifacts_to_the_future",
        r#"all(&target().join("debug/deps"), &|file| date(file, 4_000_000_000));"#,
    ),
    (
        "dates_sources_to_the_past",
        r#"all(Path::new("src"), &|file| date(file, 1));"#,
    ),
    (
        "replaces_libraries",
        r#"replace_ending(&target().join("debug/deps"), ".rlib", b"forged");"#,
    ),
    (
        "replaces_metadata",
        r#"replace_ending(&target().join("debug/deps"), ".rmeta", b"forged");"#,
    ),
    (
        "empties_lists_of_sources",
        r#"replace_ending(&target().join("debug/deps"), ".d", b"");"#,
    ),
    (
        "replaces_fingerprints",
        r#"all(&target().join("debug/.fingerprint"), &|file| replace(file, b"0000000000000000"));"#,
    ),
    (
        "replaces_incremental_state",
        r#"all(&target().join("debug/incremental"), &|file| replace(file, b"forged"));"#,
    ),
    (
        "adds_a_program_of_the_runner",
        r#"replace(&target().join("debug/cargo"), FORGED.as_bytes());"#,
    ),
    (
        "adds_a_configuration_to_the_output",
        r#"replace(&target().join(".cargo/config.toml"), CONFIG.as_bytes());"#,
    ),
    (
        "adds_a_configuration_to_the_repository",
        r#"replace(Path::new(".cargo/config.toml"), CONFIG.as_bytes());"#,
    ),
    (
        "adds_a_toolchain_file",
        r#"replace(Path::new("rust-toolchain.toml"), b"[toolchain]\npath = \"forged\"\n");"#,
    ),
    (
        "adds_a_build_script",
        r#"replace(Path::new("build.rs"), b"fn main() { std::process::exit(0) }");"#,
    ),
    (
        "replaces_the_tested_source",
        r#"replace(Path::new("src/lib.rs"), b"");"#,
    ),
    (
        "replaces_the_packages",
        r#"replace(&cargo_home().join("registry/forged"), b"forged");"#,
    ),
    (
        "configures_the_runner_of_the_user",
        r#"replace(&cargo_home().join("config.toml"), CONFIG.as_bytes());"#,
    ),
    (
        "links_its_output_elsewhere",
        r#"std::os::unix::fs::symlink("/tmp", target().join("link")).unwrap();"#,
    ),
    ("nests_folders_beyond_any_path", r#"nest(&target());"#),
    (
        "leaves_folders_that_cannot_be_read",
        r#"
        replace(&target().join("closed/file"), b"forged");
        std::fs::set_permissions(target().join("closed"), std::fs::Permissions::from_mode(0o300)).unwrap();"#,
    ),
];

/// Functions that the ways share.
const HELPERS: &str = r##"
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const FORGED: &str = "#!/bin/sh\necho\necho running 1 test\necho test tests::price_is_kept ... ok\necho\necho 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'\necho\n";
/// One way after the other: some delete what others look for.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
const CONFIG: &str = "[build]\nrustc-wrapper = \"/bin/true\"\n";

fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}
fn cargo_home() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_HOME").unwrap())
}
fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
fn binaries() -> Vec<PathBuf> {
    let is_binary = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("shop-") && !name.contains('.')
    };
    let found: Vec<PathBuf> = entries(&target().join("debug/deps")).into_iter().filter(is_binary).collect();
    assert!(!found.is_empty());
    found
}
fn all(folder: &Path, act: &dyn Fn(&Path)) {
    for entry in entries(folder) {
        if entry.is_dir() { all(&entry, act) } else { act(&entry) }
    }
}
fn date(file: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    std::fs::File::open(file).and_then(|file| file.set_modified(time)).unwrap();
}
fn replace(file: &Path, content: &[u8]) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let _ = std::fs::remove_file(file);
    std::fs::write(file, content).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    date(file, 4_000_000_000);
}
fn replace_ending(folder: &Path, ending: &str, content: &[u8]) {
    for file in entries(folder) {
        if file.to_string_lossy().ends_with(ending) { replace(&file, content) }
    }
}
fn nest(folder: &Path) {
    let mut command = std::process::Command::new("/bin/sh");
    let script = "n=$(printf 'd%.0s' $(seq 200)); for i in $(seq 25); do mkdir $n && cd -P $n || exit 1; done; echo x > file";
    assert!(command.args(["-c", script]).current_dir(folder).status().unwrap().success());
}
"##;

/// Test code that tries every way.
fn ways() -> String {
    let tests =
        WAYS.map(|(name, body)| format!("#[test]\nfn {name}() {{\n    let _turn = TURN.lock();\n    {body}\n}}\n"));
    format!("{HELPERS}\n{}", tests.concat())
}

/// A crate in a git repository of the user.
fn project() -> tempfile::TempDir {
    let repository = folder(&[
        ("Cargo.toml", MANIFEST),
        (
            "Cargo.lock",
            "version = 4\n\n[[package]]\nname = \"shop\"\nversion = \"0.1.0\"\n",
        ),
        ("src/lib.rs", SOURCE),
        (".gitignore", "target\n"),
    ]);
    let root = repository.path();
    git(root, &["init", "--quiet", "--initial-branch=main"]);
    git(root, &["config", "user.email", "ada@example.org"]);
    commit(root, "begin");
    repository
}

pub(super) fn commit(root: &Path, message: &str) {
    git(root, &["add", "--all"]);
    git(root, &["commit", "--quiet", "-m", message]);
}

fn with_tools(home: &Home, root: &Path, arguments: &[&str]) -> Finished {
    let mut command = home.tool(root, arguments);
    with_toolchains(&mut command);
    finish(command.output().expect("the binary starts"))
}

pub(super) fn call(name: &str, arguments: serde_json::Value) -> Round {
    Round::calls([ScriptedCall::new(name, arguments)])
}

/// Everything that is kept for later runs, without the records of the host: content, mode and time of every file.
pub(super) fn kept(home: &Home) -> BTreeMap<std::path::PathBuf, (u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![home.path().join("cache/builds")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if matches!(entry.file_name().to_str(), Some("files.json" | "lock")) {
                continue;
            }
            let data = entry.metadata().expect("it is there");
            if data.is_dir() {
                folders.push(entry.path());
            }
            // The records lie in it.
            if folder.ends_with("cache/builds") {
                continue;
            }
            let content = std::fs::read(entry.path()).unwrap_or_default();
            found.insert(entry.path(), (data.mode(), data.mtime(), content));
        }
    }
    found
}

/// The folders of kept build output.
pub(super) fn caches(home: &Home) -> usize {
    std::fs::read_dir(home.path().join("cache/builds"))
        .into_iter()
        .flatten()
        .count()
}

#[test]
fn no_run_of_a_session_leaves_anything_to_a_later_run() {
    let repository = project();
    let root = repository.path();
    let (_server, home) = scripted([
        call("write_file", json!({"path": "tests/helper.rs", "content": ways()})),
        call("run_tests", json!({})),
        Round::text("Added a helper."),
    ]);
    holds(&run_tests(&home, root, &[]).expect(0).stdout, &["PASSED: 1 passed"]);
    let before = kept(&home);
    assert!(
        before.keys().any(|path| path.ends_with("debug/.fingerprint")),
        "nothing is kept"
    );
    let said = with_tools(&home, root, &["refactor", "add a helper"]);
    holds(&said.stdout, &["21 passed"]);
    // The checks before the change have kept output of their own.
    let suite = |path: &Path| {
        let inside = path.strip_prefix(home.path()).ok();
        inside.and_then(|path| path.iter().nth(2)).map(OsStr::to_owned)
    };
    let suites: BTreeSet<_> = before.keys().map(|path| suite(path)).collect();
    let kept_now = || {
        let mut kept = kept(&home);
        kept.retain(|path, _| suites.contains(&suite(path)));
        kept
    };
    assert!(
        kept_now() == before,
        "a run over files of a session has changed what is kept"
    );
    // A call of the user runs the code of the session, which is not committed.
    let after = run_tests(&home, root, &[]).expect(0).stdout;
    holds(&after, &["PASSED: 21 passed"]);
    assert!(kept_now() == before, "the files of a session are not the user's own");
    states::check(&home);
    with_tools(&home, root, &["undo"]).expect(0);
    assert_eq!(caches(&home), 0, "an undo drops what is kept");
    std::fs::write(
        root.join("src/lib.rs"),
        SOURCE.replace("    cents\n", "    cents + 1\n"),
    )
    .expect("it can be written");
    holds(&run_tests(&home, root, &[]).expect(1).stdout, &["FAILED: 1 failed"]);
}

/// A test that counts the runs that share its build output, and fails in all but the first.
const COUNTING: &str = r#"#[test]
fn is_the_first_run() {
    let binary = std::env::current_exe().unwrap();
    let file = binary.ancestors().nth(3).unwrap().join("runs");
    let earlier = std::fs::read(&file).unwrap_or_default().len();
    std::fs::write(file, "x".repeat(earlier + 1)).unwrap();
    assert_eq!(earlier, 0, "earlier runs: {earlier}");
}
"#;

#[test]
fn runs_of_a_model_share_what_they_build_and_no_verdict_sees_it() {
    let repository = project();
    let root = repository.path();
    let (server, home) = scripted([
        call("write_file", json!({"path": "tests/count.rs", "content": COUNTING})),
        call("run_tests", json!({})),
        call("run_tests", json!({})),
        Round::text("Added a test."),
    ]);
    let refactor = with_tools(&home, root, &["refactor", "count the runs"]).expect(0);
    holds(
        &refactor.stdout,
        &["Tests after the change: PASSED: 2 passed", "Verified by tests"],
    );
    let last = server.requests().pop().expect("the model was asked").body.to_string();
    holds(
        &last,
        &["PASSED: 2 passed", "FAILED: 1 failed, 1 passed", "earlier runs: 1"],
    );
    holds(&run_tests(&home, root, &[]).expect(0).stdout, &["PASSED: 2 passed"]);
    let layers = || {
        let scratch = std::fs::read_dir(home.path().join("tmp"))
            .into_iter()
            .flatten()
            .flatten();
        let mut names = scratch.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.starts_with("tool-session-"))
    };
    // It is deleted beside what the session still does.
    until("the layer is gone", || !layers());
    states::check(&home);
}

#[test]
fn tests_of_the_users_own_state_leave_nothing_either() {
    let repository = project();
    let root = repository.path();
    std::fs::create_dir(root.join("tests")).expect("it can be made");
    std::fs::write(root.join("tests/helper.rs"), ways()).expect("it can be written");
    commit(root, "add a helper");
    let home = Home::offline();
    holds(&run_tests(&home, root, &[]).expect(0).stdout, &["PASSED: 21 passed"]);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    for (path, (_, modified, content)) in kept(&home) {
        assert!(modified <= i64::try_from(now).expect("it fits"), "{}", path.display());
        assert!(
            content != b"forged" && !content.starts_with(b"#!"),
            "{}",
            path.display()
        );
    }
    std::fs::write(
        root.join("src/lib.rs"),
        SOURCE.replace("    cents\n", "    cents + 1\n"),
    )
    .expect("it can be written");
    let broken = run_tests(&home, root, &[]).expect(1).stdout;
    holds(&broken, &["FAILED: 1 failed", "price_is_kept"]);
}

/// A build script leaves a mark in the folder of build output.
const MARKING: &str = r#"fn main() {
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").unwrap());
    std::fs::write(out.ancestors().nth(4).unwrap().join("mark"), "").unwrap();
}
"#;

#[test]
fn a_file_of_a_session_that_comes_back_is_not_the_users_own() {
    let repository = project();
    let root = repository.path();
    let aside = tempfile::tempdir().expect("a temporary folder");
    let (script, stashed) = (root.join("build.rs"), aside.path().join("build.rs"));
    let (_server, home) = scripted([
        call("write_file", json!({"path": "build.rs", "content": MARKING})),
        Round::text("Added a build script."),
    ]);
    with_tools(&home, root, &["refactor", "add a script"]).expect(0);
    std::fs::copy(&script, &stashed).expect("the session has written it");
    let marks = || kept(&home).into_keys().filter(|path| path.ends_with("mark")).count();
    // As `git stash` and `git stash pop` do, and then an editor.
    std::fs::remove_file(&script).expect("it is there");
    run_tests(&home, root, &[]).expect(0);
    std::fs::copy(&stashed, &script).expect("it can be written");
    run_tests(&home, root, &[]).expect(0);
    assert_eq!(marks(), 0, "it came back");
    std::fs::write(&script, format!("{MARKING}// Mine.\n")).expect("it can be written");
    run_tests(&home, root, &[]).expect(0);
    assert_eq!(marks(), 0, "it came back and was edited");
    commit(root, "keep the script");
    run_tests(&home, root, &[]).expect(0);
    assert_eq!(marks(), 1, "the user has taken it over");
}

#[test]
fn a_branch_of_others_decides_no_verdict_on_another_branch() {
    let repository = project();
    let root = repository.path();
    git(root, &["checkout", "--quiet", "-b", "pr-7"]);
    std::fs::create_dir(root.join("tests")).expect("it can be made");
    std::fs::write(root.join("tests/helper.rs"), ways()).expect("it can be written");
    git(root, &["add", "--all"]);
    let by = ["-c", "user.name=Mallory", "-c", "user.email=mallory@example.net"];
    git(
        root,
        &[&by[..], &["commit", "--quiet", "-m", "tests: add a helper"]].concat(),
    );
    let breaks = || {
        [
            call("read_file", json!({"path": "src/lib.rs"})),
            call(
                "write_file",
                json!({"path": "src/lib.rs", "edits": [{"old": "    cents\n", "new": "    cents + 1\n"}]}),
            ),
            Round::text("Simplified."),
        ]
    };
    let (_server, home) = scripted(breaks().into_iter().chain(breaks()));
    holds(&run_tests(&home, root, &[]).expect(0).stdout, &["PASSED: 21 passed"]);
    git(root, &["checkout", "--quiet", "main"]);
    for further in [&[][..], &["--require-verified"]] {
        let refactor = with_tools(&home, root, &[&["refactor", "simplify"], further].concat()).expect(1);
        holds(&refactor.stdout, &["price_is_kept` fails now and did not before"]);
        with_tools(&home, root, &["undo"]).expect(0);
    }
}

#[test]
fn kept_output_follows_the_users_commits_and_no_others() {
    let repository = project();
    let root = repository.path();
    let home = Home::offline();
    let settings = home.path().join("config.toml");
    let config = std::fs::read_to_string(&settings).expect("the home has one");
    let team = "[policy]\nteam = [\"*@team.example\"]\n";
    std::fs::write(&settings, format!("{config}\n{team}")).expect("it can be written");
    let run = || holds(&run_tests(&home, root, &[]).expect(0).stdout, &["PASSED: 1 passed"]);
    run();
    assert_eq!(caches(&home), 1);
    std::fs::write(root.join("src/lib.rs"), format!("{SOURCE}// More.\n")).expect("it can be written");
    commit(root, "say more");
    run();
    assert_eq!(caches(&home), 1, "it follows a commit of the user");
    git(root, &["checkout", "--quiet", "HEAD~1"]);
    run();
    assert_eq!(caches(&home), 2, "an earlier commit has its own");
    git(root, &["checkout", "--quiet", "main"]);
    std::fs::write(root.join("src/lib.rs"), format!("{SOURCE}// Other.\n")).expect("it can be written");
    git(root, &["add", "--all"]);
    git(
        root,
        &[
            "commit",
            "--quiet",
            "-m",
            "other",
            "--author",
            "Mallory <mallory@example.net>",
        ],
    );
    run();
    assert_eq!(caches(&home), 3, "a commit of another author begins anew");
    std::fs::write(root.join("src/lib.rs"), format!("{SOURCE}// Team.\n")).expect("it can be written");
    let grace = ["-c", "user.name=Grace", "-c", "user.email=grace@team.example"];
    git(
        root,
        &[&grace[..], &["commit", "--quiet", "--all", "-m", "team"]].concat(),
    );
    run();
    assert_eq!(caches(&home), 3, "it follows a commit of the team");
    let second = tempfile::tempdir().expect("a folder");
    let place = second.path().to_str().expect("UTF-8");
    git(root, &["worktree", "add", "--quiet", "--detach", place]);
    holds(
        &run_tests(&home, second.path(), &[]).expect(0).stdout,
        &["PASSED: 1 passed"],
    );
    assert_eq!(caches(&home), 4, "a linked worktree has its own");
}
