//! What the engine and its helpers say to each other over the socket that is a helper's standard input.
//!
//! A spec goes in, with its length before it; then single bytes with orders. Out come messages, one JSON line each; the
//! last one counts. The end of the input ends the run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Bounds, Sandbox};
use crate::limits;

/// The order to ask the program to end.
pub(super) const TERMINATE: u8 = b't';

/// Everything that a helper has to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    pub(super) sandbox: Sandbox,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) directory: PathBuf,
    pub(super) environment: BTreeMap<String, String>,
    /// The repository.
    pub(super) root: PathBuf,
    /// Relative to the repository: not there for the run.
    pub(super) hidden: Vec<OsString>,
    /// What of the machine is visible beside the system's own directories.
    pub(super) visible: Vec<Visible>,
    /// Where a private, empty home stands in for the user's.
    pub(super) home: Option<PathBuf>,
    pub(super) bounds: Bounds,
}

/// A place of the machine that is visible to the run at the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Visible {
    /// A file or directory, for reading.
    Place(PathBuf),
    /// A symbolic link.
    Link {
        /// Where it is.
        path: PathBuf,
        /// What it says.
        target: PathBuf,
    },
}

impl Visible {
    pub(super) fn path(&self) -> &PathBuf {
        match self {
            Self::Place(path) | Self::Link { path, .. } => path,
        }
    }
}

/// What a helper says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::process) enum Message {
    /// The program exited.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
    /// More processes and threads than allowed.
    Tasks,
    /// More memory than allowed.
    Memory,
    /// The program could not be started: the system's error number.
    NotStarted(i32),
    /// The sandbox could not be set up.
    Failed {
        /// What was being done.
        step: String,
        /// The system's words.
        reason: String,
    },
}

/// Writes a framed text.
pub(super) fn send(writer: &mut impl Write, text: &[u8]) -> io::Result<()> {
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(text)
}

/// Reads a framed text, byte for byte what [`send`] wrote and nothing beyond.
pub(super) fn receive(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > limits::CONTAIN_SPEC_BYTES_MAX {
        return Err(io::Error::other("the specification is too large"));
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    Ok(text)
}

/// Writes a message.
pub(super) fn say(writer: &mut impl Write, message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    writer.write_all(&line)
}

/// The last whole message of everything that can be read now.
pub(super) fn last_message(reader: &mut impl Read) -> io::Result<Message> {
    let mut text = Vec::new();
    match reader.take(limits::CONTAIN_MESSAGES_BYTES_MAX).read_to_end(&mut text) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
        _ => {}
    }
    let last = text.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
    let last = last.ok_or_else(|| io::Error::other("the sandbox ended without saying why"))?;
    serde_json::from_slice(last).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received_and_nothing_beyond_it() {
        let mut wire = Vec::new();
        send(&mut wire, b"one").expect("a vector takes it");
        wire.push(TERMINATE);
        let mut reader = wire.as_slice();
        assert_eq!(receive(&mut reader).expect("it is whole"), b"one");
        assert_eq!(reader, [TERMINATE]);
        receive(&mut [255u8; 8].as_slice()).expect_err("nobody sends four gigabytes");
    }

    #[test]
    fn the_last_message_counts() {
        let mut wire = Vec::new();
        say(&mut wire, &Message::Memory).expect("a vector takes it");
        say(&mut wire, &Message::Exited(3)).expect("a vector takes it");
        assert_eq!(
            last_message(&mut wire.as_slice()).expect("it is whole"),
            Message::Exited(3)
        );
        last_message(&mut [].as_slice()).expect_err("nothing was said");
    }

    #[test]
    fn what_a_helper_says_is_bounded() {
        let mut flood = vec![b' '; usize::try_from(limits::CONTAIN_MESSAGES_BYTES_MAX).expect("it is small")];
        flood.push(b'\n');
        say(&mut flood, &Message::Exited(0)).expect("a vector takes it");
        last_message(&mut flood.as_slice()).expect_err("it comes after what is read");
        let wanted = limits::CONTAIN_SPEC_BYTES_MAX as u32 + 1;
        let mut large = wanted.to_le_bytes().to_vec();
        large.resize(large.len() + wanted as usize, b'x');
        let refused = receive(&mut large.as_slice()).expect_err("no specification is as large");
        assert_eq!(refused.to_string(), "the specification is too large");
    }
}
