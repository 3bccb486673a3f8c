//! The one error of all routes: a problem with the status that belongs to its code.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::{ErrorBody, Problem};

/// A problem as an answer.
#[derive(Debug)]
pub(super) struct ApiError(pub(super) Problem);

/// The code of the problem that a response tells, for the access log.
#[derive(Debug, Clone)]
pub(super) struct Code(pub(super) String);

/// What a handler answers.
pub(super) type Answer<T> = Result<T, ApiError>;

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = status(&self.0.code);
        let code = Code(self.0.code.clone());
        let mut response = (status, Json(ErrorBody { error: self.0 })).into_response();
        response.extensions_mut().insert(code);
        if status == StatusCode::UNAUTHORIZED {
            let challenge = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// The status of a problem's code. What is not named here is a bad request: the rest of the codes say what a caller
/// did wrong.
fn status(code: &str) -> StatusCode {
    match code {
        "unauthorized" => StatusCode::UNAUTHORIZED,
        "forbidden" | "host-not-allowed" | "origin-not-allowed" => StatusCode::FORBIDDEN,
        "refused-repository" | "scan-failed" | "file-not-accessible" => StatusCode::FORBIDDEN,
        "not-found" | "file-not-found" | "nothing-changed" => StatusCode::NOT_FOUND,
        "invalid-repository" | "empty-repository" => StatusCode::NOT_FOUND,
        "method-not-allowed" => StatusCode::METHOD_NOT_ALLOWED,
        "provider-mismatch" | "session-ended" | "session-running" => StatusCode::CONFLICT,
        "nothing-to-undo" | "undo-failed" => StatusCode::CONFLICT,
        "body-too-large" => StatusCode::PAYLOAD_TOO_LARGE,
        "unsupported-media-type" => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        // The request is right and would work, were the backend configured, idle or able to write.
        "busy" | "stopping" | "journal-failed" => StatusCode::SERVICE_UNAVAILABLE,
        code if code.starts_with("config-") => StatusCode::SERVICE_UNAVAILABLE,
        "scan-timeout" => StatusCode::GATEWAY_TIMEOUT,
        "internal" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}
