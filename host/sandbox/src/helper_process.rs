//! Helper processes that parse hostile input: git's objects and index, and foreign WebAssembly.
//!
//! A helper is this same binary in another mode, started for one piece of work. Before it reads the first hostile byte,
//! it has given up everything that the work does not need. It has an empty environment and inherits no handle but one
//! socket. It has no capability and can start no program. Its system calls are limited to a short list without network,
//! processes, signals to others, modes or owners. Memory, processor time, files and wall time are bounded. Where the
//! kernel has Landlock (5.19 or newer), it can open only the files of its work. It needs no namespaces. It dies with
//! the thread that waits for it, and within milliseconds of a cancellation.
//!
//! A hostile input may have taken the helper over, so its answer is untrusted: this module bounds its length, the
//! caller checks the rest. The kinds of work are defined in `skill::helper`; test runs and installers belong to
//! [`super::program_sandbox`].

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod restrictions;
mod wire;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::program_sandbox;
use crate::limits;
pub use wire::HelperConnection;

/// Time for a helper that has closed its socket to end, so that its exit status can say why.
const CONFINE_LAST_WORD_MS: u64 = 200;

/// Hidden command that starts this binary as a helper.
pub const HELPER_COMMAND: &str = "__confine";

/// Everything that a helper may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelperRights {
    /// Files and directories that it may read, with everything in them.
    pub read: Vec<PathBuf>,
    /// Directories in which it may make, change and remove files and directories.
    pub write: Vec<PathBuf>,
    /// Memory without a file behind it (`RLIMIT_DATA`).
    pub memory_bytes: u64,
    /// Address space, including mapped files (`RLIMIT_AS`).
    pub address_bytes: u64,
    /// Processor time.
    pub cpu_seconds: u64,
    /// Largest file that it may write.
    pub file_bytes: u64,
}

/// Confinement level of a helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confinement {
    /// Limits on system calls, memory, time and files.
    Full,
    /// Everything but Landlock: the helper could open every file that the user can open.
    NoLandlock,
    /// There is no helper, for this reason: the work is done in this process.
    InProcess(String),
    /// A helper exists, but cannot be started or confined, for this reason: the work is not done.
    Failing(String),
}

impl Confinement {
    /// True if no part of the confinement is missing.
    pub fn is_full(&self) -> bool {
        *self == Self::Full
    }

    /// Returns the missing part as the end of a sentence, if there is one.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Full => None,
            Self::NoLandlock => Some("this kernel has no Landlock (Linux 5.19 or newer has)".to_owned()),
            Self::InProcess(why) => Some(format!("{why}, so it happens in the process itself")),
            Self::Failing(why) => Some(format!("{why}, so it does not happen at all")),
        }
    }
}

/// Program that serves as the helper for a process that embeds this library and is not the product's binary.
static ELSEWHERE: OnceLock<PathBuf> = OnceLock::new();

/// Names a program that runs `skill::run_helper` for [`HELPER_COMMAND`]. It must come from the same build as the
/// caller.
pub fn offer_helper_at(program: PathBuf) {
    // The first call wins; all callers name the same program.
    let _ = ELSEWHERE.set(program);
}

/// Returns the confinement of helpers on this machine: tried once, then cached.
pub fn detect_confinement() -> &'static Confinement {
    static AVAILABLE: OnceLock<Confinement> = OnceLock::new();
    static UNOFFERED: OnceLock<Confinement> = OnceLock::new();
    match has_helper() {
        Ok(()) => AVAILABLE.get_or_init(|| {
            // The result is cached until the program ends, so a machine that was only too busy is tried again.
            let found = try_confinement().or_else(|_| try_confinement());
            found.unwrap_or_else(|error| Confinement::Failing(error.to_string()))
        }),
        Err(why) => UNOFFERED.get_or_init(|| Confinement::InProcess(why.to_owned())),
    }
}

/// Says why this process has to do the work itself: it offers no helper, or this system cannot confine one. A helper
/// that fails to start is not such a reason.
///
/// # Errors
///
/// The reason, as the end of a sentence.
pub fn has_helper() -> Result<(), &'static str> {
    if !cfg!(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )) {
        return Err("only Linux on x86-64 and ARM64 has a confined helper");
    }
    if program_sandbox::helper_offered() || ELSEWHERE.get().is_some() {
        Ok(())
    } else {
        Err("this program does not offer the helper")
    }
}

