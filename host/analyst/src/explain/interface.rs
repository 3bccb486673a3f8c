//! The names that a package offers to its users: those that the file at its root defines or passes on.
//!
//! Read line by line from one file, so that each name has the line where it stands. A language whose packages have no
//! such file has no public interface here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use regex::Regex;

use super::central::SymbolCandidate;
use crate::evidence::{Brief, Evidence, NumberedLine, hits};
use crate::manifest::ReadFile;
use crate::survey::{Survey, beneath, is_beside_project, join};
use tool_repository::file_role::{file_name, language, parent};

/// Names that are listed.
const NAMES_MAX: usize = 10;
/// Lines of one list of names. A longer one is generated.
const LIST_LINES_MAX: usize = 400;

/// A name and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ExportedName {
    name: String,
    /// `path:line`.
    place: String,
}

/// Writes the section; empty where no name was found.
pub(super) fn interface_section(
    brief: &Brief,
    survey: &Survey,
    evidence: &Evidence<'_>,
    files: &[ReadFile],
    definitions: &[SymbolCandidate],
) -> String {
    let root = root_file(brief, survey);
    let file = root.and_then(|path| files.iter().find(|file| file.path == path));
    let (of, names) = match file {
        Some(file) => (format!("`{}`", file.path), exported_by(file, definitions)),
        None if survey.main_language() == Some("Go") => (
            "the package in this directory".to_owned(),
            exported_in_go(brief, survey, evidence, definitions),
        ),
        None => return String::new(),
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

/// The file whose names a package offers, by the main language.
pub(super) fn root_file(brief: &Brief, survey: &Survey) -> Option<String> {
    let faces: &[&str] = match survey.main_language()? {
        "Python" => return python_package(brief, survey),
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
        .flat_map(|folder| faces.iter().map(|face| join(folder, face)));
    paths.into_iter().find(|path| survey.has(path))
}

/// The outermost package that is called like the repository, else the one of most sources.
fn python_package(brief: &Brief, survey: &Survey) -> Option<String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let repository = plain(&brief.repository);
    let is_outermost = |folder: &str| folder.is_empty() || !survey.has(&join(parent(folder), "__init__.py"));
    let packages = survey.sources().map(|file| parent(&file.path)).filter(|folder| {
        let face = join(folder, "__init__.py");
        survey.has(&face) && !is_beside_project(&face) && (is_outermost(folder) || *folder == brief.target)
    });
    let packages: BTreeSet<&str> = packages.collect();
    let sources_below = |folder: &str| {
        survey
            .sources()
            .filter(|file| beneath(&file.path, folder).is_some())
            .count()
    };
    // Of packages that are alike, the first by name.
    let best = packages
        .into_iter()
        .rev()
        .max_by_key(|folder| (plain(file_name(folder)) == repository, sources_below(folder)))?;
    Some(join(best, "__init__.py"))
}

/// The names that a file offers: first those whose definitions count most, then in the order of the file.
fn exported_by(file: &ReadFile, definitions: &[SymbolCandidate]) -> Vec<ExportedName> {
    let names = match language(&file.path) {
        Some("Python") => exported_in_python(&file.lines, file_name(parent(&file.path))),
        Some("Rust") => exported_in_rust(&file.lines),
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
    brief: &Brief,
    survey: &Survey,
    evidence: &Evidence<'_>,
    definitions: &[SymbolCandidate],
) -> Vec<ExportedName> {
    let is_here = |path: &str| parent(path) == brief.target;
    let mut programs = evidence.of("mains").flat_map(|answer| hits(answer.text()));
    if programs.any(|hit| is_here(&hit.path) && survey.is_source(&hit.path)) {
        return Vec::new();
    }
    let exported = |candidate: &SymbolCandidate| ExportedName {
        name: candidate.name.clone(),
        place: candidate.hit.place(),
    };
    let here = definitions.iter().filter(|candidate| is_here(&candidate.hit.path));
    here.map(exported).collect()
}

/// The names in `__all__`, else what the package imports from itself and defines.
fn exported_in_python(lines: &[NumberedLine], package: &str) -> Vec<(String, usize)> {
    let quoted = pattern(r#"["']([A-Za-z]\w*)["']"#);
    if let Some(at) = lines.iter().position(|line| line.text.starts_with("__all__")) {
        let listed = list(&lines[at..], &[']', ')']).flat_map(|line| {
            let names = quoted.captures_iter(without_comment(&line.text, "#"));
            names.map(|name| (name[1].to_owned(), line.number))
        });
        let listed: Vec<_> = listed.collect();
        if !listed.is_empty() {
            return listed;
        }
    }
    let import = pattern(r"^from\s+(\S+)\s+import\s+(.+)$");
    let defined = pattern(r"^(?:async\s+)?(?:class|def)\s+([A-Za-z]\w*)");
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
        for line in std::iter::once(&first).chain(list(rest, &[')'])) {
            names.extend(listed_names(line, "#", &[',', '(', ')']));
        }
    }
    names
}

/// Public items and re-exports of a crate's root; its modules come last.
fn exported_in_rust(lines: &[NumberedLine]) -> Vec<(String, usize)> {
    let item = pattern(
        r"^pub\s+(?:(?:async|const|unsafe)\s+)*(fn|struct|enum|trait|type|union|static|const|mod)\s+([A-Za-z]\w*)",
    );
    let (mut names, mut modules, mut is_hidden) = (Vec::new(), Vec::new(), false);
    for (at, line) in lines.iter().enumerate() {
        let text = line.text.as_str();
        if text.trim_end() == "#[doc(hidden)]" {
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
            for line in std::iter::once(&first).chain(list(rest, &[';'])) {
                let found = listed_names(line, "//", &[',', '{', '}', ';']);
                names.extend(found.into_iter().filter(|(name, _)| name != "self"));
            }
        }
    }
    names.extend(modules);
    names
}

/// Exports of a module of JavaScript or TypeScript.
fn exported_in_script(lines: &[NumberedLine]) -> Vec<(String, usize)> {
    let item = pattern(
        r"^export\s+(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:class|function\*?|interface|enum|type|const|let|var|namespace)\s+([A-Za-z$][\w$]*)",
    );
    let other = pattern(
        r"^export\s+\*\s+as\s+([A-Za-z$][\w$]*)|^export\s+default\s+([A-Za-z$][\w$]*);?\s*$|^(?:module\.)?exports\.([A-Za-z$][\w$]*)\s*=|^module\.exports\s*=\s*([A-Za-z$][\w$]*);?\s*$",
    );
    let opened = pattern(r"^(?:export\s+(?:type\s+)?|module\.exports\s*=\s*)\{(.*)$");
    let mut names = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(found) = item.captures(&line.text).or_else(|| other.captures(&line.text)) {
            let name = found.iter().skip(1).flatten().next();
            names.extend(name.map(|name| (name.as_str().to_owned(), line.number)));
        } else if let Some(found) = opened.captures(&line.text) {
            let first = line.with_text(found[1].split('}').next().unwrap_or_default());
            let rest = if found[1].contains('}') { &[] } else { &lines[at + 1..] };
            for line in std::iter::once(&first).chain(list(rest, &['}'])) {
                let text = line.text.split('}').next().unwrap_or_default();
                let found = listed_names(&line.with_text(text), "//", &[',']);
                names.extend(found.into_iter().filter(|(name, _)| name != "default"));
            }
        }
    }
    names
}

/// The lines of a list, up to and with the one that closes it.
fn list<'l>(lines: &'l [NumberedLine], closing: &[char]) -> impl Iterator<Item = &'l NumberedLine> {
    let end = lines.iter().position(|line| line.text.contains(closing));
    let end = end.map_or(lines.len(), |end| end + 1);
    lines[..end.min(LIST_LINES_MAX)].iter()
}

/// The names in a line of a list. An entry is a name, a path that ends in one, or either with another name behind `as`.
fn listed_names(line: &NumberedLine, comment: &str, between: &[char]) -> Vec<(String, usize)> {
    let is_name = |name: &&str| {
        name.starts_with(|c: char| c.is_alphabetic() || c == '$')
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    let entry_name = |entry: &str| {
        let entry = entry.trim();
        let entry = entry.strip_prefix("type ").unwrap_or(entry);
        let name = match (entry.split_once(" as "), entry.rsplit_once("::")) {
            (Some((_, name)), _) | (None, Some((_, name))) => name,
            // A key of an object has its value behind it.
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

fn pattern(pattern: &str) -> Regex {
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
    fn the_root_of_a_package_is_the_one_that_is_named_like_the_repository() {
        let root = |repository: &str, paths: &[&str]| {
            let brief = Brief {
                repository: repository.to_owned(),
                ..Brief::default()
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
    }
}
