//! `tool mcp`: a bridge between another agent's standard streams and the daemon, and the agent's configuration.
//!
//! Lines are copied unread: the daemon is the server. Standard output carries only the protocol.

mod install;

use std::io::{self, BufRead, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tool_core::api::{ConnectRequest, ErrorKind, Overrides, Problem};

use super::{CommandContext, path_text, policy_request};
use crate::args::{Mcp, McpCommand};
use crate::client::{Client, UpgradedStream};
use crate::error::Error;

/// Serves, or prints or writes the configuration of another agent.
pub(super) async fn run_mcp(mcp: &Mcp, context: &CommandContext) -> Result<ExitCode, Error> {
    match &mcp.command {
        Some(McpCommand::Install(install)) => {
            let root = find_root(install.root.as_deref(), context)?;
            install::install_client(install, &root, context)
        }
        None => serve_stdio(mcp, context).await,
    }
}

fn find_root(named: Option<&Path>, context: &CommandContext) -> Result<PathBuf, Error> {
    let Some(named) = named else {
        return Ok(context.places()?.0);
    };
    let root = std::path::absolute(named).map_err(|error| Error::on_file("Repository", named, &error))?;
    if root.is_dir() {
        Ok(root)
    } else {
        Err(Error::new(
            ErrorKind::Usage,
            format!("Not a directory: {}", named.display()),
        ))
    }
}

async fn serve_stdio(mcp: &Mcp, context: &CommandContext) -> Result<ExitCode, Error> {
    let request = ConnectRequest {
        repo_path: path_text(&find_root(mcp.root.as_deref(), context)?)?,
        policy: policy_request(&mcp.policy),
        overrides: Overrides(context.backend.forwarded()),
        structured: mcp.structured,
        operations: mcp.operation.clone(),
    };
    let (client, connection) = context
        .backend
        .connect_and_upgrade("/api/mcp/connect", "tool-mcp", &request)
        .await?;
    bridge_streams(connection, &client).await
}

/// Copies both ways until standard input ends, and then the remaining answers. Each direction has a thread: every
/// message passes here twice, and an async runtime would wake one more thread each time.
async fn bridge_streams(connection: UpgradedStream, client: &Client) -> Result<ExitCode, Error> {
    let UpgradedStream { stream, received } = connection;
    let outgoing = stream
        .try_clone()
        .map_err(|error| Error::new(ErrorKind::Mcp, error.to_string()))?;
    let has_ended = Arc::new(AtomicBool::new(false));
    let input_ended = Arc::clone(&has_ended);
    let sending = tokio::task::spawn_blocking(move || copy_stdin(outgoing, &input_ended));
    let mut receiving = tokio::task::spawn_blocking(move || copy_to_stdout(stream, &received));
    let received = tokio::select! {
        received = &mut receiving => received,
        _ = sending => receiving.await,
    };
    match received {
        // Standard input has ended: this is a normal end.
        Ok(Ok(())) if has_ended.load(Ordering::SeqCst) => Ok(ExitCode::SUCCESS),
        received => Err(explain_end(received.ok(), client).await),
    }
}

/// Copies standard input to the daemon. If it fails, the other direction reports the reason.
fn copy_stdin(mut stream: UnixStream, has_ended: &AtomicBool) {
    let mut input = io::stdin().lock();
    while let Ok(read) = input.fill_buf() {
        let taken = read.len();
        if taken == 0 || stream.write_all(read).is_err() {
            has_ended.store(taken == 0, Ordering::SeqCst);
            break;
        }
        input.consume(taken);
    }
    let _ = stream.shutdown(Shutdown::Write);
}

/// The daemon to standard output.
fn copy_to_stdout(mut stream: UnixStream, received: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(received)?;
    let mut piece = vec![0; 64 * 1024];
    loop {
        output.flush()?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => output.write_all(&piece[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The daemon has closed the connection: this is the end, not a failure of the output.
            Err(_) => return Ok(()),
        }
    }
}

/// Error for a connection that the daemon ended.
async fn explain_end(received: Option<io::Result<()>>, client: &Client) -> Error {
    match received {
        Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Error::OutputClosed,
        _ => {
            let cancelled = Problem::new(ErrorKind::Cancelled, "The session of this connection was cancelled")
                .with_hint("let the other agent start `tool mcp` again");
            client.lost_or(cancelled).await
        }
    }
}
