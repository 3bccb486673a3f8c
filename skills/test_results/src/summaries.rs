//! Reads runners that print only text: their last summary, and the headings of their failures.

use skill_details::TestCounts;

use crate::text::{dedent_lines, parse_number};
use crate::{FailedTest, TestResults};

/// Reads `Ran 3 tests in 0.001s`, then `OK (skipped=1)` or `FAILED (failures=1, errors=1)`.
pub(super) fn read_unittest(output: &str) -> TestResults {
    let lines: Vec<&str> = output.lines().collect();
    let counts = unittest_counts(&lines);
    let headings = |line: &str| {
        let name = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "))?;
        Some(name.to_owned())
    };
    let is_rule = |line: &str| line.starts_with("======") || line.starts_with("------");
    test_results(counts, failure_blocks(&lines, headings, is_rule, last_line))
}

fn unittest_counts(lines: &[&str]) -> Option<TestCounts> {
    let at = lines
        .iter()
        .rposition(|line| line.starts_with("Ran ") && line.contains(" test"))?;
    let ran = parse_number(lines[at].split(' ').nth(1)?)?;
    let verdict = lines[at..].iter().skip(1).find(|line| !line.is_empty())?;
    let (word, numbers) = verdict.split_once(" (").unwrap_or((verdict, ""));
    if !["OK", "FAILED", "NO TESTS RAN"].contains(&word) {
        return None;
    }
    let mut counts = TestCounts::default();
    for part in numbers
        .trim_end_matches(')')
        .split(", ")
        .filter(|part| !part.is_empty())
    {
        let (word, count) = part.split_once('=')?;
        let count = parse_number(count)?;
        match word {
            "failures" => counts.failed = count,
            "errors" => counts.errors = count,
            "skipped" => counts.skipped = count,
            "expected failures" => counts.xfailed = count,
            "unexpected successes" => counts.xpassed = count,
            _ => return None,
        }
    }
    let others = counts.failed + counts.errors + counts.skipped + counts.xfailed + counts.xpassed;
    counts.passed = ran.saturating_sub(others);
    Some(counts)
}

/// Reads `3 runs, 4 assertions, 1 failures, 0 errors, 0 skips`; test-unit says `tests`, `omissions` and `pendings`.
pub(super) fn read_minitest(output: &str) -> TestResults {
    let lines: Vec<&str> = output.lines().collect();
    let counts = lines.iter().rev().find_map(|line| {
        let mut counts = TestCounts::default();
        let mut ran = None;
        for part in line.split(", ") {
            let (count, word) = part.split_once(' ')?;
            let count = parse_number(count)?;
            match word.trim() {
                "runs" | "tests" => ran = Some(count),
                "failures" => counts.failed = count,
                "errors" => counts.errors = count,
                "skips" | "omissions" | "pendings" => counts.skipped += count,
                "assertions" | "notifications" => {}
                _ => return None,
            }
        }
        counts.passed = ran?.saturating_sub(counts.failed + counts.errors + counts.skipped);
        Some(counts)
    });
    let heading = |line: &str| {
        let line = line.trim_start();
        if let Some((start, name)) = line.split_once(") ")
            && start.bytes().all(|byte| byte.is_ascii_digit())
            && (name == "Failure:" || name == "Error:")
        {
            return Some(String::new());
        }
        let name = line
            .strip_prefix("Failure: ")
            .or_else(|| line.strip_prefix("Error: "))?;
        Some(name.trim_end_matches(':').to_owned())
    };
    let mut failed = failure_blocks(&lines, heading, |line| line.starts_with("====="), first_line);
    for test in failed.iter_mut().filter(|test| test.name.is_empty()) {
        // minitest names the test in the line after the heading: `TestA#test_b [test/a.rb:5]:`.
        let (name, place) = test
            .message
            .split_once(" [")
            .unwrap_or((test.message.trim_end_matches(':'), ""));
        test.name = name.to_owned();
        let place = place.trim_end_matches([':', ']']).to_owned();
        test.message = if test.details.is_empty() {
            String::new()
        } else {
            test.details.remove(0)
        };
        if !place.is_empty() {
            test.details.insert(0, place);
        }
    }
    test_results(counts, failed)
}

