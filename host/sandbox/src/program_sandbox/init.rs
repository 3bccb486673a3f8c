//! The inner helper: the first process inside. It sets everything up, gives up every right, starts the program, reaps
//! every process that ends, and exits with the program.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatVfs, Timestamps};
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus};

use super::members::{self, Members, within_machine};
use super::memory::MachineMemory;
use super::outer::{StepContext, StepResult, TYING, die_with_starter, open_control, send_message, starter_gone};
use super::spec::{self, HelperMessage, RunSpec};
use super::{Invocation, Sandbox, namespaces, restrictions, root};

/// Time between two measurements of what a run uses. A process that allocates as fast as it can gets some hundred MiB
/// ahead.
const CONTAIN_WATCH_MS: i64 = 50;

/// Runs to the end of the program. When the first process of a process namespace ends, the kernel kills all others.
pub(super) fn main() -> ExitCode {
    let Ok(mut outer) = open_control() else {
        return ExitCode::FAILURE;
    };
    let (message, left) = supervise_run(&mut outer).unwrap_or_else(|(step, error)| {
        let step = step.to_owned();
        let reason = error.to_string();
        (HelperMessage::Failed { step, reason }, Vec::new())
    });
    let left: Vec<_> = left.iter().map(AsFd::as_fd).collect();
    match send_message(&outer, &message, &left) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns how the run ended, and the trees that are handed back.
fn supervise_run(outer: &mut UnixStream) -> StepResult<(HelperMessage, Vec<OwnedFd>)> {
    die_with_starter(outer).at(TYING)?;
    let text = spec::receive_text(outer).at("reading the specification")?;
    let spec: RunSpec = serde_json::from_slice(&text).at("reading the specification")?;
    // A session of its own: the program has no terminal, and a signal to its group does not reach the outer helper.
    rustix::process::setsid().at("leaving the terminal")?;
    prefer_to_be_killed();
    let mut written = Vec::new();
    if spec.sandbox == Sandbox::Namespaces {
        namespaces::raise_loopback().at("switching the loopback device on")?;
        rustix::system::sethostname(b"sandbox").at("naming the machine")?;
        written = root::build_root(&spec)?;
    } else {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).at("adopting processes")?;
        // From here on `watch_program` notices the end of the starter. A helper that the kernel kills could not end what it has
        // started.
        rustix::process::set_parent_process_death_signal(None).at(TYING)?;
    }
    refresh_times(&spec);
    let left = open_trees(&spec).at("holding on to what the run writes")?;
    restrictions::confine_process(&spec)?;
    let message = run_commands(&spec, outer, &written);
    if spec.sandbox == Sandbox::Landlock {
        members::end_descendants();
    }
    match message? {
        message if message == HelperMessage::Exited(0) || spec.hands_back => Ok((message, left)),
        message => Ok((message, Vec::new())),
    }
}

/// Runs the commands that come before, and then the program. The first command that fails ends the run.
fn run_commands(spec: &RunSpec, outer: &UnixStream, written: &[OwnedFd]) -> StepResult<HelperMessage> {
    let program = Invocation {
        program: spec.program.clone(),
        arguments: spec.arguments.clone(),
    };
    let mut message = HelperMessage::Exited(0);
    for invocation in spec.before.iter().chain([&program]) {
        message = match start_apart(spec, invocation) {
            Ok(child) => watch_program(&child, outer, spec, written).at("watching the program")?,
            Err(error) => HelperMessage::NotStarted(error.raw_os_error().unwrap_or_default()),
        };
        if message != HelperMessage::Exited(0) {
            break;
        }
    }
    Ok(message)
}

/// Sets the time of files to now. A file that is gone is left alone.
fn refresh_times(spec: &RunSpec) {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    for path in &spec.refreshed {
        // A failure only means that a build tool does not rebuild; the user may not own the file.
        let _ = rustix::fs::utimensat(CWD, spec.root.join(path), &times, AtFlags::SYMLINK_NOFOLLOW);
    }
}

