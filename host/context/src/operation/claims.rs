//! The symbols, numbers and quotations that a sentence claims about a place it cites, and whether lines contain them.
//!
//! Pure text. A sentence often names more than the cited lines hold ("`parse` calls `read_token`"), so one of its claims
//! has to be there, not all of them. Words that could as well be prose are no claims.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::citations::Citation;
use tool_repository::file_role;

/// Claims of one citation. A sentence with more of them is a list, and a few decide.
const CLAIMS_MAX: usize = 24;

/// Longest claim in bytes: a quotation of a few lines.
const CLAIM_BYTES_MAX: usize = 400;

/// Text around a citation that counts as its sentence.
const SENTENCE_BYTES_MAX: usize = 2_000;

/// Digits of the shortest number that is a claim. Shorter ones number steps and parts.
const NUMBER_DIGITS_MIN: usize = 2;

/// One claim about cited lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// A name, without what it belongs to and without its arguments.
    Symbol(String),
    /// Digits without separators.
    Number(String),
    /// Text with single spaces.
    Quotation(String),
}

impl Claim {
    /// The claim as it is named in a message.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Symbol(text) | Self::Number(text) | Self::Quotation(text) => text,
        }
    }

    fn is_in(&self, lines: &CitedText) -> bool {
        match self {
            Self::Symbol(name) => contains_word(&lines.text, name),
            Self::Number(digits) => NUMBER
                .find_iter(&lines.text)
                .any(|found| plain_number(found.as_str()) == *digits),
            Self::Quotation(text) => lines.spaced.contains(text.as_str()) || contains_words(&lines.text, text),
        }
    }
}

/// Cited lines, ready to be compared.
pub(super) struct CitedText {
    text: String,
    /// With every run of white space as one space.
    spaced: String,
}

impl CitedText {
    pub(super) fn new(lines: &[u8]) -> Self {
        let text = String::from_utf8_lossy(lines).into_owned();
        Self {
            spaced: single_spaces(&text),
            text,
        }
    }

    /// True where one of the claims is in the lines.
    pub(super) fn supports(&self, claims: &[Claim]) -> bool {
        claims.iter().any(|claim| claim.is_in(self))
    }
}

/// By citation, in their order: the claims of its sentence. `citations` are those of `text`.
pub(super) fn claims_of(text: &str, citations: &[Citation]) -> Vec<Vec<Claim>> {
    let blocks = code_blocks(text);
    let mut found: Vec<Vec<Claim>> = Vec::with_capacity(citations.len());
    for (at, citation) in citations.iter().enumerate() {
        let is_code = blocks.iter().any(|block| block.contains(&citation.at.start));
        let sentence = if is_code {
            line_around(text, &citation.at)
        } else {
            sentence_around(text, &citation.at)
        };
        let previous = at.checked_sub(1).map(|at| citations[at].at.end);
        let before = sentence.start.max(previous.unwrap_or(0)).min(citation.at.start)..citation.at.start;
        let next = citations.get(at + 1).map_or(text.len(), |next| next.at.start);
        let after = citation.at.end..sentence.end.min(next).max(citation.at.end);
        let gap = &text[before.clone()];
        let is_listed = previous.is_some_and(|end| end >= sentence.start) && !gap_speaks(gap);
        let mut claims = match found.last() {
            Some(last) if is_listed => last.clone(),
            _ => read_claims(gap),
        };
        if claims.is_empty() {
            claims = read_claims(&text[after]);
        }
        found.push(claims);
    }
    found
}

/// Fenced blocks of Markdown. The lines of a diagram or a program are no sentence together.
fn code_blocks(text: &str) -> Vec<Range<usize>> {
    let (mut blocks, mut opened, mut at) = (Vec::new(), None, 0);
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        match opened {
            Some(start) if is_fence => {
                blocks.push(start..at);
                opened = None;
            }
            None if is_fence => opened = Some(at),
            _ => {}
        }
        at += line.len();
    }
    blocks.extend(opened.map(|start| start..at));
    blocks
}

fn line_around(text: &str, at: &Range<usize>) -> Range<usize> {
    let start = text[..at.start].rfind('\n').map_or(0, |end| end + 1);
    let end = text[at.end..].find('\n').map_or(text.len(), |length| at.end + length);
    start..end
}

/// True where text between two citations says more than that the second one belongs to the first.
fn gap_speaks(gap: &str) -> bool {
    let words = gap.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .any(|word| !matches!(word, "and" | "or" | "also" | "see"))
}

