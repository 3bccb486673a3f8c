//! Several daemons of different homes that work in the same directory, and as many open files as one asks for.

use std::collections::BTreeSet;

use host::provider::script::{ModelServer, Round, Script};
use serde_json::Value;

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

/// A shell commonly gives 1,024, which five hundred readers and two hundred sessions use up.
#[test]
fn a_daemon_asks_for_more_open_files_than_a_shell_gives() {
    let home = Home::offline();
    let (tool, from) = (
        home.tool(std::path::Path::new("/"), &[]),
        "ulimit -Sn 300; exec \"$0\" service start",
    );
    #[expect(clippy::disallowed_methods, reason = "a shell sets the bound")]
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", from]).arg(tool.get_program()).env_clear();
    for (name, value) in tool.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    assert!(shell.status().expect("it runs").success());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", home.pid().as_raw_nonzero()));
    let limits = limits.expect("it is alive");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .expect("it is there");
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers[0], numbers[1].min(host::limits::FILES_OPEN_WANTED), "{line}");
}
