//! The start of a run. If any process of it is killed, at any step, nothing goes on without a process that watches.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::json;
use tempfile::TempDir;

use super::uuid;
use crate::support::{Home, folder, until};

const SANDBOXES: [&str; 2] = ["namespaces", "landlock"];

/// Program for a helper to run, and a mark that all its processes carry. The program prints a line and stays.
struct Start {
    mark: String,
    spec: Vec<u8>,
    /// The repository, and where the fallback copies it.
    _folders: [TempDir; 2],
}

impl Start {
    fn new(sandbox: &str) -> Self {
        let mark = format!("start-{}", uuid());
        let repository = folder(&[(&mark, "")]);
        let root = repository.path().canonicalize().expect("it is there");
        let work = folder(&[]);
        let bounds = json!({
            "tree_bytes": 1 << 20, "tree_inodes": 100, "scratch_bytes": 1 << 20, "scratch_inodes": 100,
            "build_bytes": 1 << 20, "build_inodes": 100,
            "tasks": 10, "memory_bytes": 1 << 30,
        });
        let spec = json!({
            "sandbox": sandbox, "program": "/bin/sh", "arguments": ["-c", "echo started; sleep 60; exit"],
            "directory": root, "environment": {"PATH": "/usr/bin:/bin", "MARK": mark}, "root": root, "hidden": [],
            "visible": [], "layers": [], "files": [], "builds": [], "refreshed": [],
        "proposed": [], "before": [], "hands_back": false, "home": null, "bounds": bounds, "installation": null, "folder": work.path(),
        });
        let text = spec.to_string().into_bytes();
        let length = u32::try_from(text.len()).expect("it fits").to_le_bytes();
        Self {
            mark,
            spec: [&length, text.as_slice()].concat(),
            _folders: [repository, work],
        }
    }

    /// The two ends of a helper's socket. The spec is in it already.
    fn socket(&self) -> (UnixStream, UnixStream) {
        let (mut own, helpers) = UnixStream::pair().expect("there are sockets");
        own.write_all(&self.spec).expect("it fits the buffer");
        (own, helpers)
    }

    fn start(&self, mut command: Command, helpers: UnixStream) -> (Child, ChildStdout) {
        command
            .env("MARK", &self.mark)
            .stdin(Stdio::from(OwnedFd::from(helpers)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary runs");
        let output = child.stdout.take().expect("it is a pipe");
        (child, output)
    }

    fn nothing_is_left(&self, when: &str) {
        until(when, || processes_of(&self.mark) == 0);
    }
}

/// Number of processes that were started with this in their environment.
fn processes_of(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("it can be listed").flatten();
    let marked = entries.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark)
    });
    marked.count()
}

fn outer(home: &Home) -> Command {
    home.tool(Path::new("/"), &["__contain"])
}

/// The inner helper alone, where the outer one would have put it.
fn inner(home: &Home, sandbox: &str) -> Command {
    let helper = home.tool(Path::new("/"), &["__contain", "--inner"]);
    if sandbox == "landlock" {
        return helper;
    }
    #[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
    let mut outside = Command::new("unshare");
    let namespaces = [
        "--map-root-user",
        "--mount",
        "--net",
        "--ipc",
        "--uts",
        "--pid",
        "--fork",
    ];
    outside
        .args(namespaces)
        .arg(helper.get_program())
        .args(helper.get_args())
        .current_dir("/")
        .env_clear();
    outside
}

fn helpers(home: &Home) -> Vec<(&'static str, &'static str, Command)> {
    let both = |sandbox| {
        [
            ("outer", sandbox, outer(home)),
            ("inner", sandbox, inner(home, sandbox)),
        ]
    };
    SANDBOXES.into_iter().flat_map(both).collect()
}

/// True where something of this has happened by now.
fn has(handle: impl AsFd, what: PollFlags) -> bool {
    let mut polled = [PollFd::new(&handle, what)];
    rustix::event::poll(&mut polled, Some(&Timespec::default())).expect("it is open");
    polled[0].revents().contains(what)
}

#[test]
fn a_helper_whose_starter_was_gone_before_it_ran_starts_nothing() {
    let home = Home::empty();
    for (helper, sandbox, command) in helpers(&home) {
        let start = Start::new(sandbox);
        let (own, end) = start.socket();
        drop(own);
        // Another test that starts something just now has a copy for a moment.
        until("it is closed", || has(&end, PollFlags::HUP));
        let (mut child, mut output) = start.start(command, end);
        let mut said = String::new();
        output.read_to_string(&mut said).expect("it is text");
        child.wait().expect("it ends");
        assert_eq!(said, "", "{helper}, {sandbox}");
        start.nothing_is_left(&format!("{helper}, {sandbox}"));
    }
}

/// A parent that has closed its end but still lives: the kernel does not report its death.
#[test]
fn a_run_ends_when_nobody_holds_the_other_end_of_its_socket() {
    let home = Home::empty();
    for (helper, sandbox, command) in helpers(&home) {
        let start = Start::new(sandbox);
        let (own, end) = start.socket();
        let (mut child, output) = start.start(command, end);
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said).expect("it is text");
        assert_eq!(said, "started\n", "{helper}, {sandbox}");
        drop(own);
        start.nothing_is_left(&format!("{helper}, {sandbox}"));
        child.wait().expect("it ends");
    }
}

