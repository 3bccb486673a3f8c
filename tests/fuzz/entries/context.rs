//! Hostile files of a repository, as the context engine reads them outside of any sandbox: sources, manifests, notes.

use super::operation::{citations, proposals};
use super::{manifest_entries, profile, symbols, vault};
use crate::operation::citations::CITATIONS_MAX;
use input::Input;
use tool_repository::file_role;

#[path = "../input.rs"]
mod input;

/// Names for every syntax and every manifest that is known.
const NAMES: [&str; 13] = [
    "a.py",
    "a.ts",
    "a.rs",
    "a.go",
    "a.java",
    "a.c",
    "pyproject.toml",
    "setup.cfg",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "note.md",
    "a.txt",
];

/// Checks that the citations of an answer are within its text, in order and without overlap, and that its proposals can
/// be parsed.
pub fn answers(bytes: &[u8]) {
    let answer = String::from_utf8_lossy(bytes);
    let (citations, _) = citations::parse(&answer);
    assert!(citations.len() <= CITATIONS_MAX);
    let mut end = 0;
    for citation in &citations {
        let written = answer.get(citation.at.clone()).expect("a citation lies in the text");
        assert!(
            !written.is_empty() && !citation.path.is_empty() && citation.at.end >= end,
            "{citation:?}"
        );
        end = citation.at.end;
        let _ = citation.to_string();
    }
    let _ = proposals::parse(&answer);
}

/// Checks that for any file content, definitions are within the file and imports lead to existing files only.
pub fn sources(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let name = NAMES[usize::from(input.byte()) % NAMES.len()];
    let path = input.text();
    let text = String::from_utf8_lossy(input.rest()).into_owned();
    let _ = (
        file_role::detect_language(&path),
        file_role::detect_role(&path),
        file_role::is_test(&path),
    );
    let _ = (
        file_role::is_key_file(&path),
        file_role::entry_point_by_path(&path),
        file_role::is_written(&path),
    );
    let _ = manifest_entries::read_declarations(name, &text);
    for tag in vault::find_hashtags(&text) {
        assert!(!tag.is_empty() && !tag.chars().any(char::is_whitespace), "{tag:?}");
    }
    profile::read_damaged_profile(name, &text, bytes);
    let Some(syntax) = symbols::Syntax::from_path(name) else {
        return;
    };
    let lines = text.lines().count() as u32;
    let mut imports = Vec::new();
    let defined = |definition: symbols::ParsedDefinition<'_>| {
        assert!(
            !definition.name.is_empty() && (1..=lines).contains(&definition.line),
            "{definition:?}"
        );
    };
    symbols::read_symbols(syntax, &text, defined, |import| imports.push(import));
    let paths = [
        "a.py",
        "b/__init__.py",
        "b/c.py",
        "lib.rs",
        "c.ts",
        "d/index.js",
        "go.mod",
        "e.go",
    ];
    let resolver = symbols::Resolver::new(&paths, symbols::Packages::default());
    for import in &imports {
        for from in [name, path.as_str()] {
            let found = resolver.resolve(from, import);
            assert!(found.iter().all(|&at| (at as usize) < paths.len()));
        }
    }
}

#[cfg(test)]
#[path = "../replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    super::replay::replay_targets!("../..", answers sources);
}
