//! The symbols that a project is built around: candidates from its main files, ordered by their uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use regex::Regex;

use crate::evidence::{Evidence, SearchHit, parse_hits};
use crate::file_doc::plain_doc;
use crate::manifest::ReadFile;
use crate::readme::is_readme;
use crate::survey::{Survey, is_beside_project, is_served_script, strip_directory};
use crate::text::{cite_lines, cut_text, escape_paragraph, quote_code};
use tool_repository::file_role::{detect_language, file_name, file_stem, parent_directory};

/// Symbols whose uses one call counts: the most that it takes.
pub(super) const COUNTED_MAX: usize = 32;
/// Symbols whose uses are counted.
const CANDIDATES_MAX: usize = 2 * COUNTED_MAX;
/// The most used symbols, which are listed.
const SYMBOLS_MAX: usize = 8;
/// A name with at least this many definitions belongs to many symbols.
const SHARED_DEFINITIONS_MIN: u64 = 8;
/// A gem's main module with at least this many methods is more than a namespace.
const INTERFACE_METHODS_MIN: usize = 5;
/// Bytes of the file of a module that only names those below it.
const NAMESPACE_BYTES_MAX: f64 = 8000.0;
/// Most points of a type for its methods.
const METHOD_POINTS_MAX: i32 = 4;
/// Most points of a name for the other definitions that mention it.
const MENTION_POINTS_MAX: i32 = 3;
/// Most points of a name for the files that import it.
const IMPORT_POINTS_MAX: u32 = 4;
/// Definitions that a row of the module map names.
const MODULE_DEFINITIONS_MAX: usize = 3;
/// Characters of a symbol's documentation.
const WORDS_CHARACTERS_MAX: usize = 240;
/// Lines at the beginning of a file that may say that it is generated.
const GENERATED_HEAD_LINES: usize = 10;
/// Symbols that are explained.
pub(super) const EXPLAINED_MAX: usize = 3;

/// Names that Rust's standard library defines too: most of their uses do not mean the project's own definition.
const STANDARD_NAMES: [&str; 12] = [
    "Clone", "Context", "Debug", "Default", "Display", "Drop", "Hash", "Instant", "Iterator", "Option", "Ordering",
    "Ready",
];

/// Lines that define a symbol at the top level, by language. The group `receiver` names the type of a method.
pub(super) fn definition_pattern(language: Option<&str>) -> &'static str {
    match language {
        Some("Python" | "Cython") => r"^(async\s+)?(class|def)\s+(?P<name>[A-Za-z]\w*)",
        Some("Rust") => {
            r"^pub(\([^)]*\))?\s+(async\s+|unsafe\s+|const\s+)*(fn|struct|enum|trait|type|union)\s+(?P<name>[A-Za-z]\w*)|^ {4}pub (struct|enum|trait)\s+(?P<inside>[A-Za-z]\w*)|^impl(<[^>]*>)?\s+(.*\sfor\s+)?(?P<receiver>[A-Z]\w*)"
        }
        Some("Go") => {
            r"^(type\s+(?P<name>[A-Z]\w*)\s|func\s+(?P<function>[A-Z]\w*)\s*[\[(]|func\s+\(\w*\s*\*?(?P<receiver>[A-Z]\w*))"
        }
        Some("JavaScript" | "TypeScript" | "Vue" | "Svelte" | "Astro") => {
            r"^(export\s+)?(default\s+)?(declare\s+)?(abstract\s+)?(async\s+)?(class|function\*?|interface|enum|type)\s+(?P<name>[A-Za-z_$]\w*)|^module\.exports\s*=\s*(class|function)\s+(?P<assigned>[A-Za-z_$]\w*)|^(module\.)?exports\.(?P<exported>[A-Za-z]\w*)\s*=|^export\s+(const|let)\s+(?P<constant>[A-Za-z]\w*)"
        }
        Some("Java" | "Kotlin" | "C#" | "Scala") => {
            r"^( {4})?((public|internal|open|abstract|final|sealed|data|static|partial|readonly|case)\s+)*(class|@?interface|enum|record|object|trait|struct)\s+(?P<name>[A-Z]\w*)"
        }
        Some("Ruby" | "Crystal") => r"^ {0,4}(class|module)\s+(\w+::)*(?P<name>[A-Z]\w*)",
        Some("PHP") => r"^((abstract|final|readonly)\s+)*(class|interface|trait|enum|function)\s+(?P<name>[A-Za-z]\w*)",
        Some("Elixir") => r"^\s{0,2}defmodule\s+(?P<name>[A-Z][\w.]*)",
        Some("C" | "C++") => {
            r"^(typedef\s+)?(struct|class|enum|union)\s+(([A-Z][A-Z0-9_]*|\[\[\w+\]\])\s+)*(?P<name>[A-Za-z]\w*)\s*(final\s*)?(:[^:].*)?\{?(\s*//.*)?$|^(?:[A-Z_]+\([^)]*\)[\s\*]*|[A-Za-z_][\w\s\*]*[\s\*])(?P<function>[A-Za-z]\w*)\s*\([^;]*$"
        }
        Some("Lua") => r"^function\s+([\w]+[.:])?(?P<name>[A-Za-z]\w*)",
        _ => {
            r"^(export\s+)?(default\s+)?(pub(\([a-z]+\))?\s+)?(async\s+)?((abstract|final|public|static)\s+)*(class|def|fn|struct|enum|trait|interface|func|function|type)\s+(?P<name>[A-Za-z]\w*)"
        }
    }
}

