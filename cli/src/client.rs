//! Talking to the daemon: find it or start it, make sure that it is ours, then one kept connection.
//!
//! Port 8000 is also the default of other servers, so nothing is sent before the other side has proved that it holds
//! this user's token, by a keyed answer to a nonce; the token itself goes out only afterwards.

use std::path::PathBuf;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use host::api::{ErrorBody, Event, Problem};
use host::config::Environment;
use host::daemon::{self, Record};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use crate::error::Error;

/// Where the daemon of this user is, or would be.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    pub(crate) home: PathBuf,
    pub(crate) environment: Environment,
}

impl Backend {
    /// The backend that this environment means.
    pub(crate) fn new(environment: Environment) -> Result<Self, Error> {
        let home = environment.tool_home()?;
        Ok(Self { home, environment })
    }

    /// Connects to the running daemon, starting one where there is none. An idle one of another version is replaced.
    pub(crate) async fn connect_or_start(&self) -> Result<Client, Error> {
        if let Some(record) = daemon::find(&self.home) {
            match self.connect(&record).await {
                Ok(mut client) => {
                    if record.version == env!("CARGO_PKG_VERSION") || client.is_busy().await? {
                        return Ok(client);
                    }
                    self.stop(&record)?;
                }
                Err(error) if daemon::find(&self.home).is_some() => return Err(error),
                // It died between the look and the call.
                Err(_) => {}
            }
        }
        let record = self.start()?;
        self.connect(&record).await
    }

    /// Connects to the running daemon.
    pub(crate) async fn connect_running(&self) -> Result<Client, Error> {
        match daemon::find(&self.home) {
            Some(record) => self.connect(&record).await,
            None => Err(daemon::lost(&self.home).map_or_else(refused, Error::from)),
        }
    }

    /// Starts a daemon: this same binary, in its daemon mode.
    pub(crate) fn start(&self) -> Result<Record, Error> {
        let program = std::env::current_exe().map_err(|error| {
            Problem::new("start-failed", "Failed to start backend service").with_hint(error.to_string())
        })?;
        let port = self.environment.port()?.to_string();
        Ok(daemon::start(
            &program,
            &["__daemon", "--port", &port],
            &self.home,
            &self.environment,
        )?)
    }

    /// Stops a daemon that has just proved to be ours.
    pub(crate) fn stop(&self, record: &Record) -> Result<(), Error> {
        Ok(daemon::stop(&self.home, record, true)?)
    }

    async fn connect(&self, record: &Record) -> Result<Client, Error> {
        let token = daemon::read_token(&self.home).map_err(|_| {
            Problem::new("backend-down", "The token of the running backend is missing")
                .with_hint(format!("end process {} and try again", record.pid))
        })?;
        let proved = tokio::time::timeout(PROOF_TIME, self.prove(record, &token)).await;
        let hung = |_| {
            let seconds = PROOF_TIME.as_secs();
            Problem::new(
                "backend-down",
                format!("Backend not responding: no answer in {seconds} s"),
            )
            .with_hint(format!("if it stays so, end process {} and try again", record.pid))
        };
        let mut client = proved.map_err(hung)??;
        client.authorization = Some(format!("Bearer {token}"));
        Ok(client)
    }

    /// A connection whose other side holds the same token.
    async fn prove(&self, record: &Record, token: &str) -> Result<Client, Error> {
        let mut client = Client {
            sender: open(record.port).await?,
            port: record.port,
            authorization: None,
        };
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let asked = client.get::<Identity>(&format!("/api/identity?nonce={nonce}")).await;
        let identity = asked.map_err(|_| match daemon::find(&self.home).as_ref() == Some(record) {
            true => stranger(record.port),
            false => refused(),
        })?;
        match identity.proof == host::http::proof(token, record.port, &nonce) {
            true => Ok(client),
            false => Err(stranger(record.port)),
        }
    }
}

/// How long a daemon may take to prove itself: it does so in less than a millisecond unless it hangs.
const PROOF_TIME: Duration = Duration::from_secs(5);

#[derive(serde::Deserialize)]
struct Identity {
    proof: String,
}

/// The specification's sentence for a backend that does not run.
pub(crate) fn not_running() -> Problem {
    Problem::new("backend-down", "Backend not responding: Connection refused")
        .with_hint("start it with `tool service start`")
}

fn refused() -> Error {
    not_running().into()
}

/// Why a connection broke off: the daemon at its other end is gone, or it is there and something else failed.
async fn lost(port: u16, error: &dyn std::fmt::Display) -> Error {
    for _ in 0..DYING_LOOKS {
        if TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            return refused();
        }
        tokio::time::sleep(DYING_TIME / DYING_LOOKS).await;
    }
    broken(error)
}

/// A process that dies closes what it has open one after the other: its listener may outlive a connection by this.
const DYING_TIME: Duration = Duration::from_millis(100);
const DYING_LOOKS: u32 = 5;

