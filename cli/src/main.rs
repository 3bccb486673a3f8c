//! The command line of `tool`: parse, run, exit code. The same binary is the daemon.

mod args;
mod builtins;
mod client;
mod commands;
mod error;
mod output;

use std::process::ExitCode;

use clap::Parser;
use host::config::Environment;
use host::process::contain;

use args::Arguments;
use client::Backend;
use commands::Context;
use error::Error;
use output::Output;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let environment = Environment::of_process();
    let output = Output::new(arguments.quiet, environment.get("NO_COLOR").is_none());
    match run(arguments, environment, output) {
        Ok(code) => code,
        Err(error) => {
            if let Error::Problem(problem) = &error {
                output.problem(problem);
            }
            error.exit_code()
        }
    }
}

fn run(arguments: Arguments, environment: Environment, output: Output) -> Result<ExitCode, Error> {
    if let args::Command::Completions { shell } = arguments.command {
        return commands::completions::run(shell, output);
    }
    if let args::Command::Contain { inner } = arguments.command {
        return Ok(contain::helper(inner));
    }
    contain::offer_helper();
    if let args::Command::SandboxProbes { json, fallback } = arguments.command {
        return commands::probes::run(json, fallback, output);
    }
    let backend = Backend::new(environment)?;
    if let args::Command::Daemon { port } = arguments.command {
        return commands::service::daemon(backend, port);
    }
    let context = Context {
        backend,
        output,
        repo: arguments.repo,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new("runtime", format!("The command could not be set up: {error}")))?;
    let result = runtime.block_on(commands::run(arguments.command, &context));
    // A thread that waits for the terminal's next line must not keep an interrupted command alive.
    runtime.shutdown_background();
    result
}
