//! Several daemons of different homes that work in the same directory.

use std::collections::BTreeSet;

use serde_json::Value;
use tool_model_server::{ModelServer, Round, Script};

use crate::conformance::http;
use crate::conformance::world::{SHOP, Wire};
use crate::support::{Home, folder};

#[test]
fn daemons_of_several_homes_share_one_history() {
    const DAEMONS: usize = 4;
    const SESSIONS: usize = 6;
    let script = Script {
        repeat: true,
        ..Script::new([Round::text("It counts (app.py:1).")])
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    let config = Wire::Local.config(&format!("http://{}", server.address()));
    let homes: Vec<Home> = (0..DAEMONS).map(|_| Home::configured(&config)).collect();
    let addresses: Vec<String> = homes.iter().map(|home| home.serve_with(&[])).collect();
    let repository = folder(SHOP);
    let body = serde_json::json!({"operation": "explain", "target": ".", "repo_path": repository.path()});
    let started: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = addresses
            .iter()
            .flat_map(|address| (0..SESSIONS).map(move |_| address))
            .map(|address| {
                let body = &body;
                scope.spawn(move || {
                    let start = http::post(address, "/execute", body).expect(200).json();
                    let id = start["session_id"].as_str().expect("an identifier").to_owned();
                    http::get(address, &format!("/stream?session_id={id}")).expect(200);
                    id
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().expect("it ends")).collect()
    });
    let file = std::fs::read(repository.path().join("session-reports/session_history.json")).expect("it is there");
    let history: Value = serde_json::from_slice(&file).expect("it is whole");
    let listed: Vec<&str> = history["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["id"].as_str())
        .collect();
    assert_eq!(listed.len(), DAEMONS * SESSIONS);
    assert_eq!(
        listed.iter().copied().collect::<BTreeSet<_>>(),
        started.iter().map(String::as_str).collect::<BTreeSet<_>>()
    );
    assert!(listed.windows(2).all(|pair| pair[0] > pair[1]), "the newest first");
    let latest = std::fs::read_to_string(repository.path().join("session-reports/session_latest.md"));
    assert!(
        latest
            .expect("it leads somewhere")
            .starts_with("# Session report: explain")
    );
}
