//! README and book: their commands run as shown, their links and paths lead somewhere, and their tables agree with the
//! code.

mod commands;
mod limits;
mod links;
mod security;

use std::path::{Path, PathBuf};

use crate::help::rewrites;

/// The folder of the book's pages, from the root of the sources.
const PAGES: &str = "docs/src";

/// One document, with its path from the root of the sources.
struct Document {
    path: String,
    text: String,
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read_document(path: String) -> Document {
    let place = source_root().join(&path);
    let text = std::fs::read_to_string(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    Document { path, text }
}

/// Compares a generated part of a document with the code, and rewrites it for `scripts/reference`. The part stands
/// between `<!-- NAME:begin, by scripts/reference -->` and `<!-- NAME:end -->`.
fn compare_generated(path: &str, name: &str, expected: &str) {
    let document = read_document(path.to_owned());
    let (begin, end) = (
        format!("<!-- {name}:begin, by scripts/reference -->"),
        format!("<!-- {name}:end -->"),
    );
    let (before, rest) = document
        .text
        .split_once(&begin)
        .expect("it has a place for the generated part");
    let (found, after) = rest.split_once(&end).expect("the generated part ends");
    let expected = format!("\n{expected}\n");
    if found == expected {
        return;
    }
    assert!(rewrites(), "{path} is stale: run `scripts/reference`");
    let text = format!("{before}{begin}{expected}{end}{after}");
    std::fs::write(source_root().join(path), text).expect("it can be written");
}

/// The text of a page of the book.
pub(crate) fn read_page(name: &str) -> String {
    read_document(format!("{PAGES}/{name}")).text
}

/// README and the pages of the book, as they are written: an included file is not part of its page.
fn user_documents() -> Vec<Document> {
    let entries = std::fs::read_dir(source_root().join(PAGES)).expect("the book is there");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("it can be listed")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    let pages = names.iter().map(|name| format!("{PAGES}/{name}"));
    std::iter::once("README.md".to_owned())
        .chain(pages)
        .map(read_document)
        .collect()
}

/// README and book as one text, with single spaces in place of line breaks.
pub(crate) fn user_text() -> String {
    let documents = user_documents();
    let words = documents.iter().flat_map(|document| document.text.split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}
