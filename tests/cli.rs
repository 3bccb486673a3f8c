//! The command line: messages, exit codes, what goes where.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::providers::scripted;
use crate::support::{Home, folder};

#[test]
fn a_missing_target_is_named_as_it_was_given() {
    let (home, repository) = (Home::offline(), folder(&[("a.py", "x = 1\n")]));
    let finished = home.run(repository.path(), &["explain", "nosuchfile.py"]).expect(2);
    assert!(
        finished
            .stderr
            .starts_with("[error] File not found: nosuchfile.py\nhint: "),
        "{}",
        finished.stderr
    );
    assert_eq!(finished.stdout, "");
    assert!(
        !home.path().join("backend.json").exists(),
        "no session, and no backend for one"
    );
    assert!(!repository.path().join("session-reports").exists());
}

#[test]
fn what_makes_no_sense_or_is_not_there_is_exit_code_2_and_no_operation_begins() {
    let (_server, home) = scripted([]);
    let repository = folder(&[("lib/a.py", "x = 1\n"), ("notes.txt", "x\n"), (".env", "KEY=1\n")]);
    let said = |arguments: &[&str]| home.run(repository.path(), arguments).expect(2).stderr;
    let outside = "File not found: ../\nhint: the path lies outside the repository";
    for (arguments, message) in [
        (&["explain", "../"][..], outside),
        (&["test-gen", "../"], outside),
        (
            &["test-gen", "lib"],
            "Not a file but a directory: lib\nhint: name one file",
        ),
        (
            &["test-gen", "notes.txt"],
            "Not a source file: notes.txt\nhint: name one file",
        ),
        (&["explain", ".", "--repo", "/"], "`/` is the whole machine"),
        (&["context", ".", "--repo", "/"], "`/` is the whole machine"),
        (
            &["skill", "call", "nosuch", "{}"],
            "There is no skill named `nosuch`\nhint: ",
        ),
        (
            &["skill", "call", "read_file", r#"{"pat": 1}"#],
            "Invalid arguments for `read_file`",
        ),
        (
            &["skill", "inspect", "nosuch"],
            "There is neither a file nor a skill named `nosuch`",
        ),
        (
            &["skill", "remove", "nosuch"],
            "there is no added or waiting skill named `nosuch`",
        ),
        (
            &["undo", "deadbeef"],
            "The history has no session whose identifier begins or ends with `deadbeef`",
        ),
        (
            &["diff", "deadbeef"],
            "The history has no session whose identifier begins or ends with `deadbeef`",
        ),
        (
            &["results", "deadbeef"],
            "The history has no session whose identifier begins or ends with `deadbeef`",
        ),
        (
            &["cancel", "deadbeef"],
            "The history has no session whose identifier begins or ends with `deadbeef`",
        ),
    ] {
        let said = said(arguments);
        assert!(said.starts_with(&format!("[error] {message}")), "{arguments:?}: {said}");
    }
    assert!(!repository.path().join("session-reports").exists());
    // A file that exists and may not be read is denied; a skill that looks for something in vain has looked for it.
    home.run(repository.path(), &["explain", ".env"]).expect(1);
    let call = ["skill", "call", "read_file", r#"{"path": "nosuch.py"}"#];
    home.run(repository.path(), &call).expect(1);
    home.run(repository.path(), &["undo"]).expect(1);
}

#[test]
fn no_configuration_is_exit_code_2_and_starts_nothing() {
    let (home, repository) = (Home::empty(), folder(&[("a.py", "x = 1\n")]));
    let finished = home.run(repository.path(), &["explain", "."]).expect(2);
    let first = finished.stderr.lines().next();
    assert_eq!(first, Some("[error] Configuration file not found: ~/.tool/config.toml"));
    assert!(finished.stderr.contains("hint: run `tool init`"), "{}", finished.stderr);
    assert!(!home.path().join("backend.json").exists());
}

#[test]
fn broken_toml_is_exit_code_2() {
    let (home, repository) = (Home::configured("[providers.local\n"), folder(&[("a.py", "x = 1\n")]));
    let finished = home.run(repository.path(), &["explain", "."]).expect(2);
    assert!(
        finished
            .stderr
            .starts_with("[error] Failed to parse config: Invalid TOML syntax\n"),
        "{}",
        finished.stderr
    );
}

#[test]
fn an_empty_repository_says_so() {
    let (home, repository) = (Home::offline(), folder(&[]));
    let finished = home.run(repository.path(), &["explain", "."]).expect(1);
    assert!(
        finished.stderr.contains("[error] No files found in repository"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_taken_port_is_exit_code_3() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let home = Home::offline();
    let mut command = home.tool(Path::new("/"), &["service", "start"]);
    let finished = crate::support::finish(
        command
            .env("TOOL_BACKEND_PORT", port.to_string())
            .output()
            .expect("it runs"),
    );
    let finished = finished.expect(3);
    let expected = format!("[error] Failed to start backend: Port {port} already in use\n");
    assert!(finished.stderr.starts_with(&expected), "{}", finished.stderr);
}

/// The record names a stranger's port. The command line does not connect to it.
#[test]
fn commands_do_not_connect_to_a_server_on_the_port() {
    let home = Home::offline();
    home.serve();
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a free port");
    stranger.set_nonblocking(true).expect("a mode");
    let mut record = home.record();
    record["port"] = stranger.local_addr().expect("an address").port().into();
    std::fs::write(home.path().join("backend.json"), record.to_string()).expect("the folder is writable");
    let repository = folder(&[("secret_plan.py", "x = 1\n")]);
    home.run(repository.path(), &["explain", "."]).expect(0);
    assert!(stranger.accept().is_err(), "it was connected to");
}

/// Another process of the user listens on the socket in place of the backend: it gets no token and no prompt.
#[test]
fn commands_send_nothing_to_another_process_on_the_socket() {
    let home = Home::offline();
    home.serve();
    let (pid, place) = (home.pid(), home.path().join("backend.sock"));
    std::fs::remove_file(&place).expect("it is there");
    let stranger = UnixListener::bind(&place).expect("the folder is writable");
    let heard = std::thread::spawn(move || {
        let (mut connection, _) = stranger.accept().expect("a connection");
        let patience = Some(Duration::from_secs(10));
        connection.set_read_timeout(patience).expect("a time-out");
        let mut heard = Vec::new();
        connection.read_to_end(&mut heard).expect("it is closed");
        heard
    });
    let repository = folder(&[("secret_plan.py", "x = 1\n")]);
    let refused = home.run(repository.path(), &["explain", "."]).expect(3);
    let said = format!(
        "[error] `{}` is served by another process than the backend (process {}, not {}); nothing was sent to it\nhint: \
         end process {}",
        place.display(),
        std::process::id(),
        pid.as_raw_nonzero(),
        pid.as_raw_nonzero(),
    );
    assert!(refused.stderr.contains(&said), "{}", refused.stderr);
    assert_eq!(heard.join().expect("the server ends"), b"");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
}

#[test]
fn the_service_starts_once_stops_and_says_how_it_is() {
    let home = Home::offline();
    let status = home.run(Path::new("/"), &["service", "status"]).expect(3);
    assert!(status.stdout.contains("not running"), "{}", status.stdout);
    home.serve();
    let pid = std::fs::read_to_string(home.path().join("backend.pid")).expect("a pid file");
    assert_eq!(pid, home.record()["pid"].to_string(), "the pid and nothing else");
    let again = home.run(Path::new("/"), &["service", "start"]).expect(0);
    assert!(again.stdout.contains("already running"), "{}", again.stdout);
    home.run(Path::new("/"), &["service", "status"]).expect(0);
    home.run(Path::new("/"), &["service", "restart"]).expect(0);
    assert_ne!(pid, home.record()["pid"].to_string());
    home.run(Path::new("/"), &["service", "stop"]).expect(0);
    assert!(!home.path().join("backend.pid").exists());
    home.run(Path::new("/"), &["service", "status"]).expect(3);
    for log in ["backend.log", "logs/backend.log"] {
        let text = std::fs::read_to_string(home.path().join(log)).expect("both documented places hold the log");
        assert!(text.contains("ready"), "{text}");
    }
}

#[test]
fn json_prints_one_event_a_line() {
    let (home, repository) = (
        Home::offline(),
        folder(&[
            ("main.py", "def main():\n    pass\n"),
            ("README.md", "# A\n\nA thing that does.\n"),
        ]),
    );
    let finished = home.run(repository.path(), &["explain", ".", "--json"]).expect(0);
    let events: Vec<serde_json::Value> = finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("one event a line"))
        .collect();
    assert_eq!(events.last().expect("events")["type"], "complete");
    assert!(events.iter().any(|event| event["type"] == "selection"));
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "skill" && event["name"] == "list_files")
    );
}
