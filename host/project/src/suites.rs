//! Finds the test suites of a project by the signs of runners: all suites, or those that contain given paths.

use std::collections::BTreeSet;

use crate::globs::matches_glob;
use crate::manifests::{line_of_json_key, numbered_lines, read_json};
use crate::rules::FileRule;
use crate::runners::{RunnerSign, TestRunner};
use crate::tree::join;
use crate::{EvidencePlace, ProjectFile};

/// Depth of folders beneath the target in which suites are searched if no path is given.
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
pub struct TestSuite {
    /// Who runs it.
    pub runner: &'static TestRunner,
    /// Path relative to the root.
    pub directory: String,
    /// The sign that was found, in words.
    pub reason: String,
    /// Where the sign is.
    pub place: EvidencePlace,
    /// The script or the target that the sign names.
    pub value: Option<String>,
    /// Requested paths, relative to the folder of the suite; empty for all.
    pub paths: Vec<String>,
    /// True if files that look like tests are the only sign.
    pub is_guess: bool,
    /// True if the suite runs only for paths in its folder; otherwise the suite of a folder above runs.
    pub is_part: bool,
}

/// Searches the paths of a project. Nothing runs.
pub struct SuiteFinder<'a> {
    /// The folder that is searched, relative to the root; empty for the root.
    pub target: &'a str,
    /// The paths of all files in it, sorted.
    pub paths: &'a [&'a str],
    /// Reads a small file.
    pub read: &'a dyn Fn(&str) -> Option<String>,
    /// The runners of one purpose, in the order of preference.
    pub runners: &'a [&'static TestRunner],
}

/// A sign that was found in a folder.
struct FoundSign {
    reason: String,
    place: EvidencePlace,
    value: Option<String>,
    is_guess: bool,
}

