//! The overview of a directory. A section without content is left out.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::central::{SymbolCandidate, central_section, central_symbols, definitions_of, is_made_by_tool};
use super::endpoints::{commands_section, routes_section};
use super::entry_points::{first_start, public_header, purpose_in, starts_section};
use super::interface::{interface_section, root_file};
use super::module_map::{heads_of, map_parts};
use super::{ROWS_MAX, content_paths, search_patterns, speaking_files};
use crate::NO_MODEL;
use crate::commands::{project_commands, project_lines, stating_documents};
use crate::evidence::{AnalystTask, Dependency, Evidence, SearchHit, SourceQuote, parse_hits, size_text};
use crate::file_doc::file_purpose;
use crate::manifest::ReadFile;
use crate::readme::{Readme, is_readme, is_remark};
use crate::survey::{Survey, is_aside_manifest, is_beside_project};
use crate::text::{cut_text, escape_paragraph, escape_prose, first_sentence, quote_code};
use tool_core::api::ModuleGraph;
use tool_repository::file_role::{file_stem, parent_directory};
use tool_repository::path::join_path;

/// Lines of an overview of one page, without its title.
const PAGE_LINES: usize = 38;
/// Folders that a map names without describing them.
const NAMED_MAX: usize = 32;
/// Commands of one purpose on a page.
const COMMANDS_MAX: usize = 2;
/// Files that a reader should look at first.
const READING_MAX: usize = 3;
const PATTERNS_MAX: usize = 4;
/// Longest words about a module, in characters.
const PURPOSE_CHARACTERS_MAX: usize = 120;
/// Edges of a diagram, which is read as text.
const PICTURE_EDGES_MAX: usize = 30;
const AUTHORS_MAX: usize = 3;
/// A longer text is not a name.
const AUTHOR_BYTES_MAX: usize = 60;

pub(super) fn write_overview(
    brief: &AnalystTask,
    survey: &Survey,
    evidence: &Evidence<'_>,
    files: &[ReadFile],
    definitions: &[SymbolCandidate],
) -> String {
    if let Some(why) = evidence.why_not("list", &brief.target) {
        return format!(
            "# {}\n\n> {NO_MODEL}\n\n## What it is\n\nIts files were not counted: {why}.\n",
            quote_code(&format!("{}/", brief.target))
        );
    }
    let speaking = speaking_files(brief, survey, files);
    let names: Vec<String> = speaking
        .iter()
        .filter_map(|file| file.project_name())
        .map(|name| name.text)
        .chain(Some(brief.repository.clone()).filter(|name| !name.is_empty()))
        .collect();
    let readmes: Vec<(&ReadFile, Readme)> = speaking
        .iter()
        .filter(|file| is_readme(&file.path))
        .map(|file| (*file, Readme::parse_readme(&file.path, &file.lines, &names)))
        .collect();
    let title = project_title(brief, survey, &speaking, &readmes);
    let what = what_it_is(brief, survey, files, &speaking, &readmes);
    let commands = write_commands(brief, survey, files);
    let starts = starts_section(brief, survey, files, evidence);
    let map = write_map(brief, survey, files, definitions);
    let routes = routes_section(brief, survey);
    let subcommands = commands_section(brief, survey);
    let central = central_section(evidence, definitions);
    let patterns = key_patterns(survey, evidence);
    let contents = write_contents(brief, survey, files);
    let reading = reading_order(brief, survey, files, evidence, definitions);
    let text: String = if brief.facts.is_full {
        let sections = [
            what,
            commands,
            starts,
            map,
            routes,
            subcommands,
            central,
            patterns,
            interface_section(brief, survey, evidence, files, definitions),
            draw_mermaid("Imports between modules", &brief.facts.modules),
            draw_mermaid("Imports between packages", &brief.facts.packages),
            contents,
            often_changed(brief, evidence),
            write_tests(survey),
            write_dependencies(brief, survey),
            write_sizes(survey),
            reading,
            LEFT_OUT.to_owned(),
        ];
        let sections = sections.into_iter().filter(|section| !section.is_empty());
        sections.map(|section| section + "\n").collect()
    } else {
        fit_page(vec![
            (what, ROWS_MAX),
            (commands, 8),
            (starts, 4),
            (map, 4),
            (contents, 8),
            (routes, 6),
            (subcommands, 4),
            (central, 7),
            (patterns, 1),
            (reading, 1),
            (rest_of_overview(brief), 1),
        ])
    };
    format!("# {title}\n\n> {NO_MODEL}\n\n{text}")
}

