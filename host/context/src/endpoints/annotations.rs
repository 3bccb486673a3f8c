//! Routes that are annotations of functions: `@GetMapping("/carts")`, `[HttpGet("carts")]`, `#[get("/carts")]`. The
//! frameworks are data.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::literal::{find_named_argument, parse_string, parse_string_list, split_arguments, text_in_brackets};
use super::routers::{NamedRoute, join_route};
use super::{Endpoint, METHODS, SourceFile, route_endpoint, spell_method};
use crate::symbols::{DetailedSymbol, SymbolForm};
use tool_repository::file_role::detect_language;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnnotationFramework {
    languages: Vec<String>,
    imports: Vec<String>,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    prefixes: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
    verbs: String,
    #[serde(default)]
    any: Vec<String>,
}

static FRAMEWORKS: LazyLock<Vec<AnnotationFramework>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Table {
        framework: Vec<AnnotationFramework>,
    }
    let table: Table = toml::from_str(include_str!("annotations.toml")).expect("the data of the program is valid");
    table.framework
});

/// The beginning of an annotation in a line: `@Name`, `[Name`, `, Name` behind another one, `#[name`.
static ANNOTATION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:@|^\s*#?\[|,\s*)(?:\w+[.:]+)*(\w+)").expect("the expression is a constant"));

/// An annotation with its arguments.
struct Annotation<'f> {
    name: &'f str,
    given: Vec<&'f str>,
    line: u32,
}

/// The paths of classes by name, for the classes that are derived from them.
type ClassPaths<'f> = BTreeMap<&'f str, Vec<&'f str>>;

pub(super) fn find_annotated_routes(files: &[SourceFile]) -> Vec<NamedRoute> {
    let mut routes = Vec::new();
    for framework in FRAMEWORKS.iter() {
        let covered: Vec<&SourceFile> = files.iter().filter(|file| framework.covers(file)).collect();
        let paths = covered
            .iter()
            .flat_map(|file| framework.paths_of_classes(file))
            .collect();
        for file in covered {
            let is_function =
                |symbol: &&DetailedSymbol| matches!(symbol.form(), SymbolForm::Function | SymbolForm::Method);
            for function in file.details.symbols.iter().filter(is_function) {
                if !file.is_in_tests(function.named.line) {
                    routes.extend(framework.routes_of(file, function, &paths));
                }
            }
        }
    }
    routes
}

/// Words that a file in a language holds if it declares routes by annotations.
pub(super) fn imports_of(language: &str) -> impl Iterator<Item = &'static str> {
    let of_language = move |framework: &&AnnotationFramework| framework.languages.iter().any(|known| known == language);
    let frameworks = FRAMEWORKS.iter().filter(of_language);
    frameworks.flat_map(|framework| framework.imports.iter().map(String::as_str))
}

impl AnnotationFramework {
    fn covers(&self, file: &SourceFile) -> bool {
        let language = detect_language(&file.path).unwrap_or_default();
        self.languages.iter().any(|known| known == language) && self.imports.iter().any(|import| file.mentions(import))
    }

