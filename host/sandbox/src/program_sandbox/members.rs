//! The processes of a run: measures what they use, and ends them where no namespace does.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions};

use super::spec::HelperMessage;
use super::{RunBounds, Sandbox, memory};

/// Rounds of looking for the processes of a run without a namespace, at its end.
const CONTAIN_ROUNDS_MAX: u32 = 200;

/// Processes of a run, found by its kind of sandbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Members {
    sandbox: Sandbox,
}

impl Members {
    pub(super) fn in_sandbox(sandbox: Sandbox) -> Self {
        Self { sandbox }
    }

    /// In a process namespace, all processes of `/proc`; otherwise the descendants of this process.
    fn pids(self) -> Vec<u32> {
        match self.sandbox {
            Sandbox::Namespaces => list_pids().collect(),
            Sandbox::Landlock | Sandbox::None => {
                let mut found = Vec::new();
                visit_descendants(&mut |pid| found.push(pid));
                found
            }
        }
    }

    /// Returns a message if all processes together exceed a limit.
    ///
    /// The quick measurement counts shared memory once for each process. Only if it exceeds the limit, the kernel is
    /// asked for exact shares, which takes it longer.
    pub(super) fn over(self, bounds: RunBounds) -> Option<HelperMessage> {
        let pids = self.pids();
        let segments = self.segments();
        let (mut tasks, mut memory) = (0, segments);
        for &pid in &pids {
            let (threads, bytes) = memory::estimate_memory(pid).unwrap_or((1, 0));
            tasks += threads;
            memory += bytes;
        }
        if tasks > bounds.tasks {
            return Some(HelperMessage::Tasks);
        }
        if memory <= bounds.memory_bytes {
            return None;
        }
        // A process whose exact share cannot be read counts with the quick measurement.
        let exactly = |&pid: &u32| memory::measure_memory(pid).or_else(|| Some(memory::estimate_memory(pid)?.1));
        let exact: u64 = pids.iter().filter_map(exactly).sum();
        (exact + segments > bounds.memory_bytes).then_some(HelperMessage::Memory)
    }

    /// System V segments of the run's namespace. In the fallback the segments are the machine's, and the filter refuses
    /// them.
    fn segments(self) -> u64 {
        match self.sandbox {
            Sandbox::Namespaces => memory::read_segment_bytes(),
            Sandbox::Landlock | Sandbox::None => 0,
        }
    }
}

/// Limits for memory that leave enough of the machine's for everything else.
pub(super) fn within_machine(bounds: RunBounds) -> RunBounds {
    let system = rustix::system::sysinfo();
    let total = u64::from(system.mem_unit).saturating_mul(system.totalram);
    RunBounds {
        memory_bytes: bounds.memory_bytes.min(total / 4 * 3),
        build_bytes: bounds.build_bytes.min(total / 2),
        ..bounds
    }
}

/// Ends every descendant of this process. Requires that this process is their subreaper.
pub(super) fn end_descendants() {
    // Each is stopped as soon as it is found: one that runs on would start others faster than this process finds them.
    let mut stopped = HashSet::new();
    repeat_rounds(|| {
        let before = stopped.len();
        visit_descendants(&mut |pid| {
            if stopped.insert(pid) {
                send_signal(pid, Signal::STOP);
            }
        });
        stopped.len() == before
    });
    repeat_rounds(|| {
        let mut is_any_left = false;
        visit_descendants(&mut |pid| {
            is_any_left = true;
            send_signal(pid, Signal::KILL);
        });
        while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        !is_any_left
    });
}

/// Signals a process. An error means that it has just ended. Its id cannot be reused before it is reaped, and its
/// parent is this process or a stopped one.
fn send_signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Repeats until a round has found nothing, or up to the limit.
fn repeat_rounds(mut is_done: impl FnMut() -> bool) {
    for _ in 0..CONTAIN_ROUNDS_MAX {
        if is_done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// All processes that `/proc` shows.
fn list_pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Visits every descendant of this process as soon as it is found. The kernel lists the children of each thread; a
/// kernel without these lists makes it necessary to read the parent of every process.
fn visit_descendants(tell: &mut dyn FnMut(u32)) {
    let own = std::process::id();
    match list_children(own) {
        Some(children) => visit_children(children, tell),
        None => descendants_by_parent(own).into_iter().for_each(tell),
    }
}

fn visit_children(mut todo: Vec<u32>, tell: &mut dyn FnMut(u32)) {
    todo.iter().for_each(|&pid| tell(pid));
    while let Some(pid) = todo.pop() {
        // A process that has ended has no children.
        let found = list_children(pid).unwrap_or_default();
        found.iter().for_each(|&pid| tell(pid));
        todo.extend(found);
    }
}

/// Reads the children of all threads of a process.
fn list_children(pid: u32) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let list = fs::read_to_string(task.path().join("children")).ok()?;
        found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Some(found)
}

fn descendants_by_parent(own: u32) -> Vec<u32> {
    let parents = list_pids()
        .filter_map(|pid| Some((pid, find_parent(pid)?)))
        .collect::<HashMap<_, _>>();
    let mut found = HashSet::from([own]);
    loop {
        let before = found.len();
        let more = parents
            .iter()
            .filter(|(_, parent)| found.contains(parent))
            .map(|(&pid, _)| pid);
        let more = more.collect::<Vec<_>>();
        found.extend(more);
        if found.len() == before {
            break;
        }
    }
    found.remove(&own);
    found.into_iter().collect()
}

/// Returns the fields after the name in `/proc/PID/stat`. The name may hold blanks and brackets, so the last bracket
/// ends it.
fn read_stat(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.to_owned())
}

fn find_parent(pid: u32) -> Option<u32> {
    read_stat(pid)?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn descendants_that_do_not_end_are_looked_for_a_bounded_number_of_times() {
        let mut rounds = 0;
        repeat_rounds(|| {
            rounds += 1;
            rounds >= 10_000
        });
        assert_eq!(rounds, CONTAIN_ROUNDS_MAX);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test is the starter")]
    fn what_was_started_is_found_by_either_way_and_nothing_else() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "sleep 60 & echo ready; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().expect("it is piped"), &mut ready).expect("it speaks");
        let mut listed = Vec::new();
        visit_descendants(&mut |pid| listed.push(pid));
        let searched = descendants_by_parent(std::process::id());
        let grandchildren = list_children(child.id()).expect("this kernel has the list");
        assert_eq!(grandchildren.len(), 1);
        for found in [&listed, &searched] {
            assert!(
                found.contains(&child.id()) && found.contains(&grandchildren[0]),
                "{found:?}"
            );
            assert!(!found.contains(&std::process::id()) && !found.contains(&1));
        }
        for pid in [child.id(), grandchildren[0]] {
            let pid = Pid::from_raw(i32::try_from(pid).expect("it is one")).expect("it is one");
            rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
        }
        child.wait().expect("it ends");
    }

    #[test]
    fn memory_stays_below_what_the_machine_has() {
        let bounds = within_machine(RunBounds {
            memory_bytes: u64::MAX,
            ..RunBounds::default()
        });
        let system = rustix::system::sysinfo();
        assert!(bounds.memory_bytes < u64::from(system.mem_unit) * system.totalram);
    }
}
