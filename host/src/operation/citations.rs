//! Finds what an answer cites: `path:line`, `path:line-line`, `path#L12`, in whatever Markdown surrounds it.
//!
//! Pure text. Whether a cited place exists is `verify`'s business. An answer is full of things that only look like a
//! citation (times, ports, versions, slices), so what has neither a folder nor a known sort of file name is marked as
//! doubtful: it counts where such a file exists and is passed over where none does.

use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::context::scanner;
use crate::limits;

/// One cited place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// As it was written, with `/` between its parts.
    pub path: String,
    /// From 1, if it is right.
    pub first: u64,
    /// The same as `first` where one line is cited.
    pub last: u64,
    /// True where it may be something else that has the same form.
    pub is_doubtful: bool,
    /// Where it stands in the text, in bytes.
    pub at: Range<usize>,
}

impl fmt::Display for Citation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.path, self.first)?;
        match self.last == self.first {
            true => Ok(()),
            false => write!(formatter, "-{}", self.last),
        }
    }
}

/// A path, and the lines behind it. Brackets belong to a path only as the whole of a part (`app/[id]/page.tsx`).
static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?x)
        (?P<path> (?: [\w.+@$\\-]+ | / \[{1,2} [\w.-]+ \]{1,2} | / \( [\w.-]+ \) | / )+ )
        (?: : L? (?P<first>\d+) (?: : \d+ )? | \#L (?P<anchor>\d+) (?: C\d+ )? )
        (?: [-\u{2013}] L? (?P<last>\d+) (?: C\d+ )? )?";
    Regex::new(pattern).expect("a constant")
});

/// Addresses, which hold colons and numbers of their own.
static ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s<>`"'|]*"#).expect("a constant"));

/// All citations of a text in their order, at most [`limits::CITATIONS_MAX`], and whether there may be more.
pub fn parse(text: &str) -> (Vec<Citation>, bool) {
    let looked_at = &text[..text.floor_char_boundary(limits::CITED_TEXT_BYTES_MAX)];
    let addresses: Vec<Range<usize>> = ADDRESS.find_iter(looked_at).map(|found| found.range()).collect();
    let mut found = FORM
        .captures_iter(looked_at)
        .filter(|captures| {
            let start = captures.get_match().start();
            let before = addresses.partition_point(|address| address.end <= start);
            addresses.get(before).is_none_or(|address| start < address.start)
        })
        .filter_map(|captures| citation(looked_at, &captures));
    let citations: Vec<Citation> = found.by_ref().take(limits::CITATIONS_MAX).collect();
    let is_cut = looked_at.len() < text.len() || found.next().is_some();
    (citations, is_cut)
}

fn citation(text: &str, captures: &regex::Captures<'_>) -> Option<Citation> {
    let whole = captures.get_match();
    if goes_on(&text[whole.end()..]) {
        return None;
    }
    let number = |name: &str| {
        let digits = captures.name(name)?.as_str();
        // A number that does not fit is no line of any file.
        Some(digits.parse().unwrap_or(u64::MAX))
    };
    let path = plain(&captures["path"]);
    if path.is_empty() || path.ends_with('/') {
        return None;
    }
    let first = number("first").or_else(|| number("anchor"))?;
    Some(Citation {
        is_doubtful: is_doubtful(&path),
        path,
        first,
        last: number("last").unwrap_or(first),
        at: whole.range(),
    })
}

/// True where the number before `rest` is only the beginning of something longer: `3.12`, `8000/docs`, `12th`.
fn goes_on(rest: &str) -> bool {
    let mut rest = rest.chars();
    match rest.next() {
        Some('/' | '%' | '\\') => true,
        Some('.' | ':') => rest.next().is_some_and(char::is_alphanumeric),
        Some(next) => next.is_alphanumeric() || next == '_',
        None => false,
    }
}

/// Without escapes of Markdown (`my\_file.py`) and with `/` for the separator of Windows.
fn plain(path: &str) -> String {
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
    let is_known = scanner::language(path).is_some() || is_document(name);
    match folder.is_empty() {
        // In prose `self.f:10` is a slice more often than a file in Fortran.
        true => !is_known || (extension.len() == 1 && !matches!(extension, "c" | "h")),
        false => !is_known && !extension.starts_with(char::is_alphabetic),
    }
}

/// Files that no language claims and that answers cite.
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
