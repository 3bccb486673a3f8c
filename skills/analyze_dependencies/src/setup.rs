//! Parses `setup.cfg`, and the literal parts of `setup.py`, which is never executed.

use syntax::{Literal, Module};

use crate::model::{Ecosystem, Manifest};
use crate::requirement;

pub(crate) fn parse_cfg(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Python, setuptools", Ecosystem::Python);
    for setting in parse_settings(text, &mut manifest) {
        let value = || {
            setting
                .lines
                .first()
                .map(|(_, text)| text.clone())
                .filter(|text| !text.is_empty())
        };
        match (setting.section.as_str(), setting.key.as_str()) {
            ("metadata", "name") => manifest.name = value(),
            ("metadata", "version") => manifest.version = value(),
            ("options", "python_requires") => manifest.fact("requires Python", value()),
            ("options", "install_requires") => add_lines(&mut manifest, &setting, "runtime"),
            ("options", "setup_requires") => add_lines(&mut manifest, &setting, "build"),
            ("options", "tests_require") => add_lines(&mut manifest, &setting, "test"),
            ("options.extras_require", extra) => add_lines(&mut manifest, &setting, &format!("extra:{extra}")),
            _ => {}
        }
    }
    manifest
}

fn add_lines(manifest: &mut Manifest, setting: &SetupSetting, group: &str) {
    for (line, text) in &setting.lines {
        // `file: requirements.txt` takes them from another file.
        if let Some(files) = text.strip_prefix("file:") {
            manifest
                .facts
                .push(format!("[{group}] from: {} ({}:{line})", files.trim(), manifest.path));
            continue;
        }
        if !text.is_empty() {
            requirement::add_requirement(manifest, text, group, *line);
        }
    }
}

/// A key with the lines of its value.
struct SetupSetting {
    section: String,
    key: String,
    lines: Vec<(usize, String)>,
}

/// Parses the format of Python's `configparser`: sections, keys, and values that continue on indented lines.
fn parse_settings(text: &str, manifest: &mut Manifest) -> Vec<SetupSetting> {
    let mut settings: Vec<SetupSetting> = Vec::new();
    let mut section: Option<String> = None;
    let mut open = false;
    for (at, whole) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = whole.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if whole.starts_with([' ', '\t']) && open {
            if let Some(setting) = settings.last_mut() {
                setting.lines.push((at + 1, without_comment(line).to_owned()));
            }
            continue;
        }
        open = false;
        if let Some(name) = line.strip_prefix('[') {
            match name.split_once(']') {
                Some((name, _)) => section = Some(name.trim().to_owned()),
                None => manifest.problem(at + 1, "a section without its closing bracket"),
            }
            continue;
        }
        match (&section, line.split_once(['=', ':'])) {
            (Some(section), Some((key, value))) => {
                settings.push(SetupSetting {
                    section: section.clone(),
                    key: key.trim().to_lowercase(),
                    lines: vec![(at + 1, without_comment(value).trim().to_owned())],
                });
                open = true;
            }
            (None, _) => manifest.problem(at + 1, "a line before the first section"),
            (Some(_), None) => manifest.problem(at + 1, &format!("neither a section nor a setting: `{line}`")),
        }
    }
    settings
}

fn without_comment(value: &str) -> &str {
    value.find(" #").map_or(value, |at| &value[..at]).trim_end()
}

/// Parses the literal arguments of `setup(…)`.
pub(crate) fn parse_py(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Python, setup.py", Ecosystem::Python);
    manifest
        .facts
        .push("not executed: only what is written out as a literal is read".to_owned());
    let Some(module) = Module::parse(text.as_bytes()) else {
        manifest.problem(1, "too large or too deeply nested to parse");
        return manifest;
    };
    for fault in module.faults(3) {
        manifest.problem(fault.line, "does not parse");
    }
    for argument in module.keyword_arguments("setup") {
        let text = || match &argument.value {
            Literal::Text(text, _) => Some(text.clone()),
            _ => None,
        };
        match argument.name.as_str() {
            "name" => manifest.name = text(),
            "version" => manifest.version = text(),
            "python_requires" => manifest.fact("requires Python", text()),
            "install_requires" => read_literal(&mut manifest, &argument.value, "runtime"),
            "setup_requires" => read_literal(&mut manifest, &argument.value, "build"),
            "tests_require" => read_literal(&mut manifest, &argument.value, "test"),
            "extras_require" => match &argument.value {
                Literal::Map(extras) => {
                    for (extra, members) in extras {
                        read_literal(&mut manifest, members, &format!("extra:{extra}"));
                    }
                }
                other => read_literal(&mut manifest, other, "extra"),
            },
            _ => {}
        }
    }
    manifest
}

fn read_literal(manifest: &mut Manifest, value: &Literal, group: &str) {
    match value {
        Literal::Text(text, line) => {
            for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
                requirement::add_requirement(manifest, text, group, line + at);
            }
        }
        Literal::List(members) => members.iter().for_each(|member| read_literal(manifest, member, group)),
        Literal::Map(_) => {}
        Literal::Computed(line) => {
            manifest
                .facts
                .push(format!("[{group}] is computed ({}:{line})", manifest.path));
        }
    }
}
