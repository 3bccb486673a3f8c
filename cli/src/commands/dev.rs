//! `tool dev`: a model server that follows a script, on loopback, until it is interrupted.
//!
//! It needs no home and no backend; `tool_model_server` implements the wires.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use tool_core::api::{ErrorKind, Problem};
use tool_model_server::{EXAMPLE, ModelServer, Script};
#[cfg(target_os = "linux")]
use tool_sandbox::program_sandbox::calls;

use super::end_signals::EndSignals;
use crate::args::Dev;
use crate::error::Error;
use crate::output::CommandOutput;

pub(crate) fn run_helper(dev: &Dev, output: CommandOutput) -> Result<ExitCode, Error> {
    match dev {
        Dev::ModelServer {
            script: Some(script),
            port,
            log,
            ..
        } => serve_script(read_script(script)?, *port, *log, output),
        Dev::ModelServer { script: None, .. } => {
            output.answer(EXAMPLE)?;
            Ok(ExitCode::SUCCESS)
        }
        #[cfg(target_os = "linux")]
        Dev::Calls { command } => name_calls(command, output),
    }
}

/// Exits as the program does.
#[cfg(target_os = "linux")]
fn name_calls(command: &[String], output: CommandOutput) -> Result<ExitCode, Error> {
    let (program, arguments) = command.split_first().unzip();
    let tell = |name: &str| output.notice(&format!("refused: {name}"), None);
    let status = calls::run_listing_calls(program.map_or("", String::as_str), arguments.unwrap_or_default(), tell);
    let status = status.map_err(|error| Error::new(ErrorKind::Runtime, format!("`{}`: {error}", command.join(" "))))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn read_script(place: &Path) -> Result<Script, Error> {
    let text = std::fs::read_to_string(place).map_err(|error| {
        Problem::new(
            ErrorKind::ConfigScript,
            format!("Script `{}`: {error}", place.display()),
        )
        .with_hint("`tool dev model-server --example` prints a script that works")
    })?;
    Script::parse(&text).map_err(|problem| {
        let place = place.display();
        let hint = problem.hint.as_ref().map(|hint| format!("{place}, {hint}"));
        Error::Problem(Problem { hint, ..problem })
    })
}

fn serve_script(script: Script, port: u16, log: bool, output: CommandOutput) -> Result<ExitCode, Error> {
    let model = script.models.first().map_or("scripted", String::as_str).to_owned();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let server = ModelServer::start_observed(address, script, move |request, told| {
        if log {
            output.notice(&format!("{} {} -> {told}", request.method, request.path), None);
        }
    });
    let server = server.map_err(|error| not_started(address, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Runtime, format!("The command could not be set up: {error}")))?;
    runtime.block_on(async {
        // Before the address is printed: its reader may end this process at once.
        let mut ending = EndSignals::new()?;
        output.line(&server.root())?;
        output.progress(&format!("Serving the script until interrupted. {HOW}"));
        for line in setup_commands(&server.root(), &model) {
            output.progress(&line);
        }
        ending.asked().await;
        Ok(ExitCode::SUCCESS)
    })
}

const HOW: &str = "To use it, one of:";

/// Commands that configure `tool` for the server, one line for each wire. Any key works.
fn setup_commands(root: &str, model: &str) -> [String; 4] {
    let hosted = |variable: &str, api: &str, path: &str| {
        format!(
            "  export {variable}=scripted; tool init --provider hosted --api {api} --model {model} --url {root}{path}"
        )
    };
    [
        format!("  tool init --provider local --model {model} --url {root}/v1"),
        hosted("HOSTED_API_KEY", "messages", ""),
        hosted("VENDOR_C_API_KEY", "generate-content", ""),
        hosted("VENDOR_B_API_KEY", "responses", "/v1"),
    ]
}

fn not_started(address: SocketAddr, error: &io::Error) -> Error {
    Problem::new(
        ErrorKind::Usage,
        format!("The model server cannot listen on {address}: {error}"),
    )
    .with_hint("`--port 0` takes any free port")
    .into()
}
