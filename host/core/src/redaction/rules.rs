//! The redaction rules: the form of each kind of key, and exceptions. `rules.toml` holds them with their sources and
//! examples.
//!
//! One pass of one automaton finds the anchors: short texts that every match of a rule contains. A rule is tried only
//! at its anchors, on a window of bounded length, so the time grows with the text and not with the number of rules.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, Match};
use regex::Regex;
use serde::Deserialize;

use super::assignment::{self, AssignedValue};
use super::{START, manifest, pem, randomness};
use crate::redaction::REDACTION_KEY_BYTES_MAX;

/// Bytes after an anchor in which a rule's pattern is tried. The longest key of bounded length has 300. A key that
/// continues beyond the window is extended to its end.
const REDACTION_WINDOW_BYTES: usize = 640;

/// One rule, as `rules.toml` describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RedactionRule {
    pub(super) name: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and tests"))]
    pub(super) source: String,
    anchors: Vec<String>,
    #[serde(default)]
    by: DetectionMethod,
    #[serde(default)]
    pattern: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    back: usize,
    #[serde(default)]
    is_word: bool,
    #[serde(default)]
    check: ValueCheck,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and tests"))]
    pub(super) hit: Vec<String>,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and tests"))]
    pub(super) miss: Vec<String>,
    /// The compiled pattern or form of the value. It is compiled at the first anchor: most texts have few anchors.
    #[serde(skip)]
    compiled: OnceLock<Regex>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum DetectionMethod {
    #[default]
    Pattern,
    Armour,
    Manifest,
    Cookie,
    Name,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum ValueCheck {
    #[default]
    Sample,
    Random,
    Mixed,
    Password,
    Secret,
    Passphrase,
}

impl ValueCheck {
    /// False for a string that has the form of a key but is not one.
    fn passes(self, text: &str) -> bool {
        match self {
            ValueCheck::Sample => randomness::is_no_sample(text),
            ValueCheck::Random => randomness::has_random(text),
            ValueCheck::Mixed => randomness::is_random_mixed(text),
            ValueCheck::Password => randomness::is_password(text),
            ValueCheck::Secret => text.len() >= assignment::SECRET_BYTES_MIN && randomness::has_random(text),
            ValueCheck::Passphrase => randomness::is_passphrase(text),
        }
    }
}

impl RedactionRule {
    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            let whole;
            let pattern = match self.by {
                DetectionMethod::Name => {
                    whole = format!("^(?:{})$", self.value);
                    &whole
                }
                _ => &self.pattern,
            };
            Regex::new(pattern).expect("the patterns are valid, a test compiles each")
        })
    }
}

/// All rules. If two find overlapping keys, the earlier place wins, then the longer key, then the earlier rule.
pub(super) static RULES: LazyLock<Vec<RedactionRule>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        rule: Vec<RedactionRule>,
    }
    let file: File = toml::from_str(include_str!("rules.toml")).expect("the file is valid, a test reads it");
    file.rule
});

/// A place that looks like a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleMatch {
    pub(super) range: Range<usize>,
    /// Index in [`RULES`].
    pub(super) rule: usize,
    /// False for a further line of the key that began at the previous match.
    pub(super) is_first: bool,
}

/// Set of enabled rules, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EnabledRules(u64);

impl EnabledRules {
    pub(super) fn all() -> Self {
        Self(u64::MAX)
    }

    pub(super) fn none() -> Self {
        Self(0)
    }

    /// All rules except the named ones; `all` names every rule. The error is the first unknown name.
    pub(super) fn without(names: &[String]) -> Result<Self, &String> {
        let mut bits = u64::MAX;
        for name in names {
            let is_meant = |rule: &RedactionRule| name == "all" || rule.name == *name;
            let meant = RULES.iter().enumerate().filter(|(_, rule)| is_meant(rule));
            let off = meant.fold(0, |off, (at, _)| off | 1 << at);
            if off == 0 {
                return Err(name);
            }
            bits &= !off;
        }
        Ok(Self(bits))
    }

    fn has(self, rule: usize) -> bool {
        self.0 >> rule & 1 == 1
    }
}

/// Index of the first rule with this name, which must exist.
pub(super) fn named_index(name: &str) -> usize {
    let at = RULES.iter().position(|rule| rule.name == name);
    at.expect("the name is one of the table")
}

pub(super) fn rule_name(rule: usize) -> &'static str {
    &RULES[rule].name
}

/// The names of the rules, each once.
pub(super) fn rule_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for rule in RULES.iter() {
        if !names.contains(&rule.name.as_str()) {
            names.push(&rule.name);
        }
    }
    names
}

