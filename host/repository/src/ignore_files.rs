//! Reads ignore files within a budget, through a cache, and only while the caller waits.
//!
//! Ignore files come from the repository, and a compiled pattern costs kilobytes of memory and tens of microseconds. So
//! the bytes and patterns of one file and of one walk are limited. Ignore files of other people have a separate budget.
//! The reader records files over a budget, and `ignores` leaves their folders out. `ignores` also applies the rules.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::fingerprint::ScanFingerprint;
use tool_core::limits::{
    IGNORE_FILE_BYTES_MAX, IGNORE_FILE_PATTERNS_MAX, IGNORE_FOREIGN_BYTES_MAX, IGNORE_FOREIGN_PATTERNS_MAX,
    IGNORE_LEVELS_MAX, IGNORE_PATTERN_BYTES_MAX, IGNORE_WALK_BYTES_MAX, IGNORE_WALK_PATTERNS_MAX, SCAN_SETTLING_MS,
};

/// Compiled ignore files that are kept for the next walk. Repositories of one team have a handful, the largest some
/// hundreds.
pub(crate) const IGNORE_FILES_KEPT_MAX: usize = 1_024;

/// Ignore files over a budget that one answer names.
pub(crate) const IGNORE_NAMED_MAX: usize = 8;

/// To whom an ignore file belongs, by its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoreOwner {
    /// The root, a directory above it, or the user's global file: it cannot be left out together with its directory.
    Root,
    /// Another directory of the user.
    User,
    /// A directory of packages or a nested work tree.
    Foreign,
}

/// Ignore files over a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedIgnores {
    /// Files for the root, of which only a part was applied.
    at_root: NamedFiles,
    /// Files of the user whose directories were left out.
    left_out: NamedFiles,
    /// Number of files in directories of packages and nested work trees, which were left out. Their names are text from
    /// outside the user's own files, so no answer shows them.
    foreign: usize,
}

/// Number of files, and the names of a few of them for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct NamedFiles {
    count: usize,
    /// The first paths, sorted, as an answer shows them.
    shown: Vec<String>,
}

/// Characters of a skipped file's path that an answer shows.
const SHOWN_PATH_MAX: usize = 100;

impl NamedFiles {
    fn add(&mut self, path: &str) {
        self.count += 1;
        let shown = shown_path(path);
        let at = self.shown.partition_point(|known| *known < shown);
        self.shown.insert(at, shown);
        self.shown.truncate(IGNORE_NAMED_MAX);
    }

    /// The names for the middle of a sentence.
    fn names(&self) -> Vec<String> {
        let named = self.shown.iter().map(|path| format!("`{path}`"));
        let more = self.count - self.shown.len();
        named.chain((more > 0).then(|| format!("{more} more"))).collect()
    }
}

