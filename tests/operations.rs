//! The two operations that change files, and taking their changes back, on real repositories with scripted models:
//! the real binary, its skills, the projects' own test runners.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{ModelServer, Round, Script, ScriptedCall, ServerStep};

use crate::providers::scripted;
use crate::support::{Finished, Home, differences, finish, fixture, folder, git, holds, tree};

const RUN_TESTS: [&str; 2] = ["--allow", "run-process"];

/// click, whose virtual environment imports the sources beside it.
fn click() -> TempDir {
    fixture("click-8.1.8")
}

fn read(paths: &[&str]) -> Round {
    Round::calls(
        paths
            .iter()
            .map(|path| ScriptedCall::new("read_file", json!({"path": path}))),
    )
}

fn edit(path: &str, old: &str, new: &str) -> ScriptedCall {
    ScriptedCall::new("write_file", json!({"path": path, "edits": [{"old": old, "new": new}]}))
}

fn write(path: &str, content: &str) -> ScriptedCall {
    ScriptedCall::new("write_file", json!({"path": path, "content": content}))
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file is readable")
}

/// Returns the text after the host's first line `---`.
#[track_caller]
fn closing(stdout: &str) -> &str {
    stdout.split_once("\n---\n\n").expect("words of the host").1
}

/// The newest session's identifier.
pub(crate) fn newest(home: &Home) -> String {
    let history = home.run(Path::new("/"), &["history", "--json"]).expect(0).stdout;
    let history: Value = serde_json::from_str(&history).expect("JSON");
    history["sessions"][0]["id"].as_str().expect("a session").to_owned()
}

fn messages(server: &ModelServer, request: usize) -> String {
    server.requests()[request].body["messages"].to_string()
}

