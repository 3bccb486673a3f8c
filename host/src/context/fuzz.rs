//! Hostile files of a repository, as the context engine reads them outside of any sandbox: sources, manifests, notes.

use super::{entry, scanner, symbols, vault};
use crate::fuzz::Input;

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

/// Whatever a file holds, definitions lie within it and imports lead nowhere but to files that exist.
pub(crate) fn sources(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let name = NAMES[usize::from(input.byte()) % NAMES.len()];
    let path = input.text();
    let text = String::from_utf8_lossy(input.rest()).into_owned();
    let _ = (scanner::language(&path), scanner::role(&path), scanner::is_test(&path));
    let _ = (
        scanner::is_key_file(&path),
        scanner::entry_point_by_path(&path),
        scanner::is_written(&path),
    );
    let _ = entry::declared(name, &text);
    for tag in vault::hashtags(&text) {
        assert!(!tag.is_empty() && !tag.chars().any(char::is_whitespace), "{tag:?}");
    }
    let Some(syntax) = symbols::Syntax::of(name) else {
        return;
    };
    let lines = text.lines().count() as u32;
    let mut imports = Vec::new();
    let defined = |definition: symbols::Definition<'_>| {
        assert!(
            !definition.name.is_empty() && (1..=lines).contains(&definition.line),
            "{definition:?}"
        );
    };
    symbols::read(syntax, &text, defined, |import| imports.push(import));
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
    let resolver = symbols::Resolver::new(&paths);
    for import in &imports {
        for from in [name, path.as_str()] {
            let found = resolver.resolve(from, import, &paths);
            assert!(found.iter().all(|&at| (at as usize) < paths.len()));
        }
    }
}
