//! `analyze_dependencies`: the dependencies in a repository's manifests.
//!
//! This file finds the manifests and writes the answer; each format has a module that parses text to a [`Manifest`].
//! Nothing is executed or resolved, and nothing is guessed. A manifest that does not parse is reported with the
//! position of the mistake, and the others are read all the same.

mod calls;
mod cargo;
mod cmake;
mod composer;
mod conan;
mod dotnet;
mod go_mod;
mod gradle;
mod helm;
mod locks;
mod maven;
mod mix;
mod model;
mod package_json;
mod properties;
mod pubspec;
mod pyproject;
mod requirement;
mod ruby;
mod sbt;
mod setup;
mod swift;
mod terraform;
mod toml_file;
mod vcpkg;
mod xml;
mod yaml_lines;

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use skill_sdk::serde_json::json;
use skill_sdk::text::{clip, counted};
use skill_sdk::{Descriptor, Entry, EntryKind, Failure, Handler, Host, Outcome, Query, export_skill};

use locks::DependencyLock;
use model::{Ecosystem, Manifest, normal_name};

/// The skill `analyze_dependencies`.
#[derive(Debug)]
pub struct AnalyzeDependencies;

/// Limit for manifests in one call. A larger repository is read one directory at a time.
const MANIFESTS_MAX: usize = 300;
/// Limit for a manifest in bytes. Larger ones are generated data.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Limit for the lines of an answer.
const LINES_MAX: usize = 400;
/// Limit for names with conflicting constraints.
const CONFLICTS_MAX: usize = 50;
/// Limit for a line of an answer in bytes.
const LINE_BYTES_MAX: usize = 500;

/// Names of manifests, and their parsers. An asterisk at the beginning stands for the rest of the name.
const FORMATS: [(&str, ManifestParser); 33] = [
    ("package.json", package_json::parse),
    ("pyproject.toml", pyproject::parse),
    ("setup.cfg", setup::parse_cfg),
    ("setup.py", setup::parse_py),
    ("Pipfile", pyproject::parse_pipfile),
    ("Cargo.toml", cargo::parse),
    ("go.mod", go_mod::parse),
    ("Gemfile", ruby::parse_gemfile),
    ("*.gemspec", ruby::parse_gemspec),
    ("build.gradle", gradle::parse),
    ("build.gradle.kts", gradle::parse),
    ("libs.versions.toml", gradle::parse_catalog),
    ("pom.xml", maven::parse),
    ("build.sbt", sbt::parse),
    ("plugins.sbt", sbt::parse),
    ("composer.json", composer::parse),
    ("mix.exs", mix::parse),
    ("*.csproj", dotnet::parse),
    ("*.fsproj", dotnet::parse),
    ("*.vbproj", dotnet::parse),
    ("Directory.Packages.props", dotnet::parse),
    ("Directory.Build.props", dotnet::parse),
    ("packages.config", dotnet::parse),
    ("Package.swift", swift::parse),
    ("pubspec.yaml", pubspec::parse),
    ("conanfile.txt", conan::parse_txt),
    ("conanfile.py", conan::parse_py),
    ("vcpkg.json", vcpkg::parse),
    ("Chart.yaml", helm::parse),
    (CMAKE, cmake::parse),
    (TERRAFORM, terraform::parse),
    // Requirements files have many names.
    ("*requirements*.txt", requirement::parse_file),
    ("**/requirements/*.txt", requirement::parse_file),
];

/// Files that most directories of such a project have, with or without dependencies.
const CMAKE: &str = "CMakeLists.txt";
const TERRAFORM: &str = "*.tf";

/// Names of manifests for messages.
fn list_formats() -> String {
    FORMATS.map(|(name, _)| name).join(", ")
}

#[derive(Deserialize)]
struct AnalyzeDependenciesArguments {
    #[serde(default)]
    path: String,
    #[serde(default)]
    cursor: Option<String>,
}

