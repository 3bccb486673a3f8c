//! Skills of a team: added, changed, locked, audited, signed, and handed on by a registry, through the real binary.

mod loops;
mod registry;
mod signed;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Finished, Home, folder, guest, holds};

/// A component of the tests' own, changed where its description stands: the same skill in another version, or with other
/// effects, as long as each text has as many bytes as before.
pub(super) fn changed(name: &str, changes: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let mut bytes = std::fs::read(guest(name)).expect("it is readable");
    for (from, to) in changes {
        assert_eq!(from.len(), to.len(), "{from} {to}");
        let places: Vec<usize> = bytes
            .windows(from.len())
            .enumerate()
            .filter(|(_, window)| *window == from.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "`{from}` is not in `{name}`");
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join(format!("{name}.wasm"));
    std::fs::write(&path, bytes).expect("the folder is writable");
    (folder, path)
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().expect("a path of the tests is UTF-8")
}

fn skill(home: &Home, arguments: &[&str]) -> Finished {
    home.run(Path::new("/"), &[&["skill"], arguments].concat())
}

/// Returns the list's entry of one skill.
pub(super) fn entry(home: &Home, name: &str) -> Option<Value> {
    let listed: Value = serde_json::from_str(&skill(home, &["list", "--json"]).expect(0).stdout).expect("JSON");
    let skills = listed["skills"].as_array().expect("a list").clone();
    skills.into_iter().find(|skill| skill["name"] == name)
}

fn state(home: &Home, name: &str) -> Value {
    entry(home, name).map_or(Value::Null, |entry| entry["state"].clone())
}

#[test]
fn a_skill_is_shown_added_called_disabled_and_removed() {
    let (home, root) = (Home::offline(), folder(&[("a.txt", "x\n")]));
    let echo = guest("echo");
    let refused = skill(&home, &["add", text(&echo)]).expect(1);
    holds(
        &refused.stderr,
        &["echo 1.0.0", "effects  none", "Nothing was pinned", "--yes"],
    );
    assert_eq!(entry(&home, "echo"), None);
    let added = skill(&home, &["add", text(&echo), "--yes"]).expect(0);
    assert_eq!(added.stdout, "Added echo 1.0.0.\n");
    let call = || home.run(root.path(), &["skill", "call", "echo", r#"{"text": "hello"}"#]);
    holds(&call().expect(0).stdout, &["hello"]);
    // Again changes nothing, and asks nothing.
    skill(&home, &["add", text(&echo)]).expect(0);

    assert_eq!(skill(&home, &["disable", "echo"]).expect(0).stdout, "Disabled echo.\n");
    assert_eq!(state(&home, "echo"), "disabled");
    holds(&call().expect(1).stderr, &["disabled", "tool skill enable echo"]);
    // A new pin of the same file does not bring it back.
    skill(&home, &["add", text(&echo), "--yes"]).expect(0);
    assert_eq!(state(&home, "echo"), "disabled");
    assert_eq!(skill(&home, &["enable", "echo"]).expect(0).stdout, "Enabled echo.\n");
    call().expect(0);

    skill(&home, &["remove", "echo"]).expect(0);
    assert_eq!(entry(&home, "echo"), None);
    for command in ["remove", "disable", "enable", "trust", "update"] {
        holds(&skill(&home, &[command, "echo"]).expect(2).stderr, &["[error]", "echo"]);
    }
}

#[test]
fn every_component_of_a_folder_is_added_and_an_empty_one_says_so() {
    let home = Home::offline();
    let folder = TempDir::new().expect("a temporary folder");
    let empty = skill(&home, &["add", text(folder.path()), "--yes"]).expect(1);
    holds(&empty.stderr, &["There is no component in", "NAME.wasm"]);
    for name in ["echo", "summing"] {
        std::fs::copy(guest(name), folder.path().join(format!("{name}.wasm"))).expect("the folder is writable");
    }
    let added = skill(&home, &["add", text(folder.path()), "--yes"]).expect(0);
    assert_eq!(added.stdout, "Added echo 1.0.0.\nAdded summing 1.0.0.\n");
}

#[test]
fn a_skill_that_asks_for_more_is_stopped_until_that_is_confirmed() {
    let home = Home::offline();
    skill(&home, &["add", text(&guest("summing")), "--yes"]).expect(0);
    less(&home, "summing");
    let new = guest("summing");
    for flags in [&[][..], &["--yes"]] {
        let refused = skill(&home, &[&["add", text(&new)], flags].concat()).expect(1);
        holds(
            &refused.stderr,
            &[
                "read-repository (new)",
                "asks for more than before",
                "--allow-effects read-repository",
            ],
        );
    }
    let wrong = skill(&home, &["add", text(&new), "--yes", "--allow-effects", "read-git"]).expect(1);
    holds(&wrong.stderr, &["--allow-effects read-repository"]);
    skill(&home, &["add", text(&new), "--yes", "--allow-effects", "root"]).expect(2);
    assert_eq!(
        entry(&home, "summing").expect("it is there")["effects"],
        serde_json::json!([])
    );
    skill(
        &home,
        &[
            "add",
            text(&new),
            "--allow-effects",
            "read-repository,read-git",
            "--yes",
        ],
    )
    .expect(0);
    let granted = entry(&home, "summing").expect("it is there")["effects"].clone();
    assert_eq!(granted, serde_json::json!(["read-repository"]));
}

/// The user has not looked at a component that `--yes` adds.
#[test]
fn yes_alone_grants_reading_and_says_what_it_withholds() {
    let home = Home::offline();
    let bundle = guest("bundle");
    let effects = |name: &str| entry(&home, name).expect("it is there")["effects"].clone();
    let added = skill(&home, &["add", text(&bundle), "--yes"]).expect(0);
    holds(
        &added.stderr,
        &[
            "effects  read-repository, write-repository\n",
            "granted  read-repository\n",
            "withheld write-repository: --yes alone grants read-repository; to grant the rest, add --allow-effects \
             write-repository\n",
        ],
    );
    assert_eq!(effects("bundle"), serde_json::json!(["read-repository"]));
    let named = ["add", text(&bundle), "--yes", "--allow-effects", "write-repository"];
    skill(&home, &named).expect(0);
    assert_eq!(
        effects("bundle"),
        serde_json::json!(["read-repository", "write-repository"])
    );
    let reaching = skill(&home, &["add", text(&guest("reaching")), "--yes"]).expect(0);
    holds(
        &reaching.stderr,
        &["granted  none\n", "add --allow-effects http:127.0.0.1,http:localhost,"],
    );
    assert_eq!(effects("reaching"), serde_json::json!([]));
}

/// Takes every effect from a pinned skill, as if the version before had asked for none.
fn less(home: &Home, name: &str) {
    let path = home.path().join("skills/pins.json");
    let mut pins: Value = serde_json::from_slice(&std::fs::read(&path).expect("it is there")).expect("JSON");
    pins["skills"][name]["descriptor"]["functions"][0]["effects"] = serde_json::json!([]);
    std::fs::write(&path, pins.to_string()).expect("the home is ours");
}

#[test]
fn a_changed_byte_is_refused_and_a_new_version_is_shown_beside_the_old() {
    let (home, root) = (Home::offline(), folder(&[("a.txt", "x\n")]));
    skill(&home, &["add", text(&guest("echo")), "--yes"]).expect(0);
    let installed = home.path().join("skills/echo.wasm");
    let (_folder, newer) = changed(
        "echo",
        &[("Answers with its arguments.", "Answers with all arguments.")],
    );
    std::fs::copy(&newer, &installed).expect("the home is ours");
    assert_eq!(state(&home, "echo"), "changed");
    let refused = home.run(root.path(), &["skill", "call", "echo"]).expect(1);
    holds(&refused.stderr, &["has changed since it was added"]);
    let shown = skill(&home, &["trust", "echo"]).expect(1);
    holds(
        &shown.stderr,
        &[
            "Answers with all arguments.",
            "before   1.0.0",
            "under the same version",
        ],
    );
    skill(&home, &["trust", "echo", "--yes"]).expect(0);
    home.run(root.path(), &["skill", "call", "echo"]).expect(0);
    // Behind the daemon's back and with the same size, a byte of the code.
    let mut bytes = std::fs::read(&installed).expect("it is there");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&installed, bytes).expect("the home is ours");
    home.run(root.path(), &["skill", "call", "echo"]).expect(1);
    assert_eq!(state(&home, "echo"), "changed");
}

#[test]
fn a_built_in_name_and_another_world_are_refused_with_their_sentences() {
    let home = Home::offline();
    let (_folder, named) = changed("echo", &[]);
    let ours = guest("read_file");
    let refused = skill(&home, &["add", text(&ours), "--yes"]).expect(1);
    holds(&refused.stderr, &["its name, `read_file`, is that of a built-in tool"]);
    // Not added, but put there.
    std::fs::create_dir_all(home.path().join("skills")).expect("the home is ours");
    std::fs::copy(&named, home.path().join("skills/read_file.wasm")).expect("the home is ours");
    let listed = skill(&home, &["list"]).expect(0).stdout;
    holds(&listed, &["refused: its name is that of a built-in tool"]);
    let (_folder, other) = changed("echo", &[("tool:skill/handler@1.0.0", "tool:skill/handler@2.9.0")]);
    let refused = skill(&home, &["add", text(&other), "--yes"]).expect(1);
    holds(
        &refused.stderr,
        &["it was built for tool:skill@2.9.0, and this host has tool:skill@1.0.0"],
    );
}

#[test]
fn a_skill_is_updated_from_where_it_came() {
    let home = Home::offline();
    let (_folder, file) = changed("echo", &[]);
    skill(&home, &["add", text(&file), "--yes"]).expect(0);
    let same = skill(&home, &["update", "echo"]).expect(0);
    assert_eq!(same.stdout, "echo 1.0.0 is what is there.\n");
    let (_newer, newer) = changed(
        "echo",
        &[("Answers with its arguments.", "Answers with all arguments.")],
    );
    std::fs::copy(&newer, &file).expect("the folder is writable");
    skill(&home, &["update", "echo"]).expect(1);
    let updated = skill(&home, &["update", "--all", "--yes"]).expect(0);
    assert_eq!(updated.stdout, "Updated echo from 1.0.0 to 1.0.0.\n");
    let other = skill(&home, &["update", "echo", "--from", text(&guest("summing")), "--yes"]).expect(1);
    holds(&other.stderr, &["holds `summing`, not `echo`"]);
    std::fs::remove_file(&file).expect("it is ours");
    holds(
        &skill(&home, &["update", "--all", "--yes"]).expect(1).stderr,
        &["echo: "],
    );
    // A pin of an earlier version knows no place.
    let path = home.path().join("skills/pins.json");
    let mut pins: Value = serde_json::from_slice(&std::fs::read(&path).expect("it is there")).expect("JSON");
    let pin = pins["skills"]["echo"].as_object_mut().expect("it is pinned");
    pin.retain(|key, _| key == "digest" || key == "descriptor");
    std::fs::write(&path, pins.to_string()).expect("the home is ours");
    assert_eq!(state(&home, "echo"), "ready");
    holds(&skill(&home, &["update", "echo"]).expect(1).stderr, &["--from SOURCE"]);
}

/// Bytes that the daemon has read so far, from files and sockets alike.
fn bytes_read(home: &Home) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", home.pid().as_raw_nonzero())).expect("it runs");
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|bytes| bytes.parse().ok()).expect("a number")
}

