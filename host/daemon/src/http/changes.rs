//! Changes of a session: its diff, and its undo.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::AppState;
use super::body::{JsonBody, PathOf, QueryOf};
use super::error::HandlerResult;
use super::openapi::{RefusalResponses, RefusedBody};
use tool_core::api::{
    ApplyRequest, ApplyResult, DiscardResult, ErrorBody, ErrorKind, Overrides, Problem, SessionDiff, UndoResult,
};

/// Stands for the newest session that changed files in the repository of the query.
const LATEST: &str = "latest";

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChangesQuery {
    /// Absolute path to the repository; needed with `latest`, and of no meaning without it.
    #[serde(default)]
    #[param(nullable = false)]
    repo_path: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UndoQuery {
    /// Absolute path to the repository; needed with `latest`, and of no meaning without it.
    #[serde(default)]
    #[param(nullable = false)]
    repo_path: Option<String>,
    /// Also take changes back beside later edits of the same files that touch other lines: each `merge_digest` that an undo
    /// without it gave, separated by commas.
    #[serde(default)]
    #[param(nullable = false)]
    merge: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
struct ChangesPath {
    /// Identifier of the session; or `latest`, the newest that changed files in the repository of the query.
    session_id: String,
}

/// Show what a session changed
///
/// As it left the files, whatever became of them since; of a running one, as far as it has come.
#[utoipa::path(
    get,
    path = "/sessions/{session_id}/diff",
    operation_id = "diff",
    tag = "changes",
    params(ChangesPath, ChangesQuery),
    responses(
        (status = 200, description = "The changes; none for a session that changed no file.", body = SessionDiff),
        RefusalResponses,
        (status = 404, description = "`not-found`: there is no such session. `nothing-changed`: with `latest`, no \
            session changed files there.", body = ErrorBody),
        (status = 409, description = "`nothing-to-apply`: the preview was discarded.", body = ErrorBody),
    ),
)]
pub(super) async fn diff(
    State(state): State<AppState>,
    PathOf(id): PathOf,
    QueryOf(query): QueryOf<ChangesQuery>,
) -> HandlerResult<Json<SessionDiff>> {
    let id = resolve_session(&state, id, query).await?;
    Ok(Json(state.sessions().diff(&id).await?))
}

