//! `explain` of one file or of some of its lines: what it defines, what it imports, and who imports it.
//!
//! Importers are found by import lines that resolve to the file; a sentence that mentions the file does not count. In
//! languages without imports, such as shell scripts, the path itself is searched for.

use std::fmt::Write;

use serde_json::json;

use super::central::{SymbolCandidate, central_section, collect_definitions, rank_definitions, summarize_answer};
use super::{globs_of, symbol_calls};
use crate::evidence::{AnalystTask, Evidence, FileLine, SearchHit, parse_extent, parse_hits, parse_lines};
use crate::file_doc::file_purpose;
use crate::survey::literal_glob;
use crate::text::{cite_lines, cut_text, escape_paragraph, quote_code};
use crate::{AnalystStep, FileDefinition, NO_MODEL, TargetSymbol, tool_call};
use tool_core::api::CallGraph;
use tool_provider::ToolCall;
use tool_repository::file_role::{detect_language, file_name, file_stem, is_code, parent_directory};
use tool_repository::path::join_path;

mod line_range;

/// Finds definitions at the top level of a file whose language has no parser.
const DEFINITIONS: &str = r"^(export\s+)?(default\s+)?(pub(\([a-z]+\))?\s+)?(async\s+)?((abstract|final|public|static)\s+)*((class|def|fn|struct|enum|trait|interface|function|type)\s+[A-Za-z_]\w*|func\s+(\([^)]*\)\s*)?[A-Za-z_]\w*)";
/// Lines of the file that are read.
const READ_LINES: usize = 2000;
/// Definitions that are requested, and those that are listed.
const DEFINITIONS_MAX: usize = 200;
const OUTLINE_MAX: usize = 80;
/// Characters of a definition's head in a list.
const SIGNATURE_CHARACTERS_MAX: usize = 120;
const IMPORTS_MAX: usize = 20;
/// Importers that are requested, and those that are listed.
const IMPORTERS_ASKED_MAX: usize = 100;
const IMPORTERS_MAX: usize = 15;
/// Files in which a symbol is looked up, places of it that are listed, and lines of its source.
const SYMBOL_FILES_MAX: usize = 3;
const SYMBOL_PLACES_MAX: usize = 10;
const SOURCE_LINES: usize = 40;

pub(super) fn next(brief: &AnalystTask, evidence: &Evidence<'_>) -> AnalystStep {
    if let Some((first, last)) = brief.lines {
        return line_range::next(brief, (first, last), evidence);
    }
    if !evidence.asked("read") {
        let read = json!({"path": brief.target, "limit": READ_LINES});
        let mut calls = vec![tool_call("read", 1, "read_file", &read)];
        if brief.facts.definitions.is_none() {
            let definitions = json!({
                "pattern": DEFINITIONS,
                "globs": [literal_glob(&brief.target)],
                "limit": DEFINITIONS_MAX,
                "case": "sensitive"
            });
            calls.push(tool_call("definitions", 1, "search_code", &definitions));
        }
        calls.extend(search_of_importers(&brief.target));
        calls.extend(brief.facts.symbol.iter().flat_map(plan_lookups));
        return AnalystStep::Calls(calls);
    }
    let definitions = match &brief.facts.definitions {
        Some(parsed) => rank_definitions(definition_heads(&brief.target, parsed, evidence), evidence, &[], None),
        None => collect_definitions(evidence, &[], None),
    };
    if let Some(calls) = symbol_calls(evidence, &definitions, true) {
        return AnalystStep::Calls(calls);
    }
    AnalystStep::Text(write_overview(brief, evidence, &definitions))
}

/// The lines that name the outermost definitions of a file, in the part that was read.
fn definition_heads(path: &str, definitions: &[FileDefinition], evidence: &Evidence<'_>) -> Vec<SearchHit> {
    let read: Vec<FileLine> = evidence
        .of("read")
        .flat_map(|answer| parse_lines(answer.text()))
        .collect();
    let outermost = definitions.iter().filter(|one| one.container.is_empty());
    let head = |one: &FileDefinition| {
        let line = read.iter().find(|line| line.number == one.line as usize)?;
        Some(SearchHit {
            path: path.to_owned(),
            number: line.number,
            text: code_of(path, &line.text).to_owned(),
        })
    };
    outermost.filter_map(head).collect()
}

