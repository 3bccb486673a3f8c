//! `explain` without a model: describes the target, its size, entry points, central symbols and tests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::commands::{build_root, stating_documents};
use super::evidence::{AnalystTask, Evidence, ListedFile, parse_lines};
use super::manifest::{MANIFESTS, ReadFile};
use super::readme::is_readme;
use super::survey::{self, Survey, is_beside_project, literal_glob, strip_directory};
use super::{AnalystStep, tool_call};
use central::SymbolCandidate;
use entry_points::{entry_points, main_pattern, public_header};
use tool_provider::ToolCall;
use tool_repository::file_role::{file_name, parent_directory};
use tool_repository::path::join_path;

mod central;
mod endpoints;
mod entry_points;
mod file;
mod interface;
mod overview;

/// Lines of a manifest or a README that are read.
const MANIFEST_LINES: usize = 600;
/// Pages that are read of a JSON manifest. A truncated one cannot be parsed.
const MANIFEST_PAGES_MAX: usize = 16;
/// Lines that are read of a module's main file, to find its description after a licence.
const HEAD_LINES: usize = 80;
/// Lines of a file that exports the names of its package.
const EXPORT_LINES: usize = 300;
/// Lines that are read of the file at the root of a package. Its definitions may follow a long documentation comment.
const ROOT_LINES: usize = 1000;
/// Rows of a map or a list.
const ROWS_MAX: usize = 12;
/// Files that are searched for central symbols.
const SYMBOL_FILES_MAX: usize = 240;
/// Files of one search, which takes 64 globs.
const SEARCHED_FILES_MAX: usize = 60;
/// Bytes of these files: a search shows no more than [`LINES_MAX`] lines.
const SEARCHED_BYTES_MAX: f64 = 1.5e6;
/// Commits whose authors are counted.
const LOG_COMMITS: usize = 200;
/// Lines that a search answers.
const LINES_MAX: usize = 1000;

/// Returns the next calls of `explain`, or its answer.
pub(super) fn next(brief: &AnalystTask, evidence: &Evidence<'_>) -> AnalystStep {
    if brief.is_file {
        return file::next(brief, evidence);
    }
    if let Some(calls) = survey::next(brief, evidence) {
        return AnalystStep::Calls(calls);
    }
    let survey = Survey::read_answers(evidence);
    if let Some(calls) = evidence.missing(plan_reads(brief, &survey)) {
        return AnalystStep::Calls(calls);
    }
    if let Some(calls) = evidence.missing(further_pages(evidence)) {
        return AnalystStep::Calls(calls);
    }
    let files = read_files(evidence);
    let definitions = central::collect_definitions(evidence, &files, Some(&survey));
    if let Some(calls) = symbol_calls(evidence, &definitions) {
        return AnalystStep::Calls(calls);
    }
    AnalystStep::Text(overview::write_overview(brief, &survey, evidence, &files, &definitions))
}

/// The missing calls about central symbols: their uses, then the source of the most used ones.
fn symbol_calls(evidence: &Evidence<'_>, definitions: &[SymbolCandidate]) -> Option<Vec<ToolCall>> {
    evidence
        .missing(count_uses(central::best_candidates(definitions)))
        .or_else(|| evidence.missing(plan_explanations(evidence, definitions)))
}

