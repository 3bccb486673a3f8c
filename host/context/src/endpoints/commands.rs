//! Commands of a command line, for well-known libraries.

use std::collections::{BTreeMap, BTreeSet};

use super::literal::{find_named_argument, parse_string, split_arguments, text_in_brackets};
use super::{Endpoint, FileVariables, NameReceiver, SourceFile, assigned_variable, shared_names};
use crate::symbols::{SymbolForm, SymbolUse, UseForm};
use tool_repository::file_role::detect_language;

/// Longest words about a command.
const HELP_BYTES_MAX: usize = 160;

pub(super) fn find_commands(files: &[SourceFile]) -> Vec<Endpoint> {
    let groups: Vec<FileVariables<String>> = files.iter().map(click_groups).collect();
    let shared = shared_names(&groups);
    let of_file = |(file, own): (&SourceFile, &FileVariables<String>)| match detect_language(&file.path) {
        Some("Python") => {
            let mut commands = click_commands(file, own, &shared);
            commands.extend(argparse_commands(file));
            commands
        }
        Some("Rust") => clap_commands(file),
        Some("Go") => cobra_commands(file),
        _ => Vec::new(),
    };
    files.iter().zip(&groups).flat_map(of_file).collect()
}

fn command_endpoint(file: &SourceFile, line: u32, name: &str, help: Option<&str>) -> Endpoint {
    let help = help
        .map(str::trim)
        .filter(|help| !help.is_empty() && help.len() <= HELP_BYTES_MAX);
    Endpoint {
        path: file.path.clone(),
        line,
        last_line: line,
        methods: String::new(),
        name: name.to_owned(),
        handler: None,
        help: help.map(|help| help.trim_end_matches('.').to_owned()),
    }
}

/// True for a word that can be typed as a command.
fn is_command(name: &str) -> bool {
    let is_sign = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    name.starts_with(|c: char| c.is_alphanumeric()) && name.chars().all(is_sign)
}

/// Variants of the enums that derive `Subcommand` or `Parser`.
fn clap_commands(file: &SourceFile) -> Vec<Endpoint> {
    if !file.mentions("clap") {
        return Vec::new();
    }
    let mut commands = Vec::new();
    let symbols = &file.details.symbols;
    for outer in symbols.iter().filter(|symbol| symbol.form() == SymbolForm::Type) {
        let head: Vec<&str> = file.lines(outer.first_line, outer.named.line).collect();
        let head = head.join("\n");
        let derives = head.split("derive(").skip(1).filter_map(|rest| rest.split(')').next());
        let is_subcommand = derives.flat_map(|list| list.split(',')).any(|one| {
            let one = one.trim();
            matches!(one.rsplit("::").next(), Some("Subcommand" | "Parser"))
        });
        let is_enum = file
            .lines(outer.named.line, outer.named.line)
            .any(|line| line.contains("enum "));
        if !is_subcommand || !is_enum || file.is_in_tests(outer.named.line) {
            continue;
        }
        let Some(case) = clap_case(&head) else { continue };
        let name_of_outer = outer.name(&file.text);
        let variants = symbols.iter().filter(|symbol| {
            let is_inside = (outer.named.line..=outer.named.end_line).contains(&symbol.named.line);
            let is_variant = symbol.name(&file.text).starts_with(char::is_uppercase);
            symbol.form() == SymbolForm::Value
                && is_inside
                && is_variant
                && symbol.container(&file.text).ends_with(name_of_outer)
        });
        for variant in variants {
            let attributes: Vec<&str> = file
                .lines(variant.first_line, variant.named.line)
                .filter(|line| line.trim_start().starts_with("#["))
                .collect();
            let attributes = attributes.join("\n");
            if ["hide", "skip", "flatten", "external_subcommand"]
                .iter()
                .any(|word| attributes.contains(word))
            {
                continue;
            }
            let given = attributes.split_once("name").and_then(|(_, rest)| {
                let value = rest.trim_start().strip_prefix('=')?.trim_start();
                value.strip_prefix('"')?.split('"').next()
            });
            if given.is_none() && attributes.contains("name") {
                continue;
            }
            let name = given.map_or_else(|| case(variant.name(&file.text)), str::to_owned);
            // The comment may precede the attributes, or be between them.
            let first = variant.comment_line.unwrap_or(variant.first_line);
            let help = first_sentence(file.lines(first, variant.named.line));
            commands.push(Endpoint {
                handler: Some(variant.name(&file.text).to_owned()),
                ..command_endpoint(file, variant.named.line, &name, help.as_deref())
            });
        }
    }
    commands
}

