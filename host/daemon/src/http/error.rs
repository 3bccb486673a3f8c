//! The error of all routes: a problem with the HTTP status of its kind.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use tool_core::api::{ErrorBody, ErrorKind, Problem};

/// A problem as a response.
#[derive(Debug)]
pub(super) struct ApiError(pub(super) Problem);

/// Kind of the problem in a response, for the access log.
#[derive(Debug, Clone)]
pub(super) struct ReportedKind(pub(super) ErrorKind);

/// Result of a handler.
pub(super) type HandlerResult<T> = Result<T, ApiError>;

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = http_status(&self.0.kind);
        let told = ReportedKind(self.0.kind.clone());
        let mut response = (status, Json(ErrorBody { error: self.0 })).into_response();
        response.extensions_mut().insert(told);
        if status == StatusCode::UNAUTHORIZED {
            let challenge = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

fn http_status(kind: &ErrorKind) -> StatusCode {
    StatusCode::from_u16(kind.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
