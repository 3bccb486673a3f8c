//! The contract's failure, made in one line.

use crate::bindings::tool::skill::types::Failure;

/// A failure without a hint. `code` is one of the contract's.
pub fn failure(code: &str, message: impl Into<String>) -> Failure {
    Failure {
        code: code.to_owned(),
        message: message.into(),
        hint: None,
    }
}

/// A failure that says what to do instead.
pub fn hinted(code: &str, message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure {
        hint: Some(hint.into()),
        ..failure(code, message)
    }
}

/// The session ended while this ran.
pub fn cancelled() -> Failure {
    failure("failed", "The call was cancelled.")
}
