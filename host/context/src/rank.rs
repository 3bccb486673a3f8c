//! Ranks files for a task. Each piece of evidence has a score and a reason in words.
//!
//! A ranking searches the task's words in windows of lines (BM25 over windows, not over whole files), in paths and in
//! the names of definitions. Related files get a share of the scores of their neighbours: by imports, by directory, and
//! by common commits. `features` names these numbers, [`measure_features`] computes them both for fitting and for use, and
//! learned weights add them up. All functions are pure. Their input is the matches of `file_match`, a history, and the
//! texts of the best files.

mod features;
mod phrase_matches;
mod read_filter;
mod related;
mod windows;

use std::collections::{BTreeMap, HashMap};

use super::file_match::FileMatch;
use super::history::{FileHistory, HistorySignals};
use super::map_in_parallel;
use super::path_names::PathNames;
use super::query::Query;
use super::symbols::Syntax;
use super::weights::{FeatureWeights, WEIGHTS_WITH_HISTORY, WEIGHTS_WITHOUT_HISTORY, Weights};
#[cfg(test)]
use super::words::{each_identifier, split_identifier};
use super::words::{has_inner_capital, join_words};
pub use features::FEATURE_NAMES;
pub(crate) use features::{Feature, FeatureVector};
pub(crate) use read_filter::{ReadFilter, UnreadCounts};
#[cfg(test)]
use tool_repository::file_role::file_stem;
use tool_repository::file_role::{self, Role};
use windows::{WINDOW_BLOCKS, rank_windows};

/// A file in the order of its relevance.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranked {
    /// Index into the list.
    pub index: u32,
    /// Comparable within one ranking.
    pub score: f64,
    /// Pieces of evidence with their scores, strongest first.
    pub evidence: Vec<(String, f64)>,
    /// Windows of lines with their scores, best first, not overlapping; lines from 1, inclusive.
    pub windows: Vec<(u32, u32, f64)>,
}

/// Input of a ranking. `roles` and `matches` are in the order of `paths`; a file that was not read has no match.
#[derive(Clone, Copy)]
pub(crate) struct Candidates<'a> {
    pub(crate) paths: &'a [&'a str],
    pub(crate) roles: &'a [Role],
    pub(crate) matches: &'a [Option<FileMatch>],
    /// Counts of the files that were not read, for the statistics.
    pub(crate) unread: &'a UnreadCounts,
    pub(crate) names: &'a PathNames,
    /// For each area of the task and each file: the certainty that the file belongs to the area.
    pub(crate) areas: &'a [Vec<f64>],
    /// `None` if no history is known.
    pub(crate) history: Option<&'a HistorySignals>,
    /// Reads the text of a file. If absent, the features of `phrase_matches` are 0.
    pub(crate) read: Option<&'a (dyn Fn(u32) -> Option<String> + Sync)>,
}

impl Candidates<'_> {
    fn learned(&self) -> &'static FeatureWeights {
        match self.history {
            Some(_) => &WEIGHTS_WITH_HISTORY,
            None => &WEIGHTS_WITHOUT_HISTORY,
        }
    }
}

/// Ranks measured files and describes the best of them, `most` at the most.
pub(crate) fn rank_candidates(
    query: &Query,
    candidates: &Candidates<'_>,
    weights: &Weights,
    most: usize,
) -> Vec<Ranked> {
    let learned = candidates.learned();
    let mut ranked: Vec<(f64, MeasuredFile)> = measure_features(query, candidates, weights)
        .into_iter()
        .map(|one| (one.score(learned), one))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    ranked.sort_by(|(a, one), (b, other)| {
        let by_path = || candidates.paths[one.index as usize].cmp(candidates.paths[other.index as usize]);
        b.total_cmp(a).then_with(by_path)
    });
    ranked.truncate(most);
    ranked
        .into_iter()
        .map(|(score, one)| one.finish(query, candidates, learned, score))
        .collect()
}

