//! Keeps keys out of what people read: errors, notices, the reason of a wait.
//!
//! A provider's own words may quote what we sent. Three nets, each enough by itself for most of them: the literal key
//! (also the beginning of one that was cut off), the header that carries a key, and the field that is named like one.

use std::sync::LazyLock;

use regex::Regex;

use crate::config::ProviderSettings;

/// Shorter keys are placeholders: `x`, usual with local servers, stands in every other word.
const SECRET_BYTES_MIN: usize = 8;

/// The beginning of a key that is as long is more than the prefix by which vendors mark their keys.
const PREFIX_BYTES_MIN: usize = 12;

const MASK: &str = "***";

/// Headers and fields that carry a key, with what stands behind them.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let names = "authorization|x-(?:goog-)?api-key|api[-_ ]?key(?: provided)?|access[-_]token|client[-_]secret";
    let value = r#"(?:(?:bearer|basic)\s+)?[^\s"'\\,;&)}\]]+"#;
    Regex::new(&format!(r#"(?i)\b({names})(["'\\]*\s*[:=]\s*["'\\]*){value}"#)).expect("the pattern is valid")
});

/// A key in a query, and a bearer token wherever it stands.
static LOOSE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)([?&]key=|\bbearer\s+)[A-Za-z0-9._~+/=%-]{8,}").expect("the pattern is valid"));

/// The text without the key that we sent, without the password of the URL, and without what looks like either.
pub(super) fn scrubbed(text: &str, settings: &ProviderSettings) -> String {
    let mut text = text.to_owned();
    for secret in secrets(settings) {
        text = without(text, &secret);
    }
    let text = NAMED.replace_all(&text, format!("${{1}}${{2}}{MASK}"));
    LOOSE.replace_all(&text, format!("${{1}}{MASK}")).into_owned()
}

fn secrets(settings: &ProviderSettings) -> impl Iterator<Item = String> {
    let key = settings.api_key.as_ref().map(|key| key.expose().trim().to_owned());
    let url = reqwest::Url::parse(&settings.url).ok();
    let password = url.and_then(|url| url.password().map(str::to_owned));
    let all = [key, password].into_iter().flatten();
    all.filter(|secret| secret.len() >= SECRET_BYTES_MIN)
}

fn without(mut text: String, secret: &str) -> String {
    text = text.replace(secret, MASK);
    // A quotation is cut to a length, and the cut may go through the key.
    let lengths = (PREFIX_BYTES_MIN..secret.len())
        .rev()
        .filter(|length| secret.is_char_boundary(*length));
    for length in lengths {
        text = text.replace(&secret[..length], MASK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Api, ProviderName, Secret};

    const KEY: &str = "sk-very-secret-1234567890";

    fn settings(key: &str, url: &str) -> ProviderSettings {
        ProviderSettings {
            name: ProviderName::Hosted,
            api: Api::Chat,
            url: url.into(),
            model: "m".into(),
            api_key: Some(Secret::new(key)),
            text_calls: false,
            patience: crate::config::Patience::default(),
        }
    }

    fn shown(text: &str) -> String {
        scrubbed(text, &settings(KEY, "https://user:pass-word-1@example.org/v1"))
    }

    #[test]
    fn retry_25_the_literal_key_is_removed_wherever_it_stands() {
        assert_eq!(shown(&format!("bad: {KEY}.")), "bad: ***.");
        assert_eq!(shown(&format!("a{KEY}b{KEY}")), "a***b***");
        assert_eq!(shown("at pass-word-1"), "at ***");
        // Cut off by a bound on quotations.
        assert_eq!(shown("bad: sk-very-secret-12…"), "bad: ***…");
        // Too short to be told from a word.
        assert_eq!(scrubbed("x is not valid", &settings("x", "http://h")), "x is not valid");
    }

    #[test]
    fn retry_25_keys_are_removed_by_header_and_by_field() {
        for (text, expected) in [
            ("Authorization: Bearer abc.def", "Authorization: ***"),
            ("sent x-api-key=abc, and more", "sent x-api-key=***, and more"),
            ("X-Goog-Api-Key: abc", "X-Goog-Api-Key: ***"),
            (
                r#"{"api_key": "abc", "model": "m"}"#,
                r#"{"api_key": "***", "model": "m"}"#,
            ),
            (r#"{\"apiKey\":\"abc\"}"#, r#"{\"apiKey\":\"***\"}"#),
            (
                "Incorrect API key provided: sk-ab***yz.",
                "Incorrect API key provided: ***",
            ),
            ("GET /v1/models?key=abcdefgh123 failed", "GET /v1/models?key=*** failed"),
            ("the token bearer abcdefgh.123 is old", "the token bearer *** is old"),
            // Our own words stay as they are.
            (
                "Authentication failed: Invalid API key",
                "Authentication failed: Invalid API key",
            ),
            (
                "run `tool init` again, or set VENDOR_B_API_KEY in the environment",
                "run `tool init` again, or set VENDOR_B_API_KEY in the environment",
            ),
            (
                "`api_key` under `[providers.local]` in ~/.tool/config.toml",
                "`api_key` under `[providers.local]` in ~/.tool/config.toml",
            ),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