/// Calls that read the most informative files, and searches that count.
fn plan_reads(brief: &AnalystTask, survey: &Survey) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    let mut read = |path: &str, limit: usize| {
        calls.push(tool_call(
            "read",
            calls.len() + 1,
            "read_file",
            &json!({"path": path, "limit": limit}),
        ));
    };
    let heads = entry_points(brief, survey)
        .into_iter()
        .chain(public_header(brief, survey))
        .chain(module_heads(brief, survey))
        .chain(content_paths(brief, survey))
        .map(|path| {
            let exports = central::exports_names(&path);
            (path, if exports { EXPORT_LINES } else { HEAD_LINES })
        });
    let documents = document_paths(brief, survey)
        .into_iter()
        .map(|path| (path, MANIFEST_LINES));
    let stating = stating_documents(&brief.target, survey).into_iter();
    let stating = stating.map(|path| (path, MANIFEST_LINES));
    let root = interface::root_file(brief, survey).map(|path| (path, ROOT_LINES));
    let mut paths = BTreeSet::new();
    for (path, limit) in documents.chain(stating).chain(root).chain(heads) {
        if paths.insert(path.clone()) {
            read(&path, limit);
        }
    }
    let pattern = central::definition_pattern(survey.main_language());
    for (number, searched) in group_searches(symbol_files(brief, survey)).iter().enumerate() {
        let globs: Vec<String> = searched.iter().map(|file| literal_glob(&file.path)).collect();
        let arguments = json!({"pattern": pattern, "globs": globs, "limit": LINES_MAX, "case": "sensitive"});
        calls.push(tool_call("definitions", number + 1, "search_code", &arguments));
    }
    if brief.facts.changes.is_some() {
        let mut arguments = json!({"mode": "log", "limit": LOG_COMMITS});
        if !brief.target.is_empty() {
            arguments["paths"] = json!([brief.target]);
        }
        calls.push(tool_call("log", 1, "git_diff", &arguments));
    }
    let search = |purpose: &str, number: usize, pattern: &str, globs: Value, limit: usize| {
        let path = &brief.target;
        let arguments = json!({"pattern": pattern, "path": path, "globs": globs, "limit": limit, "case": "sensitive"});
        tool_call(purpose, number, "search_code", &arguments)
    };
    let language = survey.main_language();
    let globs = || json!(globs_of(language));
    if let Some(pattern) = central::import_pattern(language) {
        calls.push(search("imported", 1, pattern, globs(), LINES_MAX));
    }
    if language == Some("Elixir") {
        let pattern = r"^\s*@moduledoc\s+false";
        calls.push(search("hidden", 1, pattern, json!(["*.ex"]), LINES_MAX));
    }
    if let Some(pattern) = main_pattern(language) {
        calls.push(search("mains", 1, pattern, globs(), LINES_MAX));
    }
    for (number, &(_, pattern)) in search_patterns(survey).iter().enumerate() {
        calls.push(search("pattern", number + 1, pattern, globs(), 1));
    }
    calls
}

/// Calls for the rest of JSON manifests that are longer than one answer.
fn further_pages(evidence: &Evidence<'_>) -> Vec<ToolCall> {
    let mut pages: BTreeMap<String, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for answer in evidence.of("read").chain(evidence.of("page")) {
        let path = answer.argument("path");
        let count = pages.entry(path.clone()).or_default();
        *count += 1;
        let is_json = matches!(file_name(&path), "package.json" | "composer.json");
        let cursor = answer.cursor().filter(|_| is_json && *count < MANIFEST_PAGES_MAX);
        if let Some(cursor) = cursor {
            let arguments = json!({"path": path, "limit": MANIFEST_LINES, "cursor": cursor});
            calls.push(tool_call("page", calls.len() + 1, "read_file", &arguments));
        }
    }
    calls
}

/// README and manifests of the target, and of the package with the name of the workspace.
fn document_paths(brief: &AnalystTask, survey: &Survey) -> Vec<String> {
    let package = survey.main_package(&brief.repository);
    let mut documents = documents_in(&brief.target, survey);
    let root = build_root(&brief.target, survey);
    documents.extend(root.iter().flat_map(|folder| documents_in(folder, survey)));
    documents.extend(package.iter().flat_map(|folder| documents_in(folder, survey)));
    documents
}

fn documents_in(folder: &str, survey: &Survey) -> Vec<String> {
    let is_direct = |path: &str| strip_directory(path, folder).is_some_and(|inside| !inside.contains('/'));
    let direct: Vec<&String> = survey
        .files
        .iter()
        .map(|file| &file.path)
        .filter(|path| is_direct(path))
        .collect();
    let readmes = direct.iter().filter(|path| is_readme(path));
    // `README.md` before a translation such as `README.de.md`.
    let readme = readmes.min_by_key(|path| path.len());
    let package = direct.iter().find(|path| path.ends_with(".gemspec"));
    let named = readme.into_iter().chain(package).map(|path| (*path).clone());
    let manifests = MANIFESTS
        .iter()
        .map(|name| join_path(folder, name))
        .filter(|path| survey.has(path));
    named.chain(manifests).collect()
}

/// Files directly in the target folder, not in a folder below it.
fn own_files<'f>(brief: &'f AnalystTask, files: &'f [ReadFile]) -> impl Iterator<Item = &'f ReadFile> {
    files.iter().filter(|file| parent_directory(&file.path) == brief.target)
}

