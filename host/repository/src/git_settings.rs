//! Reads git's configuration files.

use std::str::Lines;

/// Calls `see` with section, name and value of each setting, in the order of the file. Section and name are in lower case;
/// a subsection follows its section after a dot, as it is written. A setting without a value is `true`.
pub fn visit_settings(text: &str, mut see: impl FnMut(&str, &str, &str)) {
    let mut section = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut rest = line.trim();
        if let Some(header) = rest.strip_prefix('[') {
            let (name, after) = parse_header(header);
            section = name;
            rest = after.trim();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = match rest.split_once('=') {
            Some((key, value)) => (key, parse_value(value, &mut lines)),
            None => (rest, "true".to_owned()),
        };
        see(&section, &key.trim().to_ascii_lowercase(), &value);
    }
}

/// Parses `section]` or `section "subsection"]`. Also returns the text after it.
fn parse_header(header: &str) -> (String, &str) {
    if let Some((name, quoted)) = header.split_once('"')
        && !name.contains(']')
    {
        let mut section = format!("{}.", name.trim().to_ascii_lowercase());
        let mut letters = quoted.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => return (section, quoted[at + 1..].trim_start().trim_start_matches(']')),
                '\\' => section.extend(letters.next().map(|(_, letter)| letter)),
                _ => section.push(letter),
            }
        }
    }
    let (name, after) = header.split_once(']').unwrap_or((header, ""));
    (name.trim().to_ascii_lowercase(), after)
}

/// Resolves quotes, escapes and comments. A line that ends with a backslash goes on in the next one.
fn parse_value<'a>(first: &'a str, lines: &mut Lines<'a>) -> String {
    let (mut value, mut kept, mut is_quoted) = (String::new(), 0, false);
    let mut letters = first.trim_start().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => match letters.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(letter) => value.push(letter),
                None => letters = lines.next().unwrap_or_default().chars(),
            },
            _ => value.push(letter),
        }
        // Spaces at the end count only in quotes.
        if is_quoted || !letter.is_whitespace() {
            kept = value.len();
        }
    }
    value.truncate(kept);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_however_they_are_written() {
        let text = "a = 1\n[Core] Bare = \"Yes\" ; so\n\tnoop\n# x = y\n\n[remote \"O]\\\"\"] url=a=b\n[\n\
                    [user]\nname = Ada \\\n  B \"# C \" # D\npath = C:\\\\x\\t \n";
        let mut found = Vec::new();
        visit_settings(text, |section, key, value| {
            found.push(format!("{section}.{key}={value}"))
        });
        assert_eq!(
            found,
            [
                ".a=1",
                "core.bare=Yes",
                "core.noop=true",
                "remote.O]\".url=a=b",
                "user.name=Ada   B # C ",
                "user.path=C:\\x\t"
            ]
        );
    }
}
