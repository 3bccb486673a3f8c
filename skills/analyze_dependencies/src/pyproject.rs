//! Parses `pyproject.toml` (PEP 621, PEP 735, Poetry, uv, PDM) and `Pipfile`.

use crate::model::{Dependency, Ecosystem, Manifest};
use crate::requirement;
use crate::toml_file::{TomlFile, TomlItem};

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Python", Ecosystem::Python);
    let file = TomlFile::parse(text);
    let mut kinds = Vec::new();
    if let Some(project) = file.get(&["project"]) {
        kinds.push("PEP 621");
        pep_621(&mut manifest, &project);
    }
    if let Some(poetry) = file.get(&["tool", "poetry"]) {
        kinds.push("Poetry");
        self::read_poetry(&mut manifest, &poetry);
    }
    if let Some(build) = file.get(&["build-system"]) {
        manifest.fact("build backend", build.text_of("build-backend").map(str::to_owned));
        read_requirements(&mut manifest, build.get("requires"), "build");
    }
    for (group, members) in file
        .get(&["dependency-groups"])
        .map(|groups| groups.entries())
        .unwrap_or_default()
    {
        dependency_group(&mut manifest, group, &members);
    }
    read_requirements(&mut manifest, file.get(&["tool", "uv", "dev-dependencies"]), "dev");
    for (group, members) in file
        .get(&["tool", "pdm", "dev-dependencies"])
        .map(|all| all.entries())
        .unwrap_or_default()
    {
        read_requirements(&mut manifest, Some(members), &format!("group:{group}"));
    }
    if !kinds.is_empty() {
        manifest.kind = format!("Python, {}", kinds.join(" and "));
    }
    file.report(&mut manifest);
    manifest
}

fn pep_621(manifest: &mut Manifest, project: &TomlItem<'_, '_>) {
    manifest.name = project.text_of("name").map(str::to_owned);
    manifest.version = project.text_of("version").map(str::to_owned);
    manifest.fact("requires Python", project.text_of("requires-python").map(str::to_owned));
    let dynamic: Vec<&str> = project
        .get("dynamic")
        .map(|dynamic| dynamic.elements().iter().filter_map(TomlItem::text).collect())
        .unwrap_or_default();
    if !dynamic.is_empty() {
        manifest
            .facts
            .push(format!("computed at build time: {}", dynamic.join(", ")));
    }
    read_requirements(manifest, project.get("dependencies"), "runtime");
    for (extra, members) in project
        .get("optional-dependencies")
        .map(|all| all.entries())
        .unwrap_or_default()
    {
        read_requirements(manifest, Some(members), &format!("extra:{extra}"));
    }
}

/// Reads an array of requirement strings.
fn read_requirements(manifest: &mut Manifest, list: Option<TomlItem<'_, '_>>, group: &str) {
    let Some(list) = list else {
        return;
    };
    if list.value.as_array().is_none() {
        manifest.problem(list.line, &format!("[{group}] is not an array of requirements"));
    }
    for element in list.elements() {
        match element.text() {
            Some(text) => requirement::add_requirement(manifest, text, group, element.line),
            None => manifest.problem(element.line, &format!("[{group}] holds something that is not a string")),
        }
    }
}

/// Reads a group of PEP 735: strings, and `{include-group = "name"}`.
fn dependency_group(manifest: &mut Manifest, group: &str, members: &TomlItem<'_, '_>) {
    let label = format!("group:{group}");
    for element in members.elements() {
        match (element.text(), element.text_of("include-group")) {
            (Some(text), _) => requirement::add_requirement(manifest, text, &label, element.line),
            (None, Some(other)) => {
                manifest.facts.push(format!(
                    "group {group} includes: {other} ({}:{})",
                    manifest.path, element.line
                ));
            }
            (None, None) => manifest.problem(
                element.line,
                &format!("[{label}] holds something that is no requirement"),
            ),
        }
    }
}

fn read_poetry(manifest: &mut Manifest, poetry: &TomlItem<'_, '_>) {
    let take = |key: &str| poetry.text_of(key).map(str::to_owned);
    manifest.name = manifest.name.take().or_else(|| take("name"));
    manifest.version = manifest.version.take().or_else(|| take("version"));
    read_table(manifest, poetry.get("dependencies"), "runtime");
    read_table(manifest, poetry.get("dev-dependencies"), "dev");
    for (name, group) in poetry.get("group").map(|groups| groups.entries()).unwrap_or_default() {
        read_table(manifest, group.get("dependencies"), &format!("group:{name}"));
    }
}

/// Reads a table of `name = "^1.0"` or `name = {version = …}`, as Poetry and Pipenv write it.
fn read_table(manifest: &mut Manifest, dependencies: Option<TomlItem<'_, '_>>, group: &str) {
    let Some(dependencies) = dependencies else {
        return;
    };
    for (name, item) in dependencies.entries() {
        if name == "python" {
            manifest.fact("requires Python", item.text().map(str::to_owned));
            continue;
        }
        // Several tables are one dependency with several markers.
        let alternatives = if item.value.is_array() {
            item.elements()
        } else {
            vec![item]
        };
        for alternative in alternatives {
            match read_dependency(name, &alternative, group) {
                Some(dependency) => manifest.dependencies.push(dependency),
                None => manifest.problem(
                    alternative.line,
                    &format!("`{name}` has neither a version nor a source"),
                ),
            }
        }
    }
}

fn read_dependency(name: &str, item: &TomlItem<'_, '_>, group: &str) -> Option<Dependency> {
    if let Some(constraint) = item.text() {
        return Some(Dependency::new(name, constraint, group, item.line));
    }
    item.value.as_table()?;
    let source = ["git", "path", "file", "url"]
        .iter()
        .find_map(|key| item.text_of(key).map(|place| format!("@ {key} {place}")));
    let constraint = item
        .text_of("version")
        .map(str::to_owned)
        .or(source)
        .unwrap_or_default();
    let extras: Vec<&str> = item
        .get("extras")
        .map(|extras| extras.elements().iter().filter_map(TomlItem::text).collect())
        .unwrap_or_default();
    let name = if extras.is_empty() {
        name.to_owned()
    } else {
        format!("{name}[{}]", extras.join(","))
    };
    let mut notes = Vec::new();
    if item.is_true("optional") {
        notes.push("optional".to_owned());
    }
    notes.extend(item.text_of("python").map(|python| format!("only: python {python}")));
    notes.extend(item.text_of("markers").map(|markers| format!("only: {markers}")));
    for key in ["branch", "tag", "rev", "ref"] {
        notes.extend(item.text_of(key).map(|value| format!("{key} {value}")));
    }
    Some(Dependency::new(&name, &constraint, group, item.line).note(Some(notes.join("; "))))
}

pub(crate) fn parse_pipfile(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Python, Pipenv", Ecosystem::Python);
    let file = TomlFile::parse(text);
    for (section, item) in file.entries() {
        match section {
            "source" | "scripts" | "pipenv" => {}
            "requires" => {
                let version = item
                    .text_of("python_version")
                    .or_else(|| item.text_of("python_full_version"));
                manifest.fact("requires Python", version.map(str::to_owned));
            }
            "packages" => read_table(&mut manifest, Some(item), "runtime"),
            "dev-packages" => read_table(&mut manifest, Some(item), "dev"),
            category => read_table(&mut manifest, Some(item), &format!("group:{category}")),
        }
    }
    file.report(&mut manifest);
    manifest
}
