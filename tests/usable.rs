//! Errors that a beginner meets: slips of the hand, half a configuration, a port that is taken.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use tool_model_server::{Round, ServerStep};

use crate::conformance::http;
use crate::conformance::world::{SHOP, World, calls, says};
use crate::support::{Finished, Home, finish, folder, holds, until};

const ANALYST: &str = "[providers.local]\nenabled = true\nurl = \"builtin:analyst\"\n";

fn nowhere() -> &'static Path {
    Path::new("/")
}

fn json_of(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"))
}

/// A port that another program holds.
fn taken() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    (listener, port)
}

/// Runs with another port than that of the tests' environment.
fn on_port(home: &Home, port: Option<&str>, arguments: &[&str]) -> Finished {
    let mut command = home.tool(nowhere(), arguments);
    match port {
        Some(port) => command.env("TOOL_BACKEND_PORT", port),
        None => command.env_remove("TOOL_BACKEND_PORT"),
    };
    finish(command.output().expect("the binary runs"))
}

// ---- the configuration ----

#[test]
fn a_configuration_that_starts_nothing_is_called_that_by_every_command() {
    let repository = folder(&[("a.py", "x = 1\n")]);
    for (policy, said, place) in [
        (
            "[policy]\nallow = [\"instal\"]\n",
            "Unknown effect `instal` in `[policy] allow`",
            "line 5, column 10",
        ),
        (
            "[policy]\nhide = [\"[bad\"]\n",
            "`[bad` in `[policy] hide` is not a valid pattern",
            "line 5, column 9",
        ),
        (
            "[logging]\nlevel = \"LOUD\"\n",
            "`level` of [logging] is no level of the log: `LOUD`",
            "line 5, column 9",
        ),
    ] {
        let home = Home::configured(&format!("{ANALYST}{policy}"));
        for arguments in [&["config"][..], &["doctor"], &["explain", "."]] {
            let finished = home.run(repository.path(), arguments).expect(2);
            let all = finished.stdout + &finished.stderr;
            holds(&all, &[said, &format!("{place} of config.toml")]);
        }
        assert!(!home.path().join("backend.json").exists(), "nothing was started for it");
    }
    let home = Home::configured(&format!("{ANALYST}[policy]\nallow = [\"instal\"]\n"));
    holds(
        &home.run(repository.path(), &["config"]).expect(2).stderr,
        &["did you mean `install`?"],
    );
    let home = Home::configured(&format!("{ANALYST}[context]\nvault = \"/nowhere/notes\"\n"));
    let warned = home.run(repository.path(), &["config"]).expect(0);
    holds(
        &warned.stderr,
        &["[warning] the notes vault `/nowhere/notes` is no folder"],
    );
    holds(
        &home.run(repository.path(), &["doctor"]).expect(0).stdout,
        &["warn", "`/nowhere/notes`"],
    );
}

#[test]
fn the_file_of_a_repository_is_shown_with_what_it_forbids() {
    let home = Home::configured(ANALYST);
    let narrowed = folder(&[
        ("a.py", "x = 1\n"),
        (".tool.toml", "[policy]\ndeny = [\"install\"]\nhide = [\"*.draft\"]\n"),
    ]);
    let shown = home.run(narrowed.path(), &["config"]).expect(0).stdout;
    holds(
        &shown,
        &[
            "repository.policy.deny",
            "[\"install\"]",
            "repository.policy.hide",
            ".tool.toml",
        ],
    );
    let doctor = home.run(narrowed.path(), &["doctor"]).expect(0).stdout;
    holds(&doctor, &["repository file", "denies install; hides *.draft"]);
    let broken = folder(&[("a.py", "x = 1\n"), (".tool.toml", "[policy]\ndeny = [\"instal\"]\n")]);
    for command in ["config", "doctor"] {
        let finished = home.run(broken.path(), &[command]).expect(2);
        let all = finished.stdout + &finished.stderr;
        holds(
            &all,
            &[
                "`.tool.toml`, `deny`, line 2, column 9: Unknown effect `instal`",
                "did you mean `install`?",
            ],
        );
    }
}

