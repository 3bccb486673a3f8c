//! The REST interface as the specification's `curl` examples use it, on both prefixes.

use std::net::TcpListener;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tool_model_server::{ModelServer, Script};

use crate::support::{Home, fixture, folder};

/// A client that knows nothing but the address: no token, as in the specification.
struct Curl {
    address: String,
    client: reqwest::Client,
}

impl Curl {
    #[expect(clippy::disallowed_methods, reason = "the tests are a client")]
    fn new(address: String) -> Self {
        // Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { address, client }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let response = self
            .client
            .get(format!("{}{path}", self.address))
            .send()
            .await
            .expect("an answer");
        answered(response).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.address));
        let response = request
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .await
            .expect("an answer");
        answered(response).await
    }

    async fn text(&self, path: &str) -> String {
        let response = self
            .client
            .get(format!("{}{path}", self.address))
            .send()
            .await
            .expect("an answer");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        response.text().await.expect("text")
    }
}

async fn answered(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = response.bytes().await.expect("a body");
    (status, serde_json::from_slice(&body).expect("JSON"))
}

fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("an event is JSON"))
        .collect()
}

#[track_caller]
fn is_time(value: &Value) {
    let text = value.as_str().expect("a timestamp is a string");
    let time: DateTime<Utc> = text.parse().expect("a timestamp is ISO 8601");
    assert!(text.ends_with('Z'), "{text} is in UTC");
    assert!((Utc::now() - time).num_minutes().abs() < 5, "{text} is now");
}

#[track_caller]
fn fields(value: &Value, expected: &[&str]) {
    for field in expected {
        assert!(value.get(field).is_some(), "`{field}` is missing in {value}");
    }
}

#[tokio::test]
async fn the_specifications_routes_answer_with_the_specifications_fields_on_both_prefixes() {
    let (home, repository) = (Home::offline(), fixture("inherits-2.0.1"));
    let curl = Curl::new(home.serve());
    let repo_path = repository.path().to_str().expect("UTF-8");
    for prefix in ["", "/api"] {
        let (status, scan) = curl
            .post(&format!("{prefix}/scan"), &json!({"repo_path": repo_path}))
            .await;
        assert_eq!(
            (status, &scan),
            (
                200,
                &json!({"files": 6, "directories": 0, "languages": scan["languages"]})
            )
        );
        assert!(
            scan["languages"]
                .as_array()
                .expect("a list")
                .contains(&"JavaScript".into()),
            "{scan}"
        );

        let body = json!({"operation": "explain", "target": ".", "repo_path": repo_path});
        let (status, start) = curl.post(&format!("{prefix}/execute"), &body).await;
        assert_eq!((status, &start["status"]), (200, &"running".into()), "{start}");
        let id = start["session_id"].as_str().expect("an identifier");

        let stream = curl.text(&format!("{prefix}/stream?session_id={id}")).await;
        let seen = events(&stream);
        assert_eq!(seen.last(), Some(&json!({"type": "complete", "session_id": id})));
        assert_eq!(
            seen.iter()
                .filter(|event| event["type"] == "complete" || event["type"] == "error")
                .count(),
            1
        );
        let output: String = seen
            .iter()
            .filter(|event| event["type"] == "token")
            .filter_map(|event| event["content"].as_str())
            .collect();
        let skill = seen
            .iter()
            .find(|event| event["type"] == "skill")
            .expect("a skill was used");
        assert!(skill["name"].is_string() && skill["args"].is_object(), "{skill}");

        let (status, result) = curl.get(&format!("{prefix}/results/{id}")).await;
        assert_eq!(status, 200);
        assert_eq!(result["session_id"], id);
        assert_eq!(
            (&result["operation"], &result["status"]),
            (&"explain".into(), &"complete".into())
        );
        assert_eq!(result["output"].as_str(), Some(output.as_str()));
        assert_eq!(result["files_modified"], json!([]));
        let report = result["report_path"].as_str().expect("a path");
        assert!(
            report.starts_with("session-reports/session_") && repository.path().join(report).is_file(),
            "{report}"
        );

        let (_, models) = curl.get(&format!("{prefix}/models")).await;
        let names: Vec<_> = models["providers"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| entry["name"].clone())
            .collect();
        assert_eq!(names, ["hosted", "local", "router"]);
        assert_eq!(models["providers"][1]["enabled"], true);
        assert_eq!(models["providers"][1]["models"], json!(["builtin:analyst"]));

        let (_, tasks) = curl.get(&format!("{prefix}/tasks")).await;
        let task = &tasks["tasks"][0];
        fields(task, &["session_id", "operation", "target", "timestamp", "status"]);
        assert_eq!(
            (&task["session_id"], &task["status"], &task["target"]),
            (&id.into(), &"complete".into(), &".".into())
        );
        is_time(&task["timestamp"]);

        let (_, history) = curl.get(&format!("{prefix}/history")).await;
        let entry = &history["sessions"][0];
        fields(
            entry,
            &["id", "operation", "started", "completed", "files_modified", "provider"],
        );
        assert_eq!((&entry["id"], &entry["files_modified"]), (&id.into(), &0.into()));
        assert_eq!(entry["provider"], "builtin:analyst");
        is_time(&entry["started"]);
        is_time(&entry["completed"]);

        let (status, backend) = curl.get(&format!("{prefix}/status")).await;
        assert_eq!((status, &backend["status"]), (200, &"running".into()));
    }
}

