//! The official Python clients of the three vendors: our requests are right by their types, and their own parsers read
//! what the scripted model server sends, so that neither side is only right by our own account.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tool_model_server::{ModelServer, RecordedRequest, Round, Script};

use crate::providers::{ALL, Wire, repository, serve};
use crate::support::{Home, finish, fixture_path};

/// Runs one of the scripts beside this file with the clients' interpreter. It meets nothing but loopback.
#[expect(clippy::disallowed_methods, reason = "the test runs the clients")]
fn python(script: &str, arguments: &[&str]) -> String {
    let clients = fixture_path("clients").join(".venv");
    // Written last: an installation that broke off is none.
    assert!(
        clients.join("ready").exists(),
        "{} is not complete: run scripts/fixtures",
        clients.display()
    );
    let interpreter = clients.join("bin/python");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/clients")
        .join(script);
    let mut command = Command::new(interpreter);
    command
        // Isolated: no variables of Python's own, nothing of the user's packages; and no compiled files beside it.
        .args(["-I", "-B"])
        .arg(script)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null());
    finish(command.output().expect("Python runs")).expect(0).stdout
}

fn rounds(steps: Value) -> Vec<Round> {
    let script = Script::parse(&json!({"rounds": steps}).to_string());
    script.expect("the script is valid").rounds
}

/// Returns the requests of a run: the first, and those with results, errors, thinking and text between them.
fn recorded(wire: &Wire) -> Vec<RecordedRequest> {
    let usage = json!({"usage": {"input": 5000, "output": 20}});
    // A vendor without a field for thinking never gets some back.
    let thinking = match wire.api {
        Some("chat") => json!({"comment": "thinking"}),
        _ => json!({"reasoning": "Two looks are enough."}),
    };
    let server = serve(rounds(json!([
        {"steps": [thinking, {"text": "Let me look."}, {"tool_calls": [
            {"name": "read_file", "arguments": {"path": "app.py"}},
            {"name": "list_files", "arguments": {}},
            {"name": "search_code", "arguments": {"pattern": "zoë 🦀", "regex": false}},
        ]}, usage]},
        {"steps": [{"tool_calls": [
            {"name": "no_such_tool", "arguments": {}},
            {"name": "read_file", "arguments": {"path": 7}},
            {"name": "read_file", "arguments": {"path": "nowhere.py"}},
        ]}, usage]},
        {"steps": [{"text": "It counts (app.py:1)."}, usage]},
    ])));
    let (home, repository) = (Home::configured(&wire.config(&server, "")), repository());
    wire.run(&home, &repository, &["explain", "."]).expect(0);
    server.requests()
}

#[test]
fn our_requests_are_right_by_the_official_types() {
    let mut all = Vec::new();
    for wire in ALL {
        let name = wire.api.unwrap_or("chat");
        let requests = recorded(&wire);
        assert_eq!(requests.len(), 3, "{wire:?}");
        let bodies = requests.into_iter().map(|mut request| {
            without_others_fields(&wire, &mut request.body);
            json!({"wire": name, "body": request.body})
        });
        all.extend(bodies);
    }
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), json!(all).to_string()).expect("the file is writable");
    let said = python("validate.py", &[&file.path().to_string_lossy()]);
    let said = regex::Regex::new(r"\d+ wrong")
        .expect("a constant")
        .replace_all(&said, "N wrong");
    insta::assert_snapshot!(said, @r"
    chat: 9 requests are right, N wrong forms were refused
    messages: 3 requests are right, N wrong forms were refused
    generate-content: 3 requests are right, N wrong forms were refused
    responses: 3 requests are right, N wrong forms were refused
    ");
}

/// `local` and `router` give back a field of thinking that the vendor of this wire does not have.
fn without_others_fields(wire: &Wire, body: &mut Value) {
    if wire.api.is_some() {
        return;
    }
    let messages = body["messages"].as_array_mut().into_iter().flatten();
    let removed = messages.filter_map(|message| message.as_object_mut()?.shift_remove("reasoning_content"));
    let removed = removed.count();
    assert!(removed <= 1, "thinking goes back with its own message");
}