/// Result of killing an outer helper at one of its system calls.
#[derive(Debug, PartialEq)]
enum Reached {
    /// It was, and whether it had started the inner one by then.
    Killed { has_child: bool },
    /// The program ran before that.
    Started,
}

/// Starts a run, and kills its outer helper where it enters or leaves a system call for the `step`th time, the reading
/// of the specification first.
fn killed_at(home: &Home, sandbox: &str, step: usize) -> Reached {
    let start = Start::new(sandbox);
    let (mut own, end) = UnixStream::pair().expect("there are sockets");
    let (mut child, output) = start.start(outer(home), end);
    let stat = format!("/proc/{}/stat", child.id());
    let waits = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    until("it waits for its specification", waits);
    let traced = Traced::of(&child);
    own.write_all(&start.spec).expect("it fits the buffer");
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let has_child = || std::fs::read_to_string(&children).is_ok_and(|list| !list.is_empty());
    let mut steps = 0;
    let reached = loop {
        if !traced.go_on(|| has(&output, PollFlags::IN)) {
            break Reached::Started;
        }
        steps += 1;
        if steps == step {
            break Reached::Killed { has_child: has_child() };
        }
    };
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    start.nothing_is_left(&format!("{sandbox}: killed at step {step}"));
    reached
}

/// Also between the start of the inner helper and the moment at which that asks the kernel to die with the outer one.
#[test]
fn an_outer_helper_that_is_killed_at_any_step_of_its_start_leaves_nothing() {
    /// Of what comes before the inner helper every so manieth step; of the rest each one.
    const STRIDE: usize = 24;
    let home = Home::empty();
    for sandbox in SANDBOXES {
        let has_child = |step| match killed_at(&home, sandbox, step) {
            Reached::Killed { has_child } => Some(has_child),
            Reached::Started => None,
        };
        let strides = (1..).step_by(STRIDE);
        let before = strides.take_while(|&step| has_child(step) == Some(false)).last();
        let before = before.expect("the first step is early enough");
        let rest: Vec<bool> = (before + 1..).map_while(has_child).collect();
        let with_child = rest.iter().filter(|has_child| **has_child).count();
        assert!(before > STRIDE && with_child > 4, "{sandbox}: {before}, {rest:?}");
    }
}

/// A process whose system calls this thread follows.
struct Traced(libc::pid_t);

impl Traced {
    fn of(child: &Child) -> Self {
        let traced = Self(libc::pid_t::try_from(child.id()).expect("it is a number"));
        traced.ask(libc::PTRACE_SEIZE, libc::PTRACE_O_TRACESYSGOOD);
        traced.ask(libc::PTRACE_INTERRUPT, 0);
        assert!(traced.has_stopped(|| false), "it stops where it is");
        traced
    }

    #[expect(unsafe_code, reason = "no safe function for it")]
    fn ask(&self, request: libc::c_uint, data: libc::c_int) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: none of these requests takes or fills a structure.
        let answer = unsafe { libc::ptrace(request, self.0, none, libc::c_long::from(data)) };
        assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
    }

    /// To the next beginning or end of a system call; false where it is over before.
    fn go_on(&self, is_over: impl Fn() -> bool) -> bool {
        self.ask(libc::PTRACE_SYSCALL, 0);
        self.has_stopped(is_over)
    }

    #[expect(unsafe_code, reason = "no safe function for it")]
    fn has_stopped(&self, is_over: impl Fn() -> bool) -> bool {
        let mut status = 0;
        while !is_over() {
            // SAFETY: the status is this function's own.
            match unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG | libc::__WALL) } {
                0 => std::thread::yield_now(),
                pid => {
                    assert!(
                        pid == self.0 && libc::WIFSTOPPED(status),
                        "it ended by itself: {status:x}"
                    );
                    return true;
                }
            }
        }
        false
    }
}

/// Without a sandbox, or with one whose helpers are gone, the mark of a run is all that is left; the next daemon goes
/// by it in the namespaces of runs, too.
#[test]
fn what_a_killed_daemon_left_in_a_namespace_of_its_own_ends_with_the_next_start() {
    let namespace = std::fs::metadata("/proc/self/ns/pid").expect("it is there").ino();
    let id = std::process::id();
    // A process with this number and this time there is none; in a container's namespace there may be.
    let [left, container] = [namespace, namespace + 1].map(|namespace| {
        let mark = format!("{id}-1-{namespace}-{}", uuid().replace('-', ""));
        #[expect(clippy::disallowed_methods, reason = "what a daemon would have started")]
        let mut command = Command::new("unshare");
        let inside = ["--map-root-user", "--pid", "--fork", "--kill-child", "env"];
        command
            .args(inside)
            .arg(format!("TOOL_RUN={mark}"))
            .args(["sleep", "60"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let child = command.spawn().expect("unshare is there");
        let run = format!("TOOL_RUN={mark}");
        until("it runs", || processes_of(&run) == 1);
        (child, run)
    });
    let home = Home::offline();
    home.serve();
    until("it is gone", || processes_of(&left.1) == 0);
    assert_eq!(processes_of(&container.1), 1, "that is not ours to judge");
    for (mut child, _) in [left, container] {
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
    }
}