/// Computes the features of all measured files, for fitting and for use.
pub(crate) fn measure_features(query: &Query, candidates: &Candidates<'_>, weights: &Weights) -> Vec<MeasuredFile> {
    let Candidates {
        paths,
        roles,
        matches,
        unread,
        names,
        ..
    } = *candidates;
    let statistics = TermStatistics::new(query, names, matches, unread, paths.len());
    let folder_terms = names.folder_terms(query);
    let known: Vec<(usize, &FileMatch)> = (0..paths.len())
        .filter_map(|at| matches[at].as_ref().map(|matched| (at, matched)))
        .collect();
    let mut measured: Vec<MeasuredFile> = map_in_parallel(&known, |(at, matched)| {
        let place = PlaceTerms::find_terms(query, names, &folder_terms, *at as u32);
        let mut one = measure_alone(query, paths[*at], &place, matched, &statistics, weights);
        one.factor = role_factor(query, paths[*at], roles[*at], weights);
        one
    });
    related::add_related(query, candidates, weights, &mut measured);
    phrase_matches::add_wording(query, candidates, &statistics, weights, &mut measured);
    measured
}

/// Weight of a file's role. A file that the task names by its path counts in full.
fn role_factor(query: &Query, path: &str, role: Role, weights: &Weights) -> f64 {
    match role {
        _ if query.says_path(path) => 1.0,
        Role::Source if holds_no_code(path) && !query.says_language_of(path) => weights.no_code,
        Role::Source => 1.0,
        Role::Test if query.about_tests => 1.2,
        Role::Test => weights.test,
        Role::Example => weights.example,
        Role::Documentation | Role::Configuration => 0.3,
        Role::Changelog | Role::Generated | Role::Vendored => 0.1,
        Role::Other => 0.0,
    }
}

/// Frequency of the words of a task.
struct TermStatistics {
    /// By term: in how few files it occurs, times its weight.
    rarity: Vec<f64>,
    path_rarity: Vec<f64>,
    length_mean: f64,
    window_mean: f64,
    /// By joined name: how many files define it.
    defining: HashMap<String, u32>,
    files: f64,
}

impl TermStatistics {
    /// `matches` belong to a list of `listed` files, of which `unread` were not read.
    fn new(
        query: &Query,
        path_names: &PathNames,
        matches: &[Option<FileMatch>],
        unread: &UnreadCounts,
        listed: usize,
    ) -> Self {
        let count = (matches.iter().flatten().count() + unread.count).max(1) as f64;
        let counts = |counted: &[u32]| {
            let mut counts = counted.to_vec();
            counts.resize(query.terms.len(), 0);
            counts
        };
        let (mut files, mut in_paths) = (counts(&unread.files), counts(&unread.in_paths));
        let mut defining: HashMap<String, u32> = HashMap::new();
        let mut seen: Vec<usize> = vec![usize::MAX; query.terms.len()];
        let mut name_terms = Vec::new();
        let (mut words, mut blocks) = (unread.words, unread.blocks);
        for (at, matched) in matches.iter().enumerate() {
            let Some(matched) = matched else { continue };
            words += u64::from(matched.length);
            blocks += matched.blocks.len() as u64;
            for (_, term, _) in &matched.hits {
                if std::mem::replace(&mut seen[usize::from(*term)], at) != at {
                    files[usize::from(*term)] += 1;
                }
            }
            path_names.name_terms(query, at as u32, &mut name_terms);
            name_terms.sort_unstable();
            name_terms.dedup();
            name_terms.iter().for_each(|term| in_paths[usize::from(*term)] += 1);
            let mut names: Vec<String> = matched
                .definitions
                .iter()
                .filter(|d| d.whole)
                .map(|d| join_words(&d.name))
                .collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                *defining.entry(name).or_default() += 1;
            }
        }
        let rarity = |in_files: &u32| (1.0 + (count - f64::from(*in_files) + 0.5) / (f64::from(*in_files) + 0.5)).ln();
        let weigh = |counts: &[u32]| {
            counts
                .iter()
                .zip(&query.terms)
                .map(|(n, term)| rarity(n) * term.weight)
                .collect()
        };
        Self {
            rarity: weigh(&files),
            path_rarity: weigh(&in_paths),
            length_mean: words as f64 / count,
            window_mean: words as f64 / blocks.max(1) as f64 * WINDOW_BLOCKS as f64,
            defining,
            files: listed as f64,
        }
    }

    /// Sum over terms in a path.
    fn path_rarity(&self, terms: &[u16]) -> f64 {
        terms.iter().map(|term| self.path_rarity[usize::from(*term)]).sum()
    }

    fn of_definition(&self, name: &str) -> f64 {
        let files = f64::from(self.defining.get(name).copied().unwrap_or(1));
        (1.0 + (self.files - files + 0.5) / (files + 0.5)).ln()
    }
}

