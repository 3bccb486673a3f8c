//! Tries whether a sandbox works on this machine, with a program that does nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Enclosure, HELPER_COMMAND, NOTHING, RunBounds, Sandbox, ToolAccess};
use crate::limits;
use crate::{CommandSpec, ProcessError, RunEnd, RunLimits, RunOutput, run_contained};

/// Runs this binary, which does nothing then, in a sandbox of this kind.
///
/// # Errors
///
/// The reason why the sandbox does not work.
pub(super) fn try_sandbox(sandbox: Sandbox) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = folder.path().canonicalize().map_err(|error| error.to_string())?;
    let command = CommandSpec {
        program: own_program().map_err(|error| format!("this program's own file: {error}"))?,
        arguments: [HELPER_COMMAND, NOTHING].map(str::to_owned).to_vec(),
        directory: root.clone(),
        environment: BTreeMap::new(),
    };
    let enclosure = Enclosure {
        sandbox,
        root,
        hidden: Vec::new(),
        tracked_links: Vec::new(),
        state_directory: None,
        bounds: RunBounds::default(),
        installation: None,
        tools: ToolAccess::default(),
    };
    let limits = trial_limits();
    let run = run_contained(&command, &enclosure, &limits, &CancellationToken::new(), &|_| {});
    judge_trial(run)
}

/// Path of this program's file. After an update it is the path of the new one.
fn own_program() -> io::Result<PathBuf> {
    let place = std::env::current_exe()?;
    let text = place.to_string_lossy();
    let place = text.strip_suffix(" (deleted)").map_or(place.clone(), PathBuf::from);
    place.canonicalize()
}

fn judge_trial(run: Result<RunOutput, ProcessError>) -> Result<(), String> {
    match run.map_err(|error| error.to_string())?.end {
        RunEnd::Exited(0) => Ok(()),
        end => Err(format!("a program that does nothing ended otherwise: {end:?}")),
    }
}

/// Time limit for trying a sandbox.
fn trial_limits() -> RunLimits {
    RunLimits::within(Duration::from_secs(limits::CONTAIN_PROBE_SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_a_sandbox_has_a_bounded_time() {
        assert_eq!(trial_limits().time.as_secs(), limits::CONTAIN_PROBE_SECONDS_MAX);
    }

    /// `CONTAIN_PROBE_SECONDS_MAX`.
    #[test]
    fn a_sandbox_in_which_nothing_ends_is_none() {
        let ended = |end| {
            judge_trial(Ok(RunOutput {
                end,
                output: String::new(),
                output_cut: false,
                duration: Duration::from_secs(limits::CONTAIN_PROBE_SECONDS_MAX),
            }))
        };
        assert_eq!(ended(RunEnd::Exited(0)), Ok(()));
        let hung = ended(RunEnd::TimedOut).expect_err("it did not end");
        assert_eq!(hung, "a program that does nothing ended otherwise: TimedOut");
        ended(RunEnd::Exited(1)).expect_err("it did something");
    }
}
