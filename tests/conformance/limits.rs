//! Limits and versioning: each number of the specification, where it takes effect.

use std::path::Path;

use serde_json::{Value, json};
use tool_core::api::Operation;
use tool_core::limits;

use super::context::{LARGE, packet};
use super::http;
use super::world::{SHOP, World, documents_say, holds, report, says};
use crate::support::{Home, finish, folder, until};

/// The targets of the four operations on [`LARGE`].
const TARGETS: [(Operation, &str); 4] = [
    (Operation::Explain, "."),
    (Operation::Architect, "make the depot replaceable"),
    (Operation::Refactor, "billing"),
    (Operation::TestGen, "billing/taxes.py"),
];

/// 4 to 6 files for every operation; fewer only where there are fewer, which the packet says.
pub(super) fn four_to_six_files() {
    assert_eq!((limits::SELECTED_FILES_MIN, limits::SELECTED_FILES_MAX), (4, 6));
    let large = folder(LARGE);
    for (operation, target) in TARGETS {
        let packet = packet(large.path(), operation, target, None);
        assert!(
            (4..=6).contains(&packet.files_loaded),
            "{operation}: {:?}",
            packet.selected
        );
        assert_eq!(packet.files_loaded, packet.selected.len());
    }
    let small = folder(&[
        ("billing/taxes.py", "def tax(price):\n    return price\n"),
        ("README.md", "# A\n"),
    ]);
    for (operation, target) in TARGETS {
        let packet = packet(small.path(), operation, target, None);
        assert!(
            (1..=2).contains(&packet.files_loaded),
            "{operation}: {:?}",
            packet.selected
        );
        let told = packet.notices.iter().any(|notice| notice.contains("file"));
        assert!(told, "{operation} says why there are fewer: {:?}", packet.notices);
    }
}