/// Reads `OK (3 tests, 4 assertions)`, or `Tests: 3, Assertions: 4, Failures: 1.`
pub(super) fn read_phpunit(output: &str) -> TestResults {
    let lines: Vec<&str> = output.lines().collect();
    let counts = lines.iter().rev().find_map(|line| {
        if let Some(rest) = line.strip_prefix("OK (") {
            let passed = parse_number(rest.split(' ').next()?)?;
            return Some(TestCounts {
                passed,
                ..TestCounts::default()
            });
        }
        let rest = line.strip_prefix("Tests: ")?.trim_end_matches('.');
        let (ran, rest) = rest.split_once(", ").unwrap_or((rest, ""));
        let mut counts = TestCounts::default();
        for part in rest.split(", ").filter(|part| !part.is_empty()) {
            let (word, count) = part.split_once(": ")?;
            let count = parse_number(count)?;
            match word {
                "Failures" => counts.failed = count,
                "Errors" => counts.errors = count,
                "Skipped" | "Incomplete" => counts.skipped += count,
                "Warnings" => counts.warnings = count,
                _ => {}
            }
        }
        counts.passed = parse_number(ran)?.saturating_sub(counts.failed + counts.errors + counts.skipped);
        Some(counts)
    });
    let heading = |line: &str| {
        let (start, name) = line.split_once(") ")?;
        let is_number = !start.is_empty() && start.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && name.contains("::")).then(|| name.to_owned())
    };
    let is_end = |line: &str| line.starts_with("FAILURES!") || line.starts_with("ERRORS!") || line == "--";
    test_results(counts, failure_blocks(&lines, heading, is_end, first_line))
}

/// Reads `3 tests, 1 failure, 1 skipped`, preceded by `2 doctests, ` if there are some.
pub(super) fn read_exunit(output: &str) -> TestResults {
    let lines: Vec<&str> = output.lines().collect();
    let counts = lines.iter().rev().find_map(|line| {
        let (mut counts, mut ran) = (TestCounts::default(), None);
        for part in line.split(", ") {
            let (count, word) = part.split_once(' ')?;
            let count = parse_number(count)?;
            match word {
                "test" | "tests" | "doctest" | "doctests" | "property" | "properties" => {
                    ran = Some(ran.unwrap_or(0) + count);
                }
                "failure" | "failures" => counts.failed = count,
                "skipped" => counts.skipped = count,
                "excluded" => counts.deselected = count,
                "invalid" => counts.errors = count,
                _ => return None,
            }
        }
        let others = counts.failed + counts.skipped + counts.deselected + counts.errors;
        counts.passed = ran?.saturating_sub(others);
        Some(counts)
    });
    let heading = |line: &str| {
        let (start, name) = line.strip_prefix("  ")?.split_once(") ")?;
        let is_number = !start.trim().is_empty() && start.trim().bytes().all(|byte| byte.is_ascii_digit());
        (is_number && (name.starts_with("test ") || name.starts_with("doctest "))).then(|| name.to_owned())
    };
    test_results(
        counts,
        failure_blocks(&lines, heading, |line| line.starts_with("Finished in "), second_line),
    )
}

/// Reads `Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3`, one for each project.
pub(super) fn read_dotnet(output: &str) -> TestResults {
    let lines: Vec<&str> = output.lines().collect();
    let mut counts: Option<TestCounts> = None;
    for line in &lines {
        let Some((verdict, numbers)) = line.trim().split_once("! ") else {
            continue;
        };
        if !["Passed", "Failed", "Skipped"].contains(&verdict) {
            continue;
        }
        let sum = counts.get_or_insert_default();
        for part in numbers.trim_start_matches([' ', '-']).split(',') {
            let Some((word, count)) = part.split_once(':') else {
                continue;
            };
            let Some(count) = parse_number(count.trim()) else {
                continue;
            };
            match word.trim() {
                "Failed" => sum.failed += count,
                "Passed" => sum.passed += count,
                "Skipped" => sum.skipped += count,
                _ => {}
            }
        }
    }
    let errors = lines.iter().filter(|line| line.contains(": error ")).count();
    if errors > 0 && counts.is_none() {
        counts.get_or_insert_default().errors = 1;
    }
    let heading = |line: &str| {
        let name = line.strip_prefix("  Failed ")?;
        Some(name.rsplit_once(" [").map_or(name, |(name, _)| name).to_owned())
    };
    test_results(
        counts,
        failure_blocks(&lines, heading, |line| !line.starts_with("  "), second_line),
    )
}

