//! Access for other agents: messages as lines over a connection of the command line, and the protocol's HTTP
//! transport.
//!
//! Both have the checks of every route. The module `mcp` implements the protocol; this module turns a request into a
//! repository, a policy, and a stream of bytes.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Extension, FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on, post};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde::Deserialize;

use super::auth::Caller;
use super::body::{JsonBody, QueryOf, no_query, read_bounded_body};
use super::error::{ApiError, HandlerResult};
use super::sessions::MaybePeer;
use super::{AppState, check_reach, restrict_to_reading, visible_to_recipes};
use crate::limits;
use crate::mcp::{ClientReach, Operations, PendingSession};
use tool_config::PolicySettings;
use tool_core::api::{ConnectRequest, ErrorKind, Overrides, PolicyRequest, Problem};

/// Protocol of the `Upgrade` header.
const PROTOCOL: &str = "tool-mcp";

/// Header that names the repository, for clients that can configure headers but no query.
const ROOT: &str = "x-tool-root";

/// Routes of the protocol. The OpenAPI description leaves them out, because the protocol defines their bodies.
pub(super) fn mcp_routes() -> Router<AppState> {
    let methods = MethodFilter::GET.or(MethodFilter::POST).or(MethodFilter::DELETE);
    Router::new().route("/mcp", on(methods, serve_streamable)).route(
        "/mcp/connect",
        post(upgrade_connection).route_layer(axum::middleware::from_fn(no_query)),
    )
}

/// Begins a session, and upgrades the connection to lines of the protocol.
async fn upgrade_connection(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    peer: MaybePeer,
    mut request: Request,
) -> HandlerResult<Response> {
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let asked = request.headers().get(header::UPGRADE).map(HeaderValue::as_bytes);
    let Some(upgrade) = upgrade.filter(|_| asked == Some(PROTOCOL.as_bytes())) else {
        let message = format!("This route is answered with the header `Upgrade: {PROTOCOL}` alone");
        return Err(Problem::new(ErrorKind::InvalidRequest, message)
            .with_hint("`tool mcp` speaks it; other clients use POST /mcp")
            .into());
    };
    let JsonBody(request) = JsonBody::<ConnectRequest>::from_request(request, &()).await?;
    let connecting = collect_session_parts(&state, caller, request)?;
    let line = connecting.line().await?;
    let id = HeaderValue::from_str(line.session()).expect("an identifier is hexadecimal");
    let mcp = Arc::clone(state.mcp());
    tokio::spawn(async move {
        // The session is one long answer: silence does not mean that the client has gone.
        let _answering = peer.map(|Extension(ConnectInfo(peer))| (peer.answering(), peer.long_answer()));
        match upgrade.await {
            Ok(connection) => {
                let (reader, writer) = tokio::io::split(TokioIo::new(connection));
                mcp.serve_lines(line, &connecting, reader, writer).await;
            }
            Err(error) => tracing::info!(%error, "a connection of another agent did not come about"),
        }
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
    headers.insert("x-session-id", id);
    Ok(response)
}

/// Collects the parts of a session from a request.
fn collect_session_parts(
    state: &AppState,
    caller: Caller,
    mut request: ConnectRequest,
) -> Result<Arc<PendingSession>, Problem> {
    let widens = request.policy.widens() || !request.operations.is_empty();
    check_reach(state, caller, widens, &request.overrides)?;
    restrict_to_reading(caller, &mut request.policy);
    let environment = state.environment(&request.overrides);
    let common = state.common(&environment)?;
    // Without a provider there is no key of a provider.
    let settings = state.settings(&environment);
    let provider = settings.as_ref().ok().map(|settings| &settings.provider);
    let keys = provider
        .into_iter()
        .flat_map(|provider| provider.secrets().map(str::to_owned));
    let keys = keys.collect();
    let environment = visible_to_recipes(&environment);
    let operations = Arc::new(Operations {
        granted: [&request.operations[..], &common.policy.mcp].concat(),
        settings,
        policy: PolicySettings {
            deny: [&common.policy.deny[..], &request.policy.deny].concat(),
            untrusted: common.policy.untrusted || request.policy.untrusted,
            ..common.policy.clone()
        },
        vault: common.vault,
        request: request.policy.clone(),
        environment: environment.clone(),
    });
    Ok(Arc::new(PendingSession {
        mcp: Arc::clone(state.mcp()),
        request,
        settings: common.policy,
        keys,
        environment,
        reach: match caller {
            Caller::Token => ClientReach::Answers,
            Caller::OwnNamespaces => ClientReach::Works,
            Caller::SameUser => ClientReach::Reads,
        },
        operations,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct McpQuery {
    /// Absolute path to the repository root.
    #[serde(default)]
    root: Option<String>,
    /// Results have a structured form beside the text.
    #[serde(default)]
    structured: bool,
}

/// The protocol's HTTP transport.
async fn serve_streamable(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    QueryOf(query): QueryOf<McpQuery>,
    request: Request,
) -> HandlerResult<Response> {
    let request_of_root = ConnectRequest {
        repo_path: requested_root(query.root, request.headers())?,
        policy: PolicyRequest::default(),
        overrides: Overrides::default(),
        structured: query.structured,
        // A client cannot grant operations to itself. Over HTTP, only the configuration grants them.
        operations: Vec::new(),
    };
    let connecting = collect_session_parts(&state, caller, request_of_root)?;
    let (parts, body) = request.into_parts();
    let body = Bytes::from(match parts.method {
        Method::POST => read_bounded_body(body, limits::MCP_MESSAGE_BYTES_MAX).await?,
        _ => Vec::new(),
    });
    let is_json = is_json(&parts.headers);
    let ends = parts.method == Method::DELETE;
    let service = state.mcp().streamable_service(connecting);
    let mut answer = service
        .handle(Request::from_parts(parts, Body::from(body.clone())))
        .await;
    if ends && answer.status() == StatusCode::ACCEPTED {
        // The official client takes 202 for a failure.
        *answer.status_mut() = StatusCode::OK;
    }
    // rmcp answers unreadable messages in plain text, and reports a missing session for a malformed handshake.
    let refusal = (is_json && answer.status().is_client_error())
        .then(|| crate::mcp::refuse_bytes(&body))
        .flatten();
    Ok(match refusal {
        Some(refusal) => {
            let kind = (header::CONTENT_TYPE, "application/json");
            (StatusCode::BAD_REQUEST, [kind], refusal).into_response()
        }
        None => answer.map(Body::new),
    })
}

/// True if the client declares its body as JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

/// The repository that a request names, in its header or its query.
fn requested_root(query: Option<String>, headers: &HeaderMap) -> Result<String, ApiError> {
    let header = headers.get(ROOT).map(|root| root.to_str().map(str::to_owned));
    let named = match header {
        Some(Ok(root)) => Some(root),
        Some(Err(_)) => return Err(Problem::new(ErrorKind::InvalidRequest, format!("`{ROOT}` is not ASCII")).into()),
        None => query,
    };
    let problem = |message: String| {
        let hint = format!("name it as `/mcp?root=/ABSOLUTE/PATH`, or by the header `{ROOT}`");
        ApiError(Problem::new(ErrorKind::InvalidRequest, message).with_hint(hint))
    };
    let root = named.ok_or_else(|| problem("The request names no repository".to_owned()))?;
    if Path::new(&root).is_absolute() {
        Ok(root)
    } else {
        Err(problem(format!("The root must be an absolute path: `{root}`")))
    }
}