/// Take back what a session changed
///
/// Every file that is as the session left it becomes what it was before, byte for byte; one that another program has
/// changed since is left alone and named, unless `merge` is set and the later edit touches other lines. Nothing but files
/// is taken back: commits and installations of the session are named in `notices`. The undo is a session of its own, which
/// can be undone.
#[utoipa::path(
    post,
    path = "/sessions/{session_id}/undo",
    operation_id = "undo",
    tag = "changes",
    params(ChangesPath, UndoQuery),
    responses(
        (status = 200, description = "What was taken back, and what was not.", body = UndoResult),
        RefusalResponses,
        (status = 404, description = "`not-found`: there is no such session. `nothing-changed`: with `latest`, no \
            session changed files there. `invalid-repository`: its repository is gone.", body = ErrorBody),
        (status = 409, description = "`session-running`: it has not ended. `nothing-to-undo`: it changed no file. \
            `undo-failed`: the files cannot be written.", body = ErrorBody),
        (status = 415, description = "`unsupported-media-type`: a body that is not said to be JSON.", body = ErrorBody),
        (status = 503, description = "`busy`, `stopping`, `journal-failed`: not now.", body = ErrorBody),
    ),
)]
pub(super) async fn undo(
    State(state): State<AppState>,
    PathOf(id): PathOf,
    QueryOf(query): QueryOf<UndoQuery>,
) -> HandlerResult<Json<UndoResult>> {
    let repo_path = query.repo_path;
    let id = resolve_session(&state, id, ChangesQuery { repo_path }).await?;
    let merges = query.merge.unwrap_or_default();
    let merges = merges.split(',').filter(|digest| !digest.is_empty()).map(str::to_owned);
    Ok(Json(state.sessions().undo(&id, merges.collect()).await?))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
struct PreviewPath {
    /// Identifier of a preview; or `latest`, the newest with proposals in the repository of the query.
    session_id: String,
}

/// Apply what a preview proposes
///
/// Puts the proposed files in place with the checks of a proposal, all or none of them. A file that has changed since is
/// not replaced: then nothing is applied, and the message names it. Applying is a session of its own, which can be undone.
#[utoipa::path(
    post,
    path = "/sessions/{session_id}/apply",
    operation_id = "apply",
    tag = "changes",
    params(PreviewPath, ChangesQuery),
    request_body = ApplyRequest,
    responses(
        (status = 200, description = "The files that are in place now.", body = ApplyResult),
        RefusalResponses, RefusedBody,
        (status = 404, description = "`not-found`: there is no such session. `nothing-changed`: with `latest`, no preview \
            has proposals there. `invalid-repository`: its repository is gone.", body = ErrorBody),
        (status = 409, description = "`session-running`: it has not ended, or another turn of its conversation runs. \
            `nothing-to-apply`: it is no preview, is discarded, or is applied already. `preview-outdated`: files have \
            changed since. `preview-incomplete`: it did not end complete, and `partial` is not set.", body = ErrorBody),
        (status = 503, description = "`busy`, `stopping`, `journal-failed`: not now.", body = ErrorBody),
    ),
)]
pub(super) async fn apply(
    State(state): State<AppState>,
    PathOf(id): PathOf,
    QueryOf(query): QueryOf<ChangesQuery>,
    JsonBody(request): JsonBody<ApplyRequest>,
) -> HandlerResult<Json<ApplyResult>> {
    let id = resolve_preview(&state, id, query).await?;
    let settings = state.common(&state.environment(&Overrides::default()))?.policy;
    Ok(Json(state.sessions().apply(&id, request, settings).await?))
}

/// Discard what a preview proposes
///
/// Drops the proposals of all turns of its conversation. The repository does not change. Nothing brings them back.
#[utoipa::path(
    post,
    path = "/sessions/{session_id}/discard",
    operation_id = "discard",
    tag = "changes",
    params(PreviewPath, ChangesQuery),
    responses(
        (status = 200, description = "The proposals that are gone.", body = DiscardResult),
        RefusalResponses,
        (status = 404, description = "`not-found`: there is no such session. `nothing-changed`: with `latest`, no preview \
            has proposals there.", body = ErrorBody),
        (status = 409, description = "`session-running`: it has not ended, or another turn of its conversation runs. \
            `nothing-to-apply`: it is no preview, or is discarded already.", body = ErrorBody),
        (status = 415, description = "`unsupported-media-type`: a body that is not said to be JSON.", body = ErrorBody),
        (status = 503, description = "`busy`, `stopping`, `journal-failed`: not now.", body = ErrorBody),
    ),
)]
pub(super) async fn discard(
    State(state): State<AppState>,
    PathOf(id): PathOf,
    QueryOf(query): QueryOf<ChangesQuery>,
) -> HandlerResult<Json<DiscardResult>> {
    let id = resolve_preview(&state, id, query).await?;
    Ok(Json(state.sessions().discard(&id).await?))
}

async fn resolve_preview(state: &AppState, id: String, query: ChangesQuery) -> Result<String, Problem> {
    match (id.as_str(), &query.repo_path) {
        (LATEST, Some(repository)) => state.sessions().newest_preview(repository).await,
        _ => resolve_session(state, id, query).await,
    }
}

async fn resolve_session(state: &AppState, id: String, query: ChangesQuery) -> Result<String, Problem> {
    match (id.as_str(), query.repo_path) {
        (LATEST, Some(repository)) => state.sessions().newest_change(&repository).await,
        (LATEST, None) => Err(Problem::new(
            ErrorKind::InvalidRequest,
            "`latest` needs `repo_path`: of which repository?",
        )),
        _ => Ok(id),
    }
}
