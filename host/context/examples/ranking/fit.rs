//! Fits the weights by gradient descent, and measures them on repositories that the fit has not seen.
//!
//! The loss of a changed file is a smooth step from 0 to 1: is its score above those of the unchanged files around the
//! sixth place? A file far above or far below them pulls at no weight. Weights are not negative, so that every part of a
//! score is a reason for the file.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::Value;
use tool_context::{FEATURE_COUNT, FEATURE_NAMES, WEIGHTS_WITH_HISTORY, WEIGHTS_WITHOUT_HISTORY};

use super::Failed;

type Features = [f64; FEATURE_COUNT];

/// Selected files that count.
const SELECTED: usize = 6;

/// Parts into which the repositories are divided for cross-validation.
const FOLDS: usize = 8;

/// Steps of gradient descent, and how far each moves a weight at most. The result is the mean of the last half. Three
/// times as many steps are worse on repositories that the fit has not seen.
const STEPS: usize = 120;
const RATE: f64 = 0.02;

/// Unchanged files by their order that make up the edge of the selection, and its width in scores.
const EDGE: std::ops::Range<usize> = 3..9;
const EDGE_WIDTH: f64 = 0.2;

/// The first features, which make up the score before weights were learned, begin at 1, the others below.
const HAND_SET: usize = 7;
const BEGIN_OTHERS: f64 = 0.3;

/// Penalty of large weights.
const RIDGE: f64 = 1e-4;

/// Rounds of the bootstrap.
const ROUNDS: usize = 2000;

struct Case {
    repository: String,
    language: String,
    changed: usize,
    /// True for files that changed, with features on one scale.
    candidates: Vec<(bool, Features)>,
}

impl Case {
    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        let truth = value["truth"].as_array()?;
        let mut candidates = Vec::new();
        for one in value["candidates"].as_array()? {
            let mut features = Features::default();
            for (into, from) in features.iter_mut().zip(one[2].as_array()?) {
                *into = from.as_f64()? * one[1].as_f64()?;
            }
            candidates.push((truth.contains(&one[0]), features));
        }
        // Same scale as in the engine: the best score of words, names and definitions.
        let direct = |features: &Features| features[..6].iter().sum::<f64>();
        let scale = candidates
            .iter()
            .map(|(_, features)| direct(features))
            .fold(0.0, f64::max);
        let scale = if scale > 0.0 { scale } else { 1.0 };
        candidates
            .iter_mut()
            .for_each(|(_, features)| features.iter_mut().for_each(|value| *value /= scale));
        Some(Self {
            repository: text("repository")?,
            language: text("language")?,
            changed: truth.len(),
            candidates,
        })
    }

    /// Share of the changed files among the first six.
    fn recall(&self, weights: &Features) -> f64 {
        let mut scored: Vec<(f64, bool)> = self
            .candidates
            .iter()
            .map(|(changed, features)| (dot(weights, features), *changed))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let found = scored.iter().take(SELECTED).filter(|(_, changed)| *changed).count();
        found as f64 / self.changed as f64
    }
}

fn dot(weights: &Features, features: &Features) -> f64 {
    weights.iter().zip(features).map(|(weight, value)| weight * value).sum()
}

/// Fits the weights. Each repository counts the same.
fn fit(cases: &[&Case]) -> Features {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    cases
        .iter()
        .for_each(|case| *sizes.entry(&case.repository).or_default() += 1.0);
    let mut weights = std::array::from_fn(|at| if at < HAND_SET { 1.0 } else { BEGIN_OTHERS });
    let (mut first, mut second) = ([0.0; FEATURE_COUNT], [0.0; FEATURE_COUNT]);
    let mut sum = [0.0; FEATURE_COUNT];
    for step in 1..=STEPS {
        let mut gradient = weights.map(|weight| RIDGE * weight);
        for case in cases {
            let share = 1.0 / (sizes[case.repository.as_str()] * sizes.len() as f64);
            add_gradient(case, &weights, share, &mut gradient);
        }
        // Adam.
        for (at, weight) in weights.iter_mut().enumerate() {
            first[at] = 0.9 * first[at] + 0.1 * gradient[at];
            second[at] = 0.99 * second[at] + 0.01 * gradient[at].powi(2);
            let mean = first[at] / (1.0 - 0.9_f64.powi(step as i32));
            let square = second[at] / (1.0 - 0.99_f64.powi(step as i32));
            *weight = (*weight - RATE * mean / (square.sqrt() + 1e-7)).max(0.0);
            if step > STEPS / 2 {
                sum[at] += *weight;
            }
        }
    }
    sum.map(|sum| sum / (STEPS / 2) as f64)
}

