//! Sends one request through `wasi:http`.

use crate::component::bindings::wasi::http::outgoing_handler;
use crate::component::bindings::wasi::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    Scheme,
};
use crate::component::bindings::wasi::io::streams::StreamError;
use crate::{Failure, HttpRequest, HttpResponse, code};

/// Bytes in one write: `blocking-write-and-flush` takes at most 4096.
const CHUNK_BYTES: usize = 4096;

/// Limit for the bytes of one read.
const READ_BYTES: u64 = 64 * 1024;

pub(crate) fn send(request: &HttpRequest) -> Result<HttpResponse, Failure> {
    let sent = outgoing_request(request)?;
    let body = if request.body.is_empty() {
        None
    } else {
        Some(sent.body().map_err(|()| invalid("content"))?)
    };
    let failed = |reason: String| {
        let message = format!("{} {}: {reason}", request.method, request.url);
        Failure::new(code::UNAVAILABLE, message)
    };
    let future = outgoing_handler::handle(sent, None).map_err(|error| failed(reason_of(&error)))?;
    if let Some(body) = body {
        write(body, &request.body).map_err(failed)?;
    }
    wait(&future).and_then(read).map_err(failed)
}

fn outgoing_request(request: &HttpRequest) -> Result<OutgoingRequest, Failure> {
    let fields = Fields::new();
    for (name, value) in &request.headers {
        let appended = fields.append(name, value.as_bytes());
        appended.map_err(|_| invalid(&format!("header `{name}`")))?;
    }
    let (scheme, rest) = match request.url.split_once("://") {
        Some(("http", rest)) => (Scheme::Http, rest),
        Some(("https", rest)) => (Scheme::Https, rest),
        _ => return Err(invalid("URL").with_hint("write `https://HOST/PATH`")),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let outgoing = OutgoingRequest::new(fields);
    let set = |part: &'static str| move |()| invalid(part);
    outgoing.set_method(&method(&request.method)).map_err(set("method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(set("scheme"))?;
    outgoing.set_authority(Some(authority)).map_err(set("host"))?;
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    outgoing.set_path_with_query(Some(&path)).map_err(set("path"))?;
    Ok(outgoing)
}

fn invalid(part: &str) -> Failure {
    Failure::invalid(format!("the {part} of the request is not valid"))
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn write(body: OutgoingBody, content: &[u8]) -> Result<(), String> {
    let stream = body.write().map_err(|()| "the content was sent already".to_owned())?;
    for chunk in content.chunks(CHUNK_BYTES) {
        stream.blocking_write_and_flush(chunk).map_err(|error| broken(&error))?;
    }
    drop(stream);
    OutgoingBody::finish(body, None).map_err(|error| reason_of(&error))
}

fn wait(future: &FutureIncomingResponse) -> Result<IncomingResponse, String> {
    future.subscribe().block();
    match future.get() {
        Some(Ok(response)) => response.map_err(|error| reason_of(&error)),
        _ => Err("there is no response".to_owned()),
    }
}

fn read(response: IncomingResponse) -> Result<HttpResponse, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let fields = response.headers().entries();
    let headers = fields.into_iter().map(|(name, value)| (name, text(value))).collect();
    let consumed = |()| "the content was read already".to_owned();
    let incoming = response.consume().map_err(consumed)?;
    let stream = incoming.stream().map_err(consumed)?;
    let mut body = Vec::new();
    loop {
        match stream.blocking_read(READ_BYTES) {
            Ok(bytes) => body.extend(bytes),
            Err(StreamError::Closed) => break,
            Err(error) => return Err(broken(&error)),
        }
    }
    drop(stream);
    drop(IncomingBody::finish(incoming));
    Ok(HttpResponse {
        status: response.status(),
        headers,
        body,
    })
}

/// The host's message for an error, or the name of the error in `wasi:http`.
fn reason_of(error: &ErrorCode) -> String {
    match error {
        ErrorCode::InternalError(Some(reason)) => reason.clone(),
        error => {
            let text = format!("{error:?}");
            text.strip_prefix("ErrorCode::").unwrap_or(&text).to_owned()
        }
    }
}

fn broken(error: &StreamError) -> String {
    format!("the connection broke: {error:?}")
}