struct PlaceTerms<'a> {
    at: u32,
    /// The joined form of its name.
    stem: &'a str,
    name: Vec<u16>,
    directories: &'a [u16],
    /// Number of other words in the name.
    others: u32,
}

impl<'a> PlaceTerms<'a> {
    fn find_terms(query: &Query, names: &'a PathNames, folder_terms: &'a [Vec<u16>], at: u32) -> Self {
        let mut name = Vec::new();
        Self {
            others: names.name_terms(query, at, &mut name),
            name,
            at,
            stem: names.stem(at),
            directories: &folder_terms[names.folder(at)],
        }
    }

    /// Score of the task's words in the file name: higher if the name has no other words.
    fn name_score(&self, statistics: &TermStatistics, weights: &Weights) -> f64 {
        let (terms, others) = (self.name.len() as f64, f64::from(self.others));
        let share = if self.name.is_empty() {
            0.0
        } else {
            terms / (terms + others)
        };
        weights.name * statistics.path_rarity(&self.name) * share
    }

    fn directory_score(&self, statistics: &TermStatistics, weights: &Weights) -> f64 {
        weights.directory * statistics.path_rarity(self.directories)
    }
}

/// Terms in the file's own name and in its directories, and the number of other words in the name.
#[cfg(test)]
pub(crate) fn path_terms(query: &Query, path: &str) -> (Vec<u16>, Vec<u16>, u32) {
    let mut name = Vec::new();
    let mut others = 0;
    let stem_text = file_stem(path);
    each_identifier(stem_text.as_bytes(), |identifier| {
        split_identifier(identifier, |word, whole| match query.term(word) {
            Some(term) => name.push(term),
            None if !whole => others += 1,
            None => {}
        });
    });
    let mut directories = Vec::new();
    each_identifier(file_role::parent_directory(path).as_bytes(), |identifier| {
        split_identifier(identifier, |word, _| directories.extend(query.term(word)));
    });
    (name, directories, others)
}

/// A file with its features and what explains them.
#[derive(Debug)]
pub(crate) struct MeasuredFile {
    pub(crate) index: u32,
    pub(crate) features: FeatureVector,
    pub(crate) factor: f64,
    definition_at: Option<(String, u32)>,
    area: Option<String>,
    together: Option<u32>,
    terms: Vec<(u16, f64)>,
    windows: Vec<(u32, u32, f64)>,
}

impl MeasuredFile {
    /// The score from the words, names and definitions of the file alone, without learned weights.
    fn direct(&self) -> f64 {
        use Feature::{Definition, Directory, Name, Named, Whole, Window};
        let parts = [Window, Whole, Name, Directory, Definition, Named];
        parts.into_iter().map(|feature| self.features.get(feature)).sum()
    }

    fn score(&self, learned: &FeatureWeights) -> f64 {
        self.features.score(learned) * self.factor
    }

    fn finish(self, query: &Query, candidates: &Candidates<'_>, learned: &FeatureWeights, score: f64) -> Ranked {
        let mut evidence = self.evidence(query, candidates, learned);
        evidence.retain(|(_, score)| *score > 0.05);
        evidence.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ranked {
            index: self.index,
            score,
            evidence,
            windows: self.windows,
        }
    }

