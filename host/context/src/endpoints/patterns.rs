//! HTTP routes by the patterns of frameworks, with the prefixes of routers, blocks and other files around them.
//!
//! A match counts where the syntax tree has a use, so that comments and strings do not. A computed path is left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use regex::{Captures, Regex};
use tool_project::{BlockSpan, HandlerPlace, RoutePattern, RouteRules, route_rules};
use tool_repository::file_role::detect_language;

use super::literal::{parse_name_path, parse_string, split_arguments, text_in_brackets};
use super::{Endpoint, METHODS, SourceFile, route_endpoint};
use crate::SelectionTree;
use crate::symbols::{ParsedImport, SymbolForm};

/// Routers around a router, and files that pass a name on.
const DEPTH_MAX: usize = 8;
/// Matches of one pattern in one file, with those in comments and strings.
const MATCHES_MAX: usize = 1000;
/// The name of all routers of a file that nothing else mounts.
const EVERY_ROUTER: &str = "*";

/// A file of the framework, and a variable in it that collects routes; empty for those without a variable.
type RouterKey = (usize, String);

pub(super) fn find_routes(files: &[SourceFile], tree: &SelectionTree<'_>) -> Vec<Endpoint> {
    let of_framework = |rules: &'static RouteRules| {
        let is_of = |file: &&SourceFile| {
            rules.reads(&file.path)
                && (rules.markers.is_empty() || rules.markers.iter().any(|word| file.mentions(word)))
        };
        let own: Vec<&SourceFile> = files.iter().filter(is_of).collect();
        FrameworkRoutes::read(rules, own, tree).find_routes()
    };
    route_rules().flat_map(of_framework).collect()
}

/// Routes that files are by their path, in the packages that declare the framework.
pub(super) fn find_pages(tree: &SelectionTree<'_>, directory: &str) -> Vec<Endpoint> {
    let is_manifest = |at: &usize| {
        let path = tree.paths[*at];
        (path == "package.json" || path.ends_with("/package.json")) && !path.contains("node_modules/")
    };
    let mut pages = Vec::new();
    for at in tree.below(directory).filter(is_manifest).take(MATCHES_MAX) {
        let manifest = tree.paths[at];
        let package = manifest.strip_suffix("package.json").unwrap_or_default();
        let Some(text) = tree.text(manifest) else { continue };
        let declares =
            |name: &String| text.contains(&format!("\"{name}\":")) || text.contains(&format!("\"{name}\" :"));
        let rules = route_rules().flat_map(|rules| &rules.page);
        for page in rules.filter(|page| page.dependencies.iter().any(declares)) {
            for folder in &page.folders {
                let folder = format!("{package}{folder}");
                for at in tree.below(&folder).filter(|at| tree.sizes[*at] > 0) {
                    let path = tree.paths[at];
                    let below = path.strip_prefix(&folder).and_then(|rest| rest.strip_prefix('/'));
                    let Some(route) = below.and_then(|below| page.route(below)) else {
                        continue;
                    };
                    pages.extend(page_endpoints(path, &route, page.methods.as_deref(), tree));
                }
            }
        }
    }
    pages
}

/// A page, or the methods that its file exports.
fn page_endpoints(path: &str, route: &str, methods: Option<&Regex>, tree: &SelectionTree<'_>) -> Vec<Endpoint> {
    let endpoint = |line: u32, methods: String| Endpoint {
        path: path.to_owned(),
        line,
        last_line: line,
        methods,
        name: route.to_owned(),
        handler: None,
        help: None,
    };
    let found = methods.and_then(|methods| {
        let text = tree.text(path)?;
        let names = methods.captures_iter(&text).filter_map(|found| found.name("method"));
        let found: Vec<(u32, String)> = names
            .map(|name| (line_at(&text, name.start()), name.as_str().to_owned()))
            .collect();
        (!found.is_empty()).then_some(found)
    });
    match found {
        Some(found) => found.into_iter().map(|(line, method)| endpoint(line, method)).collect(),
        None => vec![endpoint(1, String::new())],
    }
}

/// A block with a path before the routes in it.
struct RouteScope {
    range: Range<usize>,
    path: String,
    above: usize,
    /// The variable that holds the routes of the block.
    router: Option<String>,
}

