//! Helpers of our own for what parses hostile input: git's objects and index, and foreign WebAssembly.
//!
//! A helper is this same binary in another mode, started for one piece of work. What holds in it, before it reads the
//! first hostile byte: an empty environment and no inherited handle but one socket; no capability, no new rights by
//! `exec`, and no `exec`; only the system calls on a short list, among which is no network, no process, no signal to
//! others, no change of modes or owners; bounds on memory, processor time, files and wall time; and, where the kernel
//! has Landlock (5.19 or newer), no file but those that its work is on. It needs no namespaces. It dies with the
//! thread that waits for it, and within milliseconds of a cancellation.
//!
//! A helper's answer may come from a process that was taken over: this module bounds its length, the caller checks the
//! rest. The kinds of work are defined elsewhere (`skill::helper`); test runs and installers are [`super::contain`]'s.

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod walls;
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

use super::contain;
use crate::limits;
pub use wire::HelperConnection;

/// Time for a helper that has hung up to end, so that its status can say why.
const CONFINE_LAST_WORD_MS: u64 = 200;

/// The hidden command that is a helper.
pub const HELPER_COMMAND: &str = "__confine";

/// Resources that a helper may use. It has no others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walls {
    /// Files and directories that it may read, with everything in them.
    pub read: Vec<PathBuf>,
    /// Directories in which it may make, change and remove files and directories.
    pub write: Vec<PathBuf>,
    /// Memory that no file backs.
    pub memory_bytes: u64,
    /// Addresses, with what it maps of files.
    pub address_bytes: u64,
    /// Processor time.
    pub cpu_seconds: u64,
    /// Size of a file that it writes.
    pub file_bytes: u64,
}

/// Confinement level of a helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confinement {
    /// System calls, memory, time and files.
    Full,
    /// Everything but Landlock: it could open what the user can open.
    NoLandlock,
    /// There is no helper: the work is done in this process. Says why.
    InProcess(String),
    /// There is one, but it cannot be started or confined: the work is not done. Says why.
    Failing(String),
}

impl Confinement {
    /// True where nothing is missing.
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

/// Another binary of this product that is the helper, for a program that embeds this library and is not.
static ELSEWHERE: OnceLock<PathBuf> = OnceLock::new();

/// Says that this program runs `skill::helper::run` for [`HELPER_COMMAND`]. It must be of the same build as the caller.
pub fn offer_helper_at(program: PathBuf) {
    // Only one counts.
    let _ = ELSEWHERE.set(program);
}

/// Returns the confinement of helpers on this machine: tried once, then cached.
pub fn available() -> &'static Confinement {
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

/// Says why there can be no helper, so that the work has to be done in this process: it is not offered, or this system has
/// no way to keep it in. A helper that fails is no such reason.
pub fn has_helper() -> Result<(), &'static str> {
    if !cfg!(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )) {
        return Err("only Linux on x86-64 and ARM64 has a confined helper");
    }
    if contain::helper_offered() || ELSEWHERE.get().is_some() {
        Ok(())
    } else {
        Err("this program does not offer the helper")
    }
}

/// Starts a helper that does nothing, to see what keeps it in.
fn try_confinement() -> Result<Confinement, HelperError> {
    let time = Duration::from_secs(limits::CONTAIN_PROBE_SECONDS_MAX);
    let until = Until::within(time, &CancellationToken::new());
    let walls = Walls {
        memory_bytes: limits::CONFINE_PROBE_BYTES_MAX,
        address_bytes: 4 * limits::CONFINE_PROBE_BYTES_MAX,
        cpu_seconds: limits::CONTAIN_PROBE_SECONDS_MAX,
        ..Walls::default()
    };
    let mut helper = Helper::open::<()>(HELPER_COMMAND, &walls, Work::Nothing, &until)?;
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
pub struct Until {
    /// Ends the wait at once.
    pub cancel: CancellationToken,
    /// Ends the wait at this time.
    pub deadline: Instant,
}

impl Until {
    /// A deadline `time` from now.
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
    /// It could not be started.
    #[error("the helper could not be started")]
    Start(#[source] io::Error),
    /// It could not be confined, so it did nothing.
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
    /// Its time was over, and it is gone.
    #[error("the helper took too long")]
    TooLate,
    /// It used more than it may.
    #[error("the helper took more {0} than it may")]
    Bound(&'static str),
    /// It ended by itself.
    #[error("the helper {0}")]
    Ended(String),
    /// The helper's answer does not fit the request.
    #[error("the helper's answer makes no sense: {0}")]
    Nonsense(String),
    /// The socket failed.
    #[error("the helper could not be spoken to")]
    Socket(#[source] io::Error),
}

/// First message of a helper: it is confined, or why it is not.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hello {
    Confined { landlock: bool },
    Failed { step: String, reason: String },
}

/// First message to a helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening<T> {
    walls: Walls,
    work: Work<T>,
}

/// Work of a helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Work<T> {
    /// It answers once it is confined, and does nothing else.
    Nothing,
    Task(T),
}

/// A helper at work. Dropping it ends it.
#[derive(Debug)]
pub struct Helper {
    stream: UnixStream,
    /// Absent where a thread of this process stands in for it.
    child: Option<Child>,
    landlock: bool,
}

impl Helper {
    /// Starts a helper behind these walls.
    pub fn start<T: Serialize>(walls: &Walls, task: &T, until: &Until) -> Result<Self, HelperError> {
        Self::start_as(HELPER_COMMAND, walls, task, until)
    }

    /// Starts a helper that runs another hidden command of this program. The command calls [`serve`], as the helper's own
    /// does, and gets the task.
    pub fn start_as<T: Serialize>(command: &str, walls: &Walls, task: &T, until: &Until) -> Result<Self, HelperError> {
        Self::open(command, walls, Work::Task(task), until)
    }

    fn open<T: Serialize>(command: &str, walls: &Walls, work: Work<T>, until: &Until) -> Result<Self, HelperError> {
        let (own, helpers) = UnixStream::pair().map_err(HelperError::Start)?;
        own.set_nonblocking(true).map_err(HelperError::Start)?;
        let child = spawn(command, helpers).map_err(HelperError::Start)?;
        let mut helper = Self {
            stream: own,
            child: Some(child),
            landlock: false,
        };
        let opening = Opening {
            walls: walls.clone(),
            work,
        };
        helper.send(&opening, &[], until)?;
        match helper.hear::<Hello>(0, until)?.0 {
            Hello::Confined { landlock } => helper.landlock = landlock,
            Hello::Failed { step, reason } => return Err(HelperError::Walls { step, reason }),
        }
        Ok(helper)
    }

    /// Lets a thread of this process do the work, where there is no helper. It is not confined, and one that hangs is
    /// left behind.
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

    /// Asks, and waits for the answer and the bytes that come with it.
    pub fn ask<A: DeserializeOwned>(
        &mut self,
        question: &impl Serialize,
        body: &[u8],
        body_bytes_max: usize,
        until: &Until,
    ) -> Result<(A, Vec<u8>), HelperError> {
        self.send(question, body, until)?;
        self.hear(body_bytes_max, until)
    }

    /// Waits for something that was not asked for.
    pub fn hear<A: DeserializeOwned>(
        &mut self,
        body_bytes_max: usize,
        until: &Until,
    ) -> Result<(A, Vec<u8>), HelperError> {
        let received = wire::receive(&self.stream, body_bytes_max, until);
        received.map_err(|error| self.explain(error))
    }

    fn send(&mut self, head: &impl Serialize, body: &[u8], until: &Until) -> Result<(), HelperError> {
        let sent = wire::send(&self.stream, head, body, until);
        sent.map_err(|error| self.explain(error))
    }

    /// A socket that closes says nothing of why; the helper's end does.
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

    /// Ends it and collects it; its own end where it had one.
    fn end(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        // One that closed its socket is about to end by itself, and its status says why.
        let patience = Instant::now() + Duration::from_millis(CONFINE_LAST_WORD_MS);
        while wire::is_closed(&self.stream) && Instant::now() < patience {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                other => return other.ok().flatten(),
            }
        }
        // An error means that it is gone already.
        let _ = child.kill();
        super::reap(&mut child)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            super::reap(&mut child);
        }
    }
}