#[test]
fn init_says_where_requests_go_and_which_address_it_dropped() {
    let home = Home::empty();
    let init = |arguments: &[&str]| home.run(nowhere(), &[&["init"], arguments].concat()).expect(0);
    let mine = "http://10.0.0.5:9999/v1";
    let local = ["--provider", "local", "--model", "m"];
    holds(
        &init(&[&local[..], &["--url", mine]].concat()).stdout,
        &["`local` is enabled, at http://10.0.0.5:9999/v1."],
    );
    holds(&init(&local).stdout, &["at http://10.0.0.5:9999/v1."]);
    let reset = init(&[&local[..], &["--url", "default"]].concat());
    holds(&reset.stdout, &["at http://127.0.0.1:1234/v1."]);
    holds(&reset.stderr, &["The new URL replaces http://10.0.0.5:9999/v1."]);
    let hosted = ["--provider", "hosted", "--model", "m"];
    init(&[&hosted[..], &["--url", "https://proxy.example"]].concat());
    let other_wire = init(&[&hosted[..], &["--api", "chat"]].concat());
    holds(&other_wire.stdout, &["at https://api.openai.com/v1."]);
    holds(
        &other_wire.stderr,
        &["The URL https://proxy.example belonged to another provider or API and was removed."],
    );
}

// ---- the port ----

#[test]
fn the_port_can_be_configured() {
    let (free, port) = taken();
    drop(free);
    let home = Home::configured(&format!("{ANALYST}[server]\nport = {port}\n"));
    holds(
        &on_port(&home, None, &["service", "start"]).expect(0).stdout,
        &[&format!("on port {port},")],
    );
    let (free, other) = taken();
    drop(free);
    let written = on_port(&home, None, &["init", "--port", &other]).expect(0);
    holds(&written.stdout, &[&format!("the backend's port is {other}.")]);
    holds(&written.stderr, &["`tool service restart` takes the new one"]);
    holds(
        &on_port(&home, None, &["service", "restart"]).expect(0).stdout,
        &[&format!("on port {other},")],
    );
    let kept = fs::read_to_string(home.path().join("config.toml")).expect("it is there");
    holds(&kept, &["builtin:analyst", &format!("port = {other}")]);
}

#[test]
fn a_restart_leaves_the_old_backend_where_the_new_port_is_taken() {
    let home = Home::configured(ANALYST);
    home.serve();
    let (pid, (_stranger, port)) = (home.pid(), taken());
    let refused = on_port(&home, Some(&port), &["service", "restart"]).expect(3);
    let holder = format!("process {} (", std::process::id());
    let message = format!("[error] Failed to start backend: Port {port} already in use");
    holds(
        &refused.stderr,
        &[&message, &holder, "the running backend was left as it is"],
    );
    assert_eq!(home.pid(), pid);
    holds(
        &home.run(nowhere(), &["service", "status"]).expect(0).stdout,
        &["0 sessions under way."],
    );
}

#[test]
fn what_only_reads_says_where_the_answer_lies_without_a_backend() {
    let home = Home::configured(ANALYST);
    let (_stranger, port) = taken();
    for arguments in [&["history"][..], &["results"], &["diff"]] {
        let refused = on_port(&home, Some(&port), arguments).expect(3);
        let folder = home.path().join("sessions");
        holds(
            &refused.stderr,
            &["already in use", "`tool init --port N`", &folder.to_string_lossy()],
        );
    }
}

// ---- sessions under way ----

/// Follows the running session until its answer has begun. The reader of the output is kept, or it would have none.
fn attach(world: &World) -> (Child, ChildStdout) {
    let mut attach = world.home.tool(world.root(), &["attach", "latest"]);
    let attach = attach.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut attached = attach.spawn().expect("the binary runs");
    let (mut stdout, mut said) = (attached.stdout.take().expect("it is piped"), Vec::new());
    while !said.ends_with(b"It begins. ") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).expect("it follows from the first event");
        said.extend(byte);
    }
    (attached, stdout)
}