/// The sentence, item of a list, or cell of a table around a citation.
fn sentence_around(text: &str, at: &Range<usize>) -> Range<usize> {
    let first = text.floor_char_boundary(at.start.saturating_sub(SENTENCE_BYTES_MAX));
    let last = text.ceil_char_boundary((at.end + SENTENCE_BYTES_MAX).min(text.len()));
    let start = BOUNDARY
        .find_iter(&text[first..at.start])
        .last()
        .map_or(first, |found| first + found.end());
    let end = BOUNDARY
        .find(&text[at.end..last])
        .map_or(last, |found| at.end + found.start());
    start..end
}

/// The end of a sentence, or of a block of Markdown.
static BOUNDARY: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x)
        [.!?] [")*_]{0,3} (?: \x20+ | \n )
      | \n [\x20\t]* (?: \n | [-*+>|\#] | \d{1,3}[.)]\x20 )
      | \x20 \| \x20"#;
    Regex::new(pattern).expect("a constant")
});

/// A span of code, a quotation, a name in bold, a name in prose, a number: the first form that fits.
static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x)
        `{1,2} (?P<code> [^`\n]{1,400} ) `{1,2}
      | ["\u{201c}] (?P<quotation> [^"\u{201c}\u{201d}\n]{3,400} ) ["\u{201d}]
      | (?P<call> [A-Za-z_][\w.:]* ) \( [^()\n]{0,80} \)
      | (?P<name> \b [A-Za-z]\w* (?: _\w+ | :: \w+ )+ | \b_\w{2,} | \b [a-z]{2,} (?: [A-Z][a-z]+ ){1,6} \b )
      | (?P<number> (?: ^ | [\s(=~\u{2248}\u{b1}$\u{20ac}-] ) \d [\d,_]* (?: \.\d+ )? \b )"#;
    Regex::new(pattern).expect("a constant")
});

/// Digits of a line, with their separators.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d[\d_,]*(?:\.\d+)?").expect("a constant"));

/// A name with what it belongs to, and the call of it.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^[@&*.$#]{0,2}(?:[A-Za-z_$][\w$]*(?:\.|::|->|\#|\\))*(?P<name>[A-Za-z_$][\w$]*)[!?]?(?:\(.*\))?$";
    Regex::new(pattern).expect("a constant")
});

fn read_claims(text: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    for found in FORM.captures_iter(text) {
        let claim = if let Some(code) = found.name("code") {
            of_code(code.as_str())
        } else if let Some(quotation) = found.name("quotation") {
            of_code(quotation.as_str())
        } else if let Some(name) = found.name("call").or_else(|| found.name("name")) {
            // A name that goes on as a path is none.
            let goes_on = text[name.end()..].starts_with(['/', '-', '.', '\\']);
            (!goes_on).then(|| of_code(name.as_str())).flatten()
        } else {
            found.name("number").and_then(|number| of_number(text, number.range()))
        };
        claims.extend(claim.filter(|claim| !claims.contains(claim)));
        if claims.len() >= CLAIMS_MAX {
            break;
        }
    }
    claims
}

/// The claim of marked text: a name, or a quotation; none for a path, an address or a sign.
fn of_code(text: &str) -> Option<Claim> {
    let text = text.trim();
    let is_address = text.contains("://") && !text.contains(' ');
    if text.len() > CLAIM_BYTES_MAX || is_address || is_path(text) {
        return None;
    }
    if let Some(named) = NAMED.captures(text) {
        return Some(Claim::Symbol(named["name"].to_owned()));
    }
    let quotation = single_spaces(text);
    let says_something = quotation.chars().filter(|c| c.is_alphanumeric()).count() >= 2;
    says_something.then_some(Claim::Quotation(quotation))
}

fn is_path(text: &str) -> bool {
    let is_word = !text.contains(char::is_whitespace);
    // `Plug.Parsers.JSON` is a name: endings are written small.
    let ends_small = |ending: &str| !ending.contains(char::is_uppercase);
    let has_ending = text
        .rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && ends_small(ending));
    is_word && (text.contains('/') || has_ending && file_role::language(text).is_some())
}

fn of_number(text: &str, at: Range<usize>) -> Option<Claim> {
    let rest = &text[at.end..];
    let goes_on = rest
        .trim_start_matches(['.', ':', '/', '-'])
        .starts_with(char::is_alphanumeric);
    // "143 files" and "62 kB" are measured over many lines; "30 seconds" is a value.
    let next = rest.strip_prefix(' ').unwrap_or_default();
    let word = next.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let counts_things = word.starts_with(char::is_alphabetic) && !UNITS.contains(&word);
    let digits = plain_number(&text[at]);
    let is_long = digits.chars().filter(char::is_ascii_digit).count() >= NUMBER_DIGITS_MIN;
    (is_long && !goes_on && !counts_things).then_some(Claim::Number(digits))
}

/// Words behind a number that is a value and counts nothing.
const UNITS: [&str; 13] = [
    "s",
    "ms",
    "seconds",
    "milliseconds",
    "minutes",
    "hours",
    "days",
    "bytes",
    "KiB",
    "MiB",
    "GiB",
    "by",
    "at",
];

fn plain_number(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect()
}

fn single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True where the text holds each word of a quotation: a manifest says `serde = "1.0"` where a list says `serde 1.0`.
fn contains_words(text: &str, quotation: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = quotation
        .split(|c: char| !is_name(c))
        .filter(|word| !word.is_empty())
        .peekable();
    words.peek().is_some() && words.all(|word| contains_word(text, word))
}

/// True where the text holds the word between bytes that no name holds.
fn contains_word(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::citations::parse;

    /// The claims of each citation of a text, as one line a citation.
    fn shown(text: &str) -> String {
        let (citations, _) = parse(text);
        let claims = claims_of(text, &citations);
        let line = |(citation, claims): (&Citation, Vec<Claim>)| {
            let named: Vec<String> = claims.iter().map(|claim| format!("{claim:?}")).collect();
            format!("{citation}: {}", named.join(", "))
        };
        citations.iter().zip(claims).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_sentence_claims_names_numbers_and_quotations() {
        insta::assert_snapshot!(
            shown(
                "The class `Command` runs (src/a.py:1). It waits 30 seconds in src/a.py:2, raises \"no such file\" at \
                 src/a.py:3 and calls read_token() from src/a.py:4. See `src/core.py` and src/a.py:5.\n\n\
                 - `Shop.open(name)` — src/a.py:6\n- The limit is 1,000: src/a.py:7 and src/a.py:8\n\
                 - It has 3 parts: src/a.py:9\n\nIn src/a.py:10, parseHeader reads the rest.\n\n\
                 It has `Shop.JSON` (src/a.py:11) and `Shop.TOML` (src/a.py:12)."
            ),
            @r#"
        src/a.py:1: Symbol("Command")
        src/a.py:2: Number("30")
        src/a.py:3: Quotation("no such file")
        src/a.py:4: Symbol("read_token")
        src/a.py:5: 
        src/a.py:6: Symbol("open")
        src/a.py:7: Number("1000")
        src/a.py:8: Number("1000")
        src/a.py:9: 
        src/a.py:10: Symbol("parseHeader")
        src/a.py:11: Symbol("JSON")
        src/a.py:12: Symbol("TOML")
        "#
        );
    }

    #[test]
    fn lines_support_a_claim_that_they_contain_whole() {
        let lines = CitedText::new(b"def open_all(self):\n    limit = 1_000\n    raise  Error(\"x\")\n");
        for (claim, expected) in [
            (Claim::Symbol("open_all".to_owned()), true),
            (Claim::Symbol("open".to_owned()), false),
            (Claim::Number("1000".to_owned()), true),
            (Claim::Number("100".to_owned()), false),
            (Claim::Quotation("raise Error(".to_owned()), true),
            (Claim::Quotation("raise Problem".to_owned()), false),
        ] {
            assert_eq!(lines.supports(std::slice::from_ref(&claim)), expected, "{claim:?}");
        }
    }

    #[test]
    fn lines_of_a_code_block_are_no_sentence_together() {
        insta::assert_snapshot!(
            shown(
                "```mermaid\ngraph LR\n  n1[\"top level (src/a.js:5)\"]\n  n2[\"readPrice (src/b.js:3)\"]\n  \
                 n3([\"7 callers\"])\n```\n\nThe class `Cart`\nis in src/a.js:7."
            ),
            @r#"
        src/a.js:5: 
        src/b.js:3: Symbol("readPrice")
        src/a.js:7: Symbol("Cart")
        "#
        );
    }

    #[test]
    fn a_long_text_without_an_end_is_read_only_near_the_citation() {
        let text = format!("`Far` {} src/a.py:1", "word ".repeat(10_000));
        assert_eq!(shown(&text), "src/a.py:1: ");
    }
}
