//! The connection to the daemon: finds or starts it, and keeps one connection over the Unix socket in its home.
//!
//! The command line uses no TCP: port 8000 is also the default of other servers. It sends nothing before the kernel has
//! confirmed that the peer is a process of this user, and the one that `backend.json` names.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use host::daemon::{self, ConnectError, DaemonRecord, ReachedDaemon};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::{Parts, Upgraded};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tool_config::Environment;
use tool_core::api::{BackendStatus, ErrorBody, ErrorKind, Event, Problem, Stopping};
use tool_provider::sse::{Frame, Framer};

use crate::actions::command_hint;
use crate::error::Error;
use crate::output::CommandOutput;

/// Access to this user's daemon, running or not.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    pub(crate) home: PathBuf,
    pub(crate) environment: Environment,
    output: CommandOutput,
    /// False if a daemon that is started here listens only on its Unix socket.
    has_port: bool,
}

impl Backend {
    /// The backend for this environment.
    pub(crate) fn new(environment: Environment, output: CommandOutput) -> Result<Self, Error> {
        let home = environment.tool_home()?;
        Ok(Self {
            home,
            environment,
            output,
            has_port: true,
        })
    }

    /// This home. A daemon that is started here listens on no port, so that jobs can share a machine.
    pub(crate) fn without_port(&self) -> Self {
        Self {
            has_port: false,
            ..self.clone()
        }
    }

    /// Another home, with a daemon that listens on no port.
    pub(crate) fn in_home(&self, home: PathBuf) -> Self {
        Self {
            home,
            ..self.without_port()
        }
    }

    /// The variables that are sent with a session.
    pub(crate) fn forwarded(&self) -> BTreeMap<String, String> {
        tool_config::forwarded_variables(&self.home, &self.environment)
    }

    /// Connects to the running daemon, or starts one. An idle daemon of another version is replaced; a busy one is used
    /// as it is.
    pub(crate) async fn connect_or_start(&self) -> Result<Client, Error> {
        let patience = Instant::now() + START_TIME;
        loop {
            let found = self.running()?;
            let is_new = found.is_none();
            let record = match found.map_or_else(|| self.start(), Ok) {
                Ok(record) => record,
                // Another command's daemon was faster, and has ended already.
                Err(error) if is_lost_race(&error) && Instant::now() < patience => continue,
                Err(error) => return Err(error),
            };
            match self.connect(&record).await {
                Ok(client) if is_new => {
                    self.say_exposed(&record);
                    return Ok(client);
                }
                Ok(client) => {
                    if let Some(client) = self.of_this_version(client).await? {
                        return Ok(client);
                    }
                }
                Err(error) if self.is_current(&record) || Instant::now() >= patience => return Err(error),
                // It ended between the check and the call.
                Err(_) => {}
            }
        }
    }

