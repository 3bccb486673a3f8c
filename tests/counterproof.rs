//! The counter-proof: every attack of the hostile guest, every escape of a process and every trial of redaction, taint and
//! the server, with its defence switched off.
//!
//! An attack that nothing stops must succeed, or it proves nothing where it is refused. So each is made twice: as the
//! product is, where it must be held, and with the defences off that its table names, where it must get out. A process
//! of its own, with limits and a temporary folder of its own, makes each. This binary is built with the feature
//! `counterproof`, as nothing else is, and is its own helper for contained runs.
//!
//! `cargo test … --features host/counterproof --test counterproof -- NAME…` makes only those.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use host::defence::{self, Counter, Defence};
use host::process::confine;
use host::process::contain::{self, HELPER_COMMAND, Sandbox, probes};
use host::process::{ProbeOutcome, ProbeVerdict};
use host::skill::Builtin;
use host::skill::attacks::{self, Play};
use host::skill::installs;
use host::trials;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use tokio_util::sync::CancellationToken;

/// What must have been seen to succeed on any machine on which tests run.
const SEEN_MIN: usize = 40;

/// How often a race is run until it is won, and how long.
const RACES_MAX: usize = 40;

/// Longest time of one process: what goes on for ever is noticed by it long before.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    contain::offer_helper();
    match arguments.as_slice() {
        [HELPER_COMMAND] => contain::helper(false),
        [HELPER_COMMAND, "--inner"] => contain::helper(true),
        [confine::HELPER_COMMAND] => host::skill::helper::run(),
        // What a helper starts that can.
        ["--version"] => ExitCode::SUCCESS,
        ["one", how, name, off] => one(how, name, off),
        names => all(names.iter().copied().filter(|name| !name.starts_with('-')).collect()),
    }
}

// ---- one, in a process of its own ----

/// Makes one attack and tells what came of it on one line.
fn one(how: &str, name: &str, off: &str) -> ExitCode {
    let off: Vec<Defence> = serde_json::from_str(off).expect("the other process has written it");
    defence::switch_off(&off);
    limit(how);
    let cancel = CancellationToken::new();
    let escape = |sandbox| {
        let attempt = probes::ATTEMPTS.iter().find(|attempt| attempt.name == name);
        let attempt = attempt.expect("it is in the table");
        match sandbox {
            Sandbox::None => attempt.make_bare(&cancel),
            sandbox => attempt.make(sandbox, &cancel),
        }
    };
    let outcome = match how {
        "attack" => {
            let attack = attacks::ATTACKS.iter().find(|attack| attack.name == name);
            let attack = attack.expect("it is in the table");
            let is_race = matches!(attack.play, Play::Swap(..)) && !off.is_empty();
            let times = if is_race { RACES_MAX } else { 1 };
            let mut outcomes = (0..times).map(|_| attack.make(hostile(), &cancel)).peekable();
            // A race is won sooner or later.
            loop {
                match outcomes.next().expect("there is one") {
                    ProbeOutcome::Held(_) if outcomes.peek().is_some() => {}
                    outcome => break outcome,
                }
            }
        }
        "escape" => escape(Sandbox::Namespaces),
        "fallback" => escape(Sandbox::Landlock),
        "helper" => in_helper(name, &off),
        "install" => {
            let attempt = installs::ATTEMPTS.iter().find(|attempt| attempt.name == name);
            attempt.expect("it is in the table").make(&cancel)
        }
        "trial" => {
            let trial = trials::TRIALS.iter().find(|trial| trial.name == name);
            trial.expect("it is in the table").make()
        }
        _ => escape(Sandbox::None),
    };
    let (word, detail) = match outcome {
        ProbeOutcome::Held(detail) => ("held", detail),
        ProbeOutcome::GotOut(detail) => ("out", detail),
        ProbeOutcome::Odd(detail) => ("odd", detail),
        ProbeOutcome::NotAvailable(detail) => ("none", detail),
    };
    say(&format!("{word} {}", detail.replace('\n', " ")));
    ExitCode::SUCCESS
}

