//! Parses Python's requirement strings (PEP 508), and files with one on each line.

use crate::model::{Dependency, Ecosystem, Manifest, directory_of};

/// Parses `name[extra]>=1,<2; marker` or `name @ url`.
pub(crate) fn parse(text: &str, group: &str, line: usize) -> Option<Dependency> {
    let (text, marker) = match text.split_once(';') {
        Some((text, marker)) => (text.trim(), Some(format!("only: {}", marker.trim()))),
        None => (text.trim(), None),
    };
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let edges =
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    if !edges {
        return None;
    }
    let rest = rest.trim_start();
    let (extras, rest) = match rest.strip_prefix('[') {
        Some(inner) => {
            let (extras, rest) = inner.split_once(']')?;
            let extras: Vec<&str> = extras.split(',').map(str::trim).collect();
            (format!("[{}]", extras.join(",")), rest.trim_start())
        }
        None => (String::new(), rest),
    };
    let constraint = match rest.strip_prefix('@') {
        Some(url) => format!("@ {}", url.trim()),
        None => {
            let versions = rest
                .strip_prefix('(')
                .and_then(|inner| inner.strip_suffix(')'))
                .unwrap_or(rest);
            if !versions.is_empty() && !versions.starts_with(['<', '>', '=', '!', '~']) {
                return None;
            }
            versions
                .split(',')
                .map(|part| part.split_whitespace().collect::<String>())
                .collect::<Vec<_>>()
                .join(",")
        }
    };
    Some(Dependency::new(&format!("{name}{extras}"), &constraint, group, line).note(marker))
}

/// Adds a requirement, or a problem if it does not parse.
pub(crate) fn add_requirement(manifest: &mut Manifest, text: &str, group: &str, line: usize) {
    match parse(text, group, line) {
        Some(dependency) => manifest.dependencies.push(dependency),
        None => manifest.problem(line, &format!("not a requirement: `{}`", text.trim())),
    }
}

/// Parses a requirements file.
pub(crate) fn parse_file(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Python, requirements file", Ecosystem::Python);
    let group = group_of(path);
    for (line, text) in logical_lines(text) {
        let text = without_comment(&text);
        let words = text.split_whitespace().next().unwrap_or_default();
        if words.starts_with('-') {
            read_option(&mut manifest, text, &group, line);
        } else if !words.is_empty() {
            read_requirement(&mut manifest, text, &group, line);
        }
    }
    manifest
}

fn read_requirement(manifest: &mut Manifest, text: &str, group: &str, line: usize) {
    // Options of a single requirement follow it: hashes, configuration.
    let (text, options) = match text.find(" --") {
        Some(at) => (&text[..at], &text[at..]),
        None => (text, ""),
    };
    let hashes = options.matches("--hash").count();
    let is_place =
        text.contains("://") && !text.contains('@') || text.starts_with(['.', '/']) || text.ends_with(".whl");
    if is_place || text.starts_with("git+") {
        manifest.dependencies.push(source_dependency(text, group, line));
        return;
    }
    let before = manifest.dependencies.len();
    add_requirement(manifest, text, group, line);
    if let Some(dependency) = manifest.dependencies.get_mut(before)
        && hashes > 0
    {
        let hashes = format!("{hashes} hash{}", if hashes == 1 { "" } else { "es" });
        dependency.note = Some(match dependency.note.take() {
            Some(note) => format!("{note}; {hashes}"),
            None => hashes,
        });
    }
}

/// A requirement that is a path or a URL. Its name is in `#egg=`; without that, the path or URL itself.
fn source_dependency(place: &str, group: &str, line: usize) -> Dependency {
    let place = place.trim();
    let name = place
        .split_once("#egg=")
        .map(|(_, name)| name.split('&').next().unwrap_or(name));
    let name = name.map_or_else(
        || {
            place
                .trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or(place)
                .to_owned()
        },
        str::to_owned,
    );
    Dependency::new(
        if name.is_empty() { "." } else { &name },
        &format!("@ {place}"),
        group,
        line,
    )
}

fn read_option(manifest: &mut Manifest, text: &str, group: &str, line: usize) {
    let (option, value) = text.split_once([' ', '=']).unwrap_or((text, ""));
    // `-rbase.txt` is valid as well.
    let (option, value) = match option {
        long if long.starts_with("--") || long.len() <= 2 => (long, value.trim()),
        short => short.split_at(2),
    };
    let place = format!("{}:{line}", manifest.path);
    match option {
        "-r" | "--requirement" => {
            manifest.facts.push(format!(
                "includes: {} ({place})",
                join_path(directory_of(&manifest.path), value)
            ));
        }
        "-c" | "--constraint" => {
            manifest.facts.push(format!(
                "constrained by: {} ({place})",
                join_path(directory_of(&manifest.path), value)
            ));
        }
        "-e" | "--editable" => {
            let dependency = source_dependency(value, group, line).note(Some("editable".to_owned()));
            manifest.dependencies.push(dependency);
        }
        // The URL of an index may hold credentials.
        option => manifest.facts.push(format!("option: {option} ({place})")),
    }
}

/// Resolves a relative path against the directory of the file that names it.
fn join_path(directory: &str, path: &str) -> String {
    if path.contains("://") || path.starts_with('/') {
        return path.to_owned();
    }
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Joins lines that end with a backslash. The number is that of the first line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let (content, goes_on) = match line.strip_suffix('\\') {
            Some(content) if !line.trim_start().starts_with('#') => (content, true),
            _ => (line, false),
        };
        match lines.last_mut() {
            Some((_, last)) if open => last.push_str(content),
            _ => lines.push((at + 1, content.to_owned())),
        }
        open = goes_on;
    }
    lines
}

fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') {
        return "";
    }
    // In a URL, `#` has no space before it.
    let end = line
        .match_indices('#')
        .map(|(at, _)| at)
        .find(|&at| line[..at].ends_with([' ', '\t']));
    line[..end.unwrap_or(line.len())].trim_end()
}

/// `dev` of `requirements-dev.txt`, `dev_requirements.txt` and `requirements/dev.txt`.
fn group_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".txt");
    let name = name.replace("requirements", "").replace("requirement", "");
    match name.trim_matches(['-', '_', '.']) {
        "" | "base" | "main" | "prod" | "production" => "runtime".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, String, Option<String>)> {
        parse(text, "runtime", 1).map(|dependency| (dependency.name, dependency.constraint, dependency.note))
    }

    #[test]
    fn requirement_strings() {
        let of = |name: &str, constraint: &str, note: Option<&str>| {
            Some((name.to_owned(), constraint.to_owned(), note.map(str::to_owned)))
        };
        assert_eq!(read("requests"), of("requests", "*", None));
        assert_eq!(read("requests >= 2.31 , < 3"), of("requests", ">=2.31,<3", None));
        assert_eq!(
            read("a[x, y]~=1.0 ; python_version < '3.9'"),
            of("a[x,y]", "~=1.0", Some("only: python_version < '3.9'"))
        );
        assert_eq!(read("a (>=1)"), of("a", ">=1", None));
        assert_eq!(read("a @ https://x/a.zip"), of("a", "@ https://x/a.zip", None));
        for wrong in ["", "???", "a b", "a[x", "-a", "a 1.0"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn groups_come_from_file_names() {
        let groups = [
            "requirements.txt",
            "a/requirements-dev.txt",
            "test_requirements.txt",
            "requirements/docs.txt",
            "requirements/base.txt",
        ]
        .map(group_of);
        assert_eq!(groups, ["runtime", "dev", "test", "docs", "runtime"]);
    }
}
