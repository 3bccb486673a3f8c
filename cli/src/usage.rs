//! Errors for arguments that make no sense, with `[error]` and `hint:` as everywhere else.

use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind as UsageKind};
use tool_core::api::{ErrorKind, Problem};
use tool_core::text::nearest_name;

use crate::args::CliArguments;
use crate::error::{Error, USAGE};
use crate::output::CommandOutput;

/// Prints what clap has to say: help and version as they are, a mistake as an error.
pub(crate) fn print_clap_error(error: &clap::Error, output: CommandOutput) -> ExitCode {
    match error.kind() {
        UsageKind::DisplayHelp | UsageKind::DisplayVersion => match print_usage(error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(closed) => closed.exit_code(),
        },
        UsageKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output.problem(&Problem::new(ErrorKind::Usage, "A command is missing"));
            output.ask(&format!("\n{}", error.render()));
            ExitCode::from(USAGE)
        }
        _ => {
            let asked = std::env::args_os().skip(1);
            let asked: Vec<String> = asked.map(|argument| argument.to_string_lossy().into_owned()).collect();
            let problem = usage_problem(&error.render().to_string(), &command_of(&asked));
            output.problem(&match hint_of_unknown(error).or_else(|| meant_command(&problem)) {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            });
            ExitCode::from(USAGE)
        }
    }
}

/// Commands of other tools, each with what does the same here.
const COMMANDS_OF_OTHERS: [(&[&str], &str); 15] = [
    (
        &["login", "logout", "auth", "setup", "configure"],
        "`tool init` sets the provider and its key",
    ),
    (
        &["update", "upgrade"],
        "`tool skill update` updates skills; a new version of `tool` is a new binary",
    ),
    (
        &["logs", "log"],
        "`tool results` shows what a session did; the backend's log is ~/.tool/logs/backend.log",
    ),
    (
        &["stop", "abort", "kill"],
        "`tool cancel latest` ends the running session, `tool service stop` the backend",
    ),
    (
        &["resume", "chat", "reply"],
        "`tool continue \"…\"` goes on with the newest session; `tool attach` follows a running one",
    ),
    (
        &["start", "serve", "daemon"],
        "`tool service start` starts the backend; every command does that itself",
    ),
    (
        &["status", "ps"],
        "`tool service status` shows the backend, `tool history` the sessions",
    ),
    (
        &["run", "exec", "prompt", "query"],
        "`tool ask \"…\"` answers a question, `tool refactor \"…\"` changes code",
    ),
    (
        &["edit", "fix", "change", "write", "improve"],
        "`tool refactor \"…\"` changes code",
    ),
    (
        &["test", "generate"],
        "`tool test-gen FILE` writes tests for a source file; `tool tests` is about those that you have",
    ),
    (
        &["review", "plan", "design"],
        "`tool architect \"…\"` proposes improvements",
    ),
    (
        &["revert", "rollback", "restore", "reset"],
        "`tool undo` takes back what the newest session changed",
    ),
    (
        &["sessions", "list", "ls"],
        "`tool history` lists sessions, `tool skill list` the skills",
    ),
    (
        &["model", "provider", "providers"],
        "`tool models` lists models and servers, and switches",
    ),
    (
        &["settings", "env"],
        "`tool config` shows the settings; ~/.tool/config.toml holds them",
    ),
];

/// Hint for a command that only other tools have, and for a question without a command.
fn hint_of_unknown(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    // After another subcommand it cannot be the name of another tool's command.
    let is_first = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) == Some(unknown.clone());
    if !is_first {
        return None;
    }
    if unknown.trim().contains(char::is_whitespace) {
        return Some("a question: `tool ask \"…\"`; a task: `tool refactor \"…\"`".to_owned());
    }
    let known = COMMANDS_OF_OTHERS
        .iter()
        .find(|(names, _)| names.contains(&unknown.as_str()));
    known.map(|(_, hint)| (*hint).to_owned())
}

/// The command that was meant, where clap names none: it does so everywhere but behind `help`.
fn meant_command(problem: &Problem) -> Option<String> {
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
    let command = CliArguments::command();
    let known = command.get_subcommands().filter(|known| !known.is_hide_set());
    let name = nearest_name(unknown, known.map(clap::Command::get_name))?;
    Some(format!("did you mean `{name}`?"))
}

/// Prints a usage error or help. clap decides about colours.
fn print_usage(error: &clap::Error) -> Result<(), Error> {
    error.print().map_err(|_| Error::OutputClosed)
}

/// The subcommand that the arguments name, such as `tool skill add`: the hint points to its help.
fn command_of(arguments: &[String]) -> String {
    let mut command = &CliArguments::command();
    let mut name = command.get_name().to_owned();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        // The one option before a command that takes a value, which may be called like a command.
        if argument == "--repo" {
            arguments.next();
        } else if let Some(called) = command.get_subcommands().find(|known| known.get_name() == argument) {
            command = called;
            name = format!("{name} {argument}");
        }
    }
    name
}

/// clap's message, tips and usage in our form; `command` is the one that was called.
fn usage_problem(text: &str, command: &str) -> Problem {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let paragraphs: Vec<&str> = text
        .split("\n\n")
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    let message = paragraphs.first().copied().unwrap_or("The arguments are wrong");
    let mut hints = Vec::new();
    for paragraph in paragraphs.iter().skip(1) {
        for line in paragraph.lines().map(str::trim) {
            if let Some(tip) = line.strip_prefix("tip: ") {
                // A negative number is not a value of any option.
                let is_number = tip
                    .strip_prefix("to pass '-")
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
                hints.extend((!is_number).then(|| tip.to_owned()));
            } else if let Some(usage) = line.strip_prefix("Usage: ") {
                hints.push(format!("the usage is `{usage}`"));
            }
        }
    }
    if message.contains("invalid UTF-8") {
        hints = vec!["names that are not UTF-8 cannot be given; the scan leaves such files out, too".to_owned()];
    }
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    let problem = Problem::new(ErrorKind::Usage, lines.join(" "));
    match hints.is_empty() {
        true if command == "tool" => problem.with_hint("`tool --help` lists the commands"),
        true => problem.with_hint(format!("`{command} --help` shows its arguments")),
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
        let problem = usage_problem(text, "tool explain");
        assert_eq!(problem.message, "unexpected argument '--jsom' found");
        assert_eq!(
            problem.hint.as_deref(),
            Some("a similar argument exists: '--json'; the usage is `tool explain --json <FILE_OR_DIRECTORY>`")
        );
    }

    #[test]
    fn what_clap_says_nothing_about_the_help_of_the_command_does() {
        let text = "error: invalid value 'x' for '--max-steps <N>': invalid digit found in string\n\nFor more \
                    information, try '--help'.\n";
        let hint = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
            usage_problem(text, &command_of(&arguments)).hint.unwrap_or_default()
        };
        assert_eq!(
            hint(&["-q", "explain", ".", "--max-steps", "x"]),
            "`tool explain --help` shows its arguments"
        );
        assert_eq!(
            hint(&["skill", "test", "--x"]),
            "`tool skill test --help` shows its arguments"
        );
        assert_eq!(hint(&["--repo"]), "`tool --help` lists the commands");
    }
}
