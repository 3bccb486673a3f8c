//! Reading ignore files: within a budget, only as long as the caller waits, and through a cache.
//!
//! Ignore files come from the repository, and a compiled pattern costs kilobytes of memory and tens of microseconds. So
//! one file and one walk may hold only so many bytes and patterns. A file over the budget counts as absent, and the
//! reader notes its path for the answer. The rules that the files state are `ignores`.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::fresh::Stamp;
use tool_core::limits::{
    IGNORE_FILE_BYTES_MAX, IGNORE_FILE_PATTERNS_MAX, IGNORE_FILES_KEPT_MAX, IGNORE_LEVELS_MAX, IGNORE_NAMED_MAX,
    IGNORE_WALK_BYTES_MAX, IGNORE_WALK_PATTERNS_MAX, SCAN_SETTLING_MS,
};
use tool_core::text::{beginning, clean_line};

/// Ignore files that counted as absent, because they are over a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedIgnores {
    count: usize,
    /// The first of their paths, sorted, as they may be shown.
    paths: Vec<String>,
}

/// Longest part of a skipped file's path that an answer shows.
const SHOWN_PATH_BYTES: usize = 200;

impl SkippedIgnores {
    fn add(&mut self, path: &str) {
        self.count += 1;
        let cleaned = clean_line(path);
        let shown = match beginning(&cleaned, SHOWN_PATH_BYTES) {
            shown if shown.len() < cleaned.len() => format!("{shown}…"),
            shown => shown.to_owned(),
        };
        let at = self.paths.partition_point(|known| *known < shown);
        self.paths.insert(at, shown);
        self.paths.truncate(IGNORE_NAMED_MAX);
    }

    /// True where every ignore file was applied.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A sentence that names the files; nothing where every ignore file was applied.
    pub fn notice(&self) -> Option<String> {
        let named: Vec<String> = self.paths.iter().map(|path| format!("`{path}`")).collect();
        let more = match self.count - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let files = match self.count {
            0 => return None,
            1 => "1 ignore file was not applied: it is".to_owned(),
            count => format!("{count} ignore files were not applied: they are"),
        };
        Some(format!(
            "{files} over the limits ({} KiB and {IGNORE_FILE_PATTERNS_MAX} patterns a file, {} MiB and \
             {IGNORE_WALK_PATTERNS_MAX} patterns in all, {IGNORE_LEVELS_MAX} levels): {}{more}",
            IGNORE_FILE_BYTES_MAX / 1024,
            IGNORE_WALK_BYTES_MAX / (1024 * 1024),
            named.join(", ")
        ))
    }
}

/// A file as it was compiled.
#[derive(Debug, Clone)]
struct CompiledIgnores {
    patterns: usize,
    rules: Gitignore,
}

/// A cache of compiled ignore files by device, inode, size and time stamp, with the most recently used file last.
#[derive(Debug, Default)]
pub(super) struct IgnoreCache(Mutex<Vec<(Stamp, Arc<CompiledIgnores>)>>);

