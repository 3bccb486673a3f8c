//! Session log files: their place, their names, their content, and the history beside them.

use serde_json::Value;

use super::http;
use super::recorded::{explain, refactor};
use super::world::{SHOP, World, holds, report, says};

fn own(session: &super::recorded::Session) -> String {
    let ending = format!("_{}.md", session.id);
    let mut own = session.names.iter().filter(|name| name.ends_with(&ending));
    let name = own.next().expect("a report of its own").clone();
    assert_eq!(own.next(), None, "one file a session");
    name
}

/// The working directory of the command gets the reports, be it the root of the repository or not.
#[test]
fn log_place() {
    let world = World::repeating(SHOP, says(&["It counts (app.py:1)."]));
    std::fs::create_dir(world.root().join(".git")).expect("the folder is writable");
    std::fs::write(world.root().join(".git/HEAD"), "ref: refs/heads/main\n").expect("the folder is writable");
    world.home.run(&world.root().join("shop"), &["explain", "."]).expect(0);
    report(&world.root().join("shop"), "session_latest.md");
    assert!(!world.root().join("session-reports").exists());
    world.run(&["explain", "."]).expect(0);
    report(world.root(), "session_latest.md");
    let address = world.home.serve();
    let mut body = world.body("explain", ".");
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    body["working_directory"] = elsewhere.path().to_str().expect("UTF-8").into();
    let stream = http::post(&address, "/stream", &body).expect(200);
    assert_eq!(stream.events().last().expect("events")["type"], "complete");
    report(elsewhere.path(), "session_latest.md");
}

#[test]
fn log_one_file_a_session() {
    let world = World::repeating(SHOP, says(&["It counts (app.py:1)."]));
    for _ in 0..2 {
        world.run(&["explain", "."]).expect(0);
    }
    let history: Value = serde_json::from_str(&report(world.root(), "session_history.json")).expect("JSON");
    let ids: Vec<&str> = history["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|session| session["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids.len(), 2);
    let names: Vec<String> = std::fs::read_dir(world.root().join("session-reports"))
        .expect("it is there")
        .map(|entry| {
            entry
                .expect("it can be listed")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    for id in ids {
        let of_it = names
            .iter()
            .filter(|name| name.ends_with(&format!("_{id}.md")) && name.starts_with("session_"));
        assert_eq!(of_it.count(), 1, "{id} in {names:?}");
    }
}

#[test]
fn log_timestamp_shape() {
    for session in [explain(), refactor()] {
        let shape = format!(r"^session_(\d{{8}}_\d{{6}})_{}\.md$", session.id);
        let name = own(session);
        let found = regex::Regex::new(&shape)
            .expect("a constant")
            .captures(&name)
            .map(|found| found[1].to_owned());
        let started = session.entry()["started"].as_str().expect("a time").to_owned();
        let digits: String = started[..19].chars().filter(char::is_ascii_digit).collect();
        assert_eq!(found, Some(format!("{}_{}", &digits[..8], &digits[8..])), "{name}");
    }
}

/// The request, the answer, every tool call with arguments and result, each with its time.
#[test]
fn log_content() {
    let report = &explain().report;
    holds(
        report,
        &[
            "Let me look.",
            "It counts crates (app.py:1).",
            "| Target | . |",
            "| Status | complete |",
        ],
    );
    holds(
        report,
        &["Skill `read_file`", "{\"path\":\"app.py\"}", "return len(crates)"],
    );
    for part in ["Request", "Answer", "Skill `read_file`", "End"] {
        let entry = format!(r"(?m)^### \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z · {part}");
        assert!(
            regex::Regex::new(&entry).expect("a constant").is_match(report),
            "{part}: {report}"
        );
    }
    let report = &refactor().report;
    holds(
        report,
        &["Skill `write_file`", "shop/prices.py", "shop/taxes.py", "RATE = 3"],
    );
}

#[test]
fn log_latest() {
    for session in [explain(), refactor()] {
        assert!(
            session.names.contains(&"session_latest.md".to_owned()),
            "{:?}",
            session.names
        );
        assert_eq!(session.latest, session.report);
    }
}

#[test]
fn log_history_file() {
    let session = refactor();
    let entry = &session.history_file["sessions"][0];
    assert_eq!(entry, &session.entry(), "as GET /history has it");
    assert_eq!(entry["id"], session.id.as_str());
}

#[test]
fn log_history_kept_and_searchable() {
    super::limits::the_last_hundred_sessions_are_kept();
    let world = World::new(
        SHOP,
        [
            says(&["It counts (app.py:1)."]),
            says(&["It prices (shop/prices.py:1)."]),
        ],
    );
    world.run(&["explain", "."]).expect(0);
    world.run(&["explain", "shop", "--model", "another"]).expect(0);
    // The script is over: this one fails.
    world.run(&["refactor", "tidy up"]).expect(1);
    let address = world.home.serve();
    for prefix in ["", "/api"] {
        for route in ["history", "tasks"] {
            let count = |query: &str| {
                let answer = http::get(&address, &format!("{prefix}/{route}{query}"))
                    .expect(200)
                    .json();
                let list = answer
                    .as_object()
                    .and_then(|object| object.values().next()?.as_array().cloned());
                list.expect("a list").len()
            };
            assert_eq!(count(""), 3);
            assert_eq!(
                (count("?model=another"), count("?model=scripted"), count("?model=none")),
                (1, 2, 0)
            );
            assert_eq!((count("?operation=explain"), count("?operation=refactor")), (2, 1));
            assert_eq!((count("?status=complete"), count("?status=failed")), (2, 1));
            assert_eq!(count("?operation=explain&model=another&status=complete"), 1);
        }
    }
    for (filter, expected) in [
        (&[][..], 3),
        (&["--model", "another"], 1),
        (&["--operation", "explain"], 2),
        (&["--status", "failed"], 1),
        (&["--operation", "explain", "--status", "failed"], 0),
    ] {
        let listed = world.run(&[&["history", "--json"], filter].concat()).expect(0).stdout;
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        assert_eq!(
            listed["sessions"].as_array().map(Vec::len),
            Some(expected),
            "{filter:?}"
        );
    }
    let file: Value = serde_json::from_str(&report(world.root(), "session_history.json")).expect("JSON");
    for session in file["sessions"].as_array().expect("a list") {
        for field in ["provider", "operation", "status"] {
            assert!(session[field].is_string(), "{session}");
        }
    }
}
