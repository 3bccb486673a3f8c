//! What ends a command early, and the exit code that it means.

use std::process::ExitCode;

use host::api::Problem;

/// Operation failed, denied or incomplete.
pub(crate) const FAILED: u8 = 1;
/// Configuration or usage error.
pub(crate) const USAGE: u8 = 2;
/// Backend not running or not startable.
pub(crate) const BACKEND: u8 = 3;
/// Interrupted by the user.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Error {
    /// Something to tell the user.
    Problem(Problem),
    /// The user interrupted it and knows.
    Interrupted,
    /// The reader of our output has gone; there is nobody to tell.
    OutputClosed,
}

impl Error {
    /// A problem without a hint.
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self::Problem(Problem::new(code, message))
    }

    /// Words for an error on a file of the user's. One that is not there was misspelt.
    pub(crate) fn file(what: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => "usage",
            _ => "file",
        };
        Self::new(code, format!("{what} `{}`: {error}", path.display()))
    }

    /// The exit code of the specification.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            // A session or a skill that was named and is not there. Where one ends so it has looked for something itself.
            Self::Problem(problem) if problem.code == "not-found" => USAGE,
            Self::Problem(problem) => code(&problem.code),
            Self::Interrupted => INTERRUPTED,
            // What a shell reports for a process that SIGPIPE ended.
            Self::OutputClosed => 141,
        })
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// The exit code that a problem's stable code means: what was asked for makes no sense or names what there is not, or it
/// was begun and did not work out.
pub(crate) fn code(problem: &str) -> u8 {
    match problem {
        "backend-down" | "start-failed" | "port-in-use" | "stop-failed" | "stranger" | "foreign-home" | "open-home" => {
            BACKEND
        }
        "usage" | "provider-mismatch" | "invalid-policy" | "invalid-request" | "refused-repository" => USAGE,
        "file-not-found" | "invalid-target" | "invalid-arguments" => USAGE,
        problem if problem.starts_with("config-") => USAGE,
        _ => FAILED,
    }
}