/// Files that describe the target: its own, then those of the package with the name of the workspace.
fn speaking_files<'f>(brief: &'f AnalystTask, survey: &Survey, files: &'f [ReadFile]) -> Vec<&'f ReadFile> {
    let package = survey.main_package(&brief.repository);
    let packaged = files
        .iter()
        .filter(|file| Some(parent_directory(&file.path)) == package.as_deref());
    own_files(brief, files).chain(packaged).collect()
}

fn read_files(evidence: &Evidence<'_>) -> Vec<ReadFile> {
    let mut files: Vec<ReadFile> = Vec::new();
    for answer in evidence.of("read").chain(evidence.of("page")) {
        let (path, lines) = (answer.argument("path"), parse_lines(answer.text()));
        match files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.lines.extend(lines),
            None => files.push(ReadFile { path, lines }),
        }
    }
    files
}

/// For each row of the module map, the files that may describe it.
fn module_heads(brief: &AnalystTask, survey: &Survey) -> Vec<String> {
    let (directory, parts) = survey.modules(&brief.target);
    parts
        .iter()
        .take(ROWS_MAX)
        .flat_map(|part| heads_of(&directory, &part.name, survey))
        .collect()
}

/// Files that may state the purpose of a module: its manifest, and its main file, such as `mod.rs` or `__init__.py`.
fn heads_of(directory: &str, part: &str, survey: &Survey) -> Vec<String> {
    const MANIFESTS_OF_PARTS: [&str; 3] = ["Cargo.toml", "package.json", "pyproject.toml"];
    const FACES: [&str; 15] = [
        "__init__.py",
        "src/lib.rs",
        "lib.rs",
        "mod.rs",
        "src/main.rs",
        "main.rs",
        "doc.go",
        "main.go",
        "package-info.java",
        "index.ts",
        "index.js",
        "index.mjs",
        "src/index.ts",
        "src/index.js",
        "mod.ts",
    ];
    let Some(folder) = part.strip_suffix('/') else {
        return vec![join_path(directory, part)];
    };
    let name = file_name(folder);
    let folder = join_path(directory, folder);
    let first = |names: &[&str]| {
        names
            .iter()
            .map(|name| join_path(&folder, name))
            .find(|path| survey.has(path))
    };
    // In Go and Ruby the main file of a folder has the folder's name.
    let named = || {
        let paths = [
            join_path(&folder, &format!("{name}.go")),
            format!("{folder}.rb"),
            format!("{folder}.rs"),
        ];
        paths.into_iter().find(|path| survey.has(path))
    };
    let face = first(&FACES).or_else(named);
    first(&MANIFESTS_OF_PARTS).into_iter().chain(face).collect()
}

/// The chosen files of a target without program text: its documents, settings or assets.
fn content_paths(brief: &AnalystTask, survey: &Survey) -> Vec<String> {
    if survey.sources().next().is_some() {
        return Vec::new();
    }
    let documents = document_paths(brief, survey);
    let of_target = brief.chosen.iter().filter(|path| survey.has(path));
    of_target.filter(|path| !documents.contains(path)).cloned().collect()
}

/// Sources that are searched for central symbols: the chosen files first, then the shallowest, then the largest.
fn symbol_files<'s>(brief: &AnalystTask, survey: &'s Survey) -> Vec<&'s ListedFile> {
    let language = survey.main_language();
    let package = survey.main_package(&brief.repository);
    let directory = package.unwrap_or_else(|| survey.modules(&brief.target).0);
    let mut sources: Vec<_> = survey
        .sources()
        .filter(|file| survey.language(&file.path) == language)
        .collect();
    if sources.iter().any(|file| !is_beside_project(&file.path)) {
        sources.retain(|file| !is_beside_project(&file.path));
    }
    sources.sort_by(|a, b| {
        let is_outside = |path: &str| strip_directory(path, &directory).is_none();
        let depth = |path: &str| path.matches('/').count() / 2;
        let is_chosen = |path: &String| brief.chosen.contains(path);
        (is_outside(&a.path).cmp(&is_outside(&b.path)))
            .then(is_chosen(&b.path).cmp(&is_chosen(&a.path)))
            .then(depth(&a.path).cmp(&depth(&b.path)))
            .then(b.bytes.total_cmp(&a.bytes))
    });
    sources.truncate(SYMBOL_FILES_MAX);
    sources
}

fn group_searches(files: Vec<&ListedFile>) -> Vec<Vec<&ListedFile>> {
    let mut searches: Vec<Vec<&ListedFile>> = Vec::new();
    let mut bytes = f64::INFINITY;
    for file in files {
        bytes += file.bytes;
        match searches.last_mut() {
            Some(search) if bytes <= SEARCHED_BYTES_MAX && search.len() < SEARCHED_FILES_MAX => search.push(file),
            _ => {
                searches.push(vec![file]);
                bytes = file.bytes;
            }
        }
    }
    searches
}

