//! The weights of the ranking.

/// The numbers of the ranking; see [`WEIGHTS`] for why they are what they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    /// Of a line after the first: a task's title says more than its explanation.
    pub body: f64,
    /// Of words that every task uses.
    pub common: f64,
    /// Of words that are written as code.
    pub code: f64,
    /// Share of the best window against the whole file.
    pub window: f64,
    /// Of the words in the file's own name.
    pub name: f64,
    /// Of the words in the directories above.
    pub directory: f64,
    /// Of a definition whose whole name the task says.
    pub definition: f64,
    /// Of a name that could as well be a plain word.
    pub plain: f64,
    /// Of a definition some of whose words the task says.
    pub definition_part: f64,
    /// Of a file name that the task says whole.
    pub named: f64,
    /// Of a path that the task says.
    pub path: f64,
    /// Share of its importers' and imports' scores.
    pub graph: f64,
    /// Factor of tests, where the task is not about them.
    pub test: f64,
    /// Factor of markup, styles and build recipes, where the task does not name their language.
    pub no_code: f64,
    pub example: f64,
    /// Saturation of BM25.
    pub k1: f64,
    pub b: f64,
}

impl Weights {
    /// BM25 of one word that a text of so many words has so often.
    pub(crate) fn saturate(&self, count: f64, words: u32, words_mean: f64) -> f64 {
        let length = f64::from(words) / words_mean.max(1.0);
        count * (self.k1 + 1.0) / (count + self.k1 * (1.0 - self.b + self.b * length))
    }
}

/// The numbers in use. They were set by hand and coarsely, on the histories of nine packages in four languages, and
/// only where all of them agreed: neighbouring values differ by noise.
pub(crate) const WEIGHTS: Weights = Weights {
    body: 0.4,
    common: 0.1,
    code: 1.5,
    window: 0.8,
    name: 1.0,
    directory: 0.4,
    definition: 1.0,
    plain: 0.5,
    definition_part: 1.0,
    named: 1.0,
    path: 3.0,
    graph: 0.2,
    test: 0.2,
    no_code: 0.5,
    example: 0.4,
    k1: 1.2,
    b: 0.75,
};

/// Number of features; their names are `FEATURE_NAMES`.
pub const FEATURE_COUNT: usize = 23;

/// Learned weights of the features, in the order of `FEATURE_NAMES` and in units of the first.
pub(crate) type FeatureWeights = [f64; FEATURE_COUNT];

/// Without a history: the score before weights were learned, the part of the project that the task names, and words in
/// the names of definitions, whose weight was set by hand: from 0.1 to 0.4 no language gets worse. On repositories that
/// a fit has not seen, learned weights and the other features made some languages better and others worse.
pub const WEIGHTS_WITHOUT_HISTORY: FeatureWeights = [
    1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.3, 1.3, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
];

/// With the history of the repository: as `scripts/fit-ranking` prints them.
pub const WEIGHTS_WITH_HISTORY: FeatureWeights = [
    1.000, 0.937, 1.430, 1.617, 1.278, 1.146, 0.220, 0.356, 0.804, 1.022, 0.880, 0.619, 0.984, 0.135, 0.126, 0.283,
    0.478, 0.913, 0.034, 0.984, 0.168, 0.509, 0.100,
];