/// A variable that collects routes.
#[derive(Default)]
struct Router {
    path: String,
    parent: Option<String>,
    /// End of its definition.
    end: usize,
}

struct FrameworkFile<'f> {
    source: &'f SourceFile,
    scopes: Vec<RouteScope>,
    routers: BTreeMap<String, Router>,
}

struct FrameworkRoutes<'f> {
    rules: &'static RouteRules,
    files: Vec<FrameworkFile<'f>>,
    tree: &'f SelectionTree<'f>,
    by_path: HashMap<&'f str, usize>,
    /// The router and the path around a router. The first mount counts.
    mounts: HashMap<RouterKey, (RouterKey, String)>,
    /// Places of mounts that are known, which are no routes of their own.
    mounted: BTreeSet<(usize, usize)>,
    /// The path before all routes.
    before: String,
}

impl<'f> FrameworkRoutes<'f> {
    fn read(rules: &'static RouteRules, sources: Vec<&'f SourceFile>, tree: &'f SelectionTree<'f>) -> Self {
        let by_path = sources
            .iter()
            .enumerate()
            .map(|(at, file)| (file.path.as_str(), at))
            .collect();
        let mut before = BTreeSet::new();
        let mut files: Vec<FrameworkFile<'_>> = Vec::new();
        for source in sources {
            let mut file = FrameworkFile {
                source,
                scopes: Vec::new(),
                routers: BTreeMap::new(),
            };
            for pattern in &rules.router {
                for found in matches(pattern, source) {
                    let path = found.name("path").and_then(|path| parse_string(path.as_str()));
                    let Some(name) = found.name("name") else { continue };
                    let router = Router {
                        path: path.unwrap_or_default().to_owned(),
                        parent: found.name("router").map(|parent| parent.as_str().to_owned()),
                        end: found.get(0).map_or(0, |whole| whole.end()),
                    };
                    file.routers.entry(name.as_str().to_owned()).or_insert(router);
                }
            }
            for pattern in &rules.scope {
                for found in matches(pattern, source) {
                    let path = expand_path(pattern, &found).unwrap_or_default();
                    if pattern.span == BlockSpan::Project {
                        before.insert(path);
                        continue;
                    }
                    let range = match pattern.span {
                        BlockSpan::File => 0..source.text.len(),
                        _ => block_after(&source.text, &found),
                    };
                    let router = found.name("name").map(|name| name.as_str().to_owned());
                    if let Some(name) = &router {
                        file.routers.entry(name.clone()).or_default();
                    }
                    file.scopes.push(RouteScope {
                        range,
                        path,
                        above: pattern.above,
                        router,
                    });
                }
            }
            file.scopes
                .sort_by_key(|scope| (scope.range.start, std::cmp::Reverse(scope.range.end)));
            files.push(file);
        }
        // Several applications in one repository may each have their own.
        let before = before.pop_first().filter(|_| before.is_empty()).unwrap_or_default();
        let mut routes = Self {
            rules,
            files,
            tree,
            by_path,
            mounts: HashMap::new(),
            mounted: BTreeSet::new(),
            before,
        };
        routes.find_mounts();
        routes
    }

