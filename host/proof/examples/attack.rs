//! Makes attacks by their names, each in a process of its own, and fails unless all of them are held.
//!
//! `scripts/mutants` judges a changed boundary by it, so an attack may succeed here: the process that makes it has limits
//! of its own and a temporary folder of its own. `cargo run -p tool-proof --example attack -- NAME…`; a name may be that
//! of a whole table (`attacks`, `escapes`, `helpers`, `installs`), and `NAME@fallback` is an escape in the fallback of
//! the sandbox. It needs the guest that `scripts/build` prepares.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal};
use tokio_util::sync::CancellationToken;
use tool_proof::attacks::{ATTACKS, AttackMethod};
use tool_proof::{ProbeOutcome, ProbeVerdict, helpers, installs, probes};
use tool_sandbox::helper_process;
use tool_sandbox::program_sandbox::{self, Sandbox};
use tool_skill::Builtin;
use tool_skill::embedded::{Packed, base_of};

/// Tries of a race until it is won.
const RACES_MAX: usize = 20;

/// Longest time of one process: an attack that goes on after its deadline is noticed by it long before.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    program_sandbox::offer_helper();
    match arguments.as_slice() {
        [program_sandbox::HELPER_COMMAND] => program_sandbox::run_helper(false),
        [program_sandbox::HELPER_COMMAND, "--inner"] => program_sandbox::run_helper(true),
        // A program that does nothing.
        [program_sandbox::HELPER_COMMAND, "--nothing"] | ["--version"] => ExitCode::SUCCESS,
        [helper_process::HELPER_COMMAND] => tool_skill::helper::run_helper(),
        [helpers::HELPER_COMMAND] => helpers::serve_attempts(),
        ["one", name] => make_one(name),
        names => make_all(names),
    }
}

// ---- one, in a process of its own ----

/// Makes one attack and prints what came of it on one line.
fn make_one(name: &str) -> ExitCode {
    let (word, detail) = match make(name) {
        ProbeOutcome::Held(detail) => ("held", detail),
        ProbeOutcome::GotOut(detail) => ("out", detail),
        ProbeOutcome::Odd(detail) => ("odd", detail),
        ProbeOutcome::NotAvailable(detail) => ("none", detail),
    };
    print_line(&format!("{word} {}", detail.replace('\n', " ")));
    ExitCode::SUCCESS
}

fn make(name: &str) -> ProbeOutcome {
    let cancel = CancellationToken::new();
    let (plain, sandbox) = match name.strip_suffix("@fallback") {
        Some(plain) => (plain, Sandbox::Landlock),
        None => (name, Sandbox::Namespaces),
    };
    limit_resources(ATTACKS.iter().any(|attack| attack.name == name));
    if let Some(attack) = ATTACKS.iter().find(|attack| attack.name == name) {
        let times = if matches!(attack.play, AttackMethod::Swap(..)) {
            RACES_MAX
        } else {
            1
        };
        let mut outcomes = (0..times).map(|_| attack.make(hostile(), &cancel)).peekable();
        // A race that can be won is won sooner or later.
        loop {
            match outcomes.next().expect("it is made at least once") {
                ProbeOutcome::Held(_) if outcomes.peek().is_some() => {}
                outcome => return outcome,
            }
        }
    }
    if let Some(attempt) = probes::ATTEMPTS.iter().find(|attempt| attempt.name == plain) {
        return attempt.make(sandbox, &cancel);
    }
    if let Some(attempt) = installs::ATTEMPTS.iter().find(|attempt| attempt.name == name) {
        return attempt.make(&cancel);
    }
    make_in_helper(name)
}

/// One of the attempts of a helper; all are made.
fn make_in_helper(name: &str) -> ProbeOutcome {
    if name == "helper-handles" {
        // Handles that stay open in programs that are started, as none of the engine's does.
        for _ in 0..4 {
            std::mem::forget(rustix::io::dup(std::io::stdin()));
        }
    }
    let result = helpers::probe_helper().into_iter().find(|result| result.name == name);
    let Some(result) = result else {
        return ProbeOutcome::Odd("there is no such attack".to_owned());
    };
    match result.verdict {
        ProbeVerdict::Pass => ProbeOutcome::Held(result.detail),
        ProbeVerdict::Fail if result.got_out => ProbeOutcome::GotOut(result.detail),
        ProbeVerdict::Fail => ProbeOutcome::Odd(result.detail),
        ProbeVerdict::NotAvailable => ProbeOutcome::NotAvailable(result.detail),
    }
}