/// Starts a helper that does nothing, to learn which confinement works here.
fn try_confinement() -> Result<Confinement, HelperError> {
    let time = Duration::from_secs(limits::CONTAIN_PROBE_SECONDS_MAX);
    let until = HelperDeadline::within(time, &CancellationToken::new());
    let walls = HelperRights {
        memory_bytes: limits::CONFINE_PROBE_BYTES_MAX,
        address_bytes: 4 * limits::CONFINE_PROBE_BYTES_MAX,
        cpu_seconds: limits::CONTAIN_PROBE_SECONDS_MAX,
        ..HelperRights::default()
    };
    let mut helper = Helper::open::<()>(HELPER_COMMAND, &walls, HelperWork::Nothing, &until)?;
    helper.hear::<()>(0, &until)?;
    Ok(helper.confinement())
}

/// Returns the memory of the machine.
pub fn machine_memory_bytes() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let system = rustix::system::sysinfo();
        u64::from(system.mem_unit).saturating_mul(system.totalram)
    }
    #[cfg(not(target_os = "linux"))]
    u64::MAX
}

/// Deadline and cancellation of one request to a helper.
#[derive(Debug, Clone)]
pub struct HelperDeadline {
    /// Ends the wait at once.
    pub cancel: CancellationToken,
    /// Ends the wait at this time.
    pub deadline: Instant,
}

impl HelperDeadline {
    /// Ends `time` from now, or when `cancel` is cancelled.
    pub fn within(time: Duration, cancel: &CancellationToken) -> Self {
        Self {
            cancel: cancel.clone(),
            deadline: Instant::now() + time,
        }
    }

    fn check(&self) -> Result<(), HelperError> {
        if self.cancel.is_cancelled() {
            return Err(HelperError::Cancelled);
        }
        if Instant::now() < self.deadline {
            Ok(())
        } else {
            Err(HelperError::TooLate)
        }
    }
}

/// Why a helper gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// The process could not be started.
    #[error("the helper could not be started")]
    Start(#[source] io::Error),
    /// The helper could not be confined, so it did nothing.
    #[error("the helper could not be confined: {step}: {reason}")]
    Walls {
        /// The confinement step that failed.
        step: String,
        /// The error of the kernel.
        reason: String,
    },
    /// The work was cancelled, and the helper is gone.
    #[error("the call was cancelled")]
    Cancelled,
    /// The deadline passed, and the helper was killed.
    #[error("the helper took too long")]
    TooLate,
    /// The helper used more of this resource than it may.
    #[error("the helper took more {0} than it may")]
    Bound(&'static str),
    /// The helper ended without an answer.
    #[error("the helper {0}")]
    Ended(String),
    /// The helper's answer does not fit the request.
    #[error("the helper's answer makes no sense: {0}")]
    Nonsense(String),
    /// The socket failed.
    #[error("the helper could not be spoken to")]
    Socket(#[source] io::Error),
}

/// First message of a helper: it is confined, or could not be.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HelperGreeting {
    Confined { landlock: bool },
    Failed { step: String, reason: String },
}

/// First message to a helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HelperOrder<T> {
    walls: HelperRights,
    work: HelperWork<T>,
}

/// Work of a helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HelperWork<T> {
    /// It answers once it is confined, and does nothing else.
    Nothing,
    Task(T),
}

/// A running helper. Dropping it kills the process.
#[derive(Debug)]
pub struct Helper {
    stream: UnixStream,
    /// Absent if a thread of this process does the work.
    child: Option<Child>,
    landlock: bool,
}

impl Helper {
    /// Starts a confined helper.
    ///
    /// # Errors
    ///
    /// It could not be started or confined, or `until` was over.
    pub fn start<T: Serialize>(walls: &HelperRights, task: &T, until: &HelperDeadline) -> Result<Self, HelperError> {
        Self::start_as(HELPER_COMMAND, walls, task, until)
    }

