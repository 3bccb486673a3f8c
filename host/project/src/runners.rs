//! The runners of tests and checks that are known, from one data file.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::rules::FileRule;

/// A program that runs the tests of an ecosystem, or one of its checks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TestRunner {
    /// Its name, which is also the name of its recipe.
    pub name: String,
    /// What it runs: `tests`, or the name of a check.
    #[serde(default = "default_purpose")]
    pub purpose: String,
    /// Of a family, only the first fitting runner for each purpose runs in a folder.
    pub family: String,
    /// The command as a person types it, with placeholders; empty if it is not a habit of the project.
    #[serde(default)]
    pub(crate) command: String,
    /// Extensions of the files that it looks at; empty for all files.
    #[serde(default)]
    pub(crate) endings: Vec<String>,
    /// Files that mark the folder of a suite which was found by a file beneath it.
    #[serde(default)]
    pub(crate) roots: Vec<String>,
    /// True if it runs only on request by name.
    #[serde(default)]
    pub on_request: bool,
    /// True if it runs only where no other runner fits the folder.
    #[serde(default)]
    pub last: bool,
    /// True if a suite below another one of the family is separate, and not a part of it.
    #[serde(default)]
    pub(crate) nested: bool,
    /// Signs; one is enough.
    #[serde(default, rename = "sign")]
    pub(crate) signs: Vec<RunnerSign>,
}

fn default_purpose() -> String {
    "tests".to_owned()
}

/// A sign that a runner fits a folder.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RunnerSign {
    /// Files in the folder.
    #[serde(flatten)]
    pub(crate) file: FileRule,
    /// True if a better sign of a later runner counts first.
    #[serde(default)]
    pub(crate) is_guess: bool,
    /// Package manager that a `package.json` in the folder or above it may name instead of a file of `near`.
    pub(crate) manager: Option<String>,
    /// Key of a text in the JSON file; parts are separated by dots.
    pub(crate) key: Option<String>,
    /// Programs that test nothing: a script that starts only these does not count.
    #[serde(default)]
    pub(crate) idle: Vec<String>,
    /// Targets of the Makefile, of which one is enough.
    #[serde(default)]
    pub(crate) targets: Vec<String>,
    /// Files or folders, of which one must also exist in the folder or above it.
    #[serde(default)]
    pub(crate) near: Vec<String>,
    /// Globs for the names of files anywhere beneath the folder.
    #[serde(default)]
    pub(crate) anywhere: Vec<String>,
}

static RUNNERS: LazyLock<Vec<TestRunner>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct RunnerFile {
        runner: Vec<TestRunner>,
    }
    let file: RunnerFile = toml::from_str(include_str!("../runners.toml")).expect("a test parses the runners");
    file.runner
});

/// All runners, in the order of preference within a family.
pub fn all_runners() -> &'static [TestRunner] {
    &RUNNERS
}

/// Names of the files whose text is a sign. Those that a glob names are manifests.
pub(crate) fn read_signs() -> impl Iterator<Item = &'static str> {
    let signs = RUNNERS.iter().flat_map(|runner| &runner.signs);
    let read = signs.filter(|sign| sign.file.text.is_some() || sign.key.is_some() || !sign.targets.is_empty());
    let names = read.flat_map(|sign| &sign.file.files).map(String::as_str);
    names.filter(|name| !name.contains('*'))
}

impl TestRunner {
    /// Names of the files that its signs name.
    pub fn sign_files(&self) -> impl Iterator<Item = &str> {
        self.signs.iter().flat_map(|sign| &sign.file.files).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_sign_is_known_and_every_expression_is_valid() {
        const KEYS: [&str; 10] = [
            "is-guess", "files", "text", "with", "manager", "key", "idle", "targets", "near", "anywhere",
        ];
        let file: toml::Table = toml::from_str(include_str!("../runners.toml")).expect("it is TOML");
        let runners = file["runner"].as_array().expect("a list");
        let tables = runners.iter().filter_map(|runner| runner.get("sign")?.as_array());
        for sign in tables.flatten().filter_map(toml::Value::as_table) {
            assert!(sign.keys().all(|key| KEYS.contains(&key.as_str())), "{sign}");
        }
        for runner in all_runners() {
            assert!(
                !runner.signs.is_empty() || runner.on_request,
                "{} is never found",
                runner.name
            );
            for sign in &runner.signs {
                assert!(
                    sign.file.text.is_none() || sign.file.pattern().is_some(),
                    "{}",
                    runner.name
                );
            }
        }
    }
}
