//! Every provider against a model server that follows a script: the real binary, its daemon, its skills, and the wire.

mod authorities;
mod current;
mod dev;
mod failures;
mod faults;
mod strangers;

use std::io::Read;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{ModelServer, RecordedRequest, Round, Script, ScriptedCall, ScriptedUsage, ServerStep};

use crate::support::{Finished, Home, finish, folder};

/// A scripted server, and a home whose enabled provider it is.
pub(crate) fn scripted(rounds: impl IntoIterator<Item = Round>) -> (ModelServer, Home) {
    let server = serve(rounds);
    let home = Home::configured(&LOCAL.config(&server, ""));
    (server, home)
}

pub(crate) fn serve(rounds: impl IntoIterator<Item = Round>) -> ModelServer {
    ModelServer::start(Script::new(rounds)).expect("loopback has a free port")
}

/// The key of every test here. It looks like a live one, and must not be found anywhere afterwards.
pub(crate) const KEY: &str = "sk-live-0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// A provider with the wire that it speaks, as a user configures it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire {
    pub(crate) provider: &'static str,
    /// `api` of the hosted provider.
    pub(crate) api: Option<&'static str>,
    /// Variable that holds its key.
    pub(crate) variable: Option<&'static str>,
}

pub(crate) const LOCAL: Wire = Wire {
    provider: "local",
    api: None,
    variable: None,
};

pub(crate) const ROUTER: Wire = Wire {
    provider: "router",
    api: None,
    variable: Some("ROUTER_API_KEY"),
};

pub(crate) const MESSAGES: Wire = Wire {
    provider: "hosted",
    api: Some("messages"),
    variable: Some("HOSTED_API_KEY"),
};

pub(crate) const CHAT: Wire = Wire {
    api: Some("chat"),
    variable: Some("VENDOR_B_API_KEY"),
    ..MESSAGES
};

pub(crate) const GENERATE_CONTENT: Wire = Wire {
    api: Some("generate-content"),
    variable: Some("VENDOR_C_API_KEY"),
    ..MESSAGES
};

pub(crate) const RESPONSES: Wire = Wire {
    api: Some("responses"),
    ..CHAT
};

/// Every provider with every wire that it speaks.
pub(crate) const ALL: [Wire; 6] = [LOCAL, ROUTER, MESSAGES, CHAT, GENERATE_CONTENT, RESPONSES];

impl Wire {
    /// A configuration that enables it, with further lines of its section.
    pub(crate) fn config(&self, server: &ModelServer, further: &str) -> String {
        let api = self.api.map(|api| format!("api = \"{api}\"\n")).unwrap_or_default();
        let url = match self.api {
            Some("messages" | "generate-content") => server.root(),
            _ => server.url(),
        };
        let provider = self.provider;
        format!("[providers.{provider}]\nenabled = true\nmodel = \"scripted\"\nurl = \"{url}\"\n{api}{further}\n")
    }

    /// Runs the binary with the key in the environment, where the provider has one.
    pub(crate) fn run(&self, home: &Home, repository: &TempDir, arguments: &[&str]) -> Finished {
        let mut command = home.tool(repository.path(), arguments);
        command.envs(self.variable.map(|variable| (variable, KEY)));
        // The log says all that it can.
        command.env("TOOL_LOG_LEVEL", "TRACE");
        finish(command.output().expect("the binary runs"))
    }
}

pub(crate) fn repository() -> TempDir {
    folder(&[
        ("README.md", "# Crates\n\nCounts crates.\n"),
        ("app.py", "def count(crates):\n    return len(crates)\n"),
        (
            "pyproject.toml",
            "[project]\nname = \"crates\"\ndependencies = [\"click>=8\"]\n",
        ),
    ])
}

/// The messages with a role, of one request.
fn with_role<'r>(request: &'r Value, role: &str) -> Vec<&'r Value> {
    let messages = request["messages"].as_array().expect("a request has messages");
    messages.iter().filter(|message| message["role"] == role).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// Three tools at once, one of them in pieces, and then an answer in pieces.
fn three_parallel_calls() -> [Round; 2] {
    let calls = [
        ScriptedCall::new("read_file", json!({"path": "app.py"})),
        ScriptedCall {
            pieces: Some(4),
            ..ScriptedCall::new("list_files", json!({"path": "."}))
        },
        ScriptedCall::new("search_code", json!({"pattern": "def count"})),
    ];
    [
        Round::new([
            ServerStep::Reasoning("The code is small; ".into()),
            ServerStep::Reasoning("three looks are enough.".into()),
            ServerStep::Text("Let me look.".into()),
            ServerStep::ToolCalls(calls.into()),
            ServerStep::Usage(ScriptedUsage {
                input: 5000,
                output: 60,
                cached: 0,
            }),
        ]),
        Round::new([
            ServerStep::Text("It counts crates".into()),
            ServerStep::Gate("the first token is on the terminal".into()),
            ServerStep::Pieces(vec![" (app.py:1)".into(), ".".into()]),
            ServerStep::Usage(ScriptedUsage {
                input: 5600,
                output: 12,
                cached: 4000,
            }),
        ]),
    ]
}

