//! Definitions in languages other than Python, from the host's symbols, with their calls and callers.
//!
//! Matching is by syntax, without types: a call is listed with every definition of its name nearby.

use std::fmt::Write;

use skill_sdk::{Failure, Host, SymbolDefinition, SymbolQuery, SymbolReference, code};
use syntax::names;

use crate::{CALLS_MAX, ShownLine, find, write_list};

/// Limit for the definitions of one name.
const DEFINITIONS_MAX: usize = 500;
/// Limit for called names that are looked up outside of the file.
const FOLLOWED_MAX: usize = 8;
/// Limit for the places of one called name.
const PLACES_MAX: usize = 3;
/// Limit for the callers in an answer.
const CALLERS_MAX: usize = 20;
/// Limit for the pages of references that are read for the callers.
const CALLER_PAGES_MAX: usize = 4;
/// Limit for the lines that are listed for a function which is called often.
const LINES_MAX: usize = 4;

/// The definitions of one qualified name in one file: overloads, branches, parts of a type.
#[derive(Debug, Clone)]
pub(crate) struct SymbolGroup {
    pub(crate) definitions: Vec<SymbolDefinition>,
}

impl SymbolGroup {
    pub(crate) fn first(&self) -> &SymbolDefinition {
        &self.definitions[0]
    }

    /// The line of the definition in a list of candidates.
    pub(crate) fn candidate(&self) -> String {
        let first = self.first();
        format!(
            "{}:{}: {} {}",
            first.path,
            first.line,
            first.kind,
            first.qualified_name()
        )
    }
}

/// Finds the definitions of a name beneath a path, on request including Python's. A host without a parser finds none.
pub(crate) fn find_groups(
    host: &dyn Host,
    name: &str,
    under: &str,
    with_python: bool,
) -> Result<Vec<SymbolGroup>, Failure> {
    let mut groups: Vec<SymbolGroup> = Vec::new();
    let mut query = SymbolQuery {
        name: name.to_owned(),
        under: under.to_owned(),
        after: None,
    };
    let mut count = 0;
    loop {
        let page = match host.definitions(&query) {
            Ok(page) => page,
            Err(failure) if failure.code == code::UNAVAILABLE => return Ok(groups),
            Err(failure) => return Err(failure),
        };
        for definition in page
            .items
            .into_iter()
            .filter(|one| with_python || !names::is_python(&one.path))
        {
            count += 1;
            let known = groups.iter_mut().find(|group| {
                let first = group.first();
                (&first.path, &first.container) == (&definition.path, &definition.container)
            });
            match known {
                Some(group) => group.definitions.push(definition),
                None => groups.push(SymbolGroup {
                    definitions: vec![definition],
                }),
            }
        }
        query.after = page.next;
        if query.after.is_none() || count >= DEFINITIONS_MAX {
            return Ok(groups);
        }
    }
}

/// Writes the head of an answer: everything but the source.
pub(crate) fn describe_group(host: &dyn Host, group: &SymbolGroup, source: &[u8], text: &mut String) {
    let outline = host.outline(&group.first().path).unwrap_or_default();
    for definition in &group.definitions {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}: {}", definition.kind, definition.qualified_name());
        let _ = writeln!(
            text,
            "file: {}:{}-{}",
            definition.path, definition.first_line, definition.last_line
        );
        let _ = writeln!(text, "signature: {}", definition.signature);
        if let Some(comment) = comment_of(definition, source) {
            let _ = writeln!(text, "comment: {comment}");
        }
        if is_type(definition) {
            let qualified = definition.qualified_name();
            let members = outline.iter().filter(|one| one.container == qualified);
            let members: Vec<String> = members
                .take(CALLS_MAX)
                .map(|one| format!("{} (line {})", one.signature, one.line))
                .collect();
            write_list(text, "members", &members);
        } else {
            write_list(text, "calls", &list_calls(host, definition, &outline));
        }
    }
}

/// All lines of functions; types without the bodies of their methods.
pub(crate) fn shown_lines(host: &dyn Host, group: &SymbolGroup) -> Vec<ShownLine> {
    let outline = host.outline(&group.first().path).unwrap_or_default();
    let mut lines: Vec<ShownLine> = Vec::new();
    for definition in &group.definitions {
        let is_inside = |one: &&SymbolDefinition| {
            is_type(definition)
                && matches!(one.kind.as_str(), "method" | "function")
                && one.first_line > definition.first_line
                && one.last_line <= definition.last_line
        };
        let mut line = definition.first_line;
        for inner in outline.iter().filter(is_inside) {
            if inner.line < line {
                continue;
            }
            lines.extend((line..inner.line).map(|line| ShownLine::whole_line(line as usize)));
            let is_long = inner.last_line > inner.line;
            let folded = is_long.then(|| (inner.signature.clone(), inner.last_line as usize));
            lines.push(ShownLine {
                line: inner.line as usize,
                folded,
            });
            line = inner.last_line + 1;
        }
        lines.extend((line..=definition.last_line).map(|line| ShownLine::whole_line(line as usize)));
    }
    lines.sort_by_key(|shown| shown.line);
    lines.dedup_by_key(|shown| shown.line);
    lines
}

fn is_type(definition: &SymbolDefinition) -> bool {
    matches!(definition.kind.as_str(), "type" | "module")
}

