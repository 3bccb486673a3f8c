//! The overview of a directory, written from what was measured.

use std::fmt::Write;

use super::{ROWS_MAX, entry_points, head_of, holdings, patterns, symbols};
use crate::NO_MODEL;
use crate::evidence::{Brief, Evidence, Hit, NumberedLine, hits, lines, size_text};
use crate::survey::Survey;
use tool_repository::file_role::file_name;

/// Of the symbols whose uses are counted, the most used ones that are listed.
const SYMBOLS_MAX: usize = 6;

pub(super) fn overview(brief: &Brief, survey: &Survey, evidence: &Evidence<'_>) -> String {
    if let Some(why) = evidence.why_not("list", &brief.target) {
        return format!(
            "# `{}/`\n\n> {NO_MODEL}\n\n## What it is\n\nIts files were not counted: {why}.\n",
            brief.target
        );
    }
    let reads: Vec<(String, Vec<NumberedLine>)> = evidence
        .of("read")
        .map(|answer| (answer.argument("path"), lines(answer.text())))
        .collect();
    let mut text = format!("# {}\n\n> {NO_MODEL}\n\n", title(brief, &reads));
    for section in [
        what_it_is(brief, survey, &reads),
        sizes(brief, survey),
        held(brief, survey, &reads),
        starts(survey, &reads),
        map(brief, survey, &reads),
        declared(brief, survey),
        central(evidence),
        key_patterns(survey, evidence),
        tests(survey, &reads),
        left_out(survey),
    ] {
        if !section.is_empty() {
            text.push_str(&section);
            text.push('\n');
        }
    }
    text
}

/// The name that a manifest or the README gives, else the target's own.
fn title(brief: &Brief, reads: &[(String, Vec<NumberedLine>)]) -> String {
    let named = reads.iter().find_map(|(path, lines)| match file_name(path) {
        "pyproject.toml" | "Cargo.toml" => value_of(lines, "name ="),
        "package.json" => value_of(lines, "\"name\":"),
        _ => None,
    });
    let heading = || {
        let (_, lines) = reads.iter().find(|(path, _)| is_readme(path))?;
        let first = lines.iter().find(|line| line.text.chars().any(char::is_alphanumeric))?;
        Some(first.text.trim_matches(|c: char| !c.is_alphanumeric()).to_owned())
    };
    let name = named.map(|(name, _)| name).or_else(heading);
    match (brief.target.as_str(), name) {
        ("", Some(name)) => name,
        ("", None) if !brief.repository.is_empty() => brief.repository.clone(),
        ("", None) => "This repository".to_owned(),
        (target, _) => format!("`{target}/`"),
    }
}

/// The quoted value behind a key, and its line.
fn value_of(lines: &[NumberedLine], key: &str) -> Option<(String, usize)> {
    let line = lines.iter().find(|line| line.text.trim_start().starts_with(key))?;
    let (_, value) = line.text.split_once(key)?;
    let value = value.trim().trim_end_matches(',').trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| (value.to_owned(), line.number))
}

fn is_readme(path: &str) -> bool {
    file_name(path).to_ascii_lowercase().starts_with("readme")
}

fn what_it_is(brief: &Brief, survey: &Survey, reads: &[(String, Vec<NumberedLine>)]) -> String {
    let mut text = "## What it is\n\n".to_owned();
    if let Some((path, lines)) = reads.iter().find(|(path, _)| is_readme(path))
        && let Some((words, number)) = first_paragraph(lines)
    {
        let _ = writeln!(text, "{words} ({path}:{number})\n");
    }
    for (path, lines) in reads {
        let key = match file_name(path) {
            "pyproject.toml" | "Cargo.toml" => "description =",
            "package.json" => "\"description\":",
            _ => continue,
        };
        if let Some((words, number)) = value_of(lines, key) {
            let _ = writeln!(text, "Its manifest says: {words} ({path}:{number})\n");
        }
    }
    let what = if brief.target.is_empty() {
        "The repository"
    } else {
        "The directory"
    };
    let _ = match survey.main_language() {
        Some(language) => writeln!(
            text,
            "{what} holds {}, and its sources are mainly {language}.",
            survey.totals
        ),
        None => writeln!(
            text,
            "{what} holds {}, none of it in a programming language that is known here.",
            survey.totals
        ),
    };
    text
}

