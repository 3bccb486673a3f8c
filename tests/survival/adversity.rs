//! A world that gives way under a session: the disk fills, directories cannot be written or are gone, the configuration
//! changes, the clock goes back. Each time the user gets the answer and a clear sentence, and nothing is lost.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{Round, ScriptedCall, ServerStep};

use super::kill;
use crate::conformance::http::{self, Connection};
use crate::conformance::world::{SHOP, World, says};
use crate::edges::in_namespace;
use crate::support::{Finished, folder, holds};

/// Surroundings of a script in a namespace: a repository, a place to mount something, and one to keep notes.
struct Scene {
    repository: TempDir,
    mount: TempDir,
    notes: TempDir,
}

/// Functions of every script: a model server that follows `script.json`, a home that uses it, a file that fills a disk.
const HELPERS: &str = r#"
serve() {
    "$TOOL" dev model-server --script "$NOTES/script.json" --port 0 > "$NOTES/url" 2>/dev/null &
    server=$!
    while ! [ -s "$NOTES/url" ]; do sleep 0.02; done
    "$TOOL" init --provider local --model scripted --url "$(cat "$NOTES/url")/v1" > /dev/null
    "$TOOL" service start > /dev/null
}
fill() { dd if=/dev/zero of="$1/filler" bs=4k 2>/dev/null || true; }
trap '"$TOOL" service stop > /dev/null 2>&1; kill "$server" 2>/dev/null || true' EXIT
"#;

impl Scene {
    fn new(rounds: &Value) -> Self {
        let scene = Self {
            repository: folder(&[("app.py", "def main():\n    return 1\n")]),
            mount: TempDir::new().expect("a temporary folder"),
            notes: TempDir::new().expect("a temporary folder"),
        };
        let script = json!({"rounds": rounds}).to_string();
        std::fs::write(scene.notes.path().join("script.json"), script).expect("the folder is writable");
        scene
    }

    fn run(&self, script: &str) -> Finished {
        let places: [(&str, &Path); 3] = [
            ("REPOSITORY", self.repository.path()),
            ("MOUNT", self.mount.path()),
            ("NOTES", self.notes.path()),
        ];
        in_namespace(&format!("{HELPERS}\n{script}"), &places).expect(0)
    }
}

/// A model that speaks, pauses for as long as a script needs to do something to it, and goes on.
fn pausing() -> Value {
    // More than the page of the disk that the journal has already.
    let long = "and on ".repeat(3_000);
    json!([{"steps": [{"text": "Before. "}, {"delay_ms": 2500}, {"text": long}, {"text": "After (app.py:1)."}]}])
}

