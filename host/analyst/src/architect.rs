//! `architect` without a model: measured findings as a basis for structural changes, each with places, cost and a
//! check.
//!
//! The analyst proposes only what it has counted. It cannot judge the meaning of the task, but it finds the files that
//! contain the task's words, and findings in these come first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::json;

use super::evidence::{
    AnalystTask, Dependency, Evidence, ListedFile, SearchHit, parse_hits, parse_listed_files, size_text,
};
use super::survey::{self, Survey, is_beside_project};
use super::task_focus::{focus_files, search_of_words, task_section};
use super::text::{cite_lines, escape_prose, quote_code};
use super::{AnalystStep, ImportCircle, NO_MODEL, tool_call};
use tool_provider::ToolCall;
use tool_repository::file_role::{file_name, file_stem, is_code, is_test};

/// Sources larger than this are worth a look: some thousand lines.
const LARGE_BYTES: f64 = 40_000.0;
const PLACES_MAX: usize = 6;
/// Pages of the list that are searched for tests of a part of the repository, and files on one page.
const PAGES_MAX: usize = 10;
const PAGE_FILES: usize = 2000;
/// Lines that a search answers.
const LINES_MAX: usize = 1000;

/// Patterns that a search counts: the finding, its regular expression, and the remedy.
const SEARCHES: [(&str, &str, &str); 3] = [
    (
        "Marked as unfinished by its authors",
        r"\b(TODO|FIXME|XXX|HACK)\b",
        "turn each mark into an issue or a change, and remove it",
    ),
    (
        "Errors that are caught wholesale",
        r"^\s*except\s*:|^\s*except (Base)?Exception\b|catch \((Throwable|Exception) |catch\s*(\(\w*\))?\s*\{\s*\}",
        "catch what can be handled there, and let the rest reach the caller",
    ),
    (
        "State at module level that functions rebind",
        r"^\s*global \w",
        "pass the state in, or keep it in an object that its users share",
    ),
];

/// Returns the next calls of `architect`, or its answer.
pub(super) fn next(brief: &AnalystTask, evidence: &Evidence<'_>) -> AnalystStep {
    if let Some(calls) = survey::next(brief, evidence) {
        return AnalystStep::Calls(calls);
    }
    let survey = Survey::read_answers(evidence);
    if let Some(calls) = evidence.missing(plan_searches(brief, &survey)) {
        return AnalystStep::Calls(calls);
    }
    if let Some(calls) = test_pages(brief, evidence) {
        return AnalystStep::Calls(calls);
    }
    AnalystStep::Text(write_findings(brief, &survey, evidence))
}

fn plan_searches(brief: &AnalystTask, survey: &Survey) -> Vec<ToolCall> {
    let search = |purpose: &str, number: usize, pattern: &str| {
        let arguments = json!({"pattern": pattern, "path": brief.target, "limit": LINES_MAX, "case": "sensitive"});
        tool_call(purpose, number, "search_code", &arguments)
    };
    let mut calls: Vec<_> = SEARCHES
        .iter()
        .enumerate()
        .map(|(number, (_, pattern, _))| search("search", number + 1, pattern))
        .collect();
    if survey.main_language() == Some("Rust") {
        calls.push(search("inline", 1, r"^\s*#\[(cfg\(test\)|test)\]"));
    }
    calls.extend(search_of_words(brief, survey));
    calls
}

/// Lists the whole repository where the target is one part of it: the tests of that part may be elsewhere.
fn test_pages(brief: &AnalystTask, evidence: &Evidence<'_>) -> Option<Vec<ToolCall>> {
    if brief.target.is_empty() {
        return None;
    }
    let pages = evidence.of("tests").count();
    let cursor = evidence
        .of("tests")
        .last()
        .and_then(super::evidence::CallWithAnswer::cursor);
    let is_first = !evidence.asked("tests");
    let mut arguments = json!({"path": "", "recursive": true, "limit": PAGE_FILES});
    if let Some(cursor) = &cursor {
        arguments["cursor"] = cursor.as_str().into();
    }
    let is_open = is_first || cursor.is_some() && pages < PAGES_MAX;
    is_open.then(|| vec![tool_call("tests", pages + 1, "list_files", &arguments)])
}

