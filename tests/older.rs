//! Homes that earlier versions wrote: this version reads their settings, sessions and skills.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::support::{Home, folder};

/// Repository that the fixture's sessions name; the test has it elsewhere.
const REPOSITORY: &str = "/home/user/shop";

const BEFORE: &str = "def total(prices):\n    return sum(prices)\n";
const AFTER: &str = "def total(prices):\n    \"\"\"Sum of the prices, in cents.\"\"\"\n    return sum(prices)\n";

/// Copies a home as its version left it: readable by its user alone.
fn copy_home(from: &Path, to: &Path, repository: &str) {
    for entry in std::fs::read_dir(from).expect("the fixture is readable") {
        let entry = entry.expect("the fixture is readable");
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            std::fs::create_dir(&copy).expect("the folder is writable");
            std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o700)).expect("it is ours");
            copy_home(&source, &copy, repository);
            continue;
        }
        let bytes = std::fs::read(&source).expect("the fixture is readable");
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => text.replace(REPOSITORY, repository).into_bytes(),
            Err(binary) => binary.into_bytes(),
        };
        std::fs::write(&copy, bytes).expect("the folder is writable");
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o600)).expect("it is ours");
    }
}

#[test]
fn a_home_of_version_0_1_keeps_its_settings_sessions_skills_and_undo() {
    let repository = folder(&[("shop.py", AFTER)]);
    let root = repository.path();
    let home = Home::empty();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/home-0.1");
    copy_home(
        &fixture,
        home.path(),
        root.to_str().expect("a path of the tests is UTF-8"),
    );
    let read = |arguments: &[&str]| -> Value {
        serde_json::from_str(&home.run(root, arguments).expect(0).stdout).expect("JSON")
    };

    let history = read(&["history", "--json"]);
    let sessions = history["sessions"].as_array().expect("a list");
    let operations: Vec<&str> = sessions
        .iter()
        .filter_map(|session| session["operation"].as_str())
        .collect();
    assert_eq!(operations, ["explain", "refactor"], "{history:#}");

    let tests = home.run(root, &["tests"]).expect(0).stdout;
    assert!(tests.contains("make check"), "{tests}");
    let skills = read(&["skill", "list", "--json"]);
    let echo = skills["skills"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|skill| skill["name"] == "echo");
    assert_eq!(echo.expect("the skill is there")["state"], "ready", "{skills:#}");
    let answer = home
        .run(root, &["skill", "call", "echo", r#"{"text": "still here"}"#])
        .expect(0);
    assert!(answer.stdout.contains("still here"), "{}", answer.stdout);

    let refactor = sessions[1]["id"].as_str().expect("an identifier");
    home.run(root, &["undo", refactor]).expect(0);
    assert_eq!(
        std::fs::read_to_string(root.join("shop.py")).expect("it is there"),
        BEFORE
    );
    home.run(root, &["explain", "."]).expect(0);
}
