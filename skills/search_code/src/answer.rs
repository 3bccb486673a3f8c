//! Results of a search, and their form for the model: `path:line:text`, as `grep` prints it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use skill_details::{LineMatch, NotSearched, SearchDetails};
use skill_sdk::Outcome;
use skill_sdk::text::{counted, human_size, one_line};

use crate::search::{FILE_BYTES_MAX, KEPT_BYTES_MAX, MATCHES_MAX};
use crate::{Phase, SearchCodeArguments};

/// Result of a search or a part of one. The parts of a call hand it on as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SearchResult {
    /// Matches in what people wrote.
    pub(crate) written: Matches,
    /// Matches in generated files, which follow after all others.
    pub(crate) generated: Matches,
    /// Files searched.
    pub(crate) searched: u64,
    /// What was not searched.
    pub(crate) not_searched: NotSearched,
    pub(crate) large_named: Vec<String>,
    /// True where counting was given up.
    pub(crate) stopped: bool,
}

/// Matching lines, and those of them to show.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Matches {
    /// The lines to show, by file.
    pub(crate) shown: Vec<FileFound>,
    /// Matching lines among them.
    pub(crate) kept: usize,
    /// Their size, roughly.
    pub(crate) kept_bytes: usize,
    /// Matching lines in all, and the files that hold them.
    pub(crate) lines: u64,
    pub(crate) files: u64,
}

/// The lines of one file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileFound {
    pub(crate) path: String,
    pub(crate) lines: Vec<MatchLine>,
}

/// A line to show.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MatchLine {
    #[serde(rename = "n")]
    pub(crate) number: u64,
    /// Cost in the answer's size; 0 for context.
    #[serde(rename = "c", default, skip_serializing_if = "is_nothing")]
    pub(crate) cost: usize,
    #[serde(rename = "t")]
    pub(crate) text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_nothing(cost: &usize) -> bool {
    *cost == 0
}

impl MatchLine {
    /// False for context.
    fn matches(&self) -> bool {
        self.cost > 0
    }
}

impl SearchResult {
    /// True where there was no file at all.
    pub(crate) fn is_empty(&self) -> bool {
        let NotSearched {
            binary,
            unreadable,
            large,
            ..
        } = self.not_searched;
        self.searched + binary + unreadable + large == 0
    }

    /// Matching lines in all.
    pub(crate) fn matches(&self) -> u64 {
        self.written.lines + self.generated.lines
    }

    /// Adds what the next part found: the sum is what one search of both would have found.
    pub(crate) fn append(&mut self, mut part: Self, arguments: &SearchCodeArguments) {
        if self.stopped {
            return;
        }
        self.written.append(part.written, arguments);
        self.generated.append(part.generated, arguments);
        self.searched += part.searched;
        self.not_searched.append(part.not_searched);
        self.large_named.append(&mut part.large_named);
        self.large_named.truncate(3);
        self.stopped = part.stopped || self.matches() >= MATCHES_MAX;
    }
}

impl Matches {
    /// Adds what follows, as far as there is room for it.
    fn append(&mut self, mut part: Self, arguments: &SearchCodeArguments) {
        part.keep(self.room_for(&part, arguments), arguments.context as u64);
        self.kept += part.kept;
        self.kept_bytes += part.costs().sum::<usize>();
        self.shown.append(&mut part.shown);
        self.lines += part.lines;
        self.files += part.files;
    }

    /// Number of a part's matching lines that may follow.
    fn room_for(&self, part: &Self, arguments: &SearchCodeArguments) -> usize {
        // A part that kept less than it found has the answer's end in it: nothing of a later one may follow.
        if self.kept as u64 != self.lines {
            return 0;
        }
        let mut bytes = self.kept_bytes;
        let fitting = part.costs().take_while(|cost| {
            let fits = bytes < KEPT_BYTES_MAX;
            bytes += cost;
            fits
        });
        fitting.take(arguments.limit().saturating_sub(self.kept)).count()
    }

    /// Cost of each matching line in the answer's size.
    fn costs(&self) -> impl Iterator<Item = usize> {
        let lines = self.shown.iter().flat_map(|file| &file.lines);
        lines.filter(|line| line.matches()).map(|line| line.cost)
    }

