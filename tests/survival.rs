//! Sessions that survive: the promises of the documents where daemons are killed, many work at once, disks are full,
//! and users lose patience. `TOOL_TEST_FULL=1` (`scripts/test --full`) runs the long forms; the tests print figures to
//! standard error.

mod adversity;
mod cancelled;
mod hostile;
mod killed;
mod leftovers;
mod load;
mod long;
mod many;
mod memory;
mod stopping;

use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, is_alive, until};

/// Ends the daemon of a home without a chance to say goodbye.
pub(crate) fn kill(home: &Home) {
    let pid = home.pid();
    kill_process(pid, Signal::KILL).expect("it is ours");
    until("the daemon is gone", || !is_alive(pid));
    // Its other threads may take a moment longer, and with them what it holds.
    let lock = std::fs::File::open(home.path().join("backend.lock")).expect("it is there");
    until("the lock is free", || {
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    });
}

/// Number of threads of a process, or of its open files without [`images`].
fn count(pid: Pid, what: &str) -> usize {
    entries(pid, what).filter(|entry| !is_image(entry)).count()
}

/// Number of files that hold the code of components, and the memories that they begin with: a few for each component that was
/// called, on each processor that has called it, and not closed again.
fn images(pid: Pid) -> usize {
    entries(pid, "fd").filter(|entry| is_image(entry)).count()
}

fn entries(pid: Pid, what: &str) -> impl Iterator<Item = PathBuf> {
    let folder = std::fs::read_dir(format!("/proc/{}/{what}", pid.as_raw_nonzero()));
    folder.into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_image(entry: &Path) -> bool {
    let of_components = ["/memfd:wasm-memory-image (deleted)", "/memfd:tool-code (deleted)"];
    std::fs::read_link(entry).is_ok_and(|file| of_components.iter().any(|name| file.starts_with(name)))
}

/// A figure of `/proc/PID/status` in KiB.
fn kibibytes(pid: Pid, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// Adds a guest of the tests as a skill of the team.
fn add_guest(home: &Home, name: &str) {
    let component = crate::support::guest(name);
    let component = component.to_str().expect("UTF-8");
    let add = [
        "skill",
        "add",
        component,
        "--yes",
        "--allow-effects",
        "write-repository",
    ];
    home.run(Path::new("/"), &add).expect(0);
}
