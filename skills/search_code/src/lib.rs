//! `search_code`: regular expressions over the files of the repository.
//!
//! This file holds the arguments, and how a call is split over cores and joined again. `search` reads files and finds
//! lines; `answer` writes them down. A call lists the files once: the parts that [`Sharded::split`] makes carry theirs.

mod answer;
mod search;

use serde::Deserialize;
use skill_sdk::pattern::{Case, Pattern};
use skill_sdk::serde_json::{self, json};
use skill_sdk::{Descriptor, EntryKind, Failure, Host, Outcome, Query, Sharded, Skill, clean_path, code, export_skill};

use answer::Found;

/// Matching lines in an answer where the caller does not say.
const LINES: usize = 100;
/// Matching lines in an answer at most.
const LINES_MAX: usize = 1000;
/// What opening a file costs, in bytes that could be searched in the same time (measured: some 10 µs).
const OPEN_COST_BYTES: u64 = 16 * 1024;

/// The skill.
#[derive(Debug)]
pub struct SearchCode;

/// The arguments of a call, and of a part of one.
#[derive(Debug, Deserialize)]
struct Arguments {
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
    /// Of a part: the files to search, in order. The schema keeps it out of a caller's hands.
    #[serde(default)]
    files: Option<Vec<(String, u64)>>,
}

impl Arguments {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(LINES).clamp(1, LINES_MAX)
    }

    /// The place after which to go on: a path and a line.
    fn after(&self) -> Result<Option<(&str, u64)>, Failure> {
        let parse = |cursor| {
            let (path, line) = str::rsplit_once(cursor, ':')?;
            Some((path, line.parse().ok()?))
        };
        match self.cursor.as_deref().filter(|cursor| !cursor.is_empty()) {
            None => Ok(None),
            Some(cursor) => parse(cursor).map(Some).ok_or_else(|| {
                Failure::invalid(format!("`{cursor}` is not a cursor of this skill"))
                    .with_hint("give the cursor of the answer before, or none")
            }),
        }
    }

    /// The files to search: those of the part, or all that path and globs select.
    fn files(&mut self, host: &dyn Host) -> Result<Vec<(String, u64)>, Failure> {
        if let Some(files) = self.files.take() {
            return Ok(files);
        }
        let under = clean_path(&self.path)?;
        let query = Query {
            under: under.clone(),
            recursive: true,
            globs: self.globs.clone(),
            after: None,
        };
        let entries = host.list(&query).map_err(|failure| match host.locate(&under) {
            Err(explained) if failure.code == code::NOT_FOUND => explained,
            _ => failure,
        })?;
        if entries.is_empty() && self.globs.is_empty() {
            return Ok(alone(host, &under)?.into_iter().collect());
        }
        let after = self.after()?.map(|(path, _)| path);
        Ok(entries
            .into_iter()
            .filter(|entry| entry.kind == EntryKind::File && after.is_none_or(|after| entry.path.as_str() >= after))
            .map(|entry| (entry.path, entry.size))
            .collect())
    }
}

/// A file that is ignored: no list has it, but who names it means it.
fn alone(host: &dyn Host, path: &str) -> Result<Option<(String, u64)>, Failure> {
    let (_, metadata) = host.locate(path)?;
    Ok(metadata.is_file().then(|| (path.to_owned(), metadata.len())))
}