/// Requests the source of a symbol in each file that defines it.
fn plan_lookups(symbol: &TargetSymbol) -> Vec<ToolCall> {
    let mut paths: Vec<&str> = Vec::new();
    for (path, _) in &symbol.places {
        if !paths.contains(&path.as_str()) {
            paths.push(path);
        }
    }
    let lookup = |(number, path): (usize, &&str)| {
        let arguments = json!({"name": symbol.name, "path": path, "callers": false});
        tool_call("symbol", number + 1, "explain_function", &arguments)
    };
    paths.iter().take(SYMBOL_FILES_MAX).enumerate().map(lookup).collect()
}

/// Finds lines that may import the file.
fn search_of_importers(path: &str) -> Option<ToolCall> {
    let name = import_name(path);
    if name.is_empty() {
        return None;
    }
    let (pattern, globs) = match import_pattern(path, &regex::escape(name)) {
        Some(pattern) => (pattern, globs_of(detect_language(path))),
        // A path without a folder is not searched for: any sentence may contain such a word.
        None if path.contains('/') => (
            format!(r"(^|[^\w./-])(\./)?{}($|[^\w/-])", regex::escape(path)),
            &[][..],
        ),
        None => return None,
    };
    let arguments = json!({"pattern": pattern, "globs": globs, "limit": IMPORTERS_ASKED_MAX, "case": "sensitive"});
    Some(tool_call("importers", 1, "search_code", &arguments))
}

/// Name of a file in an import: its own name, or that of its folder for the main file of a folder.
fn import_name(path: &str) -> &str {
    match file_stem(path) {
        "__init__" | "mod" | "index" | "init" => file_name(parent_directory(path)),
        "lib" | "main" if path.ends_with(".rs") => "",
        stem => stem,
    }
}

