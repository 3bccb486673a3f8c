//! Errors that end a command early, and their exit codes.

use std::process::ExitCode;

use tool_core::api::{ErrorKind, Problem};

pub(crate) use tool_core::api::{BACKEND, FAILED, USAGE};

/// Interrupted by the user.
pub(crate) const INTERRUPTED: u8 = 130;

#[derive(Debug)]
pub(crate) enum Error {
    Problem(Problem),
    NotRunning,
    /// The user interrupted the command.
    Interrupted,
    /// The reader of the output has gone, so no message reaches it.
    OutputClosed,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Problem(Problem::new(kind, message))
    }

    /// The error for a file of the user. A missing file counts as a misspelt name.
    pub(crate) fn on_file(what: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::Usage,
            _ => ErrorKind::File,
        };
        Self::new(kind, format!("{what} `{}`: {error}", path.display()))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            // A named session or skill that does not exist. A command that searched by itself returns another error.
            Self::Problem(problem) if problem.kind == ErrorKind::NotFound => USAGE,
            Self::Problem(problem) => problem.kind.exit_code(),
            Self::NotRunning => ErrorKind::BackendDown.exit_code(),
            Self::Interrupted => INTERRUPTED,
            // Exit code of a process that SIGPIPE ended, as a shell reports it.
            Self::OutputClosed => 141,
        })
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}
