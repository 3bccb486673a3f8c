//! Situations from public bug reports against similar tools. Each `field/*.toml` is one: where it was reported, the commands
//! that make it, and what the product must say. Names and contents are our own.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde::Deserialize;
use tempfile::TempDir;

use crate::support::{Finished, Home, finish};

/// Rows that run at the same time.
const ROWS_AT_ONCE: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Situation {
    /// Addresses of the reports; empty for a situation of our own.
    sources: Vec<String>,
    /// The promise.
    claim: String,
    /// Shell commands in an empty folder.
    setup: String,
    /// `config.toml` of the user; without it the analyst answers, which needs no model.
    config: Option<String>,
    step: Vec<SituationStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SituationStep {
    /// A shell command in the folder: `tool` is the product, `sc` is `tool skill call`.
    run: String,
    #[serde(default)]
    exit: i32,
    /// Texts that the output, with that of the error stream, holds.
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
}

#[test]
fn situations_of_public_reports_end_well() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/field");
    let rows = fs::read_dir(folder).expect("the rows are there");
    let mut rows: Vec<PathBuf> = rows.map(|row| row.expect("a row is readable").path()).collect();
    rows.sort();
    assert!(!rows.is_empty());
    let (rows, failures) = (Mutex::new(rows.into_iter()), Mutex::new(String::new()));
    let work = || {
        while let Some(path) = next(&rows) {
            if let Err(failure) = check(&path) {
                let mut failures = failures.lock().expect("no thread panicked");
                let _ = writeln!(failures, "{}: {failure}", path.display());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..ROWS_AT_ONCE {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().expect("no thread panicked");
    assert!(failures.is_empty(), "{failures}");
}

fn next(rows: &Mutex<std::vec::IntoIter<PathBuf>>) -> Option<PathBuf> {
    rows.lock().expect("no thread panicked").next()
}

fn check(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).expect("a row is text");
    let row: Situation = toml::from_str(&text).map_err(|error| error.to_string())?;
    if row.claim.is_empty() || row.sources.iter().any(|source| !source.starts_with("https://")) {
        return Err("a row has a claim, and its sources are addresses".to_owned());
    }
    let home = row.config.as_deref().map_or_else(Home::offline, Home::configured);
    let identity = "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n\
                    [protocol \"file\"]\nallow = always\n[advice]\ndetachedHead = false\n";
    fs::write(home.path().join(".gitconfig"), identity).expect("the home is writable");
    let folder = TempDir::new().expect("a temporary folder");
    let place = folder.path().join("work");
    fs::create_dir(&place).expect("the folder is writable");
    let made = shell(&home, &place, &row.setup);
    if made.code != 0 {
        return Err(format!(
            "the setup ended with {}: {}{}",
            made.code, made.stdout, made.stderr
        ));
    }
    for step in &row.step {
        let Finished { code, stdout, stderr } = shell(&home, &place, &step.run);
        let said = stdout + &stderr;
        let fail = |what: &str| Err(format!("{}\n`{}` {what}; it said\n{said}", row.claim, step.run));
        if code != step.exit {
            return fail(&format!("ended with {code}, not with {}", step.exit));
        }
        if let Some(text) = step.has.iter().find(|text| !said.contains(*text)) {
            return fail(&format!("does not say `{text}`"));
        }
        if let Some(text) = step.lacks.iter().find(|text| said.contains(*text)) {
            return fail(&format!("says `{text}`"));
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a row is a list of commands")]
fn shell(home: &Home, place: &Path, commands: &str) -> Finished {
    let binary = Path::new(env!("CARGO_BIN_EXE_tool"));
    let others = std::env::var("PATH").unwrap_or_default();
    let programs = binary.parent().expect("the binary lies in a folder").display();
    let output = Command::new("bash")
        .args([
            "-euo",
            "pipefail",
            "-c",
            &format!("sc() {{ tool skill call \"$@\"; }}\n{commands}"),
        ])
        .current_dir(place)
        .env_clear()
        .env("PATH", format!("{programs}:{others}"))
        .env("HOME", home.path())
        .env("TOOL_HOME", home.path())
        .env("TOOL_BACKEND_PORT", "0")
        .stdin(std::process::Stdio::null())
        .output();
    finish(output.expect("bash runs"))
}
