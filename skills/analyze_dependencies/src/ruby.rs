//! Parses `Gemfile` and `*.gemspec` line by line, and skips what is computed.

use crate::model::{Dependency, Ecosystem, Manifest};

pub(crate) fn parse_gemfile(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Bundler", Ecosystem::Ruby);
    // A gem declares its dependencies in the gemspec, and those of its authors in the `Gemfile`.
    let is_of_gem = text
        .lines()
        .any(|line| line.split_whitespace().next() == Some("gemspec"));
    let default = if is_of_gem { "dev" } else { "runtime" };
    // The group of each open block, if it declares one.
    let mut blocks: Vec<Option<String>> = Vec::new();
    for (at, whole) in text.lines().enumerate() {
        let line = whole.trim();
        match line.split(|c: char| !c.is_alphanumeric()).next() {
            Some("end") => {
                blocks.pop();
            }
            Some("gem") => {
                let declared = blocks.iter().rev().flatten().next();
                let group = declared.map_or(default, String::as_str);
                manifest
                    .dependencies
                    .extend(parse_gem(&line["gem".len()..], group, at + 1));
            }
            Some("group") if line.ends_with(" do") => blocks.push(group_of(line)),
            Some("if" | "unless" | "case" | "begin" | "def" | "while") => blocks.push(None),
            _ if line.ends_with(" do") || line.contains(" do |") => blocks.push(None),
            _ => {}
        }
    }
    manifest
}

pub(crate) fn parse_gemspec(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "RubyGems", Ecosystem::Ruby);
    const CALLS: [(&str, &str); 3] = [
        (".add_dependency", "runtime"),
        (".add_runtime_dependency", "runtime"),
        (".add_development_dependency", "dev"),
    ];
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('#') {
            continue;
        }
        for (call, group) in CALLS {
            let arguments = line.split_once(call).map(|(_, arguments)| arguments);
            manifest
                .dependencies
                .extend(arguments.and_then(|arguments| parse_gem(arguments, group, at + 1)));
        }
        for (key, field) in [(".name", &mut manifest.name), (".version", &mut manifest.version)] {
            let value = line
                .split_once(key)
                .and_then(|(_, rest)| rest.trim_start().strip_prefix('='));
            let written = value.and_then(|value| leading_strings(value).0.into_iter().next());
            *field = field.take().or(written);
        }
    }
    manifest
}

/// The dependency that the arguments of a call declare.
fn parse_gem(arguments: &str, group: &str, line: usize) -> Option<Dependency> {
    let (mut written, options) = leading_strings(arguments);
    if written.is_empty() {
        return None;
    }
    let name = written.remove(0);
    let group = option_text(options, "group")
        .and_then(group_of)
        .unwrap_or_else(|| group.to_owned());
    let source = ["path", "git", "github"].into_iter().find_map(|key| {
        let place = leading_strings(option_text(options, key)?).0.into_iter().next()?;
        Some(format!("@ {key} {place}"))
    });
    let constraint = if written.is_empty() {
        source.unwrap_or_default()
    } else {
        written.join(", ")
    };
    Some(Dependency::new(&name, &constraint, &group, line))
}

/// Text after the key of an option: `key: value` or `:key => value`.
fn option_text<'t>(options: &'t str, key: &str) -> Option<&'t str> {
    [format!(" {key}: "), format!(" :{key} => ")]
        .iter()
        .find_map(|mark| options.split_once(mark.as_str()))
        .map(|(_, value)| value)
}

/// The group of the first symbols in a text. Development and test count as one.
fn group_of(text: &str) -> Option<String> {
    let (_, symbol) = text.split_once("%i[").or_else(|| text.split_once(':'))?;
    let name: String = symbol
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    match name.as_str() {
        "" => None,
        "default" => Some("runtime".to_owned()),
        "development" | "test" => Some("dev".to_owned()),
        _ => Some(format!("group:{name}")),
    }
}

/// The string literals at the beginning of a list of arguments, and the rest of the line.
fn leading_strings(arguments: &str) -> (Vec<String>, &str) {
    let mut found = Vec::new();
    let mut rest = arguments;
    loop {
        let text = rest.trim_start_matches(['(', '[', ']', ',', ' ', '\t']);
        let text = text.strip_prefix("%q").unwrap_or(text);
        let close = match text.chars().next() {
            Some(quote @ ('"' | '\'')) => quote,
            Some('<') => '>',
            Some('(') => ')',
            _ => return (found, rest),
        };
        let Some((inside, after)) = text[1..].split_once(close) else {
            return (found, rest);
        };
        // Interpolated text is computed.
        if inside.contains("#{") {
            return (found, rest);
        }
        found.push(inside.to_owned());
        rest = after.strip_prefix(".freeze").unwrap_or(after);
    }
}
