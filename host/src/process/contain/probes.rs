//! Trying to get out: attempts by name, run in the sandbox of this machine and judged from outside.
//!
//! The attempts are a Python script, because getting out is what a test suite would try. The tests of this program and
//! users run the same table. An attempt counts as held where the system said the expected no, or where nothing came of
//! it: the tree is what it was, nobody was reached, nothing is left.

#[cfg(target_os = "linux")]
mod scene;
mod table;

use serde::Serialize;

use super::Sandbox;
#[cfg(target_os = "linux")]
pub(super) use scene::works;
pub use table::{ATTEMPTS, Attempt, Expected};

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeResult {
    /// Name of the attempt.
    pub name: &'static str,
    /// Completes "a run tries to …".
    pub tries: &'static str,
    /// Whether the sandbox held.
    pub verdict: ProbeVerdict,
    /// What the attempt or the system said.
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

/// Makes every attempt in the best sandbox of this machine. Takes some seconds.
pub fn probe_sandbox() -> Vec<ProbeResult> {
    probe(super::available().sandbox, |_| true)
}

/// Makes the attempts whose names are wanted in a sandbox of this kind.
pub fn probe(sandbox: Sandbox, is_wanted: impl Fn(&str) -> bool) -> Vec<ProbeResult> {
    let wanted = ATTEMPTS.iter().filter(|attempt| is_wanted(attempt.name));
    if sandbox == Sandbox::None {
        let reason = super::available().refused.join("; ");
        return wanted.map(|attempt| unavailable(attempt, &reason)).collect();
    }
    make(wanted, sandbox)
}

#[cfg(target_os = "linux")]
fn make(wanted: impl Iterator<Item = &'static Attempt>, sandbox: Sandbox) -> Vec<ProbeResult> {
    match scene::python() {
        Some(python) => wanted.map(|attempt| scene::one(attempt, sandbox, &python)).collect(),
        None => {
            let reason = "there is no `python3` to make the attempts";
            wanted.map(|attempt| unavailable(attempt, reason)).collect()
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn make(wanted: impl Iterator<Item = &'static Attempt>, _sandbox: Sandbox) -> Vec<ProbeResult> {
    wanted
        .map(|attempt| unavailable(attempt, "only Linux has a sandbox"))
        .collect()
}

fn unavailable(attempt: &Attempt, reason: &str) -> ProbeResult {
    ProbeResult {
        name: attempt.name,
        tries: attempt.tries,
        verdict: ProbeVerdict::NotAvailable,
        detail: reason.to_owned(),
    }
}
