//! Runs a program for a skill: an argument vector without a shell, a cleared environment, a process group of its own,
//! and bounded output.
//!
//! This is the only crate of the engine that starts processes. It knows neither recipes nor policy: `skill::imports`
//! decides who may run which program. However a run ends (by itself, by its time limit, by cancellation), everything
//! that it started ends with it. [`run_command`] is not a sandbox: the program has the user's rights. [`run_contained`] is one.

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "without a sandbox, its messages have no sender")
)]

pub mod build;
pub mod disk_space;
pub mod environment;
mod group;
mod handles;
pub mod heap;
pub mod helper_process;
mod key_command;
mod mark;
mod orphans;
mod output;
pub mod program_sandbox;
pub mod proxy;
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

use group::Group;
pub use key_command::{PrintError, read_printed};
use mark::RunMark;
pub use mark::start_ticks;
pub use orphans::end_orphans;
pub use output::keep_ends;
use output::{CapturedOutput, LiveLines};
use program_sandbox::{Enclosure, HelperMessage, LeftTrees, RunControl};
use proxy::{Proxy, ProxyRoute};

/// Sends without `SIGPIPE` if the other end is closed. On other systems the program ignores that signal from its start.
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

/// Bytes of a run's output that are kept, half of them from the beginning and half from the end (`wit/skill.wit`: at
/// most 1 MiB).
const PROCESS_OUTPUT_KEPT_BYTES: usize = 1024 * 1024;

/// Attempts, 20 ms apart, to start a program whose file is open for writing.
const PROCESS_BUSY_RETRIES_MAX: u32 = 10;

/// Bytes of output that are read after the leader has exited. A pipe holds 64 KiB by default and at most 1 MiB.
const PROCESS_DRAIN_BYTES_MAX: u64 = 1024 * 1024;

/// Time between the request to end and the kill. Together with everything else, a cancelled run is gone within 500 ms.
const PROCESS_GRACE_MS: u64 = 200;

/// Time to wait for a killed child before a thread does. A kill takes a few milliseconds.
const PROCESS_REAP_MS: u64 = 200;

/// Command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments, passed on unchanged; no shell interprets them.
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
    /// Bytes of output that are kept, half of them from the beginning and half from the end.
    pub output_kept_bytes: usize,
    /// Bytes of output after which the run is ended.
    pub output_bytes_max: u64,
}

