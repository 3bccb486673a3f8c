//! Routes that are calls on a router: `v1.GET("/carts", list)`. The frameworks are data.
//!
//! A router begins with an empty path, a group adds to it, and a function that is given a router, or that returns one,
//! gets the path at the place where it is called, also from another file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::literal::{parse_name_path, parse_string, split_arguments, text_in_brackets};
use super::{
    Endpoint, METHODS, NameReceiver, SourceFile, assigned_variable, lines_to, route_endpoint, spell_method,
    upper_method,
};
use crate::symbols::{DetailedSymbol, SymbolForm, SymbolUse, UseForm};
use tool_repository::file_role::{detect_language, file_stem, parent_directory};

/// Calls that are followed from a route to the router that it hangs on.
const DEPTH_MAX: usize = 5;
/// Paths under which one route is mounted.
const PREFIXES_MAX: usize = 6;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouterFramework {
    language: String,
    imports: Vec<String>,
    #[serde(default)]
    routers: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    mounts: Vec<String>,
    #[serde(default)]
    verbs: String,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    unnamed: Vec<String>,
    #[serde(default)]
    by_argument: Vec<String>,
    #[serde(default)]
    by_handler: Vec<String>,
    #[serde(default)]
    is_open: bool,
    #[serde(default)]
    is_handler_first: bool,
}

static FRAMEWORKS: LazyLock<Vec<RouterFramework>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Table {
        framework: Vec<RouterFramework>,
    }
    let table: Table = toml::from_str(include_str!("routers.toml")).expect("the data of the program is valid");
    table.framework
});

/// Words that a file in a language holds if it declares routes on a router.
pub(super) fn imports_of(language: &str) -> impl Iterator<Item = &'static str> {
    let frameworks = FRAMEWORKS
        .iter()
        .filter(move |framework| framework.language == language);
    frameworks.flat_map(|framework| framework.imports.iter().map(String::as_str))
}

impl RouterFramework {
    fn covers(&self, file: &SourceFile) -> bool {
        detect_language(&file.path) == Some(self.language.as_str())
            && self.imports.iter().any(|import| file.mentions(import))
    }

    fn makes_router(&self, owner: &str, name: &str) -> bool {
        let is_named = |router: &String| match router.split_once('.') {
            Some((package, made)) => package == owner && made == name,
            None => router == name,
        };
        self.routers.iter().any(is_named)
    }

    /// The methods of a route call, and the index of the path among its arguments.
    fn method_of(&self, call: &str, given: &[&str]) -> Option<(String, usize)> {
        let is_in = |calls: &[String]| calls.iter().any(|known| known == call);
        if is_in(&self.any) {
            return Some((upper_method("any"), 0));
        }
        if is_in(&self.unnamed) || is_in(&self.by_handler) {
            return Some((String::new(), 0));
        }
        if is_in(&self.by_argument) {
            return Some((parse_string(given.first()?)?.to_uppercase(), 1));
        }
        let method = METHODS
            .iter()
            .find(|method| spell_method(&self.verbs, method) == call)?;
        Some((method.to_uppercase(), 0))
    }
}

/// Where the path of a router begins: in a function of a file, in a variable there if it has a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RouterOrigin {
    file: usize,
    function: String,
    variable: Option<String>,
}

/// A router at some place, with the path since its origin.
#[derive(Debug, Clone)]
struct RouterState {
    framework: &'static RouterFramework,
    origin: RouterOrigin,
    prefix: String,
    /// The variable to which the chain of calls is assigned.
    assigned: Option<String>,
}

/// A route whose path is known from its origin on.
struct FoundRoute {
    origin: RouterOrigin,
    endpoint: Endpoint,
}

/// A place that hands a router to a function, or puts a function's routes below a path.
struct RouterMount {
    callee: String,
    /// The package, module or variable before its name.
    owner: String,
    from: RouterOrigin,
    prefix: String,
}

/// A route, and the function by which it may be mounted.
pub(super) struct NamedRoute {
    pub(super) function: String,
    pub(super) endpoint: Endpoint,
}

/// What the files declare.
#[derive(Default)]
struct RouterTable {
    routes: Vec<FoundRoute>,
    mounts: Vec<RouterMount>,
    /// Files that declare routes in a function of this name.
    files: BTreeMap<String, BTreeSet<usize>>,
}

