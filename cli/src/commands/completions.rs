//! `tool completions`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::CliArguments;
use crate::error::Error;
use crate::output::CommandOutput;

/// Prints the completion script of a shell.
pub(crate) fn print_completions(shell: Shell, output: CommandOutput) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArguments::command(), "tool", &mut script);
    output.answer(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
