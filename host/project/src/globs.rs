//! Globs for paths.

/// True if a path matches a glob: `*` stands for a part of a name, `**` for any number of folders.
pub(crate) fn matches_glob(glob: &str, path: &str) -> bool {
    match (glob.split_once('/'), path.split_once('/')) {
        (Some(("**", rest)), below) => {
            matches_glob(rest, path) || below.is_some_and(|(_, below)| matches_glob(glob, below))
        }
        (Some((first, rest)), Some((folder, below))) => matches_name(first, folder) && matches_glob(rest, below),
        (None, None) => matches_name(glob, path),
        _ => false,
    }
}

/// True if a name matches a pattern with `*`.
fn matches_name(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            // `*` within a pattern is rare, and names are short.
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches_name(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_names_and_folders() {
        for (glob, path) in [
            ("manage.py", "manage.py"),
            ("cmd/*/main.go", "cmd/shop/main.go"),
            ("**/*Application.java", "src/main/java/a/ShopApplication.java"),
            ("**/urls.py", "urls.py"),
            ("next.config.*", "next.config.mjs"),
        ] {
            assert!(matches_glob(glob, path), "{glob} {path}");
        }
        for (glob, path) in [
            ("manage.py", "a/manage.py"),
            ("cmd/*/main.go", "cmd/main.go"),
            ("a/**/b", "b"),
        ] {
            assert!(!matches_glob(glob, path), "{glob} {path}");
        }
    }
}
