//! Describes the results of suites.

use std::fmt::Write;

use skill_details::{TestCounts, TestDetails, TestRun};
use skill_sdk::{Failure, Outcome, SuiteCounts, SuiteFailure, SuiteResults, TestSuite};

/// Limit for failing tests that are shown with details.
const DETAILED_MAX: usize = 30;
/// Limit for failing tests that are named.
const NAMED_MAX: usize = 300;
/// Limit for the lines of details of one test.
const DETAIL_LINES_MAX: usize = 24;
/// Limit for a line of an answer in bytes.
const LINE_BYTES_MAX: usize = 400;
/// Lines from the end of an output without readable results.
const TAIL_LINES: usize = 60;
/// Limit for that end in bytes.
const TAIL_BYTES: usize = 8 << 10;

/// Writes the answer for all suites. A suite that could not run is a failure only if no other suite ran.
pub(crate) fn render_suites(suites: Vec<TestSuite>) -> Result<Outcome, Failure> {
    let mut sections = Vec::new();
    let mut not_run: Vec<(String, Failure)> = Vec::new();
    for suite in suites {
        let name = suite_heading(&suite.recipe, &suite.directory);
        match suite.outcome {
            Ok(results) => sections.push(Section::new(&suite.recipe, name, &suite.reason, results)),
            Err(failure) => not_run.push((name, failure)),
        }
    }
    let runs = sections.iter().map(|section| section.run.clone());
    let Some(mut run) = runs.reduce(|sum, run| sum.with(&run)) else {
        let failure = not_run.into_iter().next().map(|(_, failure)| failure);
        return Err(failure.unwrap_or_else(|| Failure::not_found("no test suite found")));
    };
    run.not_run = not_run
        .iter()
        .map(|(name, failure)| format!("{name}: {}", failure.message))
        .collect();
    let mut text = format!("{}\n", run.verdict());
    let has_many = sections.len() + not_run.len() > 1;
    for section in &sections {
        if has_many {
            let _ = writeln!(text, "\n## {}: {}", section.name, section.run.verdict());
        }
        text.push_str(&section.text);
    }
    for (name, failure) in &not_run {
        let _ = writeln!(text, "\n## {name}: not run\n{}", cut_line(&failure.message));
        if let Some(hint) = &failure.hint {
            let _ = writeln!(text, "hint: {}", cut_line(hint));
        }
    }
    let details = TestDetails {
        run,
        failing: sections.iter().flat_map(|section| section.failing.clone()).collect(),
        failing_left_out: sections.iter().map(|section| section.left_out).sum(),
    };
    Ok(Outcome {
        text,
        truncated: sections.iter().any(|section| section.is_cut),
        ..Outcome::default()
    }
    .with_details(&details))
}

/// `npm`, or `npm in frontend`.
fn suite_heading(recipe: &str, directory: &str) -> String {
    match directory {
        "" => recipe.to_owned(),
        directory => format!("{recipe} in {directory}"),
    }
}

/// The part of the answer about one suite.
struct Section {
    name: String,
    run: TestRun,
    text: String,
    failing: Vec<String>,
    left_out: u64,
    is_cut: bool,
}

impl Section {
    fn new(recipe: &str, name: String, reason: &str, results: SuiteResults) -> Self {
        let report = &results.report;
        let counts = results.counts.map(counts_of);
        let run = TestRun::new(recipe, report.exit_code, report.timed_out, report.duration_ms, counts);
        let mut text = format!("command: {}\n", quote_command(&report.command));
        let _ = writeln!(text, "{}; sandbox: {}", run.ending(), sandbox_name(&report.sandbox));
        if report.output_cut {
            text.push_str("note: the middle of the output was left out, so failing tests may be missing here\n");
        }
        let _ = writeln!(text, "runner: {name} ({})", cut_line(reason));
        for note in &results.notes {
            let _ = writeln!(text, "{}", cut_line(note));
        }
        if let Some(hint) = counts.filter(|counts| !counts.any_ran()).map(empty_run_hint) {
            let _ = writeln!(text, "{hint}");
        }
        let is_cut = write_failures(&mut text, &results.failed, results.failed_left_out);
        let has_failed = run.has_failed();
        if counts.is_none() || (has_failed && results.failed.is_empty()) {
            write_tail(&mut text, &report.output);
        }
        let shown = DETAILED_MAX + NAMED_MAX;
        Self {
            failing: results
                .failed
                .iter()
                .take(shown)
                .map(|test| cut_line(&test.name))
                .collect(),
            left_out: results.failed.len().saturating_sub(shown) as u64 + results.failed_left_out,
            is_cut: is_cut || report.output_cut,
            name,
            run,
            text,
        }
    }
}

