//! `explain`, measured: what the target is, how large, where it starts, what holds it together, how it is tested.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::json;

use super::evidence::{Brief, Evidence, Hit, hits};
use super::survey::{self, Survey, beneath, join, literal_glob};
use super::{Reply, call};
use tool_provider::ToolCall;
use tool_repository::file_role::entry_point_by_path;

mod file;
mod overview;

/// Lines of a manifest that are read.
const MANIFEST_LINES: usize = 300;
/// Lines of a module's head that are read, to find the words it says about itself.
const HEAD_LINES: usize = 30;
/// Entry points that are read and listed.
const ENTRY_POINTS_MAX: usize = 5;
/// Rows of a map or a list.
const ROWS_MAX: usize = 12;
/// Symbols whose uses are counted.
const CANDIDATES_MAX: usize = 8;
/// Functions that are explained.
const FUNCTIONS_MAX: usize = 3;

/// Finds definitions at the top level of a file, in the languages that are common.
const DEFINITIONS: &str = r"^(export\s+)?(default\s+)?(pub(\([a-z]+\))?\s+)?(async\s+)?((abstract|final|public|static)\s+)*(class|def|fn|struct|enum|trait|interface|func|function)\s+[A-Za-z_]\w*";

/// Returns the next calls or the answer for `explain`.
pub(super) fn next(brief: &Brief, evidence: &Evidence<'_>) -> Reply {
    if brief.is_file {
        return file::next(brief, evidence);
    }
    if let Some(calls) = survey::next(brief, evidence) {
        return Reply::Calls(calls);
    }
    let survey = Survey::read(evidence);
    // The calls depend on the survey: a directory without documents has none to read.
    if !["read", "definitions", "pattern"]
        .iter()
        .any(|purpose| evidence.asked(purpose))
    {
        let calls = looks(brief, &survey);
        if !calls.is_empty() {
            return Reply::Calls(calls);
        }
    }
    if !evidence.asked("uses") {
        let calls = digs(&symbols(evidence));
        if !calls.is_empty() {
            return Reply::Calls(calls);
        }
    }
    Reply::Text(overview::overview(brief, &survey, evidence))
}

/// Reads of what says most in few lines, and searches that count.
fn looks(brief: &Brief, survey: &Survey) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    let mut read = |path: &str, limit: usize| {
        calls.push(call(
            "read",
            calls.len() + 1,
            "read_file",
            &json!({"path": path, "limit": limit}),
        ));
    };
    for path in documents(brief, survey) {
        read(&path, MANIFEST_LINES);
    }
    for path in entry_points(survey) {
        read(&path, HEAD_LINES);
    }
    for path in module_heads(brief, survey) {
        read(&path, HEAD_LINES);
    }
    for path in holdings(brief, survey) {
        read(&path, HEAD_LINES);
    }
    let chosen = chosen_sources(brief, survey);
    if !chosen.is_empty() {
        let globs: Vec<String> = chosen.iter().map(|path| literal_glob(path)).collect();
        let arguments = json!({"pattern": DEFINITIONS, "globs": globs, "limit": 200, "case": "sensitive"});
        calls.push(call("definitions", 1, "search_code", &arguments));
    }
    for (number, (_, pattern)) in patterns(survey).iter().enumerate() {
        let arguments = json!({
            "pattern": pattern,
            "path": brief.target,
            "globs": globs_of(survey.main_language()),
            "limit": 1,
            "case": "sensitive"
        });
        calls.push(call("pattern", number + 1, "search_code", &arguments));
    }
    calls
}

/// README and manifests, of the target's directory and of the root.
fn documents(brief: &Brief, survey: &Survey) -> Vec<String> {
    const NAMES: [&str; 9] = [
        "pyproject.toml",
        "setup.cfg",
        "package.json",
        "Cargo.toml",
        "go.mod",
        "tox.ini",
        "pytest.ini",
        "Makefile",
        "noxfile.py",
    ];
    let readme = survey.files.iter().map(|file| &file.path).filter(|path| {
        let inside = beneath(path, &brief.target).unwrap_or(path);
        !inside.contains('/') && inside.to_ascii_lowercase().starts_with("readme")
    });
    let manifests = NAMES
        .iter()
        .map(|name| join(&brief.target, name))
        .filter(|path| survey.has(path));
    readme.take(1).cloned().chain(manifests).collect()
}

