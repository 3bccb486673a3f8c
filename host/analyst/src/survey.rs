//! The first rounds of every overview: the list of files, and the declarations of the manifests.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::json;

use super::evidence::{
    AnalystTask, Dependency, Evidence, ListedFile, parse_dependencies, parse_hits, parse_listed_files,
};
use super::tool_call;
use tool_project::ProjectFacts;
use tool_provider::ToolCall;
use tool_repository::file_role::{self, Role, detect_role, file_name, is_code, is_test, parent_directory};
use tool_repository::path::join_path;

/// Pages of the file list that are requested: 20,000 files in all.
const PAGES_MAX: usize = 10;
/// Files on one page. With long paths a page has some 150 kB; the loop cuts a result above 200 kB.
const PAGE_FILES: usize = 2000;
/// A directory with more than this percentage of the sources is split into its parts, because a map of one row tells
/// nothing.
const DOMINANT_PERCENT: usize = 85;
/// Levels of dominant directories that are split.
const DESCENT_MAX: usize = 8;

/// The calls that are still missing, if any.
pub(super) fn next(brief: &AnalystTask, evidence: &Evidence<'_>) -> Option<Vec<ToolCall>> {
    let list = |number: usize, cursor: Option<String>| {
        let mut arguments = json!({"path": brief.target, "recursive": true, "limit": PAGE_FILES});
        if let Some(cursor) = cursor {
            arguments["cursor"] = cursor.into();
        }
        tool_call("list", number, "list_files", &arguments)
    };
    if !evidence.asked("list") {
        return Some(vec![
            list(1, None),
            tool_call("dependencies", 1, "analyze_dependencies", &json!({})),
        ]);
    }
    let pages = evidence.of("list").count();
    let cursor = evidence
        .of("list")
        .last()
        .and_then(super::evidence::CallWithAnswer::cursor);
    if let Some(cursor) = cursor.filter(|_| pages < PAGES_MAX) {
        return Some(vec![list(pages + 1, Some(cursor))]);
    }
    if evidence.asked("interpreter") {
        return None;
    }
    let nameless = find_nameless_files(evidence);
    let globs: Vec<String> = nameless.iter().map(|path| literal_glob(path)).collect();
    let arguments = json!({"pattern": INTERPRETER, "globs": globs, "limit": NAMELESS_MAX, "case": "sensitive"});
    (!nameless.is_empty()).then(|| vec![tool_call("interpreter", 1, "search_code", &arguments)])
}

/// The interpreter line of a script.
const INTERPRETER: &str = r"^#!\s*/\S";

/// Files without an extension that are searched. A search takes at most 64 globs.
const NAMELESS_MAX: usize = 60;

/// Files whose name does not show their type, and which may be scripts.
fn find_nameless_files(evidence: &Evidence<'_>) -> Vec<String> {
    let files = evidence.of("list").flat_map(|page| parse_listed_files(page.text()));
    let is_nameless = |file: &ListedFile| {
        file.bytes > 0.0 && file_role::is_nameless(&file.path) && detect_role(&file.path) == Role::Other
    };
    let mut paths: Vec<String> = files.filter(is_nameless).map(|file| file.path).collect();
    paths.sort_by_key(|path| path.matches('/').count());
    paths.truncate(NAMELESS_MAX);
    paths
}

/// Language of a script, by its interpreter line.
fn language_of_interpreter(line: &str) -> Option<&'static str> {
    let extension = file_role::script_extension(line)?;
    file_role::detect_language(&format!("script.{extension}"))
}

/// A glob that matches only this path.
pub(super) fn literal_glob(path: &str) -> String {
    let mut glob = String::new();
    for character in path.chars() {
        match character {
            '*' | '?' | '[' | ']' | '{' | '}' | '!' => {
                let _ = write!(glob, "[{character}]");
            }
            character => glob.push(character),
        }
    }
    // Without a slash a glob matches the name in every directory.
    if glob.contains('/') { glob } else { format!("/{glob}") }
}

#[derive(Debug)]
pub(super) struct Survey {
    pub(super) files: Vec<ListedFile>,
    /// Totals as the list writes them: `9 files, 2 directories, 1.2 MB`.
    pub(super) totals: String,
    /// False if there are more files than were listed.
    pub(super) complete: bool,
    pub(super) dependencies: Vec<Dependency>,
    /// Problems of manifests that could not be read.
    pub(super) broken: Vec<String>,
    /// Files without an extension, by path, with the language of their interpreter.
    scripts: BTreeMap<String, &'static str>,
    /// True if there are more C++ sources than C sources, so that headers count as C++.
    has_headers_of_cpp: bool,
    /// True if the target has no sources. Then its tests and examples count as sources.
    pub(super) is_aside: bool,
    /// The language in which the application starts.
    start_language: Option<&'static str>,
}