/// The routes of all files. Routes by annotation may be mounted by the name of their function.
pub(super) fn find_router_routes(files: &[SourceFile], annotated: Vec<NamedRoute>) -> Vec<Endpoint> {
    let covered = |file: &SourceFile| FRAMEWORKS.iter().any(|framework| framework.covers(file));
    let languages: BTreeSet<&str> = FRAMEWORKS.iter().map(|framework| framework.language.as_str()).collect();
    let makers = router_functions(files);
    let mut table = RouterTable::default();
    for (at, file) in files.iter().enumerate() {
        let is_language = detect_language(&file.path).is_some_and(|language| languages.contains(language));
        if is_language && (covered(file) || !makers.is_empty()) {
            RouterReader::new(at, file, &makers).read_into(&mut table);
        }
    }
    for route in annotated {
        let at = files
            .iter()
            .position(|file| file.path == route.endpoint.path)
            .unwrap_or_default();
        table.routes.push(FoundRoute {
            origin: RouterOrigin {
                file: at,
                function: route.function,
                variable: None,
            },
            endpoint: route.endpoint,
        });
    }
    for route in &table.routes {
        let origin = &route.origin;
        table
            .files
            .entry(origin.function.clone())
            .or_default()
            .insert(origin.file);
    }
    let mut endpoints = Vec::new();
    for route in &table.routes {
        for prefix in table.prefixes_of(&route.origin, files, 0) {
            let mut endpoint = route.endpoint.clone();
            endpoint.name = join_route(&prefix, &endpoint.name);
            // In Go the first part may be a host.
            if detect_language(&endpoint.path) != Some("Go") && !endpoint.name.starts_with('/') {
                endpoint.name.insert(0, '/');
            }
            if endpoint.name.contains('/') {
                endpoints.push(endpoint);
            }
        }
    }
    endpoints
}

/// Functions whose result is a router: `func New() *echo.Echo`, by the name of their folder and their own.
fn router_functions(files: &[SourceFile]) -> BTreeMap<(String, String), &'static RouterFramework> {
    let mut found = BTreeMap::new();
    for file in files {
        for framework in FRAMEWORKS.iter().filter(|one| one.language == "Go" && one.covers(file)) {
            for symbol in file
                .details
                .symbols
                .iter()
                .filter(|symbol| symbol.form() == SymbolForm::Function)
            {
                let signature = symbol.signature(&file.text);
                let result = signature.rsplit(')').next().unwrap_or_default();
                let result = result.trim().trim_start_matches('*').trim_end_matches(['{', ' ']);
                if result
                    .split_once('.')
                    .is_some_and(|(owner, name)| framework.makes_router(owner, name))
                {
                    let folder = parent_directory(&file.path).rsplit('/').next().unwrap_or_default();
                    found.insert((folder.to_owned(), symbol.name(&file.text).to_owned()), framework);
                }
            }
        }
    }
    found
}

pub(super) fn join_route(prefix: &str, path: &str) -> String {
    let prefix = prefix
        .strip_suffix('/')
        .filter(|_| path.starts_with('/'))
        .unwrap_or(prefix);
    let between = if prefix.is_empty() || path.is_empty() || path.starts_with('/') || prefix.ends_with('/') {
        ""
    } else {
        "/"
    };
    format!("{prefix}{between}{path}")
}

impl RouterTable {
    /// The paths before the routes of an origin.
    fn prefixes_of(&self, origin: &RouterOrigin, files: &[SourceFile], depth: usize) -> Vec<String> {
        let of_variable = |mount: &&RouterMount| {
            origin.variable.as_ref() == Some(&mount.callee)
                && (mount.from.file, &mount.from.function) == (origin.file, &origin.function)
        };
        let mut mounts: Vec<&RouterMount> = self.mounts.iter().filter(of_variable).collect();
        if mounts.is_empty() {
            let of_function =
                |mount: &&RouterMount| mount.callee == origin.function && self.is_meant(mount, origin, files);
            mounts = self.mounts.iter().filter(of_function).collect();
        }
        let mut prefixes: Vec<String> = Vec::new();
        for mount in mounts.iter().filter(|_| depth < DEPTH_MAX) {
            for before in self.prefixes_of(&mount.from, files, depth + 1) {
                let prefix = join_route(&before, &mount.prefix);
                if !prefixes.contains(&prefix) && prefixes.len() < PREFIXES_MAX {
                    prefixes.push(prefix);
                }
            }
        }
        if prefixes.is_empty() {
            vec![String::new()]
        } else {
            prefixes
        }
    }

