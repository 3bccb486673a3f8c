//! Checks of every request before any route sees it: Host, Origin, preflight, and the caller's identity.
//!
//! They keep out web pages in the user's browser, and other users of the machine. The decisions are pure functions of
//! headers and settings.

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
use super::body::{check_encoding, check_media_type};
use super::error::ApiError;
use super::listener::Peer;
use tool_config::{AuthPolicy, ServerSettings};
use tool_core::api::{ErrorKind, Overrides, Problem};

/// Response headers that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static("x-session-id, x-approval-secret, mcp-session-id");

/// Middleware for every route.
pub(super) async fn check_request(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let peer = peer.map(|ConnectInfo(peer)| peer.clone());
    let _answering = peer.as_ref().map(Peer::answering);
    let mut entry = state.traffic().begin_record(&request, peer.as_ref().map(Peer::address));
    let common = state.common_now();
    let door = AccessCheck {
        state: &state,
        server: &common.server,
        peer: peer.as_ref(),
    };
    let keep_alive = door.keep_alive(&request);
    let origin = match door.admit(&request) {
        Ok(origin) => origin,
        Err(problem) => {
            let (method, path) = (request.method(), request.uri().path());
            tracing::warn!(%method, ?path, code = %problem.kind, "refused");
            return entry.follow(finish_response(ApiError(problem).into_response(), None, keep_alive));
        }
    };
    if let Some(origin) = origin.as_ref().filter(|_| is_preflight(&request)) {
        return entry.follow(finish_response(
            answer_preflight(request.headers()),
            Some(origin),
            keep_alive,
        ));
    }
    let caller = match door.identify(&request) {
        Ok(caller) => door.look_closer(caller, request.method(), request.uri().path()).await,
        Err(problem) => Err(problem),
    };
    let caller = caller.and_then(|caller| {
        check_form(&request)?;
        // Check the connection last, so that little time passes between the check and the work.
        door.check_connection()?;
        Ok(caller)
    });
    let response = match caller {
        Ok(caller) => {
            entry.is_by(caller);
            request.extensions_mut().insert(caller);
            catch_panics(next.run(request)).await
        }
        Err(problem) => ApiError(problem).into_response(),
    };
    entry.follow(finish_response(response, origin.as_ref(), keep_alive))
}

/// What happens to a connection after its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepAlive {
    Yes,
    /// Close the connection, and read nothing more from it.
    No,
}

/// Checks the form of a request, independent of its route.
fn check_form(request: &Request) -> Result<(), Problem> {
    check_encoding(request.uri())?;
    if request.method().is_safe() {
        Ok(())
    } else {
        // A page can send without a preflight what a form can send, and JSON is not among it.
        check_media_type(request.headers())
    }
}

/// Runs the routes. A panic is a bug; the client gets an error instead of a broken connection.
async fn catch_panics(answer: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a request was not answered: its handler panicked");
        ApiError(Problem::new(
            ErrorKind::Internal,
            "The backend failed; its log says more",
        ))
        .into_response()
    })
}

/// Decides on access from the server's settings and the peer of a request.
struct AccessCheck<'a> {
    state: &'a AppState,
    server: &'a ServerSettings,
    peer: Option<&'a Peer>,
}

