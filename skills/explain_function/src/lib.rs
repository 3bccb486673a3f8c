//! `explain_function`: the source of a function, method or type, with what a reader needs beside it.
//!
//! This file has the arguments and writes the answers. For Python, [`find`] finds definitions by name, and
//! [`callees`] follows calls to their definitions; [`symbols`] asks the host about other languages. [`fallback`]
//! follows aliases. For an ambiguous name the answer lists the candidates, so that the next call can qualify it.

mod callees;
mod fallback;
mod find;
mod symbols;

use serde::Deserialize;
use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, FunctionMetadata, Handler, Host, Outcome, export_skill};
use syntax::{Definition, DefinitionKind, Fault};

use callees::NameResolver;
use find::{DefinitionSearch, FoundDefinitions};
use symbols::SymbolGroup;

/// The skill `explain_function`.
#[derive(Debug)]
pub struct ExplainFunction;

/// Limit for the lines of source in an answer: more than nearly every function has, and few enough to read.
const LINES_MAX: usize = 400;
/// Limit for the source in an answer in bytes, for functions that hold tables.
const SOURCE_BYTES_MAX: usize = 48 * 1024;
/// Limit for a line of source in bytes; longer ones are data.
const LINE_BYTES_MAX: usize = 500;
/// Limit for the candidates in an answer.
const CANDIDATES_MAX: usize = 60;
/// Limit for the listed calls.
pub(crate) const CALLS_MAX: usize = 60;
/// Limit for the listed places that do not parse.
const FAULTS_MAX: usize = 5;

#[derive(Deserialize)]
struct ExplainFunctionArguments {
    name: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default = "default_true")]
    callers: bool,
    #[serde(default)]
    cursor: Option<String>,
}

fn default_true() -> bool {
    true
}

impl Handler for ExplainFunction {
    fn describe() -> Descriptor {
        Descriptor {
            name: "explain_function",
            version: "1.0.0",
            description: "Shows the source of one function, method or type with line numbers, its signature, comment or \
                docstring, where each function that it calls is defined, and its callers. Use it instead of reading a \
                whole file when you know the name. A class answers with its outline. If the name is ambiguous, the \
                candidates are listed. Reads most languages.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 300,
                        "description": "Bare (`get_response`), with its class (`BaseHandler.get_response`), or with \
                            its module (`app.views.get_response`)."
                    },
                    "path": {
                        "type": "string",
                        "format": "path",
                        "description": "File or directory, relative to the repository root. Default: all."
                    },
                    "callers": {
                        "type": "boolean",
                        "description": "List the callers. Default: true."
                    },
                    "cursor": {
                        "type": "string",
                        "description": "Cursor of a truncated answer; keep the other arguments."
                    }
                },
                "required": ["name"],
                "additionalProperties": false
            }),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: ExplainFunctionArguments = skill_sdk::arguments(arguments)?;
        let name = symbol_name(&arguments.name)?;
        let under = skill_sdk::clean_path(arguments.path.as_deref().unwrap_or_default())?;
        let cursor = AnswerCursor::parse(arguments.cursor.as_deref())?;
        let search = DefinitionSearch::find_name(host, &name, &under)?;
        let groups = symbols::find_groups(host, &name, &under, false)?;
        if !search.found.is_empty() || !groups.is_empty() {
            let answered = answer_found(host, &name, &search, &groups, &cursor, arguments.callers)?;
            let note = match (search.found.as_slice(), groups.as_slice()) {
                ([], [one]) => fallback::note_alias(host, &name, one),
                _ => None,
            };
            return Ok(Outcome {
                text: note.unwrap_or_default() + &answered.text,
                ..answered
            });
        }
        if let Some(meant) = fallback::follow_name(host, &name, &under)? {
            let answered = answer_found(host, &name, &meant.search, &meant.groups, &cursor, arguments.callers);
            return answered.map(|outcome| Outcome {
                text: meant.note + &outcome.text,
                ..outcome
            });
        }
        fallback::find_words(host, &name, &under).ok_or_else(|| find::not_found(host, &name, &under, &search))
    }
}