/// The automaton over all anchors, with the rule of each.
struct AnchorAutomaton {
    automaton: AhoCorasick,
    rules: Vec<usize>,
}

static ANCHORS: LazyLock<AnchorAutomaton> = LazyLock::new(|| {
    let pairs = RULES
        .iter()
        .enumerate()
        .flat_map(|(at, rule)| rule.anchors.iter().map(move |anchor| (anchor.as_str(), at)));
    let (anchors, rules): (Vec<&str>, Vec<usize>) = pairs.unzip();
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(anchors);
    AnchorAutomaton {
        automaton: automaton.expect("the anchors are few and short"),
        rules,
    }
});

/// Bytes of a text between two checks of `is_wanted`; a slice takes some milliseconds.
const SLICE_BYTES: usize = 64 * 1024;

/// The places of a text that look like keys, in order and without overlap.
pub(super) fn find_keys(text: &str, enabled: EnabledRules) -> Vec<RuleMatch> {
    let all = find_while(text, enabled, &|| true);
    all.expect("nobody stops it")
}

/// Like [`find_keys`], but calls `is_wanted` for each slice of the text and returns `None` once that is false.
pub(super) fn find_while(text: &str, enabled: EnabledRules, is_wanted: &dyn Fn() -> bool) -> Option<Vec<RuleMatch>> {
    let anchors = &*ANCHORS;
    let mut found: Vec<RuleMatch> = Vec::new();
    // For each rule: the text up to here is known to hold no further key.
    let mut judged = vec![0; RULES.len()];
    for hit in find_anchors(text, is_wanted) {
        let hit = hit?;
        let index = anchors.rules[hit.pattern().as_usize()];
        // Anchors inside a key belong to that key.
        if found
            .last()
            .is_some_and(|last| last.range.start < hit.start() && hit.start() < last.range.end)
        {
            continue;
        }
        let rule = &RULES[index];
        let place = |range, is_first| RuleMatch {
            range,
            rule: index,
            is_first,
        };
        match rule.by {
            DetectionMethod::Name if hit.start() >= judged[index] => match assignment::value_of(text, hit.range()) {
                AssignedValue::Found(range) if is_key(rule, text, &range) => found.push(place(range, true)),
                AssignedValue::Endless(end) => judged[index] = hit.end() + (end - hit.end()) / 2,
                _ => {}
            },
            DetectionMethod::Armour if is_wanted() => {
                let lines = pem::find_key_lines(text, hit.start()).into_iter().enumerate();
                found.extend(lines.map(|(at, range)| place(range, at == 0)));
            }
            DetectionMethod::Manifest if is_wanted() && hit.start() >= judged[index] => {
                let (values, end) = manifest::find_values(text, hit.range());
                judged[index] = end;
                found.extend(values.into_iter().map(|range| place(range, true)));
            }
            DetectionMethod::Cookie => {
                let values = assignment::find_cookie_values(text, hit.end());
                found.extend(values.into_iter().map(|range| place(range, true)));
            }
            DetectionMethod::Pattern if hit.start() >= judged[index] => {
                if rule.is_word && rule.back == 0 && is_inside_word(&text.as_bytes()[..hit.start()]) {
                    continue;
                }
                if !is_wanted() {
                    return None;
                }
                match key_at(text, hit.start(), rule) {
                    AnchorOutcome::Key(range) => found.push(place(range, true)),
                    // The anchors in this window would be tried on nearly the same text.
                    AnchorOutcome::Run(window) => judged[index] = window.start + window.len() / 2,
                    AnchorOutcome::Nothing => {}
                }
            }
            _ => {}
        }
    }
    found.sort_by_key(|found| (found.range.start, std::cmp::Reverse(found.range.end), found.rule));
    let mut end = 0;
    found.retain(|found| {
        let is_apart = found.range.start >= end;
        end = end.max(found.range.end);
        // Text that matches a disabled rule is not tried with other rules.
        is_apart && enabled.has(found.rule)
    });
    Some(found)
}

/// True if the value is a key by this rule.
fn is_key(rule: &RedactionRule, text: &str, range: &Range<usize>) -> bool {
    let value = &text[range.clone()];
    rule.check.passes(value) && (rule.value.is_empty() || rule.regex().is_match(value))
}

