//! Finds the test suites of a repository by the signs in recipes: all suites, or those that contain given paths.
//!
//! This module searches the list of files and reads small files that a sign names. Nothing runs.

use std::collections::BTreeSet;

use globset::GlobMatcher;
use serde_json::Value;

use super::script;
use crate::imports::recipe;
use crate::recipes::{self, RecipeSign, TestRecipe};
use tokio_util::sync::CancellationToken;
use tool_boundary::Failure;
use tool_boundary::call_cancelled;
use tool_core::api::RunPurpose;
use tool_repository::{FileList, Repository, ScanError, path};

/// Limit for the suites of one run. A repository with more is tested in parts.
pub(super) const SUITES_MAX: usize = 12;

/// Depth of folders beneath the root in which suites are searched if no path is given.
const DEPTH_MAX: usize = 3;

/// Folders whose suites run only for paths in them: they belong to others, or do not test this repository.
const PASSED_OVER: [&str; 14] = [
    "benchmarks",
    "doc",
    "docs",
    "example",
    "examples",
    "external",
    "fixtures",
    "node_modules",
    "samples",
    "templates",
    "test-data",
    "testdata",
    "third_party",
    "vendor",
];

/// A suite that was found.
#[derive(Debug, Clone)]
pub(super) struct FoundSuite {
    pub(super) recipe: &'static TestRecipe,
    /// Path relative to the root.
    pub(super) directory: String,
    /// The sign that was found.
    pub(super) reason: String,
    /// The script or the target that the sign names.
    pub(super) value: Option<String>,
    /// Requested paths, relative to the folder of the suite; empty for all.
    pub(super) paths: Vec<String>,
    /// True if files that look like tests are the only sign.
    pub(super) is_guess: bool,
    /// True if the suite runs only for paths in its folder; otherwise the suite of a folder above runs.
    pub(super) is_part: bool,
}

pub(super) struct SuiteFinder<'a> {
    pub(super) repository: &'a Repository,
    pub(super) cancel: &'a CancellationToken,
    pub(super) files: &'a FileList,
    pub(super) purpose: RunPurpose,
    /// Recipe that was requested by name.
    pub(super) wanted: Option<&'static TestRecipe>,
}

/// A sign that was found in a folder.
struct FoundSign {
    reason: String,
    value: Option<String>,
    is_guess: bool,
}