    /// Connects, starting a daemon if there is none, and posts in JSON; the answer is an event stream. If the daemon
    /// closes between the connection and the request, the next one gets the request.
    pub(crate) async fn connect_and_stream(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<(Client, ServerEvents), Error> {
        let patience = Instant::now() + START_TIME;
        loop {
            let mut client = self.connect_or_start().await?;
            match client.post_events(path, body).await {
                Err(error) if self.is_leaving(&error, &client) && Instant::now() < patience => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => return Ok((client, answer?)),
            }
        }
    }

    /// Connects like `connect_and_stream`; the request upgrades the connection to another protocol.
    pub(crate) async fn connect_and_upgrade(
        &self,
        path: &str,
        protocol: &'static str,
        body: &impl Serialize,
    ) -> Result<(Client, UpgradedStream), Error> {
        let patience = Instant::now() + START_TIME;
        loop {
            let mut client = self.connect_or_start().await?;
            match client.upgrade(path, protocol, body).await {
                Err(error) if self.is_leaving(&error, &client) && Instant::now() < patience => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => return Ok((client, answer?)),
            }
        }
    }

    /// True if a daemon did not take a request because it is closing: it said so, or it closed the connection before it
    /// read the request. It finishes every request that it has begun, unless it is killed.
    fn is_leaving(&self, error: &Error, client: &Client) -> bool {
        let has_left = || daemon::has_left(&self.home, client.daemon.record());
        match error {
            Error::NotRunning => has_left(),
            Error::Problem(problem) => match problem.kind {
                ErrorKind::Stopping => true,
                ErrorKind::BackendDown => has_left(),
                _ => false,
            },
            _ => false,
        }
    }

    pub(crate) async fn connect_running(&self) -> Result<Client, Error> {
        match self.running()? {
            Some(record) => self.connect(&record).await,
            None => Err(daemon::find_lost_daemon(&self.home).map_or(Error::NotRunning, Error::from)),
        }
    }

    /// The daemon of this home. If it is closing, waits for its end and returns `None`.
    pub(crate) fn running(&self) -> Result<Option<DaemonRecord>, Error> {
        daemon::check_home(&self.home)?;
        Ok(daemon::find_staying(&self.home))
    }

    /// Starts a daemon: this same binary, in its daemon mode.
    fn start(&self) -> Result<DaemonRecord, Error> {
        let program = std::env::current_exe().map_err(|error| {
            Problem::new(ErrorKind::StartFailed, "Failed to start backend service").with_hint(error.to_string())
        })?;
        let port = if self.has_port {
            Some(tool_config::backend_port(&self.home, &self.environment)?.to_string())
        } else {
            None
        };
        let arguments: Vec<&str> = match &port {
            Some(port) => vec!["__daemon", "--port", port],
            None => vec!["__daemon"],
        };
        Ok(daemon::start_daemon(
            &program,
            &arguments,
            &self.home,
            &self.environment,
        )?)
    }

    pub(crate) fn stop(&self, client: &Client) -> Result<(), Error> {
        Ok(daemon::stop_daemon(&client.daemon)?)
    }

    /// Stops the daemon if it is idle, and waits until it has ended.
    pub(crate) async fn stop_if_idle(&self, client: &mut Client) -> Result<(), Error> {
        if client.stop_if_idle().await?.stopping {
            daemon::await_daemon_end(&self.home, client.daemon.record())?;
        }
        Ok(())
    }

    /// The version handshake: a daemon of this version is used as it is, and an idle one of another version is stopped.
    async fn of_this_version(&self, mut client: Client) -> Result<Option<Client>, Error> {
        let (own, other) = (env!("CARGO_PKG_VERSION"), client.daemon.record().version.clone());
        if other == own {
            return Ok(Some(client));
        }
        let (why, hint) = match client.stop_if_idle().await {
            Ok(answer) if answer.stopping => {
                daemon::await_daemon_end(&self.home, client.daemon.record())?;
                self.output.progress(&format!(
                    "The backend of version {other} was idle and has ended; this is {own}."
                ));
                return Ok(None);
            }
            // It was closing already.
            Err(_) if !self.is_current(client.daemon.record()) => return Ok(None),
            answer => left_alone(answer)?,
        };
        let message = format!("The running backend is of version {other}, this is {own}. {why} and was left alone.");
        self.output
            .warning(&Problem::new(ErrorKind::OtherVersion, message).with_hint(hint));
        Ok(Some(client))
    }

    /// Warns if other machines can reach a server that is started here.
    fn say_exposed(&self, record: &DaemonRecord) {
        if record.is_exposed() {
            let message = format!(
                "The backend listens on {}:{}, where other machines may reach it: nothing is encrypted, and every \
                 request needs the token",
                record.address, record.port
            );
            let problem = Problem::new(ErrorKind::Exposed, message)
                .with_hint("leave out `address` of [server] in config.toml to listen on loopback only");
            self.output.warning(&problem);
        }
    }

    /// True while the daemon file of this home has this record.
    fn is_current(&self, record: &DaemonRecord) -> bool {
        daemon::find_daemon(&self.home).as_ref() == Some(record)
    }

    /// Connects, and waits for a first answer, so that a hanging daemon is found before the first request.
    async fn connect(&self, record: &DaemonRecord) -> Result<Client, Error> {
        let greeted = async {
            let (stream, daemon) = daemon::connect_to_daemon(&self.home, record)
                .await
                .map_err(explain_unreachable)?;
            let sender = open_connection(stream).await?;
            let mut client = Client { sender, daemon };
            client.get::<BackendStatus>("/api/status").await?;
            Ok(client)
        };
        match tokio::time::timeout(GREETING_TIME, greeted).await {
            Ok(Err(_)) if !self.is_current(record) => Err(Error::NotRunning),
            Ok(Err(Error::NotRunning)) => Err(socket_gone(record.pid).into()),
            Ok(greeted) => greeted,
            Err(_) => {
                let seconds = GREETING_TIME.as_secs();
                let message = format!("Backend not responding: no answer in {seconds} s");
                let hint = format!("if it stays so, end process {} and try again", record.pid);
                Err(Problem::new(ErrorKind::BackendDown, message).with_hint(hint).into())
            }
        }
    }
}

/// True for an error that may not occur at the next start: another command's daemon existed for a moment.
fn is_lost_race(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if problem.kind == ErrorKind::AlreadyRunning)
}

