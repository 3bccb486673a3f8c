//! Fits the weights of the ranking to commits of real repositories. `scripts/fit-ranking` makes the input and calls it.
//!
//! `ranking measure CLONE LOG HOME` reads cases as lines of JSON (`parent`, `task`, `truth`) while the caller checks each
//! parent out, and writes the features of the candidates. `ranking fit FEATURES…` fits weights and prints the table, and
//! `ranking in-use FEATURES…` prints that of the weights in use.

#[path = "ranking/fit.rs"]
mod fit;
#[path = "ranking/recorded_history.rs"]
mod recorded_history;

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tool_context::{FEATURE_COUNT, FEATURE_NAMES, Indexes, MeasuredCandidate, measure_candidates};
use tool_repository::{Options, Repository};

use recorded_history::RecordedHistory;

/// Candidates of a case that each order keeps.
const KEPT_MAX: usize = 60;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["measure", clone, log, home] => measure(Path::new(clone), Path::new(log), Path::new(home)),
        ["fit", rest @ ..] => fit::run(rest),
        ["in-use", files @ ..] => fit::measure_in_use(files),
        _ => Err("usage: ranking measure CLONE LOG HOME | fit [--untouched NAME]… FEATURES… | in-use FEATURES…".into()),
    }
}

/// Answers each case with one line. The case's tree is checked out when its line arrives.
fn measure(clone: &Path, log: &Path, home: &Path) -> Result<(), Failed> {
    let history = Arc::new(RecordedHistory::read(log)?);
    let indexes = Indexes::waiting_for_history(home, Arc::clone(&history) as _);
    let cancel = CancellationToken::new();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let mut case: Value = serde_json::from_str(&line?)?;
        let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
        let repository = Repository::open(clone, &Options::default())?;
        history.stand_at(&text("parent"))?;
        let truth: Vec<String> = serde_json::from_value(case["truth"].clone())?;
        let candidates = measure_candidates(&repository, &indexes, &text("task"), &cancel)?;
        case["candidates"] = kept(candidates, &truth)
            .into_iter()
            .map(|one| {
                json!([
                    one.path,
                    one.factor,
                    one.features.map(|value| (value * 1e4).round() / 1e4)
                ])
            })
            .collect();
        writeln!(out, "{case}")?;
        out.flush()?;
    }
    Ok(())
}

/// The first candidates of each order, and the changed files.
fn kept(candidates: Vec<MeasuredCandidate>, truth: &[String]) -> Vec<MeasuredCandidate> {
    let mut is_kept: Vec<bool> = candidates.iter().map(|one| truth.contains(&one.path)).collect();
    let mut keep_first = |value: &dyn Fn(&MeasuredCandidate) -> f64| {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.sort_by(|a, b| value(&candidates[*b]).total_cmp(&value(&candidates[*a])));
        order.into_iter().take(KEPT_MAX).for_each(|at| is_kept[at] = true);
    };
    let place = |name: &str| {
        FEATURE_NAMES
            .iter()
            .position(|known| *known == name)
            .unwrap_or(FEATURE_COUNT)
    };
    let (related, past, order) = (place("coverage"), place("similar"), place("recent"));
    keep_first(&|one| one.features[..related].iter().sum::<f64>() * one.factor);
    keep_first(&|one| one.features[related..].iter().sum::<f64>() * one.factor);
    keep_first(&|one| one.features[past..order].iter().sum::<f64>() * one.factor);
    candidates
        .into_iter()
        .zip(is_kept)
        .filter(|(_, kept)| *kept)
        .map(|(one, _)| one)
        .collect()
}
