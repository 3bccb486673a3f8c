//! `read_file`: a file's lines, with their numbers.
//!
//! This file holds the arguments and decides what a file is. `decode` turns bytes into text and recognises what is
//! not text; `page` writes lines down within the bounds of an answer; `huge` reads what is too large to be held whole.
//!
//! A line is `{number:>6}<TAB>{text}`. Where there is more to say than the lines, one header line (without a tab)
//! stands before them: `lines 1-400 of 2310; CRLF line endings`.

mod decode;
mod huge;
mod page;

use std::fs::File;
use std::io::Read;

use schemars::JsonSchema;
use serde::Deserialize;
use skill_details::lfs::LfsPointer;
use skill_sdk::text::{clip, counted, human_size};
use skill_sdk::{Failure, FunctionMetadata, Host, Outcome, Skill, clean_path, export_skill};

use decode::DecodedContent;
use page::PageWriter;

/// Lines in an answer by default.
const LINES: u64 = 400;
/// Limit for the lines in an answer.
const LINES_MAX: u64 = 2000;
/// Limit for a file that is read whole, in bytes. Only such files may be replaced afterwards.
const WHOLE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The skill `read_file`.
#[derive(Debug)]
pub struct ReadFile;

/// The arguments. The comments of the fields are what the model reads about them.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadFileArguments {
    /// File, relative to the repository root.
    #[schemars(length(min = 1), extend("format" = "path"))]
    path: String,
    /// First line, from 1. Default: 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Lines at most. Default: 400.
    #[schemars(range(min = 1, max = LINES_MAX))]
    limit: Option<u64>,
    /// First byte to show of the line at offset, from 1: reads on in a line that was cut, and shows this line alone.
    #[schemars(range(min = 1))]
    column: Option<u64>,
    /// Cursor of a truncated answer, instead of offset.
    cursor: Option<String>,
}

/// Where an answer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReadStart {
    /// First line, counted from 1.
    line: u64,
    /// Offset of that line and size of the file, known if an earlier page ended there.
    at: Option<(u64, u64)>,
    /// First byte of the line, counted from 1, if the answer shows only this line.
    column: Option<u64>,
}

impl ReadFileArguments {
    fn start(&self) -> Result<ReadStart, Failure> {
        match self.cursor.as_deref().filter(|cursor| !cursor.is_empty()) {
            None => Ok(ReadStart {
                line: self.offset.unwrap_or(1).max(1),
                at: None,
                column: self.column.map(|column| column.max(1)),
            }),
            Some(cursor) => ReadStart::parse(cursor).ok_or_else(|| {
                Failure::invalid(format!("`{cursor}` is not a cursor of this skill"))
                    .with_hint("give the cursor of the answer before, or use offset")
            }),
        }
    }
}

impl ReadStart {
    /// Parses `LINE`, `LINE:COLUMN` or `LINE@BYTE/SIZE`.
    fn parse(cursor: &str) -> Option<Self> {
        let (cursor, column) = match cursor.split_once(':') {
            None => (cursor, None),
            Some((line, column)) => (line, Some(column.parse().ok().filter(|&column| column > 0)?)),
        };
        let (line, at) = match cursor.split_once('@') {
            None => (cursor, None),
            Some((line, at)) => {
                let (byte, size) = at.split_once('/')?;
                (line, Some((byte.parse().ok()?, size.parse().ok()?)))
            }
        };
        let line = line.parse().ok().filter(|&line| line > 0)?;
        Some(Self { line, at, column })
    }
}

impl Skill for ReadFile {
    const NAME: &'static str = "read_file";
    const VERSION: &'static str = "1.0.0";
    const DESCRIPTION: &'static str = "Shows a text file with line numbers; what follows the tab after the number is \
        the line's exact text. Read a file before you change it with write_file. Long files come in pages: use offset \
        and limit to go to the lines that search_code or a traceback named.";

    type Arguments = ReadFileArguments;

    fn about() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn run(host: &dyn Host, arguments: ReadFileArguments) -> Result<Outcome, Failure> {
        let path = clean_path(&arguments.path)?;
        let start = arguments.start()?;
        let limit = arguments.limit.unwrap_or(LINES).clamp(1, LINES_MAX);
        let (place, metadata) = host.locate(&path)?;
        if metadata.is_dir() {
            let name = if path.is_empty() { "." } else { &path };
            return Err(Failure::invalid(format!("`{name}` is a directory")).with_hint("use list_files to see inside"));
        }
        if !metadata.is_file() {
            return Err(Failure::invalid(format!("`{path}` is not a regular file")));
        }
        let mut file = File::open(&place).map_err(|error| Failure::io(&path, &error))?;
        let mut content = Vec::with_capacity(metadata.len().min(WHOLE_BYTES_MAX) as usize + 1);
        // Read one byte more than the limit, to tell a huge file from one that just fits, whatever the metadata said.
        file.by_ref()
            .take(WHOLE_BYTES_MAX + 1)
            .read_to_end(&mut content)
            .map_err(|error| Failure::io(&path, &error))?;
        if content.len() as u64 > WHOLE_BYTES_MAX {
            content.truncate(decode::SNIFF_BYTES);
            if let Some(column) = start.column {
                return huge::read_part(&path, &mut file, metadata.len(), &content, start.line, column);
            }
            return huge::read_huge_file(&path, &mut file, metadata.len(), &content, start, limit);
        }
        answer_whole(host, &path, &content, start, limit)
    }
}

