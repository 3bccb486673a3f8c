//! Makes failures of the contract.

use crate::bindings::tool::skill::types::Failure;

/// A failure without a hint. `code` is one of the contract's codes.
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

/// The failure of a call whose session ended.
pub fn cancelled() -> Failure {
    failure("failed", "The call was cancelled.")
}
