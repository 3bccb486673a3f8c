//! Compares the outcome of a call with what its case expects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{ExpectedOutcome, ProposedContent};
use crate::{CallError, CallReport};
use tool_core::text::truncate_text;
use tool_repository::diff::unified_diff;

/// Bytes of a text that are shown where a case fails: enough to see what differs.
pub(crate) const CASE_SHOWN_BYTES_MAX: usize = 4 * 1024;

/// Actual outcome of a call.
pub(super) struct ActualOutcome {
    /// `ok`, or the code of the failure.
    pub(super) verdict: String,
    /// The answer, or the failure's message and hint.
    text: String,
    /// Files of the proposal with their content; `None` for a removed file.
    files: BTreeMap<String, Option<String>>,
}

impl ActualOutcome {
    #[cfg(test)]
    pub(super) fn of(verdict: &str, text: &str, files: BTreeMap<String, Option<String>>) -> Self {
        Self {
            verdict: verdict.to_owned(),
            text: text.to_owned(),
            files,
        }
    }

    pub(super) fn new(report: &CallReport, root: &Path) -> Self {
        match &report.result {
            Ok(outcome) => Self {
                verdict: "ok".to_owned(),
                text: outcome.text.clone(),
                files: outcome
                    .files_modified
                    .iter()
                    .map(|path| (path.clone(), read_content(&root.join(path))))
                    .collect(),
            },
            Err(error) => Self {
                verdict: error.verdict().to_owned(),
                text: error_text(error),
                files: BTreeMap::new(),
            },
        }
    }
}

/// Reads a file of the copy. The host has just written it, so its size is bounded.
fn read_content(path: &Path) -> Option<String> {
    let content = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

fn error_text(error: &CallError) -> String {
    match error {
        CallError::Failure {
            message,
            hint: Some(hint),
            ..
        } => format!("{message}\nhint: {hint}"),
        error => error.to_string(),
    }
}

/// Finds the differences between outcome and case, each a sentence or a diff.
pub(super) fn find_differences(case: &ExpectedOutcome, came: &ActualOutcome) -> Vec<String> {
    let expected = case.fails.as_deref().unwrap_or("ok");
    if came.verdict != expected {
        let (got, said) = (&came.verdict, cut_shown(&came.text));
        let instead = match expected {
            "ok" => format!("an answer was expected, and the call failed with `{got}`: {said}"),
            expected if got == "ok" => {
                format!("a failure with `{expected}` was expected, and the call answered: {said}")
            }
            expected => format!("a failure with `{expected}` was expected, and it is `{got}`: {said}"),
        };
        return vec![instead];
    }
    let mut differences = text_differences(case, &came.text);
    differences.extend(file_differences(case, came));
    differences
}

fn text_differences(case: &ExpectedOutcome, text: &str) -> Vec<String> {
    let mut differences = Vec::new();
    if let Some(equals) = &case.equals {
        let (expected, got) = (equals.trim_end_matches('\n'), text.trim_end_matches('\n'));
        if expected != got {
            differences.push(format!("the answer is another one:\n{}", text_diff(expected, got)));
        }
    }
    let missing = case.contains.all().iter().filter(|part| !text.contains(part.as_str()));
    differences.extend(missing.map(|part| format!("the answer lacks `{part}`: {}", cut_shown(text))));
    let surplus = case.lacks.all().iter().filter(|part| text.contains(part.as_str()));
    differences.extend(surplus.map(|part| format!("the answer holds `{part}`: {}", cut_shown(text))));
    if let Some(pattern) = case.matches.as_ref().filter(|pattern| !pattern.is_match(text)) {
        differences.push(format!("the answer does not match `{pattern}`: {}", cut_shown(text)));
    }
    differences
}

fn file_differences(case: &ExpectedOutcome, came: &ActualOutcome) -> Vec<String> {
    let paths: BTreeSet<&String> = case.files.keys().chain(came.files.keys()).collect();
    let difference = |path: &String| match (case.files.get(path), came.files.get(path)) {
        (None, _) => Some(format!("`{path}` was changed, and the case does not say so")),
        (_, None) => Some(format!("`{path}` was expected to be changed, and was not")),
        (Some(ProposedContent::Text(_)), Some(None)) => {
            Some(format!("`{path}` was expected to be there, and was removed"))
        }
        (Some(ProposedContent::Removed(_)), Some(Some(_))) => {
            Some(format!("`{path}` was expected to be removed, and is there"))
        }
        (Some(ProposedContent::Removed(_)), Some(None)) => None,
        (Some(ProposedContent::Text(expected)), Some(Some(got))) => {
            (expected != got).then(|| format!("`{path}` holds something else:\n{}", text_diff(expected, got)))
        }
    };
    paths.into_iter().filter_map(difference).collect()
}

/// Compares two texts line by line.
fn text_diff(expected: &str, got: &str) -> String {
    let (expected, got) = (cut_shown(expected), cut_shown(got));
    let (expected, got) = (format!("{expected}\n"), format!("{got}\n"));
    let unified = unified_diff(("expected", &expected), ("got", &got));
    unified.trim_end().to_owned()
}

/// Cuts a text to the limit for output.
fn cut_shown(text: &str) -> String {
    let cut = truncate_text(text, CASE_SHOWN_BYTES_MAX);
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut}{dots}")
}
