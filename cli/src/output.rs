//! Output to the terminal: the answer on standard output, everything else on standard error.
//!
//! Control characters are removed from text of a model or a repository: it must not move the cursor, change colours or
//! ring the bell, on a terminal or in a file that is later shown on one.

mod answer;
mod clean;
mod diff;
mod file;
mod job_log;
mod markdown;
mod narrow;
mod status;

use std::io::{self, IsTerminal, Write};

use tool_config::Environment;
use tool_core::api::{ErrorKind, Problem};

use crate::error::Error;

pub(crate) use answer::AnswerWriter;
pub(crate) use clean::clean_output;
pub(crate) use file::AnswerFile;
pub(crate) use job_log::{Annotation, AnnotationLevel, without_commands};
use markdown::{Markdown, Terminal};
pub(crate) use status::{StatusLine, TICK};

#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandOutput {
    quiet: bool,
    /// One line for each step, also on a terminal.
    verbose: bool,
    colour: bool,
    /// True if standard error is a terminal with cursor movement.
    moves: bool,
    /// The terminal on standard output, if it supports styles.
    terminal: Option<Terminal>,
    /// True if a runner reads commands from standard error.
    is_job_log: bool,
}

/// Variables of runners that read commands from a step's output.
const RUNNERS: [&str; 3] = ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"];

/// Columns of a terminal that does not report them.
const COLUMNS: usize = 80;

impl CommandOutput {
    /// With `quiet`, standard error shows errors only. Colours are for terminals, unless the user disables them
    /// (`NO_COLOR`).
    pub(crate) fn new(quiet: bool, verbose: bool, environment: &Environment) -> Self {
        let wanted = environment.get("NO_COLOR").is_none();
        let capable = environment.get("TERM").is_some_and(|terminal| terminal != "dumb");
        let moves = capable && io::stderr().is_terminal();
        let shows = capable && io::stdout().is_terminal();
        Self {
            quiet,
            verbose,
            colour: wanted && moves,
            moves,
            terminal: shows.then(|| Terminal {
                width: terminal_columns(),
                colour: wanted,
            }),
            is_job_log: RUNNERS.iter().any(|name| environment.get(name).is_some()),
        }
    }

    /// True if the user can be asked: they see the question and can type.
    pub(crate) fn can_ask() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Columns of the terminal on standard output; `None` if it is not a terminal.
    pub(crate) fn columns(self) -> Option<usize> {
        self.terminal.map(|terminal| terminal.width)
    }

    /// Lines for the log of a job, on standard output. No line is a command to a runner.
    pub(crate) fn job_log(self, text: &str) -> Result<(), Error> {
        write_out(&without_commands(&clean_output(text)))
    }

    /// A workflow command of this program.
    pub(crate) fn annotate(self, annotation: &Annotation) -> Result<(), Error> {
        write_out(&format!("{annotation}\n"))
    }

    /// Prints a piece of the answer at once.
    pub(crate) fn answer(self, text: &str) -> Result<(), Error> {
        write_out(&clean_output(text))
    }

    pub(crate) fn line(self, text: &str) -> Result<(), Error> {
        self.answer(&format!("{text}\n"))
    }

    /// True if only the answer and errors are wanted.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// A whole Markdown text: rendered on a terminal, unchanged elsewhere.
    pub(crate) fn markdown(self, text: &str) -> Result<(), Error> {
        let mut answer = AnswerWriter::on_standard_output(self);
        answer.piece(text)?;
        answer.end()
    }

    /// A line of a check: `ok    name            detail`.
    pub(crate) fn verdict(self, verdict: &str, name: &str, detail: &str) -> Result<(), Error> {
        let coloured = self.terminal.is_some_and(|terminal| terminal.colour);
        let colour = match verdict {
            "ok" => "32",
            "warn" => "33",
            _ => "31",
        };
        let (before, after) = if coloured {
            (format!("\x1b[{colour}m"), "\x1b[0m")
        } else {
            (String::new(), "")
        };
        let rest = clean_output(&format!("{name:15} {detail}"));
        write_out(&format!("{before}{verdict:5}{after} {rest}\n"))
    }

