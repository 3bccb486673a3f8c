//! Frames on the socket between the engine and a helper: two lengths, a JSON text, and bytes.
//!
//! Both ends bound what they read. The engine's end waits in short steps, between which it checks the clock and the
//! session's token; a helper just waits.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{HelperDeadline, HelperError};
use crate::{NO_SIGNAL, limits};

/// Largest JSON part of a frame: a page of changes whose paths are as long as paths can be.
const CONFINE_HEAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Largest second part of a frame that a helper accepts: a component, or both sides of a change.
const CONFINE_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Two lengths of four bytes each.
const PREFIX_BYTES: usize = 8;

fn encode_prefix(head: &[u8], body: &[u8]) -> io::Result<[u8; PREFIX_BYTES]> {
    let mut prefix = [0; PREFIX_BYTES];
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
    prefix[..4].copy_from_slice(&length(head)?.to_le_bytes());
    prefix[4..].copy_from_slice(&length(body)?.to_le_bytes());
    Ok(prefix)
}

/// Decodes the two lengths of a frame.
///
/// # Errors
///
/// A length above its limit.
fn decode_prefix(prefix: [u8; PREFIX_BYTES], body_bytes_max: usize) -> Result<(usize, usize), &'static str> {
    let [a, b, c, d, e, f, g, h] = prefix;
    let head = u32::from_le_bytes([a, b, c, d]) as usize;
    let body = u32::from_le_bytes([e, f, g, h]) as usize;
    if head <= CONFINE_HEAD_BYTES_MAX && body <= body_bytes_max {
        Ok((head, body))
    } else {
        Err("it is longer than agreed")
    }
}

/// The helper's end of the socket. Its calls block.
#[derive(Debug)]
pub struct HelperConnection(UnixStream);

impl HelperConnection {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    pub(super) fn of_standard_input() -> io::Result<Self> {
        let handle: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self(UnixStream::from(handle)))
    }

    /// Sends a message and the bytes that belong to it.
    ///
    /// # Errors
    ///
    /// The engine has closed the socket, or the message cannot be encoded.
    pub fn send(&mut self, head: &impl Serialize, body: &[u8]) -> io::Result<()> {
        let head = serde_json::to_vec(head).map_err(io::Error::other)?;
        let mut frame = encode_prefix(&head, body)?.to_vec();
        frame.extend(head);
        self.0.write_all(&frame)?;
        self.0.write_all(body)
    }

    /// Receives the engine's next message; `None` after the engine has closed the socket.
    ///
    /// # Errors
    ///
    /// The socket failed, or the frame is too long or invalid.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<u8>)>> {
        let mut prefix = [0; PREFIX_BYTES];
        match self.0.read_exact(&mut prefix) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let (head, body) = decode_prefix(prefix, CONFINE_BODY_BYTES_MAX).map_err(io::Error::other)?;
        let (mut text, mut bytes) = (vec![0; head], vec![0; body]);
        self.0.read_exact(&mut text)?;
        self.0.read_exact(&mut bytes)?;
        let head = serde_json::from_slice(&text).map_err(io::Error::other)?;
        Ok(Some((head, bytes)))
    }
}

/// Sends a frame from the engine's end.
pub(super) fn send_frame(
    stream: &UnixStream,
    head: &impl Serialize,
    body: &[u8],
    until: &HelperDeadline,
) -> Result<(), HelperError> {
    let head = serde_json::to_vec(head).map_err(|error| HelperError::Nonsense(error.to_string()))?;
    let mut frame = encode_prefix(&head, body).map_err(HelperError::Socket)?.to_vec();
    frame.extend(head);
    write_bytes(stream, &frame, until)?;
    write_bytes(stream, body, until)
}

