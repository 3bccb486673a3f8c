//! Aliases: names that one line gives to something defined elsewhere.
//!
//! One line is enough: `shared as renamed` in a list of imports or exports, an entry in an exported object, an
//! assignment of a name, `#define`. The caller knows whether the line is code.

use skill_sdk::{Host, SymbolQuery, SymbolReference};

use crate::names::{self, is_identifier, is_python, is_word_byte};

/// A line that makes an alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// Name that the alias stands for.
    pub original: String,
    /// File of the line.
    pub path: String,
    /// Number of the line, counted from 1.
    pub line: u32,
    /// Text of the line.
    pub text: String,
}

/// Reads the alias in the line of a reference; `None` if the line only uses the name.
pub fn alias_at(name: &str, reference: &SymbolReference, source: &[u8]) -> Option<Alias> {
    if matches!(reference.kind.as_str(), "call" | "type" | "text") {
        return None;
    }
    let at = (reference.line as usize).checked_sub(1)?;
    let lines: Vec<&[u8]> = source.split(|&byte| byte == b'\n').take(at + 1).collect();
    let text = String::from_utf8_lossy(lines.get(at)?).into_owned();
    let original = original_name(&reference.path, &text, name)?.to_owned();
    if reference.kind == "attribute" && !is_exported(&lines) {
        return None;
    }
    Some(Alias {
        original,
        path: reference.path.clone(),
        line: reference.line,
        text,
    })
}

/// True if the last of these lines belongs to an export of a JavaScript module.
fn is_exported(lines: &[&[u8]]) -> bool {
    let exports = |line: &&[u8]| {
        let line = String::from_utf8_lossy(line);
        ["module.exports", "exports.", "export default"]
            .iter()
            .any(|word| line.contains(word))
    };
    let before = lines.iter().rev();
    before.take_while(|line| !line.starts_with(b"}")).any(exports)
}

/// A sentence about an alias: name and place of the definition, and the lines that lead there.
pub fn describe_alias(name: &str, (path, line): (&str, u32), steps: &[Alias]) -> String {
    let original = steps.last().map_or(name, |step| step.original.as_str());
    let by: Vec<String> = steps
        .iter()
        .map(|step| format!("{}:{}", step.path, step.line))
        .collect();
    format!("`{name}` is `{original}` ({path}:{line}), by {}", by.join(", "))
}

/// A sentence about one alias; `None` if the host knows no definition of the original name.
pub fn describe_defined(host: &dyn Host, name: &str, alias: &Alias) -> Option<String> {
    let query = SymbolQuery {
        name: alias.original.clone(),
        under: String::new(),
        after: None,
    };
    let definitions = host.definitions(&query).ok()?.items;
    let near = definitions.iter().find(|one| is_near(alias, &one.path));
    let place = near.or(definitions.first())?;
    Some(describe_alias(
        name,
        (place.path.as_str(), place.line),
        std::slice::from_ref(alias),
    ))
}

/// True if `path` is the file of the alias, or its line names that file.
pub fn is_near(alias: &Alias, path: &str) -> bool {
    // Ignore the original name, because files are often named after their definitions.
    let text = alias.text.replacen(&alias.original, "", 1);
    let file = path.rsplit('/').next().and_then(|name| name.split('.').next());
    path == alias.path || names::word_hits(text.as_bytes(), file.unwrap_or(path)).next().is_some()
}

/// The name that `alias` stands for in a line of the file at `path`.
pub fn original_name<'a>(path: &str, line: &'a str, alias: &str) -> Option<&'a str> {
    let line = line.trim();
    let first = line.split_whitespace().next().unwrap_or_default();
    // These bind values, not aliases.
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
    if let Some(rest) = line.strip_prefix("typedef ") {
        let (value, name) = rest.trim_end().strip_suffix(';')?.trim_end().rsplit_once([' ', '\t'])?;
        let value = value.split_whitespace().next_back()?;
        return (name == alias && value != alias && is_identifier(value)).then_some(value);
    }
    let found = names::word_hits(line.as_bytes(), alias).find_map(|at| {
        let (before, after) = (line[..at].trim_end(), line[at + alias.len()..].trim_start());
        if let Some(named) = before
            .strip_suffix("as")
            .filter(|named| named.ends_with(char::is_whitespace))
        {
            return trailing_name(named.trim_end());
        }
        // A pattern has the member first: `const { original: alias } = value`.
        if after.contains("} =") {
            return before
                .strip_suffix(':')
                .and_then(|member| trailing_name(member.trim_end()));
        }
        // Skip the parameters of a type.
        let is_type = ["type", "using", "typealias"].iter().any(|word| before.ends_with(word));
        let after = match after.strip_prefix('<').and_then(|rest| rest.split_once("> =")) {
            Some((_, value)) if is_type => return leading_chain(value.trim_start()).map(last_name),
            _ => after,
        };
        let value = after
            .strip_prefix(':')
            .or_else(|| after.strip_prefix('='))?
            .trim_start();
        let name = leading_chain(value)?;
        let rest = value[name.len()..].trim_start();
        let rest = if is_type { after_generics(rest) } else { rest };
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

/// The leading names that are joined by dots or `::`.
fn leading_chain(text: &str) -> Option<&str> {
    let is_part = |byte: u8| is_name_byte(byte) || matches!(byte, b'.' | b':');
    let end = text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len());
    Some(&text[..end]).filter(|name| !name.is_empty())
}

/// The text after the arguments of a type.
fn after_generics(rest: &str) -> &str {
    let mut depth = 0_i32;
    let end = rest.find(|sign| {
        depth += i32::from(sign == '<') - i32::from(sign == '>');
        depth <= 0
    });
    match rest.strip_prefix('<').and(end) {
        Some(end) => rest[end..].trim_start_matches('>').trim_start(),
        None => rest,
    }
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
            ("a.js", "const { a: b } = require('./a');", "b", Some("a")),
            ("a.js", "const { a: b } = require('./a');", "a", None),
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
            ("a.rs", "pub type B = crate::A;", "B", Some("A")),
            ("a.rs", "type B<T> = A<T, Error>;", "B", Some("A")),
            ("a.rs", "type B = Box<dyn A>;", "B", Some("Box")),
            ("a.rs", "type B = (u8, A);", "B", None),
            ("a.ts", "type B = A<X, Y<Z>>;", "B", Some("A")),
            ("a.ts", "type B = A<X> | C;", "B", None),
            ("a.ts", "type B = A | C;", "B", None),
            ("a.cc", "using B = ns::A;", "B", Some("A")),
            ("a.kt", "typealias B = A", "B", Some("A")),
            ("a.c", "typedef struct A B;", "B", Some("A")),
            ("a.c", "typedef int (*B)(int);", "B", None),
            ("a.c", "#define lock(m) mutex_lock(m)", "lock", Some("mutex_lock")),
            ("a.c", "#define LIMIT limit_default", "LIMIT", Some("limit_default")),
            ("a.c", "#define LIMIT (1 << 3)", "LIMIT", None),
            ("a.ts", "größe as x, y as größe", "größe", Some("y")),
        ] {
            assert_eq!(original_name(path, line, alias), wanted, "{alias} in {line}");
        }
    }
}
