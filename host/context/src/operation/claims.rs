//! The symbols, numbers, quotations and routes that a sentence claims about a place it cites, and whether lines contain
//! them.
//!
//! Pure text. Each claim belongs to one citation of its sentence at most. A sentence often names more than the cited
//! lines hold ("`parse` calls `read_token`"), so a claim is refuted only if all claims of its citation are missing, or if
//! the sentence says that it is defined there. Words that could as well be prose are no claims.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::citations::Citation;
use tool_repository::file_role;

/// Claims between two citations. A sentence with more of them is a list, and a few decide.
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
    /// Address below a server, from its first `/`.
    Route(String),
}

/// The claims of one citation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CitedClaims {
    claims: Vec<Claim>,
    /// Those that the sentence says are defined at the cited place.
    defined: Vec<Claim>,
    /// True where the sentence denies something: "`a` never calls `b`" is true of lines without `b`.
    is_denial: bool,
}

/// Result of comparing claims with lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimVerdict<'c> {
    /// The lines contain each symbol, number and route, or one of the quotations.
    Holds,
    /// The lines decide nothing.
    Open,
    /// The lines contradict the sentence, for they do not contain this claim.
    Lacks(&'c Claim),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    InLines,
    /// The path says it, or the lines hold a part of it.
    Partial,
    Missing,
}

impl Claim {
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
            // The version of a package often has a line of its own below the name.
            Self::Quotation(text) => {
                let has_number = NUMBER.find_iter(&lines.text).any(|found| {
                    let before = lines.text[..found.start()].chars().next_back();
                    !before.is_some_and(is_name)
                });
                let mut names = words(text).filter(|word| word.contains(char::is_alphabetic)).peekable();
                let has_names = names.peek().is_some() && names.all(|name| contains_word(&lines.text, name));
                is_part_of(path, text) || (has_names && !has_number)
            }
            // A route is often put together of a prefix, the rest and names of parameters, each in a place of its own.
            Self::Route(route) => {
                let mut words = literal_parts(route).peekable();
                words.peek().is_none() || words.any(|word| is_part_of(path, word) || contains_word(&lines.text, word))
            }
            Self::Number(_) => false,
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

    fn evidence(&self, claim: &Claim, path: &str) -> Evidence {
        if claim.is_in(self) {
            Evidence::InLines
        } else if claim.is_partly_in(self, path) {
            Evidence::Partial
        } else {
            Evidence::Missing
        }
    }
}

impl CitedClaims {
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Compares the claims with the cited lines of the file at `path`.
    pub(super) fn compare(&self, lines: &CitedText, path: &str) -> ClaimVerdict<'_> {
        let evidence: Vec<Evidence> = self.claims.iter().map(|claim| lines.evidence(claim, path)).collect();
        let has = |wanted| evidence.contains(&wanted);
        let is_all_missing = !has(Evidence::InLines) && !has(Evidence::Partial);
        let missing = self.claims.iter().zip(&evidence);
        let mut missing = missing
            .filter(|(_, found)| **found == Evidence::Missing)
            .map(|(claim, _)| claim);
        let is_refuted = |claim: &&Claim| !self.is_denial && (is_all_missing || self.defined.contains(claim));
        // A command such as `npm test` follows from the lines and is not written there.
        let is_loose = |claim: &Claim| matches!(claim, Claim::Quotation(_));
        if let Some(claim) = missing.clone().find(is_refuted) {
            ClaimVerdict::Lacks(claim)
        } else if has(Evidence::InLines) && missing.all(is_loose) {
            ClaimVerdict::Holds
        } else {
            ClaimVerdict::Open
        }
    }
}

/// By citation, in their order: the claims that its sentence makes about it. `citations` are those of `text`; `is_place`
/// tells whether a text that begins with `/` names a file or folder of the repository.
pub(super) fn claims_of(text: &str, citations: &[Citation], is_place: &dyn Fn(&str) -> bool) -> Vec<CitedClaims> {
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

/// The text with line breaks for its citations, and for the marks of code and quotations around them: what is left pairs
/// its marks rightly. Positions stay.
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
    let pattern = r#"`{1,2}[^`\n]+`{1,2}|["\u{201c}][^"\u{201c}\u{201d}\n]+["\u{201d}]"#;
    Regex::new(pattern).expect("a constant")
});

/// The claims of each citation of one sentence of `blank`. Citations that follow each other without a word share theirs.
fn sentence_claims(
    blank: &str,
    sentence: Range<usize>,
    citations: &[Citation],
    is_place: &dyn Fn(&str) -> bool,
) -> Vec<CitedClaims> {
    let between = |start: usize, end: usize| &blank[start.min(end)..end];
    let groups: Vec<&[Citation]> = citations
        .chunk_by(|one, next| !speaks(between(one.at.end, next.at.start)))
        .collect();
    let starts = groups.iter().map(|group| group[0].at.start);
    let ends = groups.iter().map(|group| group[group.len() - 1].at.end);
    let mut passages: Vec<Passage<'_>> = std::iter::once(sentence.start)
        .chain(ends)
        .zip(starts.chain([sentence.end]))
        .map(|(start, end)| Passage::read(between(start, end), is_place))
        .collect();
    let labels: Vec<Option<Claim>> = passages[1..].iter_mut().map(Passage::take_label).collect();
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

/// True where text between two citations says more than that the second one belongs to the first.
fn speaks(gap: &str) -> bool {
    let mut words = gap
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    gap.contains(['|', '>', '\u{2192}']) || words.any(|word| !matches!(word, "and" | "or" | "also" | "see"))
}

/// Text between two citations, or between one and an end of the sentence.
struct Passage<'t> {
    claims: Vec<Claim>,
    /// The text around the claims, one more than there are claims.
    gaps: Vec<&'t str>,
}

