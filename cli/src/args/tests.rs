//! Every command line in the documents and the help is valid.

use std::path::Path;

use clap::{Command, CommandFactory, Parser};

use super::CliArguments;

/// README and the pages of the book.
fn user_documents() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = std::fs::read_dir(root.join("docs/src")).expect("the book is there");
    let pages = pages.map(|page| page.expect("it can be listed").path());
    let documents = pages.chain([root.join("README.md")]);
    documents
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| std::fs::read_to_string(path).expect("it is text"))
        .collect()
}

/// The words of the first simple command of a line, as a shell would split them.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (Some(_), inner) => word.get_or_insert_default().push(inner),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(character);
            }
            (None, '|' | '<' | '>' | '&' | ';' | ')') => break,
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// Fails unless the line's command is one of ours.
fn check(line: &str, shown_in: &str) {
    let parsed = CliArguments::try_parse_from(words(line));
    let problem = parsed.err().filter(|error| error.use_stderr());
    assert!(
        problem.is_none(),
        "{shown_in} shows `{line}`: {}",
        problem.expect("it is one")
    );
}

/// From the word `tool` on, where a line runs it.
fn command_of(line: &str) -> Option<&str> {
    let starts = line.match_indices("tool ").map(|(at, _)| at);
    let mut starts = starts.filter(|&at| at == 0 || line[..at].ends_with([' ', '(']));
    starts.next().map(|at| &line[at..])
}

#[test]
fn every_command_line_of_readme_and_book_is_one() {
    let mut count = 0;
    let documents = user_documents();
    let mut rest = documents.as_str();
    while let Some((_, block)) = rest.split_once("```console") {
        let (block, after) = block.split_once("```").expect("a block ends");
        let joined = block.replace("\\\n", "");
        for line in joined.lines().filter_map(|line| line.strip_prefix("$ ")) {
            if let Some(command) = command_of(line) {
                check(command, "a document");
                count += 1;
            }
        }
        rest = after;
    }
    assert!(count > 25, "{count} command lines were found");
}

#[test]
fn every_example_of_the_help_is_one() {
    fn walk(command: &Command, count: &mut usize) {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in examples.lines().filter(|line| line.starts_with("  ")) {
            // Two spaces separate an example from its explanation.
            let line = line.trim_start();
            let line = line.split_once("  ").map_or(line, |(line, _)| line);
            if let Some(command) = command_of(line) {
                check(command, "the help");
                *count += 1;
            }
        }
        command.get_subcommands().for_each(|command| walk(command, count));
    }
    let mut count = 0;
    walk(&CliArguments::command(), &mut count);
    assert!(count > 50, "{count} examples were found");
}

#[test]
fn the_description_is_consistent() {
    CliArguments::command().debug_assert();
}
