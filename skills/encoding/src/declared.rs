//! Encodings that a file or its repository declares.

use skill_sdk::{Host, Query};

use crate::Encoding;

/// Bytes at the beginning of a file that may hold a declaration.
const HEAD_BYTES: usize = 1024;
/// Limit for a settings file in bytes.
const SETTINGS_BYTES_MAX: usize = 256 * 1024;

/// The encoding that `.gitattributes`, the file itself or `.editorconfig` declares for it.
pub(crate) fn of_file(host: &dyn Host, path: &str, bytes: &[u8]) -> Option<Encoding> {
    in_settings(host, path, ".gitattributes", encoding_attributes)
        .or_else(|| in_text(path, bytes))
        .or_else(|| in_settings(host, path, ".editorconfig", editorconfig_charsets))
}

/// The encoding that `.gitattributes` or `.editorconfig` declares for a new file, and true if the file begins with a
/// byte order mark.
pub fn of_new_file(host: &dyn Host, path: &str) -> Option<(Encoding, bool)> {
    type SettingsParser = fn(&str) -> Vec<(String, String)>;
    let settings: [(&str, SettingsParser); 2] = [
        (".gitattributes", encoding_attributes),
        (".editorconfig", editorconfig_charsets),
    ];
    settings.into_iter().find_map(|(file, parse)| {
        let name = directories_of(path).into_iter().rev().find_map(|directory| {
            let named = parse(&read_settings(host, directory, file)?);
            let (_, name) = named.into_iter().rev().find(|(pattern, _)| {
                let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
                let below = &path[directory.len()..];
                let name = below.rsplit('/').next().unwrap_or(below);
                !pattern.is_empty() && pattern_matches(pattern, if pattern.contains('/') { below } else { name })
            })?;
            Some(name.to_ascii_lowercase())
        })?;
        // git refuses a byte order mark if the name of the encoding has the byte order.
        let is_bare = file == ".gitattributes" && matches!(name.as_str(), "utf-16le" | "utf-16be");
        match (name.as_str(), Encoding::from_name(&name)) {
            ("utf-8-bom", _) => Some((Encoding::Utf8, true)),
            (_, Some(encoding @ Encoding::Utf16 { .. })) => Some((encoding, !is_bare)),
            (_, encoding) => Some((encoding?, false)),
        }
    })
}

/// True if a pattern of `.editorconfig` or `.gitattributes` matches a whole text. Supports `*`, `**`, `?` and
/// `{a,b}`.
fn pattern_matches(pattern: &str, text: &str) -> bool {
    match_ends(pattern, text, vec![0]).contains(&text.len())
}

/// The positions of a text, ascending, up to which a pattern can match from the given positions. All are followed at
/// once: one after the other, the time would grow exponentially with the wildcards.
fn match_ends(pattern: &str, text: &str, mut places: Vec<usize>) -> Vec<usize> {
    let mut rest = pattern;
    while let Some(first) = rest.chars().next().filter(|_| !places.is_empty()) {
        rest = &rest[first.len_utf8()..];
        places = match first {
            '*' => {
                let deep = rest.strip_prefix('*');
                rest = deep.unwrap_or(rest);
                let mut reached: Vec<usize> = Vec::new();
                for place in places {
                    // A position that an earlier one has reached leads no further.
                    if reached.last().is_none_or(|last| *last < place) {
                        let slash = text[place..].find('/').filter(|_| deep.is_none());
                        let end = slash.map_or(text.len(), |length| place + length);
                        reached.extend((place..=end).filter(|at| text.is_char_boundary(*at)));
                    }
                }
                reached
            }
            '{' if rest.contains('}') => {
                let (inner, after) = rest.split_once('}').unwrap_or((rest, ""));
                rest = after;
                let choices = inner.split(',');
                let mut reached: Vec<usize> = choices
                    .flat_map(|choice| match_ends(choice, text, places.clone()))
                    .collect();
                reached.sort_unstable();
                reached.dedup();
                reached
            }
            _ => {
                let fits = |next: &char| *next == first || first == '?' && *next != '/';
                let next = |place: usize| Some(place + text[place..].chars().next().filter(fits)?.len_utf8());
                places.into_iter().filter_map(next).collect()
            }
        };
    }
    places
}

