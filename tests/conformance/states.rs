//! States and transitions: of a session, and of the backend's process.

use serde_json::Value;
use tool_model_server::{Round, ServerStep};

use super::http::{self, Connection};
use super::recorded::{alive, explain, failed, service};
use super::world::{SHOP, World, documents_say, says};

/// A model that waits at a gate, after its first words, until the test opens it.
fn waiting() -> World {
    World::repeating(
        SHOP,
        Round::new([
            ServerStep::Text("It counts".into()),
            ServerStep::Gate("go on".into()),
            ServerStep::Text(" crates (app.py:1).".into()),
        ]),
    )
}

/// Starts a session and waits for its first words.
fn begin(world: &World, address: &str) -> (String, Connection) {
    let start = http::post(address, "/execute", &world.body("explain", ".")).expect(200);
    let id = start.json()["session_id"].as_str().expect("an identifier").to_owned();
    let mut stream = Connection::send(address, "GET", &format!("/stream?session_id={id}"), &[], None);
    stream.until("It counts");
    (id, stream)
}

fn result(address: &str, id: &str) -> Value {
    http::get(address, &format!("/results/{id}")).expect(200).json()
}

#[test]
fn state_values() {
    let world = waiting();
    let address = world.home.serve();
    let (id, stream) = begin(&world, &address);
    assert_eq!(result(&address, &id)["status"], "running");
    world.server.release("go on");
    stream.finish();
    assert_eq!(result(&address, &id)["status"], "complete");
}

#[test]
fn state_completed_of_the_architecture_form() {
    let events = explain().architecture.events();
    let done = events.last().expect("events");
    assert_eq!((&done["type"], &done["status"]), (&"done".into(), &"completed".into()));
}

/// A valid request: an identifier at once, output on the stream while it runs, the log of it.
#[test]
fn state_none_to_running() {
    let world = waiting();
    let address = world.home.serve();
    let (id, stream) = begin(&world, &address);
    let tasks = http::get(&address, "/tasks").json();
    assert_eq!(tasks["tasks"][0]["session_id"], id.as_str());
    assert_eq!(tasks["tasks"][0]["status"], "running");
    assert_eq!(
        http::get(&address, "/history").json()["sessions"],
        serde_json::json!([])
    );
    let running = result(&address, &id);
    assert_eq!(running["output"], "It counts", "the output so far");
    let journal = world.home.path().join("sessions").join(&id).join("journal.jsonl");
    assert!(journal.exists(), "the log is written while it runs");
    world.server.release("go on");
    stream.finish();
    let invalid = http::post(&address, "/execute", &world.body("dance", "."));
    assert_eq!(invalid.status, 400, "an invalid request starts nothing");
    let tasks = http::get(&address, "/tasks").json();
    assert_eq!(tasks["tasks"].as_array().map(Vec::len), Some(1));
}

#[test]
fn state_running_to_complete() {
    let session = explain();
    assert_eq!(session.of_type("complete").len(), 1);
    assert_eq!(
        (&session.task()["session_id"], &session.entry()["id"]),
        (&session.id.as_str().into(), &session.id.as_str().into())
    );
    assert_eq!(session.task()["status"], "complete");
    assert_eq!(session.entry()["status"], "complete");
    assert_eq!(
        (session.result.status, &session.result.json()["status"]),
        (200, &"complete".into())
    );
}

#[test]
fn state_after_failure() {
    let session = failed();
    assert_eq!(session.task()["status"], "failed");
    assert_eq!(session.entry()["status"], "failed");
    assert_eq!(session.result.json()["status"], "failed");
    assert!(session.report.contains("| Status | failed |"), "{}", session.report);
    documents_say(&["`failed`"]);
}

/// A session may be cancelled, and the death of its daemon makes it a failed one; nothing leaves an end state.
#[test]
fn state_other_transitions() {
    let world = waiting();
    let address = world.home.serve();
    let (id, stream) = begin(&world, &address);
    let path = format!("/sessions/{id}");
    assert_eq!(http::ask(&address, "DELETE", &path, &[]).status, 202);
    let events = stream.finish().events();
    let error = events.last().expect("events");
    assert_eq!((&error["type"], &error["code"]), (&"error".into(), &"cancelled".into()));
    assert_eq!(result(&address, &id)["status"], "cancelled");
    let again = http::ask(&address, "DELETE", &path, &[]);
    assert_eq!(
        (again.status, &again.json()["error"]["code"]),
        (409, &"session-ended".into())
    );

    let (id, _stream) = begin(&world, &address);
    super::errors::let_the_journal_be_written();
    kill(&world);
    let address = world.home.serve();
    let interrupted = result(&address, &id);
    assert_eq!(
        (&interrupted["status"], &interrupted["output"]),
        (&"failed".into(), &"It counts".into())
    );
    documents_say(&["`cancelled`"]);
}

/// Ends the daemon of a world without a chance to say goodbye.
pub(super) fn kill(world: &World) {
    let pid = world.home.record()["pid"].as_u64().expect("a process id");
    let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(process.expect("a process id"), rustix::process::Signal::KILL).expect("it is ours");
    while alive(pid) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn state_backend_process() {
    let service = service();
    assert!(service.alive && !service.old_alive && !service.stopped_alive);
    assert_ne!(service.pid, service.new_pid);
    for finished in [&service.start, &service.restart, &service.stop] {
        assert_eq!(finished.code, 0, "{}", finished.stderr);
    }
}

#[test]
fn state_backend_status() {
    let service = service();
    let said = [&service.before, &service.running, &service.after].map(|status| (status.code, status.stdout.clone()));
    assert!(said[0].0 == 3 && said[0].1.contains("not running"), "{said:?}");
    assert!(said[1].0 == 0 && said[1].1.contains("is running"), "{said:?}");
    assert!(said[2].0 == 3 && said[2].1.contains("not running"), "{said:?}");
    // The other rows use the model's `says`; this one asks no provider.
    let world = World::new(SHOP, [says(&["unused"])]);
    world.run(&["service", "status"]).expect(3);
    assert!(
        world.server.requests().is_empty(),
        "a look at the status asks no provider"
    );
}
