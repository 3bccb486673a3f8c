//! The commands for skill authors, where something is wrong.

use std::fs;

use serde_json::Value;

use super::Author;
use crate::support::{guest, holds};

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_new_skill_has_a_name_of_its_own_and_a_new_folder() {
    let author = Author::new();
    let place = author.folder.path();
    let new = |arguments: &[&str]| author.tool(place, &[&["skill", "new"], arguments].concat());
    for (name, said) in [
        ("Todo", "`Todo` is not a name of a skill"),
        ("1st", "`1st` is not a name of a skill"),
        ("to-do", "`to-do` is not a name of a skill"),
        ("../up", "`../up` is not a name of a skill"),
        ("read_file", "`read_file` is the name of a built-in tool"),
        ("serde", "a name that no crate can have"),
    ] {
        holds(&new(&[name, "--lang", "rust"]).expect(2).stderr, &[said]);
    }
    holds(&new(&["todo"]).expect(2).stderr, &["--lang"]);
    holds(
        &new(&["todo", "--lang", "cobol"]).expect(2).stderr,
        &["rust", "python", "js"],
    );
    assert_eq!(fs::read_dir(place).expect("it is there").count(), 0, "nothing was made");
    let made = new(&["todo", "--lang", "python", "--dir", "deep/er"]).expect(0);
    holds(&made.stdout, &["Made deep/er, a skill in Python.", "tool skill build"]);
    fs::write(place.join("deep/er/app.py"), "mine").expect("it is writable");
    let refused = new(&["todo", "--lang", "js", "--dir", "deep/er"]).expect(2);
    holds(&refused.stderr, &["`deep/er` is there already"]);
    assert_eq!(
        fs::read_to_string(place.join("deep/er/app.py")).expect("it is there"),
        "mine"
    );
    assert!(!place.join("deep/er/skill.js").exists());
}

#[test]
fn what_cannot_be_built_or_tested_says_why() {
    let author = Author::new();
    let place = author.folder.path();
    let tool = |arguments: &[&str]| author.tool(place, arguments);
    holds(
        &tool(&["skill", "build"]).expect(2).stderr,
        &["There is no skill in", "app.py (Python)"],
    );
    holds(&tool(&["skill", "build", "nowhere"]).expect(2).stderr, &["nowhere"]);
    holds(&tool(&["skill", "test"]).expect(2).stderr, &["There is no cases.toml"]);
    fs::write(place.join("cases.toml"), "").expect("it is writable");
    holds(&tool(&["skill", "test"]).expect(2).stderr, &["holds no case"]);
    fs::write(place.join("cases.toml"), "[[case]]\nname = \"a\"\nequal = \"x\"\n").expect("it is writable");
    holds(
        &tool(&["skill", "test"]).expect(2).stderr,
        &["line 3", "did you mean `equals`?"],
    );
    fs::write(place.join("cases.toml"), "[[case]]\nname = \"a\"\nequals = \"x\"\n").expect("it is writable");
    holds(
        &tool(&["skill", "test"]).expect(2).stderr,
        &["There is no component", "tool skill build"],
    );
    fs::write(place.join("broken.wasm"), "no component").expect("it is writable");
    holds(
        &tool(&["skill", "test"]).expect(1).stderr,
        &["it is no WebAssembly component"],
    );
    fs::write(place.join("other.wasm"), "").expect("it is writable");
    holds(
        &tool(&["skill", "test"]).expect(2).stderr,
        &["There are several components"],
    );
}

#[test]
fn a_case_that_fails_says_what_differs_and_what_it_cost() {
    let author = Author::new();
    let place = author.folder.path();
    fs::copy(guest("echo"), place.join("echo.wasm")).expect("it was built");
    let cases = r#"
        [[case]]
        name = "answers"
        arguments = { text = "hi" }
        equals = '{"text":"hi"}'

        [[case]]
        name = "answers something else"
        arguments = '{"text": "hi"}'
        contains = "ho"

        [[case]]
        name = "is refused"
        arguments = { text = 1 }
        fails = "invalid-arguments"
    "#;
    fs::write(place.join("cases.toml"), cases).expect("it is writable");
    let shown = author.tool(place, &["skill", "test"]).expect(1);
    holds(
        &shown.stdout,
        &[
            "ok    answers",
            "FAIL  answers something else",
            "the answer lacks `ho`: {\"text\":\"hi\"}",
            "KiB of memory",
            "is refused              nothing ran",
            "2 of 3 cases passed",
        ],
    );
    let told = json_of(&author.tool(place, &["skill", "test", "--json"]).expect(1).stdout);
    assert_eq!((&told["passed"], &told["failed"]), (&2.into(), &1.into()));
    assert_eq!(told["skill"]["name"], "echo");
    assert_eq!(told["cases"][1]["passed"], false);
    assert!(
        told["cases"][0]["receipt"]["wall_us"]
            .as_u64()
            .is_some_and(|wall| wall > 0),
        "{told}"
    );
    // Nothing was added by trying it out, and no backend was started.
    assert!(!author.home.path().join("skills").exists());
    assert!(!author.home.path().join("backend.json").exists());
}