    /// Explains each part of the score.
    fn evidence(&self, query: &Query, candidates: &Candidates<'_>, learned: &FeatureWeights) -> Vec<(String, f64)> {
        use Feature::*;
        let part = |features: &[Feature]| {
            features
                .iter()
                .map(|one| self.features.part(*one, learned))
                .sum::<f64>()
        };
        let words: Vec<&str> = self
            .terms
            .iter()
            .take(5)
            .map(|(term, _)| query.terms[usize::from(*term)].word.as_str())
            .collect();
        let place = self
            .windows
            .first()
            .map_or(String::new(), |(from, to, _)| format!(", most in lines {from}-{to}"));
        let named = |at: Option<u32>| at.map(|at| candidates.paths[at as usize]);
        let mut evidence = vec![
            (
                format!("words of the task: {}{place}", words.join(", ")),
                part(&[Window, Whole, Coverage]),
            ),
            ("defines names with words of the task".to_owned(), part(&[DefinedWords])),
            ("its name matches the task".to_owned(), part(&[Name, Named])),
            ("its directory matches the task".to_owned(), part(&[Directory])),
            ("imported by or importing relevant files".to_owned(), part(&[Graph])),
            ("beside relevant files of its directory".to_owned(), part(&[Sibling])),
            (
                "has words of the task side by side".to_owned(),
                part(&[Phrase, Identifier]),
            ),
            (
                "has names or quotations of the task as written".to_owned(),
                part(&[Exact]),
            ),
        ];
        if let Some((name, line)) = &self.definition_at {
            evidence.push((format!("defines `{name}` (line {line})"), part(&[Definition])));
        }
        if let Some(area) = &self.area {
            evidence.push((format!("belongs to `{area}`, which the task names"), part(&[Area])));
        }
        if let Some(other) = named(self.together) {
            evidence.push((format!("changes together with `{other}`"), part(&[Together])));
        }
        evidence.push((
            "in a folder with files that commits like this one changed".to_owned(),
            part(&[SimilarFolder]),
        ));
        if let Some(history) = candidates.history.and_then(|history| history.of(self.index)) {
            let similar = describe_similar(history);
            evidence.push((
                similar.unwrap_or_else(|| "messages of its commits have words of the task".to_owned()),
                part(&[Similar, SimilarTitle, Messages]),
            ));
            evidence.push((
                "changed in one of the newest commits whose messages resemble the task".to_owned(),
                part(&[SimilarLate]),
            ));
            evidence.push(("changed lately".to_owned(), part(&[Recent, Newest, Fresh])));
        }
        evidence
    }
}

/// Names the commits that resemble the task. Their messages are untrusted text and are not shown.
fn describe_similar(history: &FileHistory) -> Option<String> {
    let last = history.similar_last?.to_string();
    Some(match history.similar_commits {
        1 => format!("changed in a commit like this one, {}", &last[..COMMIT_DIGITS]),
        count => format!(
            "changed in {count} commits like this one, last in {}",
            &last[..COMMIT_DIGITS]
        ),
    })
}

/// Digits that name a commit for a reader.
const COMMIT_DIGITS: usize = 10;

/// True for markup, styles and build recipes.
fn holds_no_code(path: &str) -> bool {
    // Most sources have a syntax, which is found sooner.
    Syntax::from_path(path).is_none() && !file_role::is_code(path) && !file_role::is_nameless(path)
}

