//! No decision depends on the product's own messages: production code looks only into texts that others wrote.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use tool_core::api::ErrorKind;

/// Sentences that production code looks for, by file: the author of the text, and the sentences.
///
/// A row may only name text that another program, a person or a file format writes.
const FOREIGN: &[(&str, &str, &[&str])] = &[
    ("cli/src/output/diff.rs", "git's form of a diff", &["diff --git "]),
    (
        "cli/src/usage.rs",
        "clap's errors",
        &[
            "invalid UTF-8",
            "similar subcommand",
            "to pass '-",
            "unrecognized subcommand '",
        ],
    ),
    (
        "host/analyst/src/evidence.rs",
        "the conversation, which the analyst reads as a model does; names of dependency groups",
        &[
            r#"# Request\n\n"#,
            "(There is more.",
            r#"<file path=\""#,
            r#"\"cursor\": \""#,
            "runtime",
        ],
    ),
    (
        "host/analyst/src/explain/file.rs",
        "source code",
        &["= require(", "import ("],
    ),
    (
        "host/analyst/src/explain/interface.rs",
        "source code",
        &[r#"extern \"C\""#, "pub use "],
    ),
    (
        "host/analyst/src/file_doc.rs",
        "pragmas in source code",
        &["// +build", "use strict"],
    ),
    (
        "host/analyst/src/manifest.rs",
        "names of exports in package.json",
        &["internal"],
    ),
    (
        "host/analyst/src/readme.rs",
        "headings of a README",
        &["Welcome to ", "table of contents"],
    ),
    (
        "host/boundary/src/budget.rs",
        "wasmtime's errors that have no type",
        &["fuel allocated for hostcalls", "resource limit exceeded", "wasm trap: "],
    ),
    ("host/context/src/calls.rs", "source code", &["func ("]),
    (
        "host/context/src/symbols/lines.rs",
        "source code",
        &["const fn", "const unsafe"],
    ),
    (
        "host/context/src/symbols/embedded.rs",
        "Jupyter's notebooks",
        &[r#"\"language\": \""#, r#"\"language\": \"python\""#, r#"\"source\": ["#],
    ),
    ("host/context/src/symbols/packages.rs", "source code", &["pub use "]),
    ("host/core/src/redaction/session.rs", "PEM files", &["PRIVATE KEY"]),
    (
        "host/registry/src/clone.rs",
        "messages of git",
        &["No space left on device"],
    ),
    (
        "host/daemon/src/http/body.rs",
        "axum's errors",
        &["Failed to deserialize query string: "],
    ),
    (
        "host/session/src/approvals.rs",
        "git's form of a diff",
        &["diff --git "],
    ),
    (
        "host/project/src/commands.rs",
        "names and text of the scripts of npm and targets of make",
        &["build", "usage"],
    ),
    (
        "host/provider/src/classify.rs",
        "answers of servers",
        &["no endpoints found"],
    ),
    (
        "host/provider/src/failure.rs",
        "answers of servers",
        &["<!doctype html", "loading model"],
    ),
    ("host/provider/src/http.rs", "hyper's errors", &["invalid HTTP"]),
    ("host/repository/src/file_role.rs", "names of languages", &["Go Module"]),
    (
        "host/repository/src/root_file.rs",
        "serde's errors",
        &["unknown field `"],
    ),
    (
        "host/sandbox/src/program_sandbox/visible_paths.rs",
        "names of directories",
        &["home"],
    ),
    (
        "host/context/src/endpoints/patterns.rs",
        "names of dependencies in package.json",
        &[r#"\"{name}\" :"#],
    ),
    (
        "host/analyst/src/explain/overview.rs",
        "the line that closes a list of the same page",
        &["- … and "],
    ),
    ("host/context/src/symbols/lines.rs", "JavaScript", &["await import("]),
    ("skills/syntax/src/aliases.rs", "JavaScript", &["} ="]),
    (
        "host/skill/src/imports/test_runs/hints.rs",
        "Python's message",
        &[": No module named pytest"],
    ),
    (
        "host/skill/src/imports/packages.rs",
        "output of pip and npm",
        &[": No module named pip", "EACCES: permission denied"],
    ),
    (
        "host/skill/src/signature.rs",
        "PEM files",
        &["BEGIN EC PRIVATE KEY", "BEGIN ENCRYPTED"],
    ),
    ("skills/analyze_dependencies/src/ruby.rs", "source code", &[" do |"]),
    (
        "skills/details/src/test_run.rs",
        "output of test runners",
        &[
            " short test summary info ",
            "  ● Test suite failed to run",
            "# {word}",
            "ImportError while loading conftest",
            "Summary of all failing tests",
            "TAP version",
            "failed",
            "no tests ran",
            "not ok ",
        ],
    ),
    (
        "skills/install_package/src/result.rs",
        "output of pip and npm",
        &[
            "(from versions: ",
            "ERROR: No matching distribution found for ",
            "No module named pip",
            "Permission denied: '",
            r#"Permission denied: \""#,
            "Requirement already satisfied: ",
            "Successfully installed ",
            "permission denied",
            "permission denied, ",
        ],
    ),
    (
        "skills/read_logs/src/entries.rs",
        "logs",
        &[
            "Caused by: ",
            "Exception in thread",
            "Traceback (",
            "Traceback (most recent call last):",
            "thread '",
        ],
    ),
    ("skills/find_references/src/symbols.rs", "JavaScript", &["= require("]),
    ("skills/read_logs/src/parse.rs", "logs", &[r#"] \""#]),
    ("skills/syntax/src/aliases.rs", "source code", &["> ="]),
    (
        "skills/test_results/src/cargo.rs",
        "output of cargo",
        &[
            " - should panic",
            " ... FAILED",
            " panicked at ",
            " stdout ----",
            "FAIL [",
            "Summary [",
            "error: could not compile",
            "error: could not compile ",
            "failed",
            "filtered out",
            "note: run with `RUST_BACKTRACE",
            "test result: ",
        ],
    ),
    (
        "skills/test_results/src/go.rs",
        "events of go test",
        &[") || line.starts_with(", "--- FAIL: ", "output"],
    ),
    (
        "skills/test_results/src/json.rs",
        "reports of test runners",
        &["failed"],
    ),
    (
        "skills/test_results/src/npm.rs",
        "output of shells, TAP",
        &[": command not found", ": not found", "Bail out!", "TAP version"],
    ),
    (
        "skills/test_results/src/npm/tap.rs",
        "output of node",
        &[
            "# Subtest: ",
            "TAP version",
            "failureType: 'subtestsFailed'",
            "not ok ",
            "test at ",
            "ℹ pass ",
            "✖ failing tests:",
        ],
    ),
    (
        "skills/test_results/src/npm/vitest.rs",
        "output of vitest",
        &["Test Files  "],
    ),
    (
        "skills/test_results/src/pytest.rs",
        "output of pytest and Python",
        &[
            " failed subtest",
            " short test summary info ",
            ": in ",
            r#"File \""#,
            "Hint: make sure your test modules",
            "ImportError while loading conftest",
        ],
    ),
    (
        "skills/test_results/src/summaries.rs",
        "output of test runners",
        &[
            " (Not Run)",
            "% tests passed",
            ": error ",
            "Finished in ",
            "No tests were found!!!",
            "OK (",
            "Test #",
            "expected failures",
            "unexpected successes",
        ],
    ),
    (
        "skills/test_results/src/text.rs",
        "stack traces of node",
        &[
            "at Array.map (<anonymous>)",
            "at async Promise.all",
            "at new Promise (<anonymous>)",
            "at new SafePromise",
            "at node:",
        ],
    ),
    (
        "skills/write_file/src/placeholder.rs",
        "text of a model that copies a cut line",
        &[" more bytes]", "… [line cut: "],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources of the product below a folder, without tests, attacks and the stand-in for a model server.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    const LEFT_OUT: [&str; 11] = [
        "benches",
        "examples",
        "fuzz.rs",
        "model-server",
        "proof",
        "target",
        "templates",
        "testing.rs",
        "tests",
        "tests.rs",
        "unit.rs",
    ];
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("an entry").path();
        if LEFT_OUT.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The sentences that a source compares a text with: literals of several words, and codes of errors.
fn compared_texts(text: &str) -> BTreeSet<String> {
    let literal = r#""((?:[^"\\]|\\.)*)""#;
    let methods = "contains|ends_with|find|matches|rfind|rsplit_once|split_once|starts_with|strip_prefix|strip_suffix|trim_end_matches|trim_start_matches";
    let call = Regex::new(&format!(r"\.(?:{methods})\(\s*(?:&format!\()?{literal}")).expect("a constant");
    let equal = Regex::new(&format!("[=!]= {literal}")).expect("a constant");
    let arm = Regex::new(&format!(
        r"(?m)^\s*(?:Some\(|Ok\()?{literal}\)?(?: \|[^=]*)? (?:if [^=]*)?=>"
    ))
    .expect("a constant");
    let comment = Regex::new("(?m)^ *//.*$").expect("a constant");
    let product = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let product = comment.replace_all(product, "");
    let found = [call, equal, arm].into_iter().flat_map(|pattern| {
        let literals = pattern.captures_iter(&product).map(|found| found[1].to_owned());
        literals.collect::<Vec<_>>()
    });
    let is_code = |text: &str| !matches!(ErrorKind::from_code(text), ErrorKind::Foreign(_));
    let is_ours = |text: &String| text.trim().contains(' ') || is_code(text);
    found.filter(is_ours).collect()
}

#[test]
fn production_code_decides_by_types_and_not_by_its_own_messages() {
    let mut files = Vec::new();
    for folder in ["cli/src", "host", "skills"] {
        sources(&root().join(folder), &mut files);
    }
    let mut found = BTreeSet::new();
    for file in &files {
        let name = file
            .strip_prefix(root())
            .expect("it lies below the root")
            .display()
            .to_string();
        let text = fs::read_to_string(file).expect("a source is text");
        found.extend(compared_texts(&text).into_iter().map(|text| (name.clone(), text)));
    }
    let rows = FOREIGN
        .iter()
        .flat_map(|&(file, _, texts)| texts.iter().map(move |&text| (file.to_owned(), text.to_owned())));
    let allowed: BTreeSet<_> = rows.collect();
    let ours: Vec<_> = found.difference(&allowed).collect();
    assert!(
        ours.is_empty(),
        "decide by a type, or list the text of others: {ours:#?}"
    );
    let stale: Vec<_> = allowed.difference(&found).collect();
    assert!(stale.is_empty(), "these rows have no use any more: {stale:#?}");
}

#[test]
fn comparisons_with_sentences_and_codes_are_found() {
    let text = r#"
        if message.starts_with("Nothing to commit") || kind == "denied" {}
        match code {
            "not-found" | "x" => {}
            Some("one word") => {}
        }
        // if message.contains("in a comment") {}
        text.contains("word")
    "#;
    let found = compared_texts(text);
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["Nothing to commit", "denied", "not-found", "one word"]
    );
}
