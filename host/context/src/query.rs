//! The words of a task with their weights, names that look like code, and paths.
//!
//! A selection reads a task once. `file_match` compares it with files.

use std::collections::HashMap;

use super::exact::each_exact;
use super::task_areas::{TaskArea, parse_areas};
use super::weights::Weights;
use super::words::{
    IDENTIFIER_BYTES_MAX, has_inner_capital, hash, is_common, is_function_word, join_words, split_identifier, stem_word,
};
use tool_repository::file_role::file_stem;
use tool_repository::file_role::{detect_language, file_name};

/// Paths of a task that are looked for one by one. A pasted log may name thousands.
const SPELLED_PATHS_MAX: usize = 40;

/// A task, split into weighted words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    pub(super) terms: Vec<QueryTerm>,
    /// Number of terms in the title, which are the first ones.
    pub(super) title_terms: u16,
    /// Hashes of the stems with the indices of their terms, sorted.
    pub(super) index: Vec<(u32, u16)>,
    /// Names that look like code, in the joined form of [`join_words`], with the form as written.
    pub(super) names: HashMap<String, QueryName>,
    /// Hashes of the keys of `names`, sorted. They rule out most names of a tree without joining them.
    name_hashes: Vec<u32>,
    /// Terms that follow each other in the task, with their weights, sorted.
    pub(super) pairs: Vec<((u16, u16), f64)>,
    /// Names and quotations as written, with their weights.
    pub(super) exact: Vec<(String, f64)>,
    /// Paths and parts of paths as written.
    pub(super) paths: Vec<String>,
    /// Parts of the project that the title names before a colon.
    pub(super) areas: Vec<TaskArea>,
    /// True if the task is about tests themselves.
    pub about_tests: bool,
}

#[derive(Debug, Clone)]
pub(super) struct QueryTerm {
    /// As written in the task, in lower case.
    pub(super) word: String,
    pub(super) weight: f64,
}

#[derive(Debug, Clone)]
pub(super) struct QueryName {
    pub(super) written: String,
    pub(super) weight: f64,
}