#[test]
fn a_disk_that_fills_during_a_session_costs_neither_the_answer_nor_the_journal() {
    let finished = Scene::new(&pausing()).run(
        r#"mount -t tmpfs -o size=1m,mode=700 none "$MOUNT"; export TOOL_HOME="$MOUNT"; serve; cd "$REPOSITORY"
        "$TOOL" explain . > "$NOTES/answer" & session=$!
        while ! grep -qs 'Before\.' "$MOUNT"/sessions/*/journal.jsonl; do sleep 0.02; done
        fill "$MOUNT"; code=0; wait $session || code=$?
        echo "--- explain $code"; cat "$NOTES/answer"
        echo "--- full"; "$TOOL" results
        rm "$MOUNT/filler"; sleep 2.5
        kill -9 "$(cat "$MOUNT/backend.pid")"
        echo "--- after a death"; "$TOOL" results; "$TOOL" history"#,
    );
    let parts: Vec<&str> = finished.stdout.split("--- ").collect();
    assert!(parts[1].starts_with("explain 0\n"), "{finished:?}");
    for part in &parts[1..] {
        holds(part, &["Before. and on and on", "and on After (app.py:1)."]);
    }
    holds(parts[3], &["  explain    ."]);
    let told = "The session cannot be recorded: No space left on device";
    assert_eq!(finished.stderr.matches(told).count(), 1, "{finished:?}");
}

#[test]
fn a_full_disk_under_the_repository_changes_nothing_and_the_report_comes_later() {
    let content = "x = 1\n".repeat(40_000);
    let write = json!({"tool_calls": [{"name": "write_file", "arguments": {"path": "big.py", "content": content}}]});
    let finished = Scene::new(&json!([{"steps": [write]}, {"steps": [{"text": "It does not fit."}]}])).run(
        r#"export TOOL_HOME="$NOTES/home"; mkdir "$TOOL_HOME"
        mount -t tmpfs -o size=256k,mode=700 none "$MOUNT"; cp "$REPOSITORY/app.py" "$MOUNT"; cd "$MOUNT"; serve
        fill "$MOUNT"; code=0; "$TOOL" refactor "Make it big" || code=$?; echo "refactor $code"
        ls -A; rm filler; "$TOOL" results --json || true; ls session-reports"#,
    );
    holds(
        &finished.stdout,
        &["It does not fit.", "refactor 1\n", "app.py\nfiller\n"],
    );
    assert!(!finished.stdout.contains("big.py\n"), "{finished:?}");
    assert!(!finished.stdout.contains(".tool-proposal"), "{finished:?}");
    holds(
        &finished.stderr,
        &[
            "No space left on device",
            "The session report could not be written: No space left on device",
        ],
    );
    // There is room again: the report is there as soon as a client asks for it.
    let (_, after) = finished.stdout.split_once("filler\n").expect("it was listed");
    holds(after, &["\"report_path\": \"session-reports/session_", ".md\n"]);
}

#[test]
fn a_full_disk_is_named_with_what_helps_wherever_it_stops_a_change() {
    let write = |content: &str| json!({"tool_calls": [{"name": "write_file", "arguments": {"path": "big.py", "content": content}}]});
    let (small, big) = ("x = 1\n".repeat(20), "x = 1\n".repeat(40_000));
    let rounds = json!([
        {"steps": [write(&small)]}, {"steps": [{"text": "It is small."}]},
        {"steps": [write(&big)]}, {"steps": [{"text": "It does not fit."}]},
    ]);
    let finished = Scene::new(&rounds).run(
        r#"export TOOL_HOME="$NOTES/home"; mkdir "$TOOL_HOME" "$NOTES/empty"
        mount -t tmpfs -o size=2m,mode=700 none "$TOOL_HOME"; mount -t tmpfs -o size=256k none "$MOUNT"
        cp "$REPOSITORY/app.py" "$MOUNT"; cd "$MOUNT"; serve
        try() { code=0; echo "--- $*" >&2; "$TOOL" "$@" > /dev/null || code=$?; echo "$1 $code"; }
        try refactor "Make it"
        fill "$MOUNT"; try refactor "Make it big"; "$TOOL" doctor || true; rm filler
        printf 'y = 2\n' > app.py; fill "$TOOL_HOME"; try undo; try refactor "Make it big"; "$TOOL" doctor || true
        rm "$TOOL_HOME/filler"; try undo"#,
    );
    let parts: Vec<&str> = finished.stderr.split("--- ").skip(1).collect();
    let home = "make room on the disk of TOOL_HOME (without it ~/.tool)";
    holds(
        parts[1],
        &[
            "No space left on device",
            "hint: make room on the disk of the repository and try again",
        ],
    );
    holds(
        parts[2],
        &[
            "[error] The undo cannot be journalled (",
            &format!("\nhint: {home} and try again"),
        ],
    );
    holds(
        parts[3],
        &[
            "[error] The session cannot be recorded: No space left on device",
            "\nhint: make room, and check that TOOL_HOME (without it ~/.tool) may be written",
        ],
    );
    assert!(!finished.stderr.contains("os error 29"), "{finished:?}");
    holds(
        &finished.stdout,
        &[
            "refactor 0\nrefactor 1\n",
            "\nfail  repository disk full: 0.0 MB free; no change and no report can be written\n",
            "hint: make room on the disk of the repository\n",
            "undo 1\nrefactor 1\n",
            "\nfail  home disk       full: 0.0 MB free; no session can begin, and no change can be made\n",
            &format!("hint: {home}\n"),
            "undo 0\n",
        ],
    );
}

#[test]
fn reports_that_may_not_be_written_cost_nobody_the_answer() {
    let finished = Scene::new(&json!([{"steps": [{"text": "It counts (app.py:1)."}]}])).run(
        r#"export TOOL_HOME="$MOUNT"; cd "$REPOSITORY"; serve; mkdir session-reports
        mount --bind session-reports session-reports; mount -o remount,bind,ro session-reports
        code=0; "$TOOL" explain . || code=$?; echo "explain $code"; "$TOOL" history; ls -A session-reports"#,
    );
    holds(
        &finished.stdout,
        &["It counts (app.py:1).", "explain 0\n", "  explain    ."],
    );
    assert!(!finished.stdout.contains("session_"), "{finished:?}");
    holds(
        &finished.stderr,
        &[
            "Permission denied: session-reports/",
            "hint: create the folder `session-reports` with write rights",
        ],
    );
}

#[test]
fn a_repository_that_may_not_be_written_fails_the_change_and_not_the_answer() {
    let write = json!({"tool_calls": [{"name": "write_file", "arguments": {"path": "new.py", "content": "x = 1\n"}}]});
    let finished = Scene::new(&json!([{"steps": [write]}, {"steps": [{"text": "It cannot be written."}]}])).run(
        r#"export TOOL_HOME="$MOUNT"; cd "$REPOSITORY"; serve
        mount --bind "$REPOSITORY" "$REPOSITORY"; mount -o remount,bind,ro "$REPOSITORY"; cd "$REPOSITORY"
        code=0; "$TOOL" refactor "Add a file" || code=$?; echo "refactor $code"; "$TOOL" results || true"#,
    );
    assert_eq!(
        finished.stdout.matches("It cannot be written.").count(),
        2,
        "{finished:?}"
    );
    holds(&finished.stdout, &["refactor 1\n"]);
    holds(
        &finished.stderr,
        &["Read-only file system", "Permission denied: session-reports/"],
    );
}

/// A session that waits at a gate after its first words, its stream, and where the daemon is.
fn waiting(rounds: Vec<Round>, operation: &str) -> (World, String, String, Connection) {
    let world = World::new(SHOP, rounds);
    let address = world.home.serve();
    let start = http::post(&address, "/execute", &world.body(operation, "."))
        .expect(200)
        .json();
    let id = start["session_id"].as_str().expect("an identifier").to_owned();
    let mut stream = Connection::send(&address, "GET", &format!("/stream?session_id={id}"), &[], None);
    stream.until("Begun.");
    (world, address, id, stream)
}

fn begun(then: ServerStep) -> Round {
    Round::new([
        ServerStep::Text("Begun. ".into()),
        ServerStep::Gate("go on".into()),
        then,
    ])
}

/// The end of a stream, of which there must be one.
#[track_caller]
fn end(stream: Connection) -> (Vec<Value>, Value) {
    let events = stream.finish().events();
    let is_end = |event: &&Value| matches!(event["type"].as_str(), Some("complete" | "error"));
    assert_eq!(events.iter().filter(is_end).count(), 1, "{events:?}");
    let last = events.last().expect("there are events").clone();
    (events, last)
}

#[test]
fn a_repository_that_is_deleted_during_a_session_costs_neither_the_answer_nor_the_daemon() {
    let write = ScriptedCall::new("write_file", json!({"path": "new.py", "content": "x = 1\n"}));
    let read = ScriptedCall::new("read_file", json!({"path": "app.py"}));
    let rounds = vec![
        begun(ServerStep::ToolCalls(vec![read, write])),
        says(&["Everything is gone."]),
        begun(ServerStep::Text("Still here (app.py:1).".into())),
    ];
    let (world, address, id, stream) = waiting(rounds, "refactor");
    std::fs::remove_dir_all(world.root()).expect("it is ours");
    world.server.release("go on");
    let (events, last) = end(stream);
    assert_eq!(last["type"], "error", "a refactor that changed nothing: {last}");
    let told = |text: &str| {
        events
            .iter()
            .any(|event| event["message"].as_str().is_some_and(|said| said.contains(text)))
    };
    assert!(
        told("session report could not be written: No such file or directory"),
        "{events:?}"
    );
    let result = http::get(&address, &format!("/results/{id}")).expect(200).json();
    holds(
        result["output"].as_str().expect("text"),
        &["Begun. ", "Everything is gone."],
    );
    assert_eq!(
        (&result["report_path"], &result["files_modified"]),
        (&json!(""), &json!([]))
    );
    assert_eq!(http::get(&address, "/history").json()["sessions"][0]["id"], id.as_str());
    assert!(!world.root().exists(), "nobody makes it again");
    let gone = http::post(&address, "/execute", &world.body("explain", "."));
    assert_eq!(
        (gone.status, &gone.json()["error"]["code"]),
        (404, &json!("invalid-repository"))
    );
    // It comes back, and so does the work.
    for (path, text) in SHOP {
        let place = world.root().join(path);
        std::fs::create_dir_all(place.parent().expect("it has one")).expect("it can be made");
        std::fs::write(place, text).expect("it can be written");
    }
    let (_, stream) = world.follow(&address, "explain", ".");
    assert_eq!(stream.events().last().expect("events")["type"], "complete");
}

#[test]
fn what_a_killed_daemon_has_changed_is_told_with_what_there_is_of_the_answer() {
    let write = ScriptedCall::new("write_file", json!({"path": "new.py", "content": "x = 1\n"}));
    let rounds = vec![Round::calls([write]), begun(ServerStep::Text("Never said.".into()))];
    let (world, _, id, stream) = waiting(rounds, "refactor");
    kill(&world.home);
    drop(stream);
    let finished = world.run(&["results", &id]).expect(1);
    let told = "---\n\nChanged 1 file: `new.py` (new, +1).\n";
    assert!(finished.stdout.contains(told), "{finished:?}");
    world.run(&["undo", &id]).expect(0);
}

#[test]
fn a_configuration_that_changes_is_the_next_sessions_and_a_broken_one_is_said() {
    let rounds = vec![
        begun(ServerStep::Text("Done (app.py:1).".into())),
        says(&["By the other (app.py:1)."]),
    ];
    let (world, address, id, stream) = waiting(rounds, "explain");
    let place = world.home.path().join("config.toml");
    let good = std::fs::read_to_string(&place).expect("it is there");
    std::fs::write(&place, "[providers.local\n").expect("it can be written");
    let refused = http::post(&address, "/execute", &world.body("explain", "."));
    assert_eq!(refused.status, 503, "{}", refused.body);
    holds(&refused.body, &["Failed to parse config: Invalid TOML syntax"]);
    let finished = world.run(&["explain", "."]).expect(2);
    holds(
        &finished.stderr,
        &["[error] Failed to parse config: Invalid TOML syntax\nhint: "],
    );
    // A running session goes on with the settings that it began with.
    world.server.release("go on");
    assert_eq!(end(stream).1["type"], "complete");
    let result = http::get(&address, &format!("/results/{id}")).expect(200).json();
    assert_eq!(result["status"], "complete");

    let other = good
        .replace("[providers.local]", "[providers.router]\napi_key = \"k\"")
        .replace("scripted", "other");
    std::fs::write(&place, other).expect("it can be written");
    let mut asking = world.body("explain", ".");
    asking["provider"] = json!("local");
    let refused = http::post(&address, "/execute", &asking).expect(409);
    holds(
        &refused.body,
        &[
            "The provider `local` is not enabled: `router` is",
            r#""action":{"kind":"enable-provider","name":"local"}"#,
        ],
    );
    let (_, stream) = world.follow(&address, "explain", ".");
    assert_eq!(stream.events().last().expect("events")["type"], "complete");
    assert_eq!(
        http::get(&address, "/history").json()["sessions"][0]["provider"],
        "other"
    );
}

/// A daemon whose clock a test sets.
struct Clock(PathBuf);

impl Clock {
    fn set(&self, hours: i64) {
        std::fs::write(&self.0, (hours * 3_600_000).to_string()).expect("the folder is writable");
    }
}

fn write(number: usize) -> [Round; 2] {
    let content = format!("x = {number}\n");
    let call = ScriptedCall::new(
        "write_file",
        json!({"path": format!("n{number}.py"), "content": content}),
    );
    [Round::calls([call]), says(&["Written."])]
}

/// Wrong by years, for a session and for a start or two.
#[test]
fn a_clock_that_jumps_ahead_loses_no_session() {
    let world = World::new(SHOP, (1..=3).flat_map(write));
    let clock = Clock(world.home.path().join("clock"));
    clock.set(0);
    let variables = [("TOOL_TEST_CLOCK", clock.0.to_str().expect("UTF-8"))];
    let mut address = world.home.serve_with(&variables);
    let known = |address: &str| -> usize {
        let history = http::get(address, "/history").json();
        history["sessions"].as_array().expect("a list").len()
    };
    let run = |address: &str| {
        let (_, stream) = world.follow(address, "refactor", "shop");
        assert_eq!(stream.events().last().expect("events")["type"], "complete");
    };
    run(&address);
    clock.set(24 * 1_000);
    run(&address);
    assert_eq!(known(&address), 2, "under a running daemon");
    for _ in 0..2 {
        world.run(&["service", "stop"]).expect(0);
        address = world.home.serve_with(&variables);
        assert_eq!(known(&address), 2, "and at each start in that minute");
    }
    clock.set(0);
    world.run(&["service", "stop"]).expect(0);
    address = world.home.serve_with(&variables);
    run(&address);
    assert_eq!(known(&address), 3);
}

#[test]
fn a_clock_that_is_set_back_breaks_no_order_and_loses_no_session() {
    let waits = begun(ServerStep::Text("Done.".into()));
    let rounds = (1..=3).flat_map(write).chain([waits]).chain((4..=4).flat_map(write));
    let world = World::new(SHOP, rounds);
    let clock = Clock(world.home.path().join("clock"));
    clock.set(0);
    let variables = [("TOOL_TEST_CLOCK", clock.0.to_str().expect("UTF-8"))];
    let mut address = world.home.serve_with(&variables);
    let mut ids = Vec::new();
    for hours in [0, -24, -24 * 60] {
        clock.set(hours);
        let (start, stream) = world.follow(&address, "refactor", "shop");
        assert_eq!(stream.events().last().expect("events")["type"], "complete");
        ids.push(start["session_id"].as_str().expect("an identifier").to_owned());
    }
    // Back while a session runs, behind all the others.
    clock.set(0);
    let start = http::post(&address, "/execute", &world.body("explain", "."))
        .expect(200)
        .json();
    let id = start["session_id"].as_str().expect("an identifier").to_owned();
    let path = format!("/stream?session_id={id}");
    let mut stream = Connection::send(&address, "GET", &path, &[], None);
    stream.until("Begun.");
    clock.set(-24 * 365);
    world.server.release("go on");
    let (events, last) = end(stream);
    assert_eq!(last["type"], "complete", "{last}");
    assert_eq!(http::get(&address, &path).events(), events);
    ids.push(id);
    // And across a death of the daemon.
    kill(&world.home);
    address = world.home.serve_with(&variables);
    let (start, _) = world.follow(&address, "refactor", "shop");
    ids.push(start["session_id"].as_str().expect("an identifier").to_owned());

    ids.reverse();
    let of = |list: &Value| -> Vec<String> {
        let sessions = list["sessions"].as_array().expect("a list");
        sessions
            .iter()
            .map(|entry| entry["id"].as_str().expect("text").to_owned())
            .collect()
    };
    let history = http::get(&address, "/history").json();
    assert_eq!(of(&history), ids);
    let file = std::fs::read(world.root().join("session-reports/session_history.json")).expect("it is there");
    assert_eq!(of(&serde_json::from_slice(&file).expect("it is whole")), ids);
    for entry in history["sessions"].as_array().expect("a list") {
        assert!(entry["completed"].as_str() >= entry["started"].as_str(), "{entry}");
    }
    let newest = crate::conformance::world::report(world.root(), "session_latest.md");
    holds(&newest, &[&ids[0]]);
    // `tool undo` means the newest change, not the one with the latest date.
    world.run(&["undo"]).expect(0);
    assert!(!world.root().join("n4.py").exists() && world.root().join("n3.py").exists());
}
