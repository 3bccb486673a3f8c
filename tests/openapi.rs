//! The OpenAPI description against the real daemon: its routes, its streams, and a fuzzer that believes every word of
//! it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{ModelServer, Round, Script, ScriptedCall};

use crate::support::{Finished, Home, finish, fixture_path, folder};

/// Code with something to find, small enough that a session takes some milliseconds.
const FILES: &[(&str, &str)] = &[
    (
        "shop.py",
        "import json\n\n\ndef total(prices):\n    return sum(prices)\n\n\ndef load(text):\n    return json.loads(text)\n",
    ),
    (
        "test_shop.py",
        "from shop import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
    ),
];

#[expect(clippy::disallowed_methods, reason = "the tests are a client")]
fn client() -> reqwest::Client {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

async fn get(address: &str, path: &str) -> String {
    let response = client()
        .get(format!("{address}{path}"))
        .send()
        .await
        .expect("an answer");
    assert_eq!(response.status().as_u16(), 200, "{path}");
    response.text().await.expect("text")
}

async fn post(address: &str, path: &str, body: &Value) -> String {
    let request = client().post(format!("{address}{path}")).body(body.to_string());
    let response = request
        .header("content-type", "application/json")
        .send()
        .await
        .expect("an answer");
    assert_eq!(response.status().as_u16(), 200, "{path}");
    response.text().await.expect("text")
}

/// Starts an explain and gives its identifier once it has ended.
async fn session(address: &str, repository: &Path) -> String {
    let body = json!({"operation": "explain", "repo_path": repository});
    let start: Value = serde_json::from_str(&post(address, "/execute", &body).await).expect("JSON");
    let id = start["session_id"].as_str().expect("an identifier").to_owned();
    get(address, &format!("/stream?session_id={id}")).await;
    id
}

#[tokio::test]
async fn the_description_is_served_at_both_prefixes() {
    let home = Home::offline();
    let address = home.serve();
    let kept = include_str!("../host/daemon/src/http/openapi.json");
    for path in ["/openapi.json", "/api/openapi.json"] {
        assert!(get(&address, path).await == kept, "{path} is not the file in the tree");
    }
    let description: Value = serde_json::from_str(kept).expect("JSON");
    assert_eq!(description["openapi"], "3.1.0");
    let bodies = [
        "ExecuteRequest",
        "BudgetRequest",
        "PolicyRequest",
        "ScanRequest",
        "SkillCallRequest",
        "ApprovalAnswer",
    ];
    for body in bodies {
        let schema = &description["components"]["schemas"][body];
        assert_eq!(schema["additionalProperties"], false, "{body}");
    }
    for (path, operations) in description["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("methods") {
            let told = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
            assert!(told(&operation["summary"]), "{method} {path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let schema = &parameter["schema"];
                assert!(
                    told(&parameter["description"]) || told(&schema["description"]),
                    "{method} {path}: {parameter}"
                );
            }
            for (status, response) in operation["responses"].as_object().expect("responses") {
                let is_error = status.as_str() >= "400";
                let body = &response["content"]["application/json"]["schema"]["$ref"];
                assert!(told(&response["description"]), "{method} {path}: {status}");
                assert_eq!(
                    is_error,
                    body == "#/components/schemas/ErrorBody",
                    "{method} {path}: {status}"
                );
            }
        }
    }
}

/// All that a stream's `data:` lines hold.
fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("an event is JSON"))
        .collect()
}

