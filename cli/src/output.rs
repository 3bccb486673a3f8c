//! Output to the terminal: the answer on standard output, everything else on standard error.
//!
//! Text from a model or a repository is cleaned of control characters first: it may not move the cursor, change
//! colours or ring bells, on a terminal or in a file that is later shown on one.

mod answer;
mod clean;
mod diff;
mod file;
mod job_log;
mod markdown;
mod narrow;
mod status;

use std::io::{self, IsTerminal, Write};

use host::api::{ErrorKind, Problem};
use host::config::Environment;

use crate::error::Error;

pub(crate) use answer::AnswerWriter;
pub(crate) use clean::clean;
pub(crate) use file::AnswerFile;
pub(crate) use job_log::{Annotation, AnnotationLevel, without_commands};
use markdown::{Markdown, Terminal};
pub(crate) use status::{Status, TICK};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    quiet: bool,
    /// One line for each step, also on a terminal.
    verbose: bool,
    colour: bool,
    /// Standard error is a terminal that understands more than lines.
    moves: bool,
    /// Standard output is such a terminal, and it looks so.
    terminal: Option<Terminal>,
    /// A runner reads commands from standard error.
    is_job_log: bool,
}

/// Variables of runners that read commands from what a step prints.
const RUNNERS: [&str; 3] = ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"];

/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

impl Output {
    /// `quiet` leaves standard error to errors. Colours are for terminals, unless the user wants none (`NO_COLOR`).
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
                width: columns(),
                colour: wanted,
            }),
            is_job_log: RUNNERS.iter().any(|name| environment.get(name).is_some()),
        }
    }

    /// True where the user can be asked: they see the question and can type.
    pub(crate) fn can_ask() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Columns of the terminal on standard output; `None` if it is not a terminal.
    pub(crate) fn columns(self) -> Option<usize> {
        self.terminal.map(|terminal| terminal.width)
    }

    /// Lines for the log of a job, on standard output: none of them is a command to a runner.
    pub(crate) fn job_log(self, text: &str) -> Result<(), Error> {
        write_out(&without_commands(&clean(text)))
    }

    /// A workflow command, which is this program's own.
    pub(crate) fn annotate(self, annotation: &Annotation) -> Result<(), Error> {
        write_out(&format!("{annotation}\n"))
    }

    /// A piece of the answer, at once.
    pub(crate) fn answer(self, text: &str) -> Result<(), Error> {
        write_out(&clean(text))
    }

    pub(crate) fn line(self, text: &str) -> Result<(), Error> {
        self.answer(&format!("{text}\n"))
    }

    /// True where nothing but the answer and errors is wanted.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// A whole text in Markdown: rendered on a terminal, as it is elsewhere.
    pub(crate) fn markdown(self, text: &str) -> Result<(), Error> {
        let mut answer = AnswerWriter::on_standard_output(self);
        answer.piece(text)?;
        answer.end()
    }

    /// A line of an examination: `ok    name            detail`.
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
        let rest = clean(&format!("{name:15} {detail}"));
        write_out(&format!("{before}{verdict:5}{after} {rest}\n"))
    }

    /// Prints a line of progress. A file's name may hold a newline, and must not forge a second line.
    pub(crate) fn progress(self, text: &str) {
        if !self.quiet {
            self.error_line(&self.dim(&self.folded(&text.replace(['\n', '\t'], " "))));
        }
    }

    /// A line about one step of many. A terminal has a line that changes instead, unless the user wants all of them.
    pub(crate) fn step(self, text: &str) {
        if self.verbose || !self.moves {
            self.progress(text);
        }
    }

    /// A line that the user should not miss, though nothing failed.
    pub(crate) fn notice(self, message: &str, hint: Option<&str>) {
        if !self.quiet {
            self.error_line(&clean(&self.folded(&indented(message))));
            hint.into_iter().for_each(|hint| self.hint(hint));
        }
    }

    /// A question or a part of one; shown even where the rest is quiet.
    pub(crate) fn ask(self, text: &str) {
        let mut stderr = io::stderr().lock();
        // Without standard error the user cannot be asked; the answer that never comes is a no.
        let text = clean(&self.folded(text));
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// `[error] <message>` and the hint that mends it.
    pub(crate) fn problem(self, problem: &Problem) {
        self.marked(&self.label("[error]", "31"), problem);
    }

    /// `[warning] <message>` and the hint that mends it: nothing has failed.
    pub(crate) fn warning(self, problem: &Problem) {
        if !self.quiet {
            self.marked(&self.label("[warning]", "33"), problem);
        }
    }

    fn marked(self, label: &str, problem: &Problem) {
        let message = self.folded(&indented(&clean(&problem.message)));
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

    /// A line that says what mends an error; it belongs to the one above it.
    pub(crate) fn hint(self, hint: &str) {
        self.error_line(&self.dim(&self.folded(&format!("hint: {}", indented(hint)))));
    }

    /// The text for standard error, wrapped if the terminal is narrow.
    fn folded(self, text: &str) -> String {
        if self.moves {
            narrow::fold_lines(text, columns())
        } else {
            text.to_owned()
        }
    }

    fn dim(self, text: &str) -> String {
        let text = clean(text);
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
        // Standard error that is gone cannot be reported anywhere.
        let _ = written;
    }
}

/// Indents all lines after the first, so that none of them looks like a separate message.
fn indented(text: &str) -> String {
    let mut lines = text.trim_end().split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| match line {
        "" => text + "\n",
        line if line.starts_with("  ") => text + "\n" + line,
        line => text + "\n  " + line,
    })
}

fn columns() -> usize {
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
    use super::indented;

    #[test]
    fn no_further_line_of_a_message_stands_at_the_margin() {
        assert_eq!(indented("one"), "one");
        assert_eq!(
            indented("one\n[error] two\n  three\n\nfour\n"),
            "one\n  [error] two\n  three\n\n  four"
        );
    }
}