/// Lines that import names, in the languages whose imports name symbols.
pub(super) fn import_pattern(language: Option<&str>) -> Option<&'static str> {
    match language? {
        "Python" | "Cython" => Some(r"^\s*from\s+\S+\s+import\s+\w"),
        "Rust" => Some(r"^\s*(pub(\([^)]*\))?\s+)?use\s+\w"),
        "JavaScript" | "TypeScript" | "Vue" | "Svelte" | "Astro" => {
            Some(r#"^\s*(import|export)\b.*\bfrom\b|=\s*require\("#)
        }
        "Java" | "Kotlin" | "Scala" => Some(r"^import\s+\w"),
        "PHP" => Some(r"^use\s+\w"),
        _ => None,
    }
}

/// A definition that may be central.
#[derive(Debug, Clone)]
pub(super) struct SymbolCandidate {
    pub(super) hit: SearchHit,
    pub(super) name: String,
    /// Points for what the project states about the symbol.
    points: i32,
    /// The points, and those for signatures and imports. Uses are not counted yet.
    rank: i32,
}

/// True for a migration, made-up data, a setting, a template of pages, and a script or style that a server hands out:
/// other code says what the project is built around.
pub(super) fn is_made_by_tool(path: &str) -> bool {
    const SETTINGS: [&str; 6] = [
        "config/initializers/",
        "database/factories/",
        "database/seeders/",
        "db/seeds/",
        "cypress/",
        "alembic/",
    ];
    let is_setting = |folder: &&str| path.starts_with(*folder) || path.contains(&format!("/{folder}"));
    if SETTINGS.iter().any(is_setting) {
        return true;
    }
    const TEMPLATES: [&str; 7] = [".erb", ".blade.php", ".cshtml", ".phtml", ".j2", ".ejs", ".hbs"];
    TEMPLATES.iter().any(|end| path.ends_with(end)) || is_migration(path) || is_served_script(path)
}

/// True for a numbered file in a folder of migrations. Those of a library that offers migrations have names.
fn is_migration(path: &str) -> bool {
    let folders = parent_directory(path).to_ascii_lowercase();
    let is_folder = |folder: &str| folder.contains("migration") || matches!(folder, "migrate" | "versions");
    let stem = file_stem(path);
    let digits = stem
        .trim_start_matches(['V', 'm', 'M'])
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let is_hash = stem
        .split('_')
        .next()
        .is_some_and(|first| first.len() == 12 && first.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_numbered = digits >= 3 || is_hash || stem.ends_with("ModelSnapshot");
    is_numbered && folders.split('/').any(is_folder) || matches!(path, "db/schema.rb" | "db/structure.sql")
}

/// The definitions whose uses are counted: the best ones.
pub(super) fn best_candidates(definitions: &[SymbolCandidate]) -> &[SymbolCandidate] {
    &definitions[..definitions.len().min(CANDIDATES_MAX)]
}

/// Definitions that represent a module: the best ones in the file, or below the folder.
pub(super) fn definitions_of<'d>(
    definitions: &'d [SymbolCandidate],
    module: &str,
    is_folder: bool,
) -> Vec<&'d SymbolCandidate> {
    let is_inside = |path: &str| {
        if is_folder {
            strip_directory(path, module).is_some()
        } else {
            path == module
        }
    };
    let inside = definitions
        .iter()
        .filter(|candidate| is_inside(&candidate.hit.path) && candidate.points > 0);
    inside.take(MODULE_DEFINITIONS_MAX).collect()
}