/// Answers about a file in memory.
fn answer_whole(host: &dyn Host, path: &str, content: &[u8], start: ReadStart, limit: u64) -> Result<Outcome, Failure> {
    if content.is_empty() {
        host.shown(path, content);
        return Ok(Outcome::text(format!("`{path}` is empty (0 bytes).")));
    }
    if let Some(LfsPointer { bytes, .. }) = LfsPointer::parse(content) {
        return Ok(Outcome::text(format!(
            "`{path}` is a Git LFS pointer: its content ({}) is not here. `git lfs pull` fetches it.",
            human_size(bytes)
        )));
    }
    let (text, encoding) = match decode::decode_content(host, path, content) {
        DecodedContent::Binary(kind) => return Ok(binary_outcome(path, kind, content.len() as u64)),
        DecodedContent::Text { text, note } => (text, note),
    };
    let total = text.split_terminator('\n').count() as u64;
    if total == 0 {
        host.shown(path, content);
        return Ok(Outcome::text(format!("`{path}` is empty but for a byte order mark.")));
    }
    if start.line > total {
        return Err(past_end(path, start.line, total));
    }
    if let Some(column) = start.column {
        let line = text
            .split_terminator('\n')
            .nth(start.line as usize - 1)
            .unwrap_or_default();
        let line = line.strip_suffix('\r').unwrap_or(line);
        let from = line.floor_char_boundary(usize::try_from(column - 1).unwrap_or(usize::MAX));
        let (shown, cut) = clip(&line[from..], page::PART_BYTES_MAX);
        let shown = LinePart {
            shown,
            bytes: shown.len() as u64,
            missing: (cut > 0).then_some(cut as u64),
            total: Some(line.len() as u64),
        };
        return answer_line_part(path, start.line, (from as u64 + 1, column), &shown);
    }
    let mut page = PageWriter::new(start.line, limit);
    for line in text.split_terminator('\n').skip(start.line as usize - 1) {
        if page.is_full() {
            break;
        }
        page.push(line, line.len() as u64);
    }
    host.shown(path, content);
    let mut notes = Vec::new();
    let next = page.next_line();
    if start.line > 1 || next <= total {
        notes.push(format!("lines {}-{} of {total}", start.line, next - 1));
    }
    notes.extend(encoding);
    notes.extend(decode::line_endings(&text));
    let cursor = (next <= total)
        .then(|| next.to_string())
        .or_else(|| rest_of_line(&page));
    Ok(Outcome {
        truncated: cursor.is_some() || page.cut().is_some(),
        ..Outcome::page(page.text(notes), cursor)
    })
}

/// The cursor that continues a line that was cut.
fn rest_of_line(page: &PageWriter) -> Option<String> {
    page.cut().map(|(line, column)| format!("{line}:{column}"))
}

/// A part of a line.
#[derive(Debug, Default)]
struct LinePart<'a> {
    shown: &'a str,
    /// Number of shown bytes of the line.
    bytes: u64,
    /// Number of bytes that follow; 0 if it is not known, `None` if nothing follows.
    missing: Option<u64>,
    /// Number of bytes of the whole line, if it is known.
    total: Option<u64>,
}

/// Answers with a part of a line, from a column at or before the requested one.
fn answer_line_part(
    path: &str,
    line: u64,
    (column, asked): (u64, u64),
    part: &LinePart<'_>,
) -> Result<Outcome, Failure> {
    if part.shown.is_empty() {
        let bytes = part.total.map_or_else(String::new, |total| {
            format!(": it has {}", counted(total, "byte", "bytes"))
        });
        let message = format!("column {asked} is past the end of line {line} of `{path}`{bytes}");
        return Err(Failure::invalid(message).with_hint("use a smaller column"));
    }
    let mut page = PageWriter::of_part(line, column);
    page.push_shown(part.shown, part.bytes, part.missing);
    let of = part.total.map_or_else(String::new, |total| format!(" of {total}"));
    let notes = vec![format!("line {line}, bytes {column}-{}{of}", column - 1 + part.bytes)];
    let cursor = rest_of_line(&page);
    Ok(Outcome::page(page.text(notes), cursor))
}

fn binary_outcome(path: &str, kind: &str, size: u64) -> Outcome {
    let size = human_size(size);
    Outcome::text(format!(
        "`{path}` is a binary file ({kind}, {size}); its content is not shown."
    ))
}

fn past_end(path: &str, line: u64, total: u64) -> Failure {
    let total = counted(total, "line", "lines");
    Failure::invalid(format!("line {line} is past the end: `{path}` has {total}")).with_hint("use a smaller offset")
}

export_skill!(ReadFile);

#[cfg(test)]
mod tests;
