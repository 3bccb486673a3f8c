//! Fits the weights by gradient descent, and measures them on repositories that the fit has not seen.
//!
//! The loss of a case is that of a softmax over its candidates: each file that changed should come before all that did
//! not. Weights are not negative, so that every part of a score is a reason for the file.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::Value;
use tool_context::{FEATURE_COUNT, FEATURE_NAMES};

use super::Failed;

type Features = [f64; FEATURE_COUNT];

/// Selected files that count.
const SELECTED: usize = 6;

/// Parts into which the repositories are divided for cross-validation.
const FOLDS: usize = 8;

/// Steps of gradient descent.
const STEPS: usize = 250;

/// Penalty of large weights.
const RIDGE: f64 = 1e-3;

/// Rounds of the bootstrap.
const ROUNDS: usize = 2000;

/// The features that join the score before weights were learned where there is no history. Others were tried: they made
/// some languages better and others worse.
const WITHOUT_HISTORY: [&str; 2] = ["area", "defined_words"];

/// Features of the score before weights were learned, each with weight 1.
const BEFORE: usize = 7;

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
        // The scale of a task is that of the engine: the best score of words, names and definitions.
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

/// Fits the weights of the features that `is_used` names. Each repository counts the same. Tied, the features of the
/// score before have one weight.
fn fit(cases: &[&Case], is_used: &[bool; FEATURE_COUNT], is_tied: bool) -> Features {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    cases
        .iter()
        .for_each(|case| *sizes.entry(&case.repository).or_default() += 1.0);
    let mut weights = is_used.map(|used| if used { 1.0 } else { 0.0 });
    let (mut mean, mut square) = (Features::default(), Features::default());
    for step in 1..=STEPS {
        let mut gradient = weights.map(|weight| RIDGE * weight);
        for case in cases {
            let share = 1.0 / (sizes[case.repository.as_str()] * sizes.len() as f64);
            add_gradient(case, &weights, share, &mut gradient);
        }
        if is_tied {
            let all = gradient[..BEFORE].iter().sum::<f64>() / BEFORE as f64;
            gradient[..BEFORE].fill(all);
        }
        // Adam, whose steps shrink.
        let rate = 0.3 / (1.0 + step as f64 / 50.0);
        for (at, weight) in weights.iter_mut().enumerate() {
            mean[at] = 0.9 * mean[at] + 0.1 * gradient[at];
            square[at] = 0.99 * square[at] + 0.01 * gradient[at] * gradient[at];
            let (first, second) = (1.0 - 0.9_f64.powi(step as i32), 1.0 - 0.99_f64.powi(step as i32));
            let change = rate * (mean[at] / first) / ((square[at] / second).sqrt() + 1e-9);
            *weight = if is_used[at] { (*weight - change).max(0.0) } else { 0.0 };
        }
    }
    weights
}

/// Adds the gradient of one case: for each changed file, the softmax over it and all that did not change.
fn add_gradient(case: &Case, weights: &Features, share: f64, gradient: &mut Features) {
    let scores: Vec<f64> = case
        .candidates
        .iter()
        .map(|(_, features)| dot(weights, features))
        .collect();
    let top = scores.iter().copied().fold(f64::MIN, f64::max);
    let others = || case.candidates.iter().zip(&scores).filter(|((changed, _), _)| !changed);
    let mut sum = 0.0;
    let mut weighted = Features::default();
    for ((_, features), score) in others() {
        let value = (score - top).exp();
        sum += value;
        weighted
            .iter_mut()
            .zip(features)
            .for_each(|(into, feature)| *into += value * feature);
    }
    for ((_, features), score) in case.candidates.iter().zip(&scores).filter(|((changed, _), _)| *changed) {
        let own = (score - top).exp();
        let all = sum + own;
        for (at, into) in gradient.iter_mut().enumerate() {
            let expected = (weighted[at] + own * features[at]) / all;
            *into += share / case.changed as f64 * (expected - features[at]);
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

/// The four rankings that are compared.
const RANKINGS: [&str; 4] = ["BM25", "before", "without history", "with history"];

fn row(out: &mut impl Write, name: &str, recalls: &[[f64; 4]]) -> Result<(), Failed> {
    write!(out, "| {name} | {} |", recalls.len())?;
    for ranking in 0..RANKINGS.len() {
        let values: Vec<f64> = recalls.iter().map(|recall| recall[ranking]).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let (low, high) = interval(&values);
        write!(out, " {mean:.3} ({low:.3} to {high:.3}) |")?;
    }
    Ok(writeln!(out)?)
}

fn table(out: &mut impl Write, title: &str, recalls: &[(&Case, [f64; 4])]) -> Result<(), Failed> {
    writeln!(
        out,
        "| {title} | cases | {} |\n|---|---|---|---|---|---|",
        RANKINGS.join(" | ")
    )?;
    let mut by_language: BTreeMap<&str, Vec<[f64; 4]>> = BTreeMap::new();
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

pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    let (mut untouched, mut cases) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if *argument == "--untouched" {
            untouched.push(*rest.next().ok_or("--untouched needs a name")?);
            continue;
        }
        for line in std::fs::read_to_string(argument)?.lines() {
            let case = Case::read(&serde_json::from_str(line)?).ok_or_else(|| format!("{argument}: not a case"))?;
            cases.push(case);
        }
    }
    let (held, seen): (Vec<&Case>, Vec<&Case>) = cases
        .iter()
        .partition(|case| untouched.contains(&case.repository.as_str()));
    let with = [true; FEATURE_COUNT];
    let mut without = FEATURE_NAMES.map(|name| WITHOUT_HISTORY.contains(&name));
    without[..BEFORE].fill(true);
    let (mut bm25, mut before) = (Features::default(), Features::default());
    bm25[1] = 1.0;
    before[..BEFORE].fill(1.0);

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
        let (new_without, new_with) = (fit(&train, &without, true), fit(&train, &with, false));
        for case in test {
            recalls.push((
                case,
                [&bm25, &before, &new_without, &new_with].map(|weights| case.recall(weights)),
            ));
        }
    }
    let mut out = std::io::stdout().lock();
    table(&mut out, "cross-validation", &recalls)?;
    let (new_without, new_with) = (fit(&seen, &without, true), fit(&seen, &with, false));
    if !held.is_empty() {
        let recalls = held.iter().map(|case| {
            (
                *case,
                [&bm25, &before, &new_without, &new_with].map(|weights| case.recall(weights)),
            )
        });
        writeln!(out)?;
        table(&mut out, "untouched", &recalls.collect::<Vec<_>>())?;
    }
    for (name, weights) in [("without history", new_without), ("with history", new_with)] {
        writeln!(out, "\nWeights {name}, in units of the first:")?;
        for (feature, weight) in FEATURE_NAMES.iter().zip(&weights) {
            writeln!(out, "  {feature:14} {:.3}", weight / weights[0].max(f64::MIN_POSITIVE))?;
        }
    }
    Ok(())
}