/// All definitions of the searched files, best first, each name once.
pub(super) fn collect_definitions(
    evidence: &Evidence<'_>,
    files: &[ReadFile],
    survey: Option<&Survey>,
) -> Vec<SymbolCandidate> {
    let found = evidence.of("definitions").flat_map(|answer| parse_hits(answer.text()));
    rank_definitions(found.collect(), evidence, files, survey)
}

/// The definitions on these lines, best first, each name once.
pub(super) fn rank_definitions(
    hits: Vec<SearchHit>,
    evidence: &Evidence<'_>,
    files: &[ReadFile],
    survey: Option<&Survey>,
) -> Vec<SymbolCandidate> {
    // One search covers one language.
    let Some(first) = hits.first() else {
        return Vec::new();
    };
    let searched = survey.map_or_else(|| detect_language(&first.path), Survey::main_language);
    let reader = DefinitionReader::new(searched);
    let judge = CandidateJudge::new(files, survey);
    let mut methods: BTreeMap<String, i32> = BTreeMap::new();
    for receiver in hits.iter().filter_map(|hit| reader.receiver(&hit.text)) {
        *methods.entry(receiver).or_default() += 1;
    }
    let word = Regex::new(r"[A-Za-z_]\w+").expect("the expression is a constant");
    let mut mentions: BTreeMap<String, i32> = BTreeMap::new();
    for found in hits.iter().flat_map(|hit| word.find_iter(&hit.text)) {
        *mentions.entry(found.as_str().to_owned()).or_default() += 1;
    }
    let imports = find_importers(evidence, &word);
    let generated: BTreeSet<String> = evidence
        .of("generated")
        .flat_map(|answer| parse_hits(answer.text()))
        .filter(|hit| hit.number <= GENERATED_HEAD_LINES)
        .map(|hit| hit.path)
        .collect();
    let hidden = hidden_modules(evidence);
    let mut found: Vec<SymbolCandidate> = hits
        .into_iter()
        .filter_map(|hit| {
            let name = reader.defined_name(&hit.text)?;
            if generated.contains(&hit.path)
                || judge.is_namespace(&hit, &name)
                || name.starts_with("Mix.")
                || hidden.contains(&hit.place())
            {
                return None;
            }
            let methods = methods.get(&name).copied().unwrap_or_default();
            let named = mentions.get(&name).copied().unwrap_or_default();
            let imported = imports.get(&name).map_or(0, BTreeSet::len);
            let points = judge.points(&hit, &name) + (methods / 4).min(METHOD_POINTS_MAX);
            let rank = points + (named / 3).min(MENTION_POINTS_MAX) + import_points(imported);
            Some(SymbolCandidate {
                hit,
                name,
                points,
                rank,
            })
        })
        .collect();
    // The sort is stable: equal candidates keep the order of the search.
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.rank));
    let mut names = BTreeSet::new();
    found.retain(|candidate| names.insert(candidate.name.clone()));
    found
}

/// Places of the Elixir modules that hide their documentation.
fn hidden_modules(evidence: &Evidence<'_>) -> BTreeSet<String> {
    let indent = |hit: &SearchHit| hit.text.len() - hit.text.trim_start().len();
    let of = |purpose| evidence.of(purpose).flat_map(|answer| parse_hits(answer.text()));
    let modules: Vec<SearchHit> = of("definitions").collect();
    let module_of = |attribute: SearchHit| {
        // The `@moduledoc` attribute is one level below its module.
        let around = modules.iter().filter(|module| {
            module.path == attribute.path
                && module.number < attribute.number
                && indent(module) + 2 == indent(&attribute)
        });
        Some(around.max_by_key(|module| module.number)?.place())
    };
    of("hidden").filter_map(module_of).collect()
}

/// The files whose imports mention a name.
fn find_importers(evidence: &Evidence<'_>, word: &Regex) -> BTreeMap<String, BTreeSet<String>> {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for hit in evidence.of("imported").flat_map(|answer| parse_hits(answer.text())) {
        for found in word.find_iter(&hit.text) {
            files
                .entry(found.as_str().to_owned())
                .or_default()
                .insert(hit.path.clone());
        }
    }
    files
}

/// A point for each doubling of the importing files.
fn import_points(files: usize) -> i32 {
    let doublings = files.max(1).ilog2();
    doublings.min(IMPORT_POINTS_MAX).cast_signed()
}

/// Reads the names from lines that define something in one language.
struct DefinitionReader {
    pattern: Regex,
    /// Finds lines of JavaScript that re-export a name of another file.
    passes_on: Regex,
}

