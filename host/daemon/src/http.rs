//! The HTTP interface: every route of the specification at both `/…` and `/api/…`, with the same checks before each.
//!
//! Routes convert between the wire types of `api` and the methods of `session`. The modules `request_checks`, `auth` and
//! `listener` decide who may send a request.

mod access;
pub(crate) mod auth;
mod body;
mod changes;
pub(crate) mod error;
#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/http.rs"]
pub(crate) mod fuzz;
mod listener;
mod mcp;
mod openapi;
mod owner;
mod request_checks;
mod serve;
mod service;
mod sessions;
mod skills;
mod sse;
mod stream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use crate::mcp::McpConnections;
use auth::Caller;
use error::ApiError;
use openapi::RouteTable;
use tool_config::{CommonSettings, Environment, LiveConfig, Settings};
use tool_core::api::{self, ErrorKind, Overrides, PolicyRequest, Problem, Timestamp};
use tool_provider::ModelCache;
use tool_session::Sessions;
use tool_skill::SkillHost;

pub use access::Traffic;
pub(crate) use auth::is_own_user;
pub use listener::{Peer, ServerSockets};
pub use owner::listener_of;
pub use serve::serve_sockets;

/// Dependencies of the routes.
pub struct RouterParts {
    /// Sessions of the daemon.
    pub sessions: Arc<Sessions>,
    /// Skills of this machine.
    pub skills: Arc<SkillHost>,
    /// Token that a client of another user must send.
    pub token: String,
    /// Address on which the server listens.
    pub listening: SocketAddr,
    /// The present configuration, with the rules for access.
    pub live: Arc<LiveConfig>,
    /// Access log and counters of requests.
    pub traffic: Arc<Traffic>,
    /// Time when the daemon started.
    pub started: Timestamp,
    /// The home directory of the daemon.
    pub home: PathBuf,
    /// The daemon's own environment, for requests that send none.
    pub environment: Environment,
}

/// [`RouterParts`], the cached lists of models and the connected agents, shared by all requests.
#[derive(Clone)]
pub struct AppState(Arc<RouterParts>, Arc<ModelCache>, Arc<McpConnections>);

impl AppState {
    /// Creates the state from its parts.
    pub fn new(parts: RouterParts) -> Self {
        let mcp = McpConnections::new(Arc::clone(&parts.sessions));
        Self(Arc::new(parts), Arc::default(), mcp)
    }

    fn sessions(&self) -> &Arc<Sessions> {
        &self.0.sessions
    }

    fn token(&self) -> &str {
        &self.0.token
    }

    fn port(&self) -> u16 {
        self.0.listening.port()
    }

    /// True if other machines can send requests.
    fn is_exposed(&self) -> bool {
        !self.0.listening.ip().to_canonical().is_loopback()
    }

    fn traffic(&self) -> &Arc<Traffic> {
        &self.0.traffic
    }

    /// Returns the settings in force, even while the file is invalid.
    fn common_now(&self) -> Arc<CommonSettings> {
        self.0.live.current()
    }

    fn home(&self) -> &Path {
        &self.0.home
    }

    fn models(&self) -> &ModelCache {
        &self.1
    }

    fn mcp(&self) -> &Arc<McpConnections> {
        &self.2
    }

    /// The environment of a request: the one that it sent, or the daemon's own.
    fn environment(&self, overrides: &Overrides) -> Environment {
        if overrides.0.is_empty() {
            self.0.environment.clone()
        } else {
            Environment::new(overrides.0.clone())
        }
    }

    /// Reads the present configuration. Blocks for a moment, to read one small file.
    fn settings(&self, environment: &Environment) -> Result<Settings, Problem> {
        tool_config::load_settings(self.home(), environment)
    }

    /// Reads the present configuration, for work without a provider.
    fn common(&self, environment: &Environment) -> Result<CommonSettings, Problem> {
        tool_config::load_common(self.home(), environment)
    }
}

/// Returns the variables that a recipe may see: all forwarded ones except keys.
fn visible_to_recipes(environment: &Environment) -> BTreeMap<String, String> {
    let mut visible = environment.forwarded();
    visible.retain(|name, _| !tool_config::is_key_variable(name));
    visible
}

