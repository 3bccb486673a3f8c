//! The routes as a client sees them, through the gate, with a scripted model behind them.

mod changes;
mod door;
mod routes;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tower::ServiceExt;

use super::*;
use crate::fakes::Act;
use crate::limits;
use crate::world::SessionWorld;

const TOKEN: &str = "0123456789abcdef";

struct Server {
    world: SessionWorld,
    router: Router,
    state: AppState,
}

/// Request of a test.
struct Ask {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
    peer: Peer,
}

/// The address of every client here.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

fn ask(method: &'static str, path: &str) -> Ask {
    Ask {
        method,
        path: path.to_owned(),
        headers: vec![("host", "localhost:8000".into())],
        body: None,
        peer: Peer::new(ADDRESS, true),
    }
}

impl Ask {
    fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    fn json(mut self, body: Value) -> Self {
        self.body = Some(body);
        self.header("content-type", "application/json")
    }

    fn stranger(mut self) -> Self {
        self.peer = Peer::new(ADDRESS, false);
        self
    }

    fn confined(mut self) -> Self {
        self.peer = Peer::confined(ADDRESS);
        self
    }

    fn token(self) -> Self {
        self.stranger().header("authorization", &format!("Bearer {TOKEN}"))
    }
}

impl Server {
    fn new(rounds: Vec<Vec<Act>>) -> Self {
        Self::with(rounds, "")
    }

    /// A server with this in `[server]` of its configuration.
    fn with(rounds: Vec<Vec<Act>>, server: &str) -> Self {
        let world = SessionWorld::new(rounds);
        let config = format!("[providers.local]\nmodel = \"some-model\"\nenabled = true\n[server]\n{server}\n");
        fs::write(world.home().join("config.toml"), config).expect("it can be written");
        let state = AppState::new(RouterParts {
            sessions: Arc::clone(&world.sessions),
            skills: SkillHost::new(&[], &world.home()).expect("there is an engine"),
            token: TOKEN.to_owned(),
            listening: "127.0.0.1:8000".parse().expect("an address"),
            live: Arc::new(LiveConfig::open(&world.home(), &Environment::default())),
            traffic: Arc::new(Traffic::new(std::io::sink())),
            started: tool_core::api::current_time(),
            home: world.home(),
            environment: Environment::default(),
        });
        Self {
            world,
            router: build_router(state.clone()),
            state,
        }
    }

    async fn send(&self, ask: Ask) -> Response {
        let mut request = Request::builder().method(ask.method).uri(&ask.path);
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        let body = ask.body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = request.body(body).expect("it is a request");
        request.extensions_mut().insert(ConnectInfo(ask.peer));
        self.router.clone().oneshot(request).await.expect("it always answers")
    }

    async fn status(&self, ask: Ask) -> u16 {
        self.send(ask).await.status().as_u16()
    }

    async fn text(&self, ask: Ask) -> String {
        text(self.send(ask).await).await
    }

    async fn json(&self, ask: Ask) -> Value {
        let response = self.send(ask).await;
        let status = response.status();
        let text = text(response).await;
        assert!(status.is_success(), "{status}: {text}");
        serde_json::from_str(&text).expect("it is JSON")
    }

    async fn problem(&self, ask: Ask) -> (u16, String) {
        let response = self.send(ask).await;
        let status = response.status().as_u16();
        let body: Value = serde_json::from_str(&text(response).await).expect("it is JSON");
        let field = |name: &str| body["error"][name].as_str().expect(name).to_owned();
        assert!(!field("message").is_empty());
        (status, field("code"))
    }

    fn execute(&self, operation: &str) -> Value {
        json!({"operation": operation, "target": ".", "repo_path": self.world.repository()})
    }
}

async fn text(response: Response) -> String {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .expect("it ends");
    String::from_utf8(bytes.into()).expect("it is UTF-8")
}

/// The type of every field, so that a whole answer's shape can be compared.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), shape(field)))
            .collect(),
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::String(text) if chrono::DateTime::parse_from_rfc3339(text).is_ok() => json!("timestamp"),
        Value::String(_) => json!("string"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("boolean"),
        Value::Null => Value::Null,
    }
}

