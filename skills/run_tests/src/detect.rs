//! Test suites of a repository: signs of pytest, and a `test` script that is more than npm's placeholder.

use std::fs;

use skill_sdk::serde_json::Value;
use skill_sdk::{Failure, Host, Query, code};

/// Configuration files are small; more than this is none.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Program that runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Pytest,
    Npm,
}

impl Runner {
    /// The name of the host's recipe.
    pub(crate) fn recipe(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Npm => "npm-test",
        }
    }
}

/// A decision, with what there is to say about it.
pub(crate) struct Chosen {
    pub(crate) runner: Runner,
    pub(crate) note: String,
}

/// Decides by what the repository has, and by the paths where it has both.
pub(crate) fn choose(host: &dyn Host, paths: &[String]) -> Result<Chosen, Failure> {
    let pytest = pytest_sign(host);
    let npm = npm_script(host);
    let chosen = |runner, note: String| Ok(Chosen { runner, note });
    match (pytest, npm) {
        (Some(sign), Ok(script)) => match runner_of_paths(host, paths) {
            Some(runner) => chosen(
                runner,
                "runner: chosen by the path; the repository has pytest and npm tests".into(),
            ),
            None => chosen(
                Runner::Pytest,
                format!(
                    "runner: pytest ({sign}). package.json has a test script as well (`{script}`): \
                     use `framework`: \"npm\" to run it"
                ),
            ),
        },
        (Some(sign), Err(_)) => chosen(Runner::Pytest, format!("runner: pytest ({sign})")),
        (None, Ok(script)) => chosen(Runner::Npm, format!("runner: npm test (`{script}`)")),
        (None, Err(why)) => Err(Failure::not_found(format!(
            "no test suite found: no configuration of pytest, no conftest.py, no test_*.py or *_test.py, and {}",
            why.message
        ))
        .with_hint("use `framework` to run pytest or npm all the same")),
    }
}

/// Returns the sign that pytest runs here.
fn pytest_sign(host: &dyn Host) -> Option<String> {
    for name in ["pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"] {
        if read(host, name).is_some() {
            return Some(name.to_owned());
        }
    }
    let sections = [
        ("pyproject.toml", "[tool.pytest"),
        ("setup.cfg", "[tool:pytest]"),
        ("tox.ini", "[pytest]"),
    ];
    for (name, section) in sections {
        let content = read(host, name).unwrap_or_default();
        let found = content.lines().map(str::trim).find(|line| line.starts_with(section));
        if let Some(line) = found {
            // The table as it stands there: `[tool.pytest.ini_options]`.
            let table = line.split_inclusive(']').next().unwrap_or(line);
            return Some(format!("{table} in {name}"));
        }
    }
    let listed = host
        .list_page(&Query {
            recursive: true,
            globs: ["conftest.py", "test_*.py", "*_test.py"].map(str::to_owned).to_vec(),
            ..Query::default()
        })
        .ok()?;
    listed.entries.first().map(|entry| entry.path.clone())
}

/// The `test` script of the root's package.json.
pub(crate) fn npm_script(host: &dyn Host) -> Result<String, Failure> {
    let Some(content) = read(host, "package.json") else {
        return Err(Failure::not_found("no package.json at the root"));
    };
    let manifest: Value = skill_sdk::serde_json::from_str(&content).map_err(|error| {
        Failure::failed(format!("package.json does not parse: {error}")).with_hint("mend package.json first")
    })?;
    let script = manifest["scripts"]["test"]
        .as_str()
        .map(str::trim)
        .filter(|script| !script.is_empty());
    match script {
        // The text that `npm init` writes.
        Some(script) if script.contains("no test specified") => Err(Failure::not_found(
            "package.json has only npm's placeholder as its `test` script",
        )),
        Some(script) => Ok(script.to_owned()),
        None => Err(Failure::not_found("package.json has no `test` script")),
    }
}

/// The runner that all paths belong to.
fn runner_of_paths(host: &dyn Host, paths: &[String]) -> Option<Runner> {
    let mut runners = paths.iter().map(|path| runner_of_path(host, path));
    let first = runners.next()??;
    runners.all(|runner| runner == Some(first)).then_some(first)
}

fn runner_of_path(host: &dyn Host, path: &str) -> Option<Runner> {
    let file = path.split("::").next().unwrap_or(path);
    let is_script = |path: &str| {
        let ending = path.rsplit('.').next().unwrap_or_default();
        matches!(
            ending,
            "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" | "vue" | "svelte"
        )
    };
    if file.ends_with(".py") {
        return Some(Runner::Pytest);
    }
    if is_script(file) {
        return Some(Runner::Npm);
    }
    let page = host
        .list_page(&Query {
            under: file.to_owned(),
            recursive: true,
            ..Query::default()
        })
        .ok()?;
    let python = page.entries.iter().any(|entry| entry.path.ends_with(".py"));
    let script = page.entries.iter().any(|entry| is_script(&entry.path));
    match (python, script) {
        (true, false) => Some(Runner::Pytest),
        (false, true) => Some(Runner::Npm),
        _ => None,
    }
}

/// Checks the paths and brings them into their plain form: `./a/` becomes `a`, a node id keeps what is behind `::`.
pub(crate) fn check_paths(host: &dyn Host, paths: &[String]) -> Result<Vec<String>, Failure> {
    paths
        .iter()
        .map(|path| {
            let (file, node) = match path.split_once("::") {
                Some((file, node)) => (file, Some(node)),
                None => (path.as_str(), None),
            };
            let clean = skill_sdk::clean_path(file)?;
            if clean.starts_with('-') {
                return Err(Failure::new(
                    code::INVALID_ARGUMENTS,
                    format!("`{path}` begins like an option"),
                ));
            }
            host.locate(&clean)?;
            let clean = if clean.is_empty() { ".".to_owned() } else { clean };
            Ok(match node {
                Some(node) => format!("{clean}::{node}"),
                None => clean,
            })
        })
        .collect()
}

fn read(host: &dyn Host, path: &str) -> Option<String> {
    let place = host.path(path).ok()?;
    let metadata = fs::metadata(&place).ok()?;
    if !metadata.is_file() || metadata.len() > CONFIG_BYTES_MAX {
        return None;
    }
    let content = fs::read(place).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}
