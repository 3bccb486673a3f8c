//! Attempts to escape from a helper: what an attacker who has taken over a helper would try, made by a helper itself
//! and judged from outside.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use tool_core::limits;
use tool_sandbox::helper_process::{self, Confinement, Helper, HelperDeadline, HelperError, HelperRights, HelperStart};

use crate::{ProbeResult, ProbeVerdict};

/// The hidden command that runs a helper which tries to escape.
pub const HELPER_COMMAND: &str = "__confine-attempts";

/// Targets of the attempts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempts {
    /// A file that this helper may read.
    inside: PathBuf,
    /// A file next to it that the helper may not read.
    outside: PathBuf,
    /// A server of this machine.
    address: SocketAddr,
    /// The socket of a backend.
    backend: PathBuf,
}

/// One attempt.
#[derive(Debug, Clone, Copy)]
pub struct HelperAttempt {
    /// Its name.
    pub name: &'static str,
    /// Completes "a helper tries to …".
    pub tries: &'static str,
    /// True if only Landlock prevents it.
    needs_landlock: bool,
}

const fn attempt(name: &'static str, tries: &'static str) -> HelperAttempt {
    HelperAttempt {
        name,
        tries,
        needs_landlock: false,
    }
}

const BACKEND: &str = "backend.sock";

/// All of them.
pub const ATTEMPTS: [HelperAttempt; 15] = [
    HelperAttempt {
        needs_landlock: true,
        ..attempt("helper-open-outside", "open a file that its work is not on")
    },
    HelperAttempt {
        needs_landlock: true,
        ..attempt("helper-write-inside", "write to a file that it may only read")
    },
    attempt("helper-connect", "connect to a server of this machine"),
    attempt("helper-unix-socket", "connect to a socket of this machine"),
    attempt("helper-backend", "reach the backend by its socket"),
    attempt("helper-exec", "start a program"),
    attempt("helper-namespace", "make a namespace of its own"),
    attempt("helper-signal", "send a signal to its starter"),
    attempt("helper-limits", "change the limits of its starter"),
    attempt("helper-mode", "change the mode of a file of the user"),
    attempt("helper-lease", "keep others from writing to a file of the user"),
    attempt("helper-code", "make code at run time"),
    attempt("helper-environment", "find a variable of the environment"),
    attempt("helper-handles", "find a handle beside its socket"),
    attempt("helper-memory", "take more memory than it may"),
];

/// The helper mode: makes every attempt once it is confined, and reports for each whether it succeeded.
pub fn serve_attempts() -> ExitCode {
    helper_process::serve_helper(|door: HelperStart<Attempts>| {
        let (mut connection, attempts) = door.close()?;
        connection
            .send(&make_attempts(&attempts), &[])
            .map_err(|_| ExitCode::FAILURE)
    })
}

fn make_attempts(attempts: &Attempts) -> Vec<bool> {
    let starter = rustix::process::getppid();
    let outcomes = ATTEMPTS.map(|attempt| match attempt.name {
        "helper-open-outside" => std::fs::read(&attempts.outside).is_ok(),
        "helper-write-inside" => std::fs::OpenOptions::new().append(true).open(&attempts.inside).is_ok(),
        #[expect(clippy::disallowed_methods, reason = "it is an attack")]
        "helper-connect" => TcpStream::connect(attempts.address).is_ok(),
        "helper-unix-socket" => UnixStream::connect("/run/nowhere").is_ok_or_reached(),
        "helper-backend" => system::reaches_socket(&attempts.backend),
        "helper-exec" => starts_a_program(),
        "helper-namespace" => system::makes_a_namespace(),
        "helper-signal" => starter.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok()),
        "helper-limits" => system::changes_limits(starter),
        "helper-mode" => changes_a_mode(&attempts.inside),
        "helper-lease" => std::fs::File::open(&attempts.inside).is_ok_and(|file| system::holds_lease(&file)),
        "helper-code" => system::makes_code(),
        "helper-environment" => has_environment(),
        "helper-handles" => has_handles(),
        "helper-memory" => takes_memory(),
        _ => true,
    });
    outcomes.to_vec()
}