/// The names of the tools that a request offers, on each wire in its own place.
fn offered(wire: &Wire, request: &RecordedRequest) -> Vec<String> {
    let (list, name) = match wire.api {
        Some("messages") => (&request.body["tools"], "/name"),
        Some("generate-content") => (&request.body["tools"][0]["functionDeclarations"], "/name"),
        Some("responses") => (&request.body["tools"], "/name"),
        _ => (&request.body["tools"], "/function/name"),
    };
    let tools = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let names = tools.iter().filter_map(|tool| tool.pointer(name)?.as_str());
    names.map(str::to_owned).collect()
}

/// Returns the tools' answers, in the order in which a request gives them back.
fn tool_outputs(wire: &Wire, request: &RecordedRequest) -> Vec<String> {
    let found = |values: Vec<&Value>| -> Vec<String> {
        values
            .iter()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect()
    };
    let blocks = |list: &str, content: &str, output: &'static str| -> Vec<Value> {
        let messages = request.body[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let blocks = messages
            .iter()
            .filter_map(|message| message[content].as_array())
            .flatten();
        blocks.filter_map(|block| block.pointer(output).cloned()).collect()
    };
    match wire.api {
        Some("messages") => found(blocks("messages", "content", "/content").iter().collect()),
        Some("generate-content") => found(
            blocks("contents", "parts", "/functionResponse/response/output")
                .iter()
                .collect(),
        ),
        Some("responses") => {
            let items = request.body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
            found(items.iter().map(|item| &item["output"]).collect())
        }
        _ => found(
            with_role(&request.body, "tool")
                .iter()
                .map(|message| &message["content"])
                .collect(),
        ),
    }
}

#[test]
fn three_parallel_calls_and_a_second_round_on_every_wire() {
    for wire in ALL {
        let server = serve(three_parallel_calls());
        server.release("the first token is on the terminal");
        let (home, repository) = (Home::configured(&wire.config(&server, "")), repository());
        let finished = wire.run(&home, &repository, &["explain", "."]).expect(0);
        let answer = "Let me look.\n\nIt counts crates (app.py:1).";
        assert!(finished.stdout.starts_with(answer), "{wire:?}: {}", finished.stdout);
        assert!(
            !finished.stdout.contains("three looks"),
            "thinking is no answer: {}",
            finished.stdout
        );

        let requests = server.requests();
        assert_eq!(requests.len(), 2, "{wire:?}: {}", finished.stderr);
        assert_eq!(
            offered(&wire, &requests[0]).len(),
            12,
            "{wire:?}: every skill is offered"
        );
        let outputs = tool_outputs(&wire, &requests[1]);
        assert_eq!(outputs.len(), 3, "{wire:?}: {outputs:?}");
        for (output, expected) in outputs.iter().zip(["return len(crates)", "pyproject.toml", "app.py:1"]) {
            assert!(output.starts_with("<tool-output-"), "{wire:?}: {output}");
            assert!(output.contains(expected), "{wire:?}: {output}");
        }
        let key_is_sent = requests
            .iter()
            .all(|request| request.headers.values().any(|value| value.contains(KEY)));
        assert_eq!(key_is_sent, wire.variable.is_some(), "{wire:?}");
        faults::no_key_anywhere(&home, &repository, &finished);
    }
}

#[test]
fn tokens_are_on_the_terminal_as_they_come() {
    let (server, home) = scripted(three_parallel_calls());
    let repository = repository();
    let mut child = home
        .tool(repository.path(), &["explain", "."])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdout = child.stdout.take().expect("it is piped");
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("It counts crates") {
        let mut piece = [0; 256];
        let length = stdout.read(&mut piece).expect("it is readable");
        assert_ne!(length, 0, "it ended early: {}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&piece[..length]);
    }
    // Only now may the server send the rest.
    server.release("the first token is on the terminal");
    stdout.read_to_end(&mut shown).expect("it is readable");
    let Finished { code, stderr, .. } = finish(child.wait_with_output().expect("it ends"));
    assert_eq!(code, 0, "{stderr}");
    for skill in ["read_file", "list_files", "search_code"] {
        assert!(stderr.contains(&format!("skill {skill}")), "{stderr}");
    }

    let requests = server.requests();
    let results = with_role(&requests[1].body, "tool");
    let asked = &with_role(&requests[1].body, "assistant")[0]["tool_calls"];
    let ids = |values: Vec<&Value>, key: &str| -> Vec<String> {
        values.iter().map(|value| text(value, key).to_owned()).collect()
    };
    let asked = asked.as_array().expect("calls").iter().collect();
    assert_eq!(ids(results, "tool_call_id"), ids(asked, "id"), "each id once, in order");

    let report = std::fs::read_to_string(repository.path().join("session-reports/session_latest.md"));
    let report = report.expect("a latest report");
    for part in [
        "Let me look.",
        "It counts crates (app.py:1).",
        "read_file",
        "list_files",
        "search_code",
    ] {
        assert!(report.contains(part), "`{part}` is missing in {report}");
    }
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d").expect("a constant");
    assert!(time.find_iter(&report).count() >= 5, "{report}");
}