/// An output without the host's closing words.
fn model_words(output: &Value) -> &str {
    let output = output.as_str().unwrap_or_default();
    output.split_once("\n\n---\n").map_or(output, |(words, _)| words)
}

#[tokio::test]
async fn every_route_answers_at_both_prefixes_as_the_specification_says() {
    for prefix in ["", "/api"] {
        let server = Server::new(vec![vec![Act::Say("An answer.")]]);
        let path = |path: &str| format!("{prefix}{path}");
        let scan = ask("POST", &path("/scan")).json(json!({"repo_path": server.world.repository()}));
        assert_eq!(
            server.json(scan).await,
            json!({"files": 2, "directories": 1, "languages": ["Python"]})
        );
        let start = server
            .json(ask("POST", &path("/execute")).json(server.execute("explain")))
            .await;
        assert_eq!(start["status"], "running");
        let id = start["session_id"].as_str().expect("an id");
        let stream = server
            .text(ask("GET", &path(&format!("/stream?session_id={id}&strict=1"))))
            .await;
        let end = format!("data: {{\"type\":\"complete\",\"session_id\":\"{id}\"}}\n\n");
        assert!(
            stream.contains("data: {\"type\":\"token\",\"content\":\"An answer.\"}\n\n"),
            "{stream}"
        );
        assert!(stream.ends_with(&end), "{stream}");
        assert!(
            stream
                .lines()
                .all(|line| line.is_empty() || line.starts_with("data: {\"type\":\""))
        );
        let stream = server.text(ask("GET", &path(&format!("/stream/{id}?strict=1")))).await;
        assert!(stream.contains("data: {\"type\":\"output\",\"content\":\"An answer.\",\"model\":\"some-model\"}"));
        assert!(stream.ends_with("data: {\"type\":\"done\",\"status\":\"completed\",\"model\":\"some-model\"}\n\n"));
        let result = server.json(ask("GET", &path(&format!("/results/{id}")))).await;
        assert_eq!(model_words(&result["output"]), "An answer.");
        let answers = json!({
            "result": result,
            "models": server.json(ask("GET", &path("/models"))).await,
            "tasks": server.json(ask("GET", &path("/tasks"))).await,
            "history": server.json(ask("GET", &path("/history"))).await,
            "status": server.json(ask("GET", &path("/status"))).await,
        });
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(shape(&answers), @r#"
            {
              "result": {
                "session_id": "string",
                "operation": "string",
                "status": "string",
                "output": "string",
                "files_modified": [],
                "report_path": "string",
                "usage": {
                  "input_tokens": "number",
                  "cached_tokens": "number",
                  "output_tokens": "number",
                  "estimated": "boolean"
                }
              },
              "models": {
                "providers": [
                  {
                    "name": "string",
                    "enabled": "boolean",
                    "models": []
                  }
                ]
              },
              "tasks": {
                "tasks": [
                  {
                    "session_id": "string",
                    "operation": "string",
                    "target": "string",
                    "timestamp": "timestamp",
                    "status": "string",
                    "repository": "string",
                    "conversation": "string",
                    "turn": "number"
                  }
                ]
              },
              "history": {
                "sessions": [
                  {
                    "id": "string",
                    "operation": "string",
                    "started": "timestamp",
                    "completed": "timestamp",
                    "files_modified": "number",
                    "provider": "string",
                    "status": "string",
                    "repository": "string",
                    "target": "string",
                    "conversation": "string",
                    "turn": "number"
                  }
                ]
              },
              "status": {
                "status": "string",
                "version": "string",
                "pid": "number",
                "address": "string",
                "port": "number",
                "started": "timestamp",
                "sessions_running": "number",
                "provider": "string",
                "model": "string"
              }
            }
            "#);
        }
    }
}