/// Writes the answer about the definitions that were found; there is at least one.
fn answer_found(
    host: &dyn Host,
    name: &str,
    search: &DefinitionSearch,
    groups: &[SymbolGroup],
    cursor: &AnswerCursor,
    callers: bool,
) -> Result<Outcome, Failure> {
    match (search.found.as_slice(), groups) {
        ([one], []) => show_definition(host, one, cursor.line()?, search, callers),
        ([], [one]) => show_group(host, one, cursor.line()?, callers),
        (many, groups) => Ok(list_candidates(name, many, groups, cursor.candidate()?, search)),
    }
}

/// The requested name, without a trailing `()`.
fn symbol_name(written: &str) -> Result<String, Failure> {
    let name = written.trim();
    let name = name.strip_suffix("()").unwrap_or(name);
    // Other languages have other separators and other letters.
    let dotted = name.replace("::", ".").replace(['#', '\\'], ".");
    let is_name = |part: &str| {
        let plain = part.strip_suffix(['?', '!', '=']).unwrap_or(part);
        syntax::names::is_identifier(&plain.replace('$', "_"))
    };
    if dotted.split('.').all(is_name) {
        return Ok(dotted);
    }
    Err(Failure::invalid(format!("`{written}` is not a name"))
        .with_hint("give `name`, `Class.method` or `module.Class.method`; put a file or directory into `path`"))
}

/// Where an earlier answer ended.
enum AnswerCursor {
    /// The next line of source; absent at the start.
    Line(Option<usize>),
    /// The next candidate.
    Candidate(usize),
}

impl AnswerCursor {
    fn parse(text: Option<&str>) -> Result<Self, Failure> {
        let Some(text) = text else {
            return Ok(Self::Line(None));
        };
        let parsed = match text.split_once(':') {
            Some(("line", number)) => number.parse().ok().map(|line| Self::Line(Some(line))),
            Some(("candidate", number)) => number.parse().ok().map(Self::Candidate),
            _ => None,
        };
        parsed.ok_or_else(stale_cursor)
    }

    /// The line to continue from, for an answer that shows source.
    fn line(&self) -> Result<Option<usize>, Failure> {
        match self {
            Self::Line(line) => Ok(*line),
            Self::Candidate(_) => Err(stale_cursor()),
        }
    }

    /// The candidate to continue from, for an answer that lists candidates.
    fn candidate(&self) -> Result<usize, Failure> {
        match self {
            Self::Line(None) => Ok(0),
            Self::Candidate(from) => Ok(*from),
            Self::Line(Some(_)) => Err(stale_cursor()),
        }
    }
}

fn stale_cursor() -> Failure {
    Failure::invalid("the cursor does not belong to this question").with_hint("call again without `cursor`")
}

/// Lists the candidates of an ambiguous name.
fn list_candidates(
    name: &str,
    found: &[FoundDefinitions],
    groups: &[SymbolGroup],
    from: usize,
    search: &DefinitionSearch,
) -> Outcome {
    let python = found.iter().map(|one| {
        let definition = &one.definitions[0];
        let (kind, full_name) = (definition.kind.word(), one.full_name(definition));
        format!("{}:{}: {kind} {full_name}", one.path, definition.line)
    });
    let all: Vec<String> = python.chain(groups.iter().map(SymbolGroup::candidate)).collect();
    let count = all.len();
    let mut text =
        format!("`{name}` is ambiguous: {count} definitions. Call again with one of these names, or with `path`.\n");
    let end = count.min(from + CANDIDATES_MAX);
    for candidate in all.get(from..end).unwrap_or_default() {
        text.push_str(candidate);
        text.push('\n');
    }
    search.add_notes(&mut text);
    let more = end < count;
    if more {
        text.push_str(&format!(
            "… {} more candidates: pass the cursor, or narrow with `path`\n",
            count - end
        ));
    }
    Outcome {
        text,
        truncated: more,
        cursor: more.then(|| format!("candidate:{end}")),
        deletions: Vec::new(),
        details: None,
    }
}