#[test]
fn a_list_reads_no_component_that_is_still_the_one_that_was_pinned() {
    let home = Home::offline();
    let folder = TempDir::new().expect("a temporary folder");
    let mut size = 0;
    for name in ["s001", "s002", "s003", "s004"] {
        let (_one, component) = changed("echo", &[("echo", name)]);
        size += std::fs::copy(component, folder.path().join(format!("{name}.wasm"))).expect("the folder is writable");
    }
    skill(&home, &["add", text(folder.path()), "--yes"]).expect(0);
    // A daemon that has seen nothing.
    home.serve();
    let before = bytes_read(&home);
    for name in ["s001", "s004"] {
        assert_eq!(state(&home, name), "ready");
    }
    let read = bytes_read(&home) - before;
    assert!(read < size / 2, "{read} of {size} bytes");
    let installed = home.path().join("skills/s002.wasm");
    let content = std::fs::read(&installed).expect("it is there");
    std::fs::write(&installed, [&content[..], b"x"].concat()).expect("the home is ours");
    assert_eq!(state(&home, "s002"), "changed");
    std::fs::write(&installed, content).expect("the home is ours");
    assert_eq!(state(&home, "s002"), "ready");
}

#[test]
fn what_a_skill_logs_is_shown_to_its_author() {
    let (home, root) = (Home::offline(), folder(&[("a.txt", "x\n")]));
    let component = root.path().join("contract.wasm");
    std::fs::copy(guest("contract"), &component).expect("the folder is writable");
    skill(&home, &["add", text(&component), "--yes"]).expect(0);
    let call = [
        "skill",
        "call",
        "contract_rust",
        r#"{"do": "log", "text": "on the way"}"#,
    ];
    let shown = home.run(root.path(), &[&call[..], &["--log"]].concat()).expect(0);
    assert_eq!(shown.stdout, "said\n");
    holds(&shown.stderr, &["on the way"]);
    let without = home.run(root.path(), &call).expect(0);
    assert!(!without.stderr.contains("on the way"), "{}", without.stderr);
    let case = |name: &str, answer: &str| {
        let arguments = r#"{ do = "log", text = "on the way" }"#;
        format!("[[case]]\nname = \"{name}\"\narguments = {arguments}\nequals = \"{answer}\"\n")
    };
    let cases = case("passes", "said") + &case("fails", "other");
    std::fs::write(root.path().join("cases.toml"), cases).expect("the folder is writable");
    let tested = home.run(root.path(), &["skill", "test"]).expect(1);
    let (passed, failed) = tested.stdout.split_once("FAIL").expect("the second one fails");
    assert!(!passed.contains("on the way"), "{passed}");
    holds(failed, &["      log: on the way\n"]);
}

