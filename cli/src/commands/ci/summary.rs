//! The summary of a job in Markdown, as a CI system shows it.
//!
//! The answer is a model's Markdown. An image in it would make the reader's browser, or the system, send a request to a
//! server of the model's choice, so images become text; so do HTML comments and elements that load something.

use tool_core::api::{Problem, SessionResult, Status};

use super::JobReport;
use crate::output::{clean_output, without_commands};

/// Largest answer of a summary. GitHub refuses a summary above 1 MiB.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

const FILES_MAX: usize = 50;

const LOADING: [&str; 19] = [
    "img", "image", "input", "picture", "source", "video", "audio", "track", "svg", "iframe", "frame", "object",
    "embed", "link", "base", "meta", "body", "style", "script",
];

pub(super) fn write_job_summary(report: &JobReport<'_>) -> String {
    let result = report.result;
    let mut text = format!("## tool {}: {}\n\n", result.operation, status_word(result.status));
    text.push_str(&write_table(report));
    if let Some(problem) = &result.error {
        text.push_str(&problem_lines(problem));
    }
    text.push_str(&write_files(result));
    text.push_str(&harmless_markdown(&result.output, ANSWER_BYTES_MAX));
    text.push('\n');
    text
}

/// The word for the status of a session.
pub(crate) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Complete => "complete",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

fn write_table(report: &JobReport<'_>) -> String {
    let mut rows = vec![("model", escape_cell(report.model))];
    if let Some(usage) = &report.result.usage {
        rows.push(("tokens", (usage.input_tokens + usage.output_tokens).to_string()));
        if let Some(cost) = usage.cost {
            rows.push(("cost", cost.to_string()));
        }
    }
    rows.push(("findings", report.findings.len().to_string()));
    rows.push(("changed files", report.result.files_modified.len().to_string()));
    if let Some(distrust) = report.distrust {
        rows.push(("trust", format!("the change is not trusted: {distrust}")));
    }
    let mut text = "| | |\n|---|---|\n".to_owned();
    for (name, value) in rows {
        text.push_str(&format!("| {name} | {value} |\n"));
    }
    text + "\n"
}

fn problem_lines(problem: &Problem) -> String {
    let mut text = format!("**{}**\n\n", escape_cell(&problem.message));
    if let Some(hint) = &problem.hint {
        text.push_str(&format!("Hint: {}\n\n", escape_cell(hint)));
    }
    text
}

fn write_files(result: &SessionResult) -> String {
    let mut text = String::new();
    for file in result.files_modified.iter().take(FILES_MAX) {
        text.push_str(&format!("- changed: {}\n", escape_cell(file)));
    }
    let more = result.files_modified.len().saturating_sub(FILES_MAX);
    if more > 0 {
        text.push_str(&format!("- and {more} more\n"));
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// Escapes text for one line of Markdown.
pub(crate) fn escape_cell(text: &str) -> String {
    let mut plain = String::new();
    for character in clean_output(text).chars() {
        match character {
            '\n' | '\t' => plain.push(' '),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '|' | '!' | '&' | '~' | '$' | '@' => {
                plain.push('\\');
                plain.push(character);
            }
            other => plain.push(other),
        }
    }
    plain
}

/// A model's Markdown, shortened, in which nothing loads by itself and no line is a command to a runner.
pub(crate) fn harmless_markdown(markdown: &str, bytes_max: usize) -> String {
    let mut text = without_commands(&without_loading(&clean_output(markdown)));
    let end = text.floor_char_boundary(bytes_max);
    if end < text.len() {
        text.truncate(end);
        text.push_str("\n\n… The rest is in answer.md.\n");
    }
    text
}

/// Turns images, HTML comments and elements that load something into text, also in code: the CI system may not agree
/// with this parser about what is code.
fn without_loading(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['!', '<']) {
        let (before, after) = rest.split_at(at);
        safe.push_str(before);
        let sign = &after[..1];
        match sign {
            "!" if after[1..].starts_with('[') => safe.push_str("! "),
            "<" if loads_something(&after[1..]) => safe.push_str("&lt;"),
            _ => safe.push_str(sign),
        }
        rest = &after[1..];
    }
    safe.push_str(rest);
    safe
}

/// True if the text after `<` begins an element that loads something, a comment or a declaration.
fn loads_something(text: &str) -> bool {
    if text.starts_with(['!', '?']) {
        return true;
    }
    let name: String = text
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect();
    LOADING.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_loads_by_itself_and_no_line_is_a_command() {
        let hostile =
            "![a](https://a.example/?k=1) <IMG src=x> <!-- hidden -->\n::add-mask::x\r\n `![b][c]` a < b, Vec<T>";
        assert_eq!(
            harmless_markdown(hostile, 1_000),
            "! [a](https://a.example/?k=1) &lt;IMG src=x> &lt;!-- hidden -->\n: :add-mask::x\n `! [b][c]` a < b, Vec<T>"
        );
        assert_eq!(harmless_markdown("éé", 3), "é\n\n… The rest is in answer.md.\n");
        let cut = harmless_markdown(&"<!".repeat(100), 100);
        assert!(cut.len() < 150, "what was added counts: {cut}");
    }

    #[test]
    fn a_cell_is_one_line_of_plain_text() {
        assert_eq!(escape_cell("a|b\n`c` <d> ![e]"), r"a\|b \`c\` \<d\> \!\[e\]");
    }
}
