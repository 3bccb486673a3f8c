//! The host's own sentence about a test run in which every test passed.
//!
//! It is built from the exit status and from counts. The counts come from the runner's last summary, read by a strict
//! grammar: numbers of a few digits beside words that are known here. A hostile suite can print wrong numbers; none of its
//! words gets into the sentence. Where nothing fits the grammar there is no sentence, and the run's text stays what it
//! is: text from outside the user's own files.

use crate::bindings::tool::skill::tests::Report;

/// Digits of a count and of a sum of counts. More of them could spell something.
const DIGITS_MAX: usize = 7;

/// The largest number of [`DIGITS_MAX`] digits.
const COUNT_MAX: u64 = 9_999_999;

/// Numbers of tests by their outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TestCounts {
    failed: u64,
    passed: u64,
    skipped: u64,
    todo: u64,
    xfailed: u64,
    xpassed: u64,
    deselected: u64,
    warnings: u64,
}

/// The sentence, where the run ended with status 0, some test passed and none failed.
pub(crate) fn passed_sentence(recipe: &str, report: &Report) -> Option<String> {
    if report.exit_code != Some(0) || report.timed_out {
        return None;
    }
    let lines: Vec<String> = report.output.lines().map(without_colours).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (counts, runner) = match recipe {
        "pytest" => (pytest(&lines)?, "pytest"),
        "npm-test" => (npm(&lines)?, "npm test"),
        _ => return None,
    };
    let has_passed = counts.passed > 0 && counts.failed == 0;
    let seconds = match report.duration_ms {
        short @ ..10_000 => format!("{:.1}", short as f64 / 1000.0),
        long => format!("{:.0}", long as f64 / 1000.0),
    };
    has_passed.then(|| {
        format!(
            "PASSED: {} in {seconds} s\n{runner} ended with exit status 0; sandbox: {}\n",
            counts.words(),
            report.sandbox
        )
    })
}

impl TestCounts {
    /// Adds a count under a word of a runner. False for a word that is not known, and for a sum that is too large.
    fn add(&mut self, count: u64, word: &str) -> bool {
        let slot = match word {
            "failed" | "failing" | "fail" | "cancelled" | "error" | "errors" | "subtests failed" => &mut self.failed,
            "passed" | "passing" | "pass" => &mut self.passed,
            "skipped" | "pending" => &mut self.skipped,
            "todo" => &mut self.todo,
            "xfailed" => &mut self.xfailed,
            "xpassed" => &mut self.xpassed,
            "deselected" => &mut self.deselected,
            "warning" | "warnings" => &mut self.warnings,
            // Sums, and parts of tests that are counted already.
            "total" | "rerun" | "subtests passed" | "subtests skipped" => return true,
            _ => return false,
        };
        *slot += count;
        *slot <= COUNT_MAX
    }

    fn words(&self) -> String {
        let warnings = if self.warnings == 1 { "warning" } else { "warnings" };
        let all = [
            (self.passed, "passed"),
            (self.skipped, "skipped"),
            (self.todo, "todo"),
            (self.xfailed, "xfailed"),
            (self.xpassed, "xpassed"),
            (self.deselected, "deselected"),
            (self.warnings, warnings),
        ];
        let shown = all.iter().filter(|(count, _)| *count > 0);
        let shown: Vec<String> = shown.map(|(count, word)| format!("{count} {word}")).collect();
        shown.join(", ")
    }
}

/// `2 passed, 1 skipped`, or nothing where a part is anything else.
fn list(text: &str, separator: &str) -> Option<TestCounts> {
    let mut counts = TestCounts::default();
    for part in text.split(separator) {
        let (number, word) = part.trim().split_once(' ')?;
        counts.add(count(number)?, word.trim()).then_some(())?;
    }
    Some(counts)
}

