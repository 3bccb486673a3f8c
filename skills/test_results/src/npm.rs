//! Reads the output of `npm test`. Its text shows the runner: jest, vitest, mocha, node's own in both of its forms,
//! or other TAP.

mod jest;
mod mocha;
mod tap;
mod vitest;

use skill_details::{TestCounts, TestRunner};

use crate::TestResults;

/// Reads counts and failed tests; empty for an unknown runner.
pub(super) fn read_npm(output: &str) -> TestResults {
    let lines: Vec<&str> = output.lines().collect();
    let failed = jest::parse(&lines)
        .or_else(|| vitest::parse(&lines))
        .or_else(|| tap::parse_spec(&lines))
        .or_else(|| tap::parse(&lines))
        .or_else(|| mocha::parse(&lines));
    TestResults {
        counts: TestCounts::read(TestRunner::Npm, output),
        failed: failed.unwrap_or_default(),
        left_out: 0,
    }
}

/// Reads the Test Anything Protocol, with or without its first line.
pub(super) fn read_tap(output: &str) -> TestResults {
    let has_version = output.lines().any(|line| line.starts_with("TAP version"));
    let is_tap = has_version || output.lines().any(|line| line.starts_with("1.."));
    if !is_tap {
        return TestResults::default();
    }
    let text = if has_version {
        output.to_owned()
    } else {
        format!("TAP version 12\n{output}")
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut counts = TestCounts::read(TestRunner::Npm, &text);
    // `Bail out!` ends a run before its plan is complete.
    if lines.iter().any(|line| line.starts_with("Bail out!")) {
        counts.get_or_insert_default().errors += 1;
    }
    TestResults {
        counts,
        failed: tap::parse(&lines).unwrap_or_default(),
        left_out: 0,
    }
}

/// The runner that the shell did not find: `sh: 1: jest: not found`.
pub fn absent_runner(output: &str) -> Option<&str> {
    output.lines().find_map(|line| {
        let line = line.strip_prefix("sh: ")?;
        let line = line
            .strip_suffix(": not found")
            .or_else(|| line.strip_suffix(": command not found"))?;
        // A line number may precede the name.
        let name = match line.split_once(": ") {
            Some((number, name)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => line,
        };
        is_runner(name).then_some(name)
    })
}

/// True for a program's name or path of a strict grammar, which no sentence matches.
fn is_runner(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@/-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// True for the name of an npm package, with an optional scope and path inside of the package.
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

/// Packages that could not be loaded, without duplicates and without files of the repository.
pub fn missing_packages(output: &str) -> Vec<String> {
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
