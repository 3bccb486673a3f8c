//! Messages between the engine and its helpers, over the socket that is a helper's standard input.
//!
//! The engine sends a specification after its length, and then orders of one byte. A helper sends messages, one JSON
//! line each; the last one counts. The end of the input ends the run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{BuildFolder, Invocation, LayeredFolder, ProposedFile, RunBounds, Sandbox, WrittenFile};

/// Largest specification. A command line, an environment and the hidden paths of a large tree are far below it.
const CONTAIN_SPEC_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Orders the program to end.
pub(super) const TERMINATE: u8 = b't';

/// Everything that a helper has to know about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSpec {
    pub(super) sandbox: Sandbox,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) directory: PathBuf,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) root: PathBuf,
    /// Entries that the run does not see, relative to the repository.
    pub(super) hidden: Vec<OsString>,
    /// Paths of the machine that the run sees, apart from the system's directories.
    pub(super) visible: Vec<VisiblePath>,
    /// Path of a private, empty home that replaces the user's.
    pub(super) home: Option<PathBuf>,
    pub(super) bounds: RunBounds,
    /// Empty folder for the copy of the repository in the fallback.
    pub(super) folder: Option<PathBuf>,
    /// Set for an installation.
    pub(super) installation: Option<InstallSpec>,
    /// Folders with a private layer that takes the run's writes.
    pub(super) layers: Vec<LayeredFolder>,
    /// Files that are written for the run.
    pub(super) files: Vec<WrittenFile>,
    /// Folders of build output.
    pub(super) builds: Vec<BuildFolder>,
    /// Files of the repository whose time is set to now.
    pub(super) refreshed: Vec<String>,
    /// Files of the repository that the run sees with other content, or not at all.
    pub(super) proposed: Vec<ProposedFile>,
    /// Commands that must succeed before the program starts.
    pub(super) before: Vec<Invocation>,
    /// True: the repository is handed back.
    pub(super) hands_back: bool,
}

/// Settings of an installation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InstallSpec {
    /// The folder of packages if it is outside of the repository.
    pub(super) outside: Option<PathBuf>,
    /// Variables that get the address of the proxy.
    pub(super) proxy_variables: Vec<String>,
}

/// A path of the machine that the run sees as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VisiblePath {
    /// A file or directory, for reading.
    Place(PathBuf),
    Link {
        /// Path of the link.
        path: PathBuf,
        /// Target of the link.
        target: PathBuf,
    },
}

impl VisiblePath {
    pub(super) fn path(&self) -> &PathBuf {
        match self {
            Self::Place(path) | Self::Link { path, .. } => path,
        }
    }
}

/// Message from a helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HelperMessage {
    /// Carries the handle of the listener on which an installation finds its proxy.
    Listening,
    /// The program exited. If an installation did so with 0, handles of the trees follow.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
    /// The run had more processes and threads than allowed.
    Tasks,
    /// The run used more memory than allowed.
    Memory,
    /// The run's files have filled a file system that is dropped with it.
    Full {
        /// Bytes of that file system.
        bytes: u64,
    },
    /// The program could not be started; holds the system's error number.
    NotStarted(i32),
    /// The sandbox could not be set up.
    Failed { step: String, reason: String },
}

/// Writes a text after its length.
pub(super) fn send_text(writer: &mut impl Write, text: &[u8]) -> io::Result<()> {
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(text)
}

/// Reads a text that [`send_text`] wrote, and nothing beyond it.
pub(super) fn receive_text(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > CONTAIN_SPEC_BYTES_MAX {
        return Err(io::Error::other("the specification is too large"));
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    Ok(text)
}

/// Encodes a message as one line.
pub(super) fn encode_line(message: &HelperMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

/// Decodes the last message of a helper's output.
pub(super) fn last_message(said: &[u8]) -> io::Result<HelperMessage> {
    let last = said.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
    let last = last.ok_or_else(|| io::Error::other("the sandbox ended without saying why"))?;
    serde_json::from_slice(last).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received_and_nothing_beyond_it() {
        let mut wire = Vec::new();
        send_text(&mut wire, b"one").expect("a vector takes it");
        wire.push(TERMINATE);
        let mut reader = wire.as_slice();
        assert_eq!(receive_text(&mut reader).expect("it is whole"), b"one");
        assert_eq!(reader, [TERMINATE]);
        receive_text(&mut [255u8; 8].as_slice()).expect_err("nobody sends four gigabytes");
    }

    /// `CONTAIN_SPEC_BYTES_MAX`.
    #[test]
    fn a_specification_without_end_is_refused_before_it_is_read() {
        let length = u32::try_from(CONTAIN_SPEC_BYTES_MAX + 1).expect("it fits");
        let error = receive_text(&mut length.to_le_bytes().as_slice()).expect_err("it is too long");
        assert_eq!(error.to_string(), "the specification is too large");
    }

    #[test]
    fn the_last_message_counts() {
        let line = |message| encode_line(&message).expect("it can be written down");
        let wire = [line(HelperMessage::Memory), line(HelperMessage::Exited(3))].concat();
        assert_eq!(last_message(&wire).expect("it is whole"), HelperMessage::Exited(3));
        last_message(&[]).expect_err("nothing was said");
        last_message(b"{\"exi").expect_err("it is not whole");
    }
}
