//! The TCP port: binding, listening, and the message if another process holds it.

use std::fs;
use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use crate::http;
use tool_core::api::{ErrorKind, Problem};

/// Limit for connections in the kernel's queue.
const QUEUE_MAX: u32 = 1024;

/// A bound port that does not listen yet, so that no connection waits for a daemon that is not ready.
pub(super) struct BoundPort {
    socket: TcpSocket,
    address: SocketAddr,
}

pub(super) fn bind_port(address: SocketAddr) -> Result<BoundPort, Problem> {
    let bind = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        // Connections of the previous daemon may not have ended yet.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok(BoundPort { socket, address })
    };
    bind().map_err(|error| bind_problem(address, &error))
}

impl BoundPort {
    /// The address with the bound port.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to listen. Fails if another process bound the same port and listens already.
    pub(super) fn listen(self) -> Result<TcpListener, Problem> {
        self.socket
            .listen(QUEUE_MAX)
            .map_err(|error| bind_problem(self.address, &error))
    }
}

fn bind_problem(address: SocketAddr, error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::AddrInUse => port_taken_problem(address.port()),
        io::ErrorKind::AddrNotAvailable if address.ip().is_loopback() => start_problem(format!(
            "there is no address {}: set the loopback device up (`ip link set lo up`)",
            address.ip()
        )),
        io::ErrorKind::AddrNotAvailable => start_problem(format!(
            "this machine has no address {}: mend `address` of [server] in config.toml",
            address.ip()
        )),
        _ => start_problem(format!("port {} could not be bound: {error}", address.port())),
    }
}

fn start_problem(hint: String) -> Problem {
    Problem::new(ErrorKind::StartFailed, "Failed to start backend service").with_hint(hint)
}

/// The problem with a port that another process holds.
fn port_taken_problem(port: u16) -> Problem {
    Problem::new(
        ErrorKind::PortInUse,
        format!("Failed to start backend: Port {port} already in use"),
    )
    .with_hint(taken_hint(port))
}

/// Hint for a port that is in use: the process that holds it, as far as the kernel reports it, and a remedy.
pub fn taken_hint(port: u16) -> String {
    let us = rustix::process::geteuid().as_raw();
    match http::listener_of(port) {
        Some(uid) if uid == us => match find_port_holder(port) {
            Some(holder) => format!("free the port (a process of yours holds it: {holder}), or {OTHER_PORT}"),
            None => format!(
                "free the port (a process of yours holds it, perhaps a backend of another TOOL_HOME), or {OTHER_PORT}"
            ),
        },
        Some(uid) => format!("only another user (uid {uid}) can free the port: {OTHER_PORT}"),
        None => format!("free the port (a backend of another TOOL_HOME may hold it), or {OTHER_PORT}"),
    }
}

const OTHER_PORT: &str = "choose another: `tool init --port N`, or TOOL_BACKEND_PORT (0 takes any free one)";

/// A process of this user that listens on a port, for example `process 12 (python3)`.
fn find_port_holder(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inode = tables.iter().find_map(|table| listening_inode(table, port))?;
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let is_process = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().is_ok();
    let holds = |process: &fs::DirEntry| {
        let handles = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let mut targets = handles.filter_map(|handle| fs::read_link(handle.path()).ok());
        targets.any(|target| target.as_os_str() == wanted.as_str())
    };
    let process = processes.filter(is_process).find(holds)?;
    let pid = process.file_name().into_string().ok()?;
    let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
    // A process may choose any name.
    let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
    Some(format!("process {pid} ({name})"))
}

/// Inode of the socket that listens on a port, from one of the kernel's tables.
fn listening_inode(table: &str, port: u16) -> Option<&str> {
    const LISTENING: &str = "0A";
    let ends_so = format!(":{port:04X}");
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(3) == Some(&LISTENING) && fields.get(1)?.ends_with(&ends_so);
        is_it.then(|| fields.get(9).copied()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bound_port_accepts_connections_once_it_listens() {
        let bound = bind_port(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        let address = bound.address();
        tokio::net::TcpStream::connect(address)
            .await
            .expect_err("it is not ready");
        let _listener = bound.listen().expect("it is free");
        tokio::net::TcpStream::connect(address).await.expect("it listens");
        let taken = bind_port(address).err().expect("it is taken");
        assert_eq!(
            taken.message,
            format!("Failed to start backend: Port {} already in use", address.port())
        );
    }

    #[tokio::test]
    async fn of_two_processes_that_bind_a_port_only_the_first_can_listen() {
        let first = bind_port(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        // Some kernels refuse to bind a port twice, even when neither socket listens.
        let Ok(second) = bind_port(first.address()) else { return };
        let _listener = first.listen().expect("it is free");
        let taken = second.listen().expect_err("it is taken");
        assert_eq!(taken.kind, ErrorKind::PortInUse);
    }

    #[test]
    fn the_process_behind_a_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let hint = taken_hint(port);
        assert!(hint.contains(&format!("process {} (", std::process::id())), "{hint}");
        drop(listener);
        assert_eq!(find_port_holder(port), None);
    }
}