fn add_gradient(case: &Case, weights: &Features, share: f64, gradient: &mut Features) {
    let scored = |(changed, features)| (dot(weights, features), changed, features);
    let candidates = case.candidates.iter().map(|(changed, features)| (*changed, features));
    let (changed, mut others): (Vec<_>, Vec<_>) = candidates.map(scored).partition(|(_, changed, _)| *changed);
    others.sort_by(|a, b| b.0.total_cmp(&a.0));
    let edge = &others[EDGE.start.min(others.len())..EDGE.end.min(others.len())];
    let mean_score = edge.iter().map(|(score, ..)| score).sum::<f64>() / edge.len() as f64;
    for (score, _, features) in changed.iter().filter(|_| !edge.is_empty()) {
        let missed = 1.0 / (1.0 + ((score - mean_score) / EDGE_WIDTH).exp());
        let pull = share / case.changed as f64 * missed * (1.0 - missed) / EDGE_WIDTH;
        for (at, into) in gradient.iter_mut().enumerate() {
            let mean = edge.iter().map(|(.., features)| features[at]).sum::<f64>() / edge.len() as f64;
            *into += pull * (mean - features[at]);
        }
    }
}

/// 95 % interval of the mean, by the bootstrap.
fn interval(values: &[f64]) -> (f64, f64) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        values[(state % values.len() as u64) as usize]
    };
    let mut means: Vec<f64> = (0..ROUNDS)
        .map(|_| (0..values.len()).map(|_| draw()).sum::<f64>() / values.len() as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    (means[ROUNDS * 25 / 1000], means[ROUNDS * 975 / 1000])
}

const RANKINGS: [&str; 3] = ["BM25", "without history", "with history"];
type Recalls = [f64; RANKINGS.len()];

fn row(out: &mut impl Write, name: &str, recalls: &[Recalls]) -> Result<(), Failed> {
    write!(out, "| {name} | {} |", recalls.len())?;
    for ranking in 0..RANKINGS.len() {
        let values: Vec<f64> = recalls.iter().map(|recall| recall[ranking]).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let (low, high) = interval(&values);
        write!(out, " {mean:.3} ({low:.3} to {high:.3}) |")?;
    }
    Ok(writeln!(out)?)
}

fn table(out: &mut impl Write, title: &str, recalls: &[(&Case, Recalls)]) -> Result<(), Failed> {
    writeln!(
        out,
        "| {title} | cases | {} |\n|---|---|---|---|---|",
        RANKINGS.join(" | ")
    )?;
    let mut by_language: BTreeMap<&str, Vec<Recalls>> = BTreeMap::new();
    for (case, recall) in recalls {
        by_language.entry(&case.language).or_default().push(*recall);
    }
    for (language, recalls) in &by_language {
        row(out, language, recalls)?;
    }
    row(
        out,
        "all",
        &recalls.iter().map(|(_, recall)| *recall).collect::<Vec<_>>(),
    )
}

fn read_cases(file: &str, cases: &mut Vec<Case>) -> Result<(), Failed> {
    for line in std::fs::read_to_string(file)?.lines() {
        cases.push(Case::read(&serde_json::from_str(line)?).ok_or_else(|| format!("{file}: not a case"))?);
    }
    Ok(())
}

/// Recall for plain BM25, without history, and with history by these weights.
fn recalls_of(case: &Case, with_history: &Features) -> Recalls {
    let mut bm25 = Features::default();
    bm25[1] = 1.0;
    [&bm25, &WEIGHTS_WITHOUT_HISTORY, with_history].map(|weights| case.recall(weights))
}

/// Prints the table for the weights in use, without fitting.
pub(crate) fn measure_in_use(files: &[&str]) -> Result<(), Failed> {
    let mut cases = Vec::new();
    for file in files {
        read_cases(file, &mut cases)?;
    }
    let recalls: Vec<_> = cases
        .iter()
        .map(|case| (case, recalls_of(case, &WEIGHTS_WITH_HISTORY)))
        .collect();
    table(&mut std::io::stdout().lock(), "weights in use", &recalls)
}

pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    let (mut untouched, mut cases) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if *argument == "--untouched" {
            untouched.push(*rest.next().ok_or("--untouched needs a name")?);
        } else {
            read_cases(argument, &mut cases)?;
        }
    }
    let (held, seen): (Vec<&Case>, Vec<&Case>) = cases
        .iter()
        .partition(|case| untouched.contains(&case.repository.as_str()));
    let mut names: Vec<&str> = seen.iter().map(|case| case.repository.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let fold_of = |case: &Case| {
        names
            .binary_search(&case.repository.as_str())
            .map_or(0, |at| at % FOLDS)
    };
    let mut recalls = Vec::new();
    for fold in 0..FOLDS {
        let (test, train): (Vec<&Case>, Vec<&Case>) = seen.iter().copied().partition(|case| fold_of(case) == fold);
        let fitted = fit(&train);
        recalls.extend(test.into_iter().map(|case| (case, recalls_of(case, &fitted))));
    }
    let mut out = std::io::stdout().lock();
    table(&mut out, "cross-validation", &recalls)?;
    let fitted = fit(&seen);
    if !held.is_empty() {
        let recalls: Vec<_> = held.iter().map(|case| (*case, recalls_of(case, &fitted))).collect();
        writeln!(out)?;
        table(&mut out, "untouched", &recalls)?;
    }
    writeln!(out, "\nWeights with history, in units of the first:")?;
    for (feature, weight) in FEATURE_NAMES.iter().zip(&fitted) {
        writeln!(out, "  {feature:14} {:.3}", weight / fitted[0].max(f64::MIN_POSITIVE))?;
    }
    Ok(())
}