/// Bounds what a guest or a run can take of this machine where the changed boundary does not.
fn limit_resources(is_attack: bool) {
    let mut bounds = vec![
        (Resource::Cpu, 100),
        (Resource::Fsize, 64 << 20),
        (Resource::Nofile, 1024),
    ];
    if is_attack {
        bounds.push((Resource::Core, 0));
    }
    for (resource, bound) in bounds {
        let both = Rlimit {
            current: Some(bound),
            maximum: Some(bound),
        };
        rustix::process::setrlimit(resource, both).expect("limits may be lowered");
    }
}

/// The hostile guest as `scripts/build` has prepared it.
fn hostile() -> &'static [Builtin] {
    let own = std::env::current_exe().expect("it runs");
    let skills = own.ancestors().nth(3).expect("it lies in a profile").join("skills");
    let read = |name: &str, ending: &str| {
        let path = skills.join(name).with_extension(ending);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}: run scripts/build", path.display()))
    };
    let text = |ending: &str| &*String::from_utf8(read("hostile", ending)).expect("it is text").leak();
    let packed = |ending: &str| Packed {
        bytes: read("hostile", ending).leak(),
        base: base_of("hostile").map_or(&[], |base| read(base, ending).leak()),
    };
    Box::leak(Box::new([Builtin {
        name: "hostile",
        digest: text("digest"),
        wasm: packed("wasm"),
        compiled: packed("compiled"),
        descriptor: text("json"),
    }]))
}

// ---- all ----

fn make_all(names: &[&str]) -> ExitCode {
    let mut lost = 0;
    for name in names.iter().flat_map(|name| listed(name)) {
        let said = start(name).unwrap_or_else(|| "ended without a word".to_owned());
        if !said.starts_with("held ") {
            lost += 1;
        }
        print_line(&format!("{name:30} {said}"));
    }
    match lost {
        0 if !names.is_empty() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The names of a table, or the name itself.
fn listed(name: &str) -> Vec<&str> {
    match name {
        "attacks" => ATTACKS.iter().map(|attack| attack.name).collect(),
        "escapes" => probes::ATTEMPTS.iter().map(|attempt| attempt.name).collect(),
        "helpers" => helpers::ATTEMPTS.iter().map(|attempt| attempt.name).collect(),
        "installs" => installs::ATTEMPTS.iter().map(|attempt| attempt.name).collect(),
        name => vec![name],
    }
}

/// Makes one in a process of its own; its last line. Nothing where it had to be ended.
fn start(name: &str) -> Option<String> {
    let folder = tempfile::Builder::new()
        .prefix("tool-attack-")
        .tempdir()
        .expect("a temporary folder");
    let own = std::env::current_exe().expect("it runs");
    let beneath = "import pty, sys; pty.spawn(sys.argv[1:])";
    #[expect(clippy::disallowed_methods, reason = "a process of its own is the point")]
    let mut command = match name {
        // Without a terminal, nothing can keep it.
        "open_terminal" => Command::new("python3"),
        _ => Command::new(&own),
    };
    if name == "open_terminal" {
        command.args(["-c", beneath]).arg(&own);
    }
    let mut child = command
        .args(["one", name])
        .env("TMPDIR", folder.path())
        .env("TOOL_PROBE_SECRET", "a key of the starter's")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("it runs already");
    let group = Pid::from_child(&child);
    let until = Instant::now() + PATIENCE;
    while child.try_wait().expect("it is a child").is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Ends everything that it has left, and itself where it would not end.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    child.wait().expect("it is a child");
    let mut said = String::new();
    let mut stdout = child.stdout.take().expect("it is a pipe");
    stdout.read_to_string(&mut said).expect("it is text");
    said.lines().last().map(|line| line.trim_end().to_owned())
}

fn print_line(line: &str) {
    // A reader that is gone needs no line.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
