//! Which files a task is about: evidence that can be said in words, each piece with its score.
//!
//! A task's words are looked for in regions of the files (BM25 over windows of lines, not over whole files), in their
//! paths and in the names that they define; then what the relevant files import gets a share. [`Facts`] are measured
//! file by file and hold nothing of the text, so that an index can stand in for the measuring. Nothing here reads.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::scanner::{self, Role, file_name, stem as file_stem};
use super::symbols::{self, Resolver, Syntax};

/// A hash that is its own hash: terms are hashed once, while they are split.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Identity>>;

/// Lines of one block. Hits are counted by block; a window is a run of blocks.
const BLOCK_LINES: u32 = 10;

/// Blocks of one window: 50 lines hold a function with what is around it.
const WINDOW_BLOCKS: usize = 5;

/// What a task says, split into weighted words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    terms: Vec<Term>,
    index: ByHash<u16>,
    /// Names that look like code, in the joined form of [`joined`], with the form as written.
    names: HashMap<String, Name>,
    /// Paths and parts of paths as written, lower case.
    paths: Vec<String>,
    /// True where the task is about tests themselves.
    pub(crate) about_tests: bool,
}

#[derive(Debug, Clone)]
struct Term {
    /// As the task has it, in lower case.
    word: String,
    weight: f64,
}

#[derive(Debug, Clone)]
struct Name {
    written: String,
    weight: f64,
}

/// The numbers of the ranking; see [`WEIGHTS`] for why they are what they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    /// Of a line after the first: a task's title says more than its explanation.
    pub(crate) body: f64,
    /// Of words that every task uses.
    pub(crate) common: f64,
    /// Of words that are written as code.
    pub(crate) code: f64,
    /// Share of the best window against the whole file.
    pub(crate) window: f64,
    /// Of the words in the file's own name.
    pub(crate) name: f64,
    /// Of the words in the directories above.
    pub(crate) directory: f64,
    /// Of a definition whose whole name the task says.
    pub(crate) definition: f64,
    /// Of a name that could as well be a plain word.
    pub(crate) plain: f64,
    /// Of a definition some of whose words the task says.
    pub(crate) definition_part: f64,
    /// Of a file name that the task says whole.
    pub(crate) named: f64,
    /// Of a path that the task says.
    pub(crate) path: f64,
    /// Share of its importers' and imports' scores.
    pub(crate) graph: f64,
    /// Factor of tests, where the task is not about them.
    pub(crate) test: f64,
    /// Factor of examples.
    pub(crate) example: f64,
    /// Saturation of BM25.
    pub(crate) k1: f64,
    /// Length normalisation of whole files.
    pub(crate) b: f64,
}

/// The numbers in use. They were set by hand and coarsely, on the histories of nine packages in four languages, and only
/// where all of them agreed: neighbouring values differ by noise.
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
    example: 0.4,
    k1: 1.2,
    b: 0.75,
};

impl Query {
    /// Reads a task: its first line says most, code says more than prose, and words that every task uses say little.
    pub(crate) fn new(task: &str, weights: &Weights) -> Self {
        let mut query = Self::default();
        let mut lines = task
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !is_trailer(line));
        let title = lines.next().unwrap_or("");
        query.read_line(title, 1.0, weights);
        for line in lines {
            query.read_line(line, weights.body, weights);
        }
        query.about_tests = is_about_tests(title);
        query
    }

    /// True where the task says nothing that could be looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// True where the task says the file's name or path, so that it is worth reading whatever its kind.
    pub(crate) fn names_part_of(&self, path: &str) -> bool {
        let lower = path.to_ascii_lowercase();
        let name = file_name(&lower);
        self.paths
            .iter()
            .any(|said| lower.ends_with(said.as_str()) || said.ends_with(name))
            || self.names.contains_key(&joined(file_stem(name)))
    }

    fn read_line(&mut self, line: &str, weight: f64, weights: &Weights) {
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
                self.paths.push(token.trim_start_matches("./").to_ascii_lowercase());
            }
            for run in token.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')) {
                let run = run.trim_matches('-');
                let code =
                    quoted || run.contains('_') || token.contains('.') && !run.is_empty() || has_inner_capital(run);
                self.read_run(run, weight * if code { weights.code } else { 1.0 }, code, weights);
            }
        }
    }

    fn read_run(&mut self, run: &str, weight: f64, code: bool, weights: &Weights) {
        if run.len() < 2 || self.terms.len() + 8 > TERMS_MAX {
            return;
        }
        let mut count = 0;
        for part in run.split('-') {
            split(part.as_bytes(), |word, whole| {
                count += 1;
                if !whole && !code && is_function_word(word) {
                    return;
                }
                let stemmed = stem(word);
                let common = !whole && !code && is_common(word);
                self.add(stemmed, word, weight * if common { weights.common } else { 1.0 });
            });
        }
        let joined = joined(run);
        let plain = count == 1 && !is_common(joined.as_bytes()) && !is_function_word(joined.as_bytes());
        if code || run.contains('-') || plain {
            let weight = weight * if code || run.contains('-') { 1.0 } else { weights.plain };
            let name = self.names.entry(joined).or_insert(Name {
                written: run.to_owned(),
                weight: 0.0,
            });
            name.weight = name.weight.max(weight);
        }
    }

    fn add(&mut self, stemmed: &[u8], word: &[u8], weight: f64) {
        let next = self.terms.len() as u16;
        let at = *self.index.entry(hash(stemmed)).or_insert(next);
        if at == next {
            self.terms.push(Term {
                word: String::from_utf8_lossy(word).into_owned(),
                weight,
            });
        }
        let term = &mut self.terms[usize::from(at)];
        term.weight = term.weight.max(weight);
    }
}

