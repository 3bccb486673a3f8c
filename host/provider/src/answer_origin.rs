//! Marks the opaque data of an answer with its origin.
//!
//! Signatures, encrypted reasoning and members that only one server understands go back to the same server, wire and
//! model only. Any other server would refuse them, and should not see them.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value, json};

use super::ids::{IdForm, in_form};
use super::{Message, ToolCall, ToolResult, messages};
use tool_config::ProviderSettings;
use tool_core::digest::sha256_hex;

/// The member of the opaque data that holds the origin.
const ORIGIN: &str = "origin";

/// Hexadecimal digits of the hash. It only has to tell apart the servers of one user.
const TAG_DIGITS: usize = 16;

/// A hash of server, wire and model, so that the stored data does not reveal them.
pub(super) fn origin_tag(settings: &ProviderSettings) -> String {
    let origin = [settings.api.name(), &settings.url, &settings.model].join("\n");
    let mut tag = sha256_hex(origin.as_bytes());
    tag.truncate(TAG_DIGITS);
    tag
}

/// Opaque data with its origin.
pub(super) fn tag_opaque(opaque: Value, tag: &str) -> Value {
    match opaque {
        Value::Object(mut fields) => {
            fields.insert(ORIGIN.to_owned(), tag.into());
            Value::Object(fields)
        }
        Value::Null => json!({ORIGIN: tag}),
        other => other,
    }
}

/// Removes what only the server of this answer understands. True if there was anything.
pub fn drop_thinking(message: &mut Message) -> bool {
    match message {
        Message::Assistant { opaque, .. } => drop_data(opaque),
        _ => false,
    }
}

/// Removes thinking of the Messages API. Current models bind it to everything before it, and their server refuses it
/// after a change there. True if there was any.
pub fn drop_bound_thinking(message: &mut Message) -> bool {
    let is_bound = matches!(message, Message::Assistant { opaque, .. } if messages::has_thinking(opaque));
    is_bound && drop_thinking(message)
}

/// Removes everything but the origin from opaque data. True if there was more.
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

/// The conversation without the opaque data of other servers and models, and with the identifiers of their calls
/// converted to the form of this wire.
pub(super) fn without_others<'m>(messages: &'m [Message], tag: &str, form: IdForm) -> Cow<'m, [Message]> {
    let is_foreign = |message: &Message| match message {
        Message::Assistant { opaque, .. } => opaque.get(ORIGIN).is_some_and(|origin| origin != tag),
        _ => false,
    };
    // The form of nine characters must also hold for this server's own answers: an identifier may be made up, because a
    // server gave the same one twice.
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

/// The conversation without any opaque data; `None` if it has none.
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
        let own = answer(tag_opaque(json!({"parts": []}), "one"));
        let other = answer(tag_opaque(json!({"parts": []}), "two"));
        assert!(matches!(
            without_others(std::slice::from_ref(&own), "one", IdForm::Word),
            Cow::Borrowed(_)
        ));
        assert_eq!(
            *without_others(&[own.clone(), other], "one", IdForm::Word),
            [own, answer(Value::Null)]
        );
        assert_eq!(tag_opaque(Value::Null, "one"), json!({"origin": "one"}));
    }
}
