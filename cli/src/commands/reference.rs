//! The help of every command as Markdown: what `scripts/reference` puts into the README, and what tests compare.

use std::process::ExitCode;

use clap::{Command, CommandFactory};

use crate::args::Arguments;
use crate::error::Error;
use crate::output::Output;

/// Columns of the help texts, as in a pipe.
const COLUMNS: usize = 100;

/// Prints the help of every command that is not hidden, in the order of `tool --help`.
pub(crate) fn run(output: Output) -> Result<ExitCode, Error> {
    let mut command = Arguments::command().term_width(COLUMNS);
    command.build();
    let mut text = String::new();
    describe(&mut command, "tool", &mut text);
    output.answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(command: &mut Command, path: &str, text: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!("#### `{path}`\n\n```text\n{}\n```\n\n", lines.join("\n")));
    for child in command.get_subcommands_mut() {
        if !child.is_hide_set() && child.get_name() != "help" {
            let path = format!("{path} {}", child.get_name());
            describe(child, &path, text);
        }
    }
}