/// Most terms of a task that count; a longer one repeats itself.
const TERMS_MAX: usize = 400;

/// `Signed-off-by: …` and the like.
fn is_trailer(line: &str) -> bool {
    line.split_once(": ")
        .is_some_and(|(key, _)| key.contains('-') && key.to_ascii_lowercase().ends_with("-by"))
}

/// `#123`, `GH-12`, a commit hash, a version.
fn is_reference(token: &str) -> bool {
    let digits = token.trim_start_matches(|c: char| !c.is_ascii_digit());
    let hexadecimal =
        token.len() >= 7 && token.bytes().all(|b| b.is_ascii_hexdigit()) && token.bytes().any(|b| b.is_ascii_digit());
    hexadecimal
        || !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && token.len() - digits.len() <= 3
}

fn has_extension(token: &str) -> bool {
    super::scanner::language(token).is_some() && token.rsplit_once('.').is_some_and(|(stem, _)| !stem.is_empty())
}

fn has_inner_capital(run: &str) -> bool {
    let mut previous_lower = false;
    run.chars().any(|c| {
        let found = previous_lower && c.is_uppercase();
        previous_lower = c.is_lowercase();
        found
    })
}

/// Words of English that say nothing by themselves.
fn is_function_word(word: &[u8]) -> bool {
    #[rustfmt::skip]
    const WORDS: &[&str] = &[
        "a", "about", "after", "all", "also", "always", "am", "an", "and", "any", "are", "as", "at", "be", "because",
        "been", "before", "being", "both", "but", "by", "can", "cannot", "could", "did", "do", "does", "doing",
        "don", "done", "due", "during", "each", "even", "every", "for", "from", "further", "had", "has", "have",
        "he", "her", "here", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "may", "me",
        "more", "must", "my", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our",
        "out", "over", "own", "same", "she", "should", "so", "some", "still", "such", "than", "that", "the", "their",
        "them", "then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up",
        "us", "very", "was", "we", "were", "what", "when", "where", "which", "while", "whom", "why", "will", "with",
        "within", "without", "would", "you", "your",
    ];
    word.len() == 1 || std::str::from_utf8(word).is_ok_and(|word| WORDS.binary_search(&word).is_ok())
}

/// Words that say what is done, not where: those of every list of tasks.
fn is_common(word: &[u8]) -> bool {
    #[rustfmt::skip]
    const WORDS: &[&str] = &[
        "add", "added", "adding", "adds", "allow", "allows", "avoid", "better", "bug", "bugs", "case", "cases",
        "change", "changed", "changelog", "changes", "chore", "clean", "cleanup", "code", "commit", "correct",
        "correctly", "docs", "docstring", "documentation", "drop", "ensure", "entry", "existing", "extract", "feat",
        "feature", "features", "fix", "fixed", "fixes", "fixing", "follow", "get", "handle", "handling", "implement",
        "implementation", "implemented", "improve", "improved", "improvement", "improvements", "instead", "issue",
        "keep", "like", "main", "make", "makes", "making", "merge", "minor", "missing", "move", "moved", "need",
        "needed", "needs", "new", "note", "old", "one", "perf", "possible", "pr", "prefer", "previous", "previously",
        "proper", "properly", "provide", "refactor", "refactored", "refactoring", "related", "release", "remove",
        "removed", "removes", "removing", "rename", "renamed", "replace", "replaced", "restore", "revert", "review",
        "see", "set", "simplify", "small", "style", "support", "supported", "test", "tests", "tweak", "update",
        "updated", "updates", "use", "used", "uses", "using", "version", "want", "work", "works", "wrong",
    ];
    std::str::from_utf8(word).is_ok_and(|word| WORDS.binary_search(&word).is_ok())
}

