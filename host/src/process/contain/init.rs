//! The inner helper: the first process inside. Sets everything up, gives up every right, starts the program, collects
//! what dies, and ends with the program.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use super::outer::{At, Step, control};
use super::spec::{self, Message, Spec};
use super::{Sandbox, namespaces, root, walls};
use crate::limits;

/// Runs to the end of the program. When the first process of a process namespace ends, the kernel ends all others.
pub(super) fn main() -> ExitCode {
    let Ok(mut outer) = control() else {
        return ExitCode::FAILURE;
    };
    let message = run(&mut outer).unwrap_or_else(|(step, error)| Message::Failed {
        step: step.to_owned(),
        reason: error.to_string(),
    });
    match spec::say(&mut outer, &message) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(outer: &mut UnixStream) -> Step<Message> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at("tying the run to its starter")?;
    let text = spec::receive(outer).at("reading the specification")?;
    let spec: Spec = serde_json::from_slice(&text).at("reading the specification")?;
    // A group and a session of their own: no terminal, and no signal from inside reaches the outer helper.
    rustix::process::setsid().at("leaving the terminal")?;
    prefer_to_be_killed();
    let is_first = spec.sandbox == Sandbox::Namespaces;
    if is_first {
        namespaces::raise_loopback().at("switching the loopback device on")?;
        rustix::system::sethostname(b"sandbox").at("naming the machine")?;
        root::build(&spec)?;
    }
    walls::raise(&spec)?;
    match start(&spec) {
        Ok(child) => watch(&child, is_first).at("watching the program"),
        Err(error) => Ok(Message::NotStarted(error.raw_os_error().unwrap_or_default())),
    }
}

/// Where the machine runs out of memory, the kernel should end a run before anything else.
fn prefer_to_be_killed() {
    // Refused nowhere, and only a preference.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

fn start(spec: &Spec) -> io::Result<Child> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the helper of the one place that starts processes"
    )]
    let mut builder = Command::new(&spec.program);
    builder
        .args(&spec.arguments)
        .current_dir(&spec.directory)
        .env_clear()
        .envs(&spec.environment)
        .stdin(Stdio::null());
    builder.spawn()
}

/// Waits for the program, collecting whatever else ends. Counts processes and memory now and then.
fn watch(child: &Child, is_first: bool) -> io::Result<Message> {
    let program = Pid::from_child(child);
    let ended = rustix::process::pidfd_open(program, PidfdFlags::empty())?;
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: limits::CONTAIN_WATCH_MS * 1_000_000,
    };
    let memory_max = memory_bytes_max();
    loop {
        match rustix::event::poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(message) = reap(program)? {
            return Ok(message);
        }
        if is_first && let Some(message) = over_limit(memory_max) {
            return Ok(message);
        }
    }
}

/// Collects everything that has ended; a message where the program is among it.
fn reap(program: Pid) -> io::Result<Option<Message>> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => return Ok(Some(end(status))),
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn end(status: WaitStatus) -> Message {
    match status.exit_status() {
        Some(code) => Message::Exited(code),
        None => Message::Signalled(status.terminating_signal().unwrap_or_default()),
    }
}

/// A part of the machine's memory, so that the rest of the machine goes on.
fn memory_bytes_max() -> u64 {
    let system = rustix::system::sysinfo();
    let total = system.totalram.saturating_mul(u64::from(system.mem_unit));
    limits::CONTAIN_MEMORY_BYTES_MAX.min(total / 4 * 3)
}

/// What all processes of the namespace use together.
///
/// The count of pages that belong to one process alone is quick, but counts what a fork shares with its parent again
/// and again; only where it is too high, the kernel is asked for the exact share of each.
fn over_limit(memory_max: u64) -> Option<Message> {
    let (tasks, memory) = usage(resident_bytes);
    if tasks > limits::CONTAIN_TASKS_MAX {
        return Some(Message::Tasks);
    }
    if memory <= memory_max {
        return None;
    }
    let (_, exact) = usage(proportional_bytes);
    (exact > memory_max).then_some(Message::Memory)
}

/// Tasks and memory, by a measure for one process.
fn usage(memory_of: fn(&str) -> Option<u64>) -> (u64, u64) {
    let (mut tasks, mut memory) = (0, 0);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        else {
            continue;
        };
        tasks += threads(pid).unwrap_or(1);
        memory += memory_of(pid).unwrap_or_default();
        if tasks > limits::CONTAIN_TASKS_MAX {
            break;
        }
    }
    (tasks, memory)
}

/// The number of threads: the eighteenth field after the name, which may itself hold blanks and brackets.
fn threads(pid: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(17)?.parse().ok()
}

fn resident_bytes(pid: &str) -> Option<u64> {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut fields = pages
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|field| field.parse::<u64>().ok());
    let (resident, shared) = (fields.next()?, fields.next()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

fn proportional_bytes(pid: &str) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss_Anon:").or_else(|| line.strip_prefix("Pss:")));
    let kibibytes: u64 = line?.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