fn empty_run_hint(counts: TestCounts) -> &'static str {
    if counts.deselected > 0 {
        "hint: the filter matches no test; leave it out to run all"
    } else {
        "hint: no test was found there; list_files shows what exists"
    }
}

fn counts_of(counts: SuiteCounts) -> TestCounts {
    TestCounts {
        failed: counts.failed,
        errors: counts.errors,
        passed: counts.passed,
        skipped: counts.skipped,
        todo: counts.todo,
        xfailed: counts.xfailed,
        xpassed: counts.xpassed,
        deselected: counts.deselected,
        warnings: counts.warnings,
    }
}

fn sandbox_name(name: &str) -> String {
    match name {
        "none" => "none (the run was not contained)".to_owned(),
        "landlock" => "landlock (a copy of the repository, and no network at all)".to_owned(),
        name => name.to_owned(),
    }
}

fn write_failures(text: &mut String, failures: &[SuiteFailure], left_out: u64) -> bool {
    for (at, failure) in failures.iter().take(DETAILED_MAX).enumerate() {
        let _ = write!(text, "\n{}. {}\n", at + 1, cut_line(&failure.name));
        if !failure.message.is_empty() {
            let _ = writeln!(text, "   {}", cut_line(&failure.message));
        }
        for line in failure.details.iter().take(DETAIL_LINES_MAX) {
            let _ = writeln!(text, "{}", format!("     {}", cut_line(line)).trim_end());
        }
    }
    let rest = failures.get(DETAILED_MAX..).unwrap_or_default();
    let unnamed = rest.len().saturating_sub(NAMED_MAX) as u64 + left_out;
    if rest.is_empty() && unnamed == 0 {
        return false;
    }
    text.push_str("\nalso failed:\n");
    for failure in rest.iter().take(NAMED_MAX) {
        let _ = writeln!(
            text,
            "  {}",
            cut_line(&format!("{} - {}", failure.name, failure.message))
        );
    }
    if unnamed > 0 {
        let _ = writeln!(text, "  … and {unnamed} more");
    }
    text.push_str("Details of these are left out: run one of them with `paths` or `filter` to see them.\n");
    true
}

/// Writes the end of an output.
fn write_tail(text: &mut String, output: &str) {
    let output = output.trim_end();
    if output.is_empty() {
        text.push_str("\nThe run printed nothing.\n");
        return;
    }
    let lines: Vec<&str> = output.lines().collect();
    let mut from = lines.len().saturating_sub(TAIL_LINES);
    let mut bytes: usize = lines[from..]
        .iter()
        .map(|line| line.len().min(LINE_BYTES_MAX) + 1)
        .sum();
    while bytes > TAIL_BYTES && from + 1 < lines.len() {
        bytes -= lines[from].len().min(LINE_BYTES_MAX) + 1;
        from += 1;
    }
    text.push_str(if from == 0 {
        "\noutput:\n"
    } else {
        "\nend of the output:\n"
    });
    for line in &lines[from..] {
        let _ = writeln!(text, "{}", format!("  {}", cut_line(line)).trim_end());
    }
}

/// Quotes a command as for a shell.
fn quote_command(command: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@+%[]".contains(c);
    let word = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn cut_line(line: &str) -> String {
    match skill_sdk::text::clip(line, LINE_BYTES_MAX) {
        (line, 0) => line.to_owned(),
        (kept, _) => format!("{kept}…"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_where_a_shell_would_need_it() {
        let command = ["python3", "-m", "pytest", "-k", "a and 'b'", ""].map(str::to_owned);
        assert_eq!(quote_command(&command), r"python3 -m pytest -k 'a and '\''b'\''' ''");
    }
}