/// Share of the sources, in percent, from which on the language of an application's start is its main one: the scripts and
/// clients beside it may be larger.
const START_PERCENT_MIN: f64 = 5.0;
/// Languages that one program mixes.
const MIXED_LANGUAGES: [[&str; 2]; 3] = [["JavaScript", "TypeScript"], ["C", "C++"], ["Java", "Kotlin"]];

/// A row of a table: number of files and their size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CountRow {
    pub(super) name: String,
    pub(super) files: usize,
    pub(super) bytes: f64,
}

impl Survey {
    /// Parses the survey from the answers.
    pub(super) fn read_answers(evidence: &Evidence<'_>) -> Self {
        let pages: Vec<_> = evidence.of("list").collect();
        let scripts = evidence
            .of("interpreter")
            .flat_map(|answer| parse_hits(answer.text()))
            .filter(|hit| hit.number == 1)
            .filter_map(|hit| Some((hit.path, language_of_interpreter(&hit.text)?)))
            .collect();
        let mut survey = Self {
            files: pages.iter().flat_map(|page| parse_listed_files(page.text())).collect(),
            totals: pages.first().map_or_else(String::new, |page| parse_totals(page.text())),
            complete: pages.last().is_some_and(|page| page.cursor().is_none()),
            dependencies: evidence
                .of("dependencies")
                .flat_map(|answer| parse_dependencies(answer.text()))
                .collect(),
            broken: evidence
                .of("dependencies")
                .flat_map(|answer| answer.text().lines())
                .filter_map(|line| Some(line.strip_prefix("  problem: ")?.to_owned()))
                .collect(),
            scripts,
            has_headers_of_cpp: false,
            is_aside: false,
            start_language: None,
        };
        let count = |ends: &[&str]| {
            let files = survey.files.iter();
            files
                .filter(|file| ends.iter().any(|end| file.path.ends_with(end)))
                .count()
        };
        survey.has_headers_of_cpp = count(&[".cc", ".cpp", ".cxx", ".hpp", ".hh"]) > count(&[".c"]);
        survey.is_aside = !survey.files.iter().any(|file| survey.is_source(&file.path));
        if !survey.is_aside {
            let path = |problem: &str| problem.split(':').next().unwrap_or_default().to_owned();
            survey.broken.retain(|problem| !is_aside_manifest(&path(problem)));
        }
        survey
    }

    /// Program files without tests; tests and examples if the target has nothing else.
    pub(super) fn sources(&self) -> impl Iterator<Item = &ListedFile> {
        self.files.iter().filter(|file| self.is_source(&file.path))
    }

    /// True for code that people wrote for this repository: not a document, generated, minified or copied.
    pub(super) fn is_source(&self, path: &str) -> bool {
        let is_aside = || self.is_aside && matches!(detect_role(path), Role::Test | Role::Example);
        if self.scripts.contains_key(path) {
            self.is_aside || !is_test(path)
        } else {
            is_code(path) && (detect_role(path) == Role::Source || is_aside())
        }
    }