/// The first paragraph of prose, on one line: headings, badges, directives and rules are passed over.
fn first_paragraph(lines: &[NumberedLine]) -> Option<(String, usize)> {
    let is_prose = |line: &&NumberedLine| {
        let text = line.text.trim();
        let letters = text.chars().filter(|character| character.is_alphabetic()).count();
        !text.starts_with(['#', '!', '[', '<', '=', '-', '.', '|', '`', '*', '>'])
            && letters * 2 > text.len()
            && text.contains(' ')
    };
    let underlined = |line: &NumberedLine| {
        let below = lines.iter().find(|other| other.number == line.number + 1);
        below.is_some_and(|below| below.text.len() > 2 && below.text.chars().all(|c| "=-~^\"".contains(c)))
    };
    let first = lines.iter().filter(is_prose).find(|line| !underlined(line))?;
    let paragraph: Vec<&str> = lines
        .iter()
        .skip_while(|line| line.number < first.number)
        .map(|line| line.text.trim())
        .take_while(|text| !text.is_empty())
        .collect();
    Some((sentence_cut(&paragraph.join(" "), 400), first.number))
}

/// A text cut at the end of a word.
pub(super) fn sentence_cut(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let cut: String = text.chars().take(characters_max).collect();
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{} …", &cut[..end])
}

fn sizes(brief: &Brief, survey: &Survey) -> String {
    let mut text = "## Languages and sizes\n\n| Language | Files | Size |\n|---|---:|---:|\n".to_owned();
    for row in survey.languages().iter().take(8) {
        let _ = writeln!(text, "| {} | {} | {} |", row.name, row.files, row.size());
    }
    let mut sources: Vec<_> = survey.sources().collect();
    sources.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    if !sources.is_empty() {
        let largest: Vec<String> = sources
            .iter()
            .take(5)
            .map(|file| format!("{}:1 ({})", file.path, size_text(file.bytes)))
            .collect();
        let _ = writeln!(text, "\nLargest sources: {}.", largest.join(", "));
    }
    if !survey.complete {
        let place = if brief.target.is_empty() {
            "repository"
        } else {
            "directory"
        };
        let _ = writeln!(text, "\nThe {place} holds more files than were counted here.");
    }
    text
}

/// Lists the files of a target that holds no program text, each with its first words.
fn held(brief: &Brief, survey: &Survey, reads: &[(String, Vec<NumberedLine>)]) -> String {
    let paths = holdings(brief, survey);
    if paths.is_empty() {
        return String::new();
    }
    let mut text = "## What lies in it\n\n".to_owned();
    for path in &paths {
        let lines = reads.iter().find(|(read, _)| read == path);
        let lines = lines.map(|(_, lines)| lines.as_slice()).unwrap_or_default();
        let heading = || {
            let first = lines.iter().find(|line| line.text.chars().any(char::is_alphanumeric))?;
            Some((sentence_cut(first.text.trim(), 100), first.number))
        };
        match own_words(lines).or_else(|| first_paragraph(lines)).or_else(heading) {
            Some((words, number)) => {
                let _ = writeln!(text, "- `{path}`: {} ({path}:{number})", sentence_cut(&words, 160));
            }
            None => {
                let _ = writeln!(text, "- `{path}`");
            }
        }
    }
    text
}

