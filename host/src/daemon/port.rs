//! The listening socket, and what to say where its port is somebody else's.

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
        Some(uid) if uid == us => format!(
            "free the port (a process of yours holds it, perhaps a backend of another TOOL_HOME), or {OTHER_PORT}"
        ),
        Some(uid) => format!("only another user (uid {uid}) can free the port: {OTHER_PORT}"),
        None => format!("free the port (a backend of another TOOL_HOME may hold it), or {OTHER_PORT}"),
    }
}

const OTHER_PORT: &str = "choose another with TOOL_BACKEND_PORT (0 takes any free one)";
