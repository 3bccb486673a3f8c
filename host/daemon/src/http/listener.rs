//! The listening sockets, the limits for their connections, and the time-outs that end a connection.
//!
//! The user of a TCP connection is looked up once, at accept and before a byte is read (`owner`). Its namespaces are
//! looked up when a request first needs them. A connection over the Unix socket belongs to the owner, or is dropped
//! at once. A connection is closed if its peer does not read a waiting answer, sends nothing while no request is
//! under way, or does not complete the head of a request.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tool_socket::diag::SocketOwner;

use super::auth::is_own_user;
use super::owner::{OwnerLookup, is_held_in_our_namespaces};
use super::stream::{ConnectionState, PeerStream};
use tool_core::api::{ErrorBody, ErrorKind, Problem};

/// Seconds within which the head of a request must arrive, counted from its first byte, or for a connection's first
/// request from the start. A head has some hundred bytes: a slower client only occupies a connection.
const HEAD_SECONDS_MAX: u64 = 15;

/// Limit for simultaneous connections over TCP, and for those over the Unix socket; further ones wait in the kernel's
/// queue. Five hundred stream readers fit twice.
const CONNECTIONS_MAX: usize = 1_024;

/// Limit for connections of peers that are not known to be the same user, so that other users of the machine cannot
/// take all connections. Clients with the token on other machines count as well: some dozen browsers.
const STRANGERS_CONNECTIONS_MAX: usize = 64;

/// Seconds without a byte in either direction after which a connection is closed, unless a stream is under way on it.
/// The slowest plain answer, a scan, takes at most half of this.
const IDLE_SECONDS_MAX: u64 = 120;

/// Seconds for which a peer may leave an answer unread. A reader that was only suspended comes back with
/// `Last-Event-ID`.
const WRITE_STALL_SECONDS_MAX: u64 = 30;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    address: PeerAddress,
    ours: Option<SocketAddr>,
    /// Absent if a test makes the request without a connection. Weak, so that a request that outlives its connection
    /// does not keep the socket open.
    stream: Option<Weak<PeerStream>>,
    /// Socket of the other end, if a process of our user holds it.
    end: Arc<OnceLock<Option<SocketOwner>>>,
    /// Answer that a test sets; otherwise the kernel is asked.
    in_our_namespaces: Option<bool>,
    streams: Arc<AtomicUsize>,
    heads: Arc<RequestCounts>,
}

/// Address of a peer for the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerAddress {
    Tcp(SocketAddr),
    /// The Unix socket of the command line.
    Unix,
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix => formatter.write_str("unix"),
        }
    }
}

/// Counters of a connection's requests, which distinguish a head from a body.
#[derive(Debug, Default)]
struct RequestCounts {
    /// Requests whose head has arrived.
    arrived: AtomicUsize,
    /// Requests without an answer yet. Bytes that arrive meanwhile belong to their bodies.
    answering: AtomicUsize,
}

impl Peer {
    fn without_owner(address: PeerAddress, ours: Option<SocketAddr>, stream: Option<Weak<PeerStream>>) -> Self {
        Self {
            address,
            ours,
            stream,
            end: Arc::default(),
            in_our_namespaces: None,
            streams: Arc::default(),
            heads: Arc::default(),
        }
    }

