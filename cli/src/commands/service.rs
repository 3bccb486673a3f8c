//! `tool service`, and the daemon mode of the binary.

use std::io::{self, Write};
use std::net::{IpAddr, TcpListener};
use std::process::ExitCode;

use host::daemon::{self, Announcement};
use tool_config::ServerSettings;
use tool_core::api::{BackendStatus, ErrorKind, Problem};

use super::{CommandContext, print_json};
use crate::args::Service;
use crate::builtins::{BUILTINS, OUTLINERS};
use crate::client::{Backend, not_running, under_way};
use crate::error::{BACKEND, Error};

pub(crate) async fn run_service(service: &Service, context: &CommandContext) -> Result<ExitCode, Error> {
    match service {
        Service::Start => start_daemon(context).await,
        Service::Stop => {
            if !stop_daemon(context).await? {
                context.output.progress("The backend is not running.");
            }
            Ok(ExitCode::SUCCESS)
        }
        Service::Restart => {
            // A port that is in use should be reported before anything stops.
            check_port(context)?;
            stop_daemon(context).await?;
            start_daemon(context).await
        }
        Service::Status { json } => show_status(*json, context).await,
    }
}

/// Tries the port of the next backend, unless the running one holds it.
fn check_port(context: &CommandContext) -> Result<(), Error> {
    let backend = &context.backend;
    let port = tool_config::backend_port(&backend.home, &backend.environment)?;
    let address = tool_config::load_common(&backend.home, &backend.environment)
        .map_or(ServerSettings::default().address, |common| common.server.address);
    if port == 0 || backend.running()?.is_some_and(|record| record.port == port) {
        return Ok(());
    }
    match TcpListener::bind((address, port)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let hint = format!("{}; the running backend was left as it is", daemon::taken_hint(port));
            let message = format!("Failed to start backend: Port {port} already in use");
            Err(Problem::new(ErrorKind::PortInUse, message).with_hint(hint).into())
        }
        // The start itself reports other errors.
        _ => Ok(()),
    }
}

async fn start_daemon(context: &CommandContext) -> Result<ExitCode, Error> {
    let before = context.backend.running()?.map(|record| record.pid);
    let status: BackendStatus = context.backend.connect_or_start().await?.get("/api/status").await?;
    let what = if before == Some(status.pid) {
        "The backend is already running"
    } else {
        "The backend is running"
    };
    context.output.line(&format!(
        "{what} on {}, process {}.",
        port_in_words(&status),
        status.pid
    ))?;
    let wanted = tool_config::backend_port(&context.backend.home, &context.backend.environment)?;
    if wanted != 0 && wanted != status.port {
        let message = format!(
            "It keeps {}: a running backend does not change to {wanted}.",
            port_in_words(&status)
        );
        context
            .output
            .notice(&message, Some("`tool service restart` takes the new port"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the daemon; false if none was running. Only the process behind the connection is signalled.
async fn stop_daemon(context: &CommandContext) -> Result<bool, Error> {
    if context.backend.running()?.is_none() {
        return daemon::find_lost_daemon(&context.backend.home).map_or(Ok(false), |problem| Err(problem.into()));
    }
    let mut client = context.backend.connect_running().await?;
    let sessions = client.sessions().await?;
    context.backend.stop(&client)?;
    context.output.line(&match sessions {
        0 => "The backend has stopped.".to_owned(),
        many => format!(
            "The backend has stopped, with {}: what there is of them is kept.",
            under_way(many)
        ),
    })?;
    Ok(true)
}

async fn show_status(json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let running = context.backend.running()?;
    if let Some(problem) = daemon::find_lost_daemon(&context.backend.home) {
        return Err(problem.into());
    }
    if running.is_none() {
        context.output.line(if json {
            "{\"status\": \"stopped\"}"
        } else {
            "The backend is not running."
        })?;
        context.output.problem(&not_running());
        return Ok(ExitCode::from(BACKEND));
    }
    let status: BackendStatus = context.backend.connect_running().await?.get("/api/status").await?;
    if json {
        return print_json(&status, context.output);
    }
    context.output.line(&format!(
        "The backend is running on {}{}, process {}, version {}, since {}, {}.",
        port_in_words(&status),
        if is_exposed(&status) {
            format!(" of {}, open to other machines", status.address)
        } else {
            String::new()
        },
        status.pid,
        status.version,
        status.started.format("%Y-%m-%d %H:%M:%S UTC"),
        under_way(status.sessions_running)
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// `port 8000`, or the socket if the backend listens on no port.
pub(super) fn port_in_words(status: &BackendStatus) -> String {
    match status.port {
        0 => "its socket alone".to_owned(),
        port => format!("port {port}"),
    }
}

/// True if other machines can reach the backend. An older backend does not report this, and cannot be reached.
pub(super) fn is_exposed(status: &BackendStatus) -> bool {
    let address: Result<IpAddr, _> = status.address.parse();
    address.is_ok_and(|address| !address.is_loopback())
}

/// The daemon mode: runs until it is stopped. The starting process reads its announcement on standard output.
pub(crate) fn run_daemon(backend: Backend, port: Option<u16>) -> Result<ExitCode, Error> {
    daemon::detach_process();
    let options = daemon::DaemonOptions {
        home: backend.home,
        port,
        environment: backend.environment,
        builtins: BUILTINS,
        outliners: OUTLINERS,
    };
    let result = daemon::run_daemon(options, print_announcement);
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(problem) => {
            print_announcement(&Announcement::Failed(problem.clone()));
            Err(problem.into())
        }
    }
}

/// Prints the line that the starting process waits for. That process may have given up by now, which is not a reason to
/// end.
fn print_announcement(announcement: &Announcement) {
    if let Ok(line) = serde_json::to_string(announcement) {
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}
