//! Helpers for the text of answers.

use std::borrow::Cow;

/// Formats a size in decimal units: `512 B`, `1.5 kB`, `45.2 MB`.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a number with its noun: `1 match`, `2 matches`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Cuts `line` to at most `bytes_max` bytes, at the border of a character. Returns the beginning and the number of
/// bytes that are left out.
///
/// ```
/// assert_eq!(skill_sdk::text::clip("aäb", 2), ("a", 3));
/// ```
pub fn clip(line: &str, bytes_max: usize) -> (&str, usize) {
    let kept = &line[..line.floor_char_boundary(bytes_max)];
    (kept, line.len() - kept.len())
}

/// Escapes control characters, for answers with one name on each line.
pub fn one_line(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return Cow::Borrowed(name);
    }
    let escape = |character: char| {
        if character.is_control() {
            character.escape_default().to_string()
        } else {
            character.to_string()
        }
    };
    Cow::Owned(name.chars().map(escape).collect())
}

#[cfg(test)]
mod tests {
    use super::{clip, counted, human_size, one_line};

    #[test]
    fn sizes_change_unit_where_they_would_round_up() {
        let shown: Vec<String> = [0, 999, 1000, 999_949, 999_950, 45_200_000].map(human_size).into();
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "45.2 MB"]);
    }

    #[test]
    fn counts_have_their_noun() {
        let shown = [0, 1, 2].map(|count| counted(count, "match", "matches"));
        assert_eq!(shown, ["0 matches", "1 match", "2 matches"]);
    }

    #[test]
    fn clipping_keeps_whole_characters() {
        assert_eq!(clip("aäb", 2), ("a", 3));
        assert_eq!(clip("aäb", 3), ("aä", 1));
        assert_eq!(clip("aäb", 9), ("aäb", 0));
    }

    #[test]
    fn a_name_with_a_newline_stays_on_its_line() {
        assert_eq!(one_line("a\nb\t"), "a\\nb\\t");
        assert_eq!(one_line("übel"), "übel");
    }
}
