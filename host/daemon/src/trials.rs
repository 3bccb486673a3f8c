//! Trials: what is tried against redaction, taint and the server, where neither a guest nor a run is needed.
//!
//! Each has its place in `tests/counterproof.rs` as the attacks have: held as the product is, and seen to get out with
//! its defence off. They work in temporary folders and on loopback, and are in no build but the tests'.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use rustix::process::{Uid, geteuid};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::api::Effect;
use crate::api::{self, Operation, PolicyRequest};
use crate::config::{Environment, Live};
use crate::context::NoParser;
use crate::daemon;
use crate::defence::Defence;
use crate::http::{self, AppState, Peer, ServerSockets, Traffic};
use crate::process::ProbeOutcome as Outcome;
use crate::redaction::Redactor;
use crate::repository::{Options, Repository};
use crate::session::Sessions;
use crate::skill::policy::{Cause, Decision, Policy};
use crate::skill::{CallContext, Conversation, SkillHost, taint::Taint};

/// One of them.
#[derive(Clone, Copy)]
pub struct Trial {
    /// Its name.
    pub name: &'static str,
    /// Completes "somebody tries to …".
    pub tries: &'static str,
    /// What has to be off for it to succeed.
    pub defences: &'static [Defence],
    make: fn() -> io::Result<Outcome>,
}

impl Trial {
    const fn new(
        name: &'static str,
        tries: &'static str,
        defences: &'static [Defence],
        make: fn() -> io::Result<Outcome>,
    ) -> Self {
        Self {
            name,
            tries,
            defences,
            make,
        }
    }

    /// Makes it.
    pub fn make(&self) -> Outcome {
        (self.make)().unwrap_or_else(|error| Outcome::Odd(error.to_string()))
    }

    /// False where this machine, or this user, cannot make it.
    pub fn is_possible(&self) -> bool {
        self.name != AS_ANOTHER_USER || (cfg!(target_os = "linux") && geteuid().is_root())
    }
}

const AS_ANOTHER_USER: &str = "ask_as_another_user";

/// All of them.
pub const TRIALS: &[Trial] = &[
    Trial::new(
        "send_key",
        "have a key sent to a provider",
        &[Defence::Redaction],
        send_key,
    ),
    Trial::new(
        "write_key_elsewhere",
        "have a key of one file written into another one",
        &[Defence::KeysOfTheFile],
        write_key_elsewhere,
    ),
    Trial::new(
        "commit_after_words_of_others",
        "cause a commit by words that others wrote",
        &[Defence::Taint],
        commit_after_words_of_others,
    ),
    Trial::new(
        "ignore_root_file",
        "cause a commit in a repository that forbids it",
        &[Defence::RootFile],
        ignore_root_file,
    ),
    Trial::new(
        "ignore_root_file_around",
        "cause a commit in a folder of a repository that forbids it",
        &[Defence::RootFile],
        ignore_root_file_around,
    ),
    Trial::new(
        "bind_name_anew",
        "ask by a name that leads to loopback",
        &[Defence::Hosts],
        || asked_by_page(&[("host", "evil.example:8000")]),
    ),
    Trial::new(
        "ask_from_origin",
        "ask from a page of another origin",
        &[Defence::Origins],
        || asked_by_page(&[("host", HOST), ("origin", "http://evil.example")]),
    ),
    Trial::new(
        "ask_from_site",
        "ask from a page whose browser names no origin",
        &[Defence::Sites],
        || asked_by_page(&[("host", HOST), ("sec-fetch-site", "cross-site")]),
    ),
    Trial::new(
        "ask_without_token",
        "ask as nobody who is known",
        &[Defence::Callers],
        || asked(&[("host", HOST)], false),
    ),
    Trial::new(
        AS_ANOTHER_USER,
        "ask as another user of the machine",
        &[Defence::SocketOwners],
        ask_as_another_user,
    ),
    Trial::new(
        "give_home",
        "have a daemon work in a home of another user's",
        &[Defence::HomeOwner],
        give_home,
    ),
];

