//! The files for finding a daemon: `backend.json`, `backend.pid`, and the token.
//!
//! `backend.json` describes the daemon, and `backend.pid` holds only the pid, for scripts. Neither proves anything:
//! the lock proves that a daemon runs, and [`super::ReachedDaemon`] proves which process it is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{lock, socket};
use tool_core::api::{self, ErrorKind, Problem, Timestamp};
use tool_sandbox::start_ticks;

/// Identity and address of a daemon: the content of `backend.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    /// Pid of the process.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot. Together with the pid it identifies the process.
    pub start_ticks: u64,
    /// Address that the daemon listens on.
    #[serde(default = "loopback_address")]
    pub address: IpAddr,
    /// Port that the daemon listens on; 0 if there is none.
    pub port: u16,
    /// Version of the binary.
    pub version: String,
    /// Time of the start.
    pub started: Timestamp,
    /// True once the daemon is about to end. It accepts no new work, and the lock is free when it is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
}

fn loopback_address() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

impl DaemonRecord {
    pub(super) fn of_this_process(listening: SocketAddr, version: String) -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_ticks: start_ticks(pid).unwrap_or_default(),
            address: listening.ip(),
            port: listening.port(),
            version,
            started: api::current_time(),
            stopping: false,
        }
    }

    /// True if other machines can reach the daemon.
    pub fn is_exposed(&self) -> bool {
        !self.address.is_loopback()
    }

    /// True if the process of this record exists, and is the one that wrote it.
    pub(super) fn is_alive(&self) -> bool {
        !cfg!(target_os = "linux") || start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// Finds the daemon of this home, if one runs and has written its record.
pub fn find_daemon(home: &Path) -> Option<DaemonRecord> {
    if !lock::is_held(home) {
        return None;
    }
    let record: DaemonRecord = serde_json::from_slice(&fs::read(record_path(home)).ok()?).ok()?;
    // A record of a dead process remained after a crash; the present holder of the lock has not written its own yet.
    record.is_alive().then_some(record)
}

/// True if the daemon of this record has ended by itself or is about to. A killed daemon leaves its record unchanged.
pub fn has_left(home: &Path, record: &DaemonRecord) -> bool {
    match fs::read(record_path(home)) {
        Ok(text) => serde_json::from_slice(&text).is_ok_and(|now: DaemonRecord| {
            now.stopping || (now.pid, now.start_ticks) != (record.pid, record.start_ticks)
        }),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn record_path(home: &Path) -> PathBuf {
    home.join("backend.json")
}

fn pid_path(home: &Path) -> PathBuf {
    home.join("backend.pid")
}

/// Path of the token, which authenticates the user to the daemon over TCP.
pub fn token_path(home: &Path) -> PathBuf {
    home.join("token")
}

/// Reads the token of this home, and creates it at first use: 32 random bytes, hexadecimal. A token that other users
/// may have read, for example in a copied home, is replaced.
pub(super) fn read_or_make_token(home: &Path) -> io::Result<String> {
    let place = token_path(home);
    match read_token(home) {
        Ok(token) if is_private(&place) => return Ok(token),
        Ok(_) => tracing::warn!(path = %place.display(), "others could read the token: there is a new one"),
        Err(_) => {}
    }
    let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    write_whole(&place, token.as_bytes())?;
    Ok(token)
}

fn is_private(place: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    fs::metadata(place).is_ok_and(|metadata| metadata.uid() == us && metadata.mode() & 0o077 == 0)
}

/// Reads the token; an empty file counts as missing.
fn read_token(home: &Path) -> io::Result<String> {
    let token = fs::read_to_string(token_path(home))?.trim().to_owned();
    if token.is_empty() {
        Err(io::ErrorKind::NotFound.into())
    } else {
        Ok(token)
    }
}

pub(super) fn publish_record(home: &Path, record: &DaemonRecord) -> io::Result<()> {
    write_whole(&record_path(home), &serde_json::to_vec(record)?)?;
    write_whole(&pid_path(home), record.pid.to_string().as_bytes())
}

/// Removes the files of [`publish_record`] and the socket. A file that cannot be removed is stale; readers check the lock.
pub(super) fn withdraw_record(home: &Path) {
    for place in [record_path(home), pid_path(home), socket::socket_path(home)] {
        if let Err(error) = fs::remove_file(&place)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %place.display(), %error, "could not remove");
        }
    }
}

/// Writes a private file in one step: a reader sees the old or the new content.
fn write_whole(place: &Path, content: &[u8]) -> io::Result<()> {
    let folder = place.parent().expect("a state file lies in a folder");
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.persist(place)?;
    Ok(())
}

pub(super) fn private_folder(place: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(place)
}

pub(super) fn open_private(place: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(place)
}

/// The problem with a start that failed because of a file in the home.
pub(super) fn start_failure(what: &str, home: &Path, error: &io::Error) -> Problem {
    let mut hint = format!("{what} `{}` could not be used: {error}", home.display());
    if tool_config::is_unwritable(error) {
        hint = format!("{hint}; {}", tool_config::SET_HOME);
    }
    Problem::new(ErrorKind::StartFailed, "Failed to start backend service").with_hint(hint)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::daemon) fn record() -> DaemonRecord {
        let listening = SocketAddr::new(loopback_address(), 1);
        DaemonRecord::of_this_process(listening, "0.0.1".to_owned())
    }

    #[test]
    fn a_record_counts_only_while_its_process_holds_the_lock() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let record = record();
        publish_record(home.path(), &record).expect("the folder is writable");
        assert_eq!(find_daemon(home.path()), None, "nobody holds the lock");
        let held = lock::acquire_lock(home.path()).expect("the lock is free");
        assert_eq!(find_daemon(home.path()), Some(record.clone()));
        let stale = DaemonRecord {
            start_ticks: record.start_ticks + 1,
            ..record
        };
        publish_record(home.path(), &stale).expect("the folder is writable");
        assert_eq!(find_daemon(home.path()), None, "the record is of another process");
        drop(held);
    }

    #[test]
    fn a_daemon_that_leaves_is_told_from_one_that_was_killed() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let record = record();
        assert!(has_left(home.path(), &record), "an orderly end takes its record along");
        publish_record(home.path(), &record).expect("the folder is writable");
        assert!(!has_left(home.path(), &record), "a crash leaves its record as it was");
        let stopping = DaemonRecord {
            stopping: true,
            ..record.clone()
        };
        publish_record(home.path(), &stopping).expect("the folder is writable");
        assert!(has_left(home.path(), &record));
        let next = DaemonRecord {
            pid: record.pid + 1,
            ..record.clone()
        };
        publish_record(home.path(), &next).expect("the folder is writable");
        assert!(has_left(home.path(), &record), "another one is there");
    }

    #[test]
    fn a_record_of_an_older_version_is_on_loopback() {
        let text = r#"{"pid":1,"start_ticks":2,"port":8000,"version":"0.0.1","started":"2026-01-01T00:00:00Z"}"#;
        let record: DaemonRecord = serde_json::from_str(text).expect("it is a record");
        assert!(!record.is_exposed() && !record.stopping);
    }

    #[test]
    fn a_daemon_is_exposed_unless_it_listens_on_loopback() {
        let is_exposed = |address: &str| {
            let record = DaemonRecord {
                address: address.parse().expect("an address"),
                ..record()
            };
            record.is_exposed()
        };
        assert!(["0.0.0.0", "::", "192.0.2.7"].into_iter().all(is_exposed));
        assert!(!["127.0.0.2", "::1"].into_iter().any(is_exposed));
    }

    #[test]
    fn the_token_is_made_once_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a temporary folder");
        let first = read_or_make_token(home.path()).expect("the folder is writable");
        assert_eq!(first.len(), 64);
        assert_eq!(read_or_make_token(home.path()).expect("it is there"), first);
        let mode = fs::metadata(token_path(home.path()))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_token_that_others_may_have_read_is_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a temporary folder");
        let first = read_or_make_token(home.path()).expect("the folder is writable");
        for mode in [0o644, 0o640, 0o604, 0o620] {
            let lax = fs::Permissions::from_mode(mode);
            fs::set_permissions(token_path(home.path()), lax).expect("it is ours");
            let next = read_or_make_token(home.path()).expect("the folder is writable");
            assert_ne!(next, first, "{mode:o}");
            assert_eq!(
                read_or_make_token(home.path()).expect("it is there"),
                next,
                "it is private now"
            );
        }
    }
}
