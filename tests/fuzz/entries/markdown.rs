//! Hostile Markdown: the output depends on the text alone, and steers no terminal.

use super::{Markdown, Terminal};

/// Widths that are common, that are narrow, and that are too narrow for anything.
const WIDTHS: [usize; 4] = [80, 40, 10, 1];

/// Asserts that the pieces of the text do not matter, and that no escape but our own is written.
pub(crate) fn markdown(bytes: &[u8]) {
    let (choice, bytes) = bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest));
    let text = String::from_utf8_lossy(bytes);
    let terminal = Terminal {
        width: WIDTHS[usize::from(choice) % WIDTHS.len()],
        colour: choice & 4 != 0,
    };
    let whole = written(terminal, [&*text]);
    let characters: Vec<String> = text.chars().map(String::from).collect();
    assert_eq!(
        written(terminal, characters.iter().map(String::as_str)),
        whole,
        "the pieces must not matter"
    );
    let rest = if terminal.colour { without_styles(&whole) } else { whole };
    let is_plain = |char: char| !char.is_control() || matches!(char, '\n' | '\t');
    assert!(rest.chars().all(is_plain), "{rest:?} steers a terminal");
}

fn written<'a>(terminal: Terminal, pieces: impl IntoIterator<Item = &'a str>) -> String {
    let mut markdown = Markdown::new(terminal);
    let mut out: String = pieces.into_iter().map(|piece| markdown.push(piece)).collect();
    out.push_str(&markdown.finish());
    out
}

/// Without `ESC [ digits m`, which is all that we write.
fn without_styles(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|char: char| char.is_ascii_digit() || char == ';');
        plain.push_str(rest.strip_prefix('m').expect("a style ends in m"));
    }
    plain
}