/// True where a task wants tests changed, not code that also has tests.
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

/// A name without its word boundaries, lower case: `process_request`, `processRequest` and `process-request` are one.
fn joined(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Splits an identifier into lower-case words at underscores and changes of case; where there are several, the joined
/// whole follows, marked by `true`.
fn split(identifier: &[u8], mut word: impl FnMut(&[u8], bool)) {
    const LENGTH_MAX: usize = 64;
    let mut whole = [0_u8; LENGTH_MAX];
    let mut length = 0;
    let mut start = 0;
    let mut parts = 0;
    let bytes = &identifier[..identifier.len().min(LENGTH_MAX)];
    for (at, byte) in bytes.iter().copied().enumerate() {
        let upper = byte.is_ascii_uppercase();
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let next_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        let boundary = byte == b'_'
            || byte == b'$'
            || upper
                && before.is_some_and(|b| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || b.is_ascii_uppercase() && next_lower
                });
        if boundary && length > start {
            word(&whole[start..length], false);
            parts += 1;
            start = length;
        }
        if byte != b'_' && byte != b'$' {
            whole[length] = byte.to_ascii_lowercase();
            length += 1;
        }
    }
    if length > start {
        word(&whole[start..length], false);
        parts += 1;
    }
    if parts > 1 {
        word(&whole[..length], true);
    }
}

/// The stem of a lower-case word: a prefix of it, so that nothing is allocated. Crude, and the same for both sides.
fn stem(word: &[u8]) -> &[u8] {
    if word.len() < 4 || word.iter().any(|byte| !byte.is_ascii_lowercase()) {
        return word;
    }
    let mut word = word;
    for (suffix, least) in [
        ("ations", 4),
        ("ation", 4),
        ("ings", 3),
        ("ing", 3),
        ("ies", 3),
        ("ers", 4),
        ("ions", 4),
        ("ion", 4),
        ("ed", 3),
        ("er", 4),
        ("es", 3),
        ("s", 3),
    ] {
        if let Some(rest) = word.strip_suffix(suffix.as_bytes())
            && rest.len() >= least
            && !(suffix == "s" && rest.ends_with(b"s"))
        {
            word = rest;
            break;
        }
    }
    if word.len() > 3 && matches!(word.last(), Some(b'e' | b'y' | b'i')) {
        word = &word[..word.len() - 1];
    }
    if word.len() > 5 && word.ends_with(b"at") {
        word = &word[..word.len() - 2];
    }
    match word {
        [.., a, b] if a == b && word.len() > 3 => &word[..word.len() - 1],
        _ => word,
    }
}

/// The stems of a text's words, without those that every text uses.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_identifier(text.as_bytes(), |identifier| {
        split(identifier, |word, whole| {
            if !whole && !is_function_word(word) && !is_common(word) {
                words.push(String::from_utf8_lossy(stem(word)).into_owned());
            }
        });
    });
    words.sort_unstable();
    words.dedup();
    words
}

