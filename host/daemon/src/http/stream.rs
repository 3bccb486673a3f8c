//! The byte stream of one connection: TCP, or the Unix socket of the command line.
//!
//! A stream is read and written through `&self`, so that [`super::Peer`] can hold a weak reference to it and check,
//! while a request is under way, whether the other end still exists.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use tokio::io::ReadBuf;
use tokio::net::{TcpStream, UnixStream};

#[derive(Debug)]
pub(super) enum PeerStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// State of our own end of a connection, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// Neither end has closed anything.
    Established,
    /// The other end sends nothing more, but may still read.
    HalfClosed,
    /// The other end is gone, or has reset the connection. Bytes that it sent before can still be read.
    Closed,
}

impl PeerStream {
    /// State of our own socket, without reading from it.
    ///
    /// `poll` reports what `TCP_INFO` does: `POLLHUP` and `POLLERR` for a socket in `CLOSE`, `POLLRDHUP` after the
    /// other end's FIN, none of them in `ESTABLISHED`.
    pub(super) fn state(&self) -> ConnectionState {
        let is_gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let mut asked = [PollFd::from_borrowed_fd(self.as_fd(), HALF_CLOSED)];
        match poll(&mut asked, Some(&Timespec::default())) {
            Ok(_) if asked[0].revents().intersects(is_gone) => ConnectionState::Closed,
            Ok(_) if asked[0].revents().intersects(HALF_CLOSED) => ConnectionState::HalfClosed,
            Ok(_) => ConnectionState::Established,
            Err(_) => ConnectionState::Closed,
        }
    }

    /// Our own address of the connection; a Unix socket has none.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    pub(super) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(match self {
                Self::Tcp(stream) => stream.poll_read_ready(context),
                Self::Unix(stream) => stream.poll_read_ready(context),
            })?;
            let read = match self {
                Self::Tcp(stream) => stream.try_read_buf(buffer),
                Self::Unix(stream) => stream.try_read_buf(buffer),
            };
            if let Some(read) = none_if_blocked(read) {
                return Poll::Ready(read.map(drop));
            }
        }
    }

    pub(super) fn poll_write(&self, context: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            ready!(match self {
                Self::Tcp(stream) => stream.poll_write_ready(context),
                Self::Unix(stream) => stream.poll_write_ready(context),
            })?;
            if let Some(written) = none_if_blocked(self.try_write(pieces)) {
                return Poll::Ready(written);
            }
        }
    }

    /// Writes as much as the kernel accepts at once.
    pub(super) fn try_write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(pieces),
            Self::Unix(stream) => stream.try_write_vectored(pieces),
        }
    }

    /// Closes the sending direction.
    pub(super) fn shut_down(&self) -> io::Result<()> {
        rustix::net::shutdown(self, Shutdown::Write).map_err(io::Error::from)
    }
}

impl AsFd for PeerStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

#[cfg(target_os = "linux")]
const HALF_CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const HALF_CLOSED: PollFlags = PollFlags::empty();

/// Result of a call that does not block; `None` if the socket was not ready.
fn none_if_blocked<T>(result: io::Result<T>) -> Option<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        result => Some(result),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::net::TcpListener;

    use super::*;

    /// Both ends of a connection over loopback.
    async fn connected() -> (PeerStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        #[expect(clippy::disallowed_methods, reason = "the test is the client")]
        let client = std::net::TcpStream::connect(address).expect("it listens");
        let (stream, _) = listener.accept().await.expect("it is there");
        (PeerStream::Tcp(stream), client)
    }

    #[tokio::test]
    async fn the_state_tells_a_reset_from_a_half_closed_and_an_open_connection() {
        let (stream, mut client) = connected().await;
        client.write_all(b"GET / HTTP/1.1\r\n").expect("it is open");
        assert_eq!(stream.state(), ConnectionState::Established);
        client.shutdown(std::net::Shutdown::Write).expect("it is open");
        assert_eq!(stream.state(), ConnectionState::HalfClosed);
        let (stream, mut client) = connected().await;
        client.write_all(b"GET / HTTP/1.1\r\n").expect("it is open");
        // Closed at once, with a reset.
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).expect("an option");
        drop(client);
        assert_eq!(stream.state(), ConnectionState::Closed, "its bytes can still be read");
        let (one, other) = UnixStream::pair().expect("there are sockets");
        let one = PeerStream::Unix(one);
        assert_eq!(one.state(), ConnectionState::Established);
        drop(other);
        assert_eq!(one.state(), ConnectionState::Closed);
    }
}
