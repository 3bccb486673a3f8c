//! `architect` without a model: what was measured about the parts of the repository that the task names.
//!
//! The analyst proposes nothing: whether and how to change these parts is a judgement. A task that names no part of the
//! repository is refused.

use std::fmt::Write;

use super::evidence::{AnalystTask, size_text};
use super::text::{cite_lines, cut_text, escape_prose, quote_code};
use super::{AnalystStep, NO_MODEL, refuse_task};
use tool_core::api::{FoundPlace, FoundPlaces, Problem, TaskSubject};

const TASK_CHARACTERS_MAX: usize = 200;

/// The answer of `architect`.
///
/// # Errors
///
/// If the task names no part of the repository.
pub(super) fn answer_task(brief: &AnalystTask) -> Result<AnalystStep, Problem> {
    let subjects = &brief.facts.subjects;
    if subjects.is_empty() {
        return Err(refuse_task());
    }
    let titles: Vec<String> = subjects.iter().map(title_of).collect();
    let mut text = format!("# Measurements for {}\n\n> {NO_MODEL}\n\n", titles.join(", "));
    if let Some(task) = brief.task.lines().find(|line| !line.trim().is_empty()) {
        let _ = writeln!(
            text,
            "Task: {}\n",
            escape_prose(&cut_text(task.trim(), TASK_CHARACTERS_MAX))
        );
    }
    for (subject, title) in subjects.iter().zip(titles) {
        text.push_str(&write_subject(subject, &title));
    }
    text.push_str("To weigh the trade-offs, a model has to read this: `tool init`.\n");
    Ok(AnalystStep::Text(text))
}

fn title_of(subject: &TaskSubject) -> String {
    quote_code(if subject.name.is_empty() {
        &subject.path
    } else {
        &subject.name
    })
}

fn write_subject(subject: &TaskSubject, title: &str) -> String {
    let (first, last) = subject.lines;
    let (is_folder, is_package) = (subject.path.ends_with('/'), subject.path.is_empty());
    let mut text = format!("## {title}\n\n");
    let mut item = |label: &str, words: String| {
        if !words.is_empty() {
            let _ = writeln!(text, "- {label}: {words}");
        }
    };
    if is_package {
        item("Defined", "outside of this repository".to_owned());
    } else if is_folder {
        let sources = count_of(subject.parts.count, "source");
        let files = list_with(&subject.parts, |file| {
            format!("{} ({})", cite_lines(&file.path, &1), size_text(file.amount as f64))
        });
        item("Size", format!("{sources}, the largest first: {files}"));
    } else {
        let place = cite_lines(&subject.path, &format_args!("{first}-{last}"));
        let label = if subject.name.is_empty() { "File" } else { "Defined" };
        item(
            label,
            format!("{title} ({place}), {}", count_of(u64::from(last - first) + 1, "line")),
        );
        item("Also defined", list_of(&subject.others));
        let parts = count_of(subject.parts.count, "definition");
        item(
            "Holds",
            prefix(&subject.parts, &format!("{parts}, the longest first: ")),
        );
    }
    let users = format!("{}: ", count_of(subject.users.count, "source"));
    item(
        "Used by",
        match subject.users.count {
            0 => "no source was recognised by an import or a use of its name".to_owned(),
            _ => prefix(&subject.users, &users),
        },
    );
    let tests = format!("{}: ", count_of(subject.tests.count, "file"));
    item(
        "Tests",
        match subject.tests.count {
            0 => "none was recognised by an import, a use or its name".to_owned(),
            _ => prefix(&subject.tests, &tests),
        },
    );
    let imports = format!("{} of this repository: ", count_of(subject.imports.count, "file"));
    item("Imports", prefix(&subject.imports, &imports));
    if let Some((commits, changing)) = subject.commits {
        item(
            "Changed",
            format!("in {changing} of the newest {}", count_of(commits, "commit")),
        );
    }
    text.push('\n');
    text
}