impl AccessCheck<'_> {
    /// Checks Host and Origin. Returns the Origin if the configuration lists it.
    fn admit(&self, request: &Request) -> Result<Option<HeaderValue>, Problem> {
        let headers = request.headers();
        let host = host_of(headers, request.uri()).unwrap_or_default();
        let ours = self.ours();
        // A Unix socket has no port to compare the name with.
        let is_own_name = self.is_over_unix() && ours.is_name(split_port(&host).0);
        if !is_own_name && !ours.is_host(&host, &self.server.hosts) {
            let (name, _) = split_port(&host);
            let hint = if ours.is_name(name) {
                format!("the port belongs to it: send `Host: {name}:{}`", ours.port)
            } else {
                "name it in `hosts` of [server] in config.toml, or use localhost".to_owned()
            };
            let problem = Problem::new(
                ErrorKind::HostNotAllowed,
                format!("The host `{host}` is not served here"),
            );
            return Err(problem.with_hint(hint));
        }
        let origin = single_header(headers, header::ORIGIN.as_str())?;
        // Browsers that send no Origin still send `Sec-Fetch-Site`.
        let site = single_header(headers, "sec-fetch-site")?.map(HeaderValue::as_bytes);
        if self.is_over_unix() {
            // No browser opens a Unix socket, so a proxy forwards the requests of a page.
            return match (origin, site) {
                (None, None | Some(b"none")) => Ok(None),
                _ => Err(Problem::new(
                    ErrorKind::OriginNotAllowed,
                    "A page may not use the socket of the command line",
                )
                .with_hint("pages use the port")),
            };
        }
        let listed = origin.filter(|origin| ours.is_origin(origin, self.server));
        if origin.is_some() && listed.is_none() {
            return Err(refused_origin("The page's origin is not one that may use this server"));
        }
        // A name such as `localhost` may lead to other addresses, where other users may serve pages.
        let is_ours = site == Some(b"same-origin") && ours.is_address(&host);
        let is_page = listed.is_none() && !is_ours && !matches!(site, None | Some(b"none"));
        if is_page {
            return Err(refused_origin("A page of another site may not use this server"));
        }
        Ok(listed.cloned())
    }

    /// Keeps the connections of our user's processes and of holders of the token. Other users get one answer: a few
    /// hundred connections with many requests each would delay the owner.
    fn keep_alive(&self, request: &Request) -> KeepAlive {
        let is_known = self.peer.is_none_or(Peer::is_same_user)
            || self.is_over_unix()
            || auth::has_token(request.headers(), self.state.token());
        if is_known { KeepAlive::Yes } else { KeepAlive::No }
    }

    fn is_over_unix(&self) -> bool {
        self.peer.is_some_and(Peer::is_over_unix)
    }

    /// Refuses a request whose connection is closed. It can get no answer, and its sender cannot be identified any
    /// more.
    fn check_connection(&self) -> Result<(), Problem> {
        if self.peer.is_some_and(Peer::is_gone) {
            Err(Problem::new(
                ErrorKind::ConnectionClosed,
                "The connection was closed before its request was read",
            ))
        } else {
            Ok(())
        }
    }

    /// Identifies the caller without examining other processes.
    fn identify(&self, request: &Request) -> Result<Caller, Problem> {
        let state = self.state;
        if self.is_over_unix() || auth::has_token(request.headers(), state.token()) {
            return Ok(Caller::Token);
        }
        // While other machines can send requests, the apparent origin of a request proves nothing.
        let is_same_user = !state.is_exposed() && self.peer.is_some_and(Peer::is_same_user);
        if self.server.auth == AuthPolicy::SameUser && is_same_user {
            return Ok(Caller::SameUser);
        }
        // Only the owner gets the error in the configuration, which decides who needs the token.
        if is_same_user {
            state.common(&state.environment(&Overrides::default()))?;
        }
        Err(
            Problem::new(ErrorKind::Unauthorized, "This server needs its token").with_hint(format!(
                "send the header `Authorization: Bearer TOKEN` with the content of {}",
                state.home().join("token").display()
            )),
        )
    }

    /// Finds out whether a caller of the same user is in our namespaces, if that matters. Refuses a caller that may
    /// not be, unless the route only reads or restricts such callers itself.
    async fn look_closer(&self, caller: Caller, method: &Method, path: &str) -> Result<Caller, Problem> {
        if caller != Caller::SameUser || only_reads(method, path) {
            return Ok(caller);
        }
        match self.peer {
            Some(peer) if peer.is_in_our_namespaces().await => Ok(Caller::OwnNamespaces),
            _ if is_narrowed_route(path) => Ok(caller),
            _ => Err(confined_caller_problem(self.state)),
        }
    }

    /// Names of this server.
    fn ours(&self) -> ServerNames {
        let reached = self
            .peer
            .and_then(Peer::ours)
            .map(|address| address.ip().to_canonical());
        ServerNames {
            port: self.state.port(),
            address: reached.filter(|_| self.state.is_exposed()),
        }
    }
}

/// True for routes that change nothing, whatever the request says.
fn only_reads(method: &Method, path: &str) -> bool {
    match without_prefix(path) {
        "/mcp" => false,
        "/scan" | "/context" => true,
        _ => method.is_safe(),
    }
}

/// True for routes that restrict a caller that may be confined, see [`super::restrict_to_reading`].
fn is_narrowed_route(path: &str) -> bool {
    let path = without_prefix(path);
    matches!(path, "/execute" | "/stream" | "/mcp" | "/mcp/connect")
        || (path.starts_with("/skills/") && path.ends_with("/call"))
}

/// Removes the prefix `/api` of a route's second address.
fn without_prefix(path: &str) -> &str {
    path.strip_prefix("/api")
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(path)
}

/// The refusal of a request that does more than read, for a caller that may be confined.
pub(super) fn confined_caller_problem(state: &AppState) -> Problem {
    let message = "This request does more than read, and needs the token: the process that sent it is not known to be in \
        the backend's own mount, user and PID namespaces, and under no other seccomp or Landlock rules";
    Problem::new(ErrorKind::Unauthorized, message).with_hint(format!(
        "send the header `Authorization: Bearer TOKEN` with the content of {}, or use the socket `backend.sock` beside it",
        state.home().join("token").display()
    ))
}

