//! Text helpers of the analyst.

/// Formats any text as a code span of Markdown.
pub(super) fn quote_code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    if longest == 0 {
        return format!("`{text}`");
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence} {text} {fence}")
}

/// Citation of lines of a file: `path:line`, as code if the path could be read as markup.
pub(super) fn cite_lines(path: &str, lines: &impl std::fmt::Display) -> String {
    let place = format!("{path}:{lines}");
    if path.contains(['`', '*', '[', ']', '<', '>', '&', '|', '~', '\\']) {
        quote_code(&place)
    } else {
        place
    }
}

/// [`escape_prose`] for the beginning of a paragraph.
pub(super) fn escape_paragraph(text: &str) -> String {
    match block_mark(text) {
        Some(at) => format!("{}\\{}{}", &text[..at], &text[at..=at], escape_prose(&text[at + 1..])),
        None => escape_prose(text),
    }
}

/// Escapes text of the repository for a line of Markdown: only its code spans stay markup.
pub(super) fn escape_prose(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut opened = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '_', '~', '<', '&', ']', '\\']) {
        escaped.push_str(&rest[..at]);
        let marked = &rest[at..];
        let length = if let Some(length) = code_span(marked) {
            escaped.push_str(&marked[..length]);
            length
        } else if let Some(length) = dunder_name(escaped.chars().next_back(), marked) {
            escaped.push_str(&quote_code(&marked[..length]));
            length
        } else {
            if is_active(escaped.chars().next_back(), marked, &mut opened) {
                escaped.push('\\');
            }
            escaped.push_str(&marked[..1]);
            1
        };
        rest = &marked[length..];
    }
    escaped.push_str(rest);
    escaped
}

/// Position of a character that would begin a heading, a quotation, a list, a table or a rule.
fn block_mark(text: &str) -> Option<usize> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut signs = text[digits..].chars();
    let (first, second) = (signs.next()?, signs.next().unwrap_or(' '));
    let is_mark = match first {
        '.' | ')' => digits > 0 && second.is_whitespace(),
        '-' | '+' | '*' => digits == 0 && (second.is_whitespace() || second == first),
        '#' | '>' | '|' | '=' | ':' | '~' => digits == 0,
        _ => false,
    };
    is_mark.then_some(digits)
}

/// Bytes of the code span at the beginning of a text, including its marks.
fn code_span(text: &str) -> Option<usize> {
    let run = |text: &str| text.len() - text.trim_start_matches('`').len();
    let fence = run(text);
    if fence == 0 {
        return None;
    }
    let mut at = fence;
    loop {
        at += text[at..].find('`')?;
        let length = run(&text[at..]);
        at += length;
        if length == fence {
            return Some(at);
        }
    }
}

/// Bytes of a name such as `__init__` at the beginning of a text, which Markdown takes for bold words.
fn dunder_name(before: Option<char>, text: &str) -> Option<usize> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let is_dunder = end > 4 && text.starts_with("__") && text[..end].ends_with("__");
    (is_dunder && !before.is_some_and(is_name)).then_some(end)
}

/// True if the character at the beginning of `marked` has a meaning in Markdown. A mark of emphasis has one only if it
/// can close the emphasis: one that only opens is plain text.
fn is_active(before: Option<char>, marked: &str, opened: &mut Vec<char>) -> bool {
    let mut signs = marked.chars();
    let (sign, after) = (signs.next().unwrap_or_default(), signs.next());
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_text = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
    match sign {
        '*' | '_' | '~' => {
            let is_within_word = |c| sign == '_' && is_word(c);
            if opened.contains(&sign) && is_text(before) && !is_within_word(after) {
                return true;
            }
            if is_text(after) && !is_within_word(before) {
                opened.push(sign);
            }
            false
        }
        '<' => after.is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')),
        '&' => after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '#'),
        ']' => matches!(after, Some('(' | '[')),
        '\\' => after.is_some_and(|c| c.is_ascii_punctuation()),
        _ => true,
    }
}

/// Cuts a text at the end of a word, and marks the cut.
pub(super) fn cut_text(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let cut: String = text.chars().take(characters_max).collect();
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{} …", &cut[..end])
}

/// Returns the first sentence of a paragraph.
pub(super) fn first_sentence(paragraph: &str) -> &str {
    const ABBREVIATIONS: [&str; 6] = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "approx."];
    let ends = paragraph.match_indices(['.', '!', '?']).map(|(at, _)| at + 1);
    ends.into_iter()
        .find(|&end| {
            let follows = paragraph[end..].chars().next();
            let sentence = &paragraph[..end];
            follows.is_some_and(char::is_whitespace)
                && !ABBREVIATIONS
                    .iter()
                    .any(|abbreviation| sentence.ends_with(abbreviation))
        })
        .map_or(paragraph, |end| &paragraph[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulldown_cmark::{Event, Options, Parser, Tag};

    /// The text of Markdown; absent where it has markup beside paragraphs and code.
    fn plain(markdown: &str) -> Option<String> {
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_FOOTNOTES;
        let mut text = String::new();
        for event in Parser::new_ext(markdown, options) {
            match event {
                Event::Text(words) => text.push_str(&words),
                Event::Code(words) => text.push_str(&format!("`{words}`")),
                Event::Start(Tag::Paragraph) | Event::End(_) => {}
                _ => return None,
            }
        }
        Some(text)
    }

    #[test]
    fn prose_has_no_markup_but_code() {
        for text in [
            "*x* and **y** [a](b) ![a](b) [a][b]",
            "<script>alert(1)</script> Vec<T> <!-- x --> <https://a.example>",
            "_x_ a_b_c _a b_ * * * ~~gone~~ ~x~",
            "a ` b `` c",
            "a `b` c",
            "``a`b`` and \\`c\\` &amp; &#42; R&D \\* \\ n",
            "# no heading",
            "- no item",
            "12. no item",
            "> no quotation",
            "a | b",
            "=== a",
            "---",
            "* no item",
            "*",
            "",
        ] {
            let shown = escape_paragraph(text);
            let expected = text.replace("``a`b``", "`a`b`");
            assert_eq!(plain(&shown).as_deref(), Some(expected.as_str()), "{shown}");
        }
    }

    #[test]
    fn code_holds_any_text() {
        for text in ["a", "a`b", "`", "``a`", "*a* <b>"] {
            assert_eq!(
                plain(&quote_code(text)),
                Some(format!("`{text}`")),
                "{}",
                quote_code(text)
            );
        }
        assert_eq!(
            escape_prose("see __init__.py, ~> 1.0 or ~> 2.0"),
            "see `__init__`.py, ~> 1.0 or ~> 2.0"
        );
        assert_eq!(cite_lines("src/__init__.py", &"1-2"), "src/__init__.py:1-2");
        assert_eq!(cite_lines("[a](b).md", &1), "`[a](b).md:1`");
    }

    #[test]
    fn a_sentence_ends_before_a_space_and_not_at_an_abbreviation() {
        assert_eq!(
            first_sentence("Reads a.b files, e.g. c. And more."),
            "Reads a.b files, e.g. c."
        );
        assert_eq!(first_sentence("No end"), "No end");
    }
}