impl Handler for AnalyzeDependencies {
    fn describe() -> Descriptor {
        Descriptor {
            name: "analyze_dependencies",
            version: "1.0.0",
            description: "Lists the repository's dependencies, from the manifests of Python, npm, Cargo, Go, Ruby, \
                Composer, Mix, Maven, Gradle (with its catalog), sbt, .NET (projects, Directory.Packages.props, \
                packages.config), Swift, Dart, CMake, Conan, vcpkg, Helm charts and Terraform in all directories: \
                constraint, group, place, and the locked version if a lock file has it. Points out dependencies with \
                different constraints, and manifests that do not parse.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "format": "path",
                        "description": "Directory or manifest, relative to the repository root. Default: all."
                    },
                    "cursor": {
                        "type": "string",
                        "description": "Cursor of a truncated answer; keep the other arguments."
                    }
                },
                "required": [],
                "additionalProperties": false
            }),
            effects: Self::EFFECTS,
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: AnalyzeDependenciesArguments = skill_sdk::arguments(arguments)?;
        let under = skill_sdk::clean_path(&arguments.path)?;
        let from = match arguments.cursor.as_deref() {
            None => 0,
            Some(cursor) => cursor
                .strip_prefix("line:")
                .and_then(|line| line.parse().ok())
                .ok_or_else(|| {
                    Failure::invalid("the cursor does not belong to this question")
                        .with_hint("call again without `cursor`")
                })?,
        };
        let found = DependencyFiles::list_files(host, &under)?;
        let mut manifests: Vec<Manifest> = found.manifests.iter().map(|file| read_manifest(host, file)).collect();
        // Such files often configure other things, or only contain other builds.
        manifests.retain(|manifest| {
            !(manifest.path.ends_with("setup.cfg") && manifest.name.is_none()
                || manifest.path.ends_with("Directory.Build.props")
                || ["Gradle", "CMake", "Terraform", "sbt"].contains(&manifest.kind.as_str()))
                || !manifest.dependencies.is_empty()
                || !manifest.problems.is_empty()
        });
        cargo::resolve_workspace(&mut manifests);
        gradle::resolve_catalog(&mut manifests);
        gradle::merge_maven(&mut manifests);
        dotnet::resolve_central(&mut manifests);
        locks::apply_locks(&mut manifests, &read_locks(host, &found.locks));
        let lines = render_manifests(&manifests, &under, found.left_out);
        Ok(render_page(&lines, from))
    }
}

/// Files for a call.
struct DependencyFiles {
    manifests: Vec<Entry>,
    locks: Vec<Entry>,
    /// Number of manifests beyond the limit.
    left_out: usize,
}

impl DependencyFiles {
    fn list_files(host: &dyn Host, under: &str) -> Result<Self, Failure> {
        let (_, metadata) = host.locate(under)?;
        let list = |under: &str, globs: Vec<String>| {
            host.list(&Query {
                under: under.to_owned(),
                recursive: true,
                globs,
                after: None,
            })
        };
        let mut manifests = list(under, FORMATS.map(|(glob, _)| glob.to_owned()).to_vec())?;
        manifests.retain(|file| file.kind == EntryKind::File && find_parser(&file.path).is_some());
        if metadata.is_file() && manifests.is_empty() {
            return Err(
                Failure::invalid(format!("`{under}` is not a manifest that this skill reads"))
                    .with_hint(format!("give a directory, or a manifest; it reads {}", list_formats())),
            );
        }
        // The root matters most, and deep manifests often belong to tests.
        manifests.sort_by_key(|file| (file.path.matches('/').count(), file.path.clone()));
        let left_out = manifests.len().saturating_sub(MANIFESTS_MAX);
        if left_out > 0 {
            // Scripts that rarely declare something must not displace the manifests.
            manifests.sort_by_key(|file| file.path.ends_with(CMAKE) || file.path.ends_with(&TERRAFORM[1..]));
        }
        manifests.truncate(MANIFESTS_MAX);
        // A lock file above the directory counts as well.
        let mut locks = list("", locks::NAMES.map(|(name, _, _)| name.to_owned()).to_vec())?;
        locks.retain(|lock| {
            let above = model::directory_of(&lock.path);
            lock.kind == EntryKind::File
                && manifests
                    .iter()
                    .any(|file| model::directory_of(&file.path).starts_with(above))
        });
        Ok(Self {
            manifests,
            locks,
            left_out,
        })
    }
}

type ManifestParser = fn(&str, &str) -> Manifest;

