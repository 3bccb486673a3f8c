//! Running a program on behalf of a skill: argv only, a cleared environment, its own process group, bounded output.
//!
//! This is the one place in the engine that starts a process, beside the start of the daemon. It knows neither recipes
//! nor policy: who may run what is decided in `skill::imports`. Whatever way a run ends (by itself, by its time limit,
//! by cancellation), everything it started ends with it. It is not a sandbox: a program runs with the user's rights.

pub(crate) mod environment;
mod group;
mod output;
pub mod toolchain;

use std::collections::BTreeMap;
use std::io::{self, PipeReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio_util::sync::CancellationToken;

use crate::limits;
use group::Group;
use output::{LiveLines, Output};

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its arguments, as they are; no shell sees them.
    pub arguments: Vec<String>,
    /// Absolute path of the working directory.
    pub directory: PathBuf,
    /// The whole environment; nothing is inherited.
    pub environment: BTreeMap<String, String>,
}

impl CommandSpec {
    /// The argument vector, the program first.
    pub fn argv(&self) -> Vec<String> {
        let program = self.program.to_string_lossy().into_owned();
        std::iter::once(program).chain(self.arguments.iter().cloned()).collect()
    }
}

/// What bounds a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Wall time.
    pub time: Duration,
    /// Output that is kept, half of it from the beginning and half from the end.
    pub output_kept_bytes: usize,
    /// Output after which the run is ended.
    pub output_bytes_max: u64,
}

impl RunLimits {
    /// The engine's output bounds, and a time limit.
    pub fn within(time: Duration) -> Self {
        Self {
            time,
            output_kept_bytes: limits::PROCESS_OUTPUT_KEPT_BYTES,
            output_bytes_max: limits::PROCESS_OUTPUT_BYTES_MAX,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The program exited with this status.
    Exited(i32),
    /// A signal that did not come from here ended the program.
    Signalled(i32),
    /// Its time was over.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// It wrote more than the bound.
    OutputLimit,
}

/// What a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    /// How it ended.
    pub end: RunEnd,
    /// Standard output and standard error in the order in which they came.
    pub output: String,
    /// True where the middle of the output was left out.
    pub output_cut: bool,
    /// Wall time.
    pub duration: Duration,
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It did not start.
    #[error("`{program}` could not be started")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system lost it.
    #[error("`{program}` could not be watched")]
    Watch {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

/// How long the loop sleeps in the system before it looks at the clock, the token and the child.
const TICK: Duration = Duration::from_millis(20);

/// Runs a program to its end, whichever comes first: its own, the time limit, cancellation or the output bound.
///
/// Blocks. `progress` gets the output line by line, without control characters, at most
/// [`limits::PROCESS_LIVE_BYTES_MAX`] of it. When this returns, the program's process group is gone, and so is, on
/// Linux, whatever left the group but kept its environment.
pub fn run(
    command: &CommandSpec,
    limits: &RunLimits,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<RunOutput, ProcessError> {
    let program = command.program.display().to_string();
    let started = Instant::now();
    let (mut child, reader, group) = start(command).map_err(|source| ProcessError::Start {
        program: program.clone(),
        source,
    })?;
    let mut run = Running {
        reader,
        end_of_output: false,
        output: Output::new(limits.output_kept_bytes),
        live: LiveLines::new(progress),
        deadline: started + limits.time,
        output_bytes_max: limits.output_bytes_max,
    };
    let stopped = run.follow(&group, cancel);
    if !matches!(stopped, Ok(None)) {
        run.stop(&group);
    }
    // Before the child is reaped its id, and so the group's, cannot belong to anybody else.
    group.kill();
    let status = reap(&mut child);
    group.kill_strays();
    let watch = |source| ProcessError::Watch { program, source };
    let end = match stopped.map_err(watch)? {
        Some(end) => end,
        None => own_end(status),
    };
    run.live.finish();
    let (output, output_cut) = run.output.finish();
    Ok(RunOutput {
        end,
        output,
        output_cut,
        duration: started.elapsed(),
    })
}

/// Starts the program with one pipe for both of its outputs, so that their order is kept.
fn start(command: &CommandSpec) -> io::Result<(Child, PipeReader, Group)> {
    let (reader, writer) = io::pipe()?;
    let cookie = group::Cookie::new();
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that starts a process for a skill"
    )]
    let mut builder = Command::new(&command.program);
    builder
        .args(&command.arguments)
        .current_dir(&command.directory)
        .env_clear()
        .envs(&command.environment)
        .env(group::Cookie::VARIABLE, cookie.value())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let child = spawn(&mut builder)?;
    let group = Group::new(&child, cookie);
    group.limit();
    Ok((child, reader, group))
}

/// Starts the program, with a little patience for one that somebody is just writing: another thread's child inherits
/// the handle for the moment between its fork and its exec.
fn spawn(builder: &mut Command) -> io::Result<Child> {
    for _ in 0..limits::PROCESS_BUSY_RETRIES_MAX {
        match builder.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(TICK),
            answer => return answer,
        }
    }
    builder.spawn()
}

/// A run under way.
struct Running<'a> {
    reader: PipeReader,
    end_of_output: bool,
    output: Output,
    live: LiveLines<'a>,
    deadline: Instant,
    output_bytes_max: u64,
}

