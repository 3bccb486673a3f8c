//! The public names of a package: those that the file at its root defines or re-exports.
//!
//! They are read line by line from one file, so that each name has its line. In Go, Java, Kotlin, Elixir and PHP each
//! definition says itself whether it is public, so no such file is read. Other languages have no public interface here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use regex::Regex;

use super::central::SymbolCandidate;
use super::entry_points::{find_main_functions, library_header, named_library, public_header};
use crate::evidence::{AnalystTask, Evidence, FileLine};
use crate::manifest::ReadFile;
use crate::survey::{Survey, is_beside_project, strip_directory};
use crate::text::quote_code;
use tool_repository::file_role::{detect_language, file_name, parent_directory};
use tool_repository::path::join_path;

const NAMES_MAX: usize = 10;
/// Lines of one list of names. A longer one is generated.
const LIST_LINES_MAX: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
struct ExportedName {
    name: String,
    /// `path:line`.
    place: String,
}

impl ExportedName {
    fn from_candidate(candidate: &SymbolCandidate) -> Self {
        Self {
            name: candidate.name.clone(),
            place: candidate.hit.place(),
        }
    }
}

/// Writes the section; empty if no name was found.
pub(super) fn interface_section(
    brief: &AnalystTask,
    survey: &Survey,
    evidence: &Evidence<'_>,
    files: &[ReadFile],
    definitions: &[SymbolCandidate],
) -> String {
    let root = match survey.main_language() {
        Some("C") => library_header(brief, survey, evidence),
        _ => root_file(brief, survey),
    };
    let file = root.and_then(|path| files.iter().find(|file| file.path == path));
    let (of, names) = match file {
        Some(file) => (quote_code(&file.path), exported_by(file, definitions)),
        None => {
            let names = match survey.main_language() {
                Some("Go") => exported_in_go(brief, survey, evidence, definitions),
                Some("Java" | "Kotlin") => exported_in_java(brief, survey, evidence, definitions),
                Some("Elixir") => exported_in_elixir(survey, definitions),
                Some("PHP") => exported_in_php(brief, survey, files, definitions),
                _ => return String::new(),
            };
            ("the package in this directory".to_owned(), names)
        }
    };
    if names.is_empty() {
        return String::new();
    }
    let mut text = format!("## Public interface\n\nNames that {of} offers:\n\n");
    for exported in names.iter().take(NAMES_MAX) {
        let _ = writeln!(text, "- `{}` ({})", exported.name, exported.place);
    }
    if names.len() > NAMES_MAX {
        let _ = writeln!(text, "- … and {} more", names.len() - NAMES_MAX);
    }
    text
}

/// The file that exports the names of a package, by the main language.
pub(super) fn root_file(brief: &AnalystTask, survey: &Survey) -> Option<String> {
    let faces: &[&str] = match survey.main_language()? {
        "Python" => return python_package(brief, survey),
        "C" => return public_header(brief, survey),
        "Ruby" => return named_library(brief, survey),
        "Rust" => &["src/lib.rs", "lib.rs"],
        "JavaScript" | "TypeScript" => &[
            "src/index.ts",
            "index.ts",
            "mod.ts",
            "index.js",
            "index.mjs",
            "src/index.js",
            "lib/index.js",
        ],
        _ => return None,
    };
    let package = survey.main_package(&brief.repository);
    let package = package.filter(|_| brief.target.is_empty());
    let paths = package
        .iter()
        .chain([&brief.target])
        .flat_map(|folder| faces.iter().map(|face| join_path(folder, face)));
    paths.into_iter().find(|path| survey.has(path))
}

/// The outermost package with the name of the repository, else the one with most sources.
fn python_package(brief: &AnalystTask, survey: &Survey) -> Option<String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let repository = plain(&brief.repository);
    let is_outermost =
        |folder: &str| folder.is_empty() || !survey.has(&join_path(parent_directory(folder), "__init__.py"));
    let packages = survey
        .sources()
        .map(|file| parent_directory(&file.path))
        .filter(|folder| {
            let face = join_path(folder, "__init__.py");
            survey.has(&face) && !is_beside_project(&face) && (is_outermost(folder) || *folder == brief.target)
        });
    let packages: BTreeSet<&str> = packages.collect();
    let sources_below = |folder: &str| {
        survey
            .sources()
            .filter(|file| strip_directory(&file.path, folder).is_some())
            .count()
    };
    // Of equal packages, the first by name.
    let best = packages
        .into_iter()
        .rev()
        .max_by_key(|folder| (plain(file_name(folder)) == repository, sources_below(folder)))?;
    Some(join_path(best, "__init__.py"))
}

