//! Features that a file gets from related files: imports, relevant files in its directory, and common commits.

use super::{Candidates, Feature, MeasuredFile};
use crate::query::Query;
use crate::symbols::Syntax;
use crate::weights::Weights;

/// Adds these features. The features of the files themselves must be set before.
pub(super) fn add_related(
    query: &Query,
    candidates: &Candidates<'_>,
    weights: &Weights,
    measured: &mut [MeasuredFile],
) {
    let direct: Vec<f64> = measured.iter().map(|one| one.direct() * one.factor).collect();
    add_graph(candidates, weights, measured, &direct);
    let best = direct.iter().copied().fold(0.0, f64::max);
    let scale = if best > 0.0 { best } else { 1.0 };
    for one in &mut *measured {
        let coverage = one.features.get(Feature::Coverage);
        one.features.set(Feature::Coverage, coverage * scale);
    }
    add_areas(query, candidates, measured, scale);
    add_neighbours(candidates, measured, &direct);
    add_history(candidates, measured, &direct, scale);
}

/// Gives each file a share of the scores of the files that import it, and of those that it imports.
fn add_graph(candidates: &Candidates<'_>, weights: &Weights, measured: &mut [MeasuredFile], direct: &[f64]) {
    let count = candidates.paths.len();
    let (mut scores, mut gained) = (vec![0.0; count], vec![0.0; count]);
    for (one, score) in measured.iter().zip(direct) {
        scores[one.index as usize] = *score;
    }
    for (from, matched) in candidates.matches.iter().enumerate() {
        let Some(matched) = matched else { continue };
        let share = (1.0 + matched.imports.len() as f64).sqrt();
        for to in matched.imports.iter() {
            gained[*to as usize] += scores[from] / share;
            gained[from] += scores[*to as usize] / share / 2.0;
        }
    }
    for one in measured {
        let gain: f64 = gained[one.index as usize];
        // Without a limit, a file that most others import would gain too much.
        let most = 3.0 * one.direct().max(1.0);
        one.features.set(Feature::Graph, weights.graph * gain.min(most));
    }
}

/// An area counts if at most one file in 150 belongs to it. This is the natural logarithm of that number.
const AREA_RARITY_MIN: f64 = 5.0;

/// An area counts in full if at most one file in 400 belongs to it, as for a directory of a very large project.
const AREA_RARITY_FULL: f64 = 6.0;

/// Weight of an area to which `holders` of the listed files belong.
pub(super) fn area_rarity(holders: f64, listed: usize) -> f64 {
    let rarity = (listed as f64 / holders.max(1.0)).ln();
    ((rarity - AREA_RARITY_MIN) / (AREA_RARITY_FULL - AREA_RARITY_MIN)).clamp(0.0, 1.0)
}

/// Adds the feature of files that belong to an area of the task. In a small project, an area tells little that words do
/// not tell already. In a large one, it separates a few files from thousands with the same words.
fn add_areas(query: &Query, candidates: &Candidates<'_>, measured: &mut [MeasuredFile], scale: f64) {
    for (number, (area, of_all)) in query.areas.iter().zip(candidates.areas).enumerate() {
        let certain: Vec<f64> = measured.iter().map(|one| of_all[one.index as usize]).collect();
        let unread = candidates.unread.areas.get(number).copied().unwrap_or_default();
        let rarity = area_rarity(certain.iter().sum::<f64>() + unread, candidates.paths.len());
        for (one, value) in measured.iter_mut().zip(&certain) {
            let value = value * rarity * scale;
            if value > one.features.get(Feature::Area) {
                one.features.set(Feature::Area, value);
                one.area = Some(area.written.clone());
            }
        }
    }
}

/// Number of best files of a directory whose mean score the other files share.
const NEIGHBOURS_MAX: usize = 3;

/// Adds the feature of files in the directory of relevant ones. In languages whose packages are directories, the
/// directory tells nothing more than the words do.
fn add_neighbours(candidates: &Candidates<'_>, measured: &mut [MeasuredFile], direct: &[f64]) {
    let mut by_folder: Vec<Vec<usize>> = vec![Vec::new(); candidates.names.folder_count()];
    for (at, one) in measured.iter().enumerate() {
        by_folder[candidates.names.folder(one.index)].push(at);
    }
    for mut folder in by_folder {
        folder.sort_by(|a, b| direct[*b].total_cmp(&direct[*a]));
        for at in &folder {
            let others = folder
                .iter()
                .take(NEIGHBOURS_MAX + 1)
                .filter(|other| *other != at)
                .take(NEIGHBOURS_MAX);
            let mean = others.map(|other| direct[*other]).sum::<f64>() / NEIGHBOURS_MAX as f64;
            let path = candidates.paths[measured[*at].index as usize];
            let is_package = matches!(Syntax::from_path(path), Some(Syntax::Go | Syntax::Java));
            if !is_package {
                measured[*at].features.set(Feature::Sibling, mean);
            }
        }
    }
}

fn add_history(candidates: &Candidates<'_>, measured: &mut [MeasuredFile], direct: &[f64], scale: f64) {
    let Some(history) = candidates.history else { return };
    let mut seeds: Vec<(u32, f64)> = Vec::new();
    let mut folders: Vec<[(f64, u32); 2]> = vec![Default::default(); candidates.names.folder_count()];
    for one in &*measured {
        let share = history.of(one.index).map_or(0.0, |past| past.similar_share);
        let best = &mut folders[candidates.names.folder(one.index)];
        if share > best[0].0 {
            *best = [(share, one.index), best[0]];
        } else if share > best[1].0 {
            best[1] = (share, one.index);
        }
    }
    for (one, direct) in measured.iter_mut().zip(direct) {
        let mut seed = direct / scale;
        let [first, second] = folders[candidates.names.folder(one.index)];
        let beside = if first.1 == one.index { second.0 } else { first.0 };
        one.features.set(Feature::SimilarFolder, beside * scale);
        if let Some(past) = history.of(one.index) {
            seed += past.similar_share * past.similar.min(1.0) * one.factor;
            for (feature, value) in [
                (Feature::Similar, past.similar.min(1.0)),
                (Feature::SimilarLate, past.similar_late),
                (Feature::SimilarTitle, past.similar_title),
                (Feature::Messages, past.messages),
                (Feature::Recent, past.recent),
                (Feature::Newest, past.newest),
                (Feature::Fresh, past.fresh),
            ] {
                one.features.set(feature, value * scale);
            }
        }
        seeds.push((one.index, seed));
    }
    seeds.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let together = history.together(&seeds);
    for one in measured {
        if let Some((share, seed)) = together.get(&one.index) {
            one.features.set(Feature::Together, share * scale);
            one.together = Some(*seed);
        }
    }
}
