//! Reads small files of the user, such as lists of trusted keys: whole, up to a limit, without blocking.
//!
//! Reading a FIFO would block, and a device may never end, so both are refused. The caller parses the bytes.
//! `tool-repository` opens the files of a repository.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Whether a link may replace the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPolicy {
    /// Follow it: the user may have created it.
    Followed,
    /// Refuse it: another user or program decides where it leads.
    Refused,
}

/// Reads a regular file of at most `bytes_max` bytes.
pub(super) fn read_bytes(path: &Path, bytes_max: u64, links: LinkPolicy) -> io::Result<Vec<u8>> {
    let flags = match links {
        LinkPolicy::Followed => OFlags::NONBLOCK,
        LinkPolicy::Refused => OFlags::NONBLOCK | OFlags::NOFOLLOW,
    };
    let flags = flags.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        Err(io::Error::other(format!("it is larger than {bytes_max} bytes")))
    } else {
        Ok(content)
    }
}

/// Reads a regular file of at most `bytes_max` bytes as UTF-8 text.
pub(super) fn read_text(path: &Path, bytes_max: u64, links: LinkPolicy) -> io::Result<String> {
    String::from_utf8(read_bytes(path, bytes_max, links)?).map_err(|_| io::Error::other("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn what_is_no_plain_file_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| folder.path().join(name);
        std::fs::write(place("file"), "four").expect("the folder is writable");
        std::os::unix::fs::symlink("file", place("link")).expect("links can be made");
        mknodat(CWD, place("fifo"), FileType::Fifo, 0o600.into(), 0).expect("FIFOs can be made");
        let told = |name: &str, links| read_bytes(&place(name), 4, links).map_err(|error| error.to_string());
        assert_eq!(told("file", LinkPolicy::Refused), Ok(b"four".to_vec()));
        assert_eq!(told("link", LinkPolicy::Followed), Ok(b"four".to_vec()));
        assert!(told("link", LinkPolicy::Refused).is_err());
        for name in ["fifo", "."] {
            assert_eq!(
                told(name, LinkPolicy::Followed),
                Err("it is not a file".to_owned()),
                "{name}"
            );
        }
        std::fs::write(place("file"), "and more").expect("the folder is writable");
        assert_eq!(
            told("file", LinkPolicy::Followed),
            Err("it is larger than 4 bytes".to_owned())
        );
        std::fs::write(place("file"), [0xff]).expect("the folder is writable");
        assert!(read_text(&place("file"), 4, LinkPolicy::Followed).is_err());
    }
}