impl RunLimits {
    /// The engine's limits on output, and a time limit.
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
    /// A signal from elsewhere ended the program.
    Signalled(i32),
    /// The time limit passed.
    TimedOut,
    /// The run was cancelled.
    Cancelled,
    /// The program wrote more than the limit.
    OutputLimit,
    /// The run had more processes and threads than the sandbox allows.
    TaskLimit,
    /// The run used more memory than the sandbox allows.
    MemoryLimit,
    /// The run filled a file system that is dropped with it.
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
    /// Standard output and standard error, in the order in which they arrived.
    pub output: String,
    /// True if the middle of the output was left out.
    pub output_cut: bool,
    /// Wall time.
    pub duration: Duration,
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program did not start.
    #[error("`{program}` could not be started")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system could not report on the program.
    #[error("`{program}` could not be watched")]
    Watch {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The sandbox could not be set up, so the program did not run.
    #[error("the sandbox around `{program}` could not be set up: {reason}")]
    Contain {
        /// The program.
        program: String,
        /// The failed step and its error.
        reason: String,
    },
}

/// Longest sleep before the clock, the token and the child are checked.
const TICK: Duration = Duration::from_millis(20);

/// Time for the fallback's helper to find and kill its processes, even with little processor time. Killing the helper
/// earlier leaves the rest running.
const HELPER_PATIENCE: Duration = Duration::from_secs(20);

/// Runs a program until it ends, or the time limit, a cancellation or the output limit ends it.
///
/// Blocks. `progress` gets the output line by line, without control characters, at most
/// [`limits::PROCESS_LIVE_BYTES_MAX`] of it. When this returns, the program's process group is gone, and on Linux also
/// what left the group but kept its environment.
///
/// # Errors
///
/// The program could not be started or watched.
pub fn run_command(
    command: &CommandSpec,
    limits: &RunLimits,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<RunOutput, ProcessError> {
    let started = Instant::now();
    let leader = start_command(command).map_err(|source| not_started(command, source))?;
    follow_run(command, leader, started, limits, cancel, progress).map(|ended| ended.run)
}

/// Runs a program like [`run_command`], in a sandbox. When this returns, everything inside is gone.
///
/// The program sees the repository at its own path and may write there; nothing of that reaches the real tree. Beside
/// the repository it sees only the system's directories and what it was installed with, and can change none of that.
/// The time to set this up counts.
///
/// # Errors
///
/// As of [`run_command`], or the sandbox could not be set up.
pub fn run_contained(
    command: &CommandSpec,
    enclosure: &Enclosure,
    limits: &RunLimits,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<RunOutput, ProcessError> {
    let started = Instant::now();
    let leader = start_contained(command, enclosure).map_err(|source| not_started(command, source))?;
    follow_run(command, leader, started, limits, cancel, progress).map(|ended| ended.run)
}

/// Runs a program like [`run_contained`], and hands the trees back that the enclosure asks for. An installation may
/// also reach the package registries that the enclosure names; its trees come back if the program exited with 0.
///
/// # Errors
///
/// As of [`run_contained`].
pub fn run_handing_back(
    command: &CommandSpec,
    enclosure: &Enclosure,
    limits: &RunLimits,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<EndedRun, ProcessError> {
    let started = Instant::now();
    let leader = start_contained(command, enclosure).map_err(|source| not_started(command, source))?;
    follow_run(command, leader, started, limits, cancel, progress)
}

/// Result of a run with the trees that it handed back.
#[derive(Debug)]
pub struct EndedRun {
    /// End and output.
    pub run: RunOutput,
    /// Trees that are handed back.
    pub left: Option<LeftTrees>,
    /// Destinations that the proxy refused, one sentence each.
    pub refused: Vec<String>,
}

fn not_started(command: &CommandSpec, source: io::Error) -> ProcessError {
    let program = command.program.display().to_string();
    ProcessError::Start { program, source }
}

/// A started process: the program, or the helper that runs it.
struct StartedRun {
    child: Child,
    reader: PipeReader,
    group: Group,
    control: Option<RunControl>,
    /// Destinations that an installation may reach.
    way: ProxyRoute,
}

fn follow_run(
    command: &CommandSpec,
    leader: StartedRun,
    started: Instant,
    limits: &RunLimits,
    cancel: &CancellationToken,
    progress: &dyn Fn(&str),
) -> Result<EndedRun, ProcessError> {
    let StartedRun {
        mut child,
        reader,
        group,
        mut control,
        way,
    } = leader;
    let mut run = ActiveRun {
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
    // Kills the group before the child is reaped: afterwards the id may belong to another group.
    group.kill();
    let status = reap_child(&mut child);
    group.kill_strays();
    let watch = |source| ProcessError::Watch {
        program: command.program.display().to_string(),
        source,
    };
    let (end, left) = match (stopped.map_err(watch)?, control) {
        (Some(end), control) => {
            control.into_iter().for_each(RunControl::abandon);
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

/// Reads how the program ended, and the trees handed back, from the helper's message.
fn contained_end(
    command: &CommandSpec,
    said: io::Result<(HelperMessage, Option<LeftTrees>)>,
) -> Result<(RunEnd, Option<LeftTrees>), ProcessError> {
    let failed = |reason| ProcessError::Contain {
        program: command.program.display().to_string(),
        reason,
    };
    let (message, left) = said.map_err(|error| failed(error.to_string()))?;
    let end = match message {
        HelperMessage::Exited(code) => RunEnd::Exited(code),
        HelperMessage::Signalled(signal) => RunEnd::Signalled(signal),
        HelperMessage::Tasks => RunEnd::TaskLimit,
        HelperMessage::Memory => RunEnd::MemoryLimit,
        HelperMessage::Full { bytes } => RunEnd::StorageLimit { bytes },
        HelperMessage::NotStarted(errno) => return Err(not_started(command, io::Error::from_raw_os_error(errno))),
        HelperMessage::Failed { step, reason } => return Err(failed(format!("{step}: {reason}"))),
        HelperMessage::Listening => return Err(failed("the sandbox ended without saying why".to_owned())),
    };
    Ok((end, left))
}

/// Starts the program with one pipe for both outputs, so that their order is kept.
fn start_command(command: &CommandSpec) -> io::Result<StartedRun> {
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
    start_group(builder, RunMark::new(), None, ProxyRoute::default())
}

/// Starts the daemon, which is not sandboxed and outlives its starter. It runs in `/` with only this environment,
/// without input, and with a pipe for its standard output.
///
/// # Errors
///
/// The system's error.
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

/// Starts the helper, which reads from its standard input what to run. Its working directory always exists, and its
/// environment holds only the mark of the run.
fn start_contained(command: &CommandSpec, enclosure: &Enclosure) -> io::Result<StartedRun> {
    let mark = RunMark::new();
    let mut marked = command.clone();
    marked
        .environment
        .insert(RunMark::VARIABLE.to_owned(), mark.value().to_owned());
    let (control, helpers) = RunControl::new(&marked, enclosure)?;
    let (program, argument) = program_sandbox::helper_program();
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
    start_group(builder, mark, Some(control), way.unwrap_or_default())
}

/// Starts a process group with one pipe for both outputs.
fn start_group(
    mut builder: Command,
    mark: RunMark,
    control: Option<RunControl>,
    way: ProxyRoute,
) -> io::Result<StartedRun> {
    let (reader, writer) = io::pipe()?;
    builder
        .env(RunMark::VARIABLE, mark.value())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let child = spawn_retrying(&mut builder)?;
    let group = Group::new(&child, mark);
    group.limit();
    Ok(StartedRun {
        child,
        reader,
        group,
        control,
        way,
    })
}

/// Starts the program, with a few attempts while its file is open for writing: a child of another thread inherits every
/// handle between its fork and its exec, also one that has just written this file.
fn spawn_retrying(builder: &mut Command) -> io::Result<Child> {
    for _ in 0..PROCESS_BUSY_RETRIES_MAX {
        match builder.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(TICK),
            answer => return answer,
        }
    }
    builder.spawn()
}

/// A run under way.
struct ActiveRun<'a> {
    reader: PipeReader,
    end_of_output: bool,
    output: CapturedOutput,
    live: LiveLines<'a>,
    deadline: Instant,
    output_bytes_max: u64,
    /// Destinations that the proxy will serve, once it runs.
    way: Option<ProxyRoute>,
    proxy: Option<Proxy>,
}

impl ActiveRun<'_> {
    /// Reads until the leader has exited (`None`), or until something ends the run early.
    fn follow(
        &mut self,
        group: &Group,
        control: &mut Option<RunControl>,
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

    /// Starts the proxy of an installation when its listener has arrived, and reports what it refuses.
    fn serve(&mut self, control: &mut RunControl) -> io::Result<()> {
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

    /// Asks the group to end, and reads on for a moment: last output is kept, and a full pipe does not keep the program
    /// from ending.
    fn stop(&mut self, group: &Group, control: Option<&RunControl>) {
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
            // The helper exits only after everything inside has ended.
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
        // Keep the rest of the pipe's output; a read error does not matter any more.
        let _ = self.drain();
    }

    /// Reads what is in the pipe already. A process that survives the leader may go on writing, so this is bounded.
    fn drain(&mut self) -> io::Result<()> {
        let until = self.output.total_bytes() + PROCESS_DRAIN_BYTES_MAX;
        while self.output.total_bytes() < until && self.read_within(Duration::ZERO)? {}
        Ok(())
    }

    /// Waits for output and reads one piece of it; false if none came.
    fn read_within(&mut self, wait: Duration) -> io::Result<bool> {
        // A closed pipe is always readable: waiting for it would spin.
        if self.end_of_output {
            std::thread::sleep(wait.min(Duration::from_millis(2)));
            return Ok(false);
        }
        if !wait_readable(&self.reader, wait)? {
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

fn wait_readable(reader: &PipeReader, wait: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(wait).map_err(io::Error::other)?;
    let mut polled = [PollFd::new(reader, PollFlags::IN)];
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reaps the child, so that no zombie stays. One that a kill does not end, because it hangs in the kernel, is left to a
/// thread.
fn reap_child(child: &mut Child) -> Option<ExitStatus> {
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
        // The leader had exited, but the system does not say how: that is not a success.
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