fn write_findings(brief: &AnalystTask, survey: &Survey, evidence: &Evidence<'_>) -> String {
    let mut found: Vec<MeasuredFinding> = [
        find_large_files(survey),
        find_untested_files(survey, evidence),
        declared_twice(survey),
        circular_imports(brief, survey),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.extend(find_search_hits(survey, evidence));
    let focus = focus_files(brief, survey, evidence);
    let concerned: BTreeSet<&str> = focus.iter().map(|file| file.path.as_str()).collect();
    let listed: BTreeSet<&str> = survey.files.iter().map(|file| file.path.as_str()).collect();
    let is_in_target = |place: &FindingPlace| listed.contains(place.path.as_str());
    let is_concerned = |place: &FindingPlace| concerned.contains(place.path.as_str());
    for finding in &mut found {
        finding
            .places
            .sort_by_key(|place| (!is_in_target(place), !is_concerned(place)));
    }
    found.sort_by_key(|finding| {
        let places = || finding.places.iter();
        (!places().any(is_in_target), !places().any(is_concerned))
    });
    let bearing = found.iter().filter(|finding| finding.places.iter().any(is_concerned));
    let bearing = bearing.count();
    let place = match (brief.target.as_str(), brief.repository.as_str()) {
        ("", "") => "this repository",
        ("", repository) => repository,
        (target, _) => target,
    };
    let place = escape_prose(place);
    let mut text = format!(
        "# Findings in {place}\n\n> {NO_MODEL} What follows is counted, not judged; how it bears on the task is for \
         the reader, or for a model.\n\n"
    );
    if !brief.task.is_empty() {
        let bearing = (!found.is_empty()).then_some(bearing);
        text.push_str(&task_section(brief, &focus, bearing));
    }
    for (number, finding) in found.iter().enumerate() {
        let _ = write!(text, "{}", finding.text(number + 1));
    }
    if found.is_empty() {
        text.push_str(&match evidence.why_not("list", &brief.target) {
            Some(why) => format!("Nothing was looked at: {why}.\n"),
            None => write_no_findings(brief, survey, evidence),
        });
    }
    text
}

/// The answer when nothing was found: what was examined and which searches ran.
fn write_no_findings(brief: &AnalystTask, survey: &Survey, evidence: &Evidence<'_>) -> String {
    let mut text = format!(
        "Nothing was found in {}, {} and {}",
        format_count(survey.sources().count(), "source", "sources"),
        format_count(test_paths(survey, evidence).len(), "test file", "test files"),
        format_count(
            survey.dependencies.len(),
            "declared dependency",
            "declared dependencies"
        ),
    );
    let largest = survey.sources().max_by(|a, b| a.bytes.total_cmp(&b.bytes));
    if let Some(largest) = largest.filter(|largest| largest.bytes > 0.0) {
        let _ = write!(
            text,
            "; the largest source is {} ({})",
            cite_lines(&largest.path, &1),
            size_text(largest.bytes)
        );
    }
    text.push_str(". These were searched for:\n\n");
    let searched = SEARCHES.iter().enumerate().map(|(number, (title, _, _))| {
        let has_worked = evidence.of("search").any(|answer| answer.is_number(number + 1));
        (*title, has_worked)
    });
    let circular = (CIRCULAR, brief.facts.circular_imports.is_some());
    let dependencies = (DECLARED_TWICE, evidence.of("dependencies").next().is_some());
    let of_list = [LARGE, UNTESTED].map(|title| (title, true));
    for (title, has_worked) in of_list.into_iter().chain([dependencies, circular]).chain(searched) {
        let result = if has_worked {
            "none"
        } else {
            "not known, because that failed"
        };
        let _ = writeln!(text, "- {title}: {result}");
    }
    if !survey.complete {
        text.push_str("\nThe file list was cut: there are more files than were looked at.\n");
    }
    text
}

fn format_count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Titles of findings that come from measurements, not from searches.
const LARGE: &str = "Large files";
const UNTESTED: &str = "Sources without a test file of their name";
const DECLARED_TWICE: &str = "Dependencies declared more than once, differently";
const CIRCULAR: &str = "Files that import each other";

struct MeasuredFinding {
    title: &'static str,
    measured: String,
    /// All places; only the first ones are listed.
    places: Vec<FindingPlace>,
    change: String,
    cost: &'static str,
    check: &'static str,
}

struct FindingPlace {
    path: String,
    /// Citation and measurement.
    text: String,
}

impl FindingPlace {
    fn of_hit(hit: &SearchHit) -> Self {
        Self {
            path: hit.path.clone(),
            text: hit.place(),
        }
    }
}

impl MeasuredFinding {
    fn text(&self, number: usize) -> String {
        let places = self.places.iter().take(PLACES_MAX);
        let places: Vec<&str> = places.map(|place| place.text.as_str()).collect();
        format!(
            "## {number}. {}\n\n{}\n\n- Where: {}\n- What could change: {}\n- Cost: {}\n- How to verify: {}\n\n",
            self.title,
            self.measured,
            places.join(", "),
            self.change,
            self.cost,
            self.check
        )
    }
}

fn own_sources(survey: &Survey) -> impl Iterator<Item = &ListedFile> {
    survey.sources().filter(|file| !is_beside_project(&file.path))
}

fn find_large_files(survey: &Survey) -> Option<MeasuredFinding> {
    let mut large: Vec<_> = own_sources(survey).filter(|file| file.bytes > LARGE_BYTES).collect();
    large.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    let place = |file: &&ListedFile| FindingPlace {
        path: file.path.clone(),
        text: format!("{} ({})", cite_lines(&file.path, &1), size_text(file.bytes)),
    };
    (!large.is_empty()).then(|| MeasuredFinding {
        title: LARGE,
        measured: format!(
            "{} of {} {} larger than {}.",
            large.len(),
            format_count(own_sources(survey).count(), "source", "sources"),
            if large.len() == 1 { "is" } else { "are" },
            size_text(LARGE_BYTES)
        ),
        places: large.iter().map(place).collect(),
        change: "split each along the groups of definitions that are used together".to_owned(),
        cost: "moves only, as long as the old names stay importable",
        check: "the tests pass unchanged, and nothing outside imports a private name",
    })
}

/// Paths of the test files: those of the target, or of the whole repository if the target is a part of it.
fn test_paths(survey: &Survey, evidence: &Evidence<'_>) -> BTreeSet<String> {
    let everywhere = evidence.of("tests").flat_map(|page| parse_listed_files(page.text()));
    let tests = everywhere.filter(|file| is_code(&file.path) && is_test(&file.path));
    let own = survey.tests().map(|file| file.path.clone());
    tests.map(|file| file.path).chain(own).collect()
}

fn find_untested_files(survey: &Survey, evidence: &Evidence<'_>) -> Option<MeasuredFinding> {
    let tests = test_paths(survey, evidence);
    let tested: BTreeSet<String> = tests.iter().flat_map(|path| test_subjects(path)).collect();
    // Rust keeps unit tests in the source file itself.
    let inline: BTreeSet<String> = evidence
        .of("inline")
        .flat_map(|answer| parse_hits(answer.text()))
        .map(|hit| hit.path)
        .collect();
    let (testable, others): (Vec<&ListedFile>, Vec<&ListedFile>) =
        own_sources(survey).partition(|file| file.bytes > 0.0 && has_behaviour(&file.path));
    let is_tested = |path: &str| tested.contains(&plain_name(file_stem(path))) || inline.contains(path);
    let mut without: Vec<_> = testable.iter().filter(|file| !is_tested(&file.path)).collect();
    without.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    let place = |file: &&&ListedFile| FindingPlace {
        path: file.path.clone(),
        text: cite_lines(&file.path, &1),
    };
    let not_counted = match others.len() {
        0 => String::new(),
        1 => " One more is empty, or only declares, exports or configures.".to_owned(),
        others => format!(" {others} more are empty, or only declare, export or configure."),
    };
    (!without.is_empty()).then(|| MeasuredFinding {
        title: UNTESTED,
        measured: format!(
            "{} of {} {} none.{not_counted}",
            without.len(),
            format_count(testable.len(), "source", "sources"),
            if without.len() == 1 { "has" } else { "have" },
        ),
        places: without.iter().map(place).collect(),
        change: "tests for the ones that change most, largest first".to_owned(),
        cost: "new files only",
        check: "coverage of these files before and after",
    })
}

/// False for files that only declare, export or configure: they need no test of their name.
fn has_behaviour(path: &str) -> bool {
    const FACES: [&str; 6] = [
        "__init__.py",
        "mod.rs",
        "build.rs",
        "setup.py",
        "package-info.java",
        "module-info.java",
    ];
    let declares = [".h", ".hpp", ".hh", ".d.ts", ".pyi"]
        .iter()
        .any(|end| path.ends_with(end));
    !declares && !FACES.contains(&file_name(path))
}

/// Names that a tested source may have, by the name of a test file: `test_a.py`, `a_test.go`, `ATest.java`,
/// `a.spec.ts`, `a_spec.rb` and `tests/a.rs` test `a`.
fn test_subjects(path: &str) -> [String; 2] {
    let name = file_stem(path).split('.').next().unwrap_or_default();
    let plain = plain_name(name.strip_suffix("IT").unwrap_or(name));
    let without_end = ["testcase", "tests", "test", "spec"]
        .iter()
        .find_map(|end| plain.strip_suffix(end));
    let subject = plain.strip_prefix("test").or(without_end).unwrap_or(&plain).to_owned();
    [plain, subject]
}

/// A name for comparison: lower case, without separators.
fn plain_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '-'], "")
}

