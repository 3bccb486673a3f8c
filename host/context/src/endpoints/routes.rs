//! HTTP routes of well-known frameworks.

use std::collections::BTreeSet;

use super::literal::{
    find_named_argument, parse_name_path, parse_string, parse_string_list, split_arguments, text_in_brackets,
};
use super::{Endpoint, FileVariables, NameReceiver, SourceFile, assigned_variable, shared_names};
use crate::symbols::{SymbolForm, SymbolUse};
use tool_repository::file_role::detect_language;

pub(super) const METHODS: [&str; 7] = ["get", "post", "put", "delete", "patch", "head", "options"];

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
        Some("Ruby") => sinatra_routes(file),
        _ => Vec::new(),
    };
    files.iter().zip(&python).flat_map(of_file).collect()
}

pub(super) fn route_endpoint(
    file: &SourceFile,
    line: u32,
    methods: String,
    name: &str,
    handler: Option<&str>,
) -> Endpoint {
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
pub(super) fn lines_to(file: &SourceFile, one: &SymbolUse, words: &str) -> u32 {
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

pub(super) fn upper_method(method: &str) -> String {
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
