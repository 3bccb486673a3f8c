//! Keeps keys out of what people read: errors, notices and the reason of a wait.
//!
//! A provider's own words may quote what we sent. Four rules overlap, so that most keys are caught by more than one:
//! the literal key (also its beginning, if it was cut off), the header that carries a key, the field that is named like
//! a key, and the rules of `redaction` for the keys of any service.

use std::sync::LazyLock;

use regex::Regex;

use super::ProviderEvent;
use tool_config::ProviderSettings;
use tool_core::redaction;

/// Shorter keys are placeholders such as `x`, usual with local servers, which occur in many words.
const SECRET_BYTES_MIN: usize = 8;

/// A beginning of this length is longer than the prefix by which vendors mark their keys.
const PREFIX_BYTES_MIN: usize = 12;

const MASK: &str = "***";

/// Headers and fields that carry a key, with the value that follows them.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let names = "authorization|x-(?:goog-)?api-key|api[-_ ]?key(?: provided)?|access[-_]token|client[-_]secret";
    let value = r#"(?:(?:bearer|basic)\s+)?[^\s"'\\,;&)}\]]+"#;
    Regex::new(&format!(r#"(?i)\b({names})(["'\\]*\s*[:=]\s*["'\\]*){value}"#)).expect("the pattern is valid")
});

/// A key in a query, and a bearer token anywhere.
static LOOSE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)([?&]key=|\bbearer\s+)[A-Za-z0-9._~+/=%-]{8,}").expect("the pattern is valid"));

/// The text without the key that we sent, the password of the URL, and anything that looks like either.
pub(super) fn scrub_text(text: &str, settings: &ProviderSettings) -> String {
    let mut text = text.to_owned();
    for secret in list_secrets(settings) {
        text = mask_secret(text, &secret);
    }
    let text = NAMED.replace_all(&text, format!("${{1}}${{2}}{MASK}"));
    let text = LOOSE.replace_all(&text, format!("${{1}}{MASK}"));
    redaction::mask_keys(&text).into_owned()
}

/// The key, the values of extra headers and the password of the URL, each also in its JSON-escaped form.
fn list_secrets(settings: &ProviderSettings) -> impl Iterator<Item = String> {
    let keys: Vec<String> = settings.secrets().map(str::to_owned).collect();
    let url = reqwest::Url::parse(&settings.url).ok();
    let password = url.and_then(|url| url.password().map(str::to_owned));
    let all = keys.into_iter().chain(password);
    all.filter(|secret| secret.len() >= SECRET_BYTES_MIN)
        .flat_map(|secret| {
            let quoted = serde_json::Value::from(secret.as_str()).to_string();
            let escaped = quoted[1..quoted.len() - 1].to_owned();
            [Some(escaped).filter(|escaped| *escaped != secret), Some(secret)]
                .into_iter()
                .flatten()
        })
}

/// Removes the literal key from an answer, if a gateway or a template echoes what we sent. The text comes in pieces, so
/// what may be the beginning of a key is held back, and nothing else.
pub(super) struct KeyShield {
    secrets: Vec<String>,
    text: String,
    reasoning: String,
}

impl KeyShield {
    pub(super) fn new(settings: &ProviderSettings) -> Self {
        Self {
            secrets: list_secrets(settings).collect(),
            text: String::new(),
            reasoning: String::new(),
        }
    }

    /// Returns the events that may be shown after `event`, in order.
    pub(super) fn pass(&mut self, event: ProviderEvent) -> Vec<ProviderEvent> {
        if self.secrets.is_empty() {
            return vec![event];
        }
        match event {
            ProviderEvent::Text(piece) => {
                let shown = self.release(Self::take_reasoning);
                let text = let_through(&self.secrets, &mut self.text, &piece);
                shown.into_iter().chain(text.map(ProviderEvent::Text)).collect()
            }
            ProviderEvent::Reasoning(piece) => {
                let shown = self.release(Self::take_text);
                let text = let_through(&self.secrets, &mut self.reasoning, &piece);
                shown.into_iter().chain(text.map(ProviderEvent::Reasoning)).collect()
            }
            event => {
                let mut shown = self.end();
                shown.push(self.masked(event));
                shown
            }
        }
    }

    /// Returns the text that was held back, when nothing more can come.
    pub(super) fn end(&mut self) -> Vec<ProviderEvent> {
        let held = [self.release(Self::take_reasoning), self.release(Self::take_text)];
        held.into_iter().flatten().collect()
    }

    fn release(&mut self, take: impl Fn(&mut Self) -> ProviderEvent) -> Option<ProviderEvent> {
        let held = take(self);
        let is_empty = matches!(&held, ProviderEvent::Text(text) | ProviderEvent::Reasoning(text) if text.is_empty());
        (!is_empty).then_some(held)
    }

    fn take_text(&mut self) -> ProviderEvent {
        ProviderEvent::Text(std::mem::take(&mut self.text))
    }

    fn take_reasoning(&mut self) -> ProviderEvent {
        ProviderEvent::Reasoning(std::mem::take(&mut self.reasoning))
    }

