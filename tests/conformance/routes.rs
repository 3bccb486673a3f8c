//! Endpoints: each route under both path forms, and the notes about them.

use serde_json::{Value, json};

use super::http;
use super::recorded::{explain, explain_under_api};
use super::world::{SHOP, World, calls, documents_say, says};

fn world() -> World {
    World::repeating(SHOP, says(&["It counts crates ", "(app.py:1)."]))
}

#[test]
fn route_json_bodies() {
    let session = explain();
    for answer in [
        &session.scan,
        &session.start,
        &session.result,
        &session.models,
        &session.tasks,
        &session.history,
        &session.status,
    ] {
        assert_eq!(answer.headers["content-type"], "application/json", "{}", answer.body);
        assert!(answer.json().is_object(), "{}", answer.body);
    }
    let world = world();
    let address = world.home.serve();
    let body = json!({"repo_path": world.repo_path()}).to_string();
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let refused = http::Connection::send(&address, "POST", "/scan", &form, Some(&body)).finish();
    assert_eq!(refused.status, 415, "{}", refused.body);
    assert_eq!(refused.json()["error"]["code"], "unsupported-media-type");
}

#[test]
fn route_reference_form() {
    let session = explain();
    for answer in [
        &session.scan,
        &session.start,
        &session.stream,
        &session.result,
        &session.models,
    ] {
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}

#[test]
fn route_architecture_form() {
    let session = explain_under_api();
    for answer in [
        &session.scan,
        &session.start,
        &session.stream,
        &session.architecture,
        &session.result,
        &session.models,
        &session.tasks,
        &session.history,
        &session.status,
    ] {
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}

#[test]
fn route_both_forms() {
    let (plain, prefixed) = (explain(), explain_under_api());
    let shape = |value: &Value| {
        value
            .as_object()
            .map(|object| object.keys().cloned().collect::<Vec<_>>())
    };
    for (one, other) in [
        (&plain.scan, &prefixed.scan),
        (&plain.start, &prefixed.start),
        (&plain.result, &prefixed.result),
        (&plain.models, &prefixed.models),
        (&plain.tasks, &prefixed.tasks),
        (&plain.history, &prefixed.history),
        (&plain.status, &prefixed.status),
    ] {
        assert_eq!(shape(&one.json()), shape(&other.json()));
    }
    documents_say(&["Every route answers at `/…` and at `/api/…`"]);
}

#[test]
fn route_scan() {
    for session in [explain(), explain_under_api()] {
        let scan = session.scan.clone().expect(200).json();
        assert!(
            scan["files"].is_u64() && scan["directories"].is_u64() && scan["languages"].is_array(),
            "{scan}"
        );
    }
    let world = world();
    let address = world.home.serve();
    for (body, status, word) in [
        (json!({}), 400, "repo_path"),
        (json!({"repo_path": "shop"}), 400, "absolute"),
        (json!({"repo_path": "/nosuchdirectory"}), 404, "/nosuchdirectory"),
    ] {
        let refused = http::post(&address, "/scan", &body).expect(status).json();
        let message = refused["error"]["message"].as_str().expect("a message");
        assert!(message.contains(word), "{message}");
    }
}

/// The four operations, and the optional fields that also occur.
#[test]
fn route_execute() {
    let world = world();
    let address = world.home.serve();
    for (operation, target) in [
        ("explain", "shop"),
        ("architect", "make pricing replaceable"),
        ("refactor", "shop/prices.py"),
        ("test-gen", "shop/taxes.py"),
    ] {
        let mut body = world.body(operation, target);
        let plain = http::post(&address, "/execute", &body).expect(200).json();
        assert_eq!(plain["status"], "running");
        body["provider"] = "local".into();
        body["task"] = "look at the rates".into();
        let more = http::post(&address, "/execute", &body).expect(200).json();
        assert_ne!(more["session_id"], plain["session_id"]);
    }
    let mut body = world.body("explain", ".");
    body["provider"] = "hosted".into();
    let other = http::post(&address, "/execute", &body).expect(409).json();
    assert_eq!(other["error"]["code"], "provider-mismatch");
    http::post(&address, "/execute", &world.body("dance", ".")).expect(400);
}

#[test]
fn route_stream() {
    for session in [explain(), explain_under_api()] {
        let stream = session.stream.clone().expect(200);
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        assert_eq!(
            stream.events().last().expect("events")["session_id"],
            session.id.as_str()
        );
    }
    let world = world();
    let address = world.home.serve();
    assert_eq!(http::get(&address, "/stream?session_id=nosuchsession").status, 404);
    assert_eq!(http::get(&address, "/stream").status, 400);
}

#[test]
fn route_models() {
    let models = explain().models.clone().expect(200).json();
    let providers = models["providers"].as_array().expect("an array of provider entries");
    for provider in providers {
        let fields = (&provider["name"], &provider["enabled"], &provider["models"]);
        assert!(
            fields.0.is_string() && fields.1.is_boolean() && fields.2.is_array(),
            "{provider}"
        );
    }
}

#[test]
fn route_tasks() {
    let tasks = explain().tasks.clone().expect(200).json();
    let task = &tasks["tasks"].as_array().expect("an array of task entries")[0];
    for field in ["session_id", "operation", "target", "timestamp", "status"] {
        assert!(task[field].is_string(), "{task}");
    }
}

#[test]
fn route_history() {
    let history = explain().history.clone().expect(200).json();
    let entry = &history["sessions"].as_array().expect("an array of history entries")[0];
    for field in ["id", "operation", "started", "completed", "provider"] {
        assert!(entry[field].is_string(), "{entry}");
    }
    assert!(entry["files_modified"].is_u64(), "{entry}");
}

#[test]
fn route_results() {
    let result = explain().result.clone().expect(200).json();
    for field in ["session_id", "operation", "status", "output", "report_path"] {
        assert!(result[field].is_string(), "{result}");
    }
    assert!(result["files_modified"].is_array(), "{result}");
    let world = world();
    let unknown = http::get(&world.home.serve(), "/results/nosuchsession")
        .expect(404)
        .json();
    assert_eq!(unknown["error"]["code"], "not-found");
}

#[test]
fn route_status() {
    let status = explain_under_api().status.clone().expect(200).json();
    assert_eq!(status["status"], "running");
}

#[test]
fn note_stream_with_a_body() {
    let world = world();
    let address = world.home.serve();
    for prefix in ["", "/api"] {
        let body = json!({"operation": "architect", "task": "price by weight", "repo_path": world.repo_path()});
        let stream = http::post(&address, &format!("{prefix}/stream"), &body).expect(200);
        let id = stream.headers["x-session-id"].clone();
        let last = stream.events().last().cloned().expect("events");
        assert_eq!(last, json!({"type": "complete", "session_id": id}));
        let canonical = http::get(&address, &format!("{prefix}/stream?session_id={id}")).expect(200);
        assert_eq!(canonical.events(), stream.events());
    }
    documents_say(&["POST /stream"]);
}

#[test]
fn note_status_body() {
    let status = explain_under_api().status.json();
    assert_eq!(status["status"], "running");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    for field in ["pid", "port", "sessions_running"] {
        assert!(status[field].is_u64(), "{status}");
    }
    assert_eq!(
        (&status["provider"], &status["model"]),
        (&"local".into(), &"scripted".into())
    );
    assert!(status["started"].is_string(), "{status}");
    let fields = "`status`, `version`, `pid`, `port`, `started`, `sessions_running`, `provider` and `model`";
    documents_say(&[&format!("GET /status answers {fields}")]);
}

#[test]
fn note_paths_in_requests() {
    let world = World::new(
        SHOP,
        [
            calls([("read_file", json!({"path": "shop/taxes.py"}))]),
            says(&["A rate (shop/taxes.py:2)."]),
        ],
    );
    let address = world.home.serve();
    let (_, stream) = world.follow(&address, "explain", "shop/taxes.py");
    let events = stream.events();
    assert_eq!(events.last().expect("events")["type"], "complete");
    let asked = world.server.requests()[0].body.to_string();
    assert!(asked.contains("return price * 0.2"), "the file below the root was read");
    let results = world.server.requests()[1].body.to_string();
    assert!(
        results.contains("2\\tdef tax") || results.contains("1\\tdef tax"),
        "{results}"
    );
    let (_, stream) = world.follow(&address, "explain", "taxes.py");
    let error = stream.events().last().cloned().expect("events");
    assert_eq!(
        error["message"], "File not found: taxes.py",
        "the root is `repo_path` and no other folder"
    );
}

#[test]
fn note_typical_use() {
    let world = world();
    let address = world.home.serve();
    let (start, stream) = world.follow(&address, "explain", ".");
    let id = start["session_id"].as_str().expect("an identifier");
    assert_eq!(stream.events().last().expect("events")["session_id"], id);
    let result = http::get(&address, &format!("/results/{id}")).expect(200).json();
    assert_eq!(
        (&result["status"], &result["session_id"]),
        (&"complete".into(), &id.into())
    );
}