/// Rounds for the clients: three complete streams, one that fails, one refusal.
fn script() -> Vec<Round> {
    let look = json!({"steps": [
        {"reasoning": "Two looks "},
        {"reasoning": "are enough."},
        {"pieces": ["Let me ", "look, zoë 🦀."]},
        {"tool_calls": [
            {"name": "read_file", "arguments": {"path": "a \"b\"\n.py", "lines": [1, 2]}, "pieces": 5},
            {"name": "list_files", "arguments": {}},
            {"name": "read_file", "arguments": {"path": "ü"}},
        ]},
        {"usage": {"input": 90, "output": 12, "cached": 40}},
    ]});
    let mut split = look.clone();
    split["split_bytes"] = 1.into();
    rounds(json!([
        look,
        split,
        {"steps": [{"text": "It is"}, {"usage": {"input": 7, "output": 2}}, {"finish": "length"},
                   {"usage": {"input": 7, "output": 2}}, "done"]},
        {"steps": [{"text": "It is"}, {"error": 529}]},
        {"steps": [{"status": {"code": 429, "retry_after": 1}}]},
        look,
    ]))
}

/// The streams of a script as a client understood them, the answer at once, and the model list.
fn understood(wire: &str) -> Value {
    let script = Script {
        models: vec!["tiny".into(), "large".into()],
        ..Script::new(script())
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    let said = python("read.py", &[wire, &server.root(), "5"]);
    serde_json::from_str(&said).expect("the script prints JSON")
}

/// The parts that are the same on every wire.
fn looks(understood: &Value) {
    let answers = [
        &understood["streams"][0],
        &understood["streams"][1],
        &understood["at_once"],
    ];
    for answer in answers {
        assert_eq!(answer["text"], "Let me look, zoë 🦀.", "{answer}");
        assert_eq!(answer["reasoning"], "Two looks are enough.", "{answer}");
        let calls = json!([
            ["read_file", {"path": "a \"b\"\n.py", "lines": [1, 2]}],
            ["list_files", {}],
            ["read_file", {"path": "ü"}],
        ]);
        assert_eq!(answer["calls"], calls, "{answer}");
        assert_eq!(answer["usage"], json!([90, 40, 12]), "{answer}");
    }
    let cut_off = &understood["streams"][2];
    assert_eq!(
        (&cut_off["text"], &cut_off["usage"]),
        (&json!("It is"), &json!([7, 0, 2]))
    );
}

/// Returns the end of each answer, failures included.
fn ends(understood: &Value) -> Value {
    let end = |answer: &Value| match answer.get("error") {
        Some(error) => json!([error, answer["status"]]),
        None => answer["finish"].clone(),
    };
    let streams = understood["streams"].as_array().expect("a list");
    streams.iter().map(end).chain([end(&understood["at_once"])]).collect()
}

#[test]
fn the_official_client_reads_the_messages_wire() {
    let understood = understood("messages");
    looks(&understood);
    insta::assert_snapshot!(ends(&understood), @r#"["tool_use","tool_use","max_tokens",["APIStatusError",200],["RateLimitError",429],"tool_use"]"#);
    assert_eq!(understood["streams"][0]["signed"], json!([true]), "thinking is signed");
    assert_eq!(understood["streams"][0]["ids"], 3, "each call has an id of its own");
    assert_eq!(understood["models"], json!(["tiny", "large"]));
}

#[test]
fn the_official_client_reads_the_chat_wire() {
    let understood = understood("chat");
    looks(&understood);
    insta::assert_snapshot!(ends(&understood), @r#"["tool_calls","tool_calls","length",["APIError","overloaded"],["RateLimitError",429],"tool_calls"]"#);
    assert_eq!(understood["streams"][0]["ids"], 3, "each call has an id of its own");
    assert_eq!(understood["models"], json!(["tiny", "large"]));
}

#[test]
fn the_official_client_reads_the_responses_wire() {
    let understood = understood("responses");
    looks(&understood);
    insta::assert_snapshot!(ends(&understood), @r#"["completed","completed","max_output_tokens",["error","overloaded"],["RateLimitError",429],"completed"]"#);
    assert_eq!(
        understood["streams"][0]["signed"],
        json!([true]),
        "reasoning is encrypted"
    );
    assert_eq!(understood["streams"][0]["ids"], 3, "each call has an id of its own");
    assert_eq!(understood["models"], json!(["tiny", "large"]));
}

#[test]
fn the_official_client_reads_the_generate_content_wire() {
    let understood = understood("generate-content");
    looks(&understood);
    insta::assert_snapshot!(ends(&understood), @r#"["STOP","STOP","MAX_TOKENS",["ServerError",529],["ClientError",429],"STOP"]"#);
    assert_eq!(understood["streams"][0]["signed"], json!([true, false, false]));
    assert_eq!(understood["models"], json!(["models/tiny", "models/large"]));
}
