//! Ends a daemon from outside. Only a process that a client has connected to gets a signal: [`ReachedDaemon`].

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::lock;
use super::socket::ReachedDaemon;
use super::state::{self, DaemonRecord};
use crate::limits;
use tool_core::api::{ErrorKind, Problem};
#[cfg(target_os = "linux")]
use tool_sandbox::start_ticks;

/// Stops a daemon, and waits until it is gone.
///
/// # Errors
///
/// The process cannot be signalled, or does not end in time.
pub fn stop_daemon(daemon: &ReachedDaemon) -> Result<(), Problem> {
    let record = daemon.record();
    terminate_process(record).map_err(|why| not_stopped(record, &why))?;
    await_daemon_end(daemon.home(), record)
}

/// Sends SIGTERM to the process. The error says why that was not possible.
#[cfg(target_os = "linux")]
fn terminate_process(record: &DaemonRecord) -> Result<(), String> {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let pid = i32::try_from(record.pid).ok().and_then(Pid::from_raw);
    // Open the handle before comparing the start time: from then on it cannot refer to another process.
    let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let process = process.ok_or("its process is gone")?;
    if start_ticks(record.pid) != Some(record.start_ticks) {
        return Err("its process id belongs to another process now".to_owned());
    }
    pidfd_send_signal(&process, Signal::TERM).map_err(|error| error.to_string())
}

/// As above, for a system without handles of processes. The connection to the daemon shows that it lives.
#[cfg(not(target_os = "linux"))]
fn terminate(record: &DaemonRecord) -> Result<(), String> {
    let pid = i32::try_from(record.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("its process is gone")?;
    rustix::process::kill_process(pid, Signal::TERM).map_err(|error| error.to_string())
}

/// Waits for the end of a daemon after SIGTERM.
///
/// # Errors
///
/// It does not end in time.
pub fn await_daemon_end(home: &Path, record: &DaemonRecord) -> Result<(), Problem> {
    if wait_until_gone(home, record) {
        Ok(())
    } else {
        Err(not_stopped(record, "it did not end in time"))
    }
}

fn not_stopped(record: &DaemonRecord, why: &str) -> Problem {
    Problem::new(ErrorKind::StopFailed, format!("The backend was not stopped: {why}"))
        .with_hint(format!("its recorded process id is {}", record.pid))
}

/// Finds the daemon of this home. If it is about to end, waits for the outcome: no daemon, the next one, or the same
/// one, which has decided to stay.
pub fn find_staying(home: &Path) -> Option<DaemonRecord> {
    let deadline = Instant::now() + stop_patience();
    loop {
        let found = state::find_daemon(home);
        if !found.as_ref().is_some_and(|record| record.stopping) || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a daemon that is stopping. Returns true once the lock is free, or belongs to another daemon.
fn wait_until_gone(home: &Path, record: &DaemonRecord) -> bool {
    let deadline = Instant::now() + stop_patience();
    let is_next = |other: DaemonRecord| (other.pid, other.start_ticks) != (record.pid, record.start_ticks);
    while lock::is_held(home) && !state::find_daemon(home).is_some_and(is_next) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Time for the end of sessions, and then of the processes that they leave running.
fn stop_patience() -> Duration {
    limits::seconds(limits::STOP_SECONDS_MAX * 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::super::socket;
    use super::super::state::tests::record;
    use super::*;

    #[tokio::test]
    async fn a_process_that_reuses_the_pid_of_the_daemon_is_not_signalled() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let _listener = socket::listen_on_socket(home.path()).expect("the folder is writable");
        let stale = DaemonRecord {
            start_ticks: record().start_ticks + 1,
            ..record()
        };
        let (_stream, reached) = socket::connect_to_daemon(home.path(), &stale)
            .await
            .expect("this process listens");
        let problem = stop_daemon(&reached).expect_err("this process would have been ended");
        assert!(problem.message.contains("belongs to another process"), "{problem}");
    }

    #[test]
    fn a_daemon_that_stays_after_all_is_not_waited_for() {
        let home = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(find_staying(home.path()), None);
        let held = lock::acquire_lock(home.path()).expect("it is free");
        let staying = record();
        let leaving = DaemonRecord {
            stopping: true,
            ..staying.clone()
        };
        state::publish_record(home.path(), &leaving).expect("the folder is writable");
        let found = std::thread::scope(|scope| {
            let asking = scope.spawn(|| find_staying(home.path()));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!asking.is_finished(), "it may still leave");
            state::publish_record(home.path(), &staying).expect("the folder is writable");
            asking.join().expect("no panic")
        });
        assert_eq!(found, Some(staying));
        drop(held);
    }

    #[test]
    fn a_daemon_that_does_not_end_is_waited_for_within_a_bound() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let held = lock::acquire_lock(home.path()).expect("it is free");
        let _hurried = crate::limits::pace::hurried(20);
        let started = Instant::now();
        let (record, next) = (record(), state::tests::record());
        assert!(!wait_until_gone(home.path(), &record));
        assert!(started.elapsed() < Duration::from_secs(limits::STOP_SECONDS_MAX));
        let before = DaemonRecord {
            pid: record.pid + 1,
            ..record.clone()
        };
        state::publish_record(home.path(), &next).expect("the folder is writable");
        assert!(wait_until_gone(home.path(), &before), "the next one holds the lock");
        drop(held);
        assert!(wait_until_gone(home.path(), &record));
    }
}