impl<'a> SuiteFinder<'a> {
    /// Finds the suites that contain these paths.
    pub fn find_of_paths<'p>(&self, paths: impl IntoIterator<Item = &'p String>) -> Vec<TestSuite> {
        let mut suites: Vec<TestSuite> = Vec::new();
        for found in paths.into_iter().flat_map(|path| self.find_of_path(path)) {
            let known =
                |suite: &&mut TestSuite| suite.runner.name == found.runner.name && suite.directory == found.directory;
            match suites.iter_mut().find(known) {
                // A run of the whole suite includes every part of it.
                Some(suite) if suite.paths.is_empty() => {}
                Some(suite) if found.paths.is_empty() => suite.paths.clear(),
                Some(suite) => suite.paths.extend(found.paths),
                None => suites.push(found),
            }
        }
        suites
    }

    /// Finds the suites of all folders.
    pub fn find_each(&self) -> Vec<TestSuite> {
        let mut directories: Vec<String> = self.candidates().into_iter().collect();
        directories.sort_by_key(|directory| (folder_depth(directory), directory.clone()));
        let mut suites: Vec<TestSuite> = Vec::new();
        for directory in &directories {
            let is_above = |suite: &TestSuite| is_within(directory, &suite.directory);
            for mut found in self.suites_in(directory, false) {
                let holds = |suite: &TestSuite| is_above(suite) && suite.runner.family == found.runner.family;
                found.is_part = !found.runner.nested && suites.iter().any(holds);
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
        let signs: Vec<(&TestRunner, &RunnerSign)> = self
            .runners
            .iter()
            .flat_map(|runner| runner.signs.iter().map(|sign| (*runner, sign)))
            .collect();
        let mut found = BTreeSet::new();
        for path in self.paths {
            let (parent, name) = split_path(path);
            let inside = relative_path(parent, self.target);
            if folder_depth(inside) > DEPTH_MAX + 1 || is_passed_over(inside) {
                continue;
            }
            for (runner, sign) in &signs {
                for glob in &sign.file.files {
                    let (below, last) = split_path(glob);
                    let is_named = matches_glob(last, name);
                    let folder = is_named.then(|| without_end(parent, below)).flatten();
                    found.extend(folder.map(str::to_owned));
                }
                if sign.anywhere.iter().any(|glob| matches_glob(glob, name)) {
                    found.insert(self.suite_root(runner, parent));
                }
            }
        }
        found.retain(|directory| {
            is_within(directory, self.target) && folder_depth(relative_path(directory, self.target)) <= DEPTH_MAX
        });
        found
    }

    /// The nearest folder that a root file of the runner marks, else the target.
    fn suite_root(&self, runner: &TestRunner, directory: &str) -> String {
        let marks = |folder: &str| runner.roots.iter().any(|name| self.has(folder, name));
        folders_upwards(directory)
            .find(|folder| marks(folder))
            .unwrap_or(self.target)
            .to_owned()
    }

    /// The suites of a folder: the first fitting runner of each family, or the runners that replace all others. A guess
    /// from the names of files makes room for a later runner with a better sign.
    fn suites_in(&self, directory: &str, last: bool) -> Vec<TestSuite> {
        let mut suites: Vec<TestSuite> = Vec::new();
        for runner in self.runners.iter().copied() {
            let first = suites.iter().find(|suite| suite.runner.family == runner.family);
            let (is_taken, is_guessed) = (first.is_some(), first.is_some_and(|suite| suite.is_guess));
            if (is_taken && !is_guessed) || runner.last != last {
                continue;
            }
            if let Some(sign) = self.fits(runner, directory).filter(|sign| !is_taken || !sign.is_guess) {
                suites.retain(|suite| suite.runner.family != runner.family);
                suites.push(TestSuite {
                    runner,
                    directory: directory.to_owned(),
                    reason: sign.reason,
                    place: sign.place,
                    value: sign.value,
                    paths: Vec::new(),
                    is_guess: sign.is_guess,
                    is_part: false,
                });
            }
        }
        suites.sort_by_key(|suite| suite.is_guess);
        suites
    }

    /// The suites that contain a path: those of the nearest folder upwards with a runner for such files.
    fn find_of_path(&self, asked: &str) -> Vec<TestSuite> {
        let (file, node) = asked.split_once("::").unwrap_or((asked, ""));
        let is_file = self.paths.binary_search(&file).is_ok();
        let start = if is_file { split_path(file).0 } else { file };
        let beneath = self.beneath(file);
        let endings: BTreeSet<&str> = if is_file || beneath.is_empty() {
            [file_ending(file)].into()
        } else {
            beneath.iter().map(|path| file_ending(path)).collect()
        };
        let serves = |runner: &TestRunner| {
            runner.endings.is_empty() || runner.endings.iter().any(|known| endings.contains(known.as_str()))
        };
        for last in [false, true] {
            for directory in folders_upwards(start) {
                let mut suites = self.suites_in(directory, last);
                // A package without test files is where the first test will be written.
                let is_package = !is_file && directory == start;
                suites.retain(|suite| is_package || serves(suite.runner));
                if suites.is_empty() {
                    continue;
                }
                for suite in &mut suites {
                    let inside = relative_path(file, directory);
                    suite.paths = match (inside.is_empty(), node) {
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

    /// The first sign of the runner in a folder.
    fn fits(&self, runner: &TestRunner, directory: &str) -> Option<FoundSign> {
        let is_near = |name: &String| folders_upwards(directory).any(|folder| self.has(folder, name));
        let is_stated = |sign: &RunnerSign| {
            let manifest = |folder| stated_manager(&self.read_file(&join(folder, "package.json"))?);
            let stated = folders_upwards(directory).find_map(manifest);
            stated.is_some() && stated == sign.manager
        };
        runner.signs.iter().find_map(|sign| {
            let found = match sign.anywhere.as_slice() {
                [] => self.sign_here(sign, directory),
                names => self.sign_beneath(runner, names, directory),
            }?;
            let is_fit = sign.near.is_empty() || sign.near.iter().any(is_near) || is_stated(sign);
            is_fit.then_some(found)
        })
    }

    fn sign_beneath(&self, runner: &TestRunner, names: &[String], directory: &str) -> Option<FoundSign> {
        let is_test = |path: &&&str| names.iter().any(|glob| matches_glob(glob, split_path(path).1));
        let mut tests = self.beneath(directory).iter().filter(is_test);
        let test = tests.find(|path| self.suite_root(runner, split_path(path).0) == directory)?;
        Some(FoundSign {
            reason: relative_path(test, directory).to_owned(),
            place: place_of(test, None),
            value: None,
            is_guess: true,
        })
    }

    fn sign_here(&self, sign: &RunnerSign, directory: &str) -> Option<FoundSign> {
        let is_there = |glob: &String| !self.matching(glob, directory).is_empty();
        if !sign.file.with.is_empty() && !sign.file.with.iter().any(is_there) {
            return None;
        }
        let mut files = sign.file.files.iter().flat_map(|glob| self.matching(glob, directory));
        files.find_map(|path| self.sign_in(sign, path, directory))
    }

    /// The paths in a folder that match a glob.
    fn matching(&self, glob: &str, directory: &str) -> Vec<&'a str> {
        if !glob.contains('*') {
            let place = join(directory, glob);
            let found = self.paths.binary_search(&place.as_str()).ok();
            return found.map(|at| self.paths[at]).into_iter().collect();
        }
        let beneath = self.beneath(directory).iter().copied();
        beneath
            .filter(|path| matches_glob(glob, relative_path(path, directory)))
            .collect()
    }

    fn sign_in(&self, sign: &RunnerSign, path: &str, directory: &str) -> Option<FoundSign> {
        let name = relative_path(path, directory);
        let found = |reason: String, line: Option<usize>, value: Option<String>| {
            Some(FoundSign {
                reason,
                place: place_of(path, line),
                value,
                is_guess: sign.is_guess,
            })
        };
        let FileRule { text: None, .. } = &sign.file else {
            let (line, text) = self.matching_line(&sign.file, path)?;
            // The header of the table only: `[tool.pytest.ini_options]`.
            let text = text.trim().split_inclusive(']').next().unwrap_or_default().to_owned();
            return found(format!("{text} in {name}"), Some(line), None);
        };
        if let Some(key) = &sign.key {
            let file = self.read_file(path)?;
            let mut value = &read_json(&file)?;
            for part in key.split('.') {
                value = &value[part];
            }
            let value = value.as_str().map(str::trim).filter(|value| !value.is_empty())?;
            let (object, script) = key.rsplit_once('.').unwrap_or(("", key));
            let line = Some(line_of_json_key(&file.text, object, script));
            // A script that a runner has no words for is started by its name.
            return match sign.idle.as_slice() {
                [] => found(
                    format!("the script `{script}` in {name}"),
                    line,
                    Some(script.to_owned()),
                ),
                idle if starts_only(value, idle) => None,
                _ => found(format!("`{value}`"), line, Some(value.to_owned())),
            };
        }
        if !sign.targets.is_empty() {
            let file = self.read_file(path)?;
            let mut targets = sign.targets.iter();
            let (target, line) = targets.find_map(|target| Some((target, target_line(&file, target)?)))?;
            return found(
                format!("the target `{target}` in {name}"),
                Some(line),
                Some(target.clone()),
            );
        }
        found(name.to_owned(), None, None)
    }

    fn read_file(&self, path: &str) -> Option<ProjectFile> {
        let text = (self.read)(path)?;
        Some(ProjectFile {
            path: path.to_owned(),
            text,
        })
    }

    fn matching_line(&self, rule: &FileRule, path: &str) -> Option<(usize, String)> {
        let (file, pattern) = (self.read_file(path)?, rule.pattern()?);
        let line = numbered_lines(&file).find(|(_, line)| pattern.is_match(line));
        line.map(|(line, text)| (line, text.to_owned()))
    }

    /// The paths in a folder and beneath it.
    fn beneath(&self, directory: &str) -> &'a [&'a str] {
        if directory.is_empty() {
            return self.paths;
        }
        let start = format!("{directory}/");
        let first = self.paths.partition_point(|path| *path < start.as_str());
        let count = self.paths[first..].partition_point(|path| path.starts_with(&start));
        &self.paths[first..first + count]
    }

    /// True if the folder contains this file or folder.
    fn has(&self, directory: &str, name: &str) -> bool {
        let place = join(directory, name);
        self.paths.binary_search(&place.as_str()).is_ok() || !self.beneath(&place).is_empty()
    }
}

/// The package manager that a `package.json` names.
pub(crate) fn stated_manager(file: &ProjectFile) -> Option<String> {
    let manifest = read_json(file)?;
    let stated = manifest["packageManager"].as_str()?;
    Some(stated.split('@').next()?.to_owned())
}

fn place_of(path: &str, line: Option<usize>) -> EvidencePlace {
    EvidencePlace {
        path: path.to_owned(),
        line,
    }
}

/// True for a script that starts only these programs, for example `echo "no test specified" && exit 1`.
fn starts_only(script: &str, programs: &[String]) -> bool {
    let mut commands = script
        .split(['&', '|', ';', '\n'])
        .map(str::trim)
        .filter(|command| !command.is_empty());
    let is_one = |command: &str| {
        let first = command.split_whitespace().next();
        programs.iter().any(|program| first == Some(program))
    };
    !script.contains(['`', '$']) && commands.all(is_one)
}

/// The line where a Makefile defines this target by name.
fn target_line(makefile: &ProjectFile, target: &str) -> Option<usize> {
    let defines = |(_, line): &(usize, &str)| {
        let rule = line.split_once(':').filter(|(_, rest)| !rest.starts_with('='));
        rule.is_some_and(|(names, _)| !line.starts_with('\t') && names.split_whitespace().any(|name| name == target))
    };
    numbered_lines(makefile).find(defines).map(|(line, _)| line)
}

/// A folder and the folders above it, up to the root.
fn folders_upwards(directory: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(directory), |folder| {
        (!folder.is_empty()).then(|| split_path(folder).0)
    })
}

fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
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

/// The folder above `below`, if a folder is `below` or ends with it.
fn without_end<'p>(folder: &'p str, below: &str) -> Option<&'p str> {
    match folder.strip_suffix(below)? {
        "" => Some(""),
        above if below.is_empty() => Some(above),
        above => above.strip_suffix('/'),
    }
}

fn file_ending(path: &str) -> &str {
    split_path(path).1.rsplit_once('.').map_or("", |(_, ending)| ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_echo_alone_tests_nothing() {
        let idle = ["echo", "exit", "true", ":"].map(str::to_owned);
        for script in [
            "echo root",
            "echo \"Error: no test specified\" && exit 1",
            "true",
            ": ; exit 0",
        ] {
            assert!(starts_only(script, &idle), "{script}");
        }
        for script in [
            "echo $(jest)",
            "echo a && jest",
            "echo-tests",
            "node --test",
            "true|tap",
        ] {
            assert!(!starts_only(script, &idle), "{script}");
        }
    }
}
