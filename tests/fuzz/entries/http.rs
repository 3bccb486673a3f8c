//! Fuzz target: requests with hostile bodies, addresses and headers, and the framing of events.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderValue, Uri, header};

use super::{auth, body, sse};
use crate::limits;
use tool_context::SelectionFilter;
use tool_core::api::{Event, ExecuteRequest};
use tool_skill::policy::{EffectCause, Policy};

/// Checks that a body parses or yields a bounded message, and that headers never panic and never admit a client by
/// accident.
pub(crate) fn requests(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match body::parse::<ExecuteRequest>(bytes) {
        Ok(request) => {
            let _ = Policy::new(EffectCause::Operation(request.operation), &request.policy);
            let _ = SelectionFilter::new(&request.selection);
            let written = serde_json::to_value(&request).expect("a request is JSON");
            let again: ExecuteRequest = body::parse(written.to_string().as_bytes()).expect("what was read reads again");
            assert_eq!(serde_json::to_value(&again).ok(), Some(written));
        }
        Err(problem) => assert!(
            problem.message.len() <= 8 * bytes.len() + 1_000,
            "a message of {} bytes",
            problem.message.len()
        ),
    }
    if let Ok(uri) = text.parse::<Uri>() {
        let _ = body::check_encoding(&uri);
    }
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        let headers = HeaderMap::from_iter([
            (header::HeaderName::from_static("last-event-id"), value.clone()),
            (header::AUTHORIZATION, value),
        ]);
        let _ = sse::last_event_id(&headers);
        assert!(!auth::has_token(&headers, ""), "an empty token lets everybody in");
    }
    let (peer, ours) = (
        SocketAddr::from(([127, 0, 0, 1], 50_000)),
        SocketAddr::from(([127, 0, 0, 1], 8_000)),
    );
    if tool_socket::table::find_owner(&text, peer, ours).is_some() {
        assert!(
            text.contains("0100007F") || text.contains("0100007f"),
            "nobody has this connection"
        );
    }
}

/// Checks that an event is one frame in either form: no text in it starts a new line.
pub(crate) fn one_frame(seq: u64, event: &Event) {
    for form in [sse::StreamForm::Reference, sse::StreamForm::Architecture] {
        for strict in [false, true] {
            let frame = sse::encode_event(sse::StreamStyle { form, strict }, seq, event, "model");
            let body = frame.strip_suffix("\n\n").expect("a frame ends in an empty line");
            let lines = body.split(['\n', '\r']).count();
            assert_eq!(lines, if strict { 1 } else { 2 }, "{frame:?}");
            assert!(frame.len() < limits::SSE_FRAME_BYTES_MAX);
        }
    }
}
