//! Reads what `npm test` prints, by the runner that its words show: jest, vitest, mocha, node's own in both of its
//! forms, and other TAP.

mod jest;
mod mocha;
mod tap;
mod vitest;

use crate::report::Results;

/// Reads counts and failing tests; empty where the runner is an unknown one.
pub(crate) fn parse(output: &str) -> Results {
    let lines: Vec<&str> = output.lines().collect();
    jest::parse(&lines)
        .or_else(|| vitest::parse(&lines))
        .or_else(|| tap::parse_spec(&lines))
        .or_else(|| tap::parse(&lines))
        .or_else(|| mocha::parse(&lines))
        .unwrap_or_default()
}

/// The runner that the shell did not find: `sh: 1: jest: not found`.
pub(crate) fn absent_runner(output: &str) -> Option<&str> {
    output.lines().find_map(|line| {
        let line = line.strip_prefix("sh: ")?;
        let line = line
            .strip_suffix(": not found")
            .or_else(|| line.strip_suffix(": command not found"))?;
        // A line number may stand before the name.
        Some(line.rsplit(": ").next().unwrap_or(line))
    })
}

/// Packages that could not be loaded, each once; files of the repository are not among them.
pub(crate) fn missing_packages(output: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for marker in ["Cannot find module '", "Cannot find package '"] {
        for (at, _) in output.match_indices(marker) {
            let rest = &output[at + marker.len()..];
            let name = rest.split_once('\'').map_or("", |(name, _)| name);
            let is_package = !name.is_empty()
                && !name.starts_with(['.', '/'])
                && name.len() <= 200
                && !name.contains(char::is_whitespace)
                && !name.starts_with("node:");
            if is_package && !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
    }
    found
}
