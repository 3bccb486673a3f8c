//! `symbols`: questions about names, which the host's parser answers.
//!
//! The boundary has no grammars. It decides which file may be opened, and notes the files that an answer shows;
//! [`SymbolLookup`] does the rest.

use std::ops::RangeInclusive;

use super::repository::{open_failure, path_of};
use crate::CallContext;
use crate::Failure;
use crate::bindings::tool::skill::symbols::{Definition, DefinitionPage, Query, Reference, ReferencePage};
use crate::budget::CallBudget;
use crate::services::{Services, SymbolLookup};
use tool_repository::EntryKind;

/// Bytes of the longest name that a guest may look for, qualified or not.
const NAME_BYTES_MAX: usize = 300;

/// One page of the definitions of a name.
pub(super) fn find_definitions(
    services: &dyn Services,
    call: &CallBudget,
    context: &CallContext,
    query: Query,
) -> Result<DefinitionPage, Failure> {
    let query = check_query(call, context, query)?;
    let page = require_lookup(services)?.find_definitions(call, context, &query)?;
    note_listed(call, page.definitions.iter().map(|definition| definition.path.as_str()));
    Ok(page)
}

/// One page of the definitions and uses of a name.
pub(super) fn find_references(
    services: &dyn Services,
    call: &CallBudget,
    context: &CallContext,
    query: Query,
) -> Result<ReferencePage, Failure> {
    let query = check_query(call, context, query)?;
    let page = require_lookup(services)?.find_references(call, context, &query)?;
    note_listed(call, page.references.iter().map(|reference| reference.path.as_str()));
    Ok(page)
}

/// The definitions of a file.
pub(super) fn outline_file(
    services: &dyn Services,
    call: &CallBudget,
    context: &CallContext,
    path: &str,
) -> Result<Vec<Definition>, Failure> {
    let path = open_file(call, context, path)?;
    require_lookup(services)?.list_definitions(call, context, &path)
}

/// The uses of names in some lines of a file.
pub(super) fn list_uses(
    services: &dyn Services,
    call: &CallBudget,
    context: &CallContext,
    path: &str,
    lines: RangeInclusive<u32>,
) -> Result<Vec<Reference>, Failure> {
    let path = open_file(call, context, path)?;
    require_lookup(services)?.list_uses(call, context, &path, lines)
}

/// Finds the innermost definition around a line.
pub(super) fn find_innermost(outline: Vec<Definition>, line: u32) -> Option<Definition> {
    let encloses = |definition: &Definition| (definition.first_line..=definition.last_line).contains(&line);
    let around = outline.into_iter().filter(encloses);
    around.min_by_key(|definition| definition.last_line - definition.first_line)
}

/// Bytes of the text of definitions.
pub(super) fn definition_bytes(definitions: &[Definition]) -> usize {
    let bytes = |one: &Definition| one.path.len() + one.name.len() + one.container.len() + one.signature.len();
    definitions.iter().map(bytes).sum()
}

/// Bytes of the text of references.
pub(super) fn reference_bytes(references: &[Reference]) -> usize {
    let bytes = |one: &Reference| one.path.len() + one.name.len() + one.container.len();
    references.iter().map(bytes).sum()
}

fn require_lookup(services: &dyn Services) -> Result<&dyn SymbolLookup, Failure> {
    services
        .symbols()
        .ok_or_else(|| Failure::unavailable("this host has no parser of source files"))
}

/// Checks a query, and normalises its directory.
fn check_query(call: &CallBudget, context: &CallContext, query: Query) -> Result<Query, Failure> {
    let name = query.name.trim();
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let max = NAME_BYTES_MAX;
        let message = format!("a name of a symbol is 1 to {max} bytes of printable text");
        return Err(Failure::invalid_arguments(message).with_hint("give an identifier, or `Type.method`"));
    }
    let opened = context
        .repository
        .open_within(&path_of(&query.under)?, &call.token)
        .map_err(|error| open_failure(&error))?;
    if opened.kind == EntryKind::File {
        call.note_place(&opened.path, opened.listed);
    }
    Ok(Query {
        name: name.to_owned(),
        under: opened.path.clone(),
        ..query
    })
}

/// Notes that the guest learns about a file. Returns its listed path.
fn open_file(call: &CallBudget, context: &CallContext, path: &str) -> Result<String, Failure> {
    let opened = context
        .repository
        .open_within(&path_of(path)?, &call.token)
        .map_err(|error| open_failure(&error))?;
    if opened.kind != EntryKind::File {
        let message = format!("`{path}` is a directory, and an outline is of one file");
        return Err(Failure::invalid_arguments(message));
    }
    call.note_place(&opened.path, opened.listed);
    Ok(opened.path.clone())
}

/// Notes the files of a page, once each. They are all of the list.
fn note_listed<'a>(call: &CallBudget, paths: impl Iterator<Item = &'a str>) {
    let mut known = None;
    for path in paths {
        if known != Some(path) {
            call.note_place(path, true);
            known = Some(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, first_line: u32, last_line: u32) -> Definition {
        Definition {
            path: "a.rs".to_owned(),
            name: name.to_owned(),
            container: String::new(),
            kind: "function".to_owned(),
            line: first_line,
            first_line,
            last_line,
            comment_line: None,
            signature: String::new(),
        }
    }

    #[test]
    fn the_innermost_definition_is_the_one_around_a_line() {
        let outline = || vec![definition("a", 1, 9), definition("b", 3, 5), definition("c", 12, 12)];
        let found = |line| find_innermost(outline(), line).map(|definition| definition.name);
        assert_eq!(found(1).as_deref(), Some("a"));
        assert_eq!(found(4).as_deref(), Some("b"));
        assert_eq!(found(10), None);
        assert_eq!(found(12).as_deref(), Some("c"));
    }
}
