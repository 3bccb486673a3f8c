//! The listening socket: how many connections, whose they are, and when a dead one is given up.
//!
//! Who owns the peer's end is looked up once, at accept, and before a byte is read: later the socket could belong to
//! somebody else. A peer that takes no byte of a waiting answer, says nothing while nothing is under way, or does not
//! get to the end of a request's head, is closed.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

use super::auth;
#[cfg(target_os = "linux")]
use super::diag;
use crate::api::{ErrorBody, Problem};
#[cfg(target_os = "linux")]
use crate::defence::{self, Defence};
use crate::limits;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    address: SocketAddr,
    ours: Option<SocketAddr>,
    same_user: Arc<OnceLock<bool>>,
    streams: Arc<AtomicUsize>,
    heads: Arc<Heads>,
}

/// What the connection must know of its requests to tell a head from a body.
#[derive(Debug, Default)]
struct Heads {
    /// Requests whose head has arrived.
    arrived: AtomicUsize,
    /// Of these, the ones that are not answered yet: what is read meanwhile is their body.
    answering: AtomicUsize,
}

impl Peer {
    fn unknown(address: SocketAddr, ours: Option<SocketAddr>) -> Self {
        Self {
            address,
            ours,
            same_user: Arc::default(),
            streams: Arc::default(),
            heads: Arc::default(),
        }
    }

    /// A peer of which it is known whether it runs as the same user. For tests and other front ends.
    pub fn new(address: SocketAddr, same_user: bool) -> Self {
        Self {
            same_user: Arc::new(OnceLock::from(same_user)),
            ..Self::unknown(address, None)
        }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of ours that it has reached.
    pub(super) fn ours(&self) -> Option<SocketAddr> {
        self.ours
    }

    /// True where the kernel says that a process of our user holds the other end.
    pub fn is_same_user(&self) -> bool {
        self.same_user.get().copied().unwrap_or(false)
    }

    /// Marks a request as arrived, and as being answered until the mark is dropped.
    pub(super) fn answering(&self) -> Answering {
        self.heads.arrived.fetch_add(1, Ordering::Relaxed);
        self.heads.answering.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(&self.heads))
    }

    /// Marks a long answer as under way, until the mark is dropped: meanwhile the peer may be silent.
    pub(super) fn long_answer(&self) -> LongAnswer {
        self.streams.fetch_add(1, Ordering::Relaxed);
        LongAnswer(Arc::clone(&self.streams))
    }
}

/// See [`Peer::answering`].
pub(super) struct Answering(Arc<Heads>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`Peer::long_answer`].
pub(super) struct LongAnswer(Arc<AtomicUsize>);

impl Drop for LongAnswer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a connection was closed from this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// Nothing was said for too long, between requests or before the first.
    Silent,
    /// A head did not get to its end.
    LateHead,
    /// Bytes of an answer were not taken.
    SlowReader,
    /// There are too many of those whom nobody knows.
    Strangers,
}

impl Closed {
    /// Status and code for the access log; absent for what is the normal end of a connection.
    pub(super) fn refusal(self) -> Option<(Option<u16>, &'static str)> {
        match self {
            Self::Silent => None,
            Self::LateHead => Some((Some(408), "head-too-slow")),
            // The answer had begun: its own line has the status.
            Self::SlowReader => Some((None, "reader-too-slow")),
            Self::Strangers => Some((Some(503), "busy")),
        }
    }

    /// The whole answer, for whoever has not got any.
    fn answer(self) -> Option<String> {
        let (status, code, message) = match self {
            Self::LateHead => (
                "408 Request Timeout",
                "head-too-slow",
                "The head of the request did not arrive in time",
            ),
            Self::Strangers => (
                "503 Service Unavailable",
                "busy",
                "There are too many connections that are not the user's",
            ),
            Self::Silent | Self::SlowReader => return None,
        };
        let error = Problem::new(code, message);
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

impl fmt::Display for Closed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Silent => "nothing was said for too long",
            Self::LateHead => "the head of a request did not arrive in time",
            Self::SlowReader => "the answer was not taken in time",
            Self::Strangers => "there are too many connections of strangers",
        })
    }
}

impl std::error::Error for Closed {}

/// A listening socket with a bound on its connections.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    connections: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

impl Listener {
    pub(super) fn new(socket: TcpListener) -> Self {
        Self {
            socket,
            connections: Arc::new(Semaphore::new(limits::CONNECTIONS_MAX)),
            strangers: Arc::new(Semaphore::new(limits::STRANGERS_CONNECTIONS_MAX)),
        }
    }