fn measure_alone(
    query: &Query,
    path: &str,
    place: &PlaceTerms<'_>,
    matched: &FileMatch,
    statistics: &TermStatistics,
    weights: &Weights,
) -> MeasuredFile {
    let mut counts = vec![0_u32; query.terms.len()];
    for (_, term, count) in &matched.hits {
        counts[usize::from(*term)] += u32::from(*count);
    }
    let said = (0_u16..).zip(&counts).filter(|(_, count)| **count > 0);
    let mut terms: Vec<(u16, f64)> = said
        .map(|(term, count)| {
            let value = weights.saturate(f64::from(*count), matched.length, statistics.length_mean);
            (term, value * statistics.rarity[usize::from(term)])
        })
        .collect();
    terms.sort_by(|a, b| b.1.total_cmp(&a.1));
    let whole: f64 = terms.iter().map(|(_, value)| value).sum();
    let covered: f64 = terms
        .iter()
        .map(|(term, _)| statistics.rarity[usize::from(*term)])
        .sum();
    let all: f64 = statistics.rarity.iter().sum();
    let windows = rank_windows(matched, statistics, weights);
    let best = windows.first().map_or(0.0, |(_, _, value)| *value);
    let (definition, definition_at) = best_definition(query, matched, statistics, weights);
    let mut features = FeatureVector::default();
    features.set(Feature::Window, weights.window * best);
    features.set(Feature::Whole, (1.0 - weights.window) * whole);
    features.set(Feature::Name, place.name_score(statistics, weights));
    features.set(Feature::Directory, place.directory_score(statistics, weights));
    features.set(Feature::Definition, definition);
    features.set(
        Feature::Named,
        score_named_path(query, path, place.stem, statistics, weights),
    );
    features.set(Feature::Coverage, covered / all.max(f64::MIN_POSITIVE));
    features.set(Feature::DefinedWords, defined_words(matched, statistics));
    MeasuredFile {
        index: place.at,
        features,
        factor: 1.0,
        definition_at,
        area: None,
        together: None,
        terms,
        windows,
    }
}

fn best_definition(
    query: &Query,
    matched: &FileMatch,
    statistics: &TermStatistics,
    weights: &Weights,
) -> (f64, Option<(String, u32)>) {
    let mut best = (0.0, None);
    let mut wholes: BTreeMap<String, f64> = BTreeMap::new();
    for definition in &matched.definitions {
        let name = join_words(&definition.name);
        let value = match query.names.get(&name).filter(|_| definition.whole) {
            Some(said) => {
                let value = weights.definition * said.weight * statistics.of_definition(&name);
                wholes.insert(name, value);
                value
            }
            None => {
                let rarity: f64 = definition
                    .terms
                    .iter()
                    .map(|term| statistics.rarity[usize::from(*term)])
                    .sum();
                let matched = definition.terms.len() as f64;
                weights.definition_part * rarity * (matched / (matched + f64::from(definition.others))).powi(2)
            }
        };
        if value > best.0 {
            best = (value, Some((definition.name.clone(), definition.line)));
        }
    }
    let all: f64 = wholes.values().sum();
    (best.0.max(all), best.1)
}

/// Words of the task in the names of all definitions: a file about a subject has several related definitions, and none
/// of them needs to match best.
fn defined_words(matched: &FileMatch, statistics: &TermStatistics) -> f64 {
    let terms = matched.definitions.iter().flat_map(|definition| &definition.terms);
    let mut terms: Vec<u16> = terms.copied().collect();
    terms.sort_unstable();
    let value = |same: &[u16]| {
        let count = same.len() as f64;
        statistics.rarity[usize::from(same[0])] * count / (count + 1.0)
    };
    terms.chunk_by(|a, b| a == b).map(value).sum()
}

/// Score of a file whose path, or name without extension, the task contains.
fn score_named_path(query: &Query, path: &str, stem: &str, statistics: &TermStatistics, weights: &Weights) -> f64 {
    let scale = (1.0 + statistics.files).ln();
    if query.says_path(path) {
        return weights.path * scale;
    }
    query.names.get(stem).filter(|_| stem.len() > 2).map_or(0.0, |name| {
        let compound = name.written.contains(['-', '_']) || has_inner_capital(&name.written);
        weights.named * name.weight * scale * if compound { 1.0 } else { 0.3 }
    })
}

#[cfg(test)]
mod tests;
