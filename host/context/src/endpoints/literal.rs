//! Arguments of a call as they are written: parentheses, commas and literals of text.

/// Longest arguments that are read.
const ARGUMENTS_BYTES_MAX: usize = 20_000;

/// The text within brackets. `text` begins with the opening bracket.
pub(super) fn text_in_brackets(text: &str, opening: char) -> Option<&str> {
    let start = text.trim_start();
    let inner = start.strip_prefix(opening)?;
    let end = find_char_outside_strings(inner, |_, depth| depth < 0)?;
    Some(&inner[..end])
}

pub(super) fn split_arguments(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = find_char_outside_strings(rest, |sign, depth| depth == 0 && sign == ',') {
        parts.push(rest[..at].trim());
        rest = &rest[at + 1..];
    }
    parts.push(rest.trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// The value of a named argument: `name=value`, `name = value`, `name: value`.
pub(super) fn find_named_argument<'t>(arguments: &[&'t str], name: &str) -> Option<&'t str> {
    arguments.iter().find_map(|argument| {
        let rest = argument.strip_prefix(name)?.trim_start();
        let value = rest.strip_prefix('=').or_else(|| rest.strip_prefix(':'))?;
        (!value.starts_with('=')).then(|| value.trim())
    })
}

/// The content of an argument that is one string literal. `None` if a part of it is computed.
pub(super) fn parse_string(argument: &str) -> Option<&str> {
    let bare = argument.trim();
    let bare = bare
        .strip_prefix(['r', 'u', 'R'])
        .filter(|rest| rest.starts_with(['"', '\'']))
        .unwrap_or(bare);
    let quote = bare.chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
    let inner = bare.strip_prefix(quote)?.strip_suffix(quote)?;
    let is_one = !inner.contains(quote) && !inner.contains('\n') && !inner.contains("${") && !inner.contains("#{");
    is_one.then_some(inner)
}

/// The literals in a list, `[…]`, `{…}` or a single one.
pub(super) fn parse_string_list(argument: &str) -> Option<Vec<&str>> {
    let list = text_in_brackets(argument, '[')
        .or_else(|| text_in_brackets(argument, '{'))
        .or_else(|| text_in_brackets(argument, '('));
    match list {
        Some(list) => split_arguments(list).into_iter().map(parse_string).collect(),
        None => parse_string(argument).map(|one| vec![one]),
    }
}

/// A name of a function, with dots or colons; `None` for a computed value.
pub(super) fn parse_name_path(argument: &str) -> Option<&str> {
    let argument = argument.trim();
    let is_sign = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '$');
    let begins = argument.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    (begins && argument.chars().all(is_sign)).then_some(argument)
}

/// Position of the first character for which `is_it` holds. The number is the bracket depth after it; strings and
/// comments are skipped.
fn find_char_outside_strings(text: &str, is_it: impl Fn(char, i32) -> bool) -> Option<usize> {
    let mut depth = 0;
    let mut signs = text.char_indices().peekable();
    while let Some((at, sign)) = signs.next() {
        if at > ARGUMENTS_BYTES_MAX {
            return None;
        }
        match sign {
            '"' | '`' | '\'' => {
                // A lifetime, or a character such as `'('`.
                let is_lifetime = sign == '\'' && !text[at + 1..].split('\n').next().unwrap_or_default().contains('\'');
                if is_lifetime {
                    continue;
                }
                let mut is_escaped = false;
                for (_, inner) in signs.by_ref() {
                    match inner {
                        _ if is_escaped => is_escaped = false,
                        '\\' => is_escaped = true,
                        inner if inner == sign => break,
                        _ => {}
                    }
                }
                continue;
            }
            '/' if signs.peek().is_some_and(|(_, next)| *next == '/') => {
                for (_, inner) in signs.by_ref() {
                    if inner == '\n' {
                        break;
                    }
                }
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if is_it(sign, depth) {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_end_where_their_parentheses_do() {
        let inner = text_in_brackets("('/a(', f(x, \"]\"), [1, 2]) + g()", '(').expect("it closes");
        assert_eq!(split_arguments(inner), ["'/a('", "f(x, \"]\")", "[1, 2]"]);
        assert_eq!(text_in_brackets("(a, b", '('), None);
        assert_eq!(
            find_named_argument(&["'/a'", "methods=['GET']"], "methods"),
            Some("['GET']")
        );
        assert_eq!(parse_string_list("{ \"/a\", \"/b\" }"), Some(vec!["/a", "/b"]));
    }

    #[test]
    fn a_computed_text_is_no_literal() {
        for (argument, expected) in [
            ("'/a'", Some("/a")),
            ("r'^a/$'", Some("^a/$")),
            ("\"/a\" + b", None),
            ("f\"/a\"", None),
            ("`/a/${b}`", None),
            ("base", None),
        ] {
            assert_eq!(parse_string(argument), expected, "{argument}");
        }
        assert_eq!(parse_name_path("views.index"), Some("views.index"));
        assert_eq!(parse_name_path("views.index()"), None);
    }
}