/// The comment directly before a definition, without comment marks, in one line.
fn comment_of(definition: &SymbolDefinition, source: &[u8]) -> Option<String> {
    let first = definition.comment_line? as usize;
    let lines = source.split(|&byte| byte == b'\n').skip(first - 1);
    let count = (definition.first_line as usize).saturating_sub(first);
    let mut comment = String::new();
    for line in lines.take(count) {
        let line = String::from_utf8_lossy(line);
        let words = line.trim().trim_start_matches(['/', '*', '#', '-', '!', ';']);
        let words = words.trim_end_matches("*/").trim();
        // A line of marks only counts as empty.
        let words = if words.contains(char::is_alphanumeric) {
            words
        } else {
            ""
        };
        if words.is_empty() && !comment.is_empty() {
            comment.push_str(" […]");
            break;
        }
        if !comment.is_empty() && !words.is_empty() {
            comment.push(' ');
        }
        comment.push_str(words);
    }
    (!comment.is_empty()).then_some(comment)
}

/// One line for each called name, in the order of the first call.
fn list_calls(host: &dyn Host, definition: &SymbolDefinition, outline: &[SymbolDefinition]) -> Vec<String> {
    let uses = host
        .uses(&definition.path, definition.first_line, definition.last_line)
        .unwrap_or_default();
    let qualified = definition.qualified_name();
    let shares_line = |other: &&SymbolDefinition| {
        let is_other = (other.line, &other.name) != (definition.line, &definition.name);
        is_other && (other.first_line == definition.last_line || other.last_line == definition.first_line)
    };
    let is_crowded = outline.iter().any(|other| shares_line(&other));
    // The lines of a definition may hold parts of others.
    let is_own = |one: &SymbolReference| {
        let inner = one.container.strip_prefix(&qualified);
        !is_crowded || inner.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut called: Vec<(String, Vec<u32>)> = Vec::new();
    for one in uses.into_iter().filter(|one| one.kind == "call" && is_own(one)) {
        match called.iter_mut().find(|(name, _)| *name == one.name) {
            Some((_, lines)) => lines.push(one.line),
            None => called.push((one.name, vec![one.line])),
        }
    }
    let count = called.len();
    called.truncate(CALLS_MAX);
    let mut followed = 0;
    let mut calls: Vec<String> = called
        .iter()
        .map(|(name, lines)| {
            let mut places = places_in(outline, name);
            if places.is_empty() && followed < FOLLOWED_MAX {
                followed += 1;
                places = places_near(host, &definition.path, name);
            }
            let places = match places.as_slice() {
                [] => String::new(),
                places => format!(" -> {}", places.join(", ")),
            };
            format!("{name}{places}  [line {}]", line_list(lines))
        })
        .collect();
    if count > CALLS_MAX {
        calls.push(format!("… {} more", count - CALLS_MAX));
    }
    calls
}

fn places_in(definitions: &[SymbolDefinition], name: &str) -> Vec<String> {
    let defined = definitions.iter().filter(|one| one.name == name && one.kind != "value");
    let mut places: Vec<String> = defined
        .take(PLACES_MAX + 1)
        .map(|one| format!("{}:{}", one.path, one.line))
        .collect();
    if places.len() > PLACES_MAX {
        places.truncate(PLACES_MAX);
        places.push("…".to_owned());
    }
    places
}

/// Definitions of a name in the directory of a file and beneath it.
fn places_near(host: &dyn Host, path: &str, name: &str) -> Vec<String> {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let query = SymbolQuery {
        name: name.to_owned(),
        under: directory.to_owned(),
        after: None,
    };
    host.definitions(&query)
        .map(|page| places_in(&page.items, name))
        .unwrap_or_default()
}

/// Adds the places that call a name.
pub(crate) fn list_callers(host: &dyn Host, name: &str, text: &mut String) {
    write_list(text, "called by, going by the name", &callers_of(host, name));
}

/// The places that call a name, with their enclosing definitions.
fn callers_of(host: &dyn Host, name: &str) -> Vec<String> {
    let mut query = SymbolQuery {
        name: name.to_owned(),
        ..SymbolQuery::default()
    };
    let mut callers: Vec<String> = Vec::new();
    let mut is_more = false;
    for _ in 0..CALLER_PAGES_MAX {
        let Ok(page) = host.references(&query) else { break };
        let found = page.items.iter().filter(|one| one.kind == "call").map(caller_line);
        callers.extend(found);
        query.after = page.next;
        is_more = query.after.is_some();
        if !is_more || callers.len() > CALLERS_MAX {
            break;
        }
    }
    let count = callers.len();
    callers.truncate(CALLERS_MAX);
    if count > CALLERS_MAX || is_more {
        callers.push("… more: use find_references".to_owned());
    }
    callers
}

fn caller_line(reference: &SymbolReference) -> String {
    let place = format!("{}:{}", reference.path, reference.line);
    if reference.container.is_empty() {
        place
    } else {
        format!("{place} in {}", reference.container)
    }
}

fn line_list(lines: &[u32]) -> String {
    let mut shown: Vec<String> = lines.iter().take(LINES_MAX).map(u32::to_string).collect();
    if lines.len() > LINES_MAX {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

pub(crate) fn read_source(host: &dyn Host, group: &SymbolGroup) -> Result<Vec<u8>, Failure> {
    find::read_content(host, &group.first().path)
}
