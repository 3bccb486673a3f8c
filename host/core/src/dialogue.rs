//! The conversation with a model as data: what goes to a provider, and what a journal keeps.

mod label_mark;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::{Dollars, is_zero};

pub use label_mark::LabelMark;

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From the user: the task and the packet of files.
    User {
        /// Its text.
        text: String,
    },
    /// From the model.
    Assistant {
        /// Its text; may be empty.
        text: String,
        /// The tools it asked for, in order.
        tool_calls: Vec<ToolCall>,
        /// Data that the wire must get back unchanged (thinking blocks, reasoning details); null if there is none.
        #[serde(default)]
        opaque: Value,
    },
    /// The answers to all tool calls of the previous message, in its order.
    ToolResults {
        /// One result for each call.
        results: Vec<ToolResult>,
    },
}

/// A tool that the model asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the conversation. Some servers encode data in it, so it may be long and hold any character.
    pub id: String,
    /// As the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: JSON text, not yet validated. Empty means `{}`.
    pub arguments: String,
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// The call's name.
    pub name: String,
    /// Text that the model reads.
    pub text: String,
    /// True where the call did not work.
    pub is_error: bool,
    /// Origin of the text.
    #[serde(default)]
    pub origin: TextOrigin,
}

/// Origin of the words in a tool's result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextOrigin {
    /// Text of the host: the reason why a call did not run.
    #[default]
    Service,
    /// The user's files.
    Repository,
    /// The files of a repository that the user does not trust.
    Untrusted,
    /// Contains text of others: packages, logs, output of a program. Holds the places, in words.
    Outside(Vec<String>),
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cached_tokens: u64,
    /// Of these, written to the provider's cache, where the provider counts them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// True where this is our own estimate, or holds one.
    pub estimated: bool,
    /// Cost in billionths of a US dollar, reported by the provider or computed from its price; absent if neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nanos: Option<u64>,
}

impl Usage {
    /// The counts of two requests together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let cost_nanos = match (self.cost_nanos, other.cost_nanos) {
            (None, None) => None,
            (left, right) => Some(left.unwrap_or(0).saturating_add(right.unwrap_or(0))),
        };
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            estimated: self.estimated || other.estimated,
            cost_nanos,
        }
    }

    /// The cost, where it is known.
    pub fn cost(&self) -> Option<Dollars> {
        self.cost_nanos.map(Dollars::from_nanos)
    }
}

impl Message {
    /// A message of the model with text and no tool calls.
    pub fn from_model(text: impl Into<String>) -> Self {
        Self::Assistant {
            text: text.into(),
            tool_calls: Vec::new(),
            opaque: Value::Null,
        }
    }

    /// Size of the message in a request, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::User { text } => text.len(),
            Self::Assistant { text, tool_calls, .. } => {
                let calls = tool_calls.iter().map(|call| call.name.len() + call.arguments.len());
                text.len() + calls.sum::<usize>()
            }
            Self::ToolResults { results } => results.iter().map(|result| result.text.len()).sum(),
        }
    }
}

impl ToolResult {
    /// The text in the form of a request: data between two labels that only the service can write.
    pub fn labelled(&self, mark: LabelMark) -> String {
        // The model wrote the name, so it may hold anything.
        let name = self.name.replace(['"', '<', '>', '\n'], "");
        let name = mark.taken_out_of(&name);
        let status = if self.is_error { "error" } else { "ok" };
        let text = match self.text.as_str() {
            "" => "(no output)".into(),
            text => mark.taken_out_of(text),
        };
        let origin = self.origin.label();
        let origin = mark.taken_out_of(&origin);
        format!(
            "<tool-output-{mark} tool=\"{name}\" status=\"{status}\" origin=\"{origin}\">\n{text}\n</tool-output-{mark}>"
        )
    }
}

impl TextOrigin {
    fn label(&self) -> String {
        match self {
            Self::Service => "service".to_owned(),
            Self::Repository => "repository".to_owned(),
            Self::Untrusted => "untrusted repository".to_owned(),
            Self::Outside(places) => {
                let places = places.join(", ").replace(['"', '<', '>', '\n'], "");
                format!("outside the user's own files: {places}")
            }
        }
    }
}
