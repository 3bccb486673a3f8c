//! Parses `pom.xml`: the project's own dependencies, without `dependencyManagement`, plugins and profiles.

use std::collections::BTreeMap;

use crate::model::{Dependency, Ecosystem, Manifest};
use crate::properties::Properties;
use crate::xml::read_elements;

/// Constraint of a dependency whose version a parent decides.
pub(crate) const MANAGED: &str = "managed";

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Maven", Ecosystem::Java);
    let mut properties = Properties::default();
    let mut parent_version = None;
    // Texts of the elements of the next dependency.
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let outcome = read_elements(text, |element| {
        let text = || Some(element.text.clone()).filter(|text| !text.is_empty());
        match element.path {
            "project/artifactId" => manifest.name = text(),
            "project/version" => manifest.version = text(),
            "project/parent/artifactId" => manifest.fact("parent", text()),
            "project/parent/version" => parent_version = text(),
            "project/dependencies/dependency" => {
                let dependency = parse_dependency(&fields, element.line);
                manifest
                    .dependencies
                    .extend(dependency.map(|one| one.until(element.last_line)));
                fields.clear();
            }
            path => {
                if let Some(field) = path.strip_prefix("project/dependencies/dependency/") {
                    fields.insert(field.to_owned(), element.text.clone());
                } else if let Some(name) = path.strip_prefix("project/properties/") {
                    properties.insert(name, &element.text);
                }
            }
        }
    });
    if let Err((line, what)) = outcome {
        manifest.problem(line, &what);
    }
    manifest.version = manifest.version.or(parent_version);
    for dependency in &mut manifest.dependencies {
        dependency.constraint = properties.expand(&dependency.constraint, "${", "}").to_owned();
    }
    manifest
}

fn parse_dependency(fields: &BTreeMap<String, String>, line: usize) -> Option<Dependency> {
    let field = |name: &str| fields.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let name = format!("{}:{}", field("groupId")?, field("artifactId")?);
    let group = match field("scope") {
        Some("test") => "test",
        Some("provided" | "system") => "build",
        _ if field("optional") == Some("true") => "optional",
        _ => "runtime",
    };
    Some(Dependency::new(&name, field("version").unwrap_or(MANAGED), group, line))
}
