//! Routes of sessions: start, follow, list, cancel, and answer their questions.

use axum::Json;
use axum::extract::{ConnectInfo, Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::auth::Caller;
use super::body::{JsonBody, PathOf, QueryOf};
use super::error::HandlerResult;
use super::listener::Peer;
use super::openapi::{FollowedStream, RefusalResponses, RefusedBody, RefusedRepository, StartedStream};
use super::request_checks::confined_caller_problem;
use super::sse::{self, StreamForm, StreamStyle};
use super::{AppState, check_reach, restrict_to_reading, visible_to_recipes};
use tool_core::api::{
    ApprovalAnswer, ErrorBody, ExecuteRequest, History, OpenApproval, Operation, Problem, SessionResult, SessionStart,
    TERMINAL_HEADER, Tasks, TurnRequest,
};
use tool_journal::history::Filter;

/// Peer of the connection; absent in tests without a socket.
pub(super) type MaybePeer = Option<Extension<ConnectInfo<Peer>>>;

/// Start an operation
///
/// Answers once the request is known to be right; later errors are in the stream and in the result.
#[utoipa::path(
    post,
    path = "/execute",
    operation_id = "execute",
    tag = "sessions",
    request_body = ExecuteRequest,
    responses(
        (status = 200, description = "The session has started.", body = SessionStart, links(
            ("follow" = (operation_id = "stream", parameters(("session_id" = "$response.body#/session_id")))),
            ("result" = (operation_id = "results", parameters(("session_id" = "$response.body#/session_id")))),
            ("cancel" = (operation_id = "cancel", parameters(("session_id" = "$response.body#/session_id")))),
        )),
        RefusalResponses, RefusedBody, RefusedRepository,
        (status = 409, description = "`provider-mismatch`: `provider` is not the enabled one.", body = ErrorBody),
    ),
)]
pub(super) async fn execute(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    JsonBody(mut request): JsonBody<ExecuteRequest>,
) -> HandlerResult<Json<SessionStart>> {
    request.is_of_program = !headers.contains_key(TERMINAL_HEADER);
    Ok(Json(start_operation(&state, caller, request).await?))
}

async fn start_operation(
    state: &AppState,
    caller: Caller,
    mut request: ExecuteRequest,
) -> Result<SessionStart, Problem> {
    let widens = request.interactive || !request.ask.is_empty() || request.policy.widens();
    check_reach(state, caller, widens, &request.overrides)?;
    if caller == Caller::SameUser && matches!(request.operation, Operation::Refactor | Operation::TestGen) {
        return Err(confined_caller_problem(state));
    }
    restrict_to_reading(caller, &mut request.policy);
    let environment = state.environment(&request.overrides);
    let settings = state.settings(&environment)?;
    state
        .sessions()
        .start(request, settings, visible_to_recipes(&environment))
        .await
}