fn stranger(port: u16) -> Error {
    Problem::new(
        "stranger",
        format!("The server on port {port} is not the backend of this user; nothing was sent to it"),
    )
    .with_hint("backend.json points to it: remove that file, or choose another port with TOOL_BACKEND_PORT")
    .into()
}

async fn open(port: u16) -> Result<SendRequest<Full<Bytes>>, Error> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(|_| refused())?;
    // Small requests and answers go back and forth: waiting to fill packets would add 40 ms to each.
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|_| refused())?;
    tokio::spawn(connection);
    Ok(sender)
}

/// A kept connection to a daemon that has proved to be ours.
#[derive(Debug)]
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    port: u16,
    authorization: Option<String>,
}

impl Client {
    /// A second connection to the same daemon, for use while a stream is open on the first.
    pub(crate) async fn another(&self) -> Result<Self, Error> {
        Ok(Self {
            sender: open(self.port).await?,
            port: self.port,
            authorization: self.authorization.clone(),
        })
    }

    /// GET, answered in JSON.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Error> {
        let response = self.send(Method::GET, path, None).await?;
        decode(response).await
    }

    /// POST in JSON, answered in JSON.
    pub(crate) async fn post<T: DeserializeOwned>(&mut self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        let response = self.send(Method::POST, path, Some(encode(body)?)).await?;
        decode(response).await
    }

    /// POST in JSON; the answer has no body.
    pub(crate) async fn post_unanswered(&mut self, path: &str, body: &impl Serialize) -> Result<(), Error> {
        self.send(Method::POST, path, Some(encode(body)?)).await.map(|_| ())
    }

    /// DELETE; the answer is not read.
    pub(crate) async fn delete(&mut self, path: &str) -> Result<(), Error> {
        self.send(Method::DELETE, path, None).await.map(|_| ())
    }

    /// GET of an event stream.
    pub(crate) async fn events(&mut self, path: &str) -> Result<Events, Error> {
        Ok(Events::new(self.port, self.send(Method::GET, path, None).await?))
    }

    /// POST in JSON, answered by an event stream.
    pub(crate) async fn post_events(&mut self, path: &str, body: &impl Serialize) -> Result<Events, Error> {
        let response = self.send(Method::POST, path, Some(encode(body)?)).await?;
        Ok(Events::new(self.port, response))
    }

    async fn is_busy(&mut self) -> Result<bool, Error> {
        let status: host::api::BackendStatus = self.get("/api/status").await?;
        Ok(status.sessions_running > 0)
    }

    async fn send(&mut self, method: Method, path: &str, body: Option<Bytes>) -> Result<Response<Incoming>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, format!("127.0.0.1:{}", self.port))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| broken(&error))?;
        if let Err(error) = self.sender.ready().await {
            return Err(lost(self.port, &error).await);
        }
        let response = match self.sender.send_request(request).await {
            Ok(response) => response,
            Err(error) => return Err(lost(self.port, &error).await),
        };
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(problem_of(response).await)
        }
    }
}

/// A text that stands for itself in a path or a query, whatever it holds.
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Problem::new("backend-down", format!("Backend not responding: {error}"))
        .with_hint("see `tool service status` and ~/.tool/logs/backend.log")
        .into()
}

fn encode(body: &impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| broken(&error))
}

async fn decode<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, Error> {
    let body = response.into_body().collect().await.map_err(|error| broken(&error))?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| broken(&error))
}

/// The problem that an error answer carries.
async fn problem_of(response: Response<Incoming>) -> Error {
    let status: StatusCode = response.status();
    match decode::<ErrorBody>(response).await {
        Ok(body) => body.error.into(),
        Err(_) => broken(&format!("it answered {status}")),
    }
}

/// The events of one stream.
#[derive(Debug)]
pub(crate) struct Events {
    port: u16,
    body: Incoming,
    buffer: BytesMut,
    secret: Option<String>,
    session: Option<String>,
}

impl Events {
    fn new(port: u16, response: Response<Incoming>) -> Self {
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        Self {
            port,
            secret: header("x-approval-secret"),
            session: header("x-session-id"),
            body: response.into_body(),
            buffer: BytesMut::new(),
        }
    }

    /// What to say of a stream that ended without its terminal event.
    pub(crate) async fn ended_early(&self) -> Error {
        lost(self.port, &"the stream ended before the session did").await
    }

    /// The session that this stream started.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// What answers the approvals of a session that this stream started.
    pub(crate) fn secret(&self) -> String {
        self.secret.clone().unwrap_or_default()
    }

    /// The next event; `None` at the end of the stream. Comments and event types that this version does not know are
    /// passed over.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            while let Some(line) = self.take_line() {
                let Some(data) = line.strip_prefix(b"data:") else {
                    continue;
                };
                if let Ok(event) = serde_json::from_slice(data) {
                    return Ok(Some(event));
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(lost(self.port, &error).await),
                None => return Ok(None),
            }
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        let end = self.buffer.iter().position(|&byte| byte == b'\n')?;
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        Some(line)
    }
}
