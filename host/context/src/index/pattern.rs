//! Patterns of a search as a question to the postings: which trigrams a text must have to match.
//!
//! A question says less than its pattern: each text that matches answers it with yes, and some others do, too. It is made
//! from the parsed expression. A run of literals and small classes is followed as the set of texts that it may be; where
//! that set grows too large, its texts are asked for, and the run goes on from their ends. Anchors and word boundaries
//! say nothing about bytes. A pattern that has no run of three bytes says nothing.

use regex_syntax::hir::{Class, ClassBytesRange, ClassUnicodeRange, Hir, HirKind, Repetition};

use super::trigrams::{Trigram, each_trigram, fold_character, without_cut_characters};

/// Texts that a run is followed as.
const TEXTS_MAX: usize = 48;

/// Bytes of one of them.
const TEXT_BYTES_MAX: usize = 256;

/// Characters of a class that is taken as so many texts, before they are folded.
const CLASS_CHARACTERS_MAX: u32 = 32;

/// Texts that such a class is taken as: one for each digit.
const CLASS_TEXTS_MAX: usize = 10;

/// Copies of an expression that a repetition with bounds is taken as.
const COPIES_MAX: u32 = 8;

/// Bytes of a text that the next one goes on from.
const TAIL_BYTES: usize = 2;

/// Parts of a question. A pattern with more says less.
const PARTS_MAX: usize = 4096;

/// Kind of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternKind {
    /// Each character stands for itself.
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
    /// Nothing.
    All,
    /// Each of these trigrams, which are sorted, and all of these parts. Not empty.
    And(Vec<Trigram>, Vec<Self>),
    /// One of these parts, none of which is `All`. Without a part, no text matches.
    Or(Vec<Self>),
}

impl TrigramQuery {
    /// The question for texts that match one of the patterns.
    pub(super) fn new(patterns: &[SearchPattern]) -> Self {
        Self::or(patterns.iter().map(Self::of).collect())
    }

    fn of(pattern: &SearchPattern) -> Self {
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
        let query = parsed.map_or(Self::All, |parsed| Run::default().follow(&parsed).finish());
        if query.parts() > PARTS_MAX { Self::All } else { query }
    }

    fn parts(&self) -> usize {
        match self {
            Self::All => 0,
            Self::And(trigrams, parts) => trigrams.len() + parts.iter().map(Self::parts).sum::<usize>(),
            Self::Or(parts) => 1 + parts.iter().map(Self::parts).sum::<usize>(),
        }
    }

    fn or(mut parts: Vec<Self>) -> Self {
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

    /// The question for texts that hold one of these.
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
        Self::or(parts)
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

/// An expression up to a place in it: what a text must have so far, and the texts of which one ends there.
#[derive(Debug, Clone)]
struct Run {
    asked: TrigramQuery,
    /// An empty text says nothing, and without a text nothing matches.
    texts: Vec<Vec<u8>>,
    /// True where the texts are all that the expression matches, from its beginning on.
    is_exact: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            asked: TrigramQuery::All,
            texts: vec![Vec::new()],
            is_exact: true,
        }
    }
}

impl Run {
    fn finish(mut self) -> TrigramQuery {
        self.ask();
        self.asked
    }

    /// Asks for the texts.
    fn ask(&mut self) {
        let asked = std::mem::replace(&mut self.asked, TrigramQuery::All);
        self.asked = asked.and(TrigramQuery::any_text(&self.texts));
    }

    /// Goes on from the ends of the texts.
    fn cut(&mut self) {
        self.ask();
        for text in &mut self.texts {
            text.drain(..text.len().saturating_sub(TAIL_BYTES));
        }
        self.texts.sort_unstable();
        self.texts.dedup();
        self.is_exact = false;
    }

    /// Goes on after something unknown.
    fn forget(&mut self) {
        self.ask();
        self.texts = vec![Vec::new()];
        self.is_exact = false;
    }

    /// Goes on with one of these texts.
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

    /// Goes on with what another run found.
    fn join(&mut self, other: Self) {
        if other.is_exact && other.texts.len() <= TEXTS_MAX {
            return self.append(&other.texts);
        }
        self.ask();
        let asked = std::mem::replace(&mut self.asked, TrigramQuery::All);
        self.asked = asked.and(other.asked);
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

    /// One of some expressions.
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
            asked: TrigramQuery::or(runs.into_iter().map(Self::finish).collect()),
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
                    // Whatever comes between, it ends as the expression does.
                    self.ask();
                    self.texts = once.texts;
                    self.is_exact = false;
                }
            }
        }
    }
}

/// The texts of a class with few characters, folded as those of the index are.
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
