//! Result of a run, whatever ran it, and its description in words.

use std::fmt::Write;

use skill_details::{TestCounts, TestDetails, TestRun, TestRunner, TestStatus};
use skill_sdk::{Outcome, RunReport};

/// Failing tests that are shown with their details.
const DETAILED_MAX: usize = 30;
/// Failing tests that are named at all.
const NAMED_MAX: usize = 300;
/// Lines of details of one test.
pub(crate) const DETAIL_LINES_MAX: usize = 24;
/// Longest line of an answer; the rest is cut.
const LINE_BYTES_MAX: usize = 400;
/// Lines from the end of an output that nothing could be read from.
const TAIL_LINES: usize = 60;
/// Bytes of that end.
const TAIL_BYTES: usize = 8 << 10;

/// A test that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailedTest {
    /// Its name, with the file where the runner says it.
    pub(crate) name: String,
    /// The failure, in a line.
    pub(crate) message: String,
    /// More lines: where, and what was compared.
    pub(crate) details: Vec<String>,
}

/// Results read from an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Results {
    /// The runner's own counts; absent where it did not come to them.
    pub(crate) counts: Option<TestCounts>,
    pub(crate) failures: Vec<FailedTest>,
}

/// The answer. `notes` come after the first lines.
pub(crate) fn render(
    runner: TestRunner,
    report: &RunReport,
    output: &str,
    results: &Results,
    notes: &[String],
) -> Outcome {
    let run = TestRun::new(
        runner,
        report.exit_code,
        report.timed_out,
        report.duration_ms,
        results.counts,
    );
    let mut text = format!("{}\n", run.verdict());
    let _ = writeln!(text, "command: {}", quoted(&report.command));
    let _ = writeln!(text, "{}; sandbox: {}", run.ending(), sandbox(&report.sandbox));
    if report.output_cut {
        text.push_str("note: the middle of the output was left out, so failing tests may be missing here\n");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    let cut = failures(&mut text, &results.failures);
    let has_failed = run.status != TestStatus::Passed;
    let unread = results.counts.is_none() || (has_failed && results.failures.is_empty());
    if unread {
        tail(&mut text, output);
    }
    let shown = DETAILED_MAX + NAMED_MAX;
    let details = TestDetails {
        run,
        failing: results
            .failures
            .iter()
            .take(shown)
            .map(|failure| self::cut(&failure.name))
            .collect(),
        failing_left_out: results.failures.len().saturating_sub(shown) as u64,
    };
    Outcome {
        text,
        truncated: cut || report.output_cut,
        ..Outcome::default()
    }
    .with_details(&details)
}

fn sandbox(name: &str) -> String {
    match name {
        "none" => "none (the run was not contained)".to_owned(),
        "landlock" => "landlock (a copy of the repository, and no network at all)".to_owned(),
        name => name.to_owned(),
    }
}

fn failures(text: &mut String, failures: &[FailedTest]) -> bool {
    for (at, failure) in failures.iter().take(DETAILED_MAX).enumerate() {
        let _ = write!(text, "\n{}. {}\n", at + 1, cut(&failure.name));
        if !failure.message.is_empty() {
            let _ = writeln!(text, "   {}", cut(&failure.message));
        }
        for line in failure.details.iter().take(DETAIL_LINES_MAX) {
            let _ = writeln!(text, "{}", format!("     {}", cut(line)).trim_end());
        }
    }
    let rest = failures.get(DETAILED_MAX..).unwrap_or_default();
    if rest.is_empty() {
        return false;
    }
    text.push_str("\nalso failed:\n");
    for failure in rest.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "  {}", cut(&format!("{} - {}", failure.name, failure.message)));
    }
    if rest.len() > NAMED_MAX {
        let _ = writeln!(text, "  … and {} more", rest.len() - NAMED_MAX);
    }
    text.push_str("Details of these are left out: run one of them with `paths` or `filter` to see them.\n");
    true
}

/// The end of an output.
fn tail(text: &mut String, output: &str) {
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
        let _ = writeln!(text, "{}", format!("  {}", cut(line)).trim_end());
    }
}

/// A command as a shell would take it.
fn quoted(command: &[String]) -> String {
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

fn cut(line: &str) -> String {
    match skill_sdk::text::clip(line, LINE_BYTES_MAX) {
        (line, 0) => line.to_owned(),
        (kept, _) => format!("{kept}…"),
    }
}

/// Removes terminal sequences, and of a line that was written over what it was before.
pub(crate) fn plain(output: &str) -> String {
    let mut plain = String::with_capacity(output.len());
    let mut chars = output.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                // Parameters, then one letter.
                while chars.next_if(|c| matches!(c, '0'..='?' | ' '..='/')).is_some() {}
                chars.next();
            }
            '\u{1b}' => {
                chars.next();
            }
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => plain.truncate(plain.rfind('\n').map_or(0, |at| at + 1)),
            c => plain.push(c),
        }
    }
    plain
}

/// Removes the indentation that all lines share, and empty lines at both ends.
pub(crate) fn dedent<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let lines: Vec<&str> = lines.into_iter().map(str::trim_end).collect();
    let filled = || lines.iter().filter(|line| !line.is_empty());
    let indent = filled()
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(lines.len());
    let last = lines
        .iter()
        .rposition(|line| !line.is_empty())
        .map_or(first, |at| at + 1);
    lines[first..last]
        .iter()
        .map(|line| line.get(indent..).unwrap_or_default().to_owned())
        .collect()
}

/// The first line as the message, the others as details, with frames inside the runner left out.
pub(crate) fn message_and_details(lines: Vec<String>) -> (String, Vec<String>) {
    let mut lines = lines.into_iter();
    let message = lines.next().unwrap_or_default();
    let rest: Vec<String> = lines.filter(|line| !is_inner_frame(line)).collect();
    (message.trim().to_owned(), dedent(rest.iter().map(String::as_str)))
}

/// A frame of a JavaScript stack in node itself or in a package.
fn is_inner_frame(line: &str) -> bool {
    let line = line.trim_start();
    let frame = line.starts_with("at ") || line.starts_with('❯');
    (frame || line.ends_with(')')) && (line.contains("(node:") || line.contains("node_modules/"))
        || line.starts_with("at node:")
        || line.starts_with("at new Promise (<anonymous>)")
        || line.starts_with("at new SafePromise")
        || line.starts_with("at Array.map (<anonymous>)")
        || line.starts_with("at async Promise.all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_are_removed() {
        assert_eq!(
            plain("\u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m a\r\n10%\r20%\rdone\n"),
            "FAIL a\ndone\n"
        );
        assert_eq!(plain("a\u{1b}"), "a");
    }

    #[test]
    fn commands_are_quoted_where_a_shell_would_need_it() {
        let command = ["python3", "-m", "pytest", "-k", "a and 'b'", ""].map(str::to_owned);
        assert_eq!(quoted(&command), r"python3 -m pytest -k 'a and '\''b'\''' ''");
    }
}
