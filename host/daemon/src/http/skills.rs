//! Routes of skills: list them, and call one.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::auth::Caller;
use super::body::{JsonBody, PathOf};
use super::error::HandlerResult;
use super::openapi::{RefusalResponses, RefusedBody, RefusedRepository, StartedStream};
use super::request_checks::confined_caller_problem;
use super::sessions::{MaybePeer, started_stream};
use super::sse::{StreamForm, StreamStyle};
use super::{AppState, check_reach, restrict_to_reading, visible_to_recipes};
use tool_core::api::{ErrorKind, Problem, SkillCallRequest, Skills, TERMINAL_HEADER};

/// List the skills
///
/// The built-in twelve and the team's own, with what each asks for and whether it may be used.
#[utoipa::path(
    get,
    path = "/skills",
    operation_id = "skills",
    tag = "skills",
    responses((status = 200, description = "The skills.", body = Skills), RefusalResponses),
)]
pub(super) async fn list(State(state): State<AppState>) -> Json<Skills> {
    Json(Skills {
        skills: state.sessions().skills(),
    })
}

/// Call one skill
///
/// Runs it in its sandbox, as a session of its own that ends when no client follows it any more. The stream is in the
/// reference form; its last event but one is `outcome`, with what a model would read and the receipt. A call that did
/// not work ends with `error`.
#[utoipa::path(
    post,
    path = "/skills/{name}/call",
    operation_id = "callSkill",
    tag = "skills",
    params(("name" = String, Path, description = "Name of the skill.", example = "read_file")),
    request_body = SkillCallRequest,
    responses(StartedStream, RefusalResponses, RefusedBody, RefusedRepository),
)]
pub(super) async fn call(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    peer: MaybePeer,
    PathOf(name): PathOf,
    headers: HeaderMap,
    JsonBody(mut request): JsonBody<SkillCallRequest>,
) -> HandlerResult<Response> {
    request.is_of_program = !headers.contains_key(TERMINAL_HEADER);
    check_reach(
        &state,
        caller,
        request.interactive || request.policy.widens(),
        &request.overrides,
    )?;
    if !request.arguments.is_object() {
        return Err(Problem::new(
            ErrorKind::InvalidRequest,
            "Invalid body: `arguments` must be a JSON object",
        )
        .into());
    }
    if caller == Caller::SameUser && state.sessions().changes_something(&name, None) {
        return Err(confined_caller_problem(&state).into());
    }
    restrict_to_reading(caller, &mut request.policy);
    let environment = state.environment(&request.overrides);
    let policy = state.common(&environment)?.policy;
    let session = state
        .sessions()
        .call_skill(&name, request, policy, visible_to_recipes(&environment))
        .await?;
    let style = StreamStyle {
        form: StreamForm::Reference,
        strict: false,
    };
    started_stream(&state, &session, style, peer).await
}
