//! What every request passes before any route sees it: Host, Origin, preflight, and who is asking.
//!
//! A web page in the user's browser and another user of the machine are the ones to keep out. The decisions are pure
//! functions of headers and settings.

use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::AppState;
use super::auth::{self, Caller};
use super::body::check_encoding;
use super::error::ApiError;
use super::listener::Peer;
use crate::api::{Overrides, Problem};
use crate::config::{Auth, ServerSettings};

/// Names of the answer's headers that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static("x-session-id, x-approval-secret");

/// The middleware of every route.
pub(super) async fn gate(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let _answering = peer.map(|ConnectInfo(peer)| peer.answering());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let origin = match admit(&state, &request) {
        Ok(origin) => origin,
        Err(problem) => {
            tracing::warn!(%method, path, code = problem.code, "refused");
            return finish(ApiError(problem).into_response(), None);
        }
    };
    if let Some(origin) = origin.as_ref().filter(|_| is_preflight(&request)) {
        return finish(preflight(request.headers()), Some(origin));
    }
    let caller = identify(&state, &request);
    let response = match caller.and_then(|caller| check_encoding(request.uri()).map(|()| caller)) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            answered(next.run(request)).await
        }
        Err(problem) => ApiError(problem).into_response(),
    };
    tracing::info!(%method, path, status = response.status().as_u16(), "request");
    finish(response, origin.as_ref())
}

/// The answer of the routes. A panic in one is a bug, and is answered as one instead of with a broken connection.
async fn answered(answer: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a request was not answered: its handler panicked");
        ApiError(Problem::new("internal", "The backend failed; its log says more")).into_response()
    })
}

/// Checks Host and Origin. Answers with the listed origin that the request names, where it names one.
fn admit(state: &AppState, request: &Request) -> Result<Option<HeaderValue>, Problem> {
    let headers = request.headers();
    let host = host_of(headers, request.uri()).unwrap_or_default();
    if !is_allowed_host(&host, state.port(), &state.server().hosts) {
        return Err(
            Problem::new("host-not-allowed", format!("The host `{host}` is not served here"))
                .with_hint("name it in `hosts` of [server] in config.toml, or use localhost"),
        );
    }
    let origin = headers.get(header::ORIGIN);
    let listed = origin.filter(|origin| is_allowed_origin(origin, state.port(), state.server()));
    if origin.is_some() && listed.is_none() {
        return Err(refused_origin("The page's origin is not one that may use this server"));
    }
    // Browsers that send no Origin with a request still say where it comes from.
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if listed.is_none() && !matches!(site, None | Some(b"same-origin" | b"none")) {
        return Err(refused_origin("A page of another site may not use this server"));
    }
    Ok(listed.cloned())
}

fn refused_origin(message: &str) -> Problem {
    Problem::new("origin-not-allowed", message)
        .with_hint("name its origin in `cors_origins` of [server] in config.toml")
}

/// The name that the request is for: its Host header, or the authority of its URI.
fn host_of(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().map(str::to_owned),
        (None, None) => uri.authority().map(|authority| authority.as_str().to_owned()),
        _ => None,
    }
}

/// True for a loopback name or address at our port, and for a configured name, with its port where that has one.
fn is_allowed_host(host: &str, port: u16, allowed: &[String]) -> bool {
    let (name, given) = split_port(host);
    let listed = |entry: &String| entry.eq_ignore_ascii_case(host) || entry.eq_ignore_ascii_case(name);
    (is_loopback(name) && given.unwrap_or("80").parse() == Ok(port)) || (!name.is_empty() && allowed.iter().any(listed))
}

/// A host and its port, which is absent where none is written. An IPv6 address keeps its brackets.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

fn is_loopback(name: &str) -> bool {
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// True for our own origins and for the configured ones.
fn is_allowed_origin(origin: &HeaderValue, port: u16, server: &ServerSettings) -> bool {
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    let listed = |entry: &String| entry.trim_end_matches('/').eq_ignore_ascii_case(origin);
    let own = origin
        .strip_prefix("http://")
        .is_some_and(|host| is_allowed_host(host, port, &[]));
    own || server.cors_origins.iter().any(listed)
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
    let allowed = HeaderValue::from_static("authorization, content-type, last-event-id");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if asked.contains_key("access-control-request-private-network") {
        headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    }
    response
}

/// Who is asking. `/identity` is open: it is how a client finds out whom it talks to, before it sends the token.
fn identify(state: &AppState, request: &Request) -> Result<Option<Caller>, Problem> {
    if auth::has_token(request.headers(), state.token()) {
        return Ok(Some(Caller::Token));
    }
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let is_same_user = peer.is_some_and(|ConnectInfo(peer)| peer.is_same_user());
    if state.server().auth == Auth::SameUser && is_same_user {
        return Ok(Some(Caller::SameUser));
    }
    if matches!(request.uri().path(), "/identity" | "/api/identity") {
        return Ok(None);
    }
    // Where the file that says who needs the token cannot be understood, that is what its owner has to know.
    if is_same_user {
        state.common(&state.environment(&Overrides::default()))?;
    }
    Err(
        Problem::new("unauthorized", "This server needs its token").with_hint(format!(
            "send the header `Authorization: Bearer TOKEN` with the content of {}",
            state.home().join("token").display()
        )),
    )
}

fn finish(mut response: Response, origin: Option<&HeaderValue>) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_loopback_at_our_port_or_configured() {
        let allowed = ["tool.example".to_owned(), "box:9000".to_owned()];
        let is = |host: &str| is_allowed_host(host, 8000, &allowed);
        for host in [
            "localhost:8000",
            "LocalHost:8000",
            "127.0.0.1:8000",
            "127.9.9.9:8000",
            "[::1]:8000",
        ] {
            assert!(is(host), "{host}");
        }
        assert!(is("tool.example") && is("tool.example:1234") && is("box:9000"));
        for host in [
            "",
            ":8000",
            "localhost",
            "localhost:8001",
            "evil.example:8000",
            "localhost.evil.example:8000",
            "127.0.0.1.evil.example:8000",
            "evil.example",
            "box",
            "box:9001",
            "[::2]:8000",
            "0.0.0.0:8000",
            "localhost:8000@evil",
        ] {
            assert!(!is(host), "{host}");
        }
        assert!(is_allowed_host("localhost", 80, &[]));
    }

    #[test]
    fn origins_are_our_own_or_configured() {
        let server = ServerSettings {
            cors_origins: vec!["http://localhost:5173".into(), "https://app.example/".into()],
            ..ServerSettings::default()
        };
        let is = |origin: &str| is_allowed_origin(&origin.parse().expect("a header"), 8000, &server);
        assert!(is("http://localhost:8000") && is("http://127.0.0.1:8000"));
        assert!(is("http://localhost:5173") && is("https://app.example"));
        assert!(!is("null") && !is("http://localhost:3000") && !is("https://localhost:8000"));
        assert!(!is("http://evil.example") && !is("https://app.example.evil.example"));
    }
}