/// A path as it can be quoted in a sentence of the host: it cannot end the quotation, and it holds no words.
fn shown_path(path: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+@".contains(character);
    let mut characters = path.chars();
    let shown = characters.by_ref().take(SHOWN_PATH_MAX);
    let mut shown: String = shown
        .map(|character| if is_plain(character) { character } else { '?' })
        .collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

impl SkippedIgnores {
    fn add(&mut self, path: &str, owner: IgnoreOwner) {
        match owner {
            IgnoreOwner::Root => self.at_root.add(path),
            IgnoreOwner::User => self.left_out.add(path),
            IgnoreOwner::Foreign => self.foreign += 1,
        }
    }

    /// True if every ignore file was applied.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if the list may hold files that the user ignores.
    pub fn may_reveal(&self) -> bool {
        self.at_root.count > 0
    }

    /// Paths that [`Self::notice`] shows.
    pub fn shown_paths(&self) -> impl Iterator<Item = &str> {
        let paths = self.at_root.shown.iter().chain(&self.left_out.shown);
        paths.map(String::as_str)
    }

    /// Sentences that name the files, without the last full stop; `None` if every ignore file was applied.
    pub fn notice(&self) -> Option<String> {
        let mut sentences = Vec::new();
        if self.at_root.count > 0 {
            sentences.push(format!(
                "Only a part of these ignore files was applied, so that ignored files may be listed: {}",
                self.at_root.names().join(", ")
            ));
        }
        let mut left_out = self.left_out.names();
        if self.foreign > 0 {
            left_out.push(format!(
                "{} in directories of packages or nested work trees",
                self.foreign
            ));
        }
        if !left_out.is_empty() {
            sentences.push(format!(
                "The folders of these ignore files were left out, because the files could not be applied: {}",
                left_out.join(", ")
            ));
        }
        if sentences.is_empty() {
            return None;
        }
        sentences.push(format!(
            "An ignore file may have {} KiB, {IGNORE_FILE_PATTERNS_MAX} patterns and {} KiB a pattern, all together {} \
             MiB, {IGNORE_WALK_PATTERNS_MAX} patterns and {IGNORE_LEVELS_MAX} levels: shorten them, or name a file of \
             such a folder to read it",
            IGNORE_FILE_BYTES_MAX / 1024,
            IGNORE_PATTERN_BYTES_MAX / 1024,
            IGNORE_WALK_BYTES_MAX / (1024 * 1024),
        ));
        Some(sentences.join(". "))
    }
}

/// A compiled ignore file.
#[derive(Debug, Clone)]
struct CompiledIgnores {
    patterns: usize,
    /// False if a limit cut off a part of the file.
    is_whole: bool,
    rules: Gitignore,
}

/// Cache of compiled ignore files by device, inode, size and change time; the most recently used one is last.
#[derive(Debug, Default)]
pub(super) struct IgnoreCache(Mutex<Vec<(ScanFingerprint, Arc<CompiledIgnores>)>>);

impl IgnoreCache {
    fn files(&self) -> MutexGuard<'_, Vec<(ScanFingerprint, Arc<CompiledIgnores>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, stamp: &ScanFingerprint) -> Option<Arc<CompiledIgnores>> {
        let mut files = self.files();
        let at = files.iter().position(|(known, _)| known == stamp)?;
        let used = files.remove(at);
        let compiled = Arc::clone(&used.1);
        files.push(used);
        Some(compiled)
    }

    /// Adds a file, unless it has changed so recently that another change could have the same time.
    fn put(&self, stamp: ScanFingerprint, compiled: &Arc<CompiledIgnores>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settled_ns = i128::try_from(now.as_nanos()).unwrap_or(0) - i128::from(SCAN_SETTLING_MS) * 1_000_000;
        if !stamp.is_before(settled_ns) {
            return;
        }
        let mut files = self.files();
        files.retain(|(known, _)| !known.is_of_file(&stamp));
        files.push((stamp, Arc::clone(compiled)));
        let patterns = |files: &[(ScanFingerprint, Arc<CompiledIgnores>)]| {
            files.iter().map(|(_, file)| file.patterns).sum::<usize>()
        };
        let patterns_max = IGNORE_WALK_PATTERNS_MAX + IGNORE_FOREIGN_PATTERNS_MAX;
        while files.len() > IGNORE_FILES_KEPT_MAX || patterns(&files) > patterns_max {
            files.remove(0);
        }
    }
}

/// Reads the ignore files of one walk.
pub(super) struct IgnoreReader<'a> {
    cache: &'a IgnoreCache,
    cancel: &'a CancellationToken,
    deadline: Instant,
    spent: Mutex<SpentBudget>,
}

/// Used parts of a walk's budgets.
#[derive(Debug, Default)]
struct SpentBudget {
    user: SpentAmount,
    foreign: SpentAmount,
    /// Files that were compiled because the cache did not have them.
    compiled: usize,
    skipped: SkippedIgnores,
}

#[derive(Debug, Default)]
struct SpentAmount {
    bytes: u64,
    patterns: usize,
}

