//! Starting a daemon as a process of its own, and waiting until it answers: the client's side.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::lock;
use super::state::Record;
use super::{find, home, log, lost};
use crate::api::{ErrorKind, Problem};
use crate::config::Environment;
use crate::limits;
use crate::process;

/// Seconds until a started daemon must answer: a cold disk and a busy machine included, a hang not.
const START_SECONDS_MAX: u64 = 10;

/// Seconds that a started daemon may take to look after the sessions of one that was killed. The most that are kept, each
/// with a journal of its full length on a slow disk, take less.
const RECOVERY_SECONDS_MAX: u64 = 300;

/// Message from a starting daemon to the process that started it: a line of JSON on its standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Announcement {
    /// It has begun to look after the sessions of earlier ones, of which there may be many: the others come later.
    Recovering,
    /// It answers requests.
    Ready(Record),
    /// It could not start.
    Failed(Problem),
}

/// Starts a daemon as a process of its own and waits until it answers. `program` with `arguments` must call
/// [`super::run`] and print an [`Announcement`]. Where another process was faster, its daemon is the one returned. Of
/// the environment the daemon gets what sessions may need and nothing else: no `GIT_*` of a hook, no preloads.
pub fn start(program: &Path, arguments: &[&str], home: &Path, environment: &Environment) -> Result<Record, Problem> {
    home::make_home(home)?;
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(ErrorKind::StartFailed, "Failed to start backend service").with_hint(format!(
            "{error}; see {}, and `tool doctor` for the rest",
            log::path(home).display()
        ))
    };
    let forwarded = environment.forwarded().into_iter();
    let mut variables: BTreeMap<String, OsString> = forwarded.map(|(name, value)| (name, value.into())).collect();
    // Each call sends its own author and certificates; the backend must not keep those of its first caller.
    variables.retain(|name, _| !name.starts_with("GIT_") && !name.starts_with("SSL_CERT_"));
    variables.insert("TOOL_HOME".to_owned(), home.into());
    let mut child = process::start_detached(program, arguments, &variables).map_err(|error| failed(&error))?;
    let announced = child
        .stdout
        .take()
        .map_or_else(|| Err(io::ErrorKind::BrokenPipe.into()), announcement);
    match announced {
        Ok(Announcement::Ready(record)) => Ok(record),
        Ok(Announcement::Recovering) => Err(failed(&"it did not say how its start ended")),
        Ok(Announcement::Failed(problem)) => {
            // It has ended or is about to; reaping it keeps no zombie behind a long-lived caller.
            let _ = child.wait();
            if problem.kind == ErrorKind::AlreadyRunning {
                wait_for_record(home).ok_or_else(|| lost(home).unwrap_or(problem))
            } else {
                Err(pointing_at_log(problem, home))
            }
        }
        Err(error) => Err(failed(&error)),
    }
}

/// Why a daemon did not start is also in its log, with what came before.
fn pointing_at_log(problem: Problem, home: &Path) -> Problem {
    if problem.kind != ErrorKind::StartFailed {
        return problem;
    }
    let why = problem.hint.clone().unwrap_or_default();
    problem.with_hint(format!(
        "{why}; see {}, and `tool doctor` for the rest",
        log::path(home).display()
    ))
}

/// Reads how a start ended, on a thread of its own: a pipe has no time-out. One that recovers is given longer.
fn announcement(stdout: impl Read + Send + 'static) -> io::Result<Announcement> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            // The receiver is gone once it knows, or does not wait any more.
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

/// Waits for a daemon that holds the lock to say where it is.
pub(super) fn wait_for_record(home: &Path) -> Option<Record> {
    let deadline = Instant::now() + limits::seconds(START_SECONDS_MAX);
    while Instant::now() < deadline {
        if let Some(record) = find(home) {
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
        let problem = start(&place, &[], home.path(), &Environment::default());
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
        let given_up = announcement(reader).expect_err("nothing more comes");
        assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= recovery && start * 10 < recovery);
        let (reader, mut writer) = io::pipe().expect("there are pipes");
        writer.write_all(b"\"recovering\"\n").expect("there is room");
        drop(writer);
        let ended = announcement(reader).expect_err("it is dead");
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }
}