/// Names of this server without configuration: loopback with its port and, if other machines can connect, the address
/// of the connection. Other names prove nothing, because anyone can let a name lead to an address.
#[derive(Debug, Clone, Copy)]
struct ServerNames {
    port: u16,
    address: Option<IpAddr>,
}

fn refused_origin(message: &str) -> Problem {
    Problem::new(ErrorKind::OriginNotAllowed, message)
        .with_hint("name its origin in `cors_origins` of [server] in config.toml")
}

/// Host of the request: its Host header, or the authority of its URI.
fn host_of(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().map(str::to_owned),
        (None, None) => uri.authority().map(|authority| authority.as_str().to_owned()),
        _ => None,
    }
}

/// The only value of a header. Two values are refused, because browsers send one.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(Problem::new(
            ErrorKind::OriginNotAllowed,
            format!("The request has more than one header `{name}`"),
        )
        .with_hint("send it once, or not at all")),
    }
}

impl ServerNames {
    /// True for one of our own names with our port, and for a configured name, with its port if it has one.
    fn is_host(self, host: &str, allowed: &[String]) -> bool {
        let (name, given) = split_port(host);
        let listed = |entry: &String| entry.eq_ignore_ascii_case(host) || entry.eq_ignore_ascii_case(name);
        (self.is_name(name) && given.unwrap_or("80").parse() == Ok(self.port))
            || (!name.is_empty() && allowed.iter().any(listed))
    }

    /// True for the address that we listen on, with our port: no other process can serve a page there.
    fn is_address(self, host: &str) -> bool {
        let (name, given) = split_port(host);
        let is_ours = |ip: IpAddr| ip == IpAddr::from([127, 0, 0, 1]) || Some(ip.to_canonical()) == self.address;
        name.parse().is_ok_and(is_ours) && given.unwrap_or("80").parse() == Ok(self.port)
    }

    fn is_name(self, name: &str) -> bool {
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(name);
        let is_ours = |ip: IpAddr| ip.is_loopback() || Some(ip.to_canonical()) == self.address;
        name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_ours)
    }

    /// True for our own origins and for the configured ones.
    fn is_origin(self, origin: &HeaderValue, server: &ServerSettings) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        let listed = |entry: &String| entry.trim_end_matches('/').eq_ignore_ascii_case(origin);
        let own = origin.strip_prefix("http://").is_some_and(|host| self.is_address(host));
        own || server.cors_origins.iter().any(listed)
    }
}

/// Splits a host from its port, if it has one. An IPv6 address keeps its brackets.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn answer_preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
    let allowed = HeaderValue::from_static(
        "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, x-tool-root",
    );
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if asked.contains_key("access-control-request-private-network") {
        headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    }
    response
}

fn finish_response(mut response: Response, origin: Option<&HeaderValue>, keep_alive: KeepAlive) -> Response {
    let headers = response.headers_mut();
    if keep_alive == KeepAlive::No {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
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

    const OURS: ServerNames = ServerNames {
        port: 8000,
        address: None,
    };

    #[test]
    fn the_address_that_was_reached_is_ours_where_other_machines_may_ask() {
        let ours = ServerNames {
            address: Some("192.0.2.7".parse().expect("an address")),
            ..OURS
        };
        assert!(ours.is_host("192.0.2.7:8000", &[]) && ours.is_host("[::ffff:192.0.2.7]:8000", &[]));
        assert!(!ours.is_host("192.0.2.8:8000", &[]) && !ours.is_host("192.0.2.7", &[]));
        assert!(!OURS.is_host("192.0.2.7:8000", &[]));
    }

    #[test]
    fn hosts_are_loopback_at_our_port_or_configured() {
        let allowed = ["tool.example".to_owned(), "box:9000".to_owned()];
        let is = |host: &str| OURS.is_host(host, &allowed);
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
        let ours = ServerNames { port: 80, ..OURS };
        assert!(ours.is_host("localhost", &[]));
    }

    #[test]
    fn origins_are_our_own_or_configured() {
        let server = ServerSettings {
            cors_origins: vec!["http://localhost:5173".into(), "https://app.example/".into()],
            ..ServerSettings::default()
        };
        let is = |origin: &str| OURS.is_origin(&origin.parse().expect("a header"), &server);
        assert!(is("http://127.0.0.1:8000") && !is("http://localhost:8000") && !is("http://[::1]:8000"));
        assert!(is("http://localhost:5173") && is("https://app.example"));
        assert!(!is("null") && !is("http://localhost:3000") && !is("https://localhost:8000"));
        assert!(!is("http://evil.example") && !is("https://app.example.evil.example"));
    }
}
