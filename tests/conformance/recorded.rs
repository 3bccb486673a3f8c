//! Sessions that many rows look at, each run once and kept as plain data.

use std::sync::OnceLock;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tool_model_server::{RecordedRequest, Round, ScriptedUsage, ServerStep};

use super::http::{self, Answer};
use super::world::{SHOP, World, calls, report, says};
use crate::support::{Finished, Home};

/// One session over HTTP, with everything that can be asked about it.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) began: DateTime<Utc>,
    pub(super) scan: Answer,
    pub(super) start: Answer,
    /// In the reference form, as it came, and once more with `strict=1`.
    pub(super) stream: Answer,
    pub(super) strict: Answer,
    /// In the architecture form.
    pub(super) architecture: Answer,
    pub(super) result: Answer,
    pub(super) models: Answer,
    pub(super) tasks: Answer,
    pub(super) history: Answer,
    pub(super) status: Answer,
    /// Names in `session-reports/`.
    pub(super) names: Vec<String>,
    pub(super) report: String,
    pub(super) latest: String,
    pub(super) history_file: Value,
    /// Requests to the model.
    pub(super) requests: Vec<RecordedRequest>,
    /// `shop/prices.py` at the end.
    pub(super) prices: String,
}

impl Session {
    /// Its events in the reference form.
    pub(super) fn events(&self) -> Vec<Value> {
        self.stream.events()
    }

    /// Its events of one type.
    pub(super) fn of_type(&self, kind: &str) -> Vec<Value> {
        let events = self.events().into_iter();
        events.filter(|event| event["type"] == kind).collect()
    }

    /// Its task.
    pub(super) fn task(&self) -> Value {
        self.tasks.json()["tasks"][0].clone()
    }

    /// Its entry in the history.
    pub(super) fn entry(&self) -> Value {
        self.history.json()["sessions"][0].clone()
    }
}

/// An explain that ends well, over the reference form's paths.
pub(super) fn explain() -> &'static Session {
    static SESSION: OnceLock<Session> = OnceLock::new();
    SESSION.get_or_init(|| record("", "explain", ".", explaining()))
}

/// The session over the paths with `/api`.
pub(super) fn explain_under_api() -> &'static Session {
    static SESSION: OnceLock<Session> = OnceLock::new();
    SESSION.get_or_init(|| record("/api", "explain", ".", explaining()))
}

/// A refactor that changes two files.
pub(super) fn refactor() -> &'static Session {
    static SESSION: OnceLock<Session> = OnceLock::new();
    SESSION.get_or_init(|| record("", "refactor", "shop", refactoring()))
}

/// A session whose provider refuses the key.
pub(super) fn failed() -> &'static Session {
    static SESSION: OnceLock<Session> = OnceLock::new();
    let refusal = Round::status(401, json!({"error": {"message": "no"}}));
    SESSION.get_or_init(|| record("", "explain", ".", vec![refusal]))
}

fn explaining() -> Vec<Round> {
    vec![
        Round::new([
            ServerStep::Text("Let me look.".into()),
            ServerStep::ToolCalls(vec![tool_model_server::ScriptedCall::new(
                "read_file",
                json!({"path": "app.py"}),
            )]),
        ]),
        Round::new([
            ServerStep::Pieces(vec!["It counts ".into(), "crates (app.py:1).".into()]),
            ServerStep::Usage(ScriptedUsage {
                input: 900,
                output: 12,
                cached: 0,
            }),
        ]),
    ]
}

/// The rounds of a refactor that reads two files and writes them.
pub(super) fn refactoring() -> Vec<Round> {
    vec![
        calls([
            ("read_file", json!({"path": "shop/prices.py"})),
            ("read_file", json!({"path": "shop/taxes.py"})),
        ]),
        calls([
            (
                "write_file",
                json!({"path": "shop/prices.py", "content": "RATE = 3\n\n\ndef total(cart):\n    return RATE\n"}),
            ),
            (
                "write_file",
                json!({"path": "shop/taxes.py", "content": "def tax(price):\n    return price * 0.25\n"}),
            ),
        ]),
        says(&["The rates are new: ", "shop/prices.py:1 and shop/taxes.py:2."]),
    ]
}

fn record(prefix: &str, operation: &str, target: &str, rounds: Vec<Round>) -> Session {
    let world = World::new(SHOP, rounds);
    let address = world.home.serve();
    let began = Utc::now();
    let get = |path: &str| http::get(&address, &format!("{prefix}{path}"));
    let post = |path: &str, body: &Value| http::post(&address, &format!("{prefix}{path}"), body);
    let scan = post("/scan", &json!({"repo_path": world.repo_path()}));
    let start = post("/execute", &world.body(operation, target)).expect(200);
    let id = start.json()["session_id"].as_str().expect("an identifier").to_owned();
    let stream = get(&format!("/stream?session_id={id}"));
    let mut names: Vec<String> = std::fs::read_dir(world.root().join("session-reports"))
        .expect("the session is logged")
        .map(|entry| {
            entry
                .expect("it can be listed")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    let own = names.iter().find(|name| name.ends_with(&format!("_{id}.md")));
    Session {
        began,
        scan,
        start,
        stream,
        strict: get(&format!("/stream?session_id={id}&strict=1")),
        architecture: http::get(&address, &format!("/api/stream/{id}")),
        result: get(&format!("/results/{id}")),
        models: get("/models"),
        tasks: get("/tasks"),
        history: get("/history"),
        status: get("/status"),
        report: report(world.root(), own.expect("a report of its own")),
        latest: report(world.root(), "session_latest.md"),
        history_file: serde_json::from_str(&report(world.root(), "session_history.json")).expect("JSON"),
        requests: world.server.requests(),
        prices: world.read("shop/prices.py"),
        names,
        id,
    }
}

/// `tool service` from the first status to the last, and what lay in the home meanwhile.
pub(super) struct Service {
    pub(super) before: Finished,
    pub(super) start: Finished,
    pub(super) running: Finished,
    pub(super) pid_file: String,
    pub(super) pid: u64,
    pub(super) alive: bool,
    pub(super) restart: Finished,
    pub(super) new_pid: u64,
    pub(super) old_alive: bool,
    pub(super) stop: Finished,
    pub(super) stopped_alive: bool,
    pub(super) pid_file_left: bool,
    pub(super) after: Finished,
    /// `backend.log` and `logs/backend.log`.
    pub(super) logs: [String; 2],
}

/// A backend that was started, restarted and stopped.
pub(super) fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let home = Home::offline();
        let here = std::path::Path::new("/");
        let run = |what: &str| home.run(here, &["service", what]);
        let pid = || home.record()["pid"].as_u64().expect("a process id");
        let before = run("status");
        let start = run("start");
        let running = run("status");
        let pid_file = std::fs::read_to_string(home.path().join("backend.pid")).expect("a pid file");
        let first = pid();
        let is_alive = alive(first);
        let restart = run("restart");
        let new_pid = pid();
        let old_alive = alive(first);
        let stop = run("stop");
        Service {
            before,
            start,
            running,
            pid_file,
            pid: first,
            alive: is_alive,
            restart,
            new_pid,
            old_alive,
            stop,
            stopped_alive: alive(new_pid),
            pid_file_left: home.path().join("backend.pid").exists(),
            after: run("status"),
            logs: ["backend.log", "logs/backend.log"]
                .map(|log| std::fs::read_to_string(home.path().join(log)).unwrap_or_default()),
        }
    })
}

/// True while a process runs; one that has ended and was not waited for counts as gone.
pub(super) fn alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(None | Some('Z')))
}
