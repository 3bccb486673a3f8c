//! `tool mcp`: a bridge between another agent's standard input and output and the daemon, and its configuration.
//!
//! Lines are copied both ways and not looked at: the server is the daemon's. Standard output carries the protocol and
//! nothing else.

mod install;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use host::api::{ConnectRequest, Overrides, Problem};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

use super::{Context, path_text, policy};
use crate::args::{Mcp, McpCommand};
use crate::client::Client;
use crate::error::Error;

/// Serves, or says how another agent is told to let us serve.
pub(super) async fn run(mcp: &Mcp, context: &Context) -> Result<ExitCode, Error> {
    match &mcp.command {
        Some(McpCommand::Install(install)) => {
            let root = root(install.root.as_deref(), context)?;
            install::run(install, &root, context)
        }
        None => serve(mcp, context).await,
    }
}

/// The repository to serve.
fn root(named: Option<&Path>, context: &Context) -> Result<PathBuf, Error> {
    let Some(named) = named else {
        return Ok(context.places()?.0);
    };
    let root = std::path::absolute(named).map_err(|error| Error::file("Repository", named, &error))?;
    match root.is_dir() {
        true => Ok(root),
        false => Err(Error::new("usage", format!("Not a directory: {}", named.display()))),
    }
}

async fn serve(mcp: &Mcp, context: &Context) -> Result<ExitCode, Error> {
    let request = ConnectRequest {
        repo_path: path_text(&root(mcp.root.as_deref(), context)?)?,
        policy: policy(&mcp.policy),
        overrides: Overrides(context.backend.environment.forwarded()),
    };
    let (client, connection) = context
        .backend
        .connect_and_upgrade("/api/mcp/connect", "tool-mcp", &request)
        .await?;
    bridge(connection, &client).await
}

/// Copies both ways until standard input ends, and then what is still under way of the answers.
async fn bridge(connection: Upgraded, client: &Client) -> Result<ExitCode, Error> {
    let (mut incoming, mut outgoing) = tokio::io::split(TokioIo::new(connection));
    let sending = async {
        let sent = tokio::io::copy(&mut tokio::io::stdin(), &mut outgoing).await;
        // Where this fails, the other direction knows why.
        let _ = outgoing.shutdown().await;
        sent
    };
    let mut receiving = std::pin::pin!(async {
        let mut output = tokio::io::stdout();
        let received = tokio::io::copy(&mut incoming, &mut output).await;
        output.flush().await.and(received)
    });
    let has_input_ended = tokio::select! {
        sent = sending => sent.is_ok(),
        received = &mut receiving => return Err(ended(received, client).await),
    };
    match receiving.await {
        Ok(_) if has_input_ended => Ok(ExitCode::SUCCESS),
        received => Err(ended(received, client).await),
    }
}

/// What to say where the daemon ended it.
async fn ended(received: std::io::Result<u64>, client: &Client) -> Error {
    match received {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Error::OutputClosed,
        _ => {
            let cancelled = Problem::new("cancelled", "The session of this connection was cancelled")
                .with_hint("let the other agent start `tool mcp` again");
            client.lost_or(cancelled).await
        }
    }
}