/// The exported names of a file: first those whose definitions rank highest, then in the order of the file.
fn exported_by(file: &ReadFile, definitions: &[SymbolCandidate]) -> Vec<ExportedName> {
    let names = match detect_language(&file.path) {
        Some("Python") => exported_in_python(&file.lines, file_name(parent_directory(&file.path))),
        Some("Rust") => exported_in_rust(&file.lines),
        Some("C") => exported_in_c(&file.lines),
        Some("Ruby") => exported_in_ruby(&file.lines),
        _ => exported_in_script(&file.lines),
    };
    let rank: BTreeMap<&str, usize> = definitions
        .iter()
        .enumerate()
        .map(|(rank, candidate)| (candidate.name.as_str(), rank))
        .collect();
    let mut known = BTreeSet::new();
    let mut names: Vec<(String, usize)> = names
        .into_iter()
        .filter(|(name, _)| !name.starts_with('_') && known.insert(name.clone()))
        .collect();
    names.sort_by_key(|(name, _)| rank.get(name.as_str()).copied().unwrap_or(usize::MAX));
    let exported = |(name, line): (String, usize)| ExportedName {
        name,
        place: file.place(line),
    };
    names.into_iter().map(exported).collect()
}

/// Exported names of the package in the target, unless it is a program.
fn exported_in_go(
    brief: &AnalystTask,
    survey: &Survey,
    evidence: &Evidence<'_>,
    definitions: &[SymbolCandidate],
) -> Vec<ExportedName> {
    let is_here = |path: &str| parent_directory(path) == brief.target;
    if find_main_functions(evidence)
        .iter()
        .any(|hit| is_here(&hit.path) && survey.is_source(&hit.path))
    {
        return Vec::new();
    }
    let here = definitions.iter().filter(|candidate| is_here(&candidate.hit.path));
    here.map(ExportedName::from_candidate).collect()
}

/// Public types of a library in its own folder, without those of internal packages.
fn exported_in_java(
    brief: &AnalystTask,
    survey: &Survey,
    evidence: &Evidence<'_>,
    definitions: &[SymbolCandidate],
) -> Vec<ExportedName> {
    // Of several modules, the one with the name of the repository.
    let named = join_path(&brief.target, &brief.repository);
    let has_own = !brief.repository.is_empty()
        && survey
            .sources()
            .any(|file| strip_directory(&file.path, &named).is_some());
    let folder = if has_own { &named } else { &brief.target };
    let is_here = |path: &str| {
        let folders = || parent_directory(path).split('/');
        let is_internal = folders().any(|folder| matches!(folder, "internal" | "impl"));
        strip_directory(path, folder).is_some()
            && folders().any(|folder| folder == "src")
            && survey.is_source(path)
            && !is_internal
    };
    if find_main_functions(evidence)
        .iter()
        .any(|hit| strip_directory(&hit.path, folder).is_some() && survey.is_source(&hit.path))
    {
        return Vec::new();
    }
    let is_public = |candidate: &&SymbolCandidate| {
        let text = candidate.hit.text.as_str();
        let (head, _) = text.split_once(&candidate.name).unwrap_or((text, ""));
        let mut words = head.split_whitespace();
        match detect_language(&candidate.hit.path) {
            Some("Java") => head.starts_with("public "),
            _ => !head.starts_with(' ') && !words.any(|word| matches!(word, "internal" | "private")),
        }
    };
    let here = definitions.iter().filter(|candidate| is_here(&candidate.hit.path));
    here.filter(is_public).map(ExportedName::from_candidate).collect()
}

/// Modules of a library that do not hide their documentation.
fn exported_in_elixir(survey: &Survey, definitions: &[SymbolCandidate]) -> Vec<ExportedName> {
    let is_offered = |candidate: &&SymbolCandidate| {
        let is_library = candidate.hit.path.split('/').any(|folder| folder == "lib");
        let is_nested = candidate.hit.text.starts_with(' ');
        is_library && !is_nested && survey.is_source(&candidate.hit.path)
    };
    definitions
        .iter()
        .filter(is_offered)
        .map(ExportedName::from_candidate)
        .collect()
}