/// The end of every anchor of a text, as one search would find them; `None` for a slice during which `is_wanted` is
/// false.
fn find_anchors(text: &str, is_wanted: &dyn Fn() -> bool) -> impl Iterator<Item = Option<Match>> {
    let anchors = &ANCHORS.automaton;
    let starts = (0..text.len()).step_by(SLICE_BYTES);
    starts.flat_map(move |start| {
        let end = text.len().min(start + SLICE_BYTES);
        // A match across slices belongs to the one in which it ends.
        let before = start.saturating_sub(anchors.max_pattern_len());
        let input = Input::new(text).range(before..end);
        let wanted = is_wanted().then(|| anchors.find_overlapping_iter(input));
        let hits = wanted.map(|hits| hits.filter(move |hit| hit.end() > start));
        let stop = hits.is_none().then_some(None);
        hits.into_iter().flatten().map(Some).chain(stop)
    })
}

/// Result of trying a rule at an anchor.
enum AnchorOutcome {
    Key(Range<usize>),
    /// Not a key, but it fills the window.
    Run(Range<usize>),
    Nothing,
}

/// Tries the rule's pattern at an anchor.
fn key_at(text: &str, anchor: usize, rule: &RedactionRule) -> AnchorOutcome {
    let mut from = anchor.saturating_sub(rule.back);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    if rule.is_word && is_inside_word(&text.as_bytes()[..from]) {
        return AnchorOutcome::Nothing;
    }
    let window = &text[from..text.floor_char_boundary(from + REDACTION_WINDOW_BYTES)];
    let Some(key) = rule
        .regex()
        .captures(window)
        .and_then(|found| found.iter().skip(1).flatten().next())
    else {
        return AnchorOutcome::Nothing;
    };
    let start = from + key.start();
    let mut end = from + key.end();
    let is_long = key.end() == window.len();
    if text[start..].starts_with(START) || !rule.check.passes(&text[start..end]) {
        return if is_long {
            AnchorOutcome::Run(start..end)
        } else {
            AnchorOutcome::Nothing
        };
    }
    if is_long {
        // The key is longer than the window.
        let more = text[end..].bytes().take(REDACTION_KEY_BYTES_MAX);
        end += more.take_while(|byte| is_key_byte(*byte)).count();
    }
    AnchorOutcome::Key(start..end)
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./+=~%".contains(&byte)
}

/// True if the next character would continue a word. A letter of an escape (`\n`, `%3D`, `\x22`, `\u0022`, `␛[32m`)
/// does not count.
fn is_inside_word(before: &[u8]) -> bool {
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => false,
        [.., b'%', a, b] if is_hex(&[*a, *b]) => false,
        [.., b'\\', b'x', a, b] if is_hex(&[*a, *b]) => false,
        [.., b'\\', b'u', a, b, c, d] if is_hex(&[*a, *b, *c, *d]) => false,
        [rest @ .., b'm'] if is_colour(rest) => false,
        [.., last] => last.is_ascii_alphanumeric() || *last == b'_',
        [] => false,
    }
}

/// True if the bytes end in a terminal's colour code without its `m`: `[` and numbers.
fn is_colour(before: &[u8]) -> bool {
    let numbers = before.iter().rev().take(12);
    let count = numbers
        .take_while(|byte| byte.is_ascii_digit() || **byte == b';')
        .count();
    before[..before.len() - count].last() == Some(&b'[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_an_escape_are_no_word() {
        for before in [&b"a"[..], b"_", b"%3g", b"%g3", b"x3d", b"\\u002", b"32m", b"arm"] {
            assert!(is_inside_word(before), "{}", before.escape_ascii());
        }
        for before in [
            &b""[..],
            b" ",
            b"-",
            b"%3D",
            b"\\n",
            b"\\x22",
            b"\\u0022",
            b"\x1b[1;32m",
            b"[m",
        ] {
            assert!(!is_inside_word(before), "{}", before.escape_ascii());
        }
    }

    #[test]
    fn every_rule_can_be_read_compiled_and_switched_off() {
        assert!(RULES.len() <= 64, "`Enabled` has a bit for each rule");
        for rule in RULES.iter() {
            let is_lower = |anchor: &String| !anchor.is_empty() && *anchor == anchor.to_ascii_lowercase();
            assert!(rule.anchors.iter().all(is_lower), "{:?}", rule.anchors);
            assert_eq!(
                rule.by == DetectionMethod::Pattern,
                !rule.pattern.is_empty(),
                "{}",
                rule.name
            );
            assert!(
                !rule.source.is_empty() && !rule.hit.is_empty() && !rule.miss.is_empty(),
                "{}",
                rule.name
            );
            rule.regex();
        }
    }

    #[test]
    fn a_key_is_of_letters_digits_and_some_signs() {
        assert!(b"aZ0_-./+=~%".iter().all(|&byte| is_key_byte(byte)));
        assert!(!b" \"'$,;:".iter().any(|&byte| is_key_byte(byte)));
    }
}
