//! Event streams: the encoding of events in either form, and the body that follows a session.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;

use super::listener::Peer;
use crate::limits;
use tool_core::api::{ArchitectureEvent, Event};
use tool_session::SessionStream;

/// Seconds between two comments on a quiet stream. Proxies commonly time out after 30 or 60.
const HEARTBEAT_SECONDS: u64 = 15;

/// Form of a stream: one of the specification's two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StreamForm {
    /// `token`, `skill`, `complete`, `error`.
    Reference,
    /// `output`, `skill`, `done`, `error`.
    Architecture,
}

/// Format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamStyle {
    pub(super) form: StreamForm,
    /// True for bare `data:` lines, without ids and comments.
    pub(super) strict: bool,
}

/// Encodes an event: its id unless strict, one `data:` line, and an empty line.
pub(super) fn encode_event(style: StreamStyle, seq: u64, event: &Event, model: &str) -> String {
    let data = match style.form {
        StreamForm::Reference => serde_json::to_string(event),
        StreamForm::Architecture => match architecture_event(event, model) {
            Some(event) => serde_json::to_string(&event),
            None => serde_json::to_string(event),
        },
    };
    let data = data.expect("events have string keys only");
    if style.strict {
        format!("data: {data}\n\n")
    } else {
        format!("id: {seq}\ndata: {data}\n\n")
    }
}

/// Converts an event to the architecture's form; `None` for events that this form does not have, which stay
/// unchanged.
fn architecture_event(event: &Event, model: &str) -> Option<ArchitectureEvent> {
    let model = model.to_owned();
    match event {
        Event::Token { content } => Some(ArchitectureEvent::Output {
            content: content.clone(),
            model,
        }),
        Event::Complete { .. } => Some(ArchitectureEvent::Done {
            status: "completed".to_owned(),
            model,
        }),
        _ => None,
    }
}

/// Returns the `Last-Event-ID` of a reader that reconnects; 0 for the beginning.
pub(super) fn last_event_id(headers: &HeaderMap) -> u64 {
    let value = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Creates a response that follows a session to its end.
pub(super) fn stream_response(
    stream: SessionStream,
    style: StreamStyle,
    peer: Option<ConnectInfo<Peer>>,
) -> Response<Body> {
    let mark = peer.map(|ConnectInfo(peer)| peer.long_answer());
    let model: Arc<str> = stream.model().into();
    // Events that were read and not sent yet. Texts are added only when their event is sent.
    let waiting = VecDeque::new();
    let pieces = stream::unfold((stream, waiting, mark, model), move |state| async move {
        let (mut stream, mut waiting, mark, model) = state;
        let patience = limits::seconds(HEARTBEAT_SECONDS);
        let piece = loop {
            if !waiting.is_empty() {
                let events = stream.take_with_texts(&mut waiting).await;
                let frames = events
                    .iter()
                    .map(|(seq, event)| encode_event(style, *seq, event, &model));
                break frames.collect::<String>();
            }
            match tokio::time::timeout(patience, stream.next()).await {
                Ok(None) => return None,
                Ok(Some(batch)) => waiting = batch.into(),
                Err(_) if style.strict => {}
                Err(_) => break ": heartbeat\n\n".to_owned(),
            }
        };
        Some((
            Ok::<_, std::convert::Infallible>(Bytes::from(piece)),
            (stream, waiting, mark, model),
        ))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Some proxies buffer answers and would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(form: StreamForm, strict: bool) -> String {
        let events = [
            Event::Token { content: "a\nb".into() },
            Event::Skill {
                name: "read_file".into(),
                args: json!({"path": "a.py"}),
                call_id: Some("c1".into()),
            },
            Event::Error {
                code: tool_core::api::ErrorKind::Failed,
                message: "m".into(),
                hint: None,
            },
            Event::Complete { session_id: "s".into() },
        ];
        let style = StreamStyle { form, strict };
        let numbered = events.iter().zip(4..);
        numbered
            .map(|(event, seq)| encode_event(style, seq, event, "some-model"))
            .collect()
    }

    #[test]
    fn the_reference_form() {
        insta::assert_snapshot!(written(StreamForm::Reference, false), @r#"
        id: 4
        data: {"type":"token","content":"a\nb"}

        id: 5
        data: {"type":"skill","name":"read_file","args":{"path":"a.py"},"call_id":"c1"}

        id: 6
        data: {"type":"error","code":"failed","message":"m"}

        id: 7
        data: {"type":"complete","session_id":"s"}
        "#);
    }

    #[test]
    fn the_architecture_form_strictly() {
        insta::assert_snapshot!(written(StreamForm::Architecture, true), @r#"
        data: {"type":"output","content":"a\nb","model":"some-model"}

        data: {"type":"skill","name":"read_file","args":{"path":"a.py"},"call_id":"c1"}

        data: {"type":"error","code":"failed","message":"m"}

        data: {"type":"done","status":"completed","model":"some-model"}
        "#);
    }

    #[test]
    fn a_last_event_id_that_is_no_number_means_the_beginning() {
        let id = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("last-event-id", value.parse().expect("a header"));
            last_event_id(&headers)
        };
        assert_eq!((id("17"), id("x"), id("")), (17, 0, 0));
    }
}