    /// True if the function that a mount names is this one. Several files may have functions of the same name.
    fn is_meant(&self, mount: &RouterMount, origin: &RouterOrigin, files: &[SourceFile]) -> bool {
        let Some(known) = self.files.get(&origin.function) else {
            return true;
        };
        let is_owner = |file: usize| {
            let path = &files[file].path;
            file_stem(path) == mount.owner || parent_directory(path).rsplit('/').next() == Some(mount.owner.as_str())
        };
        if known.iter().any(|file| is_owner(*file)) {
            return is_owner(origin.file);
        }
        let folder = |file: usize| parent_directory(&files[file].path);
        known.len() == 1
            || mount.from.file == origin.file
            || mount.owner.is_empty() && folder(mount.from.file) == folder(origin.file)
    }
}

/// A variable, a parameter or a field that holds a router. A field belongs to no function.
struct RouterVariable {
    function: String,
    name: String,
    /// The bytes in which it has this value: a closure's parameter ends with the closure.
    scope: Range<usize>,
    state: RouterState,
}

/// Reads one file from its beginning to its end.
struct RouterReader<'f> {
    at: usize,
    file: &'f SourceFile,
    frameworks: Vec<&'static RouterFramework>,
    makers: &'f BTreeMap<(String, String), &'static RouterFramework>,
    /// The function around each line; `None` in a module of unit tests.
    functions: Vec<Option<&'f str>>,
    /// Variables that hold a router, in the order of the text.
    variables: Vec<RouterVariable>,
    /// Routers that a call results in, by the byte behind its arguments.
    results: BTreeMap<usize, RouterState>,
    /// The bytes of arguments that lie below a path.
    ranges: Vec<(Range<usize>, String)>,
}

impl<'f> RouterReader<'f> {
    fn new(at: usize, file: &'f SourceFile, makers: &'f BTreeMap<(String, String), &'static RouterFramework>) -> Self {
        Self {
            at,
            file,
            frameworks: FRAMEWORKS.iter().filter(|framework| framework.covers(file)).collect(),
            makers,
            functions: functions_by_line(file),
            variables: Vec::new(),
            results: BTreeMap::new(),
            ranges: Vec::new(),
        }
    }

    fn read_into(mut self, table: &mut RouterTable) {
        let file = self.file;
        for (name, one) in file.uses(&[UseForm::Call, UseForm::Type]) {
            let Some(function) = self.functions.get(one.line as usize).copied().flatten() else {
                continue;
            };
            let receiver = NameReceiver::parse_before(file.before(one));
            if let Some(framework) = self.made_by(receiver.name().unwrap_or_default(), name) {
                self.keep_router(framework, name, one, receiver, function);
            } else if one.form == UseForm::Call {
                self.read_call(name, one, receiver, function, table);
            }
        }
    }

