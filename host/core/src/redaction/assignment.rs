//! Values by the name before them: `password = …`, `"api_key": "…"`, `<token>…</token>`, `--password …`.
//!
//! This module finds the value and leaves code out: an expression, a call, a type, a template or a variable is not a
//! secret, and a placeholder in its place would mislead a model. `randomness` decides whether a value looks like a
//! secret.

use std::ops::Range;

use super::{START, randomness};

/// Least bytes of a secret that is found by its name. Shorter ones are found as passwords.
pub(super) const SECRET_BYTES_MIN: usize = 15;

/// Bytes of the value of a setting, at least.
const SETTING_BYTES_MIN: usize = 6;

/// Longest value in quotes, in bytes; longer text is data.
const QUOTED_BYTES_MAX: usize = 600;

/// Bytes of a value without quotes, at most.
const PLAIN_BYTES_MAX: usize = 300;

/// Bytes of a name before and behind an anchor, at most.
const NAME_BYTES_MAX: usize = 48;

/// Ends of names whose values concern a secret but are not secret.
const PUBLIC_ENDS: [&str; 50] = [
    "id",
    "ids",
    "name",
    "names",
    "type",
    "url",
    "uri",
    "path",
    "file",
    "dir",
    "field",
    "header",
    "length",
    "len",
    "size",
    "hash",
    "digest",
    "expiry",
    "expires",
    "ttl",
    "count",
    "limit",
    "prefix",
    "suffix",
    "pattern",
    "regex",
    "policy",
    "label",
    "ref",
    "arn",
    "class",
    "format",
    "version",
    "endpoint",
    "algorithm",
    "issuer",
    "hint",
    "help",
    "text",
    "title",
    "message",
    "description",
    "error",
    "param",
    "provider",
    "fingerprint",
    "checksum",
    "sha256",
    "sha1",
    "index",
];

/// Commands that take name and value as separate arguments: of a Dockerfile, and of the shells fish, csh and cmd.
const SETTERS: [&str; 6] = ["ENV", "set -gx", "set -Ux", "set -x", "setenv", "setx"];

/// Words before "key" that make it the name of a secret. Keys of maps, tables and translations have other words.
const KEY_KINDS: [&str; 46] = [
    "api",
    "access",
    "secret",
    "auth",
    "encryption",
    "encrypt",
    "signing",
    "sign",
    "private",
    "priv",
    "account",
    "service",
    "master",
    "license",
    "db",
    "database",
    "client",
    "storage",
    "shared",
    "consumer",
    "hmac",
    "nonce",
    "loggedin",
    "app",
    "deploy",
    "admin",
    "write",
    "session",
    "security",
    "crypt",
    "crypto",
    "cipher",
    "server",
    "application",
    "preshared",
    "ssh",
    "publish",
    "ingest",
    "integration",
    "subscription",
    "rest",
    "jwt",
    "webhook",
    "function",
    "host",
    "iam",
];

/// Ends of the word before "token", "secret" or "key" that mark it as public.
const PUBLIC_STARTS: [&str; 6] = ["public", "publishable", "page", "next", "continuation", "cache"];

/// Result of searching for a value after a name.
pub(super) enum AssignedValue {
    /// It could be a secret.
    Found(Range<usize>),
    /// The value is longer than a secret. Holds the end of the examined text.
    Endless(usize),
    Nothing,
}

/// The value that belongs to the name around an anchor.
pub(super) fn value_of(text: &str, anchor: Range<usize>) -> AssignedValue {
    let mut seen = 0;
    match found_at(text, anchor, &mut seen) {
        Some(range) => AssignedValue::Found(range),
        None if seen > 0 => AssignedValue::Endless(seen),
        None => AssignedValue::Nothing,
    }
}

