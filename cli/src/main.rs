//! The command line of `tool`: parse, run, exit code. The same binary is the daemon.

mod actions;
mod args;
mod builtins;
mod client;
mod commands;
mod error;
mod output;
mod usage;

use std::process::ExitCode;

use clap::Parser;
use host::daemon;
use tool_config::Environment;
use tool_core::api::ErrorKind;
use tool_sandbox::program_sandbox;

use args::{CliArguments, Command};
use client::Backend;
use client::not_running;
use commands::CommandContext;
use error::Error;
use output::CommandOutput;

/// musl's own allocator makes threads wait for each other.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Two arenas, as with glibc, and freed memory returns to the system within a second.
#[cfg(target_env = "musl")]
#[expect(unsafe_code, reason = "the allocator reads its configuration from this symbol")]
// SAFETY: the allocator declares the symbol as a pointer to a text that ends with a zero byte.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURATION: &std::ffi::c_char = {
    const TEXT: &std::ffi::CStr = c"narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0";
    // SAFETY: a text has a first byte, its zero at least.
    unsafe { &*TEXT.as_ptr() }
};

fn main() -> ExitCode {
    let environment = Environment::of_process();
    let arguments = match CliArguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::print_clap_error(&error, CommandOutput::new(false, false, &environment)),
    };
    let output = CommandOutput::new(arguments.quiet, arguments.verbose, &environment);
    match run_program(arguments, environment, output) {
        Ok(code) => code,
        Err(error) => {
            match &error {
                Error::Problem(problem) => output.problem(problem),
                Error::NotRunning => output.problem(&not_running()),
                Error::Interrupted | Error::OutputClosed => {}
            }
            error.exit_code()
        }
    }
}

fn run_program(arguments: CliArguments, environment: Environment, output: CommandOutput) -> Result<ExitCode, Error> {
    program_sandbox::offer_helper();
    // These commands need no home and no configuration.
    match &arguments.command {
        Command::Contain { nothing: true, .. } => return Ok(ExitCode::SUCCESS),
        Command::Contain { inner, .. } => return Ok(program_sandbox::run_helper(*inner)),
        Command::Confine => return Ok(tool_skill::helper::run_helper()),
        Command::ConfineAttempts => return Ok(tool_proof::helpers::serve_attempts()),
        Command::SandboxProbes(probes) => return commands::sandbox::run_probes(probes, output),
        Command::Doctor {
            sandbox: true, json, ..
        } => return commands::sandbox::run_all_attempts(*json, output),
        Command::Completions { shell } => return commands::completions::print_completions(*shell, output),
        Command::Man { dir } => return commands::man::write_pages(dir.as_deref(), output),
        Command::Reference => return commands::reference::print_reference(output),
        Command::Dev(dev) => return commands::dev::run_helper(dev, output),
        _ => {}
    }
    let backend = Backend::new(environment, output)?;
    if let Command::Daemon { port } = arguments.command {
        return commands::service::run_daemon(backend, port);
    }
    // These two commands report what is wrong with a home, and run no command of its configuration.
    if !matches!(arguments.command, Command::Doctor { .. } | Command::Config { .. }) {
        daemon::check_home(&backend.home)?;
    }
    let context = CommandContext {
        backend,
        output,
        repo: arguments.repo,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Runtime, format!("The command could not be set up: {error}")))?;
    let result = runtime.block_on(commands::run_command(arguments.command, &context));
    // A thread that waits for the next line of the terminal must not keep an interrupted command alive.
    runtime.shutdown_background();
    result
}