/// A socket that can be created counts as a success, even if no server answers.
trait ReachedSocket {
    fn is_ok_or_reached(&self) -> bool;
}

impl<T> ReachedSocket for io::Result<T> {
    fn is_ok_or_reached(&self) -> bool {
        const NO_SUCH_CALL: i32 = 38;
        !self
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(NO_SUCH_CALL))
    }
}

fn starts_a_program() -> bool {
    #[expect(clippy::disallowed_methods, reason = "the attempt is to start one")]
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg("--version").status().is_ok()
}

fn changes_a_mode(path: &std::path::Path) -> bool {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    // The call is reported as done either way; the file decides.
    let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(0o777));
    std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o777 == 0o777)
}

fn has_environment() -> bool {
    #[expect(clippy::disallowed_methods, reason = "the attempt is to find anything in it")]
    let mut variables = std::env::vars_os();
    variables.next().is_some()
}

/// Standard input, output and error, and one copy of the socket.
fn has_handles() -> bool {
    const OWN: i32 = 4;
    const LAST: i32 = 64;
    let open = (0..LAST).filter(|&number| system::is_open(number)).count();
    i32::try_from(open).is_ok_and(|open| open > OWN)
}

fn takes_memory() -> bool {
    let bytes = usize::try_from(limits::CONFINE_PROBE_BYTES_MAX).unwrap_or(usize::MAX);
    let mut memory: Vec<u8> = Vec::new();
    memory.try_reserve_exact(bytes).is_ok()
}

#[cfg(target_os = "linux")]
mod system {
    //! Attempts that need a system call of this platform.

    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use rustix::process::{Pid, Resource};

    #[expect(unsafe_code, reason = "the attempts are to do what must not be possible")]
    pub(super) fn makes_a_namespace() -> bool {
        // SAFETY: the table of file descriptors stays shared.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) }.is_ok()
    }

    pub(super) fn changes_limits(starter: Option<Pid>) -> bool {
        let before = rustix::process::getrlimit(Resource::Core);
        rustix::process::prlimit(starter, Resource::Core, before).is_ok()
    }

    #[expect(unsafe_code, reason = "the attempts are to do what must not be possible")]
    pub(super) fn makes_code() -> bool {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping that nothing else refers to.
        unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) != libc::MAP_FAILED }
    }

    #[expect(unsafe_code, reason = "no safe function for it")]
    pub(super) fn holds_lease(file: &std::fs::File) -> bool {
        // SAFETY: the command takes a number, and the handle is open.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) == 0 }
    }

    /// Connects to a socket with one of its own, with the connected one that it has, and by messages that name it.
    pub(super) fn reaches_socket(backend: &Path) -> bool {
        use std::io::IoSlice;

        use rustix::net::{SendAncillaryBuffer, SendFlags, SocketAddrUnix, connect, sendmsg_addr, sendto};

        let Ok(address) = SocketAddrUnix::new(backend) else {
            return true;
        };
        let given = std::io::stdin();
        UnixStream::connect(backend).is_ok()
            || UnixStream::pair().is_ok()
            || connect(&given, &address).is_ok()
            || sendto(&given, b"escaped", SendFlags::empty(), &address).is_ok()
            || sendmsg_addr(
                &given,
                &address,
                &[IoSlice::new(b"escaped")],
                &mut SendAncillaryBuffer::default(),
                SendFlags::empty(),
            )
            .is_ok()
    }

    #[expect(unsafe_code, reason = "a number is looked at that may belong to nobody")]
    pub(super) fn is_open(number: i32) -> bool {
        // SAFETY: only its flags are read, and a number without a handle is an error.
        unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! A platform without helpers.

    use std::path::Path;

    use rustix::process::Pid;

    pub(super) fn reaches(_backend: &Path) -> bool {
        true
    }

    pub(super) fn makes_a_namespace() -> bool {
        true
    }

    pub(super) fn changes_limits(_starter: Option<Pid>) -> bool {
        true
    }

    pub(super) fn makes_code() -> bool {
        true
    }

    pub(super) fn holds_lease(_file: &std::fs::File) -> bool {
        true
    }

    pub(super) fn is_open(_number: i32) -> bool {
        true
    }
}

