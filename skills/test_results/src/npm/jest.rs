//! Reads jest: `FAIL path`, `  ● name` with the error below it, and `Tests: 2 failed, 5 passed, 7 total` at the end.

use crate::FailedTest;
use crate::text::{dedent_lines, message_and_details};

pub(super) fn parse(lines: &[&str]) -> Option<Vec<FailedTest>> {
    let at = lines.iter().rposition(|line| line.starts_with("Tests: "))?;
    Some(read_failures(&lines[..at]))
}

fn read_failures(lines: &[&str]) -> Vec<FailedTest> {
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
        let (message, details) = message_and_details(dedent_lines(lines[at..end].iter().copied()));
        let failure = FailedTest {
            name: format!("{path} › {name}"),
            message,
            details,
        };
        // With many files, jest prints all failures once more at the end.
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