fn count(digits: &str) -> Option<u64> {
    let is_number = digits.len() <= DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// `== 5 passed, 1 warning in 0.06s ==`, which `-q` prints without the bars.
fn pytest(lines: &[&str]) -> Option<TestCounts> {
    lines.iter().rev().find_map(|line| {
        let (counted, time) = line.trim().trim_matches('=').trim().rsplit_once(" in ")?;
        let time = time.split(' ').next()?.strip_suffix('s')?;
        time.parse::<f64>().ok()?;
        list(counted, ", ")
    })
}

/// The counts of an npm test run. Tries the summaries in the order of the skill: jest, vitest, node, mocha.
fn npm(lines: &[&str]) -> Option<TestCounts> {
    if let Some(tests) = last(lines, "Tests: ") {
        return with_files(list(tests, ", ")?, list(last(lines, "Test Suites: ")?, ", ")?);
    }
    if let Some(files) = last(lines, "Test Files  ") {
        let without_sum = |text: &str| list(text.split(" (").next().unwrap_or(text), " | ");
        return with_files(without_sum(last(lines, "Tests  ")?)?, without_sum(files)?);
    }
    node(lines, "ℹ ").or_else(|| node(lines, "# ")).or_else(|| mocha(lines))
}

/// The counts of the tests. A file that does not load has no tests to count and fails all the same.
fn with_files(tests: TestCounts, files: TestCounts) -> Option<TestCounts> {
    (files.failed == 0).then_some(tests)
}

/// The rest of the last line that begins with `start`.
fn last<'a>(lines: &[&'a str], start: &str) -> Option<&'a str> {
    lines
        .iter()
        .rev()
        .find_map(|line| line.trim_start().strip_prefix(start))
}

/// The last `# pass 2`, `# fail 0` and so on, of node's own runner and of TAP.
fn node(lines: &[&str], mark: &str) -> Option<TestCounts> {
    let value = |word: &str| {
        let mut values = lines
            .iter()
            .rev()
            .filter_map(|line| line.strip_prefix(mark)?.strip_prefix(word));
        values.find_map(|rest| count(rest.strip_prefix(' ')?.trim()))
    };
    let mut counts = TestCounts::default();
    value("pass")?;
    for word in ["pass", "fail", "cancelled", "skipped", "todo"] {
        counts.add(value(word).unwrap_or(0), word).then_some(())?;
    }
    Some(counts)
}

/// mocha's `  2 passing (3ms)`, then `  1 pending` and `  1 failing`.
fn mocha(lines: &[&str]) -> Option<TestCounts> {
    let counted = |line: &&str| {
        let mut words = line.strip_prefix("  ")?.split(' ');
        Some((count(words.next()?)?, words.next()?.to_owned()))
    };
    let at = lines
        .iter()
        .rposition(|line| counted(line).is_some_and(|(_, word)| word == "passing"))?;
    let mut counts = TestCounts::default();
    for (number, word) in lines[at..].iter().map_while(counted) {
        counts.add(number, &word).then_some(())?;
    }
    Some(counts)
}

/// A line without sequences such as `ESC [ 32 m`.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|character: char| character.is_ascii_digit() || character == ';');
        plain.push_str(rest.strip_prefix('m').unwrap_or(rest));
    }
    plain
}

#[cfg(test)]
mod unit {
    use proptest::prelude::*;

    use super::*;

    fn sentence_of(recipe: &str, output: &str, exit_code: Option<i32>) -> Option<String> {
        let report = Report {
            command: Vec::new(),
            exit_code,
            output: output.to_owned(),
            output_cut: false,
            duration_ms: 300,
            timed_out: false,
            sandbox: "namespaces".to_owned(),
        };
        passed_sentence(recipe, &report)
    }

