//! Runs of the project's tests and checks by the host itself, and what they prove.

/// Runs the tests and the checks.
pub(crate) const SKILL: &str = "run_tests";

pub(super) mod project_checks;
pub(super) mod remembered;
pub(super) mod suite;
pub(super) mod verification;