fn declared_twice(survey: &Survey) -> Option<MeasuredFinding> {
    let mut declared: BTreeMap<&str, BTreeMap<&str, &Dependency>> = BTreeMap::new();
    for dependency in &survey.dependencies {
        let (name, constraint) = dependency.name.split_once(' ').unwrap_or((&dependency.name, ""));
        // A member that inherits the version of its workspace or its parent agrees with it. A path is relative to its
        // manifest's folder, so two different paths may mean the same place.
        if constraint.starts_with("workspace") || constraint == "managed" || constraint.starts_with("@ path") {
            continue;
        }
        declared
            .entry(name)
            .or_default()
            .entry(constraint)
            .or_insert(dependency);
    }
    let twice: Vec<_> = declared
        .iter()
        .filter(|(_, constraints)| constraints.len() > 1)
        .collect();
    let places = twice.iter().flat_map(|(name, constraints)| {
        constraints.iter().map(move |(constraint, dependency)| FindingPlace {
            path: dependency.manifest.clone(),
            text: format!("{} {}", quote_code(&format!("{name} {constraint}")), dependency.place()),
        })
    });
    (!twice.is_empty()).then(|| MeasuredFinding {
        title: DECLARED_TWICE,
        measured: format!(
            "{} of {} {} more than one constraint.",
            twice.len(),
            format_count(declared.len(), "name", "names"),
            if twice.len() == 1 { "has" } else { "have" },
        ),
        places: places.collect(),
        change: "keep each constraint in one place, and let the others refer to it".to_owned(),
        cost: "a change of manifests",
        check: "a fresh installation resolves to the same versions",
    })
}

