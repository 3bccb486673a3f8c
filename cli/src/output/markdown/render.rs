//! Rendering of one block of Markdown for a terminal.
//!
//! Nothing that was written is lost: should a block's rendering lack a letter or a digit of its source (a cell too many
//! in a row of a table, an entity), the source is shown instead, as it is.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, LinkType, Tag, TagEnd};

use super::table::{self, MarkdownTable};
use super::wrap::{StyledLine, StyledText, Terminal, TextStyle, wrap_spans, write_line};

/// Columns beyond which lines are hard to read.
const COLUMNS_MAX: usize = 100;

/// Columns below which nothing is made narrower: deep lists on a narrow terminal run over its edge instead.
const COLUMNS_MIN: usize = 20;

/// Renders the source of one block, every line ended by a newline.
pub(super) fn render_block(source: &str, terminal: Terminal, out: &mut String) {
    let mut reader = MarkdownReader {
        source,
        terminal,
        events: super::parse(source).collect::<Vec<_>>().into_iter().peekable(),
    };
    let columns = terminal.width.clamp(COLUMNS_MIN, COLUMNS_MAX);
    let rendered = reader.blocks(columns);
    let lines = if keeps_everything(source, &rendered) {
        rendered
    } else {
        let verbatim = source.trim_matches('\n').lines();
        verbatim.map(|line| vec![StyledText::plain(line)]).collect()
    };
    for line in &lines {
        write_line(line, terminal.colour, out);
    }
}

/// True where every letter and digit of the source is in the lines, as often as there.
fn keeps_everything(source: &str, lines: &[StyledLine]) -> bool {
    let mut missing: HashMap<char, i64> = HashMap::new();
    for character in source.chars().filter(|character| character.is_alphanumeric()) {
        *missing.entry(character).or_default() += 1;
    }
    for character in lines.iter().flatten().flat_map(|span| span.text.chars()) {
        if let Some(count) = missing.get_mut(&character) {
            *count -= 1;
        }
    }
    missing.values().all(|&count| count <= 0)
}

type MarkdownEvents<'a> = std::iter::Peekable<std::vec::IntoIter<(Event<'a>, Range<usize>)>>;

struct MarkdownReader<'a> {
    source: &'a str,
    terminal: Terminal,
    events: MarkdownEvents<'a>,
}

impl<'a> MarkdownReader<'a> {
    /// Reads the blocks up to and including the end of their container. Blocks in a tight list item have no blank line
    /// between them.
    fn blocks(&mut self, columns: usize) -> Vec<StyledLine> {
        let mut lines: Vec<StyledLine> = Vec::new();
        let mut is_tight = false;
        while let Some((event, range)) = self.events.next() {
            let block = match event {
                Event::End(_) => break,
                Event::Start(Tag::Paragraph) => wrap_spans(&self.inline(TextStyle::default()), columns),
                Event::Start(Tag::Heading { level, .. }) => self.heading(level, columns),
                Event::Start(Tag::BlockQuote(_)) => prefix_lines(self.blocks(inner_columns(columns, 2)), "│ ", "│ "),
                Event::Start(Tag::CodeBlock(kind)) => self.code(&kind),
                Event::Start(Tag::HtmlBlock) => self.verbatim(TextStyle::default()),
                Event::Start(Tag::List(_)) => self.list(columns),
                Event::Start(Tag::Table(alignments)) => table::layout_table(&self.table(alignments), columns),
                Event::Rule => vec![vec![StyledText::new("─".repeat(columns.min(40)), dim_style())]],
                // The text of a tight item has no paragraph around it.
                inline => {
                    is_tight = true;
                    wrap_spans(&self.loose_inline(inline, range), columns)
                }
            };
            if !lines.is_empty() && !is_tight {
                lines.push(StyledLine::new());
            }
            lines.extend(block);
        }
        lines
    }

    fn heading(&mut self, level: HeadingLevel, columns: usize) -> Vec<StyledLine> {
        if self.terminal.colour {
            let bold = TextStyle {
                bold: true,
                ..TextStyle::default()
            };
            return wrap_spans(&self.inline(bold), columns);
        }
        let mark = format!("{} ", "#".repeat(level as usize));
        let lines = wrap_spans(&self.inline(TextStyle::default()), inner_columns(columns, mark.len()));
        prefix_lines(lines, &mark, &" ".repeat(mark.len()))
    }