    #[test]
    fn a_run_in_which_every_test_passed_has_a_sentence_of_numbers() {
        let jest = "Test Suites: 1 passed, 1 total\nTests:       1 skipped, 2 passed, 3 total\nSnapshots:   0 total\n";
        let vitest = " Test Files  2 passed (2)\n      Tests  5 passed | 1 skipped (6)\n   Start at  10:00:00\n";
        for (recipe, output, counted) in [
            ("pytest", "..\n===== 2 passed in 0.06s =====\n", "2 passed"),
            (
                "pytest",
                "2 passed, 1 skipped, 3 warnings in 75.20s (0:01:15)\n",
                "2 passed, 1 skipped, 3 warnings",
            ),
            (
                "pytest",
                "= 2 passed, 1 rerun, 4 subtests passed in 0.1s =\nafterwards\n",
                "2 passed",
            ),
            ("npm-test", jest, "2 passed, 1 skipped"),
            ("npm-test", vitest, "5 passed, 1 skipped"),
            (
                "npm-test",
                "\u{1b}[34mℹ tests 2\u{1b}[39m\nℹ pass 2\nℹ fail 0\nℹ todo 0\n",
                "2 passed",
            ),
            ("npm-test", "# tests 2\n# pass  2\n\n# ok\n", "2 passed"),
            ("npm-test", "  2 passing (3ms)\n  1 pending\n", "2 passed, 1 skipped"),
        ] {
            let runner = recipe.replace("npm-test", "npm test");
            let expected =
                format!("PASSED: {counted} in 0.3 s\n{runner} ended with exit status 0; sandbox: namespaces\n");
            assert_eq!(
                sentence_of(recipe, output, Some(0)).as_deref(),
                Some(&*expected),
                "{output}"
            );
            assert_eq!(sentence_of(recipe, output, Some(1)), None, "{output}");
            assert_eq!(sentence_of(recipe, output, None), None, "{output}");
        }
    }

    #[test]
    fn a_run_without_a_clean_summary_has_no_sentence() {
        for (recipe, output) in [
            ("pytest", "1 failed, 2 passed in 0.1s\n"),
            ("pytest", "1 error in 0.1s\n"),
            ("pytest", "no tests ran in 0.00s\n"),
            ("pytest", "1 xfailed in 0.1s\n"),
            ("pytest", "2 passed, 1 IMPORTANT in 0.1s\n"),
            ("pytest", "20240101120000 passed in 0.1s\n"),
            ("pytest", "+2 passed in 0.1s\n"),
            ("pytest", "9999999 passed, 1 passed in 0.1s\n"),
            ("npm-test", "  9999999 passing (3ms)\n  9999999 pending\n  1 pending\n"),
            ("pytest", ""),
            ("npm-test", "ok\n"),
            ("npm-test", "2 passed in 0.06s\n"),
            ("npm-test", "Tests: 1 passed, 1 total\n"),
            (
                "npm-test",
                "Test Suites: 1 failed, 1 passed, 2 total\nTests: 1 passed, 1 total\n",
            ),
            (
                "npm-test",
                " Test Files  1 failed | 1 passed (2)\n Tests  1 passed (1)\n",
            ),
            ("npm-test", "# pass 1\n# fail 1\n"),
            ("npm-test", "  2 passing (3ms)\n  1 failing\n"),
            ("anything", "2 passed in 0.06s\n"),
        ] {
            assert_eq!(sentence_of(recipe, output, Some(0)), None, "{output}");
        }
    }

    proptest! {
        #[test]
        fn no_word_of_an_output_enters_the_hosts_sentence(
            before in "[ -~\n]{0,60}",
            mark in "(Q[a-z]{3}|)",
            number in "[0-9]{1,8}",
            after in "[ -~\n]{0,60}",
        ) {
            for (recipe, summary) in [
                ("pytest", format!("{number} passed{mark} in 0.1s")),
                ("npm-test", format!("# pass {number}{mark}")),
                ("npm-test", format!("  {number} passing {mark}")),
            ] {
                let said = sentence_of(recipe, &format!("{before}\n{summary}\n{after}"), Some(0)).unwrap_or_default();
                let known = ["PASSED", "passed", "skipped", "todo", "xfailed", "xpassed", "deselected", "warning",
                    "warnings", "in", "s", "pytest", "npm", "test", "ended", "with", "exit", "status", "sandbox",
                    "namespaces"];
                for word in said.split(|character: char| !character.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
                    prop_assert!(known.contains(&word), "{said}");
                }
            }
        }
    }
}
