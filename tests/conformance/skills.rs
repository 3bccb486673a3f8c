//! The twelve skills, each called through the command line on a small repository of its kind.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;
use tool_model_server::Script;

use super::recorded::refactor;
use super::world::{Canned, SHOP, Wire, World, holds, says};
use crate::support::{Finished, Home, finish, fixture_path, folder};

/// Their names, sorted.
pub(super) const NAMES: [&str; 12] = [
    "analyze_dependencies",
    "explain_function",
    "find_references",
    "git_commit",
    "git_diff",
    "install_package",
    "list_files",
    "read_file",
    "read_logs",
    "run_tests",
    "search_code",
    "write_file",
];

/// Runs a program to its good end: what a user would have done before.
#[expect(clippy::disallowed_methods, reason = "the tests do what a user does")]
pub(super) fn run(directory: &Path, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) {
    let output = Command::new(program.as_ref())
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.as_ref().display()));
    let said = finish(output);
    assert_eq!(said.code, 0, "{arguments:?}: {}{}", said.stdout, said.stderr);
}

/// A virtual environment in `root/.venv`, without packages.
pub(super) fn environment(root: &Path) {
    let python = fixture_path("click-8.1.8").join(".venv/bin/python");
    run(root, python, &["-m", "venv", "--without-pip", ".venv"]);
}

/// A folder of the virtual environment in `root/.venv` that holds its packages.
pub(super) fn site_packages(root: &Path) -> std::path::PathBuf {
    let libraries = std::fs::read_dir(root.join(".venv/lib")).expect("an environment has libraries");
    let versions = libraries.map(|entry| entry.expect("it can be listed").path().join("site-packages"));
    versions
        .into_iter()
        .find(|place| place.is_dir())
        .expect("site-packages")
}

/// A repository with a git history, a change that is not committed, tests, a manifest and a log.
fn repository() -> TempDir {
    let repository = folder(&[
        ("README.md", "# Crates\n"),
        ("requirements.txt", "click>=8\n"),
        (
            "app.py",
            "def count(crates):\n    \"\"\"How many.\"\"\"\n    return len(crates)\n",
        ),
        ("main.py", "from app import count\n\nprint(count([1]))\n"),
        (
            "tests/test_app.py",
            "from app import count\n\n\ndef test_count():\n    assert count([1, 2]) == 2\n",
        ),
        ("conftest.py", ""),
        (
            "app.log",
            "2026-01-02 03:04:05,006 INFO app: started\n2026-01-02 03:04:06,007 ERROR app: disk is full\n",
        ),
    ]);
    let root = repository.path();
    run(root, "git", &["init", "--quiet"]);
    run(root, "git", &["config", "user.name", "Ada"]);
    run(root, "git", &["config", "user.email", "ada@example.org"]);
    run(root, "git", &["add", "."]);
    run(root, "git", &["commit", "--quiet", "--message", "Start"]);
    std::fs::write(root.join("README.md"), "# Crates\n\nCounts them.\n").expect("the folder is writable");
    repository
}