    /// Creates a peer whose user is known, and which is in our namespaces if it is the same user. For tests and other
    /// interfaces.
    pub fn new(address: SocketAddr, same_user: bool) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        Self {
            end: Arc::new(OnceLock::from(same_user.then_some(SocketOwner { uid, inode: 0 }))),
            in_our_namespaces: Some(same_user),
            ..Self::without_owner(PeerAddress::Tcp(address), None, None)
        }
    }

    /// Creates a peer that is the same user, and confined.
    #[cfg(test)]
    pub(super) fn confined(address: SocketAddr) -> Self {
        Self {
            in_our_namespaces: Some(false),
            ..Self::new(address, true)
        }
    }

    pub(super) fn address(&self) -> PeerAddress {
        self.address
    }

    /// True for a connection over the Unix socket. The kernel has confirmed that the other end is the same user.
    pub(super) fn is_over_unix(&self) -> bool {
        self.address == PeerAddress::Unix
    }

    /// True once the other end is gone and can receive no answer.
    pub(super) fn is_gone(&self) -> bool {
        let is_closed =
            |stream: Option<Arc<PeerStream>>| stream.is_none_or(|stream| stream.state() == ConnectionState::Closed);
        self.stream.as_ref().is_some_and(|stream| is_closed(stream.upgrade()))
    }

    /// Our address of the connection.
    pub(super) fn ours(&self) -> Option<SocketAddr> {
        self.ours
    }

    /// True if the kernel reports that a process of our user holds the other end.
    pub fn is_same_user(&self) -> bool {
        self.end.get().is_some_and(Option::is_some)
    }

    /// True if each process that holds the other end now is in our mount, user and PID namespaces, and not more
    /// limited than we are. Looked up for each request, because a confined child inherits its parent's connections.
    pub(super) async fn is_in_our_namespaces(&self) -> bool {
        if let Some(known) = self.in_our_namespaces {
            return known;
        }
        let stream = self.stream.as_ref().and_then(Weak::upgrade);
        match (stream, self.end.get()) {
            (Some(stream), Some(Some(end))) => is_held_in_our_namespaces(&stream, *end).await,
            _ => false,
        }
    }

    /// Counts a request as arrived, and as being answered until the guard is dropped.
    pub(super) fn answering(&self) -> AnsweringGuard {
        self.heads.arrived.fetch_add(1, Ordering::Relaxed);
        self.heads.answering.fetch_add(1, Ordering::Relaxed);
        AnsweringGuard(Arc::clone(&self.heads))
    }

    /// Allows the peer to be silent during a long answer, until the guard is dropped.
    pub(super) fn long_answer(&self) -> LongAnswer {
        self.streams.fetch_add(1, Ordering::Relaxed);
        LongAnswer(Arc::clone(&self.streams))
    }
}

/// Guard of [`Peer::answering`].
pub(super) struct AnsweringGuard(Arc<RequestCounts>);

impl Drop for AnsweringGuard {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Guard of [`Peer::long_answer`].
pub(super) struct LongAnswer(Arc<AtomicUsize>);

impl Drop for LongAnswer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reason why this side closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// The peer sent nothing for too long, between requests or before the first.
    Silent,
    /// The head of a request was not complete in time.
    LateHead,
    /// The peer did not read its answer in time.
    SlowReader,
    /// There are too many connections of unknown peers.
    Strangers,
}

impl CloseReason {
    /// Status and kind for the access log; `None` for the normal end of a connection.
    pub(super) fn refusal(self) -> Option<(Option<u16>, ErrorKind)> {
        match self {
            Self::Silent => None,
            Self::LateHead => Some((Some(408), ErrorKind::HeadTooSlow)),
            // The answer had begun, and its own line has the status.
            Self::SlowReader => Some((None, ErrorKind::ReaderTooSlow)),
            Self::Strangers => Some((Some(503), ErrorKind::Busy)),
        }
    }

    /// A whole response for a peer that has not received one.
    fn answer(self) -> Option<String> {
        let (status, kind, message) = match self {
            Self::LateHead => (
                "408 Request Timeout",
                ErrorKind::HeadTooSlow,
                "The head of the request did not arrive in time",
            ),
            Self::Strangers => (
                "503 Service Unavailable",
                ErrorKind::Busy,
                "There are too many connections that are not the user's",
            ),
            Self::Silent | Self::SlowReader => return None,
        };
        let error = Problem::new(kind, message);
        let body = serde_json::to_string(&ErrorBody { error }).expect("a problem has string keys only");
        let head = "connection: close\r\ncontent-type: application/json\r\nx-content-type-options: nosniff";
        Some(format!(
            "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    fn error(self) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, self)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Silent => "nothing was said for too long",
            Self::LateHead => "the head of a request did not arrive in time",
            Self::SlowReader => "the answer was not taken in time",
            Self::Strangers => "there are too many connections of strangers",
        })
    }
}

impl std::error::Error for CloseReason {}

/// Sockets for a server.
#[derive(Debug)]
pub struct ServerSockets {
    /// Socket for all clients; absent if the daemon has no port.
    pub tcp: Option<TcpListener>,
    /// Socket for the command line of the same user.
    pub unix: UnixListener,
}

/// The listening sockets, each with its own limit for connections, so that connections over TCP leave room for the
/// command line.
pub(super) struct Listener {
    sockets: ServerSockets,
    owners: Arc<OwnerLookup>,
    tcp_connections: Arc<Semaphore>,
    unix_connections: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

impl Listener {
    pub(super) fn new(sockets: ServerSockets) -> Self {
        Self::with_lookup(sockets, OwnerLookup::in_kernel())
    }