/// Joins sections, and cuts the longest lists until all fit on a page. Each comes with the rows that stay in any case.
fn fit_page(sections: Vec<(String, usize)>) -> String {
    let sections: Vec<(String, usize)> = sections.into_iter().filter(|(text, _)| !text.is_empty()).collect();
    let mut shown: Vec<usize> = sections.iter().map(|(text, _)| list_rows(text).count()).collect();
    loop {
        let cut = sections.iter().zip(&shown);
        let page: String = cut.map(|((text, _), rows)| cut_rows(text, *rows) + "\n").collect();
        // A terminal shows a list right below its heading.
        let lines: Vec<&str> = page.lines().collect();
        let below_headings = lines
            .windows(2)
            .filter(|pair| pair[0].starts_with('#') && pair[1].is_empty());
        let count = lines.len() - below_headings.count();
        let may_shrink = |at: &usize| shown[*at] > sections[*at].1;
        let longest = (0..shown.len()).filter(may_shrink).max_by_key(|at| shown[*at]);
        match longest {
            Some(longest) if count > PAGE_LINES => shown[longest] -= 1,
            _ => return page,
        }
    }
}

fn list_rows(section: &str) -> impl Iterator<Item = &str> {
    section.lines().filter(|line| line.starts_with("- "))
}

/// A section with at most these rows of its list, and the number of those that are left out.
fn cut_rows(section: &str, rows_max: usize) -> String {
    let entries = |row: &str| {
        let more = row.strip_prefix("- … and ").and_then(|more| more.split(' ').next());
        more.and_then(|count| count.parse().ok()).unwrap_or(1_usize)
    };
    let left_out: usize = list_rows(section).skip(rows_max).map(entries).sum();
    if left_out < 2 {
        return section.to_owned();
    }
    let (mut text, mut rows) = (String::new(), 0);
    for line in section.lines() {
        rows += usize::from(line.starts_with("- "));
        if rows <= rows_max || line.is_empty() {
            let _ = writeln!(text, "{line}");
        } else if rows == rows_max + 1 && line.starts_with("- ") {
            let _ = writeln!(text, "- … and {left_out} more");
        }
    }
    text
}

/// Names the files that show most of the project: a document about its architecture, where it starts, and the homes of
/// its central symbols.
fn reading_order(
    brief: &AnalystTask,
    survey: &Survey,
    files: &[ReadFile],
    evidence: &Evidence<'_>,
    definitions: &[SymbolCandidate],
) -> String {
    const DOCUMENTS: [&str; 4] = [
        "ARCHITECTURE.md",
        "docs/ARCHITECTURE.md",
        "docs/architecture.md",
        "DESIGN.md",
    ];
    let documents = DOCUMENTS.iter().map(|name| join_path(&brief.target, name));
    let document = documents.into_iter().find(|path| survey.has(path));
    let start = first_start(brief, survey, files);
    let central = central_symbols(evidence, definitions);
    let homes = central.iter().map(|symbol| symbol.candidate.hit.path.clone());
    let mut paths: Vec<String> = Vec::new();
    for path in document.into_iter().chain(start).chain(homes) {
        if !paths.contains(&path) && paths.len() < READING_MAX {
            paths.push(path);
        }
    }
    match paths.as_slice() {
        [] | [_] => String::new(),
        paths => {
            let paths: Vec<String> = paths.iter().map(|path| quote_code(path)).collect();
            format!("Start reading at {}.\n", paths.join(", then "))
        }
    }
}

/// Says how to get the sections that are not on the page.
fn rest_of_overview(brief: &AnalystTask) -> String {
    let target = if brief.target.is_empty() { "." } else { &brief.target };
    let command = quote_code(&format!("tool explain {target} --full"));
    format!("{command} adds the public interface, imports, history, tests, dependencies and sizes.\n")
}

/// Manifests and READMEs, those of the main language first: a library in another language may have a `package.json` for
/// its site.
fn sort_manifests<'f>(survey: &Survey, speaking: &[&'f ReadFile]) -> impl Iterator<Item = &'f ReadFile> {
    let main = survey.main_language();
    let mut files = speaking.to_vec();
    files.sort_by_key(|file| main.is_none() || file.ecosystem() != main);
    files.into_iter()
}