/// The first sentence of a documentation comment.
fn first_sentence<'l>(lines: impl Iterator<Item = &'l str>) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    for line in lines {
        match line.trim().strip_prefix("///").map(str::trim) {
            Some("") | None if !words.is_empty() => break,
            Some(text) => words.push(text),
            None => {}
        }
    }
    let text = words.join(" ");
    let first = text.split_once(". ").map_or(text.as_str(), |(first, _)| first);
    (!first.is_empty()).then(|| first.to_owned())
}

/// The rule that turns names of variants into commands; `None` if the rule is unknown.
fn clap_case(head: &str) -> Option<fn(&str) -> String> {
    let Some((_, rest)) = head.split_once("rename_all") else {
        return Some(|name| split_capitals(name).join("-"));
    };
    let case = rest.split('"').nth(1)?;
    match case {
        "kebab-case" | "kebab" => Some(|name| split_capitals(name).join("-")),
        "snake_case" | "snake" => Some(|name| split_capitals(name).join("_")),
        "lower" | "lowercase" => Some(str::to_lowercase),
        "verbatim" => Some(str::to_owned),
        _ => None,
    }
}

/// The words of a name in capitals, in lower case.
fn split_capitals(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let signs: Vec<char> = name.chars().collect();
    for (at, sign) in signs.iter().enumerate() {
        let after_lower = at > 0 && !signs[at - 1].is_uppercase();
        let before_lower = signs.get(at + 1).is_some_and(|next| next.is_lowercase());
        if words.is_empty() || sign.is_uppercase() && (after_lower || before_lower) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(sign.to_lowercase());
        }
    }
    words
}

/// Literals of `cobra.Command`.
fn cobra_commands(file: &SourceFile) -> Vec<Endpoint> {
    let literal = |(name, one): (&str, &SymbolUse)| {
        if name != "Command" || NameReceiver::parse_before(file.before(one)) != NameReceiver::Name("cobra") {
            return None;
        }
        let fields = split_arguments(text_in_brackets(file.after(one), '{')?);
        // A comment may precede a field.
        let fields: Vec<&str> = fields.into_iter().map(without_comments).collect();
        if find_named_argument(&fields, "Hidden").is_some_and(|value| value != "false")
            || find_named_argument(&fields, "Deprecated").is_some()
        {
            return None;
        }
        let used = find_named_argument(&fields, "Use").and_then(parse_string)?;
        let name = used.split_whitespace().next().filter(|name| is_command(name))?;
        let help = find_named_argument(&fields, "Short").and_then(parse_string);
        let after = file.after(one);
        let line = one.line + after[..after.find("Use")?].matches('\n').count() as u32;
        Some(command_endpoint(file, line, name, help))
    };
    file.uses(&[UseForm::Type]).filter_map(literal).collect()
}

fn without_comments(field: &str) -> &str {
    let mut rest = field.trim_start();
    while rest.starts_with("//") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
    }
    rest
}

/// Functions that are groups of click, and applications of Typer, each with the prefix of its commands.
fn click_groups(file: &SourceFile) -> FileVariables<String> {
    if detect_language(&file.path) != Some("Python") || !mentions_click(file) {
        return FileVariables::new();
    }
    let mut groups = FileVariables::new();
    for (call, one) in file.uses(&[UseForm::Call, UseForm::Name]) {
        if call == "Typer" {
            let variable = assigned_variable(file.line_before(one));
            groups.extend(variable.map(|name| (name.to_owned(), String::new())));
        }
        if call != "group" || !file.is_decorator(one) {
            continue;
        }
        let (Some(symbol), Some(receiver)) = (
            file.decorated(one.line),
            NameReceiver::parse_before(file.before(one)).name(),
        ) else {
            continue;
        };
        let function = symbol.name(&file.text);
        let outer = groups.get(receiver).cloned();
        let Some(name) = click_name(file, one, function) else {
            continue;
        };
        let prefix = match outer {
            Some(outer) => format!("{outer}{name} "),
            None if receiver == "cli" && mentions_flask(file) => format!("{name} "),
            // A top-level group is the program itself, unless it has a name.
            None if receiver == "click" => String::new(),
            None => continue,
        };
        groups.insert(function.to_owned(), prefix);
    }
    groups
}

