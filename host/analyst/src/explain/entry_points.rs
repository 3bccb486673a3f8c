//! Entry points: the commands and modules that manifests declare, programs, and the public file of a library.
//!
//! A program is a file with the language's `main` at a path where its build tool looks for it. A name alone does not
//! decide in Java and Kotlin, where many classes are called `Application`.

use std::fmt::Write;

use super::central::exports_names;
use super::speaking_files;
use crate::commands::{cite_evidence, project_facts};
use crate::evidence::{AnalystTask, Evidence, FileLine, ListedFile, SearchHit, parse_hits};
use crate::file_doc::file_purpose;
use crate::manifest::ReadFile;
use crate::survey::{Survey, is_beside_project, is_test_helper, strip_directory};
use crate::text::{cite_lines, escape_prose, quote_code};
use tool_project::ProgramStart;
use tool_repository::file_role::{
    Role, detect_role, entry_point_by_path, file_name, file_stem, is_code, is_test, parent_directory,
};
use tool_repository::path::join_path;

/// Entry points that are read and listed.
const ENTRY_POINTS_MAX: usize = 5;
const PROGRAMS_MAX: usize = 8;
const HEADER_FOLDERS_MAX: usize = 3;

pub(super) fn starts_section(
    brief: &AnalystTask,
    survey: &Survey,
    files: &[ReadFile],
    evidence: &Evidence<'_>,
) -> String {
    let known = project_facts(&brief.target, survey, files).starts;
    let mut programs = find_programs(brief, survey, files, evidence);
    programs.retain(|hit| !known.iter().any(|start| start.place.path == hit.path));
    let (aside, own): (Vec<&SearchHit>, Vec<&SearchHit>) =
        programs.iter().partition(|hit| is_tool_of_authors(&hit.path));
    let shown = |start: &ProgramStart| {
        let path = quote_code(&start.place.path);
        match start.place.line {
            Some(_) => format!("{}: {path} ({})", start.what, cite_evidence(&start.place)),
            None => format!("{}: {path}", start.what),
        }
    };
    let mut starts: Vec<String> = known.iter().map(shown).collect();
    starts.extend(quote_declared_starts(brief, survey, files));
    starts.extend(find_headers(brief, survey, files, evidence));
    starts.extend(program_lines(&own, files));
    starts.extend(go_package(brief, survey, files, evidence));
    // A path alone is the weakest evidence.
    if known.is_empty() {
        starts.extend(by_path(brief, survey, files, &programs));
    }
    let library = named_library(brief, survey);
    starts.extend(library.map(|path| format!("library {} ({})", quote_code(&path), cite_lines(&path, &1))));
    starts.extend(program_lines(&aside, files));
    if starts.is_empty() {
        return String::new();
    }
    let mut text = "## Entry points\n\n".to_owned();
    for start in &starts {
        let _ = writeln!(text, "- {start}");
    }
    text
}

/// Commands and modules that the manifests declare.
fn quote_declared_starts(brief: &AnalystTask, survey: &Survey, files: &[ReadFile]) -> Vec<String> {
    let speaking = speaking_files(brief, survey, files);
    let main = survey.main_language();
    let has_other_manifest = main.is_some() && speaking.iter().any(|file| file.ecosystem() == main);
    // A library of another language may have an npm package next to it.
    let is_aside = |file: &ReadFile| file.name() == "package.json" && has_other_manifest;
    let files = speaking.into_iter().filter(|file| !is_aside(file));
    let starts = files.flat_map(|file| {
        let starts = file.declared_starts(|path| survey.has(path)).into_iter();
        starts.map(|start| format!("{} ({})", start.text, file.place(start.line)))
    });
    starts.collect()
}

