//! `tool doctor --sandbox`: the engine's attacks and escapes as a user makes them, and what the product is built of.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tool_proof::attacks::ATTACKS;
use tool_proof::probes::ATTEMPTS;
use tool_proof::{helpers, installs};

use crate::support::{Home, finish};

/// The command for a user who has nothing: no home, no configuration, and a place for temporary files.
fn doctor(places: &TempDir, arguments: &[&str]) -> Command {
    let home = places.path().join("home");
    fs::create_dir_all(places.path().join("tmp")).expect("the folder is writable");
    fs::create_dir_all(&home).expect("the folder is writable");
    #[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_tool"));
    command
        .args(["doctor", "--sandbox"])
        .args(arguments)
        .current_dir("/")
        .env_clear()
        .env("HOME", home)
        .env("TMPDIR", places.path().join("tmp"))
        .stdin(Stdio::null());
    command
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is readable");
    entries.map(|entry| entry.expect("it is readable").path()).collect()
}

#[track_caller]
fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().expect("it is a list");
    list.iter()
        .map(|entry| entry["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn every_attack_and_every_escape_is_held_on_this_machine() {
    let places = TempDir::new().expect("a temporary folder");
    let finished = finish(doctor(&places, &["--json"]).output().expect("the binary runs"));
    let proof: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
    let kinds = ["attacks", "escapes", "helpers", "installations"];
    let lists = kinds.map(|kind| &proof[kind]);
    let lost: Vec<&Value> = lists
        .iter()
        .flat_map(|list| list.as_array().expect("it is a list"))
        .filter(|entry| entry["verdict"] != "pass")
        .collect();
    assert!(lost.is_empty(), "{lost:#?}");
    assert_eq!(
        names(lists[0]),
        ATTACKS.iter().map(|attack| attack.name).collect::<Vec<_>>()
    );
    assert_eq!(
        names(lists[1]),
        ATTEMPTS.iter().map(|attempt| attempt.name).collect::<Vec<_>>()
    );
    assert!(
        ATTACKS.len() >= 40,
        "the specification of this proof wants as many by name"
    );
    assert_eq!(
        names(lists[2]),
        helpers::ATTEMPTS.iter().map(|attempt| attempt.name).collect::<Vec<_>>()
    );
    assert_eq!(
        names(lists[3]),
        installs::ATTEMPTS
            .iter()
            .map(|attempt| attempt.name)
            .collect::<Vec<_>>()
    );
    let all = ATTACKS.len() + ATTEMPTS.len() + helpers::ATTEMPTS.len() + installs::ATTEMPTS.len();
    assert_eq!((&proof["held"], &proof["failed"]), (&all.into(), &0.into()));
    assert_eq!((finished.code, &proof["sandbox"]), (0, &"namespaces".into()));
    // It needed nothing and left nothing.
    assert_eq!(entries(&places.path().join("tmp")), [""; 0].map(PathBuf::from));
    assert_eq!(entries(&places.path().join("home")), [""; 0].map(PathBuf::from));
}

#[test]
fn a_proof_that_is_told_to_end_clears_its_folders_away() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let places = TempDir::new().expect("a temporary folder");
        let mut child = doctor(&places, &[])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        let mut next = || lines.next().expect("it goes on").expect("it is text");
        assert_eq!(next(), "A skill tries to …");
        assert_eq!(next(), "pass  read_hidden_file            read a hidden file");
        kill_process(Pid::from_child(&child), signal).expect("it is ours");
        // The rest of the pipe must be read, or the command waits.
        lines.for_each(drop);
        assert_eq!(child.wait().expect("it is ours").code(), Some(130), "{signal:?}");
        assert_eq!(
            entries(&places.path().join("tmp")),
            [""; 0].map(PathBuf::from),
            "{signal:?}"
        );
    }
}

#[test]
fn the_hostile_guest_is_no_skill() {
    let home = Home::offline();
    let listed = home.run(Path::new("/"), &["skill", "list", "--json"]).expect(0).stdout;
    assert!(listed.contains("list_files") && !listed.contains("hostile"), "{listed}");
    let repository = crate::support::folder(&[("a.txt", "a\n")]);
    let refused = home.run(
        repository.path(),
        &["skill", "call", "hostile", r#"{"attack": "nothing"}"#],
    );
    assert!(
        refused.stderr.contains("There is no skill named `hostile`"),
        "{refused:?}"
    );
}

// ---- what the product is built of ----

#[test]
fn no_feature_of_a_build_changes_a_defence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = entries(&root.join("host")).into_iter().chain([root.join("cli")]);
    let manifests: Vec<PathBuf> = crates.map(|folder| folder.join("Cargo.toml")).collect();
    let has_features = |path: &&PathBuf| {
        let text = fs::read_to_string(path).expect("every crate has a manifest");
        let manifest: toml::Table = text.parse().expect("cargo reads it");
        manifest.contains_key("features")
    };
    assert!(manifests.len() > 10, "{manifests:?}");
    assert_eq!(
        manifests.iter().filter(has_features).collect::<Vec<_>>(),
        Vec::<&PathBuf>::new()
    );
}
