//! Other names for what something else defines, read from the line that makes them.
//!
//! One line is enough: `shared as renamed` in a list of imports or exports, an entry of an object that a module
//! exports, an assignment of a name, `#define`. Whether the line is code is a matter of the caller.

use crate::names::{is_identifier, is_python, is_word_byte};

/// The name that `alias` stands for in a line of the file at `path`.
pub fn original<'a>(path: &str, line: &'a str, alias: &str) -> Option<&'a str> {
    let line = line.trim();
    let first = line.split_whitespace().next().unwrap_or_default();
    // What these bind is a value and no other name of it.
    if is_python(path) && matches!(first, "with" | "except" | "async" | "case" | "for") {
        return None;
    }
    if let Some(rest) = line.strip_prefix("#define ") {
        let rest = rest.trim_start().strip_prefix(alias)?;
        let body = match rest.strip_prefix('(') {
            Some(parameters) => parameters.split_once(')')?.1,
            None => rest.strip_prefix(' ')?,
        };
        let name = leading_name(body.trim())?;
        let after = body.trim()[name.len()..].trim_start();
        return (after.is_empty() || after.starts_with('('))
            .then_some(name)
            .filter(|name| *name != alias);
    }
    let found = crate::names::word_hits(line.as_bytes(), alias).find_map(|at| {
        let (before, after) = (line[..at].trim_end(), line[at + alias.len()..].trim_start());
        if let Some(named) = before
            .strip_suffix("as")
            .filter(|named| named.ends_with(char::is_whitespace))
        {
            return trailing_name(named.trim_end());
        }
        let value = after
            .strip_prefix(':')
            .or_else(|| after.strip_prefix('='))?
            .trim_start();
        let name = leading_chain(value)?;
        let rest = value[name.len()..].trim_start();
        let is_whole = rest.is_empty() || rest.starts_with([',', ';', '}', '#']) || rest.starts_with("//");
        is_whole.then(|| last_name(name))
    });
    found.filter(|name| *name != alias && is_identifier(&name.replace('$', "_")) && !is_literal(name))
}

fn is_literal(name: &str) -> bool {
    matches!(
        name,
        "true" | "false" | "True" | "False" | "None" | "null" | "nil" | "undefined" | "default" | "NULL"
    )
}

fn is_name_byte(byte: u8) -> bool {
    is_word_byte(byte) || byte == b'$'
}

fn leading_name(text: &str) -> Option<&str> {
    let end = text.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(text.len());
    Some(&text[..end]).filter(|name| !name.is_empty())
}

/// Names joined by dots or `::`.
fn leading_chain(text: &str) -> Option<&str> {
    let is_part = |byte: u8| is_name_byte(byte) || matches!(byte, b'.' | b':');
    let end = text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len());
    Some(&text[..end]).filter(|name| !name.is_empty())
}

fn last_name(chain: &str) -> &str {
    chain.rsplit(['.', ':']).next().unwrap_or(chain)
}

fn trailing_name(text: &str) -> Option<&str> {
    let start = text
        .bytes()
        .rposition(|byte| !is_name_byte(byte))
        .map_or(0, |at| at + 1);
    Some(&text[start..]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_makes_a_name_says_what_it_stands_for() {
        for (path, line, alias, wanted) in [
            (
                "a.ts",
                "export { shared as renamed } from \"./helper\";",
                "renamed",
                Some("shared"),
            ),
            ("a.ts", "  shared as renamed,", "renamed", Some("shared")),
            ("a.ts", "export { shared as renamed };", "shared", None),
            ("a.ts", "import { default as thing } from './thing';", "thing", None),
            (
                "a.js",
                "module.exports = { publicName: createRouter };",
                "publicName",
                Some("createRouter"),
            ),
            (
                "a.js",
                "  publicName: createRouter,",
                "publicName",
                Some("createRouter"),
            ),
            ("a.js", "exports.b = lib.a;", "b", Some("a")),
            ("a.js", "exports.b = a();", "b", None),
            ("a.py", "from .models import User as Person", "Person", Some("User")),
            ("a.py", "import numpy as np", "np", Some("numpy")),
            ("a.py", "b = a  # the old name", "b", Some("a")),
            ("a.py", "with open(name) as file:", "file", None),
            ("a.py", "except E as error:", "error", None),
            ("a.py", "x = None", "x", None),
            (
                "a.rs",
                "pub use crate::io::{read as load, write};",
                "load",
                Some("read"),
            ),
            ("a.go", "type B = pkg.A", "B", Some("A")),
            ("a.c", "#define lock(m) mutex_lock(m)", "lock", Some("mutex_lock")),
            ("a.c", "#define LIMIT limit_default", "LIMIT", Some("limit_default")),
            ("a.c", "#define LIMIT (1 << 3)", "LIMIT", None),
            ("a.ts", "größe as x, y as größe", "größe", Some("y")),
        ] {
            assert_eq!(original(path, line, alias), wanted, "{alias} in {line}");
        }
    }
}
