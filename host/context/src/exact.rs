//! Finds names and quotations in a line of a task that are searched as exact text: `--max-cost`, `requests.compat`,
//! `HTTP`, "connection reset".
//!
//! The other words of a task are stemmed, and match in any case.

/// Weight of a part of a name, such as `compat` of `requests.compat`.
const PART_WEIGHT: f64 = 0.7;

/// Length of a name or quotation in bytes.
const LENGTH: std::ops::RangeInclusive<usize> = 2..=60;

/// Calls `found` with each name or quotation and its weight: 1, or less for a part of a name.
pub(super) fn each_exact(line: &str, mut found: impl FnMut(&str, f64)) {
    for quote in ['`', '"', '\''] {
        each_quotation(line, quote, |text| found(text, 1.0));
    }
    for token in line.split_whitespace().filter(|token| !token.contains("://")) {
        let is_call = token.contains("()");
        let is_end = |c: char| {
            c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '`' | '"' | '\'')
        };
        for piece in token.split(is_end) {
            let piece = piece.trim_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')));
            let piece = piece.trim_end_matches(['.', '-']);
            if !(is_call && !piece.is_empty() || is_code(piece)) || !LENGTH.contains(&piece.len()) {
                continue;
            }
            found(piece, 1.0);
            for part in piece.split([':', '.', '>', '#', '/']) {
                let part = part.trim_end_matches('-');
                if part.len() > 2 && part.len() < piece.len() {
                    found(part, PART_WEIGHT);
                }
            }
        }
    }
}

/// True for a flag, a path, a name with more than one part, or one in capitals.
fn is_code(piece: &str) -> bool {
    let is_flag = piece.starts_with('-') && piece.trim_start_matches('-').starts_with(char::is_alphabetic);
    let has_parts = piece.contains(['/', '_', '.', '#']) || piece.contains("::") || piece.contains("->");
    let is_capitals = piece.len() > 2 && piece.bytes().all(|byte| byte.is_ascii_uppercase());
    let has_letters = piece.contains(char::is_alphabetic);
    has_letters && (is_flag || has_parts || is_capitals || super::words::has_inner_capital(piece))
}

/// Calls `found` for each text between two of these quotation marks. An apostrophe inside a word does not count.
fn each_quotation(line: &str, quote: char, mut found: impl FnMut(&str)) {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut from = None;
    for (at, _) in line.match_indices(quote) {
        let (before, after) = (&line[..at], &line[at + quote.len_utf8()..]);
        match from {
            Some(start) if quote != '\'' || !is_word(after.chars().next()) => {
                let text = line[start..at].trim();
                if LENGTH.contains(&text.len()) {
                    found(text);
                }
                from = None;
            }
            None if quote != '\'' || !is_word(before.chars().next_back()) => from = Some(at + quote.len_utf8()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(line: &str) -> Vec<(String, f64)> {
        let mut all = Vec::new();
        each_exact(line, |text, weight| all.push((text.to_owned(), weight)));
        all
    }

    #[test]
    fn names_flags_paths_and_quotations_are_found_as_written() {
        let texts = |line| exact(line).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
        assert_eq!(
            texts("Don't depend on `requests.compat`, it's old"),
            ["requests.compat", "requests.compat", "requests", "compat"]
        );
        assert_eq!(
            texts("cli: accept --max-cost (see src/cost.rs)."),
            ["--max-cost", "src/cost.rs", "src", "cost"]
        );
        assert_eq!(
            texts("say \"connection reset\" in run() of HTTP, GitHub and a word."),
            ["connection reset", "run", "HTTP", "GitHub"]
        );
        assert_eq!(texts("https://example.com/a_b is no name, nor is plain text"), [""; 0]);
    }

    #[test]
    fn a_part_weighs_less_than_the_whole() {
        assert_eq!(
            exact("mod::name_a"),
            [
                ("mod::name_a".to_owned(), 1.0),
                ("mod".to_owned(), PART_WEIGHT),
                ("name_a".to_owned(), PART_WEIGHT)
            ]
        );
    }
}