/// Receives a frame at the engine's end, whose second part has at most `body_bytes_max` bytes.
pub(super) fn receive_frame<T: DeserializeOwned>(
    stream: &UnixStream,
    body_bytes_max: usize,
    until: &HelperDeadline,
) -> Result<(T, Vec<u8>), HelperError> {
    let nonsense = |reason: &str| HelperError::Nonsense(reason.to_owned());
    let mut prefix = [0; PREFIX_BYTES];
    read_bytes(stream, &mut prefix, until)?;
    let (head, body) = decode_prefix(prefix, body_bytes_max).map_err(nonsense)?;
    let text = read_growing(stream, head, until)?;
    let bytes = read_growing(stream, body, until)?;
    let head = serde_json::from_slice(&text).map_err(|error| nonsense(&error.to_string()))?;
    Ok((head, bytes))
}

/// Allocates as bytes arrive, not as the frame announces them: a helper that was taken over could announce the maximum
/// and send nothing.
fn read_growing(stream: &UnixStream, length: usize, until: &HelperDeadline) -> Result<Vec<u8>, HelperError> {
    const STEP_BYTES: usize = 1024 * 1024;
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let from = bytes.len();
        bytes.resize(length.min(from + STEP_BYTES), 0);
        read_bytes(stream, &mut bytes[from..], until)?;
    }
    Ok(bytes)
}

fn write_bytes(stream: &UnixStream, mut bytes: &[u8], until: &HelperDeadline) -> Result<(), HelperError> {
    while !bytes.is_empty() {
        until.check()?;
        match rustix::net::send(stream, bytes, NO_SIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::AGAIN) => wait_ready(stream, PollFlags::OUT)?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(HelperError::Socket(error.into())),
        }
    }
    Ok(())
}

fn read_bytes(stream: &UnixStream, mut bytes: &mut [u8], until: &HelperDeadline) -> Result<(), HelperError> {
    while !bytes.is_empty() {
        until.check()?;
        match rustix::net::recv(stream, &mut *bytes, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(HelperError::Socket(io::ErrorKind::UnexpectedEof.into())),
            Ok((_, count)) => bytes = &mut bytes[count..],
            Err(rustix::io::Errno::AGAIN) => wait_ready(stream, PollFlags::IN)?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(HelperError::Socket(error.into())),
        }
    }
    Ok(())
}

fn wait_ready(stream: &UnixStream, for_what: PollFlags) -> Result<(), HelperError> {
    let tick = Duration::from_millis(limits::CONFINE_TICK_MS);
    let tick = Timespec::try_from(tick).map_err(|error| HelperError::Socket(io::Error::other(error)))?;
    match rustix::event::poll(&mut [PollFd::new(stream, for_what)], Some(&tick)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(HelperError::Socket(error.into())),
    }
}

/// True if the other end has closed the socket and nothing is left to read.
pub(super) fn is_closed(stream: &UnixStream) -> bool {
    let mut byte = [0];
    !matches!(
        rustix::net::recv(stream, &mut byte[..], RecvFlags::PEEK),
        Ok((_, 1..)) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
    )
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn frames_are_of_bounded_length() {
        let prefix = |head: usize, body: usize| {
            let length = |bytes: usize| u32::try_from(bytes).expect("it is small").to_le_bytes();
            let mut prefix = [0; PREFIX_BYTES];
            prefix[..4].copy_from_slice(&length(head));
            prefix[4..].copy_from_slice(&length(body));
            prefix
        };
        let (head, body) = (CONFINE_HEAD_BYTES_MAX, CONFINE_BODY_BYTES_MAX);
        assert_eq!(decode_prefix(prefix(head, body), body), Ok((head, body)));
        assert!(decode_prefix(prefix(head + 1, 0), body).is_err());
        let (own, theirs) = UnixStream::pair().expect("sockets can be made");
        let mut theirs = theirs;
        theirs.write_all(&prefix(0, body + 1)).expect("it is taken");
        let refused = HelperConnection::new(own)
            .receive::<u32>()
            .expect_err("nobody sends as much");
        assert_eq!(refused.to_string(), "it is longer than agreed");
    }
}
