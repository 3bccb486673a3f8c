//! The listening socket, and what to say where its port is somebody else's.

use std::fs;
use std::io;
use std::net::SocketAddr;

use crate::api::Problem;
use crate::http;

/// Listens, or says why not.
pub(super) async fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener, Problem> {
    let bound = tokio::net::TcpListener::bind(address).await;
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => taken(address.port()),
        io::ErrorKind::AddrNotAvailable => failure(format!(
            "this machine has no address {}: mend `address` of [server] in config.toml",
            address.ip()
        )),
        _ => failure(format!("port {} could not be bound: {error}", address.port())),
    })
}

fn failure(hint: String) -> Problem {
    Problem::new("start-failed", "Failed to start backend service").with_hint(hint)
}

/// What to say of a port that somebody holds.
fn taken(port: u16) -> Problem {
    Problem::new(
        "port-in-use",
        format!("Failed to start backend: Port {port} already in use"),
    )
    .with_hint(taken_hint(port))
}

/// Who holds a port, as far as the kernel tells, and what helps.
pub fn taken_hint(port: u16) -> String {
    let us = rustix::process::geteuid().as_raw();
    match http::listener_of(port) {
        Some(uid) if uid == us => match holder(port) {
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

/// The process of ours that listens on a port, as `process 12 (python3)`.
fn holder(port: u16) -> Option<String> {
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
    // A process may give itself any name.
    let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
    Some(format!("process {pid} ({name})"))
}

/// The socket that listens on a port, out of one of the kernel's tables.
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

    #[test]
    fn the_process_behind_a_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let hint = taken_hint(port);
        assert!(hint.contains(&format!("process {} (", std::process::id())), "{hint}");
        drop(listener);
        assert_eq!(holder(port), None);
    }
}
