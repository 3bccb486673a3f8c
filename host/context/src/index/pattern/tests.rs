//! Questions of patterns, and the proof that no text that matches is ever left out.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn pattern(text: &str, ignores_case: bool) -> SearchPattern {
    SearchPattern {
        kind: PatternKind::Regex,
        text: text.to_owned(),
        ignores_case,
    }
}

/// A question in words: `&` before `|`.
fn written(query: &TrigramQuery) -> String {
    let text = |trigram: &Trigram| trigram.to_be_bytes()[1..].escape_ascii().to_string();
    match query {
        TrigramQuery::All => "all".to_owned(),
        TrigramQuery::And(trigrams, parts) => {
            let parts = parts.iter().map(|part| format!("({})", written(part)));
            trigrams.iter().map(text).chain(parts).collect::<Vec<_>>().join(" & ")
        }
        TrigramQuery::Or(parts) => parts.iter().map(written).collect::<Vec<_>>().join(" | "),
    }
}

fn asked(text: &str, ignores_case: bool) -> String {
    written(&TrigramQuery::new(&[pattern(text, ignores_case)]))
}

#[test]
fn literals_and_runs_are_asked_for() {
    let cases = [
        ("needle", "dle & edl & eed & nee"),
        (r"\bfn needle\(", r" ne & dle & edl & eed & fn  & le( & n n & nee"),
        ("abc|xyz", "abc | xyz"),
        ("(abc|xyz)d", "abc & bcd | xyz & yzd"),
        ("ab[cd]e", "abc & bce | abd & bde"),
        ("abc.*xyz", "abc & xyz"),
        ("a.c", "all"),
        ("ab", "all"),
        ("abc|d", "all"),
        ("^abc$", "abc"),
        ("(?:abc)+d", "abc & bcd"),
        ("(abc)?def", "abc & bcd & cde & def | def"),
        ("abc{2}d", "abc & bcc & ccd"),
        ("x[0-9a-fA-F]+y", "all"),
        ("ab[a-z]cde", "cde"),
        (r"a\nbcd", "bcd"),
        ("(?-u)ab\\xC5", "all"),
        (r"[^\s\S]abc", ""),
    ];
    for (pattern, expected) in cases {
        assert_eq!(asked(pattern, false), expected, "{pattern}");
    }
}

#[test]
fn letters_are_folded_with_case_or_without() {
    assert_eq!(asked("ABC", false), "abc");
    assert_eq!(asked("ABC", true), "abc");
    assert_eq!(asked("ask", true), "ask");
    assert_eq!(asked("aſ\u{212A}b", false), "ask & skb");
    let both = r"\x9cxy & \xc3\x9cx | \xbcxy & \xc3\xbcx";
    assert_eq!(asked("Üxy", true), both);
}

#[test]
fn many_texts_are_cut_and_a_wrong_pattern_asks_for_nothing() {
    let long = "(a|b|c)".repeat(12);
    assert!(asked(&long, false).len() > 3);
    assert_eq!(asked("a(b", false), "all");
    let literal = SearchPattern {
        kind: PatternKind::Literal,
        ..pattern("a(bc", false)
    };
    assert_eq!(written(&TrigramQuery::new(&[literal])), "(bc & a(b");
    assert_eq!(written(&TrigramQuery::new(&[])), "");
    let large = format!("({}){{9}}", "[abc]".repeat(200));
    let _ = asked(&large, false);
}

/// Expressions over few letters, so that they match now and then.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => "[abkKsSſK]{1,4}",
        1 => Just(".".to_owned()),
        1 => Just(r"\b".to_owned()),
        1 => Just("^".to_owned()),
        1 => Just("$".to_owned()),
        1 => "\\[[abksſ]{1,3}\\]",
        1 => Just("[^a]".to_owned()),
        1 => Just(r"\w".to_owned()),
        1 => Just(r"(?-u:\xC5)".to_owned()),
        1 => Just(r"(?-u:\xBF)".to_owned()),
        1 => Just(r"(?-u:\xAA)".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            3 => proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            2 => proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => (inner.clone(), prop_oneof![Just("*"), Just("+"), Just("?"), Just("{2}"), Just("{1,3}"), Just("{9,}")])
                .prop_map(|(part, times)| format!("(?:{part}){times}")),
            1 => inner.prop_map(|part| format!("(?i:{part})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn a_text_that_matches_is_never_left_out(
        pattern in expression(),
        ignores_case in any::<bool>(),
        lines in proptest::collection::vec("[abkKsSſK ]{0,12}", 1..4),
    ) {
        let regex = regex::bytes::RegexBuilder::new(&pattern)
            .multi_line(true)
            .crlf(true)
            .case_insensitive(ignores_case)
            .build();
        prop_assume!(regex.is_ok());
        let regex = regex.expect("it was checked");
        let query = TrigramQuery::new(&[self::pattern(&pattern, ignores_case)]);
        let text = lines.join("\n");
        let mut trigrams = BTreeSet::new();
        each_trigram(text.as_bytes(), |trigram| { trigrams.insert(trigram); });
        let matches = text.as_bytes().split(|&byte| byte == b'\n').any(|line| regex.is_match(line));
        prop_assert!(!matches || query.holds(&trigrams), "{}", written(&query));
    }
}
