//! Things that a newcomer types wrongly: each answer leads to the right command.

use crate::providers::scripted;
use crate::support::{Home, folder, holds};
use tool_model_server::{Round, ScriptedCall};

const SHOP: &[(&str, &str)] = &[
    ("README.md", "# shop\n\nCounts carts.\n"),
    ("src/cart.py", "class Cart:\n    def sum(self):\n        return 0\n"),
];

/// The words that were typed, and a part of the answer that leads on.
const MISTAKES: [(&[&str], &str); 27] = [
    (&["login"], "`tool init` sets the provider and its key"),
    (&["update"], "`tool skill update` updates skills"),
    (&["logs"], "`tool results` shows what a session did"),
    (&["stop"], "`tool cancel latest` ends the running session"),
    (&["resume"], "`tool continue \"…\"` goes on with the newest session"),
    (&["chat"], "`tool continue \"…\"` goes on with the newest session"),
    (&["fix", "src/cart.py"], "`tool refactor \"…\"` changes code"),
    (&["test", "src/cart.py"], "`tool test-gen FILE` writes tests"),
    (&["review"], "`tool architect \"…\"` proposes improvements"),
    (&["revert"], "`tool undo` takes back"),
    (&["sessions"], "`tool history` lists sessions"),
    (&["status"], "`tool service status` shows the backend"),
    (&["model", "gpt"], "`tool models` lists models and servers"),
    (&["settings"], "`tool config` shows the settings"),
    (&["how does a cart work?"], "`tool ask \"…\"`"),
    (&["explian", "."], "similar subcommand exists: 'explain'"),
    (&["explain", "src/cat.py"], "did you mean `src/cart.py`?"),
    (&["explain", "Carts"], "did you mean `Cart` (src/cart.py:1)?"),
    (
        &["explain", "--modle", "x", "."],
        "a similar argument exists: '--model'",
    ),
    (&["test-gen", "src"], "name one file: `tool test-gen <file>`"),
    (&["refactor"], "the usage is `tool refactor"),
    (
        &["skill", "call", "read_fil", "path=README.md"],
        "did you mean `read_file`?",
    ),
    (
        &["skill", "call", "read_file", "README.md"],
        "`tool skill call read_file path=README.md`",
    ),
    (&["skill", "call", "read_file", "paht=README.md"], "path"),
    (&["undo", "my-session"], "`tool history` shows them"),
    (&["continue", "and then?"], "`tool history` shows the sessions"),
    (&["diff", "deadbeef"], "`tool history` shows them"),
];

#[test]
fn each_mistake_is_answered_with_the_right_command() {
    let (home, repository) = (Home::offline(), folder(SHOP));
    for (typed, leads) in MISTAKES {
        let said = home.run(repository.path(), typed);
        assert!(matches!(said.code, 1 | 2), "{typed:?}: {said:?}");
        assert!(said.stderr.starts_with("[error] "), "{typed:?}: {}", said.stderr);
        assert!(said.stderr.contains(leads), "{typed:?}: {}", said.stderr);
    }
    assert!(
        !repository.path().join("session-reports").exists(),
        "no session was made"
    );
}

#[test]
fn arguments_of_a_call_are_words() {
    let (home, repository) = (Home::offline(), folder(SHOP));
    let call = |words: &[&str]| {
        let arguments: Vec<&str> = ["skill", "call"].iter().chain(words).copied().collect();
        home.run(repository.path(), &arguments)
    };
    holds(
        &call(&["read_file", "path=README.md"]).expect(0).stdout,
        &["Counts carts."],
    );
    let first_line = call(&["read_file", "path=README.md", "limit=1"]).expect(0).stdout;
    assert!(!first_line.contains("Counts carts."), "{first_line}");
    holds(
        &call(&["search_code", "pattern=def sum", "globs=[\"*.py\"]"])
            .expect(0)
            .stdout,
        &["src/cart.py"],
    );
    holds(&call(&["list_files"]).expect(0).stdout, &["README.md"]);
}

#[test]
fn a_skill_list_says_what_each_is_for() {
    let (home, repository) = (Home::offline(), folder(SHOP));
    let listed = home.run(repository.path(), &["skill", "list"]).expect(0).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("read_file "))
        .expect("it is listed");
    assert!(lines[at + 1].starts_with("  ") && lines[at + 1].len() > 10, "{listed}");
}

#[test]
fn an_undo_goes_to_an_older_session_only_by_its_name() {
    let write = |path: &str| {
        Round::calls([ScriptedCall::new(
            "write_file",
            serde_json::json!({"path": path, "content": "x = 1\n"}),
        )])
    };
    let (_server, home) = scripted([
        write("one.py"),
        Round::text("One."),
        write("two.py"),
        Round::text("Two."),
    ]);
    let repository = folder(SHOP);
    let run = |arguments: &[&str]| home.run(repository.path(), arguments);
    run(&["refactor", "add one.py", "--unverified"]).expect(0);
    run(&["refactor", "add two.py", "--unverified"]).expect(0);
    holds(
        &run(&["undo"]).expect(0).stderr,
        &["takes back the session ", "`two.py` (+1 -0)"],
    );
    let refused = run(&["undo"]).expect(2).stderr;
    holds(
        &refused,
        &[
            "The changes of the newest session are undone already",
            "`one.py` (+1 -0)",
        ],
    );
    assert!(repository.path().join("one.py").exists());
    let named = refused
        .split("`tool undo ")
        .nth(1)
        .and_then(|rest| rest.split('`').next())
        .expect("an id");
    run(&["undo", named]).expect(0);
    assert!(!repository.path().join("one.py").exists());
}

#[test]
fn all_turns_of_a_conversation_are_undone_at_once() {
    let write = |path: &str| {
        Round::calls([ScriptedCall::new(
            "write_file",
            serde_json::json!({"path": path, "content": "x = 1\n"}),
        )])
    };
    let (_server, home) = scripted([
        write("one.py"),
        Round::text("One."),
        write("two.py"),
        Round::text("Two."),
    ]);
    let repository = folder(SHOP);
    let run = |arguments: &[&str]| home.run(repository.path(), arguments);
    run(&["refactor", "add one.py", "--unverified"]).expect(0);
    let second = run(&["continue", "and two.py", "--unverified"]).expect(0);
    holds(&second.stderr, &["1 file changed (+1 -0), ", " tokens, session "]);
    let listed = run(&["history"]).expect(0).stdout;
    holds(&listed, &["add one.py", "↳ ", "and two.py", "s ago"]);
    run(&["undo", "--conversation"]).expect(0);
    assert!(!repository.path().join("one.py").exists() && !repository.path().join("two.py").exists());
}
