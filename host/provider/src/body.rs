//! Reads the body of an answer: bytes in, events out, wherever the bytes are cut.
//!
//! Joins the framing with a wire's decoder, and handles what comes without a frame: one JSON value instead of a stream,
//! a failure as bare JSON between events, and a server that is not a model server. It uses no sockets and no time, so
//! that a test can cut a body at every byte.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::ProviderEvent;
use super::failure::{FailureClass, ProviderFailure};
use super::sse::{Frame, Framer};
use super::wire::{AnswerProgress, Decoder};
use crate::sse::PROVIDER_ERROR_BYTES_MAX;

/// Bytes kept of the answer to one request: its text, thinking, calls and everything else with the envelope in which
/// they came. That is some 200 bytes for each token, and 128,000 tokens is the longest answer that any vendor sells.
const PROVIDER_ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes that are read of the answer to one request. A million pieces of text, more than any model writes, are half of
/// it in the wordiest envelope; the envelopes are thrown away as they come.
const PROVIDER_WIRE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Frames of an answer that a probe keeps, to report what was unusual about them.
pub(super) type FrameTap = Arc<Mutex<Vec<Frame>>>;

/// A body as far as it came.
pub(super) struct AnswerBody<'a> {
    decoder: Box<dyn Decoder + Send + 'a>,
    form: BodyForm,
    bytes: usize,
    frames: usize,
    tap: Option<FrameTap>,
}

enum BodyForm {
    Events {
        framer: Framer,
        /// The first bytes, for an error message if no event comes.
        start: Vec<u8>,
    },
    /// The body is one JSON value: an error with status 200, or an answer from a server that does not stream.
    Whole(Vec<u8>),
}

impl<'a> AnswerBody<'a> {
    /// Creates a body for a content type in lower case. Everything that is not JSON is read as a stream.
    pub(super) fn new(decoder: Box<dyn Decoder + Send + 'a>, media_type: &str, tap: Option<FrameTap>) -> Self {
        let form = if media_type.starts_with("application/json") {
            BodyForm::Whole(Vec::new())
        } else {
            BodyForm::Events {
                framer: Framer::default(),
                start: Vec::new(),
            }
        };
        Self {
            decoder,
            form,
            bytes: 0,
            frames: 0,
            tap,
        }
    }

    /// Number of bytes received.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of whole events received.
    pub(super) fn frames(&self) -> usize {
        self.frames
    }

    /// Progress of the answer.
    pub(super) fn progress(&self) -> AnswerProgress {
        self.decoder.progress()
    }

    /// Takes the next bytes. True if the answer has ended, so that nothing more needs to be read.
    pub(super) fn take(&mut self, chunk: &[u8], events: &mut Vec<ProviderEvent>) -> Result<bool, ProviderFailure> {
        self.bytes += chunk.len();
        check_length(self.bytes, PROVIDER_WIRE_BYTES_MAX)?;
        let mut arrived = Vec::new();
        let framed = match &mut self.form {
            BodyForm::Whole(body) => {
                check_length(self.bytes, PROVIDER_ANSWER_BYTES_MAX)?;
                body.extend_from_slice(chunk);
                Ok(())
            }
            BodyForm::Events { framer, start } => {
                let room = PROVIDER_ERROR_BYTES_MAX.saturating_sub(start.len());
                start.extend_from_slice(&chunk[..room.min(chunk.len())]);
                framer.feed(chunk, &mut arrived)
            }
        };
        // Events before an oversized one still count.
        for frame in &arrived {
            self.frame(frame, events)?;
            if self.progress() == AnswerProgress::Done {
                self.decoder.end(events)?;
                return Ok(true);
            }
        }
        framed.map_err(|error| ProviderFailure::new(FailureClass::Protocol, error.to_string()))?;
        Ok(false)
    }

    /// Ends the body: no more bytes come.
    pub(super) fn finish(&mut self, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let last = match &mut self.form {
            BodyForm::Whole(body) => Some(parse_whole(body)?),
            BodyForm::Events { framer, start } => match framer.finish() {
                None if self.frames == 0 => parse_unframed(start)?,
                last => last,
            },
        };
        if let Some(frame) = last {
            self.frame(&frame, events)?;
        }
        if let (BodyForm::Events { framer, .. }, AnswerProgress::Open) = (&self.form, self.decoder.progress())
            && let Ok(stray) = parse_whole(framer.stray())
        {
            self.frame(&stray, events)?;
        }
        self.decoder.end(events)
    }

