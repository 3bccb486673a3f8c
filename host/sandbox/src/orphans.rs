//! Ends runs that outlived their daemon: a killed daemon cannot end what it runs.
//!
//! A sandboxed run dies with the daemon, by the kernel or by its helper. A run without a sandbox only carries a mark in
//! its environment, which names the process that started it; the next daemon kills what carries the mark of a dead one.
//! A program that cleared its environment escapes this, as it escapes the end of its run.

use rustix::process::Pid;

use crate::mark::{RunMark, list_processes, read_namespace, start_ticks};

/// Rounds that look for the processes that left a run's group. Each round ends those that the round before missed.
pub(crate) const PROCESS_STRAY_ROUNDS_MAX: u32 = 5;

/// Kills the processes of runs whose daemon is gone. Returns how many there were.
pub fn end_orphans() -> usize {
    let Some(namespace) = read_namespace() else {
        return 0;
    };
    let mut ended = 0;
    // In several rounds: a process that is just starting another may be missed in one.
    for _ in 0..PROCESS_STRAY_ROUNDS_MAX {
        let round = list_processes().filter(|&pid| end_if_orphan(pid, namespace)).count();
        ended += round;
        if round == 0 {
            break;
        }
    }
    ended
}

/// Kills an orphan. The handle is opened before the mark is read, so that the id cannot pass to another process in
/// between.
#[cfg(target_os = "linux")]
fn end_if_orphan(pid: Pid, namespace: u64) -> bool {
    use crate::mark::read_environment;
    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    let is_orphan = read_environment(pid).is_ok_and(|environment| is_of_the_dead(&environment, namespace));
    is_orphan && pidfd_send_signal(&handle, Signal::KILL).is_ok()
}

/// The system shows no environments of other processes.
#[cfg(not(target_os = "linux"))]
fn end_if_orphan(_pid: Pid, _namespace: u64) -> bool {
    false
}

/// True for an environment with the mark of a process of this namespace that is gone. In another namespace, such as a
/// container's, the id means another process.
fn is_of_the_dead(environment: &[u8], namespace: u64) -> bool {
    let mark = environment.split(|&byte| byte == 0).find_map(|variable| {
        let value = variable
            .strip_prefix(RunMark::VARIABLE.as_bytes())?
            .strip_prefix(b"=")?;
        std::str::from_utf8(value).ok()
    });
    let parts: Vec<&str> = mark.into_iter().flat_map(|mark| mark.splitn(4, '-')).collect();
    let &[pid, ticks, theirs, _] = parts.as_slice() else {
        return false;
    };
    match (pid.parse(), ticks.parse::<u64>()) {
        // Without a start time the id may mean any process.
        (Ok(pid), Ok(ticks)) if ticks > 0 => theirs.parse() == Ok(namespace) && start_ticks(pid) != Some(ticks),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::name_own_process;

    fn is(mark: &str) -> bool {
        let environment = format!("PATH=/bin\0TOOL_RUN={mark}\0HOME=/");
        is_of_the_dead(environment.as_bytes(), read_namespace().expect("there is a /proc"))
    }

    #[test]
    fn only_the_mark_of_a_process_that_is_gone_makes_an_orphan() {
        let ours = name_own_process();
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