    fn paths_of_classes<'f>(&self, file: &'f SourceFile) -> ClassPaths<'f> {
        let classes = file
            .details
            .symbols
            .iter()
            .filter(|symbol| symbol.form() == SymbolForm::Type);
        let path = |class: &'f DetailedSymbol| {
            let annotations = annotations_of(file, class);
            let prefix = annotations
                .iter()
                .find(|one| self.prefixes.iter().any(|name| name == one.name))?;
            Some((class.name(&file.text), paths_of(prefix)?))
        };
        classes.filter_map(path).collect()
    }

    fn methods_of(&self, annotation: &Annotation<'_>) -> Option<String> {
        if self.any.iter().any(|any| any == annotation.name) {
            let methods = find_named_argument(&annotation.given, "method").unwrap_or_default();
            let words = methods.split(|c: char| !c.is_alphanumeric());
            let words = words.filter(|word| METHODS.contains(&word.to_ascii_lowercase().as_str()));
            return Some(words.collect::<Vec<_>>().join(", "));
        }
        let is_this = |method: &&&str| spell_method(&self.verbs, method) == annotation.name;
        let method = METHODS.iter().find(is_this)?;
        Some(method.to_uppercase())
    }

    fn routes_of(&self, file: &SourceFile, function: &DetailedSymbol, paths: &ClassPaths<'_>) -> Vec<NamedRoute> {
        let annotations = annotations_of(file, function);
        let Some((verb, methods)) = annotations.iter().find_map(|one| Some((one, self.methods_of(one)?))) else {
            return Vec::new();
        };
        let around = file.around(function.named.line);
        let class = around.into_iter().find(|symbol| symbol.form() == SymbolForm::Type);
        let on_class = class.map_or_else(Vec::new, |class| annotations_of(file, class));
        let has = |names: &[String]| on_class.iter().any(|one| names.iter().any(|name| name == one.name));
        if !self.classes.is_empty() && !has(&self.classes) || has(&self.without) {
            return Vec::new();
        }
        let prefix = on_class
            .iter()
            .find(|one| self.prefixes.iter().any(|name| name == one.name));
        let inherited = || {
            let signature = class.map_or_else(String::new, |class| class.signature(&file.text));
            let mut bases = signature
                .split_once(':')
                .map_or("", |(_, bases)| bases)
                .split([',', ' ', '<']);
            Some(bases.find_map(|base| paths.get(base)).cloned().unwrap_or_default())
        };
        let Some(prefixes) = prefix.map_or_else(inherited, paths_of) else {
            return Vec::new();
        };
        let on_function = annotations
            .iter()
            .find(|one| self.paths.iter().any(|name| name == one.name));
        let own = paths_of(verb).filter(|own| !own.is_empty());
        let Some(own) = own.or_else(|| on_function.map_or_else(|| paths_of(verb), paths_of)) else {
            return Vec::new();
        };
        let name = function.name(&file.text);
        let class = class.map_or("", |class| class.name(&file.text));
        let mut routes = Vec::new();
        for prefix in if prefixes.is_empty() { vec![""] } else { prefixes } {
            for own in if own.is_empty() { vec![""] } else { own.clone() } {
                let whole = match own.strip_prefix('~') {
                    Some(own) => own.to_owned(),
                    None => join_route(prefix, own),
                };
                let whole = whole
                    .replace("[controller]", class.strip_suffix("Controller").unwrap_or(class))
                    .replace("[action]", name);
                if whole.is_empty() {
                    continue;
                }
                let whole = if whole.starts_with('/') {
                    whole
                } else {
                    format!("/{whole}")
                };
                routes.push(NamedRoute {
                    function: name.to_owned(),
                    endpoint: Endpoint {
                        last_line: function.named.line,
                        ..route_endpoint(file, verb.line, methods.clone(), &whole, Some(name))
                    },
                });
            }
        }
        routes
    }
}

/// The annotations in the head of a definition. Comments there name none.
fn annotations_of<'f>(file: &'f SourceFile, symbol: &DetailedSymbol) -> Vec<Annotation<'f>> {
    let before = file.text.get(..symbol.named.name.start as usize).unwrap_or_default();
    let above = symbol.named.line.saturating_sub(symbol.first_line) as usize;
    let mut start = before.rmatch_indices('\n').nth(above).map_or(0, |(at, _)| at + 1);
    let mut annotations = Vec::new();
    for (line, text) in (symbol.first_line..).zip(before[start..].split_inclusive('\n')) {
        for found in ANNOTATION
            .captures_iter(text)
            .filter(|_| text.trim_start().starts_with(['@', '[', '#']))
        {
            let Some(name) = found.get(1) else { continue };
            let behind = file.text.get(start + name.end()..).unwrap_or_default();
            let inner = behind.starts_with('(').then(|| text_in_brackets(behind, '(')).flatten();
            annotations.push(Annotation {
                name: name.as_str(),
                given: inner.map_or_else(Vec::new, split_arguments),
                line,
            });
        }
        start += text.len();
    }
    annotations
}

/// The paths of an annotation; `None` if one of them is not a literal.
fn paths_of<'f>(one: &Annotation<'f>) -> Option<Vec<&'f str>> {
    let named = ["value", "path", "uri", "template"];
    let named = named.iter().find_map(|name| find_named_argument(&one.given, name));
    let first = one.given.first().copied();
    match named.or_else(|| first.filter(|first| !first.contains('=') || parse_string(first).is_some())) {
        Some(paths) => parse_string_list(paths),
        None => Some(Vec::new()),
    }
}