#[test]
fn a_session_under_way_is_listed_followed_and_cancelled() {
    let world = World::new(
        SHOP,
        [Round::new([
            ServerStep::Text("It begins. ".to_owned()),
            ServerStep::Stall,
        ])],
    );
    let start = http::post(&world.home.serve(), "/execute", &world.body("explain", "."))
        .expect(200)
        .json();
    let start = start["session_id"].as_str().expect("an identifier").to_owned();
    let listed = || world.run(&["history", "--json"]).expect(0);
    until("the session is listed", || {
        json_of(&listed())["running"][0]["session_id"] == start.as_str()
    });
    let shown = world.run(&["history"]).expect(0);
    assert!(
        shown.stdout.contains(&start[28..]) && shown.stdout.contains("  running"),
        "{}",
        shown.stdout
    );
    holds(
        &shown.stderr,
        &[&format!(
            "`tool attach {start}` follows it, `tool cancel {start}` ends it"
        )],
    );
    let (attached, _stdout) = attach(&world);
    let cancelled = world.run(&["cancel", &start[..30]]).expect(0);
    holds(&cancelled.stdout, &[&format!("The session {start} is cancelled.")]);
    let attached = finish(attached.wait_with_output().expect("it ends"));
    holds(&attached.expect(1).stderr, &["[error] The session was cancelled"]);
    let gone = world.run(&["attach"]).expect(1);
    holds(&gone.stderr, &["is under way", "`tool history`"]);
    assert_eq!(json_of(&listed())["sessions"][0]["status"], "cancelled");
}

#[test]
fn an_attached_command_names_the_way_back_from_a_change_that_is_not_verified() {
    let write = calls([("write_file", json!({"path": "new.py", "content": "x = 1\n"}))]);
    let answer = Round::new([
        ServerStep::Text("It begins. ".to_owned()),
        ServerStep::Gate("attached".to_owned()),
        ServerStep::Text("Done.".to_owned()),
    ]);
    let files = [("app.py", "x = 1\n"), ("test_app.py", "def test_x():\n    pass\n")];
    let world = World::new(&files, [write, answer]);
    let mut body = world.body("refactor", "add a file");
    body["policy"] = json!({"deny": ["run-process"]});
    let start = http::post(&world.home.serve(), "/execute", &body).expect(200).json();
    let start = start["session_id"].as_str().expect("an identifier").to_owned();
    until("the model is asked", || world.server.requests().len() == 2);
    let (attached, _stdout) = attach(&world);
    world.server.release("attached");
    let attached = finish(attached.wait_with_output().expect("it ends")).expect(1);
    holds(
        &attached.stderr,
        &[
            "[error] refactor is not verified: ",
            &format!("take it as it is with `--unverified`; `tool undo {start}` brings the old state back\n"),
        ],
    );
}

#[test]
fn an_undone_session_is_marked_with_the_undo_that_did_it() {
    let write = calls([("write_file", json!({"path": "new.py", "content": "x = 1\n"}))]);
    let world = World::new(SHOP, [write, says(&["Done."])]);
    world.run(&["refactor", "add a file"]).expect(0);
    let entry = || json_of(&world.run(&["history", "--json"]).expect(0))["sessions"][0].clone();
    assert_eq!(entry()["undone_by"], Value::Null);
    let undone = json_of(&world.run(&["undo", "--json"]).expect(0));
    let undo = undone["undo_session_id"].as_str().expect("an identifier");
    assert_eq!(entry()["undone_by"], undo);
    holds(
        &world.run(&["history"]).expect(0).stdout,
        &[&format!("undone by {undo}")],
    );
    world.run(&["undo", undo]).expect(0);
    assert_eq!(entry()["undone_by"], Value::Null, "the undo was taken back");
}

// ---- calls of the user's own ----