fn starts(survey: &Survey, reads: &[(String, Vec<NumberedLine>)]) -> String {
    let mut text = "## Entry points\n\n".to_owned();
    let before = text.len();
    for (path, lines) in reads {
        for line in declared_starts(path, lines) {
            let _ = writeln!(
                text,
                "- declared: `{}` ({path}:{})",
                line.text.trim().trim_end_matches(','),
                line.number
            );
        }
    }
    for path in entry_points(survey) {
        let (words, place) = head_words(&path, reads);
        let _ = writeln!(text, "- `{path}`{words}{place}");
    }
    if text.len() == before {
        text.push_str(if survey.is_aside {
            "None was recognised.\n"
        } else {
            "None was recognised: it is probably used as a library.\n"
        });
    }
    text
}

/// Lines of a manifest that declare commands or entry modules.
fn declared_starts<'l>(path: &str, lines: &'l [NumberedLine]) -> Vec<&'l NumberedLine> {
    match file_name(path) {
        "pyproject.toml" => in_table(
            lines,
            &["[project.scripts]", "[project.gui-scripts]", "[tool.poetry.scripts]"],
        ),
        "setup.cfg" => {
            let inside = in_table(lines, &["[options.entry_points]"]);
            inside.into_iter().filter(|line| line.text.contains(':')).collect()
        }
        "Cargo.toml" => {
            let bins = in_table(lines, &["[[bin]]"]);
            bins.into_iter()
                .filter(|line| line.text.trim_start().starts_with("name"))
                .collect()
        }
        "package.json" => {
            let keys = ["\"main\":", "\"bin\":", "\"module\":", "\"start\":"];
            lines
                .iter()
                .filter(|line| keys.iter().any(|key| line.text.trim_start().starts_with(key)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The settings beneath one of these headings.
fn in_table<'l>(lines: &'l [NumberedLine], headings: &[&str]) -> Vec<&'l NumberedLine> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in lines {
        let text = line.text.trim();
        if text.starts_with('[') {
            inside = headings.contains(&text);
        } else if inside && text.contains('=') && !text.starts_with('#') {
            found.push(line);
        }
    }
    found
}

/// Returns a file's description from its first lines, as `: words`, and its place, ` (path:line)`: the first line where
/// there is no description. An empty file has no line that could be cited.
fn head_words(path: &str, reads: &[(String, Vec<NumberedLine>)]) -> (String, String) {
    let lines = reads
        .iter()
        .find(|(read, _)| read == path)
        .map(|(_, lines)| lines.as_slice())
        .unwrap_or_default();
    let place = |number: usize| format!(" ({path}:{number})");
    match own_words(lines) {
        Some((words, number)) => (format!(": {words}"), place(number)),
        None => (
            String::new(),
            lines.first().map_or_else(String::new, |line| place(line.number)),
        ),
    }
}

/// The first sentence of a docstring or of a leading comment; licence headers and directives say nothing.
pub(super) fn own_words(lines: &[NumberedLine]) -> Option<(String, usize)> {
    const NOTHING: [&str; 10] = [
        "copyright",
        "license",
        "licence",
        "spdx",
        "eslint",
        "coding",
        "usr/bin",
        "jshint",
        "@",
        "generated",
    ];
    let mut fenced = false;
    for (at, line) in lines.iter().enumerate() {
        let text = line.text.trim();
        let opens = text.starts_with("\"\"\"") || text.starts_with("'''") || text.starts_with("r\"\"\"");
        let comment = ["//!", "///", "//", "/**", "/*", "#", "*"]
            .iter()
            .any(|mark| text.starts_with(mark));
        if text.is_empty() || text == "'use strict';" || text == "\"use strict\";" {
            continue;
        }
        if !opens && !comment && !fenced {
            return None;
        }
        fenced |= opens;
        let words = unmarked(text);
        let lower = words.to_ascii_lowercase();
        let letters = words.chars().filter(|c| c.is_alphabetic()).count();
        if letters > 3 && !NOTHING.iter().any(|word| lower.contains(word)) {
            let closed = text.len() > 3 && (text.ends_with("\"\"\"") || text.ends_with("'''") || text.ends_with("*/"));
            let rest = if closed { &[] } else { &lines[at + 1..] };
            return Some((sentence_cut(&first_sentence(words, rest), 160), line.number));
        }
    }
    None
}

/// A line of a comment or a docstring without its marks.
fn unmarked(text: &str) -> &str {
    text.trim()
        .trim_start_matches("r\"\"\"")
        .trim_start_matches(['"', '\'', '/', '!', '*', '#', ' '])
        .trim_end_matches(['"', '\'', '*', '/'])
        .trim()
}

/// The first sentence of a paragraph that begins with these words and goes on in the lines below.
fn first_sentence(words: &str, below: &[NumberedLine]) -> String {
    let mut sentence = words.to_owned();
    for line in below {
        let ended = sentence.contains(". ") || sentence.ends_with(['.', ':', '!', '?']);
        let more = unmarked(&line.text);
        let code = [
            "import ", "from ", "use ", "pub ", "fn ", "def ", "class ", "const ", "package ",
        ];
        if ended || more.is_empty() || code.iter().any(|start| line.text.starts_with(start)) {
            break;
        }
        sentence = format!("{sentence} {more}");
    }
    match sentence.find(". ") {
        Some(end) => sentence[..=end].to_owned(),
        None => sentence,
    }
}

fn map(brief: &Brief, survey: &Survey, reads: &[(String, Vec<NumberedLine>)]) -> String {
    let (directory, parts) = survey.modules(&brief.target);
    if parts.is_empty() && !holdings(brief, survey).is_empty() {
        return String::new();
    }
    let place = if directory.is_empty() {
        ".".to_owned()
    } else {
        directory.clone()
    };
    let mut text =
        format!("## Module map of `{place}`\n\n| Module | Sources | Size | In its own words |\n|---|---:|---:|---|\n");
    for part in parts.iter().take(ROWS_MAX) {
        let words = match head_of(&directory, &part.name, survey) {
            Some(path) => {
                let (words, place) = head_words(&path, reads);
                format!("{}{place}", words.trim_start_matches(": ").replace('|', "\\|"))
            }
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            part.name,
            part.files,
            part.size(),
            words.trim()
        );
    }
    if parts.len() > ROWS_MAX {
        let _ = writeln!(text, "\n… and {} more.", parts.len() - ROWS_MAX);
    }
    if parts.is_empty() {
        text.push_str("\nThere are no sources in a language that is known here.\n");
    }
    text
}

fn declared(brief: &Brief, survey: &Survey) -> String {
    let mut text = "## Dependencies\n\n".to_owned();
    for problem in &survey.broken {
        let _ = writeln!(text, "- a manifest could not be read: {problem}");
    }
    if survey.dependencies.is_empty() && survey.broken.is_empty() {
        text.push_str("No manifest declares any.\n");
    } else if !brief.target.is_empty() {
        text.push_str("Of the whole repository:\n\n");
    }
    for dependency in survey.dependencies.iter().take(ROWS_MAX) {
        let _ = writeln!(
            text,
            "- `{}` [{}] ({})",
            dependency.name, dependency.group, dependency.place
        );
    }
    if survey.dependencies.len() > ROWS_MAX {
        let _ = writeln!(text, "- … and {} more", survey.dependencies.len() - ROWS_MAX);
    }
    text
}

pub(super) fn central(evidence: &Evidence<'_>) -> String {
    let mut text = "## Central symbols\n\n".to_owned();
    let mut counted: Vec<(u64, Hit, String, String)> = symbols(evidence)
        .into_iter()
        .filter_map(|(hit, name)| {
            let answer = evidence.of("uses").find(|answer| answer.argument("symbol") == name)?;
            let (count, summary) = references(answer.text())?;
            Some((count, hit, name, summary))
        })
        .collect();
    counted.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
    for (_, hit, name, summary) in counted.iter().take(SYMBOLS_MAX) {
        let _ = writeln!(text, "- `{name}` — {summary} ({})", hit.place());
    }
    if counted.is_empty() {
        text.push_str("No definition was found in the files that the context engine chose.\n");
    }
    for answer in evidence.of("function") {
        text.push_str(&explained(answer.text()));
    }
    text
}

/// The count and the sentence of a find_references answer: `16 references to `run` in 4 files: …`.
fn references(text: &str) -> Option<(u64, String)> {
    let line = text
        .lines()
        .find(|line| line.contains(" references to ") || line.contains(" reference to "))?;
    let (count, rest) = line.split_once(' ')?;
    let what = if count == "1" { "reference" } else { "references" };
    let places = rest.rsplit_once(" in ").map(|(_, places)| places).unwrap_or(rest);
    let places = places.split_once(". ").map_or(places, |(before, _)| before);
    Some((
        count.replace(',', "").parse().ok()?,
        format!("{count} {what} in {places}"),
    ))
}

/// A paragraph out of an explain_function answer: signature, first words, and calls within the repository.
fn explained(text: &str) -> String {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (Some(signature), Some(file)) = (field("signature:"), field("file:")) else {
        return String::new();
    };
    let place = file.split_once('-').map_or(file, |(place, _)| place);
    let mut paragraph = format!("\n`{signature}` ({place})\n");
    if let Some(words) = field("docstring:") {
        let _ = writeln!(paragraph, "{}", words.trim_end_matches(" […]"));
    }
    let calls: Vec<String> = text
        .lines()
        .skip_while(|line| *line != "calls:")
        .take_while(|line| *line != "source:")
        .filter_map(|line| {
            let (name, place) = line.strip_prefix("  ")?.split_once(" -> ")?;
            Some(format!("`{name}` ({})", place.split_whitespace().next()?))
        })
        .take(6)
        .collect();
    if !calls.is_empty() {
        let _ = writeln!(paragraph, "It calls {}.", calls.join(", "));
    }
    paragraph
}

fn key_patterns(survey: &Survey, evidence: &Evidence<'_>) -> String {
    let mut text = "## Key patterns\n\n".to_owned();
    let mut found = false;
    for (number, (what, _)) in patterns(survey).iter().enumerate() {
        let answer = evidence.of("pattern").find(|answer| answer.is_number(number + 1));
        let Some((answer, first)) = answer.and_then(|answer| Some((answer, hits(answer.text()).into_iter().next()?)))
        else {
            continue;
        };
        let totals = answer
            .text()
            .lines()
            .rev()
            .find(|line| line.contains(" in ") && line.contains("match"));
        let totals = totals.map_or("found", |line| line.split(';').next().unwrap_or(line));
        let _ = writeln!(text, "- {what}: {totals}, the first at {}", first.place());
        found = true;
    }
    if !found {
        text.push_str("None of the patterns that are looked for was found.\n");
    }
    text
}

fn tests(survey: &Survey, reads: &[(String, Vec<NumberedLine>)]) -> String {
    let mut text = "## Tests and how to run them\n\n".to_owned();
    let tests: Vec<_> = survey.tests().collect();
    match tests
        .iter()
        .filter(|file| file.bytes > 0.0)
        .min_by_key(|file| (file.path.matches('/').count(), &file.path))
    {
        Some(first) => {
            let _ = match tests.len() {
                1 => writeln!(text, "1 test file, {}:1.", first.path),
                count => writeln!(text, "{count} test files, for example {}:1.", first.path),
            };
        }
        None => text.push_str("No file was recognised as a test by its name.\n"),
    }
    for (path, lines) in reads {
        for (command, line) in test_commands(path, lines) {
            let _ = writeln!(
                text,
                "- {command}: `{}` ({path}:{})",
                sentence_cut(line.text.trim(), 120),
                line.number
            );
        }
    }
    for file in &survey.files {
        if matches!(file_name(&file.path), "runtests.py" | "run_tests.py" | "conftest.py")
            && file.path.matches('/').count() <= 1
        {
            let _ = writeln!(text, "- set-up or runner ({}:1)", file.path);
        }
    }
    text
}

/// Lines of a manifest that say how tests are run.
fn test_commands<'l>(path: &str, lines: &'l [NumberedLine]) -> Vec<(&'static str, &'l NumberedLine)> {
    let starting = |key: &str| lines.iter().find(|line| line.text.trim_start().starts_with(key));
    let found = match file_name(path) {
        "pyproject.toml" => [
            ("`python -m pytest`", starting("[tool.pytest")),
            ("`tox`", starting("[tool.tox")),
        ],
        "setup.cfg" => [("`python -m pytest`", starting("[tool:pytest]")), ("", None)],
        "pytest.ini" => [("`python -m pytest`", starting("[pytest]")), ("", None)],
        "tox.ini" => [
            ("`tox`", starting("commands")),
            ("`python -m pytest`", starting("[pytest]")),
        ],
        // It may stand in one line.
        "package.json" => [
            ("`npm test`", lines.iter().find(|line| line.text.contains("\"test\":"))),
            ("", None),
        ],
        "Makefile" => [("`make test`", starting("test:")), ("", None)],
        "Cargo.toml" => [
            ("`cargo test`", starting("[package]").or(starting("[workspace]"))),
            ("", None),
        ],
        "go.mod" => [("`go test ./...`", starting("module ")), ("", None)],
        _ => return Vec::new(),
    };
    found
        .into_iter()
        .filter_map(|(command, line)| Some((command, line?)))
        .collect()
}