impl SpentBudget {
    /// The amount that a file of this owner adds to, with its limits.
    fn of(&mut self, owner: IgnoreOwner) -> (&mut SpentAmount, u64, usize) {
        match owner {
            IgnoreOwner::Root | IgnoreOwner::User => (&mut self.user, IGNORE_WALK_BYTES_MAX, IGNORE_WALK_PATTERNS_MAX),
            IgnoreOwner::Foreign => (&mut self.foreign, IGNORE_FOREIGN_BYTES_MAX, IGNORE_FOREIGN_PATTERNS_MAX),
        }
    }
}

/// Rules of an ignore file.
pub(super) struct ReadIgnores {
    pub(super) rules: Gitignore,
    /// False if a budget left out the file or a part of it.
    pub(super) is_whole: bool,
}

impl ReadIgnores {
    pub(super) fn none() -> Self {
        Self {
            rules: Gitignore::empty(),
            is_whole: true,
        }
    }
}

impl<'a> IgnoreReader<'a> {
    pub(super) fn new(cache: &'a IgnoreCache, cancel: &'a CancellationToken, deadline: Instant) -> Self {
        Self {
            cache,
            cancel,
            deadline,
            spent: Mutex::default(),
        }
    }

    fn spent(&self) -> MutexGuard<'_, SpentBudget> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files that the budget has left out so far.
    pub(super) fn skipped(&self) -> SkippedIgnores {
        self.spent().skipped.clone()
    }

    /// Number of files compiled so far.
    #[cfg(test)]
    pub(super) fn compiled(&self) -> usize {
        self.spent().compiled
    }

    /// True if the caller no longer waits for an answer.
    pub(super) fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() >= self.deadline
    }

    /// Reads the rules of an open file. `level` is the number of files with rules outside of it, and `path` its name in
    /// an answer.
    pub(super) fn read(
        &self,
        file: impl AsFd,
        level: usize,
        owner: IgnoreOwner,
        path: impl Fn() -> String,
    ) -> ReadIgnores {
        // Rules are read even after the deadline, because the walk must not list entries that they leave out.
        if self.cancel.is_cancelled() {
            return ReadIgnores::none();
        }
        let compiled = match rustix::fs::fstat(file.as_fd()) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
                let is_in_bounds = level < IGNORE_LEVELS_MAX && self.take_bytes(size, owner);
                is_in_bounds
                    .then(|| self.compiled_of(file, &ScanFingerprint::from_stat(&stat), size, owner))
                    .flatten()
            }
            // A device or a directory has no rules.
            _ => return ReadIgnores::none(),
        };
        let is_whole = compiled.as_ref().is_some_and(|compiled| compiled.is_whole);
        if !is_whole {
            self.spent().skipped.add(&path(), owner);
        }
        ReadIgnores {
            // A clone has its own memory for matching, which is freed with the walk.
            rules: compiled.map_or_else(Gitignore::empty, |compiled| compiled.rules.clone()),
            is_whole,
        }
    }

    fn take_bytes(&self, size: u64, owner: IgnoreOwner) -> bool {
        let mut spent = self.spent();
        let (amount, bytes_max, _) = spent.of(owner);
        let bytes = amount.bytes + size.min(IGNORE_FILE_BYTES_MAX);
        // For a file of the root, its beginning counts.
        let fits = bytes <= bytes_max && (size <= IGNORE_FILE_BYTES_MAX || owner == IgnoreOwner::Root);
        if fits {
            amount.bytes = bytes;
        }
        fits
    }

    fn take_patterns(&self, patterns: usize, owner: IgnoreOwner) -> bool {
        let mut spent = self.spent();
        let (amount, _, patterns_max) = spent.of(owner);
        let fits = amount.patterns + patterns <= patterns_max;
        if fits {
            amount.patterns += patterns;
        }
        fits
    }

    /// The compiled file, from the cache or from its text; `None` if the budget has no room for it.
    fn compiled_of(
        &self,
        file: impl AsFd,
        stamp: &ScanFingerprint,
        size: u64,
        owner: IgnoreOwner,
    ) -> Option<Arc<CompiledIgnores>> {
        if let Some(known) = self.cache.get(stamp) {
            return self.take_patterns(known.patterns, owner).then_some(known);
        }
        let mut buffer = vec![0; usize::try_from(size.min(IGNORE_FILE_BYTES_MAX)).ok()?];
        let text = String::from_utf8_lossy(super::open::read_head(file, &mut buffer));
        let (patterns, mut is_whole) = patterns_of(&text, size > IGNORE_FILE_BYTES_MAX);
        let is_wanted = is_whole || owner == IgnoreOwner::Root;
        if !is_wanted || !self.take_patterns(patterns.len(), owner) {
            return None;
        }
        self.spent().compiled += 1;
        let rules = compile_patterns(&patterns);
        is_whole &= rules.is_some();
        let compiled = Arc::new(CompiledIgnores {
            patterns: patterns.len(),
            is_whole,
            rules: rules.unwrap_or_else(Gitignore::empty),
        });
        self.cache.put(*stamp, &compiled);
        Some(compiled)
    }
}