    fn made_by(&self, owner: &str, name: &str) -> Option<&'static RouterFramework> {
        let known = self
            .frameworks
            .iter()
            .find(|framework| framework.makes_router(owner, name));
        known
            .copied()
            .or_else(|| self.makers.get(&(owner.to_owned(), name.to_owned())).copied())
    }

    /// A call that makes a router, or a parameter or a field that holds one.
    fn keep_router(
        &mut self,
        framework: &'static RouterFramework,
        name: &str,
        one: &SymbolUse,
        receiver: NameReceiver<'_>,
        function: &str,
    ) {
        let line = self.file.line_before(one);
        let line = line
            .strip_suffix("::")
            .or_else(|| line.strip_suffix('.'))
            .unwrap_or(line);
        let before = receiver
            .name()
            .and_then(|owner| line.strip_suffix(owner))
            .unwrap_or(line);
        let variable = variable_before(before)
            .filter(|variable| *variable != name)
            .map(str::to_owned);
        let inner = self.file.arguments(one).filter(|_| one.form == UseForm::Call);
        let path = inner.and_then(|inner| parse_string(split_arguments(inner).first()?));
        let state = RouterState {
            framework,
            origin: RouterOrigin {
                file: self.at,
                function: function.to_owned(),
                variable: variable.clone().filter(|_| one.form == UseForm::Call),
            },
            prefix: join_route(&self.prefix_at(one), path.unwrap_or_default()),
            assigned: variable.clone(),
        };
        if let Some(variable) = variable {
            let assigned = None;
            self.keep_variable(
                function,
                variable,
                one,
                RouterState {
                    assigned,
                    ..state.clone()
                },
            );
        }
        if let Some(inner) = inner {
            self.results.insert(end_of_call(self.file, one, inner), state);
        }
    }

    fn keep_variable(&mut self, function: &str, name: String, one: &SymbolUse, state: RouterState) {
        let scope = self.range_around(one).map_or(0..usize::MAX, |(range, _)| range.clone());
        let function = function.to_owned();
        self.variables.push(RouterVariable {
            function,
            name,
            scope,
            state,
        });
    }

    /// The innermost arguments around a place that lie below a path.
    fn range_around(&self, one: &SymbolUse) -> Option<&(Range<usize>, String)> {
        let at = one.name.start as usize;
        self.ranges.iter().rev().find(|(range, _)| range.contains(&at))
    }

    fn prefix_at(&self, one: &SymbolUse) -> String {
        self.range_around(one)
            .map_or_else(String::new, |(_, prefix)| prefix.clone())
    }

    fn read_call(
        &mut self,
        name: &str,
        one: &SymbolUse,
        receiver: NameReceiver<'_>,
        function: &str,
        table: &mut RouterTable,
    ) {
        let file = self.file;
        let Some(inner) = file.arguments(one) else { return };
        let given = split_arguments(inner);
        let end = end_of_call(file, one, inner);
        let state = self.state_of(name, one, receiver, function);
        let Some(state) = state else {
            self.mount_arguments(name, receiver.name().unwrap_or_default(), &given, function, one, table);
            return;
        };
        let framework = state.framework;
        let path = given.first().and_then(|first| parse_string(first));
        let mut result = state.clone();
        if framework.groups.iter().any(|group| group == name) {
            result.prefix = join_route(
                &state.prefix,
                path.filter(|_| name != "NewVersionedApi").unwrap_or_default(),
            );
            if state.assigned.is_none() {
                let line = file.line_before(one).trim_end_matches(['.', ' ']);
                let before = receiver
                    .name()
                    .and_then(|owner| line.strip_suffix(owner))
                    .unwrap_or(line);
                result.assigned = assigned_variable(before).map(str::to_owned);
            }
        } else if framework.mounts.iter().any(|mount| mount == name) {
            self.mount_below(one, inner, &given, &state, table);
        } else if let Some(found) = self.route_of(name, one, &given, &state, inner) {
            table.routes.push(found);
        } else {
            // An extension of the router's type, or a function that is given routers as well.
            let owner = receiver.name().unwrap_or_default();
            let callee = name.to_owned();
            if framework.is_open {
                let (from, prefix) = (state.origin.clone(), state.prefix.clone());
                table.mounts.push(RouterMount {
                    callee,
                    owner: owner.to_owned(),
                    from,
                    prefix,
                });
            }
        }
        if let Some(variable) = &result.assigned {
            let assigned = None;
            self.keep_variable(
                function,
                variable.clone(),
                one,
                RouterState {
                    assigned,
                    ..result.clone()
                },
            );
        }
        self.results.insert(end, result);
    }

    /// The router on which a call is made.
    fn state_of(&self, name: &str, one: &SymbolUse, receiver: NameReceiver<'_>, function: &str) -> Option<RouterState> {
        let known = match receiver {
            NameReceiver::Name(owner) => self.variable(function, owner, one),
            NameReceiver::Other => {
                let before = self
                    .file
                    .before(one)
                    .trim_end()
                    .trim_end_matches(['.', ':', '?'])
                    .trim_end();
                self.results.get(&before.len()).cloned()
            }
            NameReceiver::None => None,
        };
        let plain = || {
            let is_own = |framework: &&&'static RouterFramework| {
                let is_package = receiver
                    .name()
                    .is_some_and(|owner| framework.routers.iter().any(|made| made == owner));
                let is_route = framework.method_of(name, &["\"GET\"", "[]"]).is_some()
                    || framework.groups.iter().any(|group| group == name);
                is_package
                    || framework.is_open && receiver != NameReceiver::None && (is_route || name.starts_with("Map"))
            };
            let framework = *self.frameworks.iter().find(is_own)?;
            let (file, function, variable) = (self.at, function.to_owned(), None);
            Some(RouterState {
                framework,
                origin: RouterOrigin {
                    file,
                    function,
                    variable,
                },
                prefix: self.prefix_at(one),
                assigned: None,
            })
        };
        known.or_else(plain)
    }

    fn variable(&self, function: &str, name: &str, one: &SymbolUse) -> Option<RouterState> {
        let at = one.name.start as usize;
        let mut named = self
            .variables
            .iter()
            .rev()
            .filter(|known| known.name == name && known.scope.contains(&at));
        let own = named.clone().find(|known| known.function == function);
        // A field may be set in another function.
        own.or_else(|| named.next()).map(|known| known.state.clone())
    }

    /// The functions that get a router as an argument: `register(v1.Group("/users"))`.
    fn mount_arguments(
        &self,
        name: &str,
        owner: &str,
        given: &[&str],
        function: &str,
        one: &SymbolUse,
        table: &mut RouterTable,
    ) {
        for argument in given {
            let head_end = argument
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(argument.len());
            let (head, rest) = argument.split_at(head_end);
            let Some(mut state) = self
                .variable(function, head, one)
                .filter(|state| !state.framework.is_open)
            else {
                continue;
            };
            let group = rest.strip_prefix('.').filter(|rest| {
                let groups = &state.framework.groups;
                groups.iter().any(|group| {
                    rest.strip_prefix(group.as_str())
                        .is_some_and(|rest| rest.starts_with('('))
                })
            });
            match group {
                Some(group) => {
                    let at = group.find('(').unwrap_or_default();
                    let inner = text_in_brackets(&group[at..], '(').unwrap_or_default();
                    let path = split_arguments(inner).first().and_then(|first| parse_string(first));
                    state.prefix = join_route(&state.prefix, path.unwrap_or_default());
                }
                None if !rest.is_empty() => continue,
                None => {}
            }
            table.mounts.push(RouterMount {
                callee: name.to_owned(),
                owner: owner.to_owned(),
                from: state.origin,
                prefix: state.prefix,
            });
        }
    }

    /// The arguments of `nest("/a", …)`: a router that is made there, a variable, or a function that returns or
    /// configures one.
    fn mount_below(
        &mut self,
        one: &SymbolUse,
        inner: &str,
        given: &[&str],
        state: &RouterState,
        table: &mut RouterTable,
    ) {
        let start = one.name.end as usize;
        let path = given.first().and_then(|first| parse_string(first)).unwrap_or_default();
        let prefix = join_route(&state.prefix, path);
        self.ranges.push((start..start + inner.len() + 2, prefix.clone()));
        for argument in given {
            let listed = argument
                .strip_prefix("routes!")
                .and_then(|list| text_in_brackets(list, '['));
            for name in listed.map_or_else(|| vec![*argument], split_arguments) {
                let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.');
                let head = &name[..name.find(|c| !is_name(c)).unwrap_or(name.len())];
                let (owner, callee) = head.rsplit_once([':', '.']).unwrap_or(("", head));
                let owner = owner
                    .trim_end_matches(':')
                    .rsplit([':', '.'])
                    .next()
                    .unwrap_or_default();
                if !callee.is_empty() && self.made_by(owner, callee).is_none() {
                    let (from, prefix) = (state.origin.clone(), prefix.clone());
                    let (callee, owner) = (callee.to_owned(), owner.to_owned());
                    table.mounts.push(RouterMount {
                        callee,
                        owner,
                        from,
                        prefix,
                    });
                }
            }
        }
    }

    fn route_of(
        &self,
        name: &str,
        one: &SymbolUse,
        given: &[&str],
        state: &RouterState,
        inner: &str,
    ) -> Option<FoundRoute> {
        let file = self.file;
        let framework = state.framework;
        let (mut methods, place) = framework.method_of(name, given)?;
        let is_by_handler = framework.by_handler.iter().any(|known| known == name);
        let (own, answer) = if framework.language == "Rust" && given.len() == 1 {
            // A resource has its path already.
            ("", *given.first()?)
        } else {
            let behind = given.get(place + 1..)?;
            let answer = if framework.is_handler_first {
                behind.first()
            } else {
                behind.last()
            };
            (parse_string(given.get(place)?)?, *answer?)
        };
        let mut handler = parse_name_path(answer);
        if is_by_handler {
            let answered = methods_of_handler(answer)?;
            methods = answered
                .iter()
                .map(|(method, _)| method.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            handler = answered
                .first()
                .and_then(|(_, handler)| *handler)
                .filter(|_| answered.len() == 1);
        }
        // `"GET /a"` of the standard library.
        let (methods, own) = match own.split_once(' ') {
            Some((method, path)) if framework.unnamed.iter().any(|known| known == name) => {
                (method.to_owned(), path.trim())
            }
            _ => (methods, own),
        };
        let methods = match file.after(one).get(inner.len() + 2..) {
            Some(rest) if methods.is_empty() => gorilla_methods(rest),
            _ => methods,
        };
        let first = given.first()?;
        let line = one.line + lines_to(file, one, first);
        Some(FoundRoute {
            origin: state.origin.clone(),
            endpoint: Endpoint {
                last_line: (one.line + lines_to(file, one, handler.unwrap_or(first))).max(line),
                ..route_endpoint(file, line, methods, &join_route(&state.prefix, own), handler)
            },
        })
    }
}

