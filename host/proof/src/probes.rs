//! Attempts to escape, by name, made in the sandbox of this machine and judged from outside.
//!
//! The attempts are a Python script, because a hostile test suite would be one. The tests of this program and users run
//! the same table. The sandbox has held if the system refused with the expected error or if nothing changed: the tree
//! is the same, no listener was reached, and no process remains.

#[cfg(target_os = "linux")]
mod scene;
mod table;

use tokio_util::sync::CancellationToken;
use tool_sandbox::program_sandbox::{self, Sandbox};

use crate::{ProbeOutcome, ProbeResult};
#[cfg(target_os = "linux")]
pub(crate) use scene::{BOUNDS, find_python};
pub use table::{ATTEMPTS, ExpectedEscape, SandboxAttempt};

/// Bytes that must be free for temporary files before attempts are made. Some write as much as they are allowed, and
/// one that ends because the disk is full proves nothing.
const PROBE_ROOM_BYTES: u64 = 64 * 1024 * 1024;

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
    if free < PROBE_ROOM_BYTES {
        Err(format!("has only {} kB of room", free / 1000))
    } else {
        Ok(())
    }
}

/// Makes the attempts with the wanted names in a sandbox of this kind, one after the other; `each` gets every result.
/// Ends early if it is cancelled.
pub fn probe_sandbox(
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

impl SandboxAttempt {
    /// Makes the attempt in a sandbox of this kind.
    pub fn make(&self, sandbox: Sandbox, cancel: &CancellationToken) -> ProbeOutcome {
        match sandbox {
            Sandbox::None => ProbeOutcome::NotAvailable(program_sandbox::detect_sandbox().refused.join("; ")),
            Sandbox::Landlock | Sandbox::Namespaces => make_attempt(self, sandbox, cancel),
        }
    }
}

#[cfg(target_os = "linux")]
fn make_attempt(attempt: &SandboxAttempt, sandbox: Sandbox, cancel: &CancellationToken) -> ProbeOutcome {
    match scene::find_python() {
        Some(python) => scene::play_attempt(attempt, sandbox, &python, cancel),
        None => ProbeOutcome::NotAvailable("there is no `python3` to make the attempts".to_owned()),
    }
}

#[cfg(not(target_os = "linux"))]
fn make(_: &SandboxAttempt, _: Sandbox, _: &CancellationToken) -> ProbeOutcome {
    ProbeOutcome::NotAvailable("only Linux has a sandbox".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_need_room() {
        assert_eq!(is_enough(PROBE_ROOM_BYTES), Ok(()));
        assert!(is_enough(PROBE_ROOM_BYTES - 1).is_err());
        assert_eq!(is_enough(64_000), Err("has only 64 kB of room".to_owned()));
    }
}
