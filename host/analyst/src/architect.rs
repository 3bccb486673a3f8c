//! `architect`, measured: findings that a change of structure could start from, each with places, cost and a check.
//!
//! The analyst proposes nothing that it has not counted. What the task means it cannot judge; it knows the files that have
//! the task's words, and findings in them come first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::json;

use super::evidence::{Brief, Evidence, Hit, Listed, hits, size_text};
use super::survey::{self, Survey, is_beside_project};
use super::task_focus::{focus_files, search_of_words, task_section};
use super::{NO_MODEL, Reply, call};
use tool_provider::ToolCall;
use tool_repository::file_role::{file_name, stem};

/// Sources larger than this are worth a look: some thousand lines.
const LARGE_BYTES: f64 = 40_000.0;
/// Places named in one finding.
const PLACES_MAX: usize = 6;
/// Lines that a search answers.
const LINES_MAX: usize = 1000;

/// Patterns that are counted by a search: the finding, its regular expression, and the remedy.
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

/// Returns the next calls or the answer for `architect`.
pub(super) fn next(brief: &Brief, evidence: &Evidence<'_>) -> Reply {
    if let Some(calls) = survey::next(brief, evidence) {
        return Reply::Calls(calls);
    }
    let survey = Survey::read(evidence);
    if let Some(calls) = evidence.missing(searches(brief, &survey)) {
        return Reply::Calls(calls);
    }
    Reply::Text(findings(brief, &survey, evidence))
}

fn searches(brief: &Brief, survey: &Survey) -> Vec<ToolCall> {
    let search = |purpose: &str, number: usize, pattern: &str| {
        let arguments = json!({"pattern": pattern, "path": brief.target, "limit": LINES_MAX, "case": "sensitive"});
        call(purpose, number, "search_code", &arguments)
    };
    let mut calls: Vec<_> = SEARCHES
        .iter()
        .enumerate()
        .map(|(number, (_, pattern, _))| search("search", number + 1, pattern))
        .collect();
    calls.push(search("imports", 1, r"^from \.\w+ import "));
    if survey.main_language() == Some("Rust") {
        calls.push(search("inline", 1, r"^\s*#\[(cfg\(test\)|test)\]"));
    }
    calls.extend(search_of_words(brief, survey));
    calls
}

