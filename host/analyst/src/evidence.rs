//! The input of the analyst: its task, and the answers of skills, both parsed from the conversation.

use regex::Regex;
use serde_json::Value;

use crate::text::cite_lines;
use crate::{FACTS, TargetFacts};

use tool_core::limits::TOOL_CALLS_PER_ROUND_MAX;
use tool_provider::{Message, ToolCall, ToolResult};

/// Task of the analyst, parsed from the first message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AnalystTask {
    pub(super) operation: String,
    /// The directory or file of the task; empty for the whole repository.
    pub(super) target: String,
    /// The name of the repository's folder, if the whole repository is the target.
    pub(super) repository: String,
    /// True if the target is one file.
    pub(super) is_file: bool,
    /// The first and the last line, if the target names lines.
    pub(super) lines: Option<(usize, usize)>,
    /// The task in the user's words; may be empty.
    pub(super) task: String,
    /// The files that the context engine chose, best first.
    pub(super) chosen: Vec<String>,
    /// Facts of the service about the target.
    pub(super) facts: TargetFacts,
}

impl AnalystTask {
    /// Parses the user's message, whose head `operation::user_message` writes.
    pub(super) fn parse_brief(messages: &[Message]) -> Self {
        let Some(Message::User { text }) = messages.first() else {
            return Self::default();
        };
        let mut brief = Self::default();
        // The text before the title comes from the service. The head ends at the first empty line after the title; text
        // of the repository follows.
        let (before, titled) = text.split_once("# Request\n\n").unwrap_or(("", text.as_str()));
        let facts = before.lines().find_map(|line| line.strip_prefix(FACTS));
        brief.facts = facts
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        let (head, packet) = titled.split_once("\n\n").unwrap_or((titled, ""));
        if let Some((_, task)) = head.split_once("Task:\n") {
            task.clone_into(&mut brief.task);
        }
        for line in head.lines() {
            if let Some(operation) = line.strip_prefix("Operation: ") {
                brief.operation = operation.to_owned();
            } else if let Some(repository) = quoted_after(line, "Target: the whole repository ") {
                brief.repository = repository;
            } else if let Some(directory) = quoted_after(line, "Target: the directory ") {
                brief.target = directory.trim_end_matches('/').to_owned();
            } else if let Some(file) = quoted_after(line, "Target: the file ") {
                brief.target = file;
                brief.is_file = true;
            } else if let Some(line) = line.strip_prefix("Line: ") {
                brief.lines = line.parse().ok().map(|line| (line, line));
            } else if let Some((first, last)) = line.strip_prefix("Lines: ").and_then(|said| said.split_once(" to ")) {
                brief.lines = first.parse().ok().zip(last.parse().ok());
            }
        }
        brief.chosen = parse_chosen_paths(packet);
        brief
    }
}

/// Returns the text in backticks behind a label.
fn quoted_after(line: &str, label: &str) -> Option<String> {
    Some(
        line.strip_prefix(label)?
            .strip_prefix('`')?
            .strip_suffix('`')?
            .to_owned(),
    )
}

/// The paths of a packet's file blocks. A line of a file cannot look like the head of a block, because it begins with
/// its number.
fn parse_chosen_paths(packet: &str) -> Vec<String> {
    let path = |line: &str| Some(line.strip_prefix("<file path=\"")?.split_once('"')?.0.to_owned());
    packet.lines().filter_map(path).collect()
}

#[derive(Debug)]
pub(super) struct CallWithAnswer<'a> {
    call: &'a ToolCall,
    result: &'a ToolResult,
}

impl<'a> CallWithAnswer<'a> {
    pub(super) fn text(&self) -> &'a str {
        &self.result.text
    }

    /// An argument of the call, if it is text.
    pub(super) fn argument(&self, name: &str) -> String {
        let arguments: Value = serde_json::from_str(&self.call.arguments).unwrap_or_default();
        arguments[name].as_str().unwrap_or_default().to_owned()
    }

    /// True for the call with this number among those of its purpose.
    pub(super) fn is_number(&self, number: usize) -> bool {
        self.call
            .id
            .rsplit_once('-')
            .is_some_and(|(_, own)| own.parse() == Ok(number))
    }

    /// Cursor of the next page of a truncated answer, read from the session's closing line.
    pub(super) fn cursor(&self) -> Option<String> {
        let last = self
            .text()
            .lines()
            .next_back()
            .filter(|line| line.starts_with("(There is more."))?;
        let (_, cursor) = last.split_once("\"cursor\": \"")?;
        Some(cursor.rsplit_once('"')?.0.to_owned())
    }
}

