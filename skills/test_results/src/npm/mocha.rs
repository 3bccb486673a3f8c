//! Reads mocha's `spec` reporter: `  2 passing (3ms)`, `  1 failing`, and the numbered failures below.

use crate::FailedTest;
use crate::text::{dedent_lines, message_and_details};

pub(super) fn parse(lines: &[&str]) -> Option<Vec<FailedTest>> {
    let at = lines
        .iter()
        .rposition(|line| counted_word(line).is_some_and(|word| word == "passing"))?;
    let after = lines[at..]
        .iter()
        .take_while(|line| counted_word(line).is_some())
        .count();
    Some(read_failures(&lines[at + after..]))
}

/// The word in `  2 passing (3ms)`.
fn counted_word(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix("  ")?.split_once(' ')?;
    number.parse::<u64>().ok()?;
    let word = rest.split(' ').next()?;
    matches!(word, "passing" | "pending" | "failing").then_some(word)
}

/// Reads failures: `  1) store` begins one, and its name continues until a line that ends with a colon.
fn read_failures(lines: &[&str]) -> Vec<FailedTest> {
    let mut failures = Vec::new();
    // The numbers rise by one, so that a numbered line of an error is not taken for the next failure.
    let mut starts: Vec<usize> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let wanted = format!("  {}) ", starts.len() + 1);
        if line.starts_with(&wanted) {
            starts.push(at);
        }
    }
    for (nth, &from) in starts.iter().enumerate() {
        let end = starts.get(nth + 1).copied().unwrap_or(lines.len());
        let mut name: Vec<&str> = Vec::new();
        let mut at = from;
        while at < end {
            let part = lines[at].trim();
            let part = if at == from {
                part.split_once(") ").map_or(part, |(_, name)| name)
            } else {
                part
            };
            at += 1;
            name.push(part.strip_suffix(':').unwrap_or(part));
            if part.ends_with(':') || part.is_empty() {
                break;
            }
        }
        let (message, details) = message_and_details(dedent_lines(lines[at..end].iter().copied()));
        failures.push(FailedTest {
            name: name.join(" › "),
            message,
            details,
        });
    }
    failures
}
