//! Runs that outlived their daemon: one that is killed cannot end what it runs.
//!
//! In a sandbox everything dies with the daemon, by the kernel's hand or the helper's. A run without one only carries a
//! mark in its environment, which names the process that started it; the next daemon ends what carries the mark of a
//! dead one, in whatever namespace it is. Programs that cleared their environment escape this, as they escape the end
//! of their run.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::group::Cookie;
use crate::limits;

/// When the kernel started a process, in clock ticks since boot; absent where there is no such process, where it has
/// ended and only waits for its parent to notice, or where there is no `/proc`.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may hold anything; the 22nd is the start time.
    let (_, after_command) = stat.rsplit_once(')')?;
    let mut fields = after_command.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| !has_ended)
}

/// This process, as a mark names it: no other one in its namespace ever has both its id and its time.
pub(super) fn ours() -> String {
    let pid = std::process::id();
    format!(
        "{pid}-{}-{}",
        start_ticks(pid).unwrap_or_default(),
        namespace().unwrap_or_default()
    )
}

/// The number of the namespace in which this process has its id. While anything lives in it or in one of its own, no
/// other one has this number.
fn namespace() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// Ends the processes of runs whose daemon is gone. Gives how many.
pub fn end_orphans() -> usize {
    let Some(namespace) = namespace() else {
        return 0;
    };
    let mut ended = 0;
    // Repeated, because one that is just starting another may be missed once.
    for _ in 0..limits::PROCESS_STRAY_ROUNDS_MAX {
        let round = pids().filter(|&pid| end_if_orphan(pid, namespace)).count();
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
fn end_if_orphan(pid: Pid, namespace: u64) -> bool {
    let place = format!("/proc/{}", pid.as_raw_nonzero());
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    let is_orphan = environment(Path::new(&place)).is_ok_and(|environment| is_of_the_dead(&environment, namespace));
    is_orphan && pidfd_send_signal(&handle, Signal::KILL).is_ok()
}

/// The environment with which a process was started. A zombie has none, and another user's cannot be read.
fn environment(process: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(process.join("environ"))?;
    let mut environment = Vec::new();
    file.take(limits::PROCESS_ENVIRONMENT_BYTES_MAX)
        .read_to_end(&mut environment)?;
    Ok(environment)
}

/// True for an environment that carries the mark of a process of this namespace which is gone. In another one, such as
/// a container's, its number means another process.
fn is_of_the_dead(environment: &[u8], namespace: u64) -> bool {
    let mark = environment.split(|&byte| byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(Cookie::VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok()
    });
    let parts: Vec<&str> = mark.into_iter().flat_map(|mark| mark.splitn(4, '-')).collect();
    let &[pid, ticks, theirs, _] = parts.as_slice() else {
        return false;
    };
    match (pid.parse(), ticks.parse::<u64>()) {
        // Without a time it is not known which process is meant.
        (Ok(pid), Ok(ticks)) if ticks > 0 => theirs.parse() == Ok(namespace) && start_ticks(pid) != Some(ticks),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(mark: &str) -> bool {
        let environment = format!("PATH=/bin\0TOOL_RUN={mark}\0HOME=/");
        is_of_the_dead(environment.as_bytes(), namespace().expect("there is a /proc"))
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test is the starter")]
    fn a_process_that_has_ended_is_gone_before_its_parent_notices() {
        let mut child = std::process::Command::new("/bin/cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("there is a `cat`");
        assert!(start_ticks(child.id()).is_some());
        drop(child.stdin.take());
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while start_ticks(child.id()).is_some() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(start_ticks(child.id()).is_none());
        child.wait().expect("it ends");
    }

    #[test]
    fn only_the_mark_of_a_process_that_is_gone_makes_an_orphan() {
        let ours = ours();
        assert!(!is(&format!("{ours}-0123")), "it lives");
        let numbers: Vec<u64> = ours
            .split('-')
            .map(|number| number.parse().expect("a number"))
            .collect();
        let &[pid, ticks, namespace] = numbers.as_slice() else {
            panic!("{ours}");
        };
        let earlier = ticks - 1;
        assert!(
            is(&format!("{pid}-{earlier}-{namespace}-0123")),
            "the number is another process's now"
        );
        let elsewhere = namespace + 1;
        assert!(!is(&format!("{pid}-{earlier}-{elsewhere}-0123")), "a container's");
        assert!(!is(&format!("{pid}-{earlier}-0123")));
        for mark in [
            "",
            "x",
            "1-2",
            "-1-2-3-4",
            &format!("1-0-{namespace}-x"),
            &format!("x-2-{namespace}-3"),
            &uuid::Uuid::new_v4().to_string(),
        ] {
            assert!(!is(mark), "{mark}");
        }
        assert!(!is_of_the_dead(b"PATH=/bin", namespace) && !is_of_the_dead(b"", namespace));
    }
}
