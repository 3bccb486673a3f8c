//! Tests to imitate for a target file, and neighbours of it without tests.

use std::collections::BTreeSet;

use super::{NEAR_MISSES_MAX, SelectionDraft, path_distance};
use crate::limits::{RANKED_FILE_BYTES_MAX, SELECTED_FILES_MAX};
use crate::query::Query;
use crate::symbols::Syntax;
use tool_repository::file_role::{file_name, file_stem, parent_directory};

impl SelectionDraft<'_, '_> {
    /// The target, its nearest exemplar test, the configuration of the tests, then untested neighbours.
    pub(super) fn test_gen(&mut self, path: &str, query: &Query) {
        self.take(path, 1.0, "the target");
        if !query.is_empty() {
            self.look_for(path, query);
        }
        let tests: Vec<&str> = self
            .indices("")
            .filter(|at| self.is_test_code(*at))
            .map(|at| self.tree.paths[at])
            .collect();
        let mut exemplars: Vec<(f64, &str)> = tests.iter().map(|test| (exemplar_score(path, test), *test)).collect();
        exemplars.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        for (at, (score, test)) in exemplars.iter().take(2).enumerate() {
            if is_test_of(test, path) {
                self.take(test, *score, "tests the target already");
            } else if at == 0 {
                self.take(test, *score, "nearest existing test: the style to match");
            }
        }
        let exemplar = exemplars.first().map_or(path, |(_, test)| *test).to_owned();
        for (config, reason) in self.test_configuration(path, &exemplar) {
            if self.chosen.len() < SELECTED_FILES_MAX - 1 {
                self.take(&config, 0.8, reason);
            }
        }
        for (neighbour, reason) in self.untested(path, &tests) {
            self.take(&neighbour, 0.6, reason);
        }
        self.fill(parent_directory(path));
    }

    /// Fixtures and settings of the tests that show how tests are written here.
    fn test_configuration(&self, target: &str, exemplar: &str) -> Vec<(String, String)> {
        let mut found: Vec<(u32, usize, &str, &str)> = Vec::new();
        for at in 0..self.tree.paths.len() {
            let path = self.tree.paths[at];
            let Some((order, marker)) = test_settings(target, path) else {
                continue;
            };
            let near = path_distance(parent_directory(path), exemplar);
            let above = parent_directory(path).is_empty()
                || exemplar.starts_with(parent_directory(path))
                || target.starts_with(parent_directory(path));
            if above && self.tree.sizes[at] <= RANKED_FILE_BYTES_MAX {
                found.push((order, near, path, marker));
            }
        }
        found.sort_unstable();
        let holds = |path: &str, marker: &str| {
            marker.is_empty() || self.tree.text(path).is_some_and(|text| text.contains(marker))
        };
        let mut kinds = BTreeSet::new();
        found
            .into_iter()
            .filter(|(order, _, path, marker)| !kinds.contains(order) && holds(path, marker) && kinds.insert(*order))
            .take(2)
            .map(|(order, _, path, _)| {
                let reason = if order == 0 {
                    "fixtures of the tests"
                } else {
                    "configuration of the tests"
                };
                (path.to_owned(), reason.to_owned())
            })
            .collect()
    }

    /// Sources without tests near the target: first its imports, then its directory, then further away.
    fn untested(&self, target: &str, tests: &[&str]) -> Vec<(String, String)> {
        let tested: BTreeSet<String> = tests.iter().map(|test| test_subject(test)).collect();
        let imports = self.imports_of_unlisted(target);
        let syntax = Syntax::from_path(target);
        let mut files: Vec<(bool, usize, &str)> = self
            .indices("")
            .filter(|at| self.is_source(*at) && self.tree.sizes[*at] > 0)
            .map(|at| {
                (
                    !imports.contains(&at),
                    path_distance(parent_directory(target), self.tree.paths[at]),
                    self.tree.paths[at],
                )
            })
            .filter(|(_, _, path)| *path != target && Syntax::from_path(path) == syntax)
            .filter(|(_, _, path)| {
                !names_as_subject(path).iter().any(|name| tested.contains(name)) && file_stem(path) != "__init__"
            })
            .collect();
        files.sort_unstable();
        let reason = |foreign| {
            if foreign {
                "a neighbour without tests"
            } else {
                "without tests, and the target uses it"
            }
        };
        files
            .into_iter()
            .take(NEAR_MISSES_MAX)
            .map(|(foreign, _, path)| (path.to_owned(), reason(foreign).to_owned()))
            .collect()
    }
}

