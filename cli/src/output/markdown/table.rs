//! A table within a width: columns as wide as their text, narrower ones wrapped, or a record for each row.

use pulldown_cmark::Alignment;

use super::wrap::{StyledLine, StyledText, TextStyle, longest_word, span_width, wrap_spans};

/// A table as it was parsed.
#[derive(Debug, Default)]
pub(super) struct MarkdownTable {
    pub(super) alignments: Vec<Alignment>,
    pub(super) header: Vec<Vec<StyledText>>,
    pub(super) rows: Vec<Vec<Vec<StyledText>>>,
}

const GAP: usize = 2;

/// Lays a table out. No word is broken: where the longest words leave no room for columns, each row becomes a record.
pub(super) fn layout_table(table: &MarkdownTable, columns: usize) -> Vec<StyledLine> {
    match column_widths(table, columns) {
        Some(widths) => layout_grid(table, &widths),
        None => layout_records(table, columns),
    }
}

/// The width of each column: what its longest text takes; where that is too much in all, the widest give way, but none
/// below its longest word.
fn column_widths(table: &MarkdownTable, columns: usize) -> Option<Vec<usize>> {
    let count = table.header.len();
    let most = |measure: fn(&[StyledText]) -> usize| -> Vec<usize> {
        let rows = || std::iter::once(&table.header).chain(&table.rows);
        let widest = |column: usize| {
            let cells = rows().filter_map(|row| row.get(column));
            cells.map(|cell| measure(cell)).max().unwrap_or(0)
        };
        (0..count).map(widest).collect()
    };
    let (mut widths, least) = (most(span_width), most(longest_word));
    let room = columns.checked_sub(GAP * count.saturating_sub(1))?;
    if least.iter().sum::<usize>() > room {
        return None;
    }
    // No column is wider than all of the room, so the loop below is short.
    widths.iter_mut().for_each(|width| *width = (*width).min(room));
    while widths.iter().sum::<usize>() > room {
        let candidates = (0..count).filter(|&column| widths[column] > least[column]);
        let widest = candidates.max_by_key(|&column| widths[column])?;
        widths[widest] -= 1;
    }
    Some(widths)
}

fn layout_grid(table: &MarkdownTable, widths: &[usize]) -> Vec<StyledLine> {
    let dim = TextStyle {
        dim: true,
        ..TextStyle::default()
    };
    let mut rule = StyledLine::new();
    for (column, &width) in widths.iter().enumerate() {
        if column > 0 {
            rule.push(StyledText::plain(" ".repeat(GAP)));
        }
        rule.push(StyledText::new("─".repeat(width.max(1)), dim));
    }
    let mut lines = layout_row(&table.header, &table.alignments, widths);
    lines.push(rule);
    for cells in &table.rows {
        lines.extend(layout_row(cells, &table.alignments, widths));
    }
    lines
}

/// One row, as many lines as its highest cell.
fn layout_row(cells: &[Vec<StyledText>], alignments: &[Alignment], widths: &[usize]) -> Vec<StyledLine> {
    let wrapped = cells
        .iter()
        .zip(widths)
        .map(|(cell, &columns)| wrap_spans(cell, columns));
    let wrapped: Vec<Vec<StyledLine>> = wrapped.collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines = Vec::new();
    for at in 0..height {
        let mut line = StyledLine::new();
        for (column, cell) in wrapped.iter().enumerate() {
            if column > 0 {
                line.push(StyledText::plain(" ".repeat(GAP)));
            }
            let text = cell.get(at).cloned().unwrap_or_default();
            let free = widths[column].saturating_sub(span_width(&text));
            let left = match alignments.get(column) {
                Some(Alignment::Right) => free,
                Some(Alignment::Center) => free / 2,
                _ => 0,
            };
            line.push(StyledText::plain(" ".repeat(left)));
            line.extend(text);
            line.push(StyledText::plain(" ".repeat(free - left)));
        }
        lines.push(line);
    }
    lines
}

/// A row as lines of `header: value`, with a blank line between two rows.
fn layout_records(table: &MarkdownTable, columns: usize) -> Vec<StyledLine> {
    if table.rows.is_empty() {
        let cells = table.header.iter();
        return cells.flat_map(|cell| wrap_spans(cell, columns)).collect();
    }
    let mut lines = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        if at > 0 {
            lines.push(StyledLine::new());
        }
        for (column, cell) in row.iter().enumerate() {
            let mut spans = table.header.get(column).cloned().unwrap_or_default();
            if !spans.is_empty() {
                spans.push(StyledText::plain(": "));
            }
            spans.extend(cell.iter().cloned());
            lines.extend(wrap_spans(&spans, columns));
        }
    }
    lines
}