#[test]
fn a_case_runs_programs_only_by_the_users_own_word() {
    let author = Author::new();
    let place = author.folder.path();
    fs::copy(guest("echo"), place.join("echo.wasm")).expect("it was built");
    let case = "[[case]]\nname = \"runs\"\nallow = [\"run-process\"]\nequals = \"{}\"\n";
    fs::write(place.join("cases.toml"), case).expect("it is writable");
    let test = |flags: &[&str]| author.tool(place, &[&["skill", "test"], flags].concat());
    let refused = test(&[]).expect(1);
    assert_eq!(refused.stdout, "", "nothing was called");
    holds(
        &refused.stderr,
        &[
            "The case `runs` allows `run-process`",
            "your own word",
            "--allow run-process",
        ],
    );
    test(&["--allow", "install"]).expect(1);
    holds(
        &test(&["--allow", "run"]).expect(2).stderr,
        &["Unknown effect `run`", "run-process"],
    );
    let passed = test(&["--allow", "run-process"]).expect(0);
    holds(&passed.stdout, &["1 of 1 cases passed"]);
    holds(&passed.stderr, &["There is no folder `fixture`"]);
    fs::create_dir(place.join("fixture")).expect("it is writable");
    let quiet = test(&["--allow", "run-process"]).expect(0);
    assert!(!quiet.stderr.contains("fixture"), "{}", quiet.stderr);
    // An audit is of the same cases, and runs nothing whatever they allow.
    fs::remove_dir(place.join("fixture")).expect("it is ours");
    std::os::unix::fs::symlink("/", place.join("fixture")).expect("links can be made");
    for command in [
        &["skill", "test", "--allow", "run-process"][..],
        &["skill", "audit", "read_file", "--cases", "."],
    ] {
        holds(&author.tool(place, command).expect(2).stderr, &["fixture` is a link"]);
    }
}

#[test]
fn an_inspection_shows_what_is_asked_for_also_of_what_is_refused() {
    let author = Author::new();
    let place = author.folder.path();
    fs::copy(guest("echo"), place.join("echo.wasm")).expect("it was built");
    let shown = author.tool(place, &["skill", "inspect", "echo.wasm"]).expect(0);
    holds(
        &shown.stdout,
        &[
            "echo 1.0.0",
            "effects  none",
            "world    tool:skill@1.0.0",
            "tool:skill/handler@1.0.0",
            "\"type\": \"object\"",
        ],
    );
    let told = json_of(
        &author
            .tool(place, &["skill", "inspect", "echo.wasm", "--json"])
            .expect(0)
            .stdout,
    );
    assert_eq!(told["worlds"], serde_json::json!(["tool:skill@1.0.0"]));
    assert_eq!(told["functions"][0]["parameters"]["type"], "object");
    // A component that was built for another version of the contract.
    let wasm = fs::read(place.join("echo.wasm")).expect("it is there");
    let (from, to) = (b"tool:skill/handler@1.0.0", b"tool:skill/handler@2.9.0");
    let mut other = wasm.clone();
    for at in 0..wasm.len() - from.len() {
        if wasm[at..].starts_with(from) {
            other[at..at + to.len()].copy_from_slice(to);
        }
    }
    fs::write(place.join("other.wasm"), other).expect("it is writable");
    let refused = author.tool(place, &["skill", "inspect", "other.wasm"]).expect(1);
    holds(
        &refused.stdout,
        &["tool:skill@2.9.0", "tool:skill/handler@2.9.0", "digest"],
    );
    holds(
        &refused.stderr,
        &["it was built for tool:skill@2.9.0, and this host has tool:skill@1.0.0"],
    );
    let refused = author
        .tool(place, &["skill", "inspect", "other.wasm", "--json"])
        .expect(1);
    let told = json_of(&refused.stdout);
    holds(told["refused"].as_str().expect("it says why"), &["tool:skill@2.9.0"]);
    assert_eq!(told["digest"].as_str().map(str::len), Some(64));
}
