//! By hand, over HTTP.

use serde_json::{Value, json};
use tool_core::limits;

use super::lines::slow;
use super::{Agent, TOOLS, calls, initialize, text};
use crate::conformance::http::{self, Answer, Connection};
use crate::contain::{processes, repository};
use crate::support::{Home, folder, holds, until};

const FILES: &[(&str, &str)] = &[("app.py", "def f(x):\n    return x\n")];

/// A client with its connection, where it has one.
struct Web {
    address: String,
    path: String,
    session: Option<String>,
}

impl Web {
    fn new(address: &str, root: &std::path::Path) -> Self {
        Self {
            address: address.to_owned(),
            path: format!("/mcp?root={}", root.display()),
            session: None,
        }
    }

    /// A client with a connection.
    fn connected(address: &str, root: &std::path::Path) -> Self {
        let mut web = Self::new(address, root);
        web.connect();
        web
    }

    fn connect(&mut self) {
        let answer = self.post(&request(1, "initialize", initialize(&json!({})))).expect(200);
        self.session = Some(answer.headers["mcp-session-id"].clone());
        self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .expect(202);
    }

    fn post(&self, message: &Value) -> Answer {
        self.post_with(message, &[])
    }

    fn post_with(&self, message: &Value, more: &[(&str, &str)]) -> Answer {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        if let Some(session) = &self.session {
            headers.extend([
                ("mcp-session-id", session.as_str()),
                ("mcp-protocol-version", "2025-11-25"),
            ]);
        }
        headers.extend(more);
        Connection::send(&self.address, "POST", &self.path, &headers, Some(&message.to_string())).finish()
    }

    #[track_caller]
    fn ask(&self, method: &str, params: Value) -> Value {
        answer(&self.post(&request(7, method, params)).expect(200), 7)
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// The message of a stream that answers a request.
#[track_caller]
fn answer(answer: &Answer, id: u64) -> Value {
    let messages = answer.body.lines().filter_map(|line| line.strip_prefix("data:"));
    let messages = messages.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
    let found = messages.into_iter().find(|message| message["id"] == id);
    found.unwrap_or_else(|| panic!("{}", answer.body))
}

#[test]
fn another_agent_lists_and_calls_the_skills_over_http() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let mut web = Web::new(&home.serve(), repository.path());
    web.path.push_str("&structured=true");
    web.connect();
    let tools = web.ask("tools/list", json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, TOOLS);
    let call = |name: &str, arguments: Value| web.ask("tools/call", json!({"name": name, "arguments": arguments}));
    let read = call("read_file", json!({"path": "app.py"}));
    assert_eq!(text(&read["result"]), "     1\tdef f(x):\n     2\t    return x");
    let denied = call("write_file", json!({"path": "new.py", "content": ""}));
    insta::assert_snapshot!(denied["result"]["structuredContent"], @r#"{"text":"`write_file` needs the effect `write-repository`, which is not granted here.\nthe user can grant it with `allow = [\"write-repository\"]` below `[policy]` in config.toml","code":"denied","message":"`write_file` needs the effect `write-repository`, which is not granted here.","hint":"the user can grant it with `allow = [\"write-repository\"]` below `[policy]` in config.toml"}"#);
    assert_eq!(call("read_fil", json!({}))["error"]["code"], -32_602);
    let wrong = call("read_file", json!({}));
    assert_eq!(
        wrong["result"]["structuredContent"]["code"], "invalid-arguments",
        "{wrong}"
    );
    // Ended by its client: complete, and gone.
    let session = web.session.clone().expect("it has one");
    let headers = [
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    assert_eq!(http::ask(&web.address, "DELETE", &web.path, &headers).status, 200);
    until("it has ended", || {
        let listed = home
            .run(repository.path(), &["history", "--operation", "mcp"])
            .expect(0)
            .stdout;
        listed.contains("  mcp        mcp\n")
    });
    let names: Vec<String> = calls(&home).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["read_file", "write_file", "read_file"]);
    web.post(&request(8, "tools/list", json!({}))).expect(404);
}

#[test]
fn what_cannot_be_read_is_answered_as_the_protocol_has_it() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let web = Web::new(&home.serve(), repository.path());
    let headers = [
        ("content-type", "application/json; charset=utf-8"),
        ("accept", "application/json, text/event-stream"),
    ];
    let refused = |body: &str| {
        let answer = Connection::send(&web.address, "POST", &web.path, &headers, Some(body)).finish();
        let told = answer.expect(400).json();
        let said = told["error"]["message"].as_str().expect("a text").to_owned();
        (told.get("id").cloned(), told["error"]["code"].clone(), said)
    };
    for (body, id, code, said) in [
        ("{\"broken", Value::Null, -32_700, "The message is no JSON"),
        ("[]", Value::Null, -32_600, "Lists of messages (batches) are not taken"),
        (
            r#"{"id":7,"method":3}"#,
            json!(7),
            -32_600,
            "It is no message of the protocol",
        ),
        (
            r#"{"jsonrpc":"2.0","id":8,"method":"initialize","params":{}}"#,
            json!(8),
            -32_602,
            "`initialize` needs `params`",
        ),
    ] {
        let told = refused(body);
        assert_eq!((told.0, told.1), (Some(id), json!(code)), "{body}");
        holds(&told.2, &[said]);
    }
    let web = Web::connected(&web.address, repository.path());
    let again = web.ask("initialize", initialize(&json!({})));
    assert_eq!(again["error"]["code"], -32_600, "{again}");
    holds(
        again["error"]["message"].as_str().expect("a text"),
        &["already initialized"],
    );
}

#[test]
fn requests_of_the_newest_revision_share_a_session() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let web = Web::new(&home.serve(), repository.path());
    let call = |name: &str| {
        let params = json!({"name": "read_file", "arguments": {"path": "app.py"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "read_file"),
        ];
        let answered = web.post_with(&request(1, "tools/call", params), &headers).expect(200);
        assert!(answered.body.contains("def f(x)"), "{}", answered.body);
    };
    call("one");
    call("one");
    until("they share one", || calls(&home).len() == 2);
    call("another");
    let listed = home
        .run(repository.path(), &["history", "--operation", "mcp"])
        .expect(0)
        .stdout;
    assert_eq!(listed.matches("  mcp        mcp  running").count(), 2, "{listed}");
}

/// Answers to questions count there: a peer that only knows the identifier of a connection is not its client.
#[test]
fn a_connection_that_was_opened_with_the_token_is_reached_with_it_alone() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let mut web = Web::new(&home.serve(), repository.path());
    let token = std::fs::read_to_string(home.path().join("token")).expect("the daemon wrote it");
    let bearer = format!("Bearer {}", token.trim());
    let with = [("authorization", bearer.as_str())];
    let hello = web.post_with(&request(1, "initialize", initialize(&json!({}))), &with);
    web.session = Some(hello.expect(200).headers["mcp-session-id"].clone());
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = request(2, "tools/list", json!({}));
    web.post(&ready).expect(404);
    web.post_with(&ready, &with).expect(202);
    web.post(&list).expect(404);
    web.post(&json!({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {}}}))
        .expect(404);
    web.post_with(&list, &with).expect(200);
}