/// The name in a manifest or the README, else that of the target.
fn project_title(
    brief: &AnalystTask,
    survey: &Survey,
    speaking: &[&ReadFile],
    readmes: &[(&ReadFile, Readme)],
) -> String {
    if !brief.target.is_empty() {
        return quote_code(&format!("{}/", brief.target));
    }
    let named = sort_manifests(survey, speaking).filter_map(ReadFile::project_name);
    let headings = readmes.iter().filter_map(|(_, readme)| readme.title.clone());
    let titles: Vec<SourceQuote> = named.chain(headings).collect();
    // A manifest may have the name of a part or of a distribution.
    let plain = |name: &str| name.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "");
    let is_like_repository = |title: &&SourceQuote| plain(&title.text) == plain(&brief.repository);
    match titles.iter().find(is_like_repository).or(titles.first()) {
        Some(name) => escape_prose(&name.text),
        None if !brief.repository.is_empty() => escape_prose(&brief.repository),
        None => "This repository".to_owned(),
    }
}

fn what_it_is(
    brief: &AnalystTask,
    survey: &Survey,
    files: &[ReadFile],
    speaking: &[&ReadFile],
    readmes: &[(&ReadFile, Readme)],
) -> String {
    let mut text = "## What it is\n\n".to_owned();
    let purpose = readmes
        .iter()
        .find_map(|(file, readme)| Some((file, readme.purpose.as_ref()?)));
    if let Some((file, purpose)) = purpose {
        let _ = writeln!(
            text,
            "{} ({})\n",
            escape_paragraph(&purpose.text),
            purpose.place(&file.path)
        );
    }
    let described = sort_manifests(survey, speaking).find_map(|file| Some((file, file.description()?)));
    let plain = |text: &str| text.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "");
    let is_said = |words: &str| purpose.is_some_and(|(_, purpose)| plain(&purpose.text) == plain(words));
    if let Some((file, words)) = described.as_ref().filter(|(_, words)| !is_said(&words.text)) {
        let _ = writeln!(
            text,
            "Its manifest says: {} ({})\n",
            escape_prose(&words.text),
            words.place(&file.path)
        );
    }
    if purpose.is_none() && described.is_none() {
        let faces = root_file(brief, survey).into_iter().chain(public_header(brief, survey));
        let stated = faces.into_iter().find_map(|path| purpose_in(&path, files));
        let heading = || {
            let mut readmes = readmes.iter();
            let (file, heading) = readmes.find_map(|(file, readme)| Some((file, readme.heading.as_ref()?)))?;
            Some((escape_paragraph(&heading.text), heading.place(&file.path)))
        };
        if let Some((words, place)) = stated.or_else(heading) {
            let _ = writeln!(text, "{words} ({place})\n");
        }
    }
    let lines = project_lines(brief, survey, files);
    if !lines.is_empty() {
        let _ = writeln!(text, "{lines}");
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
    if !survey.complete {
        text.push_str("There are more files than were listed; counts are of those that were.\n");
    }
    text
}

fn write_sizes(survey: &Survey) -> String {
    let languages = survey.languages();
    if languages.is_empty() {
        return String::new();
    }
    let mut text = "## Languages and sizes\n\n| Language | Files | Size |\n|---|---:|---:|\n".to_owned();
    for row in languages.iter().take(8) {
        let _ = writeln!(text, "| {} | {} | {} |", row.name, row.files, size_text(row.bytes));
    }
    let mut sources: Vec<_> = survey.sources().collect();
    sources.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    if !sources.is_empty() {
        let largest: Vec<String> = sources
            .iter()
            .take(5)
            .map(|file| format!("{} ({})", quote_code(&file.path), size_text(file.bytes)))
            .collect();
        let _ = writeln!(text, "\nLargest sources: {}.", largest.join(", "));
    }
    text
}

/// Lists the files of a target without program text, each with its first words.
fn write_contents(brief: &AnalystTask, survey: &Survey, files: &[ReadFile]) -> String {
    let paths = content_paths(brief, survey);
    if paths.is_empty() {
        return String::new();
    }
    let mut text = "## What lies in it\n\n".to_owned();
    for path in &paths {
        let file = files.iter().find(|file| file.path == *path);
        match file.and_then(first_words) {
            Some(words) => {
                let shown = escape_prose(&cut_text(&words.text, 160));
                let _ = writeln!(text, "- {}: {shown} ({})", quote_code(path), words.place(path));
            }
            None => {
                let _ = writeln!(text, "- {}", quote_code(path));
            }
        }
    }
    text
}

