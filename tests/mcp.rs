//! Other agents: the server of the Model Context Protocol with the real binary and the real daemon, by hand and by the
//! protocol's own tools.

mod clients;
mod install;
mod lines;
mod operations;
mod web;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Finished, Home, finish, until};

/// The twelve.
pub(crate) const TOOLS: [&str; 12] = [
    "analyze_dependencies",
    "explain_function",
    "find_references",
    "git_commit",
    "git_diff",
    "install_package",
    "list_files",
    "read_file",
    "read_logs",
    "run_tests",
    "search_code",
    "write_file",
];

/// The last revision with a handshake.
const PROTOCOL: &str = "2025-11-25";

/// The request that begins.
fn initialize(capabilities: &Value) -> Value {
    json!({
        "protocolVersion": PROTOCOL,
        "capabilities": capabilities,
        "clientInfo": {"name": "a test", "version": "1"},
    })
}

/// An agent that runs `tool mcp` and writes its lines by hand.
pub(crate) struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    requests: u64,
    /// Messages that the test was not waiting for yet.
    early: Vec<Value>,
}

impl Agent {
    /// Starts it, and says hello.
    pub(crate) fn start(home: &Home, root: &Path, flags: &[&str], capabilities: &Value) -> Self {
        let mut agent = Self::spawn(home, root, flags);
        let answer = agent.ask("initialize", initialize(capabilities));
        assert_eq!(answer["result"]["protocolVersion"], PROTOCOL, "{answer}");
        agent.tell("notifications/initialized", json!({}));
        agent
    }

    pub(crate) fn spawn(home: &Home, root: &Path, flags: &[&str]) -> Self {
        let mut command = home.tool(root, &["mcp"]);
        command
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            requests: 0,
            early: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is open");
        input
            .write_all(line.as_bytes())
            .and_then(|()| input.write_all(b"\n"))
            .expect("it is taken");
        input.flush().expect("it is taken");
    }

    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request and gives its number.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    pub(crate) fn send_call(&mut self, name: &str, arguments: Value) -> u64 {
        self.send("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// The next message that is like this; others are kept for later.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&is) {
            return self.early.remove(at);
        }
        loop {
            let message = self.lines.recv_timeout(Duration::from_secs(60));
            let message = message.unwrap_or_else(|_| panic!("no {what}; there were {:?}", self.early));
            if is(&message) {
                return message;
            }
            self.early.push(message);
        }
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.wait(&format!("answer to {id}"), |message| {
            message["id"] == id && message.get("method").is_none()
        })
    }

    /// The next request of the server.
    #[track_caller]
    pub(crate) fn asked(&mut self, method: &str) -> Value {
        self.wait(method, |message| message["method"] == method)
    }

    pub(crate) fn reply(&mut self, request: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string());
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Calls a tool and gives its result.
    #[track_caller]
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Value {
        let id = self.send_call(name, arguments);
        let answer = self.answer(id);
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Closes its input and waits for its end.
    pub(crate) fn end(mut self) -> Finished {
        drop(self.input.take());
        self.finish()
    }

    /// Waits for its end.
    pub(crate) fn finish(self) -> Finished {
        let _input = self.input;
        finish(self.child.wait_with_output().expect("it ends"))
    }
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// The entries of the newest session's journal.
pub(crate) fn journal(home: &Home) -> Vec<Value> {
    let sessions = std::fs::read_dir(home.path().join("sessions")).expect("there is one");
    let newest = sessions
        .flatten()
        .map(|entry| entry.path())
        .max()
        .expect("there is one");
    let text = std::fs::read_to_string(newest.join("journal.jsonl")).expect("it is written");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    lines.map(|line| line["entry"].clone()).collect()
}

/// Waits for the end of the newest session, which may come a moment after that of its agent.
pub(crate) fn until_ended(home: &Home) {
    until("its session has ended", || {
        journal(home).iter().any(|entry| entry["kind"] == "ended")
    });
}

/// The calls of the newest session: name, verdict, and whether there is a receipt.
pub(crate) fn calls(home: &Home) -> Vec<(String, String, bool)> {
    let calls = journal(home).into_iter().filter(|entry| entry["kind"] == "tool");
    let field = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    calls
        .map(|entry| {
            (
                field(&entry, "name"),
                field(&entry, "verdict"),
                entry["receipt"].is_object(),
            )
        })
        .collect()
}
