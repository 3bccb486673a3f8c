//! Reads `go test -json`: one event on each line. Other lines come from the compiler.

use std::collections::BTreeMap;

use serde::Deserialize;
use skill_details::TestCounts;

use crate::text::dedent_lines;
use crate::{FailedTest, TestResults};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GoEvent {
    action: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

/// Limit for the kept output of one test in bytes.
const OUTPUT_BYTES_MAX: usize = 16 << 10;
/// Limit for running tests with kept output.
const OPEN_TESTS_MAX: usize = 20_000;

pub(super) fn read_go(output: &str) -> TestResults {
    let mut counts: Option<TestCounts> = None;
    let mut open: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut failed: Vec<FailedTest> = Vec::new();
    for event in output.lines().filter_map(parse_event) {
        let key = (event.package.clone(), event.test.clone());
        match event.action.as_str() {
            "output" | "build-output" if open.len() < OPEN_TESTS_MAX => {
                let text = open.entry(key).or_default();
                if text.len() + event.output.len() <= OUTPUT_BYTES_MAX {
                    text.push_str(&event.output);
                }
            }
            "pass" | "skip" if event.test.is_empty() => {
                // A package without test files is skipped, but the run has results.
                counts.get_or_insert_default();
                open.remove(&key);
            }
            "pass" => {
                counts.get_or_insert_default().passed += 1;
                open.remove(&key);
            }
            "skip" => {
                counts.get_or_insert_default().skipped += 1;
                open.remove(&key);
            }
            "fail" if event.test.is_empty() => {
                let prefix = format!("{}.", event.package);
                let is_broken = !failed.iter().any(|test| test.name.starts_with(&prefix));
                let counts = counts.get_or_insert_default();
                if is_broken {
                    counts.errors += 1;
                    failed.push(failed_test(event.package, open.remove(&key).unwrap_or_default()));
                }
            }
            "fail" => {
                counts.get_or_insert_default().failed += 1;
                let name = format!("{}.{}", event.package, event.test);
                failed.push(failed_test(name, open.remove(&key).unwrap_or_default()));
            }
            _ => {}
        }
    }
    TestResults {
        counts,
        failed,
        left_out: 0,
    }
}

fn parse_event(line: &str) -> Option<GoEvent> {
    line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten()
}

fn failed_test(name: String, output: String) -> FailedTest {
    let is_noise = |line: &&str| {
        let line = line.trim_start();
        !(line.starts_with("=== ") || line.starts_with("--- FAIL: ") || line.starts_with("FAIL\t"))
    };
    let lines = dedent_lines(output.lines().filter(is_noise));
    FailedTest {
        name,
        message: lines.first().cloned().unwrap_or_default(),
        details: lines.get(1..).unwrap_or_default().to_vec(),
    }
}

pub(super) fn readable_output(output: &str) -> String {
    let lines = output.lines().filter_map(readable_line);
    lines.map(|line| format!("{line}\n")).collect()
}

pub(super) fn readable_line(line: &str) -> Option<String> {
    if !line.starts_with("{\"") {
        return Some(line.to_owned());
    }
    let event = parse_event(line)?;
    let line = event.output.trim_end();
    (!line.is_empty() && !line.starts_with("=== ")).then(|| line.to_owned())
}
