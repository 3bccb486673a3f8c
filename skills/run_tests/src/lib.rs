//! `run_tests`: runs the tests of some paths, or all, and reports failures.
//!
//! The host finds the suites, runs them in its sandbox and reads their results; this skill describes them. Failing
//! tests are an answer; the skill fails only if nothing could run.

mod report;

use serde::Deserialize;
use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, FunctionMetadata, Handler, Host, Outcome, TestRequest, export_skill};

/// The skill `run_tests`.
#[derive(Debug)]
pub struct RunTests;

/// Limit for one run in seconds, from the host.
const TIMEOUT_SECONDS_MAX: u32 = 900;

#[derive(Deserialize)]
struct RunTestsArguments {
    #[serde(default)]
    recipe: Option<String>,
    #[serde(default)]
    check: Option<String>,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    filter: Option<String>,
    #[serde(default)]
    timeout_seconds: Option<u32>,
}

impl Handler for RunTests {
    const EFFECTS: &'static [&'static str] = &["read-repository", "run-process"];

    fn describe() -> Descriptor {
        Descriptor {
            name: "run_tests",
            version: "1.0.0",
            description: "Runs the tests with the runner of their language (pytest, npm, cargo, go, make and others), and \
                reports counts, the failing tests with their messages, and the duration; or runs a linter or another `check`. The first line begins with PASSED or \
                FAILED. Give `paths` to run a part: it is faster and shows more of each failure.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "recipe": {
                        "type": "string",
                        "pattern": "^[a-z][a-z0-9-]{0,31}$",
                        "description": "The runner, such as `pytest` or `cargo`. Default: by the paths or the repository."
                    },
                    "check": {
                        "type": "string",
                        "enum": ["format", "lint", "types", "build"],
                        "description": "Runs this check of the project in place of its tests."
                    },
                    "paths": {
                        "type": "array",
                        "format": "path",
                        "items": {"type": "string", "minLength": 1, "maxLength": 1000},
                        "maxItems": 50,
                        "description": "Test files or directories, relative to the repository root; for pytest also \
                            node ids (`tests/test_a.py::TestB::test_c`). Default: all."
                    },
                    "filter": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 500,
                        "description": "Only tests whose name matches, in the runner's own form: pytest's -k expression, a \
                            name pattern, a part of the name."
                    },
                    "timeout_seconds": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": TIMEOUT_SECONDS_MAX,
                        "description": "Stops the run after so many seconds."
                    }
                },
                "required": [],
                "additionalProperties": false
            }),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: RunTestsArguments = skill_sdk::arguments(arguments)?;
        let suites = host.run_tests(&TestRequest {
            recipe: arguments.recipe,
            check: arguments.check,
            paths: arguments.paths,
            filter: arguments.filter,
            timeout_seconds: arguments.timeout_seconds,
        })?;
        report::render_suites(suites)
    }
}

export_skill!(RunTests);

#[cfg(test)]
mod tests;
