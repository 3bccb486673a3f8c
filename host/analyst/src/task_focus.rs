//! The files that a task concerns: those with its words in their path or lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::json;

use crate::evidence::{AnalystTask, Evidence, SearchHit, parse_hits};
use crate::explain::globs_of;
use crate::survey::Survey;
use crate::text::cite_lines;
use crate::tool_call;
use tool_provider::ToolCall;

/// Words of a task that are searched.
const WORDS_MAX: usize = 12;
/// Shortest word that says something.
const WORD_LETTERS_MIN: usize = 4;
/// Names of a line that are shown.
const NAMES_MAX: usize = 3;
const FILES_MAX: usize = 6;

/// Words that are common in tasks of any subject.
const COMMON_WORDS: [&str; 46] = [
    "about",
    "add",
    "all",
    "and",
    "any",
    "avoid",
    "better",
    "between",
    "change",
    "code",
    "could",
    "each",
    "easier",
    "fast",
    "faster",
    "file",
    "files",
    "find",
    "from",
    "have",
    "improve",
    "into",
    "less",
    "make",
    "more",
    "module",
    "modules",
    "move",
    "need",
    "only",
    "other",
    "project",
    "reduce",
    "remove",
    "replace",
    "replaceable",
    "should",
    "simplify",
    "split",
    "than",
    "that",
    "this",
    "using",
    "when",
    "with",
    "without",
];

#[derive(Debug, PartialEq)]
pub(super) struct FocusFile {
    pub(super) path: String,
    /// A line with most of the words that the file has, and its names that contain them.
    line: usize,
    names: Vec<String>,
    score: f64,
}

/// The words that characterise a task, in lower case.
fn words_of(task: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in task.split(|sign: char| !sign.is_alphanumeric() && sign != '_') {
        let lower = word.to_lowercase();
        // A plural finds its singular, too.
        let word = lower
            .strip_suffix('s')
            .filter(|word| !word.ends_with('s'))
            .unwrap_or(&lower);
        let is_common = COMMON_WORDS.contains(&word) || COMMON_WORDS.contains(&lower.as_str());
        if word.chars().count() >= WORD_LETTERS_MIN && !is_common && !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words.truncate(WORDS_MAX);
    words
}

/// Finds lines with the words of the task; `None` if the task has no such word.
pub(super) fn search_of_words(brief: &AnalystTask, survey: &Survey) -> Option<ToolCall> {
    let words: Vec<String> = words_of(&brief.task).iter().map(|word| regex::escape(word)).collect();
    let arguments = json!({
        "pattern": words.join("|"),
        "path": brief.target,
        "globs": globs_of(survey.main_language()),
        "limit": 1000,
        "case": "insensitive"
    });
    (!words.is_empty()).then(|| tool_call("task", 1, "search_code", &arguments))
}

/// The files that the task concerns, the most likely first: rare words and words in the path count for more.
pub(super) fn focus_files(brief: &AnalystTask, survey: &Survey, evidence: &Evidence<'_>) -> Vec<FocusFile> {
    let words = words_of(&brief.task);
    let found: Vec<_> = evidence
        .of("task")
        .flat_map(|answer| parse_hits(answer.text()))
        .collect();
    let mut lines: BTreeMap<&str, (Option<&SearchHit>, usize, BTreeSet<&String>)> = BTreeMap::new();
    for hit in found.iter().filter(|hit| survey.is_source(&hit.path)) {
        let lower = hit.text.to_lowercase();
        let inside: BTreeSet<&String> = words.iter().filter(|word| lower.contains(word.as_str())).collect();
        let (best, in_best, in_file) = lines.entry(&hit.path).or_default();
        if inside.len() > *in_best {
            (*best, *in_best) = (Some(hit), inside.len());
        }
        in_file.extend(inside);
    }
    let weight = |word: &String| {
        let files = lines.values().filter(|(_, _, in_file)| in_file.contains(word)).count();
        ((1 + lines.len()) as f64 / files.max(1) as f64).ln()
    };
    let weights: BTreeMap<&String, f64> = words.iter().map(|word| (word, weight(word))).collect();
    let mut files: Vec<FocusFile> = lines
        .iter()
        .filter_map(|(path, (best, _, in_file))| {
            let best = (*best)?;
            let lower = path.to_lowercase();
            let in_path = words.iter().filter(|word| lower.contains(word.as_str()));
            let score = in_file.iter().map(|word| weights[*word]).sum::<f64>()
                + in_path.map(|word| 2.0 * weights[word]).sum::<f64>();
            Some(FocusFile {
                path: (*path).to_owned(),
                line: best.number,
                names: names_with(&words, &best.text),
                score,
            })
        })
        .collect();
    files.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.path.cmp(&b.path)));
    let least = files.first().map_or(0.0, |best| best.score / 2.0);
    files.retain(|file| file.score >= least);
    files.truncate(FILES_MAX);
    files
}

/// The first names of a line that contain one of the words.
fn names_with(words: &[String], line: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in line.split(|sign: char| !sign.is_alphanumeric() && sign != '_') {
        let lower = name.to_lowercase();
        if words.iter().any(|word| lower.contains(word.as_str())) && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names.truncate(NAMES_MAX);
    names
}

/// The section about the task: the files that it concerns, and how many findings are in one of these files.
pub(super) fn task_section(brief: &AnalystTask, files: &[FocusFile], bearing: Option<usize>) -> String {
    if files.is_empty() {
        let reason = if words_of(&brief.task).is_empty() {
            "The task has no word that tells one file from another"
        } else {
            "No source contains a word of the task"
        };
        return match bearing {
            Some(_) => format!("{reason}, so the findings below are not sorted by it.\n\n"),
            None => format!("{reason}.\n\n"),
        };
    }
    let mut text = "The task concerns these files, by its words:\n\n".to_owned();
    for file in files {
        let names: Vec<String> = file.names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "- {} ({})", names.join(", "), cite_lines(&file.path, &file.line));
    }
    text.push_str(match bearing {
        None => "\n",
        Some(0) => "\nNo finding below lies in one of them, so none bears on the task.\n\n",
        Some(1) => "\nOne finding lies in one of them; it comes first.\n\n",
        Some(_) => "\nFindings that lie in one of them come first.\n\n",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_task_are_its_subjects() {
        assert_eq!(words_of("Make the parsers replaceable, not Pass"), ["parser", "pass"]);
        assert!(words_of("make it better").is_empty());
    }

    #[test]
    fn a_task_without_a_finding_says_so() {
        let file = FocusFile {
            path: "src/parser.py".to_owned(),
            line: 3,
            names: names_with(&["parser".to_owned()], "class OptionParser(parser): # parser"),
            score: 1.0,
        };
        let expected = "The task concerns these files, by its words:\n\n- `OptionParser`, `parser` (src/parser.py:3)\n\n\
                        No finding below lies in one of them, so none bears on the task.\n\n";
        assert_eq!(task_section(&AnalystTask::default(), &[file], Some(0)), expected);
    }

    #[test]
    fn a_task_without_a_file_says_why() {
        let section = |task: &str, bearing| {
            let brief = AnalystTask {
                task: task.to_owned(),
                ..AnalystTask::default()
            };
            task_section(&brief, &[], bearing)
        };
        assert_eq!(
            section("lazy parsers", Some(1)),
            "No source contains a word of the task, so the findings below are not sorted by it.\n\n"
        );
        assert_eq!(
            section("make it better", None),
            "The task has no word that tells one file from another.\n\n"
        );
    }
}