#[tokio::test]
async fn a_reader_goes_on_where_it_was() {
    let server = Server::new(vec![vec![
        Act::Say("a"),
        Act::Pause(Duration::from_millis(20)),
        Act::Say("b"),
    ]]);
    let start = server
        .json(ask("POST", "/execute").json(server.execute("explain")))
        .await;
    let path = format!("/stream?session_id={}", start["session_id"].as_str().expect("an id"));
    let whole = server.text(ask("GET", &path)).await;
    let id = |event: &str| {
        event
            .lines()
            .find_map(|line| line.strip_prefix("id: "))
            .map(str::to_owned)
    };
    let events: Vec<&str> = whole.split_inclusive("\n\n").collect();
    let first_token = events
        .iter()
        .position(|event| event.contains("\"content\":\"a"))
        .expect("it is there");
    let last_seen = id(events[first_token]).expect("it has an id");
    let rest = server.text(ask("GET", &path).header("last-event-id", &last_seen)).await;
    assert_eq!(rest, events[first_token + 1..].concat());
    // After the terminal event there is nothing to come back for: only this status stops an EventSource.
    let last = id(events.last().expect("a terminal event")).expect("it has an id");
    let spent = server.send(ask("GET", &path).header("last-event-id", &last)).await;
    assert_eq!(spent.status(), 204);
    let form = server.text(ask("GET", &format!("{path}&form=architecture"))).await;
    assert!(form.contains("\"type\":\"done\""));
    let wrong = server.problem(ask("GET", &format!("{path}&form=other"))).await;
    assert_eq!(wrong, (400, "invalid-request".into()));
}

#[tokio::test]
async fn starting_and_streaming_in_one_call() {
    let server = Server::new(vec![vec![Act::Say("Hello.")]]);
    let response = server
        .send(ask("POST", "/stream").json(server.execute("explain")))
        .await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let id = response.headers()["x-session-id"].to_str().expect("text").to_owned();
    assert!(response.headers().contains_key("x-approval-secret"));
    assert!(text(response).await.contains(&format!("\"session_id\":\"{id}\"")));
    assert_eq!(
        model_words(&server.json(ask("GET", &format!("/results/{id}"))).await["output"]),
        "Hello."
    );
}

#[tokio::test]
async fn calling_one_skill() {
    let server = Server::new(vec![]);
    let body = json!({"arguments": {"path": "a"}, "repo_path": server.world.repository()});
    let stream = server
        .text(ask("POST", "/skills/read_file/call").json(body.clone()))
        .await;
    let position = |kind: &str| stream.find(&format!("\"type\":\"{kind}\"")).expect(kind);
    assert!(position("outcome") < position("complete"));
    assert!(stream.contains("\"receipt\":{\"skill\":\"read_file\""));
    let unknown = server.problem(ask("POST", "/api/skills/nothing/call").json(body)).await;
    assert_eq!(unknown, (404, "not-found".into()));
    let skills = server.json(ask("GET", "/skills")).await;
    assert_eq!(skills["skills"][0]["name"], "read_file");
}