impl Running<'_> {
    /// Reads until the leader has exited (`None`) or something else must end the run.
    fn follow(&mut self, group: &Group, cancel: &CancellationToken) -> io::Result<Option<RunEnd>> {
        loop {
            if cancel.is_cancelled() {
                return Ok(Some(RunEnd::Cancelled));
            }
            if Instant::now() >= self.deadline {
                return Ok(Some(RunEnd::TimedOut));
            }
            if self.output.total_bytes() > self.output_bytes_max {
                return Ok(Some(RunEnd::OutputLimit));
            }
            if group.leader_exited()? {
                self.drain()?;
                return Ok(None);
            }
            self.read_within(TICK)?;
        }
    }

    /// Asks the group to end, and reads on for a moment so that a last word is neither lost nor in the way.
    fn stop(&mut self, group: &Group) {
        group.terminate();
        let grace = Instant::now() + Duration::from_millis(limits::PROCESS_GRACE_MS);
        while Instant::now() < grace && !group.leader_exited().unwrap_or(true) {
            if self.read_within(Duration::from_millis(5)).is_err() {
                break;
            }
        }
        // What the pipe still holds is worth having; that it cannot be read is no reason to fail now.
        let _ = self.drain();
    }

    /// Takes what is in the pipe already. A survivor of the leader may go on writing, so this is bounded.
    fn drain(&mut self) -> io::Result<()> {
        let until = self.output.total_bytes() + limits::PROCESS_DRAIN_BYTES_MAX;
        while self.output.total_bytes() < until && self.read_within(Duration::ZERO)? {}
        Ok(())
    }

    /// Waits for output and takes one piece of it; false where none came.
    fn read_within(&mut self, wait: Duration) -> io::Result<bool> {
        if self.end_of_output {
            std::thread::sleep(wait.min(Duration::from_millis(2)));
            return Ok(false);
        }
        if !readable(&self.reader, wait)? {
            return Ok(false);
        }
        let mut buffer = [0; 64 * 1024];
        let count = match io::Read::read(&mut self.reader, &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            other => other?,
        };
        self.end_of_output = count == 0;
        self.output.push(&buffer[..count]);
        self.live.push(&buffer[..count]);
        Ok(count > 0)
    }
}

fn readable(reader: &PipeReader, wait: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(wait).map_err(io::Error::other)?;
    let mut polled = [PollFd::new(reader, PollFlags::IN)];
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Collects the child so that no zombie stays. One that even KILL does not end (it hangs in the kernel) is left to a
/// thread of its own.
fn reap(child: &mut Child) -> Option<ExitStatus> {
    let patience = Instant::now() + Duration::from_millis(limits::PROCESS_REAP_MS);
    while Instant::now() < patience {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
    group::reap_later(child.id());
    None
}

fn own_end(status: Option<ExitStatus>) -> RunEnd {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Some(status) => match status.code() {
            Some(code) => RunEnd::Exited(code),
            None => RunEnd::Signalled(status.signal().unwrap_or_default()),
        },
        // The leader had exited, but the system does not say how: that is no success.
        None => RunEnd::Signalled(0),
    }
}

#[cfg(test)]
mod tests;