/// Reads `80% tests passed, 1 tests failed out of 5`, then `3 - name (Failed)`.
pub(super) fn read_ctest(output: &str) -> TestResults {
    let lines: Vec<&str> = output.lines().collect();
    let counts = lines.iter().rev().find_map(|line| {
        if *line == "No tests were found!!!" {
            return Some(TestCounts::default());
        }
        // New versions leave out the failures if there are none.
        let (_, rest) = line.split_once("% tests passed")?;
        let all = parse_number(rest.rsplit(' ').next()?)?;
        let failed = match rest.strip_prefix(", ") {
            Some(rest) => parse_number(rest.split(' ').next()?)?,
            None => 0,
        };
        let not_run = lines
            .iter()
            .filter(|line| line.ends_with(" (Not Run)") && line.contains(" - "))
            .count();
        let skipped = lines
            .iter()
            .filter(|line| line.ends_with(" (Skipped)") && line.contains(" - "))
            .count();
        let broken = (not_run as u64).min(failed);
        Some(TestCounts {
            passed: all.saturating_sub(failed + skipped as u64),
            failed: failed - broken,
            errors: broken,
            skipped: skipped as u64,
            ..TestCounts::default()
        })
    });
    let failed = lines.iter().filter_map(|line| {
        let (number, rest) = line.trim_start().split_once(" - ")?;
        let (name, why) = rest.rsplit_once(" (")?;
        let is_failure = number.bytes().all(|byte| byte.is_ascii_digit()) && why != "Skipped)" && why != "Disabled)";
        is_failure.then(|| FailedTest {
            name: name.to_owned(),
            message: why.trim_end_matches(')').to_owned(),
            details: output_of(&lines, name),
        })
    });
    test_results(counts, failed.collect())
}

/// Output of a test, which CTest prints between its start and its result.
fn output_of(lines: &[&str], name: &str) -> Vec<String> {
    let result = format!(" {name} ");
    let at = lines
        .iter()
        .position(|line| line.contains("Test #") && line.contains(&result) && line.contains("***"));
    let Some(at) = at else { return Vec::new() };
    let is_next = |line: &str| line.contains("Test #") || line.contains("Start ") || line.contains("% tests passed");
    let end = lines[at + 1..].iter().position(|line| is_next(line));
    let own = &lines[at + 1..end.map_or(lines.len(), |end| at + 1 + end)];
    let last = own.iter().rposition(|line| !line.trim().is_empty());
    let own = &own[..last.map_or(0, |last| last + 1)];
    dedent_lines(own.iter().take(crate::DETAIL_LINES_MAX).copied())
}

fn test_results(counts: Option<TestCounts>, failed: Vec<FailedTest>) -> TestResults {
    TestResults {
        counts,
        failed,
        left_out: 0,
    }
}

/// Failures that begin with a heading and end with the next one, or with a line for which `is_end` is true.
fn failure_blocks(
    lines: &[&str],
    heading: impl Fn(&str) -> Option<String>,
    is_end: impl Fn(&str) -> bool,
    message: fn(&[String]) -> usize,
) -> Vec<FailedTest> {
    let mut failed = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let name = heading(lines[at]);
        at += 1;
        let Some(name) = name else { continue };
        // A rule may follow the heading directly.
        let start = at + usize::from(lines.get(at).is_some_and(|line| line.starts_with("-----")));
        let end = lines[start..]
            .iter()
            .position(|line| is_end(line) || heading(line).is_some())
            .map_or(lines.len(), |length| start + length);
        let mut details = dedent_lines(lines[start..end].iter().copied());
        let chosen = message(&details);
        let message = if chosen < details.len() {
            details.remove(chosen)
        } else {
            String::new()
        };
        failed.push(FailedTest {
            name,
            message: message.trim().to_owned(),
            details,
        });
        at = end;
    }
    failed
}

fn first_line(_: &[String]) -> usize {
    0
}

fn second_line(lines: &[String]) -> usize {
    usize::from(lines.len() > 1)
}

/// Python ends a trace with the error.
fn last_line(lines: &[String]) -> usize {
    lines.len().saturating_sub(1)
}