fn found_at(text: &str, anchor: Range<usize>, seen: &mut usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let before = bytes[..anchor.start].iter().rev().take(NAME_BYTES_MAX);
    let before = before.take_while(|byte| is_name(byte)).count();
    let after = bytes[anchor.end..].iter().take(NAME_BYTES_MAX);
    let after = after.take_while(|byte| is_name(byte)).count();
    let name = anchor.start - before..anchor.end + after;
    // A name ends before an operator's dot (`token .= "x"`, `$token.="x"`).
    let end = name.end - usize::from(bytes[..name.end].ends_with(b".") && bytes.get(name.end) == Some(&b'='));
    names_secret(&text[name.start..end], before, anchor.len()).then_some(())?;
    let before = &text[text.floor_char_boundary(name.start.saturating_sub(NAME_BYTES_MAX))..name.start];
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_option = text[name.start..].starts_with("--") || SETTERS.contains(&line.trim());
    let value = value_behind(text, end, is_option, seen)?;
    // `js-tokens: "npm:^3.0.0"` of a lock file.
    let is_ours = text[value.clone()].contains(START);
    (!is_ours && !text[value.clone()].starts_with("npm:")).then_some(value)
}

/// True if a text assigns a value to a name of a secret, and the value is neither a template nor an example. It accepts
/// more names than the rules do, because it is for files that hold only settings.
pub(super) fn assigns_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token", "key"].iter().any(|word| {
        lower.match_indices(word).any(|(at, _)| {
            let value = match value_of(text, at..at + word.len()) {
                AssignedValue::Found(value) => &text[value],
                _ => return false,
            };
            value.len() >= SETTING_BYTES_MIN && randomness::is_password(value) && !value.starts_with('/')
        })
    })
}

/// True if the word at `at` of `length` bytes makes the whole name that of a secret.
fn names_secret(name: &str, at: usize, length: usize) -> bool {
    let (before, word, mut tail) = (&name[..at], &name[at..at + length], &name[at + length..]);
    let is_camel = |tail: &str| {
        let (last, next) = (word.as_bytes()[length - 1], tail.as_bytes().first());
        next.is_none_or(|next| !next.is_ascii_alphabetic() || next.is_ascii_uppercase() && last.is_ascii_lowercase())
    };
    let lower = |text: &str| -> String {
        let letters = text.bytes().filter(u8::is_ascii_alphanumeric);
        letters.map(|byte| char::from(byte.to_ascii_lowercase())).collect()
    };
    let (start, kind) = (lower(before), word.to_ascii_lowercase());
    match &*kind {
        "pass" => {
            let low = tail.to_ascii_lowercase();
            let rest = ["word", "wd", "phrase", "code"]
                .iter()
                .find(|rest| low.starts_with(**rest));
            tail = rest.map_or(tail, |rest| &tail[rest.len()..]);
            let is_apart = before.is_empty()
                || before.ends_with(['_', '-', '.'])
                || word.starts_with('P') && before.ends_with(|c: char| c.is_ascii_lowercase())
                || ["db", "user", "root", "admin", "key", "store", "pg"].contains(&&*start);
            if rest.is_none() && !is_apart {
                return false;
            }
        }
        "key" if !KEY_KINDS.iter().any(|known| start.ends_with(known)) => return false,
        _ => {}
    }
    if PUBLIC_STARTS.iter().any(|known| start.ends_with(known)) {
        return false;
    }
    let tail = tail.strip_prefix('s').filter(|rest| is_camel(rest)).unwrap_or(tail);
    let mut words = tail.split(|c: char| !c.is_ascii_alphanumeric());
    let last = words.rfind(|word| !word.is_empty()).unwrap_or_default();
    // `tokenUrl`, `token_url`.
    let capital = last
        .rfind(|c: char| c.is_ascii_uppercase())
        .filter(|_| last.bytes().any(|b| b.is_ascii_lowercase()));
    let last = last[capital.unwrap_or(0)..].to_ascii_lowercase();
    is_camel(tail) && !PUBLIC_ENDS.contains(&&*last)
}

/// The link between a name and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AssignmentOperator {
    /// `=`, `:=`, `=>` and the like.
    Assign,
    Colon,
    /// `>` of an element of XML.
    Element,
    /// A comma or a parenthesis between two strings, or only space.
    Beside,
    /// Space behind `--password`.
    Option,
}

