//! Parses `build.sbt` and `plugins.sbt`: `"group" %% "name" % "version" % scope`. Nothing is evaluated.

use crate::calls::leading_string;
use crate::model::{Dependency, Ecosystem, Manifest};
use crate::properties::Properties;

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "sbt", Ecosystem::Java);
    let properties = Properties::read_assignments(text);
    manifest.name = properties.get("name").map(str::to_owned);
    manifest.fact("Scala version", properties.get("scalaVersion").map(str::to_owned));
    for (at, line) in text.lines().enumerate() {
        let code = line.split(" //").next().unwrap_or(line);
        if code.trim_start().starts_with("//") {
            continue;
        }
        let parts: Vec<&str> = code.split('%').map(str::trim).filter(|part| !part.is_empty()).collect();
        let mut index = 0;
        while let Some(&[group, name, version]) = parts.get(index..index + 3) {
            index += 1;
            let group = group.strip_suffix('"').and_then(|text| text.rsplit('"').next());
            let name = name.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            let (Some(group), Some(name)) = (group, name.filter(|name| !name.contains('"'))) else {
                continue;
            };
            // The version may be followed by the next group.
            index += 1;
            let word = version.split([',', ')', ' ']).next().unwrap_or(version);
            let version = leading_string(version).or_else(|| properties.get(word)).unwrap_or(word);
            let scope = parts.get(index + 1).copied().unwrap_or_default();
            let scope = scope.trim_start_matches('"').to_ascii_lowercase();
            let group_of_use = match scope.split(|c: char| !c.is_alphanumeric()).next() {
                _ if code.contains("addSbtPlugin") => "build",
                Some("test" | "it" | "integrationtest") => "test",
                Some("provided") => "build",
                Some("optional") => "optional",
                _ => "runtime",
            };
            let name = format!("{group}:{name}");
            manifest
                .dependencies
                .push(Dependency::new(&name, version, group_of_use, at + 1));
        }
    }
    manifest
}
