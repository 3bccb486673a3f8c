//! Computes the signals of a history for a task: one set of numbers for each listed file.

use std::collections::{BTreeMap, HashMap};

use super::{CommitId, History};
use crate::query::Query;

/// Number of similar commits that count for a task.
const SIMILAR_COMMITS_MAX: usize = 40;

/// Cosine below which two messages share no more than a common word.
const SIMILARITY_MIN: f64 = 0.12;

/// Commits after which a similar commit counts half.
const SIMILAR_HALF_COMMITS: f64 = 5_000.0;

/// Number of commits with a similar title that count for a task.
const SIMILAR_TITLES_MAX: usize = 60;

/// Cosine below which two titles share no more than a common word.
const TITLE_SIMILARITY_MIN: f64 = 0.1;

/// Commits after which one with a similar title counts half.
const SIMILAR_TITLES_HALF_COMMITS: f64 = 1_000.0;

/// Commits after which one of the newest counts `1/e`, and how many count at all.
const NEWEST_COMMITS: f64 = 3.0;
const NEWEST_COMMITS_MAX: usize = 20;

/// Cosine below which the task does not continue the work of one of the last commits. It is less than
/// [`SIMILARITY_MIN`], because a person who works at one thing describes each of its commits in other words.
const LATE_SIMILARITY_MIN: f64 = 0.05;

/// Commits after which one of the last commits counts half. Work often takes several commits, so the next one is likely
/// to change files of the ones just before.
const LATE_HALF_COMMITS: f64 = 20.0;

/// Commits that count as the last ones. Older ones would count less than a twenty-fifth.
const LATE_COMMITS_MAX: usize = 500;

/// Number of relevant files for which files that change together with them are searched.
pub(crate) const TOGETHER_SEEDS_MAX: usize = 8;

/// Added to the commits of a file, so that a file of one commit proves little.
const TOGETHER_PRIOR: f64 = 2.0;

/// Days after which the last change of a file counts half.
const FRESH_HALF_DAYS: f64 = 60.0;

const DAY_SECONDS: f64 = 86_400.0;

/// Statistics of a history that no task changes. They are computed once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CommitStatistics {
    /// For each commit: its files by their present names. Empty if the commit does not count.
    files: Vec<Box<[u32]>>,
    /// For each word: the number of counting commits whose message contains it.
    holders: HashMap<u32, u32>,
    /// For each commit: the Euclidean norms of its message and its title as vectors.
    lengths: Vec<(f64, f64)>,
    counting: f64,
}

impl CommitStatistics {
    fn new(history: &History) -> Self {
        let files = history.present_names();
        let counting = || {
            history
                .commits
                .iter()
                .zip(&files)
                .filter(|(_, files)| !files.is_empty())
        };
        let mut holders: HashMap<u32, u32> = HashMap::new();
        for (commit, _) in counting() {
            commit
                .words
                .iter()
                .for_each(|word| *holders.entry(*word).or_default() += 1);
        }
        let mut statistics = Self {
            counting: counting().count() as f64,
            holders,
            ..Self::default()
        };
        let square = |word: &u32| statistics.rarity(*word).powi(2);
        let length = |words: &[u32]| words.iter().map(square).sum::<f64>().sqrt();
        let lengths = |commit: &super::KeptCommit| (length(&commit.words), length(commit.title()));
        statistics.lengths = history.commits.iter().map(lengths).collect();
        statistics.files = files;
        statistics
    }

    fn rarity(&self, word: u32) -> f64 {
        let holders = f64::from(self.holders.get(&word).copied().unwrap_or(0));
        (1.0 + (self.counting - holders + 0.5) / (holders + 0.5)).ln()
    }
}

/// The words of a task, or some of them, as a vector.
struct TaskVector<'a> {
    query: &'a Query,
    /// For each entry of `Query::index`: the word's share of the dot product with a message that contains it.
    parts: Vec<f64>,
    length: f64,
}

impl<'a> TaskVector<'a> {
    /// `weight` gives the weight of each term.
    fn new(query: &'a Query, statistics: &CommitStatistics, weight: impl Fn(u16) -> f64) -> Self {
        let mut square = 0.0;
        let part = |(word, term): &(u32, u16)| {
            let (weight, rarity) = (weight(*term), statistics.rarity(*word));
            square += (weight * rarity).powi(2);
            weight * rarity.powi(2)
        };
        let parts = query.index.iter().map(part).collect();
        Self {
            query,
            parts,
            length: square.sqrt(),
        }
    }

    fn cosine(&self, words: &[u32], length: f64) -> f64 {
        let shared = words.iter().filter_map(|word| {
            let at = self.query.index.binary_search_by_key(word, |known| known.0).ok()?;
            Some(self.parts[at])
        });
        shared.sum::<f64>() / (self.length * length).max(f64::MIN_POSITIVE)
    }
}