fn value_behind(text: &str, name_end: usize, is_option: bool, seen: &mut usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let closed = skip_bytes(bytes, name_end, 3, |byte| b"\"'`]\\".contains(&byte));
    let is_closed = closed > name_end;
    let is_space = |byte: u8| byte == b' ' || byte == b'\t';
    let mut at = skip_bytes(bytes, closed, 24, is_space);
    if is_closed || at == closed {
        at = pair_value(bytes, at).unwrap_or(at);
    }
    at = skip_type(bytes, at).unwrap_or(at);
    let gap = at > closed;
    let (operator, length) = read_operator(&bytes[at..]).or_else(|| {
        let is_quote = bytes.get(at).is_some_and(|byte| b"\"'".contains(byte));
        let beside = if is_option {
            AssignmentOperator::Option
        } else {
            AssignmentOperator::Beside
        };
        (gap && !is_closed && (is_option || is_quote)).then_some((beside, 0))
    })?;
    at += length;
    let is_tight = !gap && !bytes.get(at).copied().is_some_and(is_space);
    at = match operator {
        AssignmentOperator::Element => skip_bytes(bytes, at, 80, |byte| byte.is_ascii_whitespace()),
        _ => skip_bytes(bytes, at, 24, is_space),
    };
    at = match operator {
        AssignmentOperator::Assign | AssignmentOperator::Colon => skip_line_break(bytes, at, operator).unwrap_or(at),
        _ => at,
    };
    if let Some(value) = read_quoted(text, at) {
        return value;
    }
    match operator {
        AssignmentOperator::Beside => None,
        _ => read_unquoted(text, at, operator, is_tight, seen),
    }
}

/// Position of a value that is alone on the next line: behind a string's three quotes, behind `\` in a properties file,
/// and in YAML behind `>-`, `|` or nothing.
fn skip_line_break(bytes: &[u8], at: usize, operator: AssignmentOperator) -> Option<usize> {
    let rest = &bytes[at..];
    let mark = match rest {
        [b'"', b'"', b'"', ..] | [b'\'', b'\'', b'\'', ..] => 3,
        [b'\\', b'\n', ..] => 1,
        [b'>' | b'|', ..] if operator == AssignmentOperator::Colon => {
            1 + skip_bytes(rest, 1, 2, |byte| b"+-1".contains(&byte))
        }
        [b'\n', b' ' | b'\t', ..] if operator == AssignmentOperator::Colon => 0,
        _ => return None,
    };
    let is_line = rest.get(mark) == Some(&b'\n');
    let value = skip_bytes(rest, mark, 40, |byte| byte.is_ascii_whitespace());
    let end = skip_bytes(rest, value, PLAIN_BYTES_MAX, |byte| !byte.is_ascii_whitespace());
    // What has more on its line is text or another name.
    let is_alone = matches!(rest.get(end), None | Some(b'\n' | b'\r'));
    (mark == 3 || is_line && is_alone && value > mark).then_some(at + value)
}

/// End of the run of matching bytes from `at`, at most `most` bytes on.
fn skip_bytes(bytes: &[u8], at: usize, most: usize, is_kind: impl Fn(u8) -> bool) -> usize {
    let rest = bytes[at..].iter().take(most);
    at + rest.take_while(|byte| is_kind(**byte)).count()
}

/// Position of the value after a name that is itself a value: `key="TOKEN" value`, `"name": "TOKEN", "value"`, `- name:
/// TOKEN\n value`.
fn pair_value(bytes: &[u8], at: usize) -> Option<usize> {
    let at = skip_bytes(bytes, at, 40, |byte| byte.is_ascii_whitespace() || byte == b',');
    let at = skip_bytes(bytes, at, 1, |byte| byte == b'"');
    let word = bytes.get(at..at + 5)?;
    word.eq_ignore_ascii_case(b"value").then_some(())?;
    let at = skip_bytes(bytes, at + 5, 1, |byte| byte == b'"');
    let at = skip_bytes(bytes, at, 8, |byte| byte == b' ');
    bytes.get(at).filter(|byte| b"=:".contains(byte)).map(|_| at)
}

