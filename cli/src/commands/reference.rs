//! The help of every command as Markdown. `scripts/reference` writes it to `cli/reference.md`, and tests compare it.

use std::process::ExitCode;

use clap::{Command, CommandFactory};

use crate::args::CliArguments;
use crate::error::Error;
use crate::output::CommandOutput;

/// Prints the help of every command that is not hidden, in the order of `tool --help`.
pub(crate) fn print_reference(output: CommandOutput) -> Result<ExitCode, Error> {
    let mut text = String::new();
    describe_command(&CliArguments::command(), &["tool"], &mut text);
    output.answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe_command(command: &Command, path: &[&str], text: &mut String) {
    let help = help_text(path);
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!(
        "#### `{}`\n\n```text\n{}\n```\n\n",
        path.join(" "),
        lines.join("\n")
    ));
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        let path: Vec<&str> = path.iter().copied().chain([child.get_name()]).collect();
        describe_command(child, &path, text);
    }
}

/// The `--help` text of a command, as in a pipe.
fn help_text(path: &[&str]) -> String {
    let arguments = path.iter().copied().chain(["--help"]);
    match CliArguments::command()
        .term_width(COLUMNS)
        .try_get_matches_from(arguments)
    {
        Ok(_) => unreachable!("clap ends at `--help`"),
        Err(help) => help.render().to_string(),
    }
}

/// Columns of a help text in a pipe.
const COLUMNS: usize = 100;