    fn code(&mut self, kind: &CodeBlockKind<'_>) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        if let CodeBlockKind::Fenced(language) = kind
            && !language.is_empty()
        {
            let style = TextStyle {
                italic: true,
                ..dim_style()
            };
            lines.push(vec![StyledText::new(language.to_string(), style)]);
        }
        let is_diff = matches!(kind, CodeBlockKind::Fenced(language) if **language == *"diff");
        let mut shown = self.verbatim(dim_style());
        if is_diff {
            shown.iter_mut().flatten().for_each(colour_diff_line);
        }
        lines.extend(prefix_lines(shown, "    ", "    "));
        lines
    }

    /// Lines as they are, up to the end of their block.
    fn verbatim(&mut self, style: TextStyle) -> Vec<StyledLine> {
        let mut text = String::new();
        for (event, _) in self.events.by_ref() {
            match event {
                Event::End(TagEnd::CodeBlock | TagEnd::HtmlBlock) => break,
                Event::Text(piece) | Event::Html(piece) | Event::InlineHtml(piece) => text.push_str(&piece),
                _ => {}
            }
        }
        let lines = text.trim_end_matches('\n').split('\n');
        lines
            .map(|line| vec![StyledText::new(line.replace('\t', "    "), style)])
            .collect()
    }

    fn list(&mut self, columns: usize) -> Vec<StyledLine> {
        let mut lines: Vec<StyledLine> = Vec::new();
        let mut gap = false;
        while let Some((Event::Start(Tag::Item), range)) = self.events.next() {
            let source = &self.source[range];
            let mark = item_marker(source);
            let taken = mark.chars().count();
            let mut item = self.blocks(inner_columns(columns, taken));
            if item.is_empty() {
                item.push(StyledLine::new());
            }
            if gap {
                lines.push(StyledLine::new());
            }
            gap = source.ends_with("\n\n");
            lines.extend(prefix_lines(item, &mark, &" ".repeat(taken)));
        }
        lines
    }

    fn table(&mut self, alignments: Vec<pulldown_cmark::Alignment>) -> MarkdownTable {
        let mut table = MarkdownTable {
            alignments,
            ..MarkdownTable::default()
        };
        let mut row = Vec::new();
        let mut style = TextStyle {
            bold: self.terminal.colour,
            ..TextStyle::default()
        };
        while let Some((event, _)) = self.events.next() {
            match event {
                Event::Start(Tag::TableCell) => row.push(self.inline(style)),
                Event::End(TagEnd::TableHead) => {
                    table.header = std::mem::take(&mut row);
                    style = TextStyle::default();
                }
                Event::End(TagEnd::TableRow) => table.rows.push(std::mem::take(&mut row)),
                Event::End(TagEnd::Table) => break,
                _ => {}
            }
        }
        table
    }

    /// Reads inline content up to and including the end of its container.
    fn inline(&mut self, style: TextStyle) -> Vec<StyledText> {
        let mut spans = Vec::new();
        while let Some((event, range)) = self.events.next() {
            if matches!(event, Event::End(_)) {
                break;
            }
            self.inline_event(event, range, style, &mut spans);
        }
        spans
    }

    /// Inline content that nothing holds: as long as there is some.
    fn loose_inline(&mut self, first: Event<'a>, range: Range<usize>) -> Vec<StyledText> {
        let mut spans = Vec::new();
        self.inline_event(first, range, TextStyle::default(), &mut spans);
        while let Some((event, range)) = self.events.next_if(|(event, _)| is_inline(event)) {
            self.inline_event(event, range, TextStyle::default(), &mut spans);
        }
        spans
    }

