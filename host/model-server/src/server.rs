//! The server behind a script: loopback HTTP on its own thread, so that synchronous and asynchronous tests can use it.
//!
//! It finds out which wire a request speaks, records the request, and hands it to the wire's dialect, which alone knows
//! the form of answers.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use axum::serve::ListenerExt;
use chrono::{TimeDelta, Utc};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::chat::Chat;
use super::dialect::{self, CheckedRequest, Dialect, HasHeader, RoundContext, WireError};
use super::generate_content::GenerateContent;
use super::messages::Messages;
use super::ollama::{self, OllamaModels};
use super::responses::Responses;
use super::vendor::{self, BoundThinking};
use super::{RetryAfter, Round, Script, ScriptedStatus, ServerStep, body_stream};
use tool_core::text::estimated_tokens;

/// Largest request in bytes that a scripted server reads: more than any context holds.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// `GET` or `POST`.
    pub method: String,
    /// Path without a query.
    pub path: String,
    /// Query of the URL, without the `?`; empty where there is none.
    pub query: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null where it is no JSON.
    pub body: Value,
}

/// A running server. It ends when this is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ServerShared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// Receives each request and a few words about its answer.
type Observer = Box<dyn Fn(&RecordedRequest, &str) + Send + Sync>;

struct ServerShared {
    script: Script,
    observer: Observer,
    served: Mutex<usize>,
    /// Thinking that was sent, with what it is bound to.
    bound: Mutex<BoundThinking>,
    ollama: Option<Mutex<OllamaModels>>,
    requests: Mutex<Vec<RecordedRequest>>,
    gates: Mutex<HashMap<String, CancellationToken>>,
}

impl fmt::Debug for ServerShared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