fn hash(word: &[u8]) -> u64 {
    let mut value = 0xcbf2_9ce4_8422_2325_u64;
    for byte in word {
        value = (value ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The upper bits of the product are the good ones, and a table looks at both ends.
    value ^ (value >> 29)
}

/// What one file says about a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Number of words.
    length: u32,
    /// Number of words of each block.
    blocks: Vec<u32>,
    /// Block, term and count, by block.
    hits: Vec<(u32, u16, u16)>,
    /// Definitions whose names share words with the task.
    definitions: Vec<Defined>,
    /// Files that it imports, as indices into the list.
    imports: Vec<u32>,
}

#[derive(Debug, Clone)]
struct Defined {
    name: String,
    line: u32,
    /// Terms among its words.
    terms: Vec<u16>,
    /// Number of its words that are no terms.
    others: u32,
    /// True where the task says the whole name.
    whole: bool,
}

/// Measures one file.
pub(crate) fn measure(query: &Query, path: &str, text: &str, paths: &[&str], resolver: &Resolver<'_>) -> Facts {
    let mut facts = Facts::default();
    let mut counts: Vec<u16> = vec![0; query.terms.len()];
    let mut touched: Vec<u16> = Vec::new();
    let mut words = 0_u32;
    let mut block = 0_u32;
    for (index, line) in text.lines().enumerate() {
        if index as u32 / BLOCK_LINES != block {
            facts.close_block(block, words, &mut counts, &mut touched);
            words = 0;
            block = index as u32 / BLOCK_LINES;
        }
        if line.len() > LINE_BYTES_MAX {
            continue;
        }
        each_identifier(line.as_bytes(), |identifier| {
            split(identifier, |word, whole| {
                words += u32::from(!whole);
                if let Some(at) = query.index.get(&hash(stem(word))) {
                    if counts[usize::from(*at)] == 0 {
                        touched.push(*at);
                    }
                    counts[usize::from(*at)] = counts[usize::from(*at)].saturating_add(1);
                }
            });
        });
    }
    facts.close_block(block, words, &mut counts, &mut touched);
    facts.read_symbols(query, path, text, paths, resolver);
    facts
}

/// Longer lines are data.
const LINE_BYTES_MAX: usize = 2000;

/// True for files that a task is looked for in: code, and whatever else the task names.
pub(crate) fn is_candidate(query: &Query, path: &str, role: Role) -> bool {
    match role {
        Role::Source | Role::Test | Role::Example => scanner::is_written(path) || query.names_part_of(path),
        Role::Documentation | Role::Configuration | Role::Changelog => query.names_part_of(path),
        Role::Generated | Role::Vendored | Role::Other => false,
    }
}

impl Facts {
    /// The same for a ranking of one file alone.
    pub(crate) fn without_imports(mut self) -> Self {
        self.imports.clear();
        self
    }

    fn close_block(&mut self, block: u32, words: u32, counts: &mut [u16], touched: &mut Vec<u16>) {
        for term in touched.drain(..) {
            self.hits
                .push((block, term, std::mem::take(&mut counts[usize::from(term)])));
        }
        self.blocks.resize(block as usize + 1, 0);
        self.blocks[block as usize] = words;
        self.length += words;
    }

    fn read_symbols(&mut self, query: &Query, path: &str, text: &str, paths: &[&str], resolver: &Resolver<'_>) {
        let Some(syntax) = Syntax::of(path) else {
            return;
        };
        let mut imports = Vec::new();
        symbols::read(
            syntax,
            text,
            |definition| self.definitions.extend(defined(query, definition)),
            |import| imports.push(import),
        );
        self.imports = imports
            .iter()
            .flat_map(|import| resolver.resolve(path, import, paths))
            .collect();
        self.imports.sort_unstable();
        self.imports.dedup();
        self.imports.retain(|at| paths[*at as usize] != path);
    }
}

fn defined(query: &Query, definition: symbols::Definition<'_>) -> Option<Defined> {
    let mut terms = Vec::new();
    let mut others = 0;
    split(definition.name.as_bytes(), |word, whole| {
        if !whole {
            match query.index.get(&hash(stem(word))) {
                Some(term) => terms.push(*term),
                None => others += 1,
            }
        }
    });
    let whole = query.names.contains_key(&joined(definition.name));
    (!terms.is_empty() || whole).then(|| Defined {
        name: definition.name.to_owned(),
        line: definition.line,
        terms,
        others,
        whole,
    })
}

fn each_identifier(line: &[u8], mut found: impl FnMut(&[u8])) {
    let mut start = None;
    for (at, byte) in line.iter().enumerate() {
        let word = byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        match (word, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found(&line[from..at]);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        found(&line[from..]);
    }
}

/// A file in the order of its relevance.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranked {
    /// Index into the list.
    pub(crate) index: u32,
    /// Comparable within one ranking.
    pub(crate) score: f64,
    /// Pieces of evidence with their scores, strongest first.
    pub(crate) evidence: Vec<(String, f64)>,
    /// Windows of lines with their scores, best first, not overlapping; lines from 1, inclusive.
    pub(crate) windows: Vec<(u32, u32, f64)>,
}

/// Ranks measured files; `roles` and `facts` belong to `paths`, and files that were not measured have no facts.
pub(crate) fn rank(
    query: &Query,
    paths: &[&str],
    roles: &[Role],
    facts: &[Option<Facts>],
    weights: &Weights,
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
    let mut ranked: Vec<Ranked> = scored
        .into_iter()
        .map(|one| {
            let factor = factor(query, paths[one.index as usize], roles[one.index as usize], weights);
            one.finish(query, factor)
        })
        .filter(|one| one.score > 0.0)
        .collect();
    ranked.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| paths[a.index as usize].cmp(paths[b.index as usize]))
    });
    ranked
}

