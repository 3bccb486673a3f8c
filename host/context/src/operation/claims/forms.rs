//! The forms that a claim has in a text: a span of code, a quotation, a name, a number.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use tool_repository::file_role;

use super::{CitedClaim, plain_number, single_spaces};

/// Claims between two citations. A sentence with more of them is a list, and a few decide.
const CLAIMS_MAX: usize = 24;

/// Longest claim in bytes: a quotation of a few lines.
const CLAIM_BYTES_MAX: usize = 400;

/// Digits of the shortest number that is a claim. Shorter ones number steps and parts.
const NUMBER_DIGITS_MIN: usize = 2;

/// A span of code, a quotation, a name in bold, a name in prose, a number: the first form that fits.
static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x)
        ``\x20 (?P<marked> [^\n]{1,400}? ) \x20``
      | `{1,2} (?P<code> [^`\n]{1,400} ) `{1,2}
      | ["\u{201c}] (?P<quotation> [^"\u{201c}\u{201d}\n]{3,400} ) ["\u{201d}]
      | (?P<call> [A-Za-z_][\w.:]* ) \( (?: [^()\n]{3,80} )? \)
      | (?P<name> \b [A-Za-z]\w* (?: _\w+ | :: \w+ )+ | \b_\w{2,} | \b [a-z]{2,} (?: [A-Z][a-z]+ ){1,6} \b )
      | (?P<number> (?: ^ | [\s(=~\u{2248}\u{b1}$\u{20ac}-] ) \d [\d,_]* (?: \.\d+ )? \b )"#;
    Regex::new(pattern).expect("a constant")
});

/// A name with its qualifier and call parentheses.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^[@&*.$#]{0,2}(?:[A-Za-z_$][\w$]*(?:\.|::|->|\#|\\))*(?P<name>[A-Za-z_$][\w$]*)[!?]?(?:\(.*\))?$";
    Regex::new(pattern).expect("a constant")
});

/// Claims of a text with their places in it.
pub(super) fn read_claims(text: &str, is_place: &dyn Fn(&str) -> bool) -> Vec<(CitedClaim, Range<usize>)> {
    let mut claims = Vec::new();
    for found in FORM.captures_iter(text) {
        let quoted = ["marked", "code", "quotation"];
        let claim = if let Some(marked) = quoted.iter().find_map(|form| found.name(form)) {
            of_marked(marked.as_str(), is_place)
        } else if let Some(name) = found.name("call").or_else(|| found.name("name")) {
            // The name continues as a path, so it is not a symbol.
            let goes_on = text[name.end()..].starts_with(['/', '-', '.', '\\']);
            (!goes_on).then(|| of_marked(name.as_str(), is_place)).flatten()
        } else {
            found.name("number").and_then(|number| of_number(text, number.range()))
        };
        claims.extend(claim.map(|claim| (claim, found.get_match().range())));
        if claims.len() >= CLAIMS_MAX {
            break;
        }
    }
    claims
}

/// The claim of marked text: a name, a route or a quotation; `None` for a path, an address or a sign.
fn of_marked(text: &str, is_place: &dyn Fn(&str) -> bool) -> Option<CitedClaim> {
    let text = METHOD
        .captures(text.trim())
        .map_or(text.trim(), |request| request.extract::<1>().1[0]);
    let is_address = text.contains("://") && !text.contains(' ');
    if text.len() > CLAIM_BYTES_MAX || is_address {
        return None;
    }
    let says_something = text.chars().filter(|c| c.is_alphanumeric()).count() >= 2;
    if ROUTE.is_match(text) {
        let is_route = says_something && !has_file_ending(text) && !is_place(text);
        return is_route.then(|| CitedClaim::Route(text.to_owned()));
    }
    if is_path(text) {
        return None;
    }
    if let Some(named) = NAMED.captures(text) {
        return Some(CitedClaim::Symbol(named["name"].to_owned()));
    }
    says_something.then(|| CitedClaim::Quotation(single_spaces(text)))
}

/// A route with its method.
static METHOD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\s+(/\S*)$").expect("a constant"));

static ROUTE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^/[^/\s]\S*$").expect("a constant"));

fn is_path(text: &str) -> bool {
    !text.contains(char::is_whitespace) && (text.contains('/') || has_file_ending(text))
}

fn has_file_ending(text: &str) -> bool {
    // `Plug.Parsers.JSON` is a name: file extensions are in lower case.
    let ends_small = |ending: &str| !ending.contains(char::is_uppercase);
    let has_ending = text
        .rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && ends_small(ending));
    has_ending && file_role::detect_language(text).is_some()
}

fn of_number(text: &str, at: Range<usize>) -> Option<CitedClaim> {
    let rest = &text[at.end..];
    let goes_on = rest
        .trim_start_matches(['.', ':', '/', '-'])
        .starts_with(char::is_alphanumeric);
    // "143 files" and "62 kB" are measured over many lines; "30 seconds" is a value.
    let next = rest.strip_prefix(' ').unwrap_or_default();
    let word = next.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    // A number alone in a table cell counts the things in the head of its column.
    let is_cell = rest.trim_start().starts_with('|');
    let counts_things = is_cell || (word.starts_with(char::is_alphabetic) && !UNITS.contains(&word));
    let digits = plain_number(&text[at]);
    let is_long = digits.chars().filter(char::is_ascii_digit).count() >= NUMBER_DIGITS_MIN;
    (is_long && !goes_on && !counts_things).then_some(CitedClaim::Number(digits))
}

/// Words after a number that is a value, not a count.
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
