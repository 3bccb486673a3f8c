//! The proof of the sandboxes: attacks by name, each made on this machine and judged from outside.
//!
//! [`attacks`] are calls of a hostile skill, [`probes`] what a program tries that a skill has run, [`helpers`] what a
//! helper tries that was taken over, and [`installs`] what an installer tries. `tool doctor --sandbox` and the tests make
//! the same ones. The engine does not use this crate: its boundary has no part that serves attacks alone.

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
    /// True where the attempt was seen to succeed, and did not fail for another reason than it should.
    pub got_out: bool,
    /// Message of the attempt or of the system.
    pub detail: String,
}

/// Whether the sandbox held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeVerdict {
    /// It did.
    Pass,
    /// It did not, or the attempt failed for another reason than it should.
    Fail,
    /// It could not be tried here.
    NotAvailable,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// It ended as expected.
    Held(String),
    /// It succeeded.
    GotOut(String),
    /// Neither: something else is wrong.
    Odd(String),
    /// It could not be made.
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
