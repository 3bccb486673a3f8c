//! Previews: a refactor on a private layer, which skills and tests see and the repository does not, and what becomes of it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{ModelServer, Round, ScriptedCall, ServerStep};

use crate::conformance::http;
use crate::providers::scripted;
use crate::recipes::{SOURCE, cargo_project, run_tests, with_toolchains};
use crate::support::{Finished, Home, differences, finish, fixture, folder, git, holds, tree, until};
use crate::survival::kill;

/// Bytes and times of everything in a tree that is the user's: reports come and go.
fn state(root: &Path) -> Vec<(PathBuf, i64, i64, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("it can be listed").flatten() {
            let (path, metadata) = (entry.path(), entry.path().symlink_metadata().expect("it is there"));
            if path == root.join("session-reports") {
                continue;
            }
            let times = (
                metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
                metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec(),
            );
            let content = if metadata.is_file() {
                std::fs::read(&path).expect("it can be read")
            } else {
                Vec::new()
            };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            // The root itself gets the folder of reports.
            found.push((path, times.0, times.1, metadata.mode(), content));
        }
    }
    found.sort();
    found
}

fn call(name: &str, arguments: Value) -> Round {
    Round::calls([ScriptedCall::new(name, arguments)])
}

fn edit(path: &str, old: &str, new: &str) -> ScriptedCall {
    ScriptedCall::new("write_file", json!({"path": path, "edits": [{"old": old, "new": new}]}))
}

fn write(path: &str, content: &str) -> ScriptedCall {
    ScriptedCall::new("write_file", json!({"path": path, "content": content}))
}

fn json_of(home: &Home, root: &Path, arguments: &[&str]) -> Value {
    let finished = home.run(root, arguments);
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("no JSON: {}", finished.stderr))
}

/// The newest session of the history.
fn newest(home: &Home, root: &Path) -> Value {
    json_of(home, root, &["history", "--json", "--repo", "."])["sessions"][0].clone()
}

fn id_of(session: &Value) -> String {
    session["id"].as_str().expect("an id").to_owned()
}

fn last_message(server: &ModelServer, request: usize) -> String {
    let messages = &server.requests()[request].body["messages"];
    messages
        .as_array()
        .and_then(|messages| messages.last())
        .expect("a message")
        .to_string()
}

#[track_caller]
fn unchanged(root: &Path, before: &[(PathBuf, i64, i64, u32, Vec<u8>)]) {
    let now = state(root);
    let changed: Vec<&PathBuf> = now
        .iter()
        .filter(|entry| !before.contains(entry))
        .map(|entry| &entry.0)
        .collect();
    assert!(now == before, "the tree has changed: {changed:?}");
}

const NEW_TEST: &str = "def test_names():\n    from click.shared.names import NAMES\n\n    assert NAMES == ()\n";

