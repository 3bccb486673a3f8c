//! Identifiers of tool calls: of safe characters, and each its own in the conversation, whatever a server sends.

use std::collections::HashSet;

use super::{Message, ToolCall};

/// Longest identifier that is passed on.
const ID_CHARS_MAX: usize = 64;

/// The identifiers of a conversation's calls.
pub(super) fn used(messages: &[Message]) -> HashSet<String> {
    calls_of(messages).map(|call| call.id.clone()).collect()
}

/// The calls of a conversation, in order.
pub(super) fn calls_of(messages: &[Message]) -> impl Iterator<Item = &ToolCall> {
    messages.iter().flat_map(|message| match message {
        Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
        _ => &[],
    })
}

/// The given identifier with its odd characters replaced, or one made up where it is empty or taken. `round` and
/// `number` tell the made-up ones of one answer from those of others.
pub(super) fn unique(given: &str, used: &mut HashSet<String>, round: usize, number: usize) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let given: String = given.chars().take(ID_CHARS_MAX).map(clean).collect();
    let made = (0..).map(|again| match again {
        0 => format!("call_{round}_{number}"),
        again => format!("call_{round}_{number}_{again}"),
    });
    let mut candidates = (!given.is_empty()).then_some(given).into_iter().chain(made);
    candidates
        .find(|id| used.insert(id.clone()))
        .expect("the made-up ids never end")
}
