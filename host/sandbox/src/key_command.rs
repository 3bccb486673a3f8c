//! Runs a program of the user's own that prints one short text, such as a key.
//!
//! It runs as from the user's shell, without a sandbox, but with neither input nor a shell. Only its standard output is
//! read, for a limited time; its standard error is dropped.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::group::Group;
use crate::mark::RunMark;
use crate::{CommandSpec, ProcessError, not_started, spawn_retrying};

/// Time between two checks of the program.
const LOOK: Duration = Duration::from_millis(10);

/// Time for a program to end after its output was closed or is full.
const CLOSED_TIME: Duration = Duration::from_secs(1);

/// Reason why a program printed nothing usable.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// The program could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The program failed with this status; absent if a signal ended it.
    #[error("it failed")]
    Failed(Option<i32>),
    /// The program took too long, and was killed.
    #[error("it took too long")]
    TimedOut,
    /// The program printed more than the limit.
    #[error("it printed too much")]
    TooLong,
}

/// Runs a program and returns its standard output, at most `bytes_max` bytes. Blocks. When it returns, the program's
/// process group is gone.
///
/// # Errors
///
/// See [`PrintError`].
pub fn read_printed(command: &CommandSpec, time: Duration, bytes_max: usize) -> Result<Vec<u8>, PrintError> {
    let until = Instant::now() + time;
    let (mut child, group) = start_printer(command).map_err(|source| not_started(command, source))?;
    let mut stdout = child.stdout.take().expect("it is piped");
    let reader = thread::spawn(move || {
        let mut output = Vec::new();
        // One byte more than allowed, to tell a full output from one that is too long.
        let bound = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let read = stdout.by_ref().take(bound).read_to_end(&mut output);
        read.map(|_| output)
    });
    let ended = wait_for_end(&group, until, &|| reader.is_finished());
    // The leader is not reaped yet, so its id is still the group's.
    group.kill();
    let closed_until = Instant::now() + CLOSED_TIME;
    while !reader.is_finished() && Instant::now() < closed_until {
        thread::sleep(LOOK);
    }
    if !reader.is_finished() {
        // A process outside the group holds the pipe open. One that has closed it, such as the agent of a key ring,
        // lives on.
        group.kill_strays();
    }
    let lost = |source| ProcessError::Watch {
        program: command.program.display().to_string(),
        source,
    };
    let status = child.wait().map_err(lost)?;
    let has_ended = ended.map_err(lost)?;
    let output = reader
        .join()
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        .map_err(lost)?;
    if output.len() > bytes_max {
        return Err(PrintError::TooLong);
    }
    match status.code() {
        _ if !has_ended => Err(PrintError::TimedOut),
        Some(0) => Ok(output),
        code => Err(PrintError::Failed(code)),
    }
}

fn start_printer(command: &CommandSpec) -> io::Result<(Child, Group)> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that starts a program that prints a key"
    )]
    let mut builder = Command::new(&command.program);
    builder
        .args(&command.arguments)
        .current_dir(&command.directory)
        .env_clear()
        .envs(&command.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    let mark = RunMark::new();
    builder.env(RunMark::VARIABLE, mark.value());
    let child = spawn_retrying(&mut builder)?;
    let group = Group::new(&child, mark);
    Ok((child, group))
}

/// Waits for the program to end. False if its time was over first, or if it still ran a second after its output was
/// closed or full.
fn wait_for_end(group: &Group, until: Instant, is_closed: &dyn Fn() -> bool) -> io::Result<bool> {
    let mut until = until;
    let mut was_closed = false;
    loop {
        if group.leader_exited()? {
            return Ok(true);
        }
        if is_closed() && !was_closed {
            was_closed = true;
            until = until.min(Instant::now() + CLOSED_TIME);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn printed(script: &str, time: Duration) -> Result<String, PrintError> {
        let command = CommandSpec {
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            directory: PathBuf::from("/"),
            environment: [("A".to_owned(), "of the caller".to_owned())].into(),
        };
        let output = read_printed(&command, time, 100)?;
        Ok(String::from_utf8(output).expect("it is UTF-8"))
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn standard_output_alone_is_returned() {
        let output = printed("echo words >&2; echo \"$A$HOME\"; cat", LONG);
        assert_eq!(output.expect("it works"), "of the caller\n");
    }

    #[test]
    fn a_program_that_fails_prints_too_much_or_takes_too_long_returns_nothing() {
        assert!(matches!(
            printed("echo key; exit 3", LONG),
            Err(PrintError::Failed(Some(3)))
        ));
        assert!(matches!(printed("yes", LONG), Err(PrintError::TooLong)));
        let begun = Instant::now();
        let slow = printed("echo key; sleep 60 & sleep 60", Duration::from_millis(200));
        assert!(matches!(slow, Err(PrintError::TimedOut)), "{slow:?}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_process_in_the_background_does_not_hold_the_output_open() {
        let begun = Instant::now();
        assert_eq!(printed("sleep 60 & echo key", LONG).expect("it works"), "key\n");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