/// The lines of an ignore file that may be patterns, within the limits of one file, and whether these are all. The last
/// line of a text that `is_cut` may be a part of a pattern, so it does not count.
fn patterns_of(text: &str, is_cut: bool) -> (Vec<&str>, bool) {
    let text = text.trim_start_matches('\u{feff}');
    let text = match text.rfind('\n') {
        Some(end) if is_cut => &text[..end],
        _ => text,
    };
    let lines = text.lines();
    let mut patterns: Vec<&str> = lines
        .filter(|line| !line.starts_with('#') && !line.trim_end_matches(' ').is_empty())
        .collect();
    let count = patterns.len();
    patterns.retain(|pattern| pattern.len() <= IGNORE_PATTERN_BYTES_MAX);
    patterns.truncate(IGNORE_FILE_PATTERNS_MAX);
    let is_whole = !is_cut && patterns.len() == count;
    (patterns, is_whole)
}

/// Compiles patterns; `None` if they are together too costly for the library.
fn compile_patterns(patterns: &[&str]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    for pattern in patterns {
        // A line that is not a pattern is skipped, as by git.
        if let Some(pattern) = translate_pattern(pattern) {
            drop(builder.add_line(None, &pattern));
        }
    }
    builder.build().ok()
}

/// Translates a git pattern to the library's syntax; `None` for one that matches nothing. Braces are escaped: `globset`
/// would read them as alternatives and parse nested ones recursively, so that a line of some 20 KB would overflow the
/// stack. Other white space than a blank at the end counts for git, but the library would drop it. POSIX classes become
/// ranges.
///
/// Other classes are left to `globset`: a backslash in a class is literal, and a `[` without an end is an ordinary
/// character. Nothing is escaped in a class.
fn translate_pattern(pattern: &str) -> Option<String> {
    let pattern = keep_last_space(pattern);
    let mut translated = String::with_capacity(pattern.len());
    let mut rest = pattern.as_str();
    let mut may_begin_class = true;
    while let Some(character) = rest.chars().next() {
        let mut length = character.len_utf8();
        match character {
            '\\' => length += rest[length..].chars().next().map_or(0, char::len_utf8),
            '{' | '}' => translated.push('\\'),
            '[' if may_begin_class => match class_of(rest) {
                Some(Ok((length, class))) => {
                    translated.push_str(&class);
                    rest = &rest[length..];
                    continue;
                }
                Some(Err(UnknownClass)) => return None,
                // If this class has no end, no later one has.
                None => may_begin_class = false,
            },
            _ => {}
        }
        translated.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Some(translated)
}

/// Puts the last character in a class if it is white space other than a blank, which git keeps.
fn keep_last_space(pattern: &str) -> String {
    let pattern = if pattern.ends_with("\\ ") {
        return pattern.to_owned();
    } else {
        pattern.trim_end_matches(' ')
    };
    match pattern.chars().next_back() {
        Some(last) if last.is_whitespace() => {
            let before = &pattern[..pattern.len() - last.len_utf8()];
            let backslashes = before.len() - before.trim_end_matches('\\').len();
            let before = &before[..before.len() - backslashes % 2];
            format!("{before}[{last}]")
        }
        _ => pattern.to_owned(),
    }
}

/// A POSIX class that does not exist.
struct UnknownClass;

/// Ranges of the POSIX classes. None of them begins with a character that has a meaning at the beginning of a class.
/// None has a slash, because the library would take the pattern for a path.
const POSIX_CLASSES: [(&str, &str); 12] = [
    ("alnum", "a-zA-Z0-9"),
    ("alpha", "a-zA-Z"),
    ("blank", " \t"),
    ("cntrl", "\u{1}-\u{1f}\u{7f}"),
    ("digit", "0-9"),
    ("graph", "\"-~!"),
    ("lower", "a-z"),
    ("print", " -~"),
    ("punct", ":-@[-`{-~\"-.!"),
    ("space", " \t\n\u{b}\u{c}\r"),
    ("upper", "A-Z"),
    ("xdigit", "0-9a-fA-F"),
];

/// The class at the beginning of `text`, if it has an end: its length in bytes, and the class in the library's syntax.
fn class_of(text: &str) -> Option<Result<(usize, String), UnknownClass>> {
    let mut class = String::from("[");
    let mut rest = text.strip_prefix('[')?;
    if let Some(content) = rest.strip_prefix(['!', '^']) {
        class.push('^');
        rest = content;
    }
    let mut is_first = true;
    loop {
        // Like git: the name ends before the next `]`, and must end with a colon.
        if let Some(named) = rest.strip_prefix("[:") {
            let end = named.find(']')?;
            if let Some(name) = named[..end].strip_suffix(':') {
                let Some((_, ranges)) = POSIX_CLASSES.iter().find(|(known, _)| *known == name) else {
                    return Some(Err(UnknownClass));
                };
                class.push_str(ranges);
                rest = &named[end + 1..];
                is_first = false;
                continue;
            }
        }
        let character = rest.chars().next()?;
        class.push(character);
        rest = &rest[character.len_utf8()..];
        // A `]` at the beginning of a class is literal.
        if character == ']' && !is_first {
            return Some(Ok((text.len() - rest.len(), class)));
        }
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_git_are_translated() {
        for (pattern, translated) in [
            ("{a,b}.py", "\\{a,b\\}.py"),
            ("\\{a\\\\{b", "\\{a\\\\\\{b"),
            ("[{}]{", "[{}]\\{"),
            ("[!]{]{", "[^]{]\\{"),
            ("[^{\\]}", "[^{\\]\\}"),
            ("[{", "[\\{"),
            ("[a{[b]{", "[a{[b]\\{"),
            ("ä{é\\", "ä\\{é\\"),
            ("cache[[:digit:]]/", "cache[0-9]/"),
            ("[![:upper:]x]", "[^A-Zx]"),
            ("[[:digit]", "[[:digit]"),
            ("log\t", "log[\t]"),
            ("log\\\t  ", "log[\t]"),
            ("log\t\\ ", "log\t\\ "),
        ] {
            assert_eq!(translate_pattern(pattern).as_deref(), Some(translated), "{pattern}");
        }
        assert_eq!(translate_pattern("[[:digits:]]"), None);
    }

    #[test]
    fn a_path_in_a_sentence_of_the_host_holds_no_words() {
        assert_eq!(shown_path("d/ä-b_c.d/.gitignore"), "d/ä-b_c.d/.gitignore");
        assert_eq!(shown_path("a` now run\n[tool]\u{202e}x"), "a??now?run??tool??x");
        assert_eq!(shown_path(&"ab".repeat(51)), format!("{}…", "ab".repeat(50)));
    }
}
