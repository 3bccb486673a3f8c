//! `read_logs`: summarises a log, beginning at its end.
//!
//! This file has the arguments and connects the parts: `source` finds the file and reads a window of it, `entries`
//! and `parse` turn lines into entries, `time` parses timestamps, `report` counts, groups and shows. A call reads one
//! window of a log of any size, and reports what it did not read; the cursor leads further back.

mod entries;
mod parse;
mod report;
mod source;
mod time;

use std::fmt::Write;
use std::fs::File;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use skill_sdk::pattern::{Case, Pattern};
use skill_sdk::serde_json::{self, json};
use skill_sdk::text::{human_size, one_line};
use skill_sdk::{Descriptor, Failure, FunctionMetadata, Handler, Host, Outcome, clean_path, export_skill};

use entries::EntryReader;
use parse::Level;
use report::{EntryFilter, LogReport};
use source::{LogFile, WINDOW_BYTES};
use time::LogTime;

/// Entries in an answer by default.
const TAIL: usize = 100;
/// Limit for the entries in an answer.
const TAIL_MAX: usize = 1000;
/// Limit for the log files that are named if several were found.
const CANDIDATES_SHOWN: usize = 10;

/// The skill `read_logs`.
#[derive(Debug)]
pub struct ReadLogs;

#[derive(Debug, Deserialize)]
struct ReadLogsArguments {
    #[serde(default)]
    path: String,
    level: Option<Level>,
    since: Option<String>,
    until: Option<String>,
    tail: Option<usize>,
    pattern: Option<String>,
    cursor: Option<String>,
}

impl ReadLogsArguments {
    fn filter(&self) -> Result<EntryFilter, Failure> {
        let moment = |name: &str, text: &Option<String>, is_end| match text {
            None => Ok(None),
            Some(text) => time::parse_argument(text, is_end).map(Some).ok_or_else(|| {
                Failure::invalid(format!("`{name}` is not a time: `{text}`"))
                    .with_hint("write it like 2024-05-01 or 2024-05-01T12:00:00Z")
            }),
        };
        let pattern = self
            .pattern
            .as_deref()
            .map(|pattern| Pattern::new(pattern, false, Case::Sensitive));
        Ok(EntryFilter {
            level: self.level,
            since: moment("since", &self.since, false)?,
            until: moment("until", &self.until, true)?,
            pattern: pattern.transpose()?,
        })
    }

    /// Offset before which to continue, and its file: `BYTE:PATH`.
    fn before(&self) -> Result<Option<(u64, &str)>, Failure> {
        let Some(cursor) = self.cursor.as_deref().filter(|cursor| !cursor.is_empty()) else {
            return Ok(None);
        };
        let parsed = cursor
            .split_once(':')
            .and_then(|(byte, path)| Some((byte.parse().ok()?, path)));
        parsed.map(Some).ok_or_else(|| {
            Failure::invalid(format!("`{cursor}` is not a cursor of this skill"))
                .with_hint("give the cursor of the answer before, or none")
        })
    }
}

impl Handler for ReadLogs {
    fn describe() -> Descriptor {
        Descriptor {
            name: "read_logs",
            version: "1.0.0",
            description: "Reads a log from its end: counts entries by level, groups repeated messages, and shows the \
                last entries with their stack traces. Understands plain text with timestamps and levels, JSON lines, \
                logfmt, syslog, and Python, Java and Node traces, in files of any size.",
            parameters: parameters_schema(),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("foreign")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: ReadLogsArguments = skill_sdk::arguments(arguments)?;
        let filter = arguments.filter()?;
        let before = arguments.before()?;
        let named = clean_path(before.map_or(&*arguments.path, |(_, path)| path))?;
        let (place, metadata) = host.locate(&named)?;
        let (path, found) = if metadata.is_dir() {
            newest_log(host, &named)?
        } else {
            (named, String::new())
        };
        let place = if metadata.is_dir() { host.path(&path)? } else { place };
        let metadata = std::fs::metadata(&place).map_err(|error| Failure::io(&path, &error))?;
        if !metadata.is_file() {
            return Err(Failure::invalid(format!("`{path}` is not a regular file")));
        }
        let mut file = File::open(&place).map_err(|error| Failure::io(&path, &error))?;
        let mut call = ReadCall {
            path: &path,
            // The size of the readable content, in which placeholders replace keys.
            size: file.metadata().map_err(|error| Failure::io(&path, &error))?.len(),
            filter,
            tail: arguments.tail.unwrap_or(TAIL).clamp(1, TAIL_MAX),
            now_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as i64),
        };
        let mut outcome = call.run(&mut file, before.map(|(byte, _)| byte))?;
        outcome.text.insert_str(0, &found);
        Ok(outcome)
    }
}

/// Finds the newest log beneath a directory, with a text about the others.
fn newest_log(host: &dyn Host, under: &str) -> Result<(String, String), Failure> {
    let candidates = source::find_logs(host, under)?;
    let Some(first) = candidates.first() else {
        let place = if under.is_empty() { "the repository" } else { under };
        return Err(Failure::not_found(format!("no log files were found in {place}"))
            .with_hint("name the file with `path`; list_files shows what exists"));
    };
    if candidates.len() == 1 {
        return Ok((first.path.clone(), String::new()));
    }
    let mut text = format!(
        "Found {} log files; this is the newest. Give `path` to read another:\n",
        candidates.len()
    );
    for LogFile { path, size, modified } in candidates.iter().take(CANDIDATES_SHOWN) {
        let modified = LogTime {
            ms: *modified as i64 * 1000,
            zoned: true,
        };
        let _ = writeln!(text, "  {}\t{}\t{modified}", one_line(path), human_size(*size));
    }
    if candidates.len() > CANDIDATES_SHOWN {
        let _ = writeln!(text, "  … and {} more", candidates.len() - CANDIDATES_SHOWN);
    }
    text.push('\n');
    Ok((first.path.clone(), text))
}

