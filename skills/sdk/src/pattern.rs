//! Regular expressions over lines, as `grep` understands them, with messages for invalid patterns.
//!
//! A match never crosses a line break, and `^` and `$` match at the ends of a line. A file is still searched as one
//! buffer, because line borders are only needed around a match. For this, line breaks are taken out of the classes of
//! the parsed pattern: `\s` or `[^a]` would match them.

use std::ops::Range;

use regex_automata::meta::{BuildError, Config, Regex};
use regex_automata::util::syntax::Config as Syntax;
use regex_automata::{Input, meta};
use regex_syntax::hir::{Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind};
use regex_syntax::hir::{Literal, Repetition};
use serde::Deserialize;

use crate::{Failure, SearchPattern};

/// Limit for a compiled pattern. `\w{1000}` needs more.
const PATTERN_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Case sensitivity of a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// Upper and lower case differ.
    #[default]
    Sensitive,
    /// Upper and lower case are the same.
    Insensitive,
    /// Insensitive, unless the pattern has an upper-case letter.
    Smart,
}

/// A compiled pattern.
///
/// ```
/// use skill_sdk::pattern::{Case, Pattern};
///
/// let pattern = Pattern::new("fn +main", false, Case::Smart)?;
/// let text = b"use a;\nfn  main() {}\n";
/// assert_eq!(pattern.next_line(text, 0), Some(7..20));
/// # Ok::<(), skill_sdk::Failure>(())
/// ```
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    source: SearchPattern,
}

impl Pattern {
    /// Compiles `pattern`. With `literal` every character matches itself.
    ///
    /// # Errors
    ///
    /// [`code::INVALID_ARGUMENTS`](crate::code::INVALID_ARGUMENTS) with the position of the mistake, or if the
    /// pattern contains a line break. A pattern that needs more than 8 MiB is refused as well.
    pub fn new(pattern: &str, literal: bool, case: Case) -> Result<Self, Failure> {
        let source = if literal {
            regex_syntax::escape(pattern)
        } else {
            pattern.to_owned()
        };
        let insensitive = match case {
            Case::Sensitive => false,
            Case::Insensitive => true,
            Case::Smart => !has_upper_case(&source),
        };
        let parsed = regex_syntax::ParserBuilder::new()
            .multi_line(true)
            .crlf(true)
            .utf8(false)
            .case_insensitive(insensitive)
            .build()
            .parse(&source)
            .map_err(|error| pattern_failure(pattern, &error))?;
        let parsed = within_line(&parsed).ok_or_else(|| {
            Failure::invalid("the pattern contains a line break, but lines are searched one by one")
                .with_hint("search for one of the lines and read its surroundings")
        })?;
        let config = Config::new().utf8_empty(false).nfa_size_limit(Some(PATTERN_BYTES_MAX));
        let regex = meta::Builder::new()
            .configure(config)
            .syntax(Syntax::new().utf8(false))
            .build_from_hir(&parsed)
            .map_err(|error| too_large(&error))?;
        let kind = if literal { "literal" } else { "regex" };
        let source = SearchPattern {
            kind: kind.to_owned(),
            text: pattern.to_owned(),
            ignore_case: insensitive,
        };
        Ok(Self { regex, source })
    }

    /// The pattern as the host takes it, to leave out files that cannot match.
    pub fn source(&self) -> &SearchPattern {
        &self.source
    }

    /// True if the pattern matches anywhere in `line`.
    pub fn is_match(&self, line: &[u8]) -> bool {
        self.regex.is_match(line)
    }

    /// The range of the first match in `line`, in bytes.
    pub fn find(&self, line: &[u8]) -> Option<Range<usize>> {
        self.regex.find(line).map(|found| found.range())
    }

    /// The range of the first matching line at or after `from`, in bytes and without the line break. `from` must be
    /// the start of a line.
    pub fn next_line(&self, text: &[u8], from: usize) -> Option<Range<usize>> {
        if from >= text.len() {
            return None;
        }
        let found = self.regex.search_half(&Input::new(text).range(from..))?.offset();
        // The pattern matched the empty text after the last line break, which is not a line.
        if found == text.len() && text.last() == Some(&b'\n') {
            return None;
        }
        let start = memchr::memrchr(b'\n', &text[from..found]).map_or(from, |at| from + at + 1);
        let end = memchr::memchr(b'\n', &text[found..]).map_or(text.len(), |at| found + at);
        Some(start..end)
    }
}

/// True if the pattern contains a literal upper-case letter. `\W` and `\p{Lu}` contain none.
fn has_upper_case(pattern: &str) -> bool {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                let braced = matches!(characters.next(), Some('p' | 'P' | 'x' | 'u' | 'U'));
                if braced && characters.as_str().starts_with('{') {
                    characters.by_ref().find(|&c| c == '}');
                }
            }
            character if character.is_uppercase() => return true,
            _ => {}
        }
    }
    false
}