/// Position after the type of a variable (`: &str`, `string`, `[25]`), if `=` and a string follow.
fn skip_type(bytes: &[u8], at: usize) -> Option<usize> {
    let from = skip_bytes(bytes, at, 1, |byte| byte == b':');
    let is_type = |byte: u8| byte.is_ascii_alphanumeric() || b"_&<>'[]|?., *".contains(&byte);
    let end = skip_bytes(bytes, from, 40, is_type);
    (end > from && bytes.get(end) == Some(&b'=')).then_some(())?;
    let value = skip_bytes(bytes, end + 1, 4, |byte| byte == b' ');
    let prefix = skip_bytes(bytes, value, 2, |byte| byte.is_ascii_alphabetic() || byte == b'@');
    bytes.get(prefix).filter(|byte| b"\"'`".contains(byte)).map(|_| end)
}

fn read_operator(bytes: &[u8]) -> Option<(AssignmentOperator, usize)> {
    const OPERATORS: [&[u8]; 15] = [
        b":::=", b"::=", b"===", b"!==", b"??=", b"||=", b":=", b"=>", b"?=", b"+=", b".=", b"==", b"!=", b"||", b"=",
    ];
    if let Some(known) = OPERATORS.iter().find(|known| bytes.starts_with(known)) {
        return Some((AssignmentOperator::Assign, known.len()));
    }
    match bytes {
        [b':', b':', ..] => None,
        [b':', ..] => Some((AssignmentOperator::Colon, 1)),
        [b'>', ..] => Some((AssignmentOperator::Element, 1)),
        [b',' | b'(', ..] => Some((AssignmentOperator::Beside, 1)),
        _ => None,
    }
}

/// The string that begins at `at`. `None`: no string begins there. `Some(None)`: one begins, but it is empty or a template.
fn read_quoted(text: &str, at: usize) -> Option<Option<Range<usize>>> {
    let bytes = text.as_bytes();
    let quote_at = skip_bytes(bytes, at, 2, |byte| b"bBrRuUfFlL@$".contains(&byte));
    let is_format = bytes[at..quote_at].iter().any(|byte| b"fF$".contains(byte));
    let is_escaped = bytes.get(quote_at) == Some(&b'\\');
    let quote_at = quote_at + usize::from(is_escaped);
    let quote = *bytes.get(quote_at).filter(|byte| b"\"'`".contains(byte))?;
    let start = quote_at + 1;
    let mut end = start;
    let last = bytes.len().min(start + QUOTED_BYTES_MAX);
    loop {
        match bytes.get(end).filter(|_| end < last) {
            None | Some(b'\n') => return Some(None),
            Some(b'\\') if is_escaped && bytes.get(end + 1) == Some(&quote) => break,
            Some(b'\\') => end += 2,
            Some(byte) if *byte == quote => break,
            Some(_) => end += 1,
        }
    }
    let value = text.get(start..end)?;
    let is_code = is_template(value) || is_format && value.contains('{');
    Some((!value.is_empty() && !is_code).then_some(start..end))
}

/// The value without quotes that begins at `at`. It must be the last thing on its line or in its brackets, and not be
/// code.
fn read_unquoted(
    text: &str,
    at: usize,
    operator: AssignmentOperator,
    is_tight: bool,
    seen: &mut usize,
) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_end = |byte: u8| byte.is_ascii_whitespace() || b"\"'`<".contains(&byte) || !byte.is_ascii();
    let mut end = skip_bytes(bytes, at, PLAIN_BYTES_MAX, |byte| !is_end(byte));
    if end - at >= PLAIN_BYTES_MAX {
        *seen = end;
        return None;
    }
    // An escaped line break ends the value, too.
    end = ["\\n", "\\r"]
        .iter()
        .filter_map(|mark| text[at..end].find(mark))
        .min()
        .map_or(end, |length| at + length);
    let mut value = &text[at..end];
    if operator != AssignmentOperator::Element {
        let cut = value
            .match_indices([';', '&'])
            .find(|(cut, _)| is_next_pair(&value[cut + 1..]));
        if let Some((cut, _)) = cut {
            (value, end) = (&value[..cut], at + cut);
        }
    }
    let is_alone = match bytes.get(end) {
        None | Some(b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'<' | b'\\' | b';' | b'&') => true,
        Some(byte) if !byte.is_ascii() => text[end..].starts_with(['␛', '\u{2026}']),
        Some(_) => {
            let rest = text[end..text.floor_char_boundary(end + 24)].trim_start_matches([' ', '\t', '\r']);
            let ends = ["\n", "#", "//", "--", "}", ",", "*/", "\\"];
            is_tight && operator == AssignmentOperator::Assign
                || operator == AssignmentOperator::Option
                || rest.is_empty()
                || ends.iter().any(|known| rest.starts_with(known))
        }
    };
    // `PASSWORD=<password>` has no closing tag.
    let is_closed = || {
        let next = bytes.get(skip_bytes(bytes, end, 80, |byte| byte.is_ascii_whitespace()));
        next.is_none_or(|byte| b"<\\".contains(byte))
    };
    if operator == AssignmentOperator::Element && !is_closed() {
        return None;
    }
    let trimmed = value.trim_end_matches([',', ';']);
    let open = |close: char, open: char| trimmed.ends_with(close) && !trimmed.contains(open);
    let trimmed = if open(')', '(') || open('}', '{') || open(']', '[') {
        trimmed.trim_end_matches([')', '}', ']', ',', ';'])
    } else {
        trimmed
    };
    (is_alone && !trimmed.is_empty() && !is_code(trimmed, operator)).then_some(at..at + trimmed.len())
}