/// Returns the answer of each call, and under the names of files what it left in the repository.
fn calls() -> &'static BTreeMap<&'static str, String> {
    static CALLS: OnceLock<BTreeMap<&'static str, String>> = OnceLock::new();
    CALLS.get_or_init(|| {
        let (home, repository) = (Home::offline(), repository());
        let root = repository.path();
        let venv = fixture_path("click-8.1.8").join(".venv");
        let call = |skill: &str, arguments: &str, flags: &[&str]| {
            let mut command = home.tool(root, &[&["skill", "call", skill, arguments], flags].concat());
            let command = command.env("VIRTUAL_ENV", &venv);
            finish(command.output().expect("the binary runs")).expect(0).stdout
        };
        let commit = r#"{"message": "Say what it does", "paths": ["README.md"]}"#;
        let mut said = BTreeMap::from([
            ("read_file", call("read_file", r#"{"path": "app.py"}"#, &[])),
            ("list_files", call("list_files", "{}", &[])),
            (
                "list_files recursive",
                call("list_files", r#"{"recursive": true}"#, &[]),
            ),
            (
                "search_code",
                call("search_code", r#"{"pattern": "^def c\\w+\\("}"#, &[]),
            ),
            (
                "find_references",
                call("find_references", r#"{"symbol": "count"}"#, &[]),
            ),
            ("git_diff", call("git_diff", "{}", &[])),
            ("git_commit", call("git_commit", commit, &["--allow", "commit-git"])),
            ("git_diff after", call("git_diff", "{}", &[])),
            ("analyze_dependencies", call("analyze_dependencies", "{}", &[])),
            (
                "explain_function",
                call("explain_function", r#"{"name": "count"}"#, &[]),
            ),
            (
                "read_logs",
                call("read_logs", r#"{"path": "app.log", "level": "error"}"#, &[]),
            ),
            ("run_tests", call("run_tests", "{}", &["--allow", "run-process"])),
        ]);
        let new = r#"{"path": "deep/er/new.txt", "content": "one\n"}"#;
        said.insert("write_file", call("write_file", new, &["--allow", "write-repository"]));
        let written = std::fs::read_to_string(root.join("deep/er/new.txt")).expect("directories were made");
        said.insert("deep/er/new.txt", written);
        said
    })
}

#[track_caller]
fn said(call: &str, parts: &[&str]) {
    holds(&calls()[call], parts);
}

/// Every provider offers the same twelve with the same descriptions.
#[test]
fn skill_identical_for_all_providers() {
    let mut offers: Vec<Vec<(String, String)>> = Vec::new();
    for wire in [
        Wire::Local,
        Wire::Router,
        Wire::Hosted,
        Wire::HostedChat,
        Wire::HostedGenerateContent,
    ] {
        let world = World::on(wire, SHOP, Script::new([says(&["It counts crates (app.py:1)."])]));
        world.run(&["explain", "."]).expect(0);
        let requests = world.server.requests();
        let body = &requests.iter().find(|it| it.method == "POST").expect("a request").body;
        let tools = match wire {
            Wire::HostedGenerateContent => &body["tools"][0]["functionDeclarations"],
            _ => &body["tools"],
        };
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let mut offer: Vec<(String, String)> = tools
            .as_array()
            .expect("tools")
            .iter()
            .map(|tool| {
                if tool["function"].is_object() {
                    &tool["function"]
                } else {
                    tool
                }
            })
            .map(|tool| (text(&tool["name"]), text(&tool["description"])))
            .collect();
        offer.sort();
        offers.push(offer);
    }
    let names: Vec<&str> = offers[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, NAMES);
    assert!(offers.iter().all(|offer| *offer == offers[0]));
}

#[test]
fn skill_read_file() {
    said(
        "read_file",
        &["     1\tdef count(crates):\n", "     3\t    return len(crates)\n"],
    );
}

/// A new file in new directories; and a file that is there is overwritten once the model has read it.
#[test]
fn skill_write_file() {
    assert_eq!(calls()["deep/er/new.txt"], "one\n");
    said("write_file", &["deep/er/new.txt", "+one"]);
    assert!(refactor().prices.starts_with("RATE = 3\n"), "{}", refactor().prices);
}

#[test]
fn skill_list_files() {
    said("list_files", &["app.py\t"]);
    assert!(!calls()["list_files"].contains("test_app.py"));
    said("list_files recursive", &["app.py\t", "tests/test_app.py\t"]);
}

#[test]
fn skill_search_code() {
    said("search_code", &["app.py:1:def count(crates):"]);
    assert!(
        !calls()["search_code"].contains("test_app.py"),
        "it is a regular expression"
    );
}

#[test]
fn skill_find_references() {
    said(
        "find_references",
        &["app.py:1: definition:", "main.py:1: import:", "main.py:3: call:"],
    );
}

#[test]
fn skill_git_diff() {
    said("git_diff", &["README.md", "+Counts them."]);
}

#[test]
fn skill_git_commit() {
    said("git_commit", &["Committed ", "Say what it does", "README.md"]);
    assert!(!calls()["git_diff after"].contains("+Counts them."), "it is committed");
}

#[test]
fn skill_analyze_dependencies() {
    said("analyze_dependencies", &["click", ">=8", "requirements.txt:1"]);
}

#[test]
fn skill_explain_function() {
    said(
        "explain_function",
        &["app.py", "def count(crates):", "How many.", "return len(crates)"],
    );
}

/// pytest for the Python repository, npm for the other, without an argument.
#[test]
fn skill_run_tests() {
    said("run_tests", &["PASSED: 1 passed", "-m pytest"]);
    let manifest = r#"{"name": "a", "version": "1.0.0", "scripts": {"test": "node test.js"}}"#;
    let world = World::new(
        &[
            ("package.json", manifest),
            ("test.js", "require('assert').equal(1, 1)\n"),
        ],
        [],
    );
    let finished = world
        .run(&["skill", "call", "run_tests", "--allow", "run-process"])
        .expect(0);
    holds(&finished.stdout, &["PASSED", "npm test"]);
}

/// Installs with pip from a folder of wheels that pip's own configuration names.
fn install_with_pip() -> Finished {
    let (home, repository) = (Home::offline(), folder(&[("requirements.txt", "tinypackage\n")]));
    let root = repository.path();
    environment(root);
    let fixture = fixture_path("click-8.1.8");
    let pip = site_packages(&fixture).join("pip");
    run(
        root,
        "cp",
        &["-r", &pip.to_string_lossy(), &site_packages(root).to_string_lossy()],
    );
    let wheels = tempfile::tempdir().expect("a temporary folder");
    let wheel = "import zipfile\n\
        w = zipfile.ZipFile('tinypackage-1.0-py3-none-any.whl', 'w')\n\
        w.writestr('tinypackage.py', 'x = 1\\n')\n\
        i = 'tinypackage-1.0.dist-info/'\n\
        w.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: tinypackage\\nVersion: 1.0\\n')\n\
        w.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        w.writestr(i + 'RECORD', '')\n\
        w.close()\n";
    run(wheels.path(), fixture.join(".venv/bin/python"), &["-c", wheel]);
    let config = home.path().join(".config/pip");
    std::fs::create_dir_all(&config).expect("the folder is writable");
    let offline = format!("[global]\nno-index = true\nfind-links = {}\n", wheels.path().display());
    std::fs::write(config.join("pip.conf"), offline).expect("the folder is writable");
    let arguments = [
        "skill",
        "call",
        "install_package",
        r#"{"names": ["tinypackage"]}"#,
        "--allow",
        "install",
    ];
    let finished = home.run(root, &arguments);
    assert!(
        site_packages(root).join("tinypackage.py").exists(),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    finished
}

/// Installs with npm from a registry on loopback that knows one package.
fn install_with_npm() -> Finished {
    let package = folder(&[
        (
            "package/package.json",
            "{\"name\": \"tiny-package\", \"version\": \"1.0.0\"}",
        ),
        ("package/index.js", "module.exports = 1\n"),
    ]);
    run(package.path(), "tar", &["-czf", "tiny.tgz", "package"]);
    let archive = std::fs::read(package.path().join("tiny.tgz")).expect("tar has written it");
    let registry = Canned::start(move |url, path| match path {
        "/tiny.tgz" => ("200 OK", "application/octet-stream", archive.clone()),
        "/tiny-package" => {
            let version = serde_json::json!({
                "name": "tiny-package", "version": "1.0.0", "dist": {"tarball": format!("{url}/tiny.tgz")},
            });
            let document = serde_json::json!({
                "name": "tiny-package", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version},
            });
            ("200 OK", "application/json", document.to_string().into_bytes())
        }
        _ => ("404 Not Found", "application/json", b"{}".to_vec()),
    });
    let home = Home::offline();
    let repository = folder(&[("package.json", "{\"name\": \"a\", \"version\": \"1.0.0\"}\n")]);
    std::fs::write(home.path().join(".npmrc"), format!("registry={}/\n", registry.url)).expect("it is writable");
    let arguments = [
        "skill",
        "call",
        "install_package",
        r#"{"names": ["tiny-package"]}"#,
        "--allow",
        "install",
    ];
    let finished = home.run(repository.path(), &arguments);
    let installed = repository.path().join("node_modules/tiny-package/index.js");
    assert!(installed.exists(), "{}{}", finished.stdout, finished.stderr);
    let manifest = std::fs::read_to_string(repository.path().join("package.json")).expect("it is there");
    holds(&manifest, &["tiny-package"]);
    finished
}

#[test]
fn skill_install_package() {
    holds(&install_with_pip().expect(0).stdout, &["tinypackage"]);
    holds(&install_with_npm().expect(0).stdout, &["tiny-package"]);
}

#[test]
fn skill_read_logs() {
    said("read_logs", &["1 error", "disk is full"]);
    assert!(!calls()["read_logs"].contains("started"), "only what was asked for");
}
