//! The features of a file for a task: the numbers that a ranking weighs, the same for fitting and for use.
//!
//! Features that are shares from 0 to 1 are multiplied with the best score of words, names and definitions, so that all
//! have one scale: that of BM25 over the task's words.

use crate::weights::FEATURE_COUNT;

/// A feature, in the order of [`FEATURE_NAMES`] and of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// Words of the task in the best window of lines.
    Window,
    /// Words of the task in the whole file.
    Whole,
    /// Words of the task in the file's name.
    Name,
    /// Words of the task in the names of its directories.
    Directory,
    Definition,
    /// The task contains the whole name or the path.
    Named,
    /// Imports to and from files that match.
    Graph,
    /// Share of the task's words that the file contains.
    Coverage,
    /// Words of the task in the names of all its definitions.
    DefinedWords,
    /// The task names the area of the project to which the file belongs.
    Area,
    /// Words of the task next to each other, as in the task.
    Phrase,
    /// Several words of the task in one identifier.
    Identifier,
    /// Names and quotations of the task, matched exactly.
    Exact,
    /// Files of the same directory, except in languages whose packages are directories.
    Sibling,
    /// Changed in commits whose messages resemble the task.
    Similar,
    /// Changed in the last commits, if their messages resemble the task.
    SimilarLate,
    /// Changed in commits whose titles resemble the task's title.
    SimilarTitle,
    /// Words of the task in the messages of all its commits.
    Messages,
    /// Files of its directory that changed in commits whose messages resemble the task.
    SimilarFolder,
    /// Changed in the same commits as files that match.
    Together,
    /// Among the files of the newest commits.
    Recent,
    /// Changed in the newest commits, above all several of them.
    Newest,
    /// Changed in the last weeks.
    Fresh,
}

/// The names of the features, for files of weights and reports.
pub const FEATURE_NAMES: [&str; FEATURE_COUNT] = [
    "window",
    "whole",
    "name",
    "directory",
    "definition",
    "named",
    "graph",
    "coverage",
    "defined_words",
    "area",
    "phrase",
    "identifier",
    "exact",
    "sibling",
    "similar",
    "similar_late",
    "similar_title",
    "messages",
    "similar_folder",
    "together",
    "recent",
    "newest",
    "fresh",
];

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FeatureVector([f64; FEATURE_COUNT]);

impl FeatureVector {
    pub(crate) fn set(&mut self, feature: Feature, value: f64) {
        self.0[feature as usize] = value;
    }

    pub(crate) fn get(&self, feature: Feature) -> f64 {
        self.0[feature as usize]
    }

    /// The numbers in the order of [`FEATURE_NAMES`].
    pub(crate) fn numbers(&self) -> [f64; FEATURE_COUNT] {
        self.0
    }

    /// The part of the score that a feature adds.
    pub(crate) fn part(&self, feature: Feature, weights: &[f64; FEATURE_COUNT]) -> f64 {
        self.get(feature) * weights[feature as usize]
    }

    pub(crate) fn score(&self, weights: &[f64; FEATURE_COUNT]) -> f64 {
        self.0.iter().zip(weights).map(|(value, weight)| value * weight).sum()
    }
}
