//! Translates search patterns into trigram queries: boolean expressions of the trigrams that a matching text must have.
//!
//! A query is weaker than its pattern: it is true for every text that matches, and for some that do not. It is built
//! from the parsed expression, from left to right. As long as only literals and small classes follow each other, the
//! analysis keeps the set of texts that they match. When that set becomes too large, the query requires the trigrams of
//! these texts, and the analysis continues with their last bytes. Anchors and word boundaries add no condition. A
//! pattern without three known bytes in a row gives `TrigramQuery::All`.

use regex_syntax::hir::{Class, ClassBytesRange, ClassUnicodeRange, Hir, HirKind, Repetition};

use super::trigrams::{Trigram, each_trigram, fold_character, without_cut_characters};

/// Texts in the set of a prefix.
const TEXTS_MAX: usize = 48;

/// Bytes of one text of a prefix.
const TEXT_BYTES_MAX: usize = 256;

/// Characters of a class that becomes a set of texts, before case folding.
const CLASS_CHARACTERS_MAX: u32 = 32;

/// Texts of such a class: enough for one for each digit.
const CLASS_TEXTS_MAX: usize = 10;

/// A repetition is analysed as at most this many copies.
const COPIES_MAX: u32 = 8;

/// Bytes that a text keeps when the analysis continues from its end: two, the overlap of neighbouring trigrams.
const TAIL_BYTES: usize = 2;

/// Parts of a query. A pattern with more parts gives `TrigramQuery::All`.
const PARTS_MAX: usize = 4096;

/// Kind of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternKind {
    /// Every character is literal.
    Literal,
    /// A regular expression.
    Regex,
}

/// A pattern of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPattern {
    /// See [`PatternKind`].
    pub kind: PatternKind,
    /// Its text.
    pub text: String,
    /// True where upper and lower case are the same.
    pub ignores_case: bool,
}

/// Trigrams that a text must have to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TrigramQuery {
    /// True for every text.
    All,
    /// Each of these trigrams, which are sorted, and all of these parts. Not empty.
    And(Vec<Trigram>, Vec<Self>),
    /// One of these parts, none of which is `All`. Without a part, no text matches.
    Or(Vec<Self>),
}

impl TrigramQuery {
    /// The query for texts that match at least one of the patterns.
    pub(super) fn new(patterns: &[SearchPattern]) -> Self {
        Self::any_of(patterns.iter().map(Self::from_pattern).collect())
    }

    fn from_pattern(pattern: &SearchPattern) -> Self {
        let text = match pattern.kind {
            PatternKind::Literal => regex_syntax::escape(&pattern.text),
            PatternKind::Regex => pattern.text.clone(),
        };
        let parsed = regex_syntax::ParserBuilder::new()
            .multi_line(true)
            .crlf(true)
            .utf8(false)
            .case_insensitive(pattern.ignores_case)
            .build()
            .parse(&text);
        let query = parsed.map_or(Self::All, |parsed| PatternPrefix::default().follow(&parsed).finish());
        if query.parts() > PARTS_MAX { Self::All } else { query }
    }

    fn parts(&self) -> usize {
        match self {
            Self::All => 0,
            Self::And(trigrams, parts) => trigrams.len() + parts.iter().map(Self::parts).sum::<usize>(),
            Self::Or(parts) => 1 + parts.iter().map(Self::parts).sum::<usize>(),
        }
    }

    fn any_of(mut parts: Vec<Self>) -> Self {
        if parts.contains(&Self::All) {
            return Self::All;
        }
        parts.dedup();
        match <[Self; 1]>::try_from(parts) {
            Ok([part]) => part,
            Err(parts) => Self::Or(parts),
        }
    }

