//! Destinations of an answer: rendered to the terminal, unchanged to a pipe, or to a file.

use std::io::IsTerminal;

use super::{AnswerFile, CommandOutput, Markdown, write_out};
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct AnswerWriter {
    sink: AnswerSink,
}

#[derive(Debug)]
enum AnswerSink {
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
    pub(crate) fn on_standard_output(output: CommandOutput) -> Self {
        let sink = match output.terminal {
            Some(terminal) => AnswerSink::Terminal(Box::new(Markdown::new(terminal))),
            None => AnswerSink::Pipe {
                open_line: false,
                is_shared: std::io::stdout().is_terminal() || is_one_file(),
            },
        };
        Self { sink }
    }

    /// To standard output without rendering, for programs.
    pub(crate) fn unrendered() -> Self {
        Self {
            sink: AnswerSink::Pipe {
                open_line: false,
                is_shared: false,
            },
        }
    }

    /// Into a file, which is created at the end.
    pub(crate) fn into_file(file: AnswerFile) -> Self {
        Self {
            sink: AnswerSink::File(file),
        }
    }

    pub(crate) fn piece(&mut self, text: &str) -> Result<(), Error> {
        match &mut self.sink {
            AnswerSink::Terminal(markdown) => write_out(&markdown.push(text)),
            AnswerSink::Pipe { open_line, .. } => {
                let text = super::clean_output(text);
                if let Some(last) = text.chars().next_back() {
                    *open_line = last != '\n';
                }
                write_out(&text)
            }
            AnswerSink::File(file) => {
                file.push(text);
                Ok(())
            }
        }
    }

    /// Shows the text so far, because another event interrupts it.
    pub(crate) fn pause(&mut self) -> Result<(), Error> {
        match &mut self.sink {
            // A tool call ends the current paragraph.
            AnswerSink::Terminal(markdown) => write_out(&markdown.push("\n\n")),
            AnswerSink::Pipe { .. } | AnswerSink::File(_) => self.end_line(),
        }
    }

    /// Ends the line, because the next line is not part of the answer.
    pub(crate) fn end_line(&mut self) -> Result<(), Error> {
        match &mut self.sink {
            AnswerSink::Pipe {
                open_line: open_line @ true,
                is_shared: true,
            } => {
                *open_line = false;
                write_out("\n")
            }
            AnswerSink::Pipe { .. } | AnswerSink::Terminal(_) | AnswerSink::File(_) => Ok(()),
        }
    }

    /// Ends the text, which may be incomplete.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        match &mut self.sink {
            AnswerSink::Terminal(markdown) => write_out(&markdown.finish()),
            AnswerSink::Pipe { open_line, .. } => {
                if std::mem::take(open_line) {
                    write_out("\n")
                } else {
                    Ok(())
                }
            }
            AnswerSink::File(_) => Ok(()),
        }
    }

    /// Ends a complete text, and creates the file.
    pub(crate) fn complete(mut self) -> Result<(), Error> {
        self.end()?;
        match self.sink {
            AnswerSink::File(file) => file.write().map_err(|error| match error {
                Error::Problem(problem) => problem.with_hint("`tool results` shows the answer").into(),
                error => error,
            }),
            AnswerSink::Terminal(_) | AnswerSink::Pipe { .. } => Ok(()),
        }
    }

    /// The file that will not be created, if the answer was to go into one.
    pub(crate) fn unwritten(&self) -> Option<&std::path::Path> {
        match &self.sink {
            AnswerSink::File(file) => Some(file.path()),
            AnswerSink::Terminal(_) | AnswerSink::Pipe { .. } => None,
        }
    }
}
