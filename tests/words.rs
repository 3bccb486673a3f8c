//! Plain words: no comment leaves open who acts, and few type names have several meanings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The words that leave open who acts.
const VAGUE_ACTOR: &str = r"(?i)\b(nobody|somebody|everybody|whoever|heed(s|ed|ing)?)\b";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Rust sources below a folder, without those that a build has made.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("an entry").path();
        if path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The lines of comments with a word that leaves open who acts. Names in backticks do not count, as of user `nobody`.
fn find_vague_comments(text: &str) -> impl Iterator<Item = &str> {
    let name = Regex::new("`[^`]*`").expect("a constant");
    let word = Regex::new(VAGUE_ACTOR).expect("a constant");
    let comments = text.lines().map(str::trim).filter(|line| line.starts_with("//"));
    comments.filter(move |line| word.is_match(&name.replace_all(line, "")))
}

#[test]
fn comments_name_the_one_who_acts() {
    let mut files = Vec::new();
    for folder in ["cli", "host", "skills", "tests"] {
        sources(&root().join(folder), &mut files);
    }
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source is text");
        found.extend(find_vague_comments(&text).map(|line| format!("{}: {line}", file.display())));
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_comment_that_leaves_open_who_acts_is_found() {
    let text = "/// Nobody reads it.\nfn nobody() {}\n    // The user `nobody`.\n//! A user heeds it.\nlet a = \"somebody\";\n";
    let found: Vec<_> = find_vague_comments(text).collect();
    assert_eq!(found, ["/// Nobody reads it.", "//! A user heeds it."]);
}

/// The types that a source defines, without those of its tests.
fn find_type_names(text: &str) -> BTreeSet<&str> {
    let definition = Regex::new(
        r"(?m)^(?: *(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union)|(?:pub(?:\([^)]*\))? )?type) ([A-Z]\w*)",
    )
    .expect("a constant");
    let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let names = definition.captures_iter(product);
    names.filter_map(|found| Some(found.get(1)?.as_str())).collect()
}

#[test]
fn few_type_names_are_defined_in_three_or_more_files() {
    let mut files = Vec::new();
    for folder in ["host", "cli", "skills"] {
        sources(&root().join(folder), &mut files);
    }
    files.retain(|file| {
        let is_test = |part: &std::ffi::OsStr| ["tests", "tests.rs", "examples"].iter().any(|name| part == *name);
        !file.iter().any(is_test)
    });
    let mut counts = BTreeMap::<String, usize>::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source is text");
        for name in find_type_names(&text) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    let repeated: Vec<_> = counts.iter().filter(|&(_, &count)| count >= 3).collect();
    assert!(
        repeated.len() * 20 < counts.len(),
        "{} of {} type names are defined in three or more files: {repeated:?}",
        repeated.len(),
        counts.len()
    );
}

#[test]
fn the_names_of_types_are_found() {
    let text = "pub(crate) struct A;\n    enum B {}\n    type Item = A;\ntype C = A;\n#[cfg(test)]\nmod tests {\nstruct D;\n}\n";
    assert_eq!(find_type_names(text), BTreeSet::from(["A", "B", "C"]));
}

/// Texts of the engine that name a command or a flag of the command line. Such a text should be an action, which each face
/// renders in its own words. The number may only shrink.
const COMMANDS_IN_TEXTS_MAX: usize = 59;

/// The crates that work for every face: the command line, the interface and other agents.
const ENGINE: [&str; 8] = [
    "boundary", "context", "core", "daemon", "journal", "provider", "session", "skill",
];

/// The string literals of a source that name a command or a flag, without those of its tests.
fn find_named_commands(text: &str) -> Vec<String> {
    let comment = Regex::new(r"(?m)^\s*//.*$").expect("a constant");
    let literal = Regex::new(r#"(?s)b?'\\?"'|"((?:[^"\\]|\\.)*)""#).expect("a constant");
    let named = Regex::new("`(tool [a-z]|--[a-z])").expect("a constant");
    let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let product = comment.replace_all(product, "");
    let texts = literal
        .captures_iter(&product)
        .filter_map(|found| Some(found.get(1)?.as_str().to_owned()));
    texts.filter(|text| named.is_match(text)).collect()
}

#[test]
fn few_texts_of_the_engine_name_commands() {
    let mut files = Vec::new();
    for name in ENGINE {
        sources(&root().join("host").join(name).join("src"), &mut files);
    }
    let is_test = |file: &Path| {
        let part = |name: &str| file.iter().any(|part| part == name);
        part("unit.rs") || part("tests") || part("tests.rs")
    };
    files.retain(|file| !is_test(file));
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source is text");
        found.extend(
            find_named_commands(&text)
                .into_iter()
                .map(|text| format!("{}: {text}", file.display())),
        );
    }
    let count = found.len();
    assert!(
        count <= COMMANDS_IN_TEXTS_MAX,
        "{count} texts name commands:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_text_that_names_a_command_is_found() {
    let text = "// \"`tool a`\"\nlet a = \"`tool undo` takes it back\";\nlet b = '\"';\nlet c = \"with `--deny`\";\nlet d = \"--quiet\";\n\
                #[cfg(test)]\nmod tests {\nlet e = \"`tool b`\";\n}\n";
    assert_eq!(
        find_named_commands(text),
        ["`tool undo` takes it back", "with `--deny`"]
    );
}