/// Signals of earlier commits about one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FileHistory {
    /// Sum over the commits that resemble the task.
    pub(crate) similar: f64,
    /// `similar`, divided by its maximum over all files.
    pub(crate) similar_share: f64,
    /// 1 for the file that changed most in the last commits, as far as they resemble the task.
    pub(crate) similar_late: f64,
    /// 1 for the file that changed most in commits whose titles resemble the task's.
    pub(crate) similar_title: f64,
    pub(crate) similar_commits: u32,
    pub(crate) similar_last: Option<CommitId>,
    /// Words of the task in the messages of all its commits: 1 if all words occur often.
    pub(crate) messages: f64,
    /// 1 for the files of the newest commit, 0 for those of the oldest.
    pub(crate) recent: f64,
    /// 1 for the file that changed most in the newest commits.
    pub(crate) newest: f64,
    /// 1 for a file that changed on the day of the newest commit; the older its last change is, the less.
    pub(crate) fresh: f64,
}

/// Signals of a history about the files of a list.
#[derive(Debug, Default)]
pub(crate) struct HistorySignals {
    files: HashMap<u32, FileHistory>,
    /// The files of each counting commit.
    commits: Vec<Vec<u32>>,
}

impl HistorySignals {
    /// `paths` is the list, sorted. Paths of the history that are not listed do not count.
    pub(crate) fn new(query: &Query, history: &History, paths: &[&str]) -> Self {
        let statistics = history.statistics.get_or_init(|| CommitStatistics::new(history));
        let listed = find_listed_paths(history, paths);
        let mut signals = Self::default();
        let newest = history.commits.iter().map(|commit| commit.seconds).max().unwrap_or(0);
        let last = (1.0 + statistics.counting).ln().max(1.0);
        for (commit, changed) in history.commits.iter().zip(&statistics.files) {
            if changed.is_empty() {
                continue;
            }
            let files: Vec<u32> = changed.iter().filter_map(|path| listed[*path as usize]).collect();
            let position = signals.commits.len() as f64;
            let age_days = newest.saturating_sub(commit.seconds).max(0) as f64 / DAY_SECONDS;
            for file in &files {
                signals.files.entry(*file).or_insert_with(|| FileHistory {
                    recent: (1.0 - (1.0 + position).ln() / last).max(0.0),
                    fresh: 1.0 / (1.0 + age_days / FRESH_HALF_DAYS),
                    ..FileHistory::default()
                });
            }
            signals.commits.push(files);
        }
        signals.add_newest();
        signals.add_similar(query, history, statistics);
        signals.add_messages(query, history, statistics);
        signals
    }

    /// BM25 of the task's words over the messages of each file's commits. A commit of many files counts less for each.
    fn add_messages(&mut self, query: &Query, history: &History, statistics: &CommitStatistics) {
        let mut counts: HashMap<u32, Vec<f64>> = HashMap::new();
        let mut lengths: HashMap<u32, f64> = HashMap::new();
        let counting = history
            .commits
            .iter()
            .zip(&statistics.files)
            .filter(|(_, files)| !files.is_empty());
        for ((commit, _), files) in counting.zip(&self.commits) {
            let share = 1.0 / (files.len().max(1) as f64).sqrt();
            let said = |word: &u32| query.index.binary_search_by_key(word, |known| known.0).ok();
            let terms: Vec<usize> = commit
                .words
                .iter()
                .filter_map(said)
                .map(|at| usize::from(query.index[at].1))
                .collect();
            for file in files {
                *lengths.entry(*file).or_default() += share;
                if !terms.is_empty() {
                    let known = counts.entry(*file).or_insert_with(|| vec![0.0; query.terms.len()]);
                    terms.iter().for_each(|term| known[*term] += share);
                }
            }
        }
        let all = lengths.len().max(1) as f64;
        let mean = (lengths.values().sum::<f64>() / all).max(f64::MIN_POSITIVE);
        let weight = |term: usize| {
            let holders = counts.values().filter(|counts| counts[term] > 0.0).count() as f64;
            (1.0 + (all - holders + 0.5) / (holders + 0.5)).ln() * query.terms[term].weight
        };
        let weights: Vec<f64> = (0..query.terms.len()).map(weight).collect();
        let most = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        for (file, counts) in &counts {
            let norm = 0.5 + 0.5 * lengths[file] / mean;
            let value = counts
                .iter()
                .zip(&weights)
                .map(|(count, weight)| weight * count / (count + norm))
                .sum::<f64>();
            if let Some(known) = self.files.get_mut(file) {
                known.messages = value / most;
            }
        }
    }

    pub(crate) fn of(&self, file: u32) -> Option<&FileHistory> {
        self.files.get(&file)
    }