/// What a file's role is worth. What the task names by its path counts in full, whatever it is.
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

/// How rare the words of a task are.
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
            for term in path_terms(query, paths[at])
                .0
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
            {
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
        split(identifier, |word, whole| match query.index.get(&hash(stem(word))) {
            Some(term) => name.push(*term),
            None if !whole => others += 1,
            None => {}
        });
    });
    let mut directories = Vec::new();
    each_identifier(super::scanner::parent(path).as_bytes(), |identifier| {
        split(identifier, |word, _| {
            directories.extend(query.index.get(&hash(stem(word))).copied())
        });
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
    let mut totals: Vec<(u16, u32)> = Vec::new();
    {
        let mut counts: HashMap<u16, u32> = HashMap::new();
        for (_, term, count) in &facts.hits {
            *counts.entry(*term).or_default() += u32::from(*count);
        }
        totals.extend(counts);
        totals.sort_unstable();
    }
    let saturate = |count: f64, length: f64, mean: f64| {
        count * (weights.k1 + 1.0) / (count + weights.k1 * (1.0 - weights.b + weights.b * length / mean.max(1.0)))
    };
    let mut terms: Vec<(u16, f64)> = totals
        .iter()
        .map(|(term, count)| {
            let value = saturate(f64::from(*count), f64::from(facts.length), statistics.length_mean);
            (*term, value * statistics.rarity[usize::from(*term)])
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
    let mut wholes: HashMap<String, f64> = HashMap::new();
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
    let lower = path.to_ascii_lowercase();
    query
        .paths
        .iter()
        .any(|said| lower == *said || lower.ends_with(&format!("/{said}")) || said.ends_with(&format!("/{lower}")))
}

/// What it weighs that a task says a path, or a file's name without its extension.
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

/// Windows of a file by their scores, best first and not overlapping.
fn windows(facts: &Facts, statistics: &Statistics, weights: &Weights) -> Vec<(u32, u32, f64)> {
    let mut scored: Vec<(usize, f64)> = Vec::new();
    let last = facts.hits.last().map_or(0, |hit| hit.0 as usize);
    let first = facts.hits.first().map_or(0, |hit| hit.0 as usize);
    let mut from = 0;
    for start in (first + 1).saturating_sub(WINDOW_BLOCKS)..=last {
        let end = start + WINDOW_BLOCKS;
        while facts.hits.get(from).is_some_and(|hit| (hit.0 as usize) < start) {
            from += 1;
        }
        let mut counts: Vec<(u16, u32)> = Vec::new();
        for (_, term, count) in facts.hits[from..].iter().take_while(|hit| (hit.0 as usize) < end) {
            match counts.iter_mut().find(|(known, _)| known == term) {
                Some((_, sum)) => *sum += u32::from(*count),
                None => counts.push((*term, u32::from(*count))),
            }
        }
        let length: u32 = facts.blocks[start.min(facts.blocks.len())..end.min(facts.blocks.len())]
            .iter()
            .sum();
        let norm = weights.k1 * (0.5 + 0.5 * f64::from(length) / statistics.window_mean.max(1.0));
        let value: f64 = counts
            .iter()
            .map(|(term, count)| {
                f64::from(*count) * (weights.k1 + 1.0) / (f64::from(*count) + norm)
                    * statistics.rarity[usize::from(*term)]
            })
            .sum();
        if value > 0.0 {
            scored.push((start, value));
        }
    }
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut chosen: Vec<(usize, f64)> = Vec::new();
    for (start, value) in scored {
        if chosen.len() == WINDOWS_MAX {
            break;
        }
        if chosen.iter().all(|(other, _)| other.abs_diff(start) >= WINDOW_BLOCKS) {
            chosen.push((start, value));
        }
    }
    let lines = |start: usize| {
        (
            start as u32 * BLOCK_LINES + 1,
            (start + WINDOW_BLOCKS) as u32 * BLOCK_LINES,
        )
    };
    chosen
        .into_iter()
        .map(|(start, value)| (lines(start).0, lines(start).1, value))
        .collect()
}

/// Windows kept of a file: what a packet could show of it.
const WINDOWS_MAX: usize = 12;

/// Gives each file a share of the scores of the files that import it, and of those that it imports.
fn propagate(scored: &mut [Scored], direct: &[f64], facts: &[Option<Facts>], weights: &Weights) {
    let mut gained = vec![0.0; direct.len()];
    for (from, facts) in facts.iter().enumerate() {
        let Some(facts) = facts else { continue };
        let share = (1.0 + facts.imports.len() as f64).sqrt();
        for to in &facts.imports {
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