fn count_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The places behind some words; empty if there are none.
fn prefix(places: &FoundPlaces, words: &str) -> String {
    if places.count == 0 {
        return String::new();
    }
    format!("{words}{}", list_of(places))
}

/// Places with their names and lines, or the number of uses.
fn list_of(places: &FoundPlaces) -> String {
    list_with(places, |place| {
        let (first, last) = place.lines;
        let cited = |lines: &dyn std::fmt::Display| cite_lines(&place.path, &lines);
        match (place.name.as_str(), place.amount) {
            ("", 0) => cited(&first),
            ("", uses) => format!("{} ({})", cited(&first), count_of(uses, "use")),
            (name, _) => format!("{} ({})", quote_code(name), cited(&format_args!("{first}-{last}"))),
        }
    })
}

fn list_with(places: &FoundPlaces, describe: impl Fn(&FoundPlace) -> String) -> String {
    let mut listed: Vec<String> = places.first.iter().map(describe).collect();
    let more = places.count.saturating_sub(listed.len() as u64);
    if more > 0 {
        listed.push(format!("… and {more} more"));
    }
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(places: &[(&str, &str, u32, u64)], count: u64) -> FoundPlaces {
        let place = |(path, name, line, amount): &(&str, &str, u32, u64)| FoundPlace {
            path: (*path).to_owned(),
            name: (*name).to_owned(),
            lines: (*line, *line + 9),
            amount: *amount,
        };
        FoundPlaces {
            first: places.iter().map(place).collect(),
            count,
        }
    }

    fn written(subjects: Vec<TaskSubject>) -> Result<String, Problem> {
        let mut brief = AnalystTask {
            task: "split the Cart".to_owned(),
            ..AnalystTask::default()
        };
        brief.facts.subjects = subjects;
        match answer_task(&brief)? {
            AnalystStep::Text(text) => Ok(text),
            AnalystStep::Calls(_) => panic!("it has all facts"),
        }
    }

    #[test]
    fn a_definition_is_shown_with_its_size_users_tests_and_changes() {
        let cart = TaskSubject {
            name: "Cart".to_owned(),
            path: "shop/cart.py".to_owned(),
            lines: (3, 42),
            parts: places(&[("shop/cart.py", "total", 5, 0)], 1),
            users: places(&[("shop/app.py", "", 2, 3)], 9),
            imports: places(&[("shop/prices.py", "", 1, 0)], 1),
            commits: Some((200, 14)),
            ..TaskSubject::default()
        };
        let folder = TaskSubject {
            path: "shop/".to_owned(),
            parts: places(&[("shop/cart.py", "", 1, 2000)], 2),
            ..TaskSubject::default()
        };
        let text = written(vec![cart, folder]).expect("it has subjects");
        insta::assert_snapshot!(text, @r"
        # Measurements for `Cart`, `shop/`

        > Written by the embedded analyst from measurements of this repository. No language model was used.

        Task: split the Cart

        ## `Cart`

        - Defined: `Cart` (shop/cart.py:3-42), 40 lines
        - Holds: 1 definition, the longest first: `total` (shop/cart.py:5-14)
        - Used by: 9 sources: shop/app.py:2 (3 uses), … and 8 more
        - Tests: none was recognised by an import, a use or its name
        - Imports: 1 file of this repository: shop/prices.py:1
        - Changed: in 14 of the newest 200 commits

        ## `shop/`

        - Size: 2 sources, the largest first: shop/cart.py:1 (2.0 kB), … and 1 more
        - Used by: no source was recognised by an import or a use of its name
        - Tests: none was recognised by an import, a use or its name

        To weigh the trade-offs, a model has to read this: `tool init`.
        ");
    }

    #[test]
    fn a_task_that_names_no_part_of_the_repository_is_refused() {
        let problem = written(Vec::new()).expect_err("nothing was found");
        assert_eq!(problem.kind.exit_code(), 1);
    }
}