    /// Creates a listener that identifies the owners of TCP connections with `owners`.
    pub(super) fn with_lookup(sockets: ServerSockets, owners: OwnerLookup) -> Self {
        Self {
            sockets,
            owners: Arc::new(owners),
            tcp_connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            unix_connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            strangers: Arc::new(Semaphore::new(STRANGERS_CONNECTIONS_MAX)),
        }
    }

    /// Waits for the next connection, once there is room for it. Cancel safe.
    pub(super) async fn accept(&self) -> (PeerConnection, Peer) {
        tokio::select! {
            connection = self.accept_tcp() => connection,
            connection = self.accept_unix() => connection,
        }
    }

    async fn accept_tcp(&self) -> (PeerConnection, Peer) {
        let Some(tcp) = &self.sockets.tcp else {
            return std::future::pending().await;
        };
        let permit = acquire_permit(&self.tcp_connections).await;
        loop {
            match tcp.accept().await {
                Ok((stream, address)) => {
                    let stream = Arc::new(of_tcp(stream));
                    // A connection that was reset already ends here, so that a flood of them costs little.
                    if stream.state() != ConnectionState::Closed {
                        return PeerConnection::of_tcp(stream, address, self, permit);
                    }
                }
                Err(error) => rest_after(&error).await,
            }
        }
    }