// ---- skills.lock ----

/// A repository with a lock file of the pinned skills: `echo` and `summing`.
fn locked() -> (Home, TempDir) {
    let (home, root) = (Home::offline(), folder(&[("a.txt", "x\n")]));
    for name in ["echo", "summing"] {
        let file = root.path().join(format!("{name}.wasm"));
        std::fs::copy(guest(name), &file).expect("the folder is writable");
        skill(&home, &["add", text(&file), "--yes"]).expect(0);
    }
    let unnamed = home.run(root.path(), &["skill", "lock"]).expect(2);
    holds(
        &unnamed.stderr,
        &["name the skills to lock", "with names of echo, summing, or `--all`"],
    );
    let done = home.run(root.path(), &["skill", "lock", "--all"]).expect(0);
    holds(&done.stdout, &["2 skills are locked in ", "skills.lock"]);
    (home, root)
}

fn frozen(home: &Home, root: &Path) -> Finished {
    home.run(root, &["skill", "sync", "--frozen"])
}

fn lock_file(root: &Path) -> String {
    std::fs::read_to_string(root.join("skills.lock")).expect("it was written")
}

fn rewrite(root: &Path, from: &str, to: &str) {
    let text = lock_file(root);
    assert!(text.contains(from), "{from}: {text}");
    std::fs::write(root.join("skills.lock"), text.replace(from, to)).expect("the folder is writable");
}

