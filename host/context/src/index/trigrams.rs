//! Trigrams: sequences of three bytes of a text. A search uses them to rule out files.
//!
//! Case is folded first, so that one index serves searches with and without case. ASCII letters become lower case. The
//! two other characters that match an ASCII letter without case (`ſ` and the Kelvin sign) become that letter. No
//! trigram spans a line feed, because no match does.

/// Three folded bytes, the first one highest.
pub(super) type Trigram = u32;

/// Bytes of `ſ` (long s), which matches `s` without case.
const LONG_S: [u8; 2] = [0xC5, 0xBF];

/// Bytes of the Kelvin sign, which matches `k` without case.
const KELVIN: [u8; 3] = [0xE2, 0x84, 0xAA];

/// Calls `visit` with each trigram of a text, as often as it occurs.
pub(super) fn each_trigram(text: &[u8], mut visit: impl FnMut(Trigram)) {
    let (mut window, mut length, mut at) = (0, 0, 0);
    while let Some(&byte) = text.get(at) {
        let (folded, width) = match byte {
            b'\n' => {
                (length, at) = (0, at + 1);
                continue;
            }
            0xC5 if text[at..].starts_with(&LONG_S) => (b's', 2),
            0xE2 if text[at..].starts_with(&KELVIN) => (b'k', 3),
            _ => (byte.to_ascii_lowercase(), 1),
        };
        at += width;
        length += 1;
        window = (window << 8 | Trigram::from(folded)) & 0xFF_FFFF;
        if length >= 3 {
            visit(window);
        }
    }
}

/// A character with the case folding of the index.
pub(super) fn fold_character(character: char) -> char {
    match character {
        'ſ' => 's',
        '\u{212A}' => 'k',
        other => other.to_ascii_lowercase(),
    }
}

/// The part of a searched text whose trigrams do not depend on the bytes around it. An incomplete `ſ` or Kelvin sign at
/// either end is cut off: with the missing bytes, case folding would replace it.
pub(super) fn without_cut_characters(text: &[u8]) -> &[u8] {
    let end = (1..KELVIN.len()).rev().find(|&cut| text.ends_with(&KELVIN[..cut]));
    let end = end.or_else(|| text.ends_with(&LONG_S[..1]).then_some(1)).unwrap_or(0);
    let text = &text[..text.len() - end];
    let start = (1..KELVIN.len()).find(|&cut| text.starts_with(&KELVIN[cut..]));
    let start = start.map(|cut| KELVIN.len() - cut);
    let start = start
        .or_else(|| text.starts_with(&LONG_S[1..]).then_some(1))
        .unwrap_or(0);
    &text[start..]
}

/// Words of 64 bits in a bit set of all trigrams.
const WORDS: usize = (1 << 24) / 64;

/// Collects the distinct trigrams of a text in a bit set. It takes 2 MiB, so it is reused for many texts.
#[derive(Debug)]
pub(super) struct TrigramCollector {
    words: Box<[u64]>,
    /// One bit for each word, set if the word is not zero.
    summary: Box<[u64]>,
}

impl TrigramCollector {
    pub(super) fn new() -> Self {
        Self {
            words: vec![0; WORDS].into(),
            summary: vec![0; WORDS / 64].into(),
        }
    }

    /// The distinct trigrams of a text, ascending.
    pub(super) fn collect(&mut self, text: &[u8], mut visit: impl FnMut(Trigram)) {
        let (words, summary) = (&mut self.words, &mut self.summary);
        each_trigram(text, |trigram| {
            let word = trigram as usize / 64;
            words[word] |= 1 << (trigram % 64);
            summary[word / 64] |= 1 << (word % 64);
        });
        for (at, marks) in self.summary.iter_mut().enumerate() {
            while *marks != 0 {
                let word = at * 64 + marks.trailing_zeros() as usize;
                *marks &= *marks - 1;
                let mut bits = std::mem::take(&mut self.words[word]);
                while bits != 0 {
                    visit(word as Trigram * 64 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn trigrams(text: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        each_trigram(text, |trigram| {
            let bytes = &trigram.to_be_bytes()[1..];
            found.push(bytes.escape_ascii().to_string());
        });
        found
    }

    #[test]
    fn letters_are_folded_and_no_trigram_spans_a_line_feed() {
        assert_eq!(trigrams(b"aBc d"), ["abc", "bc ", "c d"]);
        assert_eq!(trigrams(b"ab\ncde\nf"), ["cde"]);
        assert_eq!(trigrams("aſ\u{212A}b".as_bytes()), ["ask", "skb"]);
        assert_eq!(trigrams("é!".as_bytes()), [r"\xc3\xa9!"]);
    }

    #[test]
    fn characters_that_a_border_cuts_are_left_out() {
        let kept = |text: &[u8]| without_cut_characters(text).to_vec();
        assert_eq!(kept(b"ab\xC5"), b"ab");
        assert_eq!(kept(b"ab\xE2"), b"ab");
        assert_eq!(kept(b"ab\xE2\x84"), b"ab");
        assert_eq!(kept(b"\xBFab"), b"ab");
        assert_eq!(kept(b"\xAAab"), b"ab");
        assert_eq!(kept(b"\x84\xAAab"), b"ab");
        assert_eq!(kept("ſab\u{212A}".as_bytes()), "ſab\u{212A}".as_bytes());
        assert_eq!(kept(b"\xC5"), b"");
    }

    proptest! {
        #[test]
        fn a_collector_finds_each_trigram_once_and_in_order(texts in proptest::collection::vec("[a-cſK\\n]{0,30}", 1..4)) {
            let mut collector = TrigramCollector::new();
            for text in texts {
                let (mut once, mut all) = (Vec::new(), BTreeSet::new());
                collector.collect(text.as_bytes(), |trigram| once.push(trigram));
                each_trigram(text.as_bytes(), |trigram| { all.insert(trigram); });
                prop_assert_eq!(once, all.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