/// Subject of a test, by its name: `test_client.py`, `client.test.ts` and `ClientTest.java` are about `client`.
fn test_subject(test: &str) -> String {
    let stem = file_stem(test).to_ascii_lowercase();
    let stem = stem
        .strip_prefix("test_")
        .or_else(|| stem.strip_prefix("test-"))
        .unwrap_or(&stem);
    let mut name = stem;
    for suffix in ["_tests", "_test", "-test", "_spec", "tests", "test", "spec"] {
        if let Some(rest) = name.strip_suffix(suffix).filter(|rest| !rest.is_empty()) {
            name = rest;
            break;
        }
    }
    name.to_owned()
}

pub(super) fn is_test_of(test: &str, target: &str) -> bool {
    Syntax::from_path(test) == Syntax::from_path(target) && names_as_subject(target).contains(&test_subject(test))
}

/// Names that tests may use for a source: `client`, or with the directories above it, `http_client` for
/// `src/http/client.py`.
fn names_as_subject(source: &str) -> Vec<String> {
    let mut name = file_stem(source).to_ascii_lowercase();
    let mut names = vec![name.clone()];
    for directory in parent_directory(source).rsplit('/').filter(|part| !part.is_empty()) {
        name = format!("{}_{name}", directory.to_ascii_lowercase());
        names.push(name.clone());
    }
    names
}

/// Scores how well a test shows the form of the target's tests: the target's own tests first, then tests of the same
/// language whose path mirrors that of the target.
fn exemplar_score(target: &str, test: &str) -> f64 {
    let mut score = 0.0;
    if Syntax::from_path(test) != Syntax::from_path(target) {
        return 0.0;
    }
    let words = |path: &str| -> BTreeSet<String> {
        path.to_ascii_lowercase()
            .split(['/', '_', '-', '.'])
            .filter(|word| word.len() > 1)
            .map(str::to_owned)
            .collect()
    };
    let parts = |path: &str| -> BTreeSet<String> { parent_directory(path).split('/').map(str::to_owned).collect() };
    score += 1.0 + words(target).intersection(&words(test)).count() as f64 * 0.5;
    score += parts(target).intersection(&parts(test)).count() as f64 * 0.3;
    score -= path_distance(parent_directory(target), test) as f64 * 0.05;
    if is_test_of(test, target) {
        score += 10.0;
    }
    let own_name = file_stem(test).to_ascii_lowercase();
    if matches!(
        own_name.as_str(),
        "conftest" | "__init__" | "setup" | "helpers" | "utils" | "util" | "common"
    ) {
        score -= 3.0;
    }
    let named_as_test = own_name.contains("test") || own_name.contains("spec");
    score + if named_as_test { 0.5 } else { 0.0 }
}

/// The order of a file among the settings of tests, and a text that it must contain to count.
fn test_settings(target: &str, path: &str) -> Option<(u32, &'static str)> {
    let name = file_name(path);
    match Syntax::from_path(target)? {
        Syntax::Python => match name {
            "conftest.py" => Some((0, "")),
            "pytest.ini" | ".pytest.ini" => Some((1, "")),
            "pyproject.toml" => Some((1, "pytest")),
            "tox.ini" | "setup.cfg" => Some((1, "pytest")),
            _ => None,
        },
        Syntax::Script => match name {
            "package.json" => Some((2, "")),
            _ if [
                "jest.config.",
                "vitest.config.",
                "karma.conf.",
                ".mocharc",
                "playwright.config.",
                "cypress.config.",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix)) =>
            {
                Some((1, ""))
            }
            _ if name.starts_with("jest.setup.") || name.starts_with("vitest.setup.") => Some((0, "")),
            _ => None,
        },
        Syntax::Rust => (name == "Cargo.toml").then_some((1, "")),
        Syntax::Go => (name == "go.mod").then_some((1, "")),
        Syntax::Java => matches!(name, "pom.xml" | "build.gradle" | "build.gradle.kts").then_some((1, "")),
        Syntax::C => matches!(name, "CMakeLists.txt" | "Makefile").then_some((1, "test")),
        Syntax::Ruby | Syntax::Other => None,
    }
}