/// Pattern of an import of this name in the file's language; `None` if lines do not show the language's imports.
fn import_pattern(path: &str, name: &str) -> Option<String> {
    Some(match detect_language(path)? {
        "Python" => format!(
            r#"^\s*"?(from\s+\S*\b{name}(\.\S+)?\s+import\b|from\s+\S+\s+import\b.*\b{name}\b|import\s+([\w.]+,\s*)*([\w.]+\.)?{name}\b(\.\w+)*(\s+as\s+\w+)?\s*(,|;|#|\\n"|"|$))"#
        ),
        "JavaScript" | "TypeScript" | "Vue" | "Svelte" | "Astro" => {
            format!(r#"(\brequire\(|\bimport\(|\bfrom\b|^\s*import)\s*["'][^"']*\b{name}\b[^"']*["']"#)
        }
        "Rust" => format!(r"^\s*(pub(\([^)]*\))?\s+)?(use\s+[\w:{{}},\s*]*\b{name}\b|mod\s+{name}\s*;)"),
        "C" | "C++" => format!(r#"^\s*#\s*include\s*["<]([^">]*/)?{name}\.\w+[">]"#),
        "Java" | "Kotlin" => format!(r"^\s*import\s+(static\s+)?[\w.]*\b{name}\b"),
        "Ruby" => format!(r#"^\s*(require|require_relative|load)\s*\(?\s*["'][^"']*\b{name}(\.rb)?["']"#),
        "PHP" => {
            format!(r"^\s*use\s+(function\s+)?([\w\\]*\\)?{name}\b|\b(require|include)(_once)?\b[^;]*\b{name}\.php")
        }
        "Lua" => format!(r#"\brequire\s*\(?\s*["']([\w.-]+[./])?{name}["']"#),
        _ => return None,
    })
}

/// True if an import line of another file resolves to this file, as far as the line alone tells.
fn leads_to(hit: &SearchHit, path: &str) -> bool {
    if !globs_of(detect_language(path)).contains(&"*.js") {
        return true;
    }
    let quoted = hit.text.split(['"', '\'']).skip(1).step_by(2);
    let mut relative = quoted.filter(|said| said.starts_with('.')).peekable();
    if relative.peek().is_none() {
        // For an alias or a package, only the end of the path can be compared.
        return true;
    }
    relative.any(|said| is_module(&resolve_path(parent_directory(&hit.path), said), path))
}

/// Resolves a relative path from a folder.
fn resolve_path(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// True if a module path means a file. The path may lack the extension, or name the folder of a main file.
fn is_module(module: &str, path: &str) -> bool {
    let without = join_path(parent_directory(path), file_stem(path))
        .trim_start_matches('/')
        .to_owned();
    // TypeScript imports the compiled name: `./a.js` is `a.ts`.
    let compiled = module.rsplit_once('.').map_or(module, |(before, _)| before);
    module == path
        || module == without
        || compiled == without
        || file_stem(path) == "index" && module == parent_directory(path)
}

fn write_overview(brief: &AnalystTask, evidence: &Evidence<'_>, definitions: &[SymbolCandidate]) -> String {
    let path = &brief.target;
    if let Some(why) = evidence.why_not("read", path) {
        return format!(
            "# {}\n\n> {NO_MODEL}\n\n## What it is\n\nIt was not read: {why}.\n",
            quote_code(path)
        );
    }
    let read: Vec<FileLine> = evidence
        .of("read")
        .flat_map(|answer| parse_lines(answer.text()))
        .collect();
    let extent = evidence.of("read").find_map(|answer| parse_extent(answer.text()));
    let mut text = String::new();
    match &brief.facts.symbol {
        Some(symbol) => {
            text.push_str(&symbol_section(symbol, evidence));
            text.push_str(&callers_and_callees(&brief.facts.calls));
            let _ = writeln!(text, "## Its file, {}\n", quote_code(path));
        }
        None => {
            let _ = writeln!(text, "# {}\n\n> {NO_MODEL}\n\n## What it is\n", quote_code(path));
        }
    }
    if let Some(purpose) = file_purpose(path, &read) {
        let _ = writeln!(text, "{} ({})\n", escape_paragraph(&purpose.text), purpose.place(path));
    }
    text.push_str(&what_it_is(path, extent, &read));
    text.push_str("\n## Outline\n\n");
    let headings = write_headings(path, &read);
    text.push_str(&headings);
    match &brief.facts.definitions {
        Some(definitions) if headings.is_empty() || !definitions.is_empty() => {
            text.push_str(&parsed_outline(path, definitions));
        }
        None if headings.is_empty() => text.push_str(&write_outline(evidence)),
        _ => {}
    }
    if let Some(language @ ("Vue" | "Svelte" | "Astro")) = detect_language(path) {
        let _ = writeln!(
            text,
            "\nOnly its script is read: templates of {language} are searched as text."
        );
    }
    text.push_str("\n## What it imports\n\n");
    text.push_str(&write_imports(path, extent, &read));
    text.push_str("\n## Who uses it\n\n");
    text.push_str(&write_importers(path, evidence));
    text.push('\n');
    text.push_str(&central_section(evidence, definitions));
    text
}

/// The signatures, documentation and sources of the symbol in the question, and its other places.
fn symbol_section(symbol: &TargetSymbol, evidence: &Evidence<'_>) -> String {
    let mut text = format!("# {}\n\n> {NO_MODEL}\n\n## What it is\n", quote_code(&symbol.name));
    if let Some(class) = &symbol.inherited_by {
        let _ = writeln!(text, "\n{} inherits it.", quote_code(class));
    }
    for answer in evidence.of("symbol") {
        text.push_str(&summarize_answer(answer.text()));
        text.push_str(&write_source(answer.text()));
    }
    if let [_, _, ..] = &symbol.places[..] {
        let place = |(path, line): &(String, u32)| cite_lines(path, line);
        let places: Vec<String> = symbol.places.iter().take(SYMBOL_PLACES_MAX).map(place).collect();
        let _ = write!(
            text,
            "\nThe name is defined {} times: {}",
            symbol.places.len(),
            places.join(", ")
        );
        text.push_str(if symbol.places.len() > places.len() {
            ", …\n"
        } else {
            ".\n"
        });
    }
    text.push('\n');
    text
}

/// The first lines of the source in an explain_function answer, as code.
fn write_source(text: &str) -> String {
    let lines = text.lines().skip_while(|line| *line != "source:").skip(1);
    let lines: Vec<&str> = lines.take_while(|line| line.starts_with(' ')).collect();
    if lines.is_empty() {
        return String::new();
    }
    let shown = lines[..lines.len().min(SOURCE_LINES)].join("\n");
    let more = if lines.len() > SOURCE_LINES { "\n     …" } else { "" };
    // Each line begins with its number, so that no line ends the block.
    format!("\n```text\n{shown}{more}\n```\n")
}

/// A diagram of the callers and callees of the symbol; empty if there are none.
fn callers_and_callees(graph: &CallGraph) -> String {
    if graph.edges.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "## Callers and callees of {}\n\n```mermaid\n{}```\n\n",
        quote_code(&graph.symbol),
        graph.mermaid()
    );
    if graph.edges_left_out > 0 {
        let _ = writeln!(text, "{} edges are left out.\n", graph.edges_left_out);
    }
    for notice in &graph.notices {
        let _ = writeln!(text, "{notice}.\n");
    }
    text
}

/// Its language and length, and the part that was read if it is not the whole file.
fn what_it_is(path: &str, extent: Option<(usize, usize)>, read: &[FileLine]) -> String {
    let Some((total, last)) = extent else {
        return "Its content is not shown: it is empty or binary.\n".to_owned();
    };
    let script = read.first().filter(|line| line.text.starts_with("#!"));
    let kind = match (detect_language(path), script) {
        (Some(language), _) => format!("A file in {language}"),
        (None, Some(line)) => format!("A script that begins with {}", quote_code(line.text.trim())),
        (None, None) => "A text file".to_owned(),
    };
    let lines = |count: usize| {
        if count == 1 {
            "1 line".to_owned()
        } else {
            format!("{count} lines")
        }
    };
    if last < total {
        format!(
            "{kind} of {}, of which the first {last} were read ({}).\n",
            lines(total),
            cite_lines(path, &1)
        )
    } else {
        format!("{kind} of {} ({}).\n", lines(total), cite_lines(path, &1))
    }
}

/// Definitions outside of functions, methods below their type. If there are too many, the outermost come first.
fn parsed_outline(path: &str, definitions: &[FileDefinition]) -> String {
    let is_local = |one: &&FileDefinition| {
        let mut around = definitions.iter().filter(|other| other.holds(one));
        around.any(|other| !other.is_holder)
    };
    let listed: Vec<&FileDefinition> = definitions.iter().filter(|one| !is_local(one)).collect();
    let is_member = |one: &FileDefinition| listed.iter().any(|other| other.holds(one));
    let (members, outermost): (Vec<&FileDefinition>, Vec<&FileDefinition>) =
        listed.iter().copied().partition(|one| is_member(one));
    let mut shown: Vec<&FileDefinition> = outermost.into_iter().chain(members).take(OUTLINE_MAX).collect();
    shown.sort_by_key(|one| (one.first_line, std::cmp::Reverse(one.last_line)));
    let mut text = String::new();
    for one in shown {
        let indent = if is_member(one) { "  " } else { "" };
        let _ = writeln!(text, "{indent}- {}", describe_definition(path, one, indent.is_empty()));
    }
    write_more(&mut text, listed.len(), OUTLINE_MAX, usize::MAX);
    if text.is_empty() {
        "It defines no function and no type.\n".to_owned()
    } else {
        text
    }
}

/// The head of a definition with its lines, and its container unless the surrounding text names it.
fn describe_definition(path: &str, one: &FileDefinition, with_container: bool) -> String {
    let owner = if with_container && !one.container.is_empty() {
        format!(" of {}", quote_code(&one.container))
    } else {
        String::new()
    };
    let head = cut_text(&one.signature, SIGNATURE_CHARACTERS_MAX);
    format!(
        "{}{owner} ({})",
        quote_code(&head),
        place_of(path, one.first_line as usize, one.last_line as usize)
    )
}

fn place_of(path: &str, first: usize, last: usize) -> String {
    if first == last {
        cite_lines(path, &first)
    } else {
        cite_lines(path, &format_args!("{first}-{last}"))
    }
}

fn write_outline(evidence: &Evidence<'_>) -> String {
    let definitions: Vec<SearchHit> = evidence
        .of("definitions")
        .flat_map(|answer| parse_hits(answer.text()))
        .collect();
    let mut text = String::new();
    for hit in definitions.iter().take(OUTLINE_MAX) {
        let words = hit.text.trim().trim_end_matches(['{', ':', ' ']);
        let _ = writeln!(text, "- {} ({})", quote_code(words), hit.place());
    }
    write_more(&mut text, definitions.len(), OUTLINE_MAX, DEFINITIONS_MAX);
    if text.is_empty() {
        "No definition at the top level was recognised.\n".to_owned()
    } else {
        text
    }
}

/// Adds that a list is longer than shown. If the answer was cut, the length is a lower bound.
fn write_more(text: &mut String, found: usize, shown_max: usize, asked_max: usize) {
    if found > shown_max {
        let least = if found >= asked_max { "at least " } else { "" };
        let _ = writeln!(text, "- … and {least}{} more", found - shown_max);
    }
}

fn write_imports(path: &str, extent: Option<(usize, usize)>, read: &[FileLine]) -> String {
    let found = import_lines(path, read);
    let mut text = String::new();
    for line in found.iter().take(IMPORTS_MAX) {
        let _ = writeln!(
            text,
            "- {} ({})",
            quote_code(code_of(path, &line.text)),
            cite_lines(path, &line.number)
        );
    }
    write_more(&mut text, found.len(), IMPORTS_MAX, usize::MAX);
    if text.is_empty() {
        text.push_str("Nothing that is recognised.\n");
    }
    if let Some((_, last)) = extent.filter(|(total, last)| last < total) {
        let _ = writeln!(text, "\nOnly lines 1 to {last} were looked at.");
    }
    text
}

/// The code of a line, without the string of a notebook around it.
fn code_of<'r>(path: &str, text: &'r str) -> &'r str {
    let text = text.trim();
    let inside = text.strip_prefix('"').filter(|_| path.ends_with(".ipynb"));
    inside.map_or(text, |code| {
        let code = code.trim_end_matches(',');
        let code = code.strip_suffix('"').unwrap_or(code);
        code.strip_suffix("\\n").unwrap_or(code).trim_end()
    })
}

/// The headings of prose, and of the cells of a notebook that hold prose.
fn write_headings(path: &str, read: &[FileLine]) -> String {
    let is_notebook = path.ends_with(".ipynb");
    if !is_notebook && detect_language(path) != Some("Markdown") {
        return String::new();
    }
    let (mut headings, mut is_prose, mut is_fenced) = (Vec::new(), !is_notebook, false);
    for line in read {
        let text = code_of(path, &line.text);
        if is_notebook && line.text.trim().starts_with("\"cell_type\": ") {
            (is_prose, is_fenced) = (text.contains("markdown"), false);
        }
        is_fenced ^= text.starts_with("```");
        let title = text.trim_start_matches('#');
        let level = text.len() - title.len();
        if is_prose && !is_fenced && (1..=6).contains(&level) && title.starts_with(' ') {
            headings.push((level, title.trim(), line.number));
        }
    }
    let mut text = String::new();
    for (level, title, number) in headings.iter().take(OUTLINE_MAX) {
        let (indent, title) = ("  ".repeat(level - 1), escape_paragraph(title));
        let _ = writeln!(text, "{indent}- {title} ({})", cite_lines(path, number));
    }
    write_more(&mut text, headings.len(), OUTLINE_MAX, usize::MAX);
    text
}

/// Lines of a file that look like imports.
fn import_lines<'r>(path: &str, read: &'r [FileLine]) -> Vec<&'r FileLine> {
    let starts = ["import ", "from ", "use ", "#include", "require "];
    let has_imports = match detect_language(path) {
        Some("Go") => return go_import_lines(read),
        Some("Swift" | "Scala" | "PHP" | "Dart") => true,
        name => !globs_of(name).is_empty(),
    };
    let is_import = |line: &&FileLine| {
        let trimmed = code_of(path, &line.text);
        starts.iter().any(|start| trimmed.starts_with(start)) || line.text.contains("= require(")
    };
    read.iter().filter(|_| has_imports).filter(is_import).collect()
}