/// The first words of a document: its documentation comment, its first paragraph, or its first line.
fn first_words(file: &ReadFile) -> Option<SourceQuote> {
    let first_line = || {
        let mut lines = file.lines.iter();
        let first = lines.find(|line| line.text.chars().any(char::is_alphanumeric))?;
        Some(SourceQuote::new(first.text.trim(), first.number))
    };
    let paragraph = || Readme::parse_readme(&file.path, &file.lines, &[]).purpose;
    file_purpose(&file.path, &file.lines)
        .or_else(paragraph)
        .or_else(first_line)
}

fn write_commands(brief: &AnalystTask, survey: &Survey, files: &[ReadFile]) -> String {
    let read: Vec<&ReadFile> = files.iter().collect();
    let read: Vec<&ReadFile> = sort_manifests(survey, &read).collect();
    let documents = stating_documents(&brief.target, survey).into_iter();
    let documents: Vec<&ReadFile> = documents
        .filter_map(|path| files.iter().find(|file| file.path == path))
        .collect();
    let commands = project_commands(&brief.target, survey, &read, &documents);
    if commands.is_empty() {
        return String::new();
    }
    let mut text = "## Build, run and test\n\n".to_owned();
    let mut of_purpose = BTreeMap::new();
    for command in &commands {
        let count: &mut usize = of_purpose.entry(command.purpose).or_default();
        *count += 1;
        if *count > COMMANDS_MAX && !brief.facts.is_full {
            continue;
        }
        let script = match command.script.as_str() {
            "" => String::new(),
            words => format!(": {}", quote_code(words)),
        };
        let _ = writeln!(
            text,
            "- {}: {}{script} ({})",
            command.purpose.label(),
            quote_code(&command.command),
            command.place()
        );
    }
    text
}

fn write_map(brief: &AnalystTask, survey: &Survey, files: &[ReadFile], definitions: &[SymbolCandidate]) -> String {
    let (directory, parts) = map_parts(survey, &brief.target);
    if parts.is_empty() {
        return String::new();
    }
    let place = if directory.is_empty() { "." } else { &directory };
    let mut text = format!("## Module map of {}\n\n", quote_code(place));
    for part in parts.iter().take(ROWS_MAX) {
        let words = words_of_module(&directory, &part.name, survey, files)
            .or_else(|| names_of_module(&directory, &part.name, definitions));
        let name = quote_code(&part.name);
        let _ = match (words, part.files) {
            (Some(words), _) => writeln!(text, "- {name}: {words}"),
            (None, 1) => writeln!(text, "- {name}"),
            (None, count) => writeln!(text, "- {name}: {count} sources"),
        };
    }
    if parts.len() > ROWS_MAX {
        let others = parts.iter().skip(ROWS_MAX).filter(|part| part.name.ends_with('/'));
        let names: Vec<String> = others.take(NAMED_MAX).map(|part| quote_code(&part.name)).collect();
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(": {}", names.join(", "))
        };
        let _ = writeln!(text, "- … and {} more{names}", parts.len() - ROWS_MAX);
    }
    text
}

/// A Mermaid diagram of a graph; empty without edges. Modules without an edge are left out.
fn draw_mermaid(title: &str, graph: &ModuleGraph) -> String {
    let edges: Vec<_> = graph.edges.iter().take(PICTURE_EDGES_MAX).cloned().collect();
    if edges.is_empty() {
        return String::new();
    }
    let is_linked = |name: &str| edges.iter().any(|edge| edge.from == name || edge.to == name);
    let drawn = ModuleGraph {
        nodes: graph
            .nodes
            .iter()
            .filter(|node| is_linked(&node.name))
            .cloned()
            .collect(),
        edges: edges.clone(),
        ..ModuleGraph::default()
    };
    let mut text = format!("## {title}\n\n```mermaid\n{}```\n", drawn.mermaid());
    let left_out = graph.edges.len() - edges.len();
    if left_out > 0 || graph.edges_left_out > 0 {
        let count = left_out as u64 + graph.edges_left_out;
        let _ = writeln!(text, "\n{count} edges are left out.");
    }
    text
}

/// The files that changed most recently, and the authors of the target.
fn often_changed(brief: &AnalystTask, evidence: &Evidence<'_>) -> String {
    let Some(changes) = &brief.facts.changes else {
        return String::new();
    };
    let mut text = format!("## Often changed\n\nIn the last {} commits:\n\n", changes.commits);
    for (path, commits) in &changes.files {
        let _ = writeln!(text, "- {} — {commits} commits", quote_code(path));
    }
    text.push_str(&main_authors(evidence.of("log").flat_map(|log| log.text().lines())));
    text
}

