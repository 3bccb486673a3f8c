//! The proof of the sandboxes: attacks by name, each made on this machine and judged from outside.
//!
//! [`attacks`] are calls of a hostile skill, [`probes`] what a program tries that a skill runs, [`helpers`] what a
//! helper tries after it was taken over, and [`installs`] what an installer tries. `tool doctor --sandbox` and the
//! tests make the same attempts. The engine does not use this crate, so its boundary has no part that exists only for
//! attacks.

pub mod attacks;
pub mod helpers;
pub mod installs;
pub mod probes;

use serde::Serialize;

/// Result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeResult {
    /// Name of the attempt.
    pub name: &'static str,
    /// Completes "a run tries to …".
    pub tries: &'static str,
    /// Whether the sandbox held.
    pub verdict: ProbeVerdict,
    /// True if the attempt visibly succeeded, rather than failing for an unexpected reason.
    pub got_out: bool,
    /// Message of the attempt or of the system.
    pub detail: String,
}

/// Whether the sandbox held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeVerdict {
    /// The sandbox held.
    Pass,
    /// The attempt succeeded, or failed for an unexpected reason.
    Fail,
    /// The attempt could not be made here.
    NotAvailable,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The attempt ended as expected.
    Held(String),
    /// The attempt succeeded.
    GotOut(String),
    /// The attempt failed for an unexpected reason.
    Odd(String),
    /// The attempt could not be made.
    NotAvailable(String),
}

impl ProbeOutcome {
    /// Converts the outcome to a line of a report.
    pub fn into_result(self, name: &'static str, tries: &'static str) -> ProbeResult {
        let got_out = matches!(self, Self::GotOut(_));
        let (verdict, detail) = match self {
            Self::Held(detail) => (ProbeVerdict::Pass, detail),
            Self::GotOut(detail) | Self::Odd(detail) => (ProbeVerdict::Fail, detail),
            Self::NotAvailable(detail) => (ProbeVerdict::NotAvailable, detail),
        };
        ProbeResult {
            name,
            tries,
            verdict,
            got_out,
            detail,
        }
    }
}