#[expect(clippy::disallowed_methods, reason = "the tests apply a diff as a user does")]
fn git_apply(repository: &Path, diff: &str, flags: &[&str]) -> Finished {
    use std::io::Write;
    let mut child = std::process::Command::new("git")
        .arg("apply")
        .args(flags)
        .current_dir(repository)
        .env("GIT_CEILING_DIRECTORIES", "/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(diff.as_bytes()).expect("it reads");
    drop(stdin);
    finish(child.wait_with_output().expect("it ends"))
}

/// Edits of click that keep its behaviour: two files in place, and a new one in a new directory.
fn good_edits() -> [ScriptedCall; 3] {
    [
        edit(
            "src/click/_textwrap.py",
            "space_left = max(width - cur_len, 1)",
            "space_left = max(1, width - cur_len)",
        ),
        edit(
            "src/click/globals.py",
            "    if ctx is not None:\n        return ctx.color\n\n    return None",
            "    return None if ctx is None else ctx.color",
        ),
        write("src/click/shared/names.py", "\"\"\"Names that modules share.\"\"\"\n"),
    ]
}

#[test]
fn a_refactor_of_click_changes_three_files_and_runs_the_tests_before_and_after() {
    let repository = click();
    let root = repository.path();
    let (server, home) = scripted([
        read(&["src/click/_textwrap.py", "src/click/globals.py"]),
        Round::calls(good_edits()),
        Round::text("Simplified two functions (src/click/globals.py:59)."),
    ]);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(root.join("src/click/globals.py"), mode).expect("it is ours");
    let before = tree(root);
    let flags = ["refactor", "simplify", "--focus", "src/click"];
    let finished = home.run(root, &[&flags[..], &RUN_TESTS].concat()).expect(0);
    let id = newest(&home);
    for (name, does) in [("diff", "shows the changes"), ("undo", "takes them back")] {
        holds(&finished.stderr, &[&format!("`tool {name} {id}` {does}")]);
    }
    let closing = closing(&finished.stdout);
    holds(
        closing,
        &[
            "Changed 3 files: `src/click/_textwrap.py` (+1 -1), `src/click/globals.py` (+1 -4), \
             `src/click/shared/names.py` (new, +1).",
            "```diff\ndiff --git a/src/click/_textwrap.py b/src/click/_textwrap.py\n",
            "-        space_left = max(width - cur_len, 1)\n+        space_left = max(1, width - cur_len)\n",
            "- Tests before the change: PASSED: 628 passed, 21 skipped, 1 xfailed in ",
            "- Tests after the change: PASSED: 628 passed, 21 skipped, 1 xfailed in ",
        ],
    );
    assert_eq!(
        finished.stderr.matches("skill run_tests timeout_seconds").count(),
        2,
        "{}",
        finished.stderr
    );
    holds(&messages(&server, 0), &["Focus: src/click"]);
    holds(
        &messages(&server, 2),
        &["# Tests before any change", "PASSED: 628 passed"],
    );
    let report = text(&root.join("session-reports/session_latest.md"));
    holds(
        &report,
        &[
            "| src/click/shared/names.py | created | 1 | 0 |",
            "## Diff\n\n```diff\ndiff --git",
            "Skill `run_tests`",
            "Tests after the change",
        ],
    );

    let diff = home.run(root, &["diff"]).expect(0);
    holds(
        &diff.stdout,
        &["new file mode 100644\n--- /dev/null\n+++ b/src/click/shared/names.py\n"],
    );
    assert!(!diff.stdout.contains('\u{1b}'), "no colours in a pipe");
    git_apply(root, &diff.stdout, &["--reverse", "--check"]).expect(0);

    let undone = home.run(root, &["undo", "--json"]).expect(0);
    let undone: Value = serde_json::from_str(&undone.stdout).expect("JSON");
    assert_eq!(undone["session_id"], json!(id));
    assert_eq!(undone["restored"].as_array().map(Vec::len), Some(3));
    assert_eq!(differences(root, &before), Vec::<PathBuf>::new());
    git_apply(root, &diff.stdout, &["--check"]).expect(0);

    let redo = undone["undo_session_id"].as_str().expect("an undo");
    let redone = home.run(root, &["undo", redo]).expect(0);
    holds(&redone.stdout, &["restored  src/click/shared/names.py\n"]);
    assert_eq!(home.run(root, &["diff"]).expect(0).stdout, diff.stdout);
}

#[test]
fn a_refactor_that_breaks_tests_says_so_and_is_undone_byte_for_byte() {
    let repository = click();
    let root = repository.path();
    let mut calls = good_edits();
    calls[1] = edit("src/click/globals.py", "_local.stack[-1]", "_local.stack[0]");
    let (_server, home) = scripted([
        read(&["src/click/_textwrap.py", "src/click/globals.py"]),
        Round::calls(calls),
        Round::text("Done."),
    ]);
    let before = tree(root);
    let finished = home
        .run(root, &[&["refactor", "simplify"][..], &RUN_TESTS].concat())
        .expect(1);
    let id = newest(&home);
    let worse = "`tests/test_commands.py::test_forwarded_params_consistency` and 3 more fail now and did not before";
    holds(
        closing(&finished.stdout),
        &[
            "- Tests after the change: FAILED: 4 failed, 624 passed",
            &format!("- The tests got worse: {worse}\n"),
        ],
    );
    holds(
        &finished.stderr,
        &[
            &format!("[error] refactor made the tests worse: {worse}\n"),
            &format!("hint: `tool undo {id}` brings the old state back\n"),
        ],
    );
    let result = home.run(root, &["results", "--json"]).expect(1).stdout;
    let result: Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(
        (&result["status"], &result["error"]["code"]),
        (&json!("failed"), &json!("tests-worse"))
    );
    assert_eq!(result["files_modified"].as_array().map(Vec::len), Some(3));

    // The user goes on with one of the files.
    let theirs = text(&root.join("src/click/globals.py")) + "# mine\n";
    std::fs::write(root.join("src/click/globals.py"), &theirs).expect("it is ours");
    let diff = home.run(root, &["diff", &id]).expect(0);
    holds(
        &diff.stdout,
        &["+        return t.cast(\"Context\", _local.stack[0])\n"],
    );
    holds(&diff.stderr, &["`src/click/globals.py`: it has been changed since"]);
    let undone = home.run(root, &["undo"]).expect(1);
    // The edits touch other lines: it is shown how both could stand, and nothing of it is done.
    holds(
        &undone.stdout,
        &[
            "+        return t.cast(\"Context\", _local.stack[-1])\n",
            "restored  src/click/_textwrap.py\nremoved   src/click/shared/names.py\nleft      src/click/globals.py\n",
        ],
    );
    holds(
        &undone.stderr,
        &[
            "[error] One file was left as it is: `src/click/globals.py` has been changed since\n",
            &format!("hint: `tool undo --merge {id}`"),
        ],
    );
    assert_eq!(text(&root.join("src/click/globals.py")), theirs);
    assert!(
        !root.join("src/click/shared").exists(),
        "the directory went with its file"
    );

    std::fs::write(root.join("src/click/globals.py"), theirs.replace("# mine\n", "")).expect("it is ours");
    home.run(root, &["service", "restart"]).expect(0);
    let undone = home.run(root, &["undo"]).expect(0);
    assert_eq!(undone.stdout, "restored  src/click/globals.py\n");
    assert_eq!(differences(root, &before), Vec::<PathBuf>::new());
    let history = home.run(root, &["history", "--json"]).expect(0).stdout;
    holds(&history, &["\"files_modified\": 3"]);

    let nothing = home.run(root, &["undo"]).expect(1);
    holds(
        &nothing.stderr,
        &["[error] No session has changed files in `", "hint: `tool history`"],
    );
    let nothing = home.run(root, &["undo", &id]).expect(1);
    holds(
        &nothing.stderr,
        &["[error] Nothing to undo: the session `", "is undone already"],
    );
    assert_eq!(home.run(root, &["diff"]).expect(0).stdout, "");
}

#[test]
fn a_refactor_of_an_npm_package_runs_its_script_before_and_after() {
    let repository = fixture("inherits-2.0.1");
    let root = repository.path();
    let readme = text(&root.join("README.md"));
    let first = readme.lines().next().expect("it is not empty").to_owned();
    let (_server, home) = scripted([
        read(&["inherits.js", "inherits_browser.js", "README.md"]),
        Round::calls([
            edit(
                "inherits.js",
                "require('util').inherits",
                "require('node:util').inherits",
            ),
            edit(
                "inherits_browser.js",
                "// old school shim for old browsers",
                "// shim for old browsers",
            ),
            edit("README.md", &first, &format!("# inherits\n\n{first}")),
        ]),
        Round::text("Done."),
        read(&["inherits.js"]),
        Round::calls([edit("inherits.js", "require('node:util').inherits", "{}")]),
        Round::text("Simpler."),
    ]);
    let before = tree(root);
    let refactor = [&["refactor", "tidy up"][..], &RUN_TESTS].concat();
    let finished = home.run(root, &refactor).expect(0);
    holds(
        closing(&finished.stdout),
        &[
            "Changed 3 files: `README.md` (+2 -0), `inherits.js` (+1 -1), `inherits_browser.js` (+1 -1).",
            "- Tests before the change: PASSED: exit status 0 in ",
            "- Tests after the change: PASSED: exit status 0 in ",
        ],
    );
    let good = tree(root);
    let finished = home.run(root, &refactor).expect(1);
    holds(
        &finished.stderr,
        &["[error] refactor made the tests worse: the run passed before and fails now\n"],
    );
    home.run(root, &["undo"]).expect(0);
    assert_eq!(differences(root, &good), Vec::<PathBuf>::new());
    let older = home.run(root, &["undo"]).expect(2).stderr;
    let older = older
        .split("`tool undo ")
        .nth(1)
        .and_then(|rest| rest.split('`').next());
    home.run(root, &["undo", older.expect("it is named")]).expect(0);
    assert_eq!(differences(root, &before), Vec::<PathBuf>::new(), "session by session");
}

#[test]
fn a_refactor_says_what_it_did_not_do() {
    let files = [("app.py", "x = 1\n"), ("test_app.py", "def test_x():\n    pass\n")];
    let repository = folder(&files);
    let (_server, home) = scripted([
        Round::text("It is fine as it is."),
        Round::calls([write("new.py", "y = 2\n")]),
        Round::text("Added."),
    ]);
    let refactor = ["refactor", "tidy up", "--deny", "run-process"];
    let unchanged = home.run(repository.path(), &refactor).expect(0);
    assert_eq!(
        unchanged.stdout,
        "It is fine as it is.\n\n---\n\nNothing was changed: every file is as it was before this session, whatever the \
         answer above says.\n"
    );
    let denied = ["refactor", "tidy up", "--deny", "run-process"];
    let changed = home.run(repository.path(), &denied).expect(1);
    let words = "- Tests: not run, because `run-process` is not allowed here\n";
    holds(
        closing(&changed.stdout),
        &["Changed 1 file: `new.py` (new, +1).", words],
    );
    assert!(!changed.stderr.contains("skill run_tests"), "{}", changed.stderr);
}

#[test]
fn a_refactor_whose_only_change_was_not_made_is_incomplete_whatever_the_reason() {
    let unchanged = "# ... rest of the code unchanged ...\nlimit = 11\n";
    let attempts = [
        (
            "`old` does not occur in `a.py`",
            edit("a.py", "limit = 99", "limit = 11"),
        ),
        ("leaves the repository", write("../outside.py", "x = 1\n")),
        ("unchanged", write("a.py", unchanged)),
        (
            "expected",
            ScriptedCall::new("write_file", json!({"path": "a.py", "content": 5})),
        ),
        (
            "exactly one of",
            ScriptedCall::new("write_file", json!({"path": "a.py"})),
        ),
    ];
    let repository = folder(&[("a.py", "limit = 10\nsize = 3\n")]);
    let root = repository.path();
    let rounds = attempts.iter().flat_map(|(_, attempt)| {
        let said = Round::text("I changed the limit in a.py and all is well.");
        let once = [read(&["a.py"]), Round::calls([attempt.clone()]), said];
        [once.clone(), once].concat()
    });
    let (_server, home) = scripted(rounds.collect::<Vec<_>>());
    for (why, _) in &attempts {
        let finished = home.run(root, &["refactor", "raise the limit"]).expect(1);
        holds(
            &finished.stderr,
            &["refactor is incomplete: a change of `", " failed: ", why],
        );
        holds(closing(&finished.stdout), &["Nothing was changed"]);
        home.run(root, &["ci", "refactor", "raise the limit"]).expect(1);
    }
}

#[test]
fn a_refactor_names_each_path_whose_last_change_was_not_made() {
    let repository = folder(&[("a.py", "limit = 10\n"), ("b.py", "size = 3\n"), ("c.py", "y = 1\n")]);
    let (_server, home) = scripted([
        read(&["a.py", "b.py", "c.py"]),
        Round::calls([
            edit("a.py", "limit = 99", "limit = 11"),
            edit("b.py", "size = 99", "size = 4"),
        ]),
        Round::calls([edit("a.py", "limit = 10", "limit = 11"), edit("./c.py", "z", "y")]),
        Round::text("All is well."),
    ]);
    let finished = home.run(repository.path(), &["refactor", "raise them"]).expect(0);
    let last = "\n- Not changed, because the last attempt failed: `b.py`, `c.py`\n";
    assert!(finished.stdout.ends_with(last), "{}", finished.stdout);
}

#[test]
fn a_running_session_is_not_undone() {
    let repository = folder(&[("app.py", "x = 1\n")]);
    let root = repository.path();
    let (server, home) = scripted([
        Round::calls([write("new.py", "y = 2\n")]),
        Round::new([
            ServerStep::Gate("undo was refused".into()),
            ServerStep::Text("Added.".into()),
        ]),
        Round::calls([write("other.py", "z = 3\n")]),
        Round::new([
            ServerStep::Gate("another one was undone".into()),
            ServerStep::Text("Added.".into()),
        ]),
    ]);
    let start = || {
        let mut command = home.tool(root, &["refactor", "tidy up"]);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs")
    };
    let wait_for = |name: &str| {
        let clock = std::time::Instant::now();
        while !root.join(name).exists() {
            assert!(clock.elapsed().as_secs() < 60, "{name} was never written");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let child = start();
    wait_for("new.py");
    // The file is in place a moment before the session is listed with it.
    let clock = std::time::Instant::now();
    let refused = loop {
        let refused = home.run(root, &["undo"]).expect(1);
        if !refused.stderr.contains("No session has changed files") || clock.elapsed().as_secs() > 60 {
            break refused;
        }
    };
    holds(
        &refused.stderr,
        &["is still running and cannot be undone\n", "hint: wait for its end"],
    );
    server.release("undo was refused");
    finish(child.wait_with_output().expect("it ends")).expect(0);
    let ended = newest(&home);

    let child = start();
    wait_for("other.py");
    home.run(root, &["undo", &ended]).expect(0);
    assert!(!root.join("new.py").exists() && root.join("other.py").exists());
    server.release("another one was undone");
    finish(child.wait_with_output().expect("it ends")).expect(0);
}

const GOOD_TEST: &str = "from click.globals import resolve_color_default\n\n\ndef test_given_value_wins():\n    \
     assert resolve_color_default(True) is True\n";
const WRONG_TEST: &str = "\n\ndef test_without_a_context():\n    assert resolve_color_default() is True\n";
const MENDED_TEST: &str = "\n\ndef test_without_a_context():\n    assert resolve_color_default() is None\n";

#[test]
fn generated_tests_of_click_are_run_and_mended() {
    let repository = click();
    let root = repository.path();
    let path = "tests/test_globals.py";
    let (server, home) = scripted([
        Round::calls([write(path, &format!("{GOOD_TEST}{WRONG_TEST}"))]),
        Round::text("Two tests."),
        Round::calls([write(path, &format!("{GOOD_TEST}{MENDED_TEST}"))]),
        Round::text("The expectation was wrong."),
    ]);
    let before = tree(root);
    let arguments = [&["test-gen", "src/click/globals.py"][..], &RUN_TESTS].concat();
    let finished = home.run(root, &arguments).expect(0);
    holds(
        closing(&finished.stdout),
        &[
            "The new tests were run: FAILED: 1 failed, 1 passed in ",
            "The model is asked to mend them (round 1 of 3).",
            "The expectation was wrong.\n\n---\n\nWrote 1 file: `tests/test_globals.py` (new, +9).",
            "- New tests: 2 passed, 0 failed; PASSED: 2 passed in ",
            "(after 1 round of mending)",
        ],
    );
    holds(
        &messages(&server, 2),
        &[
            "The service has run the tests that you wrote",
            "test_without_a_context",
            " tool=\\\"run_tests\\\" status=\\\"ok\\\" origin=\\\"outside the user's own files",
        ],
    );
    assert_eq!(
        finished.stderr.matches("skill run_tests timeout_seconds").count(),
        2,
        "{}",
        finished.stderr
    );
    assert_eq!(differences(root, &before), [PathBuf::from(path)]);
    home.run(root, &["undo"]).expect(0);
    assert_eq!(differences(root, &before), Vec::<PathBuf>::new());
}

#[test]
fn generated_tests_of_an_npm_package_are_run_and_mended() {
    let repository = fixture("inherits-2.0.1");
    let root = repository.path();
    let manifest = text(&root.join("package.json")).replace("\"node test\"", "\"node --test\"");
    std::fs::write(root.join("package.json"), manifest).expect("it is ours");
    let test = |expected: &str| {
        format!(
            "var test = require('node:test')\nvar assert = require('assert')\n\
             var inherits = require('./inherits_browser.js')\n\ntest('the parent is known', function () {{\n  \
             function Parent() {{}}\n  function Child() {{}}\n  inherits(Child, Parent)\n  \
             assert.strictEqual(Child.super_, {expected})\n}})\n"
        )
    };
    let (_server, home) = scripted([
        Round::calls([write("test-browser.js", &test("Child"))]),
        Round::text("One test."),
        Round::calls([write("test-browser.js", &test("Parent"))]),
        Round::text("Mended."),
    ]);
    let before = tree(root);
    let arguments = [&["test-gen", "inherits_browser.js"][..], &RUN_TESTS].concat();
    let finished = home.run(root, &arguments).expect(0);
    holds(
        closing(&finished.stdout),
        &[
            "The new tests were run: FAILED: 1 failed in ",
            "Wrote 1 file: `test-browser.js` (new, +10).",
            "- New tests: 1 passed, 0 failed; PASSED: 1 passed in ",
        ],
    );
    assert_eq!(differences(root, &before), [PathBuf::from("test-browser.js")]);
    home.run(root, &["undo"]).expect(0);
    assert_eq!(differences(root, &before), Vec::<PathBuf>::new());
}

#[test]
fn existing_files_are_never_changed_by_test_gen() {
    let repository = click();
    let root = repository.path();
    let existing = "tests/test_parser.py";
    let (server, home) = scripted([
        read(&[existing, "src/click/globals.py"]),
        Round::calls([
            write(existing, "def test_nothing():\n    pass\n"),
            edit(existing, "import pytest\n", ""),
            edit("src/click/globals.py", "_local = local()", "_local = None"),
        ]),
        Round::calls([write("tests/test_globals.py", GOOD_TEST)]),
        Round::text("One test."),
    ]);
    let before = tree(root);
    let arguments = [
        &["test-gen", "src/click/globals.py", "--allow", "write-repository"][..],
        &RUN_TESTS,
    ]
    .concat();
    let finished = home.run(root, &arguments).expect(0);
    assert_eq!(differences(root, &before), [PathBuf::from("tests/test_globals.py")]);
    let told = messages(&server, 2);
    let denied = "existed before this session, and this operation changes only what it created";
    assert_eq!(told.matches(denied).count(), 3, "{told}");
    holds(
        &finished.stderr,
        &["`write_file` was refused: `tests/test_parser.py` existed before"],
    );
    holds(
        closing(&finished.stdout),
        &["- New tests: 1 passed, 0 failed; PASSED: 1 passed in "],
    );
}

#[test]
fn tests_that_stay_broken_and_tests_that_were_never_written_fail_the_run() {
    let repository = click();
    let root = repository.path();
    let path = "tests/test_globals.py";
    let attempt = |number: u32| {
        let content = format!("{GOOD_TEST}{WRONG_TEST}# attempt {number}\n");
        [Round::calls([write(path, &content)]), Round::text("Now it passes.")]
    };
    let rounds: Vec<Round> = (1..=4).flat_map(attempt).collect();
    let (server, home) = scripted(rounds);
    let arguments = [&["test-gen", "src/click/globals.py"][..], &RUN_TESTS].concat();
    let finished = home.run(root, &arguments).expect(1);
    assert_eq!(server.requests().len(), 8, "three rounds of mending and no more");
    holds(
        closing(&finished.stdout),
        &[
            "(round 3 of 3)",
            "- New tests: 1 passed, 1 failed; FAILED: 1 failed, 1 passed in ",
            "(after 3 rounds",
        ],
    );
    holds(
        &finished.stderr,
        &["[error] test-gen is incomplete: the new tests do not pass: FAILED: 1 failed, 1 passed in "],
    );
    home.run(root, &["undo"]).expect(0);

    // A model that changes nothing is not asked again, and nothing is run twice.
    let (server, home) = scripted([
        Round::calls([write(path, &format!("{GOOD_TEST}{WRONG_TEST}"))]),
        Round::text("Two tests."),
        Round::text("I cannot mend it."),
    ]);
    let finished = home.run(root, &arguments).expect(1);
    assert_eq!(
        (
            server.requests().len(),
            finished.stderr.matches("skill run_tests").count()
        ),
        (3, 1)
    );
    home.run(root, &["undo"]).expect(0);

    let (_server, home) = scripted([Round::text("There is nothing to test.")]);
    let finished = home.run(root, &arguments).expect(1);
    assert_eq!(
        finished.stdout,
        "There is nothing to test.\n\n---\n\nNo test file was written.\n"
    );
    holds(
        &finished.stderr,
        &["[error] test-gen is incomplete: no test file was written for `src/click/globals.py`\n"],
    );
}

#[test]
fn explain_and_architect_run_on_both_repositories_and_change_nothing() {
    for (fixture_name, path) in [
        ("click-8.1.8", "src/click/globals.py"),
        ("inherits-2.0.1", "inherits.js"),
    ] {
        let repository = fixture(fixture_name);
        let root = repository.path();
        let answer = format!("It begins at `{path}:1`.");
        let proposal = format!("## 1. Split it\n\n- **There today:** `{path}:1`\n");
        let server = Script::new([
            read(&[path]),
            Round::text(&answer),
            Round::calls([write(path, "")]),
            Round::text(&proposal),
        ]);
        let server = ModelServer::start(server).expect("loopback has a free port");
        let home = Home::configured(&crate::providers::LOCAL.config(&server, ""));
        let before = tree(root);
        let explained = home.run(root, &["explain", path]).expect(0);
        holds(&explained.stdout, &[&answer, "0 citations hold, 1 not checked"]);
        let proposed = home.run(root, &["architect", "make it smaller"]).expect(0);
        holds(&proposed.stdout, &[proposal.trim(), "---"]);
        holds(&proposed.stderr, &["`write_file` was refused"]);
        assert_eq!(differences(root, &before), Vec::<PathBuf>::new());
        let nothing = home.run(root, &["diff", &newest(&home)]).expect(0);
        assert_eq!(nothing.stdout, "");
        holds(&nothing.stderr, &["changed no files."]);
    }
}

/// A git repository whose one commit holds these files, and in which every user may commit.
pub(crate) fn committed(files: &[(&str, &str)]) -> tempfile::TempDir {
    let repository = folder(files);
    let root = repository.path();
    git(root, &["init", "-q"]);
    git(root, &["config", "user.name", "Ada"]);
    git(root, &["config", "user.email", "ada@example.org"]);
    git(root, &["add", "."]);
    git(root, &["commit", "-qm", "Begin"]);
    repository
}

#[test]
fn a_commit_that_fails_fails_the_refactor_and_one_of_nothing_does_not() {
    let commit = |paths: Value| ScriptedCall::new("git_commit", json!({"message": "Print one", "paths": paths}));
    let rounds = || {
        [
            Round::calls([write("a.py", "print(1)\n")]),
            Round::calls([commit(json!(["a.py"]))]),
            Round::calls([commit(json!(["a.py"]))]),
            Round::text("Done."),
        ]
    };
    let (_server, home) = scripted(rounds().into_iter().chain(rounds()).chain(rounds()));
    let repository = committed(&[("a.py", "print()\n")]);
    let root = repository.path();
    let refactor = ["refactor", "a.py", "--allow", "commit-git", "--deny", "run-process"];

    std::fs::write(root.join(".git/index.lock"), "").expect("it is ours");
    let finished = home.run(root, &refactor).expect(1);
    holds(
        &finished.stderr,
        &["[error] refactor is incomplete: `git_commit` failed: Another git process holds the repository's lock."],
    );
    std::fs::remove_file(root.join(".git/index.lock")).expect("it is there");
    home.run(root, &["undo"]).expect(0);
    // The second commit has nothing left to do.
    home.run(root, &refactor).expect(0);
    assert_eq!(git(root, &["log", "--format=%s", "-1"]).trim(), "Print one");
    // An error that the test's surroundings cause is no mistake of the model's either.
    home.run(root, &["undo"]).expect(0);
    git(root, &["config", "gpg.format", "ssh"]);
    git(root, &["config", "commit.gpgsign", "true"]);
    let finished = home.run(root, &refactor).expect(1);
    holds(
        &finished.stderr,
        &["[error] refactor is incomplete: `git_commit` failed: "],
    );
}

#[test]
fn an_undo_names_the_commit_that_stays_and_passes_over_what_was_reverted_by_hand() {
    let commit = ScriptedCall::new("git_commit", json!({"message": "Print one", "paths": ["a.py"]}));
    let (_server, home) = scripted([
        Round::calls([write("a.py", "print(1)\n")]),
        Round::calls([commit]),
        Round::text("Done."),
        Round::calls([write("b.py", "print(2)\n")]),
        Round::text("Done."),
    ]);
    let repository = committed(&[("a.py", "print()\n"), ("b.py", "print()\n")]);
    let root = repository.path();
    home.run(root, &["refactor", "a.py", "--allow", "commit-git"]).expect(0);
    let id = git(root, &["rev-parse", "HEAD"]);
    home.run(root, &["refactor", "b.py"]).expect(0);
    git(root, &["checkout", "-q", "b.py"]);

    let passed_over = home.run(root, &["undo"]).expect(2).stderr;
    let older = passed_over
        .split("`tool undo ")
        .nth(1)
        .and_then(|rest| rest.split('`').next());
    let undone = home.run(root, &["undo", older.expect("it is named")]).expect(0);
    assert_eq!(undone.stdout, "restored  a.py\n");
    let stays = format!(
        "the commit {} stays: commit the restored files to take it back in git as well\n",
        &id[..12]
    );
    holds(&undone.stderr, &[&stays]);
    git(root, &["commit", "-qm", "Take it back", "a.py"]);
    assert_eq!(git(root, &["diff", "HEAD~2", "--stat"]), "", "the advice works");
}

#[test]
fn a_session_that_ends_because_the_backend_stops_says_so() {
    let repository = folder(&[("app.py", "x = 1\n")]);
    let root = repository.path();
    let (server, home) = scripted([Round::new([
        ServerStep::Text("It".into()),
        ServerStep::Gate("never".into()),
        ServerStep::Text(" counts.".into()),
    ])]);
    let mut command = home.tool(root, &["explain", "app.py"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let clock = std::time::Instant::now();
    while !server
        .requests()
        .iter()
        .any(|request| request.path.ends_with("completions"))
    {
        assert!(clock.elapsed().as_secs() < 60, "the model was never asked");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    home.run(root, &["service", "stop"]).expect(0);
    let ended = finish(child.wait_with_output().expect("it ends")).expect(1);
    holds(
        &ended.stderr,
        &["[error] The session was cancelled: the backend is stopping\n\
             hint: run the operation again; that starts the backend\n"],
    );
}
