//! The claims that a sentence makes about each of its citations.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::forms::read_claims;
use super::{CitedClaim, CitedClaims};
use crate::operation::citations::Citation;

/// Text around a citation that counts as its sentence.
const SENTENCE_BYTES_MAX: usize = 2_000;

/// For each citation, in order: the claims that its sentence makes about it. `citations` are those of `text`;
/// `is_place` tells whether a text that begins with `/` names a file or folder of the repository.
pub(in crate::operation) fn claims_of(
    text: &str,
    citations: &[Citation],
    is_place: &dyn Fn(&str) -> bool,
) -> Vec<CitedClaims> {
    let blocks = code_blocks(text);
    let blank = without_citations(text, citations);
    let mut claims = Vec::with_capacity(citations.len());
    let mut end = 0;
    while let Some(citation) = citations.get(claims.len()) {
        let line = line_around(text, &citation.at);
        let is_line = text[line.clone()].trim_start().starts_with('|')
            || blocks.iter().any(|block| block.contains(&citation.at.start));
        let sentence = if is_line {
            line
        } else {
            sentence_around(text, &citation.at)
        };
        let rest = &citations[claims.len()..];
        let within = rest.iter().take_while(|other| other.at.start < sentence.end).count();
        let cited = &rest[..within.max(1)];
        let start = sentence.start.max(end);
        end = sentence.end.max(cited.last().map_or(0, |last| last.at.end));
        claims.extend(sentence_claims(&blank, start..end, cited, is_place));
    }
    claims
}

/// Replaces citations, and the code marks and quotation marks around them, by line breaks, so that the remaining marks
/// pair up. Positions stay the same.
fn without_citations(text: &str, citations: &[Citation]) -> String {
    let mut blank = text.to_owned().into_bytes();
    for citation in citations {
        blank[citation.at.clone()].fill(b'\n');
    }
    for marked in MARKED.find_iter(text) {
        let next = citations.partition_point(|citation| citation.at.end <= marked.start());
        if citations
            .get(next)
            .is_some_and(|citation| citation.at.start < marked.end())
        {
            let is_mark = |c: char| matches!(c, '`' | '"' | '\u{201c}' | '\u{201d}');
            let content = marked.as_str().trim_matches(is_mark);
            let start = marked.start() + marked.as_str().find(content).unwrap_or(0);
            blank[marked.start()..start].fill(b'\n');
            blank[start + content.len()..marked.end()].fill(b'\n');
        }
    }
    String::from_utf8(blank).expect("whole characters are replaced")
}

/// A span of code, or a quotation.
static MARKED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"`` [^\n]+? ``|`{1,2}[^`\n]+`{1,2}|["\u{201c}][^"\u{201c}\u{201d}\n]+["\u{201d}]"#;
    Regex::new(pattern).expect("a constant")
});

/// The claims of each citation of one sentence of `blank`. Adjacent citations without a word between them share their
/// claims.
fn sentence_claims(
    blank: &str,
    sentence: Range<usize>,
    citations: &[Citation],
    is_place: &dyn Fn(&str) -> bool,
) -> Vec<CitedClaims> {
    let between = |start: usize, end: usize| &blank[start.min(end)..end];
    let groups: Vec<&[Citation]> = citations
        .chunk_by(|one, next| !separates_citations(between(one.at.end, next.at.start)))
        .collect();
    let starts = groups.iter().map(|group| group[0].at.start);
    let ends = groups.iter().map(|group| group[group.len() - 1].at.end);
    let mut passages: Vec<SentencePart<'_>> = std::iter::once(sentence.start)
        .chain(ends)
        .zip(starts.chain([sentence.end]))
        .map(|(start, end)| SentencePart::parse_passage(between(start, end), is_place))
        .collect();
    let labels: Vec<Option<CitedClaim>> = passages[1..].iter_mut().map(SentencePart::take_label).collect();
    let shared = groups.iter().enumerate().flat_map(|(at, group)| {
        let (before, after) = (&passages[at], &passages[at + 1]);
        let is_last = at + 1 == groups.len();
        let has_before = !before.claims.is_empty() && (at == 0 || before.leads_on());
        let has_after = is_last || (after.follows() && !after.leads_on());
        let is_one_place = group.iter().all(|citation| citation.is_same_place(&group[0]));
        let mut claims = CitedClaims::default();
        if let Some(label) = &labels[at] {
            claims.claims.push(label.clone());
            return std::iter::repeat_n(claims, group.len());
        }
        if has_before {
            claims.take(before, before.defined_behind().filter(|_| is_one_place));
        }
        // "Unlike `a`, x.py:1 defines `b`": both may be claims about the place.
        if has_after && (!has_before || (!before.leads_on() && after.follows())) {
            claims.take(after, after.defined_before().filter(|_| is_one_place));
        }
        std::iter::repeat_n(claims, group.len())
    });
    shared.collect()
}

