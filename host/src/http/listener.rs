//! The listening socket: how many connections, whose they are, and when a dead one is given up.
//!
//! Who owns the peer's end is looked up once, at accept, and before a byte is read: later the socket could belong to
//! somebody else. A peer that takes no byte of a waiting answer, says nothing while nothing is under way, or does not
//! get to the end of a request's head, is closed.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

use super::auth;
use crate::limits;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    address: SocketAddr,
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
    /// A peer of which it is known whether it runs as the same user. For tests and other front ends.
    pub fn new(address: SocketAddr, same_user: bool) -> Self {
        Self {
            address,
            same_user: Arc::new(OnceLock::from(same_user)),
            streams: Arc::default(),
            heads: Arc::default(),
        }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
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

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A listening socket with a bound on its connections.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    connections: Arc<Semaphore>,
}

impl Listener {
    pub(super) fn new(socket: TcpListener) -> Self {
        Self {
            socket,
            connections: Arc::new(Semaphore::new(limits::CONNECTIONS_MAX)),
        }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        let permit = Arc::clone(&self.connections).acquire_owned().await;
        let permit = permit.expect("nobody closes the semaphore");
        loop {
            match self.socket.accept().await {
                Ok((stream, address)) => return Connection::new(stream, address, permit),
                Err(error) => {
                    tracing::warn!(%error, "accept");
                    // Out of file handles, most likely: some will be closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer::new(self.socket.local_addr()?, false))
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
    _permit: OwnedSemaphorePermit,
}

/// A request's head of which a part has arrived.
#[derive(Debug, Clone, Copy)]
struct Head {
    since: Instant,
    /// How many had arrived before it.
    number: usize,
}

impl Connection {
    fn new(stream: TcpStream, address: SocketAddr, permit: OwnedSemaphorePermit) -> (Self, Peer) {
        // Events are small and must not wait for each other; where that is not possible they are only later.
        let _ = stream.set_nodelay(true);
        let peer = Peer {
            address,
            same_user: Arc::default(),
            streams: Arc::default(),
            heads: Arc::default(),
        };
        let lookup = stream.local_addr().ok().map(|ours| {
            let both_loopback = address.ip().to_canonical().is_loopback() && ours.ip().to_canonical().is_loopback();
            tokio::task::spawn_blocking(move || both_loopback && is_same_user(address, ours))
        });
        let connection = Self {
            stream,
            lookup,
            peer: peer.clone(),
            progress: Instant::now(),
            head: None,
            idle_max: Duration::from_secs(limits::IDLE_SECONDS_MAX),
            head_max: Duration::from_secs(limits::HEAD_SECONDS_MAX),
            stall_max: Duration::from_secs(limits::WRITE_STALL_SECONDS_MAX),
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            _permit: permit,
        };
        (connection, peer)
    }

    /// What a pending operation answers: still pending, or an error at the deadline.
    fn waiting(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<io::Error> {
        loop {
            if Instant::now() >= deadline {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            // Reading and writing share the alarm: the earlier one of their deadlines must ring.
            if self.alarm.is_elapsed() || self.alarm.deadline() > deadline {
                self.alarm.as_mut().reset(deadline);
            }
            ready!(self.alarm.as_mut().poll(context));
        }
    }

    fn finish_lookup(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(lookup) = &mut self.lookup {
            let same_user = ready!(Pin::new(lookup).poll(context)).unwrap_or(false);
            self.lookup = None;
            // Set here and nowhere else.
            let _ = self.peer.same_user.set(same_user);
        }
        Poll::Ready(())
    }

    /// When the head that is arriving must be whole; absent where none is.
    fn head_deadline(&mut self) -> Option<Instant> {
        let arrived = self.peer.heads.arrived.load(Ordering::Relaxed);
        self.head = self.head.filter(|head| head.number == arrived);
        self.head.map(|head| head.since + self.head_max)
    }

    /// Takes note of bytes that have arrived: a head's, where no request is under way whose body they can be.
    fn received(&mut self) -> io::Result<()> {
        self.progress = Instant::now();
        if self.peer.heads.answering.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        match self.head_deadline() {
            Some(deadline) if self.progress >= deadline => Err(io::ErrorKind::TimedOut.into()),
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
        self.waiting(context, self.progress + self.stall_max).map(Err)
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.finish_lookup(context));
        let result = Pin::new(&mut this.stream).poll_read(context, buffer);
        if let Poll::Ready(read) = result {
            return Poll::Ready(read.and_then(|()| this.received()));
        }
        if this.peer.streams.load(Ordering::Relaxed) > 0 {
            return Poll::Pending;
        }
        let idle = this.progress + this.idle_max;
        let deadline = this.head_deadline().map_or(idle, |head| head.min(idle));
        this.waiting(context, deadline).map(Err)
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
    let us = rustix::process::geteuid().as_raw();
    let owner = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|place| {
        let table = std::fs::read_to_string(place).ok()?;
        auth::owner(&table, peer, ours)
    });
    owner == Some(us) && us != OVERFLOW_UID
}

#[cfg(not(target_os = "linux"))]
fn is_same_user(_peer: SocketAddr, _ours: SocketAddr) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::serve::Listener as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_of_this_process_is_of_the_same_user() {
        for address in ["127.0.0.1:0", "[::]:0"] {
            let Ok(socket) = TcpListener::bind(address).await else {
                continue;
            };
            let port = socket.local_addr().expect("it is bound").port();
            let mut listener = Listener::new(socket);
            let mut client = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
            let (mut connection, peer) = listener.accept().await;
            assert!(!peer.is_same_user(), "not before it was looked up");
            client.write_all(b"x").await.expect("it is open");
            connection.read_u8().await.expect("a byte came");
            assert!(peer.is_same_user() || rustix::process::geteuid().as_raw() == OVERFLOW_UID);
        }
    }

    #[tokio::test]
    async fn a_silent_connection_is_closed_unless_an_answer_is_under_way() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound");
        let mut listener = Listener::new(socket);
        let _client = TcpStream::connect(address).await.expect("it listens");
        let (mut connection, peer) = listener.accept().await;
        connection.lookup = None;
        connection.idle_max = Duration::from_millis(20);
        let patience = Duration::from_millis(200);
        let answer = peer.long_answer();
        assert!(
            tokio::time::timeout(patience, connection.read_u8()).await.is_err(),
            "it is left open"
        );
        drop(answer);
        connection.progress = Instant::now();
        let read = tokio::time::timeout(patience, connection.read_u8())
            .await
            .expect("it is given up");
        assert_eq!(read.expect_err("nothing came").kind(), io::ErrorKind::TimedOut);
    }

    /// Sends a byte every 10 ms and says for how long the connection took them.
    async fn trickled(connection: &mut Connection, mut client: TcpStream, bytes: usize) -> io::Result<()> {
        let send = async {
            for _ in 0..bytes {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if client.write_all(b"x").await.is_err() {
                    break;
                }
            }
        };
        let take = async {
            for _ in 0..bytes {
                connection.read_u8().await?;
            }
            Ok(())
        };
        let (taken, ()) = tokio::join!(take, send);
        taken
    }

    #[tokio::test]
    async fn a_head_that_trickles_is_given_up_and_a_body_is_not() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound");
        let mut listener = Listener::new(socket);
        for is_body in [false, true] {
            let client = TcpStream::connect(address).await.expect("it listens");
            let (mut connection, peer) = listener.accept().await;
            connection.lookup = None;
            connection.head_max = Duration::from_millis(100);
            let mark = is_body.then(|| peer.answering());
            let ended = trickled(&mut connection, client, 30).await;
            assert_eq!(ended.is_ok(), is_body, "{ended:?}");
            drop(mark);
        }
    }

    #[tokio::test]
    async fn every_head_has_its_own_time() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound");
        let mut listener = Listener::new(socket);
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let (mut connection, peer) = listener.accept().await;
        connection.lookup = None;
        connection.head_max = Duration::from_millis(100);
        for _ in 0..4 {
            client.write_all(b"x").await.expect("it is open");
            connection.read_u8().await.expect("a byte came");
            drop(peer.answering());
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        client.write_all(b"x").await.expect("it is open");
        connection.read_u8().await.expect("a byte came");
        let patience = Duration::from_secs(10);
        let read = tokio::time::timeout(patience, connection.read_u8()).await;
        let error = read.expect("it is given up").expect_err("nothing came");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_closed() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound");
        let mut listener = Listener::new(socket);
        let _client = TcpStream::connect(address).await.expect("it listens");
        let (mut connection, _peer) = listener.accept().await;
        connection.stall_max = Duration::from_millis(50);
        let flood = async {
            loop {
                connection.write_all(&[0; 65_536]).await?;
            }
        };
        let patience = Duration::from_secs(30);
        let ended: Result<io::Result<()>, _> = tokio::time::timeout(patience, flood).await;
        let error = ended.expect("it is given up").expect_err("the peer takes nothing");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn the_bounds_of_a_connection_are_those_of_limits() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound");
        let mut listener = Listener::new(socket);
        assert_eq!(listener.connections.available_permits(), limits::CONNECTIONS_MAX);
        let _client = TcpStream::connect(address).await.expect("it listens");
        let (connection, _peer) = listener.accept().await;
        assert_eq!(listener.connections.available_permits(), limits::CONNECTIONS_MAX - 1);
        let seconds = [connection.idle_max, connection.head_max, connection.stall_max].map(|span| span.as_secs());
        let bounds = [
            limits::IDLE_SECONDS_MAX,
            limits::HEAD_SECONDS_MAX,
            limits::WRITE_STALL_SECONDS_MAX,
        ];
        assert_eq!(seconds, bounds);
        drop(connection);
        assert_eq!(listener.connections.available_permits(), limits::CONNECTIONS_MAX);
    }

    #[tokio::test]
    async fn one_connection_more_than_the_bound_waits() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound");
        let mut listener = Listener::new(socket);
        let others = u32::try_from(limits::CONNECTIONS_MAX - 1).expect("it is small");
        let others = Arc::clone(&listener.connections)
            .acquire_many_owned(others)
            .await
            .expect("it is open");
        let _first = TcpStream::connect(address).await.expect("it listens");
        let (last, _) = listener.accept().await;
        let _second = TcpStream::connect(address).await.expect("the kernel takes it");
        let patience = Duration::from_millis(100);
        assert!(
            tokio::time::timeout(patience, listener.accept()).await.is_err(),
            "it waits"
        );
        drop(last);
        let patience = Duration::from_secs(10);
        assert!(
            tokio::time::timeout(patience, listener.accept()).await.is_ok(),
            "it is its turn"
        );
        drop(others);
    }
}
