//! What the command line says when its arguments make no sense: the same `[error]` and `hint:` as everything else.

use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;
use host::api::Problem;
use host::config::nearest;

use crate::args::Arguments;
use crate::error::{Error, USAGE};
use crate::output::Output;

/// Prints what clap has to say: help and version as they are, a mistake as an error.
pub(crate) fn explain(error: &clap::Error, output: Output) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match print(error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(closed) => closed.exit_code(),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output.problem(&Problem::new("usage", "A command is missing"));
            output.ask(&format!("\n{}", error.render()));
            ExitCode::from(USAGE)
        }
        _ => {
            let problem = problem(&error.render().to_string());
            output.problem(&match meant(&problem) {
                Some(name) => problem.with_hint(format!("did you mean `{name}`?")),
                None => problem,
            });
            ExitCode::from(USAGE)
        }
    }
}

/// The command that was meant, where clap names none: it does so everywhere but behind `help`.
fn meant(problem: &Problem) -> Option<String> {
    let unknown = problem
        .message
        .strip_prefix("unrecognized subcommand '")?
        .strip_suffix('\'')?;
    if problem
        .hint
        .as_ref()
        .is_some_and(|hint| hint.contains("similar subcommand"))
    {
        return None;
    }
    let command = Arguments::command();
    let known = command.get_subcommands().filter(|known| !known.is_hide_set());
    let name = nearest(unknown, known.map(clap::Command::get_name))?;
    Some(name.to_owned())
}

/// clap colours its help by what it finds out about the terminal itself.
fn print(error: &clap::Error) -> Result<(), Error> {
    error.print().map_err(|_| Error::OutputClosed)
}

/// clap's message, tips and usage in our form.
fn problem(text: &str) -> Problem {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let paragraphs: Vec<&str> = text
        .split("\n\n")
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    let message = paragraphs.first().copied().unwrap_or("The arguments make no sense");
    let mut hints = Vec::new();
    for paragraph in paragraphs.iter().skip(1) {
        for line in paragraph.lines().map(str::trim) {
            if let Some(tip) = line.strip_prefix("tip: ") {
                hints.push(tip.to_owned());
            } else if let Some(usage) = line.strip_prefix("Usage: ") {
                hints.push(format!("the usage is `{usage}`"));
            }
        }
    }
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    let problem = Problem::new("usage", lines.join(" "));
    match hints.is_empty() {
        true => problem.with_hint("`tool --help` lists the commands"),
        false => problem.with_hint(hints.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tips_and_usage_become_the_hint() {
        let text = "error: unexpected argument '--jsom' found\n\n  tip: a similar argument exists: '--json'\n\n\
                    Usage: tool explain --json <FILE_OR_DIRECTORY>\n\nFor more information, try '--help'.\n";
        let problem = problem(text);
        assert_eq!(problem.message, "unexpected argument '--jsom' found");
        assert_eq!(
            problem.hint.as_deref(),
            Some("a similar argument exists: '--json'; the usage is `tool explain --json <FILE_OR_DIRECTORY>`")
        );
    }
}