    fn and(self, other: Self) -> Self {
        let (mut trigrams, mut parts) = match self {
            Self::All => return other,
            Self::And(trigrams, parts) => (trigrams, parts),
            or @ Self::Or(_) => (Vec::new(), vec![or]),
        };
        match other {
            Self::All => {}
            Self::And(more, others) => {
                trigrams.extend(more);
                trigrams.sort_unstable();
                trigrams.dedup();
                for part in others {
                    if !parts.contains(&part) {
                        parts.push(part);
                    }
                }
            }
            or @ Self::Or(_) if parts.contains(&or) => {}
            or @ Self::Or(_) => parts.push(or),
        }
        Self::And(trigrams, parts)
    }

    /// The query for texts that contain at least one of these.
    fn any_text(texts: &[Vec<u8>]) -> Self {
        let all = |text: &Vec<u8>| {
            let mut trigrams = Vec::new();
            each_trigram(without_cut_characters(text), |trigram| trigrams.push(trigram));
            trigrams.sort_unstable();
            trigrams.dedup();
            if trigrams.is_empty() {
                Self::All
            } else {
                Self::And(trigrams, Vec::new())
            }
        };
        let mut parts: Vec<Self> = texts.iter().map(all).collect();
        parts.sort_by(|a, b| a.key().cmp(b.key()));
        Self::any_of(parts)
    }

    fn key(&self) -> &[Trigram] {
        match self {
            Self::And(trigrams, _) => trigrams,
            Self::All | Self::Or(_) => &[],
        }
    }

    /// True where a text with these trigrams answers with yes.
    #[cfg(test)]
    pub(super) fn holds(&self, trigrams: &std::collections::BTreeSet<Trigram>) -> bool {
        match self {
            Self::All => true,
            Self::And(all, parts) => {
                all.iter().all(|one| trigrams.contains(one)) && parts.iter().all(|part| part.holds(trigrams))
            }
            Self::Or(parts) => parts.iter().any(|part| part.holds(trigrams)),
        }
    }
}

/// Analysis of an expression up to a place in it: the query so far, and the set of texts of which one ends at this
/// place.
#[derive(Debug, Clone)]
struct PatternPrefix {
    query: TrigramQuery,
    /// An empty text adds no condition. An empty set means that nothing matches.
    texts: Vec<Vec<u8>>,
    /// True if the texts are exactly the matches of the expression from its beginning.
    is_exact: bool,
}

impl Default for PatternPrefix {
    fn default() -> Self {
        Self {
            query: TrigramQuery::All,
            texts: vec![Vec::new()],
            is_exact: true,
        }
    }
}

impl PatternPrefix {
    fn finish(mut self) -> TrigramQuery {
        self.require_texts();
        self.query
    }

    /// Adds the condition that a match contains one of the texts.
    fn require_texts(&mut self) {
        let query = std::mem::replace(&mut self.query, TrigramQuery::All);
        self.query = query.and(TrigramQuery::any_text(&self.texts));
    }

    /// Continues with the last bytes of the texts.
    fn cut(&mut self) {
        self.require_texts();
        for text in &mut self.texts {
            text.drain(..text.len().saturating_sub(TAIL_BYTES));
        }
        self.texts.sort_unstable();
        self.texts.dedup();
        self.is_exact = false;
    }

    /// Continues after a part of which no text is known.
    fn forget(&mut self) {
        self.require_texts();
        self.texts = vec![Vec::new()];
        self.is_exact = false;
    }

    /// Continues with one of these texts.
    fn append(&mut self, texts: &[Vec<u8>]) {
        let is_too_much = |run: &Self| {
            let longest = |texts: &[Vec<u8>]| texts.iter().map(Vec::len).max().unwrap_or(0);
            run.texts.len() * texts.len() > TEXTS_MAX || longest(&run.texts) + longest(texts) > TEXT_BYTES_MAX
        };
        if is_too_much(self) {
            self.cut();
        }
        if is_too_much(self) {
            self.forget();
        }
        let joined = self.texts.iter().flat_map(|text| {
            let join = |more: &Vec<u8>| [text.as_slice(), more].concat();
            texts.iter().map(join)
        });
        self.texts = joined.collect();
        self.texts.sort_unstable();
        self.texts.dedup();
    }

