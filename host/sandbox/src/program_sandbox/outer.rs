//! The outer helper: enters the namespaces, starts the inner helper, forwards orders inside and messages outside.
//!
//! It is the only process of a run outside of the namespaces. When it ends, the run ends: the kernel then kills the
//! inner helper, and everything in a process namespace ends with its first process. In the fallback the kernel ends
//! nothing, so each helper lives on until it has ended what it started.

use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::handover::{self, SocketInbox};
use super::spec::{self, HelperMessage, RunSpec};
use super::{Sandbox, copy, helper_program, members, namespaces};
use crate::handles::close_inherited;
use crate::scratch;

/// Runs to the end of the run.
pub(super) fn main() -> ExitCode {
    let Ok(mut daemon) = open_control() else {
        return ExitCode::FAILURE;
    };
    match supervise_inner(&mut daemon) {
        Ok(()) => ExitCode::SUCCESS,
        Err((step, error)) => {
            let message = HelperMessage::Failed {
                step: step.to_owned(),
                reason: error.to_string(),
            };
            // An error means that the daemon is gone.
            let _ = send_message(&daemon, &message, &[]);
            ExitCode::FAILURE
        }
    }
}

/// Sends a message with handles.
pub(super) fn send_message(to: &UnixStream, message: &HelperMessage, handles: &[BorrowedFd<'_>]) -> io::Result<()> {
    handover::send_handles(to, &spec::encode_line(message)?, handles)
}

/// The socket on standard input.
pub(super) fn open_control() -> io::Result<UnixStream> {
    let handle: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(UnixStream::from(handle))
}

/// Result that names the failed step.
pub(super) type StepResult<T> = Result<T, (&'static str, io::Error)>;

/// Names the step that an error belongs to.
pub(super) trait StepContext<T> {
    fn at(self, step: &'static str) -> StepResult<T>;
}

impl<T, E: Into<io::Error>> StepContext<T> for Result<T, E> {
    fn at(self, step: &'static str) -> StepResult<T> {
        self.map_err(|error| (step, error.into()))
    }
}

fn supervise_inner(daemon: &mut UnixStream) -> StepResult<()> {
    close_inherited().at("closing what it inherited")?;
    let text = spec::receive_text(daemon).at("reading the specification")?;
    let mut spec: RunSpec = serde_json::from_slice(&text).at("reading the specification")?;
    match (spec.sandbox, spec.folder.clone()) {
        (Sandbox::Namespaces, _) => {
            die_with_starter(daemon).at(TYING)?;
            namespaces::enter_namespaces().at("entering new namespaces")?;
            // The kernel clears the signal when credentials change, as in a new user namespace.
            die_with_starter(daemon).at(TYING)?;
            listen_loopback(&mut spec, daemon).at("opening the way to the registries")?;
            start_and_follow(daemon, &spec)
        }
        (Sandbox::Landlock, Some(folder)) if spec.installation.is_none() => {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid())).at("adopting processes")?;
            let followed = copy::stand_in(&mut spec, &folder, &|| !is_ordered(daemon))
                .at("copying the repository")
                .and_then(|()| start_and_follow(daemon, &spec));
            members::end_descendants();
            // The starter removes the folder, because it may have killed this helper half-way. If the starter is gone,
            // this helper does it.
            if still_there(daemon).is_err() {
                scratch::remove_path(&folder);
            }
            followed
        }
        _ => Err(("reading the specification", io::ErrorKind::InvalidInput.into())),
    }
}

/// Starts the inner helper and waits until it has ended.
fn start_and_follow(daemon: &mut UnixStream, spec: &RunSpec) -> StepResult<()> {
    still_there(daemon).at(TYING)?;
    let (mut own, inners) = UnixStream::pair().at("starting the inner helper")?;
    let mut child = start_inner(inners).at("starting the inner helper")?;
    let text = serde_json::to_vec(spec).at("starting the inner helper")?;
    spec::send_text(&mut own, &text).at("starting the inner helper")?;
    let followed = follow_inner(daemon, &mut own, &child);
    // An error means that the process has ended already.
    let _ = child.kill();
    let _ = child.wait();
    followed.at("following the run")
}

/// Listens on the loopback device of the run's own network and sends the listener to the daemon, which is outside and
/// serves the connections.
fn listen_loopback(spec: &mut RunSpec, daemon: &UnixStream) -> io::Result<()> {
    let Some(installation) = &spec.installation else {
        return Ok(());
    };
    namespaces::raise_loopback()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("http://{}", listener.local_addr()?);
    for name in &installation.proxy_variables {
        spec.environment.insert(name.clone(), url.clone());
    }
    send_message(daemon, &HelperMessage::Listening, &[listener.as_fd()])
}

/// Name of the step of [`die_with_starter`].
pub(super) const TYING: &str = "tying the run to its starter";

/// Asks the kernel to kill this process with its starter, and fails if the starter has ended already. The kernel closes
/// the starter's end of the socket before it sends the signal, so no moment is missed. The parent's id would not do:
/// the first process of a namespace sees 0.
pub(super) fn die_with_starter(starter: &UnixStream) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    still_there(starter)
}

/// Fails if the other end of the socket is closed.
fn still_there(starter: &UnixStream) -> io::Result<()> {
    let mut polled = [PollFd::new(starter, PollFlags::empty())];
    rustix::event::poll(&mut polled, Some(&Timespec::default()))?;
    if polled[0].revents().contains(PollFlags::HUP) {
        Err(starter_gone())
    } else {
        Ok(())
    }
}

/// True if an order or the end of input waits: in both cases nothing more may begin.
fn is_ordered(daemon: &UnixStream) -> bool {
    let mut polled = [PollFd::new(daemon, PollFlags::IN)];
    let looked = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    looked.is_ok() && !polled[0].revents().is_empty()
}

pub(super) fn starter_gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the starter is gone")
}

fn start_inner(control: UnixStream) -> io::Result<Child> {
    let (program, command) = helper_program();
    #[expect(
        clippy::disallowed_methods,
        reason = "the helper of the one place that starts processes"
    )]
    let mut builder = Command::new(program);
    builder
        .arg(command)
        .arg("--inner")
        .stdin(Stdio::from(OwnedFd::from(control)));
    builder.spawn()
}

/// Forwards orders and messages until the inner helper has ended or the daemon is gone.
fn follow_inner(daemon: &mut UnixStream, inner: &mut UnixStream, child: &Child) -> io::Result<()> {
    let mut inbox = SocketInbox::default();
    let pid = Pid::from_child(child);
    let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let mut polled = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::new(&*daemon, PollFlags::IN),
            PollFd::new(&*inner, PollFlags::IN),
        ];
        match rustix::event::poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let [is_over, has_order, has_message] = polled.map(|handle| !handle.revents().is_empty());
        if has_message || is_over {
            // Also after the inner helper was killed: it may have sent messages before.
            inbox.receive(inner)?;
            inbox.pass_on(daemon)?;
        }
        if is_over {
            return Ok(());
        }
        if has_order && !obey_order(daemon, pid)? {
            return Ok(());
        }
    }
}

/// Carries out an order; false if the run is to end.
fn obey_order(daemon: &mut UnixStream, inner: Pid) -> io::Result<bool> {
    let mut order = [0];
    match daemon.read(&mut order)? {
        0 => Ok(false),
        _ => {
            // The inner helper leads the group of the program. As the first process of its namespace it ignores the
            // signal. An error means that the group is gone.
            let _ = rustix::process::kill_process_group(inner, Signal::TERM);
            Ok(true)
        }
    }
}