/// Refuses a request beyond a session's defaults, unless it comes from the holder of the token. The same user without
/// the token may work, but neither add effects nor approve them. Names of variables must be those that a client
/// forwards: a fixed list, and those that `headers` in the configuration names.
fn check_reach(state: &AppState, caller: Caller, widens: bool, overrides: &Overrides) -> Result<(), Problem> {
    let is_listed = |name: &str| api::FORWARDED.contains(&name);
    if let Some(name) = overrides.0.keys().find(|name| !is_listed(name))
        && overrides
            .0
            .keys()
            .any(|name| !is_listed(name) && !tool_config::named_variables(state.home()).contains(name))
    {
        let message = format!("The variable `{name}` cannot be overridden");
        return Err(Problem::new(ErrorKind::InvalidRequest, message).with_hint(format!(
            "these can, and those that `headers` in config.toml name: {}",
            api::FORWARDED.join(", ")
        )));
    }
    if caller == Caller::Token || (!widens && overrides.0.is_empty()) {
        return Ok(());
    }
    Err(Problem::new(
        ErrorKind::Forbidden,
        "A request without the token can only narrow what is allowed",
    )
    .with_hint(
        "send the token as `Authorization: Bearer TOKEN`, or leave out `policy.allow`, `interactive`, `ask` and \
         `overrides`",
    ))
}

/// Restricts a caller that may be confined to reading, whatever the configuration allows. Later turns of its
/// conversations inherit this.
fn restrict_to_reading(caller: Caller, policy: &mut PolicyRequest) {
    if caller == Caller::SameUser {
        policy.deny_changes();
    }
}

/// All routes, behind the checks for every request.
pub fn build_router(state: AppState) -> Router {
    let (described, _) = build_route_table().finish();
    let routes = described.merge(mcp::mcp_routes());
    Router::new()
        .merge(routes.clone())
        .nest("/api", routes)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(axum::middleware::from_fn_with_state(
            state.clone(),
            request_checks::check_request,
        ))
        .with_state(state)
}

/// The table of all routes. A handler that is missing here is not served.
fn build_route_table() -> RouteTable {
    RouteTable::new()
        .with(service::__path_scan, service::scan)
        .with(sessions::__path_execute, sessions::execute)
        .with(sessions::__path_stream_by_query, sessions::stream_by_query)
        .with(sessions::__path_execute_and_stream, sessions::execute_and_stream)
        .with(sessions::__path_stream_by_path, sessions::stream_by_path)
        .with(service::__path_context, service::context)
        .with(service::__path_graph, service::graph)
        .with(service::__path_call_graph, service::call_graph)
        .with(service::__path_models, service::models)
        .with(sessions::__path_tasks, sessions::tasks)
        .with(sessions::__path_history, sessions::history)
        .with(sessions::__path_result, sessions::result)
        .with(sessions::__path_continue_session, sessions::continue_session)
        .with(sessions::__path_cancel, sessions::cancel)
        .with(changes::__path_diff, changes::diff)
        .with(changes::__path_undo, changes::undo)
        .with(changes::__path_apply, changes::apply)
        .with(changes::__path_discard, changes::discard)
        .with(sessions::__path_approval, sessions::approval)
        .with(sessions::__path_answer, sessions::answer)
        .with(skills::__path_list, skills::list)
        .with(skills::__path_call, skills::call)
        .with(service::__path_status, service::status)
        .with(service::__path_stop_if_idle, service::stop_if_idle)
        .with(service::__path_description, service::description)
}

/// The OpenAPI description of all routes, as served at `/openapi.json`.
pub fn openapi_description() -> Bytes {
    static DESCRIPTION: LazyLock<Bytes> = LazyLock::new(|| {
        let (_, document) = build_route_table().finish();
        let mut text = document.to_pretty_json().expect("a description has string keys only");
        text.push('\n');
        text.into()
    });
    DESCRIPTION.clone()
}

async fn no_route(uri: Uri) -> ApiError {
    let message = format!("There is nothing at `{}`", uri.path());
    ApiError(Problem::new(ErrorKind::NotFound, message).with_hint("GET /openapi.json describes the routes"))
}

/// Answers a method that a path does not support. The router adds the supported ones as `Allow`.
async fn no_method(method: Method, uri: Uri) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let message = format!("`{}` cannot be asked with {method}", uri.path());
    ApiError(Problem::new(ErrorKind::MethodNotAllowed, message)).into_response()
}

#[cfg(test)]
mod tests;