impl DefinitionReader {
    fn new(language: Option<&str>) -> Self {
        let pattern = Regex::new(definition_pattern(language)).expect("the expression is a constant");
        let passes_on = Regex::new(r"exports\.\w+\s*=\s*require\(").expect("the expression is a constant");
        Self { pattern, passes_on }
    }

    fn defined_name(&self, line: &str) -> Option<String> {
        const KEYWORDS: [&str; 21] = [
            "for", "while", "switch", "return", "else", "sizeof", "main", "defined", "operator", "catch", "decltype",
            "noexcept", "unsigned", "signed", "void", "char", "int", "long", "float", "double", "bool",
        ];
        let name = self.group_of(
            line,
            &["name", "function", "exported", "constant", "assigned", "inside"],
        )?;
        if self.passes_on.is_match(line) {
            return None;
        }
        // Names of two letters are abbreviations, such as `DB`.
        let is_long = name.len() > 2 || name.len() == 2 && name.chars().all(|c| c.is_ascii_uppercase());
        (is_long && !KEYWORDS.contains(&name.as_str())).then_some(name)
    }

    /// The type of the method that a line defines.
    fn receiver(&self, line: &str) -> Option<String> {
        self.group_of(line, &["receiver"])
    }

    fn group_of(&self, line: &str, groups: &[&str]) -> Option<String> {
        let found = self.pattern.captures(line)?;
        let mut named = groups.iter().filter_map(|group| found.name(group));
        named.next().map(|name| name.as_str().to_owned())
    }
}

/// Judges definitions by README, package files and names.
struct CandidateJudge {
    readme: BTreeSet<String>,
    /// Words of the main files of packages.
    exported: BTreeSet<String>,
    /// Names of the project, lower case.
    project: BTreeSet<String>,
    /// Names of the sources, lower case.
    stems: BTreeSet<String>,
    bytes: BTreeMap<String, f64>,
    is_type: Regex,
    /// True if the main file of a Ruby library defines module methods.
    has_interface: bool,
}

impl CandidateJudge {
    fn new(files: &[ReadFile], survey: Option<&Survey>) -> Self {
        let word = Regex::new(r"[A-Za-z_]\w+").expect("the expression is a constant");
        let words = |file: &ReadFile| -> Vec<String> {
            let lines = file.lines.iter();
            lines
                .flat_map(|line| {
                    word.find_iter(&line.text)
                        .map(|found| found.as_str().to_owned())
                        .collect::<Vec<_>>()
                })
                .collect()
        };
        let mut readme = BTreeSet::new();
        let mut exported = BTreeSet::new();
        for file in files {
            if is_readme(&file.path) {
                readme.extend(words(file));
            }
            if exports_names(&file.path) {
                exported.extend(words(file));
            }
        }
        let project = files
            .iter()
            .filter_map(ReadFile::project_name)
            .map(|name| {
                name.text
                    .rsplit(['/', '.'])
                    .next()
                    .unwrap_or_default()
                    .to_ascii_lowercase()
            })
            .collect();
        let method =
            Regex::new(r"^  (def self\.\w|[cm]attr_accessor |mattr_\w+ )").expect("the expression is a constant");
        let face = files
            .iter()
            .filter(|file| file.path.ends_with(".rb") && parent_directory(&file.path) == "lib");
        let methods = face
            .flat_map(|file| &file.lines)
            .filter(|line| method.is_match(&line.text));
        let has_interface = methods.count() >= INTERFACE_METHODS_MIN;
        let is_type = Regex::new(r"\b(class|struct|interface|trait|module|defmodule|object|type|enum|record)\b")
            .expect("the expression is a constant");
        Self {
            readme,
            exported,
            project,
            stems: survey
                .into_iter()
                .flat_map(Survey::sources)
                .map(|file| plain_stem(&file.path))
                .collect(),
            bytes: survey
                .into_iter()
                .flat_map(Survey::sources)
                .map(|file| (file.path.clone(), file.bytes))
                .collect(),
            is_type,
            has_interface,
        }
    }

    /// True for the main module of a gem. It is opened in every file and only repeats the project's name, unless the
    /// main file gives it methods.
    fn is_namespace(&self, hit: &SearchHit, name: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        // The module of an application or of its pages, which Phoenix generates.
        let is_small = self
            .bytes
            .get(&hit.path)
            .is_none_or(|bytes| *bytes < NAMESPACE_BYTES_MAX);
        let is_of_phoenix = hit.text.starts_with("defmodule ") && parent_directory(&hit.path) == "lib" && is_small;
        hit.text.trim_start().starts_with("module ") && self.project.contains(&lower) && !self.has_interface
            || is_of_phoenix && (self.stems.contains(&format!("{lower}web")) || lower.ends_with("web"))
    }

