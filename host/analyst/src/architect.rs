//! `architect`, measured: findings that a change of structure could start from, each with places, cost and a check.
//!
//! The analyst proposes nothing that it has not counted. What the task means it cannot judge, and it says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::json;

use super::evidence::{Brief, Evidence, Hit, hits, size_text};
use super::survey::{self, Survey};
use super::{NO_MODEL, Reply, call};
use tool_repository::file_role::{file_name, stem};

/// Sources larger than this are worth a look: some thousand lines.
const LARGE_BYTES: f64 = 40_000.0;
/// Places named in one finding.
const PLACES_MAX: usize = 6;

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
    if !evidence.asked("search") {
        let search = |(number, (_, pattern, _)): (usize, &(&str, &str, &str))| {
            let arguments = json!({"pattern": pattern, "path": brief.target, "limit": 20, "case": "sensitive"});
            call("search", number + 1, "search_code", &arguments)
        };
        let mut calls: Vec<_> = SEARCHES.iter().enumerate().map(search).collect();
        let imports =
            json!({"pattern": r"^from \.\w+ import ", "path": brief.target, "limit": 1000, "case": "sensitive"});
        calls.push(call("imports", 1, "search_code", &imports));
        return Reply::Calls(calls);
    }
    Reply::Text(findings(brief, &Survey::read(evidence), evidence))
}

fn findings(brief: &Brief, survey: &Survey, evidence: &Evidence<'_>) -> String {
    let mut found: Vec<Finding> = [
        large(survey),
        untested(survey),
        declared_twice(survey),
        cycles(evidence),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.extend(searched(evidence));
    let place = match (brief.target.as_str(), brief.repository.as_str()) {
        ("", "") => "this repository",
        ("", repository) => repository,
        (target, _) => target,
    };
    let mut text = format!(
        "# Findings in {place}\n\n> {NO_MODEL} What follows is counted, not judged; how it bears on the task is for \
         the reader, or for a model.\n\n"
    );
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
    places: Vec<String>,
    change: String,
    cost: &'static str,
    check: &'static str,
}

impl Finding {
    fn text(&self, number: usize) -> String {
        format!(
            "## {number}. {}\n\n{}\n\n- Where: {}\n- What could change: {}\n- Cost: {}\n- How to verify: {}\n\n",
            self.title,
            self.measured,
            self.places.join(", "),
            self.change,
            self.cost,
            self.check
        )
    }
}

fn large(survey: &Survey) -> Option<Finding> {
    let mut large: Vec<_> = survey.sources().filter(|file| file.bytes > LARGE_BYTES).collect();
    large.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    let places = large
        .iter()
        .take(PLACES_MAX)
        .map(|file| format!("{}:1 ({})", file.path, size_text(file.bytes)));
    (!large.is_empty()).then(|| Finding {
        title: LARGE,
        measured: format!(
            "{} of {} sources are larger than {}.",
            large.len(),
            survey.sources().count(),
            size_text(LARGE_BYTES)
        ),
        places: places.collect(),
        change: "split each along the groups of definitions that are used together".to_owned(),
        cost: "moves only, as long as the old names stay importable",
        check: "the tests pass unchanged, and nothing outside imports a private name",
    })
}

fn untested(survey: &Survey) -> Option<Finding> {
    let tested: BTreeSet<String> = survey.tests().map(|file| test_subject(&file.path)).collect();
    let mut without: Vec<_> = survey
        .sources()
        .filter(|file| {
            !tested.contains(stem(&file.path)) && file_name(&file.path) != "__init__.py" && file.bytes > 1000.0
        })
        .collect();
    without.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    (!without.is_empty()).then(|| Finding {
        title: UNTESTED,
        measured: format!("{} of {} sources have none.", without.len(), survey.sources().count()),
        places: without
            .iter()
            .take(PLACES_MAX)
            .map(|file| format!("{}:1", file.path))
            .collect(),
        change: "`tool test-gen` for the ones that change most, largest first".to_owned(),
        cost: "new files only",
        check: "coverage of these files before and after",
    })
}

/// Returns the name of the tested source, derived from the name of a test file.
fn test_subject(path: &str) -> String {
    let stem = stem(path).split('.').next().unwrap_or_default();
    let stem = stem
        .strip_prefix("test_")
        .or_else(|| stem.strip_suffix("_test"))
        .unwrap_or(stem);
    stem.to_owned()
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
        constraints
            .iter()
            .map(move |(constraint, place)| format!("`{name} {constraint}` {place}"))
    });
    (!twice.is_empty()).then(|| Finding {
        title: DECLARED_TWICE,
        measured: format!(
            "{} of {} names have more than one constraint.",
            twice.len(),
            declared.len()
        ),
        places: places.take(PLACES_MAX).collect(),
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
    let both: Vec<String> = places
        .iter()
        .filter(|((importer, imported), _)| importer < imported)
        .filter_map(|((importer, imported), place)| {
            let back = places.get(&(imported.clone(), importer.clone()))?;
            Some(format!("{place} and {back}"))
        })
        .collect();
    (!both.is_empty()).then(|| Finding {
        title: CYCLES,
        measured: format!("{} pairs, counting imports at the top level of a file.", both.len()),
        places: both.into_iter().take(PLACES_MAX).collect(),
        change: "move what both need into a third module, or pass it in".to_owned(),
        cost: "touches every import of what moves",
        check: "each of the modules can be imported alone",
    })
}

fn searched(evidence: &Evidence<'_>) -> Vec<Finding> {
    let finding = |(number, (title, _, change)): (usize, &(&'static str, &str, &str))| {
        let answer = evidence.of("search").find(|answer| answer.is_number(number + 1))?;
        let found = hits(answer.text());
        let totals = answer
            .text()
            .lines()
            .rev()
            .find(|line| line.contains("match") && line.contains(" in "))?;
        (!found.is_empty()).then(|| Finding {
            title,
            measured: format!("{}.", totals.split(';').next().unwrap_or(totals)),
            places: found.iter().take(PLACES_MAX).map(Hit::place).collect(),
            change: (*change).to_owned(),
            cost: "small and local, one place at a time",
            check: "the search that found them finds fewer",
        })
    };
    SEARCHES.iter().enumerate().filter_map(finding).collect()
}