/// The functions in which programs of the project start, the shallowest paths first.
fn find_programs(brief: &AnalystTask, survey: &Survey, files: &[ReadFile], evidence: &Evidence<'_>) -> Vec<SearchHit> {
    // A `main` in a source with a header is the test of a component.
    let is_part = |path: &str| {
        let header = join_path(parent_directory(path), &format!("{}.h", file_stem(path)));
        let is_named = [brief.repository.as_str(), "main", "server", "client", "cli"].contains(&file_stem(path));
        !is_named && path.ends_with(".c") && survey.has(&header)
    };
    let declared: Vec<String> = files.iter().flat_map(ReadFile::cargo_program_paths).collect();
    let is_built = |path: &str| !path.ends_with(".rs") || is_cargo_program(path) || declared.iter().any(|d| d == path);
    let mut programs = find_main_functions(evidence);
    programs.retain(|hit| survey.is_aside || is_program(&hit.path) && !is_part(&hit.path) && is_built(&hit.path));
    programs.sort_by_key(|hit| hit.path.matches('/').count());
    programs.dedup_by(|a, b| a.path == b.path);
    programs
}

/// Rust: `fn main` also occurs in examples of documentation comments, but Cargo builds programs in certain folders
/// only.
fn is_cargo_program(path: &str) -> bool {
    file_name(path) == "main.rs" || file_name(parent_directory(path)) == "bin"
}

/// True unless the file is a build script, a sample, a check of a build system or a benchmark.
fn is_program(path: &str) -> bool {
    is_code(path)
        && detect_role(path) == Role::Source
        && file_name(path) != "build.rs"
        && !is_beside_project(path)
        && !is_test_helper(path)
        && !is_in_sample(path)
        && !file_name(path).to_ascii_lowercase().contains("benchmark")
}

/// True below a folder of samples at the root, of a tool's files (`.mvn`), or, in C, of checks that configure a build.
fn is_in_sample(path: &str) -> bool {
    let is_c = matches!(path.rsplit_once('.'), Some((_, "c" | "cc" | "cpp" | "cxx")));
    parent_directory(path).split('/').enumerate().any(|(depth, folder)| {
        folder.starts_with('.')
            || depth == 0 && matches!(folder, "sample" | "samples" | "demo" | "demos")
            || is_c && matches!(folder, "cmake" | "config" | "m4" | "benchmark" | "benchmarks")
    })
}

/// True for a program that the authors run, or that shows how to use the project.
fn is_tool_of_authors(path: &str) -> bool {
    const ENDS: [&str; 4] = ["-demo", "_demo", "-example", "-examples"];
    parent_directory(path).split('/').any(|folder| {
        matches!(folder, "ci" | "xtask" | "tools" | "scripts" | "utils") || ENDS.iter().any(|end| folder.ends_with(end))
    })
}

fn program_lines(programs: &[&SearchHit], files: &[ReadFile]) -> Vec<String> {
    let line = |hit: &&SearchHit| {
        let words = purpose_in(&hit.path, files).map_or_else(String::new, |(words, _)| format!(": {words}"));
        format!("program {}{words} ({})", quote_code(&hit.path), hit.place())
    };
    let mut lines: Vec<String> = programs.iter().take(PROGRAMS_MAX).map(line).collect();
    if programs.len() > PROGRAMS_MAX {
        lines.push(format!("… and {} more programs", programs.len() - PROGRAMS_MAX));
    }
    lines
}

/// Files that are entry points by their path, without the programs that are listed already.
fn by_path(brief: &AnalystTask, survey: &Survey, files: &[ReadFile], programs: &[SearchHit]) -> Vec<String> {
    let is_listed = |path: &str| programs.iter().any(|hit| hit.path == path);
    let is_by_main = |path: &str| path.ends_with(".java") || path.ends_with(".kt");
    let paths = entry_points(brief, survey).into_iter();
    let line = |path: String| {
        let what = if exports_names(&path) { "library " } else { "" };
        match purpose_in(&path, files) {
            Some((words, place)) => format!("{what}{}: {words} ({place})", quote_code(&path)),
            None => format!("{what}{}{}", quote_code(&path), first_place(&path, files)),
        }
    };
    paths
        .filter(|path| !is_listed(path) && !is_by_main(path))
        .map(line)
        .collect()
}

