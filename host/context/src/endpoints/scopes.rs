//! Routes of Phoenix: a macro for each, in blocks that add a path.

use super::literal::{parse_name_path, parse_string, split_arguments};
use super::{Endpoint, METHODS, SourceFile, route_endpoint};

/// A `scope "/api", Shop do` that is open, with the indentation at which it ends.
struct OpenScope {
    indentation: usize,
    prefix: String,
}

pub(super) fn phoenix_routes(file: &SourceFile) -> Vec<Endpoint> {
    let is_router = file.mentions(":router") || file.mentions("Phoenix.Router");
    if !file.path.ends_with(".ex") || !is_router {
        return Vec::new();
    }
    let mut scopes: Vec<OpenScope> = Vec::new();
    let mut routes = Vec::new();
    for (line, text) in (1..).zip(file.text.lines()) {
        let trimmed = text.trim();
        let indentation = text.len() - text.trim_start().len();
        if trimmed == "end" {
            scopes.retain(|scope| scope.indentation < indentation);
            continue;
        }
        let Some((macro_name, rest)) = trimmed.split_once([' ', '(']) else {
            continue;
        };
        let is_block = trimmed.ends_with(" do");
        let given = split_arguments(rest.trim_end_matches(" do").trim_end_matches(')'));
        let path = given.first().and_then(|first| parse_string(first));
        let before = scopes.last().map_or("", |scope| scope.prefix.as_str());
        let Some(whole) = path.map(|path| super::routers::join_route(before, path)) else {
            if macro_name == "scope" && is_block {
                let prefix = before.to_owned();
                scopes.push(OpenScope { indentation, prefix });
            }
            continue;
        };
        let methods = match macro_name {
            "scope" => String::new(),
            "resources" => "resources".to_owned(),
            "live" => "live".to_owned(),
            "forward" => String::new(),
            verb if METHODS.contains(&verb) => verb.to_uppercase(),
            _ => continue,
        };
        if macro_name != "scope" {
            let action = given.get(2).and_then(|action| action.strip_prefix(':'));
            let controller = given.get(1).and_then(|controller| parse_name_path(controller));
            let handler = controller.map(|controller| match action {
                Some(action) if macro_name != "live" => format!("{controller}.{action}"),
                _ => controller.to_owned(),
            });
            routes.push(route_endpoint(file, line, methods, &whole, handler.as_deref()));
        }
        if is_block {
            let owner = given.get(1).filter(|_| macro_name == "resources");
            let parameter = owner.map_or_else(String::new, |controller| format!("/:{}_id", resource_name(controller)));
            let prefix = format!("{whole}{parameter}");
            scopes.push(OpenScope { indentation, prefix });
        }
    }
    routes
}

/// `Shop.CartItemController` as `cart_item`.
fn resource_name(controller: &str) -> String {
    let name = controller.rsplit('.').next().unwrap_or(controller);
    let name = name.strip_suffix("Controller").unwrap_or(name);
    let mut words = String::new();
    for sign in name.chars() {
        if sign.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(sign.to_lowercase());
    }
    words
}
