//! Parses `package.json`.

use std::collections::HashMap;

use skill_sdk::serde_json::{self, Value};

use crate::model::{Dependency, Ecosystem, Manifest};

/// The sections that hold dependencies, and their groups.
const SECTIONS: [(&str, &str); 4] = [
    ("dependencies", "runtime"),
    ("devDependencies", "dev"),
    ("peerDependencies", "peer"),
    ("optionalDependencies", "optional"),
];

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "npm", Ecosystem::Npm);
    let Some(value) = read_object(&mut manifest, text) else {
        return manifest;
    };
    let text_of = |key: &str| value[key].as_str().map(str::to_owned);
    manifest.name = text_of("name");
    manifest.version = text_of("version");
    if let Some(engines) = value["engines"].as_object() {
        let engines: Vec<String> = engines
            .iter()
            .filter_map(|(name, range)| Some(format!("{name} {}", range.as_str()?)))
            .collect();
        manifest.fact(
            "engines",
            Some(engines.join(", ")).filter(|engines| !engines.is_empty()),
        );
    }
    manifest.fact("package manager", text_of("packageManager"));
    manifest.fact("workspaces", workspace_globs(&value["workspaces"]));
    add_sections(&mut manifest, &value, text, &SECTIONS, |_| true);
    manifest
}

/// Parses a manifest that is a JSON object. Other text is a problem of the manifest.
pub(crate) fn read_object(manifest: &mut Manifest, text: &str) -> Option<Value> {
    match serde_json::from_str::<Value>(without_mark(text)) {
        Ok(value) if value.is_object() => return Some(value),
        Ok(_) => manifest.problem(1, "not a JSON object"),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or(&message);
            manifest.problem(line.max(1), &format!("column {column}: {message}"));
        }
    }
    None
}

fn without_mark(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// Adds the dependencies of some sections, each with its group. Names for which `is_package` is false are skipped.
pub(crate) fn add_sections(
    manifest: &mut Manifest,
    value: &Value,
    text: &str,
    sections: &[(&str, &str)],
    is_package: impl Fn(&str) -> bool,
) {
    let lines = key_lines(without_mark(text));
    for (section, group) in sections.iter().copied() {
        let members = match &value[section] {
            Value::Null => continue,
            Value::Object(members) => members,
            _ => {
                let line = lines.get(&(section.to_owned(), None)).copied().unwrap_or(1);
                manifest.problem(line, &format!("`{section}` is not an object"));
                continue;
            }
        };
        for (name, range) in members.iter().filter(|(name, _)| is_package(name)) {
            let line = lines
                .get(&(section.to_owned(), Some(name.clone())))
                .copied()
                .unwrap_or(1);
            match range.as_str() {
                Some(range) => {
                    let optional = value["peerDependenciesMeta"][name]["optional"] == Value::Bool(true);
                    let note = (group == "peer" && optional).then(|| "optional".to_owned());
                    manifest
                        .dependencies
                        .push(Dependency::new(name, range, group, line).note(note));
                }
                None => manifest.problem(line, &format!("the version of `{name}` is not a string")),
            }
        }
    }
}

fn workspace_globs(value: &Value) -> Option<String> {
    let list = value.as_array().or_else(|| value["packages"].as_array())?;
    let globs: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    (!globs.is_empty()).then(|| globs.join(", "))
}

/// Lines of the keys on the first two levels of a valid JSON text. If a key is repeated, the last one counts, as for
/// the value.
fn key_lines(text: &str) -> HashMap<(String, Option<String>), usize> {
    let bytes = text.as_bytes();
    let mut lines = HashMap::new();
    // The current key of each open object; `None` for an array.
    let mut open: Vec<Option<String>> = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => line += 1,
            b'{' | b'[' => open.push(None),
            b'}' | b']' => {
                open.pop();
            }
            b'"' => {
                let end = string_end(bytes, at);
                let after = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace());
                // Only a key can be a string before a colon.
                if after == Some(&b':') {
                    let key: String = serde_json::from_str(&text[at..end]).unwrap_or_default();
                    match open.as_slice() {
                        [_] => {
                            lines.insert((key.clone(), None), line);
                        }
                        [Some(section), _] => {
                            lines.insert((section.clone(), Some(key.clone())), line);
                        }
                        _ => {}
                    }
                    if let Some(last) = open.last_mut() {
                        *last = Some(key);
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    lines
}

/// Lines of the strings in a valid JSON text after this one, each where it comes first.
pub(crate) fn string_lines(text: &str, after: &str) -> HashMap<String, usize> {
    let text = without_mark(text);
    let bytes = text.as_bytes();
    let mut lines = HashMap::new();
    let (mut at, mut line, mut is_after) = (0, 1, false);
    while at < bytes.len() {
        line += usize::from(bytes[at] == b'\n');
        let end = if bytes[at] == b'"' {
            string_end(bytes, at)
        } else {
            at + 1
        };
        if end > at + 1 {
            let string: String = serde_json::from_str(&text[at..end]).unwrap_or_default();
            is_after |= string == after;
            if is_after {
                lines.entry(string).or_insert(line);
            }
        }
        at = end;
    }
    lines
}

/// Offset after the closing quote of the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    (end + 1).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_know_their_lines() {
        let text = "{\n \"a\": {\"x\": \"y:\",\n  \"q\\\"\": [\"z\", {\"deep\": 1}]},\n \"b\": \"a\"\n}";
        let lines = key_lines(text);
        let of = |section: &str, key: Option<&str>| lines.get(&(section.to_owned(), key.map(str::to_owned))).copied();
        assert_eq!(
            (of("a", None), of("a", Some("x")), of("a", Some("q\"")), of("b", None)),
            (Some(2), Some(2), Some(3), Some(4))
        );
        assert_eq!(lines.len(), 4);
    }
}