    fn points(&self, hit: &SearchHit, name: &str) -> i32 {
        // The part of an Elixir module's name that other code writes.
        let name = name.rsplit('.').next().unwrap_or(name);
        let lower = name.to_ascii_lowercase();
        let mut points = 0;
        // In a README a short or lower-case word may be prose.
        let has_capital = name.chars().any(char::is_uppercase) && name.chars().any(char::is_lowercase);
        let is_distinct = name.len() > 3 && (has_capital || name.contains('_'));
        if is_distinct && self.readme.contains(name) {
            points += 4;
        }
        if self.exported.contains(name) {
            points += 3;
        }
        let (before, after) = hit.text.split_once(name).unwrap_or_default();
        let is_type = self.is_type.is_match(before);
        if is_type {
            points += 3;
        }
        let plural = format!("{lower}s");
        let file = plain_stem(&hit.path);
        if file == lower || file == plural || self.stems.contains(&lower) {
            points += 3;
        }
        if self.project.contains(&lower) {
            points += 4;
        }
        if self.project.contains(&file) {
            points += 2;
        }
        if is_beside_project(&hit.path) {
            points -= 4;
        }
        // Pages show what the application is about.
        if hit.path.split('/').any(|folder| folder.ends_with("_web")) {
            points -= 2;
        }
        if is_type && is_of_domain(&hit.path) {
            points += 3;
        }
        if is_of_page(hit) {
            points -= 4;
        }
        // Central types are in large files.
        points += match self.bytes.get(&hit.path) {
            Some(bytes) if *bytes > 40_000.0 => 3,
            Some(bytes) if *bytes > 15_000.0 => 2,
            Some(bytes) if *bytes > 6_000.0 => 1,
            _ => 0,
        };
        // Names of generated parsers begin with `yy`.
        let is_internal = hit.text.starts_with("static ") || hit.text.starts_with("pub(");
        let is_standard = detect_language(&hit.path) == Some("Rust") && STANDARD_NAMES.contains(&name);
        if is_internal
            || is_standard
            || matches!(name, "Error" | "Extensions" | "Program" | "Result" | "Startup" | "priv")
            || lower.starts_with("yy")
        {
            points -= 4;
        }
        if name.starts_with('_') || is_failure(name) || is_type && words_of(after).any(is_failure) {
            points -= 4;
        }
        points
    }
}

/// True for a file that states what an application is about: its tables, entities and the like.
pub(super) fn is_of_domain(path: &str) -> bool {
    let folders = parent_directory(path).split(['/', '.']).chain([file_stem(path)]);
    let names = ["models", "model", "schema", "schemas", "entities", "entity", "domain"];
    folders
        .into_iter()
        .any(|folder| names.contains(&folder.to_ascii_lowercase().as_str()))
}

/// True for a part of one page: a function in a component, a type that its file keeps to itself, a building block.
fn is_of_page(hit: &SearchHit) -> bool {
    let is_component = [".vue", ".svelte", ".astro"].iter().any(|end| hit.path.ends_with(end));
    let is_own = [".ts", ".tsx"].iter().any(|end| hit.path.ends_with(end)) && !hit.text.starts_with("export");
    is_component
        || is_own && (hit.text.starts_with("type ") || hit.text.starts_with("interface "))
        || format!("/{}", hit.path).contains("/components/ui/")
}

/// True for the name of an error type. Error types are used everywhere, but are not central.
fn is_failure(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["error", "exception", "warning"].iter().any(|end| lower.ends_with(end))
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// True for files that export the names of their package.
pub(super) fn exports_names(path: &str) -> bool {
    const FACES: [&str; 6] = ["__init__.py", "lib.rs", "mod.rs", "index.js", "index.ts", "index.mjs"];
    FACES.contains(&file_name(path)) || path.ends_with(".h") || path.ends_with(".hpp")
}

/// A file's name for comparison with names in code: lower case, letters and digits only. The main file of a folder has
/// the name of the folder.
fn plain_stem(path: &str) -> String {
    let name = match file_stem(path) {
        "index" | "mod" | "__init__" if !parent_directory(path).is_empty() => file_name(parent_directory(path)),
        stem => stem,
    };
    name.to_ascii_lowercase().replace(['-', '_'], "")
}

/// A candidate with its counted uses.
pub(super) struct CentralSymbol<'d> {
    pub(super) candidate: &'d SymbolCandidate,
    /// Absent if the uses could not be counted in time.
    uses: Option<ReferenceCount>,
}

