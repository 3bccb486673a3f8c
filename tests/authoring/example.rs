//! The example that uses every part of the contract: built as its page says, and called with a repository and a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use host::outline::{SandboxedParser, SandboxedSymbols};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tool_core::api::PolicyRequest;
use tool_repository::{Options, Repository};
use tool_skill::embedded::Packed;
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::{
    CallContext, EmbeddedOutliner, HostServices, HttpTransport, InboundResponse, Limits, OutboundRequest, Outliners,
    RawArguments, SkillHost, TransportError,
};

use super::guide::follow;
use super::{Author, target};
use crate::support::{Finished, finish, folder, git, holds, say};

const PAGE: &str = include_str!("../../skills/example.md");

const SECRET: &str = "tk-19c5e02f7db3";

/// Warm calls of each skill.
const CALLS: usize = 200;

/// A repository with two commits.
fn repository() -> TempDir {
    let shop =
        "class Shop:\n    def sell(self, name):\n        return find(name)\n\n\ndef find(name):\n    return name\n";
    let folder = folder(&[
        ("src/shop.py", shop),
        ("docs/shop.md", "Call find.\n"),
        ("run", "#!/bin/sh  \necho\n"),
    ]);
    let root = folder.path();
    git(root, &["init", "--quiet", "--initial-branch", "main"]);
    git(root, &["config", "user.name", "Ada"]);
    git(root, &["config", "user.email", "ada@example.org"]);
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "--message", "Open the shop"]);
    std::fs::write(
        root.join("src/shop.py"),
        shop.replace("return name", "return name.lower()"),
    )
    .expect("it is writable");
    git(root, &["commit", "--quiet", "--all", "--message", "Find in lower case"]);
    folder
}

/// A ticket server on loopback. Each request goes to the receiver.
fn server() -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let port = listener.local_addr().expect("it is bound").port();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || serve(BufReader::new(stream), &sender));
        }
    });
    (port, receiver)
}

/// Answers the first request of a connection.
fn serve(mut reader: BufReader<TcpStream>, requests: &mpsc::Sender<String>) {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = bytes.trim().parse().expect("a number");
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the client sends its body");
    head.push_str(&String::from_utf8_lossy(&body));
    let status = if head.contains("/issues/CORE-404 ") {
        "404 Not Found"
    } else {
        "200 OK"
    };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 4\r\nconnection: close\r\n\r\nOpen");
    // A client that has gone needs no answer.
    let _ = reader.get_mut().write_all(answer.as_bytes());
    let _ = requests.send(head);
}

/// An author with the example of one language, a repository to call it on, and a ticket server.
struct Scene {
    author: Author,
    repository: TempDir,
    requests: mpsc::Receiver<String>,
}

impl Scene {
    fn new(heading: &str) -> Self {
        let (port, requests) = server();
        let author = Author::new();
        let place = author.home.path().join("config.toml");
        let config = std::fs::read_to_string(&place).expect("the home has one");
        let hosts = format!("\n[skills.hosts]\n\"tickets.example.org\" = \"http://127.0.0.1:{port}\"\n");
        std::fs::write(&place, format!("{config}{hosts}")).expect("the home is writable");
        follow(&author, PAGE, heading);
        Self {
            author,
            repository: repository(),
            requests,
        }
    }

    fn call(&self, function: &str, arguments: &Value, flags: &[&str]) -> Finished {
        let call = ["skill", "call", function, &arguments.to_string()];
        self.author.home.run(self.repository.path(), &[&call, flags].concat())
    }

    #[track_caller]
    fn told(&self, function: &str, arguments: &Value, flags: &[&str]) -> String {
        self.call(function, arguments, flags).expect(0).stdout
    }

    /// Sets the user's setting, as the page shows it.
    fn set_project(&self) {
        let place = self.author.home.path().join("config.toml");
        let config = std::fs::read_to_string(&place).expect("the home has one");
        let settings = "[skills.config.team]\nproject = \"CORE\"\n";
        assert!(PAGE.contains(settings));
        std::fs::write(place, format!("{config}{settings}")).expect("the home is writable");
    }