/// True if the text between two citations is more than a connective.
fn separates_citations(gap: &str) -> bool {
    let mut words = gap
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    gap.contains(['|', '>', '\u{2192}']) || words.any(|word| !matches!(word, "and" | "or" | "also" | "see"))
}

/// Text between two citations, or between one and an end of the sentence.
struct SentencePart<'t> {
    claims: Vec<CitedClaim>,
    /// The text around the claims, one more than there are claims.
    gaps: Vec<&'t str>,
}

impl<'t> SentencePart<'t> {
    fn parse_passage(text: &'t str, is_place: &dyn Fn(&str) -> bool) -> Self {
        let (mut claims, mut gaps, mut end) = (Vec::new(), Vec::new(), 0);
        for (claim, at) in read_claims(text, is_place) {
            gaps.push(&text[end..at.start]);
            claims.push(claim);
            end = at.end;
        }
        gaps.push(&text[end..]);
        Self { claims, gaps }
    }

    /// True if the claims belong to the preceding citation.
    fn follows(&self) -> bool {
        let gap = self.gaps[0].trim_start_matches(|c: char| c.is_whitespace() || ")]*_`\"'".contains(c));
        !self.claims.is_empty() && !BREAK.is_match(gap)
    }

    /// True if the claims belong to the following citation.
    fn leads_on(&self) -> bool {
        !self.claims.is_empty() && !BREAK.is_match(self.gaps[self.gaps.len() - 1])
    }

    /// Takes out the only claim in parentheses after a citation: "x.py:1 (`a`)".
    fn take_label(&mut self) -> Option<CitedClaim> {
        let is_label = self.gaps[0].trim() == "(" && self.gaps.get(1)?.starts_with(')');
        is_label.then(|| {
            self.gaps.remove(0);
            self.claims.remove(0)
        })
    }

    /// The claims at the end of "`a` and `b` are defined in".
    fn defined_behind(&self) -> Option<&[CitedClaim]> {
        let (last, gaps) = self.gaps.split_last()?;
        let listed = gaps
            .iter()
            .skip(1)
            .rev()
            .take_while(|gap| LISTING.is_match(gap))
            .count();
        IS_DEFINED
            .is_match(last)
            .then(|| &self.claims[self.claims.len().saturating_sub(listed + 1)..])
    }

    /// The claims at the beginning of "defines `a` and `b`".
    fn defined_before(&self) -> Option<&[CitedClaim]> {
        let listed = self.gaps[1..].iter().take_while(|gap| LISTING.is_match(gap)).count();
        DEFINES
            .is_match(self.gaps[0])
            .then(|| &self.claims[..self.claims.len().min(listed + 1)])
    }
}

impl CitedClaims {
    fn take(&mut self, passage: &SentencePart<'_>, defined: Option<&[CitedClaim]>) {
        self.claims.extend_from_slice(&passage.claims);
        self.defined.extend_from_slice(defined.unwrap_or_default());
        self.is_denial |= passage.gaps.iter().any(|gap| DENIAL.is_match(gap));
    }
}

/// The end of a clause or of a remark in parentheses.
static BREAK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[,;)]|\b(?:and|or|but|while|whereas)\b").expect("a constant"));

/// Text between two claims of a list.
static LISTING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\s*(?:,|(?:,\s*)?(?:and|&))\s*$").expect("a constant"));

static IS_DEFINED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^\W*(?:is|are)\s+(?:both\s+|all\s+)?(?:defined|declared)\s+(?:in|at|on|by)\W*$";
    Regex::new(pattern).expect("a constant")
});

static DEFINES: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^\W*(?:defines?|declares?)\s+(?:both\s+)?(?:the\s+\w+\s+)?\W*$";
    Regex::new(pattern).expect("a constant")
});

static DENIAL: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)\b(?:no|not|never|neither|nor|none|nothing|without|lacks?|missing|cannot)\b|n['\u{2019}]t\b";
    Regex::new(pattern).expect("a constant")
});

/// Fenced blocks of Markdown. Lines of a diagram or a program do not form a sentence.
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

/// The sentence or item of a list around a citation.
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