impl Query {
    /// Parses a task. The first line weighs most, code weighs more than prose, and words that every task uses weigh
    /// little.
    pub(crate) fn new(task: &str, weights: &Weights) -> Self {
        let mut query = Self::default();
        let mut lines = task
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !is_trailer(line));
        let title = lines.next().unwrap_or("");
        query.read_line(title, 1.0, weights);
        query.title_terms = query.terms.len() as u16;
        for line in lines {
            query.read_line(line, weights.body, weights);
        }
        query.pairs.sort_unstable_by_key(|(pair, _)| *pair);
        query.about_tests = is_about_tests(title);
        query.areas = parse_areas(title);
        query.name_hashes = query.names.keys().map(|name| hash(name.as_bytes())).collect();
        query.name_hashes.sort_unstable();
        query
    }

    /// True if the task contains nothing to search for.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// True if the task contains the file's name or path. Such a file is read regardless of its role.
    pub(crate) fn names_part_of(&self, path: &str) -> bool {
        let name = file_name(path);
        let stem = file_stem(name);
        let mut folded = 0;
        split_identifier(stem.as_bytes(), |word, _| folded = hash(word));
        self.says_name(stem, folded) || self.says_end_of(path)
    }

    /// [`Self::names_part_of`] for a path whose joined file name is known.
    pub(crate) fn names_part_of_known(&self, path: &str, joined: &str) -> bool {
        self.names.contains_key(joined) && self.names_part_of(path) || self.says_end_of(path)
    }

    /// True if this path ends with a path of the task, or a path of the task ends with this file name.
    fn says_end_of(&self, path: &str) -> bool {
        let name = file_name(path);
        let mut said = self.paths.iter();
        said.any(|said| ends_with(path, said) || ends_with(said, name))
    }

    /// The only one of these paths that a path of the task stands for, for each in its order. One without a directory
    /// may stand for many files.
    pub(super) fn spelled_out<'p>(&self, paths: impl Iterator<Item = &'p str> + Clone) -> Vec<&'p str> {
        let find = |said: &str| {
            let is_whole = |path: &&str| path.eq_ignore_ascii_case(said);
            let is_end = |path: &&str| {
                let before = path.len().checked_sub(said.len() + 1);
                before.is_some_and(|before| path.as_bytes()[before] == b'/' && ends_with(path, said))
            };
            let mut ends = paths.clone().filter(is_end);
            let one = || ends.next().filter(|_| ends.next().is_none());
            paths.clone().find(is_whole).or_else(one)
        };
        self.spelled_paths().filter_map(find).collect()
    }

    /// The first paths of the task that have a directory.
    pub(crate) fn spelled_paths(&self) -> impl Iterator<Item = &str> {
        let said = self.paths.iter().map(|said| said.trim_end_matches('/'));
        let spelled = said.filter(|said| said.contains('/') && !said.starts_with('/'));
        spelled.take(SPELLED_PATHS_MAX)
    }

    /// True if the task contains the path, or an end of it.
    pub(super) fn says_path(&self, path: &str) -> bool {
        let is_part = |long: &str, short: &str| {
            let before = long.len().checked_sub(short.len() + 1);
            before.is_some_and(|before| long.as_bytes()[before] == b'/' && ends_with(long, short))
        };
        let mut said = self.paths.iter();
        said.any(|said| path.eq_ignore_ascii_case(said) || is_part(path, said) || is_part(said, path))
    }

    /// True if the task contains the language of a file, or its extension.
    pub(super) fn says_language_of(&self, path: &str) -> bool {
        let says = |word: &str| self.term(word.to_ascii_lowercase().as_bytes()).is_some();
        detect_language(path).is_some_and(says) || file_name(path).rsplit_once('.').is_some_and(|(_, end)| says(end))
    }

    /// The term of a lower-case word, if the task contains it.
    pub(super) fn term(&self, word: &[u8]) -> Option<u16> {
        self.term_of(hash(stem_word(word)))
    }

    /// The term of a word with this hash of its stem.
    pub(super) fn term_of(&self, hash: u32) -> Option<u16> {
        let place = self.index.binary_search_by_key(&hash, |known| known.0).ok()?;
        Some(self.index[place].1)
    }

    /// True if the task contains the whole name, in any spelling. `folded` is the hash of the name as [`split_identifier`] joins
    /// it.
    pub(super) fn says_name(&self, name: &str, folded: u32) -> bool {
        // A text that `split_identifier` cuts or leaves in place is looked up by its own joined form.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$';
        let usual = name.len() <= IDENTIFIER_BYTES_MAX && name.bytes().all(is_plain);
        (!usual || self.name_hashes.binary_search(&folded).is_ok()) && self.names.contains_key(&join_words(name))
    }

    fn read_line(&mut self, line: &str, weight: f64, weights: &Weights) {
        let mut said = Vec::new();
        for token in
            line.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}'))
        {
            let quoted = token.contains('`');
            let token = token.trim_matches(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.' || c == '/'));
            let token = token.trim_end_matches(['.', ':', '\'']);
            if token.contains("://") || is_reference(token) {
                continue;
            }
            if token.contains('/') || has_extension(token) {
                self.paths.push(token.trim_start_matches("./").to_owned());
            }
            for run in token.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')) {
                let run = run.trim_matches('-');
                let code =
                    quoted || run.contains('_') || token.contains('.') && !run.is_empty() || has_inner_capital(run);
                let weight = weight * if code { weights.code } else { 1.0 };
                self.read_run(run, weight, code, weights, &mut said);
            }
        }
        self.add_pairs(&said, weight);
        each_exact(line, |text, share| {
            self.add_exact(text, weight.max(EXACT_WEIGHT_MIN) * share)
        });
    }

    /// Adds the pairs of nearby terms of a line. `said` has each term with its weight in pairs.
    fn add_pairs(&mut self, said: &[(u16, f64)], weight: f64) {
        for (at, (first, first_weight)) in said.iter().enumerate() {
            for (distance, (second, second_weight)) in (1..=PAIR_DISTANCE_MAX).zip(&said[at + 1..]) {
                let weight = weight * first_weight * second_weight / f64::from(distance).sqrt();
                match self.pairs.iter().position(|(pair, _)| *pair == (*first, *second)) {
                    Some(at) => self.pairs[at].1 = self.pairs[at].1.max(weight),
                    None if first != second && self.pairs.len() < PAIRS_MAX => {
                        self.pairs.push(((*first, *second), weight));
                    }
                    None => {}
                }
            }
        }
    }

    fn add_exact(&mut self, text: &str, weight: f64) {
        match self.exact.iter().position(|(known, _)| known == text) {
            Some(at) => self.exact[at].1 = self.exact[at].1.max(weight),
            None if self.exact.len() < EXACT_MAX => self.exact.push((text.to_owned(), weight)),
            None => {}
        }
    }

    /// The index of a pair of terms, if the task has them in this order.
    pub(super) fn pair(&self, first: u16, second: u16) -> Option<usize> {
        self.pairs
            .binary_search_by_key(&(first, second), |(pair, _)| *pair)
            .ok()
    }

    fn read_run(&mut self, run: &str, weight: f64, code: bool, weights: &Weights, said: &mut Vec<(u16, f64)>) {
        if run.len() < 2 || self.terms.len() + 8 > TERMS_MAX {
            return;
        }
        let mut count = 0;
        for part in run.split('-') {
            split_identifier(part.as_bytes(), |word, whole| {
                count += 1;
                if !whole && !code && is_function_word(word) {
                    return;
                }
                let stemmed = stem_word(word);
                let common = !whole && !code && is_common(word);
                let share = if common { weights.common } else { 1.0 };
                let term = self.add(stemmed, word, weight * share);
                if !whole {
                    said.push((term, share));
                }
            });
        }
        let joined = join_words(run);
        let plain = count == 1 && !is_common(joined.as_bytes()) && !is_function_word(joined.as_bytes());
        if code || run.contains('-') || plain {
            let weight = weight * if code || run.contains('-') { 1.0 } else { weights.plain };
            let name = self.names.entry(joined).or_insert(QueryName {
                written: run.to_owned(),
                weight: 0.0,
            });
            name.weight = name.weight.max(weight);
        }
    }

    fn add(&mut self, stemmed: &[u8], word: &[u8], weight: f64) -> u16 {
        let hash = hash(stemmed);
        let at = match self.index.binary_search_by_key(&hash, |known| known.0) {
            Ok(place) => self.index[place].1,
            Err(place) => {
                let at = self.terms.len() as u16;
                self.index.insert(place, (hash, at));
                self.terms.push(QueryTerm {
                    word: String::from_utf8_lossy(word).into_owned(),
                    weight,
                });
                at
            }
        };
        let term = &mut self.terms[usize::from(at)];
        term.weight = term.weight.max(weight);
        at
    }
}