#[test]
fn a_preview_of_click_is_seen_by_skills_and_tests_and_applied_as_its_diff_says() {
    let repository = fixture("click-8.1.8");
    let root = repository.path();
    if !root.join(".git").exists() {
        git(root, &["init", "-q"]);
    }
    let (server, home) = scripted([
        call("read_file", json!({"path": "src/click/globals.py"})),
        Round::calls([
            edit(
                "src/click/globals.py",
                "    if ctx is not None:\n        return ctx.color\n\n    return None",
                "    return None if ctx is None else ctx.color",
            ),
            write("src/click/shared/names.py", "NAMES = ()\n"),
            write("src/click/shared/__init__.py", ""),
            write("tests/test_names.py", NEW_TEST),
        ]),
        call("search_code", json!({"pattern": "NAMES = \\(\\)"})),
        call(
            "git_diff",
            json!({"paths": ["src/click/shared", "tests/test_names.py"]}),
        ),
        call("list_files", json!({"path": "src/click/shared"})),
        call("git_commit", json!({"message": "done"})),
        call("install_package", json!({"names": ["left-pad"]})),
        Round::text("Simplified."),
    ]);
    let before = state(root);
    let refactor = [
        "refactor",
        "simplify",
        "--preview",
        "--allow",
        "run-process",
        "--allow",
        "commit-git",
    ];
    let finished = home
        .run(root, &[&refactor[..], &["--allow", "install"]].concat())
        .expect(0);
    unchanged(root, &before);
    holds(
        &finished.stdout,
        &[
            "Proposed changes of 4 files: `src/click/globals.py` (+1 -4), `src/click/shared/__init__.py` (new, +0)",
            "- Tests before the change: PASSED: 628 passed",
            "- Tests after the change: PASSED: 629 passed",
            "- Verified by tests",
        ],
    );
    let first = server.requests()[0].body["messages"].to_string();
    holds(&first, &["# Preview", "Commits and installations are refused"]);
    holds(&last_message(&server, 3), &["src/click/shared/names.py"]);
    holds(&last_message(&server, 4), &["+NAMES = ()", "+    assert NAMES == ()"]);
    holds(&last_message(&server, 5), &["names.py", "__init__.py"]);
    holds(&last_message(&server, 6), &["A preview does not make commits"]);
    holds(&last_message(&server, 7), &["A preview does not install packages"]);

    let session = newest(&home, root);
    let id = id_of(&session);
    assert_eq!(
        (&session["files_modified"], &session["files_proposed"]),
        (&json!(0), &json!(4))
    );
    let result = json_of(&home, root, &["results", "--json"]);
    assert_eq!(
        (&result["status"], &result["files_modified"]),
        (&json!("complete"), &json!([]))
    );
    assert_eq!(result["files_proposed"].as_array().map(Vec::len), Some(4));
    let diff = home.run(root, &["diff", &id]).expect(0).stdout;
    let nothing = home.run(root, &["undo", &id]).expect(1);
    holds(
        &nothing.stderr,
        &["is a preview, and changed nothing", &format!("tool discard {id}")],
    );
    home.run(root, &["apply", "--patch", "change.diff"]).expect(0);
    assert_eq!(
        std::fs::read_to_string(root.join("change.diff")).expect("it was written"),
        diff
    );
    git(root, &["apply", "--check", "change.diff"]);
    std::fs::remove_file(root.join("change.diff")).expect("it is there");

    // The user changes one of the files.
    let globals = root.join("src/click/globals.py");
    let old = std::fs::read_to_string(&globals).expect("it is there");
    std::fs::write(&globals, format!("{old}# mine\n")).expect("it is ours");
    let refused = home.run(root, &["apply"]).expect(1);
    holds(
        &refused.stderr,
        &["[error] Nothing was applied: changed since the preview: `src/click/globals.py`"],
    );
    assert!(!root.join("src/click/shared").exists(), "all or nothing");
    std::fs::write(&globals, &old).expect("it is ours");

    let files = tree(root);
    home.run(root, &["service", "restart"]).expect(0);
    let applied = home.run(root, &["apply", &id]).expect(0);
    holds(
        &applied.stdout,
        &["applied   src/click/globals.py\n", "applied   tests/test_names.py\n"],
    );
    let session = newest(&home, root);
    assert_eq!(
        (&session["operation"], &session["files_modified"]),
        (&json!("apply"), &json!(4))
    );
    assert_eq!(home.run(root, &["diff", &id_of(&session)]).expect(0).stdout, diff);
    let again = home.run(root, &["apply"]).expect(1);
    holds(&again.stderr, &["is applied already"]);
    home.run(root, &["undo"]).expect(0);
    assert_eq!(differences(root, &files), Vec::<PathBuf>::new());
}

fn with_tools(home: &Home, root: &Path, arguments: &[&str]) -> Finished {
    let mut command = home.tool(root, arguments);
    with_toolchains(&mut command);
    finish(command.output().expect("the binary starts"))
}

