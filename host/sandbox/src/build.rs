//! Compilers and installers that a user runs by `tool skill build`, on sources of their own.
//!
//! No model and no repository decides that they run, so they get the user's own environment and rights, as they would
//! from a shell. What they started ends with them all the same.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::{CommandSpec, ProcessError, RunLimits, RunOutput, environment, run_command};
use crate::limits;

/// Time for a compiler or an installer that `tool skill build` runs: a crate with all that it depends on takes minutes on
/// a slow machine, and so does the download of a toolchain.
const SKILL_BUILD_SECONDS_MAX: u64 = 1800;

/// Finds the first program called `name` on the `PATH` of `environment`.
pub fn find_program(name: &str, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    environment::find_programs(environment, name).into_iter().next()
}

/// Runs a compiler or an installer until it ends or its time is over. Blocks. `progress` gets the output line by line.
///
/// # Errors
///
/// The program could not be started or watched.
pub fn run_builder(
    command: &CommandSpec,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<RunOutput, ProcessError> {
    let time = limits::seconds(SKILL_BUILD_SECONDS_MAX);
    run_command(command, &RunLimits::within(time), cancel, progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunEnd;

    fn shell(text: &str) -> CommandSpec {
        CommandSpec {
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".to_owned(), text.to_owned()],
            directory: PathBuf::from("/"),
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        }
    }

    /// `SKILL_BUILD_SECONDS_MAX`.
    #[test]
    fn a_compiler_that_never_ends_is_stopped() {
        let _hurried = limits::pace::hurried(10_000);
        let output = run_builder(&shell("sleep 60"), &CancellationToken::new(), &|_| ()).expect("the shell starts");
        assert_eq!(output.end, RunEnd::TimedOut);
    }

    #[test]
    fn programs_are_those_of_the_path() {
        let environment = shell("").environment;
        assert!(find_program("sh", &environment).is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find_program("no-such-program-anywhere", &environment), None);
    }
}