/// Shows one definition, or several of the same name in one file: a property with its setter, overloads, branches.
fn show_definition(
    host: &dyn Host,
    found: &FoundDefinitions,
    from: Option<usize>,
    search: &DefinitionSearch,
    callers: bool,
) -> Result<Outcome, Failure> {
    let source = find::read_content(host, &found.path)?;
    let mut resolver = NameResolver::new(host, &found.path, &source);
    let mut text = String::new();
    if from.is_none() {
        for definition in &found.definitions {
            if !text.is_empty() {
                text.push('\n');
            }
            describe_definition(&mut text, found, definition, &mut resolver);
        }
        if callers {
            symbols::list_callers(host, &found.definitions[0].name, &mut text);
        }
        write_faults(&mut text, found);
        search.add_notes(&mut text);
        text.push_str("source:\n");
    }
    let lines = shown_lines(found);
    Ok(with_source(text, &source, &lines, from))
}

/// Shows a definition in a language other than Python.
fn show_group(host: &dyn Host, group: &SymbolGroup, from: Option<usize>, callers: bool) -> Result<Outcome, Failure> {
    let source = symbols::read_source(host, group)?;
    let mut text = String::new();
    if from.is_none() {
        symbols::describe_group(host, group, &source, &mut text);
        if callers {
            symbols::list_callers(host, &group.first().name, &mut text);
        }
        text.push_str("source:\n");
    }
    let lines = symbols::shown_lines(host, group);
    Ok(with_source(text, &source, &lines, from))
}

/// Appends lines of source to an answer.
fn with_source(mut text: String, source: &[u8], lines: &[ShownLine], from: Option<usize>) -> Outcome {
    let next = print_lines(&mut text, source, lines, from.unwrap_or(0));
    if let Some(line) = next {
        let left = lines.iter().filter(|shown| shown.line >= line).count();
        text.push_str(&format!("… {left} more lines: pass the cursor\n"));
    }
    Outcome {
        text,
        truncated: next.is_some(),
        cursor: next.map(|line| format!("line:{line}")),
        deletions: Vec::new(),
        details: None,
    }
}

fn describe_definition(
    text: &mut String,
    found: &FoundDefinitions,
    definition: &Definition,
    resolver: &mut NameResolver<'_>,
) {
    let mut line = |label: &str, value: &str| text.push_str(&format!("{label}: {value}\n"));
    line(definition.kind.word(), &found.full_name(definition));
    line(
        "file",
        &format!("{}:{}-{}", found.path, definition.first_line, definition.end_line),
    );
    line("signature", &definition.signature);
    if !definition.decorators.is_empty() {
        line("decorators", &definition.decorators.join(" "));
    }
    if let Some(around) = definition.parent.map(|at| &found.all[at]) {
        let role = if around.kind == DefinitionKind::Class {
            "in class"
        } else {
            "in function"
        };
        let head = around.signature.trim_start_matches("class ");
        line(role, &format!("{head} ({}:{})", found.path, around.line));
    }
    if let Some(summary) = definition.docstring.as_deref().and_then(first_paragraph) {
        line("docstring", &summary);
    }
    if definition.kind == DefinitionKind::Class {
        write_list(text, "bases", &resolver.bases(definition));
        return;
    }
    let inner = found.inside(definition);
    let nested: Vec<String> = inner
        .map(|inner| format!("{} ({}:{})", inner.signature, found.path, inner.line))
        .collect();
    write_list(text, "nested", &nested);
    let mut calls = resolver.calls(definition);
    let count = calls.len();
    calls.truncate(CALLS_MAX);
    if count > CALLS_MAX {
        calls.push(format!("… {} more", count - CALLS_MAX));
    }
    write_list(text, "calls", &calls);
}

pub(crate) fn write_list(text: &mut String, label: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    text.push_str(&format!("{label}:\n"));
    for item in items {
        text.push_str(&format!("  {item}\n"));
    }
}

