//! Links, anchors and paths of all documents lead somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

use super::{Document, PAGES, read_document, source_root, user_documents};

/// Documents beside README and book.
const OTHERS: [&str; 6] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "skills/README.md",
    "skills/example.md",
];

fn all_documents() -> Vec<Document> {
    let others = OTHERS.iter().map(|path| read_document((*path).to_owned()));
    user_documents().into_iter().chain(others).collect()
}

/// The page as `mdbook` makes it: with the files that it includes.
fn with_includes(document: &Document) -> String {
    let include = Regex::new(r"\{\{#include ([^}]+)\}\}").expect("a constant");
    let folder = source_root().join(&document.path);
    let folder = folder.parent().expect("a document lies in a folder");
    let read = |found: &regex::Captures<'_>| {
        let place = folder.join(&found[1]);
        std::fs::read_to_string(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()))
    };
    include.replace_all(&document.text, read).into_owned()
}

/// The anchors that GitHub and mdBook make of headings: lower case, hyphens for spaces, a number for a repeated one.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut counts) = (BTreeSet::new(), BTreeMap::new());
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => heading.iter_mut().for_each(|heading| heading.push_str(&text)),
            Event::End(TagEnd::Heading(_)) => {
                let words = heading.take().expect("it has begun").to_lowercase();
                let kept = words.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
                let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
                let count: &mut usize = counts.entry(anchor.clone()).or_default();
                anchors.insert(if *count == 0 {
                    anchor
                } else {
                    format!("{anchor}-{count}")
                });
                *count += 1;
            }
            _ => {}
        }
    }
    anchors
}

fn links_of(text: &str) -> Vec<String> {
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES);
    let links = parser.filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.into_string()),
        _ => None,
    });
    links.collect()
}

/// A path without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => assert!(plain.pop(), "{} leads out of the sources", path.display()),
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    plain
}

/// A description of a link that leads nowhere.
fn problem_of(document: &Document, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let problem = |reason: &str| Some(format!("{}: {link} {reason}", document.path));
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => document.path.clone(),
        path => {
            let folder = Path::new(&document.path).parent().expect("a document lies in a folder");
            normalized(&folder.join(path)).to_string_lossy().into_owned()
        }
    };
    if document.path.starts_with(PAGES) && !target.starts_with(PAGES) {
        return problem("leads out of the book");
    }
    if !source_root().join(&target).exists() {
        return problem("leads to no file");
    }
    let has_anchor = || anchors_of(&with_includes(&read_document(target.clone()))).contains(anchor);
    if !anchor.is_empty() && !has_anchor() {
        return problem("leads to no heading");
    }
    None
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let documents = all_documents();
    let mut count = 0;
    let mut problems = Vec::new();
    for document in &documents {
        let links = links_of(&with_includes(document));
        count += links.len();
        problems.extend(links.iter().filter_map(|link| problem_of(document, link)));
    }
    assert!(count > 60, "only {count} links were found");
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = read_document(format!("{PAGES}/SUMMARY.md"));
    let mut listed = links_of(&summary.text);
    listed.sort();
    let pages = user_documents().into_iter().filter_map(|document| {
        let name = document.path.strip_prefix(PAGES)?.trim_start_matches('/').to_owned();
        Some(name).filter(|name| name != "SUMMARY.md")
    });
    assert_eq!(listed, pages.collect::<Vec<_>>());
}

/// A path in backticks that begins with a folder of the sources names a file that is there.
#[test]
fn every_path_of_the_sources_that_a_document_names_is_there() {
    let path = Regex::new(r"`((?:cli|docs|host|scripts|skills|tests)/[A-Za-z0-9_./-]+)`").expect("a constant");
    let mut missing = Vec::new();
    let mut count = 0;
    for document in all_documents() {
        for found in path.captures_iter(&document.text) {
            count += 1;
            if !source_root().join(&found[1]).exists() {
                missing.push(format!("{}: {}", document.path, &found[1]));
            }
        }
    }
    assert!(count > 30, "only {count} paths were found");
    assert_eq!(missing, Vec::<String>::new());
}