/// Continue a conversation
///
/// Starts a session that goes on where another has ended: the model gets the earlier messages, calls and results again, and
/// learns which files have changed since and what was undone. Taint, `untrusted` and denials go along; nothing that was
/// allowed does. An older session can be continued, too: the conversation then has a branch.
#[utoipa::path(
    post,
    path = "/sessions/{session_id}/turns",
    operation_id = "continueSession",
    tag = "sessions",
    params(SessionPath),
    request_body = TurnRequest,
    responses(
        (status = 200, description = "The session of the turn has started.", body = SessionStart, links(
            ("follow" = (operation_id = "stream", parameters(("session_id" = "$response.body#/session_id")))),
            ("result" = (operation_id = "results", parameters(("session_id" = "$response.body#/session_id")))),
            ("cancel" = (operation_id = "cancel", parameters(("session_id" = "$response.body#/session_id")))),
        )),
        RefusalResponses, RefusedBody, RefusedRepository,
        (status = 409, description = "`session-running`: a turn of the conversation is running. `provider-mismatch`: \
            `provider` is not the enabled one. `provider-unconfirmed`: the conversation has been on `local` alone, another \
            provider is enabled, and `provider` does not name it. `not-continued`: a part of the conversation is missing, or \
            it is too long.", body = ErrorBody),
    ),
)]
pub(super) async fn continue_session(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    PathOf(id): PathOf,
    headers: HeaderMap,
    JsonBody(mut request): JsonBody<TurnRequest>,
) -> HandlerResult<Json<SessionStart>> {
    request.is_of_program = !headers.contains_key(TERMINAL_HEADER);
    let widens = request.interactive || !request.ask.is_empty() || request.policy.widens();
    check_reach(&state, caller, widens, &request.overrides)?;
    let environment = state.environment(&request.overrides);
    let settings = state.settings(&environment)?;
    let environment = visible_to_recipes(&environment);
    let started = state.sessions().continue_session(&id, request, settings, environment);
    Ok(Json(started.await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StyleQuery {
    /// Form of the events; default: the reference form, at `/stream/{session_id}` the architecture form.
    #[serde(default)]
    #[param(inline, nullable = false)]
    form: Option<StreamForm>,
    /// True for bare `data:` lines: no `id:` and no comments that keep the connection alive.
    #[serde(default)]
    #[param(schema_with = Switch::names_schema)]
    strict: Option<Switch>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// Identifier of the session.
    session_id: String,
    /// Form of the events; default: the reference form, at `/stream/{session_id}` the architecture form.
    #[serde(default)]
    #[param(inline, nullable = false)]
    form: Option<StreamForm>,
    /// True for bare `data:` lines: no `id:` and no comments that keep the connection alive.
    #[serde(default)]
    #[param(schema_with = Switch::names_schema)]
    strict: Option<Switch>,
}

/// `1` or `true`; `0` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
enum Switch {
    #[serde(rename = "1", alias = "true")]
    On,
    #[serde(rename = "0", alias = "false")]
    Off,
}

impl Switch {
    fn names_schema() -> utoipa::openapi::schema::Object {
        Self::described_schema("`1` for bare `data:` lines: no `id:`, and no comments that keep the connection alive.")
    }

    fn of_output() -> utoipa::openapi::schema::Object {
        Self::described_schema("`0` leaves `output` empty, if you have it from the stream.")
    }

    fn described_schema(meaning: &str) -> utoipa::openapi::schema::Object {
        let names = utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::Type::String);
        names
            .enum_values(Some(["1", "true", "0", "false"]))
            .description(Some(meaning))
            .build()
    }
}

fn stream_style(form: Option<StreamForm>, default: StreamForm, strict: Option<Switch>) -> StreamStyle {
    StreamStyle {
        form: form.unwrap_or(default),
        strict: strict == Some(Switch::On),
    }
}

/// Follow a session
///
/// From its first event on, whenever the stream is opened, also after the session has ended; with `Last-Event-ID` from
/// the event after that one. With that of the terminal event the answer is 204, which ends the reconnections of an
/// `EventSource`.
#[utoipa::path(
    get,
    path = "/stream",
    operation_id = "stream",
    tag = "sessions",
    params(StreamQuery, LastEventId),
    responses(
        FollowedStream, RefusalResponses,
        (status = 204, description = "`Last-Event-ID` is that of the terminal event: nothing more will come."),
        (status = 404, description = "`not-found`: there is no such session.", body = ErrorBody),
    ),
)]
pub(super) async fn stream_by_query(
    State(state): State<AppState>,
    peer: MaybePeer,
    headers: HeaderMap,
    QueryOf(query): QueryOf<StreamQuery>,
) -> HandlerResult<Response> {
    let style = stream_style(query.form, StreamForm::Reference, query.strict);
    follow_session(&state, &query.session_id, &headers, style, peer).await
}

