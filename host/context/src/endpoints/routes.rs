//! HTTP routes of well-known frameworks.

use std::collections::BTreeSet;
use std::ops::Range;

use super::literal::{
    find_named_argument, parse_name_path, parse_string, parse_string_list, split_arguments, text_in_brackets,
};
use super::{Endpoint, FileVariables, NameReceiver, SourceFile, assigned_variable, shared_names};
use crate::symbols::{SymbolForm, SymbolUse, UseForm};
use tool_repository::file_role::detect_language;

const METHODS: [&str; 7] = ["get", "post", "put", "delete", "patch", "head", "options"];

pub(super) fn find_routes(files: &[SourceFile]) -> Vec<Endpoint> {
    let python: Vec<FileVariables<String>> = files.iter().map(python_variables).collect();
    let shared = shared_names(&python);
    let of_file = |(file, own): (&SourceFile, &FileVariables<String>)| match detect_language(&file.path) {
        Some("Python") => {
            let mut routes = python_routes(file, own, &shared);
            routes.extend(django_routes(file));
            routes
        }
        Some("JavaScript" | "TypeScript") => express_routes(file),
        Some("Go") => go_routes(file),
        Some("Ruby") => sinatra_routes(file),
        Some("Rust") => axum_routes(file),
        Some("Java" | "Kotlin") => spring_routes(file),
        _ => Vec::new(),
    };
    files.iter().zip(&python).flat_map(of_file).collect()
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

/// Apps, blueprints and routers of Flask and FastAPI, with their prefix.
fn python_variables(file: &SourceFile) -> FileVariables<String> {
    const CONSTRUCTORS: [&str; 4] = ["Flask", "Blueprint", "FastAPI", "APIRouter"];
    if detect_language(&file.path) != Some("Python") || !file.mentions("flask") && !file.mentions("fastapi") {
        return FileVariables::new();
    }
    let made = file.calls().filter(|(name, _)| CONSTRUCTORS.contains(name));
    let variable = |(_, one): (&str, &SymbolUse)| {
        let name = assigned_variable(file.line_before(one))?;
        let given = split_arguments(file.arguments(one)?);
        let prefix = find_named_argument(&given, "url_prefix").or_else(|| find_named_argument(&given, "prefix"));
        let prefix = prefix.map_or(Some(""), parse_string)?;
        Some((name.to_owned(), prefix.to_owned()))
    };
    made.filter_map(variable).collect()
}

fn python_routes(file: &SourceFile, own: &FileVariables<String>, shared: &BTreeSet<&str>) -> Vec<Endpoint> {
    let route = |(call, one): (&str, &SymbolUse)| {
        if call != "route" && call != "api_route" && call != "websocket" && !METHODS.contains(&call) {
            return None;
        }
        let receiver = NameReceiver::parse_before(file.before(one)).name()?;
        let is_known = own.contains_key(receiver) || shared.contains(receiver) && file.imports(receiver);
        if !is_known || !file.is_decorator(one) {
            return None;
        }
        let given = split_arguments(file.arguments(one)?);
        let own_path = parse_string(given.first()?)?;
        let name = format!("{}{own_path}", own.get(receiver).map_or("", String::as_str));
        if !name.starts_with('/') {
            return None;
        }
        let methods = match call {
            "route" | "api_route" => match find_named_argument(&given, "methods") {
                Some(list) => parse_string_list(list)?.join(", ").to_uppercase(),
                None => "GET".to_owned(),
            },
            "websocket" => "WebSocket".to_owned(),
            method => method.to_uppercase(),
        };
        let handler = file.decorated(one.line)?;
        Some(Endpoint {
            last_line: handler.named.line,
            ..route_endpoint(file, one.line, methods, &name, Some(handler.name(&file.text)))
        })
    };
    file.calls().filter_map(route).collect()
}

/// Patterns of a `urls.py`.
fn django_routes(file: &SourceFile) -> Vec<Endpoint> {
    if !file.mentions("urlpatterns") || !file.mentions("django") {
        return Vec::new();
    }
    let route = |(call, one): (&str, &SymbolUse)| {
        if !matches!(call, "path" | "re_path" | "url") || !file.imports(call) {
            return None;
        }
        if NameReceiver::parse_before(file.before(one)) != NameReceiver::None {
            return None;
        }
        let given = split_arguments(file.arguments(one)?);
        let (name, view) = (parse_string(given.first()?)?, given.get(1)?);
        // A class precedes `.as_view()`, and included patterns are in the parentheses of `include`.
        let view = view.split_once(".as_view(").map_or(*view, |(class, _)| class);
        let included = view
            .strip_prefix("include(")
            .and_then(|rest| parse_string(rest.strip_suffix(')')?));
        let handler = parse_name_path(view)
            .or(included)
            .filter(|view| !matches!(*view, "cls" | "self"));
        let last_line = one.line + lines_to(file, one, handler.unwrap_or_default());
        Some(Endpoint {
            last_line,
            ..route_endpoint(file, one.line, String::new(), name, handler)
        })
    };
    file.calls().filter_map(route).collect()
}

/// Lines from a name to the first occurrence of some words after it.
fn lines_to(file: &SourceFile, one: &SymbolUse, words: &str) -> u32 {
    let after = file.after(one);
    let end = after.find(words).unwrap_or_default();
    after[..end].matches('\n').count() as u32
}

fn express_routes(file: &SourceFile) -> Vec<Endpoint> {
    if !file.mentions("express") {
        return Vec::new();
    }
    let makes = |(name, one): &(&str, &SymbolUse)| match *name {
        "express" => NameReceiver::parse_before(file.before(one)) == NameReceiver::None,
        "Router" => matches!(
            NameReceiver::parse_before(file.before(one)),
            NameReceiver::None | NameReceiver::Name("express")
        ),
        _ => false,
    };
    let made = file.calls().filter(makes);
    let apps: BTreeSet<&str> = made
        .filter_map(|(_, one)| {
            let before = file.line_before(one);
            assigned_variable(before.strip_suffix("express.").unwrap_or(before))
        })
        .collect();
    let route = |(call, one): (&str, &SymbolUse)| {
        let receiver = NameReceiver::parse_before(file.before(one)).name()?;
        if !apps.contains(receiver) || call != "route" && call != "all" && !METHODS.contains(&call) {
            return None;
        }
        let inner = file.arguments(one)?;
        let given = split_arguments(inner);
        let name = parse_string(given.first()?).filter(|name| name.starts_with(['/', '*']))?;
        if call == "route" {
            let methods = chained_methods(file.after(one))?;
            return Some(route_endpoint(file, one.line, methods, name, None));
        }
        // `app.get('name')` reads a setting.
        let handler = given.get(1).and(given.last())?;
        let methods = if call == "all" { "any" } else { call };
        let last_line = one.line + lines_to(file, one, handler);
        Some(Endpoint {
            last_line: if parse_name_path(handler).is_some() {
                last_line
            } else {
                one.line
            },
            ..route_endpoint(file, one.line, upper_method(methods), name, parse_name_path(handler))
        })
    };
    file.calls().filter_map(route).collect()
}

fn upper_method(method: &str) -> String {
    match method {
        "any" | "Any" => "any method".to_owned(),
        method => method.to_uppercase(),
    }
}

/// The methods that follow `route('/a')`: `.get(…).post(…)`.
fn chained_methods(after: &str) -> Option<String> {
    let mut rest = skip_arguments(after)?;
    let mut methods = Vec::new();
    while let Some(chained) = rest.trim_start().strip_prefix('.') {
        let end = chained.find(|c: char| !c.is_alphanumeric()).unwrap_or(chained.len());
        let (name, behind) = chained.split_at(end);
        if METHODS.contains(&name) {
            methods.push(name.to_uppercase());
        }
        rest = skip_arguments(behind)?;
    }
    (!methods.is_empty()).then(|| methods.join(", "))
}

/// The text after the first parentheses.
fn skip_arguments(after: &str) -> Option<&str> {
    let inner = text_in_brackets(after, '(')?;
    let start = after.find('(')? + 1;
    after.get(start + inner.len() + 1..)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoRouter {
    Gin,
    Chi,
    Mux,
}

#[derive(Debug, Clone)]
struct GoVariable {
    router: GoRouter,
    prefix: String,
}

fn go_routes(file: &SourceFile) -> Vec<Endpoint> {
    let has = |module: &str| file.mentions(module);
    let gin = has("\"github.com/gin-gonic/gin\"");
    let chi = has("\"github.com/go-chi/chi");
    let mux = has("\"net/http\"") || has("\"github.com/gorilla/mux\"");
    let kind_of = |package: &str, name: &str| match (package, name) {
        ("gin", "Default" | "New" | "Engine" | "RouterGroup" | "IRouter" | "IRoutes") if gin => Some(GoRouter::Gin),
        ("chi", "NewRouter" | "NewMux" | "Router" | "Mux") if chi => Some(GoRouter::Chi),
        ("http", "NewServeMux" | "ServeMux") | ("mux", "NewRouter" | "Router") if mux => Some(GoRouter::Mux),
        _ => None,
    };
    let mut variables: FileVariables<GoVariable> = FileVariables::new();
    // Prefixes of `Route("/a", func(r chi.Router) {…})`, with the range of bytes to which they apply.
    let mut prefixes: Vec<(Range<usize>, String)> = Vec::new();
    let mut routes = Vec::new();
    for (name, one) in file.uses(&[UseForm::Call, UseForm::Type]) {
        let Some(owner) = NameReceiver::parse_before(file.before(one)).name() else {
            continue;
        };
        if let Some(router) = kind_of(owner, name) {
            if let Some(variable) = go_variable(file.line_before(one), owner) {
                let prefix = String::new();
                variables.insert(variable.to_owned(), GoVariable { router, prefix });
            }
            continue;
        }
        if one.form != UseForm::Call {
            continue;
        }
        let Some(inner) = file.arguments(one) else { continue };
        let given = split_arguments(inner);
        let known = variables.get(owner).cloned();
        let is_http = owner == "http" && has("\"net/http\"");
        let first = given.first().and_then(|first| parse_string(first));
        match (&known, name, first) {
            (Some(parent), "Group", Some(path)) if parent.router == GoRouter::Gin => {
                let line = file.line_before(one);
                let before = line.strip_suffix(&format!("{owner}.")).unwrap_or(line);
                if let Some(variable) = assigned_variable(before) {
                    let prefix = format!("{}{path}", parent.prefix);
                    variables.insert(
                        variable.to_owned(),
                        GoVariable {
                            prefix,
                            ..parent.clone()
                        },
                    );
                }
            }
            (Some(parent), "Route", Some(path)) if parent.router == GoRouter::Chi => {
                let start = one.name.end as usize;
                prefixes.push((start..start + inner.len(), path.to_owned()));
            }
            _ => {}
        }
        let router = match &known {
            Some(variable) => variable.router,
            None if is_http => GoRouter::Mux,
            None => continue,
        };
        let Some((methods, place)) = go_method(router, name, &given) else {
            continue;
        };
        let (Some(own_path), Some(handler)) = (given.get(place).and_then(|path| parse_string(path)), given.last())
        else {
            continue;
        };
        if given.len() < place + 2 {
            continue;
        }
        // `"GET /a"` of the standard library.
        let (methods, own_path) = match own_path.split_once(' ') {
            Some((method, path)) if router == GoRouter::Mux => (method.to_owned(), path.trim()),
            _ => (methods, own_path),
        };
        let methods = match (router, file.after(one).get(inner.len() + 2..)) {
            (GoRouter::Mux, Some(rest)) if methods.is_empty() => gorilla_methods(rest),
            _ => methods,
        };
        let at = one.name.start as usize;
        let around = prefixes.iter().filter(|(range, _)| range.contains(&at));
        let outer: String = around.map(|(_, prefix)| prefix.as_str()).collect();
        let prefix = known.map_or_else(String::new, |variable| variable.prefix);
        let whole = format!("{outer}{prefix}{own_path}");
        if whole.contains('/') {
            routes.push(route_endpoint(
                file,
                one.line,
                methods,
                &whole,
                parse_name_path(handler),
            ));
        }
    }
    routes
}

/// The variable of a router: one that is assigned, a parameter or a field with this type.
fn go_variable<'t>(line_before: &'t str, package: &str) -> Option<&'t str> {
    let before = line_before.strip_suffix('.')?.strip_suffix(package)?;
    if before.trim_end().ends_with('=') {
        return assigned_variable(before);
    }
    let before = before.trim_end_matches(['*', '&']);
    let trimmed = before.trim_end();
    let start = trimmed
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |at| at + 1);
    let name = &trimmed[start..];
    (trimmed.len() < before.len() && !name.is_empty() && name != "return").then_some(name)
}

