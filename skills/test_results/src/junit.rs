//! Reads JUnit XML, as pytest, Maven, Gradle, CTest, Meson, PHPUnit and many others write it.
//!
//! Test cases are counted one by one, because the sums in the attributes of a suite differ between writers.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use skill_details::TestCounts;

use crate::text::{dedent_lines, lines_of};
use crate::{FailedTest, TestResults};

/// Limit for the depth of elements. Real files have six levels.
const DEPTH_MAX: usize = 64;
/// Limit for the text of a failure in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Reads several files. A file that is not XML, or has no test, counts as an error: a run whose results cannot be
/// read has not passed.
pub(super) fn read_junit(files: &[String]) -> TestResults {
    let mut results = TestResults::default();
    if files.is_empty() {
        return results;
    }
    let mut counts = TestCounts::default();
    for file in files {
        if read_file(file, &mut counts, &mut results.failed).is_none() {
            counts.errors += 1;
            results.failed.push(FailedTest {
                name: "a result file".to_owned(),
                message: "it is not valid JUnit XML".to_owned(),
                details: Vec::new(),
            });
        }
    }
    results.counts = Some(counts);
    results
}

/// A test case during parsing.
#[derive(Default)]
struct OpenCase {
    name: String,
    outcome: CaseOutcome,
    message: String,
    text: String,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum CaseOutcome {
    #[default]
    Passed,
    Failed,
    Broken,
    Skipped,
}

fn read_file(text: &str, counts: &mut TestCounts, failed: &mut Vec<FailedTest>) -> Option<()> {
    let mut reader = Reader::from_str(text);
    let mut case: Option<OpenCase> = None;
    let mut in_failure = false;
    let mut depth = 0_usize;
    let mut has_root = false;
    loop {
        match reader.read_event().ok()? {
            Event::Eof => return (has_root && depth == 0).then_some(()),
            Event::Start(element) => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return None;
                }
                has_root = true;
                in_failure |= open_element(&element, &mut case);
            }
            Event::Empty(element) => {
                has_root = true;
                open_element(&element, &mut case);
                if element.local_name().as_ref() == "testcase" {
                    close_case(case.take(), counts, failed);
                }
            }
            Event::End(element) => {
                depth = depth.checked_sub(1)?;
                match element.local_name().as_ref() {
                    "testcase" => close_case(case.take(), counts, failed),
                    "failure" | "error" => in_failure = false,
                    _ => {}
                }
            }
            Event::Text(piece) if in_failure => {
                push_text(case.as_mut(), &piece);
            }
            Event::CData(piece) if in_failure => {
                push_text(case.as_mut(), &piece);
            }
            Event::GeneralRef(reference) if in_failure => {
                push_text(case.as_mut(), &resolve_entity(&reference));
            }
            _ => {}
        }
    }
}

/// The character of `&lt;` or `&#10;`. Entities that the file itself defines are not expanded.
fn resolve_entity(name: &str) -> String {
    let coded = name.strip_prefix('#').and_then(|code| match code.strip_prefix('x') {
        Some(code) => u32::from_str_radix(code, 16).ok(),
        None => code.parse().ok(),
    });
    let known = match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => coded.and_then(char::from_u32),
    };
    known.map(String::from).unwrap_or_default()
}

fn push_text(case: Option<&mut OpenCase>, piece: &str) {
    if let Some(case) = case
        && case.text.len() + piece.len() <= TEXT_BYTES_MAX
    {
        case.text.push_str(piece);
    }
}

/// Records an element. Returns true if its text describes a failure.
fn open_element(element: &BytesStart<'_>, case: &mut Option<OpenCase>) -> bool {
    let outcome = match element.local_name().as_ref() {
        "testcase" => {
            let name = [attribute_text(element, "classname"), attribute_text(element, "name")];
            let parts: Vec<String> = name.into_iter().flatten().filter(|part| !part.is_empty()).collect();
            *case = Some(OpenCase {
                name: parts.join("::"),
                // CTest and Meson mark a test that did not run in an attribute.
                outcome: match attribute_text(element, "status").as_deref() {
                    Some("notrun" | "disabled") => CaseOutcome::Skipped,
                    _ => CaseOutcome::Passed,
                },
                ..OpenCase::default()
            });
            return false;
        }
        "failure" => CaseOutcome::Failed,
        "error" => CaseOutcome::Broken,
        "skipped" => CaseOutcome::Skipped,
        _ => return false,
    };
    let Some(case) = case else { return false };
    case.outcome = outcome;
    if let Some(message) = attribute_text(element, "message").filter(|_| outcome != CaseOutcome::Skipped) {
        case.message = message;
    }
    outcome != CaseOutcome::Skipped
}

fn attribute_text(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element
        .attributes()
        .flatten()
        .find(|found| found.key.local_name().as_ref() == name)?;
    found
        .normalized_value(XmlVersion::Implicit1_0)
        .ok()
        .map(std::borrow::Cow::into_owned)
}

fn close_case(case: Option<OpenCase>, counts: &mut TestCounts, failed: &mut Vec<FailedTest>) {
    let Some(case) = case else { return };
    match case.outcome {
        CaseOutcome::Passed => counts.passed += 1,
        CaseOutcome::Skipped => counts.skipped += 1,
        CaseOutcome::Failed => counts.failed += 1,
        CaseOutcome::Broken => counts.errors += 1,
    }
    if matches!(case.outcome, CaseOutcome::Failed | CaseOutcome::Broken) {
        let mut details = dedent_lines(case.text.lines());
        let mut message = lines_of(&case.message);
        if message.is_empty() && !details.is_empty() {
            message = vec![details.remove(0)];
        }
        failed.push(FailedTest {
            name: case.name,
            message: message.first().cloned().unwrap_or_default(),
            details,
        });
    }
}