    /// Starts a helper that runs another hidden command of this program. That command calls [`serve_helper`] and gets the
    /// task.
    ///
    /// # Errors
    ///
    /// As of [`Helper::start`].
    pub fn start_as<T: Serialize>(
        command: &str,
        walls: &HelperRights,
        task: &T,
        until: &HelperDeadline,
    ) -> Result<Self, HelperError> {
        Self::open(command, walls, HelperWork::Task(task), until)
    }

    fn open<T: Serialize>(
        command: &str,
        walls: &HelperRights,
        work: HelperWork<T>,
        until: &HelperDeadline,
    ) -> Result<Self, HelperError> {
        let (own, helpers) = UnixStream::pair().map_err(HelperError::Start)?;
        own.set_nonblocking(true).map_err(HelperError::Start)?;
        let child = spawn_helper(command, helpers).map_err(HelperError::Start)?;
        let mut helper = Self {
            stream: own,
            child: Some(child),
            landlock: false,
        };
        let opening = HelperOrder {
            walls: walls.clone(),
            work,
        };
        helper.send(&opening, &[], until)?;
        match helper.hear::<HelperGreeting>(0, until)?.0 {
            HelperGreeting::Confined { landlock } => helper.landlock = landlock,
            HelperGreeting::Failed { step, reason } => return Err(HelperError::Walls { step, reason }),
        }
        Ok(helper)
    }

    /// Lets a thread of this process do the work if there is no helper. The thread is not confined, and one that hangs
    /// stays behind.
    ///
    /// # Errors
    ///
    /// No socket pair or no thread could be made.
    pub fn on_thread(work: impl FnOnce(HelperConnection) + Send + 'static) -> Result<Self, HelperError> {
        let (own, theirs) = UnixStream::pair().map_err(HelperError::Start)?;
        own.set_nonblocking(true).map_err(HelperError::Start)?;
        std::thread::Builder::new()
            .name("helper".to_owned())
            .spawn(move || work(HelperConnection::new(theirs)))
            .map_err(HelperError::Start)?;
        Ok(Self {
            stream: own,
            child: None,
            landlock: false,
        })
    }

    /// Returns the confinement.
    pub fn confinement(&self) -> Confinement {
        match (&self.child, self.landlock) {
            (None, _) => Confinement::InProcess("the work is done in this process".to_owned()),
            (Some(_), true) => Confinement::Full,
            (Some(_), false) => Confinement::NoLandlock,
        }
    }

    /// Sends a question, and waits for the answer and the bytes that come with it, at most `body_bytes_max`.
    ///
    /// # Errors
    ///
    /// The helper ended, exceeded a limit or sent an invalid frame, or `until` was over.
    pub fn ask<A: DeserializeOwned>(
        &mut self,
        question: &impl Serialize,
        body: &[u8],
        body_bytes_max: usize,
        until: &HelperDeadline,
    ) -> Result<(A, Vec<u8>), HelperError> {
        self.send(question, body, until)?;
        self.hear(body_bytes_max, until)
    }

    /// Waits for a message without asking.
    ///
    /// # Errors
    ///
    /// As of [`Helper::ask`].
    pub fn hear<A: DeserializeOwned>(
        &mut self,
        body_bytes_max: usize,
        until: &HelperDeadline,
    ) -> Result<(A, Vec<u8>), HelperError> {
        let received = wire::receive_frame(&self.stream, body_bytes_max, until);
        received.map_err(|error| self.explain(error))
    }

    fn send(&mut self, head: &impl Serialize, body: &[u8], until: &HelperDeadline) -> Result<(), HelperError> {
        let sent = wire::send_frame(&self.stream, head, body, until);
        sent.map_err(|error| self.explain(error))
    }

    /// A closed socket does not say why it was closed; the exit status of the helper does.
    fn explain(&mut self, error: HelperError) -> HelperError {
        let is_gone = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            )
        };
        match (&error, self.end()) {
            (HelperError::Socket(source), Some(status)) if is_gone(source) => of_status(status),
            (HelperError::Socket(source), None) if is_gone(source) => {
                HelperError::Ended("ended without an answer".to_owned())
            }
            _ => error,
        }
    }

    /// Kills and reaps the helper. Returns its exit status if it ended by itself.
    fn end(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        // A helper that closed its socket is about to exit, and its status says why. Killing it now would hide that.
        let patience = Instant::now() + Duration::from_millis(CONFINE_LAST_WORD_MS);
        while wire::is_closed(&self.stream) && Instant::now() < patience {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                other => return other.ok().flatten(),
            }
        }
        // An error means that the process is gone already.
        let _ = child.kill();
        super::reap_child(&mut child)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            super::reap_child(&mut child);
        }
    }
}

