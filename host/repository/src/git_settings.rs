//! Reads git's configuration as far as the format of a repository requires: settings that are on one line.

/// Calls `see` with section, name and value of each plain setting, in lower case and in the order of the file.
pub fn visit_settings(text: &str, mut see: impl FnMut(&str, &str, &str)) {
    let plain = |text: &str| text.trim().trim_matches('"').to_ascii_lowercase();
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        let mut rest = line;
        if let Some(header) = line.strip_prefix('[') {
            let (name, after) = header.split_once(']').unwrap_or((header, ""));
            section = plain(name);
            rest = after.trim();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, "true"));
        let value = value.split(['#', ';']).next().unwrap_or_default();
        see(&section, &plain(key), &plain(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_however_they_are_written() {
        let text = "a = 1\n[Core] Bare = \"Yes\" ; so\n\tnoop\n# x = y\n\n[remote \"o\"]\nurl=a=b\n[\n";
        let mut found = Vec::new();
        visit_settings(text, |section, key, value| {
            found.push(format!("{section}.{key}={value}"))
        });
        assert_eq!(found, [".a=1", "core.bare=yes", "core.noop=true", "remote \"o.url=a=b"]);
    }
}
