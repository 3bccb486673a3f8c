//! Parses `Cargo.toml`.

use crate::model::{Dependency, Ecosystem, Manifest};
use crate::toml_file::{TomlFile, TomlItem};

/// Constraint of a dependency whose version the workspace decides.
pub(crate) const FROM_WORKSPACE: &str = "workspace";

/// Group of the dependencies that a workspace declares for its members.
pub(crate) const WORKSPACE_GROUP: &str = "workspace";

const SECTIONS: [(&str, &str); 3] = [
    ("dependencies", "runtime"),
    ("dev-dependencies", "dev"),
    ("build-dependencies", "build"),
];

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Rust", Ecosystem::Rust);
    let file = TomlFile::parse(text);
    if let Some(package) = file.get(&["package"]) {
        let text = |key: &str| match package.get(key) {
            Some(item) if item.is_true("workspace") => Some("(from the workspace)".to_owned()),
            item => item.and_then(|item| item.text()).map(str::to_owned),
        };
        manifest.name = text("name");
        manifest.version = text("version");
        manifest.fact("edition", text("edition"));
        manifest.fact("Rust version", text("rust-version"));
    }
    if let Some(members) = file.get(&["workspace", "members"]) {
        let members: Vec<&str> = members.elements().iter().filter_map(TomlItem::text).collect();
        manifest
            .facts
            .push(format!("workspace members: {}", members.join(", ")));
    }
    for (section, group) in SECTIONS {
        read_table(&mut manifest, file.get(&[section]), group);
    }
    for (target, item) in file
        .get(&["target"])
        .map(|targets| targets.entries())
        .unwrap_or_default()
    {
        for (section, group) in SECTIONS {
            read_table(&mut manifest, item.get(section), &format!("{group}, {target}"));
        }
    }
    read_table(&mut manifest, file.get(&["workspace", "dependencies"]), WORKSPACE_GROUP);
    for (source, item) in file
        .get(&["patch"])
        .map(|patches| patches.entries())
        .unwrap_or_default()
    {
        read_table(&mut manifest, Some(item), &format!("patch:{source}"));
    }
    file.report(&mut manifest);
    manifest
}

fn read_table(manifest: &mut Manifest, dependencies: Option<TomlItem<'_, '_>>, group: &str) {
    for (key, item) in dependencies.map(|all| all.entries()).unwrap_or_default() {
        match read_dependency(key, &item, group) {
            Some(dependency) => manifest.dependencies.push(dependency),
            None => manifest.problem(item.line, &format!("`{key}` is neither a version nor a table")),
        }
    }
}

fn read_dependency(key: &str, item: &TomlItem<'_, '_>, group: &str) -> Option<Dependency> {
    if let Some(version) = item.text() {
        return Some(Dependency::new(key, version, group, item.line));
    }
    item.value.as_table()?;
    let source = ["path", "git"]
        .iter()
        .find_map(|source| item.text_of(source).map(|place| format!("@ {source} {place}")));
    let constraint = match item.text_of("version") {
        Some(version) => version.to_owned(),
        None if item.is_true("workspace") => FROM_WORKSPACE.to_owned(),
        None => source.unwrap_or_default(),
    };
    let mut notes = Vec::new();
    if item.is_true("optional") {
        notes.push("optional".to_owned());
    }
    for reference in ["branch", "tag", "rev"] {
        notes.extend(item.text_of(reference).map(|value| format!("{reference} {value}")));
    }
    let features: Vec<&str> = item
        .get("features")
        .map(|all| all.elements().iter().filter_map(TomlItem::text).collect())
        .unwrap_or_default();
    if !features.is_empty() {
        notes.push(format!("features {}", features.join(", ")));
    }
    let name = item.text_of("package").unwrap_or(key);
    if name != key {
        notes.push(format!("as {key}"));
    }
    Some(Dependency::new(name, &constraint, group, item.line).note(Some(notes.join("; "))))
}

/// Adds the versions that a workspace manifest above decides.
pub(crate) fn resolve_workspace(manifests: &mut [Manifest]) {
    let declared: Vec<(String, Dependency)> = manifests
        .iter()
        .filter(|manifest| manifest.ecosystem == Ecosystem::Rust)
        .flat_map(|manifest| {
            let group = manifest
                .dependencies
                .iter()
                .filter(|dependency| dependency.group == WORKSPACE_GROUP);
            group.map(|dependency| (manifest.directory().to_owned(), dependency.clone()))
        })
        .collect();
    for manifest in manifests
        .iter_mut()
        .filter(|manifest| manifest.ecosystem == Ecosystem::Rust)
    {
        let directory = manifest.directory().to_owned();
        for dependency in &mut manifest.dependencies {
            if dependency.constraint != FROM_WORKSPACE {
                continue;
            }
            let found = declared
                .iter()
                .filter(|(above, declared)| declared.name == dependency.name && directory.starts_with(above.as_str()))
                .max_by_key(|(above, _)| above.len());
            if let Some((_, found)) = found {
                dependency.constraint = format!("{FROM_WORKSPACE} {}", found.constraint);
            }
        }
    }
}
