//! `run_tests`: runs the test suite and says what failed.
//!
//! The host runs it, by a named recipe and in its sandbox; this skill decides which ([`detect`]) and reads what was
//! printed ([`pytest`], [`npm`]). Tests that fail are an answer; a failure of the skill means that nothing could run.

mod detect;
mod npm;
mod pytest;
mod report;

use serde::Deserialize;
use skill_details::TestRunner;
use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, Handler, Host, Outcome, RunReport, TestRequest, code, export_skill};

use detect::{Chosen, Runner};
use report::Results;

/// The skill.
#[derive(Debug)]
pub struct RunTests;

/// The host's maximum of seconds for one run.
const TIMEOUT_SECONDS_MAX: u32 = 900;
/// The answer names at most this many missing modules.
const MISSING_MAX: usize = 8;

#[derive(Deserialize)]
struct RunTestsArguments {
    #[serde(default)]
    framework: Framework,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    filter: Option<String>,
    #[serde(default)]
    timeout_seconds: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Framework {
    #[default]
    Auto,
    Pytest,
    Npm,
}

impl Handler for RunTests {
    const EFFECTS: &'static [&'static str] = &["read-repository", "run-process"];

    fn describe() -> Descriptor {
        Descriptor {
            name: "run_tests",
            version: "1.0.0",
            description: "Runs the repository's tests with pytest or `npm test`, whichever it has, and reports counts, \
                          the failing tests with their messages, and the duration. The first line begins with PASSED \
                          or FAILED. Give `paths` to run a part, which is faster and shows more of each failure.",
            parameters: json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "framework": {
                        "type": "string",
                        "enum": ["auto", "pytest", "npm"],
                        "description": "Which runner. Default `auto`: by what the repository has; where it has both, \
                                        by the paths, else pytest."
                    },
                    "paths": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1, "maxLength": 1000},
                        "maxItems": 50,
                        "description": "Test files or directories relative to the repository root; for pytest also \
                                        node ids such as `tests/test_a.py::TestB::test_c`. Default: all tests."
                    },
                    "filter": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 500,
                        "description": "Runs only tests whose name matches: pytest's -k expression, or the name \
                                        pattern of the JavaScript runner."
                    },
                    "timeout_seconds": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": TIMEOUT_SECONDS_MAX,
                        "description": "Stops the run after so many seconds. Default: the host's limit."
                    }
                },
                "required": [],
                "additionalProperties": false
            }),
            effects: Self::EFFECTS,
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: RunTestsArguments = skill_sdk::arguments(arguments)?;
        let paths = detect::check_paths(host, &arguments.paths)?;
        let Chosen { runner, note } = match arguments.framework {
            Framework::Auto => detect::choose(host, &paths)?,
            Framework::Pytest => Chosen {
                runner: Runner::Pytest,
                note: "runner: pytest".to_owned(),
            },
            Framework::Npm => Chosen {
                runner: Runner::Npm,
                note: format!("runner: npm test (`{}`)", detect::npm_script(host)?),
            },
        };
        let report = host.run_tests(&TestRequest {
            recipe: runner.recipe().to_owned(),
            paths,
            filter: arguments.filter,
            timeout_seconds: arguments.timeout_seconds,
        })?;
        let output = report::plain(&report.output);
        match runner {
            Runner::Pytest => after_pytest(host, &report, &output, note),
            Runner::Npm => after_npm(&report, &output, note),
        }
    }
}

fn after_pytest(host: &dyn Host, report: &RunReport, output: &str, note: String) -> Result<Outcome, Failure> {
    if pytest::is_absent(output) {
        return Err(
            Failure::new(code::UNAVAILABLE, "ModuleNotFoundError: No module named pytest").with_hint(
                "install it with install_package and names [\"pytest\"], or make the project's virtual environment",
            ),
        );
    }
    let results = pytest::parse(output);
    let mut notes = vec![note];
    let missing = pytest::missing_modules(output);
    for module in missing.iter().take(MISSING_MAX) {
        notes.push(format!("ModuleNotFoundError: No module named {module}"));
        notes.push(format!("hint: {}", module_hint(host, module)));
    }
    notes.extend(emptiness(&results));
    Ok(report::render(TestRunner::Pytest, report, output, &results, &notes))
}

/// Advice on a module that Python did not find.
fn module_hint(host: &dyn Host, module: &str) -> String {
    let top = module.split('.').next().unwrap_or(module);
    let places = [
        top.to_owned(),
        format!("{top}.py"),
        format!("src/{top}"),
        format!("src/{top}.py"),
    ];
    let own = places
        .iter()
        .find(|place| host.path(place).is_ok_and(|place| place.exists()));
    match own {
        Some(place) => format!(
            "the repository holds `{place}`, so it is a matter of the import path: set `pythonpath` in pytest's \
             configuration, or install the project itself"
        ),
        None => format!(
            "install it with install_package (the package may have another name than the module `{top}`; \
             analyze_dependencies shows what the project declares), unless `{top}` is the project's own: what is hidden \
             is not there in a run"
        ),
    }
}

fn after_npm(report: &RunReport, output: &str, note: String) -> Result<Outcome, Failure> {
    let results = npm::parse(output);
    if results.counts.is_none()
        && let Some(runner) = npm::absent_runner(output)
    {
        return Err(Failure::new(
            code::UNAVAILABLE,
            format!("the test runner `{runner}` is not installed"),
        )
        .with_hint("the packages of package.json are not installed here: run `npm install` in the repository"));
    }
    let mut notes = vec![note];
    for package in npm::missing_packages(output).iter().take(MISSING_MAX) {
        notes.push(format!(
            "hint: the package `{package}` is not installed; use install_package or `npm install`"
        ));
    }
    notes.extend(emptiness(&results));
    Ok(report::render(TestRunner::Npm, report, output, &results, &notes))
}

fn emptiness(results: &Results) -> Option<String> {
    let counts = results.counts.filter(|counts| !counts.any_ran())?;
    Some(if counts.deselected > 0 {
        "hint: the filter matches no test; leave it out to run all".to_owned()
    } else {
        "hint: no test was found there; list_files shows what exists".to_owned()
    })
}

export_skill!(RunTests);

#[cfg(test)]
mod tests;