/// All answers so far, in order.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    exchanges: Vec<CallWithAnswer<'a>>,
}

impl<'a> Evidence<'a> {
    /// Pairs every call of the conversation with its answer.
    pub(super) fn pair_answers(messages: &'a [Message]) -> Self {
        let calls: Vec<&ToolCall> = messages
            .iter()
            .flat_map(|message| match message {
                Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
                _ => &[],
            })
            .collect();
        let results = messages.iter().flat_map(|message| match message {
            Message::ToolResults { results } => results.as_slice(),
            _ => &[],
        });
        let exchanges = results
            .filter_map(|result| {
                let call = calls.iter().find(|call| call.id == result.call_id)?;
                Some(CallWithAnswer { call, result })
            })
            .collect();
        Self { exchanges }
    }

    /// True if calls of this purpose were made.
    pub(super) fn asked(&self, purpose: &str) -> bool {
        self.of_purpose(purpose).next().is_some()
    }

    /// The calls that were not made yet, at most as many as one round may have; `None` if all were made.
    pub(super) fn missing(&self, calls: Vec<ToolCall>) -> Option<Vec<ToolCall>> {
        let is_made = |call: &ToolCall| self.exchanges.iter().any(|exchange| exchange.call.id == call.id);
        let missing = calls.into_iter().filter(|call| !is_made(call));
        let round: Vec<ToolCall> = missing.take(TOOL_CALLS_PER_ROUND_MAX).collect();
        (!round.is_empty()).then_some(round)
    }

