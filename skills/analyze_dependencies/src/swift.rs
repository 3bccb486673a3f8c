//! Parses `Package.swift`: the calls `.package(…)`. Nothing is evaluated.

use crate::calls::{find_calls, leading_string};
use crate::model::{Dependency, Ecosystem, Manifest};

/// Text before a version, and how the constraint begins.
const REQUIREMENTS: [(&str, &str); 7] = [
    ("upToNextMajor(from:", "^"),
    ("upToNextMinor(from:", "~"),
    ("from:", "^"),
    ("exact:", "="),
    ("exact(", "="),
    ("branch:", "branch "),
    ("revision:", "revision "),
];

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Swift package", Ecosystem::Swift);
    for call in find_calls(text, "//", &[".package"]) {
        let place = ["url:", "path:", "id:"].iter().find_map(|key| call.string_after(key));
        let Some(place) = place else { continue };
        let name = place.trim_end_matches('/').rsplit('/').next().unwrap_or(place);
        let name = name.strip_suffix(".git").unwrap_or(name);
        let simple = || {
            let mut all = REQUIREMENTS.iter();
            all.find_map(|(key, mark)| Some(format!("{mark}{}", call.string_after(key)?)))
        };
        // `"1.0.0"..<"2.0.0"`
        let range = call.arguments.split_once("..").and_then(|(lower, upper)| {
            let upper_mark = if upper.starts_with('<') { "<" } else { "<=" };
            let upper = leading_string(upper.trim_start_matches(['<', '.']))?;
            let lower = lower.trim_end().strip_suffix('"')?.rsplit('"').next()?;
            Some(format!(">={lower}, {upper_mark}{upper}"))
        });
        let local = || call.string_after("path:").map(|path| format!("@ path {path}"));
        let constraint = local().or(range).or_else(simple).unwrap_or_default();
        let dependency = Dependency::new(name, &constraint, "runtime", call.line);
        manifest.dependencies.push(dependency.until(call.last_line));
    }
    manifest
}
