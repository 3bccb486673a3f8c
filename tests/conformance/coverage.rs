//! The rows and the tests are the same set, the rows are the specification's own words, and what no row takes up of it
//! promises nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The rows, word for word.
const ROWS: &str = include_str!("rows.toml");

/// Source of the rows.
const SPECIFICATION: &str = include_str!("specification.md");

/// Words of the specification that only lead to the rows below them.
const LEAD_INS: [&str; 5] = ["Known structure:", "Notes:", "Exit codes:", "2.", "Conditions:"];

/// Module with the tests of rows; the tests of this module check them.
const TESTS: &str = "conformance::";
const OWN: &str = "conformance::coverage::";

fn rows() -> Value {
    toml::from_str(ROWS).expect("rows.toml is TOML")
}

fn list<'v>(rows: &'v Value, key: &str) -> Vec<&'v Value> {
    rows[key].as_array().expect("a list").iter().collect()
}

/// The names of the tests of rows, as the test binary itself lists them.
#[expect(clippy::disallowed_methods, reason = "the test binary lists its own tests")]
fn tests() -> Vec<String> {
    let binary = std::env::current_exe().expect("a test has a binary");
    let listed = std::process::Command::new(binary)
        .args(["--list", "--format", "terse", TESTS])
        .output()
        .expect("the test binary runs");
    let listed = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let rows = tests.filter(|test| test.starts_with(TESTS) && !test.starts_with(OWN));
    rows.map(|test| test.rsplit("::").next().unwrap_or(test).to_owned())
        .collect()
}

#[test]
fn every_row_has_a_test_and_every_test_has_a_row() {
    let rows = rows();
    let ids: BTreeSet<String> = list(&rows, "row")
        .iter()
        .map(|row| row["id"].as_str().expect("an id").to_owned())
        .collect();
    let tests = tests();
    let names: BTreeSet<String> = tests.iter().cloned().collect();
    assert_eq!(names.len(), tests.len(), "two tests have the name of one row");
    let without_test: Vec<&String> = ids.difference(&names).collect();
    let without_row: Vec<&String> = names.difference(&ids).collect();
    assert!(
        without_test.is_empty() && without_row.is_empty(),
        "rows without a test: {without_test:?}\ntests without a row: {without_row:?}"
    );
}

#[test]
fn every_section_has_all_its_rows() {
    let rows = rows();
    let mut counted: BTreeMap<&str, i64> = BTreeMap::new();
    for row in list(&rows, "row") {
        *counted.entry(row["section"].as_str().expect("a section")).or_default() += 1;
        assert!(row["text"].as_str().is_some_and(|text| !text.is_empty()), "{row}");
    }
    let expected: BTreeMap<&str, i64> = list(&rows, "section")
        .iter()
        .map(|section| {
            let name = section["name"].as_str().expect("a name");
            (name, section["rows"].as_i64().expect("a number"))
        })
        .collect();
    assert_eq!(counted, expected);
    assert_eq!(counted.values().sum::<i64>(), 191, "all rows of the specification");
}

#[test]
fn rows_are_the_specifications_own_words_and_leave_none_of_its_promises_out() {
    let rows = rows();
    // In its order, so that each of two equal lines needs a row of its own.
    let (mut rest, mut left) = (SPECIFICATION, String::new());
    for row in list(&rows, "row") {
        let text = row["text"].as_str().expect("a text");
        let (before, after) = rest.split_once(text).unwrap_or_else(|| {
            panic!(
                "{}: not in the specification, or not there in this order: {text}",
                row["id"]
            )
        });
        left.push_str(before);
        rest = after;
    }
    left.push_str(rest);
    let is_separator = |line: &str| line.starts_with("|---");
    let heads: BTreeSet<&str> = SPECIFICATION
        .lines()
        .zip(SPECIFICATION.lines().skip(1))
        .filter(|(_, below)| is_separator(below))
        .map(|(head, _)| head)
        .collect();
    let is_form = |line: &str| line.is_empty() || line.starts_with('#') || is_separator(line) || heads.contains(line);
    let words: Vec<&str> = left.lines().map(str::trim).filter(|line| !is_form(line)).collect();
    assert_eq!(words, LEAD_INS, "promises without a row");
}

#[test]
fn ids_are_unique_and_fit_for_names() {
    let rows = rows();
    let mut seen = BTreeSet::new();
    for row in list(&rows, "row") {
        let id = row["id"].as_str().expect("an id");
        let fits = id
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(fits && id.contains('_') && seen.insert(id), "{id}");
    }
}
