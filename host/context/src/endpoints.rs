//! The HTTP routes and the commands that the sources declare, for well-known frameworks.
//!
//! Names of calls, annotations and types come from syntax trees, so comments and strings do not count; the arguments
//! are read from the text. An entry needs a receiver that is known to belong to the framework. Uncertain entries are
//! left out.

mod annotations;
mod commands;
mod literal;
mod patterns;
mod routers;
mod scopes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem::find;
use tokio_util::sync::CancellationToken;

use crate::symbols::{DetailedSymbol, SymbolForm, SymbolUse, SyntaxDetails, SyntaxParser, UseForm};
use crate::{ContextError, Indexes, SelectionTree, read_tree};
use tool_project::{RouteRules, route_rules};
use tool_repository::Repository;
use tool_repository::file_role::{Role, detect_language};

/// Files that are parsed.
const PARSED_MAX: usize = 400;
/// Files that are read.
const READ_MAX: usize = 6_000;
/// Entries of each kind. A reader looks at fewer.
const ENTRIES_MAX: usize = 200;
/// Time for all of it.
const TIME_MAX: Duration = Duration::from_secs(5);

const METHODS: [&str; 7] = ["get", "post", "put", "delete", "patch", "head", "options"];

/// The routes and commands of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// HTTP routes, in the order of paths and lines.
    pub routes: Vec<Endpoint>,
    /// Commands of the command line, in the same order.
    pub commands: Vec<Endpoint>,
}

/// One route or command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// File of the declaration.
    pub path: String,
    /// First line of the declaration.
    pub line: u32,
    /// Last line that names it.
    pub last_line: u32,
    /// HTTP methods, such as `GET, POST`; empty for a command, or if the source names none.
    pub methods: String,
    /// The route's path, or the command's name.
    pub name: String,
    /// The handler function, as written.
    pub handler: Option<String>,
    /// Words about it.
    pub help: Option<String>,
}

/// Finds the routes and commands below a directory; the empty path is the root. Blocks.
///
/// # Errors
///
/// If the repository cannot be listed, or `cancel` fires.
pub fn find_endpoints(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    directory: &str,
    cancel: &CancellationToken,
) -> Result<Endpoints, ContextError> {
    let mut endpoints = read_tree(repository, indexes, cancel, |tree, _| {
        let files = read_files(tree, indexes.parser(), directory);
        let mut routes = patterns::find_routes(&files, tree);
        routes.extend(patterns::find_pages(tree, directory));
        let annotated = annotations::find_annotated_routes(&files);
        routes.extend(routers::find_router_routes(&files, annotated));
        routes.extend(files.iter().flat_map(scopes::phoenix_routes));
        let commands = commands::find_commands(&files);
        Ok(Endpoints { routes, commands })
    })?;
    for entries in [&mut endpoints.routes, &mut endpoints.commands] {
        entries.sort();
        entries.dedup();
        entries.truncate(ENTRIES_MAX);
    }
    Ok(endpoints)
}

/// Words by language: a file that declares a command, or a route that no pattern finds, holds at least one of them.
fn endpoint_markers(path: &str) -> impl Iterator<Item = &'static str> {
    let language = detect_language(path).unwrap_or_default();
    let own: &[&str] = match language {
        "Python" => &["click", "typer", "argparse"],
        // A function that is given a group need not name the framework.
        "Go" => &["spf13/cobra", ".Group("],
        "Rust" => &["clap"],
        "Elixir" => &[":router", "Phoenix.Router"],
        _ => &[],
    };
    let of_routes = routers::imports_of(language).chain(annotations::imports_of(language));
    own.iter().copied().chain(of_routes)
}

/// True if some rule looks for routes in a file.
fn is_read(path: &str, text: &str) -> bool {
    let holds = |marker: &str| find(text.as_bytes(), marker.as_bytes()).is_some();
    let of_rules = |rules: &RouteRules| {
        rules.reads(path) && (rules.markers.is_empty() || rules.markers.iter().any(|marker| holds(marker)))
    };
    endpoint_markers(path).any(holds) || route_rules().any(of_rules)
}