    fn set_secret(&self) {
        let set = "skill secret set tickets_token --host tickets.example.org";
        assert!(PAGE.contains(set));
        let arguments: Vec<&str> = set.split(' ').collect();
        let mut setting = self
            .author
            .home
            .tool(self.repository.path(), &arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = setting.stdin.take().expect("it is piped");
        writeln!(stdin, "{SECRET}").expect("it reads");
        drop(stdin);
        finish(setting.wait_with_output().expect("it ends")).expect(0);
    }
}

/// Calls each function with what it needs, then all of them 200 times.
fn uses_everything(heading: &str) {
    use std::os::unix::fs::PermissionsExt;

    let scene = Scene::new(heading);
    let place = |path: &str| scene.repository.path().join(path);

    let found = scene
        .call("find_uses", &json!({"name": "find"}), &["--json"])
        .expect(0)
        .stdout;
    let found: Value = serde_json::from_str(&found).expect("it is JSON");
    let text = "src/shop.py:6: def find(name)\ndocs/shop.md:1: text in the file\nsrc/shop.py:3: call in Shop.sell\n\
        1 definition and 2 uses; 2 files hold the word.";
    assert_eq!(found["text"], text, "{found}");
    assert_eq!(
        found["details"],
        json!({"definitions": 1, "uses": 2, "files": ["docs/shop.md", "src/shop.py"]})
    );
    assert_eq!(found["citations"], json!([{"path": "src/shop.py", "line": 6}]));
    let diagram = "graph LR\n  1[\"the file\"] --> 0[\"find\"]\n  2[\"Shop.sell\"] --> 0[\"find\"]\n";
    assert_eq!(found["media"][0]["data"], diagram);
    let logged = scene
        .call("find_uses", &json!({"name": "find"}), &["--log"])
        .expect(0)
        .stderr;
    holds(
        &logged,
        &["src/shop.py", "find is one of 3 definitions and uses 3 names"],
    );

    assert_eq!(
        scene.told("line_history", &json!({"path": "src/shop.py", "line": 7}), &[]),
        "`find`, lines 6 to 7:\nAda <ada@example.org>: Open the shop\nAda <ada@example.org>: Find in lower case\n\
         The last commit of the file changed 1 file.\n"
    );

    let allow = ["--allow", "write-repository"];
    let tidied = scene.told("tidy_file", &json!({"path": "run", "to": "bin/run"}), &allow);
    assert_eq!(tidied, "Tidied `bin/run`.\n");
    assert!(!place("run").exists());
    assert_eq!(
        std::fs::read_to_string(place("bin/run")).expect("it was moved"),
        "#!/bin/sh\necho\n"
    );
    let mode = std::fs::metadata(place("bin/run"))
        .expect("it is there")
        .permissions()
        .mode();
    assert_ne!(mode & 0o100, 0, "it is executable");

    let ticket = json!({"number": 7});
    let unset = scene.call("read_ticket", &ticket, &[]).expect(1);
    holds(
        &unset.stderr,
        &["the setting `project` is missing", "[skills.config.team]"],
    );
    scene.set_project();
    let unset = scene.call("read_ticket", &ticket, &[]).expect(1);
    let words = "CORE-7: the secret `tickets_token` is not set: `tool skill secret set tickets_token";
    holds(&unset.stderr, &[words]);
    scene.set_secret();
    assert_eq!(
        scene.told("read_ticket", &ticket, &[]),
        "CORE-7, read for the first time:\nOpen\n"
    );
    assert_eq!(scene.told("read_ticket", &ticket, &[]), "CORE-7, unchanged:\nOpen\n");
    let request = scene.requests.recv().expect("a request came");
    holds(
        &request,
        &[
            "GET /issues/CORE-7 HTTP/1.1",
            &format!("authorization: Bearer {SECRET}\r\n"),
        ],
    );
    let missing = scene.call("read_ticket", &json!({"number": 404}), &[]).expect(1);
    holds(&missing.stderr, &["there is no ticket CORE-404"]);

    let comment = json!({"number": 7, "text": "Fixed."});
    holds(
        &scene.call("comment_ticket", &comment, &[]).stderr,
        &["--allow http-write:tickets.example.org"],
    );
    let allow = ["--allow", "http-write:tickets.example.org"];
    assert_eq!(scene.told("comment_ticket", &comment, &allow), "Commented on CORE-7.\n");
    let posted = scene.requests.try_iter().last().expect("a request came");
    holds(&posted, &["POST /issues/CORE-7/comments HTTP/1.1"]);
    let body = posted.lines().last().expect("it has content");
    let body: Value = serde_json::from_str(body).expect("it is JSON");
    assert_eq!(body, json!({"text": "Fixed."}));

    let calls = [
        ("find_uses", json!({"name": "find"})),
        ("line_history", json!({"path": "src/shop.py", "line": 7})),
        ("tidy_file", json!({"path": "src/shop.py"})),
        ("read_ticket", ticket),
        ("comment_ticket", comment),
    ];
    warm_calls(heading, scene.author.home.path(), scene.repository.path(), &calls);
}

/// Answers each request at once, without a connection.
#[derive(Debug)]
struct TicketServer;

impl HttpTransport for TicketServer {
    fn send(
        &self,
        _: OutboundRequest,
        _: CancellationToken,
    ) -> mpsc::Receiver<Result<InboundResponse, TransportError>> {
        let (sender, receiver) = mpsc::channel();
        let response = InboundResponse {
            status: 200,
            fields: Vec::new(),
            body: b"Open".to_vec(),
        };
        sender.send(Ok(response)).expect("the receiver is here");
        receiver
    }
}

/// Makes 200 warm calls on a repository with the skills of a home, in this process. None fails. The test prints both
/// medians with the section of the page: other programs slow the wall clock down.
pub(super) fn warm_calls(section: &str, home: &Path, root: &Path, calls: &[(&str, Value)]) {
    let surroundings = HostServices {
        transport: Some(Arc::new(TicketServer)),
        symbols: Some(Arc::new(SandboxedSymbols {
            parser: Arc::new(SandboxedParser(Outliners::new(python_parser()))),
            indexes: None,
        })),
        ..HostServices::default()
    };
    let host = SkillHost::with_connections(&[], home, Limits::default(), surroundings).expect("the engine starts");
    let request = PolicyRequest {
        allow: vec!["write-repository".to_owned(), "http-write:*".to_owned()],
        ..PolicyRequest::default()
    };
    let repository = Repository::open(root, &Options::default()).expect("the folder is acceptable");
    let policy = Policy::new(EffectCause::SkillCall, &request).expect("the effects are known");
    let context = Arc::new(CallContext::unattended(repository, policy));
    let call = |number: usize| {
        let (function, arguments) = &calls[number % calls.len()];
        let (start, processor) = (Instant::now(), processor_time());
        let answer = host.call(&context, function, RawArguments::Value(arguments)).result;
        let took = (start.elapsed(), processor_time() - processor);
        if let Err(error) = answer {
            panic!("{function} {arguments}: {error}");
        }
        took
    };
    // Each pool of the engine loads the component once.
    for number in 0..20 {
        call(number);
    }
    let took: Vec<(Duration, Duration)> = (0..CALLS).map(call).collect();
    for (at, (function, _)) in calls.iter().enumerate() {
        let own = took.iter().skip(at).step_by(calls.len()).copied();
        let (walls, processors) = own.unzip();
        say(&format!(
            "{section}: a warm call of {function}: p50 {:.2?}, of a processor {:.2?}",
            median(walls),
            median(processors)
        ));
    }
}

/// The product's parser of Python.
fn python_parser() -> &'static [EmbeddedOutliner] {
    let compiled = std::fs::read(target().join("skills/outline_python.compiled")).expect("it is built");
    let parser = EmbeddedOutliner {
        name: "outline_python",
        compiled: Packed::without_base(compiled.leak()),
    };
    Box::leak(Box::new([parser]))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Time that a processor has worked for this thread. A guest runs on the thread that calls it.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is not negative")
}

#[test]
fn everything_in_rust() {
    uses_everything("Everything in Rust");
}

#[test]
fn everything_in_python() {
    uses_everything("Everything in Python");
}

#[test]
fn everything_in_javascript() {
    uses_everything("Everything in JavaScript");
}
