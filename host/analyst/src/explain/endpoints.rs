//! The sections about HTTP routes and commands, each entry with its place.

use std::fmt::Write;

use crate::DeclaredEndpoint;
use crate::evidence::AnalystTask;
use crate::survey::{Survey, is_beside_project};
use crate::text::{cite_lines, escape_prose, quote_code};

const ENTRIES_MAX: usize = 20;

pub(super) fn routes_section(brief: &AnalystTask, survey: &Survey) -> String {
    let routes = filter_own(&brief.facts.routes, survey);
    if routes.is_empty() {
        return String::new();
    }
    let mut text = "## HTTP routes\n\n".to_owned();
    write_list(&mut text, &routes, |route| {
        let methods = match route.methods.as_str() {
            "" => String::new(),
            methods => format!("{methods} "),
        };
        // An empty path means the mount point itself.
        let name = if route.name.is_empty() { "\"\"" } else { &route.name };
        let handler = route.handler.as_ref();
        let handler = handler.map_or_else(String::new, |handler| format!(" → {}", quote_code(handler)));
        format!("{methods}{}{handler}", quote_code(name))
    });
    text
}

pub(super) fn commands_section(brief: &AnalystTask, survey: &Survey) -> String {
    let commands = filter_own(&brief.facts.commands, survey);
    if commands.is_empty() {
        return String::new();
    }
    let mut text = "## Commands\n\n".to_owned();
    write_list(&mut text, &commands, |command| {
        let words = command
            .help
            .as_ref()
            .map_or_else(String::new, |help| format!(": {}", escape_prose(help)));
        // The cited line holds the function or variant, not the command name that is derived from it.
        let made_from = command.handler.as_ref().filter(|handler| **handler != command.name);
        let made_from = made_from.map_or_else(String::new, |handler| format!(" → {}", quote_code(handler)));
        format!("{}{made_from}{words}", quote_code(&command.name))
    });
    text
}

/// Entries in the sources of the project itself.
fn filter_own<'e>(entries: &'e [DeclaredEndpoint], survey: &Survey) -> Vec<&'e DeclaredEndpoint> {
    let is_own = |path: &str| survey.is_source(path) && (survey.is_aside || !is_beside_project(path));
    let is_shown = |entry: &&DeclaredEndpoint| !entry.name.contains('`') && is_own(&entry.path);
    entries.iter().filter(is_shown).collect()
}

fn write_list(text: &mut String, entries: &[&DeclaredEndpoint], words: impl Fn(&DeclaredEndpoint) -> String) {
    for entry in entries.iter().take(ENTRIES_MAX) {
        let lines = if entry.last_line > entry.line {
            format!("{}-{}", entry.line, entry.last_line)
        } else {
            entry.line.to_string()
        };
        let _ = writeln!(text, "- {} ({})", words(entry), cite_lines(&entry.path, &lines));
    }
    if entries.len() > ENTRIES_MAX {
        let _ = writeln!(text, "- … and {} more", entries.len() - ENTRIES_MAX);
    }
}
