//! What a session changed: its diff, and taking it back.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;

use super::AppState;
use super::body::QueryOf;
use super::error::Answer;
use crate::api::{Problem, SessionDiff, UndoResult};

/// In place of an identifier: the newest session that changed files in the repository of the query.
const LATEST: &str = "latest";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangesQuery {
    /// Absolute path to the repository; needed with `latest`.
    #[serde(default)]
    repo_path: Option<String>,
}

/// GET /sessions/{session_id}/diff
pub(super) async fn diff(
    State(state): State<AppState>,
    Path(id): Path<String>,
    QueryOf(query): QueryOf<ChangesQuery>,
) -> Answer<Json<SessionDiff>> {
    let id = resolve(&state, id, query)?;
    Ok(Json(state.sessions().diff(&id).await?))
}

/// POST /sessions/{session_id}/undo
pub(super) async fn undo(
    State(state): State<AppState>,
    Path(id): Path<String>,
    QueryOf(query): QueryOf<ChangesQuery>,
) -> Answer<Json<UndoResult>> {
    let id = resolve(&state, id, query)?;
    Ok(Json(state.sessions().undo(&id).await?))
}

fn resolve(state: &AppState, id: String, query: ChangesQuery) -> Result<String, Problem> {
    match (id.as_str(), query.repo_path) {
        (LATEST, Some(repository)) => state.sessions().newest_change(&repository),
        (LATEST, None) => Err(Problem::new(
            "invalid-request",
            "`latest` needs `repo_path`: of which repository?",
        )),
        _ => Ok(id),
    }
}
