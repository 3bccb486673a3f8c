//! Failures of skills, and of the host's answers to them.
//!
//! The contract writes the kind as a string. Only this module turns one into the other.

use serde::{Deserialize, Serialize};

use crate::GuestStop;
use crate::bindings::tool::skill::types as wit;
use tool_core::api::{ErrorKind, Problem};

/// Kind of a failure. A code that the contract does not know becomes `Failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "`wit/skill.wit` documents the codes")]
pub enum FailureKind {
    InvalidArguments,
    NotFound,
    Denied,
    Unavailable,
    Limit,
    #[serde(other)]
    Failed,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::InvalidArguments,
        Self::NotFound,
        Self::Denied,
        Self::Unavailable,
        Self::Limit,
        Self::Failed,
    ];

    /// The kind of a code of the contract.
    pub fn from_code(code: &str) -> Self {
        let kind = Self::ALL.into_iter().find(|kind| kind.code() == code);
        kind.unwrap_or(Self::Failed)
    }

    /// Its code in the contract.
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidArguments => "invalid-arguments",
            Self::NotFound => "not-found",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Limit => "limit",
            Self::Failed => "failed",
        }
    }
}

impl From<FailureKind> for ErrorKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::InvalidArguments => Self::InvalidArguments,
            FailureKind::NotFound => Self::NotFound,
            FailureKind::Denied => Self::Denied,
            FailureKind::Unavailable => Self::Unavailable,
            FailureKind::Limit => Self::Limit,
            FailureKind::Failed => Self::Failed,
        }
    }
}

/// The answer of a call that did not work, or of a host function to a skill.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// The problem, in a sentence that the model can act on.
    pub message: String,
    /// Advice on what to do instead.
    pub hint: Option<String>,
}

#[allow(missing_docs, reason = "each makes a failure of the kind that it is called")]
impl Failure {
    /// A failure without a hint.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidArguments, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(FailureKind::NotFound, message)
    }

    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Denied, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Unavailable, message)
    }

    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Limit, message)
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// Says what to do instead.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl From<wit::Failure> for Failure {
    fn from(failure: wit::Failure) -> Self {
        Self {
            kind: FailureKind::from_code(&failure.code),
            message: failure.message,
            hint: failure.hint,
        }
    }
}

impl From<Failure> for wit::Failure {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.kind.code().to_owned(),
            message: failure.message,
            hint: failure.hint,
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let problem = Self::new(failure.kind.into(), failure.message);
        match failure.hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

/// Reason why a host function gives no result: a failure that the skill gets, or an error that ends the skill.
#[derive(Debug)]
pub enum ImportError {
    /// The skill gets it.
    Failure(Failure),
    /// It ends the skill.
    End(wasmtime::Error),
}

impl From<Failure> for ImportError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<GuestStop> for ImportError {
    fn from(stop: GuestStop) -> Self {
        Self::End(stop.into())
    }
}

impl From<wasmtime::Error> for ImportError {
    fn from(error: wasmtime::Error) -> Self {
        Self::End(error)
    }
}

/// The failure of a call whose session ended.
pub fn call_cancelled() -> Failure {
    Failure::failed("The call was cancelled.")
}