#[tokio::test]
async fn every_event_is_as_its_schema_says() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let address = home.serve();
    let description: Value = serde_json::from_str(&get(&address, "/openapi.json").await).expect("JSON");
    let schema = |name: &str| {
        let schema = json!({"$ref": format!("#/components/schemas/{name}"), "components": description["components"]});
        jsonschema::validator_for(&schema).expect("a schema")
    };
    let (event, architecture) = (schema("Event"), schema("ArchitectureEvent"));
    let id = session(&address, repository.path()).await;
    let call = json!({"arguments": {"path": "shop.py"}, "repo_path": repository.path()});
    let failing = json!({"arguments": {"path": "nothing.py"}, "repo_path": repository.path()});
    let reference = [
        get(&address, &format!("/stream?session_id={id}")).await,
        post(&address, "/skills/read_file/call", &call).await,
        post(&address, "/skills/read_file/call", &failing).await,
    ];
    let reference: Vec<Value> = reference.iter().flat_map(|stream| events(stream)).collect();
    for seen in &reference {
        let problems: Vec<String> = event.iter_errors(seen).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{seen}: {problems:?}");
    }
    let types: std::collections::BTreeSet<&str> = reference.iter().filter_map(|event| event["type"].as_str()).collect();
    for expected in [
        "selection",
        "token",
        "skill",
        "skill_result",
        "usage",
        "outcome",
        "complete",
        "error",
    ] {
        assert!(types.contains(expected), "{types:?}");
    }
    let other = events(&get(&address, &format!("/stream/{id}")).await);
    for seen in &other {
        let is_its_own = matches!(seen["type"].as_str(), Some("output" | "done"));
        let validator = if is_its_own { &architecture } else { &event };
        assert!(validator.is_valid(seen), "{seen}");
        assert!(!matches!(seen["type"].as_str(), Some("token" | "complete")), "{seen}");
    }
    assert!(other.iter().any(|event| event["type"] == "done"));
}

/// A generator must understand every part of the description, and its client must read what the backend says.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the generator is a program of its own")]
async fn a_generated_python_client_reads_what_the_backend_says() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let address = home.serve();
    let place = TempDir::new().expect("a temporary folder");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/clients/generated.py");
    let python = fixture_path("openapi-client").join(".venv/bin/python");
    let mut command = Command::new(python);
    command.args(["-I", "-B"]).arg(script).arg(&address);
    command.arg(repository.path()).arg(place.path()).env_clear();
    let run = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output());
    let finished = finish(run.await.expect("it ends").expect("Python runs")).expect(0);
    insta::assert_snapshot!(finished.stdout, @r#"{"status": "complete", "operation": "explain", "has_output": true, "files": 2, "error": "not-found", "arguments": {"path": "a.py"}}"#);
}

/// Runs the fuzzer in an empty folder, where it may leave its reports.
#[expect(clippy::disallowed_methods, reason = "the fuzzer is a program of its own")]
fn fuzz(address: &str, repository: &Path, session: &str, phases: &str, more: &[&str]) -> (Finished, Value) {
    let place = TempDir::new().expect("a temporary folder");
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let report = place.path().join("report.json");
    let output = Command::new(fixture_path("fuzzer").join(".venv/bin/schemathesis"))
        .arg("--config-file")
        .arg(fixtures.join("fuzzer.toml"))
        .arg("run")
        .arg(format!("{address}/openapi.json"))
        .args(["--url", address, "--checks", "all", "--phases", phases])
        // A session that is deleted is cancelled, and stays to be looked at.
        .args(["--exclude-checks", "use_after_free"])
        .args(more)
        .args([
            "--max-response-time",
            "30",
            "--request-timeout",
            "60",
            "--no-color",
            "--continue-on-failure",
        ])
        .args(["--report", "json", "--report-json-path"])
        .arg(&report)
        .current_dir(place.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", place.path())
        // The hooks lie in the source tree, which is no place for what Python compiles of them.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", fixtures.join("fuzzer.py"))
        .env("FUZZ_REPOSITORY", repository)
        .env("FUZZ_SESSION", session)
        .stdin(Stdio::null())
        .output()
        .expect("the fuzzer runs");
    let report = std::fs::read(report).unwrap_or_default();
    (finish(output), serde_json::from_slice(&report).unwrap_or_default())
}

/// Every route, with what the description allows and with what it does not: no 500, nothing that is not described,
/// nothing accepted that should not be, and 503 and 504 only where they are described.
#[tokio::test]
async fn a_fuzzer_finds_no_server_error_and_no_violation_of_the_description() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let address = home.serve();
    let session = session(&address, repository.path()).await;
    let description: Value = serde_json::from_str(&get(&address, "/openapi.json").await).expect("JSON");
    let paths = description["paths"].as_object().expect("paths").values();
    let operations: usize = paths.map(|path| path.as_object().map_or(0, serde_json::Map::len)).sum();

    let root = repository.path().to_owned();
    let target = address.clone();
    let phases = "examples,coverage,fuzzing,stateful";
    let run = tokio::task::spawn_blocking(move || fuzz(&target, &root, &session, phases, &[]));
    let (finished, report) = run.await.expect("it ends");
    let said = format!("{}\n{}", finished.stdout, finished.stderr);
    assert_eq!((finished.code, &report["failures"]), (0, &json!([])), "{said}");
    assert_eq!(report["complete"], true, "{said}");
    // It reads the description itself and does not fuzz it.
    assert_eq!(report["operations"]["tested"], operations - 1, "{said}");
    assert!(report["test_cases"]["generated"].as_u64() > Some(500), "{said}");
    let status: Value = serde_json::from_str(&get(&address, "/api/status").await).expect("JSON");
    assert_eq!(status["status"], "running");
}

