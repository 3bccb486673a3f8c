//! Reads vitest: ` FAIL  path > name` with the error below it up to a rule, and ` Tests  2 failed | 5 passed (7)`.

use crate::FailedTest;
use crate::text::{dedent_lines, message_and_details};

pub(super) fn parse(lines: &[&str]) -> Option<Vec<FailedTest>> {
    let files = lines
        .iter()
        .rposition(|line| line.trim_start().starts_with("Test Files  "))?;
    Some(read_failures(&lines[..files]))
}

fn read_failures(lines: &[&str]) -> Vec<FailedTest> {
    let mut failures = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_start();
        at += 1;
        let Some(name) = line.strip_prefix("FAIL  ") else {
            continue;
        };
        names.push(name.split(" [ ").next().unwrap_or(name).trim().to_owned());
        // Tests with the same failure share one error.
        if lines
            .get(at)
            .is_some_and(|next| next.trim_start().starts_with("FAIL  "))
        {
            continue;
        }
        let end = at
            + lines[at..]
                .iter()
                .position(|line| line.starts_with("⎯⎯"))
                .unwrap_or(lines.len() - at);
        let (message, details) = message_and_details(dedent_lines(lines[at..end].iter().copied()));
        failures.extend(names.drain(..).map(|name| FailedTest {
            name,
            message: message.clone(),
            details: details.clone(),
        }));
        at = end;
    }
    failures
}