#[test]
fn who_may_ask_is_the_gates_business_here_as_elsewhere() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let address = home.serve();
    let web = Web::new(&address, repository.path());
    let hello = request(1, "initialize", initialize(&json!({})));
    let refused = web.post_with(&hello, &[("origin", "http://evil.example")]).expect(403);
    assert_eq!(refused.json()["error"]["code"], "origin-not-allowed");
    let refused = web.post_with(&hello, &[("host", "evil.example")]).expect(403);
    assert_eq!(refused.json()["error"]["code"], "host-not-allowed");
    let headers = [
        ("content-type", "text/plain"),
        ("accept", "application/json, text/event-stream"),
    ];
    Connection::send(&address, "POST", &web.path, &headers, Some("{}"))
        .finish()
        .expect(415);
    let large = json!({"x": "x".repeat(limits::MCP_MESSAGE_BYTES_MAX)});
    let refused = web.post(&large).expect(413);
    assert_eq!(refused.json()["error"]["code"], "body-too-large");

    for (path, said) in [
        ("/mcp", "The request names no repository"),
        ("/mcp?root=here", "The root must be an absolute path: `here`"),
        ("/mcp?rot=/r", "Invalid query: rot: unknown field `rot`"),
    ] {
        let web = Web {
            path: path.to_owned(),
            ..Web::new(&address, repository.path())
        };
        let refused = web.post(&hello).expect(400).json();
        holds(refused["error"]["message"].as_str().expect("a text"), &[said]);
    }
    let by_header = Web {
        path: "/api/mcp".to_owned(),
        ..Web::new(&address, repository.path())
    };
    let root = repository.path().to_str().expect("it is UTF-8");
    by_header.post_with(&hello, &[("x-tool-root", root)]).expect(200);
    let elsewhere = Web::new(&address, std::path::Path::new("/proc"));
    let refused = answer(&elsewhere.post(&hello).expect(200), 1);
    assert_eq!(refused["error"]["data"]["code"], "refused-repository", "{refused}");

    let body = json!({"repo_path": root}).to_string();
    let headers = [("content-type", "application/json")];
    let refused = Connection::send(&address, "POST", "/mcp/connect", &headers, Some(&body))
        .finish()
        .expect(400);
    holds(
        refused.json()["error"]["message"].as_str().expect("a text"),
        &["`Upgrade: tool-mcp`"],
    );
    // A caller that is only the same user widens nothing.
    let widened = json!({"repo_path": root, "policy": {"allow": ["commit-git"]}}).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("upgrade", "tool-mcp"),
        ("connection", "upgrade"),
    ];
    let refused = Connection::send(&address, "POST", "/mcp/connect", &headers, Some(&widened))
        .finish()
        .expect(403);
    assert_eq!(refused.json()["error"]["code"], "forbidden");
}

