//! vitest: ` FAIL  path > name` with the error beneath it up to a rule, and ` Tests  2 failed | 5 passed (7)`.

use crate::report::{Counts, FailedTest, Results, dedent, message_and_details};

pub(super) fn parse(lines: &[&str]) -> Option<Results> {
    let files = lines
        .iter()
        .rposition(|line| line.trim_start().starts_with("Test Files  "))?;
    let tests = lines[files..]
        .iter()
        .find_map(|line| line.trim_start().strip_prefix("Tests  "))?;
    let mut counts = counts(tests);
    let failures = failures(&lines[..files]);
    // A file that does not load is named as a whole: ` FAIL  a.test.js [ a.test.js ]`.
    counts.errors = failures.iter().filter(|failure| !failure.name.contains(" > ")).count() as u64;
    Some(Results {
        counts: Some(counts),
        failures,
    })
}

fn counts(words: &str) -> Counts {
    let mut counts = Counts::default();
    let words = words.split('(').next().unwrap_or(words);
    for part in words.split('|') {
        if let Some((count, word)) = part.trim().split_once(' ') {
            counts.add(word.trim(), count.parse().unwrap_or(0));
        }
    }
    counts
}

fn failures(lines: &[&str]) -> Vec<FailedTest> {
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
        // Tests that failed alike share one error.
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
        let (message, details) = message_and_details(dedent(lines[at..end].iter().copied()));
        failures.extend(names.drain(..).map(|name| FailedTest {
            name,
            message: message.clone(),
            details: details.clone(),
        }));
        at = end;
    }
    failures
}