/// The HTTP method of a router call, and the index of the path among its arguments.
fn go_method(router: GoRouter, call: &str, given: &[&str]) -> Option<(String, usize)> {
    let lower = call.to_ascii_lowercase();
    let is_method = METHODS.contains(&lower.as_str());
    let first = || {
        given
            .first()
            .and_then(|first| parse_string(first))
            .map(str::to_uppercase)
    };
    match (router, call) {
        (GoRouter::Gin, "Any") => Some((upper_method("any"), 0)),
        (GoRouter::Gin, "Handle") | (GoRouter::Chi, "Method" | "MethodFunc") => Some((first()?, 1)),
        (GoRouter::Gin, _) if is_method && call == call.to_uppercase() => Some((call.to_owned(), 0)),
        (GoRouter::Chi, _) if is_method && call != lower && call != call.to_uppercase() => {
            Some((lower.to_uppercase(), 0))
        }
        (GoRouter::Chi, "HandleFunc" | "Handle") => Some((upper_method("any"), 0)),
        (GoRouter::Mux, "HandleFunc" | "Handle") => Some((String::new(), 0)),
        _ => None,
    }
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

/// Routes in a class of Sinatra, or at the top level of a classic application.
fn sinatra_routes(file: &SourceFile) -> Vec<Endpoint> {
    let is_classic = file.text.lines().any(|line| {
        let line = line.trim_end();
        matches!(
            line,
            "require 'sinatra'" | "require \"sinatra\"" | "require 'sinatra/reloader'"
        )
    });
    let route = |(call, one): (&str, &SymbolUse)| {
        if !METHODS.contains(&call) || !file.line_before(one).trim().is_empty() {
            return None;
        }
        let around = file.around(one.line);
        let is_method = |form| matches!(form, SymbolForm::Function | SymbolForm::Method);
        if around.iter().any(|symbol| is_method(symbol.form())) {
            return None;
        }
        let is_app = around.iter().find(|symbol| symbol.form() == SymbolForm::Type).map_or(
            is_classic && around.is_empty(),
            |class| {
                let signature = class.signature(&file.text);
                let base = signature.split_once('<').map_or("", |(_, base)| base.trim());
                matches!(base, "Sinatra::Base" | "Sinatra::Application" | "::Sinatra::Base")
            },
        );
        let line = file.after(one).lines().next()?.trim();
        let quote = line.strip_prefix('(').unwrap_or(line);
        let (sign, rest) = (
            quote.chars().next().filter(|sign| matches!(sign, '"' | '\''))?,
            &quote[1..],
        );
        let (name, behind) = rest.split_once(sign)?;
        let has_block = behind.trim_end().ends_with(" do") || behind.contains(" do |") || behind.contains('{');
        let is_route = is_app && has_block && name.starts_with('/') && !name.contains("#{");
        is_route.then(|| route_endpoint(file, one.line, call.to_uppercase(), name, None))
    };
    file.calls().filter_map(route).collect()
}

fn axum_routes(file: &SourceFile) -> Vec<Endpoint> {
    if !file.mentions("axum") {
        return Vec::new();
    }
    let route = |(call, one): (&str, &SymbolUse)| {
        let is_method = file.before(one).trim_end().ends_with('.');
        if call != "route" || !is_method || file.is_in_tests(one.line) {
            return None;
        }
        let inner = file.arguments(one)?;
        let given = split_arguments(inner);
        let [first, answers] = <[&str; 2]>::try_from(given).ok()?;
        let name = parse_string(first).filter(|name| name.starts_with('/'))?;
        let answered = axum_methods(answers)?;
        let methods: Vec<&str> = answered.iter().map(|(method, _)| method.as_str()).collect();
        let handler = match &answered[..] {
            [(_, handler)] => *handler,
            _ => None,
        };
        let line = one.line + lines_to(file, one, first);
        Some(Endpoint {
            last_line: one.line + lines_to(file, one, handler.unwrap_or(first)),
            ..route_endpoint(file, line, methods.join(", "), name, handler)
        })
    };
    file.calls().filter_map(route).collect()
}

/// The methods of `get(list).post(create)` with their handlers; `None` for any other service.
fn axum_methods(answers: &str) -> Option<Vec<(String, Option<&str>)>> {
    let mut methods = Vec::new();
    let mut rest = answers.trim();
    loop {
        rest = rest.trim_start().trim_start_matches('.');
        let end = rest.find('(')?;
        let called = rest[..end].trim();
        let name = called.rsplit("::").next().unwrap_or(called);
        let name = name.strip_suffix("_service").unwrap_or(name);
        let inner = text_in_brackets(&rest[end..], '(')?;
        if METHODS.contains(&name) || name == "any" {
            methods.push((upper_method(name), parse_name_path(inner)));
        } else if methods.is_empty() {
            return None;
        }
        rest = rest.get(end + inner.len() + 2..)?.trim();
        if rest.is_empty() {
            return Some(methods);
        }
    }
}

/// Methods of controllers, with the path prefix of their class.
fn spring_routes(file: &SourceFile) -> Vec<Endpoint> {
    if !file.mentions("springframework") {
        return Vec::new();
    }
    let annotations: Vec<(&str, &SymbolUse)> = file
        .uses(&[UseForm::Type, UseForm::Call])
        .filter(|(_, one)| file.before(one).ends_with('@'))
        .collect();
    let on_class = |class: &crate::symbols::DetailedSymbol, names: &[&str]| {
        let head = class.first_line..=class.named.line;
        let found = annotations
            .iter()
            .find(|(name, one)| head.contains(&one.line) && names.contains(name));
        found.map(|(_, one)| *one)
    };
    let mut routes = Vec::new();
    for (name, one) in &annotations {
        let Some(method) = name.strip_suffix("Mapping") else {
            continue;
        };
        let Some(handler) = file
            .decorated(one.line)
            .filter(|symbol| matches!(symbol.form(), SymbolForm::Function | SymbolForm::Method))
        else {
            continue;
        };
        let around = file.around(handler.named.line);
        let Some(class) = around.into_iter().find(|symbol| symbol.form() == SymbolForm::Type) else {
            continue;
        };
        if on_class(class, &["Controller", "RestController"]).is_none() {
            continue;
        }
        let mut prefix = "";
        if let Some(mapping) = on_class(class, &["RequestMapping"]) {
            match spring_paths(file, mapping).as_deref() {
                Some([]) => {}
                Some([one]) => prefix = one,
                _ => continue,
            }
        }
        let given = split_arguments(file.arguments(one).unwrap_or_default());
        let methods = match method {
            "Get" | "Post" | "Put" | "Delete" | "Patch" => method.to_uppercase(),
            "Request" => {
                let methods = find_named_argument(&given, "method").unwrap_or_default();
                let words = methods.split(|c: char| !c.is_alphanumeric());
                let words = words.filter(|word| METHODS.contains(&word.to_ascii_lowercase().as_str()));
                words.collect::<Vec<_>>().join(", ")
            }
            _ => continue,
        };
        let Some(mut own) = spring_paths(file, one) else {
            continue;
        };
        if own.is_empty() {
            own.push("");
        }
        for own_path in own {
            let is_joined =
                prefix.ends_with('/') || own_path.starts_with('/') || own_path.is_empty() || prefix.is_empty();
            let between = if is_joined { "" } else { "/" };
            let whole = format!("{prefix}{between}{own_path}");
            if whole.is_empty() {
                continue;
            }
            let named = handler.name(&file.text);
            let last_line = handler.named.line;
            routes.push(Endpoint {
                last_line,
                ..route_endpoint(file, one.line, methods.clone(), &whole, Some(named))
            });
        }
    }
    routes
}

/// The paths of a mapping; `None` if one of them is not a literal.
fn spring_paths<'f>(file: &'f SourceFile, one: &SymbolUse) -> Option<Vec<&'f str>> {
    // The annotation has no arguments: the next parentheses belong to the method.
    if !file.after(one).starts_with('(') {
        return Some(Vec::new());
    }
    let given = split_arguments(file.arguments(one)?);
    let paths = find_named_argument(&given, "value").or_else(|| find_named_argument(&given, "path"));
    let first = || {
        given
            .first()
            .copied()
            .filter(|first| !first.contains('=') || first.starts_with('"'))
    };
    match paths.or_else(first) {
        Some(paths) => parse_string_list(paths),
        None => Some(Vec::new()),
    }
}