    async fn accept_unix(&self) -> (PeerConnection, Peer) {
        let permit = acquire_permit(&self.unix_connections).await;
        loop {
            match self.sockets.unix.accept().await {
                Ok((stream, _)) => match stream.peer_cred() {
                    Ok(peer) if is_own_user(peer.uid()) => return PeerConnection::of_unix(stream, self, permit),
                    Ok(peer) => tracing::warn!(
                        uid = peer.uid(),
                        "another user's connection to backend.sock was dropped"
                    ),
                    Err(error) => tracing::warn!(%error, "a connection to backend.sock was dropped"),
                },
                Err(error) => rest_after(&error).await,
            }
        }
    }
}

async fn acquire_permit(permits: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let permit = Arc::clone(permits).acquire_owned().await;
    permit.expect("the semaphore is never closed")
}

fn of_tcp(stream: TcpStream) -> PeerStream {
    // Send each event without delay: it is small, and must not wait for the next. A failure only delays events.
    let _ = stream.set_nodelay(true);
    PeerStream::Tcp(stream)
}

/// Waits after a failed `accept`. Most likely the process has no file handles left, until some are closed.
async fn rest_after(error: &io::Error) {
    tracing::warn!(%error, "accept");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

pub(super) struct PeerConnection {
    stream: Arc<PeerStream>,
    /// Finds out whether the peer is the same user.
    lookup: Option<Pin<Box<dyn Future<Output = Option<SocketOwner>> + Send>>>,
    peer: Peer,
    progress: Instant,
    head: Option<PartialHead>,
    idle_max: Duration,
    head_max: Duration,
    stall_max: Duration,
    alarm: Pin<Box<Sleep>>,
    strangers: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
    _stranger: Option<OwnedSemaphorePermit>,
}

/// The head of a request of which a part has arrived.
#[derive(Debug, Clone, Copy)]
struct PartialHead {
    since: Instant,
    /// Number of heads that had arrived before it.
    number: usize,
}

impl PeerConnection {
    fn of_tcp(
        stream: Arc<PeerStream>,
        address: SocketAddr,
        listener: &Listener,
        permit: OwnedSemaphorePermit,
    ) -> (Self, Peer) {
        let ours = stream.local_address();
        let peer = Peer::without_owner(PeerAddress::Tcp(address), ours, Some(Arc::downgrade(&stream)));
        let (owners, asked) = (Arc::clone(&listener.owners), Arc::clone(&stream));
        let lookup = async move {
            match ours {
                Some(ours) => owners.of_same_user(asked, address, ours).await,
                None => None,
            }
        };
        let mut connection = Self::new(stream, &peer, Arc::clone(&listener.strangers), permit);
        connection.lookup = Some(Box::pin(lookup));
        (connection, peer)
    }

    /// A connection over the Unix socket, which belongs to the owner.
    fn of_unix(stream: UnixStream, listener: &Listener, permit: OwnedSemaphorePermit) -> (Self, Peer) {
        let stream = Arc::new(PeerStream::Unix(stream));
        let peer = Peer::without_owner(PeerAddress::Unix, None, Some(Arc::downgrade(&stream)));
        let connection = Self::new(stream, &peer, Arc::clone(&listener.strangers), permit);
        (connection, peer)
    }

    fn new(stream: Arc<PeerStream>, peer: &Peer, strangers: Arc<Semaphore>, permit: OwnedSemaphorePermit) -> Self {
        Self {
            stream,
            lookup: None,
            peer: peer.clone(),
            progress: Instant::now(),
            head: None,
            idle_max: Duration::from_secs(IDLE_SECONDS_MAX),
            head_max: Duration::from_secs(HEAD_SECONDS_MAX),
            stall_max: Duration::from_secs(WRITE_STALL_SECONDS_MAX),
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            strangers,
            _permit: permit,
            _stranger: None,
        }
    }

    /// Ready at the deadline.
    fn waiting(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        loop {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            // Reading and writing share the timer, which must fire at the earlier of their deadlines.
            if self.alarm.is_elapsed() || self.alarm.deadline() > deadline {
                self.alarm.as_mut().reset(deadline);
            }
            ready!(self.alarm.as_mut().poll(context));
        }
    }

    /// Ready once the peer is identified, and there is room for a peer of its kind.
    fn finish_lookup(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(lookup) = &mut self.lookup else {
            return Poll::Ready(Ok(()));
        };
        let end = ready!(lookup.as_mut().poll(context));
        self.lookup = None;
        // This is the only place that sets it.
        let _ = self.peer.end.set(end);
        if end.is_none() {
            let Ok(permit) = Arc::clone(&self.strangers).try_acquire_owned() else {
                return Poll::Ready(Err(self.close(CloseReason::Strangers)));
            };
            self._stranger = Some(permit);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the reason, unless another answer is under way, and gives up.
    fn close(&self, why: CloseReason) -> io::Error {
        let answering = self.peer.heads.answering.load(Ordering::Relaxed) + self.peer.streams.load(Ordering::Relaxed);
        if let Some(answer) = why.answer().filter(|_| answering == 0) {
            // Best effort: a peer whose receive buffer is full does not get the answer.
            let _ = self.stream.try_write(&[io::IoSlice::new(answer.as_bytes())]);
        }
        why.error()
    }

    /// Deadline for the head that is arriving; `None` if there is none.
    fn head_deadline(&mut self) -> Option<Instant> {
        let arrived = self.peer.heads.arrived.load(Ordering::Relaxed);
        self.head = self.head.filter(|head| head.number == arrived);
        self.head.map(|head| head.since + self.head_max)
    }

    /// Deadline for a silent peer; earlier for one that has never sent a request.
    fn silence_deadline(&self) -> Instant {
        let has_asked = self.peer.heads.arrived.load(Ordering::Relaxed) > 0;
        self.progress
            + if has_asked {
                self.idle_max
            } else {
                self.idle_max.min(self.head_max)
            }
    }

    /// Records bytes that have arrived. They belong to a head if no request is under way whose body they can be.
    fn received(&mut self) -> io::Result<()> {
        self.progress = Instant::now();
        if self.peer.heads.answering.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        match self.head_deadline() {
            Some(deadline) if self.progress >= deadline => Err(self.close(CloseReason::LateHead)),
            Some(_) => Ok(()),
            None => {
                self.head = Some(PartialHead {
                    since: self.progress,
                    number: self.peer.heads.arrived.load(Ordering::Relaxed),
                });
                Ok(())
            }
        }
    }

    fn wrote(&mut self, context: &mut Context<'_>, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if result.is_ready() {
            self.progress = Instant::now();
            return result;
        }
        ready!(self.waiting(context, self.progress + self.stall_max));
        Poll::Ready(Err(self.close(CloseReason::SlowReader)))
    }
}

impl AsyncRead for PeerConnection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.finish_lookup(context))?;
        let result = this.stream.poll_read(context, buffer);
        if let Poll::Ready(read) = result {
            return Poll::Ready(read.and_then(|()| this.received()));
        }
        if this.peer.streams.load(Ordering::Relaxed) > 0 {
            return Poll::Pending;
        }
        let silence = this.silence_deadline();
        let (deadline, why) = match this.head_deadline() {
            Some(head) if head <= silence => (head, CloseReason::LateHead),
            _ => (silence, CloseReason::Silent),
        };
        ready!(this.waiting(context, deadline));
        Poll::Ready(Err(this.close(why)))
    }
}

impl AsyncWrite for PeerConnection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = this.stream.poll_write(context, pieces);
        this.wrote(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shut_down())
    }
}

#[cfg(test)]
pub(super) mod tests;
