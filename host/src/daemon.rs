//! The daemon's lifecycle: lock, token, bind, state file, serve, drain, stop; and how a client finds and starts it.
//!
//! One daemon a home directory. The lock on `backend.lock` is held for as long as the daemon lives, so that whether it
//! runs is never guessed from a pid. `backend.json` says who and where it is; `backend.pid` holds the pid and nothing
//! else, for scripts. What requests do is `http`'s and `session`'s.

mod log;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::api::{self, Problem, Timestamp};
use crate::config::{self, Environment};
use crate::http::{self, AppState};
use crate::limits;
use crate::session::Sessions;
use crate::skill::{Builtin, SkillHost};

/// Who and where the daemon is: the content of `backend.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Process id.
    pub pid: u32,
    /// When the kernel started that process, in clock ticks since boot: with the pid, an identity.
    pub start_ticks: u64,
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Version of the binary.
    pub version: String,
    /// When it started.
    pub started: Timestamp,
}

/// What a daemon is started with.
#[derive(Debug)]
pub struct Options {
    /// The per-user directory.
    pub home: PathBuf,
    /// Port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// The environment; what a session's starter sends comes on top of it.
    pub environment: Environment,
    /// The skills that are part of the binary.
    pub builtins: &'static [Builtin],
}

/// Runs the daemon until it is told to stop. `ready` is called once it answers requests.
pub fn run(options: Options, ready: impl FnOnce(&Record)) -> Result<(), Problem> {
    private_folder(&options.home).map_err(|error| start_failure("its folder", &options.home, &error))?;
    let lock = lock(&options.home)?;
    // A configuration that is wrong stops no daemon: the sessions say what is wrong with it.
    let common = config::common(&options.home, &options.environment)
        .unwrap_or_else(|_| config::Common::strict(&options.environment));
    log::start(&options.home, &common.log_level)
        .map_err(|error| start_failure("its log below", &options.home, &error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| start_failure("a runtime for", &options.home, &error))?;
    let served = runtime.block_on(serve(options, common.server, ready));
    // Blocking work that ignores its cancellation must not keep a stopped daemon alive.
    runtime.shutdown_timeout(Duration::from_secs(limits::STOP_SECONDS_MAX));
    drop(lock);
    served
}

async fn serve(options: Options, server: config::ServerSettings, ready: impl FnOnce(&Record)) -> Result<(), Problem> {
    let Options {
        home,
        port,
        environment,
        builtins,
    } = options;
    let listener = bind(port).await?;
    let port = listener
        .local_addr()
        .map_err(|error| start_failure("an address for", &home, &error))?
        .port();
    let token = token(&home).map_err(|error| start_failure("the token of", &home, &error))?;
    let skills = SkillHost::new(builtins, &home).map_err(|error| {
        Problem::new("start-failed", "Failed to start backend service").with_hint(error.to_string())
    })?;
    let sessions = Sessions::open(&home, Arc::clone(&skills), environment.scan_time()).map_err(|error| {
        Problem::new("start-failed", "Failed to start backend service").with_hint(error.to_string())
    })?;
    let record = record_of_this_process(port);
    let state = AppState::new(http::Parts {
        sessions: Arc::clone(&sessions),
        skills,
        token,
        port,
        server,
        started: record.started,
        home: home.clone(),
        environment,
    });
    publish(&home, &record).map_err(|error| start_failure("the state file of", &home, &error))?;
    tracing::info!(pid = record.pid, port, version = record.version, "ready");
    ready(&record);
    let stop = {
        let home = home.clone();
        async move {
            tokio::select! {
                () = stop_signal() => {}
                () = home_gone(home) => tracing::warn!("the home directory is gone"),
            }
        }
    };
    let served = http::serve(listener, state, stop).await;
    tracing::info!("stopping");
    sessions.drain().await;
    withdraw(&home);
    served.map_err(|error| Problem::new("start-failed", format!("The backend stopped: {error}")))
}

async fn bind(port: u16) -> Result<tokio::net::TcpListener, Problem> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Problem::new(
                "port-in-use",
                format!("Failed to start backend: Port {port} already in use"),
            )
            .with_hint(
                "free the port (a backend of another TOOL_HOME may hold it), or choose another with TOOL_BACKEND_PORT \
                 (0 takes any free one)",
            ),
            _ => Problem::new("start-failed", "Failed to start backend service")
                .with_hint(format!("port {port} could not be bound: {error}")),
        })
}

