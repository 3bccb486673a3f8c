//! Parses `build.gradle`, `build.gradle.kts` and their version catalog. It finds the blocks called `dependencies` by
//! their braces, and evaluates nothing.

use std::collections::BTreeSet;

use crate::calls::leading_string;
use crate::maven::MANAGED;
use crate::model::{Dependency, Ecosystem, Manifest};
use crate::properties::Properties;
use crate::toml_file::{TomlFile, TomlItem};

/// Prefix of an accessor of a catalog.
const CATALOG: &str = "libs.";

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Gradle", Ecosystem::Java);
    // The text before each open brace.
    let mut blocks: Vec<String> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut start = 0;
        let mut quote = None;
        for (index, byte) in line.bytes().enumerate() {
            match (quote, byte) {
                (Some(open), byte) if byte == open => quote = None,
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'/') if line[index..].starts_with("//") => {
                    manifest
                        .dependencies
                        .extend(parse_statement(&line[start..index], &blocks, at + 1));
                    start = line.len();
                    break;
                }
                (None, b'{' | b'}') => {
                    let text = &line[start..index];
                    manifest.dependencies.extend(parse_statement(text, &blocks, at + 1));
                    if byte == b'{' {
                        blocks.push(text.trim().to_owned());
                    } else {
                        blocks.pop();
                    }
                    start = index + 1;
                }
                _ => {}
            }
        }
        manifest
            .dependencies
            .extend(parse_statement(&line[start..], &blocks, at + 1));
    }
    let variables = Properties::read_assignments(text);
    for dependency in &mut manifest.dependencies {
        let version = variables.expand(&dependency.constraint, "$", "");
        let version = variables.expand(version, "${", "}").to_owned();
        dependency.constraint = version;
    }
    manifest
}

/// The dependency that a statement in a block of dependencies declares.
fn parse_statement(text: &str, blocks: &[String], line: usize) -> Option<Dependency> {
    if blocks.last()? != "dependencies" {
        return None;
    }
    let text = text.trim();
    let (configuration, target) = text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric())?);
    let is_in_test = blocks.iter().any(|block| block.to_ascii_lowercase().contains("test"));
    let group = group_of(configuration, is_in_test)?;
    let target = target.trim_start_matches(['(', ' ']);
    let target = ["platform", "enforcedPlatform", "testFixtures"]
        .iter()
        .find_map(|wrapper| target.strip_prefix(wrapper)?.strip_prefix('('))
        .unwrap_or(target);
    let name_of = |text: &str| -> String {
        let is_part = |c: &char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
        text.chars().take_while(is_part).collect()
    };
    let (name, constraint) = if let Some(coordinate) = leading_string(target) {
        // Group and name, then the version.
        match coordinate.match_indices(':').nth(1) {
            Some((end, _)) => (coordinate[..end].to_owned(), coordinate[end + 1..].to_owned()),
            None => (coordinate.to_owned(), String::new()),
        }
    } else if let Some(project) = target.strip_prefix("project(") {
        (leading_string(project)?.to_owned(), "project".to_owned())
    } else if target.starts_with("projects.") {
        (name_of(target), "project".to_owned())
    } else if target.starts_with(CATALOG) {
        (name_of(target), String::new())
    } else {
        // Groovy can name the parts one by one.
        let value = |key: &str| leading_string(target.split_once(key)?.1.trim_start());
        (
            value("name:")?.to_owned(),
            value("version:").unwrap_or_default().to_owned(),
        )
    };
    // A name with a variable is computed.
    (!name.starts_with('$')).then(|| Dependency::new(&name, &constraint, group, line))
}

/// Group of a configuration; `None` for any other word.
fn group_of(configuration: &str, is_in_test: bool) -> Option<&'static str> {
    const NEEDED: [&str; 5] = ["api", "implementation", "compile", "runtime", "runtimeonly"];
    const BUILD: [&str; 6] = [
        "compileonly",
        "compileonlyapi",
        "annotationprocessor",
        "kapt",
        "ksp",
        "classpath",
    ];
    let lower = configuration.to_ascii_lowercase();
    if lower == "developmentonly" {
        return Some("dev");
    }
    let is_of = |configurations: &[&str]| configurations.iter().any(|end| lower.ends_with(end));
    match (is_of(&BUILD), is_of(&NEEDED)) {
        (false, false) => None,
        _ if is_in_test || lower.contains("test") => Some("test"),
        (true, _) => Some("build"),
        (false, true) => Some("runtime"),
    }
}

