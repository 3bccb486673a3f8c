//! The origin of an answer, kept in the data that goes back with it.
//!
//! Signatures, encrypted reasoning and members that only a server understands go back to the same server, wire and model
//! and to no other: another one refuses them, and they are none of its business.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value, json};

use super::ids::{IdForm, in_form};
use super::{Message, ToolCall, ToolResult, messages};
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
pub(super) fn tagged(opaque: Value, tag: &str) -> Value {
    match opaque {
        Value::Object(mut fields) => {
            fields.insert(ORIGIN.to_owned(), tag.into());
            Value::Object(fields)
        }
        Value::Null => json!({ORIGIN: tag}),
        other => other,
    }
}

/// Leaves out what only the server of this answer understands. True where there was any.
pub fn drop_thinking(message: &mut Message) -> bool {
    match message {
        Message::Assistant { opaque, .. } => drop_data(opaque),
        _ => false,
    }
}

/// Leaves out thinking of the Messages API. Current models bind it to all that comes before it, and their server refuses
/// it where that was changed. True where there was any.
pub fn drop_bound_thinking(message: &mut Message) -> bool {
    let is_bound = matches!(message, Message::Assistant { opaque, .. } if messages::has_thinking(opaque));
    is_bound && drop_thinking(message)
}

/// Leaves nothing of opaque data but its origin. True where there was more.
fn drop_data(opaque: &mut Value) -> bool {
    let fields = opaque.as_object_mut().into_iter().flat_map(std::mem::take);
    let (origin, data): (Vec<_>, Vec<_>) = fields.partition(|(name, _)| name == ORIGIN);
    *opaque = if origin.is_empty() {
        Value::Null
    } else {
        origin.into_iter().collect()
    };
    !data.is_empty()
}

/// The conversation without the opaque data of other servers and models, and with identifiers of their calls in the form
/// of this wire.
pub(super) fn without_others<'m>(messages: &'m [Message], tag: &str, form: IdForm) -> Cow<'m, [Message]> {
    let is_foreign = |message: &Message| match message {
        Message::Assistant { opaque, .. } => opaque.get(ORIGIN).is_some_and(|origin| origin != tag),
        _ => false,
    };
    // That form has to hold for all: an identifier may be made up, because the server gave one twice.
    let is_mapped = |message: &Message| form == IdForm::Nine || is_foreign(message);
    if !messages.iter().any(is_mapped) {
        return Cow::Borrowed(messages);
    }
    let mut foreign_ids = HashSet::new();
    let cleaned = messages.iter().map(|message| match message {
        Message::Assistant {
            text,
            tool_calls,
            opaque,
        } if is_mapped(message) => {
            foreign_ids.extend(tool_calls.iter().map(|call| call.id.as_str()));
            let renamed = tool_calls.iter().map(|call| ToolCall {
                id: in_form(&call.id, form),
                ..call.clone()
            });
            Message::Assistant {
                text: text.clone(),
                tool_calls: renamed.collect(),
                opaque: if is_foreign(message) {
                    Value::Null
                } else {
                    opaque.clone()
                },
            }
        }
        Message::ToolResults { results } => {
            let mut results: Vec<ToolResult> = results.clone();
            for result in &mut results {
                if foreign_ids.contains(result.call_id.as_str()) {
                    result.call_id = in_form(&result.call_id, form);
                }
            }
            Message::ToolResults { results }
        }
        message => message.clone(),
    });
    cleaned.collect()
}

/// The conversation without any opaque data; none where there is none.
pub(super) fn without_thinking(messages: &[Message]) -> Option<Vec<Message>> {
    let mut messages = messages.to_vec();
    let mut is_changed = false;
    for message in &mut messages {
        is_changed |= drop_thinking(message);
    }
    is_changed.then_some(messages)
}

#[cfg(test)]
mod tests {
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
            without_others(std::slice::from_ref(&own), "one", IdForm::Word),
            Cow::Borrowed(_)
        ));
        assert_eq!(
            *without_others(&[own.clone(), other], "one", IdForm::Word),
            [own, answer(Value::Null)]
        );
        assert_eq!(tagged(Value::Null, "one"), json!({"origin": "one"}));
    }
}
