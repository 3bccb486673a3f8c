//! Names and the files they belong to, by spelling alone: no import is resolved by executing something.

/// True for the path of a Python source file.
pub fn is_python(path: &str) -> bool {
    [".py", ".pyi", ".pyw"].iter().any(|ending| path.ends_with(ending))
}

/// Globs for Python source files.
pub const PYTHON_GLOBS: [&str; 3] = ["*.py", "*.pyi", "*.pyw"];

/// Dotted name of a file: `pkg/sub/mod.py` is `pkg.sub.mod`, `pkg/__init__.py` is `pkg`.
///
/// A prefix such as `src/` stays: dotted names are compared from their ends, see [`ends_with`].
pub fn module_of(path: &str) -> String {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let stem = match stem.rsplit_once('/') {
        Some((package, "__init__")) => package,
        None if stem == "__init__" => "",
        _ => stem,
    };
    stem.replace('/', ".")
}

/// True for the `__init__.py` of a package.
pub fn is_package(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("__init__.")
}

/// Resolves a module name in the file `path`: `..sub` in `pkg/a/b.py` is `pkg.sub`; an absolute name stays unchanged.
/// Dots that leave the repository end at its root.
pub fn resolve_module(path: &str, module: &str) -> String {
    let rest = module.trim_start_matches('.');
    let level = module.len() - rest.len();
    if level == 0 {
        return module.to_owned();
    }
    let own = module_of(path);
    let mut parts: Vec<&str> = own.split('.').filter(|part| !part.is_empty()).collect();
    let up = if is_package(path) { level - 1 } else { level };
    parts.truncate(parts.len().saturating_sub(up));
    parts.extend(rest.split('.').filter(|part| !part.is_empty()));
    parts.join(".")
}

/// True if `dotted` is `suffix`, or ends with it after a dot.
pub fn ends_with(dotted: &str, suffix: &str) -> bool {
    dotted
        .strip_suffix(suffix)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// True for a Python identifier. Letters of every script are accepted, because only forbidden characters are checked.
pub fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|c| c == '_' || c.is_alphanumeric())
}

/// True if an identifier may contain this byte; every byte of a character outside of ASCII counts.
pub fn is_word_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Offsets of `word` in `text` as a whole word.
pub fn word_hits<'a>(text: &'a [u8], word: &'a str) -> impl Iterator<Item = usize> + 'a {
    memchr::memmem::find_iter(text, word.as_bytes()).filter(move |&at| {
        let before = at.checked_sub(1).map(|at| text[at]);
        let after = text.get(at + word.len()).copied();
        !before.is_some_and(is_word_byte) && !after.is_some_and(is_word_byte)
    })
}

/// Offsets of the name in `def name` or `class name`. Fast, and ignores whether they are in strings or comments: it
/// finds files worth parsing.
pub fn definition_hits<'a>(text: &'a [u8], name: &'a str) -> impl Iterator<Item = usize> + 'a {
    word_hits(text, name).filter(move |&at| {
        let before = text[..at].trim_ascii_end();
        let spaced = before.len() < at;
        let keyword = |word: &[u8]| {
            before.ends_with(word)
                && !before[..before.len() - word.len()]
                    .last()
                    .copied()
                    .is_some_and(is_word_byte)
        };
        spaced && (keyword(b"def") || keyword(b"class"))
    })
}

/// Line of a byte offset, counted from 1.
pub fn line_of(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..at.min(text.len())]).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_dotted_names() {
        assert_eq!(module_of("pkg/sub/mod.py"), "pkg.sub.mod");
        assert_eq!(module_of("pkg/__init__.py"), "pkg");
        assert_eq!(module_of("__init__.py"), "");
        assert_eq!(module_of("setup.py"), "setup");
    }

    #[test]
    fn relative_imports_become_absolute() {
        assert_eq!(resolve_module("pkg/a/b.py", "..sub"), "pkg.sub");
        assert_eq!(resolve_module("pkg/a/b.py", "."), "pkg.a");
        assert_eq!(resolve_module("pkg/a/__init__.py", ".c"), "pkg.a.c");
        assert_eq!(resolve_module("pkg/a/b.py", "os.path"), "os.path");
        assert_eq!(resolve_module("b.py", "....x"), "x");
    }

    #[test]
    fn dotted_names_are_compared_from_the_end_at_dots() {
        assert!(ends_with("src.pkg.mod", "pkg.mod"));
        assert!(ends_with("pkg.mod", "pkg.mod"));
        assert!(!ends_with("mypkg.mod", "pkg.mod"));
    }

    #[test]
    fn words_and_definitions_are_found_at_their_borders() {
        let text = b"def run(): rerun(); run_all(); run()\nclass  run: pass\nundef run";
        assert_eq!(word_hits(text, "run").collect::<Vec<_>>(), [4, 31, 44, 60]);
        assert_eq!(definition_hits(text, "run").collect::<Vec<_>>(), [4, 44]);
    }
}