/// Whether it got what it wanted.
fn judged(has_got: bool, what: &str) -> io::Result<Outcome> {
    Ok(match has_got {
        true => Outcome::GotOut(what.to_owned()),
        false => Outcome::Held(format!("not {what}")),
    })
}

// ---- redaction ----

/// A key by its form alone, which opens nothing.
fn key() -> String {
    format!("ghp_{}", "q7Vd0LxN3sKb9TzR5mHc1YwF8gJp2UeA6oXi")
}

fn send_key() -> io::Result<Outcome> {
    let text = format!("TOKEN = \"{}\"\n", key());
    let sent = Redactor::default().text(&text, Some("settings.py")).into_owned();
    judged(sent.contains(&key()), "sent")
}

fn write_key_elsewhere() -> io::Result<Outcome> {
    let redactor = Redactor::default();
    let learned = redactor.text(&key(), Some("settings.py")).into_owned();
    let written = redactor.restore(
        format!("see {learned}").into_bytes(),
        Some(b"a page that everybody reads"),
    );
    let written = written.unwrap_or_default();
    judged(String::from_utf8_lossy(&written).contains(&key()), "written")
}

// ---- taint ----

/// A session in `root` whose user allows commits, and whatever the repository says of them.
fn session(root: &Path) -> io::Result<CallContext> {
    let repository = Repository::open(root, &Options::default()).map_err(io::Error::other)?;
    let request = PolicyRequest {
        allow: vec!["commit-git".to_owned()],
        deny: repository.narrowing().deny.clone(),
        ..PolicyRequest::default()
    };
    let policy = Policy::new(Cause::Operation(Operation::Refactor), &request);
    let policy = policy.map_err(|problem| io::Error::other(problem.message))?;
    Ok(CallContext {
        conversation: Arc::new(Conversation {
            taint: Taint::new(false),
            ..Conversation::default()
        }),
        ..CallContext::unattended(repository, policy)
    })
}

fn commit_after_words_of_others() -> io::Result<Outcome> {
    let root = folder()?;
    fs::write(root.path().join("README.md"), "hello")?;
    let session = session(root.path())?;
    if session.decide(Effect::CommitGit) != Decision::Allow {
        return Ok(Outcome::Odd("not even before".to_owned()));
    }
    session.conversation.taint.note(&["`node_modules/`".to_owned()]);
    judged(session.decide(Effect::CommitGit) == Decision::Allow, "allowed")
}

fn ignore_root_file() -> io::Result<Outcome> {
    let root = folder()?;
    fs::write(root.path().join(".tool.toml"), "[policy]\ndeny = [\"commit-git\"]\n")?;
    judged(
        session(root.path())?.decide(Effect::CommitGit) == Decision::Allow,
        "allowed",
    )
}

fn ignore_root_file_around() -> io::Result<Outcome> {
    let root = folder()?;
    fs::create_dir_all(root.path().join(".git"))?;
    fs::write(root.path().join(".git/HEAD"), "ref: refs/heads/main\n")?;
    fs::write(root.path().join(".tool.toml"), "[policy]\ndeny = [\"commit-git\"]\n")?;
    let inner = root.path().join("inner");
    fs::create_dir(&inner)?;
    judged(session(&inner)?.decide(Effect::CommitGit) == Decision::Allow, "allowed")
}

// ---- server ----

const HOST: &str = "127.0.0.1:8000";

fn folder() -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("tool-trial-").tempdir()
}

/// A server of a home, as the daemon would set it up.
fn server(home: &Path, listening: SocketAddr) -> io::Result<AppState> {
    let skills = SkillHost::new(&[], home).map_err(io::Error::other)?;
    let sessions = Sessions::open(home, Arc::clone(&skills), Arc::new(NoParser), None, BTreeSet::new())
        .map_err(io::Error::other)?;
    Ok(AppState::new(http::Parts {
        sessions,
        skills,
        token: "0123456789abcdef".to_owned(),
        listening,
        live: Arc::new(Live::open(home, &Environment::default())),
        traffic: Arc::new(Traffic::new(io::sink())),
        started: api::now(),
        home: home.to_owned(),
        environment: Environment::default(),
    }))
}

