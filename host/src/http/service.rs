//! What is not about one session: scan, models, status, identity.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::AppState;
use super::auth::proof;
use super::body::{JsonBody, QueryOf};
use super::error::Answer;
use crate::api::{
    BackendStatus, ContextRequest, ContextResult, Models, Overrides, Problem, ProviderEntry, ScanRequest, ScanResult,
};

/// POST /scan
pub(super) async fn scan(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<ScanRequest>,
) -> Answer<Json<ScanResult>> {
    let policy = state.policy(&state.environment(&Overrides::default()))?;
    Ok(Json(state.sessions().scan(request, policy).await?))
}

/// POST /context
pub(super) async fn context(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<ContextRequest>,
) -> Answer<Json<ContextResult>> {
    let environment = state.environment(&Overrides::default());
    let vault = state.settings(&environment).ok().and_then(|settings| settings.vault);
    let policy = state.policy(&environment)?;
    Ok(Json(state.sessions().context(request, policy, vault).await?))
}

/// GET /models
pub(super) async fn models(State(state): State<AppState>) -> Answer<Json<Models>> {
    let settings = state.settings(&state.environment(&Overrides::default()))?;
    let providers = settings.providers.into_iter().map(|provider| ProviderEntry {
        name: provider.name.to_string(),
        enabled: provider.enabled,
        models: provider.model.into_iter().collect(),
    });
    Ok(Json(Models {
        providers: providers.collect(),
    }))
}

/// GET /status
pub(super) async fn status(State(state): State<AppState>) -> Json<BackendStatus> {
    let settings = state.settings(&state.environment(&Overrides::default())).ok();
    let provider = settings.map(|settings| settings.provider);
    Json(BackendStatus {
        status: "running".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        port: state.port(),
        started: state.0.started,
        sessions_running: state.sessions().running(),
        provider: provider.as_ref().map(|provider| provider.name.to_string()),
        model: provider.map(|provider| provider.model),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdentityQuery {
    nonce: String,
}

/// Answer of GET /identity.
#[derive(Serialize)]
pub(super) struct Identity {
    /// See [`proof`].
    proof: String,
    pid: u32,
    version: &'static str,
}

/// GET /identity
pub(super) async fn identity(
    State(state): State<AppState>,
    QueryOf(query): QueryOf<IdentityQuery>,
) -> Answer<Json<Identity>> {
    let nonce = query.nonce;
    // A short nonce could be guessed by whoever wants to replay our answer.
    if !(32..=256).contains(&nonce.len()) || !nonce.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Problem::new("invalid-request", "`nonce` must be 32 to 256 hexadecimal digits").into());
    }
    Ok(Json(Identity {
        proof: proof(state.token(), state.port(), &nonce),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION"),
    }))
}
