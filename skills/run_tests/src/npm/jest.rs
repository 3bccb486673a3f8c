//! jest: `FAIL path`, `  ● name` with the error beneath it, and `Tests: 2 failed, 5 passed, 7 total` at the end.

use crate::report::{Counts, FailedTest, Results, dedent, message_and_details};

pub(super) fn parse(lines: &[&str]) -> Option<Results> {
    let at = lines.iter().rposition(|line| line.starts_with("Tests: "))?;
    let counts = counts(lines[at]);
    let failures = failures(&lines[..at]);
    // A file that does not load has no tests to count.
    let broken = failures.iter().filter(|failure| failure.name.ends_with(SUITE)).count() as u64;
    Some(Results {
        counts: Some(Counts {
            errors: broken,
            ..counts
        }),
        failures,
    })
}

const SUITE: &str = "Test suite failed to run";

fn counts(line: &str) -> Counts {
    let mut counts = Counts::default();
    let words = line.trim_start_matches("Tests:").trim();
    for part in words.split(", ") {
        if let Some((count, word)) = part.split_once(' ') {
            counts.add(word, count.parse().unwrap_or(0));
        }
    }
    counts
}

fn failures(lines: &[&str]) -> Vec<FailedTest> {
    let mut failures: Vec<FailedTest> = Vec::new();
    let mut path = "";
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if let Some(rest) = line.strip_prefix("FAIL ") {
            // A duration may follow: `FAIL a.test.js (5.2 s)`.
            path = rest.split(" (").next().unwrap_or(rest).trim();
        }
        let Some(name) = line.strip_prefix("  ● ").filter(|name| *name != "Console") else {
            continue;
        };
        let end = at
            + lines[at..]
                .iter()
                .position(|line| is_end(line))
                .unwrap_or(lines.len() - at);
        let (message, details) = message_and_details(dedent(lines[at..end].iter().copied()));
        let failure = FailedTest {
            name: format!("{path} › {name}"),
            message,
            details,
        };
        // With many files jest prints all failures once more at the end.
        if !failures.contains(&failure) {
            failures.push(failure);
        }
        at = end;
    }
    failures
}

fn is_end(line: &str) -> bool {
    line.starts_with("  ● ")
        || ["FAIL ", "PASS ", "Test Suites:", "Summary of all failing tests", "----"]
            .iter()
            .any(|start| line.starts_with(start))
}
