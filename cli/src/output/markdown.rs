//! Markdown as it streams in, for a terminal: a block is rendered as soon as nothing that follows can change it.
//!
//! The output depends on the lines of the text alone, never on the pieces in which they came. The blocks are cut
//! here; how one looks is `render`'s. Text is cleaned of control characters before anything else sees it.

#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/markdown.rs"]
pub(crate) mod fuzz;
mod render;
mod table;
mod wrap;

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

pub(crate) use wrap::Terminal;

/// Bytes of an unfinished block from which it is parsed again only when it has grown by an eighth: a block of a
/// thousand lines would otherwise cost a million.
const EAGER_BYTES: usize = 4096;

/// A text on its way to the terminal.
#[derive(Debug)]
pub(crate) struct Markdown {
    terminal: Terminal,
    /// The last line, not yet ended.
    line: String,
    /// Whole lines that are not yet rendered.
    pending: String,
    /// Length of `pending` when it was last parsed.
    parsed_bytes: usize,
    last: Option<LastBlock>,
}

#[derive(Debug, Clone, Copy)]
struct LastBlock {
    kind: BlockEnd,
    ended_blank: bool,
}

/// A block at the top level; an item of a list at the top level counts as one.
#[derive(Debug)]
struct TopBlock {
    start: usize,
    kind: BlockEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockEnd {
    /// Over at the end of its line.
    Line,
    /// The same, and close to the item of a list that follows.
    Heading,
    /// Over at the next blank line.
    UntilBlank,
    /// Over when something else begins.
    UntilNext,
    /// An item of a list: the same, and close to the next item.
    Item,
}

impl Markdown {
    pub(crate) fn new(terminal: Terminal) -> Self {
        Self {
            terminal,
            line: String::new(),
            pending: String::new(),
            parsed_bytes: 0,
            last: None,
        }
    }

    /// Takes a piece of text and gives what can be written by now: whole lines.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for piece in super::clean_output(text).split_inclusive('\n') {
            self.line.push_str(piece);
            if piece.ends_with('\n') {
                self.end_line(&mut out);
            }
        }
        out
    }

    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        if !self.line.is_empty() {
            self.line.push('\n');
            self.end_line(&mut out);
        }
        let pending = std::mem::take(&mut self.pending);
        self.write_to(&pending, pending.len(), &split_blocks(&pending), &mut out);
        out
    }

    fn end_line(&mut self, out: &mut String) {
        let is_blank = self.line.trim().is_empty();
        let grown = self.pending.len() > self.parsed_bytes + self.parsed_bytes / 8;
        self.pending.push_str(&self.line);
        self.line.clear();
        if self.pending.len() > EAGER_BYTES && !grown && !is_blank {
            return;
        }
        self.parsed_bytes = self.pending.len();
        let tops = split_blocks(&self.pending);
        let whole = match tops.last() {
            None => return,
            Some(TopBlock {
                kind: BlockEnd::Line | BlockEnd::Heading,
                ..
            }) => self.pending.len(),
            Some(TopBlock {
                kind: BlockEnd::UntilBlank,
                ..
            }) if is_blank => self.pending.len(),
            // Text before the only block goes with it.
            Some(_) if tops.len() == 1 => return,
            Some(last) => last.start,
        };
        let pending = std::mem::take(&mut self.pending);
        self.write_to(&pending, whole, &tops, out);
        self.pending = pending[whole..].to_owned();
        self.parsed_bytes = self.pending.len();
    }

    /// Renders the blocks of `source` before the byte `end`.
    fn write_to(&mut self, source: &str, end: usize, tops: &[TopBlock], out: &mut String) {
        for (at, top) in tops.iter().enumerate().filter(|(_, top)| top.start < end) {
            // Text before the first block, and between two, is a definition of a link: it goes with its
            // neighbour, so that nothing is lost.
            let start = if at == 0 { 0 } else { top.start };
            let next = tops.get(at + 1).map_or(end, |next| next.start);
            self.write_block(&source[start..next], top.kind, out);
        }
        if tops.is_empty() && !source[..end].trim().is_empty() {
            self.write_block(&source[..end], BlockEnd::UntilNext, out);
        }
    }

    fn write_block(&mut self, source: &str, kind: BlockEnd, out: &mut String) {
        let is_close = |last: LastBlock| match last.kind {
            BlockEnd::Item => kind == BlockEnd::Item && !last.ended_blank,
            BlockEnd::Heading => kind == BlockEnd::Item,
            _ => false,
        };
        if self.last.is_some_and(|last| !is_close(last)) {
            out.push('\n');
        }
        render::render_block(source, self.terminal, out);
        self.last = Some(LastBlock {
            kind,
            ended_blank: source.ends_with("\n\n") || source.trim_end_matches(' ').ends_with("\n\n"),
        });
    }
}

/// Parses CommonMark and tables. Nothing more, so that no other text means anything.
fn parse(source: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter()
}

/// The blocks at the top level. Each begins at the beginning of a line.
fn split_blocks(source: &str) -> Vec<TopBlock> {
    let mut tops = Vec::new();
    let (mut depth, mut in_list) = (0_u32, false);
    let line_start = |at: usize| source[..at].rfind('\n').map_or(0, |newline| newline + 1);
    for (event, range) in parse(source) {
        let kind = match &event {
            Event::Start(Tag::List(_)) if depth == 0 => None,
            Event::Start(Tag::Item) if depth == 1 && in_list => Some(BlockEnd::Item),
            Event::Start(Tag::Heading { .. }) if depth == 0 => Some(BlockEnd::Heading),
            Event::Rule if depth == 0 => Some(BlockEnd::Line),
            Event::Start(Tag::Paragraph | Tag::Table(_)) if depth == 0 => Some(BlockEnd::UntilBlank),
            Event::Start(_) if depth == 0 => Some(BlockEnd::UntilNext),
            _ => None,
        };
        tops.extend(kind.map(|kind| TopBlock {
            start: line_start(range.start),
            kind,
        }));
        match event {
            Event::Start(tag) => {
                in_list |= depth == 0 && matches!(tag, Tag::List(_));
                depth += 1;
            }
            Event::End(tag) => {
                depth -= 1;
                in_list &= !(depth == 0 && matches!(tag, TagEnd::List(_)));
            }
            _ => {}
        }
    }
    tops
}

#[cfg(test)]
mod tests;
