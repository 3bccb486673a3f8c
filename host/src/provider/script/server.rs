//! The server behind a script: loopback HTTP on a thread of its own, so that tests of either kind can use it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::chat::{self, Action};
use super::{Round, Script, ScriptedStatus, Step};

/// Largest request that a scripted server reads: more than any context holds.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// `GET` or `POST`.
    pub method: String,
    /// Path without a query.
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null where it is no JSON.
    pub body: Value,
}

/// A running server. It ends when this is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    served: Mutex<usize>,
    requests: Mutex<Vec<Recorded>>,
    gates: Mutex<HashMap<String, CancellationToken>>,
}

impl ModelServer {
    /// Starts on a free port of loopback.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), script)
    }

    /// Starts on an address.
    pub fn start_on(address: SocketAddr, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared {
            script,
            served: Mutex::new(0),
            requests: Mutex::default(),
            gates: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let (state, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::Builder::new().name("model-server".into()).spawn(move || {
            // Dropping the runtime at the end closes what is still open, stalled answers included.
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = serve(listener, state) => {}
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Base URL of the Chat Completions wire.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests for an answer so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.recorded("POST")
    }

    /// The requests for a list or a property of the server so far: clients look for the context's size before they
    /// send anything.
    pub fn lists(&self) -> Vec<Recorded> {
        self.recorded("GET")
    }

    fn recorded(&self, method: &str) -> Vec<Recorded> {
        let requests = locked(&self.shared.requests);
        requests
            .iter()
            .filter(|request| request.method == method)
            .cloned()
            .collect()
    }

    /// Opens a gate, for now and for ever.
    pub fn release(&self, gate: &str) {
        self.shared.gate(gate).cancel();
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic of the server has shown itself in the client's failure already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn gate(&self, name: &str) -> CancellationToken {
        locked(&self.gates).entry(name.to_owned()).or_default().clone()
    }

    /// The next round with its number; nothing where the script is over.
    fn next_round(&self) -> Option<(usize, Round)> {
        let mut served = locked(&self.served);
        let (number, length) = (*served, self.script.rounds.len());
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let app = Router::new()
        .fallback(answer)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(shared);
    let served = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => axum::serve(listener, app).await,
        Err(error) => Err(error),
    };
    if let Err(error) = served {
        tracing::error!(%error, "the scripted model server ended");
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = uri.path();
    locked(&shared.requests).push(Recorded {
        method: method.to_string(),
        path: path.to_owned(),
        headers: headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        body: body.clone(),
    });
    match method {
        Method::GET if path.ends_with("/models") => model_list(&shared.script.models),
        Method::POST if path.ends_with("/chat/completions") => completion(&shared, &body),
        _ => refusal(404, &format!("{method} {path} is not served here")),
    }
}

fn model_list(models: &[String]) -> Response<Body> {
    let entry = |id: &String| json!({"id": id, "object": "model", "created": 0, "owned_by": "script"});
    let data: Vec<Value> = models.iter().map(entry).collect();
    whole(&ScriptedStatus::new(200, json!({"object": "list", "data": data})))
}

fn completion(shared: &Arc<Shared>, body: &Value) -> Response<Body> {
    if body["stream"] != true {
        return refusal(400, "the scripted server answers only with `stream: true`");
    }
    let Some((number, round)) = shared.next_round() else {
        let length = shared.script.rounds.len();
        return refusal(400, &format!("the script is over: it has {length} rounds"));
    };
    if let Some(Step::Status(status)) = round.steps.first() {
        return whole(status);
    }
    let actions = chat::actions(&round, number, body["model"].as_str().unwrap_or_default());
    let actions = split(actions, round.split_bytes);
    let content_type = round.content_type.as_deref().unwrap_or("text/event-stream");
    response(
        200,
        &[("content-type", content_type)],
        Body::from_stream(play(actions, Arc::clone(shared))),
    )
}

fn refusal(code: u16, message: &str) -> Response<Body> {
    let body = json!({"error": {"message": message, "type": "invalid_request_error", "code": null}});
    whole(&ScriptedStatus::new(code, body))
}

fn whole(status: &ScriptedStatus) -> Response<Body> {
    let (kind, body) = match &status.body {
        Value::String(text) if text.trim_start().starts_with('<') => ("text/html", text.clone()),
        Value::String(text) => ("text/plain", text.clone()),
        Value::Null => ("text/plain", String::new()),
        value => ("application/json", value.to_string()),
    };
    let mut headers = vec![("content-type", kind)];
    headers.extend(
        status
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    );
    response(status.code, &headers, Body::from(body))
}

/// A script may name what is no status or header; that is answered, not a panic.
fn response(code: u16, headers: &[(&str, &str)], body: Body) -> Response<Body> {
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

/// A piece of a body to send, or something to wait for.
enum Piece {
    Bytes(Bytes),
    Other(Action),
}

fn split(actions: Vec<Action>, bytes: Option<usize>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for action in actions {
        match action {
            Action::Send(text) => {
                let text = Bytes::from(text);
                let size = bytes.unwrap_or(text.len()).max(1);
                pieces.extend(text.chunks(size).map(|chunk| Piece::Bytes(text.slice_ref(chunk))));
            }
            other => pieces.push(Piece::Other(other)),
        }
    }
    pieces.reverse();
    pieces
}

/// Plays the pieces, of which the last is the next.
fn play(pieces: Vec<Piece>, shared: Arc<Shared>) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold((pieces, shared), |(mut pieces, shared)| async move {
        loop {
            match pieces.pop()? {
                Piece::Bytes(bytes) => {
                    // The server writes what it has while this waits, so that pieces leave one by one.
                    tokio::task::yield_now().await;
                    return Some((Ok(bytes), (pieces, shared)));
                }
                Piece::Other(Action::WaitMs(milliseconds)) => {
                    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                }
                Piece::Other(Action::Gate(name)) => shared.gate(&name).cancelled().await,
                Piece::Other(Action::Stall) => std::future::pending().await,
                Piece::Other(Action::Reset) => {
                    // What was sent before must have left.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    return Some((Err(io::ErrorKind::ConnectionReset.into()), (pieces, shared)));
                }
                Piece::Other(Action::Send(_)) => {}
            }
        }
    })
}