/// One of the attempts of a helper; all are made.
fn in_helper(name: &str, off: &[Defence]) -> ProbeOutcome {
    if off.contains(&Defence::HelperHandles) {
        // Handles that stay open in what is started, as none of ours does.
        for _ in 0..4 {
            std::mem::forget(rustix::io::dup(std::io::stdin()));
        }
    }
    let results = confine::probe();
    let result = results.into_iter().find(|result| result.name == name);
    let result = result.expect("it is in the table");
    match result.verdict {
        ProbeVerdict::Pass => ProbeOutcome::Held(result.detail),
        ProbeVerdict::Fail if result.got_out => ProbeOutcome::GotOut(result.detail),
        ProbeVerdict::Fail => ProbeOutcome::Odd(result.detail),
        ProbeVerdict::NotAvailable => ProbeOutcome::NotAvailable(result.detail),
    }
}

/// What a guest or a run can take of this machine where no defence bounds it.
fn limit(how: &str) {
    let mut limits = vec![
        (Resource::Cpu, 100),
        (Resource::Fsize, 64 << 20),
        (Resource::Nofile, 1024),
    ];
    if how == "attack" {
        limits.push((Resource::Core, 0));
    }
    for (resource, bound) in limits {
        let both = Rlimit {
            current: Some(bound),
            maximum: Some(bound),
        };
        rustix::process::setrlimit(resource, both).expect("limits may be lowered");
    }
}

/// The hostile guest as `scripts/build` has prepared it.
fn hostile() -> &'static [Builtin] {
    let skills = target().join("skills");
    let bytes = |ending: &str| {
        let path = skills.join(format!("hostile.{ending}"));
        let content = std::fs::read(&path);
        content.unwrap_or_else(|error| panic!("{}: {error}: run scripts/build", path.display()))
    };
    let text = |ending: &str| &*String::from_utf8(bytes(ending)).expect("it is text").leak();
    Box::leak(Box::new([Builtin {
        name: "hostile",
        digest: text("digest"),
        wasm: bytes("wasm").leak(),
        compiled: bytes("compiled").leak(),
        descriptor: text("json"),
    }]))
}

fn target() -> &'static Path {
    let binary = Path::new(env!("CARGO_BIN_EXE_embed-skills"));
    binary.ancestors().nth(2).expect("the binary lies in a profile")
}

// ---- all ----

/// Something to be made: an attack or an escape, and with what off.
#[derive(Debug, Clone, Copy)]
struct Job {
    how: &'static str,
    name: &'static str,
    counter: Counter,
}

/// What came of the two times that it was made.
#[derive(Debug)]
enum Verdict {
    /// Held, and seen to get out.
    Seen(String),
    /// Held; it cannot be seen, and why.
    Unseen(String),
    /// Not as it should.
    Failed(String),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Seen(how) => write!(formatter, "seen    {how}"),
            Self::Unseen(why) => write!(formatter, "unseen  {why}"),
            Self::Failed(why) => write!(formatter, "FAILED  {why}"),
        }
    }
}

fn all(names: BTreeSet<&str>) -> ExitCode {
    let own = std::fs::read(std::env::current_exe().expect("it runs")).expect("it is a file");
    assert!(
        holds(&own, defence::MARKER.as_bytes()),
        "a binary that can do this is marked"
    );
    let sandbox = contain::available().sandbox;
    let jobs: Vec<Job> = jobs(sandbox)
        .into_iter()
        .filter(|job| names.is_empty() || names.contains(job.name))
        .collect();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).min(4) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = prove(job);
                    say(&format!("{:30} {verdict}", job.name));
                    verdicts
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((job, verdict));
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    conclude(&verdicts, names.is_empty())
}

