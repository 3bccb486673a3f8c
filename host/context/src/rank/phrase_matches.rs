//! Features of the wording of the best files: phrases of the task, several of its words in one identifier, and exact
//! matches of its names and quotations.
//!
//! Profiles do not store the order of words, so these features need the texts of files. Only the best files are read.
//! In them, phrases are searched only in blocks of lines that have words of the task.

use std::sync::Mutex;

use memchr::memmem::Finder;

use super::{Candidates, Feature, MeasuredFile, TermStatistics};
use crate::file_match::FileMatch;
use crate::profile::{BLOCK_LINES, LINE_BYTES_MAX};
use crate::query::Query;
use crate::weights::{FeatureWeights, Weights};
use crate::words::{each_identifier, split_identifier};

/// Files that are read. They hold 97 % of the files that a task's commit changes.
const FILES_READ_MAX: usize = 30;

/// Matches of a task's phrases and names in one text.
struct PhraseMatches {
    /// For each pair of words of the task: its number of occurrences.
    pairs: Vec<u32>,
    /// For each name or quotation of the task: its number of occurrences.
    exact: Vec<u32>,
    /// Score of the best identifier.
    identifier: f64,
    words: u32,
}

/// Adds these features to the files with the best scores so far.
pub(super) fn add_wording(
    query: &Query,
    candidates: &Candidates<'_>,
    statistics: &TermStatistics,
    weights: &Weights,
    measured: &mut [MeasuredFile],
) {
    let Some(read) = candidates.read else { return };
    let learned = candidates.learned();
    let found = read_best(query, candidates, statistics, learned, measured, read);
    let count = found.len() as f64;
    let words_mean = found.iter().map(|(_, one)| f64::from(one.words)).sum::<f64>() / count.max(1.0);
    // Rarity is measured among the files that were read, because the other texts are not known. A pair or name that
    // most of these files have does not separate them.
    let rarity = |holders: usize| match holders as f64 {
        holders if holders > count / 2.0 => 0.0,
        holders => (1.0 + (count - holders + 0.5) / (holders + 0.5)).ln(),
    };
    let rarities = |counts: &dyn Fn(&PhraseMatches) -> &[u32], said: &[f64]| -> Vec<f64> {
        let holders = |at: usize| found.iter().filter(|(_, one)| counts(one)[at] > 0).count();
        said.iter()
            .enumerate()
            .map(|(at, weight)| weight * rarity(holders(at)))
            .collect()
    };
    let pair_weights: Vec<f64> = query.pairs.iter().map(|(_, weight)| *weight).collect();
    let exact_weights: Vec<f64> = query.exact.iter().map(|(_, weight)| *weight).collect();
    let pairs = rarities(&|one| &one.pairs, &pair_weights);
    let exact = rarities(&|one| &one.exact, &exact_weights);
    let sum = |counts: &[u32], rarities: &[f64], words: u32, words_mean: f64| -> f64 {
        let said = counts.iter().zip(rarities).filter(|(count, _)| **count > 0);
        said.map(|(count, rarity)| rarity * weights.saturate(f64::from(*count), words, words_mean))
            .sum()
    };
    for (at, one) in &found {
        let features = &mut measured[*at].features;
        features.set(Feature::Phrase, sum(&one.pairs, &pairs, one.words, words_mean));
        features.set(Feature::Exact, sum(&one.exact, &exact, 1, 1.0));
        features.set(Feature::Identifier, one.identifier);
    }
}