    fn masked(&self, event: ProviderEvent) -> ProviderEvent {
        let mask = |text: String| {
            self.secrets
                .iter()
                .fold(text, |text, secret| text.replace(secret, MASK))
        };
        match event {
            ProviderEvent::ToolCall(mut call) => {
                call.id = mask(call.id);
                call.name = mask(call.name);
                call.arguments = mask(call.arguments);
                ProviderEvent::ToolCall(call)
            }
            ProviderEvent::CutOffCall { name, arguments } => ProviderEvent::CutOffCall {
                name: mask(name),
                arguments: mask(arguments),
            },
            ProviderEvent::BrokenCall { said } => ProviderEvent::BrokenCall { said: mask(said) },
            ProviderEvent::TextCall { held, is_quoted } => ProviderEvent::TextCall {
                held: mask(held),
                is_quoted,
            },
            ProviderEvent::Waiting { reason } => ProviderEvent::Waiting { reason: mask(reason) },
            ProviderEvent::Notice(said) => ProviderEvent::Notice(mask(said)),
            // Text and thinking come in pieces, see `pass`; opaque data goes back to the server that sent it, unread.
            event @ (ProviderEvent::Text(_)
            | ProviderEvent::Reasoning(_)
            | ProviderEvent::Usage(_)
            | ProviderEvent::ThinkingRefused
            | ProviderEvent::Stop { .. }) => event,
        }
    }
}

/// Adds a piece to the held text, and takes out the part that cannot belong to a secret any more.
fn let_through(secrets: &[String], held: &mut String, piece: &str) -> Option<String> {
    held.push_str(piece);
    for secret in secrets {
        if held.contains(secret) {
            *held = held.replace(secret, MASK);
        }
    }
    let beginnings = secrets.iter().flat_map(|secret| {
        let lengths = (1..secret.len().min(held.len() + 1)).rev();
        lengths.filter(|length| held.as_bytes().ends_with(&secret.as_bytes()[..*length]))
    });
    let kept = beginnings.max().unwrap_or(0);
    let mut at = held.len() - kept;
    while !held.is_char_boundary(at) {
        at -= 1;
    }
    let rest = held.split_off(at);
    let shown = std::mem::replace(held, rest);
    (!shown.is_empty()).then_some(shown)
}

fn mask_secret(mut text: String, secret: &str) -> String {
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
    use tool_config::{ProviderApi, Secret};
    use tool_core::api::ProviderName;

    const KEY: &str = "sk-very-secret-1234567890";

    fn settings(key: &str, url: &str) -> ProviderSettings {
        ProviderSettings {
            api_key: Some(Secret::new(key)),
            ..ProviderSettings::new(ProviderName::Hosted, ProviderApi::Chat, url, "m")
        }
    }

    fn shown(text: &str) -> String {
        scrub_text(text, &settings(KEY, "https://user:pass-word-1@example.org/v1"))
    }

    #[test]
    fn retry_25_the_literal_key_is_removed_wherever_it_stands() {
        assert_eq!(shown(&format!("bad: {KEY}.")), "bad: ***.");
        assert_eq!(shown(&format!("a{KEY}b{KEY}")), "a***b***");
        assert_eq!(shown("at pass-word-1"), "at ***");
        // Cut off by a bound on quotations.
        assert_eq!(shown("bad: sk-very-secret-12…"), "bad: ***…");
        // Too short to differ from a word.
        assert_eq!(
            scrub_text("x is not valid", &settings("x", "http://h")),
            "x is not valid"
        );
    }

    #[test]
    fn retry_25_a_key_in_an_answer_is_masked_however_it_is_cut() {
        let answer = format!("the key {KEY} sits here, s, sk-very");
        for at in 0..=answer.len() {
            let mut shield = KeyShield::new(&settings(KEY, "http://h"));
            let (first, second) = answer.split_at(at);
            let mut events = shield.pass(ProviderEvent::Text(first.to_owned()));
            events.extend(shield.pass(ProviderEvent::Text(second.to_owned())));
            events.extend(shield.end());
            let text: String = events
                .iter()
                .map(|event| match event {
                    ProviderEvent::Text(text) => text.as_str(),
                    _ => panic!("only text was said"),
                })
                .collect();
            assert_eq!(text, "the key *** sits here, s, sk-very");
        }
    }

    #[test]
    fn retry_25_a_key_in_a_tool_call_is_masked_in_both_spellings() {
        let mut shield = KeyShield::new(&settings("sk/with\"quote-123", "http://h"));
        let call = |arguments: &str| {
            ProviderEvent::ToolCall(crate::ToolCall {
                id: "1".into(),
                name: "search_code".into(),
                arguments: arguments.into(),
            })
        };
        let event = shield.pass(call(r#"{"pattern": "sk/with\"quote-123"}"#));
        assert_eq!(event, [call(r#"{"pattern": "***"}"#)]);
        let cut_off = |arguments: &str| ProviderEvent::CutOffCall {
            name: "write_file".into(),
            arguments: arguments.into(),
        };
        assert_eq!(
            shield.pass(cut_off(r#"{"path": "sk/with\"quote-123"#)),
            [cut_off(r#"{"path": "***"#)]
        );
        let broken = |said: &str| ProviderEvent::BrokenCall { said: said.into() };
        assert_eq!(shield.pass(broken("no: sk/with\"quote-123")), [broken("no: ***")]);
        assert_eq!(shield.pass(ProviderEvent::Text("s".into())), []);
        let both = shield.pass(call("{}"));
        assert_eq!(both, [ProviderEvent::Text("s".into()), call("{}")]);
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
            (
                concat!("not gh", "p_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6!"),
                "not [redacted:github-token]!",
            ),
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
