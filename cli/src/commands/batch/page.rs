//! The summary of a batch: a table in Markdown, and a page that a browser opens without a server.

use tool_core::api::{Dollars, Problem, Status};

use super::results::BatchResult;
use crate::commands::ci::summary::{escape_cell, status_word};
use crate::output::clean_output;

/// Bytes of an answer that the page shows. The results have all of it.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ccc;padding:.3rem .6rem;text-align:left}\
td.number,th.number{text-align:right}.failed,.cancelled{color:#a40000}pre{white-space:pre-wrap;background:#f5f5f5;padding:1rem}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#242424}.failed,.cancelled{color:#f88}}";

struct BatchTotals {
    complete: usize,
    failed: usize,
    changed: usize,
    tokens: u64,
    cost_nanos: u64,
}

impl BatchTotals {
    fn add_results(results: &[BatchResult]) -> Self {
        let mut totals = Self {
            complete: 0,
            failed: 0,
            changed: 0,
            tokens: 0,
            cost_nanos: 0,
        };
        for result in results {
            if result.status == Status::Complete {
                totals.complete += 1;
            } else {
                totals.failed += 1;
            }
            totals.changed += usize::from(!result.files_modified.is_empty());
            totals.tokens += count_tokens(result);
            totals.cost_nanos += result.cost().map_or(0, Dollars::nanos);
        }
        totals
    }

    /// `200 repositories: 198 complete, 2 failed, 5 changed, 1200 tokens, $0.0312`.
    fn line(&self) -> String {
        format!(
            "{}: {} complete, {} failed, {} changed, {} tokens, {}",
            count_repositories(self.complete + self.failed),
            self.complete,
            self.failed,
            self.changed,
            self.tokens,
            Dollars::from_nanos(self.cost_nanos)
        )
    }
}

/// `1 repository` or `200 repositories`.
pub(super) fn count_repositories(repositories: usize) -> String {
    match repositories {
        1 => "1 repository".to_owned(),
        _ => format!("{repositories} repositories"),
    }
}

fn count_tokens(result: &BatchResult) -> u64 {
    let usage = result.usage.as_ref();
    usage.map_or(0, |usage| usage.input_tokens + usage.output_tokens)
}

fn cost_text(result: &BatchResult) -> String {
    result.cost().map_or_else(|| "?".to_owned(), |cost| cost.to_string())
}

/// The last line of a batch on the terminal.
pub(super) fn totals_line(results: &[BatchResult]) -> String {
    BatchTotals::add_results(results).line()
}

pub(super) fn write_markdown(results: &[BatchResult]) -> String {
    let mut text = format!("# Batch\n\n{}\n\n", BatchTotals::add_results(results).line());
    text.push_str("| repository | operation | result | files | tokens | cost | seconds | error |\n");
    text.push_str("|---|---|---|---:|---:|---:|---:|---|\n");
    for result in results {
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {:.1} | {} |\n",
            escape_cell(&result.repository),
            result.operation,
            status_word(result.status),
            result.files_modified.len(),
            count_tokens(result),
            cost_text(result),
            result.seconds,
            escape_cell(problem_message(result.error.as_ref())),
        ));
    }
    text
}

fn problem_message(problem: Option<&Problem>) -> &str {
    problem.map_or("", |problem| problem.message.as_str())
}

/// `summary.html`: no script runs in it, and nothing is loaded.
pub(super) fn write_page(results: &[BatchResult]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Batch</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>Batch</h1>\n<p>{}</p>\n<table>\n<tr><th>repository</th><th>operation</th><th>result</th>\
         <th class=\"number\">files</th><th class=\"number\">tokens</th><th class=\"number\">cost</th>\
         <th class=\"number\">seconds</th></tr>\n",
        BatchTotals::add_results(results).line()
    );
    for result in results {
        text.push_str(&format!(
            "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td class=\"{status}\">{status}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{:.1}</td></tr>\n",
            escape_html(&result.id),
            escape_html(&result.repository),
            result.operation,
            result.files_modified.len(),
            count_tokens(result),
            cost_text(result),
            result.seconds,
            status = status_word(result.status),
        ));
    }
    text.push_str("</table>\n");
    for result in results {
        text.push_str(&write_section(result));
    }
    text.push_str("</body>\n</html>\n");
    text
}

fn write_section(result: &BatchResult) -> String {
    let mut text = format!(
        "<details id=\"{}\">\n<summary>{}</summary>\n",
        escape_html(&result.id),
        escape_html(&result.repository)
    );
    if let Some(problem) = &result.error {
        text.push_str(&format!("<p class=\"failed\">{}</p>\n", escape_html(&problem.message)));
    }
    for part in [Some(&result.output), result.diff.as_ref()].into_iter().flatten() {
        let shown = &part[..part.floor_char_boundary(ANSWER_BYTES_MAX)];
        text.push_str(&format!("<pre>{}</pre>\n", escape_html(shown)));
    }
    text.push_str("</details>\n");
    text
}

fn escape_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in clean_output(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escape_html;

    #[test]
    fn text_stays_text_in_a_page() {
        assert_eq!(
            escape_html("<script>a & 'b' \"c\"</script>\u{1b}"),
            "&lt;script&gt;a &amp; &#39;b&#39; &quot;c&quot;&lt;/script&gt;"
        );
    }
}
