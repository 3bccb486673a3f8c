//! Routes without a session: scan, models, status, and the OpenAPI description.

use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::AppState;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::HandlerResult;
use super::openapi::{RefusalResponses, RefusedBody, RefusedRepository};
use crate::limits;
use tool_config::ProviderSummary;
use tool_core::api::{
    BackendStatus, CallGraph, CallGraphRequest, ContextRequest, ContextResult, ErrorBody, ErrorKind, GraphRequest,
    Models, ModuleGraph, Overrides, Problem, ProviderEntry, ScanRequest, ScanResult, Stopping,
};

/// Count the files, directories and languages of a repository
///
/// Counts what an operation would see. Directories that hold no source of the project (`.git`, `node_modules`,
/// `__pycache__`, `venv`, `.venv`, `env`, `dist`, `build`), what git ignores and what is hidden are left out.
#[utoipa::path(
    post,
    path = "/scan",
    operation_id = "scan",
    tag = "repository",
    request_body = ScanRequest,
    responses(
        (status = 200, description = "The counts.", body = ScanResult),
        RefusalResponses, RefusedBody, RefusedRepository,
        (status = 404, description = "`invalid-repository`: there is no directory at `repo_path` that can be read. \
            `empty-repository`: it holds no files.", body = ErrorBody),
        (status = 504, description = "`scan-timeout`: the scan took longer than 60 s, as repositories of far more than \
            10,000 files may.", body = ErrorBody),
    ),
)]
pub(super) async fn scan(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<ScanRequest>,
) -> HandlerResult<Json<ScanResult>> {
    let policy = state.common(&state.environment(&Overrides::default()))?.policy;
    Ok(Json(state.sessions().scan(request, policy).await?))
}

/// Show what an operation would send
///
/// The files that the context engine would choose, why, and the text that would go to the model. Starts nothing.
#[utoipa::path(
    post,
    path = "/context",
    operation_id = "context",
    tag = "repository",
    request_body = ContextRequest,
    responses(
        (status = 200, description = "The selection.", body = ContextResult),
        RefusalResponses, RefusedBody, RefusedRepository,
        (status = 404, description = "`invalid-repository`: there is no directory at `repo_path` that can be read. \
            `empty-repository`: it holds no files. `file-not-found`: there is no such target.", body = ErrorBody),
    ),
)]
pub(super) async fn context(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<ContextRequest>,
) -> HandlerResult<Json<ContextResult>> {
    let environment = state.environment(&Overrides::default());
    let common = state.common(&environment)?;
    let context = state
        .sessions()
        .context(request, common.policy, common.vault, limits::PACKET_TOKENS)
        .await?;
    Ok(Json(context))
}

/// Draw modules and their imports
///
/// The files, folders or packages of a directory, at most 25 with the rest folded, and the imports between them. Asks no
/// model.
#[utoipa::path(
    post,
    path = "/graph",
    operation_id = "graph",
    tag = "repository",
    request_body = GraphRequest,
    responses(
        (status = 200, description = "The graph.", body = ModuleGraph),
        RefusalResponses, RefusedBody, RefusedRepository,
        (status = 404, description = "`invalid-repository`: there is no directory at `repo_path` that can be read. \
            `empty-repository`: it holds no files. `file-not-found`: there is no such directory in it.", body = ErrorBody),
    ),
)]
pub(super) async fn graph(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<GraphRequest>,
) -> HandlerResult<Json<ModuleGraph>> {
    let policy = state.common(&state.environment(&Overrides::default()))?.policy;
    Ok(Json(state.sessions().graph(request, policy).await?))
}

/// Draw the callers and callees of a symbol
///
/// The definitions of a name, and the definitions that call them or that they call: at most 25, the rest folded. Calls are
/// matched by syntax; an edge says where only the name tells which definition is meant. Asks no model.
#[utoipa::path(
    post,
    path = "/graph/calls",
    operation_id = "callGraph",
    tag = "repository",
    request_body = CallGraphRequest,
    responses(
        (status = 200, description = "The graph.", body = CallGraph),
        RefusalResponses, RefusedBody, RefusedRepository,
        (status = 404, description = "`invalid-repository`: there is no directory at `repo_path` that can be read. \
            `empty-repository`: it holds no files. `file-not-found`: there is no such path, or no definition of the name \
            beneath it.", body = ErrorBody),
    ),
)]
pub(super) async fn call_graph(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<CallGraphRequest>,
) -> HandlerResult<Json<CallGraph>> {
    let policy = state.common(&state.environment(&Overrides::default()))?.policy;
    Ok(Json(state.sessions().call_graph(request, policy).await?))
}

