//! Parses `vcpkg.json`.

use std::collections::HashMap;

use skill_sdk::serde_json::Value;

use crate::model::{Dependency, Ecosystem, Manifest};
use crate::package_json::{read_object, string_lines};

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "vcpkg", Ecosystem::Cpp);
    let Some(value) = read_object(&mut manifest, text) else {
        return manifest;
    };
    manifest.name = value["name"].as_str().map(str::to_owned);
    let version = ["version", "version-string", "version-semver", "version-date"];
    manifest.version = version.iter().find_map(|key| value[*key].as_str()).map(str::to_owned);
    let lines = string_lines(text, "dependencies");
    add_list(&mut manifest, &value["dependencies"], "runtime", &lines);
    for (feature, item) in value["features"].as_object().into_iter().flatten() {
        add_list(
            &mut manifest,
            &item["dependencies"],
            &format!("feature:{feature}"),
            &lines,
        );
    }
    let overrides = value["overrides"].as_array().into_iter().flatten();
    let pinned: HashMap<&str, &str> = overrides
        .filter_map(|one| Some((one["name"].as_str()?, one["version"].as_str()?)))
        .collect();
    for dependency in &mut manifest.dependencies {
        if let Some(version) = pinned.get(dependency.name.as_str()) {
            dependency.constraint = (*version).to_owned();
        }
    }
    manifest
}

fn add_list(manifest: &mut Manifest, list: &Value, group: &str, lines: &HashMap<String, usize>) {
    for item in list.as_array().into_iter().flatten() {
        let Some(name) = item.as_str().or_else(|| item["name"].as_str()) else {
            manifest.problem(1, "a dependency without a name");
            continue;
        };
        let line = lines.get(name).copied().unwrap_or(1);
        let version = item["version>="].as_str().map(|version| format!(">={version}"));
        let group = if item["host"] == Value::Bool(true) {
            "build"
        } else {
            group
        };
        let platform = item["platform"].as_str().map(|platform| format!("only: {platform}"));
        let dependency = Dependency::new(name, &version.unwrap_or_default(), group, line);
        manifest.dependencies.push(dependency.note(platform));
    }
}
