//! A table within a width: columns as wide as their text, narrower ones wrapped, or a record for each row.

use pulldown_cmark::Alignment;

use super::wrap::{Line, Span, Style, longest_word, width, wrap};

/// A table as it was parsed.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) alignments: Vec<Alignment>,
    pub(super) header: Vec<Vec<Span>>,
    pub(super) rows: Vec<Vec<Vec<Span>>>,
}

const GAP: usize = 2;

/// Lays a table out. No word is broken: where the longest words leave no room for columns, each row becomes a record.
pub(super) fn lines(table: &Table, columns: usize) -> Vec<Line> {
    match widths(table, columns) {
        Some(widths) => grid(table, &widths),
        None => records(table, columns),
    }
}

/// The width of each column: what its longest text takes; where that is too much in all, the widest give way, but none
/// below its longest word.
fn widths(table: &Table, columns: usize) -> Option<Vec<usize>> {
    let count = table.header.len();
    let most = |measure: fn(&[Span]) -> usize| -> Vec<usize> {
        let rows = || std::iter::once(&table.header).chain(&table.rows);
        let widest = |column: usize| {
            let cells = rows().filter_map(|row| row.get(column));
            cells.map(|cell| measure(cell)).max().unwrap_or(0)
        };
        (0..count).map(widest).collect()
    };
    let (mut widths, least) = (most(width), most(longest_word));
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

fn grid(table: &Table, widths: &[usize]) -> Vec<Line> {
    let dim = Style {
        dim: true,
        ..Style::default()
    };
    let mut rule = Line::new();
    for (column, &width) in widths.iter().enumerate() {
        if column > 0 {
            rule.push(Span::plain(" ".repeat(GAP)));
        }
        rule.push(Span::new("─".repeat(width.max(1)), dim));
    }
    let mut lines = row(&table.header, &table.alignments, widths);
    lines.push(rule);
    for cells in &table.rows {
        lines.extend(row(cells, &table.alignments, widths));
    }
    lines
}

/// One row, as many lines as its highest cell.
fn row(cells: &[Vec<Span>], alignments: &[Alignment], widths: &[usize]) -> Vec<Line> {
    let wrapped = cells.iter().zip(widths).map(|(cell, &columns)| wrap(cell, columns));
    let wrapped: Vec<Vec<Line>> = wrapped.collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines = Vec::new();
    for at in 0..height {
        let mut line = Line::new();
        for (column, cell) in wrapped.iter().enumerate() {
            if column > 0 {
                line.push(Span::plain(" ".repeat(GAP)));
            }
            let text = cell.get(at).cloned().unwrap_or_default();
            let free = widths[column].saturating_sub(width(&text));
            let left = match alignments.get(column) {
                Some(Alignment::Right) => free,
                Some(Alignment::Center) => free / 2,
                _ => 0,
            };
            line.push(Span::plain(" ".repeat(left)));
            line.extend(text);
            line.push(Span::plain(" ".repeat(free - left)));
        }
        lines.push(line);
    }
    lines
}

/// A row as lines of `header: value`, with a blank line between two rows.
fn records(table: &Table, columns: usize) -> Vec<Line> {
    if table.rows.is_empty() {
        let cells = table.header.iter();
        return cells.flat_map(|cell| wrap(cell, columns)).collect();
    }
    let mut lines = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        if at > 0 {
            lines.push(Line::new());
        }
        for (column, cell) in row.iter().enumerate() {
            let mut spans = table.header.get(column).cloned().unwrap_or_default();
            if !spans.is_empty() {
                spans.push(Span::plain(": "));
            }
            spans.extend(cell.iter().cloned());
            lines.extend(wrap(&spans, columns));
        }
    }
    lines
}
