//! The proxy of a sandboxed installation: it serves the package registries and refuses every other destination.
//!
//! It listens on a loopback port of the run's own network, which only the run can reach. It serves `CONNECT`; plain
//! `GET` only for a mirror that the user configured with `http`, and plain `POST` only for a git server on this
//! machine. It compares names and ports with the list, resolves names itself, and requires a public address unless the
//! user's own configuration names the host. It does not see what TLS carries. The list of hosts is decided elsewhere.

mod registry_hosts;
mod request;

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits;
pub use registry_hosts::{ProxyRoute, RegistryHost, Upstream, is_public};
use request::{ProxyRequest, ProxyRequestHead};

/// Open connections of an installation. npm opens 15, pip fewer.
const PROXY_OPEN_MAX: usize = 64;

/// All connections of an installation: one for each package of a large tree, twice.
const PROXY_CONNECTIONS_MAX: u64 = 20_000;

/// Bytes that an installation sends to registries: less than a kilobyte for each package. The limit is low, so that
/// little can be carried out.
const PROXY_SENT_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Bytes that an installation receives: more than fits where it unpacks them.
const PROXY_RECEIVED_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Longest head of a request: as long as servers accept.
const PROXY_HEAD_BYTES_MAX: usize = 16 * 1024;

/// Time to connect to one address, and for the run to send the head of its request.
const PROXY_CONNECT_SECONDS_MAX: u64 = 15;

/// Addresses of one name that are tried.
const PROXY_ADDRESSES_MAX: usize = 4;

/// Refusals of one installation that are reported. More would not tell a reader more.
const PROXY_REFUSALS_NAMED_MAX: usize = 20;

/// Longest silence on a connection. Installers give up earlier.
const PROXY_IDLE_SECONDS_MAX: u64 = 120;

/// Time that a thread waits before it checks whether the run has ended.
const TICK: Duration = Duration::from_millis(50);

/// A running proxy. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    shared: Arc<ProxyShared>,
}

#[derive(Debug)]
struct ProxyShared {
    way: ProxyRoute,
    ended: AtomicBool,
    open: AtomicUsize,
    connections: AtomicU64,
    /// Bytes sent to the registries, and received from them.
    sent: AtomicU64,
    received: AtomicU64,
    refused: Mutex<Refusals>,
}

/// Destinations that the run was refused.
#[derive(Debug, Default)]
struct Refusals {
    all: BTreeSet<String>,
    /// Refusals that are not reported yet.
    fresh: Vec<String>,
}

impl Proxy {
    /// Serves connections of the listener, which is in the run's own network.
    pub(super) fn start(listener: TcpListener, way: ProxyRoute) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let shared = Arc::new(ProxyShared {
            way,
            ended: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            refused: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        spawn_thread(move || accept_connections(&listener, &own))?;
        Ok(Self { shared })
    }

    /// Refusals since the last call, one sentence each.
    pub(super) fn fresh_refusals(&self) -> Vec<String> {
        let mut refused = self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut refused.fresh)
    }

    /// All refusals, one sentence each.
    pub(super) fn refusals(&self) -> Vec<String> {
        let refused = self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.all.iter().cloned().collect()
    }
}

impl Drop for Proxy {
    /// The threads notice this within a tick; one that waits for a name to be resolved ends after that.
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

fn spawn_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name("proxy".to_owned())
        .spawn(work)
        .map(drop)
}