/// The innermost function around each line, from 1; the empty name outside of functions.
fn functions_by_line(file: &SourceFile) -> Vec<Option<&str>> {
    let mut functions = vec![Some(""); file.text.lines().count() + 2];
    let mut mark = |symbol: &DetailedSymbol, name| {
        let (first, last) = (symbol.first_line as usize, symbol.named.end_line as usize);
        functions
            .iter_mut()
            .take(last + 1)
            .skip(first)
            .for_each(|line| *line = name);
    };
    let mut symbols: Vec<&DetailedSymbol> = file.details.symbols.iter().collect();
    symbols.sort_by_key(|symbol| std::cmp::Reverse(symbol.named.end_line - symbol.first_line));
    for symbol in symbols
        .iter()
        .filter(|symbol| matches!(symbol.form(), SymbolForm::Function | SymbolForm::Method))
    {
        mark(symbol, Some(symbol.name(&file.text)));
    }
    let is_tests = |symbol: &&&DetailedSymbol| {
        symbol.form() == SymbolForm::Module && matches!(symbol.name(&file.text), "test" | "tests")
    };
    symbols.iter().filter(is_tests).for_each(|symbol| mark(symbol, None));
    functions
}

/// The byte behind the arguments of a call.
fn end_of_call(file: &SourceFile, one: &SymbolUse, inner: &str) -> usize {
    let start = one.name.end as usize;
    let opening = file.after(one).find('(').unwrap_or_default();
    start + opening + inner.len() + 2
}