    /// The language of a file, by its name or by its interpreter line.
    pub(super) fn language(&self, path: &str) -> Option<&'static str> {
        match file_role::detect_language(path) {
            Some("C") if self.has_headers_of_cpp && path.ends_with(".h") => Some("C++"),
            language => language.or_else(|| self.scripts.get(path).copied()),
        }
    }

    /// Test files of the project itself.
    pub(super) fn tests(&self) -> impl Iterator<Item = &ListedFile> {
        let is_copied = |path: &str| detect_role(path) == Role::Vendored || is_copied_dependency(path);
        self.files
            .iter()
            .filter(move |file| is_code(&file.path) && is_test(&file.path) && !is_copied(&file.path))
    }

    /// Languages, most files first.
    pub(super) fn languages(&self) -> Vec<CountRow> {
        sum_rows(
            self.files
                .iter()
                .filter_map(|file| Some((self.language(&file.path)?.to_owned(), file.bytes))),
        )
    }

    /// The bytes of sources by language.
    fn language_bytes(&self) -> BTreeMap<&'static str, f64> {
        let mut sums: BTreeMap<&'static str, f64> = BTreeMap::new();
        let is_aside = |path: &str| is_beside_project(path) || is_served_script(path);
        let has_own = self.sources().any(|file| !is_aside(&file.path));
        for file in self.sources().filter(|file| !has_own || !is_aside(&file.path)) {
            if let Some(language) = self.language(&file.path) {
                *sums.entry(language).or_default() += file.bytes;
            }
        }
        sums
    }

    /// The language in which the application starts, else the one with the most bytes of sources. SQL is the last
    /// choice, because a project may have more migrations than sources.
    pub(super) fn main_language(&self) -> Option<&'static str> {
        let of_most = |(a_name, a): &(&str, f64), (b_name, b): &(&str, f64)| {
            (*a_name != "SQL").cmp(&(*b_name != "SQL")).then(a.total_cmp(b))
        };
        // Of equal languages, the first by name.
        let largest = || {
            self.language_bytes()
                .into_iter()
                .rev()
                .max_by(of_most)
                .map(|(name, _)| name)
        };
        self.start_language.or_else(largest)
    }

    /// Keeps the language of the places that show what the application is, unless it is a small part of the sources.
    pub(super) fn keep_start_language(&mut self, facts: &ProjectFacts) {
        let Some(kind) = facts.kind.as_ref().filter(|found| found.kind.is_application()) else {
            return;
        };
        let shown = kind.evidence.iter().map(|used| &used.place);
        let places = shown.chain(facts.starts.iter().map(|start| &start.place));
        let mut languages = places
            .filter(|place| self.is_source(&place.path))
            .filter_map(|place| self.language(&place.path));
        let Some(language) = languages.next() else { return };
        let bytes = self.language_bytes();
        let mixed = MIXED_LANGUAGES.iter().find(|mixed| mixed.contains(&language));
        let of = |name: &str| bytes.get(name).copied().unwrap_or_default();
        let most = mixed.and_then(|mixed| mixed.iter().copied().max_by(|a, b| of(a).total_cmp(&of(b))));
        let language = most.unwrap_or(language);
        let all: f64 = bytes.values().sum();
        self.start_language = Some(language).filter(|_| of(language) * 100.0 >= all * START_PERCENT_MIN);
    }

    /// The directory whose parts make the most informative map, and these parts, largest first.
    pub(super) fn modules(&self, target: &str) -> (String, Vec<CountRow>) {
        let mut directory = target.to_owned();
        for _ in 0..DESCENT_MAX {
            let parts = self.parts(&directory);
            let all: usize = parts.iter().map(|part| part.files).sum();
            match parts.first() {
                Some(first) if first.name.ends_with('/') && first.files * 100 > all * DOMINANT_PERCENT => {
                    directory = join_path(&directory, first.name.trim_end_matches('/'));
                }
                _ => return (directory, parts),
            }
        }
        let parts = self.parts(&directory);
        (directory, parts)
    }

    /// Direct children of a directory that contain sources; directories end in `/`.
    pub(super) fn parts(&self, directory: &str) -> Vec<CountRow> {
        let sources = self.sources().filter(|file| !is_build_file(&file.path));
        sum_rows(sources.filter_map(|file| {
            let rest = strip_directory(&file.path, directory)?;
            // Settings and scripts of tools.
            if rest.starts_with('.') {
                return None;
            }
            let name = rest
                .split_once('/')
                .map_or(rest.to_owned(), |(first, _)| format!("{first}/"));
            Some((name, file.bytes))
        }))
    }

    /// A survey of only these paths.
    #[cfg(test)]
    pub(super) fn of_paths(paths: &[&str]) -> Self {
        let listed = |path: &&str| ListedFile {
            path: (*path).to_owned(),
            bytes: 1.0,
        };
        Self {
            files: paths.iter().map(listed).collect(),
            totals: String::new(),
            complete: true,
            dependencies: Vec::new(),
            broken: Vec::new(),
            scripts: BTreeMap::new(),
            has_headers_of_cpp: false,
            is_aside: false,
            start_language: None,
        }
    }

    /// The folder of the package with the name of the repository, in a workspace.
    pub(super) fn main_package(&self, repository: &str) -> Option<String> {
        const PARENTS: [&str; 4] = ["", "packages", "crates", "libs"];
        const MARKS: [&str; 4] = ["Cargo.toml", "package.json", "pyproject.toml", "README.md"];
        PARENTS
            .iter()
            .map(|parent| join_path(parent, repository))
            .find(|folder| MARKS.iter().any(|mark| self.has(&join_path(folder, mark))))
            .filter(|_| !repository.is_empty())
    }

    /// True if the target contains this file.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path)
    }
}

/// True for a manifest of tests, examples, documents or copies: its dependencies are not those of the project, and it
/// may be broken on purpose.
pub(super) fn is_aside_manifest(path: &str) -> bool {
    // Code has the role of its folder. A manifest may count as text, or have no known type.
    let code = join_path(parent_directory(path), "main.c");
    matches!(detect_role(&code), Role::Test | Role::Example | Role::Vendored) || is_beside_project(path)
}

