//! Reads `cargo test`: `test name ... FAILED`, `---- name stdout ----` with the output, and a `test result:` for each
//! test program. Also `cargo nextest run`: `FAIL [ 0.1s] crate name` and one `Summary`.

use skill_details::TestCounts;

use crate::text::{dedent_lines, parse_number};
use crate::{FailedTest, TestResults};

pub(super) fn read_cargo(output: &str) -> TestResults {
    let lines: Vec<&str> = output.lines().collect();
    if let Some(results) = read_nextest(&lines) {
        return results;
    }
    let mut counts: Option<TestCounts> = None;
    for line in &lines {
        if let Some(summary) = line.strip_prefix("test result: ").and_then(summary_counts) {
            let sum = counts.get_or_insert_default();
            sum.passed += summary.passed;
            sum.failed += summary.failed;
            sum.skipped += summary.skipped;
            sum.deselected += summary.deselected;
        }
    }
    let mut failed = read_failures(&lines);
    // A program that does not compile, or that a signal ended, has no tests to count.
    let broken: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("error: could not compile "))
        .collect();
    if !broken.is_empty() {
        let counts = counts.get_or_insert_default();
        counts.errors += 1;
        let errors = lines.iter().filter(|line| line.starts_with("error"));
        failed.push(FailedTest {
            name: format!(
                "compiling {}",
                broken[0].split(' ').next().unwrap_or_default().trim_matches('`')
            ),
            message: errors
                .clone()
                .next()
                .map_or_else(String::new, |line| (*line).to_owned()),
            details: compile_errors(&lines),
        });
    }
    TestResults {
        counts,
        failed,
        left_out: 0,
    }
}

/// Parses `ok. 3 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s`.
fn summary_counts(text: &str) -> Option<TestCounts> {
    let (_, numbers) = text.split_once(". ")?;
    let mut counts = TestCounts::default();
    for part in numbers.split("; ") {
        let Some((count, word)) = part.split_once(' ') else {
            continue;
        };
        match word {
            "passed" => counts.passed = parse_number(count)?,
            "failed" => counts.failed = parse_number(count)?,
            "ignored" => counts.skipped = parse_number(count)?,
            "filtered out" => counts.deselected = parse_number(count)?,
            _ => {}
        }
    }
    Some(counts)
}

fn read_failures(lines: &[&str]) -> Vec<FailedTest> {
    let mut failed: Vec<FailedTest> = Vec::new();
    // The present test program: names of tests are unique only within one.
    let mut program = "";
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if let Some(rest) = line.trim_start().strip_prefix("Running ") {
            program = rest.split(" (").next().unwrap_or(rest);
            program = program.strip_prefix("unittests ").unwrap_or(program);
        } else if let Some(rest) = line.trim_start().strip_prefix("Doc-tests ") {
            program = rest;
        }
        let name = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"));
        if let Some(name) = name {
            let name = name.trim_end_matches(" - should panic");
            failed.push(FailedTest {
                name: if program.is_empty() {
                    name.to_owned()
                } else {
                    format!("{program}::{name}")
                },
                ..FailedTest::default()
            });
            continue;
        }
        let heading = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        let Some(heading) = heading else { continue };
        let end = lines[at..]
            .iter()
            .position(|line| line.starts_with("---- ") || *line == "failures:")
            .map_or(lines.len(), |length| at + length);
        let (message, details) = panic_message(&lines[at..end]);
        let ending = format!("::{heading}");
        let found = failed
            .iter_mut()
            .rev()
            .find(|test| test.message.is_empty() && (test.name == heading || test.name.ends_with(&ending)));
        if let Some(test) = found {
            (test.message, test.details) = (message, details);
        }
    }
    failed
}

/// The message of a panic, which follows the line with its place, and all lines.
fn panic_message(lines: &[&str]) -> (String, Vec<String>) {
    let noise = |line: &&&str| !line.starts_with("note: run with `RUST_BACKTRACE");
    let lines: Vec<&str> = lines.iter().filter(noise).copied().collect();
    let at = lines.iter().position(|line| line.contains(" panicked at "));
    let message = match at {
        Some(at) => lines.get(at + 1).or(lines.get(at)).copied().unwrap_or_default(),
        None => lines
            .iter()
            .find(|line| !line.trim().is_empty())
            .copied()
            .unwrap_or_default(),
    };
    (message.trim().to_owned(), dedent_lines(lines.iter().copied()))
}

/// The first errors of the compiler with their places.
fn compile_errors(lines: &[&str]) -> Vec<String> {
    let is_error = |line: &&str| line.starts_with("error") && !line.starts_with("error: could not compile");
    let mut kept = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_error(line)) {
        kept.push((*line).to_owned());
        kept.extend(lines.get(at + 1).map(|place| (*place).to_owned()));
    }
    kept
}

/// Parses `Summary [ 0.01s] 3 tests run: 2 passed, 1 failed, 0 skipped`.
fn read_nextest(lines: &[&str]) -> Option<TestResults> {
    let summary = lines
        .iter()
        .rev()
        .find_map(|line| line.trim_start().strip_prefix("Summary ["))?;
    let (_, numbers) = summary.split_once(" run: ")?;
    let mut counts = TestCounts::default();
    for part in numbers.split(", ") {
        let (count, word) = part.split_once(' ')?;
        let word = word.split(" (").next().unwrap_or(word);
        match word {
            "passed" => counts.passed = parse_number(count)?,
            "failed" | "timed out" | "exec failed" => counts.failed += parse_number(count)?,
            "skipped" => counts.skipped = parse_number(count)?,
            _ => {}
        }
    }
    let mut failed: Vec<FailedTest> = Vec::new();
    for line in lines {
        let name = line
            .trim_start()
            .strip_prefix("FAIL [")
            .and_then(|rest| rest.split_once("] "));
        let Some((_, name)) = name else { continue };
        let name = name.trim().rsplit(") ").next().unwrap_or(name).replace(' ', "::");
        if !failed.iter().any(|test| test.name == name) {
            failed.push(FailedTest {
                name,
                ..FailedTest::default()
            });
        }
    }
    Some(TestResults {
        counts: Some(counts),
        failed,
        left_out: 0,
    })
}