/// Removes line breaks from the classes of the pattern; `None` if it needs one.
fn within_line(hir: &Hir) -> Option<Hir> {
    let all = |parts: &[Hir]| parts.iter().map(within_line).collect::<Option<Vec<Hir>>>();
    Some(match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Look(look) => Hir::look(*look),
        HirKind::Literal(Literal(bytes)) if bytes.contains(&b'\n') => return None,
        HirKind::Literal(Literal(bytes)) => Hir::literal(bytes.clone()),
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(within_line(&repetition.sub)?),
            ..repetition.clone()
        }),
        HirKind::Capture(capture) => Hir::capture(Capture {
            sub: Box::new(within_line(&capture.sub)?),
            ..capture.clone()
        }),
        HirKind::Concat(parts) => Hir::concat(all(parts)?),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)?),
    })
}

fn too_large(error: &BuildError) -> Failure {
    match error.size_limit() {
        Some(_) => {
            Failure::invalid("the pattern is too large once compiled").with_hint("use smaller repetition counts")
        }
        None => Failure::invalid(format!("the pattern cannot be used: {error}")),
    }
}

/// Describes the mistake in the pattern, and points at it.
fn pattern_failure(pattern: &str, error: &regex_syntax::Error) -> Failure {
    let (what, span) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span()),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span()),
        other => return Failure::invalid(format!("invalid regular expression: {other}")),
    };
    let line = pattern.lines().nth(span.start.line - 1).unwrap_or_default();
    let column = span.start.column;
    let width = if span.is_one_line() {
        span.end.column.saturating_sub(column).max(1)
    } else {
        1
    };
    let indent: String = line
        .chars()
        .take(column - 1)
        .map(|character| if character == '\t' { '\t' } else { ' ' })
        .collect();
    let message = format!(
        "invalid regular expression at column {column}: {what}\n    {line}\n    {indent}{}",
        "^".repeat(width)
    );
    let hint = if what.contains("look-around") || what.contains("backreferences") {
        "write the pattern without look-around and backreferences, and filter the results yourself"
    } else {
        "escape characters that stand for themselves with `\\`, or set `literal` to true"
    };
    Failure::invalid(message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::{Case, Pattern, has_upper_case};

    fn lines<'a>(pattern: &str, text: &'a str) -> Vec<&'a str> {
        let pattern = Pattern::new(pattern, false, Case::Sensitive).expect("the pattern is right");
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(line) = pattern.next_line(text.as_bytes(), from) {
            from = line.end + 1;
            found.push(&text[line]);
        }
        found
    }

    #[test]
    fn a_match_stays_on_its_line() {
        assert_eq!(lines(r"a\s+b", "a\nb\na  b\n"), ["a  b"]);
        assert_eq!(lines("a[^x]*b", "a\nb\naxb\na-b"), ["a-b"]);
        assert_eq!(lines("(?s)a.*b", "a\nb\nab"), ["ab"]);
        assert_eq!(lines(r"\S*", "a\n\nb\n"), ["a", "", "b"]);
    }

    #[test]
    fn anchors_are_the_borders_of_a_line() {
        assert_eq!(lines("^b$", "ab\nb\r\nbc\nb"), ["b\r", "b"]);
        assert_eq!(lines("^$", "a\n\nb\n"), [""]);
        assert_eq!(lines("^$", ""), [] as [&str; 0]);
        assert_eq!(lines("x?$", "ax\nb\n"), ["ax", "b"]);
        assert_eq!(lines(r"\bfoo\b", "foobar\nfoo.bar\nä foo\n"), ["foo.bar", "ä foo"]);
    }

    #[test]
    fn cases() {
        let matches = |pattern, case, text: &str| {
            let pattern = Pattern::new(pattern, false, case).expect("the pattern is right");
            pattern.is_match(text.as_bytes())
        };
        assert!(!matches("über", Case::Sensitive, "ÜBER"));
        assert!(matches("über", Case::Insensitive, "ÜBER"));
        assert!(matches(r"\Wfoo", Case::Smart, " FOO"));
        assert!(!matches("Foo", Case::Smart, "FOO"));
        assert!(!has_upper_case(r"\p{Lu}\S\x{AB}"));
        assert!(has_upper_case(r"\p{Lu}A"));
    }

    #[test]
    fn a_mistake_is_pointed_at() {
        let message = |pattern| {
            let failure = Pattern::new(pattern, false, Case::Sensitive).expect_err("the pattern is wrong");
            failure.message
        };
        insta::assert_snapshot!(message("foo(bar"), @r"
        invalid regular expression at column 4: unclosed group
            foo(bar
               ^
        ");
        insta::assert_snapshot!(message(r"ü\p{Nope}x"), @r"
        invalid regular expression at column 2: Unicode property not found
            ü\p{Nope}x
             ^^^^^^^^
        ");
        insta::assert_snapshot!(message("a(?=b)"), @r"
        invalid regular expression at column 2: look-around, including look-ahead and look-behind, is not supported
            a(?=b)
             ^^^
        ");
        insta::assert_snapshot!(message("a\\nb"), @"the pattern contains a line break, but lines are searched one by one");
        insta::assert_snapshot!(message(r"(\w{1000}){1000}"), @"the pattern is too large once compiled");
    }
}
