//! Requests over HTTP. Effects: `http:HOST`, and `http-write:HOST` for methods other than GET and HEAD.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::Failure;

/// A request to a host that the skill declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// `https://HOST/PATH`.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Content; empty for none.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// A request with this method, without headers and content.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            ..Self::default()
        }
    }

    /// Adds a header. The host replaces `{{secret:NAME}}` in its value by a secret that the skill declares; the skill
    /// never sees that.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds the content.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

/// The response of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpResponse {
    /// `200`, `404` and so on.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Content.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// The content as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Reads the content as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::failed(format!("the server's answer is not the expected JSON: {error}")))
    }
}
