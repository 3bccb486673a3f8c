//! Destinations of an answer: rendered to the terminal, unchanged to a pipe, or to a file.

use std::io::IsTerminal;

use super::{AnswerFile, Markdown, Output, write_out};
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct AnswerWriter {
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Terminal(Box<Markdown>),
    Pipe {
        /// True if the written part ends within a line. Progress must not be printed on that line.
        open_line: bool,
        /// True if progress is printed between the pieces: on a terminal without cursor movement, and if both streams
        /// share one file.
        is_shared: bool,
    },
    File(AnswerFile),
}

/// True if both outputs go to the same file or pipe (`2>&1`).
fn is_one_file() -> bool {
    let place = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let (out, errors) = (
        rustix::fs::fstat(std::io::stdout()),
        rustix::fs::fstat(std::io::stderr()),
    );
    out.map(place).is_ok_and(|out| errors.map(place) == Ok(out))
}

impl AnswerWriter {
    /// To standard output, rendered if that is a terminal.
    pub(crate) fn on_standard_output(output: Output) -> Self {
        let sink = match output.terminal {
            Some(terminal) => Sink::Terminal(Box::new(Markdown::new(terminal))),
            None => Sink::Pipe {
                open_line: false,
                is_shared: std::io::stdout().is_terminal() || is_one_file(),
            },
        };
        Self { sink }
    }

    /// To standard output without rendering, for programs.
    pub(crate) fn unrendered() -> Self {
        Self {
            sink: Sink::Pipe {
                open_line: false,
                is_shared: false,
            },
        }
    }

    /// Into a file, which is created at the end.
    pub(crate) fn into_file(file: AnswerFile) -> Self {
        Self { sink: Sink::File(file) }
    }

    pub(crate) fn piece(&mut self, text: &str) -> Result<(), Error> {
        match &mut self.sink {
            Sink::Terminal(markdown) => write_out(&markdown.push(text)),
            Sink::Pipe { open_line, .. } => {
                let text = super::clean(text);
                if let Some(last) = text.chars().next_back() {
                    *open_line = last != '\n';
                }
                write_out(&text)
            }
            Sink::File(file) => {
                file.push(text);
                Ok(())
            }
        }
    }

    /// Shows the text so far, because another event interrupts it.
    pub(crate) fn pause(&mut self) -> Result<(), Error> {
        match &mut self.sink {
            // A tool call ends the current paragraph.
            Sink::Terminal(markdown) => write_out(&markdown.push("\n\n")),
            Sink::Pipe { .. } | Sink::File(_) => self.end_line(),
        }
    }

    /// Ends the line, because the next line is not part of the answer.
    pub(crate) fn end_line(&mut self) -> Result<(), Error> {
        match &mut self.sink {
            Sink::Pipe {
                open_line: open_line @ true,
                is_shared: true,
            } => {
                *open_line = false;
                write_out("\n")
            }
            Sink::Pipe { .. } | Sink::Terminal(_) | Sink::File(_) => Ok(()),
        }
    }

    /// Ends the text, which may be incomplete.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        match &mut self.sink {
            Sink::Terminal(markdown) => write_out(&markdown.finish()),
            Sink::Pipe { open_line, .. } => {
                if std::mem::take(open_line) {
                    write_out("\n")
                } else {
                    Ok(())
                }
            }
            Sink::File(_) => Ok(()),
        }
    }

    /// Ends a complete text, and creates the file.
    pub(crate) fn complete(mut self) -> Result<(), Error> {
        self.end()?;
        match self.sink {
            Sink::File(file) => file.write().map_err(|error| match error {
                Error::Problem(problem) => problem.with_hint("`tool results` shows the answer").into(),
                error => error,
            }),
            Sink::Terminal(_) | Sink::Pipe { .. } => Ok(()),
        }
    }

    /// The file that will not be created, if the answer was to go into one.
    pub(crate) fn unwritten(&self) -> Option<&std::path::Path> {
        match &self.sink {
            Sink::File(file) => Some(file.path()),
            Sink::Terminal(_) | Sink::Pipe { .. } => None,
        }
    }
}