#[test]
fn a_lock_file_is_the_same_whenever_it_is_written_and_names_no_place_of_this_machine() {
    let (home, root) = locked();
    let before = lock_file(root.path());
    holds(
        &before,
        &[
            "name = \"echo\"",
            "world = \"1.0.0\"",
            "source = \"echo.wasm\"",
            "effects = []",
        ],
    );
    assert!(
        !before.contains(text(root.path())) && !before.contains("/target/"),
        "{before}"
    );
    home.run(root.path(), &["skill", "lock"]).expect(0);
    assert_eq!(lock_file(root.path()), before);
    assert_eq!(frozen(&home, root.path()).expect(0).stdout, "2 skills are as locked.\n");
    let elsewhere = TempDir::new().expect("a temporary folder");
    home.run(
        root.path(),
        &["skill", "lock", "--all", "--dir", text(elsewhere.path())],
    )
    .expect(0);
    // From there the components lie nowhere that others could look.
    let without: Vec<&str> = before.lines().filter(|line| !line.starts_with("source")).collect();
    assert_eq!(lock_file(elsewhere.path()).lines().collect::<Vec<_>>(), without);
    let other = Home::offline();
    let refused = other.run(elsewhere.path(), &["skill", "sync", "--yes"]).expect(1);
    holds(
        &refused.stderr,
        &[
            "`echo` is locked, and the file does not say where it lies",
            "tool skill add",
        ],
    );
    // By another way to the same file it lies in the repository all the same.
    let around = root.path().join("deep/../echo.wasm");
    std::fs::create_dir(root.path().join("deep")).expect("the folder is writable");
    skill(&home, &["add", text(&around), "--yes"]).expect(0);
    home.run(root.path(), &["skill", "lock"]).expect(0);
    assert_eq!(lock_file(root.path()), before);
}

