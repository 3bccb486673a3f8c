//! Lines for a narrow terminal, broken at white space: the terminal itself would break them within a word.

use unicode_width::UnicodeWidthStr;

/// A terminal of as many columns shows a line as it is: a copied command then has no line break in it.
const WIDE_COLUMNS: usize = 80;

/// Further lines are set in by this much more than the first.
const INDENT: usize = 2;

/// Breaks the lines that are longer than a narrow terminal. A longer word gets its own line.
pub(super) fn fold_lines(text: &str, columns: usize) -> String {
    if columns >= WIDE_COLUMNS {
        return text.to_owned();
    }
    let lines: Vec<String> = text.split('\n').map(|line| fold_line(line, columns)).collect();
    lines.join("\n")
}

fn fold_line(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let start = line.len() - line.trim_start().len();
    let indent = " ".repeat(start + INDENT);
    let (mut folded, mut width) = (line[..start].to_owned(), start);
    // A run of blanks separates columns of a table, and stays unless the line is broken there.
    for (number, word) in line[start..].split_inclusive(' ').enumerate() {
        if number > 0 && width + word.trim_end().width() > columns {
            folded.truncate(folded.trim_end().len());
            folded.push('\n');
            folded.push_str(&indent);
            width = indent.len();
        }
        folded.push_str(word);
        width += word.width();
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_breaks_between_words_and_the_rest_is_set_in() {
        let text = "one two three four\n   1  analyst   no model, no key\nshort\n";
        let expected = "one two three four\n   1  analyst   no\n     model, no key\nshort\n";
        assert_eq!(fold_lines(text, 18), expected);
        assert_eq!(fold_lines("one two three four", 14), "one two three\n  four");
        assert_eq!(fold_lines("a 0123456789abcdef b", 10), "a\n  0123456789abcdef\n  b");
        assert_eq!(fold_lines(&"word ".repeat(40), 100), "word ".repeat(40));
    }
}
