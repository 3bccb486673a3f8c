//! Ranking of files for a task. Each piece of evidence has a score and a reason in words.
//!
//! A task's words are looked for in regions of the files (BM25 over windows of lines, not over whole files), in their
//! paths and in the names that they define; then what the relevant files import gets a share. Pure functions of facts,
//! which `facts` reads from profiles; nothing here reads a file.

mod windows;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::facts::Facts;
use super::query::Query;
use super::weights::Weights;
use super::words::{each_identifier, has_inner_capital, joined, split};
use tool_repository::file_role::{self, Role, stem as file_stem};
use windows::{WINDOW_BLOCKS, windows};

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

/// Ranks measured files and describes the best of them, `most` at the most; `roles` and `facts` belong to `paths`, and
/// files that were not measured have no facts.
pub(crate) fn rank(
    query: &Query,
    paths: &[&str],
    roles: &[Role],
    facts: &[Option<Facts>],
    weights: &Weights,
    most: usize,
) -> Vec<Ranked> {
    let statistics = Statistics::new(query, paths, facts);
    let mut scored: Vec<Scored> = (0..paths.len())
        .filter_map(|at| facts[at].as_ref().map(|facts| (at, facts)))
        .map(|(at, facts)| score(query, paths[at], at as u32, facts, &statistics, weights))
        .collect();
    let mut direct = vec![0.0; paths.len()];
    for one in &scored {
        direct[one.index as usize] =
            one.total() * factor(query, paths[one.index as usize], roles[one.index as usize], weights);
    }
    propagate(&mut scored, &direct, facts, weights);
    let mut ranked: Vec<(f64, f64, Scored)> = scored
        .into_iter()
        .map(|one| {
            let factor = factor(query, paths[one.index as usize], roles[one.index as usize], weights);
            ((one.total() + one.graph) * factor, factor, one)
        })
        .filter(|(score, _, _)| *score > 0.0)
        .collect();
    ranked.sort_by(|(a, _, one), (b, _, other)| {
        let by_path = || paths[one.index as usize].cmp(paths[other.index as usize]);
        b.total_cmp(a).then_with(by_path)
    });
    ranked.truncate(most);
    ranked
        .into_iter()
        .map(|(_, factor, one)| one.finish(query, factor))
        .collect()
}