/// The sources that mention a framework, by their syntax trees.
fn read_files(tree: &SelectionTree<'_>, parser: &dyn SyntaxParser, directory: &str) -> Vec<SourceFile> {
    // If the whole repository is an example, the example is the product.
    let has_sources = tree.below(directory).any(|at| tree.layout.sources[at]);
    let is_source = |at: &usize| {
        let is_example = tree.layout.roles[*at] == Role::Example && tree.layout.written[*at];
        tree.layout.sources[*at] || !has_sources && is_example
    };
    let sources: Vec<usize> = tree
        .below(directory)
        .filter(is_source)
        .filter(|at| parser.reads(tree.paths[*at]))
        .filter(|at| {
            let path = tree.paths[*at];
            endpoint_markers(path).next().is_some() || route_rules().any(|rules| rules.reads(path))
        })
        .filter(|at| tree.sizes[*at] <= crate::limits::RANKED_FILE_BYTES_MAX)
        .take(READ_MAX)
        .collect();
    let (since, parsed) = (Instant::now(), AtomicUsize::new(0));
    let files = tree.each(&sources, |at| {
        let path = tree.paths[at];
        if since.elapsed() > TIME_MAX || parsed.load(Ordering::Relaxed) >= PARSED_MAX {
            return None;
        }
        let text = tree.text(path)?;
        if !is_read(path, &text) {
            return None;
        }
        parsed.fetch_add(1, Ordering::Relaxed);
        let details = parser.details(path, &text, None)?;
        Some(SourceFile::new(path, text, details))
    });
    files.into_iter().flatten().collect()
}

fn route_endpoint(file: &SourceFile, line: u32, methods: String, name: &str, handler: Option<&str>) -> Endpoint {
    Endpoint {
        path: file.path.clone(),
        line,
        last_line: line,
        methods,
        name: name.to_owned(),
        handler: handler.map(str::to_owned),
        help: None,
    }
}

/// Lines from a name to the first occurrence of some words after it.
fn lines_to(file: &SourceFile, one: &SymbolUse, words: &str) -> u32 {
    let after = file.after(one);
    let end = after.find(words).unwrap_or_default();
    after[..end].matches('\n').count() as u32
}

/// A method in the spelling in which `like_get` is GET: `GET`, `get`, or a part such as `HttpGet`.
fn spell_method(like_get: &str, method: &str) -> String {
    match like_get {
        "GET" => method.to_uppercase(),
        "get" => method.to_owned(),
        _ => {
            let (first, rest) = method.split_at(1);
            like_get.replace("Get", &format!("{}{rest}", first.to_uppercase()))
        }
    }
}

fn upper_method(method: &str) -> String {
    match method {
        "any" | "Any" => "any method".to_owned(),
        method => method.to_uppercase(),
    }
}

/// A source with its syntax tree.
struct SourceFile {
    path: String,
    text: String,
    details: SyntaxDetails,
    /// Where names begin that the file uses or defines, sorted.
    names: Vec<usize>,
}

impl SourceFile {
    fn new(path: &str, text: String, details: SyntaxDetails) -> Self {
        let used = details.uses.iter().map(|one| one.name.start as usize);
        let defined = details.symbols.iter().map(|symbol| symbol.named.name.start as usize);
        let mut names: Vec<usize> = used.chain(defined).collect();
        names.sort_unstable();
        let path = path.to_owned();
        Self {
            path,
            text,
            details,
            names,
        }
    }

    /// True if a name begins in these bytes.
    fn has_name_in(&self, bytes: &Range<usize>) -> bool {
        let next = self.names.partition_point(|name| *name < bytes.start);
        self.names.get(next).is_some_and(|name| *name < bytes.end)
    }

    fn mentions(&self, word: &str) -> bool {
        find(self.text.as_bytes(), word.as_bytes()).is_some()
    }

    fn name(&self, one: &SymbolUse) -> &str {
        self.text
            .get(one.name.start as usize..one.name.end as usize)
            .unwrap_or_default()
    }

    /// Uses of some kind, with their names, in the order of the text.
    fn uses(&self, forms: &'static [UseForm]) -> impl Iterator<Item = (&str, &SymbolUse)> {
        let uses = self.details.uses.iter().filter(|one| forms.contains(&one.form));
        uses.map(|one| (self.name(one), one))
    }

    fn calls(&self) -> impl Iterator<Item = (&str, &SymbolUse)> {
        self.uses(&[UseForm::Call])
    }

    fn imports(&self, name: &str) -> bool {
        self.uses(&[UseForm::Import]).any(|(imported, _)| imported == name)
    }

    fn before(&self, one: &SymbolUse) -> &str {
        self.text.get(..one.name.start as usize).unwrap_or_default()
    }

