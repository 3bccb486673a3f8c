//! What the project is and the commands that build, run, test and lint it, each with the place that shows it.

mod documented_commands;

use std::collections::BTreeSet;
use std::fmt::Write;

use tool_project::{
    EvidencePlace, KindFinding, NeededToolchain, ProjectFacts, ProjectFile, ProjectKind, ProjectTree, Purpose,
    UsedFramework, detect_project, plan_reads,
};

use crate::evidence::AnalystTask;
use crate::manifest::ReadFile;
use crate::readme::is_readme;
use crate::survey::{Survey, is_aside_manifest, strip_directory};
use crate::text::{cite_lines, escape_prose, quote_code};
use documented_commands::{command_documents, stated_command};
use tool_repository::file_role::{file_name, is_test, parent_directory};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProjectCommand {
    pub(super) purpose: Purpose,
    /// The command as a person types it.
    pub(super) command: String,
    /// The script that it runs, if the manifest has one.
    pub(super) script: String,
    pub(super) path: String,
    /// Line of the declaration, from 1; absent if only the name of the file shows the command.
    pub(super) line: Option<usize>,
    /// Text of that line, if it differs from the command.
    pub(super) evidence: String,
}

impl ProjectCommand {
    /// Citation of the evidence, with its text.
    pub(super) fn place(&self) -> String {
        let place = cite_place(&self.path, self.line);
        match self.evidence.as_str() {
            "" => place,
            words => format!("{}, {place}", quote_code(words)),
        }
    }
}

fn cite_place(path: &str, line: Option<usize>) -> String {
    line.map_or_else(|| quote_code(path), |line| cite_lines(path, &line))
}

/// Citation of what shows a fact.
pub(super) fn cite_evidence(place: &EvidencePlace) -> String {
    cite_place(&place.path, place.line)
}

/// Longest evidence in bytes.
const EVIDENCE_BYTES_MAX: usize = 60;

/// The beginning of a line, cut after a word.
fn evidence_of(line: &str) -> String {
    let line = line.trim();
    if line.len() <= EVIDENCE_BYTES_MAX {
        return line.to_owned();
    }
    let beginning = &line[..line.floor_char_boundary(EVIDENCE_BYTES_MAX)];
    beginning
        .rsplit_once(char::is_whitespace)
        .map_or(beginning, |(words, _)| words)
        .trim_end()
        .to_owned()
}

fn line_text<'f>(files: &[&'f ReadFile], path: &str, line: usize) -> Option<&'f str> {
    let file = files.iter().find(|file| file.path == path)?;
    let found = file.lines.iter().find(|read| read.number == line)?;
    Some(&found.text)
}

fn says_script(line: &str, script: &str) -> bool {
    !script.is_empty() && line.contains(script)
}

/// The part of a line that shows a fact to a reader, without the tags of XML. `None` for a line that only opens a
/// section, such as `plugins {` and `<project>`: its file is the evidence.
fn telling_part(line: &str) -> Option<String> {
    let line = line.trim();
    let text = match line.strip_prefix('<').and_then(|tag| tag.split_once('>')) {
        Some((_, rest)) => rest.split_once('<').map_or(rest, |(text, _)| text).trim(),
        None if line.starts_with('<') => "",
        None => line,
    };
    let is_heading = text.strip_suffix(['{', '(']).is_some_and(|name| {
        name.trim_matches(['"', ' ', ':', '='])
            .chars()
            .all(char::is_alphanumeric)
    });
    (text.chars().filter(|char| char.is_alphanumeric()).count() > 2 && !is_heading).then(|| evidence_of(text))
}

/// The paths of a target by package, without those of tests, examples and tools of the authors.
fn project_tree<'s>(target: &'s str, survey: &'s Survey) -> ProjectTree<'s> {
    let paths: Vec<&str> = survey.files.iter().map(|file| file.path.as_str()).collect();
    let is_of_authors = |path: &str| {
        let top = strip_directory(path, target).and_then(|inside| Some(inside.split_once('/')?.0));
        top.is_some_and(|folder| folder.starts_with('.') || matches!(folder, "xtask" | "ci" | "tools" | "scripts"))
    };
    ProjectTree::from_paths(target, &paths, |path| {
        !survey.is_aside && (is_aside_manifest(path) || is_test(path) || is_of_authors(path))
    })
}

/// The documents that may state commands, and the files that show what a project is.
pub(super) fn stating_documents(target: &str, survey: &Survey) -> Vec<String> {
    let documents = command_documents(target, survey).into_iter();
    documents.chain(plan_reads(&project_tree(target, survey))).collect()
}

