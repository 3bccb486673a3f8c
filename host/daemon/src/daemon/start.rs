//! Starts a daemon as a separate process, and waits until it answers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::lock;
use super::state::DaemonRecord;
use super::{find_daemon, find_lost_daemon, home, log};
use crate::limits;
use tool_config::Environment;
use tool_core::api::{ErrorKind, Problem};

/// Seconds within which a started daemon must answer: enough for a cold disk and a busy machine.
const START_SECONDS_MAX: u64 = 10;

/// Seconds for a started daemon that recovers the sessions of a killed one. Even the maximum number of sessions, each
/// with a journal of full length on a slow disk, takes less.
const RECOVERY_SECONDS_MAX: u64 = 300;

/// Message from a starting daemon to the process that started it: a line of JSON on standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Announcement {
    /// It recovers the sessions of earlier daemons, which may take long. Another message follows.
    Recovering,
    /// It answers requests at the address in this record.
    Ready(DaemonRecord),
    /// It could not start.
    Failed(Problem),
}

/// Starts a daemon as a separate process, and waits until it answers. `program` with `arguments` must call
/// [`super::run_daemon`] and print an [`Announcement`]. If another process starts one first, that daemon is returned. The
/// daemon gets only the environment variables that sessions may need: no `GIT_*` of a hook, and no preloads.
///
/// # Errors
///
/// The daemon could not start, or did not answer in time.
pub fn start_daemon(
    program: &Path,
    arguments: &[&str],
    home: &Path,
    environment: &Environment,
) -> Result<DaemonRecord, Problem> {
    home::make_home(home)?;
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(ErrorKind::StartFailed, "Failed to start backend service").with_hint(format!(
            "{error}; see {}, and `tool doctor` for the rest",
            log::log_path(home).display()
        ))
    };
    let forwarded = environment.forwarded().into_iter();
    let mut variables: BTreeMap<String, OsString> = forwarded.map(|(name, value)| (name, value.into())).collect();
    // Each request sends its own author and certificates; the daemon must not keep those of its first client.
    variables.retain(|name, _| !name.starts_with("GIT_") && !name.starts_with("SSL_CERT_"));
    variables.insert("TOOL_HOME".to_owned(), home.into());
    let mut child = tool_sandbox::start_detached(program, arguments, &variables).map_err(|error| failed(&error))?;
    let announced = child
        .stdout
        .take()
        .map_or_else(|| Err(io::ErrorKind::BrokenPipe.into()), read_announcement);
    match announced {
        Ok(Announcement::Ready(record)) => Ok(record),
        Ok(Announcement::Recovering) => Err(failed(&"it did not say how its start ended")),
        Ok(Announcement::Failed(problem)) => {
            // The process has ended or is about to. Reap it, so that a long-lived caller keeps no zombie.
            let _ = child.wait();
            if problem.kind == ErrorKind::AlreadyRunning {
                wait_for_record(home).ok_or_else(|| find_lost_daemon(home).unwrap_or(problem))
            } else {
                Err(pointing_at_log(problem, home))
            }
        }
        Err(error) => Err(failed(&error)),
    }
}

/// Adds the path of the log, which holds the reason of a failed start and what came before.
fn pointing_at_log(problem: Problem, home: &Path) -> Problem {
    if problem.kind != ErrorKind::StartFailed {
        return problem;
    }
    let why = problem.hint.clone().unwrap_or_default();
    problem.with_hint(format!(
        "{why}; see {}, and `tool doctor` for the rest",
        log::log_path(home).display()
    ))
}

/// Reads the outcome of a start. A thread reads, because a pipe has no time-out. A daemon that recovers gets more
/// time.
fn read_announcement(stdout: impl Read + Send + 'static) -> io::Result<Announcement> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            // The receiver is gone once it has its answer, or has stopped waiting.
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut patience = START_SECONDS_MAX;
    loop {
        match receiver.recv_timeout(limits::seconds(patience)) {
            Ok(line) => match serde_json::from_str(&line?)? {
                Announcement::Recovering => patience = RECOVERY_SECONDS_MAX,
                end => return Ok(end),
            },
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended at once"));
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time"));
            }
        }
    }
}

/// Waits until the daemon that holds the lock has written its record.
pub(super) fn wait_for_record(home: &Path) -> Option<DaemonRecord> {
    let deadline = Instant::now() + limits::seconds(START_SECONDS_MAX);
    while Instant::now() < deadline {
        if let Some(record) = find_daemon(home) {
            return Some(record);
        }
        if !lock::is_held(home) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_daemon_that_never_answers_is_given_up() {
        let (folder, home) = (
            tempfile::tempdir().expect("a temporary folder"),
            tempfile::tempdir().expect("a temporary folder"),
        );
        let place = folder.path().join("daemon");
        std::fs::write(&place, "#!/bin/sh\nexec sleep 20\n").expect("the folder is writable");
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let _hurried = limits::pace::hurried(20);
        let started = Instant::now();
        let problem = start_daemon(&place, &[], home.path(), &Environment::default());
        let hint = problem.expect_err("nobody answers").hint.unwrap_or_default();
        assert!(hint.starts_with("it did not answer in time"), "{hint}");
        assert!(started.elapsed() < Duration::from_secs(START_SECONDS_MAX));
    }

    /// `RECOVERY_SECONDS_MAX`.
    #[test]
    fn a_daemon_that_recovers_is_given_longer_and_not_for_ever() {
        let _hurried = limits::pace::hurried(50);
        let (start, recovery) = (
            limits::seconds(START_SECONDS_MAX),
            limits::seconds(RECOVERY_SECONDS_MAX),
        );
        let (reader, mut writer) = io::pipe().expect("there are pipes");
        writer.write_all(b"\"recovering\"\n").expect("there is room");
        let begun = Instant::now();
        let given_up = read_announcement(reader).expect_err("nothing more comes");
        assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= recovery && start * 10 < recovery);
        let (reader, mut writer) = io::pipe().expect("there are pipes");
        writer.write_all(b"\"recovering\"\n").expect("there is room");
        drop(writer);
        let ended = read_announcement(reader).expect_err("it is dead");
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }
}