/// A sentence with the authors of most commits; empty if the log names none.
fn main_authors<'t>(log: impl Iterator<Item = &'t str>) -> String {
    let authors = count_authors(log).into_iter().take(AUTHORS_MAX);
    let names: Vec<String> = authors
        .map(|(name, commits)| format!("{} ({commits})", escape_prose(name)))
        .collect();
    if names.is_empty() {
        return String::new();
    }
    format!("\nMost of the latest commits are by {}.\n", names.join(", "))
}

/// Counts commits by author, most first. A line of a log is `ID DATE NAME: SUBJECT`. An e-mail address is not a name.
fn count_authors<'t>(log: impl Iterator<Item = &'t str>) -> Vec<(&'t str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in log {
        let mut parts = line.splitn(3, ' ');
        let (Some(id), Some(date), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let is_commit = id.len() >= 7 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && date.len() == 10;
        let name = rest.split_once(": ").map_or("", |(name, _)| name);
        let is_name = !name.is_empty() && name.len() <= AUTHOR_BYTES_MAX && !name.contains('@');
        if is_commit && is_name {
            *counts.entry(name).or_default() += 1;
        }
    }
    let mut authors: Vec<(&str, usize)> = counts.into_iter().collect();
    authors.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    authors
}

/// The purpose of a module, from its manifest, its README or its main file, with the citation.
fn words_of_module(directory: &str, part: &str, survey: &Survey, files: &[ReadFile]) -> Option<String> {
    heads_of(directory, part, survey).iter().find_map(|path| {
        let file = files.iter().find(|file| file.path == *path)?;
        let words = if is_readme(path) {
            let readme = Readme::parse_readme(path, &file.lines, &[]);
            let said = readme.purpose.or(readme.heading)?;
            SourceQuote {
                text: first_sentence(&said.text).to_owned(),
                ..said
            }
        } else {
            file.description().or_else(|| file_purpose(path, &file.lines))?
        };
        // The package comment in Go describes all files of the package.
        let is_of_package = words.text.starts_with("Package ") && !part.ends_with('/');
        let shown = escape_prose(&cut_text(&words.text, PURPOSE_CHARACTERS_MAX));
        (!is_of_package && !is_remark(&words.text)).then(|| format!("{shown} ({})", words.place(&file.path)))
    })
}

/// The names that a module defines, with the place of the first; for a module that states no purpose.
fn names_of_module(directory: &str, part: &str, definitions: &[SymbolCandidate]) -> Option<String> {
    let module = join_path(directory, part.trim_end_matches('/'));
    let named = definitions_of(definitions, &module, part.ends_with('/'));
    let first = named.first()?;
    let names: Vec<String> = named.iter().map(|candidate| quote_code(&candidate.name)).collect();
    Some(format!("defines {} ({})", names.join(", "), first.hit.place()))
}

fn write_dependencies(brief: &AnalystTask, survey: &Survey) -> String {
    if survey.dependencies.is_empty() && survey.broken.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for problem in &survey.broken {
        let _ = writeln!(text, "- a manifest could not be read: {}", escape_prose(problem));
    }
    let mut by_manifest: BTreeMap<&str, Vec<&Dependency>> = BTreeMap::new();
    for dependency in &survey.dependencies {
        by_manifest.entry(&dependency.manifest).or_default().push(dependency);
    }
    // Lists the manifests of the target, or else of the root, and only counts the others.
    let is_near = |path: &str| parent_directory(path) == brief.target || parent_directory(path).is_empty();
    // A gem's manifest has dependencies for run time and for development.
    let mut near: Vec<_> = by_manifest.iter().filter(|(path, _)| is_near(path)).collect();
    near.sort_by_key(|(_, dependencies)| dependencies.first().is_none_or(|first| !first.is_runtime()));
    for (_, dependencies) in near {
        for dependency in dependencies.iter().take(ROWS_MAX) {
            // The version may be on another line than the name.
            let (name, version) = dependency.name.split_once(' ').unwrap_or((&dependency.name, ""));
            let version = match version {
                "" | "*" => String::new(),
                version => format!(" {}", escape_prose(version)),
            };
            let _ = writeln!(
                text,
                "- {}{version} [{}] ({})",
                quote_code(name),
                escape_prose(&dependency.group),
                dependency.place()
            );
        }
        if dependencies.len() > ROWS_MAX {
            let _ = writeln!(text, "- … and {} more", dependencies.len() - ROWS_MAX);
        }
    }
    let is_own = |path: &str| survey.is_aside || !is_aside_manifest(path);
    let others = by_manifest.iter().filter(|(path, _)| !is_near(path) && is_own(path));
    let mut others: Vec<_> = others.collect();
    let is_named = |path: &str| {
        parent_directory(path)
            .split('/')
            .any(|folder| folder == brief.repository)
    };
    others.sort_by_key(|(path, _)| !is_named(path));
    for (path, dependencies) in others.iter().take(ROWS_MAX) {
        let first = dependencies.first().map_or_else(String::new, |first| first.place());
        let _ = writeln!(text, "- {} in {} ({first})", dependencies.len(), quote_code(path));
    }
    if others.len() > ROWS_MAX {
        let _ = writeln!(text, "- … and {} more manifests", others.len() - ROWS_MAX);
    }
    if text.is_empty() {
        return text;
    }
    format!("## Dependencies\n\n{text}")
}