fn mentions_click(file: &SourceFile) -> bool {
    ["click", "typer", "flask"].iter().any(|word| file.mentions(word))
}

fn mentions_flask(file: &SourceFile) -> bool {
    file.mentions("flask") || file.mentions(".cli.group")
}

/// The name of a decorated command: the given one, else that of its function.
fn click_name(file: &SourceFile, one: &SymbolUse, function: &str) -> Option<String> {
    let given = split_arguments(file.arguments(one).unwrap_or_default());
    let first = given.first().filter(|first| parse_string(first).is_some());
    if let Some(name) = first.copied().or_else(|| find_named_argument(&given, "name")) {
        return parse_string(name).filter(|name| is_command(name)).map(str::to_owned);
    }
    // Newer releases of click remove these suffixes, older ones do not.
    let has_end = ["_command", "_cmd", "_group", "_grp"]
        .iter()
        .any(|end| function.ends_with(end));
    (!has_end).then(|| function.trim_matches('_').to_lowercase().replace('_', "-"))
}

fn click_commands(file: &SourceFile, own: &FileVariables<String>, shared: &BTreeSet<&str>) -> Vec<Endpoint> {
    if !mentions_click(file) {
        return Vec::new();
    }
    let found = |(call, one): (&str, &SymbolUse)| {
        if !matches!(call, "command" | "group") || !file.is_decorator(one) {
            return None;
        }
        let receiver = NameReceiver::parse_before(file.before(one)).name()?;
        let symbol = file.decorated(one.line)?;
        let given = split_arguments(file.arguments(one).unwrap_or_default());
        let is_named = given.first().is_some_and(|first| parse_string(first).is_some())
            || find_named_argument(&given, "name").is_some();
        let prefix = match own.get(receiver) {
            Some(prefix) => prefix.as_str(),
            None if shared.contains(receiver) && file.imports(receiver) => "",
            None if receiver == "cli" && file.before(one).trim_end().ends_with(".cli.") => "",
            None if receiver == "click" && is_named => "",
            None => return None,
        };
        if find_named_argument(&given, "hidden").is_some_and(|hidden| hidden == "True") {
            return None;
        }
        let name = click_name(file, one, symbol.name(&file.text))?;
        let help = find_named_argument(&given, "help")
            .or_else(|| find_named_argument(&given, "short_help"))
            .and_then(parse_string);
        Some(Endpoint {
            last_line: symbol.named.line,
            handler: Some(symbol.name(&file.text).to_owned()),
            ..command_endpoint(file, one.line, &format!("{prefix}{name}"), help)
        })
    };
    // `@group.command` without parentheses is a use, not a call.
    file.uses(&[UseForm::Call, UseForm::Attribute, UseForm::Name])
        .filter_map(found)
        .collect()
}

fn argparse_commands(file: &SourceFile) -> Vec<Endpoint> {
    if !file.mentions("argparse") {
        return Vec::new();
    }
    let mut seen: BTreeMap<String, Endpoint> = BTreeMap::new();
    for (call, one) in file.calls() {
        if call != "add_parser" || NameReceiver::parse_before(file.before(one)) == NameReceiver::None {
            continue;
        }
        let Some(inner) = file.arguments(one) else { continue };
        let given = split_arguments(inner);
        let Some(name) = given
            .first()
            .and_then(|first| parse_string(first))
            .filter(|name| is_command(name))
        else {
            continue;
        };
        let help = find_named_argument(&given, "help");
        if help.is_some_and(|help| help.contains("SUPPRESS")) {
            continue;
        }
        let after = file.after(one);
        let line = one.line + after[..after.find(name).unwrap_or_default()].matches('\n').count() as u32;
        seen.entry(name.to_owned())
            .or_insert_with(|| command_endpoint(file, line, name, help.and_then(parse_string)));
    }
    seen.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::split_capitals;

    #[test]
    fn names_of_variants_are_split_into_words() {
        for (name, expected) in [("AddItem", "add-item"), ("Run", "run"), ("HTTPServer", "http-server")] {
            assert_eq!(split_capitals(name).join("-"), expected);
        }
    }
}