#[tokio::test]
async fn the_architecture_form_is_spoken_where_it_is_described() {
    let (home, repository) = (Home::offline(), fixture("inherits-2.0.1"));
    let curl = Curl::new(home.serve());
    let body = json!({"operation": "explain", "target": ".", "repo_path": repository.path()});
    let (_, start) = curl.post("/api/execute", &body).await;
    let id = start["session_id"].as_str().expect("an identifier");
    let seen = events(&curl.text(&format!("/api/stream/{id}")).await);
    let last = seen.last().expect("events");
    assert_eq!(
        (&last["type"], &last["status"]),
        (&"done".into(), &"completed".into()),
        "{last}"
    );
    assert!(last["model"].is_string(), "{last}");
    let output = seen.iter().find(|event| event["type"] == "output").expect("output");
    assert!(output["content"].is_string() && output["model"].is_string(), "{output}");
    let reference = events(&curl.text(&format!("/api/stream/{id}?form=reference")).await);
    assert_eq!(
        reference.last().expect("events")["type"],
        "complete",
        "a stream opened late replays from the first"
    );
}

#[tokio::test]
async fn requests_that_make_no_sense_say_why() {
    let (home, repository) = (Home::offline(), folder(&[("a.py", "x = 1\n")]));
    let curl = Curl::new(home.serve());
    let repo_path = repository.path();
    for (path, body, status, word) in [
        (
            "/execute",
            json!({"operation": "explain", "target": ".", "repo_path": "relative"}),
            400,
            "absolute",
        ),
        (
            "/execute",
            json!({"operation": "dance", "target": ".", "repo_path": repo_path}),
            400,
            "dance",
        ),
        (
            "/execute",
            json!({"operation": "explain", "target": ".", "repo_path": repo_path, "provider": "hosted"}),
            409,
            "local",
        ),
        (
            "/execute",
            json!({"operation": "explain", "target": ".", "repo_path": repo_path, "tagret": "."}),
            400,
            "tagret",
        ),
        ("/scan", json!({"repo_path": "/proc"}), 403, "/proc"),
        ("/scan", json!({}), 400, "repo_path"),
    ] {
        let (got, answer) = curl.post(path, &body).await;
        let message = format!("{} {}", answer["error"]["message"], answer["error"]["hint"]);
        assert_eq!(got, status, "{body}: {answer}");
        assert!(
            answer["error"]["code"].is_string() && message.contains(word),
            "{body}: {answer}"
        );
    }
    let (status, answer) = curl.get("/results/nosuchsession").await;
    assert_eq!((status, answer["error"]["code"].is_string()), (404, true), "{answer}");
    let (status, answer) = curl.get("/nosuchroute").await;
    assert_eq!((status, answer["error"]["code"].is_string()), (404, true), "{answer}");
}

