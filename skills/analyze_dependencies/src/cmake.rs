//! Parses `CMakeLists.txt`: the packages that `find_package` and `FetchContent_Declare` name. Nothing is evaluated.

use crate::calls::find_calls;
use crate::model::{Dependency, Ecosystem, Manifest};

/// Words that end a list of components.
const KEYWORDS: [&str; 7] = [
    "REQUIRED",
    "OPTIONAL_COMPONENTS",
    "CONFIG",
    "NO_MODULE",
    "QUIET",
    "EXACT",
    "GLOBAL",
];

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "CMake", Ecosystem::Cpp);
    for call in find_calls(text, "#", &["find_package", "FetchContent_Declare", "project"]) {
        let words: Vec<&str> = call
            .arguments
            .lines()
            .flat_map(|line| line.split('#').next().unwrap_or(line).split_whitespace())
            .map(|word| word.trim_matches('"'))
            .collect();
        let Some(name) = words.first().filter(|name| !name.is_empty() && !name.contains('$')) else {
            continue;
        };
        let after = |key: &str| {
            let mut words = words.iter().skip_while(|word| **word != key).skip(1);
            words.next().copied()
        };
        let (constraint, group, note) = match call.name {
            "find_package" => {
                let is_version = |word: &&&str| word.starts_with(|c: char| c.is_ascii_digit());
                let version = words.get(1).filter(is_version).copied().unwrap_or_default();
                let group = if words.contains(&"REQUIRED") {
                    "runtime"
                } else {
                    "optional"
                };
                let is_component = |word: &&&str| !KEYWORDS.contains(*word);
                let components = words.iter().skip_while(|word| **word != "COMPONENTS").skip(1);
                let components: Vec<&str> = components.take_while(is_component).copied().collect();
                let note = (!components.is_empty()).then(|| format!("components {}", components.join(", ")));
                (version.to_owned(), group, note)
            }
            "FetchContent_Declare" => {
                let place = after("GIT_REPOSITORY").or_else(|| after("URL"));
                let place = place.map_or_else(String::new, |place| format!("@ {place}"));
                let tag = after("GIT_TAG").map(|tag| format!("tag {tag}"));
                (place, "build", tag)
            }
            _ => {
                manifest.name = manifest.name.or(Some((*name).to_owned()));
                manifest.version = manifest.version.or(after("VERSION").map(str::to_owned));
                continue;
            }
        };
        let dependency = Dependency::new(name, &constraint, group, call.line).until(call.last_line);
        manifest.dependencies.push(dependency.note(note));
    }
    manifest
}