    fn find_mounts(&mut self) {
        let mut found_mounts = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            for pattern in &self.rules.mount {
                for found in matches(pattern, file.source) {
                    let (Some(whole), Some(target)) = (found.get(0), found.name("target")) else {
                        continue;
                    };
                    let Some(target) = self.find_target(at, target.as_str(), 0) else {
                        continue;
                    };
                    let Some(path) = found
                        .name("path")
                        .map_or(Some(String::new()), |path| self.value_of(at, path.as_str()))
                    else {
                        continue;
                    };
                    let router = match found.name("router") {
                        Some(router) => self.find_router(at, router.as_str()),
                        None => self
                            .surrounding_router(at, whole.start())
                            .unwrap_or_else(|| (at, self.chained_router(at, whole.start()))),
                    };
                    let outer = scoped_path(&file.scopes, whole.start());
                    found_mounts.push((target, router, join_url(&outer, &path), (at, whole.start())));
                }
            }
        }
        for (target, router, path, place) in found_mounts {
            self.mounted.insert(place);
            if target != router {
                self.mounts.entry(target).or_insert((router, path));
            }
        }
    }

    fn find_routes(&self) -> Vec<Endpoint> {
        let mut routes = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            let mut taken: BTreeSet<usize> = BTreeSet::new();
            for pattern in &self.rules.route {
                for found in matches(pattern, file.source) {
                    let Some(whole) = found.get(0) else { continue };
                    if self.mounted.contains(&(at, whole.start())) || taken.contains(&whole.start()) {
                        continue;
                    }
                    if let Some(route) = self.route(at, pattern, &found) {
                        taken.insert(whole.start());
                        routes.push(route);
                    }
                }
            }
        }
        routes
    }

    fn route(&self, at: usize, pattern: &RoutePattern, found: &Captures<'_>) -> Option<Endpoint> {
        let file = &self.files[at];
        let text = &file.source.text;
        let start = first_sign(text, found.get(0)?.start());
        let router = match found.name("router") {
            // The call counts only where its receiver is known to be a router.
            Some(router) => Some(self.known_router(at, router.as_str())?),
            None => None,
        };
        if pattern.is_inside && !file.scopes.iter().any(|scope| scope.range.contains(&start)) {
            return None;
        }
        let own = expand_path(pattern, found)?;
        let line = line_at(text, start);
        let (handler, last_line) = self.handler(at, pattern, found, line)?;
        let inner = join_url(&cut_segments(&scoped_path(&file.scopes, start), pattern.above), &own);
        let router = router.or_else(|| self.surrounding_router(at, start));
        let around = self.prefix(&router.unwrap_or((at, String::new())), 0);
        let name = join_url(&self.before, &join_url(&around, &inner));
        let name = if name.starts_with(['/', '*']) {
            name
        } else {
            format!("/{name}")
        };
        let methods = match (found.name("methods"), found.name("method")) {
            (Some(list), _) => listed_methods(list.as_str()),
            (None, Some(method)) => method_label(method.as_str().trim_matches(['"', '\''])),
            (None, None) => pattern.method.clone(),
        };
        Some(Endpoint {
            last_line,
            ..route_endpoint(file.source, line, methods, &name, handler.as_deref())
        })
    }

    /// The handler and the line of its name; `None` where the match turns out not to be a route.
    fn handler(
        &self,
        at: usize,
        pattern: &RoutePattern,
        found: &Captures<'_>,
        line: u32,
    ) -> Option<(Option<String>, u32)> {
        let source = self.files[at].source;
        let placed = |name: &str, start: usize| (Some(name.to_owned()), line_at(&source.text, start).max(line));
        if let Some(named) = found.name("handler") {
            let name = parse_string(named.as_str()).unwrap_or_else(|| named.as_str());
            return Some(placed(name, named.start()));
        }
        if pattern.handler == HandlerPlace::Decorated {
            let handler = source.decorated(line)?;
            let is_function = matches!(handler.form(), SymbolForm::Function | SymbolForm::Method);
            return is_function.then(|| placed(handler.name(&source.text), handler.named.name.start as usize));
        }
        if pattern.handler == HandlerPlace::Named {
            return Some((None, line));
        }
        let path = found.name("path")?;
        let open = source.text[..path.start()].rfind('(')?;
        let given = split_arguments(text_in_brackets(&source.text[open..], '(')?);
        let argument = match pattern.handler {
            HandlerPlace::Second => given.get(1)?,
            _ => given.get(1).and(given.last())?,
        };
        // A class precedes `.as_view()`, and included patterns are in the parentheses of `include`.
        let argument = argument.split_once(".as_view(").map_or(*argument, |(class, _)| class);
        let included = argument
            .strip_prefix("include(")
            .and_then(|rest| rest.strip_suffix(')'));
        let argument = included.unwrap_or(argument);
        let name = parse_string(argument).or_else(|| parse_name_path(argument));
        let name = name.filter(|name| !matches!(*name, "cls" | "self"));
        let start = argument.as_ptr() as usize - source.text.as_ptr() as usize;
        Some(name.map_or((None, line), |name| placed(name, start)))
    }

    /// The path before the routes of a router.
    fn prefix(&self, key: &RouterKey, depth: usize) -> String {
        if depth > DEPTH_MAX {
            return String::new();
        }
        let own = self.files[key.0].routers.get(&key.1);
        let mount = self.mounts.get(key);
        let mount = mount.or_else(|| self.mounts.get(&(key.0, EVERY_ROUTER.to_owned())));
        let outer = match (mount, own.and_then(|own| own.parent.as_ref())) {
            (Some((router, path)), _) => join_url(&self.prefix(router, depth + 1), path),
            (None, Some(parent)) => self.prefix(&self.find_router(key.0, parent), depth + 1),
            (None, None) => String::new(),
        };
        join_url(&outer, own.map_or("", |own| own.path.as_str()))
    }

    /// The router that a variable holds, if it is known.
    fn known_router(&self, at: usize, name: &str) -> Option<RouterKey> {
        let key = self.find_router(at, name);
        self.files[key.0].routers.contains_key(&key.1).then_some(key)
    }

    fn find_router(&self, at: usize, name: &str) -> RouterKey {
        let unknown = || (at, name.to_owned());
        self.find_target(at, name, 0)
            .filter(|(_, name)| name != EVERY_ROUTER)
            .unwrap_or_else(unknown)
    }

    /// The variable that holds the routes of the block around a place.
    fn surrounding_router(&self, at: usize, place: usize) -> Option<RouterKey> {
        let mut around = self.files[at].scopes.iter().rev();
        let holder = around.find(|scope| scope.router.is_some() && scope.range.contains(&place))?;
        Some((at, holder.router.clone()?))
    }

    /// The variable of the statement in which a call without a variable before it stands.
    fn chained_router(&self, at: usize, place: usize) -> String {
        let file = &self.files[at];
        let before = file.routers.iter().filter(|(_, router)| router.end <= place);
        let is_chained = |(_, router): &(&String, &Router)| {
            let between = &file.source.text[router.end..place];
            !between.contains(';') && !between.contains("\n\n")
        };
        let nearest = before.filter(is_chained).max_by_key(|(_, router)| router.end);
        nearest.map_or_else(String::new, |(name, _)| name.clone())
    }

    /// The routers that a name, a module or `require('./file')` stands for.
    fn find_target(&self, at: usize, target: &str, depth: usize) -> Option<RouterKey> {
        if depth > DEPTH_MAX {
            return None;
        }
        let every = |file: usize| (file, EVERY_ROUTER.to_owned());
        let source = self.files[at].source;
        if let Some(inner) = target.strip_prefix("require") {
            let module = parse_string(text_in_brackets(inner, '(')?)?;
            return self.file_of(source, &ParsedImport::Path(module)).map(every);
        }
        if let Some(module) = parse_string(target) {
            let file = self.tree.layout.resolver.module(module)?;
            return self.by_path.get(self.tree.paths[file as usize]).copied().map(every);
        }
        let (first, rest) = target.split_once('.').unwrap_or((target, ""));
        if self.files[at].routers.contains_key(first) {
            return Some((at, first.to_owned()));
        }
        let (file, name) = if detect_language(&source.path) == Some("Python") {
            let (file, name) = self.python_import(source, first)?;
            (
                file,
                name.unwrap_or_else(|| rest.rsplit('.').next().unwrap_or_default().to_owned()),
            )
        } else {
            (self.script_import(source, first)?, String::new())
        };
        if name.is_empty() || name == "urls" {
            return Some(every(file));
        }
        if file != at && !self.files[file].routers.contains_key(&name) {
            return self.find_target(file, &name, depth + 1).or(Some((file, name)));
        }
        Some((file, name))
    }

    fn file_of(&self, source: &SourceFile, import: &ParsedImport<'_>) -> Option<usize> {
        let found = self.tree.layout.resolver.resolve(&source.path, import);
        let path = self.tree.paths.get(*found.first()? as usize)?;
        self.by_path.get(path).copied()
    }

    /// The file from which Python imports a name, and the name there unless it is the module itself.
    fn python_import(&self, source: &SourceFile, name: &str) -> Option<(usize, Option<String>)> {
        let (level, module, original) = python_binding(&source.text, name)?;
        let import = |name| ParsedImport::Python { level, module, name };
        let resolved = |import| {
            self.tree
                .layout
                .resolver
                .resolve(&source.path, &import)
                .first()
                .copied()
        };
        let (inner, outer) = (resolved(import(Some(original))), resolved(import(None)));
        let file = self.file_of(source, &import(Some(original)))?;
        Some((file, (inner == outer).then(|| original.to_owned())))
    }

    /// The file from which JavaScript imports a name.
    fn script_import(&self, source: &SourceFile, name: &str) -> Option<usize> {
        let module = script_binding(&source.text, name)?;
        self.file_of(source, &ParsedImport::Path(module))
    }

    /// The value of a literal, or of a setting that the file imports.
    fn value_of(&self, at: usize, written: &str) -> Option<String> {
        if let Some(value) = parse_string(written) {
            return Some(value.to_owned());
        }
        let source = self.files[at].source;
        let (first, name) = written.split_once('.').unwrap_or((written, written));
        let name = name.rsplit('.').next()?;
        let assigned = Regex::new(&format!(
            r#"(?m)^\s*{}\b[^=\n]*=\s*("[^"\n]*"|'[^'\n]*')"#,
            regex::escape(name)
        ))
        .ok()?;
        let value_in = |text: &str| Some(parse_string(assigned.captures(text)?.get(1)?.as_str())?.to_owned());
        value_in(&source.text).or_else(|| {
            let (level, module, original) = python_binding(&source.text, first)?;
            let import = ParsedImport::Python {
                level,
                module,
                name: Some(original),
            };
            let found = self.tree.layout.resolver.resolve(&source.path, &import);
            value_in(&self.tree.text(self.tree.paths.get(*found.first()? as usize)?)?)
        })
    }
}