/// True for a script in a folder that a server hands out, and for a bundle.
pub(super) fn is_served_script(path: &str) -> bool {
    let is_web = matches!(path.rsplit_once('.'), Some((_, "js" | "mjs" | "cjs" | "css" | "ts")));
    let is_served = |folder: &str| matches!(folder, "static" | "staticfiles" | "public" | "wwwroot" | "dist");
    is_web && parent_directory(path).split('/').any(is_served)
}

/// True for programs that only configure tools.
pub(super) fn is_build_file(path: &str) -> bool {
    const NAMES: [&str; 18] = [
        "gradlew",
        "gradlew.bat",
        "mvnw",
        "mvnw.cmd",
        "flake.nix",
        "default.nix",
        "gemfile",
        "rakefile",
        "dangerfile",
        "configure",
        "build.rs",
        "setup.py",
        "noxfile.py",
        "gulpfile.js",
        "gruntfile.js",
        "package.swift",
        "mix.exs",
        ".formatter.exs",
    ];
    let name = file_name(path).to_ascii_lowercase();
    NAMES.contains(&name.as_str())
        || name.ends_with(".gemspec")
        || name.starts_with('.')
        || name.contains(".config.")
        || name.contains(".conf.")
        || name.ends_with(".gradle")
        || name.ends_with(".gradle.kts")
}

/// True for a program that only tests run.
pub(super) fn is_test_helper(program: &str) -> bool {
    program.to_ascii_lowercase().contains("fixture")
}

/// True in a top-level folder of dependencies, where a C project keeps copies.
fn is_copied_dependency(path: &str) -> bool {
    path.starts_with("deps/")
}

/// True below a folder of secondary material: contributions, playgrounds, benchmarks, copies, modules of tests.
pub(super) fn is_beside_project(path: &str) -> bool {
    const STARTS: [&str; 2] = ["test-", "tests-"];
    const ENDS: [&str; 5] = ["-tests", "-bench", "_bench", "-benchmarks", "_benchmarks"];
    let is_go = path.ends_with(".go");
    let is_beside = |folder: &str| {
        let folder = folder.to_ascii_lowercase();
        STARTS.iter().any(|start| folder.starts_with(start))
            || ENDS.iter().any(|end| folder.ends_with(end))
            // The tools of Go ignore such a folder.
            || is_go && folder.starts_with('_')
            || matches!(
                folder.as_str(),
                "contrib"
                    | "sandbox"
                    | "playground"
                    | "fuzz"
                    | "fuzzing"
                    | "metrics"
                    | "hack"
                    | "misc"
                    | "perf"
                    | "single_include"
                    | "templates"
                    | "project_template"
                    | "app_template"
                    | "old"
                    | "legacy"
            )
    };
    is_copied_dependency(path) || parent_directory(path).split('/').any(is_beside)
}

/// The totals on the first line of a list: the text after its path, up to the first remark.
fn parse_totals(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let (_, counts) = line.split_once(": ").unwrap_or(("", line));
    counts.split(';').next().unwrap_or(counts).to_owned()
}

/// The rest of a path below a directory; the root is the empty string.
pub(super) fn strip_directory<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    if directory.is_empty() {
        Some(path)
    } else {
        path.strip_prefix(directory)?.strip_prefix('/')
    }
}

/// Sums by name, most files first.
fn sum_rows(files: impl Iterator<Item = (String, f64)>) -> Vec<CountRow> {
    let mut sums: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    for (name, bytes) in files {
        let sum = sums.entry(name).or_default();
        sum.0 += 1;
        sum.1 += bytes;
    }
    let mut rows: Vec<CountRow> = sums
        .into_iter()
        .map(|(name, (files, bytes))| CountRow { name, files, bytes })
        .collect();
    rows.sort_by(|a, b| b.files.cmp(&a.files).then(b.bytes.total_cmp(&a.bytes)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_tests_and_playgrounds_are_beside_the_project() {
        assert!(is_beside_project("test-shrinker/src/main/java/Main.java"));
        assert!(is_beside_project("web/Playground/app.ts"));
        assert!(is_beside_project("tests-build/src/lib.rs") && is_beside_project("shop_bench/src/lib.rs"));
        assert!(is_beside_project("_tools/main.go") && !is_beside_project("src/_shop/app.py"));
        assert!(is_beside_project("deps/zip/zip.c") && !is_beside_project("src/deps/zip.c"));
        assert!(!is_beside_project("latest-news/src/main/java/Main.java"));
        assert!(!is_beside_project("src/test-plan.js"));
    }
}
