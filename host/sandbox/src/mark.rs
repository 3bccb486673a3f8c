//! The mark by which a run's processes are found, also after their daemon has ended.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use rustix::process::Pid;

/// Bytes that are read of a process's environment: what the kernel allows for one by default.
pub(crate) const PROCESS_ENVIRONMENT_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// A mark in the environment of a run, by which processes that left its group are found.
///
/// A program that clears its children's environment on purpose escapes this. The process namespace of the sandbox holds
/// such a program.
#[derive(Debug)]
pub(super) struct RunMark(String);

impl RunMark {
    /// The environment variable with the mark.
    pub(super) const VARIABLE: &'static str = "TOOL_RUN";

    /// Makes a mark that also names this process, so that the next daemon can find what a killed one has left.
    pub(super) fn new() -> Self {
        let id = uuid::Uuid::new_v4().simple();
        Self(format!("{}-{id}", name_own_process()))
    }

    pub(super) fn value(&self) -> &str {
        &self.0
    }
}

/// Time at which the kernel started a process, in clock ticks since boot. Absent if there is no such process, if it has
/// ended and is not reaped, or if there is no `/proc`.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may hold anything; the 22nd is the start time.
    let (_, after_command) = stat.rsplit_once(')')?;
    let mut fields = after_command.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| !has_ended)
}

/// Names this process. An id can be reused; id, start time and namespace together are unique.
pub(super) fn name_own_process() -> String {
    let pid = std::process::id();
    format!(
        "{pid}-{}-{}",
        start_ticks(pid).unwrap_or_default(),
        read_namespace().unwrap_or_default()
    )
}

/// Number of the process namespace in which this process has its id. No other namespace has this number while a process
/// lives in it.
pub(super) fn read_namespace() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// All processes that this process sees.
pub(super) fn list_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
}

/// Reads the environment with which a process was started, up to a limit. A zombie has none, and another user's cannot
/// be read.
pub(super) fn read_environment(pid: Pid) -> io::Result<Vec<u8>> {
    read_bounded(File::open(format!("/proc/{}/environ", pid.as_raw_nonzero()))?)
}

fn read_bounded(file: impl Read) -> io::Result<Vec<u8>> {
    let mut environment = Vec::new();
    file.take(PROCESS_ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment)?;
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn of_an_environment_a_bounded_part_is_read() {
        let max = usize::try_from(PROCESS_ENVIRONMENT_BYTES_MAX).expect("it is small");
        assert_eq!(read_bounded(&b"A=1\0"[..]).expect("it is there"), b"A=1\0");
        assert_eq!(
            read_bounded(io::repeat(0).take(max as u64 + 9))
                .expect("it is there")
                .len(),
            max
        );
    }
}
