//! Encodings that a file or its repository names.

use skill_sdk::{Host, Query};

use crate::Encoding;

/// Bytes at the beginning of a file in which a declaration lies.
const HEAD_BYTES: usize = 1024;
/// Larger settings files are not read.
const SETTINGS_BYTES_MAX: usize = 256 * 1024;

/// The encoding that `.gitattributes`, the file itself or `.editorconfig` names for it.
pub(crate) fn of_file(host: &dyn Host, path: &str, bytes: &[u8]) -> Option<Encoding> {
    in_settings(host, path, ".gitattributes", |text| {
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let pattern = words.next().filter(|pattern| !pattern.starts_with('#'))?;
            let name = words
                .filter_map(|word| word.strip_prefix("working-tree-encoding="))
                .next_back()?;
            Some((pattern.to_owned(), name.to_owned()))
        });
        lines.collect()
    })
    .or_else(|| in_text(path, bytes))
    .or_else(|| in_settings(host, path, ".editorconfig", charsets))
}

/// The encoding that a file names in its first lines: in a coding line, or as XML, HTML and CSS do.
pub fn in_text(path: &str, bytes: &[u8]) -> Option<Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]).to_ascii_lowercase();
    let head = head.trim_start_matches('\u{feff}');
    let extension = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let name = if head.starts_with("<?xml") {
        let line = &head[..head.find("?>")?];
        value(&line[line.find("encoding")? + "encoding".len()..])
    } else if matches!(extension.as_str(), "html" | "htm" | "xhtml") {
        // Browsers take the two names for the larger set.
        return value(&head[head.find("charset")? + "charset".len()..])
            .and_then(Encoding::named)
            .map(|encoding| match encoding {
                Encoding::Latin1 => Encoding::Legacy(encoding_rs::WINDOWS_1252),
                other => other,
            });
    } else if let Some(rest) = head.strip_prefix("@charset") {
        Some(word(rest.trim_start().trim_start_matches('"')))
    } else {
        // As in Python, Ruby, Emacs and Vim, which all look for it in a comment of the first two lines.
        let is_comment = |line: &&str| {
            line.trim_start()
                .starts_with(['#', '/', ';', '*', '-', '%', '"', '<', '('])
        };
        head.lines().take(2).filter(is_comment).find_map(|line| {
            let rest = &line[line.find("coding")? + "coding".len()..];
            rest.starts_with([':', '=']).then(|| value(rest)).flatten()
        })
    };
    let is_wide = |encoding: &Encoding| matches!(encoding, Encoding::Utf16 { .. });
    // What can be read byte by byte is not in UTF-16.
    name.and_then(Encoding::named).filter(|encoding| !is_wide(encoding))
}

/// The value behind `:` or `=`, with or without quotes.
fn value(rest: &str) -> Option<&str> {
    let rest = rest.trim_start().strip_prefix([':', '='])?.trim_start();
    Some(word(rest.trim_start_matches(['"', '\''])))
}

fn word(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric() && !"-_.".contains(character));
    &text[..end.unwrap_or(text.len())]
}

/// The last name that the settings files of this name give to a file; one that lies deeper counts more.
fn in_settings(
    host: &dyn Host,
    path: &str,
    name: &str,
    parse: impl Fn(&str) -> Vec<(String, String)>,
) -> Option<Encoding> {
    let directories = path.match_indices('/').map(|(at, _)| &path[..=at]);
    let directories: Vec<&str> = std::iter::once("").chain(directories).collect();
    directories.into_iter().rev().find_map(|directory| {
        let text = std::fs::read(host.repo().join(format!("{directory}{name}"))).ok()?;
        let text = String::from_utf8_lossy(&text[..text.len().min(SETTINGS_BYTES_MAX)]).into_owned();
        let mut named: Vec<(String, Encoding)> = parse(&text)
            .into_iter()
            .filter_map(|(pattern, name)| Some((pattern, Encoding::named(&name)?)))
            .collect();
        // Most projects name UTF-8 for everything, and the host's list is not for nothing.
        if named.iter().all(|(_, encoding)| *encoding == Encoding::Utf8) {
            named.clear();
        }
        let mut named = named.into_iter().rev();
        named
            .find(|(pattern, _)| covers(host, directory, pattern, path))
            .map(|(_, encoding)| encoding)
    })
}

/// True where the pattern of a settings file in `directory` matches the file: the host's list compares the two.
fn covers(host: &dyn Host, directory: &str, pattern: &str, path: &str) -> bool {
    let glob = match pattern.strip_prefix('/').unwrap_or(pattern) {
        inner if inner.contains('/') || inner.len() < pattern.len() => format!("/{directory}{inner}"),
        name => name.to_owned(),
    };
    let query = Query {
        under: path.to_owned(),
        recursive: true,
        globs: vec![glob],
        after: None,
    };
    host.list_page(&query).is_ok_and(|page| !page.entries.is_empty())
}

/// The sections of an `.editorconfig` that name a charset.
fn charsets(text: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(pattern) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            pattern.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once('=')
            && key.trim().eq_ignore_ascii_case("charset")
        {
            found.push((section.clone(), value.trim().to_owned()));
        }
    }
    found
}