impl<'t> Passage<'t> {
    fn read(text: &'t str, is_place: &dyn Fn(&str) -> bool) -> Self {
        let (mut claims, mut gaps, mut end) = (Vec::new(), Vec::new(), 0);
        for (claim, at) in read_claims(text, is_place) {
            gaps.push(&text[end..at.start]);
            claims.push(claim);
            end = at.end;
        }
        gaps.push(&text[end..]);
        Self { claims, gaps }
    }

    /// True where the claims belong to the citation before them.
    fn follows(&self) -> bool {
        let gap = self.gaps[0].trim_start_matches(|c: char| c.is_whitespace() || ")]*_`\"'".contains(c));
        !self.claims.is_empty() && !BREAK.is_match(gap)
    }

    /// True where the claims belong to the citation behind them.
    fn leads_on(&self) -> bool {
        !self.claims.is_empty() && !BREAK.is_match(self.gaps[self.gaps.len() - 1])
    }

    /// Takes out the claim that alone stands in parentheses behind a citation: "x.py:1 (`a`)".
    fn take_label(&mut self) -> Option<Claim> {
        let is_label = self.gaps[0].trim() == "(" && self.gaps.get(1)?.starts_with(')');
        is_label.then(|| {
            self.gaps.remove(0);
            self.claims.remove(0)
        })
    }

    /// The claims at the end of "`a` and `b` are defined in".
    fn defined_behind(&self) -> Option<&[Claim]> {
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
    fn defined_before(&self) -> Option<&[Claim]> {
        let listed = self.gaps[1..].iter().take_while(|gap| LISTING.is_match(gap)).count();
        DEFINES
            .is_match(self.gaps[0])
            .then(|| &self.claims[..self.claims.len().min(listed + 1)])
    }
}

impl CitedClaims {
    fn take(&mut self, passage: &Passage<'_>, defined: Option<&[Claim]>) {
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

/// A span of code, a quotation, a name in bold, a name in prose, a number: the first form that fits.
static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x)
        `{1,2} (?P<code> [^`\n]{1,400} ) `{1,2}
      | ["\u{201c}] (?P<quotation> [^"\u{201c}\u{201d}\n]{3,400} ) ["\u{201d}]
      | (?P<call> [A-Za-z_][\w.:]* ) \( (?: [^()\n]{3,80} )? \)
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

/// Claims of a text with their places in it.
fn read_claims(text: &str, is_place: &dyn Fn(&str) -> bool) -> Vec<(Claim, Range<usize>)> {
    let mut claims = Vec::new();
    for found in FORM.captures_iter(text) {
        let claim = if let Some(marked) = found.name("code").or_else(|| found.name("quotation")) {
            of_marked(marked.as_str(), is_place)
        } else if let Some(name) = found.name("call").or_else(|| found.name("name")) {
            // A name that goes on as a path is none.
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

/// The claim of marked text: a name, a route or a quotation; none for a path, an address or a sign.
fn of_marked(text: &str, is_place: &dyn Fn(&str) -> bool) -> Option<Claim> {
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
        return is_route.then(|| Claim::Route(text.to_owned()));
    }
    if is_path(text) {
        return None;
    }
    if let Some(named) = NAMED.captures(text) {
        return Some(Claim::Symbol(named["name"].to_owned()));
    }
    says_something.then(|| Claim::Quotation(single_spaces(text)))
}

/// A route with its method.
static METHOD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\s+(/\S*)$").expect("a constant"));

static ROUTE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^/[^/\s]\S*$").expect("a constant"));

fn is_path(text: &str) -> bool {
    !text.contains(char::is_whitespace) && (text.contains('/') || has_file_ending(text))
}

fn has_file_ending(text: &str) -> bool {
    // `Plug.Parsers.JSON` is a name: endings are written small.
    let ends_small = |ending: &str| !ending.contains(char::is_uppercase);
    let has_ending = text
        .rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && ends_small(ending));
    has_ending && file_role::language(text).is_some()
}

fn of_number(text: &str, at: Range<usize>) -> Option<Claim> {
    let rest = &text[at.end..];
    let goes_on = rest
        .trim_start_matches(['.', ':', '/', '-'])
        .starts_with(char::is_alphanumeric);
    // "143 files" and "62 kB" are measured over many lines; "30 seconds" is a value.
    let next = rest.strip_prefix(' ').unwrap_or_default();
    let word = next.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    // A number alone in a cell of a table counts the things that the head of its column names.
    let is_cell = rest.trim_start().starts_with('|');
    let counts_things = is_cell || (word.starts_with(char::is_alphabetic) && !UNITS.contains(&word));
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

/// True where a part of the path, with or without its ending, is this text.
fn is_part_of(path: &str, text: &str) -> bool {
    path.split('/')
        .any(|part| part == text || part.split_once('.').is_some_and(|(stem, _)| stem == text))
}

/// Parts of a route that name no parameter.
fn literal_parts(route: &str) -> impl Iterator<Item = &str> {
    let is_word = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    route.split('/').filter(is_word)
}

/// True where the text holds a route whole, not as a part of a longer one. Some frameworks leave out the `/` at its ends.
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

/// True where the text holds each word of a quotation: a manifest says `serde = "1.0"` where a list says `serde 1.0`.
fn contains_words(text: &str, quotation: &str) -> bool {
    let mut words = words(quotation).peekable();
    words.peek().is_some() && words.all(|word| contains_word(text, word))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_name(c)).filter(|word| !word.is_empty())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// True where the text holds the word between bytes that no name holds.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests;
