//! Parses `mix.exs`: the tuples `{:name, …}` in the function `deps`. Nothing is evaluated.

use crate::model::{Dependency, Ecosystem, Manifest};

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Mix", Ecosystem::Elixir);
    let lines: Vec<&str> = text.lines().collect();
    let value_of = |key: &str| {
        let mut values = lines.iter().filter_map(|line| line.trim().strip_prefix(key));
        values.next().map(|value| value.trim().trim_end_matches(','))
    };
    manifest.name = value_of("app:")
        .and_then(|value| value.strip_prefix(':'))
        .map(str::to_owned);
    manifest.version = value_of("version:").and_then(leading_string).map(str::to_owned);
    manifest.fact(
        "requires Elixir",
        value_of("elixir:").and_then(leading_string).map(str::to_owned),
    );
    let body = body_of_deps(&lines);
    for (first, last, tuple) in find_tuples(&lines[body.clone()]) {
        manifest
            .dependencies
            .extend(parse_dependency(&tuple, body.start + first).map(|one| one.until(body.start + last)));
    }
    manifest
}

/// Lines of the function `deps`, up to its `end`, or to the next definition if it has none.
fn body_of_deps(lines: &[&str]) -> std::ops::Range<usize> {
    let is_head = |line: &&str| {
        let mut words = line
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        matches!(words.next(), Some("def" | "defp")) && words.next() == Some("deps") && words.next() == Some("do")
    };
    let Some(start) = lines.iter().position(is_head) else {
        return 0..0;
    };
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let is_outside = |line: &&str| {
        !line.trim().is_empty()
            && indentation(line) <= indentation(lines[start])
            && line.trim_start().starts_with(['d', 'e', '@'])
    };
    let length = lines[start + 1..].iter().position(is_outside);
    start..length.map_or(lines.len(), |length| start + 1 + length)
}

/// Tuples that begin with an atom: numbers of the first and the last line, counted from 1, and the text inside.
fn find_tuples(lines: &[&str]) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize, String)> = None;
    for (at, line) in lines.iter().enumerate() {
        let mut in_string = false;
        for (index, c) in line.char_indices() {
            in_string ^= c == '"';
            match (&mut open, c) {
                (_, '#') if !in_string => break,
                (None, '{') if !in_string && line[index + 1..].starts_with(':') => {
                    open = Some((at + 1, 0, String::new()))
                }
                (Some((first, 0, text)), '}') if !in_string => {
                    found.push((*first, at + 1, std::mem::take(text)));
                    open = None;
                }
                (Some((_, depth, text)), c) => {
                    if !in_string {
                        *depth += usize::from(c == '{');
                        *depth -= usize::from(c == '}');
                    }
                    text.push(c);
                }
                (None, _) => {}
            }
        }
    }
    found
}

/// The dependency of `:name, "constraint", key: value`.
fn parse_dependency(tuple: &str, line: usize) -> Option<Dependency> {
    let (name, rest) = tuple.split_once(',').unwrap_or((tuple, ""));
    let name = name.trim().strip_prefix(':')?;
    let source = ["path", "git", "github"]
        .into_iter()
        .find_map(|key| Some(format!("@ {key} {}", leading_string(option_text(rest, key)?)?)));
    let is_in_umbrella = option_text(rest, "in_umbrella").is_some();
    let constraint = match leading_string(rest) {
        Some(constraint) => constraint.to_owned(),
        None if is_in_umbrella => "@ umbrella".to_owned(),
        None => source.unwrap_or_default(),
    };
    let is_optional = option_text(rest, "optional").is_some_and(|value| value.starts_with("true"));
    let group = option_text(rest, "only").and_then(group_of);
    let group = group.unwrap_or_else(|| if is_optional { "optional" } else { "runtime" }.to_owned());
    Some(Dependency::new(name, &constraint, &group, line))
}

/// Text after the key of an option.
fn option_text<'t>(options: &'t str, key: &str) -> Option<&'t str> {
    let is_key = |at: &usize| !options[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let key = format!("{key}:");
    let at = options.match_indices(&key).map(|(at, _)| at).find(is_key)?;
    Some(options[at + key.len()..].trim_start())
}

/// Group of `:test` or `[:dev, :test]`.
fn group_of(environments: &str) -> Option<String> {
    let list = environments.strip_prefix('[').and_then(|list| list.split(']').next());
    let list = list.unwrap_or(environments.split([',', ' ']).next().unwrap_or_default());
    let names: Vec<&str> = list
        .split([',', ' '])
        .filter_map(|name| name.strip_prefix(':'))
        .collect();
    match names[..] {
        [] => None,
        ["test"] => Some("test".to_owned()),
        [..] if names.contains(&"prod") => Some("runtime".to_owned()),
        [..] if names.contains(&"dev") || names.contains(&"test") => Some("dev".to_owned()),
        [first, ..] => Some(format!("group:{first}")),
    }
}

/// The string literal at the beginning of a text.
fn leading_string(text: &str) -> Option<&str> {
    let (inside, _) = text.trim_start().strip_prefix('"')?.split_once('"')?;
    // Interpolated text is computed.
    (!inside.contains("#{")).then_some(inside)
}