/// Certainty of a path in a directory with the part's name. With the directories above it, a path belongs to the part
/// only by the whole name of a file or directory.
pub(super) const AREA_CERTAIN: f64 = 0.7;

/// True if a text has this end, ignoring ASCII case.
fn ends_with(text: &str, end: &str) -> bool {
    let from = text.len().checked_sub(end.len());
    from.is_some_and(|from| text.as_bytes()[from..].eq_ignore_ascii_case(end.as_bytes()))
}

/// Terms of a line that make a pair: in `fix parsing of quoted flags`, `parse` and `flag` do.
const PAIR_DISTANCE_MAX: u32 = 3;

/// Pairs of a task that count, those of the title first.
const PAIRS_MAX: usize = 200;

/// Weight of a name as written in the explanation of a task.
const EXACT_WEIGHT_MIN: f64 = 0.5;

/// Names and quotations of a task that count.
const EXACT_MAX: usize = 40;

/// Most terms of a task that count; a longer task repeats itself.
const TERMS_MAX: usize = 400;

/// `Signed-off-by: …` and the like.
pub(super) fn is_trailer(line: &str) -> bool {
    line.split_once(": ")
        .is_some_and(|(key, _)| key.contains('-') && key.to_ascii_lowercase().ends_with("-by"))
}

/// `#123`, `GH-12`, a number, a version, a commit hash. `sha1`, `utf8` and `lz4` are words.
fn is_reference(token: &str) -> bool {
    let digits = token.trim_start_matches(|c: char| !c.is_ascii_digit());
    let before = &token[..token.len() - digits.len()];
    let letters = before.trim_matches(|c: char| !c.is_alphanumeric());
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let hexadecimal =
        token.len() >= 7 && token.bytes().all(|b| b.is_ascii_hexdigit()) && token.bytes().any(|b| b.is_ascii_digit());
    hexadecimal
        || is_number
            && (letters.is_empty()
                || letters.eq_ignore_ascii_case("v")
                || letters.eq_ignore_ascii_case("gh") && before.ends_with('-'))
}

fn has_extension(token: &str) -> bool {
    tool_repository::file_role::detect_language(token).is_some()
        && token.rsplit_once('.').is_some_and(|(stem, _)| !stem.is_empty())
}

/// True if a task asks for changes of tests, not of code that also has tests.
fn is_about_tests(title: &str) -> bool {
    let lower = title.to_ascii_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let names_one = words
        .iter()
        .any(|word| word.starts_with("test_") || word.ends_with("_test"));
    let phrase = [
        "test suite",
        "the tests",
        "unit tests",
        "flaky",
        "test fixtures",
        "test coverage",
        "integration tests",
    ];
    names_one || phrase.iter().any(|phrase| lower.contains(phrase))
}