/// The first paragraph of the docstring; the source below has all of it.
fn first_paragraph(docstring: &str) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    let mut more = false;
    for line in docstring.lines() {
        if line.trim().is_empty() && !words.is_empty() {
            more = true;
            break;
        }
        words.extend(line.split_whitespace());
    }
    let ending = if more { " […]" } else { "" };
    (!words.is_empty()).then(|| words.join(" ") + ending)
}

fn write_faults(text: &mut String, found: &FoundDefinitions) {
    if found.faults.is_empty() {
        return;
    }
    let places: Vec<String> = found.faults.iter().map(fault_lines).collect();
    text.push_str(&format!(
        "note: {} does not parse whole (line {}); what is above comes from the parts that do\n",
        found.path,
        places.join(", ")
    ));
}

fn fault_lines(fault: &Fault) -> String {
    if fault.line == fault.end_line {
        fault.line.to_string()
    } else {
        format!("{}-{}", fault.line, fault.end_line)
    }
}

/// A line of the file to show.
pub(crate) struct ShownLine {
    pub(crate) line: usize,
    /// The head that replaces this line and the lines of its body, up to this one.
    pub(crate) folded: Option<(String, usize)>,
}

impl ShownLine {
    pub(crate) fn whole_line(line: usize) -> Self {
        Self { line, folded: None }
    }
}

/// All lines of functions; for classes without the bodies of their methods.
fn shown_lines(found: &FoundDefinitions) -> Vec<ShownLine> {
    let mut lines: Vec<ShownLine> = Vec::new();
    for definition in &found.definitions {
        let whole = definition.first_line..=definition.end_line;
        if definition.kind != DefinitionKind::Class {
            lines.extend(whole.map(ShownLine::whole_line));
            continue;
        }
        let mut line = definition.first_line;
        for inner in found.inside(definition) {
            lines.extend((line..inner.line).map(ShownLine::whole_line));
            if inner.line >= line {
                let folded = (inner.end_line > inner.line).then(|| (inner.signature.clone(), inner.end_line));
                lines.push(ShownLine {
                    line: inner.line,
                    folded,
                });
            }
            line = line.max(inner.end_line + 1);
        }
        lines.extend((line..=definition.end_line).map(ShownLine::whole_line));
    }
    lines.sort_by_key(|shown| shown.line);
    lines.dedup_by_key(|shown| shown.line);
    lines
}

/// Prints numbered lines from one on, up to the limits of an answer. Returns the next line.
fn print_lines(text: &mut String, source: &[u8], shown: &[ShownLine], from: usize) -> Option<usize> {
    let lines: Vec<&[u8]> = source.split(|&byte| byte == b'\n').collect();
    let start = text.len();
    let mut previous = None;
    for (count, one) in shown.iter().filter(|one| one.line >= from).enumerate() {
        if count >= LINES_MAX || text.len() - start >= SOURCE_BYTES_MAX {
            return Some(one.line);
        }
        if previous.is_some_and(|previous: usize| previous + 1 < one.line) {
            // Separates two definitions of one name.
            text.push('\n');
        }
        let line = String::from_utf8_lossy(lines.get(one.line - 1).copied().unwrap_or_default());
        let line = match &one.folded {
            Some((head, end)) => {
                let indent = &line[..line.len() - line.trim_start().len()];
                format!("{indent}{head}: … to line {end}")
            }
            None => line.trim_end().to_owned(),
        };
        text.push_str(format!("{:>6}  {}", one.line, cut_line(&line)).trim_end());
        text.push('\n');
        previous = Some(one.folded.as_ref().map_or(one.line, |(_, end)| *end));
    }
    None
}

/// Cuts a line, and adds the number of bytes that are left out.
fn cut_line(line: &str) -> String {
    match skill_sdk::text::clip(line, LINE_BYTES_MAX) {
        (line, 0) => line.to_owned(),
        (kept, left) => format!("{kept}… ({left} more bytes)"),
    }
}

export_skill!(ExplainFunction);

#[cfg(test)]
mod tests;
