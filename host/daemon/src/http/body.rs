//! Reads JSON bodies, query strings and paths with limits. The errors say what was wrong.

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use crate::limits;
use tool_core::api::{ErrorKind, Problem};
use tool_core::text::{nearest_key, percent_decode};

/// Bytes that are read of a body that is already too large. A client that is still sending would otherwise see a
/// broken connection instead of the answer.
const BODY_DRAINED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Seconds within which a body must arrive.
const BODY_SECONDS_MAX: u64 = 30;

/// Extractor for a JSON body.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(not_json().into());
        }
        let bytes = read_bounded_body(request.into_body(), limits::BODY_BYTES_MAX).await?;
        Ok(Self(parse(&bytes)?))
    }
}

/// Extractor for a query string.
pub(super) struct QueryOf<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryOf<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let Query(value) = Query::try_from_uri(&parts.uri).map_err(|error| {
            let message = error.body_text();
            let message = message
                .strip_prefix("Failed to deserialize query string: ")
                .unwrap_or(&message);
            problem_of("query", message)
        })?;
        Ok(Self(value))
    }
}

/// Extractor for the one variable part of a path, decoded.
pub(super) struct PathOf(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathOf {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, state).await;
        let Path(value) = path.map_err(|rejection| problem_of("path", &rejection.body_text()))?;
        Ok(Self(value))
    }
}

/// Refuses an address whose decoded path or query is not UTF-8, or that has an invalid `%`: it could decode to
/// something that the client did not mean.
pub(super) fn check_encoding(uri: &Uri) -> Result<(), Problem> {
    for (what, text) in [("path", uri.path()), ("query", uri.query().unwrap_or_default())] {
        if percent_decode(text).is_none() {
            let message = format!("Invalid {what}: `{text}` is not UTF-8 in percent-encoding");
            return Err(Problem::new(ErrorKind::InvalidRequest, message));
        }
    }
    Ok(())
}

/// Refuses query parameters, for routes without any: a client that sends one expects an effect.
pub(super) async fn no_query(request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let name = query.split(['=', '&']).next().unwrap_or_default();
    if query.is_empty() {
        return next.run(request).await;
    }
    let problem = Problem::new(
        ErrorKind::InvalidRequest,
        format!("Invalid query: unknown parameter `{name}`"),
    )
    .with_hint("this route takes none");
    ApiError(problem).into_response()
}

/// Refuses media types other than JSON, even for routes without a body: a page may send texts and forms to any server
/// without a preflight.
pub(super) fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::CONTENT_TYPE) && !is_json(headers) {
        Err(not_json())
    } else {
        Ok(())
    }
}

fn not_json() -> Problem {
    Problem::new(
        ErrorKind::UnsupportedMediaType,
        "The body must be JSON, and say so by its content type",
    )
    .with_hint("send the header `Content-Type: application/json`")
}

/// True for `application/json` and types that end in `+json`, with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| {
        let essence = essence.to_ascii_lowercase();
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
    })
}

/// Reads a body, up to the limits for time and size.
pub(super) async fn read_bounded_body(body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let patience = limits::seconds(BODY_SECONDS_MAX);
    let collected = tokio::time::timeout(patience, collect_body(body, bytes_max)).await;
    collected.unwrap_or_else(|_| {
        Err(Problem::new(
            ErrorKind::InvalidRequest,
            "The body did not arrive in time",
        ))
    })
}

async fn collect_body(body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let (mut bytes, mut received) = (Vec::new(), 0);
    let mut stream = body.into_data_stream();
    while let Some(piece) = stream.next().await {
        let piece =
            piece.map_err(|error| Problem::new(ErrorKind::InvalidRequest, format!("The body broke off: {error}")))?;
        received += piece.len();
        if received <= bytes_max {
            bytes.extend_from_slice(&piece);
        } else if received > BODY_DRAINED_BYTES_MAX {
            break;
        }
    }
    if received > bytes_max {
        let message = format!("The body is larger than {bytes_max} bytes");
        return Err(Problem::new(ErrorKind::BodyTooLarge, message));
    }
    Ok(bytes)
}