    /// Drops matching lines beyond the first `count`, and the context that is not theirs.
    fn keep(&mut self, count: usize, context: u64) {
        let mut left = count;
        for file in &mut self.shown {
            let matching = || file.lines.iter().filter(|line| line.matches());
            let (kept, dropped) = (matching().take(left), matching().nth(left));
            let last = kept.last().map_or(0, |line| line.number);
            let end = dropped.map_or(u64::MAX, |line| line.number);
            left -= matching().count().min(left);
            file.lines
                .retain(|line| last > 0 && line.number < end && line.number <= last.saturating_add(context));
        }
        self.shown.retain(|file| !file.lines.is_empty());
        self.kept = count - left;
    }
}

/// Writes the answer.
pub(crate) fn write(arguments: &SearchCodeArguments, mut found: SearchResult) -> Outcome {
    let written = found.written.shown.len();
    let counts = Counts::of(&found);
    let has_generated = found.generated.lines > 0;
    let mut all = std::mem::take(&mut found.written);
    all.append(std::mem::take(&mut found.generated), arguments);
    let mut text = String::new();
    let mut cursor = None;
    for (at, file) in all.shown.iter().enumerate() {
        let path = one_line(&file.path);
        let mut last = 0;
        for line in &file.lines {
            // Without context every line would be a group of its own.
            if arguments.context > 0 && !text.is_empty() && line.number != last + 1 {
                text.push_str("--\n");
            }
            last = line.number;
            let mark = if line.matches() { ':' } else { '-' };
            let _ = writeln!(text, "{path}{mark}{last}{mark}{}", line.text);
            if line.matches() {
                let phase = match at < written {
                    true if has_generated => Phase::WrittenOfBoth,
                    true => Phase::Written,
                    false => Phase::Generated,
                };
                cursor = Some(phase.cursor(&file.path, last));
            }
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&summary(arguments, &found, &counts, all.kept));
    let more = all.kept as u64 != counts.lines || found.stopped;
    let matches = all.shown.iter().flat_map(|file| {
        let matching = file.lines.iter().filter(|line| line.matches());
        matching.map(|line| LineMatch {
            path: file.path.clone(),
            line: line.number,
        })
    });
    let details = SearchDetails {
        matches: matches.collect(),
        total: counts.lines,
        files: counts.files,
        not_searched: found.not_searched,
    };
    Outcome::page(text, cursor.filter(|_| more)).with_details(&details)
}

/// Numbers of a whole search.
struct Counts {
    lines: u64,
    files: u64,
    generated_files: u64,
}

impl Counts {
    fn of(found: &SearchResult) -> Self {
        Self {
            lines: found.matches().min(MATCHES_MAX),
            files: found.written.files + found.generated.files,
            generated_files: found.generated.files,
        }
    }
}

/// The last line: how much there is, and what was not searched.
fn summary(arguments: &SearchCodeArguments, found: &SearchResult, counts: &Counts, kept: usize) -> String {
    let goes_on = arguments.cursor.as_deref().is_some_and(|cursor| !cursor.is_empty());
    let more = if goes_on { "further " } else { "" };
    if found.stopped {
        // The number of other matches and files is not known.
        return format!("at least {} {more}matches; showing the first {}", counts.lines, kept);
    }
    let mut text = match counts.lines {
        0 => format!("No {more}matches in {}", counted(found.searched, "file", "files")),
        _ => format!(
            "{} {more}{} in {}",
            counts.lines,
            if counts.lines == 1 { "match" } else { "matches" },
            counted(counts.files, "file", "files")
        ),
    };
    if counts.generated_files > 0 {
        let _ = write!(text, ", {} of them generated and listed last", counts.generated_files);
    }
    if kept as u64 != counts.lines {
        let _ = write!(text, "; showing the first {kept}");
    }
    let large = format!("larger than {}", human_size(FILE_BYTES_MAX));
    let not_searched = &found.not_searched;
    let mut skipped: Vec<String> = [
        (not_searched.binary, "binary", String::new()),
        (
            not_searched.large,
            &large,
            format!(" ({})", found.large_named.join(", ")),
        ),
        (not_searched.unreadable, "unreadable", String::new()),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, why, names)| format!("{count} {why}{names}"))
    .collect();
    // A search that found something is no proof of absence.
    if counts.lines == 0 {
        skipped.extend(not_searched.not_listed());
    }
    if !skipped.is_empty() {
        let _ = write!(text, "; not searched: {}", skipped.join(", "));
    }
    if found.is_empty() && !goes_on {
        text.push_str(
            "; no file matches the path and globs (ignored files and folders are searched only by their path)",
        );
    }
    text
}
