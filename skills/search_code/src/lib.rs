//! `search_code`: searches the files of the repository with regular expressions.
//!
//! This file has the arguments, and splits and joins a call for several cores. `search` reads files and finds lines;
//! `answer` writes them. The host says where to cut the list: a part is the range of files between two paths.

mod answer;
mod search;

use serde::Deserialize;
use skill_sdk::pattern::{Case, Pattern};
use skill_sdk::serde_json::{self, json};
use skill_sdk::{
    Descriptor, Failure, FunctionMetadata, Handler, Host, Outcome, Run, Selection, Sharded, clean_path, code,
    export_skill,
};

use answer::SearchResult;

/// Matching lines in an answer by default.
const LINES: usize = 100;
/// Limit for the matching lines in an answer.
const LINES_MAX: usize = 1000;

/// The skill `search_code`.
#[derive(Debug)]
pub struct SearchCode;

/// Arguments of a call, or of a part of one.
#[derive(Debug, Deserialize)]
struct SearchCodeArguments {
    pattern: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    globs: Vec<String>,
    #[serde(default)]
    case: Case,
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
    cursor: Option<String>,
    /// Files to search, for a part. The schema hides this field from callers.
    part: Option<Run>,
}

impl SearchCodeArguments {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(LINES).clamp(1, LINES_MAX)
    }

    /// Position after which to continue.
    fn after(&self) -> Result<Option<SearchCursor<'_>>, Failure> {
        match self.cursor.as_deref().filter(|cursor| !cursor.is_empty()) {
            None => Ok(None),
            Some(cursor) => SearchCursor::parse(cursor).map(Some).ok_or_else(|| {
                Failure::invalid(format!("`{cursor}` is not a cursor of this skill"))
                    .with_hint("give the cursor of the answer before, or none")
            }),
        }
    }

    /// Files to search: those that path and globs select, within the part and not before the cursor.
    fn selection(&self) -> Result<Selection, Failure> {
        // Generated files come after all others, whatever their paths.
        let after = self.after()?.filter(|after| after.phase != AnswerPart::WrittenOfBoth);
        let after = after.map(|after| after.path.to_owned());
        let part = self.part.as_ref();
        let start = part.and_then(|part| part.start.clone());
        Ok(Selection {
            under: clean_path(&self.path)?,
            globs: self.globs.clone(),
            start: start.max(after),
            end: part.and_then(|part| part.end.clone()),
            file_bytes_max: search::FILE_BYTES_MAX,
            text_only: true,
        })
    }

    fn search<'a>(&'a self, pattern: &'a Pattern) -> Result<search::LineSearch<'a>, Failure> {
        Ok(search::LineSearch {
            pattern,
            context: self.context,
            limit: self.limit(),
            after: self.after()?,
        })
    }
}

/// Section of an answer that a cursor is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerPart {
    /// Files that people wrote, if no generated file matches.
    Written,
    /// Files that people wrote, if generated files follow.
    WrittenOfBoth,
    /// Generated files.
    Generated,
}

/// The last matching line that was shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchCursor<'a> {
    phase: AnswerPart,
    path: &'a str,
    line: u64,
}