/// What the files that were read show about the project.
pub(super) fn project_facts<'f>(
    target: &str,
    survey: &Survey,
    files: impl IntoIterator<Item = &'f ReadFile>,
) -> ProjectFacts {
    let text = |file: &ReadFile| ProjectFile {
        path: file.path.clone(),
        text: file.lines.iter().map(|line| format!("{}\n", line.text)).collect(),
    };
    let files: Vec<ProjectFile> = files.into_iter().map(text).collect();
    detect_project(&project_tree(target, survey), &files)
}

/// Routes from which on a program without a framework for terminals serves them.
const SERVED_ROUTES_MIN: usize = 3;

/// Takes a program that declares routes for a service: those of Go's own `net/http` need no framework.
fn keep_service(found: &mut KindFinding, brief: &AnalystTask, survey: &Survey) {
    let is_plain = found.kind == ProjectKind::CommandLine && found.evidence.iter().all(|used| used.name.is_empty());
    let mut own = brief.facts.routes.iter().filter(|route| survey.is_source(&route.path));
    if let (true, Some(first)) = (is_plain && brief.facts.routes.len() >= SERVED_ROUTES_MIN, own.next()) {
        found.kind = ProjectKind::Service;
        let (path, line) = (first.path.clone(), Some(first.line as usize));
        let (name, place) = (String::new(), EvidencePlace { path, line });
        found.evidence.insert(0, UsedFramework { name, place });
    }
}

/// Lines about the kind of the project, its frameworks and its toolchains, each with its evidence.
pub(super) fn project_lines(brief: &AnalystTask, survey: &Survey, files: &[ReadFile]) -> String {
    let mut facts = project_facts(&brief.target, survey, files);
    if let Some(found) = &mut facts.kind {
        keep_service(found, brief, survey);
    }
    let used = |used: &UsedFramework| match used.name.as_str() {
        "" => cite_evidence(&used.place),
        name => format!("{name}, {}", cite_evidence(&used.place)),
    };
    let join = |all: &[UsedFramework]| all.iter().map(used).collect::<Vec<_>>().join("; ");
    let mut text = String::new();
    let around = match facts.workspace.as_slice() {
        [] => String::new(),
        workspace => format!(" in a workspace ({})", join(workspace)),
    };
    let _ = match &facts.kind {
        Some(found) => writeln!(text, "Kind: {} ({}){around}", found.kind.label(), join(&found.evidence)),
        None if !facts.workspace.is_empty() => writeln!(text, "Kind: workspace ({})", join(&facts.workspace)),
        None if brief.target.is_empty() => writeln!(text, "Kind: not recognised"),
        None => Ok(()),
    };
    let is_said = |name: &str| {
        let kind = facts.kind.iter().flat_map(|found| &found.evidence);
        kind.into_iter().any(|used| used.name == name)
    };
    let mut others = facts.frameworks;
    others.retain(|used| !is_said(&used.name));
    if !others.is_empty() {
        let _ = writeln!(text, "\nBuilt with: {}", join(&others));
    }
    let needed = |needed: &NeededToolchain| {
        format!(
            "{} {} ({})",
            needed.name,
            escape_prose(&needed.version),
            cite_evidence(&needed.place)
        )
    };
    if !facts.toolchains.is_empty() {
        let needed: Vec<String> = facts.toolchains.iter().map(needed).collect();
        let _ = writeln!(text, "\nNeeds: {}", needed.join(", "));
    }
    text
}

/// Collects the commands that manifests, frameworks and build files show, by purpose. If they have none of a purpose, the
/// documents for developers and the README are searched for one. `files` are all files that were read.
pub(super) fn project_commands(
    target: &str,
    survey: &Survey,
    files: &[&ReadFile],
    documents: &[&ReadFile],
) -> Vec<ProjectCommand> {
    let facts = project_facts(target, survey, files.iter().copied());
    let shown = |command: tool_project::ProjectCommand| {
        let place = command.place;
        let line = place.line.and_then(|line| line_text(files, &place.path, line));
        let evidence = match line {
            Some(line) if line.contains(&command.command) || says_script(line, &command.script) => Some(String::new()),
            Some(line) => telling_part(line),
            None => None,
        };
        ProjectCommand {
            purpose: command.purpose,
            command: command.command,
            script: command.script,
            path: place.path,
            line: place.line.filter(|_| evidence.is_some()),
            evidence: evidence.unwrap_or_default(),
        }
    };
    let mut commands: Vec<ProjectCommand> = facts.commands.into_iter().map(shown).collect();
    let stating = command_documents(target, survey);
    let documents = documents.iter().copied().filter(|file| stating.contains(&file.path));
    let in_target = files.iter().filter(|file| parent_directory(&file.path) == target);
    let readmes = in_target.copied().filter(|file| is_readme(&file.path));
    let documents: Vec<&ReadFile> = documents.chain(readmes).collect();
    let is_started = facts.kind.is_none_or(|found| found.kind != ProjectKind::Library);
    for purpose in [Purpose::Install, Purpose::Build, Purpose::Run, Purpose::Test] {
        let is_missing = !commands.iter().any(|command| command.purpose == purpose);
        if is_missing && (is_started || purpose != Purpose::Run) {
            commands.extend(stated_command(purpose, target, survey, &documents));
        }
    }
    commands.sort_by_key(|command| command.purpose);
    commands.dedup_by(|a, b| a.command == b.command);
    commands
}