/// Files that start something by their place, best first.
fn entry_points(survey: &Survey) -> Vec<String> {
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
    found.sort_by_key(|&(rank, depth, path)| (std::cmp::Reverse(rank), depth, path));
    found
        .into_iter()
        .take(ENTRY_POINTS_MAX)
        .map(|(_, _, path)| path.to_owned())
        .collect()
}

/// For each row of the module map, the file that speaks for it.
fn module_heads(brief: &Brief, survey: &Survey) -> Vec<String> {
    let (directory, parts) = survey.modules(&brief.target);
    parts
        .iter()
        .take(ROWS_MAX)
        .filter_map(|part| head_of(&directory, &part.name, survey))
        .collect()
}

fn head_of(directory: &str, part: &str, survey: &Survey) -> Option<String> {
    let Some(folder) = part.strip_suffix('/') else {
        return Some(join(directory, part));
    };
    let folder = join(directory, folder);
    const FACES: [&str; 9] = [
        "__init__.py",
        "lib.rs",
        "mod.rs",
        "src/lib.rs",
        "index.ts",
        "index.js",
        "src/index.ts",
        "main.go",
        "doc.go",
    ];
    let face = FACES
        .iter()
        .map(|name| join(&folder, name))
        .find(|path| survey.has(path));
    let largest = || {
        let inside = survey.sources().filter(|file| beneath(&file.path, &folder).is_some());
        inside
            .max_by(|a, b| a.bytes.total_cmp(&b.bytes))
            .map(|file| file.path.clone())
    };
    face.or_else(largest)
}

/// The chosen files of a target that holds no program text: its documents, settings or assets.
fn holdings(brief: &Brief, survey: &Survey) -> Vec<String> {
    if survey.sources().next().is_some() {
        return Vec::new();
    }
    let documents = documents(brief, survey);
    let of_target = brief.chosen.iter().filter(|path| survey.has(path));
    of_target.filter(|path| !documents.contains(path)).cloned().collect()
}

/// The sources of the target among the chosen files; without any, the largest.
fn chosen_sources(brief: &Brief, survey: &Survey) -> Vec<String> {
    let of_target = brief.chosen.iter().filter(|path| survey.has(path));
    let chosen: Vec<String> = of_target.filter(|path| survey.is_source(path)).cloned().collect();
    if !chosen.is_empty() {
        return chosen;
    }
    let mut sources: Vec<_> = survey.sources().collect();
    sources.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    sources.into_iter().take(6).map(|file| file.path.clone()).collect()
}

/// Patterns of the main language that tell how the code is built: what they show, and how they are found.
fn patterns(survey: &Survey) -> &'static [(&'static str, &'static str)] {
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

/// Files of a language, as globs: what a document shows in an example is no pattern of the code.
fn globs_of(language: Option<&str>) -> &'static [&'static str] {
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

/// Counting the uses of the symbols, and the source of the first functions.
fn digs(symbols: &[(Hit, String)]) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    for (number, (_, name)) in symbols.iter().enumerate() {
        calls.push(call(
            "uses",
            number + 1,
            "find_references",
            &json!({"symbol": name, "limit": 1}),
        ));
    }
    let python = symbols.iter().filter(|(hit, _)| hit.path.ends_with(".py"));
    for (number, (hit, name)) in python.take(FUNCTIONS_MAX).enumerate() {
        let arguments = json!({"name": name, "path": hit.path});
        calls.push(call("function", number + 1, "explain_function", &arguments));
    }
    calls
}

/// Definitions in the chosen files with their names, each name once: the first of every file, then the second of every file.
fn symbols(evidence: &Evidence<'_>) -> Vec<(Hit, String)> {
    let name = Regex::new(r"\b(?:class|def|fn|struct|enum|trait|interface|func|function)\s+([A-Za-z_]\w*)")
        .expect("the expression is a constant");
    let found: Vec<(Hit, String)> = evidence
        .of("definitions")
        .flat_map(|answer| hits(answer.text()))
        .filter_map(|hit| {
            let name = name.captures(&hit.text)?.get(1)?.as_str().to_owned();
            (!name.starts_with('_') && name != "main").then_some((hit, name))
        })
        .collect();
    let rank = |index: usize| {
        found[..index]
            .iter()
            .filter(|(hit, _)| hit.path == found[index].0.path)
            .count()
    };
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|&index| rank(index));
    // A name is looked up once, wherever else it is defined.
    let mut names = BTreeSet::new();
    order
        .into_iter()
        .map(|index| found[index].clone())
        .filter(|(_, name)| names.insert(name.clone()))
        .take(CANDIDATES_MAX)
        .collect()
}