/// A history file with more than a hundred entries, and a home with more than a hundred sessions: after one more
/// session the newest hundred are left of each.
pub(super) fn the_last_hundred_sessions_are_kept() {
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    world.run(&["explain", "."]).expect(0);
    world.run(&["service", "stop"]).expect(0);
    let id = multiply_sessions(world.home.path(), 104);
    let place = world.root().join("session-reports/session_history.json");
    let mut file: Value = serde_json::from_str(&report(world.root(), "session_history.json")).expect("JSON");
    let entry = file["sessions"][0].clone();
    let older = (0..120).map(|n| {
        let mut entry = entry.clone();
        entry["id"] = format!("01a0-older-{n:03}").into();
        entry["started"] = format!("2025-01-01T00:{:02}:{:02}Z", n / 60, n % 60).into();
        entry
    });
    file["sessions"] = older.collect();
    std::fs::write(&place, file.to_string()).expect("the folder is writable");

    world.run(&["explain", "."]).expect(0);
    let address = world.home.serve();
    let newest = http::get(&address, "/tasks").json()["tasks"][0]["session_id"].clone();
    let file: Value = serde_json::from_str(&report(world.root(), "session_history.json")).expect("JSON");
    let kept: Vec<&Value> = file["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["id"])
        .collect();
    assert_eq!(kept.len(), 100);
    // The backend takes a whole file as it is: an entry that the user has removed stays out.
    assert_eq!(
        (kept[0], kept[1], kept[99]),
        (&newest, &"01a0-older-119".into(), &"01a0-older-021".into())
    );
    for (route, key) in [("/history", "sessions"), ("/tasks", "tasks")] {
        let list = http::get(&address, route).json()[key].as_array().map(Vec::len);
        assert_eq!(list, Some(100), "{route}");
    }
    let folders = || std::fs::read_dir(world.home.path().join("sessions")).map_or(0, Iterator::count);
    // A client learns of a session's end before the backend removes the oldest ones.
    until("the newest hundred are kept", || folders() == 100);
    assert_eq!(
        http::get(&address, &format!("/results/{id}")).status,
        404,
        "the oldest are gone"
    );
}

/// Makes copies of the one session of a home under ids that are older; gives the oldest of them.
fn multiply_sessions(home: &Path, copies: u32) -> String {
    let sessions = home.join("sessions");
    let mut folders = std::fs::read_dir(&sessions).expect("there is a session");
    let original = folders.next().expect("there is one").expect("it can be listed").path();
    let id = original
        .file_name()
        .and_then(|name| name.to_str())
        .expect("an id")
        .to_owned();
    let named = |n: u32| format!("01900000-0000-7000-8000-{n:012}");
    for n in 0..copies {
        let copy = sessions.join(named(n));
        std::fs::create_dir(&copy).expect("the folder is writable");
        for name in ["journal.jsonl", "summary.json"] {
            let text = std::fs::read_to_string(original.join(name)).expect("a session has it");
            std::fs::write(copy.join(name), text.replace(&id, &named(n))).expect("the folder is writable");
        }
    }
    named(0)
}

#[test]
fn limit_selected_files() {
    four_to_six_files();
}

#[test]
fn limit_history() {
    the_last_hundred_sessions_are_kept();
}

/// 60 seconds; a repository of more than 10,000 files is scanned as long as they last.
#[test]
fn limit_scan_time() {
    assert_eq!(limits::SCAN_SECONDS_MAX, 60);
    let world = World::new(&[("README.md", "# Many\n")], []);
    for folder in 0..20 {
        let folder = world.root().join(format!("part{folder}"));
        std::fs::create_dir(&folder).expect("the folder is writable");
        for file in 0..510 {
            std::fs::write(folder.join(format!("f{file}.py")), "x = 1\n").expect("the folder is writable");
        }
    }
    let scan = http::post(&world.home.serve(), "/scan", &json!({"repo_path": world.repo_path()}));
    assert_eq!(scan.expect(200).json()["files"], 10_201);
    super::errors::scan_timeout();
}

#[test]
fn limit_enabled_providers() {
    super::providers::exactly_one();
}

#[test]
fn limit_context_length() {
    let told = super::errors::context_too_long();
    assert_eq!(told, "Context length exceeded: 200000 tokens");
    assert_eq!(limits::CONTEXT_TOKENS, 200_000, "what a conversation is kept within");
}

#[test]
fn limit_rate_wait() {
    let hint = super::errors::rate_limit();
    holds(&hint, &["wait 60 seconds"]);
    assert_eq!(
        limits::PROVIDER_RETRY_SECONDS_MAX,
        60,
        "and no provider makes it wait longer"
    );
}

#[test]
fn limit_python() {
    super::errors::python_missing();
    super::errors::python_too_old();
}

#[test]
fn limit_port() {
    assert_eq!(tool_config::DEFAULT_PORT, 8000);
    let environment = tool_config::Environment::default();
    let home = Home::offline();
    let port = tool_config::backend_port(home.path(), &environment);
    assert_eq!(port.expect("it is a port"), 8000);
    let mut command = home.tool(Path::new("/"), &["config"]);
    let shown = finish(
        command
            .env_remove("TOOL_BACKEND_PORT")
            .output()
            .expect("the binary runs"),
    )
    .expect(0);
    let port = shown
        .stdout
        .lines()
        .find(|line| line.starts_with("server.port "))
        .expect("the port is shown");
    assert_eq!(
        port.split_whitespace().collect::<Vec<_>>(),
        ["server.port", "8000", "default"]
    );
    documents_say(&["port of the backend, default 8000"]);
}

/// None: a burst of requests is answered. The bound is on the work under way, and the documents say so.
#[test]
fn limit_rate_of_the_service() {
    let home = Home::offline();
    let address = home.serve();
    for _ in 0..300 {
        http::get(&address, "/api/status").expect(200);
    }
    documents_say(&["There is no rate limit"]);
}

/// Paths carry no version; the status gives the running version, and the documents say how versions change.
#[test]
fn version_of_everything() {
    let home = Home::offline();
    let status = http::get(&home.serve(), "/api/status").json();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let version = home.run(Path::new("/"), &["--version"]).expect(0).stdout;
    let start = format!("tool {} (", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&start) && version.lines().count() == 1, "{version}");
    documents_say(&["Paths carry no version"]);
    holds(include_str!("../../CHANGELOG.md"), &["semantic versioning"]);
}
