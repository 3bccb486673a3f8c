//! `backend.sock`: the Unix socket in the home over which the command line talks to the daemon.
//!
//! It is for the owner alone: its file has mode 0600, and both sides ask the kernel which user is at the other end
//! (`SO_PEERCRED`) before they send or read anything. The server's check is in `http`. Only the holder of
//! `backend.lock` creates, replaces or removes the socket.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tokio::net::{UnixListener, UnixStream};

use super::state::DaemonRecord;
use crate::http::is_own_user;

const NAME: &str = "backend.sock";

/// Bytes of a path that the address of a Unix socket holds, with the zero at its end.
const ADDRESS_BYTES_MAX: usize = if cfg!(target_os = "linux") { 108 } else { 104 };

/// Connections that the kernel keeps until they are accepted. It lowers the number to `net.core.somaxconn`.
#[cfg(target_os = "linux")]
const CONNECTION_QUEUE_MAX: i32 = 1024;

/// Pause before the next attempt to connect, if the server's queue of connections is full.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// Path of the socket of a home.
pub fn socket_path(home: &Path) -> PathBuf {
    home.join(NAME)
}

/// A path to the socket that fits into a socket address.
struct SocketAddress {
    path: PathBuf,
    /// Handle of the home. If the real path is too long, the address goes through this handle.
    _folder: Option<OwnedFd>,
}

impl SocketAddress {
    fn new(home: &Path) -> io::Result<Self> {
        let path = socket_path(home);
        if path.as_os_str().len() < ADDRESS_BYTES_MAX {
            return Ok(Self { path, _folder: None });
        }
        let folder = rustix::fs::open(
            home,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()));
        Ok(Self {
            path,
            _folder: Some(folder),
        })
    }
}

/// Listens on the socket of a home whose lock this process holds. Replaces the socket of a killed daemon.
pub(super) fn listen_on_socket(home: &Path) -> io::Result<UnixListener> {
    let address = SocketAddress::new(home)?;
    if let Err(error) = fs::remove_file(&address.path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let listener = bind_private(&address.path)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Binds a socket whose file has mode 0600 from the start. Linux takes the mode from the socket itself, so no path is
/// followed a second time.
#[cfg(target_os = "linux")]
fn bind_private(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, CONNECTION_QUEUE_MAX)?;
    Ok(socket.into())
}

/// Binds a socket, and sets the mode of its file. Only the owner may write to the home, so the path still leads to
/// the socket. The user of a client that connects before is checked as well.
#[cfg(not(target_os = "linux"))]
fn bind_private(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Reason why a client could not connect to a daemon.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket does not exist, or no process listens on it.
    #[error("Connection refused")]
    Refused(#[source] io::Error),
    /// Another user's process listens on the socket. Nothing was sent.
    #[error("`{}` is served by another user (uid {uid})", path.display())]
    OtherUser {
        /// Path of the socket.
        path: PathBuf,
        /// Uid of the process that listens.
        uid: u32,
    },
    /// A process of this user that the record does not name listens on the socket. Nothing was sent.
    #[error("`{}` is served by another process than the backend (process {found}, not {expected})", path.display())]
    OtherProcess {
        /// Path of the socket.
        path: PathBuf,
        /// Pid of the process that listens.
        found: i32,
        /// Pid in the record.
        expected: u32,
    },
}

/// A daemon that a client has connected to: a process of this user that the record names. Only such a process gets
/// signals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachedDaemon {
    home: PathBuf,
    record: DaemonRecord,
}

impl ReachedDaemon {
    /// The daemon's own description.
    pub fn record(&self) -> &DaemonRecord {
        &self.record
    }

    /// The home that the daemon serves.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Opens another connection to the same daemon.
    ///
    /// # Errors
    ///
    /// As [`connect_to_daemon`].
    pub async fn connect(&self) -> Result<UnixStream, ConnectError> {
        connect_to_daemon(&self.home, &self.record)
            .await
            .map(|(stream, _)| stream)
    }
}

/// Connects to the daemon of a record. Waits while its queue of connections is full, so callers need a time-out.
///
/// # Errors
///
/// No process listens, or the process that listens is not the daemon of the record.
pub async fn connect_to_daemon(
    home: &Path,
    record: &DaemonRecord,
) -> Result<(UnixStream, ReachedDaemon), ConnectError> {
    let address = SocketAddress::new(home).map_err(ConnectError::Refused)?;
    let stream = loop {
        match UnixStream::connect(&address.path).await {
            Ok(stream) => break stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(FULL_QUEUE_PAUSE).await,
            Err(error) => return Err(ConnectError::Refused(error)),
        }
    };
    check_server(&stream, home, record)?;
    let reached = ReachedDaemon {
        home: home.to_owned(),
        record: record.clone(),
    };
    Ok((stream, reached))
}

/// Checks user and pid of the process that listens. The kernel recorded both when that process began to listen.
fn check_server(stream: &UnixStream, home: &Path, record: &DaemonRecord) -> Result<(), ConnectError> {
    let server = stream.peer_cred().map_err(ConnectError::Refused)?;
    if !is_own_user(server.uid()) {
        return Err(ConnectError::OtherUser {
            path: socket_path(home),
            uid: server.uid(),
        });
    }
    match server.pid() {
        Some(found) if u32::try_from(found) != Ok(record.pid) => Err(ConnectError::OtherProcess {
            path: socket_path(home),
            found,
            expected: record.pid,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};

    use super::super::state::tests::record;
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_the_owner_alone_and_replaces_a_stale_one() {
        let home = tempfile::tempdir().expect("a temporary folder");
        drop(listen_on_socket(home.path()).expect("the folder is writable"));
        assert!(socket_path(home.path()).exists(), "a killed daemon leaves it");
        let refused = connect_to_daemon(home.path(), &record()).await.expect_err("it is dead");
        assert!(matches!(refused, ConnectError::Refused(_)), "{refused}");
        let _listener = listen_on_socket(home.path()).expect("it is replaced");
        let file = fs::metadata(socket_path(home.path())).expect("it is there");
        assert!(file.file_type().is_socket());
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        connect_to_daemon(home.path(), &record())
            .await
            .expect("this process listens");
    }

    #[tokio::test]
    async fn a_missing_socket_refuses_connections() {
        let home = tempfile::tempdir().expect("a temporary folder");
        for home in [home.path().to_owned(), home.path().join("missing")] {
            let refused = connect_to_daemon(&home, &record()).await.expect_err("it is missing");
            assert_eq!(refused.to_string(), "Connection refused");
        }
    }

    #[tokio::test]
    async fn a_home_with_a_path_beyond_the_address_length_has_a_socket() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for length in [90, 107, 108, 109, 150, 250] {
            let home = folder.path().join("x".repeat(length.min(250)));
            fs::create_dir(&home).expect("the folder is writable");
            let _listener = listen_on_socket(&home).expect("it fits in some way");
            assert!(socket_path(&home).exists(), "{length}");
            connect_to_daemon(&home, &record()).await.expect("this process listens");
        }
    }

    #[tokio::test]
    async fn a_process_that_the_record_does_not_name_is_refused() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let _listener = listen_on_socket(home.path()).expect("the folder is writable");
        let other = DaemonRecord {
            pid: record().pid + 1,
            ..record()
        };
        let refused = connect_to_daemon(home.path(), &other)
            .await
            .expect_err("it is this process");
        assert!(matches!(refused, ConnectError::OtherProcess { .. }), "{refused}");
    }
}