/// Routes that the first run cannot reach: requests of the token's holder, whose policies and overrides count, and
/// sessions of a model that changes files, whose changes can be shown and taken back.
#[tokio::test]
async fn a_fuzzer_with_the_token_finds_nothing_either_where_a_model_changes_files() {
    let write = |text: &str| {
        let arguments = json!({"path": "shop.py", "content": format!("{}# {text}\n", FILES[0].1)});
        Round::calls([ScriptedCall::new("write_file", arguments)])
    };
    let rounds = [
        write("once"),
        Round::text("See shop.py:4."),
        write("twice"),
        Round::text("## 1. Split\n\nshop.py:4"),
    ];
    let script = Script {
        repeat: true,
        ..Script::new(rounds)
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    let home = Home::configured(&format!(
        "[providers.local]\nenabled = true\nmodel = \"scripted\"\nurl = \"{}\"\n",
        server.url()
    ));
    let repository = folder(FILES);
    let address = home.serve();
    let body = json!({"operation": "refactor", "task": "Say it", "repo_path": repository.path()});
    let start: Value = serde_json::from_str(&post(&address, "/execute", &body).await).expect("JSON");
    let session = start["session_id"].as_str().expect("an identifier").to_owned();
    get(&address, &format!("/stream?session_id={session}")).await;
    let changed = get(&address, &format!("/sessions/{session}/diff")).await;
    assert!(changed.contains("+# once"), "{changed}");

    let token = std::fs::read_to_string(home.path().join("token")).expect("the daemon has a token");
    let (root, target, fuzzed) = (repository.path().to_owned(), address.clone(), session.clone());
    let run = tokio::task::spawn_blocking(move || {
        let header = format!("Authorization: Bearer {}", token.trim());
        let more = [
            "--header",
            &header,
            "--include-path-regex",
            "^/(execute|stream|sessions|results|approvals)",
            "--max-examples",
            "10",
        ];
        fuzz(&target, &root, &fuzzed, "examples,fuzzing,stateful", &more)
    });
    let (finished, report) = run.await.expect("it ends");
    let said = format!("{}\n{}", finished.stdout, finished.stderr);
    assert_eq!((finished.code, &report["failures"]), (0, &json!([])), "{said}");
    assert_eq!(report["complete"], true, "{said}");
    assert_eq!(report["operations"]["tested"], 13, "{said}");

    let history: Value = serde_json::from_str(&get(&address, "/history").await).expect("JSON");
    let sessions = history["sessions"].as_array().expect("a list");
    // Whether one of them changes a file depends on the order in which the sessions reach the model.
    let refactors = sessions.iter().filter(|session| session["operation"] == "refactor");
    assert!(refactors.count() > 1, "{history:#}\n{said}");
    assert!(server.requests().len() > 10, "the model was asked: {said}");
}