    /// Finds the commits whose messages resemble the task most, and gives their files a share of the similarity.
    fn add_similar(&mut self, query: &Query, history: &History, statistics: &CommitStatistics) {
        let task = TaskVector::new(query, statistics, |term| query.terms[usize::from(term)].weight);
        // Each word of a title counts, however common it is: titles are short.
        let title = TaskVector::new(query, statistics, |term| f64::from(term < query.title_terms));
        let counting = history.commits.iter().zip(&statistics.files).zip(&statistics.lengths);
        let counting = counting.filter(|((_, files), _)| !files.is_empty());
        let (mut similar, mut late, mut titles) = (Vec::new(), Vec::new(), Vec::new());
        for (position, ((commit, _), (own_length, own_title_length))) in counting.enumerate() {
            let cosine = task.cosine(&commit.words, *own_length);
            if cosine >= SIMILARITY_MIN {
                similar.push((cosine, position, commit.id));
            }
            if cosine >= LATE_SIMILARITY_MIN && position < LATE_COMMITS_MAX {
                late.push((position, cosine.powi(2) / (1.0 + position as f64 / LATE_HALF_COMMITS)));
            }
            let of_titles = title.cosine(commit.title(), *own_title_length);
            if of_titles >= TITLE_SIMILARITY_MIN {
                titles.push((of_titles, position));
            }
        }
        self.add_shares(&late, |file| &mut file.similar_late);
        titles.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        titles.truncate(SIMILAR_TITLES_MAX);
        let aged = |(cosine, position): (f64, usize)| {
            let age = 1.0 + position as f64 / SIMILAR_TITLES_HALF_COMMITS;
            (position, cosine.powi(3) / age)
        };
        let titles: Vec<(usize, f64)> = titles.into_iter().map(aged).collect();
        self.add_shares(&titles, |file| &mut file.similar_title);
        similar.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        similar.truncate(SIMILAR_COMMITS_MAX);
        // Newest first, so that the first commit of a file is its newest.
        similar.sort_by_key(|(_, position, _)| *position);
        for (cosine, position, id) in similar {
            let files = &self.commits[position];
            let age = 1.0 / (1.0 + position as f64 / SIMILAR_HALF_COMMITS);
            let share = cosine.powi(2) * age / (files.len().max(1) as f64).sqrt();
            for file in files {
                if let Some(known) = self.files.get_mut(file) {
                    known.similar += share;
                    known.similar_commits += 1;
                    known.similar_last.get_or_insert(id);
                }
            }
        }
        let most = self.files.values().map(|file| file.similar).fold(0.0, f64::max);
        if most > 0.0 {
            self.files
                .values_mut()
                .for_each(|file| file.similar_share = file.similar / most);
        }
    }

    /// Adds the signals of the newest commits, which do not depend on the task: work often continues in the same files.
    fn add_newest(&mut self) {
        let newest = 0..self.commits.len().min(NEWEST_COMMITS_MAX);
        let newest: Vec<(usize, f64)> = newest
            .map(|position| (position, (-(position as f64) / NEWEST_COMMITS).exp()))
            .collect();
        self.add_shares(&newest, |file| &mut file.newest);
    }

    /// Adds the weights of commits to a signal of their files, and scales its maximum to 1. A commit of many files
    /// counts less for each of them.
    fn add_shares(&mut self, commits: &[(usize, f64)], signal: impl Fn(&mut FileHistory) -> &mut f64) {
        for (position, weight) in commits {
            let files = &self.commits[*position];
            let share = weight / (files.len().max(1) as f64).sqrt();
            for file in files {
                if let Some(known) = self.files.get_mut(file) {
                    *signal(known) += share;
                }
            }
        }
        let most = self.files.values_mut().map(|file| *signal(file)).fold(0.0, f64::max);
        if most > 0.0 {
            self.files.values_mut().for_each(|file| *signal(file) /= most);
        }
    }

    /// Files that change together with `seeds`, which have weights. Returns a share from 0 to 1 for each file, and the
    /// seed with the largest part of it.
    pub(crate) fn together(&self, seeds: &[(u32, f64)]) -> BTreeMap<u32, (f64, u32)> {
        let seeds = &seeds[..seeds.len().min(TOGETHER_SEEDS_MAX)];
        let all: f64 = seeds.iter().map(|(_, weight)| weight).sum();
        let mut found: BTreeMap<u32, (f64, f64, u32)> = BTreeMap::new();
        for (seed, weight) in seeds {
            let with_seed: Vec<&Vec<u32>> = self.commits.iter().filter(|files| files.contains(seed)).collect();
            let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
            for files in &with_seed {
                for file in files.iter().filter(|file| *file != seed) {
                    *shares.entry(*file).or_default() += (2.0 / files.len() as f64).sqrt();
                }
            }
            for (file, share) in shares {
                let value = weight / all.max(f64::MIN_POSITIVE) * share / (with_seed.len() as f64 + TOGETHER_PRIOR);
                let known = found.entry(file).or_insert((0.0, 0.0, *seed));
                known.0 += value;
                if value > known.1 {
                    (known.1, known.2) = (value, *seed);
                }
            }
        }
        found
            .into_iter()
            .map(|(file, (value, _, seed))| (file, (value, seed)))
            .collect()
    }
}

/// For each path of the history: its place in the list. Both are sorted.
fn find_listed_paths(history: &History, paths: &[&str]) -> Vec<Option<u32>> {
    let mut at = 0;
    let place = |path: &str| {
        while paths.get(at).is_some_and(|listed| *listed < path) {
            at += 1;
        }
        (paths.get(at) == Some(&path)).then_some(at as u32)
    };
    history.paths.iter().map(|path| &**path).map(place).collect()
}