/// Time limit for reaching a daemon while other commands start, replace and stop theirs.
const START_TIME: Duration = Duration::from_secs(20);

/// Time for the first answer of a daemon. It takes some milliseconds unless the daemon hangs.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// Sessions under way, in words.
pub(crate) fn under_way(sessions: u64) -> String {
    match sessions {
        1 => "1 session under way".to_owned(),
        many => format!("{many} sessions under way"),
    }
}

/// The specification's message for a backend that is not running.
pub(crate) fn not_running() -> Problem {
    Problem::new(ErrorKind::BackendDown, "Backend not responding: Connection refused")
        .with_hint("start it with `tool service start`")
}

/// Finds out why a connection broke off: the daemon has ended, or it is running and something else failed.
async fn explain_lost_connection(daemon: &ReachedDaemon, error: &(dyn std::fmt::Display + Sync)) -> Error {
    for _ in 0..DYING_LOOKS {
        if daemon.connect().await.is_err() {
            return Error::NotRunning;
        }
        tokio::time::sleep(DYING_TIME / DYING_LOOKS).await;
    }
    broken_connection(error)
}

/// A dying process closes its files one after the other, so its listener may outlive a connection by this time.
const DYING_TIME: Duration = Duration::from_millis(100);
const DYING_LOOKS: u32 = 5;

/// The problem of a daemon that cannot be reached.
fn explain_unreachable(error: ConnectError) -> Error {
    let stranger =
        |hint: String| Problem::new(ErrorKind::Stranger, format!("{error}; nothing was sent to it")).with_hint(hint);
    match &error {
        ConnectError::Refused(_) => Error::NotRunning,
        ConnectError::OtherUser { path, .. } => {
            let folder = path.parent().unwrap_or(path).display();
            let hint =
                format!("make {folder} writable for you alone, remove that file, end the backend and start it anew");
            stranger(hint).into()
        }
        ConnectError::OtherProcess { expected, .. } => {
            stranger(format!("end process {expected}, which is the backend, and try again")).into()
        }
    }
}

/// The problem of a daemon that runs and whose socket was removed.
fn socket_gone(pid: u32) -> Problem {
    not_running().with_hint(format!(
        "process {pid} is the backend, and its socket is gone: end it and try again"
    ))
}

type RequestSender = SendRequest<Full<Bytes>>;

async fn open_connection(stream: UnixStream) -> Result<RequestSender, Error> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Error::NotRunning)?;
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

fn build_request(method: Method, path: &str, body: Option<Bytes>) -> Result<Request<Full<Bytes>>, Error> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost")
        .header(tool_core::api::TERMINAL_HEADER, "1")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body.unwrap_or_default()))
        .map_err(|error| broken_connection(&error))
}

/// A connection that was upgraded to another protocol, for blocking reads and writes on threads.
#[derive(Debug)]
pub(crate) struct UpgradedStream {
    pub(crate) stream: std::os::unix::net::UnixStream,
    /// Bytes of the stream that were received before the upgrade.
    pub(crate) received: Bytes,
}