/// Follow a session, in the architecture form
///
/// As GET /stream, with the session in the path and the other form as the default.
#[utoipa::path(
    get,
    path = "/stream/{session_id}",
    operation_id = "streamBySession",
    tag = "sessions",
    params(SessionPath, StyleQuery, LastEventId),
    responses(
        FollowedStream, RefusalResponses,
        (status = 204, description = "`Last-Event-ID` is that of the terminal event: nothing more will come."),
        (status = 404, description = "`not-found`: there is no such session.", body = ErrorBody),
    ),
)]
pub(super) async fn stream_by_path(
    State(state): State<AppState>,
    peer: MaybePeer,
    headers: HeaderMap,
    PathOf(session_id): PathOf,
    QueryOf(query): QueryOf<StyleQuery>,
) -> HandlerResult<Response> {
    let style = stream_style(query.form, StreamForm::Architecture, query.strict);
    follow_session(&state, &session_id, &headers, style, peer).await
}

/// Start an operation and follow it
///
/// POST /execute and GET /stream in one call. The session goes on when the stream is closed, unless it is `attached`.
#[utoipa::path(
    post,
    path = "/stream",
    operation_id = "executeAndStream",
    tag = "sessions",
    params(StyleQuery),
    request_body = ExecuteRequest,
    responses(
        StartedStream, RefusalResponses, RefusedBody, RefusedRepository,
        (status = 409, description = "`provider-mismatch`: `provider` is not the enabled one.", body = ErrorBody),
    ),
)]
pub(super) async fn execute_and_stream(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    peer: MaybePeer,
    QueryOf(query): QueryOf<StyleQuery>,
    headers: HeaderMap,
    JsonBody(mut request): JsonBody<ExecuteRequest>,
) -> HandlerResult<Response> {
    request.is_of_program = !headers.contains_key(TERMINAL_HEADER);
    let session = start_operation(&state, caller, request).await?;
    let style = stream_style(query.form, StreamForm::Reference, query.strict);
    started_stream(&state, &session, style, peer).await
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
struct SessionPath {
    /// Identifier of the session.
    session_id: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
struct LastEventId {
    /// The `id:` of the last event that was seen; what is no number counts as none.
    #[param(rename = "Last-Event-ID", required = false)]
    last_event_id: String,
}

/// Follows a session that this request has started. The headers hold what only its starter may know.
pub(super) async fn started_stream(
    state: &AppState,
    session: &SessionStart,
    style: StreamStyle,
    peer: MaybePeer,
) -> HandlerResult<Response> {
    let mut response = follow_session(state, &session.session_id, &HeaderMap::new(), style, peer).await?;
    let value = |text: &str| HeaderValue::from_str(text).expect("ids and secrets are hexadecimal");
    let headers = response.headers_mut();
    headers.insert("x-session-id", value(&session.session_id));
    headers.insert("x-approval-secret", value(&session.approval_secret));
    Ok(response)
}

async fn follow_session(
    state: &AppState,
    id: &str,
    headers: &HeaderMap,
    style: StreamStyle,
    peer: MaybePeer,
) -> HandlerResult<Response> {
    let after = sse::last_event_id(headers);
    let mut stream = state.sessions().events(id, after)?;
    // An EventSource reconnects after every end, and stops only at this status.
    if after > 0 && stream.is_spent().await {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(sse::stream_response(stream, style, peer.map(|Extension(peer)| peer)))
}

/// List the recent tasks
///
/// The operations among the last 100 kept sessions, running ones first, then the newest first. Parameters narrow the
/// list; what they leave out does not count as one of the 100.
#[utoipa::path(
    get,
    path = "/tasks",
    operation_id = "tasks",
    tag = "sessions",
    params(Filter),
    responses((status = 200, description = "The tasks.", body = Tasks), RefusalResponses),
)]
pub(super) async fn tasks(State(state): State<AppState>, QueryOf(filter): QueryOf<Filter>) -> Json<Tasks> {
    Json(Tasks {
        tasks: state.sessions().tasks(&filter),
    })
}

/// List the ended sessions
///
/// The operations that have ended, of all directories, the newest first, at most 100. Parameters narrow the list; what
/// they leave out does not count as one of the 100.
#[utoipa::path(
    get,
    path = "/history",
    operation_id = "history",
    tag = "sessions",
    params(Filter),
    responses((status = 200, description = "The sessions.", body = History), RefusalResponses),
)]
pub(super) async fn history(State(state): State<AppState>, QueryOf(filter): QueryOf<Filter>) -> Json<History> {
    Json(state.sessions().history(&filter))
}

