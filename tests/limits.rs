//! No bound without its proof: every constant of `host/core/src/limits.rs` and every key of the configuration names the test
//! that fails without it, and the tables and the sources are compared both ways.

mod attacks;
mod daemon;
mod keys;
mod sandbox;
mod stops;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Limits and keys with their tests.
const TABLE: &str = include_str!("limits/table.toml");

/// Where the limits are.
const LIMITS: &str = include_str!("../host/core/src/limits.rs");

/// The folders whose sources hold tests.
const SOURCES: [&str; 4] = ["cli/src", "host", "skills", "tests"];

/// A test: where it is, and its text.
struct Test {
    file: PathBuf,
    text: String,
}

/// Every test of the sources by its name. Several may share one.
static TESTS: LazyLock<BTreeMap<String, Vec<Test>>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut tests: BTreeMap<String, Vec<Test>> = BTreeMap::new();
    for folder in SOURCES {
        for file in sources(&root.join(folder)) {
            let text = std::fs::read_to_string(&file).expect("a source is text");
            for (name, body) in tests_in(&text) {
                let test = Test {
                    file: file.clone(),
                    text: body,
                };
                tests.entry(name).or_default().push(test);
            }
        }
    }
    tests
});

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths
        .flat_map(|path| match path {
            path if path.is_dir() && !path.ends_with("fixtures") => sources(&path),
            path if path.extension().is_some_and(|extension| extension == "rs") => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

/// Names and texts of a file's tests: functions below `#[test]`, and the names in a macro that makes tests.
fn tests_in(text: &str) -> Vec<(String, String)> {
    static TEST: LazyLock<Regex> = LazyLock::new(|| {
        let attribute = r"#\[(?:tokio::)?test(?:\([^)]*\))?\]";
        let between = r"(?:\s*#\[(?s:.*?)\]\n|\s*//[^\n]*\n)*";
        Regex::new(&format!(r"{attribute}\n{between}\s*(?:async )?fn (?P<name>\w+)")).expect("a constant")
    });
    static MADE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^\w+! \{\n(?P<names>(?:    \w+,\n)+)\}").expect("a constant"));
    let starts: Vec<(usize, String)> = TEST
        .captures_iter(text)
        .map(|found| {
            (
                with_words_above(text, found.get_match().start()),
                found["name"].to_owned(),
            )
        })
        .collect();
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([text.len()]);
    let written = starts.iter().zip(ends);
    let written = written.map(|((start, name), end)| (name.clone(), text[*start..end].to_owned()));
    let made = MADE.captures_iter(text).flat_map(|found| {
        let names: Vec<String> = found["names"]
            .split([',', '\n', ' '])
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        names.into_iter().map(|name| (name, text.to_owned()))
    });
    written.chain(made).collect()
}

/// Where the comment begins that stands right above a place, else the place.
fn with_words_above(text: &str, place: usize) -> usize {
    let mut start = text[..place].rfind('\n').map_or(0, |at| at + 1);
    while let Some(above) = text[..start].strip_suffix('\n') {
        let line = above.rfind('\n').map_or(0, |at| at + 1);
        if !above[line..].trim_start().starts_with("///") {
            break;
        }
        start = line;
    }
    start
}

/// One line of the table.
struct Row {
    name: String,
    tests: Vec<String>,
    /// What the tests say where they do not name the limit.
    says: Option<String>,
}

/// A part of the table as it is written.
fn part(name: &str) -> serde_json::Map<String, Value> {
    let table: Value = toml::from_str(TABLE).expect("the table is TOML");
    table[name].as_object().expect("a part of the table").clone()
}

/// A part of the table.
fn rows(part: &str) -> Vec<Row> {
    let rows = self::part(part);
    let names = |value: &Value| -> Vec<String> {
        let list = value.as_array().expect("a list of tests");
        list.iter()
            .map(|name| name.as_str().expect("a name").to_owned())
            .collect()
    };
    rows.iter()
        .map(|(name, row)| Row {
            name: name.clone(),
            tests: match row {
                Value::String(test) => vec![test.clone()],
                Value::Object(fields) => names(&fields["tests"]),
                list => names(list),
            },
            says: row["says"].as_str().map(str::to_owned),
        })
        .collect()
}

/// The tests that a row names: `name`, or `file::name` where several share it.
fn named(test: &str) -> Result<&'static Test, String> {
    let (file, name) = test.rsplit_once("::").unwrap_or(("", test));
    let same = TESTS.get(name).map(Vec::as_slice).unwrap_or_default();
    let found: Vec<&Test> = same
        .iter()
        .filter(|test| test.file.ends_with(file) || file.is_empty())
        .collect();
    match found[..] {
        [only] => Ok(only),
        [] => Err(format!("there is no test `{test}`")),
        _ => Err(format!("there are several tests `{test}`: name the file as well")),
    }
}

/// What is wrong with a row. `mentions` is how a test speaks of what the row is about.
fn wrong(row: &Row, mentions: &str) -> Option<String> {
    let found: Result<Vec<&Test>, String> = row.tests.iter().map(|test| named(test)).collect();
    let why = match found {
        Err(why) => why,
        Ok(tests) if tests.is_empty() => "no test".to_owned(),
        Ok(tests) => {
            let wanted = row.says.as_deref().unwrap_or(mentions);
            let is_told = tests.iter().any(|test| test.text.contains(wanted));
            match is_told {
                true => return None,
                false => format!("none of its tests says `{wanted}`"),
            }
        }
    };
    Some(format!("{}: {why}", row.name))
}

#[track_caller]
fn compare(what: &str, rows: &[Row], wanted: &BTreeSet<String>) {
    let named: BTreeSet<String> = rows.iter().map(|row| row.name.clone()).collect();
    assert_eq!(named.len(), rows.len(), "a {what} stands in the table twice");
    let without_row: Vec<&String> = wanted.difference(&named).collect();
    let gone: Vec<&String> = named.difference(wanted).collect();
    assert!(
        without_row.is_empty() && gone.is_empty(),
        "tests/limits/table.toml: {what} without a row: {without_row:?}; rows without a {what}: {gone:?}"
    );
    let wrong: Vec<String> = rows.iter().filter_map(|row| wrong(row, &row.name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_limit_has_a_test_that_fails_without_it() {
    let constant = Regex::new(r"(?m)^pub const (?P<name>[A-Z0-9_]+):").expect("a constant");
    let limits: BTreeSet<String> = constant
        .captures_iter(LIMITS)
        .map(|found| found["name"].to_owned())
        .collect();
    let rows: Vec<Row> = rows("bounds").into_iter().chain(rows("choices")).collect();
    compare("limit", &rows, &limits);
}

#[test]
fn every_limit_is_asked_for_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host");
    let files = sources(&root).into_iter().filter(|file| !file.ends_with("limits.rs"));
    let code: String = files
        .map(|file| std::fs::read_to_string(file).expect("a source is text"))
        .collect();
    let constant = Regex::new(r"(?m)^pub const (?P<name>[A-Z0-9_]+):").expect("a constant");
    let dead: Vec<&str> = constant
        .captures_iter(LIMITS)
        .filter_map(|found| found.name("name").map(|name| name.as_str()))
        .filter(|name| !Regex::new(&format!(r"\b{name}\b")).expect("a name").is_match(&code))
        .collect();
    assert!(dead.is_empty(), "nobody asks for {dead:?}");
}
