//! The origin of an answer, kept in the data that goes back with it.
//!
//! Signatures, encrypted reasoning and members that only a server understands go back to the same server, wire and model
//! and to no other: another one refuses them, and they are none of its business.

use std::borrow::Cow;

use serde_json::Value;

use super::Message;
use tool_config::ProviderSettings;
use tool_core::digest::sha256_hex;

/// The member of the opaque data that names its origin.
const ORIGIN: &str = "origin";

/// Digits of the hash: enough to tell the servers of one user apart.
const TAG_DIGITS: usize = 16;

/// Names server, wire and model, and shows nothing of them.
pub(super) fn tag(settings: &ProviderSettings) -> String {
    let origin = [settings.api.name(), &settings.url, &settings.model].join("\n");
    let mut tag = sha256_hex(origin.as_bytes());
    tag.truncate(TAG_DIGITS);
    tag
}

/// Opaque data with its origin.
pub(super) fn tagged(mut opaque: Value, tag: &str) -> Value {
    if let Some(fields) = opaque.as_object_mut() {
        fields.insert(ORIGIN.to_owned(), tag.into());
    }
    opaque
}

/// The conversation without the opaque data of other servers and models.
pub(super) fn without_others<'m>(messages: &'m [Message], tag: &str) -> Cow<'m, [Message]> {
    let is_foreign = |message: &Message| match message {
        Message::Assistant { opaque, .. } => opaque.get(ORIGIN).is_some_and(|origin| origin != tag),
        _ => false,
    };
    if !messages.iter().any(is_foreign) {
        return Cow::Borrowed(messages);
    }
    let cleaned = messages.iter().map(|message| match message {
        Message::Assistant { text, tool_calls, .. } if is_foreign(message) => Message::Assistant {
            text: text.clone(),
            tool_calls: tool_calls.clone(),
            opaque: Value::Null,
        },
        message => message.clone(),
    });
    cleaned.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn opaque_data_goes_back_to_its_own_server_and_model_only() {
        let answer = |opaque: Value| Message::Assistant {
            text: "Hm.".into(),
            tool_calls: vec![],
            opaque,
        };
        let own = answer(tagged(json!({"parts": []}), "one"));
        let other = answer(tagged(json!({"parts": []}), "two"));
        assert!(matches!(
            without_others(std::slice::from_ref(&own), "one"),
            Cow::Borrowed(_)
        ));
        assert_eq!(
            *without_others(&[own.clone(), other], "one"),
            [own, answer(Value::Null)]
        );
        assert_eq!(tagged(Value::Null, "one"), Value::Null);
    }
}