/// Parses a body. The error says where and why that failed.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would also accept an array of the fields' values, which the API does not document.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(problem_of("body", "an array where an object is expected"));
    }
    serde_json::from_slice(bytes).map_err(|error| problem_of("body", &error.to_string()))
}

fn problem_of(what: &str, message: &str) -> Problem {
    let problem = Problem::new(ErrorKind::InvalidRequest, format!("Invalid {what}: {message}"));
    match nearest_key(message) {
        Some(near) => problem.with_hint(format!("did you mean `{near}`?")),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tool_core::api::ExecuteRequest;

    fn problem(text: &str) -> (String, Option<String>) {
        let problem = parse::<ExecuteRequest>(text.as_bytes()).expect_err("the body is wrong");
        assert_eq!(problem.kind, ErrorKind::InvalidRequest);
        (problem.message, problem.hint)
    }

    #[test]
    fn a_wrong_body_is_answered_with_what_is_wrong() {
        let (message, hint) = problem(r#"{"operation": "explain", "repo_path": "/r", "targt": "x"}"#);
        assert!(message.starts_with("Invalid body: unknown field `targt`"), "{message}");
        assert_eq!(hint.as_deref(), Some("did you mean `target`?"));
        let (message, hint) = problem(r#"{"operation": "explian", "repo_path": "/r"}"#);
        assert!(message.contains("unknown variant `explian`"), "{message}");
        assert_eq!(hint.as_deref(), Some("did you mean `explain`?"));
        let (message, hint) = problem(r#"{"operation": "explain"}"#);
        assert!(message.contains("missing field `repo_path`"), "{message}");
        assert_eq!(hint, None);
        let (message, _) = problem(r#"["explain", ".", "/r"]"#);
        assert!(message.contains("an object is expected"), "{message}");
        let (message, _) = problem("{");
        assert!(message.contains("line 1 column 1"), "{message}");
    }

    #[test]
    fn an_address_is_utf_8_in_percent_encoding() {
        for right in ["/", "/a%20b", "/%C3%A9?x=%00", "/?q=%25", "/?a+b&c=d=e"] {
            assert!(check_encoding(&right.parse().expect("an address")).is_ok(), "{right}");
        }
        for wrong in ["/%", "/%2", "/%zz", "/%+1", "/%ff", "/%c3%28", "/?x=%", "/?x=%fe"] {
            assert!(check_encoding(&wrong.parse().expect("an address")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_json_is_json() {
        let is = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(value));
            is_json(&headers)
        };
        assert!(is("application/json") && is("Application/JSON; charset=utf-8") && is("application/ld+json"));
        assert!(!is("text/plain") && !is("application/x-www-form-urlencoded") && !is("text/json+json"));
        assert!(!is_json(&HeaderMap::new()));
    }

    fn request(body: Body) -> Request {
        let request = Request::builder().header(header::CONTENT_TYPE, "application/json");
        request.body(body).expect("the request is right")
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let _hurried = limits::pace::hurried(300);
        let body = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let waited = JsonBody::<serde_json::Value>::from_request(request(body), &());
        let patience = Duration::from_secs(10);
        let ended = tokio::time::timeout(patience, waited).await.expect("it is given up");
        let problem = ended.err().expect("nothing came").0;
        assert_eq!(problem.message, "The body did not arrive in time");
    }

    #[tokio::test]
    async fn of_a_body_that_never_ends_a_bounded_part_is_taken() {
        let piece = vec![b' '; 1024 * 1024];
        let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = std::sync::Arc::clone(&taken);
        let pieces = futures_util::stream::iter(std::iter::repeat_with(move || {
            let pieces = 1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if pieces <= 200 {
                Ok(piece.clone())
            } else {
                Err(std::io::Error::other("more is taken than anybody needs"))
            }
        }));
        let ended = JsonBody::<serde_json::Value>::from_request(request(Body::from_stream(pieces)), &()).await;
        assert_eq!(ended.err().expect("it is too large").0.kind, ErrorKind::BodyTooLarge);
        let taken = taken.load(std::sync::atomic::Ordering::Relaxed) * 1024 * 1024;
        assert!(taken <= BODY_DRAINED_BYTES_MAX + 2 * 1024 * 1024, "{taken}");
    }
}
