//! The memory of one session: the placeholder of each key, where the key was seen, and whether it may be put back.
//!
//! It is never shown; its debug form contains only the number of keys. A later turn of the same conversation must give
//! the same key the same placeholder, so fingerprints of the keys may be stored, but never the keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::rules::{self, EnabledRules, RULES, RuleMatch};
use super::units::TextUnits;
use super::{START, replace_places, write_placeholder};
use crate::api::{ErrorKind, Problem};
use crate::digest::sha256_hex;
use crate::limits;
use crate::redaction::{REDACTION_KEY_BYTES_MAX, REDACTION_KEY_LINES_MAX};

/// Files that a session names as places of redacted keys. A notice with more is not read.
pub(crate) const REDACTION_FILES_NAMED_MAX: usize = 32;

/// Shorter keys are replaced only where a rule finds them: four letters occur within many words.
const LITERAL_BYTES_MIN: usize = 16;

/// The rule whose name is used for keys of the configuration.
const OWN: &str = "model-api-key";

/// A placeholder as a model writes it: the name of a rule, and a number if the key can be put back.
static WRITTEN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[redacted:([a-z0-9-]{1,40})(?::([0-9]{1,9}))?\]").expect("the pattern is valid"));

/// Memory of one session's keys. The default knows no key and has all rules enabled.
pub struct Redactor {
    enabled: EnabledRules,
    state: Mutex<SessionKeys>,
}

#[derive(Default)]
struct SessionKeys {
    numbers: HashMap<String, usize>,
    kept: Vec<KnownKey>,
    /// Finds every known key of sufficient length, also where no rule matches.
    literals: Option<LiteralKeys>,
    /// True if keys were added that `literals` lacks. It is rebuilt when a text goes out, not for each file that adds
    /// keys.
    has_more: bool,
    /// Known files of the outgoing texts that contained a key.
    files: BTreeSet<String>,
    /// Number of placeholders without a number, by rule.
    unnumbered: BTreeMap<usize, usize>,
    /// Numbers of keys that an earlier turn saw and this one has not seen yet, by fingerprint.
    unseen: HashMap<String, usize>,
    /// Makes the fingerprints of this conversation different from those of others.
    salt: String,
}

/// The storable part of one key of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFingerprint {
    /// Name of the rule, as in the placeholder.
    pub rule: String,
    /// SHA-256 of the conversation's salt and the key, hexadecimal.
    pub sha256: String,
    /// Number of the key to which this further line belongs, from 0.
    pub whole: usize,
}

struct KnownKey {
    /// Empty if only an earlier turn has seen the key.
    key: String,
    rule: usize,
    /// Number of the first line of the same key.
    whole: usize,
    /// True if an outgoing text contained it.
    is_told: bool,
}

struct LiteralKeys {
    automaton: AhoCorasick,
    numbers: Vec<usize>,
}

/// Automaton for the sufficiently long keys of the configuration; `None` if there are none.
pub(super) fn build_literals(keys: &BTreeSet<String>) -> Option<AhoCorasick> {
    let keys: Vec<&str> = keys
        .iter()
        .map(|key| key.trim())
        .filter(|key| key.len() >= LITERAL_BYTES_MIN)
        .collect();
    let build = || {
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&keys)
    };
    (!keys.is_empty()).then(build)?.ok()
}

pub(super) fn own_rule() -> usize {
    rules::named_index(OWN)
}

/// Summary of the keys that went out as placeholders, for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceholderSummary {
    /// Number of keys.
    pub count: usize,
    /// Number of keys by rule.
    pub rules: BTreeMap<&'static str, usize>,
    /// Files that contained them, if known.
    pub files: BTreeSet<String>,
}

/// True if the last mark of a private key in a line begins a key, false if it ends one, `None` without a mark. A key
/// that begins and ends on the line leaves none open, and a key may begin after the end of another block.
fn begins_armour(line: &str) -> Option<bool> {
    let before = &line[..line.rfind("PRIVATE KEY")?];
    // The word may be part of another one (`BACKEND_KEY=-----BEGIN`).
    let (begin, end) = (before.rfind("BEGIN"), before.rfind("END"));
    (begin.is_some() || end.is_some()).then_some(begin > end)
}

