//! Replaces strings that look like keys by placeholders in every text for a provider, a log or a report, and restores
//! them where a model writes the placeholders back.
//!
//! `rules.toml` describes keys. A [`Redactor`] is the memory of one session: it gives the same key the same placeholder
//! everywhere, and only it knows the key of a placeholder. [`mask_keys`] is for texts that are not written back. The crate
//! `repository` hides files that their name or first bytes mark as keys.

mod assignment;
mod manifest;
mod pem;
mod randomness;
mod rules;
mod session;
mod units;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

pub use session::{KeyFingerprint, Redactor};

/// Bytes of one key that is kept. A private key in one line has 3,300; together with `REDACTION_KEYS_MAX` it bounds
/// what a session remembers to 64 MiB.
const REDACTION_KEY_BYTES_MAX: usize = 16 * 1024;

/// Lines of one private key. The largest in use, RSA of 16,384 bits, has 200.
const REDACTION_KEY_LINES_MAX: usize = 256;

/// Prefix of every placeholder.
pub const START: &str = "[redacted:";

/// Replaces every string that looks like a key by a placeholder that names its rule and cannot be undone.
pub fn mask_keys(text: &str) -> Cow<'_, str> {
    let found = rules::find_keys(text, rules::EnabledRules::all());
    replace_places(
        text,
        found
            .iter()
            .map(|found| (found.range.clone(), write_placeholder(found.rule, None))),
    )
}

/// True where a text of settings holds a secret: what a rule finds, or a password of words.
pub fn holds_secret(settings: &str) -> bool {
    assignment::assigns_secret(settings) || !rules::find_keys(settings, rules::EnabledRules::all()).is_empty()
}

/// Like [`mask_keys`], and replaces these known keys too, whatever they look like.
pub fn mask_known<'t>(text: &'t str, keys: &BTreeSet<String>) -> Cow<'t, str> {
    let Some(known) = session::build_literals(keys) else {
        return mask_keys(text);
    };
    let places = known
        .find_iter(text)
        .map(|hit| (hit.range(), write_placeholder(session::own_rule(), None)));
    match replace_places(text, places) {
        Cow::Borrowed(text) => mask_keys(text),
        Cow::Owned(text) => Cow::Owned(mask_keys(&text).into_owned()),
    }
}

/// `[redacted:github-token:3]`; without a number where it stands for no key that could be put back.
fn write_placeholder(rule: usize, number: Option<usize>) -> String {
    let name = rules::rule_name(rule);
    match number {
        // People count from one.
        Some(number) => format!("{START}{name}:{}]", number + 1),
        None => format!("{START}{name}]"),
    }
}

/// The text with other words in these places, which are in order and apart.
fn replace_places(text: &str, places: impl Iterator<Item = (std::ops::Range<usize>, String)>) -> Cow<'_, str> {
    let mut out = String::new();
    let mut at = 0;
    for (place, word) in places {
        out.push_str(&text[at..place.start]);
        out.push_str(&word);
        at = place.end;
    }
    match at {
        0 => Cow::Borrowed(text),
        _ => {
            out.push_str(&text[at..]);
            Cow::Owned(out)
        }
    }
}
