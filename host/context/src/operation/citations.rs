//! Finds the citations of an answer: `path:line`, `path#L12`, `path` line 12, with ranges and lists of lines, within
//! any Markdown.
//!
//! Pure text. `verify` checks whether a cited place exists. An answer holds many texts that only look like a citation
//! (times, ports, versions, slices). So a path without a folder and without a known extension is marked as doubtful: it
//! counts if such a file exists, and is ignored otherwise.

use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use tool_repository::file_role;

/// Citations of one answer that are checked. The longest honest answers have some hundred.
pub(crate) const CITATIONS_MAX: usize = 2_000;

/// Text of an answer in which citations are looked for: longer than any model writes in a session.
const CITED_TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// One cited place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// As written, with `/` as separator.
    pub path: String,
    /// From 1 in a correct citation.
    pub first: u64,
    /// Last line; equal to `first` if one line is cited.
    pub last: u64,
    /// True if the text may be something else of the same form.
    pub is_doubtful: bool,
    /// Position in the text, in bytes.
    pub at: Range<usize>,
    /// Longer readings of the path with the text before it, longest first, each with its start. Only an existing file
    /// can tell whether the words before a path belong to its name, as in `my file.py` or `(1).ts`.
    pub wider: Vec<(String, usize)>,
}

impl Citation {
    /// True where both cite the same lines of one path.
    pub(super) fn is_same_place(&self, other: &Self) -> bool {
        (&self.path, self.first, self.last) == (&other.path, other.first, other.last)
    }
}

impl fmt::Display for Citation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.path, self.first)?;
        if self.last == self.first {
            Ok(())
        } else {
            write!(formatter, "-{}", self.last)
        }
    }
}

/// A path, and the first line or range after it. Brackets belong to a path only if they enclose a whole part
/// (`app/[id]/page.tsx`). Markup may end between path and line: `` `a.py`:1 ``, `[a](a.py):1`.
static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x)
        (?P<path> (?: [\w.+@$\\-]+ | / \[{1,2} [\w.-]+ \]{1,2} | / \( [\w.-]+ \) | / )+ )
        (?: [`*\])]{0,4} : (?P<gap>\x20)? L? (?P<first>\d+) (?P<column> : \d+ )?
          | \#L (?P<anchor>\d+) (?: C\d+ )?
          | [`*\])"']{0,4}
            (?: [,:]? \s (?: (?: at | on | in | from ) \s )? (?i: lines? ) \s | \s \( (?: (?i: lines? ) \s | L ) )
            (?P<said>\d+) )
        (?: [-\u{2013}] L? (?P<last>\d+) (?: C\d+ )? )?"#;
    Regex::new(pattern).expect("a constant")
});

/// The end of a range in words, after its first line.
static UP_TO: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\s(?:to|through|until)\s(?:lines?\s)?L?(?P<last>\d+)").expect("a constant"));

/// One more line or range of a list.
static NEXT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"^(?:,\s?(?:and\s|or\s)?|\s(?:and|or|&)\s)(?:lines?\s)?L?(?P<first>\d+)(?:[-\u{2013}]L?(?P<last>\d+))?";
    Regex::new(pattern).expect("a constant")
});

/// Words after a line number: "for the rest" after `a.py: 3` leaves 3 a line; "tests" makes it a count.
const AFTER_A_LINE: [&str; 13] = [
    "and", "or", "for", "which", "where", "that", "is", "as", "but", "when", "while", "because", "then",
];

