//! Results of a search, as far as one page needs them, and the text of a page.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use skill_details::{NotSearched, Reference, ReferenceDetails};
use skill_sdk::{LeftOut, Outcome, SymbolReference};
use syntax::aliases::{self, Alias};

use crate::ReferenceQuery;

/// Limit for a line of an answer in bytes; the match stays visible.
const LINE_BYTES_MAX: usize = 200;
/// Limit for the originals that the answer names for an alias.
const ALIASES_MAX: usize = 3;
/// Limit for the paths in a note.
const NOTED_MAX: usize = 5;

/// Kind of a match, in the order of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MatchKind {
    Definition,
    Call,
    Import,
    Attribute,
    Type,
    Name,
    Possible,
    Text,
}

impl MatchKind {
    const ALL: [Self; 8] = [
        Self::Definition,
        Self::Call,
        Self::Import,
        Self::Attribute,
        Self::Type,
        Self::Name,
        Self::Possible,
        Self::Text,
    ];

    fn word(self) -> &'static str {
        [
            "definition",
            "call",
            "import",
            "attribute",
            "type",
            "name",
            "possible",
            "text",
        ][self as usize]
    }

    /// Converts the host's name of a kind.
    pub(crate) fn of_symbol(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// A match in a file, before its line is looked up.
#[derive(Clone, Copy)]
pub(crate) struct FoundMatch {
    kind: MatchKind,
    at: usize,
}

impl FoundMatch {
    pub(crate) fn at(kind: MatchKind, at: usize) -> Self {
        Self { kind, at }
    }
}

/// Position of a match in the order of the answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(crate) struct MatchOrder {
    pub(crate) kind: MatchKind,
    pub(crate) path: String,
    pub(crate) line: usize,
}

impl MatchOrder {
    pub(crate) fn parse(cursor: &str) -> Option<Self> {
        let mut parts = cursor.splitn(3, ':');
        let word = parts.next()?;
        Some(Self {
            kind: MatchKind::ALL.into_iter().find(|kind| kind.word() == word)?,
            line: parts.next()?.parse().ok()?,
            path: parts.next()?.to_owned(),
        })
    }

    fn cursor(&self) -> String {
        format!("{}:{}:{}", self.kind.word(), self.line, self.path)
    }
}

/// The result of a search: all counts, and the lines that a page may need.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct SearchTally {
    /// Number of lines by kind; a line counts once for each kind.
    counts: [u64; 8],
    /// Number of files with a match.
    files: u64,
    /// Lines for the page, with their text.
    lines: Vec<(MatchOrder, String)>,
    /// True if lines did not fit on the page.
    more: bool,
    python: u64,
    others: u64,
    /// What was not searched.
    pub(crate) not_searched: NotSearched,
    /// Number of files that the host parsed.
    pub(crate) trees: u64,
    /// Number of files that were searched as text because the limit for parsing was reached.
    pub(crate) treeless: u64,
    /// Paths of files that are too large to search.
    pub(crate) large: Vec<String>,
    /// Python files that are too large or too deeply nested to parse.
    pub(crate) unparsed: Vec<String>,
    /// `path:line` of the first place in a file that does not parse.
    pub(crate) broken: Vec<String>,
    /// Lines that make the symbol an alias, one for each original.
    #[serde(skip)]
    pub(crate) aliases: Vec<Alias>,
    /// Originals, and the notes about them.
    pub(crate) alias_notes: Vec<(String, String)>,
    /// Number of definitions that are not such lines.
    pub(crate) own_definitions: u64,
}

impl SearchTally {
    pub(crate) fn searched(&mut self, python: bool) {
        if python {
            self.python += 1;
        } else {
            self.others += 1;
        }
    }

    /// Counts files that contain none of the symbols.
    pub(crate) fn left_out(&mut self, counts: LeftOut) {
        self.python += u64::from(counts.text_apart);
        self.others += u64::from(counts.text - counts.text_apart);
        self.not_searched.binary += u64::from(counts.binary);
    }