    /// Text that is still held back is sent to the reader even if the answer breaks off; calls are not.
    pub(super) fn salvage(&mut self, events: &mut Vec<ProviderEvent>) {
        let mut held = Vec::new();
        // The failure that is already known is more serious than this error.
        let _ = self.decoder.end(&mut held);
        events.extend(held.into_iter().filter(|event| matches!(event, ProviderEvent::Text(_))));
    }

    fn frame(&mut self, frame: &Frame, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        self.frames += 1;
        if let Some(tap) = &self.tap {
            tap.lock().unwrap_or_else(PoisonError::into_inner).push(frame.clone());
        }
        self.decoder.frame(frame, events)?;
        check_length(self.decoder.kept_bytes(), PROVIDER_ANSWER_BYTES_MAX)
    }
}

fn check_length(bytes: usize, bound: usize) -> Result<(), ProviderFailure> {
    if bytes > bound {
        Err(ProviderFailure::new(
            FailureClass::Protocol,
            format!("it exceeds {bound} bytes"),
        ))
    } else {
        Ok(())
    }
}

/// Reads a body without a single event: it may be one JSON value, empty, or from something that is not a model server.
fn parse_unframed(start: &[u8]) -> Result<Option<Frame>, ProviderFailure> {
    if start.iter().all(u8::is_ascii_whitespace) || start.starts_with(b":") {
        return Ok(None);
    }
    parse_whole(start).map(Some)
}

fn parse_whole(body: &[u8]) -> Result<Frame, ProviderFailure> {
    let text = String::from_utf8_lossy(body);
    let value = match serde_json::from_str(&text) {
        // One vendor wraps the error of a stream in a list.
        Ok(Value::Array(items)) => items.into_iter().next().unwrap_or_default(),
        Ok(value) => value,
        Err(_) => Value::Null,
    };
    if value.is_object() {
        Ok(Frame {
            event: String::new(),
            data: value.to_string(),
        })
    } else {
        Err(ProviderFailure::not_a_stream(200, &text))
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    /// Takes everything and says nothing, and claims to keep so many bytes.
    struct Silent(usize);

    impl Decoder for Silent {
        fn frame(&mut self, _: &Frame, _: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
            Ok(())
        }

        fn end(&mut self, _: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
            Ok(())
        }

        fn progress(&self) -> AnswerProgress {
            AnswerProgress::Open
        }

        fn kept_bytes(&self) -> usize {
            self.0
        }
    }

    /// Returns the failure's text for an answer that repeats a piece without end.
    fn given_up(decoder: Silent, media_type: &str, piece: &[u8]) -> String {
        let mut body = AnswerBody::new(Box::new(decoder), media_type, None);
        let mut taken = (0..1_000).map(|_| body.take(piece, &mut Vec::new()));
        let failure = taken.find_map(Result::err);
        failure.expect("it is given up").said
    }

    #[test]
    fn sse_5_an_answer_without_end_is_given_up() {
        let comment = [b": ".as_slice(), &[b'x'; 1024 * 1024], b"\n"].concat();
        assert_eq!(
            given_up(Silent(0), "text/event-stream", &comment),
            "it exceeds 536870912 bytes"
        );
    }

    #[test]
    fn sse_5_an_answer_that_is_kept_is_bounded_more_closely() {
        let whole = [b' '; 1024 * 1024];
        assert_eq!(
            given_up(Silent(0), "application/json", &whole),
            "it exceeds 67108864 bytes"
        );
        let kept = Silent(PROVIDER_ANSWER_BYTES_MAX + 1);
        assert_eq!(
            given_up(kept, "text/event-stream", b"data: {}\n\n"),
            "it exceeds 67108864 bytes"
        );
    }

    #[test]
    fn sse_5_what_is_kept_of_a_page_is_bounded() {
        let mut body = AnswerBody::new(Box::new(Silent(0)), "text/event-stream", None);
        for _ in 0..200 {
            body.take(&[b'x'; 1024], &mut Vec::new()).expect("it is small");
        }
        let BodyForm::Events { start, .. } = &body.form else {
            panic!("it is a stream")
        };
        assert_eq!(start.len(), PROVIDER_ERROR_BYTES_MAX);
    }
}