/// True if the rest is the next pair of a query or a connection string: `Timeout=3`.
fn is_next_pair(rest: &str) -> bool {
    let name = rest.find('=').map(|at| &rest[..at]);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-. ".contains(&byte);
    rest.is_empty() || name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_name))
}

/// True for an expression, a call, a type, a variable or a template.
fn is_code(value: &str, operator: AssignmentOperator) -> bool {
    let begins = match operator {
        AssignmentOperator::Colon => &['[', '{', '(', '*', '&', '!', '|', '>', '%', '@', '='][..],
        _ => &['[', '{', '(', '|', '>', '='][..],
    };
    let is_call = value.find('(').is_some_and(|at| {
        let name = value[..at].trim_end_matches('!');
        name.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && value.contains(')') || value.ends_with('(')
    });
    value.starts_with(begins)
        || is_call
        || is_template(value)
        || ["::", "->", "?."].iter().any(|part| value.contains(part))
}

/// True for a placeholder of another program: `${X}`, `{{ x }}`, `%(x)s`, `$X`, `<x>`, `%X%`.
fn is_template(value: &str) -> bool {
    let parts = ["${", "{{", "<%", "%(", "#{", "$(", "@{"];
    let has_part = parts.iter().any(|part| {
        let rest = value.find(part).map(|at| &value[at + part.len()..]);
        rest.is_some_and(|rest| rest.contains(['}', ')', '>']) || value.starts_with(part))
    });
    let bytes = value.as_bytes();
    let is_variable = bytes.first() == Some(&b'$')
        && bytes
            .get(1)
            .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let is_framed = |open: char, close: char| value.starts_with(open) && value.ends_with(close);
    let has_name = value.find('{').is_some_and(|at| {
        let name = &value[at + 1..];
        let end = name.find('}').unwrap_or(0);
        name.as_bytes().get(end) == Some(&b'}')
            && name[..end]
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
    });
    has_part || is_variable || has_name || is_framed('<', '>') || is_framed('%', '%')
}

