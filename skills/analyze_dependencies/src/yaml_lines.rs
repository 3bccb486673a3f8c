//! The lines `key: value` of a YAML file in block style, which is how charts and packages are written. Values that
//! span lines, anchors and flow style are not read.

pub(crate) struct YamlLine<'t> {
    /// Counted from 1.
    pub(crate) number: usize,
    /// Column of the key, from 0.
    pub(crate) column: usize,
    /// True for the first key of an element of a list.
    pub(crate) is_element: bool,
    pub(crate) key: &'t str,
    pub(crate) value: &'t str,
}

pub(crate) fn read_lines(text: &str) -> impl Iterator<Item = YamlLine<'_>> {
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    lines.filter_map(|(at, line)| {
        let content = line.trim_start();
        let element = content.strip_prefix("- ").map(str::trim_start);
        let content = element.unwrap_or(content);
        let (key, value) = content.split_once(':').filter(|_| !content.starts_with('#'))?;
        // Without a space, the colon is part of a text, as in an address.
        if !value.is_empty() && !value.starts_with(char::is_whitespace) {
            return None;
        }
        Some(YamlLine {
            number: at + 1,
            column: line.len() - content.len(),
            is_element: element.is_some(),
            key: key.trim().trim_matches(['"', '\'']),
            value: unquote_value(value.trim()),
        })
    })
}

fn unquote_value(value: &str) -> &str {
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default(),
        Some('#') => "",
        _ => value.split(" #").next().unwrap_or(value).trim_end(),
    }
}