/// Types of a Composer library, which loads each by its name, without those of internal namespaces.
fn exported_in_php(
    brief: &AnalystTask,
    survey: &Survey,
    files: &[ReadFile],
    definitions: &[SymbolCandidate],
) -> Vec<ExportedName> {
    let manifest = join_path(&brief.target, "composer.json");
    let is_program = compile_regex(r#"^\s*"type"\s*:\s*"project"|^\s*"bin"\s*:"#);
    let manifest = files.iter().find(|file| file.path == manifest);
    if manifest.is_none_or(|file| file.lines.iter().any(|line| is_program.is_match(&line.text))) {
        return Vec::new();
    }
    let is_offered = |candidate: &&SymbolCandidate| {
        let path = candidate.hit.path.as_str();
        let is_type = candidate.name.starts_with(|first: char| first.is_uppercase());
        let is_internal = path.split('/').any(|folder| folder.eq_ignore_ascii_case("internal"));
        is_type && !is_internal && strip_directory(path, &brief.target).is_some() && survey.is_source(path)
    };
    definitions
        .iter()
        .filter(is_offered)
        .map(ExportedName::from_candidate)
        .collect()
}

/// Functions and types that a header declares.
fn exported_in_c(lines: &[FileLine]) -> Vec<(String, usize)> {
    // The return type may be wrapped in a macro: `PUBLIC(char *) print(…)`.
    let function =
        compile_regex(r"^(?:[A-Z][A-Z0-9_]*\([^()]*\)\s*|[A-Za-z_][\w\s]*[\s*]+)\**([A-Za-z]\w*)\s*\([^{]*$");
    let pointer = compile_regex(r"^typedef\b.*\(\s*\w*\s*\*\s*([A-Za-z]\w*)\s*\)\s*\(");
    let alias = compile_regex(r"^typedef\b[^({]*?\b([A-Za-z]\w*)\s*;");
    let end = compile_regex(r"^\}\s*([A-Za-z]\w*)\s*;");
    let is_word = |name: &str| {
        matches!(
            name,
            "if" | "while" | "for" | "switch" | "return" | "sizeof" | "defined"
        )
    };
    let (mut names, mut depth, mut is_comment) = (Vec::new(), 0_usize, false);
    let (mut goes_on, mut is_after_linkage) = (false, false);
    for line in lines {
        let text = line.text.trim_end();
        if is_comment {
            is_comment = !text.contains("*/");
            continue;
        }
        if text.trim_start().starts_with("/*") {
            is_comment = !text.contains("*/");
            continue;
        }
        // A macro is not a public name. Its definition continues after a backslash.
        let is_macro = goes_on || text.starts_with('#');
        goes_on = is_macro && text.ends_with('\\');
        let is_linkage = text.starts_with("extern \"C\"");
        let opens_linkage = std::mem::replace(&mut is_after_linkage, is_linkage && !text.ends_with('{')) && text == "{";
        if is_macro || is_linkage || opens_linkage || text.starts_with("//") {
            continue;
        }
        if depth == 0 && !text.starts_with("static") {
            let typedef = text.starts_with("typedef");
            let found = if typedef {
                pointer.captures(text).or_else(|| alias.captures(text))
            } else {
                function.captures(text).filter(|_| !text.ends_with(')'))
            };
            // In `int total OF(int a)` the macro `OF` precedes the arguments.
            let is_macro = |name: &str| name.len() > 1 && !name.contains(char::is_lowercase);
            let found = found.filter(|found| !is_word(&found[1]) && !is_macro(&found[1]));
            names.extend(found.map(|found| (found[1].to_owned(), line.number)));
        }
        if let Some(found) = end.captures(text).filter(|_| depth == 1) {
            names.push((found[1].to_owned(), line.number));
        }
        depth += text.matches('{').count();
        depth = depth.saturating_sub(text.matches('}').count());
    }
    names
}

/// Constants that the main file of a gem defines or loads lazily.
fn exported_in_ruby(lines: &[FileLine]) -> Vec<(String, usize)> {
    let loaded = compile_regex(r"^\s*autoload\s*\(?\s*:([A-Z]\w*)");
    let defined = compile_regex(r"^\s*(?:class|module)\s+(?:\w+::)*([A-Z]\w*)");
    let hidden = compile_regex(r"^\s*private_constant\s+(.*)");
    let hidden: Vec<&str> = lines
        .iter()
        .filter_map(|line| hidden.captures(&line.text))
        .flat_map(|found| found.get(1).map_or("", |names| names.as_str()).split([',', ' ', ':']))
        .collect();
    let found = |line: &FileLine| {
        let name = loaded.captures(&line.text).or_else(|| defined.captures(&line.text))?[1].to_owned();
        let is_offered = !line.text.contains(":nodoc:") && !hidden.contains(&name.as_str());
        is_offered.then_some((name, line.number))
    };
    let names: Vec<_> = lines.iter().filter_map(found).collect();
    // A namespace without further names does not describe its content.
    if names.len() > 1 { names } else { Vec::new() }
}

/// The names in `__all__`, else the names that the package imports from itself and defines.
fn exported_in_python(lines: &[FileLine], package: &str) -> Vec<(String, usize)> {
    let quoted = compile_regex(r#"["']([A-Za-z]\w*)["']"#);
    if let Some(at) = lines.iter().position(|line| line.text.starts_with("__all__")) {
        let listed = lines_of_list(&lines[at..], &[']', ')']).flat_map(|line| {
            let names = quoted.captures_iter(without_comment(&line.text, "#"));
            names.map(|name| (name[1].to_owned(), line.number))
        });
        let listed: Vec<_> = listed.collect();
        if !listed.is_empty() {
            return listed;
        }
    }
    let import = compile_regex(r"^from\s+(\S+)\s+import\s+(.+)$");
    let defined = compile_regex(r"^(?:async\s+)?(?:class|def)\s+([A-Za-z]\w*)");
    let mut names = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(found) = defined.captures(&line.text) {
            names.push((found[1].to_owned(), line.number));
        }
        let Some(found) = import.captures(&line.text) else {
            continue;
        };
        let module = &found[1];
        if !module.starts_with('.') && module.split('.').next() != Some(package) {
            continue;
        }
        let first = line.with_text(&found[2]);
        let rest = if first.text.starts_with('(') && !first.text.contains(')') {
            &lines[at + 1..]
        } else {
            &[]
        };
        for line in std::iter::once(&first).chain(lines_of_list(rest, &[')'])) {
            names.extend(listed_names(line, "#", &[',', '(', ')']));
        }
    }
    names
}

/// Public items and re-exports at the root of a crate; its modules come last.
fn exported_in_rust(lines: &[FileLine]) -> Vec<(String, usize)> {
    let item = compile_regex(
        r"^pub\s+(?:(?:async|const|unsafe)\s+)*(fn|struct|enum|trait|type|union|static|const|mod)\s+([A-Za-z]\w*)",
    );
    let (mut names, mut modules, mut is_hidden) = (Vec::new(), Vec::new(), false);
    let opens_macro = compile_regex(r"^\w+!\s*\{$");
    let mut is_in_macro = false;
    for (at, line) in lines.iter().enumerate() {
        // Macros such as `cfg_net! { … }` contain the items of one feature.
        let text = line
            .text
            .strip_prefix("    ")
            .filter(|_| is_in_macro)
            .unwrap_or(&line.text);
        is_in_macro = opens_macro.is_match(text) || is_in_macro && text != "}";
        let text = text.trim_end();
        // Only tools for documentation or tests see the item.
        if [
            "#[doc(hidden)]",
            "#[cfg(doctest)]",
            "#[cfg(docsrs)]",
            "#[cfg(fuzzing)]",
            "#[cfg(test)]",
        ]
        .contains(&text)
        {
            is_hidden = true;
            continue;
        }
        if text.starts_with("#[") || text.starts_with("//") {
            continue;
        }
        if std::mem::take(&mut is_hidden) {
            continue;
        }
        if let Some(found) = item.captures(text) {
            let into = if &found[1] == "mod" { &mut modules } else { &mut names };
            into.push((found[2].to_owned(), line.number));
        } else if let Some(first) = text.strip_prefix("pub use ") {
            let first = line.with_text(first);
            let rest = if first.text.contains(';') {
                &[]
            } else {
                &lines[at + 1..]
            };
            for line in std::iter::once(&first).chain(lines_of_list(rest, &[';'])) {
                let found = listed_names(line, "//", &[',', '{', '}', ';']);
                names.extend(found.into_iter().filter(|(name, _)| name != "self"));
            }
        }
    }
    names.extend(modules);
    names
}

/// Exports of a module of JavaScript or TypeScript.
fn exported_in_script(lines: &[FileLine]) -> Vec<(String, usize)> {
    let item = compile_regex(
        r"^export\s+(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:class|function\*?|interface|enum|type|const|let|var|namespace)\s+([A-Za-z$][\w$]*)",
    );
    let other = compile_regex(
        r"^export\s+\*\s+as\s+([A-Za-z$][\w$]*)|^export\s+default\s+([A-Za-z$][\w$]*);?\s*$|^(?:module\.)?exports\.([A-Za-z$][\w$]*)\s*=|^module\.exports\s*=\s*([A-Za-z$][\w$]*);?\s*$",
    );
    let opened = compile_regex(r"^(?:export\s+(?:type\s+)?|module\.exports\s*=\s*)\{(.*)$");
    let mut names = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(found) = item.captures(&line.text).or_else(|| other.captures(&line.text)) {
            let name = found.iter().skip(1).flatten().next();
            names.extend(name.map(|name| (name.as_str().to_owned(), line.number)));
        } else if let Some(found) = opened.captures(&line.text) {
            let first = line.with_text(found[1].split('}').next().unwrap_or_default());
            let rest = if found[1].contains('}') { &[] } else { &lines[at + 1..] };
            for line in std::iter::once(&first).chain(lines_of_list(rest, &['}'])) {
                let text = line.text.split('}').next().unwrap_or_default();
                let found = listed_names(&line.with_text(text), "//", &[',']);
                names.extend(found.into_iter().filter(|(name, _)| name != "default"));
            }
        }
    }
    names
}

