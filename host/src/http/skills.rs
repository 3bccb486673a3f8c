//! Skills: list them, and call one.

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::response::Response;

use super::auth::Caller;
use super::body::JsonBody;
use super::error::Answer;
use super::sessions::{MaybePeer, started_stream};
use super::sse::{Form, Style};
use super::{AppState, check_reach, visible_to_recipes};
use crate::api::{SkillCallRequest, Skills};

/// GET /skills
pub(super) async fn list(State(state): State<AppState>) -> Json<Skills> {
    Json(Skills {
        skills: state.sessions().skills(),
    })
}

/// POST /skills/{name}/call
pub(super) async fn call(
    State(state): State<AppState>,
    Extension(caller): Extension<Option<Caller>>,
    peer: MaybePeer,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<SkillCallRequest>,
) -> Answer<Response> {
    let widens = !request.policy.allow.is_empty() || !request.policy.allow_paths.is_empty();
    check_reach(caller, widens, &request.overrides)?;
    let environment = state.environment(&request.overrides);
    let policy = state.policy(&environment)?;
    let session = state
        .sessions()
        .call_skill(&name, request, policy, visible_to_recipes(&environment))
        .await?;
    let style = Style {
        form: Form::Reference,
        strict: false,
    };
    started_stream(&state, &session, style, peer)
}