    fn after(&self, one: &SymbolUse) -> &str {
        self.text.get(one.name.end as usize..).unwrap_or_default()
    }

    /// The arguments in the parentheses behind a name.
    fn arguments(&self, one: &SymbolUse) -> Option<&str> {
        literal::text_in_brackets(self.after(one), '(')
    }

    /// The text of the line up to a name.
    fn line_before(&self, one: &SymbolUse) -> &str {
        self.before(one).rsplit('\n').next().unwrap_or_default()
    }

    fn is_decorator(&self, one: &SymbolUse) -> bool {
        self.line_before(one).trim_start().starts_with('@')
    }

    /// The lines from one to another, from 1, inclusive.
    fn lines(&self, first: u32, last: u32) -> impl Iterator<Item = &str> {
        let skipped = (first as usize).saturating_sub(1);
        let count = (last as usize).saturating_sub(skipped);
        self.text.lines().skip(skipped).take(count)
    }

    /// The definition to which a decorator or an annotation in a line belongs.
    fn decorated(&self, line: u32) -> Option<&DetailedSymbol> {
        let symbols = self.details.symbols.iter();
        let heads = symbols.filter(|symbol| (symbol.first_line..=symbol.named.line).contains(&line));
        let heads = heads.filter(|symbol| symbol.form() != SymbolForm::Value);
        heads.min_by_key(|symbol| symbol.named.line - symbol.first_line)
    }

    /// The definitions around a line, innermost first.
    fn around(&self, line: u32) -> Vec<&DetailedSymbol> {
        let symbols = self.details.symbols.iter();
        let mut around: Vec<_> = symbols
            .filter(|symbol| (symbol.first_line..=symbol.named.end_line).contains(&line))
            .collect();
        around.sort_by_key(|symbol| symbol.named.end_line - symbol.first_line);
        around
    }

    /// True in a module of unit tests (Rust).
    fn is_in_tests(&self, line: u32) -> bool {
        let mut around = self.around(line).into_iter();
        around.any(|symbol| symbol.form() == SymbolForm::Module && matches!(symbol.name(&self.text), "test" | "tests"))
    }
}

/// The receiver before a called name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameReceiver<'t> {
    None,
    /// The name before the dot.
    Name(&'t str),
    Other,
}

impl<'t> NameReceiver<'t> {
    fn parse_before(before: &'t str) -> Self {
        let trimmed = before.trim_end();
        let Some(owner) = trimmed.strip_suffix("::").or_else(|| trimmed.strip_suffix('.')) else {
            return Self::None;
        };
        let rest = owner.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
        match &owner[rest.len()..] {
            "" => Self::Other,
            name => Self::Name(name),
        }
    }

    fn name(self) -> Option<&'t str> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// The variable to which a call is assigned. `line_before` is the line up to the called name.
fn assigned_variable(line_before: &str) -> Option<&str> {
    let (target, _) = line_before.rsplit_once('=')?;
    let mut target = target.trim_end_matches(':').trim();
    for word in ["export ", "const ", "let ", "var ", "final "] {
        target = target.strip_prefix(word).unwrap_or(target).trim_start();
    }
    // `app: Flask`
    let name = target.split([':', ',']).next()?.trim();
    let name = name.rsplit('.').next()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then_some(name)
}

/// Variables of one file by name, each with the prefix of its routes or commands.
type FileVariables<T> = BTreeMap<String, T>;

/// The names that some files assign, for the files that import them.
fn shared_names<T>(variables: &[FileVariables<T>]) -> BTreeSet<&str> {
    variables
        .iter()
        .flat_map(|own| own.keys().map(String::as_str))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_read_from_its_assignment() {
        for (text, expected) in [
            ("app = ", Some("app")),
            ("const app: Express = ", Some("app")),
            ("app: FastAPI = fastapi.", Some("app")),
            ("\tr := chi.", Some("r")),
            ("self.app = ", Some("app")),
            ("return ", None),
            ("x[0] = ", None),
        ] {
            assert_eq!(assigned_variable(text), expected, "{text}");
        }
        assert_eq!(NameReceiver::parse_before("  app."), NameReceiver::Name("app"));
        assert_eq!(NameReceiver::parse_before("f()."), NameReceiver::Other);
        assert_eq!(NameReceiver::parse_before("return "), NameReceiver::None);
    }
}