#[test]
fn frozen_finds_each_drift_and_exits_with_2() {
    let (home, root) = locked();
    let root = root.path();
    let good = lock_file(root);
    let digest = entry(&home, "echo").expect("it is there")["digest"]
        .as_str()
        .expect("text")
        .to_owned();
    let drifts: [(&str, String, &str); 7] = [
        (
            "name = \"echo\"",
            "name = \"fmt\"".to_owned(),
            "`fmt` is locked and not there",
        ),
        (
            "source = \"echo.wasm\"",
            "source = \"nowhere.wasm\"".to_owned(),
            "the source of `echo` is locked as `nowhere.wasm`, and that file cannot be read",
        ),
        (
            "source = \"echo.wasm\"",
            "source = \"summing.wasm\"".to_owned(),
            "the source of `echo` is locked as `summing.wasm`, and that file holds another component",
        ),
        (&digest, "0".repeat(64), "`echo` is locked with the digest 000000000000"),
        (
            "effects = [\"read-repository\"]",
            "effects = []".to_owned(),
            "`summing` is granted more than is locked: read-repository",
        ),
        (
            "world = \"1.0.0\"",
            "world = \"2.0.0\"".to_owned(),
            "`echo` is locked for tool:skill@2.0.0",
        ),
        (
            "version = \"1.0.0\"",
            "version = \"1.0.1\"".to_owned(),
            "`echo` is locked in version 1.0.1, and is 1.0.0",
        ),
    ];
    for (from, to, told) in drifts {
        rewrite(root, from, &to);
        let by_command = frozen(&home, root).expect(2);
        let by_call = home.run(root, &["skill", "call", "echo", "--frozen"]).expect(2);
        let by_operation = home.run(root, &["explain", ".", "--frozen"]).expect(2);
        for refused in [by_command, by_call, by_operation] {
            holds(&refused.stderr, &["The skills differ from `skills.lock`", told]);
        }
        std::fs::write(root.join("skills.lock"), &good).expect("the folder is writable");
    }
    skill(&home, &["disable", "echo"]).expect(0);
    holds(
        &frozen(&home, root).expect(2).stderr,
        &["`echo` is locked and cannot be used: it is disabled"],
    );
    skill(&home, &["enable", "echo"]).expect(0);
    home.run(root, &["skill", "call", "echo", "--frozen"]).expect(0);
    home.run(root, &["explain", ".", "--frozen"]).expect(0);
    std::fs::remove_file(root.join("skills.lock")).expect("it is ours");
    frozen(&home, root).expect(2);
    home.run(root, &["skill", "call", "echo", "--frozen"]).expect(2);
}

#[test]
fn a_lock_file_that_nobody_understands_stops_everything_with_its_line() {
    let (home, root) = locked();
    rewrite(root.path(), "world", "wolrd");
    for command in [
        &["skill", "sync"][..],
        &["skill", "sync", "--frozen"],
        &["skill", "call", "echo"],
        &["explain", "."],
    ] {
        let refused = home.run(root.path(), command).expect(2);
        holds(&refused.stderr, &["skills.lock`, line 8", "wolrd"]);
    }
}

