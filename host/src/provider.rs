//! One neutral event model over every provider's wire.
//!
//! A provider turns a [`Request`] into a stream of [`ProviderEvent`]s; everything peculiar to a wire stays in its own
//! module, as a pure state machine from bytes to events. Nothing here runs a tool: that is `turn`.

use std::pin::Pin;

use futures_util::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::Problem;

/// One request: the whole conversation so far.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Instructions; never text from the repository.
    pub system: &'a str,
    /// The conversation, oldest first.
    pub messages: &'a [Message],
    /// What the model may call.
    pub tools: &'a [ToolSpec],
    /// Upper bound of output tokens, where the user set one.
    pub max_tokens: Option<u32>,
}

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
        /// What the wire must get back unchanged (thinking blocks, reasoning details); null where there is none.
        #[serde(default)]
        opaque: Value,
    },
    /// The answers to all tool calls of the message before, in its order.
    ToolResults {
        /// One each.
        results: Vec<ToolResult>,
    },
}

/// A tool that the model asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the conversation; `[A-Za-z0-9_-]+`.
    pub id: String,
    /// As the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: JSON text, not yet validated. Empty means `{}`.
    pub arguments: String,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// The call's name.
    pub name: String,
    /// What the model reads.
    pub text: String,
    /// True where the call did not work.
    pub is_error: bool,
}

/// A tool as a model is told about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name that calls it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// What a provider says while it answers.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderEvent {
    /// Answer text.
    Text(String),
    /// Thinking that is not answer text.
    Reasoning(String),
    /// A whole tool call. Sent only once the wire has ended the round properly.
    ToolCall(ToolCall),
    /// Token counts of this request, cumulative within it.
    Usage(Usage),
    /// The request waits before it is tried again; for the user.
    Waiting {
        /// Why, in a sentence.
        reason: String,
    },
    /// Always last, exactly once, unless the stream ends with an error.
    Stop {
        /// Why the model stopped.
        reason: StopReason,
        /// See [`Message::Assistant`].
        opaque: Value,
    },
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cached_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// True where this is our own estimate.
    pub estimated: bool,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It said all it had to say.
    EndTurn,
    /// It waits for tools.
    ToolUse,
    /// The output limit cut it off.
    MaxTokens,
    /// It declined.
    Refusal,
    /// The server asks to be called again with what it has said so far.
    Pause,
}

/// What ended a request early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The user or a budget ended it.
    #[error("cancelled")]
    Cancelled,
    /// A failure with its sentence and hint.
    #[error(transparent)]
    Failed(#[from] Problem),
}

/// The stream of one request.
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = Result<ProviderEvent, ProviderError>> + Send + 'a>>;

/// The one enabled provider, ready for requests.
pub trait Provider: Send + Sync {
    /// `hosted`, `local` or `router`.
    fn name(&self) -> &'static str;

    /// Identifier of the model, as history and reports show it.
    fn model(&self) -> &str;

    /// Sends one request. The stream ends at once when `cancel` fires, with [`ProviderError::Cancelled`].
    fn stream<'a>(&'a self, request: Request<'a>, cancel: CancellationToken) -> EventStream<'a>;
}
