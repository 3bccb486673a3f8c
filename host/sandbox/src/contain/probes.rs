//! Trying to get out: attempts by name, run in the sandbox of this machine and judged from outside.
//!
//! The attempts are a Python script, because getting out is what a test suite would try. The tests of this program and
//! users run the same table. An attempt counts as held where the system said the expected no, or where nothing came of
//! it: the tree is what it was, nobody was reached, nothing is left.

mod counters;
#[cfg(target_os = "linux")]
mod scene;
mod table;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::Sandbox;
use crate::limits;
use counters::COUNTERS;
#[cfg(target_os = "linux")]
pub(super) use scene::works;
#[cfg(target_os = "linux")]
pub use scene::{BOUNDS, python};
pub use table::{ATTEMPTS, Attempt, Expected};
use tool_core::defence::Counter;

/// What came of an attempt.
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

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// What should come of it did.
    Held(String),
    /// It succeeded.
    GotOut(String),
    /// Neither: something else is wrong.
    Odd(String),
    /// It could not be made.
    NotAvailable(String),
}

impl ProbeOutcome {
    /// The same as a line of a report.
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

/// Whether there is a place to make attempts in: a folder for temporary files that can be used and has room. The error
/// is a sentence without its full stop.
pub fn check_room() -> Result<(), String> {
    let folder = std::env::temp_dir();
    let wrong = |why: String| format!("the folder for temporary files `{}` {why}", folder.display());
    tempfile::tempdir_in(&folder).map_err(|error| wrong(format!("cannot be used: {error}")))?;
    let room = rustix::fs::statvfs(&folder).map_err(|error| wrong(format!("cannot be looked at: {error}")))?;
    is_enough(room.f_bavail.saturating_mul(room.f_frsize)).map_err(wrong)
}

fn is_enough(free: u64) -> Result<(), String> {
    match free < limits::PROBE_ROOM_BYTES {
        true => Err(format!("has only {} kB of room", free / 1000)),
        false => Ok(()),
    }
}

/// Makes the attempts whose names are wanted in a sandbox of this kind, one after the other; `each` gets what came of
/// every one. Ends early where it is cancelled.
pub fn probe(
    sandbox: Sandbox,
    is_wanted: impl Fn(&str) -> bool,
    cancel: &CancellationToken,
    mut each: impl FnMut(ProbeResult),
) {
    for attempt in ATTEMPTS.iter().filter(|attempt| is_wanted(attempt.name)) {
        let outcome = attempt.make(sandbox, cancel);
        if cancel.is_cancelled() {
            return;
        }
        each(outcome.into_result(attempt.name, attempt.tries));
    }
}

impl Attempt {
    /// Makes the attempt in a sandbox of this kind.
    pub fn make(&self, sandbox: Sandbox, cancel: &CancellationToken) -> ProbeOutcome {
        match sandbox {
            Sandbox::None => ProbeOutcome::NotAvailable(super::available().refused.join("; ")),
            Sandbox::Landlock | Sandbox::Namespaces => make(self, Some(sandbox), cancel),
        }
    }

    /// Makes the attempt with nothing around it, to see what this machine refuses to everybody. Only for a test.
    #[cfg(feature = "counterproof")]
    pub fn make_bare(&self, cancel: &CancellationToken) -> ProbeOutcome {
        make(self, None, cancel)
    }

    /// How it was seen to succeed.
    pub fn counter(&self) -> Counter {
        let found = COUNTERS.iter().find(|(name, _)| *name == self.name);
        found.map_or(Counter::Unseen(""), |(_, counter)| *counter)
    }
}

#[cfg(target_os = "linux")]
fn make(attempt: &Attempt, sandbox: Option<Sandbox>, cancel: &CancellationToken) -> ProbeOutcome {
    match scene::python() {
        Some(python) => scene::one(attempt, sandbox, &python, cancel),
        None => ProbeOutcome::NotAvailable("there is no `python3` to make the attempts".to_owned()),
    }
}

#[cfg(not(target_os = "linux"))]
fn make(_: &Attempt, _: Option<Sandbox>, _: &CancellationToken) -> ProbeOutcome {
    ProbeOutcome::NotAvailable("only Linux has a sandbox".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_need_room() {
        assert_eq!(is_enough(limits::PROBE_ROOM_BYTES), Ok(()));
        assert!(is_enough(limits::PROBE_ROOM_BYTES - 1).is_err());
        assert_eq!(is_enough(64_000), Err("has only 64 kB of room".to_owned()));
    }

    #[test]
    fn every_attempt_has_its_counter_proof_or_a_reason() {
        let told = |attempt: &&Attempt| !attempt.counter().is_told();
        let untold = ATTEMPTS.iter().filter(told).map(|attempt| attempt.name);
        assert_eq!(untold.collect::<Vec<_>>(), [""; 0]);
        assert_eq!(COUNTERS.len(), ATTEMPTS.len());
    }
}