/// `import "path"`, and the lines of `import (`.
fn go_import_lines(read: &[FileLine]) -> Vec<&FileLine> {
    let (mut found, mut is_in_block) = (Vec::new(), false);
    for line in read {
        match line.text.trim() {
            "import (" => is_in_block = true,
            ")" => is_in_block = false,
            text if text.starts_with("import ") || is_in_block && text.contains('"') => found.push(line),
            _ => {}
        }
    }
    found
}

fn write_importers(path: &str, evidence: &Evidence<'_>) -> String {
    let asked: Vec<SearchHit> = evidence
        .of("importers")
        .flat_map(|answer| parse_hits(answer.text()))
        .collect();
    let found: Vec<&SearchHit> = asked
        .iter()
        .filter(|hit| hit.path != *path && leads_to(hit, path))
        .collect();
    let mut text = String::new();
    for hit in found.iter().take(IMPORTERS_MAX) {
        let _ = writeln!(
            text,
            "- {} ({})",
            quote_code(&cut_text(code_of(&hit.path, &hit.text), 100)),
            hit.place()
        );
    }
    let cut = if asked.len() >= IMPORTERS_ASKED_MAX {
        found.len()
    } else {
        usize::MAX
    };
    write_more(&mut text, found.len(), IMPORTERS_MAX, cut);
    match (text.is_empty(), import_pattern(path, "").is_some()) {
        (true, true) => "No import of it was found by name.\n".to_owned(),
        (true, false) => {
            match detect_language(path).filter(|name| is_code(path) && !matches!(*name, "Shell" | "Jupyter Notebook")) {
                Some(language) => format!("Imports of {language} are not followed, and no file names its path.\n"),
                None => "No file was found that names its path.\n".to_owned(),
            }
        }
        (false, true) => text,
        (false, false) => format!("Lines that name its path:\n\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    fn imports_it(path: &str, line: &str) -> bool {
        let pattern = import_pattern(path, &regex::escape(import_name(path))).expect("its language has imports");
        Regex::new(&pattern).expect("it is an expression").is_match(line)
    }

    #[test]
    fn the_headings_of_a_notebook_are_those_of_its_prose() {
        let text = [
            "\"cell_type\": \"markdown\",",
            "\"# A title\\n\",",
            "\"```\\n\",",
            "\"# no title\\n\",",
            "\"## A part\"",
            "\"cell_type\": \"markdown\",",
            "\"## A part\"",
            "\"cell_type\": \"code\",",
            "\"# a comment\\n\",",
            "\"import numpy as np\\n\",",
        ];
        let read: Vec<FileLine> = (1..)
            .zip(text)
            .map(|(number, text)| FileLine {
                number,
                text: text.to_owned(),
            })
            .collect();
        assert_eq!(
            write_headings("a.ipynb", &read),
            "- A title (a.ipynb:2)\n  - A part (a.ipynb:7)\n"
        );
        let imports = import_lines("a.ipynb", &read);
        assert_eq!(
            imports
                .iter()
                .map(|line| code_of("a.ipynb", &line.text))
                .collect::<Vec<_>>(),
            ["import numpy as np"]
        );
        assert_eq!(write_headings("a.py", &read), "");
        assert!(imports_it("shop/command.py", "    \"from shop import command\\n\","));
        assert!(imports_it("shop/command.py", "    \"import command\\n\","));
    }

    #[test]
    fn an_import_is_no_sentence() {
        for (path, line, expected) in [
            ("src/shop/command.py", "from .command import Command", true),
            ("src/shop/command.py", "from shop import command, group", true),
            ("src/shop/command.py", "import shop.command as it  # why", true),
            ("src/shop/command.py", "    from the command line to the end", false),
            ("src/shop/command.py", "import of the command is late", false),
            (
                "lib/command.js",
                "const { Command } = require('./lib/command.js');",
                true,
            ),
            ("lib/command.js", "import { Command } from './lib/command'", true),
            ("lib/command.js", "// imports come from the command line", false),
            ("src/limits.rs", "use crate::limits;", true),
            ("src/limits.rs", "    use super::{limits, other};", true),
            ("src/limits.rs", "pub mod limits;", true),
            ("src/limits.rs", "// use the limits", false),
            ("include/a.h", "#include \"include/a.h\"", true),
            ("src/Store.php", "use Shop\\Store;", true),
            ("src/Store.php", "use Shop\\StoreItem;", false),
            ("src/Store.php", "require_once __DIR__ . '/Store.php';", true),
            ("lua/util/text.lua", "local text = require(\"util.text\")", true),
            ("lua/util/text.lua", "local context = require \"util.context\"", false),
            ("lua/util/init.lua", "require 'util'", true),
        ] {
            assert_eq!(imports_it(path, line), expected, "{path}: {line}");
        }
        assert_eq!(import_pattern("scripts/run", "run"), None);
    }

    fn definition(container: &str, signature: &str, is_holder: bool, (first, last): (u32, u32)) -> FileDefinition {
        FileDefinition {
            name: signature.split(['(', ' ']).next_back().unwrap_or_default().to_owned(),
            container: container.to_owned(),
            signature: signature.to_owned(),
            is_holder,
            first_line: first,
            line: first,
            last_line: last,
            comment_line: None,
        }
    }

    #[test]
    fn an_outline_has_members_below_their_type_and_nothing_local() {
        let definitions = [
            definition("", "class Cart", true, (1, 9)),
            definition("Cart", "get total()", false, (2, 5)),
            definition("Cart.total", "inner()", false, (3, 4)),
            definition("Shelf", "fn fill(&self)", false, (11, 11)),
        ];
        insta::assert_snapshot!(parsed_outline("a.js", &definitions), @r"
        - `class Cart` (a.js:1-9)
          - `get total()` (a.js:2-5)
        - `fn fill(&self)` of `Shelf` (a.js:11)
        ");
    }

    #[test]
    fn a_long_outline_keeps_what_is_outermost() {
        let mut definitions = vec![definition("", "class Cart", true, (1, 900))];
        definitions.extend((2..200).map(|line| definition("Cart", &format!("m{line}()"), false, (line, line))));
        definitions.push(definition("", "function last()", false, (901, 902)));
        let text = parsed_outline("a.js", &definitions);
        assert!(text.contains("function last()") && text.contains("m79()"), "{text}");
        assert!(
            !text.contains("m80()") && text.ends_with("- … and 120 more\n"),
            "{text}"
        );
    }

    #[test]
    fn a_symbol_is_looked_up_once_in_each_file() {
        let symbol = TargetSymbol {
            name: "run".to_owned(),
            inherited_by: None,
            places: [("b.rs", 1), ("a.rs", 2), ("b.rs", 9), ("c.rs", 1), ("d.rs", 1)]
                .map(|(path, line)| (path.to_owned(), line))
                .into(),
        };
        let asked: Vec<String> = plan_lookups(&symbol).into_iter().map(|call| call.arguments).collect();
        assert_eq!(asked.len(), SYMBOL_FILES_MAX);
        for (arguments, path) in asked.iter().zip(["b.rs", "a.rs", "c.rs"]) {
            assert!(arguments.contains(&format!("\"path\":\"{path}\"")), "{arguments}");
        }
    }

    #[test]
    fn imports_of_go_are_the_lines_of_the_block() {
        let source = "package a\n\nimport (\n\t\"fmt\"\n\n\tb \"x/b\"\n)\n\nimport \"os\"\n\nuse := f(\"c\")\n";
        let read: Vec<FileLine> = (1..)
            .zip(source.lines())
            .map(|(number, text)| FileLine {
                number,
                text: text.to_owned(),
            })
            .collect();
        let numbers: Vec<usize> = import_lines("a.go", &read).iter().map(|line| line.number).collect();
        assert_eq!(numbers, [4, 6, 9]);
    }

    #[test]
    fn a_relative_import_leads_to_one_file() {
        let hit = |path: &str, text: &str| SearchHit {
            path: path.to_owned(),
            number: 1,
            text: text.to_owned(),
        };
        for (from, text, to, expected) in [
            ("index.js", "require('./lib/command.js')", "lib/command.js", true),
            (
                "src/router.ts",
                "() => import('./pages/Settings.vue')",
                "src/pages/Settings.vue",
                true,
            ),
            (
                "src/router.ts",
                "import('./Settings.vue')",
                "src/pages/Settings.vue",
                false,
            ),
            ("lib/a.js", "require('./command')", "lib/command.js", true),
            ("test/a.js", "require('../lib/command')", "lib/command.js", true),
            ("test/a.js", "require('./command')", "lib/command.js", false),
            ("src/a.ts", "import x from './command.js'", "src/command.ts", true),
            ("src/a.ts", "import x from './ui'", "src/ui/index.ts", true),
            ("src/a.ts", "import x from '@/lib/command'", "lib/command.ts", true),
        ] {
            assert_eq!(leads_to(&hit(from, text), to), expected, "{from}: {text}");
        }
    }

    #[test]
    fn what_was_not_read_is_said() {
        let read = [FileLine {
            number: 1,
            text: "#!/bin/sh".to_owned(),
        }];
        assert_eq!(
            what_it_is("a.py", Some((9000, 2000)), &read),
            "A file in Python of 9000 lines, of which the first 2000 were read (a.py:1).\n"
        );
        assert_eq!(
            what_it_is("scripts/run", Some((1, 1)), &read),
            "A script that begins with `#!/bin/sh` of 1 line (scripts/run:1).\n"
        );
        let mut text = String::new();
        write_more(&mut text, 200, 40, 200);
        assert_eq!(text, "- … and at least 160 more\n");
    }
}
