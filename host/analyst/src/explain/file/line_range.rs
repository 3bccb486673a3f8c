//! `explain` of some lines of a file: the definitions around them with their documentation, and the lines.

use std::fmt::Write;

use serde_json::json;

use super::{READ_LINES, callers_and_callees, describe_definition, place_of};
use crate::evidence::{AnalystTask, Evidence, FileLine, parse_extent, parse_lines};
use crate::explain::central::summarize_answer;
use crate::text::quote_code;
use crate::{AnalystStep, FileDefinition, NO_MODEL, tool_call};
use tool_provider::ToolCall;
use tool_repository::file_role::detect_language;

/// Definitions that are listed, and those that are looked up.
const DEFINITIONS_MAX: usize = 30;
const LOOKED_UP_MAX: usize = 8;
const SHOWN_LINES: usize = 80;

pub(super) fn next(brief: &AnalystTask, (first, last): (usize, usize), evidence: &Evidence<'_>) -> AnalystStep {
    if !evidence.asked("read") {
        let limit = (last - first + 1).min(READ_LINES);
        let read = json!({"path": brief.target, "offset": first, "limit": limit});
        let mut calls = vec![tool_call("read", 1, "read_file", &read)];
        calls.extend(plan_lookups(&brief.target, overlapping_definitions(brief)));
        return AnalystStep::Calls(calls);
    }
    AnalystStep::Text(write_overview(brief, (first, last), evidence))
}

/// The definitions that overlap with the lines, in their order.
fn overlapping_definitions(brief: &AnalystTask) -> &[FileDefinition] {
    brief.facts.definitions.as_deref().unwrap_or_default()
}

/// Requests the documentation of the definitions.
fn plan_lookups<'d>(path: &'d str, definitions: &'d [FileDefinition]) -> impl Iterator<Item = ToolCall> + 'd {
    let lookup = move |(at, one): (usize, &FileDefinition)| {
        let arguments = json!({"name": one.qualified_name(), "path": path, "callers": false});
        tool_call("symbol", at + 1, "explain_function", &arguments)
    };
    definitions.iter().take(LOOKED_UP_MAX).enumerate().map(lookup)
}

fn write_overview(brief: &AnalystTask, (first, last): (usize, usize), evidence: &Evidence<'_>) -> String {
    let path = &brief.target;
    let title = if first == last {
        format!("{path}:{first}")
    } else {
        format!("{path}:{first}-{last}")
    };
    let mut text = format!("# {}\n\n> {NO_MODEL}\n\n## What it is\n\n", quote_code(&title));
    if let Some(why) = evidence.why_not("read", path) {
        let _ = writeln!(text, "It was not read: {why}.");
        return text;
    }
    let total = evidence.of("read").find_map(|answer| parse_extent(answer.text()));
    let kind =
        detect_language(path).map_or_else(|| "a text file".to_owned(), |language| format!("a file in {language}"));
    let length = total.map_or_else(String::new, |(total, _)| format!(" of {total} lines"));
    let part = if first == last {
        format!("Line {first}")
    } else {
        format!("Lines {first} to {last}")
    };
    let _ = writeln!(text, "{part} of {kind}{length} ({}).", place_of(path, first, last));
    text.push_str("\n## Definitions\n");
    text.push_str(&write_definitions(path, overlapping_definitions(brief), evidence));
    text.push('\n');
    text.push_str(&callers_and_callees(&brief.facts.calls));
    let read: Vec<FileLine> = evidence
        .of("read")
        .flat_map(|answer| parse_lines(answer.text()))
        .collect();
    text.push_str(&write_source(&read, (first, last)));
    text
}

/// Each definition with its documentation, if a look-up found it.
fn write_definitions(path: &str, definitions: &[FileDefinition], evidence: &Evidence<'_>) -> String {
    if definitions.is_empty() {
        return "\nNo definition was recognised in these lines.\n".to_owned();
    }
    let mut text = String::new();
    for (at, one) in definitions.iter().take(DEFINITIONS_MAX).enumerate() {
        let answer = evidence.of("symbol").find(|answer| answer.is_number(at + 1));
        let explained = answer.map_or_else(String::new, |answer| summarize_answer(answer.text()));
        if explained.is_empty() {
            let _ = writeln!(text, "\n{}", describe_definition(path, one, true));
        } else {
            text.push_str(&explained);
        }
    }
    if definitions.len() > DEFINITIONS_MAX {
        let _ = writeln!(text, "\n… and {} more", definitions.len() - DEFINITIONS_MAX);
    }
    text
}

