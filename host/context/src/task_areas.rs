//! Areas: the parts of a project that a task names before its first colon, as in `ext4: …`, `fix(router): …` or
//! `net/http, cgi: …`.
//!
//! Projects with such commit titles use names of directories, packages and files as areas. These functions are pure.

use super::words::{join_words, split_identifier};
#[cfg(test)]
use tool_repository::file_role::{file_stem, parent_directory};

/// A task that seems to name more parts does not list parts.
const AREAS_MAX: usize = 6;

/// Longest text before a colon that is read as a list of parts.
const AREA_BYTES_MAX: usize = 60;

/// A part of the project as steps of a path, in the joined form of [`join_words`]: `net/http` has two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskArea {
    /// As written in the task.
    pub(super) written: String,
    steps: Vec<String>,
}

pub(super) fn parse_areas(title: &str) -> Vec<TaskArea> {
    let mut areas: Vec<TaskArea> = Vec::new();
    let mut rest = title.trim();
    // `net: phy: marvell: …` narrows the part step by step.
    while let Some((head, after)) = next_head(rest) {
        for written in head.split([',', '(', ')', ' ', '[', ']', '!', '&', '|']).map(str::trim) {
            let steps: Vec<String> = written
                .split('/')
                .map(join_words)
                .filter(|step| step.len() > 1)
                .collect();
            let is_kind = written.is_empty() || steps.iter().all(|step| is_kind_of_change(step));
            if !is_kind && areas.len() < AREAS_MAX {
                areas.push(TaskArea {
                    written: written.to_owned(),
                    steps,
                });
            }
        }
        rest = after;
    }
    areas
}

/// Splits off the parts before a colon, or in brackets at the beginning. The second text is the rest.
fn next_head(text: &str) -> Option<(&str, &str)> {
    if let Some((head, after)) = text.strip_prefix('[').and_then(|inner| inner.split_once(']'))
        && is_list_of_names(head)
    {
        return Some((head, after.trim_start_matches([':', ' '])));
    }
    let (head, after) = text.split_once(": ").or_else(|| text.split_once(" - "))?;
    is_list_of_names(head).then_some((head, after))
}

fn is_list_of_names(head: &str) -> bool {
    let is_sign = |c: char| c.is_alphanumeric() || "_-./+,()&|! ".contains(c);
    let words = head.split([' ', ',']).filter(|word| !word.is_empty()).count();
    let commas = head.matches(',').count();
    head.len() <= AREA_BYTES_MAX && head.chars().all(is_sign) && (1..=2 + commas).contains(&words)
}

/// True for words before a colon that name a kind of change, such as `fix`.
fn is_kind_of_change(step: &str) -> bool {
    const KINDS: &[&str] = &[
        "bug",
        "bugfix",
        "build",
        "chore",
        "ci",
        "cleanup",
        "deps",
        "doc",
        "docs",
        "enhancement",
        "feat",
        "feature",
        "fix",
        "fixes",
        "hotfix",
        "improvement",
        "minor",
        "misc",
        "nfc",
        "perf",
        "refactor",
        "revert",
        "security",
        "style",
        "test",
        "tests",
        "wip",
    ];
    KINDS.contains(&step)
}

/// The certainty, from 0 to 1, that a path belongs to an area, judged by the path alone.
#[cfg(test)]
pub(super) fn belongs(area: &TaskArea, path: &str) -> f64 {
    let of_step = |step: AreaStep<'_>| {
        step.in_name(file_stem(path))
            .max(step.in_folders(parent_directory(path)))
    };
    area.weigh(&area.steps().map(of_step).collect::<Vec<_>>())
}

impl TaskArea {
    pub(super) fn steps(&self) -> impl Iterator<Item = AreaStep<'_>> {
        self.steps.iter().map(|step| AreaStep(step))
    }

    /// Combines the certainties of the steps of a path.
    pub(super) fn weigh(&self, steps: &[f64]) -> f64 {
        // The last step is the part itself; the steps before it say where it is.
        match steps.split_last() {
            Some((last, [])) => *last,
            Some((last, before)) => last * (0.4 + 0.6 * before.iter().sum::<f64>() / before.len() as f64),
            None => 0.0,
        }
    }
}

/// One step of an area. Its certainty for a path is the greater of those for the file name and the directories.
#[derive(Debug, Clone, Copy)]
pub(super) struct AreaStep<'a>(&'a str);

impl AreaStep<'_> {
    /// The certainty that this step is the file's name without extensions.
    pub(super) fn in_name(self, own: &str) -> f64 {
        match self.0 {
            step if join_words(own) == *step => 1.0,
            step if has_word(own, step) => 0.5,
            _ => 0.0,
        }
    }

    /// The certainty that this step is one of the directories of a path.
    pub(super) fn in_folders(self, path: &str) -> f64 {
        let folders = || path.split('/').filter(|folder| !folder.is_empty());
        if folders().any(|folder| join_words(folder) == *self.0) {
            0.8
        } else if folders().any(|folder| has_word(folder, self.0)) {
            0.3
        } else {
            0.0
        }
    }

    /// False only if [`Self::in_name`] is 0. `joined` is the joined form of the name, which contains each of its words,
    /// except for letters beyond ASCII.
    pub(super) fn may_be_in(self, joined: &str, own: &str) -> bool {
        !own.is_ascii() || memchr::memmem::find(joined.as_bytes(), self.0.as_bytes()).is_some()
    }
}

/// True if a word of the name is `wanted`, or its last words joined are.
fn has_word(name: &str, wanted: &str) -> bool {
    name.split(['-', '.', '+']).any(|part| {
        let mut found = join_words(part).ends_with(wanted) && wanted.len() > 3;
        split_identifier(part.as_bytes(), |word, _| found |= word == wanted.as_bytes());
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(title: &str) -> Vec<String> {
        parse_areas(title).into_iter().map(|area| area.written).collect()
    }

    #[test]
    fn a_title_names_the_parts_before_its_colon() {
        for (title, expected) in [
            ("ext4: avoid deadlock when journal commit fails", &["ext4"][..]),
            ("fix(router): keep the query", &["router"]),
            ("net/http, net/url: escape the host", &["net/http", "net/url"]),
            ("net: phy: marvell: fix led", &["net", "phy", "marvell"]),
            ("[core] drop a lock", &["core"]),
            ("fix: drop a lock", &[]),
            ("Remember this: a colon in prose is none", &["Remember", "this"]),
            ("When a user asks for it: do it", &[]),
            ("no colon", &[]),
        ] {
            assert_eq!(named(title), expected, "{title}");
        }
    }

    #[test]
    fn a_path_belongs_to_the_part_that_its_name_or_directory_says() {
        let value = |title: &str, path: &str| belongs(&parse_areas(title)[0], path);
        for (title, path, expected) in [
            ("ext4: x", "fs/ext4/super.c", 0.8),
            ("ext4: x", "fs/jbd2/commit.c", 0.0),
            ("ext4: x", "include/trace/events/ext4.h", 1.0),
            ("super: x", "fs/ext4/super_block.c", 0.5),
            ("net/http: x", "src/net/http/server.go", 0.704),
            ("net/http: x", "vendor/http/server.go", 0.32),
        ] {
            assert!(
                (value(title, path) - expected).abs() < 1e-9,
                "{title} {path} {}",
                value(title, path)
            );
        }
    }
}
