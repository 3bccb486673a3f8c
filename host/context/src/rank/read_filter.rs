//! Chooses the files of a large tree whose profiles a ranking reads: those that can be among the best.
//!
//! The index tells which files have the words of a task, roughly how often, and how long the files are. Together with
//! file names, areas and similar commits, this gives an approximate order of all files. The ranking reads only the
//! first of them. The others count in its statistics as if they had been read.

use super::related::area_rarity;
use super::{PlaceTerms, TermStatistics, role_factor, score_named_path};
use crate::history::HistorySignals;
use crate::map_in_parallel;
use crate::path_names::PathNames;
use crate::query::Query;
use crate::weights::WEIGHTS;
use crate::word_hits::{FileSize, WordHits};
use tool_repository::file_role::Role;

/// Assumed number of occurrences of a word that a file has once or twice, and of one that it has more often.
const RARE_COUNT: f64 = 1.3;
const OFTEN_COUNT: f64 = 6.0;

/// Weight of a rare area and of commits like the task, in units of the best score.
const RELATED: f64 = 1.0;

/// Counts of the files that a ranking does not read, for its statistics.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnreadCounts {
    pub(crate) count: usize,
    pub(super) words: u64,
    pub(super) blocks: u64,
    /// By term: files that have it.
    pub(super) files: Vec<u32>,
    /// By term: files that have it in their name.
    pub(super) in_paths: Vec<u32>,
    /// By area: files that belong to it.
    pub(super) areas: Vec<f64>,
}

impl UnreadCounts {
    fn new(query: &Query) -> Self {
        Self {
            files: vec![0; query.terms.len()],
            in_paths: vec![0; query.terms.len()],
            areas: vec![0.0; query.areas.len()],
            ..Self::default()
        }
    }

    fn add(&mut self, size: FileSize, name_terms: &mut Vec<u16>) {
        self.count += 1;
        self.words += u64::from(size.words);
        self.blocks += u64::from(size.blocks);
        name_terms.sort_unstable();
        name_terms.dedup();
        name_terms
            .iter()
            .for_each(|term| self.in_paths[usize::from(*term)] += 1);
    }
}

/// Divides files into those to be read and the others, by words, paths, roles and history.
pub(crate) struct ReadFilter<'a> {
    pub(crate) query: &'a Query,
    pub(crate) paths: &'a [&'a str],
    pub(crate) roles: &'a [Role],
    pub(crate) names: &'a PathNames,
    /// For each area of the task and each file: the certainty that the file belongs to the area.
    pub(crate) areas: &'a [Vec<f64>],
    pub(crate) history: Option<&'a HistorySignals>,
}

impl ReadFilter<'_> {
    /// Divides `files` by their words in `hits`. Returns the ones to be read, best first, and the counts of the others.
    pub(crate) fn divide(&self, files: &[usize], hits: &WordHits) -> (Vec<usize>, UnreadCounts) {
        let mut order: Vec<u32> = (0..files.len() as u32).collect();
        let scores = self.scores(files, hits);
        let by_score = |a: &u32, b: &u32| {
            let (one, other) = (scores[*a as usize], scores[*b as usize]);
            other.total_cmp(&one).then(a.cmp(b))
        };
        if order.len() > hits.files_max {
            order.select_nth_unstable_by(hits.files_max, by_score);
        }
        let most = hits.files_max.min(order.len());
        let mut is_read = vec![false; files.len()];
        order[..most].iter().for_each(|at| is_read[*at as usize] = true);
        // A file that is not in the index must be read.
        for (is_read, size) in is_read.iter_mut().zip(&hits.sizes) {
            *is_read |= size.is_none();
        }
        let unread = self.count(files, hits, |at| !is_read[at]);
        let mut read: Vec<u32> = (0..files.len() as u32).filter(|at| is_read[*at as usize]).collect();
        read.sort_unstable_by(by_score);
        (read.into_iter().map(|at| files[at as usize]).collect(), unread)
    }

    /// Counts the indexed files that `is_wanted` accepts.
    fn count(&self, files: &[usize], hits: &WordHits, is_wanted: impl Fn(usize) -> bool) -> UnreadCounts {
        let mut counted = UnreadCounts::new(self.query);
        let mut terms = Vec::new();
        for (at, (file, size)) in files.iter().zip(&hits.sizes).enumerate() {
            if let Some(size) = size.filter(|_| is_wanted(at)) {
                self.names.name_terms(self.query, *file as u32, &mut terms);
                counted.add(size, &mut terms);
                for (sum, area) in counted.areas.iter_mut().zip(self.areas) {
                    *sum += area[*file];
                }
            }
        }
        for (term, count) in counted.files.iter_mut().enumerate() {
            let holders = hits.rare[term].iter().chain(&hits.often[term]);
            *count = holders.filter(|at| is_wanted(**at as usize)).count() as u32;
        }
        counted
    }

    /// For each file: its approximate score. Files that the index does not know have 0.
    fn scores(&self, files: &[usize], hits: &WordHits) -> Vec<f64> {
        let all = self.count(files, hits, |_| true);
        let statistics = TermStatistics::new(self.query, self.names, &[], &all, self.paths.len());
        let mut scores = vec![0.0; files.len()];
        for (term, rarity) in statistics.rarity.iter().enumerate() {
            for (holders, count) in [(&hits.rare[term], RARE_COUNT), (&hits.often[term], OFTEN_COUNT)] {
                for at in holders {
                    let words = hits.sizes[*at as usize].map_or(0, |size| size.words);
                    scores[*at as usize] += rarity * WEIGHTS.saturate(count, words, statistics.length_mean);
                }
            }
        }
        let folder_terms = self.names.folder_terms(self.query);
        let places: Vec<(usize, f64)> = files.iter().copied().zip(scores).collect();
        let mut scores = map_in_parallel(&places, |(file, words)| {
            let place = PlaceTerms::find_terms(self.query, self.names, &folder_terms, *file as u32);
            let own = place.name_score(&statistics, &WEIGHTS)
                + place.directory_score(&statistics, &WEIGHTS)
                + score_named_path(self.query, self.paths[*file], place.stem, &statistics, &WEIGHTS);
            (words + own) * role_factor(self.query, self.paths[*file], self.roles[*file], &WEIGHTS)
        });
        let best = scores.iter().copied().fold(0.0, f64::max);
        let rarities = all.areas.iter().map(|holders| area_rarity(*holders, self.paths.len()));
        let areas: Vec<(&Vec<f64>, f64)> = self.areas.iter().zip(rarities).collect();
        for (score, file) in scores.iter_mut().zip(files) {
            let area = areas
                .iter()
                .map(|(area, rarity)| area[*file] * rarity)
                .fold(0.0, f64::max);
            let past = self.history.and_then(|history| history.of(*file as u32));
            let similar = past.map_or(0.0, |past| {
                (past.similar_share * past.similar.min(1.0)).max(past.similar_late)
            });
            *score += RELATED * best * (area + similar);
        }
        scores
    }
}