/// Chooses the parser of a file by its name.
fn find_parser(path: &str) -> Option<ManifestParser> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_of = |format: &str| match format.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == format,
    };
    let known = FORMATS
        .iter()
        .find(|(format, _)| is_of(format))
        .map(|(_, parse)| *parse);
    let is_requirements = name.ends_with(".txt") && (name.contains("requirements") || path.contains("requirements/"));
    known.or(is_requirements.then_some(requirement::parse_file as ManifestParser))
}

fn read_manifest(host: &dyn Host, file: &Entry) -> Manifest {
    let unread = |why: &str| {
        let mut manifest = Manifest::new(&file.path, "not read", Ecosystem::Python);
        manifest.problem(0, why);
        manifest
    };
    let Some(parse) = find_parser(&file.path) else {
        return unread("not a manifest");
    };
    if file.size > MANIFEST_BYTES_MAX {
        return unread("too large to read");
    }
    let content = host
        .path(&file.path)
        .and_then(|place| fs::read(place).map_err(|error| Failure::io(&file.path, &error)));
    match content.map(String::from_utf8) {
        Ok(Ok(text)) => parse(&file.path, &text),
        Ok(Err(_)) => unread("not UTF-8"),
        Err(failure) => unread(&failure.message),
    }
}

fn read_locks(host: &dyn Host, files: &[Entry]) -> Vec<DependencyLock> {
    files
        .iter()
        .filter_map(|file| {
            let (ecosystem, readable) = locks::kind_of(&file.path)?;
            if !readable {
                return Some(DependencyLock::unread_file(&file.path, ecosystem, "not read"));
            }
            if file.size > locks::BYTES_MAX {
                return Some(DependencyLock::unread_file(&file.path, ecosystem, "too large to read"));
            }
            let text = host
                .path(&file.path)
                .ok()
                .and_then(|place| fs::read_to_string(place).ok());
            Some(match text {
                Some(text) => DependencyLock::parse(&file.path, ecosystem, &text),
                None => DependencyLock::unread_file(&file.path, ecosystem, "could not be read"),
            })
        })
        .collect()
}

fn render_manifests(manifests: &[Manifest], under: &str, left_out: usize) -> Vec<String> {
    let place = if under.is_empty() {
        String::new()
    } else {
        format!(" in {under}")
    };
    if manifests.is_empty() {
        return vec![format!("No manifest found{place}: looked for {}.", list_formats())];
    }
    let count: usize = manifests.iter().map(|manifest| manifest.dependencies.len()).sum();
    let broken = manifests
        .iter()
        .filter(|manifest| !manifest.problems.is_empty())
        .count();
    let mut summary = format!(
        "{} and {}{place}",
        counted(manifests.len() as u64, "manifest", "manifests"),
        counted(count as u64, "dependency", "dependencies")
    );
    if broken > 0 {
        summary.push_str(&format!(
            "; {} with problems",
            counted(broken as u64, "manifest", "manifests")
        ));
    }
    let mut lines = vec![summary];
    for manifest in manifests {
        lines.push(String::new());
        manifest_lines(&mut lines, manifest);
    }
    lines.extend(find_conflicts(manifests));
    if left_out > 0 {
        lines.push(String::new());
        lines.push(format!(
            "{} left out: ask for a directory with `path`",
            counted(left_out as u64, "more manifest", "more manifests")
        ));
    }
    lines
}

fn manifest_lines(lines: &mut Vec<String>, manifest: &Manifest) {
    lines.push(format!("{} ({})", manifest.path, manifest.kind));
    let project: Vec<&str> = [&manifest.name, &manifest.version]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    if !project.is_empty() {
        lines.push(format!("  project: {}", project.join(" ")));
    }
    lines.extend(manifest.problems.iter().map(|(line, what)| match line {
        0 => format!("  problem: {}: {what}", manifest.path),
        line => format!("  problem: {}:{line}: {what}", manifest.path),
    }));
    lines.extend(manifest.facts.iter().map(|fact| format!("  {fact}")));
    let mut dependencies: Vec<_> = manifest.dependencies.iter().collect();
    dependencies.sort_by_key(|dependency| dependency.line);
    for dependency in dependencies {
        let mut line = format!(
            "  {} {} [{}] {}",
            dependency.name,
            dependency.constraint,
            dependency.group,
            dependency.place(&manifest.path)
        );
        if let Some(version) = &dependency.locked {
            line.push_str(&format!(" locked {version}"));
        }
        if let Some(note) = &dependency.note {
            line.push_str(&format!(" ({note})"));
        }
        lines.push(line);
    }
    if let Some((other, count)) = &manifest.repeats {
        lines.push(format!(
            "  {} as in {other}",
            counted(*count as u64, "dependency", "dependencies")
        ));
    } else if manifest.dependencies.is_empty() && manifest.problems.is_empty() {
        lines.push("  no dependencies declared".to_owned());
    }
}

