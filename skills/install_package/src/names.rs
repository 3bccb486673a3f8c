//! Checks requests: the name of a package with a version, and nothing that a package manager reads differently.
//!
//! In place of a name, pip and npm accept options, files, folders, URLs and repositories. All of these are refused,
//! because only the characters of names and versions are allowed. The host checks again.

use skill_sdk::Failure;

use crate::PackageManager;

/// Limit for a name in bytes, from npm.
const NAME_BYTES_MAX: usize = 214;

/// Extensions for which pip or npm look for a file.
const ARCHIVES: [&str; 9] = [
    ".whl", ".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz", ".txz",
];

/// Refuses a text that is not a name with an optional version.
pub(crate) fn check_name(manager: PackageManager, text: &str) -> Result<(), Failure> {
    let (problem, example) = match manager {
        PackageManager::Pip => (pip_fault(text), "`requests`, `requests[socks]>=2.31,<3`"),
        PackageManager::Npm => (npm_fault(text), "`lodash`, `lodash@^4.17.0`, `@types/node`"),
    };
    match common_fault(text).or(problem) {
        Some(problem) => Err(Failure::invalid(format!("`{text}` {problem}")).with_hint(format!(
            "give the name of a package in the registry, with a version if it matters: {example}"
        ))),
        None => Ok(()),
    }
}

/// The mistake in a request, for both managers.
fn common_fault(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    if text.is_empty() {
        Some("is empty")
    } else if text.starts_with('-') {
        Some("is an option, not a package")
    } else if text.contains(char::is_whitespace) {
        Some("contains white space")
    } else if lower.contains("://") || lower.starts_with("git+") {
        Some("is a URL, not a package")
    } else if text.starts_with(['.', '/', '~', '\\']) || ARCHIVES.iter().any(|ending| lower.ends_with(ending)) {
        Some("is a path, not a package")
    } else if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Some("contains a character that no package name has")
    } else {
        None
    }
}

/// The mistake in a request for pip. Allowed is PEP 508 without URLs, markers and spaces: `name[extra,extra]>=1,<2`.
fn pip_fault(text: &str) -> Option<&'static str> {
    if text.contains(['/', '\\']) {
        return Some("is a path, not a package");
    }
    if text.contains(['@', ':']) {
        return Some("points to a place of its own; only names of the registry are installed");
    }
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    if !is_python_name(name) {
        return Some("is not a name of a Python package");
    }
    if let Some(inner) = rest.strip_prefix('[') {
        let Some((extras, after)) = inner.split_once(']') else {
            return Some("has an extra without its closing bracket");
        };
        if !extras.split(',').all(is_python_name) {
            return Some("has an extra that is no name");
        }
        rest = after;
    }
    let is_version = |part: &str| {
        let operator = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"]
            .iter()
            .find(|&&op| part.starts_with(op));
        let version = operator.map(|operator| &part[operator.len()..]);
        version.is_some_and(|version| {
            version.starts_with(|c: char| c.is_ascii_alphanumeric())
                && version
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || ".*+!_-".contains(c))
        })
    };
    if !rest.is_empty() && !rest.split(',').all(is_version) {
        return Some("has a version that is none; write `==1.2`, `>=1.2,<2` or `~=1.2`");
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn is_python_name(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    name.len() <= NAME_BYTES_MAX && name.chars().all(is_name) && name.starts_with(edge) && name.ends_with(edge)
}

/// The mistake in a request for npm. Allowed are `name` and `@scope/name`, each with `@version`: a version, a range
/// or a tag.
fn npm_fault(text: &str) -> Option<&'static str> {
    let (scoped, bare) = match text.strip_prefix('@') {
        Some(bare) => (true, bare),
        None => (false, text),
    };
    let (name, version) = match bare.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (bare, None),
    };
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() != if scoped { 2 } else { 1 } {
        return Some("is a path or a repository, not a package");
    }
    if name.len() > NAME_BYTES_MAX || !parts.iter().all(|part| is_npm_name(part)) {
        return Some("is not a name of an npm package");
    }
    let is_version = |version: &str| {
        !version.is_empty()
            && !version.starts_with(['-', '.'])
            && version
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".*^~<>=|+-_".contains(c))
    };
    if version.is_some_and(|version| !is_version(version)) {
        return Some("has a version that is none; write `@1.2.3`, `@^1.2` or a tag such as `@latest`");
    }
    None
}

fn is_npm_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    // Packages from before 2017 may have capital letters; the registry still serves them.
    name.chars().all(|c| inner(c) || c.is_ascii_uppercase())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !matches!(name, "node_modules" | "favicon.ico")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_versions_pass() {
        for name in [
            "requests",
            "Django==5.2",
            "requests[socks]>=2.31,<3",
            "a.b-c_d~=1.0",
            "x!=1.0.*",
            "x===1+local",
        ] {
            assert_eq!(check_name(PackageManager::Pip, name), Ok(()), "{name}");
        }
        for name in [
            "lodash",
            "lodash@^4.17.0",
            "@types/node",
            "@types/node@latest",
            "a@>=1||2",
            "JSONStream@1.x",
        ] {
            assert_eq!(check_name(PackageManager::Npm, name), Ok(()), "{name}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let both = [
            "",
            "-r",
            "--index-url=http://x",
            "a b",
            "a\tb",
            "./a",
            "../a",
            "/a",
            "~/a",
            "https://x/a",
            "git+ssh://x",
            "a.whl",
            "a.tar.gz",
            "a.tgz",
            "a;b",
            "$(a)",
            "`a`",
            "a&b",
            "é",
            "a\0",
            "a\n--x",
            "C:\\a",
        ];
        for name in both {
            for manager in [PackageManager::Pip, PackageManager::Npm] {
                assert!(check_name(manager, name).is_err(), "{manager:?} {name:?}");
            }
        }
        for name in [
            "a@https",
            "a/b",
            "a[",
            "a[x",
            "a[-x]",
            "a>=",
            "a>=1,",
            "a>=1;python_version>'3'",
            "a@b",
            "a=1",
            "a.",
            "a>=-1",
        ] {
            assert!(check_name(PackageManager::Pip, name).is_err(), "{name}");
        }
        for name in [
            "a/b",
            "@a",
            "@a/b/c",
            "a@file:x",
            "a@npm:b",
            "github:a/b",
            "a@",
            "a@-1",
            "@/a",
            "@a/",
            "_a",
            "a@./x",
        ] {
            assert!(check_name(PackageManager::Npm, name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_wrong_and_what_is_right() {
        let failure = check_name(PackageManager::Pip, "--upgrade").expect_err("it is an option");
        assert_eq!(failure.message, "`--upgrade` is an option, not a package");
        assert!(failure.hint.expect("there is advice").contains("requests[socks]"));
    }
}
