//! Paths as all other modules use them: relative to the root, separated by `/`, without `.`, `..` or empty parts. These
//! functions only handle text and touch no file system.

use std::path::Path;

use tool_core::limits;

/// Reason why a text is not a path inside a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path starts with `/`.
    #[error("it is absolute, and paths are relative to the repository root")]
    Absolute,
    /// `..` leads out of the root.
    #[error("it lies outside the repository")]
    Outside,
    /// It holds a NUL byte, which no file name can.
    #[error("it contains a NUL character")]
    Nul,
    /// No system call would accept the path, and rules would read each of its directories from the beginning.
    #[error("it is longer than any path can be")]
    TooLong,
}

/// Returns the normal form of a path: `./a//b/../c/` becomes `a/c`, and the root is the empty string.
///
/// `..` is resolved in the text. If `b` is a symbolic link, the kernel would go elsewhere, but an opened file is still
/// checked by its real path.
///
/// # Errors
///
/// See [`PathError`].
pub fn normalise_path(path: &str) -> Result<String, PathError> {
    if path.len() > limits::PATH_BYTES_MAX {
        return Err(PathError::TooLong);
    }
    if path.starts_with('/') {
        return Err(PathError::Absolute);
    }
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    if is_normal(path) {
        return Ok(path.to_owned());
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or(PathError::Outside)?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// The normal form of a path that is relative, or absolute and below `root`. `None` if it is outside.
pub fn normalise_inside(root: &Path, path: &str) -> Option<String> {
    let Some(absolute) = path.strip_prefix('/') else {
        return normalise_path(path).ok();
    };
    let absolute = normalise_path(absolute.trim_start_matches('/')).ok()?;
    let root = root.to_str()?.trim_matches('/');
    match absolute.strip_prefix(root)? {
        "" => Some(String::new()),
        below if root.is_empty() => Some(below.to_owned()),
        below => below.strip_prefix('/').map(str::to_owned),
    }
}

/// True if [`normalise_path`] would change nothing, as for nearly all paths.
fn is_normal(path: &str) -> bool {
    path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Escapes the brackets of a glob, and its braces without a comma; `None` if the glob has none. In `app/[slug]` and
/// `{rule} one.md` they are parts of names, which a class or a choice would not match.
pub fn with_literal_brackets(glob: &str) -> Option<String> {
    let (mut literal, mut is_changed, mut is_in_choice) = (String::new(), false, false);
    let mut rest = glob.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => literal.extend([Some(character), rest.next()].into_iter().flatten()),
            '{' if rest.as_str().split('}').next().is_some_and(|inner| inner.contains(',')) => {
                is_in_choice = true;
                literal.push(character);
            }
            '}' if is_in_choice => {
                is_in_choice = false;
                literal.push(character);
            }
            '[' | ']' | '{' | '}' => {
                is_changed = true;
                literal.extend(['[', character, ']']);
            }
            _ => literal.push(character),
        }
    }
    is_changed.then_some(literal)
}

/// `directory/name`; the root is the empty string.
pub fn join_path(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        return name.to_owned();
    }
    let mut path = String::with_capacity(directory.len() + 1 + name.len());
    path.push_str(directory);
    path.push('/');
    path.push_str(name);
    path
}

/// Directory and name of a normal path; the directory of a name alone is the root.
pub fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Every directory above a normal path, from the outermost inwards, without the root: `a`, `a/b` for `a/b/c`.
pub fn list_ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_longer_than_any_path_is_none() {
        let longest = "a/".repeat(limits::PATH_BYTES_MAX / 2);
        assert!(normalise_path(&longest).is_ok());
        assert_eq!(normalise_path(&format!("{longest}bc")), Err(PathError::TooLong));
    }

    #[test]
    fn a_path_has_one_form() {
        for (given, normal) in [
            ("", ""),
            (".", ""),
            ("./", ""),
            ("a", "a"),
            ("a/", "a"),
            ("./a//b/./c/", "a/b/c"),
            ("a/../b", "b"),
            ("a/b/../..", ""),
            ("..a/b..", "..a/b.."),
            ("...", "..."),
        ] {
            assert_eq!(normalise_path(given).as_deref(), Ok(normal), "{given:?}");
        }
    }

    #[test]
    fn brackets_in_a_glob_can_stand_for_themselves() {
        for (glob, literal) in [
            ("app/[slug]/*.{ts,tsx}", Some("app/[[]slug[]]/*.{ts,tsx}")),
            ("{rule}*.md", Some("[{]rule[}]*.md")),
            (r"\[a\]", None),
            ("src/**/*.rs", None),
        ] {
            assert_eq!(with_literal_brackets(glob).as_deref(), literal, "{glob}");
        }
    }

    #[test]
    fn what_lies_outside_is_no_path() {
        assert_eq!(normalise_path("/etc/passwd"), Err(PathError::Absolute));
        assert_eq!(normalise_path(".."), Err(PathError::Outside));
        assert_eq!(normalise_path("a/../../b"), Err(PathError::Outside));
        assert_eq!(normalise_path("a\0b"), Err(PathError::Nul));
    }

    #[test]
    fn an_absolute_path_counts_where_it_lies_below_the_root() {
        let inside = |path: &str| normalise_inside(Path::new("/home/ada/shop"), path);
        for (given, normal) in [
            ("/home/ada/shop/src/a.py", "src/a.py"),
            ("/home/ada/../ada/shop//src/./a.py", "src/a.py"),
            ("/home/ada/shop", ""),
            ("/home/ada/shop/", ""),
            ("src/../a.py", "a.py"),
        ] {
            assert_eq!(inside(given).as_deref(), Some(normal), "{given}");
        }
        let outside = [
            "/home/ada/shop2/a.py",
            "/home/ada",
            "/home/ada/shop/../b",
            "../shop/a.py",
            "/",
        ];
        for given in outside {
            assert_eq!(inside(given), None, "{given}");
        }
    }

    #[test]
    fn ancestors_come_from_the_outside() {
        assert_eq!(list_ancestors("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(list_ancestors("a").count(), 0);
    }

    proptest! {
        #[test]
        fn a_normal_path_never_escapes(path in "[./a-c\0]{0,24}") {
            if let Ok(normal) = normalise_path(&path) {
                prop_assert!(!normal.starts_with('/') && !normal.ends_with('/'));
                prop_assert!(normal.is_empty() || normal.split('/').all(|part| !matches!(part, "" | "." | "..")));
                prop_assert_eq!(normalise_path(&normal), Ok(normal));
            }
        }

        #[test]
        fn a_path_stays_itself_behind_a_dot(path in "([.a-c][./a-c]{0,23})?") {
            prop_assert_eq!(normalise_path(&format!("./{path}")), normalise_path(&path));
        }
    }
}