impl Redactor {
    /// A session's redactor, without the rules that the user has switched off. `own` are known keys, such as the
    /// provider's: they are replaced even if no rule matches.
    ///
    /// # Errors
    ///
    /// If a name in `unredacted` is not that of a rule.
    pub fn new<'a>(unredacted: &[String], own: impl IntoIterator<Item = &'a str>) -> Result<Self, Problem> {
        Self::continue_conversation(unredacted, own, String::new(), &[])
    }

    /// The redactor of a conversation with this salt, whose earlier turns have seen keys with these fingerprints.
    ///
    /// # Errors
    ///
    /// If a name in `unredacted` is not that of a rule.
    pub fn continue_conversation<'a>(
        unredacted: &[String],
        own: impl IntoIterator<Item = &'a str>,
        salt: String,
        earlier: &[KeyFingerprint],
    ) -> Result<Self, Problem> {
        let enabled = EnabledRules::without(unredacted).map_err(|name| unknown_rule(name))?;
        let mut state = SessionKeys {
            salt,
            ..SessionKeys::default()
        };
        state.expect_earlier(earlier);
        for key in own
            .into_iter()
            .map(str::trim)
            .filter(|key| key.len() >= LITERAL_BYTES_MIN)
        {
            state.keep(key, rules::named_index(OWN), None);
        }
        state.index();
        Ok(Self {
            enabled,
            state: Mutex::new(state),
        })
    }

    /// Replaces nothing: for a call that the user made, whose result only the user gets.
    pub fn off() -> Self {
        Self {
            enabled: EnabledRules::none(),
            state: Mutex::default(),
        }
    }

    /// Adds a known key, such as the provider's key that a program has just printed.
    pub fn know(&self, key: &str) {
        let key = key.trim();
        if key.len() >= LITERAL_BYTES_MIN {
            let mut state = self.lock();
            state.keep(key, rules::named_index(OWN), None);
            state.has_more = true;
        }
    }

    /// The redacted text. `file` is its origin, if it comes from one file.
    pub fn text<'t>(&self, text: &'t str, file: Option<&str>) -> Cow<'t, str> {
        self.counted(text, file).0
    }

    /// Like [`Self::text`], and counts the placeholders in the result.
    pub fn counted<'t>(&self, text: &'t str, file: Option<&str>) -> (Cow<'t, str>, usize) {
        let found = rules::find_keys(text, self.enabled);
        let mut state = self.lock();
        state.tell_written(text, file);
        let places = state.places(text, &found);
        state.tell(&places, file);
        (replace_places(text, write_placeholders(&places)), places.len())
    }

    /// The content of a file with placeholders, for a skill: a skill must not find a key by searching. The content may
    /// be UTF-16. Bytes that are not text stay. If the skill `writes`, a key without a number stays too, because it
    /// could not be put back. This does not count as showing the keys to a model.
    pub fn searchable(&self, content: &[u8], writes: bool) -> Option<Vec<u8>> {
        let mut shown: Option<Vec<u8>> = None;
        for units in TextUnits::detect_units(content) {
            let content = shown.as_deref().unwrap_or(content);
            let mut places = self.places_in(content, *units);
            places.retain(|place| !writes || place.number.is_some());
            if !places.is_empty() {
                shown = Some(units.splice(content, write_placeholders(&places)));
            }
        }
        shown
    }

    /// Like [`Self::searchable`] for a part of a file whose bytes must keep their positions: a key is replaced by its
    /// placeholder if that fits, padded with stars.
    pub fn cover(&self, content: &mut [u8]) {
        for units in TextUnits::detect_units(content) {
            for place in self.places_in(content, *units) {
                let stars = units.bytes(&"*".repeat(place.range.len()));
                let word = units.bytes(&write_placeholder(place.rule, place.number));
                let covered = &mut content[units.range(&place.range)];
                covered.copy_from_slice(&stars);
                if let Some(start) = covered.get_mut(..word.len()) {
                    start.copy_from_slice(&word);
                }
            }
        }
    }

    /// The places of keys in a content that is read as text of these units, without places that hold bytes other than
    /// text.
    fn places_in(&self, content: &[u8], units: TextUnits) -> Vec<Replacement> {
        let text = units.text(content);
        let found = rules::find_keys(&text, self.enabled);
        let mut places = self.lock().places(&text, &found);
        places.retain(|place| units.is_in(content, &text, &place.range));
        places
    }

    /// Redacts a line of live output. `armour` must be empty before the first line; it holds the lines of a private key
    /// that has begun and not ended, which identify the next ones. A block longer than two keys is not a key.
    pub fn live_line(&self, armour: &mut String, line: &str) -> String {
        let begins = begins_armour(line);
        if begins == Some(true) {
            armour.clear();
        } else if armour.is_empty() {
            return self.text(line, None).into_owned();
        }
        armour.push_str(line);
        let whole = self.text(armour, None);
        let shown = whole.rsplit('\n').next().unwrap_or_default().to_owned();
        armour.push('\n');
        let ends = begins != Some(true) && line.contains("----");
        let is_none =
            armour.len() > 2 * REDACTION_KEY_BYTES_MAX || armour.lines().count() > 2 * REDACTION_KEY_LINES_MAX;
        if ends || is_none {
            armour.clear();
        }
        shown
    }

    /// Learns the keys of a whole file before parts of it are shown: half of a private key does not look like one.
    /// Returns false and learns nothing if `is_wanted` becomes false meanwhile.
    pub fn learn(&self, text: &str, is_wanted: &dyn Fn() -> bool) -> bool {
        let Some(found) = rules::find_while(text, self.enabled, is_wanted) else {
            return false;
        };
        if !found.is_empty() {
            self.lock().take_in(text, &found);
        }
        true
    }

    /// Replaces the known keys for which `holds` is true in a text that a model wrote. `holds` says whether the file of the
    /// call contains a key: the skill sees a placeholder there.
    pub fn hide_where(&self, text: &str, holds: &dyn Fn(&str) -> bool) -> String {
        let mut state = self.lock();
        let mut places = state.places(text, &[]);
        places.retain(|place| place.number.is_some_and(|number| holds(&state.kept[number].key)));
        replace_places(text, write_placeholders(&places)).into_owned()
    }

    /// A file's new content, with placeholders replaced by the keys of its old content. A placeholder that the old
    /// content holds verbatim stays.
    ///
    /// # Errors
    ///
    /// Returns the placeholder that has no key in the old content, or that could mean both a key and text of the old
    /// content.
    pub fn restore(&self, new: Vec<u8>, old: Option<&[u8]>) -> Result<Vec<u8>, String> {
        let mut new = new;
        for units in TextUnits::detect_units(&new) {
            let text = units.text(&new);
            if !WRITTEN.is_match(text.as_bytes()) {
                continue;
            }
            let old = units.text(old.unwrap_or_default());
            let rewritten = self.lock().rewritten(&text, |written, key| {
                let is_text = old.contains(written);
                let is_held = |key: &str| old.contains(key);
                match key.map(is_held) {
                    Some(true) if !is_text => Ok(key.unwrap_or_default().to_owned()),
                    Some(true) => Err(written.to_owned()),
                    _ if is_text => Ok(written.to_owned()),
                    _ => Err(written.to_owned()),
                }
            })?;
            new = units.splice(&new, rewritten);
        }
        Ok(new)
    }

    /// Fingerprints of the keys from number `from` on.
    pub fn fingerprints(&self, from: usize) -> Vec<KeyFingerprint> {
        let state = self.lock();
        let fingerprint = |kept: &KnownKey| KeyFingerprint {
            rule: RULES[kept.rule].name.clone(),
            sha256: state.fingerprint(&kept.key),
            whole: kept.whole,
        };
        state.kept.iter().skip(from).map(fingerprint).collect()
    }

    /// Summary of the keys that were sent as placeholders so far; `None` without any.
    pub fn told(&self) -> Option<PlaceholderSummary> {
        let state = self.lock();
        let keys = state.kept.iter().filter(|kept| kept.is_told);
        let whole: BTreeSet<usize> = keys.map(|kept| kept.whole).collect();
        let mut rules: BTreeMap<&'static str, usize> = BTreeMap::new();
        let numbered = whole.iter().map(|number| (state.kept[*number].rule, 1));
        for (rule, count) in numbered.chain(state.unnumbered.iter().map(|(rule, count)| (*rule, *count))) {
            *rules.entry(rules::rule_name(rule)).or_default() += count;
        }
        let count = rules.values().sum();
        (count > 0).then(|| PlaceholderSummary {
            count,
            rules,
            files: state.files.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, SessionKeys> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Range of a text that is replaced. Without a number the replacement cannot be undone.
struct Replacement {
    range: Range<usize>,
    rule: usize,
    number: Option<usize>,
}

/// The replaced ranges with their placeholders.
fn write_placeholders(places: &[Replacement]) -> impl Iterator<Item = (Range<usize>, String)> + '_ {
    let word = |place: &Replacement| write_placeholder(place.rule, place.number);
    places.iter().map(move |place| (place.range.clone(), word(place)))
}

impl SessionKeys {
    /// Numbers the keys that rules found, and adds the known keys elsewhere in the text.
    fn places(&mut self, text: &str, found: &[RuleMatch]) -> Vec<Replacement> {
        let mut places = self.take_in(text, found);
        if std::mem::take(&mut self.has_more) {
            self.index();
        }
        self.literal_places(text, &mut places);
        places
    }

    /// Records the keys whose placeholders a text contains already.
    fn tell_written(&mut self, text: &str, file: Option<&str>) {
        if !text.contains(START) {
            return;
        }
        let mut places = Vec::new();
        for found in WRITTEN.captures_iter(text.as_bytes()) {
            let word = |at: usize| found.get(at).and_then(|word| std::str::from_utf8(word.as_bytes()).ok());
            let number = word(2).and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
            let known = number.and_then(|number| Some((number, self.kept.get(number)?)));
            let known = known.filter(|(_, kept)| !kept.key.is_empty() && Some(rules::rule_name(kept.rule)) == word(1));
            places.extend(known.map(|(number, kept)| Replacement {
                range: 0..0,
                rule: kept.rule,
                number: Some(number),
            }));
        }
        self.tell(&places, file);
    }

    /// Numbers what the rules found.
    fn take_in(&mut self, text: &str, found: &[RuleMatch]) -> Vec<Replacement> {
        let before = self.kept.len();
        let mut whole = None;
        let mut places = Vec::with_capacity(found.len());
        for found in found {
            whole = whole.filter(|_| !found.is_first);
            let number = self.keep(&text[found.range.clone()], found.rule, whole);
            whole = whole.or(number);
            places.push(Replacement {
                range: found.range.clone(),
                rule: number.map_or(found.rule, |number| self.kept[number].rule),
                number,
            });
        }
        self.has_more |= self.kept.len() > before;
        places
    }

    /// Reserves the numbers of earlier keys until these keys occur again.
    fn expect_earlier(&mut self, earlier: &[KeyFingerprint]) {
        for (number, known) in earlier.iter().take(limits::REDACTION_KEYS_MAX).enumerate() {
            let rule = RULES.iter().position(|rule| rule.name == known.rule);
            self.kept.push(KnownKey {
                key: String::new(),
                rule: rule.unwrap_or_else(own_rule),
                whole: known.whole.min(number),
                is_told: false,
            });
            self.unseen.insert(known.sha256.clone(), number);
        }
    }

    fn fingerprint(&self, key: &str) -> String {
        sha256_hex(format!("{}\n{key}", self.salt).as_bytes())
    }

    /// The number of a key; `None` if there are too many keys. `whole` is the key of which it is a further line.
    fn keep(&mut self, key: &str, rule: usize, whole: Option<usize>) -> Option<usize> {
        if let Some(number) = self.numbers.get(key) {
            return Some(*number);
        }
        if !self.unseen.is_empty()
            && let Some(number) = self.unseen.remove(&self.fingerprint(key))
        {
            self.numbers.insert(key.to_owned(), number);
            self.kept[number].key = key.to_owned();
            self.has_more = true;
            return Some(number);
        }
        let number = self.kept.len();
        if number >= limits::REDACTION_KEYS_MAX || key.len() > REDACTION_KEY_BYTES_MAX {
            return None;
        }
        self.numbers.insert(key.to_owned(), number);
        self.kept.push(KnownKey {
            key: key.to_owned(),
            rule,
            whole: whole.unwrap_or(number),
            is_told: false,
        });
        Some(number)
    }

    fn index(&mut self) {
        let long = self
            .kept
            .iter()
            .enumerate()
            .filter(|(_, kept)| kept.key.len() >= LITERAL_BYTES_MIN);
        let (numbers, keys): (Vec<usize>, Vec<&str>) = long.map(|(number, kept)| (number, kept.key.as_str())).unzip();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(keys);
        // The number and the length of the keys are bounded, and so is the automaton.
        self.literals = automaton.ok().map(|automaton| LiteralKeys { automaton, numbers });
    }

    /// Adds the known keys at places where no rule matched, and sorts all places.
    fn literal_places(&self, text: &str, places: &mut Vec<Replacement>) {
        let Some(literals) = &self.literals else { return };
        let by_rule: Vec<Range<usize>> = places.iter().map(|place| place.range.clone()).collect();
        let mut next = 0;
        for hit in literals.automaton.find_iter(text) {
            while by_rule.get(next).is_some_and(|range| range.end <= hit.start()) {
                next += 1;
            }
            if by_rule.get(next).is_some_and(|range| range.start < hit.end()) {
                continue;
            }
            let number = literals.numbers[hit.pattern().as_usize()];
            places.push(Replacement {
                range: hit.range(),
                rule: self.kept[number].rule,
                number: Some(number),
            });
        }
        places.sort_by_key(|place| place.range.start);
    }

    fn tell(&mut self, places: &[Replacement], file: Option<&str>) {
        if places.is_empty() {
            return;
        }
        for place in places {
            match place.number {
                Some(number) => self.kept[number].is_told = true,
                None => *self.unnumbered.entry(place.rule).or_default() += 1,
            }
        }
        if let Some(file) = file
            && self.files.len() < REDACTION_FILES_NAMED_MAX
        {
            self.files.insert(file.to_owned());
        }
    }

    /// Replaces the placeholders of a text. `with` gets a placeholder as written and its key.
    fn rewritten<E>(
        &self,
        text: &str,
        with: impl Fn(&str, Option<&str>) -> Result<String, E>,
    ) -> Result<Vec<(Range<usize>, String)>, E> {
        let mut rewritten = Vec::new();
        for found in WRITTEN.captures_iter(text.as_bytes()) {
            let Some(whole) = found.get(0) else { continue };
            let part = |number: usize| found.get(number).map(|part| &text[part.range()]);
            let rule = part(1).unwrap_or_default();
            if !RULES.iter().any(|known| known.name == rule) {
                continue;
            }
            let number = part(2).and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
            let kept = number.and_then(|number| self.kept.get(number));
            let key = kept
                .filter(|kept| RULES[kept.rule].name == rule && !kept.key.is_empty())
                .map(|kept| kept.key.as_str());
            rewritten.push((whole.range(), with(&text[whole.range()], key)?));
        }
        Ok(rewritten)
    }
}

fn unknown_rule(name: &str) -> Problem {
    let known = rules::rule_names();
    let near = crate::text::nearest_name(name, known.iter().copied());
    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    let hint = format!("{near}The rules are {}; `all` means every one", known.join(", "));
    Problem::new(
        ErrorKind::ConfigInvalid,
        format!("`{name}` in `[policy] unredacted` is no rule"),
    )
    .with_hint(hint)
}

impl Default for Redactor {
    fn default() -> Self {
        Self {
            enabled: EnabledRules::all(),
            state: Mutex::default(),
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Redactor({} keys)", self.lock().kept.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_greatest_length_is_kept() {
        let redactor = Redactor::default();
        let mut keys = redactor.lock();
        let longest = "k".repeat(REDACTION_KEY_BYTES_MAX);
        assert_eq!(keys.keep(&longest, 0, None), Some(0));
        assert_eq!(keys.keep(&format!("{longest}k"), 0, None), None);
    }
}
