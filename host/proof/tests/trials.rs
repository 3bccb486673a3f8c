//! Trials: attempts against redaction, taint and the server, where neither a guest nor a run is needed.
//!
//! Each makes the same attempt without its hostile part first, and that one succeeds: so it is refused for its reason.

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
use host::daemon;
use host::http::{self, AppState, Peer, ServerSockets, Traffic};
use rustix::process::{Uid, geteuid};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tool_config::{Environment, LiveConfig};
use tool_context::{Indexes, NoHistory, NoParser};
use tool_core::api::{self, Effect, Operation, PolicyRequest};
use tool_core::redaction::Redactor;
use tool_repository::{Options, Repository};
use tool_session::Sessions;
use tool_skill::policy::{Decision, EffectCause, Policy};
use tool_skill::{CallContext, Conversation, SkillHost, taint::Taint};
use tower::ServiceExt;

fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("tool-trial-")
        .tempdir()
        .expect("a temporary folder")
}

// ---- redaction ----

/// A key by its form alone, which opens nothing.
fn key() -> String {
    format!("ghp_{}", "q7Vd0LxN3sKb9TzR5mHc1YwF8gJp2UeA6oXi")
}

#[test]
fn a_key_is_not_sent_to_a_provider() {
    let redactor = Redactor::default();
    let text = format!("TOKEN = \"{}\"\n", key());
    let sent = redactor.text(&text, Some("settings.py"));
    assert!(!sent.contains(&key()), "{sent}");
    let harmless = "TOKEN = os.environ[\"TOKEN\"]\n";
    assert_eq!(redactor.text(harmless, Some("settings.py")), harmless);
}

#[test]
fn a_key_of_one_file_is_not_written_into_another_one() {
    let redactor = Redactor::default();
    let learned = redactor.text(&key(), Some("settings.py")).into_owned();
    let written_over = |old: &str| {
        let written = redactor.restore(format!("see {learned}").into_bytes(), Some(old.as_bytes()));
        written.map(|bytes| String::from_utf8_lossy(&bytes).contains(&key()))
    };
    assert_eq!(written_over(&format!("TOKEN = {}", key())).ok(), Some(true));
    assert_ne!(written_over("a page that everybody reads").ok(), Some(true));
}

// ---- taint ----

/// A session in `root` whose user allows commits, and whatever the repository says of them.
fn session(root: &Path) -> CallContext {
    let repository = Repository::open(root, &Options::default()).expect("it is a repository");
    let request = PolicyRequest {
        allow: vec!["commit-git".to_owned()],
        deny: repository.narrowing().deny.clone(),
        ..PolicyRequest::default()
    };
    let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &request).expect("it is a policy");
    CallContext {
        conversation: Arc::new(Conversation {
            taint: Taint::new(false),
            ..Conversation::default()
        }),
        ..CallContext::unattended(repository, policy)
    }
}

#[test]
fn words_of_others_cause_no_commit() {
    let root = folder();
    fs::write(root.path().join("README.md"), "hello").expect("the folder is writable");
    let session = session(root.path());
    assert_eq!(session.decide(Effect::CommitGit), Decision::Allow);
    session.conversation.taint.note(&["`node_modules/`".to_owned()]);
    assert_ne!(session.decide(Effect::CommitGit), Decision::Allow);
}

#[test]
fn a_repository_that_forbids_commits_gets_none() {
    let root = folder();
    assert_eq!(session(root.path()).decide(Effect::CommitGit), Decision::Allow);
    fs::write(root.path().join(".tool.toml"), "[policy]\ndeny = [\"commit-git\"]\n").expect("the folder is writable");
    assert_eq!(session(root.path()).decide(Effect::CommitGit), Decision::Deny);
}

#[test]
fn a_folder_of_a_repository_that_forbids_commits_gets_none() {
    let root = folder();
    let inner = root.path().join("inner");
    fs::create_dir_all(root.path().join(".git")).expect("the folder is writable");
    fs::create_dir(&inner).expect("the folder is writable");
    fs::write(root.path().join(".git/HEAD"), "ref: refs/heads/main\n").expect("the folder is writable");
    assert_eq!(session(&inner).decide(Effect::CommitGit), Decision::Allow);
    fs::write(root.path().join(".tool.toml"), "[policy]\ndeny = [\"commit-git\"]\n").expect("the folder is writable");
    assert_eq!(session(&inner).decide(Effect::CommitGit), Decision::Deny);
}

// ---- server ----

const HOST: &str = "127.0.0.1:8000";

