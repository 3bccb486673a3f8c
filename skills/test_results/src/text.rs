//! Cleans the text of runners: removes terminal codes, indentation and inner frames.

use skill_details::TestCounts;

use crate::{FailedTest, TestResults};

/// Removes terminal sequences, and text that a carriage return overwrites.
pub fn plain_text(output: &str) -> String {
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

/// Removes the common indentation of lines, and empty lines at both ends.
pub(crate) fn dedent_lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
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

/// Splits lines into the first one as the message, and the others as details without frames inside of the runner.
pub(crate) fn message_and_details(lines: Vec<String>) -> (String, Vec<String>) {
    let mut lines = lines.into_iter();
    let message = lines.next().unwrap_or_default();
    let rest: Vec<String> = lines.filter(|line| !is_inner_frame(line)).collect();
    (message.trim().to_owned(), dedent_lines(rest.iter().map(String::as_str)))
}

/// True for a frame of a JavaScript stack in node itself or in a package.
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

/// Lines of a text that are not empty.
pub(crate) fn lines_of(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Reads each line as a failure. Without lines, the exit status alone decides.
pub(crate) fn read_lines(output: &str) -> TestResults {
    let failed: Vec<FailedTest> = lines_of(output)
        .into_iter()
        .map(|name| FailedTest {
            name,
            ..FailedTest::default()
        })
        .collect();
    let counts = (!failed.is_empty()).then(|| TestCounts {
        failed: failed.len() as u64,
        ..TestCounts::default()
    });
    TestResults {
        counts,
        failed,
        left_out: 0,
    }
}

/// Parses a number of at most seven digits. A longer number could encode text, and sums of short ones do not
/// overflow.
pub(crate) fn parse_number(digits: &str) -> Option<u64> {
    let is_number = (1..=7).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Cuts a line at the border of a character.
pub(crate) fn cut_line(line: &mut String, bytes_max: usize) {
    if line.len() > bytes_max {
        line.truncate(line.floor_char_boundary(bytes_max));
        line.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_failure_and_no_line_is_none() {
        let read = read_lines("a.go\n\n  b.go\n");
        let names: Vec<&str> = read.failed.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(
            (names, read.counts.map(|counts| counts.failed)),
            (vec!["a.go", "b.go"], Some(2))
        );
        assert_eq!(read_lines("\n").counts, None);
    }

    #[test]
    fn terminal_sequences_are_removed() {
        assert_eq!(
            plain_text("\u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m a\r\n10%\r20%\rdone\n"),
            "FAIL a\ndone\n"
        );
        assert_eq!(plain_text("a\u{1b}"), "a");
    }

    #[test]
    fn a_number_has_few_digits_and_nothing_else() {
        assert_eq!(parse_number("1234567"), Some(1_234_567));
        for wrong in ["", "12345678", "+1", "1a", "\u{661}"] {
            assert_eq!(parse_number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_line_is_cut_between_characters() {
        let mut line = "aé".repeat(3);
        cut_line(&mut line, 5);
        assert_eq!(line, "aéa…");
    }
}