/// The lines of a list, including the one that closes it.
fn lines_of_list<'l>(lines: &'l [FileLine], closing: &[char]) -> impl Iterator<Item = &'l FileLine> {
    let end = lines.iter().position(|line| line.text.contains(closing));
    let end = end.map_or(lines.len(), |end| end + 1);
    lines[..end.min(LIST_LINES_MAX)].iter()
}

/// The names on a line of a list. An entry is a name, a path that ends in a name, or either with an alias after `as`.
fn listed_names(line: &FileLine, comment: &str, between: &[char]) -> Vec<(String, usize)> {
    let is_name = |name: &&str| {
        name.starts_with(|c: char| c.is_alphabetic() || c == '$')
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    let entry_name = |entry: &str| {
        let entry = entry.trim();
        let entry = entry.strip_prefix("type ").unwrap_or(entry);
        let name = match (entry.split_once(" as "), entry.rsplit_once("::")) {
            (Some((_, name)), _) | (None, Some((_, name))) => name,
            // The value follows the key of an object.
            (None, None) => entry.split(':').next().unwrap_or_default(),
        };
        let name = Some(name.trim()).filter(is_name)?;
        Some((name.to_owned(), line.number))
    };
    let entries = without_comment(&line.text, comment).split(between);
    entries.filter_map(entry_name).collect()
}

fn without_comment<'t>(text: &'t str, comment: &str) -> &'t str {
    text.split_once(comment).map_or(text, |(before, _)| before)
}

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the expression is a constant")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::number_lines;

    /// Names of a file with their lines.
    fn exported(path: &str, text: &str) -> String {
        let file = ReadFile {
            path: path.to_owned(),
            lines: number_lines(text),
        };
        let names = exported_by(&file, &[]);
        let shown = names.iter().map(|name| format!("{} {}", name.name, name.place));
        shown.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_package_of_python_offers_its_list_or_what_it_imports_from_itself() {
        let text = "import os\nfrom typing import (\n    Any,\n)\nfrom .app import Shop as Shop, cart  # the shop\n\
                    from shop.price import (\n    Price,\n    _round,\n    total as sum_of,\n)\ndef open(): ...\nclass _Own: ...\n";
        insta::assert_snapshot!(exported("src/shop/__init__.py", text), @r"
        Shop src/shop/__init__.py:5
        cart src/shop/__init__.py:5
        Price src/shop/__init__.py:7
        sum_of src/shop/__init__.py:9
        open src/shop/__init__.py:11
        ");
        let listed = format!("{text}__all__ = [\n    'Shop',  # 'not'\n    \"Price\",\n]\n");
        insta::assert_snapshot!(exported("src/shop/__init__.py", &listed), @r"
        Shop src/shop/__init__.py:14
        Price src/shop/__init__.py:15
        ");
    }

    #[test]
    fn a_crate_offers_items_and_re_exports_before_modules_and_nothing_hidden() {
        let text = "pub mod body;\nmod own;\npub(crate) use own::Inner;\n#[doc(hidden)]\n#[cfg(test)]\npub mod private;\n\
                    pub use own::{\n    Router, // the router\n    deep::{Json as Reply, self},\n};\npub use http;\npub use all::*;\n\
                    pub const fn new() {}\npub const MAX: u32 = 1;\npub struct State<T>(T);\n    pub fn inner() {}\n";
        insta::assert_snapshot!(exported("src/lib.rs", text), @r"
        Router src/lib.rs:8
        Reply src/lib.rs:9
        http src/lib.rs:11
        new src/lib.rs:13
        MAX src/lib.rs:14
        State src/lib.rs:15
        body src/lib.rs:1
        ");
    }

    #[test]
    fn a_module_of_a_script_offers_its_exports() {
        let text = "export { a, b as c } from './a';\nexport type {\n  Options, // all\n  type Result,\n} from './b';\n\
                    export * from './c';\nexport * as tools from './d';\nexport default class Shop {}\nexport default shop;\n\
                    export const limit = 1;\nexports.run = run;\nmodule.exports.stop = stop;\nmodule.exports = main;\n\
                    module.exports = {\n  start,\n  halt: stop,\n};\nmodule.exports = require('./e');\n";
        insta::assert_snapshot!(exported("index.js", text), @r"
        a index.js:1
        c index.js:1
        Options index.js:3
        Result index.js:4
        tools index.js:7
        Shop index.js:8
        shop index.js:9
        limit index.js:10
        run index.js:11
        stop index.js:12
        main index.js:13
        start index.js:15
        halt index.js:16
        ");
    }

    #[test]
    fn a_header_offers_what_it_declares() {
        let text = "#define PUBLIC(type) \\\n    type f(\n/* int none(void);\n   int none(void); */\nextern \"C\"\n{\n\
                    typedef struct cart\n{\n    int (*inner)(void);\n} cart;\ntypedef int money;\n\
                    typedef void (*callback)(cart *);\nPUBLIC(char *) print(const cart *cart);\nEXTERN int CALL total OF(int a);\n\
                    const char *name(void);\nint add(cart *cart,\n        int price);\nstatic int own(void);\n\
                    inline int twice(int x) { return x; }\n}\n";
        insta::assert_snapshot!(exported("shop.h", text), @r"
        cart shop.h:10
        money shop.h:11
        callback shop.h:12
        print shop.h:13
        name shop.h:15
        add shop.h:16
        ");
    }

    #[test]
    fn a_gem_offers_the_constants_of_its_file() {
        let text = "module Shop\n  autoload :Cart, \"shop/cart\"\n  class Error < StandardError; end\n  class Own; end # :nodoc:\n  \
                    autoload :Inner, 'x'\n  private_constant :Inner\nend\n";
        insta::assert_snapshot!(exported("lib/shop.rb", text), @r"
        Shop lib/shop.rb:1
        Cart lib/shop.rb:2
        Error lib/shop.rb:3
        ");
    }

    #[test]
    fn the_root_of_a_package_is_the_one_that_is_named_like_the_repository() {
        let root = |repository: &str, paths: &[&str]| {
            let brief = AnalystTask {
                repository: repository.to_owned(),
                ..AnalystTask::default()
            };
            root_file(&brief, &Survey::of_paths(paths)).unwrap_or_default()
        };
        let python = [
            "big/__init__.py",
            "big/a.py",
            "big/in/__init__.py",
            "my_shop/__init__.py",
        ];
        assert_eq!(root("my-shop", &python), "my_shop/__init__.py");
        assert_eq!(root("other", &python), "big/__init__.py");
        let rust = [
            "Cargo.toml",
            "shop/Cargo.toml",
            "shop/src/lib.rs",
            "shop-core/src/lib.rs",
        ];
        assert_eq!(root("shop", &rust), "shop/src/lib.rs");
        assert_eq!(root("other", &["src/main.rs"]), "");
        assert_eq!(root("other", &["lib/index.js", "index.js"]), "index.js");
        assert_eq!(root("other", &["main.c"]), "");
        assert_eq!(root("shop", &["shop.c", "include/shop.h", "own.h"]), "include/shop.h");
        assert_eq!(root("shop", &["lib/shop.rb", "lib/shop/cart.rb"]), "lib/shop.rb");
    }
}