    /// Continues with the analysis of the part that follows.
    fn join(&mut self, other: Self) {
        if other.is_exact && other.texts.len() <= TEXTS_MAX {
            return self.append(&other.texts);
        }
        self.require_texts();
        let query = std::mem::replace(&mut self.query, TrigramQuery::All);
        self.query = query.and(other.query);
        self.texts = other.texts;
        self.is_exact = false;
    }

    fn follow(mut self, hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => {
                for part in literal.0.chunks(TEXT_BYTES_MAX / 2) {
                    self.append(&[part.to_ascii_lowercase()]);
                }
            }
            HirKind::Class(class) => match texts_of(class) {
                Some(texts) => self.append(&texts),
                None => self.forget(),
            },
            HirKind::Capture(capture) => return self.follow(&capture.sub),
            HirKind::Concat(parts) => return parts.iter().fold(self, Self::follow),
            HirKind::Alternation(parts) => {
                self.join(Self::one_of(parts.iter().map(|part| Self::default().follow(part))))
            }
            HirKind::Repetition(repetition) => self.repeat(repetition),
        }
        self
    }

    /// The analysis of an alternation.
    fn one_of(runs: impl Iterator<Item = Self>) -> Self {
        let runs: Vec<Self> = runs.collect();
        let count: usize = runs.iter().map(|run| run.texts.len()).sum();
        if runs.iter().all(|run| run.is_exact) && count <= TEXTS_MAX {
            let mut texts: Vec<Vec<u8>> = runs.into_iter().flat_map(|run| run.texts).collect();
            texts.sort_unstable();
            texts.dedup();
            return Self {
                texts,
                ..Self::default()
            };
        }
        Self {
            query: TrigramQuery::any_of(runs.into_iter().map(Self::finish).collect()),
            texts: vec![Vec::new()],
            is_exact: false,
        }
    }

    fn repeat(&mut self, repetition: &Repetition) {
        let once = Self::default().follow(&repetition.sub);
        match (repetition.min, repetition.max) {
            (_, Some(0)) => {}
            (0, Some(1)) => self.join(Self::one_of([once, Self::default()].into_iter())),
            (0, _) => self.forget(),
            (min, max) => {
                for _ in 0..min.min(COPIES_MAX) {
                    self.join(once.clone());
                }
                if min > COPIES_MAX || max != Some(min) {
                    // The repetition ends as a single copy does, whatever comes before.
                    self.require_texts();
                    self.texts = once.texts;
                    self.is_exact = false;
                }
            }
        }
    }
}

/// The texts of a class with few characters, with the case folding of the index.
fn texts_of(class: &Class) -> Option<Vec<Vec<u8>>> {
    let mut texts: Vec<Vec<u8>> = match class {
        Class::Unicode(class) => {
            let ranges = class.ranges();
            let count = |range: &ClassUnicodeRange| u32::from(range.end()) - u32::from(range.start()) + 1;
            if ranges.iter().map(count).sum::<u32>() > CLASS_CHARACTERS_MAX {
                return None;
            }
            let characters = ranges.iter().flat_map(|range| range.start()..=range.end());
            characters
                .map(|one| fold_character(one).to_string().into_bytes())
                .collect()
        }
        Class::Bytes(class) => {
            let ranges = class.ranges();
            let count = |range: &ClassBytesRange| u32::from(range.end() - range.start()) + 1;
            if ranges.iter().map(count).sum::<u32>() > CLASS_CHARACTERS_MAX {
                return None;
            }
            let bytes = ranges.iter().flat_map(|range| range.start()..=range.end());
            bytes.map(|one| vec![one.to_ascii_lowercase()]).collect()
        }
    };
    texts.sort_unstable();
    texts.dedup();
    (texts.len() <= CLASS_TEXTS_MAX).then_some(texts)
}

#[cfg(test)]
mod tests;