/// The folder with the build files if the root of the repository has none: the one with most sources.
pub(super) fn build_root(target: &str, survey: &Survey) -> Option<String> {
    let is_build_file = |path: &str| BUILD_FILES.contains(&file_name(path)) || path.ends_with(".gemspec");
    let paths = survey.files.iter().map(|file| file.path.as_str());
    let folders: BTreeSet<&str> = paths
        .filter(|path| path.matches('/').count() < 2 && is_build_file(path) && !is_aside_manifest(path))
        .map(parent_directory)
        .collect();
    if !target.is_empty() || folders.contains(target) {
        return None;
    }
    let is_inside = |path: &str, folder: &str| strip_directory(path, folder).is_some();
    let sources = |folder: &str| survey.sources().filter(|file| is_inside(&file.path, folder)).count();
    let folders = folders.into_iter().filter(|folder| is_plain_path(folder));
    let (count, folder) = folders.map(|folder| (sources(folder), folder)).max()?;
    (count * 2 > survey.sources().count()).then(|| folder.to_owned())
}

/// True for a path without special characters, so that a command with it can be copied into a shell.
fn is_plain_path(path: &str) -> bool {
    !path.starts_with('-') && path.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c))
}

/// Any of these files makes a folder the root of a build.
const BUILD_FILES: [&str; 16] = [
    "pyproject.toml",
    "setup.py",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "settings.gradle",
    "settings.gradle.kts",
    "composer.json",
    "mix.exs",
    "Gemfile",
    "CMakeLists.txt",
    "meson.build",
    "configure.ac",
    "Makefile",
    "GNUmakefile",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::number_lines;

    fn commands_of(files: &[(&str, &str)], beside: &[&str]) -> Vec<String> {
        let survey = Survey::of_paths(
            &files
                .iter()
                .map(|(path, _)| *path)
                .chain(beside.iter().copied())
                .collect::<Vec<_>>(),
        );
        let read = |(path, text): &(&str, &str)| ReadFile {
            path: (*path).to_owned(),
            lines: number_lines(text),
        };
        let files: Vec<ReadFile> = files.iter().map(read).collect();
        project_commands("", &survey, &files.iter().collect::<Vec<_>>(), &[])
            .into_iter()
            .map(|command| format!("{} {}: {}", command.purpose.label(), command.command, command.place()))
            .collect()
    }

    #[test]
    fn a_build_below_the_root_begins_in_its_folder() {
        let beside = [
            "projects/settings.gradle.kts",
            "projects/gradlew",
            "projects/core/A.kt",
            "examples/b.kt",
        ];
        let files = [("projects/build.gradle.kts", "plugins {\n")];
        let expected = [
            "build cd projects && ./gradlew build: `projects/build.gradle.kts`",
            "test cd projects && ./gradlew test: `projects/build.gradle.kts`",
        ];
        assert_eq!(commands_of(&files, &beside), expected);
    }

    #[test]
    fn evidence_is_what_a_line_says_and_no_opening_of_a_section() {
        let parts = [
            "<artifactId>spring-boot-maven-plugin</artifactId>",
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"",
            "plugins {",
            "\"require\": {",
            "require (",
            "[tool.pytest.ini_options]",
            "test:",
        ];
        let expected = [
            Some("spring-boot-maven-plugin"),
            None,
            None,
            None,
            None,
            Some("[tool.pytest.ini_options]"),
            Some("test:"),
        ];
        assert_eq!(parts.map(telling_part).each_ref().map(Option::as_deref), expected);
    }

    #[test]
    fn a_document_states_what_no_manifest_shows() {
        let files = [
            (
                "README.md",
                "# Shop\n## Getting started\n```\nmake deps\ndocker compose up -d\n```\n",
            ),
            ("go.mod", "module shop\n"),
            ("main.go", "func helper() {}\n"),
        ];
        let expected = [
            "install make deps: README.md:4",
            "build go build ./...: `module shop`, go.mod:1",
            "run docker compose up -d: README.md:5",
            "test go test ./...: `go.mod`",
        ];
        assert_eq!(commands_of(&files, &[]), expected);
    }
}