/// `from module import original as name`: the leading dots, the module and the original name.
fn python_binding<'t>(text: &'t str, name: &str) -> Option<(usize, &'t str, &'t str)> {
    let import = Regex::new(r"(?m)^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]+)").ok()?;
    import.captures_iter(text).find_map(|found| {
        let (dots, module) = (found.get(1)?, found.get(2)?);
        let names = found.get(3)?.as_str().trim_matches(['(', ')']);
        let original = names.split(',').find_map(|item| {
            let item = item.split('#').next()?.trim();
            let (original, bound) = item.split_once(" as ").unwrap_or((item, item));
            (bound.trim() == name).then(|| original.trim())
        })?;
        Some((dots.len(), module.as_str(), original))
    })
}

/// The module from which `import` or `require` takes a name.
fn script_binding<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let name = regex::escape(name);
    let import = Regex::new(&format!(
        r#"\bimport\s[^;'"]*?\b{name}\b[^;'"]*?\bfrom\s*['"]([^'"]+)['"]|\b{name}\b[^=;\n]*=\s*require\(\s*['"]([^'"]+)['"]"#
    ));
    let import = import.ok()?;
    let found = import.captures(text)?;
    Some(found.get(1).or_else(|| found.get(2))?.as_str())
}

/// The matches of a pattern outside of comments and strings.
fn matches<'p>(pattern: &'p RoutePattern, source: &'p SourceFile) -> impl Iterator<Item = Captures<'p>> {
    let of_file = pattern
        .reads(&source.path)
        .then(|| pattern.text.captures_iter(&source.text));
    let is_code = move |found: &Captures<'_>| {
        let whole = found.get(0).map_or(0..0, |whole| whole.range());
        let is_annotation = || {
            let line = line_at(&source.text, first_sign(&source.text, whole.start));
            source
                .decorated(line)
                .is_some_and(|symbol| symbol.first_line <= line && line < symbol.named.line)
        };
        pattern.span == BlockSpan::File || source.has_name_in(&whole) || is_annotation()
    };
    of_file.into_iter().flatten().take(MATCHES_MAX).filter(is_code)
}

