//! Promises of the specification's first page, each seen from outside.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tool_config::{DEFAULT_PORT, Environment, backend_port};
use tool_model_server::{Round, ServerStep};

use super::http::{self, Connection};
use super::recorded::{alive, explain, refactor, service};
use super::world::{SHOP, World, free_port, holds, report, says};
use crate::support::{Home, finish};

/// Names of the tools that a request offers.
fn offered(request: &Value) -> BTreeSet<String> {
    let tools = request["tools"].as_array().expect("tools are offered");
    let name = |tool: &Value| tool["function"]["name"].as_str().expect("a name").to_owned();
    tools.iter().map(name).collect()
}

/// A command line and a backend; four operations; one provider that answers all of them.
#[test]
fn service_whole() {
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    let address = world.home.serve();
    for (operation, target) in [
        ("explain", "."),
        ("architect", "price by weight"),
        ("refactor", "shop"),
        ("test-gen", "shop/taxes.py"),
    ] {
        let (_, stream) = world.follow(&address, operation, target);
        holds(&stream.body, &["It counts crates"]);
        holds(&world.run(&[operation, target]).stdout, &["It counts crates"]);
    }
    let tasks = http::get(&address, "/tasks").json();
    assert_eq!(tasks["tasks"].as_array().map(Vec::len), Some(8));
}