    /// The successful answers of one purpose.
    pub(super) fn of(&self, purpose: &'static str) -> impl Iterator<Item = &CallWithAnswer<'a>> {
        self.of_purpose(purpose).filter(|exchange| !exchange.result.is_error)
    }

    /// Why calls of this purpose, if all failed, tell nothing about the target. The end of a sentence.
    pub(super) fn why_not(&self, purpose: &'static str, target: &str) -> Option<String> {
        let failed = self.of_purpose(purpose).last()?;
        if self.of(purpose).next().is_some() {
            return None;
        }
        // The message shows U+FFFD in place of bytes that are not UTF-8, so this path names no file.
        if target.contains(char::REPLACEMENT_CHARACTER) {
            return Some("its name holds characters that cannot be shown, and it is not known by another".to_owned());
        }
        let said = failed.text().lines().next().unwrap_or_default();
        Some(said.trim_end_matches('.').to_owned())
    }

    fn of_purpose(&self, purpose: &str) -> impl Iterator<Item = &CallWithAnswer<'a>> {
        self.exchanges.iter().filter(move |exchange| {
            exchange
                .call
                .id
                .rsplit_once('-')
                .is_some_and(|(before, _)| before == purpose)
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListedFile {
    /// Relative to the root.
    pub(super) path: String,
    /// Bytes, rounded like the list.
    pub(super) bytes: f64,
}

/// Parses the files of a list_files answer: `path<TAB>1.2 kB`.
pub(super) fn parse_listed_files(text: &str) -> Vec<ListedFile> {
    let file = |line: &str| {
        let (path, size) = line.split_once('\t')?;
        Some(ListedFile {
            path: path.to_owned(),
            bytes: size_bytes(size)?,
        })
    };
    text.lines().filter_map(file).collect()
}

fn size_bytes(size: &str) -> Option<f64> {
    let (number, unit) = size.trim().split_once(' ')?;
    let factor = match unit {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// A size as list_files writes it.
pub(super) fn size_text(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e3 => format!("{bytes:.0} B"),
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes => format!("{:.1} MB", bytes / 1e6),
    }
}

/// Text of the repository with its line numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceQuote {
    pub(super) text: String,
    /// The first of the lines, from 1.
    pub(super) line: usize,
    pub(super) last_line: usize,
}

impl SourceQuote {
    pub(super) fn new(text: &str, line: usize) -> Self {
        Self {
            text: text.to_owned(),
            line,
            last_line: line,
        }
    }

    /// Citation of the lines in a file.
    pub(super) fn place(&self, path: &str) -> String {
        let Self { line, last_line, .. } = self;
        if line == last_line {
            cite_lines(path, line)
        } else {
            cite_lines(path, &format_args!("{line}-{last_line}"))
        }
    }
}

/// A line of a file, with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileLine {
    /// From 1.
    pub(super) number: usize,
    pub(super) text: String,
}

impl FileLine {
    /// The line with other text.
    pub(super) fn with_text(&self, text: &str) -> Self {
        Self {
            number: self.number,
            text: text.to_owned(),
        }
    }
}

/// Parses the lines of a read_file answer: `    12<TAB>text`.
pub(super) fn parse_lines(text: &str) -> Vec<FileLine> {
    let line = |line: &str| {
        let (number, text) = line.split_once('\t')?;
        Some(FileLine {
            number: number.trim().parse().ok()?,
            text: text.to_owned(),
        })
    };
    text.lines().filter_map(line).collect()
}

/// The number of lines of a file, and the last line that a read_file answer shows.
pub(super) fn parse_extent(text: &str) -> Option<(usize, usize)> {
    let last = parse_lines(text).last()?.number;
    let head = text.lines().next().and_then(|line| line.strip_prefix("lines "));
    let total = head.and_then(|head| {
        let (_, of) = head.split_once(" of ")?;
        of.split([';', ' ']).next()?.parse().ok()
    });
    Some((total.unwrap_or(last), last))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchHit {
    /// Relative to the root.
    pub(super) path: String,
    /// From 1.
    pub(super) number: usize,
    pub(super) text: String,
}

impl SearchHit {
    /// Citation of the line: `path:line`.
    pub(super) fn place(&self) -> String {
        cite_lines(&self.path, &self.number)
    }
}

/// Parses the matches of a search_code answer: `path:12:text`.
pub(super) fn parse_hits(text: &str) -> Vec<SearchHit> {
    let hit = |line: &str| {
        let mut parts = line.splitn(3, ':');
        Some(SearchHit {
            path: parts.next()?.to_owned(),
            number: parts.next()?.parse().ok()?,
            text: parts.next()?.to_owned(),
        })
    };
    text.lines().filter_map(hit).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    /// Name and constraint, as in the manifest.
    pub(super) name: String,
    /// Group, such as `dev`.
    pub(super) group: String,
    pub(super) manifest: String,
    /// Lines of the declaration, `12` or `12-14`.
    lines: String,
}

impl Dependency {
    /// True if the project needs it at run time.
    pub(super) fn is_runtime(&self) -> bool {
        self.group == "runtime"
    }

    pub(super) fn place(&self) -> String {
        cite_lines(&self.manifest, &self.lines)
    }
}

/// Parses the dependencies of an analyze_dependencies answer, with lines such as `  name constraint [group] place`
/// followed by remarks. Those that are needed at run time come first.
pub(super) fn parse_dependencies(text: &str) -> Vec<Dependency> {
    let line = Regex::new(r"^  (\S.*) \[([^\]]+)\] (\S+):(\d+(?:-\d+)?)(?: |$)").expect("the expression is a constant");
    let dependency = |text: &str| {
        let found = line.captures(text)?;
        Some(Dependency {
            name: found[1].to_owned(),
            group: found[2].to_owned(),
            manifest: found[3].to_owned(),
            lines: found[4].to_owned(),
        })
    };
    let mut dependencies: Vec<Dependency> = text.lines().filter_map(dependency).collect();
    dependencies.sort_by_key(|dependency| !dependency.is_runtime());
    dependencies
}

/// Numbers the lines of a text.
#[cfg(test)]
pub(super) fn number_lines(text: &str) -> Vec<FileLine> {
    let line = |(at, text): (usize, &str)| FileLine {
        number: at + 1,
        text: text.to_owned(),
    };
    text.lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_skills_are_read_back() {
        let text = "./: 2 files, 1.2 MB\nsrc/\na b.py\t1.2 kB\nREADME.md\t900 B\n";
        let files = parse_listed_files(text);
        assert_eq!(
            files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
            ["a b.py", "README.md"]
        );
        assert_eq!(files[0].bytes, 1200.0);
        let read = parse_lines("lines 1-2 of 9\n     1\timport os\n     2\t\tx");
        assert_eq!(read[1].text, "\tx");
        assert_eq!(
            parse_extent("lines 1-2 of 9; CRLF line endings\n     1\ta\n     2\tb"),
            Some((9, 2))
        );
        assert_eq!(parse_extent("     1\ta"), Some((1, 1)));
        assert_eq!(parse_extent("`x` is empty."), None);
        let found = parse_hits("src/a.py:12:class A: pass\n\n1 match in 1 file");
        assert_eq!((found.len(), found[0].place().as_str()), (1, "src/a.py:12"));
        let declared = parse_dependencies(
            "pyproject.toml (PEP 621)\n  click >=8,<9 [dev] pyproject.toml:12 (only: x)\n  note: a [b] c",
        );
        assert_eq!(declared.len(), 1);
        assert_eq!(declared[0].place(), "pyproject.toml:12");
        assert_eq!(
            (declared[0].name.as_str(), declared[0].group.as_str()),
            ("click >=8,<9", "dev")
        );
    }
}