#[test]
fn a_call_of_the_users_own_may_change_the_file_that_it_names() {
    let home = Home::configured(ANALYST);
    let repository = folder(&[("a.py", "x = 1\n")]);
    let arguments = json!({"path": "a.py", "content": "x = 2\n"}).to_string();
    let call = ["skill", "call", "write_file", &arguments];
    home.run(repository.path(), &call).expect(1);
    let allowed = [&call[..], &["--allow", "write-repository"]].concat();
    holds(
        &home.run(repository.path(), &allowed).expect(0).stderr,
        &["changed a.py"],
    );
    let content = fs::read_to_string(repository.path().join("a.py")).expect("it is there");
    assert_eq!(content, "x = 2\n");
}

#[test]
fn slips_in_a_call_are_told_with_what_was_meant() {
    let home = Home::configured(ANALYST);
    let repository = folder(&[
        ("a.py", "x = 1\n"),
        (".env", "A=1\n"),
        (".tool.toml", "[policy]\nhide = [\"*.draft\"]\n"),
    ]);
    std::os::unix::fs::symlink("/etc/hostname", repository.path().join("out")).expect("it can be linked");
    let called = |skill: &str, arguments: &str| home.run(repository.path(), &["skill", "call", skill, arguments]);
    let call = |skill: &str, arguments: &str| called(skill, arguments).expect(1).stderr;
    let slip = called("run_tests", r#"{"path": ["a.py"]}"#).expect(2).stderr;
    holds(&slip, &["no field `path` (did you mean `paths`?).\n"]);
    for (path, why) in [
        (".env", "hint: it holds environment variables, which are often secrets"),
        ("b.draft", "hint: it is hidden by the repository's `.tool.toml`"),
    ] {
        let said = call("read_file", &json!({"path": path}).to_string());
        holds(&said, &[&format!("`{path}` may not be opened"), why]);
    }
    let said = call("read_file", r#"{"path": "out"}"#);
    assert!(said.contains("hint: it "), "{said}");
    let helped = home.run(nowhere(), &["help", "explan"]).expect(2).stderr;
    holds(&helped, &["hint: did you mean `explain`?"]);
}

#[test]
fn tests_that_fail_fail_the_call() {
    let home = Home::configured(ANALYST);
    let script = |code: u8| json!({"scripts": {"test": format!("node -e 'process.exit({code})'")}}).to_string();
    for (exit, code) in [(0, 0), (1, 1)] {
        let repository = folder(&[("package.json", &script(exit))]);
        let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process"];
        let finished = home.run(repository.path(), &call);
        assert_eq!(finished.code, code, "{finished:?}");
    }
}

#[test]
fn an_error_is_not_lost_in_a_file_that_is_not_written() {
    let world = World::new(SHOP, []);
    let refused = world
        .run(&["explain", ".", "--json", "--output", "events.jsonl"])
        .expect(1);
    holds(&refused.stderr, &["[error] ", "`events.jsonl` was not written"]);
}

#[test]
fn keys_that_were_kept_back_are_no_error() {
    let key = format!("AKIA{}", "QWERTYUIOPASDFGH");
    let world = World::repeating(
        &[("README.md", &format!("# A\n\naws_access_key_id = {key}\n"))],
        says(&["Read (README.md:1)."]),
    );
    let told = world.run(&["explain", "."]).expect(0).stderr;
    assert!(
        told.contains("in what went to the model") && !told.contains("[error]"),
        "{told}"
    );
    let home = Home::configured(ANALYST);
    let told = home.run(world.root(), &["explain", "."]).expect(0).stderr;
    assert!(!told.contains("what went to the model"), "{told}");
}

// ---- the proof ----

#[test]
fn without_room_no_attempt_is_made() {
    let home = Home::empty();
    for (json, folder) in [(false, "/nowhere/at/all"), (true, "/proc")] {
        let mut command = home.tool(nowhere(), &["doctor", "--sandbox"]);
        if json {
            command.arg("--json");
        }
        let finished = finish(command.env("TMPDIR", folder).output().expect("the binary runs")).expect(1);
        assert_eq!(finished.stdout, "", "no hole is claimed");
        holds(
            &finished.stderr,
            &[
                "[error] No attempt was made: the folder for temporary files",
                "set TMPDIR",
            ],
        );
    }
}