/// Result of a session
///
/// While it runs, its status is `running` and the output is what there is so far.
#[utoipa::path(
    get,
    path = "/results/{session_id}",
    operation_id = "results",
    tag = "sessions",
    params(SessionPath, ResultQuery),
    responses(
        (status = 200, description = "The result.", body = SessionResult),
        RefusalResponses,
        (status = 404, description = "`not-found`: there is no such session.", body = ErrorBody),
    ),
)]
pub(super) async fn result(
    State(state): State<AppState>,
    PathOf(id): PathOf,
    QueryOf(query): QueryOf<ResultQuery>,
) -> HandlerResult<Json<SessionResult>> {
    let sessions = state.sessions();
    let result = match query.output {
        Some(Switch::Off) => sessions.result_in_short(&id).await,
        _ => sessions.read_result(&id).await,
    };
    Ok(Json(result?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ResultQuery {
    /// False leaves `output` empty, for clients that have it from the stream.
    #[serde(default)]
    #[param(schema_with = Switch::of_output)]
    output: Option<Switch>,
}

/// Cancel a session
///
/// Answers once the session has the request; its stream says when it has ended, which takes at most some seconds.
#[utoipa::path(
    delete,
    path = "/sessions/{session_id}",
    operation_id = "cancel",
    tag = "sessions",
    params(SessionPath),
    responses(
        (status = 202, description = "The session is being cancelled."),
        RefusalResponses,
        (status = 404, description = "`not-found`: there is no such session.", body = ErrorBody),
        (status = 409, description = "`session-ended`: it has ended already.", body = ErrorBody),
        (status = 415, description = "`unsupported-media-type`: a body that is not said to be JSON.", body = ErrorBody),
    ),
)]
pub(super) async fn cancel(State(state): State<AppState>, PathOf(id): PathOf) -> HandlerResult<Response> {
    state.sessions().cancel(&id)?;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Show an approval
///
/// All of what an `approval` event asks about, also where that has shown the beginning of it only, for as long as no
/// client has answered.
#[utoipa::path(
    get,
    path = "/approvals/{id}",
    operation_id = "approval",
    tag = "sessions",
    params(("id" = String, Path, description = "Identifier of the approval, as its event says.")),
    responses(
        (status = 200, description = "What is asked.", body = OpenApproval),
        RefusalResponses,
        (status = 404, description = "`not-found`: there is no such approval, or it is answered or expired.",
            body = ErrorBody),
    ),
)]
pub(super) async fn approval(State(state): State<AppState>, PathOf(id): PathOf) -> HandlerResult<Json<OpenApproval>> {
    Ok(Json(state.sessions().approval(&id)?))
}

/// Answer an approval
///
/// An `approval` event asks whether an effect may happen, in a session with `interactive` or `ask`. Unanswered by its
/// `expires`, it may not. The first answer counts, for its `scope`; after two noes to one effect it is denied for the
/// session.
#[utoipa::path(
    post,
    path = "/approvals/{id}",
    operation_id = "answerApproval",
    tag = "sessions",
    params(("id" = String, Path, description = "Identifier of the approval, as its event says.")),
    request_body = ApprovalAnswer,
    responses(
        (status = 204, description = "The answer is taken."),
        RefusalResponses, RefusedBody,
        (status = 404, description = "`not-found`: there is no such approval, or it is answered or expired.",
            body = ErrorBody),
    ),
)]
pub(super) async fn answer(
    State(state): State<AppState>,
    PathOf(id): PathOf,
    JsonBody(answer): JsonBody<ApprovalAnswer>,
) -> HandlerResult<Response> {
    state.sessions().answer(&id, &answer)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