    /// Begins to add the matches of one file.
    pub(crate) fn file<'a>(
        &'a mut self,
        request: &'a ReferenceQuery,
        path: &'a str,
        source: &'a [u8],
    ) -> FileTally<'a> {
        FileTally {
            tally: self,
            request,
            path,
            source,
            matches: Vec::new(),
        }
    }

    /// Keeps the first lines up to the limit.
    pub(crate) fn cut(&mut self, limit: usize) {
        self.lines.sort();
        self.more |= self.lines.len() > limit;
        self.lines.truncate(limit);
    }

    /// Adds the results of another part.
    pub(crate) fn add(&mut self, other: Self, limit: usize) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.files += other.files;
        self.python += other.python;
        self.others += other.others;
        self.not_searched.append(other.not_searched);
        self.trees += other.trees;
        self.treeless += other.treeless;
        self.more |= other.more;
        self.lines.extend(other.lines);
        self.large.extend(other.large);
        self.unparsed.extend(other.unparsed);
        self.broken.extend(other.broken);
        for (original, note) in other.alias_notes {
            if !self.alias_notes.iter().any(|(known, _)| *known == original) {
                self.alias_notes.push((original, note));
            }
        }
        self.own_definitions += other.own_definitions;
        self.cut(limit);
    }

    pub(crate) fn render(self, request: &ReferenceQuery) -> Outcome {
        let mut text = String::new();
        for (place, line) in &self.lines {
            let _ = writeln!(text, "{}:{}: {}: {line}", place.path, place.line, place.kind.word());
        }
        if !text.is_empty() {
            text.push('\n');
        }
        self.summary(&mut text, request);
        self.notes(&mut text, request);
        let cursor = self.lines.last().filter(|_| self.more).map(|(place, _)| place.cursor());
        if self.more {
            text.push_str("There are more matches: pass the cursor, or narrow with `kinds` or `path`.\n");
        }
        let reference = |(place, _): &(MatchOrder, String)| Reference {
            path: place.path.clone(),
            line: place.line as u64,
            kind: place.kind.word().to_owned(),
        };
        let details = ReferenceDetails {
            references: self.lines.iter().map(reference).collect(),
            total: self.counts.iter().sum(),
            files: self.files,
            not_searched: self.not_searched,
        };
        Outcome {
            truncated: self.more,
            ..Outcome::page(text, cursor)
        }
        .with_details(&details)
    }

    /// Formats the counts as a sentence.
    pub(crate) fn counted(&self, request: &ReferenceQuery) -> String {
        let symbol = &request.symbol.written;
        let place = if request.under.is_empty() {
            String::new()
        } else {
            format!(" in {}", request.under)
        };
        let total: u64 = self.counts.iter().sum();
        if total == 0 {
            return format!("No references to `{symbol}`{place}.");
        }
        let counts: Vec<String> = MatchKind::ALL
            .into_iter()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| format_kind_count(count, kind))
            .collect();
        let lines = if total == 1 { "reference" } else { "references" };
        format!(
            "{total} {lines} to `{symbol}`{place} in {}: {}.",
            format_file_count("", self.files),
            counts.join(", ")
        )
    }

    fn summary(&self, text: &mut String, request: &ReferenceQuery) {
        text.push_str(&self.counted(request));
        let _ = writeln!(
            text,
            " Searched: {}, {}.",
            format_file_count("Python ", self.python),
            format_file_count("other ", self.others)
        );
        if !request.kinds.is_empty() {
            let kinds: Vec<&str> = request.kinds.iter().map(|kind| kind.word()).collect();
            let _ = writeln!(text, "Listed: {} only.", kinds.join(", "));
        }
    }

    fn notes(&self, text: &mut String, request: &ReferenceQuery) {
        if self.counts[MatchKind::Text as usize] > 0 {
            text.push_str("text: files without a syntax tree, matched by whole word, strings and comments included.\n");
        }
        if self.counts[MatchKind::Possible as usize] > 0 {
            let _ = writeln!(
                text,
                "possible: the syntax does not show whether it is this `{}`: it belongs to an object, or the file does not \
                 import it by name.",
                request.symbol.last()
            );
        }
        if self.own_definitions == 0 {
            for (_, note) in self.alias_notes.iter().take(ALIASES_MAX) {
                let _ = writeln!(text, "{note}.");
            }
        }
        let total: u64 = self.counts.iter().sum();
        if request.symbol.is_dotted() && total > 0 && self.counts[MatchKind::Definition as usize] == 0 {
            let _ = writeln!(
                text,
                "No definition has this full name: it may be inherited or handed on. explain_function follows base \
                 classes; `{}` alone finds all definitions.",
                request.symbol.last()
            );
        }
        let mut note = |what: &str, paths: &[String]| {
            if paths.is_empty() {
                return;
            }
            let more = paths.len().saturating_sub(NOTED_MAX);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            let shown = paths.iter().take(NOTED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "{what}: {shown}{more}");
        };
        note(
            "Does not parse whole, so matches there may be missing or misjudged",
            &self.broken,
        );
        note(
            "Python too large or too deeply nested to parse, matched by whole word",
            &self.unparsed,
        );
        note("Too large, not searched", &self.large);
        if self.treeless > 0 {
            let count = format_file_count("", self.treeless);
            let _ = writeln!(
                text,
                "Too many files to parse: {count} matched by whole word; narrow with `path`."
            );
        }
        if self.not_searched.unreadable > 0 {
            let _ = writeln!(
                text,
                "Could not be read: {}.",
                format_file_count("", self.not_searched.unreadable)
            );
        }
        if total == 0 {
            let mut left = self.not_searched.not_listed();
            if self.not_searched.binary > 0 {
                left.push(format_file_count("binary ", self.not_searched.binary));
            }
            if !left.is_empty() {
                let _ = writeln!(text, "Not searched: {}.", left.join(", "));
            }
        }
    }
}

fn format_file_count(which: &str, count: u64) -> String {
    format!("{count} {which}{}", if count == 1 { "file" } else { "files" })
}

fn format_kind_count(count: u64, kind: MatchKind) -> String {
    let plural = if count == 1 || matches!(kind, MatchKind::Possible | MatchKind::Text) {
        ""
    } else {
        "s"
    };
    format!("{count} {}{plural}", kind.word())
}