impl SuiteFinder<'_> {
    /// Finds the suites that contain `paths`; all suites if there are no paths.
    pub(super) fn find(&self, paths: &[String]) -> Result<Vec<FoundSuite>, Failure> {
        let mut suites: Vec<FoundSuite> = Vec::new();
        if paths.is_empty() || paths.iter().any(|path| path == ".") {
            suites = self.find_each();
            suites.retain(|suite| !suite.is_part);
        }
        for asked in paths.iter().filter(|path| *path != ".") {
            for found in self.find_of_path(asked) {
                let known = |suite: &&mut FoundSuite| {
                    suite.recipe.name == found.recipe.name && suite.directory == found.directory
                };
                match suites.iter_mut().find(known) {
                    // A run of the whole suite includes every part of it.
                    Some(suite) if suite.paths.is_empty() => {}
                    Some(suite) if found.paths.is_empty() => suite.paths.clear(),
                    Some(suite) => suite.paths.extend(found.paths),
                    None => suites.push(found),
                }
            }
        }
        if suites.is_empty() {
            return self.find_wanted(paths).map(|suite| vec![suite]);
        }
        Ok(suites)
    }

    /// A recipe that is requested by name runs in the root without any sign.
    fn find_wanted(&self, paths: &[String]) -> Result<FoundSuite, Failure> {
        let Some(recipe) = self.wanted else {
            return Err(self.nothing_found());
        };
        if recipe.interpreter == recipes::Interpreter::Script {
            recipe::read_package_json(self.repository, self.cancel)?;
            return Err(
                Failure::unavailable("package.json has no `test` script that runs a test.")
                    .with_hint("add `\"test\"` to `scripts` in package.json"),
            );
        }
        Ok(FoundSuite {
            recipe,
            directory: String::new(),
            reason: "it was asked for by name".to_owned(),
            value: None,
            paths: paths.iter().filter(|path| *path != ".").cloned().collect(),
            is_guess: false,
            is_part: false,
        })
    }

    fn nothing_found(&self) -> Failure {
        let names: Vec<&str> = recipes::recipes_for(self.purpose)
            .map(|recipe| recipe.name.as_str())
            .collect();
        let (what, hint) = match self.purpose {
            RunPurpose::Tests => (
                "no test suite found".to_owned(),
                "the user can name the command that runs them: `--test-command COMMAND`, or `tool tests set -- COMMAND`"
                    .to_owned(),
            ),
            check => (
                format!("no check `{check}` found"),
                format!("the user can name a command: `tool tests set --check {check} -- COMMAND`"),
            ),
        };
        Failure::not_found(format!("{what}: no sign of {}", names.join(", "))).with_hint(hint)
    }

    fn is_eligible(&self, recipe: &TestRecipe) -> bool {
        match self.wanted {
            Some(wanted) => wanted.name == recipe.name,
            None => recipe.purpose == self.purpose && !recipe.on_request,
        }
    }

    /// Finds the suites of all folders.
    pub(super) fn find_each(&self) -> Vec<FoundSuite> {
        let mut directories: Vec<String> = self.candidates().into_iter().collect();
        directories.sort_by_key(|directory| (folder_depth(directory), directory.clone()));
        let mut suites: Vec<FoundSuite> = Vec::new();
        for directory in &directories {
            let is_above = |suite: &FoundSuite| is_within(directory, &suite.directory);
            for mut found in self.suites_in(directory, false) {
                let holds = |suite: &FoundSuite| is_above(suite) && suite.recipe.family == found.recipe.family;
                found.is_part = !found.recipe.nested && suites.iter().any(holds);
                suites.push(found);
            }
            if !suites.iter().any(is_above) {
                suites.extend(self.suites_in(directory, true));
            }
        }
        suites
    }

    /// Folders that hold a file with the name of a sign.
    fn candidates(&self) -> BTreeSet<String> {
        let recipes = recipes::all_recipes().iter().filter(|recipe| self.is_eligible(recipe));
        let signs: Vec<(&TestRecipe, &RecipeSign)> = recipes
            .flat_map(|recipe| recipe.detect.iter().map(move |sign| (recipe, sign)))
            .collect();
        let globs: Vec<(&TestRecipe, Vec<GlobMatcher>, bool)> = signs
            .iter()
            .map(|(recipe, sign)| {
                let names = sign.anywhere.iter().chain(&sign.glob);
                (
                    *recipe,
                    names.filter_map(|name| glob_matcher(name)).collect(),
                    sign.anywhere.is_empty(),
                )
            })
            .collect();
        let mut found = BTreeSet::new();
        for file in &self.files.files {
            let (parent, name) = path::split_path(&file.path);
            if folder_depth(parent) > DEPTH_MAX + 1 || is_passed_over(parent) {
                continue;
            }
            for (_, sign) in &signs {
                let marked = sign.file.as_ref().and_then(|marker| without_end(&file.path, marker));
                found.extend(marked.map(str::to_owned));
            }
            for (recipe, names, is_here) in &globs {
                if names.iter().any(|glob| glob.is_match(name)) {
                    found.insert(if *is_here {
                        parent.to_owned()
                    } else {
                        self.suite_root(recipe, parent)
                    });
                }
            }
        }
        found.retain(|directory| folder_depth(directory) <= DEPTH_MAX);
        found
    }

    /// The nearest folder that a root file of the recipe marks, else the root of the repository.
    fn suite_root(&self, recipe: &TestRecipe, directory: &str) -> String {
        let marks = |folder: &str| recipe.roots.iter().any(|name| self.has(folder, name));
        folders_upwards(directory)
            .find(|folder| marks(folder))
            .unwrap_or_default()
            .to_owned()
    }

    /// The suites of a folder: the first fitting recipe of each family, or the recipes that replace all others. A guess
    /// from the names of files makes room for a later recipe with a better sign.
    fn suites_in(&self, directory: &str, last: bool) -> Vec<FoundSuite> {
        let mut suites: Vec<FoundSuite> = Vec::new();
        for recipe in recipes::all_recipes() {
            let first = suites.iter().find(|suite| suite.recipe.family == recipe.family);
            let (is_taken, is_guessed) = (first.is_some(), first.is_some_and(|suite| suite.is_guess));
            if (is_taken && !is_guessed) || recipe.last != last || !self.is_eligible(recipe) {
                continue;
            }
            if let Some(sign) = self.fits(recipe, directory).filter(|sign| !is_taken || !sign.is_guess) {
                suites.retain(|suite| suite.recipe.family != recipe.family);
                suites.push(FoundSuite {
                    recipe,
                    directory: directory.to_owned(),
                    reason: sign.reason,
                    value: sign.value,
                    paths: Vec::new(),
                    is_guess: sign.is_guess,
                    is_part: false,
                });
            }
        }
        suites
    }

    /// The suites that contain a path: those of the nearest folder upwards with a recipe for such files.
    fn find_of_path(&self, asked: &str) -> Vec<FoundSuite> {
        let (file, node) = asked.split_once("::").unwrap_or((asked, ""));
        let is_file = self.files.find(file).is_some();
        let start = if is_file { path::split_path(file).0 } else { file };
        let is_new = !is_file && self.files.beneath(file).is_empty();
        let endings: BTreeSet<&str> = if is_file || is_new {
            [file_ending(file)].into()
        } else {
            self.files
                .beneath(file)
                .iter()
                .map(|entry| file_ending(&entry.path))
                .collect()
        };
        let serves = |recipe: &TestRecipe| {
            recipe.endings.is_empty() || recipe.endings.iter().any(|known| endings.contains(known.as_str()))
        };
        for last in [false, true] {
            for directory in folders_upwards(start) {
                let mut suites = self.suites_in(directory, last);
                // A package without test files is where the first test will be written.
                let is_package = !is_file && directory == start;
                suites.retain(|suite| is_package || serves(suite.recipe));
                if suites.is_empty() {
                    continue;
                }
                for suite in &mut suites {
                    let inside = relative_path(file, directory);
                    let is_all = inside.is_empty();
                    suite.paths = match (is_all, node) {
                        (true, _) => Vec::new(),
                        (false, "") => vec![inside.to_owned()],
                        (false, node) => vec![format!("{inside}::{node}")],
                    };
                }
                return suites;
            }
        }
        Vec::new()
    }

    /// The first sign of the recipe in a folder.
    fn fits(&self, recipe: &TestRecipe, directory: &str) -> Option<FoundSign> {
        let signs = recipe.detect.iter();
        signs
            .filter(|sign| {
                let is_near = |name: &String| folders_upwards(directory).any(|folder| self.has(folder, name));
                sign.near.is_empty() || sign.near.iter().any(is_near)
            })
            .find_map(|sign| self.sign(recipe, sign, directory))
    }

    fn sign(&self, recipe: &TestRecipe, sign: &RecipeSign, directory: &str) -> Option<FoundSign> {
        let found = |reason: String, value| {
            Some(FoundSign {
                reason,
                value,
                is_guess: false,
            })
        };
        if !sign.anywhere.is_empty() {
            let globs: Vec<GlobMatcher> = sign.anywhere.iter().filter_map(|name| glob_matcher(name)).collect();
            let beneath = self.files.beneath(directory).iter();
            let mut tests =
                beneath.filter(|file| globs.iter().any(|glob| glob.is_match(path::split_path(&file.path).1)));
            let test = tests.find(|file| self.suite_root(recipe, path::split_path(&file.path).0) == directory)?;
            return Some(FoundSign {
                reason: relative_path(&test.path, directory).to_owned(),
                value: None,
                is_guess: true,
            });
        }
        if let Some(glob) = sign.glob.as_deref().and_then(glob_matcher) {
            let mut here = self
                .files
                .beneath(directory)
                .iter()
                .map(|file| relative_path(&file.path, directory));
            let name = here.find(|name| !name.contains('/') && glob.is_match(name))?;
            return found(name.to_owned(), None);
        }
        let name = sign.file.as_deref()?;
        let place = path::join_path(directory, name);
        self.files.find(&place)?;
        if let Some(start) = &sign.line {
            let text = recipe::small_file(self.repository, self.cancel, &place)?;
            let line = text
                .lines()
                .map(str::trim)
                .find(|line| line.starts_with(start.as_str()))?;
            // The header of the table only: `[tool.pytest.ini_options]`.
            let line = line.split_inclusive(']').next().unwrap_or(line);
            return found(format!("{line} in {name}"), None);
        }
        if let Some(key) = &sign.key {
            let text = recipe::small_file(self.repository, self.cancel, &place)?;
            let mut value = &serde_json::from_str::<Value>(&text).ok()?;
            for part in key.split('.') {
                value = &value[part];
            }
            let value = value.as_str().map(str::trim).filter(|value| !value.is_empty())?;
            if recipe.interpreter != recipes::Interpreter::Script {
                let name = key.rsplit('.').next().unwrap_or(key);
                return found(
                    format!("the script `{name}` in {file}", file = path::split_path(&place).1),
                    Some(name.to_owned()),
                );
            }
            let is_idle = !sign.idle.is_empty() && script::starts_only(value, &sign.idle);
            return (!is_idle)
                .then(|| found(format!("`{value}`"), Some(value.to_owned())))
                .flatten();
        }
        if !sign.targets.is_empty() {
            let text = recipe::small_file(self.repository, self.cancel, &place)?;
            let target = sign.targets.iter().find(|target| has_target(&text, target))?;
            return found(format!("the target `{target}` in {name}"), Some(target.clone()));
        }
        found(name.to_owned(), None)
    }

    /// True if the folder contains this file or folder.
    fn has(&self, directory: &str, name: &str) -> bool {
        let place = path::join_path(directory, name);
        self.files.find(&place).is_some() || !self.files.beneath(&place).is_empty()
    }
}

