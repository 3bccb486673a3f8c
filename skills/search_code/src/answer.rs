//! Results of a search, and their text for the model: `path:line:text`, as `grep` prints it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use skill_details::{LineMatch, NotSearched, SearchDetails};
use skill_sdk::Outcome;
use skill_sdk::text::{counted, human_size, one_line};

use crate::search::{FILE_BYTES_MAX, KEPT_BYTES_MAX, MATCHES_MAX};
use crate::{AnswerPart, SearchCodeArguments};

/// Result of a search, or of a part of one. Parts return it as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SearchResult {
    /// Matches in files that people wrote.
    pub(crate) written: ShownMatches,
    /// Matches in generated files, which come after all others.
    pub(crate) generated: ShownMatches,
    /// Number of searched files.
    pub(crate) searched: u64,
    /// Counts of files that were not searched.
    pub(crate) not_searched: NotSearched,
    pub(crate) large_named: Vec<String>,
    /// True if counting was stopped at the limit.
    pub(crate) stopped: bool,
}

/// Matching lines, and the lines to show.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShownMatches {
    /// Lines to show, by file.
    pub(crate) shown: Vec<FileFound>,
    /// Number of matching lines in `shown`.
    pub(crate) kept: usize,
    /// Approximate size of `shown` in bytes.
    pub(crate) kept_bytes: usize,
    /// Number of all matching lines, and of the files that contain them.
    pub(crate) lines: u64,
    pub(crate) files: u64,
}

/// Lines to show of one file.
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
    /// Size in the answer in bytes; 0 for context.
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
    /// True for a matching line, false for context.
    fn matches(&self) -> bool {
        self.cost > 0
    }
}

impl SearchResult {
    /// True if there was no file to search.
    pub(crate) fn is_empty(&self) -> bool {
        let NotSearched {
            binary,
            unreadable,
            large,
            ..
        } = self.not_searched;
        self.searched + binary + unreadable + large == 0
    }

    /// Number of all matching lines.
    pub(crate) fn matches(&self) -> u64 {
        self.written.lines + self.generated.lines
    }

    /// Adds the result of the next part. The sum equals the result of one search of both.
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

impl ShownMatches {
    /// Adds following matches, as far as they fit.
    fn append(&mut self, mut part: Self, arguments: &SearchCodeArguments) {
        part.keep(self.room_for(&part, arguments), arguments.context as u64);
        self.kept += part.kept;
        self.kept_bytes += part.costs().sum::<usize>();
        self.shown.append(&mut part.shown);
        self.lines += part.lines;
        self.files += part.files;
    }

    /// Number of a part's matching lines that still fit.
    fn room_for(&self, part: &Self, arguments: &SearchCodeArguments) -> usize {
        // If this part kept fewer lines than it found, the answer ends in it, and no later line may follow.
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

    /// Size of each matching line in the answer.
    fn costs(&self) -> impl Iterator<Item = usize> {
        let lines = self.shown.iter().flat_map(|file| &file.lines);
        lines.filter(|line| line.matches()).map(|line| line.cost)
    }

    /// Drops matching lines after the first `count`, and the context that belongs to them.
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

pub(crate) fn write_answer(arguments: &SearchCodeArguments, mut found: SearchResult) -> Outcome {
    let written = found.written.shown.len();
    let counts = Counts::from_result(&found);
    let has_generated = found.generated.lines > 0;
    let mut all = std::mem::take(&mut found.written);
    all.append(std::mem::take(&mut found.generated), arguments);
    let mut text = String::new();
    let mut cursor = None;
    for (at, file) in all.shown.iter().enumerate() {
        let path = one_line(&file.path);
        let mut last = 0;
        for line in &file.lines {
            // Without context, every line would be a separate group.
            if arguments.context > 0 && !text.is_empty() && line.number != last + 1 {
                text.push_str("--\n");
            }
            last = line.number;
            let mark = if line.matches() { ':' } else { '-' };
            let _ = writeln!(text, "{path}{mark}{last}{mark}{}", line.text);
            if line.matches() {
                let phase = match at < written {
                    true if has_generated => AnswerPart::WrittenOfBoth,
                    true => AnswerPart::Written,
                    false => AnswerPart::Generated,
                };
                cursor = Some(phase.cursor(&file.path, last));
            }
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&summary_line(arguments, &found, &counts, all.kept));
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

/// Counts for the whole search.
struct Counts {
    lines: u64,
    files: u64,
    generated_files: u64,
}

impl Counts {
    fn from_result(found: &SearchResult) -> Self {
        Self {
            lines: found.matches().min(MATCHES_MAX),
            files: found.written.files + found.generated.files,
            generated_files: found.generated.files,
        }
    }
}

/// The last line: the number of matches, and files that were not searched.
fn summary_line(arguments: &SearchCodeArguments, found: &SearchResult, counts: &Counts, kept: usize) -> String {
    let goes_on = arguments.cursor.as_deref().is_some_and(|cursor| !cursor.is_empty());
    let more = if goes_on { "further " } else { "" };
    if found.stopped {
        // The numbers of the other matches and files are unknown.
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
    // Name files that were not searched only if nothing was found: then they matter.
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
