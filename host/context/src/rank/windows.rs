//! The lines of a file that match a task best.

use std::ops::Range;

use super::TermStatistics;
use crate::file_match::FileMatch;
use crate::profile::BLOCK_LINES;
use crate::weights::Weights;

/// Blocks of one window: 50 lines hold a function with its surroundings.
pub(super) const WINDOW_BLOCKS: usize = 5;

/// A longer definition is not shown as one region; regions inside it are.
const DEFINITION_BLOCKS_MAX: usize = 12;

/// Part of a file: its blocks, and the lines that it shows.
#[derive(Debug, Clone)]
struct FileWindow {
    blocks: Range<usize>,
    lines: (u32, u32),
}

impl FileWindow {
    fn starting_at(start: usize) -> Self {
        let end = start + WINDOW_BLOCKS;
        Self {
            blocks: start..end,
            lines: (start as u32 * BLOCK_LINES + 1, end as u32 * BLOCK_LINES),
        }
    }

    /// A definition as a region, if its end is known and it is not too long.
    fn of_definition((line, end_line): (u32, u32)) -> Option<Self> {
        let block = |line: u32| (line.saturating_sub(1) / BLOCK_LINES) as usize;
        let blocks = block(line)..block(end_line) + 1;
        (end_line > line && blocks.len() <= DEFINITION_BLOCKS_MAX).then_some(Self {
            blocks,
            lines: (line, end_line),
        })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.lines.0 <= other.lines.1 && other.lines.0 <= self.lines.1
    }
}

/// Windows of a file by their scores, best first and not overlapping: runs of lines, and whole definitions that share
/// words with the task.
pub(super) fn rank_windows(
    matched: &FileMatch,
    statistics: &TermStatistics,
    weights: &Weights,
) -> Vec<(u32, u32, f64)> {
    let last = matched.hits.last().map_or(0, |hit| hit.0 as usize);
    let first = matched.hits.first().map_or(0, |hit| hit.0 as usize);
    let fixed = ((first + 1).saturating_sub(WINDOW_BLOCKS)..=last).map(FileWindow::starting_at);
    let defined = matched
        .definitions
        .iter()
        .filter_map(|one| FileWindow::of_definition((one.line, one.end_line)));
    let mut scored: Vec<(FileWindow, f64)> = fixed
        .chain(defined)
        .map(|window| (window.clone(), score_window(&window, matched, statistics, weights)))
        .filter(|(_, value)| *value > 0.0)
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.lines.cmp(&b.0.lines)));
    let mut chosen: Vec<(FileWindow, f64)> = Vec::new();
    for (window, value) in scored {
        if chosen.len() == WINDOWS_MAX {
            break;
        }
        if chosen.iter().all(|(other, _)| !other.overlaps(&window)) {
            chosen.push((window, value));
        }
    }
    let lines = |(window, value): (FileWindow, f64)| (window.lines.0, window.lines.1, value);
    chosen.into_iter().map(lines).collect()
}

/// BM25 of a window's words.
fn score_window(window: &FileWindow, matched: &FileMatch, statistics: &TermStatistics, weights: &Weights) -> f64 {
    let Range { start, end } = window.blocks;
    let from = matched.hits.partition_point(|hit| (hit.0 as usize) < start);
    let mut counts: Vec<(u16, u32)> = Vec::new();
    for (_, term, count) in matched.hits[from..].iter().take_while(|hit| (hit.0 as usize) < end) {
        match counts.iter_mut().find(|(known, _)| known == term) {
            Some((_, sum)) => *sum += u32::from(*count),
            None => counts.push((*term, u32::from(*count))),
        }
    }
    let length: u32 = matched.blocks[start.min(matched.blocks.len())..end.min(matched.blocks.len())]
        .iter()
        .sum();
    let norm = weights.k1 * (0.5 + 0.5 * f64::from(length) / statistics.window_mean.max(1.0));
    counts
        .iter()
        .map(|(term, count)| {
            f64::from(*count) * (weights.k1 + 1.0) / (f64::from(*count) + norm) * statistics.rarity[usize::from(*term)]
        })
        .sum()
}

/// Windows kept of a file: what a packet could show of it.
const WINDOWS_MAX: usize = 12;
