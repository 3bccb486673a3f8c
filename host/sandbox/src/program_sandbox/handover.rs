//! Sends and receives messages with handles, over the socket that is a helper's standard input.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage};

use crate::NO_SIGNAL;

/// Bytes of all messages of a helper in one run: some lines.
const CONTAIN_MESSAGES_BYTES_MAX: usize = 64 * 1024;

/// Handles in one message and in one run: a listener, the repository, and the folder of packages.
const HANDLES_MAX: usize = 4;

/// Flags of a read. `CMSG_CLOEXEC` keeps received handles from programs that this process starts.
#[cfg(target_os = "linux")]
const RECEIVING: RecvFlags = RecvFlags::DONTWAIT.union(RecvFlags::CMSG_CLOEXEC);

/// Flags of a read. On this system no sandbox sends handles.
#[cfg(not(target_os = "linux"))]
const RECEIVING: RecvFlags = RecvFlags::DONTWAIT;

/// Sends bytes with handles. If the socket takes only some of the bytes, the rest follows without handles.
pub(super) fn send_handles(socket: &UnixStream, bytes: &[u8], handles: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDLES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(handles)) {
        return Err(io::Error::other("too many handles for one message"));
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, NO_SIGNAL)?;
    (&*socket).write_all(&bytes[sent..])
}

/// Bytes and handles received so far.
#[derive(Debug, Default)]
pub(super) struct SocketInbox {
    pub(super) bytes: Vec<u8>,
    pub(super) handles: VecDeque<OwnedFd>,
}

impl SocketInbox {
    /// Takes what can be read now. Returns false after the other end has closed the socket.
    ///
    /// # Errors
    ///
    /// The socket failed, or the other end sent more than the limits.
    pub(super) fn receive(&mut self, socket: &UnixStream) -> io::Result<bool> {
        loop {
            let mut buffer = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDLES_MAX))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut pieces = [IoSliceMut::new(&mut buffer)];
            let count = match rustix::net::recvmsg(socket, &mut pieces, &mut ancillary, RECEIVING) {
                Ok(message) => message.bytes,
                Err(rustix::io::Errno::AGAIN) => return Ok(true),
                Err(rustix::io::Errno::INTR) => continue,
                // The other end was killed before it had read everything.
                Err(rustix::io::Errno::CONNRESET) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(handles) = message {
                    self.handles.extend(handles);
                }
            }
            if count == 0 {
                return Ok(false);
            }
            self.bytes.extend_from_slice(&buffer[..count]);
            if self.bytes.len() > CONTAIN_MESSAGES_BYTES_MAX || self.handles.len() > HANDLES_MAX {
                return Err(io::Error::other("the sandbox says too much"));
            }
        }
    }

    /// Forwards what was received.
    pub(super) fn pass_on(&mut self, to: &UnixStream) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let handles: Vec<OwnedFd> = self.handles.drain(..).collect();
        let borrowed: Vec<BorrowedFd<'_>> = handles.iter().map(AsFd::as_fd).collect();
        send_handles(to, &std::mem::take(&mut self.bytes), &borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_arrive_with_what_was_said_and_are_passed_on() {
        let (one, two) = UnixStream::pair().expect("there are sockets");
        let (three, four) = UnixStream::pair().expect("there are sockets");
        let file = tempfile::tempfile().expect("there is room for a file");
        send_handles(&one, b"hello", &[file.as_fd()]).expect("it is sent");
        send_handles(&one, b" world", &[]).expect("it is sent");
        let mut inbox = SocketInbox::default();
        assert!(inbox.receive(&two).expect("it can be read"));
        inbox.pass_on(&three).expect("it is sent");
        drop((one, three));
        let mut inbox = SocketInbox::default();
        assert!(
            !inbox.receive(&four).expect("it can be read"),
            "nobody is left to say more"
        );
        assert_eq!((inbox.bytes.as_slice(), inbox.handles.len()), (&b"hello world"[..], 1));
    }

    /// `CONTAIN_MESSAGES_BYTES_MAX`.
    #[test]
    fn a_helper_that_does_not_stop_talking_is_not_listened_to() {
        let (one, two) = UnixStream::pair().expect("there are sockets");
        let talker = std::thread::spawn(move || while (&one).write_all(&[b'x'; 4096]).is_ok() {});
        let mut inbox = SocketInbox::default();
        let error = loop {
            match inbox.receive(&two) {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.to_string(), "the sandbox says too much");
        assert!(inbox.bytes.len() <= CONTAIN_MESSAGES_BYTES_MAX + 4096);
        drop(two);
        talker.join().expect("it ends with its listener");
    }

    #[test]
    fn handles_without_end_are_refused() {
        let (one, two) = UnixStream::pair().expect("there are sockets");
        let file = tempfile::tempfile().expect("there is room for a file");
        for _ in 0..2 {
            send_handles(&one, b"x", &[file.as_fd(); 3]).expect("it is sent");
        }
        SocketInbox::default().receive(&two).expect_err("six are too many");
        send_handles(&one, b"x", &[file.as_fd(); 16]).expect_err("sixteen are too many for one message");
    }
}
