//! The patches of `scripts/mutants` fit the code, and turn off every defence that once had a switch.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read_table(name: &str) -> toml::Table {
    let text = fs::read_to_string(root().join("tests/mutants").join(name)).expect("it is there");
    text.parse().expect("it is TOML")
}

fn list_patches() -> Vec<PathBuf> {
    let folder = fs::read_dir(root().join("tests/mutants/patches")).expect("it is there");
    folder.map(|entry| entry.expect("an entry").path()).collect()
}

/// The value of a line of a patch's header.
fn read_header(patch: &Path, name: &str) -> String {
    let text = fs::read_to_string(patch).expect("it is text");
    let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    let found = found.unwrap_or_else(|| panic!("{} has no `{name}`", patch.display()));
    found.to_owned()
}

#[test]
fn every_patch_still_applies() {
    let patches = list_patches();
    assert!(patches.len() > 90, "{}", patches.len());
    for patch in patches {
        #[expect(clippy::disallowed_methods, reason = "git applies the patches")]
        let output = Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(root())
            .output()
            .expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", patch.display());
    }
}

#[test]
fn every_former_switch_is_turned_off_by_a_patch() {
    let switches: BTreeSet<String> = read_table("switches.toml").keys().cloned().collect();
    let headers: Vec<String> = list_patches()
        .iter()
        .map(|patch| read_header(patch, "Switches"))
        .collect();
    let named = headers.iter().flat_map(|header| header.split(", "));
    let named: BTreeSet<String> = named.filter(|name| *name != "-").map(str::to_owned).collect();
    assert_eq!(named, switches);
}

#[test]
fn every_patch_is_judged_by_attacks_or_tests() {
    for patch in list_patches() {
        for judge in read_header(&patch, "Judges").split("; ") {
            let is_known = judge.starts_with("attack ") || judge.starts_with("test ");
            assert!(is_known, "{}: {judge}", patch.display());
        }
    }
}

#[test]
fn areas_name_files_and_equivalent_mutants_have_reasons() {
    let areas = read_table("areas.toml");
    for area in areas["area"].as_array().expect("a list") {
        for file in area["files"].as_array().expect("a list") {
            let file = file.as_str().expect("text");
            let place = file.split('*').next().expect("there is a beginning");
            assert!(root().join(place).exists(), "{file}");
        }
    }
    let equivalent = read_table("equivalent.toml");
    for mutant in equivalent
        .get("mutant")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten()
    {
        assert!(!mutant["reason"].as_str().expect("text").is_empty(), "{mutant}");
    }
}