/// Makes every attempt in a helper on this machine. Takes about ten milliseconds.
pub fn probe_helper() -> Vec<ProbeResult> {
    if let Err(why) = helper_process::has_helper() {
        let unavailable = |attempt: &HelperAttempt| build_result(attempt, ProbeVerdict::NotAvailable, why.to_owned());
        return ATTEMPTS.iter().map(unavailable).collect();
    }
    match build_scene()
        .map_err(HelperError::Start)
        .and_then(|scene| run_attempts(&scene))
    {
        Ok((confinement, outcomes)) => judge_outcomes(&confinement, &outcomes),
        Err(error) => {
            let failed = |attempt: &HelperAttempt| build_result(attempt, ProbeVerdict::Fail, error.to_string());
            ATTEMPTS.iter().map(failed).collect()
        }
    }
}

fn judge_outcomes(confinement: &Confinement, outcomes: &[bool]) -> Vec<ProbeResult> {
    let judged = |(at, attempt): (usize, &HelperAttempt)| match outcomes.get(at) {
        Some(false) => build_result(attempt, ProbeVerdict::Pass, "refused".to_owned()),
        Some(true) if attempt.needs_landlock && !confinement.is_full() => {
            let why = confinement.missing().unwrap_or_default();
            build_result(attempt, ProbeVerdict::NotAvailable, why)
        }
        Some(true) => ProbeResult {
            got_out: true,
            ..build_result(attempt, ProbeVerdict::Fail, "it succeeded".to_owned())
        },
        None => build_result(attempt, ProbeVerdict::Fail, "it said nothing".to_owned()),
    };
    ATTEMPTS.iter().enumerate().map(judged).collect()
}

fn build_result(attempt: &HelperAttempt, verdict: ProbeVerdict, detail: String) -> ProbeResult {
    ProbeResult {
        name: attempt.name,
        tries: attempt.tries,
        got_out: false,
        verdict,
        detail,
    }
}

/// Owner of the targets while the attempts run.
struct HelperTargets {
    folder: tempfile::TempDir,
    listener: TcpListener,
    backend: UnixListener,
}

fn build_scene() -> io::Result<HelperTargets> {
    let folder = tempfile::tempdir()?;
    for name in ["inside", "outside"] {
        std::fs::write(folder.path().join(name), name)?;
    }
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let backend = UnixListener::bind(folder.path().join(BACKEND))?;
    backend.set_nonblocking(true)?;
    Ok(HelperTargets {
        folder,
        listener,
        backend,
    })
}

fn run_attempts(scene: &HelperTargets) -> Result<(Confinement, Vec<bool>), HelperError> {
    let time = Duration::from_secs(limits::CONTAIN_PROBE_SECONDS_MAX);
    let until = HelperDeadline::within(time, &CancellationToken::new());
    let inside = scene.folder.path().join("inside");
    let walls = HelperRights {
        read: vec![inside.clone()],
        memory_bytes: limits::CONFINE_PROBE_BYTES_MAX,
        address_bytes: 4 * limits::CONFINE_PROBE_BYTES_MAX,
        cpu_seconds: limits::CONTAIN_PROBE_SECONDS_MAX,
        ..HelperRights::default()
    };
    let attempts = Attempts {
        inside,
        outside: scene.folder.path().join("outside"),
        address: scene.listener.local_addr().map_err(HelperError::Start)?,
        backend: scene.folder.path().join(BACKEND),
    };
    let mut helper = Helper::start_as(HELPER_COMMAND, &walls, &attempts, &until)?;
    let (mut outcomes, _) = helper.hear::<Vec<bool>>(0, &until)?;
    if scene.backend.accept().is_ok()
        && let Some(at) = ATTEMPTS.iter().position(|attempt| attempt.name == "helper-backend")
        && let Some(outcome) = outcomes.get_mut(at)
    {
        *outcome = true;
    }
    Ok((helper.confinement(), outcomes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_not_available_where_the_program_offers_no_helper() {
        let results = probe_helper();
        assert_eq!(results.len(), ATTEMPTS.len());
        assert!(
            results
                .iter()
                .all(|result| result.verdict == ProbeVerdict::NotAvailable)
        );
    }
}