impl Skill for SearchCode {
    fn describe() -> Descriptor {
        Descriptor {
            name: "search_code",
            version: "1.0.0",
            description: "Searches the text files of the repository, line by line, with a regular expression. Use it \
                to find where something is defined, used or mentioned. Results are `path:line:text`, ordered by path; \
                context lines are `path-line-text`, and `--` stands between groups. The last line counts the \
                matching lines and files. Ignored, binary and very large files are not searched.",
            parameters: parameters(),
            effects: Self::EFFECTS,
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let mut arguments: Arguments = skill_sdk::arguments(arguments)?;
        let pattern = Pattern::new(&arguments.pattern, arguments.literal, arguments.case)?;
        let is_part = arguments.files.is_some();
        let files = arguments.files(host)?;
        let search = search::Search {
            pattern: &pattern,
            context: arguments.context,
            limit: arguments.limit(),
            after: arguments.after()?,
        };
        let found = search.run(host, &files);
        if is_part {
            let text = serde_json::to_string(&found).map_err(|error| Failure::failed(error.to_string()))?;
            return Ok(Outcome::text(text));
        }
        Ok(answer::write(&arguments, found))
    }
}

impl Sharded for SearchCode {
    fn split(host: &dyn Host, arguments: &str, parts: u32) -> Result<Vec<String>, Failure> {
        let mut call: Arguments = skill_sdk::arguments(arguments)?;
        // A wrong pattern is told once, and before anything is read.
        Pattern::new(&call.pattern, call.literal, call.case)?;
        let files = call.files(host)?;
        divide(&files, parts).map(|files| part(arguments, files)).collect()
    }

    fn merge(arguments: &str, outcomes: Vec<Outcome>) -> Result<Outcome, Failure> {
        let arguments: Arguments = skill_sdk::arguments(arguments)?;
        let mut all = Found::default();
        for outcome in outcomes {
            let part: Found = serde_json::from_str(&outcome.text)
                .map_err(|error| Failure::failed(format!("a part of the search answered in another form: {error}")))?;
            all.append(part, &arguments);
        }
        Ok(answer::write(&arguments, all))
    }
}

/// The arguments with files added, as text: a tree of values for a hundred thousand files would cost more than they do.
fn part(arguments: &str, files: &[(String, u64)]) -> Result<String, Failure> {
    let files = serde_json::to_string(files).map_err(|error| Failure::failed(error.to_string()))?;
    // The object has a pattern at least, so a comma is right.
    let open = arguments.trim_end().strip_suffix('}').unwrap_or_default();
    Ok(format!("{open},\"files\":{files}}}"))
}

/// Cuts the list into at most `parts` runs that take about equally long; at least one, which may be empty.
fn divide(files: &[(String, u64)], parts: u32) -> impl Iterator<Item = &[(String, u64)]> {
    let cost = |file: &(String, u64)| match file.1 > search::FILE_BYTES_MAX {
        true => 0,
        false => file.1 + OPEN_COST_BYTES,
    };
    let total: u64 = files.iter().map(cost).sum();
    let parts = u64::from(parts.max(1));
    let mut bounds = vec![0];
    let mut spent = 0;
    for (at, file) in files.iter().enumerate() {
        spent += cost(file);
        let made = bounds.len() as u64;
        if made < parts && spent * parts >= total * made && at + 1 < files.len() {
            bounds.push(at + 1);
        }
    }
    bounds.push(files.len());
    (1..bounds.len()).map(move |at| &files[bounds[at - 1]..bounds[at]])
}

fn parameters() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string",
                "minLength": 1,
                "description": "Regular expression in Rust syntax (like PCRE without look-around and \
                    backreferences), matched against single lines: `def \\w+_handler\\(`, `\\bTODO\\b`, `^import`."
            },
            "path": {
                "type": "string",
                "description": "Directory or file to search, relative to the repository root. Default: everything."
            },
            "globs": {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "description": "Only files that match one of these, such as `*.py` (by file name) or \
                    `src/**/*.ts` (by path from the root); a leading `!` excludes."
            },
            "case": {
                "type": "string",
                "enum": ["sensitive", "insensitive", "smart"],
                "description": "How letters compare; `smart` is insensitive unless the pattern has an upper-case \
                    letter. Default: sensitive."
            },
            "literal": {
                "type": "boolean",
                "description": "Take the pattern as plain text instead of a regular expression. Default: false."
            },
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": 10,
                "description": "Lines to show before and after each matching line. Default: 0."
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": LINES_MAX,
                "description": "Matching lines in an answer at most. Default: 100. All are counted in any case."
            },
            "cursor": {
                "type": "string",
                "description": "Goes on where a truncated answer ended: its cursor, with the other arguments \
                    unchanged."
            }
        },
        "required": ["pattern"],
        "additionalProperties": false
    })
}

export_skill!(sharded SearchCode);

#[cfg(test)]
mod tests;
