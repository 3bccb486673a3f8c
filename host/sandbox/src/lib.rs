//! Running a program on behalf of a skill: argv only, a cleared environment, its own process group, bounded output.
//!
//! This is the only crate of the engine that starts a process. It knows neither recipes nor policy: `skill::imports`
//! decides who may run which program. Whatever way a run ends (by itself, by its time limit, by cancellation),
//! everything it started ends with it. [`run`] alone is no sandbox: a program runs with the user's rights.
//! [`run_contained`] is one.

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "without a sandbox, its messages have no sender")
)]

pub mod build;
pub mod confine;
pub mod contain;
pub mod environment;
mod group;
mod handles;
pub mod heap;
mod mark;
mod orphans;
mod output;
mod printed;
pub mod proxy;
pub mod room;
pub mod scratch;
pub mod toolchain;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio_util::sync::CancellationToken;

use contain::{Control, Enclosure, LeftTrees, Message};
use group::Group;
use mark::RunMark;
pub use mark::start_ticks;
pub use orphans::end_orphans;
pub use output::keep_ends;
use output::{CapturedOutput, LiveLines};
pub use printed::{PrintError, read_printed};
use proxy::{Proxy, Way};

/// No signal where the other end is gone. Elsewhere the program ignores that signal from its start.
pub(crate) const NO_SIGNAL: rustix::net::SendFlags = {
    #[cfg(target_os = "linux")]
    {
        rustix::net::SendFlags::NOSIGNAL
    }
    #[cfg(not(target_os = "linux"))]
    {
        rustix::net::SendFlags::empty()
    }
};

/// Output of a run that is kept, half from the beginning and half from the end (`wit/skill.wit`: at most 1 MiB).
const PROCESS_OUTPUT_KEPT_BYTES: usize = 1024 * 1024;

/// Attempts, 20 ms apart, to start a program that is being written to.
const PROCESS_BUSY_RETRIES_MAX: u32 = 10;

/// Output taken after the leader's end. A pipe holds 64 KiB by default and at most 1 MiB.
const PROCESS_DRAIN_BYTES_MAX: u64 = 1024 * 1024;

/// Time between asking a run to end and ending it. With everything else a cancelled run is gone within 500 ms.
const PROCESS_GRACE_MS: u64 = 200;

/// Time to wait for a killed child before a thread of its own does. KILL takes a few milliseconds.
const PROCESS_REAP_MS: u64 = 200;

/// Command to run.
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

/// Limits of a run.
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
            output_kept_bytes: PROCESS_OUTPUT_KEPT_BYTES,
            output_bytes_max: limits::PROCESS_OUTPUT_BYTES_MAX,
        }
    }
}

/// End of a run.
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
    /// It had more processes and threads than the sandbox allows.
    TaskLimit,
    /// It used more memory than the sandbox allows.
    MemoryLimit,
    /// It filled a file system that is dropped with the run.
    StorageLimit {
        /// Bytes of that file system.
        bytes: u64,
    },
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    /// End of the run.
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
        /// The system's error.
        source: io::Error,
    },
    /// The system lost it.
    #[error("`{program}` could not be watched")]
    Watch {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The sandbox around it could not be set up. It did not run.
    #[error("the sandbox around `{program}` could not be set up: {reason}")]
    Contain {
        /// The program.
        program: String,
        /// The failed step and its error.
        reason: String,
    },
}

/// Time that the loop sleeps before it checks the clock, the token and the child.
const TICK: Duration = Duration::from_millis(20);

/// Time for the fallback's helper to find and end its processes, even with little processor time. Killing the helper
/// earlier leaves the rest running.
const HELPER_PATIENCE: Duration = Duration::from_secs(20);

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
    let started = Instant::now();
    let leader = start(command).map_err(|source| not_started(command, source))?;
    follow(command, leader, started, limits, cancel, progress).map(|ended| ended.run)
}