/// The values of a cookie's header that look random; `at` is where the word "cookie" ends.
pub(super) fn find_cookie_values(text: &str, at: usize) -> Vec<Range<usize>> {
    const PAIRS_MAX: usize = 24;
    let bytes = text.as_bytes();
    let at = skip_bytes(bytes, at, 3, |byte| b"\"'`]\\s".contains(&byte));
    let at = skip_bytes(bytes, at, 4, |byte| byte == b' ');
    if !bytes.get(at).is_some_and(|byte| b":=,".contains(byte)) {
        return Vec::new();
    }
    let mut at = skip_bytes(bytes, at + 1, 6, |byte| b" \"'`\\".contains(&byte));
    let mut found = Vec::new();
    for _ in 0..PAIRS_MAX {
        let name = skip_bytes(bytes, at, 64, |byte| {
            byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
        });
        let is_value = |byte: u8| byte.is_ascii_graphic() && !b"\"';,\\`<".contains(&byte);
        let end = skip_bytes(bytes, name, PLAIN_BYTES_MAX, is_value);
        if name == at || bytes.get(name) != Some(&b'=') {
            break;
        }
        let value = &text[name + 1..end];
        if value.len() >= SECRET_BYTES_MIN && !is_template(value) && randomness::is_random(value) {
            found.push(name + 1..end);
        }
        if bytes.get(end) != Some(&b';') {
            break;
        }
        at = skip_bytes(bytes, end + 1, 4, |byte| byte == b' ');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(line: &str) -> Option<&str> {
        let anchor = ["pass", "token", "secret", "key"].iter().find_map(|word| {
            let at = line.to_ascii_lowercase().find(word)?;
            Some(at..at + word.len())
        });
        match value_of(line, anchor.expect("a name is in the line")) {
            AssignedValue::Found(range) => Some(&line[range]),
            _ => None,
        }
    }

    #[test]
    fn a_value_is_found_behind_every_operator_and_in_every_frame() {
        for line in [
            "password = v4lue!",
            "DB_PASSWORD=v4lue! command",
            "password: v4lue!  # of the office",
            "\"password\": \"v4lue!\",",
            "'token' => 'v4lue!'",
            "token := `v4lue!`",
            "const TOKEN: &str = \"v4lue!\";",
            "var xToken string = \"v4lue!\"",
            "char password[25] = \"v4lue!\";",
            "x_TOKEN ::= \"v4lue!\"",
            "$token .= \"v4lue!\"",
            "<xToken>\n    v4lue!\n</xToken>",
            "<add key=\"Password\" value=\"v4lue!\" />",
            "- name: DB_PASSWORD\n  value: v4lue!",
            "{\"name\": \"TOKEN\", \"value\": \"v4lue!\"}",
            "System.setProperty(\"X_TOKEN\", \"v4lue!\")",
            "secret(\"v4lue!\");",
            "Server=x;Password=v4lue!;Timeout=3",
            "?user=a&password=v4lue!&x=1",
            "tool --password v4lue! --verbose",
            "keyPassword \"v4lue!\"",
            "{\"config\": \"TOKEN=v4lue!\\nX=1\"}",
            "{\\\"password\\\": \\\"v4lue!\\\"}",
            "{user: a, password: v4lue!}",
            "os.environ[\"TOKEN\"] = \"v4lue!\"",
            "dbPass = v4lue!",
            "api_key=v4lue!",
            "ENV X_TOKEN v4lue!",
            "a\n  set -gx TOKEN v4lue!",
            "setenv DB_PASSWORD v4lue!",
            "password: >-\n  v4lue!",
            "db_password:\n    \"v4lue!\"",
            "x.password=\\\n    v4lue!",
            "password = \"\"\"\nv4lue!\"\"\"",
            "password = '''v4lue!'''",
        ] {
            assert_eq!(value(line), Some("v4lue!"), "{line}");
        }
    }

    #[test]
    fn code_templates_and_public_names_have_no_value() {
        for line in [
            "password: {{ password }}",
            "password=${DB_PASSWORD}",
            "password = \"${DB_PASSWORD}\"",
            "password = getpass()",
            "password = Password::new(x)",
            "password: !vault |",
            "password: *default",
            "password = f\"{user}x1\"",
            "password = $1pass",
            "token = <your-token>",
            "password: the word of the day",
            "tokenUrl = \"v4lue!\"",
            "token_length = 32",
            "secretName: v4lue!",
            "bypass: v4lue!",
            "passenger: v4lue!",
            "cache_key = \"v4lue!\"",
            "public_key = \"v4lue!\"",
            "tokenizer = \"v4lue!\"",
            "next_page_token = \"v4lue!\"",
            "token = [redacted:generic-secret:1]",
            "the ENV TOKEN v4lue!",
            "password: |\n  v4lue! of the day",
            "password:\n  v4lue!: string",
            "password:\nv4lue!",
            "password = \n  v4lue!",
            "password = \"\"\"",
            "x=<password>\n  HOST=v4lue!\n  PORT=1",
            "js-tokens: \"npm:^3.0.0 || ^4.0.0\"",
        ] {
            let found = value(line);
            assert!(found.is_none() || found == Some("$1pass"), "{line}: {found:?}");
        }
    }
}