/// Import cycles that the engine has found.
fn circular_imports(brief: &AnalystTask, survey: &Survey) -> Option<MeasuredFinding> {
    let place = |circle: &ImportCircle| {
        let mut files = circle.steps.iter().map(|(path, _)| path);
        // The target may be a file of the cycle.
        let path = files.find(|path| survey.is_source(path) && survey.has(path))?;
        let steps = circle.steps.iter().map(|(path, line)| cite_lines(path, line));
        let steps: Vec<String> = steps.collect();
        let further = circle.files.saturating_sub(steps.len());
        Some(FindingPlace {
            path: path.clone(),
            text: match (&steps[..], further) {
                ([one, other], 0) => format!("{one} and {other}"),
                (steps, 0) => steps.join(" → "),
                (steps, 1) => format!("{} → 1 further file", steps.join(" → ")),
                (steps, further) => format!("{} → {further} further files", steps.join(" → ")),
            },
        })
    };
    let circles = brief.facts.circular_imports.iter().flatten();
    let places: Vec<FindingPlace> = circles.filter_map(place).collect();
    (!places.is_empty()).then(|| MeasuredFinding {
        title: CIRCULAR,
        measured: format!(
            "{}. Every import counts, also those inside functions and tests, and those for types only.",
            format_count(places.len(), "circle of imports", "circles of imports")
        ),
        places,
        change: "move what both need into a third module, or pass it in".to_owned(),
        cost: "touches every import of what moves",
        check: "each of the modules can be imported alone",
    })
}