fn accept_connections(listener: &TcpListener, shared: &Arc<ProxyShared>) {
    while !shared.has_ended() {
        match listener.accept() {
            Ok((client, _)) => serve_connection(client, shared),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Serves a connection on a thread, unless there are too many.
fn serve_connection(client: TcpStream, shared: &Arc<ProxyShared>) {
    let is_open = shared.open.fetch_add(1, Ordering::Relaxed) < PROXY_OPEN_MAX;
    let is_allowed = shared.connections.fetch_add(1, Ordering::Relaxed) < PROXY_CONNECTIONS_MAX;
    // Before the check, so that dropping it also takes back the count of a refused connection.
    let place = OpenPlace(Arc::clone(shared));
    if !is_open || !is_allowed {
        shared.refuse("too many connections at a time");
        return;
    }
    // Without a thread the connection is closed, and the installer tries again.
    let _ = spawn_thread(move || {
        let shared = &place.0;
        if let Err(error) = exchange_request(&client, shared) {
            tracing::debug!(%error, "a connection of an installation ended early");
        }
        let _ = client.shutdown(Shutdown::Both);
    });
}

/// Holds one of the open connections that are allowed at a time.
struct OpenPlace(Arc<ProxyShared>);

impl Drop for OpenPlace {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answer if no connection is made.
#[derive(Debug)]
struct Refusal {
    status: &'static str,
    /// Completes "installation tried to …".
    tried: Option<String>,
    reason: String,
}

impl Refusal {
    fn forbidden(tried: String, reason: impl Into<String>) -> Self {
        Self {
            status: "403 Forbidden",
            tried: Some(tried),
            reason: reason.into(),
        }
    }

    /// A failure that the run has not caused.
    fn unreachable(reason: impl Into<String>) -> Self {
        Self {
            status: "502 Bad Gateway",
            tried: None,
            reason: reason.into(),
        }
    }
}

fn exchange_request(client: &TcpStream, shared: &Arc<ProxyShared>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(TICK))?;
    client.set_write_timeout(Some(Duration::from_secs(PROXY_IDLE_SECONDS_MAX)))?;
    let head = read_head(client, shared)?;
    match open_upstream(&head, shared) {
        Ok((server, plain)) => {
            match plain {
                Some(request) => {
                    shared.send(&server, &request)?;
                    if has_body(&head) {
                        shared.send(&server, &head.rest)?;
                    }
                }
                None => {
                    (&*client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
                    shared.send(&server, &head.rest)?;
                }
            }
            relay_bytes(client, &server, plain_of(&head) && !has_body(&head), shared)
        }
        Err(refusal) => {
            if let Some(tried) = &refusal.tried {
                shared.refuse(&format!("{tried}: refused ({})", refusal.reason));
            }
            let body = format!("{}\n", refusal.reason);
            let head = format!(
                "HTTP/1.1 {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                refusal.status,
                body.len()
            );
            (&*client).write_all(format!("{head}{body}").as_bytes())
        }
    }
}

fn plain_of(head: &ProxyRequestHead) -> bool {
    matches!(head.request, Ok(ProxyRequest::Plain { .. }))
}

fn has_body(head: &ProxyRequestHead) -> bool {
    head.request.as_ref().is_ok_and(ProxyRequest::has_body)
}

fn read_head(client: &TcpStream, shared: &ProxyShared) -> io::Result<ProxyRequestHead> {
    let until = Instant::now() + limits::seconds(PROXY_CONNECT_SECONDS_MAX);
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = ProxyRequestHead::parse(&mut bytes) {
            return Ok(head);
        }
        let mut buffer = [0; 4096];
        match (&*client).read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
        if bytes.len() > PROXY_HEAD_BYTES_MAX {
            shared.refuse("installation sent a request without an end: refused");
            return Err(io::Error::other("the head of a request is too long"));
        }
        if shared.has_ended() || Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Connects to the target of a request. For a plain request it also returns the bytes to send there.
fn open_upstream(head: &ProxyRequestHead, shared: &ProxyShared) -> Result<(TcpStream, Option<Vec<u8>>), Refusal> {
    let unserved = |what: &str| {
        Refusal::forbidden(
            format!("installation tried {what}"),
            "only CONNECT and plain GET are served",
        )
    };
    let request = head.request.as_ref().map_err(|what| unserved(what))?;
    if request.has_body() && !shared.way.takes_posts {
        return Err(unserved("the method `POST`"));
    }
    let (host, port) = request.target();
    let tried = || format!("installation tried to reach {}", format_host(host, port));
    let is_plain = matches!(request, ProxyRequest::Plain { .. });
    let place = shared
        .way
        .place(host, port, is_plain)
        .ok_or_else(|| Refusal::forbidden(tried(), "it is no package registry of the user's"))?;
    if let Some(upstream) = shared.way.upstream(place) {
        let server = connect_upstream(upstream, host, port, is_plain)?;
        let plain = is_plain.then(|| head.forwarded(Some(upstream)));
        return Ok((server, plain));
    }
    // Checked on the addresses that are then connected to: a name could resolve to another address the second time.
    let addresses = resolve_host(host, port)?;
    let allowed: Vec<SocketAddr> = addresses
        .into_iter()
        .filter(|address| place.is_own || registry_hosts::is_public(address.ip()))
        .collect();
    if allowed.is_empty() {
        let reason = "its name leads to an address that is not public, and no configuration of the user's names it";
        return Err(Refusal::forbidden(tried(), reason));
    }
    let server = connect_any(&allowed)?;
    Ok((server, is_plain.then(|| head.forwarded(None))))
}

fn format_host(host: &str, port: u16) -> String {
    // The text comes from inside the sandbox and is shown on terminals and in reports.
    let plain: String = host.chars().filter(char::is_ascii_graphic).take(253).collect();
    match port {
        443 => plain,
        port => format!("{plain}:{port}"),
    }
}

fn resolve_host(host: &str, port: u16) -> Result<Vec<SocketAddr>, Refusal> {
    let addresses = (host, port).to_socket_addrs();
    addresses
        .map(Iterator::collect)
        .map_err(|error| Refusal::unreachable(format!("the name cannot be resolved: {error}")))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the way to the package registries: one of the two places that may"
)]
fn connect_any(addresses: &[SocketAddr]) -> Result<TcpStream, Refusal> {
    let patience = limits::seconds(PROXY_CONNECT_SECONDS_MAX);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses.iter().take(PROXY_ADDRESSES_MAX) {
        match TcpStream::connect_timeout(address, patience) {
            Ok(server) => return Ok(server),
            Err(error) => last = error,
        }
    }
    Err(Refusal::unreachable(format!("the registry cannot be reached: {last}")))
}

/// Connects through the proxy of the user's own environment, which resolves the name itself.
fn connect_upstream(upstream: &Upstream, host: &str, port: u16, is_plain: bool) -> Result<TcpStream, Refusal> {
    let server = connect_any(&resolve_host(&upstream.host, upstream.port)?)?;
    if is_plain {
        return Ok(server);
    }
    let failed = |error: io::Error| Refusal::unreachable(format!("the proxy of the environment failed: {error}"));
    let patience = limits::seconds(PROXY_CONNECT_SECONDS_MAX);
    server.set_read_timeout(Some(patience)).map_err(failed)?;
    (&server)
        .write_all(upstream.connect_request(host, port).as_bytes())
        .map_err(failed)?;
    // Byte by byte: what follows the head belongs to the run.
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < PROXY_HEAD_BYTES_MAX {
        (&server).read_exact(&mut byte).map_err(failed)?;
        answer.push(byte[0]);
    }
    let line = String::from_utf8_lossy(answer.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(server),
        _ => Err(Refusal::unreachable(format!(
            "the proxy of the environment says: {line}"
        ))),
    }
}

/// Copies bytes until one side has ended. After a plain request without a body only the answer is copied: a second
/// request on the same connection could name another host. A host that takes bodies is the only host of its run.
fn relay_bytes(client: &TcpStream, server: &TcpStream, is_plain: bool, shared: &Arc<ProxyShared>) -> io::Result<()> {
    server.set_read_timeout(Some(TICK))?;
    server.set_write_timeout(Some(Duration::from_secs(PROXY_IDLE_SECONDS_MAX)))?;
    if !is_plain {
        let (from, to, own) = (client.try_clone()?, server.try_clone()?, Arc::clone(shared));
        spawn_thread(move || {
            let _ = pass_bytes(&from, &to, &own, |shared| (&shared.sent, PROXY_SENT_BYTES_MAX));
            let _ = to.shutdown(Shutdown::Write);
        })?;
    }
    let passed = pass_bytes(server, client, shared, |shared| {
        (&shared.received, PROXY_RECEIVED_BYTES_MAX)
    });
    // Ends the thread of the other direction too.
    let _ = server.shutdown(Shutdown::Both);
    passed
}

/// Copies bytes in one direction, within the limit for all connections together.
fn pass_bytes(
    from: &TcpStream,
    to: &TcpStream,
    shared: &ProxyShared,
    counter: fn(&ProxyShared) -> (&AtomicU64, u64),
) -> io::Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    let mut last = Instant::now();
    loop {
        if shared.has_ended() || last.elapsed() > limits::seconds(PROXY_IDLE_SECONDS_MAX) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let count = match (&*from).read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if is_pause(&error) => continue,
            Err(error) => return Err(error),
        };
        let (passed, max) = counter(shared);
        shared.count(passed, count, max)?;
        (&*to).write_all(&buffer[..count])?;
        last = Instant::now();
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

impl ProxyShared {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn send(&self, server: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        self.count(&self.sent, bytes.len(), PROXY_SENT_BYTES_MAX)?;
        (&*server).write_all(bytes)
    }

    fn count(&self, counter: &AtomicU64, bytes: usize, max: u64) -> io::Result<()> {
        let before = counter.fetch_add(bytes as u64, Ordering::Relaxed);
        if before + bytes as u64 <= max {
            return Ok(());
        }
        self.refuse(&format!(
            "installation moved more than {} MiB through its proxy: refused",
            max / (1024 * 1024)
        ));
        Err(io::Error::other("too many bytes for one installation"))
    }

    /// Notes a refusal once, up to the limit.
    fn refuse(&self, sentence: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.all.len() < PROXY_REFUSALS_NAMED_MAX && refused.all.insert(sentence.to_owned()) {
            tracing::warn!("{sentence}");
            refused.fresh.push(sentence.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