/// Weight of a file's role. A file that the task names by its path counts in full, whatever its role.
fn factor(query: &Query, path: &str, role: Role, weights: &Weights) -> f64 {
    match role {
        _ if says_path(query, path) => 1.0,
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
struct Statistics {
    /// By term: in how few files it occurs, times its weight.
    rarity: Vec<f64>,
    path_rarity: Vec<f64>,
    length_mean: f64,
    window_mean: f64,
    /// By joined name: how many files define it.
    defining: HashMap<String, u32>,
    /// Number of files in the list.
    files: f64,
}

impl Statistics {
    fn new(query: &Query, paths: &[&str], facts: &[Option<Facts>]) -> Self {
        let count = facts.iter().flatten().count().max(1) as f64;
        let mut files = vec![0_u32; query.terms.len()];
        let mut in_paths = vec![0_u32; query.terms.len()];
        let mut defining: HashMap<String, u32> = HashMap::new();
        let mut seen: Vec<usize> = vec![usize::MAX; query.terms.len()];
        let mut words = 0_u64;
        let mut blocks = 0_u64;
        for (at, facts) in facts.iter().enumerate() {
            let Some(facts) = facts else { continue };
            words += u64::from(facts.length);
            blocks += facts.blocks.len() as u64;
            for (_, term, _) in &facts.hits {
                if std::mem::replace(&mut seen[usize::from(*term)], at) != at {
                    files[usize::from(*term)] += 1;
                }
            }
            for term in path_terms(query, paths[at]).0.into_iter().collect::<BTreeSet<_>>() {
                in_paths[usize::from(term)] += 1;
            }
            let mut names: Vec<String> = facts
                .definitions
                .iter()
                .filter(|d| d.whole)
                .map(|d| joined(&d.name))
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
            files: paths.len() as f64,
        }
    }

    fn of_definition(&self, name: &str) -> f64 {
        let files = f64::from(self.defining.get(name).copied().unwrap_or(1));
        (1.0 + (self.files - files + 0.5) / (files + 0.5)).ln()
    }
}

/// Terms in the file's own name and in its directories, and the number of other words in the name.
fn path_terms(query: &Query, path: &str) -> (Vec<u16>, Vec<u16>, u32) {
    let mut name = Vec::new();
    let mut others = 0;
    let stem_text = file_stem(path);
    each_identifier(stem_text.as_bytes(), |identifier| {
        split(identifier, |word, whole| match query.term(word) {
            Some(term) => name.push(term),
            None if !whole => others += 1,
            None => {}
        });
    });
    let mut directories = Vec::new();
    each_identifier(file_role::parent(path).as_bytes(), |identifier| {
        split(identifier, |word, _| directories.extend(query.term(word)));
    });
    (name, directories, others)
}

struct Scored {
    index: u32,
    text: f64,
    name: f64,
    directory: f64,
    definition: f64,
    definition_at: Option<(String, u32)>,
    named: f64,
    graph: f64,
    terms: Vec<(u16, f64)>,
    windows: Vec<(u32, u32, f64)>,
}

impl Scored {
    fn total(&self) -> f64 {
        self.text + self.name + self.directory + self.definition + self.named
    }

    fn finish(self, query: &Query, factor: f64) -> Ranked {
        let mut evidence = Vec::new();
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
        evidence.push((format!("words of the task: {}{place}", words.join(", ")), self.text));
        evidence.push(("its name matches the task".to_owned(), self.name + self.named));
        evidence.push(("its directory matches the task".to_owned(), self.directory));
        if let Some((name, line)) = &self.definition_at {
            evidence.push((format!("defines `{name}` (line {line})"), self.definition));
        }
        evidence.push(("imported by or importing relevant files".to_owned(), self.graph));
        evidence.retain(|(_, score)| *score > 0.05);
        evidence.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ranked {
            index: self.index,
            score: (self.total() + self.graph) * factor,
            evidence,
            windows: self.windows,
        }
    }
}

fn score(query: &Query, path: &str, index: u32, facts: &Facts, statistics: &Statistics, weights: &Weights) -> Scored {
    let mut counts = vec![0_u32; query.terms.len()];
    for (_, term, count) in &facts.hits {
        counts[usize::from(*term)] += u32::from(*count);
    }
    let saturate = |count: f64, length: f64, mean: f64| {
        count * (weights.k1 + 1.0) / (count + weights.k1 * (1.0 - weights.b + weights.b * length / mean.max(1.0)))
    };
    let said = (0_u16..).zip(&counts).filter(|(_, count)| **count > 0);
    let mut terms: Vec<(u16, f64)> = said
        .map(|(term, count)| {
            let value = saturate(f64::from(*count), f64::from(facts.length), statistics.length_mean);
            (term, value * statistics.rarity[usize::from(term)])
        })
        .collect();
    terms.sort_by(|a, b| b.1.total_cmp(&a.1));
    let whole: f64 = terms.iter().map(|(_, value)| value).sum();
    let windows = windows(facts, statistics, weights);
    let best = windows.first().map_or(0.0, |(_, _, value)| *value);
    let (name_terms, directory_terms, others) = path_terms(query, path);
    let sum = |terms: &[u16]| {
        terms
            .iter()
            .map(|term| statistics.path_rarity[usize::from(*term)])
            .sum::<f64>()
    };
    let covered = if name_terms.is_empty() {
        0.0
    } else {
        name_terms.len() as f64 / (name_terms.len() as f64 + f64::from(others))
    };
    let (definition, definition_at) = best_definition(query, facts, statistics, weights);
    Scored {
        index,
        text: weights.window * best + (1.0 - weights.window) * whole,
        name: weights.name * sum(&name_terms) * covered,
        directory: weights.directory * sum(&directory_terms),
        definition,
        definition_at,
        named: named(query, path, statistics, weights),
        graph: 0.0,
        terms,
        windows,
    }
}

fn best_definition(
    query: &Query,
    facts: &Facts,
    statistics: &Statistics,
    weights: &Weights,
) -> (f64, Option<(String, u32)>) {
    let mut best = (0.0, None);
    let mut wholes: BTreeMap<String, f64> = BTreeMap::new();
    for definition in &facts.definitions {
        let name = joined(&definition.name);
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

/// True where the task says the path, or an end of it.
fn says_path(query: &Query, path: &str) -> bool {
    if query.paths.is_empty() {
        return false;
    }
    let lower = path.to_ascii_lowercase();
    query
        .paths
        .iter()
        .any(|said| lower == *said || lower.ends_with(&format!("/{said}")) || said.ends_with(&format!("/{lower}")))
}

/// Score of a file whose path, or name without extension, the task contains.
fn named(query: &Query, path: &str, statistics: &Statistics, weights: &Weights) -> f64 {
    let scale = (1.0 + statistics.files).ln();
    if says_path(query, path) {
        return weights.path * scale;
    }
    let stem = joined(file_stem(path));
    query.names.get(&stem).filter(|_| stem.len() > 2).map_or(0.0, |name| {
        let compound = name.written.contains(['-', '_']) || has_inner_capital(&name.written);
        weights.named * name.weight * scale * if compound { 1.0 } else { 0.3 }
    })
}

/// Gives each file a share of the scores of the files that import it, and of those that it imports.
fn propagate(scored: &mut [Scored], direct: &[f64], facts: &[Option<Facts>], weights: &Weights) {
    let mut gained = vec![0.0; direct.len()];
    for (from, facts) in facts.iter().enumerate() {
        let Some(facts) = facts else { continue };
        let share = (1.0 + facts.imports.len() as f64).sqrt();
        for to in facts.imports.iter() {
            gained[*to as usize] += direct[from] / share;
            gained[from] += direct[*to as usize] / share / 2.0;
        }
    }
    for one in scored {
        let gain: f64 = gained[one.index as usize];
        // A hub is imported by everything: what it gains grows slowly.
        one.graph = weights.graph * gain.min(3.0 * one.total().max(1.0));
    }
}

#[cfg(test)]
mod tests;
