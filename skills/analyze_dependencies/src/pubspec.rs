//! Parses `pubspec.yaml` of Dart and Flutter.

use crate::model::{Dependency, Ecosystem, Manifest};
use crate::yaml_lines::read_lines;

/// The sections that hold dependencies, and their groups.
const SECTIONS: [(&str, &str); 3] = [
    ("dependencies", "runtime"),
    ("dev_dependencies", "dev"),
    ("dependency_overrides", "override"),
];

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Dart", Ecosystem::Dart);
    let mut section = "";
    // Column of the names in the section.
    let mut column = None;
    for line in read_lines(text) {
        let value = || Some(line.value.to_owned()).filter(|value| !value.is_empty());
        if line.column == 0 {
            section = line.key;
            column = None;
            match section {
                "name" => manifest.name = value(),
                "version" => manifest.version = value(),
                _ => {}
            }
        } else if let Some((_, group)) = SECTIONS.iter().find(|(name, _)| *name == section) {
            if line.column == *column.get_or_insert(line.column) {
                let dependency = Dependency::new(line.key, line.value, group, line.number);
                manifest.dependencies.push(dependency);
            } else if let Some(last) = manifest.dependencies.last_mut() {
                last.last_line = line.number;
                match line.key {
                    "version" if !line.value.is_empty() => last.constraint = line.value.to_owned(),
                    // A repository has its address in `url`, and the folder in it in `path`.
                    "sdk" | "path" | "git" | "url" if !line.value.is_empty() && last.constraint == "*" => {
                        let source = format!("@ {} {}", line.key, line.value);
                        last.constraint = Dependency::new("", &source, "", 0).constraint;
                    }
                    _ => {}
                }
            }
        } else if section == "environment" && matches!(line.key, "sdk" | "flutter") {
            manifest.fact(&format!("requires {}", line.key), value());
        }
    }
    manifest
}