fn findings(brief: &Brief, survey: &Survey, evidence: &Evidence<'_>) -> String {
    let mut found: Vec<Finding> = [
        large(survey),
        untested(survey, evidence),
        declared_twice(survey),
        cycles(evidence),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.extend(searched(survey, evidence));
    let focus = focus_files(brief, survey, evidence);
    let concerned: BTreeSet<&str> = focus.iter().map(|file| file.path.as_str()).collect();
    for finding in &mut found {
        finding
            .places
            .sort_by_key(|place| !concerned.contains(place.path.as_str()));
    }
    found.sort_by_key(|finding| !finding.bears_on(&concerned));
    let bearing = found.iter().filter(|finding| finding.bears_on(&concerned)).count();
    let place = match (brief.target.as_str(), brief.repository.as_str()) {
        ("", "") => "this repository",
        ("", repository) => repository,
        (target, _) => target,
    };
    let mut text = format!(
        "# Findings in {place}\n\n> {NO_MODEL} What follows is counted, not judged; how it bears on the task is for \
         the reader, or for a model.\n\n"
    );
    if !brief.task.is_empty() && !found.is_empty() {
        text.push_str(&task_section(&focus, bearing));
    }
    for (number, finding) in found.iter().enumerate() {
        let _ = write!(text, "{}", finding.text(number + 1));
    }
    if found.is_empty() {
        text.push_str(&match evidence.why_not("list", &brief.target) {
            Some(why) => format!("Nothing was looked at: {why}.\n"),
            None => nothing(survey, evidence),
        });
    }
    text
}

/// Text of an answer without findings: it lists what was examined and searched for.
fn nothing(survey: &Survey, evidence: &Evidence<'_>) -> String {
    let counted = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let mut text = format!(
        "Nothing was found. Looked at were {}, {} and {}",
        counted(survey.sources().count(), "source", "sources"),
        counted(survey.tests().count(), "test file", "test files"),
        counted(
            survey.dependencies.len(),
            "declared dependency",
            "declared dependencies"
        ),
    );
    let largest = survey.sources().max_by(|a, b| a.bytes.total_cmp(&b.bytes));
    if let Some(largest) = largest.filter(|largest| largest.bytes > 0.0) {
        let _ = write!(
            text,
            "; the largest source is {}:1 ({})",
            largest.path,
            size_text(largest.bytes)
        );
    }
    text.push_str(". Looked for were:\n\n");
    let searched = SEARCHES.iter().enumerate().map(|(number, (title, _, _))| {
        let has_worked = evidence.of("search").any(|answer| answer.is_number(number + 1));
        (*title, has_worked)
    });
    let imports = (CYCLES, evidence.of("imports").next().is_some());
    let dependencies = (DECLARED_TWICE, evidence.of("dependencies").next().is_some());
    let of_list = [LARGE, UNTESTED].map(|title| (title, true));
    for (title, has_worked) in of_list.into_iter().chain([dependencies, imports]).chain(searched) {
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

/// Titles of findings that are no searches.
const LARGE: &str = "Large files";
const UNTESTED: &str = "Sources without a test file of their name";
const DECLARED_TWICE: &str = "Dependencies declared more than once, differently";
const CYCLES: &str = "Modules that import each other";

/// One measured finding.
struct Finding {
    title: &'static str,
    measured: String,
    /// All of them; the first ones are named.
    places: Vec<FindingPlace>,
    change: String,
    cost: &'static str,
    check: &'static str,
}

/// A place of a finding.
struct FindingPlace {
    path: String,
    /// Its citation, and what is measured there.
    text: String,
}

impl FindingPlace {
    fn of_hit(hit: &Hit) -> Self {
        Self {
            path: hit.path.clone(),
            text: hit.place(),
        }
    }
}

impl Finding {
    /// True where a place lies in a file that the task concerns.
    fn bears_on(&self, concerned: &BTreeSet<&str>) -> bool {
        self.places.iter().any(|place| concerned.contains(place.path.as_str()))
    }

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

/// Sources of the project itself.
fn own_sources(survey: &Survey) -> impl Iterator<Item = &Listed> {
    survey.sources().filter(|file| !is_beside_project(&file.path))
}

fn large(survey: &Survey) -> Option<Finding> {
    let mut large: Vec<_> = own_sources(survey).filter(|file| file.bytes > LARGE_BYTES).collect();
    large.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    let place = |file: &&Listed| FindingPlace {
        path: file.path.clone(),
        text: format!("{}:1 ({})", file.path, size_text(file.bytes)),
    };
    (!large.is_empty()).then(|| Finding {
        title: LARGE,
        measured: format!(
            "{} of {} sources are larger than {}.",
            large.len(),
            own_sources(survey).count(),
            size_text(LARGE_BYTES)
        ),
        places: large.iter().map(place).collect(),
        change: "split each along the groups of definitions that are used together".to_owned(),
        cost: "moves only, as long as the old names stay importable",
        check: "the tests pass unchanged, and nothing outside imports a private name",
    })
}

fn untested(survey: &Survey, evidence: &Evidence<'_>) -> Option<Finding> {
    let tested: BTreeSet<String> = survey.tests().flat_map(|file| test_subjects(&file.path)).collect();
    // Tests in Rust may stand in the source itself.
    let inline: BTreeSet<String> = evidence
        .of("inline")
        .flat_map(|answer| hits(answer.text()))
        .map(|hit| hit.path)
        .collect();
    let mut without: Vec<_> = own_sources(survey)
        .filter(|file| {
            file.bytes > 1000.0
                && has_behaviour(&file.path)
                && !tested.contains(&plain_name(stem(&file.path)))
                && !inline.contains(&file.path)
        })
        .collect();
    without.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    let place = |file: &&Listed| FindingPlace {
        path: file.path.clone(),
        text: format!("{}:1", file.path),
    };
    (!without.is_empty()).then(|| Finding {
        title: UNTESTED,
        measured: format!(
            "{} of {} sources have none.",
            without.len(),
            own_sources(survey).count()
        ),
        places: without.iter().map(place).collect(),
        change: "`tool test-gen` for the ones that change most, largest first".to_owned(),
        cost: "new files only",
        check: "coverage of these files before and after",
    })
}

/// False for files that only declare, export or configure: a test of their name is not expected.
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

/// Names that a tested source may have, derived from the name of a test file: `test_a.py`, `a_test.go`, `ATest.java`,
/// `a.spec.ts`, `a_spec.rb` and `tests/a.rs` test `a`.
fn test_subjects(path: &str) -> [String; 2] {
    let name = stem(path).split('.').next().unwrap_or_default();
    let plain = plain_name(name.strip_suffix("IT").unwrap_or(name));
    let without_end = ["testcase", "tests", "test", "spec"]
        .iter()
        .find_map(|end| plain.strip_suffix(end));
    let subject = plain.strip_prefix("test").or(without_end).unwrap_or(&plain).to_owned();
    [plain, subject]
}

/// A name for comparison: lower case, without marks between its words.
fn plain_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '-'], "")
}

fn declared_twice(survey: &Survey) -> Option<Finding> {
    let mut declared: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for dependency in &survey.dependencies {
        let (name, constraint) = dependency.name.split_once(' ').unwrap_or((&dependency.name, ""));
        // A member that takes its workspace's version agrees with it.
        // A path is relative to its manifest's folder, so two different paths may mean one place.
        if constraint.starts_with("workspace") || constraint.starts_with("@ path") {
            continue;
        }
        declared
            .entry(name)
            .or_default()
            .entry(constraint)
            .or_insert(&dependency.place);
    }
    let twice: Vec<_> = declared
        .iter()
        .filter(|(_, constraints)| constraints.len() > 1)
        .collect();
    let places = twice.iter().flat_map(|(name, constraints)| {
        constraints.iter().map(move |(constraint, place)| FindingPlace {
            path: place.rsplit_once(':').map_or(*place, |(path, _)| path).to_owned(),
            text: format!("`{name} {constraint}` {place}"),
        })
    });
    (!twice.is_empty()).then(|| Finding {
        title: DECLARED_TWICE,
        measured: format!(
            "{} of {} names have more than one constraint.",
            twice.len(),
            declared.len()
        ),
        places: places.collect(),
        change: "keep each constraint in one place, and let the others refer to it".to_owned(),
        cost: "a change of manifests",
        check: "a fresh installation resolves to the same versions",
    })
}

/// Pairs of modules of one package that import each other.
fn cycles(evidence: &Evidence<'_>) -> Option<Finding> {
    let found: Vec<Hit> = evidence.of("imports").flat_map(|answer| hits(answer.text())).collect();
    let mut places: BTreeMap<(String, String), String> = BTreeMap::new();
    for hit in &found {
        let folder = hit.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let imported = hit
            .text
            .trim_start_matches("from .")
            .split([' ', '.'])
            .next()
            .unwrap_or_default();
        let imported = super::survey::join(folder, &format!("{imported}.py"));
        places
            .entry((hit.path.clone(), imported))
            .or_insert_with(|| hit.place());
    }
    let both: Vec<FindingPlace> = places
        .iter()
        .filter(|((importer, imported), _)| importer < imported)
        .filter_map(|((importer, imported), place)| {
            let back = places.get(&(imported.clone(), importer.clone()))?;
            Some(FindingPlace {
                path: importer.clone(),
                text: format!("{place} and {back}"),
            })
        })
        .collect();
    (!both.is_empty()).then(|| Finding {
        title: CYCLES,
        measured: format!("{} pairs, counting imports at the top level of a file.", both.len()),
        places: both,
        change: "move what both need into a third module, or pass it in".to_owned(),
        cost: "touches every import of what moves",
        check: "each of the modules can be imported alone",
    })
}

fn searched(survey: &Survey, evidence: &Evidence<'_>) -> Vec<Finding> {
    let finding = |(number, (title, _, change)): (usize, &(&'static str, &str, &str))| {
        let answer = evidence.of("search").find(|answer| answer.is_number(number + 1))?;
        // Prose, tests and generated files may have such words for other reasons.
        let mut found = hits(answer.text());
        found.retain(|hit| survey.is_source(&hit.path));
        let files: BTreeSet<&str> = found.iter().map(|hit| hit.path.as_str()).collect();
        let least = if answer.cursor().is_some() { "At least " } else { "" };
        (!found.is_empty()).then(|| Finding {
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