fn left_out(survey: &Survey) -> String {
    let mut text = "## What this overview does not say\n\n".to_owned();
    text.push_str(
        "Purposes and trade-offs that stand in no manifest, comment or README: for those a language model has to \
         read the code. Ignored files, dependency and build directories and secrets were not looked at.\n",
    );
    if !survey.complete {
        text.push_str("The file list was cut; counts are of the files that were listed.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> Vec<NumberedLine> {
        let line = |(at, text): (usize, &str)| NumberedLine {
            number: at + 1,
            text: text.to_owned(),
        };
        text.lines().enumerate().map(line).collect()
    }

    #[test]
    fn an_annotation_in_the_source_is_no_call() {
        let answer = "function: a.f\nfile: a.py:1-2\nsignature: def f(x: str) -> t.Tuple[str]\ncalls:\n  g -> a.py:9  [line 2]\n  \
                      len (builtin)  [line 2]\nsource:\n     1  def f(x: str) -> t.Tuple[str]:\n     2      return g(len(x))\n";
        insta::assert_snapshot!(explained(answer), @r"

        `def f(x: str) -> t.Tuple[str]` (a.py:1)
        It calls `g` (a.py:9).
        ");
    }

    #[test]
    fn a_modules_own_words_are_its_first_sentence() {
        let words = |text: &str| own_words(&lines_of(text));
        assert_eq!(
            words("\"\"\"\nReads\nfiles. And more.\n\"\"\""),
            Some(("Reads files.".into(), 2))
        );
        assert_eq!(
            words("# Copyright 2026\n# License: MIT\n\n//! Says hello."),
            Some(("Says hello.".into(), 4))
        );
        assert_eq!(words("\"\"\"Short\"\"\"\nimport os"), Some(("Short".into(), 1)));
        assert_eq!(words("import os\n# no"), None);
    }

    #[test]
    fn prose_is_found_behind_headings_and_badges() {
        let text = "[badge](x)\n\nName of it\n==========\n\nIt does one thing well.\nAnd quickly.\n\nMore.";
        let expected = ("It does one thing well. And quickly.".to_owned(), 6);
        assert_eq!(first_paragraph(&lines_of(text)), Some(expected));
    }

    #[test]
    fn only_settings_beneath_the_heading_are_starts() {
        let text = "[project]\nname = \"x\"\n[project.scripts]\n# none = 1\nrun = \"x:main\"\n[tool.other]\na = 1";
        let found = declared_starts("pyproject.toml", &lines_of(text)).len();
        assert_eq!(found, 1);
    }
}
