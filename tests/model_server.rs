//! The main job against a model server that follows a script: the real binary, its daemon, its skills, and the wire.

use std::io::Read;
use std::process::Stdio;

use host::provider::script::{ModelServer, Round, Script, ScriptedCall, ScriptedUsage, Step};
use serde_json::{Value, json};

use crate::support::{Finished, Home, finish, folder};

/// A scripted server, and a home whose enabled provider it is.
pub(crate) fn scripted(rounds: impl IntoIterator<Item = Round>) -> (ModelServer, Home) {
    let server = ModelServer::start(Script::new(rounds)).expect("loopback has a free port");
    let home = Home::configured(&format!(
        "[providers.local]\nenabled = true\nmodel = \"scripted\"\nurl = \"{}\"\n",
        server.url()
    ));
    (server, home)
}

fn repository() -> tempfile::TempDir {
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

#[test]
fn three_parallel_calls_a_second_round_and_tokens_as_they_come() {
    let calls = [
        ScriptedCall::new("read_file", json!({"path": "app.py"})),
        ScriptedCall {
            pieces: Some(4),
            ..ScriptedCall::new("list_files", json!({"path": "."}))
        },
        ScriptedCall::new("search_code", json!({"pattern": "def count"})),
    ];
    let (server, home) = scripted([
        Round::new([Step::Text("Let me look.".into()), Step::ToolCalls(calls.into())]),
        Round::new([
            Step::Text("It counts crates".into()),
            Step::Gate("the first token is on the terminal".into()),
            Step::Pieces(vec![" (app.py:1)".into(), ".".into()]),
            Step::Usage(ScriptedUsage {
                input: 900,
                output: 12,
                cached: 0,
            }),
        ]),
    ]);
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
    let shown = String::from_utf8_lossy(&shown);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(shown.trim_end(), "Let me look.\n\nIt counts crates (app.py:1).");
    for skill in ["read_file", "list_files", "search_code"] {
        assert!(stderr.contains(&format!("skill {skill}")), "{stderr}");
    }

    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let offered = requests[0].body["tools"].as_array().map(Vec::len);
    assert_eq!(offered, Some(12), "every skill is offered");
    let results = with_role(&requests[1].body, "tool");
    let asked = &with_role(&requests[1].body, "assistant")[0]["tool_calls"];
    let ids = |values: Vec<&Value>, key: &str| -> Vec<String> {
        values.iter().map(|value| text(value, key).to_owned()).collect()
    };
    let asked = asked.as_array().expect("calls").iter().collect();
    assert_eq!(
        ids(results.clone(), "tool_call_id"),
        ids(asked, "id"),
        "each id once, in order"
    );
    for (result, expected) in results.iter().zip(["return len(crates)", "pyproject.toml", "app.py:1"]) {
        let content = text(result, "content");
        assert!(content.starts_with("<tool-output tool="), "{content}");
        assert!(content.contains(expected), "{content}");
    }

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

#[test]
fn provider_errors_reach_the_terminal_in_the_specifications_words() {
    for (round, message) in [
        (
            Round::status(401, json!({"error": {"message": "no"}})),
            "[error] Authentication failed: Invalid API key\n",
        ),
        (
            Round::status(
                404,
                json!({"error": {"message": "The model `scripted` does not exist"}}),
            ),
            "[error] Model not found: scripted\n",
        ),
        (
            Round::status(
                400,
                json!({"error": {"message": "maximum context length is 8192 tokens"}}),
            ),
            "[error] Context length exceeded: 8192 tokens\n",
        ),
    ] {
        let (_server, home) = scripted([round]);
        let finished = home.run(repository().path(), &["explain", "."]).expect(1);
        assert!(finished.stderr.contains(message), "{}", finished.stderr);
        assert!(finished.stderr.contains("hint: "), "{}", finished.stderr);
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn a_model_server_that_is_not_running_is_named() {
    let (server, home) = scripted([]);
    let address = server.address();
    drop(server);
    let finished = home.run(repository().path(), &["explain", "."]).expect(1);
    let message = format!("[error] Connection refused: {address}\n");
    assert!(finished.stderr.contains(&message), "{}", finished.stderr);
}

#[test]
fn an_answer_that_breaks_off_keeps_what_came_and_does_not_exit_0() {
    let (server, home) = scripted([Round::new([Step::Text("It counts".into()), Step::Reset])]);
    let finished = home.run(repository().path(), &["explain", "."]).expect(1);
    assert!(finished.stdout.starts_with("It counts"), "{}", finished.stdout);
    assert!(
        finished.stderr.contains("[error] The provider's answer is incomplete"),
        "{}",
        finished.stderr
    );
    assert_eq!(server.requests().len(), 1);
}