impl CentralSymbol<'_> {
    /// Points times the root of the mean of uses and files. So neither one busy file nor a common word such as `text`
    /// decides. Uses in code count where there are any: translations and documents are full of words such as `Version`.
    /// A module of Elixir counts by its whole name, because a call of `Enum.map` may mean the `Enum` of the standard
    /// library.
    fn weight(&self) -> u64 {
        let Some(counted) = &self.uses else { return 0 };
        let points = u64::from(self.candidate.points.max(1).unsigned_abs());
        let uses = if self.candidate.name.contains('.') {
            counted.sure
        } else if counted.in_code > 0 {
            counted.in_code
        } else {
            counted.all
        };
        let spread = uses.saturating_mul(counted.files.min(uses)).isqrt();
        // A name with many definitions belongs to many symbols. In Ruby and C++ the definitions are parts of one.
        let is_reopened = matches!(
            detect_language(&self.candidate.hit.path),
            Some("Ruby" | "C" | "C++" | "PHP" | "Elixir")
        );
        let spread = if is_reopened {
            spread
        } else {
            spread / (counted.definitions / SHARED_DEFINITIONS_MIN).max(1)
        };
        // In hundredths, so that small counts differ.
        let weight = spread.saturating_mul(10_000 * points * points).isqrt();
        // In C, a function may have the name of any word.
        let is_word = self.candidate.name.chars().all(|c| c.is_ascii_lowercase());
        let is_plain = is_word && detect_language(&self.candidate.hit.path) != Some("C");
        if is_plain { weight / 4 } else { weight }
    }

    /// False for a word of prose that looked like a definition: syntax trees have no use of it.
    fn is_in_code(&self) -> bool {
        self.uses.as_ref().is_none_or(|uses| uses.in_code > 0) || self.candidate.name.contains('.')
    }
}

/// The counted candidates, the most used and most prominent first.
pub(super) fn central_symbols<'d>(
    evidence: &Evidence<'_>,
    definitions: &'d [SymbolCandidate],
) -> Vec<CentralSymbol<'d>> {
    let mut counted: Vec<CentralSymbol<'_>> = best_candidates(definitions)
        .iter()
        .filter_map(|candidate| {
            let mut answers = evidence.of("uses");
            let uses = Some(answers.find_map(|answer| ReferenceCount::parse_answer(answer.text(), &candidate.name))?);
            Some(CentralSymbol { candidate, uses })
        })
        .collect();
    // Without a grammar, all uses are found in text.
    if counted
        .iter()
        .flat_map(|symbol| &symbol.uses)
        .any(|uses| uses.in_code > 0)
    {
        counted.retain(CentralSymbol::is_in_code);
    }
    if counted.is_empty() {
        let prominent = best_candidates(definitions)
            .iter()
            .filter(|candidate| candidate.points > 0);
        counted = prominent
            .map(|candidate| CentralSymbol { candidate, uses: None })
            .collect();
    }
    // What a framework calls by its place, such as a page, has no use in the code.
    let is_used = |symbol: &CentralSymbol<'_>| symbol.uses.as_ref().is_some_and(|uses| uses.elsewhere() > 0);
    if counted.iter().filter(|symbol| is_used(symbol)).count() >= EXPLAINED_MAX {
        counted.retain(is_used);
    }
    counted.sort_by_key(|symbol| std::cmp::Reverse(symbol.weight()));
    counted.truncate(SYMBOLS_MAX);
    counted
}

/// Writes the section about central symbols; empty if no symbol is central.
pub(super) fn central_section(evidence: &Evidence<'_>, definitions: &[SymbolCandidate]) -> String {
    let symbols = central_symbols(evidence, definitions);
    if symbols.is_empty() {
        return String::new();
    }
    let mut text = "## Central symbols\n\n".to_owned();
    for symbol in &symbols {
        let SymbolCandidate { hit, name, .. } = symbol.candidate;
        let uses = match symbol.uses.as_ref().map(ReferenceCount::elsewhere) {
            None => "uses not counted".to_owned(),
            Some(0) => "no use found".to_owned(),
            Some(1) => "1 use".to_owned(),
            Some(count) => format!("{count} uses"),
        };
        let _ = writeln!(text, "- `{name}` — {uses} ({})", hit.place());
    }
    // A friend or a constructor of a type may have the same name.
    let is_about = |answer: &str| symbols.iter().any(|symbol| is_about(answer, &symbol.candidate.hit));
    for answer in evidence.of("function").filter(|answer| is_about(answer.text())) {
        text.push_str(&summarize_answer(answer.text()));
    }
    text
}

