//! What a wire format has to say for itself, so that one transport serves all of them.
//!
//! Everything here is pure: a request becomes headers and a body, frames become events. The transport owns time,
//! sockets and retries.

use serde_json::Value;

use super::failure::Failure;
use super::sse::Frame;
use super::{ProviderEvent, Request};

/// One wire format, bound to a model.
pub(super) trait Wire: Send + Sync {
    /// Path of a request, appended to the base URL.
    fn path(&self) -> String;

    /// Path of the model list, appended to the base URL.
    fn models_path(&self) -> &'static str;

    /// The headers that carry the key, and those that the wire wants besides.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)>;

    /// The body of a request.
    fn body(&self, request: &Request<'_>) -> Value;

    /// Reads the answer to a request.
    fn decoder<'a>(&self, request: Request<'a>) -> Box<dyn Decoder + Send + 'a>;

    /// Drops a field that the server has just refused. True where the request is worth sending again at once.
    fn adapt(&self, failure: &Failure) -> bool;
}

/// The state machine of one answer.
pub(super) trait Decoder {
    /// Takes the next frame.
    fn frame(&mut self, frame: &Frame, events: &mut Vec<ProviderEvent>) -> Result<(), Failure>;

    /// The answer is over: tool calls, usage and the stop, or why it was no proper end.
    fn end(&mut self, events: &mut Vec<ProviderEvent>) -> Result<(), Failure>;

    /// Whether more is to come.
    fn progress(&self) -> Progress;
}

/// How far an answer is, by its own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Not at its end.
    Open,
    /// It has ended; a usage report or the end mark may still come.
    Closing,
    /// Nothing more will come.
    Done,
}

/// Reads a body that comes in pieces, for the tests of the wires.
#[cfg(test)]
pub(super) fn decode(
    wire: &dyn Wire,
    request: Request<'_>,
    pieces: &[&[u8]],
) -> (Vec<ProviderEvent>, Result<(), Failure>) {
    let (mut decoder, mut framer) = (wire.decoder(request), super::sse::Framer::default());
    let (mut events, mut frames) = (Vec::new(), Vec::new());
    for piece in pieces {
        framer.feed(piece, &mut frames).expect("the frames are small");
    }
    frames.extend(framer.finish());
    let read = frames.iter().try_for_each(|frame| decoder.frame(frame, &mut events));
    let result = read.and_then(|()| decoder.end(&mut events));
    (events, result)
}
