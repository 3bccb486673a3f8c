//! Surroundings of a row: a repository, a scripted model, and a home whose provider is that model.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use tool_model_server::{ModelServer, Round, Script, ScriptedCall, ServerStep};

use super::http::{self, Answer};
use crate::support::{Finished, Home, finish, folder};

pub(super) use crate::support::holds;

/// A small shop in Python: key files, entry points, a package, no tests.
pub(crate) const SHOP: &[(&str, &str)] = &[
    ("README.md", "# Crates\n\nCounts and prices crates.\n"),
    (
        "pyproject.toml",
        "[project]\nname = \"crates\"\nversion = \"1\"\ndependencies = [\"click>=8\"]\n",
    ),
    (
        "main.py",
        "from app import count\n\n\ndef main():\n    print(count([]))\n",
    ),
    ("app.py", "def count(crates):\n    return len(crates)\n"),
    ("shop/__init__.py", "from .cart import Cart\n"),
    (
        "shop/cart.py",
        "from .prices import total\n\n\nclass Cart:\n    def pay(self):\n        return total(self)\n",
    ),
    ("shop/prices.py", "RATE = 2\n\n\ndef total(cart):\n    return RATE\n"),
    ("shop/taxes.py", "def tax(price):\n    return price * 0.2\n"),
];

/// The three providers, `hosted` on each of its wires.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wire {
    Local,
    Router,
    Hosted,
    HostedChat,
    HostedGenerateContent,
}

impl Wire {
    /// A configuration that has this one enabled, at a server whose address has no path. The key is in the file.
    pub(crate) fn config(self, server: &str) -> String {
        let (name, more, path) = match self {
            Self::Local => ("local", "", "/v1"),
            Self::Router => ("router", "api_key = \"key-of-the-file\"\n", "/v1"),
            Self::Hosted => ("hosted", "api_key = \"key-of-the-file\"\n", ""),
            Self::HostedChat => ("hosted", "api = \"chat\"\napi_key = \"key-of-the-file\"\n", "/v1"),
            Self::HostedGenerateContent => (
                "hosted",
                "api = \"generate-content\"\napi_key = \"key-of-the-file\"\n",
                "",
            ),
        };
        format!("[providers.{name}]\nenabled = true\nmodel = \"scripted\"\nurl = \"{server}{path}\"\n{more}")
    }
}

/// A home, a model and a repository.
pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) server: ModelServer,
    pub(crate) repository: TempDir,
}

impl World {
    /// A world whose model says these rounds.
    pub(crate) fn new(files: &[(&str, &str)], rounds: impl IntoIterator<Item = Round>) -> Self {
        Self::scripted(files, Script::new(rounds))
    }

    /// A world whose model says the same round to every request.
    pub(crate) fn repeating(files: &[(&str, &str)], round: Round) -> Self {
        Self::scripted(
            files,
            Script {
                repeat: true,
                ..Script::new([round])
            },
        )
    }

    fn scripted(files: &[(&str, &str)], script: Script) -> Self {
        Self::on(Wire::Local, files, script)
    }

    /// A world whose enabled provider is this one.
    pub(crate) fn on(wire: Wire, files: &[(&str, &str)], script: Script) -> Self {
        let server = ModelServer::start(script).expect("loopback has a free port");
        let home = Home::configured(&wire.config(&format!("http://{}", server.address())));
        Self {
            home,
            server,
            repository: folder(files),
        }
    }

    /// Adds to the configuration.
    pub(crate) fn configure(self, more: &str) -> Self {
        let place = self.home.path().join("config.toml");
        let text = std::fs::read_to_string(&place).expect("it was written");
        std::fs::write(place, format!("{text}{more}")).expect("the folder is writable");
        self
    }

    /// The root of the repository.
    pub(crate) fn root(&self) -> &Path {
        self.repository.path()
    }

    /// The root as requests name it.
    pub(crate) fn repo_path(&self) -> String {
        self.root().to_str().expect("UTF-8").to_owned()
    }

    /// Runs the command line in the repository.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.home.run(self.root(), arguments)
    }

    /// Runs the command line in the repository with more of an environment.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Finished {
        let mut command = self.home.tool(self.root(), arguments);
        finish(
            command
                .envs(variables.iter().copied())
                .output()
                .expect("the binary runs"),
        )
    }

    /// A file of the repository.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The body of a request for an operation on this repository.
    pub(crate) fn body(&self, operation: &str, target: &str) -> Value {
        serde_json::json!({"operation": operation, "target": target, "repo_path": self.repo_path()})
    }

    /// Starts a session over HTTP and follows it to its end: the answer to the start, and the stream.
    pub(crate) fn follow(&self, address: &str, operation: &str, target: &str) -> (Value, Answer) {
        let start = http::post(address, "/execute", &self.body(operation, target))
            .expect(200)
            .json();
        let id = start["session_id"].as_str().expect("an identifier");
        let stream = http::get(address, &format!("/stream?session_id={id}")).expect(200);
        (start, stream)
    }
}

/// A round that answers in these pieces.
pub(crate) fn says(pieces: &[&str]) -> Round {
    Round::new([ServerStep::Pieces(
        pieces.iter().map(|piece| (*piece).to_owned()).collect(),
    )])
}

/// A round that calls tools.
pub(crate) fn calls<const N: usize>(calls: [(&str, Value); N]) -> Round {
    let calls = calls
        .into_iter()
        .map(|(name, arguments)| ScriptedCall::new(name, arguments));
    Round::new([ServerStep::ToolCalls(calls.collect())])
}

/// The path of `session-reports/` and of a file in it.
pub(crate) fn report(directory: &Path, name: &str) -> String {
    let place = directory.join("session-reports").join(name);
    std::fs::read_to_string(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()))
}

/// Fails unless README or book contain each of the parts, wherever their lines break.
#[track_caller]
pub(crate) fn documents_say(parts: &[&str]) {
    holds(&crate::documents::user_text(), parts);
}

/// A port on which no program listens, and which no test gets that asks for any: those come from the kernel's range
/// above.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 10_000).expect("it is small");
    loop {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Answer of a [`Canned`] server: the status line without its version, the content type, the body.
pub(crate) type Said = (&'static str, &'static str, Vec<u8>);

/// A server that is no model: it answers by the request's path, and keeps what it was asked.
pub(crate) struct Canned {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    /// Answers every request in the same way.
    pub(crate) fn saying(status: &'static str, body: Value) -> Self {
        let body = body.to_string().into_bytes();
        Self::start(move |_, _| (status, "application/json", body.clone()))
    }

    /// Starts it with a function of its own URL and a path. Its thread ends with the process.
    pub(crate) fn start(answer: impl Fn(&str, &str) -> Said + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, own) = (Arc::clone(&requests), url.clone());
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let request = read_request(&connection);
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().expect("nobody panicked").push(request);
                let (status, content_type, body) = answer(&own, &path);
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                // A client that has gone does not want the answer.
                let _ = connection
                    .write_all(head.as_bytes())
                    .and_then(|()| connection.write_all(&body));
            }
        });
        Self { url, requests }
    }

    /// The requests so far, heads before their bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("nobody panicked").clone()
    }
}

fn read_request(connection: &TcpStream) -> String {
    let mut reader = BufReader::new(connection);
    let (mut request, mut length) = (String::new(), 0);
    while !request.ends_with("\r\n\r\n") {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return request;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
        request.push_str(&line);
    }
    let mut content = vec![0; length];
    if reader.read_exact(&mut content).is_ok() {
        request.push_str(&String::from_utf8_lossy(&content));
    }
    request
}