/// A Go module whose root package is a library: other modules import that package.
fn go_package(brief: &AnalystTask, survey: &Survey, files: &[ReadFile], evidence: &Evidence<'_>) -> Option<String> {
    let manifest = join_path(&brief.target, "go.mod");
    let manifest = files.iter().find(|file| file.path == manifest)?;
    let module = manifest.find(r"^module\s+\S+")?;
    let is_here = |path: &str| parent_directory(path) == brief.target && path.ends_with(".go");
    // `tools.go` only lists programs that the authors use.
    let has_package = survey
        .sources()
        .any(|file| is_here(&file.path) && file_name(&file.path) != "tools.go");
    let has_main = find_main_functions(evidence).iter().any(|hit| is_here(&hit.path));
    let name = module.text.split_whitespace().nth(1)?;
    (has_package && !has_main).then(|| {
        format!(
            "package {}, used as a library ({})",
            quote_code(name),
            manifest.place(module.number)
        )
    })
}

/// The header of a C or C++ library, else the folders of headers that it installs.
fn find_headers(brief: &AnalystTask, survey: &Survey, files: &[ReadFile], evidence: &Evidence<'_>) -> Vec<String> {
    if let Some(path) = library_header(brief, survey, evidence) {
        return vec![format!("library {} ({})", quote_code(&path), cite_lines(&path, &1))];
    }
    let Some(place) = library_declaration(brief, files).filter(|_| matches!(survey.main_language(), Some("C" | "C++")))
    else {
        return Vec::new();
    };
    let include = join_path(&brief.target, "include");
    let mut folders: Vec<&str> = survey
        .files
        .iter()
        .filter(|file| file.path.ends_with(".h") || file.path.ends_with(".hpp"))
        .map(|file| parent_directory(&file.path))
        .filter(|folder| parent_directory(folder) == include)
        .collect();
    folders.sort_unstable();
    folders.dedup();
    folders.truncate(HEADER_FOLDERS_MAX);
    folders
        .into_iter()
        .map(|folder| format!("library {} ({place})", quote_code(&format!("{folder}/"))))
        .collect()
}

/// The line of a build file that declares a library to install.
fn library_declaration(brief: &AnalystTask, files: &[ReadFile]) -> Option<String> {
    const DECLARED: [(&str, &str); 3] = [
        ("CMakeLists.txt", r"(?i)^\s*add_library\s*\("),
        ("Makefile.am", r"^lib_(LT)?LIBRARIES\b"),
        ("meson.build", r"\b(shared_|static_|both_)?(library|libraries)\s*\("),
    ];
    DECLARED.iter().find_map(|(name, pattern)| {
        let path = join_path(&brief.target, name);
        let file = files.iter().find(|file| file.path == path)?;
        Some(file.place(file.find(pattern)?.number))
    })
}

/// The purpose that a file states, and its place.
pub(super) fn purpose_in(path: &str, files: &[ReadFile]) -> Option<(String, String)> {
    let file = files.iter().find(|file| file.path == path)?;
    let purpose = file_purpose(path, &file.lines)?;
    let place = purpose.place(&file.path);
    Some((escape_prose(&purpose.text), place))
}

/// Citation of a file's first line, ` (path:1)`. An empty file has no line to cite.
fn first_place(path: &str, files: &[ReadFile]) -> String {
    let first = |file: &ReadFile| file.lines.first().map(|line: &FileLine| line.number);
    let file = files.iter().find(|file| file.path == path);
    file.and_then(first)
        .map_or_else(String::new, |line| format!(" ({})", cite_lines(path, &line)))
}

/// Finds the functions in which programs of a language start.
pub(super) fn main_pattern(language: Option<&str>) -> Option<&'static str> {
    match language? {
        "Rust" => Some(r"^(pub )?(async )?fn main\s*\(\s*\)"),
        "Go" => Some(r"^func main\(\)"),
        "C" | "C++" => Some(r"^\s*(int|void|auto)?\s*main\s*\(([^;]*)$"),
        "Java" => Some(r"\bstatic (public |final )*void main\s*\("),
        "Kotlin" => Some(r"^\s*(suspend )?fun main\s*\("),
        "C#" => Some(r"static .*\bMain\s*\("),
        _ => None,
    }
}