#[tokio::test]
async fn wrong_requests_are_answered_with_what_they_mean() {
    let server = Server::new(vec![]);
    let long = "x".repeat(limits::BODY_BYTES_MAX + 1);
    let with = |changes: Value| {
        let mut body = server.execute("explain");
        let fields = body.as_object_mut().expect("it is an object");
        fields.extend(changes.as_object().cloned().unwrap_or_default());
        body
    };
    let execute = || ask("POST", "/execute");
    let cases = [
        (execute().json(with(json!({"targt": 1}))), 400, "invalid-request"),
        (
            execute().json(with(json!({"operation": "destroy"}))),
            400,
            "invalid-request",
        ),
        (
            execute().json(with(json!({"repo_path": "relative"}))),
            400,
            "invalid-request",
        ),
        (
            execute().json(with(json!({"repo_path": "/"}))),
            403,
            "refused-repository",
        ),
        (
            execute().json(with(json!({"operation": "refactor", "repo_path": "/etc"}))),
            403,
            "refused-repository",
        ),
        (
            execute().json(with(json!({"working_directory": "/etc"}))),
            400,
            "invalid-request",
        ),
        (
            execute().json(with(json!({"repo_path": "/no/such/folder"}))),
            404,
            "invalid-repository",
        ),
        (
            execute().json(with(json!({"repo_path": "/a\0b"}))),
            404,
            "invalid-repository",
        ),
        (execute().json(json!([])), 400, "invalid-request"),
        (execute().json(json!(1e300)), 400, "invalid-request"),
        (execute().json(nested(200)), 400, "invalid-request"),
        (
            execute().json(with(json!({"budget": {"max_steps": 0}}))),
            400,
            "invalid-request",
        ),
        (
            execute().json(with(json!({"budget": {"max_steps": -1}}))),
            400,
            "invalid-request",
        ),
        (
            execute().json(with(json!({"budget": {"timeout_seconds": 86_401}}))),
            400,
            "invalid-request",
        ),
        (
            execute().json(with(json!({"budget": {"max_tokens": 1e30}}))),
            400,
            "invalid-request",
        ),
        (
            execute().json(with(json!({"policy": {"deny": ["fly"]}}))),
            400,
            "invalid-policy",
        ),
        (
            ask("POST", "/execute?dry=1").json(with(json!({}))),
            400,
            "invalid-request",
        ),
        (
            ask("POST", "/skills/read_file/call").json(json!({"arguments": 1, "repo_path": "/tmp"})),
            400,
            "invalid-request",
        ),
        (
            execute().json(with(json!({"provider": "hosted"}))),
            409,
            "provider-mismatch",
        ),
        (execute().json(with(json!({"focus": long}))), 413, "body-too-large"),
        (
            execute().json(with(json!({}))).header("content-type", "text/plain"),
            415,
            "unsupported-media-type",
        ),
        (execute(), 415, "unsupported-media-type"),
        (ask("GET", "/nothing"), 404, "not-found"),
        (ask("GET", "/api/nothing"), 404, "not-found"),
        (ask("PUT", "/execute"), 405, "method-not-allowed"),
        (ask("GET", "/results/nothing"), 404, "not-found"),
        (ask("GET", "/results/..%2f..%2ftoken"), 404, "not-found"),
        (ask("GET", "/stream?session_id=nothing"), 404, "not-found"),
        (ask("GET", "/stream"), 400, "invalid-request"),
        (ask("GET", "/stream?session_id=%ff"), 400, "invalid-request"),
        (ask("GET", "/stream?session_id=a&session_id=b"), 400, "invalid-request"),
        (ask("GET", "/stream?session_id=a&from=3"), 400, "invalid-request"),
        (ask("GET", "/stream/%ff"), 400, "invalid-request"),
        (ask("GET", "/results/%c3%28"), 400, "invalid-request"),
        (ask("GET", "/results/%00"), 404, "not-found"),
        (
            ask("GET", &format!("/results/{}", "x".repeat(20_000))),
            404,
            "not-found",
        ),
        (ask("DELETE", "/sessions/%fe"), 400, "invalid-request"),
        (ask("GET", "/models?verbose=1"), 400, "invalid-request"),
        (ask("GET", "/skills?x"), 400, "invalid-request"),
        (ask("GET", "/%ff"), 400, "invalid-request"),
        (ask("GET", "/results/%zz"), 400, "invalid-request"),
        (ask("GET", "/history?status=odd"), 400, "invalid-request"),
        (ask("GET", "/history?status="), 400, "invalid-request"),
        (ask("GET", "/history?limit=0"), 400, "invalid-request"),
        (ask("GET", "/history?limit=101"), 400, "invalid-request"),
        (ask("GET", "/tasks?limit=-1"), 400, "invalid-request"),
        (ask("GET", "/tasks?limit=99999999999999999999"), 400, "invalid-request"),
        (ask("GET", "/tasks?statsu=running"), 400, "invalid-request"),
        (ask("DELETE", "/sessions/nothing"), 404, "not-found"),
        (
            ask("POST", "/approvals/nothing").json(json!({"secret": "x", "approve": true})),
            404,
            "not-found",
        ),
    ];
    for (ask, status, code) in cases {
        let asked = format!("{} {} {:?}", ask.method, ask.path, ask.headers);
        assert_eq!(server.problem(ask).await, (status, code.to_owned()), "{asked}");
    }
}

/// Arrays in arrays.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