impl AnswerPart {
    /// No path in a list begins with a slash.
    const MARKS: [(Self, &'static str); 3] = [(Self::WrittenOfBoth, "//"), (Self::Generated, "/"), (Self::Written, "")];

    fn cursor(self, path: &str, line: u64) -> String {
        let mark = Self::MARKS.iter().find(|(phase, _)| *phase == self);
        format!("{}{path}:{line}", mark.map_or("", |(_, mark)| mark))
    }
}

impl<'a> SearchCursor<'a> {
    fn parse(cursor: &'a str) -> Option<Self> {
        let marks = AnswerPart::MARKS.into_iter();
        let (phase, place) = marks
            .filter_map(|(phase, mark)| Some((phase, cursor.strip_prefix(mark)?)))
            .next()?;
        let (path, line) = place.rsplit_once(':')?;
        let line = line.parse().ok()?;
        Some(Self { phase, path, line })
    }
}

/// The failure of a selection; for a missing file, with files of the same name elsewhere.
fn explain_failure(host: &dyn Host, under: &str, failure: Failure) -> Failure {
    if failure.code == code::NOT_FOUND {
        host.locate(under).err().unwrap_or(failure)
    } else {
        failure
    }
}

impl Handler for SearchCode {
    fn describe() -> Descriptor {
        Descriptor {
            name: "search_code",
            version: "1.0.0",
            description: "Searches text files line by line with a regular expression. Use it to find where something \
                is defined, used or mentioned. Answers `path:line:text`, ordered by path; context lines are \
                `path-line-text`, `--` stands between groups, and the last line counts the matching lines and files. \
                Skips ignored, binary and very large files.",
            parameters: parameters_schema(),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: SearchCodeArguments = skill_sdk::arguments(arguments)?;
        let pattern = Pattern::new(&arguments.pattern, arguments.literal, arguments.case)?;
        let (search, selection) = (arguments.search(&pattern)?, arguments.selection()?);
        let mut found = search
            .run(host, &selection)
            .map_err(|failure| explain_failure(host, &selection.under, failure))?;
        // In a divided call, only the first part counts these.
        if arguments.part.as_ref().is_none_or(|part| part.start.is_none()) {
            let counted = host.count_not_listed(&selection.under)?;
            found.not_searched.add_not_listed(
                (counted.skipped, counted.skipped_named),
                [counted.ignored, counted.not_utf8, counted.not_on_disk],
            );
        }
        if arguments.part.is_some() {
            let text = serde_json::to_string(&found).map_err(|error| Failure::failed(error.to_string()))?;
            return Ok(Outcome::text(text));
        }
        Ok(answer::write_answer(&arguments, found))
    }
}

impl Sharded for SearchCode {
    fn split(host: &dyn Host, arguments: &str, parts: u32) -> Result<Vec<String>, Failure> {
        let call: SearchCodeArguments = skill_sdk::arguments(arguments)?;
        // Refuse an invalid pattern once, before the host reads a file.
        Pattern::new(&call.pattern, call.literal, call.case)?;
        let selection = call.selection()?;
        let starts = host
            .divide(&selection, parts)
            .map_err(|failure| explain_failure(host, &selection.under, failure))?;
        if starts.is_empty() {
            Ok(vec![arguments.to_owned()])
        } else {
            Run::all(starts).map(|run| part_arguments(arguments, &run)).collect()
        }
    }

    fn merge(arguments: &str, outcomes: Vec<Outcome>) -> Result<Outcome, Failure> {
        let arguments: SearchCodeArguments = skill_sdk::arguments(arguments)?;
        let mut all = SearchResult::default();
        for outcome in outcomes {
            let part: SearchResult = serde_json::from_str(&outcome.text)
                .map_err(|error| Failure::failed(format!("a part of the search answered in another form: {error}")))?;
            all.append(part, &arguments);
        }
        Ok(answer::write_answer(&arguments, all))
    }
}

/// Adds the part to the arguments.
fn part_arguments(arguments: &str, part: &Run) -> Result<String, Failure> {
    let failed = |error: serde_json::Error| Failure::failed(error.to_string());
    let mut arguments: serde_json::Value = serde_json::from_str(arguments).map_err(failed)?;
    arguments["part"] = serde_json::to_value(part).map_err(failed)?;
    Ok(arguments.to_string())
}

fn parameters_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string",
                "minLength": 1,
                "description": "Regular expression (Rust syntax: no look-around, no backreferences), matched against \
                    single lines: `def \\w+_handler\\(`."
            },
            "path": {
                "type": "string",
                "format": "path",
                "description": "Directory or file, relative to the repository root. Default: all."
            },
            "globs": {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "description": "Only files that match one: `*.py` (file name) or `src/**/*.ts` (path from the root); a \
                    leading `!` excludes."
            },
            "case": {
                "type": "string",
                "enum": ["sensitive", "insensitive", "smart"],
                "description": "`smart` ignores case unless the pattern has an upper-case letter. Default: sensitive."
            },
            "literal": {
                "type": "boolean",
                "description": "Take the pattern as plain text."
            },
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": 10,
                "description": "Lines around each match. Default: 0."
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": LINES_MAX,
                "description": "Matching lines at most; all are counted. Default: 100."
            },
            "cursor": {
                "type": "string",
                "description": "Cursor of a truncated answer; keep the other arguments."
            }
        },
        "required": ["pattern"],
        "additionalProperties": false
    })
}

export_skill!(sharded SearchCode);

#[cfg(test)]
mod tests;