    /// Prints a line of progress. A file's name may hold a newline, and must not forge a second line.
    pub(crate) fn progress(self, text: &str) {
        if !self.quiet {
            self.error_line(&self.dim(&self.folded(&text.replace(['\n', '\t'], " "))));
        }
    }

    /// A line about one step of many. A terminal has the status line instead, unless the user wants every step.
    pub(crate) fn step(self, text: &str) {
        if self.verbose || !self.moves {
            self.progress(text);
        }
    }

    /// A line that the user should not miss, although nothing failed.
    pub(crate) fn notice(self, message: &str, hint: Option<&str>) {
        if !self.quiet {
            self.error_line(&clean_output(&self.folded(&indent_lines(message))));
            hint.into_iter().for_each(|hint| self.hint(hint));
        }
    }

    /// A question or a part of it; printed even in quiet mode.
    pub(crate) fn ask(self, text: &str) {
        let mut stderr = io::stderr().lock();
        // Without standard error the user cannot be asked; the missing answer is a no.
        let text = clean_output(&self.folded(text));
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// `[error] <message>`, and the hint.
    pub(crate) fn problem(self, problem: &Problem) {
        self.marked(&self.label("[error]", "31"), problem);
    }

    /// `[warning] <message>`, and the hint: nothing has failed.
    pub(crate) fn warning(self, problem: &Problem) {
        if !self.quiet {
            self.marked(&self.label("[warning]", "33"), problem);
        }
    }

    fn marked(self, label: &str, problem: &Problem) {
        let message = self.folded(&indent_lines(&clean_output(&problem.message)));
        self.error_line(&format!("{label} {message}"));
        problem.hint.iter().for_each(|hint| self.hint(hint));
    }

    fn label(self, label: &str, colour: &str) -> String {
        if self.colour {
            format!("\x1b[{colour}m{label}\x1b[0m")
        } else {
            label.to_owned()
        }
    }

    /// A line with the hint for the error above it.
    pub(crate) fn hint(self, hint: &str) {
        self.error_line(&self.dim(&self.folded(&format!("hint: {}", indent_lines(hint)))));
    }

    /// The text for standard error, wrapped if the terminal is narrow.
    fn folded(self, text: &str) -> String {
        if self.moves {
            narrow::fold_lines(text, terminal_columns())
        } else {
            text.to_owned()
        }
    }

    fn dim(self, text: &str) -> String {
        let text = clean_output(text);
        if self.colour {
            format!("\x1b[2m{text}\x1b[0m")
        } else {
            text
        }
    }

    fn error_line(self, text: &str) {
        let written = if self.is_job_log {
            writeln!(io::stderr().lock(), "{}", without_commands(text))
        } else {
            writeln!(io::stderr().lock(), "{text}")
        };
        // A closed standard error cannot be reported anywhere.
        let _ = written;
    }
}

/// Indents all lines after the first, so that none of them looks like a separate message.
fn indent_lines(text: &str) -> String {
    let mut lines = text.trim_end().split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| match line {
        "" => text + "\n",
        line if line.starts_with("  ") => text + "\n" + line,
        line => text + "\n  " + line,
    })
}

fn terminal_columns() -> usize {
    let size = terminal_size::terminal_size();
    let told = size.map(|(terminal_size::Width(columns), _)| columns.into());
    told.filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

fn write_out(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::OutputClosed,
        _ => Error::new(
            ErrorKind::Output,
            format!("Standard output could not be written: {error}"),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::indent_lines;

    #[test]
    fn no_further_line_of_a_message_stands_at_the_margin() {
        assert_eq!(indent_lines("one"), "one");
        assert_eq!(
            indent_lines("one\n[error] two\n  three\n\nfour\n"),
            "one\n  [error] two\n  three\n\n  four"
        );
    }
}
