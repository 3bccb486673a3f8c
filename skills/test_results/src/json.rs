//! Reads JSON reports of jest (and vitest), mocha and RSpec.

use serde_json::Value;
use skill_details::TestCounts;

use crate::text::{dedent_lines, message_and_details, plain_text};
use crate::{FailedTest, TestResults};

/// Reads the first report: in a result file, or else in the output from a line on that begins an object.
pub(super) fn read_first(output: &str, files: &[String], read: fn(&Value) -> Option<TestResults>) -> TestResults {
    let whole = files.iter().filter_map(|file| serde_json::from_str::<Value>(file).ok());
    let printed = output
        .match_indices("{")
        .filter(|(at, _)| *at == 0 || output.as_bytes()[at - 1] == b'\n');
    // Programs print text before and after the report. Only some beginnings are tried, because a text may contain any
    // number.
    let printed = printed.take(20).filter_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&output[at..]).into_iter::<Value>();
        values.next()?.ok()
    });
    whole.chain(printed).find_map(|value| read(&value)).unwrap_or_default()
}

pub(super) fn read_jest(report: &Value) -> Option<TestResults> {
    let mut counts = TestCounts {
        passed: read_count(report, "numPassedTests")?,
        failed: read_count(report, "numFailedTests")?,
        skipped: read_count(report, "numPendingTests").unwrap_or(0),
        todo: read_count(report, "numTodoTests").unwrap_or(0),
        ..TestCounts::default()
    };
    let mut failed = Vec::new();
    for file in report["testResults"].as_array().into_iter().flatten() {
        let path = file["name"].as_str().unwrap_or_default();
        let cases = file["assertionResults"].as_array();
        for case in cases.into_iter().flatten().filter(|case| case["status"] == "failed") {
            let name = case["fullName"].as_str().or(case["title"].as_str()).unwrap_or_default();
            let messages = case["failureMessages"].as_array();
            let message: Vec<&str> = messages.into_iter().flatten().filter_map(Value::as_str).collect();
            failed.push(failed_test(format!("{path} > {name}"), &message.join("\n")));
        }
        // A file that does not load has no tests to count, but is an error.
        if file["status"] == "failed" && cases.is_none_or(|cases| !cases.iter().any(|case| case["status"] == "failed"))
        {
            counts.errors += 1;
            failed.push(failed_test(
                path.to_owned(),
                file["message"].as_str().unwrap_or_default(),
            ));
        }
    }
    Some(test_results(counts, failed))
}

pub(super) fn read_mocha(report: &Value) -> Option<TestResults> {
    let stats = &report["stats"];
    let counts = TestCounts {
        passed: read_count(stats, "passes")?,
        failed: read_count(stats, "failures")?,
        skipped: read_count(stats, "pending").unwrap_or(0),
        ..TestCounts::default()
    };
    let failures = report["failures"].as_array().into_iter().flatten();
    let failed = failures.map(|case| {
        let name = case["fullTitle"].as_str().unwrap_or_default().to_owned();
        let error = &case["err"];
        failed_test(
            name,
            error["stack"]
                .as_str()
                .or(error["message"].as_str())
                .unwrap_or_default(),
        )
    });
    Some(test_results(counts, failed.collect()))
}

pub(super) fn read_rspec(report: &Value) -> Option<TestResults> {
    let summary = &report["summary"];
    let (all, failed) = (
        read_count(summary, "example_count")?,
        read_count(summary, "failure_count")?,
    );
    let skipped = read_count(summary, "pending_count").unwrap_or(0);
    let counts = TestCounts {
        passed: all.saturating_sub(failed + skipped),
        failed,
        skipped,
        errors: read_count(summary, "errors_outside_of_examples_count").unwrap_or(0),
        ..TestCounts::default()
    };
    let examples = report["examples"].as_array().into_iter().flatten();
    let failed = examples.filter(|example| example["status"] == "failed").map(|example| {
        let (path, name) = (&example["file_path"], &example["full_description"]);
        let name = format!(
            "{} {}",
            path.as_str().unwrap_or_default(),
            name.as_str().unwrap_or_default()
        );
        failed_test(name, example["exception"]["message"].as_str().unwrap_or_default())
    });
    Some(test_results(counts, failed.collect()))
}

fn test_results(counts: TestCounts, failed: Vec<FailedTest>) -> TestResults {
    TestResults {
        counts: Some(counts),
        failed,
        left_out: 0,
    }
}

fn failed_test(name: String, text: &str) -> FailedTest {
    let text = plain_text(text);
    let (message, details) = message_and_details(dedent_lines(text.lines()));
    FailedTest { name, message, details }
}

fn read_count(object: &Value, key: &str) -> Option<u64> {
    object[key].as_u64().filter(|&count| count <= 9_999_999)
}
