//! Parses `conanfile.txt`, and the written references of `conanfile.py`, which is never executed.

use crate::calls::{find_calls, leading_string};
use crate::model::{Dependency, Ecosystem, Manifest};

/// Names of sections, attributes and methods, and their groups.
const GROUPS: [(&str, &str); 4] = [
    ("requires", "runtime"),
    ("build_requires", "build"),
    ("tool_requires", "build"),
    ("test_requires", "test"),
];

pub(crate) fn parse_txt(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Conan", Ecosystem::Cpp);
    let mut group = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or(line).trim();
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            group = find_group(section);
        } else if let Some(group) = group {
            manifest.dependencies.extend(parse_reference(line, group, at + 1));
        }
    }
    manifest
}

pub(crate) fn parse_py(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Conan", Ecosystem::Cpp);
    // The group of an attribute whose list goes on.
    let mut open = None;
    for (at, line) in text.lines().enumerate() {
        let code = line.split(" #").next().unwrap_or(line).trim();
        let value = match (open, code.split_once('=')) {
            (Some(_), _) => code,
            (None, Some((key, value))) => {
                open = find_group(key.trim());
                value.trim()
            }
            (None, None) => continue,
        };
        let Some(group) = open.filter(|_| !code.starts_with('#')) else {
            continue;
        };
        let strings = value.split(['"', '\'']).skip(1).step_by(2);
        manifest
            .dependencies
            .extend(strings.filter_map(|text| parse_reference(text, group, at + 1)));
        if !value.ends_with([',', '(', '[', '\\']) {
            open = None;
        }
    }
    let methods = [
        "self.requires",
        "self.build_requires",
        "self.tool_requires",
        "self.test_requires",
    ];
    for call in find_calls(text, "#", &methods) {
        let group = find_group(call.name.trim_start_matches("self."));
        let declared = leading_string(call.arguments).zip(group);
        let dependency = declared.and_then(|(text, group)| parse_reference(text, group, call.line));
        manifest.dependencies.extend(dependency);
    }
    let value_of = |key: &str| {
        let mut values = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix('='));
        values.next().and_then(leading_string).map(str::to_owned)
    };
    manifest.name = value_of("name");
    manifest.version = value_of("version");
    manifest
}

fn find_group(name: &str) -> Option<&'static str> {
    GROUPS.iter().find(|(known, _)| *known == name).map(|(_, group)| *group)
}

/// Parses `name/version@user/channel`. A version in brackets is a range.
fn parse_reference(text: &str, group: &str, line: usize) -> Option<Dependency> {
    let (name, version) = text.trim().split_once('/')?;
    // The revision and the channel follow the version.
    let version = version
        .split(['@', '#'])
        .next()
        .unwrap_or(version)
        .trim_matches(['[', ']']);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-+.".contains(c));
    is_name.then(|| Dependency::new(name, version, group, line))
}