impl UpgradedStream {
    fn from_upgraded(upgraded: Upgraded) -> std::io::Result<Self> {
        let parts = upgraded.downcast::<TokioIo<UnixStream>>();
        let Parts { io, read_buf, .. } = parts.map_err(|_| std::io::Error::other("it is none of ours"))?;
        let stream = io.into_inner().into_std()?;
        stream.set_nonblocking(false)?;
        Ok(Self {
            stream,
            received: read_buf,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    sender: RequestSender,
    daemon: ReachedDaemon,
}

/// Why a daemon of another version keeps running, and what to do.
fn left_alone(answer: Result<Stopping, Error>) -> Result<(String, &'static str), Error> {
    match answer {
        Ok(answer) => Ok((
            format!("It is busy ({})", under_way(answer.sessions_running)),
            "once it is idle the next command replaces it; `tool service restart` does so at once",
        )),
        // An older daemon does not know the request, and will not know it later either.
        Err(Error::Problem(problem)) if problem.kind == ErrorKind::NotFound => Ok((
            "It cannot say whether it is idle".to_owned(),
            "`tool service restart` replaces it",
        )),
        Err(error) => Err(error),
    }
}

impl Client {
    /// A second connection to the same daemon, for use while a stream is open on the first.
    pub(crate) async fn another(&self) -> Result<Self, Error> {
        let stream = tokio::time::timeout(GREETING_TIME, self.daemon.connect()).await;
        let stream = stream
            .map_err(|error| broken_connection(&error))?
            .map_err(explain_unreachable)?;
        Ok(Self {
            sender: open_connection(stream).await?,
            daemon: self.daemon.clone(),
        })
    }

    pub(crate) async fn sessions(&mut self) -> Result<u64, Error> {
        let status: BackendStatus = self.get("/api/status").await?;
        Ok(status.sessions_running)
    }

    /// Stops the daemon if it is idle.
    async fn stop_if_idle(&mut self) -> Result<Stopping, Error> {
        let response = self.send(Method::POST, "/api/stop-if-idle", None).await?;
        decode_body(response).await
    }

    /// GET, answered in JSON.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Error> {
        let response = self.send(Method::GET, path, None).await?;
        decode_body(response).await
    }

    /// POST in JSON, answered in JSON.
    pub(crate) async fn post<T: DeserializeOwned>(&mut self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        let response = self.send(Method::POST, path, Some(encode_body(body)?)).await?;
        decode_body(response).await
    }

    /// POST in JSON; the answer has no body.
    pub(crate) async fn post_unanswered(&mut self, path: &str, body: &impl Serialize) -> Result<(), Error> {
        self.send(Method::POST, path, Some(encode_body(body)?))
            .await
            .map(|_| ())
    }

    /// DELETE; the answer is not read.
    pub(crate) async fn delete(&mut self, path: &str) -> Result<(), Error> {
        self.send(Method::DELETE, path, None).await.map(|_| ())
    }

    /// GET of an event stream.
    pub(crate) async fn events(&mut self, path: &str) -> Result<ServerEvents, Error> {
        let response = self.send(Method::GET, path, None).await?;
        Ok(ServerEvents::new(self.daemon.clone(), response))
    }

    /// POST in JSON, answered by an event stream.
    pub(crate) async fn post_events(&mut self, path: &str, body: &impl Serialize) -> Result<ServerEvents, Error> {
        let response = self.send(Method::POST, path, Some(encode_body(body)?)).await?;
        Ok(ServerEvents::new(self.daemon.clone(), response))
    }

    /// POST in JSON that upgrades the connection to another protocol.
    async fn upgrade(
        &mut self,
        path: &str,
        protocol: &'static str,
        body: &impl Serialize,
    ) -> Result<UpgradedStream, Error> {
        let mut request = build_request(Method::POST, path, Some(encode_body(body)?))?;
        let headers = request.headers_mut();
        headers.insert(header::CONNECTION, header::HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, header::HeaderValue::from_static(protocol));
        let response = self.exchange(request).await?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                let upgraded = hyper::upgrade::on(response)
                    .await
                    .map_err(|error| broken_connection(&error))?;
                UpgradedStream::from_upgraded(upgraded).map_err(|error| broken_connection(&error))
            }
            _ => Err(problem_of(response).await),
        }
    }

    /// Why an upgraded connection has ended: the daemon is gone, or else the caller's reason.
    pub(crate) async fn lost_or(&self, else_why: Problem) -> Error {
        match explain_lost_connection(&self.daemon, &"").await {
            Error::NotRunning => Error::NotRunning,
            _ => else_why.into(),
        }
    }

