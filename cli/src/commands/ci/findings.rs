//! Findings of a job in the formats of CI systems: SARIF, GitLab's code quality, and GitHub's annotations.
//!
//! Title and text come from a model: they are strings in JSON, and are escaped where characters have a meaning.

use std::path::Path;

use serde_json::{Value, json};
use tool_context::operation::proposals::{PlacedProposal, ProposalPlace};
use tool_core::digest;

use super::pipeline::Pipeline;
use crate::client::percent_encoded;
use crate::output::{Annotation, AnnotationLevel, clean_output};

/// Characters of a finding's text that a report quotes. The answer has all of it.
const TEXT_CHARS_MAX: usize = 1_000;

/// Annotations of one step that GitHub shows.
const ANNOTATIONS_MAX: usize = 10;

/// Rule of every finding: proposals of a model have no separate rules.
const RULE: &str = "architecture/proposal";

/// Findings as a SARIF 2.1.0 log. One result for each proposal, with its places.
pub(super) fn write_sarif(findings: &[PlacedProposal]) -> Value {
    let results: Vec<Value> = findings.iter().map(sarif_result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "tool",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": [{
                    "id": RULE,
                    "shortDescription": {"text": "A proposal for the architecture of this repository"},
                    "fullDescription": {"text": "A language model proposes a change. The cited lines exist; the proposal itself is an opinion."},
                    "defaultConfiguration": {"level": "warning"},
                }],
            }},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The root of the repository"}}},
            "results": results,
        }],
    })
}

fn sarif_result(finding: &PlacedProposal) -> Value {
    let locations: Vec<Value> = finding.places.iter().map(sarif_location).collect();
    json!({
        "ruleId": RULE,
        "ruleIndex": 0,
        "level": "warning",
        "message": {"text": literal_text(&finding_message(finding))},
        "locations": &locations[..1],
        "relatedLocations": &locations[1..],
        "partialFingerprints": {"proposal/v1": fingerprint_finding(finding, &finding.places[0])},
    })
}

fn sarif_location(place: &ProposalPlace) -> Value {
    json!({"physicalLocation": {
        "artifactLocation": {"uri": path_uri(&place.path), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": place.first, "endLine": place.last},
    }})
}

/// A path as a relative URI.
fn path_uri(path: &str) -> String {
    let parts: Vec<String> = path.split('/').map(percent_encoded).collect();
    let uri = parts.join("/");
    // A first part with a colon would be a scheme; it is encoded, so only an empty part needs care.
    uri.trim_start_matches('/').to_owned()
}

/// Text of a SARIF message in which `[a](b)` and `{0}` are not links and placeholders.
fn literal_text(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '[' | ']' | '\\' => literal.extend(['\\', character]),
            '{' => literal.push_str("{{"),
            '}' => literal.push_str("}}"),
            other => literal.push(other),
        }
    }
    literal
}

/// Findings as GitLab's code quality report: one entry for each, at its first place.
pub(super) fn code_quality(findings: &[PlacedProposal], pipeline: &Pipeline, root: &Path) -> Value {
    let entries = findings.iter().map(|finding| {
        let place = &finding.places[0];
        json!({
            "description": finding_message(finding),
            "check_name": RULE,
            "fingerprint": fingerprint_finding(finding, place),
            "severity": "minor",
            "location": {
                "path": pipeline.workspace_path(root, &place.path),
                "lines": {"begin": place.first, "end": place.last},
            },
        })
    });
    entries.collect()
}

/// Findings as annotations of lines, at most as many as GitHub shows.
pub(super) fn make_annotations(findings: &[PlacedProposal], pipeline: &Pipeline, root: &Path) -> Vec<Annotation> {
    let annotation = |finding: &PlacedProposal| {
        let place = &finding.places[0];
        Annotation {
            level: AnnotationLevel::Warning,
            title: finding_title(finding),
            message: shorten_text(&finding.text),
            place: Some((pipeline.workspace_path(root, &place.path), place.first, place.last)),
        }
    };
    findings.iter().take(ANNOTATIONS_MAX).map(annotation).collect()
}

fn finding_title(finding: &PlacedProposal) -> String {
    match finding.title.as_str() {
        "" => format!("Proposal {}", finding.number),
        title => clean_output(title),
    }
}

fn finding_message(finding: &PlacedProposal) -> String {
    format!("{}\n\n{}", finding_title(finding), shorten_text(&finding.text))
}

/// The beginning of a text, without control characters.
fn shorten_text(text: &str) -> String {
    let cleaned = clean_output(text);
    match cleaned.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{} …", cleaned[..end].trim_end()),
        None if cleaned.is_empty() => "See the summary of the job.".to_owned(),
        None => cleaned,
    }
}

/// Identity of a finding across runs: its title and file. Line numbers and text change with every run.
fn fingerprint_finding(finding: &PlacedProposal, place: &ProposalPlace) -> String {
    digest::sha256_hex(format!("{RULE}\0{}\0{}", finding.title, place.path).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_model_are_literal_text_in_sarif() {
        assert_eq!(
            literal_text(r"see [this](https://a.example) {0} \x"),
            r"see \[this\](https://a.example) {{0}} \\x"
        );
        assert_eq!(path_uri("src/a b/c:d%.py"), "src/a%20b/c%3Ad%25.py");
    }

    #[test]
    fn a_long_text_is_cut_and_an_empty_one_says_where_to_look() {
        assert_eq!(shorten_text(&"é".repeat(1_001)), format!("{} …", "é".repeat(1_000)));
        assert_eq!(shorten_text("\u{1b}"), "See the summary of the job.");
    }
}