fn of_status(status: ExitStatus) -> HelperError {
    const ABORTED: i32 = 6;
    const KILLED: i32 = 9;
    const TOO_MUCH_TIME: i32 = 24;
    match status.signal() {
        Some(TOO_MUCH_TIME) => HelperError::Bound("processor time"),
        // Rust aborts with this signal when an allocation fails, which `RLIMIT_DATA` causes.
        Some(ABORTED) => HelperError::Bound("memory"),
        Some(KILLED) => HelperError::Ended("was killed, most likely because memory ran out".to_owned()),
        Some(signal) => HelperError::Ended(format!("crashed (signal {signal})")),
        None => HelperError::Ended(format!("ended early (status {})", status.code().unwrap_or_default())),
    }
}

/// Starts this binary again, with a socket as its standard input and nothing else. `/proc/self/exe` names the running
/// file even after an update has replaced it on the disk.
fn spawn_helper(command: &str, socket: UnixStream) -> io::Result<Child> {
    let program = ELSEWHERE.get().map_or(Path::new("/proc/self/exe"), PathBuf::as_path);
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that starts a helper; it is this binary"
    )]
    let mut builder = Command::new(program);
    builder
        .arg(command)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A group of its own: Ctrl-C in the user's terminal would otherwise reach the helper too.
        .process_group(0)
        .env_clear();
    super::spawn_retrying(&mut builder)
}

/// A helper before it is confined: the connection, and the task that the engine has sent.
#[derive(Debug)]
pub struct HelperStart<T> {
    connection: HelperConnection,
    /// The confinement that the helper has to put on itself.
    pub walls: HelperRights,
    /// Work that the daemon asks for.
    pub task: T,
}

/// Runs the helper mode: reads the task from standard input. `work` gets it before the process is confined.
pub fn serve_helper<T: DeserializeOwned>(work: impl FnOnce(HelperStart<T>) -> Result<(), ExitCode>) -> ExitCode {
    match open_door(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

fn open_door<T: DeserializeOwned>(work: impl FnOnce(HelperStart<T>) -> Result<(), ExitCode>) -> Result<(), ExitCode> {
    let read = || -> io::Result<_> {
        let mut connection = HelperConnection::of_standard_input()?;
        let (opening, _) = connection
            .receive::<HelperOrder<T>>()?
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((connection, opening))
    };
    let (connection, opening) = read().map_err(|_| ExitCode::FAILURE)?;
    let walls = opening.walls;
    match opening.work {
        HelperWork::Task(task) => work(HelperStart {
            connection,
            walls,
            task,
        }),
        HelperWork::Nothing => {
            let (mut connection, ()) = HelperStart {
                connection,
                walls,
                task: (),
            }
            .close()?;
            connection.send(&(), &[]).map_err(|_| ExitCode::FAILURE)
        }
    }
}

impl<T> HelperStart<T> {
    /// Confines this process, for good.
    ///
    /// # Errors
    ///
    /// The exit code for a process that could not be confined; the starter has been told why.
    pub fn close(self) -> Result<(HelperConnection, T), ExitCode> {
        let mut connection = self.connection;
        let hello = match confine_process(&self.walls) {
            Ok(landlock) => HelperGreeting::Confined { landlock },
            Err((step, error)) => HelperGreeting::Failed {
                step: step.to_owned(),
                reason: error.to_string(),
            },
        };
        let is_up = matches!(hello, HelperGreeting::Confined { .. });
        match connection.send(&hello, &[]) {
            Ok(()) if is_up => Ok((connection, self.task)),
            _ => Err(ExitCode::FAILURE),
        }
    }
}

#[cfg(target_os = "linux")]
use restrictions::confine_process;

#[cfg(not(target_os = "linux"))]
fn raise(_walls: &HelperRights) -> Result<bool, (&'static str, io::Error)> {
    Err(("raising walls", io::ErrorKind::Unsupported.into()))
}

#[cfg(test)]
mod tests;