/// Patterns that show how code of the main language is built: their meaning, and the expression.
fn search_patterns(survey: &Survey) -> &'static [(&'static str, &'static str)] {
    match survey.main_language() {
        Some("Python") => &[
            ("classes", r"^\s*class \w+"),
            ("functions with annotated results", r"^\s*(async )?def .*->"),
            ("asynchronous functions", r"^\s*async def "),
            ("abstract methods", r"@(abc\.)?abstractmethod"),
            ("dataclasses", r"^\s*@(dataclasses\.)?dataclass\b"),
            ("exceptions of its own", r"^class \w+\(.*(Error|Exception|Warning)\)"),
            ("module loggers", r"logging\.getLogger\("),
        ],
        Some("JavaScript" | "TypeScript") => &[
            ("classes", r"^\s*(export )?(default )?(abstract )?class \w+"),
            ("ES module imports", r"^import .* from "),
            ("CommonJS requires", r"\brequire\("),
            ("asynchronous functions", r"\basync (function\b|\()"),
            ("exported interfaces and types", r"^export (interface|type) "),
        ],
        Some("Rust") => &[
            ("public functions", r"^\s*pub (async )?fn "),
            ("traits", r"^\s*(pub )?trait \w+"),
            ("asynchronous functions", r"\basync fn "),
            ("error types", r"derive\(.*\bError\b|impl .*Error for "),
            ("unsafe blocks", r"\bunsafe (\{|fn|impl)"),
            ("macros of its own", r"macro_rules!"),
        ],
        Some("Go") => &[
            ("interfaces", r"^type \w+ interface"),
            ("structs", r"^type \w+ struct"),
            ("goroutines", r"\bgo (func\b|\w+[.(])"),
            ("contexts passed on", r"ctx context\.Context"),
        ],
        Some("Java" | "Kotlin" | "C#") => &[
            ("classes", r"\bclass \w+"),
            ("interfaces", r"\binterface \w+"),
            ("annotations", r"^\s*@\w+"),
        ],
        _ => &[],
    }
}

/// Globs for the files of a language, so that examples in documents do not match.
pub(super) fn globs_of(language: Option<&str>) -> &'static [&'static str] {
    match language {
        Some("Python") => &["*.py", "*.pyi"],
        Some("JavaScript" | "TypeScript") => &["*.js", "*.mjs", "*.cjs", "*.jsx", "*.ts", "*.tsx", "*.mts"],
        Some("Rust") => &["*.rs"],
        Some("Go") => &["*.go"],
        Some("Java" | "Kotlin" | "C#") => &["*.java", "*.kt", "*.cs"],
        Some("C" | "C++") => &["*.c", "*.h", "*.cc", "*.cpp", "*.cxx", "*.hh", "*.hpp"],
        Some("Ruby") => &["*.rb", "*.rake", "Rakefile", "Gemfile"],
        _ => &[],
    }
}

/// Counts the uses of many candidates in one pass over the files.
fn count_uses(candidates: &[SymbolCandidate]) -> Vec<ToolCall> {
    let count = |(number, candidates): (usize, &[SymbolCandidate])| {
        let mut names = candidates.iter().map(|candidate| candidate.name.as_str());
        let mut arguments = json!({"symbol": names.next(), "limit": 1});
        if names.len() > 0 {
            arguments["also"] = names.collect();
        }
        tool_call("uses", number + 1, "find_references", &arguments)
    };
    candidates.chunks(central::COUNTED_MAX).enumerate().map(count).collect()
}

/// Requests the source of the most used symbols.
fn plan_explanations(evidence: &Evidence<'_>, definitions: &[SymbolCandidate]) -> Vec<ToolCall> {
    let symbols = central::central_symbols(evidence, definitions);
    let explain = |(number, symbol): (usize, &central::CentralSymbol<'_>)| {
        let SymbolCandidate { hit, name, .. } = symbol.candidate;
        let arguments = json!({"name": name, "path": hit.path, "callers": false});
        tool_call("function", number + 1, "explain_function", &arguments)
    };
    symbols
        .iter()
        .take(central::EXPLAINED_MAX)
        .enumerate()
        .map(explain)
        .collect()
}
