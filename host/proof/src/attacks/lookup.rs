//! A parser that hides nothing, so that only the boundary keeps a guest from a file.

use std::ops::RangeInclusive;
use std::path::Path;

use tool_skill::Failure;
use tool_skill::bindings::tool::skill::symbols::{Definition, DefinitionPage, Query, Reference, ReferencePage};
use tool_skill::{CallBudget, CallContext, SymbolLookup};

/// Shows each file that it is asked about as one definition or one reference, whatever the file contains.
#[derive(Debug)]
pub(super) struct CarelessLookup;

impl SymbolLookup for CarelessLookup {
    fn find_definitions(
        &self,
        _: &CallBudget,
        context: &CallContext,
        query: &Query,
    ) -> Result<DefinitionPage, Failure> {
        let files = read_beneath(context, &query.under).into_iter();
        Ok(DefinitionPage {
            definitions: files.map(|(path, content)| make_definition(path, content)).collect(),
            next: None,
        })
    }

    fn find_references(&self, _: &CallBudget, context: &CallContext, query: &Query) -> Result<ReferencePage, Failure> {
        let files = read_beneath(context, &query.under).into_iter();
        Ok(ReferencePage {
            references: files.map(|(path, content)| make_reference(path, content)).collect(),
            next: None,
        })
    }

    fn list_definitions(&self, _: &CallBudget, context: &CallContext, path: &str) -> Result<Vec<Definition>, Failure> {
        let content = read_text(&context.repository.root().join(path));
        Ok(vec![make_definition(path.to_owned(), content)])
    }

    fn list_uses(
        &self,
        _: &CallBudget,
        context: &CallContext,
        path: &str,
        _: RangeInclusive<u32>,
    ) -> Result<Vec<Reference>, Failure> {
        let content = read_text(&context.repository.root().join(path));
        Ok(vec![make_reference(path.to_owned(), content)])
    }
}

/// The files of one directory, with their content.
fn read_beneath(context: &CallContext, under: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(context.repository.root().join(under));
    let entries = entries.into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let file = |entry: std::fs::DirEntry| {
        (
            entry.file_name().to_string_lossy().into_owned(),
            read_text(&entry.path()),
        )
    };
    files.map(file).collect()
}

fn read_text(place: &Path) -> String {
    std::fs::read_to_string(place).unwrap_or_default()
}

fn make_definition(path: String, content: String) -> Definition {
    Definition {
        path,
        name: "whole".to_owned(),
        container: String::new(),
        kind: "value".to_owned(),
        line: 1,
        first_line: 1,
        last_line: 1,
        comment_line: None,
        signature: content,
    }
}

fn make_reference(path: String, content: String) -> Reference {
    Reference {
        path,
        name: content,
        kind: "text".to_owned(),
        line: 1,
        container: String::new(),
    }
}
