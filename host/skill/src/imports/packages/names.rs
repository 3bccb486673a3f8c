//! Grammar of package names.

use std::sync::LazyLock;

use regex::Regex;

use crate::imports::packages::RECIPE_PACKAGE_BYTES_MAX;
use tool_boundary::Failure;

/// Packages of one installation; more is a list that belongs into a manifest.
pub(crate) const RECIPE_PACKAGES_MAX: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ecosystem {
    Python,
    Npm,
}

/// PEP 508 without URLs, markers and spaces: a name, extras and version constraints.
static PYTHON: LazyLock<Regex> = LazyLock::new(|| {
    let name = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";
    let constraint = r"(?:===|~=|==|!=|<=|>=|<|>)[A-Za-z0-9][A-Za-z0-9.*+!_-]*";
    anchored_regex(&format!(
        r"(?P<name>{name})(?:\[{name}(?:,{name})*\])?(?:{constraint}(?:,{constraint})*)?"
    ))
});

/// A name, with or without a scope, and a version, a range or a tag.
static NPM: LazyLock<Regex> = LazyLock::new(|| {
    let part = "[A-Za-z0-9][A-Za-z0-9._~-]*";
    anchored_regex(&format!(
        r"(?P<name>(?:@{part}/)?{part})(?:@[A-Za-z0-9^~<>=*][A-Za-z0-9.^~<>=*+-]*)?"
    ))
});

fn anchored_regex(pattern: &str) -> Regex {
    Regex::new(&format!(r"\A(?:{pattern})\z")).expect("the pattern is a constant")
}

/// Suffixes for which pip and npm take an existing file for an archive to install.
const ARCHIVES: [&str; 12] = [
    ".whl",
    ".zip",
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.bz2",
    ".tbz",
    ".tar.xz",
    ".txz",
    ".tlz",
    ".tar.lz",
    ".tar.lzma",
];

/// Checks all names, and returns them unchanged.
pub(super) fn check_package_names(names: &[String], ecosystem: Ecosystem) -> Result<Vec<String>, Failure> {
    if names.is_empty() {
        return Err(Failure::invalid_arguments("No package is named."));
    }
    if names.len() > RECIPE_PACKAGES_MAX {
        let message = format!("More than {RECIPE_PACKAGES_MAX} packages in one call.");
        return Err(Failure::limit(message));
    }
    for name in names {
        check_one(name, ecosystem)?;
    }
    Ok(names.to_vec())
}

/// True for the name of a package in npm's registry, with or without a version. npm understands it in no other way.
pub(super) fn is_npm(name: &str) -> bool {
    is_plain(name, Ecosystem::Npm)
}

fn is_plain(name: &str, ecosystem: Ecosystem) -> bool {
    let pattern = match ecosystem {
        Ecosystem::Python => &PYTHON,
        Ecosystem::Npm => &NPM,
    };
    let lower = name.to_ascii_lowercase();
    let is_archive = ARCHIVES.iter().any(|ending| lower.ends_with(ending));
    name.len() <= RECIPE_PACKAGE_BYTES_MAX && pattern.is_match(name) && !is_archive
}

fn check_one(name: &str, ecosystem: Ecosystem) -> Result<(), Failure> {
    if is_plain(name, ecosystem) {
        return Ok(());
    }
    let (what, hint) = match ecosystem {
        Ecosystem::Python => (
            "pip",
            "a name with extras and version, without spaces: `requests`, `httpx[http2]>=0.27,<1`",
        ),
        Ecosystem::Npm => (
            "npm",
            "a name with a version or tag: `left-pad`, `@types/node@^20`, `vitest@latest`",
        ),
    };
    let shown: String = name.escape_debug().take(RECIPE_PACKAGE_BYTES_MAX).collect();
    Err(Failure::invalid_arguments(format!(
        "`{shown}` is no package name for {what}: options, URLs and paths are not accepted."
    ))
    .with_hint(hint))
}

#[cfg(test)]
mod unit {
    use super::*;
    use proptest::prelude::*;

    fn accepted(name: &str, ecosystem: Ecosystem) -> bool {
        check_package_names(&[name.to_owned()], ecosystem).is_ok()
    }

    #[test]
    fn names_with_constraints_are_accepted() {
        for name in [
            "requests",
            "Django",
            "zope.interface",
            "ruamel.yaml>=0.18",
            "httpx[http2]",
            "httpx[http2,socks]>=0.27,<1",
            "numpy==2.*",
            "x~=1.4.2",
            "x!=1.0",
            "torch==2.3.0+cpu",
            "x==1!2.0",
            "a",
        ] {
            assert!(accepted(name, Ecosystem::Python), "{name}");
        }
        for name in [
            "left-pad",
            "@types/node",
            "@types/node@^20.1.0",
            "vitest@latest",
            "react@18",
            "x@>=1.2.3",
            "x@~1.2",
            "x@*",
            "JSONStream",
            "lodash.merge",
        ] {
            assert!(accepted(name, Ecosystem::Npm), "{name}");
        }
    }

    #[test]
    fn options_urls_paths_and_archives_are_refused() {
        for name in [
            "",
            " ",
            "-r",
            "--index-url=https://evil",
            "-e.",
            ".",
            "./x",
            "../x",
            "/x",
            "~/x",
            "a/b",
            "C:\\x",
            "https://evil/x.whl",
            "git+https://evil/x",
            "x @ https://evil/x",
            "x@https://evil/x",
            "file:x",
            "npm:x",
            "x@npm:y",
            "x@file:y",
            "x@github:u/r",
            "x@u/r",
            "u/r",
            "github:u/r",
            "x; python_version<'3'",
            "x y",
            "x\ny",
            "x\n",
            "x\0",
            "x>=1 --pre",
            "evil-1.0-py3-none-any.whl",
            "evil.tar.gz",
            "evil.TGZ",
            "evil.zip",
            "x@evil.tgz",
            "x[",
            "x[]",
            "x==",
            "@scope",
            "@/x",
            "@-x/y",
            "$(id)",
            "`id`",
            "x&y",
            "x|y",
            "héllo",
        ] {
            assert!(!accepted(name, Ecosystem::Python), "pip: {name:?}");
            assert!(!accepted(name, Ecosystem::Npm), "npm: {name:?}");
        }
        assert!(!accepted("@types/node", Ecosystem::Python));
        assert!(!accepted(&"x".repeat(RECIPE_PACKAGE_BYTES_MAX + 1), Ecosystem::Npm));
        assert!(check_package_names(&[], Ecosystem::Npm).is_err());
    }

    #[test]
    fn packages_of_one_call_are_few() {
        let many = vec!["x".to_owned(); RECIPE_PACKAGES_MAX];
        assert!(check_package_names(&many, Ecosystem::Npm).is_ok());
        let more = [many, vec!["x".to_owned()]].concat();
        let refused = check_package_names(&more, Ecosystem::Npm).expect_err("they are too many");
        assert_eq!(refused.message, "More than 50 packages in one call.");
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_one_plain_word(name in r"[a-z@./:~<>=*\[\],+! \-]{1,12}") {
            for ecosystem in [Ecosystem::Python, Ecosystem::Npm] {
                if accepted(&name, ecosystem) {
                    prop_assert!(!name.starts_with(['-', '.', '/', '~']), "{name}");
                    prop_assert!(!name.contains([':', ' ', '\\']), "{name}");
                    let slashes = name.matches('/').count();
                    prop_assert!(slashes == 0 || (slashes == 1 && name.starts_with('@')), "{name}");
                }
            }
        }
    }
}