/// The lines themselves, up to the limit.
fn write_source(read: &[FileLine], (first, last): (usize, usize)) -> String {
    let within: Vec<&FileLine> = read
        .iter()
        .filter(|line| (first..=last).contains(&line.number))
        .collect();
    if within.is_empty() {
        return String::new();
    }
    let mut text = "## Source\n\n```text\n".to_owned();
    // Each line begins with its number, so that no line ends the block.
    for line in within.iter().take(SHOWN_LINES) {
        let _ = writeln!(text, "{:>6}  {}", line.number, line.text);
    }
    if last - first + 1 > SHOWN_LINES {
        text.push_str("     …\n");
    }
    text.push_str("```\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetFacts;
    use crate::evidence::number_lines;
    use tool_provider::{Message, TextOrigin, ToolResult};

    /// The calls for the lines, and the answer after these results.
    fn explain(results: &[(&str, &str)]) -> (Vec<String>, String) {
        let facts = TargetFacts {
            definitions: Some(vec![FileDefinition {
                name: "total".to_owned(),
                container: "Cart".to_owned(),
                signature: "get total()".to_owned(),
                is_holder: false,
                first_line: 2,
                line: 2,
                last_line: 4,
                comment_line: None,
            }]),
            ..TargetFacts::default()
        };
        let asked = "# Request\n\nOperation: explain\nTarget: the file `a.js`\nLines: 3 to 4\n\n";
        let text = crate::add_facts(asked, &facts);
        let mut messages = vec![Message::User { text }];
        let next = |messages: &[Message]| {
            let brief = AnalystTask::parse_brief(messages);
            let lines = brief.lines.expect("the request names lines");
            next(&brief, lines, &Evidence::pair_answers(messages))
        };
        let AnalystStep::Calls(calls) = next(&messages) else {
            panic!("nothing is known yet");
        };
        let asked = calls
            .iter()
            .map(|call| format!("{} {}", call.name, call.arguments))
            .collect();
        let results = results.iter().map(|(id, text)| ToolResult {
            call_id: (*id).to_owned(),
            name: String::new(),
            origin: TextOrigin::default(),
            text: (*text).to_owned(),
            is_error: text.starts_with("not-found"),
        });
        let results = results.collect();
        messages.push(Message::Assistant {
            text: String::new(),
            tool_calls: calls,
            opaque: serde_json::Value::Null,
        });
        messages.push(Message::ToolResults { results });
        let AnalystStep::Text(text) = next(&messages) else {
            panic!("all is known");
        };
        (asked, text)
    }

    #[test]
    fn an_answer_about_lines_shows_them_and_their_definitions() {
        let read = "lines 3-4 of 9\n     3\t    return sum;\n     4\t  }";
        let found = "function: a.total\nfile: a.js:2-4\nsignature: get total()\ncomment: Counts it.\n";
        let (asked, text) = explain(&[("read-1", read), ("symbol-1", found)]);
        assert_eq!(
            asked,
            [
                r#"read_file {"path":"a.js","offset":3,"limit":2}"#,
                r#"explain_function {"name":"Cart.total","path":"a.js","callers":false}"#
            ]
        );
        insta::assert_snapshot!(text, @r"
        # `a.js:3-4`

        > Written by the embedded analyst from measurements of this repository. No language model was used.

        ## What it is

        Lines 3 to 4 of a file in JavaScript of 9 lines (a.js:3-4).

        ## Definitions

        `get total()` (a.js:2-4)
        Counts it.

        ## Source

        ```text
             3      return sum;
             4    }
        ```
        ");
    }

    #[test]
    fn a_failed_look_up_leaves_the_definition() {
        let read = "lines 3-4 of 9\n     3\t    return sum;\n     4\t  }";
        let (_, text) = explain(&[("read-1", read), ("symbol-1", "not-found: no such name")]);
        assert!(text.contains("\n`get total()` of `Cart` (a.js:2-4)\n"), "{text}");
        assert!(!text.contains("not-found"), "{text}");
    }

    #[test]
    fn many_lines_are_cut() {
        let text = write_source(&number_lines(&"x\n".repeat(200)), (1, 200));
        assert_eq!(text.matches("  x\n").count(), SHOWN_LINES);
        assert!(text.ends_with("     …\n```\n"), "{text}");
    }
}
