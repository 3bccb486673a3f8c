//! Runs that outlived their daemon: one that is killed cannot end what it runs.
//!
//! In a sandbox everything dies with the daemon, by the kernel's hand. A run without one only carries a mark in its
//! environment, which names the process that started it; the next daemon ends what carries the mark of a dead one.
//! Programs that cleared their environment escape this, as they escape the end of their run.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::group::Cookie;
use crate::limits;

/// When the kernel started a process, in clock ticks since boot; absent where there is no such process, or no `/proc`.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may hold anything; the 22nd is the start time.
    let (_, after_command) = stat.rsplit_once(')')?;
    after_command.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// This process, as a mark names it: no other one ever has both its id and its time.
pub(super) fn ours() -> String {
    let pid = std::process::id();
    format!("{pid}-{}", start_ticks(pid).unwrap_or_default())
}

/// Ends the processes of runs whose daemon is gone. Gives how many.
pub fn end_orphans() -> usize {
    let Ok(namespace) = namespace(Path::new("/proc/self")) else {
        return 0;
    };
    let mut ended = 0;
    // Repeated, because one that is just starting another may be missed once.
    for _ in 0..limits::PROCESS_STRAY_ROUNDS_MAX {
        let round = pids().filter(|&pid| end_if_orphan(pid, &namespace)).count();
        ended += round;
        if round == 0 {
            break;
        }
    }
    ended
}

fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
}

/// The handle is taken before the mark is read, so that the id cannot pass to another process in between.
fn end_if_orphan(pid: Pid, ours: &Path) -> bool {
    let place = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    // In another namespace, such as a container's, the number of a daemon means another process.
    let is_near = namespace(&place).is_ok_and(|theirs| theirs == ours);
    let is_orphan = is_near && environment(&place).is_ok_and(|environment| is_of_the_dead(&environment));
    is_orphan && pidfd_send_signal(&handle, Signal::KILL).is_ok()
}

fn namespace(process: &Path) -> io::Result<PathBuf> {
    fs::read_link(process.join("ns/pid"))
}

/// The environment with which a process was started. A zombie has none, and another user's cannot be read.
fn environment(process: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(process.join("environ"))?;
    let mut environment = Vec::new();
    file.take(limits::PROCESS_ENVIRONMENT_BYTES_MAX)
        .read_to_end(&mut environment)?;
    Ok(environment)
}

/// True for an environment that carries the mark of a process which is gone.
fn is_of_the_dead(environment: &[u8]) -> bool {
    let mark = environment.split(|&byte| byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(Cookie::VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok()
    });
    let mut parts = mark.into_iter().flat_map(|mark| mark.splitn(3, '-'));
    let (Some(pid), Some(ticks), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    match (pid.parse(), ticks.parse::<u64>()) {
        // Without a time it is not known which process is meant.
        (Ok(pid), Ok(ticks)) if ticks > 0 => start_ticks(pid) != Some(ticks),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(mark: &str) -> bool {
        is_of_the_dead(format!("PATH=/bin\0TOOL_RUN={mark}\0HOME=/").as_bytes())
    }

    #[test]
    fn only_the_mark_of_a_process_that_is_gone_makes_an_orphan() {
        let ours = ours();
        assert!(!is(&format!("{ours}-0123")), "it lives");
        let (pid, ticks) = ours.split_once('-').expect("two numbers");
        let earlier: u64 = ticks.parse::<u64>().expect("a time") - 1;
        assert!(
            is(&format!("{pid}-{earlier}-0123")),
            "the number is another process's now"
        );
        for mark in [
            "",
            "x",
            "1-2",
            "-1-2-3",
            "1-0-x",
            "x-2-3",
            &uuid::Uuid::new_v4().to_string(),
        ] {
            assert!(!is(mark), "{mark}");
        }
        assert!(!is_of_the_dead(b"PATH=/bin") && !is_of_the_dead(b""));
    }
}