    /// The next connection, once there is room for it. May be dropped while it waits.
    pub(super) async fn accept(&mut self) -> (Connection, Peer) {
        let permit = Arc::clone(&self.connections).acquire_owned().await;
        let permit = permit.expect("nobody closes the semaphore");
        loop {
            match self.socket.accept().await {
                Ok((stream, address)) => return Connection::new(stream, address, permit, &self.strangers),
                Err(error) => {
                    tracing::warn!(%error, "accept");
                    // Out of file handles, most likely: some will be closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

/// One connection.
pub(super) struct Connection {
    stream: TcpStream,
    lookup: Option<JoinHandle<bool>>,
    peer: Peer,
    progress: Instant,
    head: Option<Head>,
    idle_max: Duration,
    head_max: Duration,
    stall_max: Duration,
    alarm: Pin<Box<Sleep>>,
    strangers: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
    _stranger: Option<OwnedSemaphorePermit>,
}

/// A request's head of which a part has arrived.
#[derive(Debug, Clone, Copy)]
struct Head {
    since: Instant,
    /// How many had arrived before it.
    number: usize,
}

impl Connection {
    fn new(
        stream: TcpStream,
        address: SocketAddr,
        permit: OwnedSemaphorePermit,
        strangers: &Arc<Semaphore>,
    ) -> (Self, Peer) {
        // Events are small and must not wait for each other; where that is not possible they are only later.
        let _ = stream.set_nodelay(true);
        let ours = stream.local_addr().ok();
        let peer = Peer::unknown(address, ours);
        let lookup = tokio::task::spawn_blocking(move || ours.is_some_and(|ours| is_same_user(address, ours)));
        let connection = Self {
            stream,
            lookup: Some(lookup),
            peer: peer.clone(),
            progress: Instant::now(),
            head: None,
            idle_max: Duration::from_secs(limits::IDLE_SECONDS_MAX),
            head_max: Duration::from_secs(limits::HEAD_SECONDS_MAX),
            stall_max: Duration::from_secs(limits::WRITE_STALL_SECONDS_MAX),
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            strangers: Arc::clone(strangers),
            _permit: permit,
            _stranger: None,
        };
        (connection, peer)
    }

    /// Ready at the deadline.
    fn waiting(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        loop {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            // Reading and writing share the alarm: the earlier one of their deadlines must ring.
            if self.alarm.is_elapsed() || self.alarm.deadline() > deadline {
                self.alarm.as_mut().reset(deadline);
            }
            ready!(self.alarm.as_mut().poll(context));
        }
    }

    /// Ready once it is known who the peer is, and there is room for such a one.
    fn finish_lookup(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(lookup) = &mut self.lookup else {
            return Poll::Ready(Ok(()));
        };
        let same_user = ready!(Pin::new(lookup).poll(context)).unwrap_or(false);
        self.lookup = None;
        // Set here and nowhere else.
        let _ = self.peer.same_user.set(same_user);
        if !same_user {
            let Ok(permit) = Arc::clone(&self.strangers).try_acquire_owned() else {
                return Poll::Ready(Err(self.close(Closed::Strangers)));
            };
            self._stranger = Some(permit);
        }
        Poll::Ready(Ok(()))
    }

    /// Says why, where nothing else is being said, and gives up.
    fn close(&self, why: Closed) -> io::Error {
        let answering = self.peer.heads.answering.load(Ordering::Relaxed) + self.peer.streams.load(Ordering::Relaxed);
        if let Some(answer) = why.answer().filter(|_| answering == 0) {
            // Whoever does not take it at once has no interest in it.
            let _ = self.stream.try_write(answer.as_bytes());
        }
        why.error()
    }

    /// When the head that is arriving must be whole; absent where none is.
    fn head_deadline(&mut self) -> Option<Instant> {
        let arrived = self.peer.heads.arrived.load(Ordering::Relaxed);
        self.head = self.head.filter(|head| head.number == arrived);
        self.head.map(|head| head.since + self.head_max)
    }

    /// When a peer that says nothing is given up; one that has never asked anything earlier than others.
    fn silence_deadline(&self) -> Instant {
        let has_asked = self.peer.heads.arrived.load(Ordering::Relaxed) > 0;
        self.progress
            + if has_asked {
                self.idle_max
            } else {
                self.idle_max.min(self.head_max)
            }
    }

    /// Takes note of bytes that have arrived: a head's, where no request is under way whose body they can be.
    fn received(&mut self) -> io::Result<()> {
        self.progress = Instant::now();
        if self.peer.heads.answering.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        match self.head_deadline() {
            Some(deadline) if self.progress >= deadline => Err(self.close(Closed::LateHead)),
            Some(_) => Ok(()),
            None => {
                self.head = Some(Head {
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
        Poll::Ready(Err(self.close(Closed::SlowReader)))
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.finish_lookup(context))?;
        let result = Pin::new(&mut this.stream).poll_read(context, buffer);
        if let Poll::Ready(read) = result {
            return Poll::Ready(read.and_then(|()| this.received()));
        }
        if this.peer.streams.load(Ordering::Relaxed) > 0 {
            return Poll::Pending;
        }
        let silence = this.silence_deadline();
        let (deadline, why) = match this.head_deadline() {
            Some(head) if head <= silence => (head, Closed::LateHead),
            _ => (silence, Closed::Silent),
        };
        ready!(this.waiting(context, deadline));
        Poll::Ready(Err(this.close(why)))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.wrote(context, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.wrote(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// User id that the kernel shows for users which do not exist in our user namespace: it names nobody.
const OVERFLOW_UID: u32 = 65_534;

#[cfg(target_os = "linux")]
fn is_same_user(peer: SocketAddr, ours: SocketAddr) -> bool {
    if ![peer, ours].iter().all(|end| end.ip().to_canonical().is_loopback()) {
        return false;
    }
    if !defence::on(Defence::SocketOwners) {
        return true;
    }
    let us = rustix::process::geteuid().as_raw();
    let owner = diag::owner(peer, ours).or_else(|| owner_in_tables(peer, ours));
    owner == Some(us) && us != OVERFLOW_UID
}

#[cfg(target_os = "linux")]
pub(super) fn owner_in_tables(peer: SocketAddr, ours: SocketAddr) -> Option<u32> {
    in_tables(|table| auth::owner(table, peer, ours))
}

/// The user id of whoever listens on a port of this machine, where the kernel tells.
pub fn listener_of(port: u16) -> Option<u32> {
    in_tables(|table| auth::listener(table, port))
}

/// What is found in the kernel's tables of sockets; elsewhere than on Linux there are none.
fn in_tables(find: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    let read = |place: &str| std::fs::read_to_string(place).ok();
    let mut tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|place| read(place));
    tables.find_map(|table| find(&table))
}

#[cfg(not(target_os = "linux"))]
fn is_same_user(_peer: SocketAddr, _ours: SocketAddr) -> bool {
    false
}

#[cfg(test)]
mod tests;