/// Opens the trees that are handed back. Programs that the run starts do not inherit the handles.
fn open_trees(spec: &RunSpec) -> io::Result<Vec<OwnedFd>> {
    let installation = spec.installation.as_ref();
    if installation.is_none() && !spec.hands_back {
        return Ok(Vec::new());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let outside = installation.and_then(|installation| installation.outside.as_ref());
    let trees = std::iter::once(&spec.root).chain(outside);
    let open = |path| Ok(rustix::fs::open(path, flags, Mode::empty())?);
    trees.map(open).collect()
}

/// Asks the kernel to kill the run before other processes when memory runs out.
fn prefer_to_be_killed() {
    // A preference, so a failure does not matter.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

/// Starts the program so that it cannot signal this process. In a process namespace the kernel ensures that. In the
/// fallback the program gets a narrower Landlock domain, which is set on a thread that ends when the program runs.
fn start_apart(spec: &RunSpec, invocation: &Invocation) -> io::Result<Child> {
    if spec.sandbox == Sandbox::Namespaces {
        return start_program(spec, invocation);
    }
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            restrictions::keep_signals_in().map_err(io::Error::other)?;
            start_program(spec, invocation)
        });
        starter
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the starter failed")))
    })
}

fn start_program(spec: &RunSpec, invocation: &Invocation) -> io::Result<Child> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the helper of the one place that starts processes"
    )]
    let mut builder = Command::new(&invocation.program);
    builder
        .args(&invocation.arguments)
        .current_dir(&spec.directory)
        .env_clear()
        .envs(&spec.environment)
        .stdin(Stdio::null());
    builder.spawn()
}

/// Waits for the program and reaps every other process that ends. Measures processes, memory and storage at intervals.
///
/// # Errors
///
/// The outer helper has ended, or the kernel refused to wait.
fn watch_program(child: &Child, outer: &UnixStream, spec: &RunSpec, written: &[OwnedFd]) -> io::Result<HelperMessage> {
    let program = Pid::from_child(child);
    // A handle and not the id: the loop can wait for it together with the socket.
    let ended = rustix::process::pidfd_open(program, PidfdFlags::empty())?;
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: CONTAIN_WATCH_MS * 1_000_000,
    };
    let (members, bounds) = (Members::in_sandbox(spec.sandbox), within_machine(spec.bounds));
    let before = MachineMemory::now();
    let drains = || MachineMemory::now().is_drained_since(&before, bounds.memory_bytes);
    loop {
        let mut polled = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::new(outer, PollFlags::empty()),
        ];
        match rustix::event::poll(&mut polled, Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if polled[1].revents().contains(PollFlags::HUP) {
            return Err(starter_gone());
        }
        let full = find_full(written);
        if let Some(message) = reap_ended(program)? {
            // A program that failed on a full file system has no result of its own.
            return Ok(full.filter(|_| message != HelperMessage::Exited(0)).unwrap_or(message));
        }
        if let Some(full) = full {
            return Ok(full);
        }
        if let Some(message) = members
            .over(bounds)
            .or_else(|| drains().then_some(HelperMessage::Memory))
        {
            return Ok(message);
        }
    }
}

/// Returns a message if a file system that takes the run's writes is full or has no room for another file.
fn find_full(written: &[OwnedFd]) -> Option<HelperMessage> {
    let rooms = written.iter().filter_map(|handle| rustix::fs::fstatvfs(handle).ok());
    let is_full = |room: &StatVfs| room.f_bavail * room.f_frsize < FULL_BYTES || room.f_ffree == 0;
    let full = rooms.into_iter().find(is_full)?;
    Some(HelperMessage::Full {
        bytes: full.f_blocks * full.f_frsize,
    })
}

/// Less room than this counts as none: a program that writes in larger pieces has failed already.
const FULL_BYTES: u64 = 64 * 1024;

/// Reaps everything that has ended; returns a message if the program is among it.
fn reap_ended(program: Pid) -> io::Result<Option<HelperMessage>> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => return Ok(Some(end_message(status))),
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn end_message(status: WaitStatus) -> HelperMessage {
    match status.exit_status() {
        Some(code) => HelperMessage::Exited(code),
        None => HelperMessage::Signalled(status.terminating_signal().unwrap_or_default()),
    }
}