/// From this rank on, a path is certainly an entry point.
const SURE_RANK: u32 = 5;

/// The source in which the project starts: one that the overview names, else one by its path.
pub(super) fn first_start(brief: &AnalystTask, survey: &Survey, files: &[ReadFile]) -> Option<String> {
    let known = project_facts(&brief.target, survey, files).starts;
    if known.is_empty() {
        return entry_points(brief, survey).into_iter().next();
    }
    known
        .into_iter()
        .map(|start| start.place.path)
        .find(|path| is_code(path))
}

/// Files that are entry points by their path, best first.
pub(super) fn entry_points(brief: &AnalystTask, survey: &Survey) -> Vec<String> {
    let package = survey.main_package(&brief.repository);
    let is_outside = |path: &str| {
        package
            .as_ref()
            .is_some_and(|package| strip_directory(path, package).is_none())
    };
    let mut found: Vec<(u32, usize, &str)> = survey
        .sources()
        .filter_map(|file| {
            Some((
                entry_point_by_path(&file.path)?,
                file.path.matches('/').count(),
                file.path.as_str(),
            ))
        })
        .collect();
    found.sort_by_key(|&(rank, depth, path)| (std::cmp::Reverse(rank), is_outside(path), depth, path));
    found
        .into_iter()
        .filter(|&(rank, _, path)| rank >= SURE_RANK && !is_beside_project(path))
        // A site that exists for the tests of a framework is not an entry point.
        .filter(|(_, _, path)| !is_test(path) && !parent_directory(path).split('/').any(|folder| folder == "test"))
        // A package of npm declares its commands in `package.json`. Other files in `bin` are tools for its authors.
        .filter(|(_, _, path)| !(path.starts_with("bin/") && survey.has("package.json")))
        .filter(|(_, _, path)| !is_test_helper(path) && !is_adapter(path, survey) && !is_in_sample(path))
        .filter(|(_, _, path)| !is_test_package(path, survey))
        .take(ENTRY_POINTS_MAX)
        .map(|(_, _, path)| path.to_owned())
        .collect()
}

/// True for the root of a Python package that contains mostly tests.
fn is_test_package(path: &str, survey: &Survey) -> bool {
    let inside =
        |file: &&ListedFile| strip_directory(&file.path, parent_directory(path)).is_some() && is_code(&file.path);
    let (tests, sources): (Vec<_>, Vec<_>) = survey.files.iter().filter(inside).partition(|file| is_test(&file.path));
    file_name(path) == "__init__.py" && tests.len() > sources.len()
}

/// True for a module with the name of a site's gateway that belongs to no site: it is part of a library.
fn is_adapter(path: &str, survey: &Survey) -> bool {
    let is_site = || survey.has("manage.py") || survey.has(&join_path(parent_directory(path), "settings.py"));
    matches!(file_name(path), "wsgi.py" | "asgi.py") && path.matches('/').count() > 1 && !is_site()
}

/// The header with the name of the repository: the public interface of a C library.
pub(super) fn public_header(brief: &AnalystTask, survey: &Survey) -> Option<String> {
    let name = brief.repository.to_ascii_lowercase();
    let short = name
        .strip_prefix("lib")
        .filter(|short| !short.is_empty())
        .unwrap_or(&name);
    let is_named = |path: &str| {
        let stem = file_stem(path).to_ascii_lowercase();
        matches!(path.rsplit_once('.'), Some((_, "h" | "hpp"))) && (stem == name || stem == short)
    };
    let mut headers: Vec<&str> = survey
        .sources()
        .map(|file| file.path.as_str())
        .filter(|path| is_named(path))
        .collect();
    headers.sort_by_key(|path| (file_stem(path).to_ascii_lowercase() != name, path.matches('/').count()));
    let header = headers.first().map(|path| (*path).to_owned());
    header.or_else(|| header_of_folder(brief, survey))
}