#[test]
fn a_lock_file_grants_no_more_than_the_user_and_the_user_no_more_than_it() {
    let (home, root) = locked();
    let root = root.path();
    let call = |flags: &[&str]| {
        home.run(
            root,
            &[
                &["skill", "call", "summing", r#"{"numbers": [1], "mischief": "list"}"#],
                flags,
            ]
            .concat(),
        )
    };
    call(&[]).expect(0);
    // The file takes it away.
    rewrite(root, "effects = [\"read-repository\"]", "effects = []");
    holds(
        &call(&["--allow", "read-repository"]).expect(1).stderr,
        &["not granted here", "skills.lock`", "withholds it"],
    );
    // It gives what the user has not.
    rewrite(root, "effects = []", "effects = [\"install\", \"read-repository\"]");
    less(&home, "summing");
    call(&[]).expect(1);
    // It trusts no component that the user has not added.
    std::fs::remove_file(home.path().join("skills/pins.json")).expect("it is ours");
    holds(&call(&[]).expect(1).stderr, &["it has not been added"]);
}

#[test]
fn bytes_that_a_repository_brings_get_no_more_than_its_file_says() {
    let (home, root) = locked();
    let (_folder, newer) = changed("summing", &[("Adds numbers.", "Adds letters.")]);
    let digest = |file: &Path| tool_core::digest::sha256_hex(&std::fs::read(file).expect("it is readable"));
    rewrite(root.path(), &digest(&guest("summing")), &digest(&newer));
    // The last one: `summing` comes after `echo`.
    rewrite(root.path(), "effects = [\"read-repository\"]", "effects = []");
    std::fs::copy(newer, root.path().join("summing.wasm")).expect("the folder is writable");
    let done = home.run(root.path(), &["skill", "sync", "--yes"]).expect(0);
    holds(&done.stdout, &["Pinned summing 1.0.0.", "2 skills are as locked."]);
    let list = r#"{"numbers": [1], "mischief": "list"}"#;
    let call = |place: &Path| home.run(place, &["skill", "call", "summing", list]);
    // Not even effects that were granted to other bytes.
    holds(&call(root.path()).expect(1).stderr, &["not granted here"]);
    let elsewhere = folder(&[("a.txt", "x\n")]);
    call(elsewhere.path()).expect(0);
    let summing = entry(&home, "summing").expect("it is there");
    assert_eq!(
        summing["effects"],
        serde_json::json!(["read-repository"]),
        "elsewhere it is what it was"
    );
}

#[test]
fn what_is_locked_is_fetched_shown_and_pinned_for_the_next_user() {
    let (_, root) = locked();
    let home = Home::offline();
    let asked = home.run(root.path(), &["skill", "sync"]).expect(1);
    holds(&asked.stderr, &["echo 1.0.0", "--yes"]);
    assert_eq!(entry(&home, "echo"), None);
    let done = home.run(root.path(), &["skill", "sync", "--yes"]).expect(0);
    assert_eq!(
        done.stdout,
        "Pinned echo 1.0.0.\nPinned summing 1.0.0.\n2 skills are as locked.\n"
    );
    let place = root.path().join("skills.lock");
    let agreed = std::fs::read_to_string(&place).expect("it is there");
    // Fewer effects than it has, because fewer are locked: it loses them in every repository, or keeps them.
    rewrite(root.path(), "effects = [\"read-repository\"]", "effects = []");
    let granted = || entry(&home, "summing").expect("it is there")["effects"].clone();
    let kept = home.run(root.path(), &["skill", "sync", "--yes"]).expect(0);
    holds(
        &kept.stderr,
        &[
            "`summing` keeps read-repository for your other repositories",
            "hint: `--narrow` takes it in every repository",
        ],
    );
    assert_eq!(granted(), serde_json::json!(["read-repository"]));
    let narrowed = home.run(root.path(), &["skill", "sync", "--yes", "--narrow"]).expect(0);
    holds(
        &narrowed.stderr,
        &["`summing` loses read-repository, in every repository"],
    );
    assert_eq!(granted(), serde_json::json!([]));
    // More again is more than before: a difference, and a question of its own.
    std::fs::write(&place, &agreed).expect("the folder is writable");
    let frozen = home.run(root.path(), &["skill", "sync", "--frozen"]).expect(2);
    holds(
        &frozen.stderr,
        &["`summing` is granted less than is locked: read-repository"],
    );
    home.run(root.path(), &["skill", "sync", "--yes"]).expect(1);
    let granting = ["skill", "sync", "--yes", "--allow-effects", "read-repository"];
    holds(
        &home.run(root.path(), &granting).expect(0).stdout,
        &["2 skills are as locked."],
    );
    assert_eq!(granted(), serde_json::json!(["read-repository"]));
    // A fault that only the owner can repair is reported with the command that does it, and causes no question.
    skill(&home, &["disable", "echo"]).expect(0);
    rewrite(root.path(), "name = \"summing\"", "name = \"adding\"");
    rewrite(root.path(), "source = \"summing.wasm\"\n", "");
    let left = home.run(root.path(), &["skill", "sync", "--yes"]).expect(1);
    holds(
        &left.stderr,
        &["`adding` is locked, and the file does not say where it lies"],
    );
    std::fs::write(&place, &agreed).expect("the folder is writable");
    let (_folder, extra) = changed("echo", &[("echo", "s001")]);
    skill(&home, &["add", text(&extra), "--yes"]).expect(0);
    let left = home.run(root.path(), &["skill", "sync", "--yes"]).expect(1);
    holds(
        &left.stderr,
        &["hint: `tool skill enable echo` brings it back, `tool skill lock` locks"],
    );
    assert_eq!(left.stdout, "", "nothing is pinned that is as locked");
    skill(&home, &["remove", "s001"]).expect(0);
    skill(&home, &["enable", "echo"]).expect(0);
    // A pin whose file is gone can be taken away.
    std::fs::remove_file(home.path().join("skills/summing.wasm")).expect("it is there");
    skill(&home, &["remove", "summing"]).expect(0);
    skill(&home, &["remove", "summing"]).expect(2);
    rewrite(root.path(), "source = \"summing.wasm\"", "source = \"./summing.wasm\"");
    let other = Home::offline();
    let (_folder, forged) = changed(
        "echo",
        &[("Answers with its arguments.", "Answers with all arguments.")],
    );
    std::fs::copy(forged, root.path().join("echo.wasm")).expect("the folder is writable");
    let refused = other.run(root.path(), &["skill", "sync", "--yes"]).expect(1);
    holds(&refused.stderr, &["is not the `echo` that is locked: its digest is"]);
    assert_eq!(entry(&other, "echo"), None);
    rewrite(root.path(), "source = \"echo.wasm\"", "source = \"../echo.wasm\"");
    holds(
        &other.run(root.path(), &["skill", "sync", "--yes"]).expect(2).stderr,
        &["skills.lock`, line 10: a source is a file below the folder of this file"],
    );
}

#[test]
fn two_repositories_lock_different_versions_of_one_skill() {
    let home = Home::offline();
    let (_newer_folder, newer) = changed(
        "echo",
        &[("Answers with its arguments.", "Answers with all arguments.")],
    );
    let repository = |component: &Path| {
        let root = folder(&[("a.txt", "x\n")]);
        let file = root.path().join("echo.wasm");
        std::fs::copy(component, &file).expect("the folder is writable");
        skill(&home, &["add", text(&file), "--yes"]).expect(0);
        home.run(root.path(), &["skill", "lock", "echo"]).expect(0);
        root
    };
    let (first, second) = (repository(&guest("echo")), repository(&newer));
    let digest = |file: &Path| tool_core::digest::sha256_hex(&std::fs::read(file).expect("it is readable"));
    let receipt = |home: &Home, root: &TempDir, flags: &[&str]| {
        let call = [&["skill", "call", "echo", "--receipt"], flags].concat();
        home.run(root.path(), &call).expect(0).stderr
    };
    let mate = Home::offline();
    for root in [&first, &second] {
        mate.run(root.path(), &["skill", "sync", "--yes"]).expect(0);
    }
    for home in [&home, &mate] {
        for (root, component) in [(&first, guest("echo")), (&second, newer.clone())] {
            assert_eq!(frozen(home, root.path()).expect(0).stdout, "1 skill is as locked.\n");
            holds(&receipt(home, root, &["--frozen"]), &[&digest(&component)]);
            holds(&receipt(home, root, &[]), &[&digest(&component)]);
        }
    }
    // The version that was added last counts where no file names one, and a skill of the user's own is no drift.
    let elsewhere = folder(&[("a.txt", "x\n")]);
    holds(&receipt(&home, &elsewhere, &[]), &[&digest(&newer)]);
    skill(&home, &["add", text(&guest("summing")), "--yes"]).expect(0);
    frozen(&home, first.path()).expect(0);
    let unnamed = home.run(
        first.path(),
        &["skill", "call", "summing", r#"{"numbers": [1]}"#, "--frozen"],
    );
    holds(&unnamed.expect(1).stderr, &["`skills.lock` does not name it"]);
    home.run(first.path(), &["skill", "call", "summing", r#"{"numbers": [1]}"#])
        .expect(0);
    // To lock again changes nothing here, and a name takes the version that was added last.
    let before = lock_file(first.path());
    mate.run(first.path(), &["skill", "lock"]).expect(0);
    assert_eq!(lock_file(first.path()), before);
    home.run(first.path(), &["skill", "lock", "echo"]).expect(0);
    holds(&lock_file(first.path()), &[&digest(&newer)]);
    std::fs::write(first.path().join("skills.lock"), before).expect("the folder is writable");
    // A version that was tampered with is found, and so is one that is gone.
    let kept = home
        .path()
        .join("skills/versions")
        .join(format!("{}.wasm", digest(&guest("echo"))));
    let content = std::fs::read(&kept).expect("it is there");
    std::fs::write(&kept, [&content[..], b"x"].concat()).expect("the home is ours");
    holds(&frozen(&home, first.path()).expect(2).stderr, &["its file has changed"]);
    std::fs::write(&kept, content).expect("the home is ours");
    frozen(&home, first.path()).expect(0);
    skill(&home, &["remove", "echo"]).expect(0);
    assert!(!kept.exists());
    holds(
        &frozen(&home, first.path()).expect(2).stderr,
        &["`echo` is locked and not there"],
    );
}

/// A component must not say one thing to be shown and another to be pinned, by whatever means.
#[test]
fn what_is_pinned_is_what_was_shown() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let host = tool_skill::SkillHost::new(&[], home.path()).expect("the engine starts");
    let said = host.inspect(&guest("summing")).expect("it is acceptable");
    let shown = tool_skill::Inspection {
        effects: Vec::new(),
        ..said.clone()
    };
    let refused = host.add(&shown).expect_err("it asks for more than was shown");
    holds(
        &refused.to_string(),
        &["does not describe itself the same way each time"],
    );
    assert!(host.entries().is_empty(), "nothing is pinned");
    host.add(&said).expect("that was shown");
}

// ---- audit ----

#[test]
fn an_audit_names_what_was_needed_and_what_is_superfluous() {
    let files = [("src/a.py", "x = 1\n"), ("src/b.py", "y = 2\n"), ("README.md", "hi\n")];
    let (home, root) = (Home::offline(), folder(&files));
    skill(&home, &["add", text(&guest("summing")), "--yes"]).expect(0);
    let audit = |flags: &[&str]| home.run(root.path(), &[&["skill", "audit", "summing", "--json"], flags].concat());
    holds(&audit(&[]).expect(1).stderr, &["No call of `summing`", "--cases"]);
    home.run(root.path(), &["skill", "call", "summing", r#"{"numbers": [1, 2]}"#])
        .expect(0);
    let report: Value = serde_json::from_str(&audit(&[]).expect(0).stdout).expect("JSON");
    assert_eq!(
        (&report["calls"], &report["superfluous"]),
        (&1.into(), &serde_json::json!(["read-repository"]))
    );
    home.run(
        root.path(),
        &["skill", "call", "summing", r#"{"numbers": [1], "mischief": "list"}"#],
    )
    .expect(0);
    let report: Value = serde_json::from_str(&audit(&[]).expect(0).stdout).expect("JSON");
    assert_eq!(report["used"], serde_json::json!(["read-repository"]));
    assert_eq!(report["superfluous"], serde_json::json!([]));
    assert_eq!(report["listed"], serde_json::json!(["**"]));
    assert!(
        report["peak"]["memory_bytes"]
            .as_u64()
            .is_some_and(|peak| peak > 65_536),
        "{report}"
    );
    let shown = home.run(root.path(), &["skill", "audit", "summing"]).expect(0).stdout;
    holds(
        &shown,
        &[
            "summing: 2 calls",
            "used         read-repository",
            "listed       **",
            "KiB memory",
        ],
    );
}

#[test]
fn an_audit_of_cases_proposes_and_runs_nothing() {
    let cases =
        "[[case]]\nname = \"one\"\narguments = { path = \"new/file.txt\", content = \"x\\n\" }\nlacks = \"y\"\n";
    let (home, folder) = (
        Home::offline(),
        folder(&[
            ("cases.toml", cases),
            ("fixture/a.txt", "x\n"),
            ("fixture/pytest.ini", "[pytest]\n"),
        ]),
    );
    let shown = skill(
        &home,
        &["audit", "write_file", "--cases", text(folder.path()), "--json"],
    )
    .expect(0);
    let report: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(report["staged"], serde_json::json!(["new/file.txt"]));
    holds(&report["used"].to_string(), &["write-repository"]);
    assert!(!folder.path().join("fixture/new").exists(), "nothing is proposed");
    std::fs::write(
        folder.path().join("cases.toml"),
        "[[case]]\nname = \"all\"\nlacks = \"y\"\n",
    )
    .expect("the folder is writable");
    let shown = skill(&home, &["audit", "run_tests", "--cases", text(folder.path()), "--json"]).expect(1);
    let report: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    holds(&report["used"].to_string(), &["run-process"]);
    assert_eq!(report["failed"], 1);
    let failed = &report["failures"][0];
    assert_eq!((&failed["call"], &failed["verdict"]), (&"all".into(), &"denied".into()));
    let shown = skill(&home, &["audit", "run_tests", "--cases", text(folder.path())]).expect(1);
    holds(
        &shown.stdout,
        &["run_tests: 1 call, 1 of them failed", "  failed       all (denied): "],
    );
    std::fs::write(folder.path().join("cases.toml"), "[[case]\n").expect("the folder is writable");
    let broken = skill(&home, &["audit", "run_tests", "--cases", text(folder.path())]).expect(2);
    holds(&broken.stderr, &["cases.toml", "line 1"]);
}