/// Addresses, which contain colons and numbers.
static ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s<>`"'|]*"#).expect("a constant"));

/// All citations of a text in their order, at most [`CITATIONS_MAX`], and whether there may be more.
pub fn parse(text: &str) -> (Vec<Citation>, bool) {
    let looked_at = &text[..text.floor_char_boundary(CITED_TEXT_BYTES_MAX)];
    let addresses: Vec<Range<usize>> = ADDRESS.find_iter(looked_at).map(|found| found.range()).collect();
    let is_address = |at: usize| {
        let before = addresses.partition_point(|address| address.end <= at);
        addresses.get(before).is_some_and(|address| at >= address.start)
    };
    let (mut citations, mut at) = (Vec::new(), 0);
    while citations.len() <= CITATIONS_MAX
        && let Some(captures) = FORM.captures_at(looked_at, at)
    {
        let path = captures.name("path").map_or(0..0, |path| path.range());
        let found = if is_address(path.start) {
            Vec::new()
        } else {
            citations_of(looked_at, &captures)
        };
        // A text that is not a citation may contain the beginning of one: `x: 3/a.py:5`.
        at = found.last().map_or(path.end, |last: &Citation| last.at.end);
        citations.extend(found);
    }
    let is_cut = looked_at.len() < text.len() || citations.len() > CITATIONS_MAX;
    citations.truncate(CITATIONS_MAX);
    (citations, is_cut)
}

/// The citations of one path; empty if it only looks like one.
fn citations_of(text: &str, captures: &regex::Captures<'_>) -> Vec<Citation> {
    let whole = captures.get_match();
    let is_loose = captures.name("gap").is_some();
    let path = unescape_path(&captures["path"]);
    let rest = &text[whole.end()..];
    if goes_on(rest)
        || (is_loose && (captures.name("column").is_some() || counts_something(rest)))
        || path.is_empty()
        || path.ends_with('/')
    {
        return Vec::new();
    }
    let Some(first) = ["first", "anchor", "said"]
        .iter()
        .find_map(|name| parse_number(captures, name))
    else {
        return Vec::new();
    };
    // "The notice line 3" is prose.
    let is_prose = captures.name("said").is_some() && !path.contains(['.', '/']);
    let is_doubtful = is_loose || is_prose || (is_doubtful(&path) && !leads_out(&path, &text[..whole.start()]));
    let wider = widen_path(text, captures.name("path").map_or(0..0, |path| path.range()));
    let citation = |first, last: Option<u64>, at| Citation {
        path: path.clone(),
        first,
        last: last.unwrap_or(first),
        is_doubtful,
        at,
        wider: wider.clone(),
    };
    let (mut last, mut end) = (parse_number(captures, "last"), whole.end());
    if last.is_none()
        && let Some((line, length)) = up_to(rest, first)
    {
        last = Some(line);
        end += length;
    }
    let mut citations = vec![citation(first, last, whole.start()..end)];
    while citations.len() <= CITATIONS_MAX
        && let Some(next) = NEXT.captures(&text[end..])
    {
        let Some(digits) = next.name("first") else { break };
        let (start, after) = (end + digits.start(), end + next.get_match().end());
        let rest = &text[after..];
        // A leading zero belongs to `1,000`, and a further dash to a date.
        if digits.as_str().starts_with('0') || rest.starts_with('-') || goes_on(rest) || counts_something(rest) {
            break;
        }
        let Some(first) = parse_number(&next, "first") else {
            break;
        };
        citations.push(citation(first, parse_number(&next, "last"), start..after));
        end = after;
    }
    citations
}

/// Words before a path that may belong to it. More are not part of a name that a person writes.
const WIDER_WORDS_MAX: usize = 6;

/// Longer paths that end with this path, longest first: each begins at a word of its line, after the last character
/// that paths hardly contain.
fn widen_path(text: &str, path: Range<usize>) -> Vec<(String, usize)> {
    let line = text[..path.start]
        .rfind(['\n', '`', '"', '<', '>', '|', '*'])
        .map_or(0, |at| at + 1);
    let before = &text[line..path.start];
    let is_beginning = |at: usize| {
        let (head, tail) = before.split_at(at);
        let Some(last) = head.chars().next_back() else {
            return !tail.starts_with(char::is_whitespace);
        };
        let is_opened = "([{'".contains(last) && !tail.starts_with(['(', '[', '{', '\'']);
        (last == ' ' || is_opened) && !tail.starts_with(char::is_whitespace)
    };
    let places = before
        .char_indices()
        .rev()
        .map(|(at, _)| at)
        .filter(|at| is_beginning(*at));
    let mut wider: Vec<(String, usize)> = places
        .take(WIDER_WORDS_MAX)
        .map(|at| (unescape_path(&text[line + at..path.end]), line + at))
        .collect();
    wider.reverse();
    wider
}

/// A number that does not fit cannot be a line number.
fn parse_number(captures: &regex::Captures<'_>, name: &str) -> Option<u64> {
    let digits = captures.name(name)?.as_str();
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// The end of a range in words, and the length of that text.
fn up_to(rest: &str, first: u64) -> Option<(u64, usize)> {
    let found = UP_TO.captures(rest)?;
    let (last, end) = (parse_number(&found, "last")?, found.get_match().end());
    let is_range = !goes_on(&rest[end..]) && (last > first || !counts_something(&rest[end..]));
    is_range.then_some((last, end))
}

/// True if the number before `rest` is a count: `3 tests`, `5 %`.
fn counts_something(rest: &str) -> bool {
    let counted = rest.trim_start_matches(' ');
    let word = counted.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let is_word = !word.is_empty() && !AFTER_A_LINE.contains(&word);
    counted.len() < rest.len() && (is_word || counted.starts_with(['%', '$', '\u{20ac}']))
}

/// True if a path leads out of the repository. A path that follows other text, such as a variable or a host, may be a
/// route.
fn leads_out(path: &str, before: &str) -> bool {
    let is_absolute = path.starts_with('/') && !path.starts_with("//") && path[1..].contains('/');
    let is_beginning = before
        .chars()
        .next_back()
        .is_none_or(|c| c.is_whitespace() || "`*(\"'[|~".contains(c));
    is_beginning && (is_absolute || path.starts_with("../"))
}

/// True if the number before `rest` begins a longer token: `3.12`, `8000/docs`, `12th`.
fn goes_on(rest: &str) -> bool {
    let mut rest = rest.chars();
    match rest.next() {
        Some('/' | '%' | '\\') => true,
        Some('.' | ':') => rest.next().is_some_and(char::is_alphanumeric),
        Some(next) => next.is_alphanumeric() || next == '_',
        None => false,
    }
}

/// Removes Markdown escapes (`my\_file.py`) and replaces the separator of Windows by `/`.
fn unescape_path(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut rest = path.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\\' if rest.peek().is_some_and(char::is_ascii_punctuation) => {}
            '\\' => plain.push('/'),
            other => plain.push(other),
        }
    }
    plain
}

fn is_doubtful(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_known = file_role::detect_language(path).is_some() || is_document(name);
    if folder.is_empty() {
        // In prose `self.f:10` is a slice more often than a file in Fortran.
        !is_known || (extension.len() == 1 && !matches!(extension, "c" | "h"))
    } else {
        !is_known && !extension.starts_with(char::is_alphabetic)
    }
}

/// Files without a language that answers cite.
fn is_document(name: &str) -> bool {
    const STEMS: [&str; 8] = [
        "readme",
        "license",
        "licence",
        "changelog",
        "changes",
        "contributing",
        "authors",
        "notice",
    ];
    const EXTENSIONS: [&str; 5] = ["lock", "in", "log", "patch", "diff"];
    let name = name.to_ascii_lowercase();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
    STEMS.contains(&name.as_str()) || (!stem.is_empty() && EXTENSIONS.contains(&extension))
}

#[cfg(test)]
mod tests;