/// Counts of a find_references answer: `16 references to `run` in 4 files: 2 definitions, 4 calls, 10 text. …`.
struct ReferenceCount {
    all: u64,
    files: u64,
    /// Places that define the name.
    definitions: u64,
    /// Those that syntax trees show.
    in_code: u64,
    /// Without those that may belong to another symbol.
    sure: u64,
}

impl ReferenceCount {
    fn parse_answer(text: &str, name: &str) -> Option<Self> {
        let symbol = format!(" to `{name}` in ");
        let line = text.lines().find(|line| line.contains(&symbol))?;
        let (count, rest) = line.split_once(' ')?;
        let places = rest.rsplit_once(" in ").map_or(rest, |(_, places)| places);
        let places = places.split_once(". ").map_or(places, |(before, _)| before);
        let places = places.trim_end_matches('.');
        let all = parse_number(count)?;
        let of_kind = |kind: &str| {
            let mut parts = places.split([':', ',']);
            let count = parts.find_map(|part| part.trim().strip_suffix(kind));
            count.and_then(parse_number).unwrap_or_default()
        };
        Some(Self {
            all,
            files: places.split(' ').next().and_then(parse_number)?,
            definitions: of_kind(" definition") + of_kind(" definitions"),
            in_code: all.saturating_sub(of_kind(" text")),
            sure: all.saturating_sub(of_kind(" possible")),
        })
    }

    /// The uses without the definitions; those in code where there are any.
    fn elsewhere(&self) -> u64 {
        let counted = if self.in_code > self.definitions {
            self.in_code
        } else {
            self.all
        };
        counted.saturating_sub(self.definitions)
    }
}

fn parse_number(digits: &str) -> Option<u64> {
    digits.replace(',', "").parse().ok()
}

/// Removes marks and tags, such as those for authors, from a documentation comment.
fn without_tags(words: &str) -> String {
    let described =
        Regex::new(r"^(@(abstract|class|classdesc|description|public)\s+)+").expect("the expression is a constant");
    let words = described.replace(words, "");
    let end = words
        .match_indices('@')
        .find(|&(at, _)| words[..at].is_empty() || words[..at].ends_with(' '));
    plain_doc(&words[..end.map_or(words.len(), |(at, _)| at)])
}

/// True if the lines that an explain_function answer shows include this line.
fn is_about(answer: &str, hit: &SearchHit) -> bool {
    let file = answer.lines().find_map(|line| line.strip_prefix("file:"));
    let lines = file.and_then(|file| file.trim().strip_prefix(&hit.path)?.strip_prefix(':'));
    let range = lines.and_then(|lines| lines.split_once('-'));
    range.is_some_and(|(first, last)| {
        let within = |first: usize, last: usize| (first..=last).contains(&hit.number);
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if within(first, last))
    })
}