/// Reads the best files. The numbers are places among `measured`.
fn read_best(
    query: &Query,
    candidates: &Candidates<'_>,
    statistics: &TermStatistics,
    learned: &FeatureWeights,
    measured: &[MeasuredFile],
    read: &(dyn Fn(u32) -> Option<String> + Sync),
) -> Vec<(usize, PhraseMatches)> {
    let mut best: Vec<(f64, usize)> = measured
        .iter()
        .enumerate()
        .map(|(at, one)| (one.score(learned), at))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    best.truncate(FILES_READ_MAX);
    let finders: Vec<Finder<'_>> = query.exact.iter().map(|(text, _)| Finder::new(text)).collect();
    let found: Vec<(usize, Mutex<Option<PhraseMatches>>)> =
        best.iter().map(|(_, at)| (*at, Mutex::default())).collect();
    crate::each_in_parallel(&found, |(at, into)| {
        let index = measured[*at].index;
        if let Some(matched) = &candidates.matches[index as usize]
            && let Some(text) = read(index)
        {
            let wording = PhraseMatches::measure_text(query, &finders, statistics, matched, &text);
            *into.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(wording);
        }
        std::ops::ControlFlow::Continue(())
    });
    let mut all: Vec<(usize, PhraseMatches)> = found
        .into_iter()
        .filter_map(|(at, one)| Some((at, one.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?)))
        .collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

impl PhraseMatches {
    fn measure_text(
        query: &Query,
        finders: &[Finder<'_>],
        statistics: &TermStatistics,
        matched: &FileMatch,
        text: &str,
    ) -> Self {
        let mut wording = Self {
            pairs: vec![0; query.pairs.len()],
            exact: vec![0; query.exact.len()],
            identifier: 0.0,
            words: matched.length,
        };
        let text = text.as_bytes();
        for (count, finder) in wording.exact.iter_mut().zip(finders) {
            *count = finder.find_iter(text).count() as u32;
        }
        let mut blocks = BlockStarts::new(text);
        for hits in matched.hits.chunk_by(|a, b| a.0 == b.0) {
            // Hits are sorted by block and then by term.
            if hits.first().map(|hit| hit.1) == hits.last().map(|hit| hit.1) {
                continue;
            }
            let Some(block) = blocks.block(hits[0].0) else { break };
            wording.read_block(query, statistics, block);
        }
        wording
    }

    fn read_block(&mut self, query: &Query, statistics: &TermStatistics, block: &[u8]) {
        let mut before = None;
        let mut said: Vec<u16> = Vec::new();
        for line in block
            .split(|byte| *byte == b'\n')
            .filter(|line| line.len() <= LINE_BYTES_MAX)
        {
            each_identifier(line, |identifier| {
                said.clear();
                let mut words = 0_u32;
                split_identifier(identifier, |word, whole| {
                    if whole {
                        return;
                    }
                    words += 1;
                    let term = query.term(word);
                    if let (Some(before), Some(term)) = (before, term)
                        && let Some(at) = query.pair(before, term)
                    {
                        self.pairs[at] += 1;
                    }
                    before = term;
                    said.extend(term);
                });
                let share = said.len() as f64 / f64::from(words);
                said.sort_unstable();
                said.dedup();
                if said.len() > 1 {
                    let rarity: f64 = said.iter().map(|term| statistics.rarity[usize::from(*term)]).sum();
                    self.identifier = self.identifier.max(rarity * share);
                }
            });
        }
    }
}

/// Finds blocks of lines in a text, in ascending order.
struct BlockStarts<'t> {
    text: &'t [u8],
    line_ends: memchr::Memchr<'t>,
    /// The next block and its first byte.
    next: (u32, usize),
}

impl<'t> BlockStarts<'t> {
    fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            line_ends: memchr::memchr_iter(b'\n', text),
            next: (0, 0),
        }
    }

    /// The lines of a block; absent after the last one.
    fn block(&mut self, number: u32) -> Option<&'t [u8]> {
        loop {
            let (block, from) = self.next;
            if from >= self.text.len() {
                return None;
            }
            let last = self.line_ends.by_ref().take(BLOCK_LINES as usize).last();
            let to = last.map_or(self.text.len(), |at| at + 1);
            self.next = (block + 1, to);
            if block == number {
                return Some(&self.text[from..to]);
            }
        }
    }
}