fn jobs(sandbox: Sandbox) -> Vec<Job> {
    let attacks = attacks::ATTACKS.iter().map(|attack| Job {
        how: "attack",
        name: attack.name,
        counter: attack.counter,
    });
    let escapes = probes::ATTEMPTS.iter().map(|attempt| Job {
        how: match attempt.counter() {
            Counter::Fallback(_) => "fallback",
            _ => "escape",
        },
        name: attempt.name,
        counter: attempt.counter(),
    });
    let helpers = confine::ATTEMPTS.iter().map(|attempt| Job {
        how: "helper",
        name: attempt.name,
        counter: Counter::Off(attempt.defences),
    });
    let installs = installs::ATTEMPTS.iter().map(|attempt| Job {
        how: "install",
        name: attempt.name,
        counter: Counter::Off(attempt.defences),
    });
    let trials = trials::TRIALS
        .iter()
        .filter(|trial| trial.is_possible())
        .map(|trial| Job {
            how: "trial",
            name: trial.name,
            counter: Counter::Off(trial.defences),
        });
    let is_possible = |job: &Job| match job.how {
        "attack" | "trial" => true,
        "helper" => confine::available().is_full(),
        "fallback" => sandbox != Sandbox::None,
        _ => sandbox == Sandbox::Namespaces,
    };
    let all = attacks.chain(escapes).chain(helpers).chain(installs).chain(trials);
    all.filter(is_possible).collect()
}

fn prove(job: &Job) -> Verdict {
    match run(job.how, job.name, &[]) {
        Some(said) if said.starts_with("held ") => {}
        said => return Verdict::Failed(format!("with every defence on it is not held: {said:?}")),
    }
    let off = match job.counter {
        Counter::Off(off) | Counter::Fallback(off) => off,
        Counter::Unseen(reason) => return Verdict::Unseen(reason.to_owned()),
    };
    let said = run(job.how, job.name, off);
    if let Some(detail) = said.as_deref().and_then(|said| said.strip_prefix("out ")) {
        return Verdict::Seen(detail.chars().take(100).collect());
    }
    // This machine may refuse it to everybody, whatever is around it.
    let bare = matches!(job.how, "escape" | "fallback")
        .then(|| run("bare", job.name, &[]))
        .flatten();
    match bare {
        Some(bare) if bare.starts_with("odd refused: ") || bare.starts_with("held refused: ") => {
            Verdict::Unseen(format!("this machine refuses it to everybody: {bare}"))
        }
        bare => Verdict::Failed(format!(
            "without {off:?} it does not get out: {said:?}; without any sandbox: {bare:?}"
        )),
    }
}

/// Makes one in a process of its own. Nothing where it had to be ended.
fn run(how: &str, name: &str, off: &[Defence]) -> Option<String> {
    let folder = tempfile::Builder::new()
        .prefix("tool-counterproof-")
        .tempdir()
        .expect("a temporary folder");
    let off = serde_json::to_string(off).expect("names are text");
    let own = std::env::current_exe().expect("it runs");
    #[expect(clippy::disallowed_methods, reason = "a process of its own is the point")]
    let mut command = match name {
        // Where there is no terminal, nothing can keep it.
        "open_terminal" => Command::new("python3"),
        _ => Command::new(&own),
    };
    if name == "open_terminal" {
        let beneath = "import pty, sys; pty.spawn(sys.argv[1:])";
        command.args(["-c", beneath]).arg(&own);
    }
    let mut child = command
        .args(["one", how, name, &off])
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
    while child.try_wait().expect("it is ours").is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    // What it has left, and itself where it would not end.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    child.wait().expect("it is ours");
    let mut said = String::new();
    let mut stdout = child.stdout.take().expect("it is a pipe");
    stdout.read_to_string(&mut said).expect("it is text");
    said.lines().last().map(|line| line.trim_end().to_owned())
}

fn conclude(verdicts: &[(&Job, Verdict)], is_whole: bool) -> ExitCode {
    let count = |is_one: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, verdict)| is_one(verdict)).count();
    let seen = count(|verdict| matches!(verdict, Verdict::Seen(_)));
    let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    let unseen = count(|verdict| matches!(verdict, Verdict::Unseen(_)));
    say(&format!(
        "\n{seen} held and seen to succeed without their defences, {unseen} held and unseen for a reason, {failed} failed"
    ));
    for (job, verdict) in verdicts
        .iter()
        .filter(|(_, verdict)| matches!(verdict, Verdict::Failed(_)))
    {
        say(&format!("{:30} {verdict}", job.name));
    }
    let is_proven = failed == 0 && (seen >= SEEN_MIN || !is_whole);
    match is_proven {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// A line for whoever reads the test's output.
fn say(line: &str) {
    use std::io::Write;
    // A reader that is gone needs no line.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