fn find_search_hits(survey: &Survey, evidence: &Evidence<'_>) -> Vec<MeasuredFinding> {
    let finding = |(number, (title, _, change)): (usize, &(&'static str, &str, &str))| {
        let answer = evidence.of("search").find(|answer| answer.is_number(number + 1))?;
        // In prose, tests and generated files, such words have other reasons.
        let mut found = parse_hits(answer.text());
        found.retain(|hit| survey.is_source(&hit.path));
        let files: BTreeSet<&str> = found.iter().map(|hit| hit.path.as_str()).collect();
        let least = if answer.cursor().is_some() { "At least " } else { "" };
        (!found.is_empty()).then(|| MeasuredFinding {
            title,
            measured: match (found.len(), files.len()) {
                (1, _) => format!("{least}1 place."),
                (places, 1) => format!("{least}{places} places in 1 source."),
                (places, files) => format!("{least}{places} places in {files} sources."),
            },
            places: found.iter().map(FindingPlace::of_hit).collect(),
            change: (*change).to_owned(),
            cost: "small and local, one place at a time",
            check: "the search that found them finds fewer",
        })
    };
    SEARCHES.iter().enumerate().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use tool_provider::{Message, ToolResult};

    /// The answer for a request, and answers of the skills by the ids of their calls.
    fn written(request: &str, facts: &crate::TargetFacts, answers: &[(&str, &str)]) -> String {
        let call = |(id, _): &(&str, &str)| ToolCall {
            id: (*id).to_owned(),
            name: "any".to_owned(),
            arguments: "{}".to_owned(),
        };
        let result = |(id, text): &(&str, &str)| ToolResult {
            call_id: (*id).to_owned(),
            name: "any".to_owned(),
            text: (*text).to_owned(),
            is_error: false,
            origin: tool_provider::TextOrigin::default(),
        };
        let messages = [
            Message::User {
                text: crate::add_facts(&format!("# Request\n\nOperation: architect\n{request}\n\n"), facts),
            },
            Message::Assistant {
                text: String::new(),
                tool_calls: answers.iter().map(call).collect(),
                opaque: serde_json::Value::Null,
            },
            Message::ToolResults {
                results: answers.iter().map(result).collect(),
            },
        ];
        let (brief, evidence) = (AnalystTask::parse_brief(&messages), Evidence::pair_answers(&messages));
        let text = write_findings(&brief, &Survey::read_answers(&evidence), &evidence);
        let (_, text) = text.split_once("a model.\n\n").expect("the note ends so");
        let is_kept = |line: &&str| {
            !["- What", "- Cost", "- How"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
    }

    fn circles(circles: &[(&[(&str, u32)], usize)]) -> crate::TargetFacts {
        let circle = |(steps, files): &(&[(&str, u32)], usize)| ImportCircle {
            steps: steps.iter().map(|(path, line)| ((*path).to_owned(), *line)).collect(),
            files: *files,
        };
        crate::TargetFacts {
            circular_imports: Some(circles.iter().map(circle).collect()),
            ..crate::TargetFacts::default()
        }
    }

    #[test]
    fn circles_of_imports_and_small_sources_without_tests_are_found() {
        let facts = circles(&[
            (&[("a.js", 2), ("b.js", 1)], 2),
            (&[("a.js", 3), ("c.js", 1), ("d.js", 1)], 9),
        ]);
        let list = "./: 4 files, 90 B\na.js\t40 B\nb.js\t30 B\nc.js\t0 B\nb.test.js\t20 B\n";
        let text = written(
            "Target: the whole repository\nTask:\nload `b` lazily",
            &facts,
            &[("list-1", list)],
        );
        insta::assert_snapshot!(text, @r"
        No source contains a word of the task, so the findings below are not sorted by it.

        ## 1. Sources without a test file of their name

        1 of 2 sources has none. One more is empty, or only declares, exports or configures.

        - Where: a.js:1

        ## 2. Files that import each other

        2 circles of imports. Every import counts, also those inside functions and tests, and those for types only.

        - Where: a.js:2 and b.js:1, a.js:3 → c.js:1 → d.js:1 → 6 further files
        ");
    }

    #[test]
    fn findings_in_the_target_come_first_and_its_tests_may_lie_elsewhere() {
        let answers = [
            ("list-1", "src/parser.py\t400 B\n"),
            ("tests-1", "src/parser.py\t400 B\ntests/test_parser.py\t90 B\n"),
            (
                "dependencies-1",
                "pyproject.toml (PEP 621)\n  flask ==1 [runtime] requirements.txt:1\n  flask ==2 [runtime] pyproject.toml:3\n",
            ),
            ("search-1", "src/parser.py:1:# TODO: later\n"),
        ];
        let text = written("Target: the file `src/parser.py`", &circles(&[]), &answers);
        insta::assert_snapshot!(text, @r"
        ## 1. Marked as unfinished by its authors

        1 place.

        - Where: src/parser.py:1

        ## 2. Dependencies declared more than once, differently

        1 of 1 name has more than one constraint.

        - Where: `flask ==1` requirements.txt:1, `flask ==2` pyproject.toml:3
        ");
    }

    #[test]
    fn an_answer_without_findings_names_the_files_of_the_task() {
        let answers = [
            ("list-1", "./: 2 files, 60 B\nprices.py\t40 B\ntest_prices.py\t20 B\n"),
            ("task-1", "prices.py:3:def lazy_prices():\n"),
        ];
        let request = "Target: the whole repository\nTask:\nmake prices lazy";
        let text = written(request, &crate::TargetFacts::default(), &answers);
        insta::assert_snapshot!(text, @r"
        The task concerns these files, by its words:

        - `lazy_prices` (prices.py:3)

        Nothing was found in 1 source, 1 test file and 0 declared dependencies; the largest source is prices.py:1 (40 B). These were searched for:

        - Large files: none
        - Sources without a test file of their name: none
        - Dependencies declared more than once, differently: not known, because that failed
        - Files that import each other: not known, because that failed
        - Marked as unfinished by its authors: not known, because that failed
        - Errors that are caught wholesale: not known, because that failed
        - State at module level that functions rebind: not known, because that failed
        ");
    }

    #[test]
    fn a_test_file_names_its_subject_in_each_language() {
        for (path, subject) in [
            ("tests/test_cart.py", "cart"),
            ("cart_test.go", "cart"),
            ("src/test/java/CartTest.java", "cart"),
            ("src/cart.spec.ts", "cart"),
            ("spec/cart_spec.rb", "cart"),
            ("tests/CartTests.cs", "cart"),
            ("tests/shopping_cart.rs", "shoppingcart"),
            ("tests/audit.rs", "audit"),
            ("src/test/java/CartIT.java", "cart"),
            ("tests/latest.rs", "latest"),
        ] {
            assert!(test_subjects(path).contains(&subject.to_owned()), "{path}");
        }
    }
}
