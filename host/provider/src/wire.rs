//! Interface of a wire format, so that one transport serves all wires.
//!
//! Everything here is pure: a request becomes headers and a body, frames become events. The transport owns time,
//! sockets and retries.

use std::sync::Arc;

use serde_json::Value;

use super::failure::ProviderFailure;
use super::ids::IdForm;
pub(super) use super::model_facts::Adaptation;
use super::model_facts::LearnedOptions;
use super::sse::Frame;
use super::{ModelRequest, ProviderEvent, Usage, estimated_tokens};
use crate::limits::SESSION_TOKENS_MAX;

/// One wire format, bound to a model.
pub(super) trait Wire: Send + Sync {
    /// Path of a request, appended to the base URL.
    fn path(&self) -> String;

    /// Path of the model list, with a query where the list would otherwise be cut short; appended to the base URL.
    fn models_path(&self) -> &'static str;

    /// The headers that carry the key, and any others that the wire requires.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)>;

    /// The body of a request.
    fn body(&self, request: &ModelRequest<'_>) -> Value;

    /// Reads the answer to a request.
    fn decoder<'a>(&self, request: ModelRequest<'a>) -> Box<dyn Decoder + Send + 'a>;

    /// Changes what the server has just refused, so that the request can be sent again at once; `None` if nothing can
    /// be changed.
    fn adapt(&self, failure: &ProviderFailure) -> Option<Adaptation>;

    /// From now on describes tools in the instructions and reads calls from text, because the server's template leaves
    /// tools out. Does nothing on wires whose servers have no such templates.
    fn describe_tools(&self) {}

    /// See [`Self::describe_tools`].
    fn describes_tools(&self) -> bool {
        false
    }

    /// What is known about the model.
    fn learned(&self) -> &Arc<LearnedOptions>;

    /// The form that this wire requires for identifiers of calls.
    fn id_form(&self) -> IdForm {
        IdForm::Word
    }
}

/// The state machine of one answer.
pub(super) trait Decoder {
    /// Takes the next frame.
    fn frame(&mut self, frame: &Frame, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure>;

    /// Ends the answer: gives tool calls, usage and the stop reason, or why there was no proper end.
    fn end(&mut self, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure>;

    /// How far the answer has come.
    fn progress(&self) -> AnswerProgress;

    /// Most bytes of the answer that are kept: its text, and all of each frame that is not a piece of text.
    fn kept_bytes(&self) -> usize;
}

/// Progress of an answer, as the wire reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerProgress {
    /// The answer goes on.
    Open,
    /// The answer has ended; a usage report or the end mark may follow.
    Closing,
    /// Nothing more follows.
    Done,
}

/// The header that carries the key on the wires of OpenAI.
pub(super) fn bearer_header(key: Option<&str>) -> Vec<(&'static str, String)> {
    let header = key.map(|key| ("authorization", format!("Bearer {key}")));
    header.into_iter().collect()
}

/// A usage report whose missing counts are estimated and marked as such. `output_bytes` is the size of the answer
/// received.
pub(super) fn complete_usage(usage: Usage, request: &ModelRequest<'_>, output_bytes: usize) -> Usage {
    let mut usage = usage;
    if usage.input_tokens == 0 {
        usage.input_tokens = request.estimated_tokens();
        usage.estimated = true;
    }
    if usage.output_tokens == 0 && output_bytes > 0 {
        usage.output_tokens = estimated_tokens(output_bytes);
        usage.estimated = true;
    }
    usage
}

/// A count, in the forms that counts have: a number, a float, its digits. One that no session can have is cut down, so
/// that sums of what a server claims stay sums.
pub(super) fn read_count(value: &Value) -> Option<u64> {
    read_number(value).map(|count| count.min(SESSION_TOKENS_MAX))
}

fn read_number(value: &Value) -> Option<u64> {
    let float = || {
        value
            .as_f64()
            .filter(|number| *number >= 0.0)
            .map(|number| number as u64)
    };
    value
        .as_u64()
        .or_else(float)
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// Reads a body that comes in pieces, for the tests of the wires.
#[cfg(test)]
pub(super) fn decode(
    wire: &dyn Wire,
    request: ModelRequest<'_>,
    pieces: &[&[u8]],
) -> (Vec<ProviderEvent>, Result<(), ProviderFailure>) {
    super::fuzz::decode(wire, request, "text/event-stream", pieces)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_read_in_every_form_and_stay_within_reason() {
        for (value, expected) in [
            (json!(7), Some(7)),
            (json!(7.0), Some(7)),
            (json!(" 7 "), Some(7)),
            (json!(-1), None),
            (json!(null), None),
            (json!(u64::MAX), Some(SESSION_TOKENS_MAX)),
            (json!(1e300), Some(SESSION_TOKENS_MAX)),
            (json!(u64::MAX.to_string()), Some(SESSION_TOKENS_MAX)),
        ] {
            assert_eq!(read_count(&value), expected, "{value}");
        }
    }
}
