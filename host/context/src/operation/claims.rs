//! The symbols, numbers, quotations and routes that a sentence claims about a cited place, and whether the lines
//! contain them.
//!
//! Pure text. Each claim belongs to at most one citation of its sentence. A sentence often names more than the cited
//! lines hold ("`parse` calls `read_token`"), so a claim is refuted only if all claims of its citation are missing, or
//! if the sentence says that the name is defined there. Words that may be prose are not claims.

use std::sync::LazyLock;

use regex::Regex;

mod forms;
mod sentences;

pub(super) use sentences::claims_of;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CitedClaim {
    /// A name without qualifier and arguments.
    Symbol(String),
    /// Digits without separators.
    Number(String),
    /// Text with single spaces.
    Quotation(String),
    /// Address below a server, from its first `/`.
    Route(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CitedClaims {
    claims: Vec<CitedClaim>,
    /// The claims that the sentence says are defined at the cited place.
    defined: Vec<CitedClaim>,
    /// True for a denial: "`a` never calls `b`" holds for lines without `b`.
    is_denial: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimVerdict<'c> {
    /// The lines contain each symbol, number and route, or one of the quotations.
    Holds,
    /// The lines decide nothing.
    Open,
    /// The lines contradict the sentence: they lack this claim.
    Lacks(&'c CitedClaim),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimEvidence {
    InLines,
    /// The path contains the claim, or the lines contain a part of it.
    Partial,
    Missing,
}

impl CitedClaim {
    /// The claim as it is named in a message.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Symbol(text) | Self::Number(text) | Self::Quotation(text) | Self::Route(text) => text,
        }
    }

    fn is_in(&self, lines: &CitedText) -> bool {
        match self {
            Self::Symbol(name) => contains_word(&lines.text, name),
            Self::Number(digits) => NUMBER
                .find_iter(&lines.text)
                .any(|found| plain_number(found.as_str()) == *digits),
            Self::Quotation(text) => lines.spaced.contains(text.as_str()) || contains_words(&lines.text, text),
            Self::Route(route) => contains_route(&lines.text, route),
        }
    }

    fn is_partly_in(&self, lines: &CitedText, path: &str) -> bool {
        match self {
            Self::Symbol(text) => is_part_of(path, text),
            // The version of a package is often on the line below its name.
            Self::Quotation(text) => {
                let has_number = NUMBER.find_iter(&lines.text).any(|found| {
                    let before = lines.text[..found.start()].chars().next_back();
                    !before.is_some_and(is_name)
                });
                let mut names = split_words(text)
                    .filter(|word| word.contains(char::is_alphabetic))
                    .peekable();
                let has_names = names.peek().is_some() && names.all(|name| contains_word(&lines.text, name));
                is_part_of(path, text) || (has_names && !has_number)
            }
            // A route is often composed of a prefix, a rest and parameter names, in different places.
            Self::Route(route) => {
                let mut words = literal_parts(route).peekable();
                words.peek().is_none()
                    || words.any(|word| is_part_of(path, word) || contains_word(&lines.text, word))
                    // The path of a group itself.
                    || ["\"/\"", "'/'", "\"\""].iter().any(|rest| lines.text.contains(rest))
            }
            Self::Number(_) => false,
        }
    }
}

pub(super) struct CitedText {
    text: String,
    /// The text with single spaces.
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

    fn evidence(&self, claim: &CitedClaim, path: &str) -> ClaimEvidence {
        if claim.is_in(self) {
            ClaimEvidence::InLines
        } else if claim.is_partly_in(self, path) {
            ClaimEvidence::Partial
        } else {
            ClaimEvidence::Missing
        }
    }
}

impl CitedClaims {
    pub(super) fn count(&self) -> usize {
        self.claims.len()
    }

    /// Compares the claims with the cited lines of the file at `path`.
    pub(super) fn compare(&self, lines: &CitedText, path: &str) -> ClaimVerdict<'_> {
        let evidence: Vec<ClaimEvidence> = self.claims.iter().map(|claim| lines.evidence(claim, path)).collect();
        let has = |wanted| evidence.contains(&wanted);
        let is_all_missing = !has(ClaimEvidence::InLines) && !has(ClaimEvidence::Partial);
        let missing = self.claims.iter().zip(&evidence);
        let mut missing = missing
            .filter(|(_, found)| **found == ClaimEvidence::Missing)
            .map(|(claim, _)| claim);
        let is_refuted = |claim: &&CitedClaim| !self.is_denial && (is_all_missing || self.defined.contains(claim));
        // A command such as `npm test` follows from the lines without being in them.
        let is_loose = |claim: &CitedClaim| matches!(claim, CitedClaim::Quotation(_));
        if let Some(claim) = missing.clone().find(is_refuted) {
            ClaimVerdict::Lacks(claim)
        } else if has(ClaimEvidence::InLines) && missing.all(is_loose) {
            ClaimVerdict::Holds
        } else {
            ClaimVerdict::Open
        }
    }
}

/// Digits of a line, with their separators.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d[\d_,]*(?:\.\d+)?").expect("a constant"));

fn plain_number(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect()
}

/// True if a part of the path, with or without extension, equals this text.
fn is_part_of(path: &str, text: &str) -> bool {
    path.split('/')
        .any(|part| part == text || part.split_once('.').is_some_and(|(stem, _)| stem == text))
}

/// Parts of a route without parameters.
fn literal_parts(route: &str) -> impl Iterator<Item = &str> {
    let is_word = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    route.split('/').filter(is_word)
}

/// True if the text contains the whole route, and not as part of a longer one. Some frameworks omit the `/` at the
/// ends.
fn contains_route(text: &str, route: &str) -> bool {
    let core = route.trim_matches('/');
    let is_more = |c: char| c.is_alphanumeric() || "_-<>{}:[]*".contains(c);
    text.match_indices(core).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + core.len()..]);
        let is_begun = match before.strip_suffix('/') {
            Some(before) => !before.ends_with(is_more),
            None => before.ends_with(['"', '\'', '`']),
        };
        let is_ended = match after.strip_prefix('/') {
            Some(after) => !after.starts_with(is_more),
            None => !after.starts_with(|c: char| c != ':' && is_more(c)),
        };
        is_begun && is_ended
    })
}

fn single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True if the text contains each word of a quotation: a manifest says `serde = "1.0"`, and a list says `serde 1.0`.
fn contains_words(text: &str, quotation: &str) -> bool {
    let mut words = split_words(quotation).peekable();
    words.peek().is_some() && words.all(|word| contains_word(text, word))
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_name(c)).filter(|word| !word.is_empty())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// True if the text contains the word between bytes that are not part of names.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests;