/// A page in the user's own browser, which is a process of the user's.
fn asked_by_page(headers: &[(&str, &str)]) -> io::Result<Outcome> {
    asked(headers, true)
}

/// Asks for the user's sessions.
fn asked(headers: &[(&str, &str)], is_same_user: bool) -> io::Result<Outcome> {
    let home = folder()?;
    let listening = HOST.parse().map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(async {
        let router = http::router(server(home.path(), listening)?);
        let mut request = Request::builder().uri("/history");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).map_err(io::Error::other)?;
        let peer = Peer::new(listening, is_same_user);
        request.extensions_mut().insert(ConnectInfo(peer));
        let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
        Ok::<_, io::Error>(response.status().as_u16())
    })?;
    judged(status == 200, &format!("answered ({status})"))
}

/// A user that has no files, processes or name of their own.
const ANOTHER_USER: u32 = 65_533;

fn ask_as_another_user() -> io::Result<Outcome> {
    let home = folder()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let tcp = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let listening = tcp.local_addr()?;
    let unix = runtime.block_on(async { tokio::net::UnixListener::bind(daemon::socket_path(home.path())) })?;
    let state = runtime.block_on(async { server(home.path(), listening) })?;
    let stop = CancellationToken::new();
    let served = runtime.spawn(http::serve(
        ServerSockets { tcp, unix },
        state,
        stop.clone().cancelled_owned(),
    ));
    let answer = std::thread::spawn(move || ask_as(Uid::from_raw(ANOTHER_USER), listening)).join();
    stop.cancel();
    // It has told all that is asked of it.
    let _ = runtime.block_on(served);
    let answer = answer.unwrap_or_else(|_| Err(io::Error::other("the other user has crashed")))?;
    let status = answer.lines().next().unwrap_or_default();
    judged(status.contains(" 200 "), &format!("answered ({status})"))
}

/// Asks from a thread that is another user from now on; sockets belong to whoever makes them.
#[expect(clippy::disallowed_methods, reason = "it asks a server of its own process")]
fn ask_as(user: Uid, address: SocketAddr) -> io::Result<String> {
    rustix::thread::set_thread_uid(user)?;
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET /history HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

// ---- daemon ----

fn give_home() -> io::Result<Outcome> {
    let home = folder()?;
    // Whoever is not root cannot give anything away, and takes what root has.
    let place = match geteuid().is_root() {
        true => home.path(),
        false => Path::new("/"),
    };
    if geteuid().is_root() {
        rustix::fs::chown(place, Some(Uid::from_raw(ANOTHER_USER)), None)?;
    }
    if fs::metadata(place)?.uid() == geteuid().as_raw() {
        return Ok(Outcome::Odd("it is the user's own".to_owned()));
    }
    judged(daemon::check_home(place).is_ok(), "used")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::process::confine;
    use crate::process::contain::probes::ATTEMPTS;
    use crate::skill::attacks::ATTACKS;
    use crate::skill::installs;

    #[test]
    fn every_trial_is_held_with_all_defences() {
        let mut names = std::collections::BTreeSet::new();
        for trial in TRIALS.iter().filter(|trial| trial.is_possible()) {
            let outcome = trial.make();
            assert!(matches!(outcome, Outcome::Held(_)), "{}: {outcome:?}", trial.name);
            assert!(names.insert(trial.name) && !trial.tries.is_empty() && !trial.defences.is_empty());
        }
    }

    #[test]
    fn every_defence_is_taken_away_by_some_attack() {
        let attacks = ATTACKS.iter().map(|attack| attack.counter);
        let counters = attacks.chain(ATTEMPTS.iter().map(|attempt| attempt.counter()));
        let helpers = confine::ATTEMPTS.iter().flat_map(|attempt| attempt.defences);
        let installs = installs::ATTEMPTS.iter().flat_map(|attempt| attempt.defences);
        let trials = TRIALS.iter().flat_map(|trial| trial.defences);
        let used = counters
            .flat_map(|counter| counter.defences())
            .chain(helpers)
            .chain(installs)
            .chain(trials);
        let used: BTreeSet<Defence> = used.copied().collect();
        assert_eq!(used, Defence::ALL.iter().copied().collect());
    }
}
