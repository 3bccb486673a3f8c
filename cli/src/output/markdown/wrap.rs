//! Styled text in lines of a width: a word is never broken, and no text is dropped.

use unicode_width::UnicodeWidthStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) width: usize,
    /// True if styles may be used; otherwise marks replace them.
    pub(crate) colour: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TextStyle {
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) code: bool,
    pub(super) dim: bool,
    pub(super) added: bool,
    pub(super) removed: bool,
}

/// A piece of text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StyledText {
    pub(super) text: String,
    pub(super) style: TextStyle,
}

/// A line, without its newline.
pub(super) type StyledLine = Vec<StyledText>;

impl StyledText {
    pub(super) fn new(text: impl Into<String>, style: TextStyle) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, TextStyle::default())
    }
}

/// Columns that spans take.
pub(super) fn span_width(spans: &[StyledText]) -> usize {
    spans.iter().map(|span| span.text.width()).sum()
}

pub(super) fn longest_word(spans: &[StyledText]) -> usize {
    split_words(spans)
        .iter()
        .flatten()
        .map(|word| span_width(word))
        .max()
        .unwrap_or(0)
}

/// Breaks spans into lines of at most `columns`, at white space. A longer word gets its own line.
pub(super) fn wrap_spans(spans: &[StyledText], columns: usize) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for paragraph in split_words(spans) {
        let mut line = StyledLine::new();
        let mut taken = 0;
        for word in paragraph {
            let needed = span_width(&word);
            if taken > 0 && taken + 1 + needed > columns {
                lines.push(std::mem::take(&mut line));
                taken = 0;
            } else if taken > 0 {
                let style = |span: Option<&StyledText>| span.map(|span| span.style).unwrap_or_default();
                let (before, after) = (style(line.last()), style(word.first()));
                line.push(StyledText::new(
                    " ",
                    if before == after { before } else { TextStyle::default() },
                ));
                taken += 1;
            }
            line.extend(word);
            taken += needed;
        }
        lines.push(line);
    }
    lines
}

/// The words between hard line breaks; a word may change its style within.
fn split_words(spans: &[StyledText]) -> Vec<Vec<StyledLine>> {
    let mut paragraphs = vec![Vec::new()];
    let mut word = StyledLine::new();
    for span in spans {
        let mut text = String::new();
        for character in span.text.chars() {
            if !is_break(character) {
                text.push(character);
                continue;
            }
            if !text.is_empty() {
                word.push(StyledText::new(std::mem::take(&mut text), span.style));
            }
            let paragraph = paragraphs.last_mut().expect("there is always one");
            if !word.is_empty() {
                paragraph.push(std::mem::take(&mut word));
            }
            if character == '\n' {
                paragraphs.push(Vec::new());
            }
        }
        if !text.is_empty() {
            word.push(StyledText::new(text, span.style));
        }
    }
    if !word.is_empty() {
        paragraphs.last_mut().expect("there is always one").push(word);
    }
    paragraphs
}

/// White space at which a line may be broken, without no-break spaces.
fn is_break(character: char) -> bool {
    character.is_whitespace() && !matches!(character, '\u{a0}' | '\u{202f}' | '\u{2007}')
}

/// A line as the terminal gets it, without spaces at its end.
pub(super) fn write_line(line: &StyledLine, colour: bool, out: &mut String) {
    let mut written = String::new();
    for spans in line.chunk_by(|one, other| one.style == other.style) {
        let codes = style_codes(spans[0].style);
        let text: String = spans.iter().map(|span| span.text.as_str()).collect();
        if !colour || codes.is_empty() || text.trim().is_empty() {
            written.push_str(&text);
        } else {
            written.push_str(&format!("\x1b[{codes}m{text}\x1b[0m"));
        }
    }
    out.push_str(written.trim_end());
    out.push('\n');
}

fn style_codes(style: TextStyle) -> String {
    let codes = [
        (style.bold, "1"),
        (style.dim, "2"),
        (style.italic, "3"),
        (style.code, "36"),
        (style.added, "32"),
        (style.removed, "31"),
    ];
    let on: Vec<&str> = codes.into_iter().filter_map(|(on, code)| on.then_some(code)).collect();
    on.join(";")
}