/// One line of what the code is built with, each with its first place in the project's own sources.
fn key_patterns(survey: &Survey, evidence: &Evidence<'_>) -> String {
    let mut found = Vec::new();
    for (number, (what, _)) in search_patterns(survey).iter().enumerate() {
        let answers = evidence.of("pattern").filter(|answer| answer.is_number(number + 1));
        let hits = answers.flat_map(|answer| parse_hits(answer.text()));
        let is_aside = |path: &str| path.starts_with('.') || is_beside_project(path) || is_made_by_tool(path);
        let own = |hit: &SearchHit| survey.is_source(&hit.path) && (survey.is_aside || !is_aside(&hit.path));
        if let Some(first) = hits.into_iter().find(own) {
            found.push(format!("{what} ({})", first.place()));
        }
    }
    found.truncate(PATTERNS_MAX);
    if found.is_empty() {
        return String::new();
    }
    format!("Key patterns: {}.\n", found.join(", "))
}

fn write_tests(survey: &Survey) -> String {
    let tests: Vec<_> = survey.tests().filter(|file| file.bytes > 0.0).collect();
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &tests {
        *folders.entry(parent_directory(&file.path)).or_default() += 1;
    }
    // Cites a test in the folder with most tests, not a helper.
    let main = survey.main_language();
    let first = tests.iter().min_by_key(|file| {
        let name = file_stem(&file.path).to_ascii_lowercase();
        let is_test = (name.contains("test") || name.contains("spec")) && name != "conftest";
        let is_fixture = file.path.to_ascii_lowercase().contains("fixture") || survey.language(&file.path) != main;
        let in_folder = folders[parent_directory(&file.path)];
        (is_fixture, std::cmp::Reverse(in_folder), !is_test, &file.path)
    });
    let Some(first) = first else {
        return String::new();
    };
    let mut text = "## Tests\n\n".to_owned();
    let _ = match tests.len() {
        1 => writeln!(text, "1 test file, {}.", quote_code(&first.path)),
        count => writeln!(text, "{count} test files, for example {}.", quote_code(&first.path)),
    };
    text
}

/// The limits of every overview.
const LEFT_OUT: &str = "## What this overview does not say\n\nPurposes and trade-offs that stand in no manifest, comment or \
                        README: for those a language model has to read the code. Ignored files, dependency and build \
                        directories and secrets were not looked at.\n";

#[cfg(test)]
mod tests {
    use super::{count_authors, main_authors};

    #[test]
    fn the_name_of_an_author_is_no_markup() {
        let log = ["a29814f285cc 2026-02-07 *x* [a](b) <script> `y`|: upgrade"];
        let expected = "\nMost of the latest commits are by *x\\* [a\\](b) \\<script> `y`| (1).\n";
        assert_eq!(main_authors(log.into_iter()), expected);
    }

    #[test]
    fn authors_are_counted_by_name_and_an_address_is_none() {
        let log = [
            "3 commits, newest first:",
            "",
            "a29814f285cc 2026-02-07 Lee: upgrade: all",
            "c859b25da029 2025-09-09 Ann Lee: Release 1.7.19 (#958)",
            "74e1ff4994aa 2025-09-05 Lee: fix",
            "74e1ff4994ab 2025-09-05 lee@example.org: fix",
            "hint: add \"cursor\": \"a29\" for the rest",
        ];
        assert_eq!(count_authors(log.into_iter()), [("Lee", 2), ("Ann Lee", 1)]);
    }
}
