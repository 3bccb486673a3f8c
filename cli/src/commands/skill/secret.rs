//! `tool skill secret` and `tool skill store`: secrets that the user gives to a team's skills, and data that these
//! skills store.

use std::io::{BufRead, IsTerminal, Read};
use std::process::ExitCode;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use tool_core::api::{ErrorKind, HostName, Problem, SecretName};
use tool_skill::BoundSecret;
use tool_skill::secrets::{SecretError, StoredSecrets, check_secret};

use super::{explain_refusal, open_registry};
use crate::args::{SecretCommand, StoreCommand};
use crate::commands::CommandContext;
use crate::error::Error;
use crate::output::CommandOutput;

/// More than a secret may have, so that a longer one is noticed.
const INPUT_BYTES_MAX: u64 = 64 * 1024;

/// Runs a subcommand of `tool skill secret`.
pub(super) fn run_secret_command(command: SecretCommand, context: &CommandContext) -> Result<ExitCode, Error> {
    let home = &context.backend.home;
    let mut stored = StoredSecrets::read(home).map_err(explain_refusal)?;
    match command {
        SecretCommand::Set { name, host, header } => {
            let name: SecretName = parse("name of a secret", &name)?;
            let host: HostName = parse("host", &host)?;
            let value = read_hidden(&name, context.output)?;
            check_secret(&value).map_err(secret_error)?;
            let bound = BoundSecret { host, header, value };
            stored.set(name, bound).map_err(secret_error)?;
            stored.write(home).map_err(explain_refusal)?;
            context.output.line(&format!("Set {name} for {host}."))?;
        }
        SecretCommand::List => {
            for (name, host, header) in stored.entries() {
                context.output.line(&format!("{name}  {host}  {header}"))?;
            }
        }
        SecretCommand::Remove { name } => {
            let name: SecretName = parse("name of a secret", &name)?;
            if !stored.remove(name) {
                let problem = Problem::new(ErrorKind::Usage, format!("There is no secret named `{name}`"));
                return Err(problem.with_hint("`tool skill secret list` lists them").into());
            }
            stored.write(home).map_err(explain_refusal)?;
            context.output.line(&format!("Removed {name}."))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a subcommand of `tool skill store`.
pub(super) fn run_store_command(command: StoreCommand, context: &CommandContext) -> Result<ExitCode, Error> {
    let StoreCommand::Clear { name, all } = command;
    let root = if all { None } else { Some(context.places()?.0) };
    let root = root.map(|root| root.canonicalize().unwrap_or(root));
    let had_values = open_registry(context)?
        .clear_store(&name, root.as_deref())
        .map_err(explain_refusal)?;
    context.output.line(&if had_values {
        format!("Cleared the store of {name}.")
    } else {
        format!("The store of {name} is empty.")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn parse<T: std::str::FromStr<Err = tool_core::api::ArgumentError>>(what: &str, text: &str) -> Result<T, Error> {
    text.parse()
        .map_err(|error| Error::new(ErrorKind::Usage, format!("`{text}` is no {what}: {error}")))
}

fn secret_error(error: SecretError) -> Error {
    Error::new(ErrorKind::Usage, format!("Nothing was set: {error}"))
}

/// Reads a value without echo from a terminal, or else from standard input.
fn read_hidden(name: &SecretName, output: CommandOutput) -> Result<String, Error> {
    let unreadable =
        |error: std::io::Error| Error::new(ErrorKind::Usage, format!("Standard input could not be read: {error}"));
    let stdin = std::io::stdin();
    let mut value = String::new();
    if !stdin.is_terminal() {
        stdin
            .lock()
            .take(INPUT_BYTES_MAX)
            .read_to_string(&mut value)
            .map_err(unreadable)?;
        return Ok(value);
    }
    output.ask(&format!("Value of {name} (it is not shown): "));
    let shown = tcgetattr(&stdin).map_err(|errno| unreadable(errno.into()))?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden).map_err(|errno| unreadable(errno.into()))?;
    let read = stdin.lock().take(INPUT_BYTES_MAX).read_line(&mut value);
    let restored = tcsetattr(&stdin, OptionalActions::Flush, &shown);
    output.ask("\n");
    read.map_err(unreadable)?;
    restored.map_err(|errno| unreadable(errno.into()))?;
    Ok(value)
}
