//! Ends everything that a run started: its process group, and what left the group.

use std::io;
use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::mark::RunMark;

/// Largest file that a run may write: more than any build product, less than a disk.
pub(crate) const PROCESS_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// The process group of one run.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    mark: RunMark,
}

impl Group {
    pub(super) fn new(child: &Child, mark: RunMark) -> Self {
        Self {
            leader: Pid::from_child(child),
            mark,
        }
    }

    /// Sets resource limits that no ordinary run reaches: no core dumps in the user's tree, and no file that fills the
    /// disk.
    ///
    /// This happens from outside just after the start, because between fork and exec it would need unsafe code. What
    /// the program starts later inherits the limits. Memory is not limited: node reserves far more than it uses.
    pub(super) fn limit(&self) {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{Resource, Rlimit, prlimit};
            let limit = |resource, value| {
                let both = Rlimit {
                    current: Some(value),
                    maximum: Some(value),
                };
                // Refused if the hard limit is lower already, which is as good.
                let _ = prlimit(Some(self.leader), resource, both);
            };
            limit(Resource::Core, 0);
            limit(Resource::Fsize, PROCESS_FILE_BYTES_MAX);
        }
    }

    /// True if the leader has exited. It is not reaped, so its id cannot be reused.
    pub(super) fn leader_exited(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::Pid(self.leader), options) {
            Ok(status) => Ok(status.is_some()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks every process of the group to end.
    pub(super) fn terminate(&self) {
        // An error means that no process of the group is left.
        let _ = rustix::process::kill_process_group(self.leader, Signal::TERM);
    }

    /// Kills every process of the group. Must be called before the leader is reaped: after that, the id may belong to
    /// another group.
    pub(super) fn kill(&self) {
        let _ = rustix::process::kill_process_group(self.leader, Signal::KILL);
    }

    /// Kills what left the group but still carries the run's mark.
    pub(super) fn kill_strays(&self) {
        #[cfg(target_os = "linux")]
        strays::kill_marked(&self.mark);
        #[cfg(not(target_os = "linux"))]
        let _ = &self.mark;
    }
}

/// Waits on a thread for a child that hangs in the kernel.
pub(super) fn reap_later(id: u32) {
    let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) else {
        return;
    };
    let wait = move || {
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    };
    // Without a thread the child stays a zombie until the daemon ends, which costs one entry of the process table.
    let _ = std::thread::Builder::new().name("reap".to_owned()).spawn(wait);
}

#[cfg(target_os = "linux")]
mod strays {
    //! Processes that left a run's group, found through `/proc`.

    use rustix::process::{Pid, PidfdFlags, Signal};

    use crate::mark::{RunMark, list_processes, read_environment};
    use crate::orphans::PROCESS_STRAY_ROUNDS_MAX;

    /// Kills them, in several rounds: a process that is just starting another may be missed in one.
    pub(super) fn kill_marked(mark: &RunMark) {
        let mark = format!("{}={}", RunMark::VARIABLE, mark.value()).into_bytes();
        repeat_rounds(|| list_processes().filter(|&pid| kill_one(pid, &mark)).count());
    }

    /// Repeats until a round has found nothing, or up to the limit.
    fn repeat_rounds(mut round: impl FnMut() -> usize) {
        for _ in 0..PROCESS_STRAY_ROUNDS_MAX {
            if round() == 0 {
                return;
            }
        }
    }

    /// Kills a process with this mark. The handle is opened before the mark is checked for good, so that the id cannot
    /// pass to another process in between. The first check avoids a handle for every process of the machine.
    fn kill_one(pid: Pid, mark: &[u8]) -> bool {
        if !carries_mark(pid, mark) {
            return false;
        }
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            return false;
        };
        carries_mark(pid, mark) && rustix::process::pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }

    /// True if the process was started with the mark in its environment.
    fn carries_mark(pid: Pid, mark: &[u8]) -> bool {
        read_environment(pid).is_ok_and(|text| text.split(|&byte| byte == 0).any(|variable| variable == mark))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn strays_that_come_back_are_ended_a_bounded_number_of_times() {
            let mut rounds = 0;
            repeat_rounds(|| {
                rounds += 1;
                usize::from(rounds < 10_000)
            });
            assert_eq!(rounds, PROCESS_STRAY_ROUNDS_MAX);
        }
    }
}
