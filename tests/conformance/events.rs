//! Events: the form of the stream, each type in the reference form, and the other form of the architecture.

use serde_json::Value;

use super::recorded::{Session, explain, explain_under_api, failed};
use super::world::{World, documents_say, holds};

fn last(session: &Session) -> Value {
    session.events().last().cloned().expect("events")
}

#[test]
fn event_stream_form() {
    for session in [explain(), explain_under_api()] {
        for stream in [&session.stream, &session.strict, &session.architecture] {
            assert_eq!(stream.status, 200);
            assert_eq!(stream.headers["content-type"], "text/event-stream");
            for block in stream.body.split_inclusive("\n\n") {
                let event = block.strip_suffix("\n\n").expect("an event ends with an empty line");
                let data: Vec<&str> = event.lines().filter(|line| line.starts_with("data: ")).collect();
                assert_eq!(data.len(), 1, "one line of data an event: {event}");
                let json = data[0].strip_prefix("data: ").map(serde_json::from_str::<Value>);
                assert!(matches!(json, Some(Ok(Value::Object(_)))), "{event}");
            }
        }
        let bare = |line: &str| line.is_empty() || line.starts_with("data: ");
        assert!(session.strict.body.lines().all(bare), "{}", session.strict.body);
        assert_eq!(session.strict.events(), session.events());
    }
}

#[test]
fn event_type_field() {
    let session = explain();
    for event in session.events().iter().chain(&session.architecture.events()) {
        assert!(event["type"].is_string(), "{event}");
    }
}

#[test]
fn event_token() {
    let tokens = explain().of_type("token");
    assert!(!tokens.is_empty());
    assert!(tokens.iter().all(|token| token["content"].is_string()), "{tokens:?}");
}

#[test]
fn event_skill() {
    let skills = explain().of_type("skill");
    assert_eq!(skills.len(), 1, "{skills:?}");
    assert_eq!(skills[0]["name"], "read_file");
    assert_eq!(skills[0]["args"], serde_json::json!({"path": "app.py"}));
}

#[test]
fn event_complete() {
    let session = explain();
    assert_eq!(
        last(session),
        serde_json::json!({"type": "complete", "session_id": session.id})
    );
    assert_eq!(session.of_type("complete").len(), 1);
    assert!(session.of_type("error").is_empty());
}

#[test]
fn event_error() {
    let error = last(failed());
    assert_eq!(error["type"], "error");
    assert_eq!(error["code"], "authentication-failed");
    assert_eq!(error["message"], "Authentication failed: Invalid API key");
    assert!(error["hint"].is_string(), "{error}");
    assert!(failed().of_type("complete").is_empty());
    documents_say(&["one `error` event that has `code`, `message` and `hint`"]);
}

#[test]
fn event_alternative_form() {
    let events = explain().architecture.events();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let outputs = of("output");
    assert!(!outputs.is_empty());
    for output in outputs {
        assert!(output["content"].is_string(), "{output}");
        assert_eq!(output["model"], "scripted");
    }
    let done = of("done");
    assert_eq!(done.len(), 1, "{events:?}");
    assert_eq!(
        (&done[0]["status"], &done[0]["model"]),
        (&"completed".into(), &"scripted".into())
    );
    assert_eq!(events.last(), Some(done[0]));
}

/// `/stream` speaks the reference form under either prefix, the path form of the architecture its own; `form` chooses.
#[test]
fn event_which_form() {
    let types = |events: Vec<Value>| {
        let has = |kind: &str| events.iter().any(|event| event["type"] == kind);
        (has("token") && has("complete"), has("output") && has("done"))
    };
    for session in [explain(), explain_under_api()] {
        assert_eq!(types(session.events()), (true, false));
        assert_eq!(types(session.architecture.events()), (false, true));
    }
    let world = World::repeating(super::world::SHOP, super::world::says(&["It counts (app.py:1)."]));
    let address = world.home.serve();
    let (start, _) = world.follow(&address, "explain", ".");
    let id = start["session_id"].as_str().expect("an identifier");
    for (path, architecture) in [
        (format!("/stream?session_id={id}&form=architecture"), true),
        (format!("/api/stream/{id}?form=reference"), false),
    ] {
        let events = super::http::get(&address, &path).expect(200).events();
        assert_eq!(types(events), (!architecture, architecture), "{path}");
    }
    documents_say(&["`?form=reference` or `?form=architecture` chooses either"]);
}

/// The backend connects to the enabled provider alone: every address that a home knows is in its configuration, and a
/// whole session asks no other server.
#[test]
fn event_none_outbound() {
    let session = explain();
    let asked: Vec<&str> = session.requests.iter().map(|request| request.path.as_str()).collect();
    let only = |path: &&str| path.starts_with("/v1/");
    assert!(!asked.is_empty() && asked.iter().all(only), "{asked:?}");
    let world = World::repeating(super::world::SHOP, super::world::says(&["It counts (app.py:1)."]));
    // A proxy sees everything that leaves for another host, and nothing does: the provider is on loopback.
    let proxy = super::world::Canned::saying("502 Bad Gateway", Value::Null);
    let proxies = [("HTTP_PROXY", proxy.url.as_str()), ("HTTPS_PROXY", &proxy.url)];
    world.run_with(&proxies, &["explain", "."]).expect(0);
    assert_eq!(proxy.requests(), Vec::<String>::new());
}

#[test]
fn event_webhooks() {
    super::automation::no_webhooks();
    holds(
        include_str!("rows.toml"),
        &["Webhooks (notification on completion or error)"],
    );
}