/// A client that goes without a DELETE leaves its connection behind.
#[test]
fn a_bounded_number_of_agents_is_connected() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let address = home.serve();
    let connect = || Web::connected(&address, repository.path());
    let connected: Vec<Web> = (0..limits::MCP_CONNECTIONS_MAX).map(|_| connect()).collect();
    let list = request(2, "tools/list", json!({}));
    // The oldest client sends a request, so that the second client is idle longest.
    connected[0].post(&list).expect(200);
    let more = connect();
    assert_eq!(running(&home), limits::MCP_CONNECTIONS_MAX, "one was ended for it");
    connected[1].post(&list).expect(404);
    let read = |web: &Web| {
        web.ask(
            "tools/call",
            json!({"name": "read_file", "arguments": {"path": "app.py"}}),
        )
    };
    for web in [&connected[0], &connected[2], &connected[63], &more] {
        assert_eq!(
            read(web)["result"]["isError"],
            false,
            "those that are used are not disturbed"
        );
    }
    // `tool mcp` finds a place, too, and so does a client without connections.
    let mut agent = Agent::start(&home, repository.path(), &[], &json!({}));
    assert_eq!(agent.call("read_file", json!({"path": "app.py"}))["isError"], false);
    let modern = Web::new(&address, repository.path());
    let params = json!({"name": "read_file", "arguments": {"path": "app.py"}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "read_file"),
    ];
    let shared = || {
        modern
            .post_with(&request(1, "tools/call", params.clone()), &headers)
            .expect(200)
    };
    assert!(shared().body.contains("def f(x)"));
    assert_eq!(running(&home), limits::MCP_CONNECTIONS_MAX);
    // The shared session of such a client is evicted like any other, and begins anew.
    let newer: Vec<Web> = (0..limits::MCP_CONNECTIONS_MAX - 1).map(|_| connect()).collect();
    assert!(shared().body.contains("def f(x)"));
    assert_eq!(running(&home), limits::MCP_CONNECTIONS_MAX);
    newer[0].post(&list).expect(404);
    agent.end().expect(0);
}

/// The connections of other agents that are open, once those that are ending have ended.
fn running(home: &Home) -> usize {
    let count = || {
        let listed = home.run(
            std::path::Path::new("/"),
            &["history", "--operation", "mcp", "--limit", "500"],
        );
        listed.expect(0).stdout.matches("  mcp        mcp  running").count()
    };
    until("those that were evicted have ended", || {
        count() <= limits::MCP_CONNECTIONS_MAX
    });
    count()
}

#[test]
fn an_agent_with_a_call_under_way_keeps_its_connection_and_a_cancelled_call_keeps_nothing() {
    let mark = format!("evicted-{}", std::process::id());
    let (home, repository) = (Home::offline(), repository(&[FILES[0], ("test_slow.py", &slow(&mark))]));
    let config = home.path().join("config.toml");
    let mut text = std::fs::read_to_string(&config).expect("init wrote it");
    text.push_str("\n[policy]\nallow = [\"run-process\"]\n");
    std::fs::write(&config, text).expect("it is writable");
    let address = home.serve();
    let busy = Web::connected(&address, repository.path());
    let run = |id: usize| {
        let (address, path, session) = (busy.address.clone(), busy.path.clone(), busy.session.clone());
        let web = Web { address, path, session };
        let message = request(id as u64, "tools/call", json!({"name": "run_tests", "arguments": {}}));
        std::thread::spawn(move || web.post(&message))
    };
    let calls: Vec<_> = (100..100 + limits::MCP_CALLS_MAX).map(run).collect();
    until("a suite runs", || !processes(&mark).is_empty());
    let full = || {
        let read = busy.ask(
            "tools/call",
            json!({"name": "read_file", "arguments": {"path": "app.py"}}),
        );
        super::text(&read["result"]).starts_with("32 calls of this connection are under way")
    };
    until("all places are taken", full);
    // Its last request is the oldest, but a call is under way.
    let others: Vec<Web> = (0..=limits::MCP_CONNECTIONS_MAX)
        .map(|_| Web::connected(&address, repository.path()))
        .collect();
    assert!(!processes(&mark).is_empty() && full(), "it goes on");
    let list = request(2, "tools/list", json!({}));
    others[0].post(&list).expect(404);
    for id in 100..100 + limits::MCP_CALLS_MAX {
        let params = json!({"requestId": id, "reason": "enough"});
        busy.post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
            .expect(202);
    }
    until("the places are free again", || !full());
    until("nothing of it is left", || processes(&mark).is_empty());
    // Without a call under way the agent is evicted like any other.
    let newer: Vec<Web> = (0..=limits::MCP_CONNECTIONS_MAX)
        .map(|_| Web::connected(&address, repository.path()))
        .collect();
    busy.post(&list).expect(404);
    newer[newer.len() - 1].post(&list).expect(200);
    for call in calls {
        let _ = call.join().expect("it was answered or ended");
    }
}
