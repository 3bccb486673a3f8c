//! The arena's server: it echoes each request in header and body, and opens no connection.

use std::io::Write;
use std::sync::mpsc::{self, Receiver};

use tokio_util::sync::CancellationToken;
use tool_skill::{HttpTransport, InboundResponse, OutboundRequest, TransportError};

/// Answers each request with itself.
#[derive(Debug)]
pub(super) struct EchoTransport;

impl HttpTransport for EchoTransport {
    fn send(
        &self,
        request: OutboundRequest,
        _: CancellationToken,
    ) -> Receiver<Result<InboundResponse, TransportError>> {
        let (sender, receiver) = mpsc::channel();
        let mut body = format!("{} {}{}\n", request.method, request.host, request.path_with_query).into_bytes();
        for (name, value) in &request.fields {
            // Writing to memory cannot fail.
            let _ = writeln!(body, "{name}: {}", String::from_utf8_lossy(value));
        }
        body.extend_from_slice(&request.body);
        let mut fields = request.fields;
        if request.path_with_query.ends_with("/compressed") {
            fields.push(("content-encoding".to_owned(), b"gzip".to_vec()));
        }
        // The receiver is there until this returns.
        let _ = sender.send(Ok(InboundResponse {
            status: 200,
            fields,
            body,
        }));
        receiver
    }
}