/// Lists packages whose declarations differ. Peer dependencies are not compared, because they are a range for others.
/// A member that takes the version from its workspace or parent agrees with it.
fn find_conflicts(manifests: &[Manifest]) -> Vec<String> {
    let mut declared: BTreeMap<(Ecosystem, String), Vec<(String, String)>> = BTreeMap::new();
    for manifest in manifests {
        for dependency in &manifest.dependencies {
            // A member may leave out the version that another manifest decides.
            let constraint = dependency.constraint.as_str();
            let follows_parent = match manifest.ecosystem {
                Ecosystem::Java => constraint == maven::MANAGED,
                Ecosystem::DotNet => constraint == dotnet::CENTRAL,
                Ecosystem::Cpp | Ecosystem::Terraform => constraint == "*",
                _ => constraint.starts_with(cargo::FROM_WORKSPACE),
            };
            if dependency.group == "peer" || follows_parent {
                continue;
            }
            let bare = dependency.name.split('[').next().unwrap_or(&dependency.name);
            let key = (manifest.ecosystem, normal_name(manifest.ecosystem, bare));
            let place = dependency.place(&manifest.path);
            // Different constraints for different markers do not contradict each other.
            let marker = dependency.note.as_deref().filter(|note| note.contains("only: "));
            if marker.is_none() {
                declared
                    .entry(key)
                    .or_default()
                    .push((dependency.constraint.clone(), place));
            }
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for ((_, name), places) in declared {
        if places.iter().all(|(constraint, _)| *constraint == places[0].0) {
            continue;
        }
        let places: Vec<String> = places
            .into_iter()
            .map(|(constraint, place)| format!("{constraint} ({place})"))
            .collect();
        lines.push(format!("  {name}: {}", places.join(", ")));
    }
    if lines.is_empty() {
        return lines;
    }
    let count = lines.len();
    lines.truncate(CONFLICTS_MAX);
    if count > CONFLICTS_MAX {
        lines.push(format!("  … and {} more", count - CONFLICTS_MAX));
    }
    lines.splice(0..0, [String::new(), "declared with different constraints:".to_owned()]);
    lines
}

/// Cuts a page out of the lines, and repeats the heading of its first line.
fn render_page(lines: &[String], from: usize) -> Outcome {
    let end = lines.len().min(from.saturating_add(LINES_MAX));
    let mut text = String::new();
    let first = lines.get(from);
    if from > 0 && first.is_some_and(|line| line.starts_with(' ')) {
        let heading = lines[..from]
            .iter()
            .rev()
            .find(|line| !line.is_empty() && !line.starts_with(' '));
        text.extend(heading.map(|heading| format!("{heading}, continued\n")));
    }
    for line in lines.get(from..end).unwrap_or_default() {
        text.push_str(&cut_line(line));
        text.push('\n');
    }
    let more = end < lines.len();
    if more {
        text.push_str(&format!(
            "… {} more lines: pass the cursor, or narrow with `path`\n",
            lines.len() - end
        ));
    }
    Outcome {
        text,
        truncated: more,
        cursor: more.then(|| format!("line:{end}")),
        deletions: Vec::new(),
        details: None,
    }
}

/// Cuts a line, and adds the number of bytes that are left out.
fn cut_line(line: &str) -> String {
    match clip(line, LINE_BYTES_MAX) {
        (line, 0) => line.to_owned(),
        (kept, left) => format!("{kept}… ({left} more bytes)"),
    }
}

export_skill!(AnalyzeDependencies);

#[cfg(test)]
mod tests;
