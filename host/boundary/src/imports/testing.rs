//! A context for the tests of imports.

use std::path::Path;

use crate::CallContext;
use crate::policy::{EffectCause, Policy};
use tool_core::api::{Operation, PolicyRequest};
use tool_repository::{Options, Repository};

/// A refactoring of `root` without a user to ask.
pub(super) fn context(root: &Path) -> CallContext {
    let repository = Repository::open(root, &Options::default()).expect("the folder is there");
    let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &PolicyRequest::default());
    CallContext::unattended(repository, policy.expect("the request is valid"))
}