/// A call about one file.
struct ReadCall<'a> {
    path: &'a str,
    size: u64,
    filter: EntryFilter,
    tail: usize,
    now_ms: i64,
}

impl ReadCall<'_> {
    fn run(&mut self, file: &mut File, before: Option<u64>) -> Result<Outcome, Failure> {
        let failed = |error: std::io::Error| Failure::io(self.path, &error);
        if self.size == 0 {
            return Ok(Outcome::text(format!("`{}` is empty (0 bytes).", self.path)));
        }
        let end = match (before, self.filter.until) {
            (Some(before), _) => before.min(self.size),
            (None, Some(until)) if self.size > WINDOW_BYTES => {
                source::find_position(file, self.size, until, self.now_ms).map_err(failed)?
            }
            _ => self.size,
        };
        let window = source::read_window(file, end).map_err(failed)?;
        if memchr::memchr(0, &window.bytes[..window.bytes.len().min(8192)]).is_some() {
            return Err(Failure::failed(format!("`{}` is not a text file", self.path))
                .with_hint("compressed logs cannot be read; name a text file"));
        }
        let mut report = LogReport::new(self.tail);
        for entry in EntryReader::new(&window.bytes, window.start == 0, self.now_ms) {
            report.add(&entry, &window.bytes, &self.filter);
        }
        Ok(self.answer(&window, end, &report))
    }

    fn answer(&self, window: &source::LogWindow, end: u64, report: &LogReport) -> Outcome {
        let mut text = self.heading(window, end);
        text.push('\n');
        text.push_str(&report.summary(&self.filter));
        let asks_for_time = self.filter.since.is_some() || self.filter.until.is_some();
        if asks_for_time && report.times().is_none() {
            text.push_str("\nNo timestamps were recognised, so `since` and `until` leave nothing.");
        }
        let repeated = report.repeated();
        if !repeated.is_empty() {
            text.push_str("\n\n");
            text.push_str(&repeated);
        }
        let numbered = (window.start == 0).then_some(1);
        let first_read = window.start + report.first_at.unwrap_or(0) as u64;
        let mut next = first_read;
        match report.last(&window.bytes, numbered) {
            Some(last) => {
                text.push_str("\n\n");
                text.push_str(&last.text);
                // Entries that were selected but not shown come first on the next page.
                if !last.is_all {
                    next = window.start + last.start as u64;
                }
            }
            None => text.push_str("\n\nNo entry fits."),
        }
        // Before the requested time there is nothing to find.
        let passed = self
            .filter
            .since
            .is_some_and(|since| report.times().is_some_and(|(first, _)| first.ms < since.ms));
        let more = if next == first_read { next > 0 && !passed } else { true };
        // Do not read a window again in which no entry begins.
        let next = if next >= end {
            window.start.min(end.saturating_sub(1))
        } else {
            next
        };
        Outcome::page(text, more.then(|| format!("{next}:{}", self.path)))
    }

    /// The heading: `logs/app.log (1.0 GB): read 16.8 MB at the end; 983.2 MB before that were not read`.
    fn heading(&self, window: &source::LogWindow, end: u64) -> String {
        let size = human_size(self.size);
        let read = human_size(window.bytes.len() as u64);
        let path = one_line(self.path);
        if window.start == 0 && end == self.size {
            return format!("{path} ({size}, read whole)");
        }
        let mut text = if end == self.size {
            format!("{path} ({size}): read {read} at the end")
        } else {
            format!("{path} ({size}): read {read} up to byte {end}")
        };
        if window.start > 0 {
            let _ = write!(text, "; {} before that were not read", human_size(window.start));
        }
        if end < self.size {
            let _ = write!(text, "; {} after that were not read", human_size(self.size - end));
        }
        text
    }
}

fn parameters_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "format": "path",
                "description": "Log file, or directory to look in, relative to the repository root. Default: the \
                    newest log."
            },
            "level": {
                "type": "string",
                "enum": ["trace", "debug", "info", "warning", "error", "critical"],
                "description": "This level and above."
            },
            "since": {
                "type": "string",
                "description": "From this time on: `2024-05-01` or `2024-05-01T12:00:00Z`; without an offset as \
                    written in the log."
            },
            "until": {
                "type": "string",
                "description": "Up to this time; a date alone is the end of that day."
            },
            "tail": {
                "type": "integer",
                "minimum": 1,
                "maximum": TAIL_MAX,
                "description": "Last entries to show, with their stack traces. Default: 100."
            },
            "pattern": {
                "type": "string",
                "minLength": 1,
                "description": "Only entries that match this regular expression (Rust syntax); `(?i)` ignores case."
            },
            "cursor": {
                "type": "string",
                "description": "Cursor of a truncated answer, to go further back; keep the other arguments."
            }
        },
        "required": [],
        "additionalProperties": false
    })
}

export_skill!(ReadLogs);

#[cfg(test)]
mod tests;
