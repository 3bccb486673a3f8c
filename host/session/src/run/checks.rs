//! Runs of the project's tests and checks by the host itself, and what they prove.

pub(super) mod project_checks;
pub(super) mod remembered;
pub(super) mod suite;
pub(super) mod verification;