pub(super) fn list_repository(
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<std::sync::Arc<FileList>, Failure> {
    repository.list(cancel).map_err(|error| match error {
        ScanError::Cancelled => call_cancelled(),
        error @ ScanError::Unreadable { .. } => Failure::failed(format!("{error}.")),
    })
}

/// True if a Makefile defines this target by name.
pub(super) fn has_target(makefile: &str, target: &str) -> bool {
    makefile.lines().any(|line| {
        let rule = line.split_once(':').filter(|(_, rest)| !rest.starts_with('='));
        rule.is_some_and(|(names, _)| !line.starts_with('\t') && names.split_whitespace().any(|name| name == target))
    })
}

/// A folder and the folders above it, up to the root.
fn folders_upwards(directory: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(directory), |folder| {
        (!folder.is_empty()).then(|| path::split_path(folder).0)
    })
}

fn folder_depth(directory: &str) -> usize {
    directory.split('/').filter(|part| !part.is_empty()).count()
}

fn is_within(path: &str, directory: &str) -> bool {
    directory.is_empty() || path == directory || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

fn is_passed_over(directory: &str) -> bool {
    directory
        .split('/')
        .any(|part| PASSED_OVER.contains(&part) || (part.starts_with('.') && part != ".config"))
}

/// Path relative to a folder above it.
fn relative_path<'p>(path: &'p str, directory: &str) -> &'p str {
    let rest = path.strip_prefix(directory).unwrap_or(path);
    rest.strip_prefix('/').unwrap_or(rest)
}

/// The folder of a path, if the path is the file `marker` in it.
fn without_end<'p>(path: &'p str, marker: &str) -> Option<&'p str> {
    let folder = path.strip_suffix(marker)?;
    if folder.is_empty() {
        Some("")
    } else {
        folder.strip_suffix('/')
    }
}

fn file_ending(path: &str) -> &str {
    path::split_path(path)
        .1
        .rsplit_once('.')
        .map_or("", |(_, ending)| ending)
}

/// Compiles a glob of a recipe. A test compiles all of them.
fn glob_matcher(glob: &str) -> Option<GlobMatcher> {
    let glob = globset::GlobBuilder::new(glob)
        .literal_separator(true)
        .empty_alternates(true)
        .build();
    glob.ok().map(|glob| glob.compile_matcher())
}