/// Ends when the process is asked to: SIGTERM or SIGINT. SIGHUP is taken and ignored, because a daemon outlives the
/// terminal that started it.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let handlers = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) = handlers else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => return,
            _ = interrupt.recv() => return,
            _ = hangup.recv() => {}
        }
    }
}

/// Ends once the lock that this daemon holds is no longer the one in its home: whoever removed the folder could not
/// find this process again, let alone stop it.
async fn home_gone(home: PathBuf) {
    let inode = |home: &Path| fs::metadata(lock_path(home)).map(|metadata| metadata.ino());
    let Ok(held) = inode(&home) else {
        return;
    };
    // A home that cannot be looked at for a while, on a network for example, is not gone.
    let is_gone = |inode: io::Result<u64>| match inode {
        Ok(inode) => inode != held,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    while !is_gone(inode(&home)) {
        tokio::time::sleep(limits::milliseconds(limits::HOME_LOOK_MS)).await;
    }
}

fn start_failure(what: &str, home: &Path, error: &io::Error) -> Problem {
    let mut hint = format!("{what} `{}` could not be used: {error}", home.display());
    if config::is_unwritable(error) {
        hint = format!("{hint}; {}", config::SET_HOME);
    }
    Problem::new("start-failed", "Failed to start backend service").with_hint(hint)
}

fn record_of_this_process(port: u16) -> Record {
    let pid = std::process::id();
    Record {
        pid,
        start_ticks: start_ticks(pid).unwrap_or_default(),
        port,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: api::now(),
    }
}

/// When the kernel started a process, from `/proc`; absent where there is no such process or no such file.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may hold anything; the 22nd is the start time.
    let (_, after_command) = stat.rsplit_once(')')?;
    after_command.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn lock_path(home: &Path) -> PathBuf {
    home.join("backend.lock")
}

fn record_path(home: &Path) -> PathBuf {
    home.join("backend.json")
}

fn pid_path(home: &Path) -> PathBuf {
    home.join("backend.pid")
}

/// Where the token lies that proves the user to the daemon and the daemon to the user.
pub fn token_path(home: &Path) -> PathBuf {
    home.join("token")
}

fn private_folder(place: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(place)
}

fn open_private(place: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(place)
}

/// Tries to take the lock: a client that looks whether it is held holds it itself for a moment.
const LOCK_TRIES: u32 = 5;

/// Takes the lock that the daemon holds for as long as it lives.
fn lock(home: &Path) -> Result<File, Problem> {
    let file = open_private(&lock_path(home)).map_err(|error| start_failure("the lock of", home, &error))?;
    for _ in 0..LOCK_TRIES {
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(file);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(Problem::new("already-running", "The backend is already running"))
}

/// The token of this home, made at first use: 32 random bytes, hexadecimal.
fn token(home: &Path) -> io::Result<String> {
    let place = token_path(home);
    if let Ok(token) = read_token(home) {
        return Ok(token);
    }
    let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    write_whole(&place, token.as_bytes())?;
    Ok(token)
}

/// Reads the token; an empty file counts as none.
pub fn read_token(home: &Path) -> io::Result<String> {
    let token = fs::read_to_string(token_path(home))?.trim().to_owned();
    if token.is_empty() {
        Err(io::ErrorKind::NotFound.into())
    } else {
        Ok(token)
    }
}

fn publish(home: &Path, record: &Record) -> io::Result<()> {
    write_whole(&record_path(home), &serde_json::to_vec(record)?)?;
    write_whole(&pid_path(home), record.pid.to_string().as_bytes())
}

/// Removes what [`publish`] wrote. A file that cannot be removed is stale, and readers check the lock.
fn withdraw(home: &Path) {
    for place in [record_path(home), pid_path(home)] {
        if let Err(error) = fs::remove_file(&place) {
            tracing::warn!(path = %place.display(), %error, "could not remove");
        }
    }
}

/// Writes a private file so that a reader sees the old content or the new, never a part.
fn write_whole(place: &Path, content: &[u8]) -> io::Result<()> {
    let folder = place.parent().expect("a state file lies in a folder");
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.persist(place)?;
    Ok(())
}

/// The daemon of this home, where one runs and has said where it listens.
pub fn find(home: &Path) -> Option<Record> {
    if !is_locked(home) {
        return None;
    }
    let record: Record = serde_json::from_slice(&fs::read(record_path(home)).ok()?).ok()?;
    // A record of a process that is gone was left behind by a crash; the lock's holder has not written its own yet.
    let alive = !cfg!(target_os = "linux") || start_ticks(record.pid) == Some(record.start_ticks);
    alive.then_some(record)
}

/// What to say where a daemon runs that cannot be found: its record is missing, broken or of another process.
pub fn lost(home: &Path) -> Option<Problem> {
    let pid = fs::read_to_string(pid_path(home)).unwrap_or_default();
    (is_locked(home) && find(home).is_none()).then(|| {
        Problem::new(
            "backend-down",
            format!("A backend holds {} but cannot be found", lock_path(home).display()),
        )
        .with_hint(format!(
            "backend.json is missing or broken: end process {pid} and try again"
        ))
    })
}

/// True while a daemon of this home holds its lock.
fn is_locked(home: &Path) -> bool {
    let Ok(file) = File::open(lock_path(home)) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// What a starting daemon tells the process that started it: one line of JSON on its standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Announcement {
    /// It answers requests.
    Ready(Record),
    /// It could not start.
    Failed(Problem),
}

/// Starts a daemon as a process of its own and waits until it answers. `program` with `arguments` must call [`run`]
/// and print an [`Announcement`]. Where another process was faster, its daemon is the one returned.
#[expect(clippy::disallowed_methods, reason = "the daemon's start")]
pub fn start(program: &Path, arguments: &[&str], home: &Path, environment: &Environment) -> Result<Record, Problem> {
    private_folder(home).map_err(|error| start_failure("its folder", home, &error))?;
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new("start-failed", "Failed to start backend service").with_hint(format!(
            "{error}; see {}, and `tool doctor` for the rest",
            log::path(home).display()
        ))
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment.forwarded())
        .env("TOOL_HOME", home)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(&error))?;
    let announced = child.stdout.take().map_or_else(
        || Err(io::ErrorKind::BrokenPipe.into()),
        |stdout| first_line(stdout, limits::seconds(limits::START_SECONDS_MAX)),
    );
    let announcement = announced.and_then(|line| Ok(serde_json::from_str(&line)?));
    match announcement {
        Ok(Announcement::Ready(record)) => Ok(record),
        Ok(Announcement::Failed(problem)) => {
            // It has ended or is about to; reaping it keeps no zombie behind a long-lived caller.
            let _ = child.wait();
            if problem.code == "already-running" {
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
    if problem.code != "start-failed" {
        return problem;
    }
    let why = problem.hint.clone().unwrap_or_default();
    problem.with_hint(format!(
        "{why}; see {}, and `tool doctor` for the rest",
        log::path(home).display()
    ))
}

/// Reads one line within a time, on a thread of its own: a pipe has no time-out.
fn first_line(stdout: impl Read + Send + 'static, timeout: Duration) -> io::Result<String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line).map(|_| line);
        // The receiver is gone only after the time-out, when nobody wants the line any more.
        let _ = sender.send(read);
    });
    match receiver.recv_timeout(timeout) {
        Ok(Ok(line)) if line.is_empty() => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended at once")),
        Ok(read) => read,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time")),
    }
}

fn wait_for_record(home: &Path) -> Option<Record> {
    let deadline = Instant::now() + limits::seconds(limits::START_SECONDS_MAX);
    while Instant::now() < deadline {
        if let Some(record) = find(home) {
            return Some(record);
        }
        if !is_locked(home) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Stops the daemon of this home and waits until it is gone. `proved` says whether the process has just answered with
/// the proof that only the holder of the token can give; without it nothing is signalled.
pub fn stop(home: &Path, record: &Record, proved: bool) -> Result<(), Problem> {
    let refuse = |why: &str| {
        Err(
            Problem::new("stop-failed", format!("The backend was not stopped: {why}"))
                .with_hint(format!("its process id is said to be {}", record.pid)),
        )
    };
    if !proved {
        return refuse("the process on its port did not prove to be it");
    }
    let pid = i32::try_from(record.pid).ok().and_then(Pid::from_raw);
    // The handle is taken before the start time is compared: from then on it can mean no other process.
    let Some(process) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return refuse("its process is gone");
    };
    if start_ticks(record.pid) != Some(record.start_ticks) {
        return refuse("its process id belongs to another process now");
    }
    if let Err(error) = pidfd_send_signal(&process, Signal::TERM) {
        return refuse(&error.to_string());
    }
    let deadline = Instant::now() + limits::seconds(limits::STOP_SECONDS_MAX * 2);
    while is_locked(home) {
        if Instant::now() > deadline {
            return refuse("it did not end in time");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a process that stands for a daemon")]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_only_while_its_process_holds_the_lock() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let record = record_of_this_process(1);
        publish(home.path(), &record).expect("the folder is writable");
        assert_eq!(find(home.path()), None, "nobody holds the lock");
        let held = lock(home.path()).expect("the lock is free");
        assert_eq!(find(home.path()), Some(record.clone()));
        assert_eq!(lock(home.path()).expect_err("it is held").code, "already-running");
        let stale = Record {
            start_ticks: record.start_ticks + 1,
            ..record
        };
        publish(home.path(), &stale).expect("the folder is writable");
        assert_eq!(find(home.path()), None, "the record is of another process");
        drop(held);
    }

    #[test]
    fn the_token_is_made_once_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a temporary folder");
        let first = token(home.path()).expect("the folder is writable");
        assert_eq!(first.len(), 64);
        assert_eq!(token(home.path()).expect("it is there"), first);
        let mode = fs::metadata(token_path(home.path()))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_process_that_has_not_proved_itself_is_not_signalled() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let record = record_of_this_process(1);
        assert!(stop(home.path(), &record, false).is_err());
        let stale = Record {
            start_ticks: record.start_ticks + 1,
            ..record
        };
        let problem = stop(home.path(), &stale, true).expect_err("this process would have been ended");
        assert!(problem.message.contains("belongs to another process"), "{problem}");
    }

    fn program(text: &str) -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("daemon");
        fs::write(&place, format!("#!/bin/sh\n{text}\n")).expect("the folder is writable");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("it is ours");
        folder
    }

    #[test]
    fn a_daemon_that_never_answers_is_given_up() {
        let _hurried = limits::pace::hurried(20);
        let (folder, home) = (
            program("exec sleep 20"),
            tempfile::tempdir().expect("a temporary folder"),
        );
        let started = Instant::now();
        let problem = start(&folder.path().join("daemon"), &[], home.path(), &Environment::default());
        let hint = problem.expect_err("nobody answers").hint.unwrap_or_default();
        assert!(hint.starts_with("it did not answer in time"), "{hint}");
        assert!(started.elapsed() < Duration::from_secs(limits::START_SECONDS_MAX));
    }

    #[test]
    fn a_daemon_that_does_not_end_is_waited_for_within_a_bound() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut deaf = std::process::Command::new("/bin/sh")
            .args(["-c", "trap '' TERM; exec sleep 20"])
            .spawn()
            .expect("there is a shell");
        let record = Record {
            pid: deaf.id(),
            start_ticks: start_ticks(deaf.id()).expect("it runs"),
            ..record_of_this_process(1)
        };
        // Somebody holds the lock of its home, as a daemon does that has not ended.
        let held = lock(home.path()).expect("the lock is free");
        let _hurried = limits::pace::hurried(20);
        let started = Instant::now();
        let problem = stop(home.path(), &record, true).expect_err("it does not end");
        assert!(problem.message.ends_with("it did not end in time"), "{problem}");
        assert!(started.elapsed() < Duration::from_secs(limits::STOP_SECONDS_MAX));
        drop(held);
        deaf.kill().expect("it runs");
        deaf.wait().expect("it ends");
    }

    #[tokio::test]
    async fn a_home_that_is_gone_is_seen_within_a_moment() {
        let _hurried = limits::pace::hurried(10);
        let home = tempfile::tempdir().expect("a temporary folder");
        let held = lock(home.path()).expect("the lock is free");
        let gone = home_gone(home.path().to_owned());
        tokio::pin!(gone);
        let patience = Duration::from_millis(300);
        assert!(tokio::time::timeout(patience, &mut gone).await.is_err(), "it is there");
        fs::remove_file(lock_path(home.path())).expect("it is ours");
        let patience = Duration::from_secs(10);
        tokio::time::timeout(patience, gone).await.expect("it is seen");
        drop(held);
    }
}
