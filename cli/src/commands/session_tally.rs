//! Counts the calls, changes, tests and tokens of a session, for its status line and its last line.

use std::collections::{BTreeMap, BTreeSet};

use tool_core::api::{Event, TestDetails, TestStatus};

use super::history::short_id;

#[derive(Debug, Default)]
pub(super) struct SessionTally {
    reads: usize,
    searches: usize,
    others: usize,
    changed: BTreeMap<String, (u64, u64)>,
    /// True if the changes belong to a preview.
    is_preview: bool,
    /// Calls of `run_tests` that run a check instead.
    checks: BTreeSet<String>,
    tests: Option<TestDetails>,
    tokens: u64,
    cost: Option<f64>,
}

impl SessionTally {
    pub(super) fn count(&mut self, event: &Event) {
        match event {
            Event::Selection { files } => self.reads += files.len(),
            Event::Skill { name, args, call_id } if name == "run_tests" && !args["check"].is_null() => {
                self.checks.extend(call_id.clone());
            }
            Event::SkillResult {
                name, details, call_id, ..
            } => {
                match name.as_str() {
                    "read_file" => self.reads += 1,
                    "search_code" | "find_references" => self.searches += 1,
                    _ => self.others += 1,
                }
                let is_check = call_id.as_ref().is_some_and(|id| self.checks.remove(id));
                if name == "run_tests" && !is_check {
                    let details = details.clone();
                    self.tests = details.and_then(|details| serde_json::from_value(details).ok());
                }
            }
            Event::Change { files, proposed, .. } => {
                self.is_preview |= proposed;
                for file in files {
                    let lines = self.changed.entry(file.path.clone()).or_default();
                    *lines = (lines.0 + file.added, lines.1 + file.removed);
                }
            }
            Event::Usage {
                input_tokens,
                output_tokens,
                cost,
                ..
            } => {
                self.tokens = input_tokens + output_tokens;
                self.cost = *cost;
            }
            _ => {}
        }
    }

    /// `read 18 files, 12 searches`; empty before the first call.
    pub(super) fn calls(&self) -> String {
        let counted = [
            (self.reads, "read 1 file", "read {} files"),
            (self.searches, "1 search", "{} searches"),
            (self.others, "1 other call", "{} other calls"),
        ];
        let parts = counted.into_iter().filter_map(|(count, one, many)| match count {
            0 => None,
            1 => Some(one.to_owned()),
            count => Some(many.replace("{}", &count.to_string())),
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The last line of the session with this identifier.
    pub(super) fn line(&self, id: &str) -> String {
        let (added, removed) = self
            .changed
            .values()
            .fold((0, 0), |(added, removed), lines| (added + lines.0, removed + lines.1));
        let verb = if self.is_preview { "proposed" } else { "changed" };
        let changed = match self.changed.len() {
            0 => None,
            1 => Some(format!("1 file {verb} (+{added} -{removed})")),
            count => Some(format!("{count} files {verb} (+{added} -{removed})")),
        };
        let tokens = (self.tokens > 0).then(|| format!("{} tokens", group_thousands(self.tokens)));
        let cost = self.cost.map(|cost| format!("${cost:.4}"));
        let session = Some(format!("session {}", short_id(id)));
        let parts = [changed, self.tests(), tokens, cost, session];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The result of the last test run.
    fn tests(&self) -> Option<String> {
        let run = &self.tests.as_ref()?.run;
        Some(match (run.status, run.counts) {
            (TestStatus::NothingRan, _) => "no tests ran".to_owned(),
            (TestStatus::Passed, Some(counts)) => format!("{} passed", count_tests(counts.passed)),
            (TestStatus::Passed, None) => "the test command exited with 0".to_owned(),
            (_, Some(counts)) if counts.failed + counts.errors > 0 => {
                format!("{} failed", count_tests(counts.failed + counts.errors))
            }
            _ => "tests failed".to_owned(),
        })
    }
}

fn count_tests(count: u64) -> String {
    format!("{count} test{}", if count == 1 { "" } else { "s" })
}

/// A number with a comma between thousands.
fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool_core::api::{ChangeKind, ChangedFile};

    use super::*;

    fn ended(name: &str, details: Option<serde_json::Value>) -> Event {
        Event::SkillResult {
            name: name.to_owned(),
            verdict: "ok".to_owned(),
            summary: String::new(),
            duration_ms: 1,
            details,
            call_id: None,
        }
    }

    #[test]
    fn a_check_after_failing_tests_does_not_make_them_pass() {
        let run =
            |runner: &str, status: &str| json!({"runner": runner, "status": status, "duration_ms": 5, "failing": []});
        let called = |call_id: &str, args: serde_json::Value| Event::Skill {
            name: "run_tests".to_owned(),
            args,
            call_id: Some(call_id.to_owned()),
        };
        let mut tally = SessionTally::default();
        for (id, args, details) in [
            ("host-1", json!({}), run("cargo", "failed")),
            ("host-2", json!({"check": "lint"}), run("cargo-clippy", "passed")),
        ] {
            tally.count(&called(id, args));
            let mut result = ended("run_tests", Some(details));
            if let Event::SkillResult { call_id, .. } = &mut result {
                *call_id = Some(id.to_owned());
            }
            tally.count(&result);
        }
        assert_eq!(tally.line("0195-9c41d0b7"), "tests failed, session 9c41d0b7");
    }

    #[test]
    fn calls_changes_tests_and_tokens_are_counted() {
        let mut tally = SessionTally::default();
        assert_eq!(
            (tally.calls().as_str(), tally.line("0195-9c41d0b7")),
            ("", "session 9c41d0b7".into())
        );
        let file = ChangedFile {
            path: "a.py".to_owned(),
            kind: ChangeKind::Modified,
            added: 10,
            removed: 3,
            is_text: true,
            since: None,
        };
        let run =
            json!({"runner": "pytest", "status": "passed", "duration_ms": 5, "failing": [], "counts": {"passed": 12}});
        for event in [
            ended("read_file", None),
            ended("read_file", None),
            ended("search_code", None),
            Event::Change {
                files: vec![file],
                diff: String::new(),
                truncated: false,
                proposed: false,
                call_id: None,
                texts: Vec::new(),
            },
            ended("run_tests", Some(run)),
            Event::Usage {
                input_tokens: 14_000,
                output_tokens: 210,
                cached_tokens: None,
                estimated: false,
                cost: Some(0.0123),
            },
        ] {
            tally.count(&event);
        }
        assert_eq!(tally.calls(), "read 2 files, 1 search, 1 other call");
        assert_eq!(
            tally.line("0195-9c41d0b7"),
            "1 file changed (+10 -3), 12 tests passed, 14,210 tokens, $0.0123, session 9c41d0b7"
        );
        assert_eq!(
            (group_thousands(999), group_thousands(1_000), group_thousands(1_234_567)),
            ("999".into(), "1,000".into(), "1,234,567".into())
        );
    }
}