#[tokio::test]
async fn pages_of_other_origins_and_other_hosts_are_refused() {
    let home = Home::offline();
    let address = home.serve();
    let curl = Curl::new(address.clone());
    let get = |name: &'static str, value: &'static str| {
        let request = curl.client.get(format!("{address}/api/status")).header(name, value);
        async move { request.send().await.expect("an answer").status().as_u16() }
    };
    assert_eq!(get("accept", "*/*").await, 200);
    assert_eq!(get("origin", "http://evil.example").await, 403);
    assert_eq!(get("sec-fetch-site", "cross-site").await, 403);
    assert_eq!(get("host", "evil.example").await, 403);
    let (status, _) = curl.get("/api/status").await;
    assert_eq!(status, 200);
    let form = curl
        .client
        .post(format!("{address}/scan"))
        .body("repo_path=/")
        .send()
        .await
        .expect("an answer");
    assert_eq!(form.status().as_u16(), 415);
}

#[test]
fn the_token_and_the_configuration_are_the_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::offline();
    home.serve();
    for (name, mode) in [
        ("token", 0o600),
        ("config.toml", 0o600),
        ("backend.json", 0o600),
        ("backend.sock", 0o600),
    ] {
        let metadata = std::fs::metadata(home.path().join(name)).expect("it was written");
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
    }
    assert!(
        home.run(Path::new("/"), &["service", "status"])
            .expect(0)
            .stdout
            .contains("running")
    );
}

/// A provider that lists three models, as `local`, beside a `router` with a key that is not enabled.
fn two_providers(local: &str, router: &str) -> Home {
    Home::configured(&format!(
        "[providers.local]\nurl = \"{local}\"\nmodel = \"large\"\nenabled = true\n\
         [providers.router]\nurl = \"{router}\"\nmodel = \"vendor/model\"\napi_key = \"a-key\"\n"
    ))
}

fn listing(models: &[&str]) -> ModelServer {
    let script = Script {
        models: models.iter().map(|&model| model.to_owned()).collect(),
        ..Script::new([])
    };
    ModelServer::start(script).expect("loopback has a free port")
}

#[tokio::test]
async fn the_enabled_provider_alone_is_asked_for_its_models_and_once() {
    let mut local = Some(listing(&["small", "large", "tiny"]));
    let router = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    router.set_nonblocking(true).expect("it is a socket");
    let address = router.local_addr().expect("it is bound");
    let home = two_providers(&local.as_ref().expect("it runs").url(), &format!("http://{address}/v1"));
    let curl = Curl::new(home.serve());
    for path in ["/models", "/api/models", "/models"] {
        let (status, models) = curl.get(path).await;
        assert_eq!(status, 200, "{models}");
        let expected = json!({"providers": [
            {"name": "hosted", "enabled": false, "models": []},
            {"name": "local", "enabled": true, "models": ["large", "small", "tiny"]},
            {"name": "router", "enabled": false, "models": ["vendor/model"]},
        ]});
        assert_eq!(models, expected, "the configured one comes first, and the list is kept");
        drop(local.take());
    }
    let asked = router.accept().map_err(|error| error.kind());
    assert_eq!(
        asked.err(),
        Some(std::io::ErrorKind::WouldBlock),
        "who is not enabled is not asked"
    );
}

#[tokio::test]
async fn a_provider_that_cannot_be_asked_costs_its_list_and_not_the_answer() {
    // One that refuses, and one that takes the connection and says nothing.
    let refusing = "http://127.0.0.1:9/v1";
    let server = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let silent = format!("http://{}/v1", server.local_addr().expect("it is bound"));
    for url in [refusing, silent.as_str()] {
        let home = two_providers(url, refusing);
        let curl = Curl::new(home.serve());
        for _ in 0..2 {
            let (status, models) = curl.get("/models").await;
            assert_eq!(
                (status, &models["providers"][1]["models"]),
                (200, &json!(["large"])),
                "{models}"
            );
        }
    }
    // The failed request is remembered: two answers cost one connection.
    server.set_nonblocking(true).expect("a listener can be polled");
    let connections = std::iter::from_fn(|| server.accept().ok()).count();
    assert_eq!(connections, 1);
}
