//! Replacements: each old text must occur exactly once; otherwise the failure explains why not.
//!
//! They work on bytes, so that a file that is not valid UTF-8 keeps its other bytes.

use serde::Deserialize;
use skill_sdk::Failure;
use skill_sdk::text::clip;

use crate::newlines;

/// Limit for the named places if a text occurs more than once.
const PLACES_MAX: usize = 10;
/// Limit for lines that are compared to find a similar one, at about a microsecond each.
const COMPARED_MAX: usize = 20_000;
/// Limit for the compared and shown part of a line, in bytes.
const LINE_BYTES_MAX: usize = 200;
/// Minimum similarity: less similar lines do not help the model.
const SIMILAR: f64 = 0.6;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Edit {
    pub(crate) old: String,
    pub(crate) new: String,
}

/// Applies the edits in their order.
pub(crate) fn apply_edits(path: &str, content: &[u8], edits: &[Edit]) -> Result<Vec<u8>, Failure> {
    let mut content = content.to_vec();
    for (at, edit) in edits.iter().enumerate() {
        content = replace_once(&content, edit).map_err(|mistake| {
            let name = match edits.len() {
                1 => "`old`".to_owned(),
                _ => format!("`old` of edit {}", at + 1),
            };
            explain_mistake(path, &name, &content, edit, &mistake)
        })?;
    }
    Ok(content)
}

/// Reason why an edit cannot be applied.
enum EditMistake {
    Empty,
    Missing,
    /// Offsets of the text in bytes.
    Several(Vec<usize>),
}

fn replace_once(content: &[u8], edit: &Edit) -> Result<Vec<u8>, EditMistake> {
    if edit.old.is_empty() {
        return Err(EditMistake::Empty);
    }
    let crlf = (newlines::to_crlf(&edit.old), newlines::to_crlf(&edit.new));
    let keeps_style = newlines::is_crlf(content);
    // Try the text as written first, and other line ends only if it does not occur.
    let forms = [
        (edit.old.as_str(), if keeps_style { &*crlf.1 } else { &*edit.new }),
        (&*crlf.0, &*crlf.1),
    ];
    for (old, new) in forms {
        let places = find_occurrences(content, old.as_bytes());
        match places[..] {
            [] => {}
            [place] => {
                let rest = &content[place + old.len()..];
                return Ok([&content[..place], new.as_bytes(), rest].concat());
            }
            _ => return Err(EditMistake::Several(places)),
        }
    }
    Err(EditMistake::Missing)
}

/// Offsets of `text`, including overlapping occurrences, which make it ambiguous as well.
fn find_occurrences(content: &[u8], text: &[u8]) -> Vec<usize> {
    let finder = memchr::memmem::Finder::new(text);
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(found) = finder.find(&content[from..]) {
        places.push(from + found);
        from += found + 1;
    }
    places
}

fn explain_mistake(path: &str, name: &str, content: &[u8], edit: &Edit, mistake: &EditMistake) -> Failure {
    match mistake {
        EditMistake::Empty => {
            Failure::invalid(format!("{name} is empty")).with_hint("use `content` to write a whole file")
        }
        EditMistake::Several(places) => {
            let lines: Vec<String> = places
                .iter()
                .take(PLACES_MAX)
                .map(|&place| line_number(content, place).to_string())
                .collect();
            let more = if places.len() > PLACES_MAX { ", …" } else { "" };
            Failure::invalid(format!(
                "{name} occurs {} times in `{path}`, at lines {}{more}; nothing was changed",
                places.len(),
                lines.join(", ")
            ))
            .with_hint("add lines around it until it occurs exactly once")
        }
        EditMistake::Missing => {
            let text = String::from_utf8_lossy(content);
            Failure::invalid(format!(
                "{name} does not occur in `{path}`; nothing was changed{}",
                describe_near_text(&text, &edit.old)
            ))
            .with_hint(mistake_hint(&edit.old))
        }
    }
}

fn line_number(content: &[u8], place: usize) -> usize {
    content[..place].iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn mistake_hint(old: &str) -> &'static str {
    let numbered = |line: &str| {
        let rest = line.trim_start();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && rest[digits..].starts_with('\t')
    };
    match old.lines().all(numbered) {
        true => "leave out the line numbers and the tab after them",
        false if old.contains(char::REPLACEMENT_CHARACTER) => "leave out characters that were shown as \u{fffd}",
        false => "read the file again and copy the text exactly",
    }
}

/// Describes where the file has text similar to `old`, as the end of a sentence.
fn describe_near_text(content: &str, old: &str) -> String {
    let lines: Vec<&str> = content.lines().collect();
    let wanted: Vec<&str> = old.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let Some(&first) = wanted.first() else {
        return String::new();
    };
    if let Some((start, end)) = same_but_for_space(&lines, &wanted) {
        let found: Vec<&str> = lines[start..=end]
            .iter()
            .take(8)
            .map(|line| clip(line, LINE_BYTES_MAX).0)
            .collect();
        let place = if start == end {
            format!("line {} differs", start + 1)
        } else {
            format!("lines {}-{} differ", start + 1, end + 1)
        };
        return format!(". But {place} only in white space:\n{}", found.join("\n"));
    }
    let first = clip(first, LINE_BYTES_MAX).0;
    let mut best: Option<(usize, f64)> = None;
    for (at, line) in lines.iter().take(COMPARED_MAX).enumerate() {
        let likeness = line_similarity(first, clip(line.trim(), LINE_BYTES_MAX).0);
        if likeness >= SIMILAR && best.is_none_or(|(_, most)| likeness > most) {
            best = Some((at, likeness));
        }
    }
    match best {
        Some((at, _)) => format!(
            ". The line most like it is {}: {}",
            at + 1,
            clip(lines[at], LINE_BYTES_MAX).0
        ),
        None => String::new(),
    }
}

/// The consecutive lines that equal the wanted ones, apart from surrounding space and blank lines.
fn same_but_for_space(lines: &[&str], wanted: &[&str]) -> Option<(usize, usize)> {
    let solid: Vec<(usize, &str)> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| (at, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let fits = |window: &&[(usize, &str)]| window.iter().zip(wanted).all(|((_, line), want)| line == want);
    let window = solid.windows(wanted.len()).find(fits)?;
    Some((window.first()?.0, window.last()?.0))
}

/// Similarity from 0 to 1; lines of very different lengths count as not similar.
fn line_similarity(a: &str, b: &str) -> f64 {
    if a.len().min(b.len()) * 2 < a.len().max(b.len()) {
        0.0
    } else {
        strsim::normalized_levenshtein(a, b)
    }
}