/// Like [`run`], in a sandbox. When this returns, everything that was inside is gone.
///
/// The program sees the repository at its own place and may write to it; nothing of that reaches the real tree. Beside
/// it only the system's directories and what the program was installed with are visible, nothing of which it can
/// change. The time that it takes to set this up counts.
pub fn run_contained(
    command: &CommandSpec,
    enclosure: &Enclosure,
    limits: &RunLimits,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<RunOutput, ProcessError> {
    let started = Instant::now();
    let leader = start_contained(command, enclosure).map_err(|source| not_started(command, source))?;
    follow(command, leader, started, limits, cancel, progress).map(|ended| ended.run)
}

/// Like [`run_contained`], with the trees that the enclosure asks for handed back. An installation also gets a way to
/// the package registries that the enclosure names; its trees come back where the program exited with 0.
pub fn run_handing_back(
    command: &CommandSpec,
    enclosure: &Enclosure,
    limits: &RunLimits,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<EndedRun, ProcessError> {
    let started = Instant::now();
    let leader = start_contained(command, enclosure).map_err(|source| not_started(command, source))?;
    follow(command, leader, started, limits, cancel, progress)
}

/// A run that is over.
#[derive(Debug)]
pub struct EndedRun {
    /// Exit status and output.
    pub run: RunOutput,
    /// Trees that are handed back.
    pub left: Option<LeftTrees>,
    /// Refused destinations, one sentence each.
    pub refused: Vec<String>,
}

fn not_started(command: &CommandSpec, source: io::Error) -> ProcessError {
    let program = command.program.display().to_string();
    ProcessError::Start { program, source }
}

/// Started process: the program itself, or the helper that stands for it.
struct Leader {
    child: Child,
    reader: PipeReader,
    group: Group,
    control: Option<Control>,
    /// Destinations that an installation may reach.
    way: Way,
}

fn follow(
    command: &CommandSpec,
    leader: Leader,
    started: Instant,
    limits: &RunLimits,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<EndedRun, ProcessError> {
    let Leader {
        mut child,
        reader,
        group,
        mut control,
        way,
    } = leader;
    let mut run = Running {
        reader,
        end_of_output: false,
        output: CapturedOutput::new(limits.output_kept_bytes),
        live: LiveLines::new(progress),
        deadline: started + limits.time,
        output_bytes_max: limits.output_bytes_max,
        way: Some(way),
        proxy: None,
    };
    let stopped = run.follow(&group, &mut control, cancel);
    if !matches!(stopped, Ok(None)) {
        run.stop(&group, control.as_ref());
    }
    // Before the child is reaped its id, and so the group's, cannot belong to another process.
    group.kill();
    let status = reap(&mut child);
    group.kill_strays();
    let watch = |source| ProcessError::Watch {
        program: command.program.display().to_string(),
        source,
    };
    let (end, left) = match (stopped.map_err(watch)?, control) {
        (Some(end), control) => {
            control.into_iter().for_each(Control::abandon);
            (end, None)
        }
        (None, None) => (own_end(status), None),
        (None, Some(control)) => contained_end(command, control.said())?,
    };
    run.live.finish();
    let refused = run.proxy.map(|proxy| proxy.refusals()).unwrap_or_default();
    let (output, output_cut) = run.output.finish();
    let run = RunOutput {
        end,
        output,
        output_cut,
        duration: started.elapsed(),
    };
    Ok(EndedRun { run, left, refused })
}

/// Reads the program's end, and the trees handed back, from the helper's message.
fn contained_end(
    command: &CommandSpec,
    said: io::Result<(Message, Option<LeftTrees>)>,
) -> Result<(RunEnd, Option<LeftTrees>), ProcessError> {
    let failed = |reason| ProcessError::Contain {
        program: command.program.display().to_string(),
        reason,
    };
    let (message, left) = said.map_err(|error| failed(error.to_string()))?;
    let end = match message {
        Message::Exited(code) => RunEnd::Exited(code),
        Message::Signalled(signal) => RunEnd::Signalled(signal),
        Message::Tasks => RunEnd::TaskLimit,
        Message::Memory => RunEnd::MemoryLimit,
        Message::Full { bytes } => RunEnd::StorageLimit { bytes },
        Message::NotStarted(errno) => return Err(not_started(command, io::Error::from_raw_os_error(errno))),
        Message::Failed { step, reason } => return Err(failed(format!("{step}: {reason}"))),
        Message::Listening => return Err(failed("the sandbox ended without saying why".to_owned())),
    };
    Ok((end, left))
}

/// Starts the program with one pipe for both of its outputs, so that their order is kept.
fn start(command: &CommandSpec) -> io::Result<Leader> {
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
        .stdin(Stdio::null());
    lead(builder, RunMark::new(), None, Way::default())
}

/// Starts a program that is not sandboxed and outlives its starter: the daemon. It runs in `/` with this environment
/// alone, without input, and with a pipe for its standard output.
pub fn start_detached(
    program: &Path,
    arguments: &[&str],
    environment: &BTreeMap<String, OsString>,
) -> io::Result<Child> {
    #[allow(clippy::disallowed_methods, reason = "the one place that starts the daemon")]
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// Starts the helper, which learns on its standard input what to start in turn. It runs somewhere that always is, and
/// knows nothing but the mark of the run.
fn start_contained(command: &CommandSpec, enclosure: &Enclosure) -> io::Result<Leader> {
    let mark = RunMark::new();
    let mut marked = command.clone();
    marked
        .environment
        .insert(RunMark::VARIABLE.to_owned(), mark.value().to_owned());
    let (control, helpers) = Control::new(&marked, enclosure)?;
    let (program, argument) = contain::helper_program();
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that starts a process for a skill"
    )]
    let mut builder = Command::new(program);
    builder
        .arg(argument)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(helpers)))
        .env_clear();
    let installation = enclosure.installation.as_ref();
    let way = installation.map(|installation| installation.way.clone());
    lead(builder, mark, Some(control), way.unwrap_or_default())
}