/// The variable that is assigned, or the parameter or field whose type follows.
fn variable_before(before: &str) -> Option<&str> {
    if before.trim_end().ends_with('=') {
        return assigned_variable(before);
    }
    let before = before
        .trim_end_matches(['*', '&', ':'])
        .trim_end_matches("mut ")
        .trim_end_matches(['&', ' ', ':']);
    let start = before
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |at| at + 1);
    let name = &before[start..];
    (!name.is_empty() && name != "return").then_some(name)
}

/// The methods of `HandleFunc(…).Methods("GET")` of gorilla.
fn gorilla_methods(rest: &str) -> String {
    let methods = rest
        .strip_prefix(".Methods")
        .and_then(|rest| text_in_brackets(rest, '('));
    let methods = methods.and_then(|inner| {
        split_arguments(inner)
            .into_iter()
            .map(parse_string)
            .collect::<Option<Vec<_>>>()
    });
    methods.unwrap_or_default().join(", ")
}

/// The methods of `get(list).post(create)` or `web::get().to(list)` with their handlers; `None` for any other service.
fn methods_of_handler(answers: &str) -> Option<Vec<(String, Option<&str>)>> {
    let mut methods: Vec<(String, Option<&str>)> = Vec::new();
    let mut rest = answers.trim();
    loop {
        rest = rest.trim_start().trim_start_matches('.');
        let end = rest.find('(')?;
        let called = rest[..end].trim();
        let name = called.rsplit("::").next().unwrap_or(called);
        let name = name.strip_suffix("_service").unwrap_or(name);
        let inner = text_in_brackets(&rest[end..], '(')?;
        match methods.last_mut() {
            Some((_, handler)) if name == "to" => *handler = parse_name_path(inner),
            _ if METHODS.contains(&name) || name == "any" => methods.push((upper_method(name), parse_name_path(inner))),
            None if name == "to" => methods.push((upper_method("any"), parse_name_path(inner))),
            None => return None,
            Some(_) => {}
        }
        rest = rest.get(end + inner.len() + 2..)?.trim();
        if rest.is_empty() {
            return Some(methods);
        }
    }
}
