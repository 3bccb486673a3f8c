//! Reads node's own runner in its two forms, `tap` and `spec`, and other TAP.

use crate::FailedTest;
use crate::text::{dedent_lines, message_and_details};

/// Reads TAP: `not ok 3 - name` with a YAML block, `# Subtest: name` before nested tests.
pub(super) fn parse(lines: &[&str]) -> Option<Vec<FailedTest>> {
    lines.iter().find(|line| line.starts_with("TAP version"))?;
    Some(read_failures(lines))
}

/// Reads `spec`: `ℹ pass 1`, then `✖ failing tests:` with each of them.
pub(super) fn parse_spec(lines: &[&str]) -> Option<Vec<FailedTest>> {
    lines.iter().find(|line| line.starts_with("ℹ pass "))?;
    Some(spec_failures(lines))
}

fn read_failures(lines: &[&str]) -> Vec<FailedTest> {
    let mut failures = Vec::new();
    // Names of the open subtests, each with its indentation.
    let mut around: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let text = line.trim_start();
        let indent = line.len() - text.len();
        at += 1;
        if let Some(name) = text.strip_prefix("# Subtest: ") {
            around.retain(|(outer, _)| *outer < indent);
            around.push((indent, name));
            continue;
        }
        let Some(rest) = text.strip_prefix("not ok ") else {
            continue;
        };
        let own = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let own = own.strip_prefix("- ").unwrap_or(own);
        let (own, directive) = own.split_once(" # ").unwrap_or((own, ""));
        let block = read_yaml_block(lines, &mut at);
        if directive.to_ascii_uppercase().starts_with("TODO")
            || block.iter().any(|line| line == "failureType: 'subtestsFailed'")
        {
            continue;
        }
        let mut name: Vec<&str> = around
            .iter()
            .filter(|(outer, _)| *outer < indent)
            .map(|(_, name)| *name)
            .collect();
        name.push(own);
        let (message, details) = explain_block(&block);
        failures.push(FailedTest {
            name: name.join(" › "),
            message,
            details,
        });
    }
    failures
}

/// Lines between `---` and `...`, without their indentation.
fn read_yaml_block(lines: &[&str], at: &mut usize) -> Vec<String> {
    if lines.get(*at).is_none_or(|line| line.trim() != "---") {
        return Vec::new();
    }
    let from = *at + 1;
    let length = lines[from..]
        .iter()
        .position(|line| line.trim() == "...")
        .unwrap_or(lines.len() - from);
    *at = from + length;
    dedent_lines(lines[from..from + length].iter().copied())
}

/// The error in a YAML block, and its lines about the place and the values.
fn explain_block(block: &[String]) -> (String, Vec<String>) {
    let mut message = String::new();
    let mut details = Vec::new();
    let mut key = "";
    for line in block {
        if let Some((name, value)) = line.split_once(':').filter(|_| !line.starts_with(' ')) {
            key = name;
            let value = unquote_value(value.trim());
            match name {
                "error" if !value.starts_with("|") => message = value,
                "location" => details.push(format!("at {value}")),
                "expected" | "actual" | "operator" if !value.starts_with('|') => {
                    details.push(format!("{name}: {value}"))
                }
                _ => {}
            }
            continue;
        }
        match key {
            "error" if message.is_empty() => message = line.trim().to_owned(),
            "error" | "expected" | "actual" => details.push(line.clone()),
            _ => {}
        }
    }
    (message, details)
}

fn unquote_value(value: &str) -> String {
    let quoted = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
    match quoted('\'').map(|value| value.replace("''", "'")) {
        Some(value) => value,
        None => quoted('"').map_or_else(|| value.to_owned(), |value| value.replace("\\\"", "\"")),
    }
}

/// Reads failures: `test at path:line:column`, `✖ name (1.2ms)`, then the error.
fn spec_failures(lines: &[&str]) -> Vec<FailedTest> {
    let Some(from) = lines.iter().rposition(|line| line.trim() == "✖ failing tests:") else {
        return Vec::new();
    };
    let mut failures = Vec::new();
    let mut at = from + 1;
    while at < lines.len() {
        let place = lines[at].strip_prefix("test at ");
        at += 1;
        let (Some(place), Some(name)) = (place, lines.get(at).and_then(|line| line.strip_prefix("✖ "))) else {
            continue;
        };
        at += 1;
        let end = at
            + lines[at..]
                .iter()
                .position(|line| line.starts_with("test at "))
                .unwrap_or(lines.len() - at);
        let (message, mut details) = message_and_details(dedent_lines(lines[at..end].iter().copied()));
        details.insert(0, format!("at {place}"));
        failures.push(FailedTest {
            name: without_duration(name).to_owned(),
            message: unquote_value(&message),
            details,
        });
        at = end;
    }
    failures
}

fn without_duration(name: &str) -> &str {
    match name.rsplit_once(" (") {
        Some((before, time)) if time.ends_with("ms)") => before,
        _ => name,
    }
}