/// The header with the name of its folder in `include`; first in the part with the name of the repository.
fn header_of_folder(brief: &AnalystTask, survey: &Survey) -> Option<String> {
    let package = survey.main_package(&brief.repository);
    let is_named = |path: &str| {
        let (folder, extension) = (
            parent_directory(path),
            path.rsplit_once('.').map_or("", |(_, extension)| extension),
        );
        matches!(extension, "h" | "hpp")
            && file_name(parent_directory(folder)) == "include"
            && file_stem(path) == file_name(folder)
    };
    let headers = survey
        .sources()
        .map(|file| file.path.as_str())
        .filter(|path| is_named(path));
    let is_outside = |path: &str| {
        package
            .as_ref()
            .is_some_and(|package| strip_directory(path, package).is_none())
    };
    headers
        .min_by_key(|path| (is_outside(path), path.matches('/').count(), path.len()))
        .map(str::to_owned)
}

/// The public header, unless the source with its name is a program: `tmux.h` next to a `tmux.c` with a `main`.
pub(super) fn library_header(brief: &AnalystTask, survey: &Survey, evidence: &Evidence<'_>) -> Option<String> {
    let header = public_header(brief, survey)?;
    let is_beside = |hit: &SearchHit| {
        parent_directory(&hit.path) == parent_directory(&header) && file_stem(&hit.path) == file_stem(&header)
    };
    (!find_main_functions(evidence).iter().any(is_beside)).then_some(header)
}

pub(super) fn find_main_functions(evidence: &Evidence<'_>) -> Vec<SearchHit> {
    evidence
        .of("mains")
        .flat_map(|answer| parse_hits(answer.text()))
        .collect()
}

/// The main file of a Ruby or Elixir library: the one in `lib` with its name.
pub(super) fn named_library(brief: &AnalystTask, survey: &Survey) -> Option<String> {
    let extension = match survey.main_language()? {
        "Ruby" => "rb",
        "Elixir" => "ex",
        _ => return None,
    };
    let path = join_path(&brief.target, &format!("lib/{}.{extension}", brief.repository));
    (survey.has(&path) && !brief.repository.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_checks_and_files_of_tools_are_no_programs() {
        for path in ["src/server.c", "cmd/config/main.go", "db/leveldbutil.cc", "demo.py"] {
            assert!(is_program(path), "{path}");
        }
        for path in [
            "sample/cat.c",
            "cmake/check.c",
            ".mvn/wrapper/Downloader.java",
            "lib/samples/a.go",
        ] {
            assert!(!is_program(path), "{path}");
        }
        assert!(is_tool_of_authors("shop-demo/src/main.rs") && is_tool_of_authors("ci/check/src/main.rs"));
        assert!(!is_tool_of_authors("src/democracy.c"));
    }

    #[test]
    fn programs_of_cargo_lie_where_it_looks_for_them() {
        assert!(is_cargo_program("cli/main.rs") && is_cargo_program("src/bin/shop.rs"));
        assert!(!is_cargo_program("src/lib.rs") && !is_cargo_program("src/compile_fail/race.rs"));
    }

    #[test]
    fn a_package_of_tests_is_no_library() {
        let survey = Survey::of_paths(&[
            "t/__init__.py",
            "t/unit/test_a.py",
            "t/unit/test_b.py",
            "shop/__init__.py",
        ]);
        assert!(is_test_package("t/__init__.py", &survey));
        assert!(!is_test_package("shop/__init__.py", &survey));
    }

    #[test]
    fn a_header_speaks_for_a_library_without_the_prefix_of_its_name() {
        let brief = AnalystTask {
            repository: "libshop".to_owned(),
            ..AnalystTask::default()
        };
        let survey = Survey::of_paths(&["include/shop.h", "src/shop.h", "src/a.c"]);
        assert_eq!(public_header(&brief, &survey).as_deref(), Some("include/shop.h"));
    }
}