/// The path of a match: `None` if it is computed.
fn expand_path(pattern: &RoutePattern, found: &Captures<'_>) -> Option<String> {
    let path = match found.name("path") {
        None => "",
        Some(path) if path.as_str().starts_with(':') => &path.as_str()[1..],
        Some(path) => parse_string(path.as_str())?,
    };
    let path = path.strip_prefix('^').unwrap_or(path);
    let path = path.strip_suffix('$').unwrap_or(path);
    let group = |name: &str| {
        found
            .name(name)
            .map(|group| group.as_str().trim_matches([':', '"', '\'']))
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    let one = match last.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => last.strip_suffix('s').unwrap_or(last).to_owned(),
    };
    let expanded = pattern.path.replace("{path}", path).replace("{one}", &one);
    Some(expanded.replace("{param}", group("param").unwrap_or("id")))
}

/// The path of the blocks around a place.
fn scoped_path(scopes: &[RouteScope], place: usize) -> String {
    let around = scopes.iter().filter(|scope| scope.range.contains(&place));
    around.fold(String::new(), |path, scope| {
        join_url(&cut_segments(&path, scope.above), &scope.path)
    })
}

fn cut_segments(path: &str, count: usize) -> String {
    let mut left = path;
    for _ in 0..count {
        left = left.rsplit_once('/').map_or("", |(before, _)| before);
    }
    left.to_owned()
}