#[test]
fn a_preview_of_a_crate_is_built_beside_the_cache_and_leaves_the_old_code_to_the_next_run() {
    let repository = cargo_project();
    let root = repository.path();
    let (_server, home) = scripted([
        call("read_file", json!({"path": "src/lib.rs"})),
        Round::calls([edit("src/lib.rs", "a + b", "a - b")]),
        Round::text("Subtracts."),
        call("read_file", json!({"path": "src/lib.rs"})),
        Round::calls([edit("src/lib.rs", "a - b", "b + a")]),
        Round::text("Adds again."),
    ]);
    holds(&run_tests(&home, root, &[]).expect(0).stdout, &["PASSED: 1 passed"]);
    let before = state(root);
    let finished = with_tools(&home, root, &["refactor", "subtract", "--preview"]).expect(1);
    holds(
        &finished.stdout,
        &["- The tests got worse: `tests/api.rs::adds` fails now"],
    );
    holds(&finished.stderr, &["tool discard "]);
    unchanged(root, &before);
    holds(&run_tests(&home, root, &[]).expect(0).stdout, &["PASSED: 1 passed"]);
    let incomplete = home.run(root, &["apply"]).expect(1);
    holds(&incomplete.stderr, &["is not complete", "--partial"]);

    // The next turn goes on with the layer.
    let finished = with_tools(&home, root, &["continue", "add again"]).expect(0);
    holds(
        &finished.stdout,
        &[
            "Proposed changes of 1 file",
            "- Tests after the change: PASSED: 1 passed",
        ],
    );
    unchanged(root, &before);
    home.run(root, &["apply"]).expect(0);
    let source = std::fs::read_to_string(root.join("src/lib.rs")).expect("it is there");
    assert_eq!(source, SOURCE.replace("a + b", "b + a"));
    holds(&run_tests(&home, root, &[]).expect(0).stdout, &["PASSED: 1 passed"]);
}

/// A home with a preview of two files: one is edited, one is new.
fn previewed(rounds: impl IntoIterator<Item = Round>) -> (TempDir, ModelServer, Home) {
    let repository = folder(&[("app.py", "A = 1\n"), ("lib/b.py", "B = 1\n")]);
    let first = [
        call("read_file", json!({"path": "app.py"})),
        Round::calls([edit("app.py", "A = 1", "A = 2"), write("lib/new.py", "N = 1\n")]),
        Round::text("Done."),
    ];
    let (server, home) = scripted(first.into_iter().chain(rounds));
    home.run(repository.path(), &["refactor", "count up", "--preview"])
        .expect(0);
    (repository, server, home)
}

#[test]
fn a_part_of_a_preview_counts_as_not_verified_and_the_rest_stays_proposed() {
    let (repository, server, home) = previewed([
        call("read_file", json!({"path": "lib/new.py"})),
        Round::text("It is one."),
        call("write_file", json!({"path": "lib/c.py", "content": "C = 1\n"})),
        Round::text("Added."),
    ]);
    let root = repository.path();
    let unknown = home.run(root, &["apply", "lib/b.py"]).expect(2);
    holds(&unknown.stderr, &["`lib/b.py` is not among the proposed files"]);
    let applied = home.run(root, &["apply", "app.py"]).expect(0);
    assert_eq!(applied.stdout, "applied   app.py\nleft      lib/new.py\n");
    holds(&applied.stderr, &["Not verified: 1 of 2 proposed files are applied"]);
    assert!(!root.join("lib/new.py").exists());
    // A later turn shares the rest of the layer, a question too.
    home.run(root, &["continue", "--as", "explain", "what is N?"]).expect(0);
    let read = server.requests();
    holds(&read[4].body["messages"].to_string(), &["N = 1"]);
    home.run(root, &["continue", "--as", "refactor", "add C"]).expect(0);
    let result = json_of(&home, root, &["results", "--json"]);
    assert_eq!(result["files_proposed"], json!(["lib/c.py", "lib/new.py"]));
    home.run(root, &["apply", "lib"]).expect(0);
    assert_eq!(
        std::fs::read_to_string(root.join("lib/c.py")).expect("it is there"),
        "C = 1\n"
    );
}

#[test]
fn a_discarded_preview_is_gone_and_the_conversation_goes_on_without_it() {
    let (repository, server, home) = previewed([Round::text("Nothing to do.")]);
    let root = repository.path();
    let id = id_of(&newest(&home, root));
    let contents = home.path().join("sessions").join(&id).join("contents");
    assert!(contents.is_dir());
    assert!(
        !home.path().join("layers").join(&id).exists(),
        "the layer goes with its session"
    );
    let discarded = home.run(root, &["discard"]).expect(0);
    assert_eq!(discarded.stdout, "discarded app.py\ndiscarded lib/new.py\n");
    assert!(!contents.exists());
    for command in [
        &["apply", &id][..],
        &["discard", &id],
        &["diff", &id],
        &["apply", &id, "--patch", "-"],
    ] {
        holds(&home.run(root, command).expect(1).stderr, &["is discarded"]);
    }
    home.run(root, &["service", "restart"]).expect(0);
    holds(&home.run(root, &["apply", &id]).expect(1).stderr, &["is discarded"]);
    home.run(root, &["continue", "go on"]).expect(0);
    let last = server.requests().pop().expect("there are some");
    let last = last.body["messages"].to_string();
    holds(
        &last,
        &["The user has taken back the changes of turn 1: `app.py`, `lib/new.py`"],
    );
    assert_eq!(
        last.matches("# Preview").count(),
        1,
        "the turn works on the repository again"
    );
}

