//! HTTP requests. Effects: `http:HOST`, and `http-write:HOST` for methods other than GET and HEAD.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::Failure;

/// A request to a host that the skill declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// Method, for example `GET`.
    pub method: String,
    /// URL of the form `https://HOST/PATH`.
    pub url: String,
    /// Names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// Content; empty if there is none.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// Creates a request without headers and content.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            ..Self::default()
        }
    }

    /// Adds a header. The host replaces `{{secret:NAME}}` in its value by a secret that the skill declares. The skill
    /// never sees the secret.
    ///
    /// ```
    /// use skill_sdk::HttpRequest;
    ///
    /// let request = HttpRequest::new("POST", "https://api.example.org/notes")
    ///     .with_header("authorization", "Bearer {{secret:EXAMPLE_TOKEN}}")
    ///     .with_body("a note");
    /// assert_eq!(request.headers.len(), 1);
    /// ```
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the content.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

/// The response of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status code, for example 404.
    pub status: u16,
    /// Names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// Content of the response.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// The content as text. Bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Reads the content as JSON.
    ///
    /// # Errors
    ///
    /// [`code::FAILED`](crate::code::FAILED) if the content is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::failed(format!("the server's answer is not the expected JSON: {error}")))
    }
}
