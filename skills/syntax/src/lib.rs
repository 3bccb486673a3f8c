//! Parses Python, for the skills that answer about code.
//!
//! [`Module::parse`] takes the bytes of a file, and finds definitions, imports, calls and names, and the places that
//! do not parse. It executes nothing and reads no files: names alone decide which file a dotted name belongs to
//! ([`names`]). A file with mistakes still has the parts that parse.

pub mod aliases;
mod definitions;
mod literals;
pub mod names;
mod nesting;
mod uses;

use std::borrow::Cow;
use std::iter;
use std::ops::Range;

use ruff_python_ast::token::{Token, TokenKind};
use ruff_python_ast::{ModModule, PySourceType, Stmt};
use ruff_python_parser::{Parsed, parse_unchecked_source};
use ruff_text_size::{Ranged, TextRange, TextSize};

pub use definitions::{Definition, DefinitionKind};
pub use literals::{Argument, Literal};
pub use uses::{CallSite, Import, Use, UseKind};

/// Limit for a parsed source in bytes. A tree takes about fifteen times as much memory, and a second per 16 MB.
pub const SOURCE_BYTES_MAX: u64 = 2 << 20;

/// A parsed Python file.
#[derive(Debug)]
pub struct Module<'source> {
    source: &'source [u8],
    parsed: Parsed<ModModule>,
    /// Offsets of the line feeds.
    line_feeds: Vec<usize>,
}

/// A place that does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// First line of the place, counted from 1.
    pub line: usize,
    /// Last line of the place.
    pub end_line: usize,
}

impl<'source> Module<'source> {
    /// Parses a file. Bytes that are not UTF-8 are faults in code, and harmless elsewhere. Returns `None` if the
    /// source is longer than [`SOURCE_BYTES_MAX`], or nested so deeply that parsing could overflow the stack.
    pub fn parse(source: &'source [u8]) -> Option<Self> {
        if source.len() as u64 > SOURCE_BYTES_MAX {
            return None;
        }
        let text = same_length_text(source);
        if nesting::is_too_deep(&text) {
            return None;
        }
        Some(Self {
            source,
            parsed: parse_unchecked_source(&text, PySourceType::Python),
            line_feeds: memchr::memchr_iter(b'\n', source).collect(),
        })
    }

    /// Bytes that were parsed.
    pub fn source(&self) -> &'source [u8] {
        self.source
    }

    /// Places that do not parse, in order, at most `count_max`.
    pub fn faults(&self, count_max: usize) -> Vec<Fault> {
        // An error at the end of the file belongs to the last line with content.
        let last = self
            .line_feeds
            .partition_point(|&feed| feed < self.source.trim_ascii_end().len())
            + 1;
        let errors = self.parsed.errors().iter();
        let mut faults: Vec<Fault> = errors
            .map(|error| Fault {
                line: self.line(error.location.start()).min(last),
                end_line: self.line(error.location.end()).min(last),
            })
            .collect();
        faults.sort_by_key(|fault| fault.line);
        faults.dedup_by_key(|fault| fault.line);
        faults.truncate(count_max);
        faults
    }

    /// True if an identifier begins at this offset, outside of strings and comments.
    pub fn is_identifier_at(&self, at: usize) -> bool {
        let tokens = self.parsed.tokens();
        let token = tokens.get(tokens.partition_point(|token| token.start().to_usize() < at));
        token.is_some_and(|token| token.start().to_usize() == at && is_name(token.kind()))
    }

    fn statements(&self) -> &[Stmt] {
        &self.parsed.syntax().body
    }

    /// Tokens that begin within a range.
    fn tokens(&self, range: TextRange) -> &[Token] {
        let tokens = self.parsed.tokens();
        let from = tokens.partition_point(|token| token.start() < range.start());
        let count = tokens[from..].partition_point(|token| token.start() < range.end());
        &tokens[from..from + count]
    }

    /// Line of an offset, counted from 1.
    fn line(&self, at: TextSize) -> usize {
        self.line_feeds.partition_point(|&feed| feed < at.to_usize()) + 1
    }

    /// Bytes before an offset in its line.
    fn column(&self, at: TextSize) -> usize {
        let feeds = self.line_feeds.partition_point(|&feed| feed < at.to_usize());
        let start = feeds.checked_sub(1).map_or(0, |last| self.line_feeds[last] + 1);
        at.to_usize() - start
    }

    fn text(&self, range: TextRange) -> String {
        String::from_utf8_lossy(&self.source[byte_range(range)]).into_owned()
    }
}

/// The source as text in which every character has the same offset as in the source.
fn same_length_text(source: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(source) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(source.len());
    for chunk in source.utf8_chunks() {
        text.push_str(chunk.valid());
        // A question mark is not Python: it is a fault in code, and harmless in strings and comments.
        text.extend(iter::repeat_n('?', chunk.invalid().len()));
    }
    Cow::Owned(text)
}

fn byte_range(range: TextRange) -> Range<usize> {
    range.start().to_usize()..range.end().to_usize()
}

fn is_name(kind: TokenKind) -> bool {
    kind == TokenKind::Name || kind.is_soft_keyword()
}

#[cfg(test)]
mod tests;
