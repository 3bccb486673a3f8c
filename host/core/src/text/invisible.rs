//! Characters that a reader does not see, or that reorder visible text, and how they are shown.
//!
//! The user who approves a text must see all of it: `if access != "user\u{202e} …` looks like other code than it is,
//! and a word of tag characters is invisible. So questions, diffs and reports show each such character as `<U+202E>`.

use std::borrow::Cow;
use std::fmt::Write;

/// Marks, embeddings, overrides and isolates that change the order in which text is shown.
pub fn is_reordering(character: char) -> bool {
    matches!(u32::from(character), 0x61c | 0x200e..=0x200f | 0x202a..=0x202e | 0x2066..=0x2069)
}

/// The default-ignorable code points of Unicode, which are not displayed.
pub fn is_ignorable(character: char) -> bool {
    matches!(u32::from(character),
        0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
        | 0x202a..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfff8
        | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

/// True for a character that is invisible, controls a terminal, or reorders or ends a line; false for space, tab and
/// line feed.
pub fn is_invisible(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        // Ends of lines and paragraphs, the blank of Braille, annotations, the object replacement, a note head without a
        // shape.
        '\u{2028}' | '\u{2029}' | '\u{2800}' | '\u{fff9}'..='\u{fffc}' | '\u{1d159}' => true,
        _ => character.is_control() || is_ignorable(character),
    }
}

/// A text with its invisible characters by name, as `<U+202E>`. Borrows where there are none, which is nearly always.
///
/// A carriage return that ends a line together with a line feed stays, and so do joiners and variation selectors where
/// they shape what is seen: in an emoji, and between letters of Arabic, Indic and similar scripts.
pub fn reveal_invisible(text: &str) -> Cow<'_, str> {
    replace_unwanted(text, is_invisible, write_name)
}

/// Like [`reveal_invisible`], on one line: tabs and line ends are shown by name, too.
pub fn reveal_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in reveal_invisible(text).chars() {
        match character {
            '\t' | '\n' | '\r' => write_name(&mut line, character),
            other => line.push(other),
        }
    }
    line
}

/// Like [`reveal_invisible`], but leaves control characters alone: for a text from which [`super::clean_text`] removes them.
pub fn reveal_marks(text: &str) -> Cow<'_, str> {
    let is_mark = |character: char| is_invisible(character) && !character.is_control();
    replace_unwanted(text, is_mark, write_name)
}

/// A text without its invisible characters, except for those that [`reveal_invisible`] keeps.
pub fn without_invisible(text: &str) -> Cow<'_, str> {
    replace_unwanted(text, is_invisible, |_, _| {})
}

/// Like [`reveal_invisible`], for bytes that may not be UTF-8: a byte outside of any character becomes `<0xFF>`.
pub fn reveal_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&reveal_invisible(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(shown, "<0x{byte:02X}>");
        }
    }
    shown
}

/// True where every character of a text can be seen, or is a tab or an end of a line.
pub fn is_visible(text: &str) -> bool {
    matches!(reveal_invisible(text), Cow::Borrowed(_))
}

fn write_name(shown: &mut String, character: char) {
    let _ = write!(shown, "<U+{:04X}>", u32::from(character));
}

/// Applies `replace` to the unwanted characters that do not shape visible text.
fn replace_unwanted(
    text: &str,
    is_unwanted: impl Fn(char) -> bool,
    replace: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    // Start of the part that is not copied yet.
    let (mut shown, mut rest) = (String::new(), 0);
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        if is_unwanted(character) && !is_shaping(before, character, text[end..].chars().next()) {
            shown.push_str(&text[rest..at]);
            replace(&mut shown, character);
            rest = end;
            before = ' ';
        } else {
            before = character;
        }
    }
    if rest == 0 {
        return Cow::Borrowed(text);
    }
    shown.push_str(&text[rest..]);
    Cow::Owned(shown)
}