/// Starts a group with one pipe for both outputs.
fn lead(mut builder: Command, mark: RunMark, control: Option<Control>, way: Way) -> io::Result<Leader> {
    let (reader, writer) = io::pipe()?;
    builder
        .env(RunMark::VARIABLE, mark.value())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let child = spawn(&mut builder)?;
    let group = Group::new(&child, mark);
    group.limit();
    Ok(Leader {
        child,
        reader,
        group,
        control,
        way,
    })
}

/// Starts the program, with a few retries while it is open for writing: another thread's child inherits the handle for
/// the moment between its fork and its exec.
fn spawn(builder: &mut Command) -> io::Result<Child> {
    for _ in 0..PROCESS_BUSY_RETRIES_MAX {
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
    output: CapturedOutput,
    live: LiveLines<'a>,
    deadline: Instant,
    output_bytes_max: u64,
    /// Destinations that the proxy will serve, once it runs.
    way: Option<Way>,
    proxy: Option<Proxy>,
}

impl Running<'_> {
    /// Reads until the leader has exited (`None`) or something else must end the run.
    fn follow(
        &mut self,
        group: &Group,
        control: &mut Option<Control>,
        cancel: &CancellationToken,
    ) -> io::Result<Option<RunEnd>> {
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
            if let Some(control) = control {
                self.serve(control)?;
            }
            self.read_within(TICK)?;
        }
    }

    /// Starts the proxy of an installation when its listener has come, and shows what it refuses.
    fn serve(&mut self, control: &mut Control) -> io::Result<()> {
        if let Some(listener) = control.listener()?
            && let Some(way) = self.way.take()
        {
            self.proxy = Some(Proxy::start(listener, way)?);
        }
        for sentence in self.proxy.iter().flat_map(Proxy::fresh_refusals) {
            self.live.say(&sentence);
        }
        Ok(())
    }

    /// Asks the group to end, and reads on for a moment so that a last word is neither lost nor in the way.
    fn stop(&mut self, group: &Group, control: Option<&Control>) {
        match control {
            Some(control) => control.terminate(),
            None => group.terminate(),
        }
        let grace = Instant::now() + Duration::from_millis(PROCESS_GRACE_MS);
        while Instant::now() < grace && !group.leader_exited().unwrap_or(true) {
            if self.read_within(Duration::from_millis(5)).is_err() {
                break;
            }
        }
        if let Some(control) = control {
            // The helper ends only after everything inside has, so that its end is proof.
            control.end();
            let patience = if control.ends_by_itself() {
                Duration::from_millis(PROCESS_REAP_MS)
            } else {
                HELPER_PATIENCE
            };
            let patience = Instant::now() + patience;
            while Instant::now() < patience && !group.leader_exited().unwrap_or(true) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // Keep the rest of the pipe's output; a read error is no reason to fail now.
        let _ = self.drain();
    }

    /// Takes the bytes that are in the pipe already. A survivor of the leader may go on writing, so this is bounded.
    fn drain(&mut self) -> io::Result<()> {
        let until = self.output.total_bytes() + PROCESS_DRAIN_BYTES_MAX;
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
    let patience = Instant::now() + Duration::from_millis(PROCESS_REAP_MS);
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

/// Limits of the sandbox.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