    fn inline_event(&mut self, event: Event<'a>, range: Range<usize>, style: TextStyle, spans: &mut Vec<StyledText>) {
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                spans.push(StyledText::new(text.to_string(), style));
            }
            Event::Code(code) => {
                let style = TextStyle { code: true, ..style };
                self.marked("`", spans, |_| vec![StyledText::new(code.to_string(), style)]);
            }
            Event::SoftBreak => spans.push(StyledText::new(" ", style)),
            Event::HardBreak => spans.push(StyledText::new("\n", style)),
            Event::Start(Tag::Strong | Tag::Emphasis) if is_name(&self.source[range.clone()]) => {
                let source = &self.source[range];
                let marks = if source.starts_with("__") { "__" } else { "_" };
                spans.push(StyledText::new(marks, style));
                spans.extend(self.inline(style));
                spans.push(StyledText::new(marks, style));
            }
            Event::Start(Tag::Strong) => {
                let style = TextStyle { bold: true, ..style };
                self.marked("**", spans, |reader| reader.inline(style));
            }
            Event::Start(Tag::Emphasis) => {
                let style = TextStyle { italic: true, ..style };
                self.marked("*", spans, |reader| reader.inline(style));
            }
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                ..
            }) => {
                spans.extend(self.inline(style));
                if !matches!(link_type, LinkType::Autolink | LinkType::Email) {
                    spans.extend(link_address(&dest_url, &title, style));
                }
            }
            Event::Start(Tag::Image { dest_url, title, .. }) => {
                spans.extend(self.inline(style));
                spans.extend(link_address(&dest_url, &title, style));
            }
            Event::Start(_) => spans.extend(self.inline(style)),
            // Nothing else comes without its extension; should one come, its source is text.
            _ => spans.push(StyledText::new(self.source[range].to_owned(), style)),
        }
    }

    /// Content in a style, or between marks if styles are off.
    fn marked(&mut self, mark: &str, spans: &mut Vec<StyledText>, content: impl FnOnce(&mut Self) -> Vec<StyledText>) {
        let mark = (!self.terminal.colour).then(|| StyledText::plain(mark));
        spans.extend(mark.clone());
        spans.extend(content(self));
        spans.extend(mark);
    }
}

/// True for `__init__` in `src/__init__.py:8` and similar names: in text about code these are not Markdown.
fn is_name(source: &str) -> bool {
    source.starts_with('_') && !source.contains(char::is_whitespace)
}

fn is_inline(event: &Event<'_>) -> bool {
    match event {
        Event::Start(tag) => matches!(
            tag,
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. }
        ),
        Event::End(_) | Event::Rule => false,
        _ => true,
    }
}

fn dim_style() -> TextStyle {
    TextStyle {
        dim: true,
        ..TextStyle::default()
    }
}

/// The address of a link, after its text.
fn link_address(url: &str, title: &str, style: TextStyle) -> Option<StyledText> {
    let title = match title {
        "" => String::new(),
        title => format!(" \"{title}\""),
    };
    let text = format!(" ({url}{title})");
    (text != " ()").then(|| StyledText::new(text, TextStyle { dim: true, ..style }))
}

/// The mark of an item: its own number, or a bullet.
fn item_marker(item: &str) -> String {
    let number: String = item.chars().take_while(char::is_ascii_digit).collect();
    match number.as_str() {
        "" => "• ".to_owned(),
        number => format!("{number}. "),
    }
}

fn inner_columns(columns: usize, taken: usize) -> usize {
    columns.saturating_sub(taken).max(COLUMNS_MIN / 2)
}

/// Puts one text before the first line and another before the rest.
fn prefix_lines(lines: Vec<StyledLine>, first: &str, rest: &str) -> Vec<StyledLine> {
    let before = |(at, line): (usize, StyledLine)| {
        let prefix = StyledText::plain(if at == 0 { first } else { rest });
        std::iter::once(prefix).chain(line).collect()
    };
    lines.into_iter().enumerate().map(before).collect()
}

/// Added lines are green, removed ones red.
fn colour_diff_line(line: &mut StyledText) {
    let is_header = line.text.starts_with("+++ ") || line.text.starts_with("--- ");
    line.style.added = line.text.starts_with('+') && !is_header;
    line.style.removed = line.text.starts_with('-') && !is_header;
    line.style.dim &= !line.style.added && !line.style.removed;
}