#[tokio::test]
async fn without_a_configuration_nothing_runs_but_scanning_works() {
    let server = Server::new(vec![]);
    fs::remove_file(server.world.home().join("config.toml")).expect("it is there");
    let response = server
        .send(ask("POST", "/execute").json(server.execute("explain")))
        .await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let body: Value = serde_json::from_str(&text(response).await).expect("it is JSON");
    assert_eq!(
        body["error"]["message"],
        "Configuration file not found: ~/.tool/config.toml"
    );
    let scan = ask("POST", "/scan").json(json!({"repo_path": server.world.repository()}));
    assert_eq!(server.status(scan).await, 200);
    assert_eq!(server.json(ask("GET", "/status")).await["provider"], Value::Null);
}

#[tokio::test]
async fn a_request_without_the_token_can_only_narrow() {
    let server = Server::new(vec![vec![], vec![]]);
    let with = |field: &str, value: Value| {
        let mut body = server.execute("explain");
        body[field] = value;
        body
    };
    let allow = with("policy", json!({"allow": ["install"]}));
    let path = with("overrides", json!({"PATH": "/tmp"}));
    let deny = with("policy", json!({"deny": ["read-git"]}));
    let unsandboxed = with("policy", json!({"unsandboxed": true}));
    for widening in [&allow, &path, &unsandboxed] {
        let refused = server.problem(ask("POST", "/execute").json(widening.clone())).await;
        assert_eq!(refused, (403, "forbidden".into()));
    }
    assert_eq!(server.status(ask("POST", "/execute").json(deny)).await, 200);
    assert_eq!(server.status(ask("POST", "/execute").json(allow).token()).await, 200);
    let preload = with("overrides", json!({"LD_PRELOAD": "/tmp/x.so"}));
    assert_eq!(server.status(ask("POST", "/execute").json(preload).token()).await, 400);
}

fn clone_of(server: &Server) -> RouterParts {
    let parts = &server.state.0;
    RouterParts {
        sessions: Arc::clone(&parts.sessions),
        skills: Arc::clone(&parts.skills),
        token: parts.token.clone(),
        listening: parts.listening,
        live: Arc::clone(&parts.live),
        traffic: Arc::clone(&parts.traffic),
        started: parts.started,
        home: parts.home.clone(),
        environment: parts.environment.clone(),
    }
}

#[tokio::test]
async fn a_connection_that_never_ends_does_not_hold_up_the_stop() {
    use tokio::io::AsyncWriteExt;
    let (sockets, address, _folder) = listener::tests::sockets("127.0.0.1:0").await.expect("a port is free");
    let server = Server::new(Vec::new());
    let state = AppState::new(RouterParts {
        listening: address,
        ..clone_of(&server)
    });
    let stop = tokio_util::sync::CancellationToken::new();
    let stopped = stop.clone();
    let serving = tokio::spawn(serve_sockets(sockets, state, async move { stopped.cancelled().await }));
    let mut client = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let head = format!(
        "POST /execute HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    client.write_all(head.as_bytes()).await.expect("it is open");
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.cancel();
    let patience = Duration::from_secs(10);
    let ended = tokio::time::timeout(patience, serving)
        .await
        .expect("it is not waited for");
    ended.expect("no panic").expect("it was served");
}

#[tokio::test]
async fn a_quiet_stream_has_a_heartbeat() {
    use futures_util::StreamExt;
    let _hurried = crate::limits::pace::hurried(300);
    let server = Server::new(vec![vec![Act::Say("x"), Act::Hang]]);
    let start = server
        .json(ask("POST", "/execute").json(server.execute("explain")))
        .await;
    let path = format!("/stream?session_id={}", start["session_id"].as_str().expect("an id"));
    let mut body = server.send(ask("GET", &path)).await.into_body().into_data_stream();
    let mut seen = String::new();
    let beat = async {
        while !seen.contains(": heartbeat\n\n") {
            let piece = body.next().await.expect("it goes on").expect("it is open");
            seen.push_str(&String::from_utf8_lossy(&piece));
        }
    };
    tokio::time::timeout(Duration::from_secs(10), beat)
        .await
        .expect("it beats");
}