fn join_url(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", inner) => inner.to_owned(),
        (outer, "") => outer.to_owned(),
        (outer, inner) => format!("{}/{}", outer.trim_end_matches('/'), inner.trim_start_matches('/')),
    }
}

/// The bytes behind a match up to the next line that is indented no deeper than its first line.
fn block_after(text: &str, found: &Captures<'_>) -> Range<usize> {
    let Some(whole) = found.get(0) else { return 0..0 };
    let first = first_sign(text, whole.start());
    let line_start = text[..first].rfind('\n').map_or(0, |at| at + 1);
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let own = indentation(&text[line_start..]).min(first - line_start);
    let mut end = text[whole.end()..]
        .find('\n')
        .map_or(text.len(), |at| whole.end() + at + 1);
    for line in text[end..].split_inclusive('\n') {
        let words = line.trim_start();
        if !words.is_empty() && !words.starts_with(['{', '#']) && indentation(line) <= own {
            break;
        }
        end += line.len();
    }
    whole.end()..end
}

/// Skips white space from a place on.
fn first_sign(text: &str, start: usize) -> usize {
    start + (text[start..].len() - text[start..].trim_start().len())
}

fn line_at(text: &str, place: usize) -> u32 {
    text[..place].matches('\n').count() as u32 + 1
}

fn method_label(written: &str) -> String {
    let lower = written.to_ascii_lowercase();
    match lower.as_str() {
        "all" | "any" => "any method".to_owned(),
        "websocket" => "WebSocket".to_owned(),
        method if METHODS.contains(&method) => method.to_uppercase(),
        _ => written.to_owned(),
    }
}

/// The methods in a list, or in a chain of calls: `.get(…).post(…)`.
fn listed_methods(list: &str) -> String {
    let is_chain = list.trim_start().starts_with('.');
    let mut methods = Vec::new();
    let mut before = ' ';
    for word in list.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let name = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        let behind = word[name.len()..].chars().next().unwrap_or(' ');
        let is_method =
            METHODS.contains(&name.to_ascii_lowercase().as_str()) && (!is_chain || before == '.' && behind == '(');
        if is_method && !methods.contains(&name.to_uppercase()) {
            methods.push(name.to_uppercase());
        }
        before = behind;
    }
    methods.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_stand_in_lists_and_chains() {
        for (list, expected) in [
            ("['GET', \"post\"]", "GET, POST"),
            ("[RequestMethod.PUT]", "PUT"),
            (".get((a) => 1)\n  .put(get(save))", "GET, PUT"),
            ("ALL_METHODS", ""),
        ] {
            assert_eq!(listed_methods(list), expected, "{list}");
        }
    }

    #[test]
    fn a_path_is_joined_and_cut_by_segments() {
        assert_eq!(join_url("/api/", "/users"), "/api/users");
        assert_eq!(join_url("/api", ""), "/api");
        assert_eq!(join_url("/items", "/"), "/items/");
        assert_eq!(cut_segments("/articles/:article_id", 1), "/articles");
    }

    #[test]
    fn a_name_is_found_in_the_import_that_binds_it() {
        let text = "from app.api import (\n    bp as api_bp,  # x\n    other,\n)\nfrom . import views\n";
        assert_eq!(python_binding(text, "api_bp"), Some((0, "app.api", "bp")));
        assert_eq!(python_binding(text, "views"), Some((1, "", "views")));
        let text = "import a, { b as c } from './b';\nconst users = require(\"./users\");\n";
        assert_eq!(script_binding(text, "c"), Some("./b"));
        assert_eq!(script_binding(text, "users"), Some("./users"));
        assert_eq!(script_binding(text, "none"), None);
    }
}
