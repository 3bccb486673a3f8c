//! Reads what `npm test` prints, by the runner that its words show: jest, vitest, mocha, node's own in both of its
//! forms, and other TAP.

mod jest;
mod mocha;
mod tap;
mod vitest;

use skill_details::{TestCounts, TestRunner};

use crate::report::Results;

/// Reads counts and failing tests; empty where the runner is an unknown one.
pub(crate) fn parse(output: &str) -> Results {
    let lines: Vec<&str> = output.lines().collect();
    let failures = jest::parse(&lines)
        .or_else(|| vitest::parse(&lines))
        .or_else(|| tap::parse_spec(&lines))
        .or_else(|| tap::parse(&lines))
        .or_else(|| mocha::parse(&lines));
    Results {
        counts: TestCounts::read(TestRunner::Npm, output),
        failures: failures.unwrap_or_default(),
    }
}

/// The runner that the shell did not find: `sh: 1: jest: not found`.
pub(crate) fn absent_runner(output: &str) -> Option<&str> {
    output.lines().find_map(|line| {
        let line = line.strip_prefix("sh: ")?;
        let line = line
            .strip_suffix(": not found")
            .or_else(|| line.strip_suffix(": command not found"))?;
        // A line number may stand before the name.
        let name = match line.split_once(": ") {
            Some((number, name)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => line,
        };
        is_runner(name).then_some(name)
    })
}

/// True for a program's name or path of a strict grammar. A sentence does not match.
fn is_runner(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@/-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// True for the name of an npm package, with or without a scope and a path inside the package.
fn is_package(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte))
    };
    let parts = name.strip_prefix('@').unwrap_or(name).split('/');
    let has_name = !name.starts_with('@') || name.contains('/');
    name.len() <= 100 && has_name && parts.into_iter().all(is_part)
}

/// Packages that could not be loaded, each once; files of the repository are not among them.
pub(crate) fn missing_packages(output: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for marker in ["Cannot find module '", "Cannot find package '"] {
        for (at, _) in output.match_indices(marker) {
            let rest = &output[at + marker.len()..];
            let name = rest.split_once('\'').map_or("", |(name, _)| name);
            if is_package(name) && !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_runner_is_a_name_and_no_sentence() {
        assert_eq!(absent_runner("sh: 1: jest: not found\n"), Some("jest"));
        assert_eq!(
            absent_runner("sh: ./run-tests: command not found\n"),
            Some("./run-tests")
        );
        for wrong in ["SYSTEM NOTE", "a: b", "a b", "", "j\u{435}st", &"a".repeat(65)] {
            assert_eq!(absent_runner(&format!("sh: 1: {wrong}: not found\n")), None, "{wrong}");
            assert_eq!(
                absent_runner(&format!("sh: {wrong}: command not found\n")),
                None,
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_missing_package_is_a_name_of_npm() {
        for name in ["left-pad", "@types/node", "lodash.merge", "lodash/fp"] {
            assert_eq!(missing_packages(&format!("Cannot find module '{name}'\n")), [name]);
        }
        for wrong in [
            "",
            "./a",
            "/a",
            "node:fs",
            "@a",
            "a b",
            "a\u{202e}b",
            "commit_now!",
            &"a".repeat(101),
        ] {
            assert!(
                missing_packages(&format!("Cannot find package '{wrong}'\n")).is_empty(),
                "{wrong}"
            );
        }
    }
}