#[test]
fn a_killed_backend_leaves_a_preview_that_can_be_shown_exported_and_applied_in_part() {
    let repository = folder(&[("app.py", "A = 1\n")]);
    let root = repository.path();
    let (server, home) = scripted([
        call("read_file", json!({"path": "app.py"})),
        Round::calls([edit("app.py", "A = 1", "A = 2")]),
        Round::new([ServerStep::Gate("never".into())]),
    ]);
    let before = state(root);
    let mut running = home.tool(root, &["refactor", "count up", "--preview"]);
    let mut running = running
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    until("the model has made its change", || server.requests().len() == 3);
    kill(&home);
    assert!(!running.wait().expect("it ends").success());
    home.run(root, &["service", "start"]).expect(0);
    unchanged(root, &before);
    assert!(
        !home.path().join("layers").exists(),
        "the layer of a dead daemon is removed"
    );
    let id = id_of(&newest(&home, root));
    holds(&home.run(root, &["diff", &id]).expect(0).stdout, &["-A = 1\n+A = 2\n"]);
    let patch = home.run(root, &["apply", &id, "--patch", "-"]).expect(0).stdout;
    holds(&patch, &["diff --git a/app.py b/app.py\n", "+A = 2\n"]);
    let refused = home.run(root, &["apply", &id]).expect(1);
    holds(&refused.stderr, &["is not complete", "--partial"]);
    let applied = home.run(root, &["apply", &id, "--partial"]).expect(0);
    holds(&applied.stderr, &["Not verified: the preview did not end complete"]);
    assert_eq!(
        std::fs::read_to_string(root.join("app.py")).expect("it is there"),
        "A = 2\n"
    );
}

#[test]
fn a_preview_is_applied_and_discarded_over_http() {
    let (repository, _server, home) = previewed([]);
    let root = repository.path();
    let address = home.serve();
    let id = id_of(&newest(&home, root));
    let place = |what: &str| format!("/sessions/{id}/{what}");
    let outside = http::post(&address, &place("apply"), &json!({"paths": ["../x"]})).expect(400);
    holds(&outside.json()["error"]["message"].to_string(), &["`../x` "]);
    let applied = http::post(&address, &place("apply"), &json!({"paths": ["app.py"]}))
        .expect(200)
        .json();
    assert_eq!(
        (&applied["applied"], &applied["left"], &applied["unchanged"]),
        (&json!(["app.py"]), &json!(["lib/new.py"]), &json!([]))
    );
    assert!(applied["not_verified"].is_string() && applied["apply_session_id"].is_string());
    let discarded = http::post(&address, &place("discard"), &json!({})).expect(200).json();
    assert_eq!(discarded["sessions"], json!([id]));
    let refused = http::post(&address, &place("apply"), &json!({})).expect(409).json();
    assert_eq!(refused["error"]["code"], "nothing-to-apply");
}

#[test]
fn a_change_is_asked_about_before_it_is_made_and_without_anybody_to_ask_refused() {
    let repository = folder(&[("app.py", "A = 1\n")]);
    let root = repository.path();
    let (server, home) = scripted([
        call("read_file", json!({"path": "app.py"})),
        Round::calls([edit("app.py", "A = 1", "A = 2")]),
        Round::text("Done."),
    ]);
    home.run(root, &["refactor", "count up", "--ask-before-write"])
        .expect(1);
    assert_eq!(
        std::fs::read_to_string(root.join("app.py")).expect("it is there"),
        "A = 1\n"
    );
    let answer = last_message(&server, 2);
    holds(&answer, &["write-repository"]);
}