#[test]
fn service_names() {
    let user = tempfile::tempdir().expect("a temporary folder");
    let world = World::new(SHOP, []);
    let as_user = |arguments: &[&str]| {
        let mut command = world.home.tool(world.root(), arguments);
        let command = command.env_remove("TOOL_HOME").env("HOME", user.path());
        finish(command.output().expect("the binary runs"))
    };
    holds(&as_user(&["--help"]).expect(0).stdout, &["Usage: tool "]);
    as_user(&["init", "--offline"]).expect(0);
    let explained = as_user(&["explain", "."]);
    as_user(&["service", "stop"]).expect(0);
    explained.expect(0);
    assert!(user.path().join(".tool/config.toml").exists());
    report(world.root(), "session_latest.md");
    let models = explain().models.json();
    let names: Vec<&Value> = models["providers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["hosted", "local", "router"]);
}

#[test]
fn service_aware_of_a_repository() {
    let asked = explain().requests[0].body["messages"].to_string();
    holds(
        &asked,
        &["def count(crates)", "return len(crates)", "Counts and prices crates."],
    );
}

#[test]
fn service_each_request() {
    let world = World::repeating(super::context::LARGE, says(&["It stores crates (main.py:1)."]));
    let mut prompts = BTreeSet::new();
    for (operation, target) in [
        ("explain", "."),
        ("architect", "price by weight"),
        ("refactor", "billing"),
        ("test-gen", "billing/taxes.py"),
    ] {
        let before = world.server.requests().len();
        let finished = world.run(&[operation, target, "--json"]);
        let events: Vec<Value> = finished
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let selection = events
            .iter()
            .find(|event| event["type"] == "selection")
            .expect("files are selected");
        let files = selection["files"].as_array().expect("a list");
        assert!((4..=6).contains(&files.len()), "{operation}: {selection}");
        let request = &world.server.requests()[before].body;
        let messages = request["messages"].as_array().expect("messages");
        assert_eq!(messages[0]["role"], "system");
        let context = messages[1]["content"].to_string();
        let instructions = context
            .split_once("# Operation")
            .and_then(|(_, rest)| rest.split_once("# Request"));
        let (instructions, _) = instructions.expect("a message begins with the instructions of its operation");
        prompts.insert(format!("{}{instructions}", messages[0]["content"]));
        for file in files {
            holds(&context, &[file["path"].as_str().expect("a path")]);
        }
    }
    assert_eq!(prompts.len(), 4, "each operation has its own prompt");
}

#[test]
fn service_twelve_skills() {
    let session = explain();
    let expected: BTreeSet<String> = super::skills::NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(offered(&session.requests[0].body), expected);
    let answered = session.requests[1].body["messages"].to_string();
    holds(&answered, &["\"role\":\"tool\"", "return len(crates)"]);
}

/// The first words are with the client before the model has said the last; afterwards the log has all of them.
#[test]
fn service_streams_and_logs() {
    let world = World::repeating(
        SHOP,
        Round::new([
            ServerStep::Text("It counts".into()),
            ServerStep::Gate("the first words have come".into()),
            ServerStep::Text(" crates (app.py:1).".into()),
        ]),
    );
    let address = world.home.serve();
    let start = http::post(&address, "/execute", &world.body("explain", "."))
        .expect(200)
        .json();
    let id = start["session_id"].as_str().expect("an identifier");
    let mut stream = Connection::send(&address, "GET", &format!("/stream?session_id={id}"), &[], None);
    stream.until("It counts");
    world.server.release("the first words have come");
    holds(&stream.finish().body, &["crates (app.py:1)."]);
    holds(
        &report(world.root(), "session_latest.md"),
        &["It counts crates (app.py:1).", id],
    );
}

/// A session that one face starts is visible on the other.
#[test]
fn service_two_faces() {
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    let shown = world.run(&["explain", "."]).expect(0).stdout;
    let address = world.home.serve();
    let history = http::get(&address, "/history").expect(200).json();
    let id = history["sessions"][0]["id"].as_str().expect("an id").to_owned();
    let result = http::get(&address, &format!("/results/{id}")).expect(200).json();
    assert_eq!(result["output"].as_str().map(str::trim_end), Some(shown.trim_end()));
    let (start, _) = world.follow(&address, "explain", "shop");
    let id = start["session_id"].as_str().expect("an identifier");
    holds(&world.run(&["results", id]).expect(0).stdout, &["It counts crates"]);
}

/// The test asks the code for 8000 and not the machine, where another program may hold it.
#[test]
fn service_port() {
    let of = |variables: &[(&str, &str)]| {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        backend_port(Path::new("/nowhere"), &Environment::new(variables.collect())).expect("it is a port")
    };
    assert_eq!((DEFAULT_PORT, of(&[])), (8000, 8000));
    assert_eq!(of(&[("TOOL_BACKEND_PORT", "8123")]), 8123);
    let wanted = free_port();
    let home = Home::offline();
    let mut command = home.tool(Path::new("/"), &["service", "start"]);
    let command = command.env("TOOL_BACKEND_PORT", wanted.to_string());
    finish(command.output().expect("the binary runs")).expect(0);
    assert_eq!(home.record()["port"], wanted);
    assert_eq!(
        http::get(&format!("http://127.0.0.1:{wanted}"), "/api/status").status,
        200
    );
}

#[test]
fn service_cors() {
    let world = World::new(SHOP, []).configure("[server]\ncors_origins = [\"http://localhost:5173\"]\n");
    let address = world.home.serve();
    let origin = ("origin", "http://localhost:5173");
    let answer = http::ask(&address, "GET", "/models", &[origin]).expect(200);
    assert_eq!(answer.headers["access-control-allow-origin"], "http://localhost:5173");
    let asked = ("access-control-request-method", "POST");
    let preflight = http::ask(&address, "OPTIONS", "/execute", &[origin, asked]);
    assert!((200..300).contains(&preflight.status), "{}", preflight.status);
    assert_eq!(
        preflight.headers["access-control-allow-origin"],
        "http://localhost:5173"
    );
    holds(&preflight.headers["access-control-allow-methods"], &["POST"]);
    holds(
        &preflight.headers["access-control-allow-headers"].to_lowercase(),
        &["content-type"],
    );
    let other = http::ask(&address, "GET", "/models", &[("origin", "http://evil.example")]);
    assert_eq!(other.status, 403, "{}", other.body);
    assert!(!other.headers.contains_key("access-control-allow-origin"));
}

#[test]
fn service_starts_by_itself() {
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    for (operation, target) in [
        ("explain", "."),
        ("architect", "price by weight"),
        ("refactor", "shop"),
        ("test-gen", "shop/taxes.py"),
    ] {
        world.run(&["service", "status"]).expect(3);
        world.run(&[operation, target]);
        world.run(&["service", "status"]).expect(0);
        world.run(&["service", "stop"]).expect(0);
    }
}

#[test]
fn service_keeps_running() {
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    world.run(&["explain", "."]).expect(0);
    let pid = world.home.record()["pid"].clone();
    assert!(
        pid.as_u64().is_some_and(alive),
        "the command has ended and the backend has not"
    );
    world.run(&["explain", "."]).expect(0);
    assert_eq!(world.home.record()["pid"], pid, "the second command uses the same one");
}

#[test]
fn service_managed() {
    let service = service();
    let codes = [
        &service.before,
        &service.start,
        &service.running,
        &service.restart,
        &service.stop,
        &service.after,
    ];
    assert_eq!(codes.map(|finished| finished.code), [3, 0, 0, 0, 0, 3]);
}

#[test]
fn service_pid_and_log() {
    let service = service();
    assert_eq!(service.pid_file, service.pid.to_string(), "the pid and nothing else");
    assert!(service.alive && !service.pid_file_left);
    holds(&service.logs[0], &["ready", "stopping"]);
}

#[test]
fn service_both_log_paths() {
    let [link, log] = &service().logs;
    assert!(!log.is_empty());
    assert_eq!(link, log);
}

/// Selection, then the model with its skills, then more of the answer, then the end, by when the log is written.
#[test]
fn service_request_flow() {
    for session in [explain(), refactor()] {
        let events = session.events();
        let place = |kind: &str| events.iter().position(|event| event["type"] == kind);
        let order = [
            place("selection"),
            place("skill"),
            place("skill_result"),
            place("complete"),
        ];
        assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");
        assert!(place("token") > place("selection"));
        assert_eq!(place("complete"), Some(events.len() - 1));
        assert!(session.requests.len() > 1 && session.requests.iter().all(|it| offered(&it.body).len() == 12));
        assert_eq!(session.latest, session.report, "the logger was last");
    }
}