/// The encoding that a file declares in its first lines: in a coding line, or as XML, HTML and CSS do.
pub fn in_text(path: &str, bytes: &[u8]) -> Option<Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]).to_ascii_lowercase();
    let head = head.trim_start_matches('\u{feff}');
    let extension = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let name = if head.starts_with("<?xml") {
        let line = &head[..head.find("?>")?];
        declared_value(&line[line.find("encoding")? + "encoding".len()..])
    } else if matches!(extension.as_str(), "html" | "htm" | "xhtml") {
        // Browsers take both names for the larger set.
        return declared_value(&head[head.find("charset")? + "charset".len()..])
            .and_then(Encoding::from_name)
            .map(|encoding| match encoding {
                Encoding::Latin1 => Encoding::Legacy(encoding_rs::WINDOWS_1252),
                other => other,
            });
    } else if let Some(rest) = head.strip_prefix("@charset") {
        Some(leading_word(rest.trim_start().trim_start_matches('"')))
    } else {
        // Python, Ruby, Emacs and Vim look for it in a comment in the first two lines.
        let is_comment = |line: &&str| {
            line.trim_start()
                .starts_with(['#', '/', ';', '*', '-', '%', '"', '<', '('])
        };
        head.lines().take(2).filter(is_comment).find_map(|line| {
            let rest = &line[line.find("coding")? + "coding".len()..];
            rest.starts_with([':', '=']).then(|| declared_value(rest)).flatten()
        })
    };
    let is_wide = |encoding: &Encoding| matches!(encoding, Encoding::Utf16 { .. });
    // A text that can be read byte by byte is not UTF-16.
    name.and_then(Encoding::from_name).filter(|encoding| !is_wide(encoding))
}

/// The value after `:` or `=`, with or without quotes.
fn declared_value(rest: &str) -> Option<&str> {
    let rest = rest.trim_start().strip_prefix([':', '='])?.trim_start();
    Some(leading_word(rest.trim_start_matches(['"', '\''])))
}

fn leading_word(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric() && !"-_.".contains(character));
    &text[..end.unwrap_or(text.len())]
}

/// The last encoding that the settings files of this name declare for a file; deeper files take precedence.
fn in_settings(
    host: &dyn Host,
    path: &str,
    name: &str,
    parse: impl Fn(&str) -> Vec<(String, String)>,
) -> Option<Encoding> {
    directories_of(path).into_iter().rev().find_map(|directory| {
        let mut named: Vec<(String, Encoding)> = parse(&read_settings(host, directory, name)?)
            .into_iter()
            .filter_map(|(pattern, name)| Some((pattern, Encoding::from_name(&name)?)))
            .collect();
        // Most projects declare UTF-8 for everything; asking the host for a list takes time.
        if named.iter().all(|(_, encoding)| *encoding == Encoding::Utf8) {
            named.clear();
        }
        let mut named = named.into_iter().rev();
        named
            .find(|(pattern, _)| pattern_covers(host, directory, pattern, path))
            .map(|(_, encoding)| encoding)
    })
}

/// Directories above a file, from the root (empty) down. All others end with a slash.
fn directories_of(path: &str) -> Vec<&str> {
    let directories = path.match_indices('/').map(|(at, _)| &path[..=at]);
    std::iter::once("").chain(directories).collect()
}

fn read_settings(host: &dyn Host, directory: &str, name: &str) -> Option<String> {
    let text = std::fs::read(host.repo().join(format!("{directory}{name}"))).ok()?;
    Some(String::from_utf8_lossy(&text[..text.len().min(SETTINGS_BYTES_MAX)]).into_owned())
}

/// Patterns of `.gitattributes` that declare an encoding.
fn encoding_attributes(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let pattern = words.next().filter(|pattern| !pattern.starts_with('#'))?;
        let name = words
            .filter_map(|word| word.strip_prefix("working-tree-encoding="))
            .next_back()?;
        Some((pattern.to_owned(), name.to_owned()))
    });
    lines.collect()
}

/// True if the pattern of a settings file in `directory` matches the file. The host's list does the matching.
fn pattern_covers(host: &dyn Host, directory: &str, pattern: &str, path: &str) -> bool {
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

/// Sections of an `.editorconfig` that declare a charset.
fn editorconfig_charsets(text: &str) -> Vec<(String, String)> {
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