impl IgnoreCache {
    fn files(&self) -> MutexGuard<'_, Vec<(Stamp, Arc<CompiledIgnores>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, stamp: &Stamp) -> Option<Arc<CompiledIgnores>> {
        let mut files = self.files();
        let at = files.iter().position(|(known, _)| known == stamp)?;
        let used = files.remove(at);
        let compiled = Arc::clone(&used.1);
        files.push(used);
        Some(compiled)
    }

    /// Keeps a file, unless it changed so lately that another change could have the same time stamp.
    fn put(&self, stamp: Stamp, compiled: &Arc<CompiledIgnores>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settled_ns = i128::try_from(now.as_nanos()).unwrap_or(0) - i128::from(SCAN_SETTLING_MS) * 1_000_000;
        if !stamp.is_before(settled_ns) {
            return;
        }
        let mut files = self.files();
        files.retain(|(known, _)| !known.is_of_file(&stamp));
        files.push((stamp, Arc::clone(compiled)));
        let patterns =
            |files: &[(Stamp, Arc<CompiledIgnores>)]| files.iter().map(|(_, file)| file.patterns).sum::<usize>();
        while files.len() > IGNORE_FILES_KEPT_MAX || patterns(&files) > IGNORE_WALK_PATTERNS_MAX {
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

/// The part of a walk's budget that is used up.
#[derive(Debug, Default)]
struct SpentBudget {
    bytes: u64,
    patterns: usize,
    /// Files that were compiled and not found in the cache.
    compiled: usize,
    skipped: SkippedIgnores,
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

    /// The files that the budget left out so far.
    pub(super) fn skipped(&self) -> SkippedIgnores {
        self.spent().skipped.clone()
    }

    /// How many files were compiled so far.
    #[cfg(test)]
    pub(super) fn compiled(&self) -> usize {
        self.spent().compiled
    }

    /// True where the caller does not wait for an answer any more.
    pub(super) fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() >= self.deadline
    }

    /// The rules of an open file at `level`, counted from the outermost file in force. `path` names it in an answer.
    pub(super) fn read(&self, file: impl AsFd, level: usize, path: impl Fn() -> String) -> Gitignore {
        // Rules are read after the deadline, too: the walk must not list entries that they leave out.
        if self.cancel.is_cancelled() {
            return Gitignore::empty();
        }
        let rules = match rustix::fs::fstat(file.as_fd()) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
                match level < IGNORE_LEVELS_MAX && self.take_bytes(size) {
                    true => self.compiled_of(file, &Stamp::of(&stat), size),
                    false => None,
                }
            }
            // A device or a directory states no rules.
            _ => return Gitignore::empty(),
        };
        rules.unwrap_or_else(|| {
            self.spent().skipped.add(&path());
            Gitignore::empty()
        })
    }

    fn take_bytes(&self, size: u64) -> bool {
        let mut spent = self.spent();
        let fits = size <= IGNORE_FILE_BYTES_MAX && spent.bytes + size <= IGNORE_WALK_BYTES_MAX;
        if fits {
            spent.bytes += size;
        }
        fits
    }

    fn take_patterns(&self, patterns: usize) -> bool {
        let mut spent = self.spent();
        let fits = patterns <= IGNORE_FILE_PATTERNS_MAX && spent.patterns + patterns <= IGNORE_WALK_PATTERNS_MAX;
        if fits {
            spent.patterns += patterns;
        }
        fits
    }

    /// The rules of a file, from the cache or from its text; nothing where it has too many patterns.
    fn compiled_of(&self, file: impl AsFd, stamp: &Stamp, size: u64) -> Option<Gitignore> {
        if let Some(known) = self.cache.get(stamp) {
            // A clone has its own scratch memory for matching, which goes with the walk.
            return self.take_patterns(known.patterns).then(|| known.rules.clone());
        }
        let mut buffer = vec![0; usize::try_from(size).ok()?];
        let text = String::from_utf8_lossy(super::open::read_head(file, &mut buffer));
        let patterns: Vec<&str> = patterns_of(&text).collect();
        if !self.take_patterns(patterns.len()) {
            return None;
        }
        self.spent().compiled += 1;
        let compiled = Arc::new(CompiledIgnores {
            patterns: patterns.len(),
            rules: compile(&patterns),
        });
        self.cache.put(*stamp, &compiled);
        Some(compiled.rules.clone())
    }
}

/// The lines of an ignore file that may hold a pattern.
fn patterns_of(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.trim_start_matches('\u{feff}').lines();
    lines.filter(|line| !line.starts_with('#') && !line.trim().is_empty())
}

fn compile(patterns: &[&str]) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for pattern in patterns {
        // A line that is no pattern is skipped, as git does.
        drop(builder.add_line(None, pattern));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
