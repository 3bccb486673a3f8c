//! Sessions: start, follow, list, cancel, and answer their questions.

use axum::Json;
use axum::extract::{ConnectInfo, Extension, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::auth::Caller;
use super::body::{JsonBody, QueryOf};
use super::error::Answer;
use super::listener::Peer;
use super::sse::{self, Form, Style};
use super::{AppState, check_reach, visible_to_recipes};
use crate::api::{ApprovalAnswer, ExecuteRequest, History, Problem, SessionResult, SessionStart, Tasks};
use crate::session::history::Filter;

/// Where the peer is known: not in tests without a socket.
pub(super) type MaybePeer = Option<Extension<ConnectInfo<Peer>>>;

/// POST /execute
pub(super) async fn execute(
    State(state): State<AppState>,
    Extension(caller): Extension<Option<Caller>>,
    JsonBody(request): JsonBody<ExecuteRequest>,
) -> Answer<Json<SessionStart>> {
    Ok(Json(start(&state, caller, request).await?))
}

async fn start(state: &AppState, caller: Option<Caller>, request: ExecuteRequest) -> Result<SessionStart, Problem> {
    let widens = !request.policy.allow.is_empty() || !request.policy.allow_paths.is_empty();
    check_reach(caller, widens, &request.overrides)?;
    let environment = state.environment(&request.overrides);
    let settings = state.settings(&environment)?;
    state
        .sessions()
        .start(request, settings, visible_to_recipes(&environment))
        .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StyleQuery {
    #[serde(default)]
    form: Option<Form>,
    #[serde(default)]
    strict: Option<Switch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamQuery {
    session_id: String,
    #[serde(default)]
    form: Option<Form>,
    #[serde(default)]
    strict: Option<Switch>,
}

/// `1` or `true`; `0` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Switch {
    #[serde(rename = "1", alias = "true")]
    On,
    #[serde(rename = "0", alias = "false")]
    Off,
}

fn style(form: Option<Form>, default: Form, strict: Option<Switch>) -> Style {
    Style {
        form: form.unwrap_or(default),
        strict: strict == Some(Switch::On),
    }
}

/// GET /stream?session_id=…
pub(super) async fn stream_by_query(
    State(state): State<AppState>,
    peer: MaybePeer,
    headers: HeaderMap,
    QueryOf(query): QueryOf<StreamQuery>,
) -> Answer<Response> {
    let style = style(query.form, Form::Reference, query.strict);
    follow(&state, &query.session_id, &headers, style, peer)
}

/// GET /stream/{session_id}
pub(super) async fn stream_by_path(
    State(state): State<AppState>,
    peer: MaybePeer,
    headers: HeaderMap,
    Path(session_id): Path<String>,
    QueryOf(query): QueryOf<StyleQuery>,
) -> Answer<Response> {
    let style = style(query.form, Form::Architecture, query.strict);
    follow(&state, &session_id, &headers, style, peer)
}

/// POST /stream
pub(super) async fn execute_and_stream(
    State(state): State<AppState>,
    Extension(caller): Extension<Option<Caller>>,
    peer: MaybePeer,
    QueryOf(query): QueryOf<StyleQuery>,
    JsonBody(request): JsonBody<ExecuteRequest>,
) -> Answer<Response> {
    let session = start(&state, caller, request).await?;
    let style = style(query.form, Form::Reference, query.strict);
    started_stream(&state, &session, style, peer)
}

/// Follows a session that this request has started; what only its starter may know is in the headers.
pub(super) fn started_stream(
    state: &AppState,
    session: &SessionStart,
    style: Style,
    peer: MaybePeer,
) -> Answer<Response> {
    let mut response = follow(state, &session.session_id, &HeaderMap::new(), style, peer)?;
    let value = |text: &str| HeaderValue::from_str(text).expect("ids and secrets are hexadecimal");
    let headers = response.headers_mut();
    headers.insert("x-session-id", value(&session.session_id));
    headers.insert("x-approval-secret", value(&session.approval_secret));
    Ok(response)
}

fn follow(state: &AppState, id: &str, headers: &HeaderMap, style: Style, peer: MaybePeer) -> Answer<Response> {
    let stream = state.sessions().events(id, sse::last_event_id(headers))?;
    Ok(sse::response(stream, style, peer.map(|Extension(peer)| peer)))
}

/// GET /tasks
pub(super) async fn tasks(State(state): State<AppState>, QueryOf(filter): QueryOf<Filter>) -> Json<Tasks> {
    Json(Tasks {
        tasks: state.sessions().tasks(&filter),
    })
}

/// GET /history
pub(super) async fn history(State(state): State<AppState>, QueryOf(filter): QueryOf<Filter>) -> Json<History> {
    Json(state.sessions().history(&filter))
}

/// GET /results/{session_id}
pub(super) async fn result(State(state): State<AppState>, Path(id): Path<String>) -> Answer<Json<SessionResult>> {
    Ok(Json(state.sessions().result(&id).await?))
}

/// DELETE /sessions/{session_id}: answers once the session is told; its stream says when it has ended.
pub(super) async fn cancel(State(state): State<AppState>, Path(id): Path<String>) -> Answer<Response> {
    state.sessions().cancel(&id)?;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// POST /approvals/{id}
pub(super) async fn answer(
    State(state): State<AppState>,
    Path(id): Path<String>,
    JsonBody(answer): JsonBody<ApprovalAnswer>,
) -> Answer<Response> {
    state.sessions().answer(&id, &answer)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