/// Summarises an explain_function answer: signature, first words, and calls within the repository.
pub(super) fn summarize_answer(text: &str) -> String {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let cited_lines = |place: &str| {
        let (path, lines) = place.rsplit_once(':')?;
        let line = lines.split_once('-').filter(|(first, last)| first == last);
        Some(cite_lines(path, &line.map_or(lines, |(first, _)| first)))
    };
    let (Some(signature), Some(file)) = (field("signature:"), field("file:").and_then(cited_lines)) else {
        return String::new();
    };
    // `path:first-last`: attributes and annotations precede the line of the signature.
    let mut section = format!("\n{} ({file})\n", quote_code(signature));
    if let Some(words) = field("docstring:").or_else(|| field("comment:")) {
        let words = without_tags(words.trim_end_matches(" […]"));
        if !words.is_empty() {
            let _ = writeln!(section, "{}", escape_paragraph(&cut_text(&words, WORDS_CHARACTERS_MAX)));
        }
    }
    let calls: Vec<String> = text
        .lines()
        .skip_while(|line| *line != "calls:")
        .take_while(|line| *line != "source:")
        .filter_map(|line| {
            let (name, place) = line.strip_prefix("  ")?.split_once(" -> ")?;
            // With several definitions it may be any of them.
            let place = place.split_whitespace().next().filter(|place| !place.ends_with(','))?;
            let place = cited_lines(place)?;
            Some(format!("{} ({place})", quote_code(name)))
        })
        .take(6)
        .collect();
    if !calls.is_empty() {
        let _ = writeln!(section, "It calls {}.", calls.join(", "));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::number_lines;

    #[test]
    fn an_annotation_in_the_source_is_no_call() {
        let answer = "function: a.f\nfile: a-b.py:1-2\nsignature: def f(x: str) -> t.Tuple[str]\ncalls:\n  g -> a.py:9  [line 2]\n  \
                      len (builtin)  [line 2]\nsource:\n     1  def f(x: str) -> t.Tuple[str]:\n     2      return g(len(x))\n";
        insta::assert_snapshot!(summarize_answer(answer), @r"

        `def f(x: str) -> t.Tuple[str]` (a-b.py:1-2)
        It calls `g` (a.py:9).
        ");
    }

    #[test]
    fn an_explanation_of_other_lines_is_none_of_the_symbol() {
        let hit = |number| SearchHit {
            path: "a.h".to_owned(),
            number,
            text: String::new(),
        };
        let answer = "function: Test\nfile: a.h:3-9\n";
        assert!(is_about(answer, &hit(4)) && !is_about(answer, &hit(12)));
        assert!(!is_about("file: b.h:3-9\n", &hit(4)) && !is_about("no such function", &hit(4)));
    }

    #[test]
    fn numbered_migrations_templates_and_served_scripts_are_not_central() {
        for path in [
            "shop/migrations/0001_initial.py",
            "db/migrate/20120703184957_create_carts.rb",
            "alembic/versions/1a31ce608336_add_carts.py",
            "src/Data/Migrations/AppModelSnapshot.cs",
            "app/views/carts/show.html.erb",
            "app/static/js/jquery.js",
        ] {
            assert!(is_made_by_tool(path), "{path}");
        }
        for path in [
            "django/db/migrations/executor.py",
            "src/versions/2fast.py",
            "src/static.js",
            "src/migrate.go",
        ] {
            assert!(!is_made_by_tool(path), "{path}");
        }
    }

    #[test]
    fn definitions_are_named_in_each_language() {
        for (path, text, expected) in [
            ("a.py", "class Flask(App):", Some("Flask")),
            ("a.py", "    def inner(self):", None),
            ("a.rs", "pub struct Regex {", Some("Regex")),
            ("a.rs", "fn private() {", None),
            ("a.rs", "    pub struct TcpStream {", Some("TcpStream")),
            ("a.rs", "    pub fn method(&self) {", None),
            ("a.go", "type Command struct {", Some("Command")),
            ("a.go", "func (c *Command) Execute() error {", None),
            ("a.go", "func Map[T any](x T) {", Some("Map")),
            ("a.js", "exports.Router = Router;", Some("Router")),
            ("a.ts", "export const atom = <T>(x: T) => {", Some("atom")),
            ("A.java", "public final class Gson {", Some("Gson")),
            ("a.rb", "  class Base", Some("Base")),
            ("a.ex", "defmodule Plug.Conn do", Some("Plug.Conn")),
            ("a.c", "int deflateInit(z_streamp strm, int level)", Some("deflateInit")),
            ("a.c", "struct cJSON {", Some("cJSON")),
            ("a.c", "} else if (x) {", None),
            ("a.cc", "class GTEST_API_ [[nodiscard]] Test {", Some("Test")),
            ("a.cc", "class Cart final : public Base {", Some("Cart")),
            ("a.cc", "struct Cart::Rep {", None),
            ("a.cc", "class DB {", Some("DB")),
            ("a.cc", "class T {", None),
            ("a.js", "exports.Cart = require('./cart');", None),
            ("a.js", "exports.request = req;", Some("request")),
            (
                "a.js",
                "module.exports = class Application extends Emitter {",
                Some("Application"),
            ),
        ] {
            let name = DefinitionReader::new(detect_language(path)).defined_name(text);
            assert_eq!(name.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn exported_types_that_the_readme_names_come_before_others() {
        let file = |path: &str, text: &str| ReadFile {
            path: path.to_owned(),
            lines: number_lines(text),
        };
        let files = [
            file("README.md", "Use `Session` for this.\n"),
            file("src/shop/__init__.py", "from .sessions import Session\n"),
        ];
        let judge = CandidateJudge::new(&files, None);
        let points = |path: &str, text: &str, name: &str| {
            let hit = SearchHit {
                path: path.to_owned(),
                number: 1,
                text: text.to_owned(),
            };
            judge.points(&hit, name)
        };
        let session = points("src/shop/sessions.py", "class Session:", "Session");
        assert!(session > points("src/shop/sessions.py", "class Mixin:", "Mixin"));
        assert!(
            points("src/shop/errors.py", "class Bad:", "Bad")
                > points("src/shop/errors.py", "class BadError:", "BadError")
        );
    }
}
