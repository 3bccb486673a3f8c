//! Cleans text of a model, a file or a server for a terminal. Adds no styles.

use tool_core::text::is_reordering;

/// Removes control characters but newline and tab, and the marks that reorder text.
pub(crate) fn clean_output(text: &str) -> String {
    text.chars().filter(|&character| is_shown(character)).collect()
}

fn is_shown(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        _ => !character.is_control() && !is_reordering(character),
    }
}

#[cfg(test)]
mod tests {
    use super::clean_output;

    #[test]
    fn what_could_steer_a_terminal_is_removed() {
        assert_eq!(clean_output("a\x1b[2Jb\u{9b}31mc\r\x07\td\ne"), "a[2Jb31mc\td\ne");
        assert_eq!(clean_output("user\u{202e}txt.exe\u{2066}"), "usertxt.exe");
        assert_eq!(clean_output("grüße 漢字 🦀"), "grüße 漢字 🦀");
    }
}