    /// Sends a request. An answer with an error status is returned as a problem.
    async fn send(&mut self, method: Method, path: &str, body: Option<Bytes>) -> Result<Response<Incoming>, Error> {
        let response = self.exchange(build_request(method, path, body)?).await?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(problem_of(response).await)
        }
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        let answered = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        match answered.await {
            Ok(response) => Ok(response),
            Err(error) => Err(explain_lost_connection(&self.daemon, &error).await),
        }
    }
}

/// Percent-encodes a text for a path or a query.
pub(crate) fn percent_encoded(text: &str) -> String {
    tool_core::text::percent_encode(text, "-._~")
}

fn broken_connection(error: &dyn std::fmt::Display) -> Error {
    Problem::new(ErrorKind::BackendDown, format!("Backend not responding: {error}"))
        .with_hint("see `tool service status`, and logs/backend.log in TOOL_HOME (without it ~/.tool)")
        .into()
}

fn encode_body(body: &impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| broken_connection(&error))
}

async fn decode_body<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, Error> {
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(|error| broken_connection(&error))?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| broken_connection(&error))
}

/// The problem that an error answer carries.
async fn problem_of(response: Response<Incoming>) -> Error {
    let status: StatusCode = response.status();
    match decode_body::<ErrorBody>(response).await {
        Ok(ErrorBody { mut error }) => {
            let command = error.action.as_ref().and_then(command_hint);
            error.hint = command.or(error.hint);
            error.into()
        }
        Err(_) => broken_connection(&format!("it answered {status}")),
    }
}

/// Time limit for the end of a stream after its last event. Usually both arrive together.
const END_TIME: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct ServerEvents {
    daemon: ReachedDaemon,
    body: Incoming,
    framer: Framer,
    /// Frames that are read and not yet taken.
    frames: std::vec::IntoIter<Frame>,
    secret: Option<String>,
    session: Option<String>,
}

impl ServerEvents {
    fn new(daemon: ReachedDaemon, response: Response<Incoming>) -> Self {
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        Self {
            daemon,
            secret: header("x-approval-secret"),
            session: header("x-session-id"),
            body: response.into_body(),
            framer: Framer::default(),
            frames: Vec::new().into_iter(),
        }
    }

    /// Reads the rest of the answer after the terminal event. True if the connection can serve another request.
    pub(crate) async fn finish(mut self) -> bool {
        let end = async {
            while let Some(frame) = self.body.frame().await {
                frame?;
            }
            Ok::<_, hyper::Error>(())
        };
        matches!(tokio::time::timeout(END_TIME, end).await, Ok(Ok(())))
    }

    /// Error for a stream that ended without its terminal event.
    pub(crate) async fn ended_early(&self) -> Error {
        explain_lost_connection(&self.daemon, &"the stream ended before the session did").await
    }

    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Secret that answers the approvals of a session that this stream started.
    pub(crate) fn secret(&self) -> String {
        self.secret.clone().unwrap_or_default()
    }

    /// The next event; `None` at the end of the stream. Unknown event types are skipped.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let mut events = self.frames.by_ref().map(|frame| serde_json::from_str(&frame.data));
            if let Some(event) = events.find_map(Result::ok) {
                return Ok(Some(event));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        let mut frames = Vec::new();
                        let fed = self.framer.feed(data, &mut frames);
                        fed.map_err(|error| broken_connection(&error))?;
                        self.frames = frames.into_iter();
                    }
                }
                Some(Err(error)) => return Err(explain_lost_connection(&self.daemon, &error).await),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_daemon_that_can_become_idle_is_said_to_be_replaced_by_itself() {
        let busy = Stopping {
            stopping: false,
            sessions_running: 1,
        };
        let (why, hint) = left_alone(Ok(busy)).expect("it answered");
        assert!(
            why.contains("busy") && hint.starts_with("once it is idle"),
            "{why}: {hint}"
        );
        let older = Error::new(ErrorKind::NotFound, "There is no `/api/stop-if-idle`");
        let (_, hint) = left_alone(Err(older)).expect("it answered");
        assert_eq!(hint, "`tool service restart` replaces it");
        assert!(left_alone(Err(Error::new(ErrorKind::Stranger, "It is another one"))).is_err());
    }
}