impl ModelServer {
    /// Starts on a free port of loopback.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), script)
    }

    /// Starts on an address.
    pub fn start_on(address: SocketAddr, script: Script) -> io::Result<Self> {
        Self::start_observed(address, script, |_, _| {})
    }

    /// Starts on an address. `observer` receives each request and a few words about its answer.
    pub fn start_observed(
        address: SocketAddr,
        script: Script,
        observer: impl Fn(&RecordedRequest, &str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ollama = script.ollama_context;
        let shared = Arc::new(ServerShared {
            ollama: ollama.map(|tokens| Mutex::new(OllamaModels::new(&script.models, tokens))),
            script,
            observer: Box::new(observer),
            served: Mutex::new(0),
            bound: Mutex::default(),
            requests: Mutex::default(),
            gates: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let (state, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::Builder::new().name("model-server".into()).spawn(move || {
            // Dropping the runtime at the end closes all open connections, stalled answers included.
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = serve_requests(listener, state) => {}
                }
            });
        })?;
        Ok(Self {
            address,
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// Address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Base URL of the Chat Completions and the Responses wire.
    pub fn url(&self) -> String {
        format!("{}/v1", self.root())
    }

    /// Base URL of the Messages and the generateContent wire.
    pub fn root(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests for an answer so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        let is_answer = |request: &RecordedRequest| request.path != "/tokenize" && !ollama::is_own(&request.path);
        self.recorded("POST").into_iter().filter(is_answer).collect()
    }

    /// The requests of Ollama's own API so far that change something.
    pub fn ollama_requests(&self) -> Vec<RecordedRequest> {
        let is_own = |request: &RecordedRequest| ollama::is_own(&request.path);
        self.recorded("POST").into_iter().filter(is_own).collect()
    }

    /// The requests for a list or a property of the server so far: clients look for the context's size before they
    /// send anything.
    pub fn lists(&self) -> Vec<RecordedRequest> {
        self.recorded("GET")
    }

    fn recorded(&self, method: &str) -> Vec<RecordedRequest> {
        let requests = lock_state(&self.shared.requests);
        requests
            .iter()
            .filter(|request| request.method == method)
            .cloned()
            .collect()
    }

    /// Opens a gate permanently.
    pub fn release(&self, gate: &str) {
        self.shared.gate(gate).cancel();
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // If the server panicked, the client has already failed visibly.
            let _ = thread.join();
        }
    }
}

impl ServerShared {
    fn gate(&self, name: &str) -> CancellationToken {
        lock_state(&self.gates).entry(name.to_owned()).or_default().clone()
    }

    /// The number of the round that a request gets.
    fn number(&self, request: &RecordedRequest) -> usize {
        if self.script.per_conversation {
            answers_in(&request.body)
        } else {
            *lock_state(&self.served)
        }
    }

    /// The next round with its number; `None` if the script is over.
    fn next_round(&self, request: &RecordedRequest) -> Option<(usize, Round)> {
        let number = self.number(request);
        let length = self.script.rounds.len();
        let mut served = lock_state(&self.served);
        let at = if self.script.repeat && length > 0 {
            number % length
        } else {
            number
        };
        let round = self.script.rounds.get(at)?.clone();
        *served += 1;
        Some((number, round))
    }
}

/// Returns the number of the model's answers in a conversation.
fn answers_in(body: &Value) -> usize {
    if let Some(items) = body["input"].as_array() {
        // An answer of this wire is a run of items.
        let is_own = |item: &Value| {
            item["role"] == "assistant" || matches!(item["type"].as_str(), Some("reasoning" | "function_call"))
        };
        let runs = items.chunk_by(|left, right| is_own(left) == is_own(right));
        return runs.filter(|run| run.first().is_some_and(is_own)).count();
    }
    let messages = body["messages"].as_array().or_else(|| body["contents"].as_array());
    let is_answer = |message: &&Value| matches!(message["role"].as_str(), Some("assistant" | "model"));
    messages.into_iter().flatten().filter(is_answer).count()
}

fn lock_state<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve_requests(listener: TcpListener, shared: Arc<ServerShared>) {
    let app = Router::new()
        .fallback(answer_request)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(shared);
    let served = match tokio::net::TcpListener::from_std(listener) {
        // Pieces of an answer are small. Without this option the kernel would hold each back until the one before is
        // acknowledged (Nagle), which real servers prevent too.
        Ok(listener) => axum::serve(listener.tap_io(|stream| drop(stream.set_nodelay(true))), app).await,
        Err(error) => Err(error),
    };
    if let Err(error) = served {
        tracing::error!(%error, "the scripted model server ended");
    }
}

async fn answer_request(
    State(shared): State<Arc<ServerShared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let recorded = RecordedRequest {
        method: method.to_string(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers: headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        body,
    };
    lock_state(&shared.requests).push(recorded.clone());
    let (response, told) = choose_response(&shared, &method, &recorded);
    (shared.observer)(&recorded, &told);
    response
}

impl HasHeader for RecordedRequest {
    fn has_header(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }
}

/// What a request asks for.
enum RequestedResource<'r> {
    Models,
    Model(&'r str),
    Answer {
        model: &'r str,
        stream: bool,
    },
    /// Makes a cache of content, which later requests name.
    Cache {
        model: &'r str,
    },
}

/// Returns the wire and the resource of a request. Two wires have their model list at the same path; a header of one of
/// them tells them apart.
fn route_request<'r>(
    method: &Method,
    request: &'r RecordedRequest,
) -> Option<(&'static dyn Dialect, RequestedResource<'r>)> {
    let path = request.path.as_str();
    if *method == Method::GET {
        let (before, id) = path.split_once("/models")?;
        let dialect: &dyn Dialect = match before {
            "/v1beta" => &GenerateContent,
            "/v1" if request.has_header("anthropic-version") => &Messages,
            "" | "/v1" => &Chat,
            _ => return None,
        };
        return match id.strip_prefix('/') {
            None if id.is_empty() => Some((dialect, RequestedResource::Models)),
            None => None,
            Some(id) => Some((dialect, RequestedResource::Model(id))),
        };
    }
    if *method != Method::POST {
        return None;
    }
    let model = request.body["model"].as_str().unwrap_or_default();
    let stream = request.body["stream"] == true;
    if path.ends_with("/chat/completions") {
        return Some((&Chat, RequestedResource::Answer { model, stream }));
    }
    if path.ends_with("/responses") {
        return Some((&Responses, RequestedResource::Answer { model, stream }));
    }
    if path.ends_with("/v1/messages") {
        return Some((&Messages, RequestedResource::Answer { model, stream }));
    }
    if path.ends_with("cachedContents") {
        return Some((&GenerateContent, RequestedResource::Cache { model }));
    }
    let (_, called) = path.split_once("/models/")?;
    let (model, action) = called.rsplit_once(':')?;
    let stream = match action {
        "streamGenerateContent" => true,
        "generateContent" => false,
        _ => return None,
    };
    Some((&GenerateContent, RequestedResource::Answer { model, stream }))
}

/// The answer to a request, and a few words about it for the observer.
fn choose_response(shared: &Arc<ServerShared>, method: &Method, request: &RecordedRequest) -> (Response<Body>, String) {
    let script = &shared.script;
    if let Some(body) = script.get.get(&request.path).filter(|_| *method == Method::GET) {
        return (json_response(200, body), "an entry of `get`".to_owned());
    }
    if let Some(models) = &shared.ollama
        && let Some((code, body)) = lock_state(models).answer(method.as_str(), &request.path, &request.body)
    {
        return (json_response(code, &body), "Ollama's own API".to_owned());
    }
    if let (Some(bytes), "/tokenize") = (script.bytes_per_token, request.path.as_str()) {
        let text = request.body["content"].as_str().unwrap_or_default();
        let tokens = vec![0; (text.len() as f64 / bytes).ceil() as usize];
        return (
            json_response(200, &serde_json::json!({"tokens": tokens})),
            "a count of tokens".to_owned(),
        );
    }
    let Some((dialect, ask)) = route_request(method, request) else {
        return build_refusal(&Chat, 404, &format!("{method} {} is not served here", request.path));
    };
    match ask {
        RequestedResource::Models => (
            json_response(200, &dialect.models(&script.models)),
            "the model list".to_owned(),
        ),
        RequestedResource::Model(id) => match script.models.iter().find(|model| *model == id) {
            Some(id) => (json_response(200, &dialect.model(id)), "a model".to_owned()),
            None => build_refusal(dialect, 404, &format!("model `{id}` not found")),
        },
        RequestedResource::Cache { model } => {
            let cache = serde_json::json!({"name": "cachedContents/scripted", "model": model, "usageMetadata": {"totalTokenCount": 0}});
            (json_response(200, &cache), "a cache of content".to_owned())
        }
        RequestedResource::Answer { model, stream } => tell_round(shared, dialect, request, model, stream),
    }
}

fn tell_round(
    shared: &Arc<ServerShared>,
    dialect: &'static dyn Dialect,
    request: &RecordedRequest,
    model: &str,
    stream: bool,
) -> (Response<Body>, String) {
    let script = &shared.script;
    let incoming = CheckedRequest {
        body: &request.body,
        query: &request.query,
        streams: stream,
        header: request,
    };
    if script.strict
        && let Err(reason) = dialect.check(incoming, script, shared.number(request))
    {
        return build_refusal(dialect, 400, &reason);
    }
    if let Some(vendor) = script.vendor
        && let Err(reason) = vendor.check(&request.body, &lock_state(&shared.bound))
    {
        return build_refusal(dialect, 400, &reason);
    }
    let Some((number, round)) = shared.next_round(request) else {
        let length = script.rounds.len();
        return build_refusal(dialect, 400, &format!("the script is over: it has {length} rounds"));
    };
    for step in &round.steps {
        if let ServerStep::Reasoning(text) = step {
            let conversation = vendor::digest_prefix(&request.body, vendor::messages_in(&request.body));
            lock_state(&shared.bound).insert((text.clone(), conversation));
        }
    }
    let told = format!("round {} of {}", number % script.rounds.len() + 1, script.rounds.len());
    if let Some(ServerStep::Status(status)) = round.steps.first() {
        return (http_answer(status, dialect), format!("{told}, status {}", status.code));
    }
    let telling = RoundContext {
        round: &round,
        number,
        model,
        request_tokens: estimated_tokens(request.body.to_string().len()),
    };
    let (actions, usual_type) = if stream {
        (dialect::stream_round(dialect, telling), "text/event-stream")
    } else {
        (dialect::encode_whole(dialect, telling), "application/json")
    };
    let gates = Arc::clone(shared);
    let body = body_stream::stream_body(actions, round.split_bytes, move |name| gates.gate(name));
    let content_type = round.content_type.as_deref().unwrap_or(usual_type);
    (
        build_response(200, &[("content-type", content_type)], Body::from_stream(body)),
        told,
    )
}

fn build_refusal(dialect: &dyn Dialect, code: u16, reason: &str) -> (Response<Body>, String) {
    let body = dialect.error(WireError {
        code,
        message: Some(reason),
        retry_after_seconds: None,
    });
    (json_response(code, &body), format!("{code}: {reason}"))
}

fn json_response(code: u16, body: &Value) -> Response<Body> {
    build_response(
        code,
        &[("content-type", "application/json")],
        Body::from(body.to_string()),
    )
}

/// Builds a script's HTTP answer, with the wire's own error object if the script gives no body.
fn http_answer(status: &ScriptedStatus, dialect: &dyn Dialect) -> Response<Body> {
    let (kind, body) = match &status.body {
        Value::String(text) if text.trim_start().starts_with('<') => ("text/html", text.clone()),
        Value::String(text) => ("text/plain", text.clone()),
        Value::Null => {
            let mishap = WireError {
                code: status.code,
                message: status.message.as_deref(),
                retry_after_seconds: match status.retry_after {
                    Some(RetryAfter::Body(seconds)) => Some(seconds),
                    _ => None,
                },
            };
            ("application/json", dialect.error(mishap).to_string())
        }
        value => ("application/json", value.to_string()),
    };
    let wait = status.retry_after.as_ref().and_then(retry_after_header);
    let mut headers = vec![("content-type", kind)];
    headers.extend(wait.as_ref().map(|(name, value)| (*name, value.as_str())));
    let own = status.headers.iter();
    headers.extend(own.map(|(name, value)| (name.as_str(), value.as_str())));
    build_response(status.code, &headers, Body::from(body))
}

fn retry_after_header(wait: &RetryAfter) -> Option<(&'static str, String)> {
    const NAME: &str = "retry-after";
    Some(match wait {
        RetryAfter::Seconds(seconds) => (NAME, seconds.to_string()),
        RetryAfter::Ms(milliseconds) => ("retry-after-ms", milliseconds.to_string()),
        RetryAfter::DateIn(seconds) => {
            let seconds = i64::try_from(*seconds).ok().and_then(TimeDelta::try_seconds)?;
            let date = Utc::now().checked_add_signed(seconds)?;
            (NAME, date.format("%a, %d %b %Y %H:%M:%S GMT").to_string())
        }
        RetryAfter::Header(text) => (NAME, text.clone()),
        RetryAfter::Body(_) => return None,
    })
}

/// A script may name an invalid status or header; then the server answers with an error instead of panicking.
fn build_response(code: u16, headers: &[(&str, &str)], body: Body) -> Response<Body> {
    let mut builder = Response::builder().status(code);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(body).unwrap_or_else(|error| {
        let mut response = Response::new(Body::from(format!("the script cannot be sent: {error}")));
        *response.status_mut() = StatusCode::NOT_IMPLEMENTED;
        response
    })
}