/// List the providers and their models
///
/// All three providers; of the enabled one also the models that it offers by its own list. That list is asked for at
/// most 2 s and then kept for some minutes; a provider that cannot be reached costs its list, not the answer. Providers
/// that are not enabled are never asked.
#[utoipa::path(
    get,
    path = "/models",
    operation_id = "models",
    tag = "service",
    responses(
        (status = 200, description = "The providers.", body = Models),
        RefusalResponses,
        (status = 503, description = "`config-missing`, `config-invalid` and the like: there is no valid configuration.",
            body = ErrorBody),
    ),
)]
pub(super) async fn models(State(state): State<AppState>) -> HandlerResult<Json<Models>> {
    let environment = state.environment(&Overrides::default());
    let settings = state.settings(&environment)?;
    let options = tool_provider::Options {
        key_command: Some(tool_session::key_command(&environment.forwarded())),
        ..tool_provider::Options::default()
    };
    let discovered = state.models().of_with(&settings.provider, &options).await;
    let entry = |provider: ProviderSummary| {
        let mut models: Vec<String> = provider.model.into_iter().collect();
        if provider.enabled {
            let configured = models.first().cloned();
            let others = discovered.iter().filter(|model| configured.as_ref() != Some(model));
            models.extend(others.cloned());
        }
        ProviderEntry {
            name: provider.name.to_string(),
            enabled: provider.enabled,
            models,
        }
    };
    let providers = settings.providers.into_iter().map(entry).collect();
    Ok(Json(Models { providers }))
}

/// State of the backend
///
/// The specification names this route as `/api/status`.
#[utoipa::path(
    get,
    path = "/status",
    operation_id = "status",
    tag = "service",
    responses((status = 200, description = "It runs.", body = BackendStatus), RefusalResponses),
)]
pub(super) async fn status(State(state): State<AppState>) -> Json<BackendStatus> {
    let settings = state.settings(&state.environment(&Overrides::default())).ok();
    let provider = settings.map(|settings| settings.provider);
    Json(BackendStatus {
        status: "running".to_owned(),
        version: state.0.environment.version().to_owned(),
        pid: std::process::id(),
        address: state.0.listening.ip().to_string(),
        port: state.port(),
        started: state.0.started,
        sessions_running: state.sessions().running(),
        provider: provider.as_ref().map(|provider| provider.name.to_string()),
        model: provider.map(|provider| provider.model),
    })
}

/// End the backend where nothing is under way
///
/// Looks and closes in one step: a request that comes at the same time either keeps the backend or gets `stopping`. A
/// client of another version replaces an idle backend so. Only for the holder of the token.
#[utoipa::path(
    post,
    path = "/stop-if-idle",
    operation_id = "stopIfIdle",
    tag = "service",
    responses(
        (status = 200, description = "It ends, or it goes on.", body = Stopping),
        RefusalResponses,
        (status = 415, description = "`unsupported-media-type`: a body that is not said to be JSON.", body = ErrorBody),
    ),
)]
pub(super) async fn stop_if_idle(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> HandlerResult<Json<Stopping>> {
    if caller != Caller::Token {
        let problem = Problem::new(ErrorKind::Forbidden, "Only the holder of the token can end the backend");
        return Err(problem
            .with_hint("send the token as `Authorization: Bearer TOKEN`")
            .into());
    }
    let sessions = state.sessions();
    let deadline = tokio::time::Instant::now() + limits::milliseconds(limits::LEAVE_MS);
    // A session leaves the list a moment after its last event.
    let stopping = loop {
        if sessions.close_if_idle() {
            break true;
        }
        if sessions.is_busy() || tokio::time::Instant::now() > deadline {
            break false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    Ok(Json(Stopping {
        stopping,
        sessions_running: sessions.running(),
    }))
}

/// This description
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    tag = "service",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object), RefusalResponses),
)]
pub(super) async fn description() -> Response {
    (
        [(header::CONTENT_TYPE, "application/json")],
        super::openapi_description(),
    )
        .into_response()
}