/// A server of a home, as the daemon would set it up.
fn server(home: &Path, listening: SocketAddr) -> AppState {
    let skills = SkillHost::new(&[], home).expect("the engine starts");
    let indexes = Indexes::new(home, Arc::new(NoParser), Arc::new(NoHistory));
    let sessions =
        Sessions::open(home, Arc::clone(&skills), indexes, None, BTreeSet::new()).expect("the home can be used");
    AppState::new(http::RouterParts {
        sessions,
        skills,
        token: "0123456789abcdef".to_owned(),
        listening,
        live: Arc::new(LiveConfig::open(home, &Environment::default())),
        traffic: Arc::new(Traffic::new(io::sink())),
        started: api::current_time(),
        home: home.to_owned(),
        environment: Environment::default(),
    })
}

/// Asks for the user's sessions; the status of the answer.
fn ask(headers: &[(&str, &str)], is_same_user: bool) -> u16 {
    let home = folder();
    let listening = HOST.parse().expect("it is an address");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("threads can be made");
    runtime.block_on(async {
        let router = http::build_router(server(home.path(), listening));
        let mut request = Request::builder().uri("/history");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).expect("it is a request");
        let peer = Peer::new(listening, is_same_user);
        request.extensions_mut().insert(ConnectInfo(peer));
        let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
        response.status().as_u16()
    })
}

/// A page in the user's own browser, which is a process of the user's.
fn ask_as_page(headers: &[(&str, &str)]) -> u16 {
    ask(headers, true)
}

#[test]
fn a_name_that_leads_to_loopback_reaches_nothing() {
    assert_eq!(ask_as_page(&[("host", HOST)]), 200);
    assert_eq!(ask_as_page(&[("host", "evil.example:8000")]), 403);
}

#[test]
fn a_page_of_another_origin_reaches_nothing() {
    assert_eq!(ask_as_page(&[("host", HOST), ("origin", "http://127.0.0.1:8000")]), 200);
    assert_eq!(ask_as_page(&[("host", HOST), ("origin", "http://evil.example")]), 403);
}

#[test]
fn a_page_whose_browser_names_no_origin_reaches_nothing() {
    assert_eq!(ask_as_page(&[("host", HOST), ("sec-fetch-site", "same-origin")]), 200);
    assert_eq!(ask_as_page(&[("host", HOST), ("sec-fetch-site", "cross-site")]), 403);
}

#[test]
fn a_caller_without_the_token_reaches_nothing() {
    assert_eq!(
        ask(&[("host", HOST), ("authorization", "Bearer 0123456789abcdef")], false),
        200
    );
    assert_eq!(ask(&[("host", HOST)], false), 401);
}

/// A user that has no files, processes or name of their own.
const ANOTHER_USER: u32 = 65_533;

#[test]
fn another_user_of_the_machine_reaches_nothing() {
    // Only root can become another user.
    if !cfg!(target_os = "linux") || !geteuid().is_root() {
        return;
    }
    let home = folder();
    let runtime = tokio::runtime::Runtime::new().expect("threads can be made");
    let tcp = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .expect("loopback has a free port");
    let listening = tcp.local_addr().expect("it is bound");
    let socket = daemon::socket_path(home.path());
    let unix = runtime
        .block_on(async { tokio::net::UnixListener::bind(socket) })
        .expect("the folder is writable");
    let state = runtime.block_on(async { server(home.path(), listening) });
    let stop = CancellationToken::new();
    let served = runtime.spawn(http::serve_sockets(
        ServerSockets { tcp: Some(tcp), unix },
        state,
        stop.clone().cancelled_owned(),
    ));
    let ask_as = |user| {
        let answer = std::thread::spawn(move || ask_as(Uid::from_raw(user), listening)).join();
        let answer = answer
            .expect("the other user does not crash")
            .expect("the server answers");
        answer.lines().next().unwrap_or_default().to_owned()
    };
    let statuses = [0, ANOTHER_USER].map(ask_as);
    stop.cancel();
    // The answers are known.
    let _ = runtime.block_on(served);
    assert!(statuses[0].contains(" 200 "), "{statuses:?}");
    assert!(statuses[1].contains(" 401 "), "{statuses:?}");
}

/// Asks from a thread that is another user from now on; a socket belongs to the user who makes it.
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

#[test]
fn a_home_of_another_user_is_not_used() {
    let home = folder();
    assert!(daemon::check_home(home.path()).is_ok());
    // Only root can give a folder away; another user takes a folder of root's.
    let place = if geteuid().is_root() {
        home.path()
    } else {
        Path::new("/")
    };
    if geteuid().is_root() {
        rustix::fs::chown(place, Some(Uid::from_raw(ANOTHER_USER)), None).expect("root may");
    }
    let metadata = fs::metadata(place).expect("it is there");
    assert_ne!(metadata.uid(), geteuid().as_raw());
    assert!(daemon::check_home(place).is_err());
}