/// Parses `libs.versions.toml`. The note of a library is the accessor that builds use for it.
pub(crate) fn parse_catalog(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Gradle, version catalog", Ecosystem::Java);
    let file = TomlFile::parse(text);
    let version_of = |item: &TomlItem<'_, '_>| -> Option<String> {
        let version = item.get("version")?;
        let named = || file.get(&["versions", version.text_of("ref")?])?.text();
        version.text().or_else(named).map(str::to_owned)
    };
    let libraries = file.get(&["libraries"]).map(|libraries| libraries.entries());
    for (alias, item) in libraries.unwrap_or_default() {
        let coordinate = match item.text() {
            Some(text) => text
                .rsplit_once(':')
                .map(|(name, version)| (name.to_owned(), Some(version.to_owned()))),
            None => {
                let module = item.text_of("module").map(str::to_owned);
                let parts = || Some(format!("{}:{}", item.text_of("group")?, item.text_of("name")?));
                module.or_else(parts).map(|module| (module, version_of(&item)))
            }
        };
        let Some((name, version)) = coordinate else {
            manifest.problem(item.line, &format!("`{alias}` names no module"));
            continue;
        };
        let accessor = format!("{CATALOG}{}", alias.replace(['-', '_'], "."));
        let dependency = Dependency::new(&name, &version.unwrap_or_default(), "catalog", item.line);
        manifest.dependencies.push(dependency.note(Some(accessor)));
    }
    file.report(&mut manifest);
    manifest
}

/// Replaces accessors by their modules, if a catalog above has them.
pub(crate) fn resolve_catalog(manifests: &mut [Manifest]) {
    let of_catalogs = manifests
        .iter()
        .filter(|manifest| manifest.path.ends_with("libs.versions.toml"));
    let declared: Vec<(String, Dependency)> = of_catalogs
        .flat_map(|catalog| {
            let above = catalog.directory();
            let above = above.strip_suffix("gradle/").unwrap_or(above).to_owned();
            catalog
                .dependencies
                .iter()
                .map(move |dependency| (above.clone(), dependency.clone()))
        })
        .collect();
    for manifest in manifests.iter_mut() {
        let directory = manifest.directory().to_owned();
        for dependency in manifest
            .dependencies
            .iter_mut()
            .filter(|dependency| dependency.name.starts_with(CATALOG))
        {
            let is_meant = |(above, declared): &&(String, Dependency)| {
                declared.note.as_ref() == Some(&dependency.name) && directory.starts_with(above.as_str())
            };
            if let Some((_, found)) = declared.iter().filter(is_meant).max_by_key(|(above, _)| above.len()) {
                dependency.constraint = format!("{} {}", found.name, found.constraint);
            }
        }
    }
}

/// Leaves out of a `pom.xml` what a build of Gradle beside it declares in the same way: some projects have both, and
/// each is complete.
pub(crate) fn merge_maven(manifests: &mut [Manifest]) {
    for at in 0..manifests.len() {
        if !manifests[at].path.ends_with("pom.xml") {
            continue;
        }
        let is_beside = |other: &&Manifest| other.kind == "Gradle" && other.directory() == manifests[at].directory();
        let Some(gradle) = manifests.iter().find(is_beside) else {
            continue;
        };
        let declared: BTreeSet<(String, String, String)> = gradle.dependencies.iter().map(find_coordinate).collect();
        let path = gradle.path.clone();
        let pom = &mut manifests[at];
        let before = pom.dependencies.len();
        pom.dependencies
            .retain(|dependency| !declared.contains(&find_coordinate(dependency)));
        let repeated = before - pom.dependencies.len();
        pom.repeats = (repeated > 0).then_some((path, repeated));
    }
}

/// Module, version and group of a dependency. Where a platform decides the version, it is empty.
fn find_coordinate(dependency: &Dependency) -> (String, String, String) {
    let resolved = dependency.constraint.split_once(' ');
    let (name, version) = match resolved.filter(|_| dependency.name.starts_with(CATALOG)) {
        Some(resolved) => resolved,
        None => (dependency.name.as_str(), dependency.constraint.as_str()),
    };
    let version = if matches!(version, "*" | MANAGED) { "" } else { version };
    (name.to_owned(), version.to_owned(), dependency.group.clone())
}
