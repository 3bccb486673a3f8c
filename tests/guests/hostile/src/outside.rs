//! Requests, settings and lasting values through the interfaces of WASI, for guests of the tests.
//!
//! Each function tells what came of it: an error is the name of the interface's code.
#![allow(missing_docs, unused_qualifications, reason = "generated")]

wit_bindgen::generate!({
    path: "../../wit",
    inline: "
        package guest:outside;
        world outside {
            import wasi:http/outgoing-handler@0.2.12;
            import wasi:config/store@0.2.0-rc.1;
            import wasi:keyvalue/store@0.2.0-draft;
        }
    ",
    world: "guest:outside/outside",
    generate_all,
});

use std::fmt::Debug;

use wasi::http::outgoing_handler;
use wasi::http::types::{Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme};
use wasi::io::streams::StreamError;
use wasi::keyvalue::store;

/// A request to send.
pub(crate) struct Message<'a> {
    pub(crate) method: &'a str,
    /// `https://AUTHORITY/PATH`.
    pub(crate) url: &'a str,
    /// `NAME: VALUE`.
    pub(crate) headers: &'a [String],
    pub(crate) body: &'a [u8],
}

/// The name of an error, without its details.
fn name(error: &impl Debug) -> String {
    let text = format!("{error:?}");
    let text = text.strip_prefix("ErrorCode::").or(text.strip_prefix("HeaderError::"));
    text.map_or_else(|| format!("{error:?}"), str::to_owned)
}

fn method(name: &str) -> Method {
    match name {
        "" | "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "DELETE" => Method::Delete,
        "CONNECT" => Method::Connect,
        other => Method::Other(other.to_owned()),
    }
}

/// Sends a request. Returns the status, the header fields and the body as one text.
pub(crate) fn request(message: &Message<'_>) -> Result<String, String> {
    let fields = Fields::new();
    for header in message.headers {
        let (field, value) = header.split_once(": ").unwrap_or((header, ""));
        fields.append(field, value.as_bytes()).map_err(|error| name(&error))?;
    }
    let (scheme, rest) = match message.url.split_once("://") {
        Some(("http", rest)) => (Scheme::Http, rest),
        Some((_, rest)) => (Scheme::Https, rest),
        None => (Scheme::Https, message.url),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let request = OutgoingRequest::new(fields);
    let refused = |part: &'static str| move |()| part.to_owned();
    request.set_method(&method(message.method)).map_err(refused("method"))?;
    request.set_scheme(Some(&scheme)).map_err(refused("scheme"))?;
    request.set_authority(Some(authority)).map_err(refused("authority"))?;
    request.set_path_with_query(Some(path)).map_err(refused("path"))?;
    let body = if message.body.is_empty() {
        None
    } else {
        Some(request.body().map_err(refused("body"))?)
    };
    let response = outgoing_handler::handle(request, None::<RequestOptions>).map_err(|error| name(&error))?;
    if let Some(body) = body {
        let stream = body.write().map_err(refused("stream"))?;
        for chunk in message.body.chunks(4096) {
            stream.blocking_write_and_flush(chunk).map_err(|error| name(&error))?;
        }
        drop(stream);
        OutgoingBody::finish(body, None).map_err(|error| name(&error))?;
    }
    response.subscribe().block();
    let response = match response.get() {
        Some(Ok(response)) => response.map_err(|error| name(&error))?,
        _ => return Err("no response".to_owned()),
    };
    let mut text = format!("{}\n", response.status());
    for (field, value) in response.headers().entries() {
        text.push_str(&format!("{field}: {}\n", String::from_utf8_lossy(&value)));
    }
    let body = response.consume().map_err(refused("consumed"))?;
    let stream = body.stream().map_err(refused("stream"))?;
    text.push('\n');
    loop {
        match stream.blocking_read(64 * 1024) {
            Ok(bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
            Err(StreamError::Closed) => break,
            Err(error) => return Err(name(&error)),
        }
    }
    drop(stream);
    drop(IncomingBody::finish(body));
    Ok(text)
}

/// A setting of this skill.
pub(crate) fn setting(key: &str) -> Result<Option<String>, String> {
    wasi::config::store::get(key).map_err(|error| format!("{error:?}"))
}

/// All settings of this skill, as `KEY=VALUE`.
pub(crate) fn settings() -> Result<Vec<String>, String> {
    let all = wasi::config::store::get_all().map_err(|error| format!("{error:?}"))?;
    Ok(all.into_iter().map(|(key, value)| format!("{key}={value}")).collect())
}

fn bucket(name: &str) -> Result<store::Bucket, String> {
    store::open(name).map_err(kept_error)
}

fn kept_error(error: store::Error) -> String {
    match error {
        store::Error::Other(reason) => reason,
        error => format!("{error:?}"),
    }
}

/// A value that was kept in a bucket.
pub(crate) fn kept(name: &str, key: &str) -> Result<Option<String>, String> {
    let value = bucket(name)?.get(key).map_err(kept_error)?;
    Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

/// Keeps a value in a bucket.
pub(crate) fn keep(name: &str, key: &str, value: &[u8]) -> Result<(), String> {
    bucket(name)?.set(key, value).map_err(kept_error)
}

/// Keys of a bucket.
pub(crate) fn kept_keys(name: &str) -> Result<Vec<String>, String> {
    let bucket = bucket(name)?;
    let (mut keys, mut cursor) = (Vec::new(), None);
    loop {
        let page = bucket.list_keys(cursor).map_err(kept_error)?;
        keys.extend(page.keys);
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(keys);
        }
    }
}
