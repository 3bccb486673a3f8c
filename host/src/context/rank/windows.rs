//! The lines of a file that a task is most about.

use super::Statistics;
use crate::context::facts::Facts;
use crate::context::index::BLOCK_LINES;
use crate::context::weights::Weights;

/// Blocks of one window: 50 lines hold a function with what is around it.
pub(super) const WINDOW_BLOCKS: usize = 5;

/// Windows of a file by their scores, best first and not overlapping.
pub(super) fn windows(facts: &Facts, statistics: &Statistics, weights: &Weights) -> Vec<(u32, u32, f64)> {
    let mut scored: Vec<(usize, f64)> = Vec::new();
    let last = facts.hits.last().map_or(0, |hit| hit.0 as usize);
    let first = facts.hits.first().map_or(0, |hit| hit.0 as usize);
    let mut from = 0;
    for start in (first + 1).saturating_sub(WINDOW_BLOCKS)..=last {
        let end = start + WINDOW_BLOCKS;
        while facts.hits.get(from).is_some_and(|hit| (hit.0 as usize) < start) {
            from += 1;
        }
        let mut counts: Vec<(u16, u32)> = Vec::new();
        for (_, term, count) in facts.hits[from..].iter().take_while(|hit| (hit.0 as usize) < end) {
            match counts.iter_mut().find(|(known, _)| known == term) {
                Some((_, sum)) => *sum += u32::from(*count),
                None => counts.push((*term, u32::from(*count))),
            }
        }
        let length: u32 = facts.blocks[start.min(facts.blocks.len())..end.min(facts.blocks.len())]
            .iter()
            .sum();
        let norm = weights.k1 * (0.5 + 0.5 * f64::from(length) / statistics.window_mean.max(1.0));
        let value: f64 = counts
            .iter()
            .map(|(term, count)| {
                f64::from(*count) * (weights.k1 + 1.0) / (f64::from(*count) + norm)
                    * statistics.rarity[usize::from(*term)]
            })
            .sum();
        if value > 0.0 {
            scored.push((start, value));
        }
    }
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut chosen: Vec<(usize, f64)> = Vec::new();
    for (start, value) in scored {
        if chosen.len() == WINDOWS_MAX {
            break;
        }
        if chosen.iter().all(|(other, _)| other.abs_diff(start) >= WINDOW_BLOCKS) {
            chosen.push((start, value));
        }
    }
    let lines = |start: usize| {
        (
            start as u32 * BLOCK_LINES + 1,
            (start + WINDOW_BLOCKS) as u32 * BLOCK_LINES,
        )
    };
    chosen
        .into_iter()
        .map(|(start, value)| (lines(start).0, lines(start).1, value))
        .collect()
}

/// Windows kept of a file: what a packet could show of it.
const WINDOWS_MAX: usize = 12;