fn of_status(status: ExitStatus) -> HelperError {
    const ABORTED: i32 = 6;
    const KILLED: i32 = 9;
    const TOO_MUCH_TIME: i32 = 24;
    match status.signal() {
        Some(TOO_MUCH_TIME) => HelperError::Bound("processor time"),
        // Rust aborts when an allocation fails.
        Some(ABORTED) => HelperError::Bound("memory"),
        Some(KILLED) => HelperError::Ended("was killed, most likely because memory ran out".to_owned()),
        Some(signal) => HelperError::Ended(format!("crashed (signal {signal})")),
        None => HelperError::Ended(format!("ended early (status {})", status.code().unwrap_or_default())),
    }
}

/// Starts this binary again, with a socket and nothing else.
fn spawn(command: &str, socket: UnixStream) -> io::Result<Child> {
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
        .process_group(0)
        .env_clear();
    super::spawn(&mut builder)
}

/// The helper's side of the beginning: what it is to do, before it is confined.
#[derive(Debug)]
pub struct HelperStart<T> {
    connection: HelperConnection,
    /// The confinement that the helper has to put on itself.
    pub walls: Walls,
    /// Work that the daemon asks for.
    pub task: T,
}

/// The helper mode: reads from standard input what to do. `work` gets its task before the walls are raised.
pub fn serve<T: DeserializeOwned>(work: impl FnOnce(HelperStart<T>) -> Result<(), ExitCode>) -> ExitCode {
    match open_door(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

fn open_door<T: DeserializeOwned>(work: impl FnOnce(HelperStart<T>) -> Result<(), ExitCode>) -> Result<(), ExitCode> {
    let read = || -> io::Result<_> {
        let mut connection = HelperConnection::of_standard_input()?;
        let (opening, _) = connection
            .receive::<Opening<T>>()?
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((connection, opening))
    };
    let (connection, opening) = read().map_err(|_| ExitCode::FAILURE)?;
    let walls = opening.walls;
    match opening.work {
        Work::Task(task) => work(HelperStart {
            connection,
            walls,
            task,
        }),
        Work::Nothing => {
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
    /// Raises the walls; no way leads back. `Err` where that fails, after a message to the starter.
    pub fn close(self) -> Result<(HelperConnection, T), ExitCode> {
        let mut connection = self.connection;
        let hello = match raise(&self.walls) {
            Ok(landlock) => Hello::Confined { landlock },
            Err((step, error)) => Hello::Failed {
                step: step.to_owned(),
                reason: error.to_string(),
            },
        };
        let is_up = matches!(hello, Hello::Confined { .. });
        match connection.send(&hello, &[]) {
            Ok(()) if is_up => Ok((connection, self.task)),
            _ => Err(ExitCode::FAILURE),
        }
    }
}

#[cfg(target_os = "linux")]
use walls::raise;

#[cfg(not(target_os = "linux"))]
fn raise(_walls: &Walls) -> Result<bool, (&'static str, io::Error)> {
    Err(("raising walls", io::ErrorKind::Unsupported.into()))
}

#[cfg(test)]
mod tests;