/// True for a character that shapes its visible neighbours.
fn is_shaping(before: char, character: char, after: Option<char>) -> bool {
    let after = after.unwrap_or(' ');
    match character {
        '\r' => after == '\n',
        '\u{fe0e}' | '\u{fe0f}' => is_symbol(before) || after == '\u{20e3}',
        '\u{200d}' if is_symbol(after) => is_symbol(before) || before == '\u{fe0f}',
        '\u{200c}' | '\u{200d}' => is_joined_script(before) && is_joined_script(after),
        _ => false,
    }
}

/// Symbols and emoji, with their skin tones.
fn is_symbol(character: char) -> bool {
    matches!(u32::from(character),
        0xa9 | 0xae | 0x203c | 0x2049 | 0x2100..=0x27ff | 0x2900..=0x2bff | 0x3030 | 0x303d | 0x3297 | 0x3299
        | 0x1f000..=0x1faff)
}

/// Letters and signs of scripts in which a joiner, or its counterpart, changes the form of its neighbours.
fn is_joined_script(character: char) -> bool {
    matches!(u32::from(character), 0x620..=0x10ff | 0x1780..=0x17b3 | 0x17b6..=0x180a | 0x1820..=0x18aa)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unseen_character_has_a_name() {
        for (text, shown) in [
            (
                "if x \u{202e}} \u{2066}// a\u{2069}",
                "if x <U+202E>} <U+2066>// a<U+2069>",
            ),
            ("a\u{200b}b\u{e0041}", "a<U+200B>b<U+E0041>"),
            ("var\u{3164} = 1\n\tx", "var<U+3164> = 1\n\tx"),
            ("\u{feff}using", "<U+FEFF>using"),
            ("a\u{1b}[2Jb\rc\u{0}\u{9b}", "a<U+001B>[2Jb<U+000D>c<U+0000><U+009B>"),
            ("a\u{200d}b\u{fe0f}", "a<U+200D>b<U+FE0F>"),
            ("\u{627}\u{200c}\u{200c}\u{628}", "\u{627}<U+200C><U+200C>\u{628}"),
            ("🦀\u{fe0f}\u{fe0f}", "🦀\u{fe0f}<U+FE0F>"),
        ] {
            assert_eq!(reveal_invisible(text), shown);
        }
        assert_eq!(reveal_line("a\tb\r\n\u{200b}"), "a<U+0009>b<U+000D><U+000A><U+200B>");
        assert_eq!(without_invisible("a\u{200b}b\u{e0041}❤\u{fe0f}"), "ab❤\u{fe0f}");
        assert_eq!(reveal_marks("\u{1b}[31m\u{202e}"), "\u{1b}[31m<U+202E>");
        assert_eq!(reveal_bytes(b"a\xff\0\xe2\x80\xaeb"), "a<0xFF><U+0000><U+202E>b");
    }

    #[test]
    fn ordinary_text_of_all_scripts_stays_as_it_is() {
        for text in [
            "grüße 漢字 🦀 ❤\u{fe0f} 👩\u{200d}💻 🏳\u{fe0f}\u{200d}🌈 1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم क\u{94d}\u{200d}ष",
            "a\tb\r\nc\n",
        ] {
            assert!(is_visible(text), "{}", reveal_invisible(text));
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_seen_and_nothing_is_dropped(
            text in "([a-z\\n]|[\\x00-\\x1f\\x{9b}]|[\\x{200b}-\\x{200f}\\x{202a}-\\x{202e}\\x{e0041}]|❤|\\x{fe0f}|ی|\\PC){0,40}",
        ) {
            let shown = reveal_invisible(&text);
            prop_assert!(is_visible(&shown), "{shown:?}");
            prop_assert_eq!(hidden_again(&shown), text);
        }
    }

    /// The text of which a text without `<U+` is what [`reveal`] shows.
    fn hidden_again(shown: &str) -> String {
        let mut pieces = shown.split("<U+");
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (number, rest) = piece.split_once('>').expect("a name ends");
            let code = u32::from_str_radix(number, 16).expect("it is hexadecimal");
            text.push(char::from_u32(code).expect("it is a character"));
            text.push_str(rest);
        }
        text
    }
}