/// Adds the matches of one file to a tally.
pub(crate) struct FileTally<'a> {
    tally: &'a mut SearchTally,
    request: &'a ReferenceQuery,
    path: &'a str,
    source: &'a [u8],
    matches: Vec<FoundMatch>,
}

impl FileTally<'_> {
    pub(crate) fn push(&mut self, found: FoundMatch) {
        self.matches.push(found);
    }

    /// Counts the matches, one for each line and kind, and keeps lines that the page may need.
    pub(crate) fn close(mut self) {
        self.matches.sort_by_key(|found| found.at);
        let (mut line, mut start) = (1, 0);
        let mut last: [Option<usize>; 8] = [None; 8];
        let mut kept = [0usize; 8];
        for found in std::mem::take(&mut self.matches) {
            line += memchr::memchr_iter(b'\n', &self.source[start..found.at]).count();
            start = found.at;
            let kind = found.kind as usize;
            if last[kind].replace(line) == Some(line) {
                continue;
            }
            self.tally.counts[kind] += 1;
            self.note_alias(found, line);
            let place = MatchOrder {
                kind: found.kind,
                path: self.path.to_owned(),
                line,
            };
            if !self.request.wants(&place) {
                continue;
            }
            kept[kind] += 1;
            // A page holds no more lines of one kind from one file.
            if kept[kind] > self.request.limit {
                self.tally.more = true;
                continue;
            }
            self.tally.lines.push((place, line_text(self.source, found.at)));
        }
        if last.iter().any(Option::is_some) {
            self.tally.files += 1;
        }
        // Sort rarely: only after many files have added lines.
        if self.tally.lines.len() > 8 * self.request.limit {
            self.tally.cut(self.request.limit);
        }
    }

    fn note_alias(&mut self, found: FoundMatch, line: usize) {
        if matches!(
            found.kind,
            MatchKind::Call | MatchKind::Type | MatchKind::Possible | MatchKind::Text
        ) {
            return;
        }
        let text = String::from_utf8_lossy(&self.source[line_range(self.source, found.at)]);
        // A list of exports makes an alias; an assignment to a variable does not.
        if found.kind == MatchKind::Name && !text.contains(" as ") {
            return;
        }
        let symbol = self.request.symbol.last();
        let reference = || SymbolReference {
            path: self.path.to_owned(),
            name: symbol.to_owned(),
            kind: found.kind.word().to_owned(),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            container: String::new(),
        };
        let alias = aliases::original_name(self.path, &text, symbol)
            .and_then(|_| aliases::alias_at(symbol, &reference(), self.source));
        match alias {
            Some(alias) => {
                let is_known = self.tally.aliases.iter().any(|known| known.original == alias.original);
                if !is_known && self.tally.aliases.len() < ALIASES_MAX {
                    self.tally.aliases.push(alias);
                }
            }
            None => self.tally.own_definitions += u64::from(found.kind == MatchKind::Definition),
        }
    }
}

fn line_range(source: &[u8], at: usize) -> std::ops::Range<usize> {
    let start = memchr::memrchr(b'\n', &source[..at]).map_or(0, |at| at + 1);
    let end = memchr::memchr(b'\n', &source[at..]).map_or(source.len(), |end| at + end);
    start..end
}

/// The line around an offset, without indentation; of a long line the part around the offset.
fn line_text(source: &[u8], at: usize) -> String {
    let std::ops::Range { start, end } = line_range(source, at);
    let line = source[start..end].trim_ascii();
    if line.len() <= LINE_BYTES_MAX {
        return String::from_utf8_lossy(line).into_owned();
    }
    let from = if at - start < LINE_BYTES_MAX / 2 {
        start
    } else {
        at - LINE_BYTES_MAX / 4
    };
    let to = end.min(from + LINE_BYTES_MAX);
    let part = String::from_utf8_lossy(&source[from..to]);
    // The cut may have split a character.
    let part = part.trim_matches(['\u{fffd}', ' ', '\t']);
    let (before, after) = (if from > start { "…" } else { "" }, if to < end { "…" } else { "" });
    format!("{before}{part}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_as_they_went() {
        let place = MatchOrder {
            kind: MatchKind::Attribute,
            path: "a:b/c d.py".to_owned(),
            line: 12,
        };
        assert_eq!(MatchOrder::parse(&place.cursor()), Some(place));
        assert_eq!(MatchOrder::parse("call:x:y"), None);
        assert_eq!(MatchOrder::parse("nothing:1:y"), None);
    }

    #[test]
    fn long_lines_show_the_part_around_the_match() {
        let source = format!("{} needle {}", "é".repeat(500), "x".repeat(500));
        let at = source.find("needle").expect("it is there");
        let text = line_text(source.as_bytes(), at);
        assert!(
            text.contains("needle") && text.starts_with('…') && text.ends_with('…'),
            "{text}"
        );
        assert!(text.len() <= LINE_BYTES_MAX + 6);
        assert!(!text.contains('\u{fffd}'));
    }
}
